/* unread.h -- tensors of the file that the wiring does not read: drafts, towers, what the YAML leaves out, what the user ignores. Also
 * defines model_check_read of model.h. */
#ifndef FORGEC_UNREAD_H
#define FORGEC_UNREAD_H
#include "described.h"
#include "model.h"

/* Sets m->unread and adds to m->ignored. Warns about drafts, towers and what the user ignores. Dies if --ignore-tensor names no tensor. */
void unread_find(const struct described *d, struct model *m, const struct model_options *o);
#endif
