/* absent.h -- what a file lacks: keys that a default replaces, and tensors that the wiring names. Also defines model_made_of,
 * model_untold_draft, model_ask and model_check_layers of model.h. */
#ifndef FORGEC_ABSENT_H
#define FORGEC_ABSENT_H
#include "role.h"

/* Sets param.absent of every parameter. */
void        absent_keys(const struct described *d, struct model *m);
/* " (with the default of KEY)" if the shape of the role, or of other roles in the same tensor (whole: it has a tensor of its own), depends
 * on such a default; else "". */
const char *absent_default(const struct described *d, const struct model *m, const struct role *r, bool whole);
/* Checks the roles outside the layers that depend on another role: some builds may not read them. Dies naming the missing tensor. */
void        absent_check_pairs(const struct described *d, const struct model *m);
#endif
