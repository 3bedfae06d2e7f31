/* stats.c -- counters of launches, and their output.
 *
 * FORGE_GFXSIM_STATS=FILE: at the end of the process FILE gets one JSON object, {"kernels": [...]}: for each kernel of each chip the sum
 * over its launches (..._most: the maximum), the number of launches, and grid, threads and dynamic LDS of the last one.
 * launches_of: [groups, launches] for each number of groups that a launch had.  loops: instructions in loops of the code, each counted
 * once.  groups_run: fewer than groups if FORGE_GFXSIM_SAMPLE had only some run; then all counters are scaled, and unique_bytes is too
 * large if groups share lines.
 * channels: of memory, 0 if they are not known or a sample ran; channel_bytes, channel_busiest: channels.c. */
#include <inttypes.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gfxsim.h"

uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL && *text != 0 ? strtoull(text, NULL, 0) : otherwise;
}

const char *setting_text(const char *name, uint32_t k, size_t *n)
{
    const char *at = getenv(name);
    if (at == NULL || *at == 0) return NULL;
    for (; k > 0 && strchr(at, ',') != NULL; k--) at = strchr(at, ',') + 1;
    *n = strcspn(at, ",");
    return at;
}

uint64_t setting_of(const char *name, uint32_t k, uint64_t otherwise)
{
    size_t n;
    const char *text = setting_text(name, k, &n);
    return text != NULL && n > 0 ? strtoull(text, NULL, 0) : otherwise;
}

/* Number of lines that the accesses of the lanes of mask touch. */
uint32_t lines_touched(const uint64_t *address, uint64_t mask, uint32_t bytes, uint32_t line_bytes)
{
    uint64_t line[2 * MAX_LANES];                /* no access is wider than a line */
    uint32_t n = 0;
    for (uint64_t m = mask; m != 0; m &= m - 1) {
        const uint64_t first = address[__builtin_ctzll(m)];
        for (uint64_t at = first / line_bytes; at <= (first + bytes - 1) / line_bytes; at++) {
            uint32_t k = n;
            while (k > 0 && line[k - 1] != at) k--;              /* neighbours are found first */
            if (k == 0) line[n++] = at;
        }
    }
    return n;
}

/* ---- loops in the code ---- */

/* Instructions in loops of a kernel, each once: the useful ones, and kinds that a loop should not have. */
struct loops { uint64_t instructions, matrix, nops, acc_moves, scratch; };

static struct loops loops_of(const struct kernel *k)
{
    const struct module *m = k->module;
    const uint32_t end = kernel_end(k);
    struct loops l = { 0 };
    for (uint32_t n = k->entry; n < end; n++) {
        const struct inst *i = &m->inst[n];
        if (!i->in_loop) continue;
        l.instructions++;
        l.matrix += i->op->class == CLASS_MATRIX;
        l.scratch += i->op->class == CLASS_SCRATCH;
        l.nops += i->kind == KIND_NOP;
        l.acc_moves += i->kind == KIND_ACC_MOVE;
    }
    return l;
}

enum inst_kind inst_kind(const char *name)
{
    static const char *const multiply[] = { "v_mul_lo_u32", "v_mul_lo_i32", "v_mul_hi_u32", "v_mul_hi_i32", "v_mad_u64_u32",
                                            "v_mad_i64_i32" };
    if (strcmp(name, "s_nop") == 0) return KIND_NOP;
    if (strncmp(name, "v_accvgpr_", 10) == 0) return KIND_ACC_MOVE;
    for (size_t k = 0; k < sizeof multiply / sizeof *multiply; k++) if (strcmp(name, multiply[k]) == 0) return KIND_MUL32;
    return strncmp(name, "v_", 2) == 0 && strncmp(name, "v_mfma", 6) != 0 && strstr(name, "_f64") != NULL ? KIND_F64 : KIND_PLAIN;
}

/* ---- one row for each kernel ---- */

struct grids { uint64_t groups, launches; };

struct row {
    struct row *next;
    char       *name;
    const char *chip;
    uint64_t    launches, ran;
    uint32_t    grid[3], threads[3], dynamic_lds, static_lds, vgprs, agprs, vgprs_allocated, scratch_bytes, wave;
    bool        pair;                            /* RDNA: its waves use both compute units of a WGP */
    uint32_t    channels;                        /* of memory; 0: not counted */
    struct grids *grids; uint32_t n_grids;
    struct loops    loops;
    struct counters sum;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct row *rows, **end = &rows;          /* in the order of their first launches */

static const char *const class_names[N_CLASSES] = {
    [CLASS_SALU] = "salu", [CLASS_BRANCH] = "branch", [CLASS_WAIT] = "wait", [CLASS_BARRIER] = "barrier", [CLASS_SMEM] = "smem",
    [CLASS_VALU] = "valu",
    [CLASS_TRANS] = "trans", [CLASS_DOT] = "dot", [CLASS_MATRIX] = "matrix", [CLASS_LDS] = "lds", [CLASS_GLOBAL_LOAD] = "global_load",
    [CLASS_GLOBAL_STORE] = "global_store", [CLASS_ATOMIC] = "atomic", [CLASS_SCRATCH] = "scratch", [CLASS_OTHER] = "other",
};
static const char *const kind_names[N_KINDS] = { "plain", "mul32", "f64", "acc_move", "nop" };
static const char *const matrix_names[N_MATRIX_FORMATS] = { "f16", "f8", "f32", "i8", "i4" };
static const char *const width_names[5] = { "1", "2", "4", "8", "16" };

static void print_text(FILE *f, const char *s)
{
    fputc('"', f);
    for (; *s != 0; s++) {
        if (*s == '"' || *s == '\\') fprintf(f, "\\%c", *s);
        else if ((unsigned char)*s < ' ') fprintf(f, "\\u%04x", (unsigned)*s);
        else fputc(*s, f);
    }
    fputc('"', f);
}

static void print_numbers(FILE *f, const char *name, const char *const *names, const uint64_t *values, uint32_t n)
{
    fprintf(f, ",\n     \"%s\": {", name);
    for (uint32_t k = 0; k < n; k++) fprintf(f, "%s\"%s\": %" PRIu64, k > 0 ? ", " : "", names[k], values[k]);
    fputc('}', f);
}

static void print_row(FILE *f, const struct row *r)
{
    const struct counters *c = &r->sum;
    fputs("    {\"name\": ", f);
    print_text(f, r->name);
    fprintf(f, ", \"chip\": \"%s\", \"launches\": %" PRIu64 ",\n     \"grid\": [%u, %u, %u], \"threads\": [%u, %u, %u], \"wave\": %u",
            r->chip, r->launches, r->grid[0], r->grid[1], r->grid[2], r->threads[0], r->threads[1], r->threads[2], r->wave);
    fprintf(f, ", \"pair\": %s, \"registers\": %u, \"launches_of\": [", r->pair ? "true" : "false", r->vgprs_allocated);
    for (uint32_t k = 0; k < r->n_grids; k++)
        fprintf(f, "%s[%" PRIu64 ", %" PRIu64 "]", k > 0 ? ", " : "", r->grids[k].groups, r->grids[k].launches);
    fprintf(f, "],\n     \"vgprs\": %u, \"agprs\": %u, \"static_lds\": %u, \"dynamic_lds\": %u, \"scratch_bytes\": %u", r->vgprs, r->agprs,
            r->static_lds, r->dynamic_lds, r->scratch_bytes);
    print_numbers(f, "instructions", class_names, c->instructions, N_CLASSES);
    print_numbers(f, "kinds", kind_names + 1, c->kinds + 1, N_KINDS - 1);        /* plain instructions are not listed */
    print_numbers(f, "matrix_flop", matrix_names, c->matrix_flop, N_MATRIX_FORMATS);
    print_numbers(f, "lanes_idle", class_names, c->lanes_idle, N_CLASSES);
    print_numbers(f, "load_accesses", width_names, c->load_accesses, 5);
    print_numbers(f, "store_accesses", width_names, c->store_accesses, 5);
    const struct { const char *name; uint64_t value; } single[] = {
        { "loaded_bytes", c->loaded_bytes }, { "stored_bytes", c->stored_bytes }, { "peer_bytes", c->peer_bytes },
        { "scalar_bytes", c->scalar_bytes },
        { "load_lines", c->load_lines },
        { "store_lines", c->store_lines }, { "unique_bytes", c->unique_bytes }, { "lds_loads", c->lds_loads },
        { "lds_stores", c->lds_stores },
        { "lds_moves", c->lds_moves }, { "lds_cycles", c->lds_cycles }, { "lds_conflicts", c->lds_conflicts },
        { "loads_in_flight_most", c->loads_in_flight_most }, { "loop_loads_in_flight_most", c->loop_loads_in_flight_most },
        { "channels", r->channels }, { "channel_bytes", c->channel_bytes }, { "channel_busiest", c->channel_busiest },
        { "barriers", c->barriers },
        { "waves", c->waves }, { "groups", c->groups }, { "groups_run", r->ran },
    };
    for (size_t k = 0; k < sizeof single / sizeof *single; k++)
        fprintf(f, ",%s\"%s\": %" PRIu64, k % 6 == 0 ? "\n     " : " ", single[k].name, single[k].value);
    const struct loops *l = &r->loops;
    fprintf(f,
            ",\n     \"loops\": {\"instructions\": %" PRIu64 ", \"matrix\": %" PRIu64 ", \"nops\": %" PRIu64 ", \"acc_moves\": "
            "%" PRIu64 ", \"scratch\": %" PRIu64 "}}", l->instructions, l->matrix, l->nops, l->acc_moves, l->scratch);
}

static void write_rows(const char *path)
{
    char part[4096];
    if (snprintf(part, sizeof part, "%s.%d.part", path, (int)getpid()) >= (int)sizeof part) return;
    FILE *f = fopen(part, "w");
    if (f == NULL) { perror(part); return; }
    fputs("{\"kernels\": [\n", f);
    for (const struct row *r = rows; r != NULL; r = r->next) {
        print_row(f, r);
        fputs(r->next != NULL ? ",\n" : "\n", f);
    }
    fputs("]}\n", f);
    const bool bad = ferror(f) != 0;
    if (fclose(f) == 0 && !bad && rename(part, path) == 0) return;
    perror(path);
    unlink(part);
}

static void write_file(void)
{
    const char *path = getenv("FORGE_GFXSIM_STATS");
    if (path == NULL || *path == 0) return;
    pthread_mutex_lock(&lock);                   /* another chip may still be running */
    write_rows(path);
    pthread_mutex_unlock(&lock);
}

static struct row *row_of(const struct launch *l)
{
    for (struct row *r = rows; r != NULL; r = r->next)
        if (r->chip == l->chip->name && strcmp(r->name, l->kernel->name) == 0) return r;
    struct row *r = calloc(1, sizeof *r);
    if (r == NULL || (r->name = strdup(l->kernel->name)) == NULL) abort();       /* the module may be unloaded before the end */
    r->chip = l->chip->name;
    r->loops = loops_of(l->kernel);
    if (rows == NULL) atexit(write_file);
    *end = r;
    end = &r->next;
    return r;
}

static void add_grid(struct row *r, uint64_t groups)
{
    uint32_t k = 0;
    while (k < r->n_grids && r->grids[k].groups != groups) k++;
    if (k == r->n_grids) {
        struct grids *grown = realloc(r->grids, (r->n_grids + 1) * sizeof *grown);
        if (grown == NULL) abort();
        r->grids = grown;
        r->grids[r->n_grids++] = (struct grids){ groups, 0 };
    }
    r->grids[k].launches++;
}

_Static_assert(sizeof(struct counters) % sizeof(uint64_t) == 0, "counters are 64-bit numbers and nothing else");
enum { N_SUMS = offsetof(struct counters, loads_in_flight_most) / sizeof(uint64_t),
       N_NUMBERS = sizeof(struct counters) / sizeof(uint64_t) };

void counters_add(struct counters *to, const struct counters *from)
{
    uint64_t *a = (uint64_t *)(void *)to;
    const uint64_t *b = (const uint64_t *)(const void *)from;
    for (size_t k = 0; k < N_SUMS; k++) a[k] += b[k];
    for (size_t k = N_SUMS; k < N_NUMBERS; k++) a[k] = a[k] > b[k] ? a[k] : b[k];
}

void counters_scale(struct counters *c, uint32_t to, uint32_t from)
{
    uint64_t *a = (uint64_t *)(void *)c;
    for (size_t k = 0; k < N_SUMS; k++) a[k] = (uint64_t)((double)a[k] * to / from + 0.5);
}

void stats_launch(const struct launch *l)
{
    pthread_mutex_lock(&lock);
    struct row *r = row_of(l);
    const struct kernel *k = l->kernel;
    r->launches++;
    r->ran += l->ran;
    add_grid(r, (uint64_t)l->grid[0] * l->grid[1] * l->grid[2]);
    memcpy(r->grid, l->grid, sizeof r->grid);
    memcpy(r->threads, l->threads, sizeof r->threads);
    r->dynamic_lds = l->dynamic_lds, r->static_lds = k->lds_bytes, r->vgprs = k->vgprs, r->agprs = k->agprs,
        r->scratch_bytes = k->scratch_bytes, r->wave = k->wave;
    r->vgprs_allocated = k->vgprs_allocated;
    r->pair = l->chip->isa->pairs && (k->rsrc1 >> 29 & 1) != 0;       /* COMPUTE_PGM_RSRC1: WGP_MODE */
    if (l->channels.count > 0) r->channels = l->channels.count;
    counters_add(&r->sum, &l->counters);
    pthread_mutex_unlock(&lock);
}
