/* tokens.c -- see tokens.h. */
#include "tokens.h"
#include "runtime/text/tokenize.h"

int64_t chat_tokenize(const uint8_t *vocab, const struct chat_text *text, int32_t *out, size_t capacity, void *scratch,
                      size_t scratch_bytes)
{
    const int32_t bos = forge_vocab_bos(vocab);
    const int64_t n = forge_tokenize_marked(vocab, text->bytes, text->input, text->n, FORGE_TOK_SPECIAL, out, capacity, scratch,
                                            scratch_bytes);
    if (n < 0 || bos < 0 || !forge_vocab_add_bos(vocab) || (n > 0 && out[0] == bos)) return n;
    if ((uint64_t)n >= capacity) return FORGE_TOK_NO_ROOM;
    memmove(out + 1, out, (size_t)n * sizeof *out);
    out[0] = bos;
    return n + 1;
}
