/* embed.c -- programs of embedding models: reads texts and prints their vectors, one per line. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "outfile.h"
#include "runtime/model/pool.h"
#include "runtime/run/session.h"
#include "runtime/text/tokenize.h"

struct embed {
    struct forge_engine   *engine;           /* NULL: only tokens are requested */
    struct forge_sequence *sequence;
    const struct forge_program *program;
    const struct forge_options *options;
    float   *rows, *vector;                  /* [engine_piece()][n_embd], [n_embd] */
    uint64_t n_texts, n_tokens;
    double   seconds;
};

static uint32_t text_flags(const struct forge_options *o)
{
    return (o->no_bos ? 0u : FORGE_TOK_ADD) | (o->no_special ? 0u : FORGE_TOK_SPECIAL);
}

/* Keeps the first n tokens of a longer text; the last of them becomes the token that the tokenizer puts at the end of every text ([SEP],
 * or the end of text). */
static enum forge_status truncate_tokens(struct forge_tokens *tokens, uint32_t n, const struct embed *e, struct forge_error *error)
{
    struct forge_tokens empty;
    TRY(tokens_of_text(&empty, e->program->vocab, "", 0, text_flags(e->options), error));
    const int32_t last = tokens->ids[tokens->n - 1];
    if (empty.n > 0 && empty.ids[empty.n - 1] == last) tokens->ids[n - 1] = last;
    tokens->n = n;
    free(empty.ids);
    return FORGE_OK;
}

static enum forge_status check_length(struct forge_tokens *tokens, const struct embed *e, struct forge_error *error)
{
    const uint32_t n_ctx = e->engine->n_ctx;
    const unsigned long long number = e->n_texts + 1;
    if (tokens->n == 0) return error_set(error, FORGE_USAGE, "text %llu is empty: it has no token, so it has no vector", number);
    if (tokens->n <= n_ctx) return FORGE_OK;
    if (!e->options->truncate)
        return error_set(error, FORGE_TOO_LONG, "text %llu has %zu tokens; the context holds %u; --truncate uses only the first tokens",
                         number, tokens->n, n_ctx);
    if (!e->options->tokens) return truncate_tokens(tokens, n_ctx, e, error);
    tokens->n = n_ctx;
    return FORGE_OK;
}

/* Prints numbers with enough digits to be read back exactly. */
static enum forge_status print_vector(const struct embed *e, struct forge_error *error)
{
    const char *format = e->options->embd_format;
    const uint32_t n = e->program->n_embd;
    if (strcmp(format, "raw") == 0) return write_all(STDOUT_FILENO, e->vector, n * sizeof *e->vector, "stdout", error);
    const bool json = strcmp(format, "json") == 0;
    for (uint32_t c = 0; c < n; c++) printf("%s%.9g", c > 0 ? json ? "," : " " : json ? "[" : "", (double)e->vector[c]);
    printf(json ? "]\n" : "\n");
    return flush_stdout(error);
}

/* Writes the rows for --rows. */
static enum forge_status write_rows(struct embed *e, const struct forge_tokens *tokens, struct forge_error *error)
{
    const size_t n_embd = e->program->n_embd, chunk = engine_piece(e->engine);
    struct forge_outfile file;
    TRY(outfile_open(&file, e->options->rows_path, error));
    enum forge_status status = sequence_reset(e->sequence, error);
    sequence_expect(e->sequence, (uint32_t)tokens->n);
    for (size_t at = 0; at < tokens->n && status == FORGE_OK;) {
        const size_t left = tokens->n - at, part = left < chunk ? left : chunk;
        status = tokens->n == 1 ? forge_step(e->sequence, tokens->ids, 1, 1, e->rows, error)
                                : forge_prefill(e->sequence, tokens->ids + at, (uint32_t)part, (uint32_t)part, e->rows, error);
        if (status == FORGE_OK) status = write_all(file.fd, e->rows, part * n_embd * sizeof *e->rows, e->options->rows_path, error);
        at += part;
    }
    return outfile_close(&file, status, error);
}

static enum forge_status put_vector(struct embed *e, const struct forge_tokens *tokens, struct forge_error *error)
{
    const double start = seconds_now();
    TRY(forge_embed(e->sequence, tokens->ids, (uint32_t)tokens->n, !e->options->no_normalize, e->rows, e->vector, error));
    e->seconds += seconds_now() - start;
    e->n_tokens += tokens->n;
    return print_vector(e, error);
}

static enum forge_status put_tokens(const struct forge_tokens *tokens, struct forge_error *error)
{
    for (size_t i = 0; i < tokens->n; i++) printf(i > 0 ? " %d" : "%d", tokens->ids[i]);
    printf("\n");
    return flush_stdout(error);
}

static enum forge_status one_list(struct embed *e, struct forge_tokens *tokens, struct forge_error *error)
{
    if (!e->engine) return put_tokens(tokens, error);
    TRY(check_length(tokens, e, error));
    const enum forge_status status = e->options->rows_path ? write_rows(e, tokens, error) : put_vector(e, tokens, error);
    e->n_texts++;
    return status;
}

static enum forge_status one_text(struct embed *e, const char *text, size_t n, struct forge_error *error)
{
    struct forge_tokens tokens;
    TRY(tokens_of_text(&tokens, e->program->vocab, text, n, text_flags(e->options), error));
    enum forge_status status = FORGE_OK;
    for (size_t i = 0; i < tokens.n && status == FORGE_OK; i++)
        if (tokens.ids[i] < 0 || (uint32_t)tokens.ids[i] >= e->program->n_vocab)
            status = error_set(error, FORGE_FAILED, "the tokenizer gives token %d, but the model has only %u tokens", tokens.ids[i],
                e->program->n_vocab);
    if (status == FORGE_OK) status = one_list(e, &tokens, error);
    free(tokens.ids);
    return status;
}

/* One text per line; the last line may end without a newline. */
static enum forge_status all_lines(struct embed *e, FILE *file, const char *name, struct forge_error *error)
{
    char *line = NULL;
    size_t capacity = 0;
    enum forge_status status = FORGE_OK;
    for (ssize_t n; status == FORGE_OK && (n = getline(&line, &capacity, file)) >= 0;) {
        while (n > 0 && (line[n - 1] == '\n' || line[n - 1] == '\r')) n--;
        status = e->engine && e->engine->stop && *e->engine->stop ? error_set(error, FORGE_INTERRUPTED, "interrupted")
                                                                  : one_text(e, line, (size_t)n, error);
    }
    if (status == FORGE_OK && ferror(file))
        status = errno == EINTR ? error_set(error, FORGE_INTERRUPTED, "interrupted")
                                : error_set(error, FORGE_FAILED, "cannot read %s: %s", name, strerror(errno));
    free(line);
    return status;
}

static enum forge_status all_texts(struct embed *e, struct forge_error *error)
{
    const struct forge_options *o = e->options;
    struct forge_tokens tokens;
    if (o->tokens) {
        TRY(tokens_of_list(&tokens, o->tokens, e->program->n_vocab, error));
        const enum forge_status status = one_list(e, &tokens, error);
        free(tokens.ids);
        return status;
    }
    if (o->prompt) {
        struct forge_bytes text;
        TRY(prompt_read(&text, o, error));
        const enum forge_status status = one_text(e, text.bytes, text.n, error);
        free(text.bytes);
        return status;
    }
    const bool from_stdin = !o->prompt_file || strcmp(o->prompt_file, "-") == 0;
    if (!o->prompt_file && isatty(STDIN_FILENO))
        return error_set(error, FORGE_USAGE,
            "there is no text: give one with -p, or several with -f or on stdin, one per line (--help lists all)");
    if (from_stdin) return all_lines(e, stdin, "stdin", error);
    FILE *file = fopen(o->prompt_file, "re");
    if (!file) return error_set(error, FORGE_FAILED, "cannot open %s: %s", o->prompt_file, strerror(errno));
    const enum forge_status status = all_lines(e, file, o->prompt_file, error);
    fclose(file);
    return status;
}

static void report(const struct embed *e)
{
    fprintf(stderr, "%llu text%s, ", (unsigned long long)e->n_texts, e->n_texts == 1 ? "" : "s");
    fprintf(stderr, "%llu tokens", (unsigned long long)e->n_tokens);
    if (e->seconds > 0) fprintf(stderr, ", %.1f tok/s", (double)e->n_tokens / e->seconds);
    if (e->engine->device_name) fprintf(stderr, "; %s\n", e->engine->device_name);
    else fprintf(stderr, "; %u threads\n", pool_threads(e->engine->pool));
}

enum forge_status embed_run(struct forge_engine *engine, const struct forge_options *o, struct forge_error *error)
{
    const struct forge_program *p = engine->program;
    struct embed e = { .engine = engine, .program = p, .options = o };
    TRY(sequence_open(&e.sequence, engine, error));
    e.rows = malloc((size_t)engine_piece(engine) * p->n_embd * sizeof *e.rows);
    e.vector = malloc(p->n_embd * sizeof *e.vector);
    enum forge_status status = FORGE_OK;
    if (!e.rows || !e.vector) status = error_set(error, FORGE_NO_MEMORY, "out of memory for %u rows", engine_piece(engine));
    else status = all_texts(&e, error);
    if (status == FORGE_OK && !o->quiet && !o->rows_path) report(&e);
    free(e.vector);
    free(e.rows);
    sequence_close(e.sequence);
    return status;
}

enum forge_status embed_tokenize(const struct forge_program *p, const struct forge_options *o, struct forge_error *error)
{
    struct embed e = { .program = p, .options = o };
    return all_texts(&e, error);
}
