/* cpu_features.c -- does this processor have the instructions that a program was compiled for? */
#include "cpu_features.h"
#include "tile_permission.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>

static bool cpuid_bit(unsigned leaf, unsigned subleaf, unsigned index, unsigned bit)
{
    unsigned r[4] = { 0 };
    if (__get_cpuid_max(0, NULL) < leaf) return false;
    if (leaf == 7 && subleaf > 0) {                     /* leaf 7 itself reports its number of subleaves */
        __cpuid_count(7, 0, r[0], r[1], r[2], r[3]);
        if (r[0] < subleaf) return false;
    }
    __cpuid_count(leaf, subleaf, r[0], r[1], r[2], r[3]);
    return (r[index] >> bit & 1) != 0;
}

bool cpu_has(const char *feature)
{
    __builtin_cpu_init();
#define X86(name, gcc_name) if (strcmp(feature, #name) == 0) return __builtin_cpu_supports(gcc_name) != 0;
#define X86_BIT(name, leaf, subleaf, index, bit, needs) \
    if (strcmp(feature, #name) == 0) return __builtin_cpu_supports(needs) && cpuid_bit(leaf, subleaf, index, bit);
#define ARM(name, bit)
#define ARM2(name, bit)
#include "cpu_features.def"
    return strcmp(feature, "sse2") == 0;
}

#elif defined(__aarch64__)
#include <sys/auxv.h>

bool cpu_has(const char *feature)
{
    const unsigned long first = getauxval(AT_HWCAP), second = getauxval(AT_HWCAP2);
#define X86(name, gcc_name)
#define X86_BIT(name, leaf, subleaf, index, bit, needs)
#define ARM(name, bit)  if (strcmp(feature, #name) == 0) return (first >> (bit) & 1) != 0;
#define ARM2(name, bit) if (strcmp(feature, #name) == 0) return (second >> (bit) & 1) != 0;
#include "cpu_features.def"
    return false;
}

#else

bool cpu_has(const char *feature) { (void)feature; return false; }

#endif

bool cpu_has_all(const char *const *features, char *missing, size_t capacity)
{
    size_t used = 0;
    bool all = true;
    if (capacity > 0) missing[0] = 0;
    for (; features && *features; features++) {
        const bool there = cpu_has(*features);
        if (there && (strcmp(*features, "amx_tile") != 0 || tile_permission())) continue;
        const char *why = there ? " (the processor has it, the kernel does not permit it: Linux 5.16 or newer does)" : "";
        const int n = used < capacity ? snprintf(missing + used, capacity - used, "%s%s%s", all ? "" : " ", *features, why) : 0;
        if (n > 0) used += (size_t)n;
        all = false;
    }
    return all;
}
