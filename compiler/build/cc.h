/* cc.h -- compiles C source to object code with clang as a subprocess, through the compile cache.
 * Nothing is written to disk: sources and objects pass through memory files, so that neither paths nor times get into the bytes, and a
 * signal leaves nothing behind. The exception is AMD kernels, which clang links: it has a temporary file, which it removes unless it is
 * killed. Does not depend on models. */
#ifndef FORGEC_CC_H
#define FORGEC_CC_H
#include "compiler/base/base.h"
#include "cache.h"
#include "compiler/base/target.h"
#include "spawn.h"

enum { CLANG_OLDEST = 19 };      /* older versions lack some targets; one minimum for all targets keeps messages and tests simple */

struct cc_options {
    const char          *clang;          /* --clang PATH, or NULL: $FORGEC_CLANG, clang-19, clang-20, ..., ROCm's, clang */
    const char          *save_temps;     /* --save-temps DIR: sources as compiled, objects; or NULL */
    bool                 no_cache;
    struct spawn_options spawn;          /* -j, -v, -### */
};

struct toolchain {
    struct cc_options options;
    const char       *clang;             /* path */
    const char       *clang_version;     /* "19.1.7" */
    const char       *clang_identity;    /* full first line of --version */
    const char       *lld;               /* path, or NULL: not installed, or older than clang */
    const char       *lld_missing;       /* "lld 19 is missing: apt-get install lld-19"; NULL if it is installed */
    const char       *lld_identity;      /* path, size and time: part of the link cache's key */
    struct cache     *cache;
};
/* Finds clang and lld. If there is no clang of at least CLANG_OLDEST, dies with one line saying what to install. */
struct toolchain *toolchain_open(struct arena *a, const struct cc_options *options);
/* The same for callers that can work without clang: NULL if there is no clang. Dies if clang was requested by name and is not usable. */
struct toolchain *toolchain_find(struct arena *a, const struct cc_options *options);
/* True if it can make kernels for that GPU. AMD GPUs need lld. */
bool toolchain_makes_kernels(const struct toolchain *tc, const struct target *target);

enum cc_kind {
    CC_KERNELS,      /* emitted model source: -O3 and the target's instruction set */
    CC_RUNTIME,      /* -O2 for the oldest CPU of the family: it must be able to report that a CPU is too old */
    CC_DEVICE,       /* emitted kernels of a GPU target; the driver loads the result, not the linker: for HIP an ELF code object, for CUDA
                      * the text of a PTX module (without a final 0), for host an ELF shared object with simt_* undefined */
    CC_LIBRARY,        /* the runtime of a model as a library (runtime/library): freestanding, -O2 and the target's instruction set */
    CC_LIBRARY_KERNELS,    /* emitted model source for such a library */
    CC_LIBRARY_HOSTED,     /* the part of a GPU's library that needs an operating system: C library, driver */
};
struct cc_job {
    const char           *name;          /* "model.c": for messages, -v and --save-temps; it appears in the symbol table */
    struct bytes          source;
    enum cc_kind          kind;
    const struct target *target;
    const char *const    *flags;         /* further flags, NULL-terminated, or NULL */
    const char           *user_text;     /* name of the user's text in the source, "story.c": clang's messages are for the user;
                                          * NULL: the source is all forgec's */
    struct bytes          object;        /* result: an ELF object or as CC_DEVICE says; assembly if flags have -S; empty in a dry run */
};
/* Compiles all jobs, several at once, kernels first. Dies if one fails. If the source has text of the user, all messages of clang are
 * printed. Else the fault is forgec's, and the line has clang's first error (with -v, all messages are printed too). */
void cc_compile(struct arena *a, struct toolchain *tc, struct cc_job *jobs, size_t n_jobs);
/* Jobs for every runtime/NAME.c of a program's runtime, with includes already expanded; runtime/serve and runtime/terminal only if parts
 * says so. The array has room for `extra` more jobs at the end; *n_jobs does not count them. */
struct cc_parts { bool server, terminal; };
struct cc_job *cc_runtime_jobs(struct arena *a, const struct target *target, struct cc_parts parts, size_t extra, size_t *n_jobs);
/* The archives of libevent that a program with a server is linked with, NULL-terminated. Dies if they are not installed. */
const char *const *cc_server_libraries(struct arena *a, const struct target *target);
/* As cc_runtime_jobs, for a library: every runtime/library/NAME.c, runtime/chat and the tokenizer; for a GPU its driver code too. flags:
 * for the files of runtime/library, as in struct cc_job. */
struct cc_job *cc_library_jobs(struct arena *a, const struct target *target, const char *const *flags, size_t extra, size_t *n_jobs);
/* The source with hidden visibility for all its declarations, so that references need no table that the final linker would have to make. */
struct bytes cc_hidden(struct arena *a, struct bytes source);
/* The embedded file path ("runtime/app/run.c") with every #include "..." of an embedded file replaced by its text; #line lines keep the
 * places right. An include is looked up relative to the including file ("../" goes up), then by its own name. */
struct bytes cc_expand(struct arena *a, const char *path);
/* Writes a file of --save-temps. Dies rather than replace the product or an input. */
void cc_save(struct arena *a, const char *path, struct bytes data);
/* "runtime/app/run.c" -> "run.o", in the directory of --save-temps if there is one: the name that -v prints. For CC_DEVICE the suffix is
 * co, ptx or so. */
const char *cc_object_name(struct arena *a, const struct toolchain *tc, const char *job_name);
/* The "clang ..." line that compiles a source of that kind by hand, for the head of an emitted file ("model.c" -> "model.o", "model.co",
 * ...). */
const char *cc_line(struct arena *a, const struct target *target, enum cc_kind kind, const char *source_name);
/* A part of cache keys that changes whenever the file does; "" if there is no file (path may be NULL). */
const char *cc_file_identity(struct arena *a, const char *path);
/* Dies if /proc is missing: sources and objects pass to tools through it. */
void cc_need_proc(void);
/* NULL if clang can build and link for the target here, else what to install. */
const char *cc_target_missing(struct arena *a, const struct target *target);
#endif
