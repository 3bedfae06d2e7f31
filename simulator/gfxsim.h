/* gfxsim.h -- a machine that executes AMD code objects on the host: declarations that its parts share.
 *
 *   hip.c      the functions of libamdhip64 that runtime/device/hip.def names (FORGE_HIP_LIBRARY=libgfxsim.so)
 *   queue.c    work on streams: done at once, or by several chips in turns
 *   loader.c   ELF code object -> struct module;  decode.c  the text of LLVM's disassembler (compiler/base/disasm.c) -> struct inst
 *   grid.c     a launch: resident groups, time slices, threads, deadlock
 *   wave.c     a wave: initial state, the loop over instructions, registers that were never written or are still awaited
 *   valu.c valu_cmp.c valu_convert.c   vector ALU;  lanes.c  DPP, SDWA, permutations;  mma.c  WMMA, MFMA
 *   salu.c     scalar ALU, branches, waits, barriers;  smem.c  scalar loads
 *   vmem.c     global, flat, scratch and buffer accesses;  lds.c  DS instructions, races
 *   memory.c   device memory and the state of each byte;  order.c  which group's stores another group may see;  peers.c  the same for chips
 *   report.c   findings;  stats.c  counters;  channels.c  loads by the channels of memory
 *
 * Sources, cited by section in the files: AMD "RDNA3 Instruction Set Architecture" (2023), "RDNA3.5 ISA" (2024), "AMD Instinct MI300 ISA"
 * (CDNA3, 2024), LLVM "User Guide for AMDGPU Backend".
 *
 * Lanes are the columns of a register: a wave of n lanes holds 32-bit register r as n consecutive words, and 64-bit values as two such
 * rows, low words first.  An instruction that LLVM's disassembler prints but no op table contains stops the launch; nothing is skipped
 * silently. */
#ifndef GFXSIM_H
#define GFXSIM_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAX_LANES = 64, MAX_WAVES = 32, MAX_VGPRS = 512, ACC = 256 /* AccVGPR a0 is register 256 */, LINE_BYTES = 128,
       MAX_CHANNELS = 64, MAX_CHIPS = 8 };

/* ---- scalar registers, numbered as operands encode them (RDNA3 ISA 3.4 table of SGPR operands; CDNA3 3.x) ---- */
enum {
    VCC = 106, TTMP0 = 108, S_NULL = 124, M0 = 125, EXEC = 126, N_SCALARS = 128,
    FLAT_SCRATCH = 102, XNACK_MASK = 104,       /* pairs; CDNA3 */
};

/* ---- generations of instructions, and chips ---- */

/* Counters of outstanding instructions, which waits name. */
enum wait_counter { WAIT_VM, WAIT_LGKM, WAIT_VS, WAIT_EXP, N_WAITS };
extern const char *const wait_name[N_WAITS];     /* "vmcnt" */
/* A part of s_waitcnt's field: `bits` bits from `shift` on are the counter's bits from `at` on. */
struct wait_field { uint8_t counter, shift, bits, at; };

/* What differs between generations. */
enum isa_id { ISA_RDNA3, ISA_CDNA3 };            /* tables name generations by bits, 1 << isa_id */
struct isa {
    enum isa_id         id;
    bool                wave32;                  /* kernels with waves of 32 lanes */
    bool                pairs;                   /* a group may run on a pair of compute units (WGP mode, COMPUTE_PGM_RSRC1 bit 29) */
    bool                accumulators;            /* AccVGPRs */
    bool                xnack;                   /* code may be compiled for xnack+ */
    bool                keeps_half;              /* 16-bit results leave the other half of their register unchanged */
    bool                cmpx_to_exec;            /* v_cmpx writes only exec, which is not printed */
    bool                scopes;                  /* sc0 and sc1 name the scope of an access; else glc does for loads */
    bool                one_invalidate;          /* buffer_inv empties all caches; else each cache has an instruction */
    bool                returns_registers;       /* s_sendmsg(MSG_DEALLOC_VGPRS) */
    enum wait_counter   stores;                  /* counts stores; loads are counted by WAIT_VM */
    uint32_t            scalars;                 /* numbered scalar registers */
    uint32_t            raw_mask, raw;           /* word 3 of a raw buffer's resource: (word & raw_mask) == raw */
    struct wait_field   waits[4];                /* bits 0: end of list */
};

struct chip {
    const char *name;                            /* "gfx942" */
    const struct isa *isa;
    uint32_t    elf_machine;                     /* EF_AMDGPU_MACH, low byte of e_flags */
    uint32_t    wave;                            /* lanes */
    uint32_t    compute_units, simds, waves;     /* SIMDs per compute unit, waves per SIMD */
    uint32_t    registers, granule;              /* VGPRs per lane of a SIMD, for all its waves; allocated in granules */
    uint32_t    lds_bytes;                       /* per compute unit */
    uint32_t    dies;                            /* L2 caches that are not coherent with each other; group g runs on die g % dies */
};
extern const struct chip chips[];
extern const uint32_t n_chips;

/* ---- instructions ---- */

/* How an operand is read: its width, and the meaning of an inline constant or a modifier. */
enum type { T_NONE, T_B16, T_I16, T_U16, T_F16, T_BF16, T_B32, T_I32, T_U32, T_F32, T_B64, T_I64, T_U64, T_F64,
            T_PK16 /* two 16-bit integers */, T_PKF16 /* two f16 */, T_PKF32 /* two f32, a pair of registers */,
            T_MASK /* a bit for each lane, in scalar registers */, T_ROWS /* as many registers as printed */ };

enum operand_kind { OPERAND_NONE, OPERAND_V, OPERAND_S, OPERAND_SCC, OPERAND_INT, OPERAND_FLOAT, OPERAND_LITERAL, OPERAND_OFF, OPERAND_NULL,
                    OPERAND_OTHER /* text: hwreg, sendmsg and so on; see inst.imm */ };
struct operand {
    uint8_t  kind;                               /* enum operand_kind */
    uint8_t  n;                                  /* 32-bit registers, 1 to 32 */
    uint16_t reg;                                /* V: 0..511; S: 0..127 */
    bool     neg, abs, sext;
    uint8_t  type;                               /* enum type, from the op table */
    int64_t  number;                             /* INT: its value; LITERAL: 32 bits, not sign-extended */
    double   real;                               /* FLOAT: 0.5, 1.0, ..., 1/(2 pi) as 0.15915494 */
    uint64_t bits;                               /* INT, FLOAT, LITERAL: the constant as `type` sees it (decode.c) */
};

enum inst_flag {
    FLAG_CLAMP = 1 << 0,
    FLAG_SC0 = 1 << 1,   /* printed glc on RDNA */
    FLAG_SC1 = 1 << 2,   /* CDNA3 */
    FLAG_NT  = 1 << 3,   /* printed slc on RDNA */
    FLAG_DLC = 1 << 4,   /* RDNA */
    FLAG_OFFEN = 1 << 5, FLAG_IDXEN = 1 << 6, FLAG_LDS = 1 << 7, FLAG_GDS = 1 << 8,
    FLAG_E64 = 1 << 9, FLAG_DPP = 1 << 10, FLAG_DPP8 = 1 << 11, FLAG_SDWA = 1 << 12,
    FLAG_BOUND_CTRL = 1 << 13, FLAG_FI = 1 << 14,
};
enum sdwa_sel { SEL_DWORD, SEL_BYTE_0, SEL_BYTE_1, SEL_BYTE_2, SEL_BYTE_3, SEL_WORD_0, SEL_WORD_1 };
enum dpp { DPP_NONE, DPP_QUAD_PERM, DPP_ROW_SHL, DPP_ROW_SHR, DPP_ROW_ROR, DPP_WAVE_SHL, DPP_WAVE_ROL, DPP_WAVE_SHR, DPP_WAVE_ROR,
           DPP_ROW_MIRROR, DPP_ROW_HALF_MIRROR, DPP_ROW_BCAST, DPP_ROW_SHARE, DPP_ROW_XMASK, DPP_ROW_NEWBCAST };
enum { NOT_WAITED = 0xff };
struct waits { uint8_t of[N_WAITS]; };           /* s_waitcnt*: waits until no more than these are outstanding; NOT_WAITED */
struct range { uint16_t first; uint8_t n; };     /* registers */
enum { MAX_RANGES = 8 };

/* Kinds that the counters distinguish within a class: 32-bit multiplications, which the vector ALU issues several times; all of f64, its
 * transcendentals too; moves between AccVGPRs and VGPRs; and s_nop. */
enum inst_kind { KIND_PLAIN, KIND_MUL32, KIND_F64, KIND_ACC_MOVE, KIND_NOP, N_KINDS };

struct wave;
struct inst;
typedef void run_fn(struct wave *w, const struct inst *i);

struct inst {
    const struct op_info *op;
    run_fn        *run;
    uint32_t       pc;                           /* byte offset in the code of the module */
    uint32_t       target;                       /* branches: index of the target instruction; UINT32_MAX: none there */
    struct operand dst[2];                       /* dst[1]: carry out, scale flag */
    struct operand src[4];                       /* in the order printed, without dst */
    uint8_t        n_dst, n_src;
    uint8_t        kind;                         /* enum inst_kind */
    uint32_t       flags;                        /* enum inst_flag */
    uint8_t        omod;                         /* 0, 1: times 2, 2: times 4, 3: half */
    uint8_t        op_sel, op_sel_hi, neg_lo, neg_hi;   /* a bit for each of src[0..2]; op_sel bit 3: destination; op_sel_hi: default
                                                         * all ones for packed ops, zero for others (v_fma_mix: zero), as LLVM leaves
                                                         * defaults out of its text */
    uint8_t        dpp, dpp_value, row_mask, bank_mask; /* enum dpp; row_mask and bank_mask default 0xf */
    uint32_t       dpp8;                         /* eight selectors of 3 bits */
    uint8_t        dst_sel, dst_unused, src_sel[2];     /* SDWA; dst_unused: 0 pad, 1 sext, 2 preserve */
    uint8_t        cbsz, abid, blgp;             /* MFMA */
    int32_t        offset, offset1;              /* memory: bytes; DS with two addresses: offset0, offset1 in elements */
    int64_t        imm;                          /* s_movk, s_cmpk, s_nop, s_sleep, s_sendmsg ...; hwreg: id | offset << 6 | (size - 1) <<
                                                  * 11 */
    struct waits   waits;
    const struct inst *other;                    /* VOPD: the second half; its pc is this one's */
    /* n 0: end of list; vcc, exec, m0 included, implied ones too */
    struct range   v_reads[MAX_RANGES], v_writes[2], s_reads[MAX_RANGES], s_writes[3];
    bool           reads_scc, writes_scc;
    bool           in_loop;                      /* can be executed again without leaving the kernel */
    const char    *text;                         /* as LLVM prints it, one blank between words */
};

enum inst_class { CLASS_SALU, CLASS_BRANCH, CLASS_WAIT, CLASS_BARRIER, CLASS_SMEM, CLASS_VALU, CLASS_TRANS, CLASS_DOT, CLASS_MATRIX,
                  CLASS_LDS, CLASS_GLOBAL_LOAD, CLASS_GLOBAL_STORE, CLASS_ATOMIC, CLASS_SCRATCH, CLASS_OTHER, N_CLASSES };

/* Lanes 0 .. n-1 of a vector operation; n is 32 or 64.  d and the sources may be the same rows, but must not overlap otherwise. */
typedef void lanes_fn(uint32_t *d, const uint32_t *a, const uint32_t *b, const uint32_t *c, uint32_t n);

/* One instruction, by the name LLVM prints without _e32, _e64, _dpp, _e64_dpp, _dpp8, _e64_dpp8, _sdwa (v_dual_x is v_x). */
struct op_info {
    const char *name;
    run_fn     *run;
    lanes_fn   *lanes;                           /* used by run_valu and run_cmp; else NULL */
    uint8_t     class;                           /* enum inst_class */
    uint8_t     dst, src[3];                     /* enum type */
    uint8_t     bytes;                           /* memory: bytes of an element (a lane, or one of two) */
    uint16_t    traits;                          /* enum trait */
    const char *implicit;                        /* scalar registers that are read but not printed: "vcc", "m0", "exec"; or NULL */
};
enum trait {
    TRAIT_OWN_DEFINED = 1,                       /* run itself marks the defined parts of the result; sources may be undefined */
    TRAIT_NEEDS_DEFINED = 2,                     /* an undefined source is a finding at once: addresses, branches, exec */
    TRAIT_READS_DST = 4,                         /* the destination is a source as well (fmac, dot2c, but not v_mfma): decode.c lists it
                                                  * as read */
    TRAIT_NO_DST = 8,                            /* all printed operands are sources (stores, s_cmp, branches) */
    TRAIT_PACKED = 16,                           /* VOP3P: op_sel_hi is all ones by default */
    TRAIT_ALL_LANES = 32,                        /* works on lanes outside exec too (v_readlane, WMMA, MFMA, DPP sources) */
    TRAIT_TWO_DST = 64,                          /* the first two printed operands are destinations (carry out) */
    TRAIT_DST_IF_SC0 = 128,                      /* atomics: the first printed operand is a destination if sc0 (glc) is set */
    TRAIT_KEEPS_HIGH = 1024,                     /* a 16-bit result leaves the upper half unchanged on CDNA3 too (RDNA3: always) */
};
/* The tables; each file that implements instructions ends with its own.  A name may be in one table only. */
extern const struct op_info salu_ops[], smem_ops[], valu_ops[], cmp_ops[], convert_ops[], lane_ops[], mma_ops[], vmem_ops[], lds_ops[];
extern const uint32_t n_salu_ops, n_smem_ops, n_valu_ops, n_cmp_ops, n_convert_ops, n_lane_ops, n_mma_ops, n_vmem_ops, n_lds_ops;
const struct op_info *op_find(const char *name);       /* decode.c; NULL: unknown */

/* ---- code ---- */
enum hidden_kind { HIDDEN_NONE, HIDDEN_BLOCK_COUNT_X, HIDDEN_BLOCK_COUNT_Y, HIDDEN_BLOCK_COUNT_Z, HIDDEN_GROUP_SIZE_X, HIDDEN_GROUP_SIZE_Y,
                   HIDDEN_GROUP_SIZE_Z, HIDDEN_REMAINDER_X, HIDDEN_REMAINDER_Y, HIDDEN_REMAINDER_Z, HIDDEN_GLOBAL_OFFSET, HIDDEN_GRID_DIMS,
                   HIDDEN_DYNAMIC_LDS_SIZE, HIDDEN_OTHER /* stays zero */ };
struct hidden_arg { enum hidden_kind kind; uint32_t offset, size; };

struct kernel {
    const char    *name;
    struct module *module;
    uint32_t       entry;                        /* index of the first instruction */
    uint32_t       lds_bytes, scratch_bytes;     /* static; per group, per lane */
    uint32_t       kernarg_bytes, explicit_bytes;/* explicit_bytes: arguments that the caller passes, without hidden ones */
    uint32_t       vgprs, agpr_first, agprs;     /* vgprs: ArchVGPRs of a wave; gfx942: AccVGPRs besides; allocated: from the kernel
                                                  * descriptor */
    uint32_t       vgprs_allocated;              /* with AccVGPRs and rounding, for occupancy */
    uint32_t       rsrc1, rsrc2, rsrc3, properties;    /* COMPUTE_PGM_RSRC1..3, kernel code properties (LLVM AMDGPUUsage, kernel
                                                        * descriptor) */
    uint32_t       wave;                         /* lanes */
    uint32_t       most_threads;                 /* .max_flat_workgroup_size */
    struct hidden_arg hidden[16]; uint32_t n_hidden;
};
struct module {
    const struct chip *chip;
    uint8_t        *image; size_t image_bytes;   /* loaded segments, in device memory; kernels may read it (constants) */
    uint32_t        code_offset, code_bytes;     /* .text within the image: inst.pc counts from code_offset */
    struct inst    *inst; uint32_t n_inst;
    uint32_t       *inst_at;                     /* [code_bytes / 4] index of the instruction there, UINT32_MAX: none */
    struct kernel  *kernels; uint32_t n_kernels;
};
/* Returns NULL, with a message on stderr, if image is not an AMD code object that can be run.  bytes 0: the ELF headers give its length. */
struct module *module_load(const void *image, size_t bytes);
uint32_t kernel_end(const struct kernel *k);     /* index after its last instruction: forgec's kernels call no functions */
void module_free(struct module *m);
/* Appends the instructions of the code to the module.  Returns false, with a message, at an instruction that LLVM does not know.  Names
 * without an op get run = unknown_op, which stops the launch when it is reached. */
bool module_decode(struct module *m);
void decode_inst(struct inst *out, struct inst *second, const char *text, uint32_t pc, const struct chip *chip);   /* second: for VOPD */
/* ---- the running launch ---- */

/* State of a register; 0 is the fast path. */
enum register_state { REG_UNDEFINED = 1 /* some lanes, see undefined[] */, REG_VM = 2, REG_LGKM = 4, REG_SMEM = 8 /* awaited */ };

struct wave {
    struct group  *group;
    uint32_t       index;                        /* in the group */
    uint32_t       lanes;                        /* 32 or 64 */
    uint32_t       next;                         /* index of the next instruction */
    bool           scc, scc_undefined, ended, at_barrier, sleeps;     /* sleeps: with several chips, gives up the rest of its slice */
    uint32_t       s[N_SCALARS];                 /* s[EXEC], s[EXEC + 1] is exec; s[S_NULL] stays 0 */
    uint32_t       s_undefined[N_SCALARS];       /* bits never written */
    uint8_t        s_state[N_SCALARS];           /* enum register_state */
    uint32_t       s_seq[N_SCALARS];
    uint32_t      *v;                            /* [MAX_VGPRS used][lanes] */
    uint64_t       undefined[MAX_VGPRS];         /* lanes never written */
    uint8_t        v_state[MAX_VGPRS];
    uint32_t       vm_seq[MAX_VGPRS], lgkm_seq[MAX_VGPRS];   /* the load a register awaits, by each counter */
    uint64_t       source_undefined;             /* lanes of exec with an undefined vector source of this instruction; set by the
                                                  * loop */
    bool           scalar_undefined;             /* some scalar source is (partly) undefined */
    /* instructions counted by each counter: started, and known to be done because a wait covered them */
    struct { uint32_t started, done; } count[N_WAITS];
    uint32_t       lds_store_seq;                /* the lgkm count started when the last LDS store was issued */
    uint32_t       smem_started, smem_done;      /* scalar loads return in any order: only lgkmcnt(0) covers them */
    uint32_t       mode;                         /* MODE register: bits 0-3 rounding f32, f64/f16; 4-7 denormals (RDNA3 ISA 3.3.2); from
                                                  * rsrc1 */
    uint8_t       *scratch;                      /* [lanes][scratch_bytes] */
    uint64_t       instructions;
    uint32_t       id;                           /* within the launch: group->id * waves of a group + index */
    uint32_t       pieces;                       /* channels.c: its loads so far, and the step at which its group began */
    uint64_t       order_known;                  /* order.c */
    void          *order;                        /* order.c */
};

static inline uint32_t outstanding(const struct wave *w, enum wait_counter k) { return w->count[k].started - w->count[k].done; }

struct group {
    struct launch *launch;
    uint32_t       id, x, y, z;                  /* id: linear */
    uint32_t       die;
    uint32_t       n_waves, n_ended, n_waiting;
    struct wave   *waves;
    uint8_t       *lds; uint32_t lds_bytes;
    void          *lds_shadow;                   /* lds.c */
    uint32_t       epoch;                        /* barriers passed */
    void          *order, *peers;                /* order.c, peers.c */
    struct counters *counters;                   /* of the thread that runs it, and its steps; NULL: not counted */
    struct channel_steps *steps;
    struct group  *next;
};

/* Format of the factors. */
enum matrix_format { MATRIX_F16 /* and bf16 */, MATRIX_F8, MATRIX_F32, MATRIX_I8, MATRIX_I4, N_MATRIX_FORMATS };
struct counters {                                /* summed over waves */
    uint64_t instructions[N_CLASSES];
    uint64_t kinds[N_KINDS];                     /* the same by kind; KIND_NOP: the wait states, s_nop 7 has eight */
    uint64_t matrix_flop[N_MATRIX_FORMATS];      /* of WMMA and MFMA: multiplications and additions */
    uint64_t lanes_idle[N_CLASSES];              /* lanes not in exec, summed over vector instructions */
    uint64_t loaded_bytes, stored_bytes;         /* global and buffer, active lanes */
    uint64_t peer_bytes;                         /* part of stored_bytes: to memory of other chips */
    uint64_t scalar_bytes;
    uint64_t load_accesses[5], store_accesses[5];/* wave accesses by width of a lane: 1, 2, 4, 8, 16 bytes (12 counts as 16) */
    uint64_t load_lines, store_lines;            /* distinct LINE_BYTES lines, summed over wave accesses */
    uint64_t unique_bytes;                       /* bytes of device memory read at least once by the launch, in lines of 64 */
    uint64_t lds_loads, lds_stores, lds_moves;   /* wave accesses; ds_bpermute, ds_permute, ds_swizzle */
    uint64_t lds_cycles, lds_conflicts;      /* the fewest cycles for these at 128 bytes a cycle; cycles beyond, with 32 banks of 4 bytes */
    uint64_t channel_bytes, channel_busiest;     /* over windows of loads: all bytes, and those in the busiest channel (channels.c) */
    uint64_t barriers, waves, groups;
    uint64_t loads_in_flight_most;               /* in any wave, before a wait; this and the next member are maxima, not sums */
    uint64_t loop_loads_in_flight_most;          /* the same, before a wait in a loop */
};
void counters_add(struct counters *to, const struct counters *from);     /* stats.c */
void counters_scale(struct counters *c, uint32_t to, uint32_t from);     /* sums times to / from */

struct channels { uint32_t count, interleave, window; };     /* of memory; in bytes; count 0: not known */

struct launch {
    const struct kernel *kernel;
    const struct chip   *chip;
    uint32_t  number;                            /* from 1, within the process */
    uint32_t  device;                            /* number of the chip */
    bool      several;                           /* there are several chips, and their launches take turns */
    uint32_t  reach;                             /* chips with memory that it may access, a bit each */
    uint32_t  seq;                               /* number on its device, from 1 */
    const uint32_t *known;                       /* [MAX_CHIPS] with several: the host has seen each chip's work up to this number done */
    struct launch_order *order;                  /* order.c */
    uint32_t  grid[3], threads[3];               /* in groups; of a group */
    uint32_t  dynamic_lds;
    uint8_t  *kernarg;                           /* device memory */
    bool      stats;
    struct channels channels;
    struct counters counters;
    uint32_t  ran;                               /* groups; fewer than in the grid if FORGE_GFXSIM_SAMPLE is set; counters are then scaled
                                                  * to all groups */
    int       failed;                            /* set by report(): other waves stop soon */
    uint64_t  stores;                            /* changes of memory: without them there is no progress */
};
/* Runs the launch to its end.  Returns 0, or the HIP error (LAUNCH_FAILURE) after a finding. */
int launch_run(struct launch *l);
/* The same in turns, for launches of several chips that wait for each other; queue.c detects when none of them advances. */
struct run;
struct run *launch_begin(struct launch *l);
bool launch_turn(struct run *r);                 /* runs a slice of each resident group; false: nothing is left to do */
int  launch_end(struct run *r);
void launch_stop(struct run *r);                 /* fails without a finding of its own, because another launch had one */
uint64_t launch_progress(const struct run *r);   /* if unchanged: nothing began, ended, was stored or opened since */
uint32_t launch_slice(const struct run *r);      /* instructions in its last slice */
enum { LAUNCH_PATIENCE = 2000000 };              /* instructions of every wave without progress */
bool launch_repeats(struct run *r);              /* all its waves return to the same instructions with the same registers */
void launch_stuck(struct run *r, const char *why);         /* a finding: deadlock */

uint64_t draw(uint64_t *state);                  /* a random number */
uint32_t chips_count(void);                      /* queue.c; 0, with a line on stderr: the settings are wrong */
bool chips_known(void);                         /* false: a message was printed */

/* ---- wave.c: registers ---- */
static inline uint64_t wave_exec(const struct wave *w) { return w->lanes == 32 ? w->s[EXEC] : (uint64_t)w->s[EXEC + 1] << 32 | w->s[EXEC]; }
static inline uint64_t lanes_mask(uint32_t lanes) { return lanes == 64 ? ~0ull : (1ull << lanes) - 1; }
static inline uint32_t *vgpr(struct wave *w, uint32_t reg) { return w->v + (size_t)reg * w->lanes; }
void wave_begin(struct wave *w);                 /* initial SGPRs and VGPRs of w->index of w->group (LLVM AMDGPUUsage, initial kernel
                                                  * execution state) */
/* Executes up to n instructions; returns their number.  Stops early at a barrier, at the end, or after a finding. */
uint32_t wave_run(struct wave *w, uint32_t n);

/* Writes n registers from rows [n][lanes] in the lanes of mask.  `undefined`: lanes where the result is undefined; others become
 * defined. */
void vgpr_write(struct wave *w, uint32_t reg, uint32_t n, const uint32_t *rows, uint64_t mask, uint64_t undefined);
/* After a load instruction wrote registers: they await vmcnt, lgkmcnt (seq of the load just started) or both (flat). */
void vgpr_await(struct wave *w, uint32_t reg, uint32_t n, bool vm, bool lgkm);
/* n: 1 or 2 registers; undefined: undefined bits of value.  reg may be VCC, M0, EXEC (a finding if undefined), S_NULL. */
void sgpr_write(struct wave *w, uint32_t reg, uint32_t n, uint64_t value, uint64_t undefined);
void sgpr_await(struct wave *w, uint32_t reg, uint32_t n);
uint64_t sgpr_read(const struct wave *w, uint32_t reg, uint32_t n);
/* The value of a scalar source: register, scc or constant; as many bits as its type has. */
uint64_t scalar_source(const struct wave *w, const struct operand *o);
uint64_t scalar_source_undefined(const struct wave *w, const struct operand *o);
/* Writes a mask as wide as the wave to scalar registers, such as vcc or s[2:3]. */
void mask_write(struct wave *w, const struct operand *dst, uint64_t mask, uint64_t undefined);
uint64_t mask_source(const struct wave *w, const struct operand *src);
void wave_wait(struct wave *w, struct waits waits, bool in_loop);        /* s_waitcnt and similar: advances the *_done counters */

/* ---- valu.c ---- */
/* Rows [words][lanes] of a vector source with its modifiers (neg, abs, op_sel, DPP, SDWA) applied; a pointer into the register file if
 * possible, else to store[2 * MAX_LANES].  k: number of the source in i->src. */
const uint32_t *vector_source(struct wave *w, const struct inst *i, uint32_t k, uint32_t *store);
void run_valu(struct wave *w, const struct inst *i);   /* op->lanes over sources, clamp, omod, write; VOPD: both halves read before either
                                                        * writes */
void run_cmp(struct wave *w, const struct inst *i);    /* op->lanes gives 0 or 1 per lane; v_cmp: into dst; v_cmpx: into exec (RDNA), exec
                                                        * and dst (CDNA) */
void unknown_op(struct wave *w, const struct inst *i);
/* ---- lanes.c ---- */
/* DPP (RDNA3 ISA 7.x, CDNA3 ISA 6.x): out[words][lanes] of in.  Lanes without a source lane are 0 with bound_ctrl, otherwise cleared in
 * *valid.  in: rows of the whole register; undefined: its undefined lanes, moved in the same way. */
void dpp_apply(const struct wave *w, const struct inst *i, uint32_t *out, const uint32_t *in, uint32_t words, uint64_t *valid,
               uint64_t *undefined);
void sdwa_select(uint32_t *out, const uint32_t *in, uint32_t lanes, uint32_t sel, bool sext);
/* Restores the parts of the destination that DPP and SDWA leave unchanged. */
void sdwa_insert(uint32_t *rows, const uint32_t *old, uint32_t lanes, uint32_t sel, uint32_t unused);

/* ---- memory.c ---- */
void  memory_init(void);
enum memory_kind { MEMORY_COARSE, MEMORY_FINE, MEMORY_UNCACHED, MEMORY_HOST };
extern _Thread_local uint32_t memory_chip;       /* chip of the next three functions: the calling thread's current device */
void *memory_alloc(size_t bytes, enum memory_kind kind);       /* poisoned, undefined; NULL: out of memory (FORGE_GFXSIM_MEMORY) */
bool  memory_free(void *address);                /* false: no allocation begins there */
size_t memory_in_use(void);
size_t memory_size(void);
/* Whether one allocation contains [address, address + bytes). */
bool  memory_inside(uint64_t address, size_t bytes, bool host);
void  memory_set_defined(uint64_t address, size_t bytes, bool defined);
bool  memory_defined(uint64_t address, size_t bytes);  /* all bytes, which must lie in one allocation */
/* memory_undefined_lanes(): lanes of mask with undefined bytes at address[lane]; all bytes lie in [first, end).  Next: marks them
 * stored. */
uint64_t memory_undefined_lanes(const uint64_t *address, uint64_t mask, uint32_t bytes, uint64_t first, uint64_t end);
void  memory_define_lanes(const uint64_t *address, uint64_t mask, uint32_t bytes, uint64_t first, uint64_t end);
/* Whether all bytes lie in one allocation, of the host or of one of these chips (bits). */
bool  memory_reachable(uint64_t address, size_t bytes, uint32_t reach);
bool  memory_is_fine(uint64_t address);          /* MEMORY_FINE or MEMORY_UNCACHED */
/* The device allocation that contains the address; false: none. */
struct memory_place { uint32_t number, chip, kind /* enum memory_kind */; uint64_t begin; size_t bytes; };
bool  memory_find(uint64_t address, struct memory_place *out);
void *memory_side_table(size_t bytes);           /* zeros, which use memory only where they are written */
void  memory_side_table_free(void *table, size_t bytes);
extern uint64_t memory_base;                     /* all allocations lie in [memory_base, memory_base + MEMORY_RANGE) */
#define MEMORY_RANGE ((size_t)256 << 30)
/* Writes a text such as "240 bytes after allocation 7 of 4096 bytes" to out. */
void  memory_describe(char *out, size_t bytes, uint64_t address);

/* ---- order.c: which stores of another group a group may see within one launch ---- */
enum scope { SCOPE_WAVE, SCOPE_GROUP, SCOPE_DEVICE, SCOPE_SYSTEM };    /* from sc0, sc1; RDNA: glc is DEVICE for loads, all stores are
                                                                        * DEVICE */
void order_launch_begin(struct launch *l);
void order_launch_enter(const struct launch *l); /* its groups run from now on, and no other launch's */
void order_launch_end(struct launch *l);
void order_group_begin(struct group *g);
void order_group_end(struct group *g);
/* A vector store, load or atomic of `bytes` at each lane's address; called after the bounds check, once per wave instruction. */
void order_store(struct wave *w, const struct inst *i, const uint64_t *address, uint64_t mask, uint32_t bytes, enum scope scope);
/* The same with the stored values, rows [words][lanes]: two groups may store the same value. */
void order_store_rows(struct wave *w, const struct inst *i, const uint64_t *address, uint64_t mask, uint32_t bytes, enum scope scope,
                      const uint32_t *rows);
bool order_quiet(uint64_t first, uint64_t end);  /* [first, end) was not stored to in this launch: order_load need not be called */
void order_lock(void);                           /* held during order_atomic and the change itself; may be nested */
void order_unlock(void);
/* Returns lanes that must not use the loaded value: they count as undefined, and order_explain() reports the cause when they are used. */
uint64_t order_load(struct wave *w, const struct inst *i, const uint64_t *address, uint64_t mask, uint32_t bytes, enum scope scope);
void order_atomic(struct wave *w, const struct inst *i, const uint64_t *address, uint64_t mask, uint32_t bytes, enum scope scope,
                  bool returns);
bool order_explain(struct wave *w, const struct inst *use);        /* called by report() for FINDING_UNDEFINED; true: another finding was
                                                                    * reported instead */
void order_scalar_load(struct wave *w, const struct inst *i, uint64_t address, uint32_t bytes);
void order_scalar_invalidate(struct wave *w);    /* s_dcache_inv */
void order_write_back(struct wave *w, enum scope scope);       /* buffer_wbl2 */
void order_invalidate(struct wave *w, enum scope scope);       /* buffer_inv, buffer_gl0_inv, buffer_gl1_inv */
void order_barrier(struct group *g);             /* all its waves have arrived */

/* Progress of a wave's stores: stores up to `done` are complete.  issued: twice the number of the last store that was begun; odd if
 * something was issued after it. */
struct progress { uint32_t done, issued; };
void order_published(const struct group *g, uint32_t wave, struct progress *p);        /* at its group's last barrier */
void order_own(const struct wave *w, struct progress *p);      /* at the current store */

/* ---- peers.c: which accesses one chip may make to memory of another ---- */
#define PEER_CLOSED ", which hipDeviceEnablePeerAccess has not opened to this one"
enum peer_access { PEER_LOAD = 1, PEER_STORE = 2 /* atomics are both */ };
void peers_launch_begin(const struct launch *l);
/* An access of the lanes of mask, all of it in [first, end); called after the bounds check.  system: at system scope. */
void peers_access(struct wave *w, const struct inst *i, const uint64_t *address, uint64_t mask, uint32_t bytes, uint64_t first,
                  uint64_t end, uint32_t access, bool system);
/* A copy by the device.  Returns false, with a message, if another chip's launch may access the same bytes. */
bool peers_copy(uint32_t device, uint32_t seq, const uint32_t *known, uint64_t address, size_t bytes, enum peer_access access);
void peers_forget(uint32_t number);              /* the allocation was freed */
void peers_barrier(struct group *g);             /* as order_barrier and order_group_end; with several chips */
void peers_group_end(struct group *g);

/* ---- lds.c ---- */
void lds_group_begin(struct group *g);           /* poisons LDS: nothing written, no readers */
void lds_group_end(struct group *g);
void lds_barrier(struct group *g);
/* global_load_lds_dword: stores a dword at the LDS byte address of each lane of mask, with the checks of a store; WAIT_VM counts it, and
 * WAIT_LGKM does not.  undefined: lanes with an undefined value.  Weak symbol: without it the instruction is unknown. */
void lds_store_direct(struct wave *w, const struct inst *i, const uint32_t *address, uint64_t mask, const uint32_t *rows,
                      uint64_t undefined)
    __attribute__((weak));

/* ---- report.c ---- */
enum finding { FINDING_UNKNOWN, FINDING_BOUNDS, FINDING_ALIGNMENT, FINDING_UNDEFINED, FINDING_WAIT, FINDING_LDS_RACE, FINDING_RACE,
               FINDING_SCALAR_CACHE, FINDING_DIES, FINDING_FLAG, FINDING_PEERS, FINDING_DEADLOCK, FINDING_OTHER, N_FINDINGS };
extern const char *const finding_names[N_FINDINGS];
/* Reports a finding on stderr: kernel, group, wave, lane (-1: none), instruction and its address, then the text; once per instruction and
 * kind.  The launch fails.  FORGE_GFXSIM_IGNORE=race,undefined lists kinds to ignore; for these it returns false. */
bool report(struct wave *w, const struct inst *i, enum finding kind, int lane, const char *fmt, ...) __attribute__((format(printf, 5, 6)));
bool ignored(enum finding kind);

/* ---- channels.c ---- */
struct channel_steps { uint32_t *bytes, n; };          /* [n][channels] of each step; begins as { NULL, 0 } */
struct channels channels_setting(void);
/* Counts bytes that are loaded from memory in a step.  offset: of the address from memory_base. */
void channels_add(struct channel_steps *s, const struct channels *c, uint32_t step, uint64_t offset, uint32_t bytes);
void channels_merge(struct channel_steps *to, struct channel_steps *from, const struct channels *c);      /* from is empty afterwards */
void channels_count(struct counters *counted, struct channel_steps *s, const struct channels *c);         /* s is empty afterwards */

/* ---- stats.c ---- */
enum inst_kind inst_kind(const char *name);      /* as in op_info */
void stats_launch(const struct launch *l);       /* adds to the counters that FORGE_GFXSIM_STATS=FILE receives at the end of the process */
uint32_t lines_touched(const uint64_t *address, uint64_t mask, uint32_t bytes, uint32_t line_bytes);
uint64_t setting(const char *name, uint64_t otherwise);        /* an environment variable as a number */
/* Element k, or the last one, of a variable that may be a list with commas; text: with its length, NULL if the variable is not set or
 * empty. */
uint64_t setting_of(const char *name, uint32_t k, uint64_t otherwise);
const char *setting_text(const char *name, uint32_t k, size_t *n);
#endif
