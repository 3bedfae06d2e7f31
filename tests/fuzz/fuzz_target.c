/* fuzz_target.c -- libFuzzer: any text is read as a target, an architecture or a graph, or gets one error message; an accepted text is
 * planned and emitted.
 * The first byte chooses: 0 a target's YAML, 1 llama.yaml, 2 the text of an unrolled graph (graph_parse); plus 3: the same for a file with
 * experts, $FUZZ_EXPERTS.  Seeds: targets/, models/ and `--emit graph`.
 * Edits work on lines, keys, values and the wiring's names: they use lines and words of other lines, and extreme values.
 * Files are written into a folder below $TMPDIR that is removed at the end. */
#include "compiler/base/resource.h"
#include "plan_check.h"
#include "plan_sources.h"
#include <fcntl.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { TARGET, MODEL, GRAPH, N_KINDS };

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static jmp_buf jump;
static struct arena *kept;
enum { PLAIN, EXPERTS, N_FILES };
static const struct gguf  *files[N_FILES];
static const struct model *models[N_FILES];
static const struct graph *graph;
static struct target     *cpu;
static char folder[4096];

static void on_die(const char *message)
{
    for (const char *c = message; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f) abort();       /* the contract: one line, without control characters */
    if (!*message) abort();
    longjmp(jump, 1);
}

static void remove_folder(void)
{
    static const char *const names[] = { "fuzz.yaml", "llama.yaml" };
    struct arena *a = arena_create();
    for (size_t i = 0; i < COUNT_OF(names); i++) unlink(arena_printf(a, "%s/%s", folder, names[i]));
    rmdir(folder);
    arena_destroy(a);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    const char *parent = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/fuzz_target.XXXXXX", parent ? parent : "/tmp");
    if (!mkdtemp(folder)) return 1;
    atexit(remove_folder);
    kept = arena_create();
    const char *experts = getenv("FUZZ_EXPERTS");
    for (uint32_t i = 0; i < N_FILES; i++) {
        files[i] = gguf_open(kept, i == EXPERTS && experts ? experts : FORGEC_UNPACKED "/bad/ok-base.gguf", true);
        models[i] = model_describe(kept, files[i], NULL);
    }
    graph = graph_build(kept, models[PLAIN]);
    cpu = target_load(kept, "x86-64-v4", NULL);
    return 0;
}

/* ---- accepted texts are planned and emitted ---- */

static void plan_and_emit(struct arena *a, const struct graph *g, enum fuse_level level, const struct target *p)
{
    const struct plan_options o = { .n_ctx = 100 };
    const struct plan *plan = plan_make(a, g, level, p, &o);
    plan_check(a, plan);
    plan_sources(a, plan, false);
}

static void use_graph(struct arena *a, const struct graph *g)
{
    struct text t = { .arena = a }, again = { .arena = a };
    graph_print(&t, g);
    graph_print(&again, graph_parse(a, g->model, "graph", text_str(&t)));
    if (strcmp(text_str(&t), text_str(&again)) != 0) abort();
    for (enum fuse_level level = FUSE_NONE; level <= FUSE_LAYER; level++) plan_and_emit(a, g, level, cpu);
}

static void take(struct arena *a, uint32_t kind, uint32_t which, struct bytes text)
{
    const char *path = arena_printf(a, "%s/%s", folder, kind == TARGET ? "fuzz.yaml" : "llama.yaml");
    if (kind == GRAPH) {
        use_graph(a, graph_parse(a, models[which], "graph", arena_strndup(a, (const char *)text.data, text.size)));
        return;
    }
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text.data, text.size) != (ssize_t)text.size) abort();
    close(fd);
    if (kind == TARGET) plan_and_emit(a, graph, FUSE_LAYER, target_load(a, path, NULL));
    else use_graph(a, graph_build(a, model_describe(a, files[which], &(struct model_options){ .directory = folder })));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) return 0;
    struct arena *volatile a = arena_create();
    die_handler = on_die;
    if (setjmp(jump) == 0) take(a, data[0] % N_KINDS, data[0] / N_KINDS % N_FILES, (struct bytes){ data + 1, size - 1 });
    die_handler = NULL;
    arena_destroy(a);
    return 0;
}

/* ---- edits ---- */

static const char *const edges[] = { "0", "1", "-1", "16", "15", "17", "31", "64", "4096", "4294967295", "4294967296",
                                     "18446744073709551615", "1e308", ".nan", ".inf", "-0.0", "true",
                                     "''", "\"*/\"", "\"\\n\"", "\"\\u202e\"", "\"\\x9b\"", "{}", "[]", "[a, b]", "{value: 1}", "~",
                                     "-fplugin=x", "-DA=1", "\"-DA=*/\"", "%x" };
#include "mutate_lines.h"

/* Lines of all built-in targets and models. */
static const char *another_line(void)
{
    static const char *lines[4000];
    static uint32_t n;
    if (!n)
        for (uint32_t k = 0; k < 2; k++)
            for (const char **paths = resource_list(kept, NULL, k ? "models/" : "targets/"); *paths; paths++) {
                const struct bytes t = resource_get(kept, NULL, *paths);
                n += split(kept, (const char *)t.data, t.size, lines + n, COUNT_OF(lines) - n);
            }
    return lines[pick(n)];
}
