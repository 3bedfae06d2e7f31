/* answer.c -- see answer.h.  Text is searched for marks; after a mark of a call, call.c decides where the call ends. */
#include "answer.h"
#include "call.h"
#include "argument.h"

enum action { TO_REASONING, TO_CONTENT, TO_CALL, PAST_CALL, PAST_LIST, PAST_BLOCK, NO_MARK };
struct mark { const char *text; enum action action; };
enum { MARKS_MOST = 24, ENDLESS_MOST = 8 };
struct marks { struct mark list[MARKS_MOST]; uint32_t n; };

static void add(struct marks *m, const char *text, enum action action)
{
    if (text) m->list[m->n++] = (struct mark){ text, action };
}

/* A call that never ends costs a walk through all held text, so after ENDLESS_MOST of them calls are no longer searched for. */
static bool may_call(const struct answer *a) { return a->tools && a->n_endless < ENDLESS_MOST; }

/* The marks that have a meaning now.  fresh: only white space since the last mark. */
static struct marks marks_now(const struct answer *a, bool fresh)
{
    const struct chat_family *f = a->family;
    const bool anywhere = f->flags & CHAT_TOKENS;
    struct marks m = { .n = 0 };
    if (!a->reasoning || f->flags & CHAT_HEADERS)
        for (int i = 0; i < CHAT_DROPS; i++) add(&m, f->drop[i], TO_CONTENT);
    if (f->flags & CHAT_HEADERS) {
        add(&m, "<|channel|>", TO_CALL);
        if (fresh && a->header) {
            add(&m, "<|message|>", TO_CALL);
            add(&m, "<|constrain|>", TO_CALL);
            add(&m, "to=", TO_CALL);
        }
    }
    if (a->reasoning) {
        add(&m, f->think[1], TO_CONTENT);
        if (fresh) add(&m, f->think[0], TO_REASONING);
        return m;
    }
    if (anywhere || (fresh && a->blank)) {
        add(&m, f->think[0], TO_REASONING);
        add(&m, f->think[1], TO_CONTENT);
    }
    if (f->flags & CHAT_LINE) add(&m, f->call, TO_CALL);
    else if (may_call(a) && f->shape != CHAT_NO_CALLS) {
        add(&m, f->open, TO_CALL);
        add(&m, f->call && f->shape != CHAT_BRACED ? f->call : NULL, TO_CALL);
        add(&m, f->code, TO_CALL);
        if (f->flags & CHAT_BARE && fresh && a->blank) add(&m, "{", TO_CALL);
    }
    if (fresh && a->inside) {
        add(&m, f->post, PAST_CALL);
        add(&m, f->close, PAST_BLOCK);
        if (a->inside == IN_LIST && (f->shape == CHAT_JSON || f->shape == CHAT_NAMED || f->shape == CHAT_PYTHON)) {
            add(&m, "]", PAST_LIST);
            add(&m, "{", TO_CALL);
        }
        if (f->shape == CHAT_JSON || f->shape == CHAT_NAMED) add(&m, "```", PAST_CALL);
    }
    return m;
}

/* The longest mark at p.  *partial: the text ends with the beginning of a mark. */
static enum action mark_at(const struct marks *m, const char *p, const char *end, size_t *n, bool *partial)
{
    enum action action = NO_MARK;
    *n = 0;
    *partial = false;
    for (uint32_t i = 0; i < m->n; i++) {
        const char *text = m->list[i].text;
        size_t k = 0;
        while (p + k < end && text[k] && text[k] == p[k]) k++;
        if (!text[k] && k > *n) { *n = k; action = m->list[i].action; }
        if (text[k] && p + k == end) *partial = true;
    }
    return action;
}

static void drop(struct answer *a, size_t n)
{
    memmove(a->hold, a->hold + n, a->n - n);
    a->n -= n;
    a->skip = a->skip > n ? a->skip - n : 0;
    a->known = a->known > n ? a->known - n : 0;
}

static void tell_text(struct answer *a, size_t n)
{
    if (!n) return;
    a->last = a->hold[n - 1];
    const size_t known = a->known < n ? a->known : n;
    const struct answer_event event = { .kind = a->reasoning ? ANSWER_REASONING : ANSWER_CONTENT, .text = a->hold + known,
                                        .n = n - known };
    a->fresh = a->first = a->header = false;
    a->inside = NOT_INSIDE;
    if (!a->reasoning) a->blank = false;
    if (event.n) a->tell(a->context, &event);
    drop(a, n);
}

/* The held text may begin with a call; the call's first mark takes n bytes. */
static void begin_call(struct answer *a, size_t n)
{
    a->in_call = true;
    a->quoted = a->last && memchr("`\"'", a->last, 3);
    a->n_begun++;
    a->looked = a->mark = n;
    a->scan.from = 0;
}

static void apply(struct answer *a, enum action action, size_t n)
{
    if (action == TO_CALL) { begin_call(a, n); return; }
    drop(a, n);
    a->last = 0;
    if (action != PAST_CALL) a->inside = action == PAST_LIST ? IN_BLOCK : NOT_INSIDE;
    a->first = false;
    a->fresh = true;
    a->header = a->family->flags & CHAT_HEADERS;
    a->reasoning = action == TO_REASONING;
}

/* Does a byte begin a call without a mark: the next call of a list, or an answer that begins with a name? */
static bool begins_call(const struct answer *a, char c, bool comma)
{
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    return letter && (a->family->flags & CHAT_LINE ? a->header : a->family->shape == CHAT_PYTHON && a->inside == IN_LIST && comma);
}

/* Directly after a mark: white space does not count as text, and there may be commas between calls.  False: more text is needed. */
static bool look_at_start(struct answer *a, bool last)
{
    size_t p = 0, n;
    bool partial;
    while (p < a->n && is_space(a->hold[p])) p++;
    if (!a->first) { drop(a, p); p = 0; }
    const bool comma = a->inside == IN_LIST && p < a->n && (a->hold[p] == ',' || a->hold[p] == ';');
    if (comma) while (++p < a->n && is_space(a->hold[p])) {}
    if (p == a->n) {
        if (last || a->n == a->size) tell_text(a, a->n);
        return false;
    }
    const struct marks m = marks_now(a, true);
    const enum action action = mark_at(&m, a->hold + p, a->hold + a->n, &n, &partial);
    if (action != NO_MARK) {
        drop(a, p);
        apply(a, action, n);
    } else if (partial && !last && a->n < a->size) return false;
    else if (begins_call(a, a->hold[p], comma)) {
        drop(a, p);
        begin_call(a, 1);
    } else {
        a->fresh = a->header = false;
        a->inside = NOT_INSIDE;
    }
    return true;
}

/* False: more text is needed. */
static bool look_at_text(struct answer *a, bool last)
{
    if (!a->n) return false;
    if (a->fresh) return look_at_start(a, last);
    const struct marks m = marks_now(a, false);
    for (size_t p = a->skip; p < a->n; p++) {
        size_t n;
        bool partial;
        const enum action action = mark_at(&m, a->hold + p, a->hold + a->n, &n, &partial);
        if (action == NO_MARK && (!partial || last)) continue;
        tell_text(a, p);
        a->skip = 0;
        if (action == NO_MARK) return false;
        apply(a, action, n);
        return true;
    }
    tell_text(a, a->n);
    return false;
}

/* Treats what looked like a call as text, from its mark on. */
static void give_up_call(struct answer *a)
{
    a->in_call = a->fresh = a->header = false;
    a->inside = NOT_INSIDE;
    a->skip = a->mark;
}

/* ---- calls in pieces ---- */

static void tell_arguments(struct answer *a, struct text_out *out)
{
    const struct answer_event event = { .kind = ANSWER_ARGUMENTS, .call = a->n_calls, .text = out->bytes, .n = out->n };
    if (out->n) a->tell(a->context, &event);
    out->n = 0;
}

static void tell_end(struct answer *a, bool cut)
{
    const struct answer_event event = { .kind = ANSWER_CALL_END, .call = a->n_calls++, .cut = cut };
    a->tell(a->context, &event);
}

/* The call has ended before byte n of the held text; what follows: further calls, or text. */
static void end_live(struct answer *a, size_t n, bool text)
{
    drop(a, n);
    a->live = NOT_LIVE;
    a->last = 0;
    a->blank = false;
    a->fresh = !text;
    a->inside = text ? NOT_INSIDE : IN_LIST;
}

/* Is byte c the last of the object around the arguments? */
static bool ends_rest(struct answer *a, char c)
{
    if (a->rest_quoted) {
        if (c == '\\') a->rest_depth ^= 1u << 31;
        else if (a->rest_depth >> 31) a->rest_depth &= UINT32_MAX >> 1;
        else a->rest_quoted = c != '"';
        return false;
    }
    if (c == '"') a->rest_quoted = true;
    if (c == '{' || c == '[') a->rest_depth++;
    return (c == '}' || c == ']') && --a->rest_depth == 0;
}

/* False: more text is needed. */
static bool look_at_live(struct answer *a, bool last)
{
    struct text_out out = { a->work, a->work_bytes, 0, false };
    for (size_t at = 0; at < a->n; at++) {
        const char c = a->hold[at];
        if (a->live == LIVE_REST) {
            const bool next = a->family->flags & CHAT_KEYED && c == ',' && a->rest_depth == 1 && !a->rest_quoted;
            if (next) a->hold[at] = '{';                     /* {N: {...}, N: {...}} */
            if (!next && !ends_rest(a, c)) continue;
            end_live(a, at + !next, false);
            return true;
        }
        const enum json_progress got = json_piece(&a->pieces, c, &out);
        if (got != JSON_GOES_ON || out.size - out.n < JSON_PIECES_MOST) tell_arguments(a, &out);
        if (got == JSON_GOES_ON) continue;
        tell_end(a, got == JSON_WRONG);
        if (got == JSON_ENDS && a->has_rest) { a->live = LIVE_REST; continue; }
        end_live(a, at + (got == JSON_ENDS), got == JSON_WRONG);
        return true;
    }
    tell_arguments(a, &out);
    drop(a, a->n);
    if (!last) return false;
    if (a->live == LIVE_ARGUMENTS) tell_end(a, true);
    end_live(a, 0, false);
    return false;
}

/* False: more text is needed. */
static bool look_at_call(struct answer *a, bool last)
{
    for (;;) {
        const bool all = a->looked == a->n;
        if (all && !last) break;
        if (!all) a->looked++;
        const bool ends = last && a->looked == a->n;
        if (!ends && !call_is_worth_reading(a, a->looked)) continue;
        size_t used = 0;
        const enum call_result result = call_read(a, a->looked, ends, &used);
        if (result == CALL_MORE && !ends) continue;
        if (result == CALL_MORE || result == CALL_NONE) {
            a->n_endless += result == CALL_MORE;
            give_up_call(a);
            return true;
        }
        drop(a, used);
        a->last = 0;
        a->in_call = a->header = a->first = false;
        if (result == CALL_LIVE) { a->live = LIVE_ARGUMENTS; return true; }
        a->fresh = true;
        a->inside = result == CALL_DONE ? IN_LIST : NOT_INSIDE;
        a->reasoning = result == CALL_REASONING;
        if (result == CALL_DONE) a->blank = false;
        return true;
    }
    if (a->n < a->size) return false;
    a->n_endless++;
    give_up_call(a);
    return true;
}

static void look(struct answer *a, bool last)
{
    while (a->live ? look_at_live(a, last) : a->in_call ? look_at_call(a, last) : look_at_text(a, last)) {}
}

/* ---- the beginning and the end ---- */

/* The last place of `words` in text [n]; n if the text does not contain them. */
static size_t last_of(const char *text, size_t n, const char *words)
{
    for (size_t i = n; i-- > 0; ) if (begins(text + i, text + n, words)) return i;
    return n;
}

static void tell_nobody(void *context, const struct answer_event *event) { (void)context, (void)event; }

void answer_begin(struct answer *a, const struct answer_options *o)
{
    const struct chat_family *f = o->family;
    *a = (struct answer){ .family = f, .tools = o->tools && o->tools->n ? o->tools : NULL, .tell = tell_nobody,
                          .hold = o->room, .size = o->room_bytes / 4, .fresh = true, .first = true, .blank = true,
                          .header = f->flags & (CHAT_HEADERS | CHAT_LINE) };
    a->work = a->hold + a->size;
    a->work_bytes = o->room_bytes - a->size;
    size_t n = o->n_prompt;
    const size_t start = f->start ? last_of(o->prompt, n, f->start) : n;
    if (start < n) answer_feed(a, o->prompt + start + text_bytes(f->start), n - start - text_bytes(f->start));
    a->tell = o->tell;
    a->context = o->context;
    while (n && is_space(o->prompt[n - 1])) n--;
    const size_t think = f->think[0] ? last_of(o->prompt, n, f->think[0]) : n;
    if (think < n && think + text_bytes(f->think[0]) == n) {
        a->reasoning = true;
        a->first = false;
    }
}

void answer_feed(struct answer *a, const char *text, size_t n)
{
    while (n) {
        const size_t some = n < a->size - a->n ? n : a->size - a->n;
        memcpy(a->hold + a->n, text, some);
        a->n += some;
        text += some;
        n -= some;
        look(a, false);
    }
}

void answer_prefill(struct answer *a, const char *text, size_t n)
{
    answer_tell *const tell = a->tell;
    a->tell = tell_nobody;
    answer_feed(a, text, n);
    a->tell = tell;
    a->known = a->n;
    a->n_calls = 0;
}

void answer_end(struct answer *a)
{
    do look(a, true);
    while (a->n);
}

void answer_cut(struct answer *a)
{
    a->cut = true;
    answer_end(a);
}
