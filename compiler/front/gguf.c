/* gguf.c -- reads a GGUF file and trusts nothing in it: every count, length and offset is checked before it is used. Format:
 * https://github.com/ggml-org/ggml/blob/master/docs/gguf.md; shards: tools/gguf-split in ggml-org/llama.cpp. */
#include "gguf.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#  error "values are copied out of the file as they are: a little-endian machine is needed"
#endif

enum {
    KEY_SIZE_MAX = 65535,              /* docs/gguf.md: at most 2^16 - 1 bytes */
    TENSOR_NAME_MAX = 64,              /* docs/gguf.md: at most 64 bytes */
    ARRAY_DEPTH_MAX = 8,
    SHARDS_MAX = 65535,                /* split.count is u16 */
    PAIR_BYTES_MIN = 8 + 1 + 4 + 1,    /* key length, key, value type, smallest value */
    TENSOR_BYTES_MIN = 8 + 1 + 4 + 8 + 4 + 8,
    ALIGNMENT_DEFAULT = 32
};
#define ENTRIES_MAX (UINT64_C(1) << 24)
#define DAMAGED "the file is damaged or cut off: download or convert it again"

/* ---- types ---- */

const char *quant_name_any(uint32_t id)
{
    static const char *const names[] = {               /* enum ggml_type in ggml.h; ids are never reused */
        [0] = "F32", [1] = "F16", [2] = "Q4_0", [3] = "Q4_1", [4] = "Q4_2 (removed)", [5] = "Q4_3 (removed)",
        [6] = "Q5_0", [7] = "Q5_1", [8] = "Q8_0", [9] = "Q8_1", [10] = "Q2_K", [11] = "Q3_K", [12] = "Q4_K",
        [13] = "Q5_K", [14] = "Q6_K", [15] = "Q8_K", [16] = "IQ2_XXS", [17] = "IQ2_XS", [18] = "IQ3_XXS",
        [19] = "IQ1_S", [20] = "IQ4_NL", [21] = "IQ3_S", [22] = "IQ2_S", [23] = "IQ4_XS", [24] = "I8", [25] = "I16",
        [26] = "I32", [27] = "I64", [28] = "F64", [29] = "IQ1_M", [30] = "BF16", [31] = "Q4_0_4_4 (removed)",
        [32] = "Q4_0_4_8 (removed)", [33] = "Q4_0_8_8 (removed)", [34] = "TQ1_0", [35] = "TQ2_0",
        [36] = "IQ4_NL_4_4 (removed)", [37] = "IQ4_NL_4_8 (removed)", [38] = "IQ4_NL_8_8 (removed)",
        [39] = "MXFP4", [40] = "NVFP4", [41] = "Q1_0", [42] = "Q2_0",
    };
    return id < COUNT_OF(names) ? names[id] : NULL;
}

static const struct { const char *name; uint8_t bytes; } value_types[] = {     /* enum gguf_type; 0 bytes: varies */
    [GGUF_U8] = { "u8", 1 },   [GGUF_I8] = { "i8", 1 },   [GGUF_U16] = { "u16", 2 },  [GGUF_I16] = { "i16", 2 },
    [GGUF_U32] = { "u32", 4 }, [GGUF_I32] = { "i32", 4 }, [GGUF_F32] = { "f32", 4 },  [GGUF_BOOL] = { "bool", 1 },
    [GGUF_STRING] = { "string", 0 }, [GGUF_ARRAY] = { "array", 0 },
    [GGUF_U64] = { "u64", 8 }, [GGUF_I64] = { "i64", 8 }, [GGUF_F64] = { "f64", 8 },
};
_Static_assert(COUNT_OF(value_types) == 13, "docs/gguf.md, gguf_metadata_value_type: 0 to 12");

const char *gguf_type_name(enum gguf_type type) { return (size_t)type < COUNT_OF(value_types) ? value_types[type].name : "unknown"; }

/* ---- one file: bytes, a position, and the item being read there (for messages) ---- */

struct shard { const char *path; const uint8_t *data; size_t size; bool mapped; };

struct gguf_reader {
    struct arena  *arena;
    struct shard   file;
    uint64_t       at;                /* <= file.size */
    const char    *kind;              /* "key", "tensor" or "header" */
    uint64_t       number;            /* of the key or tensor, from 0 */
    const char    *name;              /* once it is known */
    size_t         name_size;
};

static _Noreturn void fail(struct gguf_reader *r, uint64_t offset, const char *fmt, ...) PRINTF_LIKE(3, 4);
static _Noreturn void fail(struct gguf_reader *r, uint64_t offset, const char *fmt, ...)
{
    char what[300] = "header", message[1024];
    if (r->name) snprintf(what, sizeof what, "%s \"%s\"", r->kind, printable(r->arena, r->name, r->name_size));
    else if (r->kind) snprintf(what, sizeof what, "%s %" PRIu64, r->kind, r->number);
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    die("%s: %s: byte %" PRIu64 ": %s", r->file.path, what, offset, message);
}

static uint64_t rest(const struct gguf_reader *r) { return r->file.size - r->at; }

/* Reads n bytes and advances the position; dies past the end. */
static const uint8_t *take(struct gguf_reader *r, uint64_t n, const char *what)
{
    if (n > rest(r)) fail(r, r->at, "%s needs %" PRIu64 " bytes, only %" PRIu64 " are left; " DAMAGED, what, n, rest(r));
    const uint8_t *p = r->file.data + r->at;
    r->at += n;
    return p;
}

static uint32_t take_u32(struct gguf_reader *r, const char *what)
{
    uint32_t value;
    memcpy(&value, take(r, sizeof value, what), sizeof value);
    return value;
}

static uint64_t take_u64(struct gguf_reader *r, const char *what)
{
    uint64_t value;
    memcpy(&value, take(r, sizeof value, what), sizeof value);
    return value;
}

static struct gguf_string take_string(struct gguf_reader *r, const char *what)
{
    const uint64_t at = r->at, size = take_u64(r, what);
    if (size > rest(r))
        fail(r, at, "%s claims %" PRIu64 " bytes, only %" PRIu64 " are left; " DAMAGED, what, size, rest(r));
    return (struct gguf_string){ .data = (const char *)take(r, size, what), .size = size };
}

/* A key or a tensor name: printable ASCII, as docs/gguf.md requires for keys. A NUL inside could make two names look alike. */
static const char *take_name(struct gguf_reader *r, uint64_t size_max)
{
    const uint64_t at = r->at;
    const struct gguf_string s = take_string(r, "name");
    if (s.size == 0) fail(r, at, "the name is empty; " DAMAGED);
    if (s.size > size_max)
        fail(r, at, "the name has %" PRIu64 " bytes, at most %" PRIu64 " are allowed; rename it in the source model and convert again",
             s.size, size_max);
    for (uint64_t i = 0; i < s.size; i++)
        if (s.data[i] < 0x20 || s.data[i] > 0x7e)
            fail(r, at + 8 + i, "the name \"%s\" has the byte 0x%02X at %" PRIu64 ", only printable ASCII is allowed; " DAMAGED,
                 printable(r->arena, s.data, s.size), (unsigned)(unsigned char)s.data[i], i);
    return arena_strndup(r->arena, s.data, s.size);
}

/* ---- names, sorted: a look-up takes log n steps, whatever names the file has ---- */

struct name { const char *text; uint32_t index; };        /* of a pair or a tensor */
struct names { struct name *sorted; uint64_t count; };

struct gguf_index {
    struct names   pairs, tensors;
    struct shard  *shards;            /* [n_shards] */
};

#define NO_NAME UINT32_MAX

static struct names names_create(struct arena *a, uint64_t count)
{
    return (struct names){ .sorted = arena_array(a, struct name, count), .count = count };
}

static int compare_names(const void *a, const void *b)
{
    const struct name *x = a, *y = b;
    const int order = strcmp(x->text, y->text);
    return order ? order : (x->index > y->index) - (x->index < y->index);
}

/* Sorts. Returns the first name in file order that repeats an earlier name, as a place in `sorted`, or NULL. */
static const struct name *names_sort(struct names *names)
{
    const struct name *again = NULL;
    if (names->count) qsort(names->sorted, names->count, sizeof *names->sorted, compare_names);
    for (uint64_t i = 1; i < names->count; i++) {
        const struct name *x = &names->sorted[i];
        if (!strcmp(x[-1].text, x->text) && (!again || x->index < again->index)) again = x;
    }
    return again;
}

static int compare_text(const void *key, const void *name) { return strcmp(key, ((const struct name *)name)->text); }

static uint32_t names_find(const struct names *names, const char *text)
{
    const struct name *found = names->count ? bsearch(text, names->sorted, names->count, sizeof *found, compare_text) : NULL;
    return found ? found->index : NO_NAME;
}

/* ---- values ---- */

static enum gguf_type take_type(struct gguf_reader *r, const char *what)
{
    const uint64_t at = r->at;
    const uint32_t type = take_u32(r, what);
    if (type >= COUNT_OF(value_types)) fail(r, at, "%s %" PRIu32 " is unknown (0 to 12 exist); " DAMAGED, what, type);
    return (enum gguf_type)type;
}

/* Reads the scalar of that type at p, widened. */
static void widen(struct gguf_value *v, enum gguf_type type, const uint8_t *p)
{
#define WIDEN(T, member) do { T x_; memcpy(&x_, p, sizeof x_); v->member = x_; } while (0)
    switch (type) {
    case GGUF_U8:   WIDEN(uint8_t, u);  break;
    case GGUF_I8:   WIDEN(int8_t, i);   break;
    case GGUF_U16:  WIDEN(uint16_t, u); break;
    case GGUF_I16:  WIDEN(int16_t, i);  break;
    case GGUF_U32:  WIDEN(uint32_t, u); break;
    case GGUF_I32:  WIDEN(int32_t, i);  break;
    case GGUF_U64:  WIDEN(uint64_t, u); break;
    case GGUF_I64:  WIDEN(int64_t, i);  break;
    case GGUF_F32:  { float x; memcpy(&x, p, sizeof x); v->f = (double)x; break; }
    case GGUF_F64:  WIDEN(double, f);   break;
    case GGUF_BOOL: v->b = *p != 0;     break;
    case GGUF_STRING: case GGUF_ARRAY:  assert(false); break;
    }
#undef WIDEN
}

static void check_bools(struct gguf_reader *r, uint64_t at, const uint8_t *items, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        if (items[i] > 1) fail(r, at + i, "a bool has the value %u, only 0 and 1 exist; " DAMAGED, (unsigned)items[i]);
}

/* v NULL: an array inside an array, which is checked and skipped. */
static void take_array(struct gguf_reader *r, struct gguf_value *v, uint32_t depth)
{
    const uint64_t at = r->at;
    if (depth > ARRAY_DEPTH_MAX) fail(r, at, "arrays are nested more than %d deep; " DAMAGED, ARRAY_DEPTH_MAX);
    const enum gguf_type type = take_type(r, "array item type");
    const uint64_t count = take_u64(r, "array count");
    const uint64_t least = type == GGUF_STRING ? 8 : type == GGUF_ARRAY ? 12 : value_types[type].bytes;
    if (count > rest(r) / least)
        fail(r, at, "the array claims %" PRIu64 " items of type %s, only %" PRIu64 " bytes are left; " DAMAGED, count,
             gguf_type_name(type), rest(r));
    if (v) {
        v->item_type = type;
        v->count = count;
        v->where = arena_printf(r->arena, "%s: key \"%s\": byte %" PRIu64, r->file.path, printable(r->arena, r->name, r->name_size), at);
    }
    if (type == GGUF_ARRAY) {
        for (uint64_t i = 0; i < count; i++) take_array(r, NULL, depth + 1);
    } else if (type == GGUF_STRING) {
        struct gguf_string *strings = v ? arena_array(r->arena, struct gguf_string, count) : NULL;
        for (uint64_t i = 0; i < count; i++) {
            const struct gguf_string s = take_string(r, "array item");
            if (strings) strings[i] = s;
        }
        if (v) v->strings = strings;
    } else {
        const uint64_t items_at = r->at;
        const uint8_t *items = take(r, count * least, "array");
        if (type == GGUF_BOOL) check_bools(r, items_at, items, count);
        if (v) v->items = items;
    }
}

static void take_value(struct gguf_reader *r, struct gguf_value *v)
{
    v->type = take_type(r, "value type");
    if (v->type == GGUF_ARRAY) {
        take_array(r, v, 1);
    } else if (v->type == GGUF_STRING) {
        v->string = take_string(r, "string");
    } else {
        const uint64_t at = r->at;
        const uint8_t *p = take(r, value_types[v->type].bytes, "value");
        if (v->type == GGUF_BOOL) check_bools(r, at, p, 1);
        widen(v, v->type, p);
    }
}

/* ---- header ---- */

#define CONVERT "convert the model's folder with convert_hf_to_gguf.py of llama.cpp, or download a .gguf file of the model"

/* What a file is that is not GGUF, and what to do; NULL: unknown. */
static const char *foreign_format(const uint8_t *data, size_t size)
{
    static const char lfs[] = "version https://git-lfs";
    uint64_t header = 0;
    for (size_t i = 0; i < 8 && i < size; i++) header |= (uint64_t)data[i] << 8 * i;
    size_t blanks = 0;
    while (blanks < size && blanks < 256 && strchr(" \t\r\n", data[blanks]) && data[blanks]) blanks++;
    const char *text = (const char *)data + blanks;
    const size_t n = size - blanks;
    if (size > 8 && header > 0 && header < 1u << 30 && data[8] == '{') return "this is a Safetensors file; " CONVERT;
    if (size >= sizeof lfs - 1 && !memcmp(data, lfs, sizeof lfs - 1))
        return "this is a Git LFS pointer, which stands for the model: run git lfs pull in its repository";
    if ((n >= 5 && !strncasecmp(text, "<html", 5)) || (n >= 9 && !strncasecmp(text, "<!doctype", 9)))
        return "this is a web page: the download got a page in place of the model; take the link that downloads the file";
    if (n >= 1 && (*text == '{' || *text == '['))
        return "this is JSON text, such as a model's config.json or the answer of a failed download; " CONVERT;
    if (size >= 4 && !memcmp(data, "PK\3\4", 4)) return "this is a ZIP file, such as PyTorch writes; " CONVERT;
    return NULL;
}

static void check_magic(struct gguf_reader *r)
{
    const uint8_t *data = r->file.data;
    if (r->file.size == 0) fail(r, 0, "the file is empty; download or convert it again");
    const char *foreign = foreign_format(data, r->file.size);
    if (foreign) die("%s: %s", r->file.path, foreign);
    if (r->file.size < 4) fail(r, 0, "the file has only %zu bytes; " DAMAGED, r->file.size);
    take(r, 4, "magic");
    if (memcmp(data, "GGUF", 4) == 0) return;
    static const char *const old[] = { "lmgg", "tjgg", "fmgg", "algg", "GGML", "GGJT", "ggml", "ggjt" };
    for (size_t i = 0; i < COUNT_OF(old); i++)
        if (memcmp(data, old[i], 4) == 0)
            fail(r, 0, "the file starts with \"%s\": a format from before GGUF; convert the model again with a current converter", old[i]);
    if (memcmp(data, "FUGG", 4) == 0)
        fail(r, 0, "the file starts with \"FUGG\": its bytes are in reverse order; convert the model again");
    fail(r, 0, "the file starts with \"%s\", a GGUF file with \"GGUF\"; give a .gguf file", printable(r->arena, (const char *)data, 4));
}

static uint32_t take_version(struct gguf_reader *r)
{
    const uint64_t at = r->at;
    const uint32_t version = take_u32(r, "version"), swapped = __builtin_bswap32(version);
    if (swapped >= 1 && swapped <= 3)
        fail(r, at, "a big-endian GGUF file (version %" PRIu32 "), forgec reads little-endian ones; convert it with gguf-py's"
             " gguf_convert_endian", swapped);
    if (version == 1)
        fail(r, at, "GGUF version 1 (of August 2023) is not read; convert the model again with a current converter");
    if (version != 2 && version != 3)
        fail(r, at, "GGUF version %" PRIu32 " is unknown, forgec reads 2 and 3; convert the model again", version);
    return version;
}

static uint64_t alignment_of(struct gguf_reader *r, const struct gguf *g)
{
    const struct gguf_value *v = gguf_find(g, "general.alignment");
    if (!v) return ALIGNMENT_DEFAULT;
    const uint64_t at = g->pairs[names_find(&g->index->pairs, "general.alignment")].offset;
    r->name = "general.alignment";
    r->name_size = strlen(r->name);
    if (v->type != GGUF_U32) fail(r, at, "the type is %s, u32 is needed; convert the model again", gguf_type_name(v->type));
    if (v->u == 0 || v->u % 8 != 0 || (v->u & (v->u - 1)) != 0)
        fail(r, at, "%" PRIu64 " is not a power of two from 8 on; convert the model again", v->u);
    r->name = NULL;
    return v->u;
}

static void take_pairs(struct gguf_reader *r, struct gguf *g)
{
    r->kind = "key";
    g->pairs = arena_array(r->arena, struct gguf_pair, g->n_pairs);
    g->index->pairs = names_create(r->arena, g->n_pairs);
    for (uint64_t i = 0; i < g->n_pairs; i++) {
        struct gguf_pair *pair = &g->pairs[i];
        r->number = i;
        r->name = NULL;
        pair->offset = r->at;
        pair->key = take_name(r, KEY_SIZE_MAX);
        r->name = pair->key;
        r->name_size = strlen(pair->key);
        g->index->pairs.sorted[i] = (struct name){ pair->key, (uint32_t)i };
        take_value(r, &pair->value);
    }
    const struct name *again = names_sort(&g->index->pairs);
    if (again) {
        r->name = again->text;
        r->name_size = strlen(again->text);
        fail(r, g->pairs[again->index].offset, "the key was already given at byte %" PRIu64 "; convert the model again",
             g->pairs[again[-1].index].offset);
    }
    r->name = NULL;
}

/* ---- tensors ---- */

static _Noreturn void fail_quant(struct gguf_reader *r, uint64_t at, uint32_t id)
{
    char list[256] = "";
    for (size_t i = 0; i < COUNT_OF(format_table); i++) {
        const size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", used ? " " : "", format_table[i].name);
    }
    const char *name = quant_name_any(id);
    if (name) fail(r, at, "type %s (id %" PRIu32 ") is not read by forgec; quantize the model to one of %s", name, id, list);
    fail(r, at, "type id %" PRIu32 " is unknown; quantize the model to one of %s", id, list);
}

/* *data_offset: in the data section, aligned, not yet checked against the end of the file. */
static void take_tensor(struct gguf_reader *r, struct gguf_tensor *t, uint64_t alignment, uint64_t *data_offset)
{
    t->offset = r->at;
    t->name = take_name(r, TENSOR_NAME_MAX);
    r->name = t->name;
    r->name_size = strlen(t->name);

    uint64_t at = r->at;
    t->n_dims = take_u32(r, "number of dimensions");
    if (t->n_dims > 4) fail(r, at, "%" PRIu32 " dimensions, 0 to 4 are possible; " DAMAGED, t->n_dims);
    uint64_t weights = 1;
    for (uint32_t i = 0; i < 4; i++) t->ne[i] = 1;
    for (uint32_t i = 0; i < t->n_dims; i++) {
        at = r->at;
        t->ne[i] = take_u64(r, "dimension");
        if (t->ne[i] == 0) fail(r, at, "dimension %" PRIu32 " is 0; " DAMAGED, i);
        if (__builtin_mul_overflow(weights, t->ne[i], &weights) || weights > INT64_MAX)
            fail(r, at, "dimension %" PRIu32 " is %" PRIu64 ": the tensor would have more than 2^63 weights; " DAMAGED, i, t->ne[i]);
    }
    if (!t->n_dims) t->n_dims = 1;                       /* a scalar is a vector of one item */

    at = r->at;
    const uint32_t id = take_u32(r, "type");
    t->quant = quant_find(id);
    if (!t->quant) fail_quant(r, at, id);
    const struct format *q = t->quant;
    if (t->ne[0] % q->block_weights != 0)
        fail(r, at, "rows of %" PRIu64 " weights are not a multiple of the %" PRIu32 " in a block of %s; quantize the model again with"
             " another type",
             t->ne[0], q->block_weights, q->name);
    if (__builtin_mul_overflow(weights / q->block_weights, (uint64_t)q->block_bytes, &t->bytes) || t->bytes > INT64_MAX)
        fail(r, at, "%" PRIu64 " weights of type %s are more than 2^63 bytes; " DAMAGED, weights, q->name);

    at = r->at;
    *data_offset = take_u64(r, "offset");
    if (*data_offset % alignment != 0)
        fail(r, at, "offset %" PRIu64 " is not a multiple of the alignment %" PRIu64 " (general.alignment); convert the model again",
             *data_offset, alignment);
}

struct span { uint64_t begin, bytes, tensor; };

static int compare_spans(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return (x->tensor > y->tensor) - (x->tensor < y->tensor);
}

static void refuse_overlaps(struct gguf_reader *r, const struct gguf *g, struct span *spans)
{
    qsort(spans, g->n_tensors, sizeof *spans, compare_spans);
    for (uint64_t i = 1; i < g->n_tensors; i++) {
        const struct span *a = &spans[i - 1], *b = &spans[i];
        if (b->begin - a->begin >= a->bytes) continue;
        const struct gguf_tensor *t = &g->tensors[b->tensor];
        r->name = t->name;
        r->name_size = strlen(t->name);
        fail(r, t->offset, "its data at offset %" PRIu64 " overlaps tensor \"%s\" (%" PRIu64 " bytes at %" PRIu64 "); " DAMAGED, b->begin,
             g->tensors[a->tensor].name, a->bytes, a->begin);
    }
}

static void take_tensors(struct gguf_reader *r, struct gguf *g, uint64_t alignment, bool header_only)
{
    r->kind = "tensor";
    g->tensors = arena_array(r->arena, struct gguf_tensor, g->n_tensors);
    struct span *spans = arena_array(r->arena, struct span, g->n_tensors);
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        r->number = i;
        r->name = NULL;
        take_tensor(r, &g->tensors[i], alignment, &spans[i].begin);
        spans[i].bytes = g->tensors[i].bytes;
        spans[i].tensor = i;
    }
    /* alignment < 2^32 and at is a position in the file, so this cannot overflow. */
    const uint64_t start = (r->at + alignment - 1) / alignment * alignment;
    const uint64_t room = r->file.size > start ? r->file.size - start : 0;
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        struct gguf_tensor *t = &g->tensors[i];
        const uint64_t begin = spans[i].begin;
        if (begin <= room && t->bytes <= room - begin) {
            t->data = r->file.data + start + begin;
        } else if (!header_only || begin > INT64_MAX) {
            r->name = t->name;
            r->name_size = strlen(t->name);
            if (!room)
                fail(r, t->offset, "%" PRIu64 " bytes of data do not fit in the 0 bytes after the header; " DAMAGED
                     ", or only a header: --weights none builds without the weights", t->bytes);
            fail(r, t->offset, "%" PRIu64 " bytes of data at offset %" PRIu64 " do not fit in the %" PRIu64 " bytes after the"
                 " header; " DAMAGED,
                 t->bytes, begin, room);
        }
    }
    refuse_overlaps(r, g, spans);
    r->name = NULL;
}

/* Parses one file without its siblings; tensors are not indexed yet. */
static struct gguf *parse_shard(struct arena *a, struct shard file, bool header_only)
{
    struct gguf_reader r = { .arena = a, .file = file };
    struct gguf *g = arena_new(a, struct gguf);
    g->path = file.path;
    g->n_shards = 1;
    g->file_bytes = file.size;
    g->index = arena_new(a, struct gguf_index);
    check_magic(&r);
    g->version = take_version(&r);
    g->n_tensors = take_u64(&r, "tensor count");
    g->n_pairs = take_u64(&r, "key count");
    if (g->n_tensors > rest(&r) / TENSOR_BYTES_MIN || g->n_tensors > ENTRIES_MAX)
        fail(&r, 8, "%" PRIu64 " tensors are claimed, more than the %" PRIu64 " bytes left can describe; " DAMAGED, g->n_tensors, rest(&r));
    if (g->n_pairs > rest(&r) / PAIR_BYTES_MIN || g->n_pairs > ENTRIES_MAX)
        fail(&r, 16, "%" PRIu64 " keys are claimed, more than the %" PRIu64 " bytes left can hold; " DAMAGED, g->n_pairs, rest(&r));
    take_pairs(&r, g);
    g->alignment = alignment_of(&r, g);
    take_tensors(&r, g, g->alignment, header_only);
    return g;
}

static void index_tensors(struct arena *a, struct gguf *g)
{
    struct names *names = &g->index->tensors;
    *names = names_create(a, g->n_tensors);
    for (uint64_t i = 0; i < g->n_tensors; i++) names->sorted[i] = (struct name){ g->tensors[i].name, (uint32_t)i };
    const struct name *again = names_sort(names);
    if (!again) return;
    const struct gguf_tensor *t = &g->tensors[again->index], *first = &g->tensors[again[-1].index];
    die("%s: tensor \"%s\": byte %" PRIu64 ": this name was already given at byte %" PRIu64 " of %s; convert the model again",
        g->index->shards[t->shard].path, t->name, t->offset, first->offset, g->index->shards[first->shard].path);
}

/* ---- shards: NAME-00001-of-00003.gguf has the metadata, the others only tensors ---- */

static struct shard map_file(struct arena *a, const char *path)
{
    struct shard file = { .path = arena_strdup(a, path) };
    const int fd = file_open(path);
    struct stat st;
    if (fstat(fd, &st) != 0) {
        const int error = errno;
        close(fd);
        die("%s: cannot read: %s", path, strerror(error));
    }
    input_remember(a, path);
    file.size = (size_t)st.st_size;
    if (file.size) {
        void *data = mmap(NULL, file.size, PROT_READ, MAP_PRIVATE, fd, 0);
        const int error = errno;
        close(fd);
        if (data == MAP_FAILED) die("%s: cannot map %zu bytes: %s; check ulimit -v", path, file.size, strerror(error));
        file.data = data;
        file.mapped = true;
        mapping_remember(path, data, file.size);
    } else {
        close(fd);
    }
    return file;
}

/* "-00001-of-00003.gguf" has 20 bytes; room for any u32. */
struct shard_suffix { char text[48]; };

static struct shard_suffix shard_suffix(uint64_t number, uint64_t count)
{
    struct shard_suffix s;
    snprintf(s.text, sizeof s.text, "-%05" PRIu32 "-of-%05" PRIu32 ".gguf", (uint32_t)number + 1, (uint32_t)count);
    return s;
}

static bool ends_with(const char *s, const char *end)
{
    const size_t n = strlen(s), m = strlen(end);
    return n >= m && strcmp(s + n - m, end) == 0;
}

/* A file that claims to be complete must not also say that it is a later shard, or that other shards have some of its tensors. */
static void refuse_lost_shard(const struct gguf *g, uint64_t count)
{
    uint64_t number, tensors;
    if (gguf_get_u64(g, "split.no", &number) && number)
        die("%s: key \"split.no\": shard number %" PRIu64 " though \"split.count\" is %" PRIu64 "; split the model again", g->path, number,
            count);
    if (gguf_get_u64(g, "split.tensors.count", &tensors) && tensors != g->n_tensors)
        die("%s: key \"split.tensors.count\": %" PRIu64 " tensors are claimed, this file holds %" PRIu64 " and names no other; split the"
            " model again",
            g->path, tensors, g->n_tensors);
}

/* split.count, or 0 if the file is not a shard; *number is its split.no. */
static uint64_t shard_count(const struct gguf *g, uint64_t *number)
{
    uint64_t count = 0;
    *number = 0;
    if (!gguf_get_u64(g, "split.count", &count) || count <= 1) {
        refuse_lost_shard(g, count);
        return 0;
    }
    if (count > SHARDS_MAX) die("%s: key \"split.count\": %" PRIu64 " shards are more than %d; " DAMAGED, g->path, count, SHARDS_MAX);
    if (!gguf_get_u64(g, "split.no", number))
        die("%s: key \"split.no\" is missing though \"split.count\" is %" PRIu64 "; split the model again", g->path, count);
    if (*number >= count)
        die("%s: key \"split.no\": shard number %" PRIu64 " is not below split.count, %" PRIu64 "; " DAMAGED, g->path, *number, count);
    return count;
}

/* Appends the tensors of the siblings of g, the first of count shards. */
static void join_shards(struct arena *a, struct gguf *g, uint64_t count, bool header_only)
{
    const struct shard_suffix own = shard_suffix(0, count);
    if (!ends_with(g->path, own.text))
        die("%s: the model is split into %" PRIu64 " files, the name of the first must end in \"%s\"; rename the files back", g->path,
            count, own.text);
    const size_t stem = strlen(g->path) - strlen(own.text);

    struct gguf **shards = arena_array(a, struct gguf *, count);
    struct shard *files = arena_array(a, struct shard, count);
    uint64_t total = g->n_tensors;
    shards[0] = g;
    files[0] = g->index->shards[0];
    for (uint64_t i = 1; i < count; i++) {
        const struct shard_suffix suffix = shard_suffix(i, count);
        const char *path = arena_printf(a, "%.*s%s", (int)stem, g->path, suffix.text);
        if (!file_exists(path))
            die("%s: shard %" PRIu64 " of %" PRIu64 " is missing; put all shards in the directory of the first", path, i + 1, count);
        files[i] = map_file(a, path);
        shards[i] = parse_shard(a, files[i], header_only);
        uint64_t number;
        const uint64_t its_count = shard_count(shards[i], &number);
        if (its_count != count || number != i)
            die("%s: says it is shard %" PRIu64 " of %" PRIu64 ", by its name it is %" PRIu64 " of %" PRIu64 "; download the shards again",
                path,
                number + 1, its_count, i + 1, count);
        total += shards[i]->n_tensors;
        g->file_bytes += files[i].size;
    }
    uint64_t expected;
    if (gguf_get_u64(g, "split.tensors.count", &expected) && expected != total)
        die("%s: key \"split.tensors.count\": %" PRIu64 " tensors are claimed, the shards hold %" PRIu64 "; download the shards again",
            g->path,
            expected, total);
    if (total > ENTRIES_MAX) die("%s: the shards hold %" PRIu64 " tensors, more than %" PRIu64 "; " DAMAGED, g->path, total, ENTRIES_MAX);

    struct gguf_tensor *tensors = arena_array(a, struct gguf_tensor, total);
    uint64_t n = 0;
    for (uint64_t i = 0; i < count; i++)
        for (uint64_t k = 0; k < shards[i]->n_tensors; k++) {
            tensors[n] = shards[i]->tensors[k];
            tensors[n++].shard = (uint32_t)i;
        }
    g->tensors = tensors;
    g->n_tensors = total;
    g->n_shards = (uint32_t)count;
    g->index->shards = files;
}

static struct gguf *open_shards(struct arena *a, struct shard file, bool on_disk, bool header_only)
{
    struct gguf *g = parse_shard(a, file, header_only);
    g->index->shards = arena_new(a, struct shard);
    g->index->shards[0] = file;
    uint64_t number;
    const uint64_t count = shard_count(g, &number);
    if (count && !on_disk) die("%s: the model is split into %" PRIu64 " files; they need names on a disk", g->path, count);
    if (count && number) {
        const struct shard_suffix own = shard_suffix(number, count), first = shard_suffix(0, count);
        const int stem = ends_with(g->path, own.text) ? (int)(strlen(g->path) - strlen(own.text)) : 0;
        die("%s: this is shard %" PRIu64 " of %" PRIu64 "; give the first one, %.*s%s", g->path, number + 1, count, stem, g->path,
            stem ? first.text : "whose split.no is 0");
    }
    if (count) join_shards(a, g, count, header_only);
    index_tensors(a, g);
    return g;
}

/* A folder is no model; one from Hugging Face holds a config.json and Safetensors files. */
static void refuse_folder(struct arena *a, const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) return;
    if (access(arena_printf(a, "%s/config.json", path), F_OK) == 0) die("%s: this is a folder of Hugging Face's form; " CONVERT, path);
    die("%s: is a directory, not a regular file; give a .gguf file", path);
}

struct gguf *gguf_open(struct arena *a, const char *path, bool header_only)
{
    refuse_folder(a, path);
    return open_shards(a, map_file(a, path), true, header_only);
}

struct gguf *gguf_parse(struct arena *a, const char *name, const uint8_t *data, size_t size, bool header_only)
{
    return open_shards(a, (struct shard){ .path = arena_strdup(a, name), .data = data, .size = size }, false, header_only);
}

/* ---- access ---- */

static const struct gguf_pair *find_pair(const struct gguf *g, const char *key)
{
    const uint32_t i = names_find(&g->index->pairs, key);
    return i != NO_NAME ? &g->pairs[i] : NULL;
}

const struct gguf_value *gguf_find(const struct gguf *g, const char *key)
{
    const struct gguf_pair *pair = find_pair(g, key);
    return pair ? &pair->value : NULL;
}

const char *gguf_shape(struct arena *a, const struct gguf_tensor *t)
{
    struct text s = { .arena = a };
    for (uint32_t i = t->n_dims; i-- > 0; ) text_printf(&s, "%llu%s", (unsigned long long)t->ne[i], i ? " x " : "");
    return text_str(&s);
}

const struct gguf_tensor *gguf_tensor_find(const struct gguf *g, const char *name)
{
    const uint32_t i = names_find(&g->index->tensors, name);
    return i != NO_NAME ? &g->tensors[i] : NULL;
}

static _Noreturn void die_pair(const struct gguf *g, const struct gguf_pair *pair, const char *what)
{
    die("%s: key \"%s\": byte %" PRIu64 ": %s; convert the model again", g->path, pair->key, pair->offset, what);
}

static _Noreturn void die_type(const struct gguf *g, const struct gguf_pair *pair, const char *wanted)
{
    die("%s: key \"%s\": byte %" PRIu64 ": the type is %s, %s is needed; convert the model again", g->path, pair->key, pair->offset,
        gguf_type_name(pair->value.type), wanted);
}

bool gguf_type_is_signed(enum gguf_type t) { return t == GGUF_I8 || t == GGUF_I16 || t == GGUF_I32 || t == GGUF_I64; }
static bool is_unsigned(enum gguf_type t) { return t == GGUF_U8 || t == GGUF_U16 || t == GGUF_U32 || t == GGUF_U64; }

bool gguf_get_u64(const struct gguf *g, const char *key, uint64_t *out)
{
    const struct gguf_pair *pair = find_pair(g, key);
    if (!pair) return false;
    const struct gguf_value *v = &pair->value;
    if (gguf_type_is_signed(v->type) && v->i < 0) die_pair(g, pair, "the number is negative");
    if (gguf_type_is_signed(v->type)) *out = (uint64_t)v->i;
    else if (is_unsigned(v->type)) *out = v->u;
    else die_type(g, pair, "an integer");
    return true;
}

bool gguf_get_f64(const struct gguf *g, const char *key, double *out)
{
    const struct gguf_pair *pair = find_pair(g, key);
    if (!pair) return false;
    const struct gguf_value *v = &pair->value;
    if (gguf_type_is_signed(v->type)) { *out = (double)v->i; return true; }
    if (is_unsigned(v->type)) { *out = (double)v->u; return true; }
    if (v->type != GGUF_F32 && v->type != GGUF_F64) die_type(g, pair, "a number");
    if (isnan(v->f)) die_pair(g, pair, "the value is not a number (NaN)");
    if (isinf(v->f)) die_pair(g, pair, "the value is infinite");
    *out = v->f;
    return true;
}

bool gguf_get_bool(const struct gguf *g, const char *key, bool *out)
{
    const struct gguf_pair *pair = find_pair(g, key);
    if (!pair) return false;
    if (pair->value.type != GGUF_BOOL) die_type(g, pair, "bool");
    *out = pair->value.b;
    return true;
}

bool gguf_get_string(const struct gguf *g, const char *key, struct gguf_string *out)
{
    const struct gguf_pair *pair = find_pair(g, key);
    if (!pair) return false;
    if (pair->value.type != GGUF_STRING) die_type(g, pair, "a string");
    *out = pair->value.string;
    return true;
}

/* Item i of an array of scalars as a scalar value. */
static struct gguf_value item(const struct gguf_value *v, uint64_t i)
{
    assert(v->type == GGUF_ARRAY && i < v->count);
    struct gguf_value x = { .type = v->item_type };
    if (!v->items)
        die("%s: the array items are of type %s, numbers are needed; convert the model again", v->where, gguf_type_name(v->item_type));
    widen(&x, v->item_type, v->items + i * value_types[v->item_type].bytes);
    return x;
}

uint64_t gguf_item_u64(const struct gguf_value *v, uint64_t i)
{
    const struct gguf_value x = item(v, i);
    if (x.type == GGUF_BOOL) return x.b;
    if (is_unsigned(x.type)) return x.u;
    if (!gguf_type_is_signed(x.type))
        die("%s: the array items are of type %s, integers are needed; convert the model again", v->where, gguf_type_name(x.type));
    if (x.i < 0) die("%s: array item %" PRIu64 " is %" PRId64 ", it must not be negative; convert the model again", v->where, i, x.i);
    return (uint64_t)x.i;
}

double gguf_item_f64(const struct gguf_value *v, uint64_t i)
{
    const struct gguf_value x = item(v, i);
    if (x.type == GGUF_BOOL) return x.b;
    if (is_unsigned(x.type)) return (double)x.u;
    return gguf_type_is_signed(x.type) ? (double)x.i : x.f;
}

/* A page fault also maps the pages around it, including earlier ones; so more than the given bytes is released. */
void gguf_release(const struct gguf *g, const uint8_t *data, uint64_t bytes)
{
    enum { AROUND = 1 << 21 };
    for (uint32_t i = 0; i < g->n_shards; i++) {
        const struct shard *s = &g->index->shards[i];
        if (!s->mapped || data < s->data || data + bytes > s->data + s->size) continue;
        const uint64_t at = (uint64_t)(data - s->data), from = at / AROUND * AROUND, to = (at + bytes + AROUND - 1) / AROUND * AROUND;
        madvise((void *)(uintptr_t)(s->data + from), (to < s->size ? to : s->size) - from, MADV_DONTNEED);
    }
}

const char *gguf_hash(struct arena *a, const struct gguf *g)
{
    enum { PART = 16 << 20 };
    XXH3_state_t *state = XXH3_createState();
    if (!state) die("out of memory while hashing %s", g->path);
    XXH3_128bits_reset(state);
    for (uint32_t i = 0; i < g->n_shards; i++)
        for (uint64_t at = 0, n; at < g->index->shards[i].size; at += n) {
            const struct shard *s = &g->index->shards[i];
            n = s->size - at < PART ? s->size - at : PART;
            XXH3_128bits_update(state, s->data + at, n);
            gguf_release(g, s->data + at, n);
        }
    const XXH128_hash_t hash = XXH3_128bits_digest(state);
    XXH3_freeState(state);
    return arena_printf(a, "%016" PRIx64 "%016" PRIx64, (uint64_t)hash.high64, (uint64_t)hash.low64);
}
