/* library.h -- a model as an object, a static or a shared library, with its header: kernels, runtime/library, vocabulary and weights.
 * A library for a CPU needs only memcpy, memmove and memset. A library for a GPU is for hosted programs and needs the C library. */
#ifndef FORGEC_LIBRARY_H
#define FORGEC_LIBRARY_H
#include "compiler/build/build.h"
#include "compiler/build/image.h"

struct library_input {
    const struct build_options *options;
    const struct plan          *plan;
    struct bytes                source;             /* the emitted kernels; GPU: C source that describes them */
    struct bytes                code;               /* GPU: the kernels for the driver */
    struct bytes                kernels;            /* WebGPU: text of all kernels */
    uint32_t                    n_kernels;          /* GPU */
    struct bytes                test_launches, test_values;      /* WebGPU: compiler/web/tests.h; data NULL: none */
    struct bytes                vocab;              /* data NULL: token ids only */
    struct bytes                chat, grammar;      /* images of chat templates, of a grammar; data NULL: none */
    const char                 *weights_hash;
    uint64_t                    weights_bytes;
    struct image_writer        *writer;
};

/* The jobs that compile a library, with room for `extra` more jobs at the end; *n does not count these. facts: as emit_library_tables
 * reads it. */
struct library;
struct cc_job *library_jobs(struct arena *a, const struct library_input *in, const struct library *facts, size_t extra, size_t *n);
/* Hash, in hex, of everything that determines what a library of these jobs computes and the form of its state. */
const char *library_hash(struct arena *a, const struct toolchain *tc, const struct library_input *in, const struct cc_job *jobs, size_t n);
/* For WebAssembly, data is linked as objects. Appends the objects of the tables, at most LIBRARY_DATA_MOST, and returns their number.
 * Embedded weights are a single byte in the last object until the file is written. */
enum { LIBRARY_DATA_MOST = 4 };
struct link_object;
size_t library_wasm_data(struct arena *a, const struct library_input *in, struct link_object *objects);
/* True if the product is a library or an object. */
bool library_wanted(const struct build_options *o);
/* Dies if the options or the target do not fit a library. */
void library_check(struct arena *a, const struct build_options *o, const struct target *p);
/* "model.o", "libmodel.a", "libmodel.so" */
const char *library_default_path(struct arena *a, const struct build_options *o);
/* Announces (output_claim) the files that will be written beside the product `out`. Dies rather than replace a file that forgec did not
 * write. */
void library_claim(struct arena *a, const struct build_options *o, const char *out);
/* Writes the product `out`, with --weights external its weights, and then the header beside it: all of them or none. Returns the header's
 * path. */
const char *library_build(struct arena *a, struct toolchain *tc, const struct library_input *in, const char *out);
/* Prints on stderr which files lie beside the product and, for a shared library, how programs find it. */
void library_announce(struct arena *a, const struct build_options *o, const char *out, const char *header);
#endif
