/* talk.c -- a chat on a terminal: edited lines, commands, saved conversations. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "line.h"
#include "saved.h"

enum { MOST_WORDS = 32 };

struct talk {
    struct line *line;               /* NULL: lines are not edited */
    bool  terminal;                  /* somebody types: commands are available */
    bool  open, ends, warned;        /* warned: that the next Ctrl-C ends the chat */
    int   signal;                    /* to raise after everything is saved */
    char *path;                      /* path for /save without a name, owned; NULL: none */
    const char *words[MOST_WORDS];   /* for Tab, NULL-terminated */
};

static enum forge_status no_memory(struct forge_error *error) { return error_set(error, FORGE_NO_MEMORY, "out of memory for the chat"); }

/* A failed command prints its error, and the chat continues. */
static void tell(enum forge_status status, const struct forge_error *error)
{
    if (status != FORGE_OK) fprintf(stderr, "%s\n", error->text);
}

/* ---- what the session keeps in addition to the conversation ---- */

/* Makes a new sampler, because its options or the tokens of the conversation have changed. */
static enum forge_status renew_sampler(struct chat *c, bool reseed, struct forge_error *error)
{
    struct forge_session *s = c->session;
    struct forge_sampler *fresh;
    TRY(sampler_open(&fresh, &c->options.sample, s->program->n_vocab, s->engine->n_ctx, error));
    if (!reseed) *sampler_random(fresh) = *sampler_random(s->sampler);
    for (size_t i = 0; i < c->n_held; i++) sampler_accept(fresh, c->held[i]);
    sampler_close(s->sampler);
    s->sampler = fresh;
    return FORGE_OK;
}

/* Shows the last question and its answer to a user who continues a conversation. */
static void show_last(const struct chat *c)
{
    struct forge_stream out;
    stream_open(&out, STDERR_FILENO);
    out.visible = true;
    const size_t n = c->n_messages, from = n > c->first + 2 ? n - 2 : c->first;
    if (from > c->first) fputs("...\n", stderr);
    for (size_t i = from; i < n; i++) {
        const struct message *m = &c->messages[i];
        if (m->role[0] == 'u') fputs("> ", stderr);
        if (stream_write(&out, m->text, m->n, NULL) != FORGE_OK || stream_end(&out, NULL) != FORGE_OK) return;
        if (m->n == 0 || m->text[m->n - 1] != '\n') fputs("\n", stderr);
    }
}

/* "FILE: 3 messages", then what happened to them. */
static void tell_messages(const struct chat *c, const char *path)
{
    char shown[256];
    text_escape(shown, sizeof shown, path);
    fprintf(stderr, "%s: %zu messages", shown, c->n_messages);
}

static enum forge_status load(struct chat *c, const char *path, struct forge_error *error)
{
    char note[256], shown[256];
    const enum forge_status status = saved_read(c, path, note, error);
    if (status != FORGE_OK) return status;
    text_escape(shown, sizeof shown, note);
    if (shown[0] != 0) fprintf(stderr, "%s\n", shown);
    TRY(renew_sampler(c, false, error));
    if (!c->options.quiet) {
        tell_messages(c, path);
        fprintf(stderr, ", %zu tokens read\n", c->n_held);
    }
    if (c->talk->terminal) show_last(c);
    return FORGE_OK;
}

static enum forge_status save(struct chat *c, const char *path, bool with_states, struct forge_error *error)
{
    if (saved_is_other(path))
        return error_set(error, FORGE_BAD_OUTPUT, "%s is not a saved conversation and will not be replaced", path);
    TRY(saved_write(c, path, with_states, error));
    if (!c->options.quiet) {
        tell_messages(c, path);
        fputs(" saved\n", stderr);
    }
    return FORGE_OK;
}

/* ---- commands ---- */

static enum forge_status do_set(struct chat *c, const char *name, const char *value)
{
    struct forge_error error;
    struct forge_options changed = c->options;
    changed.seed_given = false;
    enum forge_status status = *value == 0 ? error_set(&error, FORGE_USAGE, "%s needs a value: /set %s VALUE", name, name)
                                           : options_change(&changed, name, value, &error);
    const bool reseed = changed.seed_given || strcmp(name, "seed") == 0;
    if (status == FORGE_OK && reseed && !changed.seed_given) status = error_set(&error, FORGE_USAGE, "seed: a number from 0 on");
    if (status == FORGE_OK) {
        changed.seed_given |= c->options.seed_given;
        c->options = changed;
        status = renew_sampler(c, reseed, &error);
    }
    tell(status, &error);
    return FORGE_OK;
}

static enum forge_status command_set(struct chat *c, char *argument, struct forge_error *error)
{
    (void)error;
    if (*argument == 0) {
        options_list_changes(stderr, &c->options);
        return FORGE_OK;
    }
    const size_t n = strcspn(argument, " ");
    char *value = argument + n + strspn(argument + n, " ");
    argument[n] = 0;
    return do_set(c, argument, value);
}

static enum forge_status command_system(struct chat *c, char *argument, struct forge_error *error)
{
    if (*argument != 0) return chat_system(c, strcmp(argument, "-") == 0 ? NULL : argument, error);
    fprintf(stderr, "%s\n", c->first ? c->messages[0].text : "no system message");
    return FORGE_OK;
}

static enum forge_status command_regenerate(struct chat *c, char *argument, struct forge_error *error)
{
    (void)argument;
    const size_t n = c->n_messages;
    if (n >= c->first + 2 && c->messages[n - 1].role[0] == 'a' && c->messages[n - 2].role[0] == 'u') return chat_turn(c, NULL, error);
    fputs("there is no answer yet\n", stderr);
    return FORGE_OK;
}

static enum forge_status command_undo(struct chat *c, char *argument, struct forge_error *error)
{
    (void)argument, (void)error;
    size_t from = c->n_messages;
    while (from > c->first && c->messages[from - 1].role[0] != 'u') from--;
    if (from == c->first) {
        fputs("there is no turn to take back\n", stderr);
        return FORGE_OK;
    }
    chat_take_back(c, from - 1);
    fprintf(stderr, "the last turn is taken back: %zu messages\n", c->n_messages);
    return FORGE_OK;
}

static enum forge_status command_clear(struct chat *c, char *argument, struct forge_error *error)
{
    (void)argument;
    chat_take_back(c, c->first);
    c->n_held = 0;
    c->pending = -1;
    TRY(sequence_reset(c->session->sequence, error));
    TRY(renew_sampler(c, false, error));
    fputs("a new conversation\n", stderr);
    return FORGE_OK;
}

/* Replaces ~/ like a shell; from malloc, NULL: out of memory. */
static char *path_of(const char *argument)
{
    const char *home = argument[0] == '~' && argument[1] == '/' ? getenv("HOME") : NULL;
    const size_t n = (home ? strlen(home) : 0) + strlen(argument) + 1;
    char *path = malloc(n);
    if (path) snprintf(path, n, "%s%s", home ? home : "", home ? argument + 1 : argument);
    return path;
}

static enum forge_status command_save(struct chat *c, char *argument, struct forge_error *error)
{
    struct talk *t = c->talk;
    struct forge_error wrong;
    if (*argument != 0) {
        char *path = path_of(argument);
        if (!path) return no_memory(error);
        free(t->path);
        t->path = path;
    }
    if (t->path) tell(save(c, t->path, true, &wrong), &wrong);
    else fputs("where? /save FILE\n", stderr);
    return FORGE_OK;
}

static enum forge_status command_load(struct chat *c, char *argument, struct forge_error *error)
{
    struct forge_error wrong;
    char *path = *argument != 0 ? path_of(argument) : NULL;
    if (*argument != 0 && !path) return no_memory(error);
    if (path) tell(load(c, path, &wrong), &wrong);
    else fputs("what? /load FILE\n", stderr);
    free(path);
    return FORGE_OK;
}

static enum forge_status command_stats(struct chat *c, char *argument, struct forge_error *error)
{
    (void)argument, (void)error;
    session_report(c->session);
    fprintf(stderr, "%zu messages, %u of %u tokens of the context\n", c->n_messages, c->session->sequence->n_past,
            c->session->engine->n_ctx);
    return FORGE_OK;
}

static enum forge_status command_exit(struct chat *c, char *argument, struct forge_error *error)
{
    (void)argument, (void)error;
    c->talk->ends = true;
    return FORGE_OK;
}

static enum forge_status command_help(struct chat *c, char *argument, struct forge_error *error);

/* help NULL: another name of the previous command. */
static const struct command {
    const char *name, *argument, *help;
    enum forge_status (*run)(struct chat *c, char *argument, struct forge_error *error);
} commands[] = {
    { "/system", "TEXT", "sets the system message; -: removes it; without TEXT: shows it", command_system },
    { "/set", "NAME VALUE", "sets an option of sampling, or the length of answers; without NAME: shows all; /NAME VALUE is the same",
      command_set },
    { "/regenerate", "", "another answer instead of the last one", command_regenerate },
    { "/undo", "", "takes back the last turn", command_undo },
    { "/clear", "", "a new conversation", command_clear },
    { "/save", "FILE", "saves the conversation in a file; without FILE: the file of --save, or of the last /save", command_save },
    { "/load", "FILE", "continues the conversation saved in a file", command_load },
    { "/stats", "", "speed, and how full the context is", command_stats },
    { "/help", "", "this text", command_help },
    { "/exit", "", "ends the chat, as Ctrl-D does", command_exit },
    { "/quit", "", NULL, command_exit },
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static enum forge_status command_help(struct chat *c, char *argument, struct forge_error *error)
{
    (void)argument, (void)error;
    for (int i = 0; i < N_COMMANDS; i++) {
        char left[32];
        snprintf(left, sizeof left, "%s %s", commands[i].name, commands[i].argument);
        if (commands[i].help) fprintf(stderr, "  %-18s %s\n", left, commands[i].help);
    }
    fputs("//text says /text to the model. ", stderr);
    fputs(c->talk->line ? "Alt-Enter, or \\ before Enter: another line; Ctrl-C ends an answer; Ctrl-R searches what was typed.\n"
                        : "Ctrl-C ends an answer.\n", stderr);
    return FORGE_OK;
}

/* line: begins with a slash; it is changed. */
static enum forge_status run_command(struct chat *c, char *line, struct forge_error *error)
{
    const size_t n = strcspn(line, " \n");
    char *argument = line + n + strspn(line + n, " \n");
    for (size_t end = strlen(argument); end > 0 && argument[end - 1] == ' ';) argument[--end] = 0;
    line[n] = 0;
    for (int i = 0; i < N_COMMANDS; i++) if (strcmp(commands[i].name, line) == 0) return commands[i].run(c, argument, error);
    if (options_can_change(line + 1)) return do_set(c, line + 1, argument);
    fprintf(stderr, "no such command; /help lists them, and //text says /text to the model\n");
    return FORGE_OK;
}

/* ---- lines ---- */

/* *text NULL: the end, or a signal. */
static enum forge_status edited_line(struct chat *c, const char **text, struct forge_error *error)
{
    struct talk *t = c->talk;
    for (;;) {
        switch (line_read(t->line, "> ", text, &t->signal)) {
        case LINE_TEXT: t->warned = false; return FORGE_OK;
        case LINE_ENDED: case LINE_SIGNAL: *text = NULL; return FORGE_OK;
        case LINE_INTERRUPTED:
            if (t->warned) return error_set(error, FORGE_INTERRUPTED, "interrupted");
            t->warned = true;
            fputs("Ctrl-C again ends the chat; so do Ctrl-D and /exit\n", stderr);
        }
    }
}

enum forge_status talk_next(struct chat *c, const char **text, struct forge_error *error)
{
    struct talk *t = c->talk;
    for (;;) {
        TRY(t->line ? edited_line(c, text, error) : chat_next_line(c, text, error));
        if (!*text || !t->terminal || (*text)[0] != '/') return FORGE_OK;
        if ((*text)[1] == '/') {
            ++*text;
            return FORGE_OK;
        }
        char *line = strdup(*text);
        const enum forge_status status = line ? run_command(c, line, error) : no_memory(error);
        free(line);
        if (status != FORGE_OK) return status;
        if (t->ends) {
            *text = NULL;
            return FORGE_OK;
        }
    }
}

/* ---- the whole chat ---- */

/* A path that cannot be written is reported before the chat, not after hours of it. */
static enum forge_status check_save(const char *path, struct forge_error *error)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    struct stat st;
    const bool there = stat(path, &st) == 0, good = folder && access(folder, W_OK | X_OK) == 0 && (!there || access(path, W_OK) == 0);
    free(folder);
    if (!good) return error_set(error, FORGE_BAD_OUTPUT, "--save: %s cannot be written", path);
    if (saved_is_other(path)) return error_set(error, FORGE_FAILED, "--save: %s is not a saved conversation", path);
    return FORGE_OK;
}

static enum forge_status load_asked(struct chat *c, struct forge_error *error)
{
    const char *from = c->options.load_path, *to = c->options.save_path;
    struct stat st;
    if (to) TRY(check_save(to, error));
    if (to && !(c->talk->path = strdup(to))) return no_memory(error);
    if (!from && to && stat(to, &st) == 0 && st.st_size > 0) from = to;
    return from ? load(c, from, error) : FORGE_OK;
}

enum forge_status talk_open(struct chat *c, struct forge_error *error)
{
    struct talk *t = c->talk = calloc(1, sizeof *t);
    if (!t) return no_memory(error);
    t->terminal = isatty(STDIN_FILENO);
    c->session->out.visible = isatty(STDOUT_FILENO);
    for (int i = 0; i < N_COMMANDS; i++) t->words[i] = commands[i].name;
    _Static_assert((int)N_COMMANDS < (int)MOST_WORDS, "NULL after them");
    TRY(load_asked(c, error));
    if (line_possible()) TRY(line_open(&t->line, c->options.history_path, t->words, error));
    t->open = true;
    return FORGE_OK;
}

enum forge_status talk_close(struct chat *c, enum forge_status status, struct forge_error *error)
{
    struct talk *t = c->talk;
    const bool well = status == FORGE_OK || status == FORGE_INTERRUPTED;
    if (t->open && c->options.save_path && c->n_messages > c->first) {
        struct forge_error wrong;
        const enum forge_status saved = save(c, c->options.save_path, well, &wrong);
        if (well && saved != FORGE_OK) {
            status = saved;
            *error = wrong;
        } else tell(saved, &wrong);
    }
    const int number = t->signal;
    line_close(t->line);
    free(t->path);
    free(t);
    c->talk = NULL;
    if (number != 0) raise(number);
    return status;
}
