/* test_base.c -- arena, text, printable, output files and temporaries, errors. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "die_capture.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static struct arena *a;
static char          directory[] = "/tmp/forgec-test-base-XXXXXX";

static const char *in_directory(const char *name) { return arena_printf(a, "%s/%s", directory, name); }

static int setup(void **state)
{
    (void)state;
    a = arena_create();
    return mkdtemp(directory) ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    const char *command[] = { "rm", "-rf", directory, NULL };
    const pid_t child = fork();
    if (child == 0) { execvp(command[0], (char *const *)command); _exit(127); }
    waitpid(child, NULL, 0);
    arena_destroy(a);
    return 0;
}

/* Files in the test's directory. */
static int count_files(const char *pattern)
{
    char command[256];
    snprintf(command, sizeof command, "ls %s | grep -c '%s'", directory, pattern);
    FILE *pipe = popen(command, "r");
    int n = -1;
    assert_int_equal(fscanf(pipe, "%d", &n), 1);
    pclose(pipe);
    return n;
}

static void arena_gives_zeroed_aligned_memory(void **state)
{
    (void)state;
    struct arena *b = arena_create();
    char *before = NULL;
    for (size_t n = 0; n < 3000; n += 7) {
        char *p = arena_alloc(b, n);
        assert_true((uintptr_t)p % 16 == 0);
        assert_ptr_not_equal(p, before);
        for (size_t i = 0; i < n; i++) assert_int_equal(p[i], 0);
        memset(p, 0xff, n);
        before = p;
    }
    char *large = arena_alloc(b, 9 << 20);
    assert_int_equal(large[(9 << 20) - 1], 0);
    large[(9 << 20) - 1] = 1;
    assert_ptr_equal(arena_array(b, uint32_t, 0) == NULL, 0);
    arena_destroy(b);
    arena_destroy(NULL);
}

static void arena_dies_on_overflow(void **state)
{
    (void)state;
    assert_dies(arena_calloc(a, SIZE_MAX / 2, 3), "out of memory");
    assert_dies(arena_alloc(a, SIZE_MAX), "out of memory");
    assert_dies(arena_alloc(a, SIZE_MAX / 2 + 1), "out of memory");
    assert_dies(arena_strndup(a, "x", SIZE_MAX), "out of memory");
    assert_non_null(arena_calloc(a, 0, SIZE_MAX));
}

static void text_grows(void **state)
{
    (void)state;
    struct text t = { .arena = a };
    assert_string_equal(text_str(&t), "");
    text_append(&t, "", 0);
    assert_string_equal(text_str(&t), "");
    for (int i = 0; i < 1000; i++) text_printf(&t, "%03d,", i);
    assert_int_equal(t.size, 4000);
    assert_memory_equal(t.data + 3996, "999,", 5);
    text_puts(&t, "end");
    assert_string_equal(text_str(&t) + 4000, "end");
    assert_string_equal(arena_printf(a, "%s-%d", "a", 7), "a-7");
    assert_string_equal(arena_strndup(a, "abcdef", 3), "abc");
}

static void printable_is_safe(void **state)
{
    (void)state;
    assert_string_equal(printable(a, "plain text 1", 12), "plain text 1");
    assert_string_equal(printable(a, "a\nb\0c\x1b[", 7), "a\\x0Ab\\x00c\\x1B[");
    assert_string_equal(printable(a, "\"'\\", 3), "\\x22\\x27\\x5C");
    assert_string_equal(printable(a, "*/ /* ?" "?/", 9), "*\\x2F /\\x2A ?\\x3F/");
    assert_string_equal(printable(a, "B\xc3\xa4r \xe6\x9e\x97 \xf0\x9f\x90\xbb\x7f", 14), "B\xc3\xa4r \xe6\x9e\x97 \xf0\x9f\x90\xbb\\x7F");
    assert_string_equal(printable(a, "\xc2\x9b" "31m\xe2\x80\xae" "x\xe2\x80\x8b\xe2\x80\xa8\xe2\x81\xa6", 18),
                        "\\xC2\\x9B31m\\xE2\\x80\\xAEx\\xE2\\x80\\x8B\\xE2\\x80\\xA8\\xE2\\x81\\xA6");
    assert_string_equal(printable(a, "\xe4\xc0\x80\xed\xa0\x80\xe6\x9e", 8), "\\xE4\\xC0\\x80\\xED\\xA0\\x80\\xE6\\x9E");
    assert_string_equal(printable(a, "\xef\xbf\xbd", 3), "\xef\xbf\xbd");
    assert_string_equal(printable(a, NULL, 0), "");
    char full[300];
    memset(full, 'x', sizeof full);
    assert_int_equal(strlen(printable(a, full, 200)), 200);
    const char *cut = printable(a, full, 201);
    assert_int_equal(strlen(cut), 200);
    assert_string_equal(cut + 197, "...");
    memset(full, 1, sizeof full);
    cut = printable(a, full, sizeof full);
    assert_true(strlen(cut) <= 200 && strstr(cut, "\\x01..."));
    for (size_t i = 0; i + 1 < sizeof full; i += 2) memcpy(full + i, "\xc3\xa4", 2);
    cut = printable(a, full, sizeof full);             /* never inside a character */
    assert_true(strlen(cut) <= 200 && strstr(cut, "\xc3\xa4..."));
}

static void messages_have_one_line_and_a_place(void **state)
{
    (void)state;
    assert_dies(die("a\nb\r%c", 27), "a?b??");
    assert_dies(die("%s", "x\xc2\x9by\xe2\x80\xaez \xe4 B\xc3\xa4r"), "x?y?z ? B\xc3\xa4r");
    assert_dies(die_at((struct place){ "f\xe2\x80\xae.yaml", 3, 7 }, "bad"), "f?.yaml:3:7: bad");
    assert_dies(die_at((struct place){ "f.yaml", 3, 7 }, "bad"), "f.yaml:3:7: bad");
    assert_dies(die_at((struct place){ "f.yaml", 3, 0 }, "bad"), "f.yaml:3: bad");
    assert_dies(die_at((struct place){ "f.yaml", 0, 0 }, "bad"), "f.yaml: bad");
    assert_dies(die_at((struct place){ 0 }, "bad"), "bad");
    static char long_text[20000];
    memset(long_text, 'x', sizeof long_text - 1);
    assert_dies(die_at((struct place){ long_text, 1, 1 }, "%s", long_text), "xxx");
}

static void outfile_appears_only_when_committed(void **state)
{
    (void)state;
    static struct outfile f;
    const char *path = in_directory("out");
    const mode_t mask = umask(022);
    f = outfile_open(a, path, 0775);
    outfile_write(&f, "head", 4);
    outfile_pad(&f, 10);
    outfile_pad(&f, 100000);
    assert_false(file_exists(path));
    assert_int_equal(f.offset, 100000);
    outfile_write(&f, "t", 1);
    outfile_commit(&f);
    umask(mask);

    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0755);
    const struct bytes b = file_read(a, path);
    assert_int_equal(b.size, 100001);
    assert_memory_equal(b.data, "head\0\0", 6);
    assert_int_equal(b.data[99999], 0);
    assert_int_equal(b.data[100000], 't');
    assert_int_equal(count_files("tmp"), 0);

    f = outfile_open(a, path, 0644);
    outfile_write(&f, "other", 5);
    outfile_discard(&f);
    outfile_discard(&f);
    assert_int_equal(file_read(a, path).size, 100001);
    assert_int_equal(count_files("tmp"), 0);

    f = outfile_open(a, path, 0644);                   /* a pad at the very end counts too */
    outfile_pad(&f, 50000);
    outfile_commit(&f);
    assert_int_equal(file_read(a, path).size, 50000);
}

static void die_removes_temporaries(void **state)
{
    (void)state;
    static struct outfile f;
    f = outfile_open(a, in_directory("dead"), 0644);
    assert_int_equal(count_files("dead.tmp"), 1);
    assert_dies(die("anything"), "anything");
    assert_int_equal(count_files("dead"), 0);
    close(f.fd);
    for (int i = 0; i < 200; i++) {                    /* slots are reused */
        const char *path = in_directory("slot");
        cleanup_unlink_at_exit(path);
        cleanup_forget(path);
    }
}

static void signal_removes_temporaries(void **state)
{
    (void)state;
    static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            cleanup_install_signals();
            outfile_open(a, in_directory("signal"), 0644);
            raise(numbers[i]);
            _exit(0);
        }
        int status = 0;
        waitpid(child, &status, 0);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 128 + numbers[i]);
        assert_int_equal(count_files("signal"), 0);
    }
}

/* A process that waits forever and keeps `held` open; when it ends, other processes see it closed. */
static pid_t start_waiting(const int held[2])
{
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        signal(SIGTERM, SIG_DFL);
        close(held[0]);
        for (;;) pause();
    }
    cleanup_end_at_exit(pid);
    return pid;
}

static void dying_ends_processes(void **state)
{
    (void)state;
    static int held[2];
    int status = 0;
    assert_int_equal(pipe(held), 0);
    const pid_t parent = fork();
    assert_true(parent >= 0);
    if (parent == 0) {
        cleanup_install_signals();
        start_waiting(held);
        raise(SIGTERM);
        _exit(0);
    }
    close(held[1]);
    assert_int_equal(waitpid(parent, &status, 0), parent);
    assert_int_equal(WEXITSTATUS(status), 128 + SIGTERM);
    struct pollfd end = { .fd = held[0], .events = POLLIN };
    assert_int_equal(poll(&end, 1, 10000), 1);
    assert_true(end.revents & POLLHUP);
    close(held[0]);

    assert_int_equal(pipe(held), 0);
    static pid_t waiting;
    waiting = start_waiting(held);
    assert_dies(die("anything"), "anything");
    assert_int_equal(waitpid(waiting, &status, 0), waiting);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    close(held[0]);
    close(held[1]);
}

static void file_errors_name_path_and_reason(void **state)
{
    (void)state;
    assert_dies(file_read(a, "/nowhere/x"), "/nowhere/x: cannot open: No such file");
    assert_dies(file_read(a, directory), "is a directory, not a regular file");
    assert_dies(outfile_open(a, directory, 0644), "is a directory");
    assert_dies(outfile_open(a, "/nowhere/x", 0644), "/nowhere/x: cannot create");
    assert_dies(outfile_open(a, "/dev/null", 0644), "not a regular file");
    static struct outfile full = { .path = "full", .temporary = "full.tmp" };
    full.fd = open("/dev/full", O_WRONLY);             /* writes to it fail with ENOSPC */
    assert_dies(outfile_write(&full, "x", 1), "full: cannot write: No space left on device; free some space");
    const struct bytes status = file_read(a, "/proc/self/status");          /* a file that reports size 0 */
    assert_memory_equal(status.data, "Name:", 5);
}

/* Reading these must neither block nor use up memory. */
static void only_regular_files_are_read(void **state)
{
    (void)state;
    const char *pipe_path = in_directory("pipe"), *socket_path = in_directory("socket"), *grown = in_directory("grown");
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    snprintf(address.sun_path, sizeof address.sun_path, "%s", socket_path);
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
    assert_dies(file_read(a, pipe_path), "/pipe: is a pipe, not a regular file");
    assert_dies(file_read(a, socket_path), "/socket: is a socket, not a regular file");
    assert_dies(file_read(a, "/dev/zero"), "/dev/zero: is a device, not a regular file");
    assert_dies(file_read(a, "/dev/null"), "/dev/null: is a device, not a regular file");
    close(fd);
    file_write(a, grown, bytes_of("12345"));
    assert_int_equal(file_read_most(a, grown, 5).size, 5);
    assert_dies(file_read_most(a, grown, 4), "/grown: has more than 4 bytes");
    assert_dies(file_read_most(a, "/proc/self/status", 20), "has more than 20 bytes");
    assert_int_equal(truncate(grown, (off_t)1 << 40), 0);
    assert_dies(file_read(a, grown), "has more than 268435456 bytes");
}

/* ulimit -f simulates a small disk: the write fails inside a block. */
static void short_disk_leaves_nothing_behind(void **state)
{
    (void)state;
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGXFSZ, SIG_IGN);
        const struct rlimit limit = { 100000, 100000 };
        setrlimit(RLIMIT_FSIZE, &limit);
        fclose(stderr);
        struct outfile f = outfile_open(a, in_directory("small"), 0644);
        static char block[150000];
        outfile_write(&f, block, sizeof block);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
    assert_int_equal(count_files("small"), 0);
}

static void directory_make_makes_parents(void **state)
{
    (void)state;
    const char *path = in_directory("x/y//z");
    directory_make(a, path);
    directory_make(a, path);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_true(S_ISDIR(st.st_mode));
    struct outfile f = outfile_open(a, in_directory("plain"), 0644);
    outfile_commit(&f);
    assert_dies(directory_make(a, in_directory("plain/x")), "is not a directory");
}

static void write_pair(const char *product, const char *weights, char content)
{
    struct outset set = { .n = 0 };
    outfile_write(outset_open(a, &set, product, 0755), &content, 1);
    outfile_write(outset_open(a, &set, weights, 0644), &content, 1);
    outset_commit(a, &set);
}

static char content_of(const char *path) { return (char)file_read(a, path).data[0]; }

static void outset_is_all_or_nothing(void **state)
{
    (void)state;
    const char *product = in_directory("pair"), *weights = in_directory("pair.weights");
    write_pair(product, weights, '1');
    write_pair(product, weights, '2');
    assert_int_equal(content_of(product), '2');
    assert_int_equal(content_of(weights), '2');
    assert_int_equal(count_files("pair"), 2);

    /* The product, which is renamed last, cannot be renamed: the old weights are restored, and new files are removed. */
    static struct outset set;
    set.n = 0;
    const char *blocked = in_directory("pair-blocked"), *fresh = in_directory("pair-fresh");
    outset_open(a, &set, blocked, 0644);
    outset_open(a, &set, fresh, 0644);
    outfile_write(outset_open(a, &set, weights, 0644), "3", 1);
    assert_int_equal(mkdir(blocked, 0777), 0);
    assert_dies(outset_commit(a, &set), "pair-blocked: cannot rename the finished file into place: Is a directory");
    assert_int_equal(content_of(weights), '2');
    assert_false(file_exists(fresh));
    assert_int_equal(rmdir(blocked), 0);
    assert_int_equal(count_files("pair"), 2);
    assert_int_equal(count_files("tmp"), 0);
}

/* Both files must come from the same process, whichever process renames last. */
static void outsets_do_not_mix(void **state)
{
    (void)state;
    const char *product = in_directory("both"), *weights = in_directory("both.weights");
    for (int round = 0; round < 200; round++) {
        int go[2];
        char ready;
        assert_int_equal(pipe(go), 0);
        for (char content = '1'; content <= '2'; content++)
            if (fork() == 0) {
                close(go[1]);
                if (read(go[0], &ready, 1) != 0) _exit(1);
                write_pair(product, weights, content);
                _exit(0);
            }
        close(go[0]);
        close(go[1]);
        for (int i = 0, status; i < 2; i++) {
            wait(&status);
            assert_int_equal(status, 0);
        }
        assert_int_equal(content_of(product), content_of(weights));
    }
    assert_int_equal(count_files("both"), 2);
}

static void an_output_replaces_no_input(void **state)
{
    (void)state;
    const char *input = in_directory("in"), *hard = in_directory("in-hard"), *soft = in_directory("in-soft"),
        *other = in_directory("in-other");
    file_write(a, input, bytes_of("model"));
    assert_int_equal(link(input, hard), 0);
    assert_int_equal(symlink(input, soft), 0);
    struct arena *b = arena_create();
    file_write(b, other, bytes_of("x"));
    input_remember(b, input);
    const char *const wrong[] = { input, hard, soft, arena_printf(a, "%s/../%s/in", directory, strrchr(directory, '/') + 1) };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        assert_dies(outfile_open(b, wrong[i], 0644), "the output would replace the input");
        assert_dies(output_claim(b, wrong[i]), "the output would replace the input");
    }
    file_write(b, other, bytes_of("y"));
    output_claim(b, other);
    output_claim(b, in_directory("in-new"));
    assert_dies(output_claim(b, in_directory("./in-new")), "would be the name of two outputs");
    assert_dies(output_claim(b, other), "would be the name of two outputs");
    outputs_forget(b);
    output_check(b, other);
    assert_string_equal((const char *)file_read(a, hard).data, "model");
    assert_int_equal(count_files("tmp"), 0);
    arena_destroy(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arena_gives_zeroed_aligned_memory), cmocka_unit_test(arena_dies_on_overflow),
        cmocka_unit_test(text_grows),                        cmocka_unit_test(printable_is_safe),
        cmocka_unit_test(messages_have_one_line_and_a_place), cmocka_unit_test(outfile_appears_only_when_committed),
        cmocka_unit_test(outset_is_all_or_nothing), cmocka_unit_test(outsets_do_not_mix), cmocka_unit_test(an_output_replaces_no_input),
        cmocka_unit_test(die_removes_temporaries),           cmocka_unit_test(signal_removes_temporaries),
        cmocka_unit_test(dying_ends_processes),
        cmocka_unit_test(file_errors_name_path_and_reason),  cmocka_unit_test(short_disk_leaves_nothing_behind),
        cmocka_unit_test(only_regular_files_are_read),
        cmocka_unit_test(directory_make_makes_parents),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
