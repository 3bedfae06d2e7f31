/* keys.h -- the keyboard of a terminal: its mode while somebody edits, and what its bytes mean. */
#ifndef FORGE_KEYS_H
#define FORGE_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A codepoint, control characters as they are, or one of these. */
enum {
    KEY_NONE = 0x200000,             /* means nothing */
    KEY_UP, KEY_DOWN, KEY_LEFT, KEY_RIGHT, KEY_HOME, KEY_END, KEY_DELETE, KEY_WORD_LEFT, KEY_WORD_RIGHT, KEY_DELETE_WORD, KEY_RUBOUT_WORD,
    KEY_NEWLINE,
    KEY_PASTE, KEY_PASTE_END,        /* what comes between them was pasted: codepoints and '\n' */
    KEY_RESIZED, KEY_RESUMED,        /* the window has another size; the process goes on after it was stopped */
    KEY_STOP,                        /* somebody sent SIGTSTP; keys_stop() does it */
    KEY_ENDED,                       /* SIGTERM, SIGHUP or SIGQUIT: keys->signal */
    KEY_EOF,                         /* the terminal has gone */
};

struct keys {
    unsigned char bytes[512];        /* [at .. n) read and not used; they stay from one line to the next */
    size_t n, at;
    bool   pasting;
    int    signal;
};

/* The terminal sends keys as they are pressed and echoes none, and signals become keys; false: stdin is no terminal.  One at a time. */
bool keys_begin(struct keys *keys);
/* As it was before. */
void keys_end(void);
/* Stops the process, as Ctrl-Z does, with the terminal as it was; comes back when it goes on. */
void keys_stop(void);

/* The next key; waits for it. */
uint32_t keys_next(struct keys *keys);
/* Has another one come already? */
bool keys_waiting(const struct keys *keys);

#endif
