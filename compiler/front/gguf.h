/* gguf.h -- a GGUF file (v2, v3, shards) as validated metadata and a tensor directory, mapped read-only.
 * Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.  Knows no architectures. */
#ifndef FORGEC_GGUF_H
#define FORGEC_GGUF_H
#include "compiler/base/base.h"
#include "compiler/format/format.h"

/* Name of any type id ever used by ggml ("Q4_2 (removed)", ...), for messages; NULL when unknown. */
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
    uint32_t                 n_dims;
    uint64_t                 ne[4];      /* GGUF order: ne[0] is contiguous; 1 beyond n_dims */
    const uint8_t           *data;       /* in the mapping; NULL when opened with GGUF_HEADER_ONLY and the data is absent */
    uint64_t                 bytes;
    uint32_t                 shard;
    uint64_t                 offset;     /* of the tensor's entry in its shard, for messages */
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

/* Maps path (and its sibling shards) and checks every value before it is used; dies with file, key or tensor, byte offset
 * and remedy.  The mapping lives as long as the process.  header_only: the tensor data may be missing (a header without weights). */
struct gguf *gguf_open(struct arena *a, const char *path, bool header_only);
/* The same over memory (fuzzing, tests): one shard. */
struct gguf *gguf_parse(struct arena *a, const char *name, const uint8_t *data, size_t size, bool header_only);

const struct gguf_value  *gguf_find(const struct gguf *g, const char *key);             /* NULL when absent */
const struct gguf_tensor *gguf_tensor_find(const struct gguf *g, const char *name);    /* NULL when absent; log n steps */
/* Typed access; false when absent; dies when the type is another (any integer type is taken for u64 if non-negative). */
bool gguf_get_u64(const struct gguf *g, const char *key, uint64_t *out);
bool gguf_get_f64(const struct gguf *g, const char *key, double *out);                 /* F32 or F64 only; dies on NaN and infinities */
bool gguf_get_bool(const struct gguf *g, const char *key, bool *out);
bool gguf_get_string(const struct gguf *g, const char *key, struct gguf_string *out);
/* Item i of a scalar numeric array, widened.  i < count. */
uint64_t gguf_item_u64(const struct gguf_value *v, uint64_t i);                        /* dies on negative */
double   gguf_item_f64(const struct gguf_value *v, uint64_t i);
/* Gives back the memory of pages with and around these bytes of a mapped file; whoever reads them again gets them from the file.  Else a
 * process that reads all of a file is as large as that. */
void gguf_release(const struct gguf *g, const uint8_t *data, uint64_t bytes);
/* XXH3-128 over metadata and tensor data of all shards, 32 hex digits. Reads the whole file once. */
const char *gguf_hash(struct arena *a, const struct gguf *g);
#endif
