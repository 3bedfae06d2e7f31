/* devices.h -- which GPUs of the machine a program uses. */
#ifndef FORGE_DEVICES_H
#define FORGE_DEVICES_H
#include <stdbool.h>
#include <stdint.h>

#include "runtime/model/abi.h"

/* Numbers as the driver counts them, from 0, one for each rank of the program.  n 0, or NULL instead of this struct: the first GPUs that
 * the program was built for.  plain: no graphs, so --check does not test them. */
struct forge_devices { uint32_t n; int number[FORGE_GPU_MAX_RANKS]; bool plain; };

#endif
