/* schema.h -- converts a JSON schema (draft 2020-12, as far as described in docs/grammar.md) to the grammar of the JSON texts that
 * satisfy it. */
#ifndef FORGE_SCHEMA_H
#define FORGE_SCHEMA_H
#include "grammar.h"
#include "json.h"

enum { SCHEMA_MOST_RULES = 20000, SCHEMA_DEPTH = 64, SCHEMA_WORK = 1 << 21 };

struct schema_options {
    const char *prefix;                  /* the beginning of the rules' names, letters and digits; NULL: none */
    const struct json *root;             /* where "$ref" is resolved; NULL: in the schema itself */
    /* Gets a line for everything that cannot be enforced, which is then passed over; lines that do not fit are left out.  NULL: it is
     * refused. */
    struct text_out *warnings;
    uint32_t *work;                      /* steps left for patterns, of several schemas together; NULL: SCHEMA_WORK */
};

/* Writes GBNF; the schema's rule is prefix "root".  work: memory for parts of the schema, not needed afterwards.  False: *error names the
 * place in the schema and the keyword that is not supported or contradictory, or out is full. */
bool schema_grammar(struct room *work, const struct json *schema, const struct schema_options *options, struct text_out *out,
                    struct grammar_error *error);

/* Size of a room that suffices for all but unusual schemas of n bytes; pages that are not needed are not touched. */
static inline size_t schema_room(size_t n) { return ((size_t)8 << 20) + (n < (size_t)1 << 18 ? n : (size_t)1 << 18) * 1500; }

/* text: [n] JSON.  warnings: as in schema_options.  NULL: *error says why, and the room is as it was. */
const struct grammar *grammar_of_schema(struct room *room, const char *text, size_t n, struct text_out *warnings,
                                        struct grammar_error *error);
#endif
