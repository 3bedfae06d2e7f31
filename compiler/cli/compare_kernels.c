/* compare_kernels.c -- kernels side by side on the page: launches, bytes and times in a table, and a roofline (Williams, Waterman and
 * Patterson 2009, Roofline: An Insightful Visual Performance Model). */
#include "compare_page.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct page_cell *cell_of(struct arena *a, struct page_kernels *k, const char *name, uint32_t i)
{
    uint32_t row = 0;
    while (row < k->n_rows && strcmp(k->rows[row].name, name)) row++;
    if (row == k->n_rows) {
        arena_room(a, k->rows, k->n_rows, k->capacity);
        k->rows[k->n_rows++] = (struct page_kernel){ .name = name, .cells = arena_array(a, struct page_cell, k->of->n) };
    }
    return &k->rows[row].cells[i];
}

static void add_measured(struct arena *a, struct page_kernels *k, uint32_t i, uint32_t step)
{
    const struct profiled_step *s = &k->of->candidates[i].profiled.steps[step];
    for (uint32_t j = 0; j < s->n_kernels; j++) {
        const struct profiled_kernel *one = &s->kernels[j];
        const char *intensity = one->bytes > 0 && one->operations > 0 ? html_number(a, one->operations / one->bytes) : "–";
        *cell_of(a, k, one->name, i) = (struct page_cell){ one->launches, one->bytes, one->us, intensity };
    }
}

static void add_counted(struct arena *a, struct page_kernels *k, uint32_t i, uint32_t step)
{
    const struct step_times s = comparison_times(a, k->of, &k->of->candidates[i], step == STEP_DECODE);
    for (uint32_t j = 0; j < s.n_kernels; j++) {
        const struct kernel_times *one = &s.kernels[j];
        const double bytes = (one->counted->unique_bytes + one->counted->stored_bytes) / s.steps;
        *cell_of(a, k, one->counted->name, i) =
            (struct page_cell){ one->launches, bytes, one->launches * one->least_us, pipe_name[one->bound] };
    }
}

static int longest_first(const void *x, const void *y)
{
    const struct page_kernel *a = x, *b = y;
    return a->longest_us < b->longest_us ? 1 : a->longest_us > b->longest_us ? -1 : strcmp(a->name, b->name);
}

struct page_kernels page_kernels_of(struct arena *a, const struct comparison *p, uint32_t step)
{
    const bool counted = p->options->simulate;
    struct page_kernels k = { .of = p, .step = step, .us_head = counted ? "least µs" : "µs",
                              .more_head = counted ? "bound" : "ops/byte" };
    for (uint32_t i = 0; i < p->n; i++) {
        if (counted) add_counted(a, &k, i, step);
        else add_measured(a, &k, i, step);
    }
    for (struct page_kernel *row = k.rows; row < k.rows + k.n_rows; row++)
        for (uint32_t i = 0; i < p->n; i++) row->longest_us = fmax(row->longest_us, row->cells[i].us);
    if (k.n_rows) qsort(k.rows, k.n_rows, sizeof *k.rows, longest_first);
    return k;
}

/* ---- the table ---- */

static void put_cell(struct text *t, const struct page_cell *c, uint32_t i, double longest)
{
    text_puts(t, "<td class=\"left\">");
    page_tag(t, i);
    text_printf(t, "</td><td>%s</td><td>%s</td><td class=\"number\">%s</td><td>%s</td><td class=\"time\"><span class=\"bar c%u\" "
                "style=\"width:%.2f%%\"></span></td></tr>\n", html_number(t->arena, c->launches), html_number(t->arena, c->bytes * 1e-6),
                c->more ? c->more : "", html_number(t->arena, c->us), i % HTML_COLORS, longest > 0 ? 100 * c->us / longest : 0);
}

void page_kernels_put(struct text *t, const struct page_kernels *k)
{
    const struct comparison *p = k->of;
    struct page_cell *sums = arena_array(t->arena, struct page_cell, p->n);
    double longest = 0;
    text_printf(t, "<div class=\"wide\"><table class=\"kernels\"><thead><tr><th scope=\"col\">kernel</th><th scope=\"col\" "
                "class=\"left\">program</th><th scope=\"col\">launches</th><th scope=\"col\">MB</th><th scope=\"col\">%s</th><th "
                "scope=\"col\">%s</th><th scope=\"col\" class=\"left\">time</th></tr></thead>\n", k->more_head, k->us_head);
    for (uint32_t row = 0; row < k->n_rows; row++) longest = fmax(longest, k->rows[row].longest_us);
    for (uint32_t row = 0; row < k->n_rows; row++) {
        const struct page_kernel *kernel = &k->rows[row];
        bool named = false;
        text_puts(t, "<tbody>");
        for (uint32_t i = 0; i < p->n; i++) {
            const struct page_cell *c = &kernel->cells[i];
            if (c->launches <= 0) continue;
            text_puts(t, "<tr><td>");
            if (!named) { text_printf(t, "<span class=\"soft\">%u</span> ", row + 1); html_text(t, kernel->name); }
            text_puts(t, "</td>");
            put_cell(t, c, i, longest);
            named = true;
            sums[i].launches += c->launches;
            sums[i].bytes += c->bytes;
            sums[i].us += c->us;
        }
        text_puts(t, "</tbody>\n");
    }
    text_puts(t, "<tbody>");
    double most = 0;
    for (uint32_t i = 0; i < p->n; i++) most = fmax(most, sums[i].us);
    for (uint32_t i = 0; i < p->n; i++) {
        text_printf(t, "<tr><td>%s</td>", i ? "" : "<strong>all of them</strong>");
        put_cell(t, &sums[i], i, most);
    }
    text_puts(t, "</tbody></table></div>\n");
    if (p->options->simulate) return;
    text_puts(t, "<p class=\"note\">The step as in use, without clocks between its kernels: ");
    for (uint32_t i = 0; i < p->n; i++) {
        text_puts(t, i ? ", " : "");
        page_tag(t, i);
        text_printf(t, " %s µs", html_number(t->arena, p->candidates[i].profiled.steps[k->step].us));
    }
    text_puts(t, ".</p>\n");
}

/* ---- the roofline ---- */

enum { WIDTH = 880, HEIGHT = 430, LEFT = 70, RIGHT = 20, TOP = 20, BOTTOM = 50, LABELS_MOST = 128 };
struct chart {
    double x0, x1, y0, y1;                        /* decimal logarithms of the values at the edges */
    struct { double x, y; } labels[LABELS_MOST];
    uint32_t n_labels;
};

static double x_of(const struct chart *c, double intensity)
{
    return (double)LEFT + (log10(intensity) - c->x0) / (c->x1 - c->x0) * (WIDTH - LEFT - RIGHT);
}
static double y_of(const struct chart *c, double rate)
{
    return HEIGHT - BOTTOM - (log10(rate) - c->y0) / (c->y1 - c->y0) * (HEIGHT - TOP - BOTTOM);
}

/* Marks distinguish programs without colours; r is scaled so that all marks look equally large. */
static void put_mark(struct text *t, uint32_t i, double x, double y, double r)
{
    static const double corners[][12] = {
        { -0.9, -0.9, 0.9, -0.9, 0.9, 0.9, -0.9, 0.9 }, { 0, -1.2, 1.1, 0.8, -1.1, 0.8 }, { 0, -1.25, 1.25, 0, 0, 1.25, -1.25, 0 },
        { 0, 1.2, 1.1, -0.8, -1.1, -0.8 }, { -1.1, 0, -0.55, -0.95, 0.55, -0.95, 1.1, 0, 0.55, 0.95, -0.55, 0.95 },
        { -0.5, -1.2, 0.5, -1.2, 0.5, 1.2, -0.5, 1.2 }, { -1.2, -0.5, 1.2, -0.5, 1.2, 0.5, -1.2, 0.5 },
    };
    static const uint32_t n_corners[] = { 4, 3, 4, 3, 6, 4, 4 };
    const uint32_t shape = i % HTML_COLORS;
    if (shape == 0) text_printf(t, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" class=\"mark c0\">", x, y, r);
    else {
        text_printf(t, "<polygon class=\"mark c%u\" points=\"", shape);
        for (uint32_t k = 0; k < n_corners[shape - 1]; k++)
            text_printf(t, "%s%.1f,%.1f", k ? " " : "", x + r * corners[shape - 1][2 * k], y + r * corners[shape - 1][2 * k + 1]);
        text_puts(t, "\">");
    }
}
static const char *mark_end(uint32_t i) { return i % HTML_COLORS ? "</polygon>" : "</circle>"; }

/* Writes the number of a kernel beside its mark, if there is room for it. */
static void put_label(struct text *t, struct chart *c, uint32_t number, double x, double y, double r)
{
    const double places[][2] = { { x + r + 3, y + 4 }, { x - r - 17, y + 4 }, { x - 6, y - r - 4 }, { x - 6, y + r + 13 } };
    for (size_t i = 0; i < COUNT_OF(places) && c->n_labels < LABELS_MOST; i++) {
        uint32_t k = 0;
        while (k < c->n_labels && (fabs(c->labels[k].x - places[i][0]) > 17 || fabs(c->labels[k].y - places[i][1]) > 12)) k++;
        if (k < c->n_labels) continue;
        c->labels[c->n_labels].x = places[i][0];
        c->labels[c->n_labels++].y = places[i][1];
        text_printf(t, "<text class=\"label\" x=\"%.1f\" y=\"%.1f\">%u</text>", places[i][0], places[i][1], number);
        return;
    }
}

/* Values with a grid line between the edges from and to, in logarithms: powers of ten and, if these are few, some of their multiples.
 * Returns their number, at most TICKS_MOST. */
enum { TICKS_MOST = 40 };
static uint32_t ticks(double from, double to, double *values)
{
    static const double few[] = { 1, 2, 5 }, many[] = { 1, 1.5, 2, 3, 4, 5, 6, 8 };
    const double *factors = to - from < 0.9 ? many : few;
    const uint32_t n_factors = to - from < 0.9 ? COUNT_OF(many) : to - from < 2.5 ? COUNT_OF(few) : 1;
    uint32_t n = 0;
    for (int e = (int)floor(from); e <= to; e++)
        for (uint32_t k = 0; k < n_factors && n < TICKS_MOST; k++) {
            const double value = factors[k] * pow(10, e);
            if (log10(value) >= from && log10(value) <= to) values[n++] = value;
        }
    return n;
}

static void put_axes(struct text *t, const struct chart *c)
{
    double values[TICKS_MOST];
    uint32_t n = ticks(c->x0, c->x1, values);
    for (uint32_t i = 0; i < n; i++)
        text_printf(t, "<path class=\"axis\" d=\"M%.1f %dV%d\"/><text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g</text>\n",
                    x_of(c, values[i]), TOP, HEIGHT - BOTTOM, x_of(c, values[i]), HEIGHT - BOTTOM + 18, values[i]);
    n = ticks(c->y0, c->y1, values);
    for (uint32_t i = 0; i < n; i++)
        text_printf(t, "<path class=\"axis\" d=\"M%d %.1fH%d\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n", LEFT,
                    y_of(c, values[i]), WIDTH - RIGHT, LEFT - 8, y_of(c, values[i]) + 4, values[i]);
    text_printf(t, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">operations per byte</text><text transform=\"translate(18 %d) "
                "rotate(-90)\" text-anchor=\"middle\">Gop/s</text>\n", (LEFT + WIDTH - RIGHT) / 2,
                HEIGHT - 8, (TOP + HEIGHT - BOTTOM) / 2);
}

/* True if a program before i measured the same bandwidth, within a sixth. */
static bool is_drawn(const struct comparison *p, uint32_t i)
{
    for (uint32_t k = 0; k < i; k++)
        if (fabs(log(p->candidates[k].bandwidth / p->candidates[i].bandwidth)) < log(7 / 6.0)) return true;
    return false;
}

/* Draws a line for each bandwidth: GB/s times operations per byte, from edge to edge, labelled where it leaves the chart. */
static void put_roofs(struct text *t, const struct chart *c, const struct comparison *p)
{
    for (uint32_t i = 0, n = 0; i < p->n; i++) {
        const double roof = p->candidates[i].bandwidth;
        const double from = fmax(c->x0, c->y0 - log10(roof)), to = fmin(c->x1, c->y1 - log10(roof));
        if (roof <= 0 || is_drawn(p, i) || from >= to) continue;
        const double x0 = x_of(c, pow(10, from)), y0 = y_of(c, roof * pow(10, from)), x1 = x_of(c, pow(10, to)),
            y1 = y_of(c, roof * pow(10, to));
        const bool room = x1 < WIDTH - RIGHT - 180;
        text_printf(t, "<path class=\"roof\" d=\"M%.1f %.1fL%.1f %.1f\"/><text class=\"label\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">"
                    "%s GB/s, ", x0, y0, x1, y1, room ? x1 + 8 : x1 - 4, y1 + (room ? 11 : 24) + 16 * n++, room ? "start" : "end",
                    html_number(t->arena, roof));
        html_text(t, p->candidates[i].target->name);
        text_puts(t, "</text>\n");
    }
}

static void put_kernels(struct text *t, struct chart *c, const struct page_kernels *k)
{
    for (uint32_t row = 0; row < k->n_rows; row++)
        for (uint32_t i = 0; i < k->of->n; i++) {
            const struct profiled_step *s = &k->of->candidates[i].profiled.steps[k->step];
            const struct profiled_kernel *one = profiled_kernel_find(s, k->rows[row].name);
            if (!one || one->bytes <= 0 || one->operations <= 0 || one->us <= 0) continue;
            const double intensity = one->operations / one->bytes, rate = one->operations / one->us * 1e-3;
            const double x = x_of(c, intensity), y = y_of(c, rate), r = 3.5 + 7 * sqrt(one->us / s->sum_us);
            put_mark(t, i, x, y, r);
            text_puts(t, "<title>");
            html_text(t, k->rows[row].name);
            text_printf(t, " of %c: %s Gop/s at %s operations per byte</title>%s", 'A' + (char)i, html_number(t->arena, rate),
                        html_number(t->arena, intensity), mark_end(i));
            put_label(t, c, row + 1, x, y, r);
        }
}

/* Sets the edges so that all kernels and some of the roof fit; false: no kernel has operations. */
static bool scale(struct chart *c, const struct page_kernels *k)
{
    *c = (struct chart){ .x0 = INFINITY, .x1 = -INFINITY, .y0 = INFINITY, .y1 = -INFINITY };
    for (uint32_t i = 0; i < k->of->n; i++) {
        const struct profiled_step *s = &k->of->candidates[i].profiled.steps[k->step];
        for (uint32_t j = 0; j < s->n_kernels; j++) {
            const struct profiled_kernel *one = &s->kernels[j];
            if (one->bytes <= 0 || one->operations <= 0 || one->us <= 0) continue;
            const double x = log10(one->operations / one->bytes), y = log10(one->operations / one->us * 1e-3);
            *c = (struct chart){ .x0 = fmin(c->x0, x), .x1 = fmax(c->x1, x), .y0 = fmin(c->y0, y), .y1 = fmax(c->y1, y) };
        }
    }
    if (!isfinite(c->x0)) return false;
    const double top = c->y1 + 2;
    for (uint32_t i = 0; i < k->of->n; i++)                   /* some of the roof, unless all kernels are far below it */
        c->y1 = fmax(c->y1, fmin(log10(k->of->candidates[i].bandwidth) + c->x0, top));
    const double x = fmax(0.1, 0.25 - (c->x1 - c->x0) / 4), y = fmax(0.1, 0.25 - (c->y1 - c->y0) / 4);
    *c = (struct chart){ .x0 = c->x0 - x, .x1 = c->x1 + x, .y0 = c->y0 - y, .y1 = c->y1 + y };
    return true;
}

void page_roofline(struct text *t, const struct page_kernels *k, const char *title)
{
    struct chart c;
    if (!scale(&c, k)) {
        text_puts(t, "<p class=\"note\">No kernel of this step has products, so there is no roofline.</p>\n");
        return;
    }
    text_printf(t, "<figure><div class=\"wide\"><svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"Roofline of %s: operations per "
                "second of each kernel over its operations per byte, both logarithmic, below the line of the measured bandwidth; the "
                "numbers are in the table below.\">\n", WIDTH, HEIGHT, title);
    put_axes(t, &c);
    put_roofs(t, &c, k->of);
    put_kernels(t, &c, k);
    text_puts(t, "\n</svg></div><figcaption>");
    for (uint32_t i = 0; i < k->of->n; i++) {
        text_puts(t, "<svg viewBox=\"0 0 16 16\" style=\"display:inline-block;width:1.1em;vertical-align:-.2em\" aria-hidden=\"true\">");
        put_mark(t, i, 8, 8, 5);
        text_printf(t, "%s</svg> ", mark_end(i));
        page_tag(t, i);
        text_puts(t, " &ensp;");
    }
    text_puts(t, "Each mark is a kernel, larger where it takes more of the step; the numbers are those of the table. On the line a kernel "
              "is as fast as the measured bandwidth lets it be, but what caches hold lets it pass. Kernels without products are not "
              "shown.</figcaption></figure>\n");
}
