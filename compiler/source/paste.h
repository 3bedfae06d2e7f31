/* paste.h -- templates and headers into a source, with what they include. */
#ifndef FORGEC_SOURCE_PASTE_H
#define FORGEC_SOURCE_PASTE_H
#include "compiler/base/base.h"

struct paster {
    struct arena *arena;
    struct text  *out;
    const char   *templates;       /* --templates DIR or NULL */
    const char   *machine;         /* pasted where a template asks for the machine file (templates/gpu/machine/choose.h) */
    const char   *pasted[64];
    uint32_t      n_pasted;
};
/* Appends a template with what it includes; once: not again when it is there already. */
void emit_paste(struct paster *p, const char *path, bool once);
#endif
