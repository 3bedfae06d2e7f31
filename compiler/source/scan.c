/* scan.c -- see scan.h. */
#include "scan.h"
#include <ctype.h>
#include <string.h>

/* The state of the scanner between two lines. */
struct scanner {
    struct arena  *arena;
    const char    *file, *at, *end;
    struct records out;
    uint32_t       capacity;
    struct item   *open;                 /* the item that is not closed yet */
    int32_t        depth;                /* of its open braces, parentheses and brackets */
    char           last;                 /* its last character that is not a blank */
    bool           in_comment;
};

static struct record *add(struct scanner *s, enum record_kind kind, const char *text, size_t n)
{
    arena_room(s->arena, s->out.list, s->out.n, s->capacity);
    struct record *r = &s->out.list[s->out.n++];
    *r = (struct record){ .kind = kind, .text = text, .size = (uint32_t)n, .item = s->open, .file = s->file };
    return r;
}

static const char *line_end(const struct scanner *s, const char *line)
{
    const char *newline = memchr(line, '\n', (size_t)(s->end - line));
    return newline ? newline : s->end;
}

static const char *literal_end(const char *c, const char *end)
{
    for (const char quote = *c++; c < end && *c != quote; c++) if (*c == '\\' && c + 1 < end) c++;
    return c < end ? c + 1 : end;
}

/* Reads one line: updates in_comment, depth and last. */
static void follow(struct scanner *s, const char *c, const char *end)
{
    while (c < end) {
        if (s->in_comment) {
            const char *close = memmem(c, (size_t)(end - c), "*/", 2);
            s->in_comment = !close;
            c = close ? close + 2 : end;
        }
        else if (*c == '/' && c + 1 < end && c[1] == '*') { s->in_comment = true; c += 2; }
        else if (*c == '/' && c + 1 < end && c[1] == '/') return;
        else if (*c == '"' || (*c == '\'' && !(c > s->at && isalnum((unsigned char)c[-1])))) { s->last = *c; c = literal_end(c, end); }
        else {
            s->depth += *c == '{' || *c == '(' || *c == '[';
            s->depth -= *c == '}' || *c == ')' || *c == ']';
            if (!isspace((unsigned char)*c)) s->last = *c;
            c++;
        }
    }
}

static bool is_blank(const char *c, const char *end)
{
    while (c < end && isspace((unsigned char)*c)) c++;
    return c == end;
}

/* ---- directives ---- */

static const char *word_end(const char *c, const char *end)
{
    while (c < end && (isalnum((unsigned char)*c) || *c == '_')) c++;
    return c;
}

static bool word_is(const char *c, const char *end, const char *word)
{
    return (size_t)(end - c) == strlen(word) && memcmp(c, word, strlen(word)) == 0;
}

static enum record_kind kind_of(const char *word, const char *end, const char *operand, const char *line)
{
    static const struct { const char *word; enum record_kind kind; } table[] = {
        { "define", RECORD_DEFINE }, { "undef", RECORD_UNDEF }, { "if", RECORD_IF }, { "ifdef", RECORD_IF }, { "ifndef", RECORD_IF },
        { "elif", RECORD_ELIF }, { "else", RECORD_ELSE }, { "endif", RECORD_ENDIF },
    };
    for (uint32_t i = 0; i < COUNT_OF(table); i++) if (word_is(word, end, table[i].word)) return table[i].kind;
    return word_is(word, end, "include") && operand < line && *operand == '"' ? RECORD_INCLUDE : RECORD_DIRECTIVE;
}

/* The end of a directive, including lines that "\" or an open comment join to it. */
static const char *directive_end(struct scanner *s, const char *line)
{
    const struct scanner before = *s;
    const char *end = line_end(s, line);
    for (;;) {
        follow(s, line, end);
        if (end == s->end || !(s->in_comment || (end > line && end[-1] == '\\'))) break;
        line = end + 1;
        end = line_end(s, line);
    }
    s->depth = before.depth, s->last = before.last, s->in_comment = false;
    return end;
}

/* Makes the condition of #ifdef or #ifndef, for the name at `operand`, one for #if. */
static void ask_name(struct scanner *s, struct record *r, bool is_not, const char *operand, const char *end)
{
    const size_t n = (size_t)(word_end(operand, end) - operand);
    r->operand = arena_printf(s->arena, "%sdefined(%.*s)", is_not ? "!" : "", (int)n, operand);
    r->operand_size = (uint32_t)strlen(r->operand);
    while (end < s->end && isspace((unsigned char)*end)) end++;
    const bool defines = (size_t)(s->end - end) > 8 + n && memcmp(end, "#define ", 8) == 0 && memcmp(end + 8, operand, n) == 0;
    r->is_guard = is_not && defines && word_end(end + 8, s->end) == end + 8 + n;
}

static void add_directive(struct scanner *s, const char *line, const char *hash)
{
    const char *end = directive_end(s, line), *word = hash + 1;
    while (word < end && isblank((unsigned char)*word)) word++;
    const char *behind = word_end(word, end), *operand = behind;
    while (operand < end && isblank((unsigned char)*operand)) operand++;
    const enum record_kind kind = kind_of(word, behind, operand, end);
    struct record *r = add(s, kind, line, (size_t)(end - line));
    r->operand = operand, r->operand_size = (uint32_t)(end - operand);
    if (word_is(word, behind, "ifdef") || word_is(word, behind, "ifndef")) ask_name(s, r, word[2] == 'n', operand, end);
    if (kind == RECORD_DEFINE) {
        r->item = arena_new(s->arena, struct item);
        r->item->first = r->item->last = s->out.n - 1;
    }
    s->at = end < s->end ? end + 1 : end;
}

/* ---- comments and code ---- */

static void add_comment(struct scanner *s, const char *line)
{
    const char *end = line_end(s, line);
    for (follow(s, line, end); s->in_comment && end < s->end; follow(s, s->at, end)) {
        s->at = end + 1;
        end = line_end(s, s->at);
    }
    add(s, RECORD_COMMENT, line, (size_t)(end - line));
    s->at = end < s->end ? end + 1 : end;
}

/* Does a comment begin here that shares its lines with no code? */
static bool is_comment(const struct scanner *s, const char *line)
{
    if (s->end - line < 2 || line[0] != '/' || (line[1] != '*' && line[1] != '/')) return false;
    if (line[1] == '/') return true;
    const char *close = memmem(line + 2, (size_t)(s->end - line - 2), "*/", 2);
    return !close || is_blank(close + 2, line_end(s, close + 2));
}

static void add_code(struct scanner *s, const char *line)
{
    const char *end = line_end(s, line);
    if (!s->open) {
        s->open = arena_new(s->arena, struct item);
        s->open->first = s->out.n;
        s->depth = 0, s->last = 0;
    }
    struct item *item = s->open;
    add(s, RECORD_CODE, line, (size_t)(end - line));
    item->last = s->out.n - 1;
    follow(s, line, end);
    const bool closed = !s->in_comment && s->depth <= 0 && (s->last == ';' || s->last == '}');
    if (closed || (!s->in_comment && *line == '}')) s->open = NULL;
    s->at = end < s->end ? end + 1 : end;
}

struct records scan(struct arena *a, const char *file, const char *text, size_t n)
{
    struct scanner s = { .arena = a, .file = file, .at = text, .end = text + n };
    while (s.at < s.end) {
        const char *line = s.at, *end = line_end(&s, line), *word = line;
        while (word < end && isblank((unsigned char)*word)) word++;
        const bool blank = is_blank(line, end);
        if (blank && s.depth <= 0 && !s.in_comment) s.open = NULL;         /* a call of a macro without ";" */
        if (!s.in_comment && word < end && *word == '#' && word + 1 < end) add_directive(&s, line, word);
        else if (blank && !s.open) { add(&s, RECORD_BLANK, line, 0); s.at = end < s.end ? end + 1 : end; }
        else if (!s.open && is_comment(&s, line)) add_comment(&s, line);
        else add_code(&s, line);
    }
    return s.out;
}
