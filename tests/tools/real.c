/* real.c -- reads real.txt of tests/data/real/keys.tar.xz: the keys and tensors of public files, at toy size. */
#include "recipes.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ITEM = 400, TEXT = 1 << 15, DEPTH = 4 };

static char *file_text(const char *path)
{
    static char *text;
    static const char *read;
    if (read && strcmp(read, path) == 0) return text;
    FILE *f = fopen(path, "rb");
    enum { MOST = 1 << 20 };
    text = calloc(1, MOST);
    if (!f || !text || fread(text, 1, MOST - 1, f) == 0 || fclose(f)) {
        fprintf(stderr, "make_gguf: cannot read %s\n", path);
        exit(1);
    }
    read = path;
    return text;
}

/* The next item after *at; items are separated by lines and semicolons.  Skips comments and lines "from ...".  False: the text ends. */
static bool next_item(const char **at, char *item)
{
    for (;;) {
        *at += strspn(*at, " \n;");
        if (!**at) return false;
        const bool text = **at == '#' || strncmp(*at, "from ", 5) == 0;
        size_t n = strcspn(*at, text ? "\n" : "\n;");
        const char *from = *at;
        *at += n;
        if (text) continue;
        while (n && from[n - 1] == ' ') n--;
        if (n >= ITEM) { fprintf(stderr, "make_gguf: \"%.60s...\" is too long\n", from); exit(1); }
        memcpy(item, from, n);
        item[n] = 0;
        return true;
    }
}

static bool is_head(const char *item) { return strncmp(item, "model ", 6) == 0 || strncmp(item, "set ", 4) == 0; }

static void append(char *to, const char *line, const char *name)
{
    const size_t n = strlen(to);
    if (n + strlen(line) + 2 > TEXT) { fprintf(stderr, "make_gguf: %s has too much\n", name); exit(1); }
    sprintf(to + n, "%s\n", line);
}

/* Appends the items from `at` up to the next head, and the items of the sets that they use. */
static void expand(const char *text, const char *at, struct recipe *r, char *keys, char *tensors, int depth)
{
    char item[ITEM], head[ITEM], name[ITEM];
    while (next_item(&at, item) && !is_head(item)) {
        if (strncmp(item, "use ", 4) == 0) {
            if (depth == DEPTH) { fprintf(stderr, "make_gguf: %s: sets use each other\n", r->name); exit(1); }
            for (const char *p = item + 4; sscanf(p, "%s", name) == 1; p += strspn(p, " ") + strlen(name)) {
                const char *set = text;
                bool found = false;
                while (!found && next_item(&set, head)) found = strncmp(head, "set ", 4) == 0 && strcmp(head + 4, name) == 0;
                if (!found) { fprintf(stderr, "make_gguf: %s uses %s, which is no set\n", r->name, name); exit(1); }
                expand(text, set, r, keys, tensors, depth + 1);
            }
        }
        else if (strchr(item, '=') || strncmp(item, "tokenizer ", 10) == 0) append(keys, item, r->name);
        else if (strncmp(item, "refused ", 8)) append(tensors, item, r->name);
    }
}

const struct recipe *real_recipe(const char *path, const char *name)
{
    static struct recipe r;
    static char keys[TEXT], tensors[TEXT], model[64], arch[64];
    const char *text = file_text(path), *at = text;
    char item[ITEM];
    unsigned n_layer, n_vocab;
    while (next_item(&at, item)) {
        if (strncmp(item, "model ", 6)) continue;
        if (sscanf(item, "model %63s %63s %u %u", model, arch, &n_layer, &n_vocab) != 4) {
            fprintf(stderr, "make_gguf: \"%s\": no NAME ARCHITECTURE LAYERS TOKENS\n", item);
            exit(1);
        }
        if (strcmp(model, name)) continue;
        r = (struct recipe){ .name = model, .arch = arch, .n_layer = n_layer, .n_vocab = n_vocab, .n_head = 4, .n_head_kv = 2 };
        keys[0] = tensors[0] = 0;
        expand(text, at, &r, keys, tensors, 0);
        r.keys = keys;
        r.tensors = tensors;
        r.tied = strstr(tensors, "\noutput.weight ") == NULL;
        return &r;
    }
    fprintf(stderr, "make_gguf: %s has no model %s\n", path, name);
    exit(1);
}

const char *real_next(const char *path, const char *after)
{
    static char name[64];
    char item[ITEM];
    const char *at = file_text(path);
    bool is_next = after == NULL;
    while (next_item(&at, item)) {
        if (strncmp(item, "model ", 6)) continue;
        char found[64] = "";
        sscanf(item, "model %63s", found);
        if (is_next) return strcpy(name, found);
        is_next = strcmp(found, after) == 0;
    }
    return NULL;
}
