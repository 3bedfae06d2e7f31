/* guide.h -- constrains a text by a grammar, a JSON schema or a choice: which tokens may come next. */
#ifndef FORGE_GUIDE_H
#define FORGE_GUIDE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/model/abi.h"
#include "status.h"

struct text_out;
enum guide_kind { GUIDE_GRAMMAR, GUIDE_SCHEMA, GUIDE_CHOICES, GUIDE_IMAGE };
struct guide_source {
    enum guide_kind kind;
    const char *text;            /* [n] GBNF or JSON; GUIDE_IMAGE: the image itself (runtime/chat/grammar.h), which must stay valid */
    size_t      n;
    const char *const *choices;  /* [n] texts, all non-empty */
    struct text_out *warnings;   /* GUIDE_SCHEMA: as in schema_options (runtime/chat/schema.h); NULL: nothing is passed over */
};

struct lexicon;
struct forge_guide;              /* for one text at a time: about 4 MiB and its grammar */

/* The grammar from forgec build --grammar or --json-schema; NULL: none. */
extern const uint8_t forge_grammar[] __attribute__((weak));

uint32_t guide_image_bytes(const uint8_t *image);

/* The vocabulary's tokens in order, shared by any number of guides.  From malloc: free() it after closing the guides. */
enum forge_status guide_lexicon(struct lexicon **out, const struct forge_program *program, struct forge_error *error);

/* FORGE_USAGE: the grammar or schema is wrong; the text begins with `name`, the user's name for it.  The source is not needed
 * afterwards. */
enum forge_status guide_open(struct forge_guide **out, const struct guide_source *source, const struct lexicon *lexicon, const char *name,
                             struct forge_error *error);
void guide_close(struct forge_guide *guide);                 /* NULL is allowed */
/* The guide's grammar for further guides, which must not be used after it is closed. */
struct guide_source guide_shared(const struct forge_guide *guide);
enum forge_status guide_restart(struct forge_guide *guide, struct forge_error *error);       /* back to the beginning of a text */

/* *bits: [n_vocab / 32, rounded up], 1 for each token that may come next; owned by the guide, valid until the next call.  *ended: the
 * text is complete, and the vocabulary has no token that ends it; then *bits is NULL.  FORGE_FAILED: no token is allowed, or the text
 * can be read in too many ways. */
enum forge_status guide_mask(struct forge_guide *guide, const uint32_t **bits, bool *ended, struct forge_error *error);
/* Adds the token that was drawn.  FORGE_FAILED: it is not allowed. */
enum forge_status guide_accept(struct forge_guide *guide, int32_t token, struct forge_error *error);

/* Adds text, whatever its tokens.  FORGE_FAILED: it is not allowed. */
enum forge_status guide_text(struct forge_guide *guide, const char *text, size_t n, struct forge_error *error);
bool guide_is_complete(const struct forge_guide *guide);     /* nothing can follow the text so far */

/* Sets logits [n_vocab] of tokens whose bit is 0 to minus infinity. */
void guide_logits(const uint32_t *bits, float *logits, uint32_t n_vocab);
#endif
