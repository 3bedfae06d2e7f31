/* wasm.h -- relocatable objects of WebAssembly: makes objects of data, and rewrites a library's object so that only its API is visible.
 * Source: WebAssembly core specification, 5 "Binary Format", and tool-conventions, Linking.md (version 2). */
#ifndef FORGEC_WASM_H
#define FORGEC_WASM_H
#include "objfile.h"

/* An object that defines `const uint8_t symbol[bytes]` in a separate segment. align: a power of two. */
struct bytes wasm_data_object(struct arena *a, const char *symbol, const char *segment, uint64_t align, struct bytes data);

/* The whole file is head, then the weights, then tail. */
struct wasm_object { struct bytes head, tail; uint64_t file_bytes; };

/* object: the result of wasm-ld -r. exported (NULL-terminated): each must be defined; all other symbols become local. needed
 * (NULL-terminated): the only symbols that may stay undefined. weights_bytes: 0, or the size of the weights that replace the single byte in
 * the object's last data segment. Dies if the input is not such an object, and on variables: all data must be in segments with names that
 * begin with ".rodata" or ".data.rel.ro". */
struct wasm_object wasm_rewrite(struct arena *a, const char *name, struct bytes object, const char *const *exported,
                                const char *const *needed, uint64_t weights_bytes);
#endif
