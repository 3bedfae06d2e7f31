/* tokenize.c -- text to token ids and back: first special tokens, then the merges of BPE or SentencePiece, or the pieces of pieces.c. */
#include "tokenize.h"
#include "pretokenize.h"
#include "vocabulary.h"

/* The symbol with exactly this text, or NONE. */
static uint32_t symbol_find(const struct vocab *v, const uint8_t *text, size_t n)
{
    const uint32_t bucket = forge_hash_bucket(forge_hash_text(text, n), v->h->token_buckets);
    uint32_t low = v->token_bucket[bucket], high = v->token_bucket[bucket + 1];
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2, id = v->token_order[middle];
        size_t         length;
        const uint8_t *t     = symbol_text(v, id, &length);
        const int      order = forge_text_order(text, n, t, length);
        if (order == 0) return id;
        if (order < 0) high = middle;
        else           low = middle + 1;
    }
    return NONE;
}

/* The token with exactly this text, or NONE. */
static uint32_t token_find(const struct vocab *v, const uint8_t *text, size_t n)
{
    const uint32_t symbol = n == 0 || n > v->h->max_token_bytes ? NONE : symbol_find(v, text, n);
    return symbol < v->h->n_tokens ? symbol : NONE;
}

/* The rank of the merge of two symbols, or NONE. */
static uint32_t merge_find(const struct vocab *v, uint32_t left, uint32_t right)
{
    if (v->h->n_merges == 0) return NONE;
    const uint64_t pair   = (uint64_t)left << 32 | right;
    const uint32_t bucket = forge_hash_bucket(forge_hash_pair(left, right), v->h->merge_buckets);
    uint32_t low = v->merge_bucket[bucket], high = v->merge_bucket[bucket + 1];
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2, rank = v->merge_order[middle];
        const uint64_t found  = (uint64_t)v->merge[rank].left << 32 | v->merge[rank].right;
        if (found == pair) return rank;
        if (pair < found) high = middle;
        else              low = middle + 1;
    }
    return NONE;
}

/* ---- scratch ---- */

enum { PRESENT_BITS = 1 << 16 };                            /* further special tokens share bits: a bit only saves a search */

static size_t scratch_layout(struct scratch *s, uint8_t *base, size_t n)
{
    size_t at = 0;
#define TAKE(field, count) do { if (base) s->field = (void *)(base + at); at += sizeof *s->field * (count); } while (0)
    TAKE(heap,    6 * n + 6);
    TAKE(symbols, 3 * n + 3);
    TAKE(claims,  n);
    TAKE(present, PRESENT_BITS / 32);
    TAKE(units,   2 * n);
    TAKE(bytes,   3 * n + 3);
    TAKE(encoded, 6 * n + 6);
#undef TAKE
    s->best   = (void *)s->heap;
    s->normal = (void *)s->units;
    return at;
}

size_t forge_tokenize_scratch(size_t n)
{
    struct scratch unused = { 0 };
    return n > FORGE_TOK_MAX_BYTES ? 0 : scratch_layout(&unused, NULL, n);
}

/* ---- merging: a queue of neighbouring pairs, best first, leftmost among equals ---- */

struct merging {
    const struct vocab *v;
    struct symbol      *symbols;
    uint64_t           *heap;              /* min-heap of priority << 32 | index of the left symbol */
    size_t              n_heap;
    const uint8_t      *text;              /* SentencePiece only */
    uint32_t            text_bytes;
};

static void heap_push(struct merging *m, uint64_t key)
{
    size_t i = m->n_heap++;
    for (size_t up; i > 0 && m->heap[up = (i - 1) / 2] > key; i = up) m->heap[i] = m->heap[up];
    m->heap[i] = key;
}

static uint64_t heap_pop(struct merging *m)
{
    const uint64_t top = m->heap[0], key = m->heap[--m->n_heap];
    size_t         i   = 0;
    for (size_t down; (down = 2 * i + 1) < m->n_heap; i = down) {
        if (down + 1 < m->n_heap && m->heap[down + 1] < m->heap[down]) down++;
        if (m->heap[down] >= key) break;
        m->heap[i] = m->heap[down];
    }
    m->heap[i] = key;
    return top;
}

static uint32_t piece_end(const struct merging *m, uint32_t i)
{
    return m->symbols[i].next == NONE ? m->text_bytes : m->symbols[m->symbols[i].next].value;
}

/* The priority of merging symbol i with its right neighbour; NONE: they do not merge. */
static uint32_t pair_priority(const struct merging *m, uint32_t i)
{
    const uint32_t next = m->symbols[i].next;
    if (next == NONE) return NONE;
    if (m->v->h->kind == FORGE_VOCAB_BPE) return merge_find(m->v, m->symbols[i].value, m->symbols[next].value);
    const uint32_t start = m->symbols[i].value;
    const uint32_t token = token_find(m->v, m->text + start, piece_end(m, next) - start);
    return token == NONE ? NONE : m->v->score[token];
}

static void pair_update(struct merging *m, uint32_t i)
{
    if (i == NONE) return;
    m->symbols[i].pair = pair_priority(m, i);
    if (m->symbols[i].pair != NONE) heap_push(m, (uint64_t)m->symbols[i].pair << 32 | i);
}

/* symbols[0 .. n-1]: value is set, in the order of the text.  Afterwards the chain from symbol 0 along `next` has the remaining symbols. */
static void merge_all(struct merging *m, uint32_t n)
{
    struct symbol *s = m->symbols;
    m->n_heap = 0;
    for (uint32_t i = 0; i < n; i++) {
        s[i].prev = i - 1;                                 /* NONE for the first */
        s[i].next = i + 1 < n ? i + 1 : NONE;
    }
    for (uint32_t i = 0; i < n; i++) pair_update(m, i);
    while (m->n_heap > 0) {
        const uint64_t key  = heap_pop(m);
        const uint32_t left = (uint32_t)key, pair = (uint32_t)(key >> 32), right = s[left].next;
        if (s[left].pair != pair || right == NONE) continue;             /* its symbols have changed since */
        if (m->v->h->kind == FORGE_VOCAB_BPE) s[left].value = m->v->merge[pair].result;
        s[left].next  = s[right].next;
        s[right].pair = NONE;
        if (s[left].next != NONE) s[s[left].next].prev = left;
        pair_update(m, s[left].prev);
        pair_update(m, left);
    }
}

/* ---- byte-level BPE ---- */

/* For a symbol that only occurs inside merges: emits the tokens of its bytes, as far as they exist. */
static void emit_spelt(const struct vocab *v, uint32_t symbol, struct output *o)
{
    size_t         n;
    const uint8_t *text = symbol_text(v, symbol, &n);
    for (size_t i = 0; i < n; i++)
        if (v->byte_token[text[i]] != NONE) emit(o, v->byte_token[text[i]]);
}

static uint32_t whole_word(const struct vocab *v, const struct scratch *s, size_t n)
{
    if (n > v->h->max_token_bytes) return NONE;
    size_t length = 0;
    for (size_t i = 0; i < n; i++) length += forge_utf8_put(s->encoded + length, forge_byte_codepoint(s->bytes[i]));
    return token_find(v, s->encoded, length);
}

static void bpe_word(const struct vocab *v, const struct scratch *s, const uint32_t *units, size_t n_units, struct output *o)
{
    size_t n = 0;
    for (size_t i = 0; i < n_units; i++) n += forge_utf8_put(s->bytes + n, PRETOKEN_CODEPOINT(units[i]));
    if (v->h->flags & FORGE_VOCAB_IGNORE_MERGES) {
        const uint32_t token = whole_word(v, s, n);
        if (token != NONE) { emit(o, token); return; }
    }
    struct merging m = { .v = v, .symbols = s->symbols, .heap = s->heap };
    for (size_t i = 0; i < n; i++) s->symbols[i].value = v->byte_symbol[s->bytes[i]];
    merge_all(&m, (uint32_t)n);
    for (uint32_t i = 0; i != NONE; i = s->symbols[i].next) {
        const uint32_t symbol = s->symbols[i].value;
        if (symbol < v->h->n_tokens) emit(o, symbol); else emit_spelt(v, symbol, o);
    }
}

/* Emits the byte tokens of text that is not a token, as far as they exist. */
static void emit_bytes(const struct vocab *v, const uint8_t *bytes, size_t n, bool or_unknown, struct output *o)
{
    for (size_t i = 0; i < n; i++) {
        const uint32_t token = v->byte_symbol[bytes[i]];
        if (token != NONE) emit(o, token);
        else if (or_unknown && v->h->unk >= 0) emit(o, (uint32_t)v->h->unk);
    }
}

/* Merges characters instead of bytes.  A character that is not a symbol never merges. */
static void bpe_characters(const struct vocab *v, const struct scratch *s, const uint32_t *units, size_t n, struct output *o)
{
    struct merging m = { .v = v, .symbols = s->symbols, .heap = s->heap };
    uint8_t        text[4];
    size_t         size;
    if (v->h->flags & FORGE_VOCAB_NEWLINES && PRETOKEN_CODEPOINT(units[0]) == '\n') {         /* then all of them are newlines */
        memset(s->bytes, '\n', n);
        const uint32_t token = token_find(v, s->bytes, n);
        if (token != NONE) { emit(o, token); return; }
    }
    for (size_t i = 0; i < n; i++) {
        size = forge_utf8_put(text, PRETOKEN_CODEPOINT(units[i]));
        s->symbols[i].value = symbol_find(v, text, size);
    }
    merge_all(&m, (uint32_t)n);
    for (uint32_t i = 0; i != NONE; i = s->symbols[i].next) {
        const uint32_t symbol = s->symbols[i].value;
        if (symbol < v->h->n_tokens) { emit(o, symbol); continue; }
        const uint8_t *spelt = symbol == NONE ? text : symbol_text(v, symbol, &size);
        if (symbol == NONE) size = forge_utf8_put(text, PRETOKEN_CODEPOINT(units[i]));
        emit_bytes(v, spelt, size, false, o);
    }
}

static void bpe_text(const struct vocab *v, const struct scratch *s, const uint8_t *text, size_t n, struct output *o)
{
    const bool   escaped = v->h->flags & FORGE_VOCAB_ESCAPED;
    size_t       n_units = pretoken_decode(s->units, text, n);
    if (v->h->flags & FORGE_VOCAB_NFC) n_units = normal_form(v, s, n_units, true);
    for (size_t i = 0; escaped && i < n_units; i++)
        if (PRETOKEN_CODEPOINT(s->units[i]) == ' ') s->units[i] = 0x2581;
    pretoken_split(s->units, n_units, (enum forge_pre)v->h->pre, v->h->flags & FORGE_VOCAB_LLAMA_CPP, v->classes, v->h->n_classes);
    for (size_t start = 0, end; start < n_units; start = end) {
        for (end = start + 1; end < n_units && !(s->units[end] & PRETOKEN_START); end++) { }
        if (escaped) bpe_characters(v, s, s->units + start, end - start, o);
        else bpe_word(v, s, s->units + start, end - start, o);
    }
}

/* ---- SentencePiece ---- */

static void spm_text(const struct vocab *v, const struct scratch *s, const uint8_t *text, size_t n, bool prefix, struct output *o)
{
    size_t length = 0;
    if (prefix) { memcpy(s->bytes, escaped_blank, 3); length = 3; }
    for (size_t i = 0; i < n; i++) {
        if (text[i] == ' ') { memcpy(s->bytes + length, escaped_blank, 3); length += 3; }
        else s->bytes[length++] = text[i];
    }
    uint32_t n_symbols = 0;
    for (size_t i = 0; i < length; i += character_bytes(s->bytes[i], length - i)) s->symbols[n_symbols++].value = (uint32_t)i;
    if (n_symbols == 0) return;

    struct merging m = { .v = v, .symbols = s->symbols, .heap = s->heap, .text = s->bytes, .text_bytes = (uint32_t)length };
    merge_all(&m, n_symbols);
    for (uint32_t i = 0; i != NONE; i = s->symbols[i].next) {
        const uint32_t start = s->symbols[i].value, size = piece_end(&m, i) - start;
        const uint32_t token = token_find(v, s->bytes + start, size);
        if (token != NONE) emit(o, token); else emit_bytes(v, s->bytes + start, size, true, o);          /* llama.cpp fails without unk */
    }
}

/* ---- special tokens in the text ---- */

enum { FREE = 0, TAKEN = 1, FIRST_TOKEN = 2 };              /* claims: FIRST_TOKEN + index in special, at its first byte */

static bool is_blank(uint8_t c) { return c == ' ' || (c >= 9 && c <= 13); }

/* Marks the special tokens whose text starts at `at`, by narrowing down the sorted texts byte by byte. */
static void mark_present(const struct vocab *v, uint32_t *present, const uint8_t *at, size_t n)
{
    uint32_t low = 0, high = v->h->n_special;
    for (size_t depth = 0; low < high; depth++) {
        size_t         length;
        const uint8_t *text = symbol_text(v, v->special[v->special_sorted[low]], &length);
        while (length == depth) {
            const uint32_t bit = v->special_sorted[low] % PRESENT_BITS;
            present[bit / 32] |= 1u << bit % 32;
            if (++low == high) return;
            text = symbol_text(v, v->special[v->special_sorted[low]], &length);
        }
        if (depth == n) return;
        uint32_t bounds[2];
        for (uint32_t side = 0; side < 2; side++) {         /* first text whose byte at depth is >= (side 0) or > (side 1) this text's */
            uint32_t a = side ? bounds[0] : low, b = high;
            while (a < b) {
                const uint32_t middle = a + (b - a) / 2;
                text = symbol_text(v, v->special[v->special_sorted[middle]], &length);
                if (text[depth] < at[depth] + side) a = middle + 1; else b = middle;
            }
            bounds[side] = a;
        }
        low  = bounds[0];
        high = bounds[1];
    }
}

/* A user-defined token of white space means the same as its text, from the template and from the user. */
static bool is_blank_text(uint8_t attr, const uint8_t *text, size_t n)
{
    if (!(attr & FORGE_ATTR_USER_DEFINED)) return false;
    for (size_t i = 0; i < n; i++) if (!is_blank(text[i])) return false;
    return true;
}

/* Claims every free occurrence of one special token, from the left, and the spaces that it removes.  input: as in forge_tokenize_marked. */
static void claim_token(const struct vocab *v, uint32_t *claims, uint32_t index, const uint8_t *text, const uint8_t *input, size_t n)
{
    size_t         length;
    const uint8_t  attr   = v->attr[v->special[index]];
    const uint8_t *needle = symbol_text(v, v->special[index], &length);
    if (input && is_blank_text(attr, needle, length)) input = NULL;
    for (size_t pos = 0; length <= n - pos;) {
        const uint8_t *hit = memchr(text + pos, needle[0], n - pos - length + 1);
        if (!hit) return;
        const size_t at = (size_t)(hit - text);
        pos = at + 1;
        if (claims[at] != FREE || memcmp(hit, needle, length) != 0) continue;
        if (input && memchr(input + at, 1, length)) continue;
        size_t free_bytes = 0;
        while (free_bytes < length && claims[at + free_bytes] == FREE) free_bytes++;
        if (free_bytes < length) continue;
        for (size_t i = 0; i < length; i++) claims[at + i] = TAKEN;
        claims[at] = FIRST_TOKEN + index;
        pos = at + length;
        if (attr & FORGE_ATTR_LSTRIP)
            for (size_t i = at; i > 0 && claims[i - 1] == FREE && is_blank(text[i - 1]); i--) claims[i - 1] = TAKEN;
        if (attr & FORGE_ATTR_RSTRIP)
            for (; pos < n && claims[pos] == FREE && is_blank(text[pos]); pos++) claims[pos] = TAKEN;
    }
}

/* Longer special tokens take precedence over shorter ones everywhere.  False: the text contains none. */
static bool claim_specials(const struct vocab *v, const struct scratch *s, const uint8_t *text, const uint8_t *input, size_t n,
                           bool control)
{
    const uint8_t wanted = control ? 1 : 2;
    bool          any    = false;
    for (size_t i = 0; i < n; i++) {
        if (!(v->special_first[text[i]] & wanted)) continue;
        if (!any) memset(s->present, 0, PRESENT_BITS / 8);
        any = true;
        mark_present(v, s->present, text + i, n - i);
    }
    if (!any) return false;
    memset(s->claims, 0, n * sizeof s->claims[0]);
    for (uint32_t i = 0; i < v->h->n_special; i++) {
        const uint32_t bit = i % PRESENT_BITS;
        if (!(s->present[bit / 32] >> bit % 32 & 1)) continue;
        if (!control && v->attr[v->special[i]] & (FORGE_ATTR_CONTROL | FORGE_ATTR_UNKNOWN)) continue;
        claim_token(v, s->claims, i, text, input, n);
    }
    return true;
}

int64_t forge_tokenize(const uint8_t *vocab, const char *text, size_t n, uint32_t flags, int32_t *out, size_t capacity,
                       void *scratch, size_t scratch_bytes)
{
    return forge_tokenize_marked(vocab, text, NULL, n, flags, out, capacity, scratch, scratch_bytes);
}

int64_t forge_tokenize_marked(const uint8_t *vocab, const char *text, const uint8_t *input, size_t n, uint32_t flags, int32_t *out,
                              size_t capacity, void *scratch, size_t scratch_bytes)
{
    if (n > FORGE_TOK_MAX_BYTES) return FORGE_TOK_TOO_LONG;
    if (!scratch || scratch_bytes < forge_tokenize_scratch(n)) return FORGE_TOK_NO_SCRATCH;
    const struct vocab v     = vocab_view(vocab);
    const uint8_t     *bytes = (const uint8_t *)text;
    struct scratch     s     = { 0 };
    struct output      o     = { .ids = out, .capacity = capacity };
    scratch_layout(&s, scratch, n);

    if (flags & FORGE_TOK_ADD && v.h->flags & FORGE_VOCAB_ADD_BOS && v.h->bos >= 0) emit(&o, (uint32_t)v.h->bos);
    const bool claimed       = n > 0 && claim_specials(&v, &s, bytes, input, n, flags & FORGE_TOK_SPECIAL);
    for (size_t pos = 0; pos < n;) {
        if (claimed && s.claims[pos] != FREE) {
            if (s.claims[pos] >= FIRST_TOKEN) emit(&o, v.special[s.claims[pos] - FIRST_TOKEN]);
            pos++;
            continue;
        }
        size_t end = n;
        if (claimed) for (end = pos; end < n && s.claims[end] == FREE; end++) { }     /* at the start or after a special token */
        switch (v.h->kind) {
        case FORGE_VOCAB_BPE:       bpe_text(&v, &s, bytes + pos, end - pos, &o); break;
        case FORGE_VOCAB_UNIGRAM:   unigram_text(&v, &s, bytes + pos, end - pos, &o); break;
        case FORGE_VOCAB_WORDPIECE: wordpiece_text(&v, &s, bytes + pos, end - pos, &o); break;
        default: spm_text(&v, &s, bytes + pos, end - pos, v.h->flags & FORGE_VOCAB_SPACE_PREFIX, &o);
        }
        pos = end;
    }
    if (flags & FORGE_TOK_ADD && v.h->flags & FORGE_VOCAB_ADD_EOS && v.h->eos >= 0) emit(&o, (uint32_t)v.h->eos);
    if (flags & FORGE_TOK_ADD && v.h->kind == FORGE_VOCAB_WORDPIECE && v.h->sep >= 0) emit(&o, (uint32_t)v.h->sep);
    return o.n <= capacity ? (int64_t)o.n : FORGE_TOK_NO_ROOM;
}

/* ---- tokens to text ---- */

struct sink { uint8_t *data; size_t n, capacity; };    /* n may exceed capacity */

static void put(struct sink *k, uint8_t byte)
{
    if (k->n < k->capacity) k->data[k->n] = byte;
    k->n++;
}
static void put_bytes(struct sink *k, const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) put(k, ((const uint8_t *)bytes)[i]);
}

/* Writes a text that is in the byte alphabet.  If it has a character outside of the alphabet, writes a note with the whole text, like
 * llama.cpp. */
static void put_decoded(struct sink *k, const uint8_t *text, size_t n)
{
    static const char hex[] = "0123456789abcdef";
    for (size_t i = 0, length; i < n; i += length) {
        const uint32_t c    = pretoken_codepoint(text + i, n - i, &length);
        const int      byte = forge_codepoint_byte(c);
        if (byte >= 0) {
            put(k, (uint8_t)byte);
        } else {
            uint8_t      utf8[4];
            const size_t n_utf8 = forge_utf8_put(utf8, c);
            put_bytes(k, "[UNK_BYTE_0x", 12);
            for (size_t j = 0; j < n_utf8; j++) { put(k, (uint8_t)hex[utf8[j] >> 4]); put(k, (uint8_t)hex[utf8[j] & 15]); }
            put_bytes(k, text, n);
            put(k, ']');
        }
    }
}

static void put_unescaped(struct sink *k, const uint8_t *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (n - i >= 3 && text[i] == 0xe2 && text[i + 1] == 0x96 && text[i + 2] == 0x81) { put(k, ' '); i += 2; }
        else put(k, text[i]);
    }
}

/* "<0x0A>": the value of the two hexadecimal digits. */
static uint8_t byte_value(const uint8_t *text, size_t n)
{
    uint32_t value = 0;
    for (size_t i = 3; i < 5 && i < n; i++) {
        const uint32_t c = text[i], low = c | 0x20;
        if (c - '0' < 10)        value = value * 16 + (c - '0');
        else if (low - 'a' < 6)  value = value * 16 + (low - 'a' + 10);
        else break;
    }
    return (uint8_t)value;
}

static void put_token(const struct vocab *v, int32_t id, bool special, struct sink *k)
{
    if (id < 0 || (uint32_t)id >= v->h->n_tokens) return;
    size_t         n;
    const uint8_t *text = symbol_text(v, (uint32_t)id, &n);
    const uint8_t  attr = v->attr[id];
    if (!special && attr & (FORGE_ATTR_CONTROL | FORGE_ATTR_UNKNOWN)) return;
    if (attr & (FORGE_ATTR_CONTROL | FORGE_ATTR_UNKNOWN | FORGE_ATTR_USER_DEFINED)) put_bytes(k, text, n);
    else if (attr & FORGE_ATTR_NORMAL && v->h->flags & FORGE_VOCAB_ESCAPED)         put_unescaped(k, text, n);
    else if (attr & FORGE_ATTR_NORMAL)                                              put_decoded(k, text, n);
    else if (attr & FORGE_ATTR_BYTE)                                                put(k, byte_value(text, n));
}

size_t forge_token_text(const uint8_t *vocab, int32_t id, bool special, char *out, size_t capacity)
{
    const struct vocab v = vocab_view(vocab);
    struct sink        k = { .data = (uint8_t *)out, .capacity = capacity };
    put_token(&v, id, special, &k);
    return k.n;
}

/* ---- accessors ---- */

static const struct forge_vocab_header *header(const uint8_t *vocab) { return (const void *)vocab; }
static uint8_t attr_of(const uint8_t *vocab, int32_t id)
{
    const struct vocab v = vocab_view(vocab);
    return id >= 0 && (uint32_t)id < v.h->n_tokens ? v.attr[id] : 0;
}

uint32_t forge_vocab_n_tokens(const uint8_t *vocab)               { return header(vocab)->n_tokens; }
int32_t  forge_vocab_bos(const uint8_t *vocab)                    { return header(vocab)->bos; }
int32_t  forge_vocab_eos(const uint8_t *vocab)                    { return header(vocab)->eos; }
int32_t  forge_vocab_eot(const uint8_t *vocab)                    { return header(vocab)->eot; }
int32_t  forge_vocab_unk(const uint8_t *vocab)                    { return header(vocab)->unk; }
int32_t  forge_vocab_pad(const uint8_t *vocab)                    { return header(vocab)->pad; }
int32_t  forge_vocab_fim(const uint8_t *vocab, uint32_t which)    { return which < FORGE_FIM_COUNT ? header(vocab)->fim[which] : -1; }
bool     forge_vocab_suffix_first(const uint8_t *vocab)           { return header(vocab)->flags & FORGE_VOCAB_SUFFIX_FIRST; }
bool     forge_vocab_add_bos(const uint8_t *vocab)                { return header(vocab)->flags & FORGE_VOCAB_ADD_BOS; }
bool     forge_vocab_add_eos(const uint8_t *vocab)                { return header(vocab)->flags & FORGE_VOCAB_ADD_EOS; }
bool     forge_vocab_is_llama_cpp(const uint8_t *vocab)           { return header(vocab)->flags & FORGE_VOCAB_LLAMA_CPP; }
bool     forge_vocab_differs(const uint8_t *vocab)                { return header(vocab)->flags & FORGE_VOCAB_DIFFERS; }
bool     forge_vocab_is_eog(const uint8_t *vocab, int32_t id)     { return attr_of(vocab, id) & FORGE_ATTR_EOG; }
bool     forge_vocab_is_control(const uint8_t *vocab, int32_t id) { return attr_of(vocab, id) & FORGE_ATTR_CONTROL; }

int32_t forge_vocab_find(const uint8_t *vocab, const char *text, size_t n)
{
    const struct vocab v     = vocab_view(vocab);
    const uint32_t     token = token_find(&v, (const uint8_t *)text, n);
    return token == NONE ? -1 : (int32_t)token;
}
