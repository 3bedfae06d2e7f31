/* family.c -- see family.h. */
#include "family.h"
#include "compiler/base/base.h"
#include <string.h>

/* The first row with all its marks present counts; a special family comes before a family with a part of the same marks. */
static const struct { enum chat_family_id family; const char *marks[3]; } rows[] = {
    { CHAT_muse,             { "atem:" } },
    { CHAT_harmony,          { "<|channel|>", "<|message|>" } },
    { CHAT_solar,            { "<|tool_call:begin|>" } },
    { CHAT_kimi_k3,          { "<|open|>", "<|close|>", "<|sep|>" } },
    { CHAT_kimi_k2,          { "<|tool_call_begin|>" } },
    { CHAT_deepseek_r1,      { "<｜tool▁call▁begin｜>", "```json" } },
    { CHAT_deepseek_v3_1,    { "<｜tool▁call▁begin｜>" } },
    { CHAT_deepseek_v3_2,    { "｜DSML｜", "function_calls>" } },
    { CHAT_deepseek_v4,      { "｜DSML｜" } },
    { CHAT_mistral_args,     { "[TOOL_CALLS]", "[ARGS]" } },
    { CHAT_mistral_nemo,     { "[TOOL_CALLS]" } },
    { CHAT_minimax_m3,       { "]<]minimax[>[" } },
    { CHAT_minimax_m2,       { "<minimax:tool_call>" } },
    { CHAT_seed_oss,         { "seed:tool_call" } },
    { CHAT_hunyuan_3,        { "<tool_sep", "<arg_key" } },
    { CHAT_glm,              { "<arg_key>", "<arg_value>" } },
    { CHAT_minicpm_5,        { "<function name=", "<param name=" } },
    { CHAT_qwen3_coder,      { "<function=", "<parameter=" } },
    { CHAT_functionary_3_1,  { "<function=" } },
    { CHAT_functionary_3_2,  { ">>>", "<|start_header_id|>" } },
    { CHAT_gemma_4,          { "<|tool_call>", "<tool_call|>" } },
    { CHAT_lfm2,             { "<|tool_call_start|>" } },
    { CHAT_lfm2,             { "<|tool_list_start|>" } },
    { CHAT_lfm2,             { "\"List of tools: [\"", "<|im_start|>" } },
    { CHAT_command_r7b,      { "<|START_ACTION|>" } },
    { CHAT_command_r_plus,   { "Action:", "tool_name", "<|CHATBOT_TOKEN|>" } },
    { CHAT_granite_3,        { "<|tool_call|>" } },
    { CHAT_apertus,          { "<|tools_prefix|>" } },
    { CHAT_gigachat_3,       { "<|message_sep|>", "<|role_sep|>" } },
    { CHAT_firefunction_2,   { "functools" } },
    { CHAT_nemotron_nano_2,  { "<TOOLCALL>" } },
    { CHAT_apriel,           { "<tool_calls>", "[BEGIN FINAL RESPONSE]" } },
    { CHAT_apriel,           { "<tool_calls>[" } },
    { CHAT_minimax_m1,       { "<tool_calls>" } },
    { CHAT_hermes,           { "<tool_call>" } },
    { CHAT_llama_3,          { "<|start_header_id|>", "{\"name\": " } },
    { CHAT_hermes,           { "<|im_start|>" } },
    { CHAT_plain_brackets,   { "[THINK]" } },
};

static bool has(const char *text, size_t n, const char *mark) { return !mark || memmem(text, n, mark, strlen(mark)); }

enum chat_family_id chat_family_of(const char *template, size_t n)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        bool all = true;
        for (size_t k = 0; k < COUNT_OF(rows[i].marks); k++) all = all && has(template, n, rows[i].marks[k]);
        if (all) return rows[i].family;
    }
    return CHAT_plain;
}
