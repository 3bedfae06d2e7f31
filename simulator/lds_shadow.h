/* lds_shadow.h -- the state of each byte of a group's LDS: shared by lds.c, the instructions, and lds_shadow.c, the checks. */
#ifndef GFXSIM_LDS_SHADOW_H
#define GFXSIM_LDS_SHADOW_H
#include "gfxsim.h"

/* A store instruction of one wave.  Words of struct shadow refer to one: its number << 6 | PARTIAL | wave.  Words below first << 6 are
 * settled: written before the barrier and waited for, or never written. */
struct store {
    const struct inst *i;
    uint32_t wave, seq, interval;                /* seq: of lgkmcnt, or of vmcnt */
    bool     atomic, direct;                     /* direct: from memory, counted by vmcnt */
};
enum { WAVE_BITS = 31, PARTIAL = 32, WORD_SHIFT = 6, MOST_STORES = 1 << 25 /* a word stays below 2^31 */, DEFINED = 15 };

struct shadow {
    struct shadow *next_free;
    uint32_t  dwords, capacity;
    uint8_t  *lds;
    uint32_t *writer;                            /* [dwords]; PARTIAL: see byte_writer */
    uint32_t *readers;                           /* [dwords] waves that loaded all of it, or changed it by an atomic, since the barrier */
    uint8_t  *defined;                           /* [dwords] a bit for each byte */
    uint32_t *byte_writer, *byte_readers;        /* [dwords][4]; NULL before the first access to less than a dword */
    uint32_t *atomic;                            /* [dwords] last atomic; NULL before the first */
    bool      byte_reads;                        /* byte_readers is not all 0 */
    bool      direct;                            /* there are direct stores; direct_seq: the last one of each wave */
    uint32_t  direct_seq[MAX_WAVES];
    bool      kept;                              /* stores from before the barrier are still in flight */
    uint32_t  read_end;                          /* dwords from here on have no readers */
    uint32_t  first, next, room;                 /* numbers of the stores in log[] */
    struct store *log;                           /* [room] log[k]: store number first + k */
    uint32_t  interval;                          /* barriers passed */
    const struct inst *last_access[MAX_WAVES];
};

/* One instruction's accesses. */
struct access {
    struct wave *w; const struct inst *i; struct shadow *s;
    uint64_t mask;                               /* lanes */
    uint32_t address[MAX_LANES];                 /* bytes */
    bool     atomic;
    bool     loose;                              /* some lane is not aligned, and need not be */
    uint32_t word;                               /* of a store, otherwise of the wave alone: its own accesses need no check */
    uint32_t bit;                                /* of the wave, in readers */
};

/* Registers a store that is about to happen and returns the word that marks its bytes. */
uint32_t shadow_log(struct shadow *s, const struct wave *w, const struct inst *i, bool atomic, bool direct);
/* Bytes (a bit for each) of dword d are loaded, or changed by an atomic: reports a race if there is one. */
void check_load(struct access *a, int lane, uint32_t d, uint32_t bytes);
/* Bytes of dword d are about to be replaced by those of value. */
void check_store(struct access *a, int lane, uint32_t d, uint32_t bytes, uint32_t value);
/* Allocates byte_writer and byte_readers; atomic: allocates atomic. */
void shadow_want_bytes(struct shadow *s);
void shadow_want_atomic(struct shadow *s);

static inline uint32_t writer_of_byte(const struct shadow *s, uint32_t d, uint32_t k)
{
    return s->writer[d] & PARTIAL ? s->byte_writer[4 * d + k] : s->writer[d];
}
/* Whether the word belongs to another wave and is not settled. */
static inline bool is_foreign(const struct access *a, uint32_t word)
{
    return word >= a->s->first << WORD_SHIFT && ((word ^ a->word) & WAVE_BITS) != 0;
}
#endif
