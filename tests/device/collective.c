/* collective.c -- measures all-reduces of GPUs without a model: by the functions of templates/gpu/collective.h, and for comparison by NCCL
 * or RCCL.  Sums are whole numbers and are compared with the host's sums.
 *
 *   collective ARCH MODULE [--rounds N] [--repeats N] [--no-library] [--no-graph]
 *
 * run_collective.sh builds it for RANKS GPUs; exit code 77 if there are fewer.  All times are in microseconds, the minimum and the median
 * of all repeats.  Values of a token: the time of a round, without the launch; all rounds of a repeat are one launch.  Rows of a prompt:
 * the time of a round, which is two launches in a graph, or three with more than two GPUs.  The library: the time of a call in a graph of
 * CALLS (--no-graph: without a graph); FORGE_NCCL_LIBRARY or the usual name finds it, and it may be missing. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "collective.h"
#include "runtime/device/device.h"

enum { CALLS = 100, ROWS_ROUNDS = 20, MOST_REPEATS = 99 };

struct rank {
    struct forge_device d;
    void *module, *events[2], *graph;
    uint8_t *collective;
    float *arena, *sums, *host;                  /* [most_floats] */
    struct forge_gpu_step *step, *host_step;
    void *comm;
};
static struct rank ranks[RANKS];
static uint32_t number = 1;                      /* number of the next collective */
static uint32_t rounds = 1000, repeats = 5;
static bool use_graph = true;

static _Noreturn void stop(const char *what, const char *why)
{
    fprintf(stderr, "collective: %s: %s\n", what, why);
    exit(1);
}
#define NEED(expression) \
    do { struct forge_error error = { "" }; if ((expression) != FORGE_OK) stop(#expression, error.text); } while (0)

/* ---- shapes ---- */

/* cols 0: pairs {value, tag}. */
struct shape { uint32_t floats, tokens, cols; const char *name; };
static const struct shape shapes[] = {
#define PAIRS(n) { n, 1, 0, #n },
    EACH_PAIRS
#undef PAIRS
#define ROWS(tokens, cols) { tokens * cols, tokens, cols, #tokens "_" #cols },
    EACH_ROWS
#undef ROWS
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static uint32_t most_floats(void)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < N_SHAPES; i++) if (shapes[i].floats > most) most = shapes[i].floats;
    return most;
}

/* ---- GPUs ---- */

static uint8_t *code_read(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END)) stop(path, "cannot be read");
    const long bytes = ftell(f);
    uint8_t *code = calloc(1, (size_t)bytes + 1);
    rewind(f);
    if (!code || fread(code, 1, (size_t)bytes, f) != (size_t)bytes) stop(path, "cannot be read");
    fclose(f);
    return code;
}

static void wait_for_all(void)
{
    for (uint32_t k = 0; k < RANKS; k++) {
        NEED(device_current(&ranks[k].d, &error));
        for (bool idle = false; !idle;) NEED(device_idle(&ranks[k].d, &idle, &error));
    }
}

static void open_rank(uint32_t k, const char *arch, const uint8_t *code, uint64_t *taken)
{
    struct rank *r = &ranks[k];
    const uint64_t bytes = 4ull * most_floats();
    uint8_t *seen;
    struct forge_error missing = { "" };
    enum forge_status status = device_library(&r->d, strncmp(arch, "sm_", 3) == 0 ? FORGE_GPU_CUDA : FORGE_GPU_HIP, &missing);
    r->d.taken = *taken;
    if (status == FORGE_OK) status = device_select(&r->d, arch, DEVICE_ANY, NULL, &missing);
    if (status != FORGE_OK) {
        printf("skipped: GPU %u of %d: %s\n", k + 1, RANKS, missing.text);
        exit(77);
    }
    *taken |= (uint64_t)1 << r->d.index;
    NEED(device_module(&r->d, &r->module, code, &error));
    NEED(device_alloc_shared(&r->d, &r->collective, 2ull * HALF, "collective", &error));
    NEED(device_alloc(&r->d, &r->arena, bytes, "values", &error));
    NEED(device_alloc(&r->d, &r->sums, bytes, "sums", &error));
    NEED(device_alloc(&r->d, &r->step, sizeof *r->step, "step", &error));
    NEED(device_host_alloc(&r->d, &r->host, &seen, bytes, "values", &error));
    NEED(device_host_alloc(&r->d, &r->host_step, &seen, sizeof *r->step, "step", &error));
    for (uint32_t i = 0; i < 2; i++) NEED(device_event(&r->d, &r->events[i], &error));
    NEED(device_clear(&r->d, r->collective, 2ull * HALF, &error));
    printf("GPU %d: %s, %s\n", r->d.index, r->d.name, r->d.version_text);
}

static void open_all(const char *arch, const char *path)
{
    uint8_t *code = code_read(path);
    uint64_t taken = 0;
    for (uint32_t k = 0; k < RANKS; k++) open_rank(k, arch, code, &taken);
    for (uint32_t k = 0; k < RANKS; k++)
        for (uint32_t other = 0; other < RANKS; other++)
            if (other != k) NEED(device_reach(&ranks[k].d, &ranks[other].d, &error));
    wait_for_all();
    free(code);
}

/* ---- a repeat ---- */

static void launch(uint32_t k, const char *kind, const struct shape *s, uint32_t grid_x, uint32_t grid_y, uint32_t collectives)
{
    struct rank *r = &ranks[k];
    struct forge_kernel_args args = { .arena = (uint8_t *)r->arena, .step = r->step, .given = r->collective, .rank = k,
                                      .collectives = collectives, .state_at = rounds };
    char name[64];
    void *function;
    for (uint32_t other = 0; other < RANKS; other++) args.collective[other] = ranks[other].collective;
    snprintf(name, sizeof name, "%s_%s", kind, s->name);
    NEED(device_function(&r->d, &function, r->module, name, 0, &error));
    NEED(device_launch(&r->d, function, grid_x, grid_y, COLLECTIVE_THREADS, 0, &args, false, 0, &error));
}

static void put_rows(uint32_t k, const struct shape *s)
{
    const uint32_t pieces = COLLECTIVE_PIECES(s->tokens), runs = COLLECTIVE_RUNS(s->cols, COLLECTIVE_THREADS);
    for (uint32_t i = 0; i < ROWS_ROUNDS; i++) {
        launch(k, "give", s, runs, pieces, i);
        if (COLLECTIVE_SHARED(RANKS)) launch(k, "sum", s, runs, pieces, i);
        launch(k, "take", s, (s->cols + COLLECTIVE_THREADS - 1) / COLLECTIVE_THREADS, pieces, i);
    }
}

static uint32_t rounds_of(const struct shape *s) { return s->cols > 0 ? ROWS_ROUNDS : rounds; }

static void make_graph(uint32_t k, const struct shape *s)
{
    struct rank *r = &ranks[k];
    NEED(device_current(&r->d, &error));
    NEED(device_capture_begin(&r->d, &error));
    put_rows(k, s);
    NEED(device_capture_end(&r->d, &r->graph, &error));
}

/* Puts the work of one GPU between its two events. */
static void put(uint32_t k, const struct shape *s)
{
    struct rank *r = &ranks[k];
    NEED(device_current(&r->d, &error));
    NEED(device_record(&r->d, r->events[0], &error));
    if (s->cols > 0) NEED(device_graph_launch(&r->d, r->graph, &error));
    else launch(k, "pairs", s, s->floats / COLLECTIVE_THREADS, 1, 0);
    NEED(device_record(&r->d, r->events[1], &error));
}

/* The shortest time of all GPUs: a GPU that started earlier waited for the others. */
static double seconds_taken(void)
{
    double least = 0;
    for (uint32_t k = 0; k < RANKS; k++) {
        double seconds = 0;
        NEED(device_current(&ranks[k].d, &error));
        NEED(device_seconds(&ranks[k].d, ranks[k].events[0], ranks[k].events[1], &seconds, &error));
        if (k == 0 || seconds < least) least = seconds;
    }
    return least;
}

static double repeat(const struct shape *s)
{
    for (uint32_t k = 0; k < RANKS; k++) {
        struct rank *r = &ranks[k];
        *r->host_step = (struct forge_gpu_step){ .collective_base = number, .n_tokens = s->tokens };
        NEED(device_current(&r->d, &error));
        NEED(device_upload(&r->d, r->step, r->host_step, sizeof *r->step, &error));
    }
    wait_for_all();
    for (uint32_t k = 0; k < RANKS; k++) put(k, s);
    wait_for_all();
    number += rounds_of(s);
    return seconds_taken();
}

/* ---- sums ---- */

static void start(const struct shape *s)
{
    for (uint32_t k = 0; k < RANKS; k++) {
        struct rank *r = &ranks[k];
        NEED(device_current(&r->d, &error));
        for (uint32_t i = 0; i < s->floats; i++) r->host[i] = collective_first(k, i);
        NEED(device_upload(&r->d, r->arena, r->host, 4ull * s->floats, &error));
    }
    wait_for_all();
}

static void fetch(const float *from, const struct shape *s, uint32_t k)
{
    struct rank *r = &ranks[k];
    NEED(device_current(&r->d, &error));
    NEED(device_download(&r->d, r->host, from, 4ull * s->floats, &error));
    wait_for_all();
}

/* The number of wrong values after n rounds. */
static uint64_t wrong_values(const struct shape *s, uint32_t n)
{
    uint64_t wrong = 0;
    for (uint32_t k = 0; k < RANKS; k++) fetch(ranks[k].arena, s, k);
    for (uint32_t i = 0; i < s->floats; i++) {
        uint32_t x[RANKS];
        for (uint32_t k = 0; k < RANKS; k++) x[k] = (uint32_t)collective_first(k, i);
        for (uint32_t round = 0; round < n; round++) {
            uint32_t sum = 0;
            for (uint32_t k = 0; k < RANKS; k++) sum += x[k];
            for (uint32_t k = 0; k < RANKS; k++) x[k] = COLLECTIVE_NEXT(sum, k, i);
        }
        for (uint32_t k = 0; k < RANKS; k++) wrong += ranks[k].host[i] != (float)x[k];
    }
    return wrong;
}

static uint64_t wrong_sums(const struct shape *s)
{
    uint64_t wrong = 0;
    for (uint32_t k = 0; k < RANKS; k++) {
        fetch(ranks[k].sums, s, k);
        for (uint32_t i = 0; i < s->floats; i++) {
            float sum = 0;
            for (uint32_t other = 0; other < RANKS; other++) sum += collective_first(other, i);
            wrong += ranks[k].host[i] != sum;
        }
    }
    return wrong;
}

/* ---- times ---- */

struct times { double least, median; };
static int shorter(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
/* us: times of the repeats, sorted. */
static struct times times_of(double *us, uint32_t n)
{
    qsort(us, n, sizeof *us, shorter);
    return (struct times){ us[0], us[n / 2] };
}

static struct times measure(const struct shape *s)
{
    double us[MOST_REPEATS];
    start(s);
    for (uint32_t k = 0; k < RANKS && s->cols > 0; k++) make_graph(k, s);
    repeat(s);                                   /* the first launches load code */
    for (uint32_t i = 0; i < repeats; i++) us[i] = repeat(s) * 1e6 / rounds_of(s);
    const uint64_t wrong = wrong_values(s, (repeats + 1) * rounds_of(s));
    if (wrong > 0) {
        fprintf(stderr, "collective: %s: %llu values of %llu are wrong\n", s->name, (unsigned long long)wrong,
                (unsigned long long)RANKS * s->floats);
        exit(1);
    }
    for (uint32_t k = 0; k < RANKS && s->cols > 0; k++) {
        NEED(device_current(&ranks[k].d, &error));
        device_graph_free(&ranks[k].d, ranks[k].graph);
    }
    return times_of(us, repeats);
}

/* ---- NCCL, RCCL: the needed part of nccl.h ---- */

static struct {
    int (*init_all)(void **comms, int n, const int *devices);
    int (*group_start)(void);
    int (*group_end)(void);
    int (*all_reduce)(const void *from, void *to, size_t n, int type, int op, void *comm, void *stream);
    const char *(*error)(int code);
    int (*version)(int *version);
} nccl;
enum { NCCL_FLOAT = 7, NCCL_SUM = 0 };

static void nccl_need(int code, const char *what) { if (code != 0) stop(what, nccl.error(code)); }

/* Opens the library; false, with a message: it is missing. */
static bool nccl_open(const char *arch)
{
    static const char *const names[] = { "ncclCommInitAll", "ncclGroupStart", "ncclGroupEnd", "ncclAllReduce", "ncclGetErrorString",
                                         "ncclGetVersion" };
    const char *given = getenv("FORGE_NCCL_LIBRARY"), *usual = strncmp(arch, "sm_", 3) == 0 ? "libnccl.so.2" : "librccl.so.1";
    const char *path = given ? given : usual;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL), *comms[RANKS], *at[sizeof names / sizeof *names];
    int devices[RANKS], version = 0;
    if (!library && given) stop("FORGE_NCCL_LIBRARY", dlerror());
    if (!library) {
        printf("no library beside it: %s\n", dlerror());
        return false;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) if (!(at[i] = dlsym(library, names[i]))) stop(path, "lacks a function");
    _Static_assert(sizeof at == sizeof nccl, "a name for each member");
    memcpy(&nccl, at, sizeof at);
    for (uint32_t k = 0; k < RANKS; k++) devices[k] = ranks[k].d.index;
    nccl_need(nccl.init_all(comms, RANKS, devices), "ncclCommInitAll");
    for (uint32_t k = 0; k < RANKS; k++) ranks[k].comm = comms[k];
    nccl_need(nccl.version(&version), "ncclGetVersion");
    printf("beside it: %s, version %d\n", path, version);
    return true;
}

static void nccl_put(const struct shape *s)
{
    for (uint32_t call = 0; call < CALLS; call++) {
        nccl_need(nccl.group_start(), "ncclGroupStart");
        for (uint32_t k = 0; k < RANKS; k++) {
            struct rank *r = &ranks[k];
            nccl_need(nccl.all_reduce(r->arena, r->sums, s->floats, NCCL_FLOAT, NCCL_SUM, r->comm, r->d.stream), "ncclAllReduce");
        }
        nccl_need(nccl.group_end(), "ncclGroupEnd");
    }
}

static void nccl_make_graphs(const struct shape *s)
{
    for (uint32_t k = 0; k < RANKS; k++) {
        NEED(device_current(&ranks[k].d, &error));
        NEED(device_capture_begin(&ranks[k].d, &error));
    }
    nccl_put(s);
    for (uint32_t k = 0; k < RANKS; k++) {
        NEED(device_current(&ranks[k].d, &error));
        NEED(device_capture_end(&ranks[k].d, &ranks[k].graph, &error));
    }
}

static double nccl_repeat(const struct shape *s)
{
    for (uint32_t k = 0; k < RANKS; k++) {
        NEED(device_current(&ranks[k].d, &error));
        NEED(device_record(&ranks[k].d, ranks[k].events[0], &error));
        if (use_graph) NEED(device_graph_launch(&ranks[k].d, ranks[k].graph, &error));
    }
    if (!use_graph) nccl_put(s);
    for (uint32_t k = 0; k < RANKS; k++) {
        NEED(device_current(&ranks[k].d, &error));
        NEED(device_record(&ranks[k].d, ranks[k].events[1], &error));
    }
    wait_for_all();
    return seconds_taken();
}

static struct times nccl_measure(const struct shape *s)
{
    double us[MOST_REPEATS];
    start(s);
    nccl_put(s);                                 /* the first calls make connections */
    wait_for_all();
    if (use_graph) nccl_make_graphs(s);
    nccl_repeat(s);
    for (uint32_t i = 0; i < repeats; i++) us[i] = nccl_repeat(s) * 1e6 / CALLS;
    const uint64_t wrong = wrong_sums(s);
    if (wrong > 0) stop(s->name, "sums of the library are wrong");
    for (uint32_t k = 0; k < RANKS && use_graph; k++) {
        NEED(device_current(&ranks[k].d, &error));
        device_graph_free(&ranks[k].d, ranks[k].graph);
    }
    return times_of(us, repeats);
}

/* ---- the table ---- */

static uint32_t number_of(const char *text, uint32_t most)
{
    char *end;
    const unsigned long x = text ? strtoul(text, &end, 10) : 0;
    if (x == 0 || x > most || *end != 0) stop(text ? text : "nothing", "a number is wanted, not 0");
    return (uint32_t)x;
}

int main(int argc, char **argv)
{
    bool library = true;
    if (argc < 3) stop("usage", "collective ARCH MODULE [--rounds N] [--repeats N] [--no-library] [--no-graph]");
    for (int i = 3; i < argc; i++) {
        if (strcmp(argv[i], "--rounds") == 0) rounds = number_of(argv[++i], 1u << 20);
        else if (strcmp(argv[i], "--repeats") == 0) repeats = number_of(argv[++i], MOST_REPEATS);
        else if (strcmp(argv[i], "--no-library") == 0) library = false;
        else if (strcmp(argv[i], "--no-graph") == 0) use_graph = false;
        else stop(argv[i], "no such option");
    }
    open_all(argv[1], argv[2]);
    library = library && nccl_open(argv[1]);
    printf("%-22s %12s %12s%s\n", "floats of each GPU", "us, least", "median", library ? "    library, us, least       median" : "");
    for (uint32_t i = 0; i < N_SHAPES; i++) {
        const struct shape *s = &shapes[i];
        char what[40];
        if (s->cols > 0) snprintf(what, sizeof what, "%u tokens x %u", s->tokens, s->cols);
        else snprintf(what, sizeof what, "%u", s->floats);
        const struct times t = measure(s);
        printf("%-22s %12.2f %12.2f", what, t.least, t.median);
        if (library) {
            const struct times n = nccl_measure(s);
            printf(" %21.2f %12.2f", n.least, n.median);
        }
        putchar('\n');
        fflush(stdout);
    }
    puts("all sums are right");
    return 0;
}
