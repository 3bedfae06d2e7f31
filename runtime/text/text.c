/* text.c -- prompts and token lists: reads, tokenizes, and looks up tokens. */
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/app/options.h"
#include "tokenize.h"
#include "runtime/model/vocab.h"

enum forge_status read_all(struct forge_bytes *out, const char *path, struct forge_error *error)
{
    const char *name = path ? path : "stdin";
    enum forge_status status = FORGE_OK;
    size_t capacity = 1 << 16, n = 0;
    *out = (struct forge_bytes){ NULL, 0 };
    const int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
    if (fd < 0) return error_set(error, FORGE_FAILED, "cannot open %s: %s", name, strerror(errno));
    char *bytes = malloc(capacity);
    for (;;) {
        if (!bytes) { status = error_set(error, FORGE_NO_MEMORY, "out of memory for the text of %s", name); break; }
        const ssize_t got = read(fd, bytes + n, capacity - 1 - n);
        if (got < 0 && errno == EINTR) { status = error_set(error, FORGE_INTERRUPTED, "interrupted"); break; }
        if (got < 0) { status = error_set(error, FORGE_FAILED, "cannot read %s: %s", name, strerror(errno)); break; }
        if (got == 0) break;
        n += (size_t)got;
        if (n > FORGE_TOK_MAX_BYTES) {                           /* for instance /dev/zero */
            status = error_set(error, FORGE_TOO_LONG, "%s has more than %zu bytes", name, FORGE_TOK_MAX_BYTES);
            break;
        }
        if (n + 1 == capacity) {
            char *more = realloc(bytes, capacity *= 2);
            if (!more) free(bytes);
            bytes = more;
        }
    }
    if (path) close(fd);
    if (status != FORGE_OK) {
        free(bytes);
        return status;
    }
    bytes[n] = 0;
    *out = (struct forge_bytes){ bytes, n };
    return FORGE_OK;
}

enum forge_status prompt_read(struct forge_bytes *text, const struct forge_options *o, struct forge_error *error)
{
    if (o->prompt) {
        const size_t n = strlen(o->prompt);
        if (!(text->bytes = malloc(n + 1))) return error_set(error, FORGE_NO_MEMORY, "out of memory for the prompt");
        memcpy(text->bytes, o->prompt, n + 1);
        text->n = o->escape ? unescape(text->bytes) : n;
        return FORGE_OK;
    }
    if (!o->prompt_file && isatty(STDIN_FILENO))
        return error_set(error, FORGE_USAGE, "no prompt: give one with -p, -f or on stdin (--help lists all options)");
    TRY(read_all(text, o->prompt_file, error));
    if (text->n > 0 && text->bytes[text->n - 1] == '\n') text->bytes[--text->n] = 0;
    return FORGE_OK;
}

enum forge_status tokens_of_text(struct forge_tokens *out, const uint8_t *vocab, const char *text, size_t n, uint32_t flags,
                                 struct forge_error *error)
{
    *out = (struct forge_tokens){ NULL, 0 };
    if (!vocab) return error_set(error, FORGE_USAGE, "the model has no tokenizer: give token ids with --tokens and --print-tokens");
    if (n > FORGE_TOK_MAX_BYTES) return error_set(error, FORGE_TOO_LONG, "the text has %zu bytes; the maximum is %zu", n,
                                                  FORGE_TOK_MAX_BYTES);
    const size_t capacity = FORGE_TOK_MOST(n), scratch_bytes = forge_tokenize_scratch(n);
    int32_t *ids = malloc(capacity * sizeof *ids);
    void *scratch = malloc(scratch_bytes > 0 ? scratch_bytes : 1);
    int64_t count = -1;
    if (ids && scratch) count = forge_tokenize(vocab, text, n, flags, ids, capacity, scratch, scratch_bytes);
    free(scratch);
    if (count < 0 || (uint64_t)count > capacity) {
        free(ids);
        return error_set(error, FORGE_NO_MEMORY, "out of memory for the tokens of %zu bytes of text", n);
    }
    *out = (struct forge_tokens){ ids, (size_t)count };
    return FORGE_OK;
}

enum forge_status tokens_of_list(struct forge_tokens *out, const char *list, uint32_t n_vocab, struct forge_error *error)
{
    struct forge_bytes file = { NULL, 0 };
    *out = (struct forge_tokens){ NULL, 0 };
    const char *text = list;
    size_t n = strlen(list);
    if (list[0] == '@') {
        TRY(read_all(&file, list + 1, error));
        text = file.bytes;
        n = file.n;
    }
    int32_t *ids = malloc((n / 2 + 1) * sizeof *ids);
    if (!ids) {
        free(file.bytes);
        return error_set(error, FORGE_NO_MEMORY, "out of memory for the token ids");
    }
    const int64_t count = parse_numbers(text, n, 0, (int64_t)n_vocab - 1, ids, n / 2 + 1);
    free(file.bytes);
    if (count < 0) {
        free(ids);
        const char *name = list[0] == '@' ? list + 1 : "", *colon = list[0] == '@' ? ": " : "";
        return error_set(error, FORGE_USAGE, "--tokens: %s%sthe text at byte %lld is not a token id below %u", name, colon,
                         (long long)(NUMBERS_WRONG - count), n_vocab);
    }
    *out = (struct forge_tokens){ ids, (size_t)count };
    return FORGE_OK;
}

bool vocab_is_end(const uint8_t *vocab, int32_t id) { return vocab && forge_vocab_is_eog(vocab, id); }
int32_t vocab_bos(const uint8_t *vocab) { return vocab ? forge_vocab_bos(vocab) : -1; }
bool vocab_adds_bos(const uint8_t *vocab) { return vocab && forge_vocab_add_bos(vocab); }

size_t vocab_token_bytes(const uint8_t *vocab)
{
    struct forge_vocab_header h;
    if (!vocab) return 0;
    memcpy(&h, vocab, sizeof h);
    return h.max_token_bytes;
}
