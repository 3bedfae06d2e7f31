/* pretokenize.c -- the splitting rules that byte-level BPE vocabularies were trained with, as small matchers.
 * A rule is a list of stages; each stage splits the words of the previous stage.  The regular expression of a matcher stands above it:
 * that of the models' own tokenizer.json, and also llama.cpp's (src/unicode.cpp, src/llama-vocab.cpp) where that is different. */
#include "pretokenize.h"
#include "unicode.h"
#include "vocabulary.h"

enum {
    UPPER = 1 << UNICODE_UPPER, LOWER = 1 << UNICODE_LOWER, L = 1 << UNICODE_LETTER | UPPER | LOWER,
    ND = 1 << UNICODE_DIGIT, N = 1 << UNICODE_NUMBER | ND, M = 1 << UNICODE_MARK, P = 1 << UNICODE_PUNCTUATION,
    S = 1 << UNICODE_SYMBOL, SPACE = 1 << UNICODE_SPACE, OTHER = 1 << UNICODE_OTHER | 1 << UNICODE_UNASSIGNED,
};

struct range { uint32_t first, last; };
struct set {                              /* a codepoint is in the set by class or by range */
    uint32_t            classes, n_ranges;
    const struct range *ranges;           /* ascending */
};
struct stage;
/* Returns the length of the match at pos, or minus the number of units to skip without a match.  pos < end; end is the end of the word.
 * Within the units that it returns, a matcher may set PRETOKEN_START itself. */
typedef ptrdiff_t matcher(const struct stage *stage, uint32_t *u, size_t pos, size_t end);

enum tokens       { BOTH, MODEL, LLAMA_CPP };                     /* stages for one of them are skipped for the other */
enum shape        { PLAIN, CASED, CASED_ASCII, SPACED };          /* <word> of match_words: described at the functions below */
enum contractions { NO_CONTRACTIONS, ALONE, BEHIND };             /* 's, 'll ...: separate words; the end of a word */
enum tail         { LINES, LINES_SLASHES, LINE, NO_TAIL };        /* after punctuation: [\r\n]* [\r\n/]* [\r\n]? nothing */
struct stage {
    matcher          *match;
    const struct set *set;
    uint32_t          digits;             /* most digits in a word */
    uint32_t          letters;            /* classes that make up words, except codepoints in set */
    uint32_t          other;              /* classes that make up punctuation */
    enum shape        shape;
    enum contractions contractions;
    enum tail         tail;
    bool              halves;             /* spaces are split into runs whose lengths are powers of two */
    enum tokens       of;                 /* never BOTH when a matcher is called */
};

/* ---- units ---- */

uint32_t pretoken_codepoint(const uint8_t *s, size_t n, size_t *length)
{
    static const uint32_t first_bits[5] = { 0, 0x7f, 0x1f, 0x0f, 0x07 };
    const uint8_t         lead = s[0];
    const size_t          want = lead < 0x80 ? 1 : lead < 0xc0 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf8 ? 4 : 0;
    *length = 1;
    if (want == 0 || want > n) return 0xfffd;
    uint32_t c = lead & first_bits[want];
    for (size_t i = 1; i < want; i++) {
        if ((s[i] & 0xc0) != 0x80) return 0xfffd;
        c = c << 6 | (s[i] & 0x3f);
    }
    *length = want;
    return c < 0x110000 ? c : 0xfffd;
}

size_t pretoken_decode(uint32_t *units, const uint8_t *text, size_t n)
{
    size_t n_units = 0;
    for (size_t i = 0, length; i < n; i += length) units[n_units++] = pretoken_codepoint(text + i, n - i, &length);
    return n_units;
}

static inline uint32_t codepoint(uint32_t unit)                { return PRETOKEN_CODEPOINT(unit); }
static inline bool     is(uint32_t unit, uint32_t classes)     { return classes >> (unit >> 21 & 15) & 1; }
static inline bool     is_newline(uint32_t unit)               { return codepoint(unit) == '\r' || codepoint(unit) == '\n'; }
static inline bool     is_ascii_lower(uint32_t unit)           { return codepoint(unit) - 'a' < 26; }
static inline bool     is_ascii_upper(uint32_t unit)           { return codepoint(unit) - 'A' < 26; }
static inline bool     is_ascii_letter(uint32_t unit)          { return is_ascii_lower(unit) || is_ascii_upper(unit); }

static bool in_set(uint32_t unit, const struct stage *s)
{
    const struct set *set = s->set;
    const uint32_t    c   = codepoint(unit);
    if (is(unit, set->classes)) return true;
    if (s->of == LLAMA_CPP && c >= 0x80 && is(unit, SPACE)) return false;      /* llama.cpp first replaces these by a control character */
    uint32_t low = 0, high = set->n_ranges;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (c > set->ranges[middle].last) low = middle + 1; else high = middle;
    }
    return low < set->n_ranges && c >= set->ranges[low].first;
}

/* The first position at or after pos that is not in these classes. */
static size_t skip(const uint32_t *u, size_t pos, size_t end, uint32_t classes)
{
    while (pos < end && is(u[pos], classes)) pos++;
    return pos;
}
/* The same, skipping at most `most` units. */
static size_t skip_most(const uint32_t *u, size_t pos, size_t end, uint32_t classes, size_t most)
{
    return skip(u, pos, end - pos < most ? end : pos + most, classes);
}
static ptrdiff_t length(size_t pos, size_t end) { return (ptrdiff_t)(end - pos); }

/* ---- sets: one class of characters is split off ---- */

/* [set] */
static ptrdiff_t match_each(const struct stage *s, uint32_t *u, size_t pos, size_t end)
{
    (void)end;
    return in_set(u[pos], s) ? 1 : -1;
}
/* [set]+ */
static ptrdiff_t match_run(const struct stage *s, uint32_t *u, size_t pos, size_t end)
{
    size_t e = pos;
    while (e < end && in_set(u[e], s)) e++;
    return e > pos ? length(pos, e) : -1;
}
/* \s?[set]+ */
static ptrdiff_t match_space_run(const struct stage *s, uint32_t *u, size_t pos, size_t end)
{
    size_t e = pos + is(u[pos], SPACE);
    if (e == end || !in_set(u[e], s)) return -1;
    while (e < end && in_set(u[e], s)) e++;
    return length(pos, e);
}
/* \s+$ */
static ptrdiff_t match_trailing_space(const struct stage *s, uint32_t *u, size_t pos, size_t end)
{
    (void)s;
    const size_t e = skip(u, pos, end, SPACE);
    if (e == pos) return -1;
    return e == end ? length(pos, e) : -length(pos, e);
}
/*  ?[^set]+ */
static ptrdiff_t match_blank_others(const struct stage *s, uint32_t *u, size_t pos, size_t end)
{
    size_t e = pos + (codepoint(u[pos]) == ' ');
    if (e == end || in_set(u[e], s)) return -1;
    while (e < end && !in_set(u[e], s)) e++;
    return length(pos, e);
}
/* [^\n]+|\n+ */
static ptrdiff_t match_lines(const struct stage *s, uint32_t *u, size_t pos, size_t end)
{
    (void)s;
    const bool newline = codepoint(u[pos]) == '\n';
    size_t     e       = pos;
    while (e < end && (codepoint(u[e]) == '\n') == newline) e++;
    return length(pos, e);
}
/* [0-9][0-9][0-9] */
static ptrdiff_t match_three_digits(const struct stage *s, uint32_t *u, size_t pos, size_t end)
{
    (void)s;
    if (end - pos < 3) return -length(pos, end);
    for (size_t i = 0; i < 3; i++)
        if (codepoint(u[pos + i]) - '0' > 9) return -1 - (ptrdiff_t)i;
    return 3;
}
/* \p{N}{1,digits} */
static ptrdiff_t match_numbers(const struct stage *s, uint32_t *u, size_t pos, size_t end)
{
    const size_t e = skip_most(u, pos, end, N, s->digits);
    return e > pos ? length(pos, e) : -1;
}

/* llama.cpp's replacement for the next two: splits numbers into groups of three digits, of which the first may be shorter.  Text before
 * a number stays with the first group, because a later stage splits there. */
static ptrdiff_t match_threes(const struct stage *s, uint32_t *u, size_t pos, size_t end)
{
    (void)s;
    size_t first = pos;
    while (first < end && !is(u[first], N)) first++;
    const size_t e = skip(u, first, end, N);
    if (e == first) return -length(pos, end);
    for (size_t cut = e - 3; e - first > 3 && cut > first; cut -= cut - first > 3 ? 3 : cut - first) u[cut] |= PRETOKEN_START;
    return length(pos, e);
}
/* \p{Nd}+, and within it \A\p{Nd}{1,2}(?=\p{Nd}{3}+\z), \p{Nd}{3} */
static ptrdiff_t match_digit_threes(const struct stage *s, uint32_t *u, size_t pos, size_t end)
{
    (void)s;
    const size_t e = skip(u, pos, end, ND);
    if (e == pos) return -1;
    for (size_t cut = e; cut - pos > 3; u[cut] |= PRETOKEN_START) cut -= 3;
    return length(pos, e);
}
/* \d{1,3}(?=(?:\d{3})*\b): the same for digits that are not followed by another part of a word. */
static ptrdiff_t match_digits_alone(const struct stage *s, uint32_t *u, size_t pos, size_t end)
{
    const size_t e = skip(u, pos, end, ND);
    if (e == pos) return -1;
    return e < end && (is(u[e], L | M) || in_set(u[e], s)) ? -length(pos, e) : match_digit_threes(s, u, pos, e);
}
/* (?=(\d{3})+(?!\d)); llama.cpp's \d is ASCII only */
static ptrdiff_t match_before_threes(const struct stage *s, uint32_t *u, size_t pos, size_t end)
{
    size_t e = pos;
    while (e < end && (s->of == LLAMA_CPP ? codepoint(u[e]) - '0' < 10 : is(u[e], ND))) e++;
    if (e == pos) return -1;
    for (size_t cut = e; cut - pos >= 3;) {
        cut -= 3;
        u[cut] |= PRETOKEN_START;
    }
    return -length(pos, e);
}
/* IMGIMG[A-I]{1,4}Z, only in Chameleon.  Its <sentinel:[0-9]+> needs no stage, because a later stage splits at each < and >. */
static ptrdiff_t match_image(const struct stage *s, uint32_t *u, size_t pos, size_t end)
{
    static const char text[] = "IMGIMG";
    (void)s;
    size_t e = pos;
    while (e < end && e - pos < sizeof text - 1 && codepoint(u[e]) == (uint8_t)text[e - pos]) e++;
    if (e - pos < sizeof text - 1) return -1;
    const size_t letters = e;
    while (e < end && e - letters < 4 && codepoint(u[e]) - 'A' < 9) e++;
    return e > letters && e < end && codepoint(u[e]) == 'Z' ? length(pos, e + 1) : -1;
}
/* [\t\n]|    |   : a tab, a newline, four spaces, two spaces */
static ptrdiff_t match_indent(const struct stage *s, uint32_t *u, size_t pos, size_t end)
{
    (void)s;
    if (codepoint(u[pos]) == '\t' || codepoint(u[pos]) == '\n') return 1;
    size_t e = pos;
    while (e < end && e - pos < 4 && codepoint(u[e]) == ' ') e++;
    return e - pos == 4 ? 4 : e - pos >= 2 ? 2 : -1;
}

/* ---- complete rules: every unit belongs to a match ---- */

/* '(?:s|t|m|d|re|ve|ll) in this case only: its length, or 0. */
static size_t contraction(const uint32_t *u, size_t pos, size_t end)
{
    if (end - pos < 2 || codepoint(u[pos]) != '\'') return 0;
    const uint32_t a = codepoint(u[pos + 1]);
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    if (end - pos < 3) return 0;
    const uint32_t b = codepoint(u[pos + 2]);
    return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}
/* The same in any case.  The only non-ASCII letter that is equal to one of these in another case is the long s; llama.cpp ignores it. */
static size_t contraction_any_case(const struct stage *s, const uint32_t *u, size_t pos, size_t end)
{
    uint32_t folded[3] = { 0 };
    for (size_t i = 0; i < 3 && pos + i < end; i++)
        folded[i] = is_ascii_letter(u[pos + i]) ? u[pos + i] | 0x20 : codepoint(u[pos + i]) == 0x17f && s->of == MODEL ? 's' : u[pos + i];
    return contraction(folded, 0, end - pos < 3 ? end - pos : 3);
}

/* At white space.  newlines: \s*[\r\n]+ is matched first.  Then \s+(?!\S)|\s+: the last space stays with the next word. */
static ptrdiff_t match_space(const uint32_t *u, size_t pos, size_t end, bool newlines)
{
    const size_t e = skip(u, pos, end, SPACE);
    if (newlines)
        for (size_t i = e; i > pos; i--)
            if (is_newline(u[i - 1])) return length(pos, i);
    return length(pos, e) - (e < end && e - pos > 1);
}

/* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)   and the remaining spaces one by one */
static ptrdiff_t match_gpt2(const struct stage *s, uint32_t *u, size_t pos, size_t end)
{
    static const uint32_t kinds[3] = { L, N, OTHER | M | P | S };
    const size_t          apostrophe = contraction(u, pos, end);
    (void)s;
    if (apostrophe) return (ptrdiff_t)apostrophe;
    const size_t word = pos + (codepoint(u[pos]) == ' ');
    for (size_t k = 0; k < 3 && word < end; k++)
        if (is(u[word], kinds[k])) return length(pos, skip(u, word, end, kinds[k]));
    return match_space(u, pos, end, false);
}

/*  ?<other>+<tail>   0: no match */
static ptrdiff_t match_other(const uint32_t *u, size_t pos, size_t end, uint32_t other, enum tail tail)
{
    size_t e = pos + (codepoint(u[pos]) == ' ');
    if (e == end || !is(u[e], other)) return 0;
    e = skip(u, e, end, other);
    const size_t last = tail == NO_TAIL ? e : tail == LINE && end - e > 1 ? e + 1 : end;
    while (e < last && (is_newline(u[e]) || (tail == LINES_SLASHES && codepoint(u[e]) == '/'))) e++;
    return length(pos, e);
}

static bool is_letter(const struct stage *s, uint32_t unit) { return is(unit, s->letters) && !(s->set && in_set(unit, s)); }

/* <word> PLAIN: <letters>+ */
static size_t plain_word(const struct stage *s, const uint32_t *u, size_t pos, size_t end)
{
    while (pos < end && is_letter(s, u[pos])) pos++;
    return pos;
}

/* <word> SPACED: (\p{L}\p{M}*(?: \p{L}\p{M}*)*)+, letters with their marks, and single spaces between them */
static size_t spaced_word(const uint32_t *u, size_t pos, size_t end)
{
    for (pos++; pos < end;) {
        if (is(u[pos], L | M)) pos++;
        else if (codepoint(u[pos]) == ' ' && pos + 1 < end && is(u[pos + 1], L)) pos += 2;
        else break;
    }
    return pos;
}

/* <word> CASED: U*W+, or else U+W*, where U is any letter that is not lower case and W any letter that is not upper case: letters
 * without case and marks are both.  CASED_ASCII: U is any letter but a-z and W any letter but A-Z.  This function matches U*W+ from pos;
 * 0: no match. */
static size_t cased_word(const struct stage *s, const uint32_t *u, size_t pos, size_t end)
{
    const bool ascii = s->shape == CASED_ASCII;
    size_t e = pos, after_w = 0;                        /* end of the last U that is also a W: U* backtracks until W+ has one unit */
    while (e < end && is_letter(s, u[e]) && !(ascii ? is_ascii_lower(u[e]) : is(u[e], LOWER))) {
        if (!(ascii ? is_ascii_upper(u[e]) : is(u[e], UPPER))) after_w = e + 1;
        e++;
    }
    if (e == end || !is_letter(s, u[e])) return after_w;
    while (e < end && is_letter(s, u[e]) && !(ascii ? is_ascii_upper(u[e]) : is(u[e], UPPER))) e++;
    return e;
}

/* The end of [^\r\n\p{L}\p{N}]?<word> at pos; 0: no match. */
static size_t led_word(const struct stage *s, const uint32_t *u, size_t pos, size_t end)
{
    const bool here = is_letter(s, u[pos]);
    const bool lead = !is_newline(u[pos]) && !is(u[pos], L | N) && pos + 1 < end && is_letter(s, u[pos + 1]);
    if (!here && !lead) return 0;
    if (s->shape == PLAIN)  return plain_word(s, u, pos + lead, end);
    if (s->shape == SPACED) return spaced_word(u, pos + lead, end);
    size_t e = lead ? cased_word(s, u, pos + 1, end) : 0;
    if (!e && here) e = cased_word(s, u, pos, end);
    return e ? e : plain_word(s, u, pos + lead, end);   /* U+W*: only upper case */
}

/* \s{512}(?!\S)|\s{256}(?!\S)| ... |\s{4}(?!\S)|\s{1,2}(?!\S)|\s   on the spaces pos .. e - 1 */
static ptrdiff_t halve_blanks(uint32_t *u, size_t pos, size_t e, size_t end)
{
    const size_t left = e < end && e - pos > 1 ? 1 : 0;                  /* one stays with the next word */
    size_t       at   = pos;
    for (size_t n = 512; at + left < e;) {
        while (n > e - left - at) n /= 2;
        u[at] |= PRETOKEN_START;
        at += n;
    }
    return length(pos, at);
}

/* [set]+|(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?<word>|\p{N}{1,digits}| ?<other>+<tail>|\s*[\r\n]+|\s+(?!\S)|\s+
 * or, with contractions BEHIND, (?i:'s|'t|'re|'ve|'m|'ll|'d)? after <word> instead of before */
static ptrdiff_t match_words(const struct stage *s, uint32_t *u, size_t pos, size_t end)
{
    if (s->set && in_set(u[pos], s)) return match_run(s, u, pos, end);
    const size_t apostrophe = s->contractions == ALONE ? contraction_any_case(s, u, pos, end) : 0;
    if (apostrophe) return (ptrdiff_t)apostrophe;
    const size_t word = led_word(s, u, pos, end);
    if (word) return length(pos, s->contractions == BEHIND ? word + contraction_any_case(s, u, word, end) : word);
    if (is(u[pos], N)) return length(pos, skip_most(u, pos, end, N, s->digits));
    const ptrdiff_t other = match_other(u, pos, end, s->other, s->tail);
    if (other) return other;
    if (!is(u[pos], SPACE)) return -1;
    const ptrdiff_t blanks = match_space(u, pos, end, true);
    return s->halves && !is_newline(u[pos + (size_t)blanks - 1]) ? halve_blanks(u, pos, skip(u, pos, end, SPACE), end) : blanks;
}

/* [<ASCII punctuation>][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+ */
static ptrdiff_t match_deepseek3(const struct stage *s, uint32_t *u, size_t pos, size_t end)
{
    const bool   next = pos + 1 < end;
    const size_t e    = pos + 1;
    (void)s;
    const bool   mark = codepoint(u[pos]) < 0x80 && is(u[pos], P | S);
    if (next && mark && is_ascii_letter(u[e])) {
        size_t word = e;
        while (word < end && is_ascii_letter(u[word])) word++;
        return length(pos, word);
    }
    if (is(u[pos], L | M) || (next && !is_newline(u[pos]) && !is(u[pos], P | S) && is(u[e], L | M)))
        return length(pos, skip(u, e, end, L | M));
    const ptrdiff_t other = match_other(u, pos, end, P | S, LINES);
    if (other) return other;
    return is(u[pos], SPACE) ? match_space(u, pos, end, true) : -1;
}

/* ---- the rules ---- */

/* The cased letters in deepseek-llm's expression (its tokenizer.json). */
static const struct range cased[] = {
    {0x41, 0x5a}, {0x61, 0x7a}, {0xb5, 0xb5}, {0xc0, 0xd6}, {0xd8, 0xf6}, {0xf8, 0x1ba}, {0x1bc, 0x1bf}, {0x1c4, 0x293},
    {0x295, 0x2af}, {0x370, 0x373}, {0x376, 0x376}, {0x377, 0x377}, {0x37b, 0x37d}, {0x37f, 0x37f}, {0x386, 0x386},
    {0x388, 0x38a}, {0x38c, 0x38c}, {0x38e, 0x3a1}, {0x3a3, 0x3f5}, {0x3f7, 0x481}, {0x48a, 0x52f}, {0x531, 0x556},
    {0x10a0, 0x10c5}, {0x13a0, 0x13f5}, {0x13f8, 0x13fd}, {0x1c90, 0x1cba}, {0x1cbd, 0x1cbf}, {0x1d00, 0x1d2b},
    {0x1d6b, 0x1d77}, {0x1d79, 0x1d9a}, {0x1e00, 0x1f15}, {0x1f18, 0x1f1d}, {0x1f20, 0x1f45}, {0x1f48, 0x1f4d},
    {0x1f50, 0x1f57}, {0x1f59, 0x1f59}, {0x1f5b, 0x1f5b}, {0x1f5d, 0x1f5d}, {0x1f5f, 0x1f7d}, {0x1f80, 0x1fb4},
    {0x1fb6, 0x1fbc}, {0x1fbe, 0x1fbe}, {0x1fc2, 0x1fc4}, {0x1fc6, 0x1fcc}, {0x1fd0, 0x1fd3}, {0x1fd6, 0x1fdb},
    {0x1fe0, 0x1fec}, {0x1ff2, 0x1ff4}, {0x1ff6, 0x1ffc}, {0x2102, 0x2102}, {0x2107, 0x2107}, {0x210a, 0x2113},
    {0x2115, 0x2115}, {0x2119, 0x211d}, {0x2124, 0x2124}, {0x2126, 0x2126}, {0x2128, 0x2128}, {0x212a, 0x212d},
    {0x212f, 0x2134}, {0x2139, 0x2139}, {0x213c, 0x213f}, {0x2145, 0x2149}, {0x214e, 0x214e}, {0x2183, 0x2183},
    {0x2184, 0x2184}, {0x2c00, 0x2c7b}, {0x2c7e, 0x2ce4}, {0x2ceb, 0x2cee}, {0x2cf2, 0x2cf2}, {0x2cf3, 0x2cf3},
    {0xa640, 0xa66d}, {0xa680, 0xa69b}, {0xa722, 0xa76f}, {0xa771, 0xa787}, {0xa78b, 0xa78e}, {0xab70, 0xabbf},
    {0xfb00, 0xfb06}, {0xfb13, 0xfb17}, {0xff21, 0xff3a}, {0xff41, 0xff5a}, {0x10400, 0x1044f}, {0x104b0, 0x104d3},
    {0x104d8, 0x104fb}, {0x10c80, 0x10cb2}, {0x10cc0, 0x10cf2}, {0x118a0, 0x118df}, {0x1e900, 0x1e943},
};
static const struct range newlines[]    = { {'\n', '\n'}, {'\r', '\r'} };
static const struct range marks_wide[]  = { {'!', '/'}, {':', '~'}, {0x2018, 0x201f}, {0x3000, 0x3002}, {0xff01, 0xff0f},
                                            {0xff1a, 0xff5e} };
static const struct range cjk_hangul[]  = { {0x800, 0x9fa5}, {0xac00, 0xd7ff} };
static const struct range cjk_kana[]    = { {0x3040, 0x30ff}, {0x4e00, 0x9fa5} };
static const struct range han[]         = { {0x3400, 0x4dbf}, {0x4e00, 0x9fff}, {0xf900, 0xfaff}, {0x20000, 0x2a6df}, {0x2a700, 0x2ebef},
                                            {0x2f800, 0x2fa1f} };
/* \p{Han} of Unicode 16 */
static const struct range han_script[]  = { {0x2e80, 0x2e99}, {0x2e9b, 0x2ef3}, {0x2f00, 0x2fd5}, {0x3005, 0x3005}, {0x3007, 0x3007},
                                            {0x3021, 0x3029}, {0x3038, 0x303b}, {0x3400, 0x4dbf}, {0x4e00, 0x9fff}, {0xf900, 0xfa6d},
                                            {0xfa70, 0xfad9}, {0x16fe2, 0x16fe3}, {0x16ff0, 0x16ff1}, {0x20000, 0x2a6df},
                                            {0x2a700, 0x2b739}, {0x2b740, 0x2b81d}, {0x2b820, 0x2cea1}, {0x2ceb0, 0x2ebe0},
                                            {0x2ebf0, 0x2ee5d}, {0x2f800, 0x2fa1d}, {0x30000, 0x3134a}, {0x31350, 0x323af} };
/* The rest of Oniguruma's \w: \p{Pc}, \p{Nl}, circled letters and the numbers of Latin-1. */
static const struct range joiners[]     = { {'_', '_'}, {0xb2, 0xb3}, {0xb9, 0xb9}, {0xbc, 0xbe}, {0x16ee, 0x16f0}, {0x203f, 0x2040},
                                            {0x2054, 0x2054}, {0x2160, 0x2188},
                                            {0x24b6, 0x24e9}, {0x3007, 0x3007}, {0x3021, 0x3029}, {0x3038, 0x303a}, {0xa6e6, 0xa6ef},
                                            {0xfe33, 0xfe34}, {0xfe4d, 0xfe4f}, {0xff3f, 0xff3f}, {0x10140, 0x10174}, {0x10341, 0x10341},
                                            {0x1034a, 0x1034a}, {0x103d1, 0x103d5}, {0x12400, 0x1246e}, {0x1f130, 0x1f149},
                                            {0x1f150, 0x1f169}, {0x1f170, 0x1f189} };
static const struct range cjk_all[]     = { {0x2f00, 0x2fdf}, {0x3040, 0x30ff}, {0x3400, 0x4dbf}, {0x4e00, 0x9fff}, {0xf900, 0xfaff},
                                            {0xff65, 0xff9f} };
static const struct range thai[]        = { {0xe00, 0xe7f} };
static const struct range lao[]         = { {0xe80, 0xeff} };
static const struct range khmer[]       = { {0x1780, 0x17ff} };
static const struct range myanmar[]     = { {0x1000, 0x109f}, {0xa9e0, 0xa9ff}, {0xaa60, 0xaa7f} };
static const struct range hangul_jamo[] = { {0x1100, 0x11ff}, {0xac00, 0xd7af} };
/* llama.cpp's set for AFMoE.  U+8C48 is as in its expression: it is U+F900, normalised. */
static const struct range asian[]       = { {0xe40, 0xeff}, {0x1000, 0x109f}, {0x1100, 0x11ff}, {0x1780, 0x17ff}, {0x2f00, 0x2fdf},
                                            {0x3040, 0x30ff}, {0x3400, 0x4dbf}, {0x4e00, 0xfaff}, {0xff65, 0xff9f} };
static const struct range hangul[]      = { {0x3131, 0x318e}, {0xac00, 0xd7a3} };
static const struct range marks_cjk[]   = { {0x2014, 0x2014}, {0x2018, 0x2019}, {0x201c, 0x201d}, {0x2026, 0x2026}, {0x3001, 0x303f},
                                            {0xfe30, 0xfe4f}, {0xff01, 0xff01}, {0xff0c, 0xff0c}, {0xff1a, 0xff1b} };
static const struct range bopomofo[]    = { {0x3105, 0x312f} };
static const struct range stops[]       = { {'!', '!'}, {'(', ')'}, {',', ','}, {'.', '.'}, {'?', '?'}, {'|', '|'}, {0x60c, 0x60c},
                                            {0x6d4, 0x6d4}, {0x964, 0x964}, {0x2026, 0x2026}, {0x3001, 0x3002}, {0xff0c, 0xff0c} };
static const struct range ascii_marks[] = { {'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'} };
static const struct range math_signs[]  = { {'$', '$'}, {'+', '+'}, {'<', '>'}, {'^', '^'}, {'|', '|'}, {'~', '~'} };
static const struct range math_signs_backtick[] = { {'$', '$'}, {'+', '+'}, {'<', '>'}, {'^', '^'}, {'`', '`'}, {'|', '|'},
                                                    {'~', '~'} };
#define RANGES(array) sizeof(array) / sizeof((array)[0]), array
static const struct set set_newline     = { 0, RANGES(newlines) };
static const struct set set_number      = { N, 0, NULL };
static const struct set set_letter      = { L, 0, NULL };
static const struct set set_punctuation = { P, 0, NULL };
static const struct set set_cased       = { 0, RANGES(cased) };
static const struct set set_marks_wide  = { 0, RANGES(marks_wide) };
static const struct set set_cjk_hangul  = { 0, RANGES(cjk_hangul) };
static const struct set set_cjk_kana    = { 0, RANGES(cjk_kana) };
static const struct set set_han         = { 0, RANGES(han) };
static const struct set set_han_script  = { 0, RANGES(han_script) };
static const struct set set_joiners     = { 0, RANGES(joiners) };
static const struct set set_cjk_all     = { 0, RANGES(cjk_all) };
static const struct set set_thai        = { 0, RANGES(thai) };
static const struct set set_lao         = { 0, RANGES(lao) };
static const struct set set_khmer       = { 0, RANGES(khmer) };
static const struct set set_myanmar     = { 0, RANGES(myanmar) };
static const struct set set_hangul_jamo = { 0, RANGES(hangul_jamo) };
static const struct set set_asian       = { 0, RANGES(asian) };
static const struct set set_hangul      = { 0, RANGES(hangul) };
static const struct set set_marks_cjk   = { 0, RANGES(marks_cjk) };
static const struct set set_bopomofo    = { 0, RANGES(bopomofo) };
static const struct set set_stops       = { SPACE, RANGES(stops) };
static const struct set set_ascii_marks = { P, RANGES(ascii_marks) };
static const struct set set_signs       = { P, RANGES(math_signs) };
static const struct set set_signs_tick  = { P, RANGES(math_signs_backtick) };

#define WORDS .match = match_words, .letters = L, .other = OTHER | M | P | S
#define MARKED_WORDS .match = match_words, .letters = L | M, .other = OTHER | M | P | S
#define O200K_BUT_DIGITS .contractions = BEHIND, .tail = LINES_SLASHES
#define O200K O200K_BUT_DIGITS, .digits = 3
#define RULE(...) (const struct stage[]){ __VA_ARGS__, { .match = NULL } }
static const struct stage *const rules[FORGE_PRE_COUNT] = {
    [FORGE_PRE_DEFAULT]        = RULE({ .match = match_run, .set = &set_signs }, { .match = match_gpt2 },
                                      { .match = match_run, .set = &set_number }, { .match = match_three_digits }),
    [FORGE_PRE_GPT2]           = RULE({ .match = match_gpt2 }),
    [FORGE_PRE_STARCODER]      = RULE({ .match = match_each, .set = &set_number }, { .match = match_gpt2 }),
    [FORGE_PRE_LLAMA3]         = RULE({ WORDS, .digits = 3, .contractions = ALONE }),
    [FORGE_PRE_JAIS2]          = RULE({ WORDS, .digits = 3, .contractions = ALONE, .halves = true }),
    [FORGE_PRE_QWEN2]          = RULE({ WORDS, .digits = 1, .contractions = ALONE }),
    [FORGE_PRE_QWEN35]         = RULE({ .match = match_words, .letters = L | M, .other = OTHER | P | S, .digits = 1,
                                        .contractions = ALONE }),
    [FORGE_PRE_SEED_CODER]     = RULE({ WORDS, .digits = 1, .contractions = ALONE, .tail = NO_TAIL }),
    [FORGE_PRE_LAGUNA]         = RULE({ .match = match_lines }, { WORDS, .digits = 1, .contractions = ALONE }),
    [FORGE_PRE_MINICPM5]       = RULE({ .match = match_numbers, .digits = 3 }, { WORDS, .digits = UINT32_MAX, .contractions = ALONE }),
    [FORGE_PRE_EXAONE_MOE]     = RULE({ WORDS, .digits = 1, .contractions = ALONE, .shape = SPACED, .tail = LINE }),
    [FORGE_PRE_FALCON]         = RULE({ .match = match_run, .set = &set_signs_tick }, { .match = match_gpt2 },
                                      { .match = match_three_digits }),
    [FORGE_PRE_CHAMELEON]      = RULE({ .match = match_image }, { .match = match_indent }, { .match = match_each, .set = &set_number },
                                      { .match = match_each, .set = &set_ascii_marks }, { .match = match_gpt2 }),
    [FORGE_PRE_PORO]           = RULE({ .match = match_blank_others, .set = &set_stops }),
    [FORGE_PRE_VIKING]         = RULE({ .match = match_blank_others, .set = &set_stops }, { .match = match_each, .set = &set_number }),
    [FORGE_PRE_SUPERBPE]       = RULE({ .match = match_run, .set = &set_number }, { .match = match_before_threes }),
    [FORGE_PRE_DEEPSEEK_LLM]   = RULE({ .match = match_each, .set = &set_newline }, { .match = match_space_run, .set = &set_cased },
                                      { .match = match_space_run, .set = &set_marks_wide }, { .match = match_trailing_space },
                                      { .match = match_run, .set = &set_cjk_hangul }, { .match = match_run, .set = &set_number }),
    [FORGE_PRE_DEEPSEEK_CODER] = RULE({ .match = match_each, .set = &set_newline }, { .match = match_space_run, .set = &set_letter },
                                      { .match = match_space_run, .set = &set_punctuation },
                                      { .match = match_run, .set = &set_cjk_hangul }, { .match = match_each, .set = &set_number }),
    [FORGE_PRE_DEEPSEEK3]      = RULE({ .match = match_numbers, .digits = 3 }, { .match = match_run, .set = &set_cjk_kana },
                                      { .match = match_deepseek3 }),
    [FORGE_PRE_AFMOE]          = RULE({ .match = match_digit_threes, .of = MODEL },
                                      { .match = match_run, .set = &set_cjk_all, .of = MODEL },
                                      { .match = match_run, .set = &set_thai, .of = MODEL },
                                      { .match = match_run, .set = &set_lao, .of = MODEL },
                                      { .match = match_run, .set = &set_khmer, .of = MODEL },
                                      { .match = match_run, .set = &set_myanmar, .of = MODEL },
                                      { .match = match_run, .set = &set_hangul_jamo, .of = MODEL },
                                      { .match = match_threes, .of = LLAMA_CPP },
                                      { .match = match_run, .set = &set_asian, .of = LLAMA_CPP },
                                      { .match = match_deepseek3 }),
    [FORGE_PRE_GPT4O]          = RULE({ MARKED_WORDS, O200K, .shape = CASED, .of = MODEL },
                                      { WORDS, O200K, .shape = CASED_ASCII, .of = LLAMA_CPP }),
    [FORGE_PRE_GRANITE_EMBED]  = RULE({ MARKED_WORDS, O200K, .shape = CASED, .of = MODEL },
                                      { MARKED_WORDS, O200K, .shape = CASED_ASCII, .of = LLAMA_CPP }),
    [FORGE_PRE_TINY_AYA]       = RULE({ .match = match_digits_alone, .set = &set_joiners, .of = MODEL },
                                      { MARKED_WORDS, O200K, .shape = CASED, .of = MODEL },
                                      { .match = match_threes, .of = LLAMA_CPP }, { MARKED_WORDS, O200K, .of = LLAMA_CPP }),
    [FORGE_PRE_YOUTU]          = RULE({ .match = match_run, .set = &set_hangul }, { .match = match_run, .set = &set_marks_cjk },
                                      { .match = match_run, .set = &set_bopomofo }, { .match = match_run, .set = &set_cjk_kana },
                                      { MARKED_WORDS, O200K_BUT_DIGITS, .digits = 1, .shape = CASED, .of = MODEL },
                                      { MARKED_WORDS, O200K_BUT_DIGITS, .digits = 1, .of = LLAMA_CPP }),
    [FORGE_PRE_KIMI_K2]        = RULE({ MARKED_WORDS, .set = &set_han_script, .digits = 3, .contractions = BEHIND, .shape = CASED,
                                        .of = MODEL },
                                      { WORDS, .set = &set_han, .digits = 3, .contractions = BEHIND, .of = LLAMA_CPP }),
    [FORGE_PRE_TEKKEN]         = RULE({ MARKED_WORDS, .digits = 1, .shape = CASED, .tail = LINES_SLASHES, .of = MODEL },
                                      { WORDS, .digits = 1, .shape = CASED_ASCII, .tail = LINES_SLASHES, .of = LLAMA_CPP }),
    [FORGE_PRE_LINES]          = RULE({ .match = match_lines }),
};

static void split_word(const struct stage *stage, uint32_t *u, size_t pos, size_t end)
{
    while (pos < end) {
        const ptrdiff_t m = stage->match(stage, u, pos, end);
        if (m > 0) {
            u[pos] |= PRETOKEN_START;
            pos += (size_t)m;
            if (pos < end) u[pos] |= PRETOKEN_START;
        } else {
            pos += (size_t)-m;
        }
    }
}

void pretoken_split(uint32_t *units, size_t n, enum forge_pre pre, bool llama_cpp, const struct forge_class *classes, uint32_t n_classes)
{
    if (n == 0) return;
    for (size_t i = 0; i < n; i++) {
        const uint32_t class = n_classes ? class_value(classes, n_classes, units[i], UINT32_MAX) : UINT32_MAX;
        units[i] |= (class == UINT32_MAX ? (uint32_t)unicode_fine_class(units[i]) : class) << 21;
    }
    units[0] |= PRETOKEN_START;
    for (const struct stage *rule = rules[pre]; rule->match; rule++) {
        struct stage stage = *rule;
        stage.of = llama_cpp ? LLAMA_CPP : MODEL;
        if (rule->of != BOTH && rule->of != stage.of) continue;
        for (size_t pos = 0, end; pos < n; pos = end) {
            for (end = pos + 1; end < n && !(units[end] & PRETOKEN_START); end++) { }
            split_word(&stage, units, pos, end);
        }
    }
}
