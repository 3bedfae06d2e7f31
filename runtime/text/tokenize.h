/* tokenize.h -- text to token ids and back, with the results of llama.cpp's llama_tokenize and llama_token_to_piece.
 * vocab: an image made by compiler/product/vocab.c, aligned to 4 bytes, trusted.  Nothing is allocated, parsed or built. */
#ifndef FORGE_TOKENIZE_H
#define FORGE_TOKENIZE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    FORGE_TOK_SPECIAL = 1,            /* the texts of control tokens in the input become those tokens */
    FORGE_TOK_ADD     = 2,            /* BOS and EOS as the model asks for them */
};
enum {
    FORGE_TOK_NO_ROOM    = -1,        /* more than `capacity` tokens or bytes */
    FORGE_TOK_NO_SCRATCH = -2,        /* scratch_bytes < forge_tokenize_scratch(n) */
    FORGE_TOK_TOO_LONG   = -3,        /* n > FORGE_TOK_MAX_BYTES */
};
#define FORGE_TOK_MAX_BYTES ((size_t)1 << 28)
#define FORGE_TOK_MOST(n)   (6 * (n) + 5)      /* tokens of n bytes: Unigram's normaliser may make 6 characters of a byte */

/* Bytes of scratch for n bytes of text: about 113 n in the worst case (malformed bytes only), touched as far as needed. */
size_t forge_tokenize_scratch(size_t n);
/* text: [n] bytes, any; malformed UTF-8 is replaced (BPE, Unigram), spelt in byte tokens (SentencePiece) or left out (WordPiece).
 * out: [capacity]; n + 2 always suffice for BPE vocabularies whose tokens cover all bytes, FORGE_TOK_MOST(n) for any.
 * scratch: aligned to 8 bytes.  Time O(n log n); Unigram and WordPiece: O(n) times the bytes of the longest token.  Looking for special
 * tokens takes O(n) for each that the text holds, and O(n) times the bytes of the longest one.
 * Returns the number of tokens or a negative FORGE_TOK_ status. */
int64_t forge_tokenize(const uint8_t *vocab, const char *text, size_t n, uint32_t flags, int32_t *out, size_t capacity,
                       void *scratch, size_t scratch_bytes);

/* The same of a text of which input[i] says where byte i comes from: 1: from a user, 0: from who may write special tokens.  A text of
 * a special token, a user-defined one too, in which there is a byte of a user is no such token but text, unless it is nothing but blanks.
 * input: [n], or NULL: nothing is a user's.  Words and merges go across the borders, as in the plain text. */
int64_t forge_tokenize_marked(const uint8_t *vocab, const char *text, const uint8_t *input, size_t n, uint32_t flags, int32_t *out,
                              size_t capacity, void *scratch, size_t scratch_bytes);

/* The bytes of one token, which may be a part of a UTF-8 sequence; control tokens are empty unless special.
 * At most capacity bytes are written; returns how many there are.  0 for an id that is no token. */
size_t forge_token_text(const uint8_t *vocab, int32_t id, bool special, char *out, size_t capacity);

uint32_t forge_vocab_n_tokens(const uint8_t *vocab);
int32_t  forge_vocab_bos(const uint8_t *vocab);               /* -1: none; so for the next four */
int32_t  forge_vocab_eos(const uint8_t *vocab);
int32_t  forge_vocab_eot(const uint8_t *vocab);
int32_t  forge_vocab_unk(const uint8_t *vocab);
int32_t  forge_vocab_pad(const uint8_t *vocab);
bool     forge_vocab_add_bos(const uint8_t *vocab);
bool     forge_vocab_add_eos(const uint8_t *vocab);
bool     forge_vocab_is_eog(const uint8_t *vocab, int32_t id);       /* ends the generation */
bool     forge_vocab_is_control(const uint8_t *vocab, int32_t id);
/* The token with exactly this text as it stands in the vocabulary ("<|im_end|>", byte-level alphabet); -1: none. */
int32_t  forge_vocab_find(const uint8_t *vocab, const char *text, size_t n);
#endif
