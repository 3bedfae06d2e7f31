/* cpu_rope.c -- rotary embedding of the CPU against the oracles of templates/ref: both orders of pairs, all scalings. */
#include "cpu_ops.h"
#include "templates/cpu/rope_tmpl.c"

enum { BLOCK = 64, BLOCKS = 2048 };

static void check_rope(uint32_t head_dim, uint32_t n_rot, bool neox, uint32_t scaling, uint32_t position)
{
    const uint32_t half = n_rot / 2;
    float *factors = row_new("factors", half);
    for (uint32_t i = 0; i < half; i++) factors[i] = 1 + 7 * (float)i / (float)half;
    const bool yarn = scaling == 1;
    const struct rope_ref r = { .n_rot = n_rot, .neox = neox, .freq_base = random_below(3) ? 500000 : 10000, .freq_scale = yarn ? 0.25 : 1,
                                .ext_factor = yarn, .attn_factor = 1, .beta_fast = 32, .beta_slow = 1, .n_ctx_orig = 4096,
                                .freq_factors = scaling == 2 ? factors : NULL };
    case_is("head_dim %u, n_rot %u, position %u, %s, scaling %u", head_dim, n_rot, position, neox ? "neox" : "norm", scaling);
    /* As the build does: hi carries the magnitude, lo is the plain rotation. */
    struct rope_ref plain = r;
    float *hi = row_new("a row", (uint64_t)(position / BLOCK + 1) * n_rot), *lo = row_new("a row", (uint64_t)BLOCK * n_rot),
        *cs = row_new("a row", n_rot);
    const double magnitude = r.ext_factor != 0 ? 1 + 0.1 * log(1 / r.freq_scale) : 1;
    plain.attn_factor = 1 / magnitude;
    double c, s;
    for (uint32_t i = 0; i < half; i++) {
        rope_pair_ref(&c, &s, &r, i, position / BLOCK * BLOCK);
        hi[(uint64_t)(position / BLOCK) * n_rot + 2 * i] = (float)c; hi[(uint64_t)(position / BLOCK) * n_rot + 2 * i + 1] = (float)s;
        for (uint32_t b = 0; b < BLOCK; b++) {
            rope_pair_ref(&c, &s, &plain, i, b);
            lo[b * n_rot + 2 * i] = (float)c; lo[b * n_rot + 2 * i + 1] = (float)s;
        }
    }
    rope_table(cs, hi, lo, position, BLOCK, n_rot);
    float *want_cs = row_new("a row", n_rot), *head = row_new("a row", head_dim), *want = row_new("a row", head_dim);
    for (uint32_t i = 0; i < half; i++) {
        rope_pair_ref(&c, &s, &r, i, position);
        want_cs[i] = (float)c; want_cs[half + i] = (float)s;
    }
    same_row("rope_table", cs, want_cs, n_rot, 1, 3e-7);
    random_row(head, head_dim, 3);
    memcpy(want, head, 4 * head_dim);
    rope_apply(head, cs, n_rot, head_dim, r.neox);
    rope_ref(want, &r, position);
    same_row("rope_apply", head, want, head_dim, 3, 5e-7);
    rooms_free();
}

void test_cpu_rope(void)
{
    static const uint32_t shapes[][2] = { { 64, 64 }, { 128, 128 }, { 80, 32 }, { 96, 96 }, { 128, 64 }, { 16, 16 }, { 256, 256 },
                                          { 40, 20 }, { 8, 6 }, { 72, 72 } };
    for (uint32_t i = 0; i < rounds(40); i++)
        if (case_begin())
            check_rope(shapes[i % 10][0], shapes[i % 10][1], i / 10 % 2, i % 4, i < 4 ? i * 63 : random_below(BLOCK * BLOCKS));
}

void bench_cpu_rope(void)
{
    double s;
    case_begin();
    float *y = random_row_new("y", 128, 1), *cs = random_row_new("cs", 128, 1);
    BEST(s, 100, for (uint32_t i = 0; i < 100; i++) { y[0] *= 0.5f; rope_apply(y, cs, 128, 128, 1); });
    printf("rope neox 128: %5.1f ns\n", s * 1e7);
    BEST(s, 100, for (uint32_t i = 0; i < 100; i++) { y[0] *= 0.5f; rope_apply(y, cs, 128, 128, 0); });
    printf("rope norm 128: %5.1f ns\n", s * 1e7);
    rooms_free();
}
