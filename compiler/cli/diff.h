/* diff.h -- the difference of two texts, line by line. */
#ifndef FORGEC_DIFF_H
#define FORGEC_DIFF_H
#include "compiler/base/base.h"

/* kind: ' ' in both texts, '-' only in the old text, '+' only in the new text; '@': common lines are left out here. */
struct diff_line { char kind; const char *text; size_t size; uint32_t old_line, new_line; /* from 1: its line, or where it would be */ };

struct diff {
    struct diff_line *lines;          /* [n_lines] */
    uint32_t n_lines, n_removed, n_added;
    bool     too_far;                 /* more than `most` lines differ: then nothing else is set */
};
/* The minimum of removed and added lines, with up to `context` common lines around them. Texts need no newline at their end.
 * Time: lines times differences; temporary memory: most * most * 4 bytes. */
struct diff diff_of(struct arena *a, struct bytes old_text, struct bytes new_text, uint32_t most, uint32_t context);
#endif
