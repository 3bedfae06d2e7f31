/* begun.h -- sees that a model has begun a call by itself, so that a grammar can hold the rest of the call. */
#ifndef FORGE_CHAT_BEGUN_H
#define FORGE_CHAT_BEGUN_H
#include "answer.h"

/* The name that a grammar of forced.h gives to a beginning: "o" after the mark that opens a block, "c" after the mark of a call, "h" after
 * to=functions. in a header, "nI:" after the name of tool number I, in families whose calls begin with the name. */
enum { BEGUN_NAME = 16 };
struct begun { char name[BEGUN_NAME]; const char *rest; size_t n_rest; };     /* rest: the text after the beginning */

/* Does the text that the answer holds back begin as only calls do?  Marks that could be words of a text do not count, nor marks in quotes.
 * out: valid until the answer changes. */
bool begun_call(const struct answer *a, struct begun *out);
/* The call, or the block of calls, is complete, though the answer has not seen the rest of it. */
void begun_call_ends(struct answer *a);
#endif
