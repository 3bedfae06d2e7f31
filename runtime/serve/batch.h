/* batch.h -- many texts at once: a thread of its own gives the engine's steps to the tasks that wait, a token to each of them in turn, and
 * prompts in pieces between these steps.  What a sequence has read stays for the next task that begins alike. */
#ifndef FORGE_BATCH_H
#define FORGE_BATCH_H

#include <stdatomic.h>
#include <stdbool.h>

#include "runtime/run/engine.h"
#include "runtime/run/guide.h"
#include "runtime/run/sample.h"

enum task_end { TASK_RUNS, TASK_ENDED, TASK_STOPPED, TASK_LENGTH, TASK_CANCELLED, TASK_FAILED };      /* ENDED: the model ended its text */

enum { TASK_MOST_STOPS = 16, TASK_MOST_TOP = 20 };

struct task_top { int32_t id; float logprob; };
struct task_token { int32_t id; float logprob; struct task_top top[]; };      /* top: [n_top] likeliest first */

/* One text to be made, or one vector.  Who submits it owns it, and frees it when `end` is no longer TASK_RUNS and all is taken. */
struct task {
    /* what is wanted: unchanged from batch_submit on */
    int32_t *prompt;                         /* [n_prompt], n_prompt > 0 */
    uint32_t n_prompt, most;                 /* most: tokens that may come; 0: only the prompt is read */
    struct forge_sample_options sample;      /* biases stay valid */
    struct { const char *text; size_t n; } stops[TASK_MOST_STOPS];
    uint32_t n_stops;
    bool     ignore_eos, special;            /* special: the texts of control tokens are part of the text */
    struct forge_guide *guide;               /* which tokens may come, its own; NULL: any */
    const char *guide_after;                 /* text before it the guide says nothing; NULL: from the beginning */
    bool     logprobs;
    uint32_t n_top;
    bool     keeps_prefix;                   /* may begin with what a sequence has read before */
    float   *vector;                         /* [n_embd] of a model of embeddings; NULL: a text */

    /* what came of it: under batch_lock() */
    char    *text;                           /* [n_text] since it was taken last; whole UTF-8 sequences unless the model made none */
    size_t   n_text, text_room;
    uint8_t *tokens;                         /* [n_tokens] of task_token_bytes(), since they were taken last; kept with logprobs only */
    size_t   n_tokens, tokens_room;
    enum task_end end;
    size_t   stop;                           /* TASK_STOPPED: which of stops */
    uint32_t n_cached, n_drawn;              /* prompt tokens that had been read before; tokens that came, the ending one among them */
    double   prompt_seconds, draw_seconds;
    struct forge_error error;                /* TASK_FAILED */
    bool     changed;                        /* since the owner looked */
    bool     told;                           /* the owner's own: of its end */

    atomic_bool  cancelled;                  /* by the owner, at any time: it ends soon */
    struct task *next;                       /* in the queue */
};
static inline size_t task_token_bytes(const struct task *t)
{
    return sizeof(struct task_token) + t->n_top * sizeof(struct task_top);
}

struct batch_options {
    uint32_t n_slots;                        /* texts at once */
    uint32_t most_waiting;                   /* beyond them, tasks that wait */
    int      wake_fd;                        /* an eventfd, written when a task has changed */
};

struct batch;
/* The engine must have been opened with batch_sequences(program, n_slots) sequences, and belongs to the batch until batch_close(). */
uint32_t batch_sequences(const struct forge_program *program, uint32_t n_slots);
enum forge_status batch_open(struct batch **out, struct forge_engine *engine, const struct batch_options *options,
                             struct forge_error *error);
/* Ends: what runs is cancelled.  All tasks have ended when it returns. */
void batch_close(struct batch *b);

/* False: too many wait; not with `always`. */
bool batch_submit(struct batch *b, struct task *t, bool always);
/* The owner wants no more of it: it ends as TASK_CANCELLED unless it has ended. */
void batch_cancel(struct batch *b, struct task *t);
void batch_lock(struct batch *b);
void batch_unlock(struct batch *b);

struct batch_slot { bool active; uint32_t n_past, n_prompt, n_drawn; };
struct batch_numbers {
    uint64_t n_prompt, n_cached, n_drawn, n_steps, n_step_tokens, n_finished; /* tokens read, taken from before, made; steps of decode */
    double   prompt_seconds, draw_seconds;
    uint32_t n_slots, n_active, n_waiting, most_past, n_ctx;
    bool     failed;                                                   /* the device is gone: nothing will ever be computed again */
};
/* slots: [n_slots] or NULL */
void batch_numbers(struct batch *b, struct batch_numbers *out, struct batch_slot *slots);
#endif
