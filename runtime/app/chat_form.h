/* chat_form.h -- the families of chat templates: the program writes their turns, the compiler tells of templates of no family. */
#ifndef FORGE_CHAT_FORM_H
#define FORGE_CHAT_FORM_H
#include <stddef.h>
#include <string.h>

struct chat_form {
    const char *name, *marker, *second_marker;                  /* all markers given must occur in the template */
    const char *system_before, *system_after;                   /* stand before the first user_before, unless inside */
    const char *user_before, *user_after, *answer_after;
    int system_inside;                                          /* the system message is part of the first user turn */
};

static const struct chat_form chat_forms[] = {
    { "chatml", "<|im_start|>", NULL, "<|im_start|>system\n", "<|im_end|>\n", "<|im_start|>user\n",
      "<|im_end|>\n<|im_start|>assistant\n", "<|im_end|>\n", 0 },
    { "llama3", "<|start_header_id|>", "<|eot_id|>", "<|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>",
      "<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>", 0 },
    { "gemma", "<start_of_turn>", NULL,
      "", "\n\n", "<start_of_turn>user\n", "<end_of_turn>\n<start_of_turn>model\n", "<end_of_turn>\n", 1 },
    { "phi3", "<|user|>", "<|end|>", "<|system|>\n", "<|end|>\n", "<|user|>\n", "<|end|>\n<|assistant|>\n", "<|end|>\n", 0 },
    { "zephyr", "<|user|>", NULL, "<|system|>\n", "</s>\n", "<|user|>\n", "</s>\n<|assistant|>\n", "</s>\n", 0 },
    { "llama2", "[INST]", NULL, "<<SYS>>\n", "\n<</SYS>>\n\n", "[INST] ", " [/INST]", " </s><s>", 1 },
};
#define CHAT_FORM_NAMES "chatml, llama3, gemma, phi3, zephyr, llama2"

/* NULL: of no family that is known. */
static inline const struct chat_form *chat_form_find(const char *template_text)
{
    for (size_t i = 0; i < sizeof chat_forms / sizeof chat_forms[0]; i++) {
        const struct chat_form *f = &chat_forms[i];
        if (!strstr(template_text, f->marker)) continue;
        if (!f->second_marker || strstr(template_text, f->second_marker)) return f;
    }
    return NULL;
}
#endif
