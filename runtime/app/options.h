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

enum { MAX_STOPS = 32, MAX_CHOICES = 256, MAX_BIASES = 256, MAX_LIST = 16, MAX_IGNORED = 16 };

struct forge_options {
    enum forge_mode mode;
    bool bench, profile, perplexity, chat, serve, tokenize, check, info, version, help;   /* as given; mode is what follows from them */

    const char *prompt, *prompt_file, *system, *template_options, *tokens;            /* NULL: not given; strings point into argv */
    const char *load_path, *save_path, *history_path;             /* of a chat */
    bool    escape, echo, single_turn, print_tokens, no_bos, no_special, ignore_eos, quiet, verbose;
    int32_t n_predict;                /* -1: until end of text or context; INT32_MIN: not given */
    int32_t n_ctx, n_threads;         /* 0: not given */
    int32_t chunk;                    /* -1: not given */
    const char *stops[MAX_STOPS];
    size_t  n_stops;
    const char *grammar, *grammar_path, *schema, *schema_path;     /* what guides the text; at most one of them and choices */
    const char *choices[MAX_CHOICES];
    size_t  n_choices;
    struct forge_bias biases[MAX_BIASES];
    size_t  n_biases;

    struct forge_sample_options sample;
    bool    seed_given, top_k_given, temp_given, top_p_given, min_p_given, repeat_penalty_given, repeat_last_n_given;

    const char *weights_path, *verify_weights, *spec, *numa, *pages, *target, *logits_path, *draft_logits_path;
    struct forge_devices devices;     /* n 0: not given */
    bool    random_weights, no_graph;

    const char *ignored[MAX_IGNORED]; /* flags of llama.cpp's programs that mean nothing here */
    size_t      n_ignored;

    const char *bench_prompt, *bench_predict, *bench_depth;        /* lists of numbers */
    int32_t bench_repeat;
    float   bench_min_time;                                        /* seconds */
    int32_t profile_prompt, profile_steps, profile_depth;          /* -1: not given */
    int32_t profile_each;
    const char *output_format;        /* md, json, csv; --profile: html, too */

    const char *host, *api_key_path, *cors;                        /* of the server */
    int32_t port, slots, most_waiting, max_body, grace, drain;     /* max_body: MiB; grace, drain: seconds */
    bool    insecure;

    const char *embd_format, *rows_path;                           /* of vectors of texts: json, plain, raw */
    bool    no_normalize, truncate;
};

/* argv into *options.  e: of the program, NULL: it generates text; options of programs of the other kind are refused.
 * FORGE_USAGE with a sentence for anything wrong. */
enum forge_status options_parse(struct forge_options *options, int argc, char **argv, const struct forge_embedding *e,
                                struct forge_error *error);

/* What was not given comes from the model's general.sampling.*, then from llama.cpp's defaults. */
void options_sampling_defaults(struct forge_options *options, const struct forge_sampling *model);

void options_help(FILE *out, const char *program_name, const struct forge_embedding *e);

/* What can be changed between the turns of a chat: an option by its name without dashes.  FORGE_USAGE: no such option, or no such value. */
bool options_can_change(const char *name);
enum forge_status options_change(struct forge_options *options, const char *name, const char *value, struct forge_error *error);
/* Them with their values, a line each. */
void options_list_changes(FILE *out, const struct forge_options *options);

/* "1,2 3" -> numbers in [low, high]; separators are commas and white space. Stores up to capacity and returns how many,
 * NUMBERS_TOO_MANY, or NUMBERS_WRONG minus the place in the text of what is no such number. */
enum { NUMBERS_TOO_MANY = -1, NUMBERS_WRONG = -2 };
int64_t parse_numbers(const char *text, size_t n, int64_t low, int64_t high, int32_t *out, size_t capacity);

/* Replaces \n \t \r \\ \" \' \0 \xHH in place and returns the new length. */
size_t unescape(char *text);

#endif
