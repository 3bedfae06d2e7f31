/* states.c -- the states of a model, linked with a library of any model (prefix model).  After a state is saved and restored elsewhere,
 * rewound, cancelled or copied, the text continues with the logits of an uninterrupted text, bit for bit, or the call is refused; a damaged
 * state is refused.  states [-n TOKENS] [-s SEED] [-d LIBSIMT] [-r FILE] KIND FILE
 * KIND of the model's states: any (all can be rewound to every position), window (some only as far as their ring reaches) or none (some are
 * replaced by every token).  A state is written to FILE; -r: a state of another build, which must be refused.  -d: a GPU's library. */
#include "library_help.h"
#include "model.h"
#include <dlfcn.h>
#include <unistd.h>

enum { MOST_PIECES = 64, SEQUENCES = 3, TEXTS = 2, VOCAB = MODEL_N_VOCAB };
static const char *const status_names[] = { "any", "window", "none" };
enum kind { ANY, WINDOW, NONE } kind;

static uint64_t seed = 1;
static void *device;
static uint32_t n_tokens = MODEL_N_CTX, n_pieces, ends[MOST_PIECES];    /* ends: the position after each piece of a text */
static int32_t tokens[TEXTS][MODEL_N_CTX];
static float *truth[TEXTS][MOST_PIECES];         /* logits after each piece */
static uint8_t *saved[MOST_PIECES];              /* state of text 0 after each piece */
static size_t saved_bytes[MOST_PIECES];
static float logits[VOCAB];
static uint32_t checks, rewound, refused;

static uint32_t random_below(uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % n;
}

static void must(int status, int wanted, const char *what, uint32_t at)
{
    checks++;
    if (status == wanted) return;
    printf("states: %s, at %u: %d (%s), not %d (%s)\n", what, at, status, model_strerror(status), wanted, model_strerror(wanted));
    exit(1);
}
static void hold(bool condition, const char *what, uint32_t at) { must(condition ? 0 : MODEL_BAD_ARGUMENT, 0, what, at); }

static void *driver_symbol(void *context, const char *name) { return dlsym(context, name); }

/* An instance; its memory is initially filled with NaN. */
static struct model *opened(void)
{
    const struct model_options o = { .size = sizeof o, .n_sequences = SEQUENCES, .device_symbol = device ? driver_symbol : NULL,
                                     .device_context = device };
    void *workspace = aligned_memory(MODEL_WORKSPACE_OF(SEQUENCES));
    struct model *m;
    memset(workspace, 0xff, MODEL_WORKSPACE_OF(SEQUENCES));
    must(model_open(&m, workspace, MODEL_WORKSPACE_OF(SEQUENCES), &o), MODEL_OK, "opening", 0);
    return m;
}

static void closed(struct model *m)
{
    model_close(m);
    free(m);
}

static uint32_t begin_of(uint32_t piece) { return piece == 0 ? 0 : ends[piece - 1]; }
static int append(struct model *m, uint32_t text, uint32_t piece)
{
    return model_prefill(m, tokens[text] + begin_of(piece), ends[piece] - begin_of(piece), logits);
}

/* Appends n pieces; each must give the logits of the text alone. */
static void go_on(struct model *m, uint32_t text, uint32_t piece, uint32_t n, const char *what)
{
    for (; n > 0 && piece < n_pieces; n--, piece++) {
        hold(model_n_past(m) == begin_of(piece), what, begin_of(piece));
        must(append(m, text, piece), MODEL_OK, what, begin_of(piece));
        for (uint32_t i = 0; i < VOCAB; i++) {
            if (memcmp(&logits[i], &truth[text][piece][i], sizeof *logits) == 0) continue;
            printf("states: %s: logit %u after %u tokens is %.9g, of the text alone %.9g\n", what, i, ends[piece], (double)logits[i],
                   (double)truth[text][piece][i]);
            exit(1);
        }
        checks++;
    }
}

static void restored(struct model *m, uint32_t piece)
{
    must(model_restore(m, saved[piece], saved_bytes[piece]), MODEL_OK, "restoring", ends[piece]);
}

/* Cuts a text into pieces of one token, a few, or more than a micro-batch: they end at even and odd positions, also inside
 * micro-batches. */
static void cut(void)
{
    const uint32_t chunk = MODEL_CHUNK < n_tokens / 4 ? MODEL_CHUNK : n_tokens / 4;
    for (uint32_t at = 0; at < n_tokens && n_pieces < MOST_PIECES; n_pieces++) {
        const uint32_t way = random_below(3);
        const uint32_t n = n_pieces == 1 ? chunk + 1 + random_below(5) : way == 0 ? 1 : way == 1 ? 2 + random_below(8)
            : 1 + random_below(n_tokens / 6);
        at = n < n_tokens - at ? at + n : n_tokens;
        ends[n_pieces] = at;
    }
    for (uint32_t k = 0; k < TEXTS; k++)
        for (uint32_t i = 0; i < n_tokens; i++) tokens[k][i] = (int32_t)random_below(VOCAB);
}

/* Each text alone.  The first text also runs in an instance that saves after each piece: saving must not change anything. */
static void alone(void)
{
    for (uint32_t k = 0; k < TEXTS; k++) {
        struct model *m = opened();
        for (uint32_t i = 0; i < n_pieces; i++) {
            must(append(m, k, i), MODEL_OK, "a text", begin_of(i));
            truth[k][i] = malloc(sizeof logits);
            memcpy(truth[k][i], logits, sizeof logits);
        }
        closed(m);
    }
    struct model *m = opened();
    for (uint32_t i = 0; i < n_pieces; i++) {
        go_on(m, 0, i, 1, "a text that is saved");
        saved[i] = malloc(MODEL_STATE_BYTES);
        must(model_save(m, saved[i], MODEL_STATE_BYTES, &saved_bytes[i]), MODEL_OK, "saving", ends[i]);
        size_t none = 77;
        must(model_save(m, saved[i], saved_bytes[i] - 1, &none), MODEL_NO_ROOM, "saving where it does not fit", ends[i]);
        hold(none == 77, "a size where nothing is written", ends[i]);
    }
    closed(m);
}

static void restoring(void)
{
    uint8_t *again = malloc(MODEL_STATE_BYTES);
    struct model *used = opened();
    for (uint32_t i = 0; i < n_pieces; i++) {
        struct model *m = opened();
        size_t n = 0;
        restored(m, i);
        must(model_save(m, again, MODEL_STATE_BYTES, &n), MODEL_OK, "saving what was restored", ends[i]);
        hold(n == saved_bytes[i] && memcmp(again, saved[i], n) == 0, "its bytes", ends[i]);
        go_on(m, 0, i + 1, 3, "restored in fresh memory");
        closed(m);
        must(model_reset(used, 0), MODEL_OK, "a reset", ends[i]);
        go_on(used, 1, 0, i / 4 + 1, "after a reset");
        must(model_sequence_use(used, i % SEQUENCES), MODEL_OK, "another sequence", i);
        restored(used, i);
        go_on(used, 0, i + 1, 2, "restored over another text");
    }
    closed(used);
    free(again);
}

/* The saved state of m; the caller frees it. */
static uint8_t *state_of(struct model *m, size_t *n)
{
    uint8_t *bytes = malloc(MODEL_STATE_BYTES);
    must(model_save(m, bytes, MODEL_STATE_BYTES, n), MODEL_OK, "saving", model_n_past(m));
    return bytes;
}

/* Rewinds to position `to`, or is refused without a change. */
static bool back(struct model *m, uint32_t to)
{
    const uint32_t before = model_n_past(m);
    const int status = model_reset(m, to);
    if (status == MODEL_OK) rewound++;
    else {
        must(status, MODEL_CANNOT_REWIND, "going back", to);
        hold(model_n_past(m) == before, "where it was", before);
        refused++;
    }
    if (kind == ANY) must(status, MODEL_OK, "all is there", to);
    if (kind == NONE) must(status, MODEL_CANNOT_REWIND, "what was replaced", to);
    return status == MODEL_OK;
}

static void rewinding(void)
{
    struct model *m = opened();
    for (uint32_t from = 1; from < n_pieces; from++) {
        uint32_t to = random_below(from);
        for (int k = 0; k < 2; k++, to = from - 1) {
            restored(m, from);
            if (back(m, ends[to])) go_on(m, 0, to + 1, 2, "taken back");
            else go_on(m, 0, from + 1, 1, "after a refusal");
        }
    }
    /* rewinds token by token, as far as possible */
    restored(m, n_pieces - 1);
    while (model_n_past(m) > 1) {
        const uint32_t n_past = model_n_past(m);
        for (uint32_t i = 0; i + 1 < n_pieces; i++) {
            if (ends[i] != n_past) continue;
            size_t n;
            uint8_t *here = state_of(m, &n);
            go_on(m, 0, i + 1, 1, "taken back token by token");
            must(model_restore(m, here, n), MODEL_OK, "restoring what was taken back", n_past);
            if (i > 0 && back(m, ends[i / 2])) {
                go_on(m, 0, i / 2 + 1, 1, "taken back, restored, taken back");
                must(model_restore(m, here, n), MODEL_OK, "restoring what was taken back", n_past);
            }
            free(here);
        }
        if (!back(m, n_past - 1)) break;
    }
    if (kind == WINDOW) hold(rewound > 0 && refused > 0 && model_n_past(m) > 1, "a ring that goes round", model_n_past(m));
    must(model_reset(m, model_n_past(m) + 1), MODEL_BAD_ARGUMENT, "forward", 0);
    must(model_reset(m, 0), MODEL_OK, "to the beginning", 0);
    go_on(m, 0, 0, 2, "from the beginning");
    closed(m);
}

/* Cancels steps after any number of tiles. */
static void cancelling(void)
{
    struct model *m = opened();
    uint32_t given_up = 0;
    for (uint32_t i = 0; i < n_pieces; i++) {
        for (int k = 0; k < 4; k++) {
            const uint32_t begin = begin_of(i), tiles = k == 0 ? 0 : 1 + random_below(k == 1 ? MODEL_WORKERS : 6 * MODEL_TILES);
            int status = MODEL_MORE;
            if (i > 0) restored(m, i - 1);
            else must(model_reset(m, 0), MODEL_OK, "a reset", 0);
            must(model_begin(m, tokens[1] + begin, ends[i] - begin, logits), MODEL_OK, "beginning", begin);
            if (tiles > 0) status = model_step_budget(m, tiles);
            if (status == MODEL_OK) continue;            /* the step was complete */
            must(status, MODEL_MORE, "a part of a step", begin);
            given_up++;
            status = model_cancel(m);
            must(model_step_budget(m, 1), MODEL_NOT_BUSY, "what is left of it", begin);
            if (begin == 0 || tiles == 0 || kind == ANY || (kind == WINDOW && status == MODEL_OK)) {
                must(status, MODEL_OK, "cancelling", begin);
                go_on(m, 0, i, 2, "after a step that was cancelled");
            } else {
                must(status, MODEL_CANNOT_REWIND, "cancelling", begin);
                hold(model_n_past(m) == 0, "an empty context", begin);
                go_on(m, 0, 0, 2, "from the beginning after a step that was cancelled");
            }
            must(model_cancel(m), MODEL_OK, "cancelling nothing", begin);
        }
    }
    hold(given_up > 4, "steps that were given up", given_up);
    must(model_cancel(NULL), MODEL_BAD_ARGUMENT, "cancelling NULL", 0);
    closed(m);
}

/* The state must be refused; then the context is empty and usable for another text. */
static void refuse(struct model *m, const void *state, size_t n, const char *what, uint32_t at)
{
    restored(m, n_pieces / 2);
    must(model_restore(m, state, n), MODEL_BAD_STATE, what, at);
    hold(model_n_past(m) == 0, what, at);
    if (at % 8 == 0) go_on(m, 1, 0, 1, what);
}

static void damage(const char *other)
{
    struct model *m = opened();
    const uint32_t i = n_pieces / 2;
    const size_t n = saved_bytes[i];
    uint8_t *bytes = malloc(n + 8);
    memcpy(bytes, saved[i], n);
    for (uint32_t k = 0; k < 200; k++) {
        const size_t at = k < 72 ? k : ((size_t)random_below(1u << 16) << 16 | random_below(1u << 16)) % n;
        const uint8_t bit = (uint8_t)(1u << random_below(8));
        bytes[at] ^= bit;
        refuse(m, bytes, n, "a flipped bit", k);
        bytes[at] ^= bit;
    }
    for (uint32_t k = 0; k < 24; k++) {
        const size_t some = k < 16 ? k - 8 : random_below((uint32_t)n);
        refuse(m, bytes, k < 8 ? (size_t)k * 9 : n - 1 - some, "cut short", k);
    }
    must(model_restore(m, NULL, n), MODEL_BAD_ARGUMENT, "no state", 0);
    must(model_restore(m, bytes, n + 8), MODEL_OK, "bytes after a state", 0);
    go_on(m, 0, i + 1, 1, "bytes after a state");
    if (other) {
        size_t n_other;
        uint8_t *state = file_bytes(other, 0, &n_other);
        refuse(m, state, n_other, "a state of another build", 0);
        free(state);
    }
    free(bytes);
    closed(m);
}

/* Two texts alternate piece by piece; after each piece one of them is copied over the third sequence. */
static void sequences(void)
{
    struct model *m = opened();
    for (uint32_t i = 0; i < n_pieces; i++) {
        for (uint32_t k = 0; k < TEXTS; k++) {
            must(model_sequence_use(m, k), MODEL_OK, "another sequence", k);
            go_on(m, k, i, 1, "texts in turns");
        }
        must(model_sequence_copy(m, 2, i % 2), MODEL_OK, "a copy", ends[i]);
        must(model_sequence_use(m, 2), MODEL_OK, "another sequence", 2);
        hold(model_n_past(m) == ends[i], "its tokens", ends[i]);
        go_on(m, i % 2, i + 1, 2, "a copy that goes on");
    }
    /* copies over a text: an empty sequence, and a rewound one */
    must(model_sequence_use(m, 1), MODEL_OK, "another sequence", 1);
    must(model_reset(m, 0), MODEL_OK, "a reset", 1);
    must(model_sequence_copy(m, 2, 1), MODEL_OK, "a copy of nothing", 1);
    must(model_sequence_use(m, 2), MODEL_OK, "another sequence", 2);
    hold(model_n_past(m) == 0, "nothing", 2);
    go_on(m, 1, 0, 2, "where nothing was copied to");
    must(model_sequence_use(m, 0), MODEL_OK, "another sequence", 0);
    for (uint32_t i = n_pieces - 1; i-- > 0;) {
        restored(m, n_pieces - 1);
        if (!back(m, ends[i])) continue;
        must(model_sequence_copy(m, 1, 0), MODEL_OK, "a copy", ends[i]);
        must(model_sequence_use(m, 1), MODEL_OK, "another sequence", 1);
        if (i > 0 && back(m, ends[i / 2])) go_on(m, 0, i / 2 + 1, 1, "a copy taken back further");
        must(model_sequence_copy(m, 1, 0), MODEL_OK, "a copy", ends[i]);
        go_on(m, 0, i + 1, 1, "a copy of what was taken back");
        must(model_sequence_use(m, 0), MODEL_OK, "another sequence", 0);
    }
    closed(m);
}

static uint64_t one_more(void *context) { return ++*(uint64_t *)context; }

/* Measures steps after a piece.  Then the text continues as before; if tokens replace the state, as a text that was computed without the
 * measurement. */
static void measuring(void)
{
    static struct model_timing timings[MODEL_TIMINGS];
    const uint32_t piece = n_pieces / 3, depth = ends[piece], n_next = ends[piece + 1] - depth;
    uint64_t clock = 0;
    struct model *m = opened(), *other = opened();
    float *want = malloc(sizeof logits);
    for (uint32_t n = device && kind == NONE ? 3 : 1; n <= 3; n += 2) {      /* lanes need seconds for a decode step cut at each launch */
        struct model_profiling p = { .size = sizeof p, .n_steps = 3, .clock = device ? NULL : one_more, .clock_context = &clock,
                                   .timings = timings };
        restored(m, piece);
        must(model_profile(m, tokens[1] + depth, n, logits, &p), MODEL_OK, "measuring", depth);
        hold(model_n_past(m) == depth && p.n_timings > 3 && p.n_timings <= MODEL_TIMINGS, "what was measured", p.n_timings);
        int64_t sum = 0;
        uint32_t launches = 0;
        for (uint32_t i = 0; i < p.n_timings; i++) {
            sum += timings[i].work + timings[i].wait;
            launches += timings[i].launches;
        }
        hold(device ? sum > 0 && p.step > 0 : sum == launches && p.step == 1, "the times", n);
        if (kind != NONE) {
            go_on(m, 0, piece + 1, 2, "behind what was measured");
            continue;
        }
        must(model_reset(other, 0), MODEL_OK, "a reset", 0);
        must(model_prefill(other, tokens[0], depth, NULL), MODEL_OK, "a text at once", depth);
        must(model_prefill(other, tokens[0] + depth, n_next, want), MODEL_OK, "a text at once", depth);
        must(append(m, 0, piece + 1), MODEL_OK, "behind what was measured", depth);
        hold(memcmp(want, logits, sizeof logits) == 0, "the text computed again", depth);
    }
    free(want);
    closed(other);
    closed(m);
}

static int usage(void)
{
    fputs("usage: states [-n TOKENS] [-s SEED] [-d LIBSIMT] [-r FILE] any|window|none FILE\n", stderr);
    return 2;
}

int main(int argc, char **argv)
{
    const char *other = NULL, *library = NULL;
    for (int c; (c = getopt(argc, argv, "n:s:d:r:")) != -1;)
        switch (c) {
        case 'n': n_tokens = (uint32_t)atoi(optarg); break;
        case 's': seed = (uint64_t)atoll(optarg); break;
        case 'd': library = optarg; break;
        case 'r': other = optarg; break;
        default:  return usage();
        }
    if (argc - optind != 2 || n_tokens < 16 || n_tokens > MODEL_N_CTX) return usage();
    while (kind < 3 && strcmp(argv[optind], status_names[kind]) != 0) kind++;
    if (kind == 3) return usage();
    if (library && !(device = dlopen(library, RTLD_NOW))) { fprintf(stderr, "%s\n", dlerror()); return 2; }
    cut();
    alone();
    restoring();
    rewinding();
    cancelling();
    damage(other);
    sequences();
    measuring();
    FILE *f = fopen(argv[optind + 1], "wb");
    const uint32_t mid = n_pieces / 2;
    if (!f || fwrite(saved[mid], 1, saved_bytes[mid], f) != saved_bytes[mid] || fclose(f) != 0) { perror(argv[optind + 1]); return 2; }
    printf("states: %u checks; %u tokens in %u pieces, %u times taken back, %u refused\n", checks, n_tokens, n_pieces, rewound, refused);
    return atomic_load(&failures) > 0;
}
