/* paste.h -- headers into a source, with what they include.  Sources of kernels are documents (document.h). */
#ifndef FORGEC_SOURCE_PASTE_H
#define FORGEC_SOURCE_PASTE_H
#include "compiler/base/base.h"

struct paster {
    struct arena *arena;
    struct text  *out;
    const char   *pasted[16];
    uint32_t      n_pasted;
};
/* Appends a header with what it includes from its own folder, each once. */
void emit_paste(struct paster *p, const char *path);
#endif
