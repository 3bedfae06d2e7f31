/* fuzz_template.c -- libFuzzer: the bytes after the first are a template, which compiles or gets one sentence that says why not.  A
 * compiled template renders with each of these variables or fails with a sentence, in bounded time and memory, and every byte of the result
 * has its mark.  The first byte chooses the size of the room. */
#include <stdlib.h>
#include <string.h>
#include "compiler/chat/template.h"
#include "runtime/chat/template.h"

static const char *const variables[] = {
    "{}",
    "{\"messages\":[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":\"\\u00e9<|im_end|>\"},{\"role\""
    ":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"123456789\",\"type\":\"function\",\"function\":{\"name\":\"f"
    "\",\"arguments\":{\"a\":1.5,\"b\":[true,null]}}}]},{\"role\":\"tool\",\"content\":\"r\",\"tool_call_id\":\"123456789\""
    "}],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"description\":\"d\",\"parameters\":{\"type\":\"obj"
    "ect\",\"properties\":{\"a\":{\"type\":[\"number\",\"null\"]}},\"required\":[\"a\"]}}}],\"add_generation_prompt\":true}",
    "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a b\\nc\"},{\"type\":\"image\"}]}],\"l\":"
    "[3,1,2],\"s\":\" x,y \",\"d\":{\"b\":1,\"A\":[1,2.0]},\"n\":null,\"i\":-9223372036854775807,\"big\":123456789012345678"
    "901234567890,\"f\":1e308,\"tools\":null}",
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_sentence(const char *text, size_t most)
{
    if (!*text || strnlen(text, most) == most) abort();
}

static void render(const uint8_t *image, const char *text, size_t room)
{
    static uint8_t tree[1 << 16];
    struct room json = room_of(tree, sizeof tree), work = room_of(malloc(room), room);
    struct json_error wrong;
    const size_t size = room / 4;
    struct chat_text out = { malloc(size + 1), malloc(size + 1), size, 0 };
    struct chat_error error = { .text = "" };
    const struct chat_input in = { .variables = json_read(&json, text, strlen(text), &wrong), .bos = "<s>", .eos = "</s>",
                                   .family_variables = true, .now = 1795338307, .steps = 200000 };
    if (!in.variables) abort();
    if (chat_render(image, NULL, &in, &work, &out, &error)) {
        if (out.n > size || work.used != 0) abort();
        for (size_t i = 0; i < out.n; i++) if (out.input[i] > 1) abort();
    } else if (error.fault != CHAT_RAISED) check_sentence(error.text, sizeof error.text);
    free(work.bytes);
    free(out.bytes);
    free(out.input);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) return 0;
    struct arena *a = arena_create();
    const struct chat_source source = { NULL, { data + 1, size - 1 } };
    struct chat_warnings warnings = { .n = 0 };
    struct chat_problem problem = { 0, NULL };
    uint32_t at;
    const struct bytes image = chat_compile(a, &source, 1, &warnings, &problem, &at);
    if (!image.data) check_sentence(problem.text, 400);
    for (size_t i = 0; image.data && i < sizeof variables / sizeof variables[0]; i++)
        render(image.data, variables[i], (size_t)1 << (12 + data[0] % 9));
    arena_destroy(a);
    return 0;
}
