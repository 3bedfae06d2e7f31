/* family.h -- how models of one family write reasoning and calls of tools: read-only data, a row of family.def each. */
#ifndef FORGE_CHAT_FAMILY_H
#define FORGE_CHAT_FAMILY_H
#include <stdint.h>

enum chat_shape {               /* of one call */
    CHAT_NO_CALLS,
    CHAT_JSON,                  /* open call {"name": N, "arguments": {...}} close; or a list of such */
    CHAT_NAMED,                 /* open call N args_mark {...} post close */
    CHAT_TAGGED,                /* open call N tag_end (key K tag_end value V value_end)* post close; strings bare */
    CHAT_ELEMENTS,              /* open call N tag_end <K>V</K>... post close, each tag behind the prefix `key`; values nest */
    CHAT_PYTHON,                /* open [N(K=V, ...), ...] close */
    CHAT_BRACED,                /* open call N{K:V, ...} close; strings in <|"|> */
};

enum chat_flag {
    CHAT_ONE       = 1 << 0,    /* a turn has one call at most */
    CHAT_TOKENS    = 1 << 1,    /* the marks of reasoning are tokens: they may stand anywhere, others only where an answer begins */
    CHAT_BARE      = 1 << 2,    /* JSON: an answer that is an object with the name of a tool is a call */
    CHAT_KEYED     = 1 << 3,    /* JSON: {N: {...}} */
    CHAT_ID_FIRST  = 1 << 4,    /* NAMED: behind `call` stands the id, */
    CHAT_ID_NAMES  = 1 << 5,    /* the id, functions.N:INDEX, */
    CHAT_KIND      = 1 << 6,    /* or a word that says nothing */
    CHAT_LINE      = 1 << 7,    /* NAMED: an answer begins with N and a line break, N "all" being the answer itself */
    CHAT_QUOTED    = 1 << 8,    /* TAGGED: names stand in quotes, `call` and `key` end with the first; attributes may follow */
    CHAT_NAME_LINE = 1 << 9,    /* TAGGED: N ends with its line or the next tag, name_mark may follow */
    CHAT_VALUE_LINES = 1 << 10, /* TAGGED: a value stands on lines of its own */
    CHAT_CDATA     = 1 << 11,   /* TAGGED: a value may stand in <![CDATA[ ]]> */
    CHAT_HEADERS   = 1 << 12,   /* an answer is messages with headers: <|channel|>NAME to=RECIPIENT<|message|> */
    CHAT_FUNCTIONS = 1 << 13,   /* a header's recipient functions.N is a call, its message the arguments */
    CHAT_LISTED    = 1 << 14,   /* JSON: calls are written in [ ], */
    CHAT_FENCED    = 1 << 15,   /* in a fence */
};

enum { CHAT_DROPS = 6, CHAT_ENDS = 3 };

/* Strings that a family has not are NULL. */
struct chat_family {
    const char *name;
    const char *think[2];                    /* what reasoning begins and ends with */
    const char *open, *call, *post, *close;  /* of a block of calls, of a call */
    const char *id_mark, *name_mark, *args_mark;
    const char *key, *tag_end, *value, *value_end;
    const char *raw[2];                      /* TAGGED: what stands around all arguments as one JSON object */
    const char *object;                      /* JSON: a call, % for N, @ arguments, # or ~ an id; NULL: {"name": "%", "arguments": @} */
    const char *attributes[2];               /* TAGGED: of a string's tag and another value's, in GBNF */
    const char *code;                        /* what code for an interpreter, or N.call(K=V), begins with */
    const char *start;                       /* what a message begins with */
    const char *finish;                      /* what a turn may end with, before the token that ends it */
    const char *drop[CHAT_DROPS];            /* marks of answers and messages: never shown */
    const char *ends[CHAT_ENDS];             /* texts of tokens that end a turn, beside the vocabulary's own */
    uint16_t    flags;
    uint8_t     shape;
};

/* The rows; number 0: plain text, reasoning in <think>.  chat_family(i), i beyond the last: number 0. */
enum chat_family_id {
#define CHAT_FAMILY(id, ...) CHAT_##id,
#include "family.def"
#undef CHAT_FAMILY
    CHAT_N_FAMILIES
};
const struct chat_family *chat_family(uint32_t i);
#endif
