/* units.c -- the kernels of a plan that have settings, and settings as the text of a file. */
#include "parts.h"
#include "compiler/gpu/tiles.h"
#include "compiler/plan/cost.h"
#include "compiler/plan/tuned.h"
#include <string.h>

/* ---- the kernels ---- */

/* The kernel that the planner chose for the unit's products in steps of this many tokens. */
const struct kernel *unit_planned_gemm(const struct tune *t, const struct unit *u, uint32_t tokens)
{
    const struct launches *prefill = &t->plan->kernels->of[STEPS_PREFILL];
    for (uint32_t i = 0; i < prefill->n; i++) {
        const struct kernel *k = &t->plan->kernels->kernels[prefill->list[i].kernel];
        if (k->template == TEMPLATE_gemm && prefill->list[i].group == u->groups[0] && kernel_runs(k, tokens)) return k;
    }
    return u->kernel;
}

static void add_unit(struct tune *t, enum kernel_steps steps, uint32_t kernel)
{
    const struct launches *of = &t->plan->kernels->of[steps];
    const struct kernel *k = &t->plan->kernels->kernels[kernel];
    uint32_t *groups = arena_array(t->arena, uint32_t, of->n), n_groups = 0;
    for (uint32_t i = 0; i < of->n; i++) if (of->list[i].kernel == kernel) groups[n_groups++] = of->list[i].group;
    struct unit u = { .kernel = k, .groups = groups, .n_groups = n_groups, .now = settings_planned(k) };
    if (!n_groups) return;
    for (uint32_t i = 0; i < t->n_prompts && unit_is_gemm(&u); i++) u.at[i] = settings_planned(unit_planned_gemm(t, &u, t->prompts[i]));
    t->units[t->n_units++] = u;
}

/* True for kernels that, of a prompt, usually compute only the last token: the size of the step does not matter to them. */
static bool is_tail(const struct kernel_list *list, uint32_t kernel)
{
    const struct launches *prefill = &list->of[STEPS_PREFILL];
    for (uint32_t i = 0; i < prefill->n; i++) if (prefill->list[i].kernel == kernel) return prefill->list[i].tail;
    return false;
}

void units_find(struct tune *t)
{
    const struct kernel_list *list = t->plan->kernels;
    t->units = arena_array(t->arena, struct unit, list->n_kernels);
    if (!t->plan->gpu) return;
    for (uint32_t i = 0; i < list->n_kernels; i++) {
        const struct kernel *k = &list->kernels[i];
        const enum kernel_template is = k->template;
        if ((is == TEMPLATE_gemv && !k->prefill) || is == TEMPLATE_attention_decode) add_unit(t, STEPS_DECODE, i);
        if (is == TEMPLATE_attention_prefill || (is == TEMPLATE_gemm && k->param[PARAM_MOST] == t->plan->chunk && !is_tail(list, i)))
            add_unit(t, STEPS_PREFILL, i);
    }
}

/* The unit of a launch of the planner's program, or of any program with the same launches; NULL: it has no unit. */
struct unit *unit_of(struct tune *t, const struct launch *l, bool prefill)
{
    const enum kernel_template template = t->plan->kernels->kernels[l->kernel].template;
    for (uint32_t i = 0; i < t->n_units; i++) {
        struct unit *u = &t->units[i];
        if (u->kernel->template != template || !unit_of_step(u, prefill)) continue;
        for (uint32_t k = 0; k < u->n_groups; k++) if (u->groups[k] == l->group) return u;
    }
    return NULL;
}

/* ---- settings as text ---- */

void put_params(struct text *out, const struct kernel_choice *c)
{
    for (uint32_t i = 0; i < PARAM_COUNT; i++)
        if (c->given >> i & 1) text_printf(out, " %s=%u", kernel_param_name[i], c->param[i]);
}

/* "decode gemv attn_qkv rows=2 ... groups=1,6" */
void put_kernel(struct text *out, const struct unit *u, const struct kernel_choice *c)
{
    text_printf(out, "  - %s %s %s", u->kernel->prefill ? "prefill" : "decode", template_info[c->template].name, u->kernel->name);
    put_params(out, c);
    for (uint32_t i = 0; i < u->n_groups; i++) text_printf(out, "%s%u", i ? "," : " groups=", u->groups[i]);
    text_puts(out, "\n");
}

void put_range(struct text *out, const struct unit *u, const struct kernel_choice *choice, uint32_t least, uint32_t most)
{
    struct kernel_choice c = *choice;
    c.given |= 1u << PARAM_LEAST | 1u << PARAM_MOST;
    c.param[PARAM_LEAST] = least;
    c.param[PARAM_MOST] = most;
    put_kernel(out, u, &c);
}

struct range { struct kernel_choice set; uint32_t least, most; };

static void add_range(struct range *list, uint32_t *n, const struct kernel_choice *set, uint32_t least, uint32_t most)
{
    if (*n && memcmp(list[*n - 1].set.param, set->param, sizeof set->param) == 0) list[*n - 1].most = most;
    else list[(*n)++] = (struct range){ *set, least, most };
}

/* Adds the kernels that the planner chose for steps of *next tokens up to but not including `end`. */
static void add_planned(struct range *list, uint32_t *n, const struct tune *t, const struct unit *u, uint32_t *next, uint32_t end)
{
    while (*next < end) {
        const struct kernel *k = unit_planned_gemm(t, u, *next);
        const struct kernel_choice planned = settings_planned(k);
        if (k->param[PARAM_MOST] >= end) return;
        add_range(list, n, &planned, *next, k->param[PARAM_MOST]);
        *next = k->param[PARAM_MOST] + 1;
    }
}

static bool has_prompt(const struct tune *t, const struct range *r)
{
    bool has = false;
    for (uint32_t i = 0; i < t->n_prompts; i++) has |= t->prompts[i] >= r->least && t->prompts[i] <= r->most;
    return has;
}

/* The number of ranges is limited: a range without a measured size is merged into a neighbour. */
static uint32_t join_ranges(struct range *list, uint32_t n, const struct tune *t)
{
    while (n > GEMM_RANGES) {
        uint32_t i = 0;
        while (i + 1 < n && has_prompt(t, &list[i])) i++;
        if (i + 1 < n) list[i + 1].least = list[i].least;
        else list[i - 1].most = list[i].most;
        memmove(&list[i], &list[i + 1], (n - i - 1) * sizeof *list);
        n--;
    }
    return n;
}

/* A setting was measured at one step size. It also serves the sizes around it for which the planner chooses the same kernel; if another
 * setting follows, it serves no size above its own. The planner's kernels for other sizes stay. */
static void put_ranges(struct text *out, const struct tune *t, const struct unit *u)
{
    struct range list[2 * (TUNE_SIZES + GEMM_RANGES)];
    uint32_t n = 0, next = 1;
    for (uint32_t i = 0; i < t->n_prompts; i++) {
        const bool last = i + 1 == t->n_prompts;
        add_planned(list, &n, t, u, &next, t->prompts[i]);
        const uint32_t most = last ? unit_planned_gemm(t, u, t->prompts[i])->param[PARAM_MOST] : t->prompts[i];
        add_range(list, &n, &u->at[i], next, most);
        next = most + 1;
    }
    add_planned(list, &n, t, u, &next, t->plan->chunk + 1);
    n = join_ranges(list, n, t);
    for (uint32_t i = 0; i < n; i++) put_range(out, u, &list[i].set, list[i].least, i + 1 == n ? CHUNK_MOST : list[i].most);
}

bool unit_any_size_changed(const struct tune *t, const struct unit *u)
{
    bool any = false;
    for (uint32_t i = 0; i < t->n_prompts; i++) any |= u->at_changed[i];
    return any;
}

void put_head(struct text *out, const struct tune *t)
{
    text_printf(out, "tuned:\n  target: %s\n  options: %s\n  shape: \"%s\"\n", t->plan->target->name,
                build_options_text(out->arena, &t->options->build, 0), tuned_shape(out->arena, t->plan));
}

void put_tiles(struct text *out, const struct tune *t, const char *name, uint32_t value)
{
    bool any = false;
    for (uint32_t i = 0; i < t->n_tiles; i++) {
        const struct tile *tile = &t->tiles[i];
        const uint32_t n = name && strcmp(name, tile->name) == 0 ? value : tile->now;
        if (n == tile->planned) continue;
        text_printf(out, "%s  %s: %u\n", any ? "" : "tiles:\n", tile->name, n);
        any = true;
    }
}

/* All settings found: of decode, of prefill, or of both. */
void put_found(struct text *out, const struct tune *t, bool decode, bool prefill)
{
    bool any = false;
    if (prefill) put_tiles(out, t, NULL, 0);
    for (uint32_t i = 0; i < t->n_units; i++) {
        const struct unit *u = &t->units[i];
        const bool any_of_it = unit_is_gemm(u) ? unit_any_size_changed(t, u) : u->changed;
        const bool changed = any_of_it && (u->kernel->prefill ? prefill : decode);
        if (!changed) continue;
        if (!any) text_puts(out, "kernels:\n");
        any = true;
        if (unit_is_gemm(u)) put_ranges(out, t, u);
        else put_kernel(out, u, &u->now);
    }
}
