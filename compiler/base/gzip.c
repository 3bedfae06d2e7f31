/* gzip.c -- see gzip.h; the format is RFC 1952. */
#include "gzip.h"
#include <zlib.h>

enum { WINDOW_OF_GZIP = 15 + 16, MEMORY_MOST = 9, SYSTEM_UNKNOWN = 255 };

struct bytes gzip_pack(struct arena *a, struct bytes data)
{
    z_stream z = { 0 };
    gz_header head = { .os = SYSTEM_UNKNOWN };
    if (data.size > UINT32_MAX / 2) die("%zu bytes are too many to pack; this is a mistake in forgec, please report it", data.size);
    if (deflateInit2(&z, Z_BEST_COMPRESSION, Z_DEFLATED, WINDOW_OF_GZIP, MEMORY_MOST, Z_DEFAULT_STRATEGY) != Z_OK ||
        deflateSetHeader(&z, &head) != Z_OK)
        die("out of memory while packing %zu bytes; close other programs", data.size);
    const uLong most = deflateBound(&z, (uLong)data.size);
    uint8_t *packed = arena_alloc(a, most);
    z.next_in = (z_const Bytef *)(uintptr_t)data.data;
    z.avail_in = (uInt)data.size;
    z.next_out = packed;
    z.avail_out = (uInt)most;
    if (deflate(&z, Z_FINISH) != Z_STREAM_END) die("zlib cannot pack %zu bytes; this is a mistake in forgec, please report it", data.size);
    const size_t size = z.total_out;
    deflateEnd(&z);
    return (struct bytes){ packed, size };
}
