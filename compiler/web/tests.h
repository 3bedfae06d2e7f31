/* tests.h -- what a page needs to test the kernels of a plan one by one (runtime/web/test_kernels.js): the values that each of them reads
 * and those that it should leave, by the reference. */
#ifndef FORGEC_WEB_TESTS_H
#define FORGEC_WEB_TESTS_H
#include "compiler/plan/plan.h"

/* launches: JSON, which kernels run where on which values; values: those as f32, little-endian. */
struct web_tests { const char *launches; struct bytes values; };

/* Reads all of the model's weights.  Dies where the context is too short for the tokens of the tests. */
struct web_tests web_tests(struct arena *a, const struct plan *p);
#endif
