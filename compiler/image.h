/* image.h -- the weight image: rotation tables, vectors as f32 and packed matrices, in the plan's order, streamed. */
#ifndef FORGEC_IMAGE_H
#define FORGEC_IMAGE_H
#include "plan.h"

struct image_writer { struct arena *arena; const struct plan *plan; uint32_t jobs; bool progress; };
/* Writes exactly plan->image_bytes bytes; packs with `jobs` threads through a buffer of a few MB.  context: struct image_writer. */
void image_write(struct outfile *f, void *context);
/* Hash of what the image depends on: model, order, places, rotation tables; 32 hex digits.  Equal hash = equal image. */
const char *image_hash(struct arena *a, const struct plan *p, const char *model_hash);
#endif
