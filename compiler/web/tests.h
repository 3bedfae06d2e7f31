/* tests.h -- data with which a page tests the kernels of a plan one by one (runtime/web/test_kernels.js): the values that each kernel reads
 * and the values that it should write, both computed by the reference. */
#ifndef FORGEC_WEB_TESTS_H
#define FORGEC_WEB_TESTS_H
#include "compiler/plan/plan.h"

/* launches: JSON with the launches to run, and the places of their values; values: the values as little-endian f32. */
struct web_tests { const char *launches; struct bytes values; };

/* Makes the tests. Reads all weights of the model. Dies if the context is too short for the tokens of the tests. */
struct web_tests web_tests(struct arena *a, const struct plan *p);
#endif
