/* plan_sources.h -- writes all sources of a plan for any target and checks that they contain nothing dangerous.  Aborts on an error. */
#ifndef FORGEC_PLAN_SOURCES_H
#define FORGEC_PLAN_SOURCES_H
#include "compiler/build/image.h"
#include "compiler/cpu/emit.h"
#include "compiler/gpu/emit.h"
#include "compiler/web/emit.h"

#include <stdlib.h>
#include <string.h>

/* Text of a file must not end the banner's comment, nor put control characters into it. */
static void check_source(struct bytes t)
{
    for (size_t i = 0; i < t.size; i++) if ((t.data[i] < ' ' && t.data[i] != '\n') || t.data[i] == 0x7f) abort();
    if (t.size < 2 || memcmp(t.data, "/*", 2) != 0) return;
    const uint8_t *end = memmem(t.data + 2, t.size - 2, "*/", 2), *last = memmem(t.data, t.size, "compile alone:", 14),
                  *again = memmem(t.data + 2, t.size - 2, "/*", 2);
    if (!end || (last && end < last) || (again && again < end)) abort();
}

static void add_source(struct text *all, struct bytes source)
{
    check_source(source);
    text_append(all, (const char *)source.data, source.size);
}

static struct bytes plan_sources(struct arena *a, const struct plan *p, bool has_vocab)
{
    const struct emit_options o = { .model_hash = "0123", .weights_hash = image_hash(a, p, "0123"), .options = "-", .compiler = "forgec",
                                    .compile_command = "-", .has_vocab = has_vocab };
    struct text all = { .arena = a };
    if (p->web) {
        const char *launches = emit_web_launches(a, p);
        add_source(&all, emit_web(a, p, &o));
        add_source(&all, emit_web_program(a, p, &o));
        add_source(&all, (struct bytes){ (const uint8_t *)launches, strlen(launches) });
    } else if (p->gpu) {
        add_source(&all, emit_gpu(a, p, &o));
        add_source(&all, emit_gpu_program(a, p, &o, 1000));
    } else add_source(&all, emit_cpu(a, p, &o));
    return (struct bytes){ (const uint8_t *)all.data, all.size };
}
#endif
