/* test_trap.c -- two models in two threads, each of them through every function, while memory functions and system calls for memory abort.
 * test_trap GOLDEN_DIR.  Under -fsanitize=thread (run_tsan.sh) without the trap, which is in the way of the sanitizer. */
#include "alpha.h"
#include "beta.h"
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define NO_TRAP
#endif
#endif
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define NO_TRAP
#endif

static _Thread_local bool armed;

#ifndef NO_TRAP
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);
static void trap(void)
{
    static const char text[] = "test_trap: a library called an allocator\n";
    if (!armed) return;
    if (write(2, text, sizeof text - 1) < 0) _exit(3);
    _exit(1);
}
/* The names of the C library: these here are linked in their place. */
void *malloc(size_t n)                   { trap(); return __libc_malloc(n); }
void *calloc(size_t n, size_t size)      { trap(); return __libc_calloc(n, size); }
void *realloc(void *p, size_t n)         { trap(); return __libc_realloc(p, n); }
void *aligned_alloc(size_t to, size_t n) { trap(); return __libc_memalign(to, n); }
void  free(void *p)                      { trap(); __libc_free(p); }
void *mmap(void *at, size_t n, int protection, int flags, int fd, long offset);
void *mmap(void *at, size_t n, int protection, int flags, int fd, long offset)
{
    (void)at; (void)n; (void)protection; (void)flags; (void)fd; (void)offset;
    trap();
    return (void *)-1;
}
#endif

enum { PROMPT = 48, GREEDY = 30, ROUNDS = 3 };
static int32_t alpha_prompt[PROMPT], alpha_greedy[GREEDY], beta_prompt[PROMPT], beta_greedy[GREEDY];
static const char *failed_in[2];

/* One body for both: everything is static, nothing is shared between the two. */
#define EXERCISE(p, P, index) \
static void *p##_exercise(void *unused) \
{ \
    static unsigned char workspace[P##_WORKSPACE_BYTES] __attribute__((aligned(P##_ALIGN))), state[P##_STATE_BYTES],                       \
        scratch[P##_ENCODE_SCRATCH(16)] __attribute__((aligned(8)));                                                                       \
    static float logits[P##_N_VOCAB]; \
    int32_t ids[16]; \
    size_t written; \
    struct p *m; \
    const struct p##_sampling drawn = { .size = sizeof drawn, .temperature = 0.8f, .top_k = 10, .top_p = 0.9f, .min_p = 0.01f,             \
                                        .repeat_penalty = 1.1f, .repeat_last_n = 64 };                                                     \
    (void)unused; \
    armed = true; \
    for (int round = 0; round < ROUNDS && failed_in[index] == NULL; round++) { \
        uint32_t at = 0; \
        char text[32]; \
        const struct p##_options o = { .size = sizeof o, .verify = P##_VERIFY_OPEN }; \
        if (p##_open(&m, workspace, sizeof workspace, &o) != P##_OK) failed_in[index] = "open"; \
        if (p##_prefill(m, p##_prompt, PROMPT, logits) != P##_OK) failed_in[index] = "prefill"; \
        for (int i = 0; i < GREEDY && failed_in[index] == NULL; i++) { \
            const int32_t token = p##_sample(m, logits, NULL); \
            if (token != p##_greedy[i]) failed_in[index] = "another token"; \
            if (p##_begin(m, &token, 1, logits) != P##_OK) failed_in[index] = "begin"; \
            while (p##_step_budget(m, 7) == P##_MORE) { } \
        } \
        if (p##_save(m, state, sizeof state, &written) != P##_OK || p##_reset(m, 1) != P##_OK || p##_restore(m, state, written) != P##_OK) \
            failed_in[index] = "state";                                                                                                    \
        if (p##_sample(m, logits, &drawn) < 0) failed_in[index] = "sample"; \
        if (p##_verify(m, &at, UINT32_MAX, NULL) != P##_OK) failed_in[index] = "verify"; \
        if (P##_HAS_TOKENIZER && (p##_encode("a text, of 16 b.", 16, P##_ADD_BOS, ids, 16, scratch, sizeof scratch) < 0 ||                 \
                                  p##_decode(5, text, sizeof text) < 0))                                                                   \
            failed_in[index] = "text"; \
        if (p##_strerror(0) == NULL || p##_n_past(m) != PROMPT + GREEDY || p##_is_end(p##_bos()) > 1 || p##_eos() < -1)                    \
            failed_in[index] = "the rest";                                                                                                 \
        p##_cancel(m); \
        p##_close(m); \
    } \
    armed = false; \
    return NULL; \
}
EXERCISE(alpha, ALPHA, 0)
EXERCISE(beta, BETA, 1)

static bool read_ids(const char *folder, const char *name, int32_t *ids, int n)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "r");
    bool good = f != NULL;
    for (int i = 0; i < n && good; i++) good = fscanf(f, "%d", &ids[i]) == 1;
    if (f) fclose(f);
    if (!good) fprintf(stderr, "test_trap: cannot read %s\n", path);
    return good;
}

int main(int argc, char **argv)
{
    if (argc != 2) return 2;
    const char *g = argv[1];
    if (!read_ids(g, "q-llama-Q8_0.tokens", alpha_prompt, PROMPT) || !read_ids(g, "q-llama-Q8_0.greedy", alpha_greedy, GREEDY)
        || !read_ids(g, "qwen3-a.tokens", beta_prompt, PROMPT) || !read_ids(g, "qwen3-a.greedy", beta_greedy, GREEDY)) return 2;
    pthread_t a, b;
    if (pthread_create(&a, NULL, alpha_exercise, NULL) != 0 || pthread_create(&b, NULL, beta_exercise, NULL) != 0) return 2;
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    for (int i = 0; i < 2; i++)
        if (failed_in[i] != NULL) fprintf(stderr, "test_trap: %s: %s\n", i ? "beta" : "alpha", failed_in[i]);
    puts(failed_in[0] || failed_in[1] ? "test_trap: failed" : "test_trap: ok");
    return failed_in[0] || failed_in[1];
}
