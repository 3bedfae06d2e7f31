/* two.c -- two models in one program, each in its own thread; prefixes keep their names apart.
 *     two [PROMPT [TOKENS]]
 * Functions of two prefixes differ only in their names, so one macro writes the same program for each. */
#include "other.h"
#include "story.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct told { const char *prompt, *error; int length; char text[1 << 16]; size_t bytes; };

static void *scratch_of(size_t bytes)
{
    void *p = malloc(bytes);
    if (!p) abort();
    return p;
}

#define TELLER(name, NAME)                                                                                                     \
static void *name##_tell(void *told)                                                                                           \
{                                                                                                                              \
    static unsigned char workspace[NAME##_WORKSPACE_BYTES] __attribute__((aligned(NAME##_ALIGN)));                             \
    static float         logits[NAME##_N_VOCAB];                                                                               \
    static int32_t       tokens[NAME##_N_CTX];                                                                                 \
    struct told *t = told;                                                                                                     \
    struct name *m;                                                                                                            \
    const size_t length = strlen(t->prompt), scratch_bytes = NAME##_ENCODE_SCRATCH(length);                                    \
    void *scratch = scratch_of(scratch_bytes);                                                                                 \
    int64_t status = name##_encode(t->prompt, length, NAME##_SPECIAL | NAME##_ADD_BOS, tokens, NAME##_N_CTX, scratch, scratch_bytes); \
    free(scratch);                                                                                                             \
    const uint32_t n = status < 0 ? 0 : (uint32_t)status;                                                                      \
    if (status >= 0) status = name##_open(&m, workspace, sizeof workspace, NULL);                                              \
    if (status >= 0) status = name##_prefill(m, tokens, n, logits);                                                            \
    for (int i = 0; i < t->length && status == NAME##_OK; i++) {                                                               \
        const int32_t token = name##_sample(m, logits, NULL);                                                                  \
        if (name##_is_end(token)) break;                                                                                       \
        const int64_t bytes = name##_decode(token, t->text + t->bytes, sizeof t->text - t->bytes);                             \
        if (bytes < 0 || (size_t)bytes > sizeof t->text - t->bytes) break;                                                     \
        t->bytes += (size_t)bytes;                                                                                             \
        status = name##_step(m, token, logits);                                                                                \
    }                                                                                                                          \
    if (status < 0 && status != NAME##_CONTEXT_FULL) t->error = name##_strerror((int)status);                                  \
    return NULL;                                                                                                               \
}

TELLER(story, STORY)
TELLER(other, OTHER)

static int show(const char *name, const struct told *t)
{
    printf("%s: ", name);
    fwrite(t->text, 1, t->bytes, stdout);
    printf("\n");
    if (t->error) fprintf(stderr, "two: %s: %s\n", name, t->error);
    return t->error != NULL;
}

int main(int argc, char **argv)
{
    static struct told story, other;
    story.prompt = other.prompt = argc > 1 ? argv[1] : "Once upon a time there was a king who";
    story.length = other.length = argc > 2 ? atoi(argv[2]) : 60;

    pthread_t thread;
    if (pthread_create(&thread, NULL, other_tell, &other) != 0) {
        fprintf(stderr, "two: no thread\n");
        return 1;
    }
    story_tell(&story);
    pthread_join(thread, NULL);
    return show(STORY_NAME, &story) | show(OTHER_NAME, &other);
}
