/* grammar.c -- see grammar.h. */
#include "grammar.h"
#include "runtime/chat/schema.h"

struct bytes grammar_build(struct arena *a, const char *grammar_path, const char *schema_path, struct bytes vocab)
{
    const char *path = grammar_path ? grammar_path : schema_path;
    if (!vocab.data) die("%s: the model has no tokenizer: a grammar needs the texts of its tokens", path);
    input_remember(a, path);
    const struct bytes text = file_read_most(a, path, GRAMMAR_MOST_BYTES);
    struct grammar_error e;
    struct arena *work = arena_create();
    const size_t bytes = grammar_path ? grammar_room(text.size) : schema_room(text.size);
    struct room r = room_of(arena_array(work, uint8_t, bytes), bytes);
    const struct grammar *g = grammar_path ? grammar_read(&r, (const char *)text.data, text.size, vocab.data, &e)
                                           : grammar_of_schema(&r, (const char *)text.data, text.size, NULL, &e);
    if (!g) die_at((struct place){ path, e.line, e.column }, "%s", e.text);
    uint8_t *image = arena_array(a, uint8_t, g->bytes);
    memcpy(image, g, g->bytes);
    const struct bytes result = { image, g->bytes };
    arena_destroy(work);
    return result;
}
