/* scan.h -- divides a C text in the style of templates/ into records: lines, which may belong to an item. An item is a definition, a
 * declaration or a #define. An item that is not a #define begins where no item is open. It ends with the line that closes its braces and
 * its statement, or else with a "}" in the first column or before an empty line outside of braces. */
#ifndef FORGEC_SOURCE_SCAN_H
#define FORGEC_SOURCE_SCAN_H
#include "compiler/base/base.h"

enum record_kind {
    RECORD_CODE,             /* a line of an item */
    RECORD_DEFINE,           /* a #define with its continuation lines; always an item of its own */
    RECORD_UNDEF,
    RECORD_INCLUDE,          /* #include "..." */
    RECORD_IF, RECORD_ELIF, RECORD_ELSE, RECORD_ENDIF,
    RECORD_DIRECTIVE,        /* any other directive, and #include <...> */
    RECORD_COMMENT,          /* a comment between items, with all its lines */
    RECORD_BLANK,
};

struct record {
    enum record_kind kind;
    const char      *text;               /* without the last newline */
    uint32_t         size;
    const char      *operand;            /* directives: the text after the name; #ifdef and #ifndef: the same condition for #if */
    uint32_t         operand_size;
    struct item     *item;               /* its item, also for a condition within an item; NULL: it belongs to no item */
    const char      *file;
    bool             is_guard;           /* #ifndef X, and the next line that is not blank is #define X */
    uint8_t          seen;               /* data of the caller: answers of the branch */
    void            *owner;              /* data of the caller */
};

struct item {
    uint32_t first, last;                /* its first and last record with text */
    void    *owner;                      /* data of the caller */
};

struct records { struct record *list; uint32_t n; };
/* Divides a text into records, which lie in a and point into the text. file: its name, for all records. */
struct records scan(struct arena *a, const char *file, const char *text, size_t n);
#endif
