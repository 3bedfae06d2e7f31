/* peers.c -- which accesses one chip may make to memory that another uses, with several chips in one machine.
 *
 * Launches of two chips are ordered if the host saw one done before it put the other on a stream; work of one device is in order.
 * Everything else runs concurrently, and then (LLVM AMDGPUUsage, memory models GFX942 and GFX11; HIP, "Coherence control"):
 *   a value passes from chip to chip only if it is stored and loaded at system scope.  CDNA3: sc0 sc1, atomics sc1, because other stores
 *   stay in the L2 of their chip, and other loads are served by it.  RDNA: loads with glc; clang emits the same instructions for device and
 *   system scope, and plain stores look the same, so only loads can be distinguished;
 *   the memory must be fine-grained or uncached (hipExtMallocWithFlags): coarse-grained data may stay in the caches of any chip that has
 *   accessed it until a launch begins or ends.
 * So two accesses by unordered launches of two chips, one of them a store, are a finding unless both are at system scope.  In fine-grained
 * memory this is checked for each dword, with the last accesses by each chip.  For coarse-grained memory only the last launches that loaded
 * from an allocation and stored to it are known; any two such accesses are a finding.  Copies and fills by a device count as accesses to
 * the whole allocation.
 *
 * A value and its tag that are stored and loaded by one access of 8 bytes need nothing else.  If they are stored one after the other, there
 * must be a wait in between.
 *
 * Other data need a flag: 4 bytes or less, stored when the stores of the data are complete.  As in order.c a store carries the progress of
 * the waves of its group, as published at their last barrier.  A wave that loads less than 8 bytes of it at system scope learns this
 * progress; barriers spread it in its group.  If a wave loads a value and has learned that something was stored after it, but not that it
 * is complete, its flag was set without a wait.  A store of 8 bytes or more is not a flag: a wave that loads less than 8 bytes of it
 * without having learned that it is complete has not waited for its flag.
 *
 * Not checked: knowledge of others that a group gets through a group of its own chip; flags between launches, which are right by the order
 * of each chip's launches; stores over data that another chip still has to read.  A plain access that chips have ordered by flags is a
 * finding here, too. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gfxsim.h"

enum { PLAIN_LOAD, SYSTEM_LOAD, PLAIN_STORE, SYSTEM_STORE, N_WAYS };
enum { MOST_SHARED = 1 << 22 /* as many as allocations */, TEXT_BYTES = 512 };

/* The knowledge that a group's store carries, shared by the dwords that it stored: launch and group numbers, and each wave's progress. */
struct told { uint32_t refs, chip, seq, group, n; struct progress of[]; };
/* The knowledge of a wave, with its own entries.  A group has [n_waves], NULL: nothing. */
struct learned { struct told **told; uint32_t n; };

/* The last accesses to a dword by a chip: number of the launch on its device, 0: none; and the place in the code. */
struct touch {
    uint32_t seq[N_WAYS], pc[N_WAYS];
    uint32_t wave, number, done;                 /* of SYSTEM_STORE: number of the wave's store; stores up to `done` were complete */
    uint32_t index;                              /* of the wave in its group */
    bool     wide;                               /* by 8 bytes or more per lane */
    struct told *told;
};
/* State of an allocation. */
struct shared {
    uint32_t chip, n_chips;                      /* the owner; entries per dword */
    bool     foreign;                            /* another chip has accessed it */
    uint32_t loaded[MAX_CHIPS], stored[MAX_CHIPS];         /* by the last launch or copy of each */
    struct { uint32_t seq; uint64_t begin, end; } copied[MAX_CHIPS];       /* the last copy of each that stored to it */
    struct touch *touch;                         /* [dwords][n_chips]; coarse-grained: NULL */
    size_t   touch_bytes;
    bool     told;                               /* some of them carry knowledge */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct shared **table;                    /* [MOST_SHARED] by number of the allocation */
static struct { const char **kernel; uint32_t n; } names[MAX_CHIPS];      /* [n] by number of the launch on its device; NULL: a copy */

static void *need(void *p)
{
    if (p == NULL) abort();
    return p;
}

/* ---- names: kept because a module may be unloaded before its launch is reported ---- */

static const char *intern(const char *name)
{
    static char **known;
    static uint32_t n;
    for (uint32_t k = 0; k < n; k++) if (strcmp(known[k], name) == 0) return known[k];
    known = need(realloc(known, (n + 1) * sizeof *known));
    return known[n++] = need(strdup(name));
}

void peers_launch_begin(const struct launch *l)
{
    pthread_mutex_lock(&lock);
    if (l->seq >= names[l->device].n) {
        const uint32_t was = names[l->device].n, n = 2 * l->seq + 64;
        names[l->device].kernel = need(realloc(names[l->device].kernel, n * sizeof *names->kernel));
        memset(names[l->device].kernel + was, 0, (n - was) * sizeof *names->kernel);
        names[l->device].n = n;
    }
    names[l->device].kernel[l->seq] = intern(l->kernel->name);
    pthread_mutex_unlock(&lock);
}

static const char *name_of(uint32_t chip, uint32_t seq)
{
    const char *name = seq < names[chip].n ? names[chip].kernel[seq] : NULL;
    return name != NULL ? name : "a copy";
}

/* ---- knowledge that waves pass on ---- */

static void told_drop(struct told *t) { if (t != NULL && --t->refs == 0) free(t); }

/* The knowledge that the current store carries. */
static struct told *told_new(const struct wave *w)
{
    const struct group *g = w->group;
    struct told *t = need(malloc(sizeof *t + g->n_waves * sizeof *t->of));
    *t = (struct told){ .refs = 1, .chip = g->launch->device, .seq = g->launch->seq, .group = g->id, .n = g->n_waves };
    for (uint32_t k = 0; k < t->n; k++) order_published(g, k, &t->of[k]);
    order_own(w, &t->of[w->index]);
    return t;
}

static struct told *known_of(const struct wave *w, const struct told *from)
{
    const struct learned *l = w->group->peers;
    for (uint32_t k = 0; l != NULL && k < l[w->index].n; k++) {
        struct told *t = l[w->index].told[k];
        if (t->chip == from->chip && t->seq == from->seq && t->group == from->group) return t;
    }
    return NULL;
}

static struct told *known_add(struct learned *l, const struct told *from)
{
    const size_t bytes = sizeof *from + from->n * sizeof *from->of;
    if ((l->n & (l->n - 1)) == 0) l->told = need(realloc(l->told, (l->n == 0 ? 1 : 2 * l->n) * sizeof *l->told));
    return l->told[l->n++] = memcpy(need(malloc(bytes)), from, bytes);
}

static void learn(const struct wave *w, const struct told *from)
{
    struct group *g = w->group;
    struct told *t = known_of(w, from);
    if (g->peers == NULL) g->peers = need(calloc(g->n_waves, sizeof(struct learned)));
    if (t == NULL) t = known_add((struct learned *)g->peers + w->index, from);
    for (uint32_t k = 0; k < t->n; k++) {
        if (from->of[k].done > t->of[k].done) t->of[k].done = from->of[k].done;
        if (from->of[k].issued > t->of[k].issued) t->of[k].issued = from->of[k].issued;
    }
}

void peers_barrier(struct group *g)
{
    const struct learned *l = g->peers;
    for (uint32_t from = 0; l != NULL && from < g->n_waves; from++)
        for (uint32_t k = 0; k < l[from].n; k++)
            for (uint32_t to = 0; to < g->n_waves; to++) if (to != from) learn(&g->waves[to], l[from].told[k]);
}

void peers_group_end(struct group *g)
{
    struct learned *l = g->peers;
    for (uint32_t u = 0; l != NULL && u < g->n_waves; u++) {
        for (uint32_t k = 0; k < l[u].n; k++) free(l[u].told[k]);
        free(l[u].told);
    }
    free(l);
    g->peers = NULL;
}

/* ---- allocations ---- */

static struct shared *shared_of(const struct memory_place *p)
{
    if (__atomic_load_n(&table, __ATOMIC_ACQUIRE) != NULL) {
        struct shared *s = __atomic_load_n(&table[p->number], __ATOMIC_ACQUIRE);
        if (s != NULL) return s;
    }
    pthread_mutex_lock(&lock);
    if (table == NULL) __atomic_store_n(&table, memory_side_table(MOST_SHARED * sizeof *table), __ATOMIC_RELEASE);
    struct shared *s = table[p->number];
    if (s == NULL) {
        s = need(calloc(1, sizeof *s));
        s->chip = p->chip;
        s->n_chips = chips_count();
        if (p->kind != MEMORY_COARSE) {
            s->touch_bytes = (p->bytes + 3) / 4 * s->n_chips * sizeof *s->touch;
            s->touch = memory_side_table(s->touch_bytes);
        }
        __atomic_store_n(&table[p->number], s, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
    return s;
}

void peers_forget(uint32_t number)
{
    pthread_mutex_lock(&lock);
    struct shared *s = table != NULL ? table[number] : NULL;
    if (s != NULL) {
        for (size_t k = 0; s->told && k < s->touch_bytes / sizeof *s->touch; k++) told_drop(s->touch[k].told);
        if (s->touch != NULL) memory_side_table_free(s->touch, s->touch_bytes);
        free(s);
        table[number] = NULL;
    }
    pthread_mutex_unlock(&lock);
}

/* Numbers of one device come in order. */
static void reach(uint32_t *at, uint32_t seq) { __atomic_store_n(at, seq, __ATOMIC_RELAXED); }

/* The last launch or copy of another chip that this access conflicts with; *chip: its chip.  0: none. */
static uint32_t other_of(const struct shared *s, uint32_t device, const uint32_t *known, bool store, uint32_t *chip)
{
    for (uint32_t e = 0; e < MAX_CHIPS; e++) {
        const uint32_t stored = s->stored[e], loaded = store ? s->loaded[e] : 0, last = stored > loaded ? stored : loaded;
        if (e == device || last <= known[e]) continue;
        *chip = e;
        return last;
    }
    return 0;
}

/* ---- coarse-grained memory ---- */

static void touch_coarse(struct wave *w, const struct inst *i, int lane, uint64_t address, struct shared *s, uint32_t access)
{
    const struct launch *l = w->group->launch;
    char where[128];
    uint32_t chip = 0;
    if (access & PEER_LOAD)  reach(&s->loaded[l->device], l->seq);
    if (access & PEER_STORE) reach(&s->stored[l->device], l->seq);
    if (l->device != s->chip) __atomic_store_n(&s->foreign, true, __ATOMIC_RELAXED);
    else if (!__atomic_load_n(&s->foreign, __ATOMIC_RELAXED)) return;
    const uint32_t last = other_of(s, l->device, l->known, (access & PEER_STORE) != 0, &chip);
    if (last == 0) return;
    memory_describe(where, sizeof where, address);
    pthread_mutex_lock(&lock);
    const char *name = name_of(chip, last);
    pthread_mutex_unlock(&lock);
    report(w, i, FINDING_PEERS, lane, "0x%llx, %s, is coarse-grained memory that chip %u also uses (%s): only launches that the host has "
           "ordered can share it; others need hipExtMallocWithFlags", (unsigned long long)address, where, chip, name);
}

/* ---- fine-grained memory: dword by dword ---- */

static const char *const way_text[N_WAYS] = { "loaded without system scope", "loaded", "stored to without system scope", "stored to" };

/* Under the lock.  The kind of chip e's last access to the dword that this access conflicts with; N_WAYS: none. */
static uint32_t way_met(const struct touch *t, uint32_t known, uint32_t access, bool system)
{
    const bool store = (access & PEER_STORE) != 0;
    if (t->seq[PLAIN_STORE] > known) return PLAIN_STORE;
    if (store && t->seq[PLAIN_LOAD] > known) return PLAIN_LOAD;
    if (!system && t->seq[SYSTEM_STORE] > known) return SYSTEM_STORE;
    if (!system && store && t->seq[SYSTEM_LOAD] > known) return SYSTEM_LOAD;
    return N_WAYS;
}

static void note(struct touch *t, uint32_t way, uint32_t seq, uint32_t pc)
{
    t->seq[way] = seq;
    t->pc[way] = pc;
}

/* Under the lock.  Returns false, with the reason in text, if chip e accesses the dword in a way that this access conflicts with. */
static bool check_dword(char *text, const struct launch *l, const struct shared *s, uint64_t offset, uint64_t address, uint32_t access,
                        bool system)
{
    const struct touch *t = &s->touch[offset / 4 * s->n_chips];
    char where[128];
    for (uint32_t e = 0; e < s->n_chips; e++) {
        if (e == l->device) continue;
        const bool copied = s->copied[e].seq > l->known[e] && address < s->copied[e].end && address + 4 > s->copied[e].begin;
        const uint32_t way = copied ? N_WAYS : way_met(&t[e], l->known[e], access, system);
        if (!copied && way == N_WAYS) continue;
        memory_describe(where, sizeof where, address);
        if (copied)
            snprintf(text, TEXT_BYTES, "0x%llx, %s, may still be copied to by chip %u: the host has not seen that done before this launch",
                     (unsigned long long)address, where, e);
        else
            snprintf(text, TEXT_BYTES,
                     "0x%llx, %s, is %s%s here and was %s by chip %u (%s, 0x%x), in launches that nothing of the host orders",
                     (unsigned long long)address, where, access == PEER_LOAD ? "loaded" : "stored to",
                     system ? "" : " without system scope", way_text[way], e, name_of(e, t[e].seq[way]), t[e].pc[way]);
        return false;
    }
    return true;
}

/* Under the lock.  Returns false, with the reason in text, if a value and its tag are loaded as one, but were stored one after the other
 * without a wait in between, so that the tag may have come first. */
static bool check_pair(char *text, const struct launch *l, const struct shared *s, uint64_t offset, uint64_t address)
{
    char where[128];
    for (uint32_t e = 0; e < s->n_chips; e++) {
        const struct touch *a = &s->touch[offset / 4 * s->n_chips + e], *b = a + s->n_chips;
        const uint32_t seq = a->seq[SYSTEM_STORE];
        if (e == l->device || seq <= l->known[e] || seq != b->seq[SYSTEM_STORE] || a->wave != b->wave || a->number == b->number) continue;
        const struct touch *first = a->number < b->number ? a : b, *then = first == a ? b : a;
        if (then->done >= first->number) continue;
        memory_describe(where, sizeof where, address);
        snprintf(text, TEXT_BYTES, "0x%llx, %s, was stored by chip %u in two parts (%s, 0x%x and 0x%x) with no wait between",
                 (unsigned long long)address, where, e, name_of(e, seq), first->pc[SYSTEM_STORE], then->pc[SYSTEM_STORE]);
        return false;
    }
    return true;
}

/* told: the knowledge that the wave's store carries, made for its first dword. */
static void note_store(struct shared *s, struct touch *t, const struct wave *w, uint32_t bytes, struct told **told)
{
    const enum wait_counter stores = w->group->launch->chip->isa->stores;
    if (*told == NULL) *told = told_new(w);
    (*told)->refs++;
    told_drop(t->told);
    t->wave = w->id;
    t->index = w->index;
    t->number = w->count[stores].started;
    t->done = w->count[stores].done;
    t->wide = bytes >= 8;
    t->told = *told;
    s->told = true;
}

/* Under the lock.  A dword is loaded at system scope by an access of `bytes` after another chip stored it at system scope.  Returns the
 * kind of finding, with the reason in text; N_FINDINGS: none. */
static enum finding check_flag(char *text, const struct wave *w, const struct shared *s, uint64_t offset, uint64_t address, uint32_t bytes)
{
    const struct launch *l = w->group->launch;
    char where[128];
    for (uint32_t e = 0; e < s->n_chips; e++) {
        const struct touch *t = &s->touch[offset / 4 * s->n_chips + e];
        const uint32_t seq = t->seq[SYSTEM_STORE];
        if (e == l->device || t->told == NULL || seq <= l->known[e]) continue;
        const struct told *known = known_of(w, t->told);
        const bool done = known != NULL && known->of[t->index].done >= t->number;
        const bool early = !done && known != NULL && known->of[t->index].issued > 2 * t->number, unasked = !done && t->wide && bytes < 8;
        if (early || unasked) {
            memory_describe(where, sizeof where, address);
            snprintf(text, TEXT_BYTES, "0x%llx, %s, was stored by chip %u (%s, 0x%x) %s", (unsigned long long)address, where, e,
                     name_of(e, seq), t->pc[SYSTEM_STORE], early ? "and its flag set without a wait between"
                     : "as a part of 8 bytes or more, so it is no flag, and this wave has seen none that says that it is there");
            return early ? FINDING_FLAG : FINDING_PEERS;
        }
        if (!t->wide && bytes < 8) learn(w, t->told);
    }
    return N_FINDINGS;
}

static void touch_fine(struct wave *w, const struct inst *i, int lane, const struct memory_place *p, struct shared *s, uint64_t address,
                       uint32_t bytes, uint32_t access, bool system, struct told **told)
{
    struct launch *l = w->group->launch;
    const bool pair = access == PEER_LOAD && system && bytes == 8 && address % 8 == 0, alone = access == PEER_LOAD && system && !pair;
    char text[TEXT_BYTES];
    enum finding found = N_FINDINGS;
    pthread_mutex_lock(&lock);
    if (access & PEER_LOAD)  reach(&s->loaded[l->device], l->seq);
    if (access & PEER_STORE) reach(&s->stored[l->device], l->seq);
    for (uint64_t at = address & ~(uint64_t)3; at < address + bytes; at += 4) {
        struct touch *t = &s->touch[(at - p->begin) / 4 * s->n_chips + l->device];
        if (found == N_FINDINGS && !check_dword(text, l, s, at - p->begin, at, access, system)) found = FINDING_PEERS;
        if (found == N_FINDINGS && alone) found = check_flag(text, w, s, at - p->begin, at, bytes);
        if (access & PEER_LOAD)  note(t, system ? SYSTEM_LOAD : PLAIN_LOAD, l->seq, i->pc);
        if (access & PEER_STORE) note(t, system ? SYSTEM_STORE : PLAIN_STORE, l->seq, i->pc);
        if ((access & PEER_STORE) && system) note_store(s, t, w, bytes, told);
    }
    if (found == N_FINDINGS && pair && !check_pair(text, l, s, address - p->begin, address)) found = FINDING_FLAG;
    pthread_mutex_unlock(&lock);
    if (found != N_FINDINGS) report(w, i, found, lane, "%s", text);
}

/* ---- entry points ---- */

void peers_access(struct wave *w, const struct inst *i, const uint64_t *address, uint64_t mask, uint32_t bytes, uint64_t first,
                  uint64_t end, uint32_t access, bool system)
{
    struct memory_place p;
    const bool one = memory_find(first, &p) && end <= p.begin + p.bytes;
    struct told *told = NULL;
    struct shared *s = one ? shared_of(&p) : NULL;
    if (one && p.kind == MEMORY_COARSE) {
        touch_coarse(w, i, __builtin_ctzll(mask), address[__builtin_ctzll(mask)], s, access);
        return;
    }
    for (uint64_t left = mask; left != 0; left &= left - 1) {
        const int lane = __builtin_ctzll(left);
        if (!one && !memory_find(address[lane], &p)) continue;
        if (!one) s = shared_of(&p);
        if (p.kind == MEMORY_COARSE) touch_coarse(w, i, lane, address[lane], s, access);
        else touch_fine(w, i, lane, &p, s, address[lane], bytes, access, system, &told);
    }
    if (told == NULL) return;
    pthread_mutex_lock(&lock);
    told_drop(told);
    pthread_mutex_unlock(&lock);
}

bool peers_copy(uint32_t device, uint32_t seq, const uint32_t *known, uint64_t address, size_t bytes, enum peer_access access)
{
    struct memory_place p;
    char where[128];
    uint32_t chip = 0;
    if (bytes == 0 || !memory_find(address, &p)) return true;   /* the host's */
    struct shared *s = shared_of(&p);
    pthread_mutex_lock(&lock);
    const uint32_t last = ignored(FINDING_PEERS) ? 0 : other_of(s, device, known, access == PEER_STORE, &chip);
    reach(access == PEER_STORE ? &s->stored[device] : &s->loaded[device], seq);
    if (access == PEER_STORE) {
        s->copied[device].seq = seq;
        s->copied[device].begin = address;
        s->copied[device].end = address + bytes;
    }
    if (device != s->chip) __atomic_store_n(&s->foreign, true, __ATOMIC_RELAXED);
    if (last != 0) {
        memory_describe(where, sizeof where, address);
        fprintf(stderr, "gfxsim: peers: chip %u copies %s %zu bytes, %s, which chip %u may use at the same time (%s): the host does not "
                "order the two\n", device, access == PEER_STORE ? "to" : "from", bytes, where, chip, name_of(chip, last));
    }
    pthread_mutex_unlock(&lock);
    return last == 0;
}
