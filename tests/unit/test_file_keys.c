/* test_file_keys.c -- the treatment of keys that belong to no architecture. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "compiler/front/file_keys.h"
#include "made_gguf.h"

/* line: one key, as in made_gguf.h. */
static enum file_key kind_of(struct arena *a, const char *line)
{
    const struct gguf *g = GGUF(line);
    assert_int_equal(g->n_pairs, 2);
    return file_key_of(&g->pairs[1]);
}

static void kinds(void **state)
{
    (void)state;
    static const struct { const char *line; enum file_key kind; } cases[] = {
        { "general.name=x", FILE_KEY_READ }, { "general.sampling.temp=1", FILE_KEY_READ },
        { "tokenizer.ggml.suppress_tokens%1", FILE_KEY_READ }, { "tokenizer.ggml.fim_pre_token_id#3", FILE_KEY_READ },
        { "tokenizer.chat_template.rag=x", FILE_KEY_READ },
        { "general.base_model.0.name=x", FILE_KEY_HARMLESS }, { "general.license.link=x", FILE_KEY_HARMLESS },
        { "general.dataset.3.doi=x", FILE_KEY_HARMLESS }, { "tokenizer.huggingface.json={}", FILE_KEY_HARMLESS },
        { "tokenizer.ggml.mask_token_id#3", FILE_KEY_HARMLESS },
        { "general.sampling.mirostat#0", FILE_KEY_IDLE }, { "general.sampling.mirostat#2", FILE_KEY_UNDONE },
        { "general.sampling.mirostat_tau#5", FILE_KEY_IDLE }, { "general.sampling.xtc_threshold#1", FILE_KEY_IDLE },
        { "general.sampling.xtc_probability#1", FILE_KEY_UNDONE }, { "general.sampling.sequence=top_k;temperature", FILE_KEY_UNDONE },
        { "general.sampling.sequence=penalties;top_k;top_p;min_p;temperature", FILE_KEY_IDLE },
        { "general.sampling.dry_multiplier#1", FILE_KEY_UNKNOWN }, { "general.names=x", FILE_KEY_UNKNOWN },
        { "tokenizer.ggml.tokens2=x", FILE_KEY_UNKNOWN }, { "tokenizer.ggml.fim_pre=x", FILE_KEY_UNKNOWN },
        { "tokenizer.ggml.eos_token_ids%1|2", FILE_KEY_READ },
    };
    struct arena *a = arena_create();
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        if (kind_of(a, cases[i].line) != cases[i].kind) fail_msg("%s: %d", cases[i].line, (int)kind_of(a, cases[i].line));
    arena_destroy(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(kinds) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
