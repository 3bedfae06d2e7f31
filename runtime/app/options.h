/* options.h -- the command line. */
#ifndef FORGE_OPTIONS_H
#define FORGE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/device/devices.h"
#include "runtime/model/abi.h"
#include "runtime/run/sample.h"
#include "runtime/run/status.h"

enum forge_mode { MODE_RUN, MODE_CHAT, MODE_SERVE, MODE_BENCH, MODE_PROFILE, MODE_PERPLEXITY, MODE_TOKENIZE, MODE_CHECK, MODE_INFO,
                  MODE_VERSION, MODE_HELP };

enum { MAX_STOPS = 32, MAX_CHOICES = 256, MAX_BIASES = 256, MAX_LIST = 16, MAX_IGNORED = 64 };

/* An option of llama.cpp's programs that has no effect here, and why. */
struct forge_ignored { const char *name, *why; };

struct forge_options {
    enum forge_mode mode;
    bool bench, profile, perplexity, chat, no_chat, serve, tokenize, check, info, version, help;  /* as given; mode follows from them */
    bool no_default;

    const char *prompt, *prompt_file, *system, *template_options, *tokens;            /* NULL: not given; strings point into argv
                                                                                       * or default_words */
    char *default_words;              /* owned; NULL: none */
    const char *load_path, *save_path, *history_path;             /* of a chat */
    bool    escape, echo, single_turn, print_tokens, no_bos, no_special, ignore_eos, quiet, verbose;
    int32_t n_predict;                /* -1: until the end of the text or context; INT32_MIN: not given */
    int32_t n_ctx, n_threads;         /* 0: not given */
    int32_t chunk;                    /* -1: not given */
    const char *stops[MAX_STOPS];
    size_t  n_stops;
    const char *grammar, *grammar_path, *schema, *schema_path;     /* constraints for the text; at most one of these and choices */
    const char *choices[MAX_CHOICES];
    size_t  n_choices;
    struct forge_bias biases[MAX_BIASES];
    size_t  n_biases;

    struct forge_sample_options sample;
    bool    seed_given, top_k_given, temp_given, top_p_given, min_p_given, repeat_penalty_given, repeat_last_n_given;

    const char *weights_path, *verify_weights, *spec, *numa, *pages, *target, *logits_path, *draft_logits_path, *trace_path;
    struct forge_devices devices;     /* n 0: not given */
    bool    random_weights, no_graph, graph;

    struct forge_ignored ignored[MAX_IGNORED];
    size_t  n_ignored;

    const char *bench_prompt, *bench_predict, *bench_depth;        /* lists of numbers */
    int32_t bench_repeat;
    float   bench_min_time;                                        /* seconds */
    float   profile_seconds;                                       /* of each measurement, where the steps are not given */
    int32_t profile_prompt, profile_steps, profile_depth;          /* -1: not given */
    int32_t profile_each;
    const char *output_format;        /* md, json, csv; --profile: html, too */

    const char *host, *api_key_path, *alias;                       /* of the server; alias NULL: the model's name */
    const char *cors[MAX_LIST];
    size_t  n_cors;
    int32_t port, slots, most_waiting, max_body;                   /* max_body: MiB */
    int32_t grace, drain, ping, patience;                          /* seconds */
    bool    insecure;

    const char *embd_format, *rows_path;                           /* of vectors of texts: json, plain, raw */
    bool    no_normalize, truncate;
};

/* What a program is, which decides what options it has.  converses: it has a chat template for every conversation, so it chats unless it
 * is told otherwise.  talks: it has the commands of a terminal and saved chats.  defaults: options that were built in (forgec build
 * --default), as words of a shell; NULL: none. */
struct options_scope {
    const struct forge_embedding *embedding;          /* NULL: it generates text */
    bool server, talks, converses, cpu, gpu;
    const char *defaults;
};

/* The built-in options of this program; NULL: none. */
extern const char forge_defaults[] __attribute__((weak));

/* Parses the words of a command line, without the program's name, into *options.  Options of the program's defaults count where the
 * command line has none in their place, and only for texts, chats and servers.  FORGE_USAGE, with a sentence, for anything wrong.
 * options->default_words is malloc()ed for as long as the options are used. */
enum forge_status options_parse(struct forge_options *options, int n_words, char **words, const struct options_scope *scope,
                                struct forge_error *error);

/* What programs do with an option of this name, for forgec's messages.  *why: the reason if they ignore or refuse it. */
enum option_known { OPTION_UNKNOWN, OPTION_TAKEN, OPTION_IGNORED, OPTION_REFUSED };
enum option_known options_known(const char *name, const char **why);

/* Do they ask for a file of logits, rows or hashes in place of a text? */
bool options_write_numbers(const struct forge_options *options);

/* Sets options that were not given from the model's general.sampling.*, else from llama.cpp's defaults. */
void options_sampling_defaults(struct forge_options *options, const struct forge_sampling *model);

void options_help(FILE *out, const char *program_name, const struct options_scope *scope);

/* Options that can be changed between the turns of a chat, by name without dashes.  FORGE_USAGE: no such option, or no such value. */
bool options_can_change(const char *name);
enum forge_status options_change(struct forge_options *options, const char *name, const char *value, struct forge_error *error);
/* Prints these options with their values, a line each. */
void options_list_changes(FILE *out, const struct forge_options *options);

/* "1,2 3" -> numbers in [low, high], separated by commas and white space.  Stores up to capacity numbers.  Returns how many there are,
 * NUMBERS_TOO_MANY, or NUMBERS_WRONG minus the place in the text that is not such a number. */
enum { NUMBERS_TOO_MANY = -1, NUMBERS_WRONG = -2 };
int64_t parse_numbers(const char *text, size_t n, int64_t low, int64_t high, int32_t *out, size_t capacity);

/* Replaces \n \t \r \\ \" \' \0 \xHH in place and returns the new length. */
size_t unescape(char *text);

#endif
