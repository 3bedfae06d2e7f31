/* objfile.c -- reads sections and symbols into one form for both classes, changes them, writes the file anew:
 *
 *     [ ELF header ][ contents of the sections, small data among them ][ section headers ][ zeros ][ the last data, by the caller ]
 *
 * In a symbol table locals come before globals, so symbols change places, and relocations, which name them by number, are renumbered.
 * Source: System V ABI, chapter 4 (gabi), "Object Files"; x86-64 psABI 1.0, 4.2 for SHF_X86_64_LARGE. */
#include "objfile.h"
#include <elf.h>
#include <string.h>

#ifndef SHF_X86_64_LARGE
#define SHF_X86_64_LARGE 0x10000000u
#endif
enum { FILE_ALIGN_MOST = 64 };     /* in the file; larger alignments only matter in memory */

struct section { uint32_t name, type, link, info; uint64_t flags, offset, bytes, align, entry; const uint8_t *data; };
struct symbol  { uint32_t name; uint8_t bind, type, other; uint16_t section; uint64_t value,
                 bytes; uint32_t moved; /* its number in the result */ };

struct elf {
    struct arena   *arena;
    const char     *name;
    struct bytes    file;
    bool            wide;                  /* ELF64 */
    uint16_t        machine, section_names;
    uint8_t         header[sizeof(Elf64_Ehdr)];
    struct section *sections;              /* [n_sections] */
    uint32_t        n_sections, symbols_at, n_symbols, n_locals;
    struct symbol  *symbols;
};

/* ---- reading ---- */

static uint64_t round_up(uint64_t value, uint64_t align) { return (value + align - 1) / align * align; }
static bool inside(uint64_t offset, uint64_t count, uint64_t item, uint64_t size)
{
    return offset <= size && count <= (size - offset) / item;
}

static const char *string_at(const struct elf *e, const struct section *table, uint32_t at, const char *what)
{
    if (at >= table->bytes || !memchr(table->data + at, 0, table->bytes - at))
        die("%s: the name of a %s lies outside the table of names", e->name, what);
    return (const char *)table->data + at;
}

/* Dies unless it is an object for a machine whose conventions this file supports. */
static void check_header(struct elf *e)
{
    const uint8_t *ident = e->file.data;
    if (e->file.size < sizeof(Elf32_Ehdr) || memcmp(ident, ELFMAG, SELFMAG) != 0) die("%s: not an ELF object", e->name);
    if (ident[EI_CLASS] != ELFCLASS32 && ident[EI_CLASS] != ELFCLASS64)
        die("%s: ELF class %u is neither 32 nor 64 bits", e->name, ident[EI_CLASS]);
    if (ident[EI_DATA] != ELFDATA2LSB) die("%s: the object is not little-endian", e->name);
    e->wide = ident[EI_CLASS] == ELFCLASS64;
    if (e->file.size < (e->wide ? sizeof(Elf64_Ehdr) : sizeof(Elf32_Ehdr))) die("%s: the ELF header is cut short", e->name);
    Elf64_Ehdr h = { .e_type = 0 };
    if (e->wide) memcpy(&h, ident, sizeof h);
    else {
        Elf32_Ehdr s;
        memcpy(&s, ident, sizeof s);
        h = (Elf64_Ehdr){ .e_type = s.e_type, .e_machine = s.e_machine, .e_shoff = s.e_shoff, .e_shentsize = s.e_shentsize,
                          .e_shnum = s.e_shnum, .e_shstrndx = s.e_shstrndx };
    }
    if (h.e_type != ET_REL) die("%s: ELF type %u is not a relocatable object", e->name, h.e_type);
    const bool known = e->wide ? h.e_machine == EM_X86_64 || h.e_machine == EM_AARCH64 || h.e_machine == EM_RISCV
        : h.e_machine == EM_ARM || h.e_machine == EM_RISCV;
    if (!known) die("%s: forgec does not write objects for ELF machine %u of %u bits", e->name, h.e_machine, e->wide ? 64 : 32);
    if (h.e_shentsize != (e->wide ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr)) || h.e_shnum < 2 || h.e_shstrndx >= h.e_shnum ||
        !inside(h.e_shoff, h.e_shnum, h.e_shentsize, e->file.size))
        die("%s: the table of sections is damaged", e->name);
    memcpy(e->header, ident, e->wide ? sizeof(Elf64_Ehdr) : sizeof(Elf32_Ehdr));
    e->machine = h.e_machine;
    e->n_sections = h.e_shnum;
    e->section_names = h.e_shstrndx;
    e->sections = arena_array(e->arena, struct section, e->n_sections);
    for (uint32_t i = 0; i < e->n_sections; i++) {
        struct section *s = &e->sections[i];
        Elf64_Shdr x;
        Elf32_Shdr y;
        if (e->wide) memcpy(&x, e->file.data + h.e_shoff + i * sizeof x, sizeof x);
        else {
            memcpy(&y, e->file.data + h.e_shoff + i * sizeof y, sizeof y);
            x = (Elf64_Shdr){ y.sh_name, y.sh_type, y.sh_flags, y.sh_addr, y.sh_offset, y.sh_size, y.sh_link, y.sh_info, y.sh_addralign,
                              y.sh_entsize };
        }
        *s = (struct section){ .name = x.sh_name, .type = x.sh_type, .link = x.sh_link, .info = x.sh_info, .flags = x.sh_flags,
                               .bytes = x.sh_size, .align = x.sh_addralign ? x.sh_addralign : 1, .entry = x.sh_entsize };
    }
}

static uint64_t section_offset(const struct elf *e, uint32_t i)
{
    if (e->wide) {
        Elf64_Ehdr h;
        Elf64_Shdr s;
        memcpy(&h, e->header, sizeof h);
        memcpy(&s, e->file.data + h.e_shoff + i * sizeof s, sizeof s);
        return s.sh_offset;
    }
    Elf32_Ehdr h;
    Elf32_Shdr s;
    memcpy(&h, e->header, sizeof h);
    memcpy(&s, e->file.data + h.e_shoff + i * sizeof s, sizeof s);
    return s.sh_offset;
}

static void read_sections(struct elf *e)
{
    for (uint32_t i = 1; i < e->n_sections; i++) {
        struct section *s = &e->sections[i];
        const uint64_t offset = section_offset(e, i);
        if (s->align & (s->align - 1))
            die("%s: section %u is aligned to %llu, which is not a power of two", e->name, i, (unsigned long long)s->align);
        if (s->type == SHT_NOBITS || s->type == SHT_NULL) continue;
        if (!inside(offset, s->bytes, 1, e->file.size)) die("%s: section %u lies outside the file", e->name, i);
        s->data = e->file.data + offset;
        if (s->type != SHT_SYMTAB) continue;
        if (e->symbols_at) die("%s: more than one table of symbols", e->name);
        e->symbols_at = i;
    }
    if (!e->symbols_at) die("%s: no table of symbols", e->name);
    if (e->sections[e->section_names].type != SHT_STRTAB) die("%s: no table of section names", e->name);
    for (uint32_t i = 1; i < e->n_sections; i++) string_at(e, &e->sections[e->section_names], e->sections[i].name, "section");
}

static void read_symbols(struct elf *e)
{
    const struct section *s = &e->sections[e->symbols_at];
    const uint64_t entry = e->wide ? sizeof(Elf64_Sym) : sizeof(Elf32_Sym);
    if (s->entry != entry || s->bytes % entry || !s->bytes || s->bytes / entry > UINT32_MAX / 2 || s->link >= e->n_sections ||
        e->sections[s->link].type != SHT_STRTAB)
        die("%s: the table of symbols is damaged", e->name);
    e->n_symbols = (uint32_t)(s->bytes / entry);
    e->symbols = arena_array(e->arena, struct symbol, e->n_symbols);
    for (uint32_t i = 0; i < e->n_symbols; i++) {
        struct symbol *y = &e->symbols[i];
        Elf64_Sym x;
        Elf32_Sym z;
        if (e->wide) memcpy(&x, s->data + i * entry, sizeof x);
        else {
            memcpy(&z, s->data + i * entry, sizeof z);
            x = (Elf64_Sym){ z.st_name, z.st_info, z.st_other, z.st_shndx, z.st_value, z.st_size };
        }
        *y = (struct symbol){ .name = x.st_name, .bind = ELF64_ST_BIND(x.st_info), .type = ELF64_ST_TYPE(x.st_info), .other = x.st_other,
                              .section = x.st_shndx, .value = x.st_value, .bytes = x.st_size };
        const char *name = string_at(e, &e->sections[s->link], y->name, "symbol");
        if (y->section == SHN_COMMON) die("%s: %s is a common symbol; compile with -fno-common", e->name, name);
        if (y->section >= e->n_sections && y->section != SHN_ABS)
            die("%s: symbol %s is in section %u of %u", e->name, name, y->section, e->n_sections);
    }
}

static const char *symbol_name(const struct elf *e, const struct symbol *y)
{
    return (const char *)e->sections[e->sections[e->symbols_at].link].data + y->name;
}

static const char *section_name(const struct elf *e, const struct section *s)
{
    return (const char *)e->sections[e->section_names].data + s->name;
}

/* ---- checks of the result ---- */

static void check_sections(const struct elf *e)
{
    for (uint32_t i = 1; i < e->n_sections; i++) {
        const struct section *s = &e->sections[i];
        const char *name = section_name(e, s);
        const bool relro = !strncmp(name, ".data.rel.ro", 12), variables = (s->flags & SHF_ALLOC) && (s->flags & (SHF_WRITE | SHF_TLS)) &&
            s->bytes && !relro;
        if (variables)
            die("%s: section %s holds %llu bytes of variables; a library may have variables only in its workspace", e->name, name,
                (unsigned long long)s->bytes);
        const bool relocations = s->type == SHT_REL || s->type == SHT_RELA;
        const uint64_t entry = s->type == SHT_REL ? e->wide ? sizeof(Elf64_Rel) : sizeof(Elf32_Rel) : e->wide ? sizeof(Elf64_Rela)
            : sizeof(Elf32_Rela);
        if (relocations && (s->entry != entry || s->bytes % entry || s->link != e->symbols_at || !s->info || s->info >= e->n_sections))
            die("%s: the relocations in %s are damaged", e->name, name);
        const bool names_symbols = s->link == e->symbols_at && s->type != SHT_NULL;
        if (s->type == SHT_SYMTAB_SHNDX || s->type == SHT_GROUP || (names_symbols && !relocations))
            die("%s: section %s (type %#x) refers to symbols in a form that forgec cannot read", e->name, name, s->type);
    }
}

static bool in_list(const char *const *list, const char *name)
{
    for (; *list; list++) if (strcmp(*list, name) == 0) return true;
    return false;
}

static void check_exported(const struct elf *e, const char *const *exported)
{
    for (; *exported; exported++) {
        bool found = false;
        for (uint32_t i = 1; i < e->n_symbols && !found; i++) {
            const struct symbol *y = &e->symbols[i];
            found = y->bind != STB_LOCAL && y->section != SHN_UNDEF && strcmp(symbol_name(e, y), *exported) == 0;
        }
        if (!found) die("%s: %s is not defined in it", e->name, *exported);
    }
}

/* Adds the sections of the data, and the symbols for them. */
static void add_data(struct elf *e, const struct objfile_edit *edit, struct text *names)
{
    struct section *grown = arena_array(e->arena, struct section, e->n_sections + edit->n_data);
    memcpy(grown, e->sections, e->n_sections * sizeof *grown);
    e->sections = grown;
    for (size_t k = 0; k < edit->n_data; k++) {
        const struct objfile_data *d = &edit->data[k];
        struct symbol *found = NULL;
        for (uint32_t i = 1; i < e->n_symbols; i++)
            if (e->symbols[i].bind != STB_LOCAL && strcmp(symbol_name(e, &e->symbols[i]), d->symbol) == 0) found = &e->symbols[i];
        if (!found) die("%s: nothing in it refers to %s", e->name, d->symbol);
        if (found->section != SHN_UNDEF) die("%s: %s is defined in it already", e->name, d->symbol);
        if (!e->wide && d->bytes > UINT32_MAX / 2)
            die("%s: %llu bytes of %s do not fit an object of 32 bits; pass them with --weights external", e->name,
                (unsigned long long)d->bytes, d->section);
        if (e->n_sections + 1 >= SHN_LORESERVE) die("%s: too many sections", e->name);
        *found = (struct symbol){ .name = found->name, .bind = STB_LOCAL, .type = STT_OBJECT, .other = STV_DEFAULT,
                                  .section = (uint16_t)e->n_sections, .bytes = d->bytes };
        /* far from code on x86-64, where offsets in code have 32 bits */
        const bool large = e->machine == EM_X86_64 && strncmp(d->section, ".lrodata", 8) == 0;
        e->sections[e->n_sections++] = (struct section){ .name = (uint32_t)names->size, .type = SHT_PROGBITS,
                                                         .flags = SHF_ALLOC | (large ? SHF_X86_64_LARGE : 0u), .bytes = d->bytes,
                                                         .align = d->align, .data = d->data };
        text_append(names, d->section, strlen(d->section) + 1);
    }
}

static void hide_symbols(struct elf *e, const struct objfile_edit *edit)
{
    for (uint32_t i = 1; i < e->n_symbols; i++) {
        struct symbol *y = &e->symbols[i];
        if (y->bind == STB_LOCAL) continue;
        const char *name = symbol_name(e, y);
        if (y->section == SHN_UNDEF && !in_list(edit->needed, name)) die("%s: it needs %s but does not define it", e->name, name);
        y->other &= (uint8_t)~3u;                      /* visibility then follows from the binding: the sources declare everything hidden */
        if (y->section != SHN_UNDEF && !in_list(edit->exported, name)) y->bind = STB_LOCAL;
    }
    uint32_t number = 1;
    for (int global = 0; global < 2; global++) {
        for (uint32_t i = 1; i < e->n_symbols; i++)
            if ((e->symbols[i].bind != STB_LOCAL) == global) e->symbols[i].moved = number++;
        if (!global) e->n_locals = number;
    }
}

/* ---- writing ---- */

static struct bytes symbol_table(const struct elf *e)
{
    const size_t entry = e->wide ? sizeof(Elf64_Sym) : sizeof(Elf32_Sym), bytes = e->n_symbols * entry;
    uint8_t *table = arena_alloc(e->arena, bytes);
    for (uint32_t i = 1; i < e->n_symbols; i++) {
        const struct symbol *y = &e->symbols[i];
        const Elf64_Sym x = { .st_name = y->name, .st_info = (unsigned char)ELF64_ST_INFO(y->bind, y->type), .st_other = y->other,
                              .st_shndx = y->section, .st_value = y->value, .st_size = y->bytes };
        const Elf32_Sym z = { .st_name = y->name, .st_info = x.st_info, .st_other = y->other, .st_shndx = y->section,
                              .st_value = (Elf32_Addr)y->value, .st_size = (Elf32_Word)y->bytes };
        memcpy(table + y->moved * entry, e->wide ? (const void *)&x : (const void *)&z, entry);
    }
    return (struct bytes){ table, bytes };
}

/* Renumbers symbols in relocations: the number is the upper 32 bits of r_info (ELF32: 24), which follows the offset. */
static const uint8_t *renumber(const struct elf *e, const struct section *s)
{
    uint8_t *copy = arena_alloc(e->arena, s->bytes);
    memcpy(copy, s->data, s->bytes);
    for (uint64_t at = 0; at < s->bytes; at += s->entry) {
        Elf64_Xword wide;
        Elf32_Word narrow;
        uint8_t *info = copy + at + (e->wide ? sizeof(Elf64_Addr) : sizeof(Elf32_Addr));
        memcpy(&wide, info, e->wide ? sizeof wide : 0);
        memcpy(&narrow, info, e->wide ? 0 : sizeof narrow);
        const uint64_t symbol = e->wide ? ELF64_R_SYM(wide) : ELF32_R_SYM(narrow);
        if (symbol >= e->n_symbols)
            die("%s: a relocation in %s names symbol %llu of %u", e->name, section_name(e, s), (unsigned long long)symbol, e->n_symbols);
        const uint64_t moved = e->symbols[symbol].moved;
        wide = e->wide ? ELF64_R_INFO(moved, ELF64_R_TYPE(wide)) : 0;
        narrow = e->wide ? 0 : (Elf32_Word)ELF32_R_INFO(moved, ELF32_R_TYPE(narrow));
        memcpy(info, e->wide ? (const void *)&wide : (const void *)&narrow, e->wide ? sizeof wide : sizeof narrow);
    }
    return copy;
}

static void renew_tables(struct elf *e, const struct text *names)
{
    for (uint32_t i = 1; i < e->n_sections; i++)
        if (e->sections[i].type == SHT_REL || e->sections[i].type == SHT_RELA) e->sections[i].data = renumber(e, &e->sections[i]);
    struct section *symbols = &e->sections[e->symbols_at], *strings = &e->sections[e->section_names];
    const struct bytes table = symbol_table(e);
    symbols->data = table.data;
    symbols->info = e->n_locals;
    strings->data = (const uint8_t *)names->data;
    strings->bytes = names->size;
}

/* Assigns file offsets to all contents; returns the offset of the section headers. The section that the caller writes comes after them. */
static uint64_t place(struct elf *e, bool streamed, uint64_t *end)
{
    uint64_t at = e->wide ? sizeof(Elf64_Ehdr) : sizeof(Elf32_Ehdr);
    for (uint32_t i = 1; i < e->n_sections - streamed; i++) {
        struct section *s = &e->sections[i];
        s->offset = at = round_up(at, s->align < FILE_ALIGN_MOST ? s->align : FILE_ALIGN_MOST);
        if (s->type != SHT_NOBITS) at += s->bytes;
    }
    const uint64_t headers = round_up(at, 8);
    *end = headers + e->n_sections * (e->wide ? sizeof(Elf64_Shdr) : sizeof(Elf32_Shdr));
    if (!streamed) return headers;
    struct section *last = &e->sections[e->n_sections - 1];
    last->offset = *end = round_up(*end, FILE_ALIGN_MOST);
    return headers;
}

static void put_header(const struct elf *e, uint8_t *out, uint64_t headers)
{
    if (e->wide) {
        Elf64_Ehdr h;
        memcpy(&h, e->header, sizeof h);
        h.e_shoff = headers;
        h.e_shnum = (uint16_t)e->n_sections;
        memcpy(out, &h, sizeof h);
    } else {
        Elf32_Ehdr h;
        memcpy(&h, e->header, sizeof h);
        h.e_shoff = (Elf32_Off)headers;
        h.e_shnum = (uint16_t)e->n_sections;
        memcpy(out, &h, sizeof h);
    }
}

static void put_section(const struct elf *e, uint8_t *out, uint64_t headers, uint32_t i)
{
    const struct section *s = &e->sections[i];
    const Elf64_Shdr x = { .sh_name = s->name, .sh_type = s->type, .sh_flags = s->flags, .sh_offset = s->offset, .sh_size = s->bytes,
                           .sh_link = s->link, .sh_info = s->info, .sh_addralign = s->align, .sh_entsize = s->entry };
    const Elf32_Shdr y = { .sh_name = s->name, .sh_type = s->type, .sh_flags = (Elf32_Word)s->flags, .sh_offset = (Elf32_Off)s->offset,
                           .sh_size = (Elf32_Word)s->bytes, .sh_link = s->link, .sh_info = s->info, .sh_addralign = (Elf32_Word)s->align,
                           .sh_entsize = (Elf32_Word)s->entry };
    if (e->wide) memcpy(out + headers + i * sizeof x, &x, sizeof x);
    else memcpy(out + headers + i * sizeof y, &y, sizeof y);
    if (s->data && s->bytes) memcpy(out + s->offset, s->data, s->bytes);
}

struct objfile objfile_rewrite(struct arena *a, const char *name, struct bytes object, const struct objfile_edit *edit)
{
    struct elf e = { .arena = a, .name = name, .file = object };
    check_header(&e);
    read_sections(&e);
    read_symbols(&e);
    check_sections(&e);
    check_exported(&e, edit->exported);
    struct text names = { .arena = a };
    text_append(&names, (const char *)e.sections[e.section_names].data, e.sections[e.section_names].bytes);
    const struct objfile_data *last = edit->n_data ? &edit->data[edit->n_data - 1] : NULL;
    const bool streamed = last && !last->data;
    add_data(&e, edit, &names);
    hide_symbols(&e, edit);
    renew_tables(&e, &names);
    uint64_t bytes;
    const uint64_t headers = place(&e, streamed, &bytes);
    const uint64_t file_bytes = bytes + (streamed ? last->bytes : 0);
    if (!e.wide && file_bytes > UINT32_MAX)
        die("%s: %llu bytes are too many for an object of 32 bits; pass the weights with --weights external", name,
            (unsigned long long)file_bytes);
    uint8_t *out = arena_alloc(a, bytes);
    put_header(&e, out, headers);
    for (uint32_t i = 1; i < e.n_sections; i++) put_section(&e, out, headers, i);
    return (struct objfile){ { out, bytes }, file_bytes };
}
