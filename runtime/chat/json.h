/* json.h -- reads JSON (RFC 8259) into a tree and writes it.  Allocates only from the room of the caller; numbers keep their text. */
#ifndef FORGE_JSON_H
#define FORGE_JSON_H
#include "room.h"

enum json_kind { JSON_NULL, JSON_FALSE, JSON_TRUE, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

struct json {
    enum json_kind kind;
    const char  *text;           /* [n] string: UTF-8 without escapes (may contain U+0000); number: as in the source */
    size_t       n;              /* array, object: number of members */
    struct json *first, *next;   /* the first member; the next member of the containing value */
    const char  *name;           /* [n_name] for a member of an object */
    size_t       n_name;
};

enum { JSON_DEPTH = 128 };       /* nesting of arrays and objects */

struct json_error { const char *why; size_t at; };     /* at: bytes before the error; why: static, NULL: the room is full */

/* text: [n] bytes, which must stay valid as long as the tree, because it points into them where nothing is escaped.  Accepts one value
 * and white space.  Invalid UTF-8 is refused; half of a surrogate pair becomes U+FFFD.  If several members have the same name, the last
 * value is kept at the place of the first.  NULL: *error says why. */
struct json *json_read(struct room *r, const char *text, size_t n, struct json_error *error);

/* The member called name; NULL: there is no such member, or o is NULL or not an object. */
const struct json *json_member(const struct json *o, const char *name);
/* Member number i of an array; NULL beyond its end. */
const struct json *json_at(const struct json *a, size_t i);
bool json_is(const struct json *v, const char *text);  /* is v this string?  v may be NULL */
static inline bool json_is_bool(const struct json *v) { return v && (v->kind == JSON_TRUE || v->kind == JSON_FALSE); }

/* A number without fraction, exponent or loss; false: it is not one, or it is outside low .. high.  v may be NULL. */
bool json_integer(const struct json *v, int64_t low, int64_t high, int64_t *out);
/* A number, accurate to a few units in the last place; false: it is not a number, or too large for a double. */
bool json_real(const struct json *v, double *out);

/* Length of the UTF-8 sequence at text (Unicode 15, table 3-7), n > 0; 0: invalid. */
size_t json_utf8(const char *text, size_t n);

/* Escape only what must be escaped (" \ and below U+0020; \b \f \n \r \t in short form), with quotes or without: at most 6 n bytes. */
void json_put_string(struct text_out *out, const char *text, size_t n);
void json_put_escaped(struct text_out *out, const char *text, size_t n);
/* Writes the value without white space or, with `spaces`, with a space after each comma and colon. */
void json_put(struct text_out *out, const struct json *v, bool spaces);
#endif
