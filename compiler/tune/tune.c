/* tune.c -- see tune.h. Every kernel is timed on its own (`--profile`), so a program can try another setting of each kernel at once, and
 * each kernel keeps its best setting. Then the program with all these settings is compared with the planner's own as a whole. */
#include "parts.h"
#include "compiler/plan/tuned.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { ROUNDS = 3, CANDIDATES = 10, MINUTES = 30 };

/* True if the time for the search is over. */
bool tune_late(struct tune *t)
{
    const bool late = build_seconds() - t->begun > t->seconds;
    if (late && !t->late) fprintf(stderr, "forgec: the time for the search is over\n");
    return t->late |= late;
}

static const char *file_stem(struct arena *a, const struct plan *p)
{
    const struct model *m = p->model;
    struct text t = { .arena = a };
    text_printf(&t, "%s-%s-%ux%u", p->target->name, m->architecture, m->n_layer, m->n_embd);
    const char *seen[8];
    size_t n_seen = 0;
    for (uint32_t i = 0; i < m->n_weights; i++) {
        const struct weight *w = &m->weights[i];
        const char *name = w->tensor->quant->name;
        size_t k = 0;
        while (k < n_seen && strcmp(seen[k], name)) k++;
        if (w->is_vector || k < n_seen || n_seen == COUNT_OF(seen)) continue;
        seen[n_seen++] = name;
        text_printf(&t, "-%s", name);
    }
    return text_str(&t);
}

static const char *out_path(struct arena *a, const struct tune_options *o, const struct plan *p)
{
    if (o->path) return o->path;
    if (mkdir("tuned", 0777) && errno != EEXIST)
        die("tuned: cannot make the directory: %s; -o FILE says where the settings go", strerror(errno));
    return arena_printf(a, "tuned/%s.yaml", file_stem(a, p));
}

static void sizes(struct tune *t)
{
    static const uint32_t depths[] = { 512 }, prompts[] = { 128, 512 };
    const struct tune_options *o = t->options;
    const uint32_t n_ctx = t->plan->options.n_ctx, room = n_ctx > 96 ? n_ctx - 96 : 0;
    for (uint32_t i = 0; i < (o->n_depths ? o->n_depths : COUNT_OF(depths)); i++) {
        const uint32_t d = o->n_depths ? o->depths[i] : depths[i] < room ? depths[i] : room / 2;
        if (d > room) die("-d %u: the context of %u tokens needs room for 96 more; give less, or a larger --ctx", d, n_ctx);
        t->depths[t->n_depths++] = d;
    }
    const uint32_t most = t->plan->chunk;
    for (uint32_t i = 0; i < (o->n_prompts ? o->n_prompts : COUNT_OF(prompts)); i++) {
        const uint32_t p = o->n_prompts ? o->prompts[i] : prompts[i] < most ? prompts[i] : most;
        if (p > most || p < 2) die("-p %u: a prefill step must have 2 to %u tokens", p, most);
        if (t->n_prompts && p < t->prompts[t->n_prompts - 1]) die("-p: give the sizes in ascending order");
        if (!t->n_prompts || p > t->prompts[t->n_prompts - 1]) t->prompts[t->n_prompts++] = p;
    }
    t->rounds = o->rounds ? o->rounds : ROUNDS;
    t->candidates = o->candidates ? o->candidates : CANDIDATES;
    t->seconds = 60.0 * (o->minutes ? o->minutes : MINUTES);
}

bool tune_found(const struct tune *t, bool prefill)
{
    bool any = false;
    for (uint32_t i = 0; i < t->n_units; i++)
        any |= unit_of_step(&t->units[i], prefill) && (t->units[i].changed || unit_any_size_changed(t, &t->units[i]));
    for (uint32_t i = 0; prefill && i < t->n_tiles; i++) any |= t->tiles[i].now != t->tiles[i].planned;
    return any;
}

/* A key with a text that may contain anything: the result of printable() is valid in YAML's quotes. */
static void put_text(struct text *out, const char *key, const char *value)
{
    text_printf(out, "  %s: \"%s\"\n", key, printable(out->arena, value, strlen(value)));
}

/* found: NULL: nothing is faster than the planner's own settings. The file then says so, and a build with it uses those. */
static void write_settings(struct tune *t, const char *path, const struct trial *found, const struct text *numbers)
{
    struct text y = { .arena = t->arena }, head = { .arena = t->arena };
    put_head(&head, t);
    const char *body = found ? found->yaml : text_str(&head), *head_end = strchr(strstr(body, "shape:"), '\n') + 1;
    text_printf(&y, found ? "# Settings that forgec tune found faster than the planner's own: forgec build MODEL -t %s --tuned FILE\n"
                          : "# forgec tune found no settings for %s that are faster than the planner's own, which stay.\n",
                t->plan->target->name);
    text_append(&y, body, (size_t)(head_end - body));
    put_text(&y, "model", t->plan->model->name);
    put_text(&y, "machine", t->where);
    put_text(&y, "forgec", FORGEC_VERSION);
    if (found) text_puts(&y, "  measured:                # tokens a second, medians of rounds in turns\n");
    for (const char *line = numbers->data; found && *line; line += strcspn(line, "\n") + 1)
        text_printf(&y, "  %.*s\n", (int)strcspn(line, "\n"), line);
    text_puts(&y, head_end);
    file_write(t->arena, path, bytes_of(text_str(&y)));
}

int tune(struct arena *a, const struct tune_options *o)
{
    struct tune *t = arena_new(a, struct tune);
    *t = (struct tune){ .arena = a, .options = o, .gain = 1, .begun = build_seconds() };
    const struct build_options *b = &o->build;
    const struct gguf *file = gguf_open(a, b->model_path, true);
    const struct model *m = build_model(a, b, file);
    if (m->pooling) die("%s: tune does not support embedding models, which decode no tokens", b->model_path);
    const struct target *p = target_load(a, b->n_targets ? b->targets[0] : "native", b->targets_dir);
    t->plan = build_plan(a, b, graph_build(a, m), p);
    const char *not_here = o->on ? NULL : target_unsupported_here(a, p);
    if (not_here) die("a program for %s cannot run here: %s; --on COMMAND runs it on another machine", p->name, not_here);
    t->runner = (struct runner){ .target = p->name, .on = o->on };
    sizes(t);
    units_find(t);
    tiles_find(t);
    t->workplace = workplace_open(a);
    const char *path = out_path(a, o, t->plan), *log_path = arena_printf(a, "%s.log", path);
    output_claim(a, path);
    const char *options = build_options_text(a, b, t->plan->options.n_ctx);
    const char *head = arena_printf(a, "forgec %s, %s, %s, %s, %s", FORGEC_VERSION, p->name, options, tuned_shape(a, t->plan),
                                    o->on ? o->on : "here");
    t->trials = trials_open(a, b, &t->runner, t->workplace, log_path, head);
    if (trials_known(t->trials)) fprintf(stderr, "forgec: %s has %u measurements already\n", log_path, trials_known(t->trials));
    trials_build(t->trials, &t->base, 1);
    if (!t->base.path) die("%s", t->base.why_not);
    t->where = find_where(t);
    fprintf(stderr, "forgec: tuning %s for %s on %s, at most %.0f minutes\n", m->name, p->name, t->where, t->seconds / 60);
    if (t->plan->gpu) search_decode(t);
    if (t->plan->gpu) search_prefill(t);
    for (uint32_t i = 0; i < t->n_tiles && !tune_late(t); i++) search_tile(t, &t->tiles[i]);
    struct text numbers = { .arena = a };
    struct trial found = { .yaml = NULL };
    const bool any = tune_found(t, false) || tune_found(t, true), better = any && settle(t, &found, &numbers);
    if (better) {
        write_settings(t, path, &found, &numbers);
        printf("%u programs in %.0f s; %s\n", t->n_programs, build_seconds() - t->begun, path);
    }
    else {
        if (o->path) write_settings(t, path, NULL, &numbers);
        printf("%u programs in %.0f s; %s: the planner's own settings stay%s%s\n", t->n_programs, build_seconds() - t->begun,
               any ? "all settings found are together no faster" : "no faster settings were found", o->path ? "; " : "",
               o->path ? path : "");
    }
    trials_forget(t->trials);
    workplace_close(t->workplace);
    return 0;
}
