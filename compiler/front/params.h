/* params.h -- hyperparameters, from param.def and an architecture's own, with values from the YAML and the keys of the file. */
#ifndef FORGEC_PARAMS_H
#define FORGEC_PARAMS_H
#include "described.h"
#include "model.h"

/* Reads and checks all hyperparameters; sets m->params, m->layers and the numbers of struct model. drafts: as in model_options. Dies naming
 * the GGUF key, or the place in the YAML. */
void params_read(const struct described *d, struct model *m, uint32_t n_ctx, bool drafts);
#endif
