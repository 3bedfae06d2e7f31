/* program.c -- see program.h. */
#include "program.h"
#include "runtime/model/abi.h"
#include "paste.h"
#include "text.h"
#include <ctype.h>
#include <math.h>
#include <string.h>

const char *emit_symbol(struct arena *a, const struct target *p, uint32_t rank)
{
    char *name = arena_printf(a, rank ? "forge_program_%s_rank%u" : "forge_program_%s", p->name, rank);
    for (char *c = name; *c; c++) if (!isalnum((unsigned char)*c)) *c = '_';
    return name;
}

const char *emit_code_symbol(struct arena *a, const struct target *p, uint32_t rank)
{
    return arena_printf(a, "forge_code_%s", emit_symbol(a, p, rank));
}

/* A sampling default of the file, as an integer or a float there; -1, which means "not given", if the file lacks the key. */
static double sampling_number(const struct gguf *g, const char *key)
{
    const struct gguf_value *v = gguf_find(g, key);
    double value = -1;
    uint64_t whole;
    if (v && (v->type == GGUF_F32 || v->type == GGUF_F64)) gguf_get_f64(g, key, &value);
    else if (v && gguf_type_is_signed(v->type)) value = (double)v->i;
    else if (v && gguf_get_u64(g, key, &whole)) value = (double)whole;
    if (fabs(value) > INT32_MAX) die("%s: %s is %g; it must be between -%d and %d", g->path, key, value, INT32_MAX, INT32_MAX);
    return value;
}

static void emit_sampling(struct text *t, const struct gguf *g)
{
    text_printf(t, "    .sampling = { (float)%.9g, (float)%.9g, (float)%.9g, (float)%.9g, %d, %d },\n",
                sampling_number(g, "general.sampling.temp"), sampling_number(g, "general.sampling.top_p"),
                sampling_number(g, "general.sampling.min_p"), sampling_number(g, "general.sampling.penalty_repeat"),
                (int)sampling_number(g, "general.sampling.top_k"), (int)sampling_number(g, "general.sampling.penalty_last_n"));
}

static void emit_features(struct text *t, const struct target *target)
{
    struct text line = { .arena = t->arena };
    text_puts(&line, "static const char *const cpu_features[] = {");
    for (uint32_t i = 0; target->features[i]; i++) {
        text_puts(&line, " ");
        emit_string(&line, target->features[i]);
        text_puts(&line, ",");
    }
    text_puts(&line, " 0 };");
    emit_folded(t, text_str(&line), "    ");
}

void emit_cost(struct text *t, const struct kernel *k)
{
    text_printf(t, "{ %llu, %llu, %llu, %llu, %u }", (unsigned long long)k->weight_bytes, (unsigned long long)k->state_bytes,
                (unsigned long long)k->operations, (unsigned long long)k->attention, k->window);
}

static void emit_tensors(struct arena *a, struct text *t, const struct plan *p)
{
    const struct plan_tensor *list = plan_tensors(a, p);
    text_printf(t, "static const struct forge_tensor tensors[%u] = {\n", p->n_tensors);
    for (uint32_t i = 0; i < p->n_tensors; i++) {
        text_puts(t, "    { ");
        emit_string(t, list[i].name);
        text_printf(t, ", %lluu, %lluu },\n", (unsigned long long)list[i].offset, (unsigned long long)list[i].bytes);
    }
    text_puts(t, "};\n");
}

_Static_assert((int)STATE_KV == (int)FORGE_STATE_KV && (int)STATE_RING == (int)FORGE_STATE_RING
               && (int)STATE_RECURRENT == (int)FORGE_STATE_RECURRENT && (int)STATE_CONV == (int)FORGE_STATE_CONV,
               "kinds go through as numbers");

static void emit_states(struct text *t, const struct plan *p)
{
    if (!p->n_states) return;
    text_printf(t, "static const struct forge_state states[%u] = {\n", p->n_states);
    for (uint32_t i = 0; i < p->n_states; i++) {
        const struct state *s = &p->states[i];
        text_printf(t, "    { %u /* %s */, %u, %lluu, %lluu, %u, %u, %lluu, %uu },\n", s->kind, state_kind_name[s->kind], s->layer,
                    (unsigned long long)s->offset, (unsigned long long)s->bytes, s->runs, s->rows, (unsigned long long)s->row_bytes,
                    s->back);
    }
    text_puts(t, "};\n");
}

void emit_program(struct arena *a, struct text *t, const struct plan *p, const struct emit_options *o, const char *launches)
{
    const struct model *m = p->model;
    const struct target *target = p->target;
    emit_tensors(a, t, p);
    emit_states(t, p);
    emit_features(t, target);
    if (m->pooling)
        text_printf(t, "static const struct forge_embedding embedding = { /* pooling */ %u, /* whole */ %u };\n", m->pooling, !m->causal);
    if (o->has_vocab) text_puts(t, "extern const uint8_t forge_vocab[];\n");
    if (o->has_chat) text_puts(t, "extern const uint8_t forge_chat[];\n");
    text_printf(t, "extern const struct forge_program %s;\nconst struct forge_program %s = {\n", emit_symbol(a, target, o->rank),
                emit_symbol(a, target, o->rank));
    text_printf(t, "    .abi_version = FORGE_ABI_VERSION, .n_vocab = %u, .n_ctx = %u, .n_embd = %u, .n_layer = %u,\n", m->n_vocab,
                p->options.n_ctx, m->n_embd, m->n_layer);
    text_printf(t, "    .chunk = %u, .max_logits = %u, .max_threads = %u,\n", p->chunk, p->max_logits, p->options.max_threads);
    emit_folded(t, arena_printf(a, "    %s", launches), "    ");
    text_printf(t, "    .state_bytes = %lluu, .state_bytes_per_token = %lluu, .n_states = %u, .states = %s,\n",
                (unsigned long long)p->state_bytes, (unsigned long long)p->state_bytes_per_token, p->n_states,
                p->n_states ? "states" : "0");
    if (graph_far_from(p->fused->graph)) text_printf(t, "    .far_from = %u,\n", graph_far_from(p->fused->graph));
    text_printf(t, "    .arena_bytes = %lluu, .weights_bytes = %lluu, .weights_offset = %lluu,\n", (unsigned long long)p->arena_bytes,
                (unsigned long long)p->image_bytes, (unsigned long long)o->weights_offset);
    text_printf(t, "    .hashes_offset = %lluu, .n_tensors = %u, .tensors = tensors,\n", (unsigned long long)p->image_hashes, p->n_tensors);
    text_printf(t, "    .read_bytes = %lluu, .n_parameters = %lluu,\n", (unsigned long long)p->read_bytes,
                (unsigned long long)m->n_parameters);
    const struct { const char *field, *value; } strings[] = {
        { "model_name", m->name }, { "architecture", m->architecture }, { "formats", model_formats(a, m) }, { "model_hash", o->model_hash },
        { "weights_hash", o->weights_hash }, { "target", target->name }, { "options", o->options }, { "compiler", o->compiler },
    };
    for (uint32_t i = 0; i < COUNT_OF(strings); i++) {
        text_printf(t, "    .%s = ", strings[i].field);
        emit_string(t, strings[i].value);
        text_puts(t, ",\n");
    }
    text_printf(t, "    .features = cpu_features, .vocab = %s, .chat = %s,\n", o->has_vocab ? "forge_vocab" : "0",
                o->has_chat ? "forge_chat" : "0");
    emit_sampling(t, m->gguf);
    if (m->pooling) text_puts(t, "    .embedding = &embedding,\n");
    text_puts(t, "};\n");
}

/* "64", or "64 to 128" if layers differ. */
static const char *head_sizes(struct arena *a, const struct model *m)
{
    uint32_t least = m->layers[0].head_dim, most = least;
    for (uint32_t l = 1; l < m->n_layer; l++) {
        const uint32_t dim = m->layers[l].head_dim;
        least = dim < least ? dim : least;
        most = dim > most ? dim : most;
    }
    return least == most ? arena_printf(a, "%u", least) : arena_printf(a, "%u to %u", least, most);
}

void emit_banner(struct text *t, const struct plan *p, const struct emit_options *o)
{
    const struct model *m = p->model;
    text_printf(t, "/* %s for %s, by %s\n", m->name, p->target->name, o->compiler);
    text_printf(t, " * architecture %s: %u layers, n_embd %u, head_dim %s, n_vocab %u, %.1f M parameters; GGUF %s\n", m->architecture,
                m->n_layer, m->n_embd, head_sizes(t->arena, m), m->n_vocab, (double)m->n_parameters / 1e6, o->model_hash);
    if (m->pooling)
        text_printf(t, " * embeddings: %s\n", model_embeddings(t->arena, m));
    text_printf(t, " * options: %s\n", o->options);
    text_printf(t, " * weights %.3f MB, read per token %.3f MB, KV cache %llu bytes per token, arena %.3f MB\n",
                (double)p->image_bytes / 1e6, (double)p->read_bytes / 1e6, (unsigned long long)p->state_bytes_per_token,
                (double)p->arena_bytes / 1e6);
    if (o->compile_command) text_printf(t, " * compile alone: %s\n", o->compile_command);
}

struct bytes emit_table(struct arena *a, const char *const *symbols, size_t n)
{
    struct text t = { .arena = a };
    struct paster paster = { .arena = a, .out = &t };
    text_puts(&t, "/* The programs of this executable, best first. */\n");
    emit_paste(&paster, "runtime/model/abi.h");
    for (size_t i = 0; i < n; i++) text_printf(&t, "extern const struct forge_program %s;\n", symbols[i]);
    text_puts(&t, "const struct forge_program *const forge_programs[] = {");
    for (size_t i = 0; i < n; i++) text_printf(&t, " &%s,", symbols[i]);
    text_printf(&t, " };\nconst uint32_t forge_n_programs = %zu;\n", n);
    return (struct bytes){ (const uint8_t *)t.data, t.size };
}

struct bytes emit_programs(struct arena *a, const char *const *symbols, size_t n, const char *edited)
{
    struct text t = { .arena = a };
    const struct bytes table = emit_table(a, symbols, n);
    text_append(&t, (const char *)table.data, table.size);
    text_puts(&t, "const char *const forge_edited_source = ");
    emit_string(&t, edited);
    text_puts(&t, ";\n");
    return (struct bytes){ (const uint8_t *)t.data, t.size };
}
