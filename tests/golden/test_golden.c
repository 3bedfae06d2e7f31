/* test_golden.c -- built programs against stored logits (float64 arithmetic on the GGUF's own weights) and token ids.
 *
 *   test_golden FORGEC DATA reference              the interpreter of forgec verify, no program built
 *   test_golden FORGEC DATA models|quants [I/N]    this machine: both fusion levels, exact and default, threads, chunks; part I of N
 *   test_golden FORGEC DATA target NAME [I/N [LEVEL [MODE]]]   one model per weight format, fused as LEVEL (layer), MODE exact or default (both);
 *                                                  exit code 77 where NAME cannot run
 *   test_golden FORGEC FILE verify NAME            forgec verify of FILE, exact and default; 77 as above
 *
 * DATA holds manifest.json; its entries name the files.  $GOLDEN_ONLY: entries whose id contains this text. */
#include "compiler/base.h"
#include "compiler/graph.h"
#include "compiler/profile.h"
#include "compiler/reference.h"
#include "compiler/spawn.h"
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { SKIPPED = 77, GREEDY = 48, MAX_POSITIONS = 4096 };

/* A model of DATA and what is known of it. */
struct entry {
    const char *id, *quant, *model, *tokens_path;
    int32_t    *tokens, *greedy;      /* [n_positions], [GREEDY] */
    const float *golden;              /* [n_rows][n_vocab]: positions first, first + step, ... */
    uint32_t    n_positions, n_vocab, n_ctx, n_rows, first, step;
    double      max_abs, mean_kl;     /* tolerances: float activations; default */
    const cJSON *tensor_types;        /* or NULL */
};

static struct {
    struct arena *arena;              /* of the whole run; each program has one of its own */
    const char   *forgec, *data, *work;
    const char   *emulator[4];        /* words before the program, NULL-terminated */
    uint32_t      n_checks, n_failed;
    bool          gpu;                /* the target */
} test;

static void check(bool ok, const char *what, const char *fmt, ...) PRINTF_LIKE(3, 4);
static void check(bool ok, const char *what, const char *fmt, ...)
{
    test.n_checks++;
    if (ok) return;
    test.n_failed++;
    printf("FAILED %s: ", what);
    va_list args;
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    putchar('\n');
}

/* ---- the manifest ---- */

static const char *text_of(const cJSON *o, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(o, key);
    return cJSON_IsString(item) ? item->valuestring : NULL;
}

static double number_of(const cJSON *o, const char *key, double absent)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(o, key);
    return cJSON_IsNumber(item) ? item->valuedouble : absent;
}

static int32_t *read_ids(const char *path, uint32_t want)
{
    const struct bytes text = file_read(test.arena, path);
    const char *p = arena_strndup(test.arena, (const char *)text.data, text.size);
    int32_t *ids = arena_array(test.arena, int32_t, want);
    uint32_t n = 0;
    for (char *end; n < want; p = end, n++) {
        ids[n] = (int32_t)strtol(p + strspn(p, ", \n"), &end, 10);
        if (end == p) break;
    }
    if (n != want) die("%s: %u ids, %u expected", path, n, want);
    return ids;
}

/* forgec's three dense architectures, and formats it reads. */
static bool is_ours(const cJSON *o)
{
    static const char *const ours[] = { "llama", "qwen2", "qwen3" };
    const char *arch = text_of(o, "arch");
    bool known = false;
    for (size_t i = 0; arch && i < COUNT_OF(ours); i++) known |= strcmp(arch, ours[i]) == 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(o, "features")) if (cJSON_IsString(item) && strstr(item->valuestring, "MoE")) known = false;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(o, "tensor_types")) {
        bool readable = false;
        for (uint32_t id = 0; id < 256 && !readable; id++) readable = quant_find(id) && strcmp(quant_find(id)->name, item->string) == 0;
        known = known && readable;
    }
    const char *only = getenv("GOLDEN_ONLY"), *id = text_of(o, "id"), *model = text_of(o, "model");
    if (!known || !id || (only && !strstr(id, only))) return false;
    /* Models outside DATA are too large to be stored everywhere. */
    if (model && strncmp(model, "../", 3) == 0 && access(arena_printf(test.arena, "%s/%s", test.data, model), R_OK)) {
        printf("skipped: %s: there is no %s\n", id, model);
        return false;
    }
    return true;
}

static struct entry read_entry(const cJSON *o)
{
    struct arena *a = test.arena;
    struct entry e = { .id = text_of(o, "id"), .quant = text_of(o, "quant"), .n_positions = (uint32_t)number_of(o, "n_positions", 0), .step = 1,
                       .n_vocab = (uint32_t)number_of(o, "n_vocab", 0), .n_ctx = (uint32_t)number_of(o, "n_ctx", 256),
                       .tensor_types = cJSON_GetObjectItemCaseSensitive(o, "tensor_types") };
    const char *model = text_of(o, "model"), *tokens = text_of(o, "tokens"), *logits = text_of(o, "logits"), *greedy = text_of(o, "greedy"),
               *positions = text_of(o, "positions");
    if (!model || !tokens || !logits || !greedy || !positions || !e.n_vocab || !e.n_positions || e.n_positions > MAX_POSITIONS) die("manifest.json: %s is incomplete", e.id);
    e.model = arena_printf(a, "%s/%s", test.data, model);
    e.tokens_path = arena_printf(a, "%s/%s", test.data, tokens);
    e.tokens = read_ids(e.tokens_path, e.n_positions);
    e.greedy = read_ids(arena_printf(a, "%s/%s", test.data, greedy), GREEDY);
    const struct bytes golden = file_read(a, arena_printf(a, "%s/%s", test.data, logits));
    e.golden = (const float *)(const void *)golden.data;
    e.n_rows = (uint32_t)(golden.size / sizeof(float) / e.n_vocab);
    if (strncmp(positions, "last", 4) == 0) e.first = e.n_positions - e.n_rows;
    else if (strcmp(positions, "every 3rd") == 0) { e.first = 2; e.step = 3; }
    if (e.first + (e.n_rows - 1) * e.step >= e.n_positions || golden.size != (size_t)e.n_rows * e.n_vocab * sizeof(float)) die("%s: %s has the wrong size", e.id, logits);
    const cJSON *tolerance = cJSON_GetObjectItemCaseSensitive(o, "tolerance");
    e.max_abs = number_of(tolerance, "f32_math_max_abs", number_of(tolerance, "f32_max_abs", 0));
    /* 5e-5: the small extra models have no measured value; all others in F16 have 1e-5 to 4e-5. */
    e.mean_kl = number_of(tolerance, "mean_kl", number_of(tolerance, "llamacpp_class_mean_kl", 5e-5));
    return e;
}

static struct entry *read_set(const cJSON *manifest, const char *set, uint32_t *n)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(manifest, set), *o;
    struct entry *entries = arena_array(test.arena, struct entry, (size_t)cJSON_GetArraySize(list) + 1);
    *n = 0;
    cJSON_ArrayForEach(o, list) if (is_ours(o)) entries[(*n)++] = read_entry(o);
    return entries;
}

/* ---- programs ---- */

struct built { struct arena *arena; const struct entry *entry; const char *path, *name; };      /* name: for messages */

static bool spawn(struct arena *a, const char *const *argv, const char *what, struct bytes *out)
{
    struct spawn_job job = { .argv = argv };
    spawn_run(a, &(struct spawn_options){ .jobs = 1 }, &job, 1);
    check(job.status == 0, what, "exit code %d: %s", job.status, job.messages ? job.messages : "");
    *out = job.output;
    return job.status == 0;
}

static bool build_program(struct built *b, const struct entry *e, const char *target, const char *fuse, bool exact)
{
    *b = (struct built){ .arena = arena_create(), .entry = e, .path = arena_printf(test.arena, "%s/program", test.work),
                         .name = arena_printf(test.arena, "%s %s --fuse %s%s", e->id, target, fuse, exact ? " --exact" : "") };
    const char *argv[] = { test.forgec, "build", e->model, "-o", b->path, "-t", target, "--fuse", fuse, "--ctx", arena_printf(b->arena, "%u", e->n_ctx), "-q",
                           exact ? "--exact" : NULL, NULL };
    struct bytes out;
    return spawn(b->arena, argv, b->name, &out);
}

static void drop_program(struct built *b)
{
    unlink(b->path);
    arena_destroy(b->arena);
}

static const char *const *with_program(const struct built *b, const char *const *arguments)
{
    const char **argv = arena_array(b->arena, const char *, 40);
    size_t n = 0;
    for (size_t i = 0; test.emulator[i]; i++) argv[n++] = test.emulator[i];
    argv[n++] = b->path;
    for (; *arguments; arguments++) argv[n++] = *arguments;
    return argv;
}

struct way { const char *threads, *chunk; };          /* chunk NULL: the program's own; "0": through the decode kernels */

static const char *way_name(const struct built *b, struct way w)
{
    return arena_printf(test.arena, "%s, %s thread%s, chunk %s", b->name, w.threads, strcmp(w.threads, "1") ? "s" : "", w.chunk ? w.chunk : "as built");
}

/* Logits of all positions, or NULL. */
static const float *logits_of(const struct built *b, struct way w)
{
    const char *arguments[16] = { "-q", "--tokens", arena_printf(b->arena, "@%s", b->entry->tokens_path), "--print-tokens", "-n", "0", "--logits", "/proc/self/fd/1",
                                  "-t", w.threads };
    if (w.chunk) { arguments[10] = "-ub"; arguments[11] = w.chunk; }
    struct bytes out;
    if (!spawn(b->arena, with_program(b, arguments), way_name(b, w), &out)) return NULL;
    const size_t want = (size_t)b->entry->n_positions * b->entry->n_vocab * sizeof(float);
    check(out.size == want, way_name(b, w), "%zu bytes of logits, not %zu", out.size, want);
    return out.size == want ? (const float *)(const void *)out.data : NULL;
}

static struct logits_difference against_golden(struct arena *a, const struct entry *e, const float *logits)
{
    float *rows = arena_array(a, float, (size_t)e->n_rows * e->n_vocab);
    for (uint32_t r = 0; r < e->n_rows; r++) memcpy(rows + (size_t)r * e->n_vocab, logits + (size_t)(e->first + r * e->step) * e->n_vocab, e->n_vocab * sizeof *rows);
    return logits_compare(a, e->golden, rows, e->n_rows, e->n_vocab);
}

static void check_greedy(const struct built *b, struct way w)
{
    const char *arguments[24] = { "-q", "--tokens", arena_printf(b->arena, "@%s", b->entry->tokens_path), "--print-tokens", "--temp", "0", "--repeat-penalty", "1",
                                  "-n", "48", "--ignore-eos", "-t", w.threads };
    if (w.chunk) { arguments[13] = "-ub"; arguments[14] = w.chunk; }
    struct bytes out;
    if (!spawn(b->arena, with_program(b, arguments), way_name(b, w), &out)) return;
    const char *p = arena_strndup(b->arena, (const char *)out.data, out.size);
    for (uint32_t i = 0; i < GREEDY; i++) {
        char *end;
        const long id = strtol(p, &end, 10);
        if (end == p || id != b->entry->greedy[i]) {
            check(false, way_name(b, w), "greedy token %u is %ld, not %d", i, end == p ? -1 : id, b->entry->greedy[i]);
            return;
        }
        p = end;
    }
    check(true, b->name, "-");
}

/* Chunks and threads change the order of sums only. */
static void check_exact(const struct built *b, const struct way *ways, size_t n_ways)
{
    const struct entry *e = b->entry;
    const float *first = NULL;
    double worst = 0, worst_between = 0;
    for (size_t i = 0; i < n_ways; i++) {
        const float *logits = logits_of(b, ways[i]);
        if (!logits) continue;
        if (!first) first = logits;
        const struct logits_difference d = against_golden(b->arena, e, logits), between = logits_compare(b->arena, first, logits, e->n_positions, e->n_vocab);
        check(d.n_not_finite + between.n_not_finite == 0, way_name(b, ways[i]), "%llu logits are not finite", (unsigned long long)between.n_not_finite);
        check(d.max_abs <= e->max_abs, way_name(b, ways[i]), "largest difference to the stored logits %.3g > %.3g (worst at row %u of %u)", d.max_abs, e->max_abs,
              d.worst_position, d.n);
        check(between.max_abs <= 1e-4 * between.largest, way_name(b, ways[i]), "largest difference to %s thread, chunk %s: %.3g > 1e-4 of %.3g", ways[0].threads,
              ways[0].chunk ? ways[0].chunk : "as built", between.max_abs, between.largest);
        worst = fmax(worst, d.max_abs);
        worst_between = fmax(worst_between, between.max_abs);
    }
    check_greedy(b, ways[0]);
    if (n_ways > 2) check_greedy(b, ways[n_ways - 1]);
    printf("%-52s max abs %.2e of %.2e, between ways %.2e\n", b->name, worst, e->max_abs, worst_between);
}

/* Quantised models: programs of GPUs keep 16 bits of each activation; the manifest's bounds, from 5e-3 on, are those of 8.  Measured over all formats: at
 * most 2.5e-5. */
static const double gpu_mean_kl = 1e-4, quantised_from = 1e-3;

static void check_default(const struct built *b, const struct way *ways, size_t n_ways)
{
    const struct entry *e = b->entry;
    double worst = 0;
    uint32_t agree = e->n_rows;
    if (test.gpu) check_greedy(b, ways[0]);      /* the stored choices lead by more than such a program is off */
    for (size_t i = 0; i < n_ways; i++) {
        const float *logits = logits_of(b, ways[i]);
        if (!logits) continue;
        const struct logits_difference d = against_golden(b->arena, e, logits);
        check(d.n_not_finite == 0, way_name(b, ways[i]), "%llu logits are not finite", (unsigned long long)d.n_not_finite);
        check(d.mean_kl <= e->mean_kl, way_name(b, ways[i]), "mean KL %.3g > %.3g (worst %.3g at row %u of %u)", d.mean_kl, e->mean_kl, d.worst_kl, d.worst_position, d.n);
        worst = fmax(worst, d.mean_kl);
        if (d.argmax_agree < agree) agree = d.argmax_agree;
    }
    printf("%-52s mean KL %.2e of %.2e, argmax %u of %u\n", b->name, worst, e->mean_kl, agree, e->n_rows);
}

static const struct way all_ways[] = { { "1", NULL }, { "2", NULL }, { "1", "1" }, { "2", "1" }, { "1", "64" }, { "2", "64" }, { "1", "0" }, { "2", "0" },
                                       { "1", "7" }, { "2", "7" } },
                        some_ways[] = { { "1", NULL }, { "2", "0" }, { "2", "7" } };

static void check_program(const struct entry *e, const char *target, const char *fuse, bool exact, const struct way *ways, size_t n_ways)
{
    struct built b;
    if (build_program(&b, e, target, fuse, exact)) {
        if (exact) check_exact(&b, ways, n_ways);
        else check_default(&b, ways, n_ways);
    }
    drop_program(&b);
    fflush(stdout);
}

/* ---- suites ---- */

struct part { uint32_t index, n; };

static struct part parse_part(const char *text)
{
    struct part p = { 0, 1 };
    if (text && (sscanf(text, "%u/%u", &p.index, &p.n) != 2 || p.index >= p.n)) die("\"%s\" is no part I/N", text);
    return p;
}

static void run_native(const cJSON *manifest, const char *set, struct part part)
{
    uint32_t n;
    const struct entry *entries = read_set(manifest, set, &n);
    for (uint32_t i = part.index; i < n; i += part.n)
        for (int fuse = 0; fuse < 2; fuse++) {
            check_program(&entries[i], "native", fuse ? "layer" : "none", true, all_ways, COUNT_OF(all_ways));
            check_program(&entries[i], "native", fuse ? "layer" : "none", false, some_ways, COUNT_OF(some_ways));
        }
}

static void run_reference(const cJSON *manifest)
{
    static const char *const sets[] = { "models", "quants" };
    for (size_t s = 0; s < COUNT_OF(sets); s++) {
        uint32_t n;
        const struct entry *entries = read_set(manifest, sets[s], &n);
        for (uint32_t i = 0; i < n; i++) {
            const struct entry *e = &entries[i];
            struct arena *a = arena_create();
            float *logits = arena_array(a, float, (size_t)e->n_positions * e->n_vocab);
            reference_logits(a, graph_build(a, model_describe(a, gguf_open(a, e->model, false), NULL)), e->tokens, e->n_positions, logits);
            const struct logits_difference d = against_golden(a, e, logits);
            /* Only the rounding of single values to float is left: far below the tolerance of float kernels. */
            check(d.n_not_finite == 0 && d.max_abs <= e->max_abs / 4, e->id, "the reference is off by %.3g", d.max_abs);
            printf("%-20s reference: max abs %.2e of %.2e\n", e->id, d.max_abs, e->max_abs / 4);
            arena_destroy(a);
        }
    }
}

/* Sets test.emulator; false, after saying why, when programs of the target cannot run here. */
static bool can_run(const char *target)
{
    struct arena *a = test.arena;
    const struct profile *p = profile_load(a, target, NULL);
    const char *why = profile_unsupported_here(a, p);
    if (!why) return true;
    struct utsname here;
    if (uname(&here) || strcmp(here.machine, p->elf_machine) == 0) {
        printf("skipped: %s cannot run here: %s\n", target, why);
        return false;
    }
    const char *argv[] = { arena_printf(a, "qemu-%s", p->elf_machine), "--version", NULL };
    struct spawn_job job = { .argv = argv };
    spawn_run(a, &(struct spawn_options){ .jobs = 1 }, &job, 1);
    const char *sysroot = arena_printf(a, "/usr/%s-linux-gnu", p->elf_machine);
    if (job.status != 0 || access(arena_printf(a, "%s/lib/libc.so.6", sysroot), R_OK)) {
        printf("skipped: %s needs %s (%s) and the libc of that machine (%s)\n", target, argv[0], job.status ? "not found" : "found", sysroot);
        return false;
    }
    test.emulator[0] = argv[0];
    test.emulator[1] = "-L";
    test.emulator[2] = sysroot;
    return true;
}

static void run_target(const cJSON *manifest, const char *target, struct part part, const char *fuse, const char *mode)
{
    const bool exact = !mode || strcmp(mode, "exact") == 0, by_default = !mode || strcmp(mode, "default") == 0;
    if (!exact && !by_default) die("%s is neither exact nor default", mode);
    static const char *const sets[] = { "quants", "models" };
    test.gpu = profile_load(test.arena, target, NULL)->kind == TARGET_GPU;
    const char *seen[64];
    size_t n_seen = 0;
    uint32_t n_models = 0;
    for (size_t s = 0; s < COUNT_OF(sets); s++) {
        uint32_t n;
        struct entry *entries = read_set(manifest, sets[s], &n);
        for (uint32_t i = 0; i < n; i++) {
            struct entry *e = &entries[i];
            if (test.gpu && e->mean_kl > quantised_from) e->mean_kl = gpu_mean_kl;
            const char *formats[16];
            size_t n_formats = 0;
            const cJSON *type;
            /* The F32 tensors of a quantised file are vectors; as a format F32 counts where the manifest says quant F32. */
            cJSON_ArrayForEach(type, e->tensor_types) if (n_formats < COUNT_OF(formats) && strcmp(type->string, "F32")) formats[n_formats++] = type->string;
            if (!e->tensor_types) formats[n_formats++] = e->quant;
            bool is_new = false;
            for (size_t f = 0; f < n_formats; f++) {
                bool known = false;
                for (size_t k = 0; k < n_seen; k++) known |= strcmp(seen[k], formats[f]) == 0;
                if (known || n_seen == COUNT_OF(seen)) continue;
                seen[n_seen++] = formats[f];
                is_new = true;
            }
            if (!is_new || n_models++ % part.n != part.index) continue;
            if (exact) check_program(e, target, fuse, true, some_ways, COUNT_OF(some_ways));
            if (by_default) check_program(e, target, fuse, false, some_ways, COUNT_OF(some_ways));
        }
    }
    printf("%zu formats in %u models, part %u of %u\n", n_seen, n_models, part.index + 1, part.n);
}

static void run_verify(const char *file, const char *target)
{
    static const char *const fuses[] = { "none", "layer" };
    for (int exact = 0; exact < 2; exact++)
        for (size_t f = 0; f < COUNT_OF(fuses); f++) {
            const char *argv[] = { test.forgec, "verify", file, "-t", target, "--fuse", fuses[f], "--ctx", "256", exact ? "--exact" : NULL, NULL };
            struct spawn_job job = { .argv = argv };
            spawn_run(test.arena, &(struct spawn_options){ .jobs = 1 }, &job, 1);
            check(job.status == 0, spawn_line(test.arena, &job), "exit code %d", job.status);
            printf("%.*s%s", (int)job.output.size, (const char *)job.output.data, job.messages);
        }
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fputs("usage: test_golden FORGEC DATA reference|models|quants|target|verify [ARGUMENT]\n", stderr);
        return 2;
    }
    test.arena = arena_create();
    cleanup_install_signals();
    test.forgec = argv[1];
    test.data = argv[2];
    const char *suite = argv[3], *argument = argc > 4 ? argv[4] : NULL;
    if ((strcmp(suite, "target") == 0 || strcmp(suite, "verify") == 0) && !can_run(argument ? argument : "native")) return SKIPPED;
    char *work = arena_printf(test.arena, "%s/forgec-golden.XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(work)) die("%s: cannot make a directory", work);
    test.work = work;
    cleanup_unlink_at_exit(work);
    cleanup_unlink_at_exit(arena_printf(test.arena, "%s/program", work));

    if (strcmp(suite, "verify") == 0) run_verify(test.data, argument ? argument : "native");
    else {
        const struct bytes text = file_read(test.arena, arena_printf(test.arena, "%s/manifest.json", test.data));
        cJSON *manifest = cJSON_ParseWithLength((const char *)text.data, text.size);
        if (!manifest) die("%s/manifest.json is no JSON", test.data);
        if (strcmp(suite, "reference") == 0) run_reference(manifest);
        else if (strcmp(suite, "target") == 0) run_target(manifest, argument ? argument : "native", parse_part(argc > 5 ? argv[5] : NULL), argc > 6 ? argv[6] : "layer", argc > 7 ? argv[7] : NULL);
        else if (strcmp(suite, "models") == 0 || strcmp(suite, "quants") == 0) run_native(manifest, suite, parse_part(argument));
        else die("unknown suite %s", suite);
        cJSON_Delete(manifest);
    }
    rmdir(work);
    printf("%u checks, %u failed\n", test.n_checks, test.n_failed);
    const bool ok = test.n_failed == 0 && test.n_checks > 0;
    arena_destroy(test.arena);
    return ok ? 0 : 1;
}
