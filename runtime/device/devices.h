/* devices.h -- which GPUs of the machine a program takes. */
#ifndef FORGE_DEVICES_H
#define FORGE_DEVICES_H
#include <stdint.h>

#include "runtime/model/abi.h"

/* As the driver counts them, from 0, one for each rank of the program; n 0, or no such struct: the first that it was built for. */
struct forge_devices { uint32_t n; int number[FORGE_GPU_MAX_RANKS]; };

#endif
