/* family.h -- finds the family to which the marks in a chat template belong (runtime/chat/family.def). */
#ifndef FORGEC_CHAT_FAMILY_H
#define FORGEC_CHAT_FAMILY_H
#include "runtime/chat/family.h"
#include <stddef.h>

/* template: [n], the text of tokenizer.chat_template or of a named template. Decides by the marks in the text, never by names of models. A
 * template without such marks is of the plain family: plain text, with reasoning in <think>. */
enum chat_family_id chat_family_of(const char *template, size_t n);
#endif
