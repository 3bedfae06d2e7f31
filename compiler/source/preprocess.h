/* preprocess.h -- the parts of C's preprocessor that are needed to find out what a C text uses: names, macros, expansion with # and ##,
 * conditions. If a condition depends on something that only the compiler knows, its answer is "unknown". */
#ifndef FORGEC_SOURCE_PREPROCESS_H
#define FORGEC_SOURCE_PREPROCESS_H
#include "compiler/base/base.h"

/* A name of the text. owner: data of the caller. */
struct symbol {
    const char    *name;
    struct symbol *next;
    struct macro  *macro;                /* the definition at this point of the text; NULL: not defined */
    bool           maybe;                /* the last #define or #undef stood under a condition with an unknown answer */
    bool           absent;               /* nothing defines it: see symbol_absent */
    void          *owner;
};

struct token {
    struct token  *next;
    const char    *text;
    uint32_t       size;
    struct symbol *symbol;               /* NULL: not a name */
    struct macro  *ends;                 /* not NULL: a mark without text after an expansion; this macro may be expanded again */
};

struct macro {
    struct symbol  *symbol;
    struct symbol **parameters;          /* [n_parameters]; the last one of a variadic macro is __VA_ARGS__ */
    uint32_t        n_parameters;
    bool            takes_arguments, variadic, busy;
    struct token   *body;
    struct macro   *also;                /* the earlier definition, if this one stands under a condition with an unknown answer */
    void           *owner;
};

struct preprocessor {
    struct arena   *arena;
    struct symbol  *table[4096];
    /* called for every macro that an expansion uses; may be NULL */
    void          (*meets)(void *context, struct macro *macro);
    void           *context;
    bool            uncertain;           /* an expansion used a macro that may have another definition */
};

/* The symbol of a name; made if it is new. */
struct symbol *symbol_of(struct preprocessor *p, const char *name, size_t n);
/* The tokens of a text, without comments and newlines. */
struct token *tokens_of(struct preprocessor *p, const char *text, size_t n);
/* Defines a macro. text: the text after "#define"; maybe: it stands under a condition with an unknown answer. NULL: text has no name. */
struct macro *macro_define(struct preprocessor *p, const char *text, size_t n, bool maybe);
void macro_undefine(struct preprocessor *p, const char *name, size_t n, bool maybe);
/* The tokens with all macros expanded. The given list must not be used afterwards. */
struct token *tokens_expand(struct preprocessor *p, struct token *tokens);

enum answer { ANSWER_NO, ANSWER_YES, ANSWER_UNKNOWN };
/* The answer of a condition. text: the text after "#if". A name that is not a macro is 0, as in C. But names of compilers (__...) and names
 * that flags may define (FORGE_..., SIMT_...) are unknown, unless they are absent. */
enum answer condition_answer(struct preprocessor *p, const char *text, size_t n);
/* Neither the compiler nor its flags define this name. */
void symbol_absent(struct preprocessor *p, const char *name);
#endif
