/* state.c -- a context as bytes: header, tokens, and of the KV cache the positions that are in use. */
#include "instance.h"
#include "runtime/model/xxh3.h"
#include "freestanding.h"

struct header {
    char     magic[8];
    uint64_t checksum;                           /* XXH3 of everything behind it */
    uint64_t build;                              /* build_identity() */
    uint64_t bytes;                              /* of the whole state */
    uint32_t n_past, reserved;
    uint64_t random[4];
};
_Static_assert(sizeof(struct header) == LIBRARY_SAVE_HEADER_BYTES, "MODEL_STATE_BYTES counts on it");
static const char magic[8] = { 'F', 'O', 'R', 'G', 'E', 'S', '0', '1' };
enum { CHECKED_FROM = offsetof(struct header, build) };

static uint64_t hash_text(uint64_t hash, const char *s)
{
    size_t n = 0;
    while (s[n] != 0) n++;
    return hash * 0x9e3779b97f4a7c15u + forge_xxh3(s, n);
}

/* Model, target, options and forgec decide what the bytes of a KV cache mean. */
static uint64_t build_identity(const struct forge_program *p)
{
    const char *const texts[] = { p->model_hash, p->weights_hash, p->target, p->options, p->compiler };
    uint64_t hash = p->n_ctx;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) hash = hash_text(hash, texts[i] ? texts[i] : "");
    return hash;
}

/* The cache is runs of n_ctx rows, K and V of each head of each layer (templates/cpu/kv_tmpl.c, templates/gpu/kv.h).  On a CPU K lies in
 * blocks of 16 positions, so multiples of 16 rows from the start of a run are what that many positions need. */
static struct library_runs runs_of(const struct forge_program *p, uint32_t n_past)
{
    const uint64_t context = ((uint64_t)p->n_ctx + 15) / 16 * 16, used = ((uint64_t)n_past + 15) / 16 * 16;
    const uint64_t stride = context * p->kv_row_bytes;
    if (stride == 0 || p->kv_bytes % stride != 0) return (struct library_runs){ 1, p->kv_bytes, p->kv_bytes };
    return (struct library_runs){ p->kv_bytes / stride, stride, used * p->kv_row_bytes };
}

static uint64_t state_bytes(const struct forge_program *p, uint32_t n_past)
{
    const struct library_runs r = runs_of(p, n_past);
    return sizeof(struct header) + 4 * (uint64_t)n_past + r.n * r.used;
}

LIBRARY_PUBLIC int model_save(struct model *m, void *out, size_t capacity, size_t *written)
{
    const int ready = instance_ready(m);
    if (ready != MODEL_OK) return ready;
    if (!out || !written) return MODEL_BAD_ARGUMENT;
    const struct forge_program *p = m->program;
    const struct library_runs runs = runs_of(p, m->n_past);
    struct header h = { .build = build_identity(p), .bytes = state_bytes(p, m->n_past), .n_past = m->n_past };
    if (capacity < h.bytes) return MODEL_NO_ROOM;
    memcpy(h.magic, magic, sizeof magic);
    memcpy(h.random, m->random, sizeof h.random);
    uint8_t *const base = out, *at = base + sizeof h;
    memcpy(base, &h, sizeof h);
    memcpy(at, m->tokens, (size_t)m->n_past * 4);
    at += (size_t)m->n_past * 4;
    const int status = library_kv_read(m, &runs, at);
    if (status != MODEL_OK) return status;
    h.checksum = forge_xxh3(base + CHECKED_FROM, h.bytes - CHECKED_FROM);
    memcpy(base, &h, sizeof h);
    *written = (size_t)h.bytes;
    return MODEL_OK;
}

static bool state_valid(const struct forge_program *p, const struct header *h, const uint8_t *state, size_t bytes)
{
    if (memcmp(h->magic, magic, sizeof magic) != 0 || h->build != build_identity(p) || h->n_past > p->n_ctx) return false;
    if (h->bytes != state_bytes(p, h->n_past) || h->bytes > bytes) return false;
    if (forge_xxh3(state + CHECKED_FROM, h->bytes - CHECKED_FROM) != h->checksum) return false;
    for (uint32_t i = 0; i < h->n_past; i++) {
        uint32_t token;
        memcpy(&token, state + sizeof *h + (size_t)i * 4, sizeof token);
        if (token >= p->n_vocab) return false;
    }
    return true;
}

LIBRARY_PUBLIC int model_restore(struct model *m, const void *state, size_t bytes)
{
    const int ready = instance_ready(m);
    if (ready != MODEL_OK) return ready;
    if (!state) return MODEL_BAD_ARGUMENT;
    struct header h;
    m->n_past = 0;
    if (bytes < sizeof h) return MODEL_BAD_STATE;
    memcpy(&h, state, sizeof h);
    if (!state_valid(m->program, &h, state, bytes)) return MODEL_BAD_STATE;
    const struct library_runs runs = runs_of(m->program, h.n_past);
    const uint8_t *at = (const uint8_t *)state + sizeof h;
    memcpy(m->tokens, at, (size_t)h.n_past * 4);
    at += (size_t)h.n_past * 4;
    const int status = library_kv_write(m, &runs, at);
    if (status != MODEL_OK) return status;
    memcpy(m->random, h.random, sizeof h.random);
    m->n_past = h.n_past;
    return MODEL_OK;
}
