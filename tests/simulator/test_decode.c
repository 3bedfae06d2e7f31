/* test_decode.c -- parses LLVM's texts of instructions in every form into struct inst, and loads whole and damaged code objects. */
#include "simulator/gfxsim.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
/* cmocka.h needs the above */
#include <cmocka.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* ---- texts ---- */

static const struct chip *chip_named(const char *name)
{
    for (uint32_t k = 0; k < n_chips; k++)
        if (!strcmp(chips[k].name, name)) return &chips[k];
    fail_msg("no chip %s", name);
    return NULL;
}

/* The other half of a VOPD is in *decoded.other. */
static struct inst decode_for(const char *chip, const char *text)
{
    static struct inst second;
    struct inst i;
    decode_inst(&i, &second, text, 64, chip_named(chip));
    assert_ptr_equal(i.text, text);
    assert_int_equal(i.pc, 64);
    if (i.run == unknown_op) fail_msg("not understood: %s", text);
    return i;
}

static struct inst rdna(const char *text) { return decode_for("gfx1100", text); }
static struct inst cdna(const char *text) { return decode_for("gfx942", text); }

static void is_register(const struct operand *o, enum operand_kind kind, uint32_t reg, uint32_t n)
{
    assert_int_equal(o->kind, kind);
    assert_int_equal(o->reg, reg);
    assert_int_equal(o->n, n);
}

static bool in_ranges(const struct range *ranges, size_t most, uint32_t first, uint32_t n)
{
    for (size_t k = 0; k < most && ranges[k].n; k++)
        if (ranges[k].first == first && ranges[k].n == n) return true;
    return false;
}
#define HAS(ranges, first, n) assert_true(in_ranges((ranges), COUNT_OF(ranges), (first), (n)))
#define HAS_NOT(ranges, first, n) assert_false(in_ranges((ranges), COUNT_OF(ranges), (first), (n)))

static void registers_are_read(void **state)
{
    (void)state;
    struct inst i = rdna("v_add_f32_e64 v1, -|v2|, s105 clamp mul:2");
    assert_string_equal(i.op->name, "v_add_f32");
    is_register(&i.dst[0], OPERAND_V, 1, 1);
    is_register(&i.src[0], OPERAND_V, 2, 1);
    is_register(&i.src[1], OPERAND_S, 105, 1);
    assert_true(i.src[0].neg && i.src[0].abs && !i.src[1].neg);
    assert_int_equal(i.flags, FLAG_E64 | FLAG_CLAMP);
    assert_int_equal(i.omod, 1);
    HAS(i.v_reads, 2, 1);
    HAS(i.s_reads, 105, 1);
    HAS(i.v_writes, 1, 1);
    i = cdna("v_mfma_f32_32x32x8_f16 a[0:15], v[2:3], v[4:5], a[0:15] cbsz:1 abid:2 blgp:3");
    is_register(&i.dst[0], OPERAND_V, ACC, 16);
    is_register(&i.src[2], OPERAND_V, ACC, 16);
    assert_true(i.cbsz == 1 && i.abid == 2 && i.blgp == 3);
    i = cdna("s_mov_b64 vcc, exec");
    is_register(&i.dst[0], OPERAND_S, VCC, 2);
    is_register(&i.src[0], OPERAND_S, EXEC, 2);
    i = rdna("s_mov_b32 s0, m0");
    HAS(i.s_reads, M0, 1);
}

static void constants_take_their_operand_s_type(void **state)
{
    (void)state;
    static const struct { const char *chip, *text; uint32_t k; enum operand_kind kind; uint64_t bits; } cases[] = {
        { "gfx942", "v_add_f32_e32 v1, 1.0, v2", 0, OPERAND_FLOAT, 0x3f800000 },
        { "gfx942", "v_add_f32_e32 v1, -4.0, v2", 0, OPERAND_FLOAT, 0xc0800000 },
        { "gfx942", "v_add_f32_e32 v1, 0.15915494, v2", 0, OPERAND_FLOAT, 0x3e22f983 },
        { "gfx942", "v_add_f32_e32 v1, 1, v2", 0, OPERAND_INT, 1 },
        { "gfx942", "v_add_f32_e32 v1, 0x3f000001, v2", 0, OPERAND_LITERAL, 0x3f000001 },
        { "gfx942", "v_add_u32_e32 v1, -1, v2", 0, OPERAND_INT, 0xffffffff },
        { "gfx1100", "v_add_f16_e32 v1, 0.5, v2", 0, OPERAND_FLOAT, 0x3800 },
        { "gfx1100", "v_add_f16_e32 v1, 0.15915494, v2", 0, OPERAND_FLOAT, 0x3118 },
        { "gfx1100", "v_add_f64 v[0:1], v[2:3], -1.0", 1, OPERAND_FLOAT, 0xbff0000000000000 },
        { "gfx1100", "v_add_f64 v[0:1], v[2:3], 0.15915494309189532", 1, OPERAND_FLOAT, 0x3fc45f306dc9c882 },
        { "gfx1100", "v_add_f64 v[0:1], v[2:3], 0xc0862000", 1, OPERAND_LITERAL, 0xc086200000000000 },
        { "gfx1100", "v_ldexp_f64 v[0:1], v[2:3], 0xffffffe0", 1, OPERAND_LITERAL, 0xffffffe0 },
        { "gfx1100", "v_pk_fma_f16 v0, v1, v2, 1.0 op_sel_hi:[1,1,0]", 2, OPERAND_FLOAT, 0x3c00 },
        { "gfx1100", "v_fma_mix_f32 v0, v1, v2, 1.0 op_sel_hi:[1,1,0]", 2, OPERAND_FLOAT, 0x3f800000 },
        { "gfx1100", "v_fma_mix_f32 v0, v1, v2, 1.0 op_sel_hi:[0,0,1]", 2, OPERAND_FLOAT, 0x3c00 },
        { "gfx942", "v_lshl_add_u64 v[0:1], v[2:3], 0, 1.0", 2, OPERAND_FLOAT, 0x3ff0000000000000 },
        { "gfx942", "s_mov_b64 s[0:1], 0x80000000", 0, OPERAND_LITERAL, 0x80000000 },
        { "gfx942", "s_mov_b64 s[0:1], -1", 0, OPERAND_INT, 0xffffffffffffffff },
    };
    for (size_t k = 0; k < COUNT_OF(cases); k++) {
        const struct inst i = decode_for(cases[k].chip, cases[k].text);
        if (i.src[cases[k].k].kind != cases[k].kind || i.src[cases[k].k].bits != cases[k].bits)
            fail_msg("%s: kind %d, bits 0x%llx", cases[k].text, i.src[cases[k].k].kind, (unsigned long long)i.src[cases[k].k].bits);
    }
}

static void lane_masks_have_a_wave_s_width(void **state)
{
    (void)state;
    struct inst i = rdna("v_cmpx_lt_u32_e32 0x1000, v1");
    assert_int_equal(i.n_dst, 0);
    assert_int_equal(i.n_src, 2);
    HAS(i.s_writes, EXEC, 1);
    i = rdna("v_cmpx_lt_f32 v1, v2 row_ror:1 row_mask:0xf bank_mask:0xf");
    assert_int_equal(i.n_dst, 0);
    assert_true(i.flags & FLAG_DPP);
    i = cdna("v_cmpx_lt_f32_e64 s[4:5], v1, 1.0");
    is_register(&i.dst[0], OPERAND_S, 4, 2);
    HAS(i.s_writes, 4, 2);
    HAS(i.s_writes, EXEC, 2);
    i = cdna("s_and_saveexec_b64 s[0:1], vcc");
    HAS(i.s_reads, EXEC, 2);
    HAS(i.s_reads, VCC, 2);
    HAS(i.s_writes, EXEC, 2);
    HAS(i.s_writes, 0, 2);
    assert_true(i.writes_scc);
    i = cdna("v_addc_co_u32_e32 v1, vcc, 0, v2, vcc");
    assert_int_equal(i.n_dst, 2);
    assert_int_equal(i.n_src, 3);
    HAS(i.s_reads, VCC, 2);
    HAS(i.s_writes, VCC, 2);
    i = rdna("v_div_scale_f64 v[7:8], null, v[5:6], v[5:6], 1.0");
    assert_int_equal(i.dst[1].kind, OPERAND_NULL);
    HAS(i.v_writes, 7, 2);
    i = rdna("v_div_fmas_f32 v0, v1, v2, v3");
    HAS(i.s_reads, VCC, 1);
    i = rdna("s_cbranch_vccz 65535");
    HAS(i.s_reads, VCC, 1);
    assert_int_equal(i.imm, -1);
}

static void scc_is_known_by_name(void **state)
{
    (void)state;
    static const struct { const char *text; bool reads, writes; } cases[] = {
        { "s_add_u32 s0, s1, s2", false, true }, { "s_addc_u32 s0, s1, s2", true, true }, { "s_cselect_b32 s0, 1, 0", true, false },
        { "s_mul_i32 s0, s1, s2", false, false }, { "s_mov_b32 s0, s1", false, false }, { "s_cmp_eq_u32 s0, 1", false, true },
        { "s_cmpk_eq_i32 s0, 0xffff", false, true }, { "s_cbranch_scc0 3", true, false }, { "s_lshl_b64 s[0:1], s[0:1], 2", false, true },
        { "s_bitcmp1_b32 s0, 0", false, true }, { "s_brev_b32 s0, s1", false, false }, { "s_mov_b32 s0, src_scc", true, false },
        { "s_addk_i32 s0, 0x10", false, true }, { "s_mulk_i32 s0, 0x10", false, false }, { "s_and_b32 exec_lo, exec_lo, s0", false, true },
    };
    for (size_t k = 0; k < COUNT_OF(cases); k++) {
        const struct inst i = rdna(cases[k].text);
        if (i.reads_scc != cases[k].reads || i.writes_scc != cases[k].writes) fail_msg("%s", cases[k].text);
    }
    const struct inst add = decode_for("gfx1151", "s_add_f32 s0, s1, 1.0"), cmp = decode_for("gfx1151", "s_cmp_lt_f32 s0, 0.5");
    assert_true(!add.writes_scc && cmp.writes_scc);
}

static void waits_are(struct inst i, uint8_t vm, uint8_t lgkm, uint8_t vs, uint8_t exp)
{
    const struct waits wanted = { { [WAIT_VM] = vm, [WAIT_LGKM] = lgkm, [WAIT_VS] = vs, [WAIT_EXP] = exp } };
    assert_memory_equal(&i.waits, &wanted, sizeof wanted);
}

static void immediates_and_waits(void **state)
{
    (void)state;
    assert_int_equal(rdna("s_movk_i32 s0, 0xffcb").imm, (int16_t)0xffcb);
    assert_int_equal(rdna("s_cmpk_eq_u32 s0, 0xffff").imm, 0xffff);
    assert_int_equal(rdna("s_nop 7").imm, 7);
    assert_int_equal(rdna("s_clause 0x3").imm, 3);
    assert_int_equal(rdna("s_sendmsg sendmsg(MSG_DEALLOC_VGPRS)").imm, 3);
    assert_int_equal(cdna("s_getreg_b32 s0, hwreg(HW_REG_MODE, 4, 4)").imm, 1 | 4 << 6 | 3 << 11);
    assert_int_equal(cdna("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 0xf0").imm, 1 | 3 << 11);
    HAS(rdna("s_addk_i32 s3, 0x10").s_reads, 3, 1);
    static const uint8_t no = NOT_WAITED;
    waits_are(rdna("s_waitcnt vmcnt(62) expcnt(3) lgkmcnt(7)"), 62, 7, no, 3);
    waits_are(cdna("s_waitcnt lgkmcnt(0)"), no, 0, no, no);
    waits_are(cdna("s_waitcnt 0xcf7f"), 63, 15, no, 7);
    waits_are(cdna("s_waitcnt 0x4125"), 16 + 5, 1, no, 2);
    waits_are(rdna("s_waitcnt 0xfc07"), 63, 0, no, 7);
    waits_are(rdna("s_waitcnt 0x0825"), 2, 2, no, 5);
    waits_are(rdna("s_waitcnt_vscnt null, 0x3"), no, no, 3, no);
    rdna("s_delay_alu instid0(VALU_DEP_1) | instskip(SKIP_2) | instid1(TRANS32_DEP_1)");
    rdna("s_waitcnt_depctr depctr_va_vdst(0)");
}

static void modifiers_of_vectors(void **state)
{
    (void)state;
    struct inst i = cdna("v_mov_b32_dpp v1, v2 row_shl:3 row_mask:0xa bank_mask:0x5 bound_ctrl:1");
    assert_true(i.dpp == DPP_ROW_SHL && i.dpp_value == 3 && i.row_mask == 10 && i.bank_mask == 5);
    assert_int_equal(i.flags, FLAG_DPP | FLAG_BOUND_CTRL);
    i = rdna("v_add_f32_dpp v1, v2, v3 quad_perm:[3,2,1,0] row_mask:0xf bank_mask:0xf");
    assert_true(i.dpp == DPP_QUAD_PERM && i.dpp_value == 0x1b && i.row_mask == 15);
    i = rdna("v_mov_b32_dpp v1, v2 dpp8:[7,6,5,4,3,2,1,0] fi:1");
    assert_int_equal(i.flags, FLAG_DPP8 | FLAG_FI);
    assert_int_equal(i.dpp8, 7 | 6 << 3 | 5 << 6 | 4 << 9 | 3 << 12 | 2 << 15 | 1 << 18);
    i = cdna("v_cvt_f32_i32_sdwa v1, sext(v2) dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:BYTE_3");
    assert_true((i.flags & FLAG_SDWA) && i.src[0].sext && i.dst_sel == SEL_WORD_1 && i.dst_unused == 2 && i.src_sel[0] == SEL_BYTE_3);
    HAS(i.v_reads, 1, 1);
    i = cdna("v_pk_fma_f16 v0, v1, v2, v3 op_sel:[1,0,1] neg_lo:[1,0,0] neg_hi:[0,1,0]");
    assert_true(i.op_sel == 5 && i.op_sel_hi == 7 && i.neg_lo == 1 && i.neg_hi == 2);
    i = rdna("v_add_nc_u16 v0, v1, v2 op_sel:[0,1,1]");
    assert_int_equal(i.op_sel, 2 | 8);
    i = rdna("v_fma_mixlo_f16 v0, v1, v2, -v3");
    assert_true(i.op_sel_hi == 0 && i.src[2].neg);
    i = rdna("v_dual_cndmask_b32 v4, 0, v14 :: v_dual_add_nc_u32 v81, s17, v13");
    assert_string_equal(i.op->name, "v_cndmask_b32");
    assert_int_equal(i.n_src, 3);
    HAS(i.s_reads, VCC, 1);
    assert_non_null(i.other);
    assert_string_equal(i.other->op->name, "v_add_nc_u32");
    HAS(i.other->s_reads, 17, 1);
    HAS_NOT(i.s_reads, 17, 1);
    i = rdna("v_fmac_f32_e32 v0, v1, v2");
    HAS(i.v_reads, 0, 1);
}

static void memory(void **state)
{
    (void)state;
    struct inst i = cdna("global_load_dwordx4 a[0:3], v0, s[2:3] offset:-4096 sc0 nt");
    is_register(&i.dst[0], OPERAND_V, ACC, 4);
    assert_int_equal(i.offset, -4096);
    assert_int_equal(i.flags, FLAG_SC0 | FLAG_NT);
    i = rdna("global_store_b64 v[0:1], v[2:3], off glc slc dlc");
    assert_true(i.n_dst == 0 && i.n_src == 3 && i.src[2].kind == OPERAND_OFF);
    assert_int_equal(i.flags, FLAG_SC0 | FLAG_NT | FLAG_DLC);
    i = cdna("global_atomic_add v2, v2, v3, s[2:3] sc0");
    assert_true(i.n_dst == 1 && i.n_src == 3);
    i = cdna("global_atomic_add v2, v3, s[2:3] sc1");
    assert_true(i.n_dst == 0 && i.n_src == 3);
    i = rdna("s_load_b128 s[0:3], s[4:5], null");
    assert_true(i.src[1].kind == OPERAND_NULL && i.dst[0].n == 4);
    i = cdna("s_load_dwordx2 s[0:1], s[4:5], -0x10");
    assert_true(i.src[1].kind == OPERAND_INT && i.src[1].number == -16 && i.offset == 0);
    i = cdna("s_load_dword s0, s[4:5], s9 offset:0x1d4");
    assert_true(i.src[1].reg == 9 && i.offset == 0x1d4);
    i = rdna("ds_load_2addr_stride64_b32 v[0:1], v4 offset0:1 offset1:255");
    assert_true(i.offset == 1 && i.offset1 == 255);
    i = cdna("buffer_inv sc0 sc1");
    assert_true(i.n_src == 0 && i.flags == (FLAG_SC0 | FLAG_SC1));
    static const struct { const char *text; int32_t offset; } swizzles[] = {
        { "ds_swizzle_b32 v0, v1 offset:swizzle(BITMASK_PERM,\"01pip\")", 0x07 | 0x08 << 5 | 0x02 << 10 },
        { "ds_swizzle_b32 v0, v1 offset:swizzle(QUAD_PERM,0,1,2,3)", 0x80e4 },
        { "ds_swizzle_b32 v0, v1 offset:swizzle(SWAP,16)", 0x1f | 16 << 10 },
        { "ds_swizzle_b32 v0, v1 offset:swizzle(REVERSE,8)", 0x1f | 7 << 10 },
        { "ds_swizzle_b32 v0, v1 offset:swizzle(BROADCAST,8,3)", 0x18 | 3 << 5 },
        { "ds_swizzle_b32 v0, v1 offset:65535", 65535 },
    };
    for (size_t k = 0; k < COUNT_OF(swizzles); k++)
        if (op_find("ds_swizzle_b32")) assert_int_equal(cdna(swizzles[k].text).offset, swizzles[k].offset);
}

static void what_is_not_understood_stops(void **state)
{
    (void)state;
    static const char *const texts[] = { "", "v_nonsense_f32 v0, v1", "v_add_f32_e32 v0, v1, v2 wonder:1", "v_add_f32_e32 v0, v1, v256",
                                         "v_add_f32_e32 v0, v[3:2], v2",
        "v_add_f32_e32 v0, s106, v2", "s_mov_b64 s[0:1], src_shared_base", "v_add_f32_e32 v0, v[1, v2", "v_add_f32_e32 v0, v1, 0x123456789",
        "v_add_f32_e32",
        "v_mov_b32_dpp v1, v2 quad_perm:[4,0,0,0] row_mask:0xf bank_mask:0xf", "v_dual_add_f32 v0, v1, v2 :: v_dual_wonder_f32 v3, s4, v5",
        "v_add_f32_e32 1.0, v1, v2", "s_waitcnt vmcnt(x)", "s_waitcnt_vscnt s0, 0x0", "s_getreg_b32 s0, hwreg(HW_REG_NONE)",
        "v_add_f32_e32 v0, ||, v1" };
    for (size_t k = 0; k < COUNT_OF(texts); k++) {
        struct inst i, second;
        decode_inst(&i, &second, texts[k], 0, chip_named("gfx1100"));
        if (i.run != unknown_op && strcmp(texts[k], "v_add_f32_e32")) fail_msg("taken: %s", texts[k]);
    }
}

/* ---- code objects ---- */

static const char source[] =
    "typedef unsigned u32;\n#define D __attribute__((device))\n#define K extern \"C\" __attribute__((global, "
    "amdgpu_flat_work_group_size(1, 256)))\n"
    "D int number = 7;\nD int *pointers[2] = { &number, &number };\n"
    "K void first(float *x, u32 n)\n{\n    u32 i = __builtin_amdgcn_workgroup_id_x() * __builtin_amdgcn_workgroup_size_x() + "
    "__builtin_amdgcn_workitem_id_x();\n"
    "    for (u32 k = 0; k < n; k++) x[i] = x[i] * 2.0f + 1.0f;\n}\n"
    "__attribute__((shared)) float tile[256];\n"
    "K void second(int *x, u32 i)\n{\n    u32 t = __builtin_amdgcn_workitem_id_x();\n    tile[t] = (float)x[t];\n    "
    "__builtin_amdgcn_s_barrier();\n"
    "    x[t] = (int)tile[255 - t] + *pointers[i & 1];\n}\n";

struct file { uint8_t *bytes; size_t n; };
static struct file files[8];                     /* by chip */
static char        folder[64];

static int run_clang(const char *arch, const char *input, const char *output)
{
    const char *clang = getenv("FORGEC_CLANG");
    char offload[64];
    snprintf(offload, sizeof offload, "--offload-arch=%s", arch);
    const pid_t child = fork();
    if (child == 0) {
        const int quiet = open("/dev/null", O_WRONLY);
        if (quiet >= 0) dup2(quiet, 2);
        execlp(clang ? clang : "clang-19", "clang", "-x", "hip", "--cuda-device-only", offload, "--no-gpu-bundle-output", "-nogpulib",
               "-nogpuinc", "-O2", "-mcode-object-version=5", "-o", output, input, (char *)NULL);
        _exit(127);
    }
    int status = -1;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static struct file read_whole(const char *path)
{
    struct file f = { NULL, 0 };
    FILE *in = fopen(path, "rb");
    if (!in) return f;
    f.bytes = malloc(1 << 20);
    if (f.bytes) f.n = fread(f.bytes, 1, 1 << 20, in);
    fclose(in);
    return f;
}

static int compile_all(void **state)
{
    (void)state;
    char input[128], output[128];
    memory_init();
    snprintf(folder, sizeof folder, "/tmp/test_decode.XXXXXX");
    if (!mkdtemp(folder)) return -1;
    snprintf(input, sizeof input, "%s/kernels.hip", folder);
    FILE *out = fopen(input, "w");
    if (!out) return -1;
    fputs(source, out);
    fclose(out);
    for (uint32_t k = 0; k < n_chips; k++) {
        snprintf(output, sizeof output, "%s/%s.co", folder, chips[k].name);
        if (run_clang(chips[k].name, input, output) == 0) files[k] = read_whole(output);
        unlink(output);
    }
    unlink(input);
    rmdir(folder);
    return 0;
}

static int free_all(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < n_chips; k++) free(files[k].bytes);
    return 0;
}

static const struct kernel *kernel_named(const struct module *m, const char *name)
{
    for (uint32_t k = 0; k < m->n_kernels; k++)
        if (!strcmp(m->kernels[k].name, name)) return &m->kernels[k];
    fail_msg("no kernel %s", name);
    return NULL;
}

static void kernels_are_described(void **state)
{
    (void)state;
    for (uint32_t c = 0; c < n_chips; c++) {
        if (!files[c].n) skip();
        struct module *m = module_load(files[c].bytes, files[c].n);
        assert_non_null(m);
        assert_ptr_equal(m->chip, &chips[c]);
        assert_int_equal(m->n_kernels, 2);
        const struct kernel *first = kernel_named(m, "first"), *second = kernel_named(m, "second");
        assert_int_equal(first->explicit_bytes, 12);
        assert_true(first->kernarg_bytes > 12 && first->n_hidden > 6);
        assert_int_equal(first->hidden[0].kind, HIDDEN_BLOCK_COUNT_X);
        assert_int_equal(first->hidden[0].offset, 16);
        assert_int_equal(first->hidden[3].kind, HIDDEN_GROUP_SIZE_X);
        assert_int_equal(first->hidden[3].size, 2);
        assert_int_equal(second->lds_bytes, 1024);
        assert_int_equal(second->scratch_bytes, 0);
        assert_int_equal(first->wave, chips[c].wave);
        assert_int_equal(first->most_threads, 256);
        assert_in_range(first->vgprs, 1, 64);
        assert_true(first->vgprs_allocated >= first->vgprs && first->vgprs_allocated % chips[c].granule == 0);
        /* all of it decodes, branches lead to instructions, and both kernels end */
        uint32_t branches = 0, ends = 0;
        for (uint32_t k = 0; k < m->n_inst; k++) {
            const struct inst *i = &m->inst[k];
            if (i->run == unknown_op) fail_msg("%s: %s", chips[c].name, i->text);
            if (!strncmp(i->text, "s_cbranch_", 10)) assert_true(++branches && i->target < m->n_inst);
            ends += !strcmp(i->text, "s_endpgm");
            assert_int_equal(m->inst_at[i->pc / 4], k);
        }
        assert_true(branches > 0 && ends >= 2 && first->entry != second->entry);
        module_free(m);
        /* as HIP passes it: without a size */
        m = module_load(files[c].bytes, 0);
        assert_non_null(m);
        module_free(m);
    }
}

static void relocations_point_into_the_image(void **state)
{
    (void)state;
    for (uint32_t c = 0; c < n_chips; c++) {
        if (!files[c].n) skip();
        struct module *m = module_load(files[c].bytes, files[c].n);
        assert_non_null(m);
        uint32_t found = 0;
        for (size_t at = 0; at + 16 <= m->image_bytes; at += 8) {                /* two pointers to the 7 */
            uint64_t pair[2];
            int32_t  number = 0;
            memcpy(pair, m->image + at, sizeof pair);
            const uint64_t offset = pair[0] - (uint64_t)(uintptr_t)m->image;
            if (pair[0] != pair[1] || offset > m->image_bytes - 4) continue;
            memcpy(&number, m->image + offset, sizeof number);
            found += number == 7;
        }
        assert_int_equal(found, 1);
        module_free(m);
    }
}

/* ---- damage ---- */

static int silence(void)
{
    const int kept = dup(2), quiet = open("/dev/null", O_WRONLY);
    if (quiet >= 0) dup2(quiet, 2), close(quiet);
    return kept;
}

static void speak(int kept)
{
    dup2(kept, 2);
    close(kept);
}

/* In memory of exactly n bytes, so that sanitizers find reads beyond them. */
static bool loads(const uint8_t *bytes, size_t n)
{
    uint8_t *copy = malloc(n ? n : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, n);
    struct module *m = module_load(copy, n);
    const bool good = m != NULL;
    module_free(m);
    free(copy);
    return good;
}

static void other_files_are_refused(void **state)
{
    (void)state;
    const int kept = silence();
    static const char bundle[] = "__CLANG_OFFLOAD_BUNDLE__ and so on", compressed[] = "CCOB and so on",
        text[] = "int main(void) { return 0; }";
    const bool taken = loads((const uint8_t *)bundle, sizeof bundle) || loads((const uint8_t *)compressed, sizeof compressed) ||
                       loads((const uint8_t *)text, sizeof text) || loads((const uint8_t *)"\177ELF", 4) || loads((const uint8_t *)"x", 1);
    speak(kept);
    assert_false(taken);
}

static void truncated_files_are_refused(void **state)
{
    (void)state;
    for (uint32_t c = 0; c < n_chips; c++) {
        if (!files[c].n) skip();
        /* after the last segment there are only section headers, which are not read */
        const int kept = silence();
        bool taken = false;
        for (size_t n = 1; n < files[c].n / 3 && !taken; n += 13) taken = loads(files[c].bytes, n);
        speak(kept);
        assert_false(taken);
    }
}

static void damaged_files_do_not_crash(void **state)
{
    (void)state;
    uint64_t seed = 0x9e3779b97f4a7c15;
    for (uint32_t c = 0; c < n_chips; c++) {
        if (!files[c].n) skip();
        const int kept = silence();
        uint8_t *copy = malloc(files[c].n);
        assert_non_null(copy);
        uint32_t good = 0;
        for (uint32_t round = 0; round < 1200; round++) {
            memcpy(copy, files[c].bytes, files[c].n);
            /* mostly one bit; half of the changes are in headers, notes and symbols */
            for (uint32_t flips = 1 + (round % 8 == 0) * 7; flips > 0; flips--) {
                seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
                const size_t where = (size_t)(seed >> 16) % (round & 1 ? files[c].n : 2048);
                if (round % 3 == 0) copy[where] = (uint8_t)(seed >> 8);
                else copy[where] ^= (uint8_t)(1 << (seed & 7));
            }
            good += loads(copy, files[c].n);
        }
        free(copy);
        speak(kept);
        assert_in_range(good, 1, 1199);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(registers_are_read), cmocka_unit_test(constants_take_their_operand_s_type),
        cmocka_unit_test(lane_masks_have_a_wave_s_width),
        cmocka_unit_test(scc_is_known_by_name), cmocka_unit_test(immediates_and_waits), cmocka_unit_test(modifiers_of_vectors),
        cmocka_unit_test(memory),
        cmocka_unit_test(what_is_not_understood_stops), cmocka_unit_test(kernels_are_described),
        cmocka_unit_test(relocations_point_into_the_image),
        cmocka_unit_test(other_files_are_refused), cmocka_unit_test(truncated_files_are_refused),
        cmocka_unit_test(damaged_files_do_not_crash),
    };
    return cmocka_run_group_tests(tests, compile_all, free_all);
}
