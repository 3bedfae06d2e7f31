/* lex.h -- splits the text of a Jinja template into tokens. */
#ifndef FORGEC_CHAT_LEX_H
#define FORGEC_CHAT_LEX_H
#include "compiler/base/base.h"

enum token_kind {
    TOKEN_TEXT, TOKEN_OUTPUT_BEGIN, TOKEN_OUTPUT_END, TOKEN_TAG_BEGIN, TOKEN_TAG_END, TOKEN_NAME, TOKEN_STRING, TOKEN_INTEGER, TOKEN_FLOAT,
    TOKEN_OPERATOR, TOKEN_END
};

/* text: [n]; for strings their value, for numbers the digits without "_". op: an operator's character; if it has two, enum token_pair. */
struct token { enum token_kind kind; uint32_t line; const char *text; size_t n; int op; };
enum token_pair { OP_EQ = 256, OP_NE, OP_LE, OP_GE, OP_FLOOR, OP_POWER };

struct chat_problem { uint32_t line; const char *text; };      /* line: of the template */

/* The tokens of source, [n] bytes, as Jinja 3.1 reads them with trim_blocks and lstrip_blocks, followed by TOKEN_END; allocated in the
 * arena. NULL on an error: *problem says why. */
struct token *chat_lex(struct arena *a, const char *source, size_t n, struct chat_problem *problem);
#endif
