/* salu.c -- the scalar ALU, branches, waits, barriers and other work of the sequencer.
 *
 * salu.def has the arithmetic, one instruction per line.  This file has the macros that make a function and a table row of each line, and
 * the instructions that are not arithmetic.
 *
 *   S  (name, result, source, source, value, undefined)            scc does not change
 *   SO (as S)                                                      the destination is a source
 *   S3 (name, result, source, source, source, value, undefined)    scc does not change
 *   SN (as S)                                                      scc = result is not zero
 *   SC (name, result, source, source, value, scc)                  all is undefined if a source is
 *   SA (as SC)                                                     scc is a source: `carry`
 *   SQ (name, source, source, scc, undefined)                      compares
 *   SX (name, source, value, undefined, kept)                      changes exec
 *
 * Undefined bits are tracked one by one: exactly for logic, moves and shifts (Seward, Nethercote, "Using Valgrind to detect undefined value
 * errors with bit-precision", 2005); otherwise the whole result is undefined.  RDNA3 ISA 16.1 to 16.5, CDNA3 ISA 12.1 to 12.5. */
#include <stdint.h>
#include <string.h>

#include "gfxsim.h"
#include "numbers.h"

#define ALL  (~0ull)
#define ANY  ((ua | ub) != 0 ? ALL : 0)
#define ANY3 ((ua | ub | uc) != 0 ? ALL : 0)

/* ---- operands ---- */

typedef uint32_t c_NONE, c_U32, c_F16;           /* f16: its bits */
typedef int32_t  c_I32;
typedef uint64_t c_U64;
typedef int64_t  c_I64;
typedef float    c_F32;

static inline uint32_t to_NONE(uint64_t bits) { return (uint32_t)bits; }
static inline uint32_t to_U32(uint64_t bits) { return (uint32_t)bits; }
static inline uint32_t to_F16(uint64_t bits) { return (uint32_t)bits & 0xffff; }
static inline int32_t  to_I32(uint64_t bits) { return (int32_t)(uint32_t)bits; }
static inline uint64_t to_U64(uint64_t bits) { return bits; }
static inline int64_t  to_I64(uint64_t bits) { return (int64_t)bits; }
static inline float    to_F32(uint64_t bits) { return bits_f32((uint32_t)bits); }

static inline uint64_t from_U32(uint32_t x) { return x; }
static inline uint64_t from_F16(uint32_t x) { return x; }
static inline uint64_t from_I32(int32_t x)  { return (uint32_t)x; }
static inline uint64_t from_U64(uint64_t x) { return x; }
static inline uint64_t from_I64(int64_t x)  { return (uint64_t)x; }
static inline uint64_t from_F32(float x)    { return f32_bits(x); }

static inline uint64_t value_mask(uint32_t type)
{
    return type == T_U64 || type == T_I64 ? ~0ull : type == T_F16 ? 0xffff : 0xffffffff;
}

/* A source and its undefined bits, as wide as its type. */
static inline uint64_t source(const struct wave *w, const struct operand *o, uint32_t type, uint64_t *undefined)
{
    uint64_t value = o->bits, bad = 0;
    if (o->kind == OPERAND_S) {
        value = w->s[o->reg];
        bad = w->s_undefined[o->reg];
        if (value_mask(type) == ~0ull && o->reg != S_NULL) {
            value |= (uint64_t)w->s[o->reg + 1] << 32;
            bad |= (uint64_t)w->s_undefined[o->reg + 1] << 32;
        }
    } else if (o->kind != OPERAND_INT && o->kind != OPERAND_FLOAT && o->kind != OPERAND_LITERAL) {
        value = scalar_source(w, o);
        bad = scalar_source_undefined(w, o);
    }
    *undefined = bad & value_mask(type);
    return value & value_mask(type);
}

static inline void put(struct wave *w, const struct inst *i, uint64_t value, uint64_t undefined, uint32_t type)
{
    const struct operand *o = &i->dst[0];
    if (o->kind == OPERAND_S)
        sgpr_write(w, o->reg, value_mask(type) == ~0ull ? 2 : 1, value, type == T_F16 ? undefined & 0xffff : undefined);
}

static inline void set_scc(struct wave *w, bool scc, bool undefined)
{
    w->scc = scc;
    w->scc_undefined = undefined;
}

/* scc = value is not zero: defined as soon as a defined bit is 1. */
static inline void set_scc_nonzero(struct wave *w, uint64_t value, uint64_t undefined)
{
    set_scc(w, value != 0, undefined != 0 && (value & ~undefined) == 0);
}

/* ---- longer computations ---- */

static inline uint64_t and_undefined(uint64_t a, uint64_t ua, uint64_t b, uint64_t ub) { return (ua | ub) & (ua | a) & (ub | b); }
static inline uint64_t or_undefined(uint64_t a, uint64_t ua, uint64_t b, uint64_t ub) { return (ua | ub) & (ua | ~a) & (ub | ~b); }

static uint64_t reverse(uint64_t x)
{
    uint64_t r = 0;
    for (uint32_t k = 0; k < 64; k++) r |= (x >> k & 1) << (63 - k);
    return r;
}

static int32_t first_one(uint64_t x) { return x == 0 ? -1 : __builtin_ctzll(x); }                    /* from the lowest bit; -1: none */
static int32_t last_one(uint64_t x, int32_t bits) { return x == 0 ? -1 : __builtin_clzll(x) - (64 - bits); }

static uint64_t replicate(uint64_t x)            /* each of 32 bits twice */
{
    uint64_t r = 0;
    for (uint32_t k = 0; k < 32; k++) r |= (x >> k & 1) * 3 << 2 * k;
    return r;
}

/* Groups of four bits that are not all zero: as whole groups, or one bit for each. */
static uint64_t quads(uint64_t x, bool whole)
{
    uint64_t r = 0;
    for (uint32_t k = 0; k < 16; k++)
        if ((x >> 4 * k & 15) != 0) r |= whole ? 15ull << 4 * k : 1ull << k;
    return r;
}

/* s_bfe: bits `shift` to `shift` + b[22:16] of a. */
static uint64_t field(uint64_t a, uint32_t shift, uint32_t b, bool sign)
{
    const uint32_t width = b >> 16 & 0x7f;
    if (width == 0) return 0;
    const uint64_t x = sign ? (uint64_t)((int64_t)a >> shift) : a >> shift;
    if (width >= 64) return x;
    const uint64_t bits = x & ((1ull << width) - 1), top = 1ull << (width - 1);
    return sign ? (bits ^ top) - top : bits;
}

static inline float H(uint32_t bits) { return f16_to_f32(bits); }

/* The pseudocode of S_MIN and S_MAX: with MODE.IEEE a signalling NaN becomes quiet, otherwise a number wins over a NaN; -0 < +0. */
static uint32_t least(const struct wave *w, uint32_t a, uint32_t b, bool most, uint32_t sign, uint32_t infinity, uint32_t quiet)
{
    const bool ieee = (w->mode >> 9 & 1) != 0, nan_a = (a & ~sign) > infinity, nan_b = (b & ~sign) > infinity;
    if (ieee && nan_a && (a & quiet) == 0) return a | quiet;
    if (ieee && nan_b && (b & quiet) == 0) return b | quiet;
    if (nan_b) return a;
    if (nan_a) return b;
    const uint32_t all = sign | (sign - 1), key_a = (a & sign) != 0 ? ~a & all : a | sign, key_b = (b & sign) != 0 ? ~b & all : b | sign;
    return (most ? key_a > key_b : key_a < key_b) ? a : b;
}

static uint32_t f32_flush(const struct wave *w, uint32_t a)
{
    return (w->mode >> 4 & 3) != 3 && (a & 0x7f800000) == 0 ? a & 0x80000000 : a;
}
static uint32_t f32_least(const struct wave *w, uint32_t a, uint32_t b, bool most)
{
    return least(w, f32_flush(w, a), f32_flush(w, b), most, 0x80000000, 0x7f800000, 0x00400000);
}
static uint32_t f16_least(const struct wave *w, uint32_t a, uint32_t b, bool most) { return least(w, a, b, most, 0x8000, 0x7c00, 0x0200); }

/* ---- a function of each line of salu.def ---- */

#define GET(T, k, x)                                                                                                                       \
    uint64_t u##x = 0; const c_##T x = to_##T(T_##T == T_NONE ? 0 : source(w, &i->src[k], T_##T, &u##x)); (void)x; (void)u##x
#define IMM  ((int32_t)(int16_t)i->imm)
#define UIMM ((uint32_t)(uint16_t)i->imm)
#define OLD  (old_value)
#define UOLD (old_undefined)

#define BEGIN(name) static void run_##name(struct wave *w, const struct inst *i) {
#define END(D, value, undefined)                                                                                                           \
    const c_##D d = (c_##D)(value); const uint64_t ud = (undefined) & value_mask(T_##D); put(w, i, from_##D(d), ud, T_##D)

#define S(name, D, A, B, value, undefined)     BEGIN(name) GET(A, 0, a); GET(B, 1, b); END(D, value, undefined); }
#define S3(name, D, A, B, C, value, undefined) BEGIN(name) GET(A, 0, a); GET(B, 1, b); GET(C, 2, c); END(D, value, undefined); }
#define SO(name, D, A, B, value, undefined) \
    BEGIN(name) uint64_t UOLD; const uint64_t OLD = source(w, &i->dst[0], T_##D, &UOLD); GET(A, 0, a); GET(B, 1, b);                       \
    END(D, value, undefined); }
#define SN(name, D, A, B, value, undefined)                                                                                                \
    BEGIN(name) GET(A, 0, a); GET(B, 1, b); END(D, value, undefined); set_scc_nonzero(w, from_##D(d), ud); }
#define SC(name, D, A, B, value, scc_)                                                                                                     \
    BEGIN(name) GET(A, 0, a); GET(B, 1, b); END(D, value, ANY); set_scc(w, scc_, (ua | ub) != 0); }
#define SA(name, D, A, B, value, scc_) \
    BEGIN(name) GET(A, 0, a); GET(B, 1, b); const uint32_t carry = w->scc; const bool bad = (ua | ub) != 0 || w->scc_undefined; \
    END(D, value, bad ? ALL : 0); set_scc(w, scc_, bad); }
#define SQ(name, A, B, scc_, undefined)        BEGIN(name) GET(A, 0, a); GET(B, 1, b); set_scc(w, scc_, (undefined) != 0); }
#define SX(name, A, value, undefined, kept) \
    BEGIN(name) GET(A, 0, a); const c_##A e = (c_##A)wave_exec(w); const c_##A d = value;                                                  \
    const uint64_t ud = (undefined) & value_mask(T_##A);                                                                                   \
    put(w, i, kept, 0, T_##A); sgpr_write(w, EXEC, sizeof d / 4, d, ud); set_scc_nonzero(w, d, ud); }

/* Sources are read before anything is written, because a pair may be source and destination. */
#include "salu.def"

/* s_addk_i32: d += imm; scc: signed overflow. */
static void run_s_addk_i32(struct wave *w, const struct inst *i)
{
    uint64_t undefined;
    const uint32_t a = (uint32_t)source(w, &i->dst[0], T_U32, &undefined), b = (uint32_t)IMM, d = a + b;
    put(w, i, d, undefined != 0 ? ALL : 0, T_U32);
    set_scc(w, ((~(a ^ b) & (a ^ d)) >> 31) != 0, undefined != 0);
}

/* ---- branches ---- */

static void branch(struct wave *w, const struct inst *i)
{
    if (i->target != UINT32_MAX) w->next = i->target;
    else report(w, i, FINDING_OTHER, -1, "the target of the branch is not an instruction");
}

static void branch_scc(struct wave *w, const struct inst *i, bool when)
{
    if (w->scc_undefined) report(w, i, FINDING_UNDEFINED, -1, "branches on scc, which comes from undefined bits");
    if (w->scc == when) branch(w, i);
}

/* vccz is defined if a defined bit of vcc is 1. */
static void branch_vcc(struct wave *w, const struct inst *i, bool when_zero)
{
    const uint64_t all = lanes_mask(w->lanes), vcc = sgpr_read(w, VCC, 2) & all;
    const uint64_t undefined = ((uint64_t)w->s_undefined[VCC + 1] << 32 | w->s_undefined[VCC]) & all;
    if (undefined != 0 && (vcc & ~undefined) == 0)
        report(w, i, FINDING_UNDEFINED, __builtin_ctzll(undefined), "branches on vcc, bits 0x%llx of which are undefined",
               (unsigned long long)undefined);
    if ((vcc == 0) == when_zero) branch(w, i);
}

static void run_s_branch(struct wave *w, const struct inst *i) { branch(w, i); }
static void run_s_cbranch_scc0(struct wave *w, const struct inst *i) { branch_scc(w, i, false); }
static void run_s_cbranch_scc1(struct wave *w, const struct inst *i) { branch_scc(w, i, true); }
static void run_s_cbranch_vccz(struct wave *w, const struct inst *i) { branch_vcc(w, i, true); }
static void run_s_cbranch_vccnz(struct wave *w, const struct inst *i) { branch_vcc(w, i, false); }
static void run_s_cbranch_execz(struct wave *w, const struct inst *i) { if (wave_exec(w) == 0) branch(w, i); }
static void run_s_cbranch_execnz(struct wave *w, const struct inst *i) { if (wave_exec(w) != 0) branch(w, i); }

static uint64_t code_address(const struct wave *w, uint32_t pc)
{
    const struct module *m = w->group->launch->kernel->module;
    return (uint64_t)(uintptr_t)m->image + m->code_offset + pc;
}

static void jump(struct wave *w, const struct inst *i, uint64_t address)
{
    const struct module *m = w->group->launch->kernel->module;
    const uint64_t at = address - code_address(w, 0);
    if (at < m->code_bytes && at % 4 == 0 && m->inst_at[at / 4] != UINT32_MAX) w->next = m->inst_at[at / 4];
    else report(w, i, FINDING_OTHER, -1, "the target of the jump, 0x%llx, is not an instruction of the module",
        (unsigned long long)address);
}

static void run_s_getpc_b64(struct wave *w, const struct inst *i) { put(w, i, code_address(w, i->pc + 4), 0, T_U64); }
static void run_s_setpc_b64(struct wave *w, const struct inst *i) { jump(w, i, scalar_source(w, &i->src[0])); }
static void run_s_swappc_b64(struct wave *w, const struct inst *i)
{
    const uint64_t to = scalar_source(w, &i->src[0]);
    run_s_getpc_b64(w, i);
    jump(w, i, to);
}
static void run_s_call_b64(struct wave *w, const struct inst *i)
{
    run_s_getpc_b64(w, i);
    branch(w, i);
}

static void run_s_endpgm(struct wave *w, const struct inst *i) { (void)i; w->ended = true; }
static void run_s_code_end(struct wave *w, const struct inst *i) { report(w, i, FINDING_OTHER, -1, "runs past the end of the kernel"); }
static void run_s_trap(struct wave *w, const struct inst *i) { report(w, i, FINDING_OTHER, -1, "the kernel traps"); }

/* ---- waits, barriers, messages ---- */

static void run_s_waitcnt(struct wave *w, const struct inst *i) { wave_wait(w, i->waits, i->in_loop); }
static void run_s_wait_idle(struct wave *w, const struct inst *i) { wave_wait(w, (struct waits){ { 0 } }, i->in_loop); }

/* lds_shadow.c handles stores to LDS that were not waited for: a finding if another wave accesses them. */
static void run_s_barrier(struct wave *w, const struct inst *i)
{
    (void)i;
    w->at_barrier = true;
}

/* Only the message by which a wave returns its registers (RDNA3 ISA 16.5, S_SENDMSG; LLVM: MSG_DEALLOC_VGPRS); it has no visible
 * effect. */
static void run_s_sendmsg(struct wave *w, const struct inst *i)
{
    if (!w->group->launch->chip->isa->returns_registers || (i->imm & 0xff) != 3)
        report(w, i, FINDING_UNKNOWN, -1, "message %d is not modelled", (int)(i->imm & 0xff));
}

static void run_nothing(struct wave *w, const struct inst *i) { (void)w; (void)i; }

/* A wave that waits for another chip gives up the rest of its slice. */
static void run_sleep(struct wave *w, const struct inst *i)
{
    (void)i;
    w->sleeps = w->group->launch->several;
}

/* ---- hardware registers (RDNA3 ISA 3.4 and 16.4, CDNA3 ISA 3.3; numbers as LLVM's SIDefines.h) ---- */

enum { HW_MODE = 1, HW_ID = 4 /* GFX9 */, HW_XCC_ID = 20 /* gfx940 */, HW_ID1 = 23, HW_SHADER_CYCLES = 29 /* GFX11 */ };

/* A plausible place: groups are assigned to dies in turn, waves of a group to the SIMDs of a compute unit in turn. */
static uint32_t place(const struct wave *w)
{
    const struct chip *c = w->group->launch->chip;
    const uint32_t simd = w->index % 4, slot = w->index / 4, unit = w->group->id / (c->dies > 0 ? c->dies : 1);
    return c->isa->id == ISA_CDNA3 ? (slot & 15) | simd << 4 | (unit % 10) << 8 | (unit / 10 % 4) << 13
        : (slot & 31) | simd << 8 | (unit % 4) << 10 | (unit / 4 % 6) << 18;
}

static bool hardware_register(const struct wave *w, uint32_t id, uint32_t *value)
{
    const bool cdna3 = w->group->launch->chip->isa->id == ISA_CDNA3;
    switch (id) {
    case HW_MODE:          *value = w->mode; return true;
    case HW_ID:            *value = place(w); return cdna3;
    case HW_XCC_ID:        *value = w->group->die; return cdna3;
    case HW_ID1:           *value = place(w); return !cdna3;
    case HW_SHADER_CYCLES: *value = (uint32_t)(4 * w->instructions) & 0xfffff; return !cdna3;      /* 20 bits */
    default:               return false;
    }
}

static uint32_t field_mask(const struct inst *i) { return (uint32_t)((1ull << ((i->imm >> 11 & 31) + 1)) - 1); }

static void run_s_getreg_b32(struct wave *w, const struct inst *i)
{
    uint32_t value = 0;
    if (!hardware_register(w, (uint32_t)i->imm & 63, &value)) report(w, i, FINDING_UNKNOWN, -1, "this hardware register is not modelled");
    put(w, i, value >> (i->imm >> 6 & 31) & field_mask(i), 0, T_U32);
}

/* src[0] is the register's name, src[1] the value.  In MODE: rounding, denormals, DX10_CLAMP, IEEE; the loop applies it before the next
 * instruction. */
static void run_s_setreg_b32(struct wave *w, const struct inst *i)
{
    const uint32_t shift = i->imm >> 6 & 31, mask = field_mask(i) << shift,
        value = (uint32_t)scalar_source(w, &i->src[i->n_src - 1]) << shift;
    const uint32_t mode = (w->mode & ~mask) | (value & mask);
    if ((i->imm & 63) != HW_MODE || ((mode ^ w->mode) & ~0x3ffu) != 0)
        report(w, i, FINDING_UNKNOWN, -1, "only the lower ten bits of MODE can be written");
    else w->mode = mode;
}

static void run_s_round_mode(struct wave *w, const struct inst *i) { w->mode = (w->mode & ~15u) | ((uint32_t)i->imm & 15); }
static void run_s_denorm_mode(struct wave *w, const struct inst *i) { w->mode = (w->mode & ~0xf0u) | ((uint32_t)i->imm & 15) << 4; }

/* ---- the table ---- */

#undef S
#undef S3
#undef SO
#undef SN
#undef SC
#undef SA
#undef SQ
#undef SX
#define ROW(name, D, A, B, C, traits, implicit)                                                                                            \
    { #name, run_##name, NULL, CLASS_SALU, T_##D, { T_##A, T_##B, T_##C }, 0, TRAIT_OWN_DEFINED | (traits), implicit },
#define S(name, D, A, B, value, undefined)     ROW(name, D, A, B, NONE, 0, NULL)
#define S3(name, D, A, B, C, value, undefined) ROW(name, D, A, B, C, 0, NULL)
#define SO(name, D, A, B, value, undefined)    ROW(name, D, A, B, NONE, TRAIT_READS_DST, NULL)
#define SN(name, D, A, B, value, undefined)    ROW(name, D, A, B, NONE, 0, NULL)
#define SC(name, D, A, B, value, scc_)         ROW(name, D, A, B, NONE, 0, NULL)
#define SA(name, D, A, B, value, scc_)         ROW(name, D, A, B, NONE, 0, NULL)
#define SQ(name, A, B, scc_, undefined)        ROW(name, NONE, A, B, NONE, TRAIT_NO_DST, NULL)
#define SX(name, A, value, undefined, kept)    ROW(name, A, A, NONE, NONE, 0, "exec")

#define BRANCH(name, traits, implicit)                                                                                                     \
    { #name, run_##name, NULL, CLASS_BRANCH, T_NONE, { T_NONE, T_NONE, T_NONE }, 0, TRAIT_NO_DST | (traits), implicit },
#define WAIT(name, run)                { #name, run, NULL, CLASS_WAIT, T_NONE, { T_NONE, T_NONE, T_NONE }, 0, TRAIT_NO_DST, NULL },
#define OTHER(name, run)               { #name, run, NULL, CLASS_OTHER, T_NONE, { T_NONE, T_NONE, T_NONE }, 0, TRAIT_NO_DST, NULL },

const struct op_info salu_ops[] = {
#include "salu.def"
    ROW(s_addk_i32, U32, NONE, NONE, NONE, TRAIT_READS_DST, NULL)
    ROW(s_getreg_b32, U32, NONE, NONE, NONE, 0, NULL)
    { "s_setreg_b32", run_s_setreg_b32, NULL, CLASS_SALU, T_NONE, { T_NONE, T_U32, T_NONE }, 0, TRAIT_NO_DST | TRAIT_NEEDS_DEFINED, NULL },
    { "s_setreg_imm32_b32", run_s_setreg_b32, NULL, CLASS_SALU, T_NONE, { T_NONE, T_U32, T_NONE }, 0, TRAIT_NO_DST, NULL },

    BRANCH(s_branch, 0, NULL)
    BRANCH(s_cbranch_scc0, TRAIT_OWN_DEFINED, NULL)
    BRANCH(s_cbranch_scc1, TRAIT_OWN_DEFINED, NULL)
    BRANCH(s_cbranch_vccz, TRAIT_OWN_DEFINED, "vcc")
    BRANCH(s_cbranch_vccnz, TRAIT_OWN_DEFINED, "vcc")
    BRANCH(s_cbranch_execz, TRAIT_OWN_DEFINED, "exec")
    BRANCH(s_cbranch_execnz, TRAIT_OWN_DEFINED, "exec")
    BRANCH(s_endpgm, 0, NULL)
    BRANCH(s_code_end, 0, NULL)
    BRANCH(s_trap, 0, NULL)
    { "s_getpc_b64", run_s_getpc_b64, NULL, CLASS_SALU, T_U64, { T_NONE, T_NONE, T_NONE }, 0, TRAIT_OWN_DEFINED, NULL },
    { "s_setpc_b64", run_s_setpc_b64, NULL, CLASS_BRANCH, T_NONE, { T_U64, T_NONE, T_NONE }, 0, TRAIT_NO_DST | TRAIT_NEEDS_DEFINED, NULL },
    { "s_swappc_b64", run_s_swappc_b64, NULL, CLASS_BRANCH, T_U64, { T_U64, T_NONE, T_NONE }, 0, TRAIT_NEEDS_DEFINED, NULL },
    { "s_call_b64", run_s_call_b64, NULL, CLASS_BRANCH, T_U64, { T_NONE, T_NONE, T_NONE }, 0, TRAIT_OWN_DEFINED, NULL },

    WAIT(s_waitcnt, run_s_waitcnt)
    WAIT(s_waitcnt_vscnt, run_s_waitcnt)
    WAIT(s_waitcnt_vmcnt, run_s_waitcnt)
    WAIT(s_waitcnt_lgkmcnt, run_s_waitcnt)
    WAIT(s_waitcnt_expcnt, run_s_waitcnt)
    WAIT(s_wait_idle, run_s_wait_idle)
    { "s_barrier", run_s_barrier, NULL, CLASS_BARRIER, T_NONE, { T_NONE, T_NONE, T_NONE }, 0, TRAIT_NO_DST, NULL },

    /* scheduling and tracing: no effect on results */
    OTHER(s_nop, run_nothing)
    OTHER(s_sleep, run_sleep)
    OTHER(s_setprio, run_nothing)
    OTHER(s_clause, run_nothing)
    OTHER(s_delay_alu, run_nothing)
    OTHER(s_waitcnt_depctr, run_nothing)
    OTHER(s_set_inst_prefetch_distance, run_nothing)
    OTHER(s_icache_inv, run_nothing)
    OTHER(s_incperflevel, run_nothing)
    OTHER(s_decperflevel, run_nothing)
    OTHER(s_ttracedata, run_nothing)
    OTHER(s_ttracedata_imm, run_nothing)
    OTHER(s_version, run_nothing)

    OTHER(s_sendmsg, run_s_sendmsg)
    OTHER(s_round_mode, run_s_round_mode)
    OTHER(s_denorm_mode, run_s_denorm_mode)
};
const uint32_t n_salu_ops = sizeof salu_ops / sizeof *salu_ops;
