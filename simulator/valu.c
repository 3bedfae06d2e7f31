/* valu.c -- the vector ALU without comparisons, conversions and matrices: sources and results with their modifiers, and the table of
 * instructions.
 *
 * The fast path: no modifiers, all lanes active, everything defined.  Then the lane function reads registers and writes the destination in
 * place.  Otherwise it writes to a buffer, which the output modifiers change and vgpr_write merges into the destination.
 *
 * A 16-bit result keeps the upper half of its register on RDNA3.  On CDNA3 it zeroes it, except in VOP3 instructions that are new in GFX9
 * (LLVM, GCNSubtarget::zeroesHigh16BitsOfDest; TRAIT_KEEPS_HIGH).  A lane counts as defined if the half written last is defined. */
#include "valu.h"
#include "valu_math.h"
#include <string.h>

static bool unsupported(struct wave *w, const struct inst *i, const char *what)
{
    report(w, i, FINDING_UNKNOWN, -1, "%s is not modelled for this instruction", what);
    return false;
}

void unknown_op(struct wave *w, const struct inst *i)
{
    report(w, i, FINDING_UNKNOWN, -1, "this instruction is not modelled");
}

/* ---- properties of types ---- */

static uint32_t type_words(uint32_t type)
{
    return type == T_B64 || type == T_I64 || type == T_U64 || type == T_F64 || type == T_PKF32 ? 2 : 1;
}
static bool type_is_16(uint32_t type) { return type >= T_B16 && type <= T_BF16; }

static uint32_t type_of(const struct inst *i, uint32_t k) { return k < 3 ? i->op->src[k] : i->src[k].type; }

/* ---- sources ---- */

const uint32_t *source_raw(struct wave *w, const struct operand *o, uint32_t words, uint32_t *store)
{
    if (o->kind == OPERAND_V) return vgpr(w, o->reg);
    const uint32_t n = w->lanes;
    const uint64_t value = o->kind == OPERAND_S && words == 1 ? w->s[o->reg] : scalar_source(w, o);
    for (uint32_t k = 0; k < words; k++) {
        const __m256i word = _mm256_set1_epi32((int)(value >> 32 * k));
        for (uint32_t l = 0; l < n; l += 8) _mm256_storeu_si256((__m256i *)(store + k * n + l), word);
    }
    return store;
}

/* out = (in & keep) ^ flip: absolute value and sign. */
static void change_sign(uint32_t *out, const uint32_t *in, uint32_t n, uint32_t keep, uint32_t flip)
{
    for (uint32_t l = 0; l < n; l++) out[l] = (in[l] & keep) ^ flip;
}

static void take_halves(uint32_t *out, const uint32_t *in, uint32_t n, uint32_t low, uint32_t high)
{
    for (uint32_t l = 0; l < n; l++) out[l] = (in[l] >> low & 0xffffu) | in[l] >> high << 16;
}

/* op_sel, neg and abs of VOP3P (RDNA3 ISA 7.4, CDNA3 ISA 6.x): op_sel selects the part for the low result, op_sel_hi the part for the high
 * result. */
static bool packed_modify(struct wave *w, const struct inst *i, uint32_t k, uint32_t type, uint32_t *out, const uint32_t *in)
{
    const uint32_t n = w->lanes, low = i->op_sel >> k & 1, high = i->op_sel_hi >> k & 1, neg = i->neg_lo >> k & 1,
        neg_high = i->neg_hi >> k & 1;
    if (i->src[k].neg || i->src[k].abs) return unsupported(w, i, "neg or abs of a packed source");
    if (type == T_PKF32) {
        uint32_t copy[2 * MAX_LANES];                /* out may be in */
        memcpy(copy, in, 2 * n * sizeof *in);
        change_sign(out, copy + low * n, n, ~0u, neg << 31);
        change_sign(out + n, copy + high * n, n, ~0u, neg_high << 31);
        return true;
    }
    if (type == T_PKF16 || type == T_PK16) {
        if (type == T_PK16 && (neg || neg_high)) return unsupported(w, i, "neg of integers");
        take_halves(out, in, n, low * 16, high * 16);
        if (neg || neg_high) change_sign(out, out, n, ~0u, neg << 15 | neg_high << 31);
        return true;
    }
    if (low || !high || neg_high) return unsupported(w, i, "op_sel or neg_hi of a source that is not packed");
    if (neg && type != T_F32) return unsupported(w, i, "neg of an integer");
    change_sign(out, in, n, ~0u, neg << 31);
    return true;
}

/* op_sel of 16 bits, then abs, then neg (RDNA3 ISA 7.2.4). */
static bool plain_modify(struct wave *w, const struct inst *i, uint32_t k, uint32_t type, uint32_t *out, const uint32_t *in)
{
    const struct operand *o = &i->src[k];
    const uint32_t n = w->lanes, words = type_words(type), top = words == 2 ? n : 0;
    const bool     half = i->op_sel >> k & 1;
    const uint32_t sign = type_is_16(type) ? 0x8000u : 0x80000000u;
    if ((i->neg_lo | i->neg_hi | i->op_sel_hi) >> k & 1) return unsupported(w, i, "neg_lo, neg_hi or op_sel_hi");
    if (half && !type_is_16(type)) return unsupported(w, i, "op_sel of a source that does not have 16 bits");
    if ((o->neg || o->abs) && type != T_F16 && type != T_BF16 && type != T_F32 && type != T_F64 && type != T_B32 && type != T_B16)
        return unsupported(w, i, "neg or abs of an integer");
    if (out != in) memcpy(out, in, words * n * sizeof *in);
    if (half) take_halves(out, out, n, 16, 16);
    if (o->neg || o->abs) change_sign(out + top, out + top, n, o->abs ? ~sign : ~0u, o->neg ? sign : 0);
    return true;
}

static inline bool has_modifiers(const struct inst *i, uint32_t k)
{
    const struct operand *o = &i->src[k];
    const uint32_t op_sel_hi = i->op->traits & TRAIT_PACKED ? ~i->op_sel_hi : i->op_sel_hi;
    return (((i->op_sel | op_sel_hi | i->neg_lo | i->neg_hi) >> k & 1) | o->neg | o->abs | o->sext) != 0
        || ((i->flags & (FLAG_DPP | FLAG_DPP8 | FLAG_SDWA)) != 0 && k < 2);
}

/* Rows of source k with its modifiers; NULL after a finding.  DPP clears lanes in *valid and moves the source's undefined lanes to
 * *undefined. */
static const uint32_t *source_modified(struct wave *w, const struct inst *i, uint32_t k, uint32_t *store, uint64_t *valid,
                                       uint64_t *undefined)
{
    const uint32_t  type = type_of(i, k), words = type_words(type), packed = i->op->traits & TRAIT_PACKED;
    const uint32_t *rows = source_raw(w, &i->src[k], words, store);
    if ((i->flags & (FLAG_DPP | FLAG_DPP8)) && k == 0) {
        if (rows == store) return unsupported(w, i, "DPP of a scalar"), NULL;
        uint64_t through = ~0ull;
        dpp_apply(w, i, store, rows, words, &through, undefined);
        *valid &= through;
        rows = store;
    }
    if ((i->flags & FLAG_SDWA) && k < 2) {
        if (words != 1) return unsupported(w, i, "SDWA of 64 bits"), NULL;
        sdwa_select(store, rows, w->lanes, i->src_sel[k], i->src[k].sext);
        rows = store;
    } else if (i->src[k].sext) return unsupported(w, i, "sext"), NULL;
    const bool good = packed ? packed_modify(w, i, k, type, store, rows) : plain_modify(w, i, k, type, store, rows);
    return good ? store : NULL;
}

const uint32_t *vector_source(struct wave *w, const struct inst *i, uint32_t k, uint32_t *store)
{
    uint64_t valid = ~0ull, undefined = 0;
    if (!has_modifiers(i, k)) return source_raw(w, &i->src[k], type_words(type_of(i, k)), store);
    const uint32_t *rows = source_modified(w, i, k, store, &valid, &undefined);
    /* a caller that reads single sources cannot know of lanes that DPP leaves out */
    if (rows && (wave_exec(w) & ~valid) != 0) rows = (unsupported(w, i, "DPP that leaves lanes out"), NULL);
    if (rows) return rows;
    memset(store, 0, 2 * MAX_LANES * sizeof *store);     /* the launch has failed */
    return store;
}

/* Lanes in which one operand is undefined. */
static uint64_t operand_undefined(const struct wave *w, const struct operand *o)
{
    uint64_t lanes = 0;
    if (o->kind != OPERAND_V) return scalar_source_undefined(w, o) != 0 ? ~0ull : 0;
    for (uint32_t r = o->reg; r < (uint32_t)o->reg + o->n; r++)
        if (w->v_state[r] & REG_UNDEFINED) lanes |= w->undefined[r];
    return lanes;
}

static uint64_t all_undefined(const struct wave *w, const struct inst *i)
{
    uint64_t lanes = i->op->traits & TRAIT_READS_DST ? operand_undefined(w, &i->dst[0]) : 0;
    for (uint32_t k = 0; k < i->n_src; k++)
        if (type_of(i, k) != T_MASK) lanes |= operand_undefined(w, &i->src[k]);
    return lanes;
}

uint64_t mask_undefined(const struct wave *w, const struct operand *o)
{
    if (o->kind != OPERAND_S || o->reg == S_NULL) return 0;
    return (w->lanes == 64 ? (uint64_t)w->s_undefined[o->reg + 1] << 32 : 0) | w->s_undefined[o->reg];
}

bool sources_read(struct wave *w, const struct inst *i, struct sources *s)
{
    uint32_t k = 0;
    s->valid = ~0ull;
    s->undefined = 0;
    s->rows[0] = s->rows[1] = s->rows[2] = NULL;
    for (; k < i->n_src && k < 3 && type_of(i, k) != T_MASK; k++) {
        uint64_t undefined = 0;
        if (has_modifiers(i, k)) {
            if (i->flags & (FLAG_DPP | FLAG_DPP8)) undefined = operand_undefined(w, &i->src[k]);
            s->rows[k] = source_modified(w, i, k, s->store[k], &s->valid, &undefined);
            if (!s->rows[k]) return false;
            s->undefined |= undefined;
        } else {
            s->rows[k] = source_raw(w, &i->src[k], type_words(i->op->src[k]), s->store[k]);
        }
    }
    if (i->op->traits & TRAIT_READS_DST) s->rows[k] = vgpr(w, i->dst[0].reg);
    if (!(i->flags & (FLAG_DPP | FLAG_DPP8))) {
        /* the loop knows all sources; a mask counts as a scalar and is handled by its own function */
        if (i->op->traits & TRAIT_OWN_DEFINED) s->undefined = w->source_undefined != 0 || w->scalar_undefined ? all_undefined(w, i) : 0;
        else s->undefined = w->scalar_undefined ? ~0ull : w->source_undefined;
    } else {
        for (uint32_t other = 0; other < i->n_src; other++)
            if (type_of(i, other) != T_MASK && !has_modifiers(i, other)) s->undefined |= operand_undefined(w, &i->src[other]);
        if (i->op->traits & TRAIT_READS_DST) s->undefined |= operand_undefined(w, &i->dst[0]);
    }
    return true;
}

/* ---- results ---- */

/* Clamps floats to 0 .. 1, and NaN to 0 because compute kernels have MODE.DX10_CLAMP set; on the bits, so that no NaN is compared. */
static void clamp_float(uint32_t *d, uint32_t type, uint32_t n)
{
    const uint32_t words = type == T_PKF32 ? 2 : 1;
    if (type == T_F64) {
        for (uint32_t l = 0; l < n; l++) {
            uint64_t x = ROW64(d);
            if (x > 0x7ff0000000000000ull) x = 0;
            if (x > 0x3ff0000000000000ull) x = 0x3ff0000000000000ull;
            WRITE64(x);
        }
    } else if (type == T_F32 || type == T_PKF32) {
        for (uint32_t l = 0; l < words * n; l++) d[l] = d[l] > 0x7f800000u ? 0 : d[l] > 0x3f800000u ? 0x3f800000u : d[l];
    } else {
        for (uint32_t l = 0; l < n; l++) {
            const uint32_t low = d[l] & 0xffffu, high = d[l] >> 16;
            d[l] = (low > 0x7c00u ? 0 : low > 0x3c00u ? 0x3c00u : low) | (high > 0x7c00u ? 0 : high > 0x3c00u ? 0x3c00u : high) << 16;
        }
    }
}

/* The ISA ignores omod for types with denormals enabled (RDNA3 ISA 7.2.4); compilers then do not emit it. */
static bool multiply_output(struct wave *w, const struct inst *i, uint32_t *d, uint32_t n)
{
    static const float factor[] = { 1, 2, 4, 0.5f };
    if (i->op->dst != T_F32 || (w->mode >> 4 & 2) != 0) return unsupported(w, i, "an output multiplier with denormals");
    for (uint32_t l = 0; l < n; l++) d[l] = f32_bits(bits_f32(d[l]) * factor[i->omod & 3]);
    return true;
}

/* Only needed for operations on bits, which do not flush denormals. */
static void flush_denormals(uint32_t *d, uint32_t n)
{
    for (uint32_t l = 0; l < n; l++) d[l] = (d[l] & 0x7fffffffu) < 0x00800000u ? d[l] & 0x80000000u : d[l];
}

static bool flushes(const struct wave *w, const struct inst *i) { return i->op->dst == T_F32 && (w->mode >> 4 & 2) == 0; }

/* Combines 16-bit results with the half that stays unchanged. */
static void merge_half(uint32_t *d, const uint32_t *old, uint32_t n, bool high)
{
    if (high) for (uint32_t l = 0; l < n; l++) d[l] = (old[l] & 0xffffu) | d[l] << 16;
    else      for (uint32_t l = 0; l < n; l++) d[l] = (old[l] & 0xffff0000u) | (d[l] & 0xffffu);
}

static bool keeps_half(const struct wave *w, const struct inst *i)
{
    return w->group->launch->chip->isa->keeps_half || (i->op->traits & TRAIT_KEEPS_HIGH) || i->op_sel & 8;
}

static bool float_result(uint32_t type) { return type == T_F16 || type == T_F32 || type == T_F64 || type == T_PKF16 || type == T_PKF32; }

/* The words of 64-bit sources on which a word of the result depends.  Compilers use half of such instructions while the other half of a
 * source is anything: v_mad_u64_u32 for 32 bits, v_pk_mul_f32 for one product, v_mov_b64 for one register. */
enum reach { ALL_WORDS, OWN_WORD, OWN_AND_LOWER, OWN_AND_HIGHER, CHOSEN_WORD /* by op_sel and op_sel_hi */, ONE_SOURCE /* v_pk_mov_b32 */ };

static enum reach reach_of(const struct op_info *op)
{
    static const struct { const char *name; enum reach reach; } known[] = {
        { "v_mov_b64", OWN_WORD }, { "v_pk_mov_b32", ONE_SOURCE }, { "v_lshlrev_b64", OWN_AND_LOWER }, { "v_lshl_add_u64", OWN_AND_LOWER },
        { "v_mad_u64_u32", OWN_AND_LOWER }, { "v_mad_i64_i32", OWN_AND_LOWER }, { "v_lshrrev_b64", OWN_AND_HIGHER },
        { "v_ashrrev_i64", OWN_AND_HIGHER },
    };
    for (size_t k = 0; k < sizeof known / sizeof known[0]; k++)
        if (!strcmp(op->name, known[k].name)) return known[k].reach;
    return op->dst == T_PKF32 ? CHOSEN_WORD : ALL_WORDS;
}

static bool reaches(const struct inst *i, enum reach reach, uint32_t k, uint32_t from, uint32_t to)
{
    if (type_words(type_of(i, k)) == 1) return true;
    switch (reach) {
    case OWN_WORD:       return from == to;
    case OWN_AND_LOWER:  return from <= to;
    case OWN_AND_HIGHER: return from >= to;
    case CHOSEN_WORD:    return from == ((to == 0 ? i->op_sel : i->op_sel_hi) >> k & 1u);
    case ONE_SOURCE:     return k == to && from == (i->op_sel >> k & 1u);
    default:             return true;
    }
}

static uint64_t word_undefined(const struct wave *w, const struct operand *o, uint32_t word)
{
    if (o->kind != OPERAND_V) return (uint32_t)(scalar_source_undefined(w, o) >> 32 * word) != 0 ? ~0ull : 0;
    return w->v_state[o->reg + word] & REG_UNDEFINED ? w->undefined[o->reg + word] : 0;
}

/* Integer a * b + c, or a & b | c: a factor that is a defined zero makes the product defined, whatever the other factor is.  This is not
 * true of floats: undefined data may be a NaN. */
static bool is_product(const struct op_info *op)
{
    static const char *const prefixes[] = { "v_mul_", "v_mad_", "v_and_", "v_dot4", "v_dot8" };
    if (op->dst != T_B32 && op->dst != T_U32 && op->dst != T_I32) return false;
    for (size_t k = 0; k < sizeof prefixes / sizeof prefixes[0]; k++)
        if (!strncmp(op->name, prefixes[k], strlen(prefixes[k]))) return true;
    return false;
}

/* Lanes in which a product is defined although a factor is not; undefined[k]: undefined lanes of source k. */
static uint64_t absorbed(const struct sources *s, uint32_t n, const uint64_t undefined[3])
{
    const uint32_t *a = s->rows[0], *b = s->rows[1];
    uint64_t        zero_a = 0, zero_b = 0;
    for (uint32_t l = 0; l < n; l++) {
        zero_a |= (uint64_t)(a[l] == 0) << l;
        zero_b |= (uint64_t)(b[l] == 0) << l;
    }
    return ((zero_a & ~undefined[0]) | (zero_b & ~undefined[1])) & ~undefined[2];
}

/* vgpr_write of the destination, with the undefined lanes of each of its one or two words. */
static void destination_write(struct wave *w, const struct inst *i, const struct sources *s, const uint32_t *rows, uint64_t mask,
                              uint64_t undefined)
{
    const uint32_t   words = type_words(i->op->dst);
    const bool       product = (undefined & mask) != 0 && !(i->flags & (FLAG_DPP | FLAG_DPP8 | FLAG_SDWA)) && is_product(i->op);
    const enum reach reach = words == 1 || (undefined & mask) == 0 ? ALL_WORDS : reach_of(i->op);
    if (reach == ALL_WORDS && !product) { vgpr_write(w, i->dst[0].reg, words, rows, mask, undefined); return; }
    uint64_t parts[2] = { 0, 0 };
    for (uint32_t to = 0; to < words; to++) {
        uint64_t sources[4] = { 0 };
        for (uint32_t k = 0; k < i->n_src; k++)
            for (uint32_t from = 0; from < type_words(type_of(i, k)); from++)
                if (reaches(i, reach, k, from, to)) sources[k] |= word_undefined(w, &i->src[k], from);
        if (i->op->traits & TRAIT_READS_DST) sources[2] |= word_undefined(w, &i->dst[0], to);
        parts[to] = sources[0] | sources[1] | sources[2] | sources[3];
        if (product) parts[to] &= ~absorbed(s, w->lanes, sources);
    }
    for (uint32_t to = 0; to < words; to++) vgpr_write(w, i->dst[0].reg + to, 1, rows + to * w->lanes, mask, parts[to]);
}

/* The lane function for integers with the clamp modifier; NULL: it has no such form. */
static lanes_fn *saturating(const struct inst *i);

/* Applies output modifiers in the order of the ISA, keeps the unchanged half, and writes.  rows is a buffer that may be changed. */
static void result_write(struct wave *w, const struct inst *i, const struct sources *s, uint32_t *rows, uint64_t mask, uint64_t undefined)
{
    const uint32_t type = i->op->dst, n = w->lanes, *old = vgpr(w, i->dst[0].reg);
    if (i->dst[0].kind != OPERAND_V) { unsupported(w, i, "a destination that is not a VGPR"); return; }
    if ((i->op_sel & 8) != 0 && !type_is_16(type)) { unsupported(w, i, "op_sel of a destination that does not have 16 bits"); return; }
    if (i->omod != 0 && !multiply_output(w, i, rows, n)) return;
    if ((i->flags & FLAG_CLAMP) && float_result(type)) clamp_float(rows, type, n);
    if (flushes(w, i)) flush_denormals(rows, n);
    if (i->flags & FLAG_SDWA) sdwa_insert(rows, old, n, i->dst_sel, i->dst_unused);
    else if (type_is_16(type) && keeps_half(w, i)) merge_half(rows, old, n, i->op_sel & 8);
    destination_write(w, i, s, rows, mask, undefined);
}

/* ---- execution ---- */

void lanes_run(const struct inst *i, lanes_fn *lanes, uint32_t *d, const struct sources *s, uint32_t n)
{
    const bool wide = i->op->src[0] == T_F64 && i->op->dst != T_F32;
    const uint32_t mode = wide ? _mm_getcsr() : 0, flush = 0x8040u;        /* FTZ, DAZ */
    if ((mode & flush) != 0) _mm_setcsr(mode & ~flush);
    lanes(d, s->rows[0], s->rows[1], s->rows[2], n);
    if ((mode & flush) != 0) _mm_setcsr(mode);
}

/* Whether the destination can be written in place: every lane, no half to keep, nothing undefined now or before, no output modifier. */
static inline bool writes_in_place(const struct wave *w, const struct inst *i, const struct sources *s, uint64_t mask)
{
    return mask == lanes_mask(w->lanes) && s->undefined == 0 && ((i->flags & (FLAG_CLAMP | FLAG_SDWA)) | i->omod | i->op_sel) == 0 &&
        i->dst[0].kind == OPERAND_V
        && w->v_state[i->dst[0].reg] == 0 && (type_words(i->op->dst) == 1 || w->v_state[i->dst[0].reg + 1] == 0)
        && !flushes(w, i) && (!type_is_16(i->op->dst) || !keeps_half(w, i));
}

static void run_one(struct wave *w, const struct inst *i)
{
    struct sources s;
    uint32_t rows[2 * MAX_LANES];
    const uint64_t exec = wave_exec(w);
    lanes_fn *lanes = i->op->lanes;
    if (exec == 0 || !sources_read(w, i, &s)) return;
    if (writes_in_place(w, i, &s, exec & s.valid)) {
        lanes_run(i, lanes, vgpr(w, i->dst[0].reg), &s, w->lanes);
        return;
    }
    if ((i->flags & FLAG_CLAMP) && !float_result(i->op->dst) && !(lanes = saturating(i))) { unsupported(w, i, "clamp"); return; }
    lanes_run(i, lanes, rows, &s, w->lanes);
    result_write(w, i, &s, rows, exec & s.valid, s.undefined);
}

static void run_half(struct wave *w, const struct inst *i);

/* VOPD (RDNA3 ISA 7.6): both halves read before either writes.  This needs an extra step only if the second half reads what the first one
 * writes: the first result then waits in `late` while the second half reads the old value. */
static void run_pair(struct wave *w, const struct inst *first)
{
    const struct inst *second = first->other;
    const uint32_t reg = first->dst[0].reg, n = w->lanes;
    uint32_t late[MAX_LANES], old[MAX_LANES];
    bool crossed = second->op->traits & TRAIT_READS_DST && second->dst[0].reg == reg;
    for (uint32_t k = 0; k < second->n_src; k++) crossed |= second->src[k].kind == OPERAND_V && second->src[k].reg == reg;
    if (!crossed) {
        run_half(w, first);
        run_half(w, second);
        return;
    }
    const uint64_t old_undefined = w->undefined[reg];
    memcpy(old, vgpr(w, reg), n * sizeof *old);
    run_half(w, first);
    const uint64_t late_undefined = w->undefined[reg];
    memcpy(late, vgpr(w, reg), n * sizeof *late);
    vgpr_write(w, reg, 1, old, lanes_mask(n), old_undefined);
    run_half(w, second);
    vgpr_write(w, reg, 1, late, lanes_mask(n), late_undefined);
}

void run_valu(struct wave *w, const struct inst *i)
{
    if (i->other) run_pair(w, i);
    else run_one(w, i);
}

/* ---- instructions that are more than a function of each lane's sources ---- */

static void run_nop(struct wave *w, const struct inst *i)
{
    (void)w, (void)i;
}

LANES(choose_lanes, d[l] = choose(0u - rc[l], ra[l], rb[l]))

/* A lane is undefined if its condition is, or if the selected source is.  VOPD's form does not print vcc. */
static void cndmask(struct wave *w, const struct inst *i)
{
    static const struct operand vcc = { .kind = OPERAND_S, .n = 2, .reg = VCC, .type = T_MASK };
    const struct operand *condition = i->n_src > 2 ? &i->src[2] : &vcc;
    const uint64_t exec = wave_exec(w), mask = mask_source(w, condition);
    struct sources s;
    uint32_t conditions[MAX_LANES], rows[MAX_LANES];
    if (exec == 0) return;
    if (i->flags & FLAG_CLAMP) { unsupported(w, i, "clamp"); return; }
    if (!sources_read(w, i, &s)) return;
    uint64_t undefined = mask_undefined(w, condition);
    if (s.undefined != 0) {
        if (i->flags & (FLAG_DPP | FLAG_DPP8)) undefined |= s.undefined;
        else undefined |= (operand_undefined(w, &i->src[0]) & ~mask) | (operand_undefined(w, &i->src[1]) & mask);
    }
    mask_rows(conditions, mask, w->lanes);
    s.rows[2] = conditions;
    s.undefined = undefined & exec;
    if (writes_in_place(w, i, &s, exec & s.valid)) lanes_run(i, choose_lanes, vgpr(w, i->dst[0].reg), &s, w->lanes);
    else lanes_run(i, choose_lanes, rows, &s, w->lanes), result_write(w, i, &s, rows, exec & s.valid, undefined);
}

static void run_cndmask(struct wave *w, const struct inst *i)
{
    if (i->other) run_pair(w, i);
    else cndmask(w, i);
}

static void run_half(struct wave *w, const struct inst *i)
{
    w->source_undefined = all_undefined(w, i);       /* the loop checked both halves at once */
    w->scalar_undefined = false;
    if (i->op->run == run_cndmask) cndmask(w, i);
    else if (i->op->run == run_valu) run_one(w, i);
    else unsupported(w, i, "VOPD");
}

/* CDNA3 ISA 12.10, V_PK_MOV_B32: op_sel selects a word of each source; op_sel_hi has no meaning. */
static void run_pk_mov(struct wave *w, const struct inst *i)
{
    uint32_t store[2][2 * MAX_LANES], rows[2 * MAX_LANES];
    const uint32_t n = w->lanes;
    if (((i->neg_lo | i->neg_hi) & 3) != 0 || i->flags & FLAG_CLAMP) { unsupported(w, i, "a modifier"); return; }
    for (uint32_t k = 0; k < 2; k++)
        memcpy(rows + k * n, source_raw(w, &i->src[k], 2, store[k]) + (i->op_sel >> k & 1) * n, n * sizeof *rows);
    if (wave_exec(w) != 0) destination_write(w, i, NULL, rows, wave_exec(w), w->scalar_undefined ? ~0ull : w->source_undefined);
}

static void run_swap(struct wave *w, const struct inst *i)
{
    uint32_t rows[2][MAX_LANES];
    const struct operand *a = &i->dst[0], *b = &i->src[0];
    const uint64_t exec = wave_exec(w), a_undefined = operand_undefined(w, a), b_undefined = operand_undefined(w, b);
    if (a->kind != OPERAND_V || b->kind != OPERAND_V) { unsupported(w, i, "a scalar"); return; }
    memcpy(rows[0], vgpr(w, a->reg), w->lanes * sizeof rows[0][0]);
    memcpy(rows[1], vgpr(w, b->reg), w->lanes * sizeof rows[0][0]);
    if (exec == 0) return;
    vgpr_write(w, a->reg, 1, rows[1], exec, b_undefined);
    vgpr_write(w, b->reg, 1, rows[0], exec, a_undefined);
}

/* ---- carries: d is two rows, the sum and the carry out; c is the carry in ---- */
LANES(carry_add, const uint32_t a = ra[l]; const uint32_t b = rb[l]; const uint32_t c = rc[l]; const uint32_t sum = a + b;
                 d[l] = sum + c; d[n + l] = (sum < a) | (sum + c < sum))
LANES(carry_sub, const uint32_t a = ra[l]; const uint32_t b = rb[l]; const uint32_t c = rc[l]; const uint32_t rest = a - b;
                 d[l] = rest - c; d[n + l] = (a < b) | (rest < c))

/* The mask has a bit for each active lane and zeros elsewhere (RDNA3 ISA 7.2.3). */
static void run_carry(struct wave *w, const struct inst *i)
{
    struct sources s;
    uint32_t rows[2 * MAX_LANES], carries[MAX_LANES] = { 0 };
    const char    *name = i->op->name;
    const bool     sub = name[2] == 's', reversed = strstr(name, "rev") != NULL, carry_in = i->op->src[2] == T_MASK;
    const uint64_t exec = wave_exec(w);
    if (i->flags & (FLAG_CLAMP | FLAG_SDWA)) { unsupported(w, i, "clamp or SDWA"); return; }
    if (!sources_read(w, i, &s)) return;
    if ((exec & ~s.valid) != 0) { unsupported(w, i, "DPP that leaves lanes out"); return; }
    if (carry_in && i->n_src < 3) { unsupported(w, i, "a carry that is not printed"); return; }
    if (carry_in) {
        mask_rows(carries, mask_source(w, &i->src[2]), w->lanes);
        s.undefined |= mask_undefined(w, &i->src[2]);
    }
    (sub ? carry_sub : carry_add)(rows, s.rows[reversed], s.rows[!reversed], carries, w->lanes);
    mask_write(w, &i->dst[1], rows_mask(rows + w->lanes, w->lanes) & exec, s.undefined & exec);
    vgpr_write(w, i->dst[0].reg, 1, rows, exec, s.undefined);
}

LANES3(mad_u64_u32, U64, U32, U32, U64, (uint64_t)a * b + c)
LANES(mad_u64_u32_carry, d[l] = (uint64_t)ra[l] * rb[l] + ROW64(rc) < ROW64(rc))
LANES3(mad_i64_i32, U64, I32, I32, U64, (uint64_t)((int64_t)a * b) + c)
LANES(mad_i64_i32_carry, d[l] = ((__int128)((int64_t)(int32_t)ra[l] * (int32_t)rb[l]) + (int64_t)ROW64(rc)) < 0)

static void run_mad64(struct wave *w, const struct inst *i)
{
    struct sources s;
    uint32_t rows[2 * MAX_LANES], carries[MAX_LANES];
    const bool     is_signed = i->op->dst == T_I64;
    const uint64_t exec = wave_exec(w);
    if (i->flags & FLAG_CLAMP) { unsupported(w, i, "clamp"); return; }
    if (!sources_read(w, i, &s)) return;
    if (i->dst[1].kind == OPERAND_S && i->dst[1].reg != S_NULL) {
        lanes_run(i, is_signed ? mad_i64_i32_carry : mad_u64_u32_carry, carries, &s, w->lanes);
        mask_write(w, &i->dst[1], rows_mask(carries, w->lanes) & exec, s.undefined & exec);
    }
    if (exec == 0) return;
    lanes_run(i, is_signed ? mad_i64_i32 : mad_u64_u32, rows, &s, w->lanes);
    destination_write(w, i, &s, rows, exec, s.undefined);
}

/* ---- division ---- */
static void div_scale_lanes_f32(uint32_t *d, const uint32_t *ra, const uint32_t *rb, const uint32_t *rc, uint32_t n)
{
    for (uint32_t l = 0; l < n; l++) {
        float r;
        d[2 * n + l] = div_scale_f32(&r, READ_F32(ra), READ_F32(rb), READ_F32(rc));
        WRITE_F32(r);
    }
}
static void div_scale_lanes_f64(uint32_t *d, const uint32_t *ra, const uint32_t *rb, const uint32_t *rc, uint32_t n)
{
    for (uint32_t l = 0; l < n; l++) {
        double r;
        d[2 * n + l] = div_scale_f64(&r, READ_F64(ra), READ_F64(rb), READ_F64(rc));
        WRITE_F64(r);
    }
}

static void run_div_scale(struct wave *w, const struct inst *i)
{
    struct sources s;
    uint32_t rows[3 * MAX_LANES];                    /* the third: flags */
    const uint64_t exec = wave_exec(w);
    if ((i->flags & FLAG_CLAMP) || i->omod) { unsupported(w, i, "clamp or omod"); return; }
    if (!sources_read(w, i, &s)) return;
    lanes_run(i, i->op->dst == T_F64 ? div_scale_lanes_f64 : div_scale_lanes_f32, rows, &s, w->lanes);
    mask_write(w, &i->dst[1], rows_mask(rows + 2 * w->lanes, w->lanes) & exec, s.undefined & exec);
    if (exec != 0) result_write(w, i, &s, rows, exec, s.undefined);
}

static void run_div_fmas(struct wave *w, const struct inst *i)
{
    static const struct operand vcc = { .kind = OPERAND_S, .n = 2, .reg = VCC, .type = T_MASK };
    struct sources s;
    uint32_t rows[2 * MAX_LANES];
    const uint64_t exec = wave_exec(w), scaled = mask_source(w, &vcc);
    const uint32_t n = w->lanes, *ra, *rb, *rc, mode = _mm_getcsr();
    if (exec == 0 || !sources_read(w, i, &s)) return;
    ra = s.rows[0], rb = s.rows[1], rc = s.rows[2];
    if (i->op->dst == T_F32) {
        uint32_t *d = rows;
        for (uint32_t l = 0; l < n; l++) WRITE_F32(div_fmas_f32(READ_F32(ra), READ_F32(rb), READ_F32(rc), scaled >> l & 1));
    } else {
        uint32_t *d = rows;
        _mm_setcsr(mode & ~0x8040u);
        for (uint32_t l = 0; l < n; l++) WRITE_F64(div_fmas_f64(READ_F64(ra), READ_F64(rb), READ_F64(rc), scaled >> l & 1));
        _mm_setcsr(mode);
    }
    result_write(w, i, &s, rows, exec, s.undefined | mask_undefined(w, &vcc));
}

/* ---- v_fma_mix* (RDNA3 ISA 7.4, CDNA3 ISA 12.10): op_sel_hi makes a source f16, op_sel then selects the half ---- */

static void halves_to_f32(uint32_t *out, const uint32_t *in, uint32_t n, bool high)
{
    const __m256i low = _mm256_set1_epi32(0xffff);
    for (uint32_t l = 0; l < n; l += 16) {
        __m256i x = _mm256_loadu_si256((const __m256i *)(in + l)), y = _mm256_loadu_si256((const __m256i *)(in + l + 8));
        x = high ? _mm256_srli_epi32(x, 16) : _mm256_and_si256(x, low);
        y = high ? _mm256_srli_epi32(y, 16) : _mm256_and_si256(y, low);
        const __m256i both = _mm256_permute4x64_epi64(_mm256_packus_epi32(x, y), 0xd8);
        _mm256_storeu_ps((float *)(out + l), _mm256_cvtph_ps(_mm256_castsi256_si128(both)));
        _mm256_storeu_ps((float *)(out + l + 8), _mm256_cvtph_ps(_mm256_extracti128_si256(both, 1)));
    }
}

LANES3(mix_f32, F32, F32, F32, F32, fmaf(a, b, c))
/* Two roundings, as in the ISA. */
static void mix_f16(uint32_t *d, const uint32_t *ra, const uint32_t *rb, const uint32_t *rc, uint32_t n)
{
    for (uint32_t l = 0; l < n; l += 8) {
        const __m256 a = _mm256_loadu_ps((const float *)(ra + l)), b = _mm256_loadu_ps((const float *)(rb + l)),
            c = _mm256_loadu_ps((const float *)(rc + l));
        const __m128i r = _mm256_cvtps_ph(_mm256_fmadd_ps(a, b, c), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
        _mm256_storeu_si256((__m256i *)(d + l), _mm256_cvtepu16_epi32(r));
    }
}

static void run_fma_mix(struct wave *w, const struct inst *i)
{
    struct sources s = { .valid = ~0ull };
    uint32_t rows[2 * MAX_LANES];
    const uint32_t n = w->lanes;
    const uint64_t exec = wave_exec(w);
    if (exec == 0) return;
    for (uint32_t k = 0; k < 3; k++) {
        const struct operand *o = &i->src[k];
        s.rows[k] = source_raw(w, o, 1, s.store[k]);
        if (i->op_sel_hi >> k & 1) {
            halves_to_f32(s.store[k], s.rows[k], n, i->op_sel >> k & 1);
            s.rows[k] = s.store[k];
        } else if (i->op_sel >> k & 1) { unsupported(w, i, "op_sel of an f32 source"); return; }
        if (o->neg || o->abs) {
            change_sign(s.store[k], s.rows[k], n, o->abs ? 0x7fffffffu : ~0u, o->neg ? 0x80000000u : 0);
            s.rows[k] = s.store[k];
        }
    }
    if (((i->neg_lo | i->neg_hi) & 7) != 0) { unsupported(w, i, "neg_lo or neg_hi"); return; }
    s.undefined = w->scalar_undefined ? ~0ull : w->source_undefined;
    if (i->op->dst == T_F32) {
        const bool in_place = exec == lanes_mask(n) && s.undefined == 0 && !(i->flags & FLAG_CLAMP) && w->v_state[i->dst[0].reg] == 0;
        uint32_t *d = in_place ? vgpr(w, i->dst[0].reg) : rows;
        mix_f32(d, s.rows[0], s.rows[1], s.rows[2], n);
        if (in_place) return;
        if (i->flags & FLAG_CLAMP) clamp_float(rows, T_F32, n);
        destination_write(w, i, &s, rows, exec, s.undefined);
    } else {
        mix_f16(rows, s.rows[0], s.rows[1], s.rows[2], n);
        if (i->flags & FLAG_CLAMP) clamp_float(rows, T_F16, n);
        merge_half(rows, vgpr(w, i->dst[0].reg), n, i->op->name[9] == 'h');
        vgpr_write(w, i->dst[0].reg, 1, rows, exec, s.undefined);
    }
}

/* ---- dot products of bytes ---- */

/* c + the products of signed bytes: as pairs of 16-bit products, for odd and even bytes separately. */
static inline void dot4_signed(uint32_t *d, const uint32_t *ra, const uint32_t *rb, const uint32_t *rc, const uint32_t n)
{
    for (uint32_t l = 0; l < n; l += 8) {
        const __m256i a = _mm256_loadu_si256((const __m256i *)(ra + l)), b = _mm256_loadu_si256((const __m256i *)(rb + l));
        const __m256i even = _mm256_madd_epi16(_mm256_srai_epi16(_mm256_slli_epi16(a, 8), 8),
                                               _mm256_srai_epi16(_mm256_slli_epi16(b, 8), 8));
        const __m256i odd = _mm256_madd_epi16(_mm256_srai_epi16(a, 8), _mm256_srai_epi16(b, 8));
        const __m256i c = _mm256_loadu_si256((const __m256i *)(rc + l));
        _mm256_storeu_si256((__m256i *)(d + l), _mm256_add_epi32(c, _mm256_add_epi32(even, odd)));
    }
}
static void v_dot4_i32_i8_lanes(uint32_t *d, const uint32_t *ra, const uint32_t *rb, const uint32_t *rc, uint32_t n)
{
    dot4_signed(d, ra, rb, rc, n);
}
static void v_dot4c_i32_i8_lanes(uint32_t *d, const uint32_t *ra, const uint32_t *rb, const uint32_t *rc, uint32_t n)
{
    dot4_signed(d, ra, rb, rc, n);
}

/* neg_lo says which sources are signed (RDNA3 ISA 16.10, V_DOT4_I32_IU8); if any is, the sum is signed. */
static void run_dot_iu(struct wave *w, const struct inst *i)
{
    struct sources s = { .valid = ~0ull };
    uint32_t rows[MAX_LANES];
    const uint32_t n = w->lanes, width = strstr(i->op->name, "dot8") ? 4 : 8;
    const uint64_t exec = wave_exec(w), undefined = w->scalar_undefined ? ~0ull : w->source_undefined;
    const bool     clamp = i->flags & FLAG_CLAMP, a_signed = i->neg_lo & 1, b_signed = i->neg_lo & 2;
    if (exec == 0) return;
    if ((i->op_sel & 7) != 0 || (i->op_sel_hi & 7) != 7 || (i->neg_lo & 4) != 0 || (i->neg_hi & 7) != 0 ||
        (i->flags & (FLAG_DPP | FLAG_DPP8))) {
        unsupported(w, i, "a modifier");
        return;
    }
    for (uint32_t k = 0; k < 3; k++) s.rows[k] = source_raw(w, &i->src[k], 1, s.store[k]);
    if (width == 8 && a_signed && b_signed && !clamp) dot4_signed(rows, s.rows[0], s.rows[1], s.rows[2], n);
    else
        for (uint32_t l = 0; l < n; l++) {
            const int64_t sum = dot_fields(s.rows[0][l], s.rows[1][l], width, a_signed, b_signed) + (int32_t)s.rows[2][l];
            rows[l] = clamp ? (uint32_t)saturate_i32(sum) : (uint32_t)sum;
        }
    destination_write(w, i, &s, rows, exec, undefined);
}

/* ---- v_perm_b32 (RDNA3 ISA 16.12): bytes of b, then of a, by number; numbers from 8 on are signs and constants ---- */

static uint32_t perm_lane(uint32_t a, uint32_t b, uint32_t select)
{
    const uint64_t bytes = (uint64_t)a << 32 | b;
    uint32_t r = 0;
    for (uint32_t at = 0; at < 32; at += 8) {
        const uint32_t s = select >> at & 0xff;
        const uint32_t byte = s >= 13 ? 0xff : s == 12 ? 0 : s >= 8 ? (bytes >> ((s - 8) * 16 + 15) & 1) * 0xff : bytes >> s * 8 & 0xff;
        r |= byte << at;
    }
    return r;
}

static void v_perm_b32_lanes(uint32_t *d, const uint32_t *ra, const uint32_t *rb, const uint32_t *rc, uint32_t n)
{
    const __m256i lane = _mm256_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c, 0, 0x04040404, 0x08080808, 0x0c0c0c0c);
    const __m256i three = _mm256_set1_epi8(3), special = _mm256_set1_epi8((char)0xf8);
    for (uint32_t l = 0; l < n; l += 8) {
        const __m256i c = _mm256_loadu_si256((const __m256i *)(rc + l));
        if (!_mm256_testz_si256(c, special)) {
            for (uint32_t k = l; k < l + 8; k++) d[k] = perm_lane(ra[k], rb[k], rc[k]);
            continue;
        }
        const __m256i at = _mm256_or_si256(_mm256_and_si256(c, three), lane);       /* within the 16 bytes of four lanes */
        const __m256i a = _mm256_shuffle_epi8(_mm256_loadu_si256((const __m256i *)(ra + l)), at);
        const __m256i b = _mm256_shuffle_epi8(_mm256_loadu_si256((const __m256i *)(rb + l)), at);
        _mm256_storeu_si256((__m256i *)(d + l), _mm256_blendv_epi8(b, a, _mm256_slli_epi32(c, 5)));      /* bit 2 of the number */
    }
}

/* ---- the lane functions, from valu.def ---- */

/* The two f16 of a register are adjacent in memory: a row is an array of 2 n f16.  a, b, c: eight of them, as f32. */
#define LANES_PKF16(name, C, e)                                                                                                            \
    static void name(uint32_t *d, const uint32_t *ra, const uint32_t *rb, const uint32_t *rc, uint32_t n)                                  \
    {                                                                                                                                      \
        (void)rc;                                                                                                                          \
        for (uint32_t l = 0; l < n; l += 4) {                                                                                              \
            const __m256 a = load_f16(ra + l), b = load_f16(rb + l), c = C(l);                                                             \
            (void)c;                                                                                                                       \
            _mm_storeu_si128((__m128i *)(d + l), _mm256_cvtps_ph(e, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));                       \
        }                                                                                                                                  \
    }
static inline __m256 load_f16(const uint32_t *row) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)row)); }
#define NO_C16(at) _mm256_setzero_ps()
#define ROW_C16(at) load_f16(rc + (at))

/* a * b + c rounded to odd, so that only the rounding to f16 counts: f32_add_odd of numbers.h. */
static inline __m256 fma_odd(__m256 a, __m256 b, __m256 c)
{
    const __m256  p = _mm256_mul_ps(a, b), sum = _mm256_add_ps(p, c), part = _mm256_sub_ps(sum, p);
    const __m256  error = _mm256_add_ps(_mm256_sub_ps(p, _mm256_sub_ps(sum, part)), _mm256_sub_ps(c, part));
    const __m256i s = _mm256_castps_si256(sum), e = _mm256_castps_si256(error), one = _mm256_set1_epi32(1);
    const __m256i inexact = _mm256_castps_si256(_mm256_cmp_ps(error, _mm256_setzero_ps(), _CMP_NEQ_OQ));
    const __m256i even = _mm256_cmpeq_epi32(_mm256_and_si256(s, one), _mm256_setzero_si256());
    const __m256i step = _mm256_or_si256(_mm256_srai_epi32(_mm256_xor_si256(s, e), 31), one);     /* toward zero or away from it */
    return _mm256_castsi256_ps(_mm256_add_epi32(s, _mm256_and_si256(step, _mm256_and_si256(inexact, even))));
}

#define LANES_PK16(name, T, C, e)                                                                                                          \
    static inline uint32_t name##_half(C_##T a, C_##T b, C_##T c) { (void)c; return (uint32_t)(e) & 0xffffu; }                             \
    static inline C_##T name##_low(uint32_t x) { const uint32_t l = 0, *r = &x; return READ_##T(r); }                                      \
    LANES(name, const uint32_t a = ra[l]; const uint32_t b = rb[l]; const uint32_t c = C;                                                  \
          d[l] = name##_half(name##_low(a), name##_low(b), name##_low(c))                                                                  \
              | name##_half(name##_low(a >> 16), name##_low(b >> 16), name##_low(c >> 16)) << 16)
#define LANES_PKF32(name, C, e)                                                                                                            \
    static inline float name##_one(float a, float b, float c) { (void)c; return e; }                                                       \
    LANES(name, const uint32_t low_ = f32_bits(name##_one(bits_f32(ra[l]), bits_f32(rb[l]), bits_f32(C(l))));                              \
          d[n + l] = f32_bits(name##_one(bits_f32(ra[n + l]), bits_f32(rb[n + l]), bits_f32(C(n + l)))); d[l] = low_)
#define NO_C(at) 0
#define ROW_C(at) rc[at]

#define V1(name, D, A, e)       LANES1(name##_lanes, D, A, e)
#define V2(name, D, A, B, e)    LANES2(name##_lanes, D, A, B, e)
#define V3(name, D, A, B, C, e) LANES3(name##_lanes, D, A, B, C, e)
#define K2 V2
#define K3 V3
#define A2(name, D, A, B, e)    LANES3(name##_lanes, D, A, B, D, e)
#define D2(name, D, A, B, C, traits, e) LANES3(name##_lanes, D, A, B, C, e)
#define D3(name, D, A, B, C, traits, e) LANES3(name##_lanes, D, A, B, C, e)
#define P2(name, e)             LANES_PKF16(name##_lanes, NO_C16, e)
#define P3(name, e)             LANES_PKF16(name##_lanes, ROW_C16, e)
#define PA2(name, e)            LANES_PKF16(name##_lanes, ROW_C16, e)
#define H2(name, e)             LANES_PK16(name##_lanes, U16, 0, e)
#define I2(name, T, e)          LANES_PK16(name##_lanes, T, 0, e)
#define I3(name, T, e)          LANES_PK16(name##_lanes, T, rc[l], e)
#define F2(name, e)             LANES_PKF32(name##_lanes, NO_C, e)
#define F3(name, e)             LANES_PKF32(name##_lanes, ROW_C, e)
#define S2(name, D, A, B, e)    LANES2(name##_saturating, D, A, B, e)
#define S3(name, D, A, B, C, e) LANES3(name##_saturating, D, A, B, C, e)
#define SI2(name, T, e)         LANES_PK16(name##_saturating, T, 0, e)
#include "valu.def"

static const struct { lanes_fn *plain, *saturating; } clamped[] = {
#define S2(name, D, A, B, e)    { name##_lanes, name##_saturating },
#define S3(name, D, A, B, C, e) { name##_lanes, name##_saturating },
#define SI2(name, T, e)         { name##_lanes, name##_saturating },
#include "valu.def"
};

static lanes_fn *saturating(const struct inst *i)
{
    for (size_t k = 0; k < sizeof clamped / sizeof clamped[0]; k++)
        if (clamped[k].plain == i->op->lanes) return clamped[k].saturating;
    return NULL;
}

#define ROW(name, class, D, A, B, C, traits) { #name, run_valu, name##_lanes, class, T_##D, { T_##A, T_##B, T_##C }, 0, traits, NULL },
#define V1(name, D, A, e)       ROW(name, CLASS_VALU, D, A, NONE, NONE, 0)
#define V2(name, D, A, B, e)    ROW(name, CLASS_VALU, D, A, B, NONE, 0)
#define V3(name, D, A, B, C, e) ROW(name, CLASS_VALU, D, A, B, C, 0)
#define K2(name, D, A, B, e)    ROW(name, CLASS_VALU, D, A, B, NONE, TRAIT_KEEPS_HIGH)
#define K3(name, D, A, B, C, e) ROW(name, CLASS_VALU, D, A, B, C, TRAIT_KEEPS_HIGH)
#define A2(name, D, A, B, e)    ROW(name, CLASS_VALU, D, A, B, NONE, TRAIT_READS_DST | TRAIT_KEEPS_HIGH)
#define D2(name, D, A, B, C, traits, e) ROW(name, CLASS_DOT, D, A, B, NONE, traits)
#define D3(name, D, A, B, C, traits, e) ROW(name, CLASS_DOT, D, A, B, C, traits)
#define P2(name, e)             ROW(name, CLASS_VALU, PKF16, PKF16, PKF16, NONE, TRAIT_PACKED)
#define P3(name, e)             ROW(name, CLASS_VALU, PKF16, PKF16, PKF16, PKF16, TRAIT_PACKED)
#define PA2(name, e)            ROW(name, CLASS_VALU, PKF16, PKF16, PKF16, NONE, TRAIT_READS_DST)
#define H2(name, e)             ROW(name, CLASS_VALU, PKF16, PKF16, PKF16, NONE, TRAIT_PACKED)
#define I2(name, T, e)          ROW(name, CLASS_VALU, PK16, PK16, PK16, NONE, TRAIT_PACKED)
#define I3(name, T, e)          ROW(name, CLASS_VALU, PK16, PK16, PK16, PK16, TRAIT_PACKED)
#define F2(name, e)             ROW(name, CLASS_VALU, PKF32, PKF32, PKF32, NONE, TRAIT_PACKED)
#define F3(name, e)             ROW(name, CLASS_VALU, PKF32, PKF32, PKF32, PKF32, TRAIT_PACKED)
#define L1(name, class, D, A, traits)       ROW(name, class, D, A, NONE, NONE, traits)
#define L2(name, class, D, A, B, C, traits) ROW(name, class, D, A, B, NONE, traits)
#define L3(name, class, D, A, B, C, traits) ROW(name, class, D, A, B, C, traits)
#define R(name, run, class, D, A, B, C, traits, implicit) { #name, run, NULL, class, T_##D, { T_##A, T_##B, T_##C }, 0, traits, implicit },
const struct op_info valu_ops[] = {
#include "valu.def"
};
const uint32_t n_valu_ops = sizeof valu_ops / sizeof valu_ops[0];
