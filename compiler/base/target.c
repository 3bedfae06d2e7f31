/* target.c -- reads targets/NAME.yaml, with the files it inherits, into struct target: keys and values. */
#include "target_parts.h"
#include "resource.h"
#include "family.h"
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INHERIT_DEPTH_MAX = 8 };

/* Best first; `native` is the first target that runs here. */
static const char *const native_order[] = { "sapphire-rapids", "x86-64-v4", "x86-64-v3-vnni", "x86-64-v3",
                                            "aarch64-v8.6", "aarch64", "portable" };

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

/* A quantity such as {value: 25, unit: GB/s, source: "..."}, converted to the first unit of the list. */
static double quantity(struct arena *a, const struct yaml *y, const struct unit *units)
{
    static const char *const keys[] = { "value", "unit", "source", NULL };
    if (y->kind != YAML_MAP) die_at(y->at, "expected {value: ..., unit: %s, source: \"...\"}", units[0].name);
    yaml_only(y, keys);
    const struct yaml *unit = yaml_need(y, "unit");
    const double value = yaml_f64(yaml_need(y, "value"));
    if (!*yaml_string(yaml_need(y, "source"))) die_at(yaml_need(y, "source")->at, "the source is empty; say where the number is from");
    const char *name = yaml_string(unit);
    for (size_t i = 0; units[i].name; i++)
        if (!strcmp(name, units[i].name)) {
            const double amount = value * units[i].scale;
            if (!(amount >= 0 && amount <= 1e15))
                die_at(yaml_need(y, "value")->at, "%s is not a plausible value", yaml_need(y, "value")->scalar);
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

/* A quantity that must be an integer from least to most. */
static uint32_t whole(struct arena *a, const struct yaml *y, const struct unit *units, uint32_t least, uint32_t most)
{
    const double value = quantity(a, y, units);
    if (value < least || value > most || value != (double)(uint32_t)value)
        die_at(yaml_need(y, "value")->at, "%s is out of range (a whole number from %u to %u %s)", yaml_need(y, "value")->scalar, least,
               most, units[0].name);
    return (uint32_t)value;
}

static void words(struct arena *a, const struct yaml *y, const char *out[TARGET_MAX_FLAGS + 1])
{
    if (y->kind != YAML_LIST) die_at(y->at, "expected a list, such as [a, b]");
    if (y->count > TARGET_MAX_FLAGS) die_at(y->at, "the list has %u entries; the maximum is %d", y->count, TARGET_MAX_FLAGS);
    for (uint32_t i = 0; i < y->count; i++) {
        const char *word = yaml_string(y->items[i]);
        if (!*word) die_at(y->items[i]->at, "this entry is empty; remove it");
        out[i] = arena_strdup(a, word);
    }
    out[y->count] = NULL;
}

/* yaml.c accepts line ends and tabs; here they would break a table. */
static const char *line_of(struct arena *a, const struct yaml *y)
{
    const char *s = yaml_string(y);
    if (strpbrk(s, "\n\t")) die_at(y->at, "this text has a line end or a tab; write one line without tabs");
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

const char *target_one_of(struct arena *a, const struct yaml *y, const char *const *known)
{
    const char *word = yaml_string(y);
    struct text list = { .arena = a };
    for (size_t i = 0; known[i]; i++) {
        if (!strcmp(word, known[i])) return known[i];
        text_printf(&list, "%s%s", i ? ", " : "", known[i]);
    }
    die_at(y->at, "unknown value %s; known: %s", printable(a, word, strlen(word)), text_str(&list));
}

/* ---- one file's values over its parent's values ---- */

static void apply_cpu_tiles(struct target *p, const struct yaml *y)
{
    static const char *const keys[] = { "gemm_tokens", "gemm_groups", "prefill_chunk", "prefill_few", "attention_block", NULL };
    if (y->kind != YAML_MAP) die_at(y->at, "expected a map of keys and values");
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

static void apply_cache(struct arena *a, struct target *p, const struct yaml *y)
{
    static const char *const keys[] = { "l1d", "l2", "l3", NULL };
    if (y->kind != YAML_MAP) die_at(y->at, "expected a map of keys and values");
    yaml_only(y, keys);
    const struct yaml *v;
    if ((v = yaml_get(y, "l1d"))) p->cache.l1d_bytes = whole_bytes(a, v);
    if ((v = yaml_get(y, "l2")))  p->cache.l2_bytes = whole_bytes(a, v);
    if ((v = yaml_get(y, "l3")))  p->cache.l3_bytes = whole_bytes(a, v);
}

/* The keys in `tiles` of GPUs. Multiples of a wave are checked after all files have been read. */
const struct target_tile target_tiles[TARGET_TILES] = {
#define TILE(name, least, most, multiple) { #name, offsetof(struct target, gpu.name), least, most, multiple }
    TILE(gemv_threads, 32, 1024, 32),            TILE(gemv_groups, 1, 32, 1),               TILE(gemv_rows, 1, 64, 1),
    TILE(gemv_lanes, 8, 64, 8),                  TILE(gemv_depth, 0, 32, 1),                TILE(attention_splits, 1, 4096, 1),
    TILE(attention_groups, 0, 4096, 1),          TILE(attention_full_groups, 0, 4096, 1),
    TILE(attention_span, 1, 4096, 1),
    TILE(attention_threads, 32, 1024, 32),       TILE(attention_prefill_threads, 32, 1024, 32),
    TILE(gemm_tokens, 16, 512, 16),              TILE(gemm_rows, 16, 512, 16),              TILE(gemm_groups, 1, 8, 1),
    TILE(gemm_unit_steps, 1, 2, 1),
    TILE(gemm_threads, 32, 1024, 32),            TILE(gemm_few_threads, 32, 1024, 32),      TILE(gemm_fit, 0, 4096, 1),
    TILE(gemm_fit_experts, 0, 4096, 1),          TILE(stage_threads, 32, 1024, 32),         TILE(sample_groups, 1, 1024, 1),
    TILE(sample_threads, 32, 1024, 32),          TILE(prefill_chunk, 1, 4096, 1),
#undef TILE
};

static void apply_gpu_tiles(struct target *p, const struct yaml *y)
{
    const char *keys[COUNT_OF(target_tiles) + 1];
    for (size_t i = 0; i < COUNT_OF(target_tiles); i++) keys[i] = target_tiles[i].name;
    keys[COUNT_OF(target_tiles)] = NULL;
    if (y->kind != YAML_MAP) die_at(y->at, "expected a map of keys and values");
    yaml_only(y, keys);
    for (size_t i = 0; i < COUNT_OF(target_tiles); i++) {
        const struct target_tile *key = &target_tiles[i];
        const struct yaml     *v = yaml_get(y, key->name);
        if (!v) continue;
        const uint32_t value = *target_tile(p, key) = small(v, key->least, key->most);
        p->gpu_at[i] = v->at;
        if (value % key->multiple) die_at(v->at, "%s is %u; it must be a multiple of %u", key->name, value, key->multiple);
    }
    p->tile.prefill_chunk = p->gpu.prefill_chunk;
}

static void apply_registers(struct arena *a, struct target *p, const struct yaml *y)
{
    static const char *const keys[] = { "lane", "granule", "most", NULL };
    if (y->kind != YAML_MAP) die_at(y->at, "expected a map of keys and values");
    yaml_only(y, keys);
    const struct yaml *v;
    if ((v = yaml_get(y, "lane")))    p->vgprs = whole(a, v, register_units, 64, 65536);
    if ((v = yaml_get(y, "granule"))) p->vgpr_granule = whole(a, v, register_units, 1, 256);
    if ((v = yaml_get(y, "most")))    p->vgprs_most = whole(a, v, register_units, 32, 65536);
}

static void apply_channels(struct arena *a, struct target *p, const struct yaml *y)
{
    static const char *const keys[] = { "count", "interleave", "window", "in_step", NULL };
    if (y->kind != YAML_MAP) die_at(y->at, "expected a map of keys and values");
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

/* A number with a unit, a double at `offset` of a struct. */
struct amount_key { const char *name; size_t offset; const struct unit *units; };
enum { MOST_AMOUNTS = 16 };

/* Sets the members of the struct at `out` that a map names; keys: [n], n at most MOST_AMOUNTS. `other`: one more key that the map may have.
 * Dies at an amount that is not from `least` to `most`. */
static void apply_amounts(struct arena *a, void *out, const struct yaml *y, const struct amount_key *keys, size_t n, const char *other,
                          double least, double most)
{
    const char *names[MOST_AMOUNTS + 2];
    for (size_t i = 0; i < n; i++) names[i] = keys[i].name;
    names[n] = other;
    names[n + 1] = NULL;
    if (y->kind != YAML_MAP) die_at(y->at, "expected a map of keys and values");
    yaml_only(y, names);
    for (size_t i = 0; i < n; i++) {
        const struct yaml *v = yaml_get(y, keys[i].name);
        if (!v) continue;
        const double value = quantity(a, v, keys[i].units);
        const struct yaml *number = yaml_need(v, "value");
        if (!(value >= least && value <= most)) die_at(number->at, "%s is not a plausible value", number->scalar);
        memcpy((char *)out + keys[i].offset, &value, sizeof value);
    }
}

/* The first RATES_NEEDED keys are in the order in which missing rates are reported; the others are for matrices. */
static const struct amount_key rate_keys[] = {
#define RATE(name, member, units) { #name, offsetof(struct target, rates.member), units }
    RATE(clock, clock_ghz, clock_units),         RATE(vector, vector, wave_units), RATE(transcendental, transcendental, issue_units),
    RATE(multiply, multiply, issue_units),       RATE(f64, f64, issue_units),      RATE(lds, lds_bytes, byte_units),
    RATE(matrix_f16, matrix[MATRIX_F16], flop_units), RATE(matrix_f8, matrix[MATRIX_F8], flop_units),
    RATE(matrix_f32, matrix[MATRIX_F32], flop_units),
    RATE(matrix_i8, matrix[MATRIX_I8], flop_units),   RATE(matrix_i4, matrix[MATRIX_I4], flop_units),
#undef RATE
};
enum { RATES_NEEDED = 6 };                       /* a chip need not have every matrix format */
_Static_assert(COUNT_OF(rate_keys) <= MOST_AMOUNTS, "rates");

static void apply_rates(struct arena *a, struct target *p, const struct yaml *y)
{
    apply_amounts(a, p, y, rate_keys, COUNT_OF(rate_keys), "transcendental_apart", 1e-3, 1e6);
    const struct yaml *v = yaml_get(y, "transcendental_apart");
    if (v) p->rates.transcendental_apart = yaml_bool(v);
}

const char *target_missing_rate(const struct target *p)
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

static const struct amount_key prediction_keys[] = {
#define KEY(name, member, units) { #name, offsetof(struct prediction, member), units }
    KEY(start, start_us, time_units),            KEY(chain, chain_us, time_units),      KEY(bandwidth, bandwidth_gb_s, bandwidth_units),
    KEY(row, row_us, time_units),                KEY(strided, strided, share_units),    KEY(rate, rate_tops, rate_units),
    KEY(clocks, clocks, times_units),            KEY(copied, copied, times_units),      KEY(error, error_percent, percent_units),
    KEY(least, least_bytes, byte_units),
#undef KEY
};
_Static_assert(COUNT_OF(prediction_keys) <= MOST_AMOUNTS, "predictions");

static void apply_prediction_of(struct arena *a, struct prediction *p, const struct yaml *y)
{
    apply_amounts(a, p, y, prediction_keys, COUNT_OF(prediction_keys), "held_out", 0, 1e15);
    const struct yaml *v = yaml_get(y, "held_out");
    if (v) {
        p->held_out = whole(a, v, kernel_units, 0, 100000);
        p->held_out_source = line_of(a, yaml_need(v, "source"));
    }
}

static void apply_prediction(struct arena *a, struct target *p, const struct yaml *y)
{
    const char *keys[N_PREDICTIONS + 3] = { "latency", "stride" };
    memcpy(keys + 2, prediction_name, sizeof prediction_name);
    if (y->kind != YAML_MAP) die_at(y->at, "expected a map of keys and values");
    yaml_only(y, keys);
    const struct yaml *v;
    if ((v = yaml_get(y, "latency"))) p->prediction.latency_us = quantity(a, v, time_units);
    if ((v = yaml_get(y, "stride")))  p->prediction.stride_bytes = quantity(a, v, byte_units);
    for (size_t i = 0; i < N_PREDICTIONS; i++)
        if ((v = yaml_get(y, prediction_name[i]))) apply_prediction_of(a, &p->prediction.of[i], v);
}

static void apply_instructions(struct arena *a, struct target *p, const struct yaml *y)
{
    static const char *const keys[] = { "dot", "matrix", NULL };
    if (y->kind != YAML_MAP) die_at(y->at, "expected a map of keys and values");
    yaml_only(y, keys);
    const struct yaml *v;
    if ((v = yaml_get(y, "dot")))    words(a, v, p->dot);
    if ((v = yaml_get(y, "matrix"))) words(a, v, p->matrix);
}

#define COMMON_KEYS "inherits", "base", "description", "kind", "machine", "triple", "cflags", "features", "page", "tiles", "bandwidth"

const struct simd simd_table[SIMD_COUNT] = { { "c", NULL }, { "avx2", "x86_64" }, { "avx512", "x86_64" }, { "neon", "aarch64" },
                                               { "wasm", "wasm32" } };

const char *const matrix_unit_name[MATRIX_COUNT] = { "none", "dot", "tiles" };

static void apply_matrix(struct arena *a, struct target *p, const struct yaml *y)
{
    const char *names[MATRIX_COUNT + 1] = { NULL };
    for (uint32_t i = 0; i < MATRIX_COUNT; i++) names[i] = matrix_unit_name[i];
    const char *name = target_one_of(a, y, names);
    for (p->matrix_unit = 0; matrix_unit_name[p->matrix_unit] != name; p->matrix_unit++) { }
    if (p->matrix_unit == MATRIX_TILES) p->gemm_groups_at = y->at;
}

static void apply_piece(struct arena *a, struct target *p, const struct yaml *y)
{
    const uint64_t bytes = whole_bytes(a, y);
    if (bytes < 4096 || bytes > 1u << 30)
        die_at(y->at, "a piece of weights of %llu bytes is out of range (4 KiB to 1 GiB)", (unsigned long long)bytes);
    p->piece_bytes = (uint32_t)bytes;
}

static void apply_binding(struct arena *a, struct target *p, const struct yaml *y)
{
    p->binding_bytes = whole_bytes(a, y);
    if (p->binding_bytes < 4096 || p->binding_bytes > 4ull << 30)
        die_at(y->at, "a binding of %llu bytes is out of range (4 KiB to 4 GiB)", (unsigned long long)p->binding_bytes);
}

static void apply_cpu(struct arena *a, struct target *p, const struct yaml *y)
{
    static const char *const keys[] = { COMMON_KEYS, "system", "simd", "matrix", "cache", "piece", NULL };
    const char *names[SIMD_COUNT + 1] = { NULL };
    for (uint32_t i = 0; i < SIMD_COUNT; i++) names[i] = simd_table[i].name;
    yaml_only(y, keys);
    const struct yaml *v;
    if ((v = yaml_get(y, "simd"))) {
        const char *name = target_one_of(a, v, names);
        for (p->simd = simd_table; p->simd->name != name; p->simd++) { }
        p->simd_at = v->at;
    }
    if ((v = yaml_get(y, "matrix"))) apply_matrix(a, p, v);
    if ((v = yaml_get(y, "piece"))) apply_piece(a, p, v);
    if ((v = yaml_get(y, "tiles"))) apply_cpu_tiles(p, v);
    if ((v = yaml_get(y, "cache"))) apply_cache(a, p, v);
}

/* Reads the keys of WebGPU beyond those inherited from a WebAssembly target, which processes its text. */
static void apply_webgpu(struct arena *a, struct target *p, const struct yaml *y)
{
    static const char *const keys[] = { COMMON_KEYS, "piece", "lds", "binding", NULL };
    yaml_only(y, keys);
    const struct yaml *v;
    if ((v = yaml_get(y, "lds")))   p->lds_bytes = whole(a, v, byte_units, 16384, 1 << 20);
    if ((v = yaml_get(y, "piece"))) apply_piece(a, p, v);
    if ((v = yaml_get(y, "binding"))) apply_binding(a, p, v);
    if ((v = yaml_get(y, "tiles"))) apply_gpu_tiles(p, v);
}

static void apply_family(struct arena *a, struct target *p, const struct yaml *y)
{
    const char *name = target_one_of(a, y, family_names);
    for (p->family = 0; family_names[p->family] != name; p->family++) { }
    p->family_at = y->at;
}

/* {least: "7.2", source: "..."}: major and minor. */
static void apply_driver(struct target *p, const struct yaml *y)
{
    static const char *const keys[] = { "least", "source", NULL };
    unsigned major, minor;
    int end = 0;
    if (y->kind != YAML_MAP) die_at(y->at, "expected {least: \"7.2\", source: \"...\"}");
    yaml_only(y, keys);
    const struct yaml *least = yaml_need(y, "least");
    if (sscanf(yaml_string(least), "%2u.%2u%n", &major, &minor, &end) != 2 || yaml_string(least)[end])
        die_at(least->at, "this is not a version of HIP; write two numbers, such as 7.2");
    if (!*yaml_string(yaml_need(y, "source"))) die_at(yaml_need(y, "source")->at, "the source is empty; say where the number is from");
    p->least_driver = 100 * major + minor;
}

static void apply_gpu(struct arena *a, struct target *p, const struct yaml *y)
{
    static const char *const keys[] = { COMMON_KEYS, "api", "arch", "wave", "compute_units", "simds", "waves", "registers", "lds", "memory",
                                        "bandwidth_peak", "launch", "activation_digits", "load_hint", "dependent_launch", "cluster",
                                        "graph", "instructions", "driver", "rates", "prediction", "family", "channels", "row_period",
                                        NULL };
    static const char *const apis[] = { "hip", "cuda", "host", NULL }, *const hints[] = { "plain", "stream", NULL };
    yaml_only(y, keys);
    const struct yaml *v;
    if ((v = yaml_get(y, "api")))               p->api = target_one_of(a, v, apis);
    if ((v = yaml_get(y, "arch"))) {
        p->arch = arena_strdup(a, yaml_string(v));
        p->arch_at = v->at;
        if (!*p->arch || p->arch[strspn(p->arch, "abcdefghijklmnopqrstuvwxyz0123456789_")])
            die_at(v->at, "this is not the name of an arch; write one such as gfx1151 or sm_90");
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
    if ((v = yaml_get(y, "load_hint")))         p->load_hint = target_one_of(a, v, hints);
    if ((v = yaml_get(y, "dependent_launch")))  p->dependent_launch = yaml_bool(v);
    if ((v = yaml_get(y, "cluster")))           p->cluster = yaml_bool(v);
    if ((v = yaml_get(y, "graph")))             p->graph = yaml_bool(v);
    if ((v = yaml_get(y, "instructions")))      apply_instructions(a, p, v);
    if ((v = yaml_get(y, "driver")))            apply_driver(p, v);
    if ((v = yaml_get(y, "rates")))             apply_rates(a, p, v);
    if ((v = yaml_get(y, "prediction")))        apply_prediction(a, p, v);
    if ((v = yaml_get(y, "channels")))          apply_channels(a, p, v);
    if ((v = yaml_get(y, "row_period"))) {
        p->row_period = whole(a, v, byte_units, 0, 65536);
        if (p->row_period % 16) die_at(v->at, "row_period is %u; it must be a multiple of 16, as rows are", p->row_period);
    }
    if ((v = yaml_get(y, "tiles")))             apply_gpu_tiles(p, v);
}

/* Forgets measured values that were inherited from a chip with other memory. */
static void forget_measured(struct prediction *p)
{
    p->bandwidth_gb_s = 0;
    p->held_out = 0;
}

static void apply(struct arena *a, struct target *p, const struct yaml *y)
{
    static const char *const kinds[] = { [TARGET_CPU] = "cpu", [TARGET_GPU] = "gpu", [TARGET_WEBGPU] = "webgpu", NULL };
    static const char *const machines[] = { "x86_64", "aarch64", "riscv64", "riscv32", "arm", "wasm32", "host", NULL },
        *const systems[] = { "linux", "none", "web", NULL };
    const struct yaml *v, *system = yaml_get(y, "system");
    if ((v = yaml_get(y, "base")))        yaml_bool(v);          /* target_names reads it */
    if ((v = yaml_get(y, "kind"))) {
        const char *name = target_one_of(a, v, kinds);
        enum target_kind kind = TARGET_CPU;
        while (kinds[kind] != name) kind++;
        const bool can = kind == TARGET_WEBGPU ? p->web : !yaml_get(y, "inherits");
        if (kind != p->kind && !can)
            die_at(v->at, kind == TARGET_WEBGPU ? "a target of kind %s must inherit a target with system: web"
                                                : "a target of kind %s cannot inherit a target of another kind", yaml_string(v));
        p->kind = kind;
    }
    if ((v = yaml_get(y, "description"))) p->description = line_of(a, v);
    if (system) {
        const char *name = target_one_of(a, system, systems);
        p->bare = name != systems[0];
        p->web = name == systems[2];
        p->system_at = system->at;
    }
    if ((v = yaml_get(y, "machine"))) {
        p->elf_machine = target_one_of(a, v, machines);
        if (!strcmp(p->elf_machine, "host")) p->elf_machine = target_host_machine();
    }
    const char *rest = p->web ? "unknown-unknown" : p->bare ? "none-elf" : "linux-gnu";
    if ((v || system) && p->elf_machine)  p->triple = arena_printf(a, "%s-%s", p->elf_machine, rest);
    if ((v = yaml_get(y, "triple")))      p->triple = target_triple_of(a, v);
    if ((v = yaml_get(y, "cflags")))      { words(a, v, p->cflags); target_check_flags(a, v); }
    if ((v = yaml_get(y, "features")))    { words(a, v, p->features); target_check_features(a, v); }
    if ((v = yaml_get(y, "page"))) {
        const uint64_t page = whole_bytes(a, v);
        if (page < 4096 || page > 1u << 21 || (page & (page - 1)))
            die_at(v->at, "a page of %llu bytes is not a power of two from 4096 B to 2 MiB", (unsigned long long)page);
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
    return length && length <= TARGET_NAME_MOST && name[0] != '.' && name[0] != '-' &&
           strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == length;
}

static const char *names_line(struct arena *a, const char *directory)
{
    struct text t = { .arena = a };
    for (const char **names = target_names(a, directory); *names; names++) text_printf(&t, "%s%s", t.size ? ", " : "", *names);
    return text_str(&t);
}

/* ---- names of targets that do not exist ---- */

/* Lower case: "Strix-Halo" becomes "strix-halo". */
static const char *small_letters(struct arena *a, const char *name)
{
    char *s = arena_strdup(a, name);
    for (char *c = s; *c; c++) if (*c >= 'A' && *c <= 'Z') *c = (char)(*c - 'A' + 'a');
    return s;
}

/* The hint for a name that is not a target (target_hints.def); NULL: there is no hint. */
static const char *hint_of(const char *name)
{
    static const struct { const char *name; bool whole; const char *hint; } hints[] = {
#define NAME_ONLY(name, hint)   { name, true, hint },
#define NAME_BEGINS(name, hint) { name, false, hint },
#include "target_hints.def"
#undef NAME_ONLY
#undef NAME_BEGINS
    };
    for (size_t i = 0; i < COUNT_OF(hints); i++)
        if (hints[i].whole ? !strcmp(name, hints[i].name) : !strncmp(name, hints[i].name, strlen(hints[i].name))) return hints[i].hint;
    return NULL;
}

/* Number of letters to change, insert or delete to turn one name into the other; both are short. (Levenshtein 1966) */
static size_t edits(const char *from, const char *to)
{
    size_t row[TARGET_NAME_MOST + 1];
    const size_t n = strlen(to);
    for (size_t k = 0; k <= n; k++) row[k] = k;
    for (size_t i = 0; from[i]; i++) {
        size_t before = row[0];
        row[0] = i + 1;
        for (size_t k = 1; k <= n; k++) {
            const size_t changed = before + (from[i] != to[k - 1]), fewer = row[k] + 1, more = row[k - 1] + 1;
            before = row[k];
            row[k] = changed < fewer && changed < more ? changed : fewer < more ? fewer : more;
        }
    }
    return row[n];
}

/* The target that the user probably meant; NULL: no name is near. */
static const char *nearest_name(struct arena *a, const char *name, const char *directory)
{
    const char *best = NULL;
    size_t least = strlen(name) > 6 ? 3 : 2;     /* with this many edits it counts as another name */
    for (const char **names = target_names(a, directory); *names; names++) {
        const size_t n = edits(name, *names);
        if (n < least) {
            best = *names;
            least = n;
        }
    }
    return best;
}

/* Dies on an unknown name. Every message ends with all targets, or says why the name is not a target and what to use instead. */
_Noreturn static void die_unknown(struct arena *a, struct place at, const char *name, const char *directory)
{
    const char *shown = printable(a, name, strlen(name)), *small = small_letters(a, name);
    const char *hint = name_is_plain(name) ? hint_of(small) : NULL;
    const char *near = name_is_plain(name) && !hint ? nearest_name(a, small, directory) : NULL;
    if (hint) die_at(at, "unknown target %s: %s; forgec targets lists all", shown, hint);
    if (near) die_at(at, "unknown target %s: is it %s?  forgec targets lists all", shown, near);
    die_at(at, "unknown target %s; known: native, %s, or a path ending in .yaml", shown, names_line(a, directory));
}

/* Reads a file after the files it inherits. at: place of the name; no place if it is from the command line. */
static void load_into(struct arena *a, struct target *p, const char *name, struct place at, const char *directory, uint32_t depth)
{
    struct bytes text;
    const size_t length = strlen(name);
    if (depth == 0 && length > 5 && !strcmp(name + length - 5, ".yaml")) {
        p->path = name;
        input_remember(a, name);
        text = file_read_most(a, name, YAML_MOST_BYTES);
        const char *base = path_name(name);
        p->name = arena_strndup(a, base, strlen(base) - 5);
        if (!name_is_plain(p->name))
            die("%s: the file name of a target may have only letters, digits, '.', '_' and '-'; rename it", printable(a, name, length));
    } else {
        const char *path = arena_printf(a, "targets/%s.yaml", name);
        if (!name_is_plain(name) || !resource_find(a, directory, path, &text))
            die_unknown(a, at, name, directory);
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
            die_at(parent->at, "targets inherit deeper than %d levels; does a target inherit itself?", INHERIT_DEPTH_MAX);
        load_into(a, p, yaml_string(parent), parent->at, directory, depth + 1);
    }
    apply(a, p, y);
}

static struct target *load(struct arena *a, const char *name, const char *directory)
{
    struct target *p = arena_new(a, struct target);
    load_into(a, p, name, (struct place){ 0 }, directory, 0);
    if (!p->description) p->description = "";
    return p;
}

struct target *target_load(struct arena *a, const char *name, const char *directory)
{
    if (!strcmp(name, "native")) {
        for (size_t i = 0; i < COUNT_OF(native_order); i++) {
            struct target *p = load(a, native_order[i], directory);
            if (!target_missing_key(a, p) && !target_unsupported_here(a, p)) return p;
        }
        die("no built-in target runs on this machine (%s); known: %s", target_host_machine(), names_line(a, directory));
    }
    struct target *p = load(a, name, directory);
    const char     *missing = target_missing_key(a, p);
    if (missing) die("%s: %s is missing; forgec can only build for a target that inherits this one and adds it", p->path, missing);
    if (p->kind == TARGET_GPU)         target_check_gpu(p);
    else if (p->kind == TARGET_WEBGPU) target_check_webgpu(p);
    else                               target_check_cpu(p);
    return p;
}

struct target *target_load_tuned(struct arena *a, const char *name, const char *directory, const char *tuned)
{
    static const char *const keys[] = { "tuned", "tiles", "kernels", NULL };
    struct target *p = target_load(a, name, directory);
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
    if (p->kind == TARGET_GPU) target_check_gpu(p);
    if (p->kind == TARGET_WEBGPU) target_check_webgpu(p);
    return p;
}

const char **target_names(struct arena *a, const char *directory)
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
