/* f16.h -- IEEE half floats: elements in the order [column][16 rows]. */
#ifndef FORGE_FORMAT_f16
#define FORGE_FORMAT_f16
#include "templates/cpu/bf16.h"
#include "templates/cpu/planes.h"

#define IS_FLOAT_f16 1
enum { ELEMENT_BYTES_f16 = 2 };
DEVICE vf weight_f16(const uint8_t *p) { return vf_load_f16(p); }
DEVICE vi pairs_f16(const uint8_t *p) { return pairs_of(vf_load_f16(p), vf_load_f16(p + 32)); }
#endif
