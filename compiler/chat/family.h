/* family.h -- which family's marks a chat template writes (runtime/chat/family.def). */
#ifndef FORGEC_CHAT_FAMILY_H
#define FORGEC_CHAT_FAMILY_H
#include "runtime/chat/family.h"
#include <stddef.h>

/* template: [n] the text of tokenizer.chat_template, or of one of the named ones.  By the marks in it, never by names of models: what has
 * none is plain text, with reasoning in <think>. */
enum chat_family_id chat_family_of(const char *template, size_t n);
#endif
