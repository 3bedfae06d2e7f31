/* argument.h -- what models write as arguments, put down as JSON. */
#ifndef FORGE_CHAT_ARGUMENT_H
#define FORGE_CHAT_ARGUMENT_H
#include "json.h"

static inline bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
static inline bool begins(const char *p, const char *end, const char *with)
{
    const size_t n = text_bytes(with);
    return (size_t)(end - p) >= n && memcmp(p, with, n) == 0;
}

/* The schema of a tool's arguments; NULL: no tool of this name, or none of them says more. */
const struct json *argument_schema(const struct json *tools, const char *name, size_t n);
/* The schema of a property; s may be NULL, and is looked up in root where it refers to it. */
const struct json *argument_property(const struct json *root, const struct json *s, const char *name, size_t n);

/* Whether a bare value of this schema is a string, whatever it looks like. */
bool argument_is_text(const struct json *root, const struct json *s);

/* A string, with quotes; bytes that are no UTF-8 become U+FFFD. */
void argument_put_text(struct text_out *out, const char *text, size_t n);

enum argument_is { ARGUMENT_BY_SCHEMA, ARGUMENT_TEXT, ARGUMENT_JSON };
/* text [n] stands bare: a string as it is, or JSON.  ARGUMENT_BY_SCHEMA: a string where the schema s (NULL: none) wants strings, else JSON;
 * where it wants both or says nothing, JSON if it is such.  What should be JSON and is not is a string.  room: for reading. */
void argument_put_bare(struct text_out *out, struct room room, const char *text, size_t n, const struct json *root, const struct json *s,
                       enum argument_is is);

/* Members from behind the opening bracket to `closing`, which ends at end: KEY = VALUE or KEY : VALUE, of Python's literals and JSON's.
 * braced: strings may stand between <|"|>, and bare.  False: it is something else. */
bool argument_put_members(struct text_out *out, const char *p, const char *end, char closing, bool braced);

/* Elements <KEY>VALUE</KEY> up to end, each tag behind `prefix`; a VALUE of elements is an object, or an array if they are called item. */
bool argument_put_elements(struct text_out *out, struct room room, const char *p, const char *end, const char *prefix,
                           const struct json *root, const struct json *s);
#endif
