/* toolcalls.h -- tests/data/answer: answers of models of each family, with their meaning. */
#ifndef TOOLCALLS_H
#define TOOLCALLS_H
#include <cjson/cJSON.h>
#include "compiler/chat/family.h"
#include "runtime/chat/json.h"

static cJSON *data;
static struct json *tools;
static struct json *read_tools(const char *text)
{
    static uint8_t block[1 << 16];
    struct room r = room_of(block, sizeof block);
    struct json_error error;
    struct json *v = json_read(&r, text, strlen(text), &error);
    assert_non_null(v);
    return v;
}

static const char *text_of(const cJSON *o, const char *name) { return cJSON_GetStringValue(cJSON_GetObjectItem(o, name)); }

/* A group's setup: sets `data`, and `tools`, the functions that the data offer. */
static int load(void **state)
{
    (void)state;
    FILE *f = fopen(FORGEC_UNPACKED "/answer/toolcalls.json", "rb");
    if (!f) { perror(FORGEC_UNPACKED "/answer/toolcalls.json"); return -1; }
    static char bytes[1 << 18];
    bytes[fread(bytes, 1, sizeof bytes - 1, f)] = 0;
    fclose(f);
    data = cJSON_Parse(bytes);
    if (!data) return -1;
    tools = read_tools(cJSON_PrintUnformatted(cJSON_GetObjectItem(data, "tools")));
    return 0;
}

/* The name of a family in the data, and its id in family.def. */
static const struct { const char *data; enum chat_family_id id; } names[] = {
    { "hermes", CHAT_hermes }, { "hermes-plain", CHAT_hermes }, { "granite-4", CHAT_hermes }, { "granite-3.3", CHAT_granite_3 },
    { "qwen3-coder", CHAT_qwen3_coder }, { "qwen3.5", CHAT_qwen3_coder }, { "nemotron-3-nano", CHAT_qwen3_coder }, { "gpt-oss",
        CHAT_harmony },
    { "llama3-json", CHAT_llama_3 }, { "mistral-nemo", CHAT_mistral_nemo }, { "mistral-small-3.2", CHAT_mistral_args },
    { "devstral", CHAT_mistral_args }, { "ministral-3", CHAT_mistral_args }, { "deepseek-r1", CHAT_deepseek_r1 },
    { "deepseek-v3.1", CHAT_deepseek_v3_1 }, { "deepseek-v3.2", CHAT_deepseek_v3_2 }, { "deepseek-v4", CHAT_deepseek_v4 }, { "glm-4.6",
        CHAT_glm },
    { "glm-4.7", CHAT_glm }, { "functionary-3.1", CHAT_functionary_3_1 }, { "functionary-3.2", CHAT_functionary_3_2 },
    { "firefunction-2", CHAT_firefunction_2 }, { "lfm2", CHAT_lfm2 }, { "lfm2.5-thinking", CHAT_lfm2 }, { "command-r-plus",
        CHAT_command_r_plus },
    { "command-r7b", CHAT_command_r7b }, { "cohere2moe", CHAT_command_r7b }, { "kimi-k2", CHAT_kimi_k2 }, { "kimi-k2-thinking",
        CHAT_kimi_k2 },
    { "kimi-k3", CHAT_kimi_k3 }, { "minimax-m1", CHAT_minimax_m1 }, { "minimax-m2", CHAT_minimax_m2 }, { "minimax-m3", CHAT_minimax_m3 },
    { "gemma-4", CHAT_gemma_4 }, { "apertus", CHAT_apertus }, { "apriel-1.5", CHAT_apriel }, { "nemotron-nano-2", CHAT_nemotron_nano_2 },
    { "seed-oss", CHAT_seed_oss }, { "gigachat-3", CHAT_gigachat_3 }, { "minicpm-5", CHAT_minicpm_5 }, { "muse-glimmer", CHAT_muse },
    { "solar-open", CHAT_solar },
};

static enum chat_family_id family_of(const char *name)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) if (strcmp(names[i].data, name) == 0) return names[i].id;
    fail_msg("family %s is unknown", name);
    return CHAT_plain;
}

#endif
