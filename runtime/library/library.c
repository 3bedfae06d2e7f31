/* library.c -- a model in the caller's workspace: checks and bookkeeping that do not depend on the engine.  cpu.c or gpu.c computes the
 * steps. */
#include "instance.h"
#include "runtime/run/random.h"
#include "runtime/run/finite.h"
#include "runtime/model/hashes.h"
#include "runtime/model/pool.h"
#include "runtime/model/state.h"
#include "freestanding.h"

/* ---- opening ---- */

static bool aligned(const void *p) { return (uintptr_t)p % LIBRARY_ALIGN == 0; }

static int options_take(struct model *m, const struct model_options *o)
{
    const struct forge_program *p = m->program;
    if (o && o->verify > MODEL_VERIFY_OPEN) return MODEL_BAD_ARGUMENT;
    const uint8_t *weights = forge_weights;
    if (o && o->weights) {
        weights = o->weights;
        if (o->weights_bytes != p->weights_offset + p->weights_bytes) return MODEL_BAD_WEIGHTS;
    }
    if (!weights || !aligned(weights)) return MODEL_BAD_WEIGHTS;
    m->weights = weights + p->weights_offset;
    if (o) {
        m->parallel_for = o->parallel_for;
        m->parallel_context = o->parallel_context;
    }
    return MODEL_OK;
}

/* Callers compiled before there were sequences pass a shorter struct. */
static bool options_sized(const struct model_options *o)
{
    return !o || o->size == sizeof *o || o->size == offsetof(struct model_options, n_sequences);
}

static uint32_t sequences_wanted(const struct model_options *o)
{
    return o && o->size == sizeof *o && o->n_sequences > 0 ? o->n_sequences : 1;
}

/* The struct, the tokens, and the engine's part. */
static uint64_t tokens_bytes(const struct forge_program *p) { return LIBRARY_UP(4 * (uint64_t)p->n_ctx); }
static uint64_t rows_bytes(const struct forge_program *p) { return p->embedding ? LIBRARY_ROWS_BYTES(p->chunk, p->n_embd) : 0; }
static uint64_t first_bytes(const struct forge_program *p)
{
    return LIBRARY_INSTANCE_BYTES + tokens_bytes(p) + library_engine_bytes(p) + rows_bytes(p);
}
static uint64_t further_bytes(const struct forge_program *p)
{
    return LIBRARY_SEQUENCE_HEAD_BYTES + tokens_bytes(p) + library_engine_sequence_bytes(p);
}

struct library_sequence *library_sequence(struct model *m, uint32_t i)
{
    return i == 0 ? &m->first : (void *)(m->further + (size_t)((i - 1) * further_bytes(m->program)));
}

/* Sets up n empty sequences without touching their memory. */
static void sequences_lay(struct model *m, uint32_t n)
{
    uint8_t *const workspace = (uint8_t *)m;
    m->n_sequences = n;
    m->further = workspace + (size_t)first_bytes(m->program);
    m->rows = (void *)(m->further - (size_t)rows_bytes(m->program));
    for (uint32_t i = 0; i < n; i++) {
        struct library_sequence *q = library_sequence(m, i);
        uint8_t *const at = i == 0 ? workspace + LIBRARY_INSTANCE_BYTES : (uint8_t *)q + LIBRARY_SEQUENCE_HEAD_BYTES;
        *q = (struct library_sequence){ .tokens = (void *)at, .memory = at + (size_t)tokens_bytes(m->program) };
        xoshiro_seed(q->random, 0);
    }
    m->sequence = &m->first;
}

static int contexts_begin(struct model *m)
{
    int status = MODEL_OK;
    for (uint32_t i = m->n_sequences; status == MODEL_OK && i-- > 0;) {
        m->sequence = library_sequence(m, i);
        status = library_context_begin(m);
    }
    return status;
}

static int verify_all(struct model *m)
{
    uint32_t at = 0;
    return model_verify(m, &at, UINT32_MAX, NULL);
}

LIBRARY_PUBLIC int model_open(struct model **out, void *workspace, size_t bytes, const struct model_options *options)
{
    if (!out || !workspace || !options_sized(options)) return MODEL_BAD_ARGUMENT;
    const struct forge_program *p = library_program();
    const uint32_t n = sequences_wanted(options);
    if (!aligned(workspace) || bytes < first_bytes(p) || (bytes - first_bytes(p)) / further_bytes(p) < n - 1) return MODEL_BAD_WORKSPACE;
    struct model *m = workspace;
    memset(m, 0, sizeof *m);
    m->program = p;
    int status = options_take(m, options);
    if (status != MODEL_OK) return status;
    sequences_lay(m, n);
    m->magic = LIBRARY_OPEN;
    if (options && options->verify == MODEL_VERIFY_OPEN && verify_all(m) != MODEL_OK) status = MODEL_BAD_WEIGHTS;
    if (status == MODEL_OK) status = library_engine_open(m, m->first.memory, options);
    if (status == MODEL_OK) status = contexts_begin(m);
    if (status == MODEL_OK) *out = m;
    else m->magic = 0;
    return status;
}

LIBRARY_PUBLIC const struct model_facts *model_facts(void) { return (const void *)library_facts; }

LIBRARY_PUBLIC int model_open_checked(struct model **out, void *workspace, size_t bytes, const struct model_options *options,
                                      uint32_t interface)
{
    return interface == model_facts()->interface ? model_open(out, workspace, bytes, options) : MODEL_BAD_ARGUMENT;
}

LIBRARY_PUBLIC void model_close(struct model *m)
{
    if (!m || m->magic != LIBRARY_OPEN) return;
    library_engine_close(m);
    m->magic = 0;
}

/* ---- steps ---- */

int library_step_put(struct model *m, uint32_t n, uint32_t flags, float *logits)
{
    struct library_sequence *q = m->sequence;
    const uint32_t n_past = q->n_past, expected = q->expected;
    const bool turns = library_turns(m, n), again = turns && n_past > 0;
    const uint32_t far = q->far ^ turns;
    if (again) {
        const int status = library_context_empty(m);
        if (status != MODEL_OK) return status;
        q->expected = expected;
        n += n_past;
    }
    q->far = far;
    m->step = (struct begun_step){ .n_tokens = n, .logits = logits, .flags = flags, .again = again, .busy = true };
    m->step.args = (struct forge_args){ .weights = m->weights, .arena = m->arena, .parts = m->arena, .state = q->memory,
                                        .logits = m->program->embedding ? m->rows : logits, .n_past = q->n_past, .far = far };
    library_step_begin(m);
    return MODEL_OK;
}

/* The text of an embedding model begins a new context. */
static int step_begin(struct model *m, const int32_t *tokens, uint32_t n, uint32_t flags, float *logits)
{
    const int ready = instance_ready(m);
    if (ready != MODEL_OK) return ready;
    const struct forge_program *p = m->program;
    if (!tokens || n == 0 || flags > MODEL_AS_IT_IS || (p->embedding && !logits)) return MODEL_BAD_ARGUMENT;
    struct library_sequence *q = m->sequence;
    if (n > p->n_ctx - (p->embedding ? 0 : q->n_past)) return MODEL_CONTEXT_FULL;      /* before they are read: n may be any number */
    for (uint32_t i = 0; i < n; i++)
        if (tokens[i] < 0 || (uint32_t)tokens[i] >= p->n_vocab) return MODEL_BAD_ARGUMENT;
    if (p->embedding) {
        const int emptied = library_context_empty(m);
        if (emptied != MODEL_OK) return emptied;
    }
    memcpy(q->tokens + q->n_past, tokens, n * sizeof *tokens);
    return library_step_put(m, n, flags, logits);
}

/* If logits are not finite, the context is emptied, because the states may hold the cause.  Nothing of it may reach later tokens: even a
 * masked product with rows after the context could be NaN. */
static int step_run(struct model *m, uint64_t n_tiles)
{
    const struct begun_step *s = &m->step;
    const struct forge_program *p = m->program;
    const uint32_t columns = program_columns(p);
    const int status = library_step_run(m, n_tiles);
    if (status != MODEL_OK || !s->logits) return status;
    if (p->embedding) pool_end(s->logits, p->embedding->pooling, s->n_tokens, columns, s->flags != MODEL_AS_IT_IS);
    if (first_not_finite(s->logits, columns) == columns) return status;
    m->sequence->n_past = m->sequence->n_written = m->sequence->far = m->sequence->expected = 0;
    const int cleared = library_state_clear(m, 0, m->program->state_bytes);
    return cleared != MODEL_OK ? cleared : MODEL_NOT_FINITE;
}

uint32_t library_rows(const struct model *m, uint32_t n)
{
    const struct begun_step *s = &m->step;
    const uint32_t at = s->args.n_past - m->sequence->n_past;
    if (m->program->embedding) return pool_rows(m->program->embedding->pooling, at, n, s->n_tokens);
    return at + n == s->n_tokens && s->logits;
}

void library_pool(struct model *m, uint32_t n_rows)
{
    const struct forge_program *p = m->program;
    if (p->embedding) pool_add(m->step.logits, p->embedding->pooling, m->rows, n_rows, m->step.args.n_past, p->n_embd);
}

static int step_whole(struct model *m, bool embeds, const int32_t *tokens, uint32_t n, uint32_t flags, float *logits)
{
    const int ready = instance_ready(m);
    if (ready != MODEL_OK) return ready;
    if (embeds != (m->program->embedding != NULL)) return MODEL_WRONG_KIND;
    const int status = step_begin(m, tokens, n, flags, logits);
    return status != MODEL_OK ? status : step_run(m, UINT64_MAX);
}

LIBRARY_PUBLIC int model_prefill(struct model *m, const int32_t *tokens, uint32_t n, float *logits)
{ return step_whole(m, false, tokens, n, 0, logits); }

LIBRARY_PUBLIC int model_embed(struct model *m, const int32_t *tokens, uint32_t n, uint32_t flags, float *vector)
{ return step_whole(m, true, tokens, n, flags, vector); }

LIBRARY_PUBLIC int model_step(struct model *m, int32_t token, float *logits) { return model_prefill(m, &token, 1, logits); }

LIBRARY_PUBLIC int model_begin(struct model *m, const int32_t *tokens, uint32_t n, float *logits)
{ return step_begin(m, tokens, n, 0, logits); }

LIBRARY_PUBLIC int model_step_budget(struct model *m, uint32_t n_tiles)
{
    const int ready = instance_ready(m);
    if (ready == MODEL_OK) return MODEL_NOT_BUSY;
    if (ready != MODEL_BUSY) return ready;
    return n_tiles == 0 ? MODEL_BAD_ARGUMENT : step_run(m, n_tiles);
}

LIBRARY_PUBLIC int model_cancel(struct model *m)
{
    const int ready = instance_ready(m);
    if (ready != MODEL_BUSY) return ready;
    const struct library_sequence *q = m->sequence;
    const uint32_t before = q->n_past;
    const bool again = m->step.again;
    m->step.busy = false;
    if (before > 0 && state_rewinds(m->program, q->n_written, before, before)) return MODEL_OK;
    const int status = library_context_empty(m);
    return status == MODEL_OK && (before > 0 || again) ? MODEL_CANNOT_REWIND : status;
}

/* ---- the context ---- */

LIBRARY_PUBLIC uint32_t model_n_past(const struct model *m) { return m && m->magic == LIBRARY_OPEN ? m->sequence->n_past : 0; }

int library_context_begin(struct model *m)
{
    int status = MODEL_OK;
    for (uint32_t i = 0; status == MODEL_OK && i < m->program->n_states; i++) {
        const struct forge_state *s = &m->program->states[i];
        if (state_begins_zero(s)) status = library_state_clear(m, s->offset, s->bytes);
    }
    return status;
}

int library_context_empty(struct model *m)
{
    m->sequence->n_past = m->sequence->n_written = m->sequence->far = m->sequence->expected = 0;
    return library_context_begin(m);
}

LIBRARY_PUBLIC int model_reset(struct model *m, uint32_t n_past)
{
    const int ready = instance_ready(m);
    if (ready != MODEL_OK) return ready;
    struct library_sequence *q = m->sequence;
    if (n_past > q->n_past) return MODEL_BAD_ARGUMENT;
    if (!state_rewinds(m->program, q->n_written, q->n_past, n_past)) return MODEL_CANNOT_REWIND;
    if (n_past == 0) return q->n_past > 0 ? library_context_empty(m) : MODEL_OK;
    q->n_past = n_past;
    q->expected = 0;
    return MODEL_OK;
}

/* ---- sequences ---- */

LIBRARY_PUBLIC int model_sequence_use(struct model *m, uint32_t sequence)
{
    const int ready = instance_ready(m);
    if (ready != MODEL_OK) return ready;
    if (sequence >= m->n_sequences) return MODEL_NO_SEQUENCE;
    m->sequence = library_sequence(m, sequence);
    return MODEL_OK;
}

/* Without tokens there is nothing to copy; then the memory of `to` is prepared for a first token. */
static int states_copy(struct model *m, struct library_sequence *to, const struct library_sequence *from)
{
    if (from->n_past > 0) return library_state_copy(m, to, from);
    struct library_sequence *const used = m->sequence;
    m->sequence = to;
    const int status = library_context_begin(m);
    m->sequence = used;
    return status;
}

LIBRARY_PUBLIC int model_sequence_copy(struct model *m, uint32_t to, uint32_t from)
{
    const int ready = instance_ready(m);
    if (ready != MODEL_OK) return ready;
    if (to >= m->n_sequences || from >= m->n_sequences) return MODEL_NO_SEQUENCE;
    struct library_sequence *t = library_sequence(m, to);
    const struct library_sequence *f = library_sequence(m, from);
    if (t == f) return MODEL_OK;
    const int status = states_copy(m, t, f);
    if (status != MODEL_OK) return status;
    memcpy(t->tokens, f->tokens, (size_t)f->n_past * sizeof *f->tokens);
    memcpy(t->random, f->random, sizeof f->random);
    t->n_past = f->n_past;
    t->n_written = f->n_written;
    t->far = f->far;
    t->expected = 0;
    return MODEL_OK;
}

/* ---- the weights ---- */

LIBRARY_PUBLIC int model_verify(struct model *m, uint32_t *at, uint32_t n, const char **name)
{
    const int ready = instance_ready(m);
    if (ready != MODEL_OK) return ready;
    const struct forge_program *p = m->program;
    if (!at || n == 0 || *at > p->n_tensors) return MODEL_BAD_ARGUMENT;
    if (*at == p->n_tensors) return MODEL_OK;
    const uint64_t *hashes = hashes_of(p, m->weights);
    const char *differs = !hashes ? "hashes of the tensors" : NULL;
    if (!hashes) *at = p->n_tensors;                /* nothing is left to compare */
    for (; n > 0 && !differs && *at < p->n_tensors; n--, ++*at)
        if (!tensor_is_intact(&p->tensors[*at], m->weights, hashes[*at])) differs = p->tensors[*at].name;
    if (!differs) return *at < p->n_tensors ? MODEL_MORE : MODEL_OK;
    if (name) *name = differs;
    return MODEL_BAD_WEIGHTS;
}

/* ---- texts ---- */

LIBRARY_PUBLIC const char *model_strerror(int status)
{
    switch (status) {
    case MODEL_OK:            return "done";
    case MODEL_MORE:          return "tiles of the step, or tensors to verify, are left";
    case MODEL_BAD_ARGUMENT:  return "an argument is not valid, or the program was compiled with the header of another build";
    case MODEL_BAD_WORKSPACE: return "the workspace is too small or not aligned";
    case MODEL_BAD_WEIGHTS:   return "the weights are missing, of another size, or damaged";
    case MODEL_CONTEXT_FULL:  return "the tokens do not fit into the context";
    case MODEL_BUSY:          return "a step was begun and is not finished";
    case MODEL_NOT_BUSY:      return "no step was begun";
    case MODEL_NO_TOKENIZER:  return "the model has no tokenizer";
    case MODEL_NO_ROOM:       return "the output or the scratch is too small";
    case MODEL_BAD_STATE:     return "not a state of this model, or damaged";
    case MODEL_NO_DEVICE:     return "no GPU for this model, or no library for it";
    case MODEL_DEVICE_FAILED: return "the GPU reported an error";
    case MODEL_NO_MEMORY:     return "the GPU is out of memory";
    case MODEL_CANNOT_REWIND: return "the model cannot go back to that position: reset to 0 and append the tokens again";
    case MODEL_NOT_FINITE:    return "the logits are not finite: the weights are damaged, or the model overflows";
    case MODEL_WRONG_KIND:    return "the model generates text and gives no vectors, or the other way round";
    case MODEL_NO_SEQUENCE:   return "the instance has no sequence of that number";
    case MODEL_NO_TEMPLATE:   return "the model has no chat template";
    case MODEL_REFUSED:       return "the input is wrong, or the chat template or the grammar does not accept it";
    case MODEL_STUCK:         return "no token of the vocabulary can continue the text as the grammar requires";
    default:                  return "unknown status";
    }
}
