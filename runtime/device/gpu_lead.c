/* gpu_lead.c -- the engine of a GPU when other processes share the model (gpu_machines.c).  Users of the engine need not know: every
 * call that puts work on the device, or that changes the state for later calls, is first sent to the other processes, which make the
 * same call.  They know only those parts of a text that are in the messages; they use the tokens that the leading process draws. */
#include <stdlib.h>
#include <string.h>

#include "gpu_state.h"
#include "machines.h"
#include "runtime/model/state.h"

enum command { COMMAND_END, COMMAND_OPEN, COMMAND_CLOSE, COMMAND_CLEAR, COMMAND_COPY, COMMAND_READ, COMMAND_WRITE, COMMAND_HISTORY,
               COMMAND_STEP, COMMAND_SEVERAL, COMMAND_BEGIN, COMMAND_DRAW, COMMAND_RUN, COMMAND_NEXT };
static const double END_SECONDS = 20;            /* how long the other processes have to receive the end */

/* A message being written or read: its length, then pieces, each aligned to 8 bytes. */
struct wire { uint8_t *message, *at; uint64_t left; bool cut; };

/* ---- pieces ---- */

static uint8_t *room(struct wire *w, size_t n)
{
    const size_t bytes = n > w->left ? n : (n + 7) / 8 * 8;          /* a length near 2^64 must not become a short one */
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

struct place { uint32_t index, n_past, n_written; uint16_t slot, far; };

static void put_sequence(struct wire *w, const struct forge_sequence *q)
{
    const struct place p = { (uint32_t)(q - q->engine->sequences), q->n_past, q->n_written, (uint16_t)q->slot, q->far };
    put(w, &p, sizeof p);
}

/* Whatever a message says, access stays inside this process's memory: a message with an invalid value is rejected. */
static void must(struct wire *w, bool holds) { w->cut |= !holds; }

static uint32_t get_small(struct wire *w, uint64_t most)
{
    const uint64_t x = get_number(w);
    must(w, x <= most);
    return x <= most ? (uint32_t)x : 0;
}

static bool are_tokens(const struct forge_engine *e, const int32_t *tokens, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) if (tokens[i] < 0 || (uint32_t)tokens[i] >= e->program->n_vocab) return false;
    return true;
}

/* Gives the sequence the state that it has in the leading process. */
static struct forge_sequence *get_sequence(struct wire *w, struct forge_engine *e)
{
    struct place p;
    get(w, &p, sizeof p);
    if (p.index >= e->n_sequences || p.n_past > e->n_ctx || p.n_written > e->program->n_ctx || p.slot > e->program->gpu->most_columns ||
        p.far > 1) {
        w->cut = true;
        p = (struct place){ 0 };
    }
    struct forge_sequence *q = &e->sequences[p.index];
    q->engine = e;
    q->n_past = p.n_past;
    q->n_written = p.n_written;
    q->slot = p.slot;
    q->far = p.far;
    return q;
}

static void put_options(struct wire *w, const struct forge_sample_options *o)
{
    put(w, o, sizeof *o);
    put(w, o->biases, o->n_biases * sizeof *o->biases);
}

/* The biases stay in the message. */
static void get_options(struct wire *w, const struct forge_engine *e, struct forge_sample_options *o)
{
    enum { MOST = sizeof ((struct forge_gpu_step *)0)->biases / sizeof ((struct forge_gpu_step *)0)->biases[0] };
    get(w, o, sizeof *o);
    must(w, o->n_biases <= MOST);
    if (w->cut) o->n_biases = 0;
    o->biases = (const struct forge_bias *)(const void *)room(w, o->n_biases * sizeof *o->biases);
    if (w->cut) o->n_biases = 0;
    for (size_t i = 0; i < o->n_biases; i++) must(w, are_tokens(e, &o->biases[i].id, 1));
    if (w->cut) o->n_biases = 0;
}

static size_t mask_bytes(const struct forge_engine *e) { return (e->program->n_vocab + 31) / 32 * sizeof(uint32_t); }

/* ---- the leading process ---- */

static bool leads(const struct gpu *g) { return g->machines && !g->machines->follows; }

static enum forge_status begin(struct gpu *g, struct wire *w, enum command command, struct forge_error *error)
{
    struct machines *m = g->machines->machines;
    if (gpu_is_lost(g)) return error_set(error, FORGE_DEVICE_FAULT, "the other processes have ended; their messages say why");
    TRY(gpu_said(g, machines_message(m, &w->message, error)));
    w->at = w->message + sizeof(uint64_t);
    w->left = machines_bytes(m) - sizeof(uint64_t);
    w->cut = false;
    put_number(w, command);
    return FORGE_OK;
}

static enum forge_status end(struct gpu *g, const struct wire *w, struct forge_error *error)
{
    if (w->cut) return error_set(error, FORGE_FAILED, "a message to the other processes is too long");
    return gpu_said(g, machines_send(g->machines->machines, (uint64_t)(w->at - w->message), error));
}

/* Sends a command about one sequence without further data. */
static enum forge_status tell(const struct forge_sequence *q, enum command command, struct forge_error *error)
{
    struct gpu *g = q->engine->gpu;
    struct wire w;
    if (!leads(g)) return FORGE_OK;
    TRY(begin(g, &w, command, error));
    put_sequence(&w, q);
    return end(g, &w, error);
}

/* rank: the GPU of the piece.  The caller may append to the message. */
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

/* A measurement decides from its results what to measure next, and the other processes do not know these results. */
enum forge_status lead_timings(struct forge_sequence *q, const int32_t *tokens, uint32_t n, uint32_t steps, struct forge_timings *timings,
                               struct forge_error *error)
{
    if (q->engine->gpu->machines)
        return error_set(error, FORGE_USAGE, "--profile needs all GPUs of the program in one process");
    return gpu_timings(q, tokens, n, steps, timings, error);
}

/* Processes that ended for a reason of their own have already reported it, or are gone. */
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
    if (rank != g->rank) return FORGE_OK;
    must(w, q->history && offset <= g->program->state_bytes && bytes <= g->program->state_bytes - offset);
    if (w->cut) return FORGE_OK;
    if (command == COMMAND_CLEAR) return gpu_state_clear(q, 0, offset, bytes, error);
    if (command == COMMAND_READ)
        return gpu_said(g, machines_fetch(g->machines->machines, rank, gpu_state_of(g, q) + offset, bytes, error));
    const uint8_t *from = room(w, (size_t)bytes);
    return from ? gpu_state_write(q, 0, offset, from, bytes, error) : FORGE_OK;
}

static enum forge_status obey_tokens(struct forge_engine *e, enum command command, struct wire *w, struct forge_error *error)
{
    struct forge_sequence *q = get_sequence(w, e);
    const uint32_t n = get_small(w, command == COMMAND_HISTORY ? e->program->n_ctx : e->program->chunk);
    const bool decode = get_number(w) > 0;
    const uint32_t n_logits = get_small(w, n);
    const int32_t *tokens = (const int32_t *)(const void *)room(w, n * sizeof *tokens);
    float unread;                                /* (filled by gpu_download_rows, not used) */
    if (w->cut) return FORGE_OK;
    must(w, q->history && are_tokens(e, tokens, n));
    if (command == COMMAND_STEP) must(w, n >= 1 && (n == 1 || !decode) && n <= e->program->n_ctx - q->n_past);
    if (w->cut) return FORGE_OK;
    return command == COMMAND_HISTORY ? gpu_history_write(q, tokens, n, error) : gpu_step(q, decode, tokens, n, n_logits, &unread, error);
}

static enum forge_status obey_columns(struct forge_engine *e, enum command command, struct wire *w, struct forge_error *error)
{
    struct forge_column c[FORGE_MAX_COLUMNS];
    struct forge_sample_options options[FORGE_MAX_COLUMNS];
    struct forge_random random[FORGE_MAX_COLUMNS];
    float unread;                                /* (filled by gpu_download_rows, not used) */
    const struct forge_gpu *p = e->program->gpu;
    const uint32_t most = command != COMMAND_SEVERAL ? FORGE_MAX_COLUMNS : p->several ? p->most_columns : 1;
    const uint32_t n = get_small(w, most < FORGE_MAX_COLUMNS ? most : FORGE_MAX_COLUMNS);
    const bool more = get_number(w) > 0;
    for (uint32_t i = 0; i < n && !w->cut; i++) {
        c[i] = (struct forge_column){ .sequence = get_sequence(w, e) };
        c[i].token = (int32_t)get_small(w, e->program->n_vocab - 1);
        must(w, c[i].sequence->history && c[i].sequence->n_past < e->program->n_ctx);
        if (command == COMMAND_SEVERAL) {
            c[i].logits = get_number(w) > 0 ? &unread : NULL;
            continue;
        }
        get_options(w, e, &options[i]);
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
    get_options(w, e, &options);
    get(w, &random, sizeof random);
    const int32_t first = (int32_t)get_number(w);
    const uint64_t limit = get_number(w);
    const bool last = get_number(w) > 0;
    must(w, q->history && (first == -1 || (are_tokens(e, &first, 1) && q->n_past < e->program->n_ctx)));
    return w->cut ? FORGE_OK : gpu_draw_begin(q, &options, &random, first, limit, last, error);
}

static enum forge_status obey(struct forge_engine *e, enum command command, struct wire *w, struct forge_error *error)
{
    struct forge_sequence *q;
    const struct forge_sequence *from;
    int32_t token;
    switch (command) {
    case COMMAND_OPEN:
        q = get_sequence(w, e);
        if (w->cut) return FORGE_OK;
        gpu_sequence_open(q, (uint32_t)(q - e->sequences));
        return FORGE_OK;
    case COMMAND_CLOSE:
        q = get_sequence(w, e);
        if (w->cut) return FORGE_OK;
        gpu_sequence_close(q);
        memset(q, 0, sizeof *q);
        return FORGE_OK;
    case COMMAND_CLEAR:
    case COMMAND_READ:
    case COMMAND_WRITE:   return obey_piece(e, command, w, error);
    case COMMAND_COPY:
        q = get_sequence(w, e);
        from = get_sequence(w, e);
        must(w, q->history && from->history);
        return w->cut ? FORGE_OK : gpu_sequence_copy(q, from, error);
    case COMMAND_HISTORY:
    case COMMAND_STEP:    return obey_tokens(e, command, w, error);
    case COMMAND_SEVERAL:
    case COMMAND_BEGIN:
    case COMMAND_DRAW:    return obey_columns(e, command, w, error);
    case COMMAND_RUN:     return obey_run(e, w, error);
    case COMMAND_NEXT:
        q = get_sequence(w, e);
        must(w, q->history != NULL);
        return w->cut ? FORGE_OK : gpu_draw_next(q, &token, error);
    case COMMAND_END:     break;
    }
    w->cut = true;
    return FORGE_OK;
}

/* Refusals and non-finite values occur in both processes, and the leading one reports them; a device fault is reported here. */
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
        if (w.cut)
            status = error_set(error, FORGE_DEVICE_FAULT,
                "process 0 sent a message that process %u does not know; start the same program in all processes", g->rank);
        if (status == FORGE_DEVICE_FAULT || status == FORGE_NO_MEMORY) return gpu_said(g, status);
    }
}
