/* extract.c -- prints lines of measured kernels for predict_fit: the time of each launch from `PROGRAM --profile -o json`, with its work
 * from the plan of the same model.  Kernels with equal work are one line, the mean of their launches in all profiles.
 *
 *   predict_extract MODEL.gguf TARGET CTX PROFILE.json... >> tests/predict/TARGET.csv
 *
 * MODEL.gguf may be only a header (make_gguf --header-only). */
#include "points.h"
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double number(const cJSON *o, const char *key)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);
    if (!cJSON_IsNumber(v)) die("the profile has no number %s", key);
    return v->valuedouble;
}

static const char *word(const cJSON *o, const char *key)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);
    if (!cJSON_IsString(v)) die("the profile has no text %s", key);
    return v->valuestring;
}

struct line { const char *name; struct cost_work work; uint32_t n_past, tokens, n; double us; };
struct lines { struct arena *arena; struct line *list; uint32_t n, capacity; };

static void add(struct lines *l, const char *name, struct cost_work work, uint32_t n_past, uint32_t tokens, double us)
{
    for (uint32_t i = 0; i < l->n; i++) {
        struct line *one = &l->list[i];
        if (strcmp(one->name, name) || one->tokens != tokens || one->work.bytes != work.bytes || one->work.operations != work.operations)
            continue;
        one->us += us;
        one->n++;
        return;
    }
    arena_room(l->arena, l->list, l->n, l->capacity);
    l->list[l->n++] = (struct line){ name, work, n_past, tokens, 1, us };
}

/* The launches of the step are in the order of the plan; prefill's launches for steps of other sizes are left out. */
static void add_step(struct lines *lines, const struct plan *p, const cJSON *step)
{
    const struct kernel_list *list = p->kernels;
    const bool prefill = strcmp(word(step, "kind"), "prefill") == 0;
    const uint32_t tokens = (uint32_t)number(step, "n_tokens"), n_past = (uint32_t)number(step, "n_depth");
    const struct launches *launches = &list->of[prefill ? STEPS_PREFILL : STEPS_DECODE];
    const uint32_t n = launches->n + !prefill;
    const cJSON *measured = cJSON_GetObjectItemCaseSensitive(step, "launches"), *one = measured ? measured->child : NULL;
    for (uint32_t i = 0; i < n; i++) {
        const struct launch *l = i == launches->n ? &list->sample : &launches->list[i];
        const struct kernel *k = &list->kernels[l->kernel];
        const uint32_t of = prefill && l->tail ? 1 : tokens;
        if (!kernel_runs(k, of)) continue;
        if (!one || strcmp(word(one, "name"), l->name))
            die("launch %u is %s in the plan, %s in the profile", i, l->name, one ? word(one, "name") : "missing");
        add(lines, k->name, cost_work_of(p, k, of, n_past), n_past, of, number(one, "us"));
        one = one->next;
    }
    if (one) die("the profile has more launches than the plan");
    add(lines, "step", (struct cost_work){ .kind = prefill ? PREDICT_PROMPT : PREDICT_TOKEN, .bytes = n_past }, n_past, tokens,
        number(step, "step_us"));
}

int main(int argc, char **argv)
{
    if (argc < 5) die("usage: predict_extract MODEL.gguf TARGET CTX PROFILE.json...");
    struct arena *a = arena_create();
    struct lines lines = { .arena = a };
    const struct plan *p = measured_plan(a, argv[1], target_load(a, argv[2], NULL), (uint32_t)strtoul(argv[3], NULL, 10));
    const char *slash = strrchr(argv[1], '/'), *base = slash ? slash + 1 : argv[1], *dot = strrchr(base, '.');
    for (int i = 4; i < argc; i++) {
        const struct bytes text = file_read_most(a, argv[i], 1 << 26);
        cJSON *profile = cJSON_ParseWithLength((const char *)text.data, text.size);
        if (!profile) die("%s: not JSON", argv[i]);
        const cJSON *steps = cJSON_GetObjectItemCaseSensitive(profile, "steps");
        for (const cJSON *s = steps ? steps->child : NULL; s; s = s->next) add_step(&lines, p, s);
        cJSON_Delete(profile);
    }
    for (uint32_t i = 0; i < lines.n; i++) {
        const struct line *l = &lines.list[i];
        const struct cost_work *w = &l->work;
        const bool whole = w->kind >= PREDICT_TOKEN;
        printf("%s,%.*s,%s,%u,%u,%u,", prediction_name[w->kind], (int)(dot ? dot - base : 99), base, l->name, l->n_past, l->tokens, l->n);
        printf("%.0f,%.0f,%.3f,%u,%.0f,%.2f,%u,%.3f\n", whole ? 0 : w->bytes, w->in_flight, w->uneven, w->cols, w->operations,
               w->clocks_us, w->copied, l->us / l->n);
    }
    arena_destroy(a);
    return 0;
}
