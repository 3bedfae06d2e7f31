/* emitted.c -- finds changes of the text that forgec emits: compares hashes of the sources and plans of every golden model for every target
 * with the table tests/golden/emitted.txt.  Nothing is compiled and no weights are read, so it takes seconds.
 *
 *   emitted check few              compares the code and the plans of a third of the rows; $FORGEC_TURN: which third
 *   emitted check all              of all rows; all text: comments and spaces too
 *   emitted renew                  writes the table anew
 *   emitted show MODEL TARGET MODE [text]
 *                                  the text of a row of the table, without comments; text: with comments
 *   -m DIR                         the folder of the models instead of the tests' folders; may be given several times
 *   -f FILE                        the table
 *   -j N                           processes
 *   -k                             check: prints the rows that differ, for scripts
 *
 * Each model has two rows for each target: the default options, and one other mode that depends on the names of model and target.
 * The table begins with the names of the targets and of the modes, each name behind a tab.  Then it has, for each model, a line ":model"
 * and a line for each target, in the order of the first line: the hashes in the default mode, a letter that stands for the other mode
 * (a: the first mode of the second line), and the hashes in that mode.  The hashes are eight digits of six bits:
 *   code   3 digits: what compilers read: the kernels, the tables of launches and clang's command, without comments and blank space
 *   plan   3 digits: the plan, without comments and blank space
 *   text   2 digits: everything, with comments and blank space
 * If forgec refuses to build the program, "-" stands instead.  A target keeps its place when the table is renewed; new targets follow. */
#include "compiler/build/build.h"
#include "compiler/base/resource.h"
#include "compiler/cpu/emit.h"
#include "compiler/cpu/report.h"
#include "compiler/gpu/emit.h"
#include "compiler/gpu/report.h"
#include "compiler/plan/text.h"
#include "compiler/web/emit.h"
#include <dirent.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

/* ---- what is emitted: models, targets, modes ---- */

/* A mode's options and the kinds of targets that have it. */
static const struct mode {
    const char *name;
    unsigned    kinds;                  /* bits 1 << TARGET_... */
    struct build_options options;
} modes[] = {
#define EVERY (1u << TARGET_CPU | 1u << TARGET_GPU | 1u << TARGET_WEBGPU)
#define CPU   (1u << TARGET_CPU)
#define GPU   (1u << TARGET_GPU)
    { "default",   EVERY, { .fuse = FUSE_LAYER } },
    { "none",      EVERY, { .fuse = FUSE_NONE } },
    { "exact",     EVERY, { .fuse = FUSE_LAYER, .plan = { .exact = true, .kv = KV_TYPE_F32 } } },
    { "none-exact", EVERY, { .fuse = FUSE_NONE, .plan = { .exact = true, .kv = KV_TYPE_F32 } } },
    { "kv-f32",    EVERY, { .fuse = FUSE_LAYER, .plan = { .kv = KV_TYPE_F32 } } },
    { "kv-q8_0",   EVERY, { .fuse = FUSE_LAYER, .plan = { .kv = KV_TYPE_Q8_0 } } },
    { "fast-bf16", CPU,   { .fuse = FUSE_LAYER, .plan = { .fast_bf16 = true } } },
    { "columns",   GPU,   { .fuse = FUSE_LAYER, .plan = { .columns = 8 } } },
    { "ngram",     GPU,   { .fuse = FUSE_LAYER, .plan = { .columns = 8, .spec = SPEC_NGRAM } } },
    { "mtp",       GPU,   { .fuse = FUSE_LAYER, .plan = { .columns = 4, .spec = SPEC_MTP } } },
    { "gpus",      GPU,   { .fuse = FUSE_LAYER, .gpus = 2 } },
};

/* Targets of tests besides the built-in targets: products of bfloat16 rows in plain C, and lanes. */
static const char *const more_targets[] = { "cli/x86-64-v3-dot", "cli/x86-64-v3-tiles", "lanes/simt32" };

struct list { const char **item; uint32_t n, capacity; };

static void list_add(struct arena *a, struct list *l, const char *item)
{
    arena_room(a, l->item, l->n, l->capacity);
    l->item[l->n++] = item;
}

/* models/llama-a.gguf -> llama-a; lanes/x.yaml -> x */
static const char *short_name(struct arena *a, const char *path)
{
    const char *name = path_name(path), *end = strrchr(name, '.');
    return end && (!strcmp(end, ".gguf") || !strcmp(end, ".yaml")) ? arena_strndup(a, name, (size_t)(end - name)) : name;
}

static int by_name(const void *x, const void *y)
{
    return strcmp(path_name(*(const char *const *)x), path_name(*(const char *const *)y));
}

/* A model in several files is listed by its first file.  If two folders have a model of the same name, the first folder's is used. */
static struct list find_models(struct arena *a, const struct list *folders)
{
    struct list all = { .n = 0 }, models = { .n = 0 };
    for (uint32_t i = 0; i < folders->n; i++) {
        DIR *d = opendir(folders->item[i]);
        if (!d) die("%s: no such folder of models; -m DIR", folders->item[i]);
        for (struct dirent *e; (e = readdir(d)); ) {
            const char *end = strrchr(e->d_name, '.'), *of = strstr(e->d_name, "-of-");
            const bool later = of && of - e->d_name >= 5 && strncmp(of - 5, "00001", 5) != 0;
            if (end && !strcmp(end, ".gguf") && !later) list_add(a, &all, arena_printf(a, "%s/%s", folders->item[i], e->d_name));
        }
        closedir(d);
    }
    if (all.n) qsort(all.item, all.n, sizeof *all.item, by_name);
    for (uint32_t i = 0; i < all.n; i++)
        if (!models.n || by_name(&models.item[models.n - 1], &all.item[i]) != 0) list_add(a, &models, all.item[i]);
    if (!models.n) die("no models; build the targets test_data and tiny_models first, or give -m DIR");
    return models;
}

/* Names or paths of targets. */
static struct list find_targets(struct arena *a)
{
    struct list targets = { .n = 0 };
    for (const char **name = target_names(a, NULL); *name; name++) list_add(a, &targets, *name);
    for (size_t i = 0; i < COUNT_OF(more_targets); i++)
        list_add(a, &targets, arena_printf(a, FORGEC_SOURCE_DIR "/tests/%s.yaml", more_targets[i]));
    return targets;
}

/* ---- the text ---- */

static jmp_buf refused;
static char refusal[512];

static void take_refusal(const char *message)
{
    snprintf(refusal, sizeof refusal, "%s", message);
    longjmp(refused, 1);
}

static void ignore(const char *message) { (void)message; }

/* Makes the text the same on all hosts: clang's command names the machine that forgec runs on. */
static const char *hostless(struct arena *a, const char *command)
{
    static const char *const machines[] = { "--target=x86_64-linux-gnu ", "--target=aarch64-linux-gnu " };
    for (size_t i = 0; i < COUNT_OF(machines); i++) {
        const char *at = strstr(command, machines[i]);
        if (at) return arena_printf(a, "%.*s%s", (int)(at - command), command, at + strlen(machines[i]));
    }
    return command;
}

static void put(struct text *t, const char *title, struct bytes text)
{
    text_printf(t, "/* ======== %s */\n", title);
    text_append(t, (const char *)text.data, text.size);
    text_puts(t, "\n");
}

struct emitted { struct text source, plan, report; const char *command; };

/* Dies as forgec build does. */
static struct emitted emit(struct arena *a, const char *model, const char *target, const struct mode *mode)
{
    static const enum cc_kind kinds[] = { [TARGET_CPU] = CC_KERNELS, [TARGET_GPU] = CC_DEVICE, [TARGET_WEBGPU] = CC_LIBRARY };
    struct build_options o = mode->options;
    struct emitted e = { .source = { .arena = a }, .plan = { .arena = a }, .report = { .arena = a } };
    o.model_path = model;
    const struct graph *graph = graph_build(a, build_model(a, &o, gguf_open(a, model, true)));
    struct target *described = target_load(a, target, NULL);
    struct plan *p = build_plan(a, &o, graph, described);
    const char *options = build_options_text(a, &o, p->options.n_ctx);
    const enum cc_kind cc = described->bare ? CC_LIBRARY_KERNELS : kinds[described->kind];
    const char *symbols[] = { emit_symbol(a, described, 0), emit_symbol(a, described, 1) };
    e.command = p->web ? "" : hostless(a, cc_line(a, described, cc, p->gpu ? "model.hip" : "model.c"));
    const struct emit_options eo = { .model_hash = "-", .weights_hash = "-", .has_vocab = true, .has_chat = true, .ranks = p->options.ranks,
                                     .symbols = symbols, .options = options, .compiler = "forgec",
                                     .compile_command = p->web ? NULL : e.command };
    plan_text_print(&e.plan, p, options);
    if (p->gpu) {
        put(&e.source, "kernels", emit_gpu(a, p, &eo));
        put(&e.source, "launches", emit_gpu_program(a, p, &eo, 4096));
        report_print(a, &e.report, p, NULL, 0, "the kernels are not compiled");
    }
    else if (p->web) {
        put(&e.source, "kernels", emit_web(a, p, &eo));
        put(&e.source, "launches", bytes_of(emit_web_launches(a, p)));
        put(&e.source, "program", emit_web_program(a, p, &eo));
    }
    else {
        put(&e.source, "program", emit_cpu(a, p, &eo));
        report_cpu(&e.report, p);
    }
    fuse_print(&e.report, p->fused);
    return e;
}

/* The end of the string or character literal that begins at s. */
static const char *behind_quotes(const char *s)
{
    const char quote = *s++;
    while (*s && *s != quote && *s != '\n') s += *s == '\\' && s[1] ? 2 : 1;
    return *s ? s + 1 : s;
}

/* The text without comments, blank lines and blanks at ends of lines.  hash: comments begin with # (a plan). */
static const char *without_comments(struct arena *a, const char *s, bool hash)
{
    char *out = arena_alloc(a, strlen(s) + 1);
    size_t n = 0;
    while (*s) {
        if (hash ? *s == '#' : s[0] == '/' && s[1] == '/') s += strcspn(s, "\n");
        else if (!hash && s[0] == '/' && s[1] == '*') {
            const char *end = strstr(s + 2, "*/");
            s = end ? end + 2 : s + strlen(s);
            out[n++] = ' ';
        }
        else if (!hash && (*s == '"' || *s == '\'')) {
            const char *end = behind_quotes(s);
            memcpy(out + n, s, (size_t)(end - s));
            n += (size_t)(end - s);
            s = end;
        }
        else if (*s == '\n') {
            while (n && (out[n - 1] == ' ' || out[n - 1] == '\t')) n--;
            if (n && out[n - 1] != '\n') out[n++] = '\n';
            s++;
        }
        else out[n++] = *s++;
    }
    out[n] = 0;
    return out;
}

/* The text without blanks and ends of lines: a change of a name's length may fold lines at other places. */
static const char *without_spaces(struct arena *a, const char *s)
{
    char *out = arena_alloc(a, strlen(s) + 1);
    size_t n = 0;
    for (; *s; s++)
        if (*s != ' ' && *s != '\t' && *s != '\n' && !(s[0] == '\\' && s[1] == '\n')) out[n++] = *s;
    out[n] = 0;
    return out;
}

static uint32_t hash(const char *s) { return (uint32_t)XXH3_64bits(s, strlen(s)); }

/* ---- rows ---- */

enum column { CODE, PLAN, TEXT, COLUMNS };
static const char *const column_name[COLUMNS] = { "code", "plan", "text" };
static const int n_digits[COLUMNS] = { 3, 3, 2 };
enum { N_DIGITS = 8 };

struct row {
    const char *model, *target, *mode;              /* short names */
    bool        is_refused;
    uint32_t    hash[COLUMNS];
    uint32_t    i_model, i_target, i_mode;          /* indices in the lists of models, targets and modes */
};

/* Fills in the hashes. */
static void fill(struct row *r, const struct list *models, const struct list *targets)
{
    struct arena *volatile a = arena_create();
    die_handler = take_refusal;
    r->is_refused = true;
    memset(r->hash, 0, sizeof r->hash);
    if (setjmp(refused) == 0) {
        const struct emitted e = emit(a, models->item[r->i_model], targets->item[r->i_target], &modes[r->i_mode]);
        const char *source = text_str(&e.source), *plan = text_str(&e.plan);
        r->hash[CODE] = hash(without_spaces(a, arena_printf(a, "%s\n%s", e.command, without_comments(a, source, false))));
        r->hash[PLAN] = hash(without_spaces(a, without_comments(a, plan, true)));
        r->hash[TEXT] = hash(arena_printf(a, "%s%s%s", source, plan, text_str(&e.report)));
        for (int i = 0; i < COLUMNS; i++) r->hash[i] &= (1u << 6 * n_digits[i]) - 1;
        r->is_refused = false;
    }
    die_handler = NULL;
    arena_destroy(a);
}

/* Makes the rows that renew writes for a model and a target, with their hashes.  Returns their number, at most two. */
static uint32_t choose(struct row rows[2], const struct list *models, const struct list *targets, enum target_kind kind)
{
    fill(&rows[0], models, targets);
    if (rows[0].is_refused) return 1;
    uint32_t others[COUNT_OF(modes)], n = 0;
    for (uint32_t i = 1; i < COUNT_OF(modes); i++) if (modes[i].kinds >> kind & 1) others[n++] = i;
    const uint32_t first = hash(rows[0].model) % n + hash(rows[0].target) % n;
    for (uint32_t i = 0; i < n; i++) {                            /* some models have no drafts, or heads that cannot be divided */
        rows[1] = rows[0];
        rows[1].i_mode = others[(first + i) % n];
        rows[1].mode = modes[rows[1].i_mode].name;
        fill(&rows[1], models, targets);
        if (!rows[1].is_refused) return 2;
    }
    return 1;
}

/* Calls work(context, i) for i < n in several processes.  Returns what all of them print, in no fixed order. */
static const char *share(struct arena *a, uint32_t n, uint32_t n_processes, void (*work)(const void *context, uint32_t i, FILE *out),
                         const void *context)
{
    struct text all = { .arena = a };
    uint32_t *next = mmap(NULL, sizeof *next, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    FILE *out[64];
    pid_t child[64];
    if (next == MAP_FAILED) die("no memory");
    if (n_processes > COUNT_OF(out)) n_processes = COUNT_OF(out);
    for (uint32_t k = 0; k < n_processes; k++) {
        if (!(out[k] = tmpfile())) die("cannot make a temporary file");
        child[k] = fork();
        if (child[k] < 0) die("cannot start a process");
        if (child[k] > 0) continue;
        for (uint32_t i; (i = __atomic_fetch_add(next, 1, __ATOMIC_RELAXED)) < n; ) work(context, i, out[k]);
        _exit(fflush(out[k]) ? 1 : 0);
    }
    for (uint32_t k = 0; k < n_processes; k++) {
        int status;
        char line[512];
        if (waitpid(child[k], &status, 0) < 0 || status) die("a process that emits texts has failed");
        rewind(out[k]);
        while (fgets(line, sizeof line, out[k])) text_puts(&all, line);
        fclose(out[k]);
    }
    munmap(next, sizeof *next);
    return text_str(&all);
}

static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_";

static void print_hashes(FILE *out, const struct row *r)
{
    for (int i = 0; i < COLUMNS; i++)
        for (int k = n_digits[i]; k-- > 0; ) fputc(digits[r->hash[i] >> 6 * k & 63], out);
}

/* Reads the digits of all hashes.  Returns false for other text. */
static bool read_hashes(struct row *r, const char *s)
{
    for (int i = 0; i < COLUMNS; i++)
        for (int k = 0; k < n_digits[i]; k++, s++) {
            const char *digit = *s ? strchr(digits, *s) : NULL;
            if (!digit) return false;
            r->hash[i] = r->hash[i] << 6 | (uint32_t)(digit - digits);
        }
    return true;
}

static struct list lines_of(struct arena *a, const char *text)
{
    struct list lines = { .n = 0 };
    for (size_t n; *text; text += n + (text[n] == '\n')) {
        n = strcspn(text, "\n");
        list_add(a, &lines, arena_strndup(a, text, n));
    }
    return lines;
}

struct world { struct arena *a; struct list models, targets; const char *table; uint32_t n_processes; };

/* The names of line i of the table, "title TAB name TAB name ...". */
static struct list read_names(const struct world *w, const struct list *lines, uint32_t i, const char *title)
{
    struct list names = { .n = 0 };
    char *name = i < lines->n ? strtok(arena_strdup(w->a, lines->item[i]), "\t") : NULL;
    if (!name || strcmp(name, title)) die("%s:%u: not the names of the %s; renew the table", w->table, i + 1, title);
    while ((name = strtok(NULL, "\t"))) list_add(w->a, &names, name);
    return names;
}

static struct list read_table(const struct world *w)
{
    const struct bytes table = file_read(w->a, w->table);
    return lines_of(w->a, arena_strndup(w->a, (const char *)table.data, table.size));
}

static uint32_t find(struct arena *a, const struct list *l, const char *name)
{
    uint32_t i = 0;
    while (i < l->n && strcmp(short_name(a, l->item[i]), name)) i++;
    return i;
}

static uint32_t find_mode(const char *name)
{
    uint32_t i = 0;
    while (i < COUNT_OF(modes) && strcmp(modes[i].name, name)) i++;
    return i;
}

/* ---- renew ---- */

static void renew_model(const void *context, uint32_t i, FILE *out)
{
    const struct world *w = context;
    for (uint32_t t = 0; t < w->targets.n; t++) {
        struct row rows[2] = { { .i_model = i, .i_target = t, .model = short_name(w->a, w->models.item[i]),
                                 .target = short_name(w->a, w->targets.item[t]), .mode = modes[0].name } };
        const uint32_t n = choose(rows, &w->models, &w->targets, target_load(w->a, w->targets.item[t], NULL)->kind);
        fprintf(out, "%s\t%03u\t", rows[0].model, t);
        if (rows[0].is_refused) fputc('-', out);
        else print_hashes(out, &rows[0]);
        if (n > 1) {
            fputc('a' + (int)rows[1].i_mode, out);
            print_hashes(out, &rows[1]);
        }
        fputc('\n', out);
    }
}

static int by_text(const void *x, const void *y) { return strcmp(*(const char *const *)x, *(const char *const *)y); }

/* The targets in the order of the table, then those that it does not have. */
static struct list keep_order(const struct world *w)
{
    struct list ordered = { .n = 0 };
    if (access(w->table, R_OK) != 0) return w->targets;
    const struct list lines = read_table(w), names = read_names(w, &lines, 0, "targets");
    for (uint32_t i = 0; i < names.n; i++) {
        const uint32_t t = find(w->a, &w->targets, names.item[i]);
        if (t < w->targets.n) list_add(w->a, &ordered, w->targets.item[t]);
    }
    for (uint32_t t = 0; t < w->targets.n; t++)
        if (find(w->a, &names, short_name(w->a, w->targets.item[t])) == names.n) list_add(w->a, &ordered, w->targets.item[t]);
    return ordered;
}

static int renew(const struct world *w)
{
    struct list lines = lines_of(w->a, share(w->a, w->models.n, w->n_processes, renew_model, w));
    struct text t = { .arena = w->a };
    if (lines.n) qsort(lines.item, lines.n, sizeof *lines.item, by_text);
    text_puts(&t, "targets");
    for (uint32_t i = 0; i < w->targets.n; i++) text_printf(&t, "\t%s", short_name(w->a, w->targets.item[i]));
    text_puts(&t, "\nmodes");
    for (size_t i = 0; i < COUNT_OF(modes); i++) text_printf(&t, "\t%s", modes[i].name);
    text_puts(&t, "\n");
    for (uint32_t i = 0; i < lines.n; i++) {                      /* "model TAB place of the target TAB hashes" */
        const char *line = lines.item[i];
        const size_t model = strcspn(line, "\t") + 1;
        if (i == 0 || strncmp(line, lines.item[i - 1], model)) text_printf(&t, ":%.*s\n", (int)model - 1, line);
        text_printf(&t, "%s\n", strrchr(line, '\t') + 1);
    }
    file_write(w->a, w->table, (struct bytes){ (const uint8_t *)text_str(&t), t.size });
    printf("%u lines of %u models and %u targets in %s\n", lines.n, w->models.n, w->targets.n, w->table);
    return 0;
}

/* ---- check ---- */

/* Parses a line of hashes; names: of the table's modes.  Returns the number of rows; 0: it is not such a line. */
static uint32_t read_rows(const struct world *w, const char *model, const char *target, const struct list *names, const char *line,
                          struct row rows[2])
{
    const bool is_refused = !strcmp(line, "-");
    const uint32_t n = is_refused || strlen(line) == N_DIGITS ? 1 : 2;
    if (n == 2 && (strlen(line) != 2 * N_DIGITS + 1 || line[N_DIGITS] < 'a' || (uint32_t)(line[N_DIGITS] - 'a') >= names->n)) return 0;
    for (uint32_t k = 0; k < n; k++) {
        rows[k] = (struct row){ .model = model, .target = target, .mode = k ? names->item[line[N_DIGITS] - 'a'] : modes[0].name,
                                .is_refused = is_refused, .i_model = find(w->a, &w->models, model),
                                .i_target = find(w->a, &w->targets, target) };
        rows[k].i_mode = find_mode(rows[k].mode);
        if (!is_refused && !read_hashes(&rows[k], line + k * (N_DIGITS + 1))) return 0;
    }
    return n;
}

struct check { const struct world *w; struct row **rows; uint32_t n; };

/* Checks the rows of model i: prints a line "index code plan refused message" for each row that differs. */
static void check_model(const void *context, uint32_t i, FILE *out)
{
    const struct check *c = context;
    for (uint32_t k = 0; k < c->n; k++) {
        if (c->rows[k]->i_model != i) continue;
        struct row now = *c->rows[k];
        fill(&now, &c->w->models, &c->w->targets);
        if (now.is_refused == c->rows[k]->is_refused && !memcmp(now.hash, c->rows[k]->hash, sizeof now.hash)) continue;
        fprintf(out, "%u %d %d %d %s\n", k, now.hash[CODE] != c->rows[k]->hash[CODE], now.hash[PLAN] != c->rows[k]->hash[PLAN],
                now.is_refused, now.is_refused ? refusal : "");
    }
}

/* The target portable is compiled for the host, so its flags differ on other machines. */
static bool is_of_this_host(const struct row *r)
{
    return strcmp(r->target, "portable") || !strcmp(target_host_machine(), "x86_64");
}

/* A third of all rows, chosen by the names: each model has some targets, and each target has some models.  The thirds take turns, so that
 * within a few commits every row is compared. */
static bool is_of_the_few(const struct row *r, uint32_t turn)
{
    return (hash(r->model) % 3 + hash(r->target) % 3 + (r->i_mode != 0) + turn) % 3 == 0;
}

static int check(const struct world *w, bool few, bool text, bool keys)
{
    enum { SHOWN = 30 };
    const struct list lines = read_table(w), targets = read_names(w, &lines, 0, "targets"), names = read_names(w, &lines, 1, "modes");
    struct check c = { w, arena_array(w->a, struct row *, 2 * lines.n), 0 };
    const char *model = NULL;
    const char *number = getenv("FORGEC_TURN");
    const uint32_t turn = number ? (uint32_t)(strtoul(number, NULL, 10) % 3) : 0;
    bool *has = arena_array(w->a, bool, (size_t)w->models.n * w->targets.n * 2);      /* rows: in the default mode, in another mode */
    uint32_t *of_target = arena_array(w->a, uint32_t, w->targets.n);             /* number of rows that differ; only the first is shown */
    uint32_t wrong = 0, code = 0, plans = 0, comments = 0, t = 0;
    for (uint32_t i = 2; i < lines.n; i++) {
        if (*lines.item[i] == ':') { model = lines.item[i] + 1; t = 0; continue; }
        struct row *rows = arena_array(w->a, struct row, 2);
        const uint32_t n = model && t < targets.n ? read_rows(w, model, targets.item[t++], &names, lines.item[i], rows) : 0;
        if (!n) die("%s:%u: not a line of hashes; renew the table", w->table, i + 1);
        for (struct row *r = rows; r < rows + n; r++) {
            if (r->i_mode == COUNT_OF(modes) || r->i_model == w->models.n || r->i_target == w->targets.n) {
                if (wrong++ < SHOWN) printf("%s %s %s: there is no such %s any more\n", r->model, r->target, r->mode,
                                            r->i_model == w->models.n ? "model" : r->i_target == w->targets.n ? "target" : "mode");
                continue;
            }
            has[2 * (r->i_model * w->targets.n + r->i_target) + (r->i_mode != 0)] = true;
            if (is_of_this_host(r) && (!few || is_of_the_few(r, turn))) c.rows[c.n++] = r;
        }
    }
    for (uint32_t i = 0; i < 2 * w->models.n * w->targets.n; i++)
        if (!has[i] && wrong++ < SHOWN)
            printf("%s: %s, %s: the row is not in the table\n", short_name(w->a, w->targets.item[i / 2 % w->targets.n]),
                   short_name(w->a, w->models.item[i / 2 / w->targets.n]), i % 2 ? "a mode besides the default" : "mode default");

    const struct list found = lines_of(w->a, share(w->a, w->models.n, w->n_processes, check_model, &c));
    for (uint32_t i = 0; i < found.n; i++) {
        uint32_t k;
        int differs[2], is_refused, at;
        if (sscanf(found.item[i], "%u %d %d %d %n", &k, &differs[CODE], &differs[PLAN], &is_refused, &at) < 4)
            die("what a process says is cut short");
        const struct row *r = c.rows[k];
        const bool remarks = !differs[CODE] && !differs[PLAN] && is_refused == r->is_refused;
        code += (uint32_t)differs[CODE];
        plans += (uint32_t)differs[PLAN];
        comments += remarks;
        if (remarks && !text) continue;
        if (keys) printf("%s\t%s\t%s\n", r->model, r->target, r->mode);
        else if (!of_target[r->i_target]++ && wrong++ < SHOWN)
            printf("%s: %s, mode %s: %s%s\n", r->target, r->model, r->mode,
                   is_refused && !r->is_refused ? "forgec refuses it now: " : r->is_refused ? "forgec refused it, and builds it now" :
                   differs[CODE] && differs[PLAN] ? "the code and the plan have changed" : differs[CODE] ? "the code has changed" :
                   differs[PLAN] ? "the plan has changed" : "comments or spaces have changed, the code has not",
                   is_refused && !r->is_refused ? found.item[i] + at : "");
    }
    if (keys) return found.n > 0;
    if (wrong > SHOWN) printf("... and %u more\n", wrong - SHOWN);
    printf("%u texts of %u models for %u targets: the %s of %u, the %s of %u and comments alone of %u differ from %s\n", c.n, w->models.n,
           w->targets.n, column_name[CODE], code, column_name[PLAN], plans, comments, path_name(w->table));
    if (!wrong) return 0;
    printf("See what has changed:  tests/golden/emitted.sh diff\nIf it is meant:        tests/golden/emitted.sh renew\n");
    return 1;
}

/* ---- show ---- */

static int show(const struct world *w, const char *model, const char *target, const char *mode, bool text)
{
    struct row r = { .i_model = find(w->a, &w->models, model), .i_target = find(w->a, &w->targets, target), .i_mode = find_mode(mode) };
    if (r.i_model == w->models.n) die("no model \"%s\"", model);
    if (r.i_target == w->targets.n) die("no target \"%s\"", target);
    if (r.i_mode == COUNT_OF(modes)) die("no mode \"%s\"", mode);
    const struct emitted e = emit(w->a, w->models.item[r.i_model], w->targets.item[r.i_target], &modes[r.i_mode]);
    if (text) printf("%s\n%s%s%s", e.command, text_str(&e.plan), text_str(&e.report), text_str(&e.source));
    else printf("%s\n%s%s", e.command, without_comments(w->a, text_str(&e.plan), true), without_comments(w->a, text_str(&e.source), false));
    return 0;
}

int main(int argc, char **argv)
{
    struct arena *a = arena_create();
    struct world w = { .a = a, .table = FORGEC_SOURCE_DIR "/tests/golden/emitted.txt" };
    struct list folders = { .n = 0 }, usual_folders = { .n = 0 };
    bool keys = false;
    w.n_processes = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
    for (int c; (c = getopt(argc, argv, "m:f:j:k")) != -1; )
        switch (c) {
        case 'm': list_add(a, &folders, optarg); break;
        case 'f': w.table = optarg; break;
        case 'j': w.n_processes = (uint32_t)atoi(optarg); break;
        case 'k': keys = true; break;
        default: return 2;
        }
    static const char *const usual[] = { FORGEC_TEST_DATA "/golden", FORGEC_UNPACKED "/golden", FORGEC_UNPACKED "/tiny",
                                         FORGEC_UNPACKED "/real" };
    for (size_t i = 0; !folders.n && i < COUNT_OF(usual); i++) list_add(a, &usual_folders, usual[i]);
    argc -= optind;
    argv += optind;
    if (w.n_processes == 0) w.n_processes = 1;
    warn_handler = ignore;
    mallopt(M_MMAP_THRESHOLD, 32 << 20);            /* arenas are created and freed often: page faults would take a fifth of the time */
    mallopt(M_TRIM_THRESHOLD, 512 << 20);
    w.models = find_models(a, folders.n ? &folders : &usual_folders);
    w.targets = find_targets(a);
    if (argc == 1 && !strcmp(argv[0], "renew")) {
        w.targets = keep_order(&w);
        return renew(&w);
    }
    const bool few = argc >= 2 && !strcmp(argv[1], "few"), text = argc >= 3 && !strcmp(argv[2], "text");
    if (argc >= 2 && argc <= 3 && !strcmp(argv[0], "check") && (few || !strcmp(argv[1], "all"))) return check(&w, few, text, keys);
    if (argc >= 4 && argc <= 5 && !strcmp(argv[0], "show"))
        return show(&w, argv[1], argv[2], argv[3], argc == 5 && !strcmp(argv[4], "text"));
    fprintf(stderr, "usage: emitted [-m DIR] [-f TABLE] [-j N] check few|all [text] | renew | show MODEL TARGET MODE [text]\n");
    return 2;
}
