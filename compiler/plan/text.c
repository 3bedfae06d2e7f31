/* text.c -- see text.h. */
#include "text.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long ull;

/* ---- printing ---- */

static void print_states(struct text *out, const struct plan *p)
{
    text_printf(out, "\n# state of a sequence: %llu bytes, %llu for each token\n", (ull)p->state_bytes, (ull)p->state_bytes_per_token);
    for (uint32_t i = 0; i < p->n_states; i++) {
        const struct state *s = &p->states[i];
        text_printf(out, "#   %-9s layer %u at %llu: %llu bytes", state_kind_name[s->kind], s->layer, (ull)s->offset, (ull)s->bytes);
        if (s->row_bytes) text_printf(out, ", %u runs of %u rows of %llu", s->runs, s->rows, (ull)s->row_bytes);
        text_puts(out, s->back > 0 ? "\n" : ", cannot be rewound\n");
    }
}

static void print_image(struct text *out, const struct plan *p)
{
    const struct plan_tensor *list = plan_tensors(out->arena, p);
    text_printf(out, "\n# weight image: %llu bytes, of which a token reads %llu\n", (ull)p->image_bytes, (ull)p->read_bytes);
    for (uint32_t i = 0; i < p->n_tensors; i++) {
        const struct weight *w = list[i].weight;
        text_printf(out, "#   %-32s at %llu: %llu bytes", list[i].name, (ull)list[i].offset, (ull)list[i].bytes);
        if (w) text_printf(out, ", %llu x %llu %s", (ull)w->rows, (ull)w->cols, w->tensor->quant->name);
        text_puts(out, "\n");
    }
}

static void print_params(struct text *out, const struct kernel *k, uint32_t set, const char *between, const char *is)
{
    for (uint32_t i = 0; i < PARAM_COUNT; i++)
        if (set >> i & 1) text_printf(out, "%s%s%s%u", between, kernel_param_name[i], is, k->param[i]);
}

static void print_groups(struct text *out, struct launches launches, uint32_t kernel)
{
    const char *comma = " groups=";
    for (uint32_t i = 0; i < launches.n; i++) {
        if (launches.list[i].kernel != kernel || launches.list[i].group == NO_GROUP) continue;
        text_printf(out, "%s%u", comma, launches.list[i].group);
        comma = ",";
    }
}

static void print_sizes(struct text *out, const struct plan *p, const struct kernel *k)
{
    const double us = plan_micros(p, k->weight_bytes + k->state_bytes);
    text_printf(out, "    # %u launches", k->n_launches);
    if (k->grid_x > 1 || k->lds_bytes) text_printf(out, ", %u groups", k->grid_x);
    if (k->grid_tokens) text_printf(out, " x tokens / %u", k->grid_tokens);
    if (k->lds_bytes) text_printf(out, ", %u bytes of LDS", k->lds_bytes);
    print_params(out, k, template_info[k->template].follows, ", ", " ");
    if (k->weight_bytes) text_printf(out, "; %llu weight bytes", (ull)k->weight_bytes);
    if (k->state_bytes) text_printf(out, "; %llu of state, full context", (ull)k->state_bytes);
    if (k->operations) text_printf(out, "; %llu operations a token", (ull)k->operations);
    if (k->attention) text_printf(out, "; %llu operations a token and position", (ull)k->attention);
    if (us > 0) text_printf(out, "; %.2f us of reading", us);
    if (k->fill > 0) text_printf(out, "; fill %.2f", k->fill);
    text_puts(out, "\n");
}

static void print_kernels(struct text *out, const struct plan *p, enum kernel_steps steps)
{
    const struct kernel_list *list = p->kernels;
    const struct launches launches = list->of[steps];
    text_printf(out, "\n%s\n", kernel_steps_name[steps]);
    for (uint32_t i = 0; i < list->n_kernels; i++) {
        const struct kernel *k = &list->kernels[i];
        bool used = false;
        for (uint32_t l = 0; l < launches.n; l++) used |= launches.list[l].kernel == i;
        if (!used) continue;
        text_printf(out, "  %s %s", template_info[k->template].name, k->name);
        print_params(out, k, template_info[k->template].free, " ", "=");
        print_groups(out, launches, i);
        text_puts(out, "\n");
        print_sizes(out, p, k);
        for (const char *line = k->does; *line; line += strcspn(line, "\n") + 1)
            text_printf(out, "    # %.*s\n", (int)strcspn(line, "\n"), line);
    }
}

void plan_text_print(struct text *out, const struct plan *p, const char *options)
{
    text_puts(out, "plan 1\n");
    text_printf(out, "target %s\noptions %s\nchunk %u\n", p->target->name, options, p->chunk);
    if (p->model->pooling) text_printf(out, "# embeddings: %s\n", model_embeddings(out->arena, p->model));
    print_states(out, p);
    print_image(out, p);
    text_printf(out, "\n# arena: %llu bytes\n", (ull)p->arena_bytes);
    for (enum kernel_steps steps = 0; steps < STEPS_COUNT; steps++)
        if (steps < STEPS_COLUMNS || p->kernels->of[steps].n) print_kernels(out, p, steps);
}

/* ---- reading ---- */

struct plan_parser {
    struct arena     *arena;
    struct plan_text *out;
    const char       *p, *line;
    struct place      at;               /* place of the line's first character */
    uint32_t          capacity;
    enum kernel_steps section;          /* STEPS_COUNT: in the head, before the first section */
};

static struct place here(const struct plan_parser *r)
{
    struct place at = r->at;
    at.column += (uint32_t)(r->p - r->line);
    return at;
}

static void skip_blanks(struct plan_parser *r) { while (*r->p == ' ' || *r->p == '\t') r->p++; }

static bool at_end(struct plan_parser *r)
{
    skip_blanks(r);
    return !*r->p || *r->p == '#';
}

static const char *read_word(struct plan_parser *r, const char *what)
{
    const char *start = r->p;
    while (isalnum((unsigned char)*r->p) || *r->p == '_') r->p++;
    if (r->p == start) die_at(here(r), "expected %s", what);
    return arena_strndup(r->arena, start, (size_t)(r->p - start));
}

static uint32_t read_number(struct plan_parser *r)
{
    const struct place at = here(r);
    uint64_t value = 0;
    const char *start = r->p;
    for (; isdigit((unsigned char)*r->p); r->p++) if (value <= UINT32_MAX) value = 10 * value + (uint64_t)(*r->p - '0');
    if (r->p == start) die_at(at, "expected a number");
    if (value > UINT32_MAX) die_at(at, "%.*s is too large", (int)(r->p - start), start);
    return (uint32_t)value;
}

static void need_end(struct plan_parser *r)
{
    if (!at_end(r)) die_at(here(r), "expected the end of the line");
}

/* The rest of the line up to a comment. */
static const char *read_rest(struct plan_parser *r)
{
    skip_blanks(r);
    size_t n = strcspn(r->p, "#");
    while (n && isspace((unsigned char)r->p[n - 1])) n--;
    const char *text = arena_strndup(r->arena, r->p, n);
    r->p += strlen(r->p);
    return text;
}

static void read_head(struct plan_parser *r, struct place at, const char *word)
{
    struct plan_text *t = r->out;
    skip_blanks(r);
    if (strcmp(word, "plan") == 0) {
        if (read_number(r) != 1) die_at(at, "this forgec reads only plans of version 1; write the plan again with --emit plan");
    } else if (strcmp(word, "target") == 0) {
        t->target_at = here(r);
        t->target = read_rest(r);
    } else if (strcmp(word, "options") == 0) {
        t->options_at = here(r);
        t->options = read_rest(r);
    } else if (strcmp(word, "chunk") == 0) {
        t->chunk = read_number(r);
        if (t->chunk < 1 || t->chunk > CHUNK_MOST) die_at(at, "a chunk must have 1 to %u tokens", CHUNK_MOST);
    } else die_at(at, "expected plan, target, options, chunk, decode, prefill or columns");
    need_end(r);
}

static enum kernel_template template_named(struct place at, const char *word)
{
    for (uint32_t i = 0; i < TEMPLATE_COUNT; i++) if (strcmp(template_info[i].name, word) == 0) return (enum kernel_template)i;
    die_at(at, "unknown template %s", word);
}

static void read_groups(struct plan_parser *r, struct kernel_choice *c)
{
    uint32_t n = 1;
    for (const char *s = r->p; isdigit((unsigned char)*s) || *s == ','; s++) n += *s == ',';
    uint32_t *groups = arena_array(r->arena, uint32_t, n);
    do groups[c->n_groups++] = read_number(r);
    while (*r->p == ',' && r->p++);
    c->groups = groups;
}

static void read_setting(struct plan_parser *r, struct kernel_choice *c)
{
    const struct place at = here(r);
    const char *key = read_word(r, "parameter=number or groups=list");
    if (*r->p++ != '=') die_at(at, "expected %s=number", key);
    if (strcmp(key, "groups") == 0) {
        if (c->groups) die_at(at, "groups is given twice");
        read_groups(r, c);
        return;
    }
    for (uint32_t i = 0; i < PARAM_COUNT; i++) {
        if (strcmp(kernel_param_name[i], key)) continue;
        if (!(template_info[c->template].free >> i & 1))
            die_at(at, "%s of a %s follows from other settings and cannot be set; remove it", key, template_info[c->template].name);
        if (c->given >> i & 1) die_at(at, "%s is given twice", key);
        c->given |= 1u << i;
        c->param[i] = read_number(r);
        return;
    }
    die_at(at, "unknown parameter %s", key);
}

/* "gemv attn_qkv rows=4 lanes=16 groups=1,6,11": the name (attn_qkv) is for readers only. */
static void read_kernel(struct plan_parser *r, struct place at, const char *word)
{
    struct kernel_choices *list = &r->out->choices;
    arena_room(r->arena, list->list, list->n, r->capacity);
    struct kernel_choice *c = &list->list[list->n++];
    *c = (struct kernel_choice){ .at = at, .template = template_named(at, word), .steps = r->section };
    skip_blanks(r);
    read_word(r, "the kernel's name");
    while (!at_end(r)) read_setting(r, c);
    if (!c->groups && c->template != TEMPLATE_sample) die_at(at, "groups=list is missing: the groups that this kernel computes");
}

/* The section of that name; STEPS_COUNT: there is no such section. */
static enum kernel_steps section_named(const char *word)
{
    enum kernel_steps i = 0;
    while (i < STEPS_COUNT && strcmp(kernel_steps_name[i], word)) i++;
    return i;
}

static void read_line(struct plan_parser *r)
{
    if (at_end(r)) return;
    const struct place at = here(r);
    const char *word = read_word(r, "a word");
    const enum kernel_steps section = section_named(word);
    if (section != STEPS_COUNT) {
        r->section = section;
        need_end(r);
    }
    else if (r->section == STEPS_COUNT) read_head(r, at, word);
    else read_kernel(r, at, word);
}

struct plan_text *plan_text_read(struct arena *a, const char *name, const char *text)
{
    struct plan_parser r = { .arena = a, .out = arena_new(a, struct plan_text), .at = { name, 1, 1 }, .section = STEPS_COUNT };
    for (const char *p = text; *p; r.at.line++) {
        const size_t n = strcspn(p, "\n");
        r.p = r.line = arena_strndup(a, p, n);
        read_line(&r);
        p += n + (p[n] == '\n');
    }
    if (!r.out->target) die_at((struct place){ name, 1, 1 }, "the line \"target NAME\" is missing; --emit plan writes a plan");
    return r.out;
}

struct kernel_choice plan_text_kernel(struct arena *a, struct place at, const char *text)
{
    struct plan_text out = { .target = NULL };
    struct plan_parser r = { .arena = a, .out = &out, .at = at, .p = text, .line = text };
    const struct place section = here(&r);
    const char *word = at_end(&r) ? "" : read_word(&r, "decode, prefill or columns");
    r.section = section_named(word);
    if (r.section == STEPS_COUNT) die_at(section, "expected decode, prefill, columns or pass");
    skip_blanks(&r);
    const struct place kernel = here(&r);
    read_kernel(&r, kernel, read_word(&r, "a template"));
    return out.choices.list[0];
}

static uint32_t count_kernels(const struct kernel_list *list, struct launches launches, enum kernel_template template, uint32_t group)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < launches.n; i++)
        count += launches.list[i].group == group && list->kernels[launches.list[i].kernel].template == template;
    return count;
}

/* The number of choices up to and including c for the same template, kind of step and group. */
static uint32_t count_choices(const struct plan_text *text, const struct kernel_choice *c, uint32_t group)
{
    uint32_t count = 0;
    for (const struct kernel_choice *other = text->choices.list; other <= c; other++)
        for (uint32_t k = 0; k < other->n_groups; k++)
            count += other->template == c->template && other->steps == c->steps && other->groups[k] == group;
    return count;
}

void plan_text_check(const struct plan *p, const struct plan_text *text)
{
    const struct kernel_list *list = p->kernels;
    for (uint32_t i = 0; i < text->choices.n; i++) {
        const struct kernel_choice *c = &text->choices.list[i];
        const struct launches launches = list->of[c->steps];
        const char *name = template_info[c->template].name, *section = kernel_steps_name[c->steps];
        for (uint32_t k = 0; k < c->n_groups; k++) {
            const uint32_t group = c->groups[k], has = count_kernels(list, launches, c->template, group);
            if (!has)
                die_at(c->at, "group %u has no %s kernel in %s; the plan is for another model or another --fuse", group, name,
                       section);
            if (count_choices(text, c, group) > has)
                die_at(c->at, "group %u stands in more %s lines of %s than it has kernels", group, name, section);
        }
    }
}
