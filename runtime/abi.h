/* abi.h -- the contract between an emitted program and the runtime: weights in, logits out, a list of launches.
 * Pasted into every emitted source; constants and structs only, no functions. */
#ifndef FORGE_ABI_H
#define FORGE_ABI_H
#include <stdint.h>

enum {
    FORGE_ABI_VERSION = 1,
    FORGE_MAX_WEIGHTS = 12,       /* tensors one launch may read */
};

/* One step: n_tokens tokens at positions n_past .. n_past + n_tokens - 1. Same for all threads, constant while it runs. */
struct forge_args {
    const uint8_t *weights;       /* weight image, 64-byte aligned */
    uint8_t       *arena;         /* activations, forge_program.arena_bytes, 64-byte aligned */
    uint8_t       *kv;            /* KV cache, forge_program.kv_bytes, 64-byte aligned */
    const int32_t *tokens;        /* [n_tokens], each < n_vocab */
    float         *logits;        /* [n_logits][n_vocab] f32 */
    uint32_t       n_tokens;      /* 1 in decode, 1 .. chunk in prefill */
    uint32_t       n_past;        /* n_past + n_tokens <= n_ctx */
    uint32_t       n_logits;      /* logits wanted for the last n_logits of the n_tokens; decode: 0 or 1 */
};

struct forge_launch;
/* Does thread's share of one fused kernel.  Between two launches all threads meet at a barrier. */
typedef void forge_kernel(const struct forge_args *args, const struct forge_launch *launch, uint32_t thread, uint32_t n_threads);

struct forge_launch {
    forge_kernel *kernel;
    const char   *name;                          /* "ffn_gate_up" */
    uint32_t      layer;                         /* 0xffffffff: outside the layers */
    uint32_t      tail;                          /* 1: only the last n_logits tokens of a prefill step matter from here on */
    uint32_t      unless_divides;                /* > 0: nothing to do when the number of threads divides this; such launches are left out */
    uint32_t      joins_divides;                 /* > 0: when the number of threads divides this, each thread reads only what it wrote itself in the
                                                  * launch before, and the barrier between the two is left out */
    uint64_t      kv;                            /* byte offset of its layer in the KV cache */
    uint64_t      weight[FORGE_MAX_WEIGHTS];     /* byte offsets of its tensors in the weight image */
};

/* Sampling defaults from general.sampling.*; negative = not given. */
struct forge_sampling { float temp, top_p, min_p, repeat_penalty; int32_t top_k; int32_t repeat_last_n; };

struct forge_program {
    uint32_t    abi_version;
    uint32_t    n_vocab, n_ctx, n_embd, n_layer;
    uint32_t    chunk;                           /* most tokens in one prefill step */
    uint32_t    max_threads;                     /* arena holds scratch for so many */
    uint32_t    n_decode, n_prefill;
    const struct forge_launch *decode;           /* [n_decode], n_tokens == 1 */
    const struct forge_launch *prefill;          /* [n_prefill], any n_tokens <= chunk */
    uint64_t    arena_bytes, kv_bytes, weights_bytes;
    uint64_t    read_bytes;                      /* weight bytes read per decoded token */
    uint64_t    kv_bytes_per_token;              /* KV bytes one position holds */
    uint64_t    n_parameters;
    const char *model_name;                      /* general.name, printable ASCII */
    const char *architecture;
    const char *formats;                         /* "Q8_0 57, F32 17" */
    const char *model_hash;                      /* XXH3-128 of the GGUF, hex */
    const char *weights_hash;                    /* XXH3-128 of the packed image's layout and model, hex: external weights must match */
    const char *target;                          /* profile name */
    const char *options;                         /* "--fuse layer --kv f16" */
    const char *compiler;                        /* "forgec 0.1.0, clang 19.1.7" */
    const char *const *features;                 /* CPU features it needs (runtime/cpu_features.def), NULL-terminated */
    const uint8_t *vocab;                        /* vocabulary image (runtime/vocab.h), or NULL: token ids only */
    const char *chat_template;                   /* tokenizer.chat_template or NULL */
    struct forge_sampling sampling;
};

/* Defined by the emitted link table: the programs of this executable, best first. */
extern const struct forge_program *const forge_programs[];
extern const uint32_t forge_n_programs;
/* The weight image, NULL when it is external (-m FILE) or absent. */
extern const uint8_t *const forge_weights;
/* Magic at the start of an external weight file: 64-byte header, then the image at offset 4096. */
#define FORGE_WEIGHTS_MAGIC "FORGEW01"
struct forge_weights_header { char magic[8]; uint64_t image_bytes; char weights_hash[33]; char reserved[15]; };
_Static_assert(sizeof(struct forge_weights_header) == 64, "external weight file: 64-byte header");
#endif
