/* token_lists.h -- the lists of tokens in a file's keys. */
#ifndef FORGEC_TOKEN_LISTS_H
#define FORGEC_TOKEN_LISTS_H
#include "gguf.h"

/* Ids in ascending order, each once. Invalid ids are left out, as in llama.cpp (llama_vocab::impl::load, src/llama-vocab.cpp). */
struct token_list { const uint32_t *ids; uint32_t n; };

/* tokenizer.ggml.suppress_tokens: a model must never draw them. Dies if the key is not an array of integers, as llama.cpp does. */
struct token_list suppressed_tokens(struct arena *a, const struct gguf *g);

/* tokenizer.ggml.eos_token_ids, which ollama's files have beside eos_token_id: each of them ends a text. llama.cpp does not read
 * the key, so another type of value is a warning only. */
struct token_list ending_tokens(struct arena *a, const struct gguf *g);
#endif
