/* profile.c -- the time of each kernel in a step: one token after a text, and a prefill.
 *     profile [TOKENS [STEPS]] */
#define _POSIX_C_SOURCE 200809L
#include "story.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static unsigned char    workspace[STORY_WORKSPACE_BYTES] __attribute__((aligned(STORY_ALIGN)));
static float            logits[STORY_N_VOCAB];
static int32_t          tokens[STORY_N_CTX];
static struct story_timing timings[STORY_TIMINGS];

static uint64_t nanoseconds(void *context)
{
    struct timespec t;
    (void)context;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void check(int status, const char *what)
{
    if (status >= 0) return;
    fprintf(stderr, "profile: %s: %s\n", what, story_strerror(status));
    exit(1);
}

/* Measures a step of n tokens after the context. */
static void measure(struct story *m, uint32_t n, uint32_t n_steps)
{
    struct story_profiling profile = { .size = sizeof profile, .n_steps = n_steps, .clock = nanoseconds, .timings = timings };
    check(story_profile(m, tokens, n, logits, &profile), "profile");
    int64_t sum = 0;
    printf("%u tokens after %u\n", (unsigned)n, (unsigned)story_n_past(m));
    for (uint32_t i = 0; i < profile.n_timings; i++) {
        const struct story_timing *timing = &timings[i];
        const double us = 1e-3 * (double)(timing->work + timing->wait);
        sum += timing->work + timing->wait;
        printf("%-24s %4u launches %10.1f us %8.2f GB/s %8.2f Gop/s\n", timing->name, (unsigned)timing->launches, us,
               us > 0 ? 1e-3 * (double)timing->bytes / us : 0, us > 0 ? 1e-3 * (double)timing->operations / us : 0);
    }
    printf("%-24s %13s %10.1f us, the step %.1f us\n", "sum", "", 1e-3 * (double)sum, 1e-3 * (double)profile.step);
}

int main(int argc, char **argv)
{
    const uint32_t wanted = argc > 1 ? (uint32_t)atoi(argv[1]) : 64, most = STORY_CHUNK < STORY_N_CTX / 2 ? STORY_CHUNK : STORY_N_CTX / 2;
    const uint32_t n = wanted < 1 ? 1 : wanted < most ? wanted : most, n_steps = argc > 2 ? (uint32_t)atoi(argv[2]) : 20;
    struct story *m;
    check(story_open(&m, workspace, sizeof workspace, NULL), "open");
    for (uint32_t i = 0; i < STORY_N_CTX; i++) tokens[i] = (int32_t)(i * 7919u % STORY_N_VOCAB);
    check(story_prefill(m, tokens, n, logits), "prefill");
    measure(m, 1, n_steps);
    measure(m, n, n_steps);
    story_close(m);
    return 0;
}
