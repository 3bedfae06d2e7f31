/* plan.c -- fused graph + target -> places and sizes: options, KV cache, weight image.
 * The target's back end (machine.h) plans values and kernels. */
#include "plan.h"
#include "limits.h"
#include "machine.h"
#include "runtime/model/abi.h"
#include <stdlib.h>
#include <string.h>

const char *const kv_type_name[] = { [KV_TYPE_F16] = "f16", [KV_TYPE_F32] = "f32", [KV_TYPE_Q8_0] = "q8_0", NULL };
const char *const row_form_name[ROW_FORMS] = { [ROW_F32] = "f32", [ROW_Q8] = "q8", [ROW_BF16] = "bf16",
                                              [ROW_BF16_PARTS] = "two bf16" };
const char *const spec_kind_name[] = { [SPEC_NONE] = "none", [SPEC_NGRAM] = "ngram", [SPEC_MTP] = "mtp", NULL };
const char *const split_kind_name[] = { [SPLIT_TENSOR] = "tensor", [SPLIT_LAYER] = "layer", NULL };

static const struct machine *machine_for(const struct plan *p) { return machine_of(p->target->kind); }

uint64_t plan_align(uint64_t bytes, uint64_t to) { return (bytes + to - 1) / to * to; }

/* ---- options ---- */

uint32_t plan_context(const struct model *m, const struct plan_options *o)
{
    return model_context(m->n_ctx_train, o->n_ctx);
}

static void fill_options(struct plan *p, const struct plan_options *o)
{
    p->options = *o;
    p->options.n_ctx = plan_context(p->model, o);
    if (p->options.n_ctx > 1u << 24)
        die("a context of %u tokens is longer than %u, the most that forgec can plan; choose a smaller --ctx", p->options.n_ctx, 1u << 24);
    if (!p->options.max_threads) p->options.max_threads = 64;
    const uint32_t chunk = o->chunk ? o->chunk : p->target->tile.prefill_chunk;
    p->chunk = p->max_logits = chunk < p->options.n_ctx && p->model->causal ? chunk : p->options.n_ctx;
    if (!p->model->causal && p->chunk > CHUNK_MOST)
        die("%s: its attention sees later tokens, so all of a text is computed at once, at most %u tokens; choose --ctx %u or smaller",
            p->model->gguf->path, CHUNK_MOST, CHUNK_MOST);
    if (!p->model->causal && o->chunk && o->chunk != p->chunk)
        die("%s: its attention sees later tokens, so all of a text is computed at once: the chunk is the context, %u",
            p->model->gguf->path, p->chunk);
}

/* ---- states of a sequence, layer by layer ---- */

const char *const state_kind_name[STATE_KINDS] = { [STATE_KV] = "kv", [STATE_RING] = "ring", [STATE_RECURRENT] = "recurrent",
                                                   [STATE_CONV] = "conv" };

static uint64_t kv_row_bytes(enum kv_type kv, uint32_t head_dim)
{
    return kv == KV_TYPE_F16 ? 2ull * head_dim : kv == KV_TYPE_F32 ? 4ull * head_dim : head_dim / 32 * 34ull;
}

/* The largest window of the attention nodes that read these keys; 0: a reader attends all positions. */
static uint32_t widest_window(const struct node *store)
{
    uint32_t window = 0;
    for (uint32_t i = 0; i < store->n_readers; i++) {
        const uint32_t w = store->readers[i]->attr.window;
        if (!w) return 0;
        if (w > window) window = w;
    }
    return window;
}

/* The state of K and V of a layer together (each 2), or of K or V alone (each 1), if their head sizes differ. A CPU keeps 16 positions
 * together. A GPU keeps rows without gaps, and the scales of q8_0 after all codes (templates/gpu/kv.h): then the state does not consist of
 * runs of whole rows. A ring has rows for all positions that the tokens of a step read, from the oldest position of the first token to the
 * last token's own. Rejected drafts are not tokens of the sequence, but they have overwritten rows. */
static struct state kv_state(const struct plan *p, const struct node *store, uint32_t head_dim, uint32_t each)
{
    const uint32_t all = (uint32_t)plan_align(p->options.n_ctx, 16), window = widest_window(store), runs = each * store->heads;
    const uint64_t ring = plan_align((uint64_t)window + p->chunk - 1, 16);
    const uint32_t rows = window > 0 && ring < all ? (uint32_t)ring : all;
    const uint64_t row = kv_row_bytes(p->options.kv, head_dim);
    const bool gaps = p->target->kind != TARGET_CPU && (p->options.kv == KV_TYPE_Q8_0 || (rows == all && p->options.n_ctx % 16));
    return (struct state){ .kind = rows < all ? STATE_RING : STATE_KV, .layer = store->layer, .node = store,
                           .bytes = plan_align(runs * row * rows, machine_for(p)->state_align), .runs = runs, .rows = rows,
                           .row_bytes = gaps ? 0 : row, .token_bytes = runs * row,
                           .back = rows < all ? rows - window + 2 - plan_slots(p) : UINT32_MAX };
}

static void add_state(struct plan *p, struct state s)
{
    s.offset = p->state_bytes;
    p->states[p->n_states++] = s;
    p->state_bytes += s.bytes;
    if (s.kind == STATE_KV) p->state_bytes_per_token += s.token_bytes;
    if (p->state_bytes > 1ull << 46) die("a KV cache for %u tokens would take more than 64 TB; choose a smaller --ctx", p->options.n_ctx);
}

/* The V operand of the attention that reads these keys. */
static const struct node *values_of(const struct node *store_k)
{
    for (uint32_t i = 0; i < store_k->n_readers; i++) if (store_k->readers[i]->op == OP_attention) return store_k->readers[i]->inputs[2];
    return store_k;
}

/* Is v, a store of V, a store of the first columns of k, a store of one head of K? */
static bool stores_first(const struct node *k, const struct node *v)
{
    if (k->op != OP_store_k || v->op != OP_store_v || k->heads != 1 || v->heads != 1 || k->inputs[0]->op != OP_join) return false;
    return k->inputs[0]->inputs[0] == v->inputs[0];
}

bool plan_values_in_keys(const struct plan *p, const struct node *n)
{
    const struct node *attention = n->op == OP_attention ? n : n->n_readers ? n->readers[0] : NULL;
    return p->target->kind != TARGET_CPU && attention && attention->op == OP_attention
           && stores_first(attention->inputs[1], attention->inputs[2]);
}

static void add_kv_states(struct plan *p, const struct node *store)
{
    const uint32_t dim = store->attr.head_dim, value_dim = values_of(store)->attr.head_dim;
    if (p->target->kind != TARGET_CPU && stores_first(store, values_of(store))) {
        add_state(p, kv_state(p, store, dim, 1));
        return;
    }
    if (dim == value_dim) {
        add_state(p, kv_state(p, store, dim, 2));
        return;
    }
    add_state(p, kv_state(p, store, dim, 1));
    add_state(p, kv_state(p, store, value_dim, 1));
}

uint32_t plan_slots(const struct plan *p) { return p->options.spec && p->target->kind == TARGET_GPU ? p->options.columns : 1; }

uint32_t plan_slots_of(const struct plan *p, const struct node *n)
{
    return plan_slots(p) + (graph_drafts(p->fused->graph, n) && n->op == OP_previous);
}

/* The block that drafts: a wrong row before its first draft costs only that draft and never changes the text. So any number of tokens can
 * be forgotten. */
static struct state float_state(const struct plan *p, enum state_kind kind, const struct node *n, uint64_t floats)
{
    const uint64_t one = plan_align(4 * floats, machine_for(p)->state_align);
    return (struct state){ .kind = kind, .layer = n->layer, .node = n, .bytes = one * plan_slots_of(p, n),
                           .back = graph_drafts(p->fused->graph, n) ? UINT32_MAX : 0 };
}

static void plan_states(struct arena *a, struct plan *p)
{
    const struct graph *g = p->fused->graph;
    p->states = arena_array(a, struct state, 2ull * g->n_nodes);
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct node *n = g->nodes[i];
        if (n->op == OP_store_k) add_kv_states(p, n);
        else if (n->op == OP_conv) add_state(p, float_state(p, STATE_CONV, n, (n->weight->cols - 1) * n->cols));
        else if (n->op == OP_previous) add_state(p, float_state(p, STATE_CONV, n, n->cols));
        else if (n->op == OP_recur)
            add_state(p, float_state(p, STATE_RECURRENT, n, (uint64_t)n->heads * n->attr.head_dim * n->attr.value_dim));
    }
}

uint32_t plan_window(const struct plan *p, const struct node *n) { return n->attr.window < p->options.n_ctx ? n->attr.window : 0; }

const struct state *plan_state(const struct plan *p, const struct node *n)
{
    const struct node *owner = n->op == OP_attention ? n->inputs[1] : n;
    for (uint32_t i = 0; i < p->n_states; i++) {
        const struct state *s = &p->states[i];
        if (s->node == owner || (n->op == OP_store_v && s->layer == n->layer && s->node->op == OP_store_k)) return s;
    }
    die("%%%s: layer %u has no state; this is a mistake in forgec, please report it", n->name, owner->layer);
}

uint64_t plan_values_at(const struct plan *p, const struct node *n)
{
    const struct state *s = plan_state(p, n);
    const bool own = s + 1 < p->states + p->n_states && s[1].node == s->node;
    return own ? s[1].offset - s->offset : 0;
}

void plan_count_attention(const struct plan *p, const struct node *n, enum attention_part part, struct kernel *k)
{
    const uint32_t keys = part & ATTENTION_SCORES ? n->attr.head_dim : 0, values = part & ATTENTION_SUM ? n->inputs[2]->attr.head_dim : 0;
    const bool once = keys && plan_values_in_keys(p, n);
    const uint64_t row = (keys ? kv_row_bytes(p->options.kv, keys) : 0) + (values && !once ? kv_row_bytes(p->options.kv, values) : 0);
    k->window = plan_window(p, n);
    k->state_bytes = n->inputs[1]->heads * row * (k->window ? k->window : p->options.n_ctx);
    k->attention = 2ull * n->heads * (keys + values);
}

void plan_count_sequence(const struct plan *p, const struct node *n, struct kernel *k)
{
    k->state_bytes = plan_state(p, n)->bytes / plan_slots_of(p, n);
    if (n->op == OP_conv) k->operations = 2 * n->weight->cols * n->cols;
    if (n->op == OP_recur) k->operations = (n->attr.delta ? 7ull : 5ull) * n->cols * n->attr.head_dim;
}

/* ---- what launches bind ---- */

struct binding rotation_table(const struct rotation_plan *r, bool of_blocks)
{
    return of_blocks ? (struct binding){ .offset = r->hi, .bytes = r->lo + r->bytes - r->hi }
                     : (struct binding){ .offset = r->lo, .bytes = r->hi - r->lo };
}

struct binding plan_binding(const struct plan *p, const struct weight *w)
{
    return (struct binding){ .offset = p->weight_offset[w->index], .bytes = plan_weight_bytes(p, w),
                             .is_matrix = p->weight_form[w->index] == WEIGHT_MATRIX };
}

/* ---- the weight image, in the order in which kernels read it ---- */

struct packing plan_packing(const struct plan *p, const struct weight *w)
{
    return packing_of(machine_for(p)->layout, w->tensor->quant, p->target->row_period);
}

static enum weight_form form_of(const struct node *n)
{
    if (n->weight->is_vector) return WEIGHT_VECTOR;
    if (n->op == OP_expert_bias || n->op == OP_expert_times || n->op == OP_add_position) return WEIGHT_ROWS;
    return n->op == OP_conv ? WEIGHT_COLUMNS : WEIGHT_MATRIX;
}

static void plan_forms(struct arena *a, struct plan *p)
{
    const struct graph *g = p->fused->graph;
    p->weight_form = arena_array(a, enum weight_form, p->model->n_weights);
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct node *n = g->nodes[i];
        if (!node_reads_weight(n)) continue;
        enum weight_form *form = &p->weight_form[n->weight->index];
        if (*form && *form != form_of(n))
            die("%%%s: another operation reads %s in another way; forgec has no kernel for both", n->name, n->weight->name);
        *form = form_of(n);
    }
}

uint64_t plan_weight_stride(const struct plan *p, const struct weight *w)
{
    return plan_align(p->weight_form[w->index] == WEIGHT_COLUMNS ? w->rows : w->cols, 16);
}

uint64_t plan_slice_bytes(const struct plan *p, const struct weight *w)
{
    return packing_bytes(plan_packing(p, w), w->slices ? w->rows / w->slices : w->rows, w->cols);
}

uint64_t plan_weight_bytes(const struct plan *p, const struct weight *w)
{
    switch (p->weight_form[w->index]) {
    case WEIGHT_ROWS:    return w->rows * plan_weight_stride(p, w) * 4;
    case WEIGHT_COLUMNS: return w->cols * plan_weight_stride(p, w) * 4;
    case WEIGHT_MATRIX:  return (w->slices ? w->slices : 1) * plan_slice_bytes(p, w);
    default:             return packing_vector_bytes(w->cols);
    }
}

uint32_t plan_slices(const struct group *g) { return g->choice ? g->choice->attr.used : g->branches[0].matmul->weight->slices; }

bool plan_reads_pieces(const struct node *product)
{
    return product->op == OP_expert_matmul ? product->attr.each : product->inputs[0]->cols != product->weight->cols;
}

uint64_t plan_bytes_read(const struct plan *p, const struct node *n)
{
    const uint64_t bytes = plan_weight_bytes(p, n->weight);
    if (op_info[n->op].reads == READS_ROWS) return bytes / n->weight->rows;
    if (op_info[n->op].reads != READS_EXPERTS) return bytes;
    const struct node *choice = n->inputs[1];
    return bytes / choice->inputs[0]->cols * choice->attr.used;
}

static bool is_run(const struct plan *p, const struct weight *w)
{
    return p->weight_form[w->index] == WEIGHT_MATRIX && !w->slices && w->run == w->rows;
}

/* A weight in the image that contains all rows of w, or NULL. This happens if one table is both embedding and output head and GPUs share
 * the head. Only GPUs pack rows one by one. */
static const struct weight *holder_of(const struct plan *p, const struct weight *w)
{
    if (p->target->kind != TARGET_GPU || !is_run(p, w)) return NULL;
    for (uint32_t i = 0; i < p->model->n_weights; i++) {
        const struct weight *h = &p->model->weights[i];
        if (p->weight_offset[i] != UINT64_MAX && is_run(p, h) && h->tensor == w->tensor && h->col0 == w->col0 && h->cols == w->cols &&
            h->row0 <= w->row0 && w->row0 + w->rows <= h->row0 + h->rows) return h;
    }
    return NULL;
}

static void place_weight(struct plan *p, const struct weight *w)
{
    uint64_t *at = &p->weight_offset[w->index];
    if (*at != UINT64_MAX) return;
    const struct weight *holder = holder_of(p, w);
    if (holder) {
        *at = p->weight_offset[holder->index] + (w->row0 - holder->row0) * packing_row_bytes(plan_packing(p, w), w->cols);
        p->weight_held[w->index] = true;
        return;
    }
    *at = p->image_bytes;
    p->image_bytes = plan_align(p->image_bytes + plan_weight_bytes(p, w), machine_for(p)->image_align);
}

static void plan_rotations(struct arena *a, struct plan *p)
{
    const struct graph *g = p->fused->graph;
    p->rotations = arena_array(a, struct rotation_plan, g->n_rotations);
    for (uint32_t i = 0; i < g->n_rotations; i++) {
        struct rotation_plan *r = &p->rotations[i];
        r->n_rot = g->rotations[i].attr.n_rot;
        r->block = 16;
        while ((uint64_t)r->block * r->block < p->options.n_ctx) r->block *= 2;
    }
}

static void place_rotations(struct plan *p)
{
    for (uint32_t i = 0; i < p->fused->graph->n_rotations; i++) {
        struct rotation_plan *r = &p->rotations[i];
        const uint64_t row = (uint64_t)r->n_rot * 4, lo = plan_align(r->block * row, 64), hi = (p->options.n_ctx / r->block + 1) * row;
        const bool far = p->fused->graph->rotations[i].far;
        r->lo_far = far ? lo : 0;
        r->hi_far = far ? plan_align(hi, 64) : 0;
        r->lo = p->image_bytes;
        r->hi = r->lo + r->lo_far + lo;
        r->bytes = r->hi + r->hi_far + hi - r->lo;
        p->image_bytes = plan_align(r->lo + r->bytes, 64);
    }
}

/* The norm that attention applies to the heads of the group's branch; or NULL. */
static const struct node *head_norm(const struct fused *f, const struct group *g, uint32_t branch)
{
    for (const struct group *later = g + 1; later < f->groups + f->n_groups; later++)
        for (uint32_t i = 0; later->has_heads && later->projection == g && i < 3; i++)
            if (later->heads[i].branch == branch) return later->heads[i].norm;
    return NULL;
}

/* Places the matrix of a branch, then the vectors that its operations read. */
static void place_branch(struct plan *p, const struct group *g, uint32_t branch)
{
    const struct branch *b = &g->branches[branch];
    const struct node *norm = b->matmul ? head_norm(p->fused, g, branch) : NULL;
    if (b->matmul) place_weight(p, b->matmul->weight);
    for (uint32_t c = 0; c < b->n_chain; c++) {
        const struct node *n = b->chain[c];
        if (node_reads_weight(n)) place_weight(p, n->weight);
    }
    if (norm && node_reads_weight(norm)) place_weight(p, norm->weight);
}

static void plan_image(struct arena *a, struct plan *p)
{
    const struct model *m = p->model;
    p->weight_offset = arena_array(a, uint64_t, m->n_weights);
    p->weight_held = arena_array(a, bool, m->n_weights);
    for (uint32_t i = 0; i < m->n_weights; i++) p->weight_offset[i] = UINT64_MAX;
    place_rotations(p);
    if (p->target->kind == TARGET_WEBGPU) p->image_bytes = plan_align(p->image_bytes, machine_for(p)->image_align);     /* for bindings */
    for (uint32_t i = 0; i < p->fused->n_groups; i++) {
        const struct group *g = &p->fused->groups[i];
        if (g->norm && node_reads_weight(g->norm)) place_weight(p, g->norm->weight);
        if (g->node && node_reads_weight(g->node)) place_weight(p, g->node->weight);
        for (uint32_t k = 0; k < g->n_branches; k++) place_branch(p, g, k);
    }
    for (uint32_t i = 0; i < m->n_weights; i++) p->n_tensors += p->weight_offset[i] != UINT64_MAX && !p->weight_held[i];
    p->n_tensors += p->fused->graph->n_rotations;
    p->image_hashes = p->image_bytes;
    p->image_bytes = plan_align(p->image_hashes + FORGE_HASHES_BYTES(p->n_tensors), machine_for(p)->image_align);
}

static int by_offset(const void *x, const void *y)
{
    const uint64_t a = ((const struct plan_tensor *)x)->offset, b = ((const struct plan_tensor *)y)->offset;
    return a < b ? -1 : a > b;
}

const struct plan_tensor *plan_tensors(struct arena *a, const struct plan *p)
{
    const struct model *m = p->model;
    struct plan_tensor *list = arena_array(a, struct plan_tensor, p->n_tensors + 1u);
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->fused->graph->n_rotations; i++) {
        const struct rotation_plan *r = &p->rotations[i];
        const char *name = i ? arena_printf(a, "rotation tables %u", i + 1) : "rotation tables";
        list[n++] = (struct plan_tensor){ name, NULL, i, r->lo, r->bytes };
    }
    for (uint32_t i = 0; i < m->n_weights; i++) {
        const struct weight *w = &m->weights[i];
        if (p->weight_offset[i] == UINT64_MAX || p->weight_held[i]) continue;
        list[n++] = (struct plan_tensor){ w->name, w, 0, p->weight_offset[i], plan_weight_bytes(p, w) };
    }
    qsort(list, n, sizeof *list, by_offset);
    return list;
}

/* ---- values ---- */

/* The last of group `last` and all groups that read n, directly or through a norm that they recompute or a view. */
static uint32_t last_reader(const struct plan *p, const struct node *n, uint32_t last)
{
    for (uint32_t i = 0; i < n->n_readers; i++) {
        const uint32_t group = fuse_group(p->fused, n->readers[i]);
        if (group == NO_GROUP) last = last_reader(p, n->readers[i], last);
        else if (group > last) last = group;
    }
    return last;
}

uint32_t plan_last_reader(const struct plan *p, const struct node *n)
{
    const uint32_t last = last_reader(p, n, fuse_group(p->fused, n));
    /* Threads may continue from the projection of heads to attention without a barrier (joins_divides in runtime/model/abi.h). A thread
     * that is already in attention must not overwrite a value that another thread still reads in the projection. */
    const bool joins = last + 1 < p->fused->n_groups && p->fused->groups[last + 1].joins;
    return joins ? last + 1 : last;
}

bool plan_needs_buffer(const struct plan *p, const struct node *n)
{
    if (n->op == OP_push && n->readers[0]->op == OP_all_gather) return false;
    if (n->op == OP_store_k || n->op == OP_store_v || n == p->fused->graph->output || n == p->fused->graph->draft ||
        fuse_group(p->fused, n) == NO_GROUP) return false;
    const struct group *g = &p->fused->groups[fuse_group(p->fused, n)];
    if (g->node == n) return true;
    for (uint32_t i = 0; i < g->n_branches; i++)
        if (g->branches[i].result == n && !g->branches[i].is_partner) return true;
    return false;
}

const char *plan_value_name(const struct node *n)
{
    const char *dot = strchr(n->name, '.');
    return dot ? dot + 1 : n->name;
}

/* ---- the whole plan ---- */

double plan_micros(const struct plan *p, uint64_t bytes)
{
    return p->target->bandwidth_gb_s > 0 ? (double)bytes / (p->target->bandwidth_gb_s * 1e3) : 0;
}

struct plan *plan_make(struct arena *a, const struct graph *g, enum fuse_level level, const struct target *target,
                       const struct plan_options *o)
{
    struct plan *p = arena_new(a, struct plan);
    const struct machine *machine = machine_of(target->kind);
    p->model = g->model;
    p->target = target;
    fill_options(p, o);
    plan_check_limits(p, g);
    const struct fused *f = p->fused = fuse(a, g, level, &machine->absorbs);
    plan_forms(a, p);
    p->f32 = arena_array(a, struct buffer, g->n_nodes);
    p->packed = arena_array(a, struct buffer, g->n_nodes);
    p->groups = arena_array(a, struct group_plan, f->n_groups);
    plan_rotations(a, p);
    plan_states(a, p);
    plan_image(a, p);
    machine->choose(a, p);
    const struct launches *decode = &p->kernels->of[STEPS_DECODE];
    for (uint32_t i = 0; i < decode->n; i++) p->read_bytes += p->kernels->kernels[decode->list[i].kernel].weight_bytes;
    return p;
}
