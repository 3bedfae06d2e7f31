/* paste.h -- pastes headers, with the files that they include, into a C source. Sources of kernels are documents instead (document.h). */
#ifndef FORGEC_SOURCE_PASTE_H
#define FORGEC_SOURCE_PASTE_H
#include "compiler/base/base.h"

struct paster {
    struct arena *arena;
    struct text  *out;
    const char   *templates;             /* --templates DIR or NULL */
    /* private */
    const char  **pasted;
    uint32_t      n_pasted, capacity;
    uint32_t      depth, n_conditions;   /* open conditions at the current place; n_conditions: without guards of headers */
    bool          counts[32];            /* [depth] the condition is not a guard */
};
/* Appends a header and the headers that it includes from its own folder, each one once. A header that was only included within a condition
 * so far is appended again. */
void emit_paste(struct paster *p, const char *path);
#endif
