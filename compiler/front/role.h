/* role.h -- tensor roles: what a tensor of the file is for the wiring. role.c reads them from the YAML, bind.c finds their tensors, and
 * absent.c judges what is absent. */
#ifndef FORGEC_ROLE_H
#define FORGEC_ROLE_H
#include "described.h"
#include "model.h"

/* The effect of an absent tensor whose line in the wiring could work without it. */
enum absence { ABSENT_NEVER, ABSENT_EVERYWHERE, ABSENT_ANYWHERE };

struct role {
    const char       *name;
    struct place      at;
    const char       *pattern;        /* tensor name with {l} */
    const char       *dims[3];
    uint32_t          n_dims;
    const struct yaml *rows;          /* {every:, first:}: rows of the tensor, or NULL: all rows */
    const struct yaml *row;           /* for a vector that is one row of a matrix: that row, or NULL */
    const struct yaml *part_of;       /* if the tensor is absent: rows of another tensor, or NULL */
    bool              in_layer;
    enum absence      absence;        /* "optional" */
    const char       *where;          /* role or parameter that decides whether it must be present, or NULL */
    const char       *alternative;    /* role used instead if it is absent ("else"), or NULL */
    const char      **fused;          /* names with {l} of fused tensors that may contain its rows, NULL-terminated; or NULL */
    struct weight   **weights;        /* [n_described] or [1]; NULL entries where absent */
    bool             *asked;          /* like weights: a line of the wiring that may do without it names it */
};

/* Reads the roles of all files into m->roles, with room for the scales that roles_bind adds, and checks every dimension and every entry of
 * `fused`. Dies at the place of a mistake in the YAML, also if no file has the tensor. */
void         roles_read(struct described *d, struct model *m);
/* NULL: there is no such role. */
struct role *role_find(const struct model *m, const char *name);
/* The value of a text such as "n_embd" or "2 * n_ff" in a layer; NO_LAYER: the value that all layers share. Dies at `at`. */
uint64_t     role_dimension(const struct model *m, struct place at, const char *text, uint32_t layer);

/* bind.c: sets m->weights and the weights of every role; NULL where the file lacks the tensor. Dies naming a tensor of another shape, or of
 * a format that its place cannot have. */
void         roles_bind(struct described *d, struct model *m);
#endif
