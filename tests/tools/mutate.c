/* mutate.c -- wrong versions of the sources (mutants): proposes them, applies and reverts one, checks a table of them.
 *   mutate list FILE...                  proposals for C and WGSL files, one a line: operator, file, function, text, other text
 *   mutate apply TABLE ID FOLDER         changes the mutant's place in FOLDER
 *   mutate revert TABLE ID FOLDER        reverts the change
 *   mutate check TABLE RUNS FOLDER LEAST fails unless every row fits the files in FOLDER, every room has LEAST rows, and every mutant has a
 *                                        line in RUNS (tests/kills.csv), which may be "not run yet"
 * A row of a table has eight columns, tabs between them:
 *   id, room, file, function, text, other text, first tests, equivalent
 * The text is on one line and exactly once in the function, or in the whole file if the function is `-`.  Blanks match any number of
 * blanks.  If the other text is empty, the text is removed.  First tests: a regular expression of ctest, tried before the room's tests, or
 * `-`.  Equivalent: `-`, or the reason why no test can distinguish the mutant from the right program.
 * A row `@room`: its name and regular expressions of the tests that reach it, the cheapest first.  `#` begins a comment. */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ID, ROOM, FILE_NAME, FUNCTION, FROM, TO, TESTS, EQUIVALENT, COLUMNS };
enum { ROWS_MOST = 1000, ROOMS_MOST = 40 };

struct row { const char *of[COLUMNS]; int line; };
struct table {
    struct row  rows[ROWS_MOST];
    const char *rooms[ROOMS_MOST];
    int         n, n_rooms;
};

static int failures;

_Noreturn static void stop(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fputs("mutate: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    exit(1);
}

static void *or_stop(void *p)
{
    if (!p) stop("out of memory");
    return p;
}

/* The whole file, 0-terminated; the caller frees it.  NULL: it cannot be read. */
static char *read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    size_t n = 0, room = 1 << 16;
    char *text = or_stop(malloc(room));
    for (size_t got; (got = fread(text + n, 1, room - n - 1, f)) > 0;) {
        n += got;
        if (room - n < 2) text = or_stop(realloc(text, room *= 2));
    }
    if (ferror(f)) stop("%s: %s", path, strerror(errno));
    fclose(f);
    text[n] = 0;
    return text;
}

static char *path_of(const char *folder, const char *file)
{
    const size_t n = strlen(folder) + strlen(file) + 2;
    char *path = or_stop(malloc(n));
    snprintf(path, n, "%s/%s", folder, file);
    return path;
}

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }
static bool is_blank(char c) { return c == ' ' || c == '\t'; }

/* ---- a table ---- */

static void table_read(struct table *t, const char *path)
{
    char *text = read_file(path);
    if (!text) stop("%s: %s", path, strerror(errno));
    int line = 0;
    for (char *at = text, *next; *at; at = next) {
        next = at + strcspn(at, "\n");
        if (*next) *next++ = 0;
        line++;
        if (*at == '#' || !*at) continue;
        if (*at == '@') {
            if (t->n_rooms == ROOMS_MOST) stop("%s:%d: more than %d rooms", path, line, ROOMS_MOST);
            at[strcspn(at, "\t")] = 0;
            t->rooms[t->n_rooms++] = at + 1;
            continue;
        }
        if (t->n == ROWS_MOST) stop("%s:%d: more than %d rows", path, line, ROWS_MOST);
        struct row *r = &t->rows[t->n++];
        *r = (struct row){ .line = line };
        int n = 0;
        for (char *column = at; column; n++) {
            char *tab = strchr(column, '\t');
            if (tab) *tab++ = 0;
            if (n < COLUMNS) r->of[n] = column;
            column = tab;
        }
        if (n != COLUMNS) stop("%s:%d: %d columns; a mutant has %d", path, line, n, COLUMNS);
    }
}

static const struct row *row_find(const struct table *t, const char *id)
{
    for (int i = 0; i < t->n; i++)
        if (!strcmp(t->rows[i].of[ID], id)) return &t->rows[i];
    stop("there is no mutant %s", id);
}

/* ---- where a mutant is ---- */

/* The number of bytes at `at` that pattern matches, 0: none; runs of blanks match runs of any length. */
static size_t matches(const char *at, const char *pattern)
{
    const char *from = at;
    while (*pattern) {
        if (is_blank(*pattern)) {
            if (!is_blank(*at)) return 0;
            while (is_blank(*pattern)) pattern++;
            while (is_blank(*at)) at++;
        } else if (*pattern++ != *at++) {
            return 0;
        }
    }
    return (size_t)(at - from);
}

/* Does the line define `name`?  A definition begins in the first column, has `name(` and does not end with `;`. */
static bool defines(const char *line, size_t n, const char *name)
{
    if (n == 0 || !(is_word(*line) || *line == '@') || line[n - 1] == ';') return false;
    const size_t length = strlen(name);
    for (const char *at = line; (at = strstr(at, name)) && at < line + n; at++)
        if ((at == line || !is_word(at[-1])) && at[length] == '(') return true;
    return false;
}

/* The lines of one definition, up to a line that begins with `}`.  False: there is no such definition. */
static bool function_find(const char *text, const char *name, const char **begin, const char **end)
{
    for (const char *line = text; *line;) {
        const size_t n = strcspn(line, "\n");
        if (defines(line, n, name)) {
            *begin = line;
            const char *close = strstr(line, "\n}");
            const bool  one_line = memchr(line, '{', n) && n > 0 && line[n - 1] == '}';
            *end = one_line || !close ? line + n : close;
            return true;
        }
        line += n + (line[n] == '\n');
    }
    return false;
}

/* The only place of `text` in the row's function; *bytes: its length there.  NULL: there is not exactly one; *why says why. */
static const char *place(const char *file, const struct row *r, const char *text, size_t *bytes, const char **why)
{
    const char *begin = file, *end = file + strlen(file), *found = NULL;
    if (strcmp(r->of[FUNCTION], "-") != 0 && !function_find(file, r->of[FUNCTION], &begin, &end)) {
        *why = "its function is no longer in the file";
        return NULL;
    }
    for (const char *at = begin; at < end; at++) {
        const size_t n = matches(at, text);
        if (n == 0 || at + n > end || (is_word(*text) && at > file && is_word(at[-1]))) continue;
        if (is_word(text[strlen(text) - 1]) && is_word(at[n])) continue;
        if (found) { *why = "its text is there more than once"; return NULL; }
        found  = at;
        *bytes = n;
    }
    if (!found) *why = "its text is no longer there";
    return found;
}

/* The text that `revert` looks for.  Removed text leaves a mark; a removed statement leaves an empty statement, because it may follow an
 * if. */
static const char *other_text(const struct row *r)
{
    const char *from = r->of[FROM];
    if (*r->of[TO]) return r->of[TO];
    return *from && from[strlen(from) - 1] == ';' ? "/* removed */;" : "/* removed */";
}

/* The changed file, which the caller frees; NULL, with *why: the mutant does not fit the file. */
static char *changed(const char *file, const struct row *r, bool back, const char **why)
{
    size_t n;
    const char *from = back ? other_text(r) : r->of[FROM], *to = back ? r->of[FROM] : other_text(r);
    const char *at = place(file, r, from, &n, why);
    if (!at) return NULL;
    char *out = or_stop(malloc(strlen(file) + strlen(to) + 1));
    memcpy(out, file, (size_t)(at - file));
    strcpy(out + (at - file), to);
    strcat(out, at + n);
    return out;
}

static void rewrite(const struct row *r, const char *folder, bool back)
{
    char *path = path_of(folder, r->of[FILE_NAME]), *file = read_file(path);
    if (!file) stop("%s: %s", path, strerror(errno));
    const char *why = NULL;
    char *out = changed(file, r, back, &why);
    if (!out) stop("%s: %s: %s: %s", r->of[ID], r->of[FILE_NAME], why, back ? other_text(r) : r->of[FROM]);
    FILE *f = fopen(path, "wb");
    if (!f || fputs(out, f) < 0 || fclose(f) != 0) stop("%s: %s", path, strerror(errno));
    free(out);
    free(file);
    free(path);
}

/* ---- check ---- */

static void fail(const struct row *r, const char *what)
{
    printf("FAILED mutants.tsv:%d: %s: %s\n", r->line, r->of[ID], what);
    failures++;
}

/* Does the file of runs have a line for this mutant: a run, or `not run yet`? */
static bool was_run(const char *runs, const char *id)
{
    const size_t n = strlen(id);
    for (const char *line = runs; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (!strncmp(line, id, n) && line[n] == ',') return true;
    }
    return false;
}

static void table_check(const struct table *t, const char *runs_path, const char *folder, int least)
{
    char *runs = read_file(runs_path);
    if (!runs) stop("%s: %s", runs_path, strerror(errno));
    for (int i = 0; i < t->n; i++) {
        const struct row *r = &t->rows[i];
        bool room = false;
        for (int k = 0; k < t->n_rooms; k++) room |= !strcmp(t->rooms[k], r->of[ROOM]);
        if (!room) fail(r, "its room has no row @room");
        for (int k = 0; k < i; k++)
            if (!strcmp(t->rows[k].of[ID], r->of[ID])) fail(r, "another mutant has this name");
        if (!strcmp(r->of[FROM], r->of[TO])) fail(r, "it changes nothing");
        char *path = path_of(folder, r->of[FILE_NAME]), *file = read_file(path), *out = NULL, *again = NULL;
        const char *why = "its file is not there";
        if (file) out = changed(file, r, false, &why);
        if (!out) {
            fail(r, why);
        } else {
            again = changed(out, r, true, &why);
            if (!again) fail(r, "it cannot be taken back: its other text is not alone in the function");
            else if (!matches(again, file)) fail(r, "it cannot be taken back");
        }
        free(again);
        free(out);
        free(file);
        free(path);
        if (!was_run(runs, r->of[ID])) fail(r, "kills.csv has no line for it; run it by ./setup.sh mutants, or add ID,-,0,not run yet");
    }
    for (int k = 0; k < t->n_rooms; k++) {
        int n = 0;
        for (int i = 0; i < t->n; i++) n += !strcmp(t->rows[i].of[ROOM], t->rooms[k]);
        if (n < least) {
            printf("FAILED room %s has %d mutants; %d are wanted\n", t->rooms[k], n, least);
            failures++;
        }
    }
    free(runs);
    printf("%d mutants in %d rooms, %d failed\n", t->n, t->n_rooms, failures);
}

/* ---- proposals ---- */

static const struct { const char *name, *from, *to; } swaps[] = {
    { "comparison", " < ",  " <= " }, { "comparison", " <= ", " < "  }, { "comparison", " > ",  " >= " }, { "comparison", " >= ", " > "  },
    { "comparison", " == ", " != " }, { "comparison", " != ", " == " }, { "off-by-one", " + 1", ""     }, { "off-by-one", " - 1", ""     },
    { "logic",      " && ", " || " }, { "logic",      " || ", " && " }, { "arithmetic", " + ",  " - "  }, { "arithmetic", " - ",  " + "  },
    { "arithmetic", " * ",  " / "  }, { "arithmetic", " / ",  " * "  }, { "shift",      " << ", " >> " }, { "shift",      " >> ", " << " },
    { "bits",       " & ",  " | "  }, { "bits",       " | ",  " & "  }, { "minimum",    "min(", "max(" }, { "minimum",    "max(", "min(" },
};

/* One proposal: a line without its indentation, and the same line with [at, at + n) replaced. */
static void propose(const char *operator, const char *file, const char *function, const char *line, size_t length, size_t at, size_t n,
                    const char *to)
{
    size_t from = 0;
    while (from < at && is_blank(line[from])) from++;
    printf("%s\t%s\t%s\t%.*s\t", operator, file, *function ? function : "-", (int)(length - from), line + from);
    printf("%.*s%s%.*s\n", (int)(at - from), line + from, to, (int)(length - at - n), line + at + n);
}

/* The end of a plain operand that begins at `at`: a name or number with its `.`, `->`, [] and (). */
static size_t operand_end(const char *line, size_t length, size_t at)
{
    size_t end = at;
    while (end < length) {
        if (is_word(line[end]) || line[end] == '.') {
            end++;
        } else if (!strncmp(line + end, "->", 2)) {
            end += 2;
        } else if (line[end] == '[' || line[end] == '(') {
            int depth = 0;
            do {
                depth += line[end] == '[' || line[end] == '(';
                depth -= line[end] == ']' || line[end] == ')';
                end++;
            } while (end < length && depth > 0);
            if (depth > 0) return at;
        } else {
            break;
        }
    }
    return end;
}

static size_t operand_begin(const char *line, size_t at)
{
    size_t begin = at;
    while (begin > 0) {
        const char c = line[begin - 1];
        if (is_word(c) || c == '.') {
            begin--;
        } else if (begin > 1 && !strncmp(line + begin - 2, "->", 2)) {
            begin -= 2;
        } else if (c == ']' || c == ')') {
            int depth = 0;
            do {
                depth += line[begin - 1] == ']' || line[begin - 1] == ')';
                depth -= line[begin - 1] == '[' || line[begin - 1] == '(';
                begin--;
            } while (begin > 0 && depth > 0);
            if (depth > 0) return at;
        } else {
            break;
        }
    }
    return begin;
}

static void propose_operands(const char *file, const char *function, const char *line, size_t length, size_t at)
{
    const size_t begin = operand_begin(line, at), end = operand_end(line, length, at + 3);
    char to[512];
    if (begin == at || end == at + 3 || end - begin >= sizeof to) return;
    if (strchr("-/%", line[at + 1])) {
        snprintf(to, sizeof to, "%.*s %c %.*s", (int)(end - at - 3), line + at + 3, line[at + 1], (int)(at - begin), line + begin);
        propose("swap", file, function, line, length, begin, end - begin, to);
    }
    if (strchr("+-", line[at + 1])) propose("drop-term", file, function, line, length, at, end - at, "");
}

static void propose_line(const char *file, const char *function, const char *line, size_t length, const bool *code)
{
    for (size_t at = 0; at < length; at++) {
        if (!code[at]) continue;
        for (size_t k = 0; k < sizeof swaps / sizeof *swaps; k++) {
            const size_t n = strlen(swaps[k].from);
            if (at + n > length || strncmp(line + at, swaps[k].from, n) != 0) continue;
            if (isdigit((unsigned char)swaps[k].from[n - 1]) && at + n < length && (is_word(line[at + n]) || line[at + n] == '.')) continue;
            propose(swaps[k].name, file, function, line, length, at, n, swaps[k].to);
        }
        if (at + 3 < length && line[at] == ' ' && line[at + 2] == ' ' && strchr("+-/%", line[at + 1]))
            propose_operands(file, function, line, length, at);
        if (!strncmp(line + at, "if (", 4) && (at == 0 || !is_word(line[at - 1]))) {
            const size_t end = operand_end(line, length, at + 3);
            char to[1024];
            snprintf(to, sizeof to, "(!%.*s)", (int)(end - at - 3), line + at + 3);
            if (end > at + 3) propose("negate", file, function, line, length, at + 3, end - at - 3, to);
        }
        if (isdigit((unsigned char)line[at]) && (at == 0 || (!is_word(line[at - 1]) && line[at - 1] != '.'))) {
            size_t end = at;
            while (end < length && (is_word(line[end]) || line[end] == '.')) end++;
            char number[64], *rest, to[96];
            snprintf(number, sizeof number, "%.*s", (int)(end - at), line + at);
            const unsigned long long value = strtoull(number, &rest, 10);
            if (rest > number && !strchr(number, '.') && (!*rest || strchr("uUlL", *rest))) {
                snprintf(to, sizeof to, "%llu%s", value + 1, rest);
                propose("constant", file, function, line, length, at, end - at, to);
            }
        }
        if (strspn(line, " \t") != at) continue;
        const bool statement = line[length - 1] == ';', waits = strstr(line, "arrier") || strstr(line, "fence") || strstr(line, "sync");
        const bool jumps = !strncmp(line + at, "continue;", 9) || !strncmp(line + at, "break;", 6);
        if (statement && waits && !strchr(line, '=')) propose("skip-barrier", file, function, line, length, at, length - at, "");
        else if (jumps || (statement && strstr(line, "+= "))) propose("skip", file, function, line, length, at, length - at, "");
    }
}

/* Marks the bytes of a line that are code, not comments, strings or characters.  *comment: whether the line begins inside a comment; on
 * return whether it ends inside one. */
static void code_find(const char *line, size_t length, bool *code, bool *comment)
{
    char quote = 0;
    for (size_t i = 0; i < length; i++) {
        code[i] = false;
        if (*comment) {
            if (!strncmp(line + i, "*/", 2) && i + 1 < length) { *comment = false; code[++i] = false; }
        } else if (quote) {
            if (line[i] == '\\' && i + 1 < length) code[++i] = false;
            else if (line[i] == quote) quote = 0;
        } else if (!strncmp(line + i, "//", 2)) {
            while (i < length) code[i++] = false;
        } else if (!strncmp(line + i, "/*", 2)) {
            *comment = true;
        } else if (line[i] == '"' || line[i] == '\'') {
            quote = line[i];
        } else {
            code[i] = true;
        }
    }
}

static void list(const char *path)
{
    char *text = read_file(path), function[128] = "";
    if (!text) stop("%s: %s", path, strerror(errno));
    bool comment = false;
    for (char *line = text, *next; *line; line = next) {
        const size_t length = strcspn(line, "\n");
        next = line + length + (line[length] == '\n');
        line[length] = 0;
        bool *code = or_stop(calloc(length + 1, sizeof *code));
        code_find(line, length, code, &comment);
        if (is_word(*line) && length > 0 && line[length - 1] != ';' && strchr(line, '(')) {      /* a definition, by its name */
            const size_t end = (size_t)(strchr(line, '(') - line);
            size_t begin = end;
            while (begin > 0 && is_word(line[begin - 1])) begin--;
            snprintf(function, sizeof function, "%.*s", (int)(end - begin), line + begin);
        }
        if (is_blank(*line)) propose_line(path, function, line, length, code);
        else if (*line == '}') *function = 0;
        free(code);
    }
    free(text);
}

int main(int argc, char **argv)
{
    static struct table t;
    const char *command = argc > 1 ? argv[1] : "";
    if (!strcmp(command, "list") && argc > 2) {
        for (int i = 2; i < argc; i++) list(argv[i]);
    } else if ((!strcmp(command, "apply") || !strcmp(command, "revert")) && argc == 5) {
        table_read(&t, argv[2]);
        rewrite(row_find(&t, argv[3]), argv[4], *command == 'r');
    } else if (!strcmp(command, "check") && argc == 6) {
        table_read(&t, argv[2]);
        table_check(&t, argv[3], argv[4], atoi(argv[5]));
    } else {
        fputs("usage: mutate list FILE... | apply TABLE ID FOLDER | revert TABLE ID FOLDER | check TABLE RUNS FOLDER LEAST\n", stderr);
        return 2;
    }
    return failures > 0;
}
