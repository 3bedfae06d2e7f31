/* save.c -- a context as bytes: header, tokens, and the used part of every state of the program. */
#include "instance.h"
#include "runtime/model/state.h"
#include "runtime/model/xxh3.h"
#include "freestanding.h"

struct header {
    char     magic[8];
    uint64_t checksum;                           /* XXH3 of everything after it */
    uint64_t build;                              /* build_identity() */
    uint64_t bytes;                              /* of the whole state */
    uint32_t n_past, n_written;
    uint64_t random[4];
    uint32_t far, zero;
};
_Static_assert(sizeof(struct header) == LIBRARY_SAVE_HEADER_BYTES, "MODEL_STATE_BYTES counts on it");
static const char magic[8] = { 'F', 'O', 'R', 'G', 'E', 'S', '0', '4' };
enum { CHECKED_FROM = offsetof(struct header, build) };

static uint64_t hash_text(uint64_t hash, const char *s)
{
    size_t n = 0;
    while (s[n] != 0) n++;
    return hash * 0x9e3779b97f4a7c15u + forge_xxh3(s, n);
}

/* Model, target, options and forgec decide what the bytes of states mean. */
static uint64_t build_identity(const struct forge_program *p)
{
    const char *const texts[] = { p->model_hash, p->weights_hash, p->target, p->options, p->compiler };
    uint64_t hash = p->n_ctx;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) hash = hash_text(hash, texts[i] ? texts[i] : "");
    return hash;
}

static uint64_t saved_bytes(const struct forge_program *p, uint32_t n_past)
{
    return sizeof(struct header) + 4 * (uint64_t)n_past + state_used_bytes(p, n_past);
}

/* Reads the states in the order of the table, each without the gaps between its runs. */
static int states_read(struct model *m, uint8_t *to)
{
    for (uint32_t i = 0; i < m->program->n_states; i++) {
        const struct state_runs r = state_runs(&m->program->states[i], m->sequence->n_past);
        const int status = library_state_read(m, &r, to);
        if (status != MODEL_OK) return status;
        to += r.n * r.bytes;
    }
    return MODEL_OK;
}

static int states_write(struct model *m, uint32_t n_past, const uint8_t *from)
{
    for (uint32_t i = 0; i < m->program->n_states; i++) {
        const struct state_runs r = state_runs(&m->program->states[i], n_past);
        const int status = library_state_write(m, &r, from);
        if (status != MODEL_OK) return status;
        from += r.n * r.bytes;
    }
    return MODEL_OK;
}

LIBRARY_PUBLIC int model_save(struct model *m, void *out, size_t capacity, size_t *written)
{
    const int ready = instance_ready(m);
    if (ready != MODEL_OK) return ready;
    if (!out || !written) return MODEL_BAD_ARGUMENT;
    const struct forge_program *p = m->program;
    const struct library_sequence *q = m->sequence;
    struct header h = { .build = build_identity(p), .bytes = saved_bytes(p, q->n_past), .n_past = q->n_past,
                        .n_written = q->n_written, .far = q->far };
    if (capacity < h.bytes) return MODEL_NO_ROOM;
    memcpy(h.magic, magic, sizeof magic);
    memcpy(h.random, q->random, sizeof h.random);
    uint8_t *const base = out, *at = base + sizeof h;
    memcpy(base, &h, sizeof h);
    memcpy(at, q->tokens, (size_t)q->n_past * 4);
    at += (size_t)q->n_past * 4;
    const int status = states_read(m, at);
    if (status != MODEL_OK) return status;
    h.checksum = forge_xxh3(base + CHECKED_FROM, h.bytes - CHECKED_FROM);
    memcpy(base, &h, sizeof h);
    *written = (size_t)h.bytes;
    return MODEL_OK;
}

static bool state_valid(const struct forge_program *p, const struct header *h, const uint8_t *state, size_t bytes)
{
    if (memcmp(h->magic, magic, sizeof magic) != 0 || h->build != build_identity(p) || h->n_past > p->n_ctx) return false;
    if (h->n_written < h->n_past || h->n_written > p->n_ctx || !state_rewinds(p, h->n_written, h->n_past, h->n_past)) return false;
    if (p->far_from > 0 ? h->far > 1 || (!h->far && h->n_past > p->far_from) : h->far > 0) return false;
    if (h->bytes != saved_bytes(p, h->n_past) || h->bytes > bytes) return false;
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
    struct library_sequence *q = m->sequence;
    struct header h;
    int status = library_context_empty(m);
    if (status != MODEL_OK) return status;
    if (bytes < sizeof h) return MODEL_BAD_STATE;
    memcpy(&h, state, sizeof h);
    if (!state_valid(m->program, &h, state, bytes)) return MODEL_BAD_STATE;
    const uint8_t *at = (const uint8_t *)state + sizeof h;
    memcpy(q->tokens, at, (size_t)h.n_past * 4);
    at += (size_t)h.n_past * 4;
    status = states_write(m, h.n_past, at);
    if (status != MODEL_OK) return status;
    memcpy(q->random, h.random, sizeof h.random);
    q->n_past = h.n_past;
    q->n_written = h.n_written;
    q->far = h.far;
    return MODEL_OK;
}
