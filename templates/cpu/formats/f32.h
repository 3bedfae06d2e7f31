/* f32.h -- 32-bit floats: elements in the order [column][16 rows]. */
#ifndef FORGE_FORMAT_f32
#define FORGE_FORMAT_f32
#include "templates/cpu/bf16.h"
#include "templates/cpu/planes.h"

#define IS_FLOAT_f32 1
enum { ELEMENT_BYTES_f32 = 4 };
DEVICE vf weight_f32(const uint8_t *p) { vf r; __builtin_memcpy(&r, p, 64); return r; }
DEVICE vi pairs_f32(const uint8_t *p) { return pairs_of(weight_f32(p), weight_f32(p + 64)); }
#endif
