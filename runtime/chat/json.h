/* json.h -- JSON (RFC 8259) into a tree and back.  No allocation but from the room that the caller gives; numbers keep their text. */
#ifndef FORGE_JSON_H
#define FORGE_JSON_H
#include "room.h"

enum json_kind { JSON_NULL, JSON_FALSE, JSON_TRUE, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

struct json {
    enum json_kind kind;
    const char  *text;           /* [n] string: UTF-8, without escapes (U+0000 may be in it); number: as it stands in the source */
    size_t       n;              /* array, object: members */
    struct json *first, *next;   /* of the members; the next member of what this is in */
    const char  *name;           /* [n_name] of a member of an object */
    size_t       n_name;
};

enum { JSON_DEPTH = 128 };       /* of arrays and objects in each other */

struct json_error { const char *why; size_t at; };     /* at: bytes before the mistake; why: static, NULL: the room is full */

/* text: [n] bytes, which must stay as long as the tree: it points into them where nothing is escaped.  One value and white space, nothing
 * else; UTF-8 that is none is refused, half a surrogate pair becomes U+FFFD.  Of members of one name the last value stays, at the place of
 * the first.  NULL: *error says why. */
struct json *json_read(struct room *r, const char *text, size_t n, struct json_error *error);

/* The member called name; NULL: there is none, or o is NULL or no object. */
const struct json *json_member(const struct json *o, const char *name);
/* Member number i of an array; NULL beyond its end. */
const struct json *json_at(const struct json *a, size_t i);
bool json_is(const struct json *v, const char *text);  /* a string, this one; v may be NULL */
static inline bool json_is_bool(const struct json *v) { return v && (v->kind == JSON_TRUE || v->kind == JSON_FALSE); }

/* A number without fraction, exponent or loss; false: it is none, or beyond low .. high.  v may be NULL. */
bool json_integer(const struct json *v, int64_t low, int64_t high, int64_t *out);
/* A number, right to a few units in the last place; false: it is none or beyond a double. */
bool json_real(const struct json *v, double *out);

/* Bytes of the UTF-8 sequence at text (Unicode 15, table 3-7), n > 0; 0: there is none. */
size_t json_utf8(const char *text, size_t n);

/* What must be escaped is (" \ and below U+0020; \b \f \n \r \t short); with quotes, and without: at most 6 n bytes. */
void json_put_string(struct text_out *out, const char *text, size_t n);
void json_put_escaped(struct text_out *out, const char *text, size_t n);
/* The value without white space, or, with `spaces`, with one behind each comma and colon. */
void json_put(struct text_out *out, const struct json *v, bool spaces);
#endif
