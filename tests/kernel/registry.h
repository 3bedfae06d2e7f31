/* registry.h -- what every test of a kernel is written with: cases, failures, random numbers, memory with an end.
 * A test is a row of registry.def and a function test_NAME(); bench_NAME(), if there is one, measures.  tests/kernel/run.sh builds and
 * runs. */
#ifndef FORGE_TESTS_REGISTRY_H
#define FORGE_TESTS_REGISTRY_H
#include <stdbool.h>
#include <stdint.h>

#define KERNEL_TEST(name, ...) void test_##name(void) __attribute__((weak)); void bench_##name(void) __attribute__((weak));
#include "registry.def"
#undef KERNEL_TEST

/* ---- cases ---- */
/* Begins the next case; false: it is not wanted (--case).  Its random numbers follow from --seed and its number alone. */
bool case_begin(void);
/* What this case is: printed before its first failure. */
__attribute__((format(printf, 1, 2))) void case_is(const char *format, ...);
/* The case fails, for this reason.  Always false. */
__attribute__((format(printf, 1, 2))) bool bad(const char *format, ...);
/* Remembers the largest error / bound of the run; false after a message when the error is larger than the bound. */
bool close_to(const char *what, uint64_t index, double got, double want, double bound);
/* How often: --rounds, else the usual number. */
uint32_t rounds(uint32_t usual);
/* Is this format one of those wanted (--format)? */
bool format_wanted(const char *file);
/* Is what has this place in a list of formats or of configurations in the part that is wanted (--part)?  Of kernels of WGSL. */
bool part_has(uint32_t place);
/* Has the variant that runs this word?  "cdna3-more" has cdna3 and more. */
bool variant_has(const char *word);

/* ---- random numbers of the case ---- */
uint32_t random_u32(void);
uint64_t random_u64(void);
uint32_t random_below(uint32_t n);
uint32_t random_in(uint32_t low, uint32_t high);           /* both may come */
float    random_f32(void);                                 /* -1 .. 1 */
float    random_normal(void);
void     random_row(float *x, uint64_t n, float size);     /* -size .. size */

/* ---- memory ---- */
/* `size` bytes, 16-byte aligned, that end where an inaccessible page begins (size rounded up to 16), all 0xff: NaN in every float type. */
enum { POISON = 0xff };
struct room {
    uint8_t *bytes;                  /* of this process */
    void    *at;                     /* where kernels see them */
    uint64_t size;
    const char *name;                /* for messages */
    uint8_t *map;
    uint64_t map_size;
    void    *device;
};
struct room *room_new(const char *name, uint64_t size);
static inline float *room_floats(const struct room *r) { return (float *)(void *)r->bytes; }
void rooms_poison(struct room *r);
/* All rooms go; bad() where somebody wrote beside one. */
void rooms_free(void);
/* Those there are, for machines. */
struct room *rooms_all(uint32_t *n);

double now_s(void);
#endif
