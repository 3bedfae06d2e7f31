/* lexicon.h -- the texts of a vocabulary's tokens in order, so that common beginnings are tried once.  Made once for a vocabulary; any
 * number of grammars can use it at the same time. */
#ifndef FORGE_LEXICON_H
#define FORGE_LEXICON_H
#include "room.h"

enum {
    LEXICON_PLAIN = 32,                  /* most characters of a plain token */
    LEXICON_DEPTH = 1023,                /* most bytes of a token; longer tokens are never allowed */
    LEXICON_MOST_NODES = 1 << 22, LEXICON_NO_TOKEN = 0xffffff,
};

/* A byte of one or more tokens, before the bytes that follow it. */
struct lexicon_node {
    uint32_t span;                       /* number of nodes of this subtree; from bit 22: number of bytes before it */
    uint32_t token;                      /* the token that ends here, or LEXICON_NO_TOKEN; from bit 24: the byte */
};

/* Plain: text that may stand between quotes in JSON unchanged: whole characters from U+0020 on, without quote, backslash or U+007F. */
struct lexicon {
    const uint8_t *vocab;
    uint32_t n_vocab, n_words;           /* n_words: 32-bit words with a bit for each token */
    uint32_t n_plain_nodes, n_rest_nodes, n_ends;
    const struct lexicon_node *plain, *rest;
    const uint32_t *plain_bits, *text_bits;      /* [n_words]; text: tokens that are text */
    const uint32_t *by_length;           /* plain tokens, shortest first */
    uint32_t length_end[LEXICON_PLAIN + 1];      /* [i]: number of plain tokens with at most i characters */
    const uint32_t *ends;                /* [n_ends] tokens that end the generation */
};

/* Bytes of room that lexicon_make needs: about 12 for each byte of text.  About half of them remain in use. */
size_t lexicon_room(const uint8_t *vocab, uint32_t n_vocab);
/* n_vocab: of the model, which may have more tokens than the vocabulary.  Control tokens are not text.  False: the room is too small, or
 * the vocabulary has more than 16 million tokens or 4 million nodes.  Takes n log n comparisons. */
bool lexicon_make(struct lexicon *x, const uint8_t *vocab, uint32_t n_vocab, struct room *room);
#endif
