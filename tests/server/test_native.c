/* test_native.c -- llama.cpp's own API, infill, and the log probabilities of prompts.
 * test_native PROGRAM BYTES PIECES WORK.  PROGRAM: the storyteller.  BYTES: a model whose byte-level vocabulary has all tokens for infill,
 * 500 to 504.  PIECES: a model with three of them, 300 to 302, in a vocabulary of SentencePiece.  WORK: a folder for files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <cjson/cJSON.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "fixture.h"

#define COMPLETIONS "/v1/completions"
#define GREEDY "\"temperature\":0"

static const char *bytes_program, *pieces_program, *work;

static int start(void **state)
{
    (void)state;
    return fixture_start((const char *const[]){ "-s", "1", NULL });
}

/* The answer as JSON; any other status fails. */
static cJSON *asked_at(int port, const char *path, const char *body, int status)
{
    struct reply r = post(port, path, body);
    if (r.status != status) fail_msg("%s %s: %d %s", path, body, r.status, r.body ? r.body : "no answer");
    cJSON *v = cJSON_Parse(r.body);
    if (!v) fail_msg("no JSON: %s", r.body);
    reply_free(&r);
    return v;
}

static cJSON *asked(const char *path, const char *body) { return asked_at(server.port, path, body, 200); }

static void refuses(const char *path, const char *body, int status, const char *says)
{
    cJSON *v = asked_at(server.port, path, body, status);
    if (!strstr(in(v, "error.message")->valuestring, says)) fail_msg("%s: %s", body, in(v, "error.message")->valuestring);
    cJSON_Delete(v);
}

static void text_is(const cJSON *v, const char *path, const char *text)
{
    if (!cJSON_IsString(in(v, path))) fail_msg("no text %s in %s", path, cJSON_PrintUnformatted(v));
    assert_string_equal(in(v, path)->valuestring, text);
}

static double number_of(const cJSON *v, const char *path)
{
    if (!cJSON_IsNumber(in(v, path))) fail_msg("no number %s in %s", path, cJSON_PrintUnformatted(v));
    return in(v, path)->valuedouble;
}

/* ---- log probabilities of prompts, against the logits that the program writes to a file ---- */

enum { N_VOCAB = 4096 };
#define PROMPT "Once upon a time there was a king who had twelve daughters, and every one of them was more beautiful than the other. " \
               "They slept together in one room, where their beds stood side by side, and in the evening, when they lay in them, " \
               "the king shut the door and bolted it. But in the morning he saw that their shoes were worn out with dancing."

/* log softmax(row)[id] */
static double logprob_of(const float *row, int id)
{
    double sum = 0, most = row[0];
    for (int i = 1; i < N_VOCAB; i++) most = row[i] > most ? row[i] : most;
    for (int i = 0; i < N_VOCAB; i++) sum += exp(row[i] - most);
    return row[id] - most - log(sum);
}

static int *prompt_ids(int *n)
{
    cJSON *v = asked("/tokenize", "{\"content\":\"" PROMPT "\",\"add_special\":true}");
    int *ids = calloc((size_t)cJSON_GetArraySize(in(v, "tokens")), sizeof *ids);
    const cJSON *t;
    *n = 0;
    cJSON_ArrayForEach(t, in(v, "tokens")) ids[(*n)++] = t->valueint;
    cJSON_Delete(v);
    return ids;
}

/* What lm-evaluation-harness asks for: the sum of token_logprobs[k:-1], and whether each is the largest of its top_logprobs. */
static void prompt_logprobs(void **state)
{
    (void)state;
    char command[2048], file[256];
    int n;
    int *ids = prompt_ids(&n);
    float *logits = malloc((size_t)n * N_VOCAB * sizeof *logits);
    snprintf(file, sizeof file, "%s/logits", work);
    snprintf(command, sizeof command, "%s -q -p '%s' --logits %s > /dev/null", program, PROMPT, file);
    assert_int_equal(system(command), 0);
    FILE *f = fopen(file, "rb");
    assert_int_equal(fread(logits, N_VOCAB * sizeof *logits, (size_t)n, f), (size_t)n);
    fclose(f);
    for (int most = 0; most <= 1; most++) {
        char body[2048];
        snprintf(body, sizeof body, "{\"prompt\":\"" PROMPT "\",\"echo\":true,\"logprobs\":1,\"max_tokens\":%d," GREEDY "}", most);
        cJSON *v = asked(COMPLETIONS, body);
        const cJSON *l = in(v, "choices.0.logprobs"), *p = in(l, "token_logprobs"), *top = in(l, "top_logprobs");
        assert_int_equal(cJSON_GetArraySize(p), n + most);
        assert_int_equal(cJSON_GetArraySize(in(l, "tokens")), n + most);
        assert_true(cJSON_IsNull(p->child) && cJSON_IsNull(top->child));
        for (int i = 1; i < n; i++) {
            const double wanted = logprob_of(logits + (size_t)(i - 1) * N_VOCAB, ids[i]), got = cJSON_GetArrayItem(p, i)->valuedouble;
            if (fabs(got - wanted) > 2e-5 * (1 + fabs(wanted))) fail_msg("token %d: %g, not %g", i, got, wanted);
            const float *row = logits + (size_t)(i - 1) * N_VOCAB;
            int first = 0;
            for (int k = 1; k < N_VOCAB; k++) if (row[k] > row[first]) first = k;
            const double best = logprob_of(row, first);
            assert_true(fabs(cJSON_GetArrayItem(top, i)->child->valuedouble - best) <= 2e-5 * (1 + fabs(best)));
        }
        const char *text = in(v, "choices.0.text")->valuestring;
        assert_memory_equal(text, PROMPT, strlen(PROMPT));
        for (int i = 1; i < n + most; i++) {
            const char *token = cJSON_GetArrayItem(in(l, "tokens"), i)->valuestring;
            assert_memory_equal(text + cJSON_GetArrayItem(in(l, "text_offset"), i)->valueint, token, strlen(token));
        }
        cJSON_Delete(v);
    }
    free(logits);
    free(ids);
}

/* The same prompts as ids, two at once, and in a stream: the same numbers. */
static void prompt_logprobs_again(void **state)
{
    (void)state;
    cJSON *v = asked(COMPLETIONS, "{\"prompt\":[\"The king\",[0,5,6,7]],\"n\":2,\"echo\":true,\"logprobs\":2,\"max_tokens\":3," GREEDY "}");
    for (int i = 0; i < 4; i++) {
        char path[64];
        snprintf(path, sizeof path, "choices.%d.logprobs.token_logprobs", i);
        assert_int_equal(cJSON_GetArraySize(in(v, path)), (i < 2 ? 3 : 4) + 3);
        const cJSON *same = in(v, i < 2 ? "choices.0.logprobs.token_logprobs" : "choices.2.logprobs.token_logprobs");
        assert_true(cJSON_Compare(in(v, path), same, true));
    }
    struct reply r = post(server.port, COMPLETIONS, "{\"prompt\":\"The king\",\"echo\":true,\"logprobs\":2,\"max_tokens\":3,"
                          "\"stream\":true," GREEDY "}");
    char *text = stream_text(r.body, 0);
    text_is(v, "choices.0.text", text);
    double sum = 0, wanted = 0;
    for (const char *line = r.body; (line = strstr(line, "data: {")); ) {
        cJSON *event = cJSON_Parse(line += 6);
        const cJSON *p;
        cJSON_ArrayForEach(p, in(event, "choices.0.logprobs.token_logprobs")) sum += p->valuedouble;
        cJSON_Delete(event);
    }
    const cJSON *p;
    cJSON_ArrayForEach(p, in(v, "choices.0.logprobs.token_logprobs")) wanted += p->valuedouble;
    assert_true(fabs(sum - wanted) < 1e-4);
    free(text);
    reply_free(&r);
    cJSON_Delete(v);
    /* offsets are characters: the text is "K\u00f6nig \u2192 x" */
    v = asked(COMPLETIONS, "{\"prompt\":\"K\\u00f6nig \\u2192 xyz\",\"echo\":true,\"logprobs\":0,\"max_tokens\":0}");
    const cJSON *offsets = in(v, "choices.0.logprobs.text_offset");
    const int last = cJSON_GetArraySize(offsets) - 1;
    const char *token = cJSON_GetArrayItem(in(v, "choices.0.logprobs.tokens"), last)->valuestring;
    assert_int_equal(cJSON_GetArrayItem(offsets, last)->valueint, 11 - (int)strlen(token));
    cJSON_Delete(v);
}

/* ---- POST /completion ---- */

static void native_answers(void **state)
{
    (void)state;
    cJSON *v = asked("/completion", "{\"prompt\":\"Once upon a time\",\"n_predict\":8,\"n_probs\":3,\"return_tokens\":true,\"seed\":7,"
                     GREEDY "}");
    cJSON *o = asked(COMPLETIONS, "{\"prompt\":\"Once upon a time\",\"max_tokens\":8,\"logprobs\":3," GREEDY "}");
    text_is(v, "content", in(o, "choices.0.text")->valuestring);
    text_is(v, "prompt", "<|begin_of_text|>Once upon a time");
    text_is(v, "stop_type", "limit");
    text_is(v, "stopping_word", "");
    assert_true(cJSON_IsTrue(in(v, "stop")) && cJSON_IsFalse(in(v, "truncated")) && cJSON_IsFalse(in(v, "has_new_line")));
    assert_true(number_of(v, "tokens_predicted") == 8 && number_of(v, "tokens_evaluated") == 5 && number_of(v, "timings.predicted_n") == 8);
    assert_true(number_of(v, "generation_settings.n_predict") == 8 && number_of(v, "generation_settings.seed") == 7);
    assert_int_equal(cJSON_GetArraySize(in(v, "tokens")), 8);
    for (int i = 0; i < 8; i++) {
        const cJSON *p = cJSON_GetArrayItem(in(v, "completion_probabilities"), i);
        assert_int_equal(in(p, "id")->valueint, cJSON_GetArrayItem(in(v, "tokens"), i)->valueint);
        assert_true(in(p, "logprob")->valuedouble == cJSON_GetArrayItem(in(o, "choices.0.logprobs.token_logprobs"), i)->valuedouble);
        text_is(p, "token", cJSON_GetArrayItem(in(o, "choices.0.logprobs.tokens"), i)->valuestring);
        assert_int_equal(cJSON_GetArraySize(in(p, "top_logprobs")), 3);
    }
    cJSON_Delete(o);
    cJSON_Delete(v);
    v = asked("/completions", "{\"prompt\":\"Once upon a time\",\"n_predict\":40,\"stop\":[\"king\",\" a \"]," GREEDY "}");
    text_is(v, "stop_type", "word");
    assert_true(cJSON_IsString(in(v, "stopping_word")) && *in(v, "stopping_word")->valuestring && cJSON_GetArraySize(in(v, "tokens")) == 0);
    cJSON_Delete(v);
    v = asked("/completion", "{\"prompt\":\"Once\",\"n_predict\":2,"
                             "\"response_fields\":[\"content\",\"generation_settings/n_predict\",\"timings/nothing\",\"x\"]}");
    assert_int_equal(cJSON_GetArraySize(v), 2);
    assert_int_equal(cJSON_GetObjectItem(v, "generation_settings/n_predict")->valueint, 2);
    cJSON_Delete(v);
    v = asked("/completion", "{\"prompt\":\"Once\",\"n_predict\":1,\"ignore_eos\":true,\"logit_bias\":[[5,-1],[\" the\",false]]}");
    assert_int_equal(cJSON_GetArraySize(in(v, "generation_settings.logit_bias")), 3);
    assert_true(number_of(v, "generation_settings.logit_bias.0.bias") == -1);
    assert_true(cJSON_IsNull(in(v, "generation_settings.logit_bias.1.bias")));
    cJSON_Delete(v);
}

/* A text with a limit of time ends after its first line. */
static void time_limit(void **state)
{
    (void)state;
    cJSON *v = asked("/completion", "{\"prompt\":\"Once\",\"n_predict\":1000,\"grammar\":\"root ::= (\\\"a\\\\n\\\"){2000}\","
                     "\"t_max_predict_ms\":1}");
    text_is(v, "stop_type", "limit");
    assert_true(number_of(v, "tokens_predicted") < 1000 && cJSON_IsTrue(in(v, "has_new_line")) && cJSON_IsFalse(in(v, "truncated")));
    cJSON_Delete(v);
}

static void native_prompts(void **state)
{
    (void)state;
    cJSON *ids = asked("/tokenize", "{\"content\":\"Once upon a time\",\"add_special\":true}");
    char *list = cJSON_PrintUnformatted(in(ids, "tokens")), body[512];
    snprintf(body, sizeof body, "{\"prompt\":[%s,\"Once upon a time\",{\"prompt_string\":\"Once upon a time\"},"
             "[0,\"Once upon\",\" a time\"]],\"n_predict\":6," GREEDY "}", list);
    cJSON *v = asked("/completion", body);
    assert_int_equal(cJSON_GetArraySize(v), 4);
    for (int i = 0; i < 4; i++) {
        char path[16];
        snprintf(path, sizeof path, "%d.content", i);
        text_is(v, path, in(v, "0.content")->valuestring);
    }
    free(list);
    cJSON_Delete(ids);
    struct reply r = post(server.port, "/completion", "{\"prompt\":\"Once upon a time\",\"n_predict\":6,\"stream\":true,\"n_probs\":1,"
                          GREEDY "}");
    char text[256] = "";
    int events = 0;
    for (const char *line = r.body; (line = strstr(line, "data: {")); events++) {
        cJSON *event = cJSON_Parse(line += 6);
        strcat(text, in(event, "content")->valuestring);
        assert_int_equal(cJSON_IsTrue(in(event, "stop")), events == 6);
        assert_int_equal(cJSON_GetArraySize(in(event, "tokens")), events < 6);
        assert_int_equal(cJSON_GetArraySize(in(event, "completion_probabilities")), events < 6);
        cJSON_Delete(event);
    }
    assert_int_equal(events, 7);
    text_is(v, "0.content", text);
    reply_free(&r);
    cJSON_Delete(v);
}

static void refusals(void **state)
{
    (void)state;
    static const char *const prompts[] = { "{}", "{\"prompt\":5}", "{\"prompt\":{}}", "{\"prompt\":[[{}]]}", "{\"prompt\":[\"a\",{}]}" };
    for (size_t i = 0; i < sizeof prompts / sizeof *prompts; i++) refuses("/completion", prompts[i], 400, "'prompt'");
    refuses("/completion", "{\"prompt\":\"a\",\"n_probs\":99}", 400, "'n_probs'");
    refuses("/completion", "{\"prompt\":\"a\",\"post_sampling_probs\":true}", 400, "'post_sampling_probs'");
    refuses("/completion", "{\"prompt\":\"a\",\"response_fields\":[1]}", 400, "'response_fields'");
    refuses("/completion", "{\"prompt\":{\"prompt_string\":\"a\",\"multimodal_data\":[\"iVBO\"]}}", 400, "'multimodal_data'");
    refuses("/infill", "{\"input_prefix\":\"a\",\"input_suffix\":\"b\"}", 501, "cannot fill in text");
    refuses(COMPLETIONS, "{\"prompt\":\"a\",\"suffix\":\"b\"}", 400, "cannot fill in text");
    refuses(COMPLETIONS, "{\"prompt\":[1],\"suffix\":\"b\"}", 400, "'suffix'");
    refuses(COMPLETIONS, "{\"prompt\":\"a\",\"suffix\":\"b\",\"echo\":true,\"logprobs\":1}", 400, "'suffix'");
    cJSON_Delete(asked(COMPLETIONS, "{\"prompt\":\"a\",\"suffix\":\"\",\"max_tokens\":1}"));
}

/* ---- infill: the prompt's tokens, by the rule of llama.cpp's format_prompt_infill ---- */

enum { PREFIX = 500, SUFFIX, MIDDLE, REPOSITORY, FILE_NAME };

static void add(cJSON *ids, int id) { cJSON_AddItemToArray(ids, cJSON_CreateNumber(id)); }

static void add_text(int port, cJSON *ids, const char *text)
{
    cJSON *body = cJSON_CreateObject();
    cJSON_AddStringToObject(body, "content", text);
    cJSON_AddBoolToObject(body, "parse_special", false);
    char *json = cJSON_PrintUnformatted(body);
    cJSON *v = asked_at(port, "/tokenize", json, 200);
    const cJSON *t;
    cJSON_ArrayForEach(t, in(v, "tokens")) add(ids, t->valueint);
    free(json);
    cJSON_Delete(v);
    cJSON_Delete(body);
}

/* Is the prompt of this answer, or its text if it is OpenAI's, the same as with these ids? */
static void prompt_is(int port, const cJSON *answer, cJSON *ids)
{
    cJSON *body = cJSON_CreateObject();
    cJSON_AddItemToObject(body, "prompt", ids);
    cJSON_AddNumberToObject(body, "n_predict", 5);
    cJSON_AddNumberToObject(body, "n_probs", 3);
    cJSON_AddNumberToObject(body, "temperature", 0);
    cJSON_AddBoolToObject(body, "ignore_eos", true);
    char *json = cJSON_PrintUnformatted(body);
    cJSON *v = asked_at(port, "/completion", json, 200);
    if (in(answer, "prompt")) {
        text_is(answer, "prompt", in(v, "prompt")->valuestring);
        assert_true(number_of(answer, "tokens_evaluated") == number_of(v, "tokens_evaluated"));
        assert_true(cJSON_Compare(in(answer, "completion_probabilities"), in(v, "completion_probabilities"), true));
    } else {
        text_is(answer, "choices.0.text", in(v, "content")->valuestring);
        assert_true(number_of(answer, "usage.prompt_tokens") == number_of(v, "tokens_evaluated"));
    }
    free(json);
    cJSON_Delete(v);
    cJSON_Delete(body);
}

#define FIVE "\"n_predict\":5,\"n_probs\":3,\"ignore_eos\":true," GREEDY

static void infill_bytes(void **state)
{
    (void)state;
    struct child c = child_start(bytes_program, NULL);
    assert_true(c.port > 0);
    const int bos = 598;
    cJSON *v = asked_at(c.port, "/infill", "{\"input_prefix\":\"int main() {\\n\",\"input_suffix\":\"}\\n\",\"prompt\":\"  int n = \","
                        FIVE "}", 200);
    cJSON *ids = cJSON_CreateArray();
    add(ids, REPOSITORY);
    add_text(c.port, ids, "myproject\n");
    add(ids, FILE_NAME);
    add_text(c.port, ids, "filename\n");
    add(ids, bos);
    add(ids, PREFIX);
    add_text(c.port, ids, "int main() {\n");
    add_text(c.port, ids, "  int n = ");
    add(ids, SUFFIX);
    add_text(c.port, ids, "}\n");
    add(ids, MIDDLE);
    prompt_is(c.port, v, ids);
    cJSON_Delete(v);
    v = asked_at(c.port, "/infill", "{\"input_prefix\":\"a\",\"input_suffix\":\"b\","
                 "\"input_extra\":[{\"filename\":\"x.h\",\"text\":\"one\"},{\"text\":\"two\"}]," FIVE "}", 200);
    ids = cJSON_CreateArray();
    add(ids, REPOSITORY);
    add_text(c.port, ids, "myproject\n");
    add(ids, FILE_NAME);
    add_text(c.port, ids, "x.h\n");
    add_text(c.port, ids, "one");
    add(ids, FILE_NAME);
    add_text(c.port, ids, "tmp\n");
    add_text(c.port, ids, "two");
    add(ids, FILE_NAME);
    add_text(c.port, ids, "filename\n");
    add(ids, bos);
    add(ids, PREFIX);
    add_text(c.port, ids, "a");
    add(ids, SUFFIX);
    add_text(c.port, ids, "b");
    add(ids, MIDDLE);
    prompt_is(c.port, v, ids);
    cJSON_Delete(v);
    v = asked_at(c.port, COMPLETIONS, "{\"prompt\":\"ab\",\"suffix\":\"cd\",\"max_tokens\":5,\"ignore_eos\":true," GREEDY "}", 200);
    ids = cJSON_CreateArray();
    add(ids, bos);
    add(ids, PREFIX);
    add_text(c.port, ids, "ab");
    add(ids, SUFFIX);
    add_text(c.port, ids, "cd");
    add(ids, MIDDLE);
    prompt_is(c.port, v, ids);
    const double n_prompt = number_of(v, "usage.prompt_tokens");
    cJSON_Delete(v);
    cJSON *o = asked_at(c.port, "/api/generate", "{\"prompt\":\"ab\",\"suffix\":\"cd\",\"stream\":false,\"options\":{\"num_predict\":5,"
                        GREEDY "}}", 200);
    assert_true(number_of(o, "prompt_eval_count") == n_prompt);
    cJSON_Delete(o);
    /* more than the context of 256 holds */
    char body[4096] = "{\"input_extra\":[{\"text\":\"";
    for (int i = 0; i < 400; i++) strcat(body, "7 ");
    strcat(body, "\"}],\"input_suffix\":\"");
    for (int i = 0; i < 400; i++) strcat(body, "8 ");
    strcat(body, "\",\"input_prefix\":\"");
    for (int i = 0; i < 400; i++) strcat(body, "9 ");
    strcat(body, "9!\"," FIVE "}");
    v = asked_at(c.port, "/infill", body, 200);
    assert_true(number_of(v, "tokens_evaluated") <= 256 - 5 && number_of(v, "tokens_predicted") == 5);
    const char *prompt = in(v, "prompt")->valuestring;
    assert_true(strstr(prompt, "9!") && strstr(prompt, "8 8") && strstr(prompt, "9 9"));
    cJSON_Delete(v);
    /* as llama.vim writes them (ggml-org/llama.vim, autoload/llama.vim) */
    v = asked_at(c.port, "/infill", "{\"id_slot\":0,\"input_prefix\":\"\",\"input_suffix\":\"\","
                 "\"input_extra\":[{\"text\":\"x\",\"time\":1,\"filename\":\"a\"}],\"prompt\":\"\",\"n_predict\":0,"
                 "\"temperature\":0.0,\"samplers\":[],\"stream\":false,\"cache_prompt\":true,\"t_max_prompt_ms\":1,"
                 "\"t_max_predict_ms\":1,\"response_fields\":[\"\"]}", 200);
    assert_int_equal(cJSON_GetArraySize(v), 0);
    cJSON_Delete(v);
    v = asked_at(c.port, "/infill", "{\"id_slot\":0,\"input_prefix\":\"a\\n\",\"input_suffix\":\"b\\n\",\"input_extra\":[],"
                 "\"prompt\":\"c\",\"n_predict\":9,\"stop\":[],\"n_indent\":2,\"top_k\":40,\"top_p\":0.9,"
                 "\"samplers\":[\"top_k\",\"top_p\",\"infill\"],\"stream\":false,\"cache_prompt\":true,\"t_max_prompt_ms\":500,"
                 "\"t_max_predict_ms\":1000,\"response_fields\":[\"content\",\"timings/prompt_n\",\"timings/predicted_ms\","
                 "\"truncated\",\"tokens_cached\"]}", 200);
    assert_true(cJSON_GetArraySize(v) == 5 && cJSON_GetObjectItem(v, "timings/prompt_n")->valuedouble > 0);
    cJSON_Delete(v);
    static const char *const extra[] = { "{}", "[{}]", "[{\"filename\":\"ok\"}]", "[{\"filename\":1,\"text\":\"abc\"}]",
                                         "[{\"filename\":\"a\",\"text\":2}]" };
    for (size_t i = 0; i < sizeof extra / sizeof *extra; i++) {
        snprintf(body, sizeof body, "{\"input_prefix\":\"a\",\"input_suffix\":\"b\",\"input_extra\":%s}", extra[i]);
        cJSON_Delete(asked_at(c.port, "/infill", body, 400));
    }
    cJSON_Delete(asked_at(c.port, "/infill", "{\"input_prefix\":\"a\"}", 400));
    cJSON_Delete(asked_at(c.port, "/infill", "{\"input_suffix\":\"a\"}", 400));
    kill(c.pid, SIGINT);
    assert_int_equal(child_wait(&c, 40), 0);
}

/* SentencePiece puts a space before a text, but not before its continuation and its suffix: CodeLlama was trained so
 * (facebookresearch/codellama, encode_infilling).  259: the space; 287: "ab". */
static void infill_pieces(void **state)
{
    (void)state;
    static const int wanted[] = { 1, 300, 259, 287, 301, 287, 302 }, begun[] = { 1, 300, 259, 287, 287, 301, 287, 302 };
    struct child c = child_start(pieces_program, NULL);
    assert_true(c.port > 0);
    cJSON *v = asked_at(c.port, "/infill", "{\"input_prefix\":\"ab\",\"input_suffix\":\"ab\"," FIVE "}", 200);
    prompt_is(c.port, v, cJSON_CreateIntArray(wanted, sizeof wanted / sizeof *wanted));
    cJSON_Delete(v);
    v = asked_at(c.port, "/infill", "{\"input_prefix\":\"ab\",\"prompt\":\"ab\",\"input_suffix\":\"ab\"," FIVE "}", 200);
    prompt_is(c.port, v, cJSON_CreateIntArray(begun, sizeof begun / sizeof *begun));
    cJSON_Delete(v);
    kill(c.pid, SIGINT);
    assert_int_equal(child_wait(&c, 40), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompt_logprobs), cmocka_unit_test(prompt_logprobs_again), cmocka_unit_test(native_answers),
        cmocka_unit_test(time_limit), cmocka_unit_test(native_prompts), cmocka_unit_test(refusals), cmocka_unit_test(infill_bytes),
        cmocka_unit_test(infill_pieces),
    };
    if (argc != 5) {
        fprintf(stderr, "usage: test_native PROGRAM BYTES PIECES WORK\n");
        return 2;
    }
    program = argv[1];
    bytes_program = argv[2];
    pieces_program = argv[3];
    work = argv[4];
    return cmocka_run_group_tests_name("native", tests, start, fixture_stop);
}
