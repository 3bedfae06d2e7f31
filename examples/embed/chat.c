/* chat.c -- a conversation by the model's chat template; the answer is JSON that satisfies a schema.  All memory is static.
 *     chat [TEXT [SEED]] */
#include "story.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REQUEST = 4096, TOKENS = 400 };
static const char schema[] = "{\"type\": \"object\", \"properties\": {\"who\": {\"type\": \"string\", \"maxLength\": 30},"
                             "\"mood\": {\"enum\": [\"merry\", \"sad\"]},"
                             "\"years\": {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 99}},"
                             "\"required\": [\"who\", \"mood\", \"years\"]}";

static unsigned char workspace[STORY_WORKSPACE_BYTES] __attribute__((aligned(STORY_ALIGN)));
static unsigned char chat_memory[STORY_CHAT_BYTES(REQUEST)] __attribute__((aligned(8)));
static unsigned char answer_memory[STORY_ANSWER_BYTES] __attribute__((aligned(8)));
static unsigned char lexicon_memory[STORY_LEXICON_BYTES] __attribute__((aligned(8)));
static unsigned char grammar_memory[STORY_SCHEMA_BYTES(sizeof schema)] __attribute__((aligned(8)));
static unsigned char mask_memory[STORY_MASK_BYTES] __attribute__((aligned(8)));
static float         logits[STORY_N_VOCAB];
static int32_t       tokens[STORY_N_CTX];
static char          request[REQUEST];
static struct story_refusal refusal;

static void check(int64_t status, const char *what)
{
    if (status >= 0) return;
    fprintf(stderr, "chat: %s: %s\n", what, status == STORY_REFUSED && refusal.text[0] ? refusal.text : story_strerror((int)status));
    exit(1);
}

/* {"messages": [{"role": "user", "content": TEXT}]} */
static size_t make_request(const char *text)
{
    size_t n = (size_t)snprintf(request, sizeof request, "{\"messages\": [{\"role\": \"user\", \"content\": \"");
    for (; *text && n + 16 < sizeof request; text++) {
        if (*text == '"' || *text == '\\') request[n++] = '\\';
        request[n++] = (unsigned char)*text < 0x20 ? ' ' : *text;
    }
    return n + (size_t)snprintf(request + n, sizeof request - n, "\"}]}");
}

/* Models with reasoning and tool calls report them here, too. */
static void hear(void *context, const struct story_event *e)
{
    (void)context;
    if (e->kind == STORY_ANSWER_CONTENT) fwrite(e->text, 1, e->n, stdout);
}

int main(int argc, char **argv)
{
    const size_t n_request = make_request(argc > 1 ? argv[1] : "Once upon a time there was a king.");
    struct story_sampling sampling = { .size = sizeof sampling, .temperature = 0.8f, .top_p = 0.95f,
                                       .seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1 };
    struct story *m;
    struct story_chat *chat;
    struct story_answer *answer;
    struct story_lexicon *lexicon;
    const struct story_grammar *grammar;
    struct story_mask *mask;
    int status = STORY_MORE;

    const struct story_chat_options options = { .size = sizeof options, .refusal = &refusal };
    check(story_chat_open(&chat, chat_memory, sizeof chat_memory, request, n_request, &options), "request");
    const int64_t n = story_chat_tokens(chat, tokens, STORY_N_CTX);
    check(n, "tokens");
    check(story_answer_open(&answer, answer_memory, sizeof answer_memory, chat, hear, NULL), "answer");
    check(story_lexicon_open(&lexicon, lexicon_memory, sizeof lexicon_memory, NULL), "lexicon");
    check(story_grammar_open(&grammar, grammar_memory, sizeof grammar_memory, STORY_GRAMMAR_SCHEMA, schema, sizeof schema - 1, NULL,
                             &refusal), "schema");
    check(story_mask_open(&mask, mask_memory, sizeof mask_memory, grammar, lexicon), "mask");

    check(story_open(&m, workspace, sizeof workspace, NULL), "open");
    check(story_prefill(m, tokens, (uint32_t)n, logits), "prompt");
    for (int i = 0; i < TOKENS && status == STORY_MORE; i++) {
        check(story_mask_logits(mask, logits), "mask");
        const int32_t token = story_sample(m, logits, &sampling);
        check(token, "sample");
        check(story_mask_token(mask, token), "token");
        check(status = story_answer_token(answer, token), "answer");
        if (status == STORY_MORE) check(story_step(m, token, logits), "step");
        sampling.seed = 0;                         /* continues the same random numbers */
    }
    if (status == STORY_MORE) story_answer_end(answer);      /* cut off: reports the text held back so far */
    puts("");
    story_close(m);
    return status == STORY_MORE;
}
