/* compare_page.h -- shared by the files that write the HTML page: compare_html.c and compare_kernels.c. */
#ifndef FORGEC_COMPARE_PAGE_H
#define FORGEC_COMPARE_PAGE_H
#include "comparison.h"
#include "html.h"

/* Appends the letter of candidate i in its colour. */
void page_tag(struct text *t, uint32_t i);

/* The kernels of a step in all candidates, matched by name; launches 0: the candidate has no such kernel. */
struct page_cell { double launches, bytes, us; const char *more; };
struct page_kernel { const char *name; double longest_us; struct page_cell *cells; /* [n of the comparison] */ };
struct page_kernels {
    const struct comparison *of;
    uint32_t    step;
    struct page_kernel *rows;                     /* [n_rows], longest time first */
    uint32_t    n_rows, capacity;
    const char *us_head, *more_head;              /* heads of the columns of `us` and `more` */
};
/* step: STEP_DECODE, STEP_PREFILL. The times are measured, or the least times of the counters. */
struct page_kernels page_kernels_of(struct arena *a, const struct comparison *p, uint32_t step);
void page_kernels_put(struct text *t, const struct page_kernels *k);
/* Appends a roofline chart: operations per second over operations per byte, both logarithmic, below the line of the measured bandwidth. For
 * measured times only. */
void page_roofline(struct text *t, const struct page_kernels *k, const char *title);
#endif
