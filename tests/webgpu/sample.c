/* sample.c -- tokens drawn by WGSL: writes logits, modules and the draws of runtime/library/sample.c into the working directory, for
 * sample.mjs:
 *   sample.json          for each vocabulary its sizes and its cases: the text, options and expected tokens
 *   NUMBER.wgsl          for a vocabulary: sample.wgsl with the used parts of the templates
 *   NUMBER.logits        f32 [N_KINDS][n_vocab]
 * A case is a text and consecutive draws from logits of one kind or of all kinds, with one set of options or with new options each time. */
#include "tests/kernel/registry.h"
#include "compiler/base/base.h"
#include "compiler/web/wgsl.h"
#include "runtime/library/instance.h"
#include "runtime/run/random.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ROW_AT: words of the arena before the row. */
enum { DRAWS_MOST = 65, TEXT_MOST = 80, ROW_AT = 5, N_OPTIONS = 6 };

/* ---- logits ---- */
enum kind { ANY, PEAKED, FLAT, LEVELS, MASKED, SAME, LARGE, TINY, N_DRAWABLE, WITH_NAN = N_DRAWABLE, WITH_INFINITY, FORBIDDEN, N_KINDS };

static float logit(enum kind kind)
{
    static const float levels[] = { -1, -0.0f, 0, 1, 1.5f };
    switch (kind) {
    case PEAKED:    return 1.5f * random_normal() + (random_below(64) ? 0 : 12);
    case FLAT:      return 1e-3f * random_normal();
    case LEVELS:    return levels[random_below(COUNT_OF(levels))];
    case MASKED:    return random_below(10) ? -INFINITY : 4 * random_normal();
    case SAME:      return -2.5f;
    case LARGE:     return random_below(4) ? 1e4f * random_normal() : 1e38f * random_f32();
    case TINY:      return random_below(2) ? 0x1p-120f * random_f32() : random_below(2) ? 0 : -3 * fabsf(random_normal());
    case FORBIDDEN: return -INFINITY;
    default:        return 3 * random_normal();
    }
}
static float *logits_new(struct arena *a, uint32_t n_vocab)
{
    float *all = arena_array(a, float, (size_t)N_KINDS * n_vocab);
    for (uint32_t kind = 0; kind < N_KINDS; kind++) {
        float *row = all + (size_t)kind * n_vocab;
        for (uint32_t i = 0; i < n_vocab; i++) row[i] = logit((enum kind)kind);
        if (kind == WITH_NAN) row[random_below(n_vocab)] = -NAN;
        if (kind == WITH_INFINITY) row[random_below(n_vocab)] = INFINITY;
    }
    return all;
}

/* ---- cases ---- */
static uint32_t hash_of(const float *x, uint32_t n)        /* FNV-1a of words */
{
    uint32_t hash = 2166136261u;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        hash = (hash ^ bits) * 16777619u;
    }
    return hash;
}
static void words_print(struct text *t, const char *name, const uint32_t *words, uint32_t n)
{
    text_printf(t, ", \"%s\": [", name);
    for (uint32_t i = 0; i < n; i++) text_printf(t, "%s%u", i ? ", " : "", words[i]);
    text_puts(t, "]");
}
/* The words of the sampling options in sample.wgsl. */
static void options_put(uint32_t words[N_OPTIONS], const struct model_sampling *o)
{
    memcpy(&words[0], &o->temperature, 4);
    words[1] = (uint32_t)o->top_k;
    memcpy(&words[2], &o->top_p, 4);
    memcpy(&words[3], &o->min_p, 4);
    memcpy(&words[4], &o->repeat_penalty, 4);
    words[5] = (uint32_t)o->repeat_last_n;
}
static void random_print(struct text *t, const char *name, const uint64_t random[4])
{
    uint32_t words[8];
    for (uint32_t i = 0; i < 4; i++) words[2 * i] = (uint32_t)random[i], words[2 * i + 1] = (uint32_t)(random[i] >> 32);
    words_print(t, name, words, 8);
}

/* One of the numbers. */
#define PICK(...) ((const float[]){ __VA_ARGS__ })[random_below(sizeof((float[]){ __VA_ARGS__ }) / sizeof(float))]

static struct model_sampling options_any(uint32_t n_vocab)
{
    const float some = (float)random_in(1, n_vocab + 3);
    return (struct model_sampling){
        .size = sizeof(struct model_sampling),
        .temperature = PICK(0.8f, 0.8f, 0.8f, 1, 1, 0.3f, 2.7f, 50, 0, 1e-3f, 1e-39f),
        .top_k = (int32_t)PICK(40, 40, 40, 0, 0, 1, 7, 300, some),
        .top_p = PICK(0.95f, 0.95f, 0, 0.5f, 0.01f, 1, 1e-12f, 0.99999994f),
        .min_p = PICK(0, 0, 0, 0, 0.05f, 0.05f, 0.7f, 1, 1e-9f),
        .repeat_penalty = PICK(0, 1, 1.1f, 1.1f, 1.5f, 0.6f, 3e-3f),
        .repeat_last_n = (int32_t)PICK(64, 64, 20, 1, 0),
    };
}
/* The options of a case, for logits like a model's. */
static const struct model_sampling usual[] = {
    { .size = sizeof *usual, .temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f,
      .repeat_penalty = 1.1f, .repeat_last_n = 64 },
    { .size = sizeof *usual, .temperature = 1, .top_p = 0.9f },
};
static const char *options_text(struct arena *a, const struct model_sampling *o)
{
    return arena_printf(a, "temperature %g, top_k %d, top_p %g, min_p %g, penalty %g of %d", (double)o->temperature, o->top_k,
                        (double)o->top_p, (double)o->min_p, (double)o->repeat_penalty, o->repeat_last_n);
}

static void case_add(struct text *list, struct arena *a, uint32_t n_vocab, uint32_t draws, const float *all, uint64_t number)
{
    static int32_t tokens[TEXT_MOST + DRAWS_MOST];
    static const struct forge_program nothing;
    struct forge_program program = nothing;
    struct model m = { .magic = LIBRARY_OPEN, .program = &program, .sequence = &m.first, .first.tokens = tokens };
    const bool one_kind = random_below(2), one_set = !random_below(4);
    const uint32_t n_text = random_in(1, TEXT_MOST), n_tokens = random_in(1, n_text), bad_at = random_below(3 * draws);
    float *logits = arena_array(a, float, n_vocab);
    struct model_sampling o = options_any(n_vocab);
    uint32_t kinds[DRAWS_MOST], drawn[DRAWS_MOST], options[DRAWS_MOST * N_OPTIONS];
    uint32_t failed = 0, kind = random_below(N_DRAWABLE);
    program.n_vocab = n_vocab;
    m.first.n_past = n_text;
    xoshiro_seed(m.first.random, number);
    for (uint32_t i = 0; i < n_text; i++)
        tokens[i] = i && random_below(3) == 0 ? tokens[random_below(i)] : (int32_t)random_below(n_vocab);
    text_printf(list, "{ \"case\": %llu, \"n_tokens\": %u", (unsigned long long)number, n_tokens);
    words_print(list, "text", (const uint32_t *)(const void *)tokens, n_text);
    random_print(list, "random", m.first.random);
    text_puts(list, ", \"what\": [");
    for (uint32_t i = 0; i < draws; i++) {
        if (!one_kind) kind = random_below(N_DRAWABLE);
        if (!one_set) o = options_any(n_vocab);
        if (i < COUNT_OF(usual)) o = usual[i];
        if (i == draws - 1) o.repeat_penalty = PICK(1.5f, 1.1f, 0.6f), o.repeat_last_n = 64;      /* the logits of this draw are compared */
        options_put(&options[N_OPTIONS * i], &o);
        text_printf(list, "%s\"%s\"", i ? ", " : "", options_text(a, &o));
        kinds[i] = i == bad_at ? N_DRAWABLE + random_below(N_KINDS - N_DRAWABLE) : i < COUNT_OF(usual) ? ANY : kind;
        memcpy(logits, all + (size_t)kinds[i] * n_vocab, n_vocab * sizeof *logits);
        const int32_t token = model_sample(&m, logits, &o);
        if (token < 0 && token != MODEL_NOT_FINITE) bad("the reference says %d", token);
        if (token < 0 && !failed) failed = 1 + m.first.n_past;
        drawn[i] = token < 0 ? 0 : (uint32_t)token;
        tokens[m.first.n_past++] = (int32_t)drawn[i];
    }
    text_puts(list, "]");
    words_print(list, "options", options, draws * N_OPTIONS);
    words_print(list, "kinds", kinds, draws);
    words_print(list, "drawn", drawn, draws);
    random_print(list, "random_after", m.first.random);
    text_printf(list, ", \"failed\": %u, \"hash\": %u }", failed, hash_of(logits, n_vocab));
}

/* ---- vocabularies ---- */
/* SwiftShader needs one or two seconds for a draw from the largest vocabulary. */
static const struct vocabulary { uint32_t n_vocab, threads, groups, cases, draws; } vocabularies[] = {
    { 100, 16, 30, 24, DRAWS_MOST },             /* the last groups have no tokens */
    { 32000, 64, 125, 1, DRAWS_MOST },
    { 151936, 256, 594, 1, 6 },
};

static void module_write(struct arena *a, const char *folder, const struct vocabulary *v, uint32_t i)
{
    const struct wgsl_word words[] = {
        { "NVOCAB", arena_printf(a, "%uu", v->n_vocab) }, { "NTHREADS", arena_printf(a, "%uu", v->threads) },
        { "NGROUPS", arena_printf(a, "%uu", v->groups) }, { "ROWAT", arena_printf(a, "%uu", ROW_AT) },
        { "SCRATCHAT", arena_printf(a, "%uu", ROW_AT + v->n_vocab) },
    };
    struct wgsl *w = wgsl_new(a, getenv("TEMPLATES"));
    const char *file = arena_printf(a, "%s/sample.wgsl", folder);
    const struct bytes kernels = file_read(a, file);
    struct text t = { .arena = a };
    wgsl_add_text(w, file, arena_strndup(a, (const char *)kernels.data, kernels.size), words, COUNT_OF(words));
    wgsl_want(w, "sample_scan");
    wgsl_want(w, "sample_draw");
    wgsl_write(w, &t);
    file_write(a, arena_printf(a, "%u.wgsl", i), bytes_of(text_str(&t)));
}

void test_webgpu_sample(void)
{
    struct arena *a = arena_create();
    struct text list = { .arena = a };
    uint64_t number = 0;
    const char *folder = getenv("KERNELS");
    if (!folder) die("KERNELS: the folder of sample.wgsl");
    for (uint32_t i = 0; i < COUNT_OF(vocabularies); i++) {
        const struct vocabulary *v = &vocabularies[i];
        const float *all = NULL;
        uint32_t written = 0;
        text_printf(&list, "%s{ \"n_vocab\": %u, \"groups\": %u, \"row_at\": %u, \"cases\": [", i ? "] },\n" : "[", v->n_vocab, v->groups,
                    ROW_AT);
        for (uint32_t c = 0; c < rounds(v->cases); c++) {
            number++;
            if (!case_begin()) continue;
            if (!all) {
                all = logits_new(a, v->n_vocab);
                file_write(a, arena_printf(a, "%u.logits", i), (struct bytes){ (const uint8_t *)all, sizeof(float[N_KINDS]) * v->n_vocab });
            }
            text_puts(&list, written++ ? ",\n" : "\n");
            case_add(&list, a, v->n_vocab, v->draws, all, number);
        }
        module_write(a, folder, v, i);
    }
    text_puts(&list, "] }]\n");
    file_write(a, "sample.json", bytes_of(text_str(&list)));
    arena_destroy(a);
}
