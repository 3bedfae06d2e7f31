/* test_tune.c -- tuned settings are written to a file and read back: the plan uses them where they were measured, and the planner's choices
 * elsewhere. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "compiler/plan/cost.h"
#include "compiler/plan/tuned.h"
#include "compiler/tune/parts.h"
#include "die_capture.h"
#include "scratch.h"
#include "tiny_model.h"
#include <string.h>

static const struct tiny shape = { "llama", 2048, 8192, 32, 8, 64, 1000, QUANT_Q8_0, 2, NULL, 0, NULL, false };

static struct tune *begin(struct arena *a, struct tune_options *o, const char *target, uint32_t n_ctx)
{
    struct tune *t = arena_new(a, struct tune);
    o->build.fuse = FUSE_LAYER;
    *t = (struct tune){ .arena = a, .options = o, .prompts = { 24, 128, 512 }, .n_prompts = 3, .depths = { 100 }, .n_depths = 1 };
    t->plan = plan_make(a, graph_build(a, tiny_model(a, &shape)), FUSE_LAYER, target_load(a, target, NULL),
                        &(struct plan_options){ .n_ctx = n_ctx });
    units_find(t);
    return t;
}

/* The plan of a build with these settings. */
static const struct plan *plan_back(struct scratch *s, const struct tune *t, uint32_t n_ctx)
{
    struct arena *a = s->arena;
    struct text y = { .arena = a };
    put_head(&y, t);
    put_found(&y, t, true, true);
    static uint32_t n_files;
    const char *path = arena_printf(a, "%s/%u.yaml", s->directory, n_files++);
    file_write(a, path, bytes_of(text_str(&y)));
    const struct target *p = target_load_tuned(a, t->plan->target->name, NULL, path);
    struct plan_options o = { .n_ctx = n_ctx };
    const struct plan *own = plan_make(a, t->plan->fused->graph, FUSE_LAYER, p, &o);
    o.choices = tuned_choices(a, own, build_options_text(a, &t->options->build, 0));
    return plan_make(a, t->plan->fused->graph, FUSE_LAYER, p, &o);
}

/* The tile of a group's product in a step of this many tokens; each step has exactly one. */
static const uint32_t *gemm_at(const struct plan *p, uint32_t group, uint32_t tokens)
{
    const uint32_t *found = NULL;
    for (uint32_t i = 0; i < p->kernels->of[STEPS_PREFILL].n; i++) {
        const struct kernel *k = &p->kernels->kernels[p->kernels->of[STEPS_PREFILL].list[i].kernel];
        if (k->template != TEMPLATE_gemm || p->kernels->of[STEPS_PREFILL].list[i].group != group || !kernel_runs(k, tokens)) continue;
        assert_null(found);
        found = k->param;
    }
    assert_non_null(found);
    return found;
}

static bool same_tile(const uint32_t *x, const uint32_t *y)
{
    return x[PARAM_TOKENS] == y[PARAM_TOKENS] && x[PARAM_ROWS] == y[PARAM_ROWS] && x[PARAM_THREADS] == y[PARAM_THREADS];
}

/* Another tile at one size of step: this tile is used there and the planner's elsewhere, as far as the number of ranges allows. */
static void test_sizes(void **state)
{
    struct scratch *s = *state;
    static const char *const targets[] = { "gfx1151", "gfx942", "sm_90" };
    uint32_t n_compared = 0;
    for (size_t c = 0; c < COUNT_OF(targets); c++)
        for (uint32_t size = 0; size < 3; size++) {
            struct tune_options o = { 0 };
            struct tune *t = begin(s->arena, &o, targets[c], 4096);
            for (uint32_t i = 0; i < t->n_units; i++) {
                struct unit *u = &t->units[i];
                if (!unit_is_gemm(u)) continue;
                const struct settings found = settings_of(s->arena, t->plan, u->kernel, &u->at[size], SETTINGS_GROUPS, t->prompts[size], 0,
                                                          4);
                assert_true(found.n > 0);
                u->at[size] = found.list[found.n - 1];
                u->at_changed[size] = true;
            }
            const struct plan *p = plan_back(s, t, 4096);
            for (uint32_t i = 0; i < t->n_units; i++) {
                const struct unit *u = &t->units[i];
                for (uint32_t g = 0; unit_is_gemm(u) && g < u->n_groups; g++)
                    for (uint32_t k = 0; k < 3; k++) {
                        assert_true(same_tile(gemm_at(p, u->groups[g], t->prompts[k]), u->at[k].param));
                        n_compared++;
                    }
            }
            for (uint32_t i = 0; i < t->n_units; i++)
                for (uint32_t tokens = 1; unit_is_gemm(&t->units[i]) && tokens <= p->chunk; tokens += 7)
                    gemm_at(p, t->units[i].groups[0], tokens);
        }
    assert_true(n_compared > 50);
}

/* Decode's settings are restored; a context that is too short for splits, spans and ranges uses as many as fit. */
static void test_decode(void **state)
{
    struct scratch *s = *state;
    struct tune_options o = { 0 };
    struct tune *t = begin(s->arena, &o, "gfx1151", 4096);
    for (uint32_t i = 0; i < t->n_units; i++) {
        struct unit *u = &t->units[i];
        for (enum settings_step step = 0; step < SETTINGS_STEPS && !unit_is_gemm(u) && !u->kernel->prefill; step++) {
            const struct settings found = settings_of(s->arena, t->plan, u->kernel, &u->now, step, 1, 100, 8);
            for (uint32_t k = 0; k < found.n; k++)
                assert_memory_not_equal(found.list[k].param, u->now.param, sizeof u->now.param);
            if (found.n) { u->now = found.list[found.n - 1]; u->changed = true; }
        }
    }
    for (uint32_t n_ctx = 4096; n_ctx >= 32; n_ctx /= 128) {
        const struct plan *p = plan_back(s, t, n_ctx);
        uint32_t n = 0;
        for (uint32_t i = 0; i < p->kernels->of[STEPS_DECODE].n; i++) {
            const struct unit *u = unit_of(t, &t->plan->kernels->of[STEPS_DECODE].list[i], false);
            const uint32_t *param = p->kernels->kernels[p->kernels->of[STEPS_DECODE].list[i].kernel].param;
            if (!u || !u->changed) continue;
            const uint32_t *wanted = u->now.param;
            for (uint32_t k = 0; k < PARAM_COUNT; k++) {
                uint32_t want = wanted[k];
                if (k == PARAM_SPLITS && want > n_ctx / 16) want = n_ctx / 16;
                const uint32_t span = wanted[PARAM_SPAN], spans = span && n_ctx > span ? n_ctx / span : 1;
                if (k == PARAM_SPANS && want > spans) want = spans;
                if (u->now.given >> k & 1) assert_int_equal(param[k], want);
            }
            n++;
        }
        assert_true(n > 5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_sizes, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(test_decode, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
