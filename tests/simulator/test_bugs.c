/* test_bugs.c -- libgfxsim.so must find each planted bug of bugs.c, report its kind and nothing else, and find nothing in the correct
 * twins; the twins' results must be right.
 *
 *   test_bugs libgfxsim.so bugs.gfx942.co bugs.gfx1100.co ...        FORGE_GFXSIM_* apply, except IGNORE
 *
 * A kernel runs in its own process, because HIP returns 719 forever after a finding.  A kernel with a bug runs twice, the second time with
 * all other kinds of findings ignored: the report must be the same. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LAUNCH_FAILURE = 719, THREADS = 128, MOST_GROUPS = 66, WORDS = THREADS * MOST_GROUPS, TEXT_BYTES = 1 << 16, SECONDS = 60 };

struct bug { const char *name; uint32_t groups; const char *cdna, *rdna; /* kind of finding; NULL: no bug there */ };
#define BOTH(kind) kind, kind
static const struct bug bugs[] = {
    { "global_load_bounds",  1, BOTH("bounds") },     { "global_store_bounds", 1, BOTH("bounds") },
    { "lds_bounds",          1, BOTH("bounds") },     { "lds_direct_bounds",   1, BOTH("bounds") },
    { "global_alignment",    1, BOTH("alignment") },  { "lds_alignment",       1, BOTH("alignment") },
    { "undefined_register",  1, BOTH("undefined") },  { "undefined_address",   1, BOTH("undefined") },
    { "undefined_lds",       1, BOTH("undefined") },
    { "undefined_memory",    1, BOTH("undefined") },  { "undefined_branch",    1, BOTH("undefined") },
    { "undefined_bit",       1, BOTH("undefined") },  { "undefined_column",    1, BOTH("undefined") },
    { "wait_read",           1, BOTH("wait") },       { "wait_overwrite",      1, BOTH("wait") },
    { "wait_count",          1, BOTH("wait") },
    { "lds_race",            1, BOTH("lds-race") },   { "lds_overwrite",       1, BOTH("lds-race") },
    { "lds_bare_barrier",    1, BOTH("lds-race") },
    { "lds_two_values",      1, BOTH("lds-race") },
    { "scalar_cache",        1, BOTH("scalar-cache") },
    { "dies_no_write_back",  2, "dies", NULL },       { "dies_no_invalidate",  2, "dies", "race" },
    { "flag_no_wait",        2, BOTH("flag") },       { "race_stores",         2, BOTH("race") },
    { "race_load",           2, BOTH("race") },       { "race_of_many",       66, BOTH("race") },
    { "deadlock_flag",       2, BOTH("deadlock") },   { "deadlock_barrier",    1, BOTH("deadlock") },
    { "unknown",             1, BOTH("unknown") },
};
static const char *const kinds[] = { "bounds", "alignment", "undefined", "wait", "lds-race", "race", "scalar-cache", "dies", "flag",
                                     "deadlock", "other" };

/* the needed part of hip_runtime_api.h */
struct hip {
    int (*init)(unsigned);
    int (*alloc)(void **, size_t);
    int (*host_alloc)(void **, size_t, unsigned);
    int (*clear)(void *, unsigned char, size_t, void *);
    int (*upload)(void *, const void *, size_t, void *);
    int (*download)(void *, const void *, size_t, void *);
    int (*query)(void *);
    int (*module)(void **, const void *);
    int (*function)(void **, void *, const char *);
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
};
struct result { int code; uint32_t wrong; char text[TEXT_BYTES]; };

static _Noreturn void stop(const char *what, const char *why)
{
    fprintf(stderr, "test_bugs: %s: %s\n", what, why);
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

static void open_hip(struct hip *h, const char *library)
{
    static const char *const names[] = { "hipInit", "hipMalloc", "hipHostMalloc", "hipMemsetD8Async", "hipMemcpyHtoDAsync",
                                         "hipMemcpyDtoHAsync", "hipStreamQuery", "hipModuleLoadData", "hipModuleGetFunction",
                                         "hipModuleLaunchKernel" };
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL), *at[sizeof names / sizeof *names];
    if (handle == NULL) stop(library, dlerror());
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if ((at[k] = dlsym(handle, names[k])) == NULL) stop(names[k], "not in the library");
    _Static_assert(sizeof at == sizeof *h, "a name for each member");
    memcpy(h, at, sizeof at);
}

/* Launches the kernel on fresh memory (bugs.c says which) and compares out. */
static void run_kernel(struct result *r, const char *library, const void *image, const char *kernel, uint32_t groups)
{
    struct hip h;
    uint32_t *host;
    void *module, *function, *buffer[5];         /* in, out, tmp, fresh, flag */
    const size_t bytes = (size_t)4 * THREADS * groups;
    size_t args_bytes = sizeof buffer;
    void *extra[] = { (void *)1, buffer, (void *)2, &args_bytes, (void *)3 };
    open_hip(&h, library);
    need(h.init(0), "hipInit");
    need(h.host_alloc((void **)&host, sizeof(uint32_t) * WORDS, 0), "hipHostMalloc");
    for (uint32_t k = 0; k < 5; k++) need(h.alloc(&buffer[k], k == 4 ? 64 : bytes), "hipMalloc");
    for (uint32_t k = 0; k < WORDS; k++) host[k] = 7 * k + 5;
    need(h.upload(buffer[0], host, bytes, NULL), "hipMemcpyHtoDAsync");
    need(h.clear(buffer[2], 0, bytes, NULL), "hipMemsetD8Async");
    need(h.clear(buffer[4], 0, 64, NULL), "hipMemsetD8Async");
    need(h.query(NULL), "hipStreamQuery");
    need(h.module(&module, image), "hipModuleLoadData");
    need(h.function(&function, module, kernel), kernel);
    r->code = h.launch(function, groups, 1, 1, THREADS, 1, 1, 4 * THREADS, NULL, NULL, extra);
    if (r->code == 0) r->code = h.query(NULL);
    if (r->code != 0) return;
    memset(host, 0, sizeof(uint32_t) * WORDS);
    r->code = h.download(host, buffer[1], bytes, NULL);
    if (r->code == 0) r->code = h.query(NULL);
    for (uint32_t k = 0; k < THREADS * groups; k++) r->wrong += host[k] != 7 * k + 5;
}

/* The same in its own process; text receives its output. */
static void run_apart(struct result *r, const char *library, const void *image, const char *kernel, uint32_t groups, const char *ignore)
{
    FILE *file = tmpfile();
    if (file == NULL) stop("tmpfile", "failed");
    memset(r, 0, sizeof *r);
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        dup2(fileno(file), STDERR_FILENO);
        setenv("FORGE_GFXSIM_IGNORE", ignore, 1);
        setenv("FORGE_GFXSIM_THREADS", "1", 0);  /* workgroup 0 runs first: a load is compared only with earlier stores */
        alarm(SECONDS);
        run_kernel(r, library, image, kernel, groups);
        _exit(0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) stop(kernel, "no process");
    rewind(file);
    r->text[fread(r->text, 1, TEXT_BYTES - 1, file)] = 0;
    fclose(file);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) r->code = -1;            /* a crash, or no answer in time */
}

/* Counts findings that name the kernel and an instruction: "gfxsim: KERNEL, group ... (0x40: s_barrier)". */
static uint32_t count_findings(const char *text, const char *kernel)
{
    char start[100];
    uint32_t n = 0;
    const size_t bytes = (size_t)snprintf(start, sizeof start, "gfxsim: %s, group ", kernel);
    for (const char *line = text; *line != 0; line += strcspn(line, "\n"), line += *line == '\n') {
        const size_t length = strcspn(line, "\n");
        const char *inst = strstr(line, " (0x");
        if (strncmp(line, start, bytes) == 0 && inst != NULL && inst < line + length) n++;
    }
    return n;
}

static bool say(const char *path, const char *kernel, const char *what, const struct result *r)
{
    printf("%s: %s: %s (code %d, %u wrong words)\n%s", path, kernel, what, r->code, r->wrong, r->text);
    return false;
}

static bool check_ok(struct result *r, const char *library, const char *path, const void *image, const char *kernel, uint32_t groups)
{
    run_apart(r, library, image, kernel, groups, "");
    return (r->code == 0 && r->wrong == 0 && r->text[0] == 0) || say(path, kernel, "should run without a finding", r);
}

static bool check_bug(struct result *r, const char *library, const char *path, const void *image, const char *kernel, uint32_t groups,
                      const char *kind)
{
    char others[200] = "", what[100];
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (strcmp(kinds[k], kind) != 0) strcat(strcat(others, others[0] != 0 ? "," : ""), kinds[k]);
    snprintf(what, sizeof what, "should have findings of the kind %s only", kind);
    run_apart(r, library, image, kernel, groups, "");
    const uint32_t n = count_findings(r->text, kernel);
    if (r->code != LAUNCH_FAILURE || n == 0) return say(path, kernel, what, r);
    if (getenv("VERBOSE") != NULL) printf("%s", r->text);
    run_apart(r, library, image, kernel, groups, others);
    return (r->code == LAUNCH_FAILURE && count_findings(r->text, kernel) == n) || say(path, kernel, what, r);
}

int main(int argc, char **argv)
{
    if (argc < 3) stop("usage", "test_bugs libgfxsim.so bugs.CHIP.co ...");
    struct result *r = mmap(NULL, sizeof *r, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint32_t tests = 0, bad = 0;
    if (r == MAP_FAILED) stop("mmap", "failed");
    for (int f = 2; f < argc; f++) {
        const void *image = read_file(argv[f]);
        const bool cdna = strstr(argv[f], "gfx9") != NULL;
        for (size_t k = 0; k < sizeof bugs / sizeof *bugs; k++) {
            const struct bug *b = &bugs[k];
            const char *kind = cdna ? b->cdna : b->rdna;
            char with[100], without[100];
            snprintf(with, sizeof with, "%s_bug", b->name);
            snprintf(without, sizeof without, "%s_ok", b->name);
            bad += !(kind != NULL ? check_bug(r, argv[1], argv[f], image, with, b->groups, kind)
                     : check_ok(r, argv[1], argv[f], image, with, b->groups));
            bad += !check_ok(r, argv[1], argv[f], image, without, b->groups);
            tests += 2;
        }
    }
    printf("test_bugs: %u of %u kernels as they should be\n", tests - bad, tests);
    return bad > 0;
}
