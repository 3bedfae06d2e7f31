/* xxh3.c -- XXH3 with 64 bits and seed 0.  (Collet, github.com/Cyan4973/xxHash, doc/xxhash_spec.md, "XXH3 Algorithm Overview"; BSD
 * 2-Clause) */
#include "xxh3.h"

static const uint64_t P32_1 = 0x9e3779b1u, P32_2 = 0x85ebca77u, P32_3 = 0xc2b2ae3du;
static const uint64_t P64_1 = 0x9e3779b185ebca87u, P64_2 = 0xc2b2ae3d27d4eb4fu, P64_3 = 0x165667b19e3779f9u, P64_4 = 0x85ebca77c2b2ae63u,
                      P64_5 = 0x27d4eb2f165667c5u;

static const uint8_t secret[192] = {
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c,
    0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb, 0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f,
    0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c,
    0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb, 0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3,
    0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d,
    0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31, 0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64,
    0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e,
    0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc, 0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce,
    0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
};

static uint32_t read_32(const uint8_t *p) { uint32_t x; __builtin_memcpy(&x, p, 4); return x; }
static uint64_t read_64(const uint8_t *p) { uint64_t x; __builtin_memcpy(&x, p, 8); return x; }
static uint64_t rotate_left(uint64_t x, int k) { return x << k | x >> (64 - k); }

/* The two halves of the 128-bit product, XORed.  Computed in quarters, because 32-bit machines have no 128-bit integers. */
static uint64_t fold_product(uint64_t a, uint64_t b)
{
    const uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
    const uint64_t low = a0 * b0, cross = (low >> 32) + (uint32_t)(a1 * b0) + a0 * b1;
    const uint64_t high = (a1 * b0 >> 32) + (cross >> 32) + a1 * b1;
    return (cross << 32 | (uint32_t)low) ^ high;
}

static uint64_t avalanche(uint64_t h)
{
    h = (h ^ h >> 37) * 0x165667919e3779f9u;
    return h ^ h >> 32;
}

static uint64_t avalanche_64(uint64_t h)                   /* as in XXH64 */
{
    h = (h ^ h >> 33) * P64_2;
    h = (h ^ h >> 29) * P64_3;
    return h ^ h >> 32;
}

static uint64_t hash_to_16(const uint8_t *p, uint64_t n)
{
    if (n > 8) {
        const uint64_t low = read_64(p) ^ read_64(secret + 24) ^ read_64(secret + 32);
        const uint64_t high = read_64(p + n - 8) ^ read_64(secret + 40) ^ read_64(secret + 48);
        return avalanche(n + __builtin_bswap64(low) + high + fold_product(low, high));
    }
    if (n >= 4) {
        uint64_t h = (read_32(p + n - 4) + ((uint64_t)read_32(p) << 32)) ^ read_64(secret + 8) ^ read_64(secret + 16);
        h = (h ^ rotate_left(h, 49) ^ rotate_left(h, 24)) * 0x9fb21c651e98df25u;
        h = (h ^ ((h >> 35) + n)) * 0x9fb21c651e98df25u;
        return h ^ h >> 28;
    }
    if (n == 0) return avalanche_64(read_64(secret + 56) ^ read_64(secret + 64));
    const uint32_t ends = (uint32_t)p[0] << 16 | (uint32_t)p[n >> 1] << 24 | p[n - 1] | (uint32_t)n << 8;
    return avalanche_64(ends ^ read_32(secret) ^ read_32(secret + 4));
}

static uint64_t mix_16(const uint8_t *p, const uint8_t *key)
{
    return fold_product(read_64(p) ^ read_64(key), read_64(p + 8) ^ read_64(key + 8));
}

static uint64_t hash_to_128(const uint8_t *p, uint64_t n)
{
    uint64_t h = n * P64_1;
    for (uint64_t i = 0; i <= (n - 1) / 32; i++) {
        h += mix_16(p + 16 * i, secret + 32 * i);
        h += mix_16(p + n - 16 * (i + 1), secret + 32 * i + 16);
    }
    return avalanche(h);
}

static uint64_t hash_to_240(const uint8_t *p, uint64_t n)
{
    uint64_t h = n * P64_1;
    for (uint64_t i = 0; i < 8; i++) h += mix_16(p + 16 * i, secret + 16 * i);
    h = avalanche(h);
    for (uint64_t i = 8; i < n / 16; i++) h += mix_16(p + 16 * i, secret + 16 * (i - 8) + 3);
    return avalanche(h + mix_16(p + n - 16, secret + 119));
}

/* Stripes of 64 bytes; the key advances by 8 bytes per stripe.  The specification adds each word to the neighbouring lane at once.  Here
 * these words are summed separately and swapped at the end, so the loop has no shuffles and compilers vectorise it. */
static void hash_stripes(uint64_t acc[8], const uint8_t *p, const uint8_t *key, uint64_t n)
{
    uint64_t words[8] = { 0 }, products[8] = { 0 };
    for (uint64_t s = 0; s < n; s++, p += 64, key += 8)
        for (int i = 0; i < 8; i++) {
            const uint64_t word = read_64(p + 8 * i), k = word ^ read_64(key + 8 * i);
            words[i] += word;
            products[i] += (k & 0xffffffffu) * (k >> 32);
        }
    for (int i = 0; i < 8; i++) acc[i] += products[i] + words[i ^ 1];
}

static uint64_t hash_long(const uint8_t *p, uint64_t n)
{
    enum { BLOCK = 1024 };                                 /* 16 stripes */
    uint64_t acc[8] = { P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1 };
    const uint64_t blocks = (n - 1) / BLOCK;
    for (uint64_t b = 0; b < blocks; b++) {
        hash_stripes(acc, p + b * BLOCK, secret, 16);
        for (int i = 0; i < 8; i++) acc[i] = (acc[i] ^ acc[i] >> 47 ^ read_64(secret + 128 + 8 * i)) * P32_1;
    }
    hash_stripes(acc, p + blocks * BLOCK, secret, (n - 1 - blocks * BLOCK) / 64);
    hash_stripes(acc, p + n - 64, secret + 121, 1);        /* the last stripe may overlap */
    uint64_t h = n * P64_1;
    for (int i = 0; i < 4; i++) h += fold_product(acc[2 * i] ^ read_64(secret + 11 + 16 * i),
                                                  acc[2 * i + 1] ^ read_64(secret + 19 + 16 * i));
    return avalanche(h);
}

uint64_t forge_xxh3(const void *bytes, uint64_t n)
{
    const uint8_t *p = bytes;
    return n <= 16 ? hash_to_16(p, n) : n <= 128 ? hash_to_128(p, n) : n <= 240 ? hash_to_240(p, n) : hash_long(p, n);
}
