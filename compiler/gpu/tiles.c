/* tiles.c -- see tiles.h. The workgroups of a product run in rounds, one workgroup for each compute unit, so its time is that of a tile
 * times the number of rounds. A large tile needs the fewest LDS reads and weight decodes per multiplication; a small tile leaves fewer
 * compute units without work. The time of a tile is estimated in clocks of the pipes; the shape with the least time wins. */
#include "tiles.h"
#include "compiler/plan/plan.h"
#include "compiler/base/family.h"
#include "templates/gpu/gemm_sizes.h"
#include <string.h>

static uint64_t parts_of(uint64_t n, uint64_t size) { return (n + size - 1) / size; }

/* ---- shapes ---- */

/* Do four waves multiply together (GEMM_GROUP of gemm_tmpl.c)? */
static bool is_joined(const struct target *t, const struct gemm_shape *s)
{
    return family_multiplies_in_fours(t) && s->threads % 128 == 0 && s->tokens % (s->threads / 2) == 0 && s->rows % 128 == 0;
}

/* How the waves divide the tile: into parts of tokens, of the columns of a step and of rows; tokens 0: they cannot. */
struct split { uint32_t tokens, k, rows; };
static struct split split_of(const struct target *t, const struct gemm_shape *s)
{
    const uint32_t waves = s->threads / t->wave;
    if (is_joined(t, s)) return (struct split){ waves, 1, 1 };
    const uint32_t tokens = GEMM_TOKEN_WAVES(s->tokens, s->rows, s->threads, t->family),
                   k = (uint32_t)GEMM_K_WAVES(s->tokens, s->rows, s->threads, t->family);
    return (struct split){ tokens, k, tokens ? waves / tokens / k : 0 };
}

uint32_t gemm_stages(const struct target *t) { return GEMM_STAGES_OF(t->family); }

uint32_t gemm_lds(const struct target *t, const struct gemm_product *p, const struct gemm_shape *s)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < p->n_parts; i++) {
        const uint32_t bytes = GEMM_LDS_BYTES(s->tokens, s->rows, gemm_stages(t), p->parts[i].digits, p->parts[i].copied,
                                              t->gpu.gemm_unit_steps, GEMM_IS_ALONE(is_joined(t, s), p->parts[i].copied, s->threads));
        if (bytes > most) most = bytes;
    }
    return most;
}

bool gemm_shape_works(const struct target *t, const struct gemm_product *p, const struct gemm_shape *s)
{
    bool pair = false;
    for (uint32_t i = 0; i < p->n_parts; i++) pair |= p->parts[i].pair;
    return s->tokens % 16 == 0 && s->rows % 16 == 0 && split_of(t, s).tokens &&
           (!pair || GEMM_SHARES_PAIRS(s->tokens, s->rows, s->threads, t->family)) && gemm_lds(t, p, s) <= t->lds_bytes;
}

uint64_t gemm_part_tiles(const struct gemm_part *part, uint32_t tile_rows)
{
    return parts_of(part->rows, part->pair ? tile_rows / 2 : tile_rows);
}

uint64_t gemm_row_tiles(const struct gemm_product *p, const struct gemm_shape *s)
{
    uint64_t tiles = 0;
    for (uint32_t i = 0; i < p->n_parts; i++) tiles += gemm_part_tiles(&p->parts[i], s->rows);
    return tiles;
}

double gemm_fill(const struct target *t, const struct gemm_product *p, const struct gemm_shape *s, uint32_t tokens)
{
    const uint64_t rounds = parts_of(gemm_row_tiles(p, s) * parts_of(tokens, s->tokens), t->compute_units);
    double wanted = 0;
    for (uint32_t i = 0; i < p->n_parts; i++) wanted += (double)(p->parts[i].pair ? 2 * p->parts[i].rows : p->parts[i].rows) * tokens;
    return wanted / ((double)rounds * t->compute_units * s->tokens * s->rows);
}

/* ---- time, in clocks ---- */

/* Work of a compute unit per clock: the target's rates, or by default about those of an SM. memory: bytes per clock of the whole GPU; 0 if
 * the target states no bandwidth. */
struct rates { double matrix, lds, vector, memory, clock_mhz; };
static struct rates rates_of(const struct target *t)
{
    const double clock = t->rates.clock_ghz > 0 ? t->rates.clock_ghz : 1.8;
    return (struct rates){ t->rates.matrix[MATRIX_F16] > 0 ? t->rates.matrix[MATRIX_F16] : 2048,
                           t->rates.lds_bytes > 0 ? t->rates.lds_bytes : 128, t->rates.vector > 0 ? t->rates.vector : 4,
                           t->bandwidth_gb_s / clock, 1e3 * clock };
}

static const double LATENCY_CLOCKS = 600;        /* latency of a load; weights are loaded one step ahead */
static const double STEP_CLOCKS = 150;           /* barriers of a step */
static const double GROUP_CLOCKS = 2000;         /* of a workgroup before its first product and after its last one */
static const double UNIT_INSTRUCTIONS = 120;     /* of a wave that decodes a unit of 64 columns in each lane;
                                                  * seen in the machine code of q4_K and q8_0 */
static const double WAVE_INSTRUCTIONS = 35;      /* other vector instructions of a wave in a step */
static const double FETCH_BYTES = 64;            /* bytes per clock from the caches */
enum { MORE_REGISTERS = 96 };                    /* registers of a lane in addition to the sums */
static const double OTHERS = 0.5;       /* fraction of their time by which pipes delay each other */

/* Workgroups that fit a compute unit at once. */
static uint64_t resident(const struct target *t, const struct gemm_product *p, const struct gemm_shape *s)
{
    const uint32_t registers = s->tokens * s->rows / s->threads + MORE_REGISTERS, waves = s->threads / t->wave;
    const uint32_t by_registers = t->vgprs / registers * t->simds / waves, by_lds = t->lds_bytes / gemm_lds(t, p, s);
    const uint32_t most = by_lds < by_registers ? by_lds : by_registers;
    return most ? most : 1;
}

static double larger(double x, double y) { return x > y ? x : y; }

/* Clocks of a compute unit for a workgroup's step of 64 columns, for each pipe. alone: of the step's parts in sequence, for a workgroup
 * that has the compute unit to itself. */
struct step_clocks { double matrix, lds, vector, fetch, alone; };
static struct step_clocks step_of(const struct target *t, const struct gemm_product *p, const struct gemm_shape *s)
{
    const struct rates rates = rates_of(t);
    const struct split split = split_of(t, s);
    const uint32_t waves = s->threads / t->wave;
    double packed = 0, rows = 0, digits = 1;
    for (uint32_t i = 0; i < p->n_parts; i++) {
        const double n = (double)(p->parts[i].pair ? 2 * p->parts[i].rows : p->parts[i].rows);
        rows += n;
        if (!p->parts[i].copied) packed += n;
        if (p->parts[i].digits > digits) digits = p->parts[i].digits;
    }
    const double unit_bytes = (double)p->weight_bytes / rows / (double)parts_of(p->cols, 64),
                 wave_units = (double)parts_of(s->rows, t->wave) * packed / rows;
    const double reads = digits * GEMM_ROW_LDS * (s->tokens * split.rows + s->rows * split.tokens) * FAMILY_MMA_COPIES(t->family),
                 writes = GEMM_ROW_LDS * (s->tokens + digits * s->rows);
    struct step_clocks c = { .matrix = digits * 2 * GEMM_STEP_COLS * s->tokens * s->rows / rates.matrix,
                             .lds = (reads + writes) / rates.lds };
    c.vector = (wave_units * UNIT_INSTRUCTIONS + waves * WAVE_INSTRUCTIONS) / rates.vector;
    c.fetch = (GEMM_ROW_LDS * s->tokens + unit_bytes * s->rows) / FETCH_BYTES;
    if (FAMILY_MMA_IS_VECTOR(t->family)) c.matrix += c.vector;
    const double one_wave = rates.vector / t->simds;                        /* instructions per clock */
    const double decode = (UNIT_INSTRUCTIONS * (double)parts_of(s->rows, s->threads) * packed / rows + WAVE_INSTRUCTIONS) / one_wave;
    const double idle = waves < t->simds ? (double)t->simds / waves : 1;
    c.alone = larger(LATENCY_CLOCKS, larger(c.matrix * idle, reads / rates.lds)) + decode + writes / rates.lds + STEP_CLOCKS;
    return c;
}

/* Is the shape suitable for long steps? The matrix unit must be the slowest pipe: LDS takes at most 0.9 and the vector unit 0.6 of its
 * time, including the time at the ends of a product (so 0.88 for LDS). */
static bool is_balanced(const struct step_clocks *c) { return c->lds <= 0.88 * c->matrix && c->vector <= 0.6 * c->matrix; }

/* Clocks of a step's product with its launch. If the launch takes most of them, as in small models, tiles hardly matter. */
static double clocks_of(const struct target *t, const struct gemm_product *p, const struct gemm_shape *s, uint32_t tokens)
{
    const struct step_clocks c = step_of(t, p, s);
    const uint64_t groups = parts_of(gemm_row_tiles(p, s) * parts_of(tokens, s->tokens), t->compute_units),
                   waves = groups * s->threads / t->wave;
    const double n = (double)groups, turns = (double)parts_of(groups, resident(t, p, s)),
                 idle = waves < t->simds ? (double)t->simds / (double)waves : 1;
    const double most = larger(n * larger(larger(c.matrix * idle, c.lds), larger(c.vector * idle, c.fetch)), turns * c.alone);
    const double step = most + OTHERS * n * (c.matrix + c.lds + c.vector + c.fetch);
    const struct rates rates = rates_of(t);
    return t->launch_us * rates.clock_mhz + larger((double)parts_of(p->cols, GEMM_STEP_COLS) * step + turns * GROUP_CLOCKS,
                                                   rates.memory > 0 ? (double)p->weight_bytes / rates.memory : 0);
}

double gemm_micros(const struct target *t, const struct gemm_product *p, const struct gemm_shape *s, uint32_t tokens)
{
    return clocks_of(t, p, s, tokens) / rates_of(t).clock_mhz - t->launch_us;
}

/* ---- the choice ---- */

enum { MENU = 256, SIZES = 32, LONG_TOKENS = 384 };

static bool same_shape(const struct gemm_shape *x, const struct gemm_shape *y)
{
    return x->tokens == y->tokens && x->rows == y->rows && x->threads == y->threads && x->groups == y->groups;
}

static bool is_refused(const struct gemm_refused *refused, uint32_t tokens, uint32_t rows, uint32_t threads)
{
    for (uint32_t i = 0; refused && i < refused->n; i++) {
        const struct gemm_shape *s = &refused->shapes[i];
        if (s->tokens == tokens && s->rows == rows && s->threads == threads) return true;
    }
    return false;
}

bool gemm_refuse(struct gemm_refused *refused, uint32_t tokens, uint32_t rows, uint32_t threads)
{
    if (refused->n == GEMM_REFUSED || is_refused(refused, tokens, rows, threads)) return false;
    refused->shapes[refused->n++] = (struct gemm_shape){ tokens, rows, threads, 0 };
    return true;
}

/* Workgroups of a compute unit that have together as many threads as those of the target's own tile. */
static uint32_t same_threads(const struct target *t, uint32_t threads) { return t->gpu.gemm_groups * t->gpu.gemm_threads / threads; }

struct gemm_shape gemm_with_groups(const struct target *t, struct gemm_shape s)
{
    const bool few = s.tokens == t->gpu.gemm_tokens && s.rows == t->gpu.gemm_rows && s.threads == t->gpu.gemm_few_threads &&
                     s.threads != t->gpu.gemm_threads;
    s.groups = few || !same_threads(t, s.threads) ? 1 : same_threads(t, s.threads);
    return s;
}

/* Fills the menu with the target's tile and smaller ones; returns their number. */
static uint32_t menu_of(struct gemm_shape menu[MENU], const struct target *t, const struct gemm_product *p,
                        const struct gemm_refused *refused)
{
    uint32_t n = 0;
    for (uint32_t threads = t->gpu.gemm_threads; threads >= t->gpu.gemm_threads / 4 && threads >= 2 * t->wave; threads /= 2)
        for (uint32_t tokens = 16; tokens <= t->gpu.gemm_tokens; tokens += 16)
            for (uint32_t rows = 16; rows <= t->gpu.gemm_rows && n < MENU; rows += 16) {
                const struct gemm_shape s = { tokens, rows, threads, same_threads(t, threads) };
                if ((uint64_t)tokens * rows * t->gpu.gemm_threads > (uint64_t)t->gpu.gemm_tokens * t->gpu.gemm_rows * threads) continue;
                if (gemm_shape_works(t, p, &s) && !is_refused(refused, tokens, rows, threads)) menu[n++] = s;
            }
    return n;
}

/* The fraction of the places in all rounds that this number of tiles fills. */
static double filled(const struct target *t, const struct gemm_shape *s, uint64_t tiles)
{
    const uint64_t at_once = (uint64_t)t->compute_units * s->groups;
    return (double)tiles / (double)(parts_of(tiles, at_once) * at_once);
}

/* The target's own tile. With more tiles than compute units, several workgroups share a compute unit. Otherwise, or if a lone workgroup is
 * as fast and fills the rounds better, each workgroup has a compute unit to itself. */
static struct gemm_shape usual_shape(const struct target *t, const struct gemm_product *p, uint32_t tokens)
{
    const struct gemm_shape many = { t->gpu.gemm_tokens, t->gpu.gemm_rows, t->gpu.gemm_threads, t->gpu.gemm_groups },
                            alone = { many.tokens, many.rows, t->gpu.gemm_few_threads, 1 };
    const uint64_t tiles = gemm_row_tiles(p, &many) * parts_of(tokens, many.tokens);
    bool as_fast = true;
    for (uint32_t i = 0; i < p->n_parts; i++) as_fast &= GEMM_IS_ALONE(is_joined(t, &alone), p->parts[i].copied, alone.threads);
    if (alone.threads == many.threads) return many;
    return tiles <= t->compute_units || (as_fast && filled(t, &alone, tiles) > filled(t, &many, tiles)) ? alone : many;
}

/* Sizes of steps (in tokens) at which shapes are compared: 16, 24, 32, 48, ..., and last `most`. */
static uint32_t sizes_of(uint32_t sizes[SIZES], uint32_t most)
{
    uint32_t n = 0;
    for (uint32_t size = 16; size < most; size *= 2) {
        sizes[n++] = size;
        if (size > 16 && size / 2 * 3 < most) sizes[n++] = size / 2 * 3;
    }
    sizes[n++] = most;
    return n;
}

/* Cuts the sizes into `ranges` ranges with one shape each, so that the sum of losses over all sizes is least. Returns the sum.
 * loss: [n_menu][SIZES], time divided by the least possible time, times the weight of the size. */
struct cut { double sum; uint32_t first, shape; };
static double cut_sizes(struct cut cuts[GEMM_RANGES][SIZES], double (*loss)[SIZES], uint32_t n_menu, uint32_t n, uint32_t ranges)
{
    for (uint32_t k = 0; k < ranges; k++)
        for (uint32_t last = 0; last < n; last++) {
            struct cut *best = &cuts[k][last];
            *best = (struct cut){ 1e300, 0, 0 };
            for (uint32_t shape = 0; shape < n_menu; shape++) {
                double sum = 0;
                for (uint32_t first = last + 1; first-- > 0;) {
                    sum += loss[shape][first];
                    const double before = (k == 0) != (first == 0) ? 1e300 : k ? cuts[k - 1][first - 1].sum : 0;
                    if (before + sum < best->sum) *best = (struct cut){ before + sum, first, shape };
                }
            }
        }
    return cuts[ranges - 1][n - 1].sum;
}

/* How often steps of this size occur; `most` tokens: the whole chunks of a long prompt. */
static double weight_of(uint32_t size, uint32_t most) { return size == most ? 8 : size == 512 ? 4 : 1; }

uint32_t gemm_plan(struct gemm_range ranges[GEMM_RANGES], const struct target *t, const struct gemm_product *p, uint32_t chunk,
                   const struct gemm_refused *refused)
{
    static const double PAYS = 1.0;                     /* another range is another kernel to read and to compile: it must save this
                                                         * many times the time of one size */
    static const double LONG_FILL = 0.85, CHUNK_FILL = 0.95;      /* fill that long steps should reach; less counts as more time */
    static const double USUAL_FILL = 0.5;               /* a chunk with less fill by the target's own tile counts as short */
    static const double FEW_FILL = 0.2;                 /* with less fill than this every shape counts as balanced */
    const struct gemm_shape usual = usual_shape(t, p, chunk);
    const double usual_fill = gemm_fill(t, p, &usual, chunk);
    const uint32_t limit = p->shared ? t->gpu.gemm_fit_experts : t->gpu.gemm_fit, fit = limit && usual_fill < USUAL_FILL ? chunk : limit;
    const uint32_t most = chunk < fit ? chunk : fit, usual_from = most + 1;
    struct gemm_shape menu[MENU];
    double loss[MENU][SIZES];
    struct cut cuts[GEMM_RANGES][GEMM_RANGES][SIZES];
    uint32_t sizes[SIZES], n_menu = menu_of(menu, t, p, refused), n = 0, kept = 1;
    if (chunk >= usual_from || !n_menu)
        ranges[n++] = (struct gemm_range){ usual, most && n_menu ? usual_from : 1, chunk };
    if (!most || !n_menu) return n;
    const uint32_t n_sizes = sizes_of(sizes, most), allowed = GEMM_RANGES - n;
    bool balanced[MENU], any = false;
    for (uint32_t m = 0; m < n_menu; m++) {
        const struct step_clocks c = step_of(t, p, &menu[m]);
        any |= balanced[m] = is_balanced(&c) || usual_fill < FEW_FILL;
    }
    for (uint32_t i = 0; i < n_sizes; i++) {
        double best = 1e300;
        for (uint32_t m = 0; m < n_menu; m++) {
            const double fill = gemm_fill(t, p, &menu[m], sizes[i]), wanted = i + 1 < n_sizes ? LONG_FILL : CHUNK_FILL;
            loss[m][i] = clocks_of(t, p, &menu[m], sizes[i]);
            if (sizes[i] >= LONG_TOKENS && any && !balanced[m]) loss[m][i] = 1e300;
            else if (sizes[i] >= LONG_TOKENS && fill < wanted) loss[m][i] *= wanted / fill;
            if (loss[m][i] < best) best = loss[m][i];
        }
        for (uint32_t m = 0; m < n_menu; m++) loss[m][i] = loss[m][i] / best * weight_of(sizes[i], most);
    }
    double sum = cut_sizes(cuts[0], loss, n_menu, n_sizes, 1);
    while (kept < allowed && kept < n_sizes) {
        const double next = cut_sizes(cuts[kept], loss, n_menu, n_sizes, kept + 1);
        if (next > sum - PAYS) break;
        sum = next;
        kept++;
    }
    /* From the last range to the first. If there is a range for the usual tile, it is appended. */
    struct gemm_range found[GEMM_RANGES];
    for (uint32_t k = kept, last = n_sizes - 1; k-- > 0;) {
        const struct cut *c = &cuts[kept - 1][k][last];
        found[k] = (struct gemm_range){ menu[c->shape], c->first ? sizes[c->first - 1] + 1 : 1, sizes[last] };
        last = c->first - 1;
    }
    if (n && same_shape(&found[kept - 1].shape, &ranges[0].shape)) found[kept - 1].most = ranges[0].most;
    else if (n) found[kept++] = ranges[0];
    memcpy(ranges, found, kept * sizeof *ranges);
    return kept;
}
