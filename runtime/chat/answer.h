/* answer.h -- splits what a model writes, as it arrives, into reasoning, content and tool calls.  Freestanding, without allocation.
 *
 * Text that may still become a mark is held back; everything else is reported at once.  Text that looks like a call but is not one is
 * content.  So nothing is lost except the marks and the white space beside them.  A call is reported as a whole when its last byte has
 * arrived, or in pieces (answer_in_pieces); its arguments are JSON (RFC 8259).  If a family writes strings without quotes, the tool's
 * schema decides what is a string. */
#ifndef FORGE_CHAT_ANSWER_H
#define FORGE_CHAT_ANSWER_H
#include "family.h"
#include "json_pieces.h"

enum answer_kind {
    ANSWER_CONTENT, ANSWER_REASONING,        /* a piece of text, never empty */
    ANSWER_CALL,                             /* a call begins: text is the function's name */
    ANSWER_ARGUMENTS,                        /* a piece of its arguments.  Together they are JSON: an object, unless the model wrote
                                              * another value */
    ANSWER_CALL_END,
};

/* For calls: `call` is their number, from 0.  id: as the model wrote it; n_id 0: the family has no ids, and the caller makes one.
 * Pointers are valid only during the call of answer_tell. */
struct answer_event {
    enum answer_kind kind;
    uint32_t         call;
    const char      *text, *id;
    size_t           n, n_id;
    bool             cut;                    /* ANSWER_CALL_END: the arguments are only the beginning of JSON, or absent (answer_cut, or
                                              * a call in pieces that never ended) */
};
typedef void answer_tell(void *context, const struct answer_event *event);

struct answer_options {
    const struct chat_family *family;
    const struct json *tools;                /* the array of a request: {"type": "function", "function": {...}} or the inner objects;
                                              * NULL or empty: calls are not recognised and become content */
    const char  *prompt;                     /* [n_prompt] the end of the rendered prompt, at least the generation prompt; it may open
                                              * the reasoning */
    size_t       n_prompt;
    answer_tell *tell;
    void        *context;
    void        *room;                       /* [room_bytes], at least ANSWER_ROOM_LEAST; a call longer than a quarter of it is content */
    size_t       room_bytes;
};
enum { ANSWER_ROOM_LEAST = 4096, ANSWER_ROOM = 1 << 18 };    /* ANSWER_ROOM: calls up to 64 KB */

/* The fields are private to answer.c. */
struct answer {
    const struct chat_family *family;
    const struct json *tools;
    answer_tell *tell;
    void        *context;
    char        *hold;                       /* [n of size] text that has not been reported yet */
    size_t       size, n;
    void        *work;                       /* arguments being written, then JSON trees */
    size_t       work_bytes;
    size_t       known;                      /* bytes of hold that are of the prefill */
    size_t       looked, mark, skip;         /* looked: bytes of a call examined so far; mark: bytes of its first mark; skip: in text, no
                                              * mark begins before this */
    struct { size_t from, at; uint32_t depth; char quote; } scan;      /* brackets of a call, as far as they have been read */
    uint32_t     n_calls, n_endless, n_begun;        /* reported calls; calls that never ended; texts that may have begun a call */
    char         last;                       /* the last byte of text since a mark; 0: none */
    bool         quoted;                     /* the mark of the call stands behind a quote */
    bool         in_call, reasoning;
    bool         fresh, first;               /* only white space since the last mark; no mark yet */
    bool         blank;                      /* neither content nor calls so far */
    bool         header;                     /* a message's header may come */
    bool         cut;                        /* answer_cut */
    bool         in_pieces;                  /* answer_in_pieces */
    enum { NOT_LIVE, LIVE_ARGUMENTS, LIVE_REST } live;   /* a call is being reported in pieces: its arguments, or what follows them */
    bool         has_rest, rest_quoted;      /* the arguments stand in an object of which more follows; in one of its strings */
    uint32_t     rest_depth;
    struct json_pieces pieces;
    enum { NOT_INSIDE, IN_BLOCK, IN_LIST } inside;       /* a block of calls: its end may come; or further calls, too */
};

void answer_begin(struct answer *a, const struct answer_options *o);
/* The beginning of the answer, which its reader knows: nothing is reported of it, except a call that it begins and does not end.  Only
 * directly after answer_begin. */
void answer_prefill(struct answer *a, const char *text, size_t n);
/* Reports the arguments of calls while they arrive, in families that write them as JSON: for calls of the tools that are held to a grammar.
 * A call that turns out not to be JSON ends as if it was cut off. */
static inline void answer_in_pieces(struct answer *a) { a->in_pieces = true; }
/* Adds a piece of text, cut anywhere, with special tokens as text, but without the token that ends the turn. */
void answer_feed(struct answer *a, const char *text, size_t n);
/* The text has ended. */
void answer_end(struct answer *a);
/* The text was cut off, for instance by a limit on its tokens: as answer_end, but an open call of one of the tools is reported with what
 * there is of its arguments, instead of as content. */
void answer_cut(struct answer *a);
#endif
