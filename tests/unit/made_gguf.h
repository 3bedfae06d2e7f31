/* made_gguf.h -- GGUF files without tensors, made in memory. */
#ifndef FORGEC_MADE_GGUF_H
#define FORGEC_MADE_GGUF_H
#include "compiler/base/base.h"
#include "compiler/front/gguf.h"
#include <stdlib.h>
#include <string.h>

static void put_u32(struct text *t, uint32_t v) { text_append(t, (const char *)&v, 4); }
static void put_u64(struct text *t, uint64_t v) { text_append(t, (const char *)&v, 8); }
static void put_string(struct text *t, const char *s) { put_u64(t, strlen(s)); text_puts(t, s); }
static void put_key(struct text *t, const char *key, uint32_t type) { put_string(t, key); put_u32(t, type); }

/* Metadata as a list of texts: "key=value" (string), "key#number" (u32), "key?1" (bool), "key:item|item" (strings),
 * "key%number|number" (i32 array), "key~number|number" (f32 array), "key&hex" (u8 array); NULL ends the list. */
static inline struct gguf *make_gguf(struct arena *a, const char *const *lines)
{
    struct text *t = arena_new(a, struct text), *pairs = arena_new(a, struct text);
    uint64_t     n = 0;
    t->arena = pairs->arena = a;
    for (; lines[n]; n++) {
        const size_t at   = strcspn(lines[n], "=#?:%~&");
        const char  *key  = arena_strndup(a, lines[n], at), *value = lines[n] + at + 1;
        const char   kind = lines[n][at];
        if (kind == '=') { put_key(pairs, key, 8); put_string(pairs, value); continue; }
        if (kind == '#') { put_key(pairs, key, 4); put_u32(pairs, (uint32_t)strtoul(value, NULL, 10)); continue; }
        if (kind == '?') { put_key(pairs, key, 7); text_append(pairs, *value == '1' ? "\1" : "", 1); continue; }
        put_key(pairs, key, 9);
        if (kind == '&') {
            put_u32(pairs, 0);
            put_u64(pairs, strlen(value) / 2);
            for (; value[0] && value[1]; value += 2) {
                const char byte = (char)strtoul((char[]){ value[0], value[1], 0 }, NULL, 16);
                text_append(pairs, &byte, 1);
            }
            continue;
        }
        put_u32(pairs, kind == ':' ? 8 : kind == '%' ? 5 : 6);
        uint64_t count = *value ? 1 : 0;
        for (const char *c = value; *c; c++) count += *c == '|';
        put_u64(pairs, count);
        for (const char *item = value; count > 0; count--) {
            const size_t size = strcspn(item, "|");
            const char  *s    = arena_strndup(a, item, size);
            const float  f    = (float)atof(s);
            if (kind == ':') put_string(pairs, s);
            else if (kind == '%') put_u32(pairs, (uint32_t)atoi(s));
            else text_append(pairs, (const char *)&f, 4);
            item += size + 1;
        }
    }
    text_puts(t, "GGUF");
    put_u32(t, 3);
    put_u64(t, 0);
    put_u64(t, n);
    text_append(t, pairs->data, pairs->size);
    return gguf_parse(a, "made.gguf", (const uint8_t *)t->data, t->size, true);
}

#define GGUF(...) make_gguf(a, (const char *const[]){ "general.architecture=llama", __VA_ARGS__, NULL })
#endif
