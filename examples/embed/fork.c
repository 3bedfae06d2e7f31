/* fork.c -- one beginning, computed once, and several endings, each in its own sequence; the endings get one token each in turns.
 *     fork [PROMPT [TOKENS]]
 * The first ending always takes the most probable token; the others draw with their own seeds. */
#include "story.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENDINGS = 3 };

static unsigned char workspace[STORY_WORKSPACE_OF(ENDINGS)] __attribute__((aligned(STORY_ALIGN)));
static float         logits[ENDINGS][STORY_N_VOCAB];
static int32_t       tokens[STORY_N_CTX];
static struct ending { char text[1 << 16]; size_t bytes; int ended; } endings[ENDINGS];

static void check(int64_t status, const char *what)
{
    if (status >= 0) return;
    fprintf(stderr, "fork: %s: %s\n", what, story_strerror((int)status));
    exit(1);
}

static uint32_t encode(const char *text)
{
    const size_t bytes = STORY_ENCODE_SCRATCH(strlen(text));
    void *scratch = malloc(bytes);                 /* story_encode reports a NULL */
    const int64_t n = story_encode(text, strlen(text), STORY_SPECIAL | STORY_ADD_BOS, tokens, STORY_N_CTX, scratch, bytes);
    free(scratch);
    check(n, "encode");
    return (uint32_t)n;
}

static void put(struct ending *e, int32_t token)
{
    const int64_t n = story_decode(token, e->text + e->bytes, sizeof e->text - e->bytes);
    if (n < 0 || (size_t)n > sizeof e->text - e->bytes) e->ended = 1;
    else e->bytes += (size_t)n;
}

/* The next token of ending k. */
static void turn(struct story *m, uint32_t k, uint64_t seed)
{
    const struct story_sampling sampling = { .size = sizeof sampling, .temperature = 0.7f, .top_p = 0.9f, .seed = seed };
    check(story_sequence_use(m, k), "sequence");
    const int32_t token = story_sample(m, logits[k], k == 0 ? NULL : &sampling);
    endings[k].ended = story_is_end(token);
    if (endings[k].ended) return;
    put(&endings[k], token);
    const int status = story_step(m, token, logits[k]);
    if (status == STORY_CONTEXT_FULL) endings[k].ended = 1;
    else check(status, "step");
}

int main(int argc, char **argv)
{
    const char *prompt = argc > 1 ? argv[1] : "Once upon a time there was a king who";
    const int length = argc > 2 ? atoi(argv[2]) : 60;
    const struct story_options options = { .size = sizeof options, .n_sequences = ENDINGS };
    struct story *m;
    check(story_open(&m, workspace, sizeof workspace, &options), "open");
    check(story_prefill(m, tokens, encode(prompt), logits[0]), "prompt");
    for (uint32_t k = 1; k < ENDINGS; k++) {
        check(story_sequence_copy(m, k, 0), "copy");
        memcpy(logits[k], logits[0], sizeof logits[0]);
    }
    for (int i = 0; i < length; i++)
        for (uint32_t k = 0; k < ENDINGS; k++)
            if (!endings[k].ended) turn(m, k, i == 0 ? k : 0);     /* a seed starts random numbers, 0 continues them */
    story_close(m);
    for (uint32_t k = 0; k < ENDINGS; k++) {
        if (k > 0) puts("\n--");
        fwrite(endings[k].text, 1, endings[k].bytes, stdout);
    }
    puts("");
    return 0;
}
