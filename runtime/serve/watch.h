/* watch.h -- guides calls that a model begins by itself: text is free until a call begins (begun.h), and again after the call. */
#ifndef FORGE_SERVE_WATCH_H
#define FORGE_SERVE_WATCH_H
#include "runtime/chat/answer.h"
#include "runtime/run/guide.h"

struct call_watch;                           /* of one answer */

/* o: the answer's family, tools and prompt; its other members are not used.  prefill: [n_prefill] the beginning of the answer.  single:
 * after a call the answer ends.  From malloc; NULL: no memory. */
struct call_watch *watch_open(const struct answer_options *o, const char *prefill, size_t n_prefill, bool single);

/* guide: of a grammar for calls that have begun (forced.h). */

/* Is the answer guided from its first token on? */
bool watch_begins(struct call_watch *w, struct forge_guide *guide);
/* Unguided text has come; true: with it a call has begun, and the guide stands behind it.  A call stays free if the grammar does not
 * allow its beginning. */
bool watch_text(struct call_watch *w, struct forge_guide *guide, const char *text, size_t n);
/* The guide has accepted a token.  False: the call is complete, and text is free again. */
bool watch_goes_on(struct call_watch *w, const struct forge_guide *guide);
#endif
