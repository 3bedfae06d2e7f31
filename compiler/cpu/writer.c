/* writer.c -- see writer.h. */
#include "writer.h"
#include "compiler/source/text.h"

void put(struct cpu_writer *w, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    emit_line(&w->body, &w->depth, w->kernel->name, fmt, args);
    va_end(args);
}

void put_work(struct cpu_writer *w, const char *total)
{
    put(w, "for (struct work todo = work_of(a, l, %s, thread, n_threads); work_next(&todo);) {", total);
    put(w, "const struct span s = todo.span;");
}

const char *weight_at(const struct cpu_writer *w, uint64_t offset)
{
    return w->launch->bindings[kernel_bound(w->launch, offset)].symbol;
}

const char *weight_of(const struct cpu_writer *w, const struct weight *weight)
{
    return weight_at(w, w->plan->weight_offset[weight->index]);
}

const char *float_row(const struct cpu_writer *w, const struct buffer *b)
{
    return arena_printf(w->arena, "VALUE(%s, %s)", b->symbol, w->t);
}

const char *packed_row(const struct cpu_writer *w, const struct buffer *b, const char *t)
{
    const uint64_t stride = packed_row_stride(b, w->form);
    if (stride == b->stride) return arena_printf(w->arena, "ROW(BUFFER(AT_%s), STRIDE_%s, %s)", b->symbol, b->symbol, t);
    return arena_printf(w->arena, "ROW(BUFFER(AT_%s), /* stride */ %lluu, %s)", b->symbol, (unsigned long long)stride, t);
}

const char *byte_row(const struct cpu_writer *w, const struct buffer *b) { return packed_row(w, b, w->t); }

const char *rotation_row(const struct cpu_writer *w, const struct rotation_plan *r)
{
    const uint32_t i = (uint32_t)(r - w->plan->rotations) + 1;
    return arena_printf(w->arena, "FLOAT_ROW(BUFFER(ARENA_ROTATION_%u), %u, %s)", i, r->n_rot * 4, w->t);
}

const char *pack_row(const struct cpu_writer *w, enum row_form form, const char *xq, const char *x, uint32_t cols)
{
    const char *how = form == ROW_Q8 ? "quantize" : form == ROW_BF16 ? "bf16" : "bf16_parts";
    return arena_printf(w->arena, "%s_row(%s, %s, %u);", how, xq, x, cols);
}

const char *pack_block(const struct cpu_writer *w, enum row_form form, const char *row, const char *y, const char *block, uint32_t cols)
{
    if (form == ROW_Q8) return arena_printf(w->arena, "quantize_block(%s, %s, %s, %u);", row, y, block, cols);
    if (form == ROW_BF16_PARTS) return arena_printf(w->arena, "bf16_parts_block(%s, %s, %s, %u);", row, y, block, cols);
    return arena_printf(w->arena, "bf16_block(%s, %s, %s);", row, y, block);
}

const char *packed_bytes(const struct cpu_writer *w, enum row_form form, uint32_t cols)
{
    return arena_printf(w->arena, "%s_STRIDE(%uu)", form == ROW_Q8 ? "XQ" : form == ROW_BF16 ? "XB" : "XB_PARTS", cols);
}

void put_scratch(struct cpu_writer *w, const char *name, const char *offset)
{
    put(w, "float *const %s = (float *)(void *)SCRATCH(%s);", name, offset);
}

const char *vector_of(const struct cpu_writer *w, const struct node *n)
{
    return n->weight ? arena_printf(w->arena, "VECTOR(%s)", weight_of(w, n->weight)) : "0";
}

const char *norm_call(const struct cpu_writer *w, const struct node *n, const char *y, const char *x)
{
    const char *eps = emit_float(w->arena, n->attr.eps);
    if (n->op == OP_layernorm)
        return arena_printf(w->arena, "layernorm(%s, %s, %s, /* bias */ 0, %u, %s);", y, x, vector_of(w, n), n->cols, eps);
    return arena_printf(w->arena, "rmsnorm(%s, %s, %s, %u, %s);", y, x, vector_of(w, n), n->cols, eps);
}

const char *put_rows(struct cpu_writer *w, uint32_t rows, uint32_t unit, const char *r)
{
    put(w, "const uint32_t r = %s;", r);
    if (rows % unit == 0) return arena_printf(w->arena, "%u", unit);
    put(w, "const uint32_t n = %u - r < %u ? %u - r : %u;", rows, unit, rows, unit);
    return "n";
}

/* ---- operations on a segment of a row ---- */

/* A call for each head of the segment. In the text of the call, $y stands for a pointer to the head's rows and $r for the number of its
 * first row. */
static void put_heads(struct cpu_writer *w, uint32_t head_dim, uint32_t unit, const char *n, const char *call)
{
    const bool one = unit == head_dim;
    struct text t = { .arena = w->arena };
    for (const char *c = call; *c; c++) {
        if (*c == '$') text_puts(&t, *++c == 'y' ? (one ? "y" : "y + h") : (one ? "r" : "(r + h)"));
        else text_append(&t, c, 1);
    }
    if (!one) put(w, "for (uint32_t h = 0; h < %s; h += %u)", n, head_dim);
    put(w, "%s%s", one ? "" : "    ", text_str(&t));
}

static const char *headnorm_call(const struct cpu_writer *w, const struct node *n)
{
    const char *each = n->weight && n->weight->cols != n->attr.head_dim ? " + $r" : "";
    const char *eps = emit_float(w->arena, n->attr.eps);
    const bool rms = n->op == OP_headnorm;
    return arena_printf(w->arena, "%s($y, $y, %s%s, %s%u, %s);", rms ? "rmsnorm" : "layernorm", vector_of(w, n), each,
                        rms ? "" : "/* bias */ 0, ", n->attr.head_dim, eps);
}

static const char *l2norm_call(const struct cpu_writer *w, const struct node *n)
{
    return arena_printf(w->arena, "l2norm($y, %u, %s);", n->attr.head_dim, emit_float(w->arena, n->attr.eps));
}

static const char *rope_call(const struct cpu_writer *w, const struct node *n)
{
    const struct node_attrs *at = &n->attr;
    const char *sizes = arena_printf(w->arena, "/* n_rot */ %u, /* head_dim */ %u, /* neox */ %u", at->n_rot,
                                     at->head_dim - at->rot_first, at->neox);
    const char *from = at->rot_first ? arena_printf(w->arena, " + %u", at->rot_first) : "";
    return arena_printf(w->arena, "rope_apply($y%s, %s, %s);", from, rotation_row(w, &w->plan->rotations[n->rotation]), sizes);
}

/* The position of token t, or of decode's only token. */
static const char *position_of(const struct cpu_writer *w) { return w->many ? "POSITION_OF(t)" : "a->n_past"; }

/* K is stored in blocks of 16 positions, V row by row after K of all heads: the functions for V need the number of heads. */
static const char *store_call(const struct cpu_writer *w, const struct node *n)
{
    struct arena *a = w->arena;
    const struct state *state = plan_state(w->plan, n);
    const char *kv = kv_type_name[w->plan->options.kv], *position = position_of(w), *layer = w->many ? "STATE_OF(t)" : "STATE";
    const uint32_t head_dim = n->attr.head_dim, rows = state->rows;
    if (state_ring(state)) position = arena_printf(a, "%s %% %u", position, rows);
    const uint64_t behind = n->op == OP_store_v ? plan_values_at(w->plan, n) : 0;
    const bool k = n->op == OP_store_k;
    if (behind) {                                    /* a separate state of V: its heads begin where those of K would */
        const char *at = arena_printf(a, "%s + %lluu", layer, (unsigned long long)behind);
        const char *v_head = arena_printf(a, "kv_k_%s(%s, $r / %u, %u, %u)", kv, at, head_dim, head_dim, rows);
        return arena_printf(a, "kv_append_v_%s(%s, $y, %s, %u);", kv, v_head, position, head_dim);
    }
    const char *sizes = k ? arena_printf(a, "%u, %u", head_dim, rows) : arena_printf(a, "%u, %u, %u", n->heads, head_dim, rows);
    const char *head = arena_printf(a, "kv_%c_%s(%s, $r / %u, %s)", k ? 'k' : 'v', kv, layer, head_dim, sizes);
    return arena_printf(a, "kv_append_%c_%s(%s, $y, %s, %u);", k ? 'k' : 'v', kv, head, position, head_dim);
}

/* The second value of operation i of the branch's chain: the partner's rows, or the rows from r on of a finished value. */
static const char *other_rows(const struct cpu_writer *w, const struct branch *b, uint32_t i)
{
    if ((!b->matmul && i == 0) || fuse_reads_partner(w->group, b, b->chain[i])) return "up";
    return arena_printf(w->arena, "%s + r", float_row(w, &w->plan->f32[chain_operand(b, i)->index]));
}

static void put_glu(struct cpu_writer *w, const struct branch *b, uint32_t i, const char *n)
{
    const struct node *c = b->chain[i];
    const char *other = other_rows(w, b, i), *sizes = n;
    const bool up_is_fresh = (b->matmul || i) && !fuse_reads_partner(w->group, b, c) && chain_operand(b, i) == c->inputs[0];
    if (c->op == OP_glu_oai)
        sizes = arena_printf(w->arena, "%s, %s, %s", emit_float(w->arena, c->attr.alpha), emit_float(w->arena, c->attr.limit), n);
    if (up_is_fresh) put(w, "%s(y, %s, y, %s);", op_info[c->op].name, other, sizes);
    else put(w, "%s(y, y, %s, %s);", op_info[c->op].name, other, sizes);
}

static void put_mul(struct cpu_writer *w, const struct branch *b, uint32_t i, const char *n)
{
    const struct node *c = b->chain[i];
    const bool begins = !b->matmul && i == 0, one = c->inputs[1]->cols == 1 && c->cols != 1;
    if (!one) put(w, "multiply(y, y, %s, %s);", other_rows(w, b, i), n);
    else put(w, "scale(y, y, *%s, %s);", begins ? "up" : float_row(w, &w->plan->f32[c->inputs[1]->index]), n);
}

/* A factor for each column, for each run of columns, or for all columns. */
static void put_times(struct cpu_writer *w, const struct node *c, const char *y, const char *n)
{
    const uint32_t each = (uint32_t)(c->cols / c->weight->cols);
    if (each == 1) put(w, "multiply(%s, %s, %s + r, %s);", y, y, vector_of(w, c), n);
    else if (each == c->cols) put(w, "scale(%s, %s, *%s, %s);", y, y, vector_of(w, c), n);
    else put(w, "multiply_runs(%s, %s, r, /* columns each */ %u, %s);", y, vector_of(w, c), each, n);
}

const char *expert_row(const struct cpu_writer *w, const struct node *n)
{
    return arena_printf(w->arena, "%s + (uint64_t)%llu * e", vector_of(w, n), (unsigned long long)plan_weight_stride(w->plan, n->weight));
}

void put_expert_row(struct cpu_writer *w, const struct node *c, const char *y, const char *n)
{
    if (c->weight->is_vector) put(w, "scale(%s, %s, %s[e], %s);", y, y, vector_of(w, c), n);
    else put(w, "%s(%s, %s, %s + r, %s);", c->op == OP_expert_bias ? "add" : "multiply", y, y, expert_row(w, c), n);
}

void put_partner(struct cpu_writer *w, const struct branch *up, const char *n)
{
    for (uint32_t i = 0; i < up->n_chain; i++) {
        const struct node *c = up->chain[i];
        switch (c->op) {
        case OP_bias:         put(w, "add_bias(up, %s + r, %s);", vector_of(w, c), n); break;
        case OP_times:        put_times(w, c, "up", n); break;
        case OP_expert_bias:
        case OP_expert_times: put_expert_row(w, c, "up", n); break;
        default:              /* rule_gate of fuse.c accepts no others */
            die("%%%s beside a gate: forgec has no kernel for it; this is a mistake in forgec, please report it", c->name);
        }
    }
}

void put_operation(struct cpu_writer *w, const struct branch *b, uint32_t i, uint32_t unit, const char *n)
{
    const struct node *c = b->chain[i];
    const uint32_t head_dim = c->attr.head_dim;
    const char *position = position_of(w);
    if (op_is_function(c->op)) { put(w, "%s(y, %s);", op_info[c->op].name, n); return; }
    if (op_is_gate(c->op)) { put_glu(w, b, i, n); return; }
    switch (c->op) {
    case OP_bias:     put(w, "add_bias(y, %s + r, %s);", vector_of(w, c), n); break;
    case OP_headnorm:
    case OP_layernorm_heads: put_heads(w, head_dim, unit, n, headnorm_call(w, c)); break;
    case OP_l2norm:   put_heads(w, head_dim, unit, n, l2norm_call(w, c)); break;
    case OP_rope:     put_heads(w, head_dim, unit, n, rope_call(w, c)); break;
    case OP_store_k:
    case OP_store_v:  put_heads(w, head_dim, unit, n, store_call(w, c)); break;
    case OP_add:      put(w, "add(y, y, %s, %s);", other_rows(w, b, i), n); break;
    case OP_mul:      put_mul(w, b, i, n); break;
    case OP_scale:    put(w, "scale(y, y, %s, %s);", emit_float(w->arena, c->attr.by), n); break;
    case OP_softcap:  put(w, "softcap(y, y, %s, %s);", emit_float(w->arena, c->attr.cap), n); break;
    case OP_temperature:
        put(w, "scale(y, y, temperature(%s, %s, %u), %s);", position, emit_float(w->arena, c->attr.by), c->attr.n_ctx_orig, n);
        break;
    case OP_add_position:
        put(w, "add(y, y, %s + (uint64_t)%llu * %s + r, %s);", vector_of(w, c),
            (unsigned long long)plan_weight_stride(w->plan, c->weight), position, n);
        break;
    case OP_times:    put_times(w, c, "y", n); break;
    case OP_expert_bias:
    case OP_expert_times: put_expert_row(w, c, "y", n); break;
    default: die("%s after a matmul: forgec has no kernel for it; this is a mistake in forgec, please report it", op_info[c->op].name);
    }
}

void put_chain(struct cpu_writer *w, const struct branch *b, uint32_t unit, const char *n)
{
    for (uint32_t i = 0; i < b->n_chain; i++) put_operation(w, b, i, unit, n);
}

const char *logits_row(const struct cpu_writer *w, uint32_t cols)
{
    return w->many ? arena_printf(w->arena, "logits_of(a, t, %u)", cols) : "a->logits";
}

void put_sink(struct cpu_writer *w, const struct branch *b, const char *n)
{
    const struct node *result = b->result;
    const struct buffer *f = &w->plan->f32[result->index], *q = &w->plan->packed[result->index];
    if (result == w->plan->fused->graph->output) put(w, "copy(%s + r, y, %s);", logits_row(w, result->cols), n);
    if (f->exists) put(w, "copy(%s + r, y, %s);", float_row(w, f), n);
    if (!q->exists) return;
    put(w, "for (uint32_t i = 0; i < %s; i += 32)", n);
    put(w, "    %s", pack_block(w, q->form[w->form], byte_row(w, q), "y + i", "(r + i) / 32", q->cols));
}
