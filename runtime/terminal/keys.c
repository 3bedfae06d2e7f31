/* keys.c -- see keys.h. */
#include "keys.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "runtime/app/ending.h"
#include "runtime/chat/text.h"

enum { ESCAPE_MS = 60, FOREVER = -1 };           /* the bytes that a terminal sends for one key arrive together */
enum { BYTE_NONE = -1, BYTE_EOF = -2, BYTE_SIGNAL = -3 };
static const char paste_on[] = "\033[?2004h", paste_off[] = "\033[?2004l";

/* ---- the terminal's mode, and signals ---- */

static const int caught[] = { SIGWINCH, SIGCONT, SIGTSTP, SIGINT, SIGTERM, SIGHUP, SIGQUIT };
enum { N_CAUGHT = sizeof caught / sizeof *caught };
static struct sigaction before[N_CAUGHT];
static volatile sig_atomic_t came[N_CAUGHT];
static struct termios cooked;
static volatile sig_atomic_t is_raw;
static int wake[2] = { -1, -1 };                 /* a byte for each signal, which ends poll in any thread */

static void on_signal(int number)
{
    const int reason = errno;
    for (int i = 0; i < N_CAUGHT; i++) if (caught[i] == number) came[i] = 1;
    if (write(wake[1], "", 1) < 0) { }           /* full: poll ends anyway */
    errno = reason;
}

static void restore(void)
{
    if (!is_raw) return;
    if (write(STDERR_FILENO, paste_off, sizeof paste_off - 1) < 0) { }
    tcsetattr(STDIN_FILENO, TCSANOW, &cooked);
    is_raw = 0;
}

static void go_raw(void)
{
    struct termios raw = cooked;
    raw.c_iflag &= ~(tcflag_t)(BRKINT | ICRNL | INLCR | IGNCR | INPCK | ISTRIP | IXON);
    raw.c_lflag &= ~(tcflag_t)(ECHO | ICANON | IEXTEN | ISIG);
    raw.c_cflag |= CS8;
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    is_raw = 1;
    tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
    if (write(STDERR_FILENO, paste_on, sizeof paste_on - 1) < 0) { }
}

bool keys_begin(struct keys *k)
{
    if (tcgetattr(STDIN_FILENO, &cooked) != 0) return false;
    if (wake[0] < 0 && pipe2(wake, O_CLOEXEC | O_NONBLOCK) != 0) return false;
    k->pasting = false;
    k->signal = 0;
    const struct sigaction action = { .sa_handler = on_signal };
    for (int i = 0; i < N_CAUGHT; i++) {
        came[i] = 0;
        sigaction(caught[i], NULL, &before[i]);
        if (before[i].sa_handler != SIG_IGN) sigaction(caught[i], &action, NULL);            /* a SIGHUP ignored by nohup stays ignored */
    }
    ending_restores(restore);
    go_raw();
    return true;
}

void keys_end(void)
{
    restore();
    ending_restores(NULL);
    for (int i = 0; i < N_CAUGHT; i++) sigaction(caught[i], &before[i], NULL);
}

/* Stops the whole process group, as the terminal does, so that a shell which runs the program stops too. */
void keys_stop(void)
{
    restore();
    struct sigaction action = { .sa_handler = SIG_DFL }, ours;
    sigaction(SIGTSTP, &action, &ours);
    kill(0, SIGTSTP);
    sigaction(SIGTSTP, &ours, NULL);
    if (tcgetattr(STDIN_FILENO, &cooked) == 0) go_raw();
}

/* ---- bytes ---- */

static int next_byte(struct keys *k, int milliseconds)
{
    while (k->at == k->n) {
        for (int i = 0; i < N_CAUGHT && milliseconds == FOREVER; i++) if (came[i]) return BYTE_SIGNAL;        /* not within a key */
        struct pollfd from[2] = { { .fd = STDIN_FILENO, .events = POLLIN }, { .fd = wake[0], .events = POLLIN } };
        const int ready = poll(from, 2, milliseconds);
        char drained[64];
        while (read(wake[0], drained, sizeof drained) > 0) { }
        if (ready == 0) return BYTE_NONE;
        if (ready < 0 || from[0].revents == 0) continue;
        const ssize_t got = read(STDIN_FILENO, k->bytes, sizeof k->bytes);
        if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (got <= 0) return BYTE_EOF;
        k->at = 0;
        k->n = (size_t)got;
    }
    return k->bytes[k->at++];
}

bool keys_waiting(const struct keys *k)
{
    return k->at < k->n || poll(&(struct pollfd){ .fd = STDIN_FILENO, .events = POLLIN }, 1, 0) > 0;
}

static uint32_t signal_key(struct keys *k)
{
    static const uint32_t keys[N_CAUGHT] = { KEY_RESIZED, KEY_RESUMED, KEY_STOP, 3, KEY_ENDED, KEY_ENDED, KEY_ENDED };
    for (int i = 0; i < N_CAUGHT; i++) {
        if (!came[i]) continue;
        came[i] = 0;
        if (keys[i] == KEY_ENDED) k->signal = caught[i];
        if (caught[i] == SIGCONT) go_raw();      /* another program used the terminal in the meantime */
        return keys[i];
    }
    return KEY_NONE;
}

/* ---- keys ---- */

static uint32_t character(struct keys *k, int lead)
{
    char bytes[4] = { (char)lead };
    const size_t want = lead < 0xc2 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 1;
    size_t n = 1;
    while (n < want) {
        const int byte = next_byte(k, ESCAPE_MS);
        if (byte < 0) break;
        if ((byte & 0xc0) != 0x80) {
            k->at--;
            break;
        }
        bytes[n++] = (char)byte;
    }
    const uint32_t c = n == want ? text_codepoint(bytes, n) : 0xfffd;
    const bool shortest = want < 3 || (want == 3 ? c >= 0x800 && c - 0xd800 >= 0x800 : c >= 0x10000 && c < 0x110000);
    return shortest ? c : 0xfffd;
}

/* CSI and SS3: the number before the first ';', and the modifiers after it minus one: 1 shift, 2 alt, 4 control. */
static uint32_t sequence(unsigned char final, uint32_t number, uint32_t modifiers)
{
    const bool word = modifiers & 6;
    switch (final) {
    case 'A': return KEY_UP;
    case 'B': return KEY_DOWN;
    case 'C': return word ? KEY_WORD_RIGHT : KEY_RIGHT;
    case 'D': return word ? KEY_WORD_LEFT : KEY_LEFT;
    case 'H': return KEY_HOME;
    case 'F': return KEY_END;
    case 'u': return number == 13 && modifiers ? KEY_NEWLINE : KEY_NONE;
    case '~': break;
    default:  return KEY_NONE;
    }
    switch (number) {
    case 1: case 7: return KEY_HOME;
    case 4: case 8: return KEY_END;
    case 3:   return word ? KEY_DELETE_WORD : KEY_DELETE;
    case 200: return KEY_PASTE;
    case 201: return KEY_PASTE_END;
    default:  return KEY_NONE;
    }
}

/* After ESC [.  A sequence that is too long or not a key is skipped up to its last byte. */
static uint32_t control_sequence(struct keys *k)
{
    uint32_t numbers[2] = { 0, 0 }, field = 0;
    for (int i = 0; i < 64; i++) {
        const int byte = next_byte(k, ESCAPE_MS);
        if (byte < 0) return KEY_NONE;
        if (byte >= '0' && byte <= '9' && field < 2 && numbers[field] < 1000) numbers[field] = numbers[field] * 10 + (uint32_t)(byte - '0');
        else if (byte == ';') field++;
        else if (byte >= 0x40 && byte < 0x7f) return sequence((unsigned char)byte, numbers[0], numbers[1] > 0 ? numbers[1] - 1 : 0);
        else if (byte < 0x20 || byte > 0x3f) return KEY_NONE;
    }
    return KEY_NONE;
}

/* OSC, DCS, PM, APC: an answer of the terminal to a request in some text; skipped to its end. */
static uint32_t string_sequence(struct keys *k)
{
    for (int byte = 0, last; (last = byte, byte = next_byte(k, ESCAPE_MS)) >= 0;)
        if (byte == 7 || (last == 27 && byte == '\\')) break;
    return KEY_NONE;
}

static uint32_t escape(struct keys *k)
{
    const int byte = next_byte(k, ESCAPE_MS);
    switch (byte) {
    case '[': return control_sequence(k);
    case 'O': {
        const int final = next_byte(k, ESCAPE_MS);
        return final >= 0 ? sequence((unsigned char)final, 0, 0) : KEY_NONE;
    }
    case ']': case 'P': case '^': case '_': return string_sequence(k);
    case 'b': case 'B': return KEY_WORD_LEFT;
    case 'f': case 'F': return KEY_WORD_RIGHT;
    case 'd': case 'D': return KEY_DELETE_WORD;
    case 8: case 127:   return KEY_RUBOUT_WORD;
    case '\r': case '\n': return KEY_NEWLINE;
    default:  return KEY_NONE;
    }
}

/* Text up to ESC [ 201 ~, with any line end as '\n'. */
static uint32_t pasted(struct keys *k, int byte)
{
    static const char end[] = "[201~";
    if (byte == '\r') {
        const int next = next_byte(k, 0);
        if (next >= 0 && next != '\n') k->at--;
        return '\n';
    }
    if (byte != 27) return character(k, byte);
    size_t n = 0;
    for (int next; end[n] != 0; n++) {
        next = next_byte(k, ESCAPE_MS);
        if (next < 0) break;
        if (next != end[n]) {
            k->at--;
            break;
        }
    }
    if (end[n] != 0) return KEY_NONE;            /* a sequence in the copied text: its ESC is dropped */
    k->pasting = false;
    return KEY_PASTE_END;
}

uint32_t keys_next(struct keys *k)
{
    const int byte = next_byte(k, FOREVER);
    if (byte == BYTE_SIGNAL) return signal_key(k);
    if (byte < 0) return KEY_EOF;
    if (k->pasting) return pasted(k, byte);
    const uint32_t key = byte == 27 ? escape(k) : character(k, byte);
    k->pasting = key == KEY_PASTE;
    return key;
}
