/* begun.c -- see begun.h. */
#include "begun.h"
#include "argument.h"

static const char *past_space(const char *p, const char *end)
{
    while (p < end && is_space(*p)) p++;
    return p;
}

/* The text after `words` and the white space before them; NULL: another text. */
static const char *past(const char *p, const char *end, const char *words)
{
    if (!p || !words) return NULL;
    p = past_space(p, end);
    return begins(p, end, words) ? p + text_bytes(words) : NULL;
}

static bool is_named(struct begun *out, const char *name, const char *rest, const char *end)
{
    *out = (struct begun){ .rest = rest, .n_rest = (size_t)(end - rest) };
    memcpy(out->name, name, text_bytes(name));
    return true;
}

/* rest: after the name [n] of a tool. */
static bool is_tool(const struct answer *a, struct begun *out, const char *name, size_t n, const char *rest, const char *end)
{
    uint32_t number = 0, at = 0, digits = 1;
    for (const struct json *t = a->tools->first; t; t = t->next, number++) {
        const struct json *inner = json_member(t, "function"), *other = json_member(inner ? inner : t, "name");
        if (!other || other->kind != JSON_STRING || other->n != n || memcmp(other->text, name, n) != 0) continue;
        is_named(out, "n", rest, end);
        for (uint32_t x = number; x > 9; x /= 10) digits++;
        for (at = digits; at > 0; at--, number /= 10) out->name[at] = (char)('0' + number % 10);
        out->name[digits + 1] = ':';
        return true;
    }
    return false;
}

/* [>>>] NAME, and the end of the line. */
static bool begins_line(const struct answer *a, struct begun *out, const char *p, const char *end)
{
    const char *from = past(p, end, a->family->call);
    if (!from) from = p;
    from = past_space(from, end);
    const char *line = memchr(from, '\n', (size_t)(end - from)), *last = line;
    while (last && last > from && is_space(last[-1])) last--;
    return line && is_tool(a, out, from, (size_t)(last - from), line + 1, end);
}

/* {"name": "NAME", perhaps after "type": "function". */
static bool begins_object(const struct answer *a, struct begun *out, const char *p, const char *end)
{
    const char *in = past(p, end, "{"), *type = past(past(past(past(in, end, "\"type\""), end, ":"), end, "\"function\""), end, ",");
    const char *name = past(past(past(type ? type : in, end, "\"name\""), end, ":"), end, "\"");
    const char *close = name ? memchr(name, '"', (size_t)(end - name)) : NULL;
    return close && is_tool(a, out, name, (size_t)(close - name), close + 1, end);
}

/* In a header, which ends at <|message|>. */
static bool begins_in_header(struct begun *out, const char *p, const char *end)
{
    for (; p < end && !begins(p, end, "<|message|>"); p++)
        if (begins(p, end, "to=functions.")) return is_named(out, "h", p + text_bytes("to=functions."), end);
    return false;
}

/* Is the mark a word that may occur in any text? */
static bool is_word(const char *mark)
{
    for (; *mark; mark++) if (memchr("<[|", *mark, 3)) return false;
    return true;
}

bool begun_call(const struct answer *a, struct begun *out)
{
    const struct chat_family *f = a->family;
    const char *p = a->hold, *end = p + a->n, *open;
    if (!a->in_call || !a->tools || a->quoted) return false;
    if (f->flags & CHAT_FUNCTIONS) return begins_in_header(out, p, end);
    if (f->flags & CHAT_LINE) return begins_line(a, out, p, end);
    if (f->flags & CHAT_BARE) return begins_object(a, out, f->code && begins(p, end, f->code) ? p + text_bytes(f->code) : p, end);
    open = f->open && begins(p, end, f->open) ? p + text_bytes(f->open) : NULL;
    if (f->shape == CHAT_JSON && f->call) {                  /* the mark that opens a block opens other messages, too */
        const char *call = past(open ? open : p, end, f->call);
        return call && is_named(out, "c", call, end);
    }
    if (open) return (!is_word(f->open) || (open < end && *open == '[')) && is_named(out, "o", open, end);
    return f->call && begins(p, end, f->call) && is_named(out, "c", p + text_bytes(f->call), end);
}

void begun_call_ends(struct answer *a)
{
    a->n = a->skip = 0;
    a->in_call = a->header = a->first = a->reasoning = a->blank = false;
    a->fresh = true;
    a->inside = NOT_INSIDE;
    a->last = 0;
}
