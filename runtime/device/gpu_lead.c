/* gpu_lead.c -- the engine of a GPU where other processes share the model (gpu_machines.c).  Who uses the engine knows nothing of it: every
 * call that puts work on the device, or changes what later ones find, is told to the other processes first, which make the same one.  They
 * know of a text what stands in the message; what they draw is what the leading one draws. */
#include <stdlib.h>
#include <string.h>

#include "gpu_state.h"
#include "machines.h"
#include "runtime/model/state.h"

enum command { COMMAND_END, COMMAND_OPEN, COMMAND_CLOSE, COMMAND_CLEAR, COMMAND_COPY, COMMAND_READ, COMMAND_WRITE, COMMAND_HISTORY,
               COMMAND_STEP, COMMAND_SEVERAL, COMMAND_BEGIN, COMMAND_DRAW, COMMAND_RUN, COMMAND_NEXT };
static const double END_SECONDS = 5;             /* for the others to hear of the end */

/* A message as it is written or read: its length, then pieces, each at a multiple of 8. */
struct wire { uint8_t *message, *at; uint64_t left; bool cut; };

/* ---- pieces ---- */

static uint8_t *room(struct wire *w, size_t n)
{
    const size_t bytes = (n + 7) / 8 * 8;
    uint8_t *at = w->at;
    if (w->cut || bytes > w->left) {
        w->cut = true;
        return NULL;
    }
    w->at += bytes;
    w->left -= bytes;
    return at;
}

static void put(struct wire *w, const void *from, size_t n)
{
    uint8_t *to = room(w, n);
    if (to && n > 0) memcpy(to, from, n);
}

static void get(struct wire *w, void *to, size_t n)
{
    const uint8_t *from = room(w, n);
    if (from) memcpy(to, from, n);
    else memset(to, 0, n);
}

static void put_number(struct wire *w, uint64_t x) { put(w, &x, sizeof x); }

static uint64_t get_number(struct wire *w)
{
    uint64_t x;
    get(w, &x, sizeof x);
    return x;
}

struct place { uint32_t index, n_past, n_written, slot; };

static void put_sequence(struct wire *w, const struct forge_sequence *q)
{
    const struct place p = { (uint32_t)(q - q->engine->sequences), q->n_past, q->n_written, q->slot };
    put(w, &p, sizeof p);
}

/* As the leading process has it. */
static struct forge_sequence *get_sequence(struct wire *w, struct forge_engine *e)
{
    struct place p;
    get(w, &p, sizeof p);
    if (p.index >= e->n_sequences) {
        w->cut = true;
        p.index = 0;
    }
    struct forge_sequence *q = &e->sequences[p.index];
    q->engine = e;
    q->n_past = p.n_past;
    q->n_written = p.n_written;
    q->slot = p.slot;
    return q;
}

static void put_options(struct wire *w, const struct forge_sample_options *o)
{
    put(w, o, sizeof *o);
    put(w, o->biases, o->n_biases * sizeof *o->biases);
}

/* The biases stay in the message. */
static void get_options(struct wire *w, struct forge_sample_options *o)
{
    get(w, o, sizeof *o);
    o->biases = (const struct forge_bias *)(const void *)room(w, o->n_biases * sizeof *o->biases);
    if (w->cut) o->n_biases = 0;
}

static size_t mask_bytes(const struct forge_engine *e) { return (e->program->n_vocab + 31) / 32 * sizeof(uint32_t); }

/* ---- the leading process ---- */

static bool leads(const struct gpu *g) { return g->machines && !g->machines->follows; }

static enum forge_status begin(struct gpu *g, struct wire *w, enum command command, struct forge_error *error)
{
    struct machines *m = g->machines->machines;
    if (gpu_is_lost(g)) return error_set(error, FORGE_DEVICE_FAULT, "the other processes are gone");
    TRY(gpu_said(g, machines_message(m, &w->message, error)));
    w->at = w->message + sizeof(uint64_t);
    w->left = machines_bytes(m) - sizeof(uint64_t);
    w->cut = false;
    put_number(w, command);
    return FORGE_OK;
}

static enum forge_status end(struct gpu *g, const struct wire *w, struct forge_error *error)
{
    if (w->cut) return error_set(error, FORGE_FAILED, "a call is too long to be told to the other processes");
    return gpu_said(g, machines_send(g->machines->machines, (uint64_t)(w->at - w->message), error));
}

/* A command that is about one sequence and needs no more. */
static enum forge_status tell(const struct forge_sequence *q, enum command command, struct forge_error *error)
{
    struct gpu *g = q->engine->gpu;
    struct wire w;
    if (!leads(g)) return FORGE_OK;
    TRY(begin(g, &w, command, error));
    put_sequence(&w, q);
    return end(g, &w, error);
}

/* rank: whose; the message may go on. */
static enum forge_status begin_piece(struct wire *w, const struct forge_sequence *q, enum command command, uint32_t rank, uint64_t offset,
                                     uint64_t bytes, struct forge_error *error)
{
    TRY(begin(q->engine->gpu, w, command, error));
    put_sequence(w, q);
    put_number(w, rank);
    put_number(w, offset);
    put_number(w, bytes);
    return FORGE_OK;
}

void lead_sequence_open(struct forge_sequence *q, uint32_t index)
{
    gpu_sequence_open(q, index);
    tell(q, COMMAND_OPEN, NULL);
}

void lead_sequence_close(struct forge_sequence *q)
{
    tell(q, COMMAND_CLOSE, NULL);
    gpu_sequence_close(q);
}

enum forge_status lead_state_clear(struct forge_sequence *q, uint32_t rank, uint64_t offset, uint64_t bytes, struct forge_error *error)
{
    struct gpu *g = q->engine->gpu;
    struct wire w;
    if (!leads(g) || rank == g->rank) return gpu_state_clear(q, g->machines ? 0 : rank, offset, bytes, error);
    TRY(begin_piece(&w, q, COMMAND_CLEAR, rank, offset, bytes, error));
    return end(g, &w, error);
}

enum forge_status lead_sequence_copy(struct forge_sequence *to, const struct forge_sequence *from, struct forge_error *error)
{
    struct gpu *g = from->engine->gpu;
    struct wire w;
    if (leads(g)) {
        TRY(begin(g, &w, COMMAND_COPY, error));
        put_sequence(&w, to);
        put_sequence(&w, from);
        TRY(end(g, &w, error));
    }
    return gpu_sequence_copy(to, from, error);
}

enum forge_status lead_state_read(struct forge_sequence *q, uint32_t rank, void *to, uint64_t offset, uint64_t bytes,
                                  struct forge_error *error)
{
    struct gpu *g = q->engine->gpu;
    struct wire w;
    if (!leads(g) || rank == g->rank) return gpu_state_read(q, g->machines ? 0 : rank, to, offset, bytes, error);
    TRY(begin_piece(&w, q, COMMAND_READ, rank, offset, bytes, error));
    TRY(end(g, &w, error));
    TRY(gpu_said(g, machines_fetch(g->machines->machines, rank, NULL, bytes, error)));
    memcpy(to, w.message, (size_t)bytes);
    return FORGE_OK;
}

enum forge_status lead_state_write(struct forge_sequence *q, uint32_t rank, uint64_t offset, const void *from, uint64_t bytes,
                                   struct forge_error *error)
{
    struct gpu *g = q->engine->gpu;
    struct wire w;
    if (!leads(g) || rank == g->rank) return gpu_state_write(q, g->machines ? 0 : rank, offset, from, bytes, error);
    TRY(begin_piece(&w, q, COMMAND_WRITE, rank, offset, bytes, error));
    put(&w, from, (size_t)bytes);
    return end(g, &w, error);
}

static enum forge_status tell_tokens(const struct forge_sequence *q, enum command command, const int32_t *tokens, uint32_t n, bool decode,
                                     uint32_t n_logits, struct forge_error *error)
{
    struct gpu *g = q->engine->gpu;
    struct wire w;
    if (!leads(g)) return FORGE_OK;
    TRY(begin(g, &w, command, error));
    put_sequence(&w, q);
    put_number(&w, n);
    put_number(&w, decode);
    put_number(&w, n_logits);
    put(&w, tokens, n * sizeof *tokens);
    return end(g, &w, error);
}

enum forge_status lead_history_write(struct forge_sequence *q, const int32_t *tokens, uint32_t n, struct forge_error *error)
{
    TRY(tell_tokens(q, COMMAND_HISTORY, tokens, n, false, 0, error));
    return gpu_history_write(q, tokens, n, error);
}

enum forge_status lead_step(struct forge_sequence *q, bool decode, const int32_t *tokens, uint32_t n, uint32_t n_logits, float *logits,
                            struct forge_error *error)
{
    TRY(gpu_with_launch(q->engine->gpu, tell_tokens(q, COMMAND_STEP, tokens, n, decode, n_logits, error), error));
    return gpu_step(q, decode, tokens, n, n_logits, logits, error);
}

/* masks: those of a draw. */
static enum forge_status tell_columns(struct forge_engine *e, enum command command, const struct forge_column *c, uint32_t n, bool more,
                                      struct forge_error *error)
{
    struct gpu *g = e->gpu;
    struct wire w;
    if (!leads(g)) return FORGE_OK;
    TRY(begin(g, &w, command, error));
    put_number(&w, n);
    put_number(&w, more);
    for (uint32_t i = 0; i < n; i++) {
        const bool masked = command == COMMAND_DRAW && c[i].guided && c[i].mask;
        put_sequence(&w, c[i].sequence);
        put_number(&w, (uint32_t)c[i].token);
        if (command == COMMAND_SEVERAL) {
            put_number(&w, c[i].logits != NULL);
            continue;
        }
        put_options(&w, c[i].options);
        put(&w, c[i].random, sizeof *c[i].random);
        put_number(&w, c[i].guided);
        put_number(&w, masked);
        if (masked) put(&w, c[i].mask, mask_bytes(e));
    }
    return gpu_with_launch(g, end(g, &w, error), error);
}

enum forge_status lead_several(struct forge_engine *e, const struct forge_column *columns, uint32_t n, struct forge_error *error)
{
    TRY(tell_columns(e, COMMAND_SEVERAL, columns, n, false, error));
    return gpu_several(e, columns, n, error);
}

enum forge_status lead_several_begin(struct forge_engine *e, const struct forge_column *columns, uint32_t n, struct forge_error *error)
{
    TRY(tell_columns(e, COMMAND_BEGIN, columns, n, false, error));
    return gpu_several_begin(e, columns, n, error);
}

enum forge_status lead_several_draw(struct forge_engine *e, struct forge_column *columns, uint32_t n, bool more, struct forge_error *error)
{
    TRY(tell_columns(e, COMMAND_DRAW, columns, n, more, error));
    return gpu_several_draw(e, columns, n, more, error);
}

enum forge_status lead_draw_begin(struct forge_sequence *q, const struct forge_sample_options *options, const struct forge_random *random,
                                  int32_t first, uint64_t limit, bool last, struct forge_error *error)
{
    struct gpu *g = q->engine->gpu;
    struct wire w;
    if (leads(g)) {
        TRY(begin(g, &w, COMMAND_RUN, error));
        put_sequence(&w, q);
        put_options(&w, options);
        put(&w, random, sizeof *random);
        put_number(&w, (uint32_t)first);
        put_number(&w, limit);
        put_number(&w, last);
        TRY(gpu_with_launch(g, end(g, &w, error), error));
    }
    return gpu_draw_begin(q, options, random, first, limit, last, error);
}

enum forge_status lead_draw_next(struct forge_sequence *q, int32_t *token, struct forge_error *error)
{
    TRY(gpu_with_launch(q->engine->gpu, tell(q, COMMAND_NEXT, error), error));
    return gpu_draw_next(q, token, error);
}

/* What a run measures decides what it measures next, and the others know nothing of that. */
enum forge_status lead_laps(struct forge_sequence *q, const int32_t *tokens, uint32_t n, uint32_t steps, struct forge_laps *laps,
                            struct forge_error *error)
{
    if (q->engine->gpu->machines)
        return error_set(error, FORGE_USAGE, "--profile is for a program whose GPUs are those of one process");
    return gpu_laps(q, tokens, n, steps, laps, error);
}

/* Those that have a reason of their own to end have been heard, or are gone. */
void gpu_lead_end(struct gpu *g)
{
    struct wire w;
    if (!leads(g) || !g->machines->talks || gpu_is_lost(g)) return;
    g->machines->talks = false;
    if (begin(g, &w, COMMAND_END, NULL) == FORGE_OK && end(g, &w, NULL) == FORGE_OK)
        gpu_said(g, machines_gather(g->machines->machines, sizeof(uint64_t), END_SECONDS, NULL));
}

/* ---- the others ---- */

bool gpu_follows(const struct forge_engine *e) { return e->gpu && e->gpu->machines && e->gpu->machines->follows; }

static enum forge_status obey_piece(struct forge_engine *e, enum command command, struct wire *w, struct forge_error *error)
{
    struct gpu *g = e->gpu;
    struct forge_sequence *q = get_sequence(w, e);
    const uint32_t rank = (uint32_t)get_number(w);
    const uint64_t offset = get_number(w), bytes = get_number(w);
    if (rank != g->rank || w->cut) return FORGE_OK;
    if (command == COMMAND_CLEAR) return gpu_state_clear(q, 0, offset, bytes, error);
    if (command == COMMAND_READ)
        return gpu_said(g, machines_fetch(g->machines->machines, rank, gpu_state_of(g, q) + offset, bytes, error));
    const uint8_t *from = room(w, (size_t)bytes);
    return from ? gpu_state_write(q, 0, offset, from, bytes, error) : FORGE_OK;
}

static enum forge_status obey_tokens(struct forge_engine *e, enum command command, struct wire *w, struct forge_error *error)
{
    struct forge_sequence *q = get_sequence(w, e);
    const uint32_t n = (uint32_t)get_number(w);
    const bool decode = get_number(w) > 0;
    const uint32_t n_logits = (uint32_t)get_number(w);
    const int32_t *tokens = (const int32_t *)(const void *)room(w, n * sizeof *tokens);
    float unread;                                /* gpu_download_rows */
    if (w->cut) return FORGE_OK;
    return command == COMMAND_HISTORY ? gpu_history_write(q, tokens, n, error) : gpu_step(q, decode, tokens, n, n_logits, &unread, error);
}

static enum forge_status obey_columns(struct forge_engine *e, enum command command, struct wire *w, struct forge_error *error)
{
    struct forge_column c[FORGE_MAX_COLUMNS];
    struct forge_sample_options options[FORGE_MAX_COLUMNS];
    struct forge_random random[FORGE_MAX_COLUMNS];
    float unread;                                /* gpu_download_rows */
    const uint32_t n = (uint32_t)get_number(w);
    const bool more = get_number(w) > 0;
    if (n > FORGE_MAX_COLUMNS) w->cut = true;
    for (uint32_t i = 0; i < n && !w->cut; i++) {
        c[i] = (struct forge_column){ .sequence = get_sequence(w, e) };
        c[i].token = (int32_t)get_number(w);
        if (command == COMMAND_SEVERAL) {
            c[i].logits = get_number(w) > 0 ? &unread : NULL;
            continue;
        }
        get_options(w, &options[i]);
        get(w, &random[i], sizeof random[i]);
        c[i].options = &options[i];
        c[i].random = &random[i];
        c[i].guided = get_number(w) > 0;
        if (get_number(w) > 0) c[i].mask = (const uint32_t *)(const void *)room(w, mask_bytes(e));
    }
    if (w->cut) return FORGE_OK;
    return command == COMMAND_SEVERAL ? gpu_several(e, c, n, error)
         : command == COMMAND_BEGIN ? gpu_several_begin(e, c, n, error)
         : gpu_several_draw(e, c, n, more, error);
}

static enum forge_status obey_run(struct forge_engine *e, struct wire *w, struct forge_error *error)
{
    struct forge_sequence *q = get_sequence(w, e);
    struct forge_sample_options options;
    struct forge_random random;
    get_options(w, &options);
    get(w, &random, sizeof random);
    const int32_t first = (int32_t)get_number(w);
    const uint64_t limit = get_number(w);
    const bool last = get_number(w) > 0;
    return w->cut ? FORGE_OK : gpu_draw_begin(q, &options, &random, first, limit, last, error);
}

static enum forge_status obey(struct forge_engine *e, enum command command, struct wire *w, struct forge_error *error)
{
    struct forge_sequence *q;
    int32_t token;
    switch (command) {
    case COMMAND_OPEN:
        q = get_sequence(w, e);
        gpu_sequence_open(q, (uint32_t)(q - e->sequences));
        return FORGE_OK;
    case COMMAND_CLOSE:
        q = get_sequence(w, e);
        gpu_sequence_close(q);
        memset(q, 0, sizeof *q);
        return FORGE_OK;
    case COMMAND_CLEAR:
    case COMMAND_READ:
    case COMMAND_WRITE:   return obey_piece(e, command, w, error);
    case COMMAND_COPY:
        q = get_sequence(w, e);
        return gpu_sequence_copy(q, get_sequence(w, e), error);
    case COMMAND_HISTORY:
    case COMMAND_STEP:    return obey_tokens(e, command, w, error);
    case COMMAND_SEVERAL:
    case COMMAND_BEGIN:
    case COMMAND_DRAW:    return obey_columns(e, command, w, error);
    case COMMAND_RUN:     return obey_run(e, w, error);
    case COMMAND_NEXT:    return gpu_draw_next(get_sequence(w, e), &token, error);
    case COMMAND_END:     break;
    }
    w->cut = true;
    return FORGE_OK;
}

/* What both refuse, or find not finite, is the leading one's to say; a fault is this one's own. */
enum forge_status gpu_follow(struct forge_engine *e, struct forge_error *error)
{
    struct gpu *g = e->gpu;
    struct machines *m = g->machines->machines;
    for (;;) {
        struct wire w = { .left = machines_bytes(m) - sizeof(uint64_t) };
        TRY(gpu_said(g, machines_message(m, &w.message, error)));
        TRY(gpu_said(g, machines_receive(m, error)));
        w.at = w.message + sizeof(uint64_t);
        const enum command command = (enum command)get_number(&w);
        if (command == COMMAND_END) {
            g->machines->talks = false;
            return gpu_said(g, machines_gather(m, sizeof(uint64_t), END_SECONDS, error));
        }
        enum forge_status status = obey(e, command, &w, error);
        if (w.cut) status = error_set(error, FORGE_DEVICE_FAULT, "process 0 sent a message that process %u does not understand", g->rank);
        if (status == FORGE_DEVICE_FAULT || status == FORGE_NO_MEMORY) return gpu_said(g, status);
    }
}
