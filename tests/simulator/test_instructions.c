/* test_instructions.c -- tests every instruction that compiled kernels use, one kernel each, against the definitions of the ISA documents
 * (instructions.def).
 *
 *   test_instructions LIBRARY CHIP [-o opcodes.txt] [-k NAME] [-r RECORDS] [-s KEPT.s] [-n SHOWN] [-1] [-v]
 *
 * LIBRARY is libgfxsim.so or another library with the functions of runtime/device/hip.def.  One assembler file has all kernels; clang makes
 * the code object.  A kernel first loads everything that an instruction may read (the record of its wave: registers, exec, vcc, scc, m0)
 * and at the end stores everything that it may write, so a test also finds unwanted changes.  -o: names that must have a test; -k: only
 * tests with NAME in their text; -1: in one process; -n: number of differences shown per test (2).
 * Exit code 0: all as expected, and no name without a test. */
#include <dlfcn.h>
#include <inttypes.h>
#include <math.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define NOINLINE __attribute__((noinline))       /* a thousand tests call it: saves compile time */

enum { LANES = 64, SLOT_WORDS = 8, REGION = 8192 /* bytes of memory, or of LDS, that a wave may touch */, N_SCALAR_OUT = 16 };
enum chips { GFX942 = 1, GFX1100 = 2, GFX1151 = 4, GFX11 = GFX1100 | GFX1151, ALL = 7 };
enum test_flag {
    ON_LDS = 1,             /* the region is copied to LDS before, and back after */
    TWO_WAVES = 2,          /* a workgroup has two waves; w->other is the other wave; LDS is not filled */
    FULL_EXEC = 4,          /* exec is all ones */
    ONE_LEFT = 8,           /* exec is not zero */
    MANY = 16,              /* scalar: more waves, because each has only one set of inputs */
    SCRATCH = 32,
};

union value {
    uint32_t u; int32_t i; float f; uint64_t q; int64_t j; double d;
    uint32_t w[SLOT_WORDS]; float x[SLOT_WORDS]; uint16_t h[2 * SLOT_WORDS]; uint8_t b[4 * SLOT_WORDS];
};

/* The inputs and outputs of a test's kernel.  Vector slots: D (destination), A, B, C; scalar slots: S, T, U, R (destination). */
struct wave {
    uint32_t    lanes;
    bool        g9;                              /* gfx942 */
    const struct test *test;
    union value v[4][LANES];                     /* D A B C */
    union value s[4];                            /* S T U R */
    uint64_t    exec, vcc;
    uint32_t    scc, m0;
    uint64_t    any;                             /* lanes with a D that the document does not define */
    uint64_t    any_vcc;                         /* the same for bits of vcc */
    uint8_t    *mem;                             /* [REGION] */
    uint64_t    base;                            /* its address on the device */
    struct wave *other;
};

struct slot { char type; uint32_t count, align, words; };
struct test {
    const char *text, *types;
    void      (*expect)(struct wave *w);
    uint32_t    chips, flags; int line;
};
struct parsed { struct slot v[4], s[4]; bool uses_memory, keeps_denormals; uint64_t ulp; };
static struct parsed parsed;                     /* of the current test */

/* ---- the language of instructions.def ---- */

static const char vector_slots[] = "DABC", scalar_slots[] = "STUR";

static bool is_denormal(float x) { return fpclassify(x) == FP_SUBNORMAL; }
static float flush(float x) { return is_denormal(x) && !parsed.keeps_denormals ? copysignf(0, x) : x; }

static void flush_value(union value *x, const struct slot *slot)
{
    if (slot->type == 'f' || slot->type == 'p')
        for (uint32_t k = 0; k < slot->words; k++) x->x[k] = flush(x->x[k]);
}

/* A source as the instruction sees it: f32 denormals are zeros (MODE.denorm 0, as in our kernels), addresses are offsets in the region. */
NOINLINE static union value take(const struct wave *w, uint32_t slot, uint32_t lane)
{
    union value x = w->v[slot][lane];
    if (parsed.v[slot].type == 'j') x.q -= w->base;
    flush_value(&x, &parsed.v[slot]);
    return x;
}

NOINLINE static union value take_scalar(const struct wave *w, uint32_t slot)
{
    union value x = w->s[slot];
    flush_value(&x, &parsed.s[slot]);
    return x;
}

/* 16-bit results: gfx9 zeroes the upper half, gfx10 and later keep it (LLVM, GCNSubtarget::zeroesHigh16BitsOfDest). */
NOINLINE static void put(struct wave *w, uint32_t lane, union value x)
{
    const struct slot *slot = &parsed.v[0];
    if (slot->words == 0) return;
    if (slot->type == 'h' || slot->type == 'w') x.h[1] = w->g9 ? 0 : w->v[0][lane].h[1];
    flush_value(&x, slot);
    memcpy(w->v[0][lane].w, x.w, 4 * slot->words);
}

static bool active(const struct wave *w, int lane) { return lane >= 0 && lane < (int)w->lanes && (w->exec >> lane & 1) != 0; }

static bool is_nan32(uint32_t x) { return (x & 0x7fffffff) > 0x7f800000; }
static bool is_nan64(uint64_t x) { return (x & INT64_MAX) > 0x7ffull << 52; }
static bool is_nan16(uint16_t x) { return (x & 0x7fff) > 0x7c00; }

static void load(const struct wave *w, union value *to, uint64_t offset, uint32_t bytes) { memcpy(to->b, w->mem + offset, bytes); }
static void store(struct wave *w, const void *from, uint64_t offset, uint32_t bytes) { memcpy(w->mem + offset, from, bytes); }

#define PASTE2(a, b) a##b
#define PASTE(a, b) PASTE2(a, b)
#define TEST2(id, chips_, flags_, text_, types_, ...)                                                                                      \
    static void PASTE(expect_, id)(struct wave *w) { __VA_ARGS__; }                                                                        \
    static const struct test PASTE(test_, id) = { text_, types_, PASTE(expect_, id), chips_, flags_, __LINE__ };                           \
    static const struct test *const PASTE(test_at_, id) __attribute__((used, section("instruction_tests"))) = &PASTE(test_, id);
#define TEST(...) TEST2(__VA_ARGS__)
#define SOURCES(n)                                                                                                                         \
    union value a = take(w, 1, n), b = take(w, 2, n), c = take(w, 3, n), d = take(w, 0, n), s = take_scalar(w, 0), t = take_scalar(w, 1),  \
         u = take_scalar(w, 2);                                                                                                            \
    const uint32_t cc = w->vcc >> n & 1; (void)a; (void)b; (void)c; (void)s; (void)t; (void)u; (void)cc;
#define EACH_LANE(n) for (int n = 0; n < (int)w->lanes; n++) if (active(w, n))
/* computes d of each active lane from a, b, c, s, t, u; cc: its bit of vcc */
#define LANE_(flags, chips, text, types, ...)                                                                                              \
    TEST(__COUNTER__, chips, flags, text, types, EACH_LANE(n) { SOURCES(n) __VA_ARGS__; put(w, (uint32_t)n, d); })
#define LANE(chips, text, types, ...) LANE_(0, chips, text, types, __VA_ARGS__)
/* computes the mask dst: k of each active lane, else 0; and d if the text has D */
#define MASK(chips, dst, text, types, ...)                                                                                                 \
    TEST(__COUNTER__, chips, 0, text, types, uint64_t mask = 0;                                                                            \
         EACH_LANE(n) { SOURCES(n) bool k = false; __VA_ARGS__; mask |= (uint64_t)k << n; put(w, (uint32_t)n, d); } w->dst = mask;)
/* computes r, scc, vcc, exec from s, t, u */
#define SCALAR(chips, text, types, ...)                                                                                                    \
    TEST(__COUNTER__, chips, MANY, text, types, union value s = take_scalar(w, 0), t = take_scalar(w, 1), u = take_scalar(w, 2),           \
         r = w->s[3];                                                                                                                      \
         uint64_t exec = w->exec, vcc = w->vcc; uint32_t scc = w->scc; (void)s; (void)t; (void)u; __VA_ARGS__;                             \
         w->s[3] = r; w->scc = scc; w->exec = exec & low_mask(w->lanes); w->vcc = vcc & low_mask(w->lanes);)
/* anything: the body works on *w */
#define WAVE(chips, flags, text, types, ...) TEST(__COUNTER__, chips, flags, text, types, __VA_ARGS__)
/* a comes from lane `from`; 0 if that lane does not exist or is not in exec (DPP) */
#define DPP_(chips, keep, text, types, from, ...)                                                                                          \
    WAVE(chips, 0, text, types, EACH_LANE(n) {                                                                                             \
        SOURCES(n) const int source = from; a = active(w, source) ? take(w, 1, (uint32_t)source) : (union value){ .q = 0 };                \
        if (keep && !active(w, source)) continue;                                                                                          \
        __VA_ARGS__; put(w, (uint32_t)n, d); })
#define DPP(chips, text, types, from, ...) DPP_(chips, false, text, types, from, __VA_ARGS__)
#define DPP_KEEP(chips, text, types, from, ...) DPP_(chips, true, text, types, from, __VA_ARGS__)

#include "instructions.def"

extern const struct test *const __start_instruction_tests[], *const __stop_instruction_tests[];

/* ---- chips, text ---- */

static const struct { const char *name; enum chips bit; uint32_t lanes; } chip_list[] = {
    { "gfx942", GFX942, 64 }, { "gfx1100", GFX1100, 32 }, { "gfx1151", GFX1151, 32 },
};
static const char *chip_name;
static uint32_t chip_bit, lanes;
static bool g9;

static const struct test **tests;                /* of this chip, in the order of the file */
static uint32_t n_tests;

static void die(const char *what)
{
    fprintf(stderr, "test_instructions: %s\n", what);
    exit(2);
}

static bool is_word(char c) { return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/* A slot letter is a word by itself, or followed by the number of a register in it: "D", "A1". */
static char slot_at(const char *text, const char *p)
{
    if (*p < 'A' || *p > 'Z' || (p > text && is_word(p[-1]))) return 0;
    const char *end = p + 1;
    while (*end >= '0' && *end <= '9') end++;
    return is_word(*end) ? 0 : *p;
}

static uint32_t type_words(char type)
{
    return strchr("qdpyj", type) != NULL ? 2 : type == 'm' ? lanes / 32 : 1;
}

static struct slot *slot_of(struct parsed *p, char letter)
{
    const char *v = strchr(vector_slots, letter), *s = strchr(scalar_slots, letter);
    return v != NULL ? &p->v[v - vector_slots] : s != NULL ? &p->s[s - scalar_slots] : NULL;
}

/* types: one word for each slot, in the order of their first occurrence in the text: [count]letter[alignment]; then "~N": ULPs, "!": f32
 * denormals are kept. */
static void parse_types(const struct test *t, struct parsed *p)
{
    memset(p, 0, sizeof *p);
    const char *types = t->types;
    for (const char *c = t->text; *c != 0; c++) {
        const char letter = slot_at(t->text, c);
        struct slot *slot = letter != 0 ? slot_of(p, letter) : NULL;
        if (letter == 'P') p->uses_memory = true;
        if (slot == NULL || slot->words != 0) continue;
        while (*types == ' ') types++;
        char *end;
        slot->count = (uint32_t)strtoul(types, &end, 10);
        if (slot->count == 0) slot->count = 1;
        slot->type = *end;
        if (*end == 0) die(t->text);
        end++;
        if (*end >= '0' && *end <= '9') slot->align = (uint32_t)strtoul(end, &end, 10);
        slot->words = slot->count * type_words(slot->type);
        if (slot->type == 'j') p->uses_memory = true;
        types = end;
    }
    if ((t->flags & ON_LDS) != 0) p->uses_memory = true;
    for (; *types != 0; types++) {
        if (*types == '!') p->keeps_denormals = true;
        if (*types == '~') p->ulp = strtoull(types + 1, NULL, 10);
    }
}

/* ---- the assembler file ---- */

enum { V_FIRST = 10 /* A B C D: 8 registers each */, S_FIRST = 22, R_FIRST = 36, P_FIRST = 34 };

static uint32_t first_register(char letter)
{
    switch (letter) {
    case 'A': return V_FIRST;      case 'B': return V_FIRST + 8;  case 'C': return V_FIRST + 16;  case 'D': return V_FIRST + 24;
    case 'S': return S_FIRST;      case 'T': return S_FIRST + 2;  case 'U': return S_FIRST + 4;   case 'R': return R_FIRST;
    default:  return P_FIRST;
    }
}

static void emit_registers(FILE *f, char kind, uint32_t first, uint32_t n)
{
    if (n == 1) fprintf(f, "%c%u", kind, first);
    else fprintf(f, "%c[%u:%u]", kind, first, first + n - 1);
}

static void emit_body(FILE *f, const struct test *t, const struct parsed *p)
{
    fputs("  ", f);
    for (const char *c = t->text; *c != 0; c++) {
        const char letter = slot_at(t->text, c);
        if (strncmp(c, " / ", 3) == 0) { fputs("\n  ", f); c += 2; continue; }
        if (letter == 0 || strchr("DABCSTURPVE", letter) == NULL) { fputc(*c, f); continue; }
        if (letter == 'V' || letter == 'E') { fprintf(f, "%s%s", letter == 'V' ? "vcc" : "exec", g9 ? "" : "_lo"); continue; }
        const char kind = strchr(vector_slots, letter) != NULL ? 'v' : 's';
        if (c[1] >= '0' && c[1] <= '9') {
            fprintf(f, "%c%u", kind, first_register(letter) + (uint32_t)strtoul(c + 1, NULL, 10));
            while (c[1] >= '0' && c[1] <= '9') c++;
        } else {
            emit_registers(f, kind, first_register(letter), letter == 'P' ? 2 : slot_of((struct parsed *)p, letter)->words);
        }
    }
    fputc('\n', f);
}

/* s[to:to+1] += s13, which is the number of the record, s12, shifted */
static void emit_advance(FILE *f, uint32_t to, uint32_t shift)
{
    fprintf(f, "  s_lshl_b32 s13, s12, %u\n  s_add_u32 s%u, s%u, s13\n  s_addc_u32 s%u, s%u, 0\n", shift, to, to, to + 1, to + 1);
}

/* Copies the region to LDS, or back: 16 bytes per lane each time. */
static void emit_copy(FILE *f, bool to_lds)
{
    fputs("  v_lshlrev_b32_e32 v2, 4, v0\n", f);
    for (uint32_t at = 0; at < REGION; at += 16 * lanes) {
        fprintf(f, "  v_or_b32_e32 v3, 0x%x, v2\n", at);
        fputs(to_lds ? "  global_load_dwordx4 v[44:47], v3, s[34:35]\n  s_waitcnt vmcnt(0)\n  ds_write_b128 v3, v[44:47]\n"
                     : "  ds_read_b128 v[44:47], v3\n  s_waitcnt lgkmcnt(0)\n  global_store_dwordx4 v3, v[44:47], s[34:35]\n", f);
    }
    fputs("  s_waitcnt vmcnt(0) lgkmcnt(0)\n", f);
}

static void emit_prologue(FILE *f, const struct test *t, const struct parsed *p)
{
    const uint32_t log = g9 ? 6 : 5, group = g9 ? 2 : 15;     /* SGPR of the workgroup's number: after the user SGPRs */
    fputs("  s_load_dwordx8 s[4:11], s[0:1], 0x0\n  s_load_dwordx2 s[34:35], s[0:1], 0x20\n", f);
    fprintf(f, "  v_lshrrev_b32_e32 v1, %u, v0\n  v_readfirstlane_b32 s12, v1\n", log);
    fprintf(f, "  s_lshl_b32 s13, s%u, %u\n  s_add_u32 s12, s12, s13\n", group, (t->flags & TWO_WAVES) != 0 ? 1 : 0);
    fprintf(f, "  v_and_b32_e32 v0, %u, v0\n  s_waitcnt lgkmcnt(0)\n", lanes - 1);
    emit_advance(f, 4, 7 + log);                 /* vector inputs: a lane has 128 bytes */
    emit_advance(f, 6, 6);                       /* scalar inputs: 64 bytes */
    emit_advance(f, 8, 5 + log);                 /* D: a lane has 32 bytes */
    emit_advance(f, 10, 6);                      /* scalars: 64 bytes */
    if (p->uses_memory) emit_advance(f, 34, 13);
    fputs("  s_load_dwordx16 s[16:31], s[6:7], 0x0\n  v_lshlrev_b32_e32 v1, 7, v0\n", f);
    for (uint32_t k = 0; k < 4; k++)             /* D A B C */
        for (uint32_t word = 0; word < (k == 0 ? 8u : p->v[k].words); word += 4) {
            const uint32_t first = first_register(vector_slots[k]) + word;
            fprintf(f, "  global_load_dwordx4 v[%u:%u], v1, s[4:5] offset:%u\n", first, first + 3, 32 * k + 4 * word);
        }
    if ((t->flags & ON_LDS) != 0) emit_copy(f, true);
    fputs("  s_waitcnt vmcnt(0) lgkmcnt(0)\n  s_mov_b64 s[36:37], s[28:29]\n  s_mov_b32 m0, s21\n  s_cmp_lg_u32 s20, 0\n", f);
    fputs(g9 ? "  s_mov_b64 vcc, s[18:19]\n  s_mov_b64 exec, s[16:17]\n" : "  s_mov_b32 vcc_lo, s18\n  s_mov_b32 exec_lo, s16\n", f);
    fputs("  s_nop 7\n", f);
}

static void emit_epilogue(FILE *f, const struct test *t, const struct parsed *p)
{
    fputs("  s_waitcnt vmcnt(0) lgkmcnt(0)\n", f);
    if (!g9) fputs("  s_waitcnt_vscnt null, 0x0\n", f);
    fputs("  s_nop 7\n  s_nop 7\n  s_cselect_b32 s60, 1, 0\n  s_mov_b32 s61, m0\n", f);
    fputs(g9 ? "  s_mov_b64 s[62:63], vcc\n  s_mov_b64 s[64:65], exec\n  s_mov_b64 exec, -1\n"
             : "  s_mov_b32 s62, vcc_lo\n  s_mov_b32 s63, 0\n  s_mov_b32 s64, exec_lo\n  s_mov_b32 s65, 0\n  s_mov_b32 exec_lo, -1\n", f);
    if ((t->flags & ON_LDS) != 0) emit_copy(f, false);
    fputs("  v_lshlrev_b32_e32 v1, 5, v0\n  global_store_dwordx4 v1, v[34:37], s[8:9]\n  global_store_dwordx4 v1, v[38:41], s[8:9] "
          "offset:16\n", f);
    fputs(g9 ? "  s_mov_b64 exec, 1\n" : "  s_mov_b32 exec_lo, 1\n", f);
    fputs("  v_mov_b32_e32 v1, 0\n", f);
    const uint32_t r_words = p->s[3].words > 2 ? p->s[3].words : 2;
    static const uint8_t from[6] = { 62, 63, 64, 65, 60, 61 };
    for (uint32_t k = 0; k < (r_words > 2 ? 16u : 8u); k++) {         /* vcc exec scc m0 R */
        const uint32_t v = 44 + k % 8, word = k < 6 + r_words ? k : 5 + r_words;
        fprintf(f, "  v_mov_b32_e32 v%u, s%u\n", v, word < 6 ? from[word] : R_FIRST + word - 6);
        if (k % 4 == 3) fprintf(f, "  global_store_dwordx4 v1, v[%u:%u], s[10:11] offset:%u\n", v - 3, v, 4 * k - 12);
    }
    if (!g9 && (t->flags & SCRATCH) == 0) fputs("  s_nop 0\n  s_sendmsg sendmsg(MSG_DEALLOC_VGPRS)\n", f);       /* as LLVM ends kernels */
    fputs("  s_endpgm\n", f);
}

static uint32_t lds_bytes(const struct test *t) { return (t->flags & (ON_LDS | TWO_WAVES)) != 0 ? REGION : 0; }

static void emit_descriptor(FILE *f, const struct test *t, const struct parsed *p, uint32_t k)
{
    fprintf(f, ".p2align 6\n.rodata\n.amdhsa_kernel t%u\n  .amdhsa_group_segment_fixed_size %u\n  .amdhsa_private_segment_fixed_size %u\n",
            k, lds_bytes(t), (t->flags & SCRATCH) != 0 ? 256 : 0);
    fprintf(f,
            "  .amdhsa_kernarg_size 40\n  .amdhsa_user_sgpr_count %u\n  .amdhsa_user_sgpr_kernarg_segment_ptr 1\n  "
            ".amdhsa_enable_private_segment %d\n", g9 ? 2 : 15, (t->flags & SCRATCH) != 0);
    fprintf(f, "  .amdhsa_next_free_vgpr 64\n  .amdhsa_next_free_sgpr 72\n%s",
            g9 ? "  .amdhsa_accum_offset 56\n" : "  .amdhsa_wavefront_size32 1\n");
    fprintf(f, "  .amdhsa_float_denorm_mode_32 %d\n  .amdhsa_float_denorm_mode_16_64 3\n  .amdhsa_dx10_clamp 1\n  .amdhsa_ieee_mode 1\n"
               ".end_amdhsa_kernel\n.text\n", p->keeps_denormals ? 3 : 0);
}

static void emit_metadata(FILE *f)
{
    fputs(".amdgpu_metadata\n---\namdhsa.kernels:\n", f);
    for (uint32_t k = 0; k < n_tests; k++)
        fprintf(f, "  - .args:\n      - .offset: 0\n        .size: 40\n        .value_kind: by_value\n    .group_segment_fixed_size: %u\n"
                   "    .kernarg_segment_align: 8\n    .kernarg_segment_size: 40\n    .max_flat_workgroup_size: 128\n    .name: t%u\n"
                   "    .private_segment_fixed_size: %u\n    .sgpr_count: 72\n    .symbol: t%u.kd\n    .vgpr_count: 64\n    "
                   ".wavefront_size: %u\n%s",
                lds_bytes(tests[k]), k, (tests[k]->flags & SCRATCH) != 0 ? 256 : 0, k, lanes, g9 ? "    .agpr_count: 8\n" : "");
    fprintf(f, "amdhsa.target: amdgcn-amd-amdhsa--%s\namdhsa.version:\n  - 1\n  - 2\n...\n.end_amdgpu_metadata\n", chip_name);
}

static void emit_file(const char *path)
{
    FILE *f = fopen(path, "w");
    if (f == NULL) die(path);
    fprintf(f, ".amdgcn_target \"amdgcn-amd-amdhsa--%s\"\n.amdhsa_code_object_version 5\n.text\n", chip_name);
    for (uint32_t k = 0; k < n_tests; k++) {
        struct parsed p;
        parse_types(tests[k], &p);
        fprintf(f, "\n.globl t%u\n.p2align 8\n.type t%u,@function\nt%u:                       // %s\n", k, k, k, tests[k]->text);
        emit_prologue(f, tests[k], &p);
        emit_body(f, tests[k], &p);
        emit_epilogue(f, tests[k], &p);
        emit_descriptor(f, tests[k], &p, k);
    }
    emit_metadata(f);
    fclose(f);
}

static void assemble(const char *from, const char *to)
{
    const char *clang = getenv("FORGEC_CLANG");
    char mcpu[32], *argv[] = { (char *)(clang != NULL ? clang : "clang-19"), "-x", "assembler", "-target", "amdgcn-amd-amdhsa", mcpu,
                               "-mcode-object-version=5", "-o", (char *)to, (char *)from, NULL };
    snprintf(mcpu, sizeof mcpu, "-mcpu=%s", chip_name);
    pid_t child;
    int status = 1;
    if (posix_spawnp(&child, argv[0], NULL, NULL, argv, environ) != 0 || waitpid(child, &status, 0) < 0 || status != 0)
        die("the assembler failed");
}

/* ---- inputs ---- */

static uint64_t random_state;
static uint64_t random64(void)
{
    random_state ^= random_state << 13, random_state ^= random_state >> 7, random_state ^= random_state << 17;
    return random_state * 0x9e3779b97f4a7c15u >> 1 ^ random_state;
}
static uint32_t below(uint32_t n) { return (uint32_t)((random64() >> 20) % n); }
#define PICK(list) list[below(sizeof list / sizeof *list)]

static uint32_t random_int(void)
{
    static const uint32_t edges[] = { 0, 1, 2, 0xffffffff, 0xfffffffe, 0x80000000, 0x80000001, 0x7fffffff, 0x7ffffffe, 0xff, 0x100, 0xffff,
                                      0x10000, 0x8000, 0x7fff, 0xffffff, 0x800000, 0x7fffff, 0x1000000, 0xffff0000, 0x80008000, 0x01010101,
                                      0x80808080, 0x7f7f7f7f };
    const uint32_t kind = below(4);
    return kind == 0 ? PICK(edges) : kind == 1 ? below(70) : (uint32_t)(random64() >> 7);
}

static uint32_t random_float(void)
{
    static const uint32_t edges[] = { 0, 0x80000000, 0x3f800000, 0xbf800000, 0x3f000000, 0xbf000000, 0x40000000, 0x3fc00000, 0x40200000,
                                      0x7f800000, 0xff800000, 0x7fc00000, 0xffc12345, 0x7f800001, 0xffa00000, 1, 0x80000001, 0x7fffff,
                                      0x807fffff, 0x800000, 0x80800000, 0x7f7fffff, 0xff7fffff, 0x4b000000, 0x4b000001, 0x4affffff,
                                      0x4f000000, 0xcf000000, 0x4effffff, 0xcf000001, 0x4f800000, 0x4f7fffff, 0x3effffff, 0x477fe000,
                                      0x477ff000, 0x33000000, 0x33000001, 0x38800000, 0x387fc000, 0xc3160000, 0xc2fc0000, 0x42fe0000 };
    const uint32_t kind = below(4);
    if (kind == 0) return PICK(edges);
    return kind == 1 ? (uint32_t)(random64() >> 9) : (uint32_t)((random64() >> 9 & 0x807fffff) | (uint32_t)(117 + below(21)) << 23);
}

static uint64_t random_double(void)
{
    static const uint64_t edges[] = { 0, 1ull << 63, 0x3ffull << 52, 0xbffull << 52, 0x7ffull << 52, 0xfffull << 52, 0x7ff8ull << 48,
                                      0xfff0000000000001, 1, 0x8000000000000001, 0xfffffffffffff, 1ull << 52, 0x7fefffffffffffff,
                                      0xffefffffffffffff, 0x3fe0000000000000, 0x3ff8000000000000, 0xbff8000000000000, 0x4330000000000001,
                                      0x4330000000000000, 0x432fffffffffffff, 0x41efffffffe00000, 0x41f0000000000000, 0x41e0000000000000,
                                      0xc1e0000000000000, 0x3fdfffffffffffff, 0x47efffffe0000000, 0x47efffffefffffff, 0x47effffff0000000,
                                      0x36a0000000000000, 0x380fffffffffffff, 0x3810000000000000 };
    const uint32_t kind = below(4);
    if (kind == 0) return PICK(edges);
    if (kind == 1) return random64() << 1 ^ random64() >> 3;
    return ((random64() & 0x800fffffffffffff) | (uint64_t)(1023 - 40 + below(80)) << 52) ^ (random64() & 1) << 63;
}

static uint16_t random_half(void)
{
    static const uint16_t edges[] = { 0, 0x8000, 0x3c00, 0xbc00, 0x7c00, 0xfc00, 0x7e00, 0xfd01, 1, 0x8001, 0x3ff, 0x400, 0x7bff, 0xfbff,
                                      0x3800, 0x4500 };
    const uint32_t kind = below(4);
    return kind == 0 ? PICK(edges) : kind == 1 ? (uint16_t)(random64() >> 11)
        : (uint16_t)((random64() >> 11 & 0x83ff) | (10 + below(11)) << 10);
}

/* Elements of matrices: sums of 16 products are exact, so that the order of additions, which the documents do not define, does not
 * matter. */
static uint16_t random_element(bool is_bf16)
{
    const float x = (float)((int)below(65) - 32) / 8;
    const union value bits = { .f = x };
    return is_bf16 ? (uint16_t)(bits.u >> 16) : to_half((double)x);
}

/* Elements whose sums of products with c are often a bit more or less than halfway between two 16-bit numbers, by less than an f32 holds:
 * a sum that is rounded to f32 first comes out wrong.  Most are zero. */
static uint16_t random_halfway(bool is_bf16)
{
    static const uint16_t bf16[] = { 0x3d80, 0x3800, 0x3780 },      /* 2^-4, 2^-15, 2^-16; a bf16 from 1 to 2 has units of 2^-7 */
                          f16[]  = { 0x2800, 0x2400, 0x0400 };      /* 2^-5, 2^-6, 2^-14; an f16 has units of 2^-10 */
    if (below(4) != 0) return 0;
    return (is_bf16 ? PICK(bf16) : PICK(f16)) | (uint16_t)(below(2) << 15);
}

static uint64_t address_base;                    /* of the wave's region */

static uint64_t random_word(const struct slot *slot, uint32_t lane, uint32_t turn)
{
    union value x = { .q = 0 };
    const uint32_t align = slot->align != 0 ? slot->align : 4;
    switch (slot->type) {
    case 'u': case 'i': return random_int();
    case 'f': case 'g': return random_float();
    case 'h': return random_half() | (uint64_t)(random64() >> 9 & 0xffff) << 16;
    case 'k': return random_half() | (uint64_t)random_half() << 16;
    case 'w': return random_int();
    case 'q': return below(4) == 0 ? (uint64_t)random_int() : random_int() | (uint64_t)random_int() << 32;
    case 'm': return random64() << 1 ^ random64();
    case 'd': return random_double();
    case 'p': case 'y': return random_float() | (uint64_t)random_float() << 32;
    /* an argument of exp2, exponents of f64 */
    case 'e': x.f = (float)((int)below(601) - 300) + (float)below(1 << 20) / (1 << 20); return x.u;
    case 'H': return random_element(false) | (uint64_t)random_element(false) << 16;
    case 'Z': return random_element(true) | (uint64_t)random_element(true) << 16;
    case 'X': return random_halfway(false) | (uint64_t)random_halfway(false) << 16;
    case 'Y': return random_halfway(true) | (uint64_t)random_halfway(true) << 16;
    case 'c': x.f = (float)((int)below(4097) - 2048) / 64; return x.u;
    case 'a': return 0x3c00 | below(1024) | below(2) << 15 | (uint64_t)(random64() >> 9 & 0xffff) << 16;
    case 'b': return 0x3f80 | below(128) | below(2) << 15 | (uint64_t)(random64() >> 9 & 0xffff) << 16;
    case 'o': return 1024 + 16 * (lane * (2 * turn + 1) + turn) % (16 * lanes);      /* distinct in a wave */
    case 'j': return address_base + 1024 + 16 * (lane * (2 * turn + 1) + turn) % (16 * lanes);
    case 'r': return 1024 + below(2048 / align) * align;
    case 'O': return 4 * below(256);
    case 'x': return (uint32_t)((int)below(2200) - 1100);
    default:  die("a type of instructions.def is unknown");
    }
    return 0;
}

static void random_value(union value *x, const struct slot *slot, uint32_t lane, uint32_t turn)
{
    const uint32_t each = slot->count != 0 ? slot->words / slot->count : 1;
    for (uint32_t k = 0; k < SLOT_WORDS; k++) x->w[k] = (uint32_t)(random64() >> 8);
    for (uint32_t k = 0; k < slot->count; k++) {
        const uint64_t bits = random_word(slot, lane, turn);
        memcpy(&x->w[k * each], &bits, 4 * each);
    }
}

static uint64_t random_exec(uint32_t flags, uint32_t turn)
{
    const uint64_t all = low_mask(lanes), some = (random64() << 1 ^ random64()) & all;
    if ((flags & FULL_EXEC) != 0 || turn % 2 == 0) return all;
    if (turn % 16 == 1) return (flags & ONE_LEFT) != 0 ? 1 : 0;
    if (turn % 16 == 3) return 1ull << below(lanes);
    if (turn % 16 == 5) return all << lanes / 2 & all;
    return some | ((flags & ONE_LEFT) != 0);
}

static void random_wave(struct wave *w, const struct test *t, uint32_t turn)
{
    for (uint32_t lane = 0; lane < lanes; lane++)
        for (uint32_t k = 0; k < 4; k++) {
            random_value(&w->v[k][lane], &parsed.v[k], lane, turn);
            if (k >= 2 && parsed.v[k].type == parsed.v[1].type && strchr("ojr", parsed.v[k].type) == NULL && below(8) == 0)
                w->v[k][lane] = w->v[1][lane];
            if (!g9 && lane >= 16 && k > 0 && strchr("HZXY", parsed.v[k].type) != NULL && parsed.v[k].words != 0)
                w->v[k][lane] = w->v[k][lane - 16];
        }
    for (uint32_t k = 0; k < 4; k++) random_value(&w->s[k], &parsed.s[k], 0, turn);
    if (below(6) == 0 && parsed.s[1].type == parsed.s[0].type) w->s[1] = w->s[0];
    for (uint32_t k = 0; k < 4; k++)
        if (parsed.s[k].type == 'm') w->s[k].q &= low_mask(lanes);
    w->exec = random_exec(t->flags, turn);
    w->vcc = below(5) == 0 ? 0 : below(5) == 0 ? low_mask(lanes) : random64() & low_mask(lanes);
    w->scc = below(2), w->m0 = (uint32_t)(random64() >> 8);
}

/* ---- the device ---- */

struct hip {
    int (*hipInit)(unsigned); int (*hipMalloc)(void **, size_t); int (*hipMemcpyHtoDAsync)(void *, const void *, size_t, void *);
    int (*hipMemcpyDtoHAsync)(void *, void *, size_t, void *); int (*hipModuleLoadData)(void **, const void *);
    int (*hipModuleGetFunction)(void **, void *, const char *); int (*hipStreamQuery)(void *);
    int (*hipModuleLaunchKernel)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
};
static struct hip hip;

static void open_library(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) die(dlerror());
#define FIND(name) *(void **)&hip.name = dlsym(library, #name); if (hip.name == NULL) die("no " #name)
    FIND(hipInit); FIND(hipMalloc); FIND(hipMemcpyHtoDAsync); FIND(hipMemcpyDtoHAsync); FIND(hipModuleLoadData); FIND(hipModuleGetFunction);
         FIND(hipStreamQuery);
    FIND(hipModuleLaunchKernel);
#undef FIND
}

enum { MOST_WAVES = 256 };
struct buffers { uint8_t *in_v, *in_s, *out_v, *out_s, *mem; };     /* as the kernels' arguments: [waves][lanes][4][8], [waves][16],
                                                                     * [waves][lanes][8], ... */
static struct buffers host, device;
static void *module;

static void each_buffer(void (*f)(uint8_t **host, uint8_t **device, size_t bytes), uint32_t n)
{
    f(&host.in_v, &device.in_v, (size_t)n * lanes * 128), f(&host.in_s, &device.in_s, (size_t)n * 64),
        f(&host.out_v, &device.out_v, (size_t)n * lanes * 32);
    f(&host.out_s, &device.out_s, (size_t)n * 64), f(&host.mem, &device.mem, (size_t)n * REGION);
}
static void check(int error) { if (error != 0) { fprintf(stderr, "test_instructions: HIP error %d\n", error); _exit(3); } }
static void make_buffer(uint8_t **h, uint8_t **d, size_t bytes)
{
    if ((*h = calloc(bytes, 1)) == NULL) die("no memory");
    check(hip.hipMalloc((void **)d, bytes));
}
static void upload(uint8_t **h, uint8_t **d, size_t bytes) { check(hip.hipMemcpyHtoDAsync(*d, *h, bytes, NULL)); }

static void device_begin(const char *code_path)
{
    FILE *f = fopen(code_path, "rb");
    static uint8_t image[16 << 20];
    if (f == NULL || fread(image, 1, sizeof image, f) == 0) die(code_path);
    fclose(f);
    check(hip.hipInit(0));
    check(hip.hipModuleLoadData(&module, image));
    each_buffer(make_buffer, MOST_WAVES);
}

static int launch(uint32_t k, uint32_t waves, uint32_t waves_of_group)
{
    char name[16];
    void *function;
    size_t bytes = sizeof device;
    void *extra[] = { (void *)1, &device, (void *)2, &bytes, (void *)3 };
    snprintf(name, sizeof name, "t%u", k);
    check(hip.hipModuleGetFunction(&function, module, name));
    int error = hip.hipModuleLaunchKernel(function, waves / waves_of_group, 1, 1, lanes * waves_of_group, 1, 1, 0, NULL, NULL, extra);
    while (error == 0 && (error = hip.hipStreamQuery(NULL)) == 600) {}      /* hipErrorNotReady */
    return error;
}

/* ---- one test ---- */

static void write_record(const struct wave *w, uint32_t r)
{
    for (uint32_t lane = 0; lane < lanes; lane++)
        for (uint32_t k = 0; k < 4; k++) memcpy(host.in_v + ((size_t)r * lanes + lane) * 128 + 32 * k, &w->v[k][lane], 32);
    uint32_t s[16] = { (uint32_t)w->exec, (uint32_t)(w->exec >> 32), (uint32_t)w->vcc, (uint32_t)(w->vcc >> 32), w->scc, w->m0 };
    for (uint32_t k = 0; k < 4; k++) memcpy(&s[6 + 2 * k], w->s[k].w, 8);
    memcpy(host.in_s + (size_t)r * 64, s, 64);
}

static bool close_enough(int64_t got, int64_t want, uint64_t ulp, int64_t least_value)
{
    if (got < 0) got = least_value - got;        /* from sign and magnitude to an ordered integer */
    if (want < 0) want = least_value - want;
    return (uint64_t)(got > want ? got - want : want - got) <= ulp;
}

/* A sum between the largest denormal and the smallest normal number: the documents do not say whether it is rounded before it is
 * flushed. */
static bool is_least_or_flushed(uint32_t got, uint32_t want)
{
    return !parsed.keeps_denormals && (want & INT32_MAX) == 0x800000 && got == (want & 0x80000000);
}

static bool same(const struct slot *slot, const uint32_t *got, const uint32_t *want, uint64_t ulp)
{
    if (memcmp(got, want, 4 * slot->words) == 0) return true;
    for (uint32_t k = 0; k < slot->words; k++) {
        const uint64_t g = got[k] | (uint64_t)got[(k + 1) % SLOT_WORDS] << 32, e = want[k] | (uint64_t)want[(k + 1) % SLOT_WORDS] << 32;
        bool equal = got[k] == want[k];
        switch (slot->type) {
        case 'f': case 'p': case 'y': equal |= (is_nan32(got[k]) && is_nan32(want[k])) || is_least_or_flushed(got[k], want[k]);
                            equal |= ulp != 0 && !is_nan32(got[k]) && close_enough((int32_t)got[k], (int32_t)want[k], ulp, INT32_MIN);
                            break;
        case 'd': equal |= (g == e) || (is_nan64(g) && is_nan64(e)) ||
            (ulp != 0 && !is_nan64(g) && close_enough((int64_t)g, (int64_t)e, ulp, INT64_MIN));
             k++; break;
        case 'h': equal |= is_nan16((uint16_t)g) && is_nan16((uint16_t)e) && got[k] >> 16 == want[k] >> 16; break;
        case 'k': equal |= (is_nan16((uint16_t)g) ? is_nan16((uint16_t)e) : (uint16_t)g == (uint16_t)e)
                           && (is_nan16((uint16_t)(g >> 16)) ? is_nan16((uint16_t)(e >> 16)) : (uint16_t)(g >> 16) == (uint16_t)(e >> 16));
                           break;
        default: break;
        }
        if (!equal) return false;
    }
    return true;
}

static void print_value(const char *name, const union value *x, const struct slot *slot)
{
    if (slot->words == 0) return;
    fprintf(stderr, " %s", name);
    for (uint32_t k = slot->words; k > 0; k--) fprintf(stderr, "%s%08x", k == slot->words ? " " : "_", x->w[k - 1]);
    if (slot->type == 'f' || slot->type == 'g') fprintf(stderr, " (%.9g)", (double)x->f);
    if (slot->type == 'd') fprintf(stderr, " (%.17g)", x->d);
}

static uint32_t most_shown = 2;

static void print_inputs(const struct wave *was, int lane)
{
    static const char *const names[] = { "D", "A", "B", "C", "S", "T", "U", "R" };
    fprintf(stderr, "    of");
    for (uint32_t k = 0; lane >= 0 && k < 4; k++) print_value(names[k], &was->v[k][lane], &parsed.v[k]);
    for (uint32_t k = 0; k < 4; k++) print_value(names[4 + k], &was->s[k], &parsed.s[k]);
    fprintf(stderr, " exec %" PRIx64 " vcc %" PRIx64 " scc %u\n", was->exec, was->vcc, was->scc);
}

static bool differs(const struct wave *was, int lane, const char *what, const struct slot *slot, const union value *got,
                    const union value *want, uint32_t *n)
{
    if ((*n)++ >= most_shown) return true;
    fprintf(stderr, "  %s: %s", was->test->text, what);
    if (lane >= 0) fprintf(stderr, " lane %d%s", lane, active(was, lane) ? "" : " (not in exec)");
    print_value("is", got, slot), print_value("should be", want, slot);
    fputc('\n', stderr);
    print_inputs(was, lane);
    return true;
}

/* Prints the differences between the wave's results and w; was: its inputs. */
static void compare_wave(const struct wave *was, const struct wave *w, uint32_t r, uint32_t *bad)
{
    static const struct slot whole = { 'u', 8, 0, 8 }, two = { 'u', 2, 0, 2 }, one = { 'u', 1, 0, 1 };
    const uint32_t *s = (const uint32_t *)(host.out_s + (size_t)r * 64);
    for (uint32_t lane = 0; lane < lanes; lane++) {
        union value got;
        memcpy(&got, host.out_v + ((size_t)r * lanes + lane) * 32, 32);
        const union value *want = &w->v[0][lane];
        const struct slot *slot = parsed.v[0].words != 0 ? &parsed.v[0] : &whole;
        if ((w->any >> lane & 1) != 0) continue;
        if (!same(slot, got.w, want->w, parsed.ulp) || memcmp(got.w + slot->words, want->w + slot->words, 32 - 4 * slot->words) != 0)
            differs(was, (int)lane, "D", slot, &got, want, bad);
    }
    const union value vcc = { .q = w->vcc }, exec = { .q = w->exec }, scc = { .u = w->scc }, m0 = { .u = w->m0 };
    union value got = { .w = { s[0], s[1] } };
    if (((got.q ^ vcc.q) & ~w->any_vcc) != 0) differs(was, -1, "vcc", &two, &got, &vcc, bad);
    got = (union value){ .w = { s[2], s[3] } };
    if (got.q != exec.q) differs(was, -1, "exec", &two, &got, &exec, bad);
    got = (union value){ .u = s[4] };
    if (got.u != scc.u) differs(was, -1, "scc", &one, &got, &scc, bad);
    got = (union value){ .u = s[5] };
    if (got.u != m0.u) differs(was, -1, "m0", &one, &got, &m0, bad);
    memcpy(got.w, s + 6, 32);
    const struct slot *slot = parsed.s[3].words > 2 ? &parsed.s[3] : &two;
    if (memcmp(got.w, w->s[3].w, 4 * slot->words) != 0) differs(was, -1, "R", slot, &got, &w->s[3], bad);
}

static void compare_memory(const struct wave *was, const uint8_t *got, const uint8_t *want, uint32_t *bad)
{
    for (uint32_t at = 0; at < REGION; at += 4) {
        if (memcmp(got + at, want + at, 4) == 0) continue;
        if ((*bad)++ < most_shown)
            fprintf(stderr, "  %s: byte %u of memory: is %08x, should be %08x\n", was->test->text, at, *(const uint32_t *)(got + at),
                 *(const uint32_t *)(want + at)),
            print_inputs(was, -1);
        return;
    }
}

static uint32_t records = 64;
static struct wave was[MOST_WAVES], waves[MOST_WAVES];
static uint8_t memory_want[MOST_WAVES * REGION];

static void make_inputs(const struct test *t, uint32_t n)
{
    random_state = 0xcbf29ce484222325;           /* FNV-1a: the same values at any place in the file */
    for (const char *c = t->text; *c != 0; c++) random_state = (random_state ^ (uint8_t)*c) * 0x100000001b3;
    for (const char *c = t->types; *c != 0; c++) random_state = (random_state ^ (uint8_t)*c) * 0x100000001b3;
    memset(host.in_v, 0, (size_t)n * lanes * 128);
    for (uint32_t k = 0; parsed.uses_memory && k < n * REGION; k += 8) {
        const uint64_t word = random64() << 1 ^ random64();
        memcpy(host.mem + k, &word, 8);
    }
    memcpy(memory_want, host.mem, n * REGION);
    for (uint32_t r = 0; r < n; r++) {
        address_base = (uint64_t)(uintptr_t)device.mem + r * REGION;
        was[r] = (struct wave){ .lanes = lanes, .g9 = g9, .test = t, .mem = memory_want + r * REGION, .base = address_base,
                                .other = &waves[r ^ 1] };
        random_wave(&was[r], t, r);
        waves[r] = was[r];
        write_record(&was[r], r);
    }
}

/* The number of values that differ; 1 when the launch fails. */
static uint32_t run_test(uint32_t k, int *error)
{
    const struct test *t = tests[k];
    uint32_t bad = 0;
    parse_types(t, &parsed);
    const uint32_t wanted = (t->flags & MANY) != 0 ? 4 * records : parsed.uses_memory ? records / 4 : records,
         n = wanted > MOST_WAVES ? MOST_WAVES : wanted & ~1u;
    make_inputs(t, n);
    each_buffer(upload, n);
    *error = launch(k, n, (t->flags & TWO_WAVES) != 0 ? 2 : 1);
    if (*error != 0) return 1;
    check(hip.hipMemcpyDtoHAsync(host.out_v, device.out_v, (size_t)n * lanes * 32, NULL));
    check(hip.hipMemcpyDtoHAsync(host.out_s, device.out_s, (size_t)n * 64, NULL));
    check(hip.hipMemcpyDtoHAsync(host.mem, device.mem, (size_t)n * REGION, NULL));
    while (hip.hipStreamQuery(NULL) == 600) {}
    for (uint32_t r = 0; r < n; r++) t->expect(&waves[r]);
    for (uint32_t r = 0; r < n; r++) compare_wave(&was[r], &waves[r], r, &bad);
    for (uint32_t r = 0; parsed.uses_memory && r < n; r++) compare_memory(&was[r], host.mem + r * REGION, memory_want + r * REGION, &bad);
    return bad;
}

/* ---- all tests ---- */

struct progress { uint32_t next, n_failed, n_passed; };
static struct progress *progress;                /* shared with the child that runs the tests */
static bool verbose;

static void run_tests(bool until_failure)
{
    while (progress->next < n_tests) {
        const uint32_t k = progress->next++;
        int error = 0;
        const uint32_t bad = run_test(k, &error);
        if (bad == 0) progress->n_passed++;
        else progress->n_failed++, fprintf(stderr, "FAILED (instructions.def:%d) %s: %s %u\n", tests[k]->line, tests[k]->text,
             error ? "HIP error" : "differing values:", error ? (unsigned)error : bad);
        if (verbose && bad == 0) printf("ok      %s\n", tests[k]->text), fflush(stdout);
        if (error != 0 && until_failure) exit(3);       /* a failed launch stays with the process */
    }
}

/* Child processes run the tests, because a finding of the simulator, or a crash, ends the process. */
static void run_in_children(const char *code_path)
{
    while (progress->next < n_tests) {
        const uint32_t first = progress->next, n_done = progress->n_passed + progress->n_failed;
        fflush(NULL);
        const pid_t child = fork();
        if (child == 0) {
            device_begin(code_path);
            run_tests(true);
            exit(0);
        }
        int status = 0;
        if (child < 0 || waitpid(child, &status, 0) < 0) die("no child");
        if (status == 0) break;
        if (progress->next == first) die("the device cannot be opened");
        if (n_done + (progress->next - first) > progress->n_passed + progress->n_failed) {
            progress->n_failed++;
            fprintf(stderr, "FAILED (instructions.def:%d) %s: %s %d\n", tests[progress->next - 1]->line, tests[progress->next - 1]->text,
                    WIFSIGNALED(status) ? "signal" : "exit", WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        }
    }
}

/* Does a test's text have this mnemonic?  All tests test the instructions with which every kernel begins and ends. */
static bool is_tested(const char *name)
{
    const size_t n = strlen(name);
    if (strcmp(name, "s_endpgm") == 0 || strcmp(name, "s_waitcnt") == 0 || (!g9 && strcmp(name, "s_sendmsg") == 0)) return true;
    for (uint32_t k = 0; k < n_tests; k++)
        for (const char *at = tests[k]->text; (at = strstr(at, name)) != NULL; at += n)
            if ((at == tests[k]->text || at[-1] == ' ') && !is_word(at[n])) return true;
    return false;
}

/* Lines of the list: NAME CHIP...; returns the number of this chip's names without a test. */
static uint32_t check_coverage(const char *path)
{
    FILE *f = fopen(path, "r");
    char line[256], name[64];
    uint32_t n = 0, missing = 0;
    if (f == NULL) die(path);
    while (fgets(line, sizeof line, f) != NULL) {
        if (*line == '#' || strstr(line, chip_name) == NULL || sscanf(line, "%63s", name) != 1) continue;
        n++;
        if (!is_tested(name)) missing++, fprintf(stderr, "FAILED %s: no test\n", name);
    }
    fclose(f);
    printf("%s: %u instructions in %s, %u without a test\n", chip_name, n, path, missing);
    return missing;
}

static int by_line(const void *a, const void *b)
{
    const struct test *x = *(const struct test *const *)a, *y = *(const struct test *const *)b;
    return x->line != y->line ? (x->line > y->line) - (x->line < y->line) : strcmp(x->text, y->text);
}

static void choose_tests(const char *only)
{
    tests = calloc((size_t)(__stop_instruction_tests - __start_instruction_tests), sizeof *tests);
    if (tests == NULL) die("no memory");
    for (const struct test *const *t = __start_instruction_tests; t < __stop_instruction_tests; t++)
        if (((*t)->chips & chip_bit) != 0 && (only == NULL || strstr((*t)->text, only) != NULL)) tests[n_tests++] = *t;
    qsort(tests, n_tests, sizeof *tests, by_line);
}

int main(int argc, char **argv)
{
    const char *opcodes = NULL, *only = NULL, *kept = NULL;
    bool one_process = false;
    int option;
    if (argc < 3) die("usage: test_instructions LIBRARY CHIP [-o opcodes.txt] [-k NAME] [-r RECORDS] [-s KEPT.s] [-n SHOWN] [-1] [-v]");
    for (optind = 3; (option = getopt(argc, argv, "o:k:r:s:n:1v")) != -1;) {
        if (option == 'o') opcodes = optarg;
        else if (option == 'k') only = optarg;
        else if (option == 'r') records = (uint32_t)atoi(optarg);
        else if (option == 's') kept = optarg;
        else if (option == 'n') most_shown = (uint32_t)atoi(optarg);
        else if (option == '1') one_process = true;
        else if (option == 'v') verbose = true;
        else return 2;
    }
    chip_name = argv[2];
    for (uint32_t k = 0; k < sizeof chip_list / sizeof *chip_list; k++)
        if (strcmp(chip_list[k].name, chip_name) == 0) chip_bit = chip_list[k].bit, lanes = chip_list[k].lanes, g9 = lanes == 64;
    if (lanes == 0) die("CHIP is gfx942, gfx1100 or gfx1151");
    choose_tests(only);
    const uint32_t missing = opcodes != NULL ? check_coverage(opcodes) : 0;

    char folder[] = "/tmp/test_instructions.XXXXXX", source[64], code[64];
    if (mkdtemp(folder) == NULL) die("no folder in /tmp");
    snprintf(source, sizeof source, "%s/all.s", folder), snprintf(code, sizeof code, "%s/all.co", folder);
    emit_file(kept != NULL ? kept : source);
    assemble(kept != NULL ? kept : source, code);
    open_library(argv[1]);
    progress = mmap(NULL, sizeof *progress, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (progress == MAP_FAILED) die("no memory");
    if (one_process) device_begin(code), run_tests(false);
    else run_in_children(code);
    remove(source), remove(code), rmdir(folder);
    printf("%s: %u tests passed, %u failed\n", chip_name, progress->n_passed, progress->n_failed);
    return progress->n_failed != 0 || progress->n_passed + progress->n_failed != n_tests || missing != 0;
}
