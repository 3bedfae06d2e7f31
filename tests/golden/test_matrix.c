/* test_matrix.c -- the default tier of tests/matrix.def covers every pair of (operation, target), (format, target) and (mode, target).
 *
 *   test_matrix MAKE_GGUF WORK DATA...    WORK: a folder for the model "each"; DATA: folders with a manifest.json
 *
 * The operations of a model's graph and the formats of its matrices are read from its file.  Every format of format.def must be covered,
 * and every operation that a model has.  `kernels` rows count for formats.  Prints the number of rows and programs of each target. */
#include "compiler/front/graph.h"
#include "tests/golden/matrix.h"
#include <stdio.h>
#include <stdlib.h>

static const char *const formats[] = {
#define QUANT(name, ...) #name,
#include "compiler/format/format.def"
};
static const char *const modes[] = { "exact", "default" };

enum { OPS = OP_COUNT, FORMATS = COUNT_OF(formats), MODES = COUNT_OF(modes), FACTS = OPS + FORMATS + MODES };

/* The features that a program executes: operations, then formats, then modes. */
struct facts { bool has[FACTS]; };

static uint32_t n_failed;

static const char *fact_name(struct arena *a, size_t f)
{
    if (f < OPS) return arena_printf(a, "operation %s", op_info[f].name);
    return f < OPS + FORMATS ? arena_printf(a, "format %s", formats[f - OPS]) : arena_printf(a, "mode %s", modes[f - OPS - FORMATS]);
}

static struct facts facts_of(struct arena *a, const char *path)
{
    struct facts facts = { 0 };
    const struct graph *g = graph_build(a, model_describe(a, gguf_open(a, path, false), &(struct model_options){ 0 }));
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const struct weight *w = g->nodes[i]->weight;
        facts.has[g->nodes[i]->op] = true;
        for (size_t f = 0; w && !w->is_vector && f < FORMATS; f++)
            facts.has[OPS + f] |= strcmp(formats[f], w->tensor->quant->name) == 0;
    }
    return facts;
}

/* Every word of the row is a model or a set. */
static void check_words(struct arena *a, const struct matrix_row *row, const struct matrix_models *all)
{
    for (const char *at = row->models; *at;) {
        const size_t n = strcspn(at, " ");
        const char *word = arena_strndup(a, at, n);
        bool known = false;
        for (uint32_t i = 0; i < all->n; i++) known |= matrix_names(word, &all->models[i]);
        if (!known) printf("FAILED %s: no manifest has %s\n", row->test, word);
        n_failed += !known;
        at += n + strspn(at + n, " ");
    }
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fputs("usage: test_matrix MAKE_GGUF WORK DATA...\n", stderr);
        return 2;
    }
    struct arena *a = arena_create();
    const char *each = arena_printf(a, "%s/each.gguf", argv[2]);
    const struct matrix_models all = matrix_models(a, (const char *const *)argv + 3, (size_t)argc - 3);
    struct facts *facts = arena_array(a, struct facts, all.n), wanted = { 0 };
    matrix_make_each(a, argv[1], each);
    for (uint32_t i = 0; i < all.n; i++) {
        const struct matrix_model *m = &all.models[i];
        const char *file = m->entry ? cJSON_GetObjectItemCaseSensitive(m->entry, "model")->valuestring : "";
        facts[i] = facts_of(a, m->entry ? arena_printf(a, "%s/%s", m->data, file) : each);
        for (size_t f = 0; f < OPS; f++) wanted.has[f] |= facts[i].has[f];
    }
    for (size_t f = OPS; f < FACTS; f++) wanted.has[f] = true;

    for (size_t i = 0; i < COUNT_OF(matrix_rows); i++) check_words(a, &matrix_rows[i], &all);
    for (size_t t = 0; t < COUNT_OF(matrix_targets); t++) {
        const struct matrix_target *target = &matrix_targets[t];
        struct facts seen = { 0 };
        uint32_t n_programs = 0, n_rows = 0;
        for (size_t r = 0; r < COUNT_OF(matrix_rows); r++) {
            const struct matrix_row *row = &matrix_rows[r];
            const bool kernels = strcmp(row->how, "kernels") == 0;
            if (row->tier == FULL || strcmp(row->target, target->name)) continue;
            n_rows++;
            for (uint32_t i = 0; i < all.n; i++) {
                if (!matrix_names(row->models, &all.models[i])) continue;
                n_programs += kernels ? 0 : (strcmp(row->fuse, "both") ? 1u : 2u) * (strcmp(row->mode, "both") ? 1u : 2u);
                for (size_t f = 0; f < OPS + FORMATS; f++) seen.has[f] |= facts[i].has[f] && (f >= OPS || !kernels);
            }
            for (size_t m = 0; m < MODES; m++) seen.has[OPS + FORMATS + m] |= matrix_has(row->mode, modes[m]);
        }
        uint32_t n_covered = 0, n_wanted = 0;
        for (size_t f = 0; f < FACTS; f++) {
            n_wanted += wanted.has[f];
            n_covered += wanted.has[f] && seen.has[f];
            if (!target->covered || !wanted.has[f] || seen.has[f]) continue;
            printf("FAILED tests/matrix.def: no row of the default tier has %s on %s\n", fact_name(a, f), target->name);
            n_failed++;
        }
        printf("%-14s %2u rows, %2u programs, %u of %u operations, formats and modes\n", target->name, n_rows, n_programs, n_covered,
               n_wanted);
    }
    remove(each);
    arena_destroy(a);
    return n_failed != 0;
}
