/* wasm.h -- WebAssembly's relocatable objects: data as an object, and the object of a library with only its API left visible.
 * Source: WebAssembly core specification, 5 "Binary Format", and tool-conventions, Linking.md (version 2). */
#ifndef FORGEC_WASM_H
#define FORGEC_WASM_H
#include "objfile.h"

/* An object that defines `const uint8_t symbol[bytes]`, aligned to a power of two, in a segment of its own. */
struct bytes wasm_data_object(struct arena *a, const char *symbol, const char *segment, uint64_t align, struct bytes data);

/* The whole file is head, then the weights, then tail. */
struct wasm_object { struct bytes head, tail; uint64_t file_bytes; };

/* object: what wasm-ld -r made.  exported (NULL-terminated): each must be defined; all other symbols become local.  needed, likewise: the
 * only ones that may stay undefined.  weights_bytes: 0, or what takes the place of the one byte in the object's last segment of data.  Dies
 * on what is no such object, and on variables: all its data must be in segments that begin with ".rodata" or ".data.rel.ro". */
struct wasm_object wasm_rewrite(struct arena *a, const char *name, struct bytes object, const char *const *exported,
                                const char *const *needed, uint64_t weights_bytes);
#endif
