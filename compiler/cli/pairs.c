/* pairs.c -- see pairs.h. */
#include "pairs.h"
#include "compiler/base/base.h"
#include <math.h>
#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double median_of(double *x, uint32_t n)
{
    if (!n) return 0;
    qsort(x, n, sizeof *x, by_value);
    return (x[(n - 1) / 2] + x[n / 2]) / 2;
}

/* The number of the n (n + 1) / 2 means of two rounds (including a round with itself) that lie outside the interval at each end. It is the
 * largest number x for which the ranks of heads, in n coin throws, sum to at most x with a probability of at most `level` / 2. -1: even x =
 * 0 is too probable. */
static int32_t means_outside(struct arena *a, uint32_t n, double level)
{
    const uint32_t most = n * (n + 1) / 2;
    double *chance = arena_array(a, double, most + 1), sum = 0;
    chance[0] = 1;
    for (uint32_t rank = 1; rank <= n; rank++)
        for (uint32_t s = most + 1; s-- > 0; ) chance[s] = (chance[s] + (s >= rank ? chance[s - rank] : 0)) / 2;
    for (uint32_t s = 0; s <= most; s++) {
        sum += chance[s];
        if (sum > level / 2) return (int32_t)s - 1;
    }
    return (int32_t)most;
}

struct pairs pairs_of(const double *x, const double *first, uint32_t n, uint32_t comparisons)
{
    struct pairs p = { .most = INFINITY };
    if (!n) return p;
    struct arena *a = arena_create();
    double *logs = arena_array(a, double, n), *means = arena_array(a, double, (size_t)n * (n + 1) / 2);
    uint32_t n_means = 0;
    for (uint32_t i = 0; i < n; i++) {
        logs[i] = log(x[i] / first[i]);
        for (uint32_t k = 0; k <= i; k++) means[n_means++] = (logs[i] + logs[k]) / 2;
    }
    p.ratio = exp(median_of(means, n_means));
    const int32_t outside = means_outside(a, n, PAIRS_LEVEL / comparisons);
    if (outside >= 0) {
        p.least = exp(means[outside]);
        p.most = exp(means[n_means - 1 - (uint32_t)outside]);
    }
    arena_destroy(a);
    return p;
}

uint32_t pairs_least(uint32_t comparisons)
{
    uint32_t n = 1;
    while (ldexp(2, -(int)n) > PAIRS_LEVEL / comparisons) n++;
    return n;
}

const char *pairs_verdict(const struct pairs *p)
{
    return p->least > 1 + PAIRS_MARGIN ? "faster" : p->most < 1 / (1 + PAIRS_MARGIN) ? "slower" : "not distinguishable";
}

static uint64_t draw(uint64_t *state)                           /* splitmix64 */
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

void pairs_order(uint32_t *order, uint32_t n, uint64_t *state)
{
    /* Fisher and Yates; because of the remainder, the probabilities of places differ by at most 2^-59 */
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t k = (uint32_t)(draw(state) % (i + 1));
        order[i] = order[k];
        order[k] = i;
    }
}
