/* valu_cmp.c -- v_cmp_* and v_cmpx_*: a bit for each lane (RDNA3 ISA 16.8, CDNA3 ISA 12.9 VOPC).
 *
 * v_cmp writes the mask, with zeros for lanes outside exec; v_cmpx writes exec, and on CDNA3 the mask too.  f32 comparisons flush denormals
 * as MODE says, through MXCSR; f16 is compared as f32, where its denormals are normal. */
#include "valu.h"

/* ---- conditions, the order of the ISA; X makes one instruction of a type ---- */
#define INTEGER_CONDITIONS(X, t, T)                                                                                                        \
    X(f, t, T, 0 & (a < b)) X(lt, t, T, a < b) X(eq, t, T, a == b) X(le, t, T, a <= b) X(gt, t, T, a > b) X(ne, t, T, a != b)              \
    X(ge, t, T, a >= b) X(t, t, T, 1 | (a < b))
#define FLOAT_CONDITIONS(X, t, T)                                                                                                          \
    X(f, t, T, 0 & (a < b)) X(lt, t, T, a < b) X(eq, t, T, a == b) X(le, t, T, a <= b) X(gt, t, T, a > b) X(lg, t, T, (a < b) | (a > b))   \
    X(ge, t, T, a >= b) X(o, t, T, (a == a) & (b == b)) X(u, t, T, (a != a) | (b != b)) X(nge, t, T, !(a >= b))                            \
    X(nlg, t, T, !((a < b) | (a > b))) X(ngt, t, T, !(a > b)) X(nle, t, T, !(a <= b)) X(neq, t, T, !(a == b)) X(nlt, t, T, !(a < b))       \
    X(t, t, T, 1 | (a < b)) X(tru, t, T, 1 | (a < b))
#define CONDITIONS(X)                                                                                                                      \
    INTEGER_CONDITIONS(X, i16, I16) INTEGER_CONDITIONS(X, u16, U16) INTEGER_CONDITIONS(X, i32, I32) INTEGER_CONDITIONS(X, u32, U32)        \
    INTEGER_CONDITIONS(X, i64, I64) INTEGER_CONDITIONS(X, u64, U64)                                                                        \
    FLOAT_CONDITIONS(X, f16, F16) FLOAT_CONDITIONS(X, f32, F32) FLOAT_CONDITIONS(X, f64, F64)

/* ---- v_cmp_class: the bit of b for the kind of a ---- */
enum kind { SIGNALLING, QUIET, MINUS_INFINITY, MINUS_NORMAL, MINUS_DENORMAL, MINUS_ZERO, ZERO, DENORMAL, NORMAL, INFINITE };

/* x has `bits` bits; the lowest `mantissa` bits are its mantissa. */
static inline uint32_t kind_of(uint64_t x, uint32_t bits, uint32_t mantissa)
{
    const uint64_t top = 1ull << mantissa, fraction = x & (top - 1), most = (1ull << (bits - 1 - mantissa)) - 1,
        exponent = x >> mantissa & most;
    const bool     negative = x >> (bits - 1) & 1;
    if (exponent == most && fraction != 0) return fraction >> (mantissa - 1) & 1 ? QUIET : SIGNALLING;
    if (exponent == most) return negative ? MINUS_INFINITY : INFINITE;
    if (exponent != 0) return negative ? MINUS_NORMAL : NORMAL;
    if (fraction != 0) return negative ? MINUS_DENORMAL : DENORMAL;
    return negative ? MINUS_ZERO : ZERO;
}
LANES2(cmp_class_f16, U32, H16, U32, b >> kind_of(a, 16, 10) & 1)
LANES2(cmp_class_f32, U32, U32, U32, b >> kind_of(a, 32, 23) & 1)
LANES2(cmp_class_f64, U32, U64, U32, b >> kind_of(a, 64, 52) & 1)

#define CONDITION(c, t, T, value) LANES2(cmp_##c##_##t, U32, T, T, (value))
CONDITIONS(CONDITION)
#undef CONDITION

/* ---- running ---- */
void run_cmp(struct wave *w, const struct inst *i)
{
    struct sources s;
    uint32_t rows[MAX_LANES];
    const bool     to_exec = i->op->name[5] == 'x';  /* v_cmpx_ */
    const uint64_t exec = wave_exec(w);
    if (i->flags & FLAG_CLAMP) { report(w, i, FINDING_UNKNOWN, -1, "clamp of a comparison"); return; }     /* signalling compares */
    if (!sources_read(w, i, &s)) return;
    if ((exec & ~s.valid) != 0) { report(w, i, FINDING_UNKNOWN, -1, "a comparison whose DPP leaves lanes out"); return; }
    lanes_run(i, i->op->lanes, rows, &s, w->lanes);
    const uint64_t mask = rows_mask(rows, w->lanes) & exec, undefined = s.undefined & exec;
    if (to_exec && undefined != 0)
        report(w, i, FINDING_UNDEFINED, __builtin_ctzll(undefined), "exec becomes the result of a comparison with an undefined value");
    if (i->n_dst > 0) mask_write(w, &i->dst[0], mask, undefined);
    if (to_exec) sgpr_write(w, EXEC, w->lanes / 32, mask, 0);
}

/* ---- the table ---- */
#define ROWS(c, t, A, B)                                                                                   \
    { "v_cmp_" #c "_" #t,  run_cmp, cmp_##c##_##t, CLASS_VALU, T_MASK, { T_##A, T_##B }, 0, 0, NULL },     \
    { "v_cmpx_" #c "_" #t, run_cmp, cmp_##c##_##t, CLASS_VALU, T_MASK, { T_##A, T_##B }, 0, 0, NULL },
#define CONDITION(c, t, T, value) ROWS(c, t, T, T)
const struct op_info cmp_ops[] = {
    CONDITIONS(CONDITION)
    ROWS(class, f16, F16, U32) ROWS(class, f32, F32, U32) ROWS(class, f64, F64, U32)
};
const uint32_t n_cmp_ops = sizeof cmp_ops / sizeof cmp_ops[0];
