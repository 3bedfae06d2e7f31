/* fuzz_plan.c -- libFuzzer: any text is read as a plan, as by --plan, or gets one error message.  For an accepted plan places do not
 * collide, its text reads back as the same plan, and it can be emitted.
 * The first byte chooses the target and whether operations are fused.  Seeds: `--emit plan` of the model $FUZZ_MODEL. */
#include "compiler/plan/text.h"
#include "plan_check.h"
#include "plan_sources.h"
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = { "x86-64-v3", "gfx1151", "gfx942", "sm_90", "webgpu" };
enum { N_TARGETS = COUNT_OF(names), CONTEXT = 100 };

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static jmp_buf jump;
static bool accepted;                            /* from here on there must be no error message */
static struct arena *kept;
static const struct graph   *graph;
static const struct target *targets[N_TARGETS];

static void on_die(const char *message)
{
    for (const char *c = message; *c; c++)                                  /* the contract: one line, without control characters */
        if ((unsigned char)*c < ' ' || *c == 0x7f) abort();
    if (!*message || accepted) abort();
    longjmp(jump, 1);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    kept = arena_create();
    const char *model = getenv("FUZZ_MODEL");
    if (!model) {
        fputs("fuzz_plan: set FUZZ_MODEL to a GGUF file\n", stderr);
        exit(1);
    }
    graph = graph_build(kept, model_describe(kept, gguf_open(kept, model, true), NULL));
    for (uint32_t i = 0; i < N_TARGETS; i++) targets[i] = target_load(kept, names[i], NULL);
    return 0;
}

static struct plan *plan_of(struct arena *a, uint8_t first, const struct plan_text *t)
{
    const struct plan_options o = { .n_ctx = CONTEXT, .chunk = t ? t->chunk : 0, .choices = t ? &t->choices : NULL };
    return plan_make(a, graph, first / N_TARGETS % 2 ? FUSE_NONE : FUSE_LAYER, targets[first % N_TARGETS], &o);
}

static const char *text_of(struct arena *a, const struct plan *p)
{
    struct text t = { .arena = a };
    plan_text_print(&t, p, "-");
    return text_str(&t);
}

static void take(struct arena *a, uint8_t first, const char *text)
{
    const struct plan_text *t = plan_text_read(a, "plan", text);
    const struct plan *p = plan_of(a, first, t);
    plan_text_check(p, t);
    accepted = true;
    plan_check(a, p);
    const char *printed = text_of(a, p);
    const struct plan_text *again = plan_text_read(a, "printed", printed);
    const struct plan *same = plan_of(a, first, again);
    plan_text_check(same, again);
    if (strcmp(printed, text_of(a, same)) != 0) abort();
    if (first & 0x80) plan_sources(a, p, false);                           /* takes longer than everything else */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) return 0;
    struct arena *volatile a = arena_create();
    accepted = false;
    die_handler = on_die;
    if (setjmp(jump) == 0) take(a, data[0], arena_strndup(a, (const char *)data + 1, size - 1));
    die_handler = NULL;
    arena_destroy(a);
    return 0;
}

/* ---- edits ---- */

static const char *const edges[] = { "0", "1", "2", "3", "8", "16", "32", "33", "48", "64", "96", "100", "101", "128", "256", "512", "1024",
                                     "4095", "4096", "4294967295", "4294967296", "rows", "lanes", "tokens", "threads", "least", "most",
                                     "splits", "groups", "digits", "gemv", "gemm", "attention_decode", "sample", "decode", "prefill",
                                     "chunk" };
#include "mutate_lines.h"

/* Lines of the plans of all targets. */
static const char *another_line(void)
{
    static const char *lines[4000];
    static uint32_t n;
    if (!n)
        for (uint8_t i = 0; i < 2 * N_TARGETS; i++) {
            const char *text = text_of(kept, plan_of(kept, i, NULL));
            n += split(kept, text, strlen(text), lines + n, (uint32_t)COUNT_OF(lines) - n);
        }
    return lines[pick(n)];
}
