/* defaults.c -- see defaults.h. */
#include "defaults.h"
#include <stdlib.h>
#include <string.h>
#include "runtime/app/options.h"
#include "runtime/chat/template.h"

/* What the table of options does not know: the sizes that the program was built for. NULL: nothing is wrong. */
static const char *beyond_program(struct arena *a, const struct forge_options *o, const struct plan *p)
{
    const char *spec = spec_kind_name[p->options.spec];
    if (o->n_ctx > 0 && (uint32_t)o->n_ctx > p->options.n_ctx)
        return arena_printf(a, "-c %d is more than the context of %u tokens; --ctx makes it longer", o->n_ctx, p->options.n_ctx);
    if (o->chunk > 0 && (uint32_t)o->chunk > p->chunk) return arena_printf(a, "-ub %d is more than the %u tokens of a step", o->chunk, p->chunk);
    if (!p->gpu && o->n_threads > 0 && (uint32_t)o->n_threads > p->options.max_threads)
        return arena_printf(a, "-t %d is more than %u threads; --threads permits more", o->n_threads, p->options.max_threads);
    if (*o->spec && strcmp(o->spec, "none") && strcmp(o->spec, spec))
        return arena_printf(a, "--spec %s: the program is not built to speculate so; give --spec %s to forgec too", o->spec, o->spec);
    for (size_t i = 0; i < o->n_biases; i++)
        if ((uint32_t)o->biases[i].id >= p->model->n_vocab)
            return arena_printf(a, "--logit-bias: token %d, the vocabulary has %u", o->biases[i].id, p->model->n_vocab);
    return NULL;
}

struct bytes defaults_build(struct arena *a, const struct build_options *o, const struct plan *const *plans, uint32_t n, struct bytes chat)
{
    if (!o->defaults) return (struct bytes){ NULL, 0 };
    const struct model *m = plans[0]->model;
    const struct forge_embedding vectors = { m->pooling, !m->causal };
    struct options_scope scope = { .embedding = m->pooling ? &vectors : NULL, .server = o->has_server, .talks = chat.data != NULL,
                                   .converses = chat.data && chat_has(chat.data, NULL), .defaults = o->defaults };
    for (uint32_t i = 0; i < n; i++) *(plans[i]->gpu ? &scope.gpu : &scope.cpu) = true;
    struct forge_options options;
    struct forge_error error = { "" };
    if (options_parse(&options, 0, NULL, &scope, &error) != FORGE_OK) die("--default: %s", error.text);
    if (options.mode > MODE_SERVE || options_write_numbers(&options) || options.no_default)
        die("--default: only options of texts, chats and servers can be defaults; %s cannot",
            options.mode > MODE_SERVE ? "one that measures or tells about the program" : options.no_default ? "--no-default"
            : "one that writes a file of numbers");
    if (options.n_ignored) die("--default: %s has no effect in a program: %s", options.ignored[0].name, options.ignored[0].why);
    for (uint32_t i = 0; i < n; i++) {
        const char *wrong = beyond_program(a, &options, plans[i]);
        if (wrong) die("--default: %s", wrong);
    }
    free(options.default_words);
    return (struct bytes){ (const uint8_t *)o->defaults, strlen(o->defaults) + 1 };
}
