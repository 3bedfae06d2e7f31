/* test_stream.c -- for pieces of any size, a write to the stream never ends inside a UTF-8 sequence. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <signal.h>
#include <string.h>
#include <fcntl.h>
#include <unistd.h>

#include "runtime/app/options.h"
#include "runtime/text/stream.h"

static int pipe_ends[2];

static size_t drain(char *to)
{
    const ssize_t n = read(pipe_ends[0], to, 256);
    return n > 0 ? (size_t)n : 0;
}

static void expect(const char *pieces[], size_t n, const char *seen[], const char *end)
{
    struct forge_stream s;
    struct forge_error error;
    char got[256];
    stream_open(&s, pipe_ends[1]);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(stream_write(&s, pieces[i], strlen(pieces[i]), &error), FORGE_OK);
        const size_t length = drain(got);
        assert_int_equal(length, strlen(seen[i]));
        assert_memory_equal(got, seen[i], length);
    }
    assert_int_equal(stream_end(&s, &error), FORGE_OK);
    const size_t length = drain(got);
    assert_int_equal(length, strlen(end));
    assert_memory_equal(got, end, length);
}
#define EXPECT(end, ...)                                                                                                                   \
    do { static const char *x_[][2] = { __VA_ARGS__ }; const char *p_[8], *s_[8]; size_t n_ = sizeof x_ / sizeof x_[0];                    \
    for (size_t i_ = 0; i_ < n_; i_++) { p_[i_] = x_[i_][0]; s_[i_] = x_[i_][1]; } expect(p_, n_, s_, end); } while (0)

static void test_utf8(void **state)
{
    (void)state;
    EXPECT("", { "hello", "hello" });
    EXPECT("", { "\xc3", "" }, { "\xa4", "\xc3\xa4" });
    EXPECT("", { "a\xf0\x9f", "a" }, { "\x98", "" }, { "\x80!", "\xf0\x9f\x98\x80!" });
    EXPECT("", { "\xe2\x82\xac\xe2", "\xe2\x82\xac" }, { "\x82\xac\xc3", "\xe2\x82\xac" }, { "\xa4", "\xc3\xa4" });
    EXPECT("\xef\xbf\xbd", { "x\xe2\x82", "x" });                    /* the text ends inside a sequence */
    EXPECT("", { "\xe2", "" }, { "abc", "\xe2" "abc" });             /* not a sequence: the bytes are unchanged */
    EXPECT("", { "\xff\x80\xc0", "\xff\x80\xc0" });
    EXPECT("\xef\xbf\xbd", { "\xe2", "" }, { "\xe2", "\xe2" });
}

/* Control characters of one and of two bytes are shown as text, so that a terminal does not execute them. */
static void test_visible(void **state)
{
    (void)state;
    static const char *const texts[][2] = { { "a\x1b[2Jb\n\tc\x7f", "a^[[2Jb\n\tc^?" },
                                             { "\xc2\x80\xc2\x9b\xc2\x9f\xc2\xa0\xc3\xa4", "^[@^[[^[_\xc2\xa0\xc3\xa4" } };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct forge_stream s;
        struct forge_error error;
        char got[256];
        stream_open(&s, pipe_ends[1]);
        s.visible = true;
        assert_int_equal(stream_write(&s, texts[i][0], strlen(texts[i][0]), &error), FORGE_OK);
        const size_t length = drain(got);
        assert_int_equal(length, strlen(texts[i][1]));
        assert_memory_equal(got, texts[i][1], length);
    }
}

static void test_failure(void **state)
{
    (void)state;
    struct forge_stream s;
    struct forge_error error = { "" };
    const int fd = open("/dev/full", O_WRONLY);
    if (fd < 0) skip();
    stream_open(&s, fd);
    assert_int_equal(stream_write(&s, "x", 1, &error), FORGE_BAD_OUTPUT);
    assert_non_null(strstr(error.text, "No space left"));
    close(fd);
}

static void test_unescape(void **state)
{
    (void)state;
    char text[] = "a\\n\\t\\x41\\\\\\q\\x4";
    const size_t n = unescape(text);
    assert_string_equal(text, "a\n\tA\\\\q\\x4");
    assert_int_equal(n, strlen(text));
}

static void test_numbers(void **state)
{
    (void)state;
    int32_t x[4];
    assert_int_equal(parse_numbers("1, 2\n3", 6, 0, 9, x, 4), 3);
    assert_int_equal(x[2], 3);
    assert_int_equal(parse_numbers("", 0, 0, 9, x, 4), 0);
    assert_int_equal(parse_numbers("10", 2, 0, 9, x, 4), NUMBERS_WRONG);
    assert_int_equal(parse_numbers("-1", 2, 0, 9, x, 4), NUMBERS_WRONG);
    assert_int_equal(parse_numbers("3, 1x", 5, 0, 9, x, 4), NUMBERS_WRONG - 3);
    assert_int_equal(parse_numbers("99999999999999999999", 20, 0, INT32_MAX, x, 4), NUMBERS_WRONG);
    assert_int_equal(parse_numbers("1 2 3 4 5", 9, 0, 9, x, 4), NUMBERS_TOO_MANY);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    if (pipe(pipe_ends) != 0 || fcntl(pipe_ends[0], F_SETFL, O_NONBLOCK) != 0) return 1;
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_utf8), cmocka_unit_test(test_visible), cmocka_unit_test(test_failure),
                                        cmocka_unit_test(test_unescape), cmocka_unit_test(test_numbers) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
