/* library.c -- compiles the parts (freestanding, except the code that drives a GPU), joins them to one object, hides everything except the
 * API, and appends vocabulary and weights. */
#include "library.h"
#include "archive.h"
#include "compiler/source/program.h"
#include "header.h"
#include "pkgconfig.h"
#include "compiler/build/link.h"
#include "objfile.h"
#include "compiler/build/weights_file.h"
#include "wasm.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { DATA_ALIGN = 64 };         /* MODEL_ALIGN */

bool library_wanted(const struct build_options *o)
{
    return o->emit == EMIT_OBJ || o->emit == EMIT_LIB || o->emit == EMIT_SHARED;
}

static const char *prefix_of(const struct build_options *o) { return o->prefix ? o->prefix : "model"; }

void library_check(struct arena *a, const struct build_options *o, const struct target *p)
{
    const char *kind = o->emit == EMIT_OBJ ? "--emit obj" : o->emit == EMIT_LIB ? "--emit lib"
        : "--emit shared", *wrong = library_prefix_wrong(a, prefix_of(o));
    if (wrong) die("--prefix: %s", wrong);
    if (o->n_targets > 1)
        die("%s takes one target: a library cannot choose at run time; build one library for each target, each with its own --prefix",
            kind);
    if (o->source) die("forgec cc makes programs; %s is for forgec build", kind);
    if (o->has_server) die("--server cannot be used with a library; docs/embedding.md says what a library offers");
    if (o->is_static) die("--static is for programs; %s needs no library of the system", kind);
    if (o->emit == EMIT_SHARED && p->bare)
        die("--emit shared: target %s has no operating system that could load a shared library; use --emit obj or lib", p->name);
    if (o->emit == EMIT_SHARED && strcmp(p->elf_machine, "x86_64") && strcmp(p->elf_machine, "aarch64"))
        die("--emit shared: shared libraries are made for x86_64 and aarch64, not for %s; use --emit obj or lib", p->elf_machine);
}

const char *library_default_path(struct arena *a, const struct build_options *o)
{
    const char *prefix = prefix_of(o);
    return o->emit == EMIT_OBJ ? arena_printf(a, "%s.o", prefix) : arena_printf(a, "lib%s.%s", prefix, o->emit == EMIT_LIB ? "a" : "so");
}

/* ---- the header ---- */

/* The path of NAME.h or NAME.pc, in the product's folder. */
static const char *beside(struct arena *a, const struct build_options *o, const char *out, const char *suffix)
{
    return arena_printf(a, "%.*s%s%s", (int)(path_name(out) - out), out, prefix_of(o), suffix);
}

/* Dies rather than replace a file that forgec did not write. */
static void claim_beside(struct arena *a, const char *path)
{
    output_claim(a, path);
    if (!file_exists(path)) return;
    const struct bytes old = file_read(a, path);
    if (!memmem(old.data, old.size, HEADER_MARK, strlen(HEADER_MARK)))
        die("%s was not written by forgec and will not be replaced; choose another -o or --prefix", path);
}

void library_claim(struct arena *a, const struct build_options *o, const char *out)
{
    claim_beside(a, beside(a, o, out, ".h"));
    if (o->emit != EMIT_OBJ) claim_beside(a, beside(a, o, out, ".pc"));
    if (o->emit != EMIT_SHARED && o->weights == WEIGHTS_EMBED) claim_beside(a, beside(a, o, out, ".ld"));
}

const char *library_hash(struct arena *a, const struct toolchain *tc, const struct library_input *in, const struct cc_job *jobs, size_t n)
{
    const struct target *p = in->plan->target;
    struct bytes *parts = arena_array(a, struct bytes, n + 9);
    size_t count = 0;
    parts[count++] = bytes_of("forgec library " FORGEC_VERSION);
    parts[count++] = bytes_of(tc->clang_identity);
    parts[count++] = bytes_of(in->weights_hash);
    parts[count++] = bytes_of(cc_line(a, p, CC_LIBRARY, "library.c"));
    parts[count++] = bytes_of(cc_line(a, p, CC_LIBRARY_KERNELS, "model.c"));
    parts[count++] = in->code;
    parts[count++] = in->kernels;
    parts[count++] = in->chat;
    parts[count++] = in->grammar;
    for (size_t i = 0; i < n; i++) parts[count++] = jobs[i].source;
    return cache_key_hex(a, cache_key_of(parts, count));
}

/* ---- the object ---- */

struct cc_job *library_jobs(struct arena *a, const struct library_input *in, const struct library *facts, size_t extra, size_t *n)
{
    const struct build_options *o = in->options;
    const struct target *p = in->plan->target;
    struct cc_job *jobs = cc_library_jobs(a, p, library_defines(a, prefix_of(o)), extra + 2, n);
    /* for a GPU it has only tables */
    jobs[(*n)++] = (struct cc_job){ .name = "model.c", .source = cc_hidden(a, in->source),
                                    .kind = in->code.data ? CC_LIBRARY
                                    : CC_LIBRARY_KERNELS, .target = p, .user_text = o->templates_dir &&
                                    !in->code.data ? arena_printf(a, "model.c with the templates of %s", o->templates_dir) : NULL };
    jobs[(*n)++] = (struct cc_job){ .name = "tables.c", .kind = CC_LIBRARY, .target = p,
                                    .source = cc_hidden(a, emit_library_tables(a, emit_symbol(a, p, 0), facts)) };
    return jobs;
}

/* Functions that an object for a GPU needs from the program's C library (in glibc before 2.34: also libdl). */
static const char *const hosted_needs[] = { "memcpy", "memmove", "memset", "memcmp", "strlen", "strcmp", "strncmp", "strchr", "strstr",
                                            "strspn", "strcspn", "strtol", "strtoull", "snprintf", "vsnprintf", "strerror", "getenv",
                                            "open", "read", "close", "access", "clock_gettime", "nanosleep", "dlopen", "dlsym", "dlerror",
                                            "opendir", "readdir", "closedir", "secure_getenv", "__errno_location",
                                            "forge_weights_image", NULL };
static const char *const bare_needs[] = { "memcpy", "memmove", "memset", "forge_weights_image", NULL };

/* The whole file is head, then the weights if they are embedded, then tail. */
struct object { struct bytes head, tail; uint64_t file_bytes; };

/* The object with its API and data. The weights follow it, except in a shared library, where the linker adds them. */
static struct object library_object(struct arena *a, const struct library_input *in, struct bytes joined)
{
    const struct build_options *o = in->options;
    const bool embedded = o->weights == WEIGHTS_EMBED, shared = o->emit == EMIT_SHARED;
    const bool x86 = strcmp(in->plan->target->elf_machine, "x86_64") == 0;
    struct objfile_data data[5];
    size_t n = 0;
    const char *code = emit_code_symbol(a, in->plan->target, 0);
    if (in->code.data) data[n++] = (struct objfile_data){ code, ".rodata.forge_code", in->code.size, DATA_ALIGN, in->code.data };
    if (in->vocab.data)
        data[n++] = (struct objfile_data){ "forge_vocab", ".rodata.forge_vocab", in->vocab.size, DATA_ALIGN, in->vocab.data };
    if (in->chat.data) data[n++] = (struct objfile_data){ "forge_chat", ".rodata.forge_chat", in->chat.size, DATA_ALIGN, in->chat.data };
    if (in->grammar.data)
        data[n++] = (struct objfile_data){ "forge_grammar", ".rodata.forge_grammar", in->grammar.size, DATA_ALIGN, in->grammar.data };
    if (embedded && !shared)
        data[n++] = (struct objfile_data){ "forge_weights_image", x86 ? ".lrodata.forge_weights" : ".rodata.forge_weights",
                                           in->weights_bytes, DATA_ALIGN, NULL };
    /* forge_weights_image stays undefined for the linker of a shared library; otherwise it is in the data, or nothing refers to it */
    const struct objfile_edit edit = { .exported = library_symbols(a, prefix_of(o)), .needed = in->code.data ? hosted_needs : bare_needs,
                                       .data = data, .n_data = n };
    const struct objfile file = objfile_rewrite(a, arena_printf(a, "%s.o", prefix_of(o)), joined, &edit);
    return (struct object){ .head = file.head, .file_bytes = file.file_bytes };
}

size_t library_wasm_data(struct arena *a, const struct library_input *in, struct link_object *objects)
{
    static const uint8_t placeholder[1];
    const struct { const char *symbol; struct bytes data; } all[] = {
        { "forge_vocab", in->vocab }, { "forge_chat", in->chat }, { "forge_grammar", in->grammar },
        { "forge_weights_image", { in->options->weights == WEIGHTS_EMBED ? placeholder : NULL, 1 } } };
    size_t n = 0;
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        if (!all[i].data.data) continue;
        const char *segment = arena_printf(a, ".rodata.%s", all[i].symbol);
        objects[n++] = (struct link_object){ arena_printf(a, "%s.o", all[i].symbol),
                                             wasm_data_object(a, all[i].symbol, segment, DATA_ALIGN, all[i].data) };
    }
    return n;
}

static struct object wasm_library(struct arena *a, const struct library_input *in, struct bytes joined)
{
    const struct build_options *o = in->options;
    static const char *const needs[] = { "memcpy", "memmove", "memset", NULL };
    if (o->weights == WEIGHTS_EMBED && in->weights_bytes > INT32_MAX)
        die("%llu bytes of weights do not fit an object of %s; pass them with --weights external", (unsigned long long)in->weights_bytes,
            in->plan->target->name);
    const struct wasm_object file = wasm_rewrite(a, arena_printf(a, "%s.o", prefix_of(o)), joined, library_symbols(a, prefix_of(o)), needs,
                                                 o->weights == WEIGHTS_EMBED ? in->weights_bytes : 0);
    return (struct object){ file.head, file.tail, file.file_bytes };
}

static void write_object(struct outfile *f, const struct library_input *in, const struct object *object)
{
    const uint64_t begin = f->offset;
    outfile_write(f, object->head.data, object->head.size);
    if (in->options->weights == WEIGHTS_EMBED) image_write(f, in->writer);
    outfile_write(f, object->tail.data, object->tail.size);
    if (f->offset - begin != object->file_bytes)
        die("%s: %llu bytes were announced, %llu written; this is a mistake in forgec, please report it", f->path,
            (unsigned long long)object->file_bytes,
            (unsigned long long)(f->offset - begin));
}

static void write_product(struct arena *a, struct toolchain *tc, const struct library_input *in, const struct object *object,
                          struct outset *set, const char *out)
{
    const struct build_options *o = in->options;
    const char *member = arena_printf(a, "%s.o", prefix_of(o));
    if (o->emit == EMIT_SHARED) {
        const struct link_object objects[] = { { member, object->head } };
        const struct link_input input = { .target = in->plan->target, .objects = objects, .n_objects = 1, .soname = path_name(out),
                                          .weights_bytes = o->weights == WEIGHTS_EMBED ? in->weights_bytes : 0 };
        link_executable(a, tc, &input, set, out, image_write, in->writer);
        return;
    }
    struct outfile *f = outset_open(a, set, out, 0666);
    if (o->emit == EMIT_LIB) archive_begin(f, a, member, object->file_bytes, library_symbols(a, prefix_of(o)));
    write_object(f, in, object);
    if (o->emit == EMIT_LIB) archive_end(f);
}

static void write_text(struct arena *a, struct outset *set, const char *path, struct bytes text)
{
    outfile_write(outset_open(a, set, path, 0666), text.data, text.size);
}

/* True if code on x86-64, which reaches 2 GiB, cannot reach past the weights in a static object. */
static bool has_large_weights(const struct library_input *in)
{
    const struct build_options *o = in->options;
    const uint64_t most = (uint64_t)2 << 30, code = (uint64_t)256 << 20;
    return o->emit != EMIT_SHARED && o->weights == WEIGHTS_EMBED && !strcmp(in->plan->target->elf_machine, "x86_64") &&
           in->weights_bytes > most - code;
}

const char *library_build(struct arena *a, struct toolchain *tc, const struct library_input *in, const char *out)
{
    const struct build_options *o = in->options;
    const bool external = o->weights == WEIGHTS_EXTERNAL;
    const char *header = beside(a, o, out, ".h"), *pc = o->emit == EMIT_OBJ ? NULL
        : beside(a, o, out, ".pc"), *weights = weights_file_path(a, out);
    struct library facts = { .plan = in->plan, .prefix = prefix_of(o), .product = path_name(out), .build_hash = "",
                             .weights_file = external ? path_name(weights) : NULL, .embedded = o->weights == WEIGHTS_EMBED,
                             .vocab = in->vocab, .has_chat = in->chat.data != NULL, .has_grammar = in->grammar.data != NULL,
                             .n_kernels = in->n_kernels };
    size_t n;
    struct cc_job *jobs = library_jobs(a, in, &facts, 0, &n);
    facts.build_hash = library_hash(a, tc, in, jobs, n);
    const struct bytes text = emit_header(a, &facts);
    cc_compile(a, tc, jobs, n);
    const bool web = in->plan->target->web;
    struct link_object *objects = arena_array(a, struct link_object, n + LIBRARY_DATA_MOST);
    for (size_t i = 0; i < n; i++) objects[i] = (struct link_object){ jobs[i].name, jobs[i].object };
    if (web) n += library_wasm_data(a, in, objects + n);
    const struct bytes joined = link_relocatable(a, tc, in->plan->target, objects, n);
    if (o->cc.spawn.dry_run) return header;
    const struct object object = web ? wasm_library(a, in, joined) : library_object(a, in, joined);

    struct outset set = { .n = 0 };
    const bool large = has_large_weights(in);
    const char *more = in->code.data && o->emit == EMIT_LIB ? "-ldl" : NULL;
    if (large) more = arena_printf(a, "%s%s%s", pc_ld(a, prefix_of(o)), more ? " " : "", more ? more : "");
    write_product(a, tc, in, &object, &set, out);
    if (large) write_text(a, &set, beside(a, o, out, ".ld"), emit_ld(a));
    write_text(a, &set, header, text);
    if (pc) write_text(a, &set, pc, emit_pc(a, prefix_of(o), in->plan->target->name, path_name(out), more));
    if (external) weights_file_write(a, &set, weights, in->weights_hash, in->weights_bytes, image_write, in->writer);
    outset_commit(a, &set);
    return header;
}

void library_announce(struct arena *a, const struct build_options *o, const char *out, const char *header)
{
    fprintf(stderr, "forgec: wrote %s\n", header);
    if (o->emit != EMIT_OBJ) fprintf(stderr, "forgec: wrote %.*s%s.pc\n", (int)(path_name(out) - out), out, prefix_of(o));
    if (o->emit != EMIT_SHARED) return;
    const char *folder = path_name(out) == out ? "." : arena_strndup(a, out, (size_t)(path_name(out) - out - 1));
    fprintf(stderr,
            "forgec: programs look for %s when they start: link them with -Wl,-rpath,%s, set LD_LIBRARY_PATH, or install it where the "
                    "system keeps libraries\n", path_name(out), *folder ? folder : "/");
}
