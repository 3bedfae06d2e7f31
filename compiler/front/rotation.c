/* rotation.c -- rotary position embedding: its frequencies, and the nodes that share them. */
#include "graph.h"
#include <math.h>

static bool is_alike(const struct rotation *r, const struct node *n)
{
    const struct node_attrs *x = &r->attr, *y = &n->attr;
    return r->factors == n->weight && r->far == n->far && x->n_rot == y->n_rot && x->base == y->base && x->factor == y->factor &&
           x->ext_factor == y->ext_factor && x->attn_factor == y->attn_factor && x->n_ctx_orig == y->n_ctx_orig &&
           x->beta_fast == y->beta_fast && x->beta_slow == y->beta_slow && x->unrounded == y->unrounded;
}

static struct rotation rotation_of(const struct node *n)
{
    struct rotation r = { n->attr, n->weight, n->far };
    r.attr.head_dim = 0;
    r.attr.neox = false;
    return r;
}

void graph_rotations(struct arena *a, struct graph *g)
{
    uint32_t n_ropes = 0;
    for (uint32_t i = 0; i < g->n_nodes; i++) n_ropes += g->nodes[i]->op == OP_rope;
    g->rotations = arena_array(a, struct rotation, n_ropes);
    g->n_rotations = 0;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        struct node *n = g->nodes[i];
        if (n->op != OP_rope) continue;
        for (n->rotation = 0; n->rotation < g->n_rotations; n->rotation++) if (is_alike(&g->rotations[n->rotation], n)) break;
        if (n->rotation == g->n_rotations) g->rotations[g->n_rotations++] = rotation_of(n);
    }
}

uint32_t graph_far_from(const struct graph *g)
{
    for (uint32_t i = 0; i < g->n_rotations; i++) if (g->rotations[i].far) return g->rotations[i].attr.n_ctx_orig;
    return 0;
}

/* The dimension whose wave turns `turns` times over the original context (YaRN, section 3.2). */
static double yarn_dimension(const struct node_attrs *r, double turns)
{
    const double pi = 3.14159265358979323846;
    return r->n_rot * log(r->n_ctx_orig / (turns * 2 * pi)) / (2 * log(r->base));
}

double model_rope_frequencies(const struct node_attrs *r, const float *factors, double *freq)
{
    const double n_rot = r->n_rot, scale = 1 / r->factor, ext = r->ext_factor;
    const double fast = yarn_dimension(r, r->beta_fast), slow = yarn_dimension(r, r->beta_slow);
    const double low = fmax(0, r->unrounded ? fast : floor(fast)), high = fmin(n_rot - 1, r->unrounded ? slow : ceil(slow));
    for (uint32_t i = 0; i < r->n_rot / 2; i++) {
        const double plain = pow(r->base, -2.0 * i / n_rot) / (factors ? (double)factors[i] : 1.0);
        double mix = 1;                                            /* share of the interpolated frequency */
        if (ext > 0) mix = 1 - ext * (1 - fmin(1, fmax(0, (i - low) / fmax(0.001, high - low))));
        freq[i] = plain * (1 - mix) + plain * scale * mix;
    }
    return r->attn_factor * (ext > 0 ? 1 + 0.1 * log(1 / scale) : 1.0);
}
