/* lds_shadow.c -- the state of each byte of a group's LDS: whether it is defined, who wrote it since the last barrier, who read it.
 *
 * A race is a store that is not atomic and another wave's access to the same byte without a barrier in between; or a store before the
 * barrier that its wave had not waited for (lgkmcnt) when it arrived there; or two lanes of one store with different values for one byte.
 * Atomics with other atomics, or with loads, are not a race: an atomic load is printed as a plain one.  A load before the barrier that was
 * not waited for may precede another wave's store after it: loads take their data in the order in which the waves issued them.
 *
 * lds.c handles the common case itself, word by word, and calls this file for the rest. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lds_shadow.h"

#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* ---- the state of a group ---- */

static pthread_mutex_t free_lock = PTHREAD_MUTEX_INITIALIZER;
static struct shadow *free_shadows;

static void *zeros(size_t n)
{
    void *p = calloc(n > 0 ? n : 1, 1);
    if (p == NULL) abort();
    return p;
}

static struct shadow *shadow_take(uint32_t dwords)
{
    pthread_mutex_lock(&free_lock);
    struct shadow **at = &free_shadows;
    while (*at != NULL && (*at)->capacity < dwords) at = &(*at)->next_free;
    struct shadow *s = *at;
    if (s != NULL) *at = s->next_free;
    pthread_mutex_unlock(&free_lock);
    if (s != NULL) return s;
    s = zeros(sizeof *s);
    s->capacity = dwords;
    s->writer = zeros((size_t)dwords * 4), s->readers = zeros((size_t)dwords * 4), s->defined = zeros(dwords);
    s->room = 256;
    s->log = zeros(s->room * sizeof *s->log);
    return s;
}

void lds_group_begin(struct group *g)
{
    const uint32_t dwords = (g->lds_bytes + 3) / 4;
    struct shadow *s = shadow_take(dwords);
    s->dwords = dwords;
    s->lds = g->lds;
    memset(s->writer, 0, (size_t)dwords * 4);
    memset(s->readers, 0, (size_t)dwords * 4);
    memset(s->defined, 0, dwords);
    if (s->byte_readers != NULL) memset(s->byte_readers, 0, (size_t)dwords * 16);
    if (s->atomic != NULL) memset(s->atomic, 0, (size_t)dwords * 4);
    s->byte_reads = s->kept = s->direct = false;
    memset(s->direct_seq, 0, sizeof s->direct_seq);
    s->read_end = s->interval = 0;
    s->first = s->next = 1;
    if (g->lds_bytes > 0) memset(g->lds, 0xff, g->lds_bytes);
    g->lds_shadow = s;
}

void lds_group_end(struct group *g)
{
    struct shadow *s = g->lds_shadow;
    if (s == NULL) return;
    g->lds_shadow = NULL;
    pthread_mutex_lock(&free_lock);
    s->next_free = free_shadows;
    free_shadows = s;
    pthread_mutex_unlock(&free_lock);
}

/* ---- stores ---- */

static struct store *store_of(const struct shadow *s, uint32_t word) { return &s->log[(word >> WORD_SHIFT) - s->first]; }

/* The words of one dword that are not settled: of its writer, or its bytes' writers, and of its last atomic. */
static uint32_t live_words(struct shadow *s, uint32_t d, uint32_t *out[5])
{
    const uint32_t settled = s->first << WORD_SHIFT;
    uint32_t n = 0;
    if (s->writer[d] & PARTIAL) for (uint32_t k = 0; k < 4; k++) out[n++] = &s->byte_writer[4 * d + k];
    else out[n++] = &s->writer[d];
    if (s->atomic != NULL) out[n++] = &s->atomic[d];
    uint32_t live = 0;
    for (uint32_t k = 0; k < n; k++)
        if (*out[k] >= settled) out[live++] = out[k];
        else *out[k] = 0;
    return live;
}

/* Renumbers from 1 the stores that some byte still refers to; with waves it also drops those that their waves have waited for.  Rare: when
 * a log is full, or when a wave arrived at a barrier with a store in flight. */
static void renumber(struct shadow *s, const struct wave *waves)
{
    uint32_t *number = zeros((size_t)(s->next - s->first) * 4), *word[5], n = 0;
    for (uint32_t d = 0; d < s->dwords; d++) {
        const uint32_t live = live_words(s, d, word);
        for (uint32_t k = 0; k < live; k++) {
            const struct store *t = store_of(s, *word[k]);
            if (waves == NULL || t->seq > waves[t->wave].count[t->direct ? WAIT_VM : WAIT_LGKM].done) number[t - s->log] = 1;
            else *word[k] = 0;
        }
    }
    for (uint32_t k = 0; k < s->next - s->first; k++)
        if (number[k] != 0) { s->log[n++] = s->log[k]; number[k] = n; }
    for (uint32_t d = 0; d < s->dwords; d++) {
        const uint32_t live = live_words(s, d, word), whole = s->writer[d];
        uint32_t last = 0;
        for (uint32_t k = 0; k < live; k++) {
            *word[k] = number[(*word[k] >> WORD_SHIFT) - s->first] << WORD_SHIFT | (*word[k] & WAVE_BITS);
            if (word[k] != (s->atomic != NULL ? &s->atomic[d] : NULL) && *word[k] > last) last = *word[k];
        }
        if (whole & PARTIAL) s->writer[d] = last != 0 ? last | PARTIAL : 0;
        if (waves != NULL && s->writer[d] == 0 && s->atomic != NULL) s->writer[d] = s->atomic[d];
    }
    s->first = 1, s->next = 1 + n;
    free(number);
}

void lds_barrier(struct group *g)
{
    struct shadow *s = g->lds_shadow;
    bool under_way = s->kept;
    for (uint32_t k = 0; k < g->n_waves; k++)
        under_way |= g->waves[k].lds_store_seq > g->waves[k].count[WAIT_LGKM].done || s->direct_seq[k] > g->waves[k].count[WAIT_VM].done;
    if (under_way) renumber(s, g->waves);
    else s->first = s->next;
    s->kept = s->next > s->first;
    if (s->next >= MOST_STORES) renumber(s, NULL);
    memset(s->readers, 0, (size_t)s->read_end * 4);
    if (s->byte_reads) memset(s->byte_readers, 0, (size_t)s->dwords * 16);
    s->byte_reads = false;
    s->read_end = 0;
    s->interval++;
}

uint32_t shadow_log(struct shadow *s, const struct wave *w, const struct inst *i, bool atomic, bool direct)
{
    if (UNLIKELY(s->next == MOST_STORES || (s->next - s->first == s->room && s->room >= 65536))) renumber(s, NULL);
    if (UNLIKELY(s->next - s->first == s->room)) {
        s->room *= 2;
        s->log = realloc(s->log, s->room * sizeof *s->log);
        if (s->log == NULL) abort();
    }
    const uint32_t seq = direct ? w->count[WAIT_VM].started : w->count[WAIT_LGKM].started + 1;
    s->log[s->next - s->first] = (struct store){ i, w->index, seq, s->interval, atomic, direct };
    if (direct) s->direct = true, s->direct_seq[w->index] = seq;
    return s->next++ << WORD_SHIFT | w->index;
}

/* ---- races ---- */

static void race_with_store(struct access *a, int lane, uint32_t dword, uint32_t word, const char *what)
{
    const struct store *t = store_of(a->s, word);
    const uint32_t me = a->w->index, at = dword * 4;
    if (t->interval == a->s->interval)
        report(a->w, a->i, FINDING_LDS_RACE, lane, "wave %u %s LDS address 0x%x, which wave %u stored with no barrier since, at 0x%x: %s",
               me, what, at, t->wave, t->i->pc, t->i->text);
    else
        report(a->w, a->i, FINDING_LDS_RACE, lane,
               "wave %u %s LDS address 0x%x; wave %u reached the barrier without waiting (lgkmcnt) for its store at 0x%x: %s", me, what, at,
               t->wave, t->i->pc, t->i->text);
}

static void race_with_reader(struct access *a, int lane, uint32_t dword, uint32_t waves)
{
    const uint32_t other = (uint32_t)__builtin_ctz(waves);
    const struct inst *last = a->s->last_access[other];
    report(a->w, a->i, FINDING_LDS_RACE, lane,
           "wave %u stores to LDS address 0x%x, which wave %u read with no barrier since; its last access to LDS, at 0x%x: %s", a->w->index,
           dword * 4, other, last->pc, last->text);
}

/* Whether the word is the wave's own store from memory that no s_waitcnt has covered yet. */
static bool is_awaited(struct access *a, int lane, uint32_t d, uint32_t word)
{
    if (!a->s->direct || word < a->s->first << WORD_SHIFT || word == a->word) return false;
    const struct store *t = store_of(a->s, word);
    if (!t->direct || t->wave != a->w->index || t->seq <= a->w->count[WAIT_VM].done) return false;
    report(a->w, a->i, FINDING_WAIT, lane, "LDS address 0x%x, while a load into it is under way (vmcnt), at 0x%x: %s", d * 4, t->i->pc,
           t->i->text);
    return true;
}

void check_load(struct access *a, int lane, uint32_t d, uint32_t bytes)
{
    for (uint32_t k = 0; k < 4; k++) {
        const uint32_t word = writer_of_byte(a->s, d, k);
        if (!(bytes >> k & 1)) continue;
        if (is_awaited(a, lane, d, word)) return;
        if (!is_foreign(a, word) || (a->atomic && store_of(a->s, word)->atomic)) continue;
        race_with_store(a, lane, d, word, a->atomic ? "changes" : "loads");
        return;
    }
}

void check_store(struct access *a, int lane, uint32_t d, uint32_t bytes, uint32_t value)
{
    struct shadow *s = a->s;
    const uint8_t *now = s->lds + 4 * (size_t)d;
    uint32_t waves = s->readers[d];
    for (uint32_t k = 0; k < 4; k++) {
        if (!(bytes >> k & 1)) continue;
        const uint32_t word = writer_of_byte(s, d, k);
        if (s->byte_reads) waves |= s->byte_readers[4 * d + k];
        if (is_awaited(a, lane, d, word)) return;
        if (is_foreign(a, word)) { race_with_store(a, lane, d, word, "stores to"); return; }
        if (word != a->word || now[k] == (uint8_t)(value >> 8 * k) || !(s->defined[d] >> k & 1)) continue;
        report(a->w, a->i, FINDING_LDS_RACE, lane, "two lanes of this store, of wave %u, write different values to LDS address 0x%x",
               a->w->index, d * 4 + k);
        return;
    }
    if (waves & ~a->bit) race_with_reader(a, lane, d, waves & ~a->bit);
}

void shadow_want_bytes(struct shadow *s)
{
    if (s->byte_writer != NULL) return;
    s->byte_writer = zeros((size_t)s->capacity * 16);
    s->byte_readers = zeros((size_t)s->capacity * 16);
}

void shadow_want_atomic(struct shadow *s)
{
    if (s->atomic == NULL) s->atomic = zeros((size_t)s->capacity * 4);
}
