/* json_pieces.h -- writes a JSON object as json_put does, without white space, while its text arrives byte by byte. */
#ifndef FORGE_JSON_PIECES_H
#define FORGE_JSON_PIECES_H
#include "json.h"

/* The fields are private to json_pieces.c. */
struct json_pieces {
    uint64_t arrays[JSON_DEPTH / 64];        /* bit d: the value open at depth d is an array */
    const char *word;                        /* the rest of true, false or null */
    uint32_t depth, code, high;              /* code: of \u so far; high: the first half of a surrogate pair, or 0 */
    uint8_t  state, n;                       /* n: bytes of held, or digits of code */
    char     held[4];                        /* a character that is not complete */
};
enum { JSON_PIECES_MOST = 16 };              /* bytes that one byte of text can add */
enum json_progress { JSON_GOES_ON, JSON_ENDS, JSON_WRONG };

void json_pieces_begin(struct json_pieces *p);
/* Adds the next byte, the first of which is {, and writes what is certain: whole characters, at most JSON_PIECES_MOST bytes.  JSON_ENDS:
 * the object is complete; then, and after JSON_WRONG, p must not be used.  What json_read refuses is wrong here, too; but members with the
 * same name all remain. */
enum json_progress json_piece(struct json_pieces *p, char c, struct text_out *out);
#endif
