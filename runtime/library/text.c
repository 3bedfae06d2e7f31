/* text.c -- the tokenizer of a model library: checks around runtime/text/tokenize.c.  It needs no instance. */
#include "instance.h"
#include "runtime/text/tokenize.h"

_Static_assert((int)MODEL_SPECIAL == (int)FORGE_TOK_SPECIAL && (int)MODEL_ADD_BOS == (int)FORGE_TOK_ADD, "flags pass through");

static const uint8_t *vocab(void) { return library_program()->vocab; }

/* Is n small enough that MODEL_ENCODE_SCRATCH(n) bytes can be addressed at all? */
static bool text_fits(size_t n)
{
    return n <= FORGE_TOK_MAX_BYTES && n <= (SIZE_MAX - LIBRARY_ENCODE_SCRATCH_FIXED) / LIBRARY_ENCODE_SCRATCH_PER_BYTE;
}

LIBRARY_PUBLIC int64_t model_encode(const char *text, size_t n, uint32_t flags, int32_t *out, size_t capacity, void *scratch,
                                    size_t scratch_bytes)
{
    if (!vocab()) return MODEL_NO_TOKENIZER;
    if ((!text && n > 0) || (!out && capacity > 0) || !scratch || (uintptr_t)scratch % 8 != 0 || !text_fits(n))
        return MODEL_BAD_ARGUMENT;
    if (flags & ~(uint32_t)(MODEL_SPECIAL | MODEL_ADD_BOS)) return MODEL_BAD_ARGUMENT;
    const int64_t count = forge_tokenize(vocab(), text, n, flags, out, capacity, scratch, scratch_bytes);
    return count >= 0 ? count : count == FORGE_TOK_TOO_LONG ? MODEL_BAD_ARGUMENT : MODEL_NO_ROOM;
}

LIBRARY_PUBLIC int64_t model_decode(int32_t token, char *out, size_t capacity)
{
    if (!vocab()) return MODEL_NO_TOKENIZER;
    if (token < 0 || (uint32_t)token >= forge_vocab_n_tokens(vocab()) || (!out && capacity > 0)) return MODEL_BAD_ARGUMENT;
    return (int64_t)forge_token_text(vocab(), token, false, out, capacity);
}

LIBRARY_PUBLIC int32_t model_bos(void) { return !vocab() ? -1 : forge_vocab_bos(vocab()); }
LIBRARY_PUBLIC int32_t model_eos(void) { return !vocab() ? -1 : forge_vocab_eos(vocab()); }

LIBRARY_PUBLIC int model_is_end(int32_t token)
{
    return token < 0 || (vocab() && forge_vocab_is_eog(vocab(), token));
}
