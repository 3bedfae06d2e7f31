/* schema_writer.h -- what the files that write a schema's grammar share: schema.c (rules), schema_merge.c (several schemas at once),
 * schema_numbers.c (ranges), schema_objects.c (members in any order). */
#ifndef FORGE_CHAT_SCHEMA_WRITER_H
#define FORGE_CHAT_SCHEMA_WRITER_H
#include "schema.h"

struct todo {
    struct todo *after, *next;           /* in the order of their numbers; in its bucket */
    const struct json *schema;
    uint32_t number;
    const struct todo *in;               /* the schema that this one is a part of, by the keyword, and perhaps a name in it */
    const char *keyword, *name;          /* keyword NULL: the root, or what name refers to */
    size_t n_name;
};

enum { SCHEMA_BUCKETS = 512, SCHEMA_MOST_COMPARED = 1 << 22, SCHEMA_MOST_PROPERTIES = 4096 };
struct writer {
    struct room *room;
    struct text_out *out;
    const char *prefix;
    const struct json *root;
    struct todo *buckets[SCHEMA_BUCKETS], *first, **last;
    uint32_t n_rules;
    uint64_t compared;                   /* members, where several schemas hold at once */
    const struct todo *at;
    struct grammar_error *error;
    bool failed;
};

/* The first mistake, at the schema that is written: what ['name'] why.  False. */
bool schema_fail(struct writer *w, const char *name, size_t n, const char *why);
bool schema_fail_word(struct writer *w, const char *keyword, const char *why);
/* Zeros; NULL: the room is full, and that was the mistake. */
void *schema_take(struct writer *w, size_t bytes);

/* ---- what a schema says ---- */

enum kind { ANNOTATION, OBJECT, ARRAY, STRING, NUMBER, ANY };
enum { T_NULL = 1, T_BOOLEAN = 2, T_STRING = 4, T_INTEGER = 8, T_NUMBER = 16, T_ARRAY = 32, T_OBJECT = 64, T_ALL = 128 };
enum { SCHEMA_TYPES = 7 };
extern const char *const schema_type_names[SCHEMA_TYPES];
/* An enum kind; -1: a keyword that is none of ours. */
int schema_kind_of(const struct json *member);
/* Nothing that is there is passed over. */
bool schema_check_keywords(struct writer *w, const struct json *schema);
/* Bits T_ of `type`: a name, or a list of them. */
bool schema_type_bits(struct writer *w, const struct json *type, uint32_t *types);
/* How many keywords are more than annotations. */
uint32_t schema_n_keywords(const struct json *schema);
static inline bool named(const struct json *m, const char *name)
{
    return m->n_name == text_bytes(name) && memcmp(m->name, name, m->n_name) == 0;
}
static inline bool is_false(const struct json *v) { return v && v->kind == JSON_FALSE; }
bool schema_same(struct writer *w, const struct json *a, const struct json *b);

/* ---- schemas made of schemas ---- */

struct json *schema_json(struct writer *w, enum json_kind kind);
/* A copy of the value, whose own members are shared, at the end of `in`. */
struct json *schema_add(struct writer *w, struct json *in, const struct json *value, const char *name, size_t n_name);
/* What "$ref": ref means; NULL: a mistake. */
const struct json *schema_resolve(struct writer *w, const struct json *ref);
/* All that the schema asks for into `into`, an object without $ref and allOf. */
bool schema_merge(struct writer *w, struct json *into, const struct json *schema, uint32_t depth);

/* ---- rules ---- */

#define PUT(words) TEXT_OUT_WORDS(w->out, words)
static inline void put_text(struct text_out *out, const char *text) { text_out_put(out, text, text_bytes(text)); }
void schema_put_number(struct text_out *out, uint64_t x);
/* The name of a rule that is always there. */
void schema_put_known(struct writer *w, const char *name);
/* sN-kI: a part of the schema that is written. */
void schema_put_part(struct writer *w, const char *kind, uint32_t i);
/* The name of a schema's rule, which will be written. */
void schema_put(struct writer *w, const struct json *schema, const struct todo *in, const char *keyword, const char *name, size_t n_name);
/* The JSON of a value; behind: of its name, and this. */
void schema_put_literal(struct writer *w, const struct json *v, const char *behind);
/* Rules of a schema of integers or numbers, of objects. */
bool schema_put_numeric(struct writer *w, const struct json *schema, bool whole);
bool schema_put_properties(struct writer *w, const struct json *schema);
#endif
