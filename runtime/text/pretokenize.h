/* pretokenize.h -- splits text into the words within which byte-level BPE merges. */
#ifndef FORGE_PRETOKENIZE_H
#define FORGE_PRETOKENIZE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "runtime/model/vocab.h"

/* A unit is one codepoint: 21 bits of value, its class above, and whether a word starts at it. */
#define PRETOKEN_START         0x80000000u
#define PRETOKEN_CODEPOINT(u)  ((u) & 0x1fffffu)

/* The codepoint at s, n > 0 bytes, and its length.  Each malformed byte is U+FFFD.  Overlong forms and surrogates are decoded, because
 * llama.cpp's decoder accepts them. */
uint32_t pretoken_codepoint(const uint8_t *s, size_t n, size_t *length);
/* units: [n] at least; written.  Returns the number of units, which have no class yet. */
size_t pretoken_decode(uint32_t *units, const uint8_t *text, size_t n);
/* Sets the classes, and PRETOKEN_START on the first unit of every word.  llama_cpp: where llama.cpp splits differently from the model's
 * own tokenizer, split like llama.cpp.  classes: [n_classes], codepoints whose class differs from unicode.c.  Linear in n for every
 * rule. */
void pretoken_split(uint32_t *units, size_t n, enum forge_pre pre, bool llama_cpp, const struct forge_class *classes, uint32_t n_classes);
#endif
