/* header.c -- writes the header from its template, and the tables from the plan. */
#include "header.h"
#include "library_sizes.h"
#include "compiler/source/program.h"
#include "compiler/source/text.h"
#include "compiler/base/resource.h"
#include "runtime/model/abi.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define TEMPLATE "runtime/library/model.h"
enum { PREFIX_MOST = 63, VALUE_COLUMNS = 25 };

static bool in_identifier(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* ---- names ---- */

static bool is_one_of(const char *const *list, size_t n, const char *word, size_t length)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(list[i]) == length && memcmp(list[i], word, length) == 0) return true;
    return false;
}

/* Keywords of C11 to C23, C++11 to C++26 and GNU C; names that begin with an underscore are reserved anyway. */
static bool is_keyword(const char *s)
{
    static const char *const words[] = { "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break", "case",
                                         "catch", "char",
        "char16_t", "char32_t", "char8_t", "class", "co_await", "co_return", "co_yield", "compl", "concept", "const", "const_cast",
        "consteval", "constexpr",
        "constinit", "continue", "contract_assert", "decltype", "default", "delete", "do", "double", "dynamic_cast", "else", "enum",
        "explicit", "export",
        "extern", "false", "float", "for", "friend", "goto", "if", "inline", "int", "long", "mutable", "namespace", "new", "noexcept",
        "not", "not_eq",
        "nullptr", "operator", "or", "or_eq", "private", "protected", "public", "register", "reinterpret_cast", "requires", "restrict",
        "return", "short",
        "signed", "sizeof", "static", "static_assert", "static_cast", "struct", "switch", "template", "this", "thread_local", "throw",
        "true", "try",
        "typedef", "typeid", "typename", "typeof", "typeof_unqual", "union", "unsigned", "using", "virtual", "void", "volatile", "wchar_t",
        "while", "xor",
        "xor_eq" };
    return is_one_of(words, COUNT_OF(words), s, strlen(s));
}

/* Macros and types of other headers that a program may include; `linux`, `unix` and `i386` are macros of GNU C without any header. */
static bool is_header_name(const char *s)
{
    static const char *const names[] = { "BUFSIZ", "EOF", "HUGE_VAL", "HUGE_VALF", "HUGE_VALL", "I", "INFINITY", "MB_CUR_MAX", "NAN",
                                         "NDEBUG", "NULL", "RAND_MAX", "assert", "complex", "environ", "errno", "i386", "imaginary",
                                         "linux", "main", "math_errhandling", "max_align_t", "noreturn", "nullptr_t", "offsetof",
                                         "ptrdiff_t", "setjmp", "size_t", "ssize_t", "stderr", "stdin", "stdout", "unix", "unreachable",
                                         "va_arg", "va_copy", "va_end", "va_list", "va_start" };
    static const char *const families[] = { "INT", "UINT", "PTRDIFF", "SIG_ATOMIC", "SIZE", "WCHAR", "WINT", "RSIZE" },
        *const ends[] = { "_MAX", "_MIN", "_WIDTH", "_C" };
    const size_t n = strlen(s);
    if (is_one_of(names, COUNT_OF(names), s, n)) return true;
    if (n > 5 && (!strncmp(s, "int", 3) || !strncmp(s, "uint", 4)) && !strcmp(s + n - 2, "_t")) return true;
    for (size_t i = 0; i < COUNT_OF(families); i++)
        for (size_t k = 0; k < COUNT_OF(ends); k++)
            if (!strncmp(s, families[i], strlen(families[i])) && n > strlen(ends[k]) && !strcmp(s + n - strlen(ends[k]), ends[k]))
                return true;
    return false;
}

/* Families of function names in C libraries: sem_open, aio_cancel, gai_strerror ... */
static bool is_library_family(const char *s)
{
    static const char *const families[] = { "aio", "dbm", "fts", "gai", "iconv", "io", "mq", "pthread", "res", "sem", "shm" };
    return is_one_of(families, COUNT_OF(families), s, strlen(s));
}

/* A name that the library's functions would share with the runtime that they are compiled with, or NULL. */
static const char *runtime_name(struct arena *a, const char *prefix)
{
    const char **paths = resource_list(a, NULL, "runtime/");
    for (size_t i = 0; library_api[i]; i++) {
        const char *name = arena_printf(a, "%s_%s", prefix, library_api[i]);
        const size_t n = strlen(name);
        for (size_t f = 0; paths[f]; f++) {
            const struct bytes text = resource_get(a, NULL, paths[f]);
            const char *start = (const char *)text.data, *end = start + text.size;
            for (const char *at = start; (at = memmem(at, (size_t)(end - at), name, n)) != NULL; at += n)
                if ((at == start || !in_identifier(at[-1])) && (at + n == end || !in_identifier(at[n]))) return name;
        }
    }
    return NULL;
}

const char *library_prefix_wrong(struct arena *a, const char *prefix)
{
    /* `struct PREFIX`, the function PREFIX_open and the macro PREFIX_OK must be valid in C and C++, whatever else a program includes. */
    const size_t n = strlen(prefix);
    bool good = n > 0 && !isdigit((unsigned char)prefix[0]);
    for (size_t i = 0; i < n; i++) good = good && in_identifier(prefix[i]);
    if (!good) return arena_printf(a, "\"%s\" is not a C identifier", printable(a, prefix, n));
    if (n > PREFIX_MOST) return arena_printf(a, "%zu characters are too many (%d at most)", n, PREFIX_MOST);
    if (prefix[0] == '_')
        return arena_printf(a, "\"%s\": names that begin with an underscore belong to the compiler and its libraries", prefix);
    if (strstr(prefix, "__") || prefix[n - 1] == '_')
        return arena_printf(a, "\"%s\": names with two underscores in a row belong to C++ compilers", prefix);
    if (is_keyword(prefix)) return arena_printf(a, "\"%s\" is a word of C or C++", prefix);
    if (is_header_name(prefix)) return arena_printf(a, "\"%s\" is a name of C's headers", prefix);
    if (is_library_family(prefix)) return arena_printf(a, "\"%s\": the C library has functions whose names begin so", prefix);
    const char *taken = strcmp(prefix, "model") ? runtime_name(a, prefix) : NULL;
    return taken ? arena_printf(a, "\"%s\": forgec's own runtime has the name %s", prefix, taken) : NULL;
}

static const char **api_list(struct arena *a, const char *fmt_prefix, const char *prefix, bool defines)
{
    size_t n = 0;
    while (library_api[n]) n++;
    const char **list = arena_array(a, const char *, n + 1);
    for (size_t i = 0; i < n; i++)
        list[i] = defines ? arena_printf(a, "%s%s=%s_%s", fmt_prefix, library_api[i], prefix, library_api[i])
            : arena_printf(a, "%s_%s", prefix, library_api[i]);
    return list;
}

const char *const *library_symbols(struct arena *a, const char *prefix) { return api_list(a, NULL, prefix, false); }

const char *const *library_defines(struct arena *a, const char *prefix)
{
    static const char *const none[] = { NULL };
    return strcmp(prefix, "model") ? api_list(a, "-Dmodel_", prefix, true) : none;
}

static const char *upper(struct arena *a, const char *s)
{
    char *copy = arena_strdup(a, s);
    for (char *c = copy; *c; c++) *c = (char)toupper((unsigned char)*c);
    return copy;
}

/* Writes text with the prefix instead of "model" in model_X, MODEL_X and struct model; the word "model" in comments stays. */
static void put_renamed(struct text *t, const char *s, const char *end, const char *prefix)
{
    const char *big = upper(t->arena, prefix);
    bool after_struct = false;
    while (s < end) {
        const char *from = s;
        if (!in_identifier(*s)) {
            after_struct = after_struct && *s == ' ';
            text_append(t, s++, 1);
            continue;
        }
        while (s < end && in_identifier(*s)) s++;
        const size_t n = (size_t)(s - from);
        const bool whole = n == 5 && !memcmp(from, "model", 5) && after_struct;
        if (whole || (n > 6 && !memcmp(from, "model_", 6)))  { text_puts(t, prefix); from += 5; }
        else if (n > 6 && !memcmp(from, "MODEL_", 6))        { text_puts(t, big);    from += 5; }
        text_append(t, from, (size_t)(s - from));
        after_struct = n == 6 && !memcmp(s - n, "struct", 6);
    }
}

/* ---- the tables ---- */

/* Writes a pointer to bytes that are added to the object; 0 if there are no such bytes. */
static void put_pointer(struct text *t, const char *name, const char *bytes, bool there)
{
    if (there) text_printf(t, "extern const uint8_t %s[];\n", bytes);
    text_printf(t, "extern const uint8_t *const %s;\nconst uint8_t *const %s = %s;\n", name, name, there ? bytes : "0");
}

/* ---- the header ---- */

/* Calls of kernels for one token: launches except those that the number of workers makes unnecessary, one tile per worker. */
static uint64_t decode_tiles(const struct plan *p)
{
    const struct kernel_list *k = p->kernels;
    const uint32_t workers = p->options.max_threads;
    uint64_t launches = 0;
    const struct launches *decode = &k->of[STEPS_DECODE];
    for (uint32_t i = 0; i < decode->n; i++) {
        const uint32_t unless = k->kernels[decode->list[i].kernel].unless_divides;
        launches += !unless || unless % workers;
    }
    return launches * workers;
}

static const char *c_string(struct arena *a, const char *s)
{
    struct text t = { .arena = a };
    emit_string(&t, s);
    return text_str(&t);
}

static const char *c_size(struct arena *a, uint64_t n) { return arena_printf(a, "((size_t)%lluu)", (unsigned long long)n); }
static const char *c_linear_of(struct arena *a, const char *of, uint64_t each, uint64_t fixed)
{
    return arena_printf(a, "((size_t)(%s) * %llu + %llu)", of, (unsigned long long)each, (unsigned long long)fixed);
}
static const char *c_linear(struct arena *a, uint64_t each, uint64_t fixed) { return c_linear_of(a, "n", each, fixed); }
static const char *c_count(struct arena *a, uint64_t n) { return arena_printf(a, "%lluu", (unsigned long long)n); }

/* The needs of an instance: memory of the host and of a GPU, and how its kernels are split. */
struct takes { struct library_sizes host; uint64_t device_bytes, sequence_device_bytes, workers, tiles; };

static struct takes takes_cpu(const struct library *l)
{
    const struct plan *p = l->plan;
    return (struct takes){ library_sizes(p->options.n_ctx, p->arena_bytes, p->state_bytes), 0, 0, p->options.max_threads, decode_tiles(p) };
}

/* Device memory besides weights, KV cache and activations: the tokens and numbers of a step; for each further sequence its states and
 * tokens (runtime/device/gpu_memory.c). */
static struct takes takes_gpu(const struct library *l)
{
    const struct plan *p = l->plan;
    const uint64_t tokens = 4 * ((uint64_t)p->options.n_ctx + 1);
    return (struct takes){ library_sizes_gpu(p->options.n_ctx, l->n_kernels, p->state_bytes),
                           p->image_bytes + p->state_bytes + p->arena_bytes + tokens + sizeof(struct forge_gpu_step),
                           (p->state_bytes + 255) / 256 * 256 + (tokens + 63) / 64 * 64, 1, 1 };
}

struct constant { const char *name, *value; bool found; };
enum { CONSTANTS_MOST = 40 };

static bool is_text(const struct constant *c) { return c->value[0] == '"'; }

/* A number that changes with every number on which callers rely: a program may use a library if their headers have the same one. */
static uint32_t interface_of(struct arena *a, const struct constant *list, size_t n)
{
    struct text t = { .arena = a };
    for (size_t i = 0; i < n; i++) if (!is_text(&list[i])) text_printf(&t, "%s %s\n", list[i].name, list[i].value);
    return (uint32_t)XXH64(t.data, t.size, 0);
}

static size_t constants(struct arena *a, const struct library *l, struct constant list[CONSTANTS_MOST])
{
    const struct plan *p = l->plan;
    const struct takes takes = p->gpu ? takes_gpu(l) : takes_cpu(l);
    const uint32_t decode = p->kernels->of[STEPS_DECODE].n, prefill = p->kernels->of[STEPS_PREFILL].n;
    struct library_sizes s = takes.host;
    const struct library_text_sizes g = library_text_sizes(l->vocab.data, p->model->n_vocab);
    if (p->model->pooling) s.workspace_bytes += library_rows_bytes(p->chunk, p->model->n_embd);
    if (!strstr(p->target->elf_machine, "64") && s.workspace_bytes > INT32_MAX)
        die("an instance needs %llu bytes of memory, more than %s addresses; choose a smaller --ctx", (unsigned long long)s.workspace_bytes,
            p->target->name);
    const struct constant all[] = {
        { "ABI_VERSION", c_count(a, s.abi_version), false }, { "INTERFACE", "", false },
        { "BUILD_HASH", c_string(a, l->build_hash), false }, { "NAME", c_string(a, p->model->name ? p->model->name : ""), false },
        { "TARGET", c_string(a, p->target->name), false },
        { "N_VOCAB", c_count(a, p->model->n_vocab), false }, { "EMBEDDINGS", p->model->pooling ? "1" : "0", false },
        { "N_EMBD", c_count(a, p->model->n_embd), false }, { "N_CTX", c_count(a, p->options.n_ctx), false },
        { "CHUNK", c_count(a, p->chunk), false },
        { "ALIGN", c_count(a, s.align), false }, { "WORKSPACE_BYTES", c_size(a, s.workspace_bytes), false },
        { "SEQUENCE_BYTES", c_size(a, s.sequence_bytes), false },
        { "KV_BYTES", c_size(a, p->state_bytes), false },
        { "STATE_BYTES", c_size(a, s.saved_bytes), false },
        { "WEIGHTS_BYTES", arena_printf(a, "((uint64_t)%lluu)", (unsigned long long)p->image_bytes), false },
        { "WEIGHTS_EMBEDDED", l->embedded ? "1" : "0", false }, { "N_TENSORS", c_count(a, p->n_tensors), false },
        { "STACK_BYTES", c_size(a, s.stack_bytes), false },
        { "WORKERS", c_count(a, takes.workers), false }, { "TILES", c_count(a, takes.tiles), false },
        { "DEVICE_BYTES", arena_printf(a, "((uint64_t)%lluu)", (unsigned long long)takes.device_bytes), false },
        { "SEQUENCE_DEVICE_BYTES", arena_printf(a, "((uint64_t)%llu)", (unsigned long long)takes.sequence_device_bytes), false },
        { "TIMINGS", c_count(a, decode > prefill ? decode : prefill), false },
        { "HAS_TOKENIZER", l->vocab.data ? "1" : "0", false },
        { "ENCODE_SCRATCH(n)", c_linear(a, s.scratch_per_byte, s.scratch_fixed), false },
        { "HAS_CHAT", l->has_chat ? "1" : "0", false }, { "CHAT_BYTES(n)", c_linear(a, g.chat_per_byte, g.chat_fixed), false },
        { "CHAT_STACK(depth)", c_linear_of(a, "depth", g.chat_stack_per_level, g.chat_stack_fixed), false },
        { "ANSWER_BYTES", c_size(a, g.answer_usual), false }, { "ANSWER_LEAST", c_size(a, g.answer_least), false },
        { "HAS_GRAMMAR", l->has_grammar ? "1" : "0", false }, { "LEXICON_BYTES", c_size(a, g.lexicon), false },
        { "GRAMMAR_BYTES(n)", c_linear(a, g.grammar_per_byte, g.grammar_fixed), false },
        { "SCHEMA_BYTES(n)", c_linear(a, g.schema_per_byte, g.schema_fixed), false },
        { "MASK_BYTES", c_size(a, g.mask_usual), false }, { "MASK_LEAST", c_size(a, g.mask_least), false },
        { "MASK_WORDS", c_count(a, g.mask_words), false },
    };
    _Static_assert(COUNT_OF(all) <= CONSTANTS_MOST, "all constants fit");
    memcpy(list, all, sizeof all);
    list[1].value = arena_printf(a, "0x%08xu", interface_of(a, list, COUNT_OF(all)));
    return COUNT_OF(all);
}

/* The numbers as struct model_facts has them; without a plan, where nobody reads them, none. */
static void put_facts(struct text *t, const struct library *l)
{
    struct constant list[CONSTANTS_MOST];
    struct text values = { .arena = t->arena };
    const size_t n = l->plan ? constants(t->arena, l, list) : 0;
    size_t members = 1;
    for (size_t i = 0; i < n; i++) {
        const char *argument = strchr(list[i].name, '(');
        if (is_text(&list[i])) continue;
        if (argument)
            text_printf(&values, "#undef value\n#define value%s %s\n    value(0), value(1) - value(0),\n", argument, list[i].value);
        else text_printf(&values, "    %s,\n", list[i].value);
        members += argument ? 2 : 1;
    }
    text_puts(t, "#include <stddef.h>\nextern const uint64_t library_facts[];\n");
    text_printf(t, "const uint64_t library_facts[] = { %zu,\n%s};\n", members * sizeof(uint64_t), text_str(&values));
}

struct bytes emit_library_tables(struct arena *a, const char *symbol, const struct library *l)
{
    struct text t = { .arena = a };
    const struct bytes table = emit_table(a, &symbol, 1);
    text_append(&t, (const char *)table.data, table.size);
    put_pointer(&t, "forge_weights", "forge_weights_image", l->embedded);
    put_pointer(&t, "library_chat", "forge_chat", l->has_chat);
    put_pointer(&t, "library_grammar", "forge_grammar", l->has_grammar);
    put_facts(&t, l);
    return (struct bytes){ (const uint8_t *)t.data, t.size };
}

/* Writes a "#define MODEL_X value  comment" line of the template with its value; false for other lines. */
static bool put_constant(struct text *t, const char *line, const char *end, const char *prefix, struct constant *list, size_t n)
{
    static const char define[] = "#define MODEL_";
    const size_t length = sizeof define - 1;
    if ((size_t)(end - line) <= length || memcmp(line, define, length)) return false;
    const char *name = line + length, *stop = name;
    while (stop < end && *stop != ' ') stop++;
    for (size_t i = 0; i < n; i++) {
        if (strlen(list[i].name) != (size_t)(stop - name) || memcmp(name, list[i].name, (size_t)(stop - name))) continue;
        list[i].found = true;
        const char *comment = memmem(stop, (size_t)(end - stop), "/*", 2);
        text_printf(t, "#define %s_%-16s ", upper(t->arena, prefix), list[i].name);
        text_printf(t, "%-*s", comment ? VALUE_COLUMNS : 0, list[i].value);
        if (comment) {
            text_puts(t, " ");
            put_renamed(t, comment, end, prefix);
        }
        text_puts(t, "\n");
        return true;
    }
    return false;
}

/* Writes the first paragraph, about the product; the template's first paragraph is about the template. */
static void put_head(struct arena *a, struct text *t, const struct library *l)
{
    const struct model *m = l->plan->model;
    text_printf(t, "/* %s.h -- %s for %s: link %s.  " HEADER_MARK " " FORGEC_VERSION "; C99 and C++.\n", l->prefix,
                m->name ? m->name : "a model", l->plan->target->name, printable(a, l->product, strlen(l->product)));
    if (l->weights_file)
        text_printf(t, " * Its weights, which the program passes in struct %s_options, are in %s after the first 4096 bytes.\n", l->prefix,
                    printable(a, l->weights_file, strlen(l->weights_file)));
}

struct bytes emit_header(struct arena *a, const struct library *l)
{
    const struct bytes file = resource_get(a, NULL, TEMPLATE);
    const char *line = (const char *)file.data, *const end = line + file.size;
    struct constant list[CONSTANTS_MOST];
    const size_t n = constants(a, l, list);
    struct text t = { .arena = a };
    put_head(a, &t, l);
    bool head = true, inside = false;
    while (line < end) {
        const char *newline = memchr(line, '\n', (size_t)(end - line)), *stop = newline ? newline : end;
        head = head && !(stop - line == 2 && !memcmp(line, " *", 2));
        const bool begins = memmem(line, (size_t)(stop - line), "@constants", 10) != NULL,
            callers = memmem(line, (size_t)(stop - line), "@callers", 8) != NULL,
            ends = memmem(line, (size_t)(stop - line), "@end", 4) != NULL;
        if (begins) inside = true;
        else if (ends) inside = false;
        else if (callers) ;
        else if (!head && !(inside && put_constant(&t, line, stop, l->prefix, list, n))) {
            put_renamed(&t, line, stop, l->prefix);
            text_puts(&t, "\n");
        }
        line = stop + 1;
    }
    for (size_t i = 0; i < n; i++)
        if (!list[i].found) die(TEMPLATE ": its constants lack MODEL_%s; this is a mistake in forgec, please report it", list[i].name);
    return (struct bytes){ (const uint8_t *)t.data, t.size };
}
