/* kernel_profile.c -- see kernel_profile.h; the JSON is written by runtime/app/profile.c. */
#include "kernel_profile.h"
#include "compiler/build/program.h"
#include "pairs.h"
#include <cjson/cJSON.h>
#include <string.h>

static const cJSON *member(const cJSON *object, const char *key, bool is_right(const cJSON *))
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!is_right(item)) die("the program's --profile has no %s as expected; this is a mistake in forgec, please report it", key);
    return item;
}
static bool is_text(const cJSON *item) { return cJSON_IsString(item); }
static bool is_list(const cJSON *item) { return cJSON_IsArray(item); }

static struct profiled_step read_step(struct arena *a, const cJSON *step)
{
    const cJSON *kernels = member(step, "kernels", is_list), *k;
    struct profiled_step s = { .kernels = arena_array(a, struct profiled_kernel, (size_t)cJSON_GetArraySize(kernels)),
                               .n_tokens = (uint32_t)program_number(step, "n_tokens"), .us = program_number(step, "step_us"),
                               .sum_us = program_number(step, "sum_us") };
    cJSON_ArrayForEach(k, kernels)
        s.kernels[s.n_kernels++] = (struct profiled_kernel){
            arena_strdup(a, member(k, "name", is_text)->valuestring), program_number(k, "launches"), program_number(k, "us"),
            program_number(k, "bytes"), program_number(k, "operations"),
        };
    return s;
}

struct kernel_profile kernel_profile_read(struct arena *a, struct bytes json)
{
    cJSON *root = cJSON_ParseWithLength((const char *)json.data, json.size);
    const cJSON *steps = member(root, "steps", is_list), *step;
    struct kernel_profile p = { 0 };
    cJSON_ArrayForEach(step, steps)
        p.steps[strcmp(member(step, "kind", is_text)->valuestring, "decode") ? STEP_PREFILL : STEP_DECODE] = read_step(a, step);
    cJSON_Delete(root);
    return p;
}

const struct profiled_kernel *profiled_kernel_find(const struct profiled_step *s, const char *name)
{
    for (uint32_t i = 0; i < s->n_kernels; i++) if (strcmp(s->kernels[i].name, name) == 0) return &s->kernels[i];
    return NULL;
}

struct kernel_profile kernel_profile_median(const struct kernel_profile *profiles, uint32_t n)
{
    struct kernel_profile m = profiles[0];
    double x[PROFILES_MOST];
    for (struct profiled_step *s = m.steps; s < m.steps + N_STEPS; s++) {
        const size_t step = (size_t)(s - m.steps);
        for (uint32_t i = 0; i < n; i++) x[i] = profiles[i].steps[step].us;
        s->us = median_of(x, n);
        s->sum_us = 0;
        for (uint32_t k = 0; k < s->n_kernels; k++) {
            for (uint32_t i = 0; i < n; i++) {
                const struct profiled_kernel *one = profiled_kernel_find(&profiles[i].steps[step], s->kernels[k].name);
                if (!one) die("the program's --profile has other kernels each time; this is a mistake in forgec, please report it");
                x[i] = one->us;
            }
            s->sum_us += s->kernels[k].us = median_of(x, n);
        }
    }
    return m;
}
