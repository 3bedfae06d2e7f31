/* batch.h -- many texts at once.  A thread of its own runs the engine's steps for the waiting tasks: a token for each of them in turn,
 * and pieces of prompts between these steps.  The tokens of a sequence stay for the next task that begins with the same tokens. */
#ifndef FORGE_BATCH_H
#define FORGE_BATCH_H

#include <stdatomic.h>
#include <stdbool.h>

#include "runtime/run/engine.h"
#include "runtime/run/guide.h"
#include "runtime/run/sample.h"

enum task_end { TASK_RUNS, TASK_ENDED, TASK_STOPPED, TASK_LENGTH, TASK_CANCELLED, TASK_FAILED };      /* ENDED: the model ended its text */

enum { TASK_MOST_STOPS = 16, TASK_MOST_TOP = 20 };

struct call_watch;
struct task_top { int32_t id; float logprob; };
struct task_token { int32_t id; float logprob; struct task_top top[]; };      /* top: [n_top], most probable first */

/* One text to make, or one vector.  The submitter owns it and may free it when `end` is no longer TASK_RUNS and all results are taken. */
struct task {
    /* the input: unchanged from batch_submit on */
    int32_t *prompt;                         /* [n_prompt], n_prompt > 0 */
    uint32_t n_prompt, most;                 /* most: most tokens to draw; 0: only the prompt is read */
    struct forge_sample_options sample;      /* biases must stay valid */
    struct { const char *text; size_t n; } stops[TASK_MOST_STOPS];
    uint32_t n_stops;
    const int32_t *ends;                     /* [n_ends] tokens that end the text, in addition to the vocabulary's */
    uint32_t n_ends, least;                  /* least: tokens before which no token ends the text */
    float    most_seconds;                   /* the text ends after so long, but not in its first line; 0: it does not */
    bool     ignore_eos, special;            /* special: the texts of control tokens are part of the text */
    struct forge_guide *guide;               /* which tokens may come next, only for this task; NULL: any */
    const char *guide_after;                 /* the guide begins after this text; NULL: from the beginning */
    struct call_watch *watch;                /* the guide holds only calls, which the watch sees (watch.h); NULL: all text */
    bool     logprobs, told_ids;             /* told_ids: tokens are reported even without logprobs */
    bool     told_prompt;                    /* logprobs also of the prompt's tokens; the first one's is NAN */
    uint32_t n_top;
    bool     keeps_prefix;                   /* may reuse tokens that a sequence has read before */
    float   *vector;                         /* embedding model: [n_embd]; NULL: a text is made */

    /* the results, under batch_lock() */
    char    *text;                           /* [n_text] since it was last taken; whole UTF-8 sequences, unless the model makes invalid
                                              * ones */
    size_t   n_text, text_room;
    uint8_t *tokens;                         /* [n_tokens] of task_token_bytes(), since they were last taken; only with logprobs or
                                              * told_ids */
    size_t   n_tokens, tokens_room;
    enum task_end end;
    size_t   stop;                           /* TASK_STOPPED: index in stops */
    uint32_t slot;                           /* where it ran */
    uint32_t n_cached, n_drawn;              /* n_cached: prompt tokens that had been read before; n_drawn: tokens drawn, including the
                                              * ending one */
    double   prompt_seconds, draw_seconds;
    struct forge_error error;                /* TASK_FAILED */
    bool     refused;                        /* TASK_FAILED: the request is at fault */
    bool     changed;                        /* since the owner last looked */
    bool     told;                           /* used by the owner: it has reported the end */

    atomic_bool  cancelled;                  /* set by the owner at any time: the task ends soon */
    struct task *next;                       /* in the queue */
};
static inline size_t task_token_bytes(const struct task *t)
{
    return sizeof(struct task_token) + t->n_top * sizeof(struct task_top);
}

struct batch_options {
    uint32_t n_slots;                        /* texts at once */
    uint32_t most_waiting;                   /* most tasks that wait in addition */
    int      wake_fd;                        /* an eventfd that is written when a task has changed */
};

struct batch;
/* The engine must be opened with batch_sequences(program, n_slots) sequences, and belongs to the batch until batch_close(). */
uint32_t batch_sequences(const struct forge_program *program, uint32_t n_slots);
enum forge_status batch_open(struct batch **out, struct forge_engine *engine, const struct batch_options *options,
                             struct forge_error *error);
/* Cancels running tasks and ends the thread.  All tasks have ended when it returns. */
void batch_close(struct batch *b);

/* False: too many tasks wait; never false with `always`. */
bool batch_submit(struct batch *b, struct task *t, bool always);
/* The owner does not want the task any more: it ends as TASK_CANCELLED, unless it has already ended. */
void batch_cancel(struct batch *b, struct task *t);
void batch_lock(struct batch *b);
void batch_unlock(struct batch *b);

struct batch_slot { bool active; uint32_t n_past, n_prompt, n_drawn; };
struct batch_numbers {
    uint64_t n_prompt, n_cached, n_drawn, n_steps, n_step_tokens, n_finished; /* prompt tokens read, prompt tokens reused, tokens drawn,
                                                                               * decode steps and their tokens, tasks finished */
    double   prompt_seconds, draw_seconds;
    uint32_t n_slots, n_active, n_waiting, most_past, n_ctx;
    bool     failed;                                                   /* the device has failed: nothing can be computed any more */
};
/* slots: [n_slots], or NULL. */
void batch_numbers(struct batch *b, struct batch_numbers *out, struct batch_slot *slots);
#endif
