/* schema.h -- a JSON schema (draft 2020-12, as far as docs/grammar.md says) as the grammar of the JSON texts that satisfy it. */
#ifndef FORGE_SCHEMA_H
#define FORGE_SCHEMA_H
#include "grammar.h"
#include "json.h"

enum { SCHEMA_MOST_RULES = 20000, SCHEMA_DEPTH = 64 };

/* Writes GBNF.  prefix: what the names of its rules begin with, letters and digits or ""; the rule of the schema is prefix "root".
 * work: memory for parts of the schema, which may go afterwards.  False: *error names the place in the schema and the keyword that is not
 * supported or makes no sense, or out is full. */
bool schema_grammar(struct room *work, const struct json *schema, const char *prefix, struct text_out *out, struct grammar_error *error);

/* Room in which all but odd schemas of n bytes are read; pages of it that are not needed are not touched. */
static inline size_t schema_room(size_t n) { return ((size_t)2 << 20) + (n < (size_t)1 << 18 ? n : (size_t)1 << 18) * 1500; }

/* text: [n] JSON.  NULL: *error says why, and the room is as it was. */
const struct grammar *grammar_of_schema(struct room *room, const char *text, size_t n, struct grammar_error *error);
#endif
