/* tokens.h -- the tokens of a rendered conversation. */
#ifndef FORGE_CHAT_TOKENS_H
#define FORGE_CHAT_TOKENS_H
#include "template.h"

/* Tokenizes the text as a whole, so words and merges are those of plain text; special tokens come only from the template.  Adds BOS if
 * the vocabulary wants it and the template has not written it, never twice.  out: [capacity]; scratch: forge_tokenize_scratch(text->n)
 * bytes, aligned to 8.  Returns the number of tokens, or a negative FORGE_TOK_ status (runtime/text/tokenize.h). */
int64_t chat_tokenize(const uint8_t *vocab, const struct chat_text *text, int32_t *out, size_t capacity, void *scratch,
                      size_t scratch_bytes);
#endif
