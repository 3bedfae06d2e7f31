/* pattern.h -- reads a regular expression (ECMA-262, as in JSON schemas). */
#ifndef FORGE_PATTERN_H
#define FORGE_PATTERN_H
#include "texts.h"

/* pattern: [n] UTF-8.  Returns the texts that contain a match.  NULL: *why says what is not supported. */
struct texts_node *pattern_texts(struct texts *t, const char *pattern, size_t n, const char **why);
#endif
