/* fuzz_gguf.c -- libFuzzer: any bytes are either a GGUF file or one error message; every accepted file can be shown.
 * Bit 0 of the last byte chooses header_only.  Seeds: tests/data/bad. */
#include "compiler/cli/inspect.h"

#include <setjmp.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#define GGUF_PREFIX 0
#include "mutate_gguf.h"

static jmp_buf jump;

static void on_die(const char *message)
{
    if (strchr(message, '\n') || !*message) abort();      /* the contract: one line */
    longjmp(jump, 1);
}

/* Touches every byte that the parser declared readable. */
static void read_all(struct arena *a, const struct gguf *g)
{
    volatile uint64_t sum = 0;
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        const struct gguf_tensor *t = &g->tensors[i];
        if (gguf_tensor_find(g, t->name) != t) abort();
        for (uint64_t k = 0; t->data && k < t->bytes; k++) sum += t->data[k];
    }
    for (uint64_t i = 0; i < g->n_pairs; i++) {
        const struct gguf_value *v = &g->pairs[i].value;
        if (gguf_find(g, g->pairs[i].key) != v) abort();
        for (uint64_t k = 0; v->items && k < v->count; k++) sum += gguf_item_f64(v, k) > 0;
    }
    gguf_hash(a, g);
    const struct target cpu = { .name = "cpu", .kind = TARGET_CPU }, gpu = { .name = "gpu", .kind = TARGET_GPU };
    inspect_print(a, g, false, &cpu);
    inspect_print(a, g, true, &gpu);
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    return freopen("/dev/null", "w", stdout) ? 0 : 1;     /* libFuzzer itself speaks on stderr */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *volatile a = arena_create();
    die_handler = on_die;
    if (setjmp(jump) == 0) read_all(a, gguf_parse(a, "fuzz", data, size, size && data[size - 1] & 1));
    arena_destroy(a);
    return 0;
}
