/* gpu.h -- the engine of a GPU program, behind the functions of engine.h.  It is a table, so that only programs that refer to it are
 * linked with it. */
#ifndef FORGE_GPU_H
#define FORGE_GPU_H

#include "device.h"
#include "devices.h"
#include "runtime/run/engine.h"

struct forge_timings;

struct forge_gpu_runtime {
    /* Opens a GPU for the program, or all GPUs that share the model, loads the code and checks that they have enough memory; uploads
     * nothing.  devices: the GPUs to use; NULL: the first that fit.  Any number of such objects can be open at once, on one GPU or several.
     * Each is closed once, by itself or with the engine that owns it.
     * FORGE_NO_DEVICE, FORGE_WRONG_GPU, FORGE_NO_MEMORY, FORGE_DEVICE_FAULT, or FORGE_USAGE: not the number of devices that the program
     * needs. */
    enum forge_status (*open)(struct gpu **out, const struct forge_program *program, const struct forge_devices *devices,
                              struct forge_error *error);
    void (*close)(struct gpu *gpu);              /* NULL is allowed */
    /* The same step by step, with a line for each on stdout (check.h). */
    enum forge_status (*check)(const struct forge_program *program, const struct forge_devices *devices, struct forge_error *error);
    /* Allocates memory on engine->gpu and uploads the weights.  Sets engine->device_name. */
    enum forge_status (*load)(struct forge_engine *engine, const struct forge_weights_source *source, struct forge_error *error);
    /* Sets the sequence's place on the GPU: number `index` of engine->n_sequences. */
    void (*sequence_open)(struct forge_sequence *sequence, uint32_t index);
    void (*sequence_close)(struct forge_sequence *sequence);
    enum forge_status (*state_clear)(struct forge_sequence *sequence, uint32_t rank, uint64_t offset, uint64_t bytes,
                                     struct forge_error *error);
    /* Copies what the tokens of `from` have written, and the tokens. */
    enum forge_status (*sequence_copy)(struct forge_sequence *to, const struct forge_sequence *from, struct forge_error *error);
    /* Copies bytes of the sequence's states on GPU `rank` of the program, or its first tokens, from or to host memory.  Only a sequence
     * without steps in flight is written. */
    enum forge_status (*state_read)(struct forge_sequence *sequence, uint32_t rank, void *to, uint64_t offset, uint64_t bytes,
                                    struct forge_error *error);
    enum forge_status (*state_write)(struct forge_sequence *sequence, uint32_t rank, uint64_t offset, const void *from, uint64_t bytes,
                                     struct forge_error *error);
    enum forge_status (*history_write)(struct forge_sequence *sequence, const int32_t *tokens, uint32_t n, struct forge_error *error);
    /* Runs n tokens at sequence->n_past through the launches of decode (n == 1), columns or prefill (n <= chunk).  logits: as in
     * forge_prefill.  With n_logits == 0 the work may still be running when this returns. */
    enum forge_status (*step)(struct forge_sequence *sequence, bool decode, const int32_t *tokens, uint32_t n, uint32_t n_logits,
                              float *logits,
                              struct forge_error *error);
    /* Runs one token for each of n sequences, 2 .. most_columns, in one step through the launches of columns (gpu->several); writes
     * logits for columns that ask for them. */
    enum forge_status (*several)(struct forge_engine *engine, const struct forge_column *columns, uint32_t n, struct forge_error *error);
    /* engine_step_begin and engine_step_draw, for any program, 1 .. FORGE_MAX_COLUMNS columns. */
    enum forge_status (*several_begin)(struct forge_engine *engine, const struct forge_column *columns, uint32_t n,
                                       struct forge_error *error);
    enum forge_status (*several_draw)(struct forge_engine *engine, struct forge_column *columns, uint32_t n, bool more,
                                      struct forge_error *error);
    enum forge_status (*wait)(struct forge_sequence *sequence, struct forge_error *error);
    /* engine_draw_begin and engine_draw_next. */
    enum forge_status (*draw_begin)(struct forge_sequence *sequence, const struct forge_sample_options *options,
                                    const struct forge_random *random,
                                    int32_t first, uint64_t limit, bool last, struct forge_error *error);
    enum forge_status (*draw_next)(struct forge_sequence *sequence, int32_t *token, struct forge_error *error);
    /* engine_draft. */
    enum forge_status (*draft)(struct forge_sequence *sequence, const int32_t *tokens, uint32_t n, float *logits,
                               struct forge_error *error);
    /* The GPU's part of timings_take (runtime/run/timing.h): calls timings->took for each launch and sets timings->step. */
    enum forge_status (*timings)(struct forge_sequence *sequence, const int32_t *tokens, uint32_t n, uint32_t steps,
                                 struct forge_timings *timings, struct forge_error *error);
    /* follows: does another process control this one (launcher.h)?  Then the only thing left to do with the loaded engine is to call
     * follow, which returns FORGE_OK when the other process closes its engine. */
    bool (*follows)(const struct forge_engine *engine);
    enum forge_status (*follow)(struct forge_engine *engine, struct forge_error *error);
    /* GB/s read and written by a large copy on the (first) device; 0 if there is no room for one. */
    enum forge_status (*copy_bandwidth)(struct forge_engine *engine, double *gb_s, struct forge_error *error);
};

#endif
