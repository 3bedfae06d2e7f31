/* plan_check.h -- checks a plan: places are inside the arena and the image, and two things that are alive at the same time have different
 * places.  Aborts on an error. */
#ifndef FORGEC_PLAN_CHECK_H
#define FORGEC_PLAN_CHECK_H
#include "compiler/gpu/choose.h"
#include "compiler/web/choose.h"
#include "runtime/model/abi.h"

#include <stdlib.h>

struct place_of { uint64_t begin, end; uint32_t born, dies; };
struct places { struct place_of *list; uint32_t n, most; };

static void places_add(struct places *s, const struct buffer *b, uint64_t rows, uint32_t born, uint32_t dies)
{
    if (!b->exists || s->n == s->most) return;
    s->list[s->n++] = (struct place_of){ b->offset, b->offset + rows * b->stride, born, dies };
}

/* A GPU's value in 16 bits also has one row of floats, for decode. */
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
        if (p->gpu) {
            places_add(s, &p->gpu->groups[i].stage_f16, p->chunk, i, i);
            places_add(s, &p->gpu->groups[i].stage_bf16, p->chunk, i, i);
        }
        if (p->web) {
            const struct web_group *g = &p->web->groups[i];
            const struct buffer *const of_group[] = { &g->normed, &g->staged, &g->rows_in, &g->rows };
            for (size_t k = 0; k < COUNT_OF(of_group); k++) places_add(s, of_group[k], p->chunk, i, i);
        }
    }
}

/* The areas after the values must be in order. */
static void check_areas(const struct plan *p)
{
    const uint64_t logits = (uint64_t)p->model->n_out * 4;
    if (p->web) {
        const struct web_plan *w = p->web;
        if (p->parts_offset > w->maxima || w->maxima > w->sample || (w->scores && (w->scores < w->maxima || w->scores > w->sample)) ||
            w->sample > w->logits || w->logits + logits * w->logits_rows > p->arena_bytes) abort();
    } else if (p->gpu) {
        const struct gpu_plan *g = p->gpu;
        if (p->parts_offset > g->parts_ml || g->parts_ml > g->zero || g->zero + g->zero_bytes > g->sample_scratch ||
            g->logits + logits * g->logits_rows > p->arena_bytes) abort();
    } else if (p->parts_offset > p->scratch_offset || p->scratch_y > p->scratch_stride ||
               p->scratch_offset + p->scratch_stride * p->options.max_threads > p->arena_bytes) abort();
}

static void check_arena(struct arena *a, const struct plan *p)
{
    const bool turns = !p->gpu && !p->web && p->fused->graph->n_rotations;
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
    check_areas(p);
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
