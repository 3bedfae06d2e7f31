/* gpu_format.h -- the GPU's file of FORMAT; with `#define EACH_FORMAT "tests/kernel/gpu_format.h"` before format.def: of all formats. */
#include "tests/format_file.h"
#include FORMAT_FILE(gpu)
