/* lexicon.c -- see lexicon.h. */
#include "runtime/model/vocab.h"             /* before the header that replaces <string.h> */
#include "lexicon.h"
#include "runtime/text/tokenize.h"

struct texts {
    uint8_t  *bytes;                     /* [offset[n]] */
    uint32_t *offset, *order;            /* [n + 1]; [n_order] tokens that are text */
    uint8_t  *length;                    /* [n] number of characters of a plain token, else 0 */
    uint32_t  n, n_order;
};

static size_t text_total(const uint8_t *vocab, uint32_t n)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < n; i++) bytes += forge_token_text(vocab, (int32_t)i, false, NULL, 0);
    return bytes;
}

static uint32_t tokens_of(const uint8_t *vocab, uint32_t n_vocab)
{
    const uint32_t n = forge_vocab_n_tokens(vocab);
    return n < n_vocab ? n : n_vocab;
}

size_t lexicon_room(const uint8_t *vocab, uint32_t n_vocab)
{
    const size_t n = tokens_of(vocab, n_vocab), total = text_total(vocab, (uint32_t)n);
    return total * (1 + sizeof(struct lexicon_node)) + n * (4 * 4 + 1) + (n_vocab / 32 + 1) * 8 + 256;
}

/* ids: ascending. */
static bool is_among(const uint32_t *ids, uint32_t n, uint32_t id)
{
    uint32_t first = 0;
    while (first < n) {
        const uint32_t middle = first + (n - first) / 2;
        if (ids[middle] == id) return true;
        if (ids[middle] < id) first = middle + 1; else n = middle;
    }
    return false;
}

/* A token that is never drawn is neither text nor an end. */
static bool is_drawn(const uint8_t *vocab, uint32_t id)
{
    uint32_t n;
    const uint32_t *suppressed = vocab_image_suppressed(vocab, &n);
    return !is_among(suppressed, n, id);
}
static bool is_end(const uint8_t *vocab, uint32_t id) { return forge_vocab_is_eog(vocab, (int32_t)id) && is_drawn(vocab, id); }

/* The number of characters of a plain text; 0 for any other text. */
static uint8_t plain_length(const uint8_t *p, size_t n)
{
    uint8_t count = 0;
    for (size_t i = 0, want; i < n; i += want, count++) {
        const uint8_t c = p[i];
        want = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
        if (want == 0 || want > n - i || c < 0x20 || c == '"' || c == '\\' || c == 0x7f || count == LEXICON_PLAIN) return 0;
        for (size_t k = 1; k < want; k++) if ((p[i + k] & 0xc0) != 0x80) return 0;
        if ((c == 0xe0 && p[i + 1] < 0xa0) || (c == 0xed && p[i + 1] > 0x9f) || (c == 0xf0 && p[i + 1] < 0x90) ||
            (c == 0xf4 && p[i + 1] > 0x8f)) return 0;
    }
    return count;
}

/* The byte of a text at depth, -1 at its end. */
static int byte_at(const struct texts *t, uint32_t id, size_t depth)
{
    return depth < t->offset[id + 1] - t->offset[id] ? t->bytes[t->offset[id] + depth] : -1;
}

/* Splits into three parts by the byte at depth, then sorts the middle part by the next byte.  (Bentley and Sedgewick 1997, Fast
 * algorithms for sorting and searching strings.) */
static void sort_texts(const struct texts *t, uint32_t *a, size_t n, size_t depth)
{
    while (n > 1) {
        const int pivot = byte_at(t, a[n / 2], depth);
        size_t less = 0, more = n;
        for (size_t i = 0; i < more; ) {
            const uint32_t id = a[i];
            const int byte = byte_at(t, id, depth);
            if (byte < pivot) { a[i++] = a[less]; a[less++] = id; }
            else if (byte > pivot) { a[i] = a[--more]; a[more] = id; }
            else i++;
        }
        sort_texts(t, a, less, depth);
        sort_texts(t, a + more, n - more, depth);
        if (pivot < 0) return;
        a += less;
        n = more - less;
        depth++;
    }
}

static bool read_texts(struct texts *t, const uint8_t *vocab, struct room *room)
{
    const size_t total = text_total(vocab, t->n);
    t->bytes = room_take(room, total);
    t->offset = room_array(room, t->n + 1u, sizeof *t->offset);
    t->order = room_array(room, t->n, sizeof *t->order);
    t->length = room_take(room, t->n);
    if (!t->bytes || !t->offset || !t->order || !t->length || total > UINT32_MAX) return false;
    t->offset[0] = 0;
    for (uint32_t i = 0; i < t->n; i++) {
        const uint32_t at = t->offset[i];
        const size_t n = forge_token_text(vocab, (int32_t)i, false, (char *)t->bytes + at, total - at);
        const bool text = n > 0 && n <= LEXICON_DEPTH && !forge_vocab_is_eog(vocab, (int32_t)i) && is_drawn(vocab, i);
        t->offset[i + 1] = at + (uint32_t)n;
        t->length[i] = text ? plain_length(t->bytes + at, n) : 0;
        if (text) t->order[t->n_order++] = i;
    }
    sort_texts(t, t->order, t->n_order, 0);
    return true;
}

/* Writes the tokens that are plain, or those that are not, as a tree in preorder.  nodes NULL: only counts the nodes. */
static uint32_t put_nodes(const struct texts *t, bool plain, struct lexicon_node *nodes)
{
    uint32_t path[LEXICON_DEPTH], n = 0, n_path = 0, before = 0;
    for (uint32_t i = 0; i < t->n_order; i++) {
        const uint32_t id = t->order[i], bytes = t->offset[id + 1] - t->offset[id];
        if ((t->length[id] > 0) != plain) continue;
        uint32_t same = 0;
        while (same < n_path && same < bytes && byte_at(t, id, same) == byte_at(t, before, same)) same++;
        if (same == bytes) same--;                           /* same text as another token: a separate node beside the other's */
        for (; n_path > same; n_path--) if (nodes) nodes[path[n_path - 1]].span |= n - path[n_path - 1];
        for (; n_path < bytes; n_path++) {
            path[n_path] = n;
            if (nodes) nodes[n] = (struct lexicon_node){ n_path << 22, (uint32_t)byte_at(t, id, n_path) << 24 | LEXICON_NO_TOKEN };
            n++;
        }
        if (nodes) nodes[n - 1].token ^= LEXICON_NO_TOKEN ^ id;
        before = id;
    }
    for (; nodes && n_path > 0; n_path--) nodes[path[n_path - 1]].span |= n - path[n_path - 1];
    return n;
}

static void set_bit(uint32_t *bits, uint32_t i) { bits[i / 32] |= 1u << i % 32; }

static bool put_lists(struct lexicon *x, const struct texts *t, struct room *room)
{
    uint32_t n_plain = 0, count[LEXICON_PLAIN + 2] = { 0 };
    for (uint32_t i = 0; i < t->n; i++) {
        x->n_ends += is_end(x->vocab, i);
        n_plain += t->length[i] > 0;
        count[t->length[i] + 1]++;
    }
    uint32_t *plain_bits = room_array(room, x->n_words, 4), *text_bits = room_array(room, x->n_words, 4);
    uint32_t *by_length = room_array(room, n_plain, 4), *ends = room_array(room, x->n_ends, 4);
    if (!plain_bits || !text_bits || !by_length || !ends) return false;
    memset(plain_bits, 0, x->n_words * sizeof *plain_bits);
    memset(text_bits, 0, x->n_words * sizeof *text_bits);
    count[1] = 0;
    for (uint32_t i = 1; i <= LEXICON_PLAIN; i++) x->length_end[i] = count[i + 1] += count[i];
    x->n_ends = 0;
    for (uint32_t i = 0; i < t->n; i++) {
        if (is_end(x->vocab, i)) ends[x->n_ends++] = i;
        if (t->length[i] == 0) continue;
        set_bit(plain_bits, i);
        by_length[count[t->length[i]]++] = i;
    }
    for (uint32_t i = 0; i < t->n_order; i++) set_bit(text_bits, t->order[i]);
    x->plain_bits = plain_bits;
    x->text_bits = text_bits;
    x->by_length = by_length;
    x->ends = ends;
    return true;
}

bool lexicon_make(struct lexicon *x, const uint8_t *vocab, uint32_t n_vocab, struct room *room)
{
    *x = (struct lexicon){ .vocab = vocab, .n_vocab = n_vocab, .n_words = (n_vocab + 31) / 32 };
    struct texts t = { .n = tokens_of(vocab, n_vocab) };
    if (n_vocab >= LEXICON_NO_TOKEN) return false;
    /* The lists are kept, then the trees.  The texts lie after the lists and are not kept: the trees are written after the texts and
     * then moved. */
    struct room texts = *room;
    const size_t lists = (size_t)x->n_words * 8 + t.n * 8u + 64;
    if (lists > texts.size - texts.used) return false;
    texts.used += lists;
    if (!read_texts(&t, vocab, &texts) || !put_lists(x, &t, room)) return false;
    x->n_plain_nodes = put_nodes(&t, true, NULL);
    x->n_rest_nodes = put_nodes(&t, false, NULL);
    const size_t n = (size_t)x->n_plain_nodes + x->n_rest_nodes;
    struct lexicon_node *made = room_array(&texts, n, sizeof *made);
    if (!made || x->n_plain_nodes >= LEXICON_MOST_NODES || x->n_rest_nodes >= LEXICON_MOST_NODES) return false;
    put_nodes(&t, true, made);
    put_nodes(&t, false, made + x->n_plain_nodes);
    struct lexicon_node *nodes = room_array(room, n, sizeof *nodes);
    memmove(nodes, made, n * sizeof *nodes);
    x->plain = nodes;
    x->rest = nodes + x->n_plain_nodes;
    return true;
}
