/* bench.c -- speeds in llama-bench's form (rows pp512, tg128, @ d4096; a warm-up run, then repetitions), and the memory bandwidth of the
 * same threads in the same run, which is the roof for decoding. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "escape.h"
#include "runtime/device/gpu.h"
#include "runtime/model/state.h"
#include "runtime/run/session.h"
#include "runtime/text/tokenize.h"

/* ---- read bandwidth ---- */

typedef uint64_t lane __attribute__((vector_size(64), aligned(64)));

/* Sums everything so that no load can be removed.  Eight accumulators, because a single chain of additions would be the limit in L1 and
 * L2. */
#define READ_BODY \
    lane a[8] = { { 0 } }; \
    for (size_t i = 0; i + 8 <= n; i += 8) \
        for (int j = 0; j < 8; j++) a[j] += x[i + (size_t)j]; \
    a[0] += a[1] + a[2] + a[3] + a[4] + a[5] + a[6] + a[7]; \
    return a[0][0] + a[0][1] + a[0][2] + a[0][3] + a[0][4] + a[0][5] + a[0][6] + a[0][7];

static uint64_t read_plain(const lane *x, size_t n) { READ_BODY }
#if defined(__x86_64__)
__attribute__((target("avx2"))) static uint64_t read_avx2(const lane *x, size_t n) { READ_BODY }
__attribute__((target("avx512f"))) static uint64_t read_avx512(const lane *x, size_t n) { READ_BODY }
#endif

typedef uint64_t reader(const lane *x, size_t n);

static reader *best_reader(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f")) return read_avx512;
    if (__builtin_cpu_supports("avx2")) return read_avx2;
#endif
    return read_plain;
}

/* Bytes that each thread reads from memory: it takes some milliseconds, so that the time to start and end together does not matter. */
enum { COLD_BYTES_PER_THREAD = 32 << 20, COLD_BYTES_MAX = 512 << 20, WARM_BYTES_MIN = 64 << 20 };

#if defined(__x86_64__)
/* Flushes a part of the buffer from all caches, so that a sweep reads memory however large the caches are.  The cache sizes that the
 * system reports are often wrong in a virtual machine and on processors with several last-level caches. */
enum { CAN_FLUSH = 1 };
static void flush(const lane *x, size_t n)
{
    for (size_t i = 0; i < n; i++) __builtin_ia32_clflush(&x[i]);
    __builtin_ia32_mfence();
}
#else
enum { CAN_FLUSH = 0 };
static void flush(const lane *x, size_t n) { (void)x, (void)n; }
#endif

struct sweep {
    lane *x;
    size_t n;                        /* lanes of 64 bytes */
    uint32_t passes;
    reader *read;
    struct forge_pool *pool;
    uint64_t sums[FORGE_MAX_THREADS];
};

/* A thread has the same part in all steps below, as it has the same rows of a matrix. */
static size_t part_from(const struct sweep *s, uint32_t thread, uint32_t n_threads) { return s->n / 8 * thread / n_threads * 8; }

/* Every thread writes its part first: this places it on the thread's memory node and takes all page faults. */
static void sweep_fill(void *context, uint32_t thread, uint32_t n_threads)
{
    struct sweep *s = context;
    const size_t from = part_from(s, thread, n_threads), to = part_from(s, thread + 1, n_threads);
    memset(s->x + from, 1, (to - from) * sizeof *s->x);
}

static void sweep_flush(void *context, uint32_t thread, uint32_t n_threads)
{
    struct sweep *s = context;
    const size_t from = part_from(s, thread, n_threads);
    flush(s->x + from, part_from(s, thread + 1, n_threads) - from);
}

static void sweep(void *context, uint32_t thread, uint32_t n_threads)
{
    struct sweep *s = context;
    const size_t from = part_from(s, thread, n_threads), to = part_from(s, thread + 1, n_threads);
    uint64_t sum = 0;
    for (uint32_t pass = 0; pass < s->passes; pass++) {
        if (pass > 0) pool_barrier(s->pool, thread);
        sum += s->read(s->x + from, to - from);
    }
    s->sums[thread] += sum;
}

/* GB/s, the best of a few sweeps over a buffer of `bytes` bytes.  cold: flush the caches before each sweep, if possible.  0: there is no
 * memory for the buffer. */
static double bandwidth(struct forge_pool *pool, size_t bytes, bool cold)
{
    static struct sweep s;
    bytes = (bytes + 4095) / 4096 * 4096;
    lane *x = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (x == MAP_FAILED) return 0;
    madvise(x, bytes, MADV_HUGEPAGE);
    const uint32_t passes = cold || bytes >= WARM_BYTES_MIN ? 1 : (uint32_t)(WARM_BYTES_MIN / bytes);
    s = (struct sweep){ .x = x, .n = bytes / sizeof *x, .passes = passes, .read = best_reader(), .pool = pool };
    pool_run(pool, sweep_fill, &s);
    double best = 0;
    for (int i = 0; i < 6; i++) {                                /* the first one warms the cache */
        if (cold) pool_run(pool, sweep_flush, &s);
        const double start = seconds_now();
        pool_run(pool, sweep, &s);
        const double rate = (double)bytes * passes / (seconds_now() - start) * 1e-9;
        if (i > 0 && rate > best) best = rate;
    }
    munmap(x, bytes);
    return best;
}

static double memory_bandwidth(struct forge_pool *pool, size_t cache)
{
    /* With three times the size of the last cache, nothing of one sweep is left for the next. */
    const size_t flushed = (size_t)COLD_BYTES_PER_THREAD * pool_threads(pool), several = 3 * cache > WARM_BYTES_MIN ? 3 * cache
        : WARM_BYTES_MIN;
    const size_t bytes = CAN_FLUSH ? flushed : several;
    return bandwidth(pool, bytes < COLD_BYTES_MAX ? bytes : COLD_BYTES_MAX, CAN_FLUSH);
}

static size_t last_cache_bytes(void)
{
    long bytes = 0;
#ifdef _SC_LEVEL3_CACHE_SIZE
    bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
    if (bytes <= 0) bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
#endif
    return bytes > 0 ? (size_t)bytes : 32u << 20;
}

/* ---- tests ---- */

struct numbers { double mean, deviation, median, least, most; };

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static struct numbers numbers_of(double *x, size_t n)
{
    struct numbers r = { 0 };
    qsort(x, n, sizeof *x, compare_doubles);
    for (size_t i = 0; i < n; i++) r.mean += x[i] / (double)n;
    for (size_t i = 0; i < n; i++) r.deviation += (x[i] - r.mean) * (x[i] - r.mean);
    r.deviation = n > 1 ? sqrt(r.deviation / (double)(n - 1)) : 0;
    r.least = x[0];
    r.most = x[n - 1];
    r.median = (x[(n - 1) / 2] + x[n / 2]) / 2;
    return r;
}

struct bench {
    struct forge_engine *engine;
    struct forge_sequence *sequence;
    const struct forge_options *options;
    int32_t *tokens;                 /* [n_ctx] random */
    float   *logits;                 /* or rows of embeddings */
    float   *vector;                 /* [n_embd] for embeddings */
    double  *rates;                  /* [repetitions] */
    double   memory_gb_s, cache_gb_s;   /* GPU: a large copy, and 0.  cache: a buffer of the weights' size, 0 if that is larger than the
                                         * cache */
    size_t   n_rows;
    bool     spec;                   /* also measure text with speculation */
};

/* Rewinds to the first `depth` tokens, or to fewer if the model cannot keep them. */
static enum forge_status go_back(struct forge_sequence *q, uint32_t depth, struct forge_error *error)
{
    return q->n_past <= depth || sequence_rewind(q, depth) ? FORGE_OK : sequence_reset(q, error);
}

/* Generation on a GPU as in use: tokens are drawn on the device and read by the host.  The drawn text is removed afterwards. */
static enum forge_status draw_once(struct forge_sequence *q, int32_t first, uint32_t n, struct forge_error *error)
{
    static const struct forge_sample_options greedy = { .top_p = 1, .repeat_penalty = 1 };
    const struct forge_random random = { { 1, 2, 3, 4 } };
    const struct forge_engine *e = q->engine;
    const uint32_t depth = q->n_past;
    TRY(engine_draw_begin(q, &greedy, &random, first, n, true, error));
    for (uint32_t i = 0; i < n; i++) {
        int32_t token;
        if (e->stop && *e->stop) return error_set(error, FORGE_INTERRUPTED, "interrupted");
        TRY(engine_draw_next(q, &token, error));
    }
    return go_back(q, depth, error);
}

/* Rows of the table: a prompt; text without and with speculation. */
enum row { ROW_PROMPT, ROW_TEXT, ROW_SPEC };

static enum forge_status run_once(struct bench *b, enum row row, uint32_t n, uint32_t depth, double *seconds, struct forge_error *error)
{
    struct forge_engine *e = b->engine;
    struct forge_sequence *q = b->sequence;
    e->speculates = row == ROW_SPEC;
    /* The context always begins with the first of b->tokens, so tokens that are already there need not be computed again. */
    TRY(go_back(q, depth, error));
    if (q->n_past < depth) TRY(forge_step(q, b->tokens + q->n_past, depth - q->n_past, 0, b->logits, error));
    const double start = seconds_now();
    if (e->program->embedding) TRY(forge_embed(q, b->tokens, n, true, b->logits, b->vector, error));
    else if (row == ROW_PROMPT) TRY(forge_step(q, b->tokens + depth, n, 1, b->logits, error));
    else if (engine_draws(e)) TRY(draw_once(q, b->tokens[depth], n, error));
    else
        for (uint32_t i = 0; i < n; i++) {
            if (e->stop && *e->stop) return error_set(error, FORGE_INTERRUPTED, "interrupted");
            TRY(forge_step(q, b->tokens + depth + i, 1, 1, b->logits, error));
        }
    *seconds = seconds_now() - start;
    return FORGE_OK;
}

static void print_row(struct bench *b, enum row row, uint32_t n, uint32_t depth, const struct numbers *r)
{
    const bool prompt = row == ROW_PROMPT, spec = row == ROW_SPEC;
    const char *how = b->spec && b->engine->program->gpu->n_pass > 0 ? "mtp" : "ngram";
    const unsigned long long drafted = b->engine->n_drafted, accepted = b->engine->n_accepted;
    const struct forge_program *p = b->engine->program;
    const char *format = b->options->output_format;
    const uint64_t weights_bytes = program_weights_bytes(p);
    const uint32_t n_threads = engine_draws(b->engine) ? 1 : pool_threads(b->engine->pool);
    /* A decoded token reads the weights once, and the cache of all tokens before it; the tokens of a prompt share the weights. */
    const double bytes = (double)program_read_bytes(p) + (double)program_bytes_per_token(p) * (depth + (n - 1) * 0.5);
    const double gb_s = row != ROW_TEXT ? 0 : r->mean * bytes * 1e-9;
    const double roof = b->cache_gb_s > 0 ? b->cache_gb_s : b->memory_gb_s;
    const double share = row == ROW_TEXT && roof > 0 ? 100 * gb_s / roof : 0;
    char test[48];
    const int used = snprintf(test, sizeof test, "%s%u%s", prompt ? "pp" : "tg", n, spec ? " spec" : "");
    if (depth > 0) snprintf(test + used, sizeof test - (size_t)used, " @ d%u", depth);
    if (strcmp(format, "json") == 0) {
        printf("%s\n  {\"model\": \"", b->n_rows > 0 ? "," : "");
        print_escaped(p->model_name, ESCAPE_JSON);
        printf("\", \"formats\": \"%s\", \"model_size\": %llu, \"model_n_params\": %llu, \"target\": \"%s\", \"options\": \"%s\","
               " \"n_threads\": %u, \"n_prompt\": %u, \"n_gen\": %u, \"n_depth\": %u, \"avg_ts\": %.6g, \"stddev_ts\": %.6g,"
               " \"min_ts\": %.6g, \"median_ts\": %.6g, \"max_ts\": %.6g, \"bytes_per_token\": %.0f, \"gb_s\": %.4g,"
               " \"memory_gb_s\": %.4g, \"cache_gb_s\": %.4g, \"share_percent\": %.4g",
               p->formats, (unsigned long long)weights_bytes, (unsigned long long)p->n_parameters, p->target, p->options, n_threads,
               prompt ? n : 0, prompt ? 0 : n, depth, r->mean, r->deviation, r->least, r->median, r->most, prompt ? 0 : bytes, gb_s,
               b->memory_gb_s, b->cache_gb_s, share);
        if (spec) printf(", \"speculation\": \"%s\", \"n_drafted\": %llu, \"n_accepted\": %llu", how, drafted, accepted);
        printf("}");
    } else if (strcmp(format, "csv") == 0) {
        if (b->n_rows == 0)
            printf("model,formats,model_size,model_n_params,target,options,n_threads,n_prompt,n_gen,n_depth,avg_ts,stddev_ts,min_ts,"
                   "median_ts,max_ts,bytes_per_token,gb_s,memory_gb_s,cache_gb_s,share_percent%s\n",
                   b->spec ? ",speculation,n_drafted,n_accepted" : "");
        printf("\"");
        print_escaped(p->model_name, ESCAPE_CSV);
        printf("\",\"%s\",%llu,%llu,%s,\"%s\",%u,%u,%u,%u,%.6g,%.6g,%.6g,%.6g,%.6g,%.0f,%.4g,%.4g,%.4g,%.4g", p->formats,
               (unsigned long long)weights_bytes, (unsigned long long)p->n_parameters, p->target, p->options, n_threads,
               prompt ? n : 0, prompt ? 0 : n, depth, r->mean, r->deviation, r->least, r->median, r->most, prompt ? 0 : bytes, gb_s,
               b->memory_gb_s, b->cache_gb_s, share);
        if (b->spec) printf(",%s,%llu,%llu", spec ? how : "none", spec ? drafted : 0, spec ? accepted : 0);
        printf("\n");
    } else {
        if (b->n_rows == 0)
            printf("| model | size | params | target | threads | test | t/s | min | median | max | GB/s | share |\n"
                   "| --- | ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n");
        printf("| ");
        print_escaped(p->model_name, ESCAPE_MD);
        printf(" | %.2f MiB | %.2f M | %s | %u | %s | %.2f ± %.2f | %.2f | %.2f | %.2f |", (double)weights_bytes / 1048576,
               (double)p->n_parameters * 1e-6, p->target, n_threads, test, r->mean, r->deviation, r->least, r->median, r->most);
        if (prompt) printf(" | |\n");
        else if (spec) printf(" | %llu of %llu drafts |\n", accepted, drafted);
        else printf(" %.2f | %.0f %% |\n", gb_s, share);
    }
    b->n_rows++;
}

static enum forge_status run_test(struct bench *b, enum row row, uint32_t n, uint32_t depth, struct forge_error *error)
{
    const size_t repetitions = (size_t)b->options->bench_repeat;
    double seconds = 0;
    TRY(run_once(b, row, row != ROW_TEXT || n < 16 ? n : 16, depth, &seconds, error));
    b->engine->n_drafted = b->engine->n_accepted = 0;
    for (size_t i = 0; i < repetitions; i++) {
        double all = 0, runs = 0;
        do {
            TRY(run_once(b, row, n, depth, &seconds, error));
            all += seconds;
            runs++;
        } while (all < (double)b->options->bench_min_time);
        b->rates[i] = runs * n / all;
    }
    const struct numbers r = numbers_of(b->rates, repetitions);
    print_row(b, row, n, depth, &r);
    return flush_stdout(error);
}

struct list { int32_t x[MAX_LIST]; size_t n; };

static enum forge_status parse_list(struct list *out, const char *name, const char *text, int32_t normal, struct forge_error *error)
{
    *out = (struct list){ { normal }, 1 };
    if (!text) return FORGE_OK;
    const int64_t n = parse_numbers(text, strlen(text), 0, INT32_MAX, out->x, MAX_LIST);
    if (n <= 0) return error_set(error, FORGE_USAGE, "--bench: %s '%s' is not a list of up to %d numbers", name, text, MAX_LIST);
    out->n = (size_t)n;
    return FORGE_OK;
}

/* Checked before anything is measured. */
static enum forge_status check_lengths(const struct bench *b, const struct list *prompts, const struct list *predicts,
                                       const struct list *depths, struct forge_error *error)
{
    for (size_t d = 0; d < depths->n; d++)
        for (size_t i = 0; i < prompts->n + predicts->n; i++) {
            const int32_t n = i < prompts->n ? prompts->x[i] : predicts->x[i - prompts->n], depth = depths->x[d];
            if (n > 0 && (uint64_t)n + (uint64_t)depth > b->engine->n_ctx)
                return error_set(error, FORGE_TOO_LONG, "%d tokens after %d do not fit: the context holds %u", n, depth, b->engine->n_ctx);
        }
    return FORGE_OK;
}

static enum forge_status run_all(struct bench *b, const struct list *prompts, const struct list *predicts, const struct list *depths,
                                 struct forge_error *error)
{
    for (size_t d = 0; d < depths->n; d++) {
        for (size_t i = 0; i < prompts->n; i++)
            if (prompts->x[i] > 0) TRY(run_test(b, ROW_PROMPT, (uint32_t)prompts->x[i], (uint32_t)depths->x[d], error));
        for (size_t i = 0; i < predicts->n; i++)
            for (enum row row = ROW_TEXT; row <= (b->spec ? ROW_SPEC : ROW_TEXT) && predicts->x[i] > 0; row++)
                TRY(run_test(b, row, (uint32_t)predicts->x[i], (uint32_t)depths->x[d], error));
    }
    return FORGE_OK;
}

enum forge_status bench_bandwidth(struct forge_engine *e, double *memory_gb_s, double *cache_gb_s, struct forge_error *error)
{
    const struct forge_program *p = e->program;
    *cache_gb_s = 0;
    if (engine_draws(e)) return p->gpu->runtime->copy_bandwidth(e, memory_gb_s, error);
    const size_t cache = last_cache_bytes();
    *memory_gb_s = memory_bandwidth(e->pool, cache);
    if (p->weights_bytes > 0 && p->weights_bytes < cache) *cache_gb_s = bandwidth(e->pool, (size_t)p->weights_bytes, false);
    return FORGE_OK;
}

static void print_roof(const struct bench *b)
{
    const struct forge_engine *e = b->engine;
    const bool several = program_ranks(e->program) > 1, pipeline = several && e->program->gpu->pipeline;
    printf("\n%.2f MB read per token%s. ", (double)program_read_bytes(e->program) * 1e-6,
           pipeline ? ", by one GPU after the other" : several ? " by the first GPU" : "");
    if (engine_draws(e)) printf("Copy bandwidth of %s%s, read and written: %.1f GB/s", e->device_name,
                                several ? ", the first of them" : "", b->memory_gb_s);
    else printf("Read bandwidth, %u threads: %.1f GB/s from memory", pool_threads(e->pool), b->memory_gb_s);
    if (b->cache_gb_s > 0) printf(", %.1f GB/s from a buffer of the weights' size (the share is of this)", b->cache_gb_s);
    printf(".\n");
}

/* Uses the tokens of a text file in place of random tokens; *n: their number. */
static enum forge_status read_tokens(struct bench *b, uint32_t *n, struct forge_error *error)
{
    const struct forge_program *p = b->engine->program;
    struct forge_bytes text = { NULL, 0 };
    struct forge_tokens tokens = { NULL, 0 };
    enum forge_status status = prompt_read(&text, b->options, error);
    if (status == FORGE_OK) status = tokens_of_text(&tokens, p->vocab, text.bytes, text.n, FORGE_TOK_ADD | FORGE_TOK_SPECIAL, error);
    if (status == FORGE_OK && (tokens.n == 0 || tokens.n > b->engine->n_ctx))
        status = error_set(error, FORGE_TOO_LONG, "--bench: %zu tokens in %s; the context holds 1 to %u", tokens.n, b->options->prompt_file,
                           b->engine->n_ctx);
    if (status == FORGE_OK) {
        memcpy(b->tokens, tokens.ids, tokens.n * sizeof *tokens.ids);
        *n = (uint32_t)tokens.n;
    }
    free(tokens.ids);
    free(text.bytes);
    return status;
}

enum forge_status bench_run(struct forge_engine *e, const struct forge_options *o, struct forge_error *error)
{
    const struct forge_program *p = e->program;
    struct list prompts, predicts, depths;
    /* With a small context the default lengths are shortened; lengths given by the user are refused. */
    const int32_t n_ctx = e->n_ctx > INT32_MAX ? INT32_MAX : (int32_t)e->n_ctx;
    TRY(parse_list(&prompts, "-p", o->bench_prompt, o->prompt_file ? 0 : n_ctx < 512 ? n_ctx : 512, error));
    TRY(parse_list(&predicts, "-n", o->bench_predict, n_ctx < 128 ? n_ctx : 128, error));
    TRY(parse_list(&depths, "-d", o->bench_depth, 0, error));
    if (p->embedding) predicts.n = 0;

    struct bench b = { .engine = e, .options = o, .spec = e->speculates };
    b.tokens = malloc((size_t)e->n_ctx * sizeof *b.tokens);
    b.logits = malloc((p->embedding ? (size_t)engine_piece(e) * p->n_embd : p->n_vocab + 16u) * sizeof *b.logits);
    b.vector = malloc(p->n_embd * sizeof *b.vector);
    b.rates = malloc((size_t)o->bench_repeat * sizeof *b.rates);
    enum forge_status status = FORGE_OK;
    if (!b.tokens || !b.logits || !b.vector || !b.rates) {
        status = error_set(error, FORGE_NO_MEMORY, "out of memory for the measurement");
        goto release;
    }
    struct forge_random random;
    random_seed(&random, 1);
    for (uint32_t i = 0; i < e->n_ctx; i++) b.tokens[i] = (int32_t)(random_next(&random) % p->n_vocab);

    if (o->prompt_file) {
        uint32_t n = 1;
        status = read_tokens(&b, &n, error);
        if (status != FORGE_OK) goto release;
        if (!o->bench_depth) depths.x[0] = (int32_t)n - 1;       /* its last token is the first of the measured text */
    }
    status = sequence_open(&b.sequence, e, error);
    if (status != FORGE_OK) goto release;
    status = check_lengths(&b, &prompts, &predicts, &depths, error);
    if (status != FORGE_OK) goto release;

    status = bench_bandwidth(e, &b.memory_gb_s, &b.cache_gb_s, error);
    if (status != FORGE_OK) goto release;
    const bool json = strcmp(o->output_format, "json") == 0;
    if (json) printf("[");
    status = run_all(&b, &prompts, &predicts, &depths, error);
    if (json && status == FORGE_OK) printf("\n]\n");
    if (strcmp(o->output_format, "md") == 0 && status == FORGE_OK) print_roof(&b);
    if (status == FORGE_OK) status = flush_stdout(error);
release:
    sequence_close(b.sequence);
    free(b.rates);
    free(b.vector);
    free(b.logits);
    free(b.tokens);
    return status;
}
