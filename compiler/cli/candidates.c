/* candidates.c -- see candidates.h. */
#include "candidates.h"
#include <string.h>

const struct dimension_kind dimension_kinds[N_DIMENSIONS] = {
    [DIM_MODEL]  = { .key = "model" },
    [DIM_TARGET] = { .option = "--target", .letter = "-t", .key = "target", .list = true },
    [DIM_FUSE]   = { .option = "--fuse", .key = "fuse", .list = true },
    [DIM_KV]     = { .option = "--kv", .key = "kv", .list = true },
    [DIM_CTX]    = { .option = "--ctx", .key = "ctx", .list = true },
    [DIM_PLAN]   = { .option = "--plan", .key = "plan", .may_default = true },
    [DIM_TUNED]  = { .option = "--tuned", .key = "tuned", .may_default = true },
    [DIM_SOURCE] = { .option = "--source", .key = "source", .may_default = true },
};

static void add(struct arena *a, struct values *v, const char *value)
{
    arena_room(a, v->items, v->n, v->capacity);
    v->items[v->n++] = value;
}

bool values_add(struct arena *a, struct values *v, enum dimension d, const char *text)
{
    if (!dimension_kinds[d].list) {
        add(a, v, dimension_kinds[d].may_default && strcmp(text, "default") == 0 ? NULL : text);
        return true;
    }
    for (const char *p = text; ; p++) {
        const size_t n = strcspn(p, ",");
        if (!n) return false;
        add(a, v, arena_strndup(a, p, n));
        p += n;
        if (!*p) return true;
    }
}

/* ---- names ---- */

static bool same(const char *x, const char *y) { return x && y ? strcmp(x, y) == 0 : x == y; }

static bool differs(const struct combination *all, uint32_t n, enum dimension d)
{
    for (uint32_t i = 1; i < n; i++) if (!same(all[i].value[d], all[0].value[d])) return true;
    return false;
}

/* "models/tiny.gguf" -> "tiny" */
static const char *short_path(struct arena *a, const char *path)
{
    const char *base = path_name(path);
    const size_t n = strlen(base);
    return n > 5 && strcmp(base + n - 5, ".gguf") == 0 ? arena_strndup(a, base, n - 5) : base;
}

static bool is_path(enum dimension d) { return !dimension_kinds[d].list; }

/* A value as shown in names: a path without its folders, unless another value has the same short form. */
static const char *value_text(struct arena *a, const struct combination *all, uint32_t n, enum dimension d, const char *value)
{
    if (!value) return "default";
    if (!is_path(d)) return value;
    const char *brief = short_path(a, value);
    for (uint32_t i = 0; i < n; i++) {
        const char *other = all[i].value[d];
        if (other && strcmp(other, value) && strcmp(short_path(a, other), brief) == 0) return value;
    }
    return brief;
}

static const char *name_of(struct arena *a, const struct combination *all, uint32_t n, const struct combination *c)
{
    struct text t = { .arena = a };
    for (enum dimension d = 0; d < N_DIMENSIONS; d++) {
        if (!differs(all, n, d)) continue;
        const char *key = d == DIM_MODEL || d == DIM_TARGET ? "" : dimension_kinds[d].key;
        text_printf(&t, "%s%s%s%s", t.size ? ", " : "", key, *key ? " " : "", value_text(a, all, n, d, c->value[d]));
    }
    if (t.size) return text_str(&t);
    if (c->value[DIM_FUSE]) return arena_printf(a, "fuse %s", c->value[DIM_FUSE]);
    return value_text(a, all, n, DIM_MODEL, c->value[DIM_MODEL]);
}

static void name_all(struct arena *a, struct combination *all, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const char *name = name_of(a, all, n, &all[i]);
        all[i].name = printable(a, name, strlen(name));
    }
    for (uint32_t i = n; i-- > 0; ) {            /* backwards: an earlier name stays unchanged until all later names are compared with it */
        uint32_t before = 0;
        for (uint32_t k = 0; k < i; k++) before += strcmp(all[k].name, all[i].name) == 0;
        if (before) all[i].name = arena_printf(a, "%s (%u)", all[i].name, before + 1);
    }
}

struct combination *combinations(struct arena *a, const struct values given[N_DIMENSIONS], uint32_t *n)
{
    static const char *none[] = { NULL }, *levels[] = { "none", "layer" };
    struct values v[N_DIMENSIONS];
    uint64_t all = 1;
    for (enum dimension d = 0; d < N_DIMENSIONS; d++) {
        v[d] = given[d].n ? given[d] : (struct values){ .items = none, .n = 1 };
        all = all * v[d].n < UINT32_MAX ? all * v[d].n : UINT32_MAX;
    }
    if (all == 1 && !given[DIM_FUSE].n) {
        v[DIM_FUSE] = (struct values){ .items = levels, .n = 2 };
        all = 2;
    }
    *n = (uint32_t)all;
    if (all > CANDIDATES_MOST) return NULL;
    struct combination *c = arena_array(a, struct combination, all);
    for (uint32_t i = 0; i < *n; i++) {
        uint32_t rest = i;
        for (enum dimension d = N_DIMENSIONS; d-- > 0; rest /= v[d].n) c[i].value[d] = v[d].items[rest % v[d].n];
    }
    name_all(a, c, *n);
    return c;
}
