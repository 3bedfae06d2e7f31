/* compare_page.h -- what the parts of the page of compare_html.c share. */
#ifndef FORGEC_COMPARE_PAGE_H
#define FORGEC_COMPARE_PAGE_H
#include "comparison.h"
#include "html.h"

/* A candidate's letter in its colour; i: which. */
void page_tag(struct text *t, uint32_t i);

/* Kernels of a step of all candidates, matched by name; cells without launches: the candidate has no such kernel. */
struct page_cell { double launches, bytes, us; const char *more; };
struct page_kernel { const char *name; double longest_us; struct page_cell *cells; /* [n of the comparison] */ };
struct page_kernels {
    const struct comparison *of;
    uint32_t    step;
    struct page_kernel *rows;                     /* [n_rows], the longest first */
    uint32_t    n_rows, capacity;
    const char *us_head, *more_head;              /* of two columns */
};
/* step: STEP_DECODE, STEP_PREFILL; measured, or least times of what was counted. */
struct page_kernels page_kernels_of(struct arena *a, const struct comparison *p, uint32_t step);
void page_kernels_put(struct text *t, const struct page_kernels *k);
/* Operations per byte against operations per second, both logarithmic, below the measured bandwidth.  Measured only. */
void page_roofline(struct text *t, const struct page_kernels *k, const char *title);
#endif
