/* family.h -- how the models of a family write reasoning and tool calls: read-only data, one row of family.def for each family. */
#ifndef FORGE_CHAT_FAMILY_H
#define FORGE_CHAT_FAMILY_H
#include <stdint.h>

enum chat_shape {               /* form of one call */
    CHAT_NO_CALLS,
    CHAT_JSON,                  /* open call {"name": N, "arguments": {...}} close; or a list of these */
    CHAT_NAMED,                 /* open call N args_mark {...} post close */
    CHAT_TAGGED,                /* open call N tag_end (key K tag_end value V value_end)* post close; strings without quotes */
    CHAT_ELEMENTS,              /* open call N tag_end <K>V</K>... post close, each tag after the prefix `key`; values nest */
    CHAT_PYTHON,                /* open [N(K=V, ...), ...] close */
    CHAT_BRACED,                /* open call N{K:V, ...} close; strings in <|"|> */
};

enum chat_flag {
    CHAT_ONE       = 1 << 0,    /* a turn has at most one call */
    CHAT_TOKENS    = 1 << 1,    /* the marks of reasoning are tokens: they may stand anywhere, other marks only at the beginning of an
                                 * answer */
    CHAT_BARE      = 1 << 2,    /* JSON: an answer that is an object with the name of a tool is a call */
    CHAT_KEYED     = 1 << 3,    /* JSON: {N: {...}} */
    CHAT_ID_FIRST  = 1 << 4,    /* NAMED: `call` is followed by the id, */
    CHAT_ID_NAMES  = 1 << 5,    /* by an id of the form functions.N:INDEX, */
    CHAT_KIND      = 1 << 6,    /* or by a word without meaning */
    CHAT_LINE      = 1 << 7,    /* NAMED: an answer begins with N and a line break; N "all" means the answer itself */
    CHAT_QUOTED    = 1 << 8,    /* TAGGED: names are in quotes; `call` and `key` end with the opening quote; attributes may follow */
    CHAT_NAME_LINE = 1 << 9,    /* TAGGED: N ends with its line or at the next tag; name_mark may follow */
    CHAT_VALUE_LINES = 1 << 10, /* TAGGED: a value is on lines of its own */
    CHAT_CDATA     = 1 << 11,   /* TAGGED: a value may be inside <![CDATA[ ]]> */
    CHAT_HEADERS   = 1 << 12,   /* an answer is messages with headers: <|channel|>NAME to=RECIPIENT<|message|> */
    CHAT_FUNCTIONS = 1 << 13,   /* a header with recipient functions.N is a call, and its message is the arguments */
    CHAT_LISTED    = 1 << 14,   /* JSON: calls are written in [ ], */
    CHAT_FENCED    = 1 << 15,   /* in a code fence */
    CHAT_NINE      = 1 << 16,   /* templates refuse ids of calls that are not 9 letters and digits */
};

enum { CHAT_DROPS = 6, CHAT_ENDS = 3 };

/* A string is NULL if the family does not have it. */
struct chat_family {
    const char *name;
    const char *think[2];                    /* beginning and end of reasoning */
    const char *open, *call, *post, *close;  /* of a block of calls, of a call */
    const char *id_mark, *name_mark, *args_mark;
    const char *key, *tag_end, *value, *value_end;
    const char *raw[2];                      /* TAGGED: the text around all arguments when they are one JSON object */
    const char *object;                      /* JSON: a call, with % for N, @ for arguments, # or ~ for an id; NULL: {"name": "%",
                                              * "arguments": @} */
    const char *attributes[2];               /* TAGGED: GBNF of the attributes in the tag of a string, and of another value */
    const char *code;                        /* beginning of code for an interpreter, or of N.call(K=V) */
    const char *start;                       /* beginning of a message */
    const char *finish;                      /* text with which a turn may end, before the token that ends it */
    const char *drop[CHAT_DROPS];            /* marks of answers and messages; never shown */
    const char *ends[CHAT_ENDS];             /* texts of tokens that end a turn, in addition to the vocabulary's */
    uint32_t    flags;
    uint8_t     shape;
};

/* The rows.  Number 0: plain text, with reasoning in <think>.  chat_family(i) with i beyond the last row returns number 0. */
enum chat_family_id {
#define CHAT_FAMILY(id, ...) CHAT_##id,
#include "family.def"
#undef CHAT_FAMILY
    CHAT_N_FAMILIES
};
const struct chat_family *chat_family(uint32_t i);
#endif
