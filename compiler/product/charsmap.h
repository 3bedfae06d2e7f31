/* charsmap.h -- Unigram's normaliser: which texts become which before they are cut into pieces. */
#ifndef FORGEC_CHARSMAP_H
#define FORGEC_CHARSMAP_H
#include "compiler/base/base.h"
#include "compiler/front/gguf.h"

/* The parts of tokenizer.ggml.precompiled_charsmap: the units of a double array (runtime/model/vocab.h, FORGE_XCDA_), and the texts that
 * its values are offsets of, each ending in a zero.  Memory of the arena and of the file. */
struct charsmap { const uint32_t *units; uint32_t n_units; const uint8_t *replacements; uint32_t bytes; };

/* No units when the file has none.  Dies when it is damaged, or when a replacement is longer than the runtime has room for; all that can be
 * reached from the root is within bounds. */
struct charsmap charsmap_read(struct arena *a, const struct gguf *g);
#endif
