/* test_devices.c -- several devices of libsimt.so at the same time, through the runtime's table of driver functions.
 *   test_devices LIBSIMT MODULE                  MODULE: devices_kernels.c
 * The most important case: one thread of the host puts 200 steps on the stream of device 0, and only then the steps of device 1.  Each step
 * has kernels that wait for values of the other device, in both directions.  A driver that ran device 0's first wait before it returned, or
 * both devices' work in one thread, would never reach device 1's first value.
 *
 * Every case runs in its own process with its own settings and a time limit, so that a hang is reported. */
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "devices.h"
#include "runtime/device/device.h"

enum { N = 2, SECONDS_MOST = 200, MEMORY = 20000000, INVALID = 1, INVALID_DEVICE = 101, NO_CONTEXT = 201, NO_PEER = 217,
       INVALID_HANDLE = 400, NOT_READY = 600, PEER_ALREADY = 704, FINE_GRAINED = 1 };

static uint8_t *module_image;
static const char *case_name;

static void bad(const char *file, int line, const char *what, const char *text)
{
    fprintf(stderr, "%s:%d: %s: %s: %s\n", file, line, case_name, what, text);
    _Exit(1);
}
#define CHECK(expression) do { if (!(expression)) bad(__FILE__, __LINE__, #expression, "false"); } while (0)
#define WORKS(expression) \
    do { struct forge_error error = { "" }; if ((expression) != FORGE_OK) bad(__FILE__, __LINE__, #expression, error.text); } while (0)
#define IS(code, expression) \
    do { char is_[40]; const int is_code_ = (expression); \
         snprintf(is_, sizeof is_, "%d, not %d", is_code_, (int)(code)); \
         if (is_code_ != (int)(code)) bad(__FILE__, __LINE__, #expression, is_); } while (0)

/* ---- two GPUs with collectives ---- */

struct rank {
    struct forge_device d;
    void *module, *give, *take, *advance, *give_and_take, *graph;
    struct devices_arena *arena, *host;
    struct forge_gpu_step *step;
    uint8_t *collective;
    struct forge_kernel_args args;
};
static struct rank ranks[N];

static void wait_for(struct rank *r)
{
    for (bool idle = false; !idle; sched_yield()) WORKS(device_idle(&r->d, &idle, &error));
}

static void enable(struct rank *r, const struct rank *peer, int code)
{
    int (*hip)(int, unsigned), (*cuda)(void *, unsigned);
    void *symbol = dlsym(r->d.library, r->d.api == FORGE_GPU_HIP ? "hipDeviceEnablePeerAccess" : "cuCtxEnablePeerAccess");
    CHECK(symbol != NULL);
    WORKS(device_current(&r->d, &error));
    memcpy(&hip, &symbol, sizeof hip);
    memcpy(&cuda, &symbol, sizeof cuda);
    IS(code, r->d.api == FORGE_GPU_HIP ? hip(peer->d.index, 0) : cuda(peer->d.context, 0));
}

static int can_access(const struct forge_device *d, int *can, int device, int peer)
{
    int (*call)(int *, int, int);
    void *symbol = dlsym(d->library, d->api == FORGE_GPU_HIP ? "hipDeviceCanAccessPeer" : "cuDeviceCanAccessPeer");
    CHECK(symbol != NULL);
    memcpy(&call, &symbol, sizeof call);
    return call(can, device, peer);
}

/* Allocates the memory into which the other ranks store. */
static int collective_alloc(struct rank *r, unsigned flags)
{
    int (*hip)(void **, size_t, unsigned);
    void *address = NULL, *symbol = dlsym(r->d.library, "hipExtMallocWithFlags");
    CHECK(symbol != NULL);
    memcpy(&hip, &symbol, sizeof hip);
    WORKS(device_current(&r->d, &error));
    const int code = r->d.api == FORGE_GPU_HIP ? hip(&address, 2 * HALF, flags) : r->d.call.alloc(&address, 2 * HALF);
    r->collective = address;
    return code;
}

static void open_rank(uint32_t api, int number)
{
    struct rank *r = &ranks[number];
    uint8_t *seen;
    WORKS(device_library(&r->d, api, &error));
    CHECK(r->d.n_devices == N);
    WORKS(device_select(&r->d, api == FORGE_GPU_HIP ? "simt" : "sm_90", number, NULL, &error));
    WORKS(device_module(&r->d, &r->module, module_image, &error));
    WORKS(device_function(&r->d, &r->give, r->module, "give", 0, &error));
    WORKS(device_function(&r->d, &r->take, r->module, "take", 0, &error));
    WORKS(device_function(&r->d, &r->advance, r->module, "advance", 0, &error));
    WORKS(device_function(&r->d, &r->give_and_take, r->module, "give_and_take", 0, &error));
    WORKS(device_alloc(&r->d, &r->arena, sizeof *r->arena, "arena", &error));
    WORKS(device_alloc(&r->d, &r->step, sizeof *r->step, "step", &error));
    WORKS(device_host_alloc(&r->d, &r->host, &seen, sizeof *r->host + sizeof *r->step, "host", &error));
    IS(0, collective_alloc(r, FINE_GRAINED));
}

static float first(uint32_t rank, uint32_t column) { return (float)(rank * 1000 + column); }

/* Initialises values, step and collective memory for the first step, in the order of the stream. */
static void start(struct rank *r, uint32_t collectives)
{
    const uint32_t rank = (uint32_t)r->d.index;
    struct forge_gpu_step step = { .collective_base = 1, .collectives = collectives };
    wait_for(r);
    memcpy(r->host + 1, &step, sizeof step);
    for (uint32_t c = 0; c < COLS; c++) r->host->x[c] = first(rank, c);
    WORKS(device_current(&r->d, &error));
    WORKS(device_clear(&r->d, r->collective, 2 * HALF, &error));
    WORKS(device_clear(&r->d, r->arena, sizeof *r->arena, &error));
    WORKS(device_upload(&r->d, r->arena, r->host, sizeof r->host->x, &error));
    WORKS(device_upload(&r->d, r->step, r->host + 1, sizeof step, &error));
    wait_for(r);                                 /* no other rank may store earlier */
    r->args = (struct forge_kernel_args){ .arena = (uint8_t *)r->arena, .step = r->step, .rank = rank,
                                          .collective = { ranks[0].collective, ranks[1].collective }, .given = r->collective };
}

static void open_both(uint32_t api)
{
    for (int i = 0; i < N; i++) open_rank(api, i);
    enable(&ranks[0], &ranks[1], 0);
    enable(&ranks[1], &ranks[0], 0);
}

static void launch(struct rank *r, void *function, uint32_t groups, uint32_t collectives)
{
    r->args.collectives = collectives;
    WORKS(device_launch(&r->d, function, groups, 1, THREADS, 0, &r->args, false, 0, &error));
}

static void put_step(struct rank *r)
{
    for (uint32_t i = 0; i < 2; i++) {
        launch(r, r->give, GROUPS, i);
        launch(r, r->take, GROUPS, i);
    }
    launch(r, r->advance, 1, 0);
}

static void download(struct rank *r)
{
    memset(r->host, 0xee, sizeof *r->host);
    WORKS(device_download(&r->d, r->host, r->arena, sizeof *r->host, &error));
}

/* Checks every sum of every collective on both devices. */
static void check_sums(uint32_t n_collectives, uint32_t columns)
{
    static float x[N][COLS];
    for (uint32_t c = 0; c < columns; c++) x[0][c] = first(0, c), x[1][c] = first(1, c);
    for (uint32_t n = 0; n < n_collectives; n++)
        for (uint32_t c = 0; c < columns; c++) {
            const float sum = x[0][c] + x[1][c];
            for (uint32_t i = 0; i < N; i++) {
                CHECK(ranks[i].host->sum[n][c] == sum);
                x[i][c] = devices_next(sum, i, c);
            }
        }
}

static void close_both(void)
{
    for (int i = 0; i < N; i++) {
        struct rank *r = &ranks[i];
        WORKS(device_current(&r->d, &error));
        device_free(&r->d, r->collective);
        device_free(&r->d, r->arena);
        device_free(&r->d, r->step);
        device_host_free(&r->d, r->host);
        device_graph_free(&r->d, r->graph);
        device_module_free(&r->d, r->module);
        device_close(&r->d);
    }
}

/* ---- cases ---- */

static void one_thread(uint32_t api)
{
    open_both(api);
    for (int i = 0; i < N; i++) start(&ranks[i], 2);
    for (int i = 0; i < N; i++) {                /* device 0 gets all its steps before device 1 gets one */
        WORKS(device_current(&ranks[i].d, &error));
        for (uint32_t step = 0; step < STEPS; step++) put_step(&ranks[i]);
        download(&ranks[i]);
    }
    for (int i = 0; i < N; i++) wait_for(&ranks[i]);
    check_sums(COLLECTIVES, COLS);
    close_both();
}

static void *rank_thread(void *argument)
{
    struct rank *r = argument;
    WORKS(device_current(&r->d, &error));
    for (uint32_t step = 0; step < STEPS; step++) {
        put_step(r);
        if (step % 50 == 7) wait_for(r);
    }
    download(r);
    wait_for(r);
    return NULL;
}

/* A host thread for each device, as in the runtime. */
static void two_threads(uint32_t api)
{
    pthread_t threads[N];
    open_both(api);
    for (int i = 0; i < N; i++) start(&ranks[i], 2);
    for (int i = 0; i < N; i++) CHECK(pthread_create(&threads[i], NULL, rank_thread, &ranks[i]) == 0);
    for (int i = 0; i < N; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    check_sums(COLLECTIVES, COLS);
    close_both();
}

static void graphs(uint32_t api)
{
    open_both(api);
    for (int i = 0; i < N; i++) {
        struct rank *r = &ranks[i];
        start(r, 2);
        WORKS(device_capture_begin(&r->d, &error));
        put_step(r);
        WORKS(device_capture_end(&r->d, &r->graph, &error));
    }
    for (int i = 0; i < N; i++) {
        for (uint32_t step = 0; step < STEPS; step++) WORKS(device_graph_launch(&ranks[i].d, ranks[i].graph, &error));
        download(&ranks[i]);
    }
    for (uint32_t idle = 0; idle != 3;) {        /* queries both: with FORGE_SIMT_DEFER none of the two has begun */
        idle = 0;
        for (int i = 0; i < N; i++) {
            bool is = false;
            WORKS(device_idle(&ranks[i].d, &is, &error));
            idle |= (uint32_t)is << i;
        }
        sched_yield();
    }
    check_sums(COLLECTIVES, COLS);
    close_both();
}

static void within_a_kernel(uint32_t api)
{
    open_both(api);
    for (int i = 0; i < N; i++) start(&ranks[i], 1);
    for (int i = 0; i < N; i++) {
        WORKS(device_current(&ranks[i].d, &error));
        for (uint32_t step = 0; step < STEPS; step++) {
            launch(&ranks[i], ranks[i].give_and_take, 1, 0);
            launch(&ranks[i], ranks[i].advance, 1, 0);
        }
        download(&ranks[i]);
    }
    for (int i = 0; i < N; i++) wait_for(&ranks[i]);
    check_sums(STEPS, THREADS);
    close_both();
}

/* FORGE_SIMT_DEVICES=9 gives the maximum of 8 devices; all work at the same time. */
static void eight(uint32_t api)
{
    enum { MOST = 8, BYTES = 100000 };
    static struct forge_device d[MOST];
    uint8_t *bytes[MOST], *host[MOST], *seen;
    for (int i = 0; i < MOST; i++) {
        WORKS(device_library(&d[i], api, &error));
        CHECK(d[i].n_devices == MOST);
        WORKS(device_select(&d[i], api == FORGE_GPU_HIP ? "simt" : "sm_90", i, NULL, &error));
        WORKS(device_alloc(&d[i], &bytes[i], BYTES, "bytes", &error));
        WORKS(device_host_alloc(&d[i], &host[i], &seen, BYTES, "bytes", &error));
    }
    for (int k = 0; k < 20; k++)
        for (int i = 0; i < MOST; i++) {
            IS(0, d[i].call.clear(bytes[i], (unsigned char)(10 * i + k), BYTES, d[i].stream));
            WORKS(device_download(&d[i], host[i], bytes[i], BYTES, &error));
        }
    for (int i = 0; i < MOST; i++) {
        for (bool is = false; !is;) WORKS(device_idle(&d[i], &is, &error));
        CHECK(host[i][0] == 10 * i + 19 && memcmp(host[i], host[i] + 1, BYTES - 1) == 0);
    }
}

/* Each device has its own copy of the module's variables. */
static void modules(uint32_t api)
{
    void *count;
    open_both(api);
    for (int i = 0; i < N; i++) start(&ranks[i], 1);
    for (int k = 1; k <= 2; k++)
        for (int i = 0; i < N; i++) {
            WORKS(device_current(&ranks[i].d, &error));
            WORKS(device_function(&ranks[i].d, &count, ranks[i].module, "count", 0, &error));
            launch(&ranks[i], count, 1, 0);
            download(&ranks[i]);
            wait_for(&ranks[i]);
            CHECK(ranks[i].host->x[0] == (float)k);
        }
    close_both();
}

static void nap(void) { nanosleep(&(struct timespec){ 0, 2000000 }, NULL); }

/* A waiting kernel does not end until the other device pushes the awaited value, even if the other device does other work. */
static void waits(uint32_t api)
{
    void *before, *after;
    bool is = true;
    double seconds = 0;
    struct rank *r = &ranks[0], *other = &ranks[1];
    open_both(api);
    for (int i = 0; i < N; i++) start(&ranks[i], 1);
    WORKS(device_current(&r->d, &error));
    WORKS(device_event(&r->d, &before, &error));
    WORKS(device_event(&r->d, &after, &error));
    launch(r, r->give, GROUPS, 0);
    WORKS(device_record(&r->d, before, &error));
    launch(r, r->take, GROUPS, 0);
    WORKS(device_record(&r->d, after, &error));
    for (is = false; !is;) WORKS(device_passed(&r->d, before, &is, &error));
    for (int i = 0; i < 25; i++) {
        nap();
        WORKS(device_idle(&r->d, &is, &error));
        CHECK(!is);
        WORKS(device_passed(&r->d, after, &is, &error));
        CHECK(!is);
        IS(NOT_READY, r->d.call.event_elapsed(&(float){ 0 }, before, after));
        WORKS(device_current(&other->d, &error));
        WORKS(device_clear(&other->d, other->arena->sum, 16, &error));
        for (is = false; !is;) WORKS(device_idle(&other->d, &is, &error));
    }
    launch(other, other->give, GROUPS, 0);
    launch(other, other->take, GROUPS, 0);
    for (is = false; !is;) WORKS(device_passed(&r->d, after, &is, &error));
    WORKS(device_seconds(&r->d, before, after, &seconds, &error));
    CHECK(seconds > 0.05 && seconds < SECONDS_MOST);
    for (int i = 0; i < N; i++) download(&ranks[i]);
    for (int i = 0; i < N; i++) wait_for(&ranks[i]);
    check_sums(1, COLS);
    device_event_free(&r->d, before);
    device_event_free(&r->d, after);
    close_both();
}

/* Each device has its own memory; FORGE_SIMT_MEMORY is MEMORY and twice MEMORY. */
static void memory(uint32_t api)
{
    struct forge_error error = { "" };
    uint64_t free_before[N], free_after, total;
    void *large = NULL;
    for (int i = 0; i < N; i++) {
        open_rank(api, i);
        WORKS(device_memory(&ranks[i].d, &free_before[i], &total, &error));
        CHECK(total == (uint64_t)MEMORY * (uint64_t)(i + 1));
    }
    const struct forge_device *d = &ranks[0].d;
    IS(INVALID_DEVICE, api == FORGE_GPU_HIP ? d->call.set_device(N) : d->call.context_retain(&large, N));
    WORKS(device_current(&ranks[0].d, &error));
    CHECK(device_alloc(&ranks[0].d, &large, MEMORY * 3 / 2, "large thing", &error) == FORGE_NO_MEMORY);
    WORKS(device_current(&ranks[1].d, &error));
    WORKS(device_alloc(&ranks[1].d, &large, MEMORY * 3 / 2, "large thing", &error));
    WORKS(device_memory(&ranks[1].d, &free_after, &total, &error));
    CHECK(free_before[1] - free_after == MEMORY * 3 / 2);
    WORKS(device_current(&ranks[0].d, &error));
    WORKS(device_memory(&ranks[0].d, &free_after, &total, &error));
    CHECK(free_before[0] == free_after);
    device_free(&ranks[1].d, large);             /* works with any current device */
    WORKS(device_current(&ranks[1].d, &error));
    WORKS(device_memory(&ranks[1].d, &free_after, &total, &error));
    CHECK(free_before[1] == free_after);
    close_both();
}

/* A device refuses the objects of another; it accepts its memory once access is enabled. */
static void peers(uint32_t api)
{
    int can = -1;
    bool is;
    struct rank *r = &ranks[0], *other = &ranks[1];
    struct forge_error error = { "" };
    for (int i = 0; i < N; i++) open_rank(api, i);
    for (int i = 0; i < N * N; i++) {
        IS(0, can_access(&r->d, &can, i / N, i % N));
        IS(i / N != i % N, can);
    }
    IS(INVALID_DEVICE, can_access(&r->d, &can, 0, N));
    enable(r, r, api == FORGE_GPU_HIP ? INVALID_DEVICE : NO_CONTEXT);

    CHECK(device_copy(&r->d, r->arena, other->arena, 8, &error) == FORGE_DEVICE_FAULT);
    start(r, 1);
    CHECK(device_launch(&r->d, r->give, GROUPS, 1, THREADS, 0, &r->args, false, 0, &error) == FORGE_DEVICE_FAULT);
    enable(r, other, 0);
    enable(r, other, PEER_ALREADY);
    WORKS(device_copy(&r->d, r->arena, other->arena, 8, &error));
    CHECK(device_copy(&other->d, r->arena, other->arena, 8, &error) == FORGE_DEVICE_FAULT);      /* only the other direction is enabled */
    WORKS(device_launch(&r->d, r->give, GROUPS, 1, THREADS, 0, &r->args, false, 0, &error));
    wait_for(r);

    /* HIP: a collective needs fine-grained memory */
    device_free(&other->d, other->collective);
    IS(0, collective_alloc(other, 0));
    WORKS(device_current(&r->d, &error));
    start(r, 1);
    CHECK(device_launch(&r->d, r->give, GROUPS, 1, THREADS, 0, &r->args, false, 0, &error) ==
          (api == FORGE_GPU_HIP ? FORGE_DEVICE_FAULT : FORGE_OK));
    if (api == FORGE_GPU_HIP) IS(INVALID, collective_alloc(other, 0x100));
    wait_for(r);

    /* the stream is device 0's: kernels of device 1 and launches of a thread at device 1 are refused, copies are not */
    r->args.collective[1] = NULL;
    WORKS(device_current(&r->d, &error));
    CHECK(device_launch(&r->d, other->advance, 1, 1, THREADS, 0, &r->args, false, 0, &error) == FORGE_DEVICE_FAULT);
    WORKS(device_current(&other->d, &error));
    CHECK(device_launch(&r->d, r->advance, 1, 1, THREADS, 0, &r->args, false, 0, &error) == FORGE_DEVICE_FAULT);
    WORKS(device_clear(&r->d, r->arena, 8, &error));
    void *event;
    WORKS(device_event(&other->d, &event, &error));
    IS(INVALID_HANDLE, r->d.call.event_record(event, r->d.stream));
    for (is = false; !is;) WORKS(device_idle(&r->d, &is, &error));
}

static void no_peers(uint32_t api)
{
    int can = -1;
    for (int i = 0; i < N; i++) open_rank(api, i);
    IS(0, can_access(&ranks[0].d, &can, 0, 1));
    IS(0, can);
    enable(&ranks[0], &ranks[1], NO_PEER);
    WORKS(device_current(&ranks[0].d, &error));
    struct forge_error error = { "" };
    CHECK(device_copy(&ranks[0].d, ranks[0].arena, ranks[1].arena, 8, &error) == FORGE_DEVICE_FAULT);
}

/* FORGE_SIMT_FAIL_DEVICE=1, FORGE_SIMT_FAULT=3: the other device continues, and the value that it waits for never comes. */
static void fault(uint32_t api)
{
    struct forge_error error = { "" };
    bool is = false;
    void *address;
    open_both(api);
    for (int i = 0; i < N; i++) start(&ranks[i], 2);
    for (int i = 0; i < N; i++) {
        WORKS(device_current(&ranks[i].d, &error));
        ranks[i].args.collectives = 0;
        /* give, take, and the fault at the third launch; if the fault has already happened, the fourth launch returns it */
        for (int k = 0; k < 4; k++) {
            void *const function = k % 2 == 0 ? ranks[i].give : ranks[i].take;
            ranks[i].args.collectives = (uint32_t)k / 2;
            const enum forge_status status =
                device_launch(&ranks[i].d, function, GROUPS, 1, THREADS, 0, &ranks[i].args, false, 0, &error);
            CHECK(status == FORGE_OK || (i == 1 && k == 3 && status == FORGE_DEVICE_FAULT));
        }
    }
    enum forge_status status = FORGE_OK;
    while (status == FORGE_OK && !is) status = device_idle(&ranks[1].d, &is, &error);
    CHECK(status == FORGE_DEVICE_FAULT && strstr(error.text, "(719)") != NULL);
    CHECK(device_alloc(&ranks[1].d, &address, 8, "thing", &error) == FORGE_DEVICE_FAULT);
    CHECK(device_clear(&ranks[1].d, ranks[1].arena, 8, &error) == FORGE_DEVICE_FAULT);
    for (int i = 0; i < 10; i++) {
        nap();
        WORKS(device_idle(&ranks[0].d, &is, &error));
        CHECK(!is);
    }
    WORKS(device_current(&ranks[0].d, &error));
    WORKS(device_alloc(&ranks[0].d, &address, 8, "thing", &error));
}

/* ---- */

static void *file_bytes(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (f == NULL || fseek(f, 0, SEEK_END) != 0) { perror(path); exit(1); }
    const long n = ftell(f);
    void *bytes = malloc((size_t)n);
    rewind(f);
    if (bytes == NULL || fread(bytes, 1, (size_t)n, f) != (size_t)n) { perror(path); exit(1); }
    fclose(f);
    return bytes;
}

/* settings: "NAME=VALUE NAME=VALUE". */
static int failed(const char *name, void (*run)(uint32_t), uint32_t api, const char *settings)
{
    char label[80], text[200];
    int status = 0;
    snprintf(label, sizeof label, "%s%s, %s", name, settings, api == FORGE_GPU_HIP ? "HIP" : "CUDA");
    const pid_t child = fork();
    if (child == 0) {
        case_name = label;
        snprintf(text, sizeof text, "%s", settings);
        for (char *word = strtok(text, " "); word != NULL; word = strtok(NULL, " ")) {
            char *equals = strchr(word, '=');
            *equals = 0;
            setenv(word, equals + 1, 1);
        }
        alarm(SECONDS_MOST);
        run(api);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) { perror("fork"); return 1; }
    if (status == 0) return 0;
    if (WIFSIGNALED(status))
        printf("%s: %s\n", label, WTERMSIG(status) == SIGALRM ? "hangs" : strsignal(WTERMSIG(status)));
    else printf("%s: failed\n", label);
    return 1;
}

int main(int argc, char **argv)
{
    static const struct { const char *name; void (*run)(uint32_t); const char *settings; } cases[] = {
        { "one thread", one_thread, "" },
        { "one thread", one_thread, " FORGE_SIMT_SEED=3" },
        { "two threads", two_threads, "" },
        { "graphs", graphs, "" },
        { "graphs", graphs, " FORGE_SIMT_DEFER=1" },
        { "within a kernel", within_a_kernel, "" },
        { "eight", eight, " FORGE_SIMT_DEVICES=9" },
        { "modules", modules, "" },
        { "waits", waits, "" },
        { "memory", memory, " FORGE_SIMT_MEMORY=20000000,40000000" },
        { "peers", peers, "" },
        { "no peers", no_peers, " FORGE_SIMT_NO_PEER=1" },
        { "fault", fault, " FORGE_SIMT_FAIL_DEVICE=1 FORGE_SIMT_FAULT=3" },
    };
    int n_failed = 0, n = 0;
    if (argc != 3) { fprintf(stderr, "usage: test_devices LIBSIMT MODULE\n"); return 2; }
    setenv("FORGE_HIP_LIBRARY", argv[1], 1);
    setenv("FORGE_CUDA_LIBRARY", argv[1], 1);
    setenv("FORGE_SIMT_DEVICES", "2", 1);
    module_image = file_bytes(argv[2]);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (uint32_t api = FORGE_GPU_HIP; api <= FORGE_GPU_CUDA; api++, n++) {
            fflush(stdout);
            n_failed += failed(cases[i].name, cases[i].run, api, cases[i].settings);
        }
    printf("%d of %d cases failed\n", n_failed, n);
    free(module_image);
    return n_failed > 0;
}
