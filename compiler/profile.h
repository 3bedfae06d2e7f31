/* profile.h -- a target: targets/NAME.yaml as a struct.  Every number in the YAML has a unit and a source. */
#ifndef FORGEC_PROFILE_H
#define FORGEC_PROFILE_H
#include "base.h"

enum target_kind { TARGET_CPU };
enum { PROFILE_MAX_FLAGS = 16 };

struct profile {
    const char      *name;            /* "x86-64-v4" */
    const char      *description;
    const char      *path;            /* for messages */
    enum target_kind kind;
    const char      *simd;            /* templates/cpu/simd_<simd>.h: "c", "avx2", "avx512", "neon" */
    const char      *triple;          /* clang --target=..., e.g. "x86_64-linux-gnu" */
    const char      *elf_machine;     /* "x86_64", "aarch64" */
    const char      *cflags[PROFILE_MAX_FLAGS + 1];     /* NULL-terminated: "-march=x86-64-v4", ... */
    const char      *features[PROFILE_MAX_FLAGS + 1];   /* NULL-terminated names as in runtime/cpu_features.def; checked at start */
    uint32_t         page_bytes;      /* largest page size the ELF file must be aligned to */
    struct {
        uint32_t gemm_tokens;         /* tokens per register tile of the prefill GEMM */
        uint32_t gemm_groups;         /* 16-row groups per register tile */
        uint32_t prefill_chunk;       /* tokens per prefill step */
        uint32_t attention_block;     /* KV positions per streaming-softmax block, multiple of 16 */
    } tile;
    struct { uint64_t l1d_bytes, l2_bytes, l3_bytes; } cache;
    double bandwidth_gb_s;            /* per machine, from the YAML; predictions only; 0 = unknown */
};

/* name: a built-in profile, "native" (this machine), or a path ending in .yaml.  Unknown keys, wrong types and unknown
 * names die with line and column, or the list of names.  directory: --targets DIR, or NULL for the built-in ones. */
struct profile *profile_load(struct arena *a, const char *name, const char *directory);
/* Names of all profiles, sorted, NULL-terminated. */
const char **profile_names(struct arena *a, const char *directory);
/* As elf_machine: what forgec itself runs on. */
const char *profile_host_machine(void);
/* Can a program built for p run here?  NULL if so, else the reason ("this CPU has no avx512vnni"). */
const char *profile_unsupported_here(struct arena *a, const struct profile *p);
#endif
