/* charsmap.c -- tokenizer.ggml.precompiled_charsmap, in SentencePiece's format: the size of a double-array trie in bytes, the trie, then
 * the texts. Everything that a text can lead to is checked here, so that the runtime need not check again. */
#include "charsmap.h"
#include "runtime/model/vocab.h"
#include <inttypes.h>

#define KEY "tokenizer.ggml.precompiled_charsmap"

static uint32_t u32_at(const uint8_t *b) { return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24; }

/* A replacement for `length` bytes must be valid UTF-8 and fit: the runtime has room for 6 characters and 13 bytes per byte, where a blank
 * takes 3 bytes (unigram_text in runtime/text/pieces.c). The longest of NFKC is U+FDFA: 18 characters and 39 bytes for 3 bytes. */
static void check_replacement(const char *path, const struct charsmap *m, uint32_t offset, uint64_t length)
{
    if (offset >= m->bytes)
        die("%s: '" KEY "' is damaged: a replacement at byte %u of %u; convert the model again", path, offset, m->bytes);
    const uint8_t *text  = m->replacements + offset;       /* ends with a zero: all texts do */
    uint64_t       bytes = 0, characters = 0;
    for (size_t i = 0, n; text[i]; i += n, characters++) {
        n = text[i] < 0x80 ? 1 : text[i] < 0xc0 ? 0 : text[i] < 0xe0 ? 2 : text[i] < 0xf0 ? 3 : text[i] < 0xf8 ? 4 : 0;
        for (size_t k = 1; k < n; k++) if ((text[i + k] & 0xc0) != 0x80) n = 0;
        if (n == 0) die("%s: '" KEY "': a replacement is not UTF-8; convert the model again", path);
        bytes += text[i] == ' ' ? 3 : n;
    }
    if (characters > 6 * length || bytes > 13 * length)
        die("%s: '" KEY "' replaces %" PRIu64 " bytes by %" PRIu64 " characters; more than 6 a byte are not supported", path, length,
            characters);
}

/* Maximum bytes of a replaced text. Those of NFKC have a few characters; the runtime reads up to this many bytes at every position of a
 * text. */
enum { LONGEST = 255 };

/* Visits the trie from its root, shortest texts first. Each unit is visited once, although a charsmap may share parts. */
static void check(struct arena *a, const char *path, const struct charsmap *m)
{
    struct reached { uint32_t base, length; } *list = arena_array(a, struct reached, m->n_units + 1ull);
    bool    *seen = arena_array(a, bool, m->n_units);
    uint64_t n    = 1;
    list[0] = (struct reached){ forge_xcda_base(m->units[0]), 0 };
    for (uint64_t i = 0; i < n; i++)
        for (uint32_t byte = 1; byte < 256; byte++) {
            const uint32_t child = list[i].base ^ byte;
            if (child >= m->n_units || seen[child] || (m->units[child] & FORGE_XCDA_LABEL) != byte) continue;
            const uint32_t base = child ^ forge_xcda_base(m->units[child]);
            seen[child] = true;
            list[n++]   = (struct reached){ base, list[i].length + 1 };
            if (list[i].length == LONGEST)
                die("%s: '" KEY "' replaces texts of more than %d bytes, which forgec does not support", path, LONGEST);
            if (!(m->units[child] & FORGE_XCDA_LEAF)) continue;
            if (base >= m->n_units)
                die("%s: '" KEY "' is damaged: unit %u of %u; convert the model again", path, base, m->n_units);
            check_replacement(path, m, m->units[base] & FORGE_XCDA_VALUE, list[i].length + 1ull);
        }
}

struct charsmap charsmap_read(struct arena *a, const struct gguf *g)
{
    const struct gguf_value *v = gguf_find(g, KEY);
    struct charsmap          m = { 0 };
    if (!v || (v->type == GGUF_ARRAY && v->count == 0)) return m;
    if (v->type != GGUF_ARRAY) die("%s: '" KEY "' is %s, not an array; convert the model again", g->path, gguf_type_name(v->type));
    if (v->item_type != GGUF_I8 && v->item_type != GGUF_U8)
        die("%s: '" KEY "' is an array of %s, not of bytes; convert the model again", g->path, gguf_type_name(v->item_type));
    const uint64_t bytes = v->count < 4 ? 0 : u32_at(v->items);
    if (bytes < 4 || bytes % 4 != 0 || bytes + 4 >= v->count || v->count > INT32_MAX || v->items[v->count - 1] != 0)
        die("%s: '" KEY "' is damaged: of its %" PRIu64 " bytes %" PRIu64 " are units, and the rest are not texts that end; convert the"
            " model again", g->path, v->count, bytes);
    uint32_t *units = arena_array(a, uint32_t, bytes / 4);
    for (uint64_t i = 0; i < bytes / 4; i++) units[i] = u32_at(v->items + 4 + 4 * i);
    m = (struct charsmap){ units, (uint32_t)(bytes / 4), v->items + 4 + bytes, (uint32_t)(v->count - 4 - bytes) };
    check(a, g->path, &m);
    return m;
}
