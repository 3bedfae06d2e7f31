/* gzip.h -- bytes -> the same, packed. */
#ifndef FORGEC_BASE_GZIP_H
#define FORGEC_BASE_GZIP_H
#include "base.h"

/* As small as zlib makes it, without a time and a name: the same bytes give the same file. */
struct bytes gzip_pack(struct arena *a, struct bytes data);
#endif
