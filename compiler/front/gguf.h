/* gguf.h -- a GGUF file (v2, v3, shards) as validated metadata and a tensor directory, mapped read-only.
 * Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. Does not depend on the architecture. */
#ifndef FORGEC_GGUF_H
#define FORGEC_GGUF_H
#include "compiler/base/base.h"
#include "compiler/format/format.h"

/* Name of any type id that ggml has ever used ("Q4_2 (removed)", ...), for messages; NULL if unknown. */
const char *quant_name_any(uint32_t id);

enum gguf_type { GGUF_U8, GGUF_I8, GGUF_U16, GGUF_I16, GGUF_U32, GGUF_I32, GGUF_F32, GGUF_BOOL, GGUF_STRING, GGUF_ARRAY,
                 GGUF_U64, GGUF_I64, GGUF_F64 };
const char *gguf_type_name(enum gguf_type type);
bool        gguf_type_is_signed(enum gguf_type type);        /* I8, I16, I32, I64 */

struct gguf_string { const char *data; uint64_t size; };     /* points into the mapping: not NUL-terminated, may hold any byte */
struct gguf_value {
    enum gguf_type     type;
    union { uint64_t u; int64_t i; double f; bool b; };      /* scalars, widened */
    struct gguf_string string;
    enum gguf_type     item_type;                            /* arrays */
    uint64_t           count;
    const uint8_t     *items;                                /* scalar items: raw little-endian, unaligned */
    struct gguf_string *strings;                             /* [count] when item_type is GGUF_STRING */
    /* arrays of arrays are validated and skipped: count and item_type are set, items is NULL */
    const char        *where;                                /* arrays: file, key and offset, for messages about an item */
};
struct gguf_pair { const char *key; struct gguf_value value; uint64_t offset; };   /* offset of the pair in its file */

struct gguf_tensor {
    const char              *name;       /* NUL-terminated copy, checked: printable, unique */
    const struct format     *quant;
    uint32_t                 n_dims;     /* 1 to 4; a scalar has 1 */
    uint64_t                 ne[4];      /* GGUF order: ne[0] is contiguous; 1 beyond n_dims */
    const uint8_t           *data;       /* in the mapping; NULL when opened with GGUF_HEADER_ONLY and the data is absent */
    uint64_t                 bytes;
    uint32_t                 shard;
    uint64_t                 offset;     /* of the tensor's entry in its shard, for messages */
    const struct gguf_tensor *made_of;   /* the file's tensor from which this one was made; NULL: this one is in the file */
};

struct gguf {
    const char         *path;            /* as given */
    uint32_t            version, n_shards;
    uint64_t            n_pairs, n_tensors, file_bytes;
    struct gguf_pair   *pairs;           /* [n_pairs], of the first shard */
    struct gguf_tensor *tensors;         /* [n_tensors], of all shards in file order */
    uint64_t            alignment;       /* of the first shard */
    struct gguf_index  *index;           /* sorted names and mappings; gguf.c only */
};

/* Maps path (and its sibling shards) and checks every value before it is used. Dies with file, key or tensor, byte offset
 * and remedy. The mapping lives as long as the process. header_only: the tensor data may be missing (a header without weights). */
struct gguf *gguf_open(struct arena *a, const char *path, bool header_only);
/* The same over memory (fuzzing, tests): one shard. */
struct gguf *gguf_parse(struct arena *a, const char *name, const uint8_t *data, size_t size, bool header_only);

const struct gguf_value  *gguf_find(const struct gguf *g, const char *key);             /* NULL when absent */
/* Index in g->tensors of t, or of the tensor that t was made from. */
static inline uint64_t gguf_tensor_index(const struct gguf *g, const struct gguf_tensor *t)
{
    return (uint64_t)((t->made_of ? t->made_of : t) - g->tensors);
}
const struct gguf_tensor *gguf_tensor_find(const struct gguf *g, const char *name);    /* NULL when absent; log n steps */
/* "4096 x 32", slowest dimension first. */
const char *gguf_shape(struct arena *a, const struct gguf_tensor *t);
/* Typed access. False if absent; dies if the type differs (u64 accepts any integer type if the value is non-negative). */
bool gguf_get_u64(const struct gguf *g, const char *key, uint64_t *out);
bool gguf_get_f64(const struct gguf *g, const char *key, double *out);                 /* any number; dies on NaN and infinities */
bool gguf_get_bool(const struct gguf *g, const char *key, bool *out);
bool gguf_get_string(const struct gguf *g, const char *key, struct gguf_string *out);
/* Item i of a scalar numeric array, widened.  i < count. */
uint64_t gguf_item_u64(const struct gguf_value *v, uint64_t i);                        /* dies on negative */
double   gguf_item_f64(const struct gguf_value *v, uint64_t i);
/* Releases the memory of the pages that hold these bytes of a mapped file. A later read loads them from the file again. Without this, a
 * process that reads a whole file needs as much memory as the file has bytes. */
void gguf_release(const struct gguf *g, const uint8_t *data, uint64_t bytes);
/* XXH3-128 of the metadata and tensor data of all shards, 32 hex digits. Reads the whole file once. */
const char *gguf_hash(struct arena *a, const struct gguf *g);
#endif
