/* document.c -- see document.h. */
#include "document.h"
#include "reach.h"
#include "compiler/base/resource.h"
#include <ctype.h>
#include <string.h>

enum { SECTIONS_MOST = 16 };

/* Records in the order in which they are printed. */
struct part { struct record **list; uint32_t n, capacity; };

struct section {
    const char    *path, *name;          /* "templates/gpu/gemv_tmpl.c", "GEMV" */
    struct records records;
};

/* A file in the common section. branch: the branch with an unknown answer in which it is included (reach.h); 0: no such branch. */
struct used { const char *path; uint32_t branch; };

struct document {
    struct arena   *arena;
    const char     *templates, *machine;
    struct reach   *reach;
    struct part     common;
    struct section  section[SECTIONS_MOST];
    uint32_t        n_sections;
    struct used    *used;
    uint32_t        n_used, used_capacity;
    uint32_t        n_open, outside;     /* files that are being read, and the depth of conditions where the first was requested */
    struct text     begin, instances;
    const char     *format;              /* first parameter of the last instance, which stays defined */
};

static void include(void *context, const struct record *r);

struct document *document_new(struct arena *a, const char *templates)
{
    struct document *d = arena_new(a, struct document);
    *d = (struct document){ .arena = a, .templates = templates, .begin = { .arena = a }, .instances = { .arena = a } };
    d->reach = reach_new(a, include, d);
    return d;
}

void document_known(struct document *d, const char *name, const char *value) { reach_known(d->reach, name, value); }

void document_machine(struct document *d, const char *path) { d->machine = path; }

void document_begin(struct document *d, const char *text)
{
    const struct records r = scan(d->arena, "the model", text, strlen(text));
    reach_read(d->reach, r.list, r.n, true);
    text_puts(&d->begin, text);
}

/* ---- files ---- */

static void add(struct document *d, struct part *p, struct record *r)
{
    arena_room(d->arena, p->list, p->n, p->capacity);
    p->list[p->n++] = r;
}

static struct records file_records(struct document *d, const char *path)
{
    const struct bytes text = resource_get(d->arena, d->templates, path);
    return scan(d->arena, path, (const char *)text.data, text.size);
}

/* Is the file in the common section? A file that was included in a branch counts only within this branch, because the compiler may not take
 * it. */
static bool is_used(const struct document *d, const char *path)
{
    for (uint32_t i = 0; i < d->n_used; i++)
        if (strcmp(d->used[i].path, path) == 0 && (d->used[i].branch == 0 || reach_is_within(d->reach, d->used[i].branch))) return true;
    return false;
}

void document_use(struct document *d, const char *path)
{
    if (d->n_open == 0) d->outside = reach_depth(d->reach);
    if (is_used(d, path)) return;
    arena_room(d->arena, d->used, d->n_used, d->used_capacity);
    d->used[d->n_used++] = (struct used){ path, reach_branch(d->reach, d->outside) };
    d->n_open++;
    const struct records r = file_records(d, path);
    for (uint32_t i = 0; i < r.n; i++) {
        if (r.list[i].kind != RECORD_INCLUDE) add(d, &d->common, &r.list[i]);
        reach_read_one(d->reach, r.list, i);
    }
    d->n_open--;
}

/* An include is a file in the folder of the including file ("vec.h" in templates/cpu/norm_tmpl.c), or else a path from the source root. */
static void include(void *context, const struct record *r)
{
    struct document *d = context;
    const char *name = r->operand + 1, *quote = memchr(name, '"', r->operand_size - 1);
    const char *whole = arena_strndup(d->arena, name, quote ? (size_t)(quote - name) : r->operand_size - 1);
    const char *beside = arena_printf(d->arena, "%.*s%s", (int)(strrchr(r->file, '/') + 1 - r->file), r->file, whole);
    struct bytes found;
    if (d->machine && strcmp(beside, "templates/gpu/machine/choose.h") == 0) beside = d->machine;
    document_use(d, resource_find(d->arena, d->templates, beside, &found) ? beside : whole);
}

/* The section of "templates/gpu/gemv_tmpl.c" is GEMV. */
static const char *section_name(struct document *d, const char *path)
{
    const char *base = strrchr(path, '/') + 1, *end = strstr(base, "_tmpl.c");
    char *name = arena_strndup(d->arena, base, end ? (size_t)(end - base) : strcspn(base, "."));
    for (char *c = name; *c; c++) *c = (char)toupper((unsigned char)*c);
    return name;
}

static struct section *section_of(struct document *d, const char *path)
{
    for (uint32_t i = 0; i < d->n_sections; i++) if (strcmp(d->section[i].path, path) == 0) return &d->section[i];
    if (d->n_sections == SECTIONS_MOST) die("%s: too many templates with parameters", path);
    struct section *s = &d->section[d->n_sections++];
    *s = (struct section){ path, section_name(d, path), file_records(d, path) };
    return s;
}

void document_instance(struct document *d, const char *path, const struct document_parameter *parameters, uint32_t n, const char *note)
{
    struct section *s = section_of(d, path);
    for (uint32_t i = 0; i < n; i++) reach_known(d->reach, parameters[i].name, parameters[i].value);
    reach_read(d->reach, s->records.list, s->records.n, false);
    if (!d->format || strcmp(d->format, parameters[0].value)) {
        if (d->format) text_printf(&d->instances, "#undef %s\n", parameters[0].name);
        text_printf(&d->instances, "\n#define %s %s\n", parameters[0].name, parameters[0].value);
    }
    d->format = parameters[0].value;
    for (uint32_t i = 1; i < n; i++) text_printf(&d->instances, "#define %s %s\n", parameters[i].name, parameters[i].value);
    text_printf(&d->instances, "#define SECTION SECTION_%s\n#include SOURCE_NAME%s%s%s\n", s->name, note ? "    /* " : "", note ? note : "",
                note ? " */" : "");
}

/* ---- printing records ---- */

enum { NOTE_FILE, NOTE_SECTION, NOTE_ITEM, NOTES };

/* A file's comments that are printed as soon as something below them is printed. */
struct waiting { const char *file; const struct record *note[NOTES]; bool met, printed; };

struct printer {
    struct reach   *reach;
    struct arena   *arena;
    struct text     out;
    struct waiting *of;
    uint32_t        n, capacity;
    const char     *file;                /* the file of the last printed record */
    bool            blank;               /* print an empty line before the next line */
};

static struct waiting *waiting_of(struct printer *p, const char *file)
{
    for (uint32_t i = p->n; i-- > 0; ) if (p->of[i].file == file) return &p->of[i];
    arena_room(p->arena, p->of, p->n, p->capacity);
    struct waiting *w = &p->of[p->n++];
    *w = (struct waiting){ .file = file };
    return w;
}

static void put_line(struct printer *p, const char *text, size_t n)
{
    if (p->blank && p->out.size) text_puts(&p->out, "\n");
    p->blank = false;
    text_append(&p->out, text, n);
    text_puts(&p->out, "\n");
}

static void put_record(struct printer *p, const struct record *r)
{
    struct waiting *w = waiting_of(p, r->file);
    if (p->file != r->file) {
        const char *title = arena_printf(p->arena, "/* ==== %s%s ==== */", r->file, w->printed ? ", continued" : "");
        p->blank = true;
        put_line(p, title, strlen(title));
    }
    p->file = r->file;
    w->printed = true;
    for (uint32_t i = 0; i < NOTES; i++) {
        if (!w->note[i]) continue;
        put_line(p, w->note[i]->text, w->note[i]->size);
        p->blank = i == NOTE_FILE;
        w->note[i] = NULL;
    }
    put_line(p, r->text, r->size);
}

/* The first comment belongs to the file. A comment that begins with dashes, or without an item right below it, belongs to all items up to
 * the next such comment. */
static void put_note(struct printer *p, const struct record *r, const struct record *next)
{
    struct waiting *w = waiting_of(p, r->file);
    const bool is_section = (r->size > 6 && memcmp(r->text, "/* ----", 7) == 0) || !next || next->kind == RECORD_BLANK;
    const uint32_t i = !w->met ? NOTE_FILE : is_section ? NOTE_SECTION : NOTE_ITEM;
    w->met = true;
    w->note[i] = r;
    if (i == NOTE_SECTION) w->note[NOTE_ITEM] = NULL;
}

/* Drops the comment of an item: an empty line ends the paragraph below it, or an item of several lines was left out. */
static void end_paragraph(struct printer *p, const struct record *r) { waiting_of(p, r->file)->note[NOTE_ITEM] = NULL; }

static bool any_needed(const struct printer *p, struct record *const *list, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++)
        if ((list[i]->kind == RECORD_CODE || list[i]->kind == RECORD_DEFINE || list[i]->kind == RECORD_DIRECTIVE) &&
            reach_needs(p->reach, list[i])) return true;
    return false;
}

/* Fills branch with the starts of the branches of the condition at `first`, and then its #endif. Returns the number of branches. */
static uint32_t branches_of(struct record *const *list, uint32_t first, uint32_t branch[], uint32_t most)
{
    uint32_t n = 0, depth = 0;
    for (uint32_t i = first; ; i++) {
        const enum record_kind kind = list[i]->kind;
        if (depth == 1 && (kind == RECORD_ELIF || kind == RECORD_ELSE || kind == RECORD_ENDIF) && n < most) branch[n++] = i;
        if (kind == RECORD_IF && depth++ == 0) branch[n++] = i;
        if (kind == RECORD_ENDIF && --depth == 0) return n - 1;
    }
}

static void put_range(struct printer *p, struct record *const *list, uint32_t first, uint32_t end);

static bool is_never(const struct record *r) { return (r->seen & (SEEN_IN | SEEN_UNKNOWN)) == 0; }

/* Prints a condition without the branches that no shape takes. If all shapes take the same branch, prints only the text of this branch.
 * Returns the place of the #endif. */
static uint32_t put_condition(struct printer *p, struct record *const *list, uint32_t first)
{
    uint32_t branch[64];
    const uint32_t n = branches_of(list, first, branch, COUNT_OF(branch) - 1), end = branch[n];
    bool opened = false;
    for (uint32_t i = 0; i < n; i++) {
        if (list[branch[i]]->seen != SEEN_IN) continue;
        put_range(p, list, branch[i] + 1, branch[i + 1]);
        return end;
    }
    if (!any_needed(p, list, first, end)) return end;
    for (uint32_t i = 0; i < n; i++) {
        struct record r = *list[branch[i]];
        if (is_never(&r)) continue;
        if (!opened && r.kind == RECORD_ELIF) {
            r.text = arena_printf(p->arena, "#if %.*s", (int)r.operand_size, r.operand);
            r.size = (uint32_t)strlen(r.text);
        }
        opened = true;
        put_record(p, &r);
        put_range(p, list, branch[i] + 1, branch[i + 1]);
    }
    if (opened) put_record(p, list[end]);
    return end;
}

static void put_range(struct printer *p, struct record *const *list, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++) {
        const struct record *r = list[i];
        switch (r->kind) {
        case RECORD_IF:      i = put_condition(p, list, i); break;
        case RECORD_COMMENT: put_note(p, r, i + 1 < end ? list[i + 1] : NULL); break;
        case RECORD_BLANK:   end_paragraph(p, r); p->blank = true; break;
        case RECORD_CODE:
        case RECORD_DEFINE:
        case RECORD_UNDEF:
        case RECORD_DIRECTIVE:
            if (reach_needs(p->reach, r)) put_record(p, r);
            else if (r->item && (r->item->last > r->item->first || memchr(r->text, '\n', r->size))) end_paragraph(p, r);
            break;
        case RECORD_INCLUDE:
        case RECORD_ELIF:
        case RECORD_ELSE:
        case RECORD_ENDIF:   break;
        }
    }
}

static void put_part(struct document *d, struct text *out, const struct part *part)
{
    struct printer *p = arena_new(d->arena, struct printer);
    p->arena = d->arena, p->reach = d->reach, p->out = (struct text){ .arena = d->arena };
    put_range(p, part->list, 0, part->n);
    text_append(out, p->out.size ? p->out.data : "", p->out.size);
}

/* ---- the whole document ---- */

static void put_begin(struct document *d, struct text *t)
{
    text_puts(t, "#ifndef SECTION                                  /* the model, up to #elif; after it the appendix, whose sections the "
                 "model includes */\n\n");
    text_puts(t, "/* ==== sizes ==== */\n");
    text_puts(t, text_str(&d->begin));
    text_puts(t, "\n/* ==== what the model takes from the appendix ==== */\n");
    text_puts(t, "#ifndef SOURCE_NAME\n#define SOURCE_NAME __FILE_NAME__                /* this file; forgec compiles it from memory and "
                 "defines its place */\n#endif\n");
    text_puts(t, "#define SECTION_COMMON 1\n");
    for (uint32_t i = 0; i < d->n_sections; i++) text_printf(t, "#define SECTION_%s %u\n", d->section[i].name, i + 2);
    text_puts(t, "\nstruct declared;                                 /* before it clangd refuses a file that includes itself */\n");
    text_printf(t, "\n#define SECTION SECTION_COMMON\n#include SOURCE_NAME\n%s", text_str(&d->instances));
    if (d->format) text_puts(t, "#undef FORMAT\n");
}

static void put_appendix(struct document *d, struct text *t)
{
    text_puts(t, "\n/* ==== appendix: everything that is used of the templates ==== */\n#elif SECTION == SECTION_COMMON\n#undef "
                 "SECTION\n\n");
    put_part(d, t, &d->common);
    for (uint32_t i = 0; i < d->n_sections; i++) {
        struct section *s = &d->section[i];
        struct part part = { 0 };
        for (uint32_t k = 0; k < s->records.n; k++) add(d, &part, &s->records.list[k]);
        text_printf(t, "\n#elif SECTION == SECTION_%s\n#undef SECTION\n\n", s->name);
        put_part(d, t, &part);
    }
    text_puts(t, "#endif\n");
}

static uint32_t lines_of(const char *text)
{
    uint32_t n = 0;
    for (; *text; text++) n += *text == '\n';
    return n;
}

/* Appends the titles of the body with their line numbers: `before` lines and the lines of the contents come first. */
static void put_contents(struct text *t, const char *body, uint32_t before)
{
    static const char mark[] = "/* ==== ";
    uint32_t n = 0, line = 1;
    for (const char *at = body; (at = strstr(at, mark)); at++) n++;
    text_puts(t, " *\n");
    for (const char *at = body, *from = body; (at = strstr(at, mark)); at++) {
        for (; from < at; from++) line += *from == '\n';
        const char *title = at + strlen(mark), *end = strstr(title, " ====");
        text_printf(t, " * %6u  %.*s\n", before + n + 3 + line, (int)(end - title), title);
    }
    text_puts(t, " */\n\n");
}

struct bytes document_print(struct document *d, const char *head, const char *model)
{
    struct text t = { .arena = d->arena }, body = { .arena = d->arena };
    const struct records r = scan(d->arena, "the model", model, strlen(model));
    reach_read(d->reach, r.list, r.n, true);
    reach_finish(d->reach);
    put_begin(d, &body);
    text_puts(&body, "\n");
    text_puts(&body, model);
    put_appendix(d, &body);
    text_puts(&t, head);
    put_contents(&t, text_str(&body), lines_of(head));
    text_append(&t, body.data, body.size);
    return (struct bytes){ (const uint8_t *)t.data, t.size };
}
