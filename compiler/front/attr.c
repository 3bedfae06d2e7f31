/* attr.c -- converts attributes between the graph's text (literals and parameters) and the typed fields of a node. */
#include "attr.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct { const char *name; enum value_type type; size_t offset; double least, most; } info[ATTR_COUNT] = {
#define ATTR(name, type, least, most) [ATTR_##name] = { #name, VALUE_##type, offsetof(struct node_attrs, name), least, most },
#include "attr.def"
#undef ATTR
};

static const char *const needed[] = { [VALUE_U32] = "a whole number", [VALUE_F64] = "a number", [VALUE_BOOL] = "true or false" };

/* ---- the fields ---- */

static void set(struct node_attrs *attrs, enum attr attr, double value)
{
    char *field = (char *)attrs + info[attr].offset;
    const uint32_t whole = info[attr].type == VALUE_U32 ? (uint32_t)value : 0;      /* other types may exceed its range */
    const bool truth = value != 0;
    switch (info[attr].type) {
    case VALUE_U32:  memcpy(field, &whole, sizeof whole); break;
    case VALUE_F64:  memcpy(field, &value, sizeof value); break;
    case VALUE_BOOL: memcpy(field, &truth, sizeof truth); break;
    }
}

static double get(const struct node_attrs *attrs, enum attr attr)
{
    const char *field = (const char *)attrs + info[attr].offset;
    uint32_t whole;
    double value = 0;
    bool truth;
    switch (info[attr].type) {
    case VALUE_U32:  memcpy(&whole, field, sizeof whole); return whole;
    case VALUE_F64:  memcpy(&value, field, sizeof value); break;
    case VALUE_BOOL: memcpy(&truth, field, sizeof truth); return truth;
    }
    return value;
}

/* ---- values ---- */

static double literal(struct place at, enum attr attr, const char *text)
{
    const enum value_type type = info[attr].type;
    char *end;
    const bool is_true = strcmp(text, "true") == 0, is_word = is_true || strcmp(text, "false") == 0;
    const double value = is_word ? is_true : strtod(text, &end);
    /* strtod also accepts "inf", "nan" and hexadecimal. */
    const bool is_number = !is_word && !text[strspn(text, "0123456789+-.eE")] && !*end && isfinite(value);
    const bool fits = type == VALUE_BOOL ? is_word : is_number && (type == VALUE_F64 || !text[strspn(text, "0123456789")]);
    if (!fits) die_at(at, "%s=%.60s: %s is needed, or a parameter", info[attr].name, text, needed[type]);
    return value;
}

static double parameter(const struct model *m, struct place at, enum attr attr, const char *text, uint32_t layer)
{
    const struct param *p = model_param(m, text);
    const enum value_type type = info[attr].type;
    if (!p) die_at(at, "%s=%.60s: there is no parameter of that name", info[attr].name, text);
    if (p->type != type && !(p->type == VALUE_U32 && type == VALUE_F64))
        die_at(at, "%s=%s: %s is needed, and the parameter is %s", info[attr].name, text, needed[type], needed[p->type]);
    m->params[p - m->params].used = true;
    return param_value(m, p, at, layer);
}

static bool is_parameter(const char *text)
{
    return (isalpha((unsigned char)*text) || *text == '_') && strcmp(text, "true") && strcmp(text, "false");
}

static void assign(struct arena *a, const struct model *m, struct node *n, enum attr attr, struct place at, const char *text)
{
    const bool named = is_parameter(text);
    const double value = named ? parameter(m, at, attr, text, n->layer) : literal(at, attr, text);
    const double least = info[attr].least, most = info[attr].most;
    const bool fits = value >= least && value <= most;
    const struct param *p = named ? model_param(m, text) : NULL;
    if (!fits && p && p->key && gguf_find(m->gguf, p->key))
        die("%s: %s is %.10g; it must be from %.10g to %.10g here (%s of %s)", m->gguf->path, p->key, value, least, most, info[attr].name,
            op_info[n->op].name);
    if (!fits && named && n->layer == NO_LAYER)
        die_of_keys(a, m, at, text, "%s=%s is %.10g; it must be from %.10g to %.10g", info[attr].name, text, value, least, most);
    if (!fits && named)
        die_of_keys(a, m, at, text, "%s=%s is %.10g in layer %u; it must be from %.10g to %.10g", info[attr].name, text, value, n->layer,
                    least, most);
    if (!fits) die_at(at, "%s=%s is %.10g; it must be from %.10g to %.10g", info[attr].name, text, value, least, most);
    set(&n->attr, attr, value);
}

/* ---- a line's attributes ---- */

_Noreturn static void unknown_attribute(struct place at, const struct op_info *op, const char *name)
{
    char known[200] = "";
    for (uint32_t i = 0; op->attrs[i].value; i++) {
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", info[op->attrs[i].attr].name);
    }
    if (!*known) die_at(at, "%s has no attribute %s; it has no attributes", op->name, name);
    die_at(at, "%s has no attribute %s; it has %s", op->name, name, known);
}

void attr_read(struct arena *a, const struct model *m, struct node *n, uint32_t *given, struct place at, const char *name,
               struct place value_at, const char *value)
{
    const struct op_info *op = &op_info[n->op];
    uint32_t i = 0;
    while (op->attrs[i].value && strcmp(info[op->attrs[i].attr].name, name)) i++;
    if (!op->attrs[i].value) unknown_attribute(at, op, name);
    if (*given & 1u << i) die_at(at, "%s is given twice", name);
    *given |= 1u << i;
    assign(a, m, n, op->attrs[i].attr, value_at, value);
}

void attr_default(struct arena *a, const struct model *m, struct node *n, uint32_t given, struct place at)
{
    const struct op_info *op = &op_info[n->op];
    for (uint32_t i = 0; op->attrs[i].value; i++)
        if (!(given & 1u << i)) assign(a, m, n, op->attrs[i].attr, at, op->attrs[i].value);
}

/* The shortest decimal that reads back as x. */
static void print_number(struct text *out, double x)
{
    char digits[32];
    if (x == floor(x) && fabs(x) < 1e15) { text_printf(out, "%.0f", x); return; }
    for (int n = 1; n <= 17; n++) {
        snprintf(digits, sizeof digits, "%.*g", n, x);
        if (strtod(digits, NULL) == x) break;
    }
    text_puts(out, digits);
}

void attr_print(struct text *out, const struct node *n)
{
    const struct op_info *op = &op_info[n->op];
    for (uint32_t i = 0; op->attrs[i].value; i++) {
        const enum attr attr = op->attrs[i].attr;
        const double value = get(&n->attr, attr);
        text_printf(out, " %s=", info[attr].name);
        if (info[attr].type == VALUE_BOOL) text_puts(out, value != 0 ? "true" : "false");
        else if (info[attr].type == VALUE_U32) text_printf(out, "%.0f", value);
        else print_number(out, value);
    }
}
