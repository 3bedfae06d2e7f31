/* issues.c -- see issues.h. A loop is a backward branch and the code between it and its target. Code that a forward branch skips is
 * executed sometimes. forgec's kernels have no other control flow. */
#include "issues.h"
#include "compiler/base/disasm.h"
#include <elf.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- where the code of a kernel is ---- */

static bool read_at(struct bytes whole, uint64_t offset, void *out, size_t size)
{
    if (offset > whole.size || size > whole.size - offset) return false;
    memcpy(out, whole.data + offset, size);
    return true;
}

static bool section_at(struct bytes object, const Elf64_Ehdr *e, uint64_t index, Elf64_Shdr *out)
{
    return index < e->e_shnum && read_at(object, e->e_shoff + index * sizeof *out, out, sizeof *out);
}

/* The code of the function with that name in a symbol table; size 0: it is absent. */
static struct bytes code_in(struct bytes object, const Elf64_Ehdr *e, const Elf64_Shdr *symbols, const char *name)
{
    Elf64_Shdr names, text;
    const size_t length = strlen(name) + 1;
    if (!section_at(object, e, symbols->sh_link, &names)) return (struct bytes){ 0 };
    for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= symbols->sh_size; at += sizeof(Elf64_Sym)) {
        Elf64_Sym s;
        if (!read_at(object, symbols->sh_offset + at, &s, sizeof s)) break;
        const uint64_t name_at = names.sh_offset + s.st_name;
        if (ELF64_ST_TYPE(s.st_info) != STT_FUNC || name_at > object.size || length > object.size - name_at) continue;
        if (memcmp(object.data + name_at, name, length) != 0 || !section_at(object, e, s.st_shndx, &text)) continue;
        const uint64_t offset = text.sh_offset + (s.st_value - text.sh_addr);
        if (offset > object.size || s.st_size > object.size - offset) break;
        return (struct bytes){ object.data + offset, s.st_size };
    }
    return (struct bytes){ 0 };
}

static struct bytes code_of(struct bytes object, const char *name)
{
    Elf64_Ehdr e;
    Elf64_Shdr s;
    if (!read_at(object, 0, &e, sizeof e) || e.e_shentsize != sizeof s) return (struct bytes){ 0 };
    for (uint64_t i = 0; section_at(object, &e, i, &s); i++) {
        if (s.sh_type != SHT_DYNSYM && s.sh_type != SHT_SYMTAB) continue;
        const struct bytes code = code_in(object, &e, &s, name);
        if (code.size) return code;
    }
    return (struct bytes){ 0 };
}

/* ---- instructions ---- */

struct instruction {
    uint32_t pc, target;            /* target: of a branch, else UINT32_MAX */
    bool     loads, reads_lds, in_loop;
    double   issues, slow;
};
struct listing { struct arena *arena; struct instruction *list; uint32_t n, capacity; };

static bool begins(const char *s, const char *with) { return strncmp(s, with, strlen(with)) == 0; }

static bool is_one(const char *s, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++) if (begins(s, names[i])) return true;
    return false;
}

/* Sets the issue slots of an instruction, for transcendentals in their own unit if they have one; compiler/cli/least_times.c counts in the
 * same way. */
static void weigh(const struct target *p, const char *text, struct instruction *i)
{
    static const char *const transcendental[] = { "v_exp_", "v_log_", "v_rcp_", "v_rsq_", "v_sqrt_", "v_sin_", "v_cos_" };
    static const char *const multiply[] = { "v_mul_lo_u32", "v_mul_lo_i32", "v_mul_hi_u32", "v_mul_hi_i32", "v_mad_u64_u32",
                                            "v_mad_i64_i32" };
    if (!begins(text, "v_") || begins(text, "v_nop") || begins(text, "v_mfma") || begins(text, "v_wmma")) return;
    const char *end = strchr(text, ' ');
    const size_t length = end ? (size_t)(end - text) : strlen(text);
    const bool f64 = memmem(text, length, "_f64", 4);
    if (is_one(text, transcendental, COUNT_OF(transcendental)) && !f64) {
        i->slow = p->rates.transcendental;
        i->issues = p->rates.transcendental_apart ? 1 : p->rates.transcendental;
    }
    else i->issues = f64 ? p->rates.f64 : is_one(text, multiply, COUNT_OF(multiply)) ? p->rates.multiply : 1;
}

/* The target of a branch; the operand is in words from the next instruction, 16 bits, signed (S_BRANCH, RDNA3 ISA 16.5). */
static uint32_t target_of(const char *text, uint32_t pc)
{
    const char *operand = begins(text, "s_branch ") || begins(text, "s_cbranch_") ? strchr(text, ' ') : NULL;
    if (!operand) return UINT32_MAX;
    return pc + 4 + 4u * (uint32_t)(int16_t)(uint16_t)strtol(operand, NULL, 0);
}

static bool list_code(struct listing *l, const struct target *p, void *disasm, struct bytes code)
{
    for (uint32_t pc = 0; pc < code.size;) {
        char text[512];
        const size_t length = disasm_inst(disasm, code.data + pc, code.size - pc, pc, text, sizeof text);
        if (!length) return false;
        arena_room(l->arena, l->list, l->n, l->capacity);
        struct instruction *i = &l->list[l->n++];
        *i = (struct instruction){ .pc = pc, .target = target_of(text, pc) };
        i->loads = begins(text, "global_load") || begins(text, "buffer_load");
        i->reads_lds = begins(text, "ds_load") || begins(text, "ds_read");
        weigh(p, text, i);
        pc += (uint32_t)length;
    }
    return true;
}

/* ---- loops ---- */

static bool is_back(const struct instruction *i) { return i->target <= i->pc; }

/* The first instruction of the loop that ends with the branch at list[end], if it is an innermost loop that multiplies weights; else
 * UINT32_MAX. */
static uint32_t loop_of(const struct listing *l, uint32_t end)
{
    bool loads = false, reads_lds = false;
    for (uint32_t i = end; l->list[i].pc >= l->list[end].target; i--) {
        const struct instruction *one = &l->list[i];
        if (i < end && is_back(one)) return UINT32_MAX;
        loads |= one->loads;
        reads_lds |= one->reads_lds;
        if (one->pc == l->list[end].target) return loads && reads_lds ? i : UINT32_MAX;
        if (i == 0) break;
    }
    return UINT32_MAX;
}

/* True if the code between the branch at list[i] and its later target works on weights. */
static bool leaves_weights_out(const struct listing *l, uint32_t i)
{
    const uint32_t target = l->list[i].target;
    for (uint32_t j = i + 1; j < l->n && l->list[j].pc < target; j++) if (l->list[j].loads || l->list[j].reads_lds) return true;
    return false;
}

/* Issue slots of list[first .. end), either inside loops or outside. A loop's work on weights counts as always executed. */
static struct turn_issues sum_of(const struct target *p, const struct listing *l, uint32_t first, uint32_t end, bool in_loop)
{
    struct turn_issues sum = { 0 };
    double slow = 0;
    uint32_t until = 0;
    for (uint32_t i = first; i < end; i++) {
        const struct instruction *one = &l->list[i];
        if (one->in_loop != in_loop) continue;
        if (one->pc < until) sum.sometimes += one->issues;
        else { sum.always += one->issues; slow += one->slow; }
        const bool forwards = one->target != UINT32_MAX && one->target > one->pc;
        if (forwards && one->target > until && !(in_loop && leaves_weights_out(l, i))) until = one->target;
    }
    if (p->rates.transcendental_apart) sum.always = fmax(sum.always, slow);
    return sum;
}

static void find_loops(struct arena *a, const struct target *p, struct listing *l, struct kernel_issues *k)
{
    uint32_t capacity = 0;
    for (uint32_t i = 0; i < l->n; i++) {
        const uint32_t first = is_back(&l->list[i]) ? loop_of(l, i) : UINT32_MAX;
        if (first == UINT32_MAX) continue;
        for (uint32_t j = first; j <= i; j++) l->list[j].in_loop = true;
        arena_room(a, k->loops, k->n_loops, capacity);
        k->loops[k->n_loops++] = sum_of(p, l, first, i + 1, true);
    }
    k->outside = sum_of(p, l, 0, l->n, false).always;
}

bool issues_count(struct arena *a, const struct target *p, struct bytes object, struct kernel_resources *r, size_t n, const char **why)
{
    *why = "only AMD machine code has it";
    if (strcmp(p->api, "hip")) return false;
    const char *missing = target_missing_rate(p);
    if (missing) *why = arena_printf(a, "the target has no %s", missing);
    if (missing) return false;
    void *disasm = disasm_open(p->arch, why);
    if (!disasm) return false;
    for (size_t i = 0; i < n; i++) {
        struct listing l = { .arena = a };
        const struct bytes code = code_of(object, r[i].name);
        if (code.size && list_code(&l, p, disasm, code)) find_loops(a, p, &l, &r[i].issues);
    }
    disasm_close(disasm);
    return true;
}
