/* token_lists.c -- see token_lists.h. */
#include "token_lists.h"
#include <inttypes.h>
#include <stdlib.h>

static int by_number(const void *x, const void *y)
{
    const uint32_t i = *(const uint32_t *)x, j = *(const uint32_t *)y;
    return i < j ? -1 : i > j;
}

/* NULL: the value is an array of integers; else what it is. */
static const char *other_than_integers(struct arena *a, const struct gguf_value *v)
{
    if (v->type != GGUF_ARRAY) return arena_printf(a, "%s, not an array", gguf_type_name(v->type));
    switch (v->item_type) {
    case GGUF_STRING: case GGUF_ARRAY: case GGUF_BOOL: case GGUF_F32: case GGUF_F64:
        return arena_printf(a, "an array of %s, not of integers", gguf_type_name(v->item_type));
    default: return NULL;
    }
}

/* The tokens that a key lists; empty if the file lacks it. *wrong: what its value is if it is not an array of integers, else NULL. */
static struct token_list token_list(struct arena *a, const struct gguf *g, const char *key, const char **wrong)
{
    const struct gguf_value *list = gguf_find(g, key), *tokens = gguf_find(g, "tokenizer.ggml.tokens");
    *wrong = list ? other_than_integers(a, list) : NULL;
    if (!list || *wrong || !tokens || tokens->type != GGUF_ARRAY) return (struct token_list){ NULL, 0 };
    uint32_t *ids = arena_array(a, uint32_t, list->count), n = 0, kept = 0;
    for (uint64_t i = 0; i < list->count; i++) {
        const double id = gguf_item_f64(list, i);
        if (id >= 0 && id < (double)tokens->count) ids[n++] = (uint32_t)id;
    }
    qsort(ids, n, sizeof *ids, by_number);
    for (uint32_t i = 0; i < n; i++) if (i == 0 || ids[i] != ids[i - 1]) ids[kept++] = ids[i];
    return (struct token_list){ ids, kept };
}

struct token_list suppressed_tokens(struct arena *a, const struct gguf *g)
{
    static const char key[] = "tokenizer.ggml.suppress_tokens";
    const char *wrong;
    const struct token_list list = token_list(a, g, key, &wrong);
    if (wrong) die("%s: '%s' is %s; convert the model again", g->path, key, wrong);
    return list;
}

struct token_list ending_tokens(struct arena *a, const struct gguf *g)
{
    static const char key[] = "tokenizer.ggml.eos_token_ids";
    const char *wrong;
    const struct token_list list = token_list(a, g, key, &wrong);
    if (wrong) warn("%s: '%s' is %s; the program ignores it", g->path, key, wrong);
    return list;
}
