/* mutate_gguf.h -- mutations of GGUF files for libFuzzer: parses the file into keys, tensors and data, edits these, and writes them again,
 * with correct or wrong offsets and counts.  Other input gets libFuzzer's own mutations.  Include it in one fuzzer and define GGUF_PREFIX
 * before: the number of bytes before the file, which the fuzzer uses itself. */
#ifndef FORGEC_MUTATE_GGUF_H
#define FORGEC_MUTATE_GGUF_H
#include "compiler/front/gguf.h"
#include "compiler/base/resource.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *data1, size_t size1, const uint8_t *data2, size_t size2, uint8_t *out, size_t max_out,
                                 unsigned seed);

enum { EDIT_PAIRS = 128, EDIT_TENSORS = 512, EDIT_DIMS = 8 };

struct span { const uint8_t *data; size_t size; };
struct edit_pair { struct span key, value; uint32_t type; };
struct edit_tensor { struct span name, data; uint64_t dims[EDIT_DIMS], offset; uint32_t n_dims, type; };
struct edit {
    struct arena      *arena;
    uint64_t           random;
    uint32_t           version;
    struct edit_pair   pairs[EDIT_PAIRS];
    struct edit_tensor tensors[EDIT_TENSORS];
    uint32_t           n_pairs, n_tensors;
    uint64_t           claimed_pairs, claimed_tensors;         /* counts that the header states instead; UINT64_MAX: the right ones */
    bool               keep_offsets;
};

static uint32_t pick(struct edit *e, uint32_t n)               /* 0 .. n - 1; n > 0 */
{
    e->random ^= e->random << 13;
    e->random ^= e->random >> 7;
    e->random ^= e->random << 17;
    return (uint32_t)(e->random >> 20) % n;
}
static bool chance(struct edit *e, uint32_t n) { return pick(e, n) == 0; }

static struct span span_of(const char *s) { return (struct span){ (const uint8_t *)s, strlen(s) }; }
static bool span_is(struct span s, const char *text) { return s.size == strlen(text) && memcmp(s.data, text, s.size) == 0; }

/* ---- words that the compiler knows ---- */

static const char *words[512];
static uint32_t    n_words;

static void words_add(struct arena *a, const char *s, size_t n)
{
    for (uint32_t i = 0; i < n_words; i++) if (strlen(words[i]) == n && memcmp(words[i], s, n) == 0) return;
    if (n_words < COUNT_OF(words)) words[n_words++] = arena_strndup(a, s, n);
}

/* Keys and names of tensors of the architectures: every word with a dot in the YAML of models. */
static void words_read(struct arena *a)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789_.{}";
    static const char *const fixed[] = {
        "general.architecture", "general.name", "general.alignment", "general.file_type", "general.quantization_version",
        "general.sampling.temp", "general.sampling.top_k",
        "general.sampling.top_p", "split.no", "split.count", "split.tensors.count", "tokenizer.ggml.model", "tokenizer.ggml.pre",
        "tokenizer.ggml.tokens",
        "tokenizer.ggml.scores", "tokenizer.ggml.token_type", "tokenizer.ggml.merges", "tokenizer.ggml.bos_token_id",
        "tokenizer.ggml.eos_token_id",
        "tokenizer.ggml.eot_token_id", "tokenizer.ggml.unknown_token_id", "tokenizer.ggml.padding_token_id", "tokenizer.ggml.add_bos_token",
        "tokenizer.ggml.add_eos_token",
        "tokenizer.ggml.add_space_prefix", "tokenizer.ggml.remove_extra_whitespaces", "tokenizer.chat_template",
        "{arch}.attention.sliding_window", "{arch}.attention.causal", "{arch}.attn_logit_softcapping", "{arch}.logit_scale",
        "{arch}.expert_used_count" };
    for (size_t i = 0; i < COUNT_OF(fixed); i++) words_add(a, fixed[i], strlen(fixed[i]));
    for (const char **paths = resource_list(a, NULL, "models/"); *paths; paths++) {
        const char *text = (const char *)resource_get(a, NULL, *paths).data;
        for (size_t n; *text; text += n ? n : 1) {
            n = strspn(text, letters);
            if (n > 3 && n < 80 && memchr(text, '.', n) && text[n - 1] != '.') words_add(a, text, n);
        }
    }
}

static struct span architecture(const struct edit *e)
{
    for (uint32_t i = 0; i < e->n_pairs; i++)
        if (span_is(e->pairs[i].key, "general.architecture") && e->pairs[i].type == GGUF_STRING && e->pairs[i].value.size > 8)
            return (struct span){ e->pairs[i].value.data + 8, e->pairs[i].value.size - 8 };
    return span_of("llama");
}

/* "{arch}.block_count" -> "llama.block_count", {l} -> a small number. */
static struct span word(struct edit *e)
{
    const char *w = words[pick(e, n_words)];
    const struct span arch = architecture(e);
    struct text t = { .arena = e->arena };
    while (*w) {
        if (strncmp(w, "{arch}", 6) == 0) { text_append(&t, (const char *)arch.data, arch.size); w += 6; }
        else if (strncmp(w, "{l}", 3) == 0) { text_printf(&t, "%u", pick(e, 4)); w += 3; }
        else text_append(&t, w++, 1);
    }
    return (struct span){ (const uint8_t *)t.data, t.size };
}

/* ---- parsing a file ---- */

struct take { const uint8_t *at, *end; bool failed; };

static struct span take_bytes(struct take *t, uint64_t n)
{
    if (t->failed || n > (uint64_t)(t->end - t->at)) { t->failed = true; return (struct span){ t->at, 0 }; }
    t->at += n;
    return (struct span){ t->at - n, (size_t)n };
}
static uint64_t take_number(struct take *t, uint32_t bytes)
{
    uint64_t value = 0;
    const struct span s = take_bytes(t, bytes);
    memcpy(&value, s.data, s.size);                            /* fuzzers run on little-endian machines */
    return value;
}

static const uint8_t scalar_bytes[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };

static void take_value(struct take *t, uint64_t type, uint32_t depth)
{
    if (type >= COUNT_OF(scalar_bytes) || depth > 4) { t->failed = true; return; }
    if (type == GGUF_STRING) { take_bytes(t, take_number(t, 8)); return; }
    if (type != GGUF_ARRAY) { take_bytes(t, scalar_bytes[type]); return; }
    const uint64_t item = take_number(t, 4), count = take_number(t, 8);
    if (item < COUNT_OF(scalar_bytes) && scalar_bytes[item]) {
        take_bytes(t, count < SIZE_MAX / 8 ? count * scalar_bytes[item] : UINT64_MAX);
        return;
    }
    for (uint64_t i = 0; i < count && !t->failed; i++) take_value(t, item, depth + 1);
}

/* Bytes of a tensor; 0: its type or shape is invalid. */
static uint64_t tensor_bytes(const struct edit_tensor *t)
{
    const struct format *q = quant_find(t->type);
    uint64_t weights = 1;
    for (uint32_t i = 0; i < t->n_dims; i++) {
        if (!t->dims[i] || weights > (1ull << 40) / t->dims[i]) return 0;
        weights *= t->dims[i];
    }
    return q && t->dims[0] % q->block_weights == 0 ? weights / q->block_weights * q->block_bytes : 0;
}

static uint64_t alignment(const struct edit *e)
{
    uint64_t value = 32;
    for (uint32_t i = 0; i < e->n_pairs; i++)
        if (span_is(e->pairs[i].key, "general.alignment") && e->pairs[i].value.size == 4) memcpy(&value, e->pairs[i].value.data, 4);
    return value && value <= 4096 ? value : 32;
}

static bool edit_read(struct edit *e, const uint8_t *data, size_t size)
{
    struct take t = { data, data + size, false };
    if (!span_is(take_bytes(&t, 4), "GGUF")) return false;
    e->version = (uint32_t)take_number(&t, 4);
    const uint64_t n_tensors = take_number(&t, 8), n_pairs = take_number(&t, 8);
    if (t.failed || n_tensors > EDIT_TENSORS || n_pairs > EDIT_PAIRS) return false;
    for (; e->n_pairs < n_pairs && !t.failed; e->n_pairs++) {
        struct edit_pair *p = &e->pairs[e->n_pairs];
        p->key = take_bytes(&t, take_number(&t, 8));
        p->type = (uint32_t)take_number(&t, 4);
        const uint8_t *from = t.at;
        take_value(&t, p->type, 0);
        p->value = (struct span){ from, (size_t)(t.at - from) };
    }
    for (; e->n_tensors < n_tensors && !t.failed; e->n_tensors++) {
        struct edit_tensor *x = &e->tensors[e->n_tensors];
        x->name = take_bytes(&t, take_number(&t, 8));
        x->n_dims = (uint32_t)take_number(&t, 4);
        if (x->n_dims > EDIT_DIMS) return false;
        for (uint32_t i = 0; i < x->n_dims; i++) x->dims[i] = take_number(&t, 8);
        x->type = (uint32_t)take_number(&t, 4);
        x->offset = take_number(&t, 8);
    }
    if (t.failed) return false;
    const uint64_t align = alignment(e), start = ((uint64_t)(t.at - data) + align - 1) / align * align,
        room = size > start ? size - start : 0;
    for (uint32_t i = 0; i < e->n_tensors; i++) {
        struct edit_tensor *x = &e->tensors[i];
        const uint64_t bytes = tensor_bytes(x);
        if (bytes && x->offset <= room && bytes <= room - x->offset) x->data = (struct span){ data + start + x->offset, (size_t)bytes };
    }
    e->claimed_pairs = e->claimed_tensors = UINT64_MAX;
    return true;
}

/* ---- writing a file ---- */

static void put(struct text *t, const void *bytes, size_t n) { text_append(t, bytes, n); }
static void put_number(struct text *t, uint64_t value, uint32_t bytes) { put(t, &value, bytes); }
static void put_span(struct text *t, struct span s) { put_number(t, s.size, 8); put(t, s.data, s.size); }

/* Data of a tensor that has grown repeat.  Data beyond `most` bytes are left out: then the file is only a header. */
static void put_data(struct edit *e, struct text *t, size_t most)
{
    const uint64_t align = alignment(e);
    while (t->size % align && t->size < most) put_number(t, 0, 1);
    const size_t start = t->size;
    for (uint32_t i = 0; i < e->n_tensors; i++) {
        const struct edit_tensor *x = &e->tensors[i];
        const uint64_t bytes = tensor_bytes(x), from = x->offset;
        if (!x->data.size || from > most || bytes > most || start + from + bytes > most) continue;
        while (t->size < start + from + bytes) put_number(t, 0, 1);
        for (uint64_t k = 0; k < bytes; k++) t->data[start + from + k] = (char)x->data.data[k % x->data.size];
    }
}

static size_t edit_write(struct edit *e, uint8_t *out, size_t most)
{
    struct text t = { .arena = e->arena };
    uint64_t offset = 0;
    put(&t, "GGUF", 4);
    put_number(&t, e->version, 4);
    put_number(&t, e->claimed_tensors == UINT64_MAX ? e->n_tensors : e->claimed_tensors, 8);
    put_number(&t, e->claimed_pairs == UINT64_MAX ? e->n_pairs : e->claimed_pairs, 8);
    for (uint32_t i = 0; i < e->n_pairs; i++) {
        put_span(&t, e->pairs[i].key);
        put_number(&t, e->pairs[i].type, 4);
        put(&t, e->pairs[i].value.data, e->pairs[i].value.size);
    }
    for (uint32_t i = 0; i < e->n_tensors; i++) {
        struct edit_tensor *x = &e->tensors[i];
        if (!e->keep_offsets) x->offset = offset;
        offset += (tensor_bytes(x) + alignment(e) - 1) / alignment(e) * alignment(e);
        put_span(&t, x->name);
        put_number(&t, x->n_dims, 4);
        for (uint32_t k = 0; k < x->n_dims; k++) put_number(&t, x->dims[k], 8);
        put_number(&t, x->type, 4);
        put_number(&t, x->offset, 8);
    }
    if (t.size > most) return 0;
    put_data(e, &t, most);
    memcpy(out, t.data, t.size < most ? t.size : most);
    return t.size < most ? t.size : most;
}

/* ---- edits ---- */

static uint64_t edge(struct edit *e)
{
    const uint64_t power = 1ull << pick(e, 64);
    switch (pick(e, 8)) {
    case 0:  return pick(e, 4);
    case 1:  return UINT64_MAX - pick(e, 3);
    case 2:  return power;
    case 3:  return power - 1;
    case 4:  return power + 1;
    case 5:  return 16ull * (1 + pick(e, 64));
    case 6:  return 1 + pick(e, 300);
    default: return (1ull << pick(e, 14)) * (1 + pick(e, 3));
    }
}

static double edge_float(struct edit *e)
{
    static const double values[] = { 0, -0.0, 1, -1, 1e-6, 1e-45, 1e-300, 3.4e38, 1e300, 1e6, 0.5, 10000, 1e-30 };
    const uint32_t k = pick(e, COUNT_OF(values) + 3);
    return k < COUNT_OF(values) ? values[k] : k == COUNT_OF(values) ? (double)NAN : k == COUNT_OF(values) + 1 ? (double)INFINITY
        : -(double)INFINITY;
}

static struct span copy_of(struct edit *e, struct span s, size_t room)
{
    uint8_t *copy = arena_alloc(e->arena, s.size + room);
    if (s.size) memcpy(copy, s.data, s.size);
    return (struct span){ copy, s.size };
}

/* libFuzzer's own edits of some bytes. */
static struct span scrambled(struct edit *e, struct span s)
{
    s = copy_of(e, s, 16);
    return (struct span){ s.data, LLVMFuzzerMutate((uint8_t *)(uintptr_t)s.data, s.size, s.size + 16) };
}

static void put_scalar(struct edit *e, struct text *t, uint32_t type)
{
    const uint64_t u = type == GGUF_BOOL && !chance(e, 8) ? pick(e, 2) : edge(e);
    const double   f = chance(e, 4) ? (double)u : edge_float(e);
    const float    f32 = (float)f;
    if (type == GGUF_F32) put(t, &f32, 4);
    else if (type == GGUF_F64) put(t, &f, 8);
    else put(t, &u, scalar_bytes[type]);
}

static void put_string(struct edit *e, struct text *t)
{
    static const char *const strings[] = { "llama", "qwen2", "qwen3", "gpt2", "none", "no_vocab", "linear", "yarn", "default", "llama-bpe",
                                           "qwen2", "*/", "\"", "\n", "%s", "\xc2\x9b", "\xe2\x80\xae", "<|im_start|>", "[INST]", "" };
    struct span s = chance(e, 3) ? word(e) : span_of(strings[pick(e, COUNT_OF(strings))]);
    if (chance(e, 4)) s = scrambled(e, s);
    if (chance(e, 16)) { put_number(t, edge(e), 8); put(t, s.data, s.size); }
    else put_span(t, s);
}

static struct span new_value(struct edit *e, uint32_t type)
{
    struct text t = { .arena = e->arena };
    if (type == GGUF_STRING) put_string(e, &t);
    else if (type == GGUF_ARRAY) {
        const uint32_t item = pick(e, 13), n = pick(e, 20);
        put_number(&t, item, 4);
        put_number(&t, chance(e, 8) ? edge(e) : n, 8);
        for (uint32_t i = 0; i < n && item != GGUF_ARRAY; i++) {
            if (item == GGUF_STRING) put_string(e, &t);
            else put_scalar(e, &t, item);
        }
    }
    else if (type < COUNT_OF(scalar_bytes)) put_scalar(e, &t, type);
    else put_number(&t, edge(e), 8);
    return (struct span){ (const uint8_t *)t.data, t.size };
}

static void edit_array(struct edit *e, struct edit_pair *p)
{
    p->value = copy_of(e, p->value, 0);
    uint8_t *v = (uint8_t *)(uintptr_t)p->value.data;
    uint64_t count;
    if (p->value.size < 12) return;
    memcpy(&count, v + 4, 8);
    const uint64_t claimed = chance(e, 2) ? edge(e) : count + pick(e, 3) - 1;
    switch (pick(e, 4)) {
    case 0: memcpy(v + 4, &claimed, 8); break;                                          /* a wrong count */
    case 1: v[0] = (uint8_t)pick(e, 14); break;                                         /* items of another type */
    case 2: {                                                                           /* fewer items and the right count, for numbers */
        const uint32_t bytes = v[0] < COUNT_OF(scalar_bytes) ? scalar_bytes[v[0]] : 0;
        if (!bytes || !count) break;
        count = pick(e, (uint32_t)(count < 1000 ? count : 1000));
        memcpy(v + 4, &count, 8);
        if (12 + count * bytes < p->value.size) p->value.size = (size_t)(12 + count * bytes);
        break;
    }
    default: for (uint32_t i = 0; i < 8 && p->value.size > 12; i++) v[12
        + pick(e, (uint32_t)(p->value.size - 12))] ^= (uint8_t)(1u << pick(e, 8));
    }
}

static void edit_a_pair(struct edit *e)
{
    if (!e->n_pairs || (chance(e, 6) && e->n_pairs < EDIT_PAIRS)) {                       /* a new key */
        const uint32_t type = pick(e, 13);
        e->pairs[e->n_pairs] = (struct edit_pair){ word(e), new_value(e, type), type };
        e->n_pairs++;
        return;
    }
    const uint32_t i = pick(e, e->n_pairs), k = pick(e, e->n_pairs);
    struct edit_pair *p = &e->pairs[i];
    const struct edit_pair other = e->pairs[k];
    switch (pick(e, 9)) {
    case 0: *p = e->pairs[--e->n_pairs]; break;
    case 1: if (e->n_pairs < EDIT_PAIRS) e->pairs[e->n_pairs++] = *p; break;
    case 2: e->pairs[k] = *p; *p = other; break;
    case 3: p->key = chance(e, 4) ? scrambled(e, p->key) : word(e); break;
    case 4: p->type = pick(e, 14); if (!chance(e, 4)) p->value = new_value(e, p->type); break;
    case 5: p->value = other.value; p->type = other.type; break;
    default:
        if (p->type == GGUF_ARRAY) edit_array(e, p);
        else if (p->type == GGUF_STRING && chance(e, 2) && p->value.size >= 8) {
            struct text t = { .arena = e->arena };
            put_span(&t, scrambled(e, (struct span){ p->value.data + 8, p->value.size - 8 }));
            p->value = (struct span){ (const uint8_t *)t.data, t.size };
        }
        else p->value = new_value(e, p->type);
    }
}

static void edit_a_tensor(struct edit *e)
{
    static const uint8_t types[] = { 0, 1, 2, 3, 6, 7, 8, 10, 11, 12, 13, 14, 20, 23, 30, 39, 4, 9, 16, 24, 28, 34, 40 };
    if (!e->n_tensors) return;
    const uint32_t i = pick(e, e->n_tensors), k = pick(e, e->n_tensors);
    struct edit_tensor *t = &e->tensors[i];
    const struct edit_tensor other = e->tensors[k];
    switch (pick(e, 11)) {
    case 0: *t = e->tensors[--e->n_tensors]; break;
    case 1: if (e->n_tensors < EDIT_TENSORS) { e->tensors[e->n_tensors++] = *t; if (!chance(e, 4)) e->tensors[e->n_tensors
        - 1].name = word(e); } break;
    case 2: e->tensors[k] = *t; *t = other; break;
    case 3: t->name = chance(e, 4) ? scrambled(e, t->name) : word(e); break;
    case 4: if (t->n_dims) t->dims[pick(e, t->n_dims)] = edge(e); break;
    case 5: t->n_dims = pick(e, EDIT_DIMS + 1); break;
    case 6: t->type = types[pick(e, COUNT_OF(types))]; break;
    case 7: t->type = (uint32_t)edge(e); break;
    case 8: t->offset = chance(e, 2) ? edge(e) : t->offset + 32; e->keep_offsets = true; break;
    case 9: if (t->n_dims > 1) { const uint64_t d = t->dims[0]; t->dims[0] = t->dims[1]; t->dims[1] = d; } break;
    default: if (t->data.size) {
        t->data = copy_of(e, t->data, 0);
        static const uint8_t bits[][4] = { { 0, 0, 0xc0, 0x7f }, { 0, 0, 0x80, 0x7f }, { 0, 0x7c, 0, 0xfe }, { 0xff, 0xff, 0xff, 0xff },
                                           { 0, 0, 0, 0x80 } };
        const size_t at = pick(e, (uint32_t)t->data.size), n = t->data.size - at < 4 ? t->data.size - at : 4;
        memcpy((uint8_t *)(uintptr_t)t->data.data + at, bits[pick(e, COUNT_OF(bits))], n);
    }
    }
}

/* Changes a hyperparameter and the same size in every shape, so that the file stays consistent, unlike with changed bytes. */
static void edit_size(struct edit *e)
{
    for (uint32_t tries = 0; tries < 20 && e->n_pairs; tries++) {
        struct edit_pair *p = &e->pairs[pick(e, e->n_pairs)];
        if ((p->type != GGUF_U32 && p->type != GGUF_I32) || p->value.size != 4) continue;       /* edited types may be wrong */
        uint32_t old, new = chance(e, 4) ? (uint32_t)edge(e) : 8 * (1 + pick(e, 80));
        memcpy(&old, p->value.data, 4);
        p->value = copy_of(e, p->value, 0);
        memcpy((uint8_t *)(uintptr_t)p->value.data, &new, 4);
        for (uint32_t i = 0; i < e->n_tensors && old > 7; i++)
            for (uint32_t k = 0; k < e->tensors[i].n_dims; k++)
                if (e->tensors[i].dims[k] == old) e->tensors[i].dims[k] = new;
        return;
    }
}

/* Another format for all matrices, or for every second or third tensor. */
static void edit_format(struct edit *e)
{
    static const uint8_t types[] = { 0, 1, 2, 3, 6, 7, 8, 10, 11, 12, 13, 14, 20, 23, 30, 39 };
    const uint32_t type = types[pick(e, COUNT_OF(types))], part = 1 + pick(e, 3);
    for (uint32_t i = 0; i < e->n_tensors; i++) if (e->tensors[i].n_dims == 2 && i % part == 0) e->tensors[i].type = type;
}

/* Repeats layer 0 as layer n, with a right or a wrong count of layers. */
static void edit_layers(struct edit *e)
{
    const uint32_t n = e->n_tensors, layer = 1 + pick(e, 3);
    for (uint32_t i = 0; i < n && e->n_tensors < EDIT_TENSORS; i++) {
        struct edit_tensor t = e->tensors[i];
        if (t.name.size < 6 || memcmp(t.name.data, "blk.0.", 6) != 0) continue;
        t.name = span_of(arena_printf(e->arena, "blk.%u.%.*s", layer, (int)(t.name.size - 6), (const char *)t.name.data + 6));
        bool there = false;
        for (uint32_t k = 0; k < n; k++)
            there |= e->tensors[k].name.size == t.name.size && memcmp(e->tensors[k].name.data, t.name.data, t.name.size) == 0;
        if (!there) e->tensors[e->n_tensors++] = t;
    }
    for (uint32_t i = 0; i < e->n_pairs; i++) {
        struct edit_pair *p = &e->pairs[i];
        if (p->key.size < 12 || memcmp(p->key.data + p->key.size - 12, ".block_count", 12) != 0 || p->value.size != 4) continue;
        const uint32_t count = layer + 1;
        p->value = copy_of(e, p->value, 0);
        memcpy((uint8_t *)(uintptr_t)p->value.data, &count, 4);
    }
}

/* Another architecture, in general.architecture and in all keys. */
static void edit_architecture(struct edit *e)
{
    static const char *const names[] = { "llama", "qwen2", "qwen3" };
    const struct span old = architecture(e), new = span_of(names[pick(e, COUNT_OF(names))]);
    for (uint32_t i = 0; i < e->n_pairs; i++) {
        struct edit_pair *p = &e->pairs[i];
        struct text t = { .arena = e->arena };
        if (span_is(p->key, "general.architecture")) {
            put_span(&t, new);
            p->value = (struct span){ (const uint8_t *)t.data, t.size };
        }
        else if (p->key.size > old.size && memcmp(p->key.data, old.data, old.size) == 0 && p->key.data[old.size] == '.') {
            put(&t, new.data, new.size);
            put(&t, p->key.data + old.size, p->key.size - old.size);
            p->key = (struct span){ (const uint8_t *)t.data, t.size };
        }
    }
}

static void edit_once(struct edit *e)
{
    switch (pick(e, 20)) {
    case 0:  e->claimed_pairs = chance(e, 2) ? edge(e) : e->n_pairs + pick(e, 3) - 1; break;
    case 1:  e->claimed_tensors = chance(e, 2) ? edge(e) : e->n_tensors + pick(e, 3) - 1; break;
    case 2:  e->version = chance(e, 2) ? 2 + pick(e, 2) : (uint32_t)edge(e); break;
    case 3:  e->keep_offsets = true; break;
    case 4: case 5: case 6: edit_size(e); break;
    case 7:  edit_format(e); break;
    case 8:  edit_layers(e); break;
    case 9:  edit_architecture(e); break;
    case 10: case 11: case 12: case 13: case 14: edit_a_tensor(e); break;
    default: edit_a_pair(e); break;
    }
}

/* ---- called by libFuzzer ---- */

static struct edit *edit_open(uint64_t seed)
{
    static struct arena *kept;                                 /* never freed: the words are in it */
    if (!kept) words_read(kept = arena_create());
    struct arena *a = arena_create();
    struct edit *e = arena_new(a, struct edit);
    e->arena = a;
    e->random = (seed + 1) * 0x9e3779b97f4a7c15u | 1;
    return e;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    struct edit *e = edit_open(seed);
    size_t n = 0;
    void (*handler)(const char *) = die_handler;
    die_handler = NULL;                                        /* running out of memory here is not a finding */
    if (size > GGUF_PREFIX && !chance(e, 16) && edit_read(e, data + GGUF_PREFIX, size - GGUF_PREFIX)) {
        for (uint32_t i = 0, edits = chance(e, 2) ? 1 : 2 + pick(e, 4); i < edits; i++) edit_once(e);
        n = edit_write(e, data + GGUF_PREFIX, max_size - GGUF_PREFIX);
    }
    if (n && GGUF_PREFIX > 0 && chance(e, 3)) data[pick(e, GGUF_PREFIX > 0 ? GGUF_PREFIX : 1)] = (uint8_t)pick(e, 256);
    arena_destroy(e->arena);
    die_handler = handler;
    return n ? n + GGUF_PREFIX : LLVMFuzzerMutate(data, size, max_size);
}

size_t LLVMFuzzerCustomCrossOver(const uint8_t *data1, size_t size1, const uint8_t *data2, size_t size2, uint8_t *out, size_t max_out,
                                 unsigned seed)
{
    struct edit *e = edit_open(seed), *other = edit_open(seed);
    size_t n = 0;
    void (*handler)(const char *) = die_handler;
    die_handler = NULL;
    if (size1 > GGUF_PREFIX && size2 > GGUF_PREFIX && max_out > GGUF_PREFIX && edit_read(e, data1 + GGUF_PREFIX, size1 - GGUF_PREFIX) &&
        edit_read(other, data2 + GGUF_PREFIX, size2 - GGUF_PREFIX)) {
        const uint32_t what = pick(e, 3);
        for (uint32_t i = 0; i < e->n_pairs && i < other->n_pairs; i++)
            if (what == 0 ? chance(e, 4) : what == 1) e->pairs[i] = other->pairs[i];
        for (uint32_t i = 0; i < e->n_tensors && i < other->n_tensors && what == 2; i++)
            if (chance(e, 3)) e->tensors[i] = other->tensors[i];
        memcpy(out, data1, GGUF_PREFIX);
        n = edit_write(e, out + GGUF_PREFIX, max_out - GGUF_PREFIX);
    }
    arena_destroy(e->arena);
    arena_destroy(other->arena);
    die_handler = handler;
    return n ? n + GGUF_PREFIX : 0;
}
#endif
