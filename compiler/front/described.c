/* described.c -- see described.h. */
#include "described.h"
#include "model.h"
#include "compiler/base/resource.h"
#include <ctype.h>
#include <string.h>

/* ---- names with {arch} and {l} ---- */

const char *described_fill(struct arena *a, const char *architecture, const char *pattern, uint32_t layer)
{
    struct text t = { .arena = a };
    for (const char *p = pattern; *p; ) {
        if (strncmp(p, "{arch}", 6) == 0) { text_puts(&t, architecture); p += 6; }
        else if (strncmp(p, "{l}", 3) == 0) { text_printf(&t, "%u", layer); p += 3; }
        else text_append(&t, p++, 1);
    }
    return text_str(&t);
}

const char *described_name(const struct described *d, const char *pattern, uint32_t layer)
{
    return described_fill(d->arena, d->architecture, pattern, layer);
}

bool described_matches(const char *pattern, const char *name)
{
    const char *star = NULL, *from = NULL;
    for (;;) {
        if (*pattern == '*') { star = ++pattern; from = name; }
        else if (strncmp(pattern, "{l}", 3) == 0 && isdigit((unsigned char)*name)) { pattern += 3; name += strspn(name, "0123456789"); }
        else if (*pattern != *name) {
            if (!star || !*from) return false;
            pattern = star;
            name = ++from;
        }
        else if (!*pattern) return true;
        else { pattern++; name++; }
    }
}

/* ---- the YAML and the files it inherits ---- */

static struct yaml *model_file(struct arena *a, const char *directory, const char *name, struct bytes *text)
{
    const char *path = arena_printf(a, "models/%s.yaml", name);
    if (!resource_find(a, directory, path, text)) return NULL;
    return yaml_parse(a, resource_place(a, directory, path), (const char *)text->data, text->size);
}

static const char *const top_keys[] = { "architecture", "inherits", "parameters", "harmless", "neutral", "tensors", "left_out", "towers",
                                       "fused", "blocks", "graph", NULL };

/* files[0] and texts[0] must be set. */
static void read_files(struct described *d)
{
    for (;;) {
        struct yaml *y = d->files[d->n_files++];
        yaml_only(y, top_keys);
        struct yaml *base = yaml_get(y, "inherits");
        if (!base) return;
        if (d->n_files == COUNT_OF(d->files)) die_at(base->at, "inherits goes deeper than %zu files", COUNT_OF(d->files));
        d->files[d->n_files] = model_file(d->arena, d->directory, yaml_string(base), &d->texts[d->n_files]);
        if (!d->files[d->n_files]) die_at(base->at, "there is no models/%s.yaml", yaml_string(base));
    }
}

struct yaml *described_entry(const struct described *d, const char *section, const char *name)
{
    for (uint32_t i = 0; i < d->n_files; i++) {
        struct yaml *y = yaml_get(yaml_get(d->files[i], section), name);
        if (y) return y;
    }
    return NULL;
}

struct place described_text_place(const struct described *d, uint32_t file, const struct yaml *y)
{
    struct place at = y->at;
    const char *line = (const char *)d->texts[file].data;                  /* a NUL follows: resource.h */
    at.line++;
    for (uint32_t k = 0; k < y->at.line && line; k++) if ((line = strchr(line, '\n'))) line++;
    at.column = 1 + (line ? (uint32_t)strspn(line, " ") : 0);
    return at;
}

/* ---- architectures ---- */

static bool is_name(const char *text, uint64_t size)
{
    for (uint64_t i = 0; i < size; i++) {
        const char c = text[i];
        const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
        if (!plain || size > 40) return false;
    }
    return true;
}

bool model_is_known(struct arena *a, const char *directory, const char *name)
{
    struct bytes text;
    return is_name(name, strlen(name)) && yaml_get(model_file(a, directory, name, &text), "architecture");
}

/* general.architecture, which becomes part of paths and of C names. */
static const char *read_architecture(struct arena *a, const struct gguf *g)
{
    struct gguf_string arch;
    if (!gguf_get_string(g, "general.architecture", &arch)) die("%s: the key general.architecture is missing", g->path);
    if (!is_name(arch.data, arch.size))
        die("%s: general.architecture is \"%s\", which is not an architecture's name", g->path, printable(a, arch.data, arch.size));
    return arena_strndup(a, arch.data, arch.size);
}

/* True if both have the same letters and digits. */
static bool sounds_like(const char *x, const char *y)
{
    for (;; x++, y++) {
        x += strspn(x, "-_");
        y += strspn(y, "-_");
        if (*x != *y || !*x) return *x == *y;
    }
}

_Noreturn static void unsupported(const struct described *d)
{
    struct text known = { .arena = d->arena };
    for (const char **n = model_names(d->arena, d->directory); *n; n++) {
        if (sounds_like(*n, d->architecture))
            die("%s: architecture \"%s\" is a form of its own of %s (ollama's library has such files), with other names of tensors; take"
                " a file of llama.cpp's form, or convert the model again with its converter", d->gguf->path, d->architecture, *n);
        text_printf(&known, "%s%s", known.size ? ", " : "", *n);
    }
    bool causal = true;
    gguf_get_bool(d->gguf, arena_printf(d->arena, "%s.attention.causal", d->architecture), &causal);
    die("%s: architecture \"%s\" is not supported%s; forgec knows %s", d->gguf->path, d->architecture,
        causal ? "" : ": it is an encoder (its attention sees later tokens)", text_str(&known));
}

void described_read(struct described *d)
{
    d->architecture = read_architecture(d->arena, d->gguf);
    d->files[0] = model_file(d->arena, d->directory, d->architecture, &d->texts[0]);
    const struct yaml *name = yaml_get(d->files[0], "architecture");
    if (!name) unsupported(d);
    if (strcmp(yaml_string(name), d->architecture))
        die_at(name->at, "the architecture is \"%s\" but the file is named after %s", yaml_string(name), d->architecture);
    read_files(d);
}

const char **model_names(struct arena *a, const char *directory)
{
    const char **names = resource_names(a, directory, "models/");
    size_t kept = 0;
    for (size_t i = 0; names[i]; i++) {
        struct bytes text;
        if (yaml_get(model_file(a, directory, names[i], &text), "architecture")) names[kept++] = names[i];
    }
    names[kept] = NULL;
    return names;
}
