/* target_check.c -- checks that a target is complete and that its values fit together. It checks conditions between keys that may be in
 * different files: those that templates/gpu asserts or assumes. */
#include "target_parts.h"
#include "family.h"
#include "templates/gpu/gemm_sizes.h"
#include <string.h>

static const char *missing_gpu_key(struct arena *a, struct target *p)
{
    for (size_t i = 0; i < COUNT_OF(target_tiles); i++)
        if (target_tiles[i].least && !*target_tile(p, &target_tiles[i])) return arena_printf(a, "tiles: %s", target_tiles[i].name);
    return !p->api ? "api" : !p->arch ? "arch" : !p->family_at.file ? "family" : !p->wave ? "wave" : !p->compute_units ? "compute_units"
        : !p->simds ? "simds" : !p->waves ? "waves"
         : !p->vgprs ? "registers: lane" : !p->vgpr_granule ? "registers: granule" : !p->vgprs_most ? "registers: most"
         : !p->lds_bytes ? "lds"
         : !p->activation_digits ? "activation_digits" : !p->load_hint ? "load_hint" : NULL;
}

static const char *missing_webgpu_tile(struct arena *a, struct target *p)
{
    static const char *const needed[] = { "gemv_threads", "gemv_groups", "gemv_rows", "gemv_lanes", "attention_splits", "attention_threads",
                                          "gemm_threads", "stage_threads", "sample_threads", "prefill_chunk" };
    for (size_t i = 0; i < COUNT_OF(target_tiles); i++)
        for (size_t k = 0; k < COUNT_OF(needed); k++)
            if (!strcmp(target_tiles[i].name, needed[k]) && !*target_tile(p, &target_tiles[i]))
                return arena_printf(a, "tiles: %s", needed[k]);
    return NULL;
}

const char *target_missing_key(struct arena *a, struct target *p)
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

static const struct place *place_of_tile(const struct target *p, const char *name)
{
    size_t i = 0;
    while (strcmp(target_tiles[i].name, name)) i++;
    return &p->gpu_at[i];
}

/* For two or three values that do not fit together: the place of the first one in the target's own file; the others are inherited. */
static struct place at_tiles(const struct target *p, const char *name, const char *with, const char *and)
{
    const char *const names[] = { name, with, and };
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        const struct place *at = names[i] ? place_of_tile(p, names[i]) : NULL;
        if (at && at->file && !strcmp(at->file, p->path)) return *at;
    }
    return *place_of_tile(p, name);
}

static bool is_power(uint32_t n) { return (n & (n - 1)) == 0; }

/* Threads of a workgroup: whole waves, and no more than a compute unit can hold. groups: workgroups on it at once. */
static void check_threads(const struct target *p, const char *name, uint32_t threads, const char *groups_name, uint32_t groups)
{
    const uint32_t waves = threads * groups / p->wave, most = p->simds * p->waves;
    if (threads % p->wave) die_at(at_tiles(p, name, NULL, NULL), "%s is %u, not a multiple of the wave's %u lanes", name, threads, p->wave);
    if (waves > most && groups > 1)
        die_at(at_tiles(p, name, groups_name, NULL), "%u groups of %s, %u, are %u waves; a compute unit holds %u", groups, name, threads,
               waves, most);
    if (waves > most)
        die_at(at_tiles(p, name, NULL, NULL), "%s is %u, which are %u waves; a compute unit holds %u", name, threads, waves, most);
}

static void check_gemv(const struct target *p)
{
    const uint32_t lanes = p->gpu.gemv_lanes, rows = p->gpu.gemv_rows;
    if (!is_power(lanes) || lanes > p->wave)
        die_at(at_tiles(p, "gemv_lanes", NULL, NULL), "gemv_lanes is %u; it must be a power of two up to the wave's %u lanes", lanes,
               p->wave);
    if (!is_power(rows) || rows > lanes)
        die_at(at_tiles(p, "gemv_rows", "gemv_lanes", NULL), "gemv_rows is %u; it must be a power of two up to gemv_lanes, %u", rows,
               lanes);
}

/* Conditions of gemm_tmpl.c: how the waves of a workgroup share its tile, and how its threads load the tile's inputs. */
static void check_gemm_waves(const struct target *p, const char *name, uint32_t threads)
{
    const uint32_t tokens = p->gpu.gemm_tokens, rows = p->gpu.gemm_rows, waves = threads / p->wave;
    const bool joined = family_multiplies_in_fours(p) && threads % 128 == 0 && tokens % (threads / 2) == 0 && rows % 128 == 0;
    const uint32_t across = joined ? waves : waves >= 4 ? 2 : 1, down = waves / across;     /* parts of the tile along tokens; along rows */
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

static void check_gemm(const struct target *p)
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

/* attention_prefill_sizes.h: 256 registers per lane; in exact mode each pair of 32 rows belongs to a sixteenth of the threads. */
static void check_attention(const struct target *p)
{
    const uint32_t threads = p->gpu.attention_prefill_threads, most = 8 * p->wave;
    if (!is_power(threads) || threads > most)
        die_at(at_tiles(p, "attention_prefill_threads", NULL, NULL), "attention_prefill_threads is %u; it must be a power of two up to %u",
               threads, most);
}

/* RDNA 3 and 3.5 chips with 128 KiB of registers per SIMD instead of 192 (LLVM, AMDGPU.td: those without Feature1_5xVGPRs). */
static bool has_fewer_registers(const char *arch)
{
    static const char *const fewer[] = { "gfx1102", "gfx1103", "gfx1150", "gfx1152", "gfx1153" };
    for (size_t i = 0; i < COUNT_OF(fewer); i++) if (!strcmp(arch, fewer[i])) return true;
    return false;
}

void target_check_gpu(struct target *p)
{
    const char *prefix = !strcmp(p->api, "hip") ? "gfx" : !strcmp(p->api, "cuda") ? "sm_" : "";
    if (strncmp(p->arch, prefix, strlen(prefix)))
        die("%s: arch %s does not match api %s: its names begin with %s", p->path, p->arch, p->api, prefix);
    if (strcmp(p->api, "host") && !family_has_arch(p->family, p->arch))
        die_at(p->arch_at,
               "arch %s is not of the family %s (%s), and forgec has no machine file for others: see docs/target.md, 'A new GPU family'",
               p->arch, family_names[p->family], family_archs(p->family));
    if (has_fewer_registers(p->arch) && p->vgprs > 1024)
        warn("%s: %s has 1024 registers per lane, but this target has %u, so kernels are planned for more waves than can run; set "
             "registers: lane (docs/target.md)", p->path, p->arch, p->vgprs);
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
    if (p->cluster && strcmp(p->api, "cuda")) die("%s: only targets with api: cuda can have the key cluster; remove it", p->path);
}

void target_check_webgpu(struct target *p)
{
    static const char *const of_threads[] = { "gemv_threads", "attention_threads", "gemm_threads", "stage_threads", "sample_threads" };
    for (size_t i = 0; i < COUNT_OF(target_tiles); i++)
        for (size_t k = 0; k < COUNT_OF(of_threads); k++) {
            const uint32_t value = *target_tile(p, &target_tiles[i]);
            if (!strcmp(target_tiles[i].name, of_threads[k]) && (!is_power(value) || value > WEBGPU_MOST_THREADS))
                die_at(p->gpu_at[i], "%s is %u; groups of WebGPU have a power of two up to %u threads", of_threads[k], value,
                       WEBGPU_MOST_THREADS);
        }
    const uint32_t lanes = p->gpu.gemv_lanes;
    if (!is_power(lanes) || lanes > p->gpu.gemv_threads)
        die_at(*place_of_tile(p, "gemv_lanes"), "gemv_lanes is %u; it must be a power of two up to gemv_threads, %u", lanes,
               p->gpu.gemv_threads);
}

void target_check_cpu(const struct target *p)
{
    if (p->web != !strcmp(p->elf_machine, "wasm32"))
        die_at(p->system_at, "system: web and machine: wasm32 belong together; the machine is %s", p->elf_machine);
    if (p->simd->machine && strcmp(p->simd->machine, p->elf_machine))
        die_at(p->simd_at, "simd %s is for machine %s; the machine is %s", p->simd->name, p->simd->machine, p->elf_machine);
    if (p->matrix_unit == MATRIX_TILES && p->tile.gemm_groups != 2)
        die_at(p->gemm_groups_at, "matrix: tiles multiplies two groups of rows at once; gemm_groups is %u", p->tile.gemm_groups);
}
