/* chat.c -- a conversation on a terminal: the model's chat template writes it again for each turn, and the part that the model has
 * already read is kept.  A model without a template gets turns of plain lines. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "chat.h"
#include "runtime/text/tokenize.h"
#include "runtime/chat/answer.h"
#include "runtime/chat/tokens.h"
#include "runtime/run/rendering.h"

enum { TURN_EXTRA = 64 };                                        /* more than the text around a plain turn */
static const size_t MOST_BYTES = (size_t)1 << 30;                /* of a room and of a text */

static enum forge_status no_memory(struct forge_error *error) { return error_set(error, FORGE_NO_MEMORY, "out of memory for the chat"); }

enum forge_status chat_add(struct chat *c, const char *role, const char *text, size_t n, struct forge_error *error)
{
    if (c->n_messages == c->most_messages) {
        const size_t most = c->most_messages ? 2 * c->most_messages : 16;
        struct message *messages = realloc(c->messages, most * sizeof *messages);
        if (!messages) return no_memory(error);
        c->messages = messages;
        c->most_messages = most;
    }
    char *copy = malloc(n + 1);
    if (!copy) return no_memory(error);
    memcpy(copy, text, n);
    copy[n] = 0;
    c->messages[c->n_messages++] = (struct message){ .role = role, .text = copy, .n = n, .n_held = c->n_held, .pending = c->pending };
    return FORGE_OK;
}

void chat_free_messages(struct message *messages, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(messages[i].text);
        free(messages[i].reasoning);
    }
}

static void messages_drop(struct chat *c, size_t from)
{
    if (from >= c->n_messages) return;
    chat_free_messages(c->messages + from, c->n_messages - from);
    c->n_messages = from;
}

/* Without a template: goes back to the tokens that were held before the message. */
static void go_back(struct chat *c, const struct message *before)
{
    if (c->template) return;
    c->n_held = before->n_held < c->n_held ? before->n_held : c->n_held;
    c->pending = before->pending;
}

void chat_take_back(struct chat *c, size_t from)
{
    if (from >= c->n_messages) return;
    go_back(c, &c->messages[from]);
    messages_drop(c, from);
}

enum forge_status chat_system(struct chat *c, const char *text, struct forge_error *error)
{
    if (text) {
        TRY(chat_add(c, "system", text, strlen(text), error));
        const struct message added = c->messages[--c->n_messages];
        memmove(c->messages + 1, c->messages, c->n_messages++ * sizeof *c->messages);
        c->messages[0] = added;
    }
    const size_t at = text != NULL;
    if (c->first) {                                              /* replaces the existing one */
        chat_free_messages(c->messages + at, 1);
        memmove(c->messages + at, c->messages + at + 1, (--c->n_messages - at) * sizeof *c->messages);
    }
    c->first = at;
    return FORGE_OK;
}

/* Keeps only the system message and the last message. */
static void messages_forget(struct chat *c)
{
    struct message last = c->messages[--c->n_messages];
    messages_drop(c, c->first);
    last.n_held = 0;
    last.pending = -1;
    c->messages[c->n_messages++] = last;
}

static enum forge_status wanted_room(struct chat *c, size_t n, struct forge_error *error)
{
    if (n <= c->most_wanted) return FORGE_OK;
    int32_t *wanted = realloc(c->wanted, n * sizeof *wanted);
    if (!wanted) return no_memory(error);
    c->wanted = wanted;
    c->most_wanted = n;
    return FORGE_OK;
}

/* ---- with the template ---- */

static struct json *node(struct room *r, struct json ***to, const char *name, struct json value)
{
    struct json *v = room_take(r, sizeof *v);
    if (!v) return NULL;
    *v = value;
    v->name = name;
    v->n_name = name ? strlen(name) : 0;
    **to = v;
    *to = &v->next;
    return v;
}

static struct json text_node(const char *text, size_t n) { return (struct json){ .kind = JSON_STRING, .text = text, .n = n }; }

/* The variables with which transformers calls a template: {"messages": [...], "tools": null, "documents": null, "add_generation_prompt":
 * true} */
static bool make_variables(const struct chat *c, struct room *r, struct json *all)
{
    *all = (struct json){ .kind = JSON_OBJECT, .n = 4 };
    struct json **member = &all->first;
    struct json *messages = node(r, &member, "messages", (struct json){ .kind = JSON_ARRAY, .n = c->n_messages });
    node(r, &member, "tools", (struct json){ .kind = JSON_NULL });
    node(r, &member, "documents", (struct json){ .kind = JSON_NULL });
    node(r, &member, "add_generation_prompt", (struct json){ .kind = JSON_TRUE });
    if (r->full) return false;
    struct json **to = &messages->first;
    for (size_t i = 0; i < c->n_messages; i++) {
        const struct message *m = &c->messages[i];
        struct json *o = node(r, &to, NULL, (struct json){ .kind = JSON_OBJECT, .n = 2 + (m->reasoning != NULL) });
        if (!o) return false;
        struct json **field = &o->first;
        node(r, &field, "role", text_node(m->role, strlen(m->role)));
        node(r, &field, "content", text_node(m->text, m->n));
        if (m->reasoning) node(r, &field, "reasoning_content", text_node(m->reasoning, m->n_reasoning));
    }
    return !r->full;
}

/* The text of a token of the vocabulary; NULL: there is no such token. */
static const char *token_text(const uint8_t *vocab, int32_t id, char *out, size_t size)
{
    const size_t n = id < 0 ? size : forge_token_text(vocab, id, true, out, size - 1);
    if (n >= size) return NULL;
    out[n] = 0;
    return out;
}

static int64_t local_seconds(void)
{
    const time_t now = time(NULL);
    struct tm local;
    return (int64_t)now + (localtime_r(&now, &local) ? (int64_t)local.tm_gmtoff : 0);
}

static enum forge_status tokens_of(struct chat *c, const struct chat_text *text, struct forge_error *error)
{
    if (text->n > FORGE_TOK_MAX_BYTES)
        return error_set(error, FORGE_TOO_LONG, "the conversation has %zu bytes and is too long; start a new one", text->n);
    const size_t scratch_bytes = forge_tokenize_scratch(text->n);
    TRY(wanted_room(c, FORGE_TOK_MOST(text->n) + 1, error));
    void *scratch = malloc(scratch_bytes + 1);
    if (!scratch) return no_memory(error);
    const int64_t n = chat_tokenize(c->session->program->vocab, text, c->wanted, c->most_wanted, scratch, scratch_bytes);
    free(scratch);
    if (n < 0) return no_memory(error);
    c->n_wanted = (size_t)n;
    return FORGE_OK;
}

/* Sets `wanted` to the tokens of the conversation; allocates more memory as needed.  FORGE_FAILED: the template refuses the
 * conversation, error says why. */
static enum forge_status want_rendered(struct chat *c, struct forge_error *error)
{
    enum { NODES = 8, NODES_OF_MESSAGE = 4 };
    const uint8_t *vocab = c->session->program->vocab;
    const size_t room = (NODES + NODES_OF_MESSAGE * c->n_messages) * sizeof(struct json);
    struct room nodes = room_of(malloc(room), room);
    struct json all;
    struct chat_text text;
    struct chat_error fault;
    char bos[256], eos[256];
    if (!nodes.bytes) return no_memory(error);
    const bool made = make_variables(c, &nodes, &all);
    const struct chat_input in = { &all, c->template_options, token_text(vocab, forge_vocab_bos(vocab), bos, sizeof bos),
                                   token_text(vocab, forge_vocab_eos(vocab), eos, sizeof eos), local_seconds(), 0, true };
    size_t bytes = room;
    for (size_t i = 0; i < c->n_messages; i++) bytes += c->messages[i].n + c->messages[i].n_reasoning;
    const enum rendering got = made ? render_conversation(c->template, &in, bytes, MOST_BYTES, &text, &fault) : RENDERING_NO_MEMORY;
    free(nodes.bytes);
    if (got == RENDERING_NO_MEMORY) return no_memory(error);
    if (got == RENDERING_TOO_LONG) return error_set(error, FORGE_TOO_LONG, "conversation of %zu bytes", bytes);
    if (got == RENDERING_REFUSED)
        return error_set(error, FORGE_FAILED, fault.fault == CHAT_RAISED ? "the chat template refuses this: %s"
                                                                         : "the chat template fails: %s", fault.text);
    c->n_tail = text.n < sizeof c->tail ? text.n : sizeof c->tail;
    memcpy(c->tail, text.bytes + text.n - c->n_tail, c->n_tail);
    const enum forge_status status = tokens_of(c, &text, error);
    free(text.bytes);
    free(text.input);
    return status;
}

/* ---- plain lines ---- */

/* Sets `wanted` to the held tokens, the token that was drawn but not read, and the turn.  The turn's text is the user's own, who may
 * write the model's format by hand. */
static enum forge_status want_plain(struct chat *c, struct forge_error *error)
{
    const struct forge_options *o = c->session->options;
    const uint8_t *vocab = c->session->program->vocab;
    const struct message *user = &c->messages[c->n_messages - 1];
    const bool first = c->n_held == 0;
    const size_t system = first && c->first ? c->messages[0].n : 0, bytes = system + user->n + TURN_EXTRA;
    if (bytes > FORGE_TOK_MAX_BYTES)
        return error_set(error, FORGE_TOO_LONG, "the turn has %zu bytes and is too long; give a shorter one", bytes);
    const size_t scratch_bytes = forge_tokenize_scratch(bytes);
    TRY(wanted_room(c, c->n_held + 1 + FORGE_TOK_MOST(bytes), error));
    char *text = malloc(bytes);
    void *scratch = malloc(scratch_bytes + 1);
    int64_t n = FORGE_TOK_NO_SCRATCH;
    if (text && scratch) {
        struct text_out out = { text, bytes, 0, false };
        if (!first) text_out_char(&out, '\n');
        if (first && c->first) {
            text_out_put(&out, c->messages[0].text, system);
            text_out_char(&out, '\n');
        }
        text_out_put(&out, user->text, user->n);
        text_out_char(&out, '\n');
        c->n_wanted = c->n_held;
        if (c->n_held) memcpy(c->wanted, c->held, c->n_held * sizeof *c->held);
        if (c->pending >= 0) c->wanted[c->n_wanted++] = c->pending;
        n = forge_tokenize(vocab, text, out.n, FORGE_TOK_SPECIAL | (first && !o->no_bos ? FORGE_TOK_ADD : 0u), c->wanted + c->n_wanted,
                           c->most_wanted - c->n_wanted, scratch, scratch_bytes);
    }
    free(text);
    free(scratch);
    if (n < 0) return no_memory(error);
    c->n_wanted += (size_t)n;
    return FORGE_OK;
}

/* ---- turns ---- */

/* Makes the sequence read `wanted`, reusing the common beginning.  Afterwards `held` is what it has read, even after an interruption. */
static enum forge_status read_wanted(struct chat *c, struct forge_error *error)
{
    struct forge_sequence *sequence = c->session->sequence;
    size_t same = 0;
    while (same < c->n_held && same + 1 < c->n_wanted && c->held[same] == c->wanted[same]) same++;
    if (same < sequence->n_past && !sequence_rewind(sequence, (uint32_t)same)) {
        TRY(sequence_reset(sequence, error));
        same = 0;
    }
    const enum forge_status status = session_prompt(c->session, c->wanted + same, c->n_wanted - same, error);
    c->n_held = sequence->n_past;
    memcpy(c->held, c->wanted, c->n_held * sizeof *c->held);
    return status;
}

/* ---- answers ---- */

struct parts { char *content, *reasoning; size_t n_content, n_reasoning; };        /* room for the whole answer in each */

static void keep_part(void *parts, const struct answer_event *e)
{
    struct parts *p = parts;
    if (e->kind == ANSWER_CONTENT) {
        memcpy(p->content + p->n_content, e->text, e->n);
        p->n_content += e->n;
    } else if (e->kind == ANSWER_REASONING) {
        memcpy(p->reasoning + p->n_reasoning, e->text, e->n);
        p->n_reasoning += e->n;
    }
}

/* Splits the model's text with its marks into content and reasoning_content, as templates call them. */
static bool split(const struct chat *c, const char *text, size_t n, struct parts *parts)
{
    struct answer answer;
    void *room = malloc(ANSWER_ROOM);
    if (!room) return false;
    const struct answer_options o = { .family = chat_family(chat_writes(c->template, false)), .prompt = c->tail, .n_prompt = c->n_tail,
                                      .tell = keep_part, .context = parts, .room = room, .room_bytes = ANSWER_ROOM };
    answer_begin(&answer, &o);
    answer_feed(&answer, text, n);
    answer_end(&answer);
    free(room);
    return true;
}

static enum forge_status keep_answer(struct chat *c, size_t n_drawn, struct forge_error *error)
{
    const uint8_t *vocab = c->session->program->vocab;
    const int32_t *drawn = c->session->heard;
    const bool marks = c->template != NULL;
    size_t n = 0, bytes = 0;
    for (size_t i = 0; i < n_drawn; i++) bytes += forge_token_text(vocab, drawn[i], marks, NULL, 0);
    char *text = malloc(bytes + 1);
    struct parts parts = { malloc(bytes + 1), malloc(bytes + 1), 0, 0 };
    enum forge_status status = text && parts.content && parts.reasoning ? FORGE_OK : no_memory(error);
    if (status == FORGE_OK) {
        for (size_t i = 0; i < n_drawn; i++) n += forge_token_text(vocab, drawn[i], marks, text + n, bytes - n);
        if (!marks) status = chat_add(c, "assistant", text, n, error);
        else if (split(c, text, n, &parts)) status = chat_add(c, "assistant", parts.content, parts.n_content, error);
        else status = no_memory(error);
    }
    if (status == FORGE_OK && parts.n_reasoning > 0) {
        c->messages[c->n_messages - 1].reasoning = parts.reasoning;
        c->messages[c->n_messages - 1].n_reasoning = parts.n_reasoning;
        parts.reasoning = NULL;
    }
    free(text);
    free(parts.content);
    free(parts.reasoning);
    return status;
}

/* Sets `wanted` to the conversation with its last message.  *fits: there is room for an answer; else the message is removed. */
static enum forge_status want(struct chat *c, bool *fits, struct forge_error *error)
{
    const uint32_t n_ctx = c->session->engine->n_ctx;
    *fits = false;
    for (int attempt = 0; ; attempt++) {
        TRY(c->template ? want_rendered(c, error) : want_plain(c, error));
        *fits = c->n_wanted < n_ctx;
        if (*fits) return FORGE_OK;
        if (attempt > 0 || c->n_messages == c->first + 1) break;
        fprintf(stderr, "the context of %u tokens is full: the conversation starts over (%s)\n", n_ctx, engine_longer(c->session->engine));
        messages_forget(c);
        c->n_held = 0;
        c->pending = -1;
        TRY(sequence_reset(c->session->sequence, error));
    }
    fprintf(stderr, "the turn has %zu tokens; the context holds %u (%s)\n", c->n_wanted, n_ctx, engine_longer(c->session->engine));
    messages_drop(c, c->n_messages - 1);
    return FORGE_OK;
}

/* Answers the user's last message. */
static enum forge_status answer(struct chat *c, struct forge_error *error)
{
    struct forge_session *s = c->session;
    const struct forge_options *o = s->options;
    bool fits;
    TRY(want(c, &fits, error));
    if (!fits || c->n_wanted == 0) return FORGE_OK;
    TRY(read_wanted(c, error));
    const uint32_t before = s->sequence->n_past;
    enum forge_ending ending;
    s->out.last = 0;
    TRY(session_generate(s, o->n_predict, o->single_turn, &ending, error));
    if (s->out.last != '\n') TRY(write_all(STDOUT_FILENO, "\n", 1, "stdout", error));
    if (ending == ENDED_CONTEXT) fprintf(stderr, "the context of %u tokens is full (%s)\n", s->engine->n_ctx, engine_longer(s->engine));
    const size_t read = s->sequence->n_past - before;
    memcpy(c->held + c->n_held, s->heard, read * sizeof *c->held);
    c->n_held += read;
    c->pending = s->pending;
    const size_t n = s->n_heard;
    const bool has_end = ending == ENDED_TEXT && n > 0 && vocab_is_end(s->program->vocab, s->heard[n - 1]);
    return keep_answer(c, n - has_end, error);
}

static bool last_is_of_user(const struct chat *c) { return c->n_messages > c->first && c->messages[c->n_messages - 1].role[0] == 'u'; }

/* Answers the user's last message again; if that fails, the previous answer is restored. */
static enum forge_status answer_again(struct chat *c, struct forge_error *error)
{
    struct message before = c->messages[--c->n_messages];
    go_back(c, &c->messages[c->n_messages - 1]);
    const enum forge_status status = answer(c, error);
    if (last_is_of_user(c)) c->messages[c->n_messages++] = before;
    else chat_free_messages(&before, 1);
    return status;
}

enum forge_status chat_turn(struct chat *c, const char *user, struct forge_error *error)
{
    struct forge_session *s = c->session;
    const bool begun = c->n_messages > c->first;
    if (user) TRY(chat_add(c, "user", user, strlen(user), error));
    const enum forge_status status = user ? answer(c, error) : answer_again(c, error);
    const bool cut = status == FORGE_INTERRUPTED || (status == FORGE_OK && *s->stop);
    if (user && status != FORGE_OK && last_is_of_user(c)) chat_take_back(c, c->n_messages - 1);         /* an incomplete turn is removed */
    if (c->options.single_turn) return cut ? error_set(error, FORGE_INTERRUPTED, "interrupted") : status;
    if (status == FORGE_FAILED && c->template && begun) {       /* the template accepted the conversation before this turn */
        fprintf(stderr, "%s\n", error->text);
        return FORGE_OK;
    }
    /* Ctrl-C during an answer ends the answer; the handler itself ends the program at the second one. */
    if (!cut) return status;
    *s->stop = 0;
    return FORGE_OK;
}

/* False at the end of the input, on an error, and on Ctrl-C. */
static bool read_line(char *line, bool terminal)
{
    for (;;) {
        if (terminal) fputs("> ", stderr);
        if (!fgets(line, CHAT_LINE_BYTES, stdin)) return false;
        const size_t n = strcspn(line, "\n");
        const bool whole = line[n] == '\n' || n + 1 < CHAT_LINE_BYTES;
        line[n] = 0;
        if (whole) return true;
        for (int ch = 0; ch != '\n' && ch != EOF;) ch = getchar();
        fprintf(stderr, "a line has more than %d bytes and is ignored; use -f FILE for longer texts\n", CHAT_LINE_BYTES - 1);
    }
}

enum forge_status chat_next_line(struct chat *c, const char **text, struct forge_error *error)
{
    const bool terminal = isatty(STDIN_FILENO);
    *text = read_line(c->line, terminal) ? c->line : NULL;
    if (*text) return FORGE_OK;
    if (*c->session->stop) return error_set(error, FORGE_INTERRUPTED, "interrupted");
    if (ferror(stdin)) return error_set(error, FORGE_FAILED, "cannot read stdin: %s", strerror(errno));
    if (terminal) fputs("\n", stderr);
    return FORGE_OK;
}

static enum forge_status converse(struct chat *c, const char *opening, struct forge_error *error)
{
    for (const char *user = opening;; user = NULL) {
        if (!user) TRY(c->talk ? talk_next(c, &user, error) : chat_next_line(c, &user, error));
        if (!user) return FORGE_OK;
        if (user[0] == 0) continue;
        TRY(chat_turn(c, user, error));
        if (c->options.single_turn) return FORGE_OK;
    }
}

/* Reads --chat-template-kwargs. */
static enum forge_status read_options(struct chat *c, struct forge_error *error)
{
    const char *text = c->options.template_options;
    struct json_error wrong = { NULL, 0 };
    if (!text) return FORGE_OK;
    const size_t n = strlen(text), size = 128 * n + 4096;
    if (!(c->options_memory = malloc(size))) return no_memory(error);
    struct room r = room_of(c->options_memory, size);
    c->template_options = json_read(&r, text, n, &wrong);
    if (!c->template_options)
        return error_set(error, FORGE_USAGE, "--chat-template-kwargs: %s, at byte %zu", wrong.why ? wrong.why : "too long", wrong.at);
    if (c->template_options->kind != JSON_OBJECT) return error_set(error, FORGE_USAGE, "--chat-template-kwargs: the JSON is not an object");
    if (!c->template) fprintf(stderr, "--chat-template-kwargs has no effect: the model has no chat template\n");
    return FORGE_OK;
}

enum forge_status chat_run(struct forge_session *s, const struct forge_bytes *opening, struct forge_error *error)
{
    if (!s->program->vocab) return error_set(error, FORGE_USAGE, "the model has no tokenizer, so it cannot chat");
    struct chat c = { .session = s, .options = *s->options, .template = s->program->chat, .pending = -1 };
    const struct forge_options *o = s->options = &c.options;
    if (c.template && !chat_has(c.template, NULL)) c.template = NULL;
    if (c.options.n_predict < 0) c.options.n_predict = -1;
    c.line = malloc(CHAT_LINE_BYTES);
    c.held = malloc(((size_t)s->engine->n_ctx + 2) * sizeof *c.held);
    s->heard = malloc(((size_t)s->engine->n_ctx + 2) * sizeof *s->heard);
    enum forge_status status = c.line && c.held && s->heard ? FORGE_OK : no_memory(error);
    if (status == FORGE_OK) status = read_options(&c, error);
    if (status == FORGE_OK && talk_open) status = talk_open(&c, error);
    if (status == FORGE_OK && o->system) status = chat_system(&c, o->system, error);
    if (o->verbose && status == FORGE_OK) fprintf(stderr, "chat: %s\n", c.template ? "by the model's template" : "plain lines");
    if (!o->quiet && status == FORGE_OK && isatty(STDIN_FILENO) && !(o->single_turn && opening->bytes))
        fprintf(stderr, "%s: %sCtrl-D ends the chat\n", s->program->model_name, c.talk ? "/help lists the commands, " : "");
    if (status == FORGE_OK) status = converse(&c, opening->bytes, error);
    if (!o->quiet && (status == FORGE_OK || status == FORGE_INTERRUPTED)) session_report(s);
    if (c.talk) status = talk_close(&c, status, error);
    messages_drop(&c, 0);
    free(c.messages);
    free(c.line);
    free(c.held);
    free(c.wanted);
    free(c.options_memory);
    free(s->heard);
    s->heard = NULL;
    s->options = NULL;
    return status;
}
