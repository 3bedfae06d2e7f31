/* schema_writer.h -- shared by the files that write a schema's grammar: schema.c (rules), schema_merge.c (combined schemas),
 * schema_strings.c, schema_numbers.c (ranges), schema_objects.c (members in the schema's order). */
#ifndef FORGE_CHAT_SCHEMA_WRITER_H
#define FORGE_CHAT_SCHEMA_WRITER_H
#include "schema.h"
#include "texts.h"

struct todo {
    struct todo *after, *next;           /* in the order of their numbers; in its bucket */
    const struct json *schema;
    uint32_t number;
    const struct todo *in;               /* the schema of which this one is a part, by the keyword and perhaps a name in it */
    const char *keyword, *name;          /* keyword NULL: the root, or the schema to which name refers */
    size_t n_name;
};

enum { SCHEMA_BUCKETS = 512, SCHEMA_MOST_COMPARED = 1 << 22, SCHEMA_MOST_PROPERTIES = 4096, SCHEMA_MOST_COUNTED = 4096 };
struct schema_writer {
    struct room *room;
    struct text_out *out;
    const char *prefix;
    const struct json *root;
    struct todo *buckets[SCHEMA_BUCKETS], *first, **last;
    uint32_t n_rules;
    uint64_t compared;                   /* members compared while schemas were combined */
    uint32_t *work, own_work;            /* steps left for sets of texts */
    const struct todo *at;
    uint32_t formats;                    /* bits of the formats whose rules are used */
    bool     digits;                     /* the rules of further digits are used */
    struct text_out *warnings;           /* NULL: what cannot be enforced is refused */
    struct passed *passed;               /* keywords of the schema being written that are passed over */
    const char *culprit;                 /* [n_culprit] the keyword that could not be enforced; NULL: another error */
    size_t      n_culprit;
    struct grammar_error *error;
    bool failed;
};
struct passed { struct passed *next; const char *name; size_t n; };

/* Sets the error, unless there is one already: place of the schema being written, ['name'], why.  Returns false. */
bool schema_fail(struct schema_writer *w, const char *name, size_t n, const char *why);
bool schema_fail_word(struct schema_writer *w, const char *keyword, const char *why);
/* The same for a keyword that cannot be enforced: it may be passed over instead. */
bool schema_fail_member(struct schema_writer *w, const struct json *keyword, const char *why);
bool schema_fail_soft(struct schema_writer *w, const char *keyword, const char *why);
/* Adds a warning, if warnings are wanted. */
void schema_note(struct schema_writer *w, const char *keyword, const char *why);
/* The error when texts_open failed for this keyword. */
bool schema_no_texts(struct schema_writer *w, const char *keyword);
/* Zeroed memory; NULL: the room is full, which is then the error. */
void *schema_take(struct schema_writer *w, size_t bytes);

/* ---- reading schemas ---- */

enum kind { ANNOTATION, OBJECT, ARRAY, STRING, NUMBER, ANY };
enum { T_NULL = 1, T_BOOLEAN = 2, T_STRING = 4, T_INTEGER = 8, T_NUMBER = 16, T_ARRAY = 32, T_OBJECT = 64, T_ALL = 128 };
enum { SCHEMA_TYPES = 7 };
extern const char *const schema_type_names[SCHEMA_TYPES];
/* An enum kind; -1: an unknown keyword. */
int schema_kind_of(const struct json *member);
/* Refuses keywords that would be ignored. */
bool schema_check_keywords(struct schema_writer *w, const struct json *schema);
bool schema_passed(const struct schema_writer *w, const char *keyword, size_t n);
/* Is the member to be treated as absent?  It is passed over, or null. */
bool schema_absent(const struct schema_writer *w, const struct json *member);
/* Bits T_ of `type`: a name, or a list of names. */
bool schema_type_bits(struct schema_writer *w, const struct json *type, uint32_t *types);
/* The number of keywords that are not annotations. */
uint32_t schema_n_keywords(const struct json *schema);
static inline bool named(const struct json *m, const char *name)
{
    return m->n_name == text_bytes(name) && memcmp(m->name, name, m->n_name) == 0;
}
static inline bool is_false(const struct json *v) { return v && v->kind == JSON_FALSE; }
/* Is it a schema that every text satisfies? */
static inline bool is_anything(const struct json *v) { return v->kind == JSON_TRUE || (v->kind == JSON_OBJECT && v->n == 0); }
bool schema_same(struct schema_writer *w, const struct json *a, const struct json *b);

/* ---- building schemas ---- */

struct json *schema_json(struct schema_writer *w, enum json_kind kind);
/* Appends a copy of the value to `in`; the value's own members are shared. */
struct json *schema_add(struct schema_writer *w, struct json *in, const struct json *value, const char *name, size_t n_name);
/* The schema to which "$ref": ref refers; NULL: an error. */
const struct json *schema_resolve(struct schema_writer *w, const struct json *ref);
/* The same, resolved and merged, unless it is that already; NULL: an error. */
const struct json *schema_whole(struct schema_writer *w, const struct json *schema);
/* Merges everything that the schema demands into `into`, an object without $ref and allOf. */
bool schema_merge(struct schema_writer *w, struct json *into, const struct json *schema, uint32_t depth);

/* ---- rules ---- */

#define PUT(words) TEXT_OUT_WORDS(w->out, words)
static inline void put_text(struct text_out *out, const char *text) { text_out_put(out, text, text_bytes(text)); }
void schema_put_number(struct text_out *out, uint64_t x);
/* Writes the name of a rule that always exists. */
void schema_put_known(struct schema_writer *w, const char *name);
/* Writes sN-kI: the name of a part of the schema being written. */
void schema_put_part(struct schema_writer *w, const char *kind, uint32_t i);
/* Writes the name of a schema's rule, and remembers to write the rule. */
void schema_put(struct schema_writer *w, const struct json *schema, const struct todo *in, const char *keyword, const char *name,
                size_t n_name);
/* Writes the JSON of a value; behind: of its name, followed by this text. */
void schema_put_literal(struct schema_writer *w, const struct json *v, const char *behind);
bool schema_lengths(struct schema_writer *w, const struct json *schema, const char *least_name, const char *most_name, uint64_t *least,
                    uint64_t *most, bool *bounded);
/* Writes * + or {least,most}. */
bool schema_put_bounds(struct schema_writer *w, uint64_t least, uint64_t most, bool bounded);

/* Write the rules that a schema of strings, of integers or numbers, or of objects needs, before its own rule, and then its expression. */
bool schema_string_rules(struct schema_writer *w, const struct json *schema);
bool schema_put_string(struct schema_writer *w, const struct json *schema);
bool schema_number_rules(struct schema_writer *w, const struct json *schema, bool whole);
bool schema_put_numeric(struct schema_writer *w, const struct json *schema, bool whole);
bool schema_object_rules(struct schema_writer *w, const struct json *schema);
/* Writes the rules of formats that are used. */
void schema_put_formats(struct schema_writer *w);
/* Writes the rules of digits, if they are used. */
void schema_put_digits(struct schema_writer *w);

/* The strings that a schema without $ref and allOf allows; *out NULL: all.  False: an error.  In t->room nothing but t may be used. */
bool schema_string_texts(struct schema_writer *w, struct texts *t, const struct json *schema, struct texts_node **out);
/* Does the number satisfy the bounds and multipleOf? */
bool schema_number_fits(struct schema_writer *w, const struct json *schema, const struct json *number);
#endif
