/* gpu_format.h -- includes the GPU's file of FORMAT; `#define EACH_FORMAT "tests/kernel/gpu_format.h"` before format.def: all formats. */
#include "tests/format_file.h"
#include FORMAT_FILE(gpu)
