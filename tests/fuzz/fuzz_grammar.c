/* fuzz_grammar.c -- libFuzzer: any text as a grammar or, if its first byte is odd, as a JSON schema is read or refused within the given
 * room; then some tokens are drawn by its masks.  Vocabulary: tiny-llama-a.gguf. */
#include <stdlib.h>
#include <string.h>
#include "compiler/product/vocab.h"
#include "runtime/chat/mask.h"
#include "runtime/chat/schema.h"
#include "runtime/text/tokenize.h"

static struct lexicon lexicon;
static void *memory;
static uint32_t *bits;

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    struct arena *a = arena_create();
    const uint8_t *vocab = vocab_build(a, gguf_open(a, FORGEC_UNPACKED "/tokenizers/tiny-llama-a.gguf", true), 0).data;
    const size_t bytes = lexicon_room(vocab, forge_vocab_n_tokens(vocab));
    struct room r = room_of(malloc(bytes), bytes);
    if (!lexicon_make(&lexicon, vocab, forge_vocab_n_tokens(vocab), &r)) abort();
    memory = malloc(mask_least(&lexicon) + (1 << 18));
    bits = malloc(lexicon.n_words * sizeof *bits);
    return 0;                                              /* the arena stays: the vocabulary is in it */
}

/* The allowed token that the next byte of the input chooses. */
static int32_t chosen(uint32_t by)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < lexicon.n_vocab; i++) n += bits[i / 32] >> i % 32 & 1;
    by = by * 2654435761u % n;
    for (uint32_t i = 0; i < lexicon.n_vocab; i++) if ((bits[i / 32] >> i % 32 & 1) && by-- == 0) return (int32_t)i;
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) return 0;
    const size_t n = size - 1, room_bytes = (size_t)1 << (18 + (data[0] >> 1) % 4);
    char *text = malloc(n);
    void *block = malloc(room_bytes);
    struct room r = room_of(block, room_bytes);
    struct grammar_error error;
    struct mask m;
    memcpy(text, data + 1, n);
    const struct grammar *g = data[0] & 1 ? grammar_of_schema(&r, text, n, NULL, &error) : grammar_read(&r, text, n, lexicon.vocab, &error);
    if (!g && (error.text[0] == 0 || strlen(error.text) >= sizeof error.text || strchr(error.text, '\n') || r.used != 0)) abort();
    enum mask_status status = g ? mask_open(&m, g, &lexicon, memory, mask_least(&lexicon) + (1 << 18)) : MASK_REFUSED;
    for (uint32_t step = 0; status == MASK_OK && step < 24 && !m.ended; step++) {
        if ((status = mask_fill(&m, bits)) != MASK_OK) break;
        status = mask_token(&m, chosen(data[step % size] + step));
        if (status == MASK_REFUSED || status == MASK_STUCK) abort();     /* a token that a mask allows must be accepted */
    }
    free(block);
    free(text);
    return 0;
}
