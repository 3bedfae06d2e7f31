/* archive.c -- the parts of the file: "!<arch>\n", the index "/", long names "//", the object. Each member has a header of 60 characters
 * and begins at an even offset. Source: ar(5) of FreeBSD, "System V/GNU" variant; the index has big-endian offsets of member headers. */
#include "archive.h"
#include <stdio.h>
#include <string.h>

enum { MAGIC_BYTES = 8, HEADER_BYTES = 60, NAME_BYTES = 16 };
static const uint64_t SIZE_MOST = 9999999999u;

static void put_member(struct text *t, const char *name, uint64_t bytes)
{
    char header[HEADER_BYTES + 1];
    const int n = snprintf(header, sizeof header, "%-16s%-12s%-6s%-6s%-8s%-10llu`\n", name, "0", "0", "0", "644",
                           (unsigned long long)bytes);
    if (n != HEADER_BYTES) die("%s: its header in a library has %d characters; this is a mistake in forgec, please report it", name, n);
    text_append(t, header, HEADER_BYTES);
}

static void put_even(struct text *t)
{
    if (t->size % 2) text_puts(t, "\n");
}

static void put_u32_be(struct text *t, uint32_t x)
{
    const char bytes[4] = { (char)(x >> 24), (char)(x >> 16), (char)(x >> 8), (char)x };
    text_append(t, bytes, sizeof bytes);
}

void archive_begin(struct outfile *f, struct arena *a, const char *member, uint64_t object_bytes, const char *const *symbols)
{
    if (object_bytes > SIZE_MOST)
        die("%s: an object of %llu bytes does not fit a static library (10 GB at most); use --emit obj or --weights external", f->path,
            (unsigned long long)object_bytes);
    uint32_t n = 0;
    uint64_t name_bytes = 0;
    for (; symbols[n]; n++) name_bytes += strlen(symbols[n]) + 1;
    const bool is_long = strlen(member) + 1 > NAME_BYTES;
    const uint64_t index_bytes = (4 + 4 * (uint64_t)n + name_bytes + 1) / 2 * 2, long_bytes = is_long ? strlen(member) + 2 : 0;
    const uint64_t object_at = MAGIC_BYTES + HEADER_BYTES + index_bytes + (is_long ? HEADER_BYTES + (long_bytes + 1) / 2 * 2 : 0);

    struct text t = { .arena = a };
    text_puts(&t, "!<arch>\n");
    put_member(&t, "/", index_bytes);
    const size_t index = t.size;
    put_u32_be(&t, n);
    for (uint32_t i = 0; i < n; i++) put_u32_be(&t, (uint32_t)object_at);
    for (uint32_t i = 0; i < n; i++) text_append(&t, symbols[i], strlen(symbols[i]) + 1);
    while (t.size - index < index_bytes) text_append(&t, "", 1);
    if (is_long) {
        put_member(&t, "//", long_bytes);
        text_printf(&t, "%s/\n", member);
        put_even(&t);
    }
    put_member(&t, is_long ? "/0" : arena_printf(a, "%s/", member), object_bytes);
    outfile_write(f, t.data, t.size);
}

void archive_end(struct outfile *f)
{
    if (f->offset % 2) outfile_write(f, "\n", 1);
}
