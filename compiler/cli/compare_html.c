/* compare_html.c -- the report of `forgec compare` as a page: no scripts and no external resources, whatever names contain. */
#include "compare_page.h"
#include "diff.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DIFF_MOST = 3000, DIFF_CONTEXT = 3, DIFF_SHOWN = 1200 };

void page_tag(struct text *t, uint32_t i)
{
    text_printf(t, "<b class=\"tag c%u\">%c</b>", i % HTML_COLORS, 'A' + (char)i);
}

static void put_name(struct text *t, const struct comparison *p, uint32_t i)
{
    page_tag(t, i);
    text_puts(t, " ");
    html_text(t, p->candidates[i].name);
}

/* ---- head: the compared programs ---- */

static void put_head(struct text *t, const struct comparison *p)
{
    const char *title = comparison_title(t->arena, p);
    html_head(t, title);
    text_puts(t, "<h1>");
    html_text(t, title);
    text_puts(t, "</h1>\n<p class=\"soft\">");
    if (p->options->simulate)
        text_printf(t, "Counted in the simulator: a prompt of %u tokens%s, %u decoded. Nothing here is a time that passed.", p->n_tokens[0],
                    p->options->sample ? ", of which a sample of the groups ran" : "", p->n_tokens[1]);
    else
        text_printf(t, "%u round%s of all programs, there and back, each at least %g s for each speed; a prompt of %u tokens, %u "
                    "generated.", p->n_rounds, p->n_rounds > 1 ? "s" : "", p->min_time, p->n_prompt, p->n_gen);
    text_puts(t, "</p>\n<ul class=\"programs\">\n");
    for (uint32_t i = 0; i < p->n; i++) {
        const struct candidate *c = &p->candidates[i];
        const struct build_options *b = &c->program->build;
        text_puts(t, "<li>");
        put_name(t, p, i);
        text_puts(t, " <span class=\"soft\">");
        html_text(t, b->model_path);
        text_printf(t, ", %s, fuse %s, kv %s, ctx %u", c->target->name, b->fuse == FUSE_NONE ? "none" : "layer", kv_type_name[b->plan.kv],
                    plan_context(c->model, &b->plan));
        if (b->plan_path) { text_puts(t, ", plan "); html_text(t, b->plan_path); }
        if (b->source) { text_puts(t, ", source "); html_text(t, b->source); }
        text_puts(t, "</span></li>\n");
    }
    text_puts(t, "</ul>\n");
}

/* ---- speeds ---- */

static const char *ratio_text(struct arena *a, const struct pairs *r)
{
    if (isinf(r->most)) return arena_printf(a, "%.3f × A: too few rounds to tell", r->ratio);
    return arena_printf(a, "%.3f × A (%.3f to %.3f): %s", r->ratio, r->least, r->most, pairs_verdict(r));
}

static const struct speed *speed_of(const struct candidate *c, bool decode) { return decode ? &c->decode : &c->prefill; }

static void put_track(struct text *t, const struct comparison *p, const struct speed *s, uint32_t i, double most)
{
    double least = INFINITY, largest = 0;
    for (uint32_t k = 0; k < p->n_rounds; k++) {
        least = fmin(least, s->rounds[k]);
        largest = fmax(largest, s->rounds[k]);
    }
    text_printf(t, "<div class=\"track c%u\"><div class=\"bar\" style=\"width:%.3f%%\"></div><div class=\"dots\"><b "
                "style=\"left:%.3f%%;width:%.3f%%\"></b>",
                i % HTML_COLORS, 100 * s->median / most, 100 * least / most, 100 * (largest - least) / most);
    for (uint32_t k = 0; k < p->n_rounds; k++) text_printf(t, "<i style=\"left:%.3f%%\"></i>", 100 * s->rounds[k] / most);
    text_puts(t, "</div></div>");
}

static void put_speeds(struct text *t, const struct comparison *p, bool decode)
{
    double most = 0;
    for (uint32_t i = 0; i < p->n; i++)
        for (uint32_t k = 0; k < p->n_rounds; k++) most = fmax(most, speed_of(&p->candidates[i], decode)->rounds[k]);
    most *= 1.01;                                          /* keeps the last round's point inside */
    text_printf(t, "<h3>%s</h3>\n<div class=\"chart\">\n", decode ? "Decode" : arena_printf(t->arena, "Prefill of %u tokens", p->n_prompt));
    for (uint32_t i = 0; i < p->n; i++) {
        const struct speed *s = speed_of(&p->candidates[i], decode);
        text_puts(t, "<div class=\"row\"><div class=\"name\">");
        put_name(t, p, i);
        text_puts(t, "</div>");
        put_track(t, p, s, i, most);
        text_printf(t, "<div class=\"value\">%s tok/s", html_number(t->arena, s->median));
        if (i) text_printf(t, "<div class=\"note\">%s</div>", ratio_text(t->arena, &s->pairs));
        text_puts(t, "</div></div>\n");
    }
    text_puts(t, "</div>\n");
}

/* ---- tables of numbers ---- */

static void put_table_head(struct text *t, const char *const *heads, size_t n)
{
    text_puts(t, "<div class=\"wide\"><table><thead><tr>");
    for (size_t i = 0; i < n; i++) text_printf(t, "<th scope=\"col\">%s</th>", heads[i]);
    text_puts(t, "</tr></thead><tbody>\n");
}

static void put_logits(struct text *t, const struct candidate *c)
{
    if (c->has_logits) text_printf(t, "<td>%.2e</td></tr>\n", c->max_abs);
    else text_puts(t, "<td>–</td></tr>\n");
}

static void put_measured(struct text *t, const struct comparison *p)
{
    static const char *const heads[] = { "program", "launches a token", "MB a token", "× floor", "decode, tok/s", "share of the bandwidth",
                                         "of GB/s", "prefill, tok/s", "largest logit difference" };
    put_table_head(t, heads, COUNT_OF(heads));
    for (uint32_t i = 0; i < p->n; i++) {
        const struct candidate *c = &p->candidates[i];
        const double bytes = comparison_bytes(p, c);
        text_puts(t, "<tr><td>");
        put_name(t, p, i);
        text_printf(t, "</td><td>%u</td><td>%.3f</td><td>%.3f</td><td>%.1f</td><td>%.1f %%</td><td>%.1f</td><td>%.1f</td>",
                    c->launches, bytes * 1e-6, comparison_ratio(bytes, comparison_floor(c)), c->decode.median, c->share, c->bandwidth,
                    c->prefill.median);
        put_logits(t, c);
    }
    text_printf(t, "</tbody></table></div>\n<p class=\"note\">MB a token: weights as packed, the KV cache of the tokens before (mean of "
                "%u from an empty context) and values between kernels; floor: weights as in the file and that cache. Bandwidth: what "
                "weights and KV cache make of the GB/s that the same runs measured. Logits: against A, of one model only.</p>\n", p->n_gen);
}

static void put_counted(struct text *t, const struct comparison *p)
{
    static const char *const heads[] = { "program", "launches", "instructions", "vector", "matrix", "idle lanes", "loads, MB", "unique, MB",
                                         "plan, MB", "bank conflicts an access", "loads in flight", "largest logit difference" };
    const double tokens = p->n_tokens[1];
    put_table_head(t, heads, COUNT_OF(heads));
    for (uint32_t i = 0; i < p->n; i++) {
        const struct candidate *c = &p->candidates[i];
        const struct counters *k = &c->counters[1];
        text_puts(t, "<tr><td>");
        put_name(t, p, i);
        text_printf(t, "</td><td>%s</td><td>%s</td><td>%.1f %%</td><td>%.1f %%</td><td>%.1f %%</td>",
                    html_number(t->arena, k->launches / tokens), html_number(t->arena, k->instructions / tokens),
                    100 * comparison_ratio(k->valu, k->instructions), 100 * comparison_ratio(k->matrix, k->instructions),
                    100 * k->idle_lanes);
        text_printf(t, "<td>%.3f</td><td>%.3f</td><td>%.3f</td><td>%.2f</td><td>%.0f</td>", k->loaded_bytes / tokens * 1e-6,
                    k->unique_bytes / tokens * 1e-6, comparison_planned_reads(p, c) * 1e-6,
                    comparison_ratio(k->lds_conflicts, k->lds_accesses), k->loads_in_flight);
        put_logits(t, c);
    }
    text_puts(t, "</tbody></table></div>\n<p class=\"note\">Of a decoded token. Instructions: of waves. Loads: by lanes; unique: lines of "
              "64 bytes that a launch reads at least once; plan: weights, KV cache and values of other kernels. In flight: most loads of "
              "a wave before a wait.</p>\n");
}

/* ---- kernels ---- */

static void put_kernels(struct text *t, const struct comparison *p)
{
    const bool counted = p->options->simulate;
    text_puts(t, "<h2>Kernels</h2>\n");
    if (counted && p->missing) {
        text_puts(t, "<p>There are no least times: the target has no ");
        html_text(t, p->missing);
        text_puts(t, ".</p>\n");
        return;
    }
    if (counted)
        text_puts(t, "<p class=\"note\">Least times: what the slowest part of the chip takes for what was counted, by the rates of the "
                  "target; computed, not measured. Without measured times there is no roofline.</p>\n");
    else
        text_puts(t, "<p class=\"note\">By each program's own --profile, taken in turns with the others'. MB: what a kernel has to read of "
                  "weights and state.</p>\n");
    for (uint32_t step = 0; step < N_STEPS; step++) {
        const uint32_t n = counted ? p->n_tokens[0] : p->candidates[0].profiled.steps[STEP_PREFILL].n_tokens;
        const char *title = step == STEP_DECODE ? "a decoded token" : arena_printf(t->arena, "a prompt of %u tokens", n);
        const struct page_kernels k = page_kernels_of(t->arena, p, step);
        text_printf(t, "<h3>Of %s</h3>\n", title);
        if (!counted) page_roofline(t, &k, title);
        page_kernels_put(t, &k);
    }
}

/* ---- sources ---- */

static void put_diff_line(struct text *t, const struct diff_line *l)
{
    if (l->kind == '@') text_printf(t, "<span class=\"at\">@@ line %u of A, %u", l->old_line, l->new_line);
    else {
        text_printf(t, "<span%s>%c", l->kind == '+' ? " class=\"add\"" : l->kind == '-' ? " class=\"del\"" : "", l->kind);
        html_puts(t, l->text, l->size);
    }
    text_puts(t, "</span>");
}

static void put_diff(struct text *t, const struct comparison *p, uint32_t i)
{
    const struct diff d = diff_of(t->arena, p->candidates[0].source, p->candidates[i].source, DIFF_MOST, DIFF_CONTEXT);
    if (d.too_far || d.n_lines == 0) {
        text_puts(t, "<p>");
        put_name(t, p, i);
        if (d.too_far) text_printf(t, ": more than %u lines differ from A, which are not shown.</p>\n", (unsigned)DIFF_MOST);
        else text_puts(t, ": the same as A.</p>\n");
        return;
    }
    text_puts(t, "<details><summary>");
    put_name(t, p, i);
    text_printf(t, " against A: %u line%s removed, %u added</summary><pre><code>", d.n_removed, d.n_removed == 1 ? "" : "s", d.n_added);
    for (uint32_t k = 0; k < d.n_lines && k < DIFF_SHOWN; k++) put_diff_line(t, &d.lines[k]);
    if (d.n_lines > DIFF_SHOWN)
        text_printf(t, "<span class=\"at\">%u more lines are not shown: forgec build --emit source writes both</span>",
                    d.n_lines - DIFF_SHOWN);
    text_puts(t, "</code></pre></details>\n");
}

static void put_sources(struct text *t, const struct comparison *p)
{
    if (p->n == 1) return;
    text_puts(t, "<h2>Sources</h2>\n<p class=\"paper note\">The differences of the sources are left out on paper.</p>\n");
    for (uint32_t i = 1; i < p->n; i++) put_diff(t, p, i);
}

/* ---- the whole page ---- */

static void put_method(struct text *t, const struct comparison *p)
{
    if (p->n > 1)
        text_printf(t, "<h2>What a difference is</h2>\n<p>Each round runs all programs in an order drawn by chance, and then in the "
                    "reverse order; a program's rate of the round is the geometric mean of the two. The ratio to A is the median of the "
                    "means of any two rounds, its interval what a signed-rank test does not refuse; all intervals hold at once in %.0f %% "
                    "of reports. Faster or slower is a program whose interval lies beyond %.1f %% from 1: equal programs are called so in "
                    "at most %.0f %% of reports, whatever else the machine does. %u programs take %u rounds for an interval.</p>\n",
                    100 - 100 * PAIRS_LEVEL, 100 * PAIRS_MARGIN, 100 * PAIRS_LEVEL, p->n,
                    pairs_least(p->comparisons));
}

void comparison_html(struct arena *a, const struct comparison *p)
{
    struct text t = { .arena = a };
    put_head(&t, p);
    if (p->options->simulate) put_counted(&t, p);
    else {
        text_puts(&t, "<h2>Speed</h2>\n");
        put_speeds(&t, p, true);
        put_speeds(&t, p, false);
        text_puts(&t, "<p class=\"note\">A bar is the median of the rounds, a point below it one round, the line from the slowest to the "
                  "fastest.</p>\n<h2>Numbers</h2>\n");
        put_measured(&t, p);
    }
    put_kernels(&t, p);
    put_sources(&t, p);
    if (!p->options->simulate) put_method(&t, p);
    text_puts(&t, "<h2>Data</h2>\n<p class=\"paper note\">The numbers as JSON are left out on paper.</p>\n"
                  "<details><summary>The numbers as JSON</summary><pre id=\"json\">");
    html_text(&t, comparison_json(a, p));
    text_puts(&t, "</pre></details>\n<p class=\"note\">forgec " FORGEC_VERSION "</p>\n</body>\n</html>\n");
    fwrite(t.data, 1, t.size, stdout);
}
