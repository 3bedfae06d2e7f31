/* plan_check.h -- what a plan promises, asked of any plan: places inside the arena and the image,
 * and none of two things that are alive at once in one place.  Aborts. */
#ifndef FORGEC_PLAN_CHECK_H
#define FORGEC_PLAN_CHECK_H
#include "compiler/gpu/choose.h"
#include "runtime/model/abi.h"

#include <stdlib.h>

struct place_of { uint64_t begin, end; uint32_t born, dies; };
struct places { struct place_of *list; uint32_t n, most; };

static void places_add(struct places *s, const struct buffer *b, uint64_t rows, uint32_t born, uint32_t dies)
{
    if (!b->exists || s->n == s->most) return;
    s->list[s->n++] = (struct place_of){ b->offset, b->offset + rows * b->stride, born, dies };
}

/* A GPU's value that is kept in 16 bits has one row of floats, for decode. */
static void places_of_values(struct places *s, const struct plan *p)
{
    const struct graph *g = p->fused->graph;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct node *n = g->nodes[i];
        const uint32_t group = fuse_group(p->fused, n);
        if (group == NO_GROUP) continue;
        const uint32_t dies = plan_last_reader(p, n);
        const bool stage = p->gpu && (p->gpu->f16[i].exists || p->gpu->bf16[i].exists);
        places_add(s, &p->f32[i], stage ? 1 : p->chunk, group, dies);
        places_add(s, &p->packed[i], p->chunk, group, dies);
        if (stage) places_add(s, &p->gpu->f16[i], p->chunk, group, dies);
        if (stage) places_add(s, &p->gpu->bf16[i], p->chunk, group, dies);
    }
}

static void places_of_groups(struct places *s, const struct plan *p)
{
    for (uint32_t i = 0; i < p->fused->n_groups; i++) {
        places_add(s, &p->groups[i].stage_f32, p->chunk, i, i);
        places_add(s, &p->groups[i].stage_packed, p->chunk, i, i);
        if (!p->gpu) continue;
        places_add(s, &p->gpu->groups[i].stage_f16, p->chunk, i, i);
        places_add(s, &p->gpu->groups[i].stage_bf16, p->chunk, i, i);
    }
}

static void check_arena(struct arena *a, const struct plan *p)
{
    const bool turns = !p->gpu && p->fused->graph->n_rotations;
    const uint64_t values_end = turns ? p->rotations[0].table : p->parts_offset;
    struct places s = { .most = 2000 };
    s.list = arena_array(a, struct place_of, s.most);
    places_of_values(&s, p);
    places_of_groups(&s, p);
    for (uint32_t i = 0; i < s.n; i++) {
        if (s.list[i].end > values_end) abort();
        for (uint32_t k = 0; k < i; k++) {
            const struct place_of *x = &s.list[i], *y = &s.list[k];
            if (x->born <= y->dies && y->born <= x->dies && x->begin < y->end && y->begin < x->end) abort();
        }
    }
    if (p->gpu && (p->parts_offset > p->gpu->parts_ml || p->gpu->parts_ml > p->gpu->zero ||
                   p->gpu->zero + p->gpu->zero_bytes > p->gpu->sample_scratch ||
                   p->gpu->logits + (uint64_t)p->model->n_vocab * 4 * p->gpu->logits_rows > p->arena_bytes)) abort();
    if (!p->gpu && (p->parts_offset > p->scratch_offset || p->scratch_y > p->scratch_stride ||
                    p->scratch_offset + p->scratch_stride * p->options.max_threads > p->arena_bytes)) abort();
}

static void check_image(struct arena *a, const struct plan *p)
{
    const struct plan_tensor *t = plan_tensors(a, p);
    uint64_t end = 0;
    for (uint32_t i = 0; i < p->n_tensors; i++) {
        if (t[i].offset < end || t[i].offset % 64) abort();
        end = t[i].offset + t[i].bytes;
    }
    if (end > p->image_hashes || p->image_hashes + FORGE_HASHES_BYTES(p->n_tensors) > p->image_bytes) abort();
    uint64_t state = 0;
    for (uint32_t i = 0; i < p->n_states; i++) {
        if (p->states[i].offset != state) abort();
        state += p->states[i].bytes;
    }
    if (state != p->state_bytes || !p->chunk || p->chunk > p->options.n_ctx) abort();
}

static void plan_check(struct arena *a, const struct plan *p)
{
    check_arena(a, p);
    check_image(a, p);
}
#endif
