/* profile.h -- a target: targets/NAME.yaml as a struct.  Every number in the YAML has a unit and a source. */
#ifndef FORGEC_PROFILE_H
#define FORGEC_PROFILE_H
#include "base.h"
#include "yaml.h"

/* The vector code of CPU kernels: templates/cpu/dot_<name>.h, FORGE_SIMD_<NAME>; machine: whose instructions, NULL: C for any. */
struct simd { const char *name, *machine; };
enum { SIMD_COUNT = 5 };
extern const struct simd simd_table[SIMD_COUNT];
/* How products of rows of bfloat16 are computed (templates/cpu/tiles.h), and so which products read such rows (plan_group_forms). */
enum matrix_unit { MATRIX_NONE, MATRIX_DOT, MATRIX_TILES, MATRIX_COUNT };
extern const char *const matrix_unit_name[MATRIX_COUNT];

enum target_kind { TARGET_CPU, TARGET_GPU, TARGET_WEBGPU };
enum { PROFILE_MAX_FLAGS = 24, PROFILE_MAX_TILES = 24 };
/* Of a group, which has a power of two of them: every adapter offers so many. */
enum { WEBGPU_MOST_THREADS = 256 };
/* of what is multiplied */
enum matrix_format { MATRIX_F16 /* and bf16 */, MATRIX_F8, MATRIX_F32, MATRIX_I8, MATRIX_I4, N_MATRIX_FORMATS };

/* Kernels that are predicted alike: decode's products, those of chosen experts, attention, what else it launches; prefill's products,
 * attention and the rest; and whole steps, of which only the error is given. */
enum prediction_kind { PREDICT_PRODUCTS, PREDICT_EXPERTS, PREDICT_ATTENTION, PREDICT_OTHERS, PREDICT_PREFILL, PREDICT_PREFILL_ATTENTION,
                       PREDICT_PREFILL_OTHERS, PREDICT_TOKEN, PREDICT_PROMPT, N_PREDICTIONS };
extern const char *const prediction_name[N_PREDICTIONS];

/* Constants of compiler/plan/cost.h, and how far they may be trusted; 0: not given. */
struct prediction {
    double   start_us, chain_us, row_us;
    double   bandwidth_gb_s;          /* 0: the target's */
    double   strided;                 /* of the bandwidth, where rows begin a multiple of stride_bytes apart */
    double   rate_tops;               /* operations in a picosecond */
    double   clocks, copied;          /* prefill's products: times the estimate of their tiles (gpu/tiles.h), decoded and copied weights */
    double   error_percent;           /* mean of |predicted - measured| / measured over kernels that the constants were not fitted to */
    uint32_t held_out;                /* of them; 0: nothing is known of the error */
    const char *held_out_source;
    double   least_bytes;             /* of the smallest measured kernel */
};

struct profile {
    const char      *name;            /* "x86-64-v4" */
    const char      *description;
    const char      *path;            /* for messages */
    enum target_kind kind;
    const struct simd *simd;          /* CPU */
    enum matrix_unit matrix_unit;     /* CPU */
    const char      *triple;          /* of the program (GPU: of its host side): clang --target=..., e.g. "x86_64-linux-gnu" */
    const char      *elf_machine;     /* of the program: "x86_64", "aarch64"; objects also "riscv64", "riscv32", "arm"; "wasm32" */
    bool             bare;            /* CPU; `system: none`: neither an operating system nor a C library, so objects but no executables */
    bool             web;             /* CPU; `system: web`: bare, but that a folder for pages stands for an executable (product/web.h) */
    const char      *cflags[PROFILE_MAX_FLAGS + 1];     /* NULL-terminated, for the kernels: "-march=x86-64-v4", ...; where bare for all
                                       * sources, as they choose the calling convention */
    const char      *features[PROFILE_MAX_FLAGS + 1];   /* NULL-terminated names as in runtime/device/cpu_features.def; checked at start */
    struct place     system_at, simd_at, gemm_groups_at;  /* where they stand, or what asks for them; for messages */
    uint32_t         piece_bytes;     /* web: most of a file of weights */
    uint64_t         binding_bytes;   /* webgpu: most that a kernel binds of one matrix */
    uint32_t         page_bytes;      /* largest page size the ELF file must be aligned to; bare: may be 0 */
    struct {                          /* CPU; prefill_chunk: both kinds */
        uint32_t gemm_tokens;         /* tokens per register tile of the prefill GEMM */
        uint32_t gemm_groups;         /* 16-row groups per register tile */
        uint32_t prefill_chunk;       /* tokens per prefill step */
        uint32_t prefill_few;         /* steps of up to so many read rows as decode does; 0: none */
        uint32_t attention_block;     /* KV positions per streaming-softmax block, multiple of 64 */
    } tile;
    struct { uint64_t l1d_bytes, l2_bytes, l3_bytes; } cache;
    double bandwidth_gb_s;            /* what reading memory reaches, from the YAML; predictions only; 0 = unknown */

    /* ---- TARGET_GPU from here on; of TARGET_WEBGPU, which for its text is a CPU of WebAssembly, lds_bytes and gpu ---- */
    const char *api;                  /* "hip", "cuda"; "host": C for the lanes of tests/lanes */
    const char *arch;                 /* "gfx1151", "sm_90", "simt" */
    uint32_t    family;               /* FAMILY_* (family.h): whose kernels; api host: whose fragments */
    struct place family_at, arch_at;  /* for messages; family_at without a file: none was given */
    uint32_t    wave;                 /* lanes of a wave: 32 or 64 */
    struct place wave_at;             /* for messages */
    uint32_t    compute_units;        /* CUs (RDNA: half a WGP each) or SMs */
    uint32_t    simds;                /* of a compute unit; sm_90: its quadrants */
    uint32_t    waves;                /* most waves of a SIMD at once */
    uint32_t    vgprs;                /* 32-bit registers a SIMD has for one lane, shared by its waves */
    uint32_t    vgpr_granule;         /* a wave gets a multiple of this */
    uint32_t    vgprs_most;           /* that one wave can have */
    uint32_t    lds_bytes;            /* most that one group can ask for */
    uint64_t    memory_bytes;         /* of the device; messages only */
    double      bandwidth_peak_gb_s;  /* by specification */
    struct {                          /* of memory, for what the simulator counts (simulator/channels.c); count 0: not given */
        uint32_t count, interleave;   /* runs of interleave bytes lie in them in turn */
        uint32_t window;              /* bytes that are under way at a time */
        double   in_step;             /* bytes of a launch that waves read before they have drifted apart */
    } channels;
    uint32_t    row_period;           /* bytes; rows of packed weights a multiple of it long get a few more (templates/gpu/row_stride.h); 0:
                                       * none do.  Programs that share weights share it (build.c) */
    double      launch_us;            /* from the end of a kernel to the start of the next in a replayed graph; predictions only */
    uint32_t    activation_digits;    /* of decode's integer products: 1 = 8 bits, 2 = 16 bits */
    const char *load_hint;            /* for weights: "plain", "stream" (not kept in caches) */
    bool        dependent_launch;     /* kernels start early and wait for their predecessor themselves (pdl_wait) */
    bool        cluster;              /* groups of a launch can reach each other's LDS */
    bool        graph;                /* decode is captured and replayed */
    struct {                          /* AMD: most that a compute unit does in a clock, for least times (least_times.h) and tiles
                                       * (gpu/tiles.h); 0: not given */
        double clock_ghz;
        double vector;                /* vector instructions of waves */
        double transcendental, multiply, f64;       /* of those instructions: issues that an f32 transcendental, a 32-bit multiplication,
                                                     * f64 count as */
        bool   transcendental_apart;  /* transcendentals have a unit beside the rest of the vector ALU */
        double matrix[N_MATRIX_FORMATS];            /* FLOP */
        double lds_bytes;
    } rates;
    struct {
        struct prediction of[N_PREDICTIONS];
        double latency_us;            /* of a load while memory is busy */
        double stride_bytes;
    } prediction;
    const char *dot[PROFILE_MAX_FLAGS + 1];         /* NULL-terminated: the instructions that integer products must show in the */
    const char *matrix[PROFILE_MAX_FLAGS + 1];      /* assembly, and those of prefill; any of each; tests only */
    struct {
        uint32_t gemv_threads, gemv_groups;         /* of a group; groups per compute unit */
        uint32_t gemv_rows, gemv_lanes;             /* rows that so many lanes work on at once */
        uint32_t gemv_depth;                        /* units per lane, row and step; 0: the template's choice */
        uint32_t attention_splits;                  /* groups wanted for decode's attention in all: a KV head is split into ceil(this /
                                                     * n_head_kv) */
        uint32_t attention_groups;                  /* that run at once, wanted with a long context; 0: no spans */
        uint32_t attention_span;                    /* of a span, at least: KiB of keys and values that each of its groups reads */
        uint32_t attention_threads;
        uint32_t attention_prefill_threads;
        uint32_t gemm_tokens, gemm_rows;            /* tile of a group; smaller ones where they fill the compute units better
                                                     * (gpu/tiles.h) */
        uint32_t gemm_fit;                          /* in steps of up to so many tokens */
        uint32_t gemm_fit_experts;                  /* the same of products with experts, in tokens that one has in the mean */
        uint32_t gemm_threads, gemm_groups;         /* of a group, and groups per compute unit, where there are more tiles than compute
                                                     * units */
        uint32_t gemm_unit_steps;                   /* of 64 columns whose packed weights a group loads and decodes together */
        uint32_t gemm_few_threads;                  /* of a group alone on its compute unit, where there are not */
        uint32_t stage_threads;                     /* rows prepared for prefill's products */
        uint32_t sample_groups, sample_threads;
        uint32_t prefill_chunk;                     /* = tile.prefill_chunk */
    } gpu;
    const struct yaml *tuned;                       /* the file whose tiles these are (profile_load_tuned); NULL: the target's own */
    struct place gpu_at[PROFILE_MAX_TILES];         /* where those values stand, in the order of profile.c's table; for messages */
};

/* name: a built-in profile, "native" (this machine), or a path ending in .yaml.  Unknown keys, wrong types and unknown
 * names die with line and column, or the list of names.  directory: --targets DIR, or NULL for the built-in ones. */
struct profile *profile_load(struct arena *a, const char *name, const char *directory);
/* The same with the tiles of a file that `forgec tune` wrote in the place of the target's own; NULL: without. */
struct profile *profile_load_tuned(struct arena *a, const char *name, const char *directory, const char *tuned);
/* Names of all profiles that can be built for (not marked `base`), sorted, NULL-terminated. */
const char **profile_names(struct arena *a, const char *directory);
/* As elf_machine: what forgec itself runs on. */
const char *profile_host_machine(void);
/* Can a program built for p run here?  NULL if so, else the reason ("this CPU has no avx512vnni", "no /dev/kfd: ...").  GPUs: whether the
 * driver's library and device are there; $FORGE_HIP_LIBRARY and $FORGE_CUDA_LIBRARY name another library, which then stands for the
 * device. */
const char *profile_unsupported_here(struct arena *a, const struct profile *p);
/* The key of `rates` that p lacks for least times, "rates: clock", or NULL. */
const char *profile_missing_rate(const struct profile *p);
/* "f16", "f8", ...: as in the keys matrix_f16 and so on. */
extern const char *const matrix_format_name[N_MATRIX_FORMATS];
/* Why no executable can be built for p, or NULL. */
const char *profile_no_executable(struct arena *a, const struct profile *p);
#endif
