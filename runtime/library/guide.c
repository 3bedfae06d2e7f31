/* guide.c -- constrained texts of a model library: the grammars and masks of runtime/chat, in memory of the caller. */
#include "instance.h"
#include "runtime/chat/mask.h"
#include "runtime/chat/schema.h"

#define LEXICON_OPEN 0x69786c2e6d6166u           /* "fam.lxi" */
#define MASK_OPEN    0x6b73616d2e6d6166u         /* "fam.mask" */

struct model_lexicon { uint64_t magic; struct lexicon lexicon; };
_Static_assert(sizeof(struct model_lexicon) <= LIBRARY_LEXICON_HEAD_BYTES, "a lexicon fits its part of the memory");

/* Followed by [n_words] bits and the memory of the mask. */
struct model_mask { uint64_t magic; struct mask mask; uint32_t *bits; };
_Static_assert(sizeof(struct model_mask) <= LIBRARY_MASK_HEAD_BYTES, "a mask fits its part of the memory");

static bool is_aligned(const void *memory) { return memory && (uintptr_t)memory % 8 == 0; }

/* ---- the vocabulary in order ---- */

LIBRARY_PUBLIC int model_lexicon_open(struct model_lexicon **out, void *memory, size_t bytes, size_t *used)
{
    const struct forge_program *p = library_program();
    if (!p->vocab) return MODEL_NO_TOKENIZER;
    if (!out || !is_aligned(memory)) return MODEL_BAD_ARGUMENT;
    struct room room = room_of(memory, bytes);
    struct model_lexicon *x = room_take(&room, LIBRARY_LEXICON_HEAD_BYTES);
    if (!x) return MODEL_NO_ROOM;
    x->magic = 0;
    if (!lexicon_make(&x->lexicon, p->vocab, p->n_vocab, &room)) return MODEL_NO_ROOM;
    x->magic = LEXICON_OPEN;
    if (used) *used = room.used;
    *out = x;
    return MODEL_OK;
}

static bool is_lexicon(const struct model_lexicon *x) { return x && x->magic == LEXICON_OPEN; }

/* ---- grammars ---- */

static const struct grammar *image_of(const struct model_grammar *g) { return (const void *)g; }

/* Texts separated by zero bytes, perhaps with one after the last. */
static const struct grammar *read_choices(struct room *room, const char *text, size_t n, struct grammar_error *error)
{
    const size_t mark = room->used;
    size_t count = 0;
    n -= n > 0 && text[n - 1] == 0;
    for (size_t i = 0; i < n; i++) count += text[i] == 0;
    struct grammar_choice *choices = room_array(room, count + 1, sizeof *choices);
    if (!choices) return NULL;
    for (size_t i = 0, from = 0, at = 0; i <= n; i++) {
        if (i < n && text[i] != 0) continue;
        choices[at++] = (struct grammar_choice){ text + from, i - from };
        if (i == from) {
            *error = (struct grammar_error){ 0, 0, "a choice is empty" };
            return NULL;
        }
        from = i + 1;
    }
    const struct grammar *g = grammar_of_choices(room, choices, count + 1, error);
    room->used = mark;
    struct grammar *to = g ? room_take(room, g->bytes) : NULL;     /* overwrites the list */
    if (to) memmove(to, g, g->bytes);
    return to;
}

LIBRARY_PUBLIC int model_grammar_open(const struct model_grammar **out, void *memory, size_t bytes, uint32_t kind, const char *text,
                                      size_t n, size_t *used, struct model_refusal *refusal)
{
    const uint8_t *vocab = library_program()->vocab;
    if (!vocab) return MODEL_NO_TOKENIZER;
    if (!out || !is_aligned(memory) || (!text && n > 0) || kind > MODEL_GRAMMAR_CHOICES) return MODEL_BAD_ARGUMENT;
    struct room room = room_of(memory, bytes);
    struct grammar_error error = { 0 };
    const struct grammar *g = kind == MODEL_GRAMMAR_GBNF ? grammar_read(&room, text, n, vocab, &error)
                            : kind == MODEL_GRAMMAR_SCHEMA ? grammar_of_schema(&room, text, n, NULL, &error)
                            : read_choices(&room, text, n, &error);
    if (!g && room.full) return MODEL_NO_ROOM;
    if (!g) {
        if (!refusal) return MODEL_REFUSED;
        _Static_assert(sizeof refusal->text >= sizeof error.text, "the sentence fits");
        refusal->line = error.line;
        refusal->column = error.column;
        memcpy(refusal->text, error.text, sizeof error.text);
        return MODEL_REFUSED;
    }
    if (used) *used = room.used;
    *out = (const void *)g;
    return MODEL_OK;
}

LIBRARY_PUBLIC const struct model_grammar *model_grammar_built_in(void) { return (const void *)library_grammar; }

/* ---- masks ---- */

static int status_of(enum mask_status status)
{
    switch (status) {
    case MASK_OK:       return MODEL_OK;
    case MASK_REFUSED:  return MODEL_REFUSED;
    case MASK_STUCK:    return MODEL_STUCK;
    case MASK_TOO_MUCH: break;
    }
    return MODEL_NO_ROOM;
}

LIBRARY_PUBLIC int model_mask_open(struct model_mask **out, void *memory, size_t bytes, const struct model_grammar *grammar,
                                   const struct model_lexicon *lexicon)
{
    if (!library_program()->vocab) return MODEL_NO_TOKENIZER;
    if (!out || !is_aligned(memory) || !is_lexicon(lexicon) || !grammar || memcmp(image_of(grammar)->magic, GRAMMAR_MAGIC, 8) != 0)
        return MODEL_BAD_ARGUMENT;
    struct room room = room_of(memory, bytes);
    struct model_mask *k = room_take(&room, LIBRARY_MASK_HEAD_BYTES);
    uint32_t *bits = room_array(&room, lexicon->lexicon.n_words, sizeof *bits);
    if (!k || !bits || !room_take(&room, 0)) return MODEL_NO_ROOM;
    k->magic = 0;
    k->bits = bits;
    const int status = status_of(mask_open(&k->mask, image_of(grammar), &lexicon->lexicon, room.bytes + room.used, room.size - room.used));
    if (status != MODEL_OK) return status;
    k->magic = MASK_OPEN;
    *out = k;
    return MODEL_OK;
}

static bool is_mask(const struct model_mask *k) { return k && k->magic == MASK_OPEN; }

LIBRARY_PUBLIC int model_mask_restart(struct model_mask *k)
{
    return is_mask(k) ? status_of(mask_restart(&k->mask)) : MODEL_BAD_ARGUMENT;
}

LIBRARY_PUBLIC int model_mask_bits(struct model_mask *k, uint32_t *bits)
{
    return is_mask(k) && bits ? status_of(mask_fill(&k->mask, bits)) : MODEL_BAD_ARGUMENT;
}

LIBRARY_PUBLIC int model_mask_logits(struct model_mask *k, float *logits)
{
    if (!is_mask(k) || !logits) return MODEL_BAD_ARGUMENT;
    const int status = status_of(mask_fill(&k->mask, k->bits));
    for (uint32_t i = 0; status == MODEL_OK && i < k->mask.lexicon->n_vocab; i++)
        if (!(k->bits[i / 32] >> i % 32 & 1)) logits[i] = -__builtin_inff();
    return status;
}

LIBRARY_PUBLIC int model_mask_token(struct model_mask *k, int32_t token)
{
    return is_mask(k) ? status_of(mask_token(&k->mask, token)) : MODEL_BAD_ARGUMENT;
}

LIBRARY_PUBLIC int model_mask_text(struct model_mask *k, const char *text, size_t n, size_t *n_read)
{
    return is_mask(k) && (text || n == 0) ? status_of(mask_text(&k->mask, text, n, n_read)) : MODEL_BAD_ARGUMENT;
}

LIBRARY_PUBLIC int model_mask_may_end(const struct model_mask *k) { return is_mask(k) && mask_may_end(&k->mask); }
