/* cc.c -- finds clang, expands the runtime's includes, compiles through the cache. */
#include "cc.h"
#include "compiler/base/family.h"
#include "compiler/base/resource.h"
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CLANG_NEWEST_TRIED = 29, ARGV_MAX = 96, INCLUDE_DEPTH_MAX = 32 };

/* ---- finding the tools ---- */

const char *cc_file_identity(struct arena *a, const char *path)
{
    struct stat st;
    if (!path || stat(path, &st)) return "";
    return arena_printf(a, "%s %lld %lld.%09ld", path, (long long)st.st_size, (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
}

static const char *first_line(struct arena *a, const char *s)
{
    return arena_strndup(a, s, strcspn(s, "\r\n"));
}

struct clang_facts { const char *identity, *lld, *old_lld; };     /* lld: path or ""; old_lld: "/usr/bin/ld.lld is 14", or NULL */

/* Dies if a tool could not be asked. A lack of processes or memory must not decide which clang and which linker make the bytes, so a
 * missing answer does not count as "no". */
static void refuse_no_answer(const struct spawn_job *job)
{
    const int e = job->start_errno;
    if (job->status > 128)
        die("%s %s: ended by signal %d; try again, or choose another with --clang", job->argv[0], job->argv[1], job->status - 128);
    if (job->status == -1 && (e == EAGAIN || e == ENOMEM || e == EMFILE || e == ENFILE))
        die("cannot start %s: %s; try again when fewer programs run", job->argv[0], strerror(e));
}

/* "Debian clang version 19.1.7 (3~deb12u1)" -> "19.1.7"; NULL if it is not clang. */
static const char *clang_version_of(struct arena *a, const char *identity)
{
    const char *at = strstr(identity, "clang version ");
    if (!at) return NULL;
    at += strlen("clang version ");
    const size_t length = strspn(at, "0123456789.");
    return length && isdigit((unsigned char)*at) ? arena_strndup(a, at, length) : NULL;
}

/* If clang has no ld.lld of its own, it uses the first one in PATH, however old. An old ld.lld supports neither the options nor the code of
 * a newer clang. */
static void check_lld(struct arena *a, struct clang_facts *facts)
{
    const char *const argv[] = { facts->lld, "--version", NULL }, *clang = clang_version_of(a, facts->identity);
    struct spawn_job  job = { .argv = argv, .is_tool = true };
    spawn_run(a, &(struct spawn_options){ .jobs = 1 }, &job, 1);
    refuse_no_answer(&job);
    const char *version = job.status ? NULL : strstr((const char *)job.output.data, "LLD ");
    if (version && clang && atoi(version + 4) >= atoi(clang)) return;
    facts->old_lld = version ? arena_printf(a, "%s is %d", facts->lld, atoi(version + 4)) : arena_printf(a, "%s does not run", facts->lld);
    facts->lld = "";
}

/* Asks clang for its facts; if the same file was asked before, takes the answer from the cache. */
static struct clang_facts clang_ask(struct arena *a, struct cache *cache, const char *clang)
{
    const char            *path = getenv("PATH");
    const struct bytes     parts[] = { bytes_of("clang facts 2"), bytes_of(cc_file_identity(a, clang)), bytes_of(path ? path : "") };
    const struct cache_key key = cache_key_of(parts, COUNT_OF(parts));
    struct bytes           stored;
    if (cache_get(cache, a, key, &stored)) {
        const char *identity = (const char *)stored.data, *lld = memchr(identity, '\n', stored.size);
        const char *file = lld ? strchr(lld + 1, '\n') : NULL, *linker = file ? arena_strndup(a, lld + 1, (size_t)(file - lld - 1)) : "";
        /* a cached "no lld" is not used: lld may have been installed or replaced since */
        if (*linker && !access(linker, X_OK) && !strcmp(cc_file_identity(a, linker), file + 1))
            return (struct clang_facts){ arena_strndup(a, identity, (size_t)(lld - identity)), linker, NULL };
    }
    const char *const version_argv[] = { clang, "--version", NULL }, *const lld_argv[] = { clang, "--print-prog-name=ld.lld", NULL };
    struct spawn_job jobs[] = { { .argv = version_argv, .is_tool = true }, { .argv = lld_argv, .is_tool = true } };
    spawn_run(a, &(struct spawn_options){ .jobs = 2 }, jobs, COUNT_OF(jobs));
    refuse_no_answer(&jobs[0]);
    if (jobs[0].status || !strstr((const char *)jobs[0].output.data, "clang version ")) return (struct clang_facts){ "", "", NULL };
    refuse_no_answer(&jobs[1]);
    if (jobs[1].status)
        die("%s %s: %s, so forgec cannot tell which linker it has; repair it or choose another with --clang", clang, lld_argv[1],
            jobs[1].status < 0 ? strerror(jobs[1].start_errno) : arena_printf(a, "exit code %d", jobs[1].status));
    struct clang_facts facts = { first_line(a, (const char *)jobs[0].output.data), "", NULL };
    if (!jobs[1].status && jobs[1].output.size && jobs[1].output.data[0] == '/') {
        facts.lld = first_line(a, (const char *)jobs[1].output.data);
        if (access(facts.lld, X_OK)) facts.lld = "";
        else check_lld(a, &facts);
    }
    cache_put(cache, a, key, bytes_of(arena_printf(a, "%s\n%s\n%s", facts.identity, facts.lld, cc_file_identity(a, facts.lld))));
    return facts;
}

static bool toolchain_try(struct arena *a, struct toolchain *tc, const char *name, const char **found_old)
{
    const char *path = spawn_find(a, name);
    if (!path) return false;
    const struct clang_facts facts = clang_ask(a, tc->cache, path);
    const char *version = clang_version_of(a, facts.identity);
    if (!version) return false;
    if (atoi(version) < CLANG_OLDEST) {
        if (!*found_old) *found_old = arena_printf(a, "%s is clang %s", path, version);
        return false;
    }
    tc->clang = path;
    tc->clang_version = version;
    tc->clang_identity = facts.identity;
    input_remember(a, path);
    tc->lld = facts.lld[0] ? facts.lld : NULL;
    if (!tc->lld)
        tc->lld_missing = arena_printf(a, "lld %d is missing%s%s%s: on Debian or Ubuntu: apt-get install lld-%d", atoi(version),
                                       facts.old_lld ? " (" : "", facts.old_lld ? facts.old_lld : "", facts.old_lld ? ")" : "",
                                       atoi(version));
    tc->lld_identity = cc_file_identity(a, tc->lld);
    if (tc->lld) input_remember(a, tc->lld);
    return true;
}

#define CLANG_INSTALL "on Debian or Ubuntu: apt-get install clang-19 lld-19"

/* NULL: there is no clang, or only one that is too old, which *old then names. */
static struct toolchain *search(struct arena *a, const struct cc_options *options, const char **old)
{
    struct toolchain *tc = arena_new(a, struct toolchain);
    tc->options = *options;
    tc->cache = cache_open(a, !options->no_cache);
    if (options->save_temps) directory_make(a, options->save_temps);

    const char *variable = getenv("FORGEC_CLANG");
    const char *wanted = options->clang ? options->clang : variable && *variable ? variable : NULL;
    if (wanted) {                     /* requested by name: no silent substitute */
        if (toolchain_try(a, tc, wanted, old)) return tc;
        const char *from = options->clang ? "--clang" : "FORGEC_CLANG";
        if (*old) die("%s: %s; forgec needs at least clang %d (%s)", from, *old, CLANG_OLDEST, CLANG_INSTALL);
        die("%s: %s is not a clang that can be run; forgec needs at least clang %d (%s)", from, wanted, CLANG_OLDEST, CLANG_INSTALL);
    }
    for (int version = CLANG_OLDEST; version <= CLANG_NEWEST_TRIED; version++)
        if (toolchain_try(a, tc, arena_printf(a, "clang-%d", version), old)) return tc;
    return toolchain_try(a, tc, "/opt/rocm/llvm/bin/clang", old) || toolchain_try(a, tc, "clang", old) ? tc : NULL;
}

struct toolchain *toolchain_find(struct arena *a, const struct cc_options *options)
{
    const char *old = NULL;
    return search(a, options, &old);
}

struct toolchain *toolchain_open(struct arena *a, const struct cc_options *options)
{
    const char *old = NULL;
    struct toolchain *tc = search(a, options, &old);
    if (tc) return tc;
    if (old) die("%s; forgec needs at least clang %d (%s; or --clang PATH)", old, CLANG_OLDEST, CLANG_INSTALL);
    die("no clang found; forgec needs at least clang %d (%s; or --clang PATH)", CLANG_OLDEST, CLANG_INSTALL);
}

/* ---- cross building ---- */

const char *cc_target_missing(struct arena *a, const struct target *target)
{
    if (!strcmp(target->elf_machine, target_host_machine())) {
        /* the multiarch folder of Debian, or the plain one of other systems */
        if (file_exists("/usr/include/stdio.h") || file_exists(arena_printf(a, "/usr/include/%s/stdio.h", target->triple))) return NULL;
        return "the C library's headers are missing; on Debian or Ubuntu: apt-get install gcc libc6-dev";
    }
    if (file_exists(arena_printf(a, "/usr/%s/include/stdio.h", target->triple))) return NULL;
    if (target->bare) return arena_printf(a, "target %s has no C library; only its objects and libraries are made", target->name);
    const char *dashed = !strcmp(target->elf_machine, "x86_64") ? "x86-64" : target->elf_machine;
    return arena_printf(a, "building for %s here needs its C library; on Debian or Ubuntu: apt-get install gcc-%s-linux-gnu",
                        target->elf_machine, dashed);
}

/* ---- includes ---- */

struct expansion {
    struct arena *arena;
    struct text   out;
    const char   *stack[INCLUDE_DEPTH_MAX];
    size_t        depth;
};

/* The name in a line of the form  # include "name" ; NULL for all other lines. */
static const char *include_name(struct arena *a, const char *line, size_t length)
{
    const char *const end = line + length;
    while (line < end && isblank((unsigned char)*line)) line++;
    if (line == end || *line++ != '#') return NULL;
    while (line < end && isblank((unsigned char)*line)) line++;
    if ((size_t)(end - line) < 7 || memcmp(line, "include", 7) != 0) return NULL;
    line += 7;
    while (line < end && isblank((unsigned char)*line)) line++;
    if (line == end || *line++ != '"') return NULL;
    const char *close = memchr(line, '"', (size_t)(end - line));
    return close ? arena_strndup(a, line, (size_t)(close - line)) : NULL;
}

/* "templates/gpu/../../runtime/model/abi_gpu.h" -> "runtime/model/abi_gpu.h" */
static const char *path_without_ups(struct arena *a, const char *path)
{
    char *out = arena_strdup(a, path), *up;
    while ((up = strstr(out, "/../"))) {
        char *start = up;
        while (start > out && start[-1] != '/') start--;
        memmove(start, up + 4, strlen(up + 4) + 1);
    }
    return out;
}

static void expand(struct expansion *e, const char *path, struct bytes text)
{
    struct arena *a = e->arena;
    const char   *at = (const char *)text.data, *const end = at + text.size;
    e->stack[e->depth++] = path;
    text_printf(&e->out, "#line 1 \"%s\"\n", path);
    for (uint32_t line = 1; at < end; line++) {
        const char  *newline = memchr(at, '\n', (size_t)(end - at));
        const size_t length = newline ? (size_t)(newline - at) : (size_t)(end - at);
        const char  *name = include_name(a, at, length), *slash = strrchr(path, '/');
        struct bytes inner;
        const char  *inner_path = NULL;
        if (name) {
            inner_path = path_without_ups(a, arena_printf(a, "%.*s%s", (int)(slash ? slash - path + 1 : 0), path, name));
            if (!resource_find(a, NULL, inner_path, &inner) && !resource_find(a, NULL, inner_path = name, &inner)) inner_path = NULL;
        }
        bool open_already = false;      /* an include cycle, which the header's guard would stop */
        for (size_t i = 0; inner_path && i < e->depth; i++) open_already |= !strcmp(e->stack[i], inner_path);
        if (inner_path && !open_already) {
            if (e->depth == INCLUDE_DEPTH_MAX)
                die("%s: includes are nested deeper than %d; does a file include itself?", path, INCLUDE_DEPTH_MAX);
            expand(e, inner_path, inner);
            text_printf(&e->out, "#line %u \"%s\"\n", line + 1, path);
        } else if (inner_path) {
            text_puts(&e->out, "\n");
        } else {
            text_append(&e->out, at, length);
            text_puts(&e->out, "\n");
        }
        at += length + (newline != NULL);
    }
    e->depth--;
}

struct bytes cc_expand(struct arena *a, const char *path)
{
    struct expansion e = { .arena = a, .out = { .arena = a } };
    expand(&e, path, resource_get(a, NULL, path));
    return (struct bytes){ (const uint8_t *)text_str(&e.out), e.out.size };
}

/* _GNU_SOURCE renames strtol and similar functions to their C23 versions, which glibc has from 2.38 on. Programs built here must run with
 * older versions. */
static struct bytes cc_old_names(struct arena *a, struct bytes source)
{
    struct text t = { .arena = a };
    text_puts(&t, "#include <features.h>\n#undef __GLIBC_USE_C2X_STRTOL\n#define __GLIBC_USE_C2X_STRTOL 0\n"
                  "#undef __GLIBC_USE_C23_STRTOL\n#define __GLIBC_USE_C23_STRTOL 0\n");
    text_append(&t, (const char *)source.data, source.size);       /* begins with its own #line */
    return (struct bytes){ (const uint8_t *)t.data, t.size };
}

static bool is_library(enum cc_kind kind)
{
    return kind == CC_LIBRARY || kind == CC_LIBRARY_KERNELS || kind == CC_LIBRARY_HOSTED;
}

static bool in_list(const char *const *list, const char *name)
{
    for (; *list; list++) if (!strcmp(*list, name)) return true;
    return false;
}

/* True for the files of a library that drive a GPU. */
static bool library_is_hosted(const char *path)
{
    static const char *const hosted[] = { "runtime/library/gpu.c", "runtime/device/gpu_memory.c", "runtime/device/gpu_step.c",
                                          "runtime/device/gpu_wait.c", "runtime/device/gpu_timing.c", "runtime/device/device.c",
                                          "runtime/device/driver_library.c",
                                          "runtime/run/status.c", NULL };
    return in_list(hosted, path);
}

/* True for the sources of a model as a library: runtime/library and the files shared with programs. */
static bool library_takes(const char *path, const struct target *target)
{
    static const char *const shared[] = { "runtime/text/tokenize.c", "runtime/text/pretokenize.c", "runtime/text/pieces.c",
                                          "runtime/text/normal.c", "runtime/text/unicode.c", "runtime/model/xxh3.c",
                                          "runtime/model/state.c", NULL };
    if (library_is_hosted(path)) return target->kind == TARGET_GPU;
    if (!strcmp(path, "runtime/library/cpu.c")) return target->kind == TARGET_CPU;
    return !strncmp(path, "runtime/library/", 16) || !strncmp(path, "runtime/chat/", 13) || in_list(shared, path);
}

/* The flags of such a file. Only runtime/library has names that the prefix renames, so the rest is compiled once for all prefixes. Chat
 * templates and the parsing of grammars and answers are many rules that run seldom; compiled for size, they are a third smaller. Masks run
 * for each token. For pages, which download the code, everything except the hashes of weights is as small as possible. */
static const char *const *library_flags_of(const char *path, const struct target *target, const char *const *flags)
{
    static const char *const small[] = { "-Os", NULL }, *const smallest[] = { "-Oz", NULL };
    static const char *const fast[] = { "runtime/chat/mask.c", "runtime/chat/lexicon.c", "runtime/model/xxh3.c", NULL };
    if (!strncmp(path, "runtime/library/", 16)) return flags;
    if (in_list(fast, path)) return NULL;
    return target->web ? smallest : !strncmp(path, "runtime/chat/", 13) ? small : NULL;
}

static struct cc_job *source_jobs(struct arena *a, const struct cc_job *like, struct cc_parts parts, size_t extra, size_t *n_jobs)
{
    const char **paths = resource_list(a, NULL, "runtime/");
    size_t       count = 0;
    while (paths[count]) count++;
    struct cc_job *jobs = arena_array(a, struct cc_job, count + extra);
    *n_jobs = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t length = strlen(paths[i]);
        if (length < 2 || strcmp(paths[i] + length - 2, ".c") != 0) continue;
        if (is_library(like->kind) ? !library_takes(paths[i], like->target) : !strncmp(paths[i], "runtime/library/", 16)) continue;
        if (!strncmp(paths[i], "runtime/web/", 12)) continue;              /* product/web.c adds it */
        if (!parts.server && !strncmp(paths[i], "runtime/serve/", 14)) continue;
        if (!parts.terminal && !strncmp(paths[i], "runtime/terminal/", 17)) continue;
        struct cc_job *job = &jobs[(*n_jobs)++];
        *job = *like;
        job->name = paths[i];
        job->source = is_library(like->kind) ? cc_expand(a, paths[i]) : cc_old_names(a, cc_expand(a, paths[i]));
        if (!is_library(like->kind)) continue;
        if (library_is_hosted(paths[i])) job->kind = CC_LIBRARY_HOSTED;
        job->flags = library_flags_of(paths[i], like->target, like->flags);
        job->source = cc_hidden(a, job->source);
    }
    return jobs;
}

struct cc_job *cc_runtime_jobs(struct arena *a, const struct target *target, struct cc_parts parts, size_t extra, size_t *n_jobs)
{
    return source_jobs(a, &(struct cc_job){ .kind = CC_RUNTIME, .target = target }, parts, extra, n_jobs);
}

const char *const *cc_server_libraries(struct arena *a, const struct target *target)
{
    static const char *const names[] = { "libevent_core.a" };
    const char *const folders[] = { arena_printf(a, "/usr/lib/%s", target->triple), arena_printf(a, "/usr/%s/lib", target->triple),
                                    "/usr/lib64", "/usr/lib" };
    const bool native = !strcmp(target->elf_machine, target_host_machine());
    for (size_t i = 0; i < (native ? COUNT_OF(folders) : 2); i++) {
        const char **paths = arena_array(a, const char *, COUNT_OF(names) + 1);
        size_t n = 0;
        for (; n < COUNT_OF(names) && file_exists(paths[n] = arena_printf(a, "%s/%s", folders[i], names[n])); n++) {}
        if (n == COUNT_OF(names)) return paths[n] = NULL, paths;
    }
    if (native) die("--server: libevent is missing; on Debian or Ubuntu: apt-get install libevent-dev");
    die("--server: libevent for %s is missing; on Debian or Ubuntu, with that architecture added to dpkg: apt-get install libevent-dev:%s",
        target->elf_machine, !strcmp(target->elf_machine, "aarch64") ? "arm64" : "amd64");
}

struct cc_job *cc_library_jobs(struct arena *a, const struct target *target, const char *const *flags, size_t extra, size_t *n_jobs)
{
    const struct cc_parts none = { false, false };
    return source_jobs(a, &(struct cc_job){ .kind = CC_LIBRARY, .target = target, .flags = flags }, none, extra, n_jobs);
}

struct bytes cc_hidden(struct arena *a, struct bytes source)
{
    struct text t = { .arena = a };
    text_puts(&t, "#pragma GCC visibility push(hidden)\n#line 1\n");
    text_append(&t, (const char *)source.data, source.size);
    return (struct bytes){ (const uint8_t *)t.data, t.size };
}

/* ---- compiling ---- */

static const char *const common_flags[] = {
    "-std=c11", "-fPIE", "-fvisibility=hidden", "-ffunction-sections", "-fdata-sections", "-fno-stack-protector",
    "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fno-math-errno", "-fno-ident", "-Wno-psabi", NULL };
static const char *const kernel_flags[] = { "-O3", "-ffp-contract=fast", NULL };
static const char *const runtime_flags[] = { "-O2", "-D_GNU_SOURCE", "-D_FILE_OFFSET_BITS=64", NULL };
static const char *const library_runtime_flags[] = { "-O2", "-DFORGE_FREESTANDING", "-DLIBRARY_PUBLIC=", NULL };
/* POSIX only: _GNU_SOURCE would rename functions (strtol) to those of the newest glibc. */
static const char *const library_hosted_flags[] = { "-O2", "-DFORGE_LIBRARY", "-D_POSIX_C_SOURCE=200809L", NULL };
/* No header of a C library is reachable; no tables except those that code and data need. */
static const char *const library_alone_flags[] = { "-ffreestanding", "-nostdlibinc", NULL };
/* Separate sections for functions and tables: a program linked with --gc-sections keeps only what it needs. */
static const char *const library_flags[] = {
    "-std=c11", "-fPIC", "-fvisibility=hidden", "-ffunction-sections", "-fdata-sections", "-fno-common", "-fno-stack-protector",
    "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fno-math-errno", "-fno-ident", "-fno-addrsig", "-Wno-psabi", NULL };

struct argv { const char *item[ARGV_MAX + 1]; size_t count; };

static void argv_add(struct argv *v, const char *item)
{
    if (v->count == ARGV_MAX) die("clang would need more than %d arguments; this is a mistake in forgec, please report it", ARGV_MAX);
    v->item[v->count++] = item;
}

static void argv_add_list(struct argv *v, const char *const *list)
{
    for (; list && *list; list++) argv_add(v, *list);
}

/* As in tests/device/compile.sh. Code object version 5: ROCm 5.7 to 7 can load it. PTX version 8.5: driver 555 and later can read it;
 * clang's default is the newest version that it knows. Without a cuid there is no symbol with a hash of paths. A product and a sum are
 * rounded once if they are in one expression, and nowhere else; thus the same text gives the same bits in each kernel, which --columns
 * relies on. */
static const char *const hip_flags[] = {
    "-x", "hip", "-std=c++20", "--cuda-device-only", "--no-gpu-bundle-output", "-nogpulib", "-nogpuinc", "-O3", "-ffp-contract=on",
    "-fuse-cuid=none", "-fno-hip-fp32-correctly-rounded-divide-sqrt", "-fgpu-flush-denormals-to-zero", "-munsafe-fp-atomics",
    "-mcode-object-version=5", NULL };
static const char *const cuda_flags[] = {
    "-x", "cuda", "-std=c++20", "--cuda-device-only", "-nocudainc", "-nocudalib", "-O3", "-ffp-contract=on", "-S",
    "-Wno-unknown-cuda-version", "--cuda-feature=+ptx85", NULL };
/* From clang 20 on, instructions of gfx11 address halves of registers by default. This turns it off, because the machine code would differ
 * from the code that the simulator has verified. */
static const char *const whole_registers[] = { "-Xclang", "-target-feature", "-Xclang", "-real-true16", NULL };
static const char *const simt_flags[] = { "-x", "c", "-std=c11", "-fPIC", "-O1", "-fno-ident", "-Wno-psabi", "-DFORGE_SIMT", NULL };

static bool is_api(const struct target *target, const char *api)
{
    return !strcmp(target->api, api);
}

static void argv_add_device_flags(struct arena *a, struct argv *v, const struct target *target)
{
    argv_add_list(v, is_api(target, "hip") ? hip_flags : is_api(target, "cuda") ? cuda_flags : simt_flags);
    if (is_api(target, "hip"))  argv_add(v, arena_printf(a, "--offload-arch=%s", target->arch));
    if (is_api(target, "hip") && !strncmp(target->arch, "gfx11", 5)) argv_add_list(v, whole_registers);
    if (is_api(target, "cuda")) argv_add(v, arena_printf(a, "--cuda-gpu-arch=%s", target->arch));
    if (is_api(target, "host")) argv_add(v, arena_printf(a, "-DFAMILY=%u", target->family));
    if (!strcmp(target->load_hint, "stream")) argv_add(v, "-DFORGE_STREAM_NT");
    if (!target->dependent_launch) argv_add(v, "-DFORGE_NO_PDL");
    argv_add_list(v, target->cflags);
}

/* Adds the flags that decide the object's bytes: everything between the program's name and its input. flags: the job's own, or NULL; with
 * -S among them, compilation stops at the assembly. */
static void argv_add_flags(struct arena *a, struct argv *v, const struct target *target, enum cc_kind kind, const char *const *flags)
{
    bool assembly = false;
    for (size_t i = 0; flags && flags[i]; i++) assembly |= !strcmp(flags[i], "-S");
    argv_add(v, arena_printf(a, "--target=%s", target->triple));
    if (kind == CC_DEVICE) {
        argv_add_device_flags(a, v, target);
        argv_add_list(v, flags);
        if (is_api(target, "host") && !assembly) argv_add_list(v, (const char *const[]){ "-shared", "-fuse-ld=lld", "-lm", NULL });
        return;
    }
    const bool kernels = kind == CC_KERNELS || kind == CC_LIBRARY_KERNELS;
    argv_add_list(v, is_library(kind) ? library_flags : common_flags);
    if (is_library(kind) && kind != CC_LIBRARY_HOSTED) argv_add_list(v, library_alone_flags);
    /* ld -r joins sections and does not record the alignment that relaxation would have to restore */
    if (is_library(kind) && !strncmp(target->triple, "riscv", 5)) argv_add(v, "-mno-relax");
    argv_add_list(v, kernels ? kernel_flags : kind == CC_LIBRARY ? library_runtime_flags
                     : kind == CC_LIBRARY_HOSTED ? library_hosted_flags : runtime_flags);
    if ((kernels || is_library(kind)) && target->kind != TARGET_GPU) argv_add_list(v, target->cflags);
    argv_add_list(v, flags);
    if (!assembly) argv_add(v, "-c");                   /* clang 22 warns about -c together with -S */
}

static bool is_kernels(enum cc_kind kind) { return kind == CC_KERNELS || kind == CC_LIBRARY_KERNELS || kind == CC_DEVICE; }

static const char *object_name(struct arena *a, const char *temps, const char *job_name, const char *ending)
{
    const char *base = path_name(job_name), *dot = strrchr(base, '.');
    return arena_printf(a, "%s%s%.*s.%s", temps ? temps : "", temps ? "/" : "", (int)(dot ? dot - base : (long)strlen(base)), base, ending);
}

static const char *object_ending(const struct target *target, enum cc_kind kind)
{
    return kind != CC_DEVICE ? "o" : is_api(target, "hip") ? "co" : is_api(target, "cuda") ? "ptx" : "so";
}

const char *cc_object_name(struct arena *a, const struct toolchain *tc, const char *job_name)
{
    return object_name(a, tc->options.save_temps, job_name, "o");
}

const char *cc_line(struct arena *a, const struct target *target, enum cc_kind kind, const char *source_name)
{
    struct argv v = { .count = 0 };
    argv_add(&v, "clang");
    argv_add_flags(a, &v, target, kind, NULL);
    if (kind == CC_DEVICE)
        argv_add_list(&v, (const char *const[]){ "-o", object_name(a, NULL, source_name, object_ending(target, kind)), NULL });
    argv_add(&v, source_name);
    v.item[v.count] = NULL;
    return spawn_line(a, &(struct spawn_job){ .argv = v.item });
}

void cc_save(struct arena *a, const char *path, struct bytes data)
{
    output_check(a, path);
    file_write(a, path, data);
}

/* The key: source, flags, compiler, and the first header of the C library, which represents all its headers. */
static struct cache_key job_key(struct arena *a, const struct toolchain *tc, const struct cc_job *job, const struct argv *v)
{
    struct bytes parts[ARGV_MAX + 9];
    size_t       n = 0;
    const char  *libraries = getenv("LD_LIBRARY_PATH");      /* decides which LLVM clang uses */
    parts[n++] = bytes_of("object 3");
    parts[n++] = bytes_of(libraries ? libraries : "");
    parts[n++] = job->source;
    parts[n++] = bytes_of(tc->clang_identity);
    parts[n++] = bytes_of(cc_file_identity(a, tc->clang));
    parts[n++] = bytes_of(job->kind == CC_DEVICE ? tc->lld_identity : "");
    parts[n++] = bytes_of(cc_file_identity(a, "/usr/include/features.h"));
    parts[n++] = bytes_of(cc_file_identity(a, arena_printf(a, "/usr/%s/include/features.h", job->target->triple)));
    for (size_t i = 1; i < v->count; i++) parts[n++] = bytes_of(v->item[i]);
    return cache_key_of(parts, n);
}

bool toolchain_makes_kernels(const struct toolchain *tc, const struct target *target) { return tc->lld || is_api(target, "cuda"); }

static const char *job_missing(struct arena *a, const struct toolchain *tc, const struct cc_job *job)
{
    if (job->kind == CC_DEVICE && !toolchain_makes_kernels(tc, job->target))
        return arena_printf(a, "kernels for %s are linked with LLVM's lld, and %s", job->target->arch, tc->lld_missing);
    return is_library(job->kind) && job->kind != CC_LIBRARY_HOSTED ? NULL : cc_target_missing(a, job->target);
}

static const char *job_object_name(struct arena *a, const struct toolchain *tc, const struct cc_job *job)
{
    return object_name(a, tc->options.save_temps, job->name, object_ending(job->target, job->kind));
}

/* ---- clang's messages ---- */

/* The first line with an error, else the first line; "<stdin>" becomes the job's name. */
static const char *first_message(struct arena *a, const struct cc_job *job, const char *messages)
{
    static const char input[] = "<stdin>:";
    const char *error = strstr(messages, "error: ");
    while (error && error > messages && error[-1] != '\n') error--;
    const char *line = first_line(a, error ? error : messages);
    const bool of_input = !strncmp(line, input, sizeof input - 1);
    if (of_input) line = arena_printf(a, "%s:%s", job->name, line + sizeof input - 1);
    return printable(a, line, strlen(line));
}

/* True for faults of the machine or its tools, not of the source: a full disk, a missing header of the C library, a linker of another
 * version. */
static bool is_of_machine(const char *message)
{
    static const char *const signs[] = { "file not found", "No space left", "unable to ", "cannot open", "Cannot allocate memory",
                                         "unknown argument", "unknown target CPU", "invalid linker name", "linker command failed",
                                         "No available targets are compatible", "No such file or directory", NULL };
    for (size_t i = 0; signs[i]; i++) if (strstr(message, signs[i])) return true;
    return false;
}

static void check_compiled(struct arena *a, const struct toolchain *tc, const struct cc_job *job, const struct spawn_job *spawn)
{
    static const char report[] = "forgec wrote this source, so it is a mistake in forgec: please report it with the file, which "
                                 "--save-temps DIR keeps (-v: all that clang says)";
    const char *messages = spawn->messages ? spawn->messages : "", *name = job->user_text ? job->user_text : job->name;
    if (spawn->status < 0) die("cannot start %s: %s; try again when fewer programs run", tc->clang, strerror(spawn->start_errno));
    if ((job->user_text || tc->options.spawn.verbose) && *messages) fputs(messages, stderr);
    if (spawn->status > 128)
        die("signal %d ended clang while it compiled %s; try again, or choose another with --clang", spawn->status - 128, name);
    if (job->user_text) {
        if (spawn->status) die("clang could not compile %s (exit code %d)", name, spawn->status);
        return;
    }
    if (!spawn->status && !*messages) return;
    const char *message = *messages ? first_message(a, job, messages) : "it said nothing";
    if (!spawn->status) warn("clang says: %s; %s", message, report);
    else if (is_of_machine(message)) die("clang could not compile %s: %s", name, message);
    else die("clang could not compile %s: %s; %s", name, message, report);
}

void cc_need_proc(void)
{
    if (access("/proc/self/fd", X_OK))
        die("/proc is not mounted, and forgec hands sources and objects to clang through /proc/self/fd; mount it: mount -t proc proc "
            "/proc");
}

void cc_compile(struct arena *a, struct toolchain *tc, struct cc_job *jobs, size_t n_jobs)
{
    const struct cc_options *o = &tc->options;
    const char        *temps = o->save_temps;
    struct argv       *argvs = arena_array(a, struct argv, n_jobs);
    struct spawn_job  *spawns = arena_array(a, struct spawn_job, n_jobs);
    struct spawn_file *inputs = arena_array(a, struct spawn_file, n_jobs);
    struct cache_key  *keys = arena_array(a, struct cache_key, n_jobs);
    size_t            *owner = arena_array(a, size_t, n_jobs), n_spawns = 0;

    for (size_t i = 0; temps && i < n_jobs; i++) {          /* all checks before the first file is written */
        output_check(a, arena_printf(a, "%s/%s", temps, path_name(jobs[i].name)));
        output_check(a, job_object_name(a, tc, &jobs[i]));
    }
    for (size_t k = 0; k < 2 * n_jobs; k++) {               /* kernels take longest, so they start first */
        const size_t i = k % n_jobs;
        if (is_kernels(jobs[i].kind) != (k < n_jobs)) continue;
        struct cc_job *job = &jobs[i];
        struct argv   *v = &argvs[i];
        const char    *base = path_name(job->name), *missing = job_missing(a, tc, job);
        if (missing) die("%s", missing);
        argv_add(v, tc->clang);
        argv_add_flags(a, v, job->target, job->kind, job->flags);
        /* otherwise the symbol table would have the name of standard input */
        argv_add_list(v, (const char *const[]){ "-Xclang", "-main-file-name", "-Xclang", base, NULL });
        if (job->kind != CC_DEVICE) argv_add_list(v, (const char *const[]){ "-x", "c", NULL });
        /* an emitted source includes itself (source/document.h) */
        if (is_kernels(job->kind)) argv_add(v, "-DSOURCE_NAME=\"/proc/self/fd/0\"");
        argv_add_list(v, (const char *const[]){ "-", "-o", "-", NULL });
        v->item[v->count] = NULL;
        const char *source_path = temps ? arena_printf(a, "%s/%s", temps, base) : job->name;
        if (temps && !o->spawn.dry_run) cc_save(a, source_path, job->source);
        keys[i] = job_key(a, tc, job, v);
        if (!o->spawn.dry_run && cache_get(tc->cache, a, keys[i], &job->object)) continue;
        inputs[i] = (struct spawn_file){ source_path, job->source };
        spawns[n_spawns] = (struct spawn_job){ .argv = v->item, .input = &inputs[i], .output_name = job_object_name(a, tc, job),
                                               .is_tool = true };
        owner[n_spawns++] = i;
    }
    if (n_spawns && !o->spawn.dry_run) cc_need_proc();
    spawn_run(a, &o->spawn, spawns, n_spawns);
    if (o->spawn.dry_run) return;
    for (size_t s = 0; s < n_spawns; s++) {
        struct cc_job *job = &jobs[owner[s]];
        check_compiled(a, tc, job, &spawns[s]);
        job->object = spawns[s].output;
        cache_put(tc->cache, a, keys[owner[s]], job->object);
    }
    for (size_t i = 0; temps && i < n_jobs; i++) cc_save(a, job_object_name(a, tc, &jobs[i]), jobs[i].object);
}
