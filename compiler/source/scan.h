/* scan.h -- a text of C in the style of templates/ as records: lines, each of an item or of none.  An item is a definition, a declaration
 * or a #define; one that is not a #define begins where none is open and ends with the line on which its braces and its statement are
 * closed, at the latest with a "}" in the first column. */
#ifndef FORGEC_SOURCE_SCAN_H
#define FORGEC_SOURCE_SCAN_H
#include "compiler/base/base.h"

enum record_kind {
    RECORD_CODE,             /* a line of an item */
    RECORD_DEFINE,           /* a #define, an item of its own wherever it stands, with the lines it goes on in */
    RECORD_UNDEF,
    RECORD_INCLUDE,          /* #include "..." */
    RECORD_IF, RECORD_ELIF, RECORD_ELSE, RECORD_ENDIF,
    RECORD_DIRECTIVE,        /* any other, and #include <...> */
    RECORD_COMMENT,          /* between items, with all its lines */
    RECORD_BLANK,
};

struct record {
    enum record_kind kind;
    const char      *text;               /* without the last newline */
    uint32_t         size;
    const char      *operand;            /* of a directive: what stands behind its name; of #ifdef and #ifndef a condition for #if */
    uint32_t         operand_size;
    struct item     *item;               /* also of a condition within an item; NULL: none */
    const char      *file;
    bool             is_guard;           /* #ifndef X, and the next line that is not blank is #define X */
    uint8_t          seen;               /* the caller's: how the branch was answered */
    void            *owner;              /* the caller's */
};

struct item {
    uint32_t first, last;                /* its records with text */
    void    *owner;                      /* the caller's */
};

struct records { struct record *list; uint32_t n; };
/* file: its name, for all records. */
struct records scan(struct arena *a, const char *file, const char *text, size_t n);
#endif
