/* code_object.h -- what compiled kernels use: registers, spills, scratch, LDS; read from what cc_compile gives for CC_DEVICE.
 * Sources: LLVM "User Guide for AMDGPU Backend", code object v3 and later metadata (NT_AMDGPU_METADATA, MessagePack); PTX ISA 8.5. */
#ifndef FORGEC_CODE_OBJECT_H
#define FORGEC_CODE_OBJECT_H
#include "compiler/base/base.h"
#include "compiler/base/profile.h"
#include "spawn.h"

/* Issues of the vector ALU (issues.h), each instruction counted as often as it takes one by the target's rates; sometimes: of code that a
 * branch may leave out. */
struct turn_issues { double always, sometimes; };
struct kernel_issues {
    struct turn_issues *loops;       /* [n_loops], of a turn: loops that read memory and LDS and have no other in them, in code order */
    uint32_t n_loops;
    double   outside;                /* of all other code that is always executed */
};

struct kernel_resources {
    const char *name;
    uint32_t    vgprs;               /* 32-bit registers of a lane; gfx942: AGPRs included; 0: not known (PTX before ptxas) */
    uint32_t    agprs, sgprs;        /* AMD */
    uint32_t    vgpr_spills;         /* AMD: registers; PTX: bytes stored and loaded */
    uint32_t    sgpr_spills;         /* registers kept in lanes of VGPRs: no memory traffic */
    uint32_t    scratch_bytes;       /* stack of a lane, in memory */
    bool        dynamic_stack;       /* needs scratch that nobody knows the size of */
    uint32_t    lds_bytes;           /* static; what a launch asks for comes on top */
    uint32_t    kernarg_bytes;
    uint32_t    threads;             /* most of a group */
    uint32_t    wave;                /* lanes */
    struct kernel_issues issues;     /* AMD */
};

/* The kernels of an ELF code object for AMD or of PTX text, in file order; *n of them.  NULL with *n = 0 when object is neither or is
 * malformed; never reads outside it.  The host's shared objects have no such notes: NULL. */
struct kernel_resources *code_object_read(struct arena *a, struct bytes object, size_t *n);
/* Runs ptxas, from PATH or /usr/local/cuda/bin, on PTX text and fills in vgprs, scratch and spills of kernels[n].  False where there is no
 * ptxas or it does not take the text (too old for the PTX version); *messages then says why. */
bool code_object_ptxas(struct arena *a, const struct spawn_options *options, const struct profile *p, struct bytes ptx,
                       struct kernel_resources *kernels, size_t n, const char **messages);
/* Waves of a SIMD that registers leave room for, at most p->waves; 0 when vgprs is 0. */
uint32_t code_object_waves(const struct profile *p, uint32_t vgprs);
/* Registers in memory.  gfx942 may keep some in accumulation registers: spills without scratch, which are none here. */
bool code_object_spills(const struct profile *p, const struct kernel_resources *k);
/* Dies naming the first kernel that does not fit p: other wave, too many registers, static LDS, or, unless allow_spills, spills. */
void code_object_check(struct arena *a, const struct profile *p, const struct kernel_resources *kernels, size_t n, bool allow_spills);
#endif
