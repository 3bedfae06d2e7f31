/* preprocess.h -- as much of C's preprocessor as telling what a text of C uses: names, macros, expansion with # and ##, conditions.
 * Where a condition asks for what only the compiler knows, the answer is that it is not known. */
#ifndef FORGEC_SOURCE_PREPROCESS_H
#define FORGEC_SOURCE_PREPROCESS_H
#include "compiler/base/base.h"

/* A name of the text.  owner: whatever the caller wants to find by it. */
struct symbol {
    const char    *name;
    struct symbol *next;
    struct macro  *macro;                /* as defined at this point of the text; NULL: not */
    bool           maybe;                /* the last #define or #undef stood under a condition whose answer is not known */
    bool           absent;               /* nobody defines it: see symbol_absent */
    void          *owner;
};

struct token {
    struct token  *next;
    const char    *text;
    uint32_t       size;
    struct symbol *symbol;               /* NULL: not a name */
    struct macro  *ends;                 /* the mark behind an expansion: this macro may be expanded again; no text */
};

struct macro {
    struct symbol  *symbol;
    struct symbol **parameters;          /* a variadic one's last is __VA_ARGS__ */
    uint32_t        n_parameters;
    bool            takes_arguments, variadic, busy;
    struct token   *body;
    struct macro   *also;                /* what the name stood for before a #define whose condition is not known */
    void           *owner;
};

struct preprocessor {
    struct arena   *arena;
    struct symbol  *table[4096];
    /* called for every macro that an expansion meets; may be NULL */
    void          (*meets)(void *context, struct macro *macro);
    void           *context;
    bool            uncertain;           /* an expansion met a macro that may stand for something else */
};

struct symbol *symbol_of(struct preprocessor *p, const char *name, size_t n);
/* The tokens of a text without its comments and newlines. */
struct token *tokens_of(struct preprocessor *p, const char *text, size_t n);
/* What stands behind "#define". maybe: its condition is not known. */
struct macro *macro_define(struct preprocessor *p, const char *text, size_t n, bool maybe);
void macro_undefine(struct preprocessor *p, const char *name, size_t n, bool maybe);
/* All macros replaced; the list given is used up. */
struct token *tokens_expand(struct preprocessor *p, struct token *tokens);

enum answer { ANSWER_NO, ANSWER_YES, ANSWER_UNKNOWN };
/* What stands behind "#if".  A name that is no macro is 0, as in C; but names of compilers (__...) and those that flags may define
 * (FORGE_..., SIMT_...) are not known, but for those that are absent. */
enum answer condition_answer(struct preprocessor *p, const char *text, size_t n);
/* Nobody defines this name. */
void symbol_absent(struct preprocessor *p, const char *name);
#endif
