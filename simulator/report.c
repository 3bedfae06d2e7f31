/* report.c -- findings: operations of a kernel that the instruction set leaves undefined, or that the simulator cannot execute.
 *
 * One line per finding on stderr; each (kernel, instruction, kind) once per launch, and at most MOST_LINES lines per launch, because a
 * wrong kernel is wrong in every wave.  Any number of threads may report at once. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gfxsim.h"

enum { MOST_LINES = 20, LAUNCH_FAILURE = 719 /* hipErrorLaunchFailure */, LINE_CHARS = 1024 };

const char *const finding_names[N_FINDINGS] = {
    [FINDING_UNKNOWN] = "unknown", [FINDING_BOUNDS] = "bounds", [FINDING_ALIGNMENT] = "alignment", [FINDING_UNDEFINED] = "undefined",
    [FINDING_WAIT] = "wait", [FINDING_LDS_RACE] = "lds-race", [FINDING_RACE] = "race", [FINDING_SCALAR_CACHE] = "scalar-cache",
    [FINDING_DIES] = "dies", [FINDING_FLAG] = "flag", [FINDING_PEERS] = "peers",
    [FINDING_DEADLOCK] = "deadlock", [FINDING_OTHER] = "other",
};

/* ---- FORGE_GFXSIM_IGNORE ---- */

static uint32_t       ignored_kinds;             /* a bit for each enum finding */
static pthread_once_t ignored_once = PTHREAD_ONCE_INIT;

/* An instruction that is not modelled cannot be ignored: its result would be a guess. */
static void ignore_name(const char *name, size_t n)
{
    for (uint32_t k = 0; k < N_FINDINGS; k++)
        if (k != FINDING_UNKNOWN && strlen(finding_names[k]) == n && strncmp(finding_names[k], name, n) == 0) {
            ignored_kinds |= 1u << k;
            return;
        }
    fprintf(stderr, "gfxsim: FORGE_GFXSIM_IGNORE: \"%.*s\" is not a kind of finding that can be ignored\n", (int)n, name);
}

static void read_ignored(void)
{
    const char *at = getenv("FORGE_GFXSIM_IGNORE");
    while (at != NULL && *at != 0) {
        const size_t n = strcspn(at, ", ");
        if (n > 0) ignore_name(at, n);
        at += n + (at[n] != 0);
    }
    /* groups that do not run leave data undefined */
    if (setting("FORGE_GFXSIM_SAMPLE", 0) > 0) ignored_kinds |= 1u << FINDING_UNDEFINED;
}

bool ignored(enum finding kind)
{
    pthread_once(&ignored_once, read_ignored);
    return (ignored_kinds >> kind & 1) != 0;
}

/* ---- one line for each instruction and kind ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct told {
    uint32_t n, launch;                          /* of the launch with this number, one per chip */
    bool     more;
    struct { const struct kernel *kernel; uint32_t pc, kind; } line[MOST_LINES];
} told_of[MAX_CHIPS];

/* Under the lock: whether this must be printed. */
static bool first_time(const struct launch *l, uint32_t pc, enum finding kind)
{
    struct told *t = &told_of[l->device];
    if (l->number != t->launch) { t->launch = l->number; t->n = 0; t->more = false; }
    for (uint32_t k = 0; k < t->n; k++)
        if (t->line[k].kernel == l->kernel && t->line[k].pc == pc && t->line[k].kind == (uint32_t)kind) return false;
    if (t->n == MOST_LINES) {
        if (!t->more) fprintf(stderr, "gfxsim: %s: more findings in this launch are not printed\n", l->kernel->name);
        t->more = true;
        return false;
    }
    t->line[t->n].kernel = l->kernel;
    t->line[t->n].pc = pc;
    t->line[t->n++].kind = (uint32_t)kind;
    return true;
}

static size_t append(char *line, size_t at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static size_t append_list(char *line, size_t at, const char *fmt, va_list list) __attribute__((format(printf, 3, 0)));

static size_t append_list(char *line, size_t at, const char *fmt, va_list list)
{
    const int n = vsnprintf(line + at, LINE_CHARS - at, fmt, list);
    return n < 0 ? at : at + (size_t)n < LINE_CHARS ? at + (size_t)n : LINE_CHARS - 1;
}

static size_t append(char *line, size_t at, const char *fmt, ...)
{
    va_list list;
    va_start(list, fmt);
    at = append_list(line, at, fmt, list);
    va_end(list);
    return at;
}

bool report(struct wave *w, const struct inst *i, enum finding kind, int lane, const char *fmt, ...)
{
    if (kind == FINDING_UNDEFINED && order_explain(w, i)) return true;     /* loaded out of order */
    if (ignored(kind)) return false;
    const struct group *g = w->group;
    struct launch *l = g->launch;
    char line[LINE_CHARS];
    pthread_mutex_lock(&lock);
    if (first_time(l, i != NULL ? i->pc : UINT32_MAX, kind)) {
        size_t at = append(line, 0, "gfxsim: ");
        if (l->several) at = append(line, at, "chip %u: ", l->device);
        at = append(line, at, "%s, group %u,%u", l->kernel->name, g->x, g->y);
        if (l->grid[2] > 1) at = append(line, at, ",%u", g->z);
        at = append(line, at, ", wave %u", w->index);
        if (lane >= 0) at = append(line, at, ", lane %d", lane);
        at = append(line, at, ": ");
        va_list list;
        va_start(list, fmt);
        at = append_list(line, at, fmt, list);
        va_end(list);
        if (i != NULL) append(line, at, " (0x%x: %s)", i->pc, i->text != NULL ? i->text : "");
        fprintf(stderr, "%s\n", line);
    }
    pthread_mutex_unlock(&lock);
    __atomic_store_n(&l->failed, LAUNCH_FAILURE, __ATOMIC_RELEASE);
    return true;
}
