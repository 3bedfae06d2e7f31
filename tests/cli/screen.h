/* screen.h -- runs a program on a pseudo-terminal: a test sends keys and reads the screen, cell by cell. */
#ifndef FORGEC_SCREEN_H
#define FORGEC_SCREEN_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "runtime/chat/text.h"

enum { SCREEN_ROWS = 60, SCREEN_COLUMNS = 200, SCREEN_ARGUMENTS = 24 };

struct screen {
    int    master, slave;            /* slave: kept open, so that the terminal stays after the program's end */
    pid_t  pid;
    int    rows, columns, row, column;
    bool   wraps;                    /* the cursor is after the last column */
    bool   pastes;                   /* bracketed paste is on */
    uint32_t cells[SCREEN_ROWS][SCREEN_COLUMNS];                 /* 0: the second half of a wide character */
    char   pending[64];              /* [n_pending]: an incomplete escape sequence */
    size_t n_pending;
    char  *all;                      /* [n_all]: every byte of the program's output */
    size_t n_all;
    struct termios before;
};

static double screen_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void screen_clear(struct screen *s, int row, int column)
{
    for (; row < s->rows; row++, column = 0)
        for (; column < s->columns; column++) s->cells[row][column] = ' ';
}

static void screen_newline(struct screen *s)
{
    if (s->row + 1 < s->rows) {
        s->row++;
        return;
    }
    memmove(s->cells[0], s->cells[1], sizeof s->cells[0] * (size_t)(s->rows - 1));
    screen_clear(s, s->rows - 1, 0);
}

static int screen_width(uint32_t c) { return c >= 0x300 && c < 0x370 ? 0 : (c >= 0x3000 && c < 0xd7a4) || c >= 0x1f300 ? 2 : 1; }

static void screen_put(struct screen *s, uint32_t c)
{
    const int width = screen_width(c);
    if (width == 0) return;
    if (s->wraps || s->column + width > s->columns) {
        s->column = 0;
        screen_newline(s);
    }
    s->wraps = false;
    s->cells[s->row][s->column] = c;
    if (width == 2) s->cells[s->row][s->column + 1] = 0;
    s->column += width;
    if (s->column == s->columns) {
        s->column--;
        s->wraps = true;
    }
}

/* Executes a complete sequence such as "\033[12A".  False: this terminal does not know it. */
static bool screen_sequence(struct screen *s, const char *text, char final)
{
    const int n = atoi(text + 2), by = n > 0 ? n : 1;
    s->wraps = false;
    switch (final) {
    case 'A': s->row = s->row > by ? s->row - by : 0; return true;
    case 'B': s->row = s->row + by < s->rows ? s->row + by : s->rows - 1; return true;
    case 'C': s->column = s->column + by < s->columns ? s->column + by : s->columns - 1; return true;
    case 'H': s->row = s->column = 0; return true;
    case 'J': screen_clear(s, n == 2 ? 0 : s->row, n == 2 ? 0 : s->column); return true;
    case 'h': case 'l':
        s->pastes = final == 'h';
        return strncmp(text, "\033[?2004", 7) == 0;
    default: return false;
    }
}

/* Processes one byte of output. */
static void screen_byte(struct screen *s, char byte)
{
    char *p = s->pending;
    p[s->n_pending++] = byte;
    p[s->n_pending] = 0;
    const unsigned char first = (unsigned char)p[0];
    const size_t n = s->n_pending;
    if (first == 27) {
        if (n < 3 || (n < sizeof s->pending - 2 && !((byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z')))) return;
        if (!screen_sequence(s, p, byte)) {
            fprintf(stderr, "a sequence that no text may have: ESC%s\n", p + 1);
            exit(1);
        }
    } else if (first == '\r') {
        s->column = 0;
        s->wraps = false;
    } else if (first == '\n') {
        screen_newline(s);
        s->wraps = false;
    } else if (first >= 0x80) {
        const size_t want = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
        if (n < want) return;
        uint32_t c = first & (0xffu >> (want + 1));
        for (size_t i = 1; i < want; i++) c = c << 6 | (p[i] & 63);
        screen_put(s, c);
    } else if (first >= 32) screen_put(s, first);
    s->n_pending = 0;
}

/* Reads output for up to `milliseconds`; false: there was no output. */
static bool screen_read(struct screen *s, int milliseconds)
{
    char bytes[4096];
    struct pollfd from = { .fd = s->master, .events = POLLIN };
    if (poll(&from, 1, milliseconds) <= 0) return false;
    const ssize_t n = read(s->master, bytes, sizeof bytes);
    if (n <= 0) return false;
    s->all = realloc(s->all, s->n_all + (size_t)n + 1);
    memcpy(s->all + s->n_all, bytes, (size_t)n);
    s->n_all += (size_t)n;
    s->all[s->n_all] = 0;
    for (ssize_t i = 0; i < n; i++) screen_byte(s, bytes[i]);
    return true;
}

static void screen_resize(struct screen *s, int rows, int columns)
{
    const struct winsize size = { .ws_row = (unsigned short)rows, .ws_col = (unsigned short)columns };
    s->rows = rows;
    s->columns = columns;
    ioctl(s->master, TIOCSWINSZ, &size);
}

/* Changes of size are as in xterm: rows are not wrapped again, and the text stays in its cells. */
static void screen_open(struct screen *s, int rows, int columns)
{
    memset(s, 0, sizeof *s);
    s->master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    grantpt(s->master);
    unlockpt(s->master);
    screen_resize(s, rows, columns);
    screen_clear(s, 0, 0);
    s->slave = open(ptsname(s->master), O_RDWR | O_NOCTTY | O_CLOEXEC);
    tcgetattr(s->slave, &s->before);
}

/* Runs the program in its own process group, under a minimal shell that stops when the program stops, and continues it on SIGUSR1. */
static void screen_shell(char **arguments)
{
    signal(SIGTTOU, SIG_IGN);
    sigset_t usr1;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    sigprocmask(SIG_BLOCK, &usr1, NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        tcsetpgrp(0, getpid());
        signal(SIGTTOU, SIG_DFL);
        sigprocmask(SIG_UNBLOCK, &usr1, NULL);
        execv(arguments[0], arguments);
        _exit(127);
    }
    setpgid(pid, pid);
    tcsetpgrp(0, pid);
    for (int status, number;;) {
        if (waitpid(pid, &status, WUNTRACED) < 0) _exit(126);
        if (WIFEXITED(status)) _exit(WEXITSTATUS(status));
        if (WIFSIGNALED(status)) _exit(128 + WTERMSIG(status));
        struct termios now;
        tcgetattr(0, &now);
        tcsetpgrp(0, getpgrp());
        dprintf(1, now.c_lflag & ICANON ? "[stopped]\r\n" : "[stopped, and raw]\r\n");
        sigwait(&usr1, &number);
        tcsetpgrp(0, pid);
        kill(-pid, SIGCONT);
    }
}

static void screen_start(struct screen *s, char **arguments)
{
    s->pid = fork();
    if (s->pid != 0) return;
    const int slave = dup(s->slave);
    setsid();
    ioctl(slave, TIOCSCTTY, 0);
    for (int fd = 0; fd < 3; fd++) dup2(slave, fd);
    close(slave);
    screen_shell(arguments);
}

static void screen_type(struct screen *s, const char *keys, size_t n)
{
    while (n > 0) {
        const ssize_t written = write(s->master, keys, n);
        if (written <= 0) return;
        keys += written;
        n -= (size_t)written;
    }
}

/* A row of the screen without trailing blanks. */
static const char *screen_row(const struct screen *s, int row)
{
    static char text[4 * SCREEN_COLUMNS + 1];
    size_t n = 0, end = 0;
    for (int i = 0; i < s->columns; i++) {
        const uint32_t c = s->cells[row][i];
        if (c == 0) continue;
        n += text_put_codepoint(text + n, c);
        if (c != ' ') end = n;
    }
    text[end] = 0;
    return text;
}

#endif
