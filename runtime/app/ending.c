/* ending.c -- when a signal ends the program, no half-written file stays, and a message says if weights could not be read. */
#include "ending.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "runtime/run/status.h"

enum { LINE_BYTES = 4096 + 512 };

static const char *program = "program";
static const char *_Atomic unfinished;                       /* to remove */
static void (*_Atomic terminal)(void);                       /* restores the terminal */
static _Atomic uintptr_t watched_begin, watched_end;
static char line[LINE_BYTES];                                /* the message about the watched memory */
static int line_bytes;

void ending_removes(const char *path) { unfinished = path; }

void ending_restores(void (*restore)(void)) { terminal = restore; }

void ending_run(void)
{
    void (*const restore)(void) = terminal;
    if (restore) restore();
    const char *path = unfinished;
    if (path) unlink(path);
}

void ending_watch(const void *begin, size_t bytes, const char *path)
{
    watched_begin = watched_end = 0;
    if (bytes == 0) return;
    line_bytes = snprintf(line, sizeof line,
                          "%s: the weights cannot be read any more: the file was cut short, or its disk fails: "
                          "copy or build it again: %s\n",
                          program, path);
    if (line_bytes >= LINE_BYTES) line[(line_bytes = LINE_BYTES - 1) - 1] = '\n';
    watched_begin = (uintptr_t)begin;
    watched_end = (uintptr_t)begin + bytes;
}

static void end_by_default(int number)
{
    ending_run();
    signal(number, SIG_DFL);
    raise(number);
}

static void on_bus(int number, siginfo_t *info, void *context)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;
    const uintptr_t at = (uintptr_t)info->si_addr;
    (void)context;
    if (info->si_code <= 0 || at < watched_begin || at >= watched_end) {          /* sent by a process, or a fault elsewhere */
        end_by_default(number);
        return;
    }
    while (atomic_flag_test_and_set(&told)) pause();         /* another thread ends the process */
    ending_run();
    if (write(STDERR_FILENO, line, (size_t)line_bytes) < 0) _exit(FORGE_BAD_WEIGHTS);
    _exit(FORGE_BAD_WEIGHTS);
}

void ending_install(const char *name)
{
    static const int numbers[] = { SIGTERM, SIGHUP, SIGQUIT };
    program = name;
    struct sigaction action = { .sa_handler = end_by_default }, old;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        /* a SIGHUP ignored by nohup stays ignored */
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL) sigaction(numbers[i], &action, NULL);
    action = (struct sigaction){ .sa_sigaction = on_bus, .sa_flags = SA_SIGINFO };
    sigaction(SIGBUS, &action, NULL);
}
