/* table.h -- a table in Markdown with columns that are aligned in a terminal too. */
#ifndef FORGEC_TABLE_H
#define FORGEC_TABLE_H
#include "compiler/base/base.h"

struct table {
    struct arena *arena;
    uint32_t      n_columns;
    const char  **cells;              /* [n_cells], row by row; the first row is the head */
    uint32_t      n_cells, capacity;
};
/* heads: n_columns words; a leading '>' aligns the column's cells to the right. */
struct table table_of(struct arena *a, const char *const *heads, uint32_t n_columns);
/* Adds the next cell, row by row. */
void table_cell(struct table *t, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Prints to stdout; `|` in a cell becomes `\|`. */
void table_print(const struct table *t);
#endif
