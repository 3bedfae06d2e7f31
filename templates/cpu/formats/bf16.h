/* bf16.h -- bfloat16: elements in the order [column][16 rows]. */
#ifndef FORGE_FORMAT_bf16
#define FORGE_FORMAT_bf16
#include "templates/cpu/bf16.h"
#include "templates/cpu/planes.h"

#define IS_FLOAT_bf16 1
enum { ELEMENT_BYTES_bf16 = 2 };
DEVICE vf weight_bf16(const uint8_t *p) { return vf_load_bf16(p); }
DEVICE vi pairs_bf16(const uint8_t *p) { return pairs_beside(p); }
#endif
