/* target.h -- a target: targets/NAME.yaml as a struct. Every number in the YAML has a unit and a source. */
#ifndef FORGEC_TARGET_H
#define FORGEC_TARGET_H
#include "base.h"
#include "yaml.h"

/* The vector code of CPU kernels: templates/cpu/dot_<name>.h, FORGE_SIMD_<NAME>. machine: the architecture of its instructions; NULL: plain
 * C for any machine. */
struct simd { const char *name, *machine; };
enum { SIMD_COUNT = 5 };
extern const struct simd simd_table[SIMD_COUNT];
/* How products of bfloat16 rows are computed (templates/cpu/tiles.h). It decides which products read such rows (compiler/cpu/choose.c). */
enum matrix_unit { MATRIX_NONE, MATRIX_DOT, MATRIX_TILES, MATRIX_COUNT };
extern const char *const matrix_unit_name[MATRIX_COUNT];

enum target_kind { TARGET_CPU, TARGET_GPU, TARGET_WEBGPU };
enum { TARGET_MAX_FLAGS = 24, TARGET_MAX_TILES = 24 };
/* Maximum threads of a workgroup, a power of two; every WebGPU adapter supports this number. */
enum { WEBGPU_MOST_THREADS = 256 };
/* Formats of the operands of matrix instructions; MATRIX_F16 stands for bf16, too. */
enum matrix_format { MATRIX_F16, MATRIX_F8, MATRIX_F32, MATRIX_I8, MATRIX_I4, N_MATRIX_FORMATS };

/* Kinds of kernels with constants of their own. Decode: products, products of chosen experts, attention, other kernels. Prefill: products,
 * attention, other kernels. TOKEN and PROMPT are whole steps, for which only the error is given. */
enum prediction_kind { PREDICT_PRODUCTS, PREDICT_EXPERTS, PREDICT_ATTENTION, PREDICT_OTHERS, PREDICT_PREFILL, PREDICT_PREFILL_ATTENTION,
                       PREDICT_PREFILL_OTHERS, PREDICT_TOKEN, PREDICT_PROMPT, N_PREDICTIONS };
extern const char *const prediction_name[N_PREDICTIONS];

/* Constants for compiler/plan/cost.h and their error; 0: not given. */
struct prediction {
    double   start_us, chain_us, row_us;
    double   bandwidth_gb_s;          /* 0: the target's */
    double   strided;                 /* fraction of the bandwidth that is left if rows begin a multiple of stride_bytes apart */
    double   rate_tops;               /* operations per picosecond */
    double   clocks, copied;          /* prefill's products: factors on the estimate of gpu/tiles.h, for decoded and copied weights */
    double   error_percent;           /* mean of |predicted - measured| / measured over kernels that the constants were not fitted to */
    uint32_t held_out;                /* number of these kernels; 0: the error is unknown */
    const char *held_out_source;
    double   least_bytes;             /* bytes of the smallest measured kernel */
};

struct target {
    const char      *name;            /* "x86-64-v4" */
    const char      *description;
    const char      *path;            /* for messages */
    enum target_kind kind;
    const struct simd *simd;          /* CPU */
    enum matrix_unit matrix_unit;     /* CPU */
    const char      *triple;          /* of the program (GPU: of its host code): clang --target=..., e.g. "x86_64-linux-gnu" */
    const char      *elf_machine;     /* of the program: "x86_64", "aarch64"; for objects also "riscv64", "riscv32", "arm"; "wasm32" */
    bool             bare;            /* CPU; `system: none`: no operating system and no C library, so objects but no executables */
    bool             web;             /* CPU; `system: web`: bare, but makes a folder for pages instead of an executable (product/web.h) */
    const char      *cflags[TARGET_MAX_FLAGS + 1];      /* NULL-terminated, for kernels: "-march=x86-64-v4", ...; on bare targets for all
                                       * sources, because they choose the calling convention */
    const char      *features[TARGET_MAX_FLAGS + 1];    /* NULL-terminated names from runtime/device/cpu_features.def; checked at start */
    struct place     system_at, simd_at, gemm_groups_at;  /* places of these values, or of what requires them; for messages */
    uint32_t         piece_bytes;     /* web: maximum size of a file of weights */
    uint64_t         binding_bytes;   /* webgpu: maximum bytes of one matrix that a kernel binds */
    uint32_t         page_bytes;      /* largest page size the ELF file must be aligned to; bare: may be 0 */
    struct {                          /* CPU; prefill_chunk: CPU and GPU */
        uint32_t gemm_tokens;         /* tokens per register tile of the prefill GEMM */
        uint32_t gemm_groups;         /* 16-row groups per register tile */
        uint32_t prefill_chunk;       /* tokens per prefill step */
        uint32_t prefill_few;         /* steps of up to this many tokens read weight rows as decode does; 0: none */
        uint32_t attention_block;     /* KV positions per streaming-softmax block, multiple of 64 */
    } tile;
    struct { uint64_t l1d_bytes, l2_bytes, l3_bytes; } cache;
    double bandwidth_gb_s;            /* reached when reading memory, from the YAML; for predictions only; 0: unknown */

    /* ---- TARGET_GPU from here on. TARGET_WEBGPU uses only lds_bytes and gpu; its text is processed by a CPU target, WebAssembly. ---- */
    const char *api;                  /* "hip", "cuda"; "host": C for the lanes of tests/lanes */
    const char *arch;                 /* "gfx1151", "sm_90", "simt" */
    uint32_t    family;               /* FAMILY_* (family.h): selects the kernels; api host: the matrix fragments */
    uint32_t    least_driver;         /* HIP: 100 * major + minor of the first version that supports the chip; 0: not given */
    struct place family_at, arch_at;  /* for messages; family_at without a file: no family was given */
    uint32_t    wave;                 /* lanes of a wave: 32 or 64 */
    struct place wave_at;             /* for messages */
    uint32_t    compute_units;        /* CUs (RDNA: half a WGP each) or SMs */
    uint32_t    simds;                /* per compute unit; sm_90: its quadrants */
    uint32_t    waves;                /* maximum waves of a SIMD at once */
    uint32_t    vgprs;                /* 32-bit registers a SIMD has for one lane, shared by its waves */
    uint32_t    vgpr_granule;         /* registers are allocated to a wave in multiples of this */
    uint32_t    vgprs_most;           /* maximum of one wave */
    uint32_t    lds_bytes;            /* maximum of one workgroup */
    uint64_t    memory_bytes;         /* of the device; for messages only */
    double      bandwidth_peak_gb_s;  /* by specification */
    struct {                          /* memory channels, which the simulator counts (simulator/channels.c); count 0: not given */
        uint32_t count, interleave;   /* successive runs of `interleave` bytes lie in successive channels */
        uint32_t window;              /* bytes in flight at a time */
        double   in_step;             /* bytes of a launch that waves read before they have drifted apart */
    } channels;
    uint32_t    row_period;           /* bytes; packed weight rows whose size is a multiple of it are padded (templates/gpu/row_stride.h);
                                       * 0: no padding.  Programs that share weights must have the same value (build.c) */
    double      launch_us;            /* from the end of a kernel to the start of the next in a replayed graph; for predictions only */
    uint32_t    activation_digits;    /* of decode's integer products: 1 = 8 bits, 2 = 16 bits */
    const char *load_hint;            /* for weights: "plain", "stream" (not kept in caches) */
    bool        dependent_launch;     /* kernels start early and wait for their predecessor themselves (pdl_wait) */
    bool        cluster;              /* workgroups of a launch can access each other's LDS */
    bool        graph;                /* decode is captured and replayed */
    struct {                          /* AMD: maximum rates of a compute unit per clock, for least times (least_times.h) and tiles
                                       * (gpu/tiles.h); 0: not given */
        double clock_ghz;
        double vector;                /* vector instructions of waves */
        double transcendental, multiply, f64;       /* vector issue slots of an f32 transcendental, a 32-bit multiplication, an f64
                                                     * instruction */
        bool   transcendental_apart;  /* transcendentals have a unit of their own beside the vector ALU */
        double matrix[N_MATRIX_FORMATS];            /* FLOP */
        double lds_bytes;
    } rates;
    struct {
        struct prediction of[N_PREDICTIONS];
        double latency_us;            /* of a load under memory load */
        double stride_bytes;
    } prediction;
    const char *dot[TARGET_MAX_FLAGS + 1];          /* NULL-terminated; for tests: the assembly of integer products (dot) and of prefill */
    const char *matrix[TARGET_MAX_FLAGS + 1];       /* (matrix) must have at least one of these instructions */
    struct {
        uint32_t gemv_threads, gemv_groups;         /* threads of a workgroup; workgroups per compute unit */
        uint32_t gemv_rows, gemv_lanes;             /* gemv_lanes lanes work on gemv_rows rows at once */
        uint32_t gemv_depth;                        /* units per lane, row and step; 0: the template's choice */
        uint32_t attention_splits;                  /* workgroups wanted for decode's attention in total: a KV head is split into
                                                     * ceil(attention_splits / n_head_kv) */
        uint32_t attention_groups;                  /* workgroups that should run at once with a long context; 0: no spans */
        uint32_t attention_full_groups;             /* the same in clusters of the largest size */
        uint32_t attention_span;                    /* minimum span: KiB of keys and values that each of its workgroups reads */
        uint32_t attention_threads;
        uint32_t attention_prefill_threads;
        uint32_t gemm_tokens, gemm_rows;            /* tile of a workgroup; smaller tiles if they fill the compute units better
                                                     * (gpu/tiles.h) */
        uint32_t gemm_fit;                          /* smaller tiles are tried in steps of up to this many tokens */
        uint32_t gemm_fit_experts;                  /* the same for products with experts, in tokens that an expert has on average */
        uint32_t gemm_threads, gemm_groups;         /* threads of a workgroup, and workgroups per compute unit, if there are more tiles
                                                     * than compute units */
        uint32_t gemm_unit_steps;                   /* steps of 64 columns whose packed weights a workgroup loads and decodes together */
        uint32_t gemm_few_threads;                  /* threads of a workgroup if each has a compute unit to itself */
        uint32_t stage_threads;                     /* kernels that prepare rows for prefill's products */
        uint32_t sample_groups, sample_threads;
        uint32_t prefill_chunk;                     /* = tile.prefill_chunk */
    } gpu;
    const struct yaml *tuned;                       /* the file whose tiles these are (target_load_tuned); NULL: the target's own */
    struct place gpu_at[TARGET_MAX_TILES];          /* places of the values in gpu, in the order of target.c's table; for messages */
};

/* name: a built-in target, "native" (this machine), or a path ending in .yaml. Dies on unknown keys and wrong types, with line and column,
 * and on unknown names, with the list of names. directory: --targets DIR, or NULL for the built-in targets. */
struct target *target_load(struct arena *a, const char *name, const char *directory);
/* The same, with the tiles of a file that `forgec tune` wrote instead of the target's own; tuned NULL: no such file. */
struct target *target_load_tuned(struct arena *a, const char *name, const char *directory, const char *tuned);
/* Names of all targets except those marked `base`, which only other targets inherit; sorted, NULL-terminated. */
const char **target_names(struct arena *a, const char *directory);
/* The machine that forgec itself runs on, as in elf_machine. */
const char *target_host_machine(void);
/* NULL if a program built for p can run here, else the reason ("this CPU has no avx512vnni", "no /dev/kfd: ..."). For GPUs it checks the
 * driver's library and device. $FORGE_HIP_LIBRARY and $FORGE_CUDA_LIBRARY name another library; then no device is required. */
const char *target_unsupported_here(struct arena *a, const struct target *p);
/* The target of a GPU in this machine, such as "gfx1151", found by sysfs alone (KFD's topology, then PCI ids); NULL: no GPU has a target.
 * root: "", or a directory used instead of /. */
const char *target_gpu_here(struct arena *a, const char *root);
/* The key of `rates` that p lacks for least times, "rates: clock", or NULL. */
const char *target_missing_rate(const struct target *p);
/* "f16", "f8", ...: as in the keys matrix_f16, ... */
extern const char *const matrix_format_name[N_MATRIX_FORMATS];
/* Why no executable can be built for p, or NULL. */
const char *target_no_executable(struct arena *a, const struct target *p);
#endif
