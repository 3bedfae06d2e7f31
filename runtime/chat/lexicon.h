/* lexicon.h -- the texts of a vocabulary's tokens in order, so that what begins alike is tried once: made once for a vocabulary, for any
 * number of grammars at once. */
#ifndef FORGE_LEXICON_H
#define FORGE_LEXICON_H
#include "room.h"

enum {
    LEXICON_PLAIN = 32,                  /* most characters of a plain token */
    LEXICON_DEPTH = 1023,                /* most bytes of a token; longer ones are never allowed */
    LEXICON_MOST_NODES = 1 << 22, LEXICON_NO_TOKEN = 0xffffff,
};

/* A byte of one or more tokens, before the bytes that follow it. */
struct lexicon_node {
    uint32_t span;                       /* nodes from here to behind those that follow this one, and from bit 22 the bytes before it */
    uint32_t token;                      /* that ends here, or LEXICON_NO_TOKEN; the byte from bit 24 */
};

/* Plain: what text between quotes in JSON may hold as it is: whole characters from U+0020 on, no quote, no backslash, no U+007F. */
struct lexicon {
    const uint8_t *vocab;
    uint32_t n_vocab, n_words;           /* n_words: 32-bit words with a bit for each token */
    uint32_t n_plain_nodes, n_rest_nodes, n_ends;
    const struct lexicon_node *plain, *rest;
    const uint32_t *plain_bits, *text_bits;      /* [n_words]; text: tokens that are text */
    const uint32_t *by_length;           /* plain tokens, the shortest first */
    uint32_t length_end[LEXICON_PLAIN + 1];      /* of those with at most so many characters */
    const uint32_t *ends;                /* [n_ends] tokens that end the generation */
};

/* Bytes of room that lexicon_make takes; about 12 for each byte of text.  What stays is about half of them. */
size_t lexicon_room(const uint8_t *vocab, uint32_t n_vocab);
/* n_vocab: of the model, which may have more than the vocabulary.  Control tokens are no text.  False: the room is too small, or the
 * vocabulary larger than 16 million tokens or 4 million nodes.  n log n comparisons. */
bool lexicon_make(struct lexicon *x, const uint8_t *vocab, uint32_t n_vocab, struct room *room);
#endif
