/* library_sizes.c -- evaluates macros of runtime/library. */
#include "library_sizes.h"
#include "runtime/library/instance.h"
#include "runtime/chat/answer.h"
#include "runtime/chat/mask.h"
#include "runtime/chat/schema.h"

#define API(name) #name,
const char *const library_api[] = {
#include "runtime/library/api.def"
    NULL };

struct library_sizes library_sizes(uint32_t n_ctx, uint64_t arena_bytes, uint64_t state_bytes)
{
    return (struct library_sizes){
        .abi_version = MODEL_ABI_VERSION,
        .align = LIBRARY_ALIGN,
        .workspace_bytes = LIBRARY_WORKSPACE_BYTES(n_ctx, arena_bytes, state_bytes),
        .sequence_bytes = LIBRARY_SEQUENCE_BYTES(n_ctx, state_bytes),
        .saved_bytes = LIBRARY_SAVE_BYTES(n_ctx, state_bytes),
        .stack_bytes = LIBRARY_STACK_BYTES,
        .scratch_per_byte = LIBRARY_ENCODE_SCRATCH_PER_BYTE,
        .scratch_fixed = LIBRARY_ENCODE_SCRATCH_FIXED,
    };
}

uint64_t library_rows_bytes(uint32_t chunk, uint32_t n_embd) { return LIBRARY_ROWS_BYTES(chunk, n_embd); }

struct library_sizes library_sizes_gpu(uint32_t n_ctx, uint32_t n_kernels, uint64_t state_bytes)
{
    struct library_sizes s = library_sizes(n_ctx, 0, state_bytes);
    s.workspace_bytes = LIBRARY_GPU_WORKSPACE_BYTES(n_ctx, n_kernels);
    s.sequence_bytes = LIBRARY_SEQUENCE_BYTES(n_ctx, LIBRARY_GPU_SEQUENCE_BYTES);
    return s;
}

struct library_text_sizes library_text_sizes(const uint8_t *vocab, uint32_t n_vocab)
{
    const struct lexicon x = { .n_words = (n_vocab + 31) / 32 };
    const uint64_t mask_head = LIBRARY_MASK_HEAD_BYTES + LIBRARY_UP(4 * (uint64_t)x.n_words), probe = 1000;
    return (struct library_text_sizes){
        .chat_per_byte = LIBRARY_CHAT_PER_BYTE, .chat_fixed = LIBRARY_CHAT_FIXED,
        .chat_stack_per_level = LIBRARY_CHAT_STACK_PER_LEVEL, .chat_stack_fixed = LIBRARY_CHAT_STACK_FIXED,
        .answer_usual = LIBRARY_ANSWER_HEAD_BYTES + ANSWER_ROOM, .answer_least = LIBRARY_ANSWER_HEAD_BYTES + ANSWER_ROOM_LEAST,
        .lexicon = LIBRARY_LEXICON_HEAD_BYTES + (vocab ? lexicon_room(vocab, n_vocab) : 0),
        .grammar_per_byte = (grammar_room(probe) - grammar_room(0)) / probe, .grammar_fixed = grammar_room(0),
        .schema_per_byte = (schema_room(probe) - schema_room(0)) / probe, .schema_fixed = schema_room(0),
        .mask_usual = mask_head + mask_usual(&x), .mask_least = mask_head + mask_least(&x), .mask_words = x.n_words,
    };
}
