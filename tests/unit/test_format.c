/* test_format.c -- packed rows have the values of the file's blocks: compares every format and layout with the scalar oracle. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/base/base.h"
#include "compiler/format/layout.h"
#include "templates/ref/dequant.h"

enum { GUARD = 64 };

static uint64_t state = 1;
static uint32_t random_u32(void)                 /* splitmix64: Steele, Lea & Flood 2014 */
{
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (uint32_t)(z >> 32 ^ z >> 16);
}

/* Blocks of random bytes with finite numbers. */
static uint8_t *random_rows(const struct format *f, uint64_t bytes)
{
    uint8_t *rows = malloc(bytes);
    for (uint64_t at = 0; at < bytes; at += f->block_bytes)
        do for (uint32_t i = 0; i < f->block_bytes; i++) rows[at + i] = (uint8_t)random_u32();
        while (blocks_not_finite(f, rows + at, 1) == 0);
    return rows;
}

static void assert_rows(struct packing p, const uint8_t *packed, const uint8_t *rows, uint64_t n_rows, uint64_t cols)
{
    float *want = malloc(cols * sizeof *want), *got = malloc(cols * sizeof *got);
    for (uint64_t r = 0; r < n_rows; r++) {
        dequantize_row_ref(p.format->id, want, rows + r * format_row_bytes(p.format, cols), cols);
        packing_read(p, got, packed, r, cols);
        for (uint64_t c = 0; c < cols; c++)
            if (memcmp(&want[c], &got[c], sizeof *got))
                fail_msg("%s, layout %s, %llu columns: row %llu, column %llu is %g, not %g", p.format->name, p.layout->name,
                         (unsigned long long)cols, (unsigned long long)r, (unsigned long long)c, (double)got[c], (double)want[c]);
    }
    free(want);
    free(got);
}

/* Packs in two pieces over other bytes, so that unwritten bytes differ. */
static void pack_twice(struct packing p, uint8_t *packed, const uint8_t *rows, uint64_t n_rows, uint64_t cols)
{
    const uint64_t bytes = packing_bytes(p, n_rows, cols), group_bytes = packing_group_bytes(p, cols), groups = bytes / group_bytes;
    const uint64_t split = random_u32() % (groups + 1);
    uint8_t *again = malloc(bytes);
    memset(packed, 0x5a, bytes + GUARD);
    memset(again, 0xa5, bytes);
    packing_write(p, packed, rows, n_rows, cols, 0, groups);
    packing_write(p, again + split * group_bytes, rows, n_rows, cols, split, groups - split);
    packing_write(p, again, rows, n_rows, cols, 0, split);
    assert_memory_equal(packed, again, bytes);
    for (uint32_t i = 0; i < GUARD; i++) assert_int_equal(packed[bytes + i], 0x5a);
    free(again);
}

static void packed_rows_are_the_files(void **unused)
{
    (void)unused;
    static const uint64_t cols[] = { 1, 31, 32, 64, 96, 160, 256, 512, 1280 }, n_rows[] = { 1, 5, 16, 33 };
    for (uint32_t k = 0; k < FORMAT_COUNT * 2 * 9 * 4; k++) {
        const uint32_t period = k % 2 && k / 2 / FORMAT_COUNT % 2 ? 16 : 0;                    /* 16: all rows are padded */
        const struct packing p = packing_of(k % 2 ? LAYOUT_GPU : LAYOUT_CPU, &format_table[k / 2 % FORMAT_COUNT], period);
        const uint64_t n_cols = cols[k / 2 / FORMAT_COUNT % 9], n = n_rows[k / 2 / FORMAT_COUNT / 9];
        if (n_cols % p.format->block_weights) continue;
        uint8_t *rows = random_rows(p.format, n * format_row_bytes(p.format, n_cols));
        uint8_t *packed = malloc(packing_bytes(p, n, n_cols) + GUARD);
        pack_twice(p, packed, rows, n, n_cols);
        assert_rows(p, packed, rows, n, n_cols);
        free(rows);
        free(packed);
    }
}

/* Kernels load groups with these alignments; rows beyond the last have zero weights, so that they add nothing to sums of a group of 16. */
static void groups_are_whole(void **unused)
{
    (void)unused;
    for (uint32_t i = 0; i < FORMAT_COUNT; i++) {
        const struct format *f = &format_table[i];
        const struct packing cpu = packing_of(LAYOUT_CPU, f, 0), gpu = packing_of(LAYOUT_GPU, f, 0);
        assert_int_equal(packing_group_bytes(cpu, f->block_weights) % 64, 0);
        assert_int_equal(packing_group_bytes(gpu, f->block_weights) % 16, 0);
        uint8_t *rows = random_rows(f, f->block_bytes), *packed = malloc(packing_bytes(cpu, 1, f->block_weights));
        float weights[256];
        packing_write(cpu, packed, rows, 1, f->block_weights, 0, 1);
        packing_read(cpu, weights, packed, 1, f->block_weights);
        for (uint32_t c = 0; c < f->block_weights; c++) assert_true(weights[c] == 0);
        free(rows);
        free(packed);
    }
}

/* Numbers of columns of real models.  With row_period 512 no distance of rows is a multiple of 512 bytes, and no row is longer than
 * necessary; prints the padded formats. */
static void rows_are_padded(void **unused)
{
    (void)unused;
    static const uint64_t cols[] = { 256, 512, 768, 1024, 1536, 2048, 2560, 2880, 3072, 3584, 4096, 5120, 6144, 7168, 8192, 9728, 11008,
                                     12288, 13824, 14336, 16384, 18944, 27648, 28672 };
    uint32_t n_padded = 0;
    for (uint32_t i = 0; i < FORMAT_COUNT; i++) {
        const struct format *f = &format_table[i];
        printf("%-8s", f->name);
        for (size_t k = 0; k < COUNT_OF(cols); k++) {
            if (cols[k] % f->block_weights) continue;
            const uint64_t plain = packing_group_bytes(packing_of(LAYOUT_GPU, f, 0), cols[k]);
            const uint64_t padded = packing_group_bytes(packing_of(LAYOUT_GPU, f, 512), cols[k]);
            assert_true(padded % 512 != 0 && padded % 16 == 0);
            if (plain % 512 != 0) assert_int_equal(padded, plain);
            else assert_true(padded > plain && padded - plain <= 128 && (padded - plain <= plain / 64 || padded - plain == 16));
            n_padded += padded > plain;
            if (padded > plain) printf(" %llu (%llu + %llu)", (unsigned long long)cols[k], (unsigned long long)plain,
                                       (unsigned long long)(padded - plain));
        }
        printf("\n");
    }
    assert_true(n_padded > 3 * COUNT_OF(cols));          /* floats: all of them */
}

static void formats_are_found(void **unused)
{
    (void)unused;
    for (uint32_t i = 0; i < FORMAT_COUNT; i++) assert_ptr_equal(format_of(format_table[i].id), &format_table[i]);
    assert_null(quant_find(28));
    assert_null(quant_find(QUANT_IDS));
    assert_null(quant_find(UINT32_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_rows_are_the_files), cmocka_unit_test(groups_are_whole), cmocka_unit_test(rows_are_padded),
        cmocka_unit_test(formats_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
