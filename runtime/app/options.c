/* options.c -- the command line: one table of options, its help, and the words of llama.cpp that mean the same. */
#include "options.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device/threads.h"
#include "chat.h"

enum kind { FLAG, TEXT, INTEGER, REAL, SEED, STOP, CHOICE, BIAS, DEVICES, REAL_GIVEN, INTEGER_GIVEN };

/* What -p -n -d -r -o mean depends on these; then: programs that generate text, or those that give vectors of texts; where a text can go
 * through the model in pieces; programs that have a server; those with a chat template.  CHANGES: between the turns of a chat, too. */
enum { OF_TEXT = 1, OF_BENCH = 2, OF_PROFILE = 4, MEASURING = OF_BENCH | OF_PROFILE, WORDS = 8, VECTORS = 16, PIECES = 32, SERVER = 64,
       TALK = 128, CHANGES = 256 };

struct option {
    const char *short_name, *long_name, *argument, *help;
    enum kind kind;
    int  when;                   /* a set; none of the first three, or of the others: always */
    size_t at, given;            /* offsets in struct forge_options */
    double low, high;
};

#define AT(field) offsetof(struct forge_options, field)
#define GIVEN(field) AT(sample.field), AT(field##_given)
static const struct option table[] = {
    { NULL, "Text", NULL, NULL, FLAG, 0, 0, 0, 0, 0 },
    { "-p", "--prompt", "TEXT", "prompt; without -p and -f it is read from stdin when that is no terminal",
      TEXT, OF_TEXT | WORDS, AT(prompt), 0, 0, 0 },
    { "-f", "--file", "FILE", "prompt from a file (one newline at its end is dropped)",
      TEXT, OF_TEXT | OF_PROFILE | WORDS, AT(prompt_file), 0, 0, 0 },
    { "-p", "--prompt", "TEXT", "one text; without -p and -f texts come from stdin when that is no terminal, one a line",
      TEXT, OF_TEXT | VECTORS, AT(prompt), 0, 0, 0 },
    { "-f", "--file", "FILE", "texts from a file, one a line; -: from stdin", TEXT, VECTORS, AT(prompt_file), 0, 0, 0 },
    { NULL, "--embd-format", "FORM", "json: an array a line (default); plain: numbers a line; raw: f32 [texts][columns]",
      TEXT, VECTORS, AT(embd_format), 0, 0, 0 },
    { NULL, "--no-normalize", NULL, "vectors as the model gives them, not of length 1", FLAG, VECTORS, AT(no_normalize), 0, 0, 0 },
    { NULL, "--truncate", NULL, "of texts longer than the context the beginning; else they are an error",
      FLAG, VECTORS, AT(truncate), 0, 0, 0 },
    { "-n", "--predict", "N", "tokens to generate; -1: until the end of the text or the context (default)",
      INTEGER, OF_TEXT | WORDS | CHANGES, AT(n_predict), 0, -1, INT32_MAX },
    { "-c", "--ctx-size", "N", "context length; 0: what the program was built for, which is the most (default)",
      INTEGER, 0, AT(n_ctx), 0, 0, INT32_MAX },
    { "-e", "--escape", NULL, "\\n, \\t, \\xHH ... in -p, -r and -sys are escapes", FLAG, WORDS, AT(escape), 0, 0, 0 },
    { "-e", "--escape", NULL, "\\n, \\t, \\xHH ... in -p are escapes", FLAG, VECTORS, AT(escape), 0, 0, 0 },
    { "-r", "--reverse-prompt", "TEXT", "stop after this text; may be repeated", STOP, OF_TEXT | WORDS, 0, 0, 0, 0 },
    { NULL, "--ignore-eos", NULL, "never end the text", FLAG, WORDS, AT(ignore_eos), 0, 0, 0 },
    { NULL, "--no-bos", NULL, "no beginning-of-text token before the prompt", FLAG, WORDS, AT(no_bos), 0, 0, 0 },
    { NULL, "--no-bos", NULL, "no tokens that the model wants before and behind a text", FLAG, VECTORS, AT(no_bos), 0, 0, 0 },
    { NULL, "--echo", NULL, "print the prompt before the text", FLAG, WORDS, AT(echo), 0, 0, 0 },
    { "-i", "--interactive", NULL, "chat, one line a turn; -p or -f is the first one (-cnv is the same)", FLAG, WORDS, AT(chat), 0, 0, 0 },
    { "-cnv", "--conversation", NULL, NULL, FLAG, WORDS, AT(chat), 0, 0, 0 },
    { "-sys", "--system-prompt", "TEXT", "system message of the chat", TEXT, WORDS, AT(system), 0, 0, 0 },
    { NULL, "--chat-template-kwargs", "JSON", "variables of the chat's template, such as {\"enable_thinking\": false}",
      TEXT, WORDS, AT(template_options), 0, 0, 0 },
    { "-st", "--single-turn", NULL, "end the chat after one answer", FLAG, WORDS, AT(single_turn), 0, 0, 0 },
    { NULL, "--save", "FILE", "keep the chat in FILE: goes on with what is there, and writes it at the end",
      TEXT, WORDS | TALK, AT(save_path), 0, 0, 0 },
    { NULL, "--load", "FILE", "go on with the chat kept in FILE, which stays as it is", TEXT, WORDS | TALK, AT(load_path), 0, 0, 0 },
    { NULL, "--history", "FILE", "lines typed in earlier chats, for the keys up and Ctrl-R, and in this one",
      TEXT, WORDS | TALK, AT(history_path), 0, 0, 0 },
    { NULL, "Sampling (defaults from the model, else llama.cpp's)", NULL, NULL, FLAG, WORDS, 0, 0, 0, 0 },
    { "-s", "--seed", "N", "seed; the same text again on as many threads; -1: a new one each time (default)",
      SEED, WORDS | CHANGES, 0, 0, 0, 0 },
    { NULL, "--temp", "X", "temperature; 0: always the likeliest token (default 0.8)", REAL_GIVEN, WORDS | CHANGES, GIVEN(temp), 0, 1e6 },
    { NULL, "--top-k", "N", "only the N likeliest; 0: off (default 40)",
      INTEGER_GIVEN, WORDS | CHANGES, GIVEN(top_k), INT32_MIN, INT32_MAX },
    { NULL, "--top-p", "X", "only the likeliest that make up X; 1: off (default 0.95)", REAL_GIVEN, WORDS | CHANGES, GIVEN(top_p), 0, 1 },
    { NULL, "--min-p", "X", "only those at least X times as likely as the likeliest; 0: off (default 0.05)",
      REAL_GIVEN, WORDS | CHANGES, GIVEN(min_p), 0, 1 },
    { NULL, "--repeat-penalty", "X", "makes recent tokens less likely; 1: off (default)",
      REAL_GIVEN, WORDS | CHANGES, GIVEN(repeat_penalty), 1e-6, 1e6 },
    { NULL, "--repeat-last-n", "N", "how many tokens are recent; -1: all (default 64)",
      INTEGER_GIVEN, WORDS | CHANGES, GIVEN(repeat_last_n), -1, INT32_MAX },
    { NULL, "--presence-penalty", "X", "subtracted from tokens that occurred (default 0)",
      REAL, WORDS | CHANGES, AT(sample.presence_penalty), 0, -1e6, 1e6 },
    { NULL, "--frequency-penalty", "X", "subtracted once per occurrence (default 0)",
      REAL, WORDS | CHANGES, AT(sample.frequency_penalty), 0, -1e6, 1e6 },
    { "-l", "--logit-bias", "ID+X", "adds X to a token's logit (ID-X subtracts); may be repeated", BIAS, WORDS, 0, 0, 0, 0 },
    { NULL, "Guided text (docs/grammar.md)", NULL, NULL, FLAG, WORDS, 0, 0, 0, 0 },
    { "-G", "--grammar", "TEXT", "the text satisfies this grammar, in llama.cpp's GBNF", TEXT, OF_TEXT | WORDS, AT(grammar), 0, 0, 0 },
    { NULL, "--grammar-file", "FILE", "the same from a file", TEXT, OF_TEXT | WORDS, AT(grammar_path), 0, 0, 0 },
    { "-j", "--json-schema", "TEXT", "the text is JSON that satisfies this schema; {}: any JSON",
      TEXT, OF_TEXT | WORDS, AT(schema), 0, 0, 0 },
    { "-jf", "--json-schema-file", "FILE", "the same from a file", TEXT, OF_TEXT | WORDS, AT(schema_path), 0, 0, 0 },
    { NULL, "--choice", "TEXT", "the text is this one or another choice; may be repeated", CHOICE, OF_TEXT | WORDS, 0, 0, 0, 0 },
    { NULL, "Serving", NULL, NULL, FLAG, SERVER, 0, 0, 0, 0 },
    { NULL, "--serve", NULL, "answer HTTP requests: OpenAI's API (docs/server.md)", FLAG, SERVER, AT(serve), 0, 0, 0 },
    { NULL, "--host", "NAME", "address to listen at (default 127.0.0.1); another than the loopback needs --api-key",
      TEXT, SERVER, AT(host), 0, 0, 0 },
    { NULL, "--port", "N", "port; 0: a free one (default 8080)", INTEGER, SERVER, AT(port), 0, 0, 65535 },
    { "-np", "--slots", "N", "texts at once, each with a context of -c tokens (default 4)", INTEGER, SERVER, AT(slots), 0, 1, 256 },
    { NULL, "--queue", "N", "requests that may wait for a slot; beyond them clients are told to come later (default 64)",
      INTEGER, SERVER, AT(most_waiting), 0, 0, 100000 },
    { NULL, "--api-key", "FILE", "keys that clients must have one of, a line each", TEXT, SERVER, AT(api_key_path), 0, 0, 0 },
    { NULL, "--insecure", NULL, "another address than the loopback without keys", FLAG, SERVER, AT(insecure), 0, 0, 0 },
    { NULL, "--cors", "ORIGIN", "pages of this origin may use the server from a browser; *: all", TEXT, SERVER, AT(cors), 0, 0, 0 },
    { NULL, "--max-body", "MIB", "most of a request's body (default 16)", INTEGER, SERVER, AT(max_body), 0, 1, 1024 },
    { NULL, "--drain", "S", "seconds from SIGTERM on in which /health says 503 and requests are still taken (default 1)",
      INTEGER, SERVER, AT(drain), 0, 0, 86400 },
    { NULL, "--grace", "S", "seconds for requests that run when SIGTERM comes (default 30)", INTEGER, SERVER, AT(grace), 0, 0, 86400 },
    { NULL, "Measuring", NULL, NULL, FLAG, 0, 0, 0, 0, 0 },
    { NULL, "--bench", NULL, "speed; then -p -n -d are numbers or lists of them, -r a number:", FLAG, WORDS, AT(bench), 0, 0, 0 },
    { NULL, "--bench", NULL, "speed; then -p is a number or a list of them, -r a number:", FLAG, VECTORS, AT(bench), 0, 0, 0 },
    { "-p", "--n-prompt", "N,..", "  prompt lengths (default 512)", TEXT, OF_BENCH | WORDS, AT(bench_prompt), 0, 0, 0 },
    { "-p", "--n-prompt", "N,..", "  tokens of a text (default 512)", TEXT, OF_BENCH | VECTORS, AT(bench_prompt), 0, 0, 0 },
    { "-f", "--file", "FILE", "  a text whose tokens stand in the place of random ones; -n follows it, and -p is 0 by default",
      TEXT, OF_BENCH | WORDS, AT(prompt_file), 0, 0, 0 },
    { "-n", "--n-gen", "N,..", "  tokens generated (default 128)", TEXT, OF_BENCH | WORDS, AT(bench_predict), 0, 0, 0 },
    { "-d", "--n-depth", "N,..", "  tokens already in the context (default 0)", TEXT, OF_BENCH | WORDS, AT(bench_depth), 0, 0, 0 },
    { "-r", "--repetitions", "N", "  repetitions (default 5)", INTEGER, OF_BENCH, AT(bench_repeat), 0, 1, 10000 },
    { NULL, "--min-time", "S", "  seconds that each repetition takes at least (default 0: one run)",
      REAL, OF_BENCH, AT(bench_min_time), 0, 0, 3600 },
    { NULL, "--profile", NULL, "time of every kernel, of decode and of prefill; then -p -n -d are numbers:",
      FLAG, WORDS, AT(profile), 0, 0, 0 },
    { "-p", "--n-prompt", "N", "  tokens of the prefill step (default 512, at most what a step takes); 0: none",
      INTEGER, OF_PROFILE | WORDS, AT(profile_prompt), 0, 0, INT32_MAX },
    { "-n", "--n-gen", "N", "  decode steps of each measurement (default: as many as take 2 seconds); 0: none",
      INTEGER, OF_PROFILE | WORDS, AT(profile_steps), 0, 0, 100000 },
    { NULL, "--each", "N", "  GPU: of a kernel's decode launches measure N, the others count as their mean (default 0: all)",
      INTEGER, OF_PROFILE | WORDS, AT(profile_each), 0, 0, 100000 },
    { "-d", "--n-depth", "N", "  tokens already in the context (default 0)",
      INTEGER, OF_PROFILE | WORDS, AT(profile_depth), 0, 0, INT32_MAX },
    { "-o", "--output", "FORM", "  of both: md, json or csv (default md); of --profile also html",
      TEXT, MEASURING | WORDS, AT(output_format), 0, 0, 0 },
    { "-o", "--output", "FORM", "  md, json or csv (default md)", TEXT, OF_BENCH | VECTORS, AT(output_format), 0, 0, 0 },
    { NULL, "--random-weights", NULL, "  noise in place of weights", FLAG, OF_TEXT | MEASURING, AT(random_weights), 0, 0, 0 },
    { NULL, "--perplexity", NULL, "of the text in -f FILE, -p or stdin, in pieces of -c tokens (default 512)",
      FLAG, WORDS, AT(perplexity), 0, 0, 0 },
    { NULL, "--logits", "FILE", "write logits after every prompt token, f32 [tokens][vocabulary]; text follows only with -n",
      TEXT, WORDS, AT(logits_path), 0, 0, 0 },
    { NULL, "--draft-logits", "FILE",
      "built with --spec mtp: write the drafts' logits behind every prompt token, f32 [tokens][vocabulary];\n"
      "                             of the tokens that -ub N puts into a step, all but the first count as drafts",
      TEXT, WORDS, AT(draft_logits_path), 0, 0, 0 },
    { NULL, "--rows", "FILE", "write the rows of all tokens of one text, f32 [tokens][columns], in the place of its vector",
      TEXT, OF_TEXT | VECTORS, AT(rows_path), 0, 0, 0 },
    { NULL, "Tokens", NULL, NULL, FLAG, 0, 0, 0, 0, 0 },
    { NULL, "--tokens", "IDS", "prompt as token ids, or @FILE; nothing is added", TEXT, WORDS, AT(tokens), 0, 0, 0 },
    { NULL, "--tokens", "IDS", "one text as token ids, or @FILE; nothing is added", TEXT, VECTORS, AT(tokens), 0, 0, 0 },
    { NULL, "--print-tokens", NULL, "print token ids in place of text", FLAG, WORDS, AT(print_tokens), 0, 0, 0 },
    { NULL, "--no-parse-special", NULL, "special tokens written in the prompt are plain text", FLAG, 0, AT(no_special), 0, 0, 0 },
    { NULL, "--tokenize", NULL, "print the prompt's token ids and end", FLAG, WORDS, AT(tokenize), 0, 0, 0 },
    { NULL, "--tokenize", NULL, "print the token ids of the texts in the place of vectors", FLAG, VECTORS, AT(tokenize), 0, 0, 0 },
    { NULL, "Program", NULL, NULL, FLAG, 0, 0, 0, 0, 0 },
    { "-m", "--model", "FILE", "weights from a file (forgec build --weights external)", TEXT, 0, AT(weights_path), 0, 0, 0 },
    { NULL, "--verify-weights", "MODE", "load: compare all weights with their hashes at the start; none (default)",
      TEXT, 0, AT(verify_weights), 0, 0, 0 },
    { "-t", "--threads", "N", "threads on a CPU (default: physical cores, but one a MiB of weights that a token reads)",
      INTEGER, 0, AT(n_threads), 0, 1, FORGE_MAX_THREADS },
    { NULL, "--pages", "HOW", "weights on a CPU: large (copied into large pages: read faster), file (its own: there at once, shared\n"
      "                             by processes); auto (default): large from 64 MiB on where there is room", TEXT, 0,
      AT(pages), 0, 0, 0 },
    { NULL, "--numa", "HOW", "CPUs with several nodes of memory: interleave (weights page by page over them) or replicate\n"
      "                             (a copy on each); threads stay on their node; none (default)", TEXT, 0, AT(numa), 0, 0, 0 },
    { "-ub", "--ubatch-size", "N", "prompt tokens per step; 0: prompts through the decode kernels",
      INTEGER, PIECES, AT(chunk), 0, 0, INT32_MAX },
    { NULL, "--target", "NAME", "which of the built targets runs (also FORGE_PROGRAM=NAME)", TEXT, 0, AT(target), 0, 0, 0 },
    { NULL, "--spec", "HOW", "built with --spec: ngram or mtp, as it was built: speculate (default); none: not",
      TEXT, WORDS, AT(spec), 0, 0, 0 },
    { NULL, "--devices", "N,..", "GPU: which ones, from 0, as many as the program was built for (default: the first that fit)",
      DEVICES, 0, 0, 0, 0, 0 },
    { NULL, "--no-graph", NULL, "GPU: launch kernels one by one (also FORGE_NO_GRAPH=1)", FLAG, 0, AT(no_graph), 0, 0, 0 },
    { "-q", "--quiet", NULL, "no numbers on stderr", FLAG, 0, AT(quiet), 0, 0, 0 },
    { "-v", "--verbose", NULL, "target, threads, seed, sampling on stderr", FLAG, WORDS, AT(verbose), 0, 0, 0 },
    { "-v", "--verbose", NULL, "target, threads, context on stderr", FLAG, VECTORS, AT(verbose), 0, 0, 0 },
    { NULL, "--check", NULL, "can this program run here? Driver, GPU, memory, weights undamaged", FLAG, 0, AT(check), 0, 0, 0 },
    { NULL, "--info", NULL, "what this program was built from, and how", FLAG, 0, AT(info), 0, 0, 0 },
    { NULL, "--version", NULL, "model and compiler", FLAG, 0, AT(version), 0, 0, 0 },
    { "-h", "--help", NULL, "this text", FLAG, 0, AT(help), 0, 0, 0 },
};
enum { N_OPTIONS = sizeof table / sizeof table[0] };

/* Spellings llama-cli also takes. */
static const char *const aliases[][2] = {
    { "--n-predict", "--predict" }, { "--temperature", "--temp" }, { "--color", NULL }, { "-no-cnv", NULL },
    { "--no-conversation", NULL }, { "--log-disable", NULL }, { "--no-display-prompt", NULL }, { "--no-warmup", NULL },
    { "--simple-io", NULL },
};

/* What llama.cpp's programs have and these need not: all layers are where the program was built to run, weights are mapped as they lie. */
enum value { NO_VALUE, ONE_VALUE, MAYBE_VALUE };
static const struct { const char *name; enum value value; } meaningless[] = {
    { "-ngl", ONE_VALUE }, { "--gpu-layers", ONE_VALUE }, { "--n-gpu-layers", ONE_VALUE },
    { "-fa", MAYBE_VALUE }, { "--flash-attn", MAYBE_VALUE },
    { "--mlock", NO_VALUE }, { "--mmap", NO_VALUE }, { "--no-mmap", NO_VALUE }, { "-nkvo", NO_VALUE }, { "--no-kv-offload", NO_VALUE },
    { "-b", ONE_VALUE }, { "--batch-size", ONE_VALUE }, { "-tb", ONE_VALUE }, { "--threads-batch", ONE_VALUE },
};

/* on, off and the like: older versions of llama.cpp have -fa without them. */
static bool is_switch(const char *text)
{
    static const char *const words[] = { "on", "off", "auto", "true", "false", "enabled", "disabled", "0", "1", "-1" };
    for (size_t i = 0; text && i < sizeof words / sizeof words[0]; i++) if (strcmp(text, words[i]) == 0) return true;
    return false;
}

/* If argv[*i] is such a flag, it is noted and *i stands at the last argument that belongs to it. */
static bool take_meaningless(struct forge_options *o, int argc, char **argv, int *i, size_t n, bool has_value)
{
    for (size_t k = 0; k < sizeof meaningless / sizeof meaningless[0]; k++) {
        if (strlen(meaningless[k].name) != n || memcmp(meaningless[k].name, argv[*i], n) != 0) continue;
        if (o->n_ignored < MAX_IGNORED) o->ignored[o->n_ignored++] = meaningless[k].name;
        const char *next = *i + 1 < argc ? argv[*i + 1] : NULL;
        const enum value value = has_value ? NO_VALUE : meaningless[k].value;
        if ((value == ONE_VALUE && next) || (value == MAYBE_VALUE && is_switch(next))) ++*i;
        return true;
    }
    return false;
}

/* e: of the program, NULL: it generates text. */
static bool is_of_program(const struct option *o, const struct forge_embedding *e)
{
    return !(o->when & (e ? WORDS : VECTORS)) && !(o->when & PIECES && e && e->whole) && !(o->when & SERVER && !serve_run) &&
           !(o->when & TALK && !talk_open);
}

static const struct option *find_option(const char *name, size_t n, int what, const struct forge_embedding *e)
{
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++)
        if (aliases[i][1] && strlen(aliases[i][0]) == n && memcmp(aliases[i][0], name, n) == 0) {
            name = aliases[i][1];
            n = strlen(name);
            break;
        }
    for (int i = 0; i < N_OPTIONS; i++) {
        const struct option *o = &table[i];
        if (!o->help && !o->short_name) continue;         /* a heading */
        const int asked = o->when & (OF_TEXT | MEASURING);
        if ((asked && !(asked & what)) || !is_of_program(o, e)) continue;
        if ((o->short_name && strlen(o->short_name) == n && memcmp(o->short_name, name, n) == 0) ||
            (strlen(o->long_name) == n && memcmp(o->long_name, name, n) == 0))
            return o;
    }
    return NULL;
}

/* The '=' of --name=value, or NULL. */
static const char *equals_of(const char *argument) { return strncmp(argument, "--", 2) == 0 ? strchr(argument, '=') : NULL; }

/* Is --bench or --profile among the options? As the value of another one it is only a text. */
static int what_is_asked(int argc, char **argv, const struct forge_embedding *e)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--bench") == 0) return OF_BENCH;
        if (strcmp(argv[i], "--profile") == 0) return OF_PROFILE;
        const struct option *option = find_option(argv[i], strlen(argv[i]), OF_TEXT, e);
        if (!option) option = find_option(argv[i], strlen(argv[i]), MEASURING, e);
        if (option && option->kind != FLAG) i++;
    }
    return OF_TEXT;
}

static enum forge_status parse_integer(const char *name, const char *text, double low, double high, int32_t *out, struct forge_error *error)
{
    char *end;
    errno = 0;
    const long long x = strtoll(text, &end, 10);
    if (end == text || *end != 0) return error_set(error, FORGE_USAGE, "%s: '%s' is not a whole number", name, text);
    if (errno != 0 || (double)x < low || (double)x > high)
        return error_set(error, FORGE_USAGE, "%s: %s is outside %.0f .. %.0f", name, text, low, high);
    *out = (int32_t)x;
    return FORGE_OK;
}

static enum forge_status parse_real(const char *name, const char *text, double low, double high, float *out, struct forge_error *error)
{
    char *end;
    const double x = strtod(text, &end);
    if (end == text || *end != 0 || !isfinite(x)) return error_set(error, FORGE_USAGE, "%s: '%s' is not a number", name, text);
    if (x < low || x > high) return error_set(error, FORGE_USAGE, "%s: %s is outside %g .. %g", name, text, low, high);
    *out = (float)x;
    return FORGE_OK;
}

/* "15043+1.5", "2-inf" */
static enum forge_status parse_bias(struct forge_options *o, const char *text, struct forge_error *error)
{
    char *end;
    errno = 0;
    const long id = strtol(text, &end, 10);
    if (end == text || id < 0 || id > INT32_MAX || errno != 0 || (*end != '+' && *end != '-'))
        return error_set(error, FORGE_USAGE, "--logit-bias: '%s' is not ID+BIAS or ID-BIAS", text);
    const char *number = end;
    const double bias = strtod(number, &end);
    if (end == number || *end != 0 || isnan(bias)) return error_set(error, FORGE_USAGE, "--logit-bias: '%s' is not ID+BIAS or ID-BIAS",
                                                                    text);
    if (o->n_biases == MAX_BIASES) return error_set(error, FORGE_USAGE, "more than %d --logit-bias", MAX_BIASES);
    o->biases[o->n_biases++] = (struct forge_bias){ (int32_t)id, (float)bias };
    return FORGE_OK;
}

/* "0,2" */
static enum forge_status parse_devices(struct forge_options *o, const char *text, struct forge_error *error)
{
    struct forge_devices *d = &o->devices;
    const int64_t n = parse_numbers(text, strlen(text), 0, INT16_MAX, d->number, FORGE_GPU_MAX_RANKS);
    if (n == NUMBERS_TOO_MANY) return error_set(error, FORGE_USAGE, "--devices: more than %d GPUs", FORGE_GPU_MAX_RANKS);
    if (n <= 0) return error_set(error, FORGE_USAGE, "--devices: '%s' is not a list of GPUs, from 0", text);
    d->n = (uint32_t)n;
    for (uint32_t i = 0; i < d->n; i++)
        for (uint32_t k = 0; k < i; k++)
            if (d->number[k] == d->number[i]) return error_set(error, FORGE_USAGE, "--devices: GPU %d twice", d->number[i]);
    return FORGE_OK;
}

static enum forge_status set_option(struct forge_options *o, const struct option *option, const char *value, struct forge_error *error)
{
    char *base = (char *)o;
    const char *name = option->long_name;
    switch (option->kind) {
    case FLAG: *(bool *)(base + option->at) = true; return FORGE_OK;
    case TEXT: *(const char **)(base + option->at) = value; return FORGE_OK;
    case INTEGER_GIVEN: *(bool *)(base + option->given) = true; /* fallthrough */
    case INTEGER: return parse_integer(name, value, option->low, option->high, (int32_t *)(base + option->at), error);
    case REAL_GIVEN: *(bool *)(base + option->given) = true; /* fallthrough */
    case REAL: return parse_real(name, value, option->low, option->high, (float *)(base + option->at), error);
    case BIAS: return parse_bias(o, value, error);
    case DEVICES: return parse_devices(o, value, error);
    case SEED: {
        char *end;
        errno = 0;
        const long long x = strtoll(value, &end, 10);
        if (end == value || *end != 0 || errno != 0 || x < -1) return error_set(error, FORGE_USAGE, "--seed: '%s' is not a seed", value);
        o->sample.seed = (uint64_t)x;
        o->seed_given = x >= 0;
        return FORGE_OK;
    }
    case STOP:
        if (*value == 0) return error_set(error, FORGE_USAGE, "%s: empty text", name);
        if (o->n_stops == MAX_STOPS) return error_set(error, FORGE_USAGE, "more than %d %s", MAX_STOPS, name);
        o->stops[o->n_stops++] = value;
        return FORGE_OK;
    case CHOICE:
        if (*value == 0) return error_set(error, FORGE_USAGE, "%s: empty text", name);
        if (o->n_choices == MAX_CHOICES) return error_set(error, FORGE_USAGE, "more than %d %s", MAX_CHOICES, name);
        o->choices[o->n_choices++] = value;
        return FORGE_OK;
    }
    return FORGE_OK;
}

static enum forge_status choose_mode(struct forge_options *o, struct forge_error *error)
{
    if (o->help)    { o->mode = MODE_HELP; return FORGE_OK; }
    if (o->version) { o->mode = MODE_VERSION; return FORGE_OK; }
    if (o->bench + o->profile + o->perplexity + o->chat + o->serve + o->tokenize + o->check + o->info > 1)
        return error_set(error, FORGE_USAGE, "--bench, --profile, --perplexity, --serve, --tokenize, --check, --info and -i exclude each"
                         " other");
    o->mode = o->bench ? MODE_BENCH : o->profile ? MODE_PROFILE : o->perplexity ? MODE_PERPLEXITY : o->chat ? MODE_CHAT
            : o->serve ? MODE_SERVE : o->tokenize ? MODE_TOKENIZE : o->check ? MODE_CHECK : o->info ? MODE_INFO : MODE_RUN;
    if (!!o->prompt + !!o->prompt_file + !!o->tokens > 1)
        return error_set(error, FORGE_USAGE, "-p, -f and --tokens exclude each other");
    if (o->mode == MODE_CHAT && o->tokens) return error_set(error, FORGE_USAGE, "--tokens does not go with -i");
    if (o->mode == MODE_RUN && o->template_options)
        return error_set(error, FORGE_USAGE, "--chat-template-kwargs goes with -i and --serve only");
    if (o->mode == MODE_RUN && o->system) return error_set(error, FORGE_USAGE, "--system-prompt goes with -i only");
    if (o->mode != MODE_CHAT && (o->save_path || o->load_path || o->history_path))
        return error_set(error, FORGE_USAGE, "--save, --load and --history go with -i only");
    const int guides = !!o->grammar + !!o->grammar_path + !!o->schema + !!o->schema_path + (o->n_choices > 0);
    if (guides > 1) return error_set(error, FORGE_USAGE, "--grammar, --json-schema, their files and --choice exclude each other");
    if (guides > 0 && o->mode != MODE_RUN && o->mode != MODE_CHAT)
        return error_set(error, FORGE_USAGE, "grammars, schemas and choices go with a prompt and with -i only");
    if (guides > 0 && o->ignore_eos) return error_set(error, FORGE_USAGE, "--ignore-eos: a text with a grammar ends where that ends");
    if (o->random_weights && o->weights_path) return error_set(error, FORGE_USAGE, "-m and --random-weights exclude each other");
    if (*o->spec && strcmp(o->spec, "none") != 0 && strcmp(o->spec, "ngram") != 0 && strcmp(o->spec, "mtp") != 0)
        return error_set(error, FORGE_USAGE, "--spec: '%s' is not none, ngram or mtp", o->spec);
    if (strcmp(o->verify_weights, "none") != 0 && strcmp(o->verify_weights, "load") != 0)
        return error_set(error, FORGE_USAGE, "--verify-weights: '%s' is not none or load", o->verify_weights);
    if (strcmp(o->numa, "none") != 0 && strcmp(o->numa, "interleave") != 0 && strcmp(o->numa, "replicate") != 0)
        return error_set(error, FORGE_USAGE, "--numa: '%s' is not none, interleave or replicate", o->numa);
    if (strcmp(o->pages, "auto") != 0 && strcmp(o->pages, "large") != 0 && strcmp(o->pages, "file") != 0)
        return error_set(error, FORGE_USAGE, "--pages: '%s' is not auto, large or file", o->pages);
    if (o->random_weights && strcmp(o->verify_weights, "none") != 0)
        return error_set(error, FORGE_USAGE, "--verify-weights: there is nothing to verify in --random-weights");
    if (o->logits_path && o->mode != MODE_RUN) return error_set(error, FORGE_USAGE, "--logits goes with a prompt only");
    if (o->draft_logits_path && o->mode != MODE_RUN) return error_set(error, FORGE_USAGE, "--draft-logits goes with a prompt only");
    if (o->draft_logits_path && o->logits_path)
        return error_set(error, FORGE_USAGE, "--logits and --draft-logits exclude each other: steps are others");
    if (o->rows_path && o->mode != MODE_RUN) return error_set(error, FORGE_USAGE, "--rows goes with a text only");
    if (o->rows_path && !o->prompt && !o->tokens)
        return error_set(error, FORGE_USAGE, "--rows is of one text: give it with -p or --tokens");
    if (strcmp(o->embd_format, "json") != 0 && strcmp(o->embd_format, "plain") != 0 && strcmp(o->embd_format, "raw") != 0)
        return error_set(error, FORGE_USAGE, "--embd-format: '%s' is not json, plain or raw", o->embd_format);
    const bool html = o->profile && strcmp(o->output_format, "html") == 0;
    if (!html && strcmp(o->output_format, "md") != 0 && strcmp(o->output_format, "json") != 0 && strcmp(o->output_format, "csv") != 0)
        return error_set(error, FORGE_USAGE, "--output: '%s' is not md, json%s or csv", o->output_format, o->profile ? ", html" : "");
    return FORGE_OK;
}

/* An option of programs of another kind. */
static enum forge_status check_kind(const char *name, size_t n, const struct forge_embedding *e, struct forge_error *error)
{
    static const struct forge_embedding any = { 0, 0 };
    for (int i = 0; i < N_OPTIONS; i++) {                 /* of what the program was linked without */
        const struct option *o = &table[i];
        if (!(o->when & (SERVER | TALK)) || is_of_program(o, e) || strlen(o->long_name) != n) continue;
        if (memcmp(o->long_name, name, n) != 0) continue;
        if (o->when & TALK) return error_set(error, FORGE_USAGE, "%s: this program has no chat template", o->long_name);
        return error_set(error, FORGE_USAGE, "%s: this program has no server; forgec build --server makes one that has", o->long_name);
    }
    const struct option *o = find_option(name, n, OF_TEXT | MEASURING, e ? NULL : &any);
    if (!o || is_of_program(o, e)) return FORGE_OK;
    if (o->when & PIECES)
        return error_set(error, FORGE_USAGE, "%s: every token of this model sees the whole text, which is one step", name);
    if (!e) return error_set(error, FORGE_USAGE, "%s: this program generates text, it gives no vectors (--help lists all)", name);
    return error_set(error, FORGE_USAGE, "%s: not for a program that gives vectors of texts (--help lists what is)", name);
}

enum forge_status options_parse(struct forge_options *o, int argc, char **argv, const struct forge_embedding *e, struct forge_error *error)
{
    memset(o, 0, sizeof *o);
    o->n_predict = INT32_MIN;
    o->chunk = -1;
    o->bench_repeat = 5;
    o->output_format = "md";
    o->embd_format = "json";
    o->verify_weights = o->numa = "none";
    o->pages = "auto";
    o->spec = "";
    o->host = "127.0.0.1";
    o->port = 8080;
    o->slots = 4;
    o->most_waiting = 64;
    o->max_body = 16;
    o->drain = 1;
    o->grace = 30;
    o->profile_prompt = o->profile_steps = o->profile_depth = -1;
    const int what = what_is_asked(argc, argv, e);
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i], *equals = equals_of(name);
        const size_t n = equals ? (size_t)(equals - name) : strlen(name);
        bool ignored = false;
        for (size_t k = 0; k < sizeof aliases / sizeof aliases[0]; k++) ignored |= !aliases[k][1] && strcmp(aliases[k][0], name) == 0;
        if (ignored || take_meaningless(o, argc, argv, &i, n, equals)) continue;
        const struct option *option = find_option(name, n, what, e);
        if (!option) {
            TRY(check_kind(name, n, e, error));
            if (name[0] == '-') return error_set(error, FORGE_USAGE, "unknown option %s%s (--help lists all)", name,
                                            what != OF_TEXT || !find_option(name, n, MEASURING, e) ? "" : " without --bench");
            return error_set(error, FORGE_USAGE, "unexpected argument '%s' (a prompt goes after -p; --help lists all)", name);
        }
        if (option->kind == FLAG) {
            if (equals) return error_set(error, FORGE_USAGE, "%s takes no value", option->long_name);
            TRY(set_option(o, option, NULL, error));
            continue;
        }
        const char *value = equals ? equals + 1 : i + 1 < argc ? argv[++i] : NULL;
        if (!value) return error_set(error, FORGE_USAGE, "%s needs a value (%s)", name, option->argument);
        TRY(set_option(o, option, value, error));
    }
    return choose_mode(o, error);
}

/* NULL: none that changes in a chat. */
static const struct option *find_change(const char *name)
{
    char dashed[40];
    const int n = snprintf(dashed, sizeof dashed, "--%s", name);
    const struct option *o = n < (int)sizeof dashed ? find_option(dashed, (size_t)n, OF_TEXT, NULL) : NULL;
    return o && o->when & CHANGES ? o : NULL;
}

bool options_can_change(const char *name) { return find_change(name) != NULL; }

enum forge_status options_change(struct forge_options *o, const char *name, const char *value, struct forge_error *error)
{
    const struct option *option = find_change(name);
    return option ? set_option(o, option, value, error) : error_set(error, FORGE_USAGE, "%s: nothing of that name can be set", name);
}

void options_list_changes(FILE *out, const struct forge_options *options)
{
    for (int i = 0; i < N_OPTIONS; i++) {
        const struct option *o = &table[i];
        const char *value = (const char *)options + o->at;
        if (!(o->when & CHANGES)) continue;
        fprintf(out, "  %-18s", o->long_name + 2);
        if (o->kind == SEED) fprintf(out, "%-10llu", (unsigned long long)options->sample.seed);
        else if (o->kind == REAL || o->kind == REAL_GIVEN) fprintf(out, "%-10g", (double)*(const float *)(const void *)value);
        else fprintf(out, "%-10d", *(const int32_t *)(const void *)value);
        fprintf(out, " %s\n", o->help);
    }
}

void options_sampling_defaults(struct forge_options *o, const struct forge_sampling *m)
{
    struct forge_sample_options *s = &o->sample;
    if (!o->temp_given) s->temp = m->temp >= 0 ? m->temp : 0.8f;
    if (!o->top_k_given) s->top_k = m->top_k >= 0 ? m->top_k : 40;
    if (!o->top_p_given) s->top_p = m->top_p >= 0 ? m->top_p : 0.95f;
    if (!o->min_p_given) s->min_p = m->min_p >= 0 ? m->min_p : 0.05f;
    if (!o->repeat_penalty_given) s->repeat_penalty = m->repeat_penalty > 0 ? m->repeat_penalty : 1.0f;
    if (!o->repeat_last_n_given) s->repeat_last_n = m->repeat_last_n >= 0 ? m->repeat_last_n : 64;
}

void options_help(FILE *out, const char *program_name, const struct forge_embedding *e)
{
    fprintf(out, "usage: %s [options]\n%s\n", program_name, e ? "Prints the vectors (embeddings) of texts. Only these go to stdout."
                                                              : "Continues the prompt. Only the model's text goes to stdout.");
    for (int i = 0; i < N_OPTIONS; i++) {
        const struct option *o = &table[i];
        if (!is_of_program(o, e)) continue;
        if (!o->help && !o->short_name) {
            fprintf(out, "\n%s\n", o->long_name);
        } else if (o->help) {
            char left[64];
            snprintf(left, sizeof left, "  %s%s%s %s", o->short_name ? o->short_name : "", o->short_name ? ", " : "",
                     o->long_name, o->argument ? o->argument : "");
            fprintf(out, "%-28s %s\n", left, o->help);
        }
    }
    fprintf(out, "\nExit codes\n");
#define STATUS(name, code, text) fprintf(out, "  %3d  %s\n", code, text);
#include "runtime/run/status.def"
#undef STATUS
}

int64_t parse_numbers(const char *text, size_t n, int64_t low, int64_t high, int32_t *out, size_t capacity)
{
    size_t count = 0, i = 0;
    for (;;) {
        while (i < n && (text[i] == ',' || text[i] == ' ' || (text[i] >= '\t' && text[i] <= '\r'))) i++;
        if (i == n) return (int64_t)count;
        int64_t x = 0;
        const size_t start = i;
        for (; i < n && text[i] >= '0' && text[i] <= '9'; i++) {
            x = x * 10 + (text[i] - '0');
            if (x > high) return NUMBERS_WRONG - (int64_t)start;
        }
        if (i == start || x < low) return NUMBERS_WRONG - (int64_t)start;
        if (i < n && text[i] != ',' && text[i] != ' ' && !(text[i] >= '\t' && text[i] <= '\r')) return NUMBERS_WRONG - (int64_t)start;
        if (count == capacity) return NUMBERS_TOO_MANY;
        out[count++] = (int32_t)x;
    }
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

size_t unescape(char *text)
{
    char *to = text;
    for (const char *from = text; *from != 0;) {
        if (*from != '\\' || from[1] == 0) { *to++ = *from++; continue; }
        const char c = from[1];
        from += 2;
        switch (c) {
        case 'n': *to++ = '\n'; break;
        case 't': *to++ = '\t'; break;
        case 'r': *to++ = '\r'; break;
        case '0': *to++ = 0; break;
        case '\\': case '"': case '\'': *to++ = c; break;
        case 'x':
            if (hex_digit(from[0]) >= 0 && hex_digit(from[1]) >= 0) {
                *to++ = (char)(hex_digit(from[0]) * 16 + hex_digit(from[1]));
                from += 2;
                break;
            }
            /* fallthrough */
        default: *to++ = '\\'; *to++ = c;
        }
    }
    *to = 0;
    return (size_t)(to - text);
}
