/* test_peers.c -- two simulated chips exchange values while they run (peers.c): sums must be exact in any order of execution, and each
 * planted mistake must be the only finding, with its right name.
 *
 *   test_peers libgfxsim.so CHIP peers.CHIP.co
 *
 * Each case runs in its own process, because a finding ends the use of HIP.  As in test_bugs.c, the same must be found with all other kinds
 * of findings ignored. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/model/abi_gpu.h"

enum { NOT_READY = 600, LAUNCH_FAILURE = 719, THREADS = 64, GROUPS = 2, COLS = THREADS * GROUPS, HALF = 2 * 2 * COLS * 8, ROUNDS = 100,
       TEXT_BYTES = 1 << 16, SECONDS = 100 };

/* the needed part of hip_runtime_api.h */
struct hip {
    int (*init)(unsigned);
    int (*count)(int *);
    int (*name)(char *, int, int);
    int (*set_device)(int);
    int (*memory)(size_t *, size_t *);
    int (*alloc)(void **, size_t, unsigned);
    int (*host_alloc)(void **, size_t, unsigned);
    int (*free)(void *);
    int (*clear)(void *, unsigned char, size_t, void *);
    int (*upload)(void *, const void *, size_t, void *);
    int (*download)(void *, const void *, size_t, void *);
    int (*stream)(void **, unsigned);
    int (*query)(void *);
    int (*event)(void **, unsigned);
    int (*record)(void *, void *);
    int (*passed)(void *);
    int (*elapsed)(float *, void *, void *);
    int (*module)(void **, const void *);
    int (*function)(void **, void *, const char *);
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
    int (*capture)(void *, int);
    int (*captured)(void *, void **);
    int (*instantiate)(void **, void *, void **, char *, size_t);
    int (*launch_graph)(void *, void *);
    int (*can_access)(int *, int, int);
    int (*open_peer)(int, unsigned);
};
static const char *const names[] = {
    "hipInit", "hipGetDeviceCount", "hipDeviceGetName", "hipSetDevice", "hipMemGetInfo", "hipExtMallocWithFlags", "hipHostMalloc",
    "hipFree", "hipMemsetD8Async", "hipMemcpyHtoDAsync", "hipMemcpyDtoHAsync", "hipStreamCreateWithFlags", "hipStreamQuery",
    "hipEventCreateWithFlags", "hipEventRecord", "hipEventQuery", "hipEventElapsedTime", "hipModuleLoadData", "hipModuleGetFunction",
    "hipModuleLaunchKernel", "hipStreamBeginCapture", "hipStreamEndCapture", "hipGraphInstantiate", "hipGraphLaunch",
    "hipDeviceCanAccessPeer", "hipDeviceEnablePeerAccess",
};

/* The launches of two chips.  give, take: by rank; NULL: no launch.  flags: of hipExtMallocWithFlags, for the memory of collectives. */
struct plan {
    const char *name, *give[2], *take[2];
    const char *found;                           /* kind of finding; NULL: no finding */
    const char *said;                            /* part of the output; NULL: any output */
    const char *settings[4];                     /* NAME=VALUE */
    uint32_t rounds, flags;
    bool closed, graph, unseen_fill, late;       /* no peer access; one graph; fills not awaited; chip 1 gets work long after chip 0 */
    bool threads, ordered;                       /* a host thread per chip; the host waits for each launch before the next */
    bool rows;                                   /* one workgroup with twice the threads */
    bool cdna_only;                              /* on RDNA these instructions are correct */
};
struct chip { void *module, *stream, *collective, *state, *step; };
struct result { int code; uint32_t wrong; bool asked_early, in_time; char text[TEXT_BYTES]; };
struct test { struct hip hip; const char *library, *chip; const void *image; };

static _Noreturn void stop(const char *what, const char *why)
{
    fprintf(stderr, "test_peers: %s: %s\n", what, why);
    exit(3);
}

static void need(int code, const char *what)
{
    char why[40];
    snprintf(why, sizeof why, "HIP error %d", code);
    if (code != 0) stop(what, why);
}

static void *read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL || fseek(f, 0, SEEK_END) != 0) stop(path, "cannot be read");
    const size_t n = (size_t)ftell(f);
    void *data = malloc(n + 1);
    rewind(f);
    if (data == NULL || fread(data, 1, n, f) != n) stop(path, "cannot be read");
    fclose(f);
    return data;
}

static void open_hip(struct test *t)
{
    void *handle = dlopen(t->library, RTLD_NOW | RTLD_LOCAL), *at[sizeof names / sizeof *names];
    if (handle == NULL) stop(t->library, dlerror());
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if ((at[k] = dlsym(handle, names[k])) == NULL) stop(names[k], "not in the library");
    _Static_assert(sizeof at == sizeof t->hip, "a name for each member");
    memcpy(&t->hip, at, sizeof at);
    need(t->hip.init(0), "hipInit");
}

static void nap(uint32_t ms)
{
    const struct timespec t = { ms / 1000, ms % 1000 * 1000000L };
    nanosleep(&t, NULL);
}

/* Queries the stream until it is done; NOT_READY: it took too long. */
static int await(const struct hip *h, void *stream)
{
    int code = NOT_READY;
    for (uint32_t k = 0; k < SECONDS * 1000 && code == NOT_READY; k++) {
        code = h->query(stream);
        if (code == NOT_READY) nap(1);
    }
    return code;
}

/* ---- two chips ---- */

static void set_up(struct test *t, const struct plan *p, struct chip *chips)
{
    const struct hip *h = &t->hip;
    float *state;
    struct forge_gpu_step *step;
    need(h->host_alloc((void **)&state, COLS * sizeof *state, 0), "hipHostMalloc");
    need(h->host_alloc((void **)&step, sizeof *step, 0), "hipHostMalloc");
    memset(step, 0, sizeof *step);
    step->collective_base = 1;
    for (uint32_t c = 0; c < COLS; c++) state[c] = (float)(c * 5 % 1024);
    for (int d = 0; d < 2; d++) {
        struct chip *k = &chips[d];
        need(h->set_device(d), "hipSetDevice");
        need(h->stream(&k->stream, 1), "hipStreamCreateWithFlags");
        need(h->module(&k->module, t->image), "hipModuleLoadData");
        need(h->alloc(&k->collective, 2 * HALF, p->flags), "hipExtMallocWithFlags");
        need(h->alloc(&k->state, COLS * sizeof(float), 0), "hipExtMallocWithFlags");
        need(h->alloc(&k->step, sizeof *step, 0), "hipExtMallocWithFlags");
        if (!p->closed) need(h->open_peer(1 - d, 0), "hipDeviceEnablePeerAccess");
        need(h->upload(k->state, state, COLS * sizeof *state, k->stream), "hipMemcpyHtoDAsync");
        need(h->upload(k->step, step, sizeof *step, k->stream), "hipMemcpyHtoDAsync");
        if (!p->unseen_fill) need(h->clear(k->collective, 0, 2 * HALF, k->stream), "hipMemsetD8Async");
        need(await(h, k->stream), "hipStreamQuery");
    }
    for (int d = 0; d < 2 && p->unseen_fill; d++) need(h->clear(chips[d].collective, 0, 2 * HALF, chips[d].stream), "hipMemsetD8Async");
}

static int launch(const struct hip *h, const struct plan *p, const struct chip *chips, uint32_t rank, const char *kernel, uint32_t round)
{
    void *function;
    struct forge_kernel_args a = { .state = chips[rank].state, .step = chips[rank].step, .rank = rank, .collectives = round };
    size_t bytes = sizeof a;
    void *extra[] = { (void *)1, &a, (void *)2, &bytes, (void *)3 };
    for (int d = 0; d < 2; d++) a.collective[d] = chips[d].collective;
    a.given = a.collective[rank];
    const int code = h->function(&function, chips[rank].module, kernel);
    if (code != 0) return code;                  /* a finding of a running kernel */
    const unsigned groups = p->rows ? GROUPS / 2 : GROUPS, threads = p->rows ? 2 * THREADS : THREADS;
    return h->launch(function, groups, 1, 1, threads, 1, 1, 0, chips[rank].stream, NULL, extra);
}

/* Puts all rounds of one rank; the other rank has not started, or is running. */
static int put(const struct hip *h, const struct plan *p, const struct chip *chips, uint32_t rank)
{
    void *graph, *exec;
    int code = 0;
    if (p->graph) need(h->capture(chips[rank].stream, 1), "hipStreamBeginCapture");
    for (uint32_t k = 0; k < p->rounds && code == 0; k++) {
        if (p->give[rank] != NULL) code = launch(h, p, chips, rank, p->give[rank], k);
        if (p->take[rank] != NULL && code == 0) code = launch(h, p, chips, rank, p->take[rank], k);
    }
    if (!p->graph) return code;
    need(h->captured(chips[rank].stream, &graph), "hipStreamEndCapture");
    need(h->instantiate(&exec, graph, NULL, NULL, 0), "hipGraphInstantiate");
    return h->launch_graph(exec, chips[rank].stream);
}

static uint32_t expected(uint32_t c, uint32_t rounds)
{
    uint32_t x = c * 5 % 1024;
    for (uint32_t k = 0; k < rounds; k++) x = (3 * x + 2 * (c % 7)) % 1024;
    return x;
}

static int count_wrong(const struct hip *h, const struct plan *p, const struct chip *chips, uint32_t *wrong)
{
    float y[COLS];                               /* not pinned: the call waits */
    for (int d = 0; d < 2; d++) {
        need(h->set_device(d), "hipSetDevice");
        const int code = h->download(y, chips[d].state, sizeof y, chips[d].stream);
        if (code != 0) return code;
        for (uint32_t c = 0; c < COLS; c++) *wrong += y[c] != (float)expected(c, p->rounds);
    }
    return 0;
}

/* Launch by launch: no two kernels run at the same time. */
static int put_in_order(const struct hip *h, const struct plan *p, const struct chip *chips)
{
    int code = 0;
    for (uint32_t k = 0; k < 4 * p->rounds && code == 0; k++) {
        const uint32_t rank = k % 2;
        code = launch(h, p, chips, rank, k / 2 % 2 == 0 ? p->give[rank] : p->take[rank], k / 4);
        if (code == 0) code = await(h, chips[rank].stream);
    }
    return code;
}

struct rank { const struct hip *hip; const struct plan *plan; const struct chip *chips; uint32_t number; int code; };

static void *drive(void *argument)
{
    struct rank *r = argument;
    need(r->hip->set_device((int)r->number), "hipSetDevice");
    r->code = put(r->hip, r->plan, r->chips, r->number);
    if (r->code == 0) r->code = await(r->hip, r->chips[r->number].stream);
    return NULL;
}

static int drive_both(const struct hip *h, const struct plan *p, const struct chip *chips)
{
    pthread_t thread[2];
    struct rank rank[2];
    for (uint32_t k = 0; k < 2; k++) {
        rank[k] = (struct rank){ h, p, chips, k, 0 };
        if (pthread_create(&thread[k], NULL, drive, &rank[k]) != 0) stop("pthread_create", "failed");
    }
    for (uint32_t k = 0; k < 2; k++) pthread_join(thread[k], NULL);
    return rank[0].code != 0 ? rank[0].code : rank[1].code;
}

static void run(struct test *t, const struct plan *p, struct result *r)
{
    struct chip chips[2];
    void *event[2];
    float ms = -1;
    open_hip(t);
    const struct hip *h = &t->hip;
    set_up(t, p, chips);
    for (int k = 0; k < 2; k++) need(h->event(&event[k], 0), "hipEventCreateWithFlags");
    need(h->record(event[0], chips[0].stream), "hipEventRecord");
    r->code = p->threads ? drive_both(h, p, chips) : p->ordered ? put_in_order(h, p, chips) : put(h, p, chips, 0);
    if (r->code == 0) r->code = h->record(event[1], chips[0].stream);
    if (p->late && r->code == 0) {               /* chip 1 has not pushed the values for which chip 0 waits: chip 0 cannot be done */
        nap(200);
        const int stream = h->query(chips[0].stream), passed = h->passed(event[1]);
        r->asked_early = stream == NOT_READY && passed == NOT_READY;
    }
    if (r->code == 0 && !p->threads && !p->ordered) r->code = put(h, p, chips, 1);
    for (int d = 0; d < 2 && r->code == 0; d++) r->code = await(h, chips[d].stream);
    if (r->code == 0) r->code = h->elapsed(&ms, event[0], event[1]);
    r->in_time = ms > 0;
    if (r->code == 0) r->code = count_wrong(h, p, chips, &r->wrong);
    for (int d = 0; d < 2 && r->code == 0; d++) r->code = h->free(chips[d].collective);
}

/* The same in its own process; text receives its output. */
static void run_apart(struct test *t, const struct plan *p, const char *ignore, struct result *r)
{
    FILE *file = tmpfile();
    char chips[64];
    if (file == NULL) stop("tmpfile", "failed");
    memset(r, 0, sizeof *r);
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        dup2(fileno(file), STDERR_FILENO);
        snprintf(chips, sizeof chips, "%s", t->chip);
        setenv("FORGE_GFXSIM_CHIP", chips, 1);
        setenv("FORGE_GFXSIM_DEVICES", "2", 1);
        setenv("FORGE_GFXSIM_IGNORE", ignore, 1);
        for (int k = 0; k < 4 && p->settings[k] != NULL; k++) putenv((char *)(uintptr_t)p->settings[k]);
        alarm(SECONDS);
        run(t, p, r);
        exit(0);                                 /* with the counters */
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) stop(p->name, "no process");
    rewind(file);
    r->text[fread(r->text, 1, TEXT_BYTES - 1, file)] = 0;
    fclose(file);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) r->code = -1;            /* a crash, or no answer in time */
}

static bool say(const struct plan *p, const char *what, const struct result *r)
{
    printf("%s: %s (code %d, %u wrong sums)\n%s", p->name, what, r->code, r->wrong, r->text);
    return false;
}

static bool check(struct test *t, const struct plan *p, struct result *r)
{
    static const char *const kinds[] = { "bounds", "alignment", "undefined", "wait", "lds-race", "race", "scalar-cache", "dies", "flag",
                                         "peers", "deadlock", "other" };
    const bool cdna = strstr(t->chip, "gfx9") != NULL, right = p->found == NULL || (p->cdna_only && !cdna);
    char others[200] = "", what[100];
    run_apart(t, p, "", r);
    if (right) {
        if (r->code != 0 || r->wrong != 0 || r->text[0] != 0 || !r->in_time) return say(p, "should run without a finding", r);
        return !p->late || r->asked_early || say(p, "a query said that chip 0 is done, which waits for chip 1", r);
    }
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (strcmp(kinds[k], p->found) != 0) strcat(strcat(others, others[0] != 0 ? "," : ""), kinds[k]);
    snprintf(what, sizeof what, "should have findings of the kind %s", p->found);
    if (getenv("VERBOSE") != NULL) printf("%s:\n%s", p->name, r->text);
    if (r->code != LAUNCH_FAILURE || strncmp(r->text, "gfxsim: ", 8) != 0) return say(p, what, r);
    if (p->said != NULL && strstr(r->text, p->said) == NULL) return say(p, p->said, r);
    run_apart(t, p, others, r);
    return (r->code == LAUNCH_FAILURE && strncmp(r->text, "gfxsim: ", 8) == 0) || say(p, "the same without other kinds of findings", r);
}

/* ---- settings and calls ---- */

enum { MOST_SAID = 400 };
struct asked { int count_code, count, name_code; char name[2][64]; size_t total[2], free[2]; int can, codes[4]; };

static void ask(struct test *t, struct asked *a)
{
    void *p;
    open_hip(t);
    const struct hip *h = &t->hip;
    a->count_code = h->count(&a->count);
    for (int d = 0; d < 2 && a->count_code == 0; d++) {
        a->name_code |= h->name(a->name[d], sizeof a->name[d], d);
        a->name_code |= h->set_device(d);
        a->name_code |= d == 1 ? h->alloc(&p, 1 << 20, 1) : 0;
        a->name_code |= h->memory(&a->free[d], &a->total[d]);
    }
    if (a->count_code != 0) return;
    need(h->can_access(&a->can, 0, 1), "hipDeviceCanAccessPeer");
    a->codes[0] = h->open_peer(0, 0);            /* of device 1 */
    a->codes[1] = h->open_peer(0, 0);
    a->codes[2] = h->open_peer(1, 0);
    a->codes[3] = h->set_device(2);
}

static bool check_settings(struct test *t, struct asked *a, const char *chips, const char *devices, const char *no_peer, char *text)
{
    FILE *file = tmpfile();
    int status = 0;
    memset(a, 0, sizeof *a);
    const pid_t child = file != NULL ? fork() : -1;
    if (child == 0) {
        dup2(fileno(file), STDERR_FILENO);
        setenv("FORGE_GFXSIM_CHIP", chips, 1);
        setenv("FORGE_GFXSIM_DEVICES", devices, 1);
        setenv("FORGE_GFXSIM_NO_PEER", no_peer, 1);
        setenv("FORGE_GFXSIM_MEMORY", "67108864,33554432", 1);
        alarm(SECONDS);
        ask(t, a);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) stop("fork", "failed");
    rewind(file);
    text[fread(text, 1, MOST_SAID - 1, file)] = 0;
    fclose(file);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static uint32_t check_calls(struct test *t, struct asked *a)
{
    char text[MOST_SAID];
    uint32_t bad = 0;
#define SHOULD(condition) if (!(condition)) { bad++; printf("settings: not so: %s\n%s", #condition, text); }
    SHOULD(check_settings(t, a, "gfx942,gfx1100", "", "0", text));
    SHOULD(a->count == 2 && a->name_code == 0 && strcmp(a->name[0], "gfxsim gfx942") == 0 && strcmp(a->name[1], "gfxsim gfx1100") == 0);
    SHOULD(a->total[0] == 64 << 20 && a->total[1] == 32 << 20 && a->free[0] == 64 << 20 && a->free[1] == 31 << 20);
    SHOULD(a->can == 1 && a->codes[0] == 0 && a->codes[1] == 704 && a->codes[2] == 101 && a->codes[3] == 101);
    SHOULD(check_settings(t, a, "gfx942", "8", "1", text));
    SHOULD(a->count == 8 && a->can == 0 && a->codes[0] == 217 && a->codes[1] == 217);
    SHOULD(check_settings(t, a, "gfx942", "9", "0", text) && a->count_code == 100 && strstr(text, "1 to 8 chips") != NULL);
    SHOULD(check_settings(t, a, "gfx942", "two", "0", text) && a->count_code == 100 && strstr(text, "1 to 8 chips") != NULL);
    SHOULD(check_settings(t, a, "gfx942,gfx1", "2", "0", text) && a->count_code == 100 && strstr(text, "does not have this chip") != NULL);
#undef SHOULD
    return bad;
}

/* ---- counters ---- */

/* A counter of the kernel's row. */
static uint64_t counter(const char *text, const char *kernel, const char *name)
{
    char key[64];
    snprintf(key, sizeof key, "\"name\": \"%s\"", kernel);
    const char *row = strstr(text, key);
    snprintf(key, sizeof key, "\"%s\": ", name);
    const char *at = row != NULL ? strstr(row, key) : NULL;
    return at != NULL ? strtoull(at + strlen(key), NULL, 10) : 0;
}

static bool check_counters(struct test *t, struct result *r)
{
    char path[] = "/tmp/test_peers.XXXXXX", setting[80];
    const int file = mkstemp(path);
    if (file < 0) stop(path, "cannot be made");
    close(file);
    snprintf(setting, sizeof setting, "FORGE_GFXSIM_STATS=%s", path);
    const struct plan p = { .name = "counters", .give = { "give", "give" }, .take = { "take", "take" }, .rounds = ROUNDS, .flags = 1,
                            .settings = { setting } };
    const bool good = check(t, &p, r);
    char *text = read_file(path);
    unlink(path);
    /* each of two ranks pushes ROUNDS * COLS pairs of 8 bytes to itself and to the other rank */
    const uint64_t once = (uint64_t)2 * ROUNDS * COLS * 8;
    const bool counted = counter(text, "give", "launches") == 2 * ROUNDS && counter(text, "give", "stored_bytes") == 2 * once &&
        counter(text, "give", "peer_bytes") == once && counter(text, "take", "peer_bytes") == 0;
    if (!counted) printf("counters: %s\n", text);
    free(text);
    return good && counted;
}

#define GIVE { "give", "give" }
#define TAKE { "take", "take" }
#define GIVE_ROWS { "give_rows", "give_rows" }
#define TAKE_ROWS { "take_rows", "take_rows" }
static const struct plan plans[] = {
    { .name = "collective", .give = GIVE, .take = TAKE, .rounds = ROUNDS, .flags = 1 },
    { .name = "uncached", .give = GIVE, .take = TAKE, .rounds = ROUNDS, .flags = 3 },
    { .name = "graphs", .give = GIVE, .take = TAKE, .rounds = ROUNDS, .flags = 1, .graph = true },
    { .name = "a host thread each", .give = GIVE, .take = TAKE, .rounds = ROUNDS, .flags = 1, .threads = true },
    { .name = "no pause", .give = GIVE, .take = { "take_at_once", "take" }, .rounds = ROUNDS, .flags = 1,
      .settings = { "FORGE_GFXSIM_SLICE=500" } },
    { .name = "in turn", .give = { "give_in_turn", "give_in_turn" }, .take = TAKE, .rounds = ROUNDS, .flags = 1 },
    { .name = "both in one", .give = { "both", "both" }, .rounds = ROUNDS, .flags = 1 },
    { .name = "seed 1", .give = GIVE, .take = TAKE, .rounds = ROUNDS, .flags = 1, .settings = { "FORGE_GFXSIM_SEED=1" } },
    { .name = "seed 2, slices", .give = GIVE, .take = TAKE, .rounds = ROUNDS, .flags = 1,
      .settings = { "FORGE_GFXSIM_SEED=2", "FORGE_GFXSIM_SLICE=50" } },
    { .name = "seed 3, both in one", .give = { "both", "both" }, .rounds = ROUNDS, .flags = 1, .settings = { "FORGE_GFXSIM_SEED=3" } },
    { .name = "two of four", .give = GIVE, .take = TAKE, .rounds = ROUNDS, .flags = 1, .settings = { "FORGE_GFXSIM_DEVICES=4" } },
    { .name = "one thread", .give = GIVE, .take = TAKE, .rounds = ROUNDS, .flags = 1, .settings = { "FORGE_GFXSIM_THREADS=1" } },
    { .name = "deferred", .give = GIVE, .take = TAKE, .rounds = ROUNDS, .flags = 1, .settings = { "FORGE_GFXSIM_DEFER=1" } },
    { .name = "host late", .give = GIVE, .take = TAKE, .rounds = ROUNDS, .flags = 1, .late = true },
    { .name = "ordered, plain, coarse-grained", .give = { "give_plain", "give_plain" }, .take = { "take_plain", "take_plain" },
      .rounds = ROUNDS, .flags = 0, .ordered = true },
    { .name = "ordered, plain", .give = { "give_plain", "give_plain" }, .take = { "take_plain", "take_plain" }, .rounds = ROUNDS,
      .flags = 1, .ordered = true },
    { .name = "chip late", .give = { "give", "give_late" }, .take = TAKE, .rounds = 2, .flags = 1,
      .settings = { "FORGE_GFXSIM_SLICE=5000" } },
    { .name = "rows", .give = GIVE_ROWS, .take = TAKE_ROWS, .rounds = ROUNDS, .flags = 3, .rows = true },
    { .name = "rows, graphs", .give = GIVE_ROWS, .take = TAKE_ROWS, .rounds = ROUNDS, .flags = 1, .rows = true, .graph = true },
    { .name = "rows, one asks", .give = GIVE_ROWS, .take = { "take_rows", "take_rows_behind" }, .rounds = ROUNDS, .flags = 1, .rows = true,
      .settings = { "FORGE_GFXSIM_SEED=4", "FORGE_GFXSIM_SLICE=50" } },
    { .name = "rows, freed by the host's order", .give = { "give_rows_early", "give_rows_early" },
      .take = { "take_rows_unasked", "take_rows_unasked" }, .rounds = 2, .flags = 1, .rows = true, .ordered = true },

    { .name = "early flag", .give = { "give_rows", "give_rows_early" }, .take = TAKE_ROWS, .rounds = 2, .flags = 1, .rows = true,
      .found = "flag", .said = "and its flag set without a wait between" },
    { .name = "early flag, one asks", .give = { "give_rows_early", "give_rows" }, .take = { "take_rows_behind", "take_rows_behind" },
      .rounds = 2, .flags = 3, .rows = true, .found = "flag", .said = "and its flag set without a wait between" },
    { .name = "not asked", .give = GIVE_ROWS, .take = { "take_rows", "take_rows_unasked" }, .rounds = 2, .flags = 1, .rows = true,
      .found = "peers", .said = "seen none that says that it is there" },
    { .name = "asked beside", .give = GIVE_ROWS, .take = { "take_rows_beside", "take_rows" }, .rounds = 2, .flags = 1, .rows = true,
      .found = "peers", .said = "seen none that says that it is there" },
    { .name = "plain flag", .give = { "give_rows_plain", "give_rows" }, .take = TAKE_ROWS, .rounds = 2, .flags = 1, .rows = true,
      .found = "peers", .cdna_only = true, .said = "without system scope" },
    { .name = "flag loaded plainly", .give = GIVE_ROWS, .take = { "take_rows", "take_rows_flag_plain" }, .rounds = 2, .flags = 1,
      .rows = true, .found = "peers", .said = "without system scope" },
    { .name = "rows loaded plainly", .give = GIVE_ROWS, .take = { "take_rows_plain", "take_rows" }, .rounds = 2, .flags = 1, .rows = true,
      .found = "peers", .said = "without system scope" },
    { .name = "agent store", .give = { "give_agent", "give" }, .take = TAKE, .rounds = 2, .flags = 1, .found = "peers", .cdna_only = true,
      .said = "without system scope" },
    { .name = "plain store", .give = { "give", "give_plain" }, .take = TAKE, .rounds = 2, .flags = 1, .found = "peers", .cdna_only = true,
      .said = "without system scope" },
    { .name = "agent load", .give = GIVE, .take = { "take", "take_agent" }, .rounds = 2, .flags = 1, .found = "peers", .cdna_only = true,
      .said = "without system scope" },
    { .name = "plain load", .give = GIVE, .take = { "take_plain", "take" }, .rounds = 2, .flags = 1, .found = "peers",
      .said = "without system scope" },
    { .name = "plain load, seed", .give = GIVE, .take = { "take_plain", "take" }, .rounds = 2, .flags = 1, .found = "peers",
      .said = "without system scope", .settings = { "FORGE_GFXSIM_SEED=7" } },
    { .name = "torn", .give = { "give", "give_torn" }, .take = TAKE, .rounds = 2, .flags = 1, .found = "flag", .said = "in two parts" },
    { .name = "coarse-grained", .give = GIVE, .take = TAKE, .rounds = 2, .flags = 0, .found = "peers", .said = "coarse-grained memory" },
    { .name = "fill not awaited", .give = GIVE, .take = TAKE, .rounds = 2, .flags = 1, .unseen_fill = true, .found = "peers" },
    { .name = "no peer access", .give = GIVE, .take = TAKE, .rounds = 2, .flags = 1, .closed = true, .found = "bounds",
      .said = "hipDeviceEnablePeerAccess" },
    { .name = "deadlock", .take = TAKE, .rounds = 1, .flags = 1, .found = "deadlock", .said = "chip 0 is in take, chip 1 is in take" },
    { .name = "deadlock, no pause", .take = { "take_at_once", "take_at_once" }, .rounds = 1, .flags = 1, .found = "deadlock",
      .said = "chip 0 is in take_at_once, chip 1 is in take_at_once" },
    { .name = "nothing to do", .give = { "give", NULL }, .take = { "take", NULL }, .rounds = 1, .flags = 1, .found = "deadlock",
      .said = "chip 1 has nothing to do", .settings = { "FORGE_GFXSIM_PATIENCE=1" } },
};

int main(int argc, char **argv)
{
    if (argc != 4) stop("usage", "test_peers libgfxsim.so CHIP peers.CHIP.co");
    struct test t = { .library = argv[1], .chip = argv[2], .image = read_file(argv[3]) };
    struct result *r = mmap(NULL, sizeof *r + sizeof(struct asked), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint32_t n = sizeof plans / sizeof *plans, bad = 0;
    if (r == MAP_FAILED) stop("mmap", "failed");
    for (uint32_t k = 0; k < n; k++) bad += !check(&t, &plans[k], r);
    bad += !check_counters(&t, r);
    bad += check_calls(&t, (struct asked *)(void *)(r + 1));
    printf("test_peers: %u plans, %u not as they should be\n", n + 2, bad);
    return bad > 0;
}
