/* pairs.h -- two programs measured in turns: what their rates say about each other. */
#ifndef FORGEC_PAIRS_H
#define FORGEC_PAIRS_H
#include <stdbool.h>
#include <stdint.h>

/* Rounds until which a difference can be told from chance, even if all of them agree. */
enum { PAIRS_LEAST = 6 };

struct pairs {
    double median, least, most;      /* of the ratios of a round; 0 without rounds */
    bool   distinguishable;          /* as many rounds on one side of 1 as equal programs have in less than 5 % of measurements */
};
/* x, first: [n] rates, > 0, of round after round; ratio: x to first. */
struct pairs pairs_of(const double *x, const double *first, uint32_t n);
/* Of n values, which are sorted; 0 of none. */
double       median_of(double *x, uint32_t n);
/* "faster", "slower" or "not distinguishable" */
const char  *pairs_verdict(const struct pairs *p);
#endif
