/* grammar.h -- compiles a grammar or JSON schema from a file into the image that constrains programs (runtime/chat/grammar.h). */
#ifndef FORGEC_PRODUCT_GRAMMAR_H
#define FORGEC_PRODUCT_GRAMMAR_H
#include "compiler/base/base.h"

/* One of the paths is NULL. vocab: the vocabulary's image, for the texts of tokens; dies if its data is NULL, because a grammar cannot
 * work without them. Dies at the line and column of an error in the grammar. */
struct bytes grammar_build(struct arena *a, const char *grammar_path, const char *schema_path, struct bytes vocab);
#endif
