/* registry.h -- the library of kernel tests: cases, failures, random numbers, and memory that ends at an inaccessible page.
 * A test is a row of registry.def and a function test_NAME(); a function bench_NAME() measures.  tests/kernel/run.sh builds and runs
 * tests. */
#ifndef FORGE_TESTS_REGISTRY_H
#define FORGE_TESTS_REGISTRY_H
#include <stdbool.h>
#include <stdint.h>

#define KERNEL_TEST(name, ...) void test_##name(void) __attribute__((weak)); void bench_##name(void) __attribute__((weak));
#include "registry.def"
#undef KERNEL_TEST

/* ---- cases ---- */
/* Begins the next case; false: --case excludes it.  Its random numbers depend only on --seed and the number of the case. */
bool case_begin(void);
/* Describes the case; the text is printed before its first failure. */
__attribute__((format(printf, 1, 2))) void case_is(const char *format, ...);
/* Fails the case for this reason.  Returns false. */
__attribute__((format(printf, 1, 2))) bool bad(const char *format, ...);
/* Compares `got` with `want` and records the largest error / bound of the run.  If the error exceeds the bound, fails the case and returns
 * false. */
bool close_to(const char *what, uint64_t index, double got, double want, double bound);
/* The number of rounds: --rounds, else `usual`. */
uint32_t rounds(uint32_t usual);
/* Does --format include this format? */
bool format_wanted(const char *file);
/* For WGSL kernels: does --part include the item at this place of a list of formats or configurations? */
bool part_has(uint32_t place);
/* Does the name of the running variant have this word?  "cdna3-more" has cdna3 and more. */
bool variant_has(const char *word);

/* ---- random numbers of the case ---- */
uint32_t random_u32(void);
uint64_t random_u64(void);
uint32_t random_below(uint32_t n);
uint32_t random_in(uint32_t low, uint32_t high);           /* low .. high */
float    random_f32(void);                                 /* -1 .. 1 */
float    random_normal(void);
void     random_row(float *x, uint64_t n, float size);     /* -size .. size */

/* ---- memory ---- */
/* Test memory: `size` bytes, 16-byte aligned; size rounded up to 16 ends at an inaccessible page.  All bytes are 0xff: NaN in every float
 * type. */
enum { POISON = 0xff };
struct room {
    uint8_t *bytes;                  /* address in this process */
    void    *at;                     /* address for kernels */
    uint64_t size;
    const char *name;                /* for messages */
    uint8_t *map;
    uint64_t map_size;
    void    *device;
};
struct room *room_new(const char *name, uint64_t size);
static inline float *room_floats(const struct room *r) { return (float *)(void *)r->bytes; }
void rooms_poison(struct room *r);
/* Frees all rooms; bad() if bytes beside a room were written. */
void rooms_free(void);
/* All rooms, for machines. */
struct room *rooms_all(uint32_t *n);

double now_s(void);
#endif
