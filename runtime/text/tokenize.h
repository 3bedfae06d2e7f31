/* tokenize.h -- text to token ids and back.  The ids are those of the model's own tokenizer or, if the vocabulary was built so, of
 * llama.cpp's llama_tokenize; tokens become text as in llama_token_to_piece.
 * vocab: an image made by compiler/product/vocab.c, aligned to 4 bytes, trusted.  Nothing is allocated, parsed or built. */
#ifndef FORGE_TOKENIZE_H
#define FORGE_TOKENIZE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    FORGE_TOK_SPECIAL = 1,            /* texts of control tokens in the input become those tokens */
    FORGE_TOK_ADD     = 2,            /* adds BOS and EOS as the model wants them */
};
enum {
    FORGE_TOK_NO_ROOM    = -1,        /* more than `capacity` tokens or bytes */
    FORGE_TOK_NO_SCRATCH = -2,        /* scratch_bytes < forge_tokenize_scratch(n) */
    FORGE_TOK_TOO_LONG   = -3,        /* n > FORGE_TOK_MAX_BYTES */
};
#define FORGE_TOK_MAX_BYTES ((size_t)1 << 28)
#define FORGE_TOK_MOST(n)   (6 * (n) + 5)      /* most tokens of n bytes: Unigram's normaliser may make 6 characters of a byte */

/* Bytes of scratch memory for n bytes of text: about 117 n in the worst case (malformed bytes only), touched only as far as needed. */
size_t forge_tokenize_scratch(size_t n);
/* text: any [n] bytes; malformed UTF-8 is replaced (BPE, Unigram), written as byte tokens (SentencePiece) or left out (WordPiece).
 * out: [capacity].  3 n + 2 always suffice for BPE vocabularies whose tokens cover all bytes, n + 2 if the text is in form C;
 * FORGE_TOK_MOST(n) for any vocabulary.
 * scratch: aligned to 8 bytes.
 * Time: O(n log n); Unigram and WordPiece: O(n) times the bytes of the longest token.  The search for special tokens takes O(n) for each
 * one that the text contains, and O(n) times the bytes of the longest one.
 * Returns the number of tokens, or a negative FORGE_TOK_ status. */
int64_t forge_tokenize(const uint8_t *vocab, const char *text, size_t n, uint32_t flags, int32_t *out, size_t capacity,
                       void *scratch, size_t scratch_bytes);

/* The same for a text whose byte i comes from a user (input[i] 1), or from an author who may write special tokens (0).  The text of a
 * special token, even of a user-defined one, stays text if it has a byte from a user, unless it is only white space.  input: [n]; NULL:
 * nothing is from a user.  Words and merges cross these borders as in plain text. */
int64_t forge_tokenize_marked(const uint8_t *vocab, const char *text, const uint8_t *input, size_t n, uint32_t flags, int32_t *out,
                              size_t capacity, void *scratch, size_t scratch_bytes);

/* Writes at most capacity bytes of one token, and returns its full length; 0 for an id that is not a token.  The bytes may be part of a
 * UTF-8 sequence.  Control tokens are empty unless `special`. */
size_t forge_token_text(const uint8_t *vocab, int32_t id, bool special, char *out, size_t capacity);

uint32_t forge_vocab_n_tokens(const uint8_t *vocab);
int32_t  forge_vocab_bos(const uint8_t *vocab);               /* -1: none; also the next four */
int32_t  forge_vocab_eos(const uint8_t *vocab);
int32_t  forge_vocab_eot(const uint8_t *vocab);
int32_t  forge_vocab_unk(const uint8_t *vocab);
int32_t  forge_vocab_pad(const uint8_t *vocab);
/* A token of infill (enum forge_fim, runtime/model/vocab.h); -1: none. */
int32_t  forge_vocab_fim(const uint8_t *vocab, uint32_t which);
bool     forge_vocab_suffix_first(const uint8_t *vocab);      /* infill: the suffix comes before the prefix, and no token follows */
bool     forge_vocab_add_bos(const uint8_t *vocab);
bool     forge_vocab_add_eos(const uint8_t *vocab);
bool     forge_vocab_is_eog(const uint8_t *vocab, int32_t id);       /* ends the generation */
bool     forge_vocab_is_control(const uint8_t *vocab, int32_t id);
bool     forge_vocab_is_llama_cpp(const uint8_t *vocab);       /* text is split like llama.cpp, not like the model's own tokenizer, */
bool     forge_vocab_differs(const uint8_t *vocab);            /* which splits some texts differently */
/* The token with exactly this text in the form of the vocabulary ("<|im_end|>", byte-level alphabet); -1: none. */
int32_t  forge_vocab_find(const uint8_t *vocab, const char *text, size_t n);
#endif
