/* test_trap.c -- two models in two threads call every function, while memory functions and system calls for memory abort the process.
 * test_trap GOLDEN_DIR.  Under -fsanitize=thread (run_tsan.sh) without the trap, which the sanitizer would trigger. */
#include "alpha.h"
#include "beta.h"
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define NO_TRAP
#endif
#endif
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define NO_TRAP
#endif

static _Thread_local bool armed;

#ifndef NO_TRAP
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);
static void trap(void)
{
    static const char text[] = "test_trap: a library called an allocator\n";
    if (!armed) return;
    if (write(2, text, sizeof text - 1) < 0) _exit(3);
    _exit(1);
}
/* These functions replace the C library's functions of the same names. */
void *malloc(size_t n)                   { trap(); return __libc_malloc(n); }
void *calloc(size_t n, size_t size)      { trap(); return __libc_calloc(n, size); }
void *realloc(void *p, size_t n)         { trap(); return __libc_realloc(p, n); }
void *aligned_alloc(size_t to, size_t n) { trap(); return __libc_memalign(to, n); }
void  free(void *p)                      { trap(); __libc_free(p); }
void *mmap(void *at, size_t n, int protection, int flags, int fd, long offset);
void *mmap(void *at, size_t n, int protection, int flags, int fd, long offset)
{
    (void)at; (void)n; (void)protection; (void)flags; (void)fd; (void)offset;
    trap();
    return (void *)-1;
}
#endif

static void heard(void *events) { ++*(int *)events; }

enum { PROMPT = 48, GREEDY = 30, ROUNDS = 3 };
static int32_t alpha_prompt[PROMPT], alpha_greedy[GREEDY], beta_prompt[PROMPT], beta_greedy[GREEDY];
static const char *failed_in[2];

/* A conversation, its answer and a mask for a model with a chat template; without a template there is no conversation. */
#define CONVERSE(p, P, index) \
static void p##_hear(void *events, const struct p##_event *e) { if (e->kind == P##_ANSWER_CONTENT) heard(events); } \
static void p##_converse(float *logits) \
{ \
    static const char request[] = "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}", list[] = "yes\0no"; \
    static unsigned char chat_memory[P##_CHAT_BYTES(sizeof request)] __attribute__((aligned(8))), answer_memory[P##_ANSWER_BYTES] \
        __attribute__((aligned(8))), lexicon_memory[P##_LEXICON_BYTES] __attribute__((aligned(8))), grammar_memory[1 << 16] \
        __attribute__((aligned(8))), mask_memory[P##_MASK_BYTES] __attribute__((aligned(8))); \
    static uint32_t bits[P##_MASK_WORDS]; \
    struct p##_chat *chat = NULL; \
    struct p##_answer *answer; \
    struct p##_lexicon *lexicon; \
    const struct p##_grammar *grammar; \
    struct p##_mask *mask; \
    int32_t ids[256]; \
    int events = 0; \
    size_t n; \
    const int status = p##_chat_open(&chat, chat_memory, sizeof chat_memory, request, sizeof request - 1, NULL); \
    if (status != (P##_HAS_CHAT ? P##_OK : P##_NO_TEMPLATE)) failed_in[index] = "chat"; \
    if (P##_HAS_CHAT && (!p##_chat_text(chat, &n) || p##_chat_tokens(chat, ids, 256) <= 0 || \
                         p##_answer_open(&answer, answer_memory, sizeof answer_memory, chat, p##_hear, &events) != P##_OK || \
                         p##_answer_text(answer, "x", 1) != P##_OK || p##_answer_in_reasoning(answer) || \
                         p##_answer_token(answer, ids[0]) != P##_MORE || p##_answer_end(answer) != P##_OK || events == 0)) \
        failed_in[index] = "answer"; \
    if (p##_lexicon_open(&lexicon, lexicon_memory, sizeof lexicon_memory, &n) != P##_OK) failed_in[index] = "lexicon"; \
    else if (p##_grammar_open(&grammar, grammar_memory, sizeof grammar_memory, P##_GRAMMAR_CHOICES, list, sizeof list, &n, NULL) || \
        p##_mask_open(&mask, mask_memory, sizeof mask_memory, P##_HAS_GRAMMAR ? p##_grammar_built_in() : grammar, lexicon) != P##_OK || \
        p##_mask_restart(mask) != P##_OK || p##_mask_bits(mask, bits) != P##_OK || p##_mask_logits(mask, logits) != P##_OK || \
        p##_mask_text(mask, "y", 1, &n) != P##_OK || p##_mask_may_end(mask) || p##_mask_token(mask, -1) != P##_REFUSED || \
        !p##_grammar_built_in() != !P##_HAS_GRAMMAR) failed_in[index] = "mask"; \
}
CONVERSE(alpha, ALPHA, 0)
CONVERSE(beta, BETA, 1)

/* The same function for both models: everything is static, and they share nothing. */
#define EXERCISE(p, P, index) \
static void *p##_exercise(void *unused) \
{ \
    static unsigned char workspace[P##_WORKSPACE_BYTES] __attribute__((aligned(P##_ALIGN))), state[P##_STATE_BYTES],                       \
        scratch[P##_ENCODE_SCRATCH(16)] __attribute__((aligned(8)));                                                                       \
    static float logits[P##_N_VOCAB]; \
    int32_t ids[16]; \
    size_t written; \
    struct p *m; \
    const struct p##_sampling drawn = { .size = sizeof drawn, .temperature = 0.8f, .top_k = 10, .top_p = 0.9f, .min_p = 0.01f,             \
                                        .repeat_penalty = 1.1f, .repeat_last_n = 64 };                                                     \
    (void)unused; \
    armed = true; \
    for (int round = 0; round < ROUNDS && failed_in[index] == NULL; round++) { \
        uint32_t at = 0; \
        char text[32]; \
        const struct p##_options o = { .size = sizeof o, .verify = P##_VERIFY_OPEN }; \
        if (p##_open(&m, workspace, sizeof workspace, &o) != P##_OK) failed_in[index] = "open"; \
        if (p##_prefill(m, p##_prompt, PROMPT, logits) != P##_OK) failed_in[index] = "prefill"; \
        for (int i = 0; i < GREEDY && failed_in[index] == NULL; i++) { \
            const int32_t token = p##_sample(m, logits, NULL); \
            if (token != p##_greedy[i]) failed_in[index] = "another token"; \
            if (p##_begin(m, &token, 1, logits) != P##_OK) failed_in[index] = "begin"; \
            while (p##_step_budget(m, 7) == P##_MORE) { } \
        } \
        if (p##_save(m, state, sizeof state, &written) != P##_OK || p##_reset(m, 1) != P##_OK || p##_restore(m, state, written) != P##_OK) \
            failed_in[index] = "state";                                                                                                    \
        if (p##_sample(m, logits, &drawn) < 0) failed_in[index] = "sample"; \
        if (p##_verify(m, &at, UINT32_MAX, NULL) != P##_OK) failed_in[index] = "verify"; \
        if (P##_HAS_TOKENIZER && (p##_encode("a text, of 16 b.", 16, P##_ADD_BOS, ids, 16, scratch, sizeof scratch) < 0 ||                 \
                                  p##_decode(5, text, sizeof text) < 0))                                                                   \
            failed_in[index] = "text"; \
        if (p##_strerror(0) == NULL || p##_n_past(m) != PROMPT + GREEDY || p##_is_end(p##_bos()) > 1 || p##_eos() < -1)                    \
            failed_in[index] = "the rest";                                                                                                 \
        p##_converse(logits); \
        p##_cancel(m); \
        p##_close(m); \
    } \
    armed = false; \
    return NULL; \
}
EXERCISE(alpha, ALPHA, 0)
EXERCISE(beta, BETA, 1)

static bool read_ids(const char *folder, const char *name, int32_t *ids, int n)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "r");
    bool good = f != NULL;
    for (int i = 0; i < n && good; i++) good = fscanf(f, "%d", &ids[i]) == 1;
    if (f) fclose(f);
    if (!good) fprintf(stderr, "test_trap: cannot read %s\n", path);
    return good;
}

int main(int argc, char **argv)
{
    if (argc != 2) return 2;
    const char *g = argv[1];
    if (!read_ids(g, "q-llama-Q8_0.tokens", alpha_prompt, PROMPT) || !read_ids(g, "q-llama-Q8_0.greedy", alpha_greedy, GREEDY)
        || !read_ids(g, "qwen3-a.tokens", beta_prompt, PROMPT) || !read_ids(g, "qwen3-a.greedy", beta_greedy, GREEDY)) return 2;
    pthread_t a, b;
    if (pthread_create(&a, NULL, alpha_exercise, NULL) != 0 || pthread_create(&b, NULL, beta_exercise, NULL) != 0) return 2;
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    for (int i = 0; i < 2; i++)
        if (failed_in[i] != NULL) fprintf(stderr, "test_trap: %s: %s\n", i ? "beta" : "alpha", failed_in[i]);
    puts(failed_in[0] || failed_in[1] ? "test_trap: failed" : "test_trap: ok");
    return failed_in[0] || failed_in[1];
}
