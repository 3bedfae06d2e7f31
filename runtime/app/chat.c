/* chat.c -- a conversation in the model's own form of turns.
 * Chat templates are Jinja programs; the few forms most models use are recognised by their markers (chat_form.h).
 * (Forms after llama.cpp's src/llama-chat.cpp.) A model without a known one gets turns of plain text. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "chat_form.h"
#include "runtime/run/session.h"
#include "runtime/text/tokenize.h"

static const struct chat_form plain = { "plain", NULL, NULL, "", "\n", "", "\n", "\n", false };

enum { LINE_BYTES = 1 << 16, TURN_EXTRA = 512 };                 /* TURN_EXTRA: more than all texts of a form */

struct chat {
    const struct chat_form *form;
    char *line, *turn;               /* [LINE_BYTES]; [turn_bytes] */
    size_t turn_bytes;
    int32_t *tokens;                 /* [n_tokens] */
    size_t n_tokens;
    void  *scratch;
    size_t scratch_bytes;
};

static size_t append(char *to, size_t at, const char *text)
{
    const size_t n = strlen(text);
    memcpy(to + at, text, n);
    return at + n;
}

static size_t write_turn(const struct chat *c, const char *system, const char *user, bool first)
{
    const struct chat_form *f = c->form;
    size_t n = 0;
    const bool tell = first && system;
    if (!first) n = append(c->turn, n, f->answer_after);
    if (tell && !f->system_inside) n = append(c->turn, append(c->turn, append(c->turn, n, f->system_before), system), f->system_after);
    n = append(c->turn, n, f->user_before);
    if (tell && f->system_inside) n = append(c->turn, append(c->turn, append(c->turn, n, f->system_before), system), f->system_after);
    n = append(c->turn, n, user);
    return append(c->turn, n, f->user_after);
}

/* Half a turn is none. */
static void forget_turn(struct forge_session *s, uint32_t before)
{
    if (sequence_rewind(s->sequence, before)) return;
    sequence_reset(s->sequence, NULL);
    if (s->options->single_turn) return;
    fprintf(stderr, "the model cannot go back to before a turn that it has read in part: the conversation starts over\n");
}

static enum forge_status answer(struct forge_session *s, struct chat *c, const char *user, struct forge_error *error)
{
    const struct forge_options *o = s->options;
    for (int attempt = 0; ; attempt++) {
        const bool first = s->sequence->n_past == 0;
        const size_t bytes = write_turn(c, o->system, user, first);
        const uint32_t flags = FORGE_TOK_SPECIAL | (first && !o->no_bos ? FORGE_TOK_ADD : 0u);
        const int64_t n = forge_tokenize(s->program->vocab, c->turn, bytes, flags, c->tokens, c->n_tokens, c->scratch, c->scratch_bytes);
        if (n < 0) return error_set(error, FORGE_NO_MEMORY, "out of memory for the tokens of a turn");
        if (n == 0) return FORGE_OK;
        if ((uint64_t)n >= s->engine->n_ctx) {
            fprintf(stderr, "turn of %lld tokens, the context holds %u\n", (long long)n, s->engine->n_ctx);
            return FORGE_OK;
        }
        if ((uint64_t)n < s->engine->n_ctx - s->sequence->n_past) {
            const uint32_t before = s->sequence->n_past;
            const enum forge_status status = session_prompt(s, c->tokens, (size_t)n, error);
            if (status != FORGE_OK) forget_turn(s, before);
            TRY(status);
            break;
        }
        if (attempt > 0) return FORGE_OK;
        fprintf(stderr, "context of %u tokens is full: the conversation starts over\n", s->engine->n_ctx);
        TRY(sequence_reset(s->sequence, error));
    }
    enum forge_ending ending;
    s->out.last = 0;
    TRY(session_generate(s, o->n_predict >= 0 ? o->n_predict : -1, o->single_turn, &ending, error));
    if (s->out.last != '\n') TRY(write_all(STDOUT_FILENO, "\n", 1, "stdout", error));
    if (ending == ENDED_CONTEXT) fprintf(stderr, "context of %u tokens is full\n", s->engine->n_ctx);
    /* The last token of an answer that was cut short has been read by the user, so the model has to know it, too. */
    if (!o->single_turn && s->pending >= 0 && s->sequence->n_past < s->engine->n_ctx)
        TRY(forge_step(s->sequence, &s->pending, 1, 0, s->logits, error));
    return FORGE_OK;
}

/* A line of stdin without its newline; false at the end, on an error, on Ctrl-C. */
static bool read_line(char *line, bool terminal)
{
    for (;;) {
        if (terminal) fputs("> ", stderr);
        if (!fgets(line, LINE_BYTES, stdin)) return false;
        const size_t n = strcspn(line, "\n");
        const bool whole = line[n] == '\n' || n + 1 < LINE_BYTES;
        line[n] = 0;
        if (whole) return true;
        for (int c = 0; c != '\n' && c != EOF;) c = getchar();
        fprintf(stderr, "a line of more than %d bytes is not taken (-f FILE takes longer ones)\n", LINE_BYTES - 1);
    }
}

enum forge_status chat_run(struct forge_session *s, const struct forge_bytes *opening, struct forge_error *error)
{
    const struct forge_options *o = s->options;
    if (!s->program->vocab) return error_set(error, FORGE_USAGE, "the model has no tokenizer: no chat");
    const char *template = s->program->chat_template;
    const struct chat_form *known = template ? chat_form_find(template) : NULL;
    struct chat c = { .form = known ? known : &plain };
    if (template && !known)
        fprintf(stderr,
                "chat: the model's chat template is none of those known (" CHAT_FORM_NAMES "): its turns are plain lines, which it may not"
                        " understand; a prompt in the template's form goes in with -p or -f\n");
    c.turn_bytes = (opening->n > LINE_BYTES ? opening->n : LINE_BYTES) + TURN_EXTRA + (o->system ? strlen(o->system) : 0);
    if (c.turn_bytes > FORGE_TOK_MAX_BYTES) return error_set(error, FORGE_TOO_LONG, "first turn of %zu bytes", opening->n);
    c.n_tokens = FORGE_TOK_MOST(c.turn_bytes);
    c.scratch_bytes = forge_tokenize_scratch(c.turn_bytes);
    c.line = malloc(LINE_BYTES);
    c.turn = malloc(c.turn_bytes);
    c.tokens = malloc(c.n_tokens * sizeof *c.tokens);
    c.scratch = malloc(c.scratch_bytes + 1);
    enum forge_status status = FORGE_OK;
    if (!c.line || !c.turn || !c.tokens || !c.scratch) status = error_set(error, FORGE_NO_MEMORY, "out of memory for the chat");
    if (o->verbose && status == FORGE_OK) fprintf(stderr, "chat form: %s\n", c.form->name);

    const bool terminal = isatty(STDIN_FILENO);
    const char *turn = opening->bytes;
    while (status == FORGE_OK) {
        if (!turn) {
            if (!read_line(c.line, terminal)) {
                if (*s->stop) status = error_set(error, FORGE_INTERRUPTED, "interrupted");
                else if (ferror(stdin)) status = error_set(error, FORGE_FAILED, "cannot read stdin: %s", strerror(errno));
                else if (terminal) fputs("\n", stderr);
                break;
            }
            turn = c.line;
        }
        if (turn[0] != 0) {
            status = answer(s, &c, turn, error);
            const bool cut = status == FORGE_INTERRUPTED || (status == FORGE_OK && *s->stop);
            if (o->single_turn) {
                if (cut) status = error_set(error, FORGE_INTERRUPTED, "interrupted");
                break;
            }
            /* Ctrl-C during an answer ends the answer; the handler itself ends the program at the second one. */
            if (cut) {
                *s->stop = 0;
                status = FORGE_OK;
            }
        }
        turn = NULL;
    }
    if (!o->quiet && (status == FORGE_OK || status == FORGE_INTERRUPTED)) session_report(s);
    free(c.line);
    free(c.turn);
    free(c.tokens);
    free(c.scratch);
    return status;
}
