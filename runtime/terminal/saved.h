/* saved.h -- a conversation in a file: its messages, and what the model remembers of them. */
#ifndef FORGE_SAVED_H
#define FORGE_SAVED_H

#include "runtime/app/chat.h"

/* Is there something at path that is no conversation?  Then it is not replaced.  An empty file is nothing. */
bool saved_is_other(const char *path);

/* The file is whole or as it was before.  with_states: the prompt cache, too; it is left out where the sequence cannot go back to what the
 * conversation has.  FORGE_BAD_OUTPUT, FORGE_NO_MEMORY. */
enum forge_status saved_write(struct chat *chat, const char *path, bool with_states, struct forge_error *error);

/* The conversation becomes that of the file.  Its prompt cache is taken where this build wrote it and it is whole; *note is a sentence
 * where not, else "": the messages are then read again with the next turn.  FORGE_FAILED: the file is none, or damaged, and nothing has
 * changed. */
enum forge_status saved_read(struct chat *chat, const char *path, char note[256], struct forge_error *error);

/* The conversation of a file, checked from its first to its last byte but for the states. */
struct saved {
    struct message *messages;        /* [n_messages] from malloc */
    int32_t *held;                   /* [n_held] from malloc */
    size_t   n_messages, n_held;
    uint64_t build, state_bytes, state_hash;
    uint32_t n_written, slot;
    int32_t  pending;
};
/* bytes: from the beginning of the file; file_bytes: of all of it.  False: it is damaged, or none. */
bool saved_parse(struct saved *saved, const uint8_t *bytes, size_t n, uint64_t file_bytes);
void saved_free(struct saved *saved);

#endif
