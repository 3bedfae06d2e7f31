/* attention.h -- writes the text of attention kernels. */
#ifndef FORGEC_CPU_ATTENTION_H
#define FORGEC_CPU_ATTENTION_H
#include "writer.h"

void put_attention(struct cpu_writer *w);
/* The decode kernel that merges the parts of attention if ranges of positions were divided among threads. */
void put_attention_merge(struct cpu_writer *w);
#endif
