/* batch.c -- see batch.h. */
#include "batch.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/model/abi_gpu.h"
#include "runtime/model/state.h"
#include "runtime/text/text.h"
#include "runtime/text/tokenize.h"
#include "watch.h"

/* The longest time in seconds for a piece of a prompt: while other texts wait for their next token, and while none waits. */
#define PIECE_SHARED 0.05
#define PIECE_ALONE 0.25

enum { MOST_ROWS = 64 };                     /* tokens of a piece of a prompt, if their log probabilities are wanted */

/* A sequence and the tokens that it has.  The first n_slots slots make texts.  Further slots exist if a layer's state cannot be rewound:
 * they hold states at the ends of prompts, for texts that continue from there. */
struct slot {
    struct forge_sequence *sequence;
    int32_t *ids;                            /* [n_ctx]: its n_past tokens */
    struct task *task;                       /* NULL: idle */
    struct forge_sampler *sampler;
    uint32_t n_read;                         /* tokens read of the prompt */
    uint32_t n_solid;                        /* first tokens that were read as a prompt, so that another prompt may begin with them */
    uint32_t n_ids;                          /* idle slot: number of ids that it had read or made when its last text ended */
    uint32_t n_past;                         /* n_past of the sequence, for other threads: under the lock */
    int32_t  pending;                        /* drawn, but not yet in the sequence; -1: the prompt is being read */
    bool     drawing;                        /* its tokens are drawn on the device */
    char    *tail;                           /* text held back, because it may become a stop text or a whole UTF-8 sequence */
    size_t   n_tail, tail_room;
    char     recent[128];                    /* [n_recent] the end of the text, while waiting for task->guide_after */
    size_t   n_recent;
    bool     guided;                         /* by task->guide, from now on */
    bool     in_lines;                       /* the text has a newline */
    uint64_t used;                           /* clock of its last use */
    double   began;
};

struct batch {
    struct forge_engine *engine;
    const struct forge_program *program;
    struct batch_options options;
    struct slot *slots;                      /* [n_entries] */
    uint32_t n_entries, turn;
    float   *logits;                         /* [n_slots][n_vocab] */
    float   *raw;                            /* [n_vocab] copy of the logits for log probabilities, because a draw changes the logits */
    float   *rows;                           /* for an embedding model; else [MOST_ROWS][n_vocab] logits, from the first use on */
    double   token_seconds;                  /* seconds per prompt token, measured recently; 0: unknown */
    uint64_t clock;
    bool     ahead;                          /* the next step of all texts is already running */
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t  work;
    struct task *first, **last;              /* queue of waiting tasks */
    uint32_t n_waiting;
    bool     stopping;
    struct batch_numbers numbers;
};

/* ---- results of tasks ---- */

static bool room_for(void **bytes, size_t *room, size_t n)
{
    if (n <= *room) return true;
    const size_t wanted = n + n / 2 + 256;
    void *more = realloc(*bytes, wanted);
    if (!more) return false;
    *bytes = more;
    *room = wanted;
    return true;
}

static void wake(const struct batch *b)
{
    const uint64_t one = 1;
    if (write(b->options.wake_fd, &one, sizeof one) < 0) return;         /* full: the reader is awake */
}

static bool add_text(struct task *t, const char *text, size_t n)
{
    void *bytes = t->text;
    if (!room_for(&bytes, &t->text_room, t->n_text + n)) return false;
    t->text = bytes;
    if (n) memcpy(t->text + t->n_text, text, n);
    t->n_text += n;
    t->changed = true;
    return true;
}

/* The length of an incomplete UTF-8 sequence at the end of the text. */
static size_t unfinished(const char *text, size_t n)
{
    for (size_t i = 1; i <= 3 && i <= n; i++) {
        const uint8_t c = (uint8_t)text[n - i];
        if (c >= 0xc0) return i < (c >= 0xf0 ? 4u : c >= 0xe0 ? 3u : 2u) ? i : 0;
        if (c < 0x80) return 0;
    }
    return 0;
}

/* Where a stop text begins; n_tail if no stop text occurs. */
static size_t find_stop(const struct slot *s, size_t *which)
{
    const struct task *t = s->task;
    size_t first = s->n_tail;
    for (uint32_t k = 0; k < t->n_stops; k++)
        for (size_t at = 0; at < first && at + t->stops[k].n <= s->n_tail; at++)
            if (memcmp(s->tail + at, t->stops[k].text, t->stops[k].n) == 0) { first = at; *which = k; }
    return first;
}

/* The length of the longest end of the tail with which a stop text may begin. */
static size_t may_stop(const struct slot *s)
{
    const struct task *t = s->task;
    size_t most = 0;
    for (uint32_t k = 0; k < t->n_stops; k++)
        for (size_t n = s->n_tail < t->stops[k].n - 1 ? s->n_tail : t->stops[k].n - 1; n > most; n--)
            if (memcmp(s->tail + s->n_tail - n, t->stops[k].text, n) == 0) most = n;
    return most;
}

/* Sets s->guided: has the text appeared after which the guide begins, or does a call last? */
static void await_guide(struct slot *s, const char *text, size_t n)
{
    const struct task *t = s->task;
    const char *after = t->guide_after;
    if (t->watch) {
        s->guided = s->guided ? watch_goes_on(t->watch, t->guide) : watch_text(t->watch, t->guide, text, n);
        return;
    }
    const size_t length = strlen(after);
    for (size_t i = 0; i < n && !s->guided; i++) {
        if (s->n_recent == sizeof s->recent) memmove(s->recent, s->recent + 1, --s->n_recent);
        s->recent[s->n_recent++] = text[i];
        s->guided = s->n_recent >= length && memcmp(s->recent + s->n_recent - length, after, length) == 0;
    }
}

/* Passes the text of a token to the task, as far as it is certain.  Under the lock. */
static bool give_text(struct slot *s, int32_t id, const uint8_t *vocab)
{
    struct task *t = s->task;
    char small[256];
    const size_t n = vocab ? forge_token_text(vocab, id, t->special, small, sizeof small) : 0;
    void *tail = s->tail;
    if (!room_for(&tail, &s->tail_room, s->n_tail + n)) return false;
    s->tail = tail;
    if (n <= sizeof small) memcpy(s->tail + s->n_tail, small, n);
    else forge_token_text(vocab, id, t->special, s->tail + s->n_tail, n);
    if (t->guide && (t->watch || !s->guided)) await_guide(s, s->tail + s->n_tail, n);
    s->in_lines |= n > 0 && memchr(s->tail + s->n_tail, '\n', n);
    s->n_tail += n;
    const size_t stop = find_stop(s, &t->stop);
    if (stop < s->n_tail) {
        t->end = TASK_STOPPED;
        s->n_tail = 0;
        return add_text(t, s->tail, stop);
    }
    const size_t may = may_stop(s), part = unfinished(s->tail, s->n_tail), keep = may > part ? may : part;
    if (!add_text(t, s->tail, s->n_tail - keep)) return false;
    memmove(s->tail, s->tail + s->n_tail - keep, keep);
    s->n_tail = keep;
    return true;
}

/* Log probabilities of the token and of the n_top most probable ones: the log of the softmax.  logits: before biases and penalties. */
static void logprobs_of(struct task_token *to, uint32_t n_top, int32_t id, const float *logits, uint32_t n_vocab)
{
    double sum = 0;
    const float most = logits[argmax(logits, n_vocab)];
    for (uint32_t i = 0; i < n_vocab; i++) sum += exp((double)(logits[i] - most));
    const float scale = most + (float)log(sum);
    to->id = id;
    to->logprob = logits[id] - scale;
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_vocab && n_top > 0; i++) {
        if (n == n_top && !(logits[i] > to->top[n - 1].logprob)) continue;
        uint32_t at = n < n_top ? n++ : n - 1;
        for (; at > 0 && logits[i] > to->top[at - 1].logprob; at--) to->top[at] = to->top[at - 1];
        to->top[at] = (struct task_top){ (int32_t)i, logits[i] };
    }
    for (uint32_t i = 0; i < n; i++) to->top[i].logprob -= scale;
}

/* Under the lock. */
static bool give_token(struct task *t, const struct task_token *token)
{
    const size_t bytes = task_token_bytes(t);
    void *tokens = t->tokens;
    if (!room_for(&tokens, &t->tokens_room, (t->n_tokens + 1) * bytes)) return false;
    t->tokens = tokens;
    memcpy(t->tokens + t->n_tokens++ * bytes, token, bytes);
    return true;
}

/* ---- slots ---- */

static uint32_t common(const struct slot *s, const struct task *t)
{
    const uint32_t n = s->sequence->n_past < t->n_prompt ? s->sequence->n_past : t->n_prompt;
    uint32_t i = 0;
    while (i < n && s->ids[i] == t->prompt[i]) i++;
    return i;
}

/* The same request must give the same text whether or not its prompt has been read before.  So on a CPU a prompt reuses only tokens that
 * were read as a prompt, whose bits do not depend on the pieces; it does not reuse tokens of an answer from decode.  A prompt of few
 * tokens is read by other launches than a longer one (forge_program.few), so neither can begin with the other. */
static bool may_begin(const struct batch *b, uint32_t n_prompt) { return b->program->gpu || n_prompt > b->program->few; }

/* Number of prompt tokens that the task need not read if it continues from s: at most all but one, because a step is needed for the
 * logits. */
static uint32_t usable(const struct batch *b, const struct slot *s, const struct task *t)
{
    if (!t->keeps_prefix || t->told_prompt) return 0;
    uint32_t n = common(s, t);
    if (!may_begin(b, t->n_prompt)) return 0;
    if (!b->program->gpu && n > s->n_solid) n = s->n_solid;
    if (n == t->n_prompt) n--;
    return n > 0 && state_rewinds(b->program, s->sequence->n_written, s->sequence->n_past, n) ? n : 0;
}

/* The idle slot with the most usable tokens, else the slot that has been unused longest; NULL: no slot is idle. */
static struct slot *idle_slot(const struct batch *b, const struct task *t)
{
    struct slot *best = NULL;
    uint32_t most = 0;
    for (uint32_t i = 0; i < b->options.n_slots; i++) {
        struct slot *s = &b->slots[i];
        if (s->task) continue;
        const uint32_t n = usable(b, s, t);
        /* Do not use a slot that would lose more of its tokens than the text can reuse. */
        const bool worth = 2 * n >= s->sequence->n_past;
        if (worth && n > most) { most = n; best = s; }
        else if (most == 0 && (!best || s->used < best->used)) best = s;
    }
    return best;
}

/* If another sequence has more usable tokens than the slot itself, they are copied. */
static enum forge_status take_prefix(struct batch *b, struct slot *s, struct forge_error *error)
{
    struct task *t = s->task;
    const struct slot *from = s;
    uint32_t most = usable(b, s, t);
    for (uint32_t i = 0; i < b->n_entries; i++) {
        const uint32_t n = usable(b, &b->slots[i], t);
        if (n > most + 8) { most = n; from = &b->slots[i]; }
    }
    if (from != s) {
        TRY(sequence_copy(s->sequence, from->sequence, error));
        memcpy(s->ids, from->ids, most * sizeof *s->ids);
        s->n_solid = from->n_solid;
    }
    if (most == 0 || !sequence_rewind(s->sequence, most)) {
        TRY(sequence_reset(s->sequence, error));
        most = 0;
    }
    s->n_solid = most;
    s->n_read = most;
    for (uint32_t i = 0; i < most; i++) sampler_accept(s->sampler, t->prompt[i]);
    return FORGE_OK;
}

/* If states cannot be rewound, keeps the state at the end of a prompt: the next turn of a conversation begins with it. */
static enum forge_status keep_prompt(struct batch *b, const struct slot *s, struct forge_error *error)
{
    struct slot *to = NULL;
    for (uint32_t i = b->options.n_slots; i < b->n_entries; i++)
        if (!to || b->slots[i].used < to->used) to = &b->slots[i];
    if (!to) return FORGE_OK;
    TRY(sequence_copy(to->sequence, s->sequence, error));
    memcpy(to->ids, s->ids, s->sequence->n_past * sizeof *s->ids);
    to->n_solid = s->n_solid;
    to->used = ++b->clock;
    return FORGE_OK;
}

/* Under the lock. */
static void finish(struct batch *b, struct slot *s, enum task_end end)
{
    struct task *t = s->task;
    s->n_past = s->n_ids = s->sequence->n_past;
    if (end != TASK_STOPPED && s->n_tail > 0 && !add_text(t, s->tail, s->n_tail)) {
        error_set(&t->error, FORGE_NO_MEMORY, "out of memory for the text of a request");
        end = TASK_FAILED;
    }
    t->end = end;
    t->changed = true;
    s->task = NULL;
    s->n_tail = 0;
    s->pending = -1;
    s->drawing = false;
    s->used = ++b->clock;
    sampler_close(s->sampler);
    s->sampler = NULL;
    b->numbers.n_finished++;
    wake(b);
}

static void fail(struct batch *b, struct slot *s, enum forge_status status, const struct forge_error *error)
{
    struct forge_error ignored;
    batch_lock(b);
    s->task->error = *error;
    s->task->refused = status == FORGE_USAGE;
    if (status == FORGE_DEVICE_FAULT) b->numbers.failed = true;
    finish(b, s, TASK_FAILED);
    batch_unlock(b);
    if (status != FORGE_DEVICE_FAULT) sequence_reset(s->sequence, &ignored);
}

/* ---- steps ---- */

static bool is_end(const struct task *t, int32_t id)
{
    for (uint32_t i = 0; i < t->n_ends; i++) if (t->ends[i] == id) return true;
    return false;
}

/* Handles a new token: does the text continue?  token: log probabilities to report, or NULL. */
static void accept(struct batch *b, struct slot *s, int32_t id, const struct task_token *token)
{
    struct task *t = s->task;
    batch_lock(b);
    t->n_drawn++;
    s->n_past = s->sequence->n_past;
    b->numbers.n_drawn++;
    t->draw_seconds = seconds_now() - s->began;
    sampler_accept(s->sampler, id);
    s->pending = id;
    const struct task_token bare = { .id = id };
    if (!token && t->told_ids) token = &bare;
    bool ok = !token || give_token(t, token);
    t->changed = true;
    const bool ends = (!t->ignore_eos && vocab_is_end(b->program->vocab, id)) || is_end(t, id);
    if (ends && t->n_drawn > t->least) finish(b, s, TASK_ENDED);
    else {
        ok &= give_text(s, id, b->program->vocab);
        if (!ok) {
            error_set(&t->error, FORGE_NO_MEMORY, "out of memory for the text of a request");
            finish(b, s, TASK_FAILED);
        } else if (t->end == TASK_STOPPED) finish(b, s, TASK_STOPPED);
        else if (t->n_drawn == t->most || s->sequence->n_past == b->engine->n_ctx ||
                 (t->most_seconds > 0 && s->in_lines && t->draw_seconds > (double)t->most_seconds)) finish(b, s, TASK_LENGTH);
        else wake(b);
    }
    batch_unlock(b);
}

/* The guide's result before a token. */
struct guiding { enum forge_status status; bool ended; struct forge_error error; };

/* False: the task has ended. */
static bool goes_on(struct batch *b, struct slot *s, const struct guiding *g)
{
    if (g->status != FORGE_OK) fail(b, s, g->status, &g->error);
    else if (g->ended) {
        batch_lock(b);
        finish(b, s, TASK_ENDED);
        batch_unlock(b);
    }
    return g->status == FORGE_OK && !g->ended;
}

/* Removes from the logits what the guide does not allow.  False: the task has ended. */
static bool guide(struct batch *b, struct slot *s, float *logits)
{
    struct guiding g = { FORGE_OK, false, { "" } };
    const uint32_t *bits;
    g.status = guide_mask(s->task->guide, &bits, &g.ended, &g.error);
    if (!goes_on(b, s, &g)) return false;
    guide_logits(bits, logits, b->program->n_vocab);
    return true;
}

static int32_t draw_one(struct slot *s, float *logits)
{
    struct forge_error ignored;
    const int32_t id = sampler_draw(s->sampler, logits);
    if (s->guided) guide_accept(s->task->guide, id, &ignored);       /* the mask allowed this token */
    return id;
}

union told_token { struct task_token token; uint8_t bytes[sizeof(struct task_token) + TASK_MOST_TOP * sizeof(struct task_top)]; };

/* Draws from the logits of the last step, which the draw changes. */
static void draw(struct batch *b, struct slot *s, float *logits)
{
    const struct task *t = s->task;
    const uint32_t n_vocab = b->program->n_vocab;
    union told_token told;
    if (t->logprobs) memcpy(b->raw, logits, n_vocab * sizeof *logits);
    if (s->guided && !guide(b, s, logits)) return;
    const int32_t id = draw_one(s, logits);
    if (t->logprobs) logprobs_of(&told.token, t->n_top, id, b->raw, n_vocab);
    accept(b, s, id, t->logprobs ? &told.token : NULL);
}

static uint32_t piece_of(const struct batch *b, uint32_t left, bool shared)
{
    const uint32_t chunk = b->engine->chunk > 0 ? b->engine->chunk : 1;
    if (b->token_seconds <= 0) return left < chunk ? left : chunk;
    const double most = (shared ? PIECE_SHARED : PIECE_ALONE) / b->token_seconds;
    uint32_t n = most < 16 ? 16 : most > 1e6 ? 1000000 : (uint32_t)most;
    if (n > chunk) n -= n % chunk;
    return left < n ? left : n;
}

/* Reads a piece of a prompt and reports the log probability of each token after it.  logits: those of the last one. */
static enum forge_status read_told(struct batch *b, struct slot *s, uint32_t n, float *logits, struct forge_error *error)
{
    struct task *t = s->task;
    const uint32_t n_vocab = b->program->n_vocab, at = s->n_read;
    union told_token told;
    memset(&told, 0, sizeof told);
    told.token.id = t->prompt[0];
    told.token.logprob = NAN;
    if (!b->rows) b->rows = malloc((size_t)MOST_ROWS * n_vocab * sizeof *b->rows);
    if (!b->rows) return error_set(error, FORGE_NO_MEMORY, "out of memory for the logits of a prompt");
    TRY(forge_read(s->sequence, t->prompt + at, n, t->n_prompt, n, b->rows, error));
    memcpy(logits, b->rows + (size_t)(n - 1) * n_vocab, n_vocab * sizeof *logits);
    bool ok = true;
    for (uint32_t i = at == 0 ? 0 : 1; i <= n && at + i < t->n_prompt && ok; i++) {
        if (i > 0) logprobs_of(&told.token, t->n_top, t->prompt[at + i], b->rows + (size_t)(i - 1) * n_vocab, n_vocab);
        batch_lock(b);
        ok = give_token(t, &told.token);
        t->changed = true;
        batch_unlock(b);
    }
    return ok ? FORGE_OK : error_set(error, FORGE_NO_MEMORY, "out of memory for the logprobs of a prompt");
}

static uint32_t left_of(const struct slot *s) { return s->task->n_prompt - s->n_read; }

/* The prompt to read from next, or NULL: that of the text which came first; in every fourth piece that with the least left, so that a short
 * prompt does not wait for long ones.  In turns, all prompts that come together would end together.  shared: others wait for the end of
 * the piece. */
static struct slot *next_prompt(struct batch *b, bool *shared)
{
    struct slot *first = NULL, *least = NULL;
    *shared = false;
    for (uint32_t i = 0; i < b->options.n_slots; i++) {
        struct slot *s = &b->slots[i];
        if (!s->task) continue;
        if (s->pending >= 0) { *shared = true; continue; }
        if (!first || s->used < first->used) first = s;
        if (!least || left_of(s) < left_of(least)) least = s;
    }
    if (least != first) *shared = true;
    return b->turn++ % 4 == 3 ? least : first;
}

/* Reads the next piece of a prompt.  True: there was a piece. */
static bool read_piece(struct batch *b)
{
    bool shared;
    struct forge_error error = { "" };
    struct slot *s = next_prompt(b, &shared);
    if (!s) return false;
    struct task *t = s->task;
    const double start = seconds_now();
    const uint32_t most_rows = engine_piece(b->engine) < MOST_ROWS ? engine_piece(b->engine) : MOST_ROWS;
    uint32_t n = piece_of(b, left_of(s), shared);
    if (t->told_prompt && n > most_rows) n = most_rows;
    const bool last = s->n_read + n == t->n_prompt;
    float *logits = b->logits + (size_t)(s - b->slots) * b->program->n_vocab;
    const uint32_t n_logits = last && t->most > 0;
    enum forge_status status = t->told_prompt ? read_told(b, s, n, logits, &error)
                                              : forge_read(s->sequence, t->prompt + s->n_read, n, t->n_prompt, n_logits, logits, &error);
    if (status != FORGE_OK) { fail(b, s, status, &error); return true; }
    memcpy(s->ids + s->n_read, t->prompt + s->n_read, n * sizeof *s->ids);
    for (uint32_t i = 0; i < n; i++) sampler_accept(s->sampler, t->prompt[s->n_read + i]);
    s->n_read += n;
    if (may_begin(b, t->n_prompt)) s->n_solid = s->n_read;
    const double seconds = seconds_now() - start;
    b->token_seconds = b->token_seconds > 0 ? 0.7 * b->token_seconds + 0.3 * seconds / n : seconds / n;
    batch_lock(b);
    t->prompt_seconds += seconds;
    s->n_past = s->sequence->n_past;
    b->numbers.n_prompt += n;
    b->numbers.prompt_seconds += seconds;
    if (last && t->most == 0) finish(b, s, TASK_LENGTH);
    batch_unlock(b);
    if (!last || !s->task) return true;
    status = keep_prompt(b, s, &error);
    if (status != FORGE_OK) { fail(b, s, status, &error); return true; }
    s->began = seconds_now();
    draw(b, s, logits);
    return true;
}

/* While there is nothing else to do, reads an answer again as it will occur in the prompt of the next turn.  False: there is no such
 * answer. */
static bool settle(struct batch *b)
{
    struct forge_error error = { "" };
    for (uint32_t i = 0; i < b->options.n_slots && !b->program->gpu && !b->program->embedding; i++) {
        struct slot *s = &b->slots[i];
        if (s->n_solid == s->n_ids || !may_begin(b, s->n_ids)) continue;
        if (s->n_solid == 0 ? sequence_reset(s->sequence, &error) != FORGE_OK : !sequence_rewind(s->sequence, s->n_solid)) {
            s->n_ids = s->n_solid;                               /* the state cannot go back that far; keep_prompt has kept the end of
                                                                  * the prompt */
            continue;
        }
        const uint32_t n = piece_of(b, s->n_ids - s->n_solid, true);
        if (forge_read(s->sequence, s->ids + s->n_solid, n, s->n_ids, 0, NULL, &error) == FORGE_OK) s->n_solid += n;
        else {
            sequence_reset(s->sequence, &error);
            s->n_solid = s->n_ids = 0;
        }
        batch_lock(b);
        s->n_past = s->sequence->n_past;
        batch_unlock(b);
        return true;
    }
    return false;
}

static void note_pending(struct slot *s) { s->ids[s->sequence->n_past] = s->pending; }

/* True if the token must be drawn on the host even with a GPU, because a draw on the device lacks the results or the room (struct
 * forge_gpu_step). */
static bool needs_logits(const struct task *t)
{
    return t->logprobs || t->sample.n_biases + t->sample.n_suppressed > FORGE_GPU_MAX_BIASES;
}

/* A single text is drawn on the device, where steps run ahead. */
static bool draws_alone(const struct batch *b, const struct slot *s, uint32_t n_active)
{
    return n_active == 1 && engine_draws(b->engine) && !needs_logits(s->task) && !s->guided;
}

static void step_alone(struct batch *b, struct slot *s)
{
    struct forge_error error = { "" };
    struct task *t = s->task;
    enum forge_status status = FORGE_OK;
    int32_t id;
    if (!s->drawing)
        status = engine_draw_begin(s->sequence, &t->sample, sampler_random(s->sampler), s->pending, t->most - t->n_drawn, false, &error);
    note_pending(s);
    if (status == FORGE_OK) status = engine_draw_next(s->sequence, &id, &error);
    s->drawing = true;
    if (status != FORGE_OK) { fail(b, s, status, &error); return; }
    if (t->sample.temp > 0) random_next(sampler_random(s->sampler));
    accept(b, s, id, NULL);
}

/* Draws on the device; masks are made while the step runs. */
static enum forge_status draw_there(struct batch *b, struct slot **active, struct forge_column *c, uint32_t n, bool more,
                                    struct guiding *g, struct forge_error *error)
{
    TRY(engine_step_begin(b->engine, c, n, error));
    for (uint32_t i = 0; i < n; i++) {
        g[i] = (struct guiding){ FORGE_OK, false, { "" } };
        if (c[i].guided) g[i].status = guide_mask(active[i]->task->guide, &c[i].mask, &g[i].ended, &g[i].error);
    }
    return engine_step_draw(b->engine, c, n, more, error);
}

static void take_drawn(struct batch *b, struct slot *s, int32_t id, struct guiding *g)
{
    if (!goes_on(b, s, g)) return;
    if (s->task->sample.temp > 0) random_next(sampler_random(s->sampler));
    if (s->guided) g->status = guide_accept(s->task->guide, id, &g->error);
    if (goes_on(b, s, g)) accept(b, s, id, NULL);
}

/* Computes a token for every text with a completely read prompt.  more: as in engine_step_draw. */
static void step_all(struct batch *b, struct slot **active, uint32_t n, bool more)
{
    struct forge_error error = { "" };
    const bool on_device = engine_draws(b->engine);
    for (uint32_t at = 0, part; at < n; at += part) {
        struct forge_column columns[FORGE_MAX_COLUMNS];
        struct guiding guiding[FORGE_MAX_COLUMNS];
        const bool wants_logits = on_device && needs_logits(active[at]->task);
        for (part = 0; part < FORGE_MAX_COLUMNS && at + part < n; part++) {
            struct slot *s = active[at + part];
            if (on_device && needs_logits(s->task) != wants_logits) break;
            note_pending(s);
            s->drawing = false;
            columns[part] = (struct forge_column){ s->sequence, s->pending, b->logits + (size_t)(s - b->slots) * b->program->n_vocab,
                                                   &s->task->sample, sampler_random(s->sampler), -1, s->guided, NULL };
        }
        const bool drawn = on_device && !wants_logits;
        b->ahead = drawn && more && part == n;
        const enum forge_status status = drawn ? draw_there(b, &active[at], columns, part, b->ahead, guiding, &error)
                                               : engine_step(b->engine, columns, part, &error);
        for (uint32_t i = 0; i < part; i++) {
            struct slot *s = active[at + i];
            if (status != FORGE_OK) { fail(b, s, status, &error); continue; }
            if (!drawn) { draw(b, s, columns[i].logits); continue; }
            take_drawn(b, s, columns[i].drawn, &guiding[i]);
        }
    }
}

static void decode(struct batch *b)
{
    struct slot *active[b->options.n_slots];
    uint32_t n = 0, n_tasks = 0;
    for (uint32_t i = 0; i < b->options.n_slots; i++) {
        struct slot *s = &b->slots[i];
        n_tasks += s->task != NULL;
        if (s->task && s->pending >= 0) active[n++] = s;
    }
    b->ahead = false;
    if (n == 0) return;
    const double start = seconds_now();
    if (draws_alone(b, active[0], n_tasks)) step_alone(b, active[0]);
    else step_all(b, active, n, n_tasks == n);
    batch_lock(b);
    b->numbers.draw_seconds += seconds_now() - start;
    b->numbers.n_steps++;
    b->numbers.n_step_tokens += n;
    batch_unlock(b);
}

/* ---- the thread ---- */

/* Under the lock.  The thread begins a slot's task outside of the lock. */
static struct task *next_task(struct batch *b)
{
    struct task *t = b->first;
    if (!t) return NULL;
    b->first = t->next;
    if (!b->first) b->last = &b->first;
    b->n_waiting--;
    return t;
}

static void begin(struct batch *b, struct slot *s, struct task *t)
{
    struct forge_error error = { "" };
    s->pending = -1;
    s->n_read = 0;
    s->n_tail = s->n_recent = 0;
    s->guided = t->guide && (t->watch ? watch_begins(t->watch, t->guide) : !t->guide_after);
    s->in_lines = false;
    s->used = ++b->clock;
    enum forge_status status = sampler_open(&s->sampler, &t->sample, b->program->n_vocab, b->engine->n_ctx, &error);
    if (status == FORGE_OK) status = take_prefix(b, s, &error);
    if (status != FORGE_OK) { fail(b, s, status, &error); return; }
    batch_lock(b);
    t->n_cached = s->n_read;
    b->numbers.n_cached += t->n_cached;
    batch_unlock(b);
}

static void embed(struct batch *b, struct slot *s)
{
    struct task *t = s->task;
    struct forge_error error = { "" };
    const double start = seconds_now();
    const enum forge_status status = forge_embed(s->sequence, t->prompt, t->n_prompt, true, b->rows, t->vector, &error);
    batch_lock(b);
    t->prompt_seconds = seconds_now() - start;
    b->numbers.n_prompt += t->n_prompt;
    b->numbers.prompt_seconds += t->prompt_seconds;
    if (status == FORGE_DEVICE_FAULT) b->numbers.failed = true;
    t->error = error;
    finish(b, s, status == FORGE_OK ? TASK_ENDED : TASK_FAILED);
    batch_unlock(b);
}

/* Gives idle slots to waiting tasks. */
static void admit(struct batch *b)
{
    for (;;) {
        batch_lock(b);
        struct slot *s = b->first ? idle_slot(b, b->first) : NULL;
        struct task *t = s ? next_task(b) : NULL;
        if (t) {
            s->task = t;
            t->slot = (uint32_t)(s - b->slots);
        }
        batch_unlock(b);
        if (!t) return;
        if (t->vector) embed(b, s);
        else begin(b, s, t);
    }
}

static void drop_cancelled(struct batch *b)
{
    batch_lock(b);
    for (uint32_t i = 0; i < b->options.n_slots; i++)
        if (b->slots[i].task && (b->slots[i].task->cancelled || b->stopping)) finish(b, &b->slots[i], TASK_CANCELLED);
    for (struct task **p = &b->first; *p; ) {
        struct task *t = *p;
        if (!t->cancelled && !b->stopping) { p = &t->next; continue; }
        *p = t->next;
        b->n_waiting--;
        t->end = TASK_CANCELLED;
        t->changed = true;
        wake(b);
    }
    b->last = &b->first;
    while (*b->last) b->last = &(*b->last)->next;
    batch_unlock(b);
}

static bool is_busy(const struct batch *b)
{
    for (uint32_t i = 0; i < b->options.n_slots; i++) if (b->slots[i].task) return true;
    return false;
}

static void *thread_main(void *batch)
{
    struct batch *b = batch;
    for (;;) {
        drop_cancelled(b);
        admit(b);
        const bool read = !b->ahead && read_piece(b);          /* a prompt would waste the step that is running */
        decode(b);
        if (read || is_busy(b)) continue;
        if (settle(b)) continue;
        batch_lock(b);
        const bool stopping = b->stopping;
        if (!b->first && !stopping) pthread_cond_wait(&b->work, &b->mutex);
        batch_unlock(b);
        if (stopping) return NULL;
    }
}

/* ---- called by other threads ---- */

static bool goes_back(const struct forge_program *p) { return state_back(p) == UINT32_MAX || p->embedding; }

uint32_t batch_sequences(const struct forge_program *program, uint32_t n_slots)
{
    return goes_back(program) ? n_slots : 2 * n_slots;
}

static enum forge_status open_slots(struct batch *b, struct forge_error *error)
{
    const struct forge_program *p = b->program;
    const size_t n_ctx = b->engine->n_ctx;
    b->slots = calloc(b->n_entries, sizeof *b->slots);
    b->logits = malloc((size_t)b->options.n_slots * p->n_vocab * sizeof *b->logits + 64);
    b->raw = malloc(p->n_vocab * sizeof *b->raw + 64);
    if (p->embedding) b->rows = malloc((size_t)engine_piece(b->engine) * p->n_embd * sizeof *b->rows);
    if (!b->slots || !b->logits || !b->raw || (p->embedding && !b->rows))
        return error_set(error, FORGE_NO_MEMORY, "out of memory for %u slots", b->options.n_slots);
    for (uint32_t i = 0; i < b->n_entries; i++) {
        b->slots[i].pending = -1;
        b->slots[i].ids = malloc((n_ctx + 1) * sizeof *b->slots[i].ids);
        if (!b->slots[i].ids) return error_set(error, FORGE_NO_MEMORY, "out of memory for %u slots", b->options.n_slots);
        TRY(sequence_open(&b->slots[i].sequence, b->engine, error));
    }
    return FORGE_OK;
}

static void free_all(struct batch *b)
{
    for (uint32_t i = 0; b->slots && i < b->n_entries; i++) {
        sequence_close(b->slots[i].sequence);
        free(b->slots[i].ids);
        free(b->slots[i].tail);
    }
    free(b->slots);
    free(b->logits);
    free(b->raw);
    free(b->rows);
    free(b);
}

enum forge_status batch_open(struct batch **out, struct forge_engine *engine, const struct batch_options *options,
                             struct forge_error *error)
{
    struct batch *b = calloc(1, sizeof *b);
    *out = NULL;
    if (!b) return error_set(error, FORGE_NO_MEMORY, "out of memory for the server");
    b->engine = engine;
    b->program = engine->program;
    b->options = *options;
    b->n_entries = batch_sequences(engine->program, options->n_slots);
    b->last = &b->first;
    enum forge_status status = open_slots(b, error);
    if (status == FORGE_OK) {
        pthread_mutex_init(&b->mutex, NULL);
        pthread_cond_init(&b->work, NULL);
        const int code = pthread_create(&b->thread, NULL, thread_main, b);
        if (code) status = error_set(error, FORGE_FAILED, "cannot start a thread: %s", strerror(code));
    }
    if (status != FORGE_OK) free_all(b);
    else *out = b;
    return status;
}

void batch_close(struct batch *b)
{
    batch_lock(b);
    b->stopping = true;
    pthread_cond_signal(&b->work);
    batch_unlock(b);
    pthread_join(b->thread, NULL);
    pthread_mutex_destroy(&b->mutex);
    pthread_cond_destroy(&b->work);
    free_all(b);
}

void batch_lock(struct batch *b) { pthread_mutex_lock(&b->mutex); }
void batch_unlock(struct batch *b) { pthread_mutex_unlock(&b->mutex); }

bool batch_submit(struct batch *b, struct task *t, bool always)
{
    batch_lock(b);
    uint32_t idle = 0;
    for (uint32_t i = 0; i < b->options.n_slots; i++) idle += !b->slots[i].task;
    const bool room = always || b->n_waiting < b->options.most_waiting + idle;
    if (room) {
        t->next = NULL;
        t->end = TASK_RUNS;
        *b->last = t;
        b->last = &t->next;
        b->n_waiting++;
        pthread_cond_signal(&b->work);
    }
    batch_unlock(b);
    return room;
}

void batch_cancel(struct batch *b, struct task *t)
{
    t->cancelled = true;
    batch_lock(b);
    pthread_cond_signal(&b->work);
    batch_unlock(b);
}

void batch_numbers(struct batch *b, struct batch_numbers *out, struct batch_slot *slots)
{
    batch_lock(b);
    *out = b->numbers;
    out->n_slots = b->options.n_slots;
    out->n_ctx = b->engine->n_ctx;
    for (uint32_t i = 0; i < b->options.n_slots; i++) {
        const struct slot *s = &b->slots[i];
        out->n_active += s->task != NULL;
        if (s->n_past > out->most_past) out->most_past = s->n_past;
        if (slots) slots[i] = (struct batch_slot){ s->task != NULL, s->n_past, s->task ? s->task->n_prompt : 0,
                                                   s->task ? s->task->n_drawn : 0 };
    }
    out->n_waiting = b->n_waiting;
    batch_unlock(b);
}
