/* document.h -- an emitted source as a document: the model first, the templates it uses behind it,
 * each body once and only what the model reaches.
 *
 * C wants definitions before their use, and some templates are wanted in several shapes (FORMAT, ROWS, ...).  So the file includes itself:
 * its text, the model, includes the sections of its appendix, which stand behind an #elif each.  Where SOURCE_NAME is defined, by forgec,
 * which compiles from memory, the file is found there.
 *
 * What is reached is found out without a compiler: the text is read as scan.h and preprocess.h say, in the order in which the compiler will
 * read it.  A condition that is answered alike in every shape is left out, with what it excludes.
 * Items whose names cannot be told are kept, with all they use. */
#ifndef FORGEC_SOURCE_DOCUMENT_H
#define FORGEC_SOURCE_DOCUMENT_H
#include "compiler/base/base.h"

struct document;
/* templates: --templates DIR or NULL. */
struct document *document_new(struct arena *a, const char *templates);
/* A macro that the compiler or its flags define, or with value NULL, do not define.  Those that are not told of are not known. */
void document_known(struct document *d, const char *name, const char *value);
/* What takes the place of templates/gpu/machine/choose.h. */
void document_machine(struct document *d, const char *path);
/* Text of the model that templates depend on, before all of them: #defines. */
void document_begin(struct document *d, const char *text);
/* A template or header and what it includes into the appendix's common section; not again when it is there already. */
void document_use(struct document *d, const char *path);

struct document_parameter { const char *name, *value; };
/* A section of its own for this template, with these parameters; may be asked for several times.
 * What it includes goes into the common section.
 * note: a comment for the line that asks for it, or NULL. */
void document_instance(struct document *d, const char *path, const struct document_parameter *parameters, uint32_t n, const char *note);
/* The whole file.  head: its first comment up to the contents, without the end of the comment; model: kernels and tables,
 * which stand behind the templates. */
struct bytes document_print(struct document *d, const char *head, const char *model);
#endif
