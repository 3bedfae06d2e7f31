/* main.c -- the command line: options, help, one function per command. */
#include "compiler/build/build.h"
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
#include <unistd.h>

#ifndef FORGEC_VERSION
#define FORGEC_VERSION "0"
#endif

static const char usage[] =
    "usage: forgec COMMAND ...        (forgec COMMAND --help tells more)\n"
    "\n"
    "  build MODEL.gguf      compile a model into a standalone program or a library\n"
    "  cc SOURCE.c MODEL     the same with an edited emitted source\n"
    "  verify MODEL.gguf     build it, run it, hold its logits against a plain reading of the model\n"
    "  compare MODEL.gguf    speeds with and without fusion, of several models or options, in turns\n"
    "  tune MODEL.gguf       search for the settings with which it runs fastest on a machine\n"
    "  inspect MODEL.gguf    show metadata and tensors   [-t TARGET] [--json]\n"
    "  targets               list the machines forgec builds for   [NAME --print]\n"
    "  models                list the architectures it knows   [NAME --print]\n"
    "  formats               list the weight formats it reads\n"
    "  --version, --help\n";

#define GRAMMAR_OPTIONS \
    "      --grammar FILE     the program's text satisfies this grammar, unless another is given (GBNF)\n" \
    "      --json-schema FILE the same of JSON and a schema\n"
/* Options of build and cc only, then those that verify and compare take as well: a help lists all that its command takes. */
#define PRODUCT_OPTIONS \
    "  -o FILE                output; \"-\" is standard output for text; -t wasm32: a folder for pages and node\n" \
    "      --emit KIND        exe (default), source, asm, plan or graph; as a library for C programs,\n" \
    "                         with a header beside it: obj, lib (static) or shared\n" \
    "      --prefix NAME      of a library's functions, header and default output (default: model)\n" \
    "      --weights WHERE    embed (default), external (OUT.weights beside OUT) or none\n" \
    "      --server           the program can answer HTTP requests (PROGRAM --serve)\n" \
    "      --kernel-tests     -t webgpu: a page that tests each kernel on the visitor's GPU, test.html\n" \
    "      --chat-template FILE  a Jinja template for conversations in the place of the model's own\n" \
    GRAMMAR_OPTIONS
#define BUILD_OPTIONS \
    "  -t, --target T[,T2]    machine to build for (forgec targets; default: this machine);\n" \
    "                         of several the program runs the first that works where it is started,\n" \
    "                         and says when a GPU among them does not; T+T2, TxN: GPUs that share the model\n" \
    "      --plan FILE        tiles and splits as in FILE, which --emit plan wrote and you edited\n" \
    "      --tuned FILE       tiles and kernels' settings as in FILE, which forgec tune wrote\n"
#define COMMON_OPTIONS \
    "      --gpus N           GPU: N of them share the model, at most 8\n" \
    "      --split HOW        GPUs that share: tensor (default) or layer[:N,N]: each has some, or N, layers\n" \
    "      --columns N        GPU: steps of 2 to N tokens, at most 8, read weights once and give each token\n" \
    "                         the bits that a step of its own gives (default: prompts' kernels do them)\n" \
    "      --spec HOW         GPU: ngram: the program looks up what followed its last tokens before, computes\n" \
    "                         up to 7 tokens more in a step (default: --columns 8) and\n" \
    "                         keeps what it would have drawn; mtp: up to 3 tokens\n" \
    "                         (--columns 4) that the model's own draft block (nextn) foretells; none (default)\n" \
    "      --exact            activations in float (GPU: 24 bits in integer products); KV cache f32\n" \
    "      --static           no dynamic libraries\n" \
    "      --allow-spills     GPU: kernels may keep registers in memory\n" \
    "      --save-temps DIR   keep every source and object\n" \
    "      --clang PATH       clang to drive (default: $FORGEC_CLANG, clang-19, newer ones)\n" \
    "      --no-cache         compile everything again\n" \
    "      --templates DIR, --targets DIR, --models DIR\n" \
    "                         files in place of built-in ones of the same name\n" \
    "      --ignore-key KEY   build although the file has this hyperparameter, which forgec does not\n" \
    "                         compute; the results can be wrong (may be given several times)\n" \
    "      --ignore-tensor NAME\n" \
    "                         the same of a tensor that the architecture does not use; * stands for\n" \
    "                         any letters\n" \
    "  -j N                   compile and pack with N jobs (default: all processors)\n"
#define MODEL_OPTIONS \
    "      --ctx N            longest context (default: the model's, at most 8192)\n" \
    "      --kv TYPE          KV cache as f16 (default), f32 or q8_0\n" \
    COMMON_OPTIONS
#define FUSE_OPTION "      --fuse LEVEL       layer (default) or none: one kernel per operation\n"
#define THREADS_OPTION \
    "      --threads N        CPU: most threads the program can use (default 64); of a library: parts\n" \
    "                         that each kernel is cut into (default 8)\n"
#define PRINT_OPTIONS \
    "  -v                     print commands and times;  -###  print the commands only\n" \
    "  -q, --quiet            no progress, no closing line\n"

static const char build_usage[] =
    "usage: forgec build MODEL.gguf [options]\n"
    "\n"
    BUILD_OPTIONS PRODUCT_OPTIONS FUSE_OPTION MODEL_OPTIONS THREADS_OPTION PRINT_OPTIONS
    "exit codes: 0 ok, 1 bad input or failure, 2 wrong usage, 130 interrupted\n";

static const char cc_usage[] =
    "usage: forgec cc SOURCE.c MODEL.gguf [options]\n"
    "\n"
    "Compiles an edited source that `forgec build MODEL.gguf --emit source` wrote and packs the\n"
    "weights of the model for it. Target, context and fusion must be the ones it was emitted with; the\n"
    "head of the source tells them. The program's --info tells that it was edited; forgec verify --source\n"
    "holds it against the model.\n"
    "\n"
    BUILD_OPTIONS
    "  -o FILE                output\n"
    "      --emit KIND        exe (default) or asm\n"
    "      --weights WHERE    embed (default), external (OUT.weights beside OUT) or none\n" \
    "      --server           the program can answer HTTP requests (PROGRAM --serve)\n"
    GRAMMAR_OPTIONS
    FUSE_OPTION MODEL_OPTIONS THREADS_OPTION PRINT_OPTIONS
    "exit codes: 0 ok, 1 bad input or failure, 2 wrong usage, 130 interrupted\n";

static const char verify_usage[] =
    "usage: forgec verify MODEL.gguf [options]\n"
    "\n"
    "Builds the program into a temporary directory, runs it on random tokens and compares the logits of\n"
    "every position, once through the prompt kernels and once token by token, with an interpreter that\n"
    "reads the GGUF plainly. Programs for another machine run in qemu where it is installed, those for\n"
    "wasm32 in node, those for a GPU only where that GPU is, or with --simulate.\n"
    "\n"
    "      --simulate         gfx1100, gfx1151, gfx942: run the machine code in forgec's simulator, with its\n"
    "                         checks of every access (slow: for small models; no AMD GPU or driver is needed);\n"
    "                         then the least time of each part of the chip, as of compare\n"
    "      --source FILE      of the program: one that --emit source wrote and you edited (forgec cc)\n"
    "      --tokens N         random tokens (default 320, of large models down to 32; with --simulate 8)\n"
    "      --seed S           of the random tokens (default 1)\n"
    "      --json             the report as JSON\n"
    BUILD_OPTIONS FUSE_OPTION MODEL_OPTIONS THREADS_OPTION
    "  -v                     print commands and times\n"
    "exit codes: 0 within bounds, 1 not (or it could not be built or run), 2 wrong usage, 130 interrupted\n";

static const char compare_usage[] =
    "usage: forgec compare MODEL.gguf [MODEL.gguf...] [options]\n"
    "\n"
    "Builds programs, all combinations of the models and of the values of these options, and runs their\n"
    "--bench in turns on this machine, CPU, GPU or node: tok/s, launches and bytes per token, share of the\n"
    "bandwidth, how far logits of one model are apart. The first one is what the others are held against.\n"
    "\n"
    "  -t, --target LIST      machines to build for and to run on (forgec targets; default: this machine)\n"
    "      --fuse LIST        none, layer (default: both of one model without another list, else layer)\n"
    "      --kv LIST          KV cache as f16 (default), f32, q8_0\n"
    "      --ctx LIST         longest contexts (default: the model's, at most 8192)\n"
    "      --plan FILE        an edited plan of --emit plan; default: none (may be given several times)\n"
    "      --tuned FILE       settings that forgec tune wrote; default: none (may be given several times)\n"
    "      --source FILE      an edited source of --emit source; default: none (may be given several times)\n"
    "\n"
    "  -o FORM                md (default), json or html, on standard output; html: one page, with each kernel's\n"
    "                         time, bytes, operations, differences of sources\n"
    "  -p N, -n N             tokens of the prompt and tokens generated (default 128 and 64)\n"
    "  -r R                   rounds, each of all programs there and back; the report shows medians (default\n"
    "                         8 for two programs, more for more: one more than tell any difference)\n"
    "      --min-time S       seconds that a program takes at least in a round, for each speed (default 0.5)\n"
    "      --threads N        CPU: threads the programs run with (default: theirs)\n"
    "      --simulate         gfx1100, gfx1151, gfx942: no times, but what forgec's simulator counts while a\n"
    "                         prompt is read and tokens are decoded: instructions, bytes, coalescing, bank\n"
    "                         conflicts, and for each kernel the least time of each part of the chip (-p and\n"
    "                         -n: default 8; without -r, --min-time and --threads)\n"
    "      --sample N         with --simulate: of launches of matrix kernels only N groups run and stand for\n"
    "                         all; for large models and prompts, whose logits are not compared; -n is then 1\n"
    COMMON_OPTIONS
    "  -v                     print commands and times\n"
    "exit codes: 0 ok, 1 bad input or failure, 2 wrong usage, 130 interrupted\n";

static const char tune_usage[] =
    "usage: forgec tune MODEL.gguf [options]\n"
    "\n"
    "Builds programs with other settings than the planner's own (GPU: rows, lanes, threads, groups, splits and\n"
    "tiles of each kernel, chunks; CPU: tiles, chunks), leaves out what the cost model thinks slower, measures\n"
    "each kernel in turns with the planner's own and writes what is faster, and as a whole, to a file that\n"
    "forgec build --tuned FILE takes. Weights are noise meanwhile: the file's tensors are not needed.\n"
    "Interrupted, the same command goes on where it was.\n"
    "\n"
    "  -o FILE                settings (default: tuned/TARGET-SHAPE-FORMATS.yaml)\n"
    "      --on COMMAND       runs a program and its arguments, which stand behind it, on the machine to tune\n"
    "                         for: \"ssh box\" where that has the same files (default: here)\n"
    "      --minutes N        until it compares what it has found, which takes a minute or a few (default 30)\n"
    "  -d LIST                tokens before the one that is decoded, up to 3 (default 512)\n"
    "  -p LIST                tokens of a prompt's step, up to 3, the smallest first (default 128,512)\n"
    "  -r R                   rounds of each comparison, up to 15 (default 3)\n"
    "      --candidates N     most programs of a step of the search, up to 24 (default 10)\n"
    "  -t, --target T         machine to build for (forgec targets; default: this machine)\n"
    FUSE_OPTION MODEL_OPTIONS THREADS_OPTION
    "                         (all but --allow-spills, --save-temps and --split layer)\n"
    "  -v                     print commands, and why programs were left out\n"
    "exit codes: 0 ok, 1 bad input or failure, 2 wrong usage, 130 interrupted\n";

static const char inspect_usage[] =
    "usage: forgec inspect MODEL.gguf [-t TARGET] [--json]\n"
    "\n"
    "Shows metadata and tensors.\n"
    "\n"
    "  -t, --target T         with the bytes that tensors take packed for a target (forgec targets), as they stand\n"
    "                         in memory; -: its kernels do not read such a tensor\n"
    "      --targets DIR      files in place of built-in ones of the same name\n"
    "      --json             as JSON\n";

/* The command that is running, for messages; NULL before it is known. */
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

/* ---- option values ---- */

static uint32_t parse_count(const char *option, const char *text, uint32_t most)
{
    char *end;
    errno = 0;
    const unsigned long n = strtoul(text, &end, 10);
    if (errno || end == text || *end || *text == '-' || n < 1 || n > most)
        usage_error("%s: \"%s\" is no number from 1 to %u", option, text, most);
    return (uint32_t)n;
}

/* What getopt_long (with opterr 0 and a ':' in front of the short options) did not take, in the words of the other errors. */
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

/* getopt_long, but that a value is never empty. */
static int next_option(int argc, char **argv, const char *letters, const struct option *table)
{
    const int c = getopt_long(argc, argv, letters, table, NULL);
    if (c == -1 || c == ':' || c == '?' || !optarg || *optarg) return c;
    const char *word = argv[optind - 1][0] ? argv[optind - 1] : argv[optind - 2];          /* "--models=", or "--models" and "" */
    usage_error("%.*s needs a value", (int)strcspn(word, "="), word);
}

/* A folder whose files replace built-in ones; one that is not there would be a typing error that nobody sees. */
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
    usage_error("%s: \"%s\" is none of %s", option, text, list);
}

static void parse_targets(struct arena *a, struct build_options *o, const char *text)
{
    for (const char *p = text; ; p++) {
        const size_t n = strcspn(p, ",");
        if (!n) usage_error("--target: an empty name");
        if (o->n_targets == COUNT_OF(o->targets)) usage_error("--target: at most %zu targets", COUNT_OF(o->targets));
        o->targets[o->n_targets++] = arena_strndup(a, p, n);
        p += n;
        if (!*p) return;
    }
}

/* ---- build and cc ---- */

enum { MTP_COLUMNS = 4 };           /* of --spec mtp, unless --columns says otherwise: beyond three drafts few are right */
enum { OPT_GRAMMAR = 256, OPT_SCHEMA, OPT_EMIT, OPT_FUSE, OPT_CTX, OPT_KV, OPT_GPUS, OPT_SPLIT, OPT_COLUMNS, OPT_SPEC, OPT_EXACT,
       OPT_WEIGHTS, OPT_THREADS,
       OPT_STATIC, OPT_SERVER, OPT_ALLOW_SPILLS, OPT_SAVE_TEMPS, OPT_CLANG, OPT_NO_CACHE, OPT_TEMPLATES,
       OPT_TARGETS, OPT_MODELS, OPT_DRY_RUN, OPT_PREFIX, OPT_PLAN, OPT_IGNORE_KEY, OPT_IGNORE_TENSOR, OPT_TUNED, OPT_CHAT_TEMPLATE,
       OPT_KERNEL_TESTS, OPT_HELP };

static const struct option build_options_table[] = {
    { "target", required_argument, NULL, 't' },          { "output", required_argument, NULL, 'o' },
    { "emit", required_argument, NULL, OPT_EMIT },       { "fuse", required_argument, NULL, OPT_FUSE },
    { "ctx", required_argument, NULL, OPT_CTX },         { "kv", required_argument, NULL, OPT_KV },
    { "gpus", required_argument, NULL, OPT_GPUS },       { "split", required_argument, NULL, OPT_SPLIT },
    { "columns", required_argument, NULL, OPT_COLUMNS }, { "spec", required_argument, NULL, OPT_SPEC },
    { "exact", no_argument, NULL, OPT_EXACT },           { "weights", required_argument, NULL, OPT_WEIGHTS },
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
    { "help", no_argument, NULL, OPT_HELP },
    { NULL, 0, NULL, 0 },
};

static bool is_among(const char *const *names, const char *name)
{
    for (; *names; names++) if (!strcmp(*names, name)) return true;
    return false;
}

/* "gfx942x8": eight of *name, which becomes "gfx942"; 1: a target has that name, or none has. */
static uint32_t read_times(struct arena *a, const struct build_options *o, const char **name)
{
    const char *x = strrchr(*name, 'x');
    if (!x || x == *name || x[1] < '1' || x[1] > '9' || x[2]) return 1;
    const char *const *names = profile_names(a, o->targets_dir), *base = arena_strndup(a, *name, (size_t)(x - *name));
    if (is_among(names, *name) || !is_among(names, base)) return 1;
    *name = base;
    return (uint32_t)(x[1] - '0');
}

/* "tensor", "layer", "layer:20,12". */
static void take_split(struct arena *a, struct build_options *o, const char *text)
{
    static const char *const splits[] = { "tensor", "layer", NULL };
    const char *colon = strchr(text, ':');
    uint32_t n = 0;
    o->plan.split = (enum split_kind)parse_choice("--split", colon ? arena_strndup(a, text, (size_t)(colon - text)) : text, splits);
    if (colon && o->plan.split != SPLIT_LAYER) usage_error("--split %s: numbers of layers are for layer", text);
    for (const char *p = colon; p && *p; p += strcspn(p, ",")) {
        if (n == FORGE_GPU_MAX_RANKS) usage_error("--split %s: at most %d GPUs share a model", text, FORGE_GPU_MAX_RANKS);
        p++;
        o->layers[n++] = parse_count("--split", arena_strndup(a, p, strcspn(p, ",")), 1u << 16);
    }
    if (o->gpus < 2) usage_error("--split is for several GPUs: give --gpus N, or -t TARGETxN");
    if (o->row[0] && o->plan.split != SPLIT_LAYER) usage_error("--split %s: GPUs of several kinds share by layer", text);
    if (n && n != o->gpus) usage_error("--split %s: layers of %u GPUs, of %u that share the model", text, n, o->gpus);
}

/* "gfx1100+gfx1151": GPUs of several kinds in a row. */
static void take_row(struct arena *a, struct build_options *o)
{
    uint32_t n = 0;
    for (const char *p = o->targets[0]; ; p++) {
        const size_t length = strcspn(p, "+");
        const char *name = arena_strndup(a, p, length);
        if (!length) usage_error("--target %s: an empty name", o->targets[0]);
        for (uint32_t times = read_times(a, o, &name); times-- > 0; ) {
            if (n == FORGE_GPU_MAX_RANKS) usage_error("--target %s: at most %d GPUs share a model", o->targets[0], FORGE_GPU_MAX_RANKS);
            o->row[n++] = name;
        }
        p += length;
        if (!*p) break;
    }
    if (o->gpus && o->gpus != n) usage_error("--target %s and --gpus %u say different things", o->targets[0], o->gpus);
    o->targets[0] = o->row[0];
    o->gpus = n;
    o->plan.split = SPLIT_LAYER;
}

/* "gfx942x8" is gfx942 with --gpus 8, unless a target has that name. */
static void take_gpus(struct arena *a, struct build_options *o)
{
    if (o->n_targets != 1) return;
    if (strchr(o->targets[0], '+')) {
        take_row(a, o);
        return;
    }
    const char *name = o->targets[0], *base = name;
    const uint32_t gpus = read_times(a, o, &base);
    if (base == name) return;
    if (gpus > FORGE_GPU_MAX_RANKS) usage_error("--target %s: at most %d GPUs share a model", name, FORGE_GPU_MAX_RANKS);
    if (o->gpus && o->gpus != gpus) usage_error("--target %s and --gpus %u say different things", name, o->gpus);
    o->targets[0] = base;
    o->gpus = gpus;
}

/* An option that none of the targets has a use for is a mistake. */
static void refuse_unless(struct arena *a, const struct build_options *o, enum target_kind kind, const char *option, const char *what)
{
    for (uint32_t i = 0; i < o->n_targets; i++) if (profile_load(a, o->targets[i], o->targets_dir)->kind == kind) return;
    if (!o->n_targets && kind == TARGET_CPU) return;                   /* native is one */
    usage_error("%s is for a %s, and %s is none", option, what, o->n_targets ? o->targets[0] : "this machine's target");
}

/* Reads the options into o; returns the index of the first operand in argv. */
static int parse_build(struct arena *a, int argc, char **argv, struct build_options *o, const char *help)
{
    static const char *const emits[] = { "exe", "source", "asm", "plan", "graph", "obj", "lib", "shared", NULL },
                      *const fuses[] = { "none", "layer", NULL }, *const places[] = { "embed", "external", "none", NULL },
                      *const kvs[] = { "f16", "f32", "q8_0", NULL }, *const specs[] = { "none", "ngram", "mtp", NULL };
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
        case 'h': case OPT_HELP: fputs(help, stdout); exit(0);
        case OPT_EMIT: o->emit = (enum emit_kind)parse_choice("--emit", optarg, emits); break;
        case OPT_FUSE: o->fuse = (enum fuse_level)parse_choice("--fuse", optarg, fuses); break;
        case OPT_CTX: o->plan.n_ctx = parse_count("--ctx", optarg, 1u << 24); break;
        case OPT_KV: o->plan.kv = (enum kv_type)parse_choice("--kv", optarg, kvs); kv_given = true; break;
        case OPT_GPUS:    o->gpus = parse_count("--gpus", optarg, FORGE_GPU_MAX_RANKS); break;
        case OPT_SPLIT:   split = optarg; break;
        case OPT_COLUMNS: o->plan.columns = parse_count("--columns", optarg, FORGE_MAX_COLUMNS); break;
        case OPT_SPEC: o->plan.spec = (enum spec_kind)parse_choice("--spec", optarg, specs); break;
        case OPT_EXACT: o->plan.exact = true; break;
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
    if (o->plan.exact && !kv_given) o->plan.kv = KV_TYPE_F32;
    if (o->prefix && !library_wanted(o)) usage_error("--prefix is for --emit obj, lib and shared");
    const char *wrong = o->prefix ? library_prefix_wrong(a, o->prefix) : NULL;
    if (wrong) usage_error("--prefix: %s", wrong);
    if (o->plan.max_threads) refuse_unless(a, o, TARGET_CPU, "--threads", "CPU");
    if (o->plan.spec) refuse_unless(a, o, TARGET_GPU, "--spec", "GPU");
    if (o->plan.spec && library_wanted(o)) usage_error("--spec is for programs: a library's caller draws each token before the next step");
    if (o->plan.spec && !o->plan.columns) o->plan.columns = o->plan.spec == SPEC_MTP ? MTP_COLUMNS : FORGE_MAX_COLUMNS;
    if (o->plan.columns == 1) usage_error("--columns: 2 to 8 tokens go together");
    if (o->plan.columns) refuse_unless(a, o, TARGET_GPU, "--columns", "GPU");
    if (o->gpus > 1) refuse_unless(a, o, TARGET_GPU, "--gpus", "GPU");
    if (o->allow_spills) refuse_unless(a, o, TARGET_GPU, "--allow-spills", "GPU");
    if (o->kernel_tests) refuse_unless(a, o, TARGET_WEBGPU, "--kernel-tests", "target of WebGPU");
    if (o->kernel_tests && o->emit != EMIT_EXE) usage_error("--kernel-tests is for the folder that --emit exe makes");
    if (o->kernel_tests && o->weights == WEIGHTS_NONE) usage_error("--kernel-tests needs the weights: it does not go with --weights none");
    return optind;
}

static int command_build(struct arena *a, int argc, char **argv)
{
    struct build_options o = { 0 };
    const int first = parse_build(a, argc, argv, &o, build_usage);
    if (argc - first != 1) usage_error("build takes one model, got %d", argc - first);
    o.model_path = argv[first];
    const char *out = build(a, &o);
    if (!o.quiet && !o.cc.spawn.dry_run && strcmp(out, "-")) fprintf(stderr, "forgec: wrote %s\n", out);
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
    const char *out = build(a, &o);
    if (!o.quiet && !o.cc.spawn.dry_run) fprintf(stderr, "forgec: wrote %s\n", out);
    return 0;
}

/* ---- verify and compare: options of their own beside those of build ---- */

/* What argv[i] gives the option "--name" or "-n" as its value, in this word or the next; NULL: it is another word. */
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

/* Takes the first NAME VALUE (also --NAME=VALUE, -NVALUE) out of argv; letter: another name, or NULL.  NULL when there is none. */
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

/* The last one counts. */
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
        usage_error("%s: \"%s\" is no number of seconds from 0.001 to 3600", name, text);
    return seconds;
}

/* verify and compare: what options for products they refuse. */
static void need_no_product(struct build_options *o, const char *name)
{
    if (o->out_path || o->emit != EMIT_EXE || o->weights != WEIGHTS_EMBED || o->cc.spawn.dry_run)
        usage_error("%s keeps no program: %s--emit, --weights and -### do not go with it", name, strcmp(name, "verify") ? "" : "-o, ");
    if (o->kernel_tests) usage_error("%s: --kernel-tests is for forgec build", name);
    if (o->grammar_path || o->schema_path) usage_error("%s: --grammar and --json-schema do not go with it", name);
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
    need_no_product(&o.build, "verify");
    o.build.model_path = argv[first];
    return verify(a, &o);
}

/* Options of one program: those of all, argv, and its own values.  The models are argv[*first] and the next, then. */
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
    optind = 0;                        /* getopt begins again */
    *first = parse_build(a, n, words, &program.build, compare_usage);
    need_no_product(&program.build, "compare");
    program.build.model_path = is->value[DIM_MODEL];
    program.build.source = is->value[DIM_SOURCE];
    return program;
}

/* Every combination of what was given. */
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
        if (programs[i].build.n_targets > 1) usage_error("--target: a program of compare has one; write the option in full");
        if (o->n_threads) refuse_unless(a, &programs[i].build, TARGET_CPU, "--threads", "CPU");
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
    const char *format = take_value(&argc, argv, "--output", "-o");
    if (format) o.format = (enum compare_format)parse_choice("-o", format, formats);
    if (o.simulate && (o.rounds || o.n_threads || o.min_time > 0))
        usage_error("-r, --min-time and --threads are for measured times: not with --simulate");
    if (o.sample && !o.simulate) usage_error("--sample is for what --simulate counts");
    parse_programs(a, argc, argv, &o);
    return compare(a, &o);
}

/* "128,512"; returns how many. */
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
    if (o.build.cc.save_temps || o.build.allow_spills) usage_error("%s does not go with tune", o.build.cc.save_temps ? "--save-temps"
                                                                                                                     : "--allow-spills");
    if (o.build.n_targets > 1) usage_error("tune takes one target");
    if (o.build.plan.split == SPLIT_LAYER) usage_error("tune is for one GPU, or for --split tensor: settings are of all layers");
    if (o.build.plan_path || o.build.tuned_path) usage_error("tune searches from the planner's own settings: not with --plan or --tuned");
    o.path = path;
    return tune(a, &o);
}

/* ---- the small ones ---- */

static int command_inspect(struct arena *a, int argc, char **argv)
{
    static const struct option table[] = { { "json", no_argument, NULL, 'J' }, { "target", required_argument, NULL, 't' },
                                           { "targets", required_argument, NULL, 'D' }, { "help", no_argument, NULL, 'h' },
                                           { NULL, 0, NULL, 0 } };
    bool json = false;
    const char *target = NULL, *directory = NULL;
    for (int c; (c = next_option(argc, argv, ":ht:", table)) != -1; )
        switch (c) {
        case 'J': json = true; break;
        case 't': target = optarg; break;
        case 'D': directory = need_folder("--targets", optarg); break;
        case 'h': fputs(inspect_usage, stdout); return 0;
        default: option_error(c, argv, table);
        }
    if (argc - optind != 1) usage_error("inspect takes one file, got %d", argc - optind);
    if (directory && !target) usage_error("--targets is for a target: -t NAME");
    const struct profile *profile = target ? profile_load(a, target, directory) : NULL;
    inspect_print(a, gguf_open(a, argv[optind], true), json, profile);
    return 0;
}

/* targets and models: what is built in and, with --targets DIR or --models DIR, in a folder of the user's in front of it. */
struct list_options { const char *directory, *name; bool names_only; };

/* folder_option: "targets" or "models", for a folder's files.  False after --help. */
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
    if (print && o->names_only) usage_error("--print and --names exclude each other");
    o->name = argv[optind];
    return true;
}

/* The file behind a name, as it is read. */
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
        "Lists the machines forgec builds for and whether their programs run here.\n"
        "\n"
        "      --names            only their names\n"
        "      --targets DIR      files in place of built-in ones of the same name, and others\n"
        "      --print            the file of one, as docs/target.md describes it\n";
    struct list_options o = { 0 };
    if (!parse_list(a, argc, argv, "targets", true, help, &o)) return 0;
    if (o.name) return print_file(a, &o, "targets");
    const char **names = profile_names(a, o.directory);
    size_t width = 0;
    for (const char **name = names; *name; name++) width = strlen(*name) > width ? strlen(*name) : width;
    for (const char **name = names; *name; name++) {
        if (o.names_only) { puts(*name); continue; }
        const struct profile *p = profile_load(a, *name, o.directory);
        const char *why = profile_unsupported_here(a, p);
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
        "      --models DIR       files in place of built-in ones of the same name, and others\n"
        "      --print            the file of one, as docs/architecture.md describes it\n";
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

static const struct { const char *name; int (*run)(struct arena *, int, char **); } commands[] = {
    { "build", command_build }, { "cc", command_cc }, { "verify", command_verify }, { "compare", command_compare },
    { "tune", command_tune }, { "inspect", command_inspect }, { "targets", command_targets },
    { "models", command_models }, { "formats", command_formats },
};

/* False where not all could be written; why is said, unless a reader like `head` has simply gone. */
static bool flush_stdout(void)
{
    errno = 0;                    /* of a failure before this one nothing is known */
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
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) { fputs(usage, stdout); return 0; }
    if (strcmp(argv[1], "--version") == 0) { puts("forgec " FORGEC_VERSION); return 0; }
    for (size_t i = 0; i < COUNT_OF(commands); i++)
        if (strcmp(argv[1], commands[i].name) == 0) {
            struct arena *a = arena_create();
            command = commands[i].name;
            opterr = 0;                /* option_error() says it */
            const int code = commands[i].run(a, argc - 1, argv + 1);
            arena_destroy(a);
            return flush_stdout() ? code : 1;
        }
    usage_error("unknown command \"%s\"", argv[1]);
}
