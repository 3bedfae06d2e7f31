/* web.h -- a model as a folder for pages and Node: a module of WebAssembly with its engine and text, weights in pieces beside it, and the
 * ES module that loads them (runtime/web).  Any static server serves it, and npm publishes it, as it is. */
#ifndef FORGEC_WEB_H
#define FORGEC_WEB_H
#include "library.h"

/* Whether the product is one. */
bool web_wanted(const struct build_options *o, const struct profile *p);
/* Whether two targets make one folder: WebGPU, and WebAssembly that computes where there is none. */
bool web_is_pair(const struct profile *first, const struct profile *second);
/* Dies when the options are not those of such a folder.  pair: p is one of such two. */
void web_check(const struct build_options *o, const struct profile *p, bool pair);
/* Dies unless out is free: nothing is there, or an empty folder, or one that forgec wrote and nobody added to. */
void web_claim(struct arena *a, const char *out);
/* Writes the folder out: all of it, or nothing is changed.  Dies when model and context need more than the 4 GiB of a module.
 * in: [n], one, or the two of a pair. */
void web_build(struct arena *a, struct toolchain *tc, const struct library_input *in, uint32_t n, const char *out);
/* What runs such a folder in Node as a program: "OUT/run.js". */
const char *web_program(struct arena *a, const char *out);
/* The names of what lies in a folder, NULL-terminated; NULL: it cannot be read. */
const char **web_names(struct arena *a, const char *out);
#endif
