/* guide.c -- see guide.h: memory for grammars and masks, and their statuses as messages for users. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "guide.h"
#include "runtime/chat/mask.h"
#include "runtime/chat/schema.h"

struct forge_guide {
    struct mask mask;
    void     *grammar, *memory;
    uint32_t *bits;              /* [lexicon->n_words] */
};

uint32_t guide_image_bytes(const uint8_t *image) { return ((const struct grammar *)(const void *)image)->bytes; }

enum forge_status guide_lexicon(struct lexicon **out, const struct forge_program *p, struct forge_error *error)
{
    *out = NULL;
    if (!p->vocab) return error_set(error, FORGE_USAGE, "the model has no tokenizer: a grammar needs the texts of its tokens");
    const size_t bytes = lexicon_room(p->vocab, p->n_vocab);
    struct lexicon *x = malloc(sizeof *x + bytes);
    if (!x) return error_set(error, FORGE_NO_MEMORY, "out of memory for the order of %u tokens", p->n_vocab);
    struct room r = room_of(x + 1, bytes);
    if (!lexicon_make(x, p->vocab, p->n_vocab, &r)) {
        free(x);
        return error_set(error, FORGE_FAILED, "the vocabulary of %u tokens is too large for grammars", p->n_vocab);
    }
    *out = x;
    return FORGE_OK;
}

static size_t room_bytes(const struct guide_source *s)
{
    size_t n = 0;
    for (size_t i = 0; s->kind == GUIDE_CHOICES && i < s->n; i++) n += 4 * strlen(s->choices[i]) + 64;
    return s->kind == GUIDE_SCHEMA ? schema_room(s->n) : grammar_room(s->kind == GUIDE_GRAMMAR ? s->n : n);
}

static const struct grammar *read_choices(struct room *r, const struct guide_source *s, struct grammar_error *e)
{
    struct grammar_choice *c = malloc((s->n + 1) * sizeof *c);
    if (!c) { *e = (struct grammar_error){ 0, 0, "out of memory for the choices" }; return NULL; }
    for (size_t i = 0; i < s->n; i++) c[i] = (struct grammar_choice){ s->choices[i], strlen(s->choices[i]) };
    const struct grammar *g = grammar_of_choices(r, c, s->n, e);
    free(c);
    return g;
}

static enum forge_status read_source(struct forge_guide *g, const struct guide_source *s, const struct lexicon *x, const char *name,
                                     const struct grammar **grammar, struct forge_error *error)
{
    const size_t bytes = room_bytes(s);
    struct grammar_error e;
    if (!(g->grammar = malloc(bytes))) return error_set(error, FORGE_NO_MEMORY, "out of memory for %s", name);
    struct room r = room_of(g->grammar, bytes);
    *grammar = s->kind == GUIDE_GRAMMAR ? grammar_read(&r, s->text, s->n, x->vocab, &e)
             : s->kind == GUIDE_SCHEMA ? grammar_of_schema(&r, s->text, s->n, s->warnings, &e) : read_choices(&r, s, &e);
    if (!*grammar && e.line > 0) return error_set(error, FORGE_USAGE, "%s: line %u, column %u: %s", name, e.line, e.column, e.text);
    if (!*grammar) return error_set(error, FORGE_USAGE, "%s: %s", name, e.text);
    void *small = realloc(g->grammar, (*grammar)->bytes);    /* the grammar lies at the front */
    if (small) *grammar = g->grammar = small;
    return FORGE_OK;
}

static enum forge_status failed(enum mask_status status, struct forge_error *error)
{
    switch (status) {
    case MASK_STUCK:
        return error_set(error, FORGE_FAILED, "no token of the vocabulary can continue the text as the grammar requires here");
    case MASK_REFUSED:
        return error_set(error, FORGE_FAILED, "the logit biases exclude every token that the grammar allows");
    case MASK_TOO_MUCH:
        return error_set(error, FORGE_USAGE, "the grammar can read the text in too many ways, or nests too deep; "
                         "let alternatives begin differently");
    case MASK_OK: break;
    }
    return FORGE_OK;
}

enum forge_status guide_open(struct forge_guide **out, const struct guide_source *source, const struct lexicon *lexicon, const char *name,
                             struct forge_error *error)
{
    const size_t bytes = mask_usual(lexicon);
    const struct grammar *grammar = NULL;
    struct forge_guide *g = *out = calloc(1, sizeof *g);
    if (!g) return error_set(error, FORGE_NO_MEMORY, "out of memory for %s", name);
    g->memory = malloc(bytes);
    g->bits = malloc(lexicon->n_words * sizeof *g->bits);
    enum forge_status status = g->memory && g->bits ? FORGE_OK : error_set(error, FORGE_NO_MEMORY, "out of memory for %s", name);
    if (source->kind == GUIDE_IMAGE) grammar = (const void *)source->text;
    else if (status == FORGE_OK) status = read_source(g, source, lexicon, name, &grammar, error);
    if (status == FORGE_OK) status = failed(mask_open(&g->mask, grammar, lexicon, g->memory, bytes), error);
    if (status == FORGE_OK && mask_fill(&g->mask, g->bits) == MASK_TOO_MUCH)     /* a grammar that is too wide from the beginning */
        status = error_set(error, FORGE_USAGE, "%s: a text can begin in too many ways; let alternatives begin differently", name);
    if (status == FORGE_OK) return FORGE_OK;
    guide_close(g);
    *out = NULL;
    return status;
}

void guide_close(struct forge_guide *g)
{
    if (!g) return;
    free(g->grammar);
    free(g->memory);
    free(g->bits);
    free(g);
}

struct guide_source guide_shared(const struct forge_guide *g)
{
    const struct grammar *grammar = g->mask.grammar;
    return (struct guide_source){ .kind = GUIDE_IMAGE, .text = (const void *)grammar, .n = grammar->bytes };
}

enum forge_status guide_restart(struct forge_guide *g, struct forge_error *error) { return failed(mask_restart(&g->mask), error); }

enum forge_status guide_mask(struct forge_guide *g, const uint32_t **bits, bool *ended, struct forge_error *error)
{
    const enum mask_status status = mask_fill(&g->mask, g->bits);
    *bits = status == MASK_OK ? g->bits : NULL;
    *ended = status == MASK_STUCK && mask_may_end(&g->mask);
    return *ended ? FORGE_OK : failed(status, error);
}

enum forge_status guide_accept(struct forge_guide *g, int32_t token, struct forge_error *error)
{
    return failed(mask_token(&g->mask, token), error);
}

enum forge_status guide_text(struct forge_guide *g, const char *text, size_t n, struct forge_error *error)
{
    return failed(mask_text(&g->mask, text, n, NULL), error);
}

bool guide_is_complete(const struct forge_guide *g) { return mask_is_complete(&g->mask); }

void guide_logits(const uint32_t *bits, float *logits, uint32_t n_vocab)
{
    for (uint32_t i = 0; i < n_vocab; i++) if (!(bits[i / 32] >> i % 32 & 1)) logits[i] = -INFINITY;
}
