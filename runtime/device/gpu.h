/* gpu.h -- the engine of a program for a GPU, behind the functions of engine.h.  A table, so that only programs that name it are linked
 * with it. */
#ifndef FORGE_GPU_H
#define FORGE_GPU_H

#include "device.h"
#include "devices.h"
#include "runtime/run/engine.h"

struct forge_laps;

struct forge_gpu_runtime {
    /* Opens a GPU for the program, or as many as share the model, loads their code and compares their memory with what is needed; nothing
     * is uploaded.  devices: which, NULL: the first that fit.  Any number of them are open at once, on one GPU or several; each is closed
     * once, by itself or with the engine it was given to.  FORGE_NO_DEVICE, FORGE_WRONG_GPU, FORGE_NO_MEMORY or FORGE_DEVICE_FAULT
     * otherwise; FORGE_USAGE: other devices than the program needs. */
    enum forge_status (*open)(struct gpu **out, const struct forge_program *program, const struct forge_devices *devices,
                              struct forge_error *error);
    void (*close)(struct gpu *gpu);              /* NULL is allowed */
    /* The same step by step, a line each on stdout (check.h). */
    enum forge_status (*check)(const struct forge_program *program, const struct forge_devices *devices, struct forge_error *error);
    /* Takes memory on engine->gpu, uploads the weights.  Sets engine->device_name. */
    enum forge_status (*load)(struct forge_engine *engine, const struct forge_weights_source *source, struct forge_error *error);
    /* Its place on the GPU, number `index` of engine->n_sequences. */
    void (*sequence_open)(struct forge_sequence *sequence, uint32_t index);
    void (*sequence_close)(struct forge_sequence *sequence);
    enum forge_status (*state_clear)(struct forge_sequence *sequence, uint32_t rank, uint64_t offset, uint64_t bytes,
                                     struct forge_error *error);
    /* What from->n_past tokens have written, and the tokens. */
    enum forge_status (*sequence_copy)(struct forge_sequence *to, const struct forge_sequence *from, struct forge_error *error);
    /* Bytes of its states on GPU `rank` of the program, and its first tokens, from and to memory of the host.  What is written is a
     * sequence that no step has left. */
    enum forge_status (*state_read)(struct forge_sequence *sequence, uint32_t rank, void *to, uint64_t offset, uint64_t bytes,
                                    struct forge_error *error);
    enum forge_status (*state_write)(struct forge_sequence *sequence, uint32_t rank, uint64_t offset, const void *from, uint64_t bytes,
                                     struct forge_error *error);
    enum forge_status (*history_write)(struct forge_sequence *sequence, const int32_t *tokens, uint32_t n, struct forge_error *error);
    /* n tokens at sequence->n_past through the decode launches (n == 1), those of columns or of prefill (n <= chunk).  logits: as in
     * forge_prefill; with n_logits == 0 the work may still run when this returns. */
    enum forge_status (*step)(struct forge_sequence *sequence, bool decode, const int32_t *tokens, uint32_t n, uint32_t n_logits,
                              float *logits,
                              struct forge_error *error);
    /* A token for each of n sequences, 2 .. most_columns, in one step through the launches of columns (gpu->several); logits of those that
     * want them. */
    enum forge_status (*several)(struct forge_engine *engine, const struct forge_column *columns, uint32_t n, struct forge_error *error);
    /* engine_step_begin and engine_step_draw, of any program, 1 .. FORGE_MAX_COLUMNS. */
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
    /* The GPU's part of laps_take (runtime/run/laps.h): launches by laps->took, and laps->step. */
    enum forge_status (*laps)(struct forge_sequence *sequence, const int32_t *tokens, uint32_t n, uint32_t steps, struct forge_laps *laps,
                              struct forge_error *error);
    /* Does another process say what this one does (launcher.h)?  Then all that is left to do with the engine, loaded, is to follow it,
     * until that one closes its own: FORGE_OK. */
    bool (*follows)(const struct forge_engine *engine);
    enum forge_status (*follow)(struct forge_engine *engine, struct forge_error *error);
    /* GB/s read and written by a large copy on the device, of several the first; 0 when there is no room for one. */
    enum forge_status (*copy_bandwidth)(struct forge_engine *engine, double *gb_s, struct forge_error *error);
};

#endif
