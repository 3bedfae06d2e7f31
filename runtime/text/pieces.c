/* pieces.c -- vocabularies without merges.  Unigram chooses the pieces with the largest sum of scores (Kudo 2018, arXiv:1804.10959);
 * WordPiece takes the longest piece each time (Wu et al. 2016, arXiv:1609.08144).  Normalisation and results of Unigram follow llama.cpp
 * (src/llama-vocab.cpp, llm_tokenizer_ugm), with one exception: text that begins like a user-defined token but continues differently is
 * normalised as in SentencePiece.  WordPiece follows the tokenizers library (BertNormalizer, BertPreTokenizer, WordPiece), or llama.cpp. */
#include "vocabulary.h"
#include "pretokenize.h"
#include "unicode.h"
#include <float.h>

/* ---- the tokens with which a text begins ---- */

struct prefix { uint32_t low, high; size_t length; };       /* range of v->sorted: the tokens that begin with the `length` bytes read so
                                                             * far */

/* Reads one more byte.  False: no token begins with these bytes. */
static bool prefix_read(const struct vocab *v, struct prefix *p, uint8_t byte)
{
    size_t length;
    if (p->length == 0) {
        p->low  = v->sorted_first[byte];
        p->high = v->sorted_first[byte + 1u];
    } else {
        symbol_text(v, v->sorted[p->low], &length);
        p->low += length == p->length;                      /* skips the token that ends here */
        uint32_t high = p->high;
        for (uint32_t low = p->low; low < high;) {          /* finds the first token with this byte, or a larger one */
            const uint32_t middle = low + (high - low) / 2;
            if (symbol_text(v, v->sorted[middle], &length)[p->length] < byte) p->low = low = middle + 1; else high = middle;
        }
        for (uint32_t low = p->low; low < p->high;) {       /* finds the first token after those */
            const uint32_t middle = low + (p->high - low) / 2;
            if (symbol_text(v, v->sorted[middle], &length)[p->length] <= byte) low = middle + 1; else p->high = middle;
        }
    }
    p->length++;
    return p->low < p->high;
}

/* The token with exactly the bytes read, or NONE.  The last prefix_read must have returned true. */
static uint32_t prefix_token(const struct vocab *v, const struct prefix *p)
{
    size_t length;
    symbol_text(v, v->sorted[p->low], &length);
    return length == p->length ? v->sorted[p->low] : NONE;
}

/* ---- Unigram ---- */

/* The longest text at s that the charsmap replaces: its length, 0 if nothing is replaced.  The charsmap is a double array whose children
 * are found by XOR (Kanda 2018, Space- and Time-Efficient String Dictionaries; Darts-clone).  A unit has its base in bits 10 and up,
 * shifted left by 8 if bit 9 is set; bit 8 says whether it has a replacement; the low 8 bits and bit 31 are the byte that leads to it. */
static size_t charsmap_find(const struct vocab *v, const uint8_t *s, size_t n, const uint8_t **replacement)
{
    size_t longest = 0;
    if (v->h->n_xcda == 0) return 0;
    uint32_t at = forge_xcda_base(v->xcda[0]);
    for (size_t i = 0; i < n && s[i] != 0; i++) {
        at ^= s[i];
        if (at >= v->h->n_xcda || (v->xcda[at] & FORGE_XCDA_LABEL) != s[i]) break;
        const uint32_t unit = v->xcda[at];
        at ^= forge_xcda_base(unit);
        if (unit & FORGE_XCDA_LEAF) {                       /* the compiler has checked where it leads */
            *replacement = v->replacement + (v->xcda[at] & FORGE_XCDA_VALUE);
            longest      = i + 1;
        }
    }
    return longest;
}

/* Writes s->normal; returns its length, at most 13 n + 3, because the compiler ensures that no replacement is longer. */
static size_t normalise(const struct vocab *v, const struct scratch *s, const uint8_t *text, size_t n)
{
    static const uint8_t malformed[3] = { 0xef, 0xbf, 0xbd };
    const bool merge    = v->h->flags & FORGE_VOCAB_MERGE_SPACES;
    bool       prefix   = v->h->flags & FORGE_VOCAB_SPACE_PREFIX, in_word = false;
    size_t     n_normal = 0;
    for (size_t i = 0, length; i < n; i += length) {
        const uint8_t *part = NULL;
        size_t         n_part;
        if ((length = charsmap_find(v, text + i, n - i, &part)) > 0) {
            for (n_part = 0; part[n_part]; n_part++) { }
        } else {
            pretoken_codepoint(text + i, n - i, &length);
            const bool bad = length == 1 && text[i] >= 0x80;
            part   = bad ? malformed : text + i;
            n_part = bad ? 3 : length;
        }
        for (size_t k = 0; k < n_part; k++) {
            const bool space = part[k] == ' ';
            if (space ? !merge : !in_word && (merge || prefix)) {
                memcpy(s->normal + n_normal, escaped_blank, 3);
                n_normal += 3;
                prefix = prefix && space;
            }
            if (!space) s->normal[n_normal++] = part[k];
            in_word = !space;
        }
    }
    return n_normal;
}

void unigram_text(const struct vocab *v, const struct scratch *s, const uint8_t *bytes, size_t n_bytes, struct output *o)
{
    const size_t   n    = normalise(v, s, bytes, n_bytes);
    const uint8_t *text = s->normal;
    struct best   *best = s->best;
    size_t         n_reached = 1;                           /* number of entries of best that have a score */
    uint32_t       at        = 0;                           /* index of the character that begins at i */
    best[0] = (struct best){ 0, NONE, 0 };
    for (size_t i = 0; i < n; at++) {
        const size_t  size = character_bytes(text[i], n - i);
        struct prefix p    = { 0 };
        bool          known = false;
        size_t        border = i + size;                    /* start of character `end`; a token that ends inside a character leads
                                                             * nowhere */
        uint32_t      end    = at + 1;
        if (n_reached == at + 1u) best[n_reached++] = (struct best){ -DBL_MAX, NONE, 0 };
        for (size_t k = i; k < n && prefix_read(v, &p, text[k]); k++) {
            if (k + 1 > border) {
                border += character_bytes(text[border], n - border);
                if (n_reached == ++end) best[n_reached++] = (struct best){ -DBL_MAX, NONE, 0 };
            }
            const uint32_t token = k + 1 == border ? prefix_token(v, &p) : NONE;
            if (token == NONE) continue;
            known |= end == at + 1;
            const double score = best[at].score + (double)forge_score(v->score[token]);
            if (score > best[end].score) best[end] = (struct best){ score, token, at };
        }
        const double unknown = best[at].score + (double)v->h->unknown_score;
        if (!known && unknown > best[at + 1].score) best[at + 1] = (struct best){ unknown, (uint32_t)v->h->unk, at };
        i += size;
    }
    /* Reverses the chain from `at` back to 0: start becomes the end of the piece that starts there, one entry later in best. */
    uint32_t after = NONE;
    for (uint32_t end = at, start; end > 0; after = end, end = start) {
        start           = best[end].start;
        best[end].start = after;
    }
    bool was_unknown = false;
    for (; after != NONE; after = best[after].start) {
        const bool unknown = best[after].token == (uint32_t)v->h->unk;
        if (best[after].token != NONE && !(unknown && was_unknown)) emit(o, best[after].token);
        was_unknown = unknown;
    }
}

/* ---- WordPiece ---- */

/* The replacement of a codepoint by the rows of a table. */
static uint32_t fold(const struct forge_fold *rows, uint32_t n, uint32_t c)
{
    uint32_t low = 0, high = n;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (rows[middle].last < c) low = middle + 1; else high = middle;
    }
    if (low == n || c < rows[low].first) return c;
    const uint32_t step = rows[low].step, by = c - rows[low].first;
    return step == 0 ? rows[low].to : by % step == 0 ? rows[low].to + by : c;
}

/* Codepoints that are words of their own.  U+2B920 is as in the tokenizers library, which meant U+2B820. */
static bool is_ideograph(uint32_t c)
{
    static const uint32_t ranges[][2] = { { 0x3400, 0x4dbf },   { 0x4e00, 0x9fff },   { 0xf900, 0xfaff },   { 0x20000, 0x2a6df },
                                          { 0x2a700, 0x2b73f }, { 0x2b740, 0x2b81f }, { 0x2b920, 0x2ceaf }, { 0x2f800, 0x2fa1f } };
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        if (c >= ranges[i][0] && c <= ranges[i][1]) return true;
    return false;
}

/* text: U+2581 and a word, n bytes.  If the word cannot be cut into pieces completely, the whole word is unknown. */
static void word(const struct vocab *v, const uint8_t *text, size_t n, struct output *o)
{
    const size_t before = o->n;
    if (n <= sizeof escaped_blank) return;
    for (size_t i = 0, length; i < n; i += length) {
        struct prefix p = { 0 };
        uint32_t      longest = NONE;
        length = 0;
        for (size_t k = i; k < n && prefix_read(v, &p, text[k]); k++) {
            const uint32_t token = prefix_token(v, &p);
            if (token != NONE) { longest = token; length = p.length; }
        }
        if (longest == NONE) {
            o->n = before;
            if (v->h->unk >= 0) emit(o, (uint32_t)v->h->unk);
            return;
        }
        emit(o, longest);
    }
}

enum { MAX_WORD = 100 };                                    /* longer words are unknown; the limit of every BERT */

/* The words of s->units, [n]. */
static void words(const struct vocab *v, const struct scratch *s, size_t n, struct output *o)
{
    const bool lower = v->h->flags & FORGE_VOCAB_LOWERCASE;
    memcpy(s->bytes, escaped_blank, sizeof escaped_blank);
    for (size_t i = 0, end; i < n; i = end) {
        size_t size = sizeof escaped_blank, length = 0;
        bool   known = true;                                /* U+2581 begins the words of the vocabulary and occurs nowhere else */
        for (end = i; end < n; end++) {
            const uint32_t c     = s->units[end];
            const uint32_t class = class_value(v->classes, v->h->n_classes, c, unicode_class(c));
            const bool     alone = class == UNICODE_PUNCTUATION || (class == UNICODE_SYMBOL && c < 0x7f);
            if (c == ' ' || (alone && end > i)) break;
            known = known && c != 0x2581;
            if (lower && c == 0x130) {                      /* the only letter with a lower case of two codepoints */
                size += forge_utf8_put(s->bytes + size, 'i');
                size += forge_utf8_put(s->bytes + size, 0x307);
                length += 2;
            } else {
                size += forge_utf8_put(s->bytes + size, lower ? fold(v->fold, v->h->n_fold_lower, c) : c);
                length++;
            }
            if (alone) { end++; break; }
        }
        if (known && length <= MAX_WORD) word(v, s->bytes, size, o);
        else if (v->h->unk >= 0) emit(o, (uint32_t)v->h->unk);
        if (end < n && s->units[end] == ' ') end++;
    }
}

/* BERT's normaliser and splitter: removes control characters, ends words at white space, makes each ideograph a word, removes accents,
 * makes punctuation and ASCII symbols words, and converts to lower case. */
static void bert_text(const struct vocab *v, const struct scratch *s, const uint8_t *text, size_t n, struct output *o)
{
    const bool strip = v->h->flags & FORGE_VOCAB_STRIP_ACCENTS;
    size_t     n_units = 0;
    for (size_t i = 0, length; i < n; i += length) {
        const uint32_t c     = pretoken_codepoint(text + i, n - i, &length);
        const uint32_t class = class_value(v->classes, v->h->n_classes, c, unicode_class(c));
        const bool     alone = is_ideograph(c);             /* at least three bytes */
        if (class == UNICODE_OTHER || c == 0xfffd) continue;
        if (alone) s->units[n_units++] = ' ';
        s->units[n_units++] = class == UNICODE_SPACE ? ' ' : c;
        if (alone) s->units[n_units++] = ' ';
    }
    if (strip) {
        const size_t n_all = normal_form(v, s, n_units, false);
        n_units = 0;
        for (size_t i = 0; i < n_all; i++) {
            const uint32_t c = s->units[i];
            if (class_value(v->classes, v->h->n_classes, c, unicode_class(c)) != UNICODE_MARK) s->units[n_units++] = c;
        }
    }
    words(v, s, n_units, o);
}

/* llama.cpp's version: a codepoint is replaced by the first codepoint of its decomposition. */
static void llama_cpp_text(const struct vocab *v, const struct scratch *s, const uint8_t *text, size_t n, struct output *o)
{
    const bool strip = v->h->flags & FORGE_VOCAB_STRIP_ACCENTS, lower = v->h->flags & FORGE_VOCAB_LOWERCASE;
    size_t     size  = sizeof escaped_blank;
    memcpy(s->normal, escaped_blank, sizeof escaped_blank);
    for (size_t i = 0, length; i < n; i += length) {
        uint32_t c = pretoken_codepoint(text + i, n - i, &length);
        if (strip) c = fold(v->fold, v->h->n_fold_base, c);
        const uint32_t class = class_value(v->classes, v->h->n_classes, c, unicode_class(c));
        const bool     alone = class == UNICODE_PUNCTUATION || (class == UNICODE_SYMBOL && c < 0x7f) || is_ideograph(c);
        if (class == UNICODE_SPACE || alone) {
            word(v, s->normal, size, o);
            size = sizeof escaped_blank;
        }
        if (class == UNICODE_SPACE || class == UNICODE_OTHER || c == 0xfffd || (strip && class == UNICODE_MARK)) continue;
        size += forge_utf8_put(s->normal + size, lower ? fold(v->fold + v->h->n_fold_base, v->h->n_fold_lower, c) : c);
        if (alone) {
            word(v, s->normal, size, o);
            size = sizeof escaped_blank;
        }
    }
    word(v, s->normal, size, o);
}

void wordpiece_text(const struct vocab *v, const struct scratch *s, const uint8_t *text, size_t n, struct output *o)
{
    if (v->h->flags & FORGE_VOCAB_LLAMA_CPP) llama_cpp_text(v, s, text, n, o); else bert_text(v, s, text, n, o);
}
