/* test_golden.c -- compares built programs with stored logits (float64 arithmetic on the GGUF's own weights) and token ids.
 *
 *   test_golden FORGEC DATA reference              the interpreter of forgec verify; builds no program
 *   test_golden FORGEC DATA architectures          the same for a model of each kind of layer; only logits of the last positions are stored
 *   test_golden FORGEC DATA tiny-reference         the same for the models that make_gguf writes
 *   test_golden FORGEC DATA real-reference         the same for key sets of public files, logits by llama.cpp in float
 *   test_golden FORGEC rows NAME MAKE_GGUF TESTS DATA...   the rows of tests/matrix.def with the test NAME; TESTS: the folder of this tree;
 *                                                  exit code 77 where the target cannot run
 *
 * DATA has manifest.json; its entries name the files.  Every position is compared with the interpreter, which rounds as the program does
 * (compiler/cli/bounds.c), and the interpreter with the stored logits.  Each model has a long prompt besides the stored prompt.
 * $GOLDEN_MEASURE: prints the measured differences next to the bounds.  $GOLDEN_ONLY: runs only entries with this text in their id.
 * $FORGEC_TURN: the row to run of a test with rows that take turns; $FORGEC_TIER=full: all rows. */
#include "compiler/base/base.h"
#include "compiler/cli/judge.h"
#include "compiler/front/graph.h"
#include "compiler/base/target.h"
#include "compiler/front/reference.h"
#include "compiler/build/spawn.h"
#include "compiler/product/web.h"
#include "tests/golden/matrix.h"
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <xxhash.h>

enum { SKIPPED = 77, GREEDY = 48, MAX_POSITIONS = 4096, LONG_USUAL = 640, LONG_STORED = 4 };

/* The models and formats that DATA must have: if one is lost, the tests fail instead of testing less. */
static const char *const all_models[] = { "llama-h288", "llama-bias-a64", "llama-none", "llama-fusedqkv", "qwen2-h224", "qwen3-a",
                                          "llama-yarn-shard", "x-v2", "x-trailing", "x-none-novocab", "x-perlayer", "x-nested",
                                          "x-kvdefault", "olmo3-a" },
                  *const all_quants[] = { "q-llama-Q8_0", "q-llama-Q4_0", "q-llama-Q4_1", "q-llama-Q5_0", "q-llama-Q5_1", "q-llama-Q2_K",
                                          "q-llama-IQ4_NL", "q-llama-IQ4_XS", "q-llama-IQ3_S", "q-untied-Q4_K_M" },
                  *const all_architectures[] = { "qwen35moe-a", "qwen3next-a", "lfm2moe-a", "gemma4-a", "gemma4-moe-a", "glm4moe-a",
                                                 "deepseek2-a", "nemotron_h_moe-a", "granitehybrid-moe-a", "hunyuan-dense-a",
                                                 "llama-moe-mixed-a" },
                  *const all_drafts[] = { "qwen35-mtp-a" },        /* its MTP block has stored logits too; no programs */
                  *const all_tiny[] = { "gpt2", "starcoder2", "gptneox", "gptneox-serial", "phi2", "falcon", "falcon-40b", "stablelm",
                                        "stablelm-12b", "command-r-plus", "granitemoe", "granitemoe-shared", "olmo3", "gpt-oss", "gemma2",
                                        "gemma3", "cohere2", "mistral3", "phi3", "exaone4", "seed_oss", "minimax-m2", "ernie4_5-moe",
                                        "qwen35", "olmo2", "ernie4_5", "glm4", "smollm3", "granite", "qwen3moe", "lfm2", "nemotron_h" },
                  *const all_real[] = { "qwen3.6-35b-a3b-mtp", "qwen3-coder-30b-a3b", "glm-4.7-flash-january",
                                        "deepseek-coder-v2-lite-2024", "deepseek-r1-671b-january", "exaone-4.0-32b",
                                        "granite-4.0-h-1b", "granite-4.0-micro", "nemotron-3.5-nano-mtp", "nemotron-3-puzzle-75b",
                                        "gpt-oss-20b-ollama", "lfm2-8b-a1b", "kimi-k2-thinking", "hunyuan-7b-instruct",
                                        "deepseek-r1-0528-qwen3-8b" };

/* Tokens and the logits that a program should give for them. */
struct prompt {
    const char     *name, *path;      /* path: the file of the tokens; a long prompt's exists only while it runs */
    int32_t        *tokens;           /* [n + GREEDY]: the prompt, then the greedy tokens if they are known */
    uint32_t        n, n_known, n_rows;       /* n_known: n or n + GREEDY */
    const uint32_t *rows;             /* [n_rows] positions of the stored logits */
    uint32_t        every;            /* row r has the logits of the ids r % every, r % every + every, ... (stored_id) */
    const float    *stored;           /* [n_rows][stored_width()] */
    struct { struct rounding rounding; const float *logits; } truths[8];      /* the reference's, [n_known][n_vocab], computed
                                                                               * when first used */
    uint32_t        n_truths;
};

/* A model of DATA and what the manifest says about it. */
struct entry {
    const char *id, *model;
    struct prompt given, long_one;    /* long_one.n may be 0 */
    uint32_t    n_vocab, n_ctx;
    const struct graph *graph;
    double      peer_kl;              /* 1.5 times the mean KL of llama.cpp's default to the exact logits; 0: unknown */
    const float *drafts;              /* logits of the MTP block for the ids of given.stored; or NULL */
};

static struct {
    struct arena *arena;              /* lives for the whole run; each program has its own arena */
    const char   *forgec, *data, *work;
    const char   *emulator[4];        /* words of the command before the program, NULL-terminated */
    uint32_t      n_checks, n_failed;
    const struct target *target;
    const char   *description;        /* of the target, as given to -t */
    uint32_t      longest;            /* maximum number of positions of long prompts */
    bool          widens;             /* some models are so unstable that rounding alone changes logits a lot (judge) */
} test;

static void check(bool ok, const char *what, const char *fmt, ...) PRINTF_LIKE(3, 4);
static void check(bool ok, const char *what, const char *fmt, ...)
{
    test.n_checks++;
    if (ok) return;
    test.n_failed++;
    printf("FAILED %s: ", what);
    va_list args;
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    putchar('\n');
}

/* ---- the manifest ---- */

static const char *text_of(const cJSON *o, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(o, key);
    return cJSON_IsString(item) ? item->valuestring : NULL;
}

static double number_of(const cJSON *o, const char *key, double absent)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(o, key);
    return cJSON_IsNumber(item) ? item->valuedouble : absent;
}

static int32_t *read_ids(const char *path, uint32_t want)
{
    const struct bytes text = file_read(test.arena, path);
    const char *p = arena_strndup(test.arena, (const char *)text.data, text.size);
    int32_t *ids = arena_array(test.arena, int32_t, want);
    uint32_t n = 0;
    for (char *end; n < want; p = end, n++) {
        ids[n] = (int32_t)strtol(p + strspn(p, ", \n"), &end, 10);
        if (end == p) break;
    }
    if (n != want) die("%s: %u ids, %u expected", path, n, want);
    return ids;
}

static bool is_asked_for(const char *id)
{
    const char *only = getenv("GOLDEN_ONLY");
    return !only || strstr(id, only);
}

/* `every` consecutive rows have different ids, together all ids: so a wrong row of the output matrix is found. */
static uint32_t stored_width(const struct prompt *p, uint32_t n_vocab) { return (n_vocab + p->every - 1) / p->every; }
static uint32_t stored_id(const struct prompt *p, uint32_t row, uint32_t k, uint32_t n_vocab)
{
    return (row % p->every + p->every * k) % n_vocab;
}

static const float *read_rows(const struct prompt *p, const char *id, const char *path, uint32_t n_vocab)
{
    const struct bytes stored = file_read(test.arena, path);
    const uint32_t width = stored_width(p, n_vocab);
    if (stored.size != (size_t)p->n_rows * width * sizeof(float))
        die("%s: %s has %zu bytes, not %u rows of %u logits", id, path, stored.size, p->n_rows, width);
    return (const float *)(const void *)stored.data;
}

/* All ids in a random order, then all in another order, and so on: so every row of the embedding is read. */
static int32_t *tokens_covering(uint32_t n, uint32_t n_vocab)
{
    int32_t *tokens = arena_array(test.arena, int32_t, n + n_vocab);
    uint64_t state = 1;
    for (uint32_t at = 0; at < n; at += n_vocab)
        for (uint32_t i = 0; i < n_vocab; i++) {
            state = state * 6364136223846793005ull + 1442695040888963407ull;
            const uint32_t j = (uint32_t)(state >> 33) % (i + 1);
            tokens[at + i] = tokens[at + j];
            tokens[at + j] = (int32_t)i;
        }
    return tokens;
}

static void write_tokens(const char *path, const int32_t *tokens, uint32_t n)
{
    FILE *out = fopen(path, "w");
    if (!out) die("%s: cannot be written", path);
    for (uint32_t i = 0; i < n; i++) fprintf(out, "%d ", tokens[i]);
    if (fclose(out)) die("%s: cannot be written", path);
}

/* The manifest's long prompt, or else LONG_USUAL tokens without stored logits; cut to test.longest. */
static struct prompt read_long(const struct entry *e, const cJSON *o, uint32_t every)
{
    struct arena *a = test.arena;
    const cJSON *rows = cJSON_GetObjectItemCaseSensitive(o, "rows"), *row;
    const uint32_t whole = (uint32_t)number_of(o, "n", LONG_USUAL);
    struct prompt p = { .name = "long", .path = arena_printf(a, "%s/long", test.work), .n = whole < test.longest ? whole : test.longest,
                        .n_known = whole, .every = every };
    if (p.n == 0) return p;
    p.tokens = tokens_covering(whole, e->n_vocab);
    uint32_t *positions = arena_array(a, uint32_t, (size_t)cJSON_GetArraySize(rows) + 1);
    cJSON_ArrayForEach(row, rows) positions[p.n_rows++] = (uint32_t)row->valuedouble;
    p.rows = positions;
    if (o) p.stored = read_rows(&p, e->id, arena_printf(a, "%s/%s", test.data, text_of(o, "file")), e->n_vocab);
    while (p.n_rows && positions[p.n_rows - 1] >= p.n) p.n_rows--;
    p.n_known = p.n;
    return p;
}

/* Checks that the model that make_gguf wrote is the model of the stored logits. */
static void check_bytes(const struct entry *e, const char *hash)
{
    if (!hash) return;
    const struct bytes file = file_read(test.arena, e->model);
    const char *is = arena_printf(test.arena, "%016llx", (unsigned long long)XXH3_64bits(file.data, file.size));
    check(strcmp(is, hash) == 0, e->id, "make_gguf wrote a file of hash %s, logits are stored of %s", is, hash);
}

static double peer_kl(const cJSON *o)
{
    const cJSON *tolerance = cJSON_GetObjectItemCaseSensitive(o, "tolerance");
    return number_of(tolerance, "llamacpp_class_mean_kl", number_of(tolerance, "mean_kl", 0));
}

static struct entry read_entry(const cJSON *o)
{
    struct arena *a = test.arena;
    struct entry e = { .id = text_of(o, "id"), .n_vocab = (uint32_t)number_of(o, "n_vocab", 0),
                       .n_ctx = (uint32_t)number_of(o, "n_ctx", 256) };
    e.peer_kl = peer_kl(o);
    struct prompt *p = &e.given;
    const char *model = text_of(o, "model"), *tokens = text_of(o, "tokens"), *logits = text_of(o, "logits"), *greedy = text_of(o, "greedy");
    p->name = "prompt";
    p->n = (uint32_t)number_of(o, "n_positions", 0);
    if (!model || !tokens || !logits || !greedy || !e.n_vocab || !p->n || p->n > MAX_POSITIONS)
        die("manifest.json: %s is incomplete", e.id);
    e.model = arena_printf(a, "%s/%s", test.data, model);
    p->path = arena_printf(a, "%s/%s", test.data, tokens);
    p->n_known = p->n + GREEDY;
    p->tokens = arena_array(a, int32_t, p->n_known);
    memcpy(p->tokens, read_ids(p->path, p->n), p->n * sizeof *p->tokens);
    memcpy(p->tokens + p->n, read_ids(arena_printf(a, "%s/%s", test.data, greedy), GREEDY), GREEDY * sizeof *p->tokens);
    uint32_t *rows = arena_array(a, uint32_t, p->n);
    const uint32_t last = (uint32_t)number_of(o, "last", 0);          /* positions at the end; 0: every third position */
    p->every = (uint32_t)number_of(o, "every", 1);
    if (p->every == 0) die("manifest.json: %s stores no logits", e.id);
    for (uint32_t t = last ? p->n - last : 2; t < p->n; t += last ? 1 : 3) rows[p->n_rows++] = t;
    p->rows = rows;
    p->stored = read_rows(p, e.id, arena_printf(a, "%s/%s", test.data, logits), e.n_vocab);
    const char *drafts = text_of(o, "drafts");
    if (drafts) e.drafts = read_rows(p, e.id, arena_printf(a, "%s/%s", test.data, drafts), e.n_vocab);
    e.long_one = read_long(&e, cJSON_GetObjectItemCaseSensitive(o, "long"), p->every);
    if (e.n_ctx < e.long_one.n) e.n_ctx = (e.long_one.n + 15) / 16 * 16;
    check_bytes(&e, text_of(o, "hash"));
    e.graph = graph_build(a, model_describe(a, gguf_open(a, e.model, false), &(struct model_options){ .drafts = drafts != NULL }));
    return e;
}

/* The entries of the set that $GOLDEN_ONLY selects.  A missing model is a failure. */
static struct entry *read_set(const cJSON *manifest, const char *set, uint32_t *n)
{
    static const struct { const char *name; const char *const *ids; size_t n; } sets[] = {
        { "models", all_models, COUNT_OF(all_models) }, { "quants", all_quants, COUNT_OF(all_quants) },
        { "architectures", all_architectures, COUNT_OF(all_architectures) }, { "drafts", all_drafts, COUNT_OF(all_drafts) },
        { "tiny", all_tiny, COUNT_OF(all_tiny) }, { "real", all_real, COUNT_OF(all_real) } };
    size_t which = 0;
    while (strcmp(sets[which].name, set)) which++;
    const char *const *ids = sets[which].ids;
    const size_t n_ids = sets[which].n;
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(manifest, set), *o;
    struct entry *entries = arena_array(test.arena, struct entry, n_ids);
    *n = 0;
    for (size_t i = 0; i < n_ids; i++) {
        const cJSON *found = NULL;
        if (!is_asked_for(ids[i])) continue;
        cJSON_ArrayForEach(o, list) if (text_of(o, "id") && strcmp(text_of(o, "id"), ids[i]) == 0) found = o;
        check(found, ids[i], "manifest.json does not have it");
        if (found) entries[(*n)++] = read_entry(found);
    }
    check(getenv("GOLDEN_ONLY") || (size_t)cJSON_GetArraySize(list) == n_ids, set, "manifest.json has %d, the test %zu",
          cJSON_GetArraySize(list), n_ids);
    return entries;
}

/* The logits that the program should compute: [n_known][n_vocab]. */
static const float *truth_of(const struct entry *e, struct prompt *p, const struct rounding *r)
{
    for (uint32_t i = 0; i < p->n_truths; i++) {
        const struct rounding *t = &p->truths[i].rounding;
        if (t->steps == r->steps && t->halves == r->halves && t->bf16 == r->bf16 && t->pairs == r->pairs && t->cache == r->cache
            && t->kv == r->kv)
            return p->truths[i].logits;
    }
    float *logits = arena_array(test.arena, float, (size_t)p->n_known * e->n_vocab);
    reference_logits(test.arena, e->graph, r, p->tokens, p->n_known, logits);
    if (p->n_truths == COUNT_OF(p->truths)) die("%s: more kinds of rounding than places", e->id);
    p->truths[p->n_truths].rounding = *r;
    p->truths[p->n_truths++].logits = logits;
    return logits;
}

/* ---- programs ---- */

/* name: for messages */
struct golden_program { struct arena *arena; struct entry *entry; const char *path, *name; struct plan_options plan; };

static bool spawn(struct arena *a, const char *const *argv, const char *what, struct bytes *out)
{
    struct spawn_job job = { .argv = argv };
    spawn_run(a, &(struct spawn_options){ .jobs = 1 }, &job, 1);
    check(job.status == 0, what, "exit code %d: %s", job.status, job.messages ? job.messages : "");
    *out = job.output;
    return job.status == 0;
}

static bool build_program(struct golden_program *b, struct entry *e, const char *target, const char *fuse, bool exact)
{
    *b = (struct golden_program){ .arena = arena_create(), .entry = e, .path = arena_printf(test.arena, "%s/program", test.work),
                         .name = arena_printf(test.arena, "%s %s --fuse %s%s", e->id, target, fuse, exact ? " --exact" : ""),
                         .plan = { .exact = exact, .kv = exact ? KV_TYPE_F32 : KV_TYPE_F16 } };
    const char *argv[20] = { test.forgec, "build", e->model, "-o", b->path, "-t", target, "--fuse", fuse, "--ctx",
                             arena_printf(b->arena, "%u", e->n_ctx), "-q" };
    size_t n = 12;
    if (exact) argv[n++] = "--exact";
    struct bytes out;
    return spawn(b->arena, argv, b->name, &out);
}

static void drop_program(struct golden_program *b)
{
    const char **names = test.target->web ? web_names(b->arena, b->path) : NULL;
    for (size_t i = 0; names && names[i]; i++) unlink(arena_printf(b->arena, "%s/%s", b->path, names[i]));
    if (unlink(b->path)) rmdir(b->path);
    unlink(b->entry->long_one.path);
    arena_destroy(b->arena);
}

static const char *const *with_program(const struct golden_program *b, const char *const *arguments)
{
    const char **argv = arena_array(b->arena, const char *, 40);
    size_t n = 0;
    for (size_t i = 0; test.emulator[i]; i++) argv[n++] = test.emulator[i];
    argv[n++] = test.target->web ? web_program(b->arena, b->path) : b->path;
    for (; *arguments; arguments++) argv[n++] = *arguments;
    return argv;
}

struct way { const char *threads, *chunk; };          /* chunk NULL: the program's own; "0": through the decode kernels */

static const char *way_name(const struct golden_program *b, const struct prompt *p, struct way w)
{
    return arena_printf(b->arena, "%s, %s, %s thread%s, chunk %s", b->name, p->name, w.threads, strcmp(w.threads, "1") ? "s" : "",
                        w.chunk ? w.chunk : "as built");
}

/* Logits of all positions, or NULL. */
static const float *logits_of(const struct golden_program *b, const struct prompt *p, struct way w)
{
    const char *arguments[16] = { "-q", "--tokens", arena_printf(b->arena, "@%s", p->path), "--print-tokens", "-n", "0", "--logits",
                                  "/proc/self/fd/1", "-t", w.threads };
    if (w.chunk) { arguments[10] = "-ub"; arguments[11] = w.chunk; }
    struct bytes out;
    if (!spawn(b->arena, with_program(b, arguments), way_name(b, p, w), &out)) return NULL;
    const size_t want = (size_t)p->n * b->entry->n_vocab * sizeof(float);
    check(out.size == want, way_name(b, p, w), "%zu bytes of logits, not %zu", out.size, want);
    return out.size == want ? (const float *)(const void *)out.data : NULL;
}

static struct logits_difference against_stored(struct arena *a, const struct prompt *p, const float *logits, uint32_t n_vocab)
{
    const uint32_t width = stored_width(p, n_vocab);
    float *rows = arena_array(a, float, (size_t)p->n_rows * width + 1);
    for (uint32_t r = 0; r < p->n_rows; r++)
        for (uint32_t k = 0; k < width; k++)
            rows[(size_t)r * width + k] = logits[(size_t)p->rows[r] * n_vocab + stored_id(p, r, k, n_vocab)];
    return logits_compare(a, p->stored, rows, p->n_rows, width);
}

static struct bound bound_of(const struct golden_program *b, struct way w)
{
    const uint32_t chunk = w.chunk ? (uint32_t)strtoul(w.chunk, NULL, 10) : UINT32_MAX, n = b->entry->given.n;
    return bound_find(b->entry->graph, test.target, &b->plan, chunk < n ? chunk : n);
}

/* The largest differences of several runs, relative to the largest logit.  fell: the model is stable, but a value fell to the other step of
 * int8 before the first position's K and V were stored, so no position of the prompt was without such a value. */
struct worst { double most, least, mean_kl; bool fell; };

static void widen(struct worst *w, const struct logits_difference *d)
{
    w->most = fmax(w->most, d->max_abs / d->largest);
    w->least = fmax(w->least, d->least / d->largest);
    w->mean_kl = fmax(w->mean_kl, d->mean_kl);
}

static bool has_router(const struct graph *g)
{
    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (g->nodes[i]->op == OP_route) return true;
    return false;
}

/* Whether rounding alone may change the logits of each position a lot. */
static bool is_unstable(const struct golden_program *b, const struct bound *bound)
{
    return test.widens || bound->rows_bf16 || has_router(b->entry->graph);
}

/* Compares logits [n][n_vocab] with truth, the logits of the reference that rounds as the program does. */
static struct judged judged_of(const struct golden_program *b, const float *truth, const struct bound *bound, const int32_t *tokens,
                               uint32_t n, const float *logits)
{
    struct judged j = { .bound = *bound, .difference = logits_compare(b->arena, truth, logits, n, b->entry->n_vocab) };
    j.holds = bound_holds(bound, &j.difference);
    const bool fell = bound->rounding.steps && j.difference.max_abs_at[0] > bound->least * j.difference.largest;
    return j.holds || !(fell || is_unstable(b, bound)) ? j : judge(b->arena, b->entry->graph, bound, tokens, n, logits);
}

static const struct rounding no_rounding = { .kv = KV_TYPE_F32 };

/* Compares every position with the reference that rounds as the program does.  Programs for a CPU with an f16 cache are also compared with
 * the reference without rounding, by llama.cpp's measure (mean KL), and exact programs with the stored logits. */
static void check_way(const struct golden_program *b, struct prompt *p, struct way w, struct worst *worst)
{
    const uint32_t n_vocab = b->entry->n_vocab;
    const struct bound bound = bound_of(b, w);
    const float *logits = logits_of(b, p, w);
    if (!logits) return;
    const struct judged judged = judged_of(b, truth_of(b->entry, p, &bound.rounding), &bound, p->tokens, p->n, logits);
    const struct logits_difference d = judged.difference;
    check(judged.holds, way_name(b, p, w),
          "%llu not finite; of the largest logit: most %.3g of %.3g, least %.3g of %.3g; mean KL %.3g of %.3g (worst at %u of %u)",
          (unsigned long long)d.n_not_finite, d.max_abs / d.largest, bound.most, d.least / d.largest, bound.least, d.mean_kl,
          judged.bound.mean_kl, d.worst_position, d.n);
    widen(worst, &d);
    worst->fell |= judged.bound.least > bound.least && !is_unstable(b, &bound);
    if (getenv("GOLDEN_MEASURE"))
        printf("%-70s %-34s %.1e %.1e %.1e\n", way_name(b, p, w), bound.name, d.max_abs / d.largest, d.least / d.largest, d.mean_kl);
    if (p == &b->entry->given && b->entry->peer_kl > 0 && test.target->kind == TARGET_CPU && b->plan.kv == KV_TYPE_F16) {
        const double kl = logits_compare(b->arena, truth_of(b->entry, p, &no_rounding), logits, p->n, n_vocab).mean_kl;
        check(kl <= b->entry->peer_kl, way_name(b, p, w), "mean KL to the exact logits is %.3g, 1.5 times llama.cpp's is %.3g", kl,
              b->entry->peer_kl);
    }
    if (p->n_rows == 0 || !b->plan.exact) return;
    const struct logits_difference s = against_stored(b->arena, p, logits, n_vocab);
    check(s.n_not_finite == 0 && s.max_abs <= bound.most * s.largest, way_name(b, p, w),
          "%.3g of the largest stored logit > %.3g (worst at row %u of %u)", s.max_abs / s.largest, bound.most, s.worst_position, s.n);
}

/* Greedy tokens of the program, by the decode kernels only or by prefill and decode (w.chunk); NULL if the program fails. */
static const int32_t *generate(const struct golden_program *b, struct way w)
{
    const struct prompt *p = &b->entry->given;
    const char *arguments[24] = { "-q", "--tokens", arena_printf(b->arena, "@%s", p->path), "--print-tokens", "--temp", "0",
                                  "--repeat-penalty", "1", "-n", "48", "--ignore-eos", "-t", w.threads };
    if (w.chunk) { arguments[13] = "-ub"; arguments[14] = w.chunk; }
    struct bytes out;
    if (!spawn(b->arena, with_program(b, arguments), way_name(b, p, w), &out)) return NULL;
    int32_t *tokens = arena_array(b->arena, int32_t, GREEDY);
    const char *text = arena_strndup(b->arena, (const char *)out.data, out.size);
    for (uint32_t i = 0; i < GREEDY; i++) {
        char *end;
        tokens[i] = (int32_t)strtol(text, &end, 10);
        if (end == text) tokens[i] = -1;
        text = end;
    }
    return tokens;
}

/* The number of stored greedy tokens that the program must choose.  int8 and bf16: the tokens before the first whose logit leads another
 * logit of the reference by no more than the bound on differences. */
static uint32_t greedy_certain(const struct golden_program *b, struct way w)
{
    struct prompt *p = &b->entry->given;
    const uint32_t n_vocab = b->entry->n_vocab;
    const struct bound bound = bound_of(b, w);
    if (bound.rounding.steps != 127 && !bound.rounding.bf16) return GREEDY;
    const float *logits = truth_of(b->entry, p, &bound.rounding);
    double largest = 0;
    for (size_t i = 0; i < (size_t)p->n_known * n_vocab; i++) largest = fmax(largest, fabs((double)logits[i]));
    for (uint32_t i = 0; i < GREEDY; i++) {
        const float *row = logits + (size_t)(p->n - 1 + i) * n_vocab;
        const int32_t stored = p->tokens[p->n + i];
        for (uint32_t v = 0; v < n_vocab; v++)
            if ((int32_t)v != stored && (double)row[stored] - (double)row[v] <= bound.most * largest) return i;
    }
    return GREEDY;
}

static uint32_t check_stored_greedy(const struct golden_program *b, struct way w)
{
    const int32_t *tokens = generate(b, w), *stored = b->entry->given.tokens + b->entry->given.n;
    const uint32_t certain = greedy_certain(b, w);
    uint32_t same = 0;
    while (tokens && same < certain && tokens[same] == stored[same]) same++;
    check(!tokens || same == certain, way_name(b, &b->entry->given, w), "greedy token %u is %d, not %d", same,
          tokens ? tokens[same % GREEDY] : -1, stored[same % GREEDY]);
    return same;
}

/* Exact, without a margin: the tokens that a program generates one by one must be the tokens that follow from its own logits, computed in
 * the same way for the same tokens. */
static void check_own_greedy(const struct golden_program *b)
{
    static const struct way one = { "1", "0" };
    struct prompt p = b->entry->given;
    p.name = "prompt and greedy tokens";
    const int32_t *tokens = generate(b, one);
    if (!tokens) return;
    p.path = arena_printf(b->arena, "%s/greedy", test.work);
    int32_t *all = arena_array(b->arena, int32_t, p.n + GREEDY);
    for (uint32_t i = 0; i < p.n + GREEDY; i++) all[i] = i < p.n ? p.tokens[i] : tokens[i - p.n];
    p.n += GREEDY;
    write_tokens(p.path, all, p.n);
    const float *logits = logits_of(b, &p, one);
    unlink(p.path);
    for (uint32_t i = 0; logits && i < GREEDY; i++) {
        const uint32_t own = logits_argmax(logits + (size_t)(p.n - GREEDY - 1 + i) * b->entry->n_vocab, b->entry->n_vocab);
        check(tokens[i] == (int32_t)own, way_name(b, &p, one), "greedy token %u is %d, its own logits say %u", i, tokens[i], own);
    }
    if (!logits) return;
    const struct bound bound = bound_of(b, one);
    float *truth = arena_array(b->arena, float, (size_t)p.n * b->entry->n_vocab);
    reference_logits(b->arena, b->entry->graph, &bound.rounding, all, p.n, truth);
    const struct judged judged = judged_of(b, truth, &bound, all, p.n, logits);
    const struct logits_difference d = judged.difference;
    check(judged.holds, way_name(b, &p, one), "after the greedy tokens: %.3g of the largest logit, bound %.3g (position %u)",
          d.max_abs / d.largest, bound.most, d.worst_position);
}

/* Ways to run a program: threads and micro-batches only change the order of sums. */
struct ways { const struct way *given, *long_one; size_t n_given, n_long; };

static void check_program(struct entry *e, const char *target, const char *fuse, bool exact, const struct ways *ways)
{
    struct golden_program b;
    if (build_program(&b, e, target, fuse, exact)) {
        struct worst given = { 0, 0, 0, false }, long_one = given;
        for (size_t i = 0; i < ways->n_given; i++) check_way(&b, &e->given, ways->given[i], &given);
        if (e->long_one.n) write_tokens(e->long_one.path, e->long_one.tokens, e->long_one.n);
        for (size_t i = 0; e->long_one.n && i < ways->n_long; i++) check_way(&b, &e->long_one, ways->long_one[i], &long_one);
        check(!given.fell || (e->long_one.n && !long_one.fell), b.name,
              "at the first position of each prompt a value fell the other way: no prompt shows an error that all positions have");
        const uint32_t greedy = check_stored_greedy(&b, ways->given[0]);
        if (!exact && test.target->kind == TARGET_CPU) check_own_greedy(&b);
        printf("%-46s most %.1e least %.1e KL %.1e; %4u positions: %.1e %.1e %.1e; greedy %u\n", b.name, given.most, given.least,
               given.mean_kl, e->long_one.n, long_one.most, long_one.least, long_one.mean_kl, greedy);
    }
    drop_program(&b);
    fflush(stdout);
}

static const struct way all_ways[] = { { "1", NULL }, { "2", NULL }, { "1", "1" }, { "2", "1" }, { "1", "64" }, { "2", "64" }, { "1", "0" },
                                       { "2", "0" }, { "1", "7" }, { "2", "7" } },
                        some_ways[] = { { "1", NULL }, { "2", "0" }, { "2", "7" } },
                        long_ways[] = { { "2", NULL }, { "3", "0" }, { "2", "0" }, { "3", "56" } },
                            some_long_ways[] = { { "2", NULL }, { "3", "0" } };
/* Long prompts exceed one micro-batch and need several parts of decode attention and their merge.  Three threads: no number of KV heads
 * here is a multiple of 3. */
static const struct way gpu_ways[] = { { "1", NULL }, { "1", "0" }, { "1", "7" } }, gpu_long_ways[] = { { "1", NULL }, { "1", "0" } },
                        webgpu_ways[] = { { "1", NULL } }, webgpu_long_ways[] = { { "1", "0" } };       /* each run compiles kernels */
static const struct ways every = { all_ways, long_ways, COUNT_OF(all_ways), COUNT_OF(long_ways) },
some = { some_ways, some_long_ways, COUNT_OF(some_ways), COUNT_OF(some_long_ways) },
                         on_gpu = { gpu_ways, gpu_long_ways, COUNT_OF(gpu_ways), COUNT_OF(gpu_long_ways) },
                         on_webgpu = { webgpu_ways, webgpu_long_ways, COUNT_OF(webgpu_ways), COUNT_OF(webgpu_long_ways) };

/* ---- suites ---- */

/* Bounds of the reference: three times the measured error.  It only rounds single values to float; the logits of "real" were computed in
 * float arithmetic. */
static const double reference_most = 1.5e-6, real_most = 1.2e-5;

static void run_reference(const cJSON *manifest, const char *const *sets, size_t n_sets, uint32_t n_stored)
{
    uint32_t n_long = 0;
    for (size_t s = 0; s < n_sets; s++) {
        const double most = strcmp(sets[s], "real") ? reference_most : real_most;
        uint32_t n;
        struct entry *entries = read_set(manifest, sets[s], &n);
        for (uint32_t i = 0; i < n; i++) {
            struct prompt *prompts[] = { &entries[i].given, &entries[i].long_one };
            for (size_t k = 0; k < COUNT_OF(prompts); k++) {
                if (prompts[k]->n_rows == 0) continue;
                n_long += k == 1;
                const struct logits_difference d = against_stored(test.arena, prompts[k], truth_of(&entries[i], prompts[k], &no_rounding),
                                                                  entries[i].n_vocab);
                check(d.n_not_finite == 0 && d.max_abs <= most * d.largest, entries[i].id,
                      "%s: the reference is off by %.3g of the largest logit", prompts[k]->name, d.max_abs / d.largest);
                printf("%-20s %-6s %4u positions, %2u rows: %.2e of the largest logit\n", entries[i].id, prompts[k]->name, prompts[k]->n,
                       prompts[k]->n_rows, d.max_abs / d.largest);
            }
        }
    }
    check(n_long == n_stored || getenv("GOLDEN_ONLY"), "long prompts", "%u have stored logits, not %u", n_long, n_stored);
}

/* Checks the logits of the MTP block after each token of the prompt. */
static void run_drafts(const cJSON *manifest)
{
    uint32_t n;
    struct entry *entries = read_set(manifest, "drafts", &n);
    for (uint32_t i = 0; i < n; i++) {
        struct entry of = entries[i];
        of.graph = graph_of_drafts(test.arena, of.graph);
        of.given.stored = of.drafts;
        of.given.n_truths = 0;
        const struct logits_difference d = against_stored(test.arena, &of.given, truth_of(&of, &of.given, &no_rounding), of.n_vocab);
        check(d.n_not_finite == 0 && d.max_abs <= reference_most * d.largest, of.id,
              "drafts: the reference is off by %.3g of the largest logit", d.max_abs / d.largest);
        printf("%-20s drafts %4u positions, %2u rows: %.2e of the largest logit\n", of.id, of.given.n, of.given.n_rows,
               d.max_abs / d.largest);
    }
}

/* The exit code of a test that is skipped because a program is missing; if CI is set, that is a failure. */
static int skipped_for_program(void)
{
    if (getenv("CI")) puts("FAILED: CI is set, and the test would be skipped");
    return getenv("CI") ? 1 : SKIPPED;
}

/* Sets test.emulator.  Returns 0, or, if programs of the target cannot run here, prints why and returns the exit code. */
static int cannot_run(const char *target)
{
    struct arena *a = test.arena;
    const struct target *p = target_load(a, target, NULL);
    const char *why = target_unsupported_here(a, p);
    if (!why) return 0;
    struct utsname here;
    if (p->web) {
        const char *argv[] = { "node", "--version", NULL };
        struct spawn_job job = { .argv = argv };
        spawn_run(a, &(struct spawn_options){ .jobs = 1 }, &job, 1);
        if (job.status != 0) printf("skipped: %s runs in node, which is not installed\n", target);
        test.emulator[0] = argv[0];
        return job.status == 0 ? 0 : skipped_for_program();
    }
    if (uname(&here) || strcmp(here.machine, p->elf_machine) == 0) {
        printf("skipped: %s cannot run here: %s\n", target, why);
        return SKIPPED;
    }
    const char *argv[] = { arena_printf(a, "qemu-%s", p->elf_machine), "--version", NULL };
    struct spawn_job job = { .argv = argv };
    spawn_run(a, &(struct spawn_options){ .jobs = 1 }, &job, 1);
    const char *sysroot = arena_printf(a, "/usr/%s-linux-gnu", p->elf_machine);
    if (job.status != 0 || access(arena_printf(a, "%s/lib/libc.so.6", sysroot), R_OK)) {
        printf("skipped: %s needs %s (%s) and the libc of that machine (%s)\n", target, argv[0], job.status ? "not found" : "found",
               sysroot);
        return skipped_for_program();
    }
    test.emulator[0] = argv[0];
    test.emulator[1] = "-L";
    test.emulator[2] = sysroot;
    return 0;
}

static const struct ways *ways_on(const struct target *target, bool thorough)
{
    if (target->kind == TARGET_WEBGPU) return &on_webgpu;
    if (target->kind == TARGET_GPU || target->web) return &on_gpu;         /* one thread */
    return thorough ? &every : &some;
}

/* ---- rows of tests/matrix.def ---- */

static const char *each_model(const char *make_gguf)
{
    const char *path = arena_printf(test.arena, "%s/each.gguf", test.work);
    if (access(path, R_OK)) matrix_make_each(test.arena, make_gguf, path);
    return path;
}

static void verify_row(const struct matrix_row *row, const char *model, const char *id, const char *fuse, bool exact)
{
    const char *argv[24] = { test.forgec, "verify", model, "-t", test.description, "--fuse", fuse, "--ctx", "128", "--tokens",
                             arena_printf(test.arena, "%u", row->tokens) };
    size_t n = 11;
    if (exact) argv[n++] = "--exact";
    if (strcmp(row->cache, "auto")) {
        argv[n++] = "--kv";
        argv[n++] = row->cache;
    }
    struct spawn_job job = { .argv = argv };
    spawn_run(test.arena, &(struct spawn_options){ .jobs = 1 }, &job, 1);
    const char *name = arena_printf(test.arena, "verify %s -t %s --fuse %s%s", id, row->target, fuse, exact ? " --exact" : "");
    check(job.status == 0, name, "exit code %d: %s%.*s", job.status, job.messages ? job.messages : "", (int)job.output.size,
          (const char *)job.output.data);
    if (job.status == 0) puts(name);
    fflush(stdout);
}

static void run_row(const struct matrix_row *row, const struct matrix_model *m, const char *make_gguf)
{
    const bool verify = strcmp(row->how, "verify") == 0;
    test.data = m->data;
    test.longest = row->tokens;
    test.widens = strcmp(m->set, "models") && strcmp(m->set, "quants");
    const char *path = m->entry ? arena_printf(test.arena, "%s/%s", m->data, text_of(m->entry, "model")) : each_model(make_gguf);
    struct entry e = { 0 };
    if (!verify) {
        if (!m->entry) die("tests/matrix.def: there are no stored logits of %s", m->id);
        e = read_entry(m->entry);
    }
    for (int fused = 1; fused >= 0; fused--)
        for (int exact = 1; exact >= 0; exact--) {
            const char *fuse = fused ? "layer" : "none";
            if (!matrix_has(row->fuse, fuse) || !matrix_has(row->mode, exact ? "exact" : "default")) continue;
            if (verify) verify_row(row, path, m->id, fuse, exact);
            else check_program(&e, test.description, fuse, exact, ways_on(test.target, strcmp(row->how, "every") == 0));
        }
}

/* The index of the row to run among the rows that take turns; UINT32_MAX: all. */
static uint32_t whose_turn(const char *name)
{
    const char *turn = getenv("FORGEC_TURN"), *tier = getenv("FORGEC_TIER");
    uint32_t n = 0;
    for (size_t i = 0; i < COUNT_OF(matrix_rows); i++) n += strcmp(matrix_rows[i].test, name) == 0 && matrix_rows[i].tier == TURN;
    if (n == 0 || (tier && strcmp(tier, "full") == 0)) return UINT32_MAX;
    const uint32_t chosen = turn ? (uint32_t)(strtoul(turn, NULL, 10) % n) : 0;
    printf("of %u parts that take turns, part %u\n", n, chosen);
    return chosen;
}

/* Returns 0, or the exit code if the target cannot run here. */
static int run_rows(const char *name, const char *make_gguf, const char *tests, const char *const *data, size_t n_data)
{
    const struct matrix_models all = matrix_models(test.arena, data, n_data);
    const uint32_t turn = whose_turn(name);
    uint32_t n_turns = 0;
    for (size_t i = 0; i < COUNT_OF(matrix_rows); i++) {
        const struct matrix_row *row = &matrix_rows[i];
        if (strcmp(row->test, name) || (row->tier == TURN && turn != UINT32_MAX && n_turns++ != turn)) continue;
        const char *description = matrix_target(row->target)->description;
        if (!test.target) {
            test.description = strchr(description, '/') ? arena_printf(test.arena, "%s/%s", tests, description) : description;
            const int code = cannot_run(test.description);
            if (code) return code;
            test.target = target_load(test.arena, test.description, NULL);
        }
        for (uint32_t k = 0; k < all.n; k++)
            if (matrix_names(row->models, &all.models[k]) && is_asked_for(all.models[k].id)) run_row(row, &all.models[k], make_gguf);
    }
    if (!test.target) die("tests/matrix.def: no ROW has the test %s", name);
    return 0;
}

int main(int argc, char **argv)
{
    const bool rows = argc > 6 && strcmp(argv[2], "rows") == 0;
    if (argc < 4) {
        fputs("usage: test_golden FORGEC rows NAME MAKE_GGUF TESTS DATA... |\n"
              "       FORGEC DATA reference|architectures|tiny-reference|real-reference\n", stderr);
        return 2;
    }
    test.arena = arena_create();
    cleanup_install_signals();
    test.forgec = argv[1];
    test.data = argv[2];
    test.longest = MAX_POSITIONS;
    char *work = arena_printf(test.arena, "%s/forgec-golden.XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(work)) die("%s: cannot make a directory", work);
    test.work = work;
    cleanup_unlink_at_exit(work);
    static const char *const files[] = { "program", "long", "greedy", "each.gguf" };
    for (size_t i = 0; i < COUNT_OF(files); i++) cleanup_unlink_at_exit(arena_printf(test.arena, "%s/%s", work, files[i]));

    if (rows) {
        const int skipped = run_rows(argv[3], argv[4], argv[5], (const char *const *)argv + 6, (size_t)argc - 6);
        unlink(arena_printf(test.arena, "%s/each.gguf", work));
        rmdir(work);
        if (skipped) return skipped;
        printf("%u checks, %u failed\n", test.n_checks, test.n_failed);
        return test.n_failed == 0 && test.n_checks > 0 ? 0 : 1;
    }
    test.target = target_load(test.arena, "native", NULL);
    const char *suite = argv[3];
    const struct bytes text = file_read(test.arena, arena_printf(test.arena, "%s/manifest.json", test.data));
    cJSON *manifest = cJSON_ParseWithLength((const char *)text.data, text.size);
    if (!manifest) die("%s/manifest.json is not JSON", test.data);
    static const char *const sets[] = { "models", "quants", "architectures", "tiny", "drafts", "real" };
    if (strcmp(suite, "reference") == 0) run_reference(manifest, sets, 2, LONG_STORED);
    else if (strcmp(suite, "architectures") == 0) {
        run_reference(manifest, sets + 2, 1, 0);
        run_reference(manifest, sets + 4, 1, 0);
        run_drafts(manifest);
    }
    else if (strcmp(suite, "tiny-reference") == 0) run_reference(manifest, sets + 3, 1, 0);
    else if (strcmp(suite, "real-reference") == 0) run_reference(manifest, sets + 5, 1, 0);
    else die("unknown suite %s", suite);
    cJSON_Delete(manifest);
    rmdir(work);
    printf("%u checks, %u failed\n", test.n_checks, test.n_failed);
    const bool ok = test.n_failed == 0 && test.n_checks > 0;
    arena_destroy(test.arena);
    return ok ? 0 : 1;
}
