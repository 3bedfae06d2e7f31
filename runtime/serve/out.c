/* out.c -- see out.h. */
#include "out.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool make_room(struct out *o, size_t n)
{
    if (o->failed) return false;
    if (n <= o->room - o->n) return true;
    const size_t wanted = (o->n + n) * 2 + 256;
    char *more = realloc(o->bytes, wanted);
    if (!more) { o->failed = true; return false; }
    o->bytes = more;
    o->room = wanted;
    return true;
}

void out_bytes(struct out *o, const char *bytes, size_t n)
{
    if (n == 0 || !make_room(o, n)) return;
    memcpy(o->bytes + o->n, bytes, n);
    o->n += n;
}

void out_text(struct out *o, const char *text) { out_bytes(o, text, strlen(text)); }

void out_printf(struct out *o, const char *format, ...)
{
    va_list list, again;
    va_start(list, format);
    va_copy(again, list);
    const int n = vsnprintf(NULL, 0, format, list);
    if (n > 0 && make_room(o, (size_t)n + 1)) {
        vsnprintf(o->bytes + o->n, (size_t)n + 1, format, again);
        o->n += (size_t)n;
    }
    va_end(again);
    va_end(list);
}

/* The number of bytes at text, n > 0, that are not a character and count as one error: the beginning of a character without its end, or
 * one byte.  (The Unicode Standard 16, section 3.9, substitution of maximal subparts.) */
static size_t wrong_bytes(const char *text, size_t n)
{
    const unsigned char *p = (const unsigned char *)text, c = p[0];
    const size_t whole = c >= 0xc2 && c <= 0xdf ? 2 : c >= 0xe0 && c <= 0xef ? 3 : c >= 0xf0 && c <= 0xf4 ? 4 : 1;
    const unsigned char low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80, high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
    size_t length = 1;
    if (whole > 1 && n > 1 && p[1] >= low && p[1] <= high)
        for (length = 2; length < whole && length < n && (p[length] & 0xc0) == 0x80; ) length++;
    return length;
}

void out_string(struct out *o, const char *text, size_t n)
{
    out_text(o, "\"");
    for (size_t at = 0; at < n; ) {
        size_t good = at, length;
        while (good < n && (length = json_utf8(text + good, n - good)) > 0) good += length;
        if (!make_room(o, 6 * (good - at))) return;
        struct text_out to = { o->bytes + o->n, o->room - o->n, 0, false };
        json_put_escaped(&to, text + at, good - at);
        o->n += to.n;
        at = good;
        if (at < n) {
            out_text(o, "\xef\xbf\xbd");
            at += wrong_bytes(text + at, n - at);
        }
    }
    out_text(o, "\"");
}

void out_json(struct out *o, const struct json *v)
{
    const bool object = v->kind == JSON_OBJECT;
    if (v->kind == JSON_STRING) { out_string(o, v->text, v->n); return; }
    if (v->kind == JSON_NUMBER) { out_bytes(o, v->text, v->n); return; }
    if (v->kind < JSON_NUMBER) { out_text(o, v->kind == JSON_NULL ? "null" : v->kind == JSON_TRUE ? "true" : "false"); return; }
    out_text(o, object ? "{" : "[");
    for (const struct json *m = v->first; m; m = m->next) {
        if (object) { out_string(o, m->name, m->n_name); out_text(o, ":"); }
        out_json(o, m);
        if (m->next) out_text(o, ",");
    }
    out_text(o, object ? "}" : "]");
}

void out_free(struct out *o)
{
    free(o->bytes);
    *o = (struct out){ 0 };
}
