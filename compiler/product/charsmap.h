/* charsmap.h -- the Unigram normaliser's table of replacements, which apply before text is split into pieces. */
#ifndef FORGEC_CHARSMAP_H
#define FORGEC_CHARSMAP_H
#include "compiler/base/base.h"
#include "compiler/front/gguf.h"

/* The parts of tokenizer.ggml.precompiled_charsmap: the units of a double-array trie (runtime/model/vocab.h, FORGE_XCDA_), and the
 * zero-terminated replacement texts; the trie's values are offsets into them. The memory belongs to the arena and to the file. */
struct charsmap { const uint32_t *units; uint32_t n_units; const uint8_t *replacements; uint32_t bytes; };

/* Returns no units if the file has no charsmap. Dies if it is damaged, or if a replacement is longer than the runtime's buffer. Everything
 * that can be reached from the root is then within bounds. */
struct charsmap charsmap_read(struct arena *a, const struct gguf *g);
#endif
