/* library.h -- a model as an object, a static or a shared library, with its header: kernels, runtime/library, vocabulary and weights.
 * One for a CPU needs nothing but memcpy, memmove and memset; one for a GPU is for programs of an operating system and needs their C
 * library. */
#ifndef FORGEC_LIBRARY_H
#define FORGEC_LIBRARY_H
#include "compiler/build/build.h"
#include "compiler/build/image.h"

struct library_input {
    const struct build_options *options;
    const struct plan          *plan;
    struct bytes                source;             /* the emitted kernels; GPUs: what describes them */
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

/* What a library is compiled of, with room for extra more jobs at the end; *n: without these.  Weights are referred to where the options
 * embed them. */
struct cc_job *library_jobs(struct arena *a, const struct library_input *in, size_t extra, size_t *n);
/* Of everything that decides what a library of these jobs computes and how its state looks: hex. */
const char *library_hash(struct arena *a, const struct toolchain *tc, const struct library_input *in, const struct cc_job *jobs, size_t n);
/* Of WebAssembly, data are objects like others, which are joined with them: appends those of the tables, LIBRARY_DATA_MOST at most, and
 * returns how many.  Embedded weights are one byte, the last, until the object is written. */
enum { LIBRARY_DATA_MOST = 4 };
struct link_object;
size_t library_wasm_data(struct arena *a, const struct library_input *in, struct link_object *objects);
/* Whether the product is one of these. */
bool library_wanted(const struct build_options *o);
/* Dies when the options or the target cannot be those of a library. */
void library_check(struct arena *a, const struct build_options *o, const struct profile *p);
/* "model.o", "libmodel.a", "libmodel.so" */
const char *library_default_path(struct arena *a, const struct build_options *o);
/* Announces (output_claim) what will lie beside the product out.  Dies rather than replace a file that forgec did not write. */
void library_claim(struct arena *a, const struct build_options *o, const char *out);
/* Writes the product out, with --weights external its weights, and then the header beside it, whose path it returns: all or none of
 * them. */
const char *library_build(struct arena *a, struct toolchain *tc, const struct library_input *in, const char *out);
/* Says on stderr what lies beside the product, and of a shared library how programs find it. */
void library_announce(struct arena *a, const struct build_options *o, const char *out, const char *header);
#endif
