/* internal.h -- shared by the files that implement base.h; no other file includes it. */
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
/* Dies with "PATH: cannot ACTION: REASON" and a remedy. */
_Noreturn void die_errno(const char *path, const char *action, int error);
/* Reserves room for `more` bytes and the NUL after the text. */
void text_reserve(struct text *t, size_t more);
/* Makes a message safe to print, whatever a path or a value in it contains: invisible characters and invalid UTF-8 become '?'. In place. */
void make_one_line(char *s);
/* Removes the temporary files and frees their slots, so that the slots do not fill up when a test catches die(). */
void cleanup_run_and_forget(void);
/* Blocks the signals that end the process while a file is made or a set renamed. Returns the mask to restore. */
sigset_t signals_block(void);
#endif
