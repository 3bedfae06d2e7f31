/* web.h -- a model as a folder for web pages and Node: a WebAssembly module with engine and tokenizer, the weights in pieces, and the
 * ES module that loads them (runtime/web). Any static server can serve the folder, and npm can publish it, without changes. */
#ifndef FORGEC_WEB_H
#define FORGEC_WEB_H
#include "library.h"

/* True if the product is such a folder. */
bool web_wanted(const struct build_options *o, const struct target *p);
/* True if the two targets make one folder: WebGPU, and WebAssembly for browsers without WebGPU. */
bool web_is_pair(const struct target *first, const struct target *second);
/* Dies if the options do not fit such a folder. pair: p is one of two targets (web_is_pair). */
void web_check(const struct build_options *o, const struct target *p, bool pair);
/* Dies unless `out` may be written: nothing is there, or an empty folder, or a folder that forgec wrote and nobody added to. */
void web_claim(struct arena *a, const char *out);
/* Writes the folder `out`: all of it, or nothing changes. Dies if model and context need more than the 4 GiB of a module.
 * in: [n]; n is 1, or 2 for a pair. */
void web_build(struct arena *a, struct toolchain *tc, const struct library_input *in, uint32_t n, const char *out);
/* The file that runs such a folder in Node as a program: "OUT/run.js". */
const char *web_program(struct arena *a, const char *out);
/* The names of the entries of a folder, NULL-terminated; NULL: it cannot be read. */
const char **web_names(struct arena *a, const char *out);
#endif
