/* keys.h -- checks that every hyperparameter of the file is read, is harmless, or has a value that changes nothing; others are refused. */
#ifndef FORGEC_KEYS_H
#define FORGEC_KEYS_H
#include "described.h"
#include "model.h"

/* Checks the keys of the file that can change the computation: all keys of an architecture, general.type,
 * general.quantization_version, adapter.*. n_ctx: context of the program, for windows. Dies at the first key that the YAML
 * neither reads nor allows and that o does not ignore; the message names key, value and the option to ignore it. Sets m->ignored. */
void keys_check(const struct described *d, struct model *m, const struct model_options *o, uint32_t n_ctx);
/* A value of the file as printable text: "3", "\"yarn\"", "[true, false, ...]". */
const char *keys_value(struct arena *a, const struct gguf_value *v);
/* A prefix other than the architecture's with which the file has this key ("granite" for granite.block_count); NULL: no other prefix. */
const char *keys_other_prefix(const struct described *d, const char *key);
#endif
