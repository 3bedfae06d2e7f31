/* profile.c -- targets/NAME.yaml, with what it inherits, as struct profile. */
#include "profile.h"
#include "resource.h"
#include "family.h"
#include "templates/gpu/gemm_sizes.h"
#include "runtime/device/cpu_features.h"
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { INHERIT_DEPTH_MAX = 8, NAME_MAX_LENGTH = 64 };

/* The best first; `native` is the first of them that runs here. */
static const char *const native_order[] = { "sapphire-rapids", "x86-64-v4", "x86-64-v3-vnni", "x86-64-v3",
                                            "aarch64-v8.6", "aarch64", "portable" };

const char *profile_host_machine(void)
{
#if defined(__x86_64__)
    return "x86_64";
#elif defined(__aarch64__)
    return "aarch64";
#else
    return "unknown";
#endif
}

/* ---- values ---- */

struct unit { const char *name; double scale; };
static const struct unit byte_units[] = { { "B", 1 }, { "KiB", 1024 }, { "MiB", 1048576 }, { "GiB", 1073741824 }, { NULL, 0 } };
static const struct unit time_units[] = { { "us", 1 }, { "ns", 1e-3 }, { "ms", 1e3 }, { NULL, 0 } };
static const struct unit channel_units[] = { { "channels", 1 }, { NULL, 0 } };
static const struct unit unit_units[] = { { "CU", 1 }, { "SM", 1 }, { NULL, 0 } };
static const struct unit simd_units[] = { { "SIMD", 1 }, { NULL, 0 } };
static const struct unit wave_units[] = { { "waves", 1 }, { NULL, 0 } };
static const struct unit register_units[] = { { "registers", 1 }, { NULL, 0 } };
static const struct unit clock_units[] = { { "GHz", 1 }, { "MHz", 1e-3 }, { NULL, 0 } };
static const struct unit issue_units[] = { { "issues", 1 }, { NULL, 0 } };
static const struct unit flop_units[] = { { "FLOP", 1 }, { NULL, 0 } };
static const struct unit share_units[] = { { "%", 0.01 }, { NULL, 0 } };
static const struct unit percent_units[] = { { "%", 1 }, { NULL, 0 } };
static const struct unit kernel_units[] = { { "kernels", 1 }, { "steps", 1 }, { NULL, 0 } };
static const struct unit rate_units[] = { { "TOP/s", 1 }, { NULL, 0 } };
static const struct unit times_units[] = { { "times", 1 }, { NULL, 0 } };
static const struct unit bandwidth_units[] = { { "GB/s", 1 }, { "MB/s", 1e-3 }, { "TB/s", 1e3 }, { NULL, 0 } };

/* {value: 25, unit: GB/s, source: "..."} in the first unit of the list. */
static double quantity(struct arena *a, const struct yaml *y, const struct unit *units)
{
    static const char *const keys[] = { "value", "unit", "source", NULL };
    if (y->kind != YAML_MAP) die_at(y->at, "expected {value: ..., unit: %s, source: \"...\"}", units[0].name);
    yaml_only(y, keys);
    const struct yaml *unit = yaml_need(y, "unit");
    const double value = yaml_f64(yaml_need(y, "value"));
    if (!*yaml_string(yaml_need(y, "source"))) die_at(yaml_need(y, "source")->at, "the source says where the number is from");
    const char *name = yaml_string(unit);
    for (size_t i = 0; units[i].name; i++)
        if (!strcmp(name, units[i].name)) {
            const double amount = value * units[i].scale;
            if (!(amount >= 0 && amount <= 1e15))
                die_at(yaml_need(y, "value")->at, "%s is no sensible amount", yaml_need(y, "value")->scalar);
            return amount;
        }
    struct text known = { .arena = a };
    for (size_t i = 0; units[i].name; i++) text_printf(&known, "%s%s", i ? ", " : "", units[i].name);
    die_at(unit->at, "unknown unit %s; known: %s", printable(a, name, strlen(name)), text_str(&known));
}

static uint64_t whole_bytes(struct arena *a, const struct yaml *y)
{
    return (uint64_t)quantity(a, y, byte_units);
}

/* A quantity that is a whole number from least to most. */
static uint32_t whole(struct arena *a, const struct yaml *y, const struct unit *units, uint32_t least, uint32_t most)
{
    const double value = quantity(a, y, units);
    if (value < least || value > most || value != (double)(uint32_t)value)
        die_at(yaml_need(y, "value")->at, "%s is out of range (a whole number from %u to %u %s)", yaml_need(y, "value")->scalar, least,
               most, units[0].name);
    return (uint32_t)value;
}

static void words(struct arena *a, const struct yaml *y, const char *out[PROFILE_MAX_FLAGS + 1])
{
    if (y->kind != YAML_LIST) die_at(y->at, "expected a list");
    if (y->count > PROFILE_MAX_FLAGS) die_at(y->at, "%u entries; at most %d", y->count, PROFILE_MAX_FLAGS);
    for (uint32_t i = 0; i < y->count; i++) {
        const char *word = yaml_string(y->items[i]);
        if (!*word) die_at(y->items[i]->at, "empty entry");
        out[i] = arena_strdup(a, word);
    }
    out[y->count] = NULL;
}

/* yaml.c lets line ends and tabs through; here they would break a table. */
static const char *line_of(struct arena *a, const struct yaml *y)
{
    const char *s = yaml_string(y);
    if (strpbrk(s, "\n\t")) die_at(y->at, "one line without tabs is needed here");
    return arena_strdup(a, s);
}

static uint32_t small(const struct yaml *y, uint64_t least, uint64_t most)
{
    const uint64_t value = yaml_u64(y);
    if (value < least || value > most)
        die_at(y->at, "%llu is out of range (%llu to %llu)", (unsigned long long)value, (unsigned long long)least,
               (unsigned long long)most);
    return (uint32_t)value;
}

static const char *one_of(struct arena *a, const struct yaml *y, const char *const *known)
{
    const char *word = yaml_string(y);
    struct text list = { .arena = a };
    for (size_t i = 0; known[i]; i++) {
        if (!strcmp(word, known[i])) return known[i];
        text_printf(&list, "%s%s", i ? ", " : "", known[i]);
    }
    die_at(y->at, "unknown value %s; known: %s", printable(a, word, strlen(word)), text_str(&list));
}

/* ---- clang's flags: a profile chooses instructions and mathematics; nothing in it names a file, loads code or takes the next word ---- */

static const char *const machine_values[] = { "abi", "arch", "branch-protection", "cmodel", "cpu", "float-abi", "fpmath", "fpu",
                                              "prefer-vector-width", "recip", "rvv-vector-bits", "stack-alignment", "sve-vector-bits",
                                              "tune", NULL };
/* Their words begin like a machine's but are not: -mllvm and -mmlir hand the next word on, the others name files or systems. */
static const char *const machine_refused[] = { "link", "llvm", "mlir", "no-link", "odule", "thread-model", NULL };
static const char *const code_words[] = { "associative-math", "asynchronous-unwind-tables", "data-sections", "fast-math",
                                          "finite-math-only", "function-sections", "math-errno", "omit-frame-pointer", "pic", "PIC",
                                          "reciprocal-math", "ropi", "rwpi", "short-enums", "short-wchar", "signed-zeros", "slp-vectorize",
                                          "stack-protector", "strict-aliasing", "trapping-math", "unroll-loops", "unwind-tables",
                                          "vectorize", NULL };
static const char *const contract_values[] = { "fast", "off", "on", NULL };

#define LETTERS_SMALL "abcdefghijklmnopqrstuvwxyz"
#define LETTERS       LETTERS_SMALL "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS        "0123456789"

static bool is_of(const char *s, size_t n, const char *characters) { return n && strspn(s, characters) >= n; }

/* Is the word of n bytes at s in the list? */
static bool is_in(const char *const *list, const char *s, size_t n)
{
    for (; *list; list++)
        if (strlen(*list) == n && !strncmp(*list, s, n)) return true;
    return false;
}

static bool is_machine_flag(const char *s)                   /* s: behind "-m" */
{
    const char *value = strchr(s, '=');
    if (value) return is_in(machine_values, s, (size_t)(value - s)) && is_of(value + 1, strlen(value + 1), LETTERS DIGITS "+-._,:!");
    for (const char *const *p = machine_refused; *p; p++)
        if (!strncmp(s, *p, strlen(*p))) return false;
    return is_of(s, strlen(s), LETTERS_SMALL DIGITS ".-");
}

static bool is_code_flag(const char *s)                      /* behind "-f" */
{
    const bool off = !strncmp(s, "no-", 3);
    if (!strncmp(s, "fp-contract=", 12)) return is_in(contract_values, s + 12, strlen(s + 12));
    if (!strncmp(s, "fixed-", 6)) return is_of(s + 6, strlen(s + 6), LETTERS_SMALL DIGITS);
    return is_in(code_words, s + (off ? 3 : 0), strlen(s + (off ? 3 : 0)));
}

static bool is_definition(const char *s)                     /* behind "-D" */
{
    const char  *value = strchr(s, '=');
    const size_t n = value ? (size_t)(value - s) : strlen(s);
    return is_of(s, n, LETTERS DIGITS "_") && !strchr(DIGITS, *s) && (!value || is_of(value + 1, strlen(value + 1), LETTERS DIGITS "_."));
}

static bool is_flag(const char *s)
{
    if (!strncmp(s, "-m", 2))     return is_machine_flag(s + 2);
    if (!strncmp(s, "-f", 2))     return is_code_flag(s + 2);
    if (!strncmp(s, "-D", 2))     return is_definition(s + 2);
    if (!strncmp(s, "-Wno-", 5))  return is_of(s + 5, strlen(s + 5), LETTERS_SMALL DIGITS "-");
    return false;
}

static void list_words(struct text *t, const char *const *words_of)
{
    for (size_t i = 0; words_of[i]; i++) text_printf(t, "%s%s", i ? ", " : "", words_of[i]);
}

static void check_flags(struct arena *a, const struct yaml *y)
{
    for (uint32_t i = 0; i < y->count; i++) {
        const char *word = y->items[i]->scalar;
        if (is_flag(word)) continue;
        struct text t = { .arena = a };
        text_puts(&t, "-mNAME, -mNAME=VALUE with ");
        list_words(&t, machine_values);
        text_puts(&t, "; -DNAME, -DNAME=WORD; -Wno-NAME; -ffp-contract=VALUE, -ffixed-REGISTER and -fNAME, -fno-NAME with ");
        list_words(&t, code_words);
        die_at(y->items[i]->at, "the flag %s is not taken from a target; those are: %s", printable(a, word, strlen(word)), text_str(&t));
    }
}

/* x86_64-linux-gnu, thumbv7em-none-eabihf: words of a file name and of an argument, too. */
static const char *triple_of(struct arena *a, const struct yaml *y)
{
    const char *s = yaml_string(y);
    const size_t n = strlen(s);
    if (n > NAME_MAX_LENGTH || !is_of(s, n, LETTERS DIGITS "._-") || !is_of(s, 1, LETTERS) || !strchr(s, '-'))
        die_at(y->at, "%s is no triple; one is MACHINE-SYSTEM-ABI, such as thumbv7em-none-eabihf", printable(a, s, n));
    return arena_strdup(a, s);
}

static void check_features(struct arena *a, const struct yaml *y)
{
#define X86(name, gcc) #name,
#define X86_BIT(name, leaf, subleaf, reg, bit, needs) #name,
#define ARM(name, bit) #name,
#define ARM2(name, bit) #name,
    static const char *const known[] = {
#include "runtime/device/cpu_features.def"
        NULL };
#undef X86
#undef X86_BIT
#undef ARM
#undef ARM2
    for (uint32_t i = 0; i < y->count; i++) one_of(a, y->items[i], known);
}

/* ---- one file over its parent's values ---- */

static void apply_cpu_tiles(struct profile *p, const struct yaml *y)
{
    static const char *const keys[] = { "gemm_tokens", "gemm_groups", "prefill_chunk", "prefill_few", "attention_block", NULL };
    if (y->kind != YAML_MAP) die_at(y->at, "expected a map");
    yaml_only(y, keys);
    const struct yaml *v;
    if ((v = yaml_get(y, "gemm_tokens")))     p->tile.gemm_tokens = small(v, 4, 64);      /* FEW_TOKENS in matmul.h */
    if ((v = yaml_get(y, "gemm_groups"))) {
        p->tile.gemm_groups = small(v, 1, 16);
        p->gemm_groups_at = v->at;
    }
    if ((v = yaml_get(y, "prefill_chunk")))   p->tile.prefill_chunk = small(v, 1, 4096);
    if ((v = yaml_get(y, "prefill_few")))     p->tile.prefill_few = small(v, 0, 4096);
    if ((v = yaml_get(y, "attention_block"))) {
        p->tile.attention_block = small(v, 64, 4096);
        if (p->tile.attention_block % 64) die_at(v->at, "attention_block is %u; it must be a multiple of 64", p->tile.attention_block);
    }
}

static void apply_cache(struct arena *a, struct profile *p, const struct yaml *y)
{
    static const char *const keys[] = { "l1d", "l2", "l3", NULL };
    if (y->kind != YAML_MAP) die_at(y->at, "expected a map");
    yaml_only(y, keys);
    const struct yaml *v;
    if ((v = yaml_get(y, "l1d"))) p->cache.l1d_bytes = whole_bytes(a, v);
    if ((v = yaml_get(y, "l2")))  p->cache.l2_bytes = whole_bytes(a, v);
    if ((v = yaml_get(y, "l3")))  p->cache.l3_bytes = whole_bytes(a, v);
}

/* The keys in `tiles` of GPUs.  What must be a multiple of a wave is checked when all files have been read. */
static const struct tile_key { const char *name; size_t offset; uint32_t least, most, multiple; } gpu_tiles[] = {
#define TILE(name, least, most, multiple) { #name, offsetof(struct profile, gpu.name), least, most, multiple }
    TILE(gemv_threads, 32, 1024, 32),            TILE(gemv_groups, 1, 32, 1),               TILE(gemv_rows, 1, 64, 1),
    TILE(gemv_lanes, 8, 64, 8),                  TILE(gemv_depth, 0, 32, 1),                TILE(attention_splits, 1, 4096, 1),
    TILE(attention_groups, 0, 4096, 1),          TILE(attention_span, 1, 4096, 1),
    TILE(attention_threads, 32, 1024, 32),       TILE(attention_prefill_threads, 32, 1024, 32),
    TILE(gemm_tokens, 16, 512, 16),              TILE(gemm_rows, 16, 512, 16),              TILE(gemm_groups, 1, 8, 1),
    TILE(gemm_unit_steps, 1, 2, 1),
    TILE(gemm_threads, 32, 1024, 32),            TILE(gemm_few_threads, 32, 1024, 32),      TILE(gemm_fit, 0, 4096, 1),
    TILE(gemm_fit_experts, 0, 4096, 1),          TILE(stage_threads, 32, 1024, 32),         TILE(sample_groups, 1, 1024, 1),
    TILE(sample_threads, 32, 1024, 32),          TILE(prefill_chunk, 1, 4096, 1),
#undef TILE
};
_Static_assert(COUNT_OF(gpu_tiles) <= PROFILE_MAX_TILES, "a place for each tile");

static uint32_t *tile_value(struct profile *p, const struct tile_key *key)
{
    return (uint32_t *)(void *)((char *)p + key->offset);
}

static void apply_gpu_tiles(struct profile *p, const struct yaml *y)
{
    const char *keys[COUNT_OF(gpu_tiles) + 1];
    for (size_t i = 0; i < COUNT_OF(gpu_tiles); i++) keys[i] = gpu_tiles[i].name;
    keys[COUNT_OF(gpu_tiles)] = NULL;
    if (y->kind != YAML_MAP) die_at(y->at, "expected a map");
    yaml_only(y, keys);
    for (size_t i = 0; i < COUNT_OF(gpu_tiles); i++) {
        const struct tile_key *key = &gpu_tiles[i];
        const struct yaml     *v = yaml_get(y, key->name);
        if (!v) continue;
        const uint32_t value = *tile_value(p, key) = small(v, key->least, key->most);
        p->gpu_at[i] = v->at;
        if (value % key->multiple) die_at(v->at, "%s is %u; it must be a multiple of %u", key->name, value, key->multiple);
    }
    p->tile.prefill_chunk = p->gpu.prefill_chunk;
}

static void apply_registers(struct arena *a, struct profile *p, const struct yaml *y)
{
    static const char *const keys[] = { "lane", "granule", "most", NULL };
    if (y->kind != YAML_MAP) die_at(y->at, "expected a map");
    yaml_only(y, keys);
    const struct yaml *v;
    if ((v = yaml_get(y, "lane")))    p->vgprs = whole(a, v, register_units, 64, 65536);
    if ((v = yaml_get(y, "granule"))) p->vgpr_granule = whole(a, v, register_units, 1, 256);
    if ((v = yaml_get(y, "most")))    p->vgprs_most = whole(a, v, register_units, 32, 65536);
}

static void apply_channels(struct arena *a, struct profile *p, const struct yaml *y)
{
    static const char *const keys[] = { "count", "interleave", "window", "in_step", NULL };
    if (y->kind != YAML_MAP) die_at(y->at, "expected a map");
    yaml_only(y, keys);
    const struct yaml *v;
    if ((v = yaml_get(y, "count")))   p->channels.count = whole(a, v, channel_units, 1, 64);
    if ((v = yaml_get(y, "interleave"))) {
        p->channels.interleave = whole(a, v, byte_units, 64, 65536);
        if (p->channels.interleave & (p->channels.interleave - 1))
            die_at(v->at, "interleave is %u; it must be a power of two", p->channels.interleave);
    }
    if ((v = yaml_get(y, "window")))  p->channels.window = whole(a, v, byte_units, 64, 1 << 30);
    if ((v = yaml_get(y, "in_step"))) p->channels.in_step = quantity(a, v, byte_units);
    if (!p->channels.count || !p->channels.interleave || !p->channels.window)
        die_at(y->at, "channels has no %s", !p->channels.count ? "count" : !p->channels.interleave ? "interleave" : "window");
}

const char *const matrix_format_name[N_MATRIX_FORMATS] = { "f16", "f8", "f32", "i8", "i4" };

/* In the order of missing rates; those of matrices besides. */
static const struct rate_key { const char *name; size_t offset; const struct unit *units; } rate_keys[] = {
#define RATE(name, member, units) { #name, offsetof(struct profile, rates.member), units }
    RATE(clock, clock_ghz, clock_units),         RATE(vector, vector, wave_units), RATE(transcendental, transcendental, issue_units),
    RATE(multiply, multiply, issue_units),       RATE(f64, f64, issue_units),      RATE(lds, lds_bytes, byte_units),
    RATE(matrix_f16, matrix[MATRIX_F16], flop_units), RATE(matrix_f8, matrix[MATRIX_F8], flop_units),
    RATE(matrix_f32, matrix[MATRIX_F32], flop_units),
    RATE(matrix_i8, matrix[MATRIX_I8], flop_units),   RATE(matrix_i4, matrix[MATRIX_I4], flop_units),
#undef RATE
};
enum { RATES_NEEDED = 6 };                       /* a chip has not every format of matrices */

static void apply_rates(struct arena *a, struct profile *p, const struct yaml *y)
{
    const char *keys[COUNT_OF(rate_keys) + 2];
    for (size_t i = 0; i < COUNT_OF(rate_keys); i++) keys[i] = rate_keys[i].name;
    keys[COUNT_OF(rate_keys)] = "transcendental_apart";
    keys[COUNT_OF(rate_keys) + 1] = NULL;
    if (y->kind != YAML_MAP) die_at(y->at, "expected a map");
    yaml_only(y, keys);
    const struct yaml *v;
    for (size_t i = 0; i < COUNT_OF(rate_keys); i++) {
        if (!(v = yaml_get(y, rate_keys[i].name))) continue;
        const double value = quantity(a, v, rate_keys[i].units);
        if (!(value >= 1e-3 && value <= 1e6)) die_at(yaml_need(v, "value")->at, "%s is no sensible amount", yaml_need(v, "value")->scalar);
        memcpy((char *)p + rate_keys[i].offset, &value, sizeof value);
    }
    if ((v = yaml_get(y, "transcendental_apart"))) p->rates.transcendental_apart = yaml_bool(v);
}

const char *profile_missing_rate(const struct profile *p)
{
    static const char *const missing[RATES_NEEDED] = { "rates: clock", "rates: vector", "rates: transcendental", "rates: multiply",
                                                       "rates: f64", "rates: lds" };
    for (size_t i = 0; i < RATES_NEEDED; i++) {
        double value;
        memcpy(&value, (const char *)p + rate_keys[i].offset, sizeof value);
        if (value == 0) return missing[i];
    }
    return p->bandwidth_gb_s == 0 ? "bandwidth" : p->launch_us == 0 ? "launch" : NULL;
}

const char *const prediction_name[N_PREDICTIONS] = { "products", "experts", "attention", "others", "prefill", "prefill_attention",
                                                       "prefill_others", "token", "prompt" };

static const struct prediction_key { const char *name; size_t offset; const struct unit *units; } prediction_keys[] = {
#define KEY(name, member, units) { #name, offsetof(struct prediction, member), units }
    KEY(start, start_us, time_units),            KEY(chain, chain_us, time_units),      KEY(bandwidth, bandwidth_gb_s, bandwidth_units),
    KEY(row, row_us, time_units),                KEY(strided, strided, share_units),    KEY(rate, rate_tops, rate_units),
    KEY(clocks, clocks, times_units),            KEY(copied, copied, times_units),      KEY(error, error_percent, percent_units),
    KEY(least, least_bytes, byte_units),
#undef KEY
};

static void apply_prediction_of(struct arena *a, struct prediction *p, const struct yaml *y)
{
    const char *keys[COUNT_OF(prediction_keys) + 2];
    for (size_t i = 0; i < COUNT_OF(prediction_keys); i++) keys[i] = prediction_keys[i].name;
    keys[COUNT_OF(prediction_keys)] = "held_out";
    keys[COUNT_OF(prediction_keys) + 1] = NULL;
    if (y->kind != YAML_MAP) die_at(y->at, "expected a map");
    yaml_only(y, keys);
    const struct yaml *v;
    for (size_t i = 0; i < COUNT_OF(prediction_keys); i++) {
        if (!(v = yaml_get(y, prediction_keys[i].name))) continue;
        const double value = quantity(a, v, prediction_keys[i].units);
        memcpy((char *)p + prediction_keys[i].offset, &value, sizeof value);
    }
    if ((v = yaml_get(y, "held_out"))) {
        p->held_out = whole(a, v, kernel_units, 0, 100000);
        p->held_out_source = line_of(a, yaml_need(v, "source"));
    }
}

static void apply_prediction(struct arena *a, struct profile *p, const struct yaml *y)
{
    const char *keys[N_PREDICTIONS + 3] = { "latency", "stride" };
    memcpy(keys + 2, prediction_name, sizeof prediction_name);
    if (y->kind != YAML_MAP) die_at(y->at, "expected a map");
    yaml_only(y, keys);
    const struct yaml *v;
    if ((v = yaml_get(y, "latency"))) p->prediction.latency_us = quantity(a, v, time_units);
    if ((v = yaml_get(y, "stride")))  p->prediction.stride_bytes = quantity(a, v, byte_units);
    for (size_t i = 0; i < N_PREDICTIONS; i++)
        if ((v = yaml_get(y, prediction_name[i]))) apply_prediction_of(a, &p->prediction.of[i], v);
}

static void apply_instructions(struct arena *a, struct profile *p, const struct yaml *y)
{
    static const char *const keys[] = { "dot", "matrix", NULL };
    if (y->kind != YAML_MAP) die_at(y->at, "expected a map");
    yaml_only(y, keys);
    const struct yaml *v;
    if ((v = yaml_get(y, "dot")))    words(a, v, p->dot);
    if ((v = yaml_get(y, "matrix"))) words(a, v, p->matrix);
}

#define COMMON_KEYS "inherits", "base", "description", "kind", "machine", "triple", "cflags", "features", "page", "tiles", "bandwidth"

const struct simd simd_table[SIMD_COUNT] = { { "c", NULL }, { "avx2", "x86_64" }, { "avx512", "x86_64" }, { "neon", "aarch64" },
                                               { "wasm", "wasm32" } };

const char *const matrix_unit_name[MATRIX_COUNT] = { "none", "dot", "tiles" };

static void apply_matrix(struct arena *a, struct profile *p, const struct yaml *y)
{
    const char *names[MATRIX_COUNT + 1] = { NULL };
    for (uint32_t i = 0; i < MATRIX_COUNT; i++) names[i] = matrix_unit_name[i];
    const char *name = one_of(a, y, names);
    for (p->matrix_unit = 0; matrix_unit_name[p->matrix_unit] != name; p->matrix_unit++) { }
    if (p->matrix_unit == MATRIX_TILES) p->gemm_groups_at = y->at;
}

static void apply_piece(struct arena *a, struct profile *p, const struct yaml *y)
{
    const uint64_t bytes = whole_bytes(a, y);
    if (bytes < 4096 || bytes > 1u << 30) die_at(y->at, "a piece of weights has 4 KiB to 1 GiB");
    p->piece_bytes = (uint32_t)bytes;
}

static void apply_binding(struct arena *a, struct profile *p, const struct yaml *y)
{
    p->binding_bytes = whole_bytes(a, y);
    if (p->binding_bytes < 4096 || p->binding_bytes > 4ull << 30) die_at(y->at, "a binding has 4 KiB to 4 GiB");
}

static void apply_cpu(struct arena *a, struct profile *p, const struct yaml *y)
{
    static const char *const keys[] = { COMMON_KEYS, "system", "simd", "matrix", "cache", "piece", NULL };
    const char *names[SIMD_COUNT + 1] = { NULL };
    for (uint32_t i = 0; i < SIMD_COUNT; i++) names[i] = simd_table[i].name;
    yaml_only(y, keys);
    const struct yaml *v;
    if ((v = yaml_get(y, "simd"))) {
        const char *name = one_of(a, v, names);
        for (p->simd = simd_table; p->simd->name != name; p->simd++) { }
        p->simd_at = v->at;
    }
    if ((v = yaml_get(y, "matrix"))) apply_matrix(a, p, v);
    if ((v = yaml_get(y, "piece"))) apply_piece(a, p, v);
    if ((v = yaml_get(y, "tiles"))) apply_cpu_tiles(p, v);
    if ((v = yaml_get(y, "cache"))) apply_cache(a, p, v);
}

/* Beside what it inherits of a target for WebAssembly, which computes its texts. */
static void apply_webgpu(struct arena *a, struct profile *p, const struct yaml *y)
{
    static const char *const keys[] = { COMMON_KEYS, "piece", "lds", "binding", NULL };
    yaml_only(y, keys);
    const struct yaml *v;
    if ((v = yaml_get(y, "lds")))   p->lds_bytes = whole(a, v, byte_units, 16384, 1 << 20);
    if ((v = yaml_get(y, "piece"))) apply_piece(a, p, v);
    if ((v = yaml_get(y, "binding"))) apply_binding(a, p, v);
    if ((v = yaml_get(y, "tiles"))) apply_gpu_tiles(p, v);
}

static void apply_family(struct arena *a, struct profile *p, const struct yaml *y)
{
    const char *name = one_of(a, y, family_names);
    for (p->family = 0; family_names[p->family] != name; p->family++) { }
    p->family_at = y->at;
}

static void apply_gpu(struct arena *a, struct profile *p, const struct yaml *y)
{
    static const char *const keys[] = { COMMON_KEYS, "api", "arch", "wave", "compute_units", "simds", "waves", "registers", "lds", "memory",
                                        "bandwidth_peak", "launch", "activation_digits", "load_hint", "dependent_launch", "cluster",
                                        "graph", "instructions", "rates", "prediction", "family", "channels", "row_period", NULL };
    static const char *const apis[] = { "hip", "cuda", "host", NULL }, *const hints[] = { "plain", "stream", NULL };
    yaml_only(y, keys);
    const struct yaml *v;
    if ((v = yaml_get(y, "api")))               p->api = one_of(a, v, apis);
    if ((v = yaml_get(y, "arch"))) {
        p->arch = arena_strdup(a, yaml_string(v));
        p->arch_at = v->at;
        if (!*p->arch || p->arch[strspn(p->arch, "abcdefghijklmnopqrstuvwxyz0123456789_")])
            die_at(v->at, "an arch is a word like gfx1151 or sm_90");
    }
    if ((v = yaml_get(y, "family")))            apply_family(a, p, v);
    if ((v = yaml_get(y, "wave"))) {
        p->wave = small(v, 32, 64);
        if (p->wave != 32 && p->wave != 64) die_at(v->at, "wave is %u; it must be 32 or 64", p->wave);
        p->wave_at = v->at;
    }
    if ((v = yaml_get(y, "compute_units")))     p->compute_units = whole(a, v, unit_units, 1, 4096);
    if ((v = yaml_get(y, "simds")))             p->simds = whole(a, v, simd_units, 1, 64);
    if ((v = yaml_get(y, "waves")))             p->waves = whole(a, v, wave_units, 1, 64);
    if ((v = yaml_get(y, "registers")))         apply_registers(a, p, v);
    if ((v = yaml_get(y, "lds")))               p->lds_bytes = whole(a, v, byte_units, 1024, 1 << 20);
    if ((v = yaml_get(y, "memory")))            p->memory_bytes = whole_bytes(a, v);
    if ((v = yaml_get(y, "bandwidth_peak")))    p->bandwidth_peak_gb_s = quantity(a, v, bandwidth_units);
    if ((v = yaml_get(y, "launch")))            p->launch_us = quantity(a, v, time_units);
    if ((v = yaml_get(y, "activation_digits"))) p->activation_digits = small(v, 1, 2);
    if ((v = yaml_get(y, "load_hint")))         p->load_hint = one_of(a, v, hints);
    if ((v = yaml_get(y, "dependent_launch")))  p->dependent_launch = yaml_bool(v);
    if ((v = yaml_get(y, "cluster")))           p->cluster = yaml_bool(v);
    if ((v = yaml_get(y, "graph")))             p->graph = yaml_bool(v);
    if ((v = yaml_get(y, "instructions")))      apply_instructions(a, p, v);
    if ((v = yaml_get(y, "rates")))             apply_rates(a, p, v);
    if ((v = yaml_get(y, "prediction")))        apply_prediction(a, p, v);
    if ((v = yaml_get(y, "channels")))          apply_channels(a, p, v);
    if ((v = yaml_get(y, "row_period"))) {
        p->row_period = whole(a, v, byte_units, 0, 65536);
        if (p->row_period % 16) die_at(v->at, "row_period is %u; it must be a multiple of 16, as rows are", p->row_period);
    }
    if ((v = yaml_get(y, "tiles")))             apply_gpu_tiles(p, v);
}

/* Inherited, of a chip with other memory. */
static void forget_measured(struct prediction *p)
{
    p->bandwidth_gb_s = 0;
    p->held_out = 0;
}

static void apply(struct arena *a, struct profile *p, const struct yaml *y)
{
    static const char *const kinds[] = { [TARGET_CPU] = "cpu", [TARGET_GPU] = "gpu", [TARGET_WEBGPU] = "webgpu", NULL };
    static const char *const machines[] = { "x86_64", "aarch64", "riscv64", "riscv32", "arm", "wasm32", "host", NULL },
        *const systems[] = { "linux", "none", "web", NULL };
    const struct yaml *v, *system = yaml_get(y, "system");
    if ((v = yaml_get(y, "base")))        yaml_bool(v);          /* profile_names reads it */
    if ((v = yaml_get(y, "kind"))) {
        const char *name = one_of(a, v, kinds);
        enum target_kind kind = TARGET_CPU;
        while (kinds[kind] != name) kind++;
        const bool can = kind == TARGET_WEBGPU ? p->web : !yaml_get(y, "inherits");
        if (kind != p->kind && !can)
            die_at(v->at, kind == TARGET_WEBGPU ? "%s inherits a target of system: web" : "%s inherits a target of another kind",
                   yaml_string(v));
        p->kind = kind;
    }
    if ((v = yaml_get(y, "description"))) p->description = line_of(a, v);
    if (system) {
        const char *name = one_of(a, system, systems);
        p->bare = name != systems[0];
        p->web = name == systems[2];
        p->system_at = system->at;
    }
    if ((v = yaml_get(y, "machine"))) {
        p->elf_machine = one_of(a, v, machines);
        if (!strcmp(p->elf_machine, "host")) p->elf_machine = profile_host_machine();
    }
    const char *rest = p->web ? "unknown-unknown" : p->bare ? "none-elf" : "linux-gnu";
    if ((v || system) && p->elf_machine)  p->triple = arena_printf(a, "%s-%s", p->elf_machine, rest);
    if ((v = yaml_get(y, "triple")))      p->triple = triple_of(a, v);
    if ((v = yaml_get(y, "cflags")))      { words(a, v, p->cflags); check_flags(a, v); }
    if ((v = yaml_get(y, "features")))    { words(a, v, p->features); check_features(a, v); }
    if ((v = yaml_get(y, "page"))) {
        const uint64_t page = whole_bytes(a, v);
        if (page < 4096 || page > 1u << 21 || (page & (page - 1))) die_at(v->at, "a page is a power of two from 4096 B to 2 MiB");
        p->page_bytes = (uint32_t)page;
    }
    if ((v = yaml_get(y, "bandwidth"))) {
        p->bandwidth_gb_s = quantity(a, v, bandwidth_units);
        for (size_t i = 0; i < N_PREDICTIONS; i++) forget_measured(&p->prediction.of[i]);
    }
    if (p->kind == TARGET_GPU)         apply_gpu(a, p, y);
    else if (p->kind == TARGET_WEBGPU) apply_webgpu(a, p, y);
    else                               apply_cpu(a, p, y);
}

static bool name_is_plain(const char *name)
{
    const size_t length = strlen(name);
    return length && length <= NAME_MAX_LENGTH && name[0] != '.' && name[0] != '-' &&
           strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == length;
}

static const char *names_line(struct arena *a, const char *directory)
{
    struct text t = { .arena = a };
    for (const char **names = profile_names(a, directory); *names; names++) text_printf(&t, "%s%s", t.size ? ", " : "", *names);
    return text_str(&t);
}

/* Reads a file and, first, what it inherits.  at: where the name stands, or no place for one from the command line. */
static void load_into(struct arena *a, struct profile *p, const char *name, struct place at, const char *directory, uint32_t depth)
{
    struct bytes text;
    const size_t length = strlen(name);
    if (depth == 0 && length > 5 && !strcmp(name + length - 5, ".yaml")) {
        p->path = name;
        input_remember(a, name);
        text = file_read_most(a, name, YAML_MOST_BYTES);
        const char *base = path_name(name);
        p->name = arena_strndup(a, base, strlen(base) - 5);
        if (!name_is_plain(p->name)) die("%s: a target's file name may hold letters, digits, '.', '_' and '-'", printable(a, name, length));
    } else {
        const char *path = arena_printf(a, "targets/%s.yaml", name);
        if (!name_is_plain(name) || !resource_find(a, directory, path, &text))
            die_at(at, "unknown target %s; known: native, %s, or a path ending in .yaml", printable(a, name, length),
                   names_line(a, directory));
        if (depth == 0) {
            p->name = arena_strdup(a, name);
            p->path = path;
        }
        name = resource_place(a, directory, path);
    }
    const struct yaml *y = yaml_parse(a, name, (const char *)text.data, text.size);
    if (!y || y->kind != YAML_MAP) die("%s: expected a map of keys and values", name);
    const struct yaml *parent = yaml_get(y, "inherits");
    if (parent) {
        if (depth + 1 == INHERIT_DEPTH_MAX)
            die_at(parent->at, "targets inherit deeper than %d levels; is there a circle?", INHERIT_DEPTH_MAX);
        load_into(a, p, yaml_string(parent), parent->at, directory, depth + 1);
    }
    apply(a, p, y);
}

static const char *missing_gpu_key(struct arena *a, struct profile *p)
{
    for (size_t i = 0; i < COUNT_OF(gpu_tiles); i++)
        if (gpu_tiles[i].least && !*tile_value(p, &gpu_tiles[i])) return arena_printf(a, "tiles: %s", gpu_tiles[i].name);
    return !p->api ? "api" : !p->arch ? "arch" : !p->family_at.file ? "family" : !p->wave ? "wave" : !p->compute_units ? "compute_units"
        : !p->simds ? "simds" : !p->waves ? "waves"
         : !p->vgprs ? "registers: lane" : !p->vgpr_granule ? "registers: granule" : !p->vgprs_most ? "registers: most"
         : !p->lds_bytes ? "lds"
         : !p->activation_digits ? "activation_digits" : !p->load_hint ? "load_hint" : NULL;
}

static const char *missing_webgpu_tile(struct arena *a, struct profile *p)
{
    static const char *const needed[] = { "gemv_threads", "gemv_groups", "gemv_rows", "gemv_lanes", "attention_splits", "attention_threads",
                                          "gemm_threads", "stage_threads", "sample_threads", "prefill_chunk" };
    for (size_t i = 0; i < COUNT_OF(gpu_tiles); i++)
        for (size_t k = 0; k < COUNT_OF(needed); k++)
            if (!strcmp(gpu_tiles[i].name, needed[k]) && !*tile_value(p, &gpu_tiles[i])) return arena_printf(a, "tiles: %s", needed[k]);
    return NULL;
}

static const char *missing_key(struct arena *a, struct profile *p)
{
    if (!p->elf_machine) return "machine";
    if (p->kind == TARGET_CPU && !p->simd) return "simd";
    if (!p->page_bytes && !p->bare) return "page";
    if (!p->piece_bytes && p->web) return "piece";
    if (p->kind == TARGET_GPU) return missing_gpu_key(a, p);
    if (p->kind == TARGET_WEBGPU && !p->lds_bytes) return "lds";
    if (p->kind == TARGET_WEBGPU && !p->binding_bytes) return "binding";
    if (p->kind == TARGET_WEBGPU) return missing_webgpu_tile(a, p);
    return !p->tile.gemm_tokens ? "tiles: gemm_tokens" : !p->tile.gemm_groups ? "tiles: gemm_groups"
         : !p->tile.prefill_chunk ? "tiles: prefill_chunk" : !p->tile.attention_block ? "tiles: attention_block" : NULL;
}

/* ---- what must hold between keys that may stand in different files: what templates/gpu asserts or takes for granted ---- */

static const struct place *place_of_tile(const struct profile *p, const char *name)
{
    size_t i = 0;
    while (strcmp(gpu_tiles[i].name, name)) i++;
    return &p->gpu_at[i];
}

/* Of two or three values that do not go together, the place of the first that the target's own file gives: the others are inherited. */
static struct place at_tiles(const struct profile *p, const char *name, const char *with, const char *and)
{
    const char *const names[] = { name, with, and };
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        const struct place *at = names[i] ? place_of_tile(p, names[i]) : NULL;
        if (at && at->file && !strcmp(at->file, p->path)) return *at;
    }
    return *place_of_tile(p, name);
}

static bool is_power(uint32_t n) { return (n & (n - 1)) == 0; }

/* Threads of groups: whole waves, and no more than a compute unit holds.  groups: of them at once. */
static void check_threads(const struct profile *p, const char *name, uint32_t threads, const char *groups_name, uint32_t groups)
{
    const uint32_t waves = threads * groups / p->wave, most = p->simds * p->waves;
    if (threads % p->wave) die_at(at_tiles(p, name, NULL, NULL), "%s is %u, not a multiple of the wave's %u lanes", name, threads, p->wave);
    if (waves > most && groups > 1)
        die_at(at_tiles(p, name, groups_name, NULL), "%u groups of %s, %u, are %u waves; a compute unit holds %u", groups, name, threads,
               waves, most);
    if (waves > most)
        die_at(at_tiles(p, name, NULL, NULL), "%s is %u, which are %u waves; a compute unit holds %u", name, threads, waves, most);
}

static void check_gemv(const struct profile *p)
{
    const uint32_t lanes = p->gpu.gemv_lanes, rows = p->gpu.gemv_rows;
    if (!is_power(lanes) || lanes > p->wave)
        die_at(at_tiles(p, "gemv_lanes", NULL, NULL), "gemv_lanes is %u; it must be a power of two up to the wave's %u lanes", lanes,
               p->wave);
    if (!is_power(rows) || rows > lanes)
        die_at(at_tiles(p, "gemv_rows", "gemv_lanes", NULL), "gemv_rows is %u; it must be a power of two up to gemv_lanes, %u", rows,
               lanes);
}

/* gemm_tmpl.c: how the waves of a group share its tile, and how its threads bring what the tile reads. */
static void check_gemm_waves(const struct profile *p, const char *name, uint32_t threads)
{
    const uint32_t tokens = p->gpu.gemm_tokens, rows = p->gpu.gemm_rows, waves = threads / p->wave;
    const bool joined = family_multiplies_in_fours(p) && threads % 128 == 0 && tokens % (threads / 2) == 0 && rows % 128 == 0;
    const uint32_t across = joined ? waves : waves >= 4 ? 2 : 1, down = waves / across;      /* parts of the tokens, of the rows */
    if (down * across != waves)
        die_at(at_tiles(p, name, NULL, NULL), "%s is %u, which are %u waves; 4 or more must be an even number", name, threads, waves);
    if (tokens % (16 * across))
        die_at(at_tiles(p, name, "gemm_tokens", NULL),
               "gemm_tokens, %u, are shared by %u of the waves of %s, %u; each must get a multiple of 16", tokens, across, name, threads);
    if (rows % (32 * down))
        die_at(at_tiles(p, name, "gemm_rows", NULL),
               "gemm_rows, %u, are shared by %u of the waves of %s, %u; each must get a multiple of 32", rows, down, name, threads);
    if (tokens * 8 % threads)
        die_at(at_tiles(p, name, "gemm_tokens", NULL), "%s is %u; 8 times gemm_tokens, %u, must be a multiple of it", name, threads,
               tokens);
    if (rows * 8 % threads)
        die_at(at_tiles(p, name, "gemm_rows", NULL), "%s is %u; 8 times gemm_rows, %u, must be a multiple of it", name, threads, rows);
}

static void check_gemm(const struct profile *p)
{
    const uint32_t stages = GEMM_STAGES_OF(p->family), tokens = p->gpu.gemm_tokens, rows = p->gpu.gemm_rows;
    check_gemm_waves(p, "gemm_threads", p->gpu.gemm_threads);
    check_gemm_waves(p, "gemm_few_threads", p->gpu.gemm_few_threads);
    for (uint32_t copied = 0; copied < 2; copied++) {
        const uint32_t bytes = GEMM_LDS_BYTES(tokens, rows, stages, 1u, copied, p->gpu.gemm_unit_steps, 0);
        if (bytes > p->lds_bytes)
            die_at(at_tiles(p, "gemm_rows", "gemm_tokens", "gemm_unit_steps"),
                   "a tile of gemm_tokens, %u, and gemm_rows, %u, needs %u bytes of LDS; a group has %u", tokens, rows, bytes,
                   p->lds_bytes);
    }
}

/* attention_prefill_sizes.h: 256 registers a lane; its exact form gives each pair of 32 rows to a sixteenth of the threads. */
static void check_attention(const struct profile *p)
{
    const uint32_t threads = p->gpu.attention_prefill_threads, most = 8 * p->wave;
    if (!is_power(threads) || threads > most)
        die_at(at_tiles(p, "attention_prefill_threads", NULL, NULL), "attention_prefill_threads is %u; it must be a power of two up to %u",
               threads, most);
}

static void check_gpu(struct profile *p)
{
    const char *prefix = !strcmp(p->api, "hip") ? "gfx" : !strcmp(p->api, "cuda") ? "sm_" : "";
    if (strncmp(p->arch, prefix, strlen(prefix)))
        die("%s: arch %s is not one of the api %s, whose names begin with %s", p->path, p->arch, p->api, prefix);
    if (strcmp(p->api, "host") && !family_has_arch(p->family, p->arch))
        die_at(p->arch_at,
               "arch %s is not of the family %s (%s), and forgec has no machine file for others: see docs/target.md, 'A new GPU family'",
               p->arch, family_names[p->family], family_archs(p->family));
    const uint32_t lanes = FAMILY_WAVE(p->family);
    if (p->wave != lanes)
        die_at(p->wave_at, "wave is %u; the kernels of the family %s have waves of %u lanes", p->wave, family_names[p->family], lanes);
    check_threads(p, "gemv_threads", p->gpu.gemv_threads, "gemv_groups", p->gpu.gemv_groups);
    check_threads(p, "gemm_threads", p->gpu.gemm_threads, "gemm_groups", p->gpu.gemm_groups);
    check_threads(p, "gemm_few_threads", p->gpu.gemm_few_threads, NULL, 1);
    check_threads(p, "attention_threads", p->gpu.attention_threads, NULL, 1);
    check_threads(p, "attention_prefill_threads", p->gpu.attention_prefill_threads, NULL, 1);
    check_threads(p, "stage_threads", p->gpu.stage_threads, NULL, 1);
    check_threads(p, "sample_threads", p->gpu.sample_threads, NULL, 1);
    check_gemv(p);
    check_gemm(p);
    check_attention(p);
    if (p->cluster && strcmp(p->api, "cuda")) die("%s: cluster is for the api cuda", p->path);
}

static void check_webgpu(struct profile *p)
{
    static const char *const of_threads[] = { "gemv_threads", "attention_threads", "gemm_threads", "stage_threads", "sample_threads" };
    for (size_t i = 0; i < COUNT_OF(gpu_tiles); i++)
        for (size_t k = 0; k < COUNT_OF(of_threads); k++) {
            const uint32_t value = *tile_value(p, &gpu_tiles[i]);
            if (!strcmp(gpu_tiles[i].name, of_threads[k]) && (!is_power(value) || value > WEBGPU_MOST_THREADS))
                die_at(p->gpu_at[i], "%s is %u; groups of WebGPU have a power of two up to %u threads", of_threads[k], value,
                       WEBGPU_MOST_THREADS);
        }
    const uint32_t lanes = p->gpu.gemv_lanes;
    if (!is_power(lanes) || lanes > p->gpu.gemv_threads)
        die_at(*place_of_tile(p, "gemv_lanes"), "gemv_lanes is %u; it must be a power of two up to gemv_threads, %u", lanes,
               p->gpu.gemv_threads);
}

static void check_cpu(const struct profile *p)
{
    if (p->web != !strcmp(p->elf_machine, "wasm32"))
        die_at(p->system_at, "system: web and machine: wasm32 belong together; the machine is %s", p->elf_machine);
    if (p->simd->machine && strcmp(p->simd->machine, p->elf_machine))
        die_at(p->simd_at, "simd is %s, which is of %s; the machine is %s", p->simd->name, p->simd->machine, p->elf_machine);
    if (p->matrix_unit == MATRIX_TILES && p->tile.gemm_groups != 2)
        die_at(p->gemm_groups_at, "matrix: tiles multiplies two groups of rows at once; gemm_groups is %u", p->tile.gemm_groups);
}

static struct profile *load(struct arena *a, const char *name, const char *directory)
{
    struct profile *p = arena_new(a, struct profile);
    load_into(a, p, name, (struct place){ 0 }, directory, 0);
    if (!p->description) p->description = "";
    return p;
}

struct profile *profile_load(struct arena *a, const char *name, const char *directory)
{
    if (!strcmp(name, "native")) {
        for (size_t i = 0; i < COUNT_OF(native_order); i++) {
            struct profile *p = load(a, native_order[i], directory);
            if (!missing_key(a, p) && !profile_unsupported_here(a, p)) return p;
        }
        die("no built-in target runs on this machine (%s); known: %s", profile_host_machine(), names_line(a, directory));
    }
    struct profile *p = load(a, name, directory);
    const char     *missing = missing_key(a, p);
    if (missing) die("%s: no %s; only targets that inherit this one and add it can be built for", p->path, missing);
    if (p->kind == TARGET_GPU)         check_gpu(p);
    else if (p->kind == TARGET_WEBGPU) check_webgpu(p);
    else                               check_cpu(p);
    return p;
}

struct profile *profile_load_tuned(struct arena *a, const char *name, const char *directory, const char *tuned)
{
    static const char *const keys[] = { "tuned", "tiles", "kernels", NULL };
    struct profile *p = profile_load(a, name, directory);
    if (!tuned) return p;
    const struct bytes text = file_read_most(a, tuned, YAML_MOST_BYTES);
    const struct yaml *y = yaml_parse(a, tuned, (const char *)text.data, text.size), *tiles = y ? yaml_get(y, "tiles") : NULL;
    input_remember(a, tuned);
    if (!y || y->kind != YAML_MAP) die("%s: expected a map of keys and values, as forgec tune writes", tuned);
    yaml_only(y, keys);
    yaml_need(y, "tuned");
    p->path = arena_strdup(a, tuned);                     /* for messages about tiles */
    p->tuned = y;
    if (tiles && tiles->kind != YAML_NULL && p->kind != TARGET_CPU) apply_gpu_tiles(p, tiles);
    if (tiles && tiles->kind != YAML_NULL && p->kind == TARGET_CPU) apply_cpu_tiles(p, tiles);
    if (p->kind == TARGET_GPU) check_gpu(p);
    if (p->kind == TARGET_WEBGPU) check_webgpu(p);
    return p;
}

const char **profile_names(struct arena *a, const char *directory)
{
    const char **names = resource_names(a, directory, "targets/");
    size_t kept = 0;
    for (size_t i = 0; names[i]; i++) {
        const char *path = arena_printf(a, "targets/%s.yaml", names[i]);
        const struct bytes text = resource_get(a, directory, path);
        const struct yaml *y = yaml_parse(a, resource_place(a, directory, path), (const char *)text.data, text.size);
        const struct yaml *base = y ? yaml_get(y, "base") : NULL;
        if (!base || !yaml_bool(base)) names[kept++] = names[i];
    }
    names[kept] = NULL;
    return names;
}

/* ---- does it run here? ---- */

/* The kernel driver's names of the AMD GPUs, "gfx1100, gfx1036"; sets *found when arch is one of them.
 * gfx_target_version: 10000 major + 100 minor + stepping (Linux, amdkfd); minor and stepping are hexadecimal digits in the name. */
static const char *amd_gpus(struct arena *a, const char *arch, bool *found)
{
    static const char folder[] = "/sys/class/kfd/kfd/topology/nodes";
    struct text names = { .arena = a };
    DIR *nodes = opendir(folder);
    for (struct dirent *entry; nodes && (entry = readdir(nodes)); ) {
        FILE *f = fopen(arena_printf(a, "%s/%s/properties", folder, entry->d_name), "r");
        char  line[256];
        for (unsigned version; f && fgets(line, sizeof line, f); ) {
            if (sscanf(line, "gfx_target_version %u", &version) != 1 || !version) continue;      /* 0: a CPU */
            const char *name = arena_printf(a, "gfx%u%x%x", version / 10000, version / 100 % 100, version % 100);
            *found |= !strcmp(name, arch);
            text_printf(&names, "%s%s", names.size ? ", " : "", name);
        }
        if (f) fclose(f);
    }
    if (nodes) closedir(nodes);
    return text_str(&names);
}

static bool library_opens(const char *name)
{
    return dlopen(name, RTLD_LAZY | RTLD_LOCAL) != NULL;         /* never closed: drivers do not survive it */
}

/* A library named in the environment stands for the driver and its device. */
static const char *named_library(struct arena *a, const char *variable)
{
    const char *name = getenv(variable);
    return !name || !*name ? "" : library_opens(name) ? NULL
        : arena_printf(a, "%s: %s cannot be opened", variable, printable(a, name, strlen(name)));
}

static const char *amd_unsupported(struct arena *a, const struct profile *p)
{
    const char *named = named_library(a, "FORGE_HIP_LIBRARY");
    if (!named || *named) return named;
    if (access("/dev/kfd", F_OK)) return "no /dev/kfd: no AMD GPU, or its kernel driver amdgpu is not loaded";
    if (access("/dev/kfd", R_OK | W_OK)) return "/dev/kfd is not accessible: add the user to the group render";
    bool found = false;
    const char *gpus = amd_gpus(a, p->arch, &found);
    if (!found) return *gpus ? arena_printf(a, "the GPU is %s, the target %s", gpus, p->arch) : "the kernel driver amdgpu lists no GPU";
    static const char *const libraries[] = { "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so",
                                             "/opt/rocm/lib/libamdhip64.so" };
    for (size_t i = 0; i < COUNT_OF(libraries); i++)
        if (library_opens(libraries[i])) return NULL;
    return "no libamdhip64.so.7, .6 or .5: install ROCm's HIP runtime";
}

static const char *nvidia_unsupported(struct arena *a)
{
    const char *named = named_library(a, "FORGE_CUDA_LIBRARY");
    if (!named || *named) return named;
    if (access("/dev/nvidiactl", F_OK)) return "no /dev/nvidiactl: no NVIDIA GPU, or its driver is not loaded";
    return library_opens("libcuda.so.1") ? NULL : "no libcuda.so.1: install NVIDIA's driver";
}

const char *profile_unsupported_here(struct arena *a, const struct profile *p)
{
    if (p->web) return arena_printf(a, "%s: a page or node runs it", p->kind == TARGET_WEBGPU ? "WebGPU" : "WebAssembly");
    if (p->bare) return "bare metal: forgec makes objects for it";
    if (strcmp(p->elf_machine, profile_host_machine()) != 0)
        return arena_printf(a, "this machine is %s, the target %s", profile_host_machine(), p->elf_machine);
    char missing[512];
    if (!cpu_has_all(p->features, missing, sizeof missing)) return arena_printf(a, "this CPU has no %s", missing);
    if (p->kind == TARGET_CPU) return NULL;
    if (!strcmp(p->api, "hip"))  return amd_unsupported(a, p);
    if (!strcmp(p->api, "cuda")) return nvidia_unsupported(a);
    const char *named = named_library(a, "FORGE_HIP_LIBRARY");
    return named && !*named ? "FORGE_HIP_LIBRARY does not name the library that stands for a device" : named;
}

const char *profile_no_executable(struct arena *a, const struct profile *p)
{
    return p->bare && !p->web
        ? arena_printf(a,
        "target %s has no operating system that could start an executable; build an object for your firmware with --emit obj or lib",
        p->name) : NULL;
}
