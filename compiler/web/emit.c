/* emit.c -- see emit.h. */
#include "emit.h"
#include "compiler/source/about.h"
#include "compiler/source/paste.h"
#include "choose.h"
#include "kernels.h"
#include <cjson/cJSON.h>

static void put_module(struct text *t, const char *name, const char *module) { text_printf(t, "// ==== %s\n%s", name, module); }

struct bytes emit_web(struct arena *a, const struct plan *p, const struct emit_options *o)
{
    const struct kernel_list *list = p->kernels;
    struct text t = { .arena = a };
    emit_banner(&t, p, o);
    text_puts(&t, " */\n");
    about_model(a, &t, p);
    for (uint32_t i = 0; i < list->n_kernels; i++)
        put_module(&t, list->kernels[i].name, web_kernel(a, p, i, false, o->templates));
    if (list->sample.kernel != NO_KERNEL) put_module(&t, "sample_draw", web_kernel(a, p, list->sample.kernel, true, o->templates));
    return (struct bytes){ (const uint8_t *)t.data, t.size };
}

struct bytes emit_web_program(struct arena *a, const struct plan *p, const struct emit_options *o)
{
    struct text t = { .arena = a };
    struct paster paster = { .arena = a, .out = &t };
    emit_paste(&paster, "runtime/model/abi.h");
    emit_program(a, &t, p, o, "");
    return (struct bytes){ (const uint8_t *)t.data, t.size };
}

/* ---- launches ---- */

static void add_number(cJSON *list, uint64_t n) { cJSON_AddItemToArray(list, cJSON_CreateNumber((double)n)); }

/* All vectors that launches read. at: byte offset of a vector in the buffer `vectors`; bytes: size of that buffer. */
struct vectors { struct vector { struct binding binding; uint64_t at; } *list; uint32_t n, room; uint64_t bytes; };

/* The piece (16 bytes) where a vector begins; adds the vector if it is new. */
static uint64_t vector_piece(struct arena *a, struct vectors *v, const struct binding *b)
{
    for (uint32_t i = 0; i < v->n; i++) if (v->list[i].binding.offset == b->offset) return v->list[i].at / 16;
    arena_room(a, v->list, v->n, v->room);
    v->list[v->n++] = (struct vector){ *b, v->bytes };
    v->bytes += plan_align(b->bytes, 16);
    return v->list[v->n - 1].at / 16;
}

/* Adds offset and bytes of the state that a launch uses. If V has a separate state, both states together. */
static void add_state(cJSON *of, const struct plan *p, const struct launch *l)
{
    const struct group *g = l->group == NO_GROUP ? NULL : &p->fused->groups[l->group];
    const struct node *n = !g ? NULL : g->kind == GROUP_ATTENTION ? g->node : g->branches[0].chain[0];
    const bool has = g && (g->kind == GROUP_ATTENTION || g->kind == GROUP_SEQUENCE ||
                           (g->kind == GROUP_MAP && (n->op == OP_store_k || n->op == OP_store_v)));
    const struct state *s = has ? plan_state(p, n) : NULL;
    const uint64_t values = has ? plan_values_at(p, n) : 0;
    add_number(of, s ? s->offset : 0);
    add_number(of, !s ? 0 : values ? values + s[1].bytes : s->bytes);
}

/* [kernel, workgroups, tokens of a workgroup or 0, slices, tail, [least, most] rows or 0, past, [state, bytes], [slots]]. A slot is the
 * piece of `vectors` where a vector begins, or [offset, bytes] of a matrix. */
static cJSON *launch_json(struct arena *a, const struct plan *p, const struct launch *l, struct vectors *v)
{
    const struct kernel *k = &p->kernels->kernels[l->kernel];
    cJSON *o = cJSON_CreateArray();
    const struct group *g = k->group;
    const bool slices = g && g->kind == GROUP_SLICES && (k->template == TEMPLATE_gemv || k->template == TEMPLATE_stage),
               matrices = g && g->kind == GROUP_SLICES && k->template == TEMPLATE_gemm;
    add_number(o, l->kernel);
    add_number(o, k->grid_x);
    add_number(o, k->grid_tokens);
    add_number(o, slices ? plan_slices(g) : matrices ? gpu_matrices(g) : 1);
    add_number(o, l->tail);
    cJSON *range = cJSON_CreateArray(), *state = cJSON_CreateArray(), *slots = cJSON_CreateArray();
    cJSON_AddItemToArray(o, range);
    add_number(range, k->param[PARAM_LEAST]);
    add_number(range, l->most ? l->most : k->param[PARAM_MOST]);
    add_number(o, l->past);
    cJSON_AddItemToArray(o, state);
    cJSON_AddItemToArray(o, slots);
    add_state(state, p, l);
    for (uint32_t i = 0; i < l->n_bindings; i++) {
        const struct binding *b = &l->bindings[i];
        if (!b->is_matrix) {                     /* in the buffer of all vectors */
            add_number(slots, vector_piece(a, v, b));
            continue;
        }
        cJSON *matrix = cJSON_CreateArray();
        cJSON_AddItemToArray(slots, matrix);
        add_number(matrix, b->offset);
        add_number(matrix, b->bytes);
    }
    return o;
}

/* The number of tokens that can be forgotten from the end: the minimum over all states; -1: any number. */
static double back_of(const struct plan *p)
{
    double back = -1;
    for (uint32_t i = 0; i < p->n_states; i++)
        if (p->states[i].back != UINT32_MAX && (back < 0 || p->states[i].back < back)) back = p->states[i].back;
    return back;
}

const char *emit_web_launches(struct arena *a, const struct plan *p)
{
    static const char *const names[] = { [STEPS_DECODE] = "decode", [STEPS_PREFILL] = "prefill" };
    const struct kernel_list *list = p->kernels;
    struct vectors v = { 0 };
    cJSON *o = cJSON_CreateObject();
    cJSON_AddNumberToObject(o, "chunk", p->chunk);
    cJSON_AddNumberToObject(o, "arenaBytes", (double)p->arena_bytes);
    cJSON_AddNumberToObject(o, "stateBytes", (double)p->state_bytes);
    cJSON_AddNumberToObject(o, "imageBytes", (double)p->image_bytes);
    cJSON_AddNumberToObject(o, "logits", (double)p->web->logits);
    cJSON_AddNumberToObject(o, "logitsRows", p->web->logits_rows);
    cJSON_AddNumberToObject(o, "nOut", p->model->n_out);
    cJSON_AddNumberToObject(o, "back", back_of(p));
    if (graph_far_from(p->fused->graph)) cJSON_AddNumberToObject(o, "farFrom", graph_far_from(p->fused->graph));
    if (p->model->pooling) cJSON_AddNumberToObject(o, "pooling", p->model->pooling);
    cJSON *kernels = cJSON_AddArrayToObject(o, "kernels");
    uint32_t lds = 0;
    for (uint32_t i = 0; i < list->n_kernels; i++) {
        const struct kernel *k = &list->kernels[i];
        cJSON_AddItemToArray(kernels, cJSON_CreateString(k->name));
        lds = k->lds_bytes > lds ? k->lds_bytes : lds;
    }
    cJSON_AddNumberToObject(o, "workgroupBytes", lds);
    for (enum kernel_steps steps = STEPS_DECODE; steps <= STEPS_PREFILL; steps++) {
        const struct launches of = list->of[steps];
        cJSON *launches = cJSON_AddArrayToObject(o, names[steps]);
        for (uint32_t i = 0; i < of.n; i++) cJSON_AddItemToArray(launches, launch_json(a, p, &of.list[i], &v));
    }
    if (list->sample.kernel != NO_KERNEL) cJSON_AddItemToObject(o, "sample", launch_json(a, p, &list->sample, &v));
    cJSON *vectors = cJSON_AddArrayToObject(o, "vectors");
    for (uint32_t i = 0; i < v.n; i++) {
        cJSON *one = cJSON_CreateArray();
        cJSON_AddItemToArray(vectors, one);
        add_number(one, v.list[i].binding.offset);
        add_number(one, v.list[i].binding.bytes);
        add_number(one, v.list[i].at);
    }
    cJSON_AddNumberToObject(o, "vectorBytes", (double)v.bytes);
    char *printed = cJSON_PrintUnformatted(o);
    if (!printed) die("out of memory for the description of the kernels");
    const char *text = arena_strdup(a, printed);
    cJSON_free(printed);
    cJSON_Delete(o);
    return text;
}
