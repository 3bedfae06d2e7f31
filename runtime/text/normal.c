/* normal.c -- Unicode's normalization forms C and D (Unicode 16, sections 3.11 and 3.12), by the tables in the vocabulary image.  Most
 * text is already in form C, so only codepoints that form C may change are examined closely. */
#include "vocabulary.h"

enum { HANGUL_S = 0xac00, HANGUL_L = 0x1100, HANGUL_V = 0x1161, HANGUL_T = 0x11a7, N_L = 19, N_V = 21, N_T = 28, N_S = N_L * N_V * N_T };
#define POINT(u) ((u) & 0x1fffffu)          /* a codepoint in the low bits, its combining class above */
#define CLASS(u) ((u) >> 21)

static uint32_t value_of(const struct vocab *v, uint32_t c)
{
    return c < 0x300 ? 0 : class_value(v->combining, v->h->n_combining, c, 0);
}

static uint32_t with_class(const struct vocab *v, uint32_t c)
{
    const uint32_t value = value_of(v, c);
    return value == FORGE_COMBINING_NONE ? c : c | value << 21;
}

/* One step of the decomposition of c, or NULL. */
static const struct forge_decomposition *decomposition_find(const struct vocab *v, uint32_t c)
{
    uint32_t low = 0, high = v->h->n_decompositions;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (v->decomposition[middle].c < c) low = middle + 1; else high = middle;
    }
    return low < v->h->n_decompositions && v->decomposition[low].c == c ? &v->decomposition[low] : NULL;
}

/* The composition of first and second, or 0. */
static uint32_t composition_find(const struct vocab *v, uint32_t first, uint32_t second)
{
    if (first - HANGUL_L < N_L && second - HANGUL_V < N_V) return HANGUL_S + ((first - HANGUL_L) * N_V + second - HANGUL_V) * N_T;
    if (first - HANGUL_S < N_S && (first - HANGUL_S) % N_T == 0 && second - HANGUL_T - 1 < N_T - 1) return first + second - HANGUL_T;
    uint32_t low = 0, high = v->h->n_compositions;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const struct forge_decomposition *d = &v->decomposition[v->composition[middle]];
        if (d->first == first && d->second == second) return d->c;
        if (d->first != first ? d->first < first : d->second < second) low = middle + 1; else high = middle;
    }
    return 0;
}

/* Writes the full decomposition of c with combining classes; returns the number of codepoints, at most 4. */
static size_t decompose(const struct vocab *v, uint32_t *out, uint32_t c)
{
    uint32_t behind[3];
    size_t   n = 0, n_behind = 0;
    if (c - HANGUL_S < N_S) {
        const uint32_t s = c - HANGUL_S, t = s % N_T;
        out[n++] = HANGUL_L + s / (N_V * N_T);
        out[n++] = HANGUL_V + s % (N_V * N_T) / N_T;
        if (t > 0) out[n++] = HANGUL_T + t;
        return n;
    }
    for (const struct forge_decomposition *d; c >= 0xc0 && (d = decomposition_find(v, c)); c = d->first)
        if (d->second) behind[n_behind++] = d->second;
    out[n++] = with_class(v, c);
    while (n_behind > 0) out[n++] = with_class(v, behind[--n_behind]);
    return n;
}

/* Orders each run of marks by their classes; marks of the same class keep their order.  spare: [n]. */
static void order_marks(uint32_t *u, size_t n, uint32_t *spare)
{
    for (size_t i = 0, end; i < n; i = end) {
        bool ordered = true;
        end = i + 1;
        if (CLASS(u[i]) == 0) continue;
        for (; end < n && CLASS(u[end]) != 0; end++) ordered = ordered && CLASS(u[end - 1]) <= CLASS(u[end]);
        if (ordered) continue;
        uint32_t at[256] = { 0 };
        for (size_t k = i; k < end; k++) at[CLASS(u[k])]++;
        for (uint32_t class = 0, sum = 0; class < 256; class++) {
            const uint32_t count = at[class];
            at[class] = sum;
            sum += count;
        }
        for (size_t k = i; k < end; k++) spare[at[CLASS(u[k])]++] = u[k];
        memcpy(u + i, spare, (end - i) * sizeof *u);
    }
}

/* Composes in place; returns how many codepoints are left. */
static size_t compose_marks(const struct vocab *v, uint32_t *u, size_t n)
{
    size_t  out  = 0, starter = n;                          /* n: no starter yet */
    int32_t last = -1;                                      /* class of the previous codepoint; -1 directly after the starter */
    for (size_t i = 0; i < n; i++) {
        const int32_t  class    = (int32_t)CLASS(u[i]);
        const uint32_t together = starter < n && last < class ? composition_find(v, POINT(u[starter]), POINT(u[i])) : 0;
        if (together) { u[starter] = together; continue; }
        if (class == 0) starter = out;
        last     = class == 0 ? -1 : class;
        u[out++] = u[i];
    }
    return out;
}

size_t normal_form(const struct vocab *v, const struct scratch *s, size_t n, bool compose)
{
    size_t first = 0;
    while (first < n && (compose ? value_of(v, s->units[first]) == 0 : s->units[first] < 0xc0)) first++;
    if (first == n) return n;
    uint32_t *in = (void *)s->heap, *part = in + n;         /* [12 n + 12] in all: the text, a decomposed part of it, room to order the
                                                             * part */
    memcpy(in, s->units, n * sizeof *in);
    size_t out = 0;
    for (size_t i = 0, end; i < n; i = end) {
        end = i + 1;
        if (compose) {                                      /* a part: a codepoint and those after it that may join or change it */
            while (end < n && value_of(v, in[end]) != 0) end++;
            if (end == i + 1 && value_of(v, in[i]) == 0) { s->units[out++] = in[i]; continue; }
        } else {
            end = n;
        }
        size_t n_part = 0;
        for (size_t k = i; k < end; k++) n_part += decompose(v, part + n_part, in[k]);
        order_marks(part, n_part, part + n_part);
        if (compose) n_part = compose_marks(v, part, n_part);
        for (size_t k = 0; k < n_part; k++) s->units[out++] = POINT(part[k]);
    }
    return out;
}
