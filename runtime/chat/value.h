/* value.h -- values of templates: those of Python, as far as chat templates use them.  Shared by render.c, value.c, strings.c, filters.c
 * and methods.c. */
#ifndef FORGE_CHAT_VALUE_H
#define FORGE_CHAT_VALUE_H
#include "image.h"
#include "template.h"
#include "text.h"

enum kind {
    UNDEFINED, NONE, BOOL, INT, FLOAT,     /* these must come first: they contain no pointers */
    BIG,                                   /* an integer beyond 64 bits: its digits as text */
    STRING, LIST, TUPLE,
    LAZY,                                  /* the result of map, select, ...: a list that can be iterated once */
    VIEW,                                  /* the result of items(), keys(), values() of an object: iterable, but not a list */
    DICT, NAMESPACE, RANGE, LOOP, MACRO,
    FUNCTION,                              /* enum chat_function */
    METHOD,                                /* of a value */
    JOINER,                                /* method: self is the separator that it returns, except the first time; id: 1 after the first
                                            * time */
};

/* Which bytes of a string are from the conversation. */
enum from { FROM_TEMPLATE, FROM_INPUT, FROM_BOTH };

struct value;
struct list { struct value *items; size_t n, most; bool input; };       /* input: read from JSON */
struct pair;
struct dict { struct pair *pairs; size_t n, most; bool input; };
struct range { int64_t start, stop, step; uint64_t n; };
struct method;
struct loop;
struct macro;

struct value {
    uint8_t kind, from, safe;              /* from: enum from, for strings; safe: Markup, which escapes strings that are added to it */
    uint32_t id;                           /* FUNCTION; VIEW: enum view; UNDEFINED: string of the image that was not found, or CHAT_NONE */
    union {
        bool          b;
        int64_t       i;
        double        f;
        const char   *text;                /* [n] UTF-8 */
        struct list  *list;
        struct dict  *dict;                /* also NAMESPACE */
        struct range *range;
        struct loop  *loop;
        struct macro *macro;
        struct method *method;
    };
    size_t n;                              /* STRING, BIG */
    const uint8_t *marks;                  /* STRING with FROM_BOTH: [n], 1: the byte is from the conversation */
};
struct pair { struct value key, value; };
struct method { struct value self; uint32_t id; };       /* id: in the enum chat_..._method of the kind */
enum view { VIEW_KEYS, VIEW_VALUES, VIEW_ITEMS };

struct loop {
    const struct list *items;
    size_t        at, depth;
    uint32_t      node;                    /* CHAT_FOR */
    struct scope *scope;                   /* outside of the loop */
    bool          recursive, changed_once;
    struct value  changed;                 /* the arguments of the last call of changed() */
};

/* The names of a block; a name is looked up in the inner scopes first. */
struct binding { uint32_t name; struct value value; struct binding *next; };
struct scope { struct binding *first; struct scope *outer; };
struct macro { uint32_t node; struct scope *scope; };

struct arguments { const struct value *at; uint32_t n, n_named; const uint32_t *names; const struct value *named; };

enum flow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE, FLOW_FAILED };

struct render {
    const struct chat_header   *h;
    const struct chat_node     *nodes;
    const uint32_t             *lists;
    const struct chat_string   *strings;
    const union chat_number    *numbers;
    const char                 *text;      /* of strings */
    const struct chat_input    *in;
    struct room                *room;
    struct chat_text           *out;
    struct chat_error          *error;
    uint64_t                    steps;     /* left */
    uint32_t                    depth, most_depth, line;
    uint32_t                    loop_name; /* string "loop"; CHAT_NONE: the templates do not contain it */
    uint32_t                    kept;      /* changes when a value of the room is kept beyond the block in which it was made */
    bool                        failed;
    struct dict                *context;   /* variables of the input, converted */
};

enum { CHAT_RANGE = 100000 };

/* ---- errors: each function returns false ---- */
bool fail_text(struct render *r, enum chat_fault fault, const char *text);
/* format: %s for the parts in order, at most three. */
bool fail_with(struct render *r, const char *format, const char *a, const char *b);
bool fail_room(struct render *r);
/* Counts a level in r->depth; false: there are too many levels. */
bool deeper(struct render *r);
/* Counts n steps; false: the limit is exceeded.  A step is some tens of nanoseconds, so work that grows with a value has a price in its
 * size: that of charge_bytes for bytes that are copied, compared or searched, and that of charge_letters where each codepoint is looked
 * at. */
bool charge(struct render *r, size_t n);
enum { BYTES_PER_STEP = 16, LETTERS_PER_STEP = 4, DIGITS_STEPS = 400, NUMBER_STEPS = 40 };
/* DIGITS: a double is printed; NUMBER: it is read, or is a power or a remainder */
static inline bool charge_bytes(struct render *r, size_t n) { return charge(r, n / BYTES_PER_STEP); }
static inline bool charge_letters(struct render *r, size_t n) { return charge(r, n / LETTERS_PER_STEP); }

/* ---- values ---- */
static inline struct value none_value(void) { return (struct value){ .kind = NONE }; }
static inline struct value undefined_value(uint32_t name) { return (struct value){ .kind = UNDEFINED, .id = name }; }
static inline struct value bool_value(bool b) { return (struct value){ .kind = BOOL, .b = b }; }
static inline struct value int_value(int64_t i) { return (struct value){ .kind = INT, .i = i }; }
static inline struct value float_value(double f) { return (struct value){ .kind = FLOAT, .f = f }; }
static inline struct value string_value(const char *text, size_t n)
{
    return (struct value){ .kind = STRING, .text = text, .n = n };
}
#define WORDS(words) string_value(words, sizeof(words) - 1)
static inline bool is_integer(const struct value *v) { return v->kind == INT || v->kind == BOOL; }
static inline int64_t integer_of(const struct value *v) { return v->kind == BOOL ? v->b : v->i; }
static inline bool is_number(const struct value *v) { return is_integer(v) || v->kind == FLOAT || v->kind == BIG; }

struct value image_string(const struct render *r, uint32_t id);
bool string_is(const struct value *v, const char *text);
const char *kind_name(const struct value *v);      /* in Python */
double number_of(struct render *r, const struct value *v);
bool truth_of(const struct value *v);
/* new ones in the room; false: the room is full */
bool list_new(struct render *r, size_t most, struct list **out);
bool list_add(struct render *r, struct list *l, struct value v);
bool dict_new(struct render *r, size_t most, struct dict **out);
bool dict_set(struct render *r, struct dict *d, struct value key, struct value v);
/* Fails if the value may not be a key: a list, an object, or a tuple that contains one. */
bool check_hashable(struct render *r, const struct value *v);
/* NULL: not found, or failed. */
struct value *dict_find(struct render *r, const struct dict *d, const struct value *key);
static inline struct value list_value(struct list *l, enum kind kind) { return (struct value){ .kind = (uint8_t)kind, .list = l }; }

bool fail_undefined(struct render *r, const struct value *v);
/* The integer part as an integer of any size; false: infinite or not a number, and nothing is reported, or failed. */
bool float_to_integer(struct render *r, double f, struct value *out);
bool json_to_value(struct render *r, const struct json *j, struct value *out);
/* ==; fails if the nesting is too deep. */
bool values_equal(struct render *r, const struct value *a, const struct value *b, bool *out);
/* < 0, 0, > 0; op: the operator as written, for the message. */
bool values_order(struct render *r, const struct value *a, const struct value *b, const char *op, int *out);
bool value_in(struct render *r, const struct value *v, const struct value *container, bool *out);
/* The items of a loop; the list may be the value's own. */
bool items_of(struct render *r, struct value *v, const struct list **out);
bool value_length(struct render *r, const struct value *v, size_t *out);
/* The string that str() returns. */
bool value_text(struct render *r, const struct value *v, struct value *out);
/* v[index], v.name and v[first:last:step] as in Jinja's sandbox. */
bool value_item(struct render *r, struct value *v, const struct value *index, struct value *out);
bool value_attribute(struct render *r, struct value *v, const struct value *name, uint32_t name_id, struct value *out);
bool value_slice(struct render *r, const struct value *v, const struct value part[3], struct value *out);
bool sort_values(struct render *r, struct list *l, const struct list *keys, bool reverse);

/* ---- building strings ---- */
/* Grows at the end of the room: nothing else may be allocated from the room before builder_end. */
struct builder { struct render *r; char *bytes; uint8_t *marks; size_t n, most; bool failed; };
void builder_begin(struct builder *b, struct render *r);
void builder_put(struct builder *b, const char *bytes, size_t n, bool input);
void builder_string(struct builder *b, const struct value *s);
void builder_repr(struct builder *b, const struct value *v, uint32_t depth);
#define BUILDER_WORDS(b, words) builder_put(b, words, sizeof(words) - 1, false)
bool builder_end(struct builder *b, struct value *out);

struct tojson { bool ascii, sort, indented; size_t indent; struct value item, key; struct value indent_text; };
bool value_tojson(struct render *r, const struct value *v, const struct tojson *how, struct value *out);

/* ---- strings.c ---- */
struct value string_part(const struct value *s, size_t from, size_t n);
/* HTML, as Markup; Markup is unchanged.  out may be text. */
bool string_escape(struct render *r, const struct value *text, struct value *out);
bool string_add(struct render *r, const struct value *a, const struct value *b, struct value *out);
/* The first place of part at or after `from`, and the last place that ends at or before `to`, in linear time; false: it is not there, or
 * failed. */
bool string_find(struct render *r, const struct value *s, const struct value *part, size_t from, size_t *at);
bool string_find_last(struct render *r, const struct value *s, const struct value *part, size_t to, size_t *at);
enum string_case { CASE_UPPER, CASE_LOWER, CASE_CAPITAL, CASE_TITLE, CASE_SWAP, CASE_FOLD };
bool string_case(struct render *r, const struct value *s, enum string_case how, struct value *out);
/* chars NULL: white space. */
bool string_strip(struct render *r, const struct value *s, const struct value *chars, bool left, bool right, struct value *out);
bool string_replace(struct render *r, const struct value *s, const struct value *old, const struct value *with, int64_t most,
                    struct value *out);
bool string_split(struct render *r, const struct value *s, const struct value *by, int64_t most, bool from_right, struct list **out);
bool string_join(struct render *r, const struct value *by, const struct list *items, bool convert, struct value *out);
bool string_pad(struct render *r, const struct value *s, size_t left, size_t right, const struct value *with, struct value *out);
bool string_percent(struct render *r, const struct value *format, const struct value *args, struct value *out);
bool string_format(struct render *r, const struct value *format, const struct arguments *args, struct value *out);
bool text_is_printable(uint32_t c);        /* of a codepoint: repr() prints it as it is */
/* isalpha() and similar methods. */
bool string_is_class(struct render *r, const struct value *s, enum chat_text_method method, bool *out);
bool string_lines(struct render *r, const struct value *s, bool keep, struct list **out);

/* ---- numbers.c ---- */
double number_read(const char *text, size_t n);                     /* a JSON number: the nearest double */
enum { NUMBER_BYTES = 420 };
size_t number_repr(double f, char out[NUMBER_BYTES]);                /* Python's repr(float) */
size_t number_fixed(double f, uint32_t places, char out[NUMBER_BYTES]);      /* "%.*f", places <= 60 */
size_t number_exponent(double f, uint32_t places, char out[NUMBER_BYTES]);   /* "%.*e", f finite, places <= 60 */
size_t integer_text(int64_t i, char out[24]);
double number_remainder(double x, double y);                         /* fmod(): exact, with the sign of x; y != 0 */
double number_power(double x, int64_t n);                            /* x to the n, rounded once; |n| < 2^40 */

/* ---- filters.c, methods.c, functions.c ---- */
bool filter_apply(struct render *r, uint32_t filter, const struct value *v, const struct arguments *args, struct value *out);
bool test_apply(struct render *r, uint32_t test, const struct value *v, const struct arguments *args, bool *out);
bool method_call(struct render *r, const struct method *m, const struct arguments *args, struct value *out);
/* Does the value's kind have such a method? */
bool method_find(const struct value *v, const struct value *name, uint32_t *id);
bool strftime_now(struct render *r, const struct value *format, struct value *out);
bool function_call(struct render *r, uint32_t function, const struct arguments *args, struct value *out);
uint32_t filter_find(const struct value *name);                     /* CHAT_UNKNOWN: none */
uint32_t test_find(const struct value *name);

bool dict_update(struct render *r, struct dict *d, const struct arguments *args);      /* pairs and named arguments */

/* The argument at a place or with a name; NULL: not given. */
const struct value *argument(const struct render *r, const struct arguments *args, uint32_t place, const char *name);
/* Refuses more than `most` arguments without a name. */
bool arguments_most(struct render *r, const struct arguments *args, uint32_t most, const char *of);
bool argument_integer(struct render *r, const struct value *v, int64_t otherwise, int64_t *out);
bool argument_string(struct render *r, const struct value *v, const char *of);
#endif
