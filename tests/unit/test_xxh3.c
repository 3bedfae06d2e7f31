/* test_xxh3.c -- compares runtime/model/xxh3.c with libxxhash, at every alignment and up to the last byte before an unmapped page. */
#include "runtime/model/xxh3.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <xxhash.h>
/* cmocka.h needs the above */
#include <cmocka.h>

enum { BYTES = 1 << 20, PAGE = 65536 };      /* PAGE: a multiple of the machine's page */
static uint8_t *end;                         /* of BYTES random bytes; memory after it cannot be read */

static uint32_t random_32(void)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32);
}

static int setup(void **state)
{
    uint8_t *base = mmap(NULL, BYTES + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED || mprotect(base + BYTES, PAGE, PROT_NONE)) return -1;
    for (size_t i = 0; i < BYTES; i++) base[i] = (uint8_t)random_32();
    end = base + BYTES;
    *state = base;
    return 0;
}

static int teardown(void **state) { return munmap(*state, BYTES + PAGE); }

static void same(const uint8_t *p, size_t n)
{
    if (forge_xxh3(p, n) != XXH3_64bits(p, n)) fail_msg("another hash of %zu bytes", n);
}

static void every_short_length(void **state)
{
    (void)state;
    for (size_t n = 0; n <= 2048; n++) {
        same(end - n, n);
        same(end - n - 1 - n % 64, n);
    }
}

static void long_lengths(void **state)
{
    (void)state;
    for (int i = 0; i < 300; i++) {
        const size_t n = random_32() % (BYTES - 64);
        same(end - n - random_32() % 64, n);
    }
    for (size_t n = 1024; n <= 65536; n += 1024)              /* around whole blocks */
        for (size_t k = n - 65; k <= n + 65; k++) same(end - k, k);
    same(end - BYTES, BYTES);
}

static void every_bit_counts(void **state)
{
    (void)state;
    static const size_t lengths[] = { 1, 3, 4, 8, 9, 16, 17, 128, 129, 240, 241, 1024, 1025, 4096 };
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        const size_t n = lengths[i];
        uint8_t *p = end - n;
        const uint64_t hash = forge_xxh3(p, n);
        for (size_t bit = 0; bit < 8 * n; bit++) {
            p[bit / 8] ^= (uint8_t)(1u << bit % 8);
            assert_int_not_equal(forge_xxh3(p, n), hash);
            p[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_short_length), cmocka_unit_test(long_lengths),
                                        cmocka_unit_test(every_bit_counts) };
    return cmocka_run_group_tests(tests, setup, teardown);
}
