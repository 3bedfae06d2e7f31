/* matrix.h -- the rows of tests/matrix.def and the models they name, for test_golden.c and test_matrix.c. */
#ifndef FORGEC_TESTS_MATRIX_H
#define FORGEC_TESTS_MATRIX_H
#include "compiler/base/base.h"
#include "compiler/build/spawn.h"
#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum tier { DEFAULT, TURN, FULL };

struct matrix_target { const char *name, *description, *room; bool covered; };
static const struct matrix_target matrix_targets[] = {
#define TARGET(name, description, room, covered) { name, description, #room, covered },
#include "tests/matrix.def"
};

struct matrix_row { const char *test, *how, *models, *target, *fuse, *mode, *cache; uint32_t tokens; enum tier tier; };
static const struct matrix_row matrix_rows[] = {
#define ROW(test, how, models, target, fuse, mode, cache, tokens, tier) { test, how, models, target, fuse, mode, cache, tokens, tier },
#include "tests/matrix.def"
};

static inline const struct matrix_target *matrix_target(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(matrix_targets); i++)
        if (strcmp(matrix_targets[i].name, name) == 0) return &matrix_targets[i];
    die("tests/matrix.def: no TARGET is called %s", name);
}

/* Is the word "both" or the value itself? */
static inline bool matrix_has(const char *word, const char *value) { return strcmp(word, "both") == 0 || strcmp(word, value) == 0; }

/* A model of a manifest.  each: the model with a matrix in every format; make_gguf writes it, and no manifest has it. */
struct matrix_model { const char *id, *set, *data; const cJSON *entry; };
struct matrix_models { const struct matrix_model *models; uint32_t n; };

/* The models of the sets models, quants, architectures, tiny and real, from data[i]/manifest.json, and the model "each". */
static inline struct matrix_models matrix_models(struct arena *a, const char *const *data, size_t n_data)
{
    static const char *const sets[] = { "models", "quants", "architectures", "tiny", "real" };
    enum { MOST = 256 };
    struct matrix_model *m = arena_array(a, struct matrix_model, MOST);
    uint32_t n = 0;
    m[n++] = (struct matrix_model){ .id = "each", .set = "each" };
    for (size_t d = 0; d < n_data; d++) {
        const struct bytes text = file_read(a, arena_printf(a, "%s/manifest.json", data[d]));
        const cJSON *manifest = cJSON_ParseWithLength((const char *)text.data, text.size), *o;
        if (!manifest) die("%s/manifest.json is not JSON", data[d]);
        for (size_t s = 0; s < COUNT_OF(sets); s++)
            cJSON_ArrayForEach(o, cJSON_GetObjectItemCaseSensitive(manifest, sets[s])) {
                if (n == MOST) die("%s/manifest.json: more than %d models", data[d], MOST);
                m[n++] = (struct matrix_model){ cJSON_GetObjectItemCaseSensitive(o, "id")->valuestring, sets[s], data[d], o };
            }
    }
    return (struct matrix_models){ m, n };
}

/* Writes the model "each".  Rows of 256 columns: a block of any format.  The matrices of four layers and two more take all formats in
 * turn. */
static inline void matrix_make_each(struct arena *a, const char *make_gguf, const char *path)
{
    const char *argv[] = { make_gguf, "--each", "--layers", "4", "--vocab", "512", "--embd", "256", "--ff", "256", "--heads", "4",
                           "--kv-heads", "2", "--head-dim", "64", "--ctx", "128", "--untied", "--tokenizer", "none", "-o", path, NULL };
    struct spawn_job job = { .argv = argv };
    spawn_run(a, &(struct spawn_options){ .jobs = 1 }, &job, 1);
    if (job.status != 0) die("%s: %s", make_gguf, job.messages ? job.messages : "it failed");
}

/* Is the model one of the words, which are ids and @SET? */
static inline bool matrix_names(const char *words, const struct matrix_model *m)
{
    for (const char *at = words; *at;) {
        const size_t n = strcspn(at, " ");
        const char *want = *at == '@' ? m->set : m->id, *word = *at == '@' ? at + 1 : at;
        const size_t length = n - (size_t)(word - at);
        if (strlen(want) == length && memcmp(want, word, length) == 0) return true;
        at += n + strspn(at + n, " ");
    }
    return false;
}
#endif
