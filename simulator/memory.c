/* memory.c -- device memory and pinned host memory of the simulated machine, and the state of each byte.
 *
 * All of it lies in one reserved range of host addresses, so a kernel's pointer is a host pointer.  An allocation begins at a multiple of
 * GRANULE and is followed by at least one inaccessible granule; a table with one word per granule finds an allocation in one step and
 * without a lock.  Addresses are reused only after the whole range has been used once, so that a use after free can be reported as such.
 *
 * The shadow has one bit per byte: 1 is defined.  Fresh shadow pages are zero, so new memory is undefined without being touched.  The host
 * writes pinned memory without our knowledge, so it always counts as defined.  `defined_to` says how much of an allocation's beginning is
 * defined: weights, which are uploaded from front to back, are checked by one comparison. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "gfxsim.h"

#define GRANULE     ((size_t)64 << 10)
#define FILL_BYTES  ((size_t)16 << 20)           /* larger allocations stay zero: filling them would take long */
enum { POISON = 0xff, MAX_ALLOCATIONS = 1 << 22 };

struct allocation {
    uint64_t begin;
    size_t   bytes;
    _Atomic uint64_t defined_to;                 /* [begin, defined_to) is defined, whatever the shadow says */
    uint32_t chips;                              /* a bit for each chip that reaches it without a grant: its own; for host memory all */
    uint8_t  kind, chip;                         /* enum memory_kind; the owner */
    bool     host, freed;
};

static struct {
    uint64_t base;
    size_t   limit[MAX_CHIPS], in_use[MAX_CHIPS];/* of device memory */
    uint8_t *shadow;                             /* [MEMORY_RANGE / 8] */
    uint32_t *at;                                /* [MEMORY_RANGE / GRANULE] number of the allocation there, or of the last one there; 0:
                                                  * none yet */
    struct allocation *list;                     /* [MAX_ALLOCATIONS] by number; 0 is unused */
    uint32_t n;                                  /* numbers assigned */
    uint32_t *live, n_live, max_live;            /* numbers of allocations that are not freed, by address */
    uint64_t next;                               /* where the search for room begins */
} memory;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
uint64_t memory_base;
_Thread_local uint32_t memory_chip;

/* ---- the range ---- */

static void *reserve(size_t bytes, int protection)
{
    void *p = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        perror("gfxsim: cannot reserve addresses");
        abort();
    }
    return p;
}

void *memory_side_table(size_t bytes) { return reserve(bytes, PROT_READ | PROT_WRITE); }

void memory_side_table_free(void *table, size_t bytes) { munmap(table, bytes); }

static void init(void)
{
    const int rw = PROT_READ | PROT_WRITE;
    const uint64_t got = (uint64_t)(uintptr_t)reserve(MEMORY_RANGE + GRANULE, PROT_NONE);
    memory.base = (got + GRANULE - 1) / GRANULE * GRANULE;
    memory.shadow = reserve(MEMORY_RANGE / 8, rw);
    memory.at = reserve(MEMORY_RANGE / GRANULE * sizeof *memory.at, rw);
    memory.list = reserve((size_t)MAX_ALLOCATIONS * sizeof *memory.list, rw);
    for (uint32_t k = 0; k < MAX_CHIPS; k++) memory.limit[k] = setting_of("FORGE_GFXSIM_MEMORY", k, (uint64_t)16 << 30);
    memory.next = memory.base + GRANULE;
    memory_base = memory.base;
}

void memory_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init);
}

static size_t granules(size_t bytes) { return (bytes + GRANULE - 1) / GRANULE * GRANULE; }

/* The allocation, live or freed, whose granules contain the address, or NULL. */
static struct allocation *allocation_at(uint64_t address)
{
    const uint64_t offset = address - memory.base;
    if (offset >= MEMORY_RANGE) return NULL;
    const uint32_t number = memory.at[offset / GRANULE];
    return number == 0 ? NULL : &memory.list[number];
}

static struct allocation *live_at(uint64_t address, size_t bytes)
{
    struct allocation *a = allocation_at(address);
    if (a == NULL || a->freed || address < a->begin || bytes > a->bytes || address - a->begin > a->bytes - bytes) return NULL;
    return a;
}

/* ---- allocations ---- */

/* Index in live[] of the first allocation that ends after the address. */
static uint32_t live_after(uint64_t address)
{
    uint32_t low = 0, high = memory.n_live;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        const struct allocation *a = &memory.list[memory.live[middle]];
        if (a->begin + granules(a->bytes) > address) high = middle;
        else low = middle + 1;
    }
    return low;
}

/* Finds room for `bytes` and a granule after them, from address `from` on; 0: none.  *index: its place in live[]. */
static uint64_t find_room(uint64_t from, size_t bytes, uint32_t *index)
{
    uint64_t begin = from;
    for (uint32_t i = live_after(from);; i++) {
        const uint64_t end = i < memory.n_live ? memory.list[memory.live[i]].begin : memory.base + MEMORY_RANGE;
        *index = i;
        if (begin < end && end - begin >= granules(bytes) + GRANULE) return begin;
        if (i >= memory.n_live) return 0;
        const struct allocation *a = &memory.list[memory.live[i]];
        begin = a->begin + granules(a->bytes) + GRANULE;
    }
}

static bool live_insert(uint32_t index, uint32_t number)
{
    if (memory.n_live == memory.max_live) {
        const uint32_t max = memory.max_live == 0 ? 256 : memory.max_live * 2;
        uint32_t *more = realloc(memory.live, max * sizeof *more);
        if (more == NULL) return false;
        memory.live = more;
        memory.max_live = max;
    }
    memmove(memory.live + index + 1, memory.live + index, (memory.n_live - index) * sizeof *memory.live);
    memory.live[index] = number;
    memory.n_live++;
    return true;
}

static void *take(size_t bytes, enum memory_kind kind)
{
    const bool host = kind == MEMORY_HOST;
    const size_t limit = memory.limit[memory_chip], in_use = memory.in_use[memory_chip];
    if (bytes > MEMORY_RANGE / 2 || memory.n + 1 >= MAX_ALLOCATIONS) return NULL;
    if (!host && (in_use > limit || bytes > limit - in_use)) return NULL;
    uint32_t index;
    uint64_t begin = find_room(memory.next, bytes, &index);
    if (begin == 0) begin = find_room(memory.base + GRANULE, bytes, &index);
    if (begin == 0 || mprotect((void *)(uintptr_t)begin, (bytes + 4095) / 4096 * 4096, PROT_READ | PROT_WRITE) != 0) return NULL;
    if (!live_insert(index, memory.n + 1)) return NULL;
    struct allocation *a = &memory.list[++memory.n];
    a->begin = begin;
    a->bytes = bytes;
    a->host = host;
    a->kind = (uint8_t)kind;
    a->chip = (uint8_t)memory_chip;
    a->chips = host ? ~0u : 1u << memory_chip;
    a->defined_to = host ? begin + bytes : begin;
    for (size_t i = 0; i < granules(bytes); i += GRANULE) memory.at[(begin - memory.base + i) / GRANULE] = memory.n;
    memory.next = begin + granules(bytes) + GRANULE;
    if (!host) memory.in_use[memory_chip] += bytes;
    return (void *)(uintptr_t)begin;
}

void *memory_alloc(size_t bytes, enum memory_kind kind)
{
    memory_init();
    if (bytes == 0) return NULL;
    pthread_mutex_lock(&lock);
    void *p = take(bytes, kind);
    pthread_mutex_unlock(&lock);
    /* With a sample of groups, data that is left out is read all the same: as zeros, which kernels do not turn into NaN. */
    if (p != NULL && bytes <= FILL_BYTES) memset(p, setting("FORGE_GFXSIM_SAMPLE", 0) > 0 ? 0 : POISON, bytes);
    return p;
}

bool memory_free(void *address)
{
    memory_init();
    const uint64_t begin = (uint64_t)(uintptr_t)address;
    pthread_mutex_lock(&lock);
    struct allocation *a = live_at(begin, 1);
    const bool found = a != NULL && a->begin == begin;
    if (found) {
        const uint32_t index = live_after(begin);
        const size_t room = granules(a->bytes);
        memmove(memory.live + index, memory.live + index + 1, (memory.n_live - index - 1) * sizeof *memory.live);
        memory.n_live--;
        a->freed = true;
        if (!a->host) memory.in_use[a->chip] -= a->bytes;
        peers_forget((uint32_t)(a - memory.list));
        /* a new mapping returns the pages; the shadow of a granule is two whole pages */
        mmap(address, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
        madvise(memory.shadow + (begin - memory.base) / 8, room / 8, MADV_DONTNEED);
    }
    pthread_mutex_unlock(&lock);
    return found;
}

size_t memory_in_use(void) { return memory.in_use[memory_chip]; }

size_t memory_size(void)
{
    memory_init();
    return memory.limit[memory_chip];
}

/* ---- queries ---- */

bool memory_inside(uint64_t address, size_t bytes, bool host)
{
    const struct allocation *a = live_at(address, bytes);
    return a != NULL && a->host == host;
}

bool memory_reachable(uint64_t address, size_t bytes, uint32_t reach)
{
    const struct allocation *a = live_at(address, bytes);
    return a != NULL && (a->chips & reach) != 0;
}

bool memory_is_fine(uint64_t address)
{
    const struct allocation *a = live_at(address, 1);
    return a != NULL && (a->kind == MEMORY_FINE || a->kind == MEMORY_UNCACHED);
}

bool memory_find(uint64_t address, struct memory_place *out)
{
    const struct allocation *a = live_at(address, 1);
    if (a == NULL || a->host) return false;
    *out = (struct memory_place){ .number = (uint32_t)(a - memory.list), .chip = a->chip, .kind = a->kind, .begin = a->begin,
                                  .bytes = a->bytes };
    return true;
}

void memory_describe(char *out, size_t bytes, uint64_t address)
{
    const struct allocation *a = NULL;
    uint64_t at = address;
    if (address - memory.base < MEMORY_RANGE) {
        a = allocation_at(at);
        if (a == NULL) a = allocation_at(at - GRANULE);            /* the guard after it */
    }
    if (a == NULL) {
        const struct allocation *after = allocation_at(address + GRANULE);
        if (after != NULL)
            snprintf(out, bytes, "%llu bytes before allocation %u of %zu bytes", (unsigned long long)(after->begin - address),
                     (uint32_t)(after - memory.list), after->bytes);
        else snprintf(out, bytes, "in no allocation");
        return;
    }
    const uint32_t number = (uint32_t)(a - memory.list);
    const char *what = a->freed ? "freed " : a->host ? "pinned " : "";
    const unsigned long long offset = address - a->begin;
    char whose[20] = "";
    if (!a->host && chips_count() > 1) snprintf(whose, sizeof whose, " of chip %u", a->chip);
    if (offset < a->bytes) snprintf(out, bytes, "at byte %llu of %sallocation %u of %zu bytes%s", offset, what, number, a->bytes, whose);
    else snprintf(out, bytes, "%llu bytes after %sallocation %u of %zu bytes%s", offset - a->bytes, what, number, a->bytes, whose);
}

/* ---- defined bytes ---- */

static uint8_t *shadow_of(uint64_t address) { return memory.shadow + (address - memory.base) / 8; }

/* Bits first .. first + n - 1 of a shadow byte; another thread may change its other bits. */
static void set_bits(uint8_t *at, uint32_t first, uint32_t n, bool defined)
{
    const uint8_t bits = (uint8_t)(((1u << n) - 1) << first);
    const uint8_t now = *(volatile uint8_t *)at;
    if (defined && (now & bits) != bits) atomic_fetch_or_explicit((_Atomic uint8_t *)at, bits, memory_order_relaxed);
    if (!defined && (now & bits) != 0) atomic_fetch_and_explicit((_Atomic uint8_t *)at, (uint8_t)~bits, memory_order_relaxed);
}

static void set_shadow(uint64_t address, size_t bytes, bool defined)
{
    const uint32_t head = (8 - address % 8) % 8;
    if (head >= bytes) {                         /* within one shadow byte, or up to its end */
        if (bytes > 0) set_bits(shadow_of(address), address % 8, (uint32_t)bytes, defined);
        return;
    }
    if (head > 0) set_bits(shadow_of(address), address % 8, head, defined);
    address += head;
    bytes -= head;
    const uint8_t all = defined ? 0xff : 0;
    uint8_t *at = shadow_of(address);
    if (bytes / 8 > 64) memset(at, all, bytes / 8);
    else for (size_t i = 0; i < bytes / 8; i++) if (at[i] != all) at[i] = all;
    if (bytes % 8 > 0) set_bits(at + bytes / 8, 0, (uint32_t)(bytes % 8), defined);
}

void memory_set_defined(uint64_t address, size_t bytes, bool defined)
{
    struct allocation *a = live_at(address, bytes);
    if (a == NULL || a->host || bytes == 0) return;
    const uint64_t end = address + bytes, to = a->defined_to;
    if (defined && end <= to) return;
    if (!defined && address < to) {              /* the shadow must store for the rest what defined_to said */
        if (end < to) set_shadow(end, to - end, true);
        set_shadow(a->begin, address - a->begin, true);
        a->defined_to = a->begin;
    }
    if (defined && address <= to && bytes >= 4096) a->defined_to = end;   /* smaller ranges come from kernels, out of order and from two
                                                                           * threads */
    else set_shadow(address, bytes, defined);
}

static bool defined_in(const struct allocation *a, uint64_t address, size_t bytes)
{
    const uint64_t to = a->defined_to;
    if (address + bytes <= to) return true;
    if (address < to) {
        bytes -= to - address;
        address = to;
    }
    const uint8_t *at = shadow_of(address);
    const uint32_t first = address % 8;
    if (first + bytes <= 8) {
        const uint32_t bits = ((1u << bytes) - 1) << first;
        return (*at & bits) == bits;
    }
    if (first > 0) {
        if (*at >> first != 0xff >> first) return false;
        at++;
        bytes -= 8 - first;
    }
    for (; bytes >= 64; bytes -= 64, at += 8) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        if (word != ~0ull) return false;
    }
    for (; bytes >= 8; bytes -= 8, at++) if (*at != 0xff) return false;
    return bytes == 0 || (~*at & ((1u << bytes) - 1)) == 0;
}

bool memory_defined(uint64_t address, size_t bytes)
{
    const struct allocation *a = live_at(address, bytes);
    return a != NULL && (bytes == 0 || defined_in(a, address, bytes));
}

uint64_t memory_undefined_lanes(const uint64_t *address, uint64_t mask, uint32_t bytes, uint64_t first, uint64_t end)
{
    const struct allocation *a = allocation_at(first);
    if (a == allocation_at(end - 1) && a != NULL) {
        if (end <= a->defined_to || (end - first <= 4096 && defined_in(a, first, end - first))) return 0;
    }
    uint64_t undefined = 0;
    for (uint64_t left = mask; left != 0; left &= left - 1) {
        const uint32_t lane = (uint32_t)__builtin_ctzll(left);
        if (!memory_defined(address[lane], bytes)) undefined |= 1ull << lane;
    }
    return undefined;
}

void memory_define_lanes(const uint64_t *address, uint64_t mask, uint32_t bytes, uint64_t first, uint64_t end)
{
    const struct allocation *a = allocation_at(first);
    if (a != NULL && end <= a->defined_to) return;
    if (end - first == (uint64_t)bytes * (uint32_t)__builtin_popcountll(mask)) {       /* perhaps the lanes are contiguous */
        uint64_t expect = first;
        bool row = true;
        for (uint64_t left = mask; left != 0 && row; left &= left - 1, expect += bytes) row = address[__builtin_ctzll(left)] == expect;
        if (row) {
            if (a != NULL && !a->host) set_shadow(first, end - first, true);
            return;
        }
    }
    for (uint64_t left = mask; left != 0; left &= left - 1) {
        const uint64_t at = address[__builtin_ctzll(left)];
        const struct allocation *here = allocation_at(at);
        if (here != NULL && at + bytes > here->defined_to) set_shadow(at, bytes, true);
    }
}
