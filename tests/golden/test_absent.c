/* test_absent.c -- removes every key and every tensor of the test's models, one at a time.  Then forgec must refuse the file in one line
 * that names what is missing, or a table says what the model is without it (tests/data/absent.txt).
 *
 *   test_absent TABLE FILE.gguf...          fails if a model and the table differ, in either direction
 *   test_absent --write TABLE FILE.gguf...  prints the table of these models, with the meanings from TABLE
 *   test_absent - FILE.gguf...              without a table: checks only the messages of refused files
 *
 * Files are read up to the data of their tensors: nothing here depends on the data. */
#include "compiler/base/base.h"
#include "compiler/front/graph.h"
#include "compiler/front/model.h"
#include "compiler/product/vocab.h"
#include "tests/unit/die_capture.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum removal { KEY, ONE, ALL };        /* ONE: a tensor of one layer, or outside the layers; ALL: a tensor of all layers */
enum outcome { REFUSED, SAME, OTHER };
static const char *const removals[] = { [KEY] = "key", [ONE] = "one", [ALL] = "all" };
static const char *const outcomes[] = { [REFUSED] = "refused", [SAME] = "same", [OTHER] = "other" };

/* The outcome of one removal for one architecture.  In the table, arch "*" means all architectures that have the item. */
struct row { enum removal removal; enum outcome outcome; const char *item, *arch, *meaning; bool seen; uint32_t line; };
struct rows { struct row *all; uint32_t n, capacity; };

static struct arena *whole;            /* lives for the whole run */
static struct rows table, found;
static uint32_t n_tried, n_failed;
static bool quiet, untabled;

__attribute__((format(printf, 1, 2))) static void failed(const char *format, ...)
{
    va_list args;
    n_failed++;
    if (quiet) return;
    va_start(args, format);
    fputs("FAILED ", stdout);
    vprintf(format, args);
    putchar('\n');
    va_end(args);
}

static bool is_row(const struct row *r, enum removal removal, enum outcome outcome, const char *item, const char *arch)
{
    return r->removal == removal && r->outcome == outcome && strcmp(r->item, item) == 0 && (!arch || strcmp(r->arch, arch) == 0);
}

static struct row *row_find(struct rows *rows, enum removal removal, enum outcome outcome, const char *item, const char *arch)
{
    for (uint32_t i = 0; i < rows->n; i++) if (is_row(&rows->all[i], removal, outcome, item, arch)) return &rows->all[i];
    return NULL;
}

static void row_add(struct rows *rows, struct row row)
{
    arena_room(whole, rows->all, rows->n, rows->capacity);
    rows->all[rows->n++] = row;
}

/* ---- the table: lines REMOVAL | OUTCOME | ITEM | ARCHITECTURES | MEANING ---- */

static uint32_t word_of(const char *const *words, uint32_t n, const char *word, uint32_t line)
{
    for (uint32_t i = 0; i < n; i++) if (strcmp(words[i], word) == 0) return i;
    die("the table's line %u: %s is not a word of its column", line, word);
}

static void read_table(const char *path)
{
    char text[4096];
    FILE *f = fopen(path, "r");
    if (!f) die("%s cannot be opened", path);
    for (uint32_t line = 1; fgets(text, sizeof text, f); line++) {
        char *column[5], *p = text;
        if (*text == '#' || *text == '\n') continue;
        for (uint32_t i = 0; i < 5; i++) {
            char *bar = i < 4 ? strchr(p, '|') : strchr(p, '\n');
            if (!bar) die("%s:%u: five columns are needed", path, line);
            *bar = '\0';
            p += strspn(p, " ");
            for (char *end = bar; end > p && end[-1] == ' '; ) *--end = '\0';
            column[i] = arena_strdup(whole, p);
            p = bar + 1;
        }
        if (!*column[4]) die("%s:%u: what it means is needed", path, line);
        for (char *arch = strtok(column[3], " "); arch; arch = strtok(NULL, " "))
            row_add(&table, (struct row){ word_of(removals, 3, column[0], line), word_of(outcomes, 3, column[1], line), column[2], arch,
                                          column[4], false, line });
    }
    fclose(f);
}

/* ---- a model without something ---- */

struct file {
    const char        *path;           /* the file's name without folders */
    const uint8_t     *data;
    size_t             size;
    const struct gguf *g;
    const char        *arch;
    bool               drafts;         /* the MTP block is built too */
    bool               tokens;         /* has a tokenizer */
};
struct trial { bool refused; const char *text; };        /* the graph, the tokenizer's hash and some numbers; or the message */

static uint64_t sum_of(struct bytes b)                   /* FNV-1a */
{
    uint64_t h = 0xcbf29ce484222325;
    for (size_t i = 0; i < b.size; i++) h = (h ^ b.data[i]) * 0x100000001b3;
    return h;
}

static void describe(struct arena *a, struct text *out, const struct file *file, const uint8_t *data, size_t size)
{
    const struct gguf *g = gguf_parse(a, "model.gguf", data, size, true);
    const struct model *m = model_describe(a, g, &(struct model_options){ .drafts = file->drafts });
    graph_print(out, graph_build(a, m));
    text_printf(out, "%u %u %u %d\n", m->n_ctx_train, m->n_vocab, m->pooling, m->causal);
    if (file->tokens) text_printf(out, "%016llx\n", (unsigned long long)sum_of(vocab_build(a, g, m->n_vocab)));
}

static void silent(const char *message) { (void)message; }

static struct trial try(const struct file *file, const uint8_t *data, size_t size)
{
    static struct text out;
    struct arena *a = arena_create();
    out = (struct text){ .arena = a };
    warn_handler = silent;
    const bool refused = DIES(describe(a, &out, file, data, size));
    const struct trial t = { refused, strdup(refused ? die_text : text_str(&out)) };
    if (!t.text) die("out of memory");
    arena_destroy(a);
    return t;
}

/* ---- headers ---- */

static uint64_t tensor_end(const struct gguf_tensor *t) { return t->offset + 8 + strlen(t->name) + 4 + 8 * t->n_dims + 4 + 8; }

/* The header without one pair, or without the marked tensors; keys split.* are left out, because they hold the number of tensors. */
static uint8_t *header_without(const struct file *file, const struct gguf_pair *pair, const bool *dropped, size_t *size)
{
    const struct gguf *g = file->g;
    const uint64_t head = 24, infos = g->tensors[0].offset;
    uint8_t *out = malloc(file->size);
    uint64_t n_pairs = g->n_pairs, n_tensors = 0;
    size_t n = 0;
    if (!out) die("out of memory");
#define TAKE(from, to) do { memcpy(out + n, file->data + (from), (size_t)((to) - (from))); n += (size_t)((to) - (from)); } while (0)
    TAKE(0, head);
    for (uint64_t i = 0; i < g->n_pairs; i++) {
        if (&g->pairs[i] == pair || strncmp(g->pairs[i].key, "split.", 6) == 0) { n_pairs--; continue; }
        TAKE(g->pairs[i].offset, i + 1 < g->n_pairs ? g->pairs[i + 1].offset : infos);
    }
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        if (dropped && dropped[i]) continue;
        TAKE(g->tensors[i].offset, tensor_end(&g->tensors[i]));
        n_tensors++;
    }
#undef TAKE
    memcpy(out + 8, &n_tensors, 8);
    memcpy(out + 16, &n_pairs, 8);
    *size = n;
    return out;
}

/* ---- removals ---- */

/* "blk.3.attn_q.weight" becomes "blk.{l}.attn_q.weight", "llama.block_count" becomes "{arch}.block_count". */
static const char *item_of(const char *name, const char *arch)
{
    const size_t n = strlen(arch);
    if (strncmp(name, "blk.", 4) == 0) {
        const char *rest = name + 4 + strspn(name + 4, "0123456789");
        return arena_printf(whole, "blk.{l}%s", rest);
    }
    if (strncmp(name, arch, n) == 0 && name[n] == '.') return arena_printf(whole, "{arch}%s", name + n);
    const bool known = strncmp(name, "general.", 8) == 0 || strncmp(name, "tokenizer.", 10) == 0 || !strstr(name, ".");
    return known || strstr(name, ".weight") || strstr(name, ".bias") ? arena_strdup(whole, name) : "of another tool";
}

static bool names(const char *message, const char *name)
{
    for (const char *p = message; (p = strstr(p, name)); p++) {
        const char after = p[strlen(name)];
        if (!isalnum((unsigned char)after) && after != '_' && (after != '.' || !isalnum((unsigned char)p[strlen(name) + 1]))) return true;
    }
    return false;
}

/* The key's name without the prefix of the architecture: a message may name it either way. */
static const char *short_name(const char *name, const char *arch)
{
    const size_t n = strlen(arch);
    return strncmp(name, arch, n) == 0 && name[n] == '.' ? name + n + 1 : name;
}

/* Compares an outcome with the table.  A refusal must name `name`, or `other`, the same tensor of another layer. */
static void judge(const struct file *file, enum removal removal, const char *name, const char *other, struct trial is, const char *was)
{
    const char *item = item_of(name, file->arch);
    const enum outcome outcome = is.refused ? REFUSED : strcmp(is.text, was) == 0 ? SAME : OTHER;
    n_tried++;
    if (!row_find(&found, removal, outcome, item, file->arch))
        row_add(&found, (struct row){ removal, outcome, item, file->arch, NULL, false, 0 });
    if (outcome == REFUSED) {
        if (!names(is.text, short_name(name, file->arch)) && !names(is.text, other))
            failed("%s without %s is refused for something else: %s", file->path, name, is.text);
        if (strchr(is.text, '\n') || strstr(is.text, "yaml:"))
            failed("%s without %s: the message is not a single line about the file: %s", file->path, name, is.text);
        if (row_find(&table, removal, SAME, item, "*") || row_find(&table, removal, OTHER, item, "*"))
            failed("%s without %s is refused, which the table says of no model: %s", file->path, name, is.text);
        return;
    }
    struct row *row = row_find(&table, removal, outcome, item, file->arch);
    if (!row) row = row_find(&table, removal, outcome, item, "*");
    if (row) row->seen = true;
    else if (!untabled)
        failed("%s without %s%s is %s model, and the table has no such line: %s | %s | %s | %s", file->path, name,
               removal == ALL ? " in any layer" : "", outcome == SAME ? "the same" : "another", removals[removal], outcomes[outcome], item,
               file->arch);
}

static void without(const struct file *file, enum removal removal, const struct gguf_pair *pair, const bool *dropped, const char *name,
                    const char *other, const char *was)
{
    size_t size;
    uint8_t *data = header_without(file, pair, dropped, &size);
    const struct trial is = try(file, data, size);
    judge(file, removal, name, other, is, was);
    free((char *)(uintptr_t)is.text);
    free(data);
}

/* Removes a tensor from its first layer, then from its last, then from all. */
static void without_tensor(const struct file *file, uint64_t first, bool *done, const char *was)
{
    const struct gguf *g = file->g;
    bool *one = calloc(g->n_tensors, 1), *all = calloc(g->n_tensors, 1);
    const char *item = item_of(g->tensors[first].name, file->arch);
    uint64_t last = first;
    if (!one || !all) die("out of memory");
    for (uint64_t i = first; i < g->n_tensors; i++)
        if (strcmp(item_of(g->tensors[i].name, file->arch), item) == 0) { all[i] = done[i] = true; last = i; }
    const char *name = g->tensors[first].name, *other = g->tensors[last].name;
    without(file, ALL, NULL, all, name, other, was);
    if (last != first) {
        one[first] = true;
        without(file, ONE, NULL, one, name, name, was);
        one[first] = false;
        one[last] = true;
        without(file, ONE, NULL, one, other, other, was);
    }
    free(one);
    free(all);
}

static void sweep(const char *path)
{
    struct file file = { .path = strrchr(path, '/') ? strrchr(path, '/') + 1 : path, .drafts = true };
    const struct bytes bytes = file_read(whole, path);
    struct gguf_string arch;
    file.data = bytes.data;
    file.size = bytes.size;
    file.g = gguf_parse(whole, path, file.data, file.size, true);
    gguf_get_string(file.g, "general.architecture", &arch);
    file.arch = arena_strndup(whole, arch.data, arch.size);
    struct trial was = try(&file, file.data, file.size);
    if (was.refused) {
        file.drafts = false;
        was = try(&file, file.data, file.size);
    }
    if (was.refused && !untabled) failed("%s is refused as it is: %s", path, was.text);
    if (was.refused) return;                     /* key sets that forgec does not support: test_real.c checks the message */
    bool *done = arena_array(whole, bool, file.g->n_tensors);
    for (uint64_t i = 0; i < file.g->n_pairs; i++) {
        const char *key = file.g->pairs[i].key;
        file.tokens = strncmp(key, "tokenizer.ggml.", 15) == 0 && vocab_build(whole, file.g, 0).size > 0;
        if (strncmp(key, "split.", 6) == 0) continue;
        const bool asks = file.tokens || strncmp(key, "tokenizer.", 10) || strstr(key, "token_type_count");
        const struct trial with = file.tokens ? try(&file, file.data, file.size) : was;
        if (asks) without(&file, KEY, &file.g->pairs[i], NULL, key, key, with.text);
    }
    file.tokens = false;
    for (uint64_t i = 0; i < file.g->n_tensors; i++) if (!done[i]) without_tensor(&file, i, done, was.text);
}

/* ---- the whole table ---- */

static int by_item(const void *x, const void *y)
{
    const struct row *a = x, *b = y;
    if ((a->removal == KEY) != (b->removal == KEY)) return a->removal == KEY ? -1 : 1;
    int order = strcmp(a->item, b->item);
    if (!order) order = (int)a->removal - (int)b->removal;
    if (!order) order = (int)a->outcome - (int)b->outcome;
    return order ? order : strcmp(a->arch, b->arch);
}

/* Is the outcome of this removal the same for all models? */
static bool is_everywhere(const struct row *r)
{
    for (uint32_t i = 0; i < found.n; i++) {
        const struct row *other = &found.all[i];
        if (other->removal == r->removal && other->outcome != r->outcome && strcmp(other->item, r->item) == 0) return false;
    }
    return true;
}

static void write_table(void)
{
    qsort(found.all, found.n, sizeof *found.all, by_item);
    for (uint32_t i = 0, end; i < found.n; i = end) {
        const struct row *r = &found.all[i];
        for (end = i; end < found.n && is_row(&found.all[end], r->removal, r->outcome, r->item, NULL); ) end++;
        if (r->outcome == REFUSED) continue;
        struct text archs = { .arena = whole };
        for (uint32_t k = i; k < end; k++) text_printf(&archs, "%s%s", k > i ? " " : "", found.all[k].arch);
        const struct row *old = row_find(&table, r->removal, r->outcome, r->item, NULL);
        printf("%s | %-5s | %s | %s | %s\n", removals[r->removal], outcomes[r->outcome], r->item,
               is_everywhere(r) && end - i > 1 ? "*" : text_str(&archs), old ? old->meaning : "?");
    }
}

int main(int argc, char **argv)
{
    const bool write = argc > 1 && strcmp(argv[1], "--write") == 0;
    if (argc < 3 + write) { fprintf(stderr, "usage: test_absent [--write] TABLE|- FILE.gguf...\n"); return 2; }
    whole = arena_create();
    quiet = write;
    untabled = strcmp(argv[1 + write], "-") == 0;
    if (!untabled) read_table(argv[1 + write]);
    for (int i = 2 + write; i < argc; i++) sweep(argv[i]);
    for (uint32_t i = 0; i < table.n; i++)
        if (!table.all[i].seen)
            failed("the table's line %u, %s | %s | %s: no model of %s is so", table.all[i].line, removals[table.all[i].removal],
                   outcomes[table.all[i].outcome], table.all[i].item, table.all[i].arch);
    if (write) { write_table(); return 0; }
    printf("%u removals from %d models, %u failed\n", n_tried, argc - 2 - write, n_failed);
    return n_failed != 0;
}
