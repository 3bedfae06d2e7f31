/* loader.c -- an AMDGPU code object, as clang and lld write it, to a struct module: segments, relocations, kernel descriptors, metadata.
 * Sources: LLVM "User Guide for AMDGPU Backend", ELF Code Object, Code Object Metadata V3 to V5, Kernel Descriptor; System V ABI (gABI)
 * chapters 4 and 5.  Every offset is checked: a malformed file gives a message and NULL. */
#include "gfxsim.h"
#include "compiler/base/msgpack.h"
#include <elf.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

const char *const wait_name[N_WAITS] = { [WAIT_VM] = "vmcnt", [WAIT_LGKM] = "lgkmcnt", [WAIT_VS] = "vscnt", [WAIT_EXP] = "expcnt" };

/* Buffer resources: RDNA3 ISA table 43, CDNA3 ISA table 38.  s_waitcnt: RDNA3 ISA 16.5, CDNA3 ISA 4.4. */
static const struct isa rdna3 = {
    .id = ISA_RDNA3, .wave32 = true, .pairs = true, .keeps_half = true, .cmpx_to_exec = true, .returns_registers = true, .stores = WAIT_VS,
    .scalars = VCC, .raw_mask = 0xf0800000u, .raw = 0x30000000u,
    .waits = { { WAIT_EXP, 0, 3, 0 }, { WAIT_LGKM, 4, 6, 0 }, { WAIT_VM, 10, 6, 0 } },
};
static const struct isa cdna3 = {
    .id = ISA_CDNA3, .accumulators = true, .xnack = true, .scopes = true, .one_invalidate = true, .stores = WAIT_VM,
    .scalars = FLAT_SCRATCH, .raw_mask = 0xc0800000u, .raw = 0,
    .waits = { { WAIT_VM, 0, 4, 0 }, { WAIT_EXP, 4, 3, 0 }, { WAIT_LGKM, 8, 4, 0 }, { WAIT_VM, 14, 2, 4 } },
};

/* Each number has its source in targets/gfx1100.yaml, gfx1151.yaml, gfx11.yaml, gfx942.yaml; elf_machine: AMDGPUUsage, "AMDGPU e_flags,
 * EF_AMDGPU_MACH values".  Registers and granule are those of allocation. */
const struct chip chips[] = {
    { .name = "gfx1100", .isa = &rdna3, .elf_machine = 0x41, .wave = 32, .compute_units = 96, .simds = 2, .waves = 16, .registers = 1536,
      .granule = 24, .lds_bytes = 65536, .dies = 1 },
    { .name = "gfx1151", .isa = &rdna3, .elf_machine = 0x4a, .wave = 32, .compute_units = 40, .simds = 2, .waves = 16, .registers = 1536,
      .granule = 24, .lds_bytes = 65536, .dies = 1 },
    { .name = "gfx942", .isa = &cdna3, .elf_machine = 0x4c, .wave = 64, .compute_units = 304, .simds = 4, .waves = 8, .registers = 512,
      .granule = 8, .lds_bytes = 65536, .dies = 8 },
};
const uint32_t n_chips = COUNT_OF(chips);

/* AMDGPUUsage, ELF header */
enum { MACHINE_AMDGPU = 224, OSABI_AMDGPU_HSA = 64, ABI_V4 = 2, ABI_V6 = 4, XNACK = 0x300, XNACK_ON = 0x300 };
enum { MAX_IMAGE = 1 << 28, MAX_SEGMENTS = 64, MAX_SCRATCH = 1 << 20, MAX_KERNARG = 1 << 20, MAX_KERNELS = 1 << 16 };

struct object {
    const uint8_t *data; size_t size;            /* the file */
    const struct chip *chip;
    Elf64_Phdr  segments[MAX_SEGMENTS]; uint32_t n_segments;
    uint8_t    *image; uint64_t image_bytes;
    uint64_t    code, code_bytes;                /* in the image, like the following members */
    uint64_t    symbols, n_symbols, strings, string_bytes, rela, rela_bytes;
    struct msgpack metadata;
};

static __attribute__((format(printf, 1, 2))) bool refuse(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fputs("gfxsim: code object: ", stderr);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
    return false;
}

static bool within(uint64_t offset, uint64_t size, uint64_t whole)
{
    return offset <= whole && size <= whole - offset;
}

/* ---- headers ---- */

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* The length of a file in memory by its headers, which must be correct: hipModuleLoadData gets only a pointer. */
static uint64_t size_by_headers(const uint8_t *data)
{
    Elf64_Ehdr e;
    memcpy(&e, data, sizeof e);
    uint64_t size = sizeof e;
    if (e.e_shnum) size = larger(size, e.e_shoff + (uint64_t)e.e_shnum * e.e_shentsize);
    if (e.e_phnum) size = larger(size, e.e_phoff + (uint64_t)e.e_phnum * e.e_phentsize);
    for (uint32_t i = 0; i < e.e_phnum && e.e_phentsize == sizeof(Elf64_Phdr); i++) {
        Elf64_Phdr p;
        memcpy(&p, data + e.e_phoff + i * sizeof p, sizeof p);
        size = larger(size, p.p_offset + p.p_filesz);
    }
    return size;
}

static bool is_code_object(const uint8_t *data, size_t bytes)
{
    static const char bundle[] = "__CLANG_OFFLOAD_BUNDLE__";
    if (bytes == 0 || bytes >= 4) {
        if (!memcmp(data, "CCOB", 4)) return refuse("it is a compressed bundle; link with --no-gpu-bundle-output");
        if (!memcmp(data, ELFMAG, SELFMAG)) return bytes == 0 || bytes >= sizeof(Elf64_Ehdr) || refuse("it is cut off in the ELF header");
    }
    if ((bytes == 0 || bytes >= sizeof bundle - 1) && !memcmp(data, bundle, sizeof bundle - 1))
        return refuse("it is a bundle of several targets; compile with --no-gpu-bundle-output");
    return refuse("it is not an ELF file");
}

static bool read_header(struct object *o, Elf64_Ehdr *e)
{
    memcpy(e, o->data, sizeof *e);
    if (e->e_ident[EI_CLASS] != ELFCLASS64 || e->e_ident[EI_DATA] != ELFDATA2LSB || e->e_machine != MACHINE_AMDGPU)
        return refuse("it is not for AMDGPU");
    if (e->e_ident[EI_OSABI] != OSABI_AMDGPU_HSA) return refuse("its OS ABI is %u, not that of HSA", e->e_ident[EI_OSABI]);
    if (e->e_ident[EI_ABIVERSION] < ABI_V4 || e->e_ident[EI_ABIVERSION] > ABI_V6)
        return refuse("its ABI version is %u; the simulator reads versions 4 to 6 of code objects", e->e_ident[EI_ABIVERSION]);
    if (e->e_type != ET_DYN) return refuse("it is not linked (ELF type %u)", e->e_type);
    for (uint32_t i = 0; i < n_chips; i++)
        if (chips[i].elf_machine == (e->e_flags & 0xff)) o->chip = &chips[i];
    if (!o->chip) return refuse("it is for a chip that is not simulated (machine 0x%x)", e->e_flags & 0xff);
    if ((e->e_flags & XNACK) == XNACK_ON && o->chip->isa->xnack) return refuse("it was compiled for xnack+, which is off on the chip");
    return true;
}

static bool read_segments(struct object *o)
{
    Elf64_Ehdr e;
    if (!read_header(o, &e)) return false;
    if (e.e_phentsize != sizeof(Elf64_Phdr) || e.e_phnum == 0 || e.e_phnum > MAX_SEGMENTS ||
        !within(e.e_phoff, e.e_phnum * sizeof(Elf64_Phdr), o->size))
        return refuse("its program headers are malformed");
    memcpy(o->segments, o->data + e.e_phoff, e.e_phnum * sizeof(Elf64_Phdr));
    o->n_segments = e.e_phnum;
    for (uint32_t i = 0; i < o->n_segments; i++) {
        const Elf64_Phdr *p = &o->segments[i];
        if (p->p_type == PT_NOTE && within(p->p_offset, p->p_filesz, o->size) && !o->metadata.at) {
            const struct msgpack note = { .at = o->data + p->p_offset, .end = o->data + p->p_offset + p->p_filesz },
                found = msgpack_metadata(note);
            if (!found.failed) o->metadata = found;
        }
        if (p->p_type != PT_LOAD) continue;
        if (!within(p->p_offset, p->p_filesz, o->size) || p->p_filesz > p->p_memsz || !within(p->p_vaddr, p->p_memsz, MAX_IMAGE))
            return refuse("segment %u does not fit the file", i);
        o->image_bytes = larger(o->image_bytes, p->p_vaddr + p->p_memsz);
        if (!(p->p_flags & PF_X)) continue;
        if (o->code_bytes) return refuse("it has two segments of code");
        o->code = p->p_vaddr;
        o->code_bytes = p->p_filesz;
    }
    if (!o->metadata.at) return refuse("it has no metadata note");
    if (!o->code_bytes || o->code_bytes % 4 || o->code % 4) return refuse("it has no code");
    return true;
}

/* One allocation for all segments, so that their distances stay the same; gaps between them stay undefined. */
static bool load_segments(struct object *o)
{
    o->image = memory_alloc(o->image_bytes, MEMORY_COARSE);
    if (!o->image) return refuse("the device has no memory for its %llu bytes", (unsigned long long)o->image_bytes);
    for (uint32_t i = 0; i < o->n_segments; i++) {
        const Elf64_Phdr *p = &o->segments[i];
        if (p->p_type != PT_LOAD || p->p_memsz == 0) continue;
        memset(o->image + p->p_vaddr, 0, p->p_memsz);
        memcpy(o->image + p->p_vaddr, o->data + p->p_offset, p->p_filesz);
        memory_set_defined((uint64_t)(uintptr_t)(o->image + p->p_vaddr), p->p_memsz, true);
    }
    return true;
}

/* ---- the dynamic section, symbols, relocations ---- */

static bool read_dynamic(struct object *o)
{
    uint64_t hash = 0, entry = sizeof(Elf64_Rela);
    const Elf64_Phdr *dynamic = NULL;
    for (uint32_t i = 0; i < o->n_segments; i++)
        if (o->segments[i].p_type == PT_DYNAMIC) dynamic = &o->segments[i];
    if (!dynamic || !within(dynamic->p_vaddr, dynamic->p_memsz, o->image_bytes)) return refuse("it has no dynamic section");
    for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= dynamic->p_memsz; at += sizeof(Elf64_Dyn)) {
        Elf64_Dyn d;
        memcpy(&d, o->image + dynamic->p_vaddr + at, sizeof d);
        if (d.d_tag == DT_NULL) break;
        switch (d.d_tag) {
        case DT_SYMTAB: o->symbols = d.d_un.d_ptr; break;
        case DT_STRTAB: o->strings = d.d_un.d_ptr; break;
        case DT_STRSZ: o->string_bytes = d.d_un.d_val; break;
        case DT_HASH: hash = d.d_un.d_ptr; break;
        case DT_RELA: o->rela = d.d_un.d_ptr; break;
        case DT_RELASZ: o->rela_bytes = d.d_un.d_val; break;
        case DT_RELAENT: entry = d.d_un.d_val; break;
        case DT_REL: case DT_JMPREL: case 35: case 36:           /* DT_RELRSZ, DT_RELR */
            return refuse("it has relocations that lld does not write for AMDGPU (dynamic tag %lld)", (long long)d.d_tag);
        case DT_NEEDED: return refuse("it needs another code object");
        default: break;
        }
    }
    uint32_t counts[2];                                          /* buckets, symbols */
    if (!within(hash, sizeof counts, o->image_bytes) || !hash) return refuse("it has no symbol hash table");
    memcpy(counts, o->image + hash, sizeof counts);
    o->n_symbols = counts[1];
    if (!within(o->symbols, o->n_symbols * sizeof(Elf64_Sym), o->image_bytes) || !within(o->strings, o->string_bytes, o->image_bytes))
        return refuse("symbols lie outside the segments");
    if (entry != sizeof(Elf64_Rela) || !within(o->rela, o->rela_bytes, o->image_bytes))
        return refuse("relocations lie outside the segments");
    return true;
}

static Elf64_Sym symbol_at(const struct object *o, uint64_t index)
{
    Elf64_Sym s;
    memcpy(&s, o->image + o->symbols + index * sizeof s, sizeof s);
    return s;
}

/* NULL if it does not end inside the string table. */
static const char *symbol_name(const struct object *o, Elf64_Sym s)
{
    const char *strings = (const char *)o->image + o->strings;
    if (s.st_name >= o->string_bytes || !memchr(strings + s.st_name, 0, o->string_bytes - s.st_name)) return NULL;
    return strings + s.st_name;
}

/* AMDGPUUsage, "AMDGPU ELF Relocation Records": S + A, S + A - P, B + A. */
static bool relocate_one(const struct object *o, Elf64_Rela r)
{
    static const char *const names[] = { "NONE", "ABS32_LO", "ABS32_HI", "ABS64", "REL32", "REL64", "ABS32", "GOTPCREL", "GOTPCREL32_LO",
                                         "GOTPCREL32_HI", "REL32_LO", "REL32_HI", "12", "RELATIVE64", "REL16" };
    enum { NONE, ABS32_LO, ABS32_HI, ABS64, REL32, REL64, ABS32, REL32_LO = 10, REL32_HI, RELATIVE64 = 13 };
    const uint32_t type = ELF64_R_TYPE(r.r_info), index = ELF64_R_SYM(r.r_info);
    const char    *name = type < COUNT_OF(names) ? names[type] : "unknown";
    const uint64_t base = (uint64_t)(uintptr_t)o->image, place = base + r.r_offset;
    uint64_t       value = base + (uint64_t)r.r_addend;
    if (type == NONE) return true;
    if (type != RELATIVE64) {
        if (index >= o->n_symbols) return refuse("relocation R_AMDGPU_%s has no symbol", name);
        const Elf64_Sym s = symbol_at(o, index);
        const char     *symbol = symbol_name(o, s);
        if (s.st_shndx == SHN_UNDEF) return refuse("symbol %s is not defined", symbol ? symbol : "?");
        value += s.st_value;
    }
    if (type == REL32 || type == REL64 || type == REL32_LO || type == REL32_HI) value -= place;
    if (type == ABS32_HI || type == REL32_HI) value >>= 32;
    uint32_t bytes;
    switch (type) {
    case RELATIVE64: case ABS64: case REL64: bytes = 8; break;
    case ABS32_LO: case ABS32_HI: case REL32_LO: case REL32_HI: case REL32: bytes = 4; break;
    case ABS32:
        bytes = 4;
        if (value > UINT32_MAX) return refuse("relocation R_AMDGPU_ABS32: the address has more than 32 bits");
        break;
    default: return refuse("relocation R_AMDGPU_%s (%u) is not supported", name, type);
    }
    if (!within(r.r_offset, bytes, o->image_bytes)) return refuse("relocation R_AMDGPU_%s lies outside the segments", name);
    memcpy(o->image + r.r_offset, &value, bytes);                /* both sizes are little-endian */
    return true;
}

static bool relocate(const struct object *o)
{
    /* in a malicious file a relocation may lie in the table itself; the copy is used */
    for (uint64_t at = 0; at + sizeof(Elf64_Rela) <= o->rela_bytes; at += sizeof(Elf64_Rela)) {
        Elf64_Rela r;
        memcpy(&r, o->image + o->rela + at, sizeof r);
        if (!relocate_one(o, r)) return false;
    }
    return true;
}

/* Finds the symbol with this name; its offset in the image. */
static bool find_symbol(const struct object *o, const char *name, size_t n, uint64_t *out)
{
    for (uint64_t i = 0; i < o->n_symbols; i++) {
        const Elf64_Sym s = symbol_at(o, i);
        const char     *own = symbol_name(o, s);
        if (s.st_shndx == SHN_UNDEF || !own || strlen(own) != n || memcmp(own, name, n)) continue;
        *out = s.st_value;
        return true;
    }
    return false;
}

/* ---- metadata ---- */

/* AMDGPUUsage, "AMDHSA Code Object V5 Kernel Argument Metadata Map Additions". */
static const struct { const char *name; enum hidden_kind kind; } hidden_kinds[] = {
    { "hidden_block_count_x", HIDDEN_BLOCK_COUNT_X }, { "hidden_block_count_y", HIDDEN_BLOCK_COUNT_Y },
    { "hidden_block_count_z", HIDDEN_BLOCK_COUNT_Z },
    { "hidden_group_size_x", HIDDEN_GROUP_SIZE_X },   { "hidden_group_size_y", HIDDEN_GROUP_SIZE_Y },
    { "hidden_group_size_z", HIDDEN_GROUP_SIZE_Z },
    { "hidden_remainder_x", HIDDEN_REMAINDER_X },     { "hidden_remainder_y", HIDDEN_REMAINDER_Y },
    { "hidden_remainder_z", HIDDEN_REMAINDER_Z },
    { "hidden_global_offset_x", HIDDEN_GLOBAL_OFFSET }, { "hidden_global_offset_y", HIDDEN_GLOBAL_OFFSET },
    { "hidden_global_offset_z", HIDDEN_GLOBAL_OFFSET },
    { "hidden_grid_dims", HIDDEN_GRID_DIMS },         { "hidden_dynamic_lds_size", HIDDEN_DYNAMIC_LDS_SIZE },
};

struct described { struct kernel *kernel; const char *symbol; size_t symbol_bytes; uint32_t vgprs, agprs, wave; bool dynamic_stack; };

/* kind: a value_kind of .args. */
static void add_arg(struct kernel *k, struct msgpack_item kind, uint32_t offset, uint32_t size)
{
    const bool hidden = kind.kind == MSGPACK_STRING && kind.value > 7 && !memcmp(kind.text, "hidden_", 7);
    if (!hidden) {
        if (k->explicit_bytes < offset + size) k->explicit_bytes = offset + size;
        return;
    }
    enum hidden_kind found = HIDDEN_OTHER;
    for (size_t i = 0; i < COUNT_OF(hidden_kinds); i++)
        if (msgpack_is(kind, hidden_kinds[i].name)) found = hidden_kinds[i].kind;
    /* version 5 has more arguments than fit; the others need only be zero, as global offsets are */
    if (k->n_hidden < COUNT_OF(k->hidden)) k->hidden[k->n_hidden++] = (struct hidden_arg){ found, offset, size };
}

static void read_arg(struct msgpack *c, struct kernel *k)
{
    const struct msgpack_item map = msgpack_next(c);
    struct msgpack_item kind = { .kind = MSGPACK_OTHER };
    uint64_t offset = MAX_KERNARG + 1ull, size = offset;
    if (map.kind != MSGPACK_MAP) c->failed = true;
    for (uint64_t i = 0; i < map.value && !c->failed; i++) {
        const struct msgpack_item key = msgpack_next(c), value = msgpack_next(c);
        msgpack_skip(c, value, 4);
        if (msgpack_is(key, ".offset") && value.kind == MSGPACK_INT) offset = value.value;
        if (msgpack_is(key, ".size") && value.kind == MSGPACK_INT) size = value.value;
        if (msgpack_is(key, ".value_kind")) kind = value;
    }
    if (offset > MAX_KERNARG || size > MAX_KERNARG || kind.kind != MSGPACK_STRING || !kind.text) c->failed = true;
    if (!c->failed) add_arg(k, kind, (uint32_t)offset, (uint32_t)size);
}

static void read_number(struct msgpack *c, struct msgpack_item value, uint32_t most, uint32_t *out)
{
    if (value.kind != MSGPACK_INT || value.value > most) c->failed = true;
    else *out = (uint32_t)value.value;
}

static void read_kernel(struct msgpack *c, struct described *d)
{
    struct kernel *k = d->kernel;
    const struct msgpack_item map = msgpack_next(c);
    if (map.kind != MSGPACK_MAP) c->failed = true;
    for (uint64_t i = 0; i < map.value && !c->failed; i++) {
        const struct msgpack_item key = msgpack_next(c), value = msgpack_next(c);
        if (msgpack_is(key, ".args") && value.kind == MSGPACK_ARRAY) {
            k->explicit_bytes = k->n_hidden = 0;
            for (uint64_t j = 0; j < value.value && !c->failed; j++) read_arg(c, k);
            continue;
        }
        msgpack_skip(c, value, 2);
        if (msgpack_is(key, ".kernarg_segment_size")) read_number(c, value, MAX_KERNARG, &k->kernarg_bytes);
        if (msgpack_is(key, ".max_flat_workgroup_size")) read_number(c, value, 1024, &k->most_threads);
        if (msgpack_is(key, ".vgpr_count")) read_number(c, value, MAX_VGPRS, &d->vgprs);
        if (msgpack_is(key, ".agpr_count")) read_number(c, value, MAX_VGPRS - ACC, &d->agprs);
        if (msgpack_is(key, ".wavefront_size")) read_number(c, value, 64, &d->wave);
        if (msgpack_is(key, ".uses_dynamic_stack")) d->dynamic_stack = value.kind == MSGPACK_BOOL && value.value;
        if (value.kind != MSGPACK_STRING || !value.text) continue;
        if (msgpack_is(key, ".name") && !k->name) k->name = strndup(value.text, value.value);
        if (msgpack_is(key, ".symbol")) d->symbol = value.text, d->symbol_bytes = value.value;
    }
    if (!k->name || !*k->name || !d->symbol || k->explicit_bytes > k->kernarg_bytes) c->failed = true;
    for (uint32_t i = 0; i < k->n_hidden; i++)
        if (k->hidden[i].size > 8 || !within(k->hidden[i].offset, k->hidden[i].size, k->kernarg_bytes)) c->failed = true;
}

/* ---- kernels ---- */

/* AMDGPUUsage, "Kernel Descriptor": 64 bytes. */
struct descriptor {
    uint32_t lds_bytes, scratch_bytes, kernarg_bytes, reserved0;
    int64_t  entry;                              /* from the descriptor itself */
    uint32_t reserved1[5], rsrc3, rsrc1, rsrc2;
    uint16_t properties, preload;
    uint32_t reserved2;
};
_Static_assert(sizeof(struct descriptor) == 64, "a kernel descriptor has 64 bytes");
enum { WAVE32 = 1 << 10, DYNAMIC_STACK = 1 << 11 };              /* properties */

/* Registers: the number that a wave gets by rsrc1 and rsrc3 (AMDGPUUsage, compute_pgm_rsrc1 GRANULATED_WORKITEM_VGPR_COUNT: granules of 8,
 * for gfx90a and later and for waves of 32; compute_pgm_rsrc3 ACCUM_OFFSET: granules of 4) and, if the metadata says less, the number that
 * the compiler uses. */
static bool set_registers(const struct object *o, const struct described *d, const struct descriptor *desc)
{
    struct kernel *k = d->kernel;
    const uint32_t given = 8 * ((desc->rsrc1 & 63) + 1), granule = o->chip->granule;
    k->vgprs = given;
    k->agpr_first = given;
    if (o->chip->isa->accumulators) {
        k->agpr_first = 4 * ((desc->rsrc3 & 63) + 1);
        if (k->agpr_first > given && d->agprs)
            return refuse("kernel %s has AccVGPRs from %u of %u registers", k->name, k->agpr_first, given);
        if (k->agpr_first > given) k->agpr_first = given;
        k->vgprs = k->agpr_first;
        k->agprs = d->agprs;
        if (k->agprs > given - k->agpr_first) return refuse("kernel %s has %u AccVGPRs in %u registers", k->name, k->agprs, given);
    }
    if (d->vgprs && d->vgprs < k->vgprs) k->vgprs = d->vgprs;
    if (k->vgprs > ACC) return refuse("kernel %s has %u registers", k->name, k->vgprs);
    k->vgprs_allocated = (given + granule - 1) / granule * granule;
    return true;
}

static bool describe_kernel(const struct object *o, struct module *m, const struct described *d)
{
    struct kernel    *k = d->kernel;
    struct descriptor desc;
    uint64_t          at;
    if (!find_symbol(o, d->symbol, d->symbol_bytes, &at) || !within(at, sizeof desc, o->image_bytes))
        return refuse("kernel %s has no descriptor", k->name);
    memcpy(&desc, o->image + at, sizeof desc);
    const uint64_t entry = at + (uint64_t)desc.entry - o->code;
    if (entry >= o->code_bytes || entry % 4 || m->inst_at[entry / 4] == UINT32_MAX)
        return refuse("kernel %s does not begin in the code", k->name);
    k->module = m;
    k->entry = m->inst_at[entry / 4];
    k->lds_bytes = desc.lds_bytes;
    k->scratch_bytes = desc.scratch_bytes;
    k->rsrc1 = desc.rsrc1;
    k->rsrc2 = desc.rsrc2;
    k->rsrc3 = desc.rsrc3;
    k->properties = desc.properties | (uint32_t)desc.preload << 16;
    k->wave = o->chip->isa->wave32 && desc.properties & WAVE32 ? 32 : 64;
    if (k->wave != o->chip->wave || (d->wave && d->wave != k->wave))
        return refuse("kernel %s has waves of %u lanes; %s runs with %u", k->name, k->wave, o->chip->name, o->chip->wave);
    if (k->lds_bytes > o->chip->lds_bytes) return refuse("kernel %s holds %u bytes of LDS", k->name, k->lds_bytes);
    if (d->dynamic_stack || (desc.properties & DYNAMIC_STACK)) return refuse("kernel %s needs a stack of unknown size", k->name);
    if (k->scratch_bytes > MAX_SCRATCH) return refuse("kernel %s needs %u bytes of scratch per lane", k->name, k->scratch_bytes);
    return set_registers(o, d, &desc);
}

/* Reads the array amdhsa.kernels; the cursor is at its first element. */
static bool read_kernels(const struct object *o, struct module *m, struct msgpack *c, uint64_t n)
{
    /* an element needs several bytes */
    if (n > MAX_KERNELS || n > (uint64_t)(c->end - c->at)) return refuse("malformed metadata");
    m->kernels = calloc(n + 1, sizeof *m->kernels);
    if (!m->kernels) return refuse("out of memory for %llu kernels", (unsigned long long)n);
    for (uint64_t i = 0; i < n; i++) {
        struct described d = { .kernel = &m->kernels[m->n_kernels++] };
        read_kernel(c, &d);
        if (c->failed) return refuse("malformed metadata of kernel %llu", (unsigned long long)i);
        if (!describe_kernel(o, m, &d)) return false;
    }
    return true;
}

static bool read_metadata(const struct object *o, struct module *m)
{
    struct msgpack c = o->metadata;
    const struct msgpack_item root = msgpack_next(&c);
    for (uint64_t i = 0; root.kind == MSGPACK_MAP && i < root.value && !c.failed; i++) {
        const struct msgpack_item key = msgpack_next(&c), value = msgpack_next(&c);
        if (msgpack_is(key, "amdhsa.kernels") && value.kind == MSGPACK_ARRAY) return read_kernels(o, m, &c, value.value);
        msgpack_skip(&c, value, 1);
    }
    return refuse("malformed metadata");
}

uint32_t kernel_end(const struct kernel *k)
{
    const struct module *m = k->module;
    uint32_t end = m->n_inst;
    for (uint32_t i = 0; i < m->n_kernels; i++)
        if (m->kernels[i].entry > k->entry && m->kernels[i].entry < end) end = m->kernels[i].entry;
    return end;
}

/* ---- modules ---- */

struct module *module_load(const void *image, size_t bytes)
{
    if (!is_code_object(image, bytes)) return NULL;
    struct object o = { .data = image, .size = bytes ? bytes : size_by_headers(image) };
    struct module *m = calloc(1, sizeof *m);
    if (!m) {
        refuse("out of memory");
        return NULL;
    }
    bool good = read_segments(&o) && load_segments(&o) && read_dynamic(&o) && relocate(&o);
    m->chip = o.chip;
    m->image = o.image;
    m->image_bytes = o.image_bytes;
    m->code_offset = (uint32_t)o.code;
    m->code_bytes = (uint32_t)o.code_bytes;
    good = good && module_decode(m) && read_metadata(&o, m);
    if (good) return m;
    module_free(m);
    return NULL;
}

void module_free(struct module *m)
{
    if (!m) return;
    for (uint32_t i = 0; i < m->n_kernels; i++) free((char *)(uintptr_t)m->kernels[i].name);
    free(m->kernels);
    if (m->inst) free((char *)(uintptr_t)m->inst[0].text);       /* all texts are one block (module_decode) */
    free(m->inst);
    free(m->inst_at);
    if (m->image) memory_free(m->image);
    free(m);
}
