/* vocab.h -- converts the tokenizer of a GGUF file into the vocabulary image that runtime/text/tokenize.c reads in place. */
#ifndef FORGEC_VOCAB_H
#define FORGEC_VOCAB_H
#include "compiler/base/base.h"
#include "compiler/front/gguf.h"

/* n_vocab: rows of the output matrix; the file may name fewer tokens (with a warning), not more. 0: unknown.
 * Returns the image (runtime/model/vocab.h), 16-byte aligned and equal for equal metadata; {NULL, 0} if the file has no
 * tokenizer ("none", "no_vocab" or no tokenizer.ggml.model). Dies on tokenizers that forgec does not support and on arrays that
 * do not fit together. */
struct bytes vocab_build(struct arena *a, const struct gguf *g, uint32_t n_vocab);

/* The same. llama_cpp: split text as llama.cpp does where it differs from the model's own tokenizer.json.
 * *differs, if differs is not NULL: a short description of the texts that the two may split differently, or NULL. */
struct bytes vocab_build_as(struct arena *a, const struct gguf *g, uint32_t n_vocab, bool llama_cpp, const char **differs);
#endif
