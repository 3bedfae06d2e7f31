/* spawn.c -- posix_spawnp with memory files for standard input, output and error. */
#include "spawn.h"
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

struct running { pid_t pid; int output, messages; struct spawn_job *job; int *file_fds; };

static int memory_file(struct bytes content)
{
    int fd = memfd_create("forgec", MFD_CLOEXEC);
    if (fd < 0) die("cannot create a memory file: %s", strerror(errno));
    for (size_t done = 0; done < content.size;) {
        ssize_t n = write(fd, content.data + done, content.size - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) die("cannot fill a memory file: %s", strerror(errno));
        done += (size_t)n;
    }
    if (lseek(fd, 0, SEEK_SET) < 0) die("cannot rewind a memory file: %s", strerror(errno));
    return fd;
}

/* Reads a whole memory file and closes it; a NUL follows the data. */
static struct bytes memory_take(struct arena *a, int fd)
{
    struct stat st;
    if (fstat(fd, &st)) die("cannot read a memory file: %s", strerror(errno));
    const size_t size = (size_t)st.st_size;
    uint8_t     *data = arena_alloc(a, size + 1);
    for (size_t done = 0; done < size;) {
        ssize_t n = pread(fd, data + done, size - done, (off_t)done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) die("cannot read a memory file: %s", n ? strerror(errno) : "it shrank");
        done += (size_t)n;
    }
    close(fd);
    return (struct bytes){ data, size };
}

static void put_quoted(struct text *t, const char *s)
{
    if (*s && strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789@%+=:,./_-") == strlen(s)) {
        text_puts(t, s);
        return;
    }
    text_puts(t, "'");
    for (; *s; s++)
        if (*s == '\'') text_puts(t, "'\\''");
        else            text_append(t, s, 1);
    text_puts(t, "'");
}

const char *spawn_find(struct arena *a, const char *name)
{
    if (strchr(name, '/')) return access(name, X_OK) ? NULL : name;
    const char *path = getenv("PATH");
    if (!path) path = "/usr/local/bin:/usr/bin:/bin";
    while (*path) {
        const size_t length = strcspn(path, ":");
        const char  *full = length ? arena_printf(a, "%.*s/%s", (int)length, path, name) : name;
        struct stat  st;
        if (!stat(full, &st) && S_ISREG(st.st_mode) && !access(full, X_OK)) return full;
        path += length + (path[length] == ':');
    }
    return NULL;
}

char **spawn_environment(struct arena *a)
{
    static const char *const kept[] = { "PATH", "TMPDIR", "LD_LIBRARY_PATH" };
    const char *folder = tools_folder_path();
    char **list = arena_array(a, char *, COUNT_OF(kept) + 2);
    size_t n = 0;
    for (size_t i = 0; i < COUNT_OF(kept); i++) {
        const char *value = folder && strcmp(kept[i], "TMPDIR") == 0 ? folder : getenv(kept[i]);
        if (value) list[n++] = arena_printf(a, "%s=%s", kept[i], value);
    }
    list[n++] = arena_strdup(a, "LC_ALL=C");
    list[n] = NULL;
    return list;
}

const char *spawn_line(struct arena *a, const struct spawn_job *job)
{
    struct text t = { .arena = a };
    for (size_t i = 0; job->argv[i]; i++) {
        if (i) text_puts(&t, " ");
        put_quoted(&t, job->argv[i]);
    }
    if (job->input)       { text_puts(&t, " < "); put_quoted(&t, job->input->name); }
    if (job->output_name) { text_puts(&t, " > "); put_quoted(&t, job->output_name); }
    return text_str(&t);
}

/* Tools see data as /proc/self/fd/N; messages get the names that users know. */
static const char *names_restored(struct arena *a, const struct spawn_job *job, const int *fds, const char *messages)
{
    struct text t = { .arena = a };
    static const char prefix[] = "/proc/self/fd/";
    while (*messages) {
        const char *hit = strstr(messages, prefix);
        if (!hit) break;
        text_append(&t, messages, (size_t)(hit - messages));
        unsigned number = 0;
        int      used = 0;
        const char *name = NULL;
        if (sscanf(hit + sizeof prefix - 1, "%u%n", &number, &used) == 1) {
            if (number == STDIN_FILENO && job->input) name = job->input->name;
            for (size_t k = 0; k < job->n_files && !name; k++)
                if (fds[k] >= 0 && (unsigned)fds[k] == number) name = job->files[k].name;
        }
        text_puts(&t, name ? name : prefix);
        messages = hit + sizeof prefix - 1 + (name ? used : 0);
    }
    text_puts(&t, messages);
    return text_str(&t);
}

static void start(struct arena *a, struct running *r, struct spawn_job *job)
{
    size_t argc = 0;
    while (job->argv[argc]) argc++;
    char **argv = arena_array(a, char *, argc + 1);
    int   *fds = arena_array(a, int, job->n_files + 1);
    posix_spawn_file_actions_t actions;
    int error = posix_spawn_file_actions_init(&actions);

    const int input = memory_file(job->input ? job->input->data : (struct bytes){ NULL, 0 });
    *r = (struct running){ .output = memory_file((struct bytes){ NULL, 0 }), .messages = memory_file((struct bytes){ NULL, 0 }),
                           .job = job, .file_fds = fds };
    for (size_t k = 0; k < job->n_files; k++) {
        fds[k] = memory_file(job->files[k].data);
        /* duplicating onto itself clears close-on-exec, only in the child */
        if (!error) error = posix_spawn_file_actions_adddup2(&actions, fds[k], fds[k]);
    }
    for (size_t i = 0; i < argc; i++) {
        argv[i] = arena_strdup(a, job->argv[i]);
        for (size_t k = 0; k < job->n_files; k++)
            if (job->argv[i] == job->files[k].name) argv[i] = arena_printf(a, "/proc/self/fd/%d", fds[k]);
    }
    if (!error) error = posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    if (!error) error = posix_spawn_file_actions_adddup2(&actions, r->output, STDOUT_FILENO);
    if (!error) error = posix_spawn_file_actions_adddup2(&actions, r->messages, STDERR_FILENO);
    /* A compiler starts further processes, which a signal to the compiler alone would leave running: it gets a group of its own. */
    posix_spawnattr_t attributes;
    if (!error) error = posix_spawnattr_init(&attributes);
    if (!error) {
        posix_spawnattr_setflags(&attributes, job->is_tool ? POSIX_SPAWN_SETPGROUP : 0);
        error = posix_spawnp(&r->pid, argv[0], &actions, &attributes, argv, job->is_tool ? spawn_environment(a) : environ);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    close(input);
    for (size_t k = 0; k < job->n_files; k++) close(fds[k]);
    if (!error) cleanup_end_at_exit(job->is_tool ? -r->pid : r->pid);
    else {
        r->pid = 0;
        close(r->output);
        close(r->messages);
        job->status = -1;
        job->start_errno = error;
        job->messages = strerror(error);
        job->output = (struct bytes){ NULL, 0 };
    }
}

static void finish(struct arena *a, struct running *r, int wait_status)
{
    r->job->status = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
    r->job->output = memory_take(a, r->output);
    r->job->messages = names_restored(a, r->job, r->file_fds, (const char *)memory_take(a, r->messages).data);
    r->pid = 0;
}

void spawn_run(struct arena *a, const struct spawn_options *options, struct spawn_job *jobs, size_t n_jobs)
{
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    size_t     slots = options->jobs ? options->jobs : online > 0 ? (size_t)online : 1;
    if (slots > n_jobs) slots = n_jobs;
    struct running *running = arena_array(a, struct running, slots + 1);
    size_t next = 0, active = 0;
    while (next < n_jobs || active) {
        for (size_t s = 0; s < slots && next < n_jobs; s++) {
            if (running[s].pid) continue;
            struct spawn_job *job = &jobs[next++];
            if (options->verbose || options->dry_run) fprintf(stderr, "%s\n", spawn_line(a, job));
            if (options->dry_run) {
                job->status = -2;
                job->messages = "";
                job->output = (struct bytes){ NULL, 0 };
                continue;
            }
            start(a, &running[s], job);
            if (running[s].pid) active++;
        }
        if (!active) continue;
        int   status;
        pid_t pid = waitpid(-1, &status, 0);
        if (pid < 0 && errno == EINTR) continue;
        if (pid < 0) die("lost a child process: %s", strerror(errno));
        cleanup_ended(pid);
        for (size_t s = 0; s < slots; s++)
            if (running[s].pid == pid) {
                finish(a, &running[s], status);
                active--;
            }
    }
}
