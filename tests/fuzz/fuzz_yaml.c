/* fuzz_yaml.c -- libFuzzer: any bytes are either a tree or one error message with a place. */
#include "compiler/base/yaml.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

static jmp_buf jump;

static void on_die(const char *message)
{
    if (strchr(message, '\n') || !*message) abort();      /* the contract: one line */
    longjmp(jump, 1);
}

/* The typed readers die on most nodes: each gets its own frame. */
static void read_node(const struct yaml *y)
{
    if (setjmp(jump) == 0) yaml_u64(y);
    if (setjmp(jump) == 0) yaml_f64(y);
    if (setjmp(jump) == 0) yaml_bool(y);
    if (setjmp(jump) == 0) yaml_string(y);
    static const char *const allowed[] = { "a", "b", NULL };
    if (setjmp(jump) == 0) yaml_only(y, allowed);
}

static void walk(const struct yaml *y, uint32_t depth)
{
    if (depth > 32 || y->at.line < 1 || y->at.column < 1) abort();
    read_node(y);
    for (uint32_t i = 0; i < y->count; i++) {
        if (y->kind == YAML_MAP && y->count < 100 && yaml_get(y, y->keys[i]) != y->items[i]) abort();
        walk(y->items[i], depth + 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *volatile a = arena_create();
    struct yaml *volatile y = NULL;
    die_handler = on_die;
    if (setjmp(jump) == 0) y = yaml_parse(a, "fuzz", (const char *)data, size);
    if (y) walk(y, 1);
    arena_destroy(a);
    return 0;
}
