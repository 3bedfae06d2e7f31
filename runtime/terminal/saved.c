/* saved.c -- see saved.h.  A file has a header, messages and tokens, all under one hash, then the states under another. */
#include "saved.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/app/outfile.h"
#include "runtime/model/state.h"
#include "runtime/model/xxh3.h"

struct header {
    char     magic[8];
    uint64_t hash;                               /* XXH3 of the rest of the header and the body */
    uint64_t build;                              /* 0: without states */
    uint64_t body_bytes, state_bytes, state_hash;
    uint32_t n_messages, n_held, n_written, slot;
    int32_t  pending;
    uint32_t far;                                /* 1: `far` of struct forge_sequence */
};
_Static_assert(sizeof(struct header) == 72, "a file of a conversation: 72 bytes of header");
/* Before each text and its reasoning. */
struct part { uint32_t role, n, n_reasoning, n_held; int32_t pending; };
_Static_assert(sizeof(struct part) == 20, "a message: 20 bytes before its text");

static const char magic[8] = { 'F', 'O', 'R', 'G', 'E', 'C', '0', '1' };
static const char *const roles[] = { "system", "user", "assistant" };
enum { N_ROLES = sizeof roles / sizeof *roles, HASHED_FROM = offsetof(struct header, build) };
static const uint32_t none = UINT32_MAX;                         /* n_reasoning: no reasoning */
static const uint64_t most_body_bytes = (uint64_t)1 << 30;

/* What decides the meaning of the states: the build, and for a hand-edited source its hash. */
static uint64_t identity(const struct chat *c)
{
    const uint64_t edited = forge_edited_source ? forge_xxh3(forge_edited_source, strlen(forge_edited_source)) : 0;
    const uint64_t build = state_identity(c->session->program) ^ edited;
    return build != 0 ? build : 1;
}

static uint64_t hash_more(uint64_t hash, const void *bytes, size_t n) { return hash * 0x9e3779b97f4a7c15u + forge_xxh3(bytes, n); }

/* ---- writing ---- */

struct saved_writer { int fd; const char *path; uint64_t hash; };

static enum forge_status put_states(void *context, uint8_t *bytes, size_t n, struct forge_error *error)
{
    struct saved_writer *w = context;
    w->hash = hash_more(w->hash, bytes, n);
    return write_all(w->fd, bytes, n, w->path, error);
}

static uint8_t *put(uint8_t *to, const void *bytes, size_t n)
{
    if (n > 0) memcpy(to, bytes, n);
    return to + n;
}

/* The header, except state_hash, and the body, from malloc. */
static uint8_t *make_body(const struct chat *c, struct header *h)
{
    uint64_t bytes = c->n_held * sizeof *c->held;
    for (size_t i = 0; i < c->n_messages; i++) bytes += sizeof(struct part) + c->messages[i].n + c->messages[i].n_reasoning;
    uint8_t *const body = bytes <= most_body_bytes ? malloc(bytes + 1) : NULL, *to = body;
    if (!body) return NULL;
    for (size_t i = 0; i < c->n_messages; i++) {
        const struct message *m = &c->messages[i];
        struct part part = { 0, (uint32_t)m->n, m->reasoning ? (uint32_t)m->n_reasoning : none, (uint32_t)m->n_held, m->pending };
        while (part.role + 1 < N_ROLES && strcmp(roles[part.role], m->role) != 0) part.role++;
        to = put(to, &part, sizeof part);
        to = put(to, m->text, m->n);
        to = put(to, m->reasoning, m->n_reasoning);
    }
    to = put(to, c->held, c->n_held * sizeof *c->held);
    h->body_bytes = (uint64_t)(to - body);
    return body;
}

static uint64_t hash_all(const struct header *h, const uint8_t *body)
{
    const uint64_t hash = forge_xxh3((const uint8_t *)h + HASHED_FROM, sizeof *h - HASHED_FROM);
    return hash_more(hash, body, h->body_bytes);
}

/* The states are written before their hash is known, which is in the header. */
static enum forge_status write_file(const struct chat *c, int fd, const char *path, struct header *h, const uint8_t *body,
                                    struct forge_error *error)
{
    struct saved_writer w = { fd, path, 0 };
    TRY(write_all(fd, h, sizeof *h, path, error));
    TRY(write_all(fd, body, h->body_bytes, path, error));
    if (h->build != 0) TRY(sequence_save(c->session->sequence, put_states, &w, error));
    h->state_hash = w.hash;
    h->hash = hash_all(h, body);
    if (pwrite(fd, h, sizeof *h, 0) == (ssize_t)sizeof *h) return FORGE_OK;
    return error_set(error, FORGE_BAD_OUTPUT, "cannot write to %s: %s", path, strerror(errno));
}

/* Tokens that the sequence has beyond the conversation come from a turn that was taken back and do not belong to it. */
static bool can_keep(struct chat *c)
{
    const struct forge_program *p = c->session->program;
    struct forge_sequence *q = c->session->sequence;
    if (c->n_held != q->n_past && !sequence_rewind(q, (uint32_t)c->n_held)) return false;
    return state_rewinds(p, q->n_written, q->n_past, q->n_past);
}

enum forge_status saved_write(struct chat *c, const char *path, bool with_states, struct forge_error *error)
{
    struct forge_sequence *q = c->session->sequence;
    struct header h = { .n_messages = (uint32_t)c->n_messages, .n_held = (uint32_t)c->n_held, .pending = c->pending };
    struct forge_outfile file;
    struct stat st;
    memcpy(h.magic, magic, sizeof magic);
    if (with_states && can_keep(c)) {
        h.build = identity(c);
        h.state_bytes = state_used_bytes(c->session->program, q->n_past);
        h.n_written = q->n_written;
        h.slot = q->slot;
        h.far = q->far;
    }
    uint8_t *body = make_body(c, &h);
    if (!body) return error_set(error, FORGE_NO_MEMORY, "out of memory for %s", path);
    const bool is_new = stat(path, &st) != 0;
    enum forge_status status = outfile_open(&file, path, error);
    if (status == FORGE_OK) {
        if (is_new) fchmod(file.fd, S_IRUSR | S_IWUSR);          /* conversations are private */
        status = write_file(c, file.fd, path, &h, body, error);
        status = outfile_close(&file, status, error);
    }
    free(body);
    return status;
}

/* ---- reading ---- */

struct cursor { const uint8_t *at; size_t left; };

static const void *take(struct cursor *c, size_t n)
{
    if (n > c->left) return NULL;
    const void *bytes = c->at;
    c->at += n;
    c->left -= n;
    return bytes;
}

/* A zero-terminated copy, from malloc. */
static char *take_text(struct cursor *c, size_t n)
{
    const char *bytes = take(c, n);
    char *text = bytes ? malloc(n + 1) : NULL;
    if (!text) return NULL;
    memcpy(text, bytes, n);
    text[n] = 0;
    return text;
}

static bool take_message(struct message *m, struct cursor *c, size_t number, uint32_t n_held)
{
    struct part part;
    const void *bytes = take(c, sizeof part);
    if (!bytes) return false;
    memcpy(&part, bytes, sizeof part);
    if (part.role >= N_ROLES || (part.role == 0 && number > 0) || part.n_held > n_held) return false;
    *m = (struct message){ .role = roles[part.role], .n = part.n, .n_held = part.n_held, .pending = part.pending };
    if (!(m->text = take_text(c, part.n))) return false;
    if (part.n_reasoning == none) return true;
    m->n_reasoning = part.n_reasoning;
    return (m->reasoning = take_text(c, part.n_reasoning)) != NULL;
}

void saved_free(struct saved *s)
{
    if (s->messages) chat_free_messages(s->messages, s->n_messages);
    free(s->messages);
    free(s->held);
    *s = (struct saved){ 0 };
}

static bool parse(struct saved *s, struct cursor *body, uint32_t n_messages)
{
    /* Each message has a part in the body, so any number of messages takes at most four times as much memory as the file has bytes. */
    if (n_messages > body->left / sizeof(struct part)) return false;
    s->messages = calloc((size_t)n_messages + 1, sizeof *s->messages);
    if (!s->messages) return false;
    while (s->n_messages < n_messages)
        if (!take_message(&s->messages[s->n_messages], body, s->n_messages, (uint32_t)s->n_held)) {
            s->n_messages++;                     /* so that the incomplete message is freed, too */
            return false;
        } else s->n_messages++;
    const void *held = take(body, s->n_held * sizeof *s->held);
    if (!held || body->left > 0 || !(s->held = malloc(s->n_held * sizeof *s->held + 1))) return false;
    memcpy(s->held, held, s->n_held * sizeof *s->held);
    return true;
}

bool saved_parse(struct saved *s, const uint8_t *bytes, size_t n, uint64_t file_bytes)
{
    struct header h;
    *s = (struct saved){ 0 };
    if (n < sizeof h) return false;
    memcpy(&h, bytes, sizeof h);
    if (memcmp(h.magic, magic, sizeof magic) != 0 || h.body_bytes != n - sizeof h || file_bytes < n || h.far > 1) return false;
    if (h.hash != hash_all(&h, bytes + sizeof h)) return false;
    *s = (struct saved){ .n_held = h.n_held, .build = h.build, .state_bytes = h.state_bytes, .state_hash = h.state_hash,
                         .n_written = h.n_written, .slot = h.slot, .far = h.far, .pending = h.pending };
    struct cursor body = { bytes + sizeof h, (size_t)h.body_bytes };
    if (parse(s, &body, h.n_messages)) return true;
    saved_free(s);
    return false;
}

struct saved_reader { int fd; uint64_t hash; };

static bool read_whole(int fd, void *to, size_t n)
{
    for (uint8_t *at = to; n > 0;) {
        const ssize_t got = read(fd, at, n);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        at += got;
        n -= (size_t)got;
    }
    return true;
}

static enum forge_status get_states(void *context, uint8_t *bytes, size_t n, struct forge_error *error)
{
    struct saved_reader *r = context;
    if (!read_whole(r->fd, bytes, n)) return error_set(error, FORGE_FAILED, "%s", "damaged");
    r->hash = hash_more(r->hash, bytes, n);
    return FORGE_OK;
}

/* fd is after the body.  NULL: the sequence has the states; else the reason why not, and the sequence is empty. */
static const char *read_states(struct chat *c, const struct saved *s, int fd)
{
    struct forge_sequence *q = c->session->sequence;
    const struct forge_program *p = c->session->program;
    struct saved_reader reader = { fd, 0 };
    if (s->build == 0) return "it was saved without its prompt cache";
    if (s->build != identity(c)) return "another build saved it";
    if (s->n_held > c->session->engine->n_ctx) return "the context is shorter than when it was saved";
    for (size_t i = 0; i < s->n_held; i++) if (s->held[i] < 0 || (uint32_t)s->held[i] >= p->n_vocab) return "its prompt cache is damaged";
    if (s->state_bytes != state_used_bytes(p, (uint32_t)s->n_held)) return "its prompt cache is damaged";
    const enum forge_status status = sequence_restore(q, s->held, (uint32_t)s->n_held, s->n_written, s->slot, s->far, get_states, &reader,
                                                      NULL);
    return status == FORGE_OK && reader.hash == s->state_hash ? NULL : "its prompt cache is damaged";
}

/* The beginning of the file up to the states; NULL: it is not a saved conversation. */
static uint8_t *read_body(int fd, const char *path, size_t *n, uint64_t *file_bytes, struct forge_error *error)
{
    struct header h;
    struct stat st;
    const bool plain = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    *file_bytes = plain ? (uint64_t)st.st_size : 0;
    uint8_t *bytes = NULL;
    if (!plain || !read_whole(fd, &h, sizeof h) || memcmp(h.magic, magic, sizeof magic) != 0)
        error_set(error, FORGE_FAILED, "%s is not a saved conversation", path);
    else if (h.body_bytes > most_body_bytes || h.body_bytes > *file_bytes - sizeof h)
        error_set(error, FORGE_FAILED, "%s is damaged: it ends early", path);
    else if (!(bytes = malloc(*n = sizeof h + (size_t)h.body_bytes)))
        error_set(error, FORGE_NO_MEMORY, "out of memory for %s", path);
    if (!bytes) return NULL;
    memcpy(bytes, &h, sizeof h);
    if (read_whole(fd, bytes + sizeof h, (size_t)h.body_bytes)) return bytes;
    error_set(error, FORGE_FAILED, "cannot read %s", path);
    free(bytes);
    return NULL;
}

/* Plain turns were read as they were typed and cannot be read again, so they need the states. */
static enum forge_status become_plain(struct chat *c, struct saved *s, const char *path, int fd, struct forge_error *error)
{
    const int32_t n_vocab = (int32_t)c->session->program->n_vocab;
    bool damaged = s->pending < -1 || s->pending >= n_vocab;
    for (size_t i = 0; i < s->n_messages; i++) damaged |= s->messages[i].pending < -1 || s->messages[i].pending >= n_vocab;
    const char *why = damaged ? "it is damaged" : read_states(c, s, fd);
    if (!why) return FORGE_OK;
    chat_take_back(c, c->first);
    c->n_held = 0;
    c->pending = -1;
    TRY(sequence_reset(c->session->sequence, error));
    return error_set(error, FORGE_FAILED, "%s: %s, and a chat without a template cannot be read again", path, why);
}

/* Takes over a file whose body is complete; frees `saved`. */
static enum forge_status become(struct chat *c, struct saved *s, const char *path, int fd, char note[256], struct forge_error *error)
{
    enum forge_status status = FORGE_OK;
    const char *why = c->template ? read_states(c, s, fd) : NULL;
    if (why) {
        snprintf(note, 256, "%s: %s: the conversation is read again", path, why);
        s->n_held = 0;
        status = sequence_reset(c->session->sequence, error);
    }
    if (!c->template) status = become_plain(c, s, path, fd, error);
    if (status == FORGE_OK) {
        struct message *const before = c->messages;
        const size_t n_before = c->n_messages;
        c->messages = s->messages;
        c->n_messages = c->most_messages = s->n_messages;
        c->first = s->n_messages > 0 && s->messages[0].role == roles[0];
        c->pending = s->pending;
        c->n_held = s->n_held;
        if (s->n_held > 0) memcpy(c->held, s->held, s->n_held * sizeof *c->held);
        s->messages = before;
        s->n_messages = n_before;
    }
    saved_free(s);
    return status;
}

enum forge_status saved_read(struct chat *c, const char *path, char note[256], struct forge_error *error)
{
    struct saved s;
    size_t n = 0;
    uint64_t file_bytes = 0;
    note[0] = 0;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return error_set(error, FORGE_FAILED, "cannot open %s: %s", path, strerror(errno));
    uint8_t *bytes = read_body(fd, path, &n, &file_bytes, error);
    enum forge_status status = bytes ? FORGE_OK : FORGE_FAILED;
    if (bytes && !saved_parse(&s, bytes, n, file_bytes)) status = error_set(error, FORGE_FAILED, "%s is damaged", path);
    free(bytes);
    if (status == FORGE_OK) status = become(c, &s, path, fd, note, error);
    close(fd);
    return status;
}

bool saved_is_other(const char *path)
{
    char start[sizeof magic];
    struct stat st;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return errno != ENOENT;
    const bool other = fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || (st.st_size > 0 && (!read_whole(fd, start, sizeof start) ||
                                                                  memcmp(start, magic, sizeof magic) != 0));
    close(fd);
    return other;
}
