/* argument.h -- writes arguments of models as JSON. */
#ifndef FORGE_CHAT_ARGUMENT_H
#define FORGE_CHAT_ARGUMENT_H
#include "json.h"

static inline bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
static inline bool begins(const char *p, const char *end, const char *with)
{
    const size_t n = text_bytes(with);
    return (size_t)(end - p) >= n && memcmp(p, with, n) == 0;
}

/* The schema of a tool's arguments; NULL: there is no tool with this name, or it has no schema. */
const struct json *argument_schema(const struct json *tools, const char *name, size_t n);
/* Resolves "$ref": "#/a/b" in root; returns s itself if it is not a reference. */
const struct json *argument_referred(const struct json *root, const struct json *s);
/* The schema of a property.  s may be NULL; references in s are resolved in root. */
const struct json *argument_property(const struct json *root, const struct json *s, const char *name, size_t n);

/* Is a bare value with this schema a string, whatever it looks like? */
bool argument_is_text(const struct json *root, const struct json *s);

/* Writes a string with quotes; bytes that are not UTF-8 become U+FFFD. */
void argument_put_text(struct text_out *out, const char *text, size_t n);

enum argument_is { ARGUMENT_BY_SCHEMA, ARGUMENT_TEXT, ARGUMENT_JSON };
/* Writes a bare value, text [n]: a string without quotes, or JSON.  ARGUMENT_BY_SCHEMA: a string if the schema s wants only strings;
 * JSON if it wants no strings; if it wants both or is NULL, JSON if the text is valid JSON.  Text that should be JSON but is not becomes
 * a string.  room: scratch memory for reading. */
void argument_put_bare(struct text_out *out, struct room room, const char *text, size_t n, const struct json *root, const struct json *s,
                       enum argument_is is);

/* Writes the members after an opening bracket up to `closing`, which must be at end: KEY = VALUE or KEY : VALUE, with literals of Python
 * or JSON.  braced: strings may stand between <|"|>, or without quotes.  False: the text has another form. */
bool argument_put_members(struct text_out *out, const char *p, const char *end, char closing, bool braced);

/* Writes elements <KEY>VALUE</KEY> up to end, each tag after `prefix`.  A VALUE that consists of elements is an object, or an array if
 * they are called item. */
bool argument_put_elements(struct text_out *out, struct room room, const char *p, const char *end, const char *prefix,
                           const struct json *root, const struct json *s);
#endif
