/* needs.c -- see needs.h. Reads only parts of the file: it may have gigabytes of weights. */
#include "needs.h"
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SECTION_MOST = 1 << 20 };

static bool read_at(int fd, uint64_t offset, void *out, size_t size) { return pread(fd, out, size, (off_t)offset) == (ssize_t)size; }

/* A section as text or table, with a 0 after it. */
static struct bytes section_read(struct arena *a, int fd, const Elf64_Shdr *s)
{
    if (s->sh_size > SECTION_MOST) return (struct bytes){ NULL, 0 };
    uint8_t *data = arena_alloc(a, s->sh_size + 1);
    if (!read_at(fd, s->sh_offset, data, s->sh_size)) return (struct bytes){ NULL, 0 };
    data[s->sh_size] = 0;
    return (struct bytes){ data, s->sh_size };
}

/* Finds the newest "GLIBC_2.34" among the entries of one library, which begin at `at`. */
static void take_newest(struct bytes needs, struct bytes names, uint64_t at, uint32_t n, uint32_t newest[2])
{
    for (uint32_t i = 0; i < n; i++) {
        Elf64_Vernaux one;
        unsigned major, minor;
        if (at > needs.size || sizeof one > needs.size - at) return;
        memcpy(&one, needs.data + at, sizeof one);
        const char *name = one.vna_name < names.size ? (const char *)names.data + one.vna_name : "";
        if (sscanf(name, "GLIBC_%u.%u", &major, &minor) == 2 && (major > newest[0] || (major == newest[0] && minor > newest[1])))
            newest[0] = major, newest[1] = minor;
        if (!one.vna_next) return;
        at += one.vna_next;
    }
}

static const char *newest_of(struct arena *a, struct bytes needs, struct bytes names)
{
    uint32_t newest[2] = { 0, 0 };
    for (uint64_t at = 0; at <= needs.size && sizeof(Elf64_Verneed) <= needs.size - at; ) {
        Elf64_Verneed library;
        memcpy(&library, needs.data + at, sizeof library);
        take_newest(needs, names, at + library.vn_aux, library.vn_cnt, newest);
        if (!library.vn_next) break;
        at += library.vn_next;
    }
    return newest[0] ? arena_printf(a, "%u.%u", newest[0], newest[1]) : NULL;
}

const char *needs_glibc(struct arena *a, const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const char *version = NULL;
    Elf64_Ehdr e;
    if (fd < 0) return NULL;
    const bool is_elf = read_at(fd, 0, &e, sizeof e) && !memcmp(e.e_ident, ELFMAG, SELFMAG) && e.e_ident[EI_CLASS] == ELFCLASS64;
    for (uint32_t i = 0; is_elf && !version && i < e.e_shnum; i++) {
        Elf64_Shdr s, strings;
        if (!read_at(fd, e.e_shoff + i * sizeof s, &s, sizeof s) || s.sh_type != SHT_GNU_verneed || s.sh_link >= e.e_shnum) continue;
        if (!read_at(fd, e.e_shoff + s.sh_link * sizeof strings, &strings, sizeof strings)) continue;
        version = newest_of(a, section_read(a, fd, &s), section_read(a, fd, &strings));
    }
    close(fd);
    return version;
}
