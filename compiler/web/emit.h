/* emit.h -- plan for WebGPU -> its kernels as one text of WGSL, what gpu.js is told of their launches, and the C that tells the module of
 * the text's side about the model. */
#ifndef FORGEC_WEB_EMIT_H
#define FORGEC_WEB_EMIT_H
#include "compiler/source/program.h"

/* All modules, each behind a line "// ==== NAME", which gpu.js cuts the text at. */
struct bytes emit_web(struct arena *a, const struct plan *p, const struct emit_options *o);
/* The C: a program without kernels. */
struct bytes emit_web_program(struct arena *a, const struct plan *p, const struct emit_options *o);
/* JSON: kernels, launches, places (runtime/web/gpu.js says what it reads). */
const char *emit_web_launches(struct arena *a, const struct plan *p);
#endif
