/* kernel.c -- see kernel.h. */
#include "kernel.h"
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *const kernel_param_name[PARAM_COUNT] = {
    [PARAM_ROWS] = "rows", [PARAM_LANES] = "lanes", [PARAM_TOKENS] = "tokens", [PARAM_THREADS] = "threads", [PARAM_RESIDENT] = "resident",
    [PARAM_LEAST] = "least", [PARAM_MOST] = "most", [PARAM_SPLITS] = "splits", [PARAM_SPANS] = "spans", [PARAM_SPAN] = "span",
    [PARAM_CLUSTER] = "cluster", [PARAM_DIGITS] = "digits", [PARAM_UNIT] = "unit", [PARAM_DEPTH] = "depth",
    [PARAM_COLUMNS] = "columns",
};

const struct template_info template_info[TEMPLATE_COUNT] = {
#define P(param) (1u << PARAM_##param)
#define TEMPLATE(name, machine, free, follows) { #name, TEMPLATE_##machine, free, follows },
#include "template.def"
#undef TEMPLATE
#undef P
};

struct kernel_list *kernel_list_new(struct arena *a)
{
    struct kernel_list *list = arena_new(a, struct kernel_list);
    list->arena = a;
    list->sample.kernel = list->drafts.kernel = list->take.kernel = NO_KERNEL;
    return list;
}

struct kernel_draft kernel_begin(struct kernel_list *list, enum kernel_template template, const char *name, const struct fused *f,
                                 const struct group *group, enum kernel_steps steps, bool tail)
{
    struct kernel_draft d = { .does = { .arena = list->arena }, .steps = steps };
    d.kernel = (struct kernel){ .name = name, .template = template, .prefill = steps == STEPS_PREFILL, .group = group, .grid_x = 1 };
    d.launch = (struct launch){ .name = group ? group->name : name, .group = group ? (uint32_t)(group - f->groups) : NO_GROUP,
                                .layer = group ? group->layer : NO_LAYER, .tail = tail };
    return d;
}

void kernel_does(struct kernel_draft *d, const char *fmt, ...)
{
    char line[1024];
    va_list args;
    va_start(args, fmt);
    const int n = vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof line)
        die("kernel %s: a line of %d characters; this is a mistake in forgec, please report it", d->kernel.name, n);
    text_printf(&d->does, "%s\n", line);
}

const char *kernel_symbol(struct arena *a, const char *prefix, const char *name)
{
    char *symbol = arena_printf(a, "%s%s", prefix, name);
    for (char *c = symbol; *c; c++) *c = isalnum((unsigned char)*c) ? (char)toupper((unsigned char)*c) : '_';
    return symbol;
}

/* The symbol of one more weight of the launch; weights with the same role get different symbols. */
static const char *weight_symbol(const struct kernel_draft *d, const char *role)
{
    const struct launch *l = &d->launch;
    const char *symbol = kernel_symbol(d->does.arena, "W_", role), *s = symbol;
    for (uint32_t n = 2, i = 0; i < l->n_bindings; i++)
        if (strcmp(l->bindings[i].symbol, s) == 0) {
            s = arena_printf(d->does.arena, "%s_%u", symbol, n++);
            i = (uint32_t)-1;
        }
    return s;
}

const char *kernel_bind(struct kernel_draft *d, struct binding part, const char *role, uint64_t bytes)
{
    struct launch *l = &d->launch;
    for (uint32_t i = 0; i < l->n_bindings; i++) if (l->bindings[i].offset == part.offset) return l->bindings[i].symbol;
    if (l->n_bindings == COUNT_OF(l->bindings))
        die("kernel %s reads more than %zu tensors; this is a mistake in forgec, please report it (--fuse none may avoid it)",
            d->kernel.name, COUNT_OF(l->bindings));
    if (part.offset == UINT64_MAX)
        die("kernel %s reads tensor %s, which has no place among the weights; this is a mistake in forgec, please report it",
            d->kernel.name, role);
    part.symbol = weight_symbol(d, role);
    l->bindings[l->n_bindings++] = part;
    d->kernel.weight_bytes += bytes;
    return part.symbol;
}

uint32_t kernel_bound(const struct launch *l, uint64_t offset)
{
    for (uint32_t i = 0; i < l->n_bindings; i++) if (l->bindings[i].offset == offset) return i;
    die("launch %s does not bind a tensor that its kernel reads; this is a mistake in forgec, please report it", l->name);
}

static bool is_same(const struct kernel *x, const struct kernel *y)
{
    return x->template == y->template && x->prefill == y->prefill && memcmp(x->param, y->param, sizeof x->param) == 0 &&
           x->lds_bytes == y->lds_bytes && x->grid_x == y->grid_x && x->grid_tokens == y->grid_tokens &&
           x->tokens_first == y->tokens_first && x->unless_divides == y->unless_divides && x->from_positions == y->from_positions &&
           x->joins_divides == y->joins_divides &&
           strcmp(x->does, y->does) == 0;
}

static const char *unique(const struct kernel_list *list, const char *name)
{
    const char *s = name;
    for (uint32_t n = 2, i = 0; i < list->n_kernels; i++)
        if (strcmp(list->kernels[i].name, s) == 0) {
            s = arena_printf(list->arena, "%s_%u", name, n++);
            i = (uint32_t)-1;
        }
    return s;
}

static uint32_t kernel_of(struct kernel_list *list, const struct kernel *k)
{
    for (uint32_t i = 0; i < list->n_kernels; i++) if (is_same(&list->kernels[i], k)) return i;
    arena_room(list->arena, list->kernels, list->n_kernels, list->kernel_capacity);
    struct kernel *made = &list->kernels[list->n_kernels];
    *made = *k;
    made->name = unique(list, k->name);
    return list->n_kernels++;
}

/* Appends the line that names the weights in the order of their slots. */
static void weights_do(struct kernel_draft *d)
{
    const struct launch *l = &d->launch;
    for (uint32_t i = 0; i < l->n_bindings; i++)
        text_printf(&d->does, "%s%s", i ? ", " : "weights of the launch: ", l->bindings[i].symbol);
    if (l->n_bindings) text_puts(&d->does, "\n");
}

uint32_t kernel_end(struct kernel_list *list, struct kernel_draft *d)
{
    weights_do(d);
    d->kernel.does = text_str(&d->does);
    d->launch.kernel = kernel_of(list, &d->kernel);
    list->kernels[d->launch.kernel].n_launches++;
    struct launches *of = &list->of[d->steps];
    arena_room(list->arena, of->list, of->n, of->capacity);
    of->list[of->n++] = d->launch;
    return d->launch.kernel;
}

const char *const kernel_steps_name[STEPS_COUNT] = { "decode", "prefill", "columns", "pass" };

struct launch kernel_take(struct kernel_list *list, enum kernel_steps steps) { return list->of[steps].list[--list->of[steps].n]; }

const struct launch *kernel_first_launch(const struct kernel_list *list, uint32_t kernel)
{
    const struct launch *others[] = { &list->sample, &list->drafts, &list->take };
    for (uint32_t i = 0; i < COUNT_OF(others); i++) if (others[i]->kernel == kernel) return others[i];
    for (enum kernel_steps steps = 0; steps < STEPS_COUNT; steps++) {
        const struct launches *of = &list->of[steps];
        for (uint32_t i = 0; i < of->n; i++) if (of->list[i].kernel == kernel) return &of->list[i];
    }
    die("kernel %s is never launched; this is a mistake in forgec, please report it", list->kernels[kernel].name);
}

bool kernel_runs(const struct kernel *k, uint32_t tokens)
{
    return !k->param[PARAM_MOST] || (tokens >= k->param[PARAM_LEAST] && tokens <= k->param[PARAM_MOST]);
}

uint32_t kernel_launches(const struct kernel_list *list, enum kernel_steps steps, uint32_t tokens)
{
    const struct launches *of = &list->of[steps];
    uint32_t sum = 0;
    for (uint32_t i = 0; i < of->n; i++)
        sum += kernel_runs(&list->kernels[of->list[i].kernel], tokens) && (!of->list[i].most || tokens <= of->list[i].most);
    return sum;
}

/* ---- a plan that was read back ---- */

const struct kernel_choice *kernel_choice(const struct kernel_choices *choices, enum kernel_template template,
                                          enum kernel_steps steps, uint32_t group, uint32_t nth)
{
    for (; choices; choices = choices->behind)
        for (uint32_t i = 0; i < choices->n; i++) {
            const struct kernel_choice *c = &choices->list[i];
            if (c->template != template || c->steps != steps) continue;
            for (uint32_t k = 0; k < c->n_groups; k++)
                if (c->groups[k] == group && nth-- == 0) return c;
        }
    return NULL;
}

struct kernel_choices kernel_choices_of(struct arena *a, const struct kernel_list *list, enum kernel_template template, const char *path)
{
    struct kernel_choices made = { .n = 1 };
    for (enum kernel_steps steps = 0; steps <= STEPS_COLUMNS; steps++) made.n += list->of[steps].n;
    made = (struct kernel_choices){ .list = arena_array(a, struct kernel_choice, made.n) };
    for (enum kernel_steps steps = 0; steps <= STEPS_COLUMNS; steps++) {
        const struct launches of = list->of[steps];
        for (uint32_t i = 0; i < of.n; i++) {
            const struct kernel *k = &list->kernels[of.list[i].kernel];
            if (k->template != template) continue;
            struct kernel_choice *c = &made.list[made.n++];
            *c = (struct kernel_choice){ .at = { path, 1, 1 }, .template = template, .steps = steps, .groups = &of.list[i].group,
                                         .n_groups = 1, .given = template_info[template].free };
            memcpy(c->param, k->param, sizeof c->param);
        }
    }
    return made;
}

uint32_t kernel_chosen(const struct kernel_choice *c, enum kernel_param param, uint32_t planned)
{
    return c && c->given >> param & 1 ? c->param[param] : planned;
}
