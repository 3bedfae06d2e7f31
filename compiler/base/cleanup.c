/* cleanup.c -- removes temporary files and ends child processes if forgec ends early: by an error, a signal, or a mapped file that was
 * truncated. */
#include "internal.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { CLEANUP_MAX = 256, PROCESS_MAX = 256 };
static char *volatile cleanup_path[CLEANUP_MAX];      /* NULL = free slot; read by the signal handler */
static volatile sig_atomic_t process[PROCESS_MAX];    /* 0 = free slot; read by the signal handler */

/* ---- the folder for tools ---- */

static char tools_path[4096];
static volatile sig_atomic_t tools_folder;            /* it exists */

/* Removes the files of a folder; async-signal-safe, unlike readdir(). */
static void folder_empty(const char *path)
{
    enum { LENGTH_AT = 16, NAME_AT = 19 };            /* in struct linux_dirent64: see getdents64(2) */
    _Alignas(uint64_t) char list[4096];
    const int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    long n;
    while (folder >= 0 && (n = syscall(SYS_getdents64, folder, list, sizeof list)) > 0)
        for (long at = 0; at < n; ) {
            uint16_t length;
            memcpy(&length, list + at + LENGTH_AT, sizeof length);
            if (unlinkat(folder, list + at + NAME_AT, 0)) { }        /* "." and ".." cannot be removed */
            at += length;
        }
    if (folder >= 0) close(folder);
}

static void tools_folder_remove(void)                 /* async-signal-safe */
{
    enum { TRIES = 100 };                             /* of 2 ms: tools that have just been ended may still write */
    for (int i = 0; tools_folder && i < TRIES; i++) {
        folder_empty(tools_path);
        if (rmdir(tools_path) == 0) tools_folder = 0;
        else poll(NULL, 0, 2);
    }
    tools_folder = 0;
}

const char *tools_folder_path(void)
{
    static bool registered;
    const char *parent = getenv("TMPDIR");
    if (tools_folder) return tools_path;
    const int n = snprintf(tools_path, sizeof tools_path, "%s/forgec.XXXXXX", parent && *parent ? parent : "/tmp");
    if (n < 0 || (size_t)n >= sizeof tools_path || !mkdtemp(tools_path)) return NULL;
    tools_folder = 1;
    if (!registered) atexit(tools_folder_remove);
    registered = true;
    return tools_path;
}

/* ---- files and processes ---- */

static void cleanup_run(void)                         /* async-signal-safe */
{
    for (size_t i = 0; i < PROCESS_MAX; i++) if (process[i]) kill((pid_t)process[i], SIGTERM);
    tools_folder_remove();
    for (size_t i = CLEANUP_MAX; i-- > 0; )           /* backwards: a directory is registered before its files */
        if (cleanup_path[i] && unlink(cleanup_path[i])) rmdir(cleanup_path[i]);
}

void cleanup_run_and_forget(void)
{
    cleanup_run();
    for (size_t i = 0; i < CLEANUP_MAX; i++) {
        char *path = cleanup_path[i];
        cleanup_path[i] = NULL;
        free(path);
    }
    for (size_t i = 0; i < PROCESS_MAX; i++) process[i] = 0;
}

void cleanup_end_at_exit(int pid)
{
    size_t i = 0;
    while (i < PROCESS_MAX && process[i]) i++;
    if (i < PROCESS_MAX) process[i] = pid;
}

void cleanup_ended(int pid)
{
    for (size_t i = 0; i < PROCESS_MAX; i++) if (process[i] == pid || process[i] == -pid) process[i] = 0;
}

void cleanup_unlink_at_exit(const char *path)
{
    char *copy = strdup(path);
    for (size_t i = 0; copy && i < CLEANUP_MAX; i++) {
        if (cleanup_path[i]) continue;
        cleanup_path[i] = copy;
        return;
    }
    if (unlink(path)) rmdir(path);                    /* nothing else would remove it */
    if (!copy) die_memory(strlen(path));
    die("%s: more than %d temporary files at once; this is a mistake in forgec, please report it", path, CLEANUP_MAX);
}

void cleanup_forget(const char *path)
{
    for (size_t i = 0; i < CLEANUP_MAX; i++) {
        char *found = cleanup_path[i];
        if (!found || strcmp(found, path) != 0) continue;
        cleanup_path[i] = NULL;                       /* before free(): a signal may come between the two */
        free(found);
        return;
    }
}

/* ---- signals ---- */

static const int cleanup_signals[] = { SIGINT, SIGTERM, SIGHUP };
static bool stderr_is_terminal;

static void on_signal(int number)
{
    cleanup_run();
    if (number == SIGINT && stderr_is_terminal && write(STDERR_FILENO, "\n", 1) < 0) { }     /* after the terminal's ^C */
    _exit(128 + number);
}

struct mapping {
    struct mapping *next;
    const char     *message;        /* ready to be written: a signal handler cannot format text */
    uintptr_t       begin, end;
};
static struct mapping *_Atomic mappings;

void mapping_remember(const char *path, const void *data, size_t size)
{
    enum { LINE_MAX = 8192 };
    char line[LINE_MAX];
    snprintf(line, sizeof line - 1,
             "forgec: error: %s: cannot be read any more: the file was cut short, or its disk fails; try again when it is whole", path);
    make_one_line(line);
    strcat(line, "\n");
    struct mapping *m = malloc(sizeof *m);
    char *message = strdup(line);
    if (!m || !message) die_memory(sizeof line);
    *m = (struct mapping){ .next = mappings, .message = message, .begin = (uintptr_t)data, .end = (uintptr_t)data + size };
    mappings = m;
}

static void on_bus(int number, siginfo_t *info, void *context)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;
    const uintptr_t at = (uintptr_t)info->si_addr;
    const struct mapping *m = info->si_code > 0 ? mappings : NULL;        /* else another process sent the signal */
    (void)context;
    while (m && (at < m->begin || at >= m->end)) m = m->next;
    if (m) while (atomic_flag_test_and_set(&told)) pause();                /* another thread ends the process */
    cleanup_run();
    if (m && write(STDERR_FILENO, m->message, strlen(m->message)) < 0) _exit(EXIT_FAILURE);
    if (m) _exit(EXIT_FAILURE);
    signal(number, SIG_DFL);
    raise(number);
}

void cleanup_install_signals(void)
{
    struct sigaction bus = { .sa_sigaction = on_bus, .sa_flags = SA_SIGINFO };
    sigfillset(&bus.sa_mask);
    sigaction(SIGBUS, &bus, NULL);
    struct sigaction action = { .sa_handler = on_signal }, old;
    stderr_is_terminal = isatty(STDERR_FILENO);
    sigfillset(&action.sa_mask);
    for (size_t i = 0; i < COUNT_OF(cleanup_signals); i++) {
        if (sigaction(cleanup_signals[i], NULL, &old) == 0 && old.sa_handler == SIG_IGN) continue;   /* nohup */
        sigaction(cleanup_signals[i], &action, NULL);
    }
}

sigset_t signals_block(void)
{
    sigset_t block, old;
    sigemptyset(&block);
    for (size_t i = 0; i < COUNT_OF(cleanup_signals); i++) sigaddset(&block, cleanup_signals[i]);
    sigprocmask(SIG_BLOCK, &block, &old);
    return old;
}
