/* text.h -- converts prompts to tokens and tokens to text, with buffers sized beforehand. */
#ifndef FORGE_TEXT_H
#define FORGE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/run/status.h"

/* n bytes, which may contain NUL; bytes[n] is 0. */
struct forge_bytes { char *bytes; size_t n; };

/* Reads all of a file, or of stdin if path is NULL.  FORGE_INTERRUPTED: a signal interrupted the read.  FORGE_TOO_LONG: more than
 * FORGE_TOK_MAX_BYTES. */
enum forge_status read_all(struct forge_bytes *out, const char *path, struct forge_error *error);

/* Reads the text of -p, -f or stdin.  Escapes are replaced in -p; one newline at the end is removed from the others.  bytes: from
 * malloc.  FORGE_USAGE: no text is given and stdin is a terminal. */
struct forge_options;
enum forge_status prompt_read(struct forge_bytes *out, const struct forge_options *options, struct forge_error *error);

struct forge_tokens { int32_t *ids; size_t n; };

/* The tokens of n bytes; flags as in forge_tokenize.  vocab NULL: FORGE_USAGE.  ids: from malloc. */
enum forge_status tokens_of_text(struct forge_tokens *out, const uint8_t *vocab, const char *text, size_t n, uint32_t flags,
                                 struct forge_error *error);

/* Parses "IDS" or "@FILE"; every id must be below n_vocab. */
enum forge_status tokens_of_list(struct forge_tokens *out, const char *list, uint32_t n_vocab, struct forge_error *error);

bool    vocab_is_end(const uint8_t *vocab, int32_t id);     /* ends the generation; false without a vocabulary */
int32_t vocab_bos(const uint8_t *vocab);                    /* -1: none */
bool    vocab_adds_bos(const uint8_t *vocab);
size_t  vocab_token_bytes(const uint8_t *vocab);            /* the longest text of a token */

#endif
