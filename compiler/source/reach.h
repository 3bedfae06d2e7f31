/* reach.h -- finds the items of a C text that are needed, beginning with the items that the caller wants. Records are read in the order in
 * which the compiler will read them, with the macros that are defined at that point. A text that is included several times is read several
 * times. */
#ifndef FORGEC_SOURCE_REACH_H
#define FORGEC_SOURCE_REACH_H
#include "preprocess.h"
#include "scan.h"

struct reach;
/* include: called with the record of each #include "..." unless it is surely skipped. */
struct reach *reach_new(struct arena *a, void (*include)(void *context, const struct record *r), void *context);
/* A macro that is defined from the beginning; value NULL: it is surely not defined. */
void reach_known(struct reach *r, const char *name, const char *value);
/* Reads all records in order. wanted: their items are needed in any case. */
void reach_read(struct reach *r, struct record *list, uint32_t n, bool wanted);
/* Reads only record i of list. Its item is not wanted by itself. */
void reach_read_one(struct reach *r, struct record *list, uint32_t i);
/* The current place: the depth of conditions; and the innermost branch deeper than `from` with an unknown answer, guards of headers aside,
 * or 0. Each reading of a branch has a different number. */
uint32_t reach_depth(const struct reach *r);
uint32_t reach_branch(const struct reach *r, uint32_t from);
/* Is the current place still within that branch? */
bool reach_is_within(const struct reach *r, uint32_t branch);
/* Follows all uses; call it after the last text. */
void reach_finish(struct reach *r);
/* After reach_finish: is the record's item needed in any of its readings? For an #undef: is a #define of the name needed? */
bool reach_needs(struct reach *r, const struct record *record);

/* The answers with which a branch of a condition was read (RECORD_IF, _ELIF, _ELSE): bits of record.seen. */
enum { SEEN_OUT = 1 << ANSWER_NO, SEEN_IN = 1 << ANSWER_YES, SEEN_UNKNOWN = 1 << ANSWER_UNKNOWN };
#endif
