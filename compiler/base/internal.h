/* internal.h -- what the files behind base.h share; nobody else includes it. */
#ifndef FORGEC_BASE_INTERNAL_H
#define FORGEC_BASE_INTERNAL_H
#include <signal.h>

#include "base.h"

struct known_file {                 /* an input or an announced output */
    struct known_file *next;
    const char        *path;
};

struct arena {
    struct chunk      *head;        /* allocations come from here; the others are full or hold one large block */
    size_t             next_size;
    struct known_file *inputs, *outputs;
};

_Noreturn void die_memory(size_t bytes);
/* PATH: cannot ACTION: the reason, and what can be done about it. */
_Noreturn void die_errno(const char *path, const char *action, int error);
/* Room for `more` bytes and the NUL behind the text. */
void text_reserve(struct text *t, size_t more);
/* Shows what it says, whatever a path or a value contains: what is not visible, and wrong UTF-8, become '?'.  In place. */
void make_one_line(char *s);
/* Removes the temporaries.  After a death that a test caught, their slots must not fill up. */
void cleanup_run_and_forget(void);
/* Signals that end the process wait while a file is made or a set renamed; returns what to restore. */
sigset_t signals_block(void);
#endif
