/* attention.h -- the text of attention's kernels. */
#ifndef FORGEC_CPU_ATTENTION_H
#define FORGEC_CPU_ATTENTION_H
#include "writer.h"

void put_attention(struct writer *w);
/* Decode's kernel that joins the parts of attention, where positions were shared out. */
void put_attention_merge(struct writer *w);
#endif
