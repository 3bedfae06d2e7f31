/* gpu_state.h -- what the files of the GPU engine share: gpu.c (opening, weights), gpu_memory.c, gpu_wait.c (waiting, faults), gpu_step.c
 * (steps and draws), gpu_several.c (steps of several sequences, draws with masks), gpu_timing.c (--profile), gpu_check.c (--check),
 * gpu_trace.c (--trace), gpu_ranks.c (GPUs that share a model), gpu_machines.c and gpu_lead.c (in processes of their own).
 *
 * Each GPU that shares a model has such a struct; the structs form a list that begins with rank 0.  All ranks do the same work: a function
 * with a parameter `gpu`, where nothing else is said, takes rank 0 and loops over the list itself.
 * Kernels of one rank wait for kernels of the others.  So whatever is put on one stream is put on all of them, launch by launch, before
 * the host waits for any: a full stream accepts nothing more until its first kernels have ended, and these need the other ranks'
 * kernels.  Pipeline stages each have launches of their own (forge_gpu.pipeline); those of the first stage come first. */
#ifndef FORGE_GPU_STATE_H
#define FORGE_GPU_STATE_H

#include "device.h"
#include "gpu.h"
#include "runtime/run/sample.h"

enum {
    SEQUENCE_GRAPHS = sizeof ((struct forge_sequence *)0)->graphs / sizeof ((struct forge_sequence *)0)->graphs[0],
    STAGING_BYTES = 16 << 20,            /* the most; two such buffers alternate when weights go in and logits come out */
    SLOTS = 2,                           /* steps whose parameters are on their way to the device */
    STEPS = 2 + FORGE_MAX_COLUMNS,       /* structs on the device: of steps, of passes of the MTP block, and of the draws of a step of */
    STEP_OF_DRAWS = 2,                   /* several sequences, which begin here */
    LEAST_AHEAD = 2, MOST_AHEAD = 8,     /* steps on the stream for which no token has been read yet */
    MOST_PARTS = 64,                     /* of the weights */
};

/* A range of the weight image with an allocation of its own: from this offset to that of the next part. */
struct gpu_part { uint8_t *at; uint64_t from; };

/* Decode without a draw; decode with one; a draw after a decode step and then the step of the token that it draws; decode with a draw
 * that looks for drafts; columns for the token with its drafts, and such a draw.  If there is an MTP block, its passes follow the draw
 * of the last two. */
enum step_kind { STEP_DECODE, STEP_DRAW, STEP_AHEAD, STEP_LOOK, STEP_DRAFTS };

/* The parameters and tokens of one step, pinned. */
struct slot { struct forge_gpu_step *step, *draws; int32_t *tokens; void *event; };      /* draws: [FORGE_MAX_COLUMNS] */

/* A row of a step whose draws the host asks for: its sequence, the number of tokens before the step, and its token of the step.  Then
 * how the next token is drawn, as the device knows it. */
struct gpu_row {
    const struct forge_sequence *sequence;
    uint32_t n_past;
    int32_t  token;
    struct forge_sample_options options;
    struct forge_random random;
    bool     guided;
    uint32_t mask;                       /* its index in gpu->masks */
};

struct gpu {
    struct forge_device device;
    const struct forge_program *program; /* the program of this rank; vocabulary, context and chunk of the model are in the first rank's */
    struct gpu *first, *next;            /* the first rank, and the rank after this one; NULL: none */
    uint32_t rank;                       /* number of this rank */
    uint8_t *collective;                 /* device: collective_bytes that all ranks store into; NULL: there is only one GPU */
    uint8_t *collectives[FORGE_GPU_MAX_RANKS];   /* this memory of all ranks */
    uint8_t *pinned_collective;          /* `collective` at its host address if it lies in the host's memory; else NULL */
    bool     begins;                     /* its next launch is the first of a list */
    void    *(*graphs)[SEQUENCE_GRAPHS]; /* not in the first rank: the graphs of each sequence on this rank */
    struct gpu *next_watched;            /* gpu.c: faults */
    void    *module, **functions;        /* [n_kernels] */
    uint8_t *weights, *arena;            /* device; weights in parts: the part with the lowest address */
    struct gpu_part parts[MOST_PARTS];   /* in the order of the image; only one if the driver allocates everything at once */
    uint32_t n_parts;
    uint8_t *state;                      /* device, [n_sequences] of state_stride */
    uint64_t state_stride, history_stride;
    struct forge_gpu_step *step;         /* device, [STEPS] */
    uint8_t *history;                    /* device, [n_sequences] of history_stride */
    uint8_t *pinned;                     /* host memory that contains all that follows: */
    volatile uint32_t *mark;
    volatile uint64_t *ring;
    struct slot slots[SLOTS];
    uint8_t *staging[2];                 /* [staging_bytes] */
    uint64_t staging_bytes;
    void    *staged[2];                  /* events: the stream has passed the buffer */
    uint32_t *masks;                     /* [FORGE_MAX_COLUMNS][mask_words] tokens that may be drawn: kernels read the masks here */
    uint32_t mask_words;
    const uint32_t *device_masks;
    uint32_t *device_mark;
    uint64_t *device_ring;
    uint32_t n_steps;                    /* uploaded so far: decides which slot is next */

    const struct forge_sequence *columns;        /* the sequence that these graphs belong to: */
    void    *columns_graphs[2][FORGE_MAX_COLUMNS + 1];       /* by number of tokens; [0]: all have logits, [1]: only the last */
    void    *several_graphs[2][FORGE_MAX_COLUMNS + 1];       /* by number of sequences, for any sequences; [1]: after draws of as many */
    struct { uint32_t n; struct gpu_row *rows; } begun;      /* the step that is on the stream or done, without its draws; n 0: none */
    struct forge_gpu_step sampling;      /* the parameters with which the next step is uploaded */
    const struct forge_sequence *last;   /* the sequence of the step whose logits lie in the arena: those of its last last_logits tokens */
    uint32_t last_past, last_tokens, last_logits;
    const struct forge_sequence *run;    /* the sequence of the current run of draws; NULL: no run */
    uint32_t queued, seen;               /* queued: upper bound of the draws on the stream; seen: draws that the host has finished with */
    uint32_t run_past, run_first;        /* in a run of draws: upper bound of the next step's position, and `queued` before it */
    bool     run_drafts, foreseen;       /* it speculates; steps of several tokens are worth it */
    uint32_t passes, ready;              /* passes: drafts requested from the MTP block; ready: upper bound of the drafts in the next
                                          * step */
    uint32_t run_steps, run_ended;       /* steps of the run on the stream, and steps that have been read to their last token */
    uint32_t run_written;                /* n_written of the sequence before the run */
    uint32_t step_seen;                  /* tokens read of the step that comes next */
    uint8_t  most[MOST_AHEAD];           /* of step i at i % MOST_AHEAD: upper bound of its tokens */
    uint64_t run_limit;
    uint32_t run_base;                   /* n_past of the sequence when the first token has been read, minus one */
    uint32_t run_at;                     /* n_past now, if nobody else has changed it */
    uint32_t run_back;                   /* how many tokens steps may go beyond the token that is read next */
    double   run_start;

    /* in the first rank only: */
    struct forge_engine *engine;         /* its engine; NULL: it belongs to a library, or is not loaded */
    enum { GRAPHS_UNKNOWN, GRAPHS_MADE, GRAPHS_NOT } graphs_are;      /* NOT: the driver cannot make graphs, or replays them incorrectly */
    bool     through_host;               /* GPUs without peer access pass values through host memory */
    struct gpu_machines *machines;       /* NULL: all GPUs of the model belong to this process */
    uint32_t collective_base;            /* number of the next collective that is put on the streams, from 1 */
    uint32_t decode_collectives, draw_collectives; /* collectives of a decode step, and those that its draw adds */
    const struct gpu *captured;          /* only this rank takes launches, into a graph; NULL: all do */
    const struct gpu *failed;            /* the rank whose driver reported a failure; NULL: none */
    bool     hangs;
    double   asked_at;                   /* when all ranks were last asked whether they have failed */
    char    *names;                      /* of several GPUs */

    uint32_t seen_mark;                  /* for detecting a launch that hangs */
    double   seen_mark_at;
};

/* For a model whose other GPUs belong to other processes, one each (gpu_machines.c).  Function pointers, because libraries are linked
 * without gpu_machines.c. */
struct gpu_machines {
    /* Before and after a launch: sends what it passes to the other ranks and receives theirs, on the stream. */
    enum forge_status (*pass)(struct gpu *gpu, const struct forge_gpu_launch *launch, uint32_t n_tokens, uint32_t n_logits, bool behind,
                              struct forge_error *error);
    /* Gets rows of logits from the last pipeline stage.  All processes call it; to: where the leading process wants the rows. */
    enum forge_status (*rows)(struct gpu *gpu, const uint8_t *from, uint64_t bytes, uint8_t *to, struct forge_error *error);
    /* Are the other processes gone? */
    enum forge_status (*ask)(struct gpu *gpu, struct forge_error *error);
    struct machines *machines;           /* machines.h */
    bool     follows;                    /* another process controls this one */
    bool     talks;                      /* all processes have their weights: the leader says when to end */
    uint32_t given;                      /* the number of the last collective so far, */
    uint32_t collectives;                /* and how many collectives the launches before it made */
    bool     begins;                     /* no other list has begun */
    uint8_t *outgoing[FORGE_GPU_MAX_RANKS];      /* for each of the other ranks, or the first for all of them */
};

/* Work that is put on the streams repeatedly; if graphs are used, each GPU has a graph of it. */
struct gpu_work {
    enum forge_status (*put)(struct gpu *gpu, const struct gpu_work *work, struct forge_error *error);
    void  **(*graph)(struct gpu *rank, const struct gpu_work *work);     /* where the graph of one GPU is stored; NULL is stored there if
                                                                          * it has not been made yet */
    struct forge_sequence *sequence;
    uint32_t kind, n, n_logits, from, to;        /* used by put and graph */
    void   **graphs;                             /* [ranks], if the work stores the graphs itself */
};

/* The rank that has the logits.  All ranks have them, except in pipeline parallelism, where the last stage has them. */
static inline struct gpu *gpu_with_logits(struct gpu *g)
{
    while (g->program->gpu->pipeline && g->next) g = g->next;
    return g;
}

/* The GPU of a rank. */
static inline struct gpu *gpu_rank(struct gpu *g, uint32_t rank)
{
    while (rank-- > 0) g = g->next;
    return g;
}

/* Makes the rank's device current for driver calls. */
static inline enum forge_status gpu_turn_to(struct gpu *rank, struct forge_error *error)
{
    return rank->first->next ? device_current(&rank->device, error) : FORGE_OK;
}

/* Passes on a status of the rank's driver; records the first rank that fails. */
static inline enum forge_status gpu_said(struct gpu *rank, enum forge_status status)
{
    if (status != FORGE_OK && !rank->first->failed) rank->first->failed = rank;
    return status;
}

/* True if one of several ranks has failed or hangs.  Kernels of the others may then wait for ever, so the host must not wait for them
 * any more. */
static inline bool gpu_is_lost(const struct gpu *g) { return (g->next || g->machines) && (g->failed || g->hangs); }

/* The address on a rank that corresponds to `at` on the first rank, in memory that has the same layout on all ranks. */
static inline uint8_t *gpu_moved(const void *at, const void *from, uint8_t *to)
{
    return at ? to + ((const uint8_t *)at - (const uint8_t *)from) : NULL;
}

/* The device address of a byte of the weight image. */
static inline uint8_t *gpu_weight_at(const struct gpu *rank, uint64_t offset)
{
    uint32_t i = rank->n_parts - 1;
    while (rank->parts[i].from > offset) i--;
    return rank->parts[i].at + (offset - rank->parts[i].from);
}

/* Number of bytes from this offset on that lie in the same part. */
static inline uint64_t gpu_weights_run(const struct gpu *rank, uint64_t offset)
{
    for (uint32_t i = 0; i < rank->n_parts; i++) if (rank->parts[i].from > offset) return rank->parts[i].from - offset;
    return rank->program->weights_bytes - offset;
}

/* gpu_memory.c */
/* Allocates memory for the weights: one allocation, or, if the driver refuses although enough memory is free, as few as possible.
 * Tensors are not divided.  After a failure nothing is allocated. */
enum forge_status gpu_take_weights(struct gpu *rank, struct forge_error *error);
void gpu_give_weights(struct gpu *rank);
/* Bytes that one GPU needs with one sequence.  model: the program of the first rank. */
uint64_t gpu_bytes_needed(const struct forge_program *model, const struct forge_program *program);
enum forge_status gpu_check_memory(struct forge_device *device, const struct forge_program *model, const struct forge_program *program,
                                   struct forge_error *error);
uint64_t gpu_collective_bytes(const struct forge_program *program);
/* functions: [n_kernels].  The caller frees the module, also after a failure. */
enum forge_status gpu_load_code(struct forge_device *device, const struct forge_gpu *gpu, void **module, void **functions,
                                struct forge_error *error);
/* Allocates everything except code and functions for one GPU, with room for n_sequences sequences; does not load the weights.  After a
 * failure call gpu_give_memory, which also releases code and device. */
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

/* gpu_wait.c: waits until the stream of one GPU has finished its work, or has reached an event, without keeping a core busy.  Meanwhile
 * the other ranks are checked now and then, because a rank that has failed never sends what this one waits for. */
enum forge_status gpu_wait_idle(struct gpu *rank, struct forge_error *error);
enum forge_status gpu_wait_event(struct gpu *rank, void *event, struct forge_error *error);
/* Waits until the streams of all ranks have finished. */
enum forge_status gpu_wait_all(struct gpu *gpu, struct forge_error *error);
/* Back-off for a loop that has polled this rank since the time `since`: spin first, then sleep.  Fails when one launch takes minutes. */
enum forge_status gpu_wait_more(struct gpu *rank, double since, struct forge_error *error);
/* Every status of a step passes through here.  It adds to the text of a fault the launch that ran last, and, with several GPUs, the name
 * of the GPU. */
enum forge_status gpu_with_launch(const struct gpu *gpu, enum forge_status status, struct forge_error *error);
/* "ffn_gate_up of layer 3": the launch that ran last on one GPU. */
void gpu_launch_name(const struct gpu *rank, char *out, size_t bytes);
/* The launch with this number (cost_launches()); NULL: there is no such launch. */
const struct forge_gpu_launch *gpu_launch_numbered(const struct forge_gpu *program, uint32_t number);
/* The rank that runs the launch; if all ranks do, the first. */
struct gpu *gpu_owner(struct gpu *gpu, uint32_t number);

/* gpu_ranks.c */
/* Can these GPUs share a model with this runtime?  FORGE_FAILED says why not. */
enum forge_status gpu_check_ranks(const struct forge_program *model, struct forge_error *error);
/* devices: the GPUs that were asked for, or NULL.  FORGE_USAGE: not the number of GPUs that the program needs. */
enum forge_status gpu_check_devices(const struct forge_program *model, const struct forge_devices *devices, struct forge_error *error);
/* Enables access from one device to the memory of the other.  False if that is impossible or the environment has FORGE_NO_PEER: the
 * drivers of some machines report access, but values are lost on the way. */
bool gpu_reaches(struct forge_device *device, const struct forge_device *other, struct forge_error *error);
/* Selects a device for the rank other than those in *taken. */
enum forge_status gpu_select(struct forge_device *device, const struct forge_program *model, uint32_t rank,
                             const struct forge_devices *devices, uint64_t *taken, struct forge_error *error);

/* gpu_machines.c: one GPU in each of several processes.  gpu_check_processes: does the number of processes fit this program?
 * gpu_device_of_process: the GPU of this process, as gpu_select expects it. */
struct forge_launcher;
enum forge_status gpu_check_processes(const struct forge_program *model, const struct forge_launcher *launcher,
                                      const struct forge_devices *devices, struct forge_error *error);
struct forge_devices gpu_device_of_process(const struct forge_device *device, const struct forge_launcher *launcher,
                                           const struct forge_devices *devices);
/* _open finds the library.  _meet meets the other processes, with a device.  _opened and _loaded exchange statuses after code and
 * weights are loaded: if one process has a status other than FORGE_OK, all of them get one. */
enum forge_status gpu_machines_open(struct gpu *gpu, const struct forge_launcher *launcher, struct forge_error *error);
enum forge_status gpu_machines_meet(struct gpu *gpu, const struct forge_program *model, struct forge_error *error);
enum forge_status gpu_machines_opened(struct gpu *gpu, const struct forge_program *model, enum forge_status status,
                                      struct forge_error *error);
/* Allocates the memory for data that goes to other processes and sets `collectives`. */
enum forge_status gpu_machines_take(struct gpu *gpu, const struct forge_program *model, struct forge_error *error);
enum forge_status gpu_machines_loaded(struct gpu *gpu, const struct forge_engine *engine, bool random, enum forge_status status,
                                      struct forge_error *error);
void gpu_machines_close(struct gpu *gpu);
const char *gpu_machines_library(const struct gpu *gpu);
const char *gpu_machines_place(const struct gpu *gpu);

/* gpu_probe.c: runs kernels with known results.  FORGE_DEVICE_FAULT: another result came out; the text says where.  graphs: also as a
 * graph; *made: the graph could be made, else no_graph says why not.  _pair: tests what kernels of one device store into the memory of
 * the other, or of the host. */
enum forge_status gpu_probe(struct forge_device *device, void *module, bool graphs, bool *made, struct forge_error *no_graph,
                            struct forge_error *error);
enum forge_status gpu_probe_pair(struct forge_device *from, void *from_module, struct forge_device *to, void *to_module, bool through_host,
                                 struct forge_error *error);

/* gpu_lead.c: members of forge_gpu_runtime that replace those of the same names: they have the other processes that share the model make
 * the same calls. */
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
enum forge_status lead_timings(struct forge_sequence *sequence, const int32_t *tokens, uint32_t n, uint32_t steps,
                               struct forge_timings *timings, struct forge_error *error);
bool gpu_follows(const struct forge_engine *engine);
enum forge_status gpu_follow(struct forge_engine *engine, struct forge_error *error);
/* Ends the other processes as well. */
void gpu_lead_end(struct gpu *gpu);

/* Is the driver of the program's GPU known to replay graphs incorrectly?  NULL: no; else what is known, and the source of it
 * (bad_graphs.def). */
const char *gpu_bad_graphs(const struct forge_device *device, const char *arch);

/* gpu_step.c: runs launch `number` of the program (cost_launches) on all GPUs, or records it into the graph of one.  n_tokens > 0: the
 * tokens of the step, for grid_y.  dependent: if the target supports it, the launch may begin before the previous one has ended. */
enum forge_status gpu_launch(const struct forge_sequence *sequence, uint32_t number, uint32_t n_tokens, uint32_t n_logits, bool dependent,
                             struct forge_error *error);
/* The same with parameter struct `step` on the device; a launch of several rows also takes the structs after it.  sequence NULL: the
 * parameters name the sequences. */
enum forge_status gpu_launch_by(struct gpu *gpu, uint32_t step, const struct forge_sequence *sequence, uint32_t number, uint32_t n_tokens,
                                uint32_t n_logits, bool dependent, struct forge_error *error);
/* The next launches start a list, from its beginning or from another place. */
void gpu_list_begins(struct gpu *gpu);
enum forge_status gpu_launch_columns(struct gpu *gpu, const struct forge_sequence *sequence, uint32_t n, uint32_t n_logits,
                                     struct forge_error *error);
/* gpu_put puts the work on the streams, gpu_make only makes missing graphs.  plain: without graphs.  If graphs cannot be made, launches
 * are plain from then on, and a line on stderr says so (libraries are silent). */
enum forge_status gpu_make(struct gpu *gpu, const struct gpu_work *work, bool plain, struct forge_error *error);
enum forge_status gpu_put(struct gpu *gpu, const struct gpu_work *work, bool plain, struct forge_error *error);
/* Collectives of the launches before `to` in the list, counting only launches that run in a step of n tokens; n 0: all launches. */
uint32_t gpu_collectives_of(const struct forge_gpu_launch *list, uint32_t to, uint32_t n, uint32_t n_logits);
uint32_t gpu_columns_collectives(const struct gpu *gpu, uint32_t n, uint32_t n_logits);
/* Replaces the addresses in a step's parameters, which are those of the first rank, by the rank's own. */
void gpu_own_step(const struct gpu *rank, struct forge_gpu_step *step);
enum forge_status gpu_run_step(struct forge_sequence *sequence, enum step_kind kind, uint32_t passes, struct forge_error *error);
/* Tokens that the program never draws are treated like biases. */
void gpu_set_sampling(struct forge_gpu_step *step, const struct forge_program *program, const struct forge_sample_options *options,
                      const struct forge_random *random);
enum forge_status gpu_download_rows(struct gpu *gpu, uint32_t first, uint32_t n, float *logits, struct forge_error *error);
/* Waits for draw `number` and returns its entry of the ring. */
enum forge_status gpu_wait_draw(struct gpu *gpu, uint32_t number, uint32_t *entry, struct forge_error *error);
/* Runs decode launches from .. to - 1; launch n_decode is the draw. */
enum forge_status gpu_launch_decode(const struct forge_sequence *sequence, uint32_t from, uint32_t to, struct forge_error *error);
/* gpu_trace.c, not in libraries.  begin: clears activations and states, so that bytes which no kernel writes hash alike.  gpu_trace: waits
 * for launch `number` and gives engine->trace the hash of activations and states of all ranks. */
enum forge_status gpu_trace_begin(struct gpu *gpu, struct forge_error *error);
enum forge_status gpu_trace(const struct forge_sequence *sequence, uint32_t number, uint32_t n_tokens, struct forge_error *error);
enum forge_status gpu_draft(struct forge_sequence *sequence, const int32_t *tokens, uint32_t n, float *logits, struct forge_error *error);
/* Uploads the parameters of a step, and its tokens if there are any.  before: if the following launches do not start a step, the number
 * of collectives that the earlier launches make. */
enum forge_status gpu_upload_step(const struct forge_sequence *sequence, uint32_t n_past, const int32_t *tokens, uint32_t n_tokens,
                                  uint32_t n_logits, uint32_t before, struct forge_error *error);

/* gpu_several.c, gpu_step.c, gpu_timing.c and gpu_check.c: members of forge_gpu_runtime. */
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
enum forge_status gpu_timings(struct forge_sequence *sequence, const int32_t *tokens, uint32_t n, uint32_t steps,
                              struct forge_timings *timings, struct forge_error *error);
enum forge_status gpu_copy_bandwidth(struct forge_engine *engine, double *gb_s, struct forge_error *error);
enum forge_status gpu_check(const struct forge_program *program, const struct forge_devices *devices, struct forge_error *error);

#endif
