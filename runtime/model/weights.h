/* weights.h -- where the weight image comes from: the executable itself, a file beside it, or random numbers. */
#ifndef FORGE_WEIGHTS_H
#define FORGE_WEIGHTS_H

#include "runtime/run/engine.h"

/* Sets weights (and mapped) of the engine, whose pool is open.  FORGE_BAD_WEIGHTS says what is wrong with the file, or with
 * source->verify names the bad tensor. */
enum forge_status weights_open(struct forge_engine *engine, const struct forge_weights_source *source, struct forge_error *error);

/* Unmaps the weights, if they were mapped. */
void weights_unmap(struct forge_engine *engine);

/* Compares every tensor of the program's image with its hash, at the speed of memory, with all threads of the pool.  Several GPUs: the
 * tensors of all images.  FORGE_BAD_WEIGHTS names the first tensor that differs and its place in the file. */
enum forge_status weights_verify(const struct forge_program *program, const struct forge_weights_source *source, struct forge_pool *pool,
                                 struct forge_error *error);

/* False: the program was built without weights, no weight file is given, and there is no such file beside the program. */
bool weights_are_somewhere(const struct forge_weights_source *source);

/* The same image in its file, to be read and not mapped: bytes [at, at + program->weights_bytes) of fd.  The images of other ranks lie
 * as far away as the difference of their weights_offset.  The caller closes fd. */
struct forge_weights_file { int fd; uint64_t at; };
enum forge_status weights_locate(struct forge_weights_file *out, const struct forge_weights_source *source,
                                 const struct forge_program *program,
                                 struct forge_error *error);

enum { WEIGHTS_NOISE_BYTES = 8192 };
/* The noise that replaces the weights with --random-weights, repeated: [WEIGHTS_NOISE_BYTES]. */
void weights_noise(uint8_t *out);

#endif
