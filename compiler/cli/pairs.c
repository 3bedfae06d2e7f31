/* pairs.c -- the sign test (Arbuthnot 1710; Dixon and Mood 1946): a disturbance of some rounds, however large, counts no more than they do,
 * and nothing is assumed of how rates scatter. */
#include "pairs.h"
#include "compiler/base/base.h"
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

/* How often n tosses of a coin give the rarer side no more than `fewer` times. */
static double chance(uint32_t n, uint32_t fewer)
{
    double term = 1, sum = 0;
    for (uint32_t i = 0; i < n; i++) term /= 2;
    for (uint32_t k = 0; k <= fewer; k++) {
        sum += term;
        term *= (double)(n - k) / (k + 1);
    }
    return 2 * fewer >= n ? 1 : 2 * sum;
}

struct pairs pairs_of(const double *x, const double *first, uint32_t n)
{
    struct arena *a = arena_create();
    double *ratios = arena_array(a, double, n);
    struct pairs p = { 0 };
    uint32_t above = 0, below = 0;
    for (uint32_t i = 0; i < n; i++) {
        ratios[i] = first[i] > 0 ? x[i] / first[i] : 0;
        above += ratios[i] > 1;
        below += ratios[i] < 1;
    }
    p.median = median_of(ratios, n);
    p.least = n ? ratios[0] : 0;
    p.most = n ? ratios[n - 1] : 0;
    p.distinguishable = chance(above + below, above < below ? above : below) < 0.05;
    arena_destroy(a);
    return p;
}

const char *pairs_verdict(const struct pairs *p)
{
    return !p->distinguishable ? "not distinguishable" : p->median > 1 ? "faster" : "slower";
}
