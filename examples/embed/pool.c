/* pool.c -- a thread pool for parallel_for: a model creates no threads itself.
 *     pool [PROMPT [TOKENS [THREADS]]]
 * The text is the same for any number of threads. */
#define _POSIX_C_SOURCE 200809L
#include "story.h"
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- the pool ---- */

enum { THREADS_MOST = 64 };

/* The lock protects everything except the jobs. */
struct pool {
    pthread_mutex_t lock;
    pthread_cond_t  more, done;
    story_job      *run;
    void           *job;
    uint32_t        n, next, left;                /* next: the first job not taken; left: jobs not finished */
    bool            ends;
    pthread_t       thread[THREADS_MOST];
    uint32_t        n_threads;
};

static void jobs_take(struct pool *p)
{
    while (p->next < p->n) {
        const uint32_t i = p->next++;
        pthread_mutex_unlock(&p->lock);
        p->run(p->job, i);
        pthread_mutex_lock(&p->lock);
        if (--p->left == 0) pthread_cond_signal(&p->done);
    }
}

static void *pool_thread(void *pool)
{
    struct pool *p = pool;
    pthread_mutex_lock(&p->lock);
    while (!p->ends) {
        jobs_take(p);
        if (!p->ends) pthread_cond_wait(&p->more, &p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* A story_parallel_for.  The calling thread works, too, and returns when all jobs have returned. */
static void pool_run(void *pool, uint32_t n, story_job *run, void *job)
{
    struct pool *p = pool;
    pthread_mutex_lock(&p->lock);
    p->run = run;
    p->job = job;
    p->n = p->left = n;
    p->next = 0;
    pthread_cond_broadcast(&p->more);
    jobs_take(p);
    while (p->left > 0) pthread_cond_wait(&p->done, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

/* n threads, including the calling thread. */
static void pool_begin(struct pool *p, uint32_t n)
{
    *p = (struct pool){ .n = 0 };
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->more, NULL);
    pthread_cond_init(&p->done, NULL);
    while (p->n_threads + 1 < n && pthread_create(&p->thread[p->n_threads], NULL, pool_thread, p) == 0) p->n_threads++;
}

static void pool_end(struct pool *p)
{
    pthread_mutex_lock(&p->lock);
    p->ends = true;
    pthread_cond_broadcast(&p->more);
    pthread_mutex_unlock(&p->lock);
    for (uint32_t i = 0; i < p->n_threads; i++) pthread_join(p->thread[i], NULL);
}

/* ---- the story ---- */

static unsigned char workspace[STORY_WORKSPACE_BYTES] __attribute__((aligned(STORY_ALIGN)));
static float         logits[STORY_N_VOCAB];
static int32_t       tokens[STORY_N_CTX];

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void check(int64_t status, const char *what)
{
    if (status >= 0) return;
    fprintf(stderr, "pool: %s: %s\n", what, story_strerror((int)status));
    exit(1);
}

/* Returns the number of tokens printed. */
static int tell(struct story *m, const char *prompt, int length)
{
    const size_t bytes = STORY_ENCODE_SCRATCH(strlen(prompt));
    void *scratch = malloc(bytes);
    const int64_t n = story_encode(prompt, strlen(prompt), STORY_SPECIAL | STORY_ADD_BOS, tokens, STORY_N_CTX, scratch, bytes);
    free(scratch);
    check(n, "encode");
    check(story_prefill(m, tokens, (uint32_t)n, logits), "prompt");
    for (int i = 0; i < length; i++) {
        char text[256];
        const int32_t token = story_sample(m, logits, NULL);             /* the most probable */
        if (story_is_end(token)) return i;
        const int64_t n_text = story_decode(token, text, sizeof text);
        if (n_text > 0) fwrite(text, 1, n_text < 256 ? (size_t)n_text : sizeof text, stdout);
        if (story_step(m, token, logits) == STORY_CONTEXT_FULL) return i + 1;
    }
    return length;
}

int main(int argc, char **argv)
{
    const int length = argc > 2 ? atoi(argv[2]) : 150, asked = argc > 3 ? atoi(argv[3]) : 4;
    static struct pool pool;
    pool_begin(&pool, asked < 1 ? 1 : asked > THREADS_MOST ? THREADS_MOST : (uint32_t)asked);

    struct story *m;
    const struct story_options options = { .size = sizeof options, .parallel_for = pool_run, .parallel_context = &pool };
    check(story_open(&m, workspace, sizeof workspace, &options), "open");
    const double start = seconds();
    const int told = tell(m, argc > 1 ? argv[1] : "Once upon a time there was a king who", length);
    fprintf(stderr, "\n%d tokens, %u threads: %.3f s\n", told, (unsigned)pool.n_threads + 1, seconds() - start);
    story_close(m);
    pool_end(&pool);
    return 0;
}
