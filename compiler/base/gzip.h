/* gzip.h -- compresses bytes in gzip format. */
#ifndef FORGEC_BASE_GZIP_H
#define FORGEC_BASE_GZIP_H
#include "base.h"

/* Uses zlib's highest level, and no time or name in the header: equal bytes give equal files. */
struct bytes gzip_pack(struct arena *a, struct bytes data);
#endif
