/* document.h -- an emitted source as a document: first the model, then an appendix with the templates that it uses. The appendix has each
 * body once, and only the items that the model reaches.
 *
 * C needs definitions before their use, and some templates are needed in several shapes (FORMAT, ROWS, ...). So the file includes itself:
 * its main text, the model, includes the sections of the appendix; each of these stands after an #elif. forgec compiles the source from
 * memory and defines SOURCE_NAME as the name under which the compiler finds it.
 *
 * forgec finds the reached items without a compiler: it reads the text as scan.h and preprocess.h describe, in the order in which the
 * compiler will read it. A condition with the same answer in every shape is left out, together with the text that it excludes.
 * Items with names that cannot be determined are kept, with everything that they use. */
#ifndef FORGEC_SOURCE_DOCUMENT_H
#define FORGEC_SOURCE_DOCUMENT_H
#include "compiler/base/base.h"

struct document;
/* templates: --templates DIR or NULL. */
struct document *document_new(struct arena *a, const char *templates);
/* A macro that the compiler or its flags define as `value`; value NULL: they surely do not define it. All other such macros are unknown. */
void document_known(struct document *d, const char *name, const char *value);
/* The file that replaces templates/gpu/machine/choose.h. */
void document_machine(struct document *d, const char *path);
/* #defines of the model on which templates depend; they stand before all templates. */
void document_begin(struct document *d, const char *text);
/* Adds a template or header, with the files that it includes, to the appendix's common section, unless it is already there. */
void document_use(struct document *d, const char *path);

struct document_parameter { const char *name, *value; };
/* An instance of a template with n parameters. The template gets a section of its own, which all its instances share; the files that it
 * includes go into the common section. note: a comment for the line that includes the section, or NULL. */
void document_instance(struct document *d, const char *path, const struct document_parameter *parameters, uint32_t n, const char *note);
/* The whole file; it lies in the arena. head: its first comment up to the contents, without the end of the comment; model: kernels and
 * tables, which stand after the line that includes the templates. */
struct bytes document_print(struct document *d, const char *head, const char *model);
#endif
