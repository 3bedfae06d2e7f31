/* chat.h -- a conversation: its messages, what the model has read of them, a turn of it. */
#ifndef FORGE_CHAT_H
#define FORGE_CHAT_H

#include "runtime/run/session.h"

struct json;
struct talk;

/* text, reasoning: its own; reasoning NULL: none.  n_held, pending: those of the chat before it; plain turns go back to them. */
struct message {
    const char *role;                /* "system", which is the first one, "user" or "assistant" */
    char  *text, *reasoning;
    size_t n, n_reasoning, n_held;
    int32_t pending;
};

struct chat {
    struct forge_session *session;
    struct forge_options  options;   /* the session's: commands change them */
    const uint8_t  *template;        /* NULL: plain turns */
    const struct json *template_options;                 /* --chat-template-kwargs, or NULL */
    void           *options_memory;
    struct message *messages;
    size_t          n_messages, most_messages, first;    /* first: 1 with a system message */
    int32_t        *held;            /* [n_held] of n_ctx + 2: what the sequence has read, then what is drawn */
    size_t          n_held;
    int32_t        *wanted;          /* [n_wanted] what it shall have read before it answers */
    size_t          n_wanted, most_wanted;
    char           *line;            /* [CHAT_LINE_BYTES] */
    char            tail[512];       /* [n_tail] the end of the prompt, which may have opened the model's reasoning */
    size_t          n_tail;
    int32_t         pending;         /* plain turns: drawn and printed, but not read; -1: none */
    struct talk    *talk;            /* NULL: lines of stdin, and nothing but turns */
};

enum { CHAT_LINE_BYTES = 1 << 16 };

/* text: [n] bytes, copied, behind the messages there are.  FORGE_NO_MEMORY. */
enum forge_status chat_add(struct chat *chat, const char *role, const char *text, size_t n, struct forge_error *error);
/* The system message; NULL: none. */
enum forge_status chat_system(struct chat *chat, const char *text, struct forge_error *error);
/* The messages from number `from` on have not been said. */
void chat_take_back(struct chat *chat, size_t from);
void chat_free_messages(struct message *messages, size_t n);

/* A turn: the user says this, or, NULL, what the user said last is answered again.  FORGE_INTERRUPTED: ended by Ctrl-C, in a chat of a
 * single turn.  Else that, and what a template refuses, ends the turn only. */
enum forge_status chat_turn(struct chat *chat, const char *user, struct forge_error *error);

/* A line of stdin without its newline, in chat->line; NULL: the end. */
enum forge_status chat_next_line(struct chat *chat, const char **text, struct forge_error *error);

/* ---- runtime/terminal/talk.c, in programs with a chat template; else NULL ---- */

/* What the options ask for: a conversation that was saved, a terminal on which lines are edited. */
__attribute__((weak)) enum forge_status talk_open(struct chat *chat, struct forge_error *error);
/* What the user says next, valid until the next call; NULL: nothing more.  Commands are done on the way. */
__attribute__((weak)) enum forge_status talk_next(struct chat *chat, const char **text, struct forge_error *error);
/* Saves the conversation where that is asked for, and says whether it could; status, with its sentence, where that is an error. */
__attribute__((weak)) enum forge_status talk_close(struct chat *chat, enum forge_status status, struct forge_error *error);

#endif
