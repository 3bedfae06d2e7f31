/* line.c -- see line.h. */
#include "line.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "glyph.h"
#include "history.h"
#include "keys.h"
#include "runtime/chat/text.h"
#include "runtime/text/stream.h"

enum { OUT_BYTES = 4096, QUERY_BYTES = 128 };
#define CONTROL(letter) ((letter) & 31u)

struct place { size_t row, column; };

struct line {
    struct keys    keys;
    struct history history;
    const char *const *words;
    const char    *prompt;
    char   *text;                    /* [n], then 0; room for `room` bytes and the 0 */
    size_t  n, room, at;             /* at: the cursor */
    char   *killed;                  /* [n_killed] text that Ctrl-Y inserts */
    size_t  n_killed;
    size_t  recalled;                /* number of the history's text that is edited; history.n: a new text */
    char   *draft;                   /* the new text in the meantime */
    bool    cut;                     /* some of it did not fit */
    bool    stale;                   /* not shown on the terminal yet */
    /* On the terminal: rows first .. first + n_rows - 1 of the text, laid out in `columns` columns.  Row i uses widths[i] columns.  The
     * cursor is `above` rows below the first row. */
    size_t  columns, rows, first, n_rows, above;
    struct place cursor;
    uint16_t *widths;                /* [rows] */
    char    out[OUT_BYTES];
    size_t  n_out;
};

/* ---- output to the terminal ---- */

static void flush(struct line *l)
{
    write_all(STDERR_FILENO, l->out, l->n_out, "stderr", NULL);
    l->n_out = 0;
}

static void put(struct line *l, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (l->n_out == OUT_BYTES) flush(l);
        l->out[l->n_out++] = bytes[i];
    }
}

static void put_text(struct line *l, const char *text) { put(l, text, strlen(text)); }

/* "\033[12A"; nothing for n 0. */
static void put_move(struct line *l, size_t n, char direction)
{
    char bytes[32];
    if (n > 0) put(l, bytes, (size_t)snprintf(bytes, sizeof bytes, "\033[%zu%c", n, direction));
}

/* ---- layout ---- */

/* A walk over prompt and text as rows of the terminal, which draws them or only counts them. */
struct walk { struct line *l; struct place at; size_t indent; bool draws; };

static bool in_window(const struct walk *w) { return w->draws && w->at.row >= w->l->first && w->at.row < w->l->first + w->l->rows; }

static void note_row(struct walk *w)
{
    struct line *l = w->l;
    if (!in_window(w)) return;
    l->n_rows = w->at.row - l->first + 1;
    l->widths[l->n_rows - 1] = (uint16_t)w->at.column;
}

static void next_row(struct walk *w, size_t indent)
{
    note_row(w);
    w->at = (struct place){ w->at.row + 1, 0 };
    if (in_window(w) && w->at.row > w->l->first) put_text(w->l, "\r\n");
    for (; w->at.column < indent; w->at.column++) if (in_window(w)) put_text(w->l, " ");
}

static void walk(struct walk *w, const char *text, size_t n)
{
    for (size_t at = 0; at < n;) {
        struct glyph g;
        glyph_of(&g, text + at, n - at);
        at += g.bytes;
        if (text[at - g.bytes] == '\n') {
            next_row(w, w->indent);
            continue;
        }
        if (w->at.column + g.columns > w->l->columns && w->at.column > 0) next_row(w, 0);
        if (in_window(w)) put(w->l, g.shown, g.n_shown);
        w->at.column += g.columns;
    }
    if (w->at.column >= w->l->columns) next_row(w, 0);            /* the cursor never stands after the last column */
}

/* Walks over the prompt and n bytes of the text.  Lines of the text begin in the column after the prompt if there is room. */
static struct walk walk_all(struct line *l, size_t n, bool draws)
{
    struct walk w = { l, { 0, 0 }, 0, draws };
    walk(&w, l->prompt, strlen(l->prompt));
    w.indent = w.at.row == 0 && w.at.column < l->columns / 2 ? w.at.column : 0;
    walk(&w, l->text, n);
    note_row(&w);
    return w;
}

static void window_size(struct line *l)
{
    struct winsize size = { 0 };
    const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0;
    const size_t rows = known ? size.ws_row : 24;
    uint16_t *widths = realloc(l->widths, rows * sizeof *widths);
    if (!widths) return;
    l->widths = widths;
    l->rows = rows;
    l->columns = known ? size.ws_col : 80;
    if (l->n_rows > rows) l->n_rows = rows;
}

/* Draws over the current display.  If the text is higher than the terminal, draws the rows around the cursor. */
static void draw(struct line *l)
{
    put_move(l, l->above, 'A');
    put_text(l, "\r\033[J");
    const size_t last = walk_all(l, l->n, false).at.row;
    l->cursor = walk_all(l, l->at, false).at;
    if (l->first > l->cursor.row) l->first = l->cursor.row;
    if (l->first + l->rows <= l->cursor.row) l->first = l->cursor.row + 1 - l->rows;
    if (l->first + l->rows > last + 1) l->first = last + 1 > l->rows ? last + 1 - l->rows : 0;
    walk_all(l, l->n, true);
    put_move(l, l->first + l->n_rows - 1 - l->cursor.row, 'A');
    put_text(l, "\r");
    put_move(l, l->cursor.column, 'C');
    l->above = l->cursor.row - l->first;
    l->stale = false;
    flush(l);
}

/* Draws only if no other key has arrived. */
static void draw_soon(struct line *l)
{
    l->stale = true;
    if (!keys_waiting(&l->keys)) draw(l);
}

/* Writes `behind` after the text and moves the cursor below it; the text stays visible. */
static void leave(struct line *l, const char *behind)
{
    l->at = l->n;
    draw(l);
    put_text(l, behind);
    put_text(l, "\r\n");
    flush(l);
    l->above = l->first = l->n_rows = 0;
}

static void tell(struct line *l, const char *text)
{
    const size_t at = l->at;
    leave(l, "");
    put_text(l, text);
    put_text(l, "\r\n");
    l->at = at;
    draw(l);
}

/* Terminals break rows that have become too long, but do not join rows that the program ended. */
static void resized(struct line *l)
{
    size_t above = 0;
    window_size(l);
    for (size_t i = 0; i < l->above && i < l->n_rows; i++) above += l->widths[i] > l->columns ? (l->widths[i] - 1) / l->columns + 1 : 1;
    above += l->cursor.column / l->columns;
    l->above = above < l->rows ? above : l->rows - 1;
    draw(l);
}

/* ---- the text ---- */

static bool make_room(struct line *l, size_t n)
{
    if (n > LINE_MOST_BYTES) return false;
    if (n <= l->room) return true;
    const size_t room = n < 256 ? 256 : 2 * n;
    char *text = realloc(l->text, room + 1);
    if (!text) return false;
    l->text = text;
    l->room = room;
    return true;
}

/* False: there is no room. */
static bool insert(struct line *l, const char *text, size_t n)
{
    if (!make_room(l, l->n + n)) {
        l->cut = true;
        return false;
    }
    memmove(l->text + l->at + n, l->text + l->at, l->n - l->at + 1);
    memcpy(l->text + l->at, text, n);
    l->n += n;
    l->at += n;
    return true;
}

static void remove_bytes(struct line *l, size_t from, size_t to)
{
    memmove(l->text + from, l->text + to, l->n - to + 1);
    l->n -= to - from;
    l->at = l->at >= to ? l->at - (to - from) : l->at > from ? from : l->at;
}

/* Keeps the bytes for Ctrl-Y. */
static void kill_bytes(struct line *l, size_t from, size_t to)
{
    char *killed = from < to ? realloc(l->killed, to - from) : NULL;
    if (!killed) return;
    memcpy(killed, l->text + from, to - from);
    l->killed = killed;
    l->n_killed = to - from;
    remove_bytes(l, from, to);
}

static void set_text(struct line *l, const char *text)
{
    l->at = l->n = 0;
    l->text[0] = 0;
    insert(l, text, strlen(text));
}

static size_t line_begin(const struct line *l, size_t at)
{
    while (at > 0 && l->text[at - 1] != '\n') at--;
    return at;
}

static size_t line_end(const struct line *l, size_t at)
{
    while (at < l->n && l->text[at] != '\n') at++;
    return at;
}

static size_t left(const struct line *l, size_t at) { return at > 0 ? at - glyph_step_back(l->text, at) : 0; }
static size_t right(const struct line *l, size_t at) { return at < l->n ? at + glyph_step(l->text + at, l->n - at) : at; }

/* Word characters: letters, digits, '_' and everything that is not ASCII. */
static bool in_word(const struct line *l, size_t at)
{
    const unsigned char c = (unsigned char)l->text[at];
    return c >= 128 || c == '_' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
}

static size_t word_left(const struct line *l, size_t at)
{
    while (at > 0 && !in_word(l, left(l, at))) at = left(l, at);
    while (at > 0 && in_word(l, left(l, at))) at = left(l, at);
    return at;
}

static size_t word_right(const struct line *l, size_t at)
{
    while (at < l->n && !in_word(l, at)) at = right(l, at);
    while (at < l->n && in_word(l, at)) at = right(l, at);
    return at;
}

/* Ctrl-W: the beginning of the word between spaces. */
static size_t blank_left(const struct line *l, size_t at)
{
    while (at > 0 && (l->text[at - 1] == ' ' || l->text[at - 1] == '\n')) at--;
    while (at > 0 && l->text[at - 1] != ' ' && l->text[at - 1] != '\n') at--;
    return at;
}

/* ---- earlier texts ---- */

static void recall(struct line *l, size_t number)
{
    if (number > l->history.n || number == l->recalled) return;
    if (l->recalled == l->history.n) {
        free(l->draft);
        l->draft = strdup(l->text);
    }
    l->recalled = number;
    set_text(l, number < l->history.n ? l->history.texts[number] : l->draft ? l->draft : "");
}

/* Moves up by a line of the text, and from its first line to the previous text. */
static void up(struct line *l)
{
    const size_t begin = line_begin(l, l->at);
    if (begin == 0) {
        if (l->recalled > 0) recall(l, l->recalled - 1);
        return;
    }
    const size_t column = text_codepoints(l->text + begin, l->at - begin), end = begin - 1;
    l->at = line_begin(l, end);
    for (size_t i = 0; i < column && l->at < end; i++) l->at = right(l, l->at);
}

static void down(struct line *l)
{
    const size_t begin = line_begin(l, l->at), end = line_end(l, l->at);
    if (end == l->n) {
        recall(l, l->recalled + 1);
        return;
    }
    const size_t column = text_codepoints(l->text + begin, l->at - begin), last = line_end(l, end + 1);
    l->at = end + 1;
    for (size_t i = 0; i < column && l->at < last; i++) l->at = right(l, l->at);
}

/* The newest text before number `from` that contains the query; history.n: none. */
static size_t find(const struct line *l, size_t from, const char *query)
{
    while (from-- > 0) if (strstr(l->history.texts[from], query)) return from;
    return l->history.n;
}

/* Ctrl-R.  Returns the key that ends the search, which must still be processed; 0 after Ctrl-G and Ctrl-C, which restore the previous
 * text. */
static uint32_t search(struct line *l)
{
    const char *const prompt = l->prompt;
    char query[QUERY_BYTES + 4] = "", shown[QUERY_BYTES + 32];
    const size_t before = l->recalled;
    size_t n = 0, found = l->history.n;
    uint32_t key;
    for (;;) {
        snprintf(shown, sizeof shown, "(%s '%s') ", n > 0 && found == l->history.n ? "not found:" : "search", query);
        l->prompt = shown;
        draw(l);
        key = keys_next(&l->keys);
        if (key == CONTROL('R')) {
            const size_t older = find(l, found, query);
            if (older == l->history.n) continue;
            found = older;
        } else if (key == 127 || key == CONTROL('H')) {
            n -= n > 0 ? text_step_back(query, n) : 0;
            query[n] = 0;
            found = find(l, l->history.n, query);
        } else if (key >= ' ' && key < KEY_NONE && n < QUERY_BYTES) {
            n += text_put_codepoint(query + n, key);
            query[n] = 0;
            found = find(l, found < l->history.n ? found + 1 : found, query);
        } else if (key == KEY_RESIZED) {
            resized(l);
        } else if (key != KEY_NONE && key != KEY_RESUMED) {
            break;
        }
        if (n > 0 && found < l->history.n) recall(l, found);
    }
    l->prompt = prompt;
    if (key != CONTROL('G') && key != CONTROL('C')) return key;
    recall(l, before);
    return 0;
}

/* ---- keys ---- */

/* Completes the word at the beginning of the text as far as all matching words agree.  If there are several, the second attempt lists
 * them. */
static void complete(struct line *l, bool again)
{
    char all[512];
    const char *common = NULL;
    size_t n_common = 0, n_found = 0, n = 0;
    if (memchr(l->text, ' ', l->at) || memchr(l->text, '\n', l->at) || l->at == 0) return;
    for (size_t i = 0; l->words[i]; i++) {
        const char *word = l->words[i];
        if (strncmp(word, l->text, l->at) != 0) continue;
        if (n_found++ == 0) n_common = strlen(common = word);
        while (strncmp(word, common, n_common) != 0) n_common--;
        if (n < sizeof all) n += (size_t)snprintf(all + n, sizeof all - n, "%s ", word);
    }
    if (n_found == 0) return;
    insert(l, common + l->at, n_common - l->at);
    if (n_found == 1) insert(l, " ", 1);
    else if (again) tell(l, all);
}

static void take_paste(struct line *l)
{
    for (uint32_t key; (key = keys_next(&l->keys)) != KEY_PASTE_END && key != KEY_EOF;) {
        char bytes[4];
        if (key > 0 && key < KEY_NONE) insert(l, bytes, text_put_codepoint(bytes, key));
    }
}

/* A character at the end of a row with enough room does not require redrawing the rest. */
static void type(struct line *l, uint32_t c)
{
    char bytes[4];
    struct glyph g;
    const size_t n = text_put_codepoint(bytes, c);
    if (!insert(l, bytes, n)) return;
    glyph_of(&g, bytes, n);
    if (l->stale || l->at < l->n || l->cursor.column + g.columns >= l->columns || keys_waiting(&l->keys)) {
        draw_soon(l);
        return;
    }
    put(l, g.shown, g.n_shown);
    flush(l);
    l->cursor.column += g.columns;
    l->widths[l->n_rows - 1] = (uint16_t)l->cursor.column;
}

static void edit(struct line *l, uint32_t key)
{
    switch (key) {
    case CONTROL('A'): case KEY_HOME:  l->at = line_begin(l, l->at); break;
    case CONTROL('E'): case KEY_END:   l->at = line_end(l, l->at); break;
    case CONTROL('B'): case KEY_LEFT:  l->at = left(l, l->at); break;
    case CONTROL('F'): case KEY_RIGHT: l->at = right(l, l->at); break;
    case CONTROL('P'): case KEY_UP:    up(l); break;
    case CONTROL('N'): case KEY_DOWN:  down(l); break;
    case KEY_WORD_LEFT:   l->at = word_left(l, l->at); break;
    case KEY_WORD_RIGHT:  l->at = word_right(l, l->at); break;
    case KEY_DELETE:      remove_bytes(l, l->at, right(l, l->at)); break;
    case CONTROL('H'): case 127: remove_bytes(l, left(l, l->at), l->at); break;
    case CONTROL('K'): kill_bytes(l, l->at, line_end(l, l->at) > l->at ? line_end(l, l->at) : right(l, l->at)); break;
    case CONTROL('U'): kill_bytes(l, line_begin(l, l->at), l->at); break;
    case CONTROL('W'): kill_bytes(l, blank_left(l, l->at), l->at); break;
    case KEY_RUBOUT_WORD: kill_bytes(l, word_left(l, l->at), l->at); break;
    case KEY_DELETE_WORD: kill_bytes(l, l->at, word_right(l, l->at)); break;
    case CONTROL('Y'): insert(l, l->killed, l->n_killed); break;
    case KEY_NEWLINE: insert(l, "\n", 1); break;
    case KEY_PASTE: take_paste(l); break;
    case CONTROL('L'):
        put_text(l, "\033[H\033[2J");
        l->above = 0;
        break;
    default: break;
    }
}

/* Handles keys that do not edit; false: editing continues. */
static bool ends(struct line *l, uint32_t key, enum line_result *result)
{
    if (key == '\r' || key == '\n') {
        if (l->n > 0 && l->at == l->n && l->text[l->n - 1] == '\\') {
            l->text[l->n - 1] = '\n';
            return false;
        }
        *result = LINE_TEXT;
        return true;
    }
    if (key == CONTROL('C') && l->n > 0) {
        leave(l, "^C");
        set_text(l, "");
        l->recalled = l->history.n;
        return false;
    }
    if (key == CONTROL('D') && l->n > 0) {
        remove_bytes(l, l->at, right(l, l->at));
        return false;
    }
    *result = key == CONTROL('C') ? LINE_INTERRUPTED : LINE_ENDED;
    return key == CONTROL('C') || key == CONTROL('D') || key == KEY_EOF;
}

static enum line_result edit_text(struct line *l)
{
    enum line_result result = LINE_ENDED;
    draw(l);
    for (uint32_t key = 0, before = 0;; before = key) {
        key = keys_next(&l->keys);
        if (key == CONTROL('R')) key = search(l);
        if (key == CONTROL('Z') || key == KEY_STOP) {
            leave(l, "");
            keys_stop();
            window_size(l);
        }
        if (key >= ' ' && key < KEY_NONE && key != 127) {
            type(l, key);
        } else if (key == KEY_RESIZED) {
            resized(l);
        } else if (ends(l, key, &result)) {
            break;
        } else {
            if (key == '\t') complete(l, before == '\t');
            if (key == KEY_RESUMED) window_size(l);
            edit(l, key);
            draw_soon(l);
        }
        if (l->cut) tell(l, "a text has at most 1 MiB here: the rest is left out");
        l->cut = false;
        if (l->keys.signal != 0) break;
    }
    leave(l, "");
    return l->keys.signal != 0 ? LINE_SIGNAL : result;
}

enum line_result line_read(struct line *l, const char *prompt, const char **text, int *signal)
{
    if (!keys_begin(&l->keys)) return LINE_ENDED;
    l->prompt = prompt;
    l->recalled = l->history.n;
    l->above = l->first = l->n_rows = 0;
    set_text(l, "");
    window_size(l);
    const enum line_result result = l->widths ? edit_text(l) : LINE_ENDED;
    keys_end();
    *text = l->text;
    *signal = l->keys.signal;
    if (result == LINE_TEXT && l->n > 0) history_add(&l->history, l->text);
    return result;
}

bool line_possible(void)
{
    const char *term = getenv("TERM");
    return term && *term != 0 && strcmp(term, "dumb") != 0 && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && isatty(STDERR_FILENO);
}

enum forge_status line_open(struct line **out, const char *history, const char *const *words, struct forge_error *error)
{
    struct line *l = calloc(1, sizeof *l);
    *out = NULL;
    if (!l) return error_set(error, FORGE_NO_MEMORY, "out of memory for lines of the terminal");
    l->words = words;
    enum forge_status status = make_room(l, 1) ? history_open(&l->history, history, error)
                                               : error_set(error, FORGE_NO_MEMORY, "out of memory for lines of the terminal");
    if (status == FORGE_OK) *out = l;
    else line_close(l);
    return status;
}

void line_close(struct line *l)
{
    if (!l) return;
    history_close(&l->history);
    free(l->text);
    free(l->killed);
    free(l->draft);
    free(l->widths);
    free(l);
}
