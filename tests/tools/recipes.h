/* recipes.h -- models that differ from llama by more than sizes: keys and tensors as text. */
#ifndef RECIPES_H
#define RECIPES_H
#include <stdbool.h>
#include <stdint.h>

/* keys: lines KEY=VALUE; "%" at the beginning is the architecture.  VALUE as for --key.
 * tensors: lines NAME SIZE [FORMAT] [FILL] [@LAYERS].  A NAME with "*" is one tensor for each layer.  SIZE is COLS, COLSxROWS or
 * COLSxROWSxEXPERTS; V is the vocabulary.  FORMAT: F32 if the format must not depend on --type.  FILL of a vector or of F32 rows: norm
 * (around 1, the default), bias (around 0) or decay (below 0); FILL of a matrix: small (weights are 1/32 of the usual) or, for F32, decay
 * or eye (1 in column r of row r, else 0).  LAYERS: 3%4: layers with l % 4 = 3; !3%4: all others; <2 or >1: l < 2 or l > 1. */
struct recipe {
    const char *name, *arch;
    uint32_t    n_layer, n_vocab, n_head, n_head_kv;
    bool        tied;
    const char *keys, *tensors;
};
extern const struct recipe recipes[];
extern const uint32_t n_recipes;
/* Models that tests compare with another implementation's logits (tests/data/tiny): a change of a recipe changes that data. */
extern const struct recipe tiny_recipes[];
extern const uint32_t n_tiny_recipes;

/* Key sets of real files (real.txt in keys.tar.xz explains the lines).  real_recipe: the model of that name, valid until the
 * next call.  real_next: the name of the model after `after` (NULL: of the first), or NULL after the last.  An error is printed and ends
 * the program. */
const struct recipe *real_recipe(const char *path, const char *name);
const char *real_next(const char *path, const char *after);

enum recipe_fill { RECIPE_WEIGHTS, RECIPE_NORM, RECIPE_BIAS, RECIPE_DECAY, RECIPE_SMALL, RECIPE_EYE };
struct recipe_tensor { char name[80], role[80]; int64_t layer; uint64_t cols, rows, slices; bool f32; enum recipe_fill fill; };

/* Parses the next line of *text as a tensor of that layer (-1: outside the layers); false: the text ends.  *wanted: whether the layer has
 * the tensor.  If the recipe is wrong, prints why and exits with 1. */
bool recipe_tensor(const struct recipe *r, uint32_t n_vocab, const char **text, int64_t layer, struct recipe_tensor *t, bool *wanted);
#endif
