/* wasm.c -- the function that clang calls for WebAssembly instead of emitting it, so that an object needs no compiler-rt: the upper half
 * of a product of 64-bit integers, which divisions by constants use.  It is hidden; forgec makes it local.  (compiler-rt,
 * lib/builtins/multi3.c.) */
#include <stdint.h>

#if defined(__wasm__)

#define HELPER __attribute__((visibility("hidden"), used))

/* *out = a * b in 128 bits, low half first: the calling convention returns such a value through a pointer. */
HELPER void __multi3(uint64_t out[2], uint64_t a, uint64_t a_high, uint64_t b, uint64_t b_high);
HELPER void __multi3(uint64_t out[2], uint64_t a, uint64_t a_high, uint64_t b, uint64_t b_high)
{
    const uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
    const uint64_t low = a0 * b0, middle = a1 * b0 + (low >> 32), other = a0 * b1 + (uint32_t)middle;
    out[0] = other << 32 | (uint32_t)low;
    out[1] = a1 * b1 + (middle >> 32) + (other >> 32) + a * b_high + a_high * b;
}

#else
typedef int library_has_no_wasm;
#endif
