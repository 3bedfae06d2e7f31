/* test_saved.c -- a conversation in a file: it is restored completely, with its states.  A damaged, truncated or forged file is refused, or
 * only its messages are restored, and it never does harm.  Also the width of characters on a terminal. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/model/state.h"
#include "runtime/model/xxh3.h"
#include "runtime/terminal/glyph.h"
#include "runtime/terminal/saved.h"
#include "scratch.h"

enum { CONTEXT = 40, N_HELD = 21, N_WRITTEN = 23, VOCABULARY = 100, STATE_BYTES = 4096, HEADER_BYTES = 72 };

/* A layer with attention, one with a window, and one with a state that every token replaces. */
static const struct forge_state states[] = {
    { FORGE_STATE_KV, 0, 0, 4 * 48 * 8, 4, 48, 8, UINT32_MAX }, { FORGE_STATE_RING, 1, 2048, 2 * 32 * 8, 2, 32, 8, 13 },
    { FORGE_STATE_RECURRENT, 2, 3072, 100, 0, 0, 0, 8 },
};
static const struct forge_program program = {
    .n_ctx = CONTEXT, .n_vocab = VOCABULARY, .n_states = 3, .states = states, .state_bytes = STATE_BYTES, .model_hash = "m",
    .weights_hash = "w", .target = "t", .options = "o", .compiler = "c",
}, other = {
    .n_ctx = CONTEXT, .n_vocab = VOCABULARY, .n_states = 3, .states = states, .state_bytes = STATE_BYTES, .model_hash = "m",
    .weights_hash = "w", .target = "t", .options = "p", .compiler = "c",
}, far_program = {
    .n_ctx = CONTEXT, .n_vocab = VOCABULARY, .n_states = 3, .states = states, .state_bytes = STATE_BYTES, .model_hash = "m",
    .weights_hash = "w", .target = "t", .options = "o", .compiler = "c", .far_from = 2,
};
const struct forge_program *const forge_programs[] = { &program };
const uint32_t forge_n_programs = 1;
const char *const forge_edited_source = NULL;
const uint8_t *const forge_weights = NULL;

/* A chat without a model. */
struct world {
    struct forge_engine engine;
    struct forge_sequence sequence;
    struct forge_session session;
    struct chat chat;
    int32_t held[CONTEXT + 2];
    uint8_t state[STATE_BYTES];
};

static void open_world(struct world *w, const struct forge_program *p)
{
    memset(w, 0, sizeof *w);
    w->engine = (struct forge_engine){ .program = p, .n_ctx = CONTEXT };
    w->sequence = (struct forge_sequence){ .engine = &w->engine, .state = w->state };
    w->session = (struct forge_session){ .program = p, .engine = &w->engine, .sequence = &w->sequence };
    w->chat = (struct chat){ .session = &w->session, .template = (const uint8_t *)"", .held = w->held, .pending = -1 };
}

static void say(struct world *w, const char *role, const char *text, const char *reasoning)
{
    assert_int_equal(chat_add(&w->chat, role, text, strlen(text), NULL), FORGE_OK);
    struct message *m = &w->chat.messages[w->chat.n_messages - 1];
    if (reasoning) {
        m->reasoning = strdup(reasoning);
        m->n_reasoning = strlen(reasoning);
    }
}

static void talk(struct world *w)
{
    say(w, "system", "Be kind", NULL);
    w->chat.first = 1;
    say(w, "user", "Who are you?", NULL);
    say(w, "assistant", "A story\nteller.", "They ask who I am.");
    say(w, "user", "", NULL);
    say(w, "assistant", "\xff no UTF-8", "");
    w->chat.n_held = w->sequence.n_past = N_HELD;
    w->sequence.n_written = N_WRITTEN;
    for (int i = 0; i < N_HELD; i++) w->held[i] = i * 3;
    for (int i = 0; i < STATE_BYTES; i++) w->state[i] = (uint8_t)(i * 7 + i / 256);
}

static void close_world(struct world *w)
{
    chat_free_messages(w->chat.messages, w->chat.n_messages);
    free(w->chat.messages);
}

static bool same_text(const char *a, size_t n, const char *b, size_t m) { return !a == !b && n == m && (n == 0 || memcmp(a, b, n) == 0); }

static bool same_messages(const struct chat *a, const struct chat *b)
{
    if (a->n_messages != b->n_messages || a->first != b->first) return false;
    for (size_t i = 0; i < a->n_messages; i++) {
        const struct message *x = &a->messages[i], *y = &b->messages[i];
        if (strcmp(x->role, y->role) != 0 || !same_text(x->text, x->n, y->text, y->n)) return false;
        if (!same_text(x->reasoning, x->n_reasoning, y->reasoning, y->n_reasoning)) return false;
    }
    return true;
}

/* Compares the parts of each state that the first tokens have written. */
static bool same_states(const struct world *a, const struct world *b, uint32_t n_past)
{
    for (uint32_t i = 0; i < 3; i++) {
        const struct state_runs r = state_runs(&states[i], n_past);
        for (uint64_t k = 0; k < r.n; k++) {
            const uint64_t at = r.offset + k * r.stride;
            if (memcmp(a->state + at, b->state + at, r.bytes) != 0) return false;
        }
    }
    return true;
}

static const char *path_in(const struct scratch *s)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/kept", s->directory);
    return path;
}

static void whole(void **state)
{
    const char *path = path_in(*state);
    struct world a, b;
    struct forge_error error;
    char note[256];
    struct stat st;
    open_world(&a, &program);
    open_world(&b, &program);
    talk(&a);
    say(&b, "user", "something else", NULL);
    assert_int_equal(saved_write(&a.chat, path, true, &error), FORGE_OK);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_false(saved_is_other(path));
    assert_int_equal(saved_read(&b.chat, path, note, &error), FORGE_OK);
    assert_string_equal(note, "");
    assert_true(same_messages(&a.chat, &b.chat));
    assert_int_equal(b.chat.n_held, N_HELD);
    assert_memory_equal(a.held, b.held, N_HELD * sizeof *a.held);
    assert_int_equal(b.sequence.n_past, N_HELD);
    assert_int_equal(b.sequence.n_written, N_WRITTEN);
    assert_true(same_states(&a, &b, N_HELD));
    b.state[5] ^= 1;
    assert_false(same_states(&a, &b, N_HELD));
    assert_false(b.sequence.far);

    /* computed in a text longer than far_from */
    close_world(&b);
    open_world(&b, &far_program);
    a.engine.program = a.session.program = &far_program;
    a.sequence.far = true;
    assert_int_equal(saved_write(&a.chat, path, true, &error), FORGE_OK);
    assert_int_equal(saved_read(&b.chat, path, note, &error), FORGE_OK);
    assert_string_equal(note, "");
    assert_true(b.sequence.far);
    a.sequence.far = false;
    a.engine.program = a.session.program = &program;

    /* without states, or from a build with other options: only messages */
    assert_int_equal(saved_write(&a.chat, path, false, &error), FORGE_OK);
    assert_int_equal(saved_read(&b.chat, path, note, &error), FORGE_OK);
    assert_non_null(strstr(note, "without its prompt cache"));
    assert_int_equal(b.sequence.n_past, 0);
    assert_int_equal(b.chat.n_held, 0);
    close_world(&b);
    open_world(&b, &other);
    assert_int_equal(saved_write(&a.chat, path, true, &error), FORGE_OK);
    assert_int_equal(saved_read(&b.chat, path, note, &error), FORGE_OK);
    assert_non_null(strstr(note, "another build"));
    assert_true(same_messages(&a.chat, &b.chat));
    b.chat.template = NULL;
    assert_int_equal(saved_read(&b.chat, path, note, &error), FORGE_FAILED);
    close_world(&b);
    /* a context shorter than the text */
    open_world(&b, &program);
    b.engine.n_ctx = N_HELD - 1;
    assert_int_equal(saved_read(&b.chat, path, note, &error), FORGE_OK);
    assert_non_null(strstr(note, "shorter"));
    close_world(&a);
    close_world(&b);
}

/* Overwrites the file: some file systems are slow if a file is truncated first. */
static void put_file(const char *path, const uint8_t *bytes, size_t n)
{
    const int fd = open(path, O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, n, 0), n);
    assert_int_equal(ftruncate(fd, (off_t)n), 0);
    close(fd);
}

static size_t get_file(const char *path, uint8_t *bytes, size_t room)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    const size_t n = fread(bytes, 1, room, f);
    fclose(f);
    return n;
}

/* Reads the file at path into another conversation: all messages are replaced, with or without states, or the old conversation stays.
 * Returns 1 if messages were read. */
static int try_damaged(const struct world *original, const char *path)
{
    struct world b, before;
    struct forge_error error;
    char note[256];
    open_world(&b, &program);
    open_world(&before, &program);
    say(&b, "user", "before", NULL);
    say(&before, "user", "before", NULL);
    const enum forge_status status = saved_read(&b.chat, path, note, &error);
    if (status == FORGE_OK) {
        assert_true(same_messages(&original->chat, &b.chat));
        assert_string_not_equal(note, "");
        assert_int_equal(b.sequence.n_past, 0);
        assert_int_equal(b.chat.n_held, 0);
    } else {
        assert_int_equal(status, FORGE_FAILED);
        assert_true(same_messages(&before.chat, &b.chat));
        assert_null(strchr(error.text, '\n'));
        assert_non_null(strstr(error.text, path));
    }
    close_world(&b);
    close_world(&before);
    return status == FORGE_OK;
}

static void damaged(void **state)
{
    const char *path = path_in(*state);
    static uint8_t bytes[1 << 16];
    struct world a;
    open_world(&a, &program);
    talk(&a);
    assert_int_equal(saved_write(&a.chat, path, true, NULL), FORGE_OK);
    const size_t n = get_file(path, bytes, sizeof bytes);
    uint64_t body_bytes;
    memcpy(&body_bytes, bytes + 24, sizeof body_bytes);
    assert_true(n > HEADER_BYTES + body_bytes + 1000);
    size_t refused = 0, came = 0;
    for (size_t i = 0; i < n; i++)
        for (int bit = i < HEADER_BYTES + body_bytes ? 0 : 7; bit < 8; bit++) {
            bytes[i] ^= (uint8_t)(1 << bit);
            put_file(path, bytes, n);
            const int messages = try_damaged(&a, path);
            assert_int_equal(messages, i >= HEADER_BYTES + body_bytes);
            bytes[i] ^= (uint8_t)(1 << bit);
            *(messages ? &came : &refused) += 1;
        }
    assert_int_equal(refused, 8 * (HEADER_BYTES + body_bytes));
    assert_true(came > 1000);
    for (size_t cut = 0; cut < n; cut++) {
        put_file(path, bytes, cut);
        assert_int_equal(try_damaged(&a, path), cut >= HEADER_BYTES + body_bytes);
    }
    memset(bytes, 0, sizeof bytes);
    put_file(path, bytes, sizeof bytes);
    assert_int_equal(try_damaged(&a, path), 0);
    assert_true(saved_is_other(path));
    assert_true(saved_is_other("/"));
    assert_true(saved_is_other("/dev/null"));
    assert_false(saved_is_other("/nosuch/file"));
    close_world(&a);
}

/* A forged file has the right hashes. */
static void rehash(uint8_t *bytes, size_t n)
{
    const uint64_t head = forge_xxh3(bytes + 16, HEADER_BYTES - 16), body = forge_xxh3(bytes + HEADER_BYTES, n - HEADER_BYTES);
    const uint64_t hash = head * 0x9e3779b97f4a7c15u + body;
    memcpy(bytes + 8, &hash, sizeof hash);
}

static void made_up(void **state)
{
    const char *path = path_in(*state);
    static uint8_t bytes[1 << 16], changed[1 << 16];
    struct world a, b;
    char note[256];
    struct forge_error error;
    open_world(&a, &program);
    talk(&a);
    assert_int_equal(saved_write(&a.chat, path, true, NULL), FORGE_OK);
    const size_t n = get_file(path, bytes, sizeof bytes);
    uint64_t body_bytes, random = 1;
    memcpy(&body_bytes, bytes + 24, sizeof body_bytes);
    const size_t whole_bytes = HEADER_BYTES + (size_t)body_bytes;
    size_t came = 0, refused = 0;
    for (int i = 0; i < 6000; i++) {
        memcpy(changed, bytes, n);
        const int changes = i < 2000 ? 1 : 1 + i % 4;
        for (int k = 0; k < changes; k++) {
            static const uint8_t values[] = { 0, 1, 255, 127, 128, 3 };
            random = random * 6364136223846793005u + 1442695040888963407u;
            const size_t at = 8 + (random >> 33) % (whole_bytes - 8);
            changed[at] = i < 4000 ? values[(random >> 20) % sizeof values] : (uint8_t)(random >> 20);
        }
        rehash(changed, whole_bytes);
        put_file(path, changed, n);
        open_world(&b, &program);
        if (i % 2) b.chat.template = NULL;
        *(saved_read(&b.chat, path, note, &error) == FORGE_OK ? &came : &refused) += 1;
        assert_true(b.chat.n_held <= CONTEXT && b.sequence.n_past <= CONTEXT && b.chat.n_held == b.sequence.n_past);
        close_world(&b);
    }
    assert_true(came > 500 && refused > 500);
    close_world(&a);
}

static void check_glyph(const char *text, size_t columns, const char *shown)
{
    struct glyph g;
    glyph_of(&g, text, strlen(text));
    assert_int_equal(g.columns, columns);
    assert_int_equal(g.n_shown, strlen(shown));
    assert_memory_equal(g.shown, shown, g.n_shown);
}

static void glyphs(void **state)
{
    (void)state;
    check_glyph("a", 1, "a");
    check_glyph("\033[2J", 2, "^[");
    check_glyph("\177", 2, "^?");
    check_glyph("\t", 4, "    ");
    check_glyph("\xc2\x9b", 1, "\xef\xbf\xbd");                   /* CSI as one character */
    check_glyph("\xff", 1, "\xef\xbf\xbd");
    check_glyph("\xe2\x80\xae", 0, "");                            /* right-to-left override */
    check_glyph("\xcc\x81", 0, "\xcc\x81");
    check_glyph("\xe6\x97\xa5", 2, "\xe6\x97\xa5");
    check_glyph("\xf0\x9f\x98\x80", 2, "\xf0\x9f\x98\x80");
    /* e with an accent; a family of three joined characters; two flags */
    static const char *const one[] = { "e\xcc\x81", "\xf0\x9f\x91\xa8\xe2\x80\x8d\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x91\xa7",
                                       "\xf0\x9f\x87\xa9\xf0\x9f\x87\xaa", "\xe4\xb8\x80", "x" };
    char text[256] = "";
    for (size_t i = 0; i < 5; i++) strcat(text, one[i]);
    size_t at = 0;
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(glyph_step(text + at, strlen(text + at)), strlen(one[i]));
        at += strlen(one[i]);
        assert_int_equal(glyph_step_back(text, at), strlen(one[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(whole, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(damaged, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(made_up, scratch_setup, scratch_teardown),
        cmocka_unit_test(glyphs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
