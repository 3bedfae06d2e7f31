/* call.h -- reads one tool call at the beginning of the text that an answer holds back (answer.c). */
#ifndef FORGE_CHAT_CALL_H
#define FORGE_CHAT_CALL_H
#include "answer.h"

enum call_result {
    CALL_MORE,                               /* may become a call */
    CALL_NONE,                               /* is text */
    CALL_DONE,                               /* calls, which were reported; or an empty list of calls */
    CALL_CONTENT, CALL_REASONING,            /* a message's header: content or reasoning follows */
    CALL_LIVE,                               /* a call, which was reported; its arguments follow */
};

/* a->hold [n] begins with a mark of a call.  last: no text follows.  *used: number of bytes that belong to the call. */
enum call_result call_read(struct answer *a, size_t n, bool last, size_t *used);
/* Can call_read learn more from the first n bytes than from fewer?  n > 0. */
bool call_is_worth_reading(const struct answer *a, size_t n);
#endif
