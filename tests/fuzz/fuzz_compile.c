/* fuzz_compile.c -- libFuzzer: any GGUF file goes through every stage from gguf to emit and pack, for a CPU and a GPU
 * or WebGPU, or ends in one error message.
 * For an accepted file the contracts between the stages hold: the graph's text reads back, places in arena and image do not collide,
 * sources contain no unescaped bytes of the file, and the same input gives the same bytes.
 * The first bytes choose options (enum choice), the rest is the file.  Seeds: files of tests/data; long files are cut, so weights may be
 * missing. */
#include "compiler/cpu/report.h"
#include "compiler/product/header.h"
#include "compiler/product/vocab.h"
#include "runtime/model/abi.h"
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { N_KINDS = TARGET_WEBGPU + 1, N_NAMES = 16 };            /* choice GPU: from N_NAMES on for WebGPU */
enum choice { CPU, GPU, FLAGS, CONTEXT, KV_TYPE, THREADS, N_CHOICES };
enum { EXACT = 1, UNFUSED = 2, TWICE = 4, IMAGE = 8, HEADER_ONLY = 16 };
#define GGUF_PREFIX N_CHOICES
#include "mutate_gguf.h"
#include "plan_check.h"
#include "plan_sources.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static jmp_buf jump;

static void on_die(const char *message)
{
    if (strchr(message, '\n') || !*message) abort();      /* the contract: one line */
    longjmp(jump, 1);
}

static void same(struct bytes x, struct bytes y) { if (x.size != y.size || (x.size && memcmp(x.data, y.data, x.size) != 0)) abort(); }

/* ---- graph ---- */

static struct bytes graph_text(struct arena *a, const struct graph *g)
{
    struct text t = { .arena = a };
    graph_print(&t, g);
    return (struct bytes){ (const uint8_t *)text_str(&t), t.size };
}

static void check_graph(struct arena *a, const struct model *m, const struct graph *g)
{
    const struct bytes text = graph_text(a, g);
    same(text, graph_text(a, graph_parse(a, m, "graph", (const char *)text.data)));
}

/* ---- weights ---- */

enum { PACK_MOST = 1 << 16 };

/* Packs some rows of every matrix with weights in the file, into memory of exactly the promised size. */
static void pack_some(const struct plan *p, const struct weight *w)
{
    const struct packing packing = plan_packing(p, w);
    const uint64_t bytes = packing_group_bytes(packing, w->cols);
    if (!w->tensor->data || bytes > PACK_MOST || w->cols > PACK_MOST) return;
    uint8_t *out = malloc((size_t)bytes);
    float *floats = malloc((size_t)w->cols * sizeof *floats);
    if (!out || !floats) abort();
    if (w->is_vector) weight_to_float(floats, w, 0, 1);
    else {
        weight_to_float(floats, w, w->rows - 1, 1);
        const uint8_t *rows = w->tensor->data + w->row0 * format_row_bytes(w->tensor->quant, w->cols);
        packing_write(packing, out, rows, w->rows, w->cols, (w->rows - 1) / packing.layout->group_rows, 1);
    }
    free(out);
    free(floats);
}

static void write_image(struct arena *a, const struct plan *p)
{
    static int fd = -1;
    for (uint32_t i = 0; i < p->model->n_weights; i++) if (!p->model->weights[i].tensor->data) return;
    if (p->image_bytes > PACK_MOST * 8) return;
    if (fd < 0) fd = memfd_create("image", MFD_CLOEXEC);
    if (fd < 0 || lseek(fd, 0, SEEK_SET) != 0) abort();
    struct outfile f = { .fd = fd, .path = "image", .temporary = "image" };
    struct image_writer w = { .arena = a, .plans = { p }, .n_plans = 1, .jobs = 1 };
    image_write(&f, &w);
    if (f.offset != p->image_bytes) abort();
}

/* ---- the pipeline ---- */

static void check_plan_text(struct arena *a, const struct plan *p)
{
    struct text t = { .arena = a };
    if (!p->gpu && !p->web) report_cpu(&t, p);             /* a GPU's report needs compiled code */
    fuse_print(&t, p->fused);
    for (size_t i = 0; i < t.size; i++) if ((unsigned char)t.data[i] < ' ' && t.data[i] != '\n') abort();
}

static const char *target(struct arena *a, enum target_kind kind, uint32_t number)
{
    const char **names = target_names(a, NULL);
    const char *of_kind[64];
    uint32_t n = 0;
    for (; *names; names++) if ((target_load(a, *names, NULL)->kind == kind) && n < COUNT_OF(of_kind)) of_kind[n++] = *names;
    return of_kind[number % n];
}

static struct plan_options options_of(const uint8_t *choice)
{
    static const uint32_t contexts[] = { 0, 1, 2, 15, 16, 17, 31, 64, 100, 127, 128, 129, 1000, 4096, 8192, 131072, 1u << 24,
                                         (1u << 24) + 1, UINT32_MAX };
    return (struct plan_options){ .n_ctx = contexts[choice[CONTEXT] % COUNT_OF(contexts)], .kv = (enum kv_type)(choice[KV_TYPE] % 3),
                                  .exact = choice[FLAGS] & EXACT, .max_threads = choice[THREADS] & 15 };
}

static void compile_for(struct arena *a, const struct graph *graph, const char *name, const uint8_t *choice, struct bytes vocab)
{
    const struct plan_options o = options_of(choice);
    const struct target *target = target_load(a, name, NULL);
    const struct plan *p = plan_make(a, graph, choice[FLAGS] & UNFUSED ? FUSE_NONE : FUSE_LAYER, target, &o);
    plan_check(a, p);
    check_plan_text(a, p);
    const struct bytes text = plan_sources(a, p, vocab.data);
    if (choice[FLAGS] & TWICE)
        same(text, plan_sources(a, plan_make(a, graph, choice[FLAGS] & UNFUSED ? FUSE_NONE : FUSE_LAYER, target, &o), vocab.data));
    for (uint32_t i = 0; i < p->model->n_weights; i++) pack_some(p, &p->model->weights[i]);
    const struct library library = { .plan = p, .prefix = "model", .product = "model.o", .embedded = true, .vocab = vocab,
                                     .build_hash = "0123", .n_kernels = 7 };
    if (choice[FLAGS] & IMAGE) {
        check_source(emit_header(a, &library));
        write_image(a, p);
    }
}

static enum target_kind gpu_of(const uint8_t *choice) { return choice[GPU] & N_NAMES ? TARGET_WEBGPU : TARGET_GPU; }

/* Names are read once: reading all targets takes longer than the pipeline. */
static const char *name_of(enum target_kind kind, const uint8_t *choice)
{
    const uint32_t number = choice[kind == TARGET_CPU ? CPU : GPU] % N_NAMES;
    static const char *names[N_KINDS][N_NAMES];
    static struct arena *kept;
    const char **name = &names[kind][number];
    if (!kept) kept = arena_create();
    if (!*name) *name = target(kept, kind, number);
    return *name;
}

static void compile(struct arena *a, const uint8_t *data, size_t size)
{
    const uint8_t *choice = data;
    const struct gguf *file = gguf_parse(a, "fuzz.gguf", data + N_CHOICES, size - N_CHOICES, choice[FLAGS] & HEADER_ONLY);
    const struct model *model = model_describe(a, file, NULL);
    const struct graph *graph = graph_build(a, model);
    check_graph(a, model, graph);
    const struct bytes vocab = vocab_build(a, file, model->n_vocab);
    const enum target_kind kinds[] = { TARGET_CPU, gpu_of(choice) };
    for (size_t i = 0; i < COUNT_OF(kinds); i++) compile_for(a, graph, name_of(kinds[i], choice), choice, vocab);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < N_CHOICES) return 0;
    name_of(TARGET_CPU, data);                                     /* no target may die */
    name_of(gpu_of(data), data);
    struct arena *volatile a = arena_create();
    die_handler = on_die;
    if (setjmp(jump) == 0) compile(a, data, size);
    die_handler = NULL;
    arena_destroy(a);
    return 0;
}
