/* registry.c -- the main program of kernel tests: runs the tests of registry.def that are linked with it.  Usage: tests/kernel/run.sh. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE                              /* MAP_ANONYMOUS */
#endif
#include "registry.h"
#include "machine.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static const struct test {
    const char *name, *templates, *cpu, *lanes, *amd, *nvidia, *what;
    void (*run)(void), (*bench)(void);
} tests[] = {
#define KERNEL_TEST(name, templates, cpu, lanes, amd, nvidia, what) \
    { #name, templates, cpu, lanes, amd, nvidia, what, test_##name, bench_##name },
#include "registry.def"
};
enum { N_TESTS = sizeof tests / sizeof *tests, MOST_FAILURES = 20 };

static struct {
    const struct test *test;
    const char *format, *variant, *code, *arch, *place;
    uint64_t seed, only_case, n_cases, n_failed;
    uint32_t rounds, part, parts;
    bool     list, bench, failed;                /* failed: the current case */
    char     what[400];                          /* the current case */
    double   worst;                              /* error / bound */
    uint64_t random;
} run;

/* ---- cases ---- */
bool case_begin(void)
{
    run.n_cases++;
    run.failed = false;
    run.what[0] = 0;
    run.random = run.seed * 0x9e3779b97f4a7c15u + run.n_cases * 0xd1342543de82ef95u;
    return !run.only_case || run.only_case == run.n_cases;
}

void case_is(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(run.what, sizeof run.what, format, list);
    va_end(list);
}

bool bad(const char *format, ...)
{
    va_list list;
    const bool first = !run.failed;
    run.n_failed += first;
    run.failed = true;
    if (run.n_failed > MOST_FAILURES) return false;
    if (first) printf("FAILED %s, case %llu: %s\n", run.test->name, (unsigned long long)run.n_cases, run.what);
    printf("    ");
    va_start(list, format);
    vprintf(format, list);
    va_end(list);
    putchar('\n');
    return false;
}

bool close_to(const char *what, uint64_t index, double got, double want, double bound)
{
    const double error = fabs(got - want);
    if (!(error <= bound)) return bad("%s[%llu] is %.9g, not %.9g: off by %.3g, allowed %.3g", what, (unsigned long long)index, got, want,
                                      error, bound);
    if (bound > 0 && error / bound > run.worst) run.worst = error / bound;
    return true;
}

uint32_t rounds(uint32_t usual) { return run.rounds ? run.rounds : usual; }
bool format_wanted(const char *file) { return !run.format || !strcmp(run.format, file); }
bool part_has(uint32_t place) { return run.parts == 0 || place % run.parts == run.part; }
bool variant_has(const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = run.variant; at; at = strchr(at, '-') ? strchr(at, '-') + 1 : NULL)
        if (!strncmp(at, word, n) && (at[n] == 0 || at[n] == '-')) return true;
    return false;
}

/* ---- random numbers: splitmix64 (Steele, Lea & Flood 2014) ---- */
uint64_t random_u64(void)
{
    uint64_t z = run.random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
uint32_t random_u32(void)                           { return (uint32_t)(random_u64() >> 32); }
uint32_t random_below(uint32_t n)                   { return (uint32_t)((uint64_t)random_u32() * n >> 32); }
uint32_t random_in(uint32_t low, uint32_t high)     { return low + random_below(high - low + 1); }
float random_f32(void)                              { return (float)(int32_t)random_u32() * 0x1p-31f; }
void random_row(float *x, uint64_t n, float size)   { for (uint64_t i = 0; i < n; i++) x[i] = random_f32() * size; }
float random_normal(void)
{
    float sum = 0;
    for (int i = 0; i < 3; i++) sum += random_f32();     /* each of variance 1/3 */
    return sum;
}

/* ---- memory ---- */
enum { PAGE = 65536, MOST_ROOMS = 64 };              /* no machine has a larger page */
static struct room all_rooms[MOST_ROOMS];
static uint32_t n_rooms;

struct room *room_new(const char *name, uint64_t size)
{
    if (n_rooms == MOST_ROOMS) { fprintf(stderr, "room_new: more than %d rooms\n", MOST_ROOMS); exit(2); }
    struct room *r = &all_rooms[n_rooms++];
    const uint64_t used = (size + 15) / 16 * 16, body = (used + PAGE - 1) / PAGE * PAGE;
    *r = (struct room){ .size = size, .name = name, .map_size = body + PAGE };
    r->map = mmap(NULL, r->map_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (r->map == MAP_FAILED || mprotect(r->map + body, PAGE, PROT_NONE)) { perror("room_new"); exit(2); }
    r->at = r->bytes = r->map + body - used;
    rooms_poison(r);
    if (machine_room) machine_room(r);
    return r;
}

/* A room that is too large to fill stays 0: only the bytes before it are poisoned. */
static bool filled(const struct room *r) { return r->map_size < 1u << 29; }
void rooms_poison(struct room *r) { memset(r->map, POISON, filled(r) ? r->map_size - PAGE : (uint64_t)(r->bytes - r->map)); }

void rooms_free(void)
{
    for (uint32_t i = 0; i < n_rooms; i++) {
        const struct room *r = &all_rooms[i];
        uint64_t written = 0;
        for (const uint8_t *p = r->map; p < r->bytes; p++) written += *p != POISON;
        for (const uint8_t *p = r->bytes + r->size; p < r->map + r->map_size - PAGE && filled(r); p++) written += *p != POISON;
        if (written) bad("%llu bytes beside %s are written", (unsigned long long)written, r->name);
        if (machine_room_free) machine_room_free(r);
        munmap(r->map, r->map_size);
    }
    n_rooms = 0;
}
struct room *rooms_all(uint32_t *n) { *n = n_rooms; return all_rooms; }

double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- the program ---- */
/* The word of run.sh for the place where tests run. */
static void list_places(const struct test *t)
{
    const char *const places[4][2] = { { "cpu", t->cpu }, { "lanes", t->lanes }, { "sim:CHIP, device:gfxN", t->amd },
                                       { "device:sm_N", t->nvidia } };
    for (int i = 0; i < 4; i++)
        if (*places[i][1]) printf("    %s: %s\n", places[i][0], places[i][1]);
}
static void list(const char *word)
{
    for (const struct test *t = tests; t < tests + N_TESTS; t++) {
        if (word && !strstr(t->name, word) && !strstr(t->templates, word) && !strstr(t->what, word)) continue;
        printf("%s: %s\n    %s\n", t->name, t->templates, t->what);
        list_places(t);
    }
}

static _Noreturn void usage(void)
{
    fputs("usage: [NAME] [--list [WORD]] [--seed N] [--case N] [--rounds N] [--part I/N] [--format FILE] [--bench]\n"
          "       [--place TEXT] [--variant WORD] [--arch NAME --code FILE]      tests/kernel/run.sh gives these\n", stderr);
    exit(2);
}

static uint64_t number_of(const char *text)
{
    char *end;
    const uint64_t n = strtoull(text, &end, 0);
    if (*end || end == text) { fprintf(stderr, "\"%s\" is not a number\n", text); usage(); }
    return n;
}

static const struct test *test_named(const char *name)
{
    for (const struct test *t = tests; t < tests + N_TESTS; t++)
        if (name ? !strcmp(t->name, name) : t->run != NULL) return t;
    return NULL;
}

/* An argument that is not an option: a test's name, or with --list a word. */
static const char *read_options(int argc, char **argv)
{
    const char *word = NULL;
    run.seed = (uint64_t)time(NULL);
    for (int i = 1; i < argc; i++) {
        const char *option = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (!strcmp(option, "--list")) { run.list = true; continue; }
        if (!strcmp(option, "--bench")) { run.bench = true; continue; }
        if (option[0] != '-' && !word) { word = option; continue; }
        if (!value) usage();
        i++;
        if (!strcmp(option, "--seed")) run.seed = number_of(value);
        else if (!strcmp(option, "--case")) run.only_case = number_of(value);
        else if (!strcmp(option, "--rounds")) run.rounds = (uint32_t)number_of(value);
        else if (!strcmp(option, "--part")) {
            if (sscanf(value, "%u/%u", &run.part, &run.parts) != 2 || run.part >= run.parts) usage();
        }
        else if (!strcmp(option, "--format")) run.format = value;
        else if (!strcmp(option, "--place")) run.place = value;
        else if (!strcmp(option, "--variant")) run.variant = value;
        else if (!strcmp(option, "--arch")) run.arch = value;
        else if (!strcmp(option, "--code")) run.code = value;
        else usage();
    }
    return word;
}

int main(int argc, char **argv)
{
    const char *word = read_options(argc, argv);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (run.list) { list(word); return 0; }
    run.test = test_named(word);
    if (!run.test || !run.test->run) {
        fprintf(stderr, "no test called \"%s\" in this program: see --list\n", word ? word : "");
        return 2;
    }
    if (machine_open && !machine_open(run.arch, run.code)) return 77;
    if (run.bench) {
        if (!run.test->bench) { fprintf(stderr, "%s measures nothing\n", run.test->name); return 2; }
        run.test->bench();
        return 0;
    }
    printf("%s, seed %llu\n", run.test->name, (unsigned long long)run.seed);
    run.test->run();
    if (run.n_cases == 0 || (run.only_case && run.only_case > run.n_cases)) { bad("there was no such case"); run.n_failed = 1; }
    printf("%s%s%s: %llu of %llu cases failed, largest error %.0f %% of what is allowed", run.test->name, run.place ? " on " : "",
           run.place ? run.place : "", (unsigned long long)run.n_failed, (unsigned long long)run.n_cases, run.worst * 100);
    if (run.n_failed) printf("; again: --seed %llu --case NUMBER", (unsigned long long)run.seed);
    putchar('\n');
    return run.n_failed != 0;
}
