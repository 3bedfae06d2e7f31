/* vocab.h -- the vocabulary in a module's file: without the parts that can be computed from the rest.  They are zeros there, which
 * compress to nothing.  The compiler removes them, and the module computes them again in place before anything else reads the
 * vocabulary. */
#ifndef FORGE_WEB_VOCAB_H
#define FORGE_WEB_VOCAB_H
#include "runtime/model/vocab.h"

/* The sections that change; the others stay as they are. */
struct vocab_parts {
    const struct forge_vocab_header *h;
    uint32_t *text_offset, *token_bucket, *token_order, *merge_bucket, *merge_order;
    struct forge_merge *merge;
    const uint8_t *text;
};

static inline struct vocab_parts vocab_parts_of(uint8_t *image)
{
    const struct forge_vocab_header *h = (const void *)image;
    const struct forge_vocab_layout l = forge_vocab_layout(h);
    return (struct vocab_parts){ h, (void *)(image + l.text_offset), (void *)(image + l.token_bucket), (void *)(image + l.token_order),
                                 (void *)(image + l.merge_bucket), (void *)(image + l.merge_order), (void *)(image + l.merge),
                                 image + l.text };
}

/* Sets the tables and the results of merges to zero, and replaces offsets of texts by the lengths of the texts before them. */
static inline void vocab_leave_out(uint8_t *image)
{
    const struct vocab_parts v = vocab_parts_of(image);
    for (uint32_t i = v.h->n_symbols; i > 0; i--) v.text_offset[i] -= v.text_offset[i - 1];
    memset(v.token_bucket, 0, 4 * (v.h->token_buckets + (size_t)1));
    memset(v.token_order, 0, 4 * (size_t)v.h->n_symbols);
    memset(v.merge_bucket, 0, 4 * (v.h->merge_buckets + (size_t)1));
    memset(v.merge_order, 0, 4 * (size_t)v.h->n_merges);
    for (uint32_t i = 0; i < v.h->n_merges; i++) v.merge[i].result = 0;
}

static inline uint32_t vocab_text(const struct vocab_parts *v, uint32_t symbol, const uint8_t **text)
{
    *text = v->text + v->text_offset[symbol];
    return v->text_offset[symbol + 1] - v->text_offset[symbol];
}

/* ---- buckets of symbols by their texts, or of merges by their pairs ---- */

static inline uint32_t vocab_bucket(const struct vocab_parts *v, int merges, uint32_t i)
{
    if (merges) return forge_hash_bucket(forge_hash_pair(v->merge[i].left, v->merge[i].right), v->h->merge_buckets);
    const uint8_t *text;
    const uint32_t n = vocab_text(v, i, &text);
    return forge_hash_bucket(forge_hash_text(text, n), v->h->token_buckets);
}

/* True if i comes after j in their bucket; of symbols with equal texts the later one comes after. */
static inline int vocab_behind(const struct vocab_parts *v, int merges, uint32_t i, uint32_t j)
{
    if (merges) {
        const struct forge_merge *p = &v->merge[i], *q = &v->merge[j];
        return p->left != q->left ? p->left > q->left : p->right > q->right;
    }
    const uint8_t *x, *y;
    const uint32_t n = vocab_text(v, i, &x), m = vocab_text(v, j, &y);
    const int order = forge_text_order(x, n, y, m);
    return order ? order > 0 : i > j;
}

/* Shell sort: a bucket mostly has one or two entries, and texts that were chosen to collide cost less than the square of their number. */
static inline void vocab_sort(const struct vocab_parts *v, int merges, uint32_t *order, uint32_t n)
{
    for (uint32_t gap = n / 2; gap > 0; gap = gap == 2 ? 1 : gap * 5 / 11)
        for (uint32_t i = gap; i < n; i++) {
            const uint32_t one = order[i];
            uint32_t at = i;
            for (; at >= gap && vocab_behind(v, merges, order[at - gap], one); at -= gap) order[at] = order[at - gap];
            order[at] = one;
        }
}

/* bucket: [n_buckets + 1], zeros; order: [n]. */
static inline void vocab_fill(const struct vocab_parts *v, int merges, uint32_t n, uint32_t n_buckets, uint32_t *bucket, uint32_t *order)
{
    for (uint32_t i = 0; i < n; i++) bucket[vocab_bucket(v, merges, i)]++;
    for (uint32_t b = 0, end = 0; b <= n_buckets; b++) bucket[b] = end += bucket[b];         /* the end of the bucket */
    for (uint32_t i = n; i-- > 0;) order[--bucket[vocab_bucket(v, merges, i)]] = i;          /* finally the beginning of the bucket */
    for (uint32_t b = 0; b < n_buckets; b++) vocab_sort(v, merges, order + bucket[b], bucket[b + 1] - bucket[b]);
}

/* Removes duplicates: of symbols with the same text the last one stays. */
static inline void vocab_forget_twins(const struct vocab_parts *v)
{
    uint32_t kept = 0;
    for (uint32_t b = 0, from = 0; b < v->h->token_buckets; b++) {
        const uint32_t end = v->token_bucket[b + 1];
        v->token_bucket[b] = kept;
        for (; from < end; from++) {
            const uint8_t *x, *y = NULL;
            const uint32_t one = v->token_order[from], n = vocab_text(v, one, &x);
            const uint32_t m = from + 1 < end ? vocab_text(v, v->token_order[from + 1], &y) : 0;
            if (!y || forge_text_order(x, n, y, m)) v->token_order[kept++] = one;
        }
    }
    v->token_bucket[v->h->token_buckets] = kept;
    memset(v->token_order + kept, 0xff, 4 * (size_t)(v->h->n_symbols - kept));
}

/* The symbol whose text is the texts of two others joined. */
static inline uint32_t vocab_together(const struct vocab_parts *v, uint32_t left, uint32_t right)
{
    const uint8_t *x, *y, *whole;
    const uint32_t n = vocab_text(v, left, &x), m = vocab_text(v, right, &y);
    uint64_t hash = forge_hash_more(FORGE_HASH_BEGIN, x, n);
    hash = forge_hash_mix(forge_hash_more(hash, y, m));
    const uint32_t b = forge_hash_bucket(hash, v->h->token_buckets);
    for (uint32_t i = v->token_bucket[b]; i < v->token_bucket[b + 1]; i++)
        if (vocab_text(v, v->token_order[i], &whole) == n + m && !memcmp(whole, x, n) && !memcmp(whole + n, y, m)) return v->token_order[i];
    return FORGE_VOCAB_NONE;
}

static inline void vocab_complete(uint8_t *image)
{
    const struct vocab_parts v = vocab_parts_of(image);
    for (uint32_t i = 0; i < v.h->n_symbols; i++) v.text_offset[i + 1] += v.text_offset[i];
    vocab_fill(&v, 0, v.h->n_symbols, v.h->token_buckets, v.token_bucket, v.token_order);
    vocab_forget_twins(&v);
    vocab_fill(&v, 1, v.h->n_merges, v.h->merge_buckets, v.merge_bucket, v.merge_order);
    for (uint32_t i = 0; i < v.h->n_merges; i++) v.merge[i].result = vocab_together(&v, v.merge[i].left, v.merge[i].right);
}
#endif
