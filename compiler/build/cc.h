/* cc.h -- C source to object code with clang as a subprocess, through the compile cache.
 * Nothing touches the disk on the way: sources go in and objects come back through memory files, so neither paths nor
 * times get into the bytes and a signal leaves nothing behind, but for kernels of AMD that clang links: its temporary file, which it
 * removes unless it is killed.  Knows no models. */
#ifndef FORGEC_CC_H
#define FORGEC_CC_H
#include "compiler/base/base.h"
#include "cache.h"
#include "compiler/base/profile.h"
#include "spawn.h"

enum { CLANG_OLDEST = 19 };      /* older ones lack targets forgec emits for; one floor keeps the messages and tests simple */

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
    const char       *lld;               /* path, or NULL: not installed */
    const char       *lld_identity;      /* path, size and time: part of the link cache's key */
    struct cache     *cache;
};
/* Finds clang and lld.  Dies with one line saying what to install when there is no clang of at least CLANG_OLDEST. */
struct toolchain *toolchain_open(struct arena *a, const struct cc_options *options);
/* The same for who can do without: NULL where there is none.  Dies when one was asked for by name and cannot be had. */
struct toolchain *toolchain_find(struct arena *a, const struct cc_options *options);
/* Can it make kernels of that GPU?  AMD's need lld. */
bool toolchain_makes_kernels(const struct toolchain *tc, const struct profile *profile);

enum cc_kind {
    CC_KERNELS,      /* emitted model source: -O3 and the profile's instruction set */
    CC_RUNTIME,      /* -O2 for the oldest CPU of the family: it must be able to say that a CPU is too old */
    CC_DEVICE,       /* emitted kernels of a GPU target; the result is no object for the linker but what the driver loads: HIP an ELF
                      * code object, CUDA the text of a PTX module (without a 0 at its end), host an ELF shared object that lacks simt_* */
    CC_LIBRARY,        /* the runtime of a model as a library (runtime/library): freestanding, -O2 and the profile's instruction set */
    CC_LIBRARY_KERNELS,    /* emitted model source for the same */
    CC_LIBRARY_HOSTED,     /* the part of a GPU's library that needs an operating system: C library, driver */
};
struct cc_job {
    const char           *name;          /* "model.c": for messages, -v and --save-temps; gets into the symbol table */
    struct bytes          source;
    enum cc_kind          kind;
    const struct profile *profile;
    const char *const    *flags;         /* more flags, NULL-terminated, or NULL */
    const char           *user_text;     /* the user's text in the source, "story.c": what clang says is for the user;
                                          * NULL: all is forgec's */
    struct bytes          object;        /* result: an ELF object or as CC_DEVICE says; assembly when flags have -S; empty in a dry run */
};
/* Compiles all jobs, several at once, kernels first.  Dies when one fails: of a source with text of the user's with all that clang says, of
 * others with its first error in the line (-v: and all it says), since that is a mistake of forgec's. */
void cc_compile(struct arena *a, struct toolchain *tc, struct cc_job *jobs, size_t n_jobs);
/* Jobs for every runtime/NAME.c (a program's runtime; of runtime/serve and runtime/terminal what is asked for), includes already pasted;
 * room for extra more jobs at the end.  *n_jobs: without these. */
struct cc_parts { bool server, terminal; };
struct cc_job *cc_runtime_jobs(struct arena *a, const struct profile *profile, struct cc_parts parts, size_t extra, size_t *n_jobs);
/* The archives of libevent that a program with a server is linked with, NULL-terminated.  Dies where they are not installed. */
const char *const *cc_server_libraries(struct arena *a, const struct profile *profile);
/* The same for a library: every runtime/library/NAME.c, runtime/chat and the tokenizer; on a GPU what drives it, too.  flags: of those of
 * runtime/library, as in struct cc_job. */
struct cc_job *cc_library_jobs(struct arena *a, const struct profile *profile, const char *const *flags, size_t extra, size_t *n_jobs);
/* The source with all that it declares hidden: what it names is reached without a table that the final linker would have to make. */
struct bytes cc_hidden(struct arena *a, struct bytes source);
/* The embedded file path ("runtime/app/run.c") with every #include "..." of an embedded file replaced by its text, #line kept right.  An
 * include is looked for beside the file that has it ("../" leads up), then by its own name. */
struct bytes cc_expand(struct arena *a, const char *path);
/* A file of --save-temps.  Dies rather than replace the product or an input. */
void cc_save(struct arena *a, const char *path, struct bytes data);
/* "runtime/app/run.c" -> "run.o", in the directory of --save-temps if there is one: the name -v prints.  For CC_DEVICE the ending is co,
 * ptx or so. */
const char *cc_object_name(struct arena *a, const struct toolchain *tc, const char *job_name);
/* "clang ..." line that compiles a source of that kind by hand, for the head of an emitted file ("model.c" -> "model.o", "model.co",
 * ...). */
const char *cc_line(struct arena *a, const struct profile *profile, enum cc_kind kind, const char *source_name);
/* Part of cache keys: changes whenever the file does; "" when there is none (path may be NULL). */
const char *cc_file_identity(struct arena *a, const char *path);
/* NULL when clang can build and link for the profile here, else what to install. */
const char *cc_target_missing(struct arena *a, const struct profile *profile);
#endif
