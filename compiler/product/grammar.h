/* grammar.h -- a grammar or JSON schema of a file -> the image that programs are guided by (runtime/chat/grammar.h). */
#ifndef FORGEC_PRODUCT_GRAMMAR_H
#define FORGEC_PRODUCT_GRAMMAR_H
#include "compiler/base/base.h"

/* One of the paths is NULL.  vocab: the vocabulary's image, for tokens by their text; data NULL: dies, for without texts of tokens there is
 * nothing to guide.  Dies at the line and column of a mistake. */
struct bytes grammar_build(struct arena *a, const char *grammar_path, const char *schema_path, struct bytes vocab);
#endif
