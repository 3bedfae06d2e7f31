/* Barrier latency, and what a busy neighbour costs.
 *   barrier [-t THREADS] [-w NANOSECONDS of work between barriers] [-s SECONDS] [--hog]
 * --hog: the same again with a process that computes without pause pinned to one of the cores; prints the share kept.
 * cc -O2 -std=c11 -D_GNU_SOURCE -iquote . tests/bench/barrier.c runtime/device/threads.c runtime/run/status.c -lpthread */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/device/threads.h"

enum { BARRIERS_PER_JOB = 80 };                 /* launches of one token */

struct job { struct forge_pool *pool; long spins; };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void compute(long spins)
{
    volatile unsigned x = 1;
    for (long i = 0; i < spins; i++) x = x * 1664525u + 1013904223u;
}

static void job(void *context, uint32_t thread, uint32_t n_threads)
{
    const struct job *j = context;
    (void)n_threads;
    for (int i = 0; i < BARRIERS_PER_JOB; i++) {
        compute(j->spins);
        pool_barrier(j->pool, thread);
    }
}

/* Nanoseconds per barrier and the work before it. */
static double measure(struct job *j, double seconds)
{
    const double start = now();
    double end;
    long jobs = 0;
    do {
        pool_run(j->pool, job, j);
        jobs++;
    } while ((end = now()) - start < seconds);
    return (end - start) / (double)jobs / (BARRIERS_PER_JOB + 2) * 1e9;
}

static pid_t start_hog(int cpu)
{
    const pid_t pid = fork();
    if (pid != 0) return pid;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
    for (;;) compute(1000000);
}

int main(int argc, char **argv)
{
    uint32_t n_threads = threads_default(2);
    long work_ns = 0;
    double seconds = 2;
    int hog = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--hog") == 0) hog = 1;
        else if (i + 1 < argc && strcmp(argv[i], "-t") == 0) n_threads = (uint32_t)atoi(argv[++i]);
        else if (i + 1 < argc && strcmp(argv[i], "-w") == 0) work_ns = atol(argv[++i]);
        else if (i + 1 < argc && strcmp(argv[i], "-s") == 0) seconds = atof(argv[++i]);
        else { fprintf(stderr, "usage: barrier [-t THREADS] [-w NS] [-s SECONDS] [--hog]\n"); return 2; }
    }
    struct job j = { 0 };
    struct forge_error error;
    if (pool_open(&j.pool, n_threads, &error) != FORGE_OK) { fprintf(stderr, "%s\n", error.text); return 1; }
    double start = now();
    compute(10000000);
    j.spins = (long)((double)work_ns * 1e-9 / ((now() - start) / 10000000));
    measure(&j, 0.2);
    const double quiet = measure(&j, seconds);
    printf("%u threads, %ld ns of work: %.0f ns per barrier and work\n", n_threads, work_ns, quiet);
    if (hog) {
        cpu_set_t set;
        sched_getaffinity(0, sizeof set, &set);
        int cpu = 0;
        while (!CPU_ISSET((size_t)cpu, &set)) cpu++;
        const pid_t pid = start_hog(cpu);
        measure(&j, 0.5);
        const double busy = measure(&j, seconds);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        printf("with a busy neighbour on cpu %d: %.0f ns, %.0f %% of the speed kept\n", cpu, busy, 100 * quiet / busy);
    }
    pool_close(j.pool);
    return 0;
}
