/* own.c -- a user's own module that contains a model's object: computes greedy tokens after the tokens that JavaScript puts into room(). */
#include "own.h"

void *memcpy(void *to, const void *from, size_t n)  { return __builtin_memcpy(to, from, n); }
void *memmove(void *to, const void *from, size_t n) { return __builtin_memmove(to, from, n); }
void *memset(void *to, int byte, size_t n)          { return __builtin_memset(to, byte, n); }

#define EXPORT __attribute__((visibility("default"), used))
static int32_t tokens[OWN_N_CTX];
static float logits[OWN_N_VOCAB];
static unsigned char workspace[OWN_WORKSPACE_BYTES] __attribute__((aligned(OWN_ALIGN)));

EXPORT int32_t *room(void) { return tokens; }

/* Returns the number of tokens in room(), or a negative status. */
EXPORT int greedy(uint32_t n_prompt, uint32_t n)
{
    struct own *m;
    int status = own_open(&m, workspace, sizeof workspace, NULL);
    if (status == OWN_OK) status = own_prefill(m, tokens, n_prompt, logits);
    for (uint32_t i = 0; status == OWN_OK && i < n; i++) {
        tokens[i] = own_sample(m, logits, NULL);
        if (i + 1 < n) status = own_step(m, tokens[i], logits);
    }
    return status == OWN_OK ? (int)n : status;
}
