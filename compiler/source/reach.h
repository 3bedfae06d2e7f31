/* reach.h -- which items of a text of C the text itself needs, from those on that are wanted anyhow.  The records are read in the order in
 * which the compiler will read them, with macros as they are defined by then;
 * a text that is included several times is read several times. */
#ifndef FORGEC_SOURCE_REACH_H
#define FORGEC_SOURCE_REACH_H
#include "preprocess.h"
#include "scan.h"

struct reach;
/* include: called for each #include "..." that is not surely left out, with its record. */
struct reach *reach_new(struct arena *a, void (*include)(void *context, const struct record *r), void *context);
/* A macro that is there from the beginning, with value NULL is surely not. */
void reach_known(struct reach *r, const char *name, const char *value);
/* All records in turn; wanted: their items are. */
void reach_read(struct reach *r, struct record *list, uint32_t n, bool wanted);
/* Record i of them alone, none of whose items is wanted. */
void reach_read_one(struct reach *r, struct record *list, uint32_t i);
/* After the last text: follows all uses. */
void reach_finish(struct reach *r);
/* Then: is the item needed in any of its readings?  Of a #undef: is there a #define of the name? */
bool reach_needs(struct reach *r, const struct record *record);

/* What was answered where a branch of a condition was read (RECORD_IF, _ELIF, _ELSE). */
enum { SEEN_OUT = 1 << ANSWER_NO, SEEN_IN = 1 << ANSWER_YES, SEEN_UNKNOWN = 1 << ANSWER_UNKNOWN };
#endif
