/* check.h -- what the checks of GPU kernels share: random numbers, and memory that ends at an inaccessible page. */
#ifndef FORGE_SIMT_CHECK_H
#define FORGE_SIMT_CHECK_H
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "simt.h"

static uint64_t seed = 0x9e3779b97f4a7c15u;
static uint32_t n_cases;
static uint32_t random_u32(void) { seed = seed * 6364136223846793005u + 1442695040888963407u; return (uint32_t)(seed >> 32); }
static uint32_t random_in(uint32_t low, uint32_t high) { return low + random_u32() % (high - low + 1); }
static float    random_f32(void) { return (float)(int32_t)random_u32() * (1.0f / 2147483648.0f); }           /* -1 .. 1 */

/* Bytes that end where an inaccessible page begins; all NaN at first. */
enum { PAGE = 4096 };
struct room { uint8_t *map, *bytes; uint64_t map_bytes; };
static struct room room_new(uint64_t bytes)
{
    struct room r;
    const uint64_t pages = (bytes + PAGE - 1) / PAGE * PAGE;
    r.map_bytes = pages + PAGE;
    r.map = mmap(NULL, r.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (r.map == MAP_FAILED || mprotect(r.map + pages, PAGE, PROT_NONE)) { perror("room_new"); exit(1); }
    memset(r.map, SIMT_POISON, pages);
    r.bytes = r.map + pages - bytes;
    return r;
}
static void room_free(struct room *r) { munmap(r->map, r->map_bytes); }
#endif
