/* smem.c -- scalar loads: s_load, s_buffer_load, the clocks, and the scalar cache.
 *
 * A load is done at once; its registers stay awaited until s_waitcnt lgkmcnt(0).  Addresses are of dwords: the low two bits must be zero,
 * because the chip would silently ignore them.  RDNA3 ISA 8 and 16.6, CDNA3 ISA 8 and 12.6. */
#include <string.h>
#include <time.h>

#include "gfxsim.h"

enum { POISON = 0xdeadbeef };

/* The printed offset after the base: an immediate, a register, or a register and `offset:`. */
static uint64_t offset_of(const struct wave *w, const struct inst *i)
{
    uint64_t offset = (uint64_t)(int64_t)i->offset;
    for (uint32_t k = 1; k < i->n_src; k++) {
        const struct operand *o = &i->src[k];
        if (o->kind == OPERAND_S) offset += w->s[o->reg];
        else if (o->kind == OPERAND_INT || o->kind == OPERAND_LITERAL) offset += (uint64_t)(int64_t)(int32_t)o->number;
    }
    return offset;
}

/* Bits of a dword in memory that were never written; the dword lies in one allocation. */
static uint32_t undefined_bits(uint64_t address)
{
    uint32_t bits = 0;
    for (uint32_t k = 0; k < 4; k++)
        if (!memory_defined(address + k, 1)) bits |= 0xffu << 8 * k;
    return bits;
}

/* Returns true if the bytes may be read. */
static bool allowed(struct wave *w, const struct inst *i, uint64_t address, uint32_t bytes)
{
    char where[128];
    if (address % 4 != 0) {
        report(w, i, FINDING_ALIGNMENT, -1, "a scalar load from 0x%llx, which is not a multiple of 4", (unsigned long long)address);
        return false;
    }
    const struct launch *l = w->group->launch;
    if (memory_reachable(address, bytes, l->reach)) return true;
    memory_describe(where, sizeof where, address);
    report(w, i, FINDING_BOUNDS, -1, "a scalar load of %u bytes at 0x%llx: %s%s", bytes, (unsigned long long)address, where,
           memory_reachable(address, bytes, ~0u) ? PEER_CLOSED : "");
    return false;
}

/* Loads n dwords to the destination's registers from `at` on. */
static void load(struct wave *w, const struct inst *i, uint64_t address, uint32_t at, uint32_t n)
{
    uint32_t data[16];
    const bool ok = n > 0 && allowed(w, i, address, 4 * n);
    const bool defined = ok && memory_defined(address, 4 * n);
    if (ok) {
        if (w->group->launch->several) peers_access(w, i, &address, 1, 4 * n, address, address + 4 * n, PEER_LOAD, false);
        order_scalar_load(w, i, address, 4 * n);
        memcpy(data, (const void *)(uintptr_t)address, 4 * n);
        w->group->counters->scalar_bytes += 4 * n;
    }
    for (uint32_t k = 0; k < n; k++)
        sgpr_write(w, i->dst[0].reg + at + k, 1, ok ? data[k] : (uint32_t)POISON,
                   !ok ? ~0u : defined ? 0 : undefined_bits(address + 4 * k));
}

static void await(struct wave *w, const struct inst *i, uint32_t n)
{
    w->smem_started++;
    if (n > 0 && i->dst[0].kind == OPERAND_S) sgpr_await(w, i->dst[0].reg, n);
}

static void run_load(struct wave *w, const struct inst *i)
{
    const uint32_t n = i->op->bytes / 4;
    const uint64_t base = sgpr_read(w, i->src[0].reg, 2);
    if (i->dst[0].kind == OPERAND_S) load(w, i, base + offset_of(w, i), 0, n);
    await(w, i, n);
}

/* A buffer: base of 48 bits, stride, number of records (bytes, if the stride is 0).  Dwords that begin beyond its end are zero (RDNA3 ISA
 * 8.2.1). */
static void run_buffer_load(struct wave *w, const struct inst *i)
{
    const uint32_t n = i->op->bytes / 4, *v = &w->s[i->src[0].reg], stride = v[1] >> 16 & 0x3fff;
    const uint64_t base = (uint64_t)(v[1] & 0xffff) << 32 | v[0], offset = offset_of(w, i);
    const uint64_t bytes = stride == 0 ? v[2] : (uint64_t)stride * v[2];
    if (v[1] >> 30 != 0) report(w, i, FINDING_UNKNOWN, -1, "a swizzled buffer (descriptor 0x%x 0x%x 0x%x 0x%x)", v[0], v[1], v[2], v[3]);
    else if (i->dst[0].kind == OPERAND_S) {
        const uint64_t left = offset < bytes ? (bytes - offset) / 4 : 0;
        const uint32_t in = left < n ? (uint32_t)left : n;
        if (in > 0) load(w, i, base + offset, 0, in);
        for (uint32_t k = in; k < n; k++) sgpr_write(w, i->dst[0].reg + k, 1, 0, 0);
    }
    await(w, i, n);
}

/* ---- clocks: the host's; 1 GHz for s_memtime, 100 MHz for the real time ---- */

static uint64_t nanoseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void clock_write(struct wave *w, const struct inst *i, uint64_t value)
{
    if (i->dst[0].kind == OPERAND_S) sgpr_write(w, i->dst[0].reg, 2, value, 0);
    await(w, i, 2);
}

static void run_memtime(struct wave *w, const struct inst *i) { clock_write(w, i, nanoseconds()); }
static void run_memrealtime(struct wave *w, const struct inst *i) { clock_write(w, i, nanoseconds() / 10); }

/* RDNA3 ISA 16.3, S_SENDMSG_RTN_B64: message 0x83 asks for the real time. */
static void run_sendmsg_rtn(struct wave *w, const struct inst *i)
{
    if ((i->imm & 0xff) != 0x83) report(w, i, FINDING_UNKNOWN, -1, "message 0x%x is not modelled", (unsigned)(i->imm & 0xff));
    else run_memrealtime(w, i);
}

/* ---- caches ---- */

static void run_dcache_inv(struct wave *w, const struct inst *i)
{
    order_scalar_invalidate(w);
    await(w, i, 0);
}

/* The scalar cache never holds newer data than memory: these chips have no scalar stores. */
static void run_dcache_wb(struct wave *w, const struct inst *i) { await(w, i, 0); }

static void run_gl1_inv(struct wave *w, const struct inst *i)
{
    order_invalidate(w, SCOPE_DEVICE);
    await(w, i, 0);
}

/* ---- the table ---- */

#define LOAD(name, bytes)        { name, run_load, NULL, CLASS_SMEM, T_ROWS, { T_B64, T_U32, T_NONE }, bytes, TRAIT_NEEDS_DEFINED, NULL },
#define BUFFER_LOAD(name, bytes)                                                                                                           \
    { name, run_buffer_load, NULL, CLASS_SMEM, T_ROWS, { T_ROWS, T_U32, T_NONE }, bytes, TRAIT_NEEDS_DEFINED, NULL },
#define CLOCK(name, run)         { name, run, NULL, CLASS_SMEM, T_B64, { T_NONE, T_NONE, T_NONE }, 8, 0, NULL },
#define CACHE(name, run)         { name, run, NULL, CLASS_SMEM, T_NONE, { T_NONE, T_NONE, T_NONE }, 0, TRAIT_NO_DST, NULL },

const struct op_info smem_ops[] = {
    LOAD("s_load_dword", 4) LOAD("s_load_dwordx2", 8) LOAD("s_load_dwordx4", 16) LOAD("s_load_dwordx8", 32) LOAD("s_load_dwordx16", 64)
    LOAD("s_load_b32", 4)   LOAD("s_load_b64", 8)     LOAD("s_load_b128", 16)    LOAD("s_load_b256", 32)    LOAD("s_load_b512", 64)
    BUFFER_LOAD("s_buffer_load_dword", 4)     BUFFER_LOAD("s_buffer_load_dwordx2", 8)  BUFFER_LOAD("s_buffer_load_dwordx4", 16)
    BUFFER_LOAD("s_buffer_load_dwordx8", 32)  BUFFER_LOAD("s_buffer_load_dwordx16", 64)
    BUFFER_LOAD("s_buffer_load_b32", 4)       BUFFER_LOAD("s_buffer_load_b64", 8)      BUFFER_LOAD("s_buffer_load_b128", 16)
    BUFFER_LOAD("s_buffer_load_b256", 32)     BUFFER_LOAD("s_buffer_load_b512", 64)
    CLOCK("s_memtime", run_memtime)
    CLOCK("s_memrealtime", run_memrealtime)
    CLOCK("s_sendmsg_rtn_b64", run_sendmsg_rtn)
    CACHE("s_dcache_inv", run_dcache_inv)
    CACHE("s_dcache_inv_vol", run_dcache_inv)
    CACHE("s_dcache_wb", run_dcache_wb)
    CACHE("s_dcache_wb_vol", run_dcache_wb)
    CACHE("s_gl1_inv", run_gl1_inv)
};
const uint32_t n_smem_ops = sizeof smem_ops / sizeof *smem_ops;
