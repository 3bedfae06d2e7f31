/* keys.h -- every hyperparameter of the file is read, harmless, of a value that changes nothing, or refused. */
#ifndef FORGEC_KEYS_H
#define FORGEC_KEYS_H
#include "described.h"
#include "model.h"

/* Goes through all keys of the file that can say how it is to be computed: those of an architecture, general.type,
 * general.quantization_version, adapter.*.  n_ctx: context of the program, for windows.  Dies at the first one that the YAML
 * neither reads nor allows and that o does not ignore, naming key, value and the way to insist; sets m->ignored. */
void keys_check(const struct described *d, struct model *m, const struct model_options *o, uint32_t n_ctx);
/* A prefix other than the architecture's under which the file has this key ("granite" for granite.block_count); NULL: none. */
const char *keys_other_prefix(const struct described *d, const char *key);
#endif
