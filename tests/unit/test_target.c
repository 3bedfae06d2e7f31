/* test_target.c -- the targets of targets/ (YAML) as structs, and the messages for malformed targets. */
#include "compiler/base/family.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
/* cmocka.h needs the above */
#include <cmocka.h>

#include "scratch.h"

static jmp_buf escape;
static char    message[2048];

static void on_die(const char *text)
{
    snprintf(message, sizeof message, "%s", text);
    longjmp(escape, 1);
}

static void known_targets(void **state)
{
    (void)state;
    struct arena  *a = arena_create();
    struct target *p = target_load(a, "x86-64-v4", NULL);
    assert_string_equal(p->simd->name, "avx512");
    assert_string_equal(p->triple, "x86_64-linux-gnu");
    assert_string_equal(p->elf_machine, "x86_64");
    assert_int_equal(p->page_bytes, 4096);
    assert_int_equal(p->tile.gemm_tokens, 12);
    assert_int_equal(p->tile.gemm_groups, 2);
    assert_int_equal(p->tile.prefill_chunk, 128);        /* inherited */
    assert_int_equal(p->tile.attention_block, 64);
    assert_int_equal(p->cache.l2_bytes, 1 << 20);
    assert_true(p->bandwidth_gb_s > 1);
    assert_string_equal(p->cflags[0], "-march=x86-64-v4");
    p = target_load(a, "x86-64-v3", NULL);
    assert_string_equal(p->simd->name, "avx2");
    assert_int_equal(p->tile.gemm_groups, 1);
    p = target_load(a, "aarch64", NULL);
    assert_string_equal(p->simd->name, "neon");
    assert_int_equal(p->page_bytes, 65536);
    p = target_load(a, "aarch64-v8.6", NULL);
    assert_string_equal(p->simd->name, "neon");
    assert_int_equal(p->matrix_unit, MATRIX_DOT);
    assert_int_equal(p->page_bytes, 65536);              /* inherited */
    p = target_load(a, "portable", NULL);
    assert_string_equal(p->simd->name, "c");
    assert_null(p->cflags[0]);
    assert_null(target_unsupported_here(a, p));
    arena_destroy(a);
}

/* Bare metal: other triples, flags for the calling convention, no executables. */
static void bare_targets(void **state)
{
    (void)state;
    static const struct { const char *name, *machine, *triple, *simd, *flag; } rows[] = {
        { "aarch64-none", "aarch64", "aarch64-none-elf",            "neon", "-march=armv8-a" },
        { "riscv64",      "riscv64", "riscv64-none-elf",            "c",    "-march=rv64gc" },
        { "riscv64-v",    "riscv64", "riscv64-none-elf",            "c",    "-march=rv64gcv" },
        { "cortex-m7",    "arm",     "thumbv7em-none-eabihf",       "c",    "-mcpu=cortex-m7" },
        { "cortex-m55",   "arm",     "thumbv8.1m.main-none-eabihf", "c",    "-mcpu=cortex-m55+nolob" },
    };
    struct arena *a = arena_create();
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const struct target *p = target_load(a, rows[i].name, NULL);
        assert_true(p->bare);
        assert_string_equal(p->elf_machine, rows[i].machine);
        assert_string_equal(p->triple, rows[i].triple);
        assert_string_equal(p->simd->name, rows[i].simd);
        assert_string_equal(p->cflags[0], rows[i].flag);
        assert_null(p->features[0]);
        assert_non_null(strstr(target_unsupported_here(a, p), p->web ? "WebAssembly" : "bare metal"));
        if (p->web) assert_null(target_no_executable(a, p));                     /* a folder replaces it */
        else assert_non_null(strstr(target_no_executable(a, p), rows[i].name));
    }
    const struct target *linux_one = target_load(a, "aarch64", NULL);
    assert_false(linux_one->bare);
    assert_null(target_no_executable(a, linux_one));
    arena_destroy(a);
}

static void known_gpus(void **state)
{
    (void)state;
    struct arena   *a = arena_create();
    struct target *p = target_load(a, "gfx1151", NULL);
    assert_int_equal(p->kind, TARGET_GPU);
    assert_string_equal(p->api, "hip");
    assert_string_equal(p->arch, "gfx1151");
    assert_string_equal(p->elf_machine, "x86_64");
    assert_string_equal(p->triple, "x86_64-linux-gnu");
    assert_null(p->simd);
    assert_int_equal(p->wave, 32);
    assert_int_equal(p->compute_units, 40);
    assert_int_equal(p->lds_bytes, 65536);
    assert_int_equal(p->vgprs, 1536);
    assert_int_equal(p->page_bytes, 4096);
    assert_int_equal(p->gpu.prefill_chunk, 2048);
    assert_int_equal(p->tile.prefill_chunk, 2048);
    assert_int_equal(p->gpu.gemv_depth, 0);
    assert_true(p->graph);
    assert_false(p->dependent_launch);
    assert_true(p->bandwidth_gb_s < p->bandwidth_peak_gb_s);
    assert_string_equal(p->dot[0], "v_dot4_i32_iu8");
    assert_null(p->dot[1]);
    p = target_load(a, "gfx942", NULL);
    assert_int_equal(p->wave, 64);
    assert_int_equal(p->gpu.gemv_rows, 4);
    assert_int_equal(p->compute_units, 304);
    p = target_load(a, "sm_90", NULL);
    assert_string_equal(p->api, "cuda");
    assert_int_equal(p->lds_bytes, 232448);
    assert_int_equal(p->gpu.gemv_threads, 512);
    assert_true(p->dependent_launch);
    assert_true(p->cluster);
    assert_true(p->bandwidth_gb_s > 4590 && p->bandwidth_gb_s < 4610);
    p = target_load(a, FORGEC_SOURCE_DIR "/tests/lanes/simt64.yaml", NULL);
    assert_string_equal(p->api, "host");
    assert_int_equal(p->family, FAMILY_CDNA3);
    assert_string_equal(p->name, "simt64");
    arena_destroy(a);
}

/* A library named in the environment replaces the device; without a library there is a reason. */
static void gpus_here(void **state)
{
    (void)state;
    if (strcmp(target_host_machine(), "x86_64")) skip();
    struct arena *a = arena_create();
    struct target *amd = target_load(a, "gfx1151", NULL), *host = target_load(a, FORGEC_SOURCE_DIR "/tests/lanes/simt32.yaml", NULL);
    unsetenv("FORGE_HIP_LIBRARY");
    assert_non_null(strstr(target_unsupported_here(a, host), "FORGE_HIP_LIBRARY"));
    if (access("/dev/kfd", F_OK)) assert_non_null(strstr(target_unsupported_here(a, amd), "/dev/kfd"));
    if (access("/dev/nvidiactl", F_OK))
        assert_non_null(strstr(target_unsupported_here(a, target_load(a, "sm_90", NULL)), "/dev/nvidiactl"));
    setenv("FORGE_HIP_LIBRARY", "/nowhere/libamdhip64.so", 1);
    assert_non_null(strstr(target_unsupported_here(a, amd), "cannot be opened"));
    setenv("FORGE_HIP_LIBRARY", "libc.so.6", 1);
    assert_null(target_unsupported_here(a, amd));
    unsetenv("FORGE_HIP_LIBRARY");
    arena_destroy(a);
}

static void all_names_load(void **state)
{
    (void)state;
    struct arena *a = arena_create();
    const char  **names = target_names(a, NULL);
    size_t count = 0;
    for (; names[count]; count++) {
        assert_string_not_equal(names[count], "cpu");
        assert_string_not_equal(names[count], "gfx11");
        assert_string_equal(target_load(a, names[count], NULL)->name, names[count]);
        if (count) assert_true(strcmp(names[count - 1], names[count]) < 0);
    }
    assert_true(count >= 8);
    arena_destroy(a);
}

static void native_runs_here(void **state)
{
    (void)state;
    struct arena   *a = arena_create();
    struct target *p = target_load(a, "native", NULL);
    assert_null(target_unsupported_here(a, p));
    assert_string_not_equal(p->name, "native");
    assert_int_equal(p->kind, TARGET_CPU);
    arena_destroy(a);
}

static void foreign_machine_is_named(void **state)
{
    (void)state;
    struct arena *a = arena_create();
#ifdef __aarch64__
    const char *why = target_unsupported_here(a, target_load(a, "x86-64-v3", NULL));
#else
    const char *why = target_unsupported_here(a, target_load(a, "aarch64", NULL));
#endif
    assert_non_null(why);
    assert_non_null(strstr(why, "this machine is"));
    arena_destroy(a);
}

/* Loads text as a separate file; returns die()'s message, or "" if it loaded. */
static const char *verdict(struct arena *a, const char *text)
{
    char path[] = "/tmp/forgec-test-XXXXXX.yaml";
    const int fd = mkstemps(path, 5);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (int)strlen(text));
    close(fd);
    message[0] = 0;
    die_handler = on_die;
    if (!setjmp(escape)) target_load(a, path, NULL);
    die_handler = NULL;
    unlink(path);
    return message;
}

static void bad_files(void **state)
{
    (void)state;
    static const struct { const char *text, *expected; } rows[] = {
        { "inherits: x86-64-v3\n", "" },
        { "inherits: x86-64-v3\nwave: 32\n", ":2:1: " },
        { "inherits: nowhere\n", "unknown target nowhere" },
        { "inherits: ../../etc/passwd\n", "unknown target ../../etc/passwd" },
        { "inherits: x86-64-v3\nsimd: mmx\n", "known: c, avx2, avx512, neon" },
        { "inherits: x86-64-v3\nmatrix: amx\n", "known: none, dot, tiles" },
        { "inherits: x86-64-v3\nmatrix: tiles\n", "gemm_groups is 1" },
        { "inherits: sapphire-rapids\ntiles: {gemm_groups: 4}\n", ":2:22: matrix: tiles multiplies two groups" },
        { "inherits: gfx1151\nmatrix: tiles\n", "\"matrix\" is unknown" },
        { "inherits: x86-64-v3\ntiles: {attention_block: 80}\n", ":2:26: attention_block is 80; it must be a multiple of 64" },
        { "inherits: x86-64-v3\ntiles: {gemm_tokens: 0}\n", "out of range" },
        { "inherits: x86-64-v3\ntiles: {gemm_tokens: 3}\n", "out of range (4 to 64)" },
        { "inherits: x86-64-v3\nbandwidth: 25\n", "expected {value" },
        { "inherits: x86-64-v3\nbandwidth: {value: 25, unit: furlong, source: x}\n", "unknown unit furlong" },
        { "inherits: x86-64-v3\nbandwidth: {value: 25, unit: GB/s}\n", "source" },
        { "inherits: x86-64-v3\nbandwidth: {value: nan, unit: GB/s, source: x}\n", "nan" },
        { "inherits: x86-64-v3\npage: {value: 3, unit: KiB, source: x}\n", "power of two" },
        { "inherits: x86-64-v3\ncflags: -O3\n", "expected a list" },
        { "inherits: x86-64-v3\ntriple: x86_64-linux-musl\n", "" },
        { "inherits: x86-64-v3\ntriple: ../x-y\n", ":2:9: ../x-y is not a triple" },
        { "inherits: x86-64-v3\ntriple: \"x86_64-linux gnu\"\n", "is not a triple" },
        { "inherits: x86-64-v3\ntriple: x86\n", "is not a triple" },
        { "inherits: x86-64-v3\nfeatures: [avx2, \"a\\\"b\"]\n", ":2:18: unknown value a\\x22b; known: sse4_2, popcnt" },
        { "inherits: x86-64-v3\nfeatures: [asimd]\n", "" },
        { "inherits: x86-64-v3\ndescription: \"a\\nb\"\n", ":2:14: this text has a line end" },
        { "inherits: x86-64-v3\ndescription: \"a\\x9bb\"\n", ":2:14: this text contains U+009B" },
        { "inherits: x86-64-v3\n\xe2\x80\xaetiles: {}\n", ":2:1: this text contains U+202E" },
        { "inherits: cpu\n", "machine is missing" },
        { "inherits: x86-64-v3\nsystem: none\n", "" },
        { "inherits: x86-64-v3\nsystem: windows\n", "known: linux, none" },
        { "inherits: cpu\nmachine: riscv32\nsystem: none\nsimd: c\n", "" },
        { "inherits: cpu\nmachine: x86_64\nsystem: web\nsimd: c\npiece: {value: 1, unit: MiB, source: x}\n",
          ":3:9: system: web and machine: wasm32 belong together" },
        { "inherits: wasm32\nsystem: none\n", "belong together" },
        { "inherits: wasm32\npiece: {value: 1, unit: KiB, source: x}\n",
          ":2:8: a piece of weights of 1024 bytes is out of range (4 KiB to 1 GiB)" },
        { "inherits: webgpu\nbinding: {value: 1, unit: GiB, source: x}\n", "" },
        { "inherits: webgpu\nbinding: {value: 8, unit: GiB, source: x}\n",
          ":2:10: a binding of 8589934592 bytes is out of range (4 KiB to 4 GiB)" },
        { "inherits: webgpu\nbinding: {value: 4095, unit: B, source: x}\n",
          ":2:10: a binding of 4095 bytes is out of range (4 KiB to 4 GiB)" },
        { "inherits: wasm32\nbinding: {value: 1, unit: GiB, source: x}\n", "key \"binding\" is unknown here" },
        { "inherits: cpu\nmachine: mips\n", "known: x86_64, aarch64, riscv64, riscv32, arm, wasm32, host" },
        { "inherits: gfx1151\nsystem: none\n", ":2:1: " },
        { "inherits: gfx1151\ndriver: {least: 7.2, source: x}\n", "" },
        { "inherits: gfx1151\ndriver: {least: seven, source: x}\n", ":2:17: this is not a version of HIP; write two numbers" },
        { "inherits: gfx1151\ndriver: {least: 7.2.1, source: x}\n", "two numbers" },
        { "inherits: gfx1151\ndriver: {least: 7.2}\n", "source" },
        { "inherits: gfx1151\ntiles: {gemv_rows: 4}\n", "" },
        { "inherits: gfx11\n", "tiles: gemv_threads is missing" },
        { "inherits: gfx1151\nsimd: avx2\n", ":2:1: " },
        { "inherits: x86-64-v3\narch: gfx1151\n", ":2:1: " },
        { "inherits: gfx1151\nkind: cpu\n", ":2:7: a target of kind cpu cannot inherit a target of another kind" },
        { "inherits: gfx1151\ntiles: {attention_block: 64}\n", "attention_block" },
        { "inherits: gfx1151\ntiles: {gemm_rows: 24}\n", "multiple of 16" },
        { "inherits: gfx1151\ntiles: {gemv_lanes: 24}\n", "power of two" },
        { "inherits: gfx1151\ntiles: {gemv_lanes: 4}\n", "4 is out of range (8 to 64)" },
        { "inherits: gfx1151\ntiles: {gemv_lanes: 64}\n", "up to the wave's 32 lanes" },
        { "inherits: gfx1151\ntiles: {gemv_rows: 3}\n", "gemv_rows is 3; it must be a power of two" },
        { "inherits: gfx1151\ntiles: {gemv_groups: 8}\n", "are 64 waves; a compute unit holds 32" },
        { "inherits: gfx1151\ntiles: {gemm_tokens: 48}\n",
          ":2:22: gemm_tokens, 48, are shared by 2 of the waves of gemm_threads, 256; each must get a multiple of 16" },
        { "inherits: gfx1151\ntiles: {gemm_tokens: 96, gemm_rows: 256, gemm_threads: 512}\n",
          "8 times gemm_tokens, 96, must be a multiple of it" },
        { "inherits: gfx1151\ntiles: {gemm_rows: 64}\n",
          ":2:20: gemm_rows, 64, are shared by 4 of the waves of gemm_threads, 256; each must get a multiple of 32" },
        { "inherits: gfx1151\ntiles: {gemm_threads: 160}\n",
          ":2:23: gemm_threads is 160, which are 5 waves; 4 or more must be an even number" },
        { "inherits: gfx1151\ntiles: {gemm_few_threads: 512}\n", ":2:27: gemm_rows, 128, are shared by 8 of the waves" },
        { "inherits: gfx1151\ntiles: {gemm_groups: 8}\n", ":2:22: 8 groups of gemm_threads, 256, are 64 waves; a compute unit holds 32" },
        { "inherits: gfx1151\ntiles: {gemm_tokens: 512}\n",
          ":2:22: a tile of gemm_tokens, 512, and gemm_rows, 128, needs 81920 bytes of LDS; a group has 65536" },
        { "inherits: sm_90\ntiles: {gemm_tokens: 512, gemm_rows: 256}\n", "needs 262144 bytes of LDS; a group has 232448" },
        { "inherits: gfx1151\ntiles: {attention_prefill_threads: 96}\n",
          ":2:36: attention_prefill_threads is 96; it must be a power of two up to 256" },
        { "inherits: gfx1151\ntiles: {attention_prefill_threads: 512}\n", "power of two up to 256" },
        { "inherits: gfx942\ntiles: {attention_prefill_threads: 512}\n", "" },
        { "inherits: gfx942\ntiles: {stage_threads: 96}\n", "not a multiple of the wave's 64 lanes" },
        { "inherits: gfx942\nwave: 48\n", "must be 32 or 64" },
        { "inherits: gfx942\nwave: 32\n", ":2:7: wave is 32; the kernels of the family cdna3 have waves of 64 lanes" },
        { "inherits: gfx1151\nwave: 64\n", ":2:7: wave is 64; the kernels of the family rdna3 have waves of 32 lanes" },
        { "inherits: aarch64\nsimd: avx2\n", ":2:7: simd avx2 is for machine x86_64; the machine is aarch64" },
        { "inherits: x86-64-v3\nsimd: neon\n", ":2:7: simd neon is for machine aarch64; the machine is x86_64" },
        { "inherits: x86-64-v3\nmachine: aarch64\n", "simd avx2 is for machine x86_64" },
        { "inherits: gfx942\nfamily: rdna4\n", ":2:9: unknown value rdna4; known: rdna3, cdna3, hopper" },
        { "inherits: gfx942\nfamily: rdna3\n", "arch gfx942 is not of the family rdna3 (gfx110x, gfx115x)" },
        { "inherits: gfx1151\narch: gfx1201\n",
          ":2:7: arch gfx1201 is not of the family rdna3 (gfx110x, gfx115x), and forgec has no machine file for others" },
        { "inherits: gfx1100\narch: gfx1101\n", "" },
        { "inherits: sm_90\narch: sm_89\n", "arch sm_89 is not of the family hopper (sm_90 and later)" },
        { "inherits: gfx942\nmemory: {value: 1e12, unit: GiB, source: x}\n", ":2:17: 1e12 is not a plausible value" },
        { "inherits: gfx942\ncluster: true\n", "only targets with api: cuda can have the key cluster" },
        { "inherits: gfx942\narch: sm_90\n", "begin with gfx" },
        { "inherits: gfx942\ngraph: maybe\n", ":2:8: " },
        { "inherits: gfx942\nactivation_digits: 3\n", "out of range (1 to 2)" },
        { "inherits: gfx942\nload_hint: nt\n", "known: plain, stream" },
        { "inherits: gfx942\ncompute_units: 304\n", "expected {value" },
        { "inherits: gfx942\ncompute_units: {value: 30.5, unit: CU, source: x}\n", "whole number" },
        { "inherits: gfx942\nregisters: {lanes: {value: 512, unit: registers, source: x}}\n", "lanes" },
        { "inherits: gfx942\nlaunch: {value: 2, unit: s, source: x}\n", "known: us, ns, ms" },
        { "inherits: gfx942\nrates: {clock: {value: 2100, unit: MHz, source: x}}\n", "" },
        { "inherits: gfx942\nrates: 2\n", ":2:8: expected a map" },
        { "inherits: gfx942\nrates: {clock: 2}\n", "expected {value: ..., unit: GHz" },
        { "inherits: gfx942\nrates: {clock: {value: 0, unit: GHz, source: x}}\n", "0 is not a plausible value" },
        { "inherits: gfx942\nrates: {matrix_f64: {value: 1, unit: FLOP, source: x}}\n", "matrix_f64" },
        { "inherits: x86-64-v3\nrates: {}\n", "rates" },
        { "inherits: gfx942\nprediction: {products: {start: {value: 2, unit: us, source: x}}}\n", "" },
        { "inherits: gfx942\nprediction: {product: {}}\n", "product" },
        { "inherits: gfx942\nprediction: {products: {start: {value: 2, unit: GB/s, source: x}}}\n", "unknown unit GB/s" },
        { "inherits: gfx942\nprediction: {products: {held_out: {value: 1.5, unit: kernels, source: x}}}\n", "whole number" },
        { "inherits: x86-64-v3\nprediction: {}\n", "prediction" },
        { "inherits: gfx942\nchannels: {count: {value: 8, unit: channels, source: x}}\n", ":2:11: channels has no interleave" },
        { "inherits: gfx1151\nchannels: {interleave: {value: 192, unit: B, source: x}}\n", "interleave is 192; it must be a power of two" },
        { "inherits: gfx1151\nchannels: {count: {value: 65, unit: channels, source: x}}\n", "65 is out of range" },
        { "inherits: gfx1151\nrow_period: {value: 24, unit: B, source: x}\n", ":2:13: row_period is 24; it must be a multiple of 16" },
        { "inherits: x86-64-v3\nrow_period: {value: 512, unit: B, source: x}\n", "row_period" },
        { "inherits: gfx1151\nchannels: {in_step: {value: 0, unit: B, source: x}}\n", "" },
        { "inherits: cpu\nmachine: x86_64\nsimd: c\n", "page is missing" },
        { "- a\n", "expected a map" },
        { "", "expected a map" },
    };
    struct arena *a = arena_create();
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *said = verdict(a, rows[i].text);
        if (rows[i].expected[0] ? !strstr(said, rows[i].expected) : said[0] != 0)
            fail_msg("%s gives: %s; expected: %s", rows[i].text, said, rows[i].expected);
    }
    arena_destroy(a);
}

/* Targets may come from untrusted files: values for clang, the emitted source and the terminal must have a few plain forms. */
static void flags_are_of_a_few_forms(void **state)
{
    (void)state;
    static const char *const good[] = {
        "-march=armv8.2-a+dotprod+fp16", "-mtune=native", "-mno-relax", "-msse4.2", "-mavx10.1-256", "-mprefer-vector-width=512",
        "-mcpu=cortex-m55",
        "-mrecip=all:1,!sqrt", "-ffast-math", "-fno-math-errno", "-ffp-contract=off", "-ffixed-r9", "-fno-slp-vectorize", "-fPIC",
        "-Wno-pass-failed",
        "-DX", "-DX_1=0x10", "-D_X=1.5f", "-DX=name",
    };
    static const char *const bad[] = {
        "-fplugin=x.so", "-fpass-plugin=x.so", "-fplugin-arg-a-b", "-fmodules-cache-path=x", "-fprofile-use=x", "-fprofile-generate=x",
        "-foffload=x",
        "-fcrash-diagnostics-dir=x", "-ffile-prefix-map=a=b", "-fopenmp", "-fsanitize=address", "-flto", "-fuse-ld=x", "-fno-fast-mathx",
        "-f", "-fno-",
        "-ffp-contract=x.so", "-ffixed-", "-mllvm", "-mllvm=-load=x.so", "-mmlir", "-mlink-builtin-bitcode",
        "-mno-link-builtin-bitcode-postopt",
        "-mthread-model", "-module-dependency-dir", "-mlinker-version=1", "-mtargetos=x", "-m", "-march=", "-march=a/b", "-march=a b",
        "-march=a\tb", "-march=\\u00e4",
        "-MD", "-MF", "-include", "-imacros", "-I.", "-isystem", "-o", "-O3", "-c", "-S", "-x", "-Xclang", "-Xclang=-load", "-Wa,-o,x",
        "-Wl,-o,x", "-Wp,-MD,x", "-Wall",
        "-Wno-a,b", "-Wno-", "-B.", "-specs=x", "--config=x", "-ivfsoverlay", "-save-temps", "-v", "@file", "x.c", "-", "--", "-D", "-D=1",
        "-D1X", "-DX=", "-DX=a b",
        "-DA=1 */ int x; /*", "-DX=\\\"", "-DX(a)=a", "-U__x86_64__", "-T x", "-###", "-working-directory=/",
    };
    struct arena *a = arena_create();
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        const char *said = verdict(a, arena_printf(a, "inherits: x86-64-v3\ncflags: [\"-mavx2\", \"%s\"]\n", good[i]));
        if (said[0]) fail_msg("%s gives: %s", good[i], said);
        said = verdict(a, arena_printf(a, "inherits: gfx1151\ncflags: [\"%s\"]\n", good[i]));
        if (said[0]) fail_msg("%s gives: %s", good[i], said);
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        const char *said = verdict(a, arena_printf(a, "inherits: x86-64-v3\ncflags: [\"-mavx2\", \"%s\"]\n", bad[i]));
        if (!strstr(said, ":2:20: a target cannot have the flag ") || !strstr(said, "-DNAME=WORD")) fail_msg("%s gives: %s", bad[i], said);
    }
    arena_destroy(a);
}

static void a_profile_is_a_small_regular_file(void **state)
{
    (void)state;
    char folder[] = "/tmp/forgec-test-XXXXXX";
    assert_non_null(mkdtemp(folder));
    struct arena *a = arena_create();
    const char *path = arena_printf(a, "%s/x.yaml", folder);
    for (int i = 0; i < 3; i++) {
        if (i == 0) assert_int_equal(mkfifo(path, 0600), 0);             /* no process writes into it */
        if (i == 1) assert_int_equal(symlink("/dev/zero", path), 0);
        if (i == 2) {
            close(open(path, O_CREAT | O_WRONLY, 0600));
            assert_int_equal(truncate(path, (off_t)1 << 40), 0);
        }
        message[0] = 0;
        die_handler = on_die;
        if (!setjmp(escape)) target_load(a, path, NULL);
        die_handler = NULL;
        unlink(path);
        static const char *const parts[] = { "is a pipe, not a regular file", "is a device, not a regular file",
                                             "has more than 1048576 bytes" };
        if (!strstr(message, parts[i])) fail_msg("%s", message);
    }
    rmdir(folder);
    arena_destroy(a);
}

/* The list of targets that programs print for a GPU without a target (runtime/device/gpu_targets.def) is complete. */
static void targets_of_gpus_are_listed(void **state)
{
    (void)state;
    struct arena *a = arena_create();
    static const struct { const char *api, *arch; } listed[] = {
#define HIP_TARGET(arch) { "hip", #arch },
#define CUDA_TARGET(arch) { "cuda", #arch },
#include "runtime/device/gpu_targets.def"
#undef HIP_TARGET
#undef CUDA_TARGET
    };
    size_t n = 0;
    for (const char **name = target_names(a, NULL); *name; name++) {
        const struct target *p = target_load(a, *name, NULL);
        if (p->kind != TARGET_GPU) continue;
        size_t i = 0;
        while (i < COUNT_OF(listed) && (strcmp(listed[i].api, p->api) || strcmp(listed[i].arch, p->arch))) i++;
        if (i == COUNT_OF(listed)) fail_msg("%s is not in gpu_targets.def", p->arch);
        if (!strcmp(p->api, "hip") && !p->least_driver) fail_msg("%s does not say the least HIP", *name);
        n++;
    }
    assert_int_equal(n, COUNT_OF(listed));
    assert_int_equal(target_load(a, "gfx1151", NULL)->least_driver, 702);
    arena_destroy(a);
}

static const char *unknown(struct arena *a, const char *name)
{
    message[0] = 0;
    die_handler = on_die;
    if (!setjmp(escape)) target_load(a, name, NULL);
    die_handler = NULL;
    return message;
}

/* Each common name of a target has its hint, and no real target's name is mistaken for one. */
static void names_that_are_none_have_hints(void **state)
{
    (void)state;
    struct arena *a = arena_create();
    static const char *const names[] = {
#define NAME_ONLY(name, hint) name,
#define NAME_BEGINS(name, hint) name,
#include "compiler/base/target_hints.def"
#undef NAME_ONLY
#undef NAME_BEGINS
    };
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (!strstr(unknown(a, names[i]), ": ") || strstr(message, "known: native")) fail_msg("%s: %s", names[i], message);
    for (const char **name = target_names(a, NULL); *name; name++) target_load(a, *name, NULL);
    assert_non_null(strstr(unknown(a, "Strix-Halo"), "Strix Halo is gfx1151"));
    assert_non_null(strstr(unknown(a, "aarch65"), "is it aarch64?"));
    arena_destroy(a);
}

static void unknown_name_lists_the_others(void **state)
{
    (void)state;
    struct arena *a = arena_create();
    message[0] = 0;
    die_handler = on_die;
    if (!setjmp(escape)) target_load(a, "pentium", NULL);
    die_handler = NULL;
    const char *list = strstr(message, "aarch64, aarch64-none, ");
    assert_non_null(list);
    for (const char **name = target_names(a, NULL); *name; name++) {
        assert_memory_equal(list, *name, strlen(*name));
        list += strlen(*name);
        assert_memory_equal(list, ", ", 2);
        list += 2;
    }
    assert_memory_equal(list, "or a path", 9);
    arena_destroy(a);
}

static void put_file(struct arena *a, const char *folder, const char *name, const char *text)
{
    const char *argv[] = { "mkdir", "-p", folder, NULL };
    struct spawn_job job = { .argv = argv };
    spawn_run(a, &(struct spawn_options){ .jobs = 1 }, &job, 1);
    FILE *f = fopen(arena_printf(a, "%s/%s", folder, name), "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

/* A default build reports the machine's GPU; the test uses a fake sysfs. */
static void the_gpu_of_a_machine_is_found(void **state)
{
    struct scratch *s = *state;
    struct arena *a = s->arena;
    const char *root = s->directory, *nodes = arena_printf(a, "%s/sys/class/kfd/kfd/topology/nodes", root);
    const char *pci = arena_printf(a, "%s/sys/bus/pci/devices", root);
    assert_null(target_gpu_here(a, root));
    put_file(a, arena_printf(a, "%s/0000:00:00.0", pci), "vendor", "0x8086\n");
    put_file(a, arena_printf(a, "%s/0000:00:00.0", pci), "device", "0x2330\n");
    put_file(a, arena_printf(a, "%s/0", nodes), "properties", "cpu_cores_count 16\ngfx_target_version 0\n");
    put_file(a, arena_printf(a, "%s/1", nodes), "properties", "simd_count 4\ngfx_target_version 100306\n");      /* gfx1036: no target */
    assert_null(target_gpu_here(a, root));
    put_file(a, arena_printf(a, "%s/0000:41:00.0", pci), "vendor", "0x10de\n");
    put_file(a, arena_printf(a, "%s/0000:41:00.0", pci), "device", "0x2335\n");
    assert_string_equal(target_gpu_here(a, root), "sm_90a");
    put_file(a, arena_printf(a, "%s/2", nodes), "properties", "simd_count 80\ngfx_target_version 110501\n");
    assert_string_equal(target_gpu_here(a, root), "gfx1151");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_gpu_of_a_machine_is_found, scratch_setup, scratch_teardown),
        cmocka_unit_test(known_targets),
        cmocka_unit_test(bare_targets),
        cmocka_unit_test(known_gpus),
        cmocka_unit_test(gpus_here),
        cmocka_unit_test(all_names_load),
        cmocka_unit_test(native_runs_here),
        cmocka_unit_test(foreign_machine_is_named),
        cmocka_unit_test(bad_files),
        cmocka_unit_test(flags_are_of_a_few_forms),
        cmocka_unit_test(a_profile_is_a_small_regular_file),
        cmocka_unit_test(targets_of_gpus_are_listed),
        cmocka_unit_test(names_that_are_none_have_hints),
        cmocka_unit_test(unknown_name_lists_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
