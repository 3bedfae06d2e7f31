/* fuzz_profile.c -- libFuzzer: any text is a target, an architecture or a graph, or gets one error message;
 * what is accepted goes on to plan and emit.
 * The first byte says which: 0 a target's YAML, 1 llama.yaml, 2 the text of an unrolled graph (graph_parse).
 * Seeds: targets/, models/ and `--emit graph`.
 * Edits know lines, keys, values and the wiring's names: they take lines and words from other lines, and values at the edges.
 * Files go into a folder below $TMPDIR that is removed at the end. */
#include "compiler/cpu/emit.h"
#include "compiler/gpu/emit.h"
#include "compiler/build/image.h"
#include "compiler/base/resource.h"
#include "plan_check.h"
#include <ctype.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { TARGET, MODEL, GRAPH, N_KINDS };
enum { LINES = 400 };

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

static jmp_buf jump;
static struct arena *kept;
static const struct gguf  *file;
static const struct model *model;
static const struct graph *graph;
static struct profile     *cpu;
static char folder[4096];

static void on_die(const char *message)
{
    for (const char *c = message; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f) abort();       /* the contract: one line, nothing a terminal obeys */
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
    snprintf(folder, sizeof folder, "%s/fuzz_profile.XXXXXX", parent ? parent : "/tmp");
    if (!mkdtemp(folder)) return 1;
    atexit(remove_folder);
    kept = arena_create();
    file = gguf_open(kept, "tests/data/bad/ok-base.gguf", true);
    model = model_describe(kept, file, NULL);
    graph = graph_build(kept, model);
    cpu = profile_load(kept, "x86-64-v4", NULL);
    return 0;
}

/* ---- what is accepted goes on ---- */

static void check_text(struct bytes t)
{
    for (size_t i = 0; i < t.size; i++) if ((t.data[i] < ' ' && t.data[i] != '\n') || t.data[i] == 0x7f) abort();
    const uint8_t *end = memmem(t.data, t.size, "*/", 2), *last = memmem(t.data, t.size, "compile alone:", 14);
    if (t.size > 1 && memcmp(t.data, "/*", 2) == 0 && last && (!end || end < last)) abort();         /* a value ended the banner */
}

static void plan_and_emit(struct arena *a, const struct graph *g, enum fuse_level level, const struct profile *p)
{
    const struct plan_options o = { .n_ctx = 100 };
    const struct plan *plan = plan_make(a, g, level, p, &o);
    const struct emit_options eo = { .model_hash = "0123", .weights_hash = image_hash(a, plan, ""), .options = "-", .compiler = "-",
                                     .compile_command = "-" };
    plan_check(a, plan);
    if (!plan->gpu) check_text(emit_cpu(a, plan, &eo));
    else {
        check_text(emit_gpu(a, plan, &eo));
        check_text(emit_gpu_program(a, plan, &eo, 1000));
    }
}

static void use_graph(struct arena *a, const struct graph *g)
{
    struct text t = { .arena = a }, again = { .arena = a };
    graph_print(&t, g);
    graph_print(&again, graph_parse(a, g->model, "graph", text_str(&t)));
    if (strcmp(text_str(&t), text_str(&again)) != 0) abort();
    for (enum fuse_level level = FUSE_NONE; level <= FUSE_LAYER; level++) plan_and_emit(a, g, level, cpu);
}

static void take(struct arena *a, uint32_t kind, struct bytes text)
{
    const char *path = arena_printf(a, "%s/%s", folder, kind == TARGET ? "fuzz.yaml" : "llama.yaml");
    if (kind == GRAPH) { use_graph(a, graph_parse(a, model, "graph", arena_strndup(a, (const char *)text.data, text.size))); return; }
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, text.data, text.size) != (ssize_t)text.size) abort();
    close(fd);
    if (kind == TARGET) plan_and_emit(a, graph, FUSE_LAYER, profile_load(a, path, NULL));
    else use_graph(a, graph_build(a, model_describe(a, file, &(struct model_options){ .directory = folder })));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) return 0;
    struct arena *volatile a = arena_create();
    die_handler = on_die;
    if (setjmp(jump) == 0) take(a, data[0] % N_KINDS, (struct bytes){ data + 1, size - 1 });
    die_handler = NULL;
    arena_destroy(a);
    return 0;
}

/* ---- edits ---- */

static uint64_t random_state;
static uint32_t pick(uint32_t n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 20) % n;
}

static uint32_t split(struct arena *a, const char *text, size_t size, const char *lines[], uint32_t most)
{
    uint32_t n = 0;
    for (const char *p = text, *end = text + size; p < end && n < most; ) {
        const char *newline = memchr(p, '\n', (size_t)(end - p)), *stop = newline ? newline : end;
        lines[n++] = arena_strndup(a, p, (size_t)(stop - p));
        p = stop + 1;
    }
    return n;
}

/* Lines of all built-in targets and models. */
static const char *built_in_line(void)
{
    static const char *lines[2000];
    static uint32_t n;
    if (!n)
        for (uint32_t k = 0; k < 2; k++)
            for (const char **paths = resource_list(kept, NULL, k ? "models/" : "targets/"); *paths; paths++) {
                const struct bytes t = resource_get(kept, NULL, *paths);
                n += split(kept, (const char *)t.data, t.size, lines + n, COUNT_OF(lines) - n);
            }
    return lines[pick(n)];
}

/* A word of the line and where it ends; NULL where there is none. */
static const char *a_word(const char *line, size_t *length)
{
    const char *starts[64];
    uint32_t n = 0;
    for (const char *c = line; *c && n < COUNT_OF(starts); c++)
        if ((isalnum((unsigned char)*c) || *c == '_' || *c == '%') &&
            (c == line || !(isalnum((unsigned char)c[-1]) || strchr("_%.-", c[-1])))) starts[n++] = c;
    if (!n) return NULL;
    const char *word = starts[pick(n)];
    *length = 1;
    while (isalnum((unsigned char)word[*length]) || (word[*length] && strchr("_.-", word[*length]))) ++*length;
    return word;
}

static const char *edge(struct arena *a)
{
    static const char *const words[] = { "0", "1", "-1", "16", "15", "17", "31", "64", "4096", "4294967295", "4294967296",
                                         "18446744073709551615", "1e308", ".nan", ".inf", "-0.0", "true",
                                         "''", "\"*/\"", "\"\\n\"", "\"\\u202e\"", "\"\\x9b\"", "{}", "[]", "[a, b]", "{value: 1}", "~",
                                         "-fplugin=x", "-DA=1", "\"-DA=*/\"", "%x" };
    return pick(4) ? words[pick(COUNT_OF(words))] : arena_printf(a, "%llu", (1ull << pick(64)) + pick(3) - 1);
}

static const char *edit_word(struct arena *a, const char *line, const char *other)
{
    size_t n, m;
    const char *word = a_word(line, &n), *from = a_word(other, &m);
    if (!word) return other;
    if (!from || pick(2)) { from = edge(a); m = strlen(from); }
    return arena_printf(a, "%.*s%.*s%s", (int)(word - line), line, (int)m, from, word + n);
}

static uint32_t edit_line(struct arena *a, const char *lines[], uint32_t n)
{
    const uint32_t i = pick(n), k = pick(n);
    const char *other = lines[k];
    switch (pick(8)) {
    case 0: lines[i] = built_in_line(); break;
    case 1: lines[k] = lines[i]; lines[i] = other; break;
    case 2: for (uint32_t l = i; l + 1 < n; l++) lines[l] = lines[l + 1]; return n - 1;
    case 3:
        if (n >= LINES) break;
        memmove(lines + i + 1, lines + i, (n - i) * sizeof *lines);
        lines[i] = pick(2) ? other : built_in_line();
        return n + 1;
    case 4: lines[i] = pick(2) ? arena_printf(a, "  %s", lines[i]) : lines[i] + strspn(lines[i], " "); break;
    default: lines[i] = edit_word(a, lines[i], pick(3) ? other : built_in_line());
    }
    return n;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    random_state = ((uint64_t)seed + 1) * 0x9e3779b97f4a7c15u | 1;
    if (size < 2 || pick(16) == 0) return LLVMFuzzerMutate(data, size, max_size);
    struct arena *a = arena_create();
    const char *lines[LINES + 1];
    struct text t = { .arena = a };
    uint32_t n = split(a, (const char *)data + 1, size - 1, lines, LINES);
    for (uint32_t edits = pick(2) ? 1 : 2 + pick(4); edits > 0 && n > 1; edits--) n = edit_line(a, lines, n);
    for (uint32_t i = 0; i < n; i++) text_printf(&t, "%s\n", lines[i]);
    const size_t length = t.size < max_size - 1 ? t.size : max_size - 1;
    if (length) memcpy(data + 1, t.data, length);
    arena_destroy(a);
    return length + 1;
}
