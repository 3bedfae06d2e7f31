/* library_sizes.c -- the macros of runtime/library as values. */
#include "library_sizes.h"
#include "runtime/library/instance.h"

#define API(name) #name,
const char *const library_api[] = {
#include "runtime/library/api.def"
    NULL };

struct library_sizes library_sizes(uint32_t n_ctx, uint64_t arena_bytes, uint64_t state_bytes)
{
    return (struct library_sizes){
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
