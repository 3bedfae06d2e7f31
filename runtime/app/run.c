/* run.c -- main() of a compiled model.  The only file that prints errors and ends the process. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/model/check.h"
#include "chat.h"
#include "ending.h"
#include "outfile.h"
#include "runtime/device/gpu.h"
#include "runtime/device/launcher.h"
#include "runtime/chat/template.h"
#include "runtime/model/state.h"
#include "runtime/run/entropy.h"
#include "runtime/run/session.h"
#include "runtime/model/vocab.h"
#include "runtime/text/tokenize.h"

static volatile sig_atomic_t interrupted;
static bool stderr_is_terminal;

/* The first Ctrl-C ends the work at the next token; a second Ctrl-C ends the process at once. */
static void on_interrupt(int signal)
{
    (void)signal;
    if (!interrupted++) return;
    if (stderr_is_terminal && write(STDERR_FILENO, "\n", 1) < 0) { }            /* after the terminal's ^C */
    ending_run();
    _exit(FORGE_INTERRUPTED);
}

static void install_signals(void)
{
    stderr_is_terminal = isatty(STDERR_FILENO);
    struct sigaction action = { .sa_handler = on_interrupt };    /* no SA_RESTART: a read of the prompt must end */
    sigaction(SIGINT, &action, NULL);
    action.sa_handler = SIG_IGN;                                 /* a closed pipe is an error of write, with its own exit code */
    sigaction(SIGPIPE, &action, NULL);
    sigaction(SIGXFSZ, &action, NULL);                           /* so is a file at its size limit */
}

/* A closed standard stream must not become the next file that is opened: --logits would replace stderr.  It is opened for the
 * wrong direction, so that its use still fails. */
static void hold_standard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0) return;
}

/* The number of this process among those that share a model, one GPU each.  Only process 0 prints to stdout. */
static uint32_t process;

static void find_process(void)
{
    struct forge_launcher launcher;
    if (forge_n_programs == 0 || program_ranks(forge_programs[0]) == 1) return;
    if (launcher_find(&launcher, NULL) != FORGE_OK || launcher.rank == 0) return;
    process = launcher.rank;
    const int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0) close(STDOUT_FILENO);
    if (fd >= 0) close(fd);
}

/* How many tokens to generate; -1: until the end of the text or the context. */
static int64_t tokens_wanted(const struct forge_options *o)
{
    return o->n_predict != INT32_MIN ? o->n_predict : options_write_numbers(o) ? 0 : -1;
}

static enum forge_status prepare_options(struct forge_options *o, const struct forge_program *p, struct forge_error *error)
{
    options_sampling_defaults(o, &p->sampling);
    if (!o->seed_given) o->sample.seed = (uint32_t)entropy();
    for (size_t i = 0; i < o->n_biases; i++)
        if ((uint32_t)o->biases[i].id >= p->n_vocab)
            return error_set(error, FORGE_USAGE, "--logit-bias: there is no token %d; the vocabulary has %u", o->biases[i].id, p->n_vocab);
    o->sample.biases = o->biases;
    o->sample.n_biases = o->n_biases;
    o->sample.suppressed = vocab_image_suppressed(p->vocab, &o->sample.n_suppressed);
    if (p->gpu && o->n_biases + o->sample.n_suppressed > FORGE_GPU_MAX_BIASES)
        return error_set(error, FORGE_USAGE,
            "--logit-bias is given %zu times; on a GPU this model supports %u, since it has %u tokens that are never drawn",
                         o->n_biases, FORGE_GPU_MAX_BIASES - o->sample.n_suppressed, o->sample.n_suppressed);
    for (size_t i = 0; o->escape && i < o->n_stops; i++) {
        const size_t n = unescape((char *)(uintptr_t)o->stops[i]);
        if (strlen(o->stops[i]) != n) return error_set(error, FORGE_USAGE, "--reverse-prompt: \\0 cannot be part of the text");
    }
    if (o->escape && o->system) unescape((char *)(uintptr_t)o->system);
    if (p->embedding && !p->vocab && (o->mode == MODE_RUN || o->mode == MODE_TOKENIZE) && !o->tokens)
        return error_set(error, FORGE_USAGE, "the model has no tokenizer: give token ids with --tokens");
    if (p->embedding) return FORGE_OK;
    if (!p->vocab && o->mode == MODE_RUN && !o->tokens)
        return error_set(error, FORGE_USAGE, "the model has no tokenizer: give token ids with --tokens and --print-tokens");
    if (!p->vocab && o->mode == MODE_RUN && !o->print_tokens && tokens_wanted(o) != 0)
        return error_set(error, FORGE_USAGE, "the model has no tokenizer: --print-tokens prints ids in place of text");
    return FORGE_OK;
}

static uint32_t text_flags(const struct forge_options *o)
{
    return (o->no_bos ? 0u : FORGE_TOK_ADD) | (o->no_special ? 0u : FORGE_TOK_SPECIAL);
}

static enum forge_status prompt_tokens(struct forge_tokens *tokens, struct forge_bytes *text, const struct forge_options *o,
                                       const struct forge_program *p, struct forge_error *error)
{
    if (o->tokens) TRY(tokens_of_list(tokens, o->tokens, p->n_vocab, error));
    else {
        TRY(prompt_read(text, o, error));
        TRY(tokens_of_text(tokens, p->vocab, text->bytes, text->n, text_flags(o), error));
    }
    for (size_t i = 0; i < tokens->n; i++)
        if (tokens->ids[i] < 0 || (uint32_t)tokens->ids[i] >= p->n_vocab)
            return error_set(error, FORGE_FAILED, "the tokenizer gives token %d, but the model has only %u tokens", tokens->ids[i],
                p->n_vocab);
    if (tokens->n == 0 && o->mode != MODE_TOKENIZE && !o->tokens && vocab_bos(p->vocab) >= 0 && !o->no_bos) {
        /* Some token must come first, and the token that begins a text is the natural choice. */
        const int32_t bos = vocab_bos(p->vocab);
        free(tokens->ids);
        if (!(tokens->ids = malloc(sizeof bos))) return error_set(error, FORGE_NO_MEMORY, "out of memory for the prompt's tokens");
        *tokens->ids = bos;
        tokens->n = 1;
    }
    return FORGE_OK;
}

/* Writes logits after every token of the prompt into the file; the last ones stay in the session. */
static enum forge_status write_logits(struct forge_session *s, const int32_t *tokens, size_t n, struct forge_error *error)
{
    const char *path = s->options->logits_path;
    const size_t n_vocab = s->program->n_vocab, chunk = engine_piece(s->engine);
    struct forge_outfile file;
    TRY(outfile_open(&file, path, error));
    enum forge_status status = FORGE_OK;
    float *logits = malloc((chunk < n ? chunk : n) * n_vocab * sizeof *logits);
    if (!logits) { status = error_set(error, FORGE_NO_MEMORY, "out of memory for %zu x %zu logits", chunk, n_vocab); goto close_file; }
    sequence_expect(s->sequence, (uint32_t)n);
    for (size_t at = 0; at < n && status == FORGE_OK;) {
        const size_t part = n - at < chunk ? n - at : chunk;
        if (interrupted) { status = error_set(error, FORGE_INTERRUPTED, "interrupted"); break; }
        status = n == 1 ? forge_step(s->sequence, tokens, 1, 1, logits, error)
                        : forge_prefill(s->sequence, tokens + at, (uint32_t)part, (uint32_t)part, logits, error);
        if (status == FORGE_OK) status = write_all(file.fd, logits, part * n_vocab * sizeof *logits, path, error);
        for (size_t i = 0; i < part; i++) sampler_accept(s->sampler, tokens[at + i]);
        at += part;
        if (at == n) memcpy(s->logits, logits + (part - 1) * n_vocab, n_vocab * sizeof *logits);
    }
    free(logits);
close_file:
    status = outfile_close(&file, status, error);
    if (status == FORGE_OK) s->n_prompt += n;
    return status;
}

/* Writes the MTP block's logits after each token of the prompt into the file: after the first token of a step as for a token of the
 * text, after the others as if they were drafts. */
static enum forge_status write_draft_logits(struct forge_session *s, const int32_t *tokens, size_t n, struct forge_error *error)
{
    const char *path = s->options->draft_logits_path;
    const size_t n_vocab = s->program->n_vocab, asked = s->options->chunk > 0 ? (size_t)s->options->chunk : 1;
    const size_t piece = asked < n ? asked : n;
    struct forge_outfile file;
    TRY(outfile_open(&file, path, error));
    enum forge_status status = FORGE_OK;
    float *logits = malloc(piece * n_vocab * sizeof *logits);
    if (!logits) { status = error_set(error, FORGE_NO_MEMORY, "out of memory for %zu x %zu logits", piece, n_vocab); goto close_file; }
    for (size_t at = 0; at < n && status == FORGE_OK;) {
        const size_t part = n - at < piece ? n - at : piece;
        if (interrupted) { status = error_set(error, FORGE_INTERRUPTED, "interrupted"); break; }
        status = engine_draft(s->sequence, tokens + at, (uint32_t)part, logits, error);
        if (status == FORGE_OK) status = write_all(file.fd, logits, part * n_vocab * sizeof *logits, path, error);
        if (status == FORGE_OK) status = forge_step(s->sequence, tokens + at, part, 1, s->logits, error);
        for (size_t i = 0; i < part; i++) sampler_accept(s->sampler, tokens[at + i]);
        at += part;
    }
    free(logits);
close_file:
    status = outfile_close(&file, status, error);
    if (status == FORGE_OK) s->n_prompt += n;
    return status;
}

struct traced { int fd; const char *path; enum forge_status status; struct forge_error *error; };

static void write_traced(void *context, const char *launch, uint32_t layer, uint32_t n_past, uint64_t hash)
{
    struct traced *t = context;
    char line[256];
    const int n = snprintf(line, sizeof line, "%s %d %u %016llx\n", launch, (int)layer, n_past, (unsigned long long)hash);
    if (t->status == FORGE_OK) t->status = write_all(t->fd, line, (size_t)n, t->path, t->error);
}

/* Reads the prompt and writes a line for each launch: name, layer (-1: none), tokens before its step, hash. */
static enum forge_status write_trace(struct forge_session *s, const int32_t *tokens, size_t n, struct forge_error *error)
{
    struct forge_outfile file;
    TRY(outfile_open(&file, s->options->trace_path, error));
    struct traced traced = { file.fd, s->options->trace_path, FORGE_OK, error };
    const struct forge_trace trace = { write_traced, &traced };
    s->engine->trace = &trace;
    enum forge_status status = session_prompt(s, tokens, n, error);
    s->engine->trace = NULL;
    return outfile_close(&file, status == FORGE_OK ? traced.status : status, error);
}

/* Are these the same pipe or file, as after 2>&1? */
static bool is_same_file(int a, int b)
{
    struct stat x, y;
    return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static enum forge_status complete(struct forge_session *s, const struct forge_tokens *tokens, const struct forge_bytes *text,
                                  struct forge_error *error)
{
    const struct forge_options *o = s->options;
    if (tokens->n == 0 && o->tokens) return error_set(error, FORGE_USAGE, "--tokens: the list is empty");
    if (tokens->n == 0)
        return error_set(error, FORGE_USAGE, "the prompt is empty and the model has no token that begins a text");
    if (tokens->n > s->engine->n_ctx)
        return error_set(error, FORGE_TOO_LONG, "the prompt has %zu tokens; the context holds %u (%s)", tokens->n, s->engine->n_ctx,
                         engine_longer(s->engine));
    if (o->echo && text->bytes) TRY(stream_write(&s->out, text->bytes, text->n, error));
    if (o->logits_path) TRY(write_logits(s, tokens->ids, tokens->n, error));
    else if (o->trace_path) TRY(write_trace(s, tokens->ids, tokens->n, error));
    else if (o->draft_logits_path) TRY(write_draft_logits(s, tokens->ids, tokens->n, error));
    else TRY(session_prompt(s, tokens->ids, tokens->n, error));

    const int64_t n_predict = tokens_wanted(o);
    enum forge_ending ending;
    TRY(session_generate(s, n_predict, true, &ending, error));
    const bool ends_line = n_predict == 0 || s->out.last == '\n';
    if ((!ends_line && isatty(STDOUT_FILENO)) || (o->print_tokens && s->n_printed > 0))
        TRY(write_all(STDOUT_FILENO, "\n", 1, "stdout", error));
    else if (!ends_line && (ending == ENDED_CONTEXT || !o->quiet) && is_same_file(STDOUT_FILENO, STDERR_FILENO)) fprintf(stderr, "\n");
    if (ending == ENDED_CONTEXT) fprintf(stderr, "the context of %u tokens is full (%s)\n", s->engine->n_ctx, engine_longer(s->engine));
    if (!o->quiet) session_report(s);
    return ending == ENDED_INTERRUPT ? error_set(error, FORGE_INTERRUPTED, "interrupted") : FORGE_OK;
}

static enum forge_status run_session(struct forge_engine *e, struct forge_options *o, struct forge_error *error)
{
    struct forge_tokens tokens = { NULL, 0 };
    struct forge_bytes text = { NULL, 0 };
    struct forge_session session;
    enum forge_status status = FORGE_OK;
    if (o->mode == MODE_RUN) status = prompt_tokens(&tokens, &text, o, e->program, error);
    else if (o->prompt || o->prompt_file) status = prompt_read(&text, o, error);
    if (status == FORGE_OK) status = session_open(&session, o, e, &interrupted, error);
    if (status == FORGE_OK) {
        status = o->mode == MODE_CHAT ? chat_run(&session, &text, error) : complete(&session, &tokens, &text, error);
        session_close(&session);
    }
    free(tokens.ids);
    free(text.bytes);
    return status;
}

static enum forge_status print_prompt_tokens(const struct forge_options *o, const struct forge_program *p, struct forge_error *error)
{
    struct forge_tokens tokens = { NULL, 0 };
    struct forge_bytes text = { NULL, 0 };
    enum forge_status status = prompt_tokens(&tokens, &text, o, p, error);
    if (status == FORGE_OK) {
        for (size_t i = 0; i < tokens.n; i++) printf(i > 0 ? " %d" : "%d", tokens.ids[i]);
        printf("\n");
        status = flush_stdout(error);
    }
    free(tokens.ids);
    free(text.bytes);
    return status;
}

static bool flag_of(const char *variable)
{
    const char *value = getenv(variable);
    return value && *value != 0 && strcmp(value, "0") != 0;
}

/* Was at least one of the programs built for a GPU (or for a CPU)? */
static bool built_for(bool gpu)
{
    for (uint32_t i = 0; i < forge_n_programs; i++) if (!forge_programs[i]->gpu == !gpu) return true;
    return false;
}

/* Reports or refuses options that have no meaning in this program. */
static enum forge_status check_meaning(const struct forge_options *o, const struct forge_program *p, struct forge_error *error)
{
    const char *spec = !p->gpu || p->gpu->most_drafts == 0 ? "none" : p->gpu->n_pass > 0 ? "mtp" : "ngram";
    if (*o->spec && strcmp(o->spec, "none") != 0 && strcmp(o->spec, spec) != 0)
        return error_set(error, FORGE_USAGE, "--spec %s: %s was not built for this; build it with forgec build --spec %s", o->spec,
            p->target,
                         o->spec);
    if (o->draft_logits_path && strcmp(spec, "mtp") != 0)
        return error_set(error, FORGE_USAGE, "--draft-logits: %s has no draft block; build the program with forgec build --spec mtp",
                         p->target);
    if (o->n_threads > 0 && !built_for(false)) fprintf(stderr, "--threads has no effect: this program computes on the GPU\n");
    for (size_t i = 0; i < o->n_ignored; i++) fprintf(stderr, "%s has no effect here: %s\n", o->ignored[i].name, o->ignored[i].why);
    if (o->random_weights && o->mode != MODE_BENCH && o->mode != MODE_PROFILE && o->mode != MODE_SERVE && !o->logits_path)
        return error_set(error, FORGE_USAGE, "--random-weights can only be used with --bench, --profile, --serve and --logits");
    if (o->chunk > 0 && (uint32_t)o->chunk > p->chunk)
        return error_set(error, FORGE_USAGE, "--ubatch-size is %d; the program was built for at most %u", o->chunk, p->chunk);
    return FORGE_OK;
}

/* The most threads that a CPU program starts by default.  Small models gain little from more, because barriers cost what the smaller
 * shares save. */
static uint32_t threads_of(const struct forge_program *p)
{
    enum { BYTES_EACH = 1 << 20 };
    const uint64_t most = p->read_bytes / BYTES_EACH + 1;
    return most < p->max_threads ? (uint32_t)most : p->max_threads;
}

static enum forge_status run_engine(struct forge_options *o, const struct forge_program *p, struct gpu *gpu, struct forge_error *error)
{
    struct forge_engine engine;
    const struct forge_weights_source source = {
        .path = o->weights_path, .random = o->random_weights, .progress = !o->quiet, .verify = strcmp(o->verify_weights, "load") == 0,
        .pages = strcmp(o->pages, "large") == 0 ? PAGES_LARGE : strcmp(o->pages, "file") == 0 ? PAGES_FILE : PAGES_AUTO,
        .numa = strcmp(o->numa, "interleave") == 0 ? NUMA_INTERLEAVE : strcmp(o->numa, "replicate") == 0 ? NUMA_REPLICATE : NUMA_NONE,
    };
    const uint32_t n_threads = p->gpu || o->trace_path ? 1 : o->n_threads > 0 ? (uint32_t)o->n_threads : threads_default(threads_of(p));
    const uint32_t n_ctx = o->mode == MODE_PERPLEXITY ? 0 : (uint32_t)o->n_ctx;
    char memory[256];
    if (!p->gpu && !check_memory(p, memory, sizeof memory)) fprintf(stderr, "%s\n", memory);
    const uint32_t n_sequences = o->mode == MODE_SERVE ? serve_sequences(p, o) : 1;
    TRY(engine_open(&engine, p, gpu, &source, n_threads, n_ctx, n_sequences, error));
    engine.stop = &interrupted;
    if (o->chunk >= 0) engine.chunk = (uint32_t)o->chunk;
    engine.speculates = p->gpu && p->gpu->most_drafts > 0 && strcmp(o->spec, "none") != 0;
    engine.plain_launches = o->no_graph || o->trace_path || (!o->graph && flag_of("FORGE_NO_GRAPH"));
    engine.graphs_wanted = o->graph;
    if (p->gpu && p->gpu->runtime->follows(&engine)) {
        signal(SIGINT, SIG_IGN);                 /* a launcher sends SIGINT to all processes; the leading process says when to end */
        const enum forge_status followed = p->gpu->runtime->follow(&engine, error);
        engine_close(&engine);
        return followed;
    }
    if (o->verbose) {
        fprintf(stderr, "%s, target %s, ", p->model_name, p->target);
        if (engine.device_name) fprintf(stderr, "%s, ", engine.device_name);
        else fprintf(stderr, "%u threads, ", n_threads);
        const uint32_t nodes = engine.places ? engine.places->numa.n : 0;
        if (nodes > 0) fprintf(stderr, "%u node%s of memory, ", nodes, nodes == 1 ? "" : "s");
        fprintf(stderr, "context %u", engine.n_ctx);
        if (p->embedding) fprintf(stderr, "\n");
    }
    if (o->verbose && !p->embedding) {
        const struct forge_sample_options *s = &o->sample;
        fprintf(stderr, ", seed %llu\n", (unsigned long long)s->seed);
        fprintf(stderr, "temp %g, top-k %d, top-p %g, min-p %g, repeat-penalty %g over %d, presence %g, frequency %g\n", (double)s->temp,
                s->top_k, (double)s->top_p, (double)s->min_p, (double)s->repeat_penalty, s->repeat_last_n, (double)s->presence_penalty,
                (double)s->frequency_penalty);
    }
    const enum forge_status status = o->mode == MODE_BENCH ? bench_run(&engine, o, error)
                                   : o->mode == MODE_PROFILE ? profile_run(&engine, o, error)
                                   : o->mode == MODE_PERPLEXITY ? perplexity_run(&engine, o, error)
                                   : o->mode == MODE_SERVE ? serve_run(&engine, o, error)
                                   : p->embedding ? embed_run(&engine, o, error)
                                   : run_session(&engine, o, error);
    engine_close(&engine);
    return status;
}

static enum forge_status run(int argc, char **argv, struct forge_error *error)
{
    static struct forge_options options;
    struct forge_options *o = &options;
    const struct forge_program *any = forge_n_programs > 0 ? forge_programs[0] : NULL;               /* all programs are of one model */
    const struct options_scope scope = {
        .embedding = any ? any->embedding : NULL, .server = serve_run, .talks = talk_open,
        .converses = any && any->chat && chat_has(any->chat, NULL), .cpu = built_for(false), .gpu = built_for(true),
        .defaults = forge_defaults,
    };
    find_process();
    TRY(options_parse(o, argc > 0 ? argc - 1 : 0, argv + 1, &scope, error));
    const bool told = o->mode == MODE_HELP || o->mode == MODE_INFO || o->mode == MODE_VERSION || o->mode == MODE_TOKENIZE;
    if (process > 0 && told) return FORGE_OK;
    if (o->mode == MODE_HELP) {
        options_help(stdout, argc > 0 ? argv[0] : "program", &scope);
        return flush_stdout(error);
    }
    const struct forge_program *program;
    const char *wanted = o->target ? o->target : getenv("FORGE_PROGRAM");
    if (!o->target && wanted && *wanted == 0) wanted = NULL;      /* FORGE_PROGRAM= means not set */
    o->devices.plain = o->no_graph || (!o->graph && flag_of("FORGE_NO_GRAPH"));
    if (o->mode == MODE_CHECK) return check_run(wanted, o->weights_path, &o->devices, error);
    /* --info and --version also work on a machine that cannot run the program. */
    const bool about = o->mode == MODE_INFO || o->mode == MODE_VERSION;
    struct gpu *gpu = NULL;
    const enum forge_status chosen = program_choose(&program, about || o->mode == MODE_TOKENIZE ? NULL : &gpu, wanted, &o->devices,
                                                   error);
    if (chosen == FORGE_OK && error->text[0] != 0) fprintf(stderr, "%s\n", error->text);
    if (about && chosen == FORGE_WRONG_CPU) program = forge_programs[0];
    else if (chosen != FORGE_OK) return chosen;
    if (o->mode == MODE_INFO) return info_print(program, error);
    if (o->mode == MODE_VERSION) return version_print(program, error);
    enum forge_status status = prepare_options(o, program, error);
    if (o->mode == MODE_TOKENIZE && status == FORGE_OK)
        return program->embedding ? embed_tokenize(program, o, error) : print_prompt_tokens(o, program, error);
    if (o->mode == MODE_TOKENIZE) return status;
    if (status == FORGE_OK) status = check_meaning(o, program, error);
    if (status == FORGE_OK) return run_engine(o, program, gpu, error);
    if (gpu) program->gpu->runtime->close(gpu);
    return status;
}

int main(int argc, char **argv)
{
    struct forge_error error = { "" };
    hold_standard_streams();
    const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL, *name = argc == 0 ? "program" : slash ? slash + 1 : argv[0];
    install_signals();
    ending_install(name);
    const enum forge_status status = run(argc, argv, &error);
    if (status == FORGE_INTERRUPTED) {
        if (stderr_is_terminal) fprintf(stderr, "\n");           /* after the terminal's ^C */
    } else if (status != FORGE_OK && error.text[0] != 0) {
        if (process > 0) fprintf(stderr, "%s: process %u: %s\n", name, process, error.text);
        else fprintf(stderr, "%s: %s\n", name, error.text);
    }
    return (int)status;
}
