/* lds.c -- DS instructions (RDNA3 ISA chapter 12, CDNA3 ISA chapter 11) on the LDS of a group, with the checks of lds_shadow.c.
 *
 * Alignment must be natural: 2, 4, 8, and 16 bytes for b96 and b128.  The chips accept any address in the mode that the driver sets (LLVM:
 * unaligned-access-mode), but clang emits a wide access that is aligned to 4 or 8 bytes as 2addr (read2); another unaligned wide access
 * means a wrong address or a slow access of packed data.  Accesses of up to 4 bytes may be anywhere if the instruction's own offset is odd:
 * clang loads (uint32_t)(x >> 24) of a 64-bit x as 4 bytes at offset 3.  FORGE_GFXSIM_LDS_ALIGNMENT=N requires at most N bytes (1: any
 * address), except for atomics.
 *
 * Not modelled, and therefore unknown instructions: GDS, append and consume, addtid, condxchg32, exchanges at two addresses. */
#include <immintrin.h>
#include <string.h>

#include "lds_shadow.h"
#include "numbers.h"

#define INLINE static inline __attribute__((always_inline))
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* ---- an access ---- */

static uint32_t alignment_wanted(const struct access *a, uint32_t bytes, uint32_t offset)
{
    static uint32_t most;
    if (UNLIKELY(most == 0)) { const uint64_t n = setting("FORGE_GFXSIM_LDS_ALIGNMENT", 16); most = n > 0 && n < 16 ? (uint32_t)n : 16; }
    if (a->atomic) return bytes;
    if (bytes <= 4 && offset % bytes != 0) return 1;
    const uint32_t natural = bytes == 12 ? 16 : bytes;
    return natural < most ? natural : most;
}

static bool bad_address(struct access *a, uint32_t bytes, uint32_t alignment)
{
    const uint32_t size = a->w->group->lds_bytes;
    for (uint64_t m = a->mask; m != 0; m &= m - 1) {
        const int lane = __builtin_ctzll(m);
        const uint32_t at = a->address[lane];
        if (at % alignment != 0 &&
            report(a->w, a->i, FINDING_ALIGNMENT, lane, "%u bytes at LDS address 0x%x, which is not a multiple of %u", bytes, at,
                   alignment)) return true;
        if (size >= bytes && at <= size - bytes) continue;
        if (report(a->w, a->i, FINDING_BOUNDS, lane, "%u bytes at LDS address 0x%x; the group has 0x%x bytes", bytes, at, size))
            return true;
        a->mask &= ~(1ull << lane);              /* such a load gives 0, such a store does nothing (RDNA3 ISA 12.1) */
    }
    return false;
}

INLINE void sum_addresses(struct access *a, const uint32_t *restrict base, uint32_t offset, uint32_t *most, uint32_t *bits,
                          const uint32_t n)
{
    uint32_t top = 0, any = 0;
    uint32_t *restrict address = a->address;
    for (uint32_t lane = 0; lane < n; lane++) {
        const uint32_t at = base[lane] + offset;
        address[lane] = at;
        top = at > top ? at : top;
        any |= at;
    }
    *most = top, *bits = any;
}

/* Computes the addresses of the lanes; returns false after a finding.  Sums wrap at 32 bits. */
static bool place(struct access *a, uint32_t offset, uint32_t bytes)
{
    struct wave *w = a->w;
    const uint32_t *base = vgpr(w, a->i->src[0].reg), natural = bytes == 12 ? 16 : bytes, size = w->group->lds_bytes;
    uint32_t most, bits;
    if (w->lanes == 64) sum_addresses(a, base, offset, &most, &bits, 64);
    else sum_addresses(a, base, offset, &most, &bits, 32);
    if (a->mask != lanes_mask(w->lanes)) {
        most = bits = 0;
        for (uint64_t m = a->mask; m != 0; m &= m - 1) {
            const uint32_t at = a->address[__builtin_ctzll(m)];
            most = at > most ? at : most;
            bits |= at;
        }
    }
    a->loose = bits % natural != 0;
    if (UNLIKELY(a->loose || size < bytes || most > size - bytes)) {
        const uint32_t alignment = alignment_wanted(a, bytes, offset);
        if ((bits % alignment != 0 || size < bytes || most > size - bytes) && bad_address(a, bytes, alignment)) return false;
        a->loose = bits % (bytes < 4 ? bytes : 4) != 0;
        most = most < size ? most : size;
    }
    const uint32_t end = (most + bytes + 3) / 4 < a->s->dwords ? (most + bytes + 3) / 4 : a->s->dwords;
    if (end > a->s->read_end) a->s->read_end = end;
    return true;
}

/* Returns false if the instruction has nothing more to do.  Its address is the first operand that is not a destination. */
static bool begin(struct access *a, struct wave *w, const struct inst *i, bool atomic)
{
    a->w = w, a->i = i, a->s = w->group->lds_shadow, a->atomic = atomic;
    a->mask = wave_exec(w);
    a->word = w->index, a->bit = 1u << w->index;
    if (UNLIKELY(i->flags & FLAG_GDS)) { report(w, i, FINDING_UNKNOWN, -1, "GDS is not modelled"); return false; }
    const uint64_t undefined = w->undefined[i->src[0].reg] & a->mask;
    if (UNLIKELY(undefined != 0)) {
        if (report(w, i, FINDING_UNDEFINED, __builtin_ctzll(undefined), "the LDS address was never written")) return false;
        a->mask &= ~undefined;
    }
    a->s->last_access[w->index] = i;
    return true;
}

/* Counts one more instruction in lgkmcnt; n registers from reg wait for it. */
static void issued(struct wave *w, bool store, uint32_t reg, uint32_t n)
{
    w->count[WAIT_LGKM].started++;
    if (store) w->lds_store_seq = w->count[WAIT_LGKM].started;
    if (n > 0) vgpr_await(w, reg, n, false, true);
}

/* Cycles of an access: the minimum, and those beyond it.  The banks deliver 128 bytes a cycle, so lanes are served in turns of 32, 16 or
 * (from 12 bytes) 8, in order.  A turn takes as many cycles as the most different dwords in one bank; a turn without lanes takes none.  The
 * documents do not say which lanes share a turn of a wide access; this is the simplest assumption. */
static void count_cycles(const struct access *a, uint32_t bytes, struct counters *c)
{
    const uint32_t turn = bytes <= 4 ? 32 : bytes == 8 ? 16 : 8, words = bytes < 4 ? 1 : bytes / 4;
    for (uint32_t from = 0; from < a->w->lanes; from += turn) {
        uint32_t have[32][32], n[32] = { 0 }, most = 1;
        const uint64_t lanes = a->mask >> from & ((1ull << turn) - 1);
        for (uint64_t m = lanes; m != 0; m &= m - 1)
            for (uint32_t k = 0; k < words; k++) {
                const uint32_t dword = a->address[from + (uint32_t)__builtin_ctzll(m)] / 4 + k, bank = dword % 32;
                uint32_t j = 0;
                while (j < n[bank] && have[bank][j] != dword) j++;
                if (j == n[bank]) have[bank][n[bank]++] = dword;
                most = n[bank] > most ? n[bank] : most;
            }
        c->lds_cycles += lanes != 0;
        c->lds_conflicts += most - 1;
    }
}

static void count(const struct access *a, uint32_t bytes, bool load, bool store)
{
    if (!a->w->group->launch->stats) return;
    struct counters *c = a->w->group->counters;
    c->lds_loads += load;
    c->lds_stores += store;
    count_cycles(a, bytes, c);
}

/* ---- bytes one by one: for narrow or unaligned accesses ---- */

/* Returns true if all of them are defined. */
static bool load_bytes(struct access *a, int lane, void *out, uint32_t n)
{
    struct shadow *s = a->s;
    bool defined = true;
    shadow_want_bytes(s);
    s->byte_reads = true;
    for (uint32_t b = 0; b < n; b++) {
        const uint32_t at = a->address[lane] + b, d = at / 4;
        if (UNLIKELY(s->direct || is_foreign(a, writer_of_byte(s, d, at % 4)))) check_load(a, lane, d, 1u << at % 4);
        s->byte_readers[at] |= a->bit;
        defined &= s->defined[d] >> at % 4 & 1;
        ((uint8_t *)out)[b] = s->lds[at];
    }
    return defined;
}

static void store_bytes(struct access *a, int lane, const void *from, uint32_t n, bool defined)
{
    struct shadow *s = a->s;
    shadow_want_bytes(s);
    for (uint32_t b = 0; b < n; b++) {
        const uint32_t at = a->address[lane] + b, d = at / 4, k = at % 4;
        const uint8_t value = ((const uint8_t *)from)[b];
        check_store(a, lane, d, 1u << k, (uint32_t)value << 8 * k);
        if (!(s->writer[d] & PARTIAL)) for (uint32_t j = 0; j < 4; j++) s->byte_writer[4 * d + j] = s->writer[d];
        s->byte_writer[at] = a->word;
        s->writer[d] = a->word | PARTIAL;
        s->defined[d] = (uint8_t)((s->defined[d] & ~(1u << k)) | (uint32_t)defined << k);
        s->lds[at] = value;
    }
}

/* ---- whole dwords ---- */

/* gcc does not make vectors of four words by itself. */
typedef uint32_t four __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t four_signs __attribute__((vector_size(16)));
INLINE bool any(four x) { return _mm_testz_si128((__m128i)x, (__m128i)x) == 0; }

/* Whether some words are neither settled nor whole dwords of this wave. */
INLINE bool unsettled(const uint32_t *writer, const uint32_t mine, const uint32_t settled, const uint32_t words)
{
    if (words == 4) {                            /* words stay below 2^31 */
        const four w = *(const four *)writer;
        return any((four)((four_signs)w >= (int32_t)settled) & (four)(((w ^ mine) & (PARTIAL | WAVE_BITS)) != 0));
    }
    uint32_t bad = 0;
    for (uint32_t k = 0; k < words; k++)
        bad |= (uint32_t)(writer[k] >= settled) & (uint32_t)(((writer[k] ^ mine) & (PARTIAL | WAVE_BITS)) != 0);
    return bad != 0;
}

/* Whether some words were read by other waves, or written by this store for another lane. */
INLINE bool looked_at(const uint32_t *readers, const uint32_t others, const uint32_t *writer, const uint32_t mine, const uint32_t words)
{
    if (words == 4) return any((*(const four *)readers & others) | (four)(*(const four *)writer == mine));
    uint32_t look = 0;
    for (uint32_t k = 0; k < words; k++) look |= (readers[k] & others) | (uint32_t)(writer[k] == mine);
    return look != 0;
}

INLINE void or_words(uint32_t *to, const uint32_t bit, const uint32_t words)
{
    if (words == 4) *(four *)to |= bit;
    else for (uint32_t k = 0; k < words; k++) to[k] |= bit;
}

INLINE void set_words(uint32_t *to, const uint32_t value, const uint32_t words)
{
    if (words == 4) *(four *)to = (four){ value, value, value, value };
    else for (uint32_t k = 0; k < words; k++) to[k] = value;
}

INLINE bool all_defined(const uint8_t *defined, const uint32_t words)
{
    uint32_t got = 0;
    memcpy(&got, defined, words);
    return got == (uint32_t)(0x0f0f0f0full >> 8 * (4 - words));
}

/* rows[words][lanes]; undefined[words] is or-ed. */
INLINE void load_dwords(struct access *a, uint32_t *rows, uint64_t *undefined, const uint32_t words)
{
    const struct shadow *s = a->s;               /* locals, because the compiler must assume that the stores below change it */
    const uint32_t lanes = a->w->lanes, settled = s->first << WORD_SHIFT, bit = a->bit, mine = a->word, *writer = s->writer;
    const uint32_t *lds = (const uint32_t *)(const void *)s->lds;
    const uint8_t *defined = s->defined;
    uint32_t *readers = s->readers;
    for (uint64_t m = a->mask; m != 0; m &= m - 1) {
        const int lane = __builtin_ctzll(m);
        const uint32_t d = a->address[lane] / 4;
        if (UNLIKELY(unsettled(writer + d, mine, settled, words))) for (uint32_t k = 0; k < words; k++) check_load(a, lane, d + k, 15);
        if (UNLIKELY(!all_defined(defined + d, words)))
            for (uint32_t k = 0; k < words; k++) undefined[k] |= (uint64_t)(defined[d + k] != DEFINED) << lane;
        uint32_t value[4];
        memcpy(value, lds + d, words * 4);
        or_words(readers + d, bit, words);
        for (uint32_t k = 0; k < words; k++) rows[k * lanes + (uint32_t)lane] = value[k];
    }
}

static void load_loose(struct access *a, uint32_t *rows, uint64_t *undefined, uint32_t words)
{
    for (uint64_t m = a->mask; m != 0; m &= m - 1) {
        const int lane = __builtin_ctzll(m);
        uint32_t value[4];
        const bool defined = load_bytes(a, lane, value, 4 * words);
        for (uint32_t k = 0; k < words; k++) {
            rows[k * a->w->lanes + (uint32_t)lane] = value[k];
            undefined[k] |= (uint64_t)!defined << lane;
        }
    }
}

/* Loads at one or two addresses into consecutive registers. */
INLINE void load(struct wave *w, const struct inst *i, const uint32_t words, const uint32_t addresses, const int32_t stride)
{
    uint32_t rows[4 * MAX_LANES];
    uint64_t undefined[4] = { 0 }, any = 0;
    struct access a;
    if (!begin(&a, w, i, false)) return;
    const uint64_t mask = a.mask;
    for (uint32_t k = 0; k < addresses; k++) {
        uint32_t *to = rows + k * words * w->lanes;
        a.mask = mask;
        if (!place(&a, (uint32_t)((k == 0 ? i->offset : i->offset1) * stride), 4 * words)) return;
        if (UNLIKELY(a.mask != wave_exec(w))) memset(to, 0, words * w->lanes * 4);
        if (UNLIKELY(a.loose)) load_loose(&a, to, undefined + k * words, words);
        else load_dwords(&a, to, undefined + k * words, words);
        count(&a, 4 * words, true, false);
    }
    for (uint32_t k = 0; k < words * addresses; k++) any |= undefined[k];
    const uint32_t reg = i->dst[0].reg, n = words * addresses;
    if (any == 0) vgpr_write(w, reg, n, rows, wave_exec(w), 0);
    else for (uint32_t k = 0; k < n; k++) vgpr_write(w, reg + k, 1, rows + k * w->lanes, wave_exec(w), undefined[k]);
    issued(w, false, reg, n);
}

/* The data of a store: rows [words][lanes], and the undefined lanes of each row. */
struct data { const uint32_t *rows; uint64_t undefined[4]; bool some; };

static struct data data_of(struct wave *w, const struct inst *i, uint32_t k, uint32_t words)
{
    struct data d = { vgpr(w, i->src[k].reg), { 0 }, false };
    for (uint32_t j = 0; j < words; j++) {
        d.undefined[j] = w->undefined[i->src[k].reg + j];
        d.some |= d.undefined[j] != 0;
    }
    return d;
}

INLINE void store_dwords(struct access *a, const struct data *from, const uint32_t words)
{
    const struct shadow *s = a->s;
    const uint32_t lanes = a->w->lanes, settled = s->first << WORD_SHIFT, others = ~a->bit, mine = a->word;
    const bool always = s->byte_reads;
    const uint32_t *rows = from->rows, *readers = s->readers;
    uint32_t *lds = (uint32_t *)(void *)s->lds, *writer = s->writer;
    uint8_t *defined = s->defined;
    const bool some = from->some;
    for (uint64_t m = a->mask; m != 0; m &= m - 1) {
        const int lane = __builtin_ctzll(m);
        const uint32_t d = a->address[lane] / 4;
        uint32_t value[4];
        for (uint32_t k = 0; k < words; k++) value[k] = rows[k * lanes + (uint32_t)lane];
        if (UNLIKELY(always | looked_at(readers + d, others, writer + d, mine, words) | unsettled(writer + d, mine, settled, words)))
            for (uint32_t k = 0; k < words; k++) check_store(a, lane, d + k, 15, value[k]);
        memcpy(lds + d, value, words * 4);
        set_words(writer + d, mine, words);
        memset(defined + d, DEFINED, words);
        if (UNLIKELY(some)) for (uint32_t k = 0; k < words; k++) if (from->undefined[k] >> lane & 1) defined[d + k] = 0;
    }
}

static void store_loose(struct access *a, const struct data *from, uint32_t words)
{
    for (uint64_t m = a->mask; m != 0; m &= m - 1) {
        const int lane = __builtin_ctzll(m);
        const uint32_t at = a->address[lane];
        for (uint32_t k = 0; k < words; k++, a->address[lane] += 4)
            store_bytes(a, lane, &from->rows[k * a->w->lanes + (uint32_t)lane], 4, !(from->undefined[k] >> lane & 1));
        a->address[lane] = at;
    }
}

INLINE void store(struct wave *w, const struct inst *i, const uint32_t words, const uint32_t addresses, const int32_t stride)
{
    struct access a;
    if (!begin(&a, w, i, false)) return;
    const uint64_t mask = a.mask;
    a.word = shadow_log(a.s, w, i, false, false);
    for (uint32_t k = 0; k < addresses; k++) {
        const struct data from = data_of(w, i, 1 + k, words);
        a.mask = mask;
        if (!place(&a, (uint32_t)((k == 0 ? i->offset : i->offset1) * stride), 4 * words)) return;
        if (UNLIKELY(a.loose)) store_loose(&a, &from, words);
        else store_dwords(&a, &from, words);
        count(&a, 4 * words, false, true);
    }
    issued(w, true, 0, 0);
}

/* name, words, addresses, bytes per step of offset0 and offset1 */
#define ACCESS(X) X(b32, 1, 1, 1) X(b64, 2, 1, 1) X(b96, 3, 1, 1) X(b128, 4, 1, 1) \
    X(2addr_b32, 1, 2, 4) X(2addr_b64, 2, 2, 8) X(2addr_stride64_b32, 1, 2, 256) X(2addr_stride64_b64, 2, 2, 512)
#define RUN_ACCESS(name, words, addresses, stride) \
    static void load_##name(struct wave *w, const struct inst *i)  { load(w, i, words, addresses, stride); } \
    static void store_##name(struct wave *w, const struct inst *i) { store(w, i, words, addresses, stride); }
ACCESS(RUN_ACCESS)

/* ---- less than a dword ---- */

enum half { WHOLE, LOW_HALF, HIGH_HALF };        /* of the register: the other half stays unchanged */

static void load_narrow(struct wave *w, const struct inst *i, uint32_t bytes, bool sign, enum half half)
{
    uint32_t rows[MAX_LANES] = { 0 };
    struct access a;
    if (!begin(&a, w, i, false)) return;
    const uint32_t reg = i->dst[0].reg, *old = vgpr(w, reg);
    uint64_t undefined = half == WHOLE ? 0 : w->undefined[reg];
    if (!place(&a, (uint32_t)i->offset, bytes)) return;
    for (uint64_t m = a.mask; m != 0; m &= m - 1) {
        const int lane = __builtin_ctzll(m);
        uint32_t x = 0;
        if (!load_bytes(&a, lane, &x, bytes)) undefined |= 1ull << lane;
        if (sign) x = bytes == 1 ? (uint32_t)(int32_t)(int8_t)x : (uint32_t)(int32_t)(int16_t)x;
        rows[lane] = half == WHOLE ? x : half == LOW_HALF ? (old[lane] & 0xffff0000) | (x & 0xffff) : (old[lane] & 0xffff) | x << 16;
    }
    vgpr_write(w, reg, 1, rows, wave_exec(w), undefined & wave_exec(w));
    count(&a, bytes, true, false);
    issued(w, false, reg, 1);
}

static void store_narrow(struct wave *w, const struct inst *i, uint32_t bytes, uint32_t shift)
{
    struct access a;
    if (!begin(&a, w, i, false)) return;
    const struct data from = data_of(w, i, 1, 1);
    a.word = shadow_log(a.s, w, i, false, false);
    if (!place(&a, (uint32_t)i->offset, bytes)) return;
    for (uint64_t m = a.mask; m != 0; m &= m - 1) {
        const int lane = __builtin_ctzll(m);
        const uint32_t x = from.rows[lane] >> shift;
        store_bytes(&a, lane, &x, bytes, !(from.undefined[0] >> lane & 1));
    }
    count(&a, bytes, false, true);
    issued(w, true, 0, 0);
}

#define NARROW_LOAD(X) X(u8, 1, false, WHOLE) X(i8, 1, true, WHOLE) X(u16, 2, false, WHOLE) X(i16, 2, true, WHOLE) \
    X(u8_d16, 1, false, LOW_HALF) X(u8_d16_hi, 1, false, HIGH_HALF) X(i8_d16, 1, true, LOW_HALF) X(i8_d16_hi, 1, true, HIGH_HALF) \
    X(u16_d16, 2, false, LOW_HALF) X(u16_d16_hi, 2, false, HIGH_HALF)
#define NARROW_STORE(X) X(b8, 1, 0) X(b16, 2, 0) X(b8_d16_hi, 1, 16) X(b16_d16_hi, 2, 16)
#define RUN_NARROW_LOAD(name, bytes, sign, half)                                                                                           \
    static void load_##name(struct wave *w, const struct inst *i) { load_narrow(w, i, bytes, sign, half); }
#define RUN_NARROW_STORE(name, bytes, shift)                                                                                               \
    static void store_##name(struct wave *w, const struct inst *i) { store_narrow(w, i, bytes, shift); }
NARROW_LOAD(RUN_NARROW_LOAD)
NARROW_STORE(RUN_NARROW_STORE)

/* ---- from memory, without registers (global_load_lds) ---- */

void lds_store_direct(struct wave *w, const struct inst *i, const uint32_t *address, uint64_t mask, const uint32_t *rows,
                      uint64_t undefined)
{
    struct access a = { .w = w, .i = i, .s = w->group->lds_shadow, .mask = mask, .bit = 1u << w->index };
    memcpy(a.address, address, w->lanes * sizeof *address);
    if (bad_address(&a, 4, 4)) return;
    a.word = shadow_log(a.s, w, i, false, true);
    a.s->last_access[w->index] = i;
    for (uint64_t m = a.mask; m != 0; m &= m - 1) {
        const int lane = __builtin_ctzll(m);
        store_bytes(&a, lane, &rows[lane], 4, !(undefined >> lane & 1));        /* byte by byte: every later access is then checked */
    }
    count(&a, 4, false, true);
}

/* ---- atomics ---- */

typedef uint64_t atomic_fn(uint64_t old, uint64_t a, uint64_t b);

/* Lanes in order, one after the other.  The new value is undefined if any input is. */
static void run_atomic(struct wave *w, const struct inst *i, uint32_t bytes, atomic_fn *fn)
{
    struct access a;
    uint32_t rows[2 * MAX_LANES] = { 0 };
    uint64_t undefined = 0;
    if (!begin(&a, w, i, true)) return;
    const uint32_t words = bytes / 4, lanes = w->lanes;
    const struct data x = data_of(w, i, 1, words), y = i->n_src > 2 ? data_of(w, i, 2, words) : x;
    struct shadow *s = a.s;
    if (!place(&a, (uint32_t)i->offset, bytes)) return;
    shadow_want_atomic(s);
    const uint32_t word = shadow_log(s, w, i, true, false);
    for (uint64_t m = a.mask; m != 0; m &= m - 1) {
        const uint32_t lane = (uint32_t)__builtin_ctzll(m), d = a.address[lane] / 4;
        uint64_t old = 0, p = x.rows[lane], q = y.rows[lane];
        bool defined = true;
        for (uint32_t k = 0; k < words; k++) {
            check_load(&a, (int)lane, d + k, 15);
            defined &= s->defined[d + k] == DEFINED;
            s->readers[d + k] |= a.bit;
            s->atomic[d + k] = word;
        }
        memcpy(&old, s->lds + 4 * (size_t)d, bytes);
        if (words == 2) p |= (uint64_t)x.rows[lanes + lane] << 32, q |= (uint64_t)y.rows[lanes + lane] << 32;
        for (uint32_t k = 0; k < words; k++) rows[k * lanes + lane] = (uint32_t)(old >> 32 * k);
        undefined |= (uint64_t)!defined << lane;
        defined &= !((x.undefined[0] | x.undefined[1] | y.undefined[0] | y.undefined[1]) >> lane & 1);
        const uint64_t new = fn(old, p, q);
        memcpy(s->lds + 4 * (size_t)d, &new, bytes);
        memset(s->defined + d, defined ? DEFINED : 0, words);
    }
    count(&a, bytes, i->n_dst > 0, true);
    if (i->n_dst > 0) vgpr_write(w, i->dst[0].reg, words, rows, wave_exec(w), undefined);
    issued(w, true, i->n_dst > 0 ? i->dst[0].reg : 0, i->n_dst > 0 ? words : 0);
}

static float  f32(uint64_t bits)  { return bits_f32((uint32_t)bits); }
static double f64(uint64_t bits)  { return bits_f64(bits); }
static uint64_t add_f64(uint64_t a, uint64_t b)  /* the wave's MXCSR may flush denormals of f32 */
{
    const uint32_t mode = _mm_getcsr();
    _mm_setcsr(mode & ~0x8040u);
    volatile double x = f64(a);                  /* keeps the two operations separate */
    x = x + f64(b);
    _mm_setcsr(mode);
    return f64_bits(x);
}
static uint64_t add_f16(uint64_t a, uint64_t b)  { return f32_to_f16(f16_to_f32((uint32_t)a) + f16_to_f32((uint32_t)b)); }  /* low halves */
static uint64_t add_bf16(uint64_t a, uint64_t b)
{
    return f32_to_bf16(bf16_to_f32((uint32_t)a & 0xffff) + bf16_to_f32((uint32_t)b & 0xffff));
}

/* Sums round to nearest even and treat denormals as MODE says, which is MXCSR here (LLVM, SIISelLowering.cpp, on atomicrmw fadd).  inc and
 * dec wrap at the operand (RDNA3 ISA 16.15). */
#define ATOMIC(X) \
    X(add, u32, 4, old + a) X(sub, u32, 4, old - a) X(rsub, u32, 4, a - old) X(and, b32, 4, old & a) X(or, b32, 4, old | a)                \
    X(xor, b32, 4, old ^ a)                                                                                                                \
    X(inc, u32, 4, old >= a ? 0 : old + 1) X(dec, u32, 4, old == 0 || old > a ? a : old - 1) \
    X(min, u32, 4, a < old ? a : old) X(max, u32, 4, a > old ? a : old) \
    X(min, i32, 4, (int32_t)a < (int32_t)old ? a : old) X(max, i32, 4, (int32_t)a > (int32_t)old ? a : old) \
    X(mskor, b32, 4, (old & ~a) | b) X(add, f32, 4, f32_bits(f32(old) + f32(a))) \
    X(min, f32, 4, f32(a) < f32(old) ? a : old) X(max, f32, 4, f32(a) > f32(old) ? a : old) \
    X(cmpst, b32, 4, old == a ? b : old) X(cmpst, f32, 4, f32(old) == f32(a) ? b : old) \
    X(cmpstore, b32, 4, old == b ? a : old) X(cmpstore, f32, 4, f32(old) == f32(b) ? a : old) \
    X(add, u64, 8, old + a) X(sub, u64, 8, old - a) X(rsub, u64, 8, a - old) X(and, b64, 8, old & a) X(or, b64, 8, old | a)                \
    X(xor, b64, 8, old ^ a)                                                                                                                \
    X(inc, u64, 8, old >= a ? 0 : old + 1) X(dec, u64, 8, old == 0 || old > a ? a : old - 1) \
    X(min, u64, 8, a < old ? a : old) X(max, u64, 8, a > old ? a : old) \
    X(min, i64, 8, (int64_t)a < (int64_t)old ? a : old) X(max, i64, 8, (int64_t)a > (int64_t)old ? a : old) \
    X(mskor, b64, 8, (old & ~a) | b) X(add, f64, 8, add_f64(old, a)) \
    X(min, f64, 8, f64(a) < f64(old) ? a : old) X(max, f64, 8, f64(a) > f64(old) ? a : old) \
    X(cmpst, b64, 8, old == a ? b : old) X(cmpst, f64, 8, f64(old) == f64(a) ? b : old) \
    X(cmpstore, b64, 8, old == b ? a : old) X(cmpstore, f64, 8, f64(old) == f64(b) ? a : old) \
    X(pk_add, f16, 4, add_f16(old, a) | add_f16(old >> 16, a >> 16) << 16)                                                                 \
    X(pk_add, bf16, 4, add_bf16(old, a) | add_bf16(old >> 16, a >> 16) << 16)
#define ATOMIC_RETURNS(X)                                                                                                                  \
    X(wrxchg, b32, 4, a) X(wrxchg, b64, 8, a) X(storexchg, b32, 4, a) X(storexchg, b64, 8, a)                                              \
    X(wrap, b32, 4, old >= a ? old - a : old + b)
#define RUN_ATOMIC(verb, type, bytes, new) \
    static uint64_t value_##verb##_##type(uint64_t old, uint64_t a, uint64_t b) { (void)old, (void)a, (void)b; return new; } \
    static void atomic_##verb##_##type(struct wave *w, const struct inst *i) { run_atomic(w, i, bytes, value_##verb##_##type); }
ATOMIC(RUN_ATOMIC)
ATOMIC_RETURNS(RUN_ATOMIC)

/* ---- lanes that exchange registers; LDS is not used ---- */

/* Register k of src where a lane is active, else 0: the value that other lanes see. */
static void seen(const struct wave *w, const uint32_t *row, uint32_t *out)
{
    const uint64_t exec = wave_exec(w);
    if (exec == lanes_mask(w->lanes)) { memcpy(out, row, w->lanes * 4); return; }
    for (uint32_t lane = 0; lane < w->lanes; lane++) out[lane] = exec >> lane & 1 ? row[lane] : 0;
}

static void give_rows(struct wave *w, const struct inst *i, const uint32_t *rows, uint64_t undefined)
{
    const uint64_t exec = wave_exec(w);
    vgpr_write(w, i->dst[0].reg, 1, rows, exec, undefined & exec);
    issued(w, false, i->dst[0].reg, 1);
    w->group->counters->lds_moves++;
    w->group->counters->lds_cycles += w->lanes * 4 / 128;        /* 32 lanes a cycle */
}

INLINE void gather(uint32_t *restrict out, const uint32_t *restrict in, const uint32_t *restrict address, uint32_t offset, const uint32_t n)
{
    for (uint32_t lane = 0; lane < n; lane++) out[lane] = in[(address[lane] + offset) / 4 % n];
}

/* Each lane gives the number of the lane it reads, times 4.  An undefined number gives an undefined lane, as in any other computation. */
static void ds_bpermute(struct wave *w, const struct inst *i)
{
    uint32_t in[MAX_LANES], out[MAX_LANES];
    const uint32_t *address = vgpr(w, i->src[0].reg), offset = (uint32_t)i->offset;
    const uint64_t hidden = w->undefined[i->src[1].reg] & wave_exec(w);
    uint64_t undefined = w->undefined[i->src[0].reg];
    seen(w, vgpr(w, i->src[1].reg), in);
    if (w->lanes == 64) gather(out, in, address, offset, 64);
    else gather(out, in, address, offset, 32);
    if (hidden != 0)
        for (uint32_t lane = 0; lane < w->lanes; lane++) undefined |= (hidden >> (address[lane] + offset) / 4 % w->lanes & 1) << lane;
    give_rows(w, i, out, undefined);
}

/* Each lane gives the number of the lane it writes, times 4; the last one wins; lanes that are not written are 0. */
static void ds_permute(struct wave *w, const struct inst *i)
{
    uint32_t out[MAX_LANES] = { 0 };
    const uint32_t *address = vgpr(w, i->src[0].reg), *in = vgpr(w, i->src[1].reg);
    const uint64_t exec = wave_exec(w), lost = w->undefined[i->src[0].reg] & exec;
    uint64_t undefined = lost != 0 ? ~0ull : 0;  /* an undefined number may be any lane's */
    for (uint32_t lane = 0; lane < w->lanes; lane++) {
        if (!(exec >> lane & 1)) continue;
        const uint32_t to = (address[lane] + (uint32_t)i->offset) / 4 % w->lanes;
        out[to] = in[lane];
        if (lost == 0) undefined = (undefined & ~(1ull << to)) | (w->undefined[i->src[1].reg] >> lane & 1) << to;
    }
    give_rows(w, i, out, undefined);
}

/* The lane that `lane` reads; the offset's 16 bits select how (RDNA3 ISA 16.15, DS_SWIZZLE_B32; LLVM's AMDGPU operand syntax,
 * swizzle()). */
static uint32_t swizzle_source(uint32_t lane, uint32_t how)
{
    const uint32_t in32 = lane & 31, half = lane & 32;
    if (how >= 0xe000) {                         /* FFT: bits reversed, as many as the mask does not have */
        const uint32_t mask = how & 31;
        uint32_t turned = 0;
        for (uint32_t b = 0; b < 5; b++) turned |= (in32 >> b & 1) << (4 - b);
        return turned >> __builtin_popcount(mask) | (in32 & mask) | half;
    }
    if (how >= 0xc000) {                         /* rotates by bits 5-9, left or (bit 10) right, within the lanes that the mask leaves
                                                  * free */
        const uint32_t mask = how & 31, by = how >> 5 & 31;
        const uint32_t turned = (how >> 10 & 1 ? in32 - by : in32 + by) & 31;
        return (in32 & mask) | (turned & ~mask) | half;
    }
    if (how & 0x8000) return (lane & ~3u) | (how >> 2 * (lane & 3) & 3);
    return (((in32 & how) | how >> 5) ^ how >> 10) % 32 | half;
}

static void ds_swizzle(struct wave *w, const struct inst *i)
{
    uint32_t in[MAX_LANES], out[MAX_LANES];
    const uint64_t hidden = w->undefined[i->src[0].reg] & wave_exec(w);
    uint64_t undefined = 0;
    seen(w, vgpr(w, i->src[0].reg), in);
    for (uint32_t lane = 0; lane < w->lanes; lane++) {
        const uint32_t from = swizzle_source(lane, (uint32_t)i->offset & 0xffff);
        out[lane] = in[from];
        undefined |= (hidden >> from & 1) << lane;
    }
    give_rows(w, i, out, undefined);
}

static void ds_nop(struct wave *w, const struct inst *i) { (void)w, (void)i; }

/* ---- the table ---- */

#define LOAD(name, run, of) { name, run, NULL, CLASS_LDS, T_ROWS, { T_U32 }, of, TRAIT_OWN_DEFINED, NULL },
#define LOAD_HALF(name, run, of) { name, run, NULL, CLASS_LDS, T_B32, { T_U32 }, of, TRAIT_OWN_DEFINED | TRAIT_READS_DST, NULL },
#define STORE(name, run, of) { name, run, NULL, CLASS_LDS, T_NONE, { T_U32, T_ROWS, T_ROWS }, of, TRAIT_OWN_DEFINED | TRAIT_NO_DST, NULL },
#define ROW_ACCESS(name, words, addresses, stride)                                                                                         \
    LOAD("ds_load_" #name, load_##name, 4 * words) STORE("ds_store_" #name, store_##name, 4 * words)
#define OLD_ACCESS(old, name, words) LOAD("ds_read" old, load_##name, 4 * words) STORE("ds_write" old, store_##name, 4 * words)
#define ROW_WHOLE(name, bytes)     LOAD("ds_load_" #name, load_##name, bytes) LOAD("ds_read_" #name, load_##name, bytes)
#define ROW_HALF(name, bytes)      LOAD_HALF("ds_load_" #name, load_##name, bytes) LOAD_HALF("ds_read_" #name, load_##name, bytes)
#define ROW_NARROW_STORE(name, bytes, shift) STORE("ds_store_" #name, store_##name, bytes) STORE("ds_write_" #name, store_##name, bytes)
#define ROW_RETURNS(verb, type, of, new) \
    { "ds_" #verb "_rtn_" #type, atomic_##verb##_##type, NULL, CLASS_LDS, T_ROWS, { T_U32, T_ROWS, T_ROWS }, of, TRAIT_OWN_DEFINED, NULL },
#define ROW_ATOMIC(verb, type, of, new) STORE("ds_" #verb "_" #type, atomic_##verb##_##type, of) ROW_RETURNS(verb, type, of, new)

const struct op_info lds_ops[] = {
    ACCESS(ROW_ACCESS)
    OLD_ACCESS("_b32", b32, 1) OLD_ACCESS("_b64", b64, 2) OLD_ACCESS("_b96", b96, 3) OLD_ACCESS("_b128", b128, 4)
    OLD_ACCESS("2_b32", 2addr_b32, 1) OLD_ACCESS("2_b64", 2addr_b64, 2)
    OLD_ACCESS("2st64_b32", 2addr_stride64_b32, 1) OLD_ACCESS("2st64_b64", 2addr_stride64_b64, 2)
    ROW_WHOLE(u8, 1) ROW_WHOLE(i8, 1) ROW_WHOLE(u16, 2) ROW_WHOLE(i16, 2)
    ROW_HALF(u8_d16, 1) ROW_HALF(u8_d16_hi, 1) ROW_HALF(i8_d16, 1) ROW_HALF(i8_d16_hi, 1) ROW_HALF(u16_d16, 2) ROW_HALF(u16_d16_hi, 2)
    NARROW_STORE(ROW_NARROW_STORE)
    ATOMIC(ROW_ATOMIC) ATOMIC_RETURNS(ROW_RETURNS)
    { "ds_bpermute_b32", ds_bpermute, NULL, CLASS_LDS, T_B32, { T_U32, T_B32 }, 4, TRAIT_OWN_DEFINED | TRAIT_ALL_LANES, NULL },
    { "ds_permute_b32",  ds_permute,  NULL, CLASS_LDS, T_B32, { T_U32, T_B32 }, 4, TRAIT_OWN_DEFINED | TRAIT_ALL_LANES, NULL },
    { "ds_swizzle_b32",  ds_swizzle,  NULL, CLASS_LDS, T_B32, { T_B32 }, 4, TRAIT_OWN_DEFINED | TRAIT_ALL_LANES, NULL },
    { "ds_nop",          ds_nop,      NULL, CLASS_LDS, T_NONE, { T_NONE }, 0, TRAIT_NO_DST, NULL },
};
const uint32_t n_lds_ops = sizeof lds_ops / sizeof *lds_ops;
