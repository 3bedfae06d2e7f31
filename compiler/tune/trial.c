/* trial.c -- see trial.h. The file of numbers is text: the head, then one line per measurement: key, name, values or "failed". */
#include "trial.h"
#include "compiler/build/cache.h"
#include "compiler/build/spawn.h"
#include "compiler/plan/plan.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct measured { const char *key, *values; };             /* key: with the measurement's name; values: the rest of the line */

struct trials {
    struct arena               *arena;
    const struct build_options *options;
    const struct runner        *runner;
    struct workplace           *workplace;
    const char                 *log_path;
    FILE                       *log;
    struct measured              *known;
    uint32_t                    n_known, capacity, n_built;
};

/* ---- the file of numbers ---- */

static void read_line(struct trials *t, const char *line, size_t n)
{
    const char *tab = memchr(line, '\t', n), *second = tab ? memchr(tab + 1, '\t', n - (size_t)(tab + 1 - line)) : NULL;
    if (!second) return;                                  /* the last line of a truncated file */
    arena_room(t->arena, t->known, t->n_known, t->capacity);
    t->known[t->n_known++] = (struct measured){ arena_strndup(t->arena, line, (size_t)(second - line)),
                                              arena_strndup(t->arena, second + 1, n - (size_t)(second + 1 - line)) };
}

/* Reads the numbers if they belong to this search. */
static bool read_log(struct trials *t, const char *head)
{
    if (!file_exists(t->log_path)) return false;
    const struct bytes file = file_read(t->arena, t->log_path);
    const char *p = (const char *)file.data, *end = p + file.size, *eol = memchr(p, '\n', file.size);
    if (!eol || (size_t)(eol - p) != strlen(head) || memcmp(p, head, strlen(head))) return false;
    for (p = eol + 1; (eol = memchr(p, '\n', (size_t)(end - p))); p = eol + 1) read_line(t, p, (size_t)(eol - p));
    return true;
}

/* True if the file belongs to this search or another search, or does not exist. */
static bool is_log(struct arena *a, const char *path)
{
    static const char begin[] = "forgec ";
    if (!file_exists(path)) return true;
    const struct bytes file = file_read(a, path);
    return file.size == 0 || (file.size > strlen(begin) && memcmp(file.data, begin, strlen(begin)) == 0);
}

struct trials *trials_open(struct arena *a, const struct build_options *options, const struct runner *runner, struct workplace *w,
                           const char *log_path, const char *head)
{
    struct trials *t = arena_new(a, struct trials);
    *t = (struct trials){ .arena = a, .options = options, .runner = runner, .workplace = w, .log_path = log_path };
    const bool continues = read_log(t, head);
    if (!continues && !is_log(a, log_path))
        die("%s: exists already and is not a list of measurements; move it, or give another -o", log_path);
    t->log = fopen(log_path, continues ? "a" : "w");
    if (!t->log || (!continues && fprintf(t->log, "%s\n", head) < 0) || fflush(t->log))
        die("%s: cannot be written: %s; it keeps what was measured", log_path, strerror(errno));
    return t;
}

uint32_t trials_known(const struct trials *t) { return t->n_known; }

void trials_forget(struct trials *t)
{
    fclose(t->log);
    unlink(t->log_path);
}

static bool parse_values(const char *text, double *values, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        char *end;
        values[i] = strtod(text, &end);
        if (end == text || !isfinite(values[i])) return false;
        text = end;
    }
    return true;
}

bool trials_measure(struct trials *t, const struct trial *trial, const char *what, double *values, uint32_t n, take_values *take,
                    void *context)
{
    const char *key = arena_printf(t->arena, "%s\t%s", trial->key, what);
    for (uint32_t i = 0; i < t->n_known; i++) if (strcmp(t->known[i].key, key) == 0) return parse_values(t->known[i].values, values, n);
    if (!trial->path) return false;
    struct text line = { .arena = t->arena };
    const bool taken = take(context, trial, values, n);
    text_printf(&line, "%s\t", key);
    for (uint32_t i = 0; taken && i < n; i++) text_printf(&line, "%s%.9g", i ? " " : "", values[i]);
    if (!taken) text_puts(&line, "failed");
    text_puts(&line, "\n");
    if (fputs(text_str(&line), t->log) < 0 || fflush(t->log)) die("%s: cannot be written: %s", t->log_path, strerror(errno));
    return taken;
}

/* ---- programs ---- */

/* The options of a build as a command line of forgec. */
static const char *const *build_line(struct trials *t, const char *tuned, const char *out)
{
    enum { MOST = 128 };
    const struct build_options *o = t->options;
    const char **argv = arena_array(t->arena, const char *, MOST);
    size_t n = 0;
    const struct { const char *name, *value; } words[] = {
        { "--target", o->n_targets ? o->targets[0] : NULL }, { "--weights", "none" }, { "--fuse", o->fuse == FUSE_NONE ? "none" : "layer" },
        { "--kv", kv_type_name[o->plan.kv] }, { "--ctx", o->plan.n_ctx ? arena_printf(t->arena, "%u", o->plan.n_ctx) : NULL },
        { "--threads", o->plan.max_threads ? arena_printf(t->arena, "%u", o->plan.max_threads) : NULL }, { "--clang", o->cc.clang },
        { "--templates", o->templates_dir }, { "--targets", o->targets_dir }, { "--models", o->models_dir }, { "--tuned", tuned },
        { "-j", "1" }, { "-o", out },
    };
    argv[n++] = "/proc/self/exe";
    argv[n++] = "build";
    argv[n++] = "-q";
    for (size_t i = 0; i < COUNT_OF(words); i++) if (words[i].value) { argv[n++] = words[i].name; argv[n++] = words[i].value; }
    if (o->gpus > 1) { argv[n++] = "--gpus"; argv[n++] = arena_printf(t->arena, "%u", o->gpus); }
    if (o->plan.columns) { argv[n++] = "--columns"; argv[n++] = arena_printf(t->arena, "%u", o->plan.columns); }
    if (o->plan.spec) { argv[n++] = "--spec"; argv[n++] = spec_kind_name[o->plan.spec]; }
    if (o->plan.exact) argv[n++] = "--exact";
    if (o->is_static) argv[n++] = "--static";
    if (o->cc.no_cache) argv[n++] = "--no-cache";
    for (uint32_t i = 0; i < o->n_ignored_keys; i++) { argv[n++] = "--ignore-key"; argv[n++] = o->ignored_keys[i]; }
    for (uint32_t i = 0; i < o->n_ignored_tensors; i++) { argv[n++] = "--ignore-tensor"; argv[n++] = o->ignored_tensors[i]; }
    argv[n++] = "--";
    argv[n] = o->model_path;
    return argv;
}

/* "forgec: error: MODEL: ..." -> the text after the first "error: ". */
static const char *message_of(struct arena *a, const char *messages)
{
    const char *at = strstr(messages, "error: "), *text = at ? at + strlen("error: ") : messages;
    return arena_strndup(a, text, strcspn(text, "\n"));
}

void trials_build(struct trials *t, struct trial *list, uint32_t n)
{
    struct spawn_job *jobs = arena_array(t->arena, struct spawn_job, n);
    const char **paths = arena_array(t->arena, const char *, n);
    for (uint32_t i = 0; i < n; i++) {
        const struct bytes text = bytes_of(list[i].yaml ? list[i].yaml : "");
        list[i].key = arena_printf(t->arena, "%.12s", cache_key_hex(t->arena, cache_key_of(&text, 1)));
        const char *tuned = list[i].yaml ? workplace_path(t->arena, t->workplace, arena_printf(t->arena, "%u.yaml", t->n_built)) : NULL;
        list[i].file = tuned;
        paths[i] = workplace_path(t->arena, t->workplace, arena_printf(t->arena, "%u", t->n_built++));
        if (tuned) file_write(t->arena, tuned, text);
        jobs[i] = (struct spawn_job){ .argv = build_line(t, tuned, paths[i]) };
    }
    spawn_run(t->arena, &(struct spawn_options){ .jobs = t->options->cc.spawn.jobs, .verbose = t->options->cc.spawn.verbose }, jobs, n);
    for (uint32_t i = 0; i < n; i++) {
        if (jobs[i].status == -1) die("cannot run forgec itself (/proc/self/exe): %s", strerror(jobs[i].start_errno));
        list[i].path = jobs[i].status == 0 ? paths[i] : NULL;
        if (jobs[i].status) workplace_remove(t->workplace, paths[i]);
        list[i].why_not = jobs[i].status == 0 ? NULL : message_of(t->arena, jobs[i].messages);
    }
}

void trials_drop(struct trials *t, struct trial *list, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (list[i].path) workplace_remove(t->workplace, list[i].path);
        if (list[i].file) workplace_remove(t->workplace, list[i].file);
        list[i].path = list[i].file = NULL;
    }
}
