/* transposed.c -- see transposed.h. */
#include "transposed.h"
#include "templates/ref/dequant.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Memory for its bytes is reserved, and filled when first needed: for all layers of DeepSeek-R1 they are 2 GB. */
struct transposed {
    struct gguf_tensor tensor;                    /* with made_of; the first member, so that a pointer to it also points to the whole */
    uint64_t           slices, count, first, every;
    bool               is_made;
};

const struct gguf_tensor *transposed_part(struct arena *a, const struct gguf_tensor *of, uint64_t slices, uint64_t count, uint64_t first,
                                          uint64_t every)
{
    const struct format *q = of->quant->block_weights == 1 ? of->quant : quant_find(QUANT_F32);
    const uint64_t cols = of->ne[0], size = q->block_bytes, bytes = slices * cols * count * size;
    struct transposed *t = arena_new(a, struct transposed);
    *t = (struct transposed){ .slices = slices, .count = count, .first = first, .every = every };
    t->tensor = (struct gguf_tensor){ .name = of->name, .quant = q, .n_dims = 3, .ne = { count, cols, slices, 1 }, .bytes = bytes,
                                      .shard = of->shard, .offset = of->offset, .made_of = of };
    if (of->data) t->tensor.data = arena_alloc(a, bytes);
    return &t->tensor;
}

static pthread_mutex_t making = PTHREAD_MUTEX_INITIALIZER;

static void make_transposed(struct transposed *t)
{
    const struct gguf_tensor *of = t->tensor.made_of;
    const struct format *q = t->tensor.quant;
    const uint64_t cols = of->ne[0], size = q->block_bytes;
    const size_t row_bytes = format_row_bytes(of->quant, cols);
    uint8_t *data = (uint8_t *)(uintptr_t)t->tensor.data;
    float *row = malloc((size_t)cols * sizeof *row);
    if (!row) die("out of memory for tensor %s", of->name);
    for (uint64_t s = 0; s < t->slices; s++)
        for (uint64_t r = 0; r < t->count; r++) {
            const uint8_t *from = of->data + (s * t->every + t->first + r) * row_bytes;
            if (q != of->quant) dequantize_row_ref(of->quant->id, row, from, cols);
            for (uint64_t c = 0; c < cols; c++)
                memcpy(data + ((s * cols + c) * t->count + r) * size, q == of->quant ? from + c * size : (const uint8_t *)&row[c], size);
        }
    free(row);
}

const uint8_t *transposed_data(const struct gguf_tensor *tensor)
{
    if (!tensor->made_of || !tensor->data) return tensor->data;
    struct transposed *t = (struct transposed *)(uintptr_t)tensor;
    pthread_mutex_lock(&making);
    if (!t->is_made) make_transposed(t);
    t->is_made = true;
    pthread_mutex_unlock(&making);
    return tensor->data;
}

void weight_release(const struct model *m, const struct weight *w)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    struct transposed *t = (struct transposed *)(uintptr_t)w->tensor;
    if (!w->tensor->made_of || !t->is_made) return;
    const uintptr_t begin = (uintptr_t)t->tensor.data, end = begin + t->tensor.bytes;
    const uintptr_t from = (begin + page - 1) / page * page, to = end / page * page;
    gguf_release(m->gguf, t->tensor.made_of->data, t->tensor.made_of->bytes);
    if (to > from) madvise((void *)from, to - from, MADV_DONTNEED);
    t->is_made = false;
}
