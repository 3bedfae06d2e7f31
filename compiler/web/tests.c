/* tests.c -- see tests.h. The reference computes a short text. Then every kernel of the plan is tested in the first group that uses it: the
 * page stores the reference's values that the group reads, runs the group's launches, and compares their results with the reference. So an
 * error does not spread to other kernels. The kernels themselves fill caches and states, step by step. If another group stores a state that
 * the group reads, that group runs first, in the same way. */
#include "tests.h"
#include "choose.h"
#include "compiler/front/reference.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long ull;

/* The text: a prompt that is long enough for tiles (WEB_FEW), a prompt for the kernels of a few tokens, in which the first token has no
 * logits, and two single tokens. */
static const struct step { enum kernel_steps kind; uint32_t tokens, logits; } steps[] = {
    { STEPS_PREFILL, WEB_FEW + 3, WEB_FEW + 3 }, { STEPS_PREFILL, 3, 2 }, { STEPS_DECODE, 1, 1 }, { STEPS_DECODE, 1, 1 },
};
enum { TOKENS = WEB_FEW + 3 + 3 + 1 + 1 };

/* ---- tolerances, relative to the root mean square (rms) of a result's row ----
 *
 * The reference rounds at the same places as the kernels: activations to int8, the cache to f16 or int8. The remaining difference is that
 * of f32 sums in another order: FLOATS, or SEQUENCE for a state that continues from token to token. In addition, a number that lies nearly
 * half way between two steps of such a rounding (within NEAR of itself) may be rounded to the other step. The rows with such numbers are
 * known here, so all other rows must be within FLOATS or SEQUENCE. An activation that is rounded to the other step changes the result by
 * the size of a step times a weight: in a row of n products of similar size this is (step / rms) / sqrt(n) of the result. FALLS times that
 * covers a weight of twelve standard deviations. After a function, or a product of two such values, all of this is at most BEHIND times as
 * much. WGSL does not say to which neighbour a number is rounded to f16: any number of the cache may be off by F16 of itself. */
static const double FLOATS = 5e-5, SEQUENCE = 2e-4, NEAR = 1e-6, FALLS = 12, BEHIND = 4, F16 = 0x1p-10;

/* Values that the tests contain: all columns of a value that a group reads, at most SAMPLE columns of other values, at equal distances. */
enum { SAMPLE = 1024 };
#define NO_VALUE UINT32_MAX
struct value { const struct node *node; bool whole; uint32_t first, every, count; float *rows; uint64_t at; };

struct tester {
    struct arena      *arena;
    const struct plan *plan;
    struct value      *values;               /* [n_values] */
    uint32_t          *value_of;             /* [n_nodes] in values, or NO_VALUE */
    uint32_t          *tested;               /* [n_tested] groups; a group that stores a state comes before its readers */
    uint32_t          *number_of;            /* [n_groups] index in tested, or NO_GROUP */
    double           **moved;                /* [n_nodes] [TOKENS] tolerance of each token's row for other roundings, or NULL: 0 */
    float            **steps_of;             /* [n_nodes] values in states: see store_steps; or NULL */
    uint32_t           n_values, room, n_tested;
};

static uint32_t keep(struct tester *t, const struct node *n, bool whole)
{
    uint32_t *at = &t->value_of[n->index];
    if (*at == NO_VALUE) {
        arena_room(t->arena, t->values, t->n_values, t->room);
        *at = t->n_values++;
        t->values[*at] = (struct value){ .node = n };
    }
    t->values[*at].whole |= whole;
    return *at;
}

/* ---- the values that a group reads and writes ---- */

struct nodes { const struct node *list[64]; uint32_t n; };

static void add_node(struct nodes *to, const struct node *n)
{
    for (uint32_t i = 0; i < to->n; i++) if (to->list[i] == n) return;
    if (to->n == COUNT_OF(to->list)) die("%%%s: a group reads more values than forgec can test; please report it", n->name);
    to->list[to->n++] = n;
}

static void add_read(const struct tester *t, uint32_t group, const struct node *n, struct nodes *reads)
{
    const struct fused *f = t->plan->fused;
    if (fuse_is_view(n)) n = fuse_held_by(n);
    if (fuse_group(f, n) == group) return;
    if (fuse_group(f, n) != NO_GROUP) add_node(reads, n);
    else for (uint32_t i = 0; i < op_info[n->op].n_values; i++) add_read(t, group, n->inputs[i], reads);     /* its readers compute it */
}

/* The values of other groups that the group reads, also from states. */
static struct nodes reads_of(const struct tester *t, uint32_t group)
{
    const struct graph *g = t->plan->fused->graph;
    struct nodes reads = { .n = 0 };
    for (uint32_t i = 0; i <= g->output->index; i++) {
        const struct node *n = g->nodes[i];
        if (fuse_group(t->plan->fused, n) != group || fuse_is_view(n)) continue;
        for (uint32_t k = 0; k < op_info[n->op].n_values; k++) add_read(t, group, n->inputs[k], &reads);
    }
    return reads;
}

static bool in_state(const struct node *n) { return n->op == OP_store_k || n->op == OP_store_v; }

/* A value that a launch writes: columns from .. to - 1 at a place. bound: 0, FLOATS, or the tolerances of its group (bounds_of). */
enum bound_kind { BOUND_NONE, BOUND_FLOATS, BOUND_GROUP };
struct written { const struct node *node; struct web_place at; uint32_t from, to; enum bound_kind bound; };
struct writes { struct written list[2 * MAX_BRANCHES]; uint32_t n; };

static void add_written(struct writes *w, const struct node *n, struct web_place at, enum bound_kind bound)
{
    w->list[w->n++] = (struct written){ n, at, 0, n->cols, bound };
}

static bool changes_scale(enum op op)
{
    return op == OP_mul || op_is_function(op) || op_is_gate(op);
}

/* The tolerances of the group's results for each token's row. to: [TOKENS]. */
static void bounds_of(const struct tester *t, uint32_t group, double *to)
{
    const struct graph *g = t->plan->fused->graph;
    double moved[TOKENS] = { 0 }, by = 1, floats = FLOATS;
    for (uint32_t i = 0; i <= g->output->index; i++) {
        if (fuse_group(t->plan->fused, g->nodes[i]) != group) continue;
        if (changes_scale(g->nodes[i]->op)) by = BEHIND;
        if (g->nodes[i]->op == OP_recur) floats = SEQUENCE;
        for (uint32_t k = 0; t->moved[i] && k < TOKENS; k++) moved[k] = fmax(moved[k], t->moved[i][k]);
    }
    for (uint32_t k = 0; k < TOKENS; k++) to[k] = by * (floats + moved[k]);
}

/* Adds the results of the group. */
static void add_results(const struct tester *t, uint32_t group, struct writes *w)
{
    const struct graph *g = t->plan->fused->graph;
    for (uint32_t i = 0; i <= g->output->index; i++) {
        const struct node *n = g->nodes[i];
        if (fuse_group(t->plan->fused, n) != group || (n != g->output && !plan_needs_buffer(t->plan, n))) continue;
        add_written(w, n, web_place_of(t->plan, n), BOUND_GROUP);
        if (n->op != OP_route) continue;
        struct written *shares = &w->list[w->n - 1];      /* the experts' numbers after the shares must match exactly */
        shares->to = n->cols / 2;
        w->list[w->n++] = (struct written){ n, shares->at, n->cols / 2, n->cols, BOUND_NONE };
    }
}

/* The values that one launch of the group writes to the arena; empty if a later launch of the group changes them. */
static struct writes writes_of(const struct tester *t, const struct launch *l)
{
    const struct plan *p = t->plan;
    const struct kernel *k = &p->kernels->kernels[l->kernel];
    const struct group *g = &p->fused->groups[l->group];
    const struct web_group *wg = &p->web->groups[l->group];
    const uint32_t sum = g->kind == GROUP_SLICES ? gpu_sum_at(&g->branches[0]) : 0;
    struct writes w = { .n = 0 };
    switch (k->template) {
    case TEMPLATE_norm:
        if (g->norm) add_written(&w, g->norm, web_place_in(g->norm, &wg->normed), BOUND_FLOATS);
        else add_results(t, l->group, &w);
        break;
    case TEMPLATE_stage:
        if (wg->rows_in.exists) add_written(&w, g->norm, web_place_in(g->norm, &wg->rows_in), BOUND_FLOATS);
        break;
    case TEMPLATE_gemv:
    case TEMPLATE_gemm:
        if (g->kind == GROUP_SLICES && sum < g->branches[0].n_chain) {
            const struct node *rows = g->branches[0].chain[sum]->inputs[0];
            add_written(&w, rows, web_place_in(rows, &wg->rows), BOUND_GROUP);
        } else add_results(t, l->group, &w);
        break;
    case TEMPLATE_heads:                                    /* q in its place; attention shows errors of k and v */
        add_written(&w, g->node->inputs[0], web_place_of(p, g->heads[0].raw), BOUND_FLOATS);
        break;
    case TEMPLATE_attention_merge: break;                   /* runs only for longer texts */
    case TEMPLATE_picked:
    case TEMPLATE_scores:
    case TEMPLATE_mask:
    case TEMPLATE_softmax:
    case TEMPLATE_conv_keep: break;
    default: add_results(t, l->group, &w);
    }
    return w;
}

/* ---- the choice of groups ---- */

static void test_group(struct tester *t, uint32_t group)
{
    if (t->number_of[group] != NO_GROUP) return;
    const struct nodes reads = reads_of(t, group);
    for (uint32_t i = 0; i < reads.n; i++) {
        if (in_state(reads.list[i])) test_group(t, fuse_group(t->plan->fused, reads.list[i]));
        else keep(t, reads.list[i], true);
    }
    t->number_of[group] = t->n_tested;
    t->tested[t->n_tested++] = group;
}

static void choose_groups(struct tester *t)
{
    const struct kernel_list *list = t->plan->kernels;
    bool *has = arena_array(t->arena, bool, list->n_kernels);
    for (uint32_t i = 0; i < t->plan->fused->n_groups; i++)
        for (enum kernel_steps kind = STEPS_DECODE; kind <= STEPS_PREFILL; kind++) {
            const struct launches of = list->of[kind];
            for (uint32_t k = 0; k < of.n; k++) {
                if (of.list[k].group != i) continue;
                if (!has[of.list[k].kernel]) test_group(t, i);
                has[of.list[k].kernel] = true;
            }
        }
    for (enum kernel_steps kind = STEPS_DECODE; kind <= STEPS_PREFILL; kind++) {
        const struct launches of = list->of[kind];
        for (uint32_t k = 0; k < of.n; k++) {
            if (t->number_of[of.list[k].group] == NO_GROUP) continue;
            const struct writes w = writes_of(t, &of.list[k]);
            for (uint32_t i = 0; i < w.n; i++) keep(t, w.list[i].node, w.list[i].node->op == OP_route);
        }
    }
}

/* ---- the values of the reference ---- */

static double rms_of(const float *x, uint64_t n)
{
    double sum = 0;
    for (uint64_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    return n ? sqrt(sum / (double)n) : 0;
}

static double most_of(const float *x, uint64_t n)
{
    double most = 0;
    for (uint64_t i = 0; i < n; i++) most = fmax(most, fabs((double)x[i]));
    return most;
}

/* Is x, in units of a rounding step, nearly half way between two steps? near: relative to x. */
static bool near_half(double x, double near) { return fabs(fabs(x) - floor(fabs(x)) - 0.5) <= near * fabs(x); }

/* [TOKENS] How much a product's row may change because activations are rounded to the other step. x: [rows][w->cols], the input that the
 * product reads as int8; each row is a piece of a token's row. */
static double *product_moved(const struct tester *t, const struct weight *w, const float *x, uint64_t rows)
{
    const uint64_t cols = w->cols;
    double *moved = arena_array(t->arena, double, TOKENS);
    for (uint64_t r = 0; r < rows; r++) {
        const float *row = x + r * cols;
        const double rms = rms_of(row, cols);
        double sum = 0;
        for (uint64_t c = 0; c < cols; c += 32) {
            const uint64_t n = cols - c < 32 ? cols - c : 32;
            const double step = most_of(row + c, n) / 127;
            for (uint64_t i = 0; step > 0 && i < n; i++)
                if (near_half((double)row[c + i] / step, NEAR)) sum += FALLS * step / rms / sqrt((double)cols);
        }
        double *of = &moved[r * TOKENS / rows];
        *of = fmax(*of, sum);
    }
    return moved;
}

/* [TOKENS][n->cols] How far each number of the cache may be off, with the sign of the number. int8: the scale of a block is f16, and its
 * error moves numbers that are near the middle between two codes. */
static float *store_steps(const struct tester *t, const struct node *n, const float *x)
{
    const enum kv_type kv = t->plan->options.kv;
    const uint64_t count = (uint64_t)TOKENS * n->cols;
    float *steps_of = arena_array(t->arena, float, count);
    for (uint64_t i = 0; kv != KV_TYPE_F32 && i < count; i++) steps_of[i] = (float)((double)x[i] * F16);
    for (uint64_t i = 0; kv == KV_TYPE_Q8_0 && i < count; i += 32) {
        const double step = most_of(x + i, 32) / 127;
        for (uint64_t k = i; step > 0 && k < i + 32; k++)
            if (near_half((double)x[k] / step, F16)) steps_of[k] = copysignf((float)step, x[k]);
    }
    return steps_of;
}

/* [TOKENS] How much attention's row may change because of errors in the cache. Errors of V change the result directly. Errors of K change
 * the scores, and a change of scores changes the result by at most half as much of the largest number of V. If all of K are rounded towards
 * zero, a score changes by half of the sum of the largest errors, and by a random part (two standard deviations). */
static double *attention_moved(const struct tester *t, const struct node *n, const float *const *x, const float *y)
{
    const struct node *values = n->inputs[plan_values_in_keys(t->plan, n) ? 1 : 2];
    const float *k_steps = t->steps_of[n->inputs[1]->index], *v_steps = t->steps_of[values->index];
    if (!k_steps || !v_steps) return NULL;
    const uint32_t dim = n->attr.head_dim, each = n->heads / n->inputs[1]->heads;
    const uint64_t k_cols = n->inputs[1]->cols, v_cols = n->inputs[2]->cols;
    double *moved = arena_array(t->arena, double, TOKENS);
    for (uint32_t i = 0; i < TOKENS; i++) {
        const uint64_t seen = n->attr.causal ? i + 1 : TOKENS;
        const double rms = rms_of(y + (uint64_t)i * n->cols, n->cols), largest = most_of(x[2], seen * v_cols);
        double scores = 0;
        for (uint32_t h = 0; h < n->heads; h++) {
            const float *q = x[0] + ((uint64_t)i * n->heads + h) * dim, *k = k_steps + (uint64_t)(h / each) * dim;
            for (uint64_t p = 0; p < seen; p++) {
                double sum = 0, squares = 0;
                for (uint32_t c = 0; c < dim; c++) {
                    const double off = (double)q[c] * (double)k[p * k_cols + c] * n->attr.scale;
                    sum += off;
                    squares += off * off;
                }
                scores = fmax(scores, fabs(sum) / 2 + 2 * sqrt(squares));
            }
        }
        if (rms > 0) moved[i] = (largest * scores / 2 + most_of(v_steps, seen * values->cols)) / rms;
    }
    return moved;
}

static void take_value(void *context, const struct node *n, const float *const *x, const float *y)
{
    struct tester *t = context;
    const bool product = n->op == OP_matmul || n->op == OP_matmul_heads || n->op == OP_expert_matmul;
    const uint32_t group = fuse_group(t->plan->fused, n);
    const bool tested = group != NO_GROUP && t->number_of[group] != NO_GROUP;
    if (tested && product && !gpu_takes_floats(n->weight) && !t->plan->options.exact)
        t->moved[n->index] = product_moved(t, n->weight, x[0], (uint64_t)TOKENS * n->inputs[0]->cols / n->weight->cols);
    if (tested && in_state(n)) t->steps_of[n->index] = store_steps(t, n, x[0]);
    if (tested && n->op == OP_attention) t->moved[n->index] = attention_moved(t, n, x, y);
    if (t->value_of[n->index] == NO_VALUE) return;
    struct value *v = &t->values[t->value_of[n->index]];
    for (uint32_t i = 0; i < TOKENS; i++)
        for (uint32_t c = 0; c < v->count; c++) v->rows[i * v->count + c] = y[(uint64_t)i * n->cols + v->first + (uint64_t)c * v->every];
}

/* Chooses the columns that the tests contain: the last column, and columns at equal distances before it. The distance is odd, so that the
 * columns cover all lanes and all places in a word. */
static void place_values(struct tester *t)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < t->n_values; i++) {
        struct value *v = &t->values[i];
        const uint32_t cols = v->node->cols;
        v->every = v->whole ? 1 : (cols + SAMPLE - 1) / SAMPLE | 1;
        v->first = (cols - 1) % v->every;
        v->count = (cols - 1) / v->every + 1;
        v->rows = arena_array(t->arena, float, (size_t)TOKENS * v->count);
        v->at = at;
        at += (uint64_t)TOKENS * v->count;
    }
}

/* ---- as JSON ---- */

static void put_writes(struct text *out, const struct tester *t, const struct writes *w)
{
    for (uint32_t i = 0; i < w->n; i++) {
        const struct written *one = &w->list[i];
        text_printf(out, "%s[%u, %u, %u, %llu, %llu, %u, %d]", i ? ", " : "", t->value_of[one->node->index], one->from, one->to,
                    (ull)one->at.offset, (ull)one->at.stride, (unsigned)(one->at.form == WEB_LOGITS), (int)one->bound);
    }
}

/* [launch, [[value, from, to, offset, stride, 1: of logits, bound: 0 none, 1 floats', 2 the group's], ..]] */
static void put_launches(struct text *out, const struct tester *t, enum kernel_steps kind, uint32_t group)
{
    const struct launches of = t->plan->kernels->of[kind];
    bool first = true;
    for (uint32_t i = 0; i < of.n; i++) {
        if (of.list[i].group != group) continue;
        const struct writes w = writes_of(t, &of.list[i]);
        text_printf(out, "%s[%u, [", first ? "" : ", ", i);
        put_writes(out, t, &w);
        text_puts(out, "]]");
        first = false;
    }
}

/* Layer and name; earlier groups with states that it reads; the values that it reads, [value, offset, stride]; tolerances of each token;
 * launches. */
static void put_group(struct text *out, const struct tester *t, uint32_t group)
{
    const struct group *g = &t->plan->fused->groups[group];
    const struct nodes reads = reads_of(t, group);
    struct text after = { .arena = t->arena }, values = { .arena = t->arena }, bounds = { .arena = t->arena };
    double bound[TOKENS];
    bounds_of(t, group, bound);
    for (uint32_t i = 0; i < TOKENS; i++) text_printf(&bounds, "%s%.2g", i ? ", " : "", bound[i]);
    for (uint32_t i = 0; i < reads.n; i++) {
        const struct node *n = reads.list[i];
        const struct web_place at = web_place_of(t->plan, n);
        if (in_state(n)) text_printf(&after, "%s%u", after.size ? ", " : "", t->number_of[fuse_group(t->plan->fused, n)]);
        else text_printf(&values, "%s[%u, %llu, %llu]", values.size ? ", " : "", t->value_of[n->index], (ull)at.offset, (ull)at.stride);
    }
    text_printf(out, "  { \"name\": \"%s%s\", \"after\": [%s], \"reads\": [%s], \"bounds\": [%s],\n", g->layer == NO_LAYER ? ""
                : arena_printf(t->arena, "%u.", g->layer), g->name, text_str(&after), text_str(&values), text_str(&bounds));
    text_puts(out, "    \"decode\": [");
    put_launches(out, t, STEPS_DECODE, group);
    text_puts(out, "],\n    \"prefill\": [");
    put_launches(out, t, STEPS_PREFILL, group);
    text_puts(out, "] }");
}

static const char *launches_text(const struct tester *t, const int32_t *tokens)
{
    struct text out = { .arena = t->arena };
    const struct value *last = &t->values[t->n_values - 1];
    text_puts(&out, "{ \"tokens\": [");
    for (uint32_t i = 0; i < TOKENS; i++) text_printf(&out, "%s%d", i ? ", " : "", tokens[i]);
    text_printf(&out, "], \"floats\": %.2g, \"bytes\": %llu,\n\"steps\": [", FLOATS, 4ull * (last->at + (ull)TOKENS * last->count));
    for (size_t i = 0; i < COUNT_OF(steps); i++)
        text_printf(&out, "%s[\"%s\", %u, %u]", i ? ", " : "", kernel_steps_name[steps[i].kind], steps[i].tokens, steps[i].logits);
    text_puts(&out, "],\n\"values\": [");
    for (uint32_t i = 0; i < t->n_values; i++) {
        const struct value *v = &t->values[i];
        text_printf(&out, "%s[\"%s\", %llu, %u, %u, %u]", i ? ", " : "", v->node->name, (ull)v->at, v->first, v->every, v->count);
    }
    text_puts(&out, "],\n\"groups\": [\n");
    for (uint32_t i = 0; i < t->n_tested; i++) {
        put_group(&out, t, t->tested[i]);
        text_puts(&out, i + 1 < t->n_tested ? ",\n" : "\n");
    }
    text_puts(&out, "] }\n");
    return text_str(&out);
}

/* The values as f32 in this machine's byte order: forgec runs on little-endian machines, and WebAssembly is little-endian, too. */
static struct bytes values_bytes(const struct tester *t)
{
    struct text out = { .arena = t->arena };
    for (uint32_t i = 0; i < t->n_values; i++)
        text_append(&out, (const char *)t->values[i].rows, (size_t)TOKENS * t->values[i].count * sizeof(float));
    return (struct bytes){ (const uint8_t *)out.data, out.size };
}

struct web_tests web_tests(struct arena *a, const struct plan *p)
{
    const struct graph *g = p->fused->graph;
    struct tester t = { .arena = a, .plan = p, .value_of = arena_array(a, uint32_t, g->n_nodes),
                        .tested = arena_array(a, uint32_t, p->fused->n_groups), .number_of = arena_array(a, uint32_t, p->fused->n_groups),
                        .moved = arena_array(a, double *, g->n_nodes), .steps_of = arena_array(a, float *, g->n_nodes) };
    if (p->options.n_ctx < TOKENS)
        die("--kernel-tests: the text of the tests has %d tokens, the context %u; choose --ctx %d or more", TOKENS, p->options.n_ctx,
            TOKENS);
    for (uint32_t i = 0; i < g->n_nodes; i++) t.value_of[i] = NO_VALUE;
    for (uint32_t i = 0; i < p->fused->n_groups; i++) t.number_of[i] = NO_GROUP;
    choose_groups(&t);
    place_values(&t);
    int32_t tokens[TOKENS];
    for (uint32_t i = 0; i < TOKENS; i++) tokens[i] = (int32_t)((i + 1) * 2654435761ull % p->model->n_vocab);
    const struct rounding rounding = { .steps = p->options.exact ? 0 : 127, .cache = p->options.kv != KV_TYPE_F32, .kv = p->options.kv };
    reference_values(a, g, &rounding, tokens, TOKENS, take_value, &t);
    return (struct web_tests){ launches_text(&t, tokens), values_bytes(&t) };
}
