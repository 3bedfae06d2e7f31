/* saved.h -- a conversation in a file: its messages, and the model's states for them. */
#ifndef FORGE_SAVED_H
#define FORGE_SAVED_H

#include "runtime/app/chat.h"

/* Is there something at path that is not a conversation?  Then it is not overwritten.  An empty file counts as nothing. */
bool saved_is_other(const char *path);

/* Writes the conversation.  After a failure the file is as before.  with_states: also the prompt cache, which is left out if the
 * sequence cannot be rewound to the tokens of the conversation.  FORGE_BAD_OUTPUT, FORGE_NO_MEMORY. */
enum forge_status saved_write(struct chat *chat, const char *path, bool with_states, struct forge_error *error);

/* Replaces the conversation by that of the file.  Its prompt cache is used if it is complete and this build wrote it; else *note is a
 * sentence that says why not, and the messages are read again with the next turn.  *note is "" otherwise.  FORGE_FAILED: the file is not
 * a conversation, or is damaged; nothing has changed. */
enum forge_status saved_read(struct chat *chat, const char *path, char note[256], struct forge_error *error);

/* The conversation of a file, checked completely except for the states. */
struct saved {
    struct message *messages;        /* [n_messages], from malloc */
    int32_t *held;                   /* [n_held], from malloc */
    size_t   n_messages, n_held;
    uint64_t build, state_bytes, state_hash;
    uint32_t n_written, slot, far;
    int32_t  pending;
};
/* bytes: [n] from the beginning of the file; file_bytes: size of the whole file.  False: it is damaged, or not a conversation. */
bool saved_parse(struct saved *saved, const uint8_t *bytes, size_t n, uint64_t file_bytes);
void saved_free(struct saved *saved);

#endif
