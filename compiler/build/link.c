/* link.c -- the linker sees a one-byte weight section; the copy of its result to the outfile gets the real one appended.
 *
 * The section .forge_weights is placed behind .bss, so it is the last thing in memory and can grow without moving anything, and it is
 * the only section of its PT_LOAD.  After linking:
 *
 *     [ what the linker wrote: code, data, symbols, section headers ][ zeros to a page boundary ][ weights ]
 *
 * with the program header (p_offset, p_filesz, p_memsz) and the section header (sh_offset, sh_size) of the section moved to the new
 * place.  The kernel maps it like any other segment.  The only reference to it is the 64-bit pointer forge_weights, so code models and
 * 2 GiB limits do not matter. */
#include "link.h"
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WEIGHTS_SECTION ".forge_weights"
enum { LINK_ARGV_MAX = 48, DATA_ALIGN = 64 };

/* ---- objects written directly ---- */

struct machine { const char *name; uint16_t elf; uint32_t abs64; };
static const struct machine machines[] = {
    { "x86_64",  EM_X86_64,  R_X86_64_64 },
    { "aarch64", EM_AARCH64, R_AARCH64_ABS64 },
};

static const struct machine *machine_of(const struct target *target)
{
    for (size_t i = 0; i < COUNT_OF(machines); i++)
        if (!strcmp(target->elf_machine, machines[i].name)) return &machines[i];
    die("%s: forgec cannot link for machine %s, only for x86_64 and aarch64", target->path, target->elf_machine);
}

/* The sections of the small objects below; names and order are fixed, unused sections are empty. */
enum { S_NULL, S_DATA, S_POINTER, S_RELA, S_STACK, S_SYMTAB, S_STRTAB, S_SHSTRTAB, S_COUNT };

struct object_shape {
    const char  *section;        /* of the data */
    struct bytes data;
    uint64_t     align;
    const char  *symbol;         /* of the data; local when pointer is set */
    const char  *pointer;        /* `const uint8_t *const pointer = symbol;`, or NULL */
    bool         pointer_null;   /* ... = NULL */
};

static uint64_t round_up(uint64_t value, uint64_t align)
{
    return (value + align - 1) / align * align;
}

static struct bytes object_make(struct arena *a, const struct machine *m, const struct object_shape *s)
{
    const char *const names[S_COUNT] = { "", s->section, s->pointer_null ? ".rodata.forge_weights" : ".data.rel.ro.forge_weights",
                                         ".rela.data.rel.ro.forge_weights", ".note.GNU-stack", ".symtab", ".strtab", ".shstrtab" };
    const bool relocated = s->pointer && !s->pointer_null;
    Elf64_Ehdr ehdr = { .e_type = ET_REL, .e_machine = m->elf, .e_version = EV_CURRENT, .e_ehsize = sizeof ehdr,
                        .e_shentsize = sizeof(Elf64_Shdr), .e_shnum = S_COUNT, .e_shstrndx = S_SHSTRTAB };
    memcpy(ehdr.e_ident, ELFMAG, SELFMAG);
    ehdr.e_ident[EI_CLASS] = ELFCLASS64;
    ehdr.e_ident[EI_DATA] = ELFDATA2LSB;
    ehdr.e_ident[EI_VERSION] = EV_CURRENT;

    struct text strings = { .arena = a }, section_names = { .arena = a };
    text_append(&strings, "", 1);
    const uint32_t symbol_name = (uint32_t)strings.size;
    text_append(&strings, s->symbol, strlen(s->symbol) + 1);
    const uint32_t pointer_name = (uint32_t)strings.size;
    if (s->pointer) text_append(&strings, s->pointer, strlen(s->pointer) + 1);

    const Elf64_Sym symbols[3] = {
        [1] = { .st_name = symbol_name, .st_shndx = S_DATA, .st_size = s->data.size, .st_other = STV_HIDDEN,
                .st_info = s->pointer ? ELF64_ST_INFO(STB_LOCAL, STT_OBJECT) : ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT) },
        [2] = { .st_name = pointer_name, .st_shndx = S_POINTER, .st_size = 8, .st_other = STV_HIDDEN,
                .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT) } };
    const Elf64_Rela rela = { .r_offset = 0, .r_info = ELF64_R_INFO((uint64_t)1, m->abs64), .r_addend = 0 };
    static const uint64_t null_pointer = 0;

    Elf64_Shdr shdr[S_COUNT] = {
        [S_DATA]     = { .sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC, .sh_addralign = s->align, .sh_size = s->data.size },
        [S_POINTER]  = { .sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC | (relocated ? SHF_WRITE : 0), .sh_addralign = 8,
                         .sh_size = s->pointer ? 8 : 0 },
        [S_RELA]     = { .sh_type = SHT_RELA, .sh_flags = SHF_INFO_LINK, .sh_addralign = 8, .sh_entsize = sizeof rela,
                         .sh_size = relocated ? sizeof rela : 0, .sh_link = S_SYMTAB, .sh_info = S_POINTER },
        [S_STACK]    = { .sh_type = SHT_PROGBITS, .sh_addralign = 1 },
        [S_SYMTAB]   = { .sh_type = SHT_SYMTAB, .sh_addralign = 8, .sh_entsize = sizeof(Elf64_Sym), .sh_link = S_STRTAB,
                         .sh_size = (s->pointer ? 3 : 2) * sizeof(Elf64_Sym), .sh_info = s->pointer ? 2 : 1 /* first global */ },
        [S_STRTAB]   = { .sh_type = SHT_STRTAB, .sh_addralign = 1, .sh_size = strings.size },
        [S_SHSTRTAB] = { .sh_type = SHT_STRTAB, .sh_addralign = 1 } };
    for (size_t i = 0; i < S_COUNT; i++) {
        shdr[i].sh_name = (uint32_t)section_names.size;
        text_append(&section_names, names[i], strlen(names[i]) + 1);
    }
    shdr[S_SHSTRTAB].sh_size = section_names.size;
    const void *const contents[S_COUNT] = { NULL, s->data.data, &null_pointer, &rela, NULL, symbols, strings.data, section_names.data };

    uint64_t offset = sizeof ehdr;
    for (size_t i = 1; i < S_COUNT; i++) {
        /* 64 is enough in the file; larger alignments only matter in memory */
        offset = round_up(offset, shdr[i].sh_addralign < DATA_ALIGN ? shdr[i].sh_addralign : DATA_ALIGN);
        shdr[i].sh_offset = offset;
        offset += shdr[i].sh_size;
    }
    ehdr.e_shoff = round_up(offset, 8);
    uint8_t *out = arena_alloc(a, ehdr.e_shoff + sizeof shdr);
    memcpy(out, &ehdr, sizeof ehdr);
    for (size_t i = 1; i < S_COUNT; i++)
        if (shdr[i].sh_size) memcpy(out + shdr[i].sh_offset, contents[i], shdr[i].sh_size);
    memcpy(out + ehdr.e_shoff, shdr, sizeof shdr);
    return (struct bytes){ out, ehdr.e_shoff + sizeof shdr };
}

struct link_object link_data_object(struct arena *a, const struct target *target, const char *symbol, struct bytes data)
{
    const struct object_shape shape = { .section = arena_printf(a, ".rodata.%s", symbol), .data = data, .align = DATA_ALIGN,
                                        .symbol = symbol };
    return (struct link_object){ arena_printf(a, "%s.o", symbol), object_make(a, machine_of(target), &shape) };
}

/* Defines forge_weights and, unless it is NULL, the single byte in place of the image. */
static struct link_object weights_object(struct arena *a, const struct link_input *input)
{
    static const uint8_t placeholder[1];
    const struct object_shape shape = {
        .section = input->weights_bytes ? WEIGHTS_SECTION : ".rodata.forge_no_weights", .data = { placeholder, 1 },
        .align = input->weights_bytes ? input->target->page_bytes : 1, .symbol = "forge_weights_image",
        .pointer = input->soname ? NULL : "forge_weights", .pointer_null = !input->weights_bytes };
    return (struct link_object){ "forge_weights.o", object_make(a, machine_of(input->target), &shape) };
}

/* ---- the linker ---- */

/* Objects, then the linker script that places the weights; [input->n_objects + 2]. */
static struct spawn_file *link_files(struct arena *a, const struct toolchain *tc, const struct link_input *input)
{
    const size_t       n = input->n_objects + 2;
    struct spawn_file *files = arena_array(a, struct spawn_file, n);
    for (size_t i = 0; i < input->n_objects; i++)
        files[i] = (struct spawn_file){ cc_object_name(a, tc, input->objects[i].name), input->objects[i].data };
    const struct link_object weights = weights_object(a, input);
    files[n - 2] = (struct spawn_file){ cc_object_name(a, tc, weights.name), weights.data };
    /* static programs: glibc before 2.38 has one more section of zeros, which would otherwise follow the weights */
    const char *script = arena_printf(a, "SECTIONS { __libc_freeres_ptrs : { *(__libc_freeres_ptrs) }\n"
                                         "           %s ALIGN(%u) : { KEEP(*(%s)) } } INSERT AFTER .bss;\n",
                                      WEIGHTS_SECTION, input->target->page_bytes, WEIGHTS_SECTION);
    const char *temps = tc->options.save_temps;
    files[n - 1] = (struct spawn_file){ temps ? arena_printf(a, "%s/forge_weights.ld", temps) : "forge_weights.ld", bytes_of(script) };
    for (size_t i = 0; i < n && temps && !tc->options.spawn.dry_run; i++)        /* so that a printed line can be run again */
        cc_save(a, files[i].name, files[i].data);
    return files;
}

/* The key: flags, tools, contents, archives (`more`, or NULL), and the start file and archive of the C library, which represent it, where
 * Debian and other systems keep them. */
static struct cache_key link_key(struct arena *a, const struct toolchain *tc, const struct link_input *input, const char *const *more,
                                 const char *const *argv, size_t argc, const struct spawn_file *files)
{
    const char *triple = input->target->triple;
    const char *const libraries[] = { arena_printf(a, "/usr/lib/%s/crt1.o", triple), arena_printf(a, "/usr/lib/%s/libc.a", triple),
                                      arena_printf(a, "/usr/%s/lib/crt1.o", triple), arena_printf(a, "/usr/%s/lib/libc.a", triple) };
    struct bytes *parts = arena_array(a, struct bytes, argc + input->n_objects + 2 + COUNT_OF(libraries) + 4 + LINK_ARGV_MAX);
    size_t        n = 0;
    parts[n++] = bytes_of("link 2");
    parts[n++] = bytes_of(tc->lld ? "" : cc_file_identity(a, spawn_find(a, "ld")));
    parts[n++] = bytes_of(tc->clang_identity);
    parts[n++] = bytes_of(tc->lld_identity);
    for (size_t i = 0; i < COUNT_OF(libraries); i++) parts[n++] = bytes_of(cc_file_identity(a, libraries[i]));
    for (size_t i = 0; more && more[i]; i++) parts[n++] = bytes_of(cc_file_identity(a, more[i]));
    for (size_t i = 0; i < argc; i++) parts[n++] = bytes_of(argv[i]);
    for (size_t i = 0; i < input->n_objects + 2; i++) parts[n++] = files[i].data;
    return cache_key_of(parts, n);
}

/* lld writes to standard output; GNU ld needs a file that it can replace. */
static char *linker_file(struct arena *a)
{
    const char *directory = getenv("TMPDIR");
    char       *path = arena_printf(a, "%s/forgec-link-XXXXXX", directory && *directory ? directory : "/tmp");
    const int   fd = mkostemp(path, O_CLOEXEC);
    if (fd < 0) die("%s: %s", path, strerror(errno));
    close(fd);
    cleanup_unlink_at_exit(path);
    return path;
}

static void check_linked(struct arena *a, const struct toolchain *tc, const struct spawn_job *job)
{
    if (job->messages && job->messages[0]) fputs(job->messages, stderr);
    if (job->status < 0) die("cannot start %s: %s; try again when fewer programs run", job->argv[0], strerror(job->start_errno));
    if (!job->status) return;
    const bool no_library = job->messages && (strstr(job->messages, "crt1.o") || strstr(job->messages, "-lc") ||
                                              strstr(job->messages, "-lgcc"));
    die("clang could not link (exit code %d)%s%s", job->status,
        tc->lld ? "" : arena_printf(a, "; forgec is tested with lld, and %s", tc->lld_missing),
        no_library ? "; the C library to link with is incomplete (on Debian or Ubuntu: apt-get install libc6-dev, and "
                     "gcc-aarch64-linux-gnu for aarch64)" : "");
}

static struct bytes link_run(struct arena *a, struct toolchain *tc, const struct link_input *input)
{
    static const char *const flags[] = { "-pthread", "-Wl,--build-id=none", "-Wl,--gc-sections", "-Wl,--strip-debug", "-Wl,-z,relro",
                                         "-Wl,-z,now", "-Wl,-z,noexecstack", "-Wl,--as-needed", "-Wl,--hash-style=gnu", "-Wl,-O2", NULL };
    static const char *const library_flags[] = { "-nostartfiles", "-Wl,-Bsymbolic", "-Wl,-z,defs", NULL };
    const bool                dry_run = tc->options.spawn.dry_run;
    const size_t              n = input->n_objects + 2;
    const struct spawn_file  *files = link_files(a, tc, input);
    const char              **argv = arena_array(a, const char *, LINK_ARGV_MAX + n);
    size_t                    count = 0;
    argv[count++] = tc->clang;
    argv[count++] = arena_printf(a, "--target=%s", input->target->triple);
    if (tc->lld) argv[count++] = "-fuse-ld=lld";
    argv[count++] = input->soname ? "-shared" : input->is_static ? "-static-pie" : "-pie";
    /* a library has no entry point, its functions call each other directly, and undefined symbols are an error at link time */
    for (size_t i = 0; input->soname && library_flags[i]; i++) argv[count++] = library_flags[i];
    if (input->soname) argv[count++] = arena_printf(a, "-Wl,-soname,%s", input->soname);
    for (size_t i = 0; flags[i]; i++) argv[count++] = flags[i];
    argv[count++] = arena_printf(a, "-Wl,-z,max-page-size=%u", input->target->page_bytes);
    const char *const *libraries = input->has_server ? cc_server_libraries(a, input->target) : NULL;
    const struct cache_key key = link_key(a, tc, input, libraries, argv, count, files);
    struct bytes linked;
    if (!dry_run && cache_get(tc->cache, a, key, &linked)) return linked;

    for (size_t i = 0; i < n - 1; i++) argv[count++] = files[i].name;
    if (input->weights_bytes) {
        argv[count++] = "-T";
        argv[count++] = files[n - 1].name;
    }
    for (size_t i = 0; libraries && libraries[i]; i++) argv[count++] = libraries[i];
    if (!input->soname) argv[count++] = "-lm";
    if (input->target->kind == TARGET_GPU) argv[count++] = "-ldl";        /* for the driver's library; part of libc since glibc 2.34 */
    argv[count++] = "-o";
    char *temporary = tc->lld || dry_run ? NULL : linker_file(a);
    argv[count++] = temporary ? temporary : "-";
    struct spawn_job job = { .argv = argv, .files = files, .n_files = n, .is_tool = true };
    if (!dry_run) cc_need_proc();
    spawn_run(a, &tc->options.spawn, &job, 1);
    if (dry_run) return (struct bytes){ NULL, 0 };
    check_linked(a, tc, &job);
    linked = job.output;
    if (temporary) {
        linked = file_read(a, temporary);
        unlink(temporary);
        cleanup_forget(temporary);
    }
    cache_put(tc->cache, a, key, linked);
    return linked;
}

/* Runs lld on objects alone, through the cache. flags: NULL-terminated, before the objects; what: its purpose, for messages. */
static struct bytes lld_run(struct arena *a, struct toolchain *tc, const char *const *flags, const struct link_object *objects,
                            size_t n_objects, const char *what)
{
    enum { FLAGS_MOST = 16 };
    const bool dry_run = tc->options.spawn.dry_run;
    if (!tc->lld)
        die("objects are %sed with LLVM's lld, and %s", what, tc->lld_missing);
    struct spawn_file *files = arena_array(a, struct spawn_file, n_objects);
    const char       **argv = arena_array(a, const char *, n_objects + FLAGS_MOST + 4);
    struct bytes      *parts = arena_array(a, struct bytes, n_objects + FLAGS_MOST + 2);
    size_t             count = 0, n_parts = 0;
    argv[count++] = tc->lld;
    parts[n_parts++] = bytes_of("relocatable 1");
    parts[n_parts++] = bytes_of(tc->lld_identity);
    for (; *flags && count <= FLAGS_MOST; flags++) parts[n_parts++] = bytes_of(argv[count++] = *flags);
    for (size_t i = 0; i < n_objects; i++) {
        files[i] = (struct spawn_file){ cc_object_name(a, tc, objects[i].name), objects[i].data };
        if (tc->options.save_temps && !dry_run) cc_save(a, files[i].name, files[i].data);
        argv[count++] = files[i].name;
        parts[n_parts++] = objects[i].data;
    }
    argv[count++] = "-o";
    argv[count++] = "-";
    const struct cache_key key = cache_key_of(parts, n_parts);
    struct bytes linked;
    if (!dry_run && cache_get(tc->cache, a, key, &linked)) return linked;
    struct spawn_job job = { .argv = argv, .files = files, .n_files = n_objects, .is_tool = true };
    if (!dry_run) cc_need_proc();
    spawn_run(a, &tc->options.spawn, &job, 1);
    if (dry_run) return (struct bytes){ NULL, 0 };
    if (job.messages && job.messages[0]) fputs(job.messages, stderr);
    if (job.status < 0) die("cannot start %s: %s; try again when fewer programs run", tc->lld, strerror(job.start_errno));
    if (job.status) die("lld could not %s the objects (exit code %d)", what, job.status);
    cache_put(tc->cache, a, key, job.output);
    return job.output;
}

/* All of LLVM's linkers are one program; its first arguments select the linker. */
struct bytes link_relocatable(struct arena *a, struct toolchain *tc, const struct target *target, const struct link_object *objects,
                              size_t n_objects)
{
    static const char *const elf[] = { "-r", NULL }, *const wasm[] = { "-flavor", "wasm", "-r", NULL };
    return lld_run(a, tc, target->web ? wasm : elf, objects, n_objects, "join");
}

struct bytes link_module(struct arena *a, struct toolchain *tc, const struct link_object *objects, size_t n_objects, uint32_t stack_bytes)
{
    const char *const flags[] = { "-flavor", "wasm", "--no-entry", "--gc-sections", "--stack-first", "--strip-all", "-O2",
                                  "--export=__heap_base", "-z", arena_printf(a, "stack-size=%u", stack_bytes), NULL };
    return lld_run(a, tc, flags, objects, n_objects, "link");
}

/* ---- the weights ---- */

static bool inside(uint64_t offset, uint64_t count, uint64_t item, uint64_t size)
{
    return offset <= size && count <= (size - offset) / item;
}

/* Moves the weight section and its segment to [offset, offset + bytes) of the file. False: the linker produced another layout. */
static bool weights_move(uint8_t *elf, uint64_t size, uint64_t offset, uint64_t bytes)
{
    Elf64_Ehdr ehdr;
    if (size < sizeof ehdr) return false;
    memcpy(&ehdr, elf, sizeof ehdr);
    if (memcmp(ehdr.e_ident, ELFMAG, SELFMAG) != 0 || !inside(ehdr.e_phoff, ehdr.e_phnum, sizeof(Elf64_Phdr), size) ||
        !inside(ehdr.e_shoff, ehdr.e_shnum, sizeof(Elf64_Shdr), size) || ehdr.e_shstrndx >= ehdr.e_shnum)
        return false;
    Elf64_Shdr names, section;
    memcpy(&names, elf + ehdr.e_shoff + ehdr.e_shstrndx * sizeof names, sizeof names);
    if (!inside(names.sh_offset, names.sh_size, 1, size)) return false;
    uint64_t section_at = 0, segment_at = 0, top = 0;
    for (uint32_t i = 1; i < ehdr.e_shnum && !section_at; i++) {
        const uint64_t at = ehdr.e_shoff + i * sizeof section;
        memcpy(&section, elf + at, sizeof section);
        if (section.sh_name < names.sh_size && names.sh_size - section.sh_name >= sizeof WEIGHTS_SECTION &&
            !memcmp(elf + names.sh_offset + section.sh_name, WEIGHTS_SECTION, sizeof WEIGHTS_SECTION))
            section_at = at;
    }
    if (!section_at) return false;
    Elf64_Phdr segment = { 0 };
    for (uint32_t i = 0; i < ehdr.e_phnum; i++) {
        Elf64_Phdr p;
        const uint64_t at = ehdr.e_phoff + i * sizeof p;
        memcpy(&p, elf + at, sizeof p);
        if (p.p_type != PT_LOAD) continue;
        if (p.p_vaddr > top) top = p.p_vaddr;
        if (p.p_vaddr == section.sh_addr && p.p_memsz == section.sh_size && p.p_filesz == p.p_memsz) {
            segment = p;
            segment_at = at;
        }
    }
    /* alone in its segment, last in memory, congruent in the file */
    if (!segment_at || segment.p_vaddr != top || (segment.p_align && (offset - segment.p_vaddr) % segment.p_align)) return false;
    segment.p_offset = section.sh_offset = offset;
    segment.p_filesz = segment.p_memsz = section.sh_size = bytes;
    segment.p_flags = PF_R;
    memcpy(elf + section_at, &section, sizeof section);
    memcpy(elf + segment_at, &segment, sizeof segment);
    return true;
}

void link_executable(struct arena *a, struct toolchain *tc, const struct link_input *input, struct outset *set, const char *out_path,
                     link_write_weights *write_weights, void *context)
{
    const char *missing = cc_target_missing(a, input->target);
    if (missing) die("%s", missing);
    struct bytes linked = link_run(a, tc, input);
    if (tc->options.spawn.dry_run) return;
    struct outfile *f = outset_open(a, set, out_path, 0777);
    if (!input->weights_bytes) {
        outfile_write(f, linked.data, linked.size);
        return;
    }
    const uint64_t offset = round_up(linked.size, input->target->page_bytes);
    uint8_t       *image = arena_alloc(a, linked.size);
    memcpy(image, linked.data, linked.size);
    if (!weights_move(image, linked.size, offset, input->weights_bytes))
        die("the linker did not give the weights a segment of their own%s%s", tc->lld ? "" : "; forgec needs lld, and ",
            tc->lld ? "" : tc->lld_missing);
    outfile_write(f, image, linked.size);
    outfile_pad(f, offset);
    write_weights(f, context);
    if (f->offset != offset + input->weights_bytes)
        die("%s: %llu bytes of weights were announced, %llu written; this is a mistake in forgec, please report it", out_path,
            (unsigned long long)input->weights_bytes,
            (unsigned long long)(f->offset - offset));
}
