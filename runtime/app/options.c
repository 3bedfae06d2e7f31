/* options.c -- the command line: one table of options, its help, and llama.cpp's names for the same options. */
#include "options.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device/threads.h"

enum kind { FLAG, TEXT, INTEGER, REAL, SEED, STOP, CHOICE, ORIGIN, BIAS, DEVICES, REAL_GIVEN, INTEGER_GIVEN };

/* When an option exists.  The first three decide the meaning of -p -n -d -r -o.  Then: programs that generate text, or that compute
 * vectors of texts; models that can process a text in pieces; programs with a server; programs with a chat template.  CHANGES: can also
 * be changed between the turns of a chat. */
enum { OF_TEXT = 1, OF_BENCH = 2, OF_PROFILE = 4, MEASURING = OF_BENCH | OF_PROFILE, WORDS = 8, VECTORS = 16, PIECES = 32, SERVER = 64,
       TALK = 128, CHANGES = 256 };

struct option {
    const char *short_name, *long_name, *argument, *help;
    enum kind kind;
    int  when;                   /* a set; without any of the first three, or of the others: always */
    size_t at, given;            /* offsets in struct forge_options */
    double low, high;
};

#define AT(field) offsetof(struct forge_options, field)
#define GIVEN(field) AT(sample.field), AT(field##_given)
static const struct option table[] = {
    { NULL, "Text", NULL, NULL, FLAG, 0, 0, 0, 0, 0 },
    { "-p", "--prompt", "TEXT", "prompt, or the first turn of a chat; without -p and -f a prompt is read from stdin, unless that is\n"
      "                             a terminal",
      TEXT, OF_TEXT | WORDS, AT(prompt), 0, 0, 0 },
    { "-f", "--file", "FILE", "the same from a file (one newline at its end is dropped)",
      TEXT, OF_TEXT | OF_PROFILE | WORDS, AT(prompt_file), 0, 0, 0 },
    { "-p", "--prompt", "TEXT", "one text; without -p and -f texts are read from stdin, one a line, unless that is a terminal",
      TEXT, OF_TEXT | VECTORS, AT(prompt), 0, 0, 0 },
    { "-f", "--file", "FILE", "texts from a file, one a line; -: from stdin", TEXT, VECTORS, AT(prompt_file), 0, 0, 0 },
    { NULL, "--embd-format", "FORM", "json: an array a line (default); plain: numbers a line; raw: f32 [texts][columns]",
      TEXT, VECTORS, AT(embd_format), 0, 0, 0 },
    { NULL, "--no-normalize", NULL, "leave vectors as the model gives them; default: length 1", FLAG, VECTORS, AT(no_normalize), 0, 0, 0 },
    { NULL, "--truncate", NULL, "use the beginning of texts longer than the context; default: such a text is an error",
      FLAG, VECTORS, AT(truncate), 0, 0, 0 },
    { "-n", "--predict", "N", "tokens to generate; -1: until the end of the text or the context (default)",
      INTEGER, OF_TEXT | WORDS | CHANGES, AT(n_predict), 0, -1, INT32_MAX },
    { "-c", "--ctx-size", "N", "context length; 0: the length that the program was built for, which is the longest (default)",
      INTEGER, 0, AT(n_ctx), 0, 0, INT32_MAX },
    { "-e", "--escape", NULL, "treat \\n, \\t, \\xHH ... in -p, -r and -sys as escapes", FLAG, WORDS, AT(escape), 0, 0, 0 },
    { "-e", "--escape", NULL, "treat \\n, \\t, \\xHH ... in -p as escapes", FLAG, VECTORS, AT(escape), 0, 0, 0 },
    { "-r", "--reverse-prompt", "TEXT", "stop after this text; may be repeated", STOP, OF_TEXT | WORDS, 0, 0, 0, 0 },
    { NULL, "--ignore-eos", NULL, "never end the text", FLAG, WORDS, AT(ignore_eos), 0, 0, 0 },
    { NULL, "--no-bos", NULL, "no beginning-of-text token before the prompt", FLAG, WORDS, AT(no_bos), 0, 0, 0 },
    { NULL, "--no-bos", NULL, "omit the tokens that the model wants before and after a text", FLAG, VECTORS, AT(no_bos), 0, 0, 0 },
    { NULL, "--echo", NULL, "print the prompt before the text", FLAG, WORDS, AT(echo), 0, 0, 0 },
    { "-i", "--interactive", NULL, "chat, one line of stdin a turn (-cnv is the same); the default with a chat template",
      FLAG, WORDS, AT(chat), 0, 0, 0 },
    { "-cnv", "--conversation", NULL, NULL, FLAG, WORDS, AT(chat), 0, 0, 0 },
    { "-no-cnv", "--no-conversation", NULL, "no chat: continue the prompt as a text; the default without a chat template",
      FLAG, WORDS, AT(no_chat), 0, 0, 0 },
    { "-sys", "--system-prompt", "TEXT", "system message of the chat", TEXT, WORDS, AT(system), 0, 0, 0 },
    { NULL, "--chat-template-kwargs", "JSON", "variables of the chat's template, such as {\"enable_thinking\": false}",
      TEXT, WORDS, AT(template_options), 0, 0, 0 },
    { "-st", "--single-turn", NULL, "end the chat after one answer", FLAG, WORDS, AT(single_turn), 0, 0, 0 },
    { NULL, "--save", "FILE", "save the chat in FILE at the end; if FILE exists, continue its chat",
      TEXT, WORDS | TALK, AT(save_path), 0, 0, 0 },
    { NULL, "--load", "FILE", "continue the chat saved in FILE, which does not change", TEXT, WORDS | TALK, AT(load_path), 0, 0, 0 },
    { NULL, "--history", "FILE", "file of lines typed in earlier chats, for the keys up and Ctrl-R; this chat is added",
      TEXT, WORDS | TALK, AT(history_path), 0, 0, 0 },
    { NULL, "Sampling (defaults from the model, else llama.cpp's)", NULL, NULL, FLAG, WORDS, 0, 0, 0, 0 },
    { "-s", "--seed", "N", "seed; the same seed and number of threads give the same text; -1: random (default)",
      SEED, WORDS | CHANGES, 0, 0, 0, 0 },
    { NULL, "--temp", "X", "temperature; 0: always the most probable token (default 0.8)",
      REAL_GIVEN, WORDS | CHANGES, GIVEN(temp), 0, 1e6 },
    { NULL, "--top-k", "N", "only the N most probable tokens; 0: off (default 40)",
      INTEGER_GIVEN, WORDS | CHANGES, GIVEN(top_k), INT32_MIN, INT32_MAX },
    { NULL, "--top-p", "X", "only the most probable tokens that add up to X; 1: off (default 0.95)",
      REAL_GIVEN, WORDS | CHANGES, GIVEN(top_p), 0, 1 },
    { NULL, "--min-p", "X", "only tokens at least X times as probable as the most probable; 0: off (default 0.05)",
      REAL_GIVEN, WORDS | CHANGES, GIVEN(min_p), 0, 1 },
    { NULL, "--repeat-penalty", "X", "make recent tokens less probable; 1: off (default)",
      REAL_GIVEN, WORDS | CHANGES, GIVEN(repeat_penalty), 1e-6, 1e6 },
    { NULL, "--repeat-last-n", "N", "number of recent tokens; -1: all (default 64)",
      INTEGER_GIVEN, WORDS | CHANGES, GIVEN(repeat_last_n), -1, INT32_MAX },
    { NULL, "--presence-penalty", "X", "subtract X from tokens that have occurred (default 0)",
      REAL, WORDS | CHANGES, AT(sample.presence_penalty), 0, -1e6, 1e6 },
    { NULL, "--frequency-penalty", "X", "subtract X for each occurrence of a token (default 0)",
      REAL, WORDS | CHANGES, AT(sample.frequency_penalty), 0, -1e6, 1e6 },
    { "-l", "--logit-bias", "ID+X", "add X to a token's logit (ID-X subtracts); may be repeated", BIAS, WORDS, 0, 0, 0, 0 },
    { NULL, "Guided text (docs/grammar.md)", NULL, NULL, FLAG, WORDS, 0, 0, 0, 0 },
    { "-G", "--grammar", "TEXT", "text that satisfies this grammar, in llama.cpp's GBNF", TEXT, OF_TEXT | WORDS, AT(grammar), 0, 0, 0 },
    { NULL, "--grammar-file", "FILE", "the same from a file", TEXT, OF_TEXT | WORDS, AT(grammar_path), 0, 0, 0 },
    { "-j", "--json-schema", "TEXT", "JSON text that satisfies this schema; {}: any JSON",
      TEXT, OF_TEXT | WORDS, AT(schema), 0, 0, 0 },
    { "-jf", "--json-schema-file", "FILE", "the same from a file", TEXT, OF_TEXT | WORDS, AT(schema_path), 0, 0, 0 },
    { NULL, "--choice", "TEXT", "one of the texts to choose from; may be repeated", CHOICE, OF_TEXT | WORDS, 0, 0, 0, 0 },
    { NULL, "Serving", NULL, NULL, FLAG, SERVER, 0, 0, 0, 0 },
    { NULL, "--serve", NULL, "answer HTTP requests: OpenAI's API (docs/server.md)", FLAG, SERVER, AT(serve), 0, 0, 0 },
    { NULL, "--host", "NAME", "address to listen on (default 127.0.0.1); any address but loopback needs --api-key; unix:PATH: a socket",
      TEXT, SERVER, AT(host), 0, 0, 0 },
    { NULL, "--port", "N", "port; 0: any free port (default 8080)", INTEGER, SERVER, AT(port), 0, 0, 65535 },
    { "-np", "--parallel", "N", "sequences at once, each with a context of -c tokens (default 4)", INTEGER, SERVER, AT(slots), 0, 1, 256 },
    { NULL, "--queue", "N", "requests that may wait for a slot; further requests get status 429 (default 64)",
      INTEGER, SERVER, AT(most_waiting), 0, 0, 100000 },
    { NULL, "--api-key", "FILE", "file of keys, one a line; clients must send a key", TEXT, SERVER, AT(api_key_path), 0, 0, 0 },
    { NULL, "--insecure", NULL, "permit an address other than loopback without keys", FLAG, SERVER, AT(insecure), 0, 0, 0 },
    { NULL, "--cors", "ORIGIN", "let web pages of this origin use the server; *: all; may be repeated", ORIGIN, SERVER, 0, 0, 0, 0 },
    { "-a", "--alias", "NAME", "name of the model in answers (default: the name in the model's file)", TEXT, SERVER, AT(alias), 0, 0, 0 },
    { NULL, "--max-body", "MIB", "largest body of a request (default 16)", INTEGER, SERVER, AT(max_body), 0, 1, 1024 },
    { NULL, "--timeout", "S", "seconds for a request's head, for each 32 KiB of its body, and without a request (default 30)",
      INTEGER, SERVER, AT(patience), 0, 1, 86400 },
    { NULL, "--sse-ping-interval", "S", "seconds after which a silent stream gets a ping; 0: never (default 15)",
      INTEGER, SERVER, AT(ping), 0, 0, 86400 },
    { NULL, "--drain", "S", "seconds after SIGTERM during which /health says 503 and requests are accepted (default 1)",
      INTEGER, SERVER, AT(drain), 0, 0, 86400 },
    { NULL, "--grace", "S", "seconds that running requests then have to finish (default 30)", INTEGER, SERVER, AT(grace), 0, 0, 86400 },
    { NULL, "Measuring", NULL, NULL, FLAG, 0, 0, 0, 0, 0 },
    { NULL, "--bench", NULL, "measure speed; -p, -n and -d then take a number or a list, -r a number:", FLAG, WORDS, AT(bench), 0, 0, 0 },
    { NULL, "--bench", NULL, "measure speed; -p then takes a number or a list, -r a number:", FLAG, VECTORS, AT(bench), 0, 0, 0 },
    { "-p", "--n-prompt", "N,..", "  prompt lengths (default 512)", TEXT, OF_BENCH | WORDS, AT(bench_prompt), 0, 0, 0 },
    { "-p", "--n-prompt", "N,..", "  tokens of a text (default 512)", TEXT, OF_BENCH | VECTORS, AT(bench_prompt), 0, 0, 0 },
    { "-f", "--file", "FILE", "  a text to use instead of random tokens; generation follows it, and -p is 0 by default",
      TEXT, OF_BENCH | WORDS, AT(prompt_file), 0, 0, 0 },
    { "-n", "--n-gen", "N,..", "  tokens generated (default 128)", TEXT, OF_BENCH | WORDS, AT(bench_predict), 0, 0, 0 },
    { "-d", "--n-depth", "N,..", "  tokens already in the context (default 0)", TEXT, OF_BENCH | WORDS, AT(bench_depth), 0, 0, 0 },
    { "-r", "--repetitions", "N", "  repetitions (default 5)", INTEGER, OF_BENCH, AT(bench_repeat), 0, 1, 10000 },
    { NULL, "--min-time", "S", "  repeat the run within a repetition for at least S seconds (default 0: one run)",
      REAL, OF_BENCH, AT(bench_min_time), 0, 0, 3600 },
    { NULL, "--profile", NULL, "time every kernel of decode and prefill; -p, -n and -d then take a number:",
      FLAG, WORDS, AT(profile), 0, 0, 0 },
    { "-p", "--n-prompt", "N", "  tokens of the prefill step (default 512, limited to a step); 0: none",
      INTEGER, OF_PROFILE | WORDS, AT(profile_prompt), 0, 0, INT32_MAX },
    { "-n", "--n-gen", "N", "  decode steps of each measurement (default: for --min-time); 0: none",
      INTEGER, OF_PROFILE | WORDS, AT(profile_steps), 0, 0, 100000 },
    { NULL, "--min-time", "S", "  seconds of each measurement without -n (default 2)",
      REAL, OF_PROFILE | WORDS, AT(profile_seconds), 0, 0, 3600 },
    { NULL, "--each", "N", "  GPU: measure only N decode launches of each kernel and use their mean for all (default 0: all)",
      INTEGER, OF_PROFILE | WORDS, AT(profile_each), 0, 0, 100000 },
    { "-d", "--n-depth", "N", "  tokens already in the context (default 0)",
      INTEGER, OF_PROFILE | WORDS, AT(profile_depth), 0, 0, INT32_MAX },
    { "-o", "--output", "FORM", "  form of both: md, json or csv (default md); --profile also has html",
      TEXT, MEASURING | WORDS, AT(output_format), 0, 0, 0 },
    { "-o", "--output", "FORM", "  md, json or csv (default md)", TEXT, OF_BENCH | VECTORS, AT(output_format), 0, 0, 0 },
    { NULL, "--random-weights", NULL, "  noise in place of weights", FLAG, OF_TEXT | MEASURING, AT(random_weights), 0, 0, 0 },
    { NULL, "--perplexity", NULL, "perplexity of the text in -f FILE, -p or stdin, in pieces of -c tokens (default 512)",
      FLAG, WORDS, AT(perplexity), 0, 0, 0 },
    { NULL, "--logits", "FILE", "write logits after every prompt token, f32 [tokens][vocabulary]; generates text only with -n",
      TEXT, WORDS, AT(logits_path), 0, 0, 0 },
    { NULL, "--draft-logits", "FILE",
      "built with --spec mtp: write the draft block's logits after every prompt token, f32\n"
      "                             [tokens][vocabulary]; with -ub N all but the first token of a step count as drafts",
      TEXT, WORDS, AT(draft_logits_path), 0, 0, 0 },
    { NULL, "--trace", "FILE", "write a hash of activations and states after each kernel that reads the prompt",
      TEXT, WORDS, AT(trace_path), 0, 0, 0 },
    { NULL, "--rows", "FILE", "write the rows of all tokens of one text, f32 [tokens][columns], in place of its vector",
      TEXT, OF_TEXT | VECTORS, AT(rows_path), 0, 0, 0 },
    { NULL, "Tokens", NULL, NULL, FLAG, 0, 0, 0, 0, 0 },
    { NULL, "--tokens", "IDS", "prompt as token ids, or @FILE; no tokens are added", TEXT, WORDS, AT(tokens), 0, 0, 0 },
    { NULL, "--tokens", "IDS", "one text as token ids, or @FILE; no tokens are added", TEXT, VECTORS, AT(tokens), 0, 0, 0 },
    { NULL, "--print-tokens", NULL, "print token ids in place of text", FLAG, WORDS, AT(print_tokens), 0, 0, 0 },
    { NULL, "--no-parse-special", NULL, "treat special tokens in the prompt as plain text", FLAG, 0, AT(no_special), 0, 0, 0 },
    { NULL, "--tokenize", NULL, "print the prompt's token ids and end", FLAG, WORDS, AT(tokenize), 0, 0, 0 },
    { NULL, "--tokenize", NULL, "print the token ids of the texts in place of vectors", FLAG, VECTORS, AT(tokenize), 0, 0, 0 },
    { NULL, "Program", NULL, NULL, FLAG, 0, 0, 0, 0, 0 },
    { "-m", "--model", "FILE", "file of the weights (forgec build --weights external)", TEXT, 0, AT(weights_path), 0, 0, 0 },
    { NULL, "--verify-weights", "MODE", "load: compare all weights with their hashes at the start; none (default)",
      TEXT, 0, AT(verify_weights), 0, 0, 0 },
    { "-t", "--threads", "N", "threads on a CPU (default: physical cores, at most one per MiB of weights that a token reads)",
      INTEGER, 0, AT(n_threads), 0, 1, FORGE_MAX_THREADS },
    { NULL, "--pages", "HOW", "weights on a CPU: large (copied into large pages, which read faster), file (the file's pages,\n"
      "                             ready at once and shared by processes); auto (default): large from 64 MiB on if memory permits",
      TEXT, 0, AT(pages), 0, 0, 0 },
    { NULL, "--numa", "HOW", "CPUs with several memory nodes: interleave (spread weights over them page by page) or\n"
      "                             replicate (a copy on each node); threads stay on their node; none (default)",
      TEXT, 0, AT(numa), 0, 0, 0 },
    { "-ub", "--ubatch-size", "N", "prompt tokens per step; 0: use the decode kernels for prompts",
      INTEGER, PIECES, AT(chunk), 0, 0, INT32_MAX },
    { NULL, "--no-default", NULL, "without the options that were built in (forgec build --default)", FLAG, 0, AT(no_default), 0, 0, 0 },
    { NULL, "--target", "NAME", "target to run, if several were built (also FORGE_PROGRAM=NAME)", TEXT, 0, AT(target), 0, 0, 0 },
    { NULL, "--spec", "HOW", "if built with --spec: ngram or mtp (as built; the default), or none: do not speculate",
      TEXT, WORDS, AT(spec), 0, 0, 0 },
    { NULL, "--devices", "N,..", "GPU: numbers of the GPUs, from 0, as many as the program needs (default: the first that fit)",
      DEVICES, 0, 0, 0, 0, 0 },
    { NULL, "--no-graph", NULL, "GPU: launch kernels one by one (also FORGE_NO_GRAPH=1)", FLAG, 0, AT(no_graph), 0, 0, 0 },
    { NULL, "--graph", NULL, "GPU: use graphs even if the driver is known to replay them wrongly", FLAG, 0, AT(graph), 0, 0, 0 },
    { "-q", "--quiet", NULL, "no numbers on stderr", FLAG, 0, AT(quiet), 0, 0, 0 },
    { "-v", "--verbose", NULL, "target, threads, seed, sampling on stderr", FLAG, WORDS, AT(verbose), 0, 0, 0 },
    { "-v", "--verbose", NULL, "target, threads, context on stderr", FLAG, VECTORS, AT(verbose), 0, 0, 0 },
    { NULL, "--check", NULL, "check whether this program can run here: driver, GPU, memory, undamaged weights",
      FLAG, 0, AT(check), 0, 0, 0 },
    { NULL, "--info", NULL, "show what this program was built from, and how", FLAG, 0, AT(info), 0, 0, 0 },
    { NULL, "--version", NULL, "show model and compiler", FLAG, 0, AT(version), 0, 0, 0 },
    { "-h", "--help", NULL, "show this text", FLAG, 0, AT(help), 0, 0, 0 },
};
enum { N_OPTIONS = sizeof table / sizeof table[0] };

/* Spellings that llama.cpp's programs also accept; NULL: accepted without a word. */
static const char *const aliases[][2] = {
    { "--n-predict", "--predict" }, { "--temperature", "--temp" }, { "--slots", "--parallel" }, { "--color", NULL },
    { "--log-disable", NULL }, { "--no-display-prompt", NULL }, { "--no-warmup", NULL }, { "--simple-io", NULL },
};

/* Other options of llama.cpp's programs.  They are accepted with their values and a line that says why they have no effect, or refused:
 * an option that would change the answer is not passed over. */
enum value { NO_VALUE, ONE_VALUE, MAYBE_VALUE, REFUSED };
static const char where[] = "forgec build decides where a program computes",
                  cache[] = "forgec build --kv TYPE decides the type of the KV cache",
                  attention[] = "attention is always flash attention", mapped[] = "--pages says from where weights are read",
                  steps[] = "only -ub and -t exist", together[] = "the server computes the tokens of all its slots together",
                  shown[] = "-q and -v say what stderr shows", full[] = "a full context ends the text and is never shifted",
                  inside[] = "the model is in the program; forgec build makes a program of another model",
                  template[] = "the template is built in: forgec build --chat-template FILE",
                  draft[] = "no second model drafts; forgec build --spec ngram or mtp speculates without one";
static const struct foreign { const char *name; enum value value; const char *why; } foreign[] = {
    { "-ngl", ONE_VALUE, where }, { "--gpu-layers", ONE_VALUE, where }, { "--n-gpu-layers", ONE_VALUE, where },
    { "-nkvo", NO_VALUE, where }, { "--no-kv-offload", NO_VALUE, where }, { "-cmoe", NO_VALUE, where }, { "--cpu-moe", NO_VALUE, where },
    { "-ncmoe", ONE_VALUE, where }, { "--n-cpu-moe", ONE_VALUE, where }, { "-ot", ONE_VALUE, where },
    { "--override-tensor", ONE_VALUE, where }, { "-sm", ONE_VALUE, where }, { "--split-mode", ONE_VALUE, where },
    { "-ts", ONE_VALUE, where }, { "--tensor-split", ONE_VALUE, where }, { "-mg", ONE_VALUE, where }, { "--main-gpu", ONE_VALUE, where },
    { "-ctk", ONE_VALUE, cache }, { "--cache-type-k", ONE_VALUE, cache }, { "-ctv", ONE_VALUE, cache },
    { "--cache-type-v", ONE_VALUE, cache }, { "-fa", MAYBE_VALUE, attention }, { "--flash-attn", MAYBE_VALUE, attention },
    { "--mlock", NO_VALUE, mapped }, { "--mmap", NO_VALUE, mapped }, { "--no-mmap", NO_VALUE, mapped },
    { "-b", ONE_VALUE, steps }, { "--batch-size", ONE_VALUE, steps }, { "-tb", ONE_VALUE, steps }, { "--threads-batch", ONE_VALUE, steps },
    { "-cb", NO_VALUE, together }, { "--cont-batching", NO_VALUE, together },
    { "--jinja", NO_VALUE, "chat templates are always Jinja" }, { "--metrics", NO_VALUE, "a server always has /metrics" },
    { "--slots", NO_VALUE, "a server always has /slots; -np N is the number of slots" },
    { "--no-webui", NO_VALUE, "a server always has its page" }, { "--no-context-shift", NO_VALUE, full }, { "--keep", ONE_VALUE, full },
    { "-lv", ONE_VALUE, shown }, { "--verbosity", ONE_VALUE, shown }, { "--log-verbosity", ONE_VALUE, shown },
    { "-hf", REFUSED, inside }, { "-hfr", REFUSED, inside }, { "--hf-repo", REFUSED, inside }, { "-hff", REFUSED, inside },
    { "--hf-file", REFUSED, inside }, { "-mu", REFUSED, inside }, { "--model-url", REFUSED, inside },
    { "-md", REFUSED, draft }, { "--model-draft", REFUSED, draft }, { "-hfd", REFUSED, draft }, { "--hf-repo-draft", REFUSED, draft },
    { "--chat-template", REFUSED, template }, { "--chat-template-file", REFUSED, template },
    { "--reasoning-budget", REFUSED, "--chat-template-kwargs '{\"enable_thinking\": false}' turns thinking off if the template can" },
    { "--context-shift", REFUSED, full },
    { "--lora", REFUSED, "merge the adapter into its model before forgec build" },
    { "-mm", REFUSED, "models of images and sound are not supported" },
    { "--mmproj", REFUSED, "models of images and sound are not supported" },
};
enum { N_FOREIGN = sizeof foreign / sizeof foreign[0] };
_Static_assert((int)N_FOREIGN <= (int)MAX_IGNORED, "each of them is noted once");

/* Is it an option of llama.cpp's that is accepted without a word? */
static bool is_silent(const char *name)
{
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++) if (!aliases[i][1] && strcmp(aliases[i][0], name) == 0) return true;
    return false;
}

static bool is_word(const char *word, const char *text, size_t n) { return strlen(word) == n && memcmp(word, text, n) == 0; }

/* on, off and so on: in older versions of llama.cpp, -fa has no value. */
static bool is_switch(const char *text)
{
    static const char *const words[] = { "on", "off", "auto", "true", "false", "enabled", "disabled", "0", "1", "-1" };
    for (size_t i = 0; text && i < sizeof words / sizeof words[0]; i++) if (strcmp(text, words[i]) == 0) return true;
    return false;
}

static const struct foreign *find_foreign(const char *name, size_t n)
{
    for (int i = 0; i < N_FOREIGN; i++) if (is_word(foreign[i].name, name, n)) return &foreign[i];
    return NULL;
}

static bool is_number(const char *text) { return text && *text >= '0' && *text <= '9'; }

/* If words[*i] is an option of llama.cpp's that programs do not have, notes it and sets *i to the last word that belongs to it, or refuses
 * it. */
static enum forge_status take_foreign(struct forge_options *o, int n_words, char **words, int *i, size_t n, bool has_value, bool *taken,
                                      struct forge_error *error)
{
    const struct foreign *f = find_foreign(words[*i], n);
    const char *next = *i + 1 < n_words ? words[*i + 1] : NULL;
    *taken = f && !(strcmp(f->name, "--slots") == 0 && (has_value || is_number(next)));        /* --slots N is -np N */
    if (!*taken) return FORGE_OK;
    if (f->value == REFUSED) return error_set(error, FORGE_USAGE, "%s: %s", f->name, f->why);
    bool noted = false;
    for (size_t k = 0; k < o->n_ignored; k++) noted |= o->ignored[k].name == f->name;
    if (!noted) o->ignored[o->n_ignored++] = (struct forge_ignored){ f->name, f->why };
    const enum value value = has_value ? NO_VALUE : f->value;
    if ((value == ONE_VALUE && next) || (value == MAYBE_VALUE && is_switch(next))) ++*i;
    return FORGE_OK;
}

static bool is_of_program(const struct option *o, const struct options_scope *p)
{
    return !(o->when & (p->embedding ? WORDS : VECTORS)) && !(o->when & PIECES && p->embedding && p->embedding->whole) &&
           !(o->when & SERVER && !p->server) && !(o->when & TALK && !p->talks);
}

/* Replaces another spelling of an option's name. */
static void resolve_alias(const char **name, size_t *n)
{
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++)
        if (aliases[i][1] && is_word(aliases[i][0], *name, *n)) {
            *name = aliases[i][1];
            *n = strlen(*name);
            return;
        }
}

static const struct option *find_option(const char *name, size_t n, int what, const struct options_scope *p)
{
    resolve_alias(&name, &n);
    for (int i = 0; i < N_OPTIONS; i++) {
        const struct option *o = &table[i];
        if (!o->help && !o->short_name) continue;         /* a heading */
        const int asked = o->when & (OF_TEXT | MEASURING);
        if ((asked && !(asked & what)) || !is_of_program(o, p)) continue;
        if ((o->short_name && is_word(o->short_name, name, n)) || is_word(o->long_name, name, n)) return o;
    }
    return NULL;
}

/* The '=' of --name=value, or NULL. */
static const char *equals_of(const char *argument) { return strncmp(argument, "--", 2) == 0 ? strchr(argument, '=') : NULL; }

/* Is --bench or --profile among the options?  As the value of another option it is only text. */
static int what_is_asked(int n_words, char **words, const struct options_scope *p)
{
    for (int i = 0; i < n_words; i++) {
        if (strcmp(words[i], "--bench") == 0) return OF_BENCH;
        if (strcmp(words[i], "--profile") == 0) return OF_PROFILE;
        const struct option *option = find_option(words[i], strlen(words[i]), OF_TEXT, p);
        if (!option) option = find_option(words[i], strlen(words[i]), MEASURING, p);
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

/* Parses "15043+1.5" or "2-inf". */
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
    if (o->n_biases == MAX_BIASES) return error_set(error, FORGE_USAGE, "--logit-bias is given more than %d times", MAX_BIASES);
    o->biases[o->n_biases++] = (struct forge_bias){ (int32_t)id, (float)bias };
    return FORGE_OK;
}

/* Parses "0,2". */
static enum forge_status parse_devices(struct forge_options *o, const char *text, struct forge_error *error)
{
    struct forge_devices *d = &o->devices;
    const int64_t n = parse_numbers(text, strlen(text), 0, INT16_MAX, d->number, FORGE_GPU_MAX_RANKS);
    if (n == NUMBERS_TOO_MANY) return error_set(error, FORGE_USAGE, "--devices: the list has more than %d GPUs", FORGE_GPU_MAX_RANKS);
    if (n <= 0) return error_set(error, FORGE_USAGE, "--devices: '%s' is not a list of GPUs, from 0", text);
    d->n = (uint32_t)n;
    for (uint32_t i = 0; i < d->n; i++)
        for (uint32_t k = 0; k < i; k++)
            if (d->number[k] == d->number[i]) return error_set(error, FORGE_USAGE, "--devices: GPU %d is given twice", d->number[i]);
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
        if (end == value || *end != 0 || errno != 0 || x < -1)
            return error_set(error, FORGE_USAGE, "--seed: '%s' is not a whole number from -1 to 2^63 - 1", value);
        o->sample.seed = (uint64_t)x;
        o->seed_given = x >= 0;
        return FORGE_OK;
    }
    case STOP:
        if (*value == 0) return error_set(error, FORGE_USAGE, "%s: empty text", name);
        if (o->n_stops == MAX_STOPS) return error_set(error, FORGE_USAGE, "more than %d %s", MAX_STOPS, name);
        o->stops[o->n_stops++] = value;
        return FORGE_OK;
    case ORIGIN:
        if (*value == 0) return error_set(error, FORGE_USAGE, "%s: empty text", name);
        if (o->n_cors == MAX_LIST) return error_set(error, FORGE_USAGE, "more than %d %s", MAX_LIST, name);
        o->cors[o->n_cors++] = value;
        return FORGE_OK;
    case CHOICE:
        if (*value == 0) return error_set(error, FORGE_USAGE, "%s: empty text", name);
        if (o->n_choices == MAX_CHOICES) return error_set(error, FORGE_USAGE, "more than %d %s", MAX_CHOICES, name);
        o->choices[o->n_choices++] = value;
        return FORGE_OK;
    }
    return FORGE_OK;
}

/* Options of a prompt that is continued: with one of them there is no chat, unless -i asks for it. */
static bool is_plain(const struct forge_options *o)
{
    return o->no_chat || o->tokens || o->print_tokens || o->logits_path || o->draft_logits_path || o->trace_path || o->echo ||
           o->no_bos || o->no_special;
}

static bool is_of_plain(const struct option *o)
{
    static const size_t of_plain[] = { AT(no_chat), AT(tokens), AT(print_tokens), AT(echo), AT(no_bos), AT(no_special) };
    for (size_t i = 0; i < sizeof of_plain / sizeof of_plain[0]; i++) if (of_plain[i] == o->at) return true;
    return false;
}

static enum forge_status choose_mode(struct forge_options *o, const struct options_scope *p, struct forge_error *error)
{
    if (o->help)    { o->mode = MODE_HELP; return FORGE_OK; }
    if (o->version) { o->mode = MODE_VERSION; return FORGE_OK; }
    if (o->bench + o->profile + o->perplexity + o->chat + o->serve + o->tokenize + o->check + o->info > 1)
        return error_set(error, FORGE_USAGE, "only one of --bench, --profile, --perplexity, --serve, --tokenize, --check, --info "
                         "and -i can be given");
    if (o->chat && o->no_chat) return error_set(error, FORGE_USAGE, "-i cannot be combined with -no-cnv");
    o->mode = o->bench ? MODE_BENCH : o->profile ? MODE_PROFILE : o->perplexity ? MODE_PERPLEXITY : o->chat ? MODE_CHAT
            : o->serve ? MODE_SERVE : o->tokenize ? MODE_TOKENIZE : o->check ? MODE_CHECK : o->info ? MODE_INFO
            : p->converses && !is_plain(o) ? MODE_CHAT : MODE_RUN;
    if (!!o->prompt + !!o->prompt_file + !!o->tokens > 1)
        return error_set(error, FORGE_USAGE, "only one of -p, -f and --tokens can be given");
    if (o->mode == MODE_CHAT && o->tokens) return error_set(error, FORGE_USAGE, "--tokens cannot be combined with -i");
    if (o->mode == MODE_RUN && o->template_options)
        return error_set(error, FORGE_USAGE, "--chat-template-kwargs can only be used in a chat (-i) or with --serve");
    if (o->mode == MODE_RUN && o->system) return error_set(error, FORGE_USAGE, "--system-prompt can only be used in a chat (-i)");
    if (o->mode != MODE_CHAT && (o->save_path || o->load_path || o->history_path))
        return error_set(error, FORGE_USAGE, "--save, --load and --history can only be used in a chat (-i)");
    if (o->devices.n > 0 && !p->gpu) return error_set(error, FORGE_USAGE, "--devices: this program was not built for a GPU");
    if (o->no_graph && !p->gpu) return error_set(error, FORGE_USAGE, "--no-graph: this program was not built for a GPU");
    if (o->graph && !p->gpu) return error_set(error, FORGE_USAGE, "--graph: this program was not built for a GPU");
    if (o->graph && o->no_graph) return error_set(error, FORGE_USAGE, "--graph cannot be combined with --no-graph");
    if (o->profile_each > 0 && !p->gpu) return error_set(error, FORGE_USAGE, "--each: this program was not built for a GPU");
    if (strcmp(o->numa, "none") != 0 && !p->cpu) return error_set(error, FORGE_USAGE, "--numa: this program was not built for a CPU");
    if (strcmp(o->pages, "auto") != 0 && !p->cpu) return error_set(error, FORGE_USAGE, "--pages: this program was not built for a CPU");
    const int guides = !!o->grammar + !!o->grammar_path + !!o->schema + !!o->schema_path + (o->n_choices > 0);
    if (guides > 1) return error_set(error, FORGE_USAGE, "only one of --grammar, --json-schema, their files and --choice can be given");
    if (guides > 0 && o->mode != MODE_RUN && o->mode != MODE_CHAT)
        return error_set(error, FORGE_USAGE, "grammars, schemas and choices can only be used with a prompt or with -i");
    if (guides > 0 && o->ignore_eos)
        return error_set(error, FORGE_USAGE, "--ignore-eos cannot be combined with a grammar, which decides where the text ends");
    if (o->random_weights && o->weights_path) return error_set(error, FORGE_USAGE, "-m cannot be combined with --random-weights");
    if (*o->spec && strcmp(o->spec, "none") != 0 && strcmp(o->spec, "ngram") != 0 && strcmp(o->spec, "mtp") != 0)
        return error_set(error, FORGE_USAGE, "--spec: '%s' is not none, ngram or mtp", o->spec);
    if (strcmp(o->verify_weights, "none") != 0 && strcmp(o->verify_weights, "load") != 0)
        return error_set(error, FORGE_USAGE, "--verify-weights: '%s' is not none or load", o->verify_weights);
    if (strcmp(o->numa, "none") != 0 && strcmp(o->numa, "interleave") != 0 && strcmp(o->numa, "replicate") != 0)
        return error_set(error, FORGE_USAGE, "--numa: '%s' is not none, interleave or replicate", o->numa);
    if (strcmp(o->pages, "auto") != 0 && strcmp(o->pages, "large") != 0 && strcmp(o->pages, "file") != 0)
        return error_set(error, FORGE_USAGE, "--pages: '%s' is not auto, large or file", o->pages);
    if (o->random_weights && strcmp(o->verify_weights, "none") != 0)
        return error_set(error, FORGE_USAGE, "--verify-weights cannot be combined with --random-weights, which have no hashes");
    if (o->logits_path && o->mode != MODE_RUN) return error_set(error, FORGE_USAGE, "--logits can only be used with a prompt");
    if (o->draft_logits_path && o->mode != MODE_RUN) return error_set(error, FORGE_USAGE, "--draft-logits can only be used with a prompt");
    if (o->draft_logits_path && o->logits_path)
        return error_set(error, FORGE_USAGE, "--logits cannot be combined with --draft-logits: the steps differ");
    if (o->trace_path && o->mode != MODE_RUN) return error_set(error, FORGE_USAGE, "--trace can only be used with a prompt");
    if (o->rows_path && o->mode != MODE_RUN) return error_set(error, FORGE_USAGE, "--rows can only be used with a text");
    if (o->rows_path && !o->prompt && !o->tokens)
        return error_set(error, FORGE_USAGE, "--rows needs a single text: give it with -p or --tokens");
    if (strcmp(o->embd_format, "json") != 0 && strcmp(o->embd_format, "plain") != 0 && strcmp(o->embd_format, "raw") != 0)
        return error_set(error, FORGE_USAGE, "--embd-format: '%s' is not json, plain or raw", o->embd_format);
    const bool html = o->profile && strcmp(o->output_format, "html") == 0;
    if (!html && strcmp(o->output_format, "md") != 0 && strcmp(o->output_format, "json") != 0 && strcmp(o->output_format, "csv") != 0)
        return error_set(error, FORGE_USAGE, "--output: '%s' is not md, json%s or csv", o->output_format, o->profile ? ", html" : "");
    return FORGE_OK;
}

/* Reports an option of another kind of program. */
static enum forge_status check_kind(const char *name, size_t n, const struct options_scope *p, struct forge_error *error)
{
    static const struct forge_embedding any = { 0, 0 };
    resolve_alias(&name, &n);
    for (int i = 0; i < N_OPTIONS; i++) {                 /* for parts with which the program was not linked */
        const struct option *o = &table[i];
        if (!(o->when & (SERVER | TALK)) || is_of_program(o, p) || !is_word(o->long_name, name, n)) continue;
        if (o->when & TALK) return error_set(error, FORGE_USAGE, "%s: this program has no chat template", o->long_name);
        return error_set(error, FORGE_USAGE, "%s: this program has no server; build it with forgec build --server", o->long_name);
    }
    struct options_scope other = *p;
    other.embedding = p->embedding ? NULL : &any;
    const struct option *o = find_option(name, n, OF_TEXT | MEASURING, &other);
    if (!o || is_of_program(o, p)) return FORGE_OK;
    if (o->when & PIECES)
        return error_set(error, FORGE_USAGE, "%s is not available: every token of this model sees the whole text, so a text is one step",
                         name);
    if (!p->embedding)
        return error_set(error, FORGE_USAGE, "%s: this program generates text and gives no vectors (--help lists all)", name);
    return error_set(error, FORGE_USAGE, "%s is not available in a program that gives vectors of texts (--help lists all)", name);
}

static size_t name_length(const char *word)
{
    const char *equals = equals_of(word);
    return equals ? (size_t)(equals - word) : strlen(word);
}

/* Sets the options that the words give. */
static enum forge_status parse_words(struct forge_options *o, int n_words, char **words, int what, const struct options_scope *p,
                                     struct forge_error *error)
{
    for (int i = 0; i < n_words; i++) {
        const char *name = words[i], *equals = equals_of(name);
        const size_t n = name_length(name);
        bool taken = is_silent(name);
        if (!taken) TRY(take_foreign(o, n_words, words, &i, n, equals, &taken, error));
        if (taken) continue;
        const struct option *option = find_option(name, n, what, p);
        if (!option) {
            TRY(check_kind(name, n, p, error));
            if (name[0] == '-') return error_set(error, FORGE_USAGE, "unknown option %s%s (--help lists all)", name,
                                            what != OF_TEXT || !find_option(name, n, MEASURING, p) ? "" : " without --bench");
            return error_set(error, FORGE_USAGE, "unexpected argument '%s' (a prompt goes after -p; --help lists all)", name);
        }
        if (option->kind == FLAG) {
            if (equals) return error_set(error, FORGE_USAGE, "%s takes no value", option->long_name);
            TRY(set_option(o, option, NULL, error));
            continue;
        }
        const char *value = equals ? equals + 1 : i + 1 < n_words ? words[++i] : NULL;
        if (!value) return error_set(error, FORGE_USAGE, "%s needs a value (%s)", name, option->argument);
        TRY(set_option(o, option, value, error));
    }
    return FORGE_OK;
}

/* ---- defaults that were built in ---- */

/* Options that replace each other. */
enum group { NO_GROUP, MODES, PROMPTS, GUIDES, GRAPHS };
static enum group group_of(const struct option *o)
{
    static const struct { size_t at; enum group group; } groups[] = {
        { AT(chat), MODES }, { AT(no_chat), MODES }, { AT(serve), MODES }, { AT(prompt), PROMPTS }, { AT(prompt_file), PROMPTS },
        { AT(tokens), PROMPTS }, { AT(grammar), GUIDES }, { AT(grammar_path), GUIDES }, { AT(schema), GUIDES }, { AT(schema_path), GUIDES },
        { AT(no_graph), GRAPHS }, { AT(graph), GRAPHS },
    };
    if (o->kind == CHOICE) return GUIDES;
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) if (groups[i].at == o->at) return groups[i].group;
    return NO_GROUP;
}

static bool is_of_chats(const struct option *o)
{
    static const size_t of_chats[] = { AT(chat), AT(system), AT(template_options), AT(single_turn), AT(save_path), AT(load_path),
                                       AT(history_path) };
    for (size_t i = 0; i < sizeof of_chats / sizeof of_chats[0]; i++) if (of_chats[i] == o->at) return true;
    return false;
}

/* Does an option of the command line replace this default? */
static bool is_replaced(const struct option *option, int n_words, char **words, const struct options_scope *p)
{
    for (int i = 0; i < n_words; i++) {
        const struct option *given = find_option(words[i], name_length(words[i]), OF_TEXT, p);
        if (!given) continue;
        const enum group group = group_of(given);
        if (given == option || (group != NO_GROUP && group == group_of(option))) return true;
        if (group == PROMPTS && option->at == AT(serve)) return true;
        if (is_of_plain(given) && is_of_chats(option)) return true;
        const bool of_text = (is_of_chats(option) && option->at != AT(template_options)) || group_of(option) == PROMPTS;
        if (given->at == AT(serve) && of_text) return true;
        if (given->kind != FLAG && !equals_of(words[i])) i++;
    }
    return false;
}

/* Appends the words of the defaults that the command line leaves in force to `kept`; returns their number. */
static int keep_defaults(char **kept, int n_defaults, char **defaults, int n_words, char **words, const struct options_scope *p)
{
    int n = 0;
    for (int i = 0; i < n_defaults; i++) {
        const struct option *option = find_option(defaults[i], name_length(defaults[i]), OF_TEXT, p);
        const bool has_value = option && option->kind != FLAG && !equals_of(defaults[i]) && i + 1 < n_defaults;
        if (option && is_replaced(option, n_words, words, p)) {
            i += has_value;
            continue;
        }
        kept[n++] = defaults[i];
        if (has_value) kept[n++] = defaults[++i];
    }
    return n;
}

/* Splits text into words as a shell does, by blanks outside '...' and "..."; a backslash keeps the next character, not in '...'.  The
 * words lie in text, which changes.  Returns their number; -1: a quote is not closed. */
static int split_words(char *text, char **words)
{
    int n = 0;
    char *to = text;
    for (const char *from = text; ; ) {
        from += strspn(from, " \t\r\n");
        if (*from == 0) return n;
        words[n++] = to;
        char quote = 0;
        for (; *from != 0 && (quote || !strchr(" \t\r\n", *from)); from++) {
            if (quote ? *from == quote : *from == '"' || *from == '\'') quote = quote ? 0 : *from;
            else if (*from == '\\' && quote != '\'' && from[1] != 0) *to++ = *++from;
            else *to++ = *from;
        }
        if (quote) return -1;
        const bool ends = *from == 0;
        if (!ends) from++;
        *to++ = 0;                                        /* never beyond `from` */
        if (ends) return n;
    }
}

/* Defaults are for texts, chats and servers: what measures or tells about the program does so without them. */
static bool takes_defaults(const struct forge_options *o)
{
    return !o->no_default && o->mode <= MODE_SERVE && !options_write_numbers(o);
}

/* Adds the defaults of the program that the command line does not replace. */
static enum forge_status parse_defaults(struct forge_options *o, int n_words, char **words, const struct options_scope *p,
                                        struct forge_error *error)
{
    const size_t n = strlen(p->defaults) + 1;
    char **split = malloc((n + 1) * sizeof *split), **kept = malloc((n + 1) * sizeof *kept);
    o->default_words = malloc(n);
    enum forge_status status = split && kept && o->default_words ? FORGE_OK : error_set(error, FORGE_NO_MEMORY, "out of memory");
    if (status == FORGE_OK) {
        memcpy(o->default_words, p->defaults, n);
        const int n_split = split_words(o->default_words, split);
        const int n_kept = n_split < 0 ? 0 : keep_defaults(kept, n_split, split, n_words, words, p);
        if (n_split < 0) status = error_set(error, FORGE_USAGE, "a quotation mark is not closed");
        else status = parse_words(o, n_kept, kept, OF_TEXT, p, error);
    }
    free(split);
    free(kept);
    return status;
}

static void options_start(struct forge_options *o)
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
    o->ping = 15;
    o->patience = 30;
    o->profile_seconds = 2;
    o->profile_prompt = o->profile_steps = o->profile_depth = -1;
}

enum forge_status options_parse(struct forge_options *o, int n_words, char **words, const struct options_scope *p,
                                struct forge_error *error)
{
    const int what = what_is_asked(n_words, words, p);
    options_start(o);
    TRY(parse_words(o, n_words, words, what, p, error));
    TRY(choose_mode(o, p, error));
    if (!p->defaults || !takes_defaults(o)) return FORGE_OK;
    options_start(o);
    TRY(parse_defaults(o, n_words, words, p, error));
    TRY(parse_words(o, n_words, words, what, p, error));
    return choose_mode(o, p, error);
}

/* NULL: there is no such option that can be changed in a chat. */
static const struct option *find_change(const char *name)
{
    char dashed[40];
    static const struct options_scope chat = { .talks = true };
    const int n = snprintf(dashed, sizeof dashed, "--%s", name);
    const struct option *o = n < (int)sizeof dashed ? find_option(dashed, (size_t)n, OF_TEXT, &chat) : NULL;
    return o && o->when & CHANGES ? o : NULL;
}

bool options_can_change(const char *name) { return find_change(name) != NULL; }

enum forge_status options_change(struct forge_options *o, const char *name, const char *value, struct forge_error *error)
{
    const struct option *option = find_change(name);
    return option ? set_option(o, option, value, error) : error_set(error, FORGE_USAGE, "%s: there is no such setting", name);
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

void options_help(FILE *out, const char *program_name, const struct options_scope *p)
{
    fprintf(out, "usage: %s [options]\n%s\n", program_name,
            p->embedding ? "Prints the vectors (embeddings) of texts. Only these go to stdout."
            : p->converses ? "Chats, or continues a prompt with -no-cnv. Only the model's text goes to stdout."
                           : "Continues the prompt. Only the model's text goes to stdout.");
    if (p->defaults) fprintf(out, "Built-in options, which those of the command line replace: %s\n", p->defaults);
    for (int i = 0; i < N_OPTIONS; i++) {
        const struct option *o = &table[i];
        if (!is_of_program(o, p)) continue;
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

bool options_write_numbers(const struct forge_options *o)
{
    return o->logits_path || o->draft_logits_path || o->trace_path || o->rows_path;
}

enum option_known options_known(const char *name, const char **why)
{
    const size_t n = name_length(name);
    static const struct options_scope all = { .server = true, .talks = true };
    static const struct forge_embedding any = { 0, 0 };
    static const struct options_scope vectors = { .embedding = &any };
    const struct foreign *f = find_foreign(name, n);
    if (f) *why = f->why;
    if (f) return f->value == REFUSED ? OPTION_REFUSED : OPTION_IGNORED;
    if (is_silent(name)) return OPTION_TAKEN;
    const int what = OF_TEXT | MEASURING;
    return find_option(name, n, what, &all) || find_option(name, n, what, &vectors) ? OPTION_TAKEN : OPTION_UNKNOWN;
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
