/* library_sizes.h -- the sizes of a library's memory from runtime/library/instance.h. Its numbers are upper bounds, valid for the target
 * and for this machine. This is a separate file because that header and the compiler each have a struct model. */
#ifndef FORGEC_LIBRARY_SIZES_H
#define FORGEC_LIBRARY_SIZES_H
#include <stdint.h>

struct library_sizes {
    uint32_t abi_version, align;
    uint64_t workspace_bytes;          /* all memory of an instance with one sequence */
    uint64_t sequence_bytes;           /* of each further sequence */
    uint64_t saved_bytes;              /* maximum that NAME_save writes */
    uint64_t stack_bytes;
    uint32_t scratch_per_byte, scratch_fixed;      /* scratch memory of NAME_encode, per byte of text and fixed */
};
struct library_sizes library_sizes(uint32_t n_ctx, uint64_t arena_bytes, uint64_t state_bytes);
/* The same if arena and states are on a GPU. */
struct library_sizes library_sizes_gpu(uint32_t n_ctx, uint32_t n_kernels, uint64_t state_bytes);

/* Memory for conversations, answers and masks, in bytes; *_per_byte is per byte of text. */
struct library_text_sizes {
    uint64_t chat_per_byte, chat_fixed, chat_stack_per_level, chat_stack_fixed;
    uint64_t answer_usual, answer_least, lexicon, grammar_per_byte, grammar_fixed, schema_per_byte, schema_fixed;
    uint64_t mask_usual, mask_least, mask_words;
};
/* vocab: NULL: the model has no tokenizer. */
struct library_text_sizes library_text_sizes(const uint8_t *vocab, uint32_t n_vocab);
/* Further bytes in the workspace of a model that makes embeddings. */
uint64_t library_rows_bytes(uint32_t chunk, uint32_t n_embd);
/* The functions of the API without their prefix ("open"), NULL-terminated: runtime/library/api.def. */
extern const char *const library_api[];
#endif
