/* rendering.c -- see rendering.h. */
#include <stdlib.h>
#include <string.h>
#include "rendering.h"
#include "runtime/model/vocab.h"
#include "runtime/text/tokenize.h"

enum { FIRST_TEXT = 64 << 10, MOST = 64 << 20, GROWS = 8 };

size_t text_bytes_most(const uint8_t *vocab, uint32_t n_ctx)
{
    struct forge_vocab_header h;
    memcpy(&h, vocab, sizeof h);
    /* Unigram leaves out blanks, WordPiece takes a whole word for one unknown token; form C makes at most a third of three bytes */
    if (h.kind != FORGE_VOCAB_BPE && h.kind != FORGE_VOCAB_SPM) return FORGE_TOK_MAX_BYTES;
    const size_t token = (size_t)h.max_token_bytes * (h.flags & FORGE_VOCAB_NFC ? 3 : 1);
    return token > FORGE_TOK_MAX_BYTES / n_ctx ? FORGE_TOK_MAX_BYTES : token * n_ctx;
}

enum rendering render_conversation(const uint8_t *image, const struct chat_input *in, size_t n, size_t most, struct chat_text *out,
                                   struct chat_error *error)
{
    const size_t most_work = 256 * n + MOST, most_text = most < 8 * n + MOST ? most : 8 * n + MOST;
    for (size_t size = FIRST_TEXT + 2 * n, bytes = chat_room(n) / GROWS; ; ) {
        if (size > most_text) size = most_text;
        if (bytes > most_work) bytes = most_work;
        void *const block = malloc(bytes);
        struct room work = room_of(block, bytes);
        *out = (struct chat_text){ malloc(size), malloc(size), size, 0 };
        const bool memory = block && out->bytes && out->input;
        const bool fine = memory && chat_render(image, NULL, in, &work, out, error);
        free(block);
        if (fine) return RENDERED;
        free(out->bytes);
        free(out->input);
        *out = (struct chat_text){ 0 };
        if (!memory) return RENDERING_NO_MEMORY;
        if (error->fault == CHAT_NO_ROOM && bytes < most_work) bytes *= GROWS;
        else if (error->fault == CHAT_NO_SPACE && size < most_text) size *= GROWS;
        else return error->fault == CHAT_NO_SPACE ? RENDERING_TOO_LONG : RENDERING_REFUSED;
    }
}
