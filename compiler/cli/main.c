/* main.c -- the command line: options, help, one function per command. */
#include "compiler/build/build.h"
#include "compiler/build/needs.h"
#include "compare.h"
#include "pairs.h"
#include "compiler/product/header.h"
#include "inspect.h"
#include "compiler/product/library.h"
#include "compiler/front/model.h"
#include "compiler/base/resource.h"
#include "compiler/tune/tune.h"
#include "verify.h"
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "runtime/app/options.h"

static const char usage[] =
    "usage: forgec COMMAND ...        (forgec COMMAND --help lists the options)\n"
    "\n"
    "  build MODEL.gguf      compile a model into a standalone program or a library\n"
    "  cc SOURCE.c MODEL     compile an edited emitted source\n"
    "  verify MODEL.gguf     build and run the program, and compare its logits with a reference\n"
    "  compare MODEL.gguf    measure speeds with and without fusion, or of several models or options\n"
    "  tune MODEL.gguf       search for the fastest settings on a machine\n"
    "  inspect MODEL.gguf    show metadata and tensors   [-t TARGET] [--json]\n"
    "  targets               list the machines that forgec builds for   [NAME --print]\n"
    "  models                list the architectures that forgec knows   [NAME --print]\n"
    "  formats               list the weight formats that forgec reads\n"
    "  --version, --help     help COMMAND is COMMAND --help\n";

#define GRAMMAR_OPTIONS \
    "      --grammar FILE     GBNF grammar of the program's text, if no other is given at run time\n" \
    "      --json-schema FILE JSON schema of the program's text, if no other is given at run time\n" \
    "      --default OPTIONS  options that the program takes by itself, such as \"-sys 'Be brief.' --temp 0.6\";\n" \
    "                         those of its command line replace them\n"
/* Options of build and cc only, then options that verify and compare take as well: a help text lists all options of its command. */
#define PRODUCT_OPTIONS \
    "  -o FILE                output; \"-\" is standard output for text; a folder for wasm32 and webgpu\n" \
    "      --emit KIND        exe (default), source, asm, plan or graph; or a library for C programs\n" \
    "                         with a header beside it: obj, lib (static) or shared\n" \
    "      --prefix NAME      name of a library's functions, header and default output (default: model)\n" \
    "      --weights WHERE    embed (default), external (OUT.weights beside OUT) or none: without\n" \
    "                         the file's tensors, for measurements with noise (--random-weights)\n" \
    "      --server           the program can answer HTTP requests (PROGRAM --serve); needs libevent\n" \
    "      --kernel-tests     -t webgpu: adds test.html, which tests each kernel on the visitor's GPU\n" \
    "      --chat-template FILE  Jinja template for conversations, in place of the model's own\n" \
    "      --pre WHOSE        whose tokens to use if llama.cpp's differ from the model's own tokenizer:\n" \
    "                         model (default) or llama.cpp\n" \
    GRAMMAR_OPTIONS
#define BUILD_OPTIONS \
    "  -t, --target T[,T2]    machine to build for (forgec targets; default: this machine's CPU);\n" \
    "                         with several, the program runs the first target that works at run time,\n" \
    "                         and says if a GPU does not work; T+T2, TxN: GPUs that share the model\n" \
    "      --plan FILE        tiles and splits of an edited plan (--emit plan)\n" \
    "      --tuned FILE       tiles and settings of kernels that forgec tune wrote\n"
#define COMMON_OPTIONS \
    "      --gpus N           GPU: N GPUs share the model, at most 8\n" \
    "      --split HOW        how GPUs share a model: tensor (default: tensor parallel) or layer[:N,N]\n" \
    "                         (pipeline parallel; N: layers of each stage)\n" \
    "      --columns N        GPU: steps of 2 to N tokens (at most 8) read the weights once and give each\n" \
    "                         token the bits of a single step (default: use the prompt kernels)\n" \
    "      --spec HOW         GPU: speculative decoding. ngram: drafts up to 7 tokens from earlier text\n" \
    "                         (default: --columns 8); mtp: up to 3 tokens from the model's draft block\n" \
    "                         (nextn; default: --columns 4); none (default). The text does not change.\n" \
    "      --exact            float activations (GPU: 24-bit integers in products); KV cache f32\n" \
    "      --fast-bf16        CPU: faster, less exact prompts: bfloat16 for F16 weights and attention\n" \
    "      --static           no dynamic libraries\n" \
    "      --allow-spills     GPU: permit kernels that spill registers to memory\n" \
    "      --save-temps DIR   keep all sources and objects in DIR\n" \
    "      --clang PATH       clang to use (default: $FORGEC_CLANG, then clang-19, then newer versions)\n" \
    "      --no-cache         compile everything again\n" \
    "      --templates DIR, --targets DIR, --models DIR\n" \
    "                         files that replace built-in files of the same name\n" \
    "      --ignore-key KEY   build although the file has this hyperparameter, which forgec does not\n" \
    "                         support (* stands for any letters); may be repeated\n" \
    "      --ignore-tensor NAME\n" \
    "                         build although the architecture does not use this tensor (* stands for\n" \
    "                         any letters); may be repeated\n" \
    "  -j N                   compile and pack with N jobs (default: all processors)\n"
#define MODEL_OPTIONS \
    "      --ctx N            longest context (default: the model's, at most 8192)\n" \
    "      --kv TYPE          KV cache as f16 (default), f32 or q8_0\n" \
    COMMON_OPTIONS
#define FUSE_OPTION "      --fuse LEVEL       layer (default) or none: one kernel per operation\n"
#define THREADS_OPTION \
    "      --threads N        CPU: maximum number of threads of the program (default 64); for a library:\n" \
    "                         parts of each kernel (default 8)\n"
#define PRINT_OPTIONS \
    "  -v                     print commands and times;  -###  print the commands and run none\n" \
    "  -q, --quiet            no progress, no closing line\n"

/* The help of a command that takes build's options, in parts: C11 promises string literals of 4095 bytes only. */
typedef const char *const usage_parts[3];

static usage_parts build_usage = {
    "usage: forgec build MODEL.gguf [options]\n"
    "\n"
    BUILD_OPTIONS PRODUCT_OPTIONS,
    FUSE_OPTION MODEL_OPTIONS THREADS_OPTION PRINT_OPTIONS
    "exit codes: 0 ok, 1 bad input or failure, 2 wrong usage, 130 interrupted\n",
};

static usage_parts cc_usage = {
    "usage: forgec cc SOURCE.c MODEL.gguf [options]\n"
    "\n"
    "Compiles an edited source that `forgec build MODEL.gguf --emit source` wrote, and packs the\n"
    "weights of the model for it. Give the target, context and fusion that it was emitted with; the\n"
    "head of the source lists them. The program's --info says that the source was edited;\n"
    "forgec verify --source compares it with the model.\n"
    "\n"
    BUILD_OPTIONS
    "  -o FILE                output\n"
    "      --emit KIND        exe (default) or asm\n"
    "      --weights WHERE    embed (default), external (OUT.weights beside OUT) or none: without\n" \
    "                         the file's tensors, for measurements with noise (--random-weights)\n" \
    "      --server           the program can answer HTTP requests (PROGRAM --serve); needs libevent\n"
    GRAMMAR_OPTIONS
    FUSE_OPTION MODEL_OPTIONS THREADS_OPTION PRINT_OPTIONS
    "exit codes: 0 ok, 1 bad input or failure, 2 wrong usage, 130 interrupted\n",
};

static usage_parts verify_usage = {
    "usage: forgec verify MODEL.gguf [options]\n"
    "\n"
    "Builds the program in a temporary directory, runs it on random tokens and compares the logits of\n"
    "every position with a reference interpreter that reads the GGUF, once through the prompt kernels\n"
    "and once token by token. Programs for another machine run in qemu if it is installed, programs for\n"
    "wasm32 run in node, and programs for a GPU need that GPU or --simulate.\n"
    "\n"
    "      --simulate         gfx1100, gfx1151, gfx942: run the machine code in forgec's simulator, which\n"
    "                         checks every access; needs no AMD GPU or driver. Slow: for small models.\n"
    "                         The report ends with the least times of each kernel, as in compare.\n"
    "      --source FILE      verify this edited source (--emit source, forgec cc)\n"
    "      --tokens N         number of random tokens (default 320; fewer, at least 32, for large models;\n"
    "                         8 with --simulate)\n"
    "      --seed S           seed of the random tokens (default 1)\n"
    "      --json             print the report as JSON\n"
    BUILD_OPTIONS FUSE_OPTION MODEL_OPTIONS THREADS_OPTION
    "  -v                     print commands and times\n"
    "exit codes: 0 within bounds, 1 out of bounds, or build or run failed, 2 wrong usage, 130 interrupted\n",
};

static usage_parts compare_usage = {
    "usage: forgec compare MODEL.gguf [MODEL.gguf...] [options]\n"
    "\n"
    "Builds a program for each combination of the models and of the values of these options, and runs\n"
    "their --bench in turns on this machine. The report shows tok/s, launches and bytes per token, the share\n"
    "of the bandwidth, and the difference of logits. All programs are compared with the first.\n"
    "\n"
    "  -t, --target LIST      targets (forgec targets; default: this machine's CPU)\n"
    "      --fuse LIST        none, layer (default: both for one model without another list, else layer)\n"
    "      --kv LIST          KV cache as f16 (default), f32, q8_0\n"
    "      --ctx LIST         longest contexts (default: the model's, at most 8192)\n"
    "      --plan FILE        an edited plan (--emit plan), or default for forgec's own; may be repeated\n"
    "      --tuned FILE       settings that forgec tune wrote, or default; may be repeated\n"
    "      --source FILE      an edited source (--emit source), or default; may be repeated\n"
    "\n"
    "  -o FILE                where to write the report (default: standard output)\n"
    "      --format FORM      md (default), json or html; by default what FILE ends in; html is one page,\n"
    "                         with time, bytes and operations of each kernel and differences of sources\n"
    "  -p N, -n N             tokens of the prompt and tokens generated (default 128 and 64)\n"
    "  -r R                   number of rounds; each runs all programs in random order and then in reverse\n"
    "                         order (default: 8 for two programs, more for more programs)\n"
    "      --min-time S       minimum seconds of each measurement of a program in a round (default 0.5)\n"
    "      --threads N        CPU: threads of the programs (default: their own)\n"
    "      --simulate         gfx1100, gfx1151, gfx942: counts of forgec's simulator instead of times, for a\n"
    "                         prompt and for decoded tokens: instructions, bytes, coalescing, bank\n"
    "                         conflicts, and the least time of each kernel by each part of the chip\n"
    "                         (-p and -n are 8 by default; no -r, --min-time or --threads)\n"
    "      --sample N         with --simulate: run only N workgroups of each launch of a matrix kernel, for\n"
    "                         large models; logits are not compared, and -n is 1 by default\n",
    COMMON_OPTIONS
    "  -v                     print commands and times\n"
    "exit codes: 0 ok, 1 bad input or failure, 2 wrong usage, 130 interrupted\n",
};

static usage_parts tune_usage = {
    "usage: forgec tune MODEL.gguf [options]\n"
    "\n"
    "Builds programs with other settings than the planner's (GPU: rows, lanes, threads, workgroups, splits\n"
    "and tiles of each kernel, chunks; CPU: tiles, chunks). It skips settings that the cost model predicts to\n"
    "be slower, measures each kernel in turns with the planner's, and writes the faster settings to a file for\n"
    "forgec build --tuned FILE. Weights are noise, so the tensors of the file are not needed. After an\n"
    "interruption the same command continues.\n"
    "\n"
    "  -o FILE                where to write the settings (default: tuned/TARGET-SHAPE-FORMATS.yaml, and only\n"
    "                         if some are faster)\n"
    "      --on COMMAND       shell command that runs a program on the machine to tune for; program and\n"
    "                         arguments are appended: \"ssh box\" if box has the same files (default: here)\n"
    "      --minutes N        length of the search; the final comparison takes some minutes more (default 30)\n"
    "  -d LIST                tokens in the context before the decoded token, up to 3 values (default 512)\n"
    "  -p LIST                tokens of a prompt's step, up to 3 values, smallest first (default 128,512)\n"
    "  -r R                   rounds of each comparison, up to 15 (default 3)\n"
    "      --candidates N     maximum number of programs in a step of the search, up to 24 (default 10)\n"
    "  -t, --target T         machine to build for (forgec targets; default: this machine's CPU)\n"
    FUSE_OPTION MODEL_OPTIONS THREADS_OPTION
    "                         (not --allow-spills, --save-temps and --split layer)\n"
    "  -v                     print commands, and why programs were skipped\n"
    "exit codes: 0 ok, 1 bad input or failure, 2 wrong usage, 130 interrupted\n",
};

static const char inspect_usage[] =
    "usage: forgec inspect MODEL.gguf [-t TARGET] [--json]\n"
    "\n"
    "Shows metadata and tensors.\n"
    "\n"
    "  -t, --target T         also show the bytes of each tensor as packed for a target (forgec targets);\n"
    "                         -: the target's kernels do not read such a tensor\n"
    "      --targets DIR      files that replace built-in files of the same name\n"
    "      --json             print JSON\n";

/* The running command, for messages; NULL before it is known. */
static const char *command;

_Noreturn static void usage_error(const char *fmt, ...) PRINTF_LIKE(1, 2);
_Noreturn static void usage_error(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fputs("forgec: ", stderr);
    vfprintf(stderr, fmt, args);
    fprintf(stderr, "; see forgec %s%s--help\n", command ? command : "", command ? " " : "");
    va_end(args);
    exit(2);
}

/* ---- options of other programs ---- */

/* Options that users of llama.cpp give to forgec, with blanks around each, and what forgec has in their place. */
static const struct { const char *words, *instead; } foreign_options[] = {
    { " -hf -hfr --hf-repo -hff --hf-file -mu --model-url ",
      "forgec reads a file: hf download OWNER/MODEL-GGUF FILE.gguf --local-dir ., then forgec build FILE.gguf" },
    { " -m --model ", "the model needs no option: forgec build FILE.gguf" },
    { " -c --ctx-size ", "--ctx N sets the longest context" },
    { " -ngl --gpu-layers --n-gpu-layers ", "-t TARGET says where all layers are computed (forgec targets)" },
    { " -ctk -ctv --cache-type-k --cache-type-v ", "--kv f16, f32 or q8_0 sets the type of the KV cache" },
    { " -sm --split-mode -ts --tensor-split -mg --main-gpu ", "--gpus N and --split say how GPUs share a model" },
    { " -md --model-draft -hfd --hf-repo-draft ", "--spec ngram or mtp speculates without a second model (GPU)" },
    { " --chat-template-file --jinja ", "--chat-template FILE replaces the model's Jinja template" },
    { " -np --parallel --slots ", "the program has this option, if built with --server" },
    { " --grammar-file ", "--grammar FILE takes a file" },
    { " -jf --json-schema-file ", "--json-schema FILE takes a file" },
};

/* What to do instead of an option that is not forgec's; NULL: nobody knows it. */
static const char *instead_of(struct arena *a, const char *word)
{
    const size_t n = strcspn(word, "=");
    const char *name = arena_printf(a, " %.*s ", (int)n, word), *why;
    for (size_t i = 0; i < COUNT_OF(foreign_options); i++) if (strstr(foreign_options[i].words, name)) return foreign_options[i].instead;
    switch (options_known(word, &why)) {
    case OPTION_IGNORED: case OPTION_REFUSED: return why;
    case OPTION_TAKEN: return "this is an option of the program: give it to the program, or build it in with --default OPTIONS";
    case OPTION_UNKNOWN: break;
    }
    return NULL;
}

/* ---- option values ---- */

static uint32_t parse_count(const char *option, const char *text, uint32_t most)
{
    char *end;
    errno = 0;
    const unsigned long n = strtoul(text, &end, 10);
    const bool wrong = errno || end == text || *text == '-' || n < 1 || n > most;
    if (!wrong && (*end == 'k' || *end == 'K') && !end[1] && n <= most / 1024)
        usage_error("%s: \"%s\" is not a number from 1 to %u; write %lu", option, text, most, n * 1024);
    if (wrong || *end) usage_error("%s: \"%s\" is not a number from 1 to %u", option, text, most);
    return (uint32_t)n;
}

/* Reports an argument that getopt_long (with opterr 0 and a ':' before the short options) did not accept, in the style of the other
 * errors. */
_Noreturn static void option_error(int c, char *const *argv, const struct option *table)
{
    const char *word = argv[optind - 1];
    bool known = false;
    uint32_t n_meant = 0;
    for (const struct option *o = table; o->name; o++) {
        known |= optopt && o->val == optopt;
        n_meant += strncmp(word, "--", 2) == 0 && strncmp(o->name, word + 2, strcspn(word + 2, "=")) == 0;
    }
    if (c == ':' && strncmp(word, "--", 2)) usage_error("-%c needs a value", optopt);
    if (c == ':') usage_error("%s needs a value", word);
    if (optopt && known) usage_error("%.*s takes no value", (int)strcspn(word, "="), word);
    if (optopt) usage_error("unknown option -%c", optopt);
    if (n_meant > 1) usage_error("%.*s is the beginning of several options", (int)strcspn(word, "="), word);
    usage_error("unknown option %.*s", (int)strcspn(word, "="), word);
}

/* Like getopt_long, but an empty value is an error. */
static int next_option(int argc, char **argv, const char *letters, const struct option *table)
{
    const int c = getopt_long(argc, argv, letters, table, NULL);
    if (c == -1 || c == ':' || c == '?' || !optarg || *optarg) return c;
    const char *word = argv[optind - 1][0] ? argv[optind - 1] : argv[optind - 2];          /* "--models=", or "--models" and "" */
    usage_error("%.*s needs a value", (int)strcspn(word, "="), word);
}

/* Checks a folder with files that replace built-in ones; a folder that does not exist would be a typing error that nobody notices. */
static const char *need_folder(const char *option, const char *path)
{
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) die("%s %s: cannot open the directory: %s; check the path", option, path, strerror(errno));
    close(fd);
    return path;
}

/* Index of text among the names. */
static int parse_choice(const char *option, const char *text, const char *const *names)
{
    for (int i = 0; names[i]; i++) if (strcmp(names[i], text) == 0) return i;
    char list[256] = "";
    for (int i = 0; names[i]; i++) snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? ", " : "", names[i]);
    usage_error("%s: \"%s\" is not one of %s", option, text, list);
}

static void parse_targets(struct arena *a, struct build_options *o, const char *text)
{
    for (const char *p = text; ; p++) {
        const size_t n = strcspn(p, ",");
        if (!n) usage_error("--target: a name is empty; give the name of a target");
        if (o->n_targets == COUNT_OF(o->targets)) usage_error("--target: at most %zu targets", COUNT_OF(o->targets));
        o->targets[o->n_targets++] = arena_strndup(a, p, n);
        p += n;
        if (!*p) return;
    }
}

/* ---- build and cc ---- */

enum { MTP_COLUMNS = 4 };           /* with --spec mtp, unless --columns is given: drafts beyond the third are rarely right */
enum { OPT_GRAMMAR = 256, OPT_SCHEMA, OPT_EMIT, OPT_FUSE, OPT_CTX, OPT_KV, OPT_GPUS, OPT_SPLIT, OPT_COLUMNS, OPT_SPEC, OPT_EXACT,
       OPT_FAST_BF16, OPT_WEIGHTS, OPT_THREADS,
       OPT_STATIC, OPT_SERVER, OPT_ALLOW_SPILLS, OPT_SAVE_TEMPS, OPT_CLANG, OPT_NO_CACHE, OPT_TEMPLATES,
       OPT_TARGETS, OPT_MODELS, OPT_DRY_RUN, OPT_PREFIX, OPT_PLAN, OPT_IGNORE_KEY, OPT_IGNORE_TENSOR, OPT_TUNED, OPT_CHAT_TEMPLATE,
       OPT_PRE, OPT_KERNEL_TESTS, OPT_DEFAULT, OPT_HELP };

static const struct option build_options_table[] = {
    { "target", required_argument, NULL, 't' },          { "output", required_argument, NULL, 'o' },
    { "emit", required_argument, NULL, OPT_EMIT },       { "fuse", required_argument, NULL, OPT_FUSE },
    { "ctx", required_argument, NULL, OPT_CTX },         { "kv", required_argument, NULL, OPT_KV },
    { "gpus", required_argument, NULL, OPT_GPUS },       { "split", required_argument, NULL, OPT_SPLIT },
    { "columns", required_argument, NULL, OPT_COLUMNS }, { "spec", required_argument, NULL, OPT_SPEC },
    { "exact", no_argument, NULL, OPT_EXACT },           { "fast-bf16", no_argument, NULL, OPT_FAST_BF16 },
    { "weights", required_argument, NULL, OPT_WEIGHTS },
    { "threads", required_argument, NULL, OPT_THREADS }, { "static", no_argument, NULL, OPT_STATIC },
    { "grammar", required_argument, NULL, OPT_GRAMMAR }, { "json-schema", required_argument, NULL, OPT_SCHEMA },
    { "server", no_argument, NULL, OPT_SERVER },         { "allow-spills", no_argument, NULL, OPT_ALLOW_SPILLS },
    { "save-temps", required_argument, NULL, OPT_SAVE_TEMPS }, { "clang", required_argument, NULL, OPT_CLANG },
    { "no-cache", no_argument, NULL, OPT_NO_CACHE },     { "templates", required_argument, NULL, OPT_TEMPLATES },
    { "targets", required_argument, NULL, OPT_TARGETS }, { "models", required_argument, NULL, OPT_MODELS },
    { "ignore-key", required_argument, NULL, OPT_IGNORE_KEY }, { "ignore-tensor", required_argument, NULL, OPT_IGNORE_TENSOR },
    { "plan", required_argument, NULL, OPT_PLAN },       { "tuned", required_argument, NULL, OPT_TUNED },
    { "jobs", required_argument, NULL, 'j' },            { "verbose", no_argument, NULL, 'v' },
    { "quiet", no_argument, NULL, 'q' },                 { "prefix", required_argument, NULL, OPT_PREFIX },
    { "chat-template", required_argument, NULL, OPT_CHAT_TEMPLATE }, { "kernel-tests", no_argument, NULL, OPT_KERNEL_TESTS },
    { "pre", required_argument, NULL, OPT_PRE },         { "default", required_argument, NULL, OPT_DEFAULT },
    { "help", no_argument, NULL, OPT_HELP },
    { NULL, 0, NULL, 0 },
};

/* Refuses options of other programs by their whole names, before getopt takes them for clusters of letters or for beginnings of other
 * names: -hf is not -h, and --temp is not --templates. */
static void refuse_foreign(struct arena *a, int argc, char **argv)
{
    static const char measures[] = " --tokens --seed --min-time -p -n -r -d ";          /* also options of verify, compare and tune */
    const bool product = !strcmp(command, "build") || !strcmp(command, "cc");
    const char *letters = product ? "toj" : "tojpnrd";                                  /* with values */
    for (int i = 1; i < argc && strcmp(argv[i], "--"); i++) {
        const char *word = argv[i];
        const size_t n = strcspn(word, "=");
        bool own = false, takes_next = false;
        if (word[0] != '-' || !word[1] || !strcmp(word, "-###")) continue;
        for (const struct option *o = build_options_table; o->name && word[1] == '-'; o++) {
            if (strlen(o->name) + 2 != n || strncmp(o->name, word + 2, n - 2)) continue;
            own = true;
            takes_next = o->has_arg == required_argument && !word[n];
        }
        if (word[1] != '-' && !word[2]) own = strchr("vqh", word[1]) || (takes_next = strchr(letters, word[1]));
        if (!product && strstr(measures, arena_printf(a, " %.*s ", (int)n, word))) own = true;
        const char *instead = own ? NULL : instead_of(a, word);
        if (instead) usage_error("%.*s: %s", (int)n, word, instead);
        if (word[1] != '-' && word[2] && !strchr(letters, word[1])) usage_error("unknown option %s", word);
        i += takes_next;
    }
}

static bool is_among(const char *const *names, const char *name)
{
    for (; *names; names++) if (!strcmp(*names, name)) return true;
    return false;
}

/* "gfx942x8": returns eight, and *name becomes "gfx942". Returns 1 if a target has the whole name, or if no target has the shorter name. */
static uint32_t read_times(struct arena *a, const struct build_options *o, const char **name)
{
    const char *x = strrchr(*name, 'x');
    if (!x || x == *name || x[1] < '1' || x[1] > '9' || x[2]) return 1;
    const char *const *names = target_names(a, o->targets_dir), *base = arena_strndup(a, *name, (size_t)(x - *name));
    if (is_among(names, *name) || !is_among(names, base)) return 1;
    *name = base;
    return (uint32_t)(x[1] - '0');
}

/* The value of --split: "tensor", "layer", "layer:20,12". */
static void take_split(struct arena *a, struct build_options *o, const char *text)
{
    const char *colon = strchr(text, ':');
    uint32_t n = 0;
    const char *kind = colon ? arena_strndup(a, text, (size_t)(colon - text)) : text;
    o->plan.split = (enum split_kind)parse_choice("--split", kind, split_kind_name);
    if (colon && o->plan.split != SPLIT_LAYER) usage_error("--split %s: only layer takes numbers of layers", text);
    for (const char *p = colon; p && *p; p += strcspn(p, ",")) {
        if (n == FORGE_GPU_MAX_RANKS) usage_error("--split %s: at most %d GPUs share a model", text, FORGE_GPU_MAX_RANKS);
        p++;
        o->layers[n++] = parse_count("--split", arena_strndup(a, p, strcspn(p, ",")), 1u << 16);
    }
    if (o->gpus < 2) usage_error("--split is for several GPUs: give --gpus N, or -t TARGETxN");
    if (o->stages[0] && o->plan.split != SPLIT_LAYER) usage_error("--split %s: GPUs of different kinds need --split layer", text);
    if (n && n != o->gpus) usage_error("--split %s gives layers for %u GPUs, but %u GPUs share the model", text, n, o->gpus);
}

/* "gfx1100+gfx1151": pipeline stages on GPUs of several kinds. */
static void take_stages(struct arena *a, struct build_options *o)
{
    uint32_t n = 0;
    for (const char *p = o->targets[0]; ; p++) {
        const size_t length = strcspn(p, "+");
        const char *name = arena_strndup(a, p, length);
        if (!length) usage_error("--target %s: a name is empty; give the name of a target", o->targets[0]);
        for (uint32_t times = read_times(a, o, &name); times-- > 0; ) {
            if (n == FORGE_GPU_MAX_RANKS) usage_error("--target %s: at most %d GPUs share a model", o->targets[0], FORGE_GPU_MAX_RANKS);
            o->stages[n++] = name;
        }
        p += length;
        if (!*p) break;
    }
    if (o->gpus && o->gpus != n) usage_error("--target %s and --gpus %u contradict each other", o->targets[0], o->gpus);
    o->targets[0] = o->stages[0];
    o->gpus = n;
    o->plan.split = SPLIT_LAYER;
}

/* "gfx942x8" is gfx942 with --gpus 8, unless a target has that name. */
static void take_gpus(struct arena *a, struct build_options *o)
{
    if (o->n_targets != 1) return;
    if (strchr(o->targets[0], '+')) {
        take_stages(a, o);
        return;
    }
    const char *name = o->targets[0], *base = name;
    const uint32_t gpus = read_times(a, o, &base);
    if (base == name) return;
    if (gpus > FORGE_GPU_MAX_RANKS) usage_error("--target %s: at most %d GPUs share a model", name, FORGE_GPU_MAX_RANKS);
    if (o->gpus && o->gpus != gpus) usage_error("--target %s and --gpus %u contradict each other", name, o->gpus);
    o->targets[0] = base;
    o->gpus = gpus;
}

static const char needs_gpu[] = "an AMD or NVIDIA GPU";

/* Refuses an option that is of no use to any of the targets; what: the target that it needs. */
static void refuse_unless(struct arena *a, const struct build_options *o, enum target_kind kind, const char *option, const char *what)
{
    for (uint32_t i = 0; i < o->n_targets; i++) if (target_load(a, o->targets[i], o->targets_dir)->kind == kind) return;
    if (!o->n_targets && kind == TARGET_CPU) return;                   /* native is a CPU */
    usage_error("%s is not available for target %s: it needs %s", option, o->n_targets ? o->targets[0] : "native", what);
}

/* Reads the options into o; returns the index of the first operand in argv. */
static int parse_build(struct arena *a, int argc, char **argv, struct build_options *o, usage_parts help)
{
    static const char *const emits[] = { "exe", "source", "asm", "plan", "graph", "obj", "lib", "shared", NULL },
                      *const fuses[] = { "none", "layer", NULL }, *const places[] = { "embed", "external", "none", NULL },
                      *const pres[] = { "model", "llama.cpp", NULL };
    bool kv_given = false;
    const char *split = NULL;
    o->fuse = FUSE_LAYER;
    for (int i = 1; i < argc; i++) if (strcmp(argv[i], "-###") == 0) { o->cc.spawn.dry_run = true; argv[i] = arena_strdup(a, "-v"); }
    for (int c; (c = next_option(argc, argv, ":t:o:j:vqh", build_options_table)) != -1; )
        switch (c) {
        case 't': parse_targets(a, o, optarg); break;
        case 'o': o->out_path = optarg; break;
        case 'j': o->cc.spawn.jobs = parse_count("-j", optarg, 256); break;
        case 'v': o->cc.spawn.verbose = true; break;
        case 'q': o->quiet = true; break;
        case 'h': case OPT_HELP:
            for (size_t i = 0; i < COUNT_OF(build_usage) && help[i]; i++) fputs(help[i], stdout);
            exit(0);
        case OPT_EMIT: o->emit = (enum emit_kind)parse_choice("--emit", optarg, emits); break;
        case OPT_FUSE: o->fuse = (enum fuse_level)parse_choice("--fuse", optarg, fuses); break;
        case OPT_CTX: o->plan.n_ctx = parse_count("--ctx", optarg, 1u << 24); break;
        case OPT_KV: o->plan.kv = (enum kv_type)parse_choice("--kv", optarg, kv_type_name); kv_given = true; break;
        case OPT_GPUS:    o->gpus = parse_count("--gpus", optarg, FORGE_GPU_MAX_RANKS); break;
        case OPT_SPLIT:   split = optarg; break;
        case OPT_COLUMNS: o->plan.columns = parse_count("--columns", optarg, FORGE_MAX_COLUMNS); break;
        case OPT_SPEC: o->plan.spec = (enum spec_kind)parse_choice("--spec", optarg, spec_kind_name); break;
        case OPT_EXACT: o->plan.exact = true; break;
        case OPT_FAST_BF16: o->plan.fast_bf16 = true; break;
        case OPT_WEIGHTS: o->weights = (enum weights_kind)parse_choice("--weights", optarg, places); break;
        case OPT_THREADS: o->plan.max_threads = parse_count("--threads", optarg, 1024); break;
        case OPT_STATIC: o->is_static = true; break;
        case OPT_SERVER: o->has_server = true; break;
        case OPT_KERNEL_TESTS: o->kernel_tests = true; break;
        case OPT_GRAMMAR: o->grammar_path = optarg; break;
        case OPT_SCHEMA: o->schema_path = optarg; break;
        case OPT_ALLOW_SPILLS: o->allow_spills = true; break;
        case OPT_SAVE_TEMPS: o->cc.save_temps = optarg; break;
        case OPT_CLANG: o->cc.clang = optarg; break;
        case OPT_NO_CACHE: o->cc.no_cache = true; break;
        case OPT_TEMPLATES: o->templates_dir = need_folder("--templates", optarg); break;
        case OPT_TARGETS: o->targets_dir = need_folder("--targets", optarg); break;
        case OPT_MODELS: o->models_dir = need_folder("--models", optarg); break;
        case OPT_PREFIX: o->prefix = optarg; break;
        case OPT_PLAN: o->plan_path = optarg; break;
        case OPT_TUNED: o->tuned_path = optarg; break;
        case OPT_CHAT_TEMPLATE: o->chat_template = optarg; break;
        case OPT_DEFAULT: o->defaults = o->defaults ? arena_printf(a, "%s %s", o->defaults, optarg) : optarg; break;
        case OPT_PRE: o->llama_cpp_tokens = parse_choice("--pre", optarg, pres) == 1; break;
        case OPT_IGNORE_KEY:
            if (o->n_ignored_keys == COUNT_OF(o->ignored_keys)) usage_error("--ignore-key: at most %zu keys", COUNT_OF(o->ignored_keys));
            o->ignored_keys[o->n_ignored_keys++] = optarg;
            break;
        case OPT_IGNORE_TENSOR:
            if (o->n_ignored_tensors == COUNT_OF(o->ignored_tensors))
                usage_error("--ignore-tensor: at most %zu names; * stands for any letters", COUNT_OF(o->ignored_tensors));
            o->ignored_tensors[o->n_ignored_tensors++] = optarg;
            break;
        default: option_error(c, argv, build_options_table);
        }
    take_gpus(a, o);
    if (split) take_split(a, o, split);
    if (o->plan.exact && o->plan.fast_bf16) usage_error("--exact cannot be combined with --fast-bf16");
    if (o->plan.exact && !kv_given) o->plan.kv = KV_TYPE_F32;
    if (o->prefix && !library_wanted(o)) usage_error("--prefix needs --emit obj, lib or shared");
    const char *wrong = o->prefix ? library_prefix_wrong(a, o->prefix) : NULL;
    if (wrong) usage_error("--prefix: %s", wrong);
    if (o->plan.max_threads) refuse_unless(a, o, TARGET_CPU, "--threads", "a CPU target");
    if (o->plan.fast_bf16) refuse_unless(a, o, TARGET_CPU, "--fast-bf16", "a CPU target");
    if (o->plan.spec) refuse_unless(a, o, TARGET_GPU, "--spec", needs_gpu);
    if (o->plan.spec && library_wanted(o)) usage_error("--spec is for programs: a library's caller draws each token before the next step");
    if (o->plan.spec && !o->plan.columns) o->plan.columns = o->plan.spec == SPEC_MTP ? MTP_COLUMNS : FORGE_MAX_COLUMNS;
    if (o->plan.columns == 1) usage_error("--columns must be from 2 to 8 tokens");
    if (o->plan.columns) refuse_unless(a, o, TARGET_GPU, "--columns", needs_gpu);
    if (o->gpus > 1) refuse_unless(a, o, TARGET_GPU, "--gpus", needs_gpu);
    if (o->allow_spills) refuse_unless(a, o, TARGET_GPU, "--allow-spills", needs_gpu);
    if (o->kernel_tests) refuse_unless(a, o, TARGET_WEBGPU, "--kernel-tests", "webgpu");
    if (o->kernel_tests && o->emit != EMIT_EXE) usage_error("--kernel-tests is for the folder that --emit exe makes");
    if (o->kernel_tests && o->weights == WEIGHTS_NONE)
        usage_error("--kernel-tests needs the weights and cannot be combined with --weights none");
    return optind;
}

/* The size of a file as a user reads it; NULL: it cannot be read. */
static const char *size_text(struct arena *a, const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0) return NULL;
    const double mb = (double)st.st_size * 1e-6;
    return mb < 1000 ? arena_printf(a, "%.1f MB", mb) : arena_printf(a, "%.2f GB", mb * 1e-3);
}

/* Prints what was written, what it needs, how to run it and, if the CPU was not chosen explicitly, the GPU in this machine. */
static void announce(struct arena *a, const struct build_options *o, struct built built)
{
    const char *out = built.path;
    if (o->quiet || o->cc.spawn.dry_run || !strcmp(out, "-")) return;
    const bool program = o->emit == EMIT_EXE && !built.is_page, product = o->emit == EMIT_EXE || o->emit >= EMIT_OBJ;
    const char *size = !product || built.is_page ? NULL : size_text(a, out), *glibc = program ? needs_glibc(a, out) : NULL;
    fprintf(stderr, "forgec: wrote %s", out);
    if (product) fprintf(stderr, ": %s%sfor %s, context %u", size ? size : "", size ? ", " : "", built.targets, built.n_ctx);
    if (product && built.n_ctx_model > built.n_ctx) fprintf(stderr, " of the model's %u (--ctx)", built.n_ctx_model);
    fprintf(stderr, glibc ? "; needs glibc %s\n" : "\n", glibc);
    if (program)
        fprintf(stderr, "forgec: run it: %s%s%s%s\n", strchr(out, '/') ? "" : "./", out, built.chats ? "" : built.embeds
                ? " -p \"a text\"" : " -p \"Once upon a time\"", o->has_server ? ", or with --serve" : "");
    if (built.is_page && o->emit == EMIT_EXE) fprintf(stderr, "forgec: run it: node %s/run.js, or serve the folder (docs/web.md)\n", out);
    const char *gpu = o->emit == EMIT_EXE && !o->n_targets ? target_gpu_here(a, "") : NULL;
    if (gpu) fprintf(stderr, "forgec: the program computes on the CPU; this machine has a %s: -t %s\n", gpu, gpu);
}

static int command_build(struct arena *a, int argc, char **argv)
{
    struct build_options o = { 0 };
    const int first = parse_build(a, argc, argv, &o, build_usage);
    if (argc - first != 1) usage_error("build takes one model, got %d", argc - first);
    o.model_path = argv[first];
    announce(a, &o, build(a, &o));
    return 0;
}

static int command_cc(struct arena *a, int argc, char **argv)
{
    struct build_options o = { 0 };
    const int first = parse_build(a, argc, argv, &o, cc_usage);
    if (argc - first != 2) usage_error("cc takes a source and a model, got %d", argc - first);
    if (o.emit != EMIT_EXE && o.emit != EMIT_ASM) usage_error("cc makes a program (--emit exe) or its assembler (asm)");
    o.source = argv[first];
    o.model_path = argv[first + 1];
    announce(a, &o, build(a, &o));
    return 0;
}

/* ---- verify and compare: their own options besides those of build ---- */

/* The value of option "--name" or "-n" at argv[i], in this argument or the next; NULL: it is another argument. */
static const char *value_at(int argc, char **argv, int i, const char *name, int *n_words)
{
    const size_t n = strlen(name);
    *n_words = 1;
    if (strncmp(argv[i], name, n)) return NULL;
    if (argv[i][n]) return name[1] != '-' ? argv[i] + n : argv[i][n] == '=' ? argv[i] + n + 1 : NULL;
    if (i + 1 == argc) return "";
    *n_words = 2;
    return argv[i + 1];
}

/* Removes the first NAME VALUE (also --NAME=VALUE, -NVALUE) from argv and returns the value; letter: another name, or NULL. NULL: it is not
 * given. */
static const char *take_first(int *argc, char **argv, const char *name, const char *letter)
{
    for (int i = 1; i < *argc && strcmp(argv[i], "--"); i++) {
        int n_words = 1;
        const char *value = value_at(*argc, argv, i, name, &n_words), *taken = name;
        if (!value && letter) value = value_at(*argc, argv, i, taken = letter, &n_words);
        if (!value) continue;
        if (!*value) usage_error("%s needs a value", taken);
        memmove(&argv[i], &argv[i + n_words], (size_t)(*argc - i - n_words + 1) * sizeof *argv);
        *argc -= n_words;
        return value;
    }
    return NULL;
}

/* The same for all occurrences; the last value counts. */
static const char *take_value(int *argc, char **argv, const char *name, const char *letter)
{
    const char *value = NULL;
    for (const char *next; (next = take_first(argc, argv, name, letter)); ) value = next;
    return value;
}

static bool take_flag(int *argc, char **argv, const char *name)
{
    int kept = 1;
    for (int i = 1; i < *argc; i++) if (strcmp(argv[i], name)) argv[kept++] = argv[i];
    const bool found = kept < *argc;
    argv[*argc = kept] = NULL;
    return found;
}

static uint32_t take_count(int *argc, char **argv, const char *name, uint32_t most)
{
    const char *text = take_value(argc, argv, name, NULL);
    return text ? parse_count(name, text, most) : 0;
}

/* 0 when absent. */
static double take_seconds(int *argc, char **argv, const char *name)
{
    const char *text = take_value(argc, argv, name, NULL);
    char *end;
    const double seconds = text ? strtod(text, &end) : 0;
    if (text && (end == text || *end || !(seconds >= 1e-3 && seconds <= 3600)))
        usage_error("%s: \"%s\" is not a number of seconds from 0.001 to 3600", name, text);
    return seconds;
}

/* Refuses options that are only for products, in verify and compare. */
static void need_no_product(struct build_options *o, const char *name)
{
    if (o->out_path || o->emit != EMIT_EXE || o->weights != WEIGHTS_EMBED || o->cc.spawn.dry_run)
        usage_error("%s keeps no program: it cannot be combined with %s--emit, --weights or -###", name,
                    strcmp(name, "verify") ? "" : "-o, ");
    if (o->kernel_tests) usage_error("%s cannot be combined with --kernel-tests, which belongs to forgec build", name);
    if (o->grammar_path || o->schema_path) usage_error("%s cannot be combined with --grammar or --json-schema", name);
    if (o->defaults) usage_error("%s cannot be combined with --default; forgec build takes it", name);
    o->quiet = true;
}

static int command_verify(struct arena *a, int argc, char **argv)
{
    struct verify_options o = { .seed = 1 };
    o.json = take_flag(&argc, argv, "--json");
    o.simulate = take_flag(&argc, argv, "--simulate");
    o.n_tokens = take_count(&argc, argv, "--tokens", 8192);
    const uint32_t seed = take_count(&argc, argv, "--seed", UINT32_MAX);
    if (seed) o.seed = seed;
    o.build.source = take_value(&argc, argv, "--source", NULL);
    const int first = parse_build(a, argc, argv, &o.build, verify_usage);
    if (argc - first != 1) usage_error("verify takes one model, got %d", argc - first);
    o.quiet = o.build.quiet || o.build.cc.spawn.verbose;
    need_no_product(&o.build, "verify");
    o.build.model_path = argv[first];
    return verify(a, &o);
}

/* Reads the options of one program: the common options, argv, and its own values. Its models are then argv[*first] and the next
 * arguments. */
static struct compare_program parse_program(struct arena *a, int *argc, char ***argv, const struct combination *is, int *first)
{
    struct compare_program program = { .is = *is };
    char **words = arena_array(a, char *, (size_t)*argc + 2 * N_DIMENSIONS + 1);
    int n = 0;
    words[n++] = (*argv)[0];
    for (enum dimension d = 0; d < N_DIMENSIONS; d++) {
        if (!dimension_kinds[d].option || !is->value[d] || d == DIM_SOURCE) continue;
        words[n++] = arena_strdup(a, dimension_kinds[d].option);
        words[n++] = arena_strdup(a, is->value[d]);
    }
    for (int i = 1; i < *argc; i++) words[n++] = (*argv)[i];
    *argc = n;
    *argv = words;
    optind = 0;                        /* restarts getopt */
    *first = parse_build(a, n, words, &program.build, compare_usage);
    need_no_product(&program.build, "compare");
    program.build.model_path = is->value[DIM_MODEL];
    program.build.source = is->value[DIM_SOURCE];
    return program;
}

/* Makes a program for every combination of the given values. */
static void parse_programs(struct arena *a, int argc, char **argv, struct compare_options *o)
{
    struct values given[N_DIMENSIONS] = { { 0 } };
    struct combination is = { .name = NULL };
    for (enum dimension d = 0; d < N_DIMENSIONS; d++) {
        const struct dimension_kind *kind = &dimension_kinds[d];
        for (const char *value; kind->option && (value = take_first(&argc, argv, kind->option, kind->letter)); )
            if (!values_add(a, &given[d], d, value)) usage_error("%s: a value of \"%s\" is empty", kind->option, value);
        if (given[d].n) is.value[d] = given[d].items[0];
    }
    int n = argc, first;
    char **words = argv;
    parse_program(a, &n, &words, &is, &first);
    for (; first < n; first++) values_add(a, &given[DIM_MODEL], DIM_MODEL, words[first]);
    if (!given[DIM_MODEL].n) usage_error("compare takes one model or more, got none");
    const struct combination *all = combinations(a, given, &o->n_programs);
    if (!all) usage_error("%u programs are too many: compare takes at most %d; give fewer values", o->n_programs, CANDIDATES_MOST);
    struct compare_program *programs = arena_array(a, struct compare_program, o->n_programs);
    for (uint32_t i = 0; i < o->n_programs; i++) {
        n = argc;
        words = argv;
        programs[i] = parse_program(a, &n, &words, &all[i], &first);
        if (o->n_threads) refuse_unless(a, &programs[i].build, TARGET_CPU, "--threads", "a CPU target");
    }
    o->programs = programs;
}

static int command_compare(struct arena *a, int argc, char **argv)
{
    static const char *const formats[] = { "md", "json", "html", NULL };
    struct compare_options o = { 0 };
    o.simulate = take_flag(&argc, argv, "--simulate");
    o.n_prompt = take_count(&argc, argv, "-p", 1u << 24);
    o.n_gen = take_count(&argc, argv, "-n", 1u << 24);
    o.rounds = take_count(&argc, argv, "-r", PAIRS_ROUNDS_MOST);
    o.n_threads = take_count(&argc, argv, "--threads", 1024);
    o.min_time = take_seconds(&argc, argv, "--min-time");
    o.sample = take_count(&argc, argv, "--sample", 65536);
    o.path = take_value(&argc, argv, "--output", "-o");
    for (int i = 0; formats[i] && o.path; i++)
        if (strcmp(o.path, formats[i]) == 0) usage_error("-o %s: -o is a file; --format %s sets the form of the report", o.path, o.path);
    const char *format = take_value(&argc, argv, "--format", NULL), *dot = o.path ? strrchr(path_name(o.path), '.') : NULL;
    if (format) o.format = (enum compare_format)parse_choice("--format", format, formats);
    else if (dot) for (int i = 0; formats[i]; i++) if (strcmp(dot + 1, formats[i]) == 0) o.format = (enum compare_format)i;
    if (o.simulate && (o.rounds || o.n_threads || o.min_time > 0))
        usage_error("-r, --min-time and --threads cannot be combined with --simulate, which measures no times");
    if (o.sample && !o.simulate) usage_error("--sample needs --simulate");
    parse_programs(a, argc, argv, &o);
    return compare(a, &o);
}

/* Reads a list such as "128,512"; returns the number of values. */
static uint32_t take_list(struct arena *a, int *argc, char **argv, const char *name, bool with_0, uint32_t list[TUNE_SIZES])
{
    const char *text = take_value(argc, argv, name, NULL);
    uint32_t n = 0;
    for (const char *p = text; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL) {
        if (n == TUNE_SIZES) usage_error("%s: at most %d numbers", name, TUNE_SIZES);
        const char *number = arena_strndup(a, p, strcspn(p, ","));
        list[n++] = with_0 && strcmp(number, "0") == 0 ? 0 : parse_count(name, number, 1u << 24);
    }
    return n;
}

static int command_tune(struct arena *a, int argc, char **argv)
{
    struct tune_options o = { 0 };
    o.on = take_value(&argc, argv, "--on", NULL);
    o.minutes = take_count(&argc, argv, "--minutes", 10080);
    o.n_depths = take_list(a, &argc, argv, "-d", true, o.depths);
    o.n_prompts = take_list(a, &argc, argv, "-p", false, o.prompts);
    o.rounds = take_count(&argc, argv, "-r", 15);
    o.candidates = take_count(&argc, argv, "--candidates", 24);
    const int first = parse_build(a, argc, argv, &o.build, tune_usage);
    if (argc - first != 1) usage_error("tune takes one model, got %d", argc - first);
    const char *path = o.build.out_path;
    o.build.out_path = NULL;
    need_no_product(&o.build, "tune");
    o.build.model_path = argv[first];
    if (o.build.cc.save_temps || o.build.allow_spills)
        usage_error("%s cannot be combined with tune", o.build.cc.save_temps ? "--save-temps" : "--allow-spills");
    if (o.build.n_targets > 1) usage_error("tune takes one target");
    if (o.build.plan.split == SPLIT_LAYER) usage_error("tune cannot be combined with --split layer: its settings apply to all layers");
    if (o.build.plan_path || o.build.tuned_path)
        usage_error("tune starts from the planner's own settings: it cannot be combined with --plan or --tuned");
    o.path = path;
    return tune(a, &o);
}

/* ---- small commands ---- */

static int command_inspect(struct arena *a, int argc, char **argv)
{
    static const struct option table[] = { { "json", no_argument, NULL, 'J' }, { "target", required_argument, NULL, 't' },
                                           { "targets", required_argument, NULL, 'D' }, { "help", no_argument, NULL, 'h' },
                                           { NULL, 0, NULL, 0 } };
    bool json = false;
    const char *name = NULL, *directory = NULL;
    for (int c; (c = next_option(argc, argv, ":ht:", table)) != -1; )
        switch (c) {
        case 'J': json = true; break;
        case 't': name = optarg; break;
        case 'D': directory = need_folder("--targets", optarg); break;
        case 'h': fputs(inspect_usage, stdout); return 0;
        default: option_error(c, argv, table);
        }
    if (argc - optind != 1) usage_error("inspect takes one file, got %d", argc - optind);
    if (directory && !name) usage_error("--targets needs a target: -t NAME");
    const struct target *target = name ? target_load(a, name, directory) : NULL;
    inspect_print(a, gguf_open(a, argv[optind], true), json, target);
    return 0;
}

/* targets and models: lists the built-in files and, with --targets DIR or --models DIR, the files of a folder that takes precedence. */
struct list_options { const char *directory, *name; bool names_only; };

/* folder_option: "targets" or "models", for a folder's files. False after --help. */
static bool parse_list(struct arena *a, int argc, char **argv, const char *folder_option, bool with_names, const char *help,
                       struct list_options *o)
{
    const struct option table[] = { { folder_option, required_argument, NULL, 'D' }, { "print", no_argument, NULL, 'p' },
                                    { "help", no_argument, NULL, 'h' }, { with_names ? "names" : NULL, no_argument, NULL, 'n' },
                                    { NULL, 0, NULL, 0 } };
    bool print = false;
    for (int c; (c = next_option(argc, argv, ":h", table)) != -1; )
        switch (c) {
        case 'D': o->directory = need_folder(arena_printf(a, "--%s", folder_option), optarg); break;
        case 'p': print = true; break;
        case 'n': o->names_only = true; break;
        case 'h': fputs(help, stdout); return false;
        default: option_error(c, argv, table);
        }
    if (argc - optind > 1 || (argc - optind == 1 && !print)) usage_error("%s takes no operands, but one NAME with --print", command);
    if (print && argc == optind) usage_error("--print needs the NAME of what to print");
    if (print && o->names_only) usage_error("--print cannot be combined with --names");
    o->name = argv[optind];
    return true;
}

/* Prints the file with that name, unchanged. */
static int print_file(struct arena *a, const struct list_options *o, const char *folder)
{
    struct bytes text;
    const char *path = arena_printf(a, "%s/%s.yaml", folder, o->name);
    if (strchr(o->name, '/') || !resource_find(a, o->directory, path, &text)) {
        struct text known = { .arena = a };
        for (const char **name = resource_names(a, o->directory, arena_printf(a, "%s/", folder)); *name; name++)
            text_printf(&known, "%s%s", known.size ? ", " : "", *name);
        die("there is no %s: --print shows one of %s", printable(a, path, strlen(path)), text_str(&known));
    }
    fwrite(text.data, 1, text.size, stdout);
    return 0;
}

static int command_targets(struct arena *a, int argc, char **argv)
{
    static const char help[] =
        "usage: forgec targets [--targets DIR] [--names]\n"
        "       forgec targets NAME --print [--targets DIR]\n"
        "\n"
        "Lists the machines that forgec builds for, and whether their programs run here.\n"
        "\n"
        "      --names            print only the names\n"
        "      --targets DIR      also list the files in DIR; they replace built-in files of the same name\n"
        "      --print            print the file of target NAME (docs/target.md describes the form)\n";
    struct list_options o = { 0 };
    if (!parse_list(a, argc, argv, "targets", true, help, &o)) return 0;
    if (o.name) return print_file(a, &o, "targets");
    const char **names = target_names(a, o.directory);
    size_t width = 0;
    for (const char **name = names; *name; name++) width = strlen(*name) > width ? strlen(*name) : width;
    for (const char **name = names; *name; name++) {
        if (o.names_only) { puts(*name); continue; }
        const struct target *p = target_load(a, *name, o.directory);
        const char *why = target_unsupported_here(a, p);
        printf("%-*s %s%s%s%s\n", (int)width, p->name, p->description, why ? "  (does not run here: " : "", why ? why : "", why ? ")" : "");
    }
    return 0;
}

static int command_models(struct arena *a, int argc, char **argv)
{
    static const char help[] =
        "usage: forgec models [--models DIR]\n"
        "       forgec models NAME --print [--models DIR]\n"
        "\n"
        "Lists the architectures (general.architecture) that forgec compiles.\n"
        "\n"
        "      --models DIR       also list the files in DIR; they replace built-in files of the same name\n"
        "      --print            print the file of architecture NAME (docs/architecture.md describes the form)\n";
    struct list_options o = { 0 };
    if (!parse_list(a, argc, argv, "models", false, help, &o)) return 0;
    if (o.name) return print_file(a, &o, "models");
    for (const char **name = model_names(a, o.directory); *name; name++) puts(*name);
    return 0;
}

static int command_formats(struct arena *a, int argc, char **argv)
{
    (void)a;
    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        fputs("usage: forgec formats\n\nLists the weight formats that forgec reads.\n", stdout);
        return 0;
    }
    if (argc > 1) usage_error("formats takes no operands");
    printf("%-8s %4s %14s %12s %12s\n", "name", "id", "weights/block", "bytes/block", "bits/weight");
    for (uint32_t i = 0; i < FORMAT_COUNT; i++) {
        const struct format *q = &format_table[i];
        printf("%-8s %4u %14u %12u %12.3f\n", q->name, q->id, q->block_weights, q->block_bytes, 8.0 * q->block_bytes / q->block_weights);
    }
    return 0;
}

static const struct { const char *name; int (*run)(struct arena *, int, char **); bool builds; } commands[] = {
    { "build", command_build, true }, { "cc", command_cc, true }, { "verify", command_verify, true },
    { "compare", command_compare, true }, { "tune", command_tune, true }, { "inspect", command_inspect, false },
    { "targets", command_targets, false }, { "models", command_models, false }, { "formats", command_formats, false },
};

/* False if not everything could be written. Reports the reason, unless a reader such as `head` has closed the pipe. */
static bool flush_stdout(void)
{
    errno = 0;                    /* an earlier failure leaves no usable errno */
    if (!fflush(stdout) && !ferror(stdout)) return true;
    const int why = errno;
    struct pollfd out = { .fd = STDOUT_FILENO, .events = POLLOUT };
    const bool reader_is_gone = poll(&out, 1, 0) == 1 && (out.revents & POLLERR);
    if (!reader_is_gone) fprintf(stderr, "forgec: error: cannot write to standard output: %s\n", why ? strerror(why) : "write error");
    return false;
}

int main(int argc, char **argv)
{
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);          /* a file size limit is reported like a full disk */
    cleanup_install_signals();
    if (argc < 2) { fputs(usage, stderr); return 2; }
    static char help[] = "--help";
    char *of_command[] = { argv[0], argc > 2 ? argv[2] : NULL, help, NULL };
    const bool asks = strcmp(argv[1], "help") == 0;
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || (asks && argc == 2)) { fputs(usage, stdout); return 0; }
    if (asks) {                        /* "help build" is "build --help" */
        argc = 3;
        argv = of_command;
    }
    if (strcmp(argv[1], "--version") == 0) { puts("forgec " FORGEC_VERSION); return 0; }
    for (size_t i = 0; i < COUNT_OF(commands); i++)
        if (strcmp(argv[1], commands[i].name) == 0) {
            struct arena *a = arena_create();
            command = commands[i].name;
            opterr = 0;                /* option_error() reports it */
            if (commands[i].builds) refuse_foreign(a, argc - 1, argv + 1);
            const int code = commands[i].run(a, argc - 1, argv + 1);
            arena_destroy(a);
            return flush_stdout() ? code : 1;
        }
    const size_t n = strlen(argv[1]);
    if (n > 5 && strcmp(argv[1] + n - 5, ".gguf") == 0) usage_error("a command is missing: forgec build %s", argv[1]);
    usage_error("unknown command \"%s\"", argv[1]);
}
