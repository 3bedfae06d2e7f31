/* emit.h -- the plan as two sources: a GPU's kernels, which a person can read and compile alone, and C that describes the launches to the
 * runtime and holds the code object in `const uint8_t forge_code_<symbol>[]`, which is linked beside it. */
#ifndef FORGEC_GPU_EMIT_H
#define FORGEC_GPU_EMIT_H
#include "compiler/source/program.h"

/* The kernels.  The same inputs give the same bytes. */
struct bytes emit_gpu(struct arena *a, const struct plan *p, const struct emit_options *o);
struct bytes emit_gpu_program(struct arena *a, const struct plan *p, const struct emit_options *o, uint64_t code_bytes);
#endif
