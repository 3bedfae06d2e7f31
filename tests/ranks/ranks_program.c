/* ranks_program.c -- a hand-written program of two GPUs; fake_driver.c simulates its kernels.  -DRANKS_CUDA: for NVIDIA. */
#include "numbers.h"
#include "runtime/device/gpu.h"

#ifdef RANKS_CUDA
#define API FORGE_GPU_CUDA
#define ARCH "sm_90"
#else
#define API FORGE_GPU_HIP
#define ARCH "gfx942"
#endif
enum { OUTSIDE = -1 };

static const struct forge_gpu_kernel kernels[] = { { "append", 64, 0 }, { "give", 64, 0 }, { "take", 64, 0 }, { "head", 64, 0 },
                                                   { "sample", 64, 0 } };

/* tokens: 1 if the launch has a workgroup for each token. */
#define APPEND(tokens) { .name = "append", .kernel = 0, .layer = 0, .grid_x = 1, .grid_tokens = tokens, .state = STATE_AT }
#define GIVE(tokens, n, at, end) { .name = "give", .kernel = 1, .layer = n, .tail = end, .grid_x = 1, .grid_tokens = tokens, \
                                   .collectives = at, .in_collective = 1, .state = STATE_AT, .weight = { n } }
#define TAKE(tokens, n, at, end) { .name = "take", .kernel = 2, .layer = n, .tail = end, .grid_x = 1, .grid_tokens = tokens, \
                                   .collectives = at, .in_collective = 1, .state = STATE_AT, .weight = { n } }
#define HEAD(tokens, end) { .name = "head", .kernel = 3, .layer = (uint32_t)OUTSIDE, .tail = end, .grid_x = 1, .grid_tokens = tokens, \
                            .state = STATE_AT }
static const struct forge_gpu_launch decode[] = { APPEND(0), GIVE(0, 0, 0, 0), TAKE(0, 0, 0, 0), GIVE(0, 1, 1, 0), TAKE(0, 1, 1, 0),
                                                  HEAD(0, 0) };
/* The second sum is only of tokens with logits. */
static const struct forge_gpu_launch prefill[] = { APPEND(1), GIVE(1, 0, 0, 0), TAKE(1, 0, 0, 0), GIVE(1, 1, 1, FORGE_TAIL_LOGITS),
                                                   TAKE(1, 1, 1, FORGE_TAIL_LOGITS), HEAD(1, FORGE_TAIL_LOGITS) };
/* A third collective without effect: steps of several tokens may have more collectives than decode. */
static const struct forge_gpu_launch columns[] = { APPEND(1), GIVE(1, 0, 0, 0), TAKE(1, 0, 0, 0), GIVE(1, 0, 1, 0), TAKE(1, 0, 1, 0),
                                                   GIVE(1, 1, 2, 1), TAKE(1, 1, 2, 1), HEAD(1, FORGE_TAIL_LOGITS) };

#define STATE(row) { .kind = FORGE_STATE_KV, .offset = STATE_AT, .bytes = N_CTX * row, .runs = 1, .rows = N_CTX, .row_bytes = row, \
                     .back = UINT32_MAX }
static const struct forge_state states[2] = { STATE(ROW_BYTES_0), STATE(ROW_BYTES_1) };

extern const struct forge_program *const ranks_of[2];
#define N(table) sizeof table / sizeof *table
#define GPU(number) { \
    .runtime = &forge_gpu_runtime, .api = API, .arch = ARCH, .code = (const uint8_t *)"code of rank " #number, .code_bytes = 14, \
    .wave = 32, .graph = 1, .n_kernels = N(kernels), .n_decode = N(decode), .n_prefill = N(prefill), .kernels = kernels, .decode = decode, \
    .prefill = prefill, .most_columns = MOST_COLUMNS, .n_columns = N(columns), .columns = columns, .several = 1, \
    .sample = { .name = "sample", .kernel = 4, .layer = (uint32_t)OUTSIDE, .grid_x = 1, .grid_tokens = 1, .collectives = 2, \
                .in_collective = 1, .state = STATE_AT }, \
    .logits_offset = LOGITS_AT, .logits_rows = LOGITS_ROWS, .n_ranks = 2, .ranks = ranks_of, .collective_bytes = COLLECTIVE_BYTES }
static const struct forge_gpu gpus[2] = { GPU(0), GPU(1) };

/* Parts that a rank does not need are absent. */
static const struct forge_program second = {
    .gpu = &gpus[1], .arena_bytes = LOGITS_AT + LOGITS_ROWS * N_VOCAB * 4, .state_bytes = STATE_AT + N_CTX * ROW_BYTES_1, .n_states = 1,
    .states = &states[1], .weights_bytes = WEIGHT_BYTES_1, .weights_offset = 4096 + WEIGHT_BYTES_0 };
const struct forge_program ranks_first = {
    .abi_version = FORGE_ABI_VERSION, .n_vocab = N_VOCAB, .n_ctx = N_CTX, .n_embd = 8, .n_layer = 2, .chunk = CHUNK, .max_logits = CHUNK,
    .gpu = &gpus[0], .arena_bytes = LOGITS_AT + LOGITS_ROWS * N_VOCAB * 4 + 4096, .state_bytes = STATE_AT + N_CTX * ROW_BYTES_0,
    .n_states = 1, .states = &states[0], .weights_bytes = WEIGHT_BYTES_0, .weights_offset = 4096, .read_bytes = WEIGHT_BYTES_0,
    .state_bytes_per_token = ROW_BYTES_0, .n_parameters = 1000, .model_name = "ranks", .architecture = "fake", .formats = "F32 1",
    .model_hash = "0123456789abcdef0123456789abcdef", .weights_hash = "fedcba9876543210fedcba9876543210", .target = ARCH "x2",
    .options = "", .compiler = "by hand", .sampling = { -1, -1, -1, -1, -1, -1 } };
const struct forge_program *const ranks_of[2] = { &ranks_first, &second };

const struct forge_program *const forge_programs[] = { &ranks_first };
const uint32_t forge_n_programs = 1;
const char *const forge_edited_source = NULL;

/* A page of no rank, then bytes 0x50 for the first rank, then 0x51 for the second. */
__asm__(".section .rodata\n.balign 4096\nranks_image: .fill 4096, 1, 0x11\n.fill 4096, 1, 0x50\n.fill 8192, 1, 0x51\n.previous\n");
extern const uint8_t ranks_image[];
const uint8_t *const forge_weights = ranks_image;
