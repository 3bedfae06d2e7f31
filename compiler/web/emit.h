/* emit.h -- plan for WebGPU -> its kernels as one text of WGSL, JSON that describes their launches to gpu.js, and C that describes the
 * model to the WebAssembly module that handles text. */
#ifndef FORGEC_WEB_EMIT_H
#define FORGEC_WEB_EMIT_H
#include "compiler/source/program.h"

/* All modules, each after a line "// ==== NAME", where gpu.js cuts the text. */
struct bytes emit_web(struct arena *a, const struct plan *p, const struct emit_options *o);
/* The C source: a program without kernels. */
struct bytes emit_web_program(struct arena *a, const struct plan *p, const struct emit_options *o);
/* JSON: kernels, launches, places (runtime/web/gpu.js lists the members that it reads). */
const char *emit_web_launches(struct arena *a, const struct plan *p);
#endif
