/* web.c -- links the module in memory, writes the folder under another name beside its final place, and renames it. */
#include "web.h"
#include "compiler/base/gzip.h"
#include "compiler/base/resource.h"
#include "compiler/build/link.h"
#include "compiler/source/program.h"
#include "compiler/web/emit.h"
#include "compiler/web/small.h"
#include "header.h"
#include "library_sizes.h"
#include "runtime/model/state.h"
#include "runtime/web/vocab.h"
#include <cjson/cJSON.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sha2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STACK_BYTES = 1 << 20, TEXT_USUAL = 4096, CODE_MOST = 4 << 20 };
enum { PIECES_REMEMBERED = 96 };  /* per target; removed when forgec dies: 4 GiB have 64 pieces with wasm32.yaml */
static const uint64_t MEMORY_MOST = (uint64_t)4 << 30;

static const char *const files[] = { "model.bin", "model.js", "index.html", "page.js", "page.css", "worker.js", "cache.js", "sw.js",
                                     "model.d.ts", "run.js", "package.json", "gpu.js", "kernels.bin", "launches.bin",
                                     "test.html", "test.css", "test.js", "test_worker.js", "test_kernels.js", "tests.json", "tests.bin" };
static const char *const former[] = { "model.wasm", "kernels.wgsl", "kernels.json" };        /* of other versions */
/* The files from model.js to run.js are texts of runtime/web; sw.js keeps the files before it for use without a network. The files after
 * package.json are WebGPU's; the last seven of them test kernels. */
#define INNER "wasm32"                /* the folder of a page's fallback: its module and its weights */
enum { FILE_WASM, FILE_JS, FILE_SW = 7, FILE_RUN = 9, FILE_PACKAGE, FILE_GPU, FILE_KERNELS, FILE_LAUNCHES, FILE_TEST,
       FILE_TEST_TEXTS = FILE_TEST + 5, FILE_TESTS = FILE_TEST_TEXTS, FILE_TEST_VALUES };

/* A file's entry in model.js. */
struct web_file { const char *name; uint64_t bytes; char sha256[SHA256_DIGEST_STRING_LENGTH]; };

bool web_wanted(const struct build_options *o, const struct target *p) { return o->emit == EMIT_EXE && p->web; }

bool web_is_pair(const struct target *first, const struct target *second)
{
    return first->kind == TARGET_WEBGPU && second->kind == TARGET_CPU && second->web;
}

void web_check(const struct build_options *o, const struct target *p, bool pair)
{
    const char *wrong = o->n_targets > 1 && !pair ? "takes one target, or webgpu,wasm32: the second is what a page falls back to"
        : o->is_static ? "has no use for --static"
        : o->has_server ? "needs no --server: any file server can serve it"
        : o->weights == WEIGHTS_NONE && p->kind != TARGET_WEBGPU
        ? "has its weights in pieces beside it; --weights none is for objects and programs"
        : o->plan.max_threads > 1 ? "has one thread: --threads is for programs and libraries" : NULL;
    if (wrong) die("a folder for pages (%s) %s", p->name, wrong);
}

const char *web_program(struct arena *a, const char *out) { return arena_printf(a, "%s/%s", out, files[FILE_RUN]); }

/* ---- a folder that already exists ---- */

static bool is_piece(const char *name)
{
    const size_t digits = strncmp(name, "weights-", 8) ? 0 : strspn(name + 8, "0123456789");
    return digits > 0 && strcmp(name + 8 + digits, ".bin") == 0;
}

static bool is_ours(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(files); i++) if (strcmp(name, files[i]) == 0) return true;
    for (size_t i = 0; i < COUNT_OF(former); i++) if (strcmp(name, former[i]) == 0) return true;
    return is_piece(name);
}

/* True for the names that the fallback's folder contains. */
static bool is_inner(const char *name) { return strcmp(name, files[FILE_WASM]) == 0 || is_piece(name); }

const char **web_names(struct arena *a, const char *path)
{
    DIR *d = opendir(path);
    if (!d) return NULL;
    const char **names = NULL;
    size_t n = 0, room = 0;
    for (struct dirent *e; (e = readdir(d)); ) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        arena_room(a, names, n, room);
        names[n++] = arena_strdup(a, e->d_name);
    }
    closedir(d);
    arena_room(a, names, n, room);
    names[n] = NULL;
    return names;
}

static bool has_mark(struct arena *a, const char *path)
{
    if (!file_exists(path)) return false;
    const struct bytes text = file_read(a, path);
    return memmem(text.data, text.size, HEADER_MARK, strlen(HEADER_MARK)) != NULL;
}

/* An unexpected entry in the fallback's folder, or a file in its place; NULL: none. */
static const char *not_inner(struct arena *a, const char *path)
{
    struct stat st;
    if (lstat(path, &st)) return NULL;
    const char **names = S_ISDIR(st.st_mode) ? web_names(a, path) : NULL;
    if (!names) return INNER;
    for (size_t i = 0; names[i]; i++)
        if (!is_inner(names[i])) return arena_printf(a, INNER "/%s", printable(a, names[i], strlen(names[i])));
    return NULL;
}

/* NULL if the folder may be replaced, else the reason why not. */
static const char *not_ours(struct arena *a, const char *out)
{
    const char **names = web_names(a, out);
    if (!names) return strerror(errno);
    if (!names[0]) return NULL;
    const char *foreign = not_inner(a, arena_printf(a, "%s/%s", out, INNER));
    if (foreign) return arena_printf(a, "it contains %s, which forgec did not write", foreign);
    for (size_t i = 0; names[i]; i++)
        if (!is_ours(names[i]) && strcmp(names[i], INNER))
            return arena_printf(a, "it contains %s, which forgec did not write", printable(a, names[i], strlen(names[i])));
    for (size_t i = FILE_JS; i <= FILE_RUN; i++) {   /* a user's own index.html has no mark; other versions wrote fewer files */
        const char *path = arena_printf(a, "%s/%s", out, files[i]);
        if (file_exists(path) && !has_mark(a, path)) return arena_printf(a, "it contains %s, which forgec did not write", files[i]);
    }
    const bool tested = file_exists(arena_printf(a, "%s/%s", out, files[FILE_TEST]));
    for (size_t i = FILE_TEST; i < COUNT_OF(files); i++) {              /* a test.html, or tests.json without it, may be the user's own */
        const char *path = arena_printf(a, "%s/%s", out, files[i]);
        if (file_exists(path) && (i < FILE_TEST_TEXTS ? !has_mark(a, path) : !tested))
            return arena_printf(a, "it contains %s, which forgec did not write", files[i]);
    }
    return file_exists(arena_printf(a, "%s/%s", out, files[FILE_JS])) ? NULL : "forgec did not write it";
}

void web_claim(struct arena *a, const char *out)
{
    struct stat st;
    if (lstat(out, &st)) {
        if (errno != ENOENT) die("%s: %s; choose another output path", out, strerror(errno));
        return;
    }
    if (!S_ISDIR(st.st_mode)) die("%s: exists and is not a folder; choose another output path", out);
    const char *why = not_ours(a, out);
    if (why) die("%s: the folder will not be replaced: %s; choose another output path", out, why);
}

static void remove_files(struct arena *a, const char *folder)
{
    const char *inner = arena_printf(a, "%s/%s", folder, INNER);
    const char **names = web_names(a, inner);
    for (size_t i = 0; names && names[i]; i++) if (is_inner(names[i])) unlink(arena_printf(a, "%s/%s", inner, names[i]));
    rmdir(inner);
    names = web_names(a, folder);
    for (size_t i = 0; names && names[i]; i++) if (is_ours(names[i])) unlink(arena_printf(a, "%s/%s", folder, names[i]));
    rmdir(folder);
}

/* ---- writing ---- */

struct folder {
    struct arena    *arena;
    const char      *path;                       /* until it is renamed */
    struct web_file *pieces;
    size_t           n_pieces, room;
    struct outfile   piece;                      /* the piece being written, while left > 0 */
    uint64_t         piece_bytes, left, weights_left;      /* maximum of a piece; bytes left for this piece; for all pieces after it */
    SHA2_CTX         hash;
};

static struct outfile file_begin(struct folder *f, const char *name)
{
    const char *path = arena_printf(f->arena, "%s/%s", f->path, name);
    if (f->n_pieces <= PIECES_REMEMBERED) cleanup_unlink_at_exit(path);
    return outfile_open(f->arena, path, 0666);
}

static void piece_begin(struct folder *f)
{
    arena_room(f->arena, f->pieces, f->n_pieces, f->room);
    struct web_file *p = &f->pieces[f->n_pieces];
    f->left = f->weights_left < f->piece_bytes ? f->weights_left : f->piece_bytes;
    f->weights_left -= f->left;
    *p = (struct web_file){ .name = arena_printf(f->arena, "weights-%zu.bin", f->n_pieces), .bytes = f->left };
    f->n_pieces++;
    f->piece = file_begin(f, p->name);
    SHA256Init(&f->hash);
}

/* Writes bytes of the image into pieces. */
static void piece_take(void *context, const void *data, size_t n)
{
    struct folder *f = context;
    for (const uint8_t *at = data; n > 0;) {
        if (f->left == 0 && f->weights_left == 0)
            die("%s: more weights than were announced; this is a mistake in forgec, please report it", f->path);
        if (f->left == 0) piece_begin(f);
        const size_t now = n < f->left ? n : (size_t)f->left;
        outfile_write(&f->piece, at, now);
        SHA256Update(&f->hash, at, now);
        at += now;
        n -= now;
        if ((f->left -= now) > 0) continue;
        outfile_commit(&f->piece);
        SHA256End(&f->hash, f->pieces[f->n_pieces - 1].sha256);
    }
}

static struct web_file write_file(struct folder *f, const char *name, struct bytes data)
{
    struct web_file facts = { .name = name, .bytes = data.size };
    struct outfile out = file_begin(f, name);
    outfile_write(&out, data.data, data.size);
    outfile_commit(&out);
    SHA256Data(data.data, data.size, facts.sha256);
    return facts;
}

/* Compressed by forgec, because many servers do not compress. The name does not show it, because some servers would then decompress the
 * file. */
static struct web_file write_packed(struct folder *f, const char *name, struct bytes data)
{
    return write_file(f, name, gzip_pack(f->arena, data));
}

/* ---- the facts for model.js ---- */

static cJSON *file_json(const struct web_file *file)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "file", file->name);
    cJSON_AddNumberToObject(o, "bytes", (double)file->bytes);
    cJSON_AddStringToObject(o, "sha256", file->sha256);
    return o;
}

/* Bytes of memory for a text of n bytes: n * each + fixed. */
static void add_linear(cJSON *o, const char *name, uint64_t each, uint64_t fixed)
{
    cJSON *pair = cJSON_AddArrayToObject(o, name);
    cJSON_AddItemToArray(pair, cJSON_CreateNumber((double)each));
    cJSON_AddItemToArray(pair, cJSON_CreateNumber((double)fixed));
}

struct web_sizes { uint64_t workspace, room, total; struct library_sizes host; struct library_text_sizes text; };

/* The memory of a module: the stack, the linked data, weights, instance, logits, tokens, and room for texts. */
static struct web_sizes sizes_of(const struct library_input *in)
{
    const struct plan *p = in->plan;
    struct web_sizes s = { .host = library_sizes(p->options.n_ctx, p->arena_bytes, p->state_bytes),
                           .text = library_text_sizes(in->vocab.data, p->model->n_vocab) };
    s.workspace = s.host.workspace_bytes + (p->model->pooling ? library_rows_bytes(p->chunk, p->model->n_embd) : 0);
    s.room = s.host.scratch_fixed + (uint64_t)TEXT_USUAL * (s.host.scratch_per_byte + 8);
    const uint64_t chat = s.text.chat_fixed + TEXT_USUAL * (s.text.chat_per_byte + 1) + s.text.answer_usual;
    if (in->chat.data && chat > s.room) s.room = chat;
    if (p->web) s.workspace = 0;                         /* the model's working memory is on the GPU */
    s.total = STACK_BYTES + CODE_MOST + in->vocab.size + in->chat.size + in->grammar.size + (p->web ? 0 : in->weights_bytes) +
        s.workspace + s.room + 4 * ((uint64_t)p->model->n_vocab + p->options.n_ctx);
    return s;
}

static void check_memory(const struct library_input *in, const struct web_sizes *s)
{
    const struct plan *p = in->plan;
    if (s->total <= MEMORY_MOST) return;
    const uint32_t fits = state_fits(s->total, p->state_bytes_per_token, p->options.n_ctx, MEMORY_MOST);
    char remedy[128] = "weights of fewer bits are needed";
    if (fits > 0)
        snprintf(remedy, sizeof remedy, "it fits with --ctx %u%s", fits, p->options.kv == KV_TYPE_Q8_0 ? "" : ", of --kv q8_0 with more");
    const double gib = 1.0 / (1 << 30);
    die("%s: a module of WebAssembly has 4 GiB of memory at most, this one needs %.1f (weights %.1f, an instance with %u tokens %.1f): %s",
        p->model->gguf->path, (double)s->total * gib, (double)in->weights_bytes * gib, p->options.n_ctx, (double)s->workspace * gib,
        remedy);
}

/* written: indexed like `files`; the fallback's folder is an object in it, with its own entries. */
static cJSON *facts_json(const struct library_input *in, const struct web_sizes *s, const struct web_file *written,
                         const struct folder *f, const char *hash, const char *package)
{
    const struct plan *p = in->plan;
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "package", package);
    cJSON_AddStringToObject(o, "name", p->model->name ? p->model->name : "");
    cJSON_AddStringToObject(o, "target", p->target->name);
    cJSON_AddStringToObject(o, "build", hash);
    cJSON_AddStringToObject(o, "forgec", FORGEC_VERSION);
    cJSON_AddNumberToObject(o, "nVocab", p->model->n_vocab);
    cJSON_AddNumberToObject(o, "nCtx", p->options.n_ctx);
    cJSON_AddNumberToObject(o, "nEmbd", p->model->n_embd);
    cJSON_AddNumberToObject(o, "chunk", p->chunk);
    cJSON_AddBoolToObject(o, "embeddings", p->model->pooling != 0);
    cJSON_AddBoolToObject(o, "hasTokenizer", in->vocab.data != NULL);
    cJSON_AddBoolToObject(o, "hasChat", in->chat.data != NULL);
    cJSON_AddBoolToObject(o, "hasGrammar", in->grammar.data != NULL);
    cJSON_AddNumberToObject(o, "align", s->host.align);
    cJSON_AddNumberToObject(o, "workspaceBytes", (double)s->workspace);
    cJSON_AddNumberToObject(o, "roomBytes", (double)s->room);
    add_linear(o, "encodeBytes", s->host.scratch_per_byte, s->host.scratch_fixed);
    add_linear(o, "chatBytes", s->text.chat_per_byte, s->text.chat_fixed);
    cJSON_AddNumberToObject(o, "answerBytes", (double)s->text.answer_usual);
    cJSON_AddNumberToObject(o, "lexiconBytes", (double)s->text.lexicon);
    add_linear(o, "grammarBytes", s->text.grammar_per_byte, s->text.grammar_fixed);
    add_linear(o, "schemaBytes", s->text.schema_per_byte, s->text.schema_fixed);
    cJSON_AddNumberToObject(o, "maskBytes", (double)s->text.mask_usual);
    cJSON_AddItemToObject(o, "module", file_json(&written[FILE_WASM]));
    cJSON_AddStringToObject(o, "engine", p->web ? "webgpu" : "wasm");
    if (p->web) cJSON_AddItemToObject(o, "kernels", file_json(&written[FILE_KERNELS]));
    if (p->web) cJSON_AddItemToObject(o, "launches", file_json(&written[FILE_LAUNCHES]));
    cJSON *weights = cJSON_AddArrayToObject(o, "weights");
    for (size_t i = 0; i < f->n_pieces; i++) cJSON_AddItemToArray(weights, file_json(&f->pieces[i]));
    return o;
}

static const char *facts_text(struct arena *a, cJSON *facts)
{
    char *printed = cJSON_Print(facts);
    if (!printed) die("out of memory for the list of files");
    const char *text = arena_printf(a, "const facts = %s;", printed);
    cJSON_free(printed);
    cJSON_Delete(facts);
    return text;
}

/* True for files that are kept for use without a network: those before sw.js, and WebGPU's. */
static bool is_kept(const struct web_file *written, size_t i)
{
    return i < FILE_SW || (i > FILE_PACKAGE && i < FILE_TEST && written[i].name);
}

/* The text for sw.js: the files that it keeps, and one name for all of them. inner: the module of the fallback, or NULL. */
static const char *site_text(struct arena *a, const struct web_file *written, const struct web_file *inner)
{
    struct text hashes = { .arena = a }, t = { .arena = a };
    char build[SHA256_DIGEST_STRING_LENGTH];
    for (size_t i = 0; i < COUNT_OF(files); i++) if (is_kept(written, i)) text_puts(&hashes, written[i].sha256);
    if (inner) text_puts(&hashes, inner->sha256);
    SHA256Data((const uint8_t *)hashes.data, hashes.size, build);
    text_printf(&t, "const facts = { build: '%.16s', files: [\n", build);
    for (size_t i = 0; i < COUNT_OF(files); i++)
        if (is_kept(written, i)) text_printf(&t, "  { file: '%s', sha256: '%s' },\n", written[i].name, written[i].sha256);
    if (inner) text_printf(&t, "  { file: '" INNER "/%s', sha256: '%s' },\n", inner->name, inner->sha256);
    text_puts(&t, "] };");
    return t.data;
}

/* The table `addresses` of model.js. Bundlers recognise this form of an address, if it is written out for each file. */
static void put_addresses(struct text *t, const struct library_input *in, const struct folder *f, const char *folder)
{
    static const char row[] = "  '%s%s': () => new URL('./%s%s', import.meta.url),\n";
    text_printf(t, row, folder, files[FILE_WASM], folder, files[FILE_WASM]);
    for (size_t i = FILE_KERNELS; in->plan->web && i <= FILE_LAUNCHES; i++) text_printf(t, row, folder, files[i], folder, files[i]);
    for (size_t i = 0; i < f->n_pieces; i++) text_printf(t, row, folder, f->pieces[i].name, folder, f->pieces[i].name);
}

/* A line with this mark becomes this text. */
struct page_line { const char *mark, *text; };

/* A text of runtime/web with forgec's mark before its first comment, and with the lines that forgec writes. A line that ends in the comment
 * "@tests" is only for folders with tests of kernels; other folders get it left out. */
static struct bytes page_text(struct arena *a, const char *name, const struct page_line *lines, size_t n_lines, bool tests)
{
    static const char only[] = "<!-- @tests -->";
    const struct bytes file = resource_get(a, NULL, arena_printf(a, "runtime/web/%s", name));
    const char *ending = strrchr(name, '.'), *begin = "//", *end_mark = "";
    if (strcmp(ending, ".html") == 0) begin = "<!--", end_mark = " -->";
    if (strcmp(ending, ".css") == 0) begin = "/*", end_mark = " */";
    struct text t = { .arena = a };
    const char *line = (const char *)file.data, *const end = line + file.size;
    bool marked = false;
    while (line < end) {
        const char *newline = memchr(line, '\n', (size_t)(end - line)), *stop = newline ? newline : end;
        if (!marked && memcmp(line, "#!", 2) && memcmp(line, "<!", 2)) {
            text_printf(&t, "%s " HEADER_MARK " " FORGEC_VERSION "%s\n", begin, end_mark);
            marked = true;
        }
        const char *mark = memmem(line, (size_t)(stop - line), only, strlen(only));
        size_t i = 0;
        while (i < n_lines && !memmem(line, (size_t)(stop - line), lines[i].mark, strlen(lines[i].mark))) i++;
        if (i < n_lines) text_printf(&t, "%s\n", lines[i].text);
        else if (mark && tests) text_printf(&t, "%.*s\n", (int)(mark - line), line);
        else if (mark) ;
        else text_printf(&t, "%.*s\n", (int)(stop - line), line);
        line = stop + 1;
    }
    return (struct bytes){ (const uint8_t *)t.data, t.size };
}

/* The folder's name in the form that npm accepts: lower-case letters, digits, '-', '.' and '_', beginning with a letter or digit. */
static const char *package_name(struct arena *a, const char *out)
{
    char *name = arena_strdup(a, path_name(out));
    for (char *c = name; *c; c++) *c = isalnum((unsigned char)*c) ? (char)tolower((unsigned char)*c) : strchr("._-", *c) ? *c : '-';
    while (*name && !isalnum((unsigned char)*name)) name++;
    return *name ? name : "model";
}

static struct bytes package_text(struct arena *a, const char *out, const struct library_input *in, bool falls_back)
{
    struct text t = { .arena = a };
    const char *name = in->plan->model->name && in->plan->model->name[0] ? in->plan->model->name : "A model";
    cJSON *described = cJSON_CreateString(arena_printf(a, "%s, compiled for WebAssembly", name));
    char *description = described ? cJSON_PrintUnformatted(described) : NULL;
    if (!description) die("out of memory for the description of the model");
    text_printf(&t, "{\n  \"name\": \"%s\",\n  \"version\": \"1.0.0\",\n  \"description\": %s,\n", package_name(a, out), description);
    text_puts(&t, "  \"type\": \"module\",\n  \"main\": \"./model.js\",\n  \"types\": \"./model.d.ts\",\n"
                  "  \"exports\": { \".\": { \"types\": \"./model.d.ts\", \"default\": \"./model.js\" }, \"./*\": \"./*\" },\n"
                  "  \"bin\": \"./run.js\",\n  \"files\": [");
    for (size_t i = 0; i < COUNT_OF(files); i++)
        if (i != FILE_PACKAGE && (i < FILE_PACKAGE || in->plan->web) && (i < FILE_TEST || in->test_launches.data))
            text_printf(&t, "\"%s\", ", files[i]);
    if (falls_back) text_puts(&t, "\"" INNER "\", ");
    text_puts(&t, "\"weights-*.bin\"],\n"
                  "  \"engines\": { \"node\": \">=18\" },\n  \"sideEffects\": false\n}\n");
    cJSON_free(description);
    cJSON_Delete(described);
    return (struct bytes){ (const uint8_t *)t.data, t.size };
}

/* ---- the module ---- */

/* The vocabulary without the parts that the module computes itself. */
static struct bytes vocab_of_file(struct arena *a, struct bytes vocab)
{
    if (!vocab.data) return vocab;
    uint8_t *copy = arena_alloc(a, vocab.size);
    memcpy(copy, vocab.data, vocab.size);
    vocab_leave_out(copy);
    return (struct bytes){ copy, vocab.size };
}

static struct bytes module_link(struct arena *a, struct toolchain *tc, const struct library_input *in, const char **hash)
{
    struct build_options options = *in->options;
    options.weights = WEIGHTS_EXTERNAL;              /* so that no table refers to an image */
    struct library_input of = *in;
    of.options = &options;
    size_t n;
    const struct { const char *path; bool wanted; } sources[] = {
        { "runtime/web/web.c", true }, { "runtime/web/chat.c", in->chat.data != NULL },
        { "runtime/web/engine.c", in->plan->web == NULL } };         /* WebGPU's engine is gpu.js */
    const struct library facts = { .has_chat = in->chat.data != NULL, .has_grammar = in->grammar.data != NULL };
    struct cc_job *jobs = library_jobs(a, &of, &facts, COUNT_OF(sources), &n);
    for (size_t i = 0; i < COUNT_OF(sources); i++)
        if (sources[i].wanted)
            jobs[n++] = (struct cc_job){ .name = sources[i].path, .kind = CC_LIBRARY, .target = in->plan->target,
                                         .source = cc_hidden(a, cc_expand(a, sources[i].path)) };
    *hash = library_hash(a, tc, &of, jobs, n);
    cc_compile(a, tc, jobs, n);
    struct link_object *objects = arena_array(a, struct link_object, n + LIBRARY_DATA_MOST);
    for (size_t i = 0; i < n; i++) objects[i] = (struct link_object){ jobs[i].name, jobs[i].object };
    of.vocab = vocab_of_file(a, in->vocab);
    n += library_wasm_data(a, &of, objects + n);
    return link_module(a, tc, objects, n, STACK_BYTES);
}

/* ---- the folder is moved into place ---- */

static struct folder folder_begin(struct arena *a, const char *out)
{
    char *path = arena_printf(a, "%s.tmpXXXXXX", out);
    if (!mkdtemp(path)) die("%s: cannot make a folder beside it: %s; choose another output path", out, strerror(errno));
    cleanup_unlink_at_exit(path);                    /* registered before its files, so that it is removed after them */
    const mode_t mask = umask(0);
    umask(mask);
    if (chmod(path, 0777 & ~mask)) die("%s: cannot set its permissions: %s", path, strerror(errno));
    return (struct folder){ .arena = a, .path = path };
}

/* The fallback's folder. */
static struct folder folder_inside(const struct folder *f)
{
    const char *path = arena_printf(f->arena, "%s/%s", f->path, INNER);
    cleanup_unlink_at_exit(path);
    if (mkdir(path, 0777)) die("%s: cannot make a folder: %s", path, strerror(errno));
    return (struct folder){ .arena = f->arena, .path = path };
}

static void folder_forget(struct folder *f)
{
    for (size_t i = 0; i < COUNT_OF(files); i++) cleanup_forget(arena_printf(f->arena, "%s/%s", f->path, files[i]));
    for (size_t i = 0; i < f->n_pieces; i++) cleanup_forget(arena_printf(f->arena, "%s/%s", f->path, f->pieces[i].name));
    cleanup_forget(f->path);
}

/* An empty folder is replaced by the rename itself. Another folder is exchanged with the new one and then removed. */
static void folder_commit(struct folder *f, struct folder *inner, const char *out)
{
    web_claim(f->arena, out);                        /* again: much time has passed */
    if (rename(f->path, out) == 0) {
        if (inner) folder_forget(inner);
        folder_forget(f);
        return;
    }
    if (errno != ENOTEMPTY && errno != EEXIST) die("%s: cannot rename the finished folder into place: %s", out, strerror(errno));
    if (renameat2(AT_FDCWD, f->path, AT_FDCWD, out, RENAME_EXCHANGE))
        die("%s: cannot replace the old folder with the finished one: %s; remove the old folder first", out, strerror(errno));
    remove_files(f->arena, f->path);
    if (inner) folder_forget(inner);
    folder_forget(f);
}

/* Writes one target's part of the folder: its module and its weights; folder: "", or the fallback's with a slash. */
static void write_part(struct arena *a, const struct library_input *in, struct bytes module, struct folder *f, struct web_file *written,
                       const char *folder, struct text *addresses)
{
    const bool has_weights = in->options->weights != WEIGHTS_NONE;
    f->weights_left = has_weights ? in->weights_bytes : 0;
    f->piece_bytes = in->plan->target->piece_bytes;
    struct outfile image = outfile_to(f->path, piece_take, f);
    if (has_weights) image_write(&image, in->writer);
    if (f->left > 0 || f->weights_left > 0)
        die("%s: fewer weights than were announced; this is a mistake in forgec, please report it", f->path);
    written[FILE_WASM] = write_packed(f, files[FILE_WASM], module);
    put_addresses(addresses, in, f, folder);
    if (!in->plan->web) return;
    written[FILE_KERNELS] = write_packed(f, files[FILE_KERNELS], wgsl_small(a, in->kernels));
    written[FILE_LAUNCHES] = write_packed(f, files[FILE_LAUNCHES], bytes_of(emit_web_launches(a, in->plan)));
    written[FILE_GPU] = write_file(f, files[FILE_GPU], page_text(a, files[FILE_GPU], NULL, 0, false));
}

void web_build(struct arena *a, struct toolchain *tc, const struct library_input *in, uint32_t n, const char *out)
{
    enum { MOST = 2 };                               /* the target, and its fallback */
    struct web_sizes sizes[MOST];
    struct bytes modules[MOST];
    const char *hashes[MOST];
    for (uint32_t i = 0; i < n; i++) {
        sizes[i] = sizes_of(&in[i]);
        check_memory(&in[i], &sizes[i]);
    }
    for (uint32_t i = 0; i < n; i++) modules[i] = module_link(a, tc, &in[i], &hashes[i]);
    if (in->options->cc.spawn.dry_run) return;
    struct folder f = folder_begin(a, out), inner = { .arena = a };
    struct web_file written[COUNT_OF(files)] = { { 0 } }, fallback[COUNT_OF(files)] = { { 0 } };
    struct text addresses = { .arena = a };
    text_puts(&addresses, "const addresses = {\n");
    write_part(a, in, modules[0], &f, written, "", &addresses);
    cJSON *facts = facts_json(in, sizes, written, &f, hashes[0], package_name(a, out));
    if (n > 1) {
        inner = folder_inside(&f);
        write_part(a, &in[1], modules[1], &inner, fallback, INNER "/", &addresses);
        cJSON *other = facts_json(&in[1], &sizes[1], fallback, &inner, hashes[1], package_name(a, out));
        cJSON_AddStringToObject(other, "folder", INNER "/");
        cJSON_AddItemToObject(facts, "fallback", other);
    }
    text_puts(&addresses, "};");
    const bool tests = in->test_launches.data != NULL;
    for (size_t i = FILE_TEST; tests && i < FILE_TEST_TEXTS; i++) write_file(&f, files[i], page_text(a, files[i], NULL, 0, true));
    if (tests) write_file(&f, files[FILE_TESTS], in->test_launches);
    if (tests) write_file(&f, files[FILE_TEST_VALUES], in->test_values);
    for (size_t i = FILE_JS; i <= FILE_RUN; i++) {
        const char *about = i == FILE_JS ? facts_text(a, facts)
            : i == FILE_SW ? site_text(a, written, n > 1 ? &fallback[FILE_WASM] : NULL) : "";
        const struct page_line lines[] = {
            { "@facts", about }, { "@addresses", addresses.data },
            { "@webgpu", in->plan->web ? "import { GpuEngine } from './gpu.js';" : "const GpuEngine = null;" } };
        written[i] = write_file(&f, files[i], page_text(a, files[i], lines, COUNT_OF(lines), tests));
    }
    write_file(&f, files[FILE_PACKAGE], package_text(a, out, in, n > 1));
    folder_commit(&f, n > 1 ? &inner : NULL, out);
}
