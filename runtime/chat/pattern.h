/* pattern.h -- a regular expression (ECMA-262, as JSON schemas have it) as the GBNF of the inside of a JSON string that it matches. */
#ifndef FORGE_PATTERN_H
#define FORGE_PATTERN_H
#include "room.h"

struct pattern_error { const char *why; };

/* pattern: [n] UTF-8.  What is written is a group, in which the rule prefix "char" is any character.  Without ^ and $ anything may stand
 * before and behind what matches.  Characters that JSON escapes have one spelling each.  False: why says what is not supported. */
bool pattern_grammar(struct room *work, const char *pattern, size_t n, const char *prefix, struct text_out *out,
                     struct pattern_error *error);
#endif
