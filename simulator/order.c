/* order.c -- which stores of another group of the same launch a group may see: happens-before in global memory, and the caches that are not
 * coherent.
 *
 * Each store instruction of a wave has a number, its place in vmcnt (CDNA3) or vscnt (RDNA).  It is complete when a wait has covered that
 * number; at a barrier each wave tells its group its progress ("published").  A store or an atomic is an event.  An event carries the
 * knowledge of its wave: the numbers that its own group had published, the wave's own, and what it had learned from other groups.  A wave
 * that loads the value at device scope, or changes it by an atomic, learns all of that; barriers spread it in the group.  So flags and
 * counters need not be distinguished from data: every access at device scope synchronises, and a plain load is in order if its wave has
 * learned of the event it sees.
 *
 * A store that was learned may still be missing in a cache (LLVM AMDGPUUsage, memory models GFX11 and GFX942; CDNA3 ISA 9.x, RDNA3 ISA
 * 4.1):
 *   a plain load must follow an invalidation by a wave of this group that knew the store (CDNA3: buffer_inv sc1; RDNA: buffer_gl0_inv
 *   and buffer_gl1_inv; either after the flag's load has returned); loads at device scope bypass the caches;
 *   on CDNA3 groups on other dies have another L2: the store must have been made with sc1, or have been written back by buffer_wbl2 sc1 of
 *   a wave of the same die that knew it, and that wave must have waited for the write-back before its flag.
 *
 * A plain load out of order is reported only when its value is used, because kernels load ahead and may discard the value.  Until then the
 * lanes count as undefined ("suspects"), and a report of a use of undefined lanes asks order_explain.
 *
 * With several chips: a value and its tag that one store writes to fine-grained memory (peers.c) are not a flag for other data, so their
 * wave need not have waited.
 *
 * Not checked: a store over data that another group still has to read; waves of one group on RDNA in WGP mode, which use two L0 caches.
 *
 * Events are counted by reference; one lock protects all of it.  Loads from pages without stores in this launch do not come here
 * (order_quiet). */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gfxsim.h"

enum { TEXT_BYTES = 512, MOST_SUSPECTS = 4, CHUNK_WAVES = 128, POOL_BITS = 12, MOST_QUIET_PAGES = 64, PAGE_BITS = 12,
       PAGE_BYTES = 1 << PAGE_BITS,
       DWORDS = 2, BYTES = 0 /* units of a page: log2 of their bytes */ };

/* Progress of a wave: its stores numbered up to `done` are complete, those up to `flushed` are in memory and not only in the L2 of its die.
 * issued: twice the number of the last store that was begun; odd if another instruction, not a store, followed. */
struct seen { uint32_t done, issued, flushed; };

/* Knowledge of some waves of the launch; shared by all that know the same, and copied before it changes. */
struct chunk { uint32_t refs; struct seen of[CHUNK_WAVES]; };
struct clock { uint32_t refs; struct chunk *chunk[]; /* [n_chunks], NULL: nothing */ };
/* The progress of its own waves that a group had published. */
struct own { uint32_t refs, first, n; struct seen of[]; };

struct event {
    uint32_t refs;                               /* units of memory whose last store it is; if free: next in the free list */
    uint32_t wave, interval;                     /* within the launch; barriers its group had passed */
    uint32_t number;
    struct seen seen;                            /* of its wave at that time */
    bool     through, atomic;                    /* through: not kept in the L2 of its die */
    uint64_t time;
    const struct inst *i;
    struct own   *own;
    struct clock *learned;
};

/* event[PAGE_BYTES >> unit], 0: none; room: log2 of the allocated entries. */
struct page { uint32_t launch; uint8_t unit, room; uint32_t *event; };

struct knower {                                  /* a wave */
    struct clock *learned;
    struct clock *before;                        /* knowledge before the last load that added to it ... */
    uint32_t      arrives;                       /* ... which has returned when count[WAIT_VM].done is this */
    struct clock *fresh[2];                      /* knowledge at its last invalidation of L0 and L1 (CDNA3: both the same) */
    uint64_t      scalar_time;                   /* of the last s_dcache_inv */
    uint64_t      taught;                        /* time of the last event it learned from */
    bool          writing_back;                  /* a buffer_wbl2 is in flight ... */
    uint32_t      written_back;                  /* ... complete when count[WAIT_VM].done is this */
    struct clock *back_learned;                  /* the stores that it covers */
    uint32_t     *back_done;                     /* [waves of the group] */
};
struct suspect { const struct inst *i; enum finding kind; uint32_t wave; int lane; char text[TEXT_BYTES]; };
struct group_order {
    uint32_t interval, n;
    struct seen   *published;                    /* [n] */
    struct own    *snapshot;                     /* of it; NULL: it has changed since */
    struct knower *wave;                         /* [n] */
    struct suspect suspect[MOST_SUSPECTS]; uint32_t n_suspects;       /* loads whose values must not be used */
};

/* State of a launch. */
struct launch_order {
    const struct launch *launch;
    uint32_t number, n_waves, n_chunks;          /* waves per group; chunks per clock */
    uint64_t time;
    uint64_t first, end;                         /* all stores of this launch lie in it */
    struct page *page;                           /* [MEMORY_RANGE >> PAGE_BITS] of its chip, which runs one launch at a time */
    struct event **pool; uint32_t n_pools, n_events, free_event;       /* pool[k][1 << POOL_BITS]; number 0 is unused */
};
static struct launch_order *all;                 /* of the launch whose groups run now: launches of several chips take turns */
static struct page *pages[MAX_CHIPS];
static pthread_mutex_t lock;

void order_lock(void)   { pthread_mutex_lock(&lock); }
void order_unlock(void) { pthread_mutex_unlock(&lock); }

static void *need(void *p)
{
    if (p == NULL) abort();
    return p;
}

/* ---- clocks ---- */

static void *hold(void *counted)                 /* a clock, a chunk, an own: refs is the first member */
{
    if (counted != NULL) ++*(uint32_t *)counted;
    return counted;
}

static void chunk_drop(struct chunk *c) { if (c != NULL && --c->refs == 0) free(c); }
static void own_drop(struct own *o)     { if (o != NULL && --o->refs == 0) free(o); }

static void clock_drop(struct clock *c)
{
    if (c == NULL || --c->refs > 0) return;
    for (uint32_t k = 0; k < all->n_chunks; k++) chunk_drop(c->chunk[k]);
    free(c);
}

static void clock_put(struct clock **at, struct clock *held)
{
    clock_drop(*at);
    *at = held;
}

static struct clock *clock_new(const struct clock *from)
{
    struct clock *c = need(malloc(sizeof *c + all->n_chunks * sizeof *c->chunk));
    c->refs = 1;
    for (uint32_t k = 0; k < all->n_chunks; k++) c->chunk[k] = from != NULL ? hold(from->chunk[k]) : NULL;
    return c;
}

static struct chunk *chunk_new(const struct chunk *from)
{
    struct chunk *c = need(malloc(sizeof *c));
    if (from != NULL) *c = *from;
    else memset(c, 0, sizeof *c);
    c->refs = 1;
    return c;
}

static struct seen clock_of(const struct clock *c, uint32_t wave)
{
    const struct chunk *part = c != NULL ? c->chunk[wave / CHUNK_WAVES] : NULL;
    return part != NULL ? part->of[wave % CHUNK_WAVES] : (struct seen){ 0, 0, 0 };
}

static uint32_t greater(uint32_t a, uint32_t b) { return a > b ? a : b; }

static struct seen seen_merge(struct seen a, struct seen b)
{
    return (struct seen){ greater(a.done, b.done), greater(a.issued, b.issued), greater(a.flushed, b.flushed) };
}

static bool seen_covers(struct seen a, struct seen b) { return a.done >= b.done && a.issued >= b.issued && a.flushed >= b.flushed; }

static void clock_set(struct clock **at, uint32_t wave, struct seen s)
{
    const struct seen was = clock_of(*at, wave);
    if (seen_covers(was, s)) return;
    if (*at == NULL || (*at)->refs > 1) clock_put(at, clock_new(*at));
    struct chunk **part = &(*at)->chunk[wave / CHUNK_WAVES];
    if (*part == NULL || (*part)->refs > 1) {
        struct chunk *copy = chunk_new(*part);
        chunk_drop(*part);
        *part = copy;
    }
    (*part)->of[wave % CHUNK_WAVES] = seen_merge(was, s);
}

/* Bit 0: a has knowledge that b does not have; bit 1: the other way round. */
static uint32_t chunk_compare(const struct chunk *a, const struct chunk *b)
{
    if (a == b) return 0;
    if (a == NULL || b == NULL) return a == NULL ? 2 : 1;
    const uint32_t *x = &a->of[0].done, *y = &b->of[0].done;
    uint32_t more = 0, less = 0;
    for (uint32_t k = 0; k < 3 * CHUNK_WAVES; k++) {
        more |= x[k] > y[k];
        less |= x[k] < y[k];
    }
    return more | less << 1;
}

static struct chunk *chunk_merge(struct chunk *a, struct chunk *b)
{
    const uint32_t how = chunk_compare(a, b);
    if (how < 2) return hold(a);
    if (how == 2) return hold(b);
    struct chunk *c = chunk_new(a);
    for (uint32_t k = 0; k < CHUNK_WAVES; k++) c->of[k] = seen_merge(a->of[k], b->of[k]);
    return c;
}

/* *at becomes the union of *at and b. */
static void clock_merge(struct clock **at, struct clock *b)
{
    struct clock *a = *at;
    if (a == b || b == NULL) return;
    uint32_t how = a == NULL ? 2 : 0;
    for (uint32_t k = 0; a != NULL && k < all->n_chunks && how != 3; k++) how |= chunk_compare(a->chunk[k], b->chunk[k]);
    if (how < 2) return;
    if (how == 2) {
        clock_put(at, hold(b));
        return;
    }
    struct clock *c = clock_new(NULL);
    for (uint32_t k = 0; k < all->n_chunks; k++) c->chunk[k] = chunk_merge(a->chunk[k], b->chunk[k]);
    clock_put(at, c);
}

/* ---- events ---- */

static struct event *event_at(uint32_t number) { return &all->pool[number >> POOL_BITS][number & ((1u << POOL_BITS) - 1)]; }

static uint32_t event_new(void)
{
    uint32_t number = all->free_event;
    if (number != 0) {
        all->free_event = event_at(number)->refs;
    } else {
        number = ++all->n_events;
        if (number >> POOL_BITS >= all->n_pools) {
            all->pool = need(realloc(all->pool, (all->n_pools + 1) * sizeof *all->pool));
            all->pool[all->n_pools++] = need(malloc(sizeof(struct event) << POOL_BITS));
        }
    }
    *event_at(number) = (struct event){ .refs = 1, .time = ++all->time };
    return number;
}

static void event_drop(uint32_t number)
{
    struct event *e = event_at(number);
    if (--e->refs > 0) return;
    own_drop(e->own);
    clock_drop(e->learned);
    e->own = NULL;
    e->learned = NULL;
    e->i = NULL;
    e->refs = all->free_event;
    all->free_event = number;
}

/* ---- pages ---- */

static struct page *page_at(uint64_t address) { return &all->page[(address - memory_base) >> PAGE_BITS]; }

static bool stored_to(uint64_t address) { return __atomic_load_n(&page_at(address)->launch, __ATOMIC_ACQUIRE) == all->number; }

bool order_quiet(uint64_t first, uint64_t end)
{
    if (end <= __atomic_load_n(&all->first, __ATOMIC_RELAXED) || first >= __atomic_load_n(&all->end, __ATOMIC_RELAXED)) return true;
    const uint64_t n = ((end - 1 - memory_base) >> PAGE_BITS) - ((first - memory_base) >> PAGE_BITS) + 1;
    if (n > MOST_QUIET_PAGES) return false;
    for (uint64_t k = 0; k < n; k++) if (stored_to(first + (k << PAGE_BITS))) return false;
    return true;
}

/* Divides the page into units of 1 << unit bytes, allocates their entries and keeps its events. */
static void page_refine(struct page *p, uint32_t unit)
{
    const uint32_t n = PAGE_BYTES >> unit, was = PAGE_BYTES >> p->unit, times = n / was;
    if (p->room < PAGE_BITS - unit) {
        p->event = need(realloc(p->event, n * sizeof *p->event));
        p->room = (uint8_t)(PAGE_BITS - unit);
    }
    for (uint32_t k = n; k-- > 0;) {
        p->event[k] = p->event[k / times];
        if (p->event[k] != 0 && k % times != 0) event_at(p->event[k])->refs++;
    }
    p->unit = (uint8_t)unit;
}

/* The page for a store of `bytes` there: in units of a dword, or of a byte once a store was smaller. */
static struct page *page_open(uint64_t address, uint32_t bytes)
{
    struct page *p = page_at(address);
    if (p->launch != all->number) {
        if (p->event == NULL) {
            p->room = PAGE_BITS - DWORDS;
            p->event = need(malloc((PAGE_BYTES >> DWORDS) * sizeof *p->event));
        }
        p->unit = DWORDS;
        memset(p->event, 0, (PAGE_BYTES >> DWORDS) * sizeof *p->event);
        const uint64_t begin = address & ~(uint64_t)(PAGE_BYTES - 1);
        if (begin < all->first) __atomic_store_n(&all->first, begin, __ATOMIC_RELAXED);
        if (begin + PAGE_BYTES > all->end) __atomic_store_n(&all->end, begin + PAGE_BYTES, __ATOMIC_RELAXED);
        __atomic_store_n(&p->launch, all->number, __ATOMIC_SEQ_CST);  /* before the value: order_quiet is called after the value was read */
    }
    if (p->unit == DWORDS && (address | bytes) % 4 != 0) page_refine(p, BYTES);
    return p;
}

/* ---- launches and groups ---- */

static void init(void)
{
    pthread_mutexattr_t nested;
    pthread_mutexattr_init(&nested);
    pthread_mutexattr_settype(&nested, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&lock, &nested);
    pthread_mutexattr_destroy(&nested);
    memory_init();
}

void order_launch_begin(struct launch *l)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init);
    const uint64_t threads = (uint64_t)l->threads[0] * l->threads[1] * l->threads[2],
        groups = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2];
    if (pages[l->device] == NULL) pages[l->device] = memory_side_table((MEMORY_RANGE >> PAGE_BITS) * sizeof **pages);
    l->order = all = need(calloc(1, sizeof *all));
    all->page = pages[l->device];
    all->launch = l;
    all->number = l->number;
    all->n_waves = (uint32_t)((threads + l->kernel->wave - 1) / l->kernel->wave);
    all->n_chunks = (uint32_t)((groups * all->n_waves + CHUNK_WAVES - 1) / CHUNK_WAVES);
    all->first = UINT64_MAX;
}

void order_launch_enter(const struct launch *l) { all = l->order; }

void order_launch_end(struct launch *l)
{
    all = l->order;
    for (uint32_t number = 1; number <= all->n_events; number++) {       /* events still in pages; these are not used again */
        struct event *e = event_at(number);
        own_drop(e->own);
        clock_drop(e->learned);
    }
    for (uint32_t k = 0; k < all->n_pools; k++) free(all->pool[k]);
    free(all->pool);
    free(all);
    l->order = all = NULL;
}

void order_group_begin(struct group *g)
{
    struct group_order *o = need(calloc(1, sizeof *o));
    o->n = g->n_waves;
    o->published = need(calloc(o->n, sizeof *o->published));
    o->wave = need(calloc(o->n, sizeof *o->wave));
    g->order = o;
}

void order_group_end(struct group *g)
{
    struct group_order *o = g->order;
    if (o == NULL) return;
    order_lock();
    own_drop(o->snapshot);
    for (uint32_t k = 0; k < o->n; k++) {
        struct knower *n = &o->wave[k];
        clock_drop(n->learned);
        clock_drop(n->before);
        clock_drop(n->fresh[0]);
        clock_drop(n->fresh[1]);
        clock_drop(n->back_learned);
        free(n->back_done);
    }
    order_unlock();
    free(o->published);
    free(o->wave);
    free(o);
    g->order = NULL;
}

static struct knower *knower(const struct wave *w) { return &((struct group_order *)w->group->order)->wave[w->index]; }
static uint32_t wave_number(const struct wave *w)  { return w->group->id * all->n_waves + w->index; }
static uint32_t die_of(uint32_t wave)              { return wave / all->n_waves % all->launch->chip->dies; }
static const struct isa *isa(void)                 { return all->launch->chip->isa; }
static bool     has_dies(void)                     { return all->launch->chip->dies > 1; }
static uint32_t stores_begun(const struct wave *w) { return w->count[isa()->stores].started; }
static uint32_t stores_done(const struct wave *w)  { return w->count[isa()->stores].done; }
/* Do atomics that return, which count as loads, have numbers among the stores? */
static bool     atomics_are_stores(void)           { return isa()->stores == WAIT_VM; }

/* ---- write-back ---- */

/* When the wave has waited for its buffer_wbl2: the stores that it covered are in memory, of its own group and of others on the same
 * die. */
static void finish_write_back(struct wave *w)
{
    struct group_order *o = w->group->order;
    struct knower *k = knower(w);
    if (!k->writing_back || (int32_t)(w->count[WAIT_VM].done - k->written_back) < 0) return;
    k->writing_back = false;
    for (uint32_t u = 0; u < o->n; u++) o->published[u].flushed = greater(o->published[u].flushed, k->back_done[u]);
    own_drop(o->snapshot);
    o->snapshot = NULL;
    for (uint32_t c = 0; k->back_learned != NULL && c < all->n_chunks; c++) {
        const struct chunk *part = k->back_learned->chunk[c];
        for (uint32_t u = 0; part != NULL && u < CHUNK_WAVES; u++)
            if (part->of[u].done > part->of[u].flushed && die_of(c * CHUNK_WAVES + u) == w->group->die)
                clock_set(&k->learned, c * CHUNK_WAVES + u, (struct seen){ .flushed = part->of[u].done });
    }
    clock_put(&k->back_learned, NULL);
}

/* buffer_wbl2, already counted in count[WAIT_VM]. */
void order_write_back(struct wave *w, enum scope scope)
{
    struct group_order *o = w->group->order;
    struct knower *k = knower(w);
    if (!has_dies() || scope < SCOPE_DEVICE) return;
    order_lock();
    finish_write_back(w);
    if (k->back_done == NULL) k->back_done = need(calloc(o->n, sizeof *k->back_done));
    for (uint32_t u = 0; u < o->n; u++) k->back_done[u] = o->published[u].done;
    k->back_done[w->index] = w->count[WAIT_VM].started - 1;  /* its own earlier stores */
    clock_put(&k->back_learned, hold(k->learned));
    k->writing_back = true;
    k->written_back = w->count[WAIT_VM].started;
    order_unlock();
}

/* ---- learning ---- */

static struct own *snapshot(const struct wave *w)
{
    struct group_order *o = w->group->order;
    if (o->snapshot == NULL) {
        o->snapshot = need(malloc(sizeof *o->snapshot + o->n * sizeof *o->snapshot->of));
        *o->snapshot = (struct own){ .refs = 1, .first = w->group->id * all->n_waves, .n = o->n };
        memcpy(o->snapshot->of, o->published, o->n * sizeof *o->published);
    }
    return o->snapshot;
}

/* *at becomes the union of *at and the event's knowledge. */
static void learn(struct clock **at, const struct event *e)
{
    clock_merge(at, e->learned);
    for (uint32_t u = 0; e->own != NULL && u < e->own->n; u++) clock_set(at, e->own->first + u, e->own->of[u]);
    clock_set(at, e->wave, e->seen);
}

/* The wave loads the event's value at device scope. */
static void acquire(struct wave *w, const struct event *e)
{
    struct knower *k = knower(w);
    if (k->taught == e->time) return;
    struct clock *was = hold(k->learned);
    learn(&k->learned, e);
    k->taught = e->time;
    if (k->learned == was) {
        clock_drop(was);
        return;
    }
    /* otherwise `before` is still the older knowledge */
    if ((int32_t)(w->count[WAIT_VM].done - k->arrives) >= 0) clock_put(&k->before, was);
    else clock_drop(was);
    k->arrives = w->count[WAIT_VM].started + 1;
}

void order_invalidate(struct wave *w, enum scope scope)
{
    struct knower *k = knower(w);
    const bool all_caches = isa()->one_invalidate;
    if (k->learned == NULL || (all_caches && scope < SCOPE_DEVICE)) return;
    order_lock();
    struct clock *now = (int32_t)(w->count[WAIT_VM].done - k->arrives) >= 0 ? k->learned : k->before;
    if (all_caches || scope == SCOPE_GROUP)  clock_put(&k->fresh[0], hold(now));
    if (all_caches || scope == SCOPE_DEVICE) clock_put(&k->fresh[1], hold(now));
    order_unlock();
}

void order_scalar_invalidate(struct wave *w)
{
    order_lock();
    knower(w)->scalar_time = all->time;
    order_unlock();
}

/* Makes one of a wave's clocks the same in all waves of the group. */
static void spread(struct group_order *o, size_t offset)
{
#define CLOCK_OF(u) (*(struct clock **)(void *)((uint8_t *)&o->wave[u] + offset))
    bool same = true;
    for (uint32_t u = 1; u < o->n; u++) same &= CLOCK_OF(u) == CLOCK_OF(0);
    if (same) return;
    order_lock();
    struct clock *together = NULL;
    for (uint32_t u = 0; u < o->n; u++) clock_merge(&together, CLOCK_OF(u));
    for (uint32_t u = 0; u < o->n; u++) clock_put(&CLOCK_OF(u), hold(together));
    clock_drop(together);
    order_unlock();
#undef CLOCK_OF
}

void order_barrier(struct group *g)
{
    struct group_order *o = g->order;
    bool news = false;
    for (uint32_t u = 0; u < o->n; u++) {
        struct wave *w = &g->waves[u];
        if (o->wave[u].writing_back) {
            order_lock();
            finish_write_back(w);
            order_unlock();
        }
        struct seen now = { .done = stores_done(w), .issued = 2 * stores_begun(w) + 1, .flushed = o->published[u].flushed };
        news |= now.done != o->published[u].done || now.issued != o->published[u].issued;
        o->published[u] = now;
    }
    if (news && o->snapshot != NULL) {
        order_lock();
        own_drop(o->snapshot);
        o->snapshot = NULL;
        order_unlock();
    }
    spread(o, offsetof(struct knower, learned));
    spread(o, offsetof(struct knower, before));
    spread(o, offsetof(struct knower, fresh[0]));
    spread(o, offsetof(struct knower, fresh[1]));
    o->interval++;
}

void order_published(const struct group *g, uint32_t wave, struct progress *p)
{
    const struct seen *s = &((const struct group_order *)g->order)->published[wave];
    *p = (struct progress){ s->done, s->issued };
}

void order_own(const struct wave *w, struct progress *p) { *p = (struct progress){ stores_done(w), 2 * stores_begun(w) }; }

/* ---- findings ---- */

/* "0x7f..., byte 16 of allocation 3 ..., was stored by group 4, wave 1 (0x1c0: global_store_dword ...) why" */
static void tell(char *out, size_t bytes, uint64_t address, const struct event *e, const char *why)
{
    char where[128];
    memory_describe(where, sizeof where, address);
    snprintf(out, bytes, "0x%llx, %s, was stored by group %u, wave %u (0x%x: %s) %s", (unsigned long long)address, where,
             e->wave / all->n_waves, e->wave % all->n_waves, e->i->pc, e->i->text, why);
}

static bool accuse(struct wave *w, const struct inst *i, enum finding kind, int lane, uint64_t address, const struct event *e,
                   const char *why)
{
    char text[TEXT_BYTES];
    tell(text, sizeof text, address, e, why);
    return report(w, i, kind, lane, "%s", text);
}

/* A plain load out of order.  Kernels may load ahead and discard the value, so the finding is delayed until the value is used.  Until then
 * it counts as undefined. */
static bool suspect(struct wave *w, const struct inst *i, enum finding kind, int lane, uint64_t address, const struct event *e,
                    const char *why)
{
    struct group_order *o = w->group->order;
    if (ignored(kind)) return false;
    for (uint32_t k = 0; k < o->n_suspects; k++) if (o->suspect[k].i == i && o->suspect[k].kind == kind) return true;
    struct suspect *s = &o->suspect[o->n_suspects < MOST_SUSPECTS ? o->n_suspects++ : MOST_SUSPECTS - 1];
    *s = (struct suspect){ .i = i, .kind = kind, .wave = w->index, .lane = lane };
    tell(s->text, sizeof s->text, address, e, why);
    return true;
}

/* It is not known which of a group's suspects caused a use of an undefined value: the last one is reported. */
bool order_explain(struct wave *w, const struct inst *use)
{
    const struct group_order *o = w->group->order;
    if (o == NULL || o->n_suspects == 0) return false;
    const struct suspect *s = &o->suspect[o->n_suspects - 1];
    return report(&w->group->waves[s->wave], s->i, s->kind, s->lane, "%s%s; used at 0x%x: %s", s->text,
                  o->n_suspects > 1 ? " (or another such load)" : "", use != NULL ? use->pc : 0, use != NULL ? use->text : "");
}

typedef bool finding_fn(struct wave *w, const struct inst *i, enum finding kind, int lane, uint64_t address, const struct event *e,
                        const char *why);
static const char not_written_back[] = "on another die and not written back: it needs sc1, or buffer_wbl2 sc1 and a wait before the flag",
                  not_fresh_other_die[] = "on another die; since the flag was read there was no buffer_inv sc1, and the load has no sc1",
                  not_fresh_one[] =
                  "and may be stale in the L1: since the flag was read there was no buffer_inv sc1, and the load has no sc1",
                  not_fresh_each[] =
                      "and may be stale in the L0 or L1: since the flag was read there was no buffer_gl0_inv with buffer_gl1_inv, and the "
                      "load has no glc";

/* A plain load sees an event of another wave.  Returns false if the loaded value must not be used; findings of scalar loads are reported at
 * once. */
static bool check_plain(struct wave *w, const struct inst *i, int lane, uint64_t address, const struct event *e, bool scalar)
{
    finding_fn *const found = scalar ? accuse : suspect;
    const struct knower *k = knower(w);
    const struct seen seen = clock_of(k->learned, e->wave);
    const uint32_t number = e->number;
    if (e->wave / all->n_waves == w->group->id) {
        if (e->interval != ((struct group_order *)w->group->order)->interval || seen.done >= number) return true;
        return !found(w, i, FINDING_RACE, lane, address, e, "of this group, with no barrier between");
    }
    const bool other_die = has_dies() && die_of(e->wave) != w->group->die;
    if (seen.done < number) {
        if (seen.issued > 2 * number) return !found(w, i, FINDING_FLAG, lane, address, e, "and its flag set without a wait between");
        return !found(w, i, FINDING_RACE, lane, address, e, "with nothing that orders it before this load");
    }
    if (other_die && !e->through && seen.flushed < number)
        return !found(w, i, FINDING_DIES, lane, address, e, not_written_back);
    if (scalar || (clock_of(k->fresh[0], e->wave).done >= number && clock_of(k->fresh[1], e->wave).done >= number)) return true;
    if (other_die) return !found(w, i, FINDING_DIES, lane, address, e, not_fresh_other_die);
    return !found(w, i, FINDING_RACE, lane, address, e, isa()->one_invalidate ? not_fresh_one : not_fresh_each);
}

/* A load at device scope, or an atomic, sees an event of another wave. */
static bool check_device(struct wave *w, const struct inst *i, int lane, uint64_t address, const struct event *e)
{
    if (e->wave / all->n_waves == w->group->id || e->atomic) return true;
    const struct seen seen = clock_of(knower(w)->learned, e->wave);
    const uint32_t number = e->number;
    if (seen.done < number && seen.issued > 2 * number)
        return !accuse(w, i, FINDING_FLAG, lane, address, e, "and its flag set without a wait between");
    if (has_dies() && die_of(e->wave) != w->group->die && !e->through && seen.flushed < number)
        return !accuse(w, i, FINDING_DIES, lane, address, e, not_written_back);
    return true;
}

/* A store over an event of another wave, with a different value. */
static bool check_overwrite(struct wave *w, const struct inst *i, int lane, uint64_t address, const struct event *e)
{
    const struct seen seen = clock_of(knower(w)->learned, e->wave);
    if (e->atomic ? seen.issued >= e->seen.issued : seen.done >= e->number) return true;
    if (e->wave / all->n_waves == w->group->id) {
        if (e->interval != ((struct group_order *)w->group->order)->interval) return true;
        return !accuse(w, i, FINDING_RACE, lane, address, e, "of this group with another value, and no barrier between");
    }
    return !accuse(w, i, FINDING_RACE, lane, address, e, "with another value, and nothing that orders the two stores");
}

/* ---- accesses ---- */

/* Whether this is two dwords, stored by one instruction, of memory that chips share. */
static bool is_pair(uint64_t address)
{
    const struct page *p = page_at(address);
    if (address % 8 != 0 || p->launch != all->number || p->unit != DWORDS || !memory_is_fine(address)) return false;
    const uint32_t *event = &p->event[(address & (PAGE_BYTES - 1)) >> DWORDS];
    return event[0] == event[1];
}

uint64_t order_load(struct wave *w, const struct inst *i, const uint64_t *address, uint64_t mask, uint32_t bytes, enum scope scope)
{
    const uint32_t me = wave_number(w);
    const bool pairs = bytes == 8 && scope >= SCOPE_DEVICE && w->group->launch->several;
    uint64_t suspects = 0;
    bool locked = false;
    for (uint64_t left = mask; left != 0; left &= left - 1) {
        const int lane = __builtin_ctzll(left);
        uint64_t at = address[lane];
        const uint64_t end = at + bytes;
        if (!stored_to(at) && !stored_to(end - 1)) continue;
        if (!locked) order_lock();
        locked = true;
        const bool pair = pairs && is_pair(at);
        uint32_t last = 0;
        for (uint64_t step; at < end; at += step) {
            const struct page *p = page_at(at);
            step = p->launch == all->number && p->unit == BYTES ? 1 : 4;
            const uint32_t number = p->launch == all->number ? p->event[(at & (PAGE_BYTES - 1)) >> p->unit] : 0;
            if (number == 0 || number == last) continue;
            const struct event *e = event_at(last = number);
            if (e->wave == me) continue;
            if (scope >= SCOPE_DEVICE) {
                if (!pair) check_device(w, i, lane, at, e);
                acquire(w, e);
            } else if (!check_plain(w, i, lane, at, e, false)) {
                suspects |= 1ull << lane;
                break;
            }
        }
    }
    if (locked) order_unlock();
    return suspects;
}

void order_scalar_load(struct wave *w, const struct inst *i, uint64_t address, uint32_t bytes)
{
    if (order_quiet(address, address + bytes)) return;
    order_lock();
    for (uint64_t at = address, step; at < address + bytes; at += step) {
        const struct page *p = page_at(at);
        step = p->launch == all->number && p->unit == BYTES ? 1 : 4;
        const uint32_t number = p->launch == all->number ? p->event[(at & (PAGE_BYTES - 1)) >> p->unit] : 0;
        if (number == 0) continue;
        const struct event *e = event_at(number);
        if (e->time > knower(w)->scalar_time) {
            accuse(w, i, FINDING_SCALAR_CACHE, -1, at, e, "in this launch: the scalar cache does not see it without an s_dcache_inv");
            break;
        }
        if (e->wave != wave_number(w) && !check_plain(w, i, -1, at, e, true)) break;
    }
    order_unlock();
}

/* Makes a new event of the wave and fills in its knowledge except `learned`. */
static uint32_t event_of(struct wave *w, const struct inst *i, uint32_t number, enum scope scope, bool atomic)
{
    const struct group_order *o = w->group->order;
    finish_write_back(w);
    const uint32_t id = event_new();
    struct event *e = event_at(id);
    e->wave = wave_number(w);
    e->interval = o->interval;
    e->number = number;
    /* an atomic that returns may have the last store's number */
    const bool after = atomic && !atomics_are_stores() && number == stores_begun(w);
    e->seen = (struct seen){ .done = stores_done(w), .issued = 2 * number + after, .flushed = o->published[w->index].flushed };
    e->through = atomic || scope >= SCOPE_DEVICE;
    e->atomic = atomic;
    e->i = i;
    e->own = o->interval > 0 ? hold(snapshot(w)) : NULL;
    return id;
}

static bool same_bytes(const uint32_t *rows, uint32_t lanes, int lane, uint32_t from, uint64_t at, uint32_t bytes)
{
    for (uint32_t b = 0; b < bytes; b++) {
        const uint32_t word = rows[(from + b) / 4 * lanes + (uint32_t)lane];
        if ((uint8_t)(word >> 8 * ((from + b) % 4)) != ((const uint8_t *)(uintptr_t)at)[b]) return false;
    }
    return true;
}

/* Makes the event the last one of a lane's bytes. */
static bool place(struct wave *w, const struct inst *i, uint32_t id, int lane, uint64_t address, uint32_t bytes, const uint32_t *rows,
                  bool check)
{
    struct event *mine = event_at(id);
    const struct page *p = page_open(address, bytes);
    bool good = true;
    for (uint32_t from = 0, step; from < bytes; from += step) {
        const uint64_t at = address + from;
        if (at % PAGE_BYTES == 0) p = page_open(at, bytes);
        uint32_t *slot = &p->event[(at & (PAGE_BYTES - 1)) >> p->unit];
        const uint32_t was = *slot;
        step = 1u << p->unit;
        if (was == id) continue;
        *slot = id;
        mine->refs++;
        if (was == 0) continue;
        struct event *e = event_at(was);
        if (check && good && e->wave != mine->wave && (rows == NULL || !same_bytes(rows, w->lanes, lane, from, at, step)))
            good = check_overwrite(w, i, lane, at, e);
        if (e->refs > 1) e->refs--;
        else event_drop(was);
    }
    return good;
}

void order_store_rows(struct wave *w, const struct inst *i, const uint64_t *address, uint64_t mask, uint32_t bytes, enum scope scope,
                      const uint32_t *rows)
{
    bool check = true;
    if (mask == 0) return;
    order_lock();
    const uint32_t id = event_of(w, i, stores_begun(w), scope, false);
    event_at(id)->learned = hold(knower(w)->learned);
    for (uint64_t left = mask; left != 0; left &= left - 1) {
        const int lane = __builtin_ctzll(left);
        check &= place(w, i, id, lane, address[lane], bytes, rows, check);
    }
    event_drop(id);
    order_unlock();
}

void order_store(struct wave *w, const struct inst *i, const uint64_t *address, uint64_t mask, uint32_t bytes, enum scope scope)
{
    order_store_rows(w, i, address, mask, bytes, scope, NULL);
}

/* The number of an atomic.  RDNA counts atomics that return in vmcnt, which says nothing about stores: they get the last store's number. */
static uint32_t atomic_number(const struct wave *w, bool returns)
{
    if (!returns) return stores_begun(w);
    return atomics_are_stores() ? stores_begun(w) + 1 : greater(stores_begun(w), 1);
}

/* An atomic passes on the knowledge of the previous event, and adds its own wave's. */
void order_atomic(struct wave *w, const struct inst *i, const uint64_t *address, uint64_t mask, uint32_t bytes, enum scope scope,
                  bool returns)
{
    uint32_t id = 0;
    uint64_t of = 0;                             /* the time of the event that id follows, + 1; 1 if no event precedes */
    order_lock();
    for (uint64_t left = mask; left != 0; left &= left - 1) {
        const int lane = __builtin_ctzll(left);
        const struct page *p = page_open(address[lane], bytes);
        const uint32_t was = p->event[(address[lane] & (PAGE_BYTES - 1)) >> p->unit];
        if (was != 0 && was == id) continue;     /* two lanes, one address */
        const struct event *e = was != 0 ? event_at(was) : NULL;
        if (id == 0 || of != (e != NULL ? e->time : 0) + 1) {
            if (id != 0) event_drop(id);
            of = (e != NULL ? e->time : 0) + 1;
            id = event_of(w, i, atomic_number(w, returns), scope, true);
            if (e != NULL && e->wave != wave_number(w)) check_device(w, i, lane, address[lane], e);
            if (e != NULL && returns) acquire(w, e);
            event_at(id)->learned = hold(knower(w)->learned);
            if (e != NULL && !returns) learn(&event_at(id)->learned, e);
        }
        place(w, i, id, lane, address[lane], bytes, NULL, false);
    }
    if (id != 0) event_drop(id);
    order_unlock();
}
