/* chat.h -- a conversation: its messages, the tokens that the model has read, and one turn. */
#ifndef FORGE_CHAT_H
#define FORGE_CHAT_H

#include "runtime/run/session.h"

struct json;
struct talk;

/* text, reasoning: owned; reasoning NULL: none.  n_held, pending: values of the chat before this message, to which plain turns go back. */
struct message {
    const char *role;                /* "system" (only the first message), "user" or "assistant" */
    char  *text, *reasoning;
    size_t n, n_reasoning, n_held;
    int32_t pending;
};

struct chat {
    struct forge_session *session;
    struct forge_options  options;   /* a copy of the session's, which commands change */
    const uint8_t  *template;        /* NULL: plain turns */
    const struct json *template_options;                 /* --chat-template-kwargs, or NULL */
    void           *options_memory;
    struct message *messages;
    size_t          n_messages, most_messages, first;    /* first: 1 with a system message */
    int32_t        *held;            /* [n_held] of n_ctx + 2: tokens that the sequence has read, then tokens drawn */
    size_t          n_held;
    int32_t        *wanted;          /* [n_wanted] tokens that it must have read before it answers */
    size_t          n_wanted, most_wanted;
    char           *line;            /* [CHAT_LINE_BYTES] */
    char            tail[512];       /* [n_tail] the end of the prompt, in which the model's reasoning may have been opened */
    size_t          n_tail;
    int32_t         pending;         /* plain turns: drawn and printed, but not read; -1: none */
    struct talk    *talk;            /* NULL: plain lines of stdin, without commands */
};

enum { CHAT_LINE_BYTES = 1 << 16 };

/* Appends a message.  text: [n] bytes, copied.  FORGE_NO_MEMORY. */
enum forge_status chat_add(struct chat *chat, const char *role, const char *text, size_t n, struct forge_error *error);
/* Sets the system message; NULL: none. */
enum forge_status chat_system(struct chat *chat, const char *text, struct forge_error *error);
/* Removes the messages from number `from` on. */
void chat_take_back(struct chat *chat, size_t from);
void chat_free_messages(struct message *messages, size_t n);

/* A turn: the user says `user`; NULL: the user's last message is answered again.  FORGE_INTERRUPTED: Ctrl-C in a chat of a single turn.
 * Otherwise Ctrl-C, or a refusal by the template, ends only the turn. */
enum forge_status chat_turn(struct chat *chat, const char *user, struct forge_error *error);

/* A line of stdin without its newline, in chat->line; NULL: the end. */
enum forge_status chat_next_line(struct chat *chat, const char **text, struct forge_error *error);

/* ---- runtime/terminal/talk.c, in programs with a chat template; else NULL ---- */

/* Does what the options ask for: loads a saved conversation, prepares line editing on a terminal. */
__attribute__((weak)) enum forge_status talk_open(struct chat *chat, struct forge_error *error);
/* The user's next text, valid until the next call; NULL: the end.  Commands are executed in between. */
__attribute__((weak)) enum forge_status talk_next(struct chat *chat, const char **text, struct forge_error *error);
/* Saves the conversation if requested and reports the result; returns `status` and its text if that is an error. */
__attribute__((weak)) enum forge_status talk_close(struct chat *chat, enum forge_status status, struct forge_error *error);

#endif
