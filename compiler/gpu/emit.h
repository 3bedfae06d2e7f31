/* emit.h -- writes the plan as two sources: the GPU's kernels, which a person can read and compile alone, and C that describes the launches
 * to the runtime. The C source refers to the code object as `const uint8_t forge_code_<symbol>[]`, which is linked separately. */
#ifndef FORGEC_GPU_EMIT_H
#define FORGEC_GPU_EMIT_H
#include "compiler/source/program.h"

/* The source of the kernels; the text lies in a. The same inputs give the same bytes. */
struct bytes emit_gpu(struct arena *a, const struct plan *p, const struct emit_options *o);
/* The C source. code_bytes: size of the code object. */
struct bytes emit_gpu_program(struct arena *a, const struct plan *p, const struct emit_options *o, uint64_t code_bytes);
#endif
