/* profile.c -- targets/NAME.yaml, with what it inherits, as struct profile. */
#include "profile.h"
#include "resource.h"
#include "runtime/cpu_features.h"
#include "yaml.h"
#include <string.h>

enum { INHERIT_DEPTH_MAX = 8, NAME_MAX_LENGTH = 64 };

/* The best first; `native` is the first of them that runs here. */
static const char *const native_order[] = { "x86-64-v4", "x86-64-v3", "aarch64", "portable" };

const char *profile_host_machine(void)
{
#if defined(__x86_64__)
    return "x86_64";
#elif defined(__aarch64__)
    return "aarch64";
#else
    return "unknown";
#endif
}

/* ---- values ---- */

struct unit { const char *name; double scale; };
static const struct unit byte_units[] = { { "B", 1 }, { "KiB", 1024 }, { "MiB", 1048576 }, { "GiB", 1073741824 }, { NULL, 0 } };
static const struct unit bandwidth_units[] = { { "GB/s", 1 }, { "MB/s", 1e-3 }, { "TB/s", 1e3 }, { NULL, 0 } };

/* {value: 25, unit: GB/s, source: "..."} in the first unit of the list. */
static double quantity(struct arena *a, const struct yaml *y, const struct unit *units)
{
    static const char *const keys[] = { "value", "unit", "source", NULL };
    if (y->kind != YAML_MAP) die_at(y->at, "expected {value: ..., unit: %s, source: \"...\"}", units[0].name);
    yaml_only(y, keys);
    const struct yaml *unit = yaml_need(y, "unit");
    const double value = yaml_f64(yaml_need(y, "value"));
    if (!(value >= 0 && value <= 1e15)) die_at(yaml_need(y, "value")->at, "%s is no sensible amount", yaml_need(y, "value")->scalar);
    if (!*yaml_string(yaml_need(y, "source"))) die_at(yaml_need(y, "source")->at, "the source says where the number is from");
    const char *name = yaml_string(unit);
    for (size_t i = 0; units[i].name; i++)
        if (!strcmp(name, units[i].name)) return value * units[i].scale;
    struct text known = { .arena = a };
    for (size_t i = 0; units[i].name; i++) text_printf(&known, "%s%s", i ? ", " : "", units[i].name);
    die_at(unit->at, "unknown unit %s; known: %s", printable(a, name, strlen(name)), text_str(&known));
}

static uint64_t whole_bytes(struct arena *a, const struct yaml *y)
{
    return (uint64_t)quantity(a, y, byte_units);
}

static void words(struct arena *a, const struct yaml *y, const char *out[PROFILE_MAX_FLAGS + 1])
{
    if (y->kind != YAML_LIST) die_at(y->at, "expected a list");
    if (y->count > PROFILE_MAX_FLAGS) die_at(y->at, "%u entries; at most %d", y->count, PROFILE_MAX_FLAGS);
    for (uint32_t i = 0; i < y->count; i++) {
        const char *word = yaml_string(y->items[i]);
        if (!*word) die_at(y->items[i]->at, "empty entry");
        out[i] = arena_strdup(a, word);
    }
    out[y->count] = NULL;
}

static uint32_t small(const struct yaml *y, uint64_t least, uint64_t most)
{
    const uint64_t value = yaml_u64(y);
    if (value < least || value > most)
        die_at(y->at, "%llu is out of range (%llu to %llu)", (unsigned long long)value, (unsigned long long)least, (unsigned long long)most);
    return (uint32_t)value;
}

static const char *one_of(struct arena *a, const struct yaml *y, const char *const *known)
{
    const char *word = yaml_string(y);
    struct text list = { .arena = a };
    for (size_t i = 0; known[i]; i++) {
        if (!strcmp(word, known[i])) return known[i];
        text_printf(&list, "%s%s", i ? ", " : "", known[i]);
    }
    die_at(y->at, "unknown value %s; known: %s", printable(a, word, strlen(word)), text_str(&list));
}

/* ---- one file over its parent's values ---- */

static void apply_tiles(struct profile *p, const struct yaml *y)
{
    static const char *const keys[] = { "gemm_tokens", "gemm_groups", "prefill_chunk", "attention_block", NULL };
    if (y->kind != YAML_MAP) die_at(y->at, "expected a map");
    yaml_only(y, keys);
    const struct yaml *v;
    if ((v = yaml_get(y, "gemm_tokens")))     p->tile.gemm_tokens = small(v, 4, 64);      /* FEW_TOKENS in matmul.h */
    if ((v = yaml_get(y, "gemm_groups")))     p->tile.gemm_groups = small(v, 1, 16);
    if ((v = yaml_get(y, "prefill_chunk")))   p->tile.prefill_chunk = small(v, 1, 4096);
    if ((v = yaml_get(y, "attention_block"))) {
        p->tile.attention_block = small(v, 16, 4096);
        if (p->tile.attention_block % 16) die_at(v->at, "attention_block is %u; it must be a multiple of 16", p->tile.attention_block);
    }
}

static void apply_cache(struct arena *a, struct profile *p, const struct yaml *y)
{
    static const char *const keys[] = { "l1d", "l2", "l3", NULL };
    if (y->kind != YAML_MAP) die_at(y->at, "expected a map");
    yaml_only(y, keys);
    const struct yaml *v;
    if ((v = yaml_get(y, "l1d"))) p->cache.l1d_bytes = whole_bytes(a, v);
    if ((v = yaml_get(y, "l2")))  p->cache.l2_bytes = whole_bytes(a, v);
    if ((v = yaml_get(y, "l3")))  p->cache.l3_bytes = whole_bytes(a, v);
}

static void apply(struct arena *a, struct profile *p, const struct yaml *y)
{
    static const char *const keys[] = { "inherits", "description", "kind", "machine", "triple", "simd", "cflags", "features", "page", "tiles",
                                        "cache", "bandwidth", NULL };
    static const char *const kinds[] = { "cpu", NULL };
    static const char *const machines[] = { "x86_64", "aarch64", "host", NULL };
    static const char *const simds[] = { "c", "avx2", "avx512", "neon", NULL };
    yaml_only(y, keys);
    const struct yaml *v;
    if ((v = yaml_get(y, "description"))) p->description = arena_strdup(a, yaml_string(v));
    if ((v = yaml_get(y, "kind")))        { one_of(a, v, kinds); p->kind = TARGET_CPU; }
    if ((v = yaml_get(y, "machine"))) {
        p->elf_machine = one_of(a, v, machines);
        if (!strcmp(p->elf_machine, "host")) p->elf_machine = profile_host_machine();
        p->triple = arena_printf(a, "%s-linux-gnu", p->elf_machine);
    }
    if ((v = yaml_get(y, "triple")))      p->triple = arena_strdup(a, yaml_string(v));
    if ((v = yaml_get(y, "simd")))        p->simd = one_of(a, v, simds);
    if ((v = yaml_get(y, "cflags")))      words(a, v, p->cflags);
    if ((v = yaml_get(y, "features")))    words(a, v, p->features);
    if ((v = yaml_get(y, "page"))) {
        const uint64_t page = whole_bytes(a, v);
        if (page < 4096 || page > 1u << 21 || (page & (page - 1))) die_at(v->at, "a page is a power of two from 4096 B to 2 MiB");
        p->page_bytes = (uint32_t)page;
    }
    if ((v = yaml_get(y, "tiles")))       apply_tiles(p, v);
    if ((v = yaml_get(y, "cache")))       apply_cache(a, p, v);
    if ((v = yaml_get(y, "bandwidth")))   p->bandwidth_gb_s = quantity(a, v, bandwidth_units);
}

static bool name_is_plain(const char *name)
{
    const size_t length = strlen(name);
    return length && length <= NAME_MAX_LENGTH && name[0] != '.' && name[0] != '-' &&
           strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == length;
}

static const char *names_line(struct arena *a, const char *directory)
{
    struct text t = { .arena = a };
    for (const char **names = profile_names(a, directory); *names; names++) text_printf(&t, "%s%s", t.size ? ", " : "", *names);
    return text_str(&t);
}

/* Reads a file and, first, what it inherits.  at: where the name stands, or no place for one from the command line. */
static void load_into(struct arena *a, struct profile *p, const char *name, struct place at, const char *directory, uint32_t depth)
{
    struct bytes text;
    const size_t length = strlen(name);
    if (depth == 0 && length > 5 && !strcmp(name + length - 5, ".yaml")) {
        p->path = name;
        text = file_read(a, name);
        const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
        p->name = arena_strndup(a, base, strlen(base) - 5);
        if (!name_is_plain(p->name)) die("%s: a target's file name may hold letters, digits, '.', '_' and '-'", printable(a, name, length));
    } else {
        const char *path = arena_printf(a, "targets/%s.yaml", name);
        if (!name_is_plain(name) || !resource_find(a, directory, path, &text))
            die_at(at, "unknown target %s; known: native, %s, or a path ending in .yaml", printable(a, name, length), names_line(a, directory));
        if (depth == 0) {
            p->name = arena_strdup(a, name);
            p->path = path;
        }
        name = resource_place(a, directory, path);
    }
    const struct yaml *y = yaml_parse(a, name, (const char *)text.data, text.size);
    if (!y || y->kind != YAML_MAP) die("%s: expected a map of keys and values", name);
    const struct yaml *parent = yaml_get(y, "inherits");
    if (parent) {
        if (depth + 1 == INHERIT_DEPTH_MAX) die_at(parent->at, "targets inherit deeper than %d levels; is there a circle?", INHERIT_DEPTH_MAX);
        load_into(a, p, yaml_string(parent), parent->at, directory, depth + 1);
    }
    apply(a, p, y);
}

static const char *missing_key(const struct profile *p)
{
    return !p->elf_machine ? "machine" : !p->simd ? "simd" : !p->page_bytes ? "page" : !p->tile.gemm_tokens ? "tiles: gemm_tokens"
         : !p->tile.gemm_groups ? "tiles: gemm_groups" : !p->tile.prefill_chunk ? "tiles: prefill_chunk"
         : !p->tile.attention_block ? "tiles: attention_block" : NULL;
}

static struct profile *load(struct arena *a, const char *name, const char *directory)
{
    struct profile *p = arena_new(a, struct profile);
    load_into(a, p, name, (struct place){ 0 }, directory, 0);
    if (!p->description) p->description = "";
    return p;
}

struct profile *profile_load(struct arena *a, const char *name, const char *directory)
{
    if (!strcmp(name, "native")) {
        for (size_t i = 0; i < COUNT_OF(native_order); i++) {
            struct profile *p = load(a, native_order[i], directory);
            if (!missing_key(p) && !profile_unsupported_here(a, p)) return p;
        }
        die("no built-in target runs on this machine (%s); known: %s", profile_host_machine(), names_line(a, directory));
    }
    struct profile *p = load(a, name, directory);
    const char     *missing = missing_key(p);
    if (missing) die("%s: no %s; only targets that inherit this one and add it can be built for", p->path, missing);
    return p;
}

const char **profile_names(struct arena *a, const char *directory)
{
    const char **paths = resource_list(a, directory, "targets/");
    size_t kept = 0;
    for (size_t i = 0; paths[i]; i++) {
        const size_t length = strlen(paths[i]), start = strlen("targets/");
        if (length < start + 6 || strcmp(paths[i] + length - 5, ".yaml") != 0) continue;
        const char *name = arena_strndup(a, paths[i] + start, length - start - 5);
        /* what others inherit from, like cpu, is no target itself: it names no machine */
        struct bytes text = resource_get(a, directory, paths[i]);
        const struct yaml *y = yaml_parse(a, resource_place(a, directory, paths[i]), (const char *)text.data, text.size);
        if (!yaml_get(y, "machine") && !yaml_get(y, "inherits")) continue;
        paths[kept++] = name;
    }
    paths[kept] = NULL;
    return paths;
}

const char *profile_unsupported_here(struct arena *a, const struct profile *p)
{
    if (strcmp(p->elf_machine, profile_host_machine()) != 0) return arena_printf(a, "this machine is %s, the target %s", profile_host_machine(), p->elf_machine);
    char missing[512];
    return cpu_has_all(p->features, missing, sizeof missing) ? NULL : arena_printf(a, "this CPU has no %s", missing);
}
