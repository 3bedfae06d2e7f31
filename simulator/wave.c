/* wave.c -- a wave: its initial state, the loop over its instructions, and its registers.
 *
 * Before each instruction the loop checks the state of every register that the instruction names.  State 0 is normal and costs one byte of
 * look-up.  Otherwise the register was never written (in some lanes), or a load into it may still be in flight because no s_waitcnt has
 * covered it.
 *
 * Initial state: LLVM, User Guide for AMDGPU Backend, "Initial Kernel Execution State", for targets with architected flat scratch and
 * packed work-item ids (gfx942, gfx11).  Waits: RDNA3 ISA 5.6, CDNA3 ISA 4.4. */
#include <immintrin.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "gfxsim.h"

enum { REG_ABSENT = 0x80 };                      /* for v_state, besides enum register_state: not among the kernel's registers */
enum { REG_AWAITED = REG_VM | REG_LGKM | REG_SMEM };

/* ---- registers ---- */

/* to = from in the lanes of mask; 32 lanes. */
static void blend(uint32_t *restrict to, const uint32_t *restrict from, uint32_t mask)
{
    for (uint32_t l = 0; l < 32; l++) {
        const uint32_t take = 0u - (mask >> l & 1u);
        to[l] = (from[l] & take) | (to[l] & ~take);
    }
}

static inline void write_row(const struct wave *w, uint32_t *to, const uint32_t *from, uint64_t mask, bool full)
{
    if (w->lanes == 64) {
        if (full) { memcpy(to, from, 64 * sizeof *to); return; }
        blend(to, from, (uint32_t)mask);
        blend(to + 32, from + 32, (uint32_t)(mask >> 32));
    } else {
        if (full) memcpy(to, from, 32 * sizeof *to);
        else      blend(to, from, (uint32_t)mask);
    }
}

void vgpr_write(struct wave *w, uint32_t reg, uint32_t n, const uint32_t *rows, uint64_t mask, uint64_t undefined)
{
    const bool full = mask == lanes_mask(w->lanes), down = vgpr(w, reg) > rows;       /* as memmove: rows may be other registers */
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t row = down ? n - 1 - k : k, r = reg + row;
        if (vgpr(w, r) != rows + (size_t)row * w->lanes) write_row(w, vgpr(w, r), rows + (size_t)row * w->lanes, mask, full);
        w->undefined[r] = (w->undefined[r] & ~mask) | (undefined & mask);
        w->v_state[r] = w->undefined[r] != 0 ? REG_UNDEFINED : 0;
    }
}

void vgpr_await(struct wave *w, uint32_t reg, uint32_t n, bool vm, bool lgkm)
{
    for (uint32_t r = reg; r < reg + n; r++) {
        w->v_state[r] |= (uint8_t)((vm ? REG_VM : 0) | (lgkm ? REG_LGKM : 0));
        if (vm) w->vm_seq[r] = w->count[WAIT_VM].started;
        if (lgkm) w->lgkm_seq[r] = w->count[WAIT_LGKM].started;
    }
}

/* The current instruction: the loop has advanced past it, and instructions that write exec do not branch. */
static const struct inst *running(const struct wave *w)
{
    return w->next > 0 ? &w->group->launch->kernel->module->inst[w->next - 1] : NULL;
}

void sgpr_write(struct wave *w, uint32_t reg, uint32_t n, uint64_t value, uint64_t undefined)
{
    if (reg == S_NULL) return;
    if (reg >= EXEC && undefined != 0) {
        report(w, running(w), FINDING_UNDEFINED, -1, "exec becomes a value with undefined bits 0x%llx", (unsigned long long)undefined);
        undefined = 0;
    }
    for (uint32_t k = 0; k < n; k++, value >>= 32, undefined >>= 32) {
        w->s[reg + k] = (uint32_t)value;
        w->s_undefined[reg + k] = (uint32_t)undefined;
        w->s_state[reg + k] = (uint32_t)undefined != 0 ? REG_UNDEFINED : 0;
    }
}

void sgpr_await(struct wave *w, uint32_t reg, uint32_t n)
{
    if (reg == S_NULL) return;
    for (uint32_t r = reg; r < reg + n; r++) {
        w->s_state[r] |= REG_SMEM;
        w->s_seq[r] = w->smem_started;
    }
}

uint64_t sgpr_read(const struct wave *w, uint32_t reg, uint32_t n)
{
    return n < 2 || reg == S_NULL ? w->s[reg] : (uint64_t)w->s[reg + 1] << 32 | w->s[reg];
}

static uint64_t type_mask(uint32_t type)
{
    switch (type) {
    case T_B16: case T_I16: case T_U16: case T_F16: case T_BF16: return 0xffff;
    case T_B64: case T_I64: case T_U64: case T_F64: case T_PKF32: case T_MASK: case T_ROWS: return ~0ull;
    default: return 0xffffffff;
    }
}

uint64_t scalar_source(const struct wave *w, const struct operand *o)
{
    switch (o->kind) {
    case OPERAND_S:   return sgpr_read(w, o->reg, o->n) & type_mask(o->type);
    case OPERAND_SCC: return w->scc;
    case OPERAND_INT: case OPERAND_FLOAT: case OPERAND_LITERAL: return o->bits;
    default:          return 0;
    }
}

uint64_t scalar_source_undefined(const struct wave *w, const struct operand *o)
{
    if (o->kind == OPERAND_SCC) return w->scc_undefined ? ~0ull : 0;
    if (o->kind != OPERAND_S || o->reg == S_NULL) return 0;
    const uint64_t high = o->n < 2 ? 0 : w->s_undefined[o->reg + 1];
    return (high << 32 | w->s_undefined[o->reg]) & type_mask(o->type);
}

void mask_write(struct wave *w, const struct operand *dst, uint64_t mask, uint64_t undefined)
{
    if (dst->kind == OPERAND_S) sgpr_write(w, dst->reg, w->lanes / 32, mask, undefined);
}

uint64_t mask_source(const struct wave *w, const struct operand *src)
{
    if (src->kind == OPERAND_S) return sgpr_read(w, src->reg, w->lanes / 32);
    return scalar_source(w, src) & lanes_mask(w->lanes);
}

/* ---- waits ---- */

/* Records that at most `left` of `started` instructions are outstanding. */
static void wait_for(uint32_t *done, uint32_t started, uint8_t left)
{
    if (left != NOT_WAITED && started - *done > left) *done = started - left;
}

/* WAIT_LGKM counts instructions that complete in order (LDS, flat).  Scalar loads share its counter but return in any order.  All of n
 * outstanding instructions may be LDS accesses, so `started - n` holds for these whatever the scalar loads do; only 0 says something about
 * scalar loads. */
void wave_wait(struct wave *w, struct waits waits, bool in_loop)
{
    struct counters *c = w->group->counters;
    const uint32_t in_flight = outstanding(w, WAIT_VM);
    if (in_flight > c->loads_in_flight_most) c->loads_in_flight_most = in_flight;
    if (in_loop && in_flight > c->loop_loads_in_flight_most) c->loop_loads_in_flight_most = in_flight;
    for (uint32_t k = 0; k < N_WAITS; k++) wait_for(&w->count[k].done, w->count[k].started, waits.of[k]);
    if (waits.of[WAIT_LGKM] == 0) w->smem_done = w->smem_started;
}

/* ---- the registers of an instruction before it runs ---- */

/* The states of registers, ORed.  Eight at a time: bytes read beyond v_state or s_state are in struct wave and masked off. */
static inline uint32_t states(const uint8_t *state, const struct range *r, uint32_t most)
{
    uint64_t found = 0;
    for (uint32_t k = 0; k < most && r[k].n > 0; k++) {
        const uint8_t *at = state + r[k].first;
        uint32_t n = r[k].n;
        uint64_t eight;
        for (; n > 8; n -= 8, at += 8) { memcpy(&eight, at, 8); found |= eight; }
        memcpy(&eight, at, 8);
        found |= eight << (64 - 8 * n);
    }
    found |= found >> 32;
    found |= found >> 16;
    return (uint32_t)(found | found >> 8) & 0xff;
}

static bool covered(uint32_t seq, uint32_t done) { return (int32_t)(seq - done) <= 0; }

static void vgpr_name(char *out, size_t n, uint32_t reg)
{
    if (reg < ACC) snprintf(out, n, "v%u", reg);
    else           snprintf(out, n, "a%u", reg - ACC);
}

static void sgpr_name(char *out, size_t n, uint32_t reg)
{
    static const char *const special[] = { [VCC] = "vcc_lo", [VCC + 1] = "vcc_hi", [S_NULL] = "null", [M0] = "m0", [EXEC] = "exec_lo",
                                           [EXEC + 1] = "exec_hi" };
    if (special[reg] != NULL) snprintf(out, n, "%s", special[reg]);
    else                      snprintf(out, n, "s%u", reg);
}

/* Checks that loads into a register have completed.  Returns false after a finding.  verb: read, overwritten. */
static bool vgpr_arrived(struct wave *w, const struct inst *i, uint32_t reg, const char *verb)
{
    char name[16];
    if ((w->v_state[reg] & REG_ABSENT) != 0) {
        vgpr_name(name, sizeof name, reg);
        return !report(w, i, FINDING_BOUNDS, -1, "%s is %s, but the kernel has %u vector registers and %u accumulators", name, verb,
                       w->group->launch->kernel->vgprs, w->group->launch->kernel->agprs);
    }
    const bool vm   = (w->v_state[reg] & REG_VM) != 0 && !covered(w->vm_seq[reg], w->count[WAIT_VM].done);
    const bool lgkm = (w->v_state[reg] & REG_LGKM) != 0 && !covered(w->lgkm_seq[reg], w->count[WAIT_LGKM].done);
    w->v_state[reg] &= (uint8_t)~REG_AWAITED;
    if (!vm && !lgkm) return true;
    const enum wait_counter counter = vm ? WAIT_VM : WAIT_LGKM;
    vgpr_name(name, sizeof name, reg);
    return !report(w, i, FINDING_WAIT, -1,
        "%s is %s while a load into it is under way: it needs %s(%u) or less; after the last wait %u may be outstanding",
                   name, verb, wait_name[counter], w->count[counter].started - (vm ? w->vm_seq[reg] : w->lgkm_seq[reg]),
                   outstanding(w, counter));
}

static bool sgpr_arrived(struct wave *w, const struct inst *i, uint32_t reg, const char *verb)
{
    const bool out = (w->s_state[reg] & REG_SMEM) != 0 && !covered(w->s_seq[reg], w->smem_done);
    char name[16];
    w->s_state[reg] &= (uint8_t)~REG_AWAITED;
    if (!out) return true;
    sgpr_name(name, sizeof name, reg);
    return !report(w, i, FINDING_WAIT, -1,
                   "%s is %s while a scalar load into it is under way: it needs lgkmcnt(0), as scalar loads return in any order", name,
                   verb);
}

/* Undefined lanes of one source register; returns false after a finding. */
static bool vgpr_undefined(struct wave *w, const struct inst *i, uint32_t reg, uint64_t lanes)
{
    const uint64_t undefined = w->undefined[reg] & lanes;
    char name[16];
    w->source_undefined |= undefined;
    if (undefined == 0 || (i->op->traits & TRAIT_NEEDS_DEFINED) == 0) return true;
    vgpr_name(name, sizeof name, reg);
    return !report(w, i, FINDING_UNDEFINED, __builtin_ctzll(undefined), "%s was never written, or was computed from undefined values",
        name);
}

static bool sgpr_undefined(struct wave *w, const struct inst *i, uint32_t reg)
{
    char name[16];
    if (w->s_undefined[reg] == 0) return true;
    w->scalar_undefined = true;
    if ((i->op->traits & TRAIT_NEEDS_DEFINED) == 0) return true;
    sgpr_name(name, sizeof name, reg);
    return !report(w, i, FINDING_UNDEFINED, -1, "%s was never written, or was computed from undefined values (bits 0x%x)", name,
                   w->s_undefined[reg]);
}

/* Vector loads return in order: a load that overwrites the destination of another needs no wait (LLVM, SIInsertWaitcnts: the same kind of
 * instruction). */
static bool in_order(const struct wave *w, const struct inst *i, uint32_t reg)
{
    const uint32_t class = i->op->class, awaited = w->v_state[reg] & (REG_AWAITED | REG_ABSENT);
    return (awaited == REG_VM && class == CLASS_GLOBAL_LOAD) || (awaited == REG_LGKM && class == CLASS_LDS);
}

static __attribute__((noinline)) bool check_vgprs(struct wave *w, const struct inst *i)
{
    const uint64_t lanes = (i->op->traits & TRAIT_ALL_LANES) != 0 ? lanes_mask(w->lanes) : wave_exec(w);
    for (uint32_t k = 0; k < MAX_RANGES && i->v_reads[k].n > 0; k++)
        for (uint32_t r = i->v_reads[k].first; r < i->v_reads[k].first + (uint32_t)i->v_reads[k].n; r++) {
            if (w->v_state[r] == 0) continue;
            if ((w->v_state[r] & ~REG_UNDEFINED) != 0 && !vgpr_arrived(w, i, r, "read")) return false;
            if (!vgpr_undefined(w, i, r, lanes)) return false;
        }
    for (uint32_t k = 0; k < 2 && i->v_writes[k].n > 0; k++)
        for (uint32_t r = i->v_writes[k].first; r < i->v_writes[k].first + (uint32_t)i->v_writes[k].n; r++)
            if ((w->v_state[r] & ~REG_UNDEFINED) != 0 && !in_order(w, i, r) && !vgpr_arrived(w, i, r, "overwritten")) return false;
    return true;
}

static __attribute__((noinline)) bool check_sgprs(struct wave *w, const struct inst *i)
{
    for (uint32_t k = 0; k < MAX_RANGES && i->s_reads[k].n > 0; k++)
        for (uint32_t r = i->s_reads[k].first; r < i->s_reads[k].first + (uint32_t)i->s_reads[k].n; r++) {
            if (w->s_state[r] == 0) continue;
            if ((w->s_state[r] & REG_SMEM) != 0 && !sgpr_arrived(w, i, r, "read")) return false;
            if (!sgpr_undefined(w, i, r)) return false;
        }
    for (uint32_t k = 0; k < 3 && i->s_writes[k].n > 0; k++)
        for (uint32_t r = i->s_writes[k].first; r < i->s_writes[k].first + (uint32_t)i->s_writes[k].n; r++)
            if ((w->s_state[r] & REG_SMEM) != 0 && !sgpr_arrived(w, i, r, "overwritten")) return false;
    return true;
}

/* Sets source_undefined and scalar_undefined; returns false after a finding: the instruction must not run. */
static inline bool check(struct wave *w, const struct inst *i)
{
    const uint32_t v = states(w->v_state, i->v_reads, MAX_RANGES) | (states(w->v_state, i->v_writes, 2) & (uint32_t)~REG_UNDEFINED);
    const uint32_t s = states(w->s_state, i->s_reads, MAX_RANGES) | (states(w->s_state, i->s_writes, 3) & REG_SMEM);
    w->source_undefined = 0;
    w->scalar_undefined = false;
    return (v == 0 || check_vgprs(w, i)) && (s == 0 || check_sgprs(w, i));
}

/* ---- MODE: rounding and denormals (RDNA3 ISA 3.3.2, CDNA3 ISA 3.4) ---- */

/* Sets the host's MXCSR accordingly: DAZ if denormal sources count as zero, FTZ if results do.  f16 and f64 do not flush, and everything
 * rounds to nearest even: other modes are not modelled. */
static bool enter_mode(struct wave *w, const struct inst *i)
{
    const uint32_t round = w->mode & 15, denormal = w->mode >> 4 & 3, denormal64 = w->mode >> 6 & 3;
    if (round != 0 || denormal64 != 3) {
        report(w, i, FINDING_UNKNOWN, -1, "MODE 0x%x: only rounding to nearest even, and denormals of f16 and f64, are modelled", w->mode);
        return false;
    }
    _mm_setcsr(0x1f80u /* no exceptions */ | ((denormal & 1) != 0 ? 0 : 0x40u) | ((denormal & 2) != 0 ? 0 : 0x8000u));
    return true;
}

/* ---- the loop ---- */

static void report_end_of_code(struct wave *w, const struct module *m)
{
    report(w, m->n_inst > 0 && w->next == m->n_inst ? &m->inst[m->n_inst - 1] : NULL, FINDING_OTHER, -1,
           "the program counter leaves the code");
}

static void count_kind(struct wave *w, const struct inst *i)
{
    /* S_NOP: bits 3:0, plus one */
    if (i->kind != KIND_PLAIN) w->group->counters->kinds[i->kind] += i->kind == KIND_NOP ? (uint64_t)(i->imm & 15) + 1 : 1;
}

static void count_lanes(struct wave *w, const struct inst *i)
{
    if (i->op->class < CLASS_VALU || i->op->class > CLASS_SCRATCH) return;
    w->group->counters->lanes_idle[i->op->class] += (uint64_t)(w->lanes - (uint32_t)__builtin_popcountll(wave_exec(w)));
}

uint32_t wave_run(struct wave *w, uint32_t n)
{
    const struct launch *l = w->group->launch;
    const struct module *m = l->kernel->module;
    const struct inst *code = m->inst;
    uint64_t *count = w->group->counters->instructions;
    const uint32_t host = _mm_getcsr(), end = m->n_inst;
    uint32_t mode = ~w->mode, done = 0;
    w->sleeps = false;
    while (done < n && !w->ended && !w->at_barrier && !w->sleeps && __atomic_load_n(&l->failed, __ATOMIC_RELAXED) == 0) {
        if (w->next >= end) { report_end_of_code(w, m); break; }
        const struct inst *i = &code[w->next++];
        if (w->mode != mode && !enter_mode(w, i)) break;
        mode = w->mode;
        if ((i->other != NULL && !check(w, i->other)) || !check(w, i)) break;
        if (i->op != NULL) count[i->op->class]++;
        if (l->stats) {
            count_kind(w, i);
            count_lanes(w, i);
        }
        i->run(w, i);
        done++;
    }
    w->instructions += done;
    _mm_setcsr(host);
    return done;
}

/* ---- the initial state ---- */

enum {                                           /* kernel code properties */
    PRIVATE_SEGMENT_BUFFER = 1 << 0, DISPATCH_PTR = 1 << 1, QUEUE_PTR = 1 << 2, KERNARG_PTR = 1 << 3, DISPATCH_ID = 1 << 4,
    FLAT_SCRATCH_INIT = 1 << 5,
    PRIVATE_SEGMENT_SIZE = 1 << 6,
};
enum { GROUP_ID_X = 1 << 7, GROUP_ID_Y = 1 << 8, GROUP_ID_Z = 1 << 9, GROUP_INFO = 1 << 10, EXCEPTIONS = 0x7f << 24 };       /* rsrc2 */

/* HSA runtime specification 2.9.6, hsa_kernel_dispatch_packet_t. */
struct packet {
    uint16_t header, setup, threads[3], reserved;
    uint32_t grid[3], private_bytes, group_bytes;
    uint64_t kernel, kernarg, reserved2, signal;
};
_Static_assert(sizeof(struct packet) == 64, "an AQL packet has 64 bytes");

/* The packet of the current launch; it is in host memory, as packets are.  Launches of a chip run one after another, so one packet serves
 * all. */
static struct packet *dispatch_packet(const struct launch *l)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct packet *packets[MAX_CHIPS];
    static uint32_t of_launch[MAX_CHIPS];
    pthread_mutex_lock(&lock);
    if (packets[l->device] == NULL) packets[l->device] = memory_alloc(sizeof **packets, MEMORY_HOST);
    struct packet *packet = packets[l->device];
    if (packet != NULL && of_launch[l->device] != l->number) {
        const struct kernel *k = l->kernel;
        *packet = (struct packet){ .header = 2 /* kernel dispatch */,
                                   .setup = l->grid[2] * l->threads[2] > 1 ? 3 : l->grid[1] * l->threads[1] > 1 ? 2 : 1,
                                   .private_bytes = k->scratch_bytes, .group_bytes = k->lds_bytes + l->dynamic_lds,
                                   .kernarg = (uint64_t)(uintptr_t)l->kernarg };
        for (uint32_t d = 0; d < 3; d++) {
            packet->threads[d] = (uint16_t)l->threads[d];
            packet->grid[d] = l->grid[d] * l->threads[d];
        }
        of_launch[l->device] = l->number;
    }
    pthread_mutex_unlock(&lock);
    return packet;
}

static void undefine_all(struct wave *w)
{
    const struct kernel *k = w->group->launch->kernel;
    memset(w->s, 0, sizeof w->s);
    memset(w->s_undefined, 0xff, sizeof w->s_undefined);
    memset(w->s_state, REG_UNDEFINED, sizeof w->s_state);
    sgpr_write(w, EXEC, 2, 0, 0);
    w->s_undefined[S_NULL] = 0;
    w->s_state[S_NULL] = 0;
    for (uint32_t r = 0; r < MAX_VGPRS; r++) w->undefined[r] = lanes_mask(w->lanes);
    memset(w->v_state, REG_ABSENT, sizeof w->v_state);
    memset(w->v_state, REG_UNDEFINED, k->vgprs > 0 && k->vgprs < ACC ? k->vgprs : ACC);
    memset(w->v_state + ACC, REG_UNDEFINED, k->agprs < ACC ? k->agprs : ACC);
}

/* User SGPRs, in this order and packed; registers after the last named one, up to the count, are padding (gfx1100 gets 14). */
static void set_user_sgprs(struct wave *w)
{
    const struct launch *l = w->group->launch;
    const uint32_t asked = l->kernel->properties;
    const struct { uint32_t bit, n; uint64_t value; bool defined; } user[] = {
        { DISPATCH_PTR, 2, (asked & DISPATCH_PTR) != 0 ? (uintptr_t)dispatch_packet(l) : 0, true },
        { QUEUE_PTR, 2, 0, false },              /* no queue is modelled: a use of it accesses an undefined address */
        { KERNARG_PTR, 2, (uintptr_t)l->kernarg, true },
        { DISPATCH_ID, 2, l->number, true },
        { PRIVATE_SEGMENT_SIZE, 1, l->kernel->scratch_bytes, true },
    };
    if ((asked & (PRIVATE_SEGMENT_BUFFER | FLAT_SCRATCH_INIT)) != 0 || asked >> 16 != 0)
        report(w, NULL, FINDING_UNKNOWN, -1,
               "kernel code properties 0x%x: scratch descriptors in SGPRs and preloaded arguments are not modelled", asked);
    uint32_t at = 0;
    for (uint32_t k = 0; k < sizeof user / sizeof *user; k++) {
        if ((asked & user[k].bit) == 0) continue;
        if (user[k].defined) sgpr_write(w, at, user[k].n, user[k].value, 0);
        at += user[k].n;
    }
}

static void set_system_sgprs(struct wave *w)
{
    const struct group *g = w->group;
    const uint32_t rsrc2 = g->launch->kernel->rsrc2;
    uint32_t at = rsrc2 >> 1 & 31;
    if ((rsrc2 & GROUP_ID_X) != 0) sgpr_write(w, at++, 1, g->x, 0);
    if ((rsrc2 & GROUP_ID_Y) != 0) sgpr_write(w, at++, 1, g->y, 0);
    if ((rsrc2 & GROUP_ID_Z) != 0) sgpr_write(w, at++, 1, g->z, 0);
    if ((rsrc2 & GROUP_INFO) != 0) sgpr_write(w, at++, 1, (w->index == 0 ? 1u << 31 : 0) | g->n_waves, 0);
    if ((rsrc2 & EXCEPTIONS) != 0)
        report(w, NULL, FINDING_UNKNOWN, -1, "COMPUTE_PGM_RSRC2 0x%x: floating-point exceptions are not modelled", rsrc2);
}

/* v0: x | y << 10 | z << 20; y and z are 0 unless the kernel asks for them.  exec: the work-items that exist. */
static void set_lanes(struct wave *w)
{
    const struct launch *l = w->group->launch;
    const uint32_t *t = l->threads, asked = l->kernel->rsrc2 >> 11 & 3, all = t[0] * t[1] * t[2];
    uint32_t id[MAX_LANES] = { 0 };
    uint64_t exec = 0;
    for (uint32_t k = 0; k < w->lanes; k++) {
        const uint32_t item = w->index * w->lanes + k;
        if (item >= all) break;
        const uint32_t y = asked > 0 ? item / t[0] % t[1] : 0, z = asked > 1 ? item / (t[0] * t[1]) : 0;
        id[k] = item % t[0] | y << 10 | z << 20;
        exec |= 1ull << k;
    }
    sgpr_write(w, EXEC, 2, exec, 0);
    vgpr_write(w, 0, 1, id, exec, 0);
}

/* MODE (RDNA3 ISA 3.3.2): rounding and denormals in bits 0 to 7, DX10_CLAMP 8, IEEE 9. */
static void set_mode(struct wave *w)
{
    const uint32_t rsrc1 = w->group->launch->kernel->rsrc1;
    w->mode = (rsrc1 >> 12 & 0xff) | (rsrc1 >> 21 & 1) << 8 | (rsrc1 >> 23 & 1) << 9;
    if ((rsrc1 >> 26 & 1) != 0) report(w, NULL, FINDING_UNKNOWN, -1, "COMPUTE_PGM_RSRC1 0x%x: FP16_OVFL is not modelled", rsrc1);
}

void wave_begin(struct wave *w)
{
    const struct kernel *k = w->group->launch->kernel;
    w->lanes = k->wave;
    w->next = k->entry;
    w->scc = false;
    w->scc_undefined = true;
    w->ended = w->at_barrier = false;
    memset(w->count, 0, sizeof w->count);
    w->lds_store_seq = w->smem_started = w->smem_done = 0;
    w->instructions = 0;
    undefine_all(w);
    set_mode(w);
    set_user_sgprs(w);
    set_system_sgprs(w);
    set_lanes(w);
}
