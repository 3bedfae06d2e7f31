/* emit.c -- plan -> one C source: the banner, the templates it needs (each once), one short function per distinct kernel,
 * the launch tables, the program.  cpu/kernels.c writes the functions. */
#include "emit.h"
#include "compiler/cpu/kernels.h"
#include "paste.h"
#include "compiler/base/resource.h"
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- templates, pasted once each ---- */

static bool line_is(const char *line, size_t n, const char *text)
{
    return n >= strlen(text) && strncmp(line, text, strlen(text)) == 0 && (n == strlen(text) || line[strlen(text)] == ' ');
}

/* Defaults for compiling a template alone; an emitted source sets these itself. */
static bool is_default(const char *line, size_t n)
{
    static const char *const parameters[] = { "#ifndef FORMAT", "#ifndef KV", "#ifndef ROWS", "#ifndef LANES", "#ifndef GEMM_TOKENS", "#ifndef GEMM_ROWS", "#ifndef GEMM_THREADS" };
    for (uint32_t i = 0; i < COUNT_OF(parameters); i++) if (line_is(line, n, parameters[i])) return true;
    return false;
}

/* "vec.h" beside templates/cpu/norm_tmpl.c, else a path from the root of the sources. */
static const char *resolve(const struct paster *p, const char *from, const char *name, size_t n)
{
    const char *beside = arena_printf(p->arena, "%.*s%.*s", (int)(strrchr(from, '/') + 1 - from), from, (int)n, name), *whole = arena_strndup(p->arena, name, n);
    struct bytes found;
    return resource_find(p->arena, p->templates, beside, &found) ? beside : whole;
}

/* Templates begin with defaults for being compiled alone ("#ifndef FORMAT ... #endif"); here the parameter is set, so that part is
 * left out.  Files with an include guard are pasted at their first #include, others (per format) whenever asked for. */
void emit_paste(struct paster *p, const char *path, bool once)
{
    for (uint32_t i = 0; i < p->n_pasted; i++) if (strcmp(p->pasted[i], path) == 0) return;
    if (once) {
        if (p->n_pasted == COUNT_OF(p->pasted)) die("%s: too many templates", path);
        p->pasted[p->n_pasted++] = path;
    }
    const struct bytes text = resource_get(p->arena, p->templates, path);
    text_printf(p->out, "/* ---- begin %s ---- */\n", path);
    uint32_t skipping = 0;
    for (const char *line = (const char *)text.data, *end = line + text.size; line < end; ) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        const size_t n = newline ? (size_t)(newline - line) : (size_t)(end - line);
        if (skipping) {
            if (strncmp(line, "#if", 3) == 0) skipping++;
            else if (line_is(line, n, "#endif")) skipping--;
        }
        else if (is_default(line, n)) skipping = 1;
        else if (n > 10 && strncmp(line, "#include \"", 10) == 0) {
            const char *name = line + 10, *quote = memchr(name, '"', n - 10);
            emit_paste(p, resolve(p, path, name, (size_t)((quote ? quote : line + n) - name)), true);
        }
        else {
            text_append(p->out, line, n);
            text_puts(p->out, "\n");
        }
        line += n + 1;
    }
    text_printf(p->out, "/* ---- end %s ---- */\n\n", path);
}

/* Q4_K is q4_K, as templates/cpu/formats and llama.cpp write it; the others are in small letters altogether. */
const char *emit_format_name(struct arena *a, const struct quant_info *q)
{
    char *name = arena_strdup(a, q->name);
    for (char *c = name; *c && (c == name || q->name[0] != 'Q'); c++) *c = (char)tolower((unsigned char)*c);
    return name;
}

/* ---- pieces of functions ---- */

const char *emit_float(struct arena *a, double x)
{
    const char *s = arena_printf(a, "%.9g", (double)(float)x);
    return arena_printf(a, "%s%sf", s, strpbrk(s, ".en") ? "" : ".0");
}

void emit_line(struct text *body, uint32_t *depth, const char *kernel, const char *fmt, va_list args)
{
    char line[1024];
    const int n = vsnprintf(line, sizeof line, fmt, args);
    if (n < 1 || (size_t)n >= sizeof line) die("kernel %s has a line of %d characters; this is a mistake in forgec, please report it", kernel, n);
    if (line[0] == '}') --*depth;
    text_printf(body, "%*s%s\n", (int)(4 * *depth), "", line);
    if (line[n - 1] == '{') ++*depth;
}

/* ---- text that came from the model ---- */

/* As a C string literal.  Only printable ASCII without quotes and backslashes stays; "?" is escaped against trigraphs. */
void emit_string(struct text *t, const char *s)
{
    if (!s) { text_puts(t, "0"); return; }
    text_puts(t, "\"");
    for (; *s; s++) {
        const unsigned char c = (unsigned char)*s;
        if (c < 32 || c > 126 || c == '"' || c == '\\' || c == '?') text_printf(t, "\\%03o", c);
        else text_append(t, s, 1);
    }
    text_puts(t, "\"");
}

/* ---- the program ---- */

const char *emit_symbol(struct arena *a, const struct profile *p)
{
    char *name = arena_printf(a, "forge_program_%s", p->name);
    for (char *c = name; *c; c++) if (!isalnum((unsigned char)*c)) *c = '_';
    return name;
}

static void emit_launches(struct text *t, const char *table, const struct emitted_launch *launches, uint32_t n)
{
    text_printf(t, "static const struct forge_launch %s[%u] = {\n", table, n);
    for (uint32_t i = 0; i < n; i++) {
        const struct emitted_launch *l = &launches[i];
        text_printf(t, "    { %s, \"%s\", ", l->function, l->name);
        if (l->layer == NO_LAYER) text_puts(t, "0xffffffffu");
        else text_printf(t, "%u", l->layer);
        text_printf(t, ", %u, %u, %u, %llu, {", l->tail, l->unless_divides, l->joins_divides, (unsigned long long)l->kv);
        for (uint32_t k = 0; k < l->n_weights; k++) text_printf(t, "%s%llu", k ? ", " : " ", (unsigned long long)l->weights[k]);
        if (!l->n_weights) text_puts(t, " 0");
        text_puts(t, " } },\n");
    }
    text_puts(t, "};\n\n");
}

/* -1, which stands for "not given", where the file lacks the key.  Models give these numbers as integers or floats. */
static double sampling_number(const struct gguf *g, const char *key)
{
    const struct gguf_value *v = gguf_find(g, key);
    double value = -1;
    uint64_t whole;
    if (v && (v->type == GGUF_F32 || v->type == GGUF_F64)) gguf_get_f64(g, key, &value);
    else if (v && gguf_type_is_signed(v->type)) value = (double)v->i;
    else if (v && gguf_get_u64(g, key, &whole)) value = (double)whole;
    if (fabs(value) > INT32_MAX) die("%s: %s is %g; it must be between -%d and %d", g->path, key, value, INT32_MAX, INT32_MAX);
    return value;
}

static void emit_sampling(struct text *t, const struct gguf *g)
{
    text_printf(t, "    .sampling = { (float)%.9g, (float)%.9g, (float)%.9g, (float)%.9g, %d, %d },\n", sampling_number(g, "general.sampling.temp"),
                sampling_number(g, "general.sampling.top_p"), sampling_number(g, "general.sampling.min_p"), sampling_number(g, "general.sampling.penalty_repeat"),
                (int)sampling_number(g, "general.sampling.top_k"), (int)sampling_number(g, "general.sampling.penalty_last_n"));
}

static void emit_features(struct text *t, const struct profile *profile)
{
    text_puts(t, "static const char *const cpu_features[] = {");
    for (uint32_t i = 0; profile->features[i]; i++) {
        text_puts(t, " ");
        emit_string(t, profile->features[i]);
        text_puts(t, ",");
    }
    text_puts(t, " 0 };\n");
}

static void emit_tensors(struct arena *a, struct text *t, const struct plan *p)
{
    const struct plan_tensor *list = plan_tensors(a, p);
    text_printf(t, "static const struct forge_tensor tensors[%u] = {\n", p->n_tensors);
    for (uint32_t i = 0; i < p->n_tensors; i++) {
        text_puts(t, "    { ");
        emit_string(t, list[i].name);
        text_printf(t, ", %lluu, %lluu },\n", (unsigned long long)list[i].offset, (unsigned long long)list[i].bytes);
    }
    text_puts(t, "};\n");
}

void emit_program(struct arena *a, struct text *t, const struct plan *p, const struct emit_options *o, const char *launches)
{
    const struct model *m = p->model;
    const struct profile *profile = p->profile;
    struct gguf_string chat = { 0 };
    const bool has_chat = gguf_get_string(m->gguf, "tokenizer.chat_template", &chat);
    emit_tensors(a, t, p);
    emit_features(t, profile);
    if (o->has_vocab) text_puts(t, "extern const uint8_t forge_vocab[];\n");
    text_printf(t, "extern const struct forge_program %s;\nconst struct forge_program %s = {\n", emit_symbol(a, profile), emit_symbol(a, profile));
    text_printf(t, "    .abi_version = FORGE_ABI_VERSION, .n_vocab = %u, .n_ctx = %u, .n_embd = %u, .n_layer = %u,\n", m->n_vocab, p->options.n_ctx, m->n_embd, m->n_layer);
    text_printf(t, "    .chunk = %u, .max_logits = %u, .max_threads = %u,\n", p->chunk, p->max_logits, p->options.max_threads);
    text_printf(t, "    %s\n", launches);
    text_printf(t, "    .arena_bytes = %lluu, .kv_bytes = %lluu, .weights_bytes = %lluu, .weights_offset = %lluu,\n", (unsigned long long)p->arena_bytes, (unsigned long long)p->kv_bytes,
                (unsigned long long)p->image_bytes, (unsigned long long)o->weights_offset);
    text_printf(t, "    .hashes_offset = %lluu, .n_tensors = %u, .tensors = tensors,\n", (unsigned long long)p->image_hashes, p->n_tensors);
    text_printf(t, "    .read_bytes = %lluu, .kv_bytes_per_token = %lluu, .kv_row_bytes = %lluu, .n_parameters = %lluu,\n", (unsigned long long)p->read_bytes,
                (unsigned long long)p->kv_bytes_per_token, (unsigned long long)p->kv_row_bytes, (unsigned long long)m->n_parameters);
    const struct { const char *field, *value; } strings[] = {
        { "model_name", m->name }, { "architecture", m->architecture }, { "formats", model_formats(a, m) }, { "model_hash", o->model_hash },
        { "weights_hash", o->weights_hash }, { "target", profile->name }, { "options", o->options }, { "compiler", o->compiler },
        { "chat_template", has_chat && !memchr(chat.data, 0, chat.size) ? arena_strndup(a, chat.data, chat.size) : NULL },
    };
    for (uint32_t i = 0; i < COUNT_OF(strings); i++) {
        text_printf(t, "    .%s = ", strings[i].field);
        emit_string(t, strings[i].value);
        text_puts(t, ",\n");
    }
    text_printf(t, "    .features = cpu_features, .vocab = %s,\n", o->has_vocab ? "forge_vocab" : "0");
    emit_sampling(t, m->gguf);
    text_puts(t, "};\n");
}

void emit_banner(struct text *t, const struct plan *p, const struct emit_options *o)
{
    const struct model *m = p->model;
    text_printf(t, "/* %s for %s, by %s\n", m->name, p->profile->name, o->compiler);
    text_printf(t, " * architecture %s: %u layers, n_embd %u, head_dim %u, n_vocab %u, %.1f M parameters; GGUF %s\n", m->architecture, m->n_layer, m->n_embd,
                m->head_dim, m->n_vocab, (double)m->n_parameters / 1e6, o->model_hash);
    text_printf(t, " * options: %s\n", o->options);
    text_printf(t, " * weights %.3f MB, read per token %.3f MB, KV cache %llu bytes per token, arena %.3f MB\n", (double)p->image_bytes / 1e6,
                (double)p->read_bytes / 1e6, (unsigned long long)p->kv_bytes_per_token, (double)p->arena_bytes / 1e6);
    text_printf(t, " * compile alone: %s\n */\n\n", o->compile_command);
}

struct bytes emit(struct arena *a, const struct plan *p, const struct emit_options *o)
{
    struct text t = { .arena = a };
    const struct profile *profile = p->profile;
    emit_banner(&t, p, o);
    text_puts(&t, "#define FORGE_SIMD_");
    for (const char *c = profile->simd; *c; c++) text_printf(&t, "%c", toupper((unsigned char)*c));
    text_printf(&t, "\n#define GEMM_TOKENS %u\n#define GEMM_GROUPS %u\n#define ATTENTION_BLOCK %u\n#define KV %s\n", profile->tile.gemm_tokens, profile->tile.gemm_groups,
                profile->tile.attention_block, kv_type_name[p->options.kv]);
    text_printf(&t, "#define SCRATCH_OFFSET %lluu\n#define SCRATCH_STRIDE %lluu\n\n", (unsigned long long)p->scratch_offset, (unsigned long long)p->scratch_stride);

    struct paster paster = { .arena = a, .out = &t, .templates = o->templates };
    static const char *const always[] = { "launch.h", "norm_tmpl.c", "rope_tmpl.c", "kv_tmpl.c", "attention_tmpl.c", "glu_tmpl.c", "elementwise_tmpl.c" };
    emit_paste(&paster, "runtime/model/abi.h", true);
    for (uint32_t i = 0; i < COUNT_OF(always); i++) emit_paste(&paster, arena_printf(a, "templates/cpu/%s", always[i]), true);
    bool used[64] = { false };
    for (uint32_t i = 0; i < p->model->n_weights; i++)
        if (!p->model->weights[i].is_vector) used[p->model->weights[i].tensor->quant->id] = true;
    for (uint32_t id = 0; id < COUNT_OF(used); id++) {
        if (!used[id]) continue;
        const char *format = emit_format_name(a, quant_find(id));
        text_printf(&t, "#define FORMAT %s\n", format);
        emit_paste(&paster, arena_printf(a, "templates/cpu/formats/%s.h", format), true);
        emit_paste(&paster, "templates/cpu/gemv_tmpl.c", false);
        emit_paste(&paster, "templates/cpu/gemm_tmpl.c", false);
        text_puts(&t, "#undef FORMAT\n\n");
    }
    struct emitted_kernels kernels = emit_kernels(a, &t, p);
    emit_launches(&t, "decode_launches", kernels.decode, kernels.n_decode);
    emit_launches(&t, "prefill_launches", kernels.prefill, kernels.n_prefill);
    emit_program(a, &t, p, o, arena_printf(a, ".n_decode = %u, .n_prefill = %u, .decode = decode_launches, .prefill = prefill_launches,", kernels.n_decode, kernels.n_prefill));
    return (struct bytes){ (const uint8_t *)t.data, t.size };
}

struct bytes emit_table(struct arena *a, const char *const *symbols, size_t n)
{
    struct text t = { .arena = a };
    struct paster paster = { .arena = a, .out = &t };
    text_puts(&t, "/* The programs of this executable, best first. */\n");
    emit_paste(&paster, "runtime/model/abi.h", true);
    for (size_t i = 0; i < n; i++) text_printf(&t, "extern const struct forge_program %s;\n", symbols[i]);
    text_puts(&t, "const struct forge_program *const forge_programs[] = {");
    for (size_t i = 0; i < n; i++) text_printf(&t, " &%s,", symbols[i]);
    text_printf(&t, " };\nconst uint32_t forge_n_programs = %zu;\n", n);
    return (struct bytes){ (const uint8_t *)t.data, t.size };
}

struct bytes emit_programs(struct arena *a, const char *const *symbols, size_t n, const char *edited)
{
    struct text t = { .arena = a };
    const struct bytes table = emit_table(a, symbols, n);
    text_append(&t, (const char *)table.data, table.size);
    text_puts(&t, "const char *const forge_edited_source = ");
    emit_string(&t, edited);
    text_puts(&t, ";\n");
    return (struct bytes){ (const uint8_t *)t.data, t.size };
}
