/* vmem.c -- global, flat, scratch and buffer accesses (RDNA3 ISA chapters 9 and 11, CDNA3 ISA chapters 9 and 10).
 *
 * The accesses of a wave instruction are checked together: whether the lowest and highest address are in one allocation, all of it is
 * defined, and no page of it was stored to in this launch.  Only if this fails are lanes checked one by one.  Memory changes at once; the
 * destination registers are marked as awaited.
 *
 *   counters    loads and atomics with return: vmcnt.  Stores and atomics without: vmcnt on CDNA3, vscnt on RDNA.  flat: lgkmcnt, too.
 *   order       a load reads memory before it calls order.c, and a store calls order.c before it writes, so that a wave that sees a value
 *               finds its record.  An atomic does both under order.c's lock.
 *   undefined   bytes give undefined lanes of each register; d16 loads: in the half that is loaded; the other half is taken as defined.
 *               To store them to global memory is a finding (TRAIT_NEEDS_DEFINED), as are atomics on undefined memory, except swap.
 *               Scratch is taken as defined.
 *   flat        only global addresses; addresses of the LDS and scratch apertures are in no allocation and thus findings.
 *   buffer      raw buffers: stride 0, no swizzle, no added thread id, no format; bounds by num_records for each dword, or for a whole
 *               atomic (RDNA3 ISA 9.1.5, CDNA3 ISA 9.1.5: range checking). */
#include <immintrin.h>
#include <string.h>

#include "gfxsim.h"
#include "numbers.h"

#define ALWAYS_INLINE inline __attribute__((always_inline))
#define ALIGNED __attribute__((aligned(64)))

struct access {
    uint64_t address[MAX_LANES] ALIGNED;         /* for lanes not in mask: the address of some lane in it */
    uint64_t mask;                               /* lanes that access memory */
    uint64_t zero;                               /* lanes beyond a buffer's end */
    uint64_t first, end;                         /* all accessed bytes lie in it */
    uint32_t bytes;
};

/* ---- addresses ---- */

static bool is_flat(const struct inst *i)   { return i->op->name[0] == 'f'; }
static bool is_buffer(const struct inst *i) { return i->op->name[0] == 'b'; }

/* A scalar operand as 32 bits: an offset. */
static uint32_t scalar32(const struct wave *w, const struct operand *o)
{
    if (o->kind == OPERAND_S) return w->s[o->reg];
    return o->kind == OPERAND_INT || o->kind == OPERAND_LITERAL ? (uint32_t)o->number : 0;
}

static ALWAYS_INLINE void addresses_n(uint64_t *restrict out, const uint32_t *restrict low, const uint32_t *restrict high, uint64_t base,
                                      const uint32_t n)
{
    if (high == NULL) for (uint32_t l = 0; l < n; l++) out[l] = base + low[l];
    else for (uint32_t l = 0; l < n; l++) out[l] = base + ((uint64_t)high[l] << 32 | low[l]);
}

/* Global and flat: 64 bits in vector registers, or 64 in scalar and 32 in vector registers (RDNA3 ISA 11.1, CDNA3 ISA 10.2). */
static bool global_addresses(struct wave *w, const struct inst *i, const struct operand *vaddr, const struct operand *saddr,
                             struct access *a)
{
    const bool scalar = saddr != NULL && saddr->kind == OPERAND_S;
    if (vaddr->kind != OPERAND_V || (scalar ? saddr->n != 2 || vaddr->n != 1 : vaddr->n != 2)) {
        report(w, i, FINDING_UNKNOWN, -1, "a form of address that is not modelled");
        return false;
    }
    const uint64_t base = (uint64_t)(int64_t)i->offset + (scalar ? sgpr_read(w, saddr->reg, 2) : 0);
    const uint32_t *low = vgpr(w, vaddr->reg), *high = scalar ? NULL : vgpr(w, vaddr->reg + 1u);
    if (w->lanes == 64) addresses_n(a->address, low, high, base, 64);
    else addresses_n(a->address, low, high, base, 32);
    a->mask = wave_exec(w);
    a->zero = 0;
    return true;
}

/* A buffer resource is 128 bits (RDNA3 ISA table 43, CDNA3 ISA table 38): base 47:0, stride 61:48, num_records 95:64, flags. */
static bool buffer_addresses(struct wave *w, const struct inst *i, const struct operand *vaddr, const struct operand *rsrc,
                             const struct operand *soffset, uint32_t piece, bool whole, struct access *a)
{
    const uint32_t *v = rsrc->kind == OPERAND_S && rsrc->n == 4 ? w->s + rsrc->reg : NULL;
    const struct isa *isa = w->group->launch->chip->isa;
    const bool raw = v != NULL && v[1] >> 16 == 0 && (v[3] & isa->raw_mask) == isa->raw;
    if (!raw || (i->flags & (FLAG_IDXEN | FLAG_LDS)) != 0) {
        report(w, i, FINDING_UNKNOWN, -1,
               "only raw buffers are modelled: no index, stride, swizzle or thread id, bounds by bytes, not to LDS");
        return false;
    }
    const uint64_t base = (uint64_t)(v[1] & 0xffffu) << 32 | v[0], records = v[2];
    const uint64_t fixed = (uint64_t)scalar32(w, soffset) + (uint32_t)i->offset + (whole ? 0 : piece);
    const uint32_t bytes = whole ? a->bytes : i->op->bytes < 4 ? i->op->bytes : 4;
    const uint32_t *offset = (i->flags & FLAG_OFFEN) != 0 && vaddr->kind == OPERAND_V ? vgpr(w, vaddr->reg) : NULL;
    a->mask = wave_exec(w);
    a->zero = 0;
    for (uint32_t l = 0; l < w->lanes; l++) {
        const uint64_t at = fixed + (offset != NULL ? offset[l] : 0);
        a->address[l] = base + at;
        if (at + bytes > records) a->zero |= 1ull << l;
    }
    a->zero &= a->mask;
    a->mask &= ~a->zero;
    return true;
}

/* ---- checks ---- */

static ALWAYS_INLINE void span_n(const uint64_t *address, const uint32_t n, int64_t *low, int64_t *high, uint64_t *bits)
{
    int64_t lo = INT64_MAX, hi = INT64_MIN;      /* as signed numbers, which vectorise; addresses are below 2^47, all else is out of bounds
                                                  * anyway */
    uint64_t all = 0;
    for (uint32_t l = 0; l < n; l++) {
        const int64_t at = (int64_t)address[l];
        lo = at < lo ? at : lo;
        hi = at > hi ? at : hi;
        all |= address[l];
    }
    *low = lo, *high = hi, *bits = all;
}

static void drop(struct access *a, uint32_t lane) { a->mask &= ~(1ull << lane); }

static void check_bounds(struct wave *w, const struct inst *i, struct access *a)
{
    char where[128];
    for (uint64_t left = a->mask; left != 0; left &= left - 1) {
        const uint32_t lane = (uint32_t)__builtin_ctzll(left);
        if (memory_reachable(a->address[lane], a->bytes, w->group->launch->reach)) continue;
        memory_describe(where, sizeof where, a->address[lane]);
        report(w, i, FINDING_BOUNDS, (int)lane, "%u bytes at 0x%llx, %s%s", a->bytes, (unsigned long long)a->address[lane], where,
               memory_reachable(a->address[lane], a->bytes, ~0u) ? PEER_CLOSED : "");
        drop(a, lane);
    }
}

static void check_alignment(struct wave *w, const struct inst *i, struct access *a, uint32_t alignment)
{
    char where[128];
    for (uint64_t left = a->mask; left != 0; left &= left - 1) {
        const uint32_t lane = (uint32_t)__builtin_ctzll(left);
        if (a->address[lane] % alignment == 0) continue;
        memory_describe(where, sizeof where, a->address[lane]);
        report(w, i, FINDING_ALIGNMENT, (int)lane, "%u bytes at 0x%llx, %s: not a multiple of %u", a->bytes,
               (unsigned long long)a->address[lane], where, alignment);
        drop(a, lane);
    }
}

/* Lanes outside mask get the address of a lane in it, so that loops need no conditions. */
static bool settle(const struct wave *w, struct access *a)
{
    if (a->mask == 0) return false;
    const uint64_t some = a->address[__builtin_ctzll(a->mask)];
    if (a->mask != lanes_mask(w->lanes))
        for (uint32_t l = 0; l < w->lanes; l++) a->address[l] = (a->mask >> l & 1) != 0 ? a->address[l] : some;
    return true;
}

/* Returns false if no lane is left. */
static bool check_access(struct wave *w, const struct inst *i, struct access *a, uint32_t alignment)
{
    int64_t low, high;
    uint64_t bits;
    if (!settle(w, a)) return false;
    if (w->lanes == 64) span_n(a->address, 64, &low, &high, &bits);
    else span_n(a->address, 32, &low, &high, &bits);
    a->first = (uint64_t)low;
    a->end = (uint64_t)high + a->bytes;
    if (__builtin_expect(bits % alignment == 0 && high - low <= (int64_t)MEMORY_RANGE &&
                         memory_reachable(a->first, a->end - a->first, w->group->launch->reach), true))
        return true;
    check_bounds(w, i, a);
    if (bits % alignment != 0) check_alignment(w, i, a, alignment);
    if (!settle(w, a)) return false;
    a->first = UINT64_MAX, a->end = 0;
    for (uint32_t l = 0; l < w->lanes; l++) {
        a->first = a->address[l] < a->first ? a->address[l] : a->first;
        a->end = a->address[l] + a->bytes > a->end ? a->address[l] + a->bytes : a->end;
    }
    return true;
}

/* ---- counters ---- */

enum { UNIQUE_BYTES = 64 };

/* Number of lines that this launch has not accessed before. */
static uint64_t first_touches(struct wave *w, const struct access *a)
{
    static uint32_t *touched[MAX_CHIPS];         /* [MEMORY_RANGE / UNIQUE_BYTES] number of the launch that read it last; only its used
                                                  * pages cost memory */
    const struct launch *l = w->group->launch;
    uint32_t *table = __atomic_load_n(&touched[l->device], __ATOMIC_ACQUIRE);
    struct channel_steps *steps = w->group->steps;
    const uint32_t together = steps != NULL ? l->channels.interleave / a->bytes : MAX_LANES;        /* lanes of a piece */
    uint64_t n = 0;
    uint32_t lane = 0;
    if (table == NULL) {
        table = memory_side_table(MEMORY_RANGE / UNIQUE_BYTES * sizeof *table);
        uint32_t *expect = NULL;
        if (!__atomic_compare_exchange_n(&touched[l->device], &expect, table, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) table = expect;
    }
    for (uint64_t left = a->mask; left != 0; left &= left - 1, lane++) {
        const uint64_t at = a->address[__builtin_ctzll(left)] - memory_base;
        for (uint64_t line = at / UNIQUE_BYTES; line <= (at + a->bytes - 1) / UNIQUE_BYTES; line++) {
            if (table[line] == l->number || __atomic_exchange_n(&table[line], l->number, __ATOMIC_RELAXED) == l->number) continue;
            n++;
            if (steps != NULL) channels_add(steps, &l->channels, w->pieces + lane / together, line * UNIQUE_BYTES, UNIQUE_BYTES);
        }
    }
    w->pieces += (lane + together - 1) / together;
    return n * UNIQUE_BYTES;
}

static uint32_t width_index(uint32_t bytes) { return bytes >= 12 ? 4 : bytes >= 8 ? 3 : bytes >= 4 ? 2 : bytes - 1; }

static void count_load(struct wave *w, const struct access *a)
{
    struct counters *c = w->group->counters;
    c->loaded_bytes += (uint64_t)a->bytes * (uint32_t)__builtin_popcountll(a->mask);
    c->load_accesses[width_index(a->bytes)]++;
    if (!w->group->launch->stats || a->mask == 0) return;
    c->load_lines += lines_touched(a->address, a->mask, a->bytes, LINE_BYTES);
    c->unique_bytes += first_touches(w, a);
}

/* Bytes that go to other chips.  A wave's lanes are nearly always in one allocation. */
static uint64_t to_peers(const struct wave *w, const struct access *a)
{
    struct memory_place p;
    uint32_t lanes = 0;
    for (uint64_t left = a->mask; left != 0; left &= left - 1)
        lanes += memory_find(a->address[__builtin_ctzll(left)], &p) && p.chip != w->group->launch->device;
    return (uint64_t)a->bytes * lanes;
}

static void count_store(const struct wave *w, const struct access *a)
{
    struct counters *c = w->group->counters;
    c->stored_bytes += (uint64_t)a->bytes * (uint32_t)__builtin_popcountll(a->mask);
    c->store_accesses[width_index(a->bytes)]++;
    if (w->group->launch->several) c->peer_bytes += to_peers(w, a);
    if (w->group->launch->stats && a->mask != 0) c->store_lines += lines_touched(a->address, a->mask, a->bytes, LINE_BYTES);
}

static void changed(const struct wave *w) { __atomic_fetch_add(&w->group->launch->stores, 1, __ATOMIC_RELAXED); }

/* Starts a load: its destination registers await it. */
static void started_load(struct wave *w, const struct inst *i)
{
    w->count[WAIT_VM].started++;
    if (is_flat(i)) w->count[WAIT_LGKM].started++;
    if (i->n_dst > 0) vgpr_await(w, i->dst[0].reg, i->dst[0].n, true, is_flat(i));
}

static void started_store(struct wave *w, const struct inst *i)
{
    w->count[w->group->launch->chip->isa->stores].started++;
    if (is_flat(i)) w->count[WAIT_LGKM].started++;
}

/* CDNA3: sc1 and sc0 as a number.  RDNA: glc loads bypass the L0 and L1; all stores go to the L2 (LLVM AMDGPUUsage, memory models GFX942
 * and GFX11). */
static enum scope load_scope(const struct wave *w, const struct inst *i)
{
    const bool sc0 = (i->flags & FLAG_SC0) != 0;
    if (!w->group->launch->chip->isa->scopes) return sc0 ? SCOPE_DEVICE : SCOPE_WAVE;
    return (enum scope)(((i->flags & FLAG_SC1) != 0 ? 2 : 0) + (sc0 ? 1 : 0));
}

static enum scope store_scope(const struct wave *w, const struct inst *i)
{
    return w->group->launch->chip->isa->scopes ? load_scope(w, i) : SCOPE_DEVICE;
}

static enum scope atomic_scope(const struct wave *w, const struct inst *i)
{
    return w->group->launch->chip->isa->scopes && (i->flags & FLAG_SC1) != 0 ? SCOPE_SYSTEM : SCOPE_DEVICE;
}

/* Reports accesses to memory that other chips may use.  RDNA's instructions are the same for device and system scope. */
static void tell_peers(struct wave *w, const struct inst *i, const struct access *a, uint32_t access, enum scope scope)
{
    const struct launch *l = w->group->launch;
    const enum scope system = l->chip->isa->scopes ? SCOPE_SYSTEM : SCOPE_DEVICE;
    if (l->several) peers_access(w, i, a->address, a->mask, a->bytes, a->first, a->end, access, scope >= system);
}

/* ---- loads ---- */

/* Conversion of loaded bytes to registers.  D16: half of a register, the other half stays (RDNA3 ISA 11.x, GLOBAL_LOAD_D16_*). */
enum form { WORDS, U8, I8, U16, I16, LOW_U8, LOW_I8, LOW_B16, HIGH_U8, HIGH_I8, HIGH_B16 };
static uint32_t form_bytes(enum form f, uint32_t words)
{
    switch (f) {
    case WORDS: return words * 4;
    case U8: case I8: case LOW_U8: case LOW_I8: case HIGH_U8: case HIGH_I8: return 1;
    default: return 2;
    }
}

/* A value and its tag (templates/gpu/collective.h) must be one access for the threads that run other groups, too. */
typedef volatile uint64_t __attribute__((aligned(4), may_alias)) whole64;

static ALWAYS_INLINE void gather_words(uint32_t *restrict rows, const uint64_t *restrict address, const uint32_t words, const uint32_t n)
{
    for (uint32_t l = 0; l < n; l++) {
        uint32_t at[4];
        if (words == 2) {
            const uint64_t x = *(const whole64 *)(uintptr_t)address[l];
            at[0] = (uint32_t)x, at[1] = (uint32_t)(x >> 32);
        } else memcpy(at, (const void *)(uintptr_t)address[l], words * 4);
        for (uint32_t k = 0; k < words; k++) rows[k * n + l] = at[k];
    }
}

/* Four lanes at a time: a 4 x 4 transposition. */
static ALWAYS_INLINE void gather_quads(uint32_t *restrict rows, const uint64_t *restrict address, const uint32_t n)
{
    for (uint32_t l = 0; l < n; l += 4) {
        __m128 lane[4];
        for (uint32_t k = 0; k < 4; k++) lane[k] = _mm_loadu_ps((const float *)(uintptr_t)address[l + k]);
        _MM_TRANSPOSE4_PS(lane[0], lane[1], lane[2], lane[3]);
        for (uint32_t k = 0; k < 4; k++) _mm_store_ps((float *)(void *)(rows + k * n + l), lane[k]);
    }
}

static void gather_any(uint32_t *rows, const uint64_t *address, uint32_t words, uint32_t n)
{
    switch (words << 8 | n) {
    case 0x120: gather_words(rows, address, 1, 32); break;
    case 0x140: gather_words(rows, address, 1, 64); break;
    case 0x220: gather_words(rows, address, 2, 32); break;
    case 0x240: gather_words(rows, address, 2, 64); break;
    case 0x320: gather_words(rows, address, 3, 32); break;
    case 0x340: gather_words(rows, address, 3, 64); break;
    case 0x420: gather_quads(rows, address, 32); break;
    default:    gather_quads(rows, address, 64); break;
    }
}

static void gather_small(uint32_t *rows, const uint64_t *address, enum form f, uint32_t n)
{
    for (uint32_t l = 0; l < n; l++) {
        const void *p = (const void *)(uintptr_t)address[l];
        uint8_t byte;
        uint16_t half;
        memcpy(&byte, p, 1);
        if (form_bytes(f, 1) == 2) memcpy(&half, p, 2);
        else half = f == LOW_I8 || f == HIGH_I8 || f == I8 ? (uint16_t)(int8_t)byte : byte;
        rows[l] = f == I8 || f == I16 ? (uint32_t)(int16_t)half : half;
    }
}

/* Keeps the other half of the destination. */
static void merge_halves(struct wave *w, const struct inst *i, uint32_t *rows, enum form f)
{
    const uint32_t *old = vgpr(w, i->dst[0].reg);
    const bool high = f >= HIGH_U8;
    for (uint32_t l = 0; l < w->lanes; l++)
        rows[l] = high ? rows[l] << 16 | (old[l] & 0xffffu) : (old[l] & 0xffff0000u) | (rows[l] & 0xffffu);
}

/* Loads a->bytes in the lanes of a->mask to rows[][lanes], which are poisoned before; *undefined: a mask for each register. */
static void load_piece(struct wave *w, const struct inst *i, struct access *a, enum form f, uint32_t *rows, uint64_t *undefined)
{
    const uint32_t words = (a->bytes + 3) / 4, alignment = a->bytes < 4 ? a->bytes : 4;
    memset(undefined, 0, words * sizeof *undefined);
    if (!check_access(w, i, a, alignment)) {
        memset(rows, 0xff, words * w->lanes * sizeof *rows);
        return;
    }
    tell_peers(w, i, a, PEER_LOAD, load_scope(w, i));
    if (f == WORDS) gather_any(rows, a->address, words, w->lanes);
    else gather_small(rows, a->address, f, w->lanes);
    const uint64_t some = memory_undefined_lanes(a->address, a->mask, a->bytes, a->first, a->end);
    if (words == 1) undefined[0] = some;
    else for (uint32_t k = 0; some != 0 && k < words; k++) {
        uint64_t at[MAX_LANES];
        for (uint32_t l = 0; l < w->lanes; l++) at[l] = a->address[l] + 4 * k;
        undefined[k] = memory_undefined_lanes(at, some, 4, a->first, a->end);
    }
    if (order_quiet(a->first, a->end)) return;
    const uint64_t suspects = order_load(w, i, a->address, a->mask, a->bytes, load_scope(w, i));
    for (uint32_t k = 0; k < words; k++) undefined[k] |= suspects;
}

static void write_loaded(struct wave *w, const struct inst *i, const uint32_t *rows, const uint64_t *undefined, uint32_t words)
{
    const uint64_t mask = wave_exec(w);
    uint64_t any = 0;
    for (uint32_t k = 0; k < words; k++) any |= undefined[k];
    if (any == 0) vgpr_write(w, i->dst[0].reg, words, rows, mask, 0);
    else for (uint32_t k = 0; k < words; k++) vgpr_write(w, i->dst[0].reg + k, 1, rows + k * w->lanes, mask, undefined[k]);
    started_load(w, i);
}

static void load(struct wave *w, const struct inst *i, enum form f)
{
    uint32_t rows[4 * MAX_LANES] ALIGNED;
    uint64_t undefined[4];
    struct access a;
    a.bytes = form_bytes(f, i->dst[0].n);
    if (!global_addresses(w, i, &i->src[0], i->n_src > 1 ? &i->src[1] : NULL, &a)) return;
    load_piece(w, i, &a, f, rows, undefined);
    count_load(w, &a);
    if (f >= LOW_U8) merge_halves(w, i, rows, f);
    write_loaded(w, i, rows, undefined, (a.bytes + 3) / 4);
}

/* Dword by dword, because each is checked against num_records separately. */
static void load_buffer(struct wave *w, const struct inst *i, enum form f)
{
    uint32_t rows[4 * MAX_LANES] ALIGNED;
    uint64_t undefined[4];
    struct access a;
    const uint32_t bytes = form_bytes(f, i->dst[0].n), words = (bytes + 3) / 4;
    for (uint32_t k = 0; k < words; k++) {
        a.bytes = bytes < 4 ? bytes : 4;
        if (!buffer_addresses(w, i, &i->src[0], &i->src[1], &i->src[2], 4 * k, false, &a)) return;
        load_piece(w, i, &a, f, rows + k * w->lanes, undefined + k);
        for (uint64_t left = a.zero; left != 0; left &= left - 1) rows[k * w->lanes + (uint32_t)__builtin_ctzll(left)] = 0;
        if (k == 0) count_load(w, &(struct access){ .mask = 0, .bytes = bytes });
        w->group->counters->loaded_bytes += (uint64_t)a.bytes * (uint32_t)__builtin_popcountll(a.mask);
    }
    if (f >= LOW_U8) merge_halves(w, i, rows, f);
    write_loaded(w, i, rows, undefined, words);
}

/* To LDS: LDS address = M0[15:0] + offset of the instruction + 4 lane (CDNA3 ISA 10.x; LLVM IntrinsicsAMDGPU,
 * llvm.amdgcn.global.load.lds). */
static void run_load_lds(struct wave *w, const struct inst *i)
{
    uint32_t rows[MAX_LANES] ALIGNED, to[MAX_LANES];
    uint64_t undefined[1];
    struct access a;
    a.bytes = 4;
    if (lds_store_direct == NULL) {
        report(w, i, FINDING_UNKNOWN, -1, "loads to LDS are not modelled");
        return;
    }
    if (!global_addresses(w, i, &i->src[0], i->n_src > 1 ? &i->src[1] : NULL, &a)) return;
    load_piece(w, i, &a, WORDS, rows, undefined);
    count_load(w, &a);
    for (uint32_t l = 0; l < w->lanes; l++) to[l] = (w->s[M0] & 0xffffu) + (uint32_t)i->offset + 4 * l;
    started_load(w, i);
    lds_store_direct(w, i, to, a.mask, rows, undefined[0]);
}

/* ---- stores ---- */

/* The stored rows: the registers themselves, or their halves. */
static const uint32_t *stored_rows(struct wave *w, const struct operand *data, bool high, uint32_t *half)
{
    const uint32_t *rows = vgpr(w, data->reg);
    if (!high) return rows;
    for (uint32_t l = 0; l < w->lanes; l++) half[l] = rows[l] >> 16;
    return half;
}

static ALWAYS_INLINE void scatter_words(const uint32_t *rows, const uint64_t *address, uint64_t mask, const uint32_t words, uint32_t n)
{
    for (uint64_t left = mask; left != 0; left &= left - 1) {
        const uint32_t l = (uint32_t)__builtin_ctzll(left);
        uint32_t at[4];
        for (uint32_t k = 0; k < words; k++) at[k] = rows[k * n + l];
        if (words == 2) *(whole64 *)(uintptr_t)address[l] = (uint64_t)at[1] << 32 | at[0];
        else memcpy((void *)(uintptr_t)address[l], at, words * 4);
    }
}

static void scatter(const uint32_t *rows, const uint64_t *address, uint64_t mask, uint32_t bytes, uint32_t n)
{
    switch (bytes) {
    case 4:  scatter_words(rows, address, mask, 1, n); return;
    case 8:  scatter_words(rows, address, mask, 2, n); return;
    case 12: scatter_words(rows, address, mask, 3, n); return;
    case 16: scatter_words(rows, address, mask, 4, n); return;
    default:
        for (uint64_t left = mask; left != 0; left &= left - 1) {
            const uint32_t l = (uint32_t)__builtin_ctzll(left);
            memcpy((void *)(uintptr_t)address[l], &rows[l], bytes);
        }
    }
}

static void store_piece(struct wave *w, const struct inst *i, struct access *a, const uint32_t *rows)
{
    if (!check_access(w, i, a, a->bytes < 4 ? a->bytes : 4)) return;
    tell_peers(w, i, a, PEER_STORE, store_scope(w, i));
    order_store_rows(w, i, a->address, a->mask, a->bytes, store_scope(w, i), rows);
    scatter(rows, a->address, a->mask, a->bytes, w->lanes);
    memory_define_lanes(a->address, a->mask & ~w->source_undefined, a->bytes, a->first, a->end);
    for (uint64_t left = a->mask & w->source_undefined; left != 0; left &= left - 1)      /* with FORGE_GFXSIM_IGNORE=undefined */
        memory_set_defined(a->address[__builtin_ctzll(left)], a->bytes, false);
    changed(w);
}

static void store(struct wave *w, const struct inst *i, uint32_t bytes, bool high)
{
    uint32_t half[MAX_LANES];
    struct access a;
    a.bytes = bytes;
    if (!global_addresses(w, i, &i->src[0], i->n_src > 2 ? &i->src[2] : NULL, &a)) return;
    started_store(w, i);
    store_piece(w, i, &a, stored_rows(w, &i->src[1], high, half));
    count_store(w, &a);
}

static void store_buffer(struct wave *w, const struct inst *i, uint32_t bytes, bool high)
{
    uint32_t half[MAX_LANES];
    struct access a;
    const uint32_t *rows = stored_rows(w, &i->src[0], high, half);
    started_store(w, i);
    count_store(w, &(struct access){ .mask = 0, .bytes = bytes });
    for (uint32_t k = 0; k < (bytes + 3) / 4; k++) {
        a.bytes = bytes < 4 ? bytes : 4;
        if (!buffer_addresses(w, i, &i->src[1], &i->src[2], &i->src[3], 4 * k, false, &a)) return;
        store_piece(w, i, &a, rows + k * w->lanes);
        w->group->counters->stored_bytes += (uint64_t)a.bytes * (uint32_t)__builtin_popcountll(a.mask);
        if (w->group->launch->several) w->group->counters->peer_bytes += to_peers(w, &a);
    }
}

/* ---- atomics ---- */

typedef uint64_t apply_fn(uint64_t old, uint64_t data, uint64_t compare);

static uint64_t row_value(const struct wave *w, const uint32_t *rows, uint32_t lane, uint32_t bytes)
{
    return bytes == 8 ? (uint64_t)rows[w->lanes + lane] << 32 | rows[lane] : rows[lane];
}

/* Changes the memory of one lane by the host's own atomics, because other threads run other groups. */
static uint64_t exchange(uint64_t address, uint32_t bytes, apply_fn *apply, uint64_t data, uint64_t compare, bool *change)
{
    if (bytes == 8) {
        uint64_t *p = (uint64_t *)(uintptr_t)address, old = __atomic_load_n(p, __ATOMIC_SEQ_CST), new;
        do new = apply(old, data, compare); while (!__atomic_compare_exchange_n(p, &old, new, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
        *change |= new != old;
        return old;
    }
    uint32_t *p = (uint32_t *)(uintptr_t)address, old = __atomic_load_n(p, __ATOMIC_SEQ_CST), new;
    do new = (uint32_t)apply(old, data, compare);
    while (!__atomic_compare_exchange_n(p, &old, new, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    *change |= new != old;
    return old;
}

/* Lanes one after another, in order; the ISA defines no order. */
static void atomic_lanes(struct wave *w, struct access *a, const uint32_t *data, apply_fn *apply, bool compares, uint32_t *rows)
{
    bool change = false;
    for (uint64_t left = a->mask; left != 0; left &= left - 1) {
        const uint32_t l = (uint32_t)__builtin_ctzll(left), words = a->bytes / 4;
        const uint64_t compare = compares ? row_value(w, data + words * w->lanes, l, a->bytes) : 0;
        const uint64_t old = exchange(a->address[l], a->bytes, apply, row_value(w, data, l, a->bytes), compare, &change);
        rows[l] = (uint32_t)old;
        if (words == 2) rows[w->lanes + l] = (uint32_t)(old >> 32);
    }
    if (change) changed(w);                      /* a wave that only reads makes no progress */
}

static bool atomic_addresses(struct wave *w, const struct inst *i, const struct operand **data, struct access *a)
{
    if (!is_buffer(i)) {
        *data = &i->src[1];
        return global_addresses(w, i, &i->src[0], i->n_src > 2 ? &i->src[2] : NULL, a);
    }
    const bool returns = i->n_dst > 0;           /* one register is both data and result, and printed once */
    *data = returns ? &i->dst[0] : &i->src[0];
    const struct operand *o = &i->src[returns ? 0 : 1];
    return buffer_addresses(w, i, o, o + 1, o + 2, 0, true, a);
}

static void atomic(struct wave *w, const struct inst *i, uint32_t bytes, apply_fn *apply, bool compares, bool swaps)
{
    uint32_t rows[2 * MAX_LANES] ALIGNED;
    struct access a;
    const struct operand *data;
    const bool returns = i->n_dst > 0;
    a.bytes = bytes;
    if (!atomic_addresses(w, i, &data, &a)) return;
    if (!returns) started_store(w, i);
    memset(rows, 0xff, sizeof rows);
    uint64_t undefined = 0;
    if (check_access(w, i, &a, bytes)) {
        undefined = memory_undefined_lanes(a.address, a.mask, bytes, a.first, a.end);
        if (undefined != 0 && !swaps)
            report(w, i, FINDING_UNDEFINED, __builtin_ctzll(undefined), "an atomic on memory that was never written");
        tell_peers(w, i, &a, PEER_LOAD | PEER_STORE, atomic_scope(w, i));
        order_lock();
        order_atomic(w, i, a.address, a.mask, bytes, atomic_scope(w, i), returns);
        atomic_lanes(w, &a, vgpr(w, data->reg), apply, compares, rows);
        order_unlock();
        if (swaps) memory_define_lanes(a.address, a.mask & ~w->source_undefined, bytes, a.first, a.end);
    }
    count_store(w, &a);
    if (!returns) return;
    for (uint64_t left = a.zero; left != 0; left &= left - 1)
        for (uint32_t k = 0; k < bytes / 4; k++) rows[k * w->lanes + (uint32_t)__builtin_ctzll(left)] = 0;
    vgpr_write(w, i->dst[0].reg, bytes / 4, rows, wave_exec(w), undefined);
    started_load(w, i);
}

static uint64_t add_f32(uint64_t a, uint64_t b) { return f32_bits(bits_f32((uint32_t)a) + bits_f32((uint32_t)b)); }
static uint64_t add_f64(uint64_t a, uint64_t b) { return f64_bits(bits_f64(a) + bits_f64(b)); }
static uint32_t add_f16(uint32_t a, uint32_t b) { return f32_to_f16(f16_to_f32(a & 0xffffu) + f16_to_f32(b & 0xffffu)) & 0xffffu; }
static uint32_t add_bf16(uint32_t a, uint32_t b) { return f32_to_bf16(bf16_to_f32(a & 0xffffu) + bf16_to_f32(b & 0xffffu)) & 0xffffu; }
static uint64_t less_f32(uint64_t a, uint64_t b) { return bits_f32((uint32_t)a) < bits_f32((uint32_t)b); }

/* old: memory, x: data, y: the value to compare with, of cmpswap (RDNA3 ISA 16.12, CDNA3 ISA 12.x; the pseudocode of GLOBAL_ATOMIC_*). */
#define ATOMIC(name, n, compares, swaps, result) \
    static uint64_t apply_##name(uint64_t old, uint64_t x, uint64_t y) { (void)old, (void)y; return (result); } \
    static void run_##name(struct wave *w, const struct inst *i) { atomic(w, i, n, apply_##name, compares, swaps); }

ATOMIC(add_u32,     4, false, false, old + x)
ATOMIC(sub_u32,     4, false, false, old - x)
ATOMIC(csub_u32,    4, false, false, old < x ? 0 : old - x)
ATOMIC(min_i32,     4, false, false, (int32_t)x < (int32_t)old ? x : old)
ATOMIC(max_i32,     4, false, false, (int32_t)x > (int32_t)old ? x : old)
ATOMIC(min_u32,     4, false, false, x < old ? x : old)
ATOMIC(max_u32,     4, false, false, x > old ? x : old)
ATOMIC(and_b32,     4, false, false, old & x)
ATOMIC(or_b32,      4, false, false, old | x)
ATOMIC(xor_b32,     4, false, false, old ^ x)
ATOMIC(swap_b32,    4, false, true,  x)
ATOMIC(cmpswap_b32, 4, true,  false, old == y ? x : old)
ATOMIC(cmpswap_f32, 4, true,  false, bits_f32((uint32_t)old) == bits_f32((uint32_t)y) ? x : old)
ATOMIC(inc_u32,     4, false, false, old >= x ? 0 : old + 1)
ATOMIC(dec_u32,     4, false, false, old == 0 || old > x ? x : old - 1)
ATOMIC(add_f32,     4, false, false, add_f32(old, x))
ATOMIC(min_f32,     4, false, false, less_f32(x, old) ? x : old)
ATOMIC(max_f32,     4, false, false, less_f32(old, x) ? x : old)
ATOMIC(pk_add_f16,  4, false, false, add_f16((uint32_t)old, (uint32_t)x) | add_f16((uint32_t)old >> 16, (uint32_t)x >> 16) << 16)
ATOMIC(pk_add_bf16, 4, false, false, add_bf16((uint32_t)old, (uint32_t)x) | add_bf16((uint32_t)old >> 16, (uint32_t)x >> 16) << 16)
ATOMIC(add_u64,     8, false, false, old + x)
ATOMIC(sub_u64,     8, false, false, old - x)
ATOMIC(min_i64,     8, false, false, (int64_t)x < (int64_t)old ? x : old)
ATOMIC(max_i64,     8, false, false, (int64_t)x > (int64_t)old ? x : old)
ATOMIC(min_u64,     8, false, false, x < old ? x : old)
ATOMIC(max_u64,     8, false, false, x > old ? x : old)
ATOMIC(and_b64,     8, false, false, old & x)
ATOMIC(or_b64,      8, false, false, old | x)
ATOMIC(xor_b64,     8, false, false, old ^ x)
ATOMIC(swap_b64,    8, false, true,  x)
ATOMIC(cmpswap_b64, 8, true,  false, old == y ? x : old)
ATOMIC(inc_u64,     8, false, false, old >= x ? 0 : old + 1)
ATOMIC(dec_u64,     8, false, false, old == 0 || old > x ? x : old - 1)
ATOMIC(add_f64,     8, false, false, add_f64(old, x))
ATOMIC(min_f64,     8, false, false, bits_f64(x) < bits_f64(old) ? x : old)
ATOMIC(max_f64,     8, false, false, bits_f64(x) > bits_f64(old) ? x : old)

/* ---- scratch ---- */

/* A lane's offset in its own part of scratch (CDNA3 ISA 10.x, RDNA3 ISA 11.x: vaddr + saddr + offset); returns false after a finding. */
static bool scratch_offset(struct wave *w, const struct inst *i, const struct operand *vaddr, const struct operand *saddr, uint32_t lane,
                           uint32_t bytes, uint64_t *out)
{
    const uint32_t size = w->group->launch->kernel->scratch_bytes, alignment = bytes < 4 ? bytes : 4;
    const int64_t at = (int64_t)(vaddr->kind == OPERAND_V ? vgpr(w, vaddr->reg)[lane] : 0) + scalar32(w, saddr) + i->offset;
    if (at < 0 || at + bytes > size || w->scratch == NULL) {
        report(w, i, FINDING_BOUNDS, (int)lane, "%u bytes at byte %lld of the lane's %u bytes of scratch", bytes, (long long)at, size);
        return false;
    }
    if (at % alignment != 0) {
        report(w, i, FINDING_ALIGNMENT, (int)lane, "%u bytes at byte %lld of scratch: not a multiple of %u", bytes, (long long)at,
               alignment);
        return false;
    }
    *out = (uint64_t)lane * size + (uint64_t)at;
    return true;
}

static bool scratch_address_defined(struct wave *w, const struct inst *i, const struct operand *vaddr, const struct operand *saddr)
{
    const uint64_t bad = vaddr->kind == OPERAND_V ? w->undefined[vaddr->reg] & wave_exec(w) : 0;
    if (bad == 0 && scalar_source_undefined(w, saddr) == 0) return true;
    return !report(w, i, FINDING_UNDEFINED, bad != 0 ? __builtin_ctzll(bad) : -1,
                   "the address was never written, or was computed from undefined values");
}

static void load_scratch(struct wave *w, const struct inst *i, enum form f)
{
    uint32_t rows[4 * MAX_LANES] ALIGNED;
    const uint32_t bytes = form_bytes(f, i->dst[0].n), words = (bytes + 3) / 4;
    const uint64_t none[4] = { 0 };
    if (!scratch_address_defined(w, i, &i->src[0], &i->src[1])) return;
    memset(rows, 0xff, sizeof rows);
    for (uint64_t left = wave_exec(w); left != 0; left &= left - 1) {
        const uint32_t l = (uint32_t)__builtin_ctzll(left);
        uint64_t at;
        if (!scratch_offset(w, i, &i->src[0], &i->src[1], l, bytes, &at)) continue;
        if (f != WORDS) {
            const uint64_t address = (uint64_t)(uintptr_t)(w->scratch + at);
            gather_small(rows + l, &address, f, 1);
        } else {
            uint32_t value[4];
            memcpy(value, w->scratch + at, bytes);
            for (uint32_t k = 0; k < words; k++) rows[k * w->lanes + l] = value[k];
        }
    }
    if (f >= LOW_U8) merge_halves(w, i, rows, f);
    write_loaded(w, i, rows, none, words);
}

static void store_scratch(struct wave *w, const struct inst *i, uint32_t bytes, bool high)
{
    uint32_t half[MAX_LANES];
    const uint32_t *rows = stored_rows(w, &i->src[1], high, half);
    if (!scratch_address_defined(w, i, &i->src[0], &i->src[2])) return;
    started_store(w, i);
    for (uint64_t left = wave_exec(w); left != 0; left &= left - 1) {
        const uint32_t l = (uint32_t)__builtin_ctzll(left);
        uint64_t at, address;
        if (!scratch_offset(w, i, &i->src[0], &i->src[2], l, bytes, &at)) continue;
        address = (uint64_t)(uintptr_t)(w->scratch + at);
        scatter(rows + l, &address, 1, bytes, w->lanes);
    }
}

/* ---- caches (RDNA3 ISA 9.x, CDNA3 ISA 9.x: BUFFER_INV, BUFFER_WBL2) ---- */

/* vmcnt does not count buffer_inv here: LLVM does not count it either, and its waits do not rely on it. */
static void run_inv(struct wave *w, const struct inst *i) { order_invalidate(w, load_scope(w, i)); }
static void run_gl0_inv(struct wave *w, const struct inst *i) { (void)i; order_invalidate(w, SCOPE_GROUP); }
static void run_gl1_inv(struct wave *w, const struct inst *i) { (void)i; order_invalidate(w, SCOPE_DEVICE); }

static void run_wbl2(struct wave *w, const struct inst *i)
{
    w->count[WAIT_VM].started++;
    order_write_back(w, load_scope(w, i));
}

/* ---- the table ---- */

#define LOADS(form, f) \
    static void run_load_##form(struct wave *w, const struct inst *i) { load(w, i, f); } \
    static void run_buffer_load_##form(struct wave *w, const struct inst *i) { load_buffer(w, i, f); } \
    static void run_scratch_load_##form(struct wave *w, const struct inst *i) { load_scratch(w, i, f); }
LOADS(words, WORDS)
LOADS(u8, U8) LOADS(i8, I8) LOADS(u16, U16) LOADS(i16, I16)
LOADS(low_u8, LOW_U8) LOADS(low_i8, LOW_I8) LOADS(low_b16, LOW_B16) LOADS(high_u8, HIGH_U8) LOADS(high_i8, HIGH_I8)
LOADS(high_b16, HIGH_B16)

#define STORES(form, n, high) \
    static void run_store_##form(struct wave *w, const struct inst *i) { store(w, i, n, high); } \
    static void run_buffer_store_##form(struct wave *w, const struct inst *i) { store_buffer(w, i, n, high); } \
    static void run_scratch_store_##form(struct wave *w, const struct inst *i) { store_scratch(w, i, n, high); }
STORES(b8, 1, false) STORES(b16, 2, false) STORES(b32, 4, false) STORES(b64, 8, false) STORES(b96, 12, false) STORES(b128, 16, false)
STORES(high_b8, 1, true) STORES(high_b16, 2, true)

#define ROWS3 { T_ROWS, T_ROWS, T_ROWS }
/* name on CDNA, name on RDNA, function, bytes */
#define LOAD(cdna, rdna, form, n)  LOAD_ROWS(cdna, form, n), LOAD_ROWS(rdna, form, n)
#define LOAD_ROWS(name, form, n) \
    { "global_load_" name,  run_load_##form, NULL, CLASS_GLOBAL_LOAD, T_ROWS, ROWS3, n, TRAIT_NEEDS_DEFINED, NULL }, \
    { "flat_load_" name,    run_load_##form, NULL, CLASS_GLOBAL_LOAD, T_ROWS, ROWS3, n, TRAIT_NEEDS_DEFINED, NULL }, \
    { "buffer_load_" name,  run_buffer_load_##form, NULL, CLASS_GLOBAL_LOAD, T_ROWS, ROWS3, n, TRAIT_NEEDS_DEFINED, NULL }, \
    { "scratch_load_" name, run_scratch_load_##form, NULL, CLASS_SCRATCH, T_ROWS, ROWS3, n, TRAIT_OWN_DEFINED, NULL }
#define STORE(cdna, rdna, form, n) STORE_ROWS(cdna, form, n), STORE_ROWS(rdna, form, n)
#define STORE_ROWS(name, form, n) \
    { "global_store_" name,  run_store_##form, NULL, CLASS_GLOBAL_STORE, T_NONE, ROWS3, n, TRAIT_NEEDS_DEFINED | TRAIT_NO_DST, NULL }, \
    { "flat_store_" name,    run_store_##form, NULL, CLASS_GLOBAL_STORE, T_NONE, ROWS3, n, TRAIT_NEEDS_DEFINED | TRAIT_NO_DST, NULL }, \
    { "buffer_store_" name,  run_buffer_store_##form, NULL, CLASS_GLOBAL_STORE, T_NONE, ROWS3, n, TRAIT_NEEDS_DEFINED | TRAIT_NO_DST,      \
      NULL },                                                                                                                              \
    { "scratch_store_" name, run_scratch_store_##form, NULL, CLASS_SCRATCH, T_NONE, ROWS3, n, TRAIT_OWN_DEFINED | TRAIT_NO_DST, NULL }
#define ATOM(name, run, n) \
    { "global_atomic_" name, run_##run, NULL, CLASS_ATOMIC, T_ROWS, ROWS3, n, TRAIT_NEEDS_DEFINED | TRAIT_DST_IF_SC0, NULL }, \
    { "flat_atomic_" name,   run_##run, NULL, CLASS_ATOMIC, T_ROWS, ROWS3, n, TRAIT_NEEDS_DEFINED | TRAIT_DST_IF_SC0, NULL }, \
    { "buffer_atomic_" name, run_##run, NULL, CLASS_ATOMIC, T_ROWS, ROWS3, n, TRAIT_NEEDS_DEFINED | TRAIT_DST_IF_SC0 | TRAIT_READS_DST,    \
      NULL }
#define CACHE(name, run) { name, run, NULL, CLASS_OTHER, T_NONE, { T_NONE, T_NONE, T_NONE }, 0, TRAIT_NO_DST, NULL }

const struct op_info vmem_ops[] = {
    LOAD_ROWS("dword", words, 4), LOAD_ROWS("dwordx2", words, 8), LOAD_ROWS("dwordx3", words, 12), LOAD_ROWS("dwordx4", words, 16),
    LOAD_ROWS("b32", words, 4),   LOAD_ROWS("b64", words, 8),     LOAD_ROWS("b96", words, 12),     LOAD_ROWS("b128", words, 16),
    LOAD("ubyte",         "u8",         u8,      1), LOAD("sbyte",         "i8",         i8,       1),
    LOAD("ushort",        "u16",        u16,     2), LOAD("sshort",        "i16",        i16,      2),
    LOAD("ubyte_d16",     "d16_u8",     low_u8,  1), LOAD("ubyte_d16_hi",  "d16_hi_u8",  high_u8,  1),
    LOAD("sbyte_d16",     "d16_i8",     low_i8,  1), LOAD("sbyte_d16_hi",  "d16_hi_i8",  high_i8,  1),
    LOAD("short_d16",     "d16_b16",    low_b16, 2), LOAD("short_d16_hi",  "d16_hi_b16", high_b16, 2),
    STORE("byte",         "b8",         b8,      1), STORE("byte_d16_hi",  "d16_hi_b8",  high_b8,  1),
    STORE("short",        "b16",        b16,     2), STORE("short_d16_hi", "d16_hi_b16", high_b16, 2),
    STORE("dword",        "b32",        b32,     4), STORE("dwordx2",      "b64",        b64,      8),
    STORE("dwordx3",      "b96",        b96,    12), STORE("dwordx4",      "b128",       b128,    16),
    { "global_load_lds_dword", run_load_lds, NULL, CLASS_GLOBAL_LOAD, T_NONE, ROWS3, 4, TRAIT_NEEDS_DEFINED | TRAIT_NO_DST, "m0" },

    ATOM("add", add_u32, 4),         ATOM("add_u32", add_u32, 4),         ATOM("add_x2", add_u64, 8),         ATOM("add_u64", add_u64, 8),
    ATOM("sub", sub_u32, 4),         ATOM("sub_u32", sub_u32, 4),         ATOM("sub_x2", sub_u64, 8),         ATOM("sub_u64", sub_u64, 8),
    ATOM("smin", min_i32, 4),        ATOM("min_i32", min_i32, 4),         ATOM("smin_x2", min_i64, 8),        ATOM("min_i64", min_i64, 8),
    ATOM("smax", max_i32, 4),        ATOM("max_i32", max_i32, 4),         ATOM("smax_x2", max_i64, 8),        ATOM("max_i64", max_i64, 8),
    ATOM("umin", min_u32, 4),        ATOM("min_u32", min_u32, 4),         ATOM("umin_x2", min_u64, 8),        ATOM("min_u64", min_u64, 8),
    ATOM("umax", max_u32, 4),        ATOM("max_u32", max_u32, 4),         ATOM("umax_x2", max_u64, 8),        ATOM("max_u64", max_u64, 8),
    ATOM("and", and_b32, 4),         ATOM("and_b32", and_b32, 4),         ATOM("and_x2", and_b64, 8),         ATOM("and_b64", and_b64, 8),
    ATOM("or", or_b32, 4),           ATOM("or_b32", or_b32, 4),           ATOM("or_x2", or_b64, 8),           ATOM("or_b64", or_b64, 8),
    ATOM("xor", xor_b32, 4),         ATOM("xor_b32", xor_b32, 4),         ATOM("xor_x2", xor_b64, 8),         ATOM("xor_b64", xor_b64, 8),
    ATOM("swap", swap_b32, 4),       ATOM("swap_b32", swap_b32, 4),       ATOM("swap_x2", swap_b64, 8),       ATOM("swap_b64", swap_b64, 8),
    ATOM("cmpswap", cmpswap_b32, 4), ATOM("cmpswap_b32", cmpswap_b32, 4), ATOM("cmpswap_x2", cmpswap_b64, 8),
    ATOM("cmpswap_b64", cmpswap_b64, 8),
    ATOM("inc", inc_u32, 4),         ATOM("inc_u32", inc_u32, 4),         ATOM("inc_x2", inc_u64, 8),         ATOM("inc_u64", inc_u64, 8),
    ATOM("dec", dec_u32, 4),         ATOM("dec_u32", dec_u32, 4),         ATOM("dec_x2", dec_u64, 8),         ATOM("dec_u64", dec_u64, 8),
    ATOM("csub_u32", csub_u32, 4),   ATOM("cmpswap_f32", cmpswap_f32, 4), ATOM("add_f32", add_f32, 4),        ATOM("add_f64", add_f64, 8),
    ATOM("min_f32", min_f32, 4),     ATOM("max_f32", max_f32, 4),         ATOM("min_f64", min_f64, 8),        ATOM("max_f64", max_f64, 8),
    ATOM("pk_add_f16", pk_add_f16, 4), ATOM("pk_add_bf16", pk_add_bf16, 4),

    CACHE("buffer_wbl2", run_wbl2), CACHE("buffer_inv", run_inv), CACHE("buffer_gl0_inv", run_gl0_inv),
    CACHE("buffer_gl1_inv", run_gl1_inv),
};
const uint32_t n_vmem_ops = sizeof vmem_ops / sizeof *vmem_ops;
