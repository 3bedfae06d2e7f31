/* pairs.h -- statistics of programs that are measured in turn, so that no difference is reported between equal programs.
 *
 * A round runs all programs in a random order, and then once more in the reverse order. A program's rate in the round is the geometric mean
 * of its two rates; a load or a clock that changes evenly does not affect it. If two programs are equal, only the order decides which of
 * them gets which rate. Because the order is random, the logarithm of their ratio is as likely x as -x in every round, whatever else the
 * machine does, in whatever rhythm (Fisher 1935, The Design of Experiments). The signed-rank test over the rounds needs no other assumption
 * (Wilcoxon 1945). The interval is the set of ratios that the test does not reject (Hodges and Lehmann 1963). If a report has several
 * ratios, each interval is widened so that all of them hold at once (Bonferroni; Dunn 1961). The places of pages and code in memory can
 * also change the speed of equal programs a little and permanently (Mytkowicz et al. 2009, Producing Wrong Data Without Doing Anything
 * Obviously Wrong!), so a ratio within PAIRS_MARGIN of 1 is not a difference. */
#ifndef FORGEC_PAIRS_H
#define FORGEC_PAIRS_H
#include <stdbool.h>
#include <stdint.h>

#define PAIRS_LEVEL  0.05            /* maximum probability that some interval of a report misses its ratio */
#define PAIRS_MARGIN 0.005
enum { PAIRS_ROUNDS_MOST = 100 };

struct pairs {
    double ratio;                    /* x / first: the median, in logarithms, of the means of all pairs of rounds; 0 without rounds */
    double least, most;              /* the interval; 0 and infinity if there are too few rounds */
};
/* x, first: [n] rates > 0, one per round; n <= PAIRS_ROUNDS_MOST. comparisons: number of intervals in the report, > 0. */
struct pairs pairs_of(const double *x, const double *first, uint32_t n, uint32_t comparisons);
/* The minimum number of rounds for an interval. */
uint32_t     pairs_least(uint32_t comparisons);
/* "faster", "slower" or "not distinguishable" */
const char  *pairs_verdict(const struct pairs *p);

/* Draws the order of n programs in a round; state: of the random generator, any number at first. */
void         pairs_order(uint32_t *order, uint32_t n, uint64_t *state);

/* The median of n values; sorts x. 0 if n is 0. */
double       median_of(double *x, uint32_t n);
#endif
