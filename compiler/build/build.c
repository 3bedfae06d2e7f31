/* build.c -- every stage in order.  verify.c and compare.c call the first of them for what they hold the program against. */
#include "build.h"
#include "compiler/base/resource.h"
#include "cache.h"
#include "code_object.h"
#include "edited.h"
#include "compiler/cpu/emit.h"
#include "compiler/cpu/report.h"
#include "compiler/gpu/choose.h"
#include "compiler/gpu/emit.h"
#include "compiler/web/emit.h"
#include "compiler/web/tests.h"
#include "image.h"
#include "issues.h"
#include "compiler/plan/layers.h"
#include "compiler/plan/share.h"
#include "compiler/plan/text.h"
#include "compiler/plan/tuned.h"
#include "compiler/product/library.h"
#include "compiler/product/web.h"
#include "link.h"
#include "compiler/gpu/report.h"
#include "compiler/chat/model.h"
#include "compiler/product/grammar.h"
#include "compiler/product/vocab.h"
#include "weights_file.h"
#include "runtime/model/state.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MOST_TARGETS = 8 };           /* programs, those of GPUs that share the model counted one by one */

struct target {                     /* one program of the product */
    struct profile   *profile;
    uint32_t          rank, code_rank;        /* of GPUs that share the model: which, and whose code it runs (emit_options); */
    struct kernel_choices *tiles;             /* of prefill's products, the first one's for all; NULL: it is alone */
    struct plan      *plan;
    struct bytes      kernels;      /* the text that clang compiles for the target */
    struct bytes      source;       /* the program: of a CPU that text; of a GPU what tells the launches, once code is known */
    struct bytes      code;
    uint64_t          weights_offset;
    const char       *edited;         /* hash of the source that o->source has in the place of what forgec emits; NULL: it is that */
};

double build_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void step(const struct build_options *o, const char *what, double since)
{
    if (o->cc.spawn.verbose && !o->cc.spawn.dry_run) fprintf(stderr, "forgec: %-8s %8.1f ms\n", what, (build_seconds() - since) * 1e3);
}

/* What goes on, on a terminal; an empty text clears the line. */
static void progress(const struct build_options *o, const char *what)
{
    if (o->quiet || o->cc.spawn.verbose || !isatty(2)) return;
    fprintf(stderr, "\r\033[K%s", what);
}

/* "models/tiny-q8_0.gguf" -> "tiny-q8_0" */
static const char *default_name(struct arena *a, const char *model_path, const char *suffix)
{
    char *name = arena_strdup(a, path_name(model_path));
    char *dot = strrchr(name, '.');
    if (dot && dot != name) *dot = 0;
    name = arena_printf(a, "%s%s", name, suffix);
    return file_is_same(name, model_path) ? arena_printf(a, "%s.out", name) : name;
}

static void write_text(struct arena *a, const char *path, struct bytes text)
{
    if (strcmp(path, "-") == 0) {
        const bool failed = fwrite(text.data, 1, text.size, stdout) < text.size;
        if (failed && errno != EPIPE) die("cannot write to standard output: %s", strerror(errno));
        return;                                            /* main() writes out the rest, and knows what it means when a reader has gone */
    }
    file_write(a, path, text);
}

const char *build_options_text(struct arena *a, const struct build_options *o, uint32_t n_ctx)
{
    const char *context = n_ctx ? arena_printf(a, " --ctx %u", n_ctx) : "";
    const char *columns = o->plan.columns ? arena_printf(a, " --columns %u", o->plan.columns) : "";
    const char *spec = o->plan.spec ? arena_printf(a, " --spec %s", spec_kind_name[o->plan.spec]) : "";
    struct text gpus = { .arena = a };
    if (o->gpus > 1) text_printf(&gpus, " --gpus %u%s", o->gpus, o->plan.split == SPLIT_LAYER ? " --split layer" : "");
    for (uint32_t r = 0; r < o->gpus && o->layers[0]; r++) text_printf(&gpus, "%c%u", r ? ',' : ':', o->layers[r]);
    return arena_printf(a, "--fuse %s%s --kv %s%s%s%s%s", o->fuse == FUSE_NONE ? "none" : "layer", context, kv_type_name[o->plan.kv],
                        columns, spec, gpus.size ? text_str(&gpus) : "", o->plan.exact ? " --exact" : "");
}

static const char *options_text(struct arena *a, const struct build_options *o, const struct plan *p)
{
    struct text t = { .arena = a };
    text_puts(&t, build_options_text(a, o, p->options.n_ctx));
    if (p->profile->tuned) text_printf(&t, " --tuned %s", path_name(p->profile->tuned->at.file));
    for (uint32_t i = 0; i < p->model->n_ignored; i++) text_printf(&t, " %s %s", p->model->ignored[i].option, p->model->ignored[i].name);
    return text_str(&t);
}

/* ---- kernels ---- */

/* A target's kernels as text. */
static const struct kernels_kind {
    struct bytes (*emit)(struct arena *a, const struct plan *p, const struct emit_options *o);
    const char    *suffix;          /* of the text as a file */
    enum cc_kind   cc, cc_library;
} kernels_kinds[] = {
    [TARGET_CPU] = { emit_cpu, ".c", CC_KERNELS, CC_LIBRARY_KERNELS },
    [TARGET_GPU] = { emit_gpu, ".hip", CC_DEVICE, CC_DEVICE },
    [TARGET_WEBGPU] = { emit_web, ".wgsl", CC_LIBRARY, CC_LIBRARY },
};

static const char *kernels_name(struct arena *a, const struct profile *p)
{
    return p->kind == TARGET_GPU ? arena_printf(a, "model-%s.hip", p->name) : "model.c";
}

/* Whose text is in what clang compiles for the target, besides forgec's. */
static const char *user_text(struct arena *a, const struct build_options *o, const struct target *t, const char *name)
{
    return t->edited ? o->source : o->templates_dir ? arena_printf(a, "%s with the templates of %s", name, o->templates_dir) : NULL;
}

static struct cc_job kernels_job(struct arena *a, const struct build_options *o, const struct target *t)
{
    const char *name = !t->rank ? kernels_name(a, t->profile) : arena_printf(a, "rank%u-%s", t->rank, kernels_name(a, t->profile));
    return (struct cc_job){ .name = name, .source = t->kernels, .kind = kernels_kinds[t->profile->kind].cc,
                            .profile = t->profile, .user_text = user_text(a, o, t, name) };
}

/* PTX is text that the driver reads up to its 0. */
static struct bytes code_with_end(struct arena *a, struct bytes code)
{
    uint8_t *copy = arena_alloc(a, code.size + 1);
    memcpy(copy, code.data, code.size);
    copy[code.size] = 0;
    return (struct bytes){ copy, code.size + 1 };
}

/* Refuses the tiles of prefill products whose kernels spill: how many registers clang needs for a tile the plan can only estimate.  True:
 * the kernels are to be made again. */
static bool refuse_tiles(struct arena *a, const struct target *t)
{
    const struct kernel_list *list = t->plan->kernels;
    size_t n = 0;
    bool again = false;
    const struct kernel_resources *r = code_object_read(a, t->code, &n);
    for (size_t i = 0; i < n; i++) {
        if (!code_object_spills(t->profile, &r[i])) continue;
        for (uint32_t k = 0; k < list->n_kernels; k++) {
            const struct kernel *kernel = &list->kernels[k];
            const uint32_t *param = kernel->param;
            if (kernel->template != TEMPLATE_gemm || strcmp(kernel->name, r[i].name)) continue;
            again |= gemm_refuse(&t->plan->gpu->refused, param[PARAM_TOKENS], param[PARAM_ROWS], param[PARAM_THREADS]);
        }
    }
    return again;
}

static void compile_target(struct arena *a, const struct build_options *o, struct toolchain *tc, struct target *t)
{
    struct cc_job job = kernels_job(a, o, t);
    cc_compile(a, tc, &job, 1);
    if (!o->cc.spawn.dry_run) t->code = code_with_end(a, job.object);
}

/* Plans, emits and compiles a GPU target's kernels again until their tiles fit the registers.  True: they are others now, also those that
 * other ranks are planned with. */
static bool settle_tiles(struct arena *a, const struct build_options *o, struct toolchain *tc, struct target *t,
                         const struct emit_options *eo)
{
    bool changed = false;
    for (; !o->cc.spawn.dry_run && !o->allow_spills && refuse_tiles(a, t); changed = true) {
        gpu_plan_kernels(a, t->plan);
        t->kernels = emit_gpu(a, t->plan, eo);
        compile_target(a, o, tc, t);
    }
    if (changed && t->tiles && !t->rank) *t->tiles = kernel_choices_of(a, t->plan->kernels, TEMPLATE_gemm, t->profile->path);
    return changed;
}

/* What the kernels of a target use; spills are an error.  The table goes to text, NULL: not wanted. */
static void check_kernels(struct arena *a, const struct build_options *o, const struct target *t, struct text *table)
{
    size_t n = 0;
    struct kernel_resources *r = code_object_read(a, t->code, &n);
    const char *why;
    if (table && strcmp(t->profile->api, "cuda") == 0) code_object_ptxas(a, &o->cc.spawn, t->profile, t->code, r, n, &why);
    code_object_check(a, t->profile, r, n, o->allow_spills);
    if (!table) return;
    const bool counted = issues_count(a, t->profile, t->code, r, n, &why);
    report_print(a, table, t->plan, r, n, counted ? NULL : why);
}

/* ---- graph and plan ---- */

/* Where a text goes that nobody needs as a file. */
static const char *text_path(struct arena *a, const struct build_options *o)
{
    if (!o->out_path || strcmp(o->out_path, "-") == 0) return "-";
    output_claim(a, o->out_path);
    return o->out_path;
}

static const char *write_graph(struct arena *a, const struct build_options *o, const struct graph *graph)
{
    const char *path = text_path(a, o);
    struct text t = { .arena = a };
    graph_print(&t, graph);
    write_text(a, path, (struct bytes){ (const uint8_t *)t.data, t.size });
    return path;
}

/* A GPU's plan also says what its kernels use of the machine, where they can be compiled. */
static void put_gpu_plan(struct arena *a, const struct build_options *o, struct target *target, struct text *t)
{
    struct toolchain *tc = o->cc.spawn.dry_run ? toolchain_open(a, &o->cc) : toolchain_find(a, &o->cc);
    if (!tc || !toolchain_makes_kernels(tc, target->profile)) {
        report_print(a, t, target->plan, NULL, 0, "the kernels are not compiled");
        text_printf(t, "# registers, waves and spills are not known: kernels for %s are compiled with clang %d or later%s\n",
                    target->profile->name, CLANG_OLDEST, strcmp(target->profile->api, "cuda") == 0 ? "" : " and LLVM's lld");
        return;
    }
    const struct emit_options eo = { .templates = o->templates_dir, .model_hash = "-", .weights_hash = "-",
                                     .options = options_text(a, o, target->plan), .compiler = "forgec " FORGEC_VERSION,
                                     .compile_command = "-" };
    if (target->rank) gpu_plan_kernels(a, target->plan);     /* the first one's tiles may have changed */
    target->kernels = emit_gpu(a, target->plan, &eo);
    compile_target(a, o, tc, target);
    settle_tiles(a, o, tc, target, &eo);
    if (!o->cc.spawn.dry_run) check_kernels(a, o, target, t);
}

/* Lines of a report as comments of the plan. */
static void put_comment(struct text *t, const char *report)
{
    for (const char *line = report; *line; line += strcspn(line, "\n") + 1)
        text_printf(t, "%s%.*s\n", *line == '#' ? "" : "#", (int)strcspn(line, "\n"), line);
}

static const char *write_plan(struct arena *a, const struct build_options *o, struct target *targets, uint32_t n)
{
    const char *path = text_path(a, o);
    struct text t = { .arena = a };
    for (uint32_t i = 0; i < n; i++) {
        struct text report = { .arena = a }, plan = { .arena = a };
        if (targets[i].plan->gpu) put_gpu_plan(a, o, &targets[i], &report);
        else if (!targets[i].plan->web) report_cpu(&report, targets[i].plan);
        plan_text_print(&plan, targets[i].plan, options_text(a, o, targets[i].plan));
        if (targets[i].rank) {                               /* what is read back is the first one's: plan_beside() */
            text_printf(&t, "\n# ---- GPU %u of those that share the model ----\n", targets[i].rank);
            put_comment(&t, text_str(&plan));
        }
        else text_puts(&t, text_str(&plan));
        text_puts(&t, "\n");
        put_comment(&t, text_str(&report));
        report = (struct text){ .arena = a };
        fuse_print(&report, targets[i].plan->fused);
        text_puts(&t, "\n# groups of operations\n");
        put_comment(&t, text_str(&report));
    }
    write_text(a, path, (struct bytes){ (const uint8_t *)t.data, t.size });
    return path;
}

/* ---- the executable ---- */

/* What all images depend on; of one image its own hash. */
static const char *images_hash(struct arena *a, const struct image_writer *w, const char *model_hash)
{
    if (w->n_plans == 1) return image_hash(a, w->plans[0], model_hash);
    struct bytes parts[COUNT_OF(w->plans)];
    for (uint32_t i = 0; i < w->n_plans; i++) parts[i] = bytes_of(image_hash(a, w->plans[i], model_hash));
    return cache_key_hex(a, cache_key_of(parts, w->n_plans));
}

/* Distinct images, one behind the other; sets every target's offset.  Returns the bytes of all. */
static uint64_t place_images(struct arena *a, struct image_writer *writer, struct target *targets, uint32_t n)
{
    uint64_t end = 0;
    for (uint32_t i = 0; i < n; i++) {
        const char *hash = image_hash(a, targets[i].plan, "");
        uint32_t k = 0;
        while (k < writer->n_plans && strcmp(image_hash(a, writer->plans[k], ""), hash)) k++;
        if (k == writer->n_plans) {
            writer->offsets[k] = plan_align(end, 4096);
            writer->plans[writer->n_plans++] = targets[i].plan;
            end = writer->offsets[k] + targets[i].plan->image_bytes;
        }
        targets[i].weights_offset = writer->offsets[k];
    }
    return end;
}

/* Programs of GPUs with equal parts of a model have one code. */
static void share_code(struct target *targets, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        targets[i].code_rank = targets[i].rank;
        for (uint32_t k = 0; k < i && targets[i].rank; k++)
            if (targets[k].code_rank == targets[k].rank && targets[i].kernels.size == targets[k].kernels.size &&
                !memcmp(targets[i].kernels.data, targets[k].kernels.data, targets[k].kernels.size))
                targets[i].code_rank = targets[k].rank;
    }
}

static bool has_own_code(const struct target *t) { return t->plan->gpu && t->code_rank == t->rank; }

/* The ranks behind the first, whose tiles have changed. */
static void compile_others(struct arena *a, const struct build_options *o, struct toolchain *tc, struct target *targets, uint32_t n,
                           const struct emit_options eo[])
{
    for (uint32_t i = 1; i < n; i++) {
        gpu_plan_kernels(a, targets[i].plan);
        targets[i].kernels = emit_gpu(a, targets[i].plan, &eo[i]);
    }
    share_code(targets, n);
    for (uint32_t i = 1; i < n; i++) if (has_own_code(&targets[i])) compile_target(a, o, tc, &targets[i]);
}

/* Where the launches of target `own` stand among those of all GPUs in a row. */
static void count_launches(const struct target *targets, uint32_t n, uint32_t own, struct emit_span spans[])
{
    for (enum kernel_steps steps = 0; steps < STEPS_COUNT; steps++) {
        spans[steps] = (struct emit_span){ 0, 0 };
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t launches = kernel_launches_of(targets[i].plan->kernels, steps).n;
            if (i < own) spans[steps].before += launches;
            spans[steps].all += launches;
        }
    }
}

/* The kernels of GPU programs, then the sources that describe them.  The runtime waits for neither: where there are kernels, it is
 * compiled beside them.  True: it is done. */
static bool compile_kernels(struct arena *a, const struct build_options *o, struct toolchain *tc, struct target *targets, uint32_t n,
                            const struct emit_options eo[], struct cc_job *runtime, size_t n_runtime)
{
    share_code(targets, n);
    struct cc_job *jobs = arena_array(a, struct cc_job, n + n_runtime);
    size_t n_kernels = 0;
    for (uint32_t i = 0; i < n; i++)
        if (has_own_code(&targets[i])) jobs[n_kernels++] = kernels_job(a, o, &targets[i]);
    if (!n_kernels) return false;
    const double since = build_seconds();
    progress(o, arena_printf(a, "compiling kernels for %s", jobs[0].profile->name));
    for (size_t i = 0; i < n_runtime; i++) jobs[n_kernels + i] = runtime[i];
    cc_compile(a, tc, jobs, n_kernels + n_runtime);
    for (size_t i = 0; i < n_runtime; i++) runtime[i] = jobs[n_kernels + i];
    progress(o, "");
    for (uint32_t i = 0, k = 0; i < n; i++) if (has_own_code(&targets[i])) targets[i].code = code_with_end(a, jobs[k++].object);
    for (uint32_t i = 0; i < n; i++) {
        struct target *t = &targets[i];
        struct emit_options own = eo[i];
        if (!t->plan->gpu) continue;
        if (!has_own_code(t)) t->code = targets[t->code_rank].code;
        else if (!o->source && settle_tiles(a, o, tc, t, &own) && t->tiles && !t->rank) compile_others(a, o, tc, targets, n, eo);
        struct text table = { .arena = a };
        if (!o->cc.spawn.dry_run) check_kernels(a, o, t, o->cc.spawn.verbose && has_own_code(t) ? &table : NULL);
        if (table.size) fputs(text_str(&table), stderr);
    }
    for (uint32_t i = 0; i < n; i++) {                       /* now that all know their launches */
        struct emit_options own = eo[i];
        if (!targets[i].plan->gpu) continue;
        own.code_rank = targets[i].code_rank;
        if (targets[i].plan->options.split == SPLIT_LAYER) count_launches(targets, n, i, own.spans);
        targets[i].source = emit_gpu_program(a, targets[i].plan, &own, targets[i].code.size);
    }
    step(o, "kernels", since);
    return true;
}

/* What a program with a server shows at /, with its zero. */
static struct bytes page(struct arena *a)
{
    const struct bytes html = resource_get(a, NULL, "runtime/serve/page.html");
    uint8_t *text = arena_alloc(a, html.size + 1);
    memcpy(text, html.data, html.size);
    text[html.size] = 0;
    return (struct bytes){ text, html.size + 1 };
}

static void compile_and_link(struct arena *a, const struct build_options *o, struct toolchain *tc, struct target *targets, uint32_t n,
                             const struct emit_options eo[], struct bytes vocab, struct bytes chat, struct bytes grammar,
                             const char *weights_hash, struct image_writer *writer, uint64_t weights_bytes, const char *out)
{
    const struct profile *first = targets[0].profile;
    size_t n_jobs;
    struct cc_job *jobs = cc_runtime_jobs(a, first, (struct cc_parts){ o->has_server, chat.data != NULL }, n + 1, &n_jobs);
    const size_t n_done = compile_kernels(a, o, tc, targets, n, eo, jobs, n_jobs) ? n_jobs : 0;
    double since = build_seconds();
    const char *symbols[MOST_TARGETS];
    uint32_t n_programs = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t rank = targets[i].rank;
        if (!rank) symbols[n_programs++] = emit_symbol(a, targets[i].profile, 0);
        jobs[n_jobs++] = (struct cc_job){ .name = rank ? arena_printf(a, "model-%s-rank%u.c", targets[i].profile->name, rank)
                                          : n == 1 ? "model.c" : arena_printf(a, "model-%s.c", targets[i].profile->name),
                                          .source = targets[i].source, .kind = targets[i].plan->gpu ? CC_RUNTIME : CC_KERNELS,
                                          .profile = targets[i].profile, .user_text = targets[i].plan->gpu ? NULL
                                          : user_text(a, o, &targets[i], "model.c") };
    }
    jobs[n_jobs++] = (struct cc_job){ .name = "programs.c", .source = emit_programs(a, symbols, n_programs, targets[0].edited),
                                      .kind = CC_RUNTIME, .profile = first };
    progress(o, arena_printf(a, "compiling %zu sources for %s", n_jobs - n_done, first->name));
    cc_compile(a, tc, jobs + n_done, n_jobs - n_done);
    progress(o, "");
    step(o, "cc", since);

    since = build_seconds();
    struct link_object *objects = arena_array(a, struct link_object, n_jobs + n + 4);
    for (size_t i = 0; i < n_jobs; i++) objects[i] = (struct link_object){ jobs[i].name, jobs[i].object };
    size_t n_objects = n_jobs;
    if (vocab.data) objects[n_objects++] = link_data_object(a, first, "forge_vocab", vocab);
    if (o->has_server) objects[n_objects++] = link_data_object(a, first, "forge_page", page(a));
    if (chat.data) objects[n_objects++] = link_data_object(a, first, "forge_chat", chat);
    if (grammar.data) objects[n_objects++] = link_data_object(a, first, "forge_grammar", grammar);
    for (uint32_t i = 0; i < n; i++)
        if (has_own_code(&targets[i]))
            objects[n_objects++] = link_data_object(a, first, emit_code_symbol(a, targets[i].profile, targets[i].rank), targets[i].code);
    const struct link_input input = { .profile = first, .objects = objects, .n_objects = n_objects, .is_static = o->is_static,
                                      .has_server = o->has_server, .weights_bytes = o->weights == WEIGHTS_EMBED ? weights_bytes : 0 };
    struct outset set = { .n = 0 };
    link_executable(a, tc, &input, &set, out, image_write, writer);
    if (o->weights == WEIGHTS_EXTERNAL && !o->cc.spawn.dry_run)
        weights_file_write(a, &set, weights_file_path(a, out), weights_hash, weights_bytes, image_write, writer);
    outset_commit(a, &set);
    step(o, "link", since);
}

/* The choices of o->plan_path, or NULL.  They are for one target. */
static const struct plan_text *read_choices(struct arena *a, const struct build_options *o, const struct profile *target)
{
    if (!o->plan_path) return NULL;
    if (o->n_targets > 1) die("--plan: a plan is of one target; build for each alone");
    const struct bytes file = file_read(a, o->plan_path);
    const struct plan_text *text = plan_text_read(a, o->plan_path, arena_strndup(a, (const char *)file.data, file.size));
    if (strcmp(text->target, target->name))
        die_at(text->target_at, "the plan is for %s, this build is for %s; give -t %s", text->target, target->name, text->target);
    return text;
}

/* The plan with those choices, which all have found their kernels, or with what was tuned. */
static struct plan *plan_with(struct arena *a, const struct build_options *o, const struct graph *graph, const struct profile *target,
                              struct plan_options options, const struct plan_text *text)
{
    if (text) {
        options.chunk = text->chunk;
        options.choices = &text->choices;
    }
    struct plan *p = plan_make(a, graph, o->fuse, target, &options);
    if (target->tuned && !text) {
        options.choices = tuned_choices(a, p, build_options_text(a, o, 0));
        return options.choices ? plan_make(a, graph, o->fuse, target, &options) : p;
    }
    if (!text) return p;
    plan_text_check(p, text);
    const char *own = options_text(a, o, p);
    if (text->options && strcmp(text->options, own))
        die_at(text->options_at, "the plan was made with %s, this build has %s", text->options, own);
    return p;
}

/* The plan of a GPU behind the first of those that share the model. */
static struct plan *plan_beside(struct arena *a, const struct build_options *o, const struct graph *graph, const struct plan *first,
                                const struct kernel_choices *tiles)
{
    struct plan_options options = first->options;
    options.choices = tiles;
    struct plan *p = plan_make(a, graph, o->fuse, first->profile, &options);
    if (!first->options.choices) return p;
    options.choices = tuned_beside(a, first, p, tiles);
    return plan_make(a, graph, o->fuse, first->profile, &options);
}

struct plan *build_plan(struct arena *a, const struct build_options *o, const struct graph *graph, const struct profile *target)
{
    struct plan_options options = o->plan;
    options.ranks = o->gpus > 1 && options.split == SPLIT_TENSOR ? o->gpus : 0;
    if (options.split == SPLIT_LAYER) options.split = SPLIT_TENSOR;      /* of all layers, as one GPU would compute them */
    if (options.ranks) graph = share_graph(a, graph, 0, options.ranks, SHARE_COLUMNS);
    return plan_with(a, o, graph, target, options, read_choices(a, o, target));
}

enum { LIBRARY_WORKERS = 8 };     /* parts into which a library cuts each kernel, unless --threads says otherwise */

/* Is the engine that of runtime/library, which needs no operating system? */
static bool is_library(const struct build_options *o, const struct profile *p) { return library_wanted(o) || web_wanted(o, p); }
static bool is_binary(const struct build_options *o) { return o->emit == EMIT_EXE || library_wanted(o); }

/* Known memory is that of the largest chip of the target, or of this machine; where a program runs is only known there, so this warns. */
static void warn_of_memory(const struct build_options *o, const struct plan *p, const char *target)
{
    const bool native = strcmp(target, "native") == 0;
    const uint64_t here = native ? (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
    const uint64_t room = p->gpu ? p->profile->memory_bytes : here, needed = p->image_bytes + p->state_bytes + p->arena_bytes;
    const double gib = 1.0 / (1 << 30);
    if (!is_binary(o) || room == 0 || needed <= room) return;
    const uint32_t fits = state_fits(needed, p->state_bytes_per_token, p->options.n_ctx, room);
    char remedy[128] = "weights of fewer bits are needed";
    if (fits > 0)
        snprintf(remedy, sizeof remedy, "it fits with --ctx %u%s", fits, p->options.kv == KV_TYPE_Q8_0 ? "" : ", of --kv q8_0 with more");
    warn("%s: the program needs %.1f GiB (weights %.1f, state %.1f for %u tokens, activations %.1f), and %s has %.1f%s: %s",
         p->model->gguf->path, (double)needed * gib, (double)p->image_bytes * gib, (double)p->state_bytes * gib, p->options.n_ctx,
         (double)p->arena_bytes * gib, native ? "this machine" : p->profile->name, (double)room * gib, native ? "" : " at most", remedy);
}

/* GPU programs of one executable share its weights, so rows are padded for all of them when they are for one: the smallest row_period. */
static void share_row_period(struct target *targets, uint32_t n)
{
    uint32_t least = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t period = targets[i].profile->row_period;
        if (period && (!least || period < least)) least = period;
    }
    for (uint32_t i = 0; i < n; i++) if (targets[i].profile->kind == TARGET_GPU) targets[i].profile->row_period = least;
}

/* What there is of a target whose kernels the driver compiles. */
static void check_webgpu(const struct build_options *o, const struct profile *p)
{
    const char *wrong = library_wanted(o) ? "a library is the folder that --emit exe makes" : o->emit == EMIT_ASM
        ? "its kernels are WGSL, of which drivers make machine code: --emit source shows them" : o->source
        ? "forgec cc is for targets whose kernels clang compiles; --templates DIR takes changed ones" : NULL;
    if (wrong) die("target %s: %s", p->name, wrong);
}

/* What there is of a model that several GPUs share. */
static void check_gpus(const struct build_options *o, const struct profile *p)
{
    const char *wrong = p->kind != TARGET_GPU ? "shares a model out to GPUs; the target is none" : o->n_targets > 1
        ? "is for one target at a time" : library_wanted(o) ? "is for programs; a library runs on one GPU" : o->plan.spec
        ? "and --spec exclude each other: speculation runs on one GPU" : o->source
        ? "is nothing for forgec cc, whose source is that of one GPU" : o->plan.split == SPLIT_LAYER && (o->plan_path || o->tuned_path)
        ? "and --split layer take no --plan and no --tuned, which are of all layers" : NULL;
    if (wrong) die("--gpus %s", wrong);
    if (o->is_static) die("--static: a program for %s opens the GPU driver's library at run time, which a static one cannot", p->name);
}

/* What all of them must do alike: the shortest steps of a prompt, and steps of several sequences where all can have them. */
static bool agree(const struct target targets[], uint32_t n, struct plan_options *options)
{
    bool differ = false;
    options->chunk = targets[0].plan->chunk;
    for (uint32_t i = 1; i < n; i++) {
        const struct plan *p = targets[i].plan;
        differ |= p->chunk != targets[0].plan->chunk || p->gpu->has_several != targets[0].plan->gpu->has_several;
        if (p->chunk < options->chunk) options->chunk = p->chunk;
        options->alone |= !p->gpu->has_several;
    }
    options->alone |= !targets[0].plan->gpu->has_several;
    return !differ;
}

static void plan_layers(struct arena *a, const struct build_options *o, const struct graph *graph, const struct layers_cuts *cuts,
                        struct plan_options *options, struct target targets[])
{
    for (uint32_t r = 0; r < o->gpus; r++) {
        options->rank = r;
        targets[r].plan = plan_make(a, layers_graph(a, graph, cuts, r), o->fuse, targets[r].profile, options);
    }
}

enum { ROW_CHUNK = 512 };        /* GPUs in a row work at different chunks of a prompt: it must be cut in several */

/* A program for each of GPUs in a row, which may be of different kinds. */
static uint32_t plan_row(struct arena *a, const struct build_options *o, const struct graph *graph, struct target targets[])
{
    struct plan_options options = o->plan;
    double speeds[FORGE_GPU_MAX_RANKS];
    if (graph->model->pooling) die("%s: --gpus is for text that goes on; this is a model of embeddings", o->model_path);
    for (uint32_t r = 0; r < o->gpus; r++) {
        struct profile *p = targets[r].profile = profile_load_tuned(a, o->row[r] ? o->row[r] : o->targets[0], o->targets_dir, NULL);
        check_gpus(o, p);
        if (strcmp(p->api, targets[0].profile->api))
            die("-t %s+%s: GPUs of two makers do not share a model", targets[0].profile->name, p->name);
        speeds[r] = p->bandwidth_gb_s > 0 ? p->bandwidth_gb_s : 1;
        targets[r].rank = r;
    }
    options.chunk = ROW_CHUNK;
    for (uint32_t r = 0; r < o->gpus; r++)
        if (targets[r].profile->tile.prefill_chunk < options.chunk) options.chunk = targets[r].profile->tile.prefill_chunk;
    const struct layers_cuts cuts = layers_cut(a, graph, o->gpus, o->layers[0] ? o->layers : NULL, speeds);
    options.ranks = o->gpus;
    plan_layers(a, o, graph, &cuts, &options, targets);
    if (!agree(targets, o->gpus, &options)) plan_layers(a, o, graph, &cuts, &options, targets);
    for (uint32_t r = 0; r < o->gpus; r++) warn_of_memory(o, targets[r].plan, targets[r].profile->name);
    return o->gpus;
}

/* A program for each of the GPUs that share the model, on one profile. */
static uint32_t plan_ranks(struct arena *a, const struct build_options *o, const struct graph *graph, struct target targets[])
{
    struct plan_options options = o->plan;
    struct profile *p = profile_load_tuned(a, o->targets[0], o->targets_dir, o->tuned_path);
    check_gpus(o, p);
    if (graph->model->pooling) die("%s: --gpus is for text that goes on; this is a model of embeddings", o->model_path);
    options.ranks = o->gpus;
    struct kernel_choices *tiles = arena_new(a, struct kernel_choices);
    for (uint32_t r = 0; r < o->gpus; r++) {
        targets[r].profile = p;
        targets[r].rank = r;
        targets[r].tiles = tiles;                        /* all have the same launches, whatever their parts */
        const struct graph *part = share_graph(a, graph, r, o->gpus, SHARE_COLUMNS);
        targets[r].plan = r ? plan_beside(a, o, part, targets[0].plan, tiles) : plan_with(a, o, part, p, options, read_choices(a, o, p));
        warn_of_memory(o, targets[r].plan, o->targets[0]);
        if (!r) *tiles = kernel_choices_of(a, targets[0].plan->kernels, TEMPLATE_gemm, p->path);
    }
    return o->gpus;
}

/* Profiles and plans; their programs share one executable. */
static uint32_t plan_targets(struct arena *a, const struct build_options *o, const struct graph *graph, struct target targets[])
{
    const uint32_t n = o->n_targets ? o->n_targets : 1;
    if (o->tuned_path && n > 1) die("--tuned: the settings are of one target; build for each alone");
    for (uint32_t i = 0; i < n; i++)
        targets[i].profile = profile_load_tuned(a, o->n_targets ? o->targets[i] : "native", o->targets_dir, o->tuned_path);
    share_row_period(targets, n);
    const bool pair = n == 2 && web_is_pair(targets[0].profile, targets[1].profile);
    struct plan_options options = o->plan;
    for (uint32_t i = 0; i < n; i++) {
        const bool web = web_wanted(o, targets[i].profile);
        if (targets[i].profile->kind == TARGET_WEBGPU) check_webgpu(o, targets[i].profile);
        if (library_wanted(o)) library_check(a, o, targets[i].profile);
        if (web) web_check(o, targets[i].profile, pair);
        if (!options.max_threads && (web || library_wanted(o))) options.max_threads = web ? 1 : LIBRARY_WORKERS;
        const char *no_executable = o->emit == EMIT_EXE ? profile_no_executable(a, targets[i].profile) : NULL;
        if (no_executable) die("%s", no_executable);
        targets[i].plan = plan_with(a, o, graph, targets[i].profile, options, read_choices(a, o, targets[i].profile));
        warn_of_memory(o, targets[i].plan, o->n_targets ? o->targets[i] : "native");
        if (o->is_static && targets[i].plan->gpu)
            die("--static: a program for %s opens the GPU driver's library at run time, which a static one cannot",
                targets[i].profile->name);
        if (strcmp(targets[i].profile->elf_machine, targets[0].profile->elf_machine))
            die("targets %s and %s are different machines; one executable holds one", targets[0].profile->name, targets[i].profile->name);
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(emit_symbol(a, targets[i].profile, 0), emit_symbol(a, targets[k].profile, 0)) == 0)
                die("targets %s and %s have the same name; give each once", targets[k].profile->name, targets[i].profile->name);
    }
    const bool many_texts = n > 1 && (o->emit == EMIT_SOURCE || o->emit == EMIT_ASM || o->source);
    if (many_texts) die("%s takes one target", o->source ? "forgec cc" : o->emit == EMIT_ASM ? "--emit asm" : "--emit source");
    return n;
}

/* An edited source takes the place of the emitted one unless it is the same. */
static void take_edited(struct arena *a, const struct build_options *o, struct target *t, const struct emit_options *eo)
{
    const struct bytes edited = file_read(a, o->source);
    edited_check(a, o->source, edited, t->plan, eo);
    if (edited.size == t->kernels.size && memcmp(edited.data, t->kernels.data, edited.size) == 0) return;
    t->edited = edited_hash(a, edited);
    t->kernels = edited_for_clang(a, o->source, edited);
}

static void emit_target(struct arena *a, const struct build_options *o, struct toolchain *tc, struct target *t,
                        const struct emit_options *eo)
{
    const bool gpu = t->plan->gpu != NULL, text = o->source || o->emit == EMIT_SOURCE || o->emit == EMIT_ASM;
    t->kernels = kernels_kinds[t->profile->kind].emit(a, t->plan, eo);
    if (gpu && text && !t->rank && !o->cc.spawn.dry_run && !o->allow_spills && strcmp(t->profile->api, "hip") == 0) {
        compile_target(a, o, tc, t);            /* the text is that of the kernels which a build takes; of PTX nobody knows the registers */
        settle_tiles(a, o, tc, t, eo);
    }
    if (o->source) take_edited(a, o, t, eo);
    if (!gpu) t->source = t->plan->web ? emit_web_program(a, t->plan, eo) : t->kernels;
}

/* A folder for pages has weights of its own for each of its targets. */
static void build_web(struct arena *a, struct toolchain *tc, const struct target *targets, uint32_t n,
                      const struct library_input *common, const char *model_hash, const char *out)
{
    struct library_input inputs[MOST_TARGETS];
    struct image_writer writers[MOST_TARGETS];
    for (uint32_t i = 0; i < n; i++) {
        struct target one = targets[i];
        writers[i] = (struct image_writer){ .arena = a, .jobs = common->writer->jobs, .progress = common->writer->progress };
        inputs[i] = *common;
        inputs[i].weights_bytes = place_images(a, &writers[i], &one, 1);
        inputs[i].weights_hash = image_hash(a, one.plan, model_hash);
        inputs[i].writer = &writers[i];
        inputs[i].plan = one.plan;
        inputs[i].source = one.source;
        inputs[i].n_kernels = one.plan->kernels->n_kernels;
        if (one.plan->web) inputs[i].kernels = one.kernels;
    }
    web_build(a, tc, inputs, n, out);
}

/* Where the product goes; neither it nor what lies beside it may replace an input. */
static const char *out_path(struct arena *a, const struct build_options *o, const struct profile *p, const char *suffix)
{
    const char *path = o->out_path ? o->out_path : library_wanted(o) ? library_default_path(a, o) : default_name(a, o->model_path, suffix);
    if (is_binary(o) && strcmp(path, "-") == 0)
        die("a %s cannot be written to standard output; give -o FILE", o->emit == EMIT_EXE ? "program" : "library");
    if (web_wanted(o, p)) {
        char *folder = arena_strdup(a, path);
        for (size_t n = strlen(folder); n > 1 && folder[n - 1] == '/'; n--) folder[n - 1] = 0;
        web_claim(a, path = folder);
    }
    if (strcmp(path, "-") != 0) output_claim(a, path);
    if (is_binary(o) && o->weights == WEIGHTS_EXTERNAL && !web_wanted(o, p)) output_claim(a, weights_file_path(a, path));
    if (library_wanted(o)) library_claim(a, o, path);
    return path;
}

struct model *build_model(struct arena *a, const struct build_options *o, const struct gguf *file)
{
    const struct model_options options = { .directory = o->models_dir, .n_ctx = o->plan.n_ctx, .ignored = o->ignored_keys,
                                           .n_ignored = o->n_ignored_keys, .ignored_tensors = o->ignored_tensors,
                                           .n_ignored_tensors = o->n_ignored_tensors, .drafts = o->plan.spec == SPEC_MTP };
    return model_describe(a, file, &options);
}

/* What --kernel-tests asks for; else nothing. */
static struct web_tests kernel_tests(struct arena *a, const struct build_options *o, const struct plan *p)
{
    const double since = build_seconds();
    if (!o->kernel_tests || o->cc.spawn.dry_run) return (struct web_tests){ .launches = NULL };
    progress(o, "computing what kernels should give");
    const struct web_tests tests = web_tests(a, p);
    progress(o, "");
    step(o, "tests", since);
    return tests;
}

const char *build(struct arena *a, const struct build_options *o)
{
    double since = build_seconds();
    outputs_forget(a);
    input_remember(a, "/proc/self/exe");                /* forgec itself */
    if (o->source) input_remember(a, o->source);
    if (o->plan_path) input_remember(a, o->plan_path);
    const struct gguf *file = gguf_open(a, o->model_path, o->weights == WEIGHTS_NONE || !is_binary(o));
    step(o, "gguf", since);
    struct model *model = build_model(a, o, file);
    struct graph *graph = graph_build(a, model);
    if (o->emit == EMIT_GRAPH) return write_graph(a, o, graph);
    struct target targets[MOST_TARGETS] = { { 0 } };
    const uint32_t n = o->gpus < 2 ? plan_targets(a, o, graph, targets) : o->plan.split == SPLIT_LAYER ? plan_row(a, o, graph, targets)
                                   : plan_ranks(a, o, graph, targets);
    if (o->emit == EMIT_PLAN) return write_plan(a, o, targets, n);

    const char *source_suffix = kernels_kinds[targets[0].profile->kind].suffix;
    const char *out = out_path(a, o, targets[0].profile, o->emit == EMIT_SOURCE ? source_suffix : o->emit == EMIT_ASM ? ".s" : "");
    const struct bytes vocab = vocab_build(a, file, model->n_vocab);
    const struct bytes chat = vocab.data && !model->pooling ? chat_build(a, file, o->chat_template) : (struct bytes){ NULL, 0 };
    struct bytes grammar = { NULL, 0 };
    if (o->grammar_path || o->schema_path) {
        if (o->grammar_path && o->schema_path) die("--grammar and --json-schema exclude each other");
        if (o->emit != EMIT_EXE && !library_wanted(o)) die("--grammar and --json-schema are for programs and libraries");
        if (model->pooling) die("--grammar and --json-schema: the model gives vectors of texts, it writes none");
        grammar = grammar_build(a, o->grammar_path, o->schema_path, vocab);
    }
    since = build_seconds();
    struct image_writer writer = { .arena = a, .jobs = o->cc.spawn.jobs ? o->cc.spawn.jobs : (uint32_t)sysconf(_SC_NPROCESSORS_ONLN),
                                   .progress = !o->quiet && !o->cc.spawn.verbose && isatty(2) };
    const uint64_t weights_bytes = place_images(a, &writer, targets, n);
    const char *model_hash = gguf_hash(a, file), *weights_hash = images_hash(a, &writer, model_hash);
    step(o, "hash", since);
    struct toolchain *tc = toolchain_open(a, &o->cc);
    since = build_seconds();
    struct emit_options eo[MOST_TARGETS];
    const char *symbols[MOST_TARGETS];
    for (uint32_t i = 0; i < n; i++) symbols[i] = emit_symbol(a, targets[i].profile, targets[i].rank);
    for (uint32_t i = 0; i < n; i++) {
        const struct kernels_kind *kind = &kernels_kinds[targets[i].profile->kind];
        const bool library = is_library(o, targets[i].profile);
        const enum cc_kind cc = library ? kind->cc_library : kind->cc;
        const bool web = web_wanted(o, targets[i].profile);                 /* alone in its weights: build_web() */
        eo[i] = (struct emit_options){ .templates = o->templates_dir, .model_hash = model_hash,
                                       .weights_hash = web ? image_hash(a, targets[i].plan, model_hash) : weights_hash,
                                       .has_vocab = vocab.data != NULL, .has_chat = chat.data != NULL && !library,
                                       .weights_offset = web ? 0 : targets[i].weights_offset,
                                       .rank = targets[i].rank, .ranks = targets[i].plan->options.ranks, .symbols = symbols,
                                       .options = options_text(a, o, targets[i].plan),
                                       .compiler = arena_printf(a, "forgec " FORGEC_VERSION ", clang %s", tc->clang_version),
                                       .compile_command = targets[i].plan->web ? NULL       /* drivers compile its kernels */
                                       : cc_line(a, targets[i].profile, cc, kernels_name(a, targets[i].profile)) };
        emit_target(a, o, tc, &targets[i], &eo[i]);
    }
    step(o, "emit", since);
    if (o->emit == EMIT_SOURCE) write_text(a, out, targets[0].kernels);
    else if (o->emit == EMIT_ASM) {
        static const char *const flags[] = { "-S", NULL };
        struct cc_job job = kernels_job(a, o, &targets[0]);
        job.flags = flags;
        cc_compile(a, tc, &job, 1);
        if (!o->cc.spawn.dry_run) write_text(a, out, job.object);
    }
    else if (is_library(o, targets[0].profile)) {
        compile_kernels(a, o, tc, targets, n, eo, NULL, 0);
        since = build_seconds();
        const struct web_tests tests = kernel_tests(a, o, targets[0].plan);
        const struct library_input input = { .options = o, .plan = targets[0].plan, .source = targets[0].source, .code = targets[0].code,
                                             .n_kernels = targets[0].plan->kernels->n_kernels, .vocab = vocab,
                                             .test_launches = tests.launches ? bytes_of(tests.launches) : (struct bytes){ NULL, 0 },
                                             .test_values = tests.values,
                                             .chat = chat, .grammar = grammar, .weights_hash = weights_hash,
                                             .weights_bytes = weights_bytes, .writer = &writer };
        if (web_wanted(o, targets[0].profile)) build_web(a, tc, targets, n, &input, model_hash, out);
        else {
            const char *header = library_build(a, tc, &input, out);
            if (!o->quiet && !o->cc.spawn.dry_run) library_announce(a, o, out, header);
        }
        step(o, "library", since);
    }
    else compile_and_link(a, o, tc, targets, n, eo, vocab, chat, grammar, weights_hash, &writer, weights_bytes, out);
    return out;
}
