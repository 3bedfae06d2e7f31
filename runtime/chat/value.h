/* value.h -- values of templates: Python's, as far as chat templates see them.  What render.c, value.c, strings.c, filters.c and methods.c
 * share. */
#ifndef FORGE_CHAT_VALUE_H
#define FORGE_CHAT_VALUE_H
#include "image.h"
#include "template.h"
#include "text.h"

enum kind {
    UNDEFINED, NONE, BOOL, INT, FLOAT,     /* first, these: they hold nothing */
    BIG,                                   /* an integer beyond 64 bits: its digits as text */
    STRING, LIST, TUPLE,
    LAZY,                                  /* what map, select, ... give: a list that can be gone through once */
    VIEW,                                  /* what items(), keys(), values() of an object give: a list that is none */
    DICT, NAMESPACE, RANGE, LOOP, MACRO,
    FUNCTION,                              /* enum chat_function */
    METHOD,                                /* of a value */
    JOINER,                                /* method: self is what it gives but for the first time, id: 1 after that */
};

/* Which bytes of a string are the conversation's. */
enum from { FROM_TEMPLATE, FROM_INPUT, FROM_BOTH };

struct value;
struct list { struct value *items; size_t n, most; bool input; };       /* input: it was read as JSON */
struct pair;
struct dict { struct pair *pairs; size_t n, most; bool input; };
struct range { int64_t start, stop, step; uint64_t n; };
struct method;
struct loop;
struct macro;

struct value {
    uint8_t kind, from, safe;              /* from: enum from, of strings; safe: Markup, which escapes what is added to it */
    uint32_t id;                           /* FUNCTION; VIEW: enum view; UNDEFINED: string of the image that was not found, or CHAT_NONE */
    union {
        bool          b;
        int64_t       i;
        double        f;
        const char   *text;                /* [n] UTF-8 */
        struct list  *list;
        struct dict  *dict;                /* NAMESPACE, too */
        struct range *range;
        struct loop  *loop;
        struct macro *macro;
        struct method *method;
    };
    size_t n;                              /* STRING, BIG */
    const uint8_t *marks;                  /* STRING with FROM_BOTH: [n], 1: the byte is the conversation's */
};
struct pair { struct value key, value; };
struct method { struct value self; uint32_t id; };       /* id: of the kind's enum chat_..._method */
enum view { VIEW_KEYS, VIEW_VALUES, VIEW_ITEMS };

struct loop {
    const struct list *items;
    size_t        at, depth;
    uint32_t      node;                    /* CHAT_FOR */
    struct scope *scope;                   /* around it */
    bool          recursive, changed_once;
    struct value  changed;                 /* the values of the last call of changed() */
};

/* Names of a block: one is looked for in the inner scopes first. */
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
    uint32_t                    loop_name; /* string "loop"; CHAT_NONE: the templates do not have it */
    uint32_t                    kept;      /* changes when a value of the room is kept beyond the block it was made in */
    bool                        failed;
    struct dict                *context;   /* variables of the input, converted */
};

enum { CHAT_RANGE = 100000 };

/* ---- failing: each returns false ---- */
bool fail_text(struct render *r, enum chat_fault fault, const char *text);
/* format: %s of the parts in turn, at most three. */
bool fail_with(struct render *r, const char *format, const char *a, const char *b);
bool fail_room(struct render *r);
/* Counts a level in r->depth; false: there are too many. */
bool deeper(struct render *r);
/* n units of work; false: too much of it was done. */
bool charge(struct render *r, size_t n);

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
const char *kind_name(const struct value *v);      /* Python's */
double number_of(const struct value *v);
bool truth_of(const struct value *v);
/* new ones in the room; false: it is full */
bool list_new(struct render *r, size_t most, struct list **out);
bool list_add(struct render *r, struct list *l, struct value v);
bool dict_new(struct render *r, size_t most, struct dict **out);
bool dict_set(struct render *r, struct dict *d, struct value key, struct value v);
/* NULL: it is not there, or failed. */
struct value *dict_find(struct render *r, const struct dict *d, const struct value *key);
static inline struct value list_value(struct list *l, enum kind kind) { return (struct value){ .kind = (uint8_t)kind, .list = l }; }

bool fail_undefined(struct render *r, const struct value *v);
bool json_to_value(struct render *r, const struct json *j, struct value *out);
/* ==; fails at a nesting without end. */
bool values_equal(struct render *r, const struct value *a, const struct value *b, bool *out);
/* < 0, 0, > 0; op: as it is written, for the sentence. */
bool values_order(struct render *r, const struct value *a, const struct value *b, const char *op, int *out);
bool value_in(struct render *r, const struct value *v, const struct value *container, bool *out);
/* What a loop goes through; the list may be the value's own. */
bool items_of(struct render *r, struct value *v, const struct list **out);
bool value_length(struct render *r, const struct value *v, size_t *out);
/* What str() gives, a string. */
bool value_text(struct render *r, const struct value *v, struct value *out);
/* v[index], v.name and v[first:last:step] as Jinja's sandbox has them. */
bool value_item(struct render *r, struct value *v, const struct value *index, struct value *out);
bool value_attribute(struct render *r, struct value *v, const struct value *name, uint32_t name_id, struct value *out);
bool value_slice(struct render *r, const struct value *v, const struct value part[3], struct value *out);
bool sort_values(struct render *r, struct list *l, const struct list *keys, bool reverse);

/* ---- strings that are put together ---- */
/* Grows at the end of the room: nothing else may be taken from the room before builder_end. */
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
bool string_escape(struct render *r, const struct value *s, struct value *out);       /* HTML, as Markup; one that is it stays */
bool string_add(struct render *r, const struct value *a, const struct value *b, struct value *out);
/* from: where to look; false: it is not there. */
bool string_find(const struct value *s, const struct value *part, size_t from, size_t *at);
enum string_case { CASE_UPPER, CASE_LOWER, CASE_CAPITAL, CASE_TITLE, CASE_SWAP };
bool string_case(struct render *r, const struct value *s, enum string_case how, struct value *out);
/* chars: NULL: white space. */
struct value string_strip(const struct value *s, const struct value *chars, bool left, bool right);
bool string_replace(struct render *r, const struct value *s, const struct value *old, const struct value *with, int64_t most,
                    struct value *out);
bool string_split(struct render *r, const struct value *s, const struct value *by, int64_t most, bool from_right, struct list **out);
bool string_join(struct render *r, const struct value *by, const struct list *items, bool convert, struct value *out);
bool string_pad(struct render *r, const struct value *s, size_t left, size_t right, const struct value *with, struct value *out);
bool string_percent(struct render *r, const struct value *format, const struct value *args, struct value *out);
bool string_format(struct render *r, const struct value *format, const struct arguments *args, struct value *out);
/* isalpha() and such. */
bool string_is_class(const struct value *s, enum chat_text_method method);
bool string_lines(struct render *r, const struct value *s, bool keep, struct list **out);

/* ---- numbers.c ---- */
double number_read(const char *text, size_t n);                     /* of a JSON number: the nearest double */
enum { NUMBER_BYTES = 420 };
size_t number_repr(double f, char out[NUMBER_BYTES]);                /* Python's repr(float) */
size_t number_fixed(double f, uint32_t places, char out[NUMBER_BYTES]);      /* "%.*f", places <= 60 */
size_t integer_text(int64_t i, char out[24]);

/* ---- filters.c, methods.c, functions.c ---- */
bool filter_apply(struct render *r, uint32_t filter, const struct value *v, const struct arguments *args, struct value *out);
bool test_apply(struct render *r, uint32_t test, const struct value *v, const struct arguments *args, bool *out);
bool method_call(struct render *r, const struct method *m, const struct arguments *args, struct value *out);
/* Is there such a method of the value's kind? */
bool method_find(const struct value *v, const struct value *name, uint32_t *id);
bool function_call(struct render *r, uint32_t function, const struct arguments *args, struct value *out);
uint32_t filter_find(const struct value *name);                     /* CHAT_UNKNOWN: none */
uint32_t test_find(const struct value *name);

bool dict_update(struct render *r, struct dict *d, const struct arguments *args);      /* pairs, and those with names */

/* The argument at a place or of a name; NULL: not given. */
const struct value *argument(const struct render *r, const struct arguments *args, uint32_t place, const char *name);
/* Refuses more than most arguments without a name. */
bool arguments_most(struct render *r, const struct arguments *args, uint32_t most, const char *of);
bool argument_integer(struct render *r, const struct value *v, int64_t otherwise, int64_t *out);
bool argument_string(struct render *r, const struct value *v, const char *of);
#endif
