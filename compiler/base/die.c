/* die.c -- errors and warnings: one line on stderr, with its place. */
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void (*die_handler)(const char *message);
void (*warn_handler)(const char *message);

enum { MESSAGE_MAX = 8192 };

static void format_message(char out[MESSAGE_MAX], struct place at, const char *fmt, va_list args)
{
    int used = 0;
    if (at.file && at.line && at.column) used = snprintf(out, MESSAGE_MAX, "%s:%u:%u: ", at.file, at.line, at.column);
    else if (at.file && at.line)         used = snprintf(out, MESSAGE_MAX, "%s:%u: ", at.file, at.line);
    else if (at.file)                    used = snprintf(out, MESSAGE_MAX, "%s: ", at.file);
    else if (at.line)                    used = snprintf(out, MESSAGE_MAX, "line %u: ", at.line);
    if (used < 0) used = 0;
    if (used > MESSAGE_MAX - 1) used = MESSAGE_MAX - 1;
    vsnprintf(out + used, (size_t)(MESSAGE_MAX - used), fmt, args);
    make_one_line(out);
}

static bool progress_shown;

void progress_line(const char *fmt, ...)
{
    char text[200] = "";                               /* longer than a line of a terminal */
    if ((!fmt && !progress_shown) || !isatty(STDERR_FILENO)) return;
    if (fmt) {
        va_list args;
        va_start(args, fmt);
        vsnprintf(text, sizeof text, fmt, args);
        va_end(args);
    }
    progress_shown = *text != 0;
    fprintf(stderr, "\r\033[K%s", text);
}

static _Noreturn void die_message(const char *message)
{
    cleanup_run_and_forget();
    progress_line(NULL);
    if (die_handler) {
        die_handler(message);
        abort();                                       /* a handler must not return */
    }
    fprintf(stderr, "forgec: error: %s\n", message);
    exit(EXIT_FAILURE);
}

void die(const char *fmt, ...)
{
    char message[MESSAGE_MAX];
    va_list args;
    va_start(args, fmt);
    format_message(message, (struct place){ 0 }, fmt, args);
    va_end(args);
    die_message(message);
}

void die_at(struct place at, const char *fmt, ...)
{
    char message[MESSAGE_MAX];
    va_list args;
    va_start(args, fmt);
    format_message(message, at, fmt, args);
    va_end(args);
    die_message(message);
}

void warn(const char *fmt, ...)
{
    char message[MESSAGE_MAX];
    va_list args;
    va_start(args, fmt);
    format_message(message, (struct place){ 0 }, fmt, args);
    va_end(args);
    /* verify and compare build a model several times: a repeated warning is printed only once. */
    enum { KEPT = 32 };
    static char *said[KEPT];
    static size_t n_said;
    if (warn_handler) { warn_handler(message); return; }
    progress_line(NULL);
    for (size_t i = 0; i < n_said; i++) if (strcmp(said[i], message) == 0) return;
    if (n_said < KEPT && (said[n_said] = strdup(message)) != NULL) n_said++;
    fprintf(stderr, "forgec: warning: %s\n", message);
}
