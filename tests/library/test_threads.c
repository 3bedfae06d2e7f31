/* test_threads.c -- two models in two threads, each with its own threads for parallel_for, under ThreadSanitizer (run_tsan.sh).
 * test_threads GOLDEN_DIR ALPHA_WEIGHTS BETA_WEIGHTS */
#include "alpha.h"
#include "beta.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { PROMPT = 48, TOKENS = 6, CREW = 3 };
static const char *folder;

struct work { void (*run)(void *, uint32_t); void *job; uint32_t n; atomic_uint next; };

static void *work_run(void *context)
{
    struct work *w = context;
    for (uint32_t i; (i = atomic_fetch_add(&w->next, 1u)) < w->n;) w->run(w->job, i);
    return NULL;
}

static void crew_for(void *context, uint32_t n, void (*run)(void *, uint32_t), void *job)
{
    (void)context;
    struct work w = { .run = run, .job = job, .n = n };
    pthread_t threads[CREW - 1];
    for (int i = 0; i < CREW - 1; i++) if (pthread_create(&threads[i], NULL, work_run, &w) != 0) exit(2);
    work_run(&w);
    for (int i = 0; i < CREW - 1; i++) pthread_join(threads[i], NULL);
}

static uint64_t reads(void *context)
{
    static atomic_ullong clock;
    (void)context;
    return atomic_fetch_add(&clock, 1u);
}

static void read_ids(const char *name, const char *ending, int32_t *ids, int n)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s.%s", folder, name, ending);
    FILE *f = fopen(path, "r");
    for (int i = 0; i < n; i++) if (f == NULL || fscanf(f, "%d", &ids[i]) != 1) { perror(path); exit(2); }
    fclose(f);
}

#define MODEL(p, P, golden) \
static unsigned char p##_weights[P##_WEIGHTS_BYTES] __attribute__((aligned(P##_ALIGN))); \
static void *p##_thread(void *path) \
{ \
    static unsigned char workspace[P##_WORKSPACE_BYTES] __attribute__((aligned(P##_ALIGN))); \
    static float logits[P##_N_VOCAB]; \
    int32_t prompt[PROMPT], greedy[TOKENS]; \
    struct p *m; \
    read_ids(golden, "tokens", prompt, PROMPT); \
    read_ids(golden, "greedy", greedy, TOKENS); \
    FILE *f = fopen(path, "rb"); \
    if (f == NULL || fseek(f, 4096, SEEK_SET) != 0 || fread(p##_weights, 1, sizeof p##_weights, f) != sizeof p##_weights) {                \
        perror(path);                                                                                                                      \
        exit(2);                                                                                                                           \
    }                                                                                                                                      \
    fclose(f); \
    const struct p##_options o = { .size = sizeof o, .weights = p##_weights, .weights_bytes = sizeof p##_weights,                          \
                                   .parallel_for = crew_for };                                                                             \
    int status = p##_open(&m, workspace, sizeof workspace, &o); \
    static struct p##_timing timings[P##_TIMINGS]; \
    struct p##_profiling profile = { .size = sizeof profile, .n_steps = 2, .n_threads = CREW, .clock = reads, .timings = timings }; \
    if (status == 0) status = p##_profile(m, prompt, PROMPT, logits, &profile); \
    if (status == 0) status = p##_prefill(m, prompt, PROMPT, logits); \
    for (int i = 0; i < TOKENS && status == 0; i++) { \
        const int32_t token = p##_sample(m, logits, NULL); \
        if (token != greedy[i]) { fprintf(stderr, #p ": token %d is %d, not %d\n", i, token, greedy[i]); exit(1); } \
        status = p##_step(m, token, logits); \
    } \
    if (status != 0) { fprintf(stderr, #p ": %s\n", p##_strerror(status)); exit(1); } \
    return NULL; \
}
MODEL(alpha, ALPHA, "q-llama-Q8_0")
MODEL(beta, BETA, "qwen3-a")

int main(int argc, char **argv)
{
    if (argc != 4) return 2;
    folder = argv[1];
    pthread_t a, b;
    if (pthread_create(&a, NULL, alpha_thread, argv[2]) != 0 || pthread_create(&b, NULL, beta_thread, argv[3]) != 0) return 2;
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    puts("test_threads: ok");
    return 0;
}
