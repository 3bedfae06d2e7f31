/* graph.c -- wiring text to nodes; infers and checks shapes; prints and parses graphs. */
#include "graph.h"
#include "attr.h"
#include "expr.h"
#include "shape.h"
#include <ctype.h>
#include <string.h>

enum absent { VANISH, DROP, EITHER };
const struct op_info op_info[OP_COUNT] = {
#define NOTHING            { ATTR_COUNT, NULL }
#define TAKES(attr, value) { ATTR_##attr, value }
#define OP(name, values, weights, absent, reads, shape, reference, ...) \
    [OP_##name] = { #name, values, weights, absent != DROP, absent == VANISH, READS_##reads, { __VA_ARGS__ } },
#include "op.def"
#undef OP
#undef TAKES
#undef NOTHING
};

struct name { const char *text; uint32_t layer; struct node *node; };
struct skipped { const struct block *block; const char *param; };

struct builder {
    struct arena       *arena;
    const struct model *model;
    struct graph       *graph;
    uint32_t            capacity;
    struct name        *names;        /* values by their text; the last entry of a name counts */
    uint32_t            n_names, names_capacity;
    uint32_t            scope;        /* names from this index on are defined in the current layer, once each */
    uint32_t            layer;
    uint32_t            depth;        /* nesting depth of blocks */
    uint32_t            n_lines;      /* read so far */
    struct skipped     *skipped;      /* blocks that a parameter left out in some layer */
    uint32_t            n_skipped, skipped_capacity;
    uint32_t            n_conditions; /* of the blocks being read: number of conditions that hold only in some layers */
    const char         *absent;       /* keys that the file lacks and that decide the last of these conditions; or NULL */
    bool                unrolled;     /* reading graph_print's text: names and layers are explicit */
    const struct section *layer_lines;        /* while reading section draft: the section of a layer */
};

/* ---- names ---- */

static struct node *name_find(const struct builder *b, const char *text)
{
    for (uint32_t i = b->n_names; i-- > 0; )
        if (strcmp(b->names[i].text, text) == 0) return b->names[i].node;
    return NULL;
}

/* A layer may reuse a name of another layer but not its own: else the printed graph would be ambiguous. */
static void name_set(struct builder *b, struct place at, const char *text, uint32_t layer, struct node *node)
{
    for (uint32_t i = b->n_names; i-- > b->scope && (layer == NO_LAYER || b->names[i].layer == layer); )
        if (b->names[i].layer == layer && strcmp(b->names[i].text, text) == 0)
            die_at(at, "%%%s is defined twice; choose another name", text);
    arena_room(b->arena, b->names, b->n_names, b->names_capacity);
    b->names[b->n_names++] = (struct name){ text, layer, node };
}

/* ---- nodes ---- */

static struct node *node_new(struct builder *b)
{
    struct graph *g = b->graph;
    arena_room(b->arena, g->nodes, g->n_nodes, b->capacity);
    struct node *n = arena_new(b->arena, struct node);
    n->index = g->n_nodes;
    g->nodes[g->n_nodes++] = n;
    return n;
}

/* ---- one line: %name = op attribute=value ... operand, operand ... # comment ---- */

struct wiring_parser { const char *p; struct place at; const char *line; };

static void skip_blanks(struct wiring_parser *r) { while (*r->p == ' ' || *r->p == '\t') r->p++; }

static struct place here(const struct wiring_parser *r)
{
    struct place at = r->at;
    at.column += (uint32_t)(r->p - r->line);
    return at;
}

static const char *read_word(struct builder *b, struct wiring_parser *r, const char *what)
{
    const char *start = r->p;
    while (isalnum((unsigned char)*r->p) || *r->p == '_') r->p++;
    if (r->p == start || isdigit((unsigned char)*start)) {
        r->p = start;
        die_at(here(r), "expected %s", what);
    }
    return arena_strndup(b->arena, start, (size_t)(r->p - start));
}

/* A word that may become part of a C name, in the layer being built; in unrolled text "LAYER." comes before it, if it has a layer. */
static const char *read_name(struct builder *b, struct wiring_parser *r, const char *what, uint32_t *layer)
{
    *layer = b->layer;
    if (b->unrolled && isdigit((unsigned char)*r->p)) {
        const struct place at = here(r);
        uint32_t l = 0;
        for (; isdigit((unsigned char)*r->p); r->p++)
            if (l < b->model->n_described) l = 10 * l + (uint32_t)(*r->p - '0');
        if (*r->p != '.' || l >= b->model->n_described) die_at(at, "expected LAYER.name with a layer below %u", b->model->n_described);
        r->p++;
        *layer = l;
    }
    return read_word(b, r, what);
}

/* The text by which lines refer to a value. */
static const char *read_value(struct builder *b, struct wiring_parser *r, uint32_t *layer)
{
    const char *name = read_name(b, r, "a value's name", layer);
    return b->unrolled && *layer != NO_LAYER ? arena_printf(b->arena, "%u.%s", *layer, name) : name;
}

static bool take(struct wiring_parser *r, char c)
{
    skip_blanks(r);
    if (*r->p != c) return false;
    r->p++;
    skip_blanks(r);
    return true;
}

static enum op read_op(struct builder *b, struct wiring_parser *r)
{
    struct place at = here(r);
    const char *word = read_word(b, r, "an operation");
    for (uint32_t i = 0; i < OP_push; i++)                   /* the operations from OP_push on are not allowed in wirings */
        if (strcmp(op_info[i].name, word) == 0) return (enum op)i;
    die_at(at, "unknown operation %s", word);
}

static bool at_attribute(const struct wiring_parser *r)
{
    const char *p = r->p;
    while (isalnum((unsigned char)*p) || *p == '_') p++;
    return p > r->p && *p == '=';
}

/* Returns the attributes that the line sets, one bit each (attr.h). */
static uint32_t read_attributes(struct builder *b, struct wiring_parser *r, struct node *n)
{
    uint32_t given = 0;
    for (skip_blanks(r); at_attribute(r); skip_blanks(r)) {
        const struct place at = here(r);
        const char *name = read_word(b, r, "an attribute");
        r->p++;
        const struct place value_at = here(r);
        const size_t length = strcspn(r->p, " \t,#");
        if (!length) die_at(value_at, "expected the value of %s: a number, true, false or a parameter", name);
        const char *value = arena_strndup(b->arena, r->p, length);
        r->p += length;
        attr_read(b->arena, b->model, n, &given, at, name, value_at, value);
    }
    return given;
}

static const struct weight *ask(const struct builder *b, struct place at, const char *role, uint32_t layer, bool may_be_absent)
{
    const bool everywhere = !b->n_conditions && !b->layer_lines && !b->unrolled;
    const char *absent = b->absent;
    if (!absent && layer != NO_LAYER && layer + 1 == b->model->n_layer) absent = model_untold_draft(b->arena, b->model);
    const char *in = absent ? arena_printf(b->arena, " in this layer (with the default of %s)", absent)
                   : everywhere ? EVERYWHERE : " in this layer";
    const struct ask q = { at, role, layer, may_be_absent, in };
    return model_ask(b->arena, b->model, &q);
}

/* "attn_q" in the layer being built, or in unrolled text "3.attn_q". */
static const struct weight *read_weight(struct builder *b, struct wiring_parser *r)
{
    const struct place at = here(r);
    uint32_t layer;
    const char *role = read_name(b, r, "a tensor role", &layer);
    return ask(b, at, role, layer, take(r, '?'));
}

/* True if a line of the block defines the value. */
static bool defines(const struct block *block, const char *name)
{
    const size_t n = strlen(name);
    for (const char *p = block->text; p; p = strchr(p, '\n')) {
        p += strspn(p, " \t\n");
        if (*p == '%' && strncmp(p + 1, name, n) == 0 && (p[n + 1] == ' ' || p[n + 1] == '=')) return true;
    }
    return false;
}

/* Dies on an undefined value. Keys of the file may have left out all lines that would define it. */
_Noreturn static void undefined(const struct builder *b, struct place at, const char *name)
{
    for (uint32_t i = 0; i < b->n_skipped; i++)
        if (defines(b->skipped[i].block, name))
            die_of_keys(b->arena, b->model, at, b->skipped[i].param,
                        "layer %u reads %s of an earlier layer, and no layer before it has one", b->layer, name);
    die_at(at, "%%%s is not defined before", name);
}

/* Sets inputs and weight of n; returns true if the weight is absent from this model. */
static bool read_operands(struct builder *b, struct wiring_parser *r, struct place at, struct node *n)
{
    const struct op_info *info = &op_info[n->op];
    uint32_t n_values = 0, n_weights = 0;
    skip_blanks(r);
    if (*r->p && *r->p != '#') do {
        const struct place operand = here(r);
        if (take(r, '%')) {
            uint32_t layer;
            const char *text = read_value(b, r, &layer);
            struct node *value = name_find(b, text);
            if (!value) undefined(b, operand, text);
            if (n_values == COUNT_OF(n->inputs)) die_at(operand, "too many values");
            n->inputs[n_values++] = value;
        } else {
            *(n_weights++ > 0 ? &n->far : &n->weight) = read_weight(b, r);
        }
    } while (take(r, ','));
    skip_blanks(r);
    if (*r->p && *r->p != '#') die_at(here(r), "expected the end of the line");
    if (n_values != info->n_values || n_weights > info->n_weights || (n_weights < info->n_weights && info->needs_weight))
        die_at(at, "%s takes %u values and %u weights", info->name, info->n_values, info->n_weights);
    if (n_weights > 1 && !n->weight != !n->far)
        die("%s: tensor %s is there without its counterpart: texts within the original context and longer ones rotate with factors of their"
            " own; convert the model again with a current converter", b->model->gguf->path, n->weight ? n->weight->name : n->far->name);
    return n_weights && !n->weight;
}

/* With some models' attributes an operation changes nothing: thus one line serves layers that differ. */
static bool changes_nothing(const struct node *n)
{
    switch (n->op) {
    case OP_rope:        return n->attr.n_rot == 0;
    case OP_scale:       return n->attr.by == 1;
    case OP_temperature: return n->attr.by == 0;
    case OP_softcap:     return n->attr.cap == 0;
    default:             return false;
    }
}

/* Adds the node of that name in the layer being built. */
static struct node *add_node(struct builder *b, struct place at, const struct node *made, const char *name)
{
    struct node *n = node_new(b);
    const uint32_t index = n->index;
    *n = *made;
    n->index = index;
    n->name = !b->unrolled && made->layer != NO_LAYER ? arena_printf(b->arena, "%u.%s", made->layer, name) : name;
    shape_infer(b->graph, at, n);
    return n;
}

/* If a tensor has a scale beside it (NVFP4), its result is multiplied with the scale at once: in every wiring, and before biases. */
static struct node *add_scale(struct builder *b, struct place at, struct node *n, const char *name)
{
    struct node scale = { .op = OP_times, .inputs = { n }, .weight = n->weight->scale, .layer = n->layer };
    switch (n->op) {
    case OP_embed: case OP_matmul: case OP_matmul_heads: break;
    case OP_expert_matmul:
        scale.op = OP_expert_times;
        scale.inputs[1] = n->inputs[1];
        break;
    default: die_at(at, "%s: tensor %s scales the products of %s, but the operation %s makes no product with it", b->model->gguf->path,
                    n->weight->scale->name, n->weight->name, op_info[n->op].name);
    }
    return add_node(b, at, &scale, name);
}

static void read_line(struct builder *b, struct wiring_parser *r)
{
    const struct place at = here(r);
    uint32_t layer;
    if (!take(r, '%')) die_at(at, "expected %%value = operation ...");
    const char *name = read_value(b, r, &layer);
    if (!take(r, '=')) die_at(here(r), "expected =");
    struct node made = { .op = read_op(b, r), .layer = layer, .name = name };
    const uint32_t given = read_attributes(b, r, &made);
    const bool absent = read_operands(b, r, at, &made);
    const struct op_info *info = &op_info[made.op];
    if (absent && info->vanishes) {
        if (!info->n_values) die_at(at, "the tensor of %s is absent, and %s has no operand to use instead", info->name, info->name);
        name_set(b, at, name, layer, made.inputs[0]);
        return;
    }
    attr_default(b->arena, b->model, &made, given, at);
    if (changes_nothing(&made)) {
        name_set(b, at, name, layer, made.inputs[0]);
        return;
    }
    const bool scaled = !b->unrolled && made.weight && made.weight->scale;
    const char *own = scaled ? arena_printf(b->arena, "%s_unscaled", name) : name;
    struct node *n = add_node(b, at, &made, own);
    name_set(b, at, own, layer, n);
    if (scaled) name_set(b, at, name, layer, add_scale(b, at, n, name));
}

/* ---- blocks: "use experts if ffn_gate_inp" inserts the lines of a block ---- */

enum { DEEPEST_BLOCK = 8, MOST_LINES = 1 << 20 };
struct section { const char *text, *end; struct place at; };       /* whole lines; text NULL: absent */

static void read_lines(struct builder *b, const char *text, const char *end, struct place at);

/* A condition. A parameter holds if it is not 0, a tensor role if the file has it. *param: its name, or NULL; *some: there is a
 * condition. */
static bool read_condition(struct builder *b, struct wiring_parser *r, bool *some, const char **param)
{
    *some = isalpha((unsigned char)*r->p);
    *param = NULL;
    if (!*some) return true;
    const struct place at = here(r);
    const char *when = read_word(b, r, "if or unless");
    const bool negated = strcmp(when, "unless") == 0;
    if (!negated && strcmp(when, "if")) die_at(at, "expected if, unless or the end of the line");
    skip_blanks(r);
    const struct place name_at = here(r);
    const char *name = read_word(b, r, "a parameter or a tensor role");
    const struct param *p = model_param(b->model, name);
    skip_blanks(r);
    if (!p) return (ask(b, name_at, name, b->layer, true) != NULL) != negated;
    if (p->absent) b->absent = p->absent;
    b->model->params[p - b->model->params].used = true;
    *param = p->name;
    return (param_value(b->model, p, name_at, b->layer) != 0) != negated;
}

static void note_skipped(struct builder *b, const struct block *block, const char *param)
{
    for (uint32_t i = 0; i < b->n_skipped; i++) if (b->skipped[i].block == block) return;
    arena_room(b->arena, b->skipped, b->n_skipped, b->skipped_capacity);
    b->skipped[b->n_skipped++] = (struct skipped){ block, param };
}

static bool read_use(struct builder *b, struct wiring_parser *r)
{
    if (b->unrolled || strncmp(r->p, "use", 3) || !strchr(" \t", r->p[3])) return false;
    r->p += 3;
    skip_blanks(r);
    const struct place at = here(r);
    const char *name = read_word(b, r, "a block");
    const struct block *block = model_block(b->model, name);
    const bool layer = b->layer_lines && strcmp(name, "layer") == 0;
    if (!block && !layer) die_at(at, "there is no block %s", name);
    skip_blanks(r);
    const char *absent = b->absent;
    const char *param;
    bool conditional;
    const bool wanted = read_condition(b, r, &conditional, &param);
    if (*r->p && *r->p != '#') die_at(here(r), "expected the end of the line");
    if (!wanted && param && block) note_skipped(b, block, param);
    if (!wanted) { b->absent = absent; return true; }
    if (b->depth == DEEPEST_BLOCK) die_at(at, "blocks use each other more than %d deep", DEEPEST_BLOCK);
    b->depth++;
    b->n_conditions += conditional;
    if (layer) b->scope = b->n_names;                      /* its names may be defined again after it */
    if (layer) read_lines(b, b->layer_lines->text, b->layer_lines->end, b->layer_lines->at);
    else read_lines(b, block->text, block->text + strlen(block->text), block->at);
    b->n_conditions -= conditional;
    b->absent = absent;
    b->depth--;
    return true;
}

/* Returns the line at p; *next: where the next line begins. */
static const char *line_at(struct arena *a, const char *p, const char *end, const char **next)
{
    const char *newline = memchr(p, '\n', (size_t)(end - p));
    *next = newline ? newline + 1 : end;
    return arena_strndup(a, p, (size_t)((newline ? newline : end) - p));
}

static void read_lines(struct builder *b, const char *text, const char *end, struct place at)
{
    for (const char *p = text, *next; p < end; p = next, at.line++) {
        const char *line = line_at(b->arena, p, end, &next);
        struct wiring_parser r = { .p = line, .at = at, .line = line };
        skip_blanks(&r);
        if (++b->n_lines > MOST_LINES) die_at(here(&r), "with all its blocks and layers the wiring has more than %d lines", MOST_LINES);
        if (*r.p && *r.p != '#' && !read_use(b, &r)) read_line(b, &r);
    }
}

/* ---- sections ---- */

enum { INPUT, LAYER, OUTPUT, DRAFT, N_SECTIONS };
static const char *const section_name[N_SECTIONS] = { "input", "layer", "output", "draft" };

/* Splits the wiring at its lines "input:", "layer:", "output:" and "draft:"; sections may be absent. */
static void split_sections(struct builder *b, const char *text, struct place at, struct section sections[N_SECTIONS])
{
    struct section *open = NULL;
    const char *end = text + strlen(text);
    for (const char *p = text, *next; p < end; p = next, at.line++) {
        const char *line = line_at(b->arena, p, end, &next);
        struct wiring_parser r = { .p = line, .at = at, .line = line };
        skip_blanks(&r);
        const struct place start = here(&r);
        const bool is_use = strncmp(r.p, "use", 3) == 0 && strchr(" \t", r.p[3]);
        if (*r.p && *r.p != '#' && ((*r.p != '%' && !is_use) || !open)) {
            const char *word = isalpha((unsigned char)*r.p) ? read_word(b, &r, "a section") : "";
            open = NULL;
            for (uint32_t i = 0; i < N_SECTIONS; i++) if (strcmp(word, section_name[i]) == 0) open = &sections[i];
            if (!open || !take(&r, ':') || (*r.p && *r.p != '#'))
                die_at(start, "expected input:, layer:, output:, draft:, use BLOCK or %%value = operation ...");
            if (open->text) die_at(start, "a second section %s:", word);
            *open = (struct section){ next, next, at };
            open->at.line++;
        }
        else if (open) open->end = next;
    }
    for (uint32_t i = 0; i < DRAFT; i++) if (!sections[i].text) die_at(at, "the graph has no section %s:", section_name[i]);
}

/* ---- the draft block ---- */

/* Marks n and the nodes of the block that it needs. Called for states and attention: the block runs their nodes for every row of the
 * trunk. */
static void need(const struct graph *g, const struct node *n, bool *needed)
{
    if (!graph_drafts(g, n) || needed[n->index]) return;
    needed[n->index] = true;
    for (uint32_t k = 0; k < op_info[n->op].n_values; k++) need(g, n->inputs[k], needed);
}

/* Moves the nodes that the block's state needs to where the trunk's rows are ready for them, before nodes that only matter for tokens with
 * logits. */
static void move_needed(struct builder *b)
{
    struct graph *g = b->graph;
    bool *needed = arena_array(b->arena, bool, g->n_nodes);
    struct node **nodes = arena_array(b->arena, struct node *, g->n_nodes);
    uint32_t last = 0, n = 0;
    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (op_keeps(g->nodes[i]->op) || g->nodes[i]->op == OP_attention) need(g, g->nodes[i], needed);
    for (uint32_t i = 0; i < g->n_nodes; i++)
        for (uint32_t k = 0; needed[i] && k < op_info[g->nodes[i]->op].n_values; k++) {
            const struct node *from = g->nodes[i]->inputs[k];
            if (!graph_drafts(g, from) && from->index > last) last = from->index;
        }
    for (uint32_t i = 0; i <= last; i++) nodes[n++] = g->nodes[i];
    for (uint32_t i = last + 1; i < g->n_nodes; i++) if (needed[i]) nodes[n++] = g->nodes[i];
    for (uint32_t i = last + 1; i < g->n_nodes; i++) if (!needed[i]) nodes[n++] = g->nodes[i];
    for (uint32_t i = 0; i < n; i++) nodes[i]->index = i;
    g->nodes = nodes;
    b->capacity = g->n_nodes;
}

static const char *bare_name(const struct node *n)
{
    const char *dot = strchr(n->name, '.');
    return dot ? dot + 1 : n->name;
}

/* The value of the block with the name of the trunk's rows, which its `previous` node reads, replaces them for the next draft. */
static void find_draft(struct graph *g, struct place at)
{
    g->draft = g->nodes[g->n_nodes - 1];
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        if (!graph_drafts(g, g->nodes[i])) continue;
        if (g->nodes[i]->op == OP_conv || g->nodes[i]->op == OP_recur)
            die_at(at, "%%%s: the section draft cannot use %s, since what a draft adds to its state cannot be taken back; use attention",
                   g->nodes[i]->name, op_info[g->nodes[i]->op].name);
        if (g->nodes[i]->op != OP_previous) continue;
        if (g->draft_from) die_at(at, "the section draft has a second operation previous, %%%s", g->nodes[i]->name);
        g->draft_from = g->nodes[i];
    }
    if (!g->draft_from) die_at(at, "the section draft has no operation previous, which gives it the trunk's rows");
    const char *name = bare_name(g->draft_from->inputs[0]);
    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (graph_drafts(g, g->nodes[i]) && strcmp(bare_name(g->nodes[i]), name) == 0) g->draft_state = g->nodes[i];
    if (!g->draft_state || g->draft_state->cols != g->draft_from->cols)
        die_at(at, "the section draft does not define %%%s with as many columns as the trunk's, whose rows it replaces for the next draft",
               name);
    if (!graph_drafts(g, g->draft) || g->draft->cols != g->model->n_out)
        die_at(at, "the last value, %%%s, must be logits that the section draft computes", g->draft->name);
}

bool graph_in_blocks(const struct graph *g)
{
    uint64_t in_blocks = 0, others = 0;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct node *n = g->nodes[i];
        const struct weight *w = n->weight;
        if ((n->op != OP_matmul && n->op != OP_matmul_heads && n->op != OP_expert_matmul) || w->layer == NO_LAYER) continue;
        *(w->tensor->quant->block_weights > 1 ? &in_blocks : &others) += w->rows * w->cols;
    }
    return in_blocks > others;
}

const struct graph *graph_of_drafts(struct arena *a, const struct graph *g)
{
    struct graph *of = arena_new(a, struct graph);
    *of = *g;
    of->output = g->draft;
    return of;
}

/* ---- the whole graph ---- */

static void find_outputs(struct builder *b, struct place at)
{
    struct graph *g = b->graph;
    g->output = g->nodes[g->n_nodes - 1];
    if (b->model->n_described == b->model->n_layer) return;
    find_draft(g, at);
    for (uint32_t i = 0; i < g->n_nodes; i++) if (!graph_drafts(g, g->nodes[i])) g->output = g->nodes[i];
}

void graph_readers(struct arena *a, struct graph *g)
{
    for (uint32_t i = 0; i < g->n_nodes; i++)
        for (uint32_t k = 0; k < op_info[g->nodes[i]->op].n_values; k++) g->nodes[i]->inputs[k]->n_readers++;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        g->nodes[i]->readers = arena_array(a, struct node *, g->nodes[i]->n_readers + 1u);
        g->nodes[i]->n_readers = 0;
    }
    for (uint32_t i = 0; i < g->n_nodes; i++)
        for (uint32_t k = 0; k < op_info[g->nodes[i]->op].n_values; k++) {
            struct node *in = g->nodes[i]->inputs[k];
            in->readers[in->n_readers++] = g->nodes[i];
        }
}

static struct graph *finish(struct builder *b, struct place at)
{
    struct graph *g = b->graph;
    if (!g->n_nodes) die_at(at, "the graph is empty");
    find_outputs(b, at);
    switch (g->output->op) {
    case OP_rmsnorm: case OP_layernorm:
        if (b->model->pooling) break;
        /* fallthrough */
    case OP_embed: case OP_store_k: case OP_store_v: case OP_attention: case OP_route:
        die_at(at, "the last value, %%%s, comes from %s; logits come from a matmul and what follows it, rows of embeddings from norms, too",
               g->output->name, op_info[g->output->op].name);
    default: break;
    }
    if (g->output->cols != b->model->n_out)
        die_at(at, "the last value, %%%s, has %u columns; %s have %u", g->output->name, g->output->cols,
               b->model->pooling ? "rows of embeddings" : "logits", b->model->n_out);
    graph_readers(b->arena, g);
    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (!g->nodes[i]->n_readers && g->nodes[i] != g->output && g->nodes[i] != g->draft && g->nodes[i] != g->draft_state)
            die_at(at, "%%%s is never read", g->nodes[i]->name);
    graph_rotations(b->arena, g);
    return g;
}

/* True if a line of the text begins with "use" and the name. */
static bool uses(const char *text, const char *name)
{
    const size_t n = strlen(name);
    for (const char *p = text; p; p = strchr(p, '\n')) {
        p += strspn(p, " \t\n");
        if (strncmp(p, "use", 3)) continue;
        p += 3 + strspn(p + 3, " \t");
        if (strncmp(p, name, n) == 0 && !isalnum((unsigned char)p[n]) && p[n] != '_') return true;
    }
    return false;
}

/* True if name is a word of the text, or of a block that the text may use, even if this model does not use it. In an architecture with
 * optional experts, a file may have their keys without having experts. */
static bool is_mentioned(const struct model *m, const char *text, const char *name, bool *seen)
{
    bool found = expr_names(text, name);
    for (uint32_t i = 0; i < m->n_blocks && !found; i++) {
        if (seen[i] || !uses(text, m->blocks[i].name)) continue;
        seen[i] = true;
        found = is_mentioned(m, m->blocks[i].text, name, seen);
    }
    return found;
}

/* If p is used, marks it and the parameters that it names as used. Use in blocks that only other models use counts too. */
static void spread_use(struct arena *a, const struct model *m, struct param *p)
{
    if (p->is_own && !p->used && (model_shapes(m, p->name) || !is_mentioned(m, m->graph_text, p->name, arena_array(a, bool, m->n_blocks))))
        return;
    p->used = true;
    for (uint32_t i = 0; i < m->n_params; i++) {
        struct param *other = &m->params[i];
        const bool was = other->used;
        if (!p->names[i]) continue;
        other->used = true;
        if (!was) spread_use(a, m, other);
    }
}

/* True if one of the architecture's own parameters names it. */
static bool is_named(const struct model *m, const struct param *p)
{
    for (uint32_t i = 0; i < m->n_params; i++) if (m->params[i].names[p - m->params]) return true;
    return false;
}

/* Reports keys that look read but are not, with a value that requires something: the file lacks the tensors for it, or the wiring lacks a
 * line. */
static void check_parameters(struct arena *a, const struct model *m)
{
    for (uint32_t i = 0; i < m->n_params; i++) spread_use(a, m, &m->params[i]);
    for (uint32_t i = 0; i < m->n_params; i++) {
        const struct param *p = &m->params[i];
        if (!p->is_own || p->used || !p->asks) continue;
        if (!model_shapes(m, p->name) && !is_named(m, p))
            die_at(m->graph_at, "%s has the key %s, parameter %s, which neither the graph nor a shape uses", m->gguf->path, p->key,
                   p->name);
        double value = 0;
        for (uint32_t l = 0; l < m->n_layer && value == 0; l++) value = p->values[l];
        die("%s: %s is %.10g, but the file lacks the tensors for it; convert the model again with a current converter",
            m->gguf->path, p->key, value);
    }
}

/* Reports tensors that look bound but are not read, and tensors that no role names. */
static void check_tensors(struct arena *a, const struct graph *g)
{
    bool *read = arena_array(a, bool, g->model->gguf->n_tensors);
    for (uint32_t i = 0; i < g->n_nodes; i++)
    {
        const struct node *n = g->nodes[i];
        if (n->weight) read[gguf_tensor_index(g->model->gguf, n->weight->tensor)] = true;
        if (n->far) read[gguf_tensor_index(g->model->gguf, n->far->tensor)] = true;
    }
    model_check_read(a, g->model, read);
}

static void read_draft(struct builder *b, const struct section sections[N_SECTIONS])
{
    const struct model *m = b->model;
    if (!sections[DRAFT].text)
        die("%s: models/%s.yaml does not say how its draft (nextn) block is wired, so --spec mtp is not available; --spec ngram needs "
            "no draft block", m->gguf->path, m->architecture);
    b->layer = m->n_layer;
    b->layer_lines = &sections[LAYER];
    read_lines(b, sections[DRAFT].text, sections[DRAFT].end, sections[DRAFT].at);
    move_needed(b);
}

struct graph *graph_build(struct arena *a, const struct model *m)
{
    struct builder b = { .arena = a, .model = m, .graph = arena_new(a, struct graph), .layer = NO_LAYER };
    struct section sections[N_SECTIONS] = { { 0 } };
    b.graph->model = m;
    split_sections(&b, m->graph_text, m->graph_at, sections);
    read_lines(&b, sections[INPUT].text, sections[INPUT].end, sections[INPUT].at);
    for (b.layer = 0; b.layer < m->n_layer; b.layer++) read_lines(&b, sections[LAYER].text, sections[LAYER].end, sections[LAYER].at);
    b.layer = NO_LAYER;
    read_lines(&b, sections[OUTPUT].text, sections[OUTPUT].end, sections[OUTPUT].at);
    if (m->n_described > m->n_layer) read_draft(&b, sections);
    model_check_layers(a, m);
    check_parameters(a, m);
    check_tensors(a, b.graph);
    return finish(&b, m->graph_at);
}

struct graph *graph_parse(struct arena *a, const struct model *m, const char *name, const char *text)
{
    struct builder b = { .arena = a, .model = m, .graph = arena_new(a, struct graph), .layer = NO_LAYER, .unrolled = true };
    b.graph->model = m;
    const struct place at = { name, 1, 1 };
    read_lines(&b, text, text + strlen(text), at);
    return finish(&b, at);
}

void graph_print(struct text *out, const struct graph *g)
{
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct node *n = g->nodes[i];
        struct text line = { .arena = out->arena };
        text_printf(&line, "%%%s = %s", n->name, op_info[n->op].name);
        attr_print(&line, n);
        const char *comma = " ";
        const struct weight *const weights[] = { n->weight, n->far };
        for (uint32_t k = 0; k < COUNT_OF(weights) && weights[k]; k++) {
            if (weights[k]->layer == NO_LAYER) text_printf(&line, "%s%s", comma, weights[k]->role);
            else text_printf(&line, "%s%u.%s", comma, weights[k]->layer, weights[k]->role);
            comma = ", ";
        }
        for (uint32_t k = 0; k < op_info[n->op].n_values; k++) { text_printf(&line, "%s%%%s", comma, n->inputs[k]->name); comma = ", "; }
        text_printf(out, "%-64s # f32 [n_tokens, %u]", text_str(&line), n->cols);
        if (n->weight) text_printf(out, "  %s %s", n->weight->name, n->weight->tensor->quant->name);
        text_puts(out, "\n");
    }
}
