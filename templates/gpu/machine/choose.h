/* choose.h -- includes the machine file of the GPU to compile for.  An emitted source contains that file alone here. */
#ifndef FORGE_CHOOSE_H
#define FORGE_CHOOSE_H
#if defined(__GFX11__)
#include "rdna3.h"
#elif defined(__gfx942__)
#include "cdna3.h"
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#include "hopper.h"
#elif defined(__HIP__) || defined(__CUDA__)
#error "forgec has no machine file for this GPU: see docs/target.md, 'A new GPU family'"
#else
#include "host.h"
#endif
#endif
