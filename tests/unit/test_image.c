/* test_image.c -- a weight image must not contain NaN or infinity: at every place of every format where a block has a number with an
 * exponent. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "compiler/build/image.h"
#include "compiler/plan/plan.h"
#include "die_capture.h"
#include "tests/number_put.h"
#include "tiny_model.h"

enum { N_EMBD = 256, N_VOCAB = 100 };

static struct arena *a;

static int setup(void **state) { (void)state; a = arena_create(); return 0; }
static int teardown(void **state) { (void)state; arena_destroy(a); return 0; }

struct bits { enum number kind; uint32_t bits; const char *name; };
static const struct bits bad_bits[] = {
    { NUMBER_F16, 0x7e00, "NaN" },        { NUMBER_F16, 0xfc01, "NaN" },        { NUMBER_F16, 0x7c00, "infinity" },
    { NUMBER_F16, 0xfc00, "infinity" },
    { NUMBER_BF16, 0x7fc0, "NaN" },       { NUMBER_BF16, 0xff81, "NaN" },       { NUMBER_BF16, 0x7f80, "infinity" },
    { NUMBER_BF16, 0xff80, "infinity" },
    { NUMBER_F32, 0x7fc00000, "NaN" },  { NUMBER_F32, 0xff800001, "NaN" },  { NUMBER_F32, 0x7f800000, "infinity" },
    { NUMBER_F32, 0xff800000, "infinity" },
    { NUMBER_E8M0, 0xff, "NaN" },
};
/* The largest finite numbers, and numbers with the exponent's bits at another place. */
static const struct bits good_bits[] = {
    { NUMBER_F16, 0x7bff, NULL }, { NUMBER_F16, 0xfbff, NULL }, { NUMBER_F16, 0x03ff, NULL }, { NUMBER_F16, 0x8000, NULL },
    { NUMBER_BF16, 0x7f7f, NULL }, { NUMBER_BF16, 0xff7f, NULL },
    { NUMBER_BF16, 0x807f, NULL }, { NUMBER_F32, 0x7f7fffff, NULL }, { NUMBER_F32, 0xff7fffff, NULL }, { NUMBER_F32, 0x807fffff, NULL },
    { NUMBER_E8M0, 0xfe, NULL },
};

/* A model with tensors of bytes 0x77: scales and floats, also f32 vectors of 0x77777777, are large and finite.  F32 matrices are 51,015,
 * because a GPU refuses values from 65,520 on. */
static struct model *filled_model_of(enum quant quant, uint32_t n_vocab)
{
    struct tiny shape = { "llama", N_EMBD, 256, 4, 2, 64, n_vocab, quant, 1, NULL, 0, NULL, false };
    struct model *m = tiny_model(a, &shape);
    for (uint64_t i = 0; i < m->gguf->n_tensors; i++) {
        struct gguf_tensor *t = &m->gguf->tensors[i];
        uint8_t *data = arena_alloc(a, t->bytes);
        memset(data, quant == QUANT_F32 ? 0x47 : 0x77, t->bytes);
        t->data = data;
    }
    return m;
}

static struct model *filled_model(enum quant quant) { return filled_model_of(quant, N_VOCAB); }

static uint8_t *data_of(const struct model *m, const char *name)
{
    const struct gguf_tensor *t = gguf_tensor_find(m->gguf, name);
    assert_non_null(t);
    return (uint8_t *)(uintptr_t)t->data;
}

static struct image_writer writer_of(const struct model *m, const char *target)
{
    const struct plan_options options = { .n_ctx = 32, .max_threads = 2 };
    struct plan *p = plan_make(a, graph_build(a, m), FUSE_LAYER, target_load(a, target, NULL), &options);
    return (struct image_writer){ .arena = a, .plans = { p }, .n_plans = 1, .jobs = 2 };
}

static struct outfile file;                      /* the last image's file; still open after die() */

static void image_make(struct image_writer *w)
{
    file = outfile_open(a, "/tmp/forgec-test-image", 0600);
    image_write(&file, w);
    assert_int_equal(file.offset, w->plans[0]->image_bytes);
    outfile_discard(&file);
}

/* Writes the bits into number i of a block, makes an image, and restores the old bits.  text: part of the message; NULL: it must
 * succeed. */
static void image_with(struct image_writer *w, const struct format *q, uint8_t *block, uint32_t i, uint32_t bits, const char *text)
{
    uint8_t was[256];
    memcpy(was, block, q->block_bytes);
    number_put(block, q, i, &bits);
    if (text == NULL) image_make(w);
    else {
        assert_dies(image_make(w), text);
        close(file.fd);
    }
    memcpy(block, was, q->block_bytes);
}

static const char *place_text(const struct format *q, const char *tensor, uint64_t row, uint64_t block, const char *what)
{
    typedef unsigned long long ull;
    return q->block_weights == 1 ? arena_printf(a, "tensor %s, row %llu, column %llu is %s; weights must be finite", tensor, (ull)row,
                                                (ull)block, what)
        : arena_printf(a, "tensor %s, row %llu, block %llu (%s, columns %llu to %llu): a scale is %s; weights must be finite", tensor,
                       (ull)row, (ull)block, q->name, (ull)(block * q->block_weights), (ull)((block + 1) * q->block_weights - 1), what);
}

static bool is_beyond(const struct image_writer *w, const struct bits *b)
{
    return w->plans[0]->target->kind == TARGET_GPU && b->kind == NUMBER_F32 && (b->bits & 0x7f800000u) > 0x47000000u;
}

static void check_scale(struct image_writer *w, const struct format *q, uint32_t number)
{
    static const struct { const char *tensor; uint64_t row; bool last; } where[] = {
        { "token_embd.weight", 0, false }, { "token_embd.weight", N_VOCAB - 1, true }, { "blk.0.ffn_up.weight", 37, true },
    };
    const uint64_t n_blocks = N_EMBD / q->block_weights;
    /* With sanitizers an image takes ten times as long, and every place runs the same code. */
    for (size_t k = getenv("FORGEC_TEST_FEW") ? COUNT_OF(where) - 1 : 0; k < COUNT_OF(where); k++) {
        const uint64_t block = where[k].last ? n_blocks - 1 : 0;
        uint8_t *at = data_of(w->plans[0]->model, where[k].tensor) + (where[k].row * n_blocks + block) * q->block_bytes;
        for (size_t i = 0; i < COUNT_OF(bad_bits); i++)
            if (bad_bits[i].kind == q->number)
                image_with(w, q, at, number, bad_bits[i].bits,
                           place_text(q, where[k].tensor, where[k].row, block, bad_bits[i].name));
        for (size_t i = 0; i < COUNT_OF(good_bits); i++)
            if (good_bits[i].kind == q->number)
                image_with(w, q, at, number, good_bits[i].bits,
                           is_beyond(w, &good_bits[i]) ? "on a GPU F32 weights must be below 65520" : NULL);
    }
}

static void every_format_and_place(void **state)
{
    (void)state;
    static const char *const targets[] = { "portable", "gfx1151" };
    for (size_t f = 0; f < FORMAT_COUNT; f++)
        for (size_t t = 0; t < COUNT_OF(targets); t++) {
            const struct format *q = &format_table[f];
            struct image_writer w = writer_of(filled_model(q->id), targets[t]);
            image_make(&w);
            for (size_t i = 0; i < 2; i++) if (q->number_at[i] >= 0) check_scale(&w, q, (uint32_t)i);
        }
}

/* At every position: loops over floats test many at once. */
static void every_column(void **state)
{
    (void)state;
    for (size_t f = 0; f < FORMAT_COUNT; f++) {
        const struct format *q = &format_table[f];
        if (q->coding) continue;
        struct image_writer w = writer_of(filled_model(q->id), "portable");
        uint8_t *row = data_of(w.plans[0]->model, "blk.0.attn_output.weight") + (uint64_t)5 * N_EMBD * q->block_bytes;
        const uint32_t bits = q->number == NUMBER_F32 ? 0xff800000 : q->number == NUMBER_F16 ? 0x7c01 : 0xffc0;
        for (uint32_t c = 0; c < N_EMBD; c += getenv("FORGEC_TEST_FEW") ? 15 : 3)
            image_with(&w, q, row + c * q->block_bytes, 0, bits,
                       place_text(q, "blk.0.attn_output.weight", 5, c, q->number == NUMBER_F32 ? "infinity" : "NaN"));
    }
}

static void vectors(void **state)
{
    (void)state;
    struct image_writer w = writer_of(filled_model(QUANT_Q8_0), "portable");
    const struct format *f32 = format_of(QUANT_F32);
    uint8_t *norm = data_of(w.plans[0]->model, "output_norm.weight");
    image_with(&w, f32, norm + (N_EMBD - 1) * 4, 0, 0x7fc00000,
               "tiny: tensor output_norm.weight, element 255 is NaN; weights must be finite");
    image_with(&w, f32, norm, 0, 0xff800000, "tensor output_norm.weight, element 0 is infinity");
    image_with(&w, f32, norm, 0, 0x7f7fffff, NULL);
}

/* The message names the first of several, for any number of threads. */
static void the_first_is_named(void **state)
{
    (void)state;
    struct image_writer w = writer_of(filled_model(QUANT_F32), "portable");
    uint32_t *rows = (uint32_t *)(void *)data_of(w.plans[0]->model, "token_embd.weight");
    for (uint32_t r = 20; r < N_VOCAB; r++) rows[r * N_EMBD + 3] = 0x7fc00000;
    for (w.jobs = 1; w.jobs < 8; w.jobs++) {
        assert_dies(image_make(&w), "tensor token_embd.weight, row 20, column 3 is NaN");
        close(file.fd);
    }
}

/* Threads that share rows pack all of them, for any number of rows: a NaN in the last row is found. */
static void the_last_is_packed(void **state)
{
    (void)state;
    enum { ROWS = 301 };                         /* 19 groups of 16, of 16 KiB each: enough for several threads */
    struct image_writer w = writer_of(filled_model_of(QUANT_F32, ROWS), "portable");
    uint32_t *rows = (uint32_t *)(void *)data_of(w.plans[0]->model, "token_embd.weight");
    rows[(ROWS - 1) * N_EMBD + 3] = 0x7fc00000;
    for (w.jobs = 1; w.jobs < 8; w.jobs++) {
        assert_dies(image_make(&w), "tensor token_embd.weight, row 300, column 3 is NaN");
        close(file.fd);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_format_and_place, setup, teardown),
        cmocka_unit_test_setup_teardown(every_column, setup, teardown),
        cmocka_unit_test_setup_teardown(vectors, setup, teardown),
        cmocka_unit_test_setup_teardown(the_first_is_named, setup, teardown),
        cmocka_unit_test_setup_teardown(the_last_is_packed, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
