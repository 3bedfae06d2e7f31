/* library_models.h -- LIBRARY(prefix, PREFIX, MODEL of the golden data): defines the table prefix_library of a library under test, so that
 * tests are written once for all libraries.  The library's header must be included before. */
#ifndef LIBRARY_MODELS_H
#define LIBRARY_MODELS_H
#include <stddef.h>
#include <stdint.h>

struct library {
    const char *name, *golden;
    size_t workspace_bytes, sequence_bytes, workspace_of_three, state_bytes, stack_bytes, kv_bytes;
    uint64_t weights_bytes, device_bytes, sequence_device_bytes;
    uint32_t n_vocab, n_ctx, chunk, workers, tiles, n_tensors, timings;
    int embedded, has_tokenizer;
    int (*open)(void **, void *, size_t, const void *);
    void (*close)(void *);
    int (*prefill)(void *, const int32_t *, uint32_t, float *);
    int (*step)(void *, int32_t, float *);
    int (*begin)(void *, const int32_t *, uint32_t, float *);
    int (*step_budget)(void *, uint32_t);
    void (*cancel)(void *);
    uint32_t (*n_past)(const void *);
    int (*reset)(void *, uint32_t);
    int (*sequence_use)(void *, uint32_t);
    int (*sequence_copy)(void *, uint32_t, uint32_t);
    int (*save)(void *, void *, size_t, size_t *);
    int (*restore)(void *, const void *, size_t);
    int32_t (*sample)(void *, float *, const void *);
    int64_t (*encode)(const char *, size_t, uint32_t, int32_t *, size_t, void *, size_t);
    int64_t (*decode)(int32_t, char *, size_t);
    int32_t (*bos)(void);
    int32_t (*eos)(void);
    int (*is_end)(int32_t);
    int (*verify)(void *, uint32_t *, uint32_t, const char **);
    int (*profile)(void *, const int32_t *, uint32_t, float *, void *);
    const char *(*strerror)(int);
};

/* Instances, options, samplings and profiles are passed as void *: their structs are the same in all headers except for the names. */
#define LIBRARY(p, P, golden_name) \
static int p##_t_open(void **m, void *w, size_t n, const void *o) { return p##_open((struct p **)(void *)m, w, n, o); } \
static void p##_t_close(void *m) { p##_close(m); } \
static int p##_t_prefill(void *m, const int32_t *t, uint32_t n, float *l) { return p##_prefill(m, t, n, l); } \
static int p##_t_step(void *m, int32_t t, float *l) { return p##_step(m, t, l); } \
static int p##_t_begin(void *m, const int32_t *t, uint32_t n, float *l) { return p##_begin(m, t, n, l); } \
static int p##_t_step_budget(void *m, uint32_t n) { return p##_step_budget(m, n); } \
static void p##_t_cancel(void *m) { p##_cancel(m); } \
static uint32_t p##_t_n_past(const void *m) { return p##_n_past(m); } \
static int p##_t_reset(void *m, uint32_t n) { return p##_reset(m, n); } \
static int p##_t_sequence_use(void *m, uint32_t i) { return p##_sequence_use(m, i); } \
static int p##_t_sequence_copy(void *m, uint32_t to, uint32_t from) { return p##_sequence_copy(m, to, from); } \
static int p##_t_save(void *m, void *o, size_t c, size_t *w) { return p##_save(m, o, c, w); } \
static int p##_t_restore(void *m, const void *s, size_t n) { return p##_restore(m, s, n); } \
static int32_t p##_t_sample(void *m, float *l, const void *s) { return p##_sample(m, l, s); } \
static int p##_t_verify(void *m, uint32_t *at, uint32_t n, const char **name) { return p##_verify(m, at, n, name); } \
static int p##_t_profile(void *m, const int32_t *t, uint32_t n, float *l, void *o) { return p##_profile(m, t, n, l, o); } \
static const struct library p##_library = { #p, golden_name, P##_WORKSPACE_BYTES, P##_SEQUENCE_BYTES, P##_WORKSPACE_OF(3), \
    P##_STATE_BYTES, P##_STACK_BYTES, P##_KV_BYTES, P##_WEIGHTS_BYTES, P##_DEVICE_BYTES, P##_SEQUENCE_DEVICE_BYTES, \
    P##_N_VOCAB, P##_N_CTX, P##_CHUNK, P##_WORKERS, P##_TILES, P##_N_TENSORS, P##_TIMINGS, P##_WEIGHTS_EMBEDDED, P##_HAS_TOKENIZER, \
    p##_t_open, p##_t_close, p##_t_prefill, p##_t_step, p##_t_begin, p##_t_step_budget, p##_t_cancel, p##_t_n_past, p##_t_reset, \
    p##_t_sequence_use, p##_t_sequence_copy, p##_t_save, p##_t_restore, \
    p##_t_sample, p##_encode, p##_decode, p##_bos, p##_eos, p##_is_end, p##_t_verify, p##_t_profile, \
    p##_strerror }
#endif
