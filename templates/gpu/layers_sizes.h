/* layers_sizes.h -- sizes of layers.h, for the compiler's plan and for the kernels: constant expressions of C. */
#ifndef FORGE_LAYERS_SIZES_H
#define FORGE_LAYERS_SIZES_H

/* The memory of each GPU: slots for tokens, then slots for values of the previous stage; LAYERS_PARTS of each, one per step under way. */
#define LAYERS_PARTS       3u
#define LAYERS_TOKEN_BYTES 64u                       /* per part: a token of each of 8 rows */
#define LAYERS_VALUES      (LAYERS_PARTS * LAYERS_TOKEN_BYTES + 64u)
#define LAYERS_VALUE_BYTES(rows, cols) ((8ull * (rows) * (cols) + 255u) / 256u * 256u)
#endif
