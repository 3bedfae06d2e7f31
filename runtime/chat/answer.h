/* answer.h -- what a model writes, taken apart as it comes: reasoning, content, calls of tools.  Freestanding, without allocation.
 *
 * Nothing that may still become a mark is told, everything else at once.  What looks like a call and is none is content, so no text is
 * lost but the marks themselves and white space beside them.  A call is told whole when its last byte is there; its arguments are JSON
 * (RFC 8259).  Where a family writes strings bare, the tool's schema says what is a string. */
#ifndef FORGE_CHAT_ANSWER_H
#define FORGE_CHAT_ANSWER_H
#include "family.h"
#include "json.h"

enum answer_kind {
    ANSWER_CONTENT, ANSWER_REASONING,        /* a piece of text, never empty */
    ANSWER_CALL,                             /* a call begins: text is the function's name */
    ANSWER_ARGUMENTS,                        /* a piece of its arguments, JSON together: an object, unless the model wrote another value */
    ANSWER_CALL_END,
};

/* Of a call: which, from 0.  id: as the model wrote it; n_id 0: the family has none, the caller makes one.  Pointers hold during the call
 * of answer_tell only. */
struct answer_event {
    enum answer_kind kind;
    uint32_t         call;
    const char      *text, *id;
    size_t           n, n_id;
};
typedef void answer_tell(void *context, const struct answer_event *event);

struct answer_options {
    const struct chat_family *family;
    const struct json *tools;                /* the array of a request, {"type": "function", "function": {...}} or the inner objects; NULL
                                                or empty: no calls are looked for, what looks like one is content */
    const char  *prompt;                     /* [n_prompt] the end of the rendered prompt, the generation prompt at least: it may open the
                                                reasoning */
    size_t       n_prompt;
    answer_tell *tell;
    void        *context;
    void        *room;                       /* [room_bytes], ANSWER_ROOM_LEAST at least; a call longer than a quarter of it is content */
    size_t       room_bytes;
};
enum { ANSWER_ROOM_LEAST = 4096, ANSWER_ROOM = 1 << 18 };    /* ANSWER_ROOM: calls up to 64 KB */

/* Fields are answer.c's own. */
struct answer {
    const struct chat_family *family;
    const struct json *tools;
    answer_tell *tell;
    void        *context;
    char        *hold;                       /* [n of size] text that was not told yet */
    size_t       size, n;
    void        *work;                       /* arguments being written, then trees of JSON */
    size_t       work_bytes;
    size_t       looked, mark, skip;         /* of a call: bytes that were looked at, of its first mark; of text: no mark begins before */
    struct { size_t from, at; uint32_t depth; char quote; } scan;      /* brackets of a call, as far as they are known */
    uint32_t     n_calls, n_endless;         /* told; of those that never ended */
    bool         in_call, reasoning;
    bool         fresh, first;               /* nothing but white space since the last mark; there was no mark yet */
    bool         blank;                      /* neither content nor calls until now */
    bool         header;                     /* a message's header may come */
    enum { NOT_INSIDE, IN_BLOCK, IN_LIST } inside;       /* a block of calls: its end may come; or more calls, too */
};

void answer_begin(struct answer *a, const struct answer_options *o);
/* Any piece of text, special tokens shown, without the token that ends the turn; cut anywhere. */
void answer_feed(struct answer *a, const char *text, size_t n);
/* No text comes any more. */
void answer_end(struct answer *a);
#endif
