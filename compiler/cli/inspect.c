/* inspect.c -- `forgec inspect`: metadata and tensors of a GGUF file. Text from the file is never printed raw to a terminal. */
#include "inspect.h"
#include "compiler/format/layout.h"
#include "compiler/plan/machine.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ITEMS_SHOWN = 8 };

enum { PACKED_MOST_BITS = 56 };         /* of a tensor's size in bytes, so that its packed size fits in 64 bits */

struct type_total { uint64_t tensors, weights, bytes, packed; };

/* Bytes of the tensor in the image of a program for the target. 0: there is no target, or its kernels do not read such tensors (more than
 * two dimensions, or a vector that is not of floats). */
static uint64_t packed_bytes(const struct gguf_tensor *t, const struct target *target)
{
    if (!target || t->n_dims > 2 || t->bytes >> PACKED_MOST_BITS) return 0;
    const struct packing p = packing_of(machine_of(target->kind)->layout, t->quant, target->row_period);
    if (t->n_dims == 2) return packing_bytes(p, t->ne[1], t->ne[0]);
    return t->quant->block_weights == 1 ? packing_vector_bytes(t->ne[0]) : 0;
}

/* Adds up weights and bytes of all tensors, per type id. The sums saturate (shards could claim 2^63 each). */
static struct type_total count_types(const struct gguf *g, const struct target *target, struct type_total totals[FORMAT_COUNT])
{
    struct type_total all = { 0 };
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        const struct gguf_tensor *t = &g->tensors[i];
        const uint64_t weights = t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3];       /* checked by gguf.c */
        struct type_total *const sums[] = { &totals[t->quant - format_table], &all };
        for (size_t k = 0; k < COUNT_OF(sums); k++) {
            sums[k]->tensors++;
            if (__builtin_add_overflow(sums[k]->weights, weights, &sums[k]->weights)) sums[k]->weights = UINT64_MAX;
            if (__builtin_add_overflow(sums[k]->bytes, t->bytes, &sums[k]->bytes)) sums[k]->bytes = UINT64_MAX;
            if (__builtin_add_overflow(sums[k]->packed, packed_bytes(t, target), &sums[k]->packed)) sums[k]->packed = UINT64_MAX;
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

static void print_scalar(struct arena *a, const struct gguf_value *v)
{
    if (v->type == GGUF_STRING) printf("\"%s\"", printable(a, v->string.data, v->string.size));
    else if (v->type == GGUF_BOOL) fputs(v->b ? "true" : "false", stdout);
    else if (v->type == GGUF_F32) printf("%.9g", v->f);
    else if (v->type == GGUF_F64) printf("%.17g", v->f);
    else if (gguf_type_is_signed(v->type)) printf("%" PRId64, v->i);
    else printf("%" PRIu64, v->u);
}

static uint64_t items_shown(const struct gguf_value *v)
{
    return v->item_type == GGUF_ARRAY ? 0 : v->count < ITEMS_SHOWN ? v->count : ITEMS_SHOWN;
}

static void print_value(struct arena *a, const struct gguf_value *v)
{
    if (v->type != GGUF_ARRAY) { print_scalar(a, v); return; }
    putchar('[');
    const uint64_t shown = items_shown(v);
    for (uint64_t i = 0; i < shown; i++) {
        const struct gguf_value x = item_value(v, i);
        if (i) fputs(", ", stdout);
        print_scalar(a, &x);
    }
    if (shown < v->count) fputs(shown ? ", ..." : "...", stdout);
    putchar(']');
}

struct shape { char text[96]; };        /* four numbers of 20 digits, three separators of up to 3 bytes */

static struct shape shape_of(const struct gguf_tensor *t, const char *separator)
{
    struct shape s = { "" };
    for (uint32_t i = 0; i < t->n_dims; i++) {
        const size_t used = strlen(s.text);
        snprintf(s.text + used, sizeof s.text - used, "%s%" PRIu64, i ? separator : "", t->ne[i]);
    }
    return s;
}

static void print_pair(struct arena *a, const struct gguf_pair *pair)
{
    const struct gguf_value *v = &pair->value;
    const char *type = v->type != GGUF_ARRAY ? gguf_type_name(v->type)
        : arena_printf(a, "%s[%" PRIu64 "]", gguf_type_name(v->item_type), v->count);
    printf("  %-44s %-16s ", printable(a, pair->key, strlen(pair->key)), type);
    print_value(a, v);
    putchar('\n');
}

/* Printed after the bytes in the file, if there is a target. */
static const char *packed_text(struct arena *a, const struct target *target, uint64_t packed)
{
    return !target ? "" : packed ? arena_printf(a, ", packed %14" PRIu64, packed) : ", packed              -";
}

static void print_tensor(struct arena *a, const struct gguf_tensor *t, const struct target *target)
{
    printf("  %-44s %-7s %-24s %14" PRIu64 " bytes%s%s\n", printable(a, t->name, strlen(t->name)), t->quant->name,
           shape_of(t, " x ").text, t->bytes, packed_text(a, target, packed_bytes(t, target)), t->data ? "" : " (not in the file)");
}

static void print_totals(struct arena *a, const char *name, const struct type_total *total, const struct target *target)
{
    printf("  %-7s %6" PRIu64 " tensors %16" PRIu64 " weights %16" PRIu64 " bytes%s", name, total->tensors, total->weights, total->bytes,
           packed_text(a, target, total->packed));
}

/* Each line has its own arena, which is then freed: a file may have millions of lines. */
static void print_table(struct arena *a, const struct gguf *g, const struct target *target)
{
    struct type_total totals[FORMAT_COUNT] = { { 0 } };
    const struct type_total all = count_types(g, target, totals);
    printf("%s: GGUF version %" PRIu32 ", %" PRIu32 " file%s, %" PRIu64 " bytes, alignment %" PRIu64 "\n",
           printable(a, g->path, strlen(g->path)), g->version, g->n_shards, g->n_shards == 1 ? "" : "s", g->file_bytes, g->alignment);
    if (target)
        printf("packed: the bytes of tensors in a program for %s, layout %s\n", target->name,
               packing_of(machine_of(target->kind)->layout, NULL, 0).layout->name);
    printf("\nkeys: %" PRIu64 "\n", g->n_pairs);
    for (uint64_t i = 0; i < g->n_pairs; i++) {
        struct arena *line = arena_create();
        print_pair(line, &g->pairs[i]);
        arena_destroy(line);
    }
    printf("\ntensors: %" PRIu64 "\n", g->n_tensors);
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        struct arena *line = arena_create();
        print_tensor(line, &g->tensors[i], target);
        arena_destroy(line);
    }
    fputs("\ntypes:\n", stdout);
    for (uint32_t i = 0; i < FORMAT_COUNT; i++)
        if (totals[i].tensors) {
            print_totals(a, format_table[i].name, &totals[i], target);
            putchar('\n');
        }
    print_totals(a, "all", &all, target);
    if (all.weights) printf(", %.3f bits per weight", 8 * (double)all.bytes / (double)all.weights);
    printf("\nparameters: %" PRIu64 "\n", all.weights);
}

/* ---- JSON, written directly; lines and tabs as cJSON writes them, because tests read it with cJSON ---- */

struct json { uint32_t depth; bool begun; };       /* begun: the innermost object or list has an item */

static void json_tabs(uint32_t n) { while (n--) putchar('\t'); }

static void json_begin(struct json *j, char bracket)
{
    putchar(bracket);
    if (bracket == '{') putchar('\n');
    j->depth++;
    j->begun = false;
}

static void json_end(struct json *j, char bracket)
{
    if (bracket == '}') {
        if (j->begun) putchar('\n');
        json_tabs(j->depth - 1);
    }
    putchar(bracket);
    j->depth--;
    j->begun = true;
}

static void json_key(struct json *j, const char *key)      /* a word */
{
    if (j->begun) fputs(",\n", stdout);
    json_tabs(j->depth);
    printf("\"%s\":\t", key);
    j->begun = true;
}

static void json_item(struct json *j)
{
    if (j->begun) fputs(", ", stdout);
    j->begun = true;
}

/* Prints ASCII, whatever the bytes are: invalid UTF-8 becomes U+FFFD. */
static void json_text(const char *bytes, uint64_t n)
{
    putchar('"');
    for (uint64_t i = 0; i < n;) {
        uint32_t used;
        const uint32_t c = utf8_next(bytes + i, n - i, &used);
        if (c == '"' || c == '\\') printf("\\%c", (char)c);
        else if (c >= 0x20 && c < 0x7f) putchar((int)c);
        else if (c < 0x10000) printf("\\u%04" PRIx32, c);
        else printf("\\u%04" PRIx32 "\\u%04" PRIx32, 0xd800 + ((c - 0x10000) >> 10), 0xdc00 + ((c - 0x10000) & 0x3ff));
        i += used;
    }
    putchar('"');
}

static void json_word(struct json *j, const char *key, const char *s) { json_key(j, key); json_text(s, strlen(s)); }
static void json_u64(struct json *j, const char *key, uint64_t n) { json_key(j, key); printf("%" PRIu64, n); }
static void json_bool(struct json *j, const char *key, bool b) { json_key(j, key); fputs(b ? "true" : "false", stdout); }

static void json_value(struct json *j, const struct gguf_value *v)
{
    switch (v->type) {
    case GGUF_STRING: json_text(v->string.data, v->string.size); return;
    case GGUF_BOOL:   fputs(v->b ? "true" : "false", stdout); return;
    case GGUF_F32:    if (isfinite(v->f)) printf("%.9g", v->f); else fputs("null", stdout); return;
    case GGUF_F64:    if (isfinite(v->f)) printf("%.17g", v->f); else fputs("null", stdout); return;
    case GGUF_I8: case GGUF_I16: case GGUF_I32: case GGUF_I64: printf("%" PRId64, v->i); return;
    case GGUF_U8: case GGUF_U16: case GGUF_U32: case GGUF_U64: printf("%" PRIu64, v->u); return;
    case GGUF_ARRAY:  break;
    }
    json_begin(j, '[');
    for (uint64_t i = 0; i < items_shown(v); i++) {
        const struct gguf_value x = item_value(v, i);
        json_item(j);
        json_value(j, &x);
    }
    json_end(j, ']');
}

static void json_pair(struct json *j, const struct gguf_pair *pair)
{
    const struct gguf_value *v = &pair->value;
    json_begin(j, '{');
    json_word(j, "key", pair->key);
    json_word(j, "type", gguf_type_name(v->type));
    if (v->type == GGUF_ARRAY) {
        json_word(j, "item_type", gguf_type_name(v->item_type));
        json_u64(j, "count", v->count);
    }
    json_key(j, v->type == GGUF_ARRAY ? "first" : "value");
    json_value(j, v);
    json_end(j, '}');
}

static void json_tensor(struct json *j, const struct gguf_tensor *t, const struct target *target)
{
    json_begin(j, '{');
    json_word(j, "name", t->name);
    json_word(j, "type", t->quant->name);
    json_key(j, "shape");
    printf("[%s]", shape_of(t, ", ").text);
    json_u64(j, "bytes", t->bytes);
    if (target) json_u64(j, "packed_bytes", packed_bytes(t, target));
    json_u64(j, "shard", t->shard);
    json_bool(j, "present", t->data != NULL);
    json_end(j, '}');
}

static void json_total(struct json *j, const char *key, const struct type_total *total, const struct target *target)
{
    json_key(j, key);
    json_begin(j, '{');
    json_u64(j, "tensors", total->tensors);
    json_u64(j, "weights", total->weights);
    json_u64(j, "bytes", total->bytes);
    if (target) json_u64(j, "packed_bytes", total->packed);
    json_end(j, '}');
}

static void json_file(struct json *j, const struct gguf *g)
{
    json_key(j, "file");
    json_begin(j, '{');
    json_word(j, "path", g->path);
    json_u64(j, "version", g->version);
    json_u64(j, "shards", g->n_shards);
    json_u64(j, "bytes", g->file_bytes);
    json_u64(j, "alignment", g->alignment);
    json_end(j, '}');
}

static void print_json(const struct gguf *g, const struct target *target)
{
    struct type_total totals[FORMAT_COUNT] = { { 0 } };
    const struct type_total all = count_types(g, target, totals);
    struct json j = { 0 };
    json_begin(&j, '{');
    json_file(&j, g);
    if (target) json_word(&j, "target", target->name);
    json_key(&j, "keys");
    json_begin(&j, '[');
    for (uint64_t i = 0; i < g->n_pairs; i++) {
        json_item(&j);
        json_pair(&j, &g->pairs[i]);
    }
    json_end(&j, ']');
    json_key(&j, "tensors");
    json_begin(&j, '[');
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        json_item(&j);
        json_tensor(&j, &g->tensors[i], target);
    }
    json_end(&j, ']');
    json_key(&j, "types");
    json_begin(&j, '{');
    for (uint32_t i = 0; i < FORMAT_COUNT; i++)
        if (totals[i].tensors) json_total(&j, format_table[i].name, &totals[i], target);
    json_end(&j, '}');
    json_total(&j, "total", &all, target);
    json_u64(&j, "parameters", all.weights);
    json_end(&j, '}');
    putchar('\n');
}

void inspect_print(struct arena *a, const struct gguf *g, bool json, const struct target *target)
{
    if (json) print_json(g, target);
    else print_table(a, g, target);
    uint64_t absent = 0;
    for (uint64_t i = 0; i < g->n_tensors; i++) absent += !g->tensors[i].data;
    if (absent)
        warn("%s: the data of %" PRIu64 " of %" PRIu64 " tensors is not there: the file is cut off, or only a header", g->path, absent,
             g->n_tensors);
}
