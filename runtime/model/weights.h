/* weights.h -- where the weight image comes from: the executable itself, a file beside it, or noise. */
#ifndef FORGE_WEIGHTS_H
#define FORGE_WEIGHTS_H

#include "runtime/run/engine.h"

/* Sets weights (and mapped) of the engine; its pool is open. FORGE_BAD_WEIGHTS names what is wrong with the file or, with source->verify,
 * the tensor. */
enum forge_status weights_open(struct forge_engine *engine, const struct forge_weights_source *source, struct forge_error *error);

/* Gives back what the weights were mapped from, if they were. */
void weights_unmap(struct forge_engine *engine);

/* Compares every tensor of the program's image, of several GPUs of all images, with its hash, at the speed of memory, with all threads
 * of the pool.  FORGE_BAD_WEIGHTS names the first that differs and its place in the file. */
enum forge_status weights_verify(const struct forge_program *program, const struct forge_weights_source *source, struct forge_pool *pool,
                                 struct forge_error *error);

/* False: built without weights, and no file of them is given or lies beside the program. */
bool weights_are_somewhere(const struct forge_weights_source *source);

/* The same image in its file: bytes [at, at + program->weights_bytes) of fd, to be read and not mapped; those of other ranks lie as far
 * away as their weights_offset says.  The caller closes fd. */
struct forge_weights_file { int fd; uint64_t at; };
enum forge_status weights_locate(struct forge_weights_file *out, const struct forge_weights_source *source,
                                 const struct forge_program *program,
                                 struct forge_error *error);

enum { WEIGHTS_NOISE_BYTES = 8192 };
/* What stands for weights with --random-weights, over and over: [WEIGHTS_NOISE_BYTES]. */
void weights_noise(uint8_t *out);

#endif
