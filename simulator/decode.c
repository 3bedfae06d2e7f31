/* decode.c -- a line of LLVM's disassembler -> struct inst.
 * It parses the text, not the encoding: LLVM knows the encodings of all chips, and findings show the text.  The syntax is that of clang and
 * LLVM 19 for gfx1100, gfx1151 and gfx942 (LLVM "Syntax of AMDGPU instruction operands and modifiers").  Everything else becomes
 * unknown_op. */
#include "compiler/base/disasm.h"
#include "gfxsim.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
enum { MAX_PRINTED = 7, SLOTS = 8192 /* a power of two, twice the names */ };

/* ---- op_find ---- */

static const struct op_info *slots[SLOTS];

static uint32_t slot_of(const char *name)
{
    uint32_t h = 2166136261u;                                    /* FNV-1a */
    for (; *name; name++) h = (h ^ (uint8_t)*name) * 16777619u;
    return h;
}

static void insert_table(const struct op_info *ops, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = slot_of(ops[i].name) % SLOTS;
        while (slots[at] && strcmp(slots[at]->name, ops[i].name)) at = (at + 1) % SLOTS;
        if (slots[at]) fprintf(stderr, "gfxsim: %s is in the op tables twice\n", ops[i].name);
        else slots[at] = &ops[i];
    }
}

static void insert_tables(void)
{
    insert_table(salu_ops, n_salu_ops);
    insert_table(smem_ops, n_smem_ops);
    insert_table(valu_ops, n_valu_ops);
    insert_table(cmp_ops, n_cmp_ops);
    insert_table(convert_ops, n_convert_ops);
    insert_table(lane_ops, n_lane_ops);
    insert_table(mma_ops, n_mma_ops);
    insert_table(vmem_ops, n_vmem_ops);
    insert_table(lds_ops, n_lds_ops);
}

const struct op_info *op_find(const char *name)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, insert_tables);
    uint32_t at = slot_of(name) % SLOTS;
    while (slots[at] && strcmp(slots[at]->name, name)) at = (at + 1) % SLOTS;
    return slots[at];
}

static const struct op_info unknown_info = { .name = "unknown", .run = unknown_op, .class = CLASS_OTHER };

/* ---- words ---- */

struct word { const char *at; size_t n; };

static bool is(struct word w, const char *text)
{
    return w.n == strlen(text) && !memcmp(w.at, text, w.n);
}

static bool begins(const char *text, const char *prefix)
{
    return !strncmp(text, prefix, strlen(prefix));
}

/* The part of w after prefix; at is NULL if w does not begin with prefix. */
static struct word after(struct word w, const char *prefix)
{
    const size_t n = strlen(prefix);
    return w.n >= n && !memcmp(w.at, prefix, n) ? (struct word){ w.at + n, w.n - n } : (struct word){ NULL, 0 };
}

static bool ends(struct word w, const char *suffix)
{
    const size_t n = strlen(suffix);
    return w.n >= n && !memcmp(w.at + w.n - n, suffix, n);
}

/* The next word before end; words end at blanks and at commas outside brackets; n is 0 at the end of the text. */
static struct word next_word(const char **at, const char *end)
{
    const char *p = *at;
    while (p < end && (*p == ' ' || *p == ',')) p++;
    struct word w = { p, 0 };
    for (int depth = 0; p < end && (depth > 0 || (*p != ' ' && *p != ',')); p++)
        depth += (*p == '(' || *p == '[') - (*p == ')' || *p == ']');
    w.n = (size_t)(p - w.at);
    *at = p;
    return w;
}

/* Whether all of w is a number: decimal or 0x, with or without a sign. */
static bool number(struct word w, int64_t *out)
{
    char buffer[32], *end;
    if (w.n == 0 || w.n >= sizeof buffer) return false;
    memcpy(buffer, w.at, w.n);
    buffer[w.n] = 0;
    const char *digits = buffer + (*buffer == '-');
    if (*digits < '0' || *digits > '9') return false;
    const bool hex = digits[0] == '0' && digits[1] == 'x';
    const uint64_t value = strtoull(digits, &end, hex ? 16 : 10);
    *out = (int64_t)(*buffer == '-' ? 0 - value : value);
    return *end == 0;
}

/* "[1,0,3]" -> count; 0 if it is not a list of small numbers. */
static uint32_t number_list(struct word w, uint32_t *out, uint32_t most, uint32_t limit)
{
    if (w.n < 2 || w.at[0] != '[' || w.at[w.n - 1] != ']') return 0;
    const char *at = w.at + 1, *end = w.at + w.n - 1;
    uint32_t n = 0;
    for (struct word item; (item = next_word(&at, end)).n; n++) {
        int64_t value;
        if (n == most || !number(item, &value) || value < 0 || value > limit) return 0;
        out[n] = (uint32_t)value;
    }
    return n;
}

/* ---- operands ---- */

struct parse {
    struct inst       *i;
    const struct chip *chip;
    const char        *name;                     /* as in the op tables */
    bool               hex_is_int;               /* SMEM, SOPK, SOPP: hexadecimal numbers are not literals */
    bool               failed;
    struct operand     printed[MAX_PRINTED];
    uint32_t           n_printed;
    uint32_t           op_sel[4], n_op_sel;
};

/* Scalar registers with names (RDNA3 ISA 3.4.1, CDNA3 ISA 3.5.1). */
static const struct { const char *name; uint8_t reg, n; } scalars[] = {
    { "vcc", VCC, 2 }, { "vcc_lo", VCC, 1 }, { "vcc_hi", VCC + 1, 1 }, { "exec", EXEC, 2 }, { "exec_lo", EXEC, 1 },
    { "exec_hi", EXEC + 1, 1 }, { "m0", M0, 1 },
    { "flat_scratch", FLAT_SCRATCH, 2 }, { "flat_scratch_lo", FLAT_SCRATCH, 1 }, { "flat_scratch_hi", FLAT_SCRATCH + 1, 1 },
    { "xnack_mask", XNACK_MASK, 2 }, { "xnack_mask_lo", XNACK_MASK, 1 }, { "xnack_mask_hi", XNACK_MASK + 1, 1 },
};

/* The numbers in "7" or "[4:7]". */
static bool register_numbers(struct word w, uint32_t *first, uint32_t *n)
{
    int64_t a, b;
    if (!w.at || !w.n) return false;
    if (w.at[0] != '[') {
        if (!number(w, &a) || a < 0 || a >= 256) return false;
        *first = (uint32_t)a;
        *n = 1;
        return true;
    }
    const char *colon = memchr(w.at, ':', w.n);
    if (w.n < 3 || w.at[w.n - 1] != ']') return false;
    if (!colon) colon = w.at + w.n - 1;                          /* "[5]" */
    if (!number((struct word){ w.at + 1, (size_t)(colon - w.at - 1) }, &a)) return false;
    b = a;
    if (colon < w.at + w.n - 1 && !number((struct word){ colon + 1, (size_t)(w.at + w.n - 2 - colon) }, &b)) return false;
    if (a < 0 || b < a || b >= 256 || b - a >= 32) return false;
    *first = (uint32_t)a;
    *n = (uint32_t)(b - a + 1);
    return true;
}

static bool register_operand(struct parse *p, struct word w, struct operand *o)
{
    uint32_t first, n;
    for (size_t k = 0; k < COUNT_OF(scalars); k++)
        if (is(w, scalars[k].name)) {
            *o = (struct operand){ .kind = OPERAND_S, .reg = scalars[k].reg, .n = scalars[k].n };
            return true;
        }
    const struct word ttmp = after(w, "ttmp");
    if (ttmp.at) {
        if (!register_numbers(ttmp, &first, &n) || first + n > 16) return false;
        *o = (struct operand){ .kind = OPERAND_S, .reg = (uint16_t)(TTMP0 + first), .n = (uint8_t)n };
        return true;
    }
    const char file = *w.at;
    if (file != 'v' && file != 's' && file != 'a') return false;
    struct word rest = { w.at + 1, w.n - 1 };
    /* halves, as LLVM prints them since version 20: v5.l, v5.h; equivalent to op_sel */
    const bool high = ends(rest, ".h"), half = high || ends(rest, ".l");
    if (half) rest.n -= 2;
    if (!rest.n || !register_numbers(rest, &first, &n)) return false;
    if (file == 's' && (half || first + n > p->chip->isa->scalars)) return false;
    *o = (struct operand){ .kind = file == 's' ? OPERAND_S : OPERAND_V, .reg = (uint16_t)(first + (file == 'a' ? ACC : 0)),
                           .n = (uint8_t)n };
    o->number = high;                                            /* read by place_operands */
    return true;
}

/* "hwreg(HW_REG_MODE, 0, 4)": id | offset << 6 | (size - 1) << 11 (RDNA3 ISA 3.3; CDNA3 ISA 3.8; S_GETREG_B32) */
static bool hwreg_operand(struct parse *p, struct word args)
{
    static const struct { const char *name; uint8_t id, isas; } names[] = {        /* isas: 1 RDNA3, 2 CDNA3 */
        { "HW_REG_MODE", 1, 3 }, { "HW_REG_STATUS", 2, 3 }, { "HW_REG_TRAPSTS", 3, 3 }, { "HW_REG_HW_ID", 4, 2 },
        { "HW_REG_GPR_ALLOC", 5, 3 },
        { "HW_REG_LDS_ALLOC", 6, 3 }, { "HW_REG_IB_STS", 7, 3 }, { "HW_REG_SH_MEM_BASES", 15, 3 }, { "HW_REG_FLAT_SCR_LO", 20, 1 },
        { "HW_REG_FLAT_SCR_HI", 21, 1 }, { "HW_REG_XCC_ID", 20, 2 }, { "HW_REG_HW_ID1", 23, 1 }, { "HW_REG_HW_ID2", 24, 1 },
        { "HW_REG_SHADER_CYCLES", 29, 1 },
    };
    const char *at = args.at, *end = args.at + args.n;
    const struct word id_word = next_word(&at, end), offset_word = next_word(&at, end), size_word = next_word(&at, end);
    int64_t id = -1, offset = 0, size = 32;
    for (size_t k = 0; k < COUNT_OF(names); k++)
        if (is(id_word, names[k].name) && names[k].isas >> p->chip->isa->id & 1) id = names[k].id;
    if (id < 0 && !number(id_word, &id)) return false;
    if (offset_word.n && (!number(offset_word, &offset) || !number(size_word, &size))) return false;
    if (id > 63 || offset < 0 || offset > 31 || size < 1 || size > 32) return false;
    p->i->imm = id | offset << 6 | (size - 1) << 11;
    return true;
}

/* "sendmsg(MSG_DEALLOC_VGPRS)" (RDNA3 ISA 16.x S_SENDMSG; LLVM SIDefines.h); messages of graphics, with operations and streams, are
 * refused */
static bool sendmsg_operand(struct parse *p, struct word args)
{
    static const struct { const char *name; uint8_t id, isas; } names[] = {
        { "MSG_INTERRUPT", 1, 3 }, { "MSG_DEALLOC_VGPRS", 3, 1 }, { "MSG_SAVEWAVE", 4, 2 }, { "MSG_STALL_WAVE_GEN", 5, 3 },
        { "MSG_HALT_WAVES", 6, 3 },
        { "MSG_ORDERED_PS_DONE", 7, 2 }, { "MSG_GET_DOORBELL", 10, 2 }, { "MSG_RTN_GET_DOORBELL", 128, 1 }, { "MSG_RTN_GET_DDID", 129, 1 },
        { "MSG_RTN_GET_TMA", 130, 1 }, { "MSG_RTN_GET_REALTIME", 131, 1 },
    };
    for (size_t k = 0; k < COUNT_OF(names); k++)
        if (is(args, names[k].name) && names[k].isas >> p->chip->isa->id & 1) {
            p->i->imm = names[k].id;
            return true;
        }
    return number(args, &p->i->imm);
}

static struct word inside(struct word w, const char *open)
{
    struct word rest = after(w, open);
    if (rest.at && rest.n && rest.at[rest.n - 1] == ')') rest.n--;
    else rest.at = NULL;
    return rest;
}

static bool constant_operand(const struct parse *p, struct word w, struct operand *o)
{
    int64_t value;
    const bool hex = memmem(w.at, w.n, "0x", 2) != NULL;
    if (!hex && memchr(w.at, '.', w.n)) {
        char buffer[32], *end;
        if (w.n >= sizeof buffer) return false;
        memcpy(buffer, w.at, w.n);
        buffer[w.n] = 0;
        *o = (struct operand){ .kind = OPERAND_FLOAT, .n = 1, .real = strtod(buffer, &end) };
        return *end == 0;
    }
    if (!number(w, &value)) return false;
    const bool literal = hex && !p->hex_is_int;
    if (literal && (value < 0 || value > UINT32_MAX)) return false;
    *o = (struct operand){ .kind = literal ? OPERAND_LITERAL : OPERAND_INT, .n = 1, .number = value };
    return true;
}

static bool parse_operand(struct parse *p, struct word w, struct operand *o)
{
    bool neg = false, abs = false, sext = false;
    struct word rest;
    if ((rest = inside(w, "sext(")).at) sext = true, w = rest;
    if ((rest = inside(w, "neg(")).at) neg = true, w = rest;
    if (w.n > 1 && *w.at == '-' && (w.at[1] == '|' || (w.at[1] >= 'a' && w.at[1] <= 'z'))) neg = true, w.at++, w.n--;
    if (w.n > 2 && *w.at == '|' && w.at[w.n - 1] == '|') abs = true, w.at++, w.n -= 2;
    if (!w.at || !w.n) return false;
    bool good = true;
    if (is(w, "off")) *o = (struct operand){ .kind = OPERAND_OFF };
    else if (is(w, "null")) *o = (struct operand){ .kind = OPERAND_NULL, .reg = S_NULL, .n = 1 };
    else if (is(w, "src_scc") || is(w, "scc")) *o = (struct operand){ .kind = OPERAND_SCC, .n = 1 };
    else if ((rest = inside(w, "hwreg(")).at) *o = (struct operand){ .kind = OPERAND_OTHER }, good = hwreg_operand(p, rest);
    else if ((rest = inside(w, "sendmsg(")).at) *o = (struct operand){ .kind = OPERAND_OTHER }, good = sendmsg_operand(p, rest);
    else good = register_operand(p, w, o) || constant_operand(p, w, o);
    o->neg = neg;
    o->abs = abs;
    o->sext = sext;
    return good;
}

/* ---- modifiers ---- */

static bool sdwa_value(struct word w, uint8_t *out)
{
    static const char *const names[] = { "DWORD", "BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1" };      /* enum sdwa_sel */
    for (uint8_t k = 0; k < COUNT_OF(names); k++)
        if (is(w, names[k])) {
            *out = k;
            return true;
        }
    return false;
}

static bool sdwa_modifier(struct inst *i, struct word w, bool *good)
{
    static const char *const unused[] = { "UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE" };
    struct word v;
    if ((v = after(w, "dst_sel:")).at) *good = sdwa_value(v, &i->dst_sel);
    else if ((v = after(w, "src0_sel:")).at) *good = sdwa_value(v, &i->src_sel[0]);
    else if ((v = after(w, "src1_sel:")).at) *good = sdwa_value(v, &i->src_sel[1]);
    else if ((v = after(w, "dst_unused:")).at) {
        *good = false;
        for (uint8_t k = 0; k < COUNT_OF(unused); k++)
            if (is(v, unused[k])) i->dst_unused = k, *good = true;
    } else return false;
    return true;
}

static bool dpp_modifier(struct inst *i, struct word w, bool *good)
{
    static const struct { const char *prefix; uint8_t dpp, most; } numbered[] = {
        { "row_shl:", DPP_ROW_SHL, 15 }, { "row_shr:", DPP_ROW_SHR, 15 }, { "row_ror:", DPP_ROW_ROR, 15 }, { "wave_shl:", DPP_WAVE_SHL, 1 },
        { "wave_rol:", DPP_WAVE_ROL, 1 }, { "wave_shr:", DPP_WAVE_SHR, 1 }, { "wave_ror:", DPP_WAVE_ROR, 1 },
        { "row_bcast:", DPP_ROW_BCAST, 31 },
        { "row_share:", DPP_ROW_SHARE, 15 }, { "row_xmask:", DPP_ROW_XMASK, 15 }, { "row_newbcast:", DPP_ROW_NEWBCAST, 15 },
    };
    uint32_t list[8];
    int64_t value = 0;
    struct word v;
    for (size_t k = 0; k < COUNT_OF(numbered); k++)
        if ((v = after(w, numbered[k].prefix)).at) {
            *good = number(v, &value) && value >= 0 && value <= numbered[k].most;
            i->dpp = numbered[k].dpp;
            i->dpp_value = (uint8_t)value;
            i->flags |= FLAG_DPP;
            return true;
        }
    if (is(w, "row_mirror")) i->dpp = DPP_ROW_MIRROR;
    else if (is(w, "row_half_mirror")) i->dpp = DPP_ROW_HALF_MIRROR;
    else if ((v = after(w, "quad_perm:")).at) {
        *good = number_list(v, list, 4, 3) == 4;
        i->dpp = DPP_QUAD_PERM;
        for (uint32_t k = 0; *good && k < 4; k++) i->dpp_value |= (uint8_t)(list[k] << 2 * k);
    } else if ((v = after(w, "dpp8:")).at) {
        *good = number_list(v, list, 8, 7) == 8;
        i->flags = (i->flags & ~(uint32_t)FLAG_DPP) | FLAG_DPP8;
        for (uint32_t k = 0; *good && k < 8; k++) i->dpp8 |= list[k] << 3 * k;
    } else if ((v = after(w, "row_mask:")).at) *good = number(v, &value) && value >= 0 && value < 16, i->row_mask = (uint8_t)value;
    else if ((v = after(w, "bank_mask:")).at) *good = number(v, &value) && value >= 0 && value < 16, i->bank_mask = (uint8_t)value;
    else if (after(w, "bound_ctrl:").at) i->flags |= FLAG_BOUND_CTRL;           /* :1, in older LLVM :0; printed only if the bit is set */
    else if (is(w, "fi:1")) i->flags |= FLAG_FI;
    else return false;
    if (i->dpp != DPP_NONE) i->flags |= FLAG_DPP;                /* RDNA's v_cmpx is printed without _dpp */
    return true;
}

/* ds_swizzle_b32's patterns (RDNA3 ISA 12.x DS_SWIZZLE_B32, CDNA3 the same) as the number in the offset field. */
static bool swizzle(struct word args, int64_t *out)
{
    const char *at = args.at, *end = args.at + args.n;
    const struct word kind = next_word(&at, end);
    int64_t v[4] = { 0 };
    struct word w = next_word(&at, end);
    if (is(kind, "BITMASK_PERM")) {
        if (w.n != 7 || w.at[0] != '"' || w.at[6] != '"') return false;
        *out = 0;
        for (uint32_t k = 0; k < 5; k++) {                       /* the most significant bit first: and | or << 5 | xor << 10 */
            const char c = w.at[5 - k];
            if (!memchr("01pi", c, 4)) return false;
            *out |= (int64_t)(c == 'p' || c == 'i') << k | (int64_t)(c == '1') << (5 + k) | (int64_t)(c == 'i') << (10 + k);
        }
        return true;
    }
    uint32_t n = 0;
    for (; w.n && n < 4; w = next_word(&at, end), n++)
        if (!number(w, &v[n]) || v[n] < 0 || v[n] > 31) return false;
    if (w.n) return false;
    if (is(kind, "QUAD_PERM") && n == 4) *out = 0x8000 | v[0] | v[1] << 2 | v[2] << 4 | v[3] << 6;
    else if (is(kind, "SWAP") && n == 1) *out = 0x1f | v[0] << 10;
    else if (is(kind, "REVERSE") && n == 1 && v[0] >= 1) *out = 0x1f | (v[0] - 1) << 10;
    else if (is(kind, "BROADCAST") && n == 2 && v[0] >= 1) *out = (32 - v[0]) | v[1] << 5;
    else return false;
    return true;
}

static bool bits_modifier(struct word v, uint8_t *out)
{
    uint32_t list[4];
    const uint32_t n = number_list(v, list, 4, 1);
    *out = 0;
    for (uint32_t k = 0; k < n; k++) *out |= (uint8_t)(list[k] << k);
    return n > 0;
}

/* Returns true if w is a modifier. */
static bool parse_modifier(struct parse *p, struct word w)
{
    static const struct { const char *word; uint32_t flag; } flags[] = {
        { "clamp", FLAG_CLAMP }, { "sc0", FLAG_SC0 }, { "glc", FLAG_SC0 }, { "sc1", FLAG_SC1 }, { "nt", FLAG_NT }, { "slc", FLAG_NT },
        { "dlc", FLAG_DLC },
        { "offen", FLAG_OFFEN }, { "idxen", FLAG_IDXEN }, { "lds", FLAG_LDS }, { "gds", FLAG_GDS },
    };
    struct inst *i = p->i;
    bool good = true;
    int64_t value = 0;
    struct word v;
    for (size_t k = 0; k < COUNT_OF(flags); k++)
        if (is(w, flags[k].word)) {
            i->flags |= flags[k].flag;
            return true;
        }
    if ((v = after(w, "offset:")).at) {
        const struct word pattern = inside(v, "swizzle(");
        good = pattern.at ? swizzle(pattern, &value) : number(v, &value);
        i->offset = (int32_t)value;
    } else if ((v = after(w, "offset0:")).at) good = number(v, &value), i->offset = (int32_t)value;
    else if ((v = after(w, "offset1:")).at) good = number(v, &value), i->offset1 = (int32_t)value;
    else if ((v = after(w, "op_sel:")).at) good = (p->n_op_sel = number_list(v, p->op_sel, 4, 1)) > 0;
    else if ((v = after(w, "op_sel_hi:")).at) good = bits_modifier(v, &i->op_sel_hi);
    else if ((v = after(w, "neg_lo:")).at) good = bits_modifier(v, &i->neg_lo);
    else if ((v = after(w, "neg_hi:")).at) good = bits_modifier(v, &i->neg_hi);
    else if ((v = after(w, "neg:")).at) good = bits_modifier(v, &i->blgp);        /* MFMA f64: blgp negates (CDNA3 ISA 7.x) */
    else if ((v = after(w, "cbsz:")).at) good = number(v, &value), i->cbsz = (uint8_t)value;
    else if ((v = after(w, "abid:")).at) good = number(v, &value), i->abid = (uint8_t)value;
    else if ((v = after(w, "blgp:")).at) good = number(v, &value), i->blgp = (uint8_t)value;
    else if (is(w, "mul:2")) i->omod = 1;
    else if (is(w, "mul:4")) i->omod = 2;
    else if (is(w, "div:2")) i->omod = 3;
    else if (!sdwa_modifier(i, w, &good) && !dpp_modifier(i, w, &good)) return false;
    if (!good || value < INT32_MIN || value > INT32_MAX) p->failed = true;
    return true;
}

/* ---- constants ---- */

/* real: one of the inline constants 0.5, 1, 2, 4, their negatives, 1/(2 pi).  (RDNA3 ISA 3.4.1, CDNA3 ISA 3.5.1) */
static uint64_t float_bits(double real, enum type type)
{
    const double magnitude = real < 0 ? -real : real;
    const bool   turn = magnitude > 0.159 && magnitude < 0.16;  /* printed with more or fewer digits, depending on the width */
    const float  single = (float)real;
    uint32_t     f32;
    uint64_t     f64;
    memcpy(&f32, &single, sizeof f32);
    memcpy(&f64, &real, sizeof f64);
    if (turn) f32 = 0x3e22f983, f64 = 0x3fc45f306dc9c882;
    const uint64_t sign = f32 >> 31, exponent = (f32 >> 23 & 255) - 127 + 15;
    switch (type) {
    case T_F64: case T_B64: case T_I64: case T_U64: case T_MASK:  /* clang moves doubles by v_mov_b64, and by v_lshl_add_u64 with shift 0 */
        return f64;
    case T_BF16: return f32 >> 16;
    case T_B16: case T_I16: case T_U16: case T_F16:
    case T_PKF16:                                                /* the low half only; op_sel_hi 0 gives it to both */
        return turn ? 0x3118 : sign << 15 | exponent << 10;
    default: return f32;                                         /* packed integers too (LLVM, getInlineEncodingV216) */
    }
}

static uint64_t constant_bits(const struct operand *o, enum type type)
{
    const uint64_t number = (uint64_t)o->number;
    if (o->kind == OPERAND_FLOAT) return float_bits(o->real, type);
    switch (type) {
    case T_B16: case T_I16: case T_U16: case T_F16: case T_BF16: return number & 0xffff;
    case T_F64: return o->kind == OPERAND_LITERAL ? number << 32 : number;
    case T_I64: return o->kind == OPERAND_LITERAL ? (uint64_t)(int64_t)(int32_t)number : number;
    case T_B64: case T_U64: case T_MASK: case T_PKF32: return number;
    default: return number & UINT32_MAX;
    }
}

static bool is_constant(const struct operand *o)
{
    return o->kind == OPERAND_INT || o->kind == OPERAND_FLOAT || o->kind == OPERAND_LITERAL;
}

/* v_fma_mix*: op_sel_hi says for each source, constants included, whether it is f16 (RDNA3 ISA 7.x, V_FMA_MIX_F32). */
static bool is_mix(const char *name)
{
    return begins(name, "v_fma_mix") || begins(name, "v_mad_mix");
}

/* ---- registers that an instruction reads and writes ---- */

static void add_range(struct range *ranges, uint32_t most, uint32_t first, uint32_t n)
{
    for (uint32_t k = 0; k < most; k++)
        if (!ranges[k].n) {
            ranges[k] = (struct range){ (uint16_t)first, (uint8_t)n };
            return;
        }
}

static void add_operand(struct inst *i, const struct operand *o, bool written)
{
    if (o->kind == OPERAND_V && written) add_range(i->v_writes, COUNT_OF(i->v_writes), o->reg, o->n);
    if (o->kind == OPERAND_V && !written) add_range(i->v_reads, MAX_RANGES, o->reg, o->n);
    if (o->kind == OPERAND_S && written) add_range(i->s_writes, COUNT_OF(i->s_writes), o->reg, o->n);
    if (o->kind == OPERAND_S && !written) add_range(i->s_reads, MAX_RANGES, o->reg, o->n);
    if (o->kind == OPERAND_SCC && !written) i->reads_scc = true;
}

static bool in_list(const char *name, const char *const *prefixes)
{
    for (; *prefixes; prefixes++)
        if (begins(name, *prefixes)) return true;
    return false;
}

/* SCC by name (RDNA3 ISA 16.1 to 16.5, CDNA3 ISA 12.1 to 12.5).  Float instructions of RDNA3.5's scalar ALU do not change it, except
 * comparisons. */
static void find_scc(struct inst *i, const char *name)
{
    static const char *const readers[] = { "s_addc_", "s_subb_", "s_cselect_", "s_cmov", "s_cbranch_scc", NULL };
    static const char *const writers[] = { "s_add_", "s_addc_", "s_addk_", "s_sub_", "s_subb_", "s_min_", "s_max_", "s_and_", "s_or_",
                                           "s_xor_", "s_andn1_", "s_andn2_", "s_orn1_", "s_orn2_", "s_nand_", "s_nor_", "s_xnor_",
                                           "s_lshl_", "s_lshr_", "s_ashr_", "s_bfe_", "s_absdiff_", "s_lshl1_add_", "s_lshl2_add_",
                                           "s_lshl3_add_", "s_lshl4_add_", "s_not_", "s_wqm_", "s_bcnt0_", "s_bcnt1_", "s_abs_",
                                           "s_quadmask_", "s_cmp_", "s_cmpk_", "s_bitcmp", NULL };
    const struct word whole = { name, strlen(name) };
    const bool real = ends(whole, "_f32") || ends(whole, "_f16");
    i->reads_scc |= in_list(name, readers);
    i->writes_scc |= in_list(name, writers) && (!real || begins(name, "s_cmp_"));
}

static void find_implied(struct parse *p)
{
    struct inst    *i = p->i;
    const char     *name = p->name, *implicit = i->op->implicit ? i->op->implicit : "";
    const uint32_t  mask = p->chip->wave / 32;                   /* registers of a lane mask */
    const bool      execs = strstr(name, "saveexec") || strstr(name, "_wrexec_");
    if (strstr(implicit, "vcc") || begins(name, "s_cbranch_vcc")) add_range(i->s_reads, MAX_RANGES, VCC, mask);
    if (strstr(implicit, "exec") || begins(name, "s_cbranch_exec") || execs) add_range(i->s_reads, MAX_RANGES, EXEC, mask);
    if (strstr(implicit, "m0") || (i->flags & FLAG_LDS)) add_range(i->s_reads, MAX_RANGES, M0, 1);
    if (begins(name, "v_swap_") && i->n_dst && i->n_src) {       /* both operands are source and destination */
        add_operand(i, &i->src[0], true);
        add_operand(i, &i->dst[0], false);
    }
    if (execs || begins(name, "v_cmpx_")) add_range(i->s_writes, COUNT_OF(i->s_writes), EXEC, mask);
    if (i->op != &unknown_info) find_scc(i, name);
}

static void find_ranges(struct parse *p)
{
    struct inst *i = p->i;
    for (uint32_t k = 0; k < i->n_src; k++) add_operand(i, &i->src[k], false);
    for (uint32_t k = 0; k < i->n_dst; k++) add_operand(i, &i->dst[k], true);
    /* SDWA leaves the rest of the destination unchanged */
    const bool kept = (i->flags & FLAG_SDWA) && i->dst_unused == 2 && i->dst_sel != SEL_DWORD;
    if (i->n_dst && ((i->op->traits & TRAIT_READS_DST) || kept)) add_operand(i, &i->dst[0], false);
    find_implied(p);
}

/* ---- shapes ---- */

static uint32_t destinations(const struct parse *p)
{
    const uint32_t traits = p->i->op->traits;
    const bool     to_exec = p->chip->isa->cmpx_to_exec && begins(p->name, "v_cmpx_");
    const bool     to_lds = begins(p->name, "buffer_load_") && (p->i->flags & FLAG_LDS);
    if ((traits & TRAIT_NO_DST) || to_exec || to_lds || p->n_printed == 0) return 0;
    if (traits & TRAIT_DST_IF_SC0) return p->i->flags & FLAG_SC0 ? 1 : 0;
    return traits & TRAIT_TWO_DST ? 2 : 1;
}

/* Assigns printed operands to dst and src, their types, and halves to op_sel. */
static void place_operands(struct parse *p)
{
    struct inst *i = p->i;
    const uint32_t n_dst = destinations(p);
    if (p->n_printed < n_dst || p->n_printed - n_dst > COUNT_OF(i->src)) {
        p->failed = true;
        return;
    }
    i->n_dst = (uint8_t)n_dst;
    i->n_src = (uint8_t)(p->n_printed - n_dst);
    for (uint32_t k = 0; k < n_dst; k++) {
        i->dst[k] = p->printed[k];
        i->dst[k].type = k ? T_MASK : i->op->dst;
        if (i->dst[k].kind == OPERAND_V && i->dst[k].number) i->op_sel |= 8, i->dst[k].number = 0;
        if (is_constant(&i->dst[k]) || i->dst[k].kind == OPERAND_OFF) p->failed = true;
    }
    for (uint32_t k = 0; k < i->n_src; k++) {
        struct operand *o = &i->src[k];
        *o = p->printed[n_dst + k];
        if (o->kind == OPERAND_V && o->number) i->op_sel |= (uint8_t)(1 << k), o->number = 0;
    }
    /* VOPD's text has no room for the mask (RDNA3 ISA 7.6, V_DUAL_CNDMASK_B32) */
    if (!strcmp(p->name, "v_cndmask_b32") && i->n_src == 2)
        i->src[i->n_src++] = (struct operand){ .kind = OPERAND_S, .reg = VCC, .n = (uint8_t)(p->chip->wave / 32) };
    /* in VOP3's 16-bit instructions op_sel's last bit is the destination's; VOP3P's list has one bit per source */
    const bool dst_bit = p->n_op_sel == i->n_src + 1u;
    for (uint32_t k = 0; k < p->n_op_sel; k++) i->op_sel |= (uint8_t)(p->op_sel[k] << (dst_bit && k == i->n_src ? 3u : k));
}

static void place_constants(struct parse *p)
{
    struct inst *i = p->i;
    for (uint32_t k = 0; k < i->n_src; k++) {
        struct operand *o = &i->src[k];
        o->type = k < COUNT_OF(i->op->src) ? i->op->src[k] : (uint8_t)T_B32;
        const enum type seen = !is_mix(p->name) ? (enum type)o->type : i->op_sel_hi >> k & 1 ? T_F16 : T_F32;
        if (is_constant(o)) o->bits = constant_bits(o, seen);
    }
}

/* "v_dual_add_f32" -> "v_add_f32", "v_mov_b32_e64_dpp" -> "v_mov_b32" and flags. */
static void table_name(struct inst *i, struct word w, char *out, size_t out_bytes)
{
    static const struct { const char *suffix; uint32_t flags; } suffixes[] = {
        { "_e64_dpp8", FLAG_E64 | FLAG_DPP8 }, { "_e64_dpp", FLAG_E64 | FLAG_DPP }, { "_dpp8", FLAG_DPP8 }, { "_dpp", FLAG_DPP },
        { "_sdwa", FLAG_SDWA },
        { "_e64", FLAG_E64 }, { "_e32", 0 },
    };
    const struct word dual = after(w, "v_dual_");
    for (size_t k = 0; *w.at == 'v' && k < COUNT_OF(suffixes); k++)
        if (ends(w, suffixes[k].suffix)) {
            w.n -= strlen(suffixes[k].suffix);
            i->flags |= suffixes[k].flags;
            break;
        }
    if (dual.at) snprintf(out, out_bytes, "v_%.*s", (int)dual.n, dual.at);
    else snprintf(out, out_bytes, "%.*s", (int)w.n, w.at);
}

/* ---- immediates and waits ---- */

/* SOPK and SOPP: the number is the instruction's own field.  1: sign-extended, 2: unsigned; 0: no such instruction. */
static uint32_t immediate_kind(const char *name)
{
    static const char *const as_signed[] = { "s_movk_", "s_cmovk_", "s_cmpk_", "s_addk_", "s_mulk_", "s_branch", "s_cbranch_", "s_call_",
                                             NULL };
    static const char *const plain[] = { "s_nop", "s_sleep", "s_setprio", "s_clause", "s_set_inst_prefetch_distance", "s_inst_prefetch",
                                         "s_sethalt", "s_setkill", "s_trap", "s_sendmsg", "s_waitcnt", "s_round_mode", "s_denorm_mode",
                                         "s_version", "s_incperflevel", "s_decperflevel", "s_ttracedata", "s_code_end", "s_endpgm",
                                         "s_wait_event", "s_delay_alu", NULL };
    if (begins(name, "s_cmpk_") && ends((struct word){ name, strlen(name) }, "_u32")) return 2;
    return in_list(name, as_signed) ? 1 : in_list(name, plain) ? 2 : 0;
}

static bool is_scalar_memory(const char *name)
{
    static const char *const prefixes[] = { "s_load_", "s_buffer_load_", "s_store_", "s_buffer_store_", "s_scratch_", "s_atomic_",
                                            "s_buffer_atomic_", "s_dcache_", NULL };
    return in_list(name, prefixes);
}

static void place_immediate(struct parse *p)
{
    struct inst *i = p->i;
    const uint32_t kind = immediate_kind(p->name);
    for (uint32_t k = 0; kind && k < i->n_src; k++) {
        struct operand *o = &i->src[k];
        if (o->kind != OPERAND_INT) continue;
        if (kind == 1) o->number = (int16_t)o->number;
        i->imm = o->number;
    }
}

static const struct waits nothing_waited = { { NOT_WAITED, NOT_WAITED, NOT_WAITED, NOT_WAITED } };

/* S_WAITCNT's field as a number. */
static struct waits waits_of(uint32_t field, const struct isa *isa)
{
    struct waits waits = nothing_waited;
    for (const struct wait_field *f = isa->waits; f < isa->waits + COUNT_OF(isa->waits) && f->bits; f++) {
        uint8_t *of = &waits.of[f->counter];
        if (f->at == 0) *of = 0;
        *of |= (uint8_t)((field >> f->shift & ((1u << f->bits) - 1)) << f->at);
    }
    return waits;
}

/* The counter of "vmcnt..."; N_WAITS: the word is not a counter. */
static enum wait_counter counter_of(struct word w)
{
    enum wait_counter counter = 0;
    while (counter < N_WAITS && !after(w, wait_name[counter]).at) counter++;
    return counter;
}

/* "vmcnt(1) lgkmcnt(0)", or the field. */
static void parse_waitcnt(struct parse *p, const char *at, const char *end)
{
    struct waits *waits = &p->i->waits;
    for (struct word w; (w = next_word(&at, end)).n; ) {
        const enum wait_counter counter = counter_of(w);
        int64_t value;
        if (counter < N_WAITS) {
            const struct word v = inside(after(w, wait_name[counter]), "(");
            if (v.at && number(v, &value) && value >= 0 && value < NOT_WAITED) waits->of[counter] = (uint8_t)value;
            else p->failed = true;
        } else if (number(w, &value)) *waits = waits_of((uint32_t)value, p->chip->isa);
        else p->failed = true;
    }
}

/* "s_waitcnt_vscnt null, 0x0" (RDNA3 ISA 16.2): the count is a register plus the field; only null is supported. */
static void place_wait(struct parse *p)
{
    struct inst *i = p->i;
    const struct word name = { p->name, strlen(p->name) }, counter_name = after(name, "s_waitcnt_");
    const enum wait_counter counter = counter_name.at ? counter_of(counter_name) : N_WAITS;
    if (counter == N_WAITS) return;
    const bool good = p->n_printed == 2 && p->printed[0].kind == OPERAND_NULL && p->printed[1].kind == OPERAND_INT &&
        p->printed[1].number >= 0;
    if (good) i->waits.of[counter] = (uint8_t)(p->printed[1].number < NOT_WAITED ? p->printed[1].number : NOT_WAITED);
    else p->failed = true;
}

/* ---- one instruction ---- */

static void parse_words(struct parse *p, const char *at, const char *end)
{
    for (struct word w; !p->failed && (w = next_word(&at, end)).n; ) {
        if (parse_modifier(p, w)) continue;
        if (p->n_printed == MAX_PRINTED || !parse_operand(p, w, &p->printed[p->n_printed])) p->failed = true;
        else p->n_printed++;
    }
}

static void decode_one(struct inst *out, const char *at, const char *end, const char *text, uint32_t pc, const struct chip *chip)
{
    char name[48];
    *out = (struct inst){ .op = &unknown_info, .pc = pc, .target = UINT32_MAX, .row_mask = 15, .bank_mask = 15, .text = text,
                          .waits = nothing_waited };
    const struct word first = next_word(&at, end);
    if (!first.n || first.n >= sizeof name) {
        out->run = unknown_op;
        return;
    }
    table_name(out, first, name, sizeof name);
    const struct op_info *op = op_find(name);
    if (op) out->op = op;
    out->kind = (uint8_t)inst_kind(name);
    if (out->op->traits & TRAIT_PACKED) out->op_sel_hi = 7;
    struct parse p = { .i = out, .chip = chip, .name = name, .hex_is_int = immediate_kind(name) || is_scalar_memory(name), .failed = !op };
    if (!strcmp(name, "s_waitcnt")) parse_waitcnt(&p, at, end);
    /* s_delay_alu: hints about hazards that this machine does not have; s_waitcnt_depctr waits for reads of operands, not for loads (RDNA3
     * ISA 16.5) */
    else if (strcmp(name, "s_delay_alu") && strcmp(name, "s_waitcnt_depctr")) parse_words(&p, at, end);
    if (!p.failed) place_operands(&p);
    if (!p.failed) {
        place_immediate(&p);
        place_constants(&p);
        place_wait(&p);
        find_ranges(&p);
    }
    const char *cmp = begins(name, "v_cmp") ? name : NULL;
    out->run = p.failed ? unknown_op : out->op->run ? out->op->run : !out->op->lanes ? unknown_op : cmp ? run_cmp : run_valu;
}

void decode_inst(struct inst *out, struct inst *second, const char *text, uint32_t pc, const struct chip *chip)
{
    const char *end = text + strlen(text), *split = strstr(text, " :: ");
    decode_one(out, text, split ? split : end, text, pc, chip);
    if (!split) return;
    if (!second) {
        out->run = unknown_op;
        return;
    }
    decode_one(second, split + 4, end, text, pc, chip);
    out->other = second;
    if (second->run == unknown_op) out->run = unknown_op;
}

/* ---- a module ---- */

struct texts { char *data; size_t size, capacity; uint32_t n, n_dual; };

/* Reads all texts, each with its NUL, and inst_at. */
static bool read_texts(struct module *m, struct texts *t, void *disasm)
{
    const uint8_t *code = m->image + m->code_offset;
    for (uint32_t pc = 0; pc < m->code_bytes; ) {
        if (t->capacity - t->size < 512) {
            t->capacity = 2 * t->capacity + 65536;
            char *grown = realloc(t->data, t->capacity);
            if (!grown) {
                fprintf(stderr, "gfxsim: out of memory for a code object of %u bytes\n", m->code_bytes);
                return false;
            }
            t->data = grown;
        }
        char *text = t->data + t->size;
        const size_t length = disasm_inst(disasm, code + pc, m->code_bytes - pc, pc, text, 512);
        if (length == 0 || length % 4) {
            fprintf(stderr, "gfxsim: no instruction of %s begins at offset 0x%x of the code\n", m->chip->name, pc);
            return false;
        }
        m->inst_at[pc / 4] = t->n++;
        for (size_t k = 1; k < length / 4; k++) m->inst_at[pc / 4 + k] = UINT32_MAX;
        t->n_dual += strstr(text, " :: ") != NULL;
        t->size += strlen(text) + 1;
        pc += (uint32_t)length;
    }
    return true;
}

static void find_target(const struct module *m, struct inst *i, const char *text)
{
    if (!begins(text, "s_branch") && !begins(text, "s_cbranch_") && !begins(text, "s_call_")) return;
    const int64_t at = (int64_t)i->pc + 4 + 4 * i->imm;          /* S_BRANCH (RDNA3 ISA 16.5): words after the next instruction */
    if (at >= 0 && at < m->code_bytes) i->target = m->inst_at[at / 4];
}

/* ---- loops ---- */

static bool falls_through(const struct inst *i) { return strcmp(i->op->name, "s_branch") != 0 && strcmp(i->op->name, "s_endpgm") != 0; }

/* Data of mark_loop(): branches by their targets; and for each instruction the last branch from whose target it was reached, and the last
 * branch that it reached. */
struct loop_marks { uint32_t *from, *next, *found, *after, *before; };

static void reach(uint32_t k, uint32_t *seen, uint32_t branch, uint32_t *found, uint32_t *n)
{
    if (seen[k] == branch) return;
    seen[k] = branch;
    found[(*n)++] = k;
}

/* Every cycle has a backward branch; an instruction is on a cycle with it if it is reached from the branch's target and reaches the
 * branch. */
static void mark_loop(struct module *m, uint32_t branch, const struct loop_marks *l)
{
    uint32_t n = 0;
    reach(m->inst[branch].target, l->after, branch, l->found, &n);
    for (uint32_t done = 0; done < n; done++) {
        const struct inst *i = &m->inst[l->found[done]];
        if (i->target != UINT32_MAX) reach(i->target, l->after, branch, l->found, &n);
        if (falls_through(i) && l->found[done] + 1 < m->n_inst) reach(l->found[done] + 1, l->after, branch, l->found, &n);
    }
    if (l->after[branch] != branch) return;      /* it returns from a block that clang placed at the end */
    n = 0;
    reach(branch, l->before, branch, l->found, &n);
    for (uint32_t done = 0; done < n; done++) {
        const uint32_t k = l->found[done];
        m->inst[k].in_loop |= l->after[k] == branch;
        if (k > 0 && falls_through(&m->inst[k - 1])) reach(k - 1, l->before, branch, l->found, &n);
        for (uint32_t source = l->from[k]; source != UINT32_MAX; source = l->next[source]) reach(source, l->before, branch, l->found, &n);
    }
}

static bool mark_loops(struct module *m)
{
    const size_t n = m->n_inst;
    uint32_t *all = malloc((5 * n + 1) * sizeof *all);
    const struct loop_marks l = { all, all + n, all + 2 * n, all + 3 * n, all + 4 * n };
    if (!all) return false;
    memset(all, 0xff, 5 * n * sizeof *all);
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t target = m->inst[k].target;
        if (target == UINT32_MAX) continue;
        l.next[k] = l.from[target];
        l.from[target] = k;
    }
    for (uint32_t k = 0; k < n; k++)
        if (m->inst[k].target <= k) mark_loop(m, k, &l);
    free(all);
    return true;
}

/* m->inst[0] and the texts are the starts of two blocks; module_free releases them by m->inst and m->inst[0].text. */
bool module_decode(struct module *m)
{
    struct texts t = { .data = NULL };
    const char *why;
    void *disasm = disasm_open(m->chip->name, &why);
    if (!disasm) {
        fprintf(stderr, "gfxsim: %s: %s\n", m->chip->name, why);
        return false;
    }
    bool good = m->code_bytes > 0;
    if (!good) fprintf(stderr, "gfxsim: the code object has no code\n");
    m->inst_at = malloc((m->code_bytes / 4 + 1) * sizeof *m->inst_at);
    good = good && m->inst_at && read_texts(m, &t, disasm);
    disasm_close(disasm);
    if (good) m->inst = calloc((size_t)t.n + t.n_dual, sizeof *m->inst);          /* second halves follow the others */
    if (!good || !m->inst) {
        free(t.data);
        return false;
    }
    m->n_inst = t.n;
    struct inst *second = m->inst + t.n;
    const char  *text = t.data;
    for (uint32_t pc = 0; pc < m->code_bytes / 4; pc++) {
        if (m->inst_at[pc] == UINT32_MAX) continue;
        struct inst *i = &m->inst[m->inst_at[pc]];
        decode_inst(i, second, text, 4 * pc, m->chip);
        if (strstr(text, " :: ")) second++;
        find_target(m, i, text);
        text += strlen(text) + 1;
    }
    return mark_loops(m);
}
