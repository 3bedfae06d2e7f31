/* library_sizes.c -- the macros of runtime/library as values. */
#include "library_sizes.h"
#include "runtime/library/instance.h"

#define API(name) #name,
const char *const embed_api[] = {
#include "runtime/library/api.def"
    NULL };

struct embed_sizes embed_sizes(uint32_t n_ctx, uint64_t arena_bytes, uint64_t kv_bytes)
{
    return (struct embed_sizes){ .align = EMBED_ALIGN, .workspace_bytes = EMBED_WORKSPACE_BYTES(n_ctx, arena_bytes, kv_bytes), .saved_bytes = EMBED_SAVE_BYTES(n_ctx, kv_bytes),
                                 .stack_bytes = EMBED_STACK_BYTES, .scratch_per_byte = EMBED_ENCODE_SCRATCH_PER_BYTE, .scratch_fixed = EMBED_ENCODE_SCRATCH_FIXED };
}

struct embed_sizes embed_sizes_gpu(uint32_t n_ctx, uint32_t n_kernels, uint64_t kv_bytes)
{
    struct embed_sizes s = embed_sizes(n_ctx, 0, kv_bytes);
    s.workspace_bytes = EMBED_GPU_WORKSPACE_BYTES(n_ctx, n_kernels);
    return s;
}
