/* put_attention.c -- attention, and the heads that a projection left for it. */
#include "put.h"
void web_put_heads(struct writer *w) { die("%s", w->kernel->name); }
void web_put_attention(struct writer *w) { die("%s", w->kernel->name); }
void web_put_store(struct writer *w) { die("%s", w->kernel->name); }
