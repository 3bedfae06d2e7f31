/* call.h -- one call of a tool, read from the beginning of what an answer holds back (answer.c). */
#ifndef FORGE_CHAT_CALL_H
#define FORGE_CHAT_CALL_H
#include "answer.h"

enum call_result {
    CALL_MORE,                               /* may become one */
    CALL_NONE,                               /* is text */
    CALL_DONE,                               /* calls, which were told; or an empty list of them */
    CALL_CONTENT, CALL_REASONING,            /* a message's header: what follows is that */
};

/* a->hold [n] begins with a mark of a call.  last: no text follows.  *used: bytes that belong to it. */
enum call_result call_read(struct answer *a, size_t n, bool last, size_t *used);
/* Whether call_read can know more of the first n bytes than of fewer; n > 0. */
bool call_is_worth_reading(const struct answer *a, size_t n);
#endif
