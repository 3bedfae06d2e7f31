/* guide.h -- a text that a grammar, a JSON schema or a choice guides: which tokens may come next. */
#ifndef FORGE_GUIDE_H
#define FORGE_GUIDE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/model/abi.h"
#include "status.h"

enum guide_kind { GUIDE_GRAMMAR, GUIDE_SCHEMA, GUIDE_CHOICES, GUIDE_IMAGE };
struct guide_source {
    enum guide_kind kind;
    const char *text;            /* [n] GBNF or JSON; of an image (runtime/chat/grammar.h) itself, which stays */
    size_t      n;
    const char *const *choices;  /* [n] texts, none of them empty */
};

struct lexicon;
struct forge_guide;              /* of one text at a time: about 4 MiB and its grammar */

/* What forgec build --grammar or --json-schema took along; NULL: nothing. */
extern const uint8_t forge_grammar[] __attribute__((weak));

uint32_t guide_image_bytes(const uint8_t *image);

/* The vocabulary's tokens in order, one for any number of guides, from malloc: free() ends it, after the guides. */
enum forge_status guide_lexicon(struct lexicon **out, const struct forge_program *program, struct forge_error *error);

/* FORGE_USAGE: the grammar or schema is wrong; the sentence begins with `name`, what the user calls it.  The source may go afterwards. */
enum forge_status guide_open(struct forge_guide **out, const struct guide_source *source, const struct lexicon *lexicon, const char *name,
                             struct forge_error *error);
void guide_close(struct forge_guide *guide);                 /* NULL is allowed */
enum forge_status guide_restart(struct forge_guide *guide, struct forge_error *error);       /* to the beginning of a text */

/* *bits: [n_vocab / 32, rounded up] 1 for each token that may come, the guide's until the next call; *ended: the text is whole and the
 * vocabulary has no token that says so: bits are NULL.  FORGE_FAILED: no token goes on, or the text can be read in too many ways. */
enum forge_status guide_mask(struct forge_guide *guide, const uint32_t **bits, bool *ended, struct forge_error *error);
/* The token that was drawn.  FORGE_FAILED: it is not one of them. */
enum forge_status guide_accept(struct forge_guide *guide, int32_t token, struct forge_error *error);

/* Tokens whose bit is 0 become minus infinity.  logits: [n_vocab]. */
void guide_logits(const uint32_t *bits, float *logits, uint32_t n_vocab);
#endif
