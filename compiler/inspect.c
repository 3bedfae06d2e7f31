/* inspect.c -- `forgec inspect`: metadata and tensors of a GGUF file.  Text from the file never reaches a terminal raw. */
#include "inspect.h"

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ITEMS_SHOWN = 8, QUANT_IDS = 64 };

struct type_total { uint64_t tensors, weights, bytes; };

/* Weights and bytes of all tensors, per type id; the sums saturate (shards could claim 2^63 each). */
static struct type_total count_types(const struct gguf *g, struct type_total totals[QUANT_IDS])
{
    struct type_total all = { 0 };
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        const struct gguf_tensor *t = &g->tensors[i];
        const uint64_t weights = t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3];       /* checked by gguf.c */
        struct type_total *const sums[] = { &totals[t->quant->id % QUANT_IDS], &all };
        for (size_t k = 0; k < COUNT_OF(sums); k++) {
            sums[k]->tensors++;
            if (__builtin_add_overflow(sums[k]->weights, weights, &sums[k]->weights)) sums[k]->weights = UINT64_MAX;
            if (__builtin_add_overflow(sums[k]->bytes, t->bytes, &sums[k]->bytes)) sums[k]->bytes = UINT64_MAX;
        }
    }
    return all;
}

/* Item i of a scalar array as a scalar; negative integers stay negative. */
static struct gguf_value item_value(const struct gguf_value *v, uint64_t i)
{
    struct gguf_value x = { .type = v->item_type };
    switch (v->item_type) {
    case GGUF_STRING: x.string = v->strings[i]; break;
    case GGUF_F32:
    case GGUF_F64:    x.f = gguf_item_f64(v, i); break;
    case GGUF_BOOL:   x.b = gguf_item_u64(v, i) != 0; break;
    case GGUF_I8:     x.i = (int8_t)v->items[i]; break;
    case GGUF_I16:    { int16_t y; memcpy(&y, v->items + 2 * i, sizeof y); x.i = y; break; }
    case GGUF_I32:    { int32_t y; memcpy(&y, v->items + 4 * i, sizeof y); x.i = y; break; }
    case GGUF_I64:    { int64_t y; memcpy(&y, v->items + 8 * i, sizeof y); x.i = y; break; }
    case GGUF_U8: case GGUF_U16: case GGUF_U32: case GGUF_U64: x.u = gguf_item_u64(v, i); break;
    case GGUF_ARRAY:  break;
    }
    return x;
}

/* ---- table ---- */

static void put_scalar(struct text *t, const struct gguf_value *v)
{
    if (v->type == GGUF_STRING) text_printf(t, "\"%s\"", printable(t->arena, v->string.data, v->string.size));
    else if (v->type == GGUF_BOOL) text_puts(t, v->b ? "true" : "false");
    else if (v->type == GGUF_F32) text_printf(t, "%.9g", v->f);
    else if (v->type == GGUF_F64) text_printf(t, "%.17g", v->f);
    else if (gguf_type_is_signed(v->type)) text_printf(t, "%" PRId64, v->i);
    else text_printf(t, "%" PRIu64, v->u);
}

static void put_value(struct text *t, const struct gguf_value *v)
{
    if (v->type != GGUF_ARRAY) { put_scalar(t, v); return; }
    text_puts(t, "[");
    const uint64_t shown = v->item_type == GGUF_ARRAY ? 0 : v->count < ITEMS_SHOWN ? v->count : ITEMS_SHOWN;
    for (uint64_t i = 0; i < shown; i++) {
        const struct gguf_value x = item_value(v, i);
        if (i) text_puts(t, ", ");
        put_scalar(t, &x);
    }
    if (shown < v->count) text_puts(t, shown ? ", ..." : "...");
    text_puts(t, "]");
}

static const char *shape(struct arena *a, const struct gguf_tensor *t, const char *separator)
{
    struct text s = { .arena = a };
    for (uint32_t i = 0; i < t->n_dims; i++) text_printf(&s, "%s%" PRIu64, i ? separator : "", t->ne[i]);
    return text_str(&s);
}

static void print_table(struct arena *a, const struct gguf *g)
{
    struct text t = { .arena = a };
    struct type_total totals[QUANT_IDS] = { { 0 } };
    const struct type_total all = count_types(g, totals);
    text_printf(&t, "%s: GGUF version %" PRIu32 ", %" PRIu32 " file%s, %" PRIu64 " bytes, alignment %" PRIu64 "\n",
                printable(a, g->path, strlen(g->path)), g->version, g->n_shards, g->n_shards == 1 ? "" : "s", g->file_bytes, g->alignment);

    text_printf(&t, "\nkeys: %" PRIu64 "\n", g->n_pairs);
    for (uint64_t i = 0; i < g->n_pairs; i++) {
        const struct gguf_pair *pair = &g->pairs[i];
        const struct gguf_value *v = &pair->value;
        const char *type = v->type != GGUF_ARRAY ? gguf_type_name(v->type)
                                                 : arena_printf(a, "%s[%" PRIu64 "]", gguf_type_name(v->item_type), v->count);
        text_printf(&t, "  %-44s %-16s ", printable(a, pair->key, strlen(pair->key)), type);
        put_value(&t, v);
        text_puts(&t, "\n");
    }

    text_printf(&t, "\ntensors: %" PRIu64 "\n", g->n_tensors);
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        const struct gguf_tensor *x = &g->tensors[i];
        text_printf(&t, "  %-44s %-7s %-24s %14" PRIu64 " bytes%s\n", printable(a, x->name, strlen(x->name)), x->quant->name,
                    shape(a, x, " x "), x->bytes, x->data ? "" : " (not in the file)");
    }

    text_puts(&t, "\ntypes:\n");
    for (uint32_t id = 0; id < QUANT_IDS; id++)
        if (totals[id].tensors)
            text_printf(&t, "  %-7s %6" PRIu64 " tensors %16" PRIu64 " weights %16" PRIu64 " bytes\n", quant_find(id)->name,
                        totals[id].tensors, totals[id].weights, totals[id].bytes);
    text_printf(&t, "  all     %6" PRIu64 " tensors %16" PRIu64 " weights %16" PRIu64 " bytes", all.tensors, all.weights, all.bytes);
    if (all.weights) text_printf(&t, ", %.3f bits per weight", 8 * (double)all.bytes / (double)all.weights);
    text_printf(&t, "\nparameters: %" PRIu64 "\n", all.weights);
    fputs(text_str(&t), stdout);
}

/* ---- JSON ---- */

/* A JSON string literal in ASCII.  Written here, not by cJSON, which passes on any byte and stops at a NUL. */
static const char *json_literal(struct arena *a, const char *bytes, uint64_t n)
{
    struct text t = { .arena = a };
    text_puts(&t, "\"");
    for (uint64_t i = 0; i < n;) {
        uint32_t used;
        const uint32_t c = utf8_next(bytes + i, n - i, &used);
        if (c == '"' || c == '\\') text_printf(&t, "\\%c", (char)c);
        else if (c >= 0x20 && c < 0x7f) text_printf(&t, "%c", (char)c);
        else if (c < 0x10000) text_printf(&t, "\\u%04" PRIx32, c);
        else text_printf(&t, "\\u%04" PRIx32 "\\u%04" PRIx32, 0xd800 + ((c - 0x10000) >> 10), 0xdc00 + ((c - 0x10000) & 0x3ff));
        i += used;
    }
    text_puts(&t, "\"");
    return text_str(&t);
}

static cJSON *need(cJSON *item)
{
    if (!item) die("out of memory while writing JSON");
    return item;
}

static cJSON *json_text(struct arena *a, const char *s, uint64_t n) { return need(cJSON_CreateRaw(json_literal(a, s, n))); }

/* cJSON's own numbers are doubles: exact only to 2^53. */
static cJSON *json_u64(struct arena *a, uint64_t n) { return need(cJSON_CreateRaw(arena_printf(a, "%" PRIu64, n))); }

static void add(cJSON *object, const char *key, cJSON *value) { cJSON_AddItemToObject(object, key, value); }

static cJSON *json_value(struct arena *a, const struct gguf_value *v)
{
    switch (v->type) {
    case GGUF_STRING: return json_text(a, v->string.data, v->string.size);
    case GGUF_BOOL:   return need(cJSON_CreateBool(v->b));
    case GGUF_F32:    return need(isfinite(v->f) ? cJSON_CreateRaw(arena_printf(a, "%.9g", v->f)) : cJSON_CreateNull());
    case GGUF_F64:    return need(isfinite(v->f) ? cJSON_CreateRaw(arena_printf(a, "%.17g", v->f)) : cJSON_CreateNull());
    case GGUF_I8: case GGUF_I16: case GGUF_I32: case GGUF_I64: return need(cJSON_CreateRaw(arena_printf(a, "%" PRId64, v->i)));
    case GGUF_U8: case GGUF_U16: case GGUF_U32: case GGUF_U64: return json_u64(a, v->u);
    case GGUF_ARRAY:  break;
    }
    cJSON *array = need(cJSON_CreateArray());
    for (uint64_t i = 0; i < v->count && i < ITEMS_SHOWN && v->item_type != GGUF_ARRAY; i++) {
        const struct gguf_value x = item_value(v, i);
        cJSON_AddItemToArray(array, json_value(a, &x));
    }
    return array;
}

static cJSON *json_keys(struct arena *a, const struct gguf *g)
{
    cJSON *keys = need(cJSON_CreateArray());
    for (uint64_t i = 0; i < g->n_pairs; i++) {
        const struct gguf_pair *pair = &g->pairs[i];
        const struct gguf_value *v = &pair->value;
        cJSON *one = need(cJSON_CreateObject());
        add(one, "key", json_text(a, pair->key, strlen(pair->key)));
        add(one, "type", json_text(a, gguf_type_name(v->type), strlen(gguf_type_name(v->type))));
        if (v->type == GGUF_ARRAY) {
            add(one, "item_type", json_text(a, gguf_type_name(v->item_type), strlen(gguf_type_name(v->item_type))));
            add(one, "count", json_u64(a, v->count));
        }
        add(one, v->type == GGUF_ARRAY ? "first" : "value", json_value(a, v));
        cJSON_AddItemToArray(keys, one);
    }
    return keys;
}

static cJSON *json_tensors(struct arena *a, const struct gguf *g)
{
    cJSON *tensors = need(cJSON_CreateArray());
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        const struct gguf_tensor *t = &g->tensors[i];
        cJSON *one = need(cJSON_CreateObject());
        add(one, "name", json_text(a, t->name, strlen(t->name)));
        add(one, "type", json_text(a, t->quant->name, strlen(t->quant->name)));
        add(one, "shape", need(cJSON_CreateRaw(arena_printf(a, "[%s]", shape(a, t, ", ")))));
        add(one, "bytes", json_u64(a, t->bytes));
        add(one, "shard", json_u64(a, t->shard));
        add(one, "present", need(cJSON_CreateBool(t->data != NULL)));
        cJSON_AddItemToArray(tensors, one);
    }
    return tensors;
}

static cJSON *json_total(struct arena *a, const struct type_total *total)
{
    cJSON *one = need(cJSON_CreateObject());
    add(one, "tensors", json_u64(a, total->tensors));
    add(one, "weights", json_u64(a, total->weights));
    add(one, "bytes", json_u64(a, total->bytes));
    return one;
}

static void print_json(struct arena *a, const struct gguf *g)
{
    struct type_total totals[QUANT_IDS] = { { 0 } };
    const struct type_total all = count_types(g, totals);
    cJSON *root = need(cJSON_CreateObject()), *file = need(cJSON_CreateObject()), *types = need(cJSON_CreateObject());
    add(file, "path", json_text(a, g->path, strlen(g->path)));
    add(file, "version", json_u64(a, g->version));
    add(file, "shards", json_u64(a, g->n_shards));
    add(file, "bytes", json_u64(a, g->file_bytes));
    add(file, "alignment", json_u64(a, g->alignment));
    for (uint32_t id = 0; id < QUANT_IDS; id++)
        if (totals[id].tensors) add(types, quant_find(id)->name, json_total(a, &totals[id]));
    add(root, "file", file);
    add(root, "keys", json_keys(a, g));
    add(root, "tensors", json_tensors(a, g));
    add(root, "types", types);
    add(root, "total", json_total(a, &all));
    add(root, "parameters", json_u64(a, all.weights));
    char *text = cJSON_Print(root);
    cJSON_Delete(root);
    if (!text) die("out of memory while writing JSON");
    puts(text);
    cJSON_free(text);
}

void inspect_print(struct arena *a, const struct gguf *g, bool json)
{
    if (json) print_json(a, g);
    else print_table(a, g);
}
