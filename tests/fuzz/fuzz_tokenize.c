/* fuzz_tokenize.c -- libFuzzer: any text is tokenised within the promised buffers, and any metadata gives such a vocabulary or one error
 * message.  First byte: bits 0-1: the flags, bits 2-4: the vocabulary, 7: the rest is a GGUF file.
 * Vocabularies: those that the build unpacks; seeds: their .gguf files, after a byte 0x80. */
#include "compiler/product/vocab.h"
#include "runtime/text/tokenize.h"
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define GGUF_PREFIX 1
#include "mutate_gguf.h"

static const char *const names[8] = { "fairytale", "tiny-gemma3-a", "tiny-phi3-a", "tiny-gpt-oss-a", "tiny-llama-a", "tiny-granite-a",
                                      "bert-bge", "made-unigram" };
static const uint8_t *vocabularies[8];
static jmp_buf        jump;

static void on_die(const char *message)
{
    if (strchr(message, '\n') || !*message) abort();
    longjmp(jump, 1);
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    struct arena *a      = arena_create();
    for (size_t i = 0; i < COUNT_OF(names); i++)
        vocabularies[i] = vocab_build(a, gguf_open(a, arena_printf(a, FORGEC_UNPACKED "/tokenizers/%s.gguf", names[i]), true), 0).data;
    die_handler = on_die;
    return 0;                                              /* the arena is never freed: the images are in it */
}

static void check_text(const uint8_t *vocab, const uint8_t *text, size_t n, uint32_t flags)
{
    const size_t  scratch_bytes = forge_tokenize_scratch(n), capacity = FORGE_TOK_MOST(n);
    void         *scratch = malloc(scratch_bytes);
    int32_t      *ids     = malloc(capacity * sizeof *ids);
    char         *copy    = malloc(n ? n : 1);             /* exact size: sanitizers find a read past the end */
    if (!scratch || !ids || !copy) abort();
    if (n) memcpy(copy, text, n);
    const int64_t n_ids = forge_tokenize(vocab, copy, n, flags, ids, capacity, scratch, scratch_bytes);
    if (n_ids < 0) abort();
    if (n_ids > 0 && forge_tokenize(vocab, copy, n, flags, ids, (size_t)n_ids - 1, scratch, scratch_bytes) != FORGE_TOK_NO_ROOM) abort();
    for (int64_t i = 0; i < 2 * n_ids; i++) {
        const int32_t id = ids[i / 2];
        if (id < 0 || (uint32_t)id >= forge_vocab_n_tokens(vocab)) abort();
        const size_t n_text = forge_token_text(vocab, id, i % 2, NULL, 0);
        char *piece = malloc(n_text ? n_text : 1);
        if (!piece || forge_token_text(vocab, id, i % 2, piece, n_text) != n_text) abort();
        free(piece);
    }
    free(copy);
    free(ids);
    free(scratch);
}

static void check_metadata(const uint8_t *data, size_t size)
{
    static const char text[] = " Hello  world's 1234 <s></s> \n\xe2\x96\x81\xff\xe4\xb8\xad";
    struct arena *a = arena_create();
    if (setjmp(jump) == 0) {
        const struct bytes image = vocab_build(a, gguf_parse(a, "fuzz.gguf", data, size, true), 0);
        for (uint32_t flags = 0; image.data && flags < 4; flags++) check_text(image.data, (const uint8_t *)text, sizeof text, flags);
        if (image.data) check_text(image.data, data + size / 2, size - size / 2, FORGE_TOK_SPECIAL);
    }
    arena_destroy(a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) return 0;
    if (data[0] & 0x80) check_metadata(data + 1, size - 1);
    else check_text(vocabularies[data[0] >> 2 & 7], data + 1, size - 1, data[0] & 3);
    return 0;
}
