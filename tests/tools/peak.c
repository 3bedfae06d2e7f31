/* peak.c -- peak FILE COMMAND...: runs the command, writes the largest resident set of its process, in MiB, into FILE, and ends with its
 * exit code.  wait4() would also count the processes that it starts (compilers); this counts only the process itself. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The kernel's high-water mark; the last reading misses at most the last few milliseconds.  0: the process has ended. */
static unsigned long high_water(pid_t child)
{
    char path[64], line[256];
    unsigned long kib = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)child);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) if (strncmp(line, "VmHWM:", 6) == 0) kib = strtoul(line + 6, NULL, 10);
    if (f) fclose(f);
    return kib;
}

int main(int argc, char **argv)
{
    unsigned long most = 0;
    int status;
    if (argc < 3) return 2;
    const pid_t child = fork();
    if (child < 0) return 2;
    if (child == 0) {
        execvp(argv[2], argv + 2);
        fprintf(stderr, "%s: %s\n", argv[2], strerror(errno));
        _exit(127);
    }
    while (waitpid(child, &status, WNOHANG) == 0) {
        const unsigned long now = high_water(child);
        if (now > most) most = now;
        nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
    }
    FILE *f = fopen(argv[1], "w");
    if (!f || fprintf(f, "%lu\n", (most + 1023) / 1024) < 0 || fclose(f) != 0) return 2;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
