/* pkgconfig.c -- writes the files. Source: pkg-config(1), pc(5) of pkgconf: ${pcfiledir} is the folder of the file; values of Cflags and
 * Libs are split as a shell does. */
#include "pkgconfig.h"
#include "header.h"
#include <ctype.h>
#include <string.h>

/* A file's name as one word of Libs. */
static void put_word(struct text *t, const char *s)
{
    for (; *s; s++) {
        if (*s == '$') text_puts(t, "$");                                /* "$$" is a dollar */
        else if (!isalnum((unsigned char)*s) && !strchr("._-+", *s)) text_puts(t, "\\");
        text_append(t, s, 1);
    }
}

struct bytes emit_ld(struct arena *a)
{
    /* as cmake/large-weights.ld; static programs with glibc before 2.38 have one more section of zeros, which would otherwise come last */
    return bytes_of(arena_printf(a, "/* " HEADER_MARK " " FORGEC_VERSION ": for -Wl,-T (docs/embedding.md) */\nSECTIONS {\n"
                                    "    __libc_freeres_ptrs : { *(__libc_freeres_ptrs) }\n"
                                    "    .forge_weights ALIGN(4096) : { KEEP(*(.lrodata.forge_weights)) }\n} INSERT AFTER .bss;\n"));
}

const char *pc_ld(struct arena *a, const char *prefix)
{
    struct text t = { .arena = a };
    text_puts(&t, "-Wl,-T,${libdir}/");
    put_word(&t, prefix);
    text_puts(&t, ".ld");
    return text_str(&t);
}

struct bytes emit_pc(struct arena *a, const char *prefix, const char *target, const char *product, const char *more)
{
    struct text t = { .arena = a };
    text_printf(&t, "# " HEADER_MARK " " FORGEC_VERSION "\nincludedir=${pcfiledir}\nlibdir=${pcfiledir}\n\nName: %s\n", prefix);
    text_printf(&t, "Description: language model for %s\nVersion: " FORGEC_VERSION "\nCflags: -I${includedir}\nLibs: ${libdir}/", target);
    put_word(&t, product);
    text_printf(&t, "%s%s\n", more ? " " : "", more ? more : "");
    return (struct bytes){ (const uint8_t *)t.data, t.size };
}
