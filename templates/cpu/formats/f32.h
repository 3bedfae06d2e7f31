/* f32.h -- 32-bit floats: elements in the order [column][16 rows]. */
#ifndef FORGE_FORMAT_f32
#define FORGE_FORMAT_f32
#include "templates/cpu/planes.h"

#define IS_FLOAT_f32 1
enum { ELEMENT_BYTES_f32 = 4 };
DEVICE vf weight_f32(const uint8_t *p) { vf r; __builtin_memcpy(&r, p, 64); return r; }
#endif
