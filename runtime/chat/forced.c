/* forced.c -- see forced.h. */
#include "forced.h"
#include "argument.h"
#include "grammar.h"

enum { MARK_MOST = 64 };
#define GAP "gap ::= (\" \" | \"\\n\" \" \"{0,4})?\n"

struct forced_writer { const struct answer_force *force; const struct chat_family *f; struct text_out *out; };
struct tool { const char *name; size_t n; const struct json *function, *parameters; uint32_t number; };

/* Does a call begin with the name of its tool, without a mark that only calls have?  Does each call begin with a mark? */
static bool begins_with_name(const struct chat_family *f) { return f->flags & (CHAT_LINE | CHAT_BARE); }
static bool begins_with_mark(const struct chat_family *f)
{
    return f->flags & CHAT_FUNCTIONS || f->shape == CHAT_NAMED || f->shape == CHAT_TAGGED || f->shape == CHAT_ELEMENTS;
}

/* The member called name of a tool's parameters, which may be a reference. */
static const struct json *of_parameters(const struct tool *t, const char *name)
{
    return json_member(argument_referred(t->parameters, t->parameters), name);
}

static void put(struct forced_writer *w, const char *words) { text_out_put(w->out, words, text_bytes(words)); }

static void put_number(struct forced_writer *w, uint32_t x)
{
    if (x > 9) put_number(w, x / 10);
    text_out_char(w->out, (char)('0' + x % 10));
}

static int32_t control_at(const struct forced_writer *w, const char *text, size_t n, size_t *used)
{
    return w->force->control && n ? w->force->control(w->force->context, text, n, used) : -1;
}

/* Writes text of the format: literals, and control tokens by their number. */
static void put_text_n(struct forced_writer *w, const char *text, size_t n)
{
    for (size_t from = 0, at = 0; ; at++) {
        size_t used = 0;
        const int32_t token = at < n ? control_at(w, text + at, n - at, &used) : -1;
        if (token < 0 && at < n) continue;
        if (at > from) {
            text_out_char(w->out, ' ');
            grammar_put_literal(w->out, text + from, at - from);
        }
        if (at >= n) return;
        put(w, " <[");
        put_number(w, (uint32_t)token);
        put(w, "]>");
        from = at + used;
        at = from - 1;
    }
}
/* Writes a name from the request: only its characters, never tokens. */
static void put_name(struct forced_writer *w, const char *name, size_t n)
{
    text_out_char(w->out, ' ');
    grammar_put_literal(w->out, name, n);
}
static void put_text(struct forced_writer *w, const char *text) { if (text) put_text_n(w, text, text_bytes(text)); }

/* ---- text up to a mark ---- */

static void put_rule_name(struct forced_writer *w, const char *name, uint32_t i)
{
    put(w, name);
    text_out_char(w->out, '-');
    put_number(w, i);
}

static void put_class_character(struct forced_writer *w, const char *c, size_t n)
{
    if (n == 1 && *c == '\n') { put(w, "\\n"); return; }
    if (n == 1 && memchr("\\]^-[", *c, 5)) text_out_char(w->out, '\\');
    text_out_put(w->out, c, n);
}

/* Writes the rule `name`: any text up to the first occurrence of the mark, and the mark.  The states are those of the algorithm of
 * Knuth, Morris and Pratt, on characters. */
static void put_until(struct forced_writer *w, const char *name, const char *mark)
{
    struct { const char *p; size_t n; } c[MARK_MOST];
    uint32_t n = 0, border[MARK_MOST + 1] = { 0 };
    size_t used;
    put(w, name);
    put(w, " ::= ");
    if (control_at(w, mark, text_bytes(mark), &used) >= 0) {
        put(w, ".*");
        put_text(w, mark);
        put(w, "\n");
        return;
    }
    for (const char *p = mark; *p && n < MARK_MOST; p += c[n++].n) {
        c[n].p = p;
        c[n].n = json_utf8(p, text_bytes(p));
    }
    for (uint32_t i = 1, k = 0; i < n; i++) {
        while (k && !(c[k].n == c[i].n && memcmp(c[k].p, c[i].p, c[k].n) == 0)) k = border[k];
        if (c[k].n == c[i].n && memcmp(c[k].p, c[i].p, c[k].n) == 0) k++;
        border[i + 1] = k;
    }
    put_rule_name(w, name, 0);
    put(w, "\n");
    for (uint32_t state = 0; state < n; state++) {
        uint32_t leads[MARK_MOST];                           /* the state after character i of the mark; 0: the first state, or the same
                                                              * character occurred before */
        for (uint32_t i = 0; i < n; i++) {
            uint32_t k = state;
            while (k && !(c[k].n == c[i].n && memcmp(c[k].p, c[i].p, c[k].n) == 0)) k = border[k];
            leads[i] = c[k].n == c[i].n && memcmp(c[k].p, c[i].p, c[k].n) == 0 ? k + 1 : 0;
            for (uint32_t j = 0; j < i; j++) if (c[j].n == c[i].n && memcmp(c[j].p, c[i].p, c[i].n) == 0) leads[i] = 0;
        }
        put_rule_name(w, name, state);
        put(w, " ::= [^");
        for (uint32_t i = 0; i < n; i++) if (leads[i]) put_class_character(w, c[i].p, c[i].n);
        put(w, "] ");
        put_rule_name(w, name, 0);
        for (uint32_t i = 0; i < n; i++) {
            if (!leads[i]) continue;
            put(w, " | ");
            grammar_put_literal(w->out, c[i].p, c[i].n);
            text_out_char(w->out, ' ');
            if (leads[i] < n) put_rule_name(w, name, leads[i]);
        }
        put(w, "\n");
    }
}

/* ---- calls ---- */

static void put_argument_name(struct forced_writer *w, const struct tool *t, const struct json *schema, int32_t property)
{
    char bytes[32];
    struct text_out name = { bytes, sizeof bytes - 1, 0, false };
    struct forced_writer in_name = { w->force, w->f, &name };
    put(&in_name, property < 0 ? "args-" : "arg-");
    put_number(&in_name, t->number);
    if (property >= 0) {
        put(&in_name, "-");
        put_number(&in_name, (uint32_t)property);
    }
    bytes[name.n] = 0;
    text_out_char(w->out, ' ');
    put(w, bytes);
    if (w->force->rule) w->force->rule(w->force->context, bytes, schema, t->function);
}

/* Writes {"name": "%", "arguments": @}. */
static void put_object(struct forced_writer *w, const struct tool *t)
{
    const char *form = w->f->object ? w->f->object : "{\"name\": \"%\", \"arguments\": @}";
    for (const char *from = form, *p = form; ; p++) {
        if (*p && !memchr("%@#~", *p, 4)) continue;
        put_text_n(w, from, (size_t)(p - from));
        if (*p == '%') put_name(w, t->name, t->n);
        if (*p == '@') put_argument_name(w, t, t->parameters, -1);
        if (*p == '#') put(w, " [a-zA-Z0-9]{9}");            /* Mistral's templates require this */
        if (*p == '~') put(w, " [0-9]{1,3}");
        if (!*p) return;
        from = p + 1;
    }
}

/* Writes the mark with which a call begins.  If it stands in the answer already, what follows is a rule of its own. */
static void put_beginning(struct forced_writer *w, const struct tool *t, const char *mark)
{
    put_text(w, mark);
    if (!w->force->begun) return;
    put_rule_name(w, " body", t->number);
    put_rule_name(w, "\nbody", t->number);
    put(w, " ::=");
}

static void put_named(struct forced_writer *w, const struct tool *t)
{
    const struct chat_family *f = w->f;
    if (!(f->flags & CHAT_LINE)) put_beginning(w, t, f->call);
    if (f->flags & CHAT_ID_FIRST) put(w, " [a-zA-Z0-9]{1,32}");
    if (f->flags & CHAT_KIND) put_text(w, "function");
    if (f->flags & CHAT_ID_NAMES) put_text(w, "functions.");
    if (f->name_mark) put_text(w, f->name_mark);
    put_name(w, t->name, t->n);
    if (f->flags & CHAT_ID_NAMES) put(w, " \":\" [0-9]{1,3}");
    if (f->id_mark) { put(w, " ("); put_text(w, f->id_mark); put(w, " [a-zA-Z0-9]{9})?"); }
    put_text(w, f->args_mark);
    if (f->flags & CHAT_KIND) put_text(w, "```json\n");
    put_argument_name(w, t, t->parameters, -1);
    if (f->flags & CHAT_KIND) put_text(w, "\n```");
    put_text(w, f->post);
}

static bool is_required(const struct tool *t, const struct json *property)
{
    const struct json *list = of_parameters(t, "required");
    for (const struct json *r = list ? list->first : NULL; r; r = r->next)
        if (r->kind == JSON_STRING && r->n == property->n_name && memcmp(r->text, property->name, r->n) == 0) return true;
    return false;
}

static void put_value(struct forced_writer *w, const struct tool *t, const struct json *property, uint32_t i)
{
    if (argument_is_text(t->parameters, property)) put(w, " text");
    else {
        put_argument_name(w, t, property, (int32_t)i);
        if (w->f->flags & CHAT_VALUE_LINES) put_text(w, "\n");
        put_text(w, w->f->value_end);
    }
}

/* Writes arguments with a tag for each, in the order of the schema. */
static void put_tagged(struct forced_writer *w, const struct tool *t)
{
    const struct chat_family *f = w->f;
    const struct json *properties = of_parameters(t, "properties");
    uint32_t i = 0;
    put_beginning(w, t, f->call);
    put_name(w, t->name, t->n);
    if (f->flags & CHAT_NAME_LINE) put_text(w, f->name_mark);
    else {
        if (f->flags & CHAT_QUOTED) put_text(w, "\"");
        if (f->raw[0]) put(w, " \" index=\\\"\" [0-9]{1,3} \"\\\"\"");
        put_text(w, f->tag_end);
    }
    put(w, " nl");
    for (const struct json *p = properties ? properties->first : NULL; p; p = p->next, i++) {
        const bool is_text = argument_is_text(t->parameters, p);
        put(w, " (");
        put_text(w, f->key);
        if (f->shape == CHAT_ELEMENTS) put_text(w, "<");
        put_name(w, p->name, p->n_name);
        if (f->flags & CHAT_QUOTED && f->shape == CHAT_TAGGED) {
            put_text(w, "\"");
            if (f->attributes[0]) { text_out_char(w->out, ' '); put(w, f->attributes[!is_text]); }
        }
        put_text(w, f->tag_end);
        if (f->value) { put(w, " nl"); put_text(w, f->value); }
        if (f->flags & CHAT_VALUE_LINES) put_text(w, "\n");
        put_value(w, t, p, i);
        if (f->shape == CHAT_ELEMENTS) {
            if (!is_text) put_text(w, f->key);
            put_text(w, "</");
            put_name(w, p->name, p->n_name);
            put_text(w, ">");
        }
        put(w, is_required(t, p) ? " nl)" : " nl)?");
    }
    put_text(w, f->post);
}

/* Writes "NAME-N-I". */
static void put_member_name(struct forced_writer *w, const char *name, const struct tool *t, uint32_t i)
{
    put_rule_name(w, name, t->number);
    put_rule_name(w, "", i);
}

/* Writes N(K=V, ...) or N{K:V,...}.  members-N-I are the members from I on, more-N-I the same after a comma. */
static void put_function(struct forced_writer *w, const struct tool *t)
{
    const bool braced = w->f->shape == CHAT_BRACED;
    const struct json *properties = of_parameters(t, "properties");
    uint32_t i = 0;
    if (braced) put_text(w, w->f->call);
    put_name(w, t->name, t->n);
    put_text(w, braced ? "{" : "(");
    put_member_name(w, " members", t, 0);
    put_text(w, braced ? "}" : ")");
    for (const struct json *p = properties ? properties->first : NULL; p; p = p->next, i++) {
        const bool required = is_required(t, p);
        put_member_name(w, "\nmember", t, i);
        put(w, " ::=");
        put_name(w, p->name, p->n_name);
        put_text(w, braced ? ":" : "=");
        if (braced && argument_is_text(t->parameters, p)) { put_text(w, "<|\"|>"); put(w, " text"); }
        else put_argument_name(w, t, p, (int32_t)i);
        put_member_name(w, "\nmembers", t, i);
        put_member_name(w, " ::= member", t, i);
        put_member_name(w, " more", t, i + 1);
        if (!required) put_member_name(w, " | members", t, i + 1);
        put_member_name(w, "\nmore", t, i);
        put(w, " ::=");
        put_text(w, braced ? "," : ", ");
        put_member_name(w, " member", t, i);
        put_member_name(w, " more", t, i + 1);
        if (!required) put_member_name(w, " | more", t, i + 1);
    }
    put_member_name(w, "\nmembers", t, i);
    put_member_name(w, " ::= \"\"\nmore", t, i);
    put(w, " ::= \"\"");
}

/* Writes what follows the name of a tool, in families whose calls begin with the name. */
static void put_named_rest(struct forced_writer *w, const struct tool *t)
{
    put_rule_name(w, "rest", t->number);
    put(w, w->f->flags & CHAT_BARE ? " ::= gap \",\" gap (\"\\\"parameters\\\"\" | \"\\\"arguments\\\"\") gap \":\" gap" : " ::= gap");
    put_argument_name(w, t, t->parameters, -1);
    put(w, w->f->flags & CHAT_BARE ? " gap \"}\"\n" : "\n");
}

static void put_call(struct forced_writer *w, const struct tool *t)
{
    const bool headers = w->f->flags & CHAT_HEADERS && !w->force->begun;
    if (w->force->begun && begins_with_name(w->f)) { put_named_rest(w, t); return; }
    put_rule_name(w, "call", t->number);
    put(w, " ::=");
    if (w->f->flags & CHAT_FUNCTIONS) {
        put_beginning(w, t, "<|channel|>commentary to=functions.");
        put_name(w, t->name, t->n);
        if (w->force->begun) put(w, " header");
        else put_text(w, " <|constrain|>json<|message|>");
        put_argument_name(w, t, t->parameters, -1);
    } else switch ((enum chat_shape)w->f->shape) {
    case CHAT_JSON: put_object(w, t); break;
    case CHAT_NAMED: put_named(w, t); break;
    case CHAT_TAGGED:
    case CHAT_ELEMENTS:
        if (headers) {
            put_text(w, " to=");
            put_name(w, t->name, t->n);
            put_text(w, "<|message|>");
            put_text(w, w->f->open);
            put(w, " nl");
        }
        put_tagged(w, t);
        if (headers) { put(w, " nl"); put_text(w, w->f->close); }
        break;
    case CHAT_PYTHON:
    case CHAT_BRACED: put_function(w, t); break;
    case CHAT_NO_CALLS: break;
    }
    put(w, "\n");
}

/* ---- the complete grammar ---- */

static void put_blocks(struct forced_writer *w)
{
    const struct chat_family *f = w->f;
    const bool several = w->force->parallel && !(f->flags & (CHAT_ONE | CHAT_HEADERS)), begun = w->force->begun;
    const bool list = f->flags & CHAT_LISTED || f->shape == CHAT_PYTHON, fenced = f->flags & CHAT_FENCED;
    const bool marked = !(f->flags & CHAT_HEADERS) || begun;
    put(w, "block ::=");
    if (marked) put_text(w, f->open);
    if (begun) put(w, " inside\ninside ::=");
    if (f->shape == CHAT_JSON && f->call) { put_text(w, "\n\n"); put_text(w, f->call); }
    put(w, f->open ? " nl" : "");
    if (fenced) put_text(w, "```json\n");
    if (list) put(w, " \"[\" gap");
    put(w, " call");
    if (several && (list || f->flags & CHAT_LINE)) {
        put(w, " (");
        put_text(w, list ? "," : f->call);
        put(w, list ? " gap call)*" : " call)*");
    } else if (several && f->shape != CHAT_BRACED && (begun ? f->close != NULL : f->open && f->shape != CHAT_JSON)) put(w, " (nl call)*");
    if (list) put(w, " gap \"]\"");
    if (fenced) put_text(w, "\n```");
    if (f->close && marked) { put(w, " nl"); put_text(w, f->close); }
    put(w, "\n");
    put(w, several && !list && !(f->flags & CHAT_LINE) ? "blocks ::= block (nl block)*\n" : "blocks ::= block\n");
    put(w, begun ? "nl ::= [ \\n]{0,3}\n" GAP : "nl ::= \"\\n\"{0,2}\n" GAP);
    const char *text_end = f->shape == CHAT_BRACED ? "<|\"|>" : f->shape == CHAT_ELEMENTS ? f->key : f->value_end;
    if (!text_end) return;
    char lined[MARK_MOST] = "\n";
    const size_t n = text_bytes(text_end);
    if (f->flags & CHAT_VALUE_LINES && n + 2 <= sizeof lined) memcpy(lined + 1, text_end, n);
    put_until(w, "text", f->flags & CHAT_VALUE_LINES ? lined : text_end);
}

/* After the header of a call, which models write in several ways. */
static void put_header(struct forced_writer *w)
{
    put(w, "header ::= (\" \"?");
    put_text(w, "<|channel|>");
    put(w, " (\"commentary\" | \"analysis\"))? (\" \"? (");
    put_text(w, "<|constrain|>");
    put(w, ")? \"json\")?");
    put_text(w, "<|message|>");
    put(w, "\n");
}

/* The root of a grammar for calls that have begun: the name of the beginning, then what follows it. */
static void put_begun(struct forced_writer *w)
{
    const struct chat_family *f = w->f;
    const bool harmony = f->flags & CHAT_FUNCTIONS;
    if (harmony) put_header(w);
    else put_blocks(w);
    put(w, "root ::= (");
    if (harmony) put(w, "\"h\" body");
    else {
        if (f->open) put(w, f->shape == CHAT_JSON && f->call ? "\"c\" nl call" : "\"o\" inside");
        if (begins_with_mark(f)) put(w, f->open ? " | \"c\" body" : "\"c\" body");
    }
    put(w, ")");
    if (!w->force->parallel && f->finish) { put(w, " ("); put_text(w, f->finish); put(w, ")?"); }
    put(w, "\n");
}

static void put_root(struct forced_writer *w)
{
    const struct chat_family *f = w->f;
    if (w->force->begun) { put_begun(w); return; }
    put_blocks(w);
    const bool harmony = f->flags & CHAT_FUNCTIONS, muse = f->flags & CHAT_HEADERS && !harmony;
    const char *begin = harmony ? "<|channel|>analysis<|message|>" : muse ? " to=self<|message|>" : f->think[0];
    const char *end = harmony ? "<|end|>" : muse ? "<|eom|>" : f->think[1];
    put(w, "root ::= [ \\n]?");
    if (end) {
        if (!w->force->reasoning) {
            put(w, " (");
            put_text(w, begin);
        }
        put(w, " thought");
        if (f->start) put_text(w, f->start);
        else put(w, " nl");
        if (!w->force->reasoning) put(w, ")?");
    }
    put(w, w->force->other ? " (blocks |" : " blocks");
    if (w->force->other) {
        if (harmony) {
            put(w, " (");
            put_text(w, "<|channel|>final");
            put(w, " (\" \"?");
            put_text(w, "<|constrain|>");
            put(w, " \"json\")?");
            put_text(w, "<|message|>");
            put(w, ")?");
        }
        put(w, " ");
        put(w, w->force->other);
        put(w, ")");
    }
    if (f->finish) {
        put(w, " (");
        put_text(w, f->finish);
        put(w, ")?");
    }
    put(w, "\n");
    if (end) put_until(w, "thought", end);
}

static bool can_be_written(const struct tool *t)
{
    for (size_t i = 0; i < t->n; i++)
        if ((uint8_t)t->name[i] <= ' ' || memchr("\"'<>{}[]()\\|`", t->name[i], 13)) return false;
    return t->n > 0;
}

/* rule NULL: writes the call of each tool that may be called.  Else: writes the rule, a choice among the tools' rules `part`, each after
 * the name of its beginning if calls begin with the name of a tool.  False: there is no such tool, or it cannot be written. */
static bool put_tools(struct forced_writer *w, const char *rule, const char *part)
{
    const struct answer_force *force = w->force;
    const bool named = force->begun && begins_with_name(w->f);
    uint32_t number = 0, n = 0;
    if (rule) { put(w, rule); put(w, " ::="); }
    for (const struct json *x = force->tools ? force->tools->first : NULL; x; x = x->next) {
        const struct json *inner = json_member(x, "function"), *name = json_member(inner ? inner : x, "name");
        struct tool t = { NULL, 0, inner ? inner : x, json_member(inner ? inner : x, "parameters"), number++ };
        if (!name || name->kind != JSON_STRING) return false;
        t.name = name->text;
        t.n = name->n;
        if (force->name && (t.n != force->n_name || memcmp(t.name, force->name, t.n) != 0)) continue;
        if (!can_be_written(&t)) return false;
        if (!rule) put_call(w, &t);
        else {
            put(w, n ? " | " : " ");
            if (named) { put(w, "\"n"); put_number(w, t.number); put(w, ":\" "); }
            put_rule_name(w, part, t.number);
        }
        n++;
    }
    if (rule) put(w, "\n");
    return n > 0;
}

bool answer_forced(const struct answer_force *force, struct text_out *out)
{
    struct forced_writer w = { force, force->family, out };
    const bool begun = force->begun;
    if (w.f->shape == CHAT_NO_CALLS && !(w.f->flags & CHAT_FUNCTIONS)) return false;
    if ((begun && w.f->flags & CHAT_FENCED) || !put_tools(&w, NULL, NULL)) return false;
    if (begun && begins_with_name(w.f)) {
        put_tools(&w, "root", "rest");
        put(&w, GAP);
        return !out->full;
    }
    put_tools(&w, "call", "call");
    if (begun && begins_with_mark(w.f)) put_tools(&w, "body", "body");
    put_root(&w);
    return !out->full;
}
