/* gpu_state.h -- what the files of the GPU engine share: gpu.c (opening, weights), gpu_memory.c, gpu_wait.c (waiting, faults), gpu_step.c
 * (steps and draws), gpu_several.c (steps of several sequences, draws with masks), gpu_laps.c (--profile), gpu_check.c (--check),
 * gpu_ranks.c (GPUs that share a model), gpu_machines.c and gpu_lead.c (in processes of their own).
 *
 * Of GPUs that share a model each has such a struct, in a list that begins with the first.  All get the same work: functions that take a
 * `gpu` without saying more take the first and go through the list.  Kernels of one wait for those of the others, so whatever is put on one
 * stream is put on all, launch by launch, before the host waits for any: a stream that is full takes no more until its first kernels have
 * ended, which needs those of the others.  GPUs in a row have launches of their own each (forge_gpu.in_row): those of the first come
 * first. */
#ifndef FORGE_GPU_STATE_H
#define FORGE_GPU_STATE_H

#include "device.h"
#include "gpu.h"
#include "runtime/run/sample.h"

enum {
    SEQUENCE_GRAPHS = sizeof ((struct forge_sequence *)0)->graphs / sizeof ((struct forge_sequence *)0)->graphs[0],
    STAGING_BYTES = 16 << 20,            /* at most; two such buffers take turns, on the way of weights in and of logits out */
    SLOTS = 2,                           /* steps whose numbers are on their way */
    STEPS = 2 + FORGE_MAX_COLUMNS,       /* structs of them on the device: of steps, of passes of the block that drafts, of the draws of */
    STEP_OF_DRAWS = 2,                   /* a step of several sequences, from this one on */
    LEAST_AHEAD = 2, MOST_AHEAD = 8,     /* steps on the stream whose tokens have not been read */
};

/* Decode, without a draw and with one; the draw behind a step of decode, and then the step of the token that it draws; decode whose draw
 * looks for drafts; columns: the token with its drafts, and such a draw.  Behind the draw of the last two come passes of the block that
 * drafts, where there is one. */
enum step_kind { STEP_DECODE, STEP_DRAW, STEP_AHEAD, STEP_LOOK, STEP_DRAFTS };

/* The numbers and tokens of one step, pinned. */
struct slot { struct forge_gpu_step *step, *draws; int32_t *tokens; void *event; };      /* draws: [FORGE_MAX_COLUMNS] */

/* A row of a step whose draws the host asks for: of which sequence, how many tokens that has before the step, and its token of it; and by
 * what the token behind it is drawn, as the device has it. */
struct gpu_row {
    const struct forge_sequence *sequence;
    uint32_t n_past;
    int32_t  token;
    struct forge_sample_options options;
    struct forge_random random;
    bool     guided;
    uint32_t mask;                       /* its place in gpu->masks */
};

struct gpu {
    struct forge_device device;
    const struct forge_program *program; /* this one's; of the model's vocabulary, context and chunk the first one's tells */
    struct gpu *first, *next;            /* of those that share the model: the first, and the one behind this; NULL: none */
    uint32_t rank;                       /* its number among them */
    uint8_t *exchange;                   /* device: exchange_bytes that all of them store into; NULL: there is one GPU */
    uint8_t *exchanges[FORGE_GPU_MAX_RANKS];     /* those of all */
    uint8_t *pinned_exchange;            /* exchange on the host, where it is in the host's memory; else NULL */
    bool     begins;                     /* its next launch is the first of a list */
    void    *(*graphs)[SEQUENCE_GRAPHS]; /* not of the first: of each sequence, its graphs here */
    struct gpu *next_watched;            /* gpu.c: faults */
    void    *module, **functions;        /* [n_kernels] */
    uint8_t *weights, *arena;            /* device */
    uint8_t *state;                      /* device, [n_sequences] of state_stride */
    uint64_t state_stride, history_stride;
    struct forge_gpu_step *step;         /* device, [STEPS] */
    uint8_t *history;                    /* device, [n_sequences] of history_stride */
    uint8_t *pinned;                     /* all that follows on the host: */
    volatile uint32_t *mark;
    volatile uint64_t *ring;
    struct slot slots[SLOTS];
    uint8_t *staging[2];                 /* [staging_bytes] */
    uint64_t staging_bytes;
    void    *staged[2];                  /* events: the stream has passed the buffer */
    uint32_t *masks;                     /* [FORGE_MAX_COLUMNS][mask_words] tokens that may be drawn: kernels read them here */
    uint32_t mask_words;
    const uint32_t *device_masks;
    uint32_t *device_mark;
    uint64_t *device_ring;
    uint32_t n_steps;                    /* uploaded so far: which slot is next */

    const struct forge_sequence *columns;        /* whose steps these graphs are: */
    void    *columns_graphs[2][FORGE_MAX_COLUMNS + 1];       /* of so many tokens, of which all, or the last, have logits */
    void    *several_graphs[2][FORGE_MAX_COLUMNS + 1];       /* of so many sequences, whichever they are; behind draws of as many */
    struct { uint32_t n; struct gpu_row *rows; } begun;      /* the step that is on the stream, or done, without its draws; n 0: none */
    struct forge_gpu_step sampling;      /* what the next step is uploaded with */
    const struct forge_sequence *last;   /* whose step's logits lie in the arena: of its last last_logits tokens */
    uint32_t last_past, last_tokens, last_logits;
    const struct forge_sequence *run;    /* that of the run of draws; NULL: there is none */
    uint32_t queued, seen;               /* draws put on the stream, at most, and those the host is done with */
    uint32_t run_past, run_first;        /* of a run of draws: position of the next step, at most, and `queued` before it */
    bool     run_drafts, foreseen;       /* it speculates; steps of several tokens are worth it */
    uint32_t passes, ready;              /* drafts wanted of the block that drafts; those that the next step has, at most */
    uint32_t run_steps, run_ended;       /* its steps on the stream, and those whose last token has been read */
    uint32_t run_written;                /* n_written of the sequence before it */
    uint32_t step_seen;                  /* tokens read of the one that comes next */
    uint8_t  most[MOST_AHEAD];           /* of step i at i % MOST_AHEAD: tokens that it gives at most */
    uint64_t run_limit;
    uint32_t run_base;                   /* n_past of the sequence when the first token has been read, less one */
    uint32_t run_at;                     /* and as it is now, if nobody else has changed it */
    uint32_t run_back;                   /* tokens that steps may go beyond the token that is read next */
    double   run_start;

    /* of the first: */
    bool     through_host;               /* those that do not reach each other's memory exchange through the host's */
    struct gpu_machines *machines;       /* NULL: all GPUs of the model are this process's */
    uint32_t exchanged;                  /* number of the next exchange to be put on the streams, from 1 */
    uint32_t decode_exchanges, draw_exchanges;   /* that a step of decode makes, and its draw beyond them */
    const struct gpu *captured;          /* only this one takes launches, into a graph; NULL: all do */
    const struct gpu *failed;            /* whose driver said so; NULL: none */
    bool     hangs;
    double   asked_at;                   /* when all were asked whether they have failed */
    char    *names;                      /* of several */

    uint32_t seen_mark;                  /* for the watch over a hanging launch */
    double   seen_mark_at;
};

/* Of a model whose other GPUs are those of other processes, one each (gpu_machines.c).  Libraries have none: so these are called from
 * here. */
struct gpu_machines {
    /* Before a launch and behind it: what it gives goes to the others, and theirs comes, on the stream. */
    enum forge_status (*pass)(struct gpu *gpu, const struct forge_gpu_launch *launch, uint32_t n_tokens, uint32_t n_logits, bool behind,
                              struct forge_error *error);
    /* Rows of logits of the last GPU in a row, which all of them ask for; to: where the leading one wants them. */
    enum forge_status (*rows)(struct gpu *gpu, const uint8_t *from, uint64_t bytes, uint8_t *to, struct forge_error *error);
    /* Have the others gone? */
    enum forge_status (*ask)(struct gpu *gpu, struct forge_error *error);
    struct machines *machines;           /* machines.h */
    bool     follows;                    /* another process says what this one does */
    bool     talks;                      /* all have their weights: the leading one says when to end */
    uint32_t given;                      /* exchanges so far: the number of the last, */
    uint32_t exchanges;                  /* and how many the launches before it made, if */
    bool     begins;                     /* no other list has begun */
    uint8_t *outgoing[FORGE_GPU_MAX_RANKS];      /* for each of the others, or the first for all */
};

/* Work that is put on the streams again and again, by a graph of it for each GPU where those are wanted. */
struct gpu_work {
    enum forge_status (*put)(struct gpu *gpu, const struct gpu_work *work, struct forge_error *error);
    void  **(*graph)(struct gpu *rank, const struct gpu_work *work);     /* where that of one GPU is; NULL in it: not made yet */
    struct forge_sequence *sequence;
    uint32_t kind, n, n_logits, from, to;        /* as put and graph use them */
    void   **graphs;                             /* [ranks], where the work keeps them itself */
};

/* The one that has logits: all have them, but of GPUs in a row the last one. */
static inline struct gpu *gpu_with_logits(struct gpu *g)
{
    while (g->program->gpu->in_row && g->next) g = g->next;
    return g;
}

/* The GPU of a rank. */
static inline struct gpu *gpu_rank(struct gpu *g, uint32_t rank)
{
    while (rank-- > 0) g = g->next;
    return g;
}

/* Calls of the driver are about this one from now on. */
static inline enum forge_status gpu_turn_to(struct gpu *rank, struct forge_error *error)
{
    return rank->first->next ? device_current(&rank->device, error) : FORGE_OK;
}

/* A status of its driver: the first that fails is named. */
static inline enum forge_status gpu_said(struct gpu *rank, enum forge_status status)
{
    if (status != FORGE_OK && !rank->first->failed) rank->first->failed = rank;
    return status;
}

/* One of several has failed or hangs, so kernels of the others may wait for ever: the host waits for none of them any more. */
static inline bool gpu_is_lost(const struct gpu *g) { return (g->next || g->machines) && (g->failed || g->hangs); }

/* On a rank what `at` is on the first, in memory that all of them have alike. */
static inline uint8_t *gpu_moved(const void *at, const void *from, uint8_t *to)
{
    return at ? to + ((const uint8_t *)at - (const uint8_t *)from) : NULL;
}

/* gpu_memory.c */
/* Of one GPU, with one sequence.  model: the program of the first. */
uint64_t gpu_bytes_needed(const struct forge_program *model, const struct forge_program *program);
enum forge_status gpu_check_memory(struct forge_device *device, const struct forge_program *model, const struct forge_program *program,
                                   struct forge_error *error);
uint64_t gpu_exchange_bytes(const struct forge_program *program);
/* functions: [n_kernels].  The caller frees the module, also after a failure. */
enum forge_status gpu_load_code(struct forge_device *device, const struct forge_gpu *gpu, void **module, void **functions,
                                struct forge_error *error);
/* All but code and functions, with room for so many sequences, of one GPU; the weights are not in it yet.  After a failure gpu_give_memory,
 * which also gives code and device back. */
enum forge_status gpu_take_memory(struct gpu *rank, uint32_t n_sequences, struct forge_error *error);
void gpu_give_memory(struct gpu *rank);
/* Where the sequence's states, tokens and graphs are on a rank. */
uint8_t *gpu_state_of(const struct gpu *rank, const struct forge_sequence *sequence);
int32_t *gpu_history_of(const struct gpu *rank, const struct forge_sequence *sequence);
void **gpu_graphs_of(const struct gpu *rank, struct forge_sequence *sequence);
/* Members of forge_gpu_runtime. */
void gpu_sequence_open(struct forge_sequence *sequence, uint32_t index);
void gpu_sequence_close(struct forge_sequence *sequence);
void gpu_forget_columns(struct gpu *gpu);
enum forge_status gpu_state_clear(struct forge_sequence *sequence, uint32_t rank, uint64_t offset, uint64_t bytes,
                                  struct forge_error *error);
enum forge_status gpu_sequence_copy(struct forge_sequence *to, const struct forge_sequence *from, struct forge_error *error);
enum forge_status gpu_state_read(struct forge_sequence *sequence, uint32_t rank, void *to, uint64_t offset, uint64_t bytes,
                                 struct forge_error *error);
enum forge_status gpu_state_write(struct forge_sequence *sequence, uint32_t rank, uint64_t offset, const void *from, uint64_t bytes,
                                  struct forge_error *error);
enum forge_status gpu_history_write(struct forge_sequence *sequence, const int32_t *tokens, uint32_t n, struct forge_error *error);

/* gpu_wait.c: waits until the stream of one GPU has ended its work, or has come to an event, without burning a core.  Meanwhile the others
 * are asked now and then: one that has failed never gives what this one waits for. */
enum forge_status gpu_wait_idle(struct gpu *rank, struct forge_error *error);
enum forge_status gpu_wait_event(struct gpu *rank, void *event, struct forge_error *error);
/* Until all of them have. */
enum forge_status gpu_wait_all(struct gpu *gpu, struct forge_error *error);
/* Between two looks at something of this one awaited since then: spins, then sleeps.  Fails when one launch takes minutes. */
enum forge_status gpu_wait_more(struct gpu *rank, double since, struct forge_error *error);
/* Every status of a step passes here: a fault's sentence gets the launch that ran last, and of several GPUs the name of that one. */
enum forge_status gpu_with_launch(const struct gpu *gpu, enum forge_status status, struct forge_error *error);
/* "ffn_gate_up of layer 3", the launch that ran last on one GPU. */
void gpu_launch_name(const struct gpu *rank, char *out, size_t bytes);
/* As cost_launches() numbers them; NULL: there is no such launch. */
const struct forge_gpu_launch *gpu_launch_numbered(const struct forge_gpu *program, uint32_t number);
/* Whose launch it is: of GPUs that all have it the first one's. */
struct gpu *gpu_owner(struct gpu *gpu, uint32_t number);

/* gpu_ranks.c */
/* Can this runtime have these GPUs share a model?  FORGE_FAILED says why not. */
enum forge_status gpu_check_ranks(const struct forge_program *model, struct forge_error *error);
/* devices: NULL, or those asked for.  FORGE_USAGE: another number of them than the program needs. */
enum forge_status gpu_check_devices(const struct forge_program *model, const struct forge_devices *devices, struct forge_error *error);
/* Does one reach the memory of the other?  It does from now on.  Not where the environment has FORGE_NO_PEER: some machines' drivers say
 * so, and values are lost on the way. */
bool gpu_reaches(struct forge_device *device, const struct forge_device *other, struct forge_error *error);
/* Takes a device for the rank, beside those in *taken. */
enum forge_status gpu_select(struct forge_device *device, const struct forge_program *model, uint32_t rank,
                             const struct forge_devices *devices, uint64_t *taken, struct forge_error *error);

/* gpu_machines.c: a GPU of one of several processes.  Can they be those of this program?  Which GPU is this one's, as gpu_select takes
 * it? */
struct forge_launcher;
enum forge_status gpu_check_processes(const struct forge_program *model, const struct forge_launcher *launcher,
                                      const struct forge_devices *devices, struct forge_error *error);
struct forge_devices gpu_device_of_process(const struct forge_device *device, const struct forge_launcher *launcher,
                                           const struct forge_devices *devices);
/* Finds the library; meets the others, with a device; and comes to one end with them, whose code is loaded, or whose weights are, with this
 * status: all get one that is not FORGE_OK where one of them has it. */
enum forge_status gpu_machines_open(struct gpu *gpu, const struct forge_launcher *launcher, struct forge_error *error);
enum forge_status gpu_machines_meet(struct gpu *gpu, const struct forge_program *model, struct forge_error *error);
enum forge_status gpu_machines_opened(struct gpu *gpu, const struct forge_program *model, enum forge_status status,
                                      struct forge_error *error);
/* The memory for what goes to the others: fills exchanges. */
enum forge_status gpu_machines_take(struct gpu *gpu, const struct forge_program *model, struct forge_error *error);
enum forge_status gpu_machines_loaded(struct gpu *gpu, const struct forge_engine *engine, bool random, enum forge_status status,
                                      struct forge_error *error);
void gpu_machines_close(struct gpu *gpu);
const char *gpu_machines_library(const struct gpu *gpu);
const char *gpu_machines_place(const struct gpu *gpu);

/* gpu_lead.c: members of forge_gpu_runtime, in the place of those of the same names: other processes that share the model make the same
 * calls. */
void lead_sequence_open(struct forge_sequence *sequence, uint32_t index);
void lead_sequence_close(struct forge_sequence *sequence);
enum forge_status lead_state_clear(struct forge_sequence *sequence, uint32_t rank, uint64_t offset, uint64_t bytes,
                                   struct forge_error *error);
enum forge_status lead_sequence_copy(struct forge_sequence *to, const struct forge_sequence *from, struct forge_error *error);
enum forge_status lead_state_read(struct forge_sequence *sequence, uint32_t rank, void *to, uint64_t offset, uint64_t bytes,
                                  struct forge_error *error);
enum forge_status lead_state_write(struct forge_sequence *sequence, uint32_t rank, uint64_t offset, const void *from, uint64_t bytes,
                                   struct forge_error *error);
enum forge_status lead_history_write(struct forge_sequence *sequence, const int32_t *tokens, uint32_t n, struct forge_error *error);
enum forge_status lead_step(struct forge_sequence *sequence, bool decode, const int32_t *tokens, uint32_t n, uint32_t n_logits,
                            float *logits, struct forge_error *error);
enum forge_status lead_several(struct forge_engine *engine, const struct forge_column *columns, uint32_t n, struct forge_error *error);
enum forge_status lead_several_begin(struct forge_engine *engine, const struct forge_column *columns, uint32_t n,
                                     struct forge_error *error);
enum forge_status lead_several_draw(struct forge_engine *engine, struct forge_column *columns, uint32_t n, bool more,
                                    struct forge_error *error);
enum forge_status lead_draw_begin(struct forge_sequence *sequence, const struct forge_sample_options *options,
                                  const struct forge_random *random, int32_t first, uint64_t limit, bool last, struct forge_error *error);
enum forge_status lead_draw_next(struct forge_sequence *sequence, int32_t *token, struct forge_error *error);
enum forge_status lead_laps(struct forge_sequence *sequence, const int32_t *tokens, uint32_t n, uint32_t steps, struct forge_laps *laps,
                            struct forge_error *error);
bool gpu_follows(const struct forge_engine *engine);
enum forge_status gpu_follow(struct forge_engine *engine, struct forge_error *error);
/* The others end as well. */
void gpu_lead_end(struct gpu *gpu);

/* gpu_step.c: launch `number` of the program (cost_launches), on all GPUs or into the graph of one.  n_tokens > 0: of a step of so many,
 * for grid_y.  dependent: where the target has that, it may begin before the launch before it has ended. */
enum forge_status gpu_launch(const struct forge_sequence *sequence, uint32_t number, uint32_t n_tokens, uint32_t n_logits, bool dependent,
                             struct forge_error *error);
/* By one of the structs of numbers on the device; a launch of several rows takes those behind it, too.  sequence NULL: of those that the
 * numbers name. */
enum forge_status gpu_launch_by(struct gpu *gpu, uint32_t step, const struct forge_sequence *sequence, uint32_t number, uint32_t n_tokens,
                                uint32_t n_logits, bool dependent, struct forge_error *error);
/* The next launches are of a list from its beginning on, or from another place. */
void gpu_list_begins(struct gpu *gpu);
enum forge_status gpu_launch_columns(struct gpu *gpu, const struct forge_sequence *sequence, uint32_t n, uint32_t n_logits,
                                     struct forge_error *error);
/* plain: without graphs.  gpu_make only makes those that are missing. */
enum forge_status gpu_make(struct gpu *gpu, const struct gpu_work *work, bool plain, struct forge_error *error);
enum forge_status gpu_put(struct gpu *gpu, const struct gpu_work *work, bool plain, struct forge_error *error);
/* Exchanges that launches of the list before `to` make: of those that run in a step of n tokens, n 0: of all. */
uint32_t gpu_exchanges_of(const struct forge_gpu_launch *list, uint32_t to, uint32_t n, uint32_t n_logits);
uint32_t gpu_columns_exchanges(const struct gpu *gpu, uint32_t n, uint32_t n_logits);
/* The numbers of a step of the first GPU become those of a rank: addresses. */
void gpu_own_step(const struct gpu *rank, struct forge_gpu_step *step);
enum forge_status gpu_run_step(struct forge_sequence *sequence, enum step_kind kind, uint32_t passes, struct forge_error *error);
void gpu_set_sampling(struct forge_gpu_step *step, const struct forge_sample_options *options, const struct forge_random *random);
enum forge_status gpu_download_rows(struct gpu *gpu, uint32_t first, uint32_t n, float *logits, struct forge_error *error);
/* The entry of the ring that draw `number` writes. */
enum forge_status gpu_wait_draw(struct gpu *gpu, uint32_t number, uint32_t *entry, struct forge_error *error);
/* Decode's launches from .. to - 1, of which n_decode is the draw. */
enum forge_status gpu_launch_decode(const struct forge_sequence *sequence, uint32_t from, uint32_t to, struct forge_error *error);
enum forge_status gpu_draft(struct forge_sequence *sequence, const int32_t *tokens, uint32_t n, float *logits, struct forge_error *error);
/* The numbers of a step, and its tokens if there are any, on their way to the device.  before: where the launches behind this are not a
 * step's from its beginning on, the exchanges that those before them make. */
enum forge_status gpu_upload_step(const struct forge_sequence *sequence, uint32_t n_past, const int32_t *tokens, uint32_t n_tokens,
                                  uint32_t n_logits, uint32_t before, struct forge_error *error);

/* gpu_several.c, gpu_step.c, gpu_laps.c and gpu_check.c: members of forge_gpu_runtime. */
enum forge_status gpu_several(struct forge_engine *engine, const struct forge_column *columns, uint32_t n, struct forge_error *error);
enum forge_status gpu_several_begin(struct forge_engine *engine, const struct forge_column *columns, uint32_t n, struct forge_error *error);
enum forge_status gpu_several_draw(struct forge_engine *engine, struct forge_column *columns, uint32_t n, bool more,
                                   struct forge_error *error);
enum forge_status gpu_step(struct forge_sequence *sequence, bool decode, const int32_t *tokens, uint32_t n, uint32_t n_logits,
                           float *logits,
                           struct forge_error *error);
enum forge_status gpu_wait(struct forge_sequence *sequence, struct forge_error *error);
enum forge_status gpu_draw_begin(struct forge_sequence *sequence, const struct forge_sample_options *options,
                                 const struct forge_random *random,
                                 int32_t first, uint64_t limit, bool last, struct forge_error *error);
enum forge_status gpu_draw_next(struct forge_sequence *sequence, int32_t *token, struct forge_error *error);
enum forge_status gpu_laps(struct forge_sequence *sequence, const int32_t *tokens, uint32_t n, uint32_t steps, struct forge_laps *laps,
                           struct forge_error *error);
enum forge_status gpu_copy_bandwidth(struct forge_engine *engine, double *gb_s, struct forge_error *error);
enum forge_status gpu_check(const struct forge_program *program, const struct forge_devices *devices, struct forge_error *error);

#endif
