/* pairs.h -- programs measured in turns: what their rates say about each other, so that equal programs are not told apart.
 *
 * A round runs all programs in an order drawn by chance, and then once more in the reverse order.  Its rate of a program is the geometric
 * mean of the two, which a load or a clock that changes evenly leaves alone.  Of two equal programs the order alone says which got which
 * rate; as it is drawn, the logarithm of their ratio is as likely x as -x in every round, whatever else the machine does, in whatever
 * rhythm (Fisher 1935, The Design of Experiments).  That is all that the signed-rank test of the rounds takes (Wilcoxon 1945); the
 * interval is the ratios which it does not refuse (Hodges and Lehmann 1963).  Where several ratios are looked at, each interval is so much
 * wider that all of them hold at once (Bonferroni; Dunn 1961).  And where pages and code happen to lie moves equal programs a little for
 * good (Mytkowicz et al. 2009, Producing Wrong Data Without Doing Anything Obviously Wrong!): what lies within PAIRS_MARGIN of 1 is no
 * difference. */
#ifndef FORGEC_PAIRS_H
#define FORGEC_PAIRS_H
#include <stdbool.h>
#include <stdint.h>

#define PAIRS_LEVEL  0.05            /* how often some interval of a report misses its ratio: at most */
#define PAIRS_MARGIN 0.005
enum { PAIRS_ROUNDS_MOST = 100 };

struct pairs {
    double ratio;                    /* x to first: the median of the means of any two rounds, in logarithms; 0 without rounds */
    double least, most;              /* the interval; 0 and infinity while rounds are too few for one */
};
/* x, first: [n] rates, > 0, of round after round, n at most PAIRS_ROUNDS_MOST.  comparisons: intervals of the report, > 0. */
struct pairs pairs_of(const double *x, const double *first, uint32_t n, uint32_t comparisons);
/* Rounds from which there is an interval. */
uint32_t     pairs_least(uint32_t comparisons);
/* "faster", "slower" or "not distinguishable" */
const char  *pairs_verdict(const struct pairs *p);

/* The place of each of n programs in a round, as drawn; state: of the generator, any number at first. */
void         pairs_order(uint32_t *order, uint32_t n, uint64_t *state);

/* Of n values, which are sorted; 0 of none. */
double       median_of(double *x, uint32_t n);
#endif
