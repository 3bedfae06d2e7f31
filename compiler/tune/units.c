/* units.c -- the kernels of a plan that have settings, and settings as the text of a file. */
#include "parts.h"
#include "compiler/plan/cost.h"
#include "compiler/plan/tuned.h"
#include <string.h>

/* ---- the kernels ---- */

static void add_unit(struct tune *t, const struct launch *launches, uint32_t n, uint32_t kernel)
{
    const struct kernel *k = &t->plan->kernels->kernels[kernel];
    uint32_t *groups = arena_array(t->arena, uint32_t, n), n_groups = 0;
    for (uint32_t i = 0; i < n; i++) if (launches[i].kernel == kernel) groups[n_groups++] = launches[i].group;
    struct unit u = { .kernel = k, .groups = groups, .n_groups = n_groups, .planned = settings_planned(t->plan, k) };
    if (!n_groups) return;
    u.now = u.planned;
    for (uint32_t i = 0; i < TUNE_SIZES; i++) u.at[i] = u.planned;
    t->units[t->n_units++] = u;
}

void units_find(struct tune *t)
{
    const struct kernel_list *list = t->plan->kernels;
    t->units = arena_array(t->arena, struct unit, list->n_kernels);
    if (!t->plan->gpu) return;
    for (uint32_t i = 0; i < list->n_kernels; i++) {
        const struct kernel *k = &list->kernels[i];
        const enum kernel_template is = k->template;
        if ((is == TEMPLATE_gemv && !k->prefill) || is == TEMPLATE_attention_decode) add_unit(t, list->decode, list->n_decode, i);
        if (is == TEMPLATE_attention_prefill || (is == TEMPLATE_gemm && k->param[PARAM_MOST] == t->plan->chunk))
            add_unit(t, list->prefill, list->n_prefill, i);
    }
}

/* The unit of a launch of the planner's program, and of any other with the same launches; NULL: it has none. */
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

/* What the planner made the unit's products with for steps of so many tokens. */
const struct kernel *unit_planned_gemm(const struct tune *t, const struct unit *u, uint32_t tokens)
{
    const struct kernel_list *list = t->plan->kernels;
    for (uint32_t i = 0; i < list->n_prefill; i++) {
        const struct kernel *k = &list->kernels[list->prefill[i].kernel];
        if (k->template == TEMPLATE_gemm && list->prefill[i].group == u->groups[0] && cost_kernel_runs(k, tokens)) return k;
    }
    return u->kernel;
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

void put_range(struct text *out, const struct unit *u, const struct setting *s, uint32_t least, uint32_t most)
{
    struct kernel_choice c = s->choice;
    c.given |= 1u << PARAM_LEAST | 1u << PARAM_MOST;
    c.param[PARAM_LEAST] = least;
    c.param[PARAM_MOST] = most;
    put_kernel(out, u, &c);
}

/* Each size of step serves those from the one before it; the last all others. */
static void put_ranges(struct text *out, const struct tune *t, const struct unit *u)
{
    const uint32_t chunk = CHUNK_MOST;
    for (uint32_t i = 0, first = 0; i < t->n_prompts; i++) {
        const bool last = i + 1 == t->n_prompts;
        if (!last && memcmp(u->at[i].choice.param, u->at[i + 1].choice.param, sizeof u->at[i].choice.param) == 0) continue;
        put_range(out, u, &u->at[i], first ? t->prompts[first - 1] + 1 : 1, last ? chunk : t->prompts[i]);
        first = i + 1;
    }
}

bool unit_any_size_changed(const struct tune *t, const struct unit *u)
{
    bool any = false;
    for (uint32_t i = 0; i < t->n_prompts; i++) any |= u->at_changed[i];
    return any;
}

void put_head(struct text *out, const struct tune *t)
{
    text_printf(out, "tuned:\n  target: %s\n  options: %s\n  shape: \"%s\"\n", t->plan->profile->name,
                build_options_text(out->arena, &t->options->build), tuned_shape(out->arena, t->plan));
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

/* All that was found: of decode, of prefill, or of both. */
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
        else put_kernel(out, u, &u->now.choice);
    }
}
