/* vocab.h -- the tokenizer of a GGUF file -> the vocabulary image that runtime/text/tokenize.c reads in place. */
#ifndef FORGEC_VOCAB_H
#define FORGEC_VOCAB_H
#include "compiler/base/base.h"
#include "compiler/front/gguf.h"

/* n_vocab: rows of the output matrix; the file may name fewer tokens (a warning), not more.  0: not known.
 * Returns the image (runtime/model/vocab.h), 16-byte aligned and equal for equal metadata; {NULL, 0} when the file has no
 * tokenizer ("none", "no_vocab" or no tokenizer.ggml.model).  Dies on tokenizers forgec does not have and on arrays that
 * do not fit together. */
struct bytes vocab_build(struct arena *a, const struct gguf *g, uint32_t n_vocab);
#endif
