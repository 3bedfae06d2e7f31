/* program.c -- see program.h. */
#include "program.h"
#include "compiler/product/web.h"
#include "spawn.h"
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { MAX_FILES = 128 };
struct workplace { const char *directory; const char *paths[MAX_FILES]; uint32_t n_paths; };

struct workplace *workplace_open(struct arena *a)
{
    struct workplace *w = arena_new(a, struct workplace);
    const char *parent = getenv("TMPDIR");
    char *name = arena_printf(a, "%s/forgec.XXXXXX", parent && *parent ? parent : "/tmp");
    if (!mkdtemp(name)) die("%s: cannot make a directory: %s; set TMPDIR to a place with room", name, strerror(errno));
    w->directory = name;
    cleanup_unlink_at_exit(name);             /* registered before its files, so that it is removed after them */
    return w;
}

const char *workplace_path(struct arena *a, struct workplace *w, const char *name)
{
    if (w->n_paths == MAX_FILES)
        die("more than %d files in one temporary directory; this is a mistake in forgec, please report it", MAX_FILES);
    const char *path = arena_printf(a, "%s/%s", w->directory, name);
    w->paths[w->n_paths++] = path;
    cleanup_unlink_at_exit(path);
    return path;
}

void workplace_remove(struct workplace *w, const char *path)
{
    for (uint32_t i = 0; i < w->n_paths; i++) {
        if (w->paths[i] != path) continue;
        unlink(path);
        cleanup_forget(path);
        w->paths[i] = w->paths[--w->n_paths];
        return;
    }
}

void workplace_close(struct workplace *w)
{
    for (uint32_t i = w->n_paths; i-- > 0;) {              /* a folder comes before its files */
        if (unlink(w->paths[i])) rmdir(w->paths[i]);
        cleanup_forget(w->paths[i]);
    }
    rmdir(w->directory);
    cleanup_forget(w->directory);
}

/* True if the simulator supports the chip. */
static bool is_simulated(const struct target *p) { return p->kind == TARGET_GPU && strncmp(p->arch, "gfx", 3) == 0; }

struct runner runner_find(struct arena *a, const struct target *p, bool emulation)
{
    struct runner r = { .target = p->name };
    const char *why = target_unsupported_here(a, p);
    if (!why) return r;
    if (p->web) {
        if (!emulation) die("a program for %s cannot run here: %s", p->name, why);
        r.emulator = "node";
        if (!spawn_find(a, r.emulator))
            die("a program for %s runs in node, which is not installed (Debian, Ubuntu: apt-get install nodejs)", p->name);
        return r;
    }
    struct utsname here;
    if (is_simulated(p)) die("a program for %s cannot run here: %s; --simulate executes its machine code on this CPU", p->name, why);
    if (p->kind == TARGET_GPU || uname(&here) || strcmp(here.machine, p->elf_machine) == 0)
        die("a program for %s cannot run here: %s", p->name, why);
    if (!emulation) die("a program for %s cannot run here: %s; speeds under an emulator would mean nothing", p->name, why);
    r.emulator = arena_printf(a, "qemu-%s", p->elf_machine);
    if (!spawn_find(a, r.emulator))
        die("a program for %s cannot run here: %s, and there is no %s (Debian, Ubuntu: apt-get install qemu-user)", p->name, why,
            r.emulator);
    /* Debian and Ubuntu keep the libraries of other machines there (libc6-arm64-cross); static programs need none. */
    const char *sysroot = arena_printf(a, "/usr/%s-linux-gnu", p->elf_machine);
    struct stat st;
    if (stat(sysroot, &st) == 0 && S_ISDIR(st.st_mode)) r.sysroot = sysroot;
    return r;
}

/* Finds the simulator: $FORGEC_GFXSIM, or beside forgec in a build, or where `cmake --install` puts it. */
static const char *simulator_find(struct arena *a)
{
    const char *given = getenv("FORGEC_GFXSIM");
    if (given && *given) {
        if (!file_exists(given)) die("FORGEC_GFXSIM=%s: there is no such file", given);
        return given;
    }
    char self[4096];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n <= 0) die("cannot find the directory of forgec: %s; set FORGEC_GFXSIM to libgfxsim.so", strerror(errno));
    self[n] = 0;
    *strrchr(self, '/') = 0;
    static const char *const places[] = { "", "/../" FORGEC_LIBDIR };
    for (size_t i = 0; i < COUNT_OF(places); i++) {
        const char *path = arena_printf(a, "%s%s/libgfxsim.so", self, places[i]);
        if (file_exists(path)) return path;
    }
    die("there is no libgfxsim.so in %s or %s/../%s: on x86-64 the target product of forgec's build makes it (cmake --build BUILD --target "
        "product); FORGEC_GFXSIM=FILE says where it is", self, self, FORGEC_LIBDIR);
}

static const char *chips_of(struct arena *a, const struct build_options *o, const struct target *p)
{
    struct text t = { .arena = a };
    text_puts(&t, p->arch);
    for (uint32_t rank = 1; rank < o->gpus; rank++)
        text_printf(&t, ",%s", o->stages[rank] ? target_load(a, o->stages[rank], o->targets_dir)->arch : p->arch);
    return text_str(&t);
}

struct runner runner_simulate(struct arena *a, const struct build_options *o, const struct target *p)
{
    if (!is_simulated(p)) die("--simulate: the simulator executes code for AMD GPUs; %s is not an AMD GPU; see forgec targets", p->name);
    const char *channels = !p->channels.count ? NULL
        : arena_printf(a, "%u,%u,%u", p->channels.count, p->channels.interleave, p->channels.window);
    return (struct runner){ .target = p->name, .simulator = simulator_find(a), .chips = chips_of(a, o, p), .channels = channels };
}

const char *program_build(struct arena *a, struct workplace *w, const struct build_options *options, const char *name)
{
    struct build_options o = *options;
    o.emit = EMIT_EXE;
    o.weights = WEIGHTS_EMBED;
    o.out_path = workplace_path(a, w, name);
    build(a, &o);
    if (o.n_targets == 0 || !target_load(a, o.targets[0], o.targets_dir)->web) return o.out_path;
    const char **names = web_names(a, o.out_path);
    for (size_t i = 0; names && names[i]; i++) workplace_path(a, w, arena_printf(a, "%s/%s", name, names[i]));
    return web_program(a, o.out_path);
}

/* A program's messages as one line. */
static const char *one_line(struct arena *a, const char *messages)
{
    struct text t = { .arena = a };
    for (const char *p = messages; *p; ) {
        const size_t n = strcspn(p, "\r\n");
        if (n) text_printf(&t, "%s%.*s", t.size ? "; " : "", (int)n, p);
        p += n + (p[n] != 0);
    }
    return t.size ? text_str(&t) : "it said nothing";
}

bool program_try(struct arena *a, const struct runner *r, const char *path, const char *const *arguments, struct bytes *out,
                 const char **why)
{
    enum { MOST = 48 };
    const char **argv = arena_array(a, const char *, MOST);
    size_t n = 0;
    if (r->on) {                                            /* the words after it are "$@" in the shell, whatever they contain */
        argv[n++] = "sh";
        argv[n++] = "-c";
        argv[n++] = arena_printf(a, "%s \"$@\"", r->on);
        argv[n++] = "forgec";
    }
    if (r->emulator) {
        argv[n++] = r->emulator;
        if (r->sysroot) { argv[n++] = "-L"; argv[n++] = r->sysroot; }
    }
    if (r->simulator) {
        argv[n++] = "env";
        argv[n++] = arena_printf(a, "FORGE_HIP_LIBRARY=%s", r->simulator);
        argv[n++] = arena_printf(a, "FORGE_GFXSIM_CHIP=%s", r->chips);
        if (r->counters) argv[n++] = arena_printf(a, "FORGE_GFXSIM_STATS=%s", r->counters);
        if (r->channels) argv[n++] = arena_printf(a, "FORGE_GFXSIM_CHANNELS=%s", r->channels);
        argv[n++] = arena_printf(a, "FORGE_GFXSIM_SAMPLE=%u", r->sample);
    }
    argv[n++] = path;
    argv[n++] = "--target";
    argv[n++] = r->target;
    argv[n++] = "-q";
    for (; *arguments; arguments++) {
        if (n + 1 == MOST) die("too many arguments; this is a mistake in forgec, please report it");
        argv[n++] = *arguments;
    }
    struct spawn_job job = { .argv = argv };
    spawn_run(a, &(struct spawn_options){ .jobs = 1 }, &job, 1);
    *out = job.output;
    if (job.status == -1) *why = arena_printf(a, "cannot run %s: %s", argv[0], strerror(job.start_errno));
    else if (job.status > 128)
        *why = arena_printf(a, "the program for %s was ended by signal %d: %s", r->target, job.status - 128, one_line(a, job.messages));
    else if (job.status)
        *why = arena_printf(a, "the program for %s failed with exit code %d: %s", r->target, job.status, one_line(a, job.messages));
    return job.status == 0;
}

struct bytes program_run(struct arena *a, const struct runner *r, const char *path, const char *const *arguments)
{
    struct bytes out;
    const char *why;
    if (!program_try(a, r, path, arguments, &out, &why)) die("%s", why);
    return out;
}

double program_number(const struct cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!cJSON_IsNumber(item)) die("the program's JSON has no number \"%s\"; this is a mistake in forgec, please report it", key);
    return item->valuedouble;
}

const float *program_logits(struct arena *a, const struct runner *r, const char *path, const int32_t *tokens, uint32_t n, uint32_t columns,
                            const char *const *extra)
{
    /* Not /dev/stdout: a program that fails may remove the file that it wrote. */
    const char *arguments[16] = { "--tokens", tokens_text(a, tokens, n), r->embeds ? "--rows" : "--logits", "/proc/self/fd/1",
                                  "--print-tokens", "-n", "0" };
    size_t count = r->embeds ? 4 : 7;
    for (; extra && *extra && count + 1 < COUNT_OF(arguments); extra++) arguments[count++] = *extra;
    arguments[count] = NULL;
    const struct bytes out = program_run(a, r, path, arguments);
    if (out.size != (uint64_t)n * columns * sizeof(float))
        die("the program for %s wrote %zu bytes of logits or rows; %u tokens have %llu", r->target, out.size, n,
            (unsigned long long)n * columns * sizeof(float));
    return (const float *)(const void *)out.data;
}

const char *tokens_text(struct arena *a, const int32_t *tokens, uint32_t n)
{
    struct text t = { .arena = a };
    for (uint32_t i = 0; i < n; i++) text_printf(&t, i ? ",%d" : "%d", tokens[i]);
    return text_str(&t);
}

int32_t *tokens_random(struct arena *a, uint32_t n, uint32_t n_vocab, uint64_t seed)
{
    int32_t *tokens = arena_array(a, int32_t, n);
    for (uint32_t i = 0; i < n; i++) {                          /* splitmix64 */
        uint64_t x = seed += 0x9e3779b97f4a7c15u;
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
        x = (x ^ x >> 27) * 0x94d049bb133111ebu;
        tokens[i] = (int32_t)((x ^ x >> 31) % n_vocab);
    }
    return tokens;
}
