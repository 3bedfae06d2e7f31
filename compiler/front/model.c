/* model.c -- models/ARCH.yaml + GGUF metadata -> struct model. */
#include "model.h"
#include "absent.h"
#include "keys.h"
#include "params.h"
#include "role.h"
#include "transposed.h"
#include "unread.h"
#include "runtime/model/pool.h"
#include "templates/ref/dequant.h"
#include <string.h>

/* ---- the wiring ---- */

const struct block *model_block(const struct model *m, const char *name)
{
    for (uint32_t i = 0; i < m->n_blocks; i++) if (strcmp(m->blocks[i].name, name) == 0) return &m->blocks[i];
    return NULL;
}

static void read_blocks(const struct described *d, struct model *m)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < d->n_files; i++) {
        const struct yaml *all = yaml_get(d->files[i], "blocks");
        if (all && all->kind != YAML_MAP) die_at(all->at, "blocks is a map of names and lines");
        if (all) most += all->count;
    }
    m->blocks = arena_array(d->arena, struct block, most);
    for (uint32_t i = 0; i < d->n_files; i++) {
        const struct yaml *all = yaml_get(d->files[i], "blocks");
        for (uint32_t k = 0; all && k < all->count; k++) {
            if (model_block(m, all->keys[k])) continue;                    /* a derived file has its own block */
            const struct yaml *y = all->items[k];
            m->blocks[m->n_blocks++] = (struct block){ all->keys[k], yaml_string(y), described_text_place(d, i, y) };
        }
    }
}

static void read_graph(const struct described *d, struct model *m)
{
    for (uint32_t i = 0; i < d->n_files && !m->graph_text; i++) {
        const struct yaml *graph = yaml_get(d->files[i], "graph");
        if (!graph) continue;
        m->graph_text = yaml_string(graph);
        m->graph_at = described_text_place(d, i, graph);
    }
    if (!m->graph_text) die_at(d->files[0]->at, "graph is missing");
}

/* ---- the context ---- */

uint32_t model_context(uint32_t n_ctx_train, uint32_t n_ctx)
{
    const uint32_t most = 8192;
    return n_ctx ? n_ctx : n_ctx_train < most ? n_ctx_train : most;
}

/* Warns about a context beyond the trained one. A scaled rotation stretches the original context; context_length may or may not include
 * that. If layers rotate differently, the layer with the longest reach counts. */
static void check_context(const struct described *d, const struct model *m, uint32_t n_ctx)
{
    const double *factor = model_param(m, "rope_factor")->values, *n_ctx_orig = model_param(m, "rope_n_ctx_orig")->values;
    uint32_t best = 0;
    for (uint32_t l = 1; l < m->n_layer; l++) if (factor[l] * n_ctx_orig[l] > factor[best] * n_ctx_orig[best]) best = l;
    const double stretched = factor[best] > 1 ? factor[best] * n_ctx_orig[best] : 0;
    const double trained = stretched > m->n_ctx_train ? stretched : m->n_ctx_train;
    if (n_ctx <= trained) return;
    struct text how = { .arena = d->arena };
    if (trained > m->n_ctx_train)
        text_printf(&how, " (%.0f, stretched %g times by its %s scaling)", n_ctx_orig[best], factor[best],
                    m->rope_scaling == ROPE_YARN ? "YaRN" : "linear");
    warn("%s: a context of %u tokens is longer than the %.0f%s that the model was trained for; beyond them its answers get worse;"
         " --ctx %.0f avoids this", d->gguf->path, n_ctx, trained, text_str(&how), trained);
}

/* ---- the model ---- */

struct model *model_describe(struct arena *a, const struct gguf *g, const struct model_options *options)
{
    static const struct model_options defaults = { 0 };
    const struct model_options *o = options ? options : &defaults;
    struct described d = { .arena = a, .gguf = g, .directory = o->directory };
    described_read(&d);
    struct model *m = arena_new(a, struct model);
    m->gguf = g;
    m->architecture = d.architecture;
    struct gguf_string name;
    m->name = gguf_get_string(g, "general.name", &name) ? printable(a, name.data, name.size) : "unnamed";
    params_read(&d, m, o->n_ctx, o->drafts);
    absent_keys(&d, m);
    const uint32_t n_ctx = model_context(m->n_ctx_train, o->n_ctx);
    keys_check(&d, m, o, n_ctx);
    roles_read(&d, m);
    roles_bind(&d, m);
    absent_check_pairs(&d, m);
    read_blocks(&d, m);
    read_graph(&d, m);
    unread_find(&d, m, o);
    check_context(&d, m, n_ctx);
    return m;
}

/* ---- weights ---- */

const struct weight *model_weight(const struct model *m, struct place at, const char *role, uint32_t layer)
{
    const struct role *r = role_find(m, role);
    if (!r) die_at(at, "there is no tensor role %s", role);
    if (r->in_layer && layer == NO_LAYER) die_at(at, "%s is a tensor of a layer", role);
    const struct weight *w = r->weights[r->in_layer ? layer : 0];
    return w || !r->alternative ? w : model_weight(m, at, r->alternative, layer);
}

const uint8_t *weight_bytes(const struct weight *w, uint64_t r)
{
    const struct format *q = w->tensor->quant;
    const uint8_t *data = transposed_data(w->tensor);
    if (w->is_vector) return data + w->row0 * q->block_bytes;
    return data + weight_row(w, r) * format_row_bytes(q, w->tensor->ne[0]) + w->col0 / q->block_weights * q->block_bytes;
}

void weight_to_float(float *out, const struct weight *w, uint64_t first_row, uint64_t n_rows)
{
    const uint32_t id = w->tensor->quant->id;
    if (w->is_vector) {
        dequantize_row_ref(id, out, weight_bytes(w, 0), w->cols);
        return;
    }
    for (uint64_t r = first_row, n; n_rows > 0; r += n, n_rows -= n, out += n * w->cols) {
        n = w->run - r % w->run < n_rows ? w->run - r % w->run : n_rows;
        if (!weight_is_wide(w)) n = 1;
        dequantize_row_ref(id, out, weight_bytes(w, r), n * w->cols);
    }
}

/* ---- texts ---- */

const char *model_embeddings(struct arena *a, const struct model *m)
{
    static const char *const rows[] = { [FORGE_POOL_MEAN] = "the mean of its tokens' rows", [FORGE_POOL_CLS] = "the row of its first token",
                                        [FORGE_POOL_LAST] = "the row of its last token" };
    return arena_printf(a, "the vector of a text is %s; a token sees %s", rows[m->pooling],
                        m->causal ? "those before it" : "all of the text, which is one chunk");
}

const char *model_formats(struct arena *a, const struct model *m)
{
    uint32_t count[QUANT_IDS] = { 0 };
    for (uint32_t i = 0; i < m->n_weights; i++) count[m->weights[i].tensor->quant->id]++;
    struct text t = { .arena = a };
    for (;;) {
        uint32_t best = 0;
        for (uint32_t i = 1; i < QUANT_IDS; i++) if (count[i] > count[best]) best = i;
        if (!count[best]) return text_str(&t);
        text_printf(&t, "%s%s %u", t.size ? ", " : "", quant_find(best)->name, count[best]);
        count[best] = 0;
    }
}
