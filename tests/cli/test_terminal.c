/* test_terminal.c -- the terminal of a chat: types keys on a terminal and checks the screen, the conversation and the terminal's state at
 * the end.
 *   test_terminal FAKE_PROGRAM              its answers are lower case letters and blanks
 *   test_terminal PROGRAM template          a program with a chat template and a model of stories: the differences with a template */
#include <stdarg.h>
#include <sys/stat.h>

#include "screen.h"

static const char *program;
static char        folder[] = "/tmp/test_terminal.XXXXXX";
static const char *test = "";
static int         failed, checks;
static struct screen s;

__attribute__((format(printf, 1, 2))) static void bad(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "FAILED %s: ", test);
    vfprintf(stderr, format, args);
    fprintf(stderr, "; on the screen:\n");
    va_end(args);
    for (int i = 0; i < s.rows; i++) if (*screen_row(&s, i) || i == s.row) fprintf(stderr, "  %2d|%s\n", i, screen_row(&s, i));
    fprintf(stderr, "  cursor: row %d, column %d\n", s.row, s.column);
    failed++;
}

static const char *path(const char *name)
{
    static char text[4][128];
    static int next;
    char *to = text[next++ % 4];
    snprintf(to, sizeof text[0], "%s/%s", folder, name);
    return to;
}

static char *file_text(const char *name)
{
    static char text[1 << 16];
    FILE *f = fopen(path(name), "rb");
    const size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f) fclose(f);
    text[n] = 0;
    return text;
}

/* ---- actions and expectations ---- */

static void begin(const char *name, int rows, int columns, ...)
{
    char *arguments[SCREEN_ARGUMENTS] = { (char *)(uintptr_t)program, "-q", "-i", "-n", "8", "--temp", "0" };
    size_t n = 7;
    va_list args;
    va_start(args, columns);
    while ((arguments[n] = va_arg(args, char *)) != NULL) n++;
    va_end(args);
    test = name;
    screen_open(&s, rows, columns);
    screen_start(&s, arguments);
}

static void type(const char *keys) { screen_type(&s, keys, strlen(keys)); }

static const double PATIENCE = 20;               /* seconds; a wait that takes this long has failed */

static bool row_is(int row, const char *text) { return strcmp(screen_row(&s, row), text) == 0; }

static bool has(const char *text)
{
    for (int i = 0; i < s.rows; i++) if (strstr(screen_row(&s, i), text)) return true;
    return false;
}

/* Waits until the cursor is in this row and column, the end of a prompt or a text, and the row has this text. */
static void sees(int row, int column, const char *text)
{
    const double end = screen_now() + PATIENCE;
    checks++;
    while ((s.row != row || s.column != column || !row_is(row, text)) && screen_now() < end) screen_read(&s, 50);
    if (s.row != row || s.column != column || !row_is(row, text)) bad("row %d, column %d: '%s' wanted", row, column, text);
}

static void row(int number, const char *text)
{
    checks++;
    if (!row_is(number, text)) bad("row %d: '%s' wanted", number, text);
}

static void waits(const char *text)
{
    const double end = screen_now() + PATIENCE;
    checks++;
    while (!has(text) && screen_now() < end) screen_read(&s, 50);
    if (!has(text)) bad("'%s' wanted", text);
}

/* Waits for this output, which may have scrolled out of the screen. */
static void waits_bytes(const char *text)
{
    const double end = screen_now() + PATIENCE;
    checks++;
    while (!(s.all && strstr(s.all, text)) && screen_now() < end) screen_read(&s, 50);
    if (!s.all || !strstr(s.all, text)) bad("'%s' wanted", text);
}

/* Waits for an empty prompt: the answer is complete. */
static void waits_prompt(void)
{
    const double end = screen_now() + PATIENCE;
    checks++;
    while ((!row_is(s.row, ">") || s.column != 2) && screen_now() < end) screen_read(&s, 50);
    if (!row_is(s.row, ">") || s.column != 2) bad("a prompt wanted");
}

/* Types the text and waits for the prompt after its answer. */
static void says(const char *text)
{
    type(text);
    type("\r");
    const size_t before = s.n_all;
    const double end = screen_now() + PATIENCE;
    while (!strstr(s.all ? s.all + before : "", "\n") && screen_now() < end) screen_read(&s, 50);
    waits_prompt();
}

/* The program ends with this code (128 + a signal), and the terminal's settings are restored. */
static void ends(int wanted)
{
    const double end = screen_now() + PATIENCE;
    int status = 0;
    pid_t pid;
    while ((pid = waitpid(s.pid, &status, WNOHANG)) == 0 && screen_now() < end) screen_read(&s, 10);
    while (screen_read(&s, 0)) { }
    checks += 3;
    if (pid == 0) {
        bad("it does not end");
        kill(s.pid, SIGKILL);
        waitpid(s.pid, NULL, 0);
    }
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    if (code != wanted) bad("exit code %d, wanted %d", code, wanted);
    struct termios now;
    tcgetattr(s.slave, &now);
    if (now.c_lflag != s.before.c_lflag || now.c_iflag != s.before.c_iflag) bad("the terminal is left raw");
    if (s.pastes) bad("bracketed paste is left on");
    close(s.slave);
    close(s.master);
    free(s.all);
}

static pid_t program_pid(void) { return tcgetpgrp(s.master); }

static void history_is(const char *text)
{
    checks++;
    if (strcmp(file_text("history"), text) != 0) bad("the history is '%s', wanted '%s'", file_text("history"), text);
    unlink(path("history"));
}

/* ---- editing ---- */

static void begin_typing(const char *name, int rows, int columns)
{
    begin(name, rows, columns, "--history", path("history"), NULL);
    sees(0, 2, ">");
}

static void ends_with_history(const char *text)
{
    type("\004");
    ends(0);
    history_is(text);
}

static void test_editing(void)
{
    begin_typing("editing", 24, 60);
    type("one two three");                               sees(0, 15, "> one two three");
    type("\033[D\033[D\177");                            sees(0, 12, "> one two thee");
    type("r");                                           sees(0, 13, "> one two three");
    type("\001X");                                       sees(0, 3, "> Xone two three");
    type("\033[3~\005Y");                                sees(0, 16, "> Xne two threeY");
    type("\033b\033b");                                  sees(0, 6, "> Xne two threeY");
    type("\027");                                        sees(0, 2, "> two threeY");
    type("\033[1;5C\013");                               sees(0, 5, "> two");
    type("\031\033OH\033[F");                            sees(0, 12, "> two threeY");
    type("\033\177");                                    sees(0, 6, "> two");
    type("\031\001\033d");                               sees(0, 2, ">  threeY");
    type("\004\006\002\025");                            sees(0, 2, "> threeY");
    type("\005\025");                                    sees(0, 2, ">");
    type("ab\002\002\013\031\031");                      sees(0, 6, "> abab");
    type("\014");                                        sees(0, 6, "> abab");
    type("\033[99;99R\033]l title\033\\\033P1$r0m\033\\c");
    sees(0, 7, "> ababc");                               /* a terminal's replies are not text */
    says("");
    type("d\001");                                       sees(s.row, 2, "> d");
    type("\003");                                        waits_prompt();
    ends_with_history("ababc\n");
}

static void test_characters(void)
{
    begin_typing("characters", 24, 20);
    type("a\xc3\xa9");                                   sees(0, 4, "> a\xc3\xa9");
    type("\xe6\x97\xa5\xe6\x9c\xac");                    sees(0, 8, "> a\xc3\xa9\xe6\x97\xa5\xe6\x9c\xac");
    type("\033[D\033[Dx");                               sees(0, 5, "> a\xc3\xa9x\xe6\x97\xa5\xe6\x9c\xac");
    type("\005" "e\xcc\x81" "f");                        sees(0, 11, "> a\xc3\xa9x\xe6\x97\xa5\xe6\x9c\xac" "ef");
    type("\177\177");                                    sees(0, 9, "> a\xc3\xa9x\xe6\x97\xa5\xe6\x9c\xac");      /* with its accent */
    type("\xff\x80" "\x16");
    sees(0, 11, "> a\xc3\xa9x\xe6\x97\xa5\xe6\x9c\xac\xef\xbf\xbd\xef\xbf\xbd");
    type("\177\177");
    /* a wide character that does not fit into the row is in the next row */
    type("0123456789\xe6\x97\xa5");                      sees(1, 2, "\xe6\x97\xa5");
    row(0, "> a\xc3\xa9x\xe6\x97\xa5\xe6\x9c\xac" "0123456789");
    says("");
    type("\004");                                        /* between a text and its prompt it would not be a key */
    ends(0);
    history_is("a\xc3\xa9x\xe6\x97\xa5\xe6\x9c\xac" "0123456789\xe6\x97\xa5\n");
}

static void test_long_lines(void)
{
    begin_typing("long lines", 6, 20);
    type("abcdefghijklmnopqr");                          sees(1, 0, "");
    row(0, "> abcdefghijklmnopqr");
    type("stuvwxyz0123456789");                          sees(1, 18, "stuvwxyz0123456789");
    type("\001!");                                       sees(0, 3, "> !abcdefghijklmnopq");
    row(1, "rstuvwxyz0123456789");
    type("\005ABCDEFGHIJKLMNOPQRSTUVWXYZ");              sees(3, 5, "VWXYZ");
    type("\033[D\033[D\033[D");                          sees(3, 2, "VWXYZ");
    screen_resize(&s, 6, 30);                            sees(2, 2, "VWXYZ");
    row(0, "> !abcdefghijklmnopqrstuvwxyz0");
    screen_resize(&s, 6, 10);                            sees(5, 2, "VWXYZ");        /* seven rows: the first has scrolled out */
    row(0, "hijklmnopq");
    type("\001");                                        sees(0, 2, "> !abcdefg");
    row(5, "LMNOPQRSTU");
    screen_resize(&s, 6, 40);                            sees(0, 2, "> !abcdefghijklmnopqrstuvwxyz0123456789A");
    row(1, "BCDEFGHIJKLMNOPQRSTUVWXYZ");
    row(2, "");
    type("\r");                                          waits_prompt();
    ends_with_history("!abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ\n");
}

static void test_lines(void)
{
    begin_typing("several lines", 24, 40);
    type("one\\\rtwo\033\rthree");                       sees(2, 7, "  three");
    row(0, "> one");
    row(1, "  two");
    type("\033[A\033[A\033[D!\033[B");                   sees(1, 5, "  two");
    row(0, "> on!e");
    type("\033[200~a\tb\r\nc\033[31md\033[201~.");       sees(2, 8, "  c31md.");      /* pasted text has no keys */
    row(1, "  twoa    b");
    row(3, "  three");
    type("\033[13;2u;\r");                               waits_prompt();
    type("\033[A");                                      sees(10, 7, "  three");
    type("\003");                                        waits_prompt();
    says("x\\ ");
    ends_with_history("on!e\\ntwoa\tb\\nc31md.\\n;\\nthree\nx\\\\ \n");
}

static void test_paste(void)
{
    static char text[(1 << 20) + 5000];
    begin("a paste that is too long", 24, 40, NULL);
    sees(0, 2, ">");
    for (size_t i = 0; i < sizeof text; i++) text[i] = i % 50 == 49 ? '\n' : 'a';
    type("\033[200~");
    for (size_t at = 0; at < sizeof text; at += 1000) {
        screen_type(&s, text + at, sizeof text - at < 1000 ? sizeof text - at : 1000);
        screen_read(&s, 0);
    }
    type("\033[201~");
    waits_bytes("the rest is left out");
    type("\003");                                        waits_prompt();
    says("b");
    type("\004");
    ends(0);
}

static void test_history(void)
{
    FILE *f = fopen(path("history"), "w");
    fprintf(f, "first\ntwo\\nlines\n\\\\n\n\n\033[2J\xff\n");
    fclose(f);
    begin_typing("history", 24, 40);
    type("new\033[A");                                   sees(0, 8, "> ^[[2J\xef\xbf\xbd");
    type("\033[A");                                      sees(0, 4, "> \\n");
    type("\020");                                        sees(1, 7, "  lines");
    type("\033[A\033[A");                                sees(0, 7, "> first");
    type("\033[A");                                      sees(0, 7, "> first");
    type("\033[B\033[B\016\016");                        sees(0, 5, "> new");
    type("\022i");                                       sees(1, 18, "             lines");
    type("rs");                                          waits("(search 'irs') first");
    type("\007");                                        sees(0, 5, "> new");
    type("\022ir\033[D!");                               sees(0, 7, "> firs!t");
    says("");
    type("firs");                                        sees(s.row, 6, "> firs");
    type("\003");
    waits_prompt();
    type("\022zzz");                                     waits("(not found: 'zzz')");
    type("\177\177\177fi\r");                            waits("> firs!t");
    waits_prompt();
    ends_with_history("first\ntwo\\nlines\n\\\\n\n\n\033[2J\xff\nfirs!t\n");

    f = fopen(path("history"), "w");
    for (int i = 0; i < 3000; i++) fprintf(f, "text %d\n", i);
    fclose(f);
    begin_typing("a long history", 24, 40);
    type("\033[A");                                      sees(0, 11, "> text 2999");
    type("\003\004");
    ends(0);
    checks++;
    if (strncmp(file_text("history"), "text 2000\n", 10) != 0) bad("the file keeps all");
    unlink(path("history"));
}

/* ---- ends ---- */

static void test_ends(void)
{
    begin("Ctrl-C twice", 24, 60, NULL);
    sees(0, 2, ">");
    type("a\003");                                       sees(1, 2, ">");
    row(0, "> a^C");
    type("\003");                                        waits("Ctrl-C again ends the chat");
    waits_prompt();
    says("hello");                                       /* after it Ctrl-C only warns again */
    type("\003");                                        sees(s.row + 2, 2, ">");
    type("\003");
    ends(130);

    begin("Ctrl-D", 24, 60, NULL);
    sees(0, 2, ">");
    type("ab\001\004\004\004");
    ends(0);

    static const int numbers[] = { SIGTERM, SIGHUP, SIGQUIT };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        begin("a signal at the prompt", 24, 60, "--save", path("kept"), NULL);
        sees(0, 2, ">");
        says("hello");
        type("half");                                    sees(s.row, 6, "> half");
        kill(program_pid(), numbers[i]);
        ends(128 + numbers[i]);
        checks++;
        if (access(path("kept"), R_OK) != 0) bad("it did not save the conversation");
        unlink(path("kept"));
    }
    setenv("FORGE_SLOW", "1", 1);
    begin("a signal in an answer", 24, 60, "-n", "-1", "--ignore-eos", NULL);
    sees(0, 2, ">");
    type("hello\r");
    const double end = screen_now() + PATIENCE;
    while (*screen_row(&s, 1) == 0 && screen_now() < end) screen_read(&s, 50);
    kill(program_pid(), SIGTERM);
    ends(128 + SIGTERM);
    unsetenv("FORGE_SLOW");
}

static void test_stops(void)
{
    for (int i = 0; i < 3; i++) {
        begin(i == 0 ? "Ctrl-Z" : i == 1 ? "SIGTSTP" : "SIGSTOP", 24, 60, NULL);
        sees(0, 2, ">");
        type("abc\002");                                 sees(0, 4, "> abc");
        if (i == 0) type("\032");
        else kill(-program_pid(), i == 1 ? SIGTSTP : SIGSTOP);
        waits(i < 2 ? "[stopped]" : "[stopped, and raw]");
        if (i == 2) tcsetattr(s.slave, TCSANOW, &s.before);      /* as shells do */
        kill(s.pid, SIGUSR1);
        const double end = screen_now() + PATIENCE;
        while ((s.column != (i < 2 ? 5 : 4) || !row_is(s.row, "> abc")) && screen_now() < end) screen_read(&s, 50);
        type("d");
        waits(i < 2 ? "> abcd" : "> abdc");
        type("\003\004");
        ends(0);
    }
}

/* Ctrl-C in an answer: the text so far stays, and the chat continues. */
static void test_interrupt(void)
{
    setenv("FORGE_SLOW", "1", 1);
    begin("Ctrl-C in an answer", 24, 60, "-n", "-1", "--ignore-eos", "--save", path("kept"), NULL);
    sees(0, 2, ">");
    type("hello\r");
    const double end = screen_now() + PATIENCE;
    while (strlen(screen_row(&s, 1)) < 3 && screen_now() < end) screen_read(&s, 50);
    type("\003");
    waits_prompt();
    says("/set predict 2");
    says("more");
    checks++;
    if (strlen(screen_row(&s, s.row - 1)) > 2) bad("two letters wanted");
    type("/stats\r");                                    waits("4 messages,");
    waits_prompt();
    type("\004");
    ends(0);
    unlink(path("kept"));
    unsetenv("FORGE_SLOW");
}

/* ---- commands ---- */

static void test_commands(void)
{
    char first[64], row_text[64];
    begin_typing("commands", 50, 100);
    says("hello");
    snprintf(first, sizeof first, "%s", screen_row(&s, 1));
    type("/nosuch\r");                                   waits("no such command; /help lists them");
    waits_prompt();
    type("/re\t");                                       waits("> /regenerate");
    says("");
    snprintf(row_text, sizeof row_text, "%s", screen_row(&s, s.row - 1));
    checks++;
    if (strcmp(first, row_text) != 0) bad("the likeliest answer again is '%s', wanted '%s'", row_text, first);
    type("/s\t\t");                                      waits("/system /set /save /stats");
    type("ta\t\r");                                      waits("2 messages,");
    waits_prompt();
    says("again");
    type("/stats\r");                                    waits("4 messages,");
    type("/undo\r");                                     waits("taken back: 2 messages");
    waits_prompt();
    type("/set\r");                                      waits("frequency-penalty");
    waits("top-k             40");
    type("/temp 0.25\r/set top-k 7\r/set\r");            waits("temp              0.25");
    waits("top-k             7");
    type("/temp x\r");                                   waits("--temp: 'x' is not a number");
    type("/set seed -1\r");                              waits("a number from 0 on");
    type("/set nothing 1\r");                            waits("there is no such setting");
    type("/temp\r");                                     waits("temp needs a value");
    says("/prompt x");
    type("\014/system Be kind\r/system\r");              waits("Be kind");
    type("/system -\r/system\r");                        waits("no system message");
    waits_prompt();
    type("\014/clear\r");                                waits("a new conversation");
    type("/undo\r");                                     waits("no turn to take back");
    type("/regenerate\r");                               waits("there is no answer yet");
    type("/save\r");                                     waits("where? /save FILE");
    type("/load /nosuch\r");                             waits("cannot open /nosuch");
    type("/load\r");                                     waits("what? /load FILE");
    type("/save /\r");                                   waits("is not a saved conversation");
    type("/temp 0\r");
    says("//hello");
    type("/help\r");                                     waits("/regenerate");
    type("/stats\r");                                    waits("2 messages,");
    type("/exit\r");
    ends(0);
    unlink(path("history"));
}

static void test_plain(void)
{
    setenv("TERM", "dumb", 1);
    begin("TERM=dumb", 24, 60, NULL);
    sees(0, 2, ">");
    says("hello");
    type("/stats\r");                                    waits("2 messages,");
    waits_prompt();
    type("\004");
    checks++;
    if (strchr(s.all, 27)) bad("an escape sequence");
    ends(0);
    setenv("TERM", "xterm", 1);
}

/* ---- saved conversations ---- */

static void test_save(void)
{
    char wanted[64];
    begin("all at once", 24, 60, NULL);
    sees(0, 2, ">");
    says("one");
    says("two");
    says("three");
    snprintf(wanted, sizeof wanted, "%s", screen_row(&s, s.row - 1));
    type("\004");
    ends(0);

    begin("/save", 24, 60, NULL);
    sees(0, 2, ">");
    says("one");
    char *command = NULL;
    if (asprintf(&command, "/save %s", path("kept")) < 0) exit(1);
    says(command);
    type("\004");
    ends(0);
    begin("--save goes on", 24, 60, "--save", path("kept"), NULL);
    waits("> one");                                      /* the last turn is shown */
    waits_prompt();
    says("two");
    type("/exit\r");
    ends(0);
    begin("--load goes on", 24, 60, "--load", path("kept"), NULL);
    waits("> two");
    waits_prompt();
    says("three");
    checks++;
    if (!row_is(s.row - 1, wanted)) bad("the third answer is not '%s'", wanted);
    type("\004");
    ends(0);
    begin("/load goes on", 24, 60, NULL);
    sees(0, 2, ">");
    says("something else");
    command[1] = 'l', command[2] = 'o', command[3] = 'a', command[4] = 'd';
    type(command);
    type("\r");                                          waits("> two");
    waits_prompt();
    says("three");
    checks++;
    if (!row_is(s.row - 1, wanted)) bad("the third answer is not '%s'", wanted);
    type("\004");
    ends(0);
    unlink(path("kept"));
    free(command);
}

/* ---- with a template ---- */

/* Without -i and without -q: the program chats, and begins with the model's name and a hint. */
static void test_by_itself(void)
{
    char *arguments[] = { (char *)(uintptr_t)program, (char[]){ "-n" }, (char[]){ "8" }, (char[]){ "--temp" }, (char[]){ "0" }, NULL };
    test = "a chat by itself";
    screen_open(&s, 24, 120);
    screen_start(&s, arguments);
    waits(": /help lists the commands, Ctrl-D ends the chat");
    waits_prompt();
    says("upon a time");
    type("\004");
    waits("prompt ");
    ends(0);
}

static void test_template(void)
{
    char one[128], two[128], other[128];
    begin("turns by a template", 50, 120, NULL);
    sees(0, 2, ">");
    says("upon a time");
    snprintf(one, sizeof one, "%s", screen_row(&s, s.row - 1));
    says("go on");
    snprintf(two, sizeof two, "%s", screen_row(&s, s.row - 1));
    says("/regenerate");
    checks++;
    if (!row_is(s.row - 1, two)) bad("the likeliest answer again is '%s'", two);
    says("/undo");
    says("go on");
    checks++;
    if (!row_is(s.row - 1, two)) bad("the likeliest answer again is '%s'", two);
    says("/system Be kind");
    says("/regenerate");
    snprintf(other, sizeof other, "%s", screen_row(&s, s.row - 1));
    says("/clear");
    says("upon a time");
    says("go on");
    says("/regenerate");
    says("/system -");
    says("/undo");
    says("/regenerate");
    checks++;
    if (!row_is(s.row - 1, one)) bad("the likeliest answer again is '%s'", one);
    says("refuse");
    waits("the chat template refuses this: not this");
    says("more");
    checks++;
    if (!row_is(s.row - 1, two)) bad("the likeliest answer is '%s'", two);
    type("/stats\r");                                    waits("4 messages,");
    type("/exit\r");
    ends(0);

    begin("Ctrl-C in an answer by a template", 24, 120, "-n", "-1", "--ignore-eos", NULL);
    sees(0, 2, ">");
    type("upon a time\r");
    const double end = screen_now() + PATIENCE;
    while (*screen_row(&s, 1) == 0 && screen_now() < end) screen_read(&s, 50);
    type("\003");
    waits_prompt();
    checks++;
    if (strstr(s.all, "is full")) bad("Ctrl-C came too late");
    says("/set predict 8");
    says("more");
    type("/stats\r");                                    waits("4 messages,");
    waits_prompt();
    type("\004");
    ends(0);
}

int main(int argc, char **argv)
{
    if (argc < 2 || !mkdtemp(folder)) return 2;
    program = argv[1];
    setenv("TERM", "xterm", 1);
    if (argc > 2) {
        test_by_itself();
        test_template();
        rmdir(folder);
        printf("%d checks, %d failed\n", checks, failed);
        return failed > 0;
    }
    test_editing();
    test_characters();
    test_long_lines();
    test_lines();
    test_paste();
    test_history();
    test_ends();
    test_stops();
    test_interrupt();
    test_commands();
    test_plain();
    test_save();
    rmdir(folder);
    printf("%d checks, %d failed\n", checks, failed);
    return failed > 0;
}
