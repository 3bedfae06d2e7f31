/* render.c -- executes a template's tree and writes its text: see template.h. */
#include "family.h"
#include "value.h"

static bool eval(struct render *r, uint32_t node, struct scope *scope, struct value *out);
static enum flow exec(struct render *r, uint32_t node, struct scope *scope);

#define APART __attribute__((noinline))    /* keeps stack frames of deep nesting small */

/* ---- names ---- */

static bool scope_set(struct render *r, struct scope *scope, uint32_t name, struct value v)
{
    size_t n = 0;
    for (struct binding *b = scope->first; b; b = b->next, n++)
        if (b->name == name) { b->value = v; return charge_letters(r, n); }
    if (!charge_letters(r, n)) return false;
    struct binding *b = room_take(r->room, sizeof *b);
    if (!b) return fail_room(r);
    *b = (struct binding){ name, v, scope->first };
    scope->first = b;
    return true;
}

#define NAMED(name) #name,
static bool name_value(struct render *r, uint32_t name, const struct scope *scope, struct value *out)
{
    static const char *const functions[] = { CHAT_FUNCTIONS(NAMED) };
    size_t n = 0;
    for (; scope; scope = scope->outer, n++)
        for (const struct binding *b = scope->first; b; b = b->next, n++)
            if (b->name == name) { *out = b->value; return charge_letters(r, n); }
    if (!charge_letters(r, n)) return false;
    const struct value text = image_string(r, name);
    const struct value *found = dict_find(r, r->context, &text);
    *out = undefined_value(name);
    if (found) *out = *found;
    for (uint32_t i = 0; !found && i < CHAT_G_COUNT; i++)
        if (string_is(&text, functions[i])) *out = (struct value){ .kind = FUNCTION, .id = i };
    return !r->failed;
}
#undef NAMED

/* Does the value lie in the room?  Then the room may not be released while the value is in use. */
static bool is_in_room(const struct render *r, const struct value *v)
{
    if (v->kind <= FLOAT || v->kind == FUNCTION) return false;
    if (v->kind != STRING && v->kind != BIG) return true;
    const uintptr_t at = (uintptr_t)v->text, begin = (uintptr_t)r->room->bytes;
    return v->from == FROM_BOTH || (at >= begin && at < begin + r->room->size);
}

static APART bool set_attribute(struct render *r, const struct chat_node *n, struct scope *scope, struct value v)
{
    struct value of;
    if (!name_value(r, n->a, scope, &of)) return false;
    if (of.kind != NAMESPACE) return fail_text(r, CHAT_REFUSED, "cannot assign attribute on non-namespace object");
    const size_t before = of.dict->n;
    if (!dict_set(r, of.dict, image_string(r, n->b), v)) return false;
    if (of.dict->n != before || is_in_room(r, &v)) r->kept++;
    return true;
}

static APART bool assign(struct render *r, uint32_t target, struct scope *scope, struct value v)
{
    const struct chat_node *n = &r->nodes[target];
    if (!charge(r, 1)) return false;
    if (n->kind == CHAT_TARGET_NAME) return scope_set(r, scope, n->a, v);
    if (n->kind == CHAT_TARGET_ATTRIBUTE) return set_attribute(r, n, scope, v);
    const struct list *items;
    const uint32_t *parts = r->lists + n->a;
    if (!items_of(r, &v, &items)) return false;
    if (items->n != parts[0])
        return fail_text(r, CHAT_REFUSED, items->n < parts[0] ? "not enough values to unpack" : "too many values to unpack");
    for (uint32_t i = 0; i < parts[0]; i++) if (!assign(r, parts[1 + i], scope, items->items[i])) return false;
    return true;
}

/* ---- text ---- */

static bool put(struct render *r, const struct value *s)
{
    struct chat_text *o = r->out;
    if (s->n > o->size - o->n) return fail_text(r, CHAT_NO_SPACE, "the template's text does not fit its memory");
    if (s->n == 0) return true;
    if (!charge_bytes(r, s->n)) return false;
    memcpy(o->bytes + o->n, s->text, s->n);
    if (s->from == FROM_BOTH) memcpy(o->input + o->n, s->marks, s->n);
    else memset(o->input + o->n, s->from == FROM_INPUT, s->n);
    o->n += s->n;
    return true;
}

static APART bool put_value(struct render *r, const struct value *v)
{
    struct value s;
    if (v->kind == STRING) return put(r, v);
    return value_text(r, v, &s) && put(r, &s);
}

/* Turns the text written since `from` into a string. */
static APART bool capture(struct render *r, size_t from, struct value *out)
{
    struct chat_text *o = r->out;
    struct value written = string_value(o->bytes + from, o->n - from);
    struct builder b;
    written.from = FROM_BOTH;
    written.marks = o->input + from;
    builder_begin(&b, r);
    builder_string(&b, &written);
    o->n = from;
    return builder_end(&b, out);
}

/* ---- calls ---- */

static APART bool eval_arguments(struct render *r, uint32_t list, struct scope *scope, struct arguments *out)
{
    *out = (struct arguments){ 0 };
    if (list == CHAT_NONE) return true;
    const uint32_t *l = r->lists + list;
    const uint32_t n = l[0], n_named = l[1];
    struct value *values = room_array(r->room, n + n_named, sizeof *values);
    if (!values) return fail_room(r);
    *out = (struct arguments){ values, n, n_named, l + 2 + n, values + n };
    for (uint32_t i = 0; i < n; i++) if (!eval(r, l[2 + i], scope, &values[i])) return false;
    for (uint32_t i = 0; i < n_named; i++) if (!eval(r, l[2 + n + 2 * i + 1], scope, &values[n + i])) return false;
    return true;
}

static bool bind_rest(struct render *r, const struct chat_node *n, const struct arguments *args, uint32_t n_names, const bool *taken,
                      struct scope *scope)
{
    struct list *more;
    struct dict *named;
    if (!list_new(r, 0, &more) || !dict_new(r, 0, &named)) return false;
    for (uint32_t i = n_names; i < args->n; i++) if (!list_add(r, more, args->at[i])) return false;
    for (uint32_t i = 0; i < args->n_named; i++)
        if (!taken[i] && !dict_set(r, named, image_string(r, args->names[2 * i]), args->named[i])) return false;
    if (more->n && !(n->c & CHAT_USES_VARARGS)) return fail_text(r, CHAT_REFUSED, "a macro is called with too many arguments");
    if (named->n && !(n->c & CHAT_USES_KWARGS))
        return fail_text(r, CHAT_REFUSED, "a macro is called with an unknown argument name");
    for (uint32_t i = 0; i < r->h->n_strings && n->c & (CHAT_USES_VARARGS | CHAT_USES_KWARGS); i++) {
        const struct value name = image_string(r, i);
        if (string_is(&name, "varargs") && !scope_set(r, scope, i, list_value(more, TUPLE))) return false;
        if (string_is(&name, "kwargs") && !scope_set(r, scope, i, (struct value){ .kind = DICT, .dict = named })) return false;
    }
    return charge(r, n->c & (CHAT_USES_VARARGS | CHAT_USES_KWARGS) ? r->h->n_strings : 0);
}

/* caller: may be NULL. */
static bool bind_caller(struct render *r, const struct chat_node *n, const struct value *caller, struct scope *scope)
{
    if (!(n->c & CHAT_USES_CALLER)) {
        if (!caller) return true;
        return fail_text(r, CHAT_REFUSED, "{% call %} calls a macro that does not use caller");
    }
    for (uint32_t i = 0; i < r->h->n_strings; i++) {
        const struct value name = image_string(r, i);
        if (string_is(&name, "caller")) return charge(r, i) && scope_set(r, scope, i, caller ? *caller : undefined_value(i));
    }
    return true;
}

static APART bool bind_macro(struct render *r, const struct macro *m, const struct arguments *args, const struct value *caller,
                             struct scope *scope)
{
    const struct chat_node *n = &r->nodes[m->node];
    const uint32_t *l = r->lists + n->a, n_names = l[1], n_defaults = l[2], *names = l + 3, *defaults = names + n_names;
    bool taken[64] = { false };
    for (uint32_t i = 0; i < n_names; i++) {
        struct value v = undefined_value(names[i]);
        const uint32_t required = n_names - n_defaults;
        bool given = i < args->n;
        if (given) v = args->at[i];
        for (uint32_t k = 0; k < args->n_named; k++) {
            if (args->names[2 * k] != names[i]) continue;
            if (given) return fail_text(r, CHAT_REFUSED, "a macro is given an argument twice");
            given = taken[k] = true;
            v = args->named[k];
        }
        if (!given && i >= required && !eval(r, defaults[i - required], scope, &v)) return false;
        if (!scope_set(r, scope, names[i], v)) return false;
    }
    return bind_rest(r, n, args, n_names, taken, scope) && bind_caller(r, n, l[0] == CHAT_NONE ? NULL : caller, scope);
}

static bool call_macro(struct render *r, const struct macro *m, const struct arguments *args, const struct value *caller, struct value *out)
{
    const size_t used = r->room->used, from = r->out->n;
    const uint32_t kept = r->kept, line = r->line;
    struct scope scope = { NULL, m->scope };
    struct scope *const inside = room_take(r->room, sizeof scope);
    if (!inside) return fail_room(r);
    *inside = scope;
    if (!bind_macro(r, m, args, caller, inside) || exec(r, r->nodes[m->node].b, inside) == FLOW_FAILED) return false;
    if (r->kept == kept) r->room->used = used;
    r->line = line;
    return capture(r, from, out);
}

static enum flow run_loop(struct render *r, uint32_t node, struct scope *outer, struct value *over, size_t depth);

static APART bool call_loop(struct render *r, const struct loop *l, const struct arguments *args, struct value *out)
{
    const size_t from = r->out->n;
    if (!l->recursive) return fail_text(r, CHAT_REFUSED, "loop() is called in a loop that is not recursive");
    if (args->n != 1) return fail_text(r, CHAT_REFUSED, "a recursive loop needs one argument");
    struct value over = args->at[0];
    return run_loop(r, l->node, l->scope, &over, l->depth + 1) != FLOW_FAILED && capture(r, from, out);
}

static APART bool call_value(struct render *r, struct value *callee, const struct arguments *args, const struct value *caller,
                             struct value *out)
{
    switch ((enum kind)callee->kind) {
    case MACRO: return call_macro(r, callee->macro, args, caller, out);
    case FUNCTION: return function_call(r, callee->id, args, out);
    case METHOD: return method_call(r, callee->method, args, out);
    case LOOP: return call_loop(r, callee->loop, args, out);
    case JOINER:
        *out = callee->method->id ? callee->method->self : WORDS("");
        callee->method->id = 1;
        return true;
    case UNDEFINED: return fail_undefined(r, callee);
    default: return fail_with(r, "'%s' object is not callable", kind_name(callee), "");
    }
}

static bool eval_call(struct render *r, const struct chat_node *n, struct scope *scope, const struct value *caller, struct value *out)
{
    struct value callee;
    struct arguments args;
    if (!eval(r, n->a, scope, &callee) || !eval_arguments(r, n->b, scope, &args)) return false;
    r->line = n->line;
    return call_value(r, &callee, &args, caller, out);
}

/* ---- operators ---- */

static bool fail_types(struct render *r, const char *op, const struct value *a, const struct value *b)
{
    char text[100];
    struct text_out t = { text, sizeof text - 1, 0, false };
    if (a->kind == UNDEFINED) return fail_undefined(r, a);
    if (b->kind == UNDEFINED) return fail_undefined(r, b);
    TEXT_OUT_WORDS(&t, "unsupported operand types for ");
    text_out_put(&t, op, text_bytes(op));
    TEXT_OUT_WORDS(&t, ": '%s' and '%s'");
    text[t.n] = 0;
    return fail_with(r, text, kind_name(a), kind_name(b));
}

static bool too_large(struct render *r) { return fail_text(r, CHAT_REFUSED, "a number does not fit 64 bits"); }

static double whole_below(double x)
{
    if (!(x > -9e15 && x < 9e15)) return x;
    const double whole = (double)(int64_t)x;
    return whole - (whole > x);
}

static bool real_power(struct render *r, double a, double b, struct value *out)
{
    const double most = 1099511627776;                         /* 2^40 */
    if (!charge(r, NUMBER_STEPS)) return false;
    if (whole_below(b) != b || b > most || b < -most) return fail_text(r, CHAT_REFUSED, "the exponent of a power must be a whole number");
    if (a == 0 && b < 0) return fail_text(r, CHAT_REFUSED, "0.0 cannot be raised to a negative power");
    *out = float_value(number_power(a, (int64_t)b));
    return (out->f - out->f == 0 || a - a != 0) || fail_text(r, CHAT_REFUSED, "a number too large for a double");
}

static bool integer_power(struct render *r, int64_t a, int64_t b, struct value *out)
{
    int64_t x = 1;
    if (b < 0) return real_power(r, (double)a, (double)b, out);
    for (; b > 0; b--) {
        if (a == 1 || a == 0 || a == -1) { x = a == -1 && b % 2 == 0 ? 1 : a; break; }
        if (__builtin_mul_overflow(x, a, &x)) return too_large(r);
    }
    *out = int_value(x);
    return true;
}

static bool integers(struct render *r, char op, int64_t a, int64_t b, struct value *out)
{
    int64_t x = 0;
    if ((op == '/' || op == '%' || op == 'f') && b == 0) return fail_text(r, CHAT_REFUSED, "division by zero");
    switch (op) {
    case '+': if (__builtin_add_overflow(a, b, &x)) return too_large(r); break;
    case '-': if (__builtin_sub_overflow(a, b, &x)) return too_large(r); break;
    case '*': if (__builtin_mul_overflow(a, b, &x)) return too_large(r); break;
    case '/': *out = float_value((double)a / (double)b); return true;
    case '%': x = b == -1 ? 0 : a % b; x += x && (x < 0) != (b < 0) ? b : 0; break;
    case 'f':
        if (b == -1) { if (__builtin_sub_overflow((int64_t)0, a, &x)) return too_large(r); break; }
        x = a / b - (a % b != 0 && (a < 0) != (b < 0));
        break;
    default: return integer_power(r, a, b, out);
    }
    *out = int_value(x);
    return true;
}

/* a // b and a % b as float_divmod() of CPython: from the exact remainder, which takes the sign of b. */
static bool real_division(struct render *r, double a, double b, bool floor, struct value *out)
{
    if (!charge(r, NUMBER_STEPS)) return false;
    double rest = number_remainder(a, b), times = (a - rest) / b;
    if (rest != 0) {
        if ((b < 0) != (rest < 0)) { rest += b; times--; }
    } else rest = b < 0 ? -0.0 : 0.0;
    double whole = times != 0 ? whole_below(times) : a / b * 0;      /* zero, with a sign */
    if (times - whole > 0.5) whole++;
    *out = float_value(floor ? whole : rest);
    return true;
}

static bool reals(struct render *r, char op, double a, double b, struct value *out)
{
    double x;
    if ((op == '/' || op == '%' || op == 'f') && b == 0) return fail_text(r, CHAT_REFUSED, "division by zero");
    switch (op) {
    case '+': x = a + b; break;
    case '-': x = a - b; break;
    case '*': x = a * b; break;
    case '/': x = a / b; break;
    case 'f': case '%': return real_division(r, a, b, op == 'f', out);
    default: return real_power(r, a, b, out);
    }
    *out = float_value(x);
    return true;
}

static bool add_lists(struct render *r, const struct value *a, const struct value *b, struct value *out)
{
    struct list *l;
    if (!charge(r, a->list->n + b->list->n) || !list_new(r, a->list->n + b->list->n, &l)) return false;
    if (a->list->n) memcpy(l->items, a->list->items, a->list->n * sizeof *l->items);
    if (b->list->n) memcpy(l->items + a->list->n, b->list->items, b->list->n * sizeof *l->items);
    l->n = a->list->n + b->list->n;
    *out = list_value(l, (enum kind)a->kind);
    return true;
}

static bool repeat(struct render *r, const struct value *v, int64_t times, struct value *out)
{
    struct list *l;
    if (times < 0) times = 0;
    if (v->kind == STRING) {
        const struct value nothing = { .kind = STRING, .text = "", .safe = v->safe };
        if (times > INT32_MAX) return fail_room(r);
        return string_pad(r, &nothing, v->n ? (size_t)times : 0, 0, v, out);
    }
    if (!list_new(r, 0, &l)) return false;
    for (; times > 0 && v->list->n; times--)
        for (size_t i = 0; i < v->list->n; i++) if (!charge(r, 1) || !list_add(r, l, v->list->items[i])) return false;
    *out = list_value(l, (enum kind)v->kind);
    return true;
}

static bool is_repeatable(const struct value *v) { return v->kind == STRING || v->kind == LIST || v->kind == TUPLE; }

static APART bool eval_binary(struct render *r, const struct chat_node *n, struct scope *scope, struct value *out)
{
    struct value a, b;
    const char op = (char)n->op;
    if (!eval(r, n->a, scope, &a) || !eval(r, n->b, scope, &b)) return false;
    r->line = n->line;
    if (is_integer(&a) && is_integer(&b)) return integers(r, op, integer_of(&a), integer_of(&b), out);
    if (is_number(&a) && is_number(&b)) {
        if (a.kind != FLOAT && b.kind != FLOAT) return too_large(r);
        return reals(r, op, number_of(r, &a), number_of(r, &b), out) && !r->failed;
    }
    if (op == '+' && a.kind == STRING && b.kind == STRING) return string_add(r, &a, &b, out);
    if (op == '+' && a.kind == b.kind && (a.kind == LIST || a.kind == TUPLE)) return add_lists(r, &a, &b, out);
    if (op == '%' && a.kind == STRING) return string_percent(r, &a, &b, out);
    if (op == '*' && is_repeatable(&a) && is_integer(&b)) return repeat(r, &a, integer_of(&b), out);
    if (op == '*' && is_repeatable(&b) && is_integer(&a)) return repeat(r, &b, integer_of(&a), out);
    if (op == '+' && a.kind == STRING && b.kind != UNDEFINED)
        return fail_with(r, "can only concatenate text (not '%s') to text; ~ converts", kind_name(&b), "");
    return fail_types(r, op == 'f' ? "//" : op == 'p' ? "**" : (const char[]){ op, 0 }, &a, &b);
}

static bool compare(struct render *r, uint32_t op, const struct value *a, const struct value *b, bool *out)
{
    static const char *const signs[] = { "==", "!=", "<", "<=", ">", ">=" };
    int order;
    if (op == CHAT_IN || op == CHAT_NOT_IN) {
        if (!value_in(r, a, b, out)) return false;
        *out ^= op == CHAT_NOT_IN;
        return true;
    }
    if (op == CHAT_EQ || op == CHAT_NE) {
        if (!values_equal(r, a, b, out)) return false;
        *out ^= op == CHAT_NE;
        return true;
    }
    if (!values_order(r, a, b, signs[op], &order)) return false;
    *out = op == CHAT_LT ? order < 0 : op == CHAT_LE ? order <= 0 : op == CHAT_GT ? order > 0 : order >= 0;
    return true;
}

static APART bool eval_compare(struct render *r, const struct chat_node *n, struct scope *scope, struct value *out)
{
    struct value a, b;
    bool holds = true;
    const uint32_t *l = r->lists + n->b;
    if (!eval(r, n->a, scope, &a)) return false;
    for (uint32_t i = 0; i < l[0] && holds; i += 2) {
        if (!eval(r, l[2 + i], scope, &b)) return false;
        r->line = n->line;
        if (!compare(r, l[1 + i], &a, &b, &holds)) return false;
        a = b;
    }
    *out = bool_value(holds);
    return true;
}

static APART bool eval_sign(struct render *r, const struct chat_node *n, struct scope *scope, struct value *out)
{
    struct value v;
    if (!eval(r, n->a, scope, &v)) return false;
    const bool minus = n->kind == CHAT_NEGATE;
    if (is_integer(&v)) {
        if (minus && integer_of(&v) == INT64_MIN) return too_large(r);
        *out = int_value(minus ? -integer_of(&v) : integer_of(&v));
    } else if (v.kind == FLOAT) *out = float_value(minus ? -v.f : v.f);
    else if (v.kind == UNDEFINED) return fail_undefined(r, &v);
    else return v.kind == BIG ? too_large(r) : fail_with(r, "'%s' has no sign", kind_name(&v), "");
    return true;
}

/* ---- expressions ---- */

static APART bool eval_items(struct render *r, const struct chat_node *n, struct scope *scope, struct value *out)
{
    const uint32_t *l = r->lists + n->a;
    struct list *list;
    if (!list_new(r, l[0], &list)) return false;
    for (uint32_t i = 0; i < l[0]; i++) {
        struct value v;
        if (!eval(r, l[1 + i], scope, &v)) return false;
        list->items[list->n++] = v;
    }
    *out = list_value(list, n->kind == CHAT_LIST ? LIST : TUPLE);
    return true;
}

static APART bool eval_dict(struct render *r, const struct chat_node *n, struct scope *scope, struct value *out)
{
    const uint32_t *l = r->lists + n->a;
    struct dict *d;
    if (!dict_new(r, l[0] / 2, &d)) return false;
    for (uint32_t i = 0; i < l[0]; i += 2) {
        struct value key, v;
        if (!eval(r, l[1 + i], scope, &key) || !eval(r, l[2 + i], scope, &v) || !dict_set(r, d, key, v)) return false;
    }
    *out = (struct value){ .kind = DICT, .dict = d };
    return true;
}

static APART bool eval_concat(struct render *r, const struct chat_node *n, struct scope *scope, struct value *out)
{
    const uint32_t *l = r->lists + n->a;
    const struct value nothing = WORDS("");
    struct list *parts;
    if (!list_new(r, l[0], &parts)) return false;
    for (uint32_t i = 0; i < l[0]; i++) {
        struct value v;
        if (!eval(r, l[1 + i], scope, &v)) return false;
        parts->items[parts->n++] = v;
    }
    return string_join(r, &nothing, parts, true, out);
}

static APART bool eval_attribute(struct render *r, const struct chat_node *n, struct scope *scope, struct value *out)
{
    struct value of;
    if (!eval(r, n->a, scope, &of)) return false;
    const struct value name = image_string(r, n->b);
    r->line = n->line;
    return value_attribute(r, &of, &name, n->b, out);
}

static APART bool eval_item(struct render *r, const struct chat_node *n, struct scope *scope, struct value *out)
{
    struct value of, index;
    if (!eval(r, n->a, scope, &of) || !eval(r, n->b, scope, &index)) return false;
    r->line = n->line;
    if (!value_item(r, &of, &index, out)) return false;
    if (out->kind == UNDEFINED && r->nodes[n->b].kind == CHAT_LITERAL_STRING) out->id = r->nodes[n->b].a;
    return true;
}

static APART bool eval_slice(struct render *r, const struct chat_node *n, struct scope *scope, struct value *out)
{
    struct value of, parts[3];
    if (!eval(r, n->a, scope, &of)) return false;
    for (uint32_t i = 0; i < 3; i++) {
        parts[i] = none_value();
        if (r->lists[n->b + i] != CHAT_NONE && !eval(r, r->lists[n->b + i], scope, &parts[i])) return false;
    }
    r->line = n->line;
    return value_slice(r, &of, parts, out);
}

static bool fail_unknown(struct render *r, const char *what, uint32_t name)
{
    char text[80];
    const struct value s = image_string(r, name);
    const size_t n = s.n < sizeof text - 1 ? s.n : sizeof text - 1;
    memcpy(text, s.text, n);
    text[n] = 0;
    return fail_with(r, "the %s '%s' is not supported", what, text);
}

/* input: the operand of a block's filter; NULL: the node's own operand. */
static APART bool eval_filter(struct render *r, const struct chat_node *n, struct scope *scope, const struct value *input,
                              struct value *out)
{
    struct value v;
    struct arguments args;
    if (n->a == CHAT_NONE) v = *input;
    else if (input ? !eval_filter(r, &r->nodes[n->a], scope, input, &v) : !eval(r, n->a, scope, &v)) return false;
    if (n->op == CHAT_UNKNOWN) return fail_unknown(r, "filter", n->c);
    if (!eval_arguments(r, n->b, scope, &args)) return false;
    r->line = n->line;
    return filter_apply(r, n->op, &v, &args, out);
}

static APART bool eval_test(struct render *r, const struct chat_node *n, struct scope *scope, struct value *out)
{
    struct value v;
    struct arguments args;
    bool holds;
    if (!eval(r, n->a, scope, &v)) return false;
    if (n->op == CHAT_UNKNOWN) return fail_unknown(r, "test", n->c);
    if (!eval_arguments(r, n->b, scope, &args)) return false;
    r->line = n->line;
    if (!test_apply(r, n->op, &v, &args, &holds)) return false;
    *out = bool_value(holds);
    return true;
}

static bool eval_inside(struct render *r, const struct chat_node *n, struct scope *scope, struct value *out)
{
    switch ((enum chat_kind)n->kind) {
    case CHAT_LITERAL_NONE: *out = none_value(); return true;
    case CHAT_LITERAL_TRUE: *out = bool_value(true); return true;
    case CHAT_LITERAL_FALSE: *out = bool_value(false); return true;
    case CHAT_LITERAL_INT: *out = int_value(r->numbers[n->a].i); return true;
    case CHAT_LITERAL_FLOAT: *out = float_value(r->numbers[n->a].f); return true;
    case CHAT_LITERAL_STRING: *out = image_string(r, n->a); return true;
    case CHAT_LITERAL_BIG:
        *out = image_string(r, n->a);
        out->kind = BIG;
        return true;
    case CHAT_NAME: return name_value(r, n->a, scope, out);
    case CHAT_LIST: case CHAT_TUPLE: return eval_items(r, n, scope, out);
    case CHAT_DICT: return eval_dict(r, n, scope, out);
    case CHAT_ATTRIBUTE: return eval_attribute(r, n, scope, out);
    case CHAT_ITEM: return eval_item(r, n, scope, out);
    case CHAT_SLICE: return eval_slice(r, n, scope, out);
    case CHAT_CALL: return eval_call(r, n, scope, NULL, out);
    case CHAT_FILTER: return eval_filter(r, n, scope, NULL, out);
    case CHAT_TEST: return eval_test(r, n, scope, out);
    case CHAT_NOT:
        if (!eval(r, n->a, scope, out)) return false;
        *out = bool_value(!truth_of(out));
        return true;
    case CHAT_NEGATE: case CHAT_PLUS: return eval_sign(r, n, scope, out);
    case CHAT_AND: case CHAT_OR:
        if (!eval(r, n->a, scope, out)) return false;
        return truth_of(out) == (n->kind == CHAT_OR) || eval(r, n->b, scope, out);
    case CHAT_BINARY: return eval_binary(r, n, scope, out);
    case CHAT_COMPARE: return eval_compare(r, n, scope, out);
    case CHAT_CONCAT: return eval_concat(r, n, scope, out);
    case CHAT_CHOICE:
        if (!eval(r, n->a, scope, out)) return false;
        if (truth_of(out)) return eval(r, n->b, scope, out);
        *out = undefined_value(CHAT_NONE);
        return n->c == CHAT_NONE || eval(r, n->c, scope, out);
    default: return fail_text(r, CHAT_REFUSED, "the template's image is damaged");
    }
}

static bool eval(struct render *r, uint32_t node, struct scope *scope, struct value *out)
{
    if (!charge(r, 1) || !deeper(r)) return false;
    const bool fine = eval_inside(r, &r->nodes[node], scope, out);
    r->depth--;
    return fine;
}

/* ---- statements ---- */

static enum flow exec_body(struct render *r, const struct chat_node *n, struct scope *scope)
{
    const uint32_t *l = r->lists + n->a;
    for (uint32_t i = 0; i < l[0]; i++) {
        const enum flow flow = exec(r, l[1 + i], scope);
        if (flow != FLOW_ON) return flow;
    }
    return FLOW_ON;
}

static enum flow flow_of(bool fine) { return fine ? FLOW_ON : FLOW_FAILED; }

static APART bool exec_output(struct render *r, const struct chat_node *n, struct scope *scope)
{
    const size_t used = r->room->used;
    const uint32_t kept = r->kept;
    struct value v;
    if (!eval(r, n->a, scope, &v) || !put_value(r, &v)) return false;
    if (r->kept == kept) r->room->used = used;
    return true;
}

static enum flow exec_if(struct render *r, const struct chat_node *n, struct scope *scope)
{
    const uint32_t *l = r->lists + n->a;
    struct value v;
    for (uint32_t i = 0; i < l[0]; i += 2) {
        if (!eval(r, l[1 + i], scope, &v)) return FLOW_FAILED;
        if (truth_of(&v)) return exec(r, l[2 + i], scope);
    }
    return n->b == CHAT_NONE ? FLOW_ON : exec(r, n->b, scope);
}

static struct scope *scope_new(struct render *r, struct scope *outer)
{
    struct scope *s = room_take(r->room, sizeof *s);
    if (!s) fail_room(r);
    else *s = (struct scope){ NULL, outer };
    return s;
}

/* Keeps the items for which the condition of the loop is true. */
static APART bool keep_items(struct render *r, const uint32_t *parts, struct scope *outer, const struct list *all, const struct list **out)
{
    struct list *kept;
    if (!list_new(r, all->n, &kept)) return false;
    for (size_t i = 0; i < all->n; i++) {
        struct value holds;
        struct scope *scope = scope_new(r, outer);
        if (!scope || !assign(r, parts[0], scope, all->items[i]) || !eval(r, parts[2], scope, &holds)) return false;
        if (truth_of(&holds)) kept->items[kept->n++] = all->items[i];
    }
    *out = kept;
    return true;
}

/* The name "loop" as a string of the image; CHAT_NONE: no template uses it. */
static uint32_t loop_name(const struct render *r)
{
    for (uint32_t i = 0; i < r->h->n_strings; i++) {
        const struct value name = image_string(r, i);
        if (string_is(&name, "loop")) return i;
    }
    return CHAT_NONE;
}

static APART bool bind_turn(struct render *r, uint32_t target, struct loop *loop, const struct list *items, size_t at, struct scope *scope)
{
    loop->at = at;
    if (!assign(r, target, scope, items->items[at])) return false;
    return r->loop_name == CHAT_NONE || scope_set(r, scope, r->loop_name, (struct value){ .kind = LOOP, .loop = loop });
}

static enum flow run_loop(struct render *r, uint32_t node, struct scope *outer, struct value *over, size_t depth)
{
    const uint32_t *parts = r->lists + r->nodes[node].a;
    const struct list *items;
    r->line = r->nodes[node].line;
    if (!items_of(r, over, &items)) return FLOW_FAILED;
    if (parts[2] != CHAT_NONE && !keep_items(r, parts, outer, items, &items)) return FLOW_FAILED;
    struct loop *const loop = room_take(r->room, sizeof *loop);
    if (!loop) { fail_room(r); return FLOW_FAILED; }
    *loop = (struct loop){ .items = items, .depth = depth, .node = node, .scope = outer, .recursive = r->nodes[node].c };
    if (items->n == 0 && parts[4] != CHAT_NONE) {
        struct scope *scope = scope_new(r, outer);
        return scope ? exec(r, parts[4], scope) : FLOW_FAILED;
    }
    for (size_t i = 0; i < items->n; i++) {
        const size_t used = r->room->used;
        const uint32_t kept = r->kept;
        struct scope *scope = scope_new(r, outer);
        if (!scope || !bind_turn(r, parts[0], loop, items, i, scope)) return FLOW_FAILED;
        const enum flow flow = exec(r, parts[3], scope);
        if (flow == FLOW_FAILED) return flow;
        if (r->kept == kept) r->room->used = used;
        if (flow == FLOW_BREAK) break;
    }
    return FLOW_ON;
}

static APART enum flow exec_for(struct render *r, uint32_t node, struct scope *scope)
{
    struct value over;
    if (!eval(r, r->lists[r->nodes[node].a + 1], scope, &over)) return FLOW_FAILED;
    return run_loop(r, node, scope, &over, 1);
}

static APART bool exec_set(struct render *r, const struct chat_node *n, struct scope *scope)
{
    struct value v;
    if (!eval(r, n->b, scope, &v)) return false;
    r->line = n->line;
    return assign(r, n->a, scope, v);
}

static APART bool exec_set_block(struct render *r, const struct chat_node *n, struct scope *scope)
{
    struct value v;
    const size_t from = r->out->n;
    struct scope *inside = scope_new(r, scope);
    if (!inside || exec(r, n->b, inside) == FLOW_FAILED || !capture(r, from, &v)) return false;
    if (n->c != CHAT_NONE) {
        const struct value input = v;
        if (!eval_filter(r, &r->nodes[n->c], scope, &input, &v)) return false;
    }
    return assign(r, n->a, scope, v);
}

static APART bool exec_filter_block(struct render *r, const struct chat_node *n, struct scope *scope)
{
    struct value input, v;
    const size_t from = r->out->n;
    struct scope *inside = scope_new(r, scope);
    if (!inside || exec(r, n->b, inside) == FLOW_FAILED || !capture(r, from, &input)) return false;
    return eval_filter(r, &r->nodes[n->a], scope, &input, &v) && put_value(r, &v);
}

static bool macro_value(struct render *r, uint32_t node, struct scope *scope, struct value *out)
{
    struct macro *m = room_take(r->room, sizeof *m);
    if (!m) return fail_room(r);
    *m = (struct macro){ node, scope };
    *out = (struct value){ .kind = MACRO, .macro = m };
    return true;
}

static APART bool exec_call_block(struct render *r, const struct chat_node *n, struct scope *scope)
{
    struct value caller, v;
    if (!macro_value(r, n->b, scope, &caller) || !eval_call(r, &r->nodes[n->a], scope, &caller, &v)) return false;
    return put_value(r, &v);
}

static APART enum flow exec_with(struct render *r, const struct chat_node *n, struct scope *scope)
{
    const uint32_t *l = r->lists + n->a;
    struct scope *inside = scope_new(r, scope);
    struct value v;
    if (!inside) return FLOW_FAILED;
    for (uint32_t i = 0; i < l[0]; i += 2)
        if (!eval(r, l[2 + i], scope, &v) || !assign(r, l[1 + i], inside, v)) return FLOW_FAILED;
    return exec(r, n->b, inside);
}

static APART bool exec_macro(struct render *r, uint32_t node, struct scope *scope)
{
    struct value m;
    return macro_value(r, node, scope, &m) && scope_set(r, scope, r->lists[r->nodes[node].a], m);
}

static enum flow exec_inside(struct render *r, uint32_t node, struct scope *scope)
{
    const struct chat_node *n = &r->nodes[node];
    struct value text;
    switch ((enum chat_kind)n->kind) {
    case CHAT_BODY: return exec_body(r, n, scope);
    case CHAT_TEXT:
        text = image_string(r, n->a);
        return flow_of(put(r, &text));
    case CHAT_OUTPUT: return flow_of(exec_output(r, n, scope));
    case CHAT_IF: return exec_if(r, n, scope);
    case CHAT_FOR: return exec_for(r, node, scope);
    case CHAT_SET: return flow_of(exec_set(r, n, scope));
    case CHAT_SET_BLOCK: return flow_of(exec_set_block(r, n, scope));
    case CHAT_MACRO: return flow_of(exec_macro(r, node, scope));
    case CHAT_CALL_BLOCK: return flow_of(exec_call_block(r, n, scope));
    case CHAT_FILTER_BLOCK: return flow_of(exec_filter_block(r, n, scope));
    case CHAT_WITH: return exec_with(r, n, scope);
    case CHAT_SCOPE:
        scope = scope_new(r, scope);
        return scope ? exec(r, n->a, scope) : FLOW_FAILED;
    case CHAT_BREAK: return FLOW_BREAK;
    case CHAT_CONTINUE: return FLOW_CONTINUE;
    default: return flow_of(fail_text(r, CHAT_REFUSED, "the template's image is damaged"));
    }
}

static enum flow exec(struct render *r, uint32_t node, struct scope *scope)
{
    r->line = r->nodes[node].line;
    if (!charge(r, 1) || !deeper(r)) return FLOW_FAILED;
    const enum flow flow = exec_inside(r, node, scope);
    r->depth--;
    return flow;
}

/* ---- the whole ---- */

static bool context_set(struct render *r, const char *name, struct value v)
{
    return dict_set(r, r->context, string_value(name, text_bytes(name)), v);
}

static bool context_add(struct render *r, const struct json *variables)
{
    if (!variables || variables->kind != JSON_OBJECT) return true;
    for (const struct json *m = variables->first; m; m = m->next) {
        struct value v;
        if (!json_to_value(r, m, &v) || !dict_set(r, r->context, string_value(m->name, m->n_name), v)) return false;
    }
    return true;
}

/* Adds the text of the clock, unless there is no clock or there is such a variable. */
static bool context_date(struct render *r, const char *name, struct value format)
{
    const struct value key = string_value(name, text_bytes(name));
    struct value now;
    if (!r->in->now) return true;
    if (dict_find(r, r->context, &key) || r->failed) return !r->failed;
    return strftime_now(r, &format, &now) && context_set(r, name, now);
}

/* llama.cpp's common_chat_params_init_llama_3_x and _firefunction_v2; functions is the JSON of the tools, or empty. */
static bool context_family(struct render *r, uint32_t family)
{
    const struct tojson how = { .item = WORDS(","), .key = WORDS(": "), .indented = true, .indent = 2 };
    const struct value key = WORDS("functions"), tools_key = WORDS("tools");
    struct value functions = WORDS("");
    if (family == CHAT_llama_3) return context_date(r, "date_string", WORDS("%d %b %Y"));
    if (family != CHAT_firefunction_2) return true;
    if (!context_date(r, "datetime", WORDS("%b %d %Y %H:%M:%S GMT"))) return false;
    if (dict_find(r, r->context, &key) || r->failed) return !r->failed;
    const struct value *tools = dict_find(r, r->context, &tools_key);
    if (r->failed || (tools && truth_of(tools) && !value_tojson(r, tools, &how, &functions))) return false;
    return context_set(r, "functions", functions);
}

static bool make_context(struct render *r, uint32_t family)
{
    const struct chat_input *in = r->in;
    if (!dict_new(r, 16, &r->context) || !context_add(r, in->variables)) return false;
    if (in->bos && !context_set(r, "bos_token", string_value(in->bos, text_bytes(in->bos)))) return false;
    if (in->eos && !context_set(r, "eos_token", string_value(in->eos, text_bytes(in->eos)))) return false;
    return context_add(r, in->more) && (!in->family_variables || context_family(r, family));
}

static void view(struct render *r, const uint8_t *image, const struct chat_template **templates)
{
    const struct chat_header *h = r->h = (const void *)image;
    uint64_t at = sizeof *h;
    struct { const void *numbers, *templates, *nodes, *strings, *lists; } p;
#define SECTION(name, type, count) p.name = image + at; at += sizeof(type) * (uint64_t)(count);
    CHAT_SECTIONS(SECTION, h)
#undef SECTION
    *templates = p.templates;
    r->numbers = p.numbers;
    r->nodes = p.nodes;
    r->strings = p.strings;
    r->lists = p.lists;
    r->text = (const char *)image + at;
}

static const struct chat_template *find_template(const struct render *r, const struct chat_template *templates, const char *name)
{
    for (uint32_t i = 0; i < r->h->n_templates; i++) {
        if (templates[i].name == CHAT_NONE) { if (!name) return &templates[i]; continue; }
        const struct value have = image_string(r, templates[i].name);
        if (name && string_is(&have, name)) return &templates[i];
    }
    return NULL;
}

static const struct chat_template *template_for(const struct render *r, const struct chat_template *templates, const char *name, bool tools)
{
    const struct chat_template *t = find_template(r, templates, !name && tools ? "tool_use" : name);
    return t || name ? t : find_template(r, templates, NULL);
}

uint32_t chat_writes(const uint8_t *image, bool tools)
{
    struct render r = { 0 };
    const struct chat_template *templates;
    view(&r, image, &templates);
    const struct chat_template *t = template_for(&r, templates, NULL, tools);
    return t ? t->family : 0;
}

bool chat_has(const uint8_t *image, const char *name)
{
    struct render r = { 0 };
    const struct chat_template *templates;
    view(&r, image, &templates);
    return find_template(&r, templates, name) != NULL;
}

bool chat_about(const uint8_t *image, uint32_t i, struct chat_about *out)
{
    struct render r = { 0 };
    const struct chat_template *templates;
    view(&r, image, &templates);
    if (i >= r.h->n_templates) return false;
    *out = (struct chat_about){ .bytes = templates[i].source_bytes, .hash = templates[i].hash };
    if (templates[i].name == CHAT_NONE) return true;
    out->name = r.text + r.strings[templates[i].name].offset;
    out->n_name = r.strings[templates[i].name].n;
    return true;
}

bool chat_render_within(uint32_t depth, const uint8_t *image, const char *name, const struct chat_input *in, struct room *work,
                        struct chat_text *text, struct chat_error *error)
{
    struct render r = { .in = in, .room = work, .out = text, .error = error, .steps = in->steps ? in->steps : CHAT_STEPS,
                        .most_depth = depth };
    const struct chat_template *templates, *template;
    struct scope root = { NULL, NULL };
    const size_t used = work->used;
    view(&r, image, &templates);
    r.loop_name = loop_name(&r);
    const struct json *tools = json_member(in->more, "tools");
    if (!tools) tools = json_member(in->variables, "tools");
    const bool has_tools = tools && tools->kind == JSON_ARRAY && tools->n > 0;
    template = template_for(&r, templates, name, has_tools);
    text->n = 0;
    if (!template) return fail_with(&r, "there is no chat template '%s'", name ? name : "default", "");
    const bool fine = make_context(&r, template->family) && exec(&r, template->root, &root) != FLOW_FAILED && !r.failed;
    work->used = used;
    return fine;
}

bool chat_render(const uint8_t *image, const char *name, const struct chat_input *in, struct room *work, struct chat_text *text,
                 struct chat_error *error)
{
    return chat_render_within(CHAT_DEPTH, image, name, in, work, text, error);
}
