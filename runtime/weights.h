/* weights.h -- where the weight image comes from: the executable itself, a file beside it, or noise. */
#ifndef FORGE_WEIGHTS_H
#define FORGE_WEIGHTS_H

#include "engine.h"

/* Sets weights (and mapped) of the engine; its pool is open. FORGE_BAD_WEIGHTS names what is wrong with the file. */
enum forge_status weights_open(struct forge_engine *engine, const struct forge_weights_source *source, struct forge_error *error);

#endif
