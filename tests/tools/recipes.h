/* recipes.h -- shapes of models that are no llama with other numbers: keys and tensors as text. */
#ifndef RECIPES_H
#define RECIPES_H
#include <stdbool.h>
#include <stdint.h>

/* keys: lines KEY=VALUE; "%" at the beginning is the architecture.  VALUE as --key takes it, or [a,b,...]: an array, repeated over the
 * layers where it is shorter.
 * tensors: lines NAME SIZE [FORMAT] [FILL] [@LAYERS].  A NAME with "*" is one tensor for each layer.  SIZE is COLS, COLSxROWS or
 * COLSxROWSxEXPERTS; V is the vocabulary.  FORMAT: F32 where no format of --type is meant.  FILL of a vector, or of F32 rows: norm
 * (around 1, the default), bias (around 0) or decay (below 0); of a matrix small (weights a 32nd of the usual ones) or, F32, eye (1 in
 * column r of row r, else 0).  LAYERS: 3%4 those with l % 4 = 3, !3%4 all others, <2 or >1 as it says. */
struct recipe {
    const char *name, *arch;
    uint32_t    n_layer, n_vocab, n_head, n_head_kv;
    bool        tied;
    const char *keys, *tensors;
};
extern const struct recipe recipes[];
extern const uint32_t n_recipes;
/* Models that tests hold against another implementation's logits (tests/data/golden/tiny.json): a change of one changes that data. */
extern const struct recipe tiny_recipes[];
extern const uint32_t n_tiny_recipes;

enum recipe_fill { RECIPE_WEIGHTS, RECIPE_NORM, RECIPE_BIAS, RECIPE_DECAY, RECIPE_SMALL, RECIPE_EYE };
struct recipe_tensor { char name[80], role[80]; int64_t layer; uint64_t cols, rows, slices; bool f32; enum recipe_fill fill; };

/* The next line of *text as a tensor of that layer (-1: outside the layers); false at the end.  *wanted: whether it stands there at all.
 * Prints what is wrong with the recipe and exits with 1. */
bool recipe_tensor(const struct recipe *r, uint32_t n_vocab, const char **text, int64_t layer, struct recipe_tensor *t, bool *wanted);
#endif
