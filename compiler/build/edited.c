/* edited.c -- see edited.h. */
#include "edited.h"
#include "compiler/source/text.h"
#include <inttypes.h>
#include <string.h>
#include <xxhash.h>

/* What emit_banner wrote; NULL: absent. */
struct head { const char *target, *options, *model_hash; };

/* The text after the last `mark`, up to its end; NULL if there is no mark. */
static const char *behind_last(const char *text, const char *mark)
{
    const char *found = NULL;
    for (const char *at = text; (at = strstr(at, mark)); at++) found = at + strlen(mark);
    return found;
}

/* The rest of the line after the mark, such as " * options: --fuse layer ...", in the comment at the beginning of the text. */
static const char *line_behind(struct arena *a, const char *comment, const char *mark)
{
    const char *at = strstr(comment, mark);
    return at ? arena_strndup(a, at + strlen(mark), strcspn(at + strlen(mark), "\r\n")) : NULL;
}

static struct head head_of(struct arena *a, struct bytes text)
{
    struct head h = { 0 };
    const char *end = memmem(text.data, text.size, "*/", 2);
    if (text.size < 3 || memcmp(text.data, "/* ", 3) || !end || memchr(text.data, 0, (size_t)(end - (const char *)text.data))) return h;
    const char *comment = arena_strndup(a, (const char *)text.data, (size_t)(end - (const char *)text.data));
    /* its first line: NAME for TARGET, by forgec 0.1.0, clang 19.1.7 */
    char *first = arena_strndup(a, comment, strcspn(comment, "\r\n")), *by = strstr(first, ", by forgec ");
    for (char *at = by; at && (at = strstr(at + 1, ", by forgec ")); ) by = at;
    if (by) *by = 0;
    h.target = by ? behind_last(first, " for ") : NULL;
    h.options = line_behind(a, comment, "\n * options: ");
    const char *architecture = line_behind(a, comment, "\n * architecture ");
    h.model_hash = architecture ? behind_last(architecture, "; GGUF ") : NULL;
    return h;
}

/* The value of option `name`, such as "--ctx" in "--fuse layer --ctx 256"; "" for an option without a value; NULL: the option is absent. */
static const char *value_of(struct arena *a, const char *options, const char *name)
{
    for (const char *at = options; (at = strstr(at, name)); at += strlen(name)) {
        const char *behind = at + strlen(name);
        if ((at > options && at[-1] != ' ') || (*behind && *behind != ' ')) continue;
        behind += *behind == ' ';
        return strncmp(behind, "--", 2) == 0 ? "" : arena_strndup(a, behind, strcspn(behind, " "));
    }
    return NULL;
}

void edited_check(struct arena *a, const char *path, struct bytes text, const struct plan *plan, const struct emit_options *o)
{
    static const char *const names[] = { "--fuse", "--ctx", "--kv", "--exact", "--fast-bf16", "--tuned" };
    const char *target = plan->target->name;
    const struct head h = head_of(a, text);
    if (h.model_hash && strcmp(o->model_hash, h.model_hash))
        die("%s was emitted from another model than %s: from one with the hash %s, not %s", path, plan->model->gguf->path,
            printable(a, h.model_hash, strlen(h.model_hash)), o->model_hash);
    struct text say = { .arena = a }, leave = { .arena = a };
    if (h.target && strcmp(h.target, target)) text_printf(&say, " -t %s", h.target);
    for (uint32_t i = 0; h.options && i < COUNT_OF(names); i++) {
        const char *was = value_of(a, h.options, names[i]), *is = value_of(a, o->options, names[i]);
        if (was && (!is || strcmp(was, is))) text_printf(&say, " %s%s%s", names[i], *was ? " " : "", was);
        if (!was && is) text_printf(&leave, "%s%s", leave.size ? " and " : "leave out ", names[i]);
    }
    if (say.size || leave.size) {
        const char *list = say.size ? arena_printf(a, "say%s%s", printable(a, say.data, say.size), leave.size ? " and " : "") : "";
        die("%s was emitted for %s with %s; %s%s", path, h.target ? printable(a, h.target, strlen(h.target)) : target,
            h.options ? printable(a, h.options, strlen(h.options)) : o->options, list, text_str(&leave));
    }
    const char *symbol = emit_symbol(a, plan->target, 0);
    if (!memmem(text.data, text.size, o->weights_hash, strlen(o->weights_hash)) ||
        (!plan->gpu && !memmem(text.data, text.size, symbol, strlen(symbol))))
        die("%s is not a source that forgec emits from %s for %s with %s; emit it again with --emit source and edit the new file", path,
            plan->model->gguf->path, target, o->options);
}

struct bytes edited_for_clang(struct arena *a, const char *path, struct bytes text)
{
    struct text t = { .arena = a };
    text_puts(&t, "#line 1 ");
    emit_string(&t, path);
    text_puts(&t, "\n");
    text_append(&t, (const char *)text.data, text.size);
    return (struct bytes){ (const uint8_t *)t.data, t.size };
}

const char *edited_hash(struct arena *a, struct bytes text)
{
    const XXH128_hash_t hash = XXH3_128bits(text.data, text.size);
    return arena_printf(a, "%016" PRIx64 "%016" PRIx64, (uint64_t)hash.high64, (uint64_t)hash.low64);
}
