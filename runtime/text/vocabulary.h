/* vocabulary.h -- the vocabulary image as pointers, and the output of tokens: shared by tokenize.c and pieces.c. */
#ifndef FORGE_VOCABULARY_H
#define FORGE_VOCABULARY_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "runtime/model/vocab.h"

#define NONE FORGE_VOCAB_NONE

struct vocab {
    const struct forge_vocab_header *h;
    const uint32_t           *byte_symbol, *byte_token, *text_offset, *token_bucket, *token_order, *merge_bucket, *merge_order, *special,
        *special_sorted, *score;
    const uint32_t           *sorted_first, *sorted, *xcda, *composition;
    const struct forge_merge *merge;
    const struct forge_fold  *fold;
    const struct forge_class *classes, *combining;
    const struct forge_decomposition *decomposition;
    const uint8_t            *special_first, *attr, *replacement, *text;
};

static inline struct vocab vocab_view(const uint8_t *image)
{
    const struct forge_vocab_header *h = (const void *)image;
    const struct forge_vocab_layout  l = forge_vocab_layout(h);
    const struct vocab v = {
        .h = h,
        .byte_symbol  = (const void *)(image + l.byte_symbol),  .byte_token     = (const void *)(image + l.byte_token),
        .text_offset  = (const void *)(image + l.text_offset),  .score          = (const void *)(image + l.score),
        .token_bucket = (const void *)(image + l.token_bucket), .token_order    = (const void *)(image + l.token_order),
        .merge_bucket = (const void *)(image + l.merge_bucket), .merge_order    = (const void *)(image + l.merge_order),
        .special      = (const void *)(image + l.special),      .special_sorted = (const void *)(image + l.special_sorted),
        .merge        = (const void *)(image + l.merge),        .special_first  = image + l.special_first,
        .attr         = image + l.attr,                         .text           = image + l.text,
        .sorted_first = (const void *)(image + l.sorted_first), .sorted         = (const void *)(image + l.sorted),
        .fold         = (const void *)(image + l.fold),         .xcda           = (const void *)(image + l.xcda),
        .replacement  = image + l.replacement,                  .classes        = (const void *)(image + l.classes),
        .combining    = (const void *)(image + l.combining),    .composition    = (const void *)(image + l.composition),
        .decomposition = (const void *)(image + l.decomposition),
    };
    return v;
}

static inline const uint8_t *symbol_text(const struct vocab *v, uint32_t symbol, size_t *n)
{
    *n = v->text_offset[symbol + 1] - v->text_offset[symbol];
    return v->text + v->text_offset[symbol];
}

static const uint8_t escaped_blank[3] = { 0xe2, 0x96, 0x81 };       /* U+2581 stands for ' ' in the vocabulary */

/* Length of a character by its first byte alone, at most n: text is cut this way even if it is malformed. */
static inline size_t character_bytes(uint8_t lead, size_t n)
{
    const size_t want = lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    return want < n ? want : n;
}

struct output { int32_t *ids; size_t n, capacity; };       /* if n exceeds capacity, the tokens did not fit */

static inline void emit(struct output *o, uint32_t id)
{
    if (o->n < o->capacity) o->ids[o->n] = (int32_t)id;
    o->n++;
}

struct symbol { uint32_t prev, next, value, pair; };        /* value: a BPE symbol, or for SentencePiece the start in the text */

/* Unigram: the best segmentation of the text from the beginning up to a character: its score, its last piece, and the character at which
 * this piece starts. */
struct best { double score; uint32_t token, start; };

struct scratch {
    uint64_t      *heap;                                    /* [6 n + 6] */
    struct symbol *symbols;                                 /* [3 n + 3] */
    uint32_t      *claims;                                  /* [n] */
    uint32_t      *present;                                 /* [PRESENT_BITS / 32] */
    uint32_t      *units;                                   /* [2 n]; BPE, WordPiece: codepoints */
    uint8_t       *bytes;                                   /* [3 n + 3] one word, or the whole escaped text */
    uint8_t       *encoded;                                 /* [6 n + 6] one word in the byte alphabet */
    /* Unigram uses the same memory for: */
    struct best   *best;                                    /* [6 n + 2], from heap on */
    uint8_t       *normal;                                  /* [13 n + 3], from units on */
};

/* The value of c in the rows; `none` if no row contains c. */
static inline uint32_t class_value(const struct forge_class *rows, uint32_t n, uint32_t c, uint32_t none)
{
    uint32_t low = 0, high = n;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (rows[middle].last < c) low = middle + 1; else high = middle;
    }
    return low < n && c >= rows[low].first ? rows[low].value : none;
}

/* normal.c: converts s->units, [n] codepoints, to Unicode normalization form C if compose, else to form D (Unicode 16, section 3.11).
 * n: at most the number of UTF-8 bytes they come from.  Returns the new number of codepoints: in form C at most that number of bytes, in
 * form D at most one and a half times that.  Uses s->heap. */
size_t normal_form(const struct vocab *v, const struct scratch *s, size_t n, bool compose);

/* pieces.c.  text: [n] bytes, the whole text between two special tokens. */
void unigram_text(const struct vocab *v, const struct scratch *s, const uint8_t *text, size_t n, struct output *o);
void wordpiece_text(const struct vocab *v, const struct scratch *s, const uint8_t *text, size_t n, struct output *o);
#endif
