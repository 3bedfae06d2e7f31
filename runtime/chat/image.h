/* image.h -- compiled chat templates: written by compiler/chat/image.c, read in place by render.c.
 * Position-independent, little-endian, no pointers, aligned to 8; trusted.  The sections follow the header in the order of
 * CHAT_SECTIONS. */
#ifndef FORGE_CHAT_IMAGE_H
#define FORGE_CHAT_IMAGE_H
#include <stdint.h>

#define CHAT_IMAGE_MAGIC "FORGEJ01"
#define CHAT_NONE 0xffffffffu

struct chat_header {
    char     magic[8];
    uint32_t bytes;                        /* whole image */
    uint32_t n_templates, n_nodes, n_lists, n_strings, n_numbers;
    uint32_t reserved[2];
};

/* name: string, CHAT_NONE: the default template; family: number of a row of family.def; hash: XXH3-64 of the source */
struct chat_template { uint32_t name, root, source_bytes, family; uint64_t hash; };
/* An expression, a statement or a target of an assignment; enum chat_kind describes a, b, c. */
struct chat_node { uint8_t kind, op; uint16_t reserved; uint32_t line, a, b, c; };
struct chat_string { uint32_t offset, n; };
union chat_number { int64_t i; double f; };

/*      name       type                  count */
#define CHAT_SECTIONS(SECTION, h) \
    SECTION(numbers,   union chat_number,    (h)->n_numbers) \
    SECTION(templates, struct chat_template, (h)->n_templates) \
    SECTION(nodes,     struct chat_node,     (h)->n_nodes) \
    SECTION(strings,   struct chat_string,   (h)->n_strings) \
    SECTION(lists,     uint32_t,             (h)->n_lists)
/* then the text of the strings */

/* At an index of `lists`: [n] is a run of n entries; LIST is an entry with the number of entries that follow. */
enum chat_kind {
    /* expressions */
    CHAT_LITERAL_NONE, CHAT_LITERAL_TRUE, CHAT_LITERAL_FALSE,
    CHAT_LITERAL_INT, CHAT_LITERAL_FLOAT,  /* a: number */
    CHAT_LITERAL_BIG,                      /* a: string, digits */
    CHAT_LITERAL_STRING,                   /* a: string */
    CHAT_NAME,                             /* a: string */
    CHAT_LIST, CHAT_TUPLE,                 /* a: LIST of expressions */
    CHAT_DICT,                             /* a: LIST of keys and values alternately */
    CHAT_ATTRIBUTE,                        /* a.b: expression, string */
    CHAT_ITEM,                             /* a[b] */
    CHAT_SLICE,                            /* a[..]; b: [3] first, last, step; CHAT_NONE: not given */
    CHAT_CALL,                             /* a(..); b: arguments */
    CHAT_FILTER,                           /* a|..; a is CHAT_NONE in a block; op: enum chat_filter; b: arguments or CHAT_NONE; c: string */
    CHAT_TEST,                             /* a is ..; otherwise like CHAT_FILTER */
    CHAT_NOT, CHAT_NEGATE, CHAT_PLUS,      /* a */
    CHAT_AND, CHAT_OR,                     /* a, b */
    CHAT_BINARY,                           /* a op b; op: + - * / % and 'f' for //, 'p' for ** */
    CHAT_COMPARE,                          /* a; b: LIST of operators (enum chat_compare) and operands alternately */
    CHAT_CONCAT,                           /* a: LIST */
    CHAT_CHOICE,                           /* b if a else c; c may be CHAT_NONE */
    /* statements */
    CHAT_BODY,                             /* a: LIST of statements */
    CHAT_TEXT,                             /* a: string */
    CHAT_OUTPUT,                           /* a: expression */
    CHAT_IF,                               /* a: LIST of conditions and bodies alternately; b: the body of else, or CHAT_NONE */
    CHAT_FOR,                              /* a: [5] target, iterable, condition, body, body of else; c: 1: recursive */
    CHAT_SET,                              /* a: target, b: expression */
    CHAT_SET_BLOCK,                        /* a: target, b: body, c: filters or CHAT_NONE */
    CHAT_MACRO,                            /* a: [3 + ..] name, number of parameters, number of defaults, names, defaults; b: body; c:
                                            * flags */
    CHAT_CALL_BLOCK,                       /* a: CHAT_CALL, b: CHAT_MACRO, the caller */
    CHAT_FILTER_BLOCK,                     /* a: filters, b: body */
    CHAT_WITH,                             /* a: LIST of targets and expressions alternately, b: body */
    CHAT_SCOPE,                            /* a: body, with a scope of its own */
    CHAT_BREAK, CHAT_CONTINUE,
    /* targets */
    CHAT_TARGET_NAME,                      /* a: string */
    CHAT_TARGET_TUPLE,                     /* a: LIST of targets */
    CHAT_TARGET_ATTRIBUTE,                 /* a.b: strings, of a namespace */
};
/* Arguments: [2 + ..] n, n_named, n expressions, n_named pairs of string and expression. */

enum { CHAT_USES_CALLER = 1, CHAT_USES_VARARGS = 2, CHAT_USES_KWARGS = 4 };      /* flags of a macro */

enum chat_compare { CHAT_EQ, CHAT_NE, CHAT_LT, CHAT_LE, CHAT_GT, CHAT_GE, CHAT_IN, CHAT_NOT_IN };

/* Filters, tests and methods by name: the compiler looks them up and stores their numbers for the renderer. */
#define CHAT_FILTERS(F) \
    F(abs) F(attr) F(batch) F(capitalize) F(center) F(count) F(d) F(default) F(dictsort) F(e) F(escape) F(first) F(float) F(forceescape) \
    F(format) F(indent) F(int) F(items) F(join) F(last) F(length) F(list) F(lower) F(map) F(max) F(min) F(reject) F(rejectattr) \
    F(replace) F(reverse) F(round) F(safe) F(select) F(selectattr) F(slice) F(sort) F(string) F(sum) F(title) F(tojson) F(trim) \
    F(truncate) F(unique) F(upper) F(wordcount)
#define CHAT_TESTS(T) \
    T(boolean) T(callable) T(defined) T(divisibleby) T(eq) T(equalto) T(escaped) T(even) T(false) T(filter) T(float) T(ge) T(greaterthan) \
    T(gt) T(in) T(integer) T(iterable) T(le) T(lessthan) T(lower) T(lt) T(mapping) T(ne) T(none) T(number) T(odd) T(sameas) T(sequence) \
    T(string) T(test) T(true) T(undefined) T(upper)
#define CHAT_FUNCTIONS(F) \
    F(dict) F(joiner) F(namespace) F(raise_exception) F(range) F(strftime_now)
#define CHAT_NAMED(name) CHAT_F_##name,
enum chat_filter { CHAT_FILTERS(CHAT_NAMED) CHAT_F_COUNT };
#undef CHAT_NAMED
#define CHAT_NAMED(name) CHAT_T_##name,
enum chat_test { CHAT_TESTS(CHAT_NAMED) CHAT_T_COUNT };
#undef CHAT_NAMED
#define CHAT_NAMED(name) CHAT_G_##name,
enum chat_function { CHAT_FUNCTIONS(CHAT_NAMED) CHAT_G_COUNT };
#undef CHAT_NAMED
enum { CHAT_UNKNOWN = 255 };               /* an unknown filter or test: refused only when it is executed */

/* Methods of text, lists, objects.  An attribute with such a name is the method, even if an object has a member with this name.  Some of
 * text are only there (`x.encode is defined`): a call is refused. */
#define CHAT_TEXT_METHODS(M) \
    M(capitalize) M(casefold) M(center) M(count) M(encode) M(endswith) M(expandtabs) M(find) M(format) M(format_map) M(index) M(isalnum) \
    M(isalpha) M(isascii) M(isdecimal) M(isdigit) M(isidentifier) M(islower) M(isnumeric) M(isprintable) M(isspace) M(istitle) M(isupper) \
    M(join) M(ljust) M(lower) M(lstrip) M(maketrans) M(partition) M(removeprefix) M(removesuffix) M(replace) M(rfind) M(rindex) M(rjust) \
    M(rpartition) M(rsplit) M(rstrip) M(split) M(splitlines) M(startswith) M(strip) M(swapcase) M(title) M(translate) M(upper) M(zfill)
#define CHAT_LIST_METHODS(M) \
    M(append) M(clear) M(copy) M(count) M(extend) M(index) M(insert) M(pop) M(remove) M(reverse)
#define CHAT_DICT_METHODS(M) \
    M(clear) M(copy) M(get) M(items) M(keys) M(pop) M(popitem) M(setdefault) M(update) M(values)
#define CHAT_NAMED(name) CHAT_S_##name,
enum chat_text_method { CHAT_TEXT_METHODS(CHAT_NAMED) CHAT_S_COUNT };
#undef CHAT_NAMED
#define CHAT_NAMED(name) CHAT_L_##name,
enum chat_list_method { CHAT_LIST_METHODS(CHAT_NAMED) CHAT_L_COUNT };
#undef CHAT_NAMED
#define CHAT_NAMED(name) CHAT_D_##name,
enum chat_dict_method { CHAT_DICT_METHODS(CHAT_NAMED) CHAT_D_COUNT };
#undef CHAT_NAMED
#endif
