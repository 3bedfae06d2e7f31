/* family.c -- see family.h. */
#include "family.h"

#define THINK(begin, end) .think = { begin, end }
static const struct chat_family families[] = {
#define CHAT_FAMILY(id, ...) { .name = #id, __VA_ARGS__ },
#include "family.def"
#undef CHAT_FAMILY
};

const struct chat_family *chat_family(uint32_t i) { return &families[i < CHAT_N_FAMILIES ? i : 0]; }
