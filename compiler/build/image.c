/* image.c -- writes the weight image from GGUF tensors: packed tensors in the plan's order, followed by their hashes. */
#include "image.h"
#include "cache.h"
#include "runtime/model/abi.h"
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define XXH_STATIC_LINKING_ONLY          /* for the size of its state */
#include <xxhash.h>

enum { SLAB = 16 << 20 };       /* bytes packed between two writes */

/* Rows that are packed as a separate matrix: all rows or a run of rows, of a weight or of one of its slices. rows: the first row; row0: its
 * number in the weight. */
struct matrix { const struct weight *w; struct packing packing; const uint8_t *rows; uint64_t row0, n_rows; };

struct slab_job {
    uint8_t             *out;
    const struct matrix *m;
    uint64_t             first, n;      /* groups */
    bool                 halves;        /* a target's products of prompts read the weights as 16-bit floats */
    uint64_t             bad;           /* index of a block of the matrix that is not finite or out of range; UINT64_MAX: none */
};

/* The image being written to the file; hash: of the bytes written since it was reset. */
struct stream { struct outfile *file; uint64_t base; XXH3_state_t *hash; };

static void put(struct stream *s, const void *bytes, size_t n)
{
    outfile_write(s->file, bytes, n);
    XXH3_64bits_update(s->hash, bytes, n);
}

/* Writes zeros up to an offset of the image, within a tensor or before one. */
static void put_zeros(struct stream *s, uint64_t to)
{
    static const uint8_t zeros[4096];
    while (s->file->offset - s->base < to) {
        const uint64_t left = to - (s->file->offset - s->base);
        put(s, zeros, left < sizeof zeros ? (size_t)left : sizeof zeros);
    }
}

static uint64_t row_size(const struct weight *w) { return format_row_bytes(w->tensor->quant, w->cols); }
static uint64_t row_blocks(const struct weight *w) { return w->cols / w->tensor->quant->block_weights; }

/* Products of a prompt's tokens on a GPU read an F32 weight as the sum of two 16-bit floats (templates/gpu/formats/f32.h); a weight beyond
 * their range would become infinite. */
static const float F16_LIMIT = 65520.0f;         /* rounds to more than 65504 */

static bool takes_halves(const struct image_writer *iw, const struct weight *w)
{
    for (uint32_t i = 0; i < iw->n_plans; i++)
        if (iw->plans[i]->target->kind == TARGET_GPU && iw->plans[i]->weight_form[w->index] == WEIGHT_MATRIX) return true;
    return false;
}

_Noreturn static void die_beyond_halves(const struct image_writer *iw, const struct weight *w, const uint8_t *bytes, uint64_t row,
                                        uint64_t column)
{
    float x;
    memcpy(&x, bytes, sizeof x);
    if (iw->progress) fprintf(stderr, "\r                     \r");
    die("%s: tensor %s, row %llu, column %llu is %g; on a GPU F32 weights must be below 65520: convert the model to BF16, or build it for "
        "a processor", iw->plans[0]->model->gguf->path, w->name, (unsigned long long)row, (unsigned long long)column, (double)x);
}

/* Dies if a weight is NaN or infinite: it would affect every logit. block: index in the weight, whose rows follow each other; bytes: of
 * that block. */
static void die_not_finite(const struct image_writer *iw, const struct weight *w, const uint8_t *bytes, uint64_t block)
{
    const struct format *q = w->tensor->quant;
    const uint64_t row = w->is_vector ? 0 : weight_row(w, block / row_blocks(w)), first = block % row_blocks(w) * q->block_weights;
    const char *name = block_not_finite_name(q, bytes), *path = iw->plans[0]->model->gguf->path;
    if (blocks_not_finite(q, bytes, 1) == 1) die_beyond_halves(iw, w, bytes, row, first);
    const char *remedy = "weights must be finite: the file is damaged or was converted wrongly, get or convert it again";
    typedef unsigned long long ull;
    if (iw->progress) fprintf(stderr, "\r                     \r");
    if (w->is_vector) die("%s: tensor %s, element %llu is %s; %s", path, w->name, (ull)(w->row0 + first), name, remedy);
    if (q->block_weights == 1) die("%s: tensor %s, row %llu, column %llu is %s; %s", path, w->name, (ull)row, (ull)first, name, remedy);
    die("%s: tensor %s, row %llu, block %llu (%s, columns %llu to %llu): a scale is %s; %s", path, w->name, (ull)row,
        (ull)(first / q->block_weights), q->name, (ull)first, (ull)(first + q->block_weights - 1), name, remedy);
}

/* Checks and packs group by group, so that a checked group is still in the cache when it is packed. */
static void *pack_slab(void *argument)
{
    struct slab_job *j = argument;
    const struct matrix *m = j->m;
    const struct weight *w = m->w;
    const uint64_t group_bytes = packing_group_bytes(m->packing, w->cols), per_group = m->packing.layout->group_rows;
    for (uint64_t i = 0; i < j->n; i++) {
        const uint64_t row = (j->first + i) * per_group, left = m->n_rows - row, n = (left < per_group ? left : per_group) * row_blocks(w);
        uint64_t bad = blocks_not_finite(m->packing.format, m->rows + row * row_size(w), n);
        if (bad == n && j->halves) bad = floats_beyond(m->packing.format, m->rows + row * row_size(w), n, F16_LIMIT);
        if (bad < n) {
            j->bad = row * row_blocks(w) + bad;
            break;
        }
        packing_write(m->packing, j->out + i * group_bytes, m->rows, m->n_rows, w->cols, j->first + i, 1);
    }
    return NULL;
}

/* Packs groups first .. first + n - 1 with up to `jobs` threads; if a thread cannot be started, the others do its work. Returns the lowest
 * `bad` of the jobs. */
static uint64_t pack_parallel(uint8_t *out, const struct matrix *m, uint64_t first, uint64_t n, uint32_t jobs, bool halves)
{
    enum { MOST = 64 };
    struct slab_job job[MOST];
    pthread_t thread[MOST];
    bool started[MOST] = { false };
    const uint64_t group_bytes = packing_group_bytes(m->packing, m->w->cols);
    const uint32_t parts = jobs < 1 ? 1 : jobs > MOST ? MOST : jobs;
    for (uint32_t i = 0; i < parts; i++) {
        const uint64_t from = n * i / parts, to = n * (i + 1) / parts;
        job[i] = (struct slab_job){ out + from * group_bytes, m, first + from, to - from, halves, UINT64_MAX };
        if (i + 1 < parts) started[i] = pthread_create(&thread[i], NULL, pack_slab, &job[i]) == 0;
        if (!started[i]) pack_slab(&job[i]);
    }
    for (uint32_t i = 0; i < parts; i++) if (started[i]) pthread_join(thread[i], NULL);
    for (uint32_t i = 0; i < parts; i++) if (job[i].bad != UINT64_MAX) return job[i].bad;
    return UINT64_MAX;
}

static void write_rows(struct stream *s, const struct image_writer *iw, const struct matrix *m, uint8_t *slab, uint64_t slab_bytes)
{
    const struct weight *w = m->w;
    const uint64_t group_bytes = packing_group_bytes(m->packing, w->cols), per_slab = slab_bytes / group_bytes;
    const bool halves = takes_halves(iw, w);
    const uint64_t groups = packing_bytes(m->packing, m->n_rows, w->cols) / group_bytes;
    for (uint64_t g = 0; g < groups; g += per_slab) {
        const uint64_t n = groups - g < per_slab ? groups - g : per_slab;
        const bool small = n * group_bytes < 1 << 18;
        const uint64_t bad = pack_parallel(slab, m, g, n, small ? 1 : iw->jobs, halves);
        if (bad != UINT64_MAX)
            die_not_finite(iw, w, m->rows + bad * w->tensor->quant->block_bytes, m->row0 * row_blocks(w) + bad);
        put(s, slab, n * group_bytes);
        const uint64_t row = g * m->packing.layout->group_rows, end = row + n * m->packing.layout->group_rows;
        gguf_release(iw->plans[0]->model->gguf, m->rows + row * row_size(w), ((end < m->n_rows ? end : m->n_rows) - row) * row_size(w));
    }
}

/* Writes rows first .. first + n - 1, which are not contiguous in the tensor (weight_bytes), as many at once as fit in a slab. */
static void write_gathered(struct stream *s, const struct image_writer *iw, const struct weight *w, struct packing packing, uint64_t first,
                           uint64_t n, uint8_t *slab, uint64_t slab_bytes)
{
    const uint64_t per_group = packing.layout->group_rows, most = slab_bytes / packing_group_bytes(packing, w->cols) * per_group;
    const uint64_t at_once = most < n ? most : n;
    uint8_t *rows = malloc((size_t)(at_once * row_size(w)));
    if (!rows) die("out of memory for tensor %s", w->name);
    for (uint64_t row = first, part; row < first + n; row += part) {
        part = first + n - row < at_once ? first + n - row : at_once;
        for (uint64_t r = 0; r < part; r++) memcpy(rows + r * row_size(w), weight_bytes(w, row + r), (size_t)row_size(w));
        gguf_release(iw->plans[0]->model->gguf, weight_bytes(w, row), (uint64_t)(weight_bytes(w, row + part - 1) - weight_bytes(w, row)));
        write_rows(s, iw, &(struct matrix){ w, packing, rows, row, part }, slab, slab_bytes);
    }
    free(rows);
}

/* Slices are packed one by one; each starts a new group. */
static void write_matrix(struct stream *s, const struct image_writer *iw, const struct weight *w, struct packing packing, uint8_t *slab,
                         uint64_t slab_bytes)
{
    const uint64_t slices = w->slices ? w->slices : 1, n = w->rows / slices;
    for (uint64_t i = 0; i < slices; i++) {
        if (w->run % n || !weight_is_wide(w)) write_gathered(s, iw, w, packing, i * n, n, slab, slab_bytes);
        else write_rows(s, iw, &(struct matrix){ w, packing, weight_bytes(w, i * n), i * n, n }, slab, slab_bytes);
    }
}

/* The divisors of a rotation's frequencies, [n_rot / 2]; NULL if the rotation has no divisors. */
static const float *rope_factors(const struct image_writer *iw, const struct weight *w)
{
    if (!w) return NULL;
    float *factors = arena_array(iw->arena, float, w->cols);
    weight_to_float(factors, w, 0, 1);
    for (uint32_t k = 0; k < w->cols; k++)
        if (!(factors[k] > 0) || isinf(factors[k])) {
            const char *where = arena_printf(iw->arena, "%s: tensor %s, element %u", iw->plans[0]->model->gguf->path, w->name, k);
            die("%s is %g; frequency divisors must be finite and above 0", where, (double)factors[k]);
        }
    return factors;
}

/* Writes cosine and sine of each pair at a position. */
static void write_angles(struct stream *s, const double *freq, float *row, uint32_t half, double position, double magnitude)
{
    for (uint32_t i = 0; i < half; i++) {
        row[2 * i] = (float)(magnitude * cos(position * freq[i]));
        row[2 * i + 1] = (float)(magnitude * sin(position * freq[i]));
    }
    put(s, row, 2 * half * sizeof *row);
}

static void write_rotation(struct stream *s, const struct image_writer *iw, const struct plan *p, uint32_t index)
{
    const struct rotation *rotation = &p->fused->graph->rotations[index];
    const struct rotation_plan *r = &p->rotations[index];
    const uint32_t half = r->n_rot / 2;
    float *row = arena_array(iw->arena, float, 2 * half);
    const uint32_t n = rotation->far ? 2 : 1;                    /* for short texts, and for long texts */
    double *freq[2], magnitude[2];
    for (uint32_t i = 0; i < n; i++) {
        freq[i] = arena_array(iw->arena, double, half);
        magnitude[i] = model_rope_frequencies(&rotation->attr, rope_factors(iw, i ? rotation->far : rotation->factors), freq[i]);
    }
    for (uint32_t i = 0; i < n; i++) {
        put_zeros(s, r->lo + i * r->lo_far);
        for (uint32_t b = 0; b < r->block; b++) write_angles(s, freq[i], row, half, b, 1);
    }
    for (uint32_t i = 0; i < n; i++) {
        put_zeros(s, r->hi + i * r->hi_far);
        for (uint32_t h = 0; h <= p->options.n_ctx / r->block; h++)
            write_angles(s, freq[i], row, half, (double)h * r->block, magnitude[i]);
    }
}

static uint64_t slab_size(const struct plan *p)
{
    uint64_t bytes = SLAB;
    for (uint32_t i = 0; i < p->model->n_weights; i++) {
        const struct weight *w = &p->model->weights[i];
        if (p->weight_form[i] != WEIGHT_MATRIX) continue;
        const uint64_t group = packing_group_bytes(plan_packing(p, w), w->cols);
        if (group > bytes) bytes = group;
    }
    return bytes;
}

static void write_vector(struct stream *s, const struct image_writer *iw, const struct weight *w)
{
    const uint8_t *blocks = weight_bytes(w, 0);
    const uint64_t bad = blocks_not_finite(w->tensor->quant, blocks, row_blocks(w));
    if (bad < row_blocks(w)) die_not_finite(iw, w, blocks + bad * w->tensor->quant->block_bytes, bad);
    float *x = malloc((size_t)w->cols * sizeof *x);
    if (!x) die("out of memory for tensor %s", w->name);
    weight_to_float(x, w, 0, 1);
    put(s, x, (size_t)w->cols * sizeof *x);
    free(x);
}

/* WEIGHT_ROWS and WEIGHT_COLUMNS: writes rows as floats, or one column of all rows. */
static void write_floats(struct stream *s, const struct image_writer *iw, const struct plan *p, const struct weight *w)
{
    const bool turned = p->weight_form[w->index] == WEIGHT_COLUMNS;
    const uint64_t stride = plan_weight_stride(p, w), n_out = turned ? w->cols : w->rows, n_in = turned ? w->rows : w->cols;
    float *x = calloc((size_t)(w->rows * w->cols), sizeof *x), *out = calloc((size_t)stride, sizeof *out);
    if (!x || !out) die("out of memory for tensor %s", w->name);
    for (uint64_t r = 0; r < w->rows; r++) {
        const uint8_t *row = weight_bytes(w, r);
        const uint64_t bad = blocks_not_finite(w->tensor->quant, row, row_blocks(w));
        if (bad < row_blocks(w)) die_not_finite(iw, w, row + bad * w->tensor->quant->block_bytes, r * row_blocks(w) + bad);
    }
    weight_to_float(x, w, 0, w->rows);
    for (uint64_t i = 0; i < n_out; i++) {
        for (uint64_t k = 0; k < n_in; k++) out[k] = turned ? x[k * w->cols + i] : x[i * w->cols + k];
        put(s, out, (size_t)stride * sizeof *out);
    }
    free(out);
    free(x);
}

static void write_hashes(struct stream *s, const struct plan *p, const uint64_t *hashes)
{
    struct forge_hashes head = { .n = p->n_tensors };
    memcpy(head.magic, FORGE_HASHES_MAGIC, sizeof head.magic);
    put_zeros(s, p->image_hashes);
    XXH3_64bits_reset(s->hash);
    put(s, &head, sizeof head);
    put(s, hashes, p->n_tensors * sizeof *hashes);
    const uint64_t all = XXH3_64bits_digest(s->hash);
    put(s, &all, sizeof all);
    put_zeros(s, p->image_bytes);
}

/* Vectors and the hash's state need a larger alignment than the arena gives. */
static void *aligned_64(struct arena *a, uint64_t bytes)
{
    const uintptr_t at = (uintptr_t)arena_alloc(a, bytes + 63);
    return (void *)((at + 63) / 64 * 64);
}

/* True if all weights are 0; usually the first row already shows that they are not. */
static bool is_zero(struct arena *a, const struct weight *w)
{
    float *row = arena_array(a, float, w->cols);
    for (uint64_t r = 0; r < w->rows; r++) {
        weight_to_float(row, w, r, 1);
        for (uint64_t c = 0; c < w->cols; c++) if (!(row[c] >= 0 && row[c] <= 0)) return false;
    }
    return w->rows > 0;
}

/* Warns about matrices that are all 0: these were lost when the file was written. Vectors, including biases, may well be 0. */
static void warn_of_zeros(const struct image_writer *iw, const struct plan *p)
{
    enum { SHOWN = 4 };
    struct text t = { .arena = iw->arena };
    const struct plan_tensor *tensors = plan_tensors(iw->arena, p);
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n_tensors; i++) {
        const struct weight *w = tensors[i].weight;
        const bool zero = w && !w->is_vector && is_zero(iw->arena, w);
        if (w) weight_release(p->model, w);
        if (!zero) continue;
        if (n++ < SHOWN) text_printf(&t, "%s%s", n > 1 ? ", " : "", w->name);
    }
    if (n > SHOWN) text_printf(&t, " and %u more", n - SHOWN);
    if (n) warn("%s: all weights are 0 in %s; the file is damaged or was converted wrongly, unless the model was made so",
                p->model->gguf->path, text_str(&t));
}

static void write_image(struct outfile *f, const struct image_writer *iw, const struct plan *p)
{
    const uint64_t slab_bytes = slab_size(p);
    uint8_t *slab = aligned_64(iw->arena, slab_bytes);
    struct stream s = { f, f->offset, aligned_64(iw->arena, sizeof *s.hash) };
    const struct plan_tensor *tensors = plan_tensors(iw->arena, p);
    uint64_t *hashes = arena_array(iw->arena, uint64_t, p->n_tensors + 1u);
    for (uint32_t i = 0; i < p->n_tensors; i++) {
        const struct weight *w = tensors[i].weight;
        put_zeros(&s, tensors[i].offset);
        XXH3_64bits_reset(s.hash);
        if (!w) write_rotation(&s, iw, p, tensors[i].rotation);
        else if (p->weight_form[w->index] == WEIGHT_VECTOR) write_vector(&s, iw, w);
        else if (p->weight_form[w->index] != WEIGHT_MATRIX) write_floats(&s, iw, p, w);
        else write_matrix(&s, iw, w, plan_packing(p, w), slab, slab_bytes);
        if (w) weight_release(p->model, w);
        put_zeros(&s, tensors[i].offset + tensors[i].bytes);
        hashes[i] = XXH3_64bits_digest(s.hash);
        if (iw->progress) fprintf(stderr, "\rpacking weights %3u %%", (uint32_t)((f->offset - s.base) * 100 / p->image_bytes));
    }
    write_hashes(&s, p, hashes);
    if (iw->progress) fprintf(stderr, "\r                     \r");
}

void image_write(struct outfile *f, void *context)
{
    const struct image_writer *iw = context;
    const uint64_t base = f->offset;
    warn_of_zeros(iw, iw->plans[0]);
    for (uint32_t i = 0; i < iw->n_plans; i++) {
        outfile_pad(f, base + iw->offsets[i]);
        write_image(f, iw, iw->plans[i]);
    }
}

const char *image_hash(struct arena *a, const struct plan *p, const char *model_hash)
{
    /* Hashes text, so that neither padding nor byte order matters. */
    const struct model *m = p->model;
    struct text t = { .arena = a };
    text_printf(&t, "forgec weight image\n%s\n%u\n", model_hash, p->options.n_ctx);
    /* The model's YAML affects these too. */
    for (uint32_t i = 0; i < p->fused->graph->n_rotations; i++) {
        const struct weight *factors = p->fused->graph->rotations[i].factors, *far = p->fused->graph->rotations[i].far;
        const struct node_attrs *r = &p->fused->graph->rotations[i].attr;
        text_printf(&t, "%u %u %a %a %a ", p->rotations[i].block, r->n_rot, r->base, r->factor, r->ext_factor);
        text_printf(&t, "%a %a %a %u %s%s%s\n", r->attn_factor, r->beta_fast, r->beta_slow, r->n_ctx_orig, factors ? factors->name : "-",
                    far ? " " : "", far ? far->name : "");
        if (r->unrounded) text_puts(&t, "unrounded\n");
    }
    for (uint32_t i = 0; i < m->n_weights; i++) {
        const struct weight *w = &m->weights[i];
        if (p->weight_offset[i] == UINT64_MAX) continue;
        text_printf(&t, "%s %llu %llu", w->name, (unsigned long long)w->row0, (unsigned long long)p->weight_offset[i]);
        const struct packing packing = plan_packing(p, w);
        const uint64_t pad = p->weight_form[i] == WEIGHT_MATRIX ? packing_pad_bytes(packing, w->cols) : 0;
        if (p->weight_form[i] == WEIGHT_MATRIX) text_printf(&t, " %s %u", packing.layout->name, packing.layout->version);
        else if (p->weight_form[i] != WEIGHT_VECTOR) text_puts(&t, p->weight_form[i] == WEIGHT_ROWS ? " rows" : " columns");
        if (pad) text_printf(&t, " and %llu", (unsigned long long)pad);
        if (!weight_is_wide(w)) text_printf(&t, " from %llu", (unsigned long long)w->col0);
        if (w->run != w->rows) text_printf(&t, " %llu of %llu", (unsigned long long)w->run, (unsigned long long)w->stride);
        text_puts(&t, "\n");
    }
    const struct bytes part = bytes_of(text_str(&t));
    return cache_key_hex(a, cache_key_of(&part, 1));
}
