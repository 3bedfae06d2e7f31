/* diff.h -- what lies between two texts, line by line. */
#ifndef FORGEC_DIFF_H
#define FORGEC_DIFF_H
#include "compiler/base/base.h"

/* kind: ' ' in both, '-' in the old text only, '+' in the new one only; '@': lines that both have are left out before the next. */
struct diff_line { char kind; const char *text; size_t size; uint32_t old_line, new_line; /* from 1: where it stands, or would */ };

struct diff {
    struct diff_line *lines;          /* [n_lines] */
    uint32_t n_lines, n_removed, n_added;
    bool     too_far;                 /* more than `most` lines differ: nothing else is set then */
};
/* The fewest lines to take away and to add, with up to `context` lines that are in both around them.  Texts need no newline at their end.
 * Time: lines times differences; memory: most * most * 4 bytes meanwhile. */
struct diff diff_of(struct arena *a, struct bytes old_text, struct bytes new_text, uint32_t most, uint32_t context);
#endif
