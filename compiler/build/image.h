/* image.h -- writes and hashes the weight image: rotation tables, vectors as f32 and packed matrices, in the plan's order. It is
 * streamed. */
#ifndef FORGEC_IMAGE_H
#define FORGEC_IMAGE_H
#include "compiler/plan/plan.h"

/* The distinct images of an executable's programs: the image of plans[i] begins offsets[i] bytes (increasing, multiples of 4096) after the
 * beginning of the first. */
struct image_writer { struct arena *arena; const struct plan *plans[8]; uint64_t offsets[8]; uint32_t n_plans, jobs; bool progress; };
/* Writes exactly offsets[n_plans - 1] + plans[n_plans - 1]->image_bytes bytes; packs with `jobs` threads through a buffer of a few MB.
 * context: struct image_writer. */
void image_write(struct outfile *f, void *context);
/* Hash of everything the image depends on: model, order, places, rotation tables; 32 hex digits. Equal hashes mean equal images. */
const char *image_hash(struct arena *a, const struct plan *p, const char *model_hash);
#endif
