/* build.c -- runs every stage in order. verify.c and compare.c call the first stages too, for the model and plan that they compare a
 * program with. */
#include "build.h"
#include "compiler/base/resource.h"
#include "cache.h"
#include "code_object.h"
#include "defaults.h"
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
#include "runtime/model/pool.h"
#include "runtime/model/state.h"
#include "runtime/model/vocab.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "runtime/chat/template.h"

enum { MOST_TARGETS = 8 };           /* programs; each GPU that shares a model has its own */

struct program {                    /* one program of the product */
    struct target   *target;
    uint32_t          rank, code_rank;        /* of GPUs that share the model: its rank, and the rank whose code it runs (emit_options) */
    struct kernel_choices *tiles;             /* tiles of prefill's products, chosen by the first rank for all; NULL: a single program */
    struct plan      *plan;
    struct bytes      kernels;      /* the text that clang compiles for the target */
    struct bytes      source;       /* the program: for a CPU that text; for a GPU a description of its launches, made after the code */
    struct bytes      code;
    uint64_t          weights_offset;
    const char       *edited;         /* hash of the edited source that replaces the emitted source; NULL: the emitted source is used */
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

/* Shows progress on a terminal; NULL clears the line. */
static void progress(const struct build_options *o, const char *what)
{
    if (o->quiet || o->cc.spawn.verbose) return;
    progress_line(what ? "%s" : NULL, what);
}

/* "models/tiny-q8_0.gguf" and "models/tiny-q8_0-00001-of-00003.gguf" -> "tiny-q8_0" */
static const char *default_name(struct arena *a, const char *model_path, const char *suffix)
{
    char *name = arena_strdup(a, path_name(model_path));
    char *dot = strrchr(name, '.');
    if (dot && dot != name) *dot = 0;
    char *shard = strstr(name, "-00001-of-");
    if (shard && shard != name && strlen(shard) == strlen("-00001-of-00003") && strspn(shard + strlen("-00001-of-"), "0123456789") == 5)
        *shard = 0;
    name = arena_printf(a, "%s%s", name, suffix);
    return file_is_same(name, model_path) ? arena_printf(a, "%s.out", name) : name;
}

static void write_text(struct arena *a, const char *path, struct bytes text)
{
    if (strcmp(path, "-") == 0) {
        const bool failed = fwrite(text.data, 1, text.size, stdout) < text.size;
        if (failed && errno != EPIPE) die("cannot write to standard output: %s", strerror(errno));
        return;                                            /* main() flushes the rest, and handles a reader that has closed the pipe */
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
    const char *rounding = o->plan.exact ? " --exact" : o->plan.fast_bf16 ? " --fast-bf16" : "";
    return arena_printf(a, "--fuse %s%s --kv %s%s%s%s%s", o->fuse == FUSE_NONE ? "none" : "layer", context, kv_type_name[o->plan.kv],
                        columns, spec, gpus.size ? text_str(&gpus) : "", rounding);
}

static const char *options_text(struct arena *a, const struct build_options *o, const struct plan *p)
{
    struct text t = { .arena = a };
    text_puts(&t, build_options_text(a, o, p->options.n_ctx));
    if (p->target->tuned) text_printf(&t, " --tuned %s", path_name(p->target->tuned->at.file));
    if (o->llama_cpp_tokens) text_puts(&t, " --pre llama.cpp");
    for (uint32_t i = 0; i < p->model->n_ignored; i++) text_printf(&t, " %s %s", p->model->ignored[i].option, p->model->ignored[i].name);
    return text_str(&t);
}

/* ---- kernels ---- */

/* How the kernels of a kind of target are emitted as text. */
static const struct kernels_kind {
    struct bytes (*emit)(struct arena *a, const struct plan *p, const struct emit_options *o);
    const char    *suffix;          /* of the text's file */
    enum cc_kind   cc, cc_library;
} kernels_kinds[] = {
    [TARGET_CPU] = { emit_cpu, ".c", CC_KERNELS, CC_LIBRARY_KERNELS },
    [TARGET_GPU] = { emit_gpu, ".hip", CC_DEVICE, CC_DEVICE },
    [TARGET_WEBGPU] = { emit_web, ".wgsl", CC_LIBRARY, CC_LIBRARY },
};

static const char *kernels_name(struct arena *a, const struct target *p)
{
    return p->kind == TARGET_GPU ? arena_printf(a, "model-%s.hip", p->name) : "model.c";
}

/* The name of the user's text within the source that clang compiles for the target; NULL: all of it is forgec's. */
static const char *user_text(struct arena *a, const struct build_options *o, const struct program *t, const char *name)
{
    return t->edited ? o->source : o->templates_dir ? arena_printf(a, "%s with the templates of %s", name, o->templates_dir) : NULL;
}

static struct cc_job kernels_job(struct arena *a, const struct build_options *o, const struct program *t)
{
    const char *name = !t->rank ? kernels_name(a, t->target) : arena_printf(a, "rank%u-%s", t->rank, kernels_name(a, t->target));
    const struct kernels_kind *kind = &kernels_kinds[t->target->kind];
    return (struct cc_job){ .name = name, .source = t->kernels, .kind = t->target->bare ? kind->cc_library : kind->cc,
                            .target = t->target, .user_text = user_text(a, o, t, name) };
}

/* PTX is text, and the driver reads it up to its final 0. */
static struct bytes code_with_end(struct arena *a, struct bytes code)
{
    uint8_t *copy = arena_alloc(a, code.size + 1);
    memcpy(copy, code.data, code.size);
    copy[code.size] = 0;
    return (struct bytes){ copy, code.size + 1 };
}

/* Refuses the tiles of prefill products whose kernels spill, because the plan can only estimate how many registers clang needs for a tile.
 * True: the kernels must be made again. */
static bool refuse_tiles(struct arena *a, const struct program *t)
{
    const struct kernel_list *list = t->plan->kernels;
    size_t n = 0;
    bool again = false;
    const struct kernel_resources *r = code_object_read(a, t->code, &n);
    for (size_t i = 0; i < n; i++) {
        if (!code_object_spills(t->target, &r[i])) continue;
        for (uint32_t k = 0; k < list->n_kernels; k++) {
            const struct kernel *kernel = &list->kernels[k];
            const uint32_t *param = kernel->param;
            if (kernel->template != TEMPLATE_gemm || strcmp(kernel->name, r[i].name)) continue;
            again |= gemm_refuse(&t->plan->gpu->refused, param[PARAM_TOKENS], param[PARAM_ROWS], param[PARAM_THREADS]);
        }
    }
    return again;
}

static void compile_target(struct arena *a, const struct build_options *o, struct toolchain *tc, struct program *t)
{
    struct cc_job job = kernels_job(a, o, t);
    cc_compile(a, tc, &job, 1);
    if (!o->cc.spawn.dry_run) t->code = code_with_end(a, job.object);
}

/* Plans, emits and compiles a GPU target's kernels again until their tiles fit the registers. True: the kernels have changed, and so have
 * the tiles that other ranks are planned with. */
static bool settle_tiles(struct arena *a, const struct build_options *o, struct toolchain *tc, struct program *t,
                         const struct emit_options *eo)
{
    bool changed = false;
    for (; !o->cc.spawn.dry_run && !o->allow_spills && refuse_tiles(a, t); changed = true) {
        gpu_plan_kernels(a, t->plan);
        t->kernels = emit_gpu(a, t->plan, eo);
        compile_target(a, o, tc, t);
    }
    if (changed && t->tiles && !t->rank) *t->tiles = kernel_choices_of(a, t->plan->kernels, TEMPLATE_gemm, t->target->path);
    return changed;
}

/* Checks the resources of a target's kernels; spills are an error. Appends a table to text; NULL: no table. */
static void check_kernels(struct arena *a, const struct build_options *o, const struct program *t, struct text *table)
{
    size_t n = 0;
    struct kernel_resources *r = code_object_read(a, t->code, &n);
    const char *why;
    if (table && strcmp(t->target->api, "cuda") == 0) code_object_ptxas(a, &o->cc.spawn, t->target, t->code, r, n, &why);
    code_object_check(a, t->target, r, n, o->allow_spills);
    if (!table) return;
    const bool counted = issues_count(a, t->target, t->code, r, n, &why);
    report_print(a, table, t->plan, r, n, counted ? NULL : why);
}

/* ---- graph and plan ---- */

/* The path for a text output that need not be a file. */
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

/* Appends the resources of a GPU's kernels to its plan, if they can be compiled. */
static void put_gpu_plan(struct arena *a, const struct build_options *o, struct program *program, struct text *t)
{
    struct toolchain *tc = o->cc.spawn.dry_run ? toolchain_open(a, &o->cc) : toolchain_find(a, &o->cc);
    if (!tc || !toolchain_makes_kernels(tc, program->target)) {
        report_print(a, t, program->plan, NULL, 0, "the kernels are not compiled");
        text_printf(t, "# registers, waves and spills are not known: kernels for %s are compiled with clang %d or later%s\n",
                    program->target->name, CLANG_OLDEST, strcmp(program->target->api, "cuda") == 0 ? "" : " and LLVM's lld");
        return;
    }
    const struct emit_options eo = { .templates = o->templates_dir, .model_hash = "-", .weights_hash = "-",
                                     .options = options_text(a, o, program->plan), .compiler = "forgec " FORGEC_VERSION,
                                     .compile_command = "-" };
    if (program->rank) gpu_plan_kernels(a, program->plan);   /* the tiles of the first rank may have changed */
    program->kernels = emit_gpu(a, program->plan, &eo);
    compile_target(a, o, tc, program);
    settle_tiles(a, o, tc, program, &eo);
    if (!o->cc.spawn.dry_run) check_kernels(a, o, program, t);
}

/* Appends lines of a report as comments of the plan. */
static void put_comment(struct text *t, const char *report)
{
    for (const char *line = report; *line; line += strcspn(line, "\n") + 1)
        text_printf(t, "%s%.*s\n", *line == '#' ? "" : "#", (int)strcspn(line, "\n"), line);
}

static const char *write_plan(struct arena *a, const struct build_options *o, struct program *programs, uint32_t n)
{
    const char *path = text_path(a, o);
    struct text t = { .arena = a };
    for (uint32_t i = 0; i < n; i++) {
        struct text report = { .arena = a }, plan = { .arena = a };
        const char *unfused = programs[i].plan->web ? report_unfused(a, programs[i].plan) : NULL;
        if (programs[i].plan->gpu) put_gpu_plan(a, o, &programs[i], &report);
        else if (!programs[i].plan->web) report_cpu(&report, programs[i].plan);
        else if (unfused) text_printf(&report, " %s\n", unfused);
        plan_text_print(&plan, programs[i].plan, options_text(a, o, programs[i].plan));
        if (programs[i].rank) {                              /* only the plan of the first rank is read back: plan_beside() */
            text_printf(&t, "\n# ---- GPU %u of the GPUs that share the model ----\n", programs[i].rank);
            put_comment(&t, text_str(&plan));
        }
        else text_puts(&t, text_str(&plan));
        text_puts(&t, "\n");
        put_comment(&t, text_str(&report));
        report = (struct text){ .arena = a };
        fuse_print(&report, programs[i].plan->fused);
        text_puts(&t, "\n# groups of operations\n");
        put_comment(&t, text_str(&report));
    }
    write_text(a, path, (struct bytes){ (const uint8_t *)t.data, t.size });
    return path;
}

/* ---- the executable ---- */

/* Hash of everything that all images depend on; for a single image, its own hash. */
static const char *images_hash(struct arena *a, const struct image_writer *w, const char *model_hash)
{
    if (w->n_plans == 1) return image_hash(a, w->plans[0], model_hash);
    struct bytes parts[COUNT_OF(w->plans)];
    for (uint32_t i = 0; i < w->n_plans; i++) parts[i] = bytes_of(image_hash(a, w->plans[i], model_hash));
    return cache_key_hex(a, cache_key_of(parts, w->n_plans));
}

/* Places distinct images one after the other; sets every target's offset. Returns the total size in bytes. */
static uint64_t place_images(struct arena *a, struct image_writer *writer, struct program *programs, uint32_t n)
{
    uint64_t end = 0;
    for (uint32_t i = 0; i < n; i++) {
        const char *hash = image_hash(a, programs[i].plan, "");
        uint32_t k = 0;
        while (k < writer->n_plans && strcmp(image_hash(a, writer->plans[k], ""), hash)) k++;
        if (k == writer->n_plans) {
            writer->offsets[k] = plan_align(end, 4096);
            writer->plans[writer->n_plans++] = programs[i].plan;
            end = writer->offsets[k] + programs[i].plan->image_bytes;
        }
        programs[i].weights_offset = writer->offsets[k];
    }
    return end;
}

/* Lets programs of GPUs with equal parts of a model share one code. */
static void share_code(struct program *programs, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        programs[i].code_rank = programs[i].rank;
        for (uint32_t k = 0; k < i && programs[i].rank; k++)
            if (programs[k].code_rank == programs[k].rank && programs[i].kernels.size == programs[k].kernels.size &&
                !memcmp(programs[i].kernels.data, programs[k].kernels.data, programs[k].kernels.size))
                programs[i].code_rank = programs[k].rank;
    }
}

static bool has_own_code(const struct program *t) { return t->plan->gpu && t->code_rank == t->rank; }

/* Plans and compiles the other ranks again after the tiles of the first have changed. */
static void compile_others(struct arena *a, const struct build_options *o, struct toolchain *tc, struct program *programs, uint32_t n,
                           const struct emit_options eo[])
{
    for (uint32_t i = 1; i < n; i++) {
        gpu_plan_kernels(a, programs[i].plan);
        programs[i].kernels = emit_gpu(a, programs[i].plan, &eo[i]);
    }
    share_code(programs, n);
    for (uint32_t i = 1; i < n; i++) if (has_own_code(&programs[i])) compile_target(a, o, tc, &programs[i]);
}

/* Finds the place of the launches of stage `own` among the launches of all pipeline stages. */
static void count_launches(const struct program *programs, uint32_t n, uint32_t own, struct emit_span spans[])
{
    for (enum kernel_steps steps = 0; steps < STEPS_COUNT; steps++) {
        spans[steps] = (struct emit_span){ 0, 0 };
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t launches = programs[i].plan->kernels->of[steps].n;
            if (i < own) spans[steps].before += launches;
            spans[steps].all += launches;
        }
    }
}

/* Compiles the kernels of GPU programs, then emits the sources that describe them. The runtime depends on neither, so it is compiled in
 * parallel if there are kernels. True: the runtime was compiled. */
static bool compile_kernels(struct arena *a, const struct build_options *o, struct toolchain *tc, struct program *programs, uint32_t n,
                            const struct emit_options eo[], struct cc_job *runtime, size_t n_runtime)
{
    share_code(programs, n);
    struct cc_job *jobs = arena_array(a, struct cc_job, n + n_runtime);
    size_t n_kernels = 0;
    for (uint32_t i = 0; i < n; i++)
        if (has_own_code(&programs[i])) jobs[n_kernels++] = kernels_job(a, o, &programs[i]);
    if (!n_kernels) return false;
    const double since = build_seconds();
    progress(o, arena_printf(a, "compiling kernels for %s", jobs[0].target->name));
    for (size_t i = 0; i < n_runtime; i++) jobs[n_kernels + i] = runtime[i];
    cc_compile(a, tc, jobs, n_kernels + n_runtime);
    for (size_t i = 0; i < n_runtime; i++) runtime[i] = jobs[n_kernels + i];
    progress(o, NULL);
    for (uint32_t i = 0, k = 0; i < n; i++) if (has_own_code(&programs[i])) programs[i].code = code_with_end(a, jobs[k++].object);
    for (uint32_t i = 0; i < n; i++) {
        struct program *t = &programs[i];
        struct emit_options own = eo[i];
        if (!t->plan->gpu) continue;
        if (!has_own_code(t)) t->code = programs[t->code_rank].code;
        else if (!o->source && settle_tiles(a, o, tc, t, &own) && t->tiles && !t->rank) compile_others(a, o, tc, programs, n, eo);
        struct text table = { .arena = a };
        if (!o->cc.spawn.dry_run) check_kernels(a, o, t, o->cc.spawn.verbose && has_own_code(t) ? &table : NULL);
        if (table.size) fputs(text_str(&table), stderr);
    }
    for (uint32_t i = 0; i < n; i++) {                       /* now all launches are known */
        struct emit_options own = eo[i];
        if (!programs[i].plan->gpu) continue;
        own.code_rank = programs[i].code_rank;
        if (programs[i].plan->options.split == SPLIT_LAYER) count_launches(programs, n, i, own.spans);
        programs[i].source = emit_gpu_program(a, programs[i].plan, &own, programs[i].code.size);
    }
    step(o, "kernels", since);
    return true;
}

/* The page that a program with a server shows at /, with its final 0. */
static struct bytes page(struct arena *a)
{
    const struct bytes html = resource_get(a, NULL, "runtime/serve/page.html");
    uint8_t *text = arena_alloc(a, html.size + 1);
    memcpy(text, html.data, html.size);
    text[html.size] = 0;
    return (struct bytes){ text, html.size + 1 };
}

static void compile_and_link(struct arena *a, const struct build_options *o, struct toolchain *tc, struct program *programs, uint32_t n,
                             const struct emit_options eo[], struct bytes vocab, struct bytes chat, struct bytes grammar,
                             struct bytes defaults, const char *weights_hash, struct image_writer *writer, uint64_t weights_bytes,
                             const char *out)
{
    const struct target *first = programs[0].target;
    size_t n_jobs;
    struct cc_job *jobs = cc_runtime_jobs(a, first, (struct cc_parts){ o->has_server, chat.data != NULL }, n + 1, &n_jobs);
    const size_t n_done = compile_kernels(a, o, tc, programs, n, eo, jobs, n_jobs) ? n_jobs : 0;
    double since = build_seconds();
    const char *symbols[MOST_TARGETS];
    uint32_t n_programs = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t rank = programs[i].rank;
        if (!rank) symbols[n_programs++] = emit_symbol(a, programs[i].target, 0);
        jobs[n_jobs++] = (struct cc_job){ .name = rank ? arena_printf(a, "model-%s-rank%u.c", programs[i].target->name, rank)
                                          : n == 1 ? "model.c" : arena_printf(a, "model-%s.c", programs[i].target->name),
                                          .source = programs[i].source, .kind = programs[i].plan->gpu ? CC_RUNTIME : CC_KERNELS,
                                          .target = programs[i].target, .user_text = programs[i].plan->gpu ? NULL
                                          : user_text(a, o, &programs[i], "model.c") };
    }
    jobs[n_jobs++] = (struct cc_job){ .name = "programs.c", .source = emit_programs(a, symbols, n_programs, programs[0].edited),
                                      .kind = CC_RUNTIME, .target = first };
    progress(o, arena_printf(a, "compiling %zu sources for %s", n_jobs - n_done, first->name));
    cc_compile(a, tc, jobs + n_done, n_jobs - n_done);
    progress(o, NULL);
    step(o, "cc", since);

    since = build_seconds();
    struct link_object *objects = arena_array(a, struct link_object, n_jobs + n + 5);
    for (size_t i = 0; i < n_jobs; i++) objects[i] = (struct link_object){ jobs[i].name, jobs[i].object };
    size_t n_objects = n_jobs;
    if (vocab.data) objects[n_objects++] = link_data_object(a, first, "forge_vocab", vocab);
    if (o->has_server) objects[n_objects++] = link_data_object(a, first, "forge_page", page(a));
    if (chat.data) objects[n_objects++] = link_data_object(a, first, "forge_chat", chat);
    if (grammar.data) objects[n_objects++] = link_data_object(a, first, "forge_grammar", grammar);
    if (defaults.data) objects[n_objects++] = link_data_object(a, first, "forge_defaults", defaults);
    for (uint32_t i = 0; i < n; i++)
        if (has_own_code(&programs[i]))
            objects[n_objects++] = link_data_object(a, first, emit_code_symbol(a, programs[i].target, programs[i].rank), programs[i].code);
    const struct link_input input = { .target = first, .objects = objects, .n_objects = n_objects, .is_static = o->is_static,
                                      .has_server = o->has_server, .weights_bytes = o->weights == WEIGHTS_EMBED ? weights_bytes : 0 };
    struct outset set = { .n = 0 };
    link_executable(a, tc, &input, &set, out, image_write, writer);
    if (o->weights == WEIGHTS_EXTERNAL && !o->cc.spawn.dry_run)
        weights_file_write(a, &set, weights_file_path(a, out), weights_hash, weights_bytes, image_write, writer);
    outset_commit(a, &set);
    step(o, "link", since);
}

/* The choices of o->plan_path, or NULL. They are for one target. */
static const struct plan_text *read_choices(struct arena *a, const struct build_options *o, const struct target *target)
{
    if (!o->plan_path) return NULL;
    if (o->n_targets > 1) die("--plan: a plan is for one target; build for one target at a time");
    const struct bytes file = file_read(a, o->plan_path);
    const struct plan_text *text = plan_text_read(a, o->plan_path, arena_strndup(a, (const char *)file.data, file.size));
    if (strcmp(text->target, target->name))
        die_at(text->target_at, "the plan is for %s, this build is for %s; give -t %s", text->target, target->name, text->target);
    return text;
}

/* The plan with those choices, all of which must be used by kernels, or with tuned settings. */
static struct plan *plan_with(struct arena *a, const struct build_options *o, const struct graph *graph, const struct target *target,
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

/* The plan of another rank than the first. */
static struct plan *plan_beside(struct arena *a, const struct build_options *o, const struct graph *graph, const struct plan *first,
                                const struct kernel_choices *tiles)
{
    struct plan_options options = first->options;
    options.choices = tiles;
    struct plan *p = plan_make(a, graph, o->fuse, first->target, &options);
    if (!first->options.choices) return p;
    options.choices = tuned_beside(a, first, p, tiles);
    return plan_make(a, graph, o->fuse, first->target, &options);
}

struct plan *build_plan(struct arena *a, const struct build_options *o, const struct graph *graph, const struct target *target)
{
    struct plan_options options = o->plan;
    options.ranks = o->gpus > 1 && options.split == SPLIT_TENSOR ? o->gpus : 0;
    if (options.split == SPLIT_LAYER) options.split = SPLIT_TENSOR;      /* of all layers, as on one GPU */
    if (options.ranks) graph = share_graph(a, graph, 0, options.ranks, SHARE_COLUMNS);
    return plan_with(a, o, graph, target, options, read_choices(a, o, target));
}

enum { LIBRARY_WORKERS = 8 };     /* number of parts into which a library splits each kernel, unless --threads is given */

/* True if the engine is runtime/library, which needs no operating system. */
static bool is_library(const struct build_options *o, const struct target *p) { return library_wanted(o) || web_wanted(o, p); }
static bool is_binary(const struct build_options *o) { return o->emit == EMIT_EXE || library_wanted(o); }

/* Warns if the program needs more memory than is known: that of the largest chip of the target, or of this machine. It is only a warning
 * because the program may run on another machine. */
static void warn_of_memory(const struct build_options *o, const struct plan *p, const char *target)
{
    const bool native = strcmp(target, "native") == 0;
    const uint64_t here = native ? (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
    const uint64_t room = p->gpu ? p->target->memory_bytes : here, needed = p->image_bytes + p->state_bytes + p->arena_bytes;
    const double gib = 1.0 / (1 << 30);
    if (!is_binary(o) || room == 0 || needed <= room) return;
    const uint32_t fits = state_fits(needed, p->state_bytes_per_token, p->options.n_ctx, room);
    char remedy[128] = "weights of fewer bits are needed";
    if (fits > 0)
        snprintf(remedy, sizeof remedy, "it fits with --ctx %u%s", fits, p->options.kv == KV_TYPE_Q8_0 ? "" : ", of --kv q8_0 with more");
    warn("%s: the program needs %.1f GiB (weights %.1f, state %.1f for %u tokens, activations %.1f), and %s has %.1f%s: %s",
         p->model->gguf->path, (double)needed * gib, (double)p->image_bytes * gib, (double)p->state_bytes * gib, p->options.n_ctx,
         (double)p->arena_bytes * gib, native ? "this machine" : p->target->name, (double)room * gib, native ? "" : " at most", remedy);
}

/* Warns of operations that are slow because the target has no fused kernel for them. Nobody measures a program with --exact. */
static void warn_of_unfused(struct arena *a, const struct build_options *o, const struct plan *p)
{
    const char *unfused = is_binary(o) && !p->options.exact ? report_unfused(a, p) : NULL;
    if (unfused) warn("%s: %s", p->model->gguf->path, unfused);
}

/* GPU programs of one executable share its weights. If one of them needs padded rows, all get them: the smallest row_period counts. */
static void share_row_period(struct program *programs, uint32_t n)
{
    uint32_t least = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t period = programs[i].target->row_period;
        if (period && (!least || period < least)) least = period;
    }
    for (uint32_t i = 0; i < n; i++) if (programs[i].target->kind == TARGET_GPU) programs[i].target->row_period = least;
}

/* Refuses options that are not available for a target whose kernels the driver compiles (WebGPU). */
static void check_webgpu(const struct build_options *o, const struct target *p)
{
    const char *wrong = library_wanted(o) ? "the folder that --emit exe makes is the library" : o->emit == EMIT_ASM
        ? "there is no assembler: drivers compile its kernels, which are WGSL; --emit source shows them" : o->source
        ? "forgec cc cannot compile WGSL kernels; --templates DIR takes changed kernels" : NULL;
    if (wrong) die("target %s: %s", p->name, wrong);
}

/* Refuses options that are not available for a model that several GPUs share. */
static void check_gpus(const struct build_options *o, const struct target *p)
{
    const char *wrong = p->kind != TARGET_GPU ? "needs an AMD or NVIDIA GPU; the target has no kernels for several GPUs" : o->n_targets > 1
        ? "takes one target" : library_wanted(o) ? "cannot be used with a library, which runs on one GPU" : o->plan.spec
        ? "cannot be combined with --spec: speculation runs on one GPU" : o->source
        ? "cannot be combined with forgec cc, which compiles the source for one GPU"
        : o->plan.split == SPLIT_LAYER && (o->plan_path || o->tuned_path)
        ? "with --split layer cannot be combined with --plan or --tuned, which apply to all layers" : NULL;
    if (wrong) die("--gpus %s", wrong);
    if (o->is_static)
        die("--static: a program for %s opens the GPU driver's library at run time, which a static program cannot do", p->name);
}

/* Makes the options agree where all programs must do the same: the shortest prompt steps, and steps of several sequences only if all
 * support them. True: the plans agree already. */
static bool agree(const struct program programs[], uint32_t n, struct plan_options *options)
{
    bool differ = false;
    options->chunk = programs[0].plan->chunk;
    for (uint32_t i = 1; i < n; i++) {
        const struct plan *p = programs[i].plan;
        differ |= p->chunk != programs[0].plan->chunk || p->gpu->has_several != programs[0].plan->gpu->has_several;
        if (p->chunk < options->chunk) options->chunk = p->chunk;
        options->alone |= !p->gpu->has_several;
    }
    options->alone |= !programs[0].plan->gpu->has_several;
    return !differ;
}

static void plan_layers(struct arena *a, const struct build_options *o, const struct graph *graph, const struct layers_cuts *cuts,
                        struct plan_options *options, struct program programs[])
{
    for (uint32_t r = 0; r < o->gpus; r++) {
        options->rank = r;
        programs[r].plan = plan_make(a, layers_graph(a, graph, cuts, r), o->fuse, programs[r].target, options);
    }
}

enum { PIPELINE_CHUNK = 512 };   /* pipeline stages work on different chunks of a prompt, so it must be split into several */

/* Plans a program for each pipeline stage; the GPUs may be of different kinds. */
static uint32_t plan_pipeline(struct arena *a, const struct build_options *o, const struct graph *graph, struct program programs[])
{
    struct plan_options options = o->plan;
    double speeds[FORGE_GPU_MAX_RANKS];
    if (graph->model->pooling) die("%s: --gpus does not support embedding models", o->model_path);
    for (uint32_t r = 0; r < o->gpus; r++) {
        struct target *p = programs[r].target = target_load_tuned(a, o->stages[r] ? o->stages[r] : o->targets[0], o->targets_dir, NULL);
        check_gpus(o, p);
        if (strcmp(p->api, programs[0].target->api))
            die("-t %s+%s: GPUs of different makers cannot share a model", programs[0].target->name, p->name);
        speeds[r] = p->bandwidth_gb_s > 0 ? p->bandwidth_gb_s : 1;
        programs[r].rank = r;
    }
    options.chunk = PIPELINE_CHUNK;
    for (uint32_t r = 0; r < o->gpus; r++)
        if (programs[r].target->tile.prefill_chunk < options.chunk) options.chunk = programs[r].target->tile.prefill_chunk;
    const struct layers_cuts cuts = layers_cut(a, graph, o->gpus, o->layers[0] ? o->layers : NULL, speeds);
    options.ranks = o->gpus;
    plan_layers(a, o, graph, &cuts, &options, programs);
    if (!agree(programs, o->gpus, &options)) plan_layers(a, o, graph, &cuts, &options, programs);
    for (uint32_t r = 0; r < o->gpus; r++) warn_of_memory(o, programs[r].plan, programs[r].target->name);
    warn_of_unfused(a, o, programs[0].plan);
    return o->gpus;
}

/* Plans a program for each rank of a tensor-parallel model, on one target. */
static uint32_t plan_ranks(struct arena *a, const struct build_options *o, const struct graph *graph, struct program programs[])
{
    struct plan_options options = o->plan;
    struct target *p = target_load_tuned(a, o->targets[0], o->targets_dir, o->tuned_path);
    check_gpus(o, p);
    if (graph->model->pooling) die("%s: --gpus does not support embedding models", o->model_path);
    options.ranks = o->gpus;
    struct kernel_choices *tiles = arena_new(a, struct kernel_choices);
    for (uint32_t r = 0; r < o->gpus; r++) {
        programs[r].target = p;
        programs[r].rank = r;
        programs[r].tiles = tiles;                       /* all ranks have the same launches, whatever their parts */
        const struct graph *part = share_graph(a, graph, r, o->gpus, SHARE_COLUMNS);
        programs[r].plan = r ? plan_beside(a, o, part, programs[0].plan, tiles) : plan_with(a, o, part, p, options, read_choices(a, o, p));
        warn_of_memory(o, programs[r].plan, o->targets[0]);
        if (!r) warn_of_unfused(a, o, programs[0].plan);
        if (!r) *tiles = kernel_choices_of(a, programs[0].plan->kernels, TEMPLATE_gemm, p->path);
    }
    return o->gpus;
}

/* Loads targets and makes plans; their programs share one executable. */
static uint32_t plan_targets(struct arena *a, const struct build_options *o, const struct graph *graph, struct program programs[])
{
    const uint32_t n = o->n_targets ? o->n_targets : 1;
    if (o->tuned_path && n > 1) die("--tuned: the settings are for one target; build for one target at a time");
    for (uint32_t i = 0; i < n; i++)
        programs[i].target = target_load_tuned(a, o->n_targets ? o->targets[i] : "native", o->targets_dir, o->tuned_path);
    share_row_period(programs, n);
    const bool pair = n == 2 && web_is_pair(programs[0].target, programs[1].target);
    struct plan_options options = o->plan;
    for (uint32_t i = 0; i < n; i++) {
        const bool web = web_wanted(o, programs[i].target);
        if (programs[i].target->kind == TARGET_WEBGPU) check_webgpu(o, programs[i].target);
        if (library_wanted(o)) library_check(a, o, programs[i].target);
        if (web) web_check(o, programs[i].target, pair);
        if (!options.max_threads && (web || library_wanted(o))) options.max_threads = web ? 1 : LIBRARY_WORKERS;
        const char *no_executable = o->emit == EMIT_EXE ? target_no_executable(a, programs[i].target) : NULL;
        if (no_executable) die("%s", no_executable);
        programs[i].plan = plan_with(a, o, graph, programs[i].target, options, read_choices(a, o, programs[i].target));
        warn_of_memory(o, programs[i].plan, o->n_targets ? o->targets[i] : "native");
        warn_of_unfused(a, o, programs[i].plan);
        if (o->is_static && programs[i].plan->gpu)
            die("--static: a program for %s opens the GPU driver's library at run time, which a static program cannot do",
                programs[i].target->name);
        if (strcmp(programs[i].target->elf_machine, programs[0].target->elf_machine))
            die("targets %s and %s are different machines; an executable is for one machine", programs[0].target->name,
                programs[i].target->name);
        for (uint32_t k = 0; k < i; k++)
            if (strcmp(emit_symbol(a, programs[i].target, 0), emit_symbol(a, programs[k].target, 0)) == 0)
                die("targets %s and %s have the same name; give each once", programs[k].target->name, programs[i].target->name);
    }
    const bool many_texts = n > 1 && (o->emit == EMIT_SOURCE || o->emit == EMIT_ASM || o->source);
    if (many_texts) die("%s takes one target", o->source ? "forgec cc" : o->emit == EMIT_ASM ? "--emit asm" : "--emit source");
    return n;
}

/* An edited source replaces the emitted source unless both are equal. */
static void take_edited(struct arena *a, const struct build_options *o, struct program *t, const struct emit_options *eo)
{
    const struct bytes edited = file_read(a, o->source);
    edited_check(a, o->source, edited, t->plan, eo);
    if (edited.size == t->kernels.size && memcmp(edited.data, t->kernels.data, edited.size) == 0) return;
    t->edited = edited_hash(a, edited);
    t->kernels = edited_for_clang(a, o->source, edited);
}

static void emit_target(struct arena *a, const struct build_options *o, struct toolchain *tc, struct program *t,
                        const struct emit_options *eo)
{
    const bool gpu = t->plan->gpu != NULL, text = o->source || o->emit == EMIT_SOURCE || o->emit == EMIT_ASM;
    t->kernels = kernels_kinds[t->target->kind].emit(a, t->plan, eo);
    if (gpu && text && !t->rank && !o->cc.spawn.dry_run && !o->allow_spills && strcmp(t->target->api, "hip") == 0) {
        compile_target(a, o, tc, t);      /* so that the text is of the kernels that a build would use; for PTX the registers are unknown */
        settle_tiles(a, o, tc, t, eo);
    }
    if (o->source) take_edited(a, o, t, eo);
    if (!gpu) t->source = t->plan->web ? emit_web_program(a, t->plan, eo) : t->kernels;
}

/* A folder for pages has separate weights for each of its targets. */
static void build_web(struct arena *a, struct toolchain *tc, const struct program *programs, uint32_t n,
                      const struct library_input *common, const char *model_hash, const char *out)
{
    struct library_input inputs[MOST_TARGETS];
    struct image_writer writers[MOST_TARGETS];
    for (uint32_t i = 0; i < n; i++) {
        struct program one = programs[i];
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

/* The path of the product. Neither it nor the files beside it may replace an input. */
static const char *out_path(struct arena *a, const struct build_options *o, const struct target *p, const char *suffix)
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

/* Warns if the file adds no final token although the vector of a text is that of its last token: such models are trained with one. */
static void warn_of_last(const struct gguf *file, const uint8_t *vocab)
{
    const struct forge_vocab_header *h = (const void *)vocab;
    if (h->flags & FORGE_VOCAB_ADD_EOS || h->kind == FORGE_VOCAB_WORDPIECE) return;
    warn("%s: the vector of a text is the vector of its last token (pooling_type 3), but 'tokenizer.ggml.add_eos_token' is not true: no "
         "token ends the text, and a model that was trained with such a token gives other vectors", file->path);
}

static struct web_tests kernel_tests(struct arena *a, const struct build_options *o, const struct plan *p)
{
    const double since = build_seconds();
    if (!o->kernel_tests || o->cc.spawn.dry_run) return (struct web_tests){ .launches = NULL };
    progress(o, "computing what kernels should give");
    const struct web_tests tests = web_tests(a, p);
    progress(o, NULL);
    step(o, "tests", since);
    return tests;
}

struct built build(struct arena *a, const struct build_options *o)
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
    if (o->emit == EMIT_GRAPH) return (struct built){ .path = write_graph(a, o, graph) };
    struct program programs[MOST_TARGETS] = { { 0 } };
    const uint32_t n = o->gpus < 2 ? plan_targets(a, o, graph, programs) : o->plan.split == SPLIT_LAYER
                       ? plan_pipeline(a, o, graph, programs) : plan_ranks(a, o, graph, programs);
    if (o->emit == EMIT_PLAN) return (struct built){ .path = write_plan(a, o, programs, n) };

    const char *source_suffix = kernels_kinds[programs[0].target->kind].suffix;
    const char *out = out_path(a, o, programs[0].target, o->emit == EMIT_SOURCE ? source_suffix : o->emit == EMIT_ASM ? ".s" : "");
    const char *differs = NULL;
    const struct bytes vocab = vocab_build_as(a, file, model->n_vocab, o->llama_cpp_tokens, &differs);
    if (vocab.data && model->pooling == FORGE_POOL_LAST) warn_of_last(file, vocab.data);
    const struct bytes chat = vocab.data && !model->pooling ? chat_build(a, file, o->chat_template) : (struct bytes){ NULL, 0 };
    struct bytes grammar = { NULL, 0 };
    if (o->grammar_path || o->schema_path) {
        if (o->grammar_path && o->schema_path) die("--grammar cannot be combined with --json-schema");
        if (o->emit != EMIT_EXE && !library_wanted(o)) die("--grammar and --json-schema are for programs and libraries");
        if (model->pooling) die("--grammar and --json-schema: this is an embedding model, which writes no text");
        grammar = grammar_build(a, o->grammar_path, o->schema_path, vocab);
    }
    const struct plan *plans[MOST_TARGETS];
    for (uint32_t i = 0; i < n; i++) plans[i] = programs[i].plan;
    if (o->defaults && (o->emit != EMIT_EXE || web_wanted(o, programs[0].target))) die("--default is for programs");
    const struct bytes defaults = defaults_build(a, o, plans, n, chat);
    since = build_seconds();
    struct image_writer writer = { .arena = a, .jobs = o->cc.spawn.jobs ? o->cc.spawn.jobs : (uint32_t)sysconf(_SC_NPROCESSORS_ONLN),
                                   .progress = !o->quiet && !o->cc.spawn.verbose && isatty(2) };
    const uint64_t weights_bytes = place_images(a, &writer, programs, n);
    const char *model_hash = gguf_hash(a, file), *weights_hash = images_hash(a, &writer, model_hash);
    step(o, "hash", since);
    struct toolchain *tc = toolchain_open(a, &o->cc);
    since = build_seconds();
    struct emit_options eo[MOST_TARGETS];
    const char *symbols[MOST_TARGETS];
    for (uint32_t i = 0; i < n; i++) symbols[i] = emit_symbol(a, programs[i].target, programs[i].rank);
    for (uint32_t i = 0; i < n; i++) {
        const struct kernels_kind *kind = &kernels_kinds[programs[i].target->kind];
        const bool library = is_library(o, programs[i].target);
        const enum cc_kind cc = library || programs[i].target->bare ? kind->cc_library : kind->cc;
        const bool web = web_wanted(o, programs[i].target);                 /* its weights are separate: build_web() */
        eo[i] = (struct emit_options){ .templates = o->templates_dir, .model_hash = model_hash,
                                       .weights_hash = web ? image_hash(a, programs[i].plan, model_hash) : weights_hash,
                                       .has_vocab = vocab.data != NULL, .has_chat = chat.data != NULL && !library,
                                       .weights_offset = web ? 0 : programs[i].weights_offset,
                                       .rank = programs[i].rank, .ranks = programs[i].plan->options.ranks, .symbols = symbols,
                                       .options = options_text(a, o, programs[i].plan),
                                       .compiler = arena_printf(a, "forgec " FORGEC_VERSION ", clang %s", tc->clang_version),
                                       .compile_command = programs[i].plan->web ? NULL      /* drivers compile its kernels */
                                       : cc_line(a, programs[i].target, cc, kernels_name(a, programs[i].target)) };
        emit_target(a, o, tc, &programs[i], &eo[i]);
    }
    step(o, "emit", since);
    if (o->emit == EMIT_SOURCE) write_text(a, out, programs[0].kernels);
    else if (o->emit == EMIT_ASM) {
        static const char *const flags[] = { "-S", NULL };
        struct cc_job job = kernels_job(a, o, &programs[0]);
        job.flags = flags;
        cc_compile(a, tc, &job, 1);
        if (!o->cc.spawn.dry_run) write_text(a, out, job.object);
    }
    else if (is_library(o, programs[0].target)) {
        compile_kernels(a, o, tc, programs, n, eo, NULL, 0);
        since = build_seconds();
        const struct web_tests tests = kernel_tests(a, o, programs[0].plan);
        const struct library_input input = { .options = o, .plan = programs[0].plan, .source = programs[0].source, .code = programs[0].code,
                                             .n_kernels = programs[0].plan->kernels->n_kernels, .vocab = vocab,
                                             .test_launches = tests.launches ? bytes_of(tests.launches) : (struct bytes){ NULL, 0 },
                                             .test_values = tests.values,
                                             .chat = chat, .grammar = grammar, .weights_hash = weights_hash,
                                             .weights_bytes = weights_bytes, .writer = &writer };
        if (web_wanted(o, programs[0].target)) build_web(a, tc, programs, n, &input, model_hash, out);
        else {
            const char *header = library_build(a, tc, &input, out);
            if (!o->quiet && !o->cc.spawn.dry_run) library_announce(a, o, out, header);
        }
        step(o, "library", since);
    }
    else compile_and_link(a, o, tc, programs, n, eo, vocab, chat, grammar, defaults, weights_hash, &writer, weights_bytes, out);
    if (differs && !o->quiet && o->emit != EMIT_SOURCE && o->emit != EMIT_ASM)
        fprintf(stderr, "forgec: tokens are %s (--pre); they differ: %s\n",
                o->llama_cpp_tokens ? "llama.cpp's, not the model's own tokenizer's"
                                    : "the model's own tokenizer's, not llama.cpp's", differs);
    struct text targets = { .arena = a };
    for (uint32_t i = 0; i < n; i++) {
        if (programs[i].rank) continue;
        text_printf(&targets, "%s%s", targets.size ? ", " : "", programs[i].target->name);
    }
    if (o->gpus > 1) text_printf(&targets, " on %u GPUs", o->gpus);
    return (struct built){ .path = out, .targets = text_str(&targets), .n_ctx = programs[0].plan->options.n_ctx,
                           .n_ctx_model = model->n_ctx_train, .embeds = model->pooling != 0,
                           .chats = chat.data && chat_has(chat.data, NULL), .is_page = web_wanted(o, programs[0].target) };
}
