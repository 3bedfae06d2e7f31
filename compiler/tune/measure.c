/* measure.c -- reads the speed of programs from --profile and --bench. */
#include "parts.h"
#include "compiler/plan/cost.h"
#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

/* Speeds without speculation, one repetition. */
#define BENCH "--bench", "--spec", "none", "--random-weights", "-o", "json", "-r", "1"

struct cJSON *run_trial(struct tune *t, const struct trial *trial, const char *const *arguments)
{
    const char *why;
    struct bytes out;
    if (program_try(t->arena, &t->runner, trial->path, arguments, &out, &why)) {
        cJSON *root = cJSON_ParseWithLength((const char *)out.data, out.size);
        if (!root) die("the program wrote no JSON; %s", t->runner.on ? "does --on run it with all of its arguments?"
                                                                     : "this is a mistake in forgec, please report it");
        return root;
    }
    if (trial == &t->base) die("%s", why);
    if (t->options->build.cc.spawn.verbose) fprintf(stderr, "forgec: %s\n", why);
    return NULL;
}

/* Microseconds of each unit's launches in a step, and of the step at the end. A unit with register spills gets a time so long that it is
 * never chosen. */
bool take_timings(void *context, const struct trial *trial, double *values, uint32_t n)
{
    const struct step *s = context;
    struct tune *t = s->tune;
    const char *count = arena_printf(t->arena, "%u", s->n);
    const char *decode[] = { "--profile", "--random-weights", "-o", "json", "-p", "0", "-n", "20", "--each", "3", "-d", count, NULL },
               *prefill[] = { "--profile", "--random-weights", "-o", "json", "-n", "0", "-p", count, NULL };
    cJSON *root = run_trial(t, trial, s->prefill ? prefill : decode);
    if (!root) return false;
    const cJSON *step = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(root, "steps"), 0);
    const cJSON *timings = cJSON_GetObjectItemCaseSensitive(step, "launches"), *timing = timings ? timings->child : NULL;
    const struct kernel_list *list = t->plan->kernels;
    const struct launches *of = &list->of[s->prefill ? STEPS_PREFILL : STEPS_DECODE];
    const struct launch *launches = of->list;
    for (uint32_t i = 0; i < n; i++) values[i] = 0;
    values[n - 1] = program_number(step, "step_us");
    for (uint32_t i = 0; i < of->n; i++) {
        const uint32_t tokens = !s->prefill || launches[i].tail ? 1 : s->n;
        if (s->prefill && !kernel_runs(&list->kernels[launches[i].kernel], tokens)) continue;
        if (!timing || strcmp(cJSON_GetObjectItemCaseSensitive(timing, "name")->valuestring, launches[i].name))
            die("--profile and the plan differ in their launches; this is a mistake in forgec, please report it");
        const struct unit *u = unit_of(t, &launches[i], s->prefill);
        if (u) values[u - t->units] += program_number(timing, "us") +
                           (trial != &t->base && program_number(timing, "spill_bytes") > 0 ? 1e9 : 0);
        timing = timing->next;
    }
    cJSON_Delete(root);
    return true;
}

/* Tokens per second. */
bool take_speed(void *context, const struct trial *trial, double *values, uint32_t n)
{
    const struct step *s = context;
    struct tune *t = s->tune;
    const char *count = arena_printf(t->arena, "%u", s->n);
    const char *decode[] = { BENCH, "--min-time", "0.4", "-p", "0", "-n", "64", "-d",
                             count, NULL },
               *prefill[] = { BENCH, "--min-time", "0.4", "-n", "0", "-p", count, NULL };
    cJSON *root = run_trial(t, trial, s->prefill ? prefill : decode);
    if (!root) return false;
    values[n - 1] = program_number(cJSON_GetArrayItem(root, 0), "median_ts");
    cJSON_Delete(root);
    return true;
}

const char *step_text(struct tune *t, const struct step *s, const char *what, uint32_t round)
{
    return arena_printf(t->arena, "%s %s %u round %u", what, s->prefill ? "prefill" : "decode", s->n, round);
}

/* "512,2048" */
static const char *list_text(struct arena *a, const uint32_t *list, uint32_t n)
{
    struct text t = { .arena = a };
    for (uint32_t i = 0; i < n; i++) text_printf(&t, "%s%u", i ? "," : "", list[i]);
    return n ? text_str(&t) : "0";
}

/* Tokens per second after each depth, and for each prompt. */
bool take_speeds(void *context, const struct trial *trial, double *values, uint32_t n)
{
    struct tune *t = context;
    const bool at_none = t->n_depths && t->depths[0] == 0;
    const char *depths = list_text(t->arena, t->depths, t->n_depths);
    const char *arguments[] = { BENCH, "--min-time", "0.2", "-n", "64", "-p",
                                list_text(t->arena, t->prompts, t->n_prompts), "-d",
                                at_none ? depths : arena_printf(t->arena, "0,%s", depths), NULL };
    cJSON *root = run_trial(t, trial, arguments);
    const cJSON *row;
    if (!root) return false;
    for (uint32_t i = 0; i < n; i++) values[i] = 0;
    cJSON_ArrayForEach(row, root) {
        const double prompt = program_number(row, "n_prompt"), depth = program_number(row, "n_depth");
        const double speed = program_number(row, "median_ts");
        for (uint32_t i = 0; prompt == 0 && i < t->n_depths; i++) if (depth == t->depths[i]) values[i] = speed;
        for (uint32_t i = 0; depth == 0 && i < t->n_prompts; i++) if (prompt == t->prompts[i]) values[t->n_depths + i] = speed;
    }
    cJSON_Delete(root);
    return true;
}

/* The name of the machine according to the program; dies if the program does not run there. */
const char *find_where(struct tune *t)
{
    const char *const arguments[] = { "--profile", "--random-weights", "-o", "json", "-p", "0", "-n", "1", NULL };
    cJSON *root = run_trial(t, &t->base, arguments);
    const cJSON *where = cJSON_GetObjectItemCaseSensitive(root, "where");
    const char *name = arena_strdup(t->arena, cJSON_IsString(where) ? where->valuestring : "unknown");
    cJSON_Delete(root);
    return name;
}
