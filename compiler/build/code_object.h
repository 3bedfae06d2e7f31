/* code_object.h -- the resources of compiled kernels: registers, spills, scratch, LDS; read from the result of cc_compile for CC_DEVICE.
 * Sources: LLVM "User Guide for AMDGPU Backend", code object v3 and later metadata (NT_AMDGPU_METADATA, MessagePack); PTX ISA 8.5. */
#ifndef FORGEC_CODE_OBJECT_H
#define FORGEC_CODE_OBJECT_H
#include "compiler/base/base.h"
#include "compiler/base/target.h"
#include "spawn.h"

/* Issue slots of the vector ALU (issues.h); each instruction counts with the slots it needs by the target's rates. sometimes: in code that
 * a branch may skip. */
struct turn_issues { double always, sometimes; };
struct kernel_issues {
    struct turn_issues *loops;       /* [n_loops], per iteration, in code order: innermost loops that read both memory and LDS */
    uint32_t n_loops;
    double   outside;                /* in all other code that is always executed */
};

struct kernel_resources {
    const char *name;
    uint32_t    vgprs;               /* 32-bit registers of a lane; gfx942: including AGPRs; 0: unknown (PTX before ptxas) */
    uint32_t    agprs, sgprs;        /* AMD */
    uint32_t    vgpr_spills;         /* AMD: registers; PTX: bytes stored and loaded */
    uint32_t    sgpr_spills;         /* registers kept in lanes of VGPRs: no memory traffic */
    uint32_t    scratch_bytes;       /* stack of a lane, in memory */
    bool        dynamic_stack;       /* needs scratch of unknown size */
    uint32_t    lds_bytes;           /* static; a launch may add dynamic LDS */
    uint32_t    kernarg_bytes;
    uint32_t    threads;             /* maximum of a workgroup */
    uint32_t    wave;                /* lanes */
    struct kernel_issues issues;     /* AMD */
};

/* The kernels of an ELF code object for AMD or of PTX text, in file order; *n: how many. NULL with *n = 0 if object is neither or is
 * malformed; never reads outside it. Shared objects for the host have no such notes: NULL. */
struct kernel_resources *code_object_read(struct arena *a, struct bytes object, size_t *n);
/* Runs ptxas, from PATH or /usr/local/cuda/bin, on PTX text and sets vgprs, scratch and spills of kernels[n]. False if there is no ptxas or
 * it rejects the text (too old for the PTX version); *messages then says why. */
bool code_object_ptxas(struct arena *a, const struct spawn_options *options, const struct target *p, struct bytes ptx,
                       struct kernel_resources *kernels, size_t n, const char **messages);
/* The number of waves of a SIMD for which there are registers, at most p->waves; 0 if vgprs is 0. */
uint32_t code_object_waves(const struct target *p, uint32_t vgprs);
/* True if registers spill to memory. gfx942 may spill to accumulation registers, without scratch; these do not count. */
bool code_object_spills(const struct target *p, const struct kernel_resources *k);
/* Dies naming the first kernel that does not fit p: another wave size, too many registers, static LDS, or spills (unless allow_spills). */
void code_object_check(struct arena *a, const struct target *p, const struct kernel_resources *kernels, size_t n, bool allow_spills);
#endif
