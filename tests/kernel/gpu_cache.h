/* gpu_cache.h -- the KV cache of GPUs as docs/gpu_internals.md describes it, written and read value by value, for tests of attention. */
#ifndef FORGE_TESTS_GPU_CACHE_H
#define FORGE_TESTS_GPU_CACHE_H
#include "machine.h"
#include "templates/gpu/dialect.h"
#include "templates/gpu/attention_sizes.h"
#include "templates/ref/ops.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static inline const char *kv_kind_name(uint32_t kind)
{
    static const char *const names[] = { "f16", "f32", "q8_0" };
    return names[kind];
}
/* Lanes have kernels for all types of the cache, a GPU's module for one type. */
static inline bool kv_kind_here(uint32_t kind)
{
    return machine_is_lanes() || variant_has(kv_kind_name(kind));
}
/* q8_0: heads must be whole blocks. */
static inline bool kv_holds(uint32_t kind, uint32_t head_dim) { return kind != KV_KIND_q8_0 || head_dim % 32 == 0; }
/* The type of the cache in the variants models and models-TYPE. */
static inline uint32_t kv_kind_of_models(void) { return variant_has("q8_0") ? KV_KIND_q8_0 : KV_KIND_f16; }

/* ring: number of rows, position p is in row p % ring; 0: a row for each of the n_ctx positions. */
struct gpu_cache { uint32_t kind, n_head_kv, head_dim, n_ctx, ring, window; uint64_t at; struct room *room; };
static inline uint32_t cache_rows(const struct gpu_cache *c) { return c->ring ? c->ring : c->n_ctx; }
/* The first position that a token at `position` attends to. */
static inline uint32_t attended_from(const struct gpu_cache *c, uint32_t position)
{
    return c->window && position + 1 > c->window ? position + 1 - c->window : 0;
}
static inline uint64_t plane_bytes(const struct gpu_cache *c)
{
    const uint64_t values = (uint64_t)c->n_head_kv * cache_rows(c) * c->head_dim;
    return c->kind == KV_KIND_f16 ? 2 * values : c->kind == KV_KIND_f32 ? 4 * values : (values + values / 16 + 15) / 16 * 16;
}
/* Makes the room, with `at` bytes of other layers before the cache; all bytes are NaN. */
static inline void cache_new(struct gpu_cache *c, uint64_t at) { c->at = at; c->room = room_new("the cache", at + 2 * plane_bytes(c)); }

/* The address of a row of K (of_v 0) or V, and of its scales (q8_0). */
struct cache_row { uint8_t *values, *scales; };
static inline struct cache_row cache_row(const struct gpu_cache *c, uint32_t of_v, uint32_t head, uint32_t position)
{
    const uint64_t rows = cache_rows(c), row = head * rows + (c->ring ? position % c->ring : position);
    uint8_t *plane = c->room->bytes + c->at + of_v * plane_bytes(c);
    return (struct cache_row){ plane + row * KV_VALUE_BYTES(c->kind, c->head_dim),
                               plane + c->n_head_kv * rows * c->head_dim + row * (c->head_dim / 32) * 2 };
}
static inline float cache_value(const struct gpu_cache *c, uint32_t of_v, uint32_t head, uint32_t position, uint32_t d)
{
    const struct cache_row r = cache_row(c, of_v, head, position);
    uint16_t half;
    float x;
    if (c->kind == KV_KIND_f32) {
        memcpy(&x, r.values + 4 * d, 4);
        return x;
    }
    memcpy(&half, c->kind == KV_KIND_f16 ? r.values + 2 * d : r.scales + d / 32 * 2, 2);
    return f32_of_f16_bits(half) * (c->kind == KV_KIND_f16 ? 1.0f : (float)(int8_t)r.values[d]);
}
/* Writes random values up to `size`; the first value is `first` if that is not NaN (f16 only). */
static inline void cache_draw(const struct gpu_cache *c, uint32_t of_v, uint32_t head, uint32_t position, float size, float first)
{
    const struct cache_row r = cache_row(c, of_v, head, position);
    for (uint32_t d = 0; d < c->head_dim; d++) {
        const float x = d == 0 && !isnan(first) ? first : random_f32() * size;
        const uint16_t half = (uint16_t)f16_bits(x), scale = (uint16_t)f16_bits(size / 127.0f * (0.1f + 0.9f * fabsf(random_f32())));
        if (c->kind == KV_KIND_f16) memcpy(r.values + 2 * d, &half, 2);
        if (c->kind == KV_KIND_f32) memcpy(r.values + 4 * d, &x, 4);
        if (c->kind == KV_KIND_q8_0) r.values[d] = (uint8_t)(int8_t)(x / size * 127.0f);
        if (c->kind == KV_KIND_q8_0 && d % 32 == 0) memcpy(r.scales + d / 16, &scale, 2);
    }
}
/* A head's values at positions from .. end - 1 as [end][head_dim]; the caller frees them. */
static inline float *cache_read(const struct gpu_cache *c, uint32_t of_v, uint32_t head, uint32_t from, uint32_t end)
{
    float *x = malloc((uint64_t)end * c->head_dim * sizeof *x);
    for (uint32_t p = from; p < end; p++)
        for (uint32_t d = 0; d < c->head_dim; d++) x[(uint64_t)p * c->head_dim + d] = cache_value(c, of_v, head, p, d);
    return x;
}
#endif
