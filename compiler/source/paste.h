/* paste.h -- what emit.c and gpu/emit.c share. */
#ifndef FORGEC_EMIT_PARTS_H
#define FORGEC_EMIT_PARTS_H
#include "emit.h"
#include <stdarg.h>

struct paster {
    struct arena *arena;
    struct text  *out;
    const char   *templates;       /* --templates DIR or NULL */
    const char   *pasted[64];
    uint32_t      n_pasted;
};
/* Appends a template with what it includes; once: not again when it is there already. */
void emit_paste(struct paster *p, const char *path, bool once);
/* x as the literal of a float. */
const char *emit_float(struct arena *a, double x);
/* One line of a function's body, indented by *depth braces: a line that ends in "{" opens a level, one that begins with "}" closes it.  kernel: for messages. */
void emit_line(struct text *body, uint32_t *depth, const char *kernel, const char *fmt, va_list args);
/* s as a C string literal, NULL as 0. */
void emit_string(struct text *t, const char *s);
/* The comment at the head of a source. */
void emit_banner(struct text *t, const struct plan *p, const struct emit_options *o);
/* struct forge_program; launches: the initialisers of decode and prefill, or of gpu. */
void emit_program(struct arena *a, struct text *t, const struct plan *p, const struct emit_options *o, const char *launches);
#endif
