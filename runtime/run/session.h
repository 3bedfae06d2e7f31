/* session.h -- one run of the model: takes a prompt and prints the text of the drawn tokens. */
#ifndef FORGE_SESSION_H
#define FORGE_SESSION_H

#include <signal.h>

#include "engine.h"
#include "runtime/app/options.h"
#include "sample.h"
#include "runtime/text/stream.h"
#include "runtime/text/text.h"

enum forge_ending { ENDED_TEXT, ENDED_STOP, ENDED_LIMIT, ENDED_CONTEXT, ENDED_INTERRUPT };

struct forge_session {
    const struct forge_options *options;
    const struct forge_program *program;
    struct forge_engine  *engine;
    struct forge_sequence *sequence; /* the text so far */
    struct forge_sampler *sampler;
    struct forge_guide   *guide;     /* NULL: any text */
    struct lexicon       *lexicon;   /* of its vocabulary */
    struct forge_stream   out;
    volatile sig_atomic_t *stop;     /* set by SIGINT */
    float   *logits;                 /* [n_vocab] after the last token */
    char    *piece;                  /* [piece_bytes] text of one token, after the tail of the text before it */
    size_t   piece_bytes, n_tail, longest_stop;
    size_t   n_printed;              /* tokens printed with --print-tokens */
    int32_t  pending;                /* drawn and printed, but not yet in the context; -1: none */
    int32_t *heard;                  /* NULL, or where session_generate writes the tokens that it draws: [n_heard], with room for n_ctx +
                                      * 2 */
    size_t   n_heard;
    uint64_t n_prompt, n_drawn, n_decoded;
    double   prompt_seconds, decode_seconds;
};

enum forge_status session_open(struct forge_session *session, const struct forge_options *options, struct forge_engine *engine,
                               volatile sig_atomic_t *stop, struct forge_error *error);
void session_close(struct forge_session *session);

/* Runs n > 0 prompt tokens; the logits after the last one are kept. */
enum forge_status session_prompt(struct forge_session *session, const int32_t *tokens, size_t n, struct forge_error *error);

/* Draws up to n_predict tokens (-1: no limit) and prints them.  last: no tokens follow them in the sequence (engine_draw_begin). */
enum forge_status session_generate(struct forge_session *session, int64_t n_predict, bool last, enum forge_ending *ending,
                                   struct forge_error *error);

/* Speeds so far, on stderr. */
void session_report(const struct forge_session *session);

/* chat.c: chat turns until stdin ends; the first one uses `opening` if it has a text.  FORGE_INTERRUPTED: Ctrl-C at the prompt; Ctrl-C
 * during an answer ends only the answer. */
enum forge_status chat_run(struct forge_session *session, const struct forge_bytes *opening, struct forge_error *error);

/* serve/serve.c, in programs from forgec build --server; otherwise NULL.  Answers requests until SIGTERM or SIGINT.  The engine must be
 * opened with serve_sequences() sequences. */
__attribute__((weak)) enum forge_status serve_run(struct forge_engine *engine, const struct forge_options *options,
                                                  struct forge_error *error);
__attribute__((weak)) uint32_t serve_sequences(const struct forge_program *program, const struct forge_options *options);

/* embed.c: with an embedding model, prints the vectors of all texts, or their tokens, one line each on stdout. */
enum forge_status embed_run(struct forge_engine *engine, const struct forge_options *options, struct forge_error *error);
enum forge_status embed_tokenize(const struct forge_program *program, const struct forge_options *options, struct forge_error *error);

/* bench.c, profile.c, perplexity.c, info.c: one mode each, results on stdout. */
enum forge_status bench_run(struct forge_engine *engine, const struct forge_options *options, struct forge_error *error);
enum forge_status profile_run(struct forge_engine *engine, const struct forge_options *options, struct forge_error *error);
/* GB/s of the memory when all threads read it, and of a buffer of the weights' size if it fits into the cache, else 0.  GPU: a large
 * copy, bytes read plus bytes written. */
enum forge_status bench_bandwidth(struct forge_engine *engine, double *memory_gb_s, double *cache_gb_s, struct forge_error *error);
enum forge_status perplexity_run(struct forge_engine *engine, const struct forge_options *options, struct forge_error *error);
enum forge_status info_print(const struct forge_program *program, struct forge_error *error);
enum forge_status version_print(const struct forge_program *program, struct forge_error *error);

#endif
