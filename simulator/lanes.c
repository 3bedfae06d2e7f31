/* lanes.c -- movement of values between lanes: DPP, readlane and writelane, permlane; and SDWA, which moves values within a lane.
 *
 * Sources: RDNA3 ISA 7.7 (DPP8, DPP16), 16.7 (V_READFIRSTLANE_B32, V_PERMLANE64_B32), 16.10 (V_READLANE_B32, V_PERMLANE16_B32 ...); CDNA3
 * ISA 12.13 (SDWA), 12.14 (DPP); LLVM, AMDGPUModifierSyntax.
 *
 * DPP: a lane of the destination takes its first source from another lane.  That lane may be invalid for two reasons: it lies outside the
 * row or the wave, or it is not in exec (and FI is not set).  With bound_ctrl both give 0; without it the destination's lane is not
 * written. row_mask and bank_mask always affect the write only. */
#include "gfxsim.h"
#include <string.h>

/* ---- the source lane of each lane ---- */

/* from[lane] is the source lane, before any check, but always a lane of the wave.  For 64 lanes, so that the loops have constant trip
 * counts. */
static void source_lanes(const struct inst *i, uint32_t *from, uint32_t lanes)
{
    const uint32_t n = i->dpp_value, most = lanes - 1;
#define EACH(SOURCE) for (uint32_t lane = 0; lane < MAX_LANES; lane++) from[lane] = (SOURCE) & most; break
    switch ((enum dpp)i->dpp) {
    case DPP_QUAD_PERM:       EACH((lane & ~3u) + (n >> 2 * (lane & 3u) & 3u));
    case DPP_ROW_SHL:         EACH(lane + n);
    case DPP_ROW_SHR:         EACH(lane - n);
    case DPP_ROW_ROR:         EACH((lane & ~15u) + ((lane - n) & 15u));
    case DPP_WAVE_SHL:
    case DPP_WAVE_ROL:        EACH(lane + 1);
    case DPP_WAVE_SHR:
    case DPP_WAVE_ROR:        EACH(lane - 1);
    case DPP_ROW_MIRROR:      EACH(lane ^ 15u);
    case DPP_ROW_HALF_MIRROR: EACH(lane ^ 7u);
    case DPP_ROW_BCAST:       EACH(n == 15 ? (lane & ~15u) - 1 : 31u);
    case DPP_ROW_SHARE:
    case DPP_ROW_NEWBCAST:    EACH((lane & ~15u) + n);
    case DPP_ROW_XMASK:       EACH(lane ^ n);
    case DPP_NONE:            EACH((lane & ~7u) + (i->dpp8 >> 3 * (lane & 7u) & 7u));
    }
#undef EACH
}

/* The lanes whose source lies inside: of the row for row shifts, of the wave for wave shifts, after the first row for broadcasts. */
static uint64_t lanes_inside(const struct inst *i)
{
    const uint64_t each_row = 0x0001000100010001ull;
    const uint32_t n = i->dpp_value;
    switch ((enum dpp)i->dpp) {
    case DPP_ROW_SHL:   return (0xffffu >> n) * each_row;
    case DPP_ROW_SHR:   return (0xffffu << n & 0xffffu) * each_row;
    case DPP_WAVE_SHL:  return ~0ull >> 1;
    case DPP_WAVE_SHR:  return ~1ull;
    case DPP_ROW_BCAST: return n == 15 ? ~0xffffull : ~0xffffffffull;
    default:            return ~0ull;
    }
}

/* The lanes that row_mask and bank_mask allow to be written: rows of 16, banks of 4. */
static uint64_t lanes_masked(const struct inst *i)
{
    uint32_t row = 0;
    uint64_t all = 0;
    for (uint32_t bank = 0; bank < 4; bank++) row |= (i->bank_mask >> bank & 1u) * (0xfu << 4 * bank);
    for (uint32_t k = 0; k < 4; k++) all |= (i->row_mask >> k & 1u) * ((uint64_t)row << 16 * k);
    return all;
}

/* Bit i of the result is bit from[i] of mask. */
static uint64_t mask_permute(uint64_t mask, const uint32_t *from, uint32_t lanes)
{
    uint64_t out = 0;
    if (mask == 0) return 0;
    if (mask == lanes_mask(lanes)) return mask;
    for (uint32_t lane = 0; lane < lanes; lane++) out |= (mask >> from[lane] & 1u) << lane;
    return out;
}

/* ---- DPP ---- */

static void quad_perm(uint32_t *out, const uint32_t *in, uint32_t lanes, uint32_t value)
{
    const uint32_t a = value & 3u, b = value >> 2 & 3u, c = value >> 4 & 3u, d = value >> 6 & 3u;
    for (uint32_t k = 0; k < lanes; k += 4) {
        const uint32_t q[4] = { in[k + a], in[k + b], in[k + c], in[k + d] };
        memcpy(out + k, q, sizeof q);
    }
}

static void gather(uint32_t *out, const uint32_t *in, const uint32_t *from, uint32_t lanes)
{
    for (uint32_t lane = 0; lane < lanes; lane++) out[lane] = in[from[lane]];
}

static void zero_lanes(uint32_t *out, uint64_t mask)
{
    for (; mask > 0; mask &= mask - 1) out[__builtin_ctzll(mask)] = 0;
}

void dpp_apply(const struct wave *w, const struct inst *i, uint32_t *out, const uint32_t *in, uint32_t words, uint64_t *valid,
               uint64_t *undefined)
{
    const uint32_t lanes = w->lanes;
    /* DPP8 has no bound_ctrl: lanes outside exec read 0 */
    const bool dpp8 = i->flags & FLAG_DPP8, zero = dpp8 || (i->flags & FLAG_BOUND_CTRL);
    const uint64_t all = lanes_mask(lanes), inside = lanes_inside(i) & all;
    uint32_t from[MAX_LANES];
    source_lanes(i, from, lanes);
    uint64_t read = inside;
    if (!(i->flags & FLAG_FI)) read &= mask_permute(wave_exec(w), from, lanes);
    for (uint32_t k = 0; k < words; k++) {
        if (i->dpp == DPP_QUAD_PERM) quad_perm(out + k * lanes, in + k * lanes, lanes, i->dpp_value);
        else gather(out + k * lanes, in + k * lanes, from, lanes);
        zero_lanes(out + k * lanes, all & ~read);
    }
    *undefined = mask_permute(*undefined, from, lanes) & read;
    *valid = (zero ? all : read) & (dpp8 ? all : lanes_masked(i) & all);
}

/* ---- SDWA (CDNA3) ---- */

void sdwa_select(uint32_t *out, const uint32_t *in, uint32_t lanes, uint32_t sel, bool sext)
{
    if (sel == SEL_DWORD) { memmove(out, in, lanes * sizeof *out); return; }
    const uint32_t bits = sel <= SEL_BYTE_3 ? 8 : 16, first = sel <= SEL_BYTE_3 ? 8 * (sel - SEL_BYTE_0) : 16 * (sel - SEL_WORD_0);
    const uint32_t left = 32 - bits - first, right = 32 - bits;
    if (sext) for (uint32_t k = 0; k < lanes; k++) out[k] = (uint32_t)((int32_t)(in[k] << left) >> right);
    else      for (uint32_t k = 0; k < lanes; k++) out[k] = in[k] << left >> right;
}

void sdwa_insert(uint32_t *rows, const uint32_t *old, uint32_t lanes, uint32_t sel, uint32_t unused)
{
    enum { PAD, SEXT, PRESERVE };
    if (sel == SEL_DWORD) return;
    const uint32_t bits = sel <= SEL_BYTE_3 ? 8 : 16, first = sel <= SEL_BYTE_3 ? 8 * (sel - SEL_BYTE_0) : 16 * (sel - SEL_WORD_0);
    const uint32_t left = 32 - bits, right = left - first, field = (~0u >> left) << first;
    for (uint32_t k = 0; k < lanes; k++) {
        const uint32_t padded = rows[k] << left >> right, extended = (uint32_t)((int32_t)(rows[k] << left) >> right);
        rows[k] = unused == PRESERVE ? padded | (old[k] & ~field) : unused == SEXT ? extended : padded;
    }
}

/* ---- from one lane to a scalar register and back ---- */

/* Undefined lanes of register reg. */
static uint64_t register_undefined(const struct wave *w, uint32_t reg)
{
    return w->v_state[reg] & REG_UNDEFINED ? w->undefined[reg] : 0;
}

static void read_lane(struct wave *w, const struct inst *i, uint32_t lane)
{
    if (i->src[0].kind != OPERAND_V || i->dst[0].kind == OPERAND_V) { unknown_op(w, i); return; }
    if (i->dst[0].kind != OPERAND_S) return;                            /* null */
    const uint32_t reg = i->src[0].reg;
    const uint64_t undefined = register_undefined(w, reg) >> lane & 1u ? 0xffffffffu : 0;
    sgpr_write(w, i->dst[0].reg, 1, vgpr(w, reg)[lane], undefined);
}

static void run_readfirstlane(struct wave *w, const struct inst *i)
{
    const uint64_t exec = wave_exec(w);
    read_lane(w, i, exec ? (uint32_t)__builtin_ctzll(exec) : 0);         /* no lane active: lane 0 */
}

/* A lane number from a scalar register or constant, modulo the wave.  An undefined number is a finding, because the register bits it
 * selects are unknown. */
static bool lane_select(struct wave *w, const struct inst *i, const struct operand *o, uint32_t *lane)
{
    if (o->kind == OPERAND_V) { unknown_op(w, i); return false; }
    *lane = (uint32_t)scalar_source(w, o) & (w->lanes - 1);
    if ((scalar_source_undefined(w, o) & (w->lanes - 1)) == 0) return true;
    return !report(w, i, FINDING_UNDEFINED, -1, "the number of the lane was never written");
}

static void run_readlane(struct wave *w, const struct inst *i)
{
    uint32_t lane;
    if (lane_select(w, i, &i->src[1], &lane)) read_lane(w, i, lane);
}

static void run_writelane(struct wave *w, const struct inst *i)          /* exec does not matter */
{
    uint32_t lane, row[MAX_LANES] = { 0 };
    if (i->src[0].kind == OPERAND_V || i->dst[0].kind != OPERAND_V) { unknown_op(w, i); return; }
    if (!lane_select(w, i, &i->src[1], &lane)) return;
    row[lane] = (uint32_t)scalar_source(w, &i->src[0]);
    const uint64_t bit = 1ull << lane;
    vgpr_write(w, i->dst[0].reg, 1, row, bit, (uint32_t)scalar_source_undefined(w, &i->src[0]) ? bit : 0);
}

/* ---- permlane (RDNA) ---- */

/* Lane i takes lane from[i] of src[0]; op_sel bit 0 is FI, bit 1 bound_ctrl, with DPP's meanings (LLVM, llvm.amdgcn.permlane16). */
static void permute(struct wave *w, const struct inst *i, const uint32_t *from, bool fi, bool zero)
{
    if (i->src[0].kind != OPERAND_V || i->dst[0].kind != OPERAND_V) { unknown_op(w, i); return; }
    const uint32_t lanes = w->lanes, reg = i->src[0].reg;
    const uint64_t exec = wave_exec(w), read = fi ? lanes_mask(lanes) : mask_permute(exec, from, lanes);
    uint32_t row[MAX_LANES];
    gather(row, vgpr(w, reg), from, lanes);
    zero_lanes(row, lanes_mask(lanes) & ~read);
    vgpr_write(w, i->dst[0].reg, 1, row, exec & (zero ? ~0ull : read), mask_permute(register_undefined(w, reg), from, lanes) & read);
}

static void permlane16(struct wave *w, const struct inst *i, uint32_t other_row)
{
    if (i->src[1].kind == OPERAND_V || i->src[2].kind == OPERAND_V) { unknown_op(w, i); return; }
    const uint64_t select = (uint64_t)(uint32_t)scalar_source(w, &i->src[2]) << 32 | (uint32_t)scalar_source(w, &i->src[1]);
    if ((uint32_t)(scalar_source_undefined(w, &i->src[1]) | scalar_source_undefined(w, &i->src[2]))
        && report(w, i, FINDING_UNDEFINED, -1, "the lane selects were never written")) return;
    uint32_t from[MAX_LANES];
    for (uint32_t lane = 0; lane < w->lanes; lane++)
        from[lane] = ((lane & ~15u) ^ other_row) + (uint32_t)(select >> 4 * (lane & 15u) & 15u);
    permute(w, i, from, i->op_sel & 1u, i->op_sel & 2u);
}
static void run_permlane16(struct wave *w, const struct inst *i)  { permlane16(w, i, 0); }
static void run_permlanex16(struct wave *w, const struct inst *i) { permlane16(w, i, 16); }

/* Swaps the halves of a wave of 64, including lanes read outside exec; a wave of 32 does nothing (RDNA3 ISA 16.7). */
static void run_permlane64(struct wave *w, const struct inst *i)
{
    uint32_t from[MAX_LANES];
    if (w->lanes == 32) return;
    for (uint32_t lane = 0; lane < w->lanes; lane++) from[lane] = lane ^ 32u;
    permute(w, i, from, true, false);
}

/* Undefined lanes make undefined scalar bits; the finding is reported when these are used. */
#define LANE_OP(NAME, RUN, D, X, Y, Z) \
    { .name = NAME, .run = RUN, .class = CLASS_VALU, .dst = T_##D, .src = { T_##X, T_##Y, T_##Z },                                         \
      .traits = TRAIT_OWN_DEFINED | TRAIT_ALL_LANES },
const struct op_info lane_ops[] = {
    LANE_OP("v_readfirstlane_b32", run_readfirstlane, B32, B32, NONE, NONE)
    LANE_OP("v_readlane_b32",      run_readlane,      B32, B32, B32,  NONE)
    LANE_OP("v_writelane_b32",     run_writelane,     B32, B32, B32,  NONE)
    LANE_OP("v_permlane16_b32",    run_permlane16,    B32, B32, B32,  B32)
    LANE_OP("v_permlanex16_b32",   run_permlanex16,   B32, B32, B32,  B32)
    LANE_OP("v_permlane64_b32",    run_permlane64,    B32, B32, NONE, NONE)
};
const uint32_t n_lane_ops = sizeof lane_ops / sizeof lane_ops[0];
