/* vocabulary.h -- the vocabulary image as pointers, and where tokens go: what tokenize.c and pieces.c share. */
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
    const uint32_t           *sorted_first, *sorted, *xcda;
    const struct forge_merge *merge;
    const struct forge_fold  *fold;
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
        .replacement  = image + l.replacement,
    };
    return v;
}

static inline const uint8_t *symbol_text(const struct vocab *v, uint32_t symbol, size_t *n)
{
    *n = v->text_offset[symbol + 1] - v->text_offset[symbol];
    return v->text + v->text_offset[symbol];
}

static const uint8_t escaped_blank[3] = { 0xe2, 0x96, 0x81 };       /* U+2581 stands for ' ' in the vocabulary */

/* Length of a character by its first byte alone, at most n: pieces are cut this way even in malformed text. */
static inline size_t character_bytes(uint8_t lead, size_t n)
{
    const size_t want = lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    return want < n ? want : n;
}

struct output { int32_t *ids; size_t n, capacity; };       /* n may pass capacity: then it did not fit */

static inline void emit(struct output *o, uint32_t id)
{
    if (o->n < o->capacity) o->ids[o->n] = (int32_t)id;
    o->n++;
}

struct symbol { uint32_t prev, next, value, pair; };        /* value: BPE symbol, or SentencePiece start in the text */

/* Unigram: how text from the start to one character of it is best cut: the last piece of that, the character it starts at, what all are
 * worth. */
struct best { double score; uint32_t token, start; };

struct scratch {
    uint64_t      *heap;                                    /* [6 n + 6] */
    struct symbol *symbols;                                 /* [3 n + 3] */
    uint32_t      *claims;                                  /* [n] */
    uint32_t      *present;                                 /* [PRESENT_BITS / 32] */
    uint32_t      *units;                                   /* [n], BPE */
    uint8_t       *bytes;                                   /* [3 n + 3] one word, or the whole escaped text */
    uint8_t       *encoded;                                 /* [6 n + 6] one word in the byte alphabet */
    /* Unigram, in their place: */
    struct best   *best;                                    /* [6 n + 2], from heap on */
    uint8_t       *normal;                                  /* [13 n + 3], from units on; WordPiece: one word */
};

/* pieces.c.  text: [n] bytes, the whole of it between two special tokens. */
void unigram_text(const struct vocab *v, const struct scratch *s, const uint8_t *text, size_t n, struct output *o);
void wordpiece_text(const struct vocab *v, const struct scratch *s, const uint8_t *text, size_t n, struct output *o);
#endif
