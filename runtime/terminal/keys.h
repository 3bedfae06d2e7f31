/* keys.h -- the keyboard of a terminal: the terminal's mode during editing, and the meaning of its bytes. */
#ifndef FORGE_KEYS_H
#define FORGE_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A codepoint (including control characters), or one of these. */
enum {
    KEY_NONE = 0x200000,             /* no meaning */
    KEY_UP, KEY_DOWN, KEY_LEFT, KEY_RIGHT, KEY_HOME, KEY_END, KEY_DELETE, KEY_WORD_LEFT, KEY_WORD_RIGHT, KEY_DELETE_WORD, KEY_RUBOUT_WORD,
    KEY_NEWLINE,
    KEY_PASTE, KEY_PASTE_END,        /* between these two: pasted codepoints and '\n' */
    KEY_RESIZED, KEY_RESUMED,        /* the window has another size; the process continues after a stop */
    KEY_STOP,                        /* SIGTSTP was sent: the caller should call keys_stop() */
    KEY_ENDED,                       /* SIGTERM, SIGHUP or SIGQUIT: in keys->signal */
    KEY_EOF,                         /* the terminal is gone */
};

struct keys {
    unsigned char bytes[512];        /* [at .. n) read but not used; kept from one line to the next */
    size_t n, at;
    bool   pasting;
    int    signal;
};

/* Makes the terminal send keys as they are pressed, without echo, and turns signals into keys.  False: stdin is not a terminal.  Only
 * one at a time. */
bool keys_begin(struct keys *keys);
/* Restores the terminal. */
void keys_end(void);
/* Stops the process, like Ctrl-Z, with the terminal restored; returns when the process continues. */
void keys_stop(void);

/* Waits for the next key. */
uint32_t keys_next(struct keys *keys);
/* Has another key arrived already? */
bool keys_waiting(const struct keys *keys);

#endif
