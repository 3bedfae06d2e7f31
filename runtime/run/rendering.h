/* rendering.h -- the text of a conversation in memory from malloc, which grows as the template needs it. */
#ifndef FORGE_RENDERING_H
#define FORGE_RENDERING_H
#include "runtime/chat/template.h"

enum rendering {
    RENDERED,
    RENDERING_REFUSED,          /* error says why */
    RENDERING_TOO_LONG,         /* the text has more than `most` bytes, or 8 n + 64 MiB */
    RENDERING_NO_MEMORY,
};

/* n: bytes of the conversation as JSON; most: of its text.  Memory is linear in n, whatever the template does: at most 256 n + 64 MiB for
 * its work, and twice 8 n + 64 MiB for the text.  out: bytes and input are from malloc if the result is RENDERED, else NULL. */
enum rendering render_conversation(const uint8_t *image, const struct chat_input *in, size_t n, size_t most, struct chat_text *out,
                                   struct chat_error *error);
/* The most bytes of a text that n_ctx tokens of the vocabulary can be; at most FORGE_TOK_MAX_BYTES. */
size_t text_bytes_most(const uint8_t *vocab, uint32_t n_ctx);
#endif
