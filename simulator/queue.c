/* queue.c -- work on streams: done at once with one chip, in turns with several.
 *
 *   FORGE_GFXSIM_DEVICES=N    number of chips, up to 8 (default: as many as FORGE_GFXSIM_CHIP lists, or one)
 *   FORGE_GFXSIM_CHIP=A,B     the chips: one name for each, or one for all
 *   FORGE_GFXSIM_NO_PEER=1    no chip reaches the memory of another
 *   FORGE_GFXSIM_PATIENCE=N   seconds that launches may wait for a chip that the host has given no work (default 10)
 *
 * With one chip an operation is done before the call that puts it on a stream returns, or at a query (FORGE_GFXSIM_DEFER).  With several
 * chips the host continues, and a thread of the simulator does the work: the operations of each device one after another, in the order in
 * which they were put on any of its streams, and the devices in turns: a launch gets a slice of each of its groups, then it is the next
 * device's turn.  So launches of several chips make progress together, but only one runs at any time, and the data of a launch needs no
 * more locks than with one chip.  FORGE_GFXSIM_SEED draws which device is first and how many slices a chip gets in a turn.
 *
 * If no launch makes progress and each of their waves repeats, only the host can change anything.  If all chips are busy, this is a
 * deadlock at once; otherwise the host has some seconds to provide work for the others. */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "queue.h"

enum { MOST_COUNTED = 1 << 20, TEXT_BYTES = 512, NAP_NS = 2000000, MOST_ROUNDS = 3 };

static struct stream default_streams[MAX_CHIPS], *streams;
static int failure;                              /* stays */
static uint32_t n_launches;

/* With several chips.  The lock protects all of it, and streams and events as far as their work is concerned. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER, done = PTHREAD_COND_INITIALIZER;        /* work to do; work is done */
static struct device {
    struct list list; size_t first;              /* operations to do, from `first` on */
    uint32_t n_put, n_done;
    bool     busy;                               /* with: */
    struct op op;
    struct launch *launch;
    struct run *run;
    double   began;
} devices[MAX_CHIPS];
static uint32_t known[MAX_CHIPS];                /* number of each chip's last operation that the host has seen done */
static uint32_t peers[MAX_CHIPS];                /* bits: chips whose memory each reaches besides its own */
static double   last_put;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *need(void *memory)
{
    if (memory != NULL) return memory;
    fputs("gfxsim: no memory of the host is left\n", stderr);
    abort();
}

int queue_failure(void) { return __atomic_load_n(&failure, __ATOMIC_ACQUIRE); }
static void fail(int code) { if (code != 0) __atomic_store_n(&failure, code, __ATOMIC_RELEASE); }

/* ---- the chips ---- */

const struct chip *chips_wanted(uint32_t device)
{
    size_t n;
    const char *name = setting_text("FORGE_GFXSIM_CHIP", device, &n);
    for (uint32_t i = 0; name != NULL && i < n_chips; i++)
        if (strlen(chips[i].name) == n && strncmp(chips[i].name, name, n) == 0) return &chips[i];
    return NULL;
}

static uint32_t n_devices;
static void count_chips(void)
{
    const char *list = getenv("FORGE_GFXSIM_CHIP"), *number = getenv("FORGE_GFXSIM_DEVICES");
    char *end = NULL;
    unsigned long n = 1;
    size_t length;
    for (const char *at = list; at != NULL && (at = strchr(at, ',')) != NULL; at++) n++;
    if (number != NULL && *number != 0) n = strtoul(number, &end, 10);
    if (n < 1 || n > MAX_CHIPS || (end != NULL && *end != 0)) {
        fprintf(stderr, "gfxsim: FORGE_GFXSIM_%s=%s: there can be 1 to %d chips\n", end != NULL ? "DEVICES" : "CHIP",
                end != NULL ? number : list, MAX_CHIPS);
        return;
    }
    for (uint32_t k = 0; k < n; k++)
        if (setting_text("FORGE_GFXSIM_CHIP", k, &length) != NULL && chips_wanted(k) == NULL) {
            fprintf(stderr, "gfxsim: FORGE_GFXSIM_CHIP=%s: the simulator does not have this chip\n", list);
            return;
        }
    n_devices = (uint32_t)n;
}

uint32_t chips_count(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, count_chips);
    return n_devices;
}

/* With one chip the variable is read each time: a process may change it between two programs. */
bool chips_known(void)
{
    size_t length;
    if (n_devices > 1 || setting_text("FORGE_GFXSIM_CHIP", 0, &length) == NULL || chips_wanted(0) != NULL) return true;
    fprintf(stderr, "gfxsim: FORGE_GFXSIM_CHIP=%s: the simulator does not have this chip\n", getenv("FORGE_GFXSIM_CHIP"));
    return false;
}

static bool several(void) { return chips_count() > 1; }
bool chips_peers(void) { return setting("FORGE_GFXSIM_NO_PEER", 0) == 0; }

int chips_open_peer(uint32_t device, uint32_t peer)
{
    int code = 0;
    if (device == peer) return BAD_DEVICE;
    if (!chips_peers()) return NO_PEERS;
    pthread_mutex_lock(&lock);
    if ((peers[device] >> peer & 1) != 0) code = PEERS_ALREADY;
    peers[device] |= 1u << peer;
    pthread_mutex_unlock(&lock);
    return code;
}

/* ---- defined bytes ---- */

/* Number of bytes of [address, address + n) never written, the first of them in *first; counts up to MOST_COUNTED. */
static size_t count_undefined(uint64_t address, size_t n, uint64_t *first)
{
    if (n == 0 || memory_defined(address, n)) return 0;
    if (n == 1) {
        if (address < *first) *first = address;
        return 1;
    }
    const size_t low = count_undefined(address, n / 2, first);
    return low < MOST_COUNTED ? low + count_undefined(address + n / 2, n - n / 2, first) : low;
}

static void copy_defined(uint64_t to, uint64_t from, size_t n)
{
    if (n > 1 && !memory_defined(from, n)) {
        copy_defined(to, from, n / 2);
        copy_defined(to + n / 2, from + n / 2, n - n / 2);
    } else if (n > 0) {
        memory_set_defined(to, n, memory_defined(from, n));
    }
}

static uint64_t at(const void *address) { return (uint64_t)(uintptr_t)address; }

/* Returns true if it may be copied. */
static bool check_download(const void *from, size_t bytes)
{
    uint64_t first = UINT64_MAX;
    const size_t n = ignored(FINDING_UNDEFINED) ? 0 : count_undefined(at(from), bytes, &first);
    char where[200];
    if (n == 0) return true;
    memory_describe(where, sizeof where, first);
    fprintf(stderr, "gfxsim: %s%zu bytes copied to the host at %p were never written; the first of them is %s\n",
            n >= MOST_COUNTED ? "more than " : "", n, (void *)(uintptr_t)first, where);
    return false;
}

/* ---- launches ---- */

static uint64_t hidden_value(const struct launch *l, enum hidden_kind kind)
{
    switch (kind) {
    case HIDDEN_BLOCK_COUNT_X: case HIDDEN_BLOCK_COUNT_Y: case HIDDEN_BLOCK_COUNT_Z: return l->grid[kind - HIDDEN_BLOCK_COUNT_X];
    case HIDDEN_GROUP_SIZE_X: case HIDDEN_GROUP_SIZE_Y: case HIDDEN_GROUP_SIZE_Z:    return l->threads[kind - HIDDEN_GROUP_SIZE_X];
    case HIDDEN_GRID_DIMS:        return 3;      /* HIP's value for every launch */
    case HIDDEN_DYNAMIC_LDS_SIZE: return l->dynamic_lds;
    default:                      return 0;      /* HIP's grids are whole groups and begin at 0 */
    }
}

/* Explicit arguments, then those that LLVM adds (AMDGPUUsage, code object V5 metadata); gaps between them stay undefined. */
static void fill_kernarg(const struct launch *l, const uint8_t *args)
{
    const struct kernel *k = l->kernel;
    memset(l->kernarg, 0xff, k->kernarg_bytes);
    memory_set_defined(at(l->kernarg), k->kernarg_bytes, false);
    memcpy(l->kernarg, args, k->explicit_bytes);
    memory_set_defined(at(l->kernarg), k->explicit_bytes, true);
    for (uint32_t i = 0; i < k->n_hidden; i++) {
        const struct hidden_arg *h = &k->hidden[i];
        const uint64_t value = hidden_value(l, h->kind);
        if ((uint64_t)h->offset + h->size > k->kernarg_bytes) continue;
        memset(l->kernarg + h->offset, 0, h->size);
        memcpy(l->kernarg + h->offset, &value, h->size < sizeof value ? h->size : sizeof value);
        memory_set_defined(at(l->kernarg + h->offset), h->size, true);
    }
}

static uint64_t sum(const uint64_t *x, uint32_t n)
{
    uint64_t all = 0;
    for (uint32_t i = 0; i < n; i++) all += x[i];
    return all;
}

static void trace(const struct launch *l, double seconds, uint64_t level)
{
    char chip[20] = "";
    static const char *const names[N_CLASSES] = { "salu", "branch", "wait", "barrier", "smem", "valu", "trans", "dot", "matrix", "lds",
                                                  "load", "store", "atomic", "scratch", "other" };
    const struct counters *c = &l->counters;
    if (l->several) snprintf(chip, sizeof chip, "chip %u: ", l->device);
    fprintf(stderr, "gfxsim: launch %u: %s%s, %u,%u,%u groups of %u,%u,%u: %" PRIu64 " instructions, %.2f ms%s\n", l->number, chip,
            l->kernel->name, l->grid[0], l->grid[1], l->grid[2], l->threads[0], l->threads[1], l->threads[2],
            sum(c->instructions, N_CLASSES), seconds * 1e3, l->failed != 0 ? ", failed" : "");
    if (level < 2) return;
    for (uint32_t i = 0; i < N_CLASSES; i++)
        if (c->instructions[i] > 0)
            fprintf(stderr, "gfxsim:   %-8s %12" PRIu64 ", lanes idle %" PRIu64 "\n", names[i], c->instructions[i], c->lanes_idle[i]);
    fprintf(stderr,
            "gfxsim:   loaded %" PRIu64 " bytes, stored %" PRIu64 ", scalar %" PRIu64 "; LDS: %" PRIu64 " loads, %" PRIu64 " stores, "
            "%" PRIu64 " conflicts; "
            "%" PRIu64 " barriers, %" PRIu64 " waves\n", c->loaded_bytes, c->stored_bytes, c->scalar_bytes, c->lds_loads, c->lds_stores,
            c->lds_conflicts, c->barriers,
            c->waves);
}

static struct launch *make_launch(const struct op *op)
{
    const struct kernel *k = op->function->kernel;
    const char *stats = getenv("FORGE_GFXSIM_STATS");
    struct launch *l = need(calloc(1, sizeof *l));
    l->kernel = k;
    l->chip = k->module->chip;
    l->number = ++n_launches;
    l->device = op->function->device;
    l->several = several();
    l->reach = 1u << l->device | __atomic_load_n(&peers[l->device], __ATOMIC_RELAXED);
    l->seq = op->seq;
    l->known = op->known;
    memcpy(l->grid, op->grid, sizeof l->grid);
    memcpy(l->threads, op->threads, sizeof l->threads);
    l->stats = setting("FORGE_GFXSIM_TRACE", 0) > 1 || (stats != NULL && *stats != 0);
    if (l->stats) l->channels = channels_setting();
    l->dynamic_lds = op->lds;
    l->kernarg = op->function->kernarg;
    fill_kernarg(l, op->args);
    return l;
}

static void end_launch(struct launch *l, double seconds)
{
    const uint64_t level = setting("FORGE_GFXSIM_TRACE", 0);
    if (level > 0) trace(l, seconds, level);
    free(l);
}

static int run_launch(const struct op *op)
{
    struct launch *l = make_launch(op);
    const double start = now();
    const int code = launch_run(l);
    end_launch(l, now() - start);
    return code;
}

/* ---- operations ---- */

static void run_op(const struct op *op)
{
    if (queue_failure() != 0) return;
    switch (op->kind) {
    case UPLOAD:
        memcpy(op->to, op->from, op->n);
        memory_set_defined(at(op->to), op->n, true);
        break;
    case DOWNLOAD:
        if (setting("FORGE_GFXSIM_SAMPLE", 0) > 0) memset(op->to, 0, op->n);     /* results of a sample of groups have no meaning, and
                                                                                  * may be NaN */
        else memcpy(op->to, op->from, op->n);
        if (!check_download(op->from, op->n)) fail(LAUNCH_FAILURE);
        break;
    case COPY:
        memmove(op->to, op->from, op->n);
        copy_defined(at(op->to), at(op->from), op->n);
        break;
    case CLEAR:
        memset(op->to, op->value, op->n);
        memory_set_defined(at(op->to), op->n, true);
        break;
    case LAUNCH: fail(run_launch(op)); break;
    case FREE:   *op->found = memory_free(op->to); break;
    case RECORD:
        op->event->time = now();
        if (op->event->pending > 0) op->event->pending--;
        break;
    }
}

void list_push(struct list *l, const struct op *op)
{
    if (l->n == l->capacity) {
        l->capacity = l->capacity > 0 ? 2 * l->capacity : 64;
        l->op = need(realloc(l->op, l->capacity * sizeof *l->op));
    }
    struct op *copy = &l->op[l->n++];
    *copy = *op;
    if (op->kind != LAUNCH) return;
    copy->args = need(malloc(op->function->kernel->explicit_bytes + 1u));
    memcpy(copy->args, op->args, op->function->kernel->explicit_bytes);
}

static void empty(struct list *l)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->op[i].kind == LAUNCH) free(l->op[i].args);
    l->n = 0;
}

int list_free(struct list *l)
{
    empty(l);
    free(l->op);
    free(l);
    return queue_failure();
}

/* ---- several chips: turns ---- */

/* Copies and fills by the device are accesses that may conflict with other chips. */
static bool meets_none(uint32_t device, const struct op *op)
{
    const bool loads = op->kind == DOWNLOAD || op->kind == COPY, stores = op->kind == UPLOAD || op->kind == COPY || op->kind == CLEAR;
    return (!loads || peers_copy(device, op->seq, op->known, at(op->from), op->n, PEER_LOAD)) &&
           (!stores || peers_copy(device, op->seq, op->known, at(op->to), op->n, PEER_STORE));
}

/* Under the lock: gives a device without an operation its next one. */
static void take_next(struct device *d)
{
    if (d->busy || d->first == d->list.n) return;
    d->op = d->list.op[d->first++];
    d->busy = true;
    if (d->first < d->list.n) return;
    d->list.n = d->first = 0;
}

/* Under the lock: removes a finished operation. */
static void op_done(struct device *d)
{
    if (d->op.kind == LAUNCH) free(d->op.args);
    d->op.stream->left--;
    d->n_done = d->op.seq;
    d->busy = false;
    pthread_cond_broadcast(&done);
}

/* Runs rounds of a launch; true: it has ended. */
static bool turn_launch(struct device *d, uint32_t rounds)
{
    if (d->run == NULL) {
        d->launch = make_launch(&d->op);
        d->began = now();
        d->run = launch_begin(d->launch);
    }
    if (queue_failure() != 0) launch_stop(d->run);
    while (rounds > 0 && launch_turn(d->run)) rounds--;
    if (rounds > 0) {
        fail(launch_end(d->run));
        end_launch(d->launch, now() - d->began);
        d->run = NULL;
        d->launch = NULL;
        return true;
    }
    return false;
}

/* Returns true if the operation is done. */
static bool turn(uint32_t device, uint32_t rounds)
{
    struct device *d = &devices[device];
    if (d->op.kind == LAUNCH && (queue_failure() == 0 || d->run != NULL)) return turn_launch(d, rounds);
    if (d->op.kind == LAUNCH || queue_failure() != 0) return true;
    if (d->op.kind == RECORD) return true;       /* under the lock, with op_done */
    if (meets_none(device, &d->op)) run_op(&d->op);
    else fail(LAUNCH_FAILURE);
    return true;
}

/* One turn of each device with work; returns their number.  random: NULL: always the same order. */
static uint32_t turn_all(uint64_t *random)
{
    const uint32_t n = chips_count(), from = random != NULL ? (uint32_t)(draw(random) % n) : 0;
    uint32_t busy = 0;
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t device = (from + k) % n;
        struct device *d = &devices[device];
        pthread_mutex_lock(&lock);
        take_next(d);
        pthread_mutex_unlock(&lock);
        if (!d->busy) continue;
        busy++;
        if (!turn(device, random != NULL ? 1 + (uint32_t)(draw(random) % MOST_ROUNDS) : 1)) continue;
        pthread_mutex_lock(&lock);
        if (d->op.kind == RECORD) run_op(&d->op);
        op_done(d);
        pthread_mutex_unlock(&lock);
    }
    return busy;
}

/* ---- several chips: deadlock ---- */

struct stuck { uint64_t progress, idle; bool certain; };         /* idle: instructions of every live wave since there was progress; certain:
                                                                  * they repeat */

static uint64_t progress_of_all(void)
{
    uint64_t sum = 0;
    for (uint32_t k = 0; k < chips_count(); k++)
        sum += ((uint64_t)devices[k].n_done << 40) + (devices[k].run != NULL ? launch_progress(devices[k].run) : 0);
    return sum;
}

/* Reports the launches of all chips that have one; none of them makes progress. */
static void report_deadlock(void)
{
    char text[TEXT_BYTES];
    int at = snprintf(text, sizeof text, "deadlock: no chip makes progress");
    for (uint32_t k = 0; k < chips_count() && at < (int)sizeof text; k++)
        at += snprintf(text + at, sizeof text - (size_t)at, "%s chip %u %s%s", k > 0 ? "," : ":", k,
                       devices[k].run != NULL ? "is in " : "has nothing to do",
                       devices[k].run != NULL ? devices[k].launch->kernel->name : "");
    for (uint32_t k = 0; k < chips_count(); k++)
        if (devices[k].run != NULL) launch_stuck(devices[k].run, text);
    fail(LAUNCH_FAILURE);
}

static bool all_repeat(void)
{
    for (uint32_t k = 0; k < chips_count(); k++)
        if (devices[k].run != NULL && !launch_repeats(devices[k].run)) return false;
    return true;
}

/* Called after a turn of all devices, of which `busy` had work. */
static void look_for_deadlock(struct stuck *s, uint32_t busy)
{
    const uint64_t progress = progress_of_all();
    if (busy == 0 || progress != s->progress) {
        *s = (struct stuck){ .progress = progress };
        return;
    }
    uint32_t slice = UINT32_MAX;
    for (uint32_t k = 0; k < chips_count(); k++)
        if (devices[k].run != NULL && launch_slice(devices[k].run) < slice) slice = launch_slice(devices[k].run);
    s->idle += slice;
    if (!s->certain) s->certain = s->idle >= LAUNCH_PATIENCE || all_repeat();
    if (!s->certain || progress_of_all() != progress) return;
    pthread_mutex_lock(&lock);
    bool hopeless = busy == chips_count() || now() - last_put > (double)setting("FORGE_GFXSIM_PATIENCE", 10);
    for (uint32_t k = 0; k < chips_count(); k++) hopeless = hopeless && (devices[k].busy || devices[k].first == devices[k].list.n);
    if (!hopeless) {                             /* the host may have work for the others */
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += NAP_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&more, &lock, &until);
    }
    pthread_mutex_unlock(&lock);
    if (hopeless) report_deadlock();
}

static bool is_idle(void)
{
    for (uint32_t k = 0; k < chips_count(); k++) if (devices[k].busy || devices[k].first < devices[k].list.n) return false;
    return true;
}

static void *work_main(void *argument)
{
    struct stuck stuck = { 0, 0, false };
    uint64_t seed = setting("FORGE_GFXSIM_SEED", 0), *random = seed != 0 ? &seed : NULL;
    for (;;) {
        pthread_mutex_lock(&lock);
        while (is_idle()) pthread_cond_wait(&more, &lock);
        pthread_mutex_unlock(&lock);
        look_for_deadlock(&stuck, turn_all(random));
    }
    return argument;
}

static void start_work(void)
{
    pthread_t thread;
    sigset_t all, was;
    sigfillset(&all);                            /* signals are for the program's own threads */
    pthread_sigmask(SIG_SETMASK, &all, &was);
    if (pthread_create(&thread, NULL, work_main, NULL) != 0) {
        fputs("gfxsim: no thread can be started\n", stderr);
        abort();
    }
    pthread_sigmask(SIG_SETMASK, &was, NULL);
    pthread_detach(thread);
}

static void hand_over(struct stream *s, const struct op *op)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct device *d = &devices[s->device];
    pthread_once(&once, start_work);
    pthread_mutex_lock(&lock);
    if (d->first > 0 && d->list.n == d->list.capacity) {         /* uses free room at the front first */
        memmove(d->list.op, d->list.op + d->first, (d->list.n - d->first) * sizeof *d->list.op);
        d->list.n -= d->first;
        d->first = 0;
    }
    list_push(&d->list, op);
    struct op *o = &d->list.op[d->list.n - 1];
    o->stream = s;
    o->seq = ++d->n_put;
    memcpy(o->known, known, sizeof o->known);
    s->left++;
    s->seq = o->seq;
    if (op->kind == RECORD) op->event->seq = o->seq;
    last_put = now();
    pthread_cond_signal(&more);
    pthread_mutex_unlock(&lock);
}

/* Under the lock: the host has seen that the device's work up to this operation is done. */
static void see(uint32_t device, uint32_t seq) { if (seq > known[device]) known[device] = seq; }

static void await_stream(struct stream *s)
{
    pthread_mutex_lock(&lock);
    while (s->left > 0) pthread_cond_wait(&done, &lock);
    see(s->device, s->seq);
    pthread_mutex_unlock(&lock);
}

/* ---- queries ---- */

struct stream *queue_stream(void *stream)
{
    if (stream != NULL) return stream;
    default_streams[memory_chip].device = memory_chip;
    return &default_streams[memory_chip];
}

/* With FORGE_GFXSIM_DEFER and several chips: the queried work may wait for any other, so all deferred work is begun. */
static pthread_mutex_t deferred = PTHREAD_MUTEX_INITIALIZER;

static void hand_over_waiting(struct stream *s)
{
    for (size_t i = 0; i < s->waiting.n; i++) hand_over(s, &s->waiting.op[i]);
    empty(&s->waiting);
}

static void run_waiting(struct stream *s)
{
    if (several()) {
        pthread_mutex_lock(&deferred);
        for (uint32_t k = 0; k < MAX_CHIPS; k++) hand_over_waiting(&default_streams[k]);
        for (struct stream *each = streams; each != NULL; each = each->next) hand_over_waiting(each);
        pthread_mutex_unlock(&deferred);
        return;
    }
    for (size_t i = 0; i < s->waiting.n; i++) run_op(&s->waiting.op[i]);
    empty(&s->waiting);
}

static void defer(struct stream *s, const struct op *op)
{
    pthread_mutex_lock(&deferred);
    list_push(&s->waiting, op);
    pthread_mutex_unlock(&deferred);
}

void queue_add_stream(struct stream *s)
{
    pthread_mutex_lock(&deferred);
    s->next = streams;
    streams = s;
    pthread_mutex_unlock(&deferred);
}

int queue_put(struct stream *s, const struct op *op)
{
    if (queue_failure() != 0) return queue_failure();
    if (s->capture != NULL) list_push(s->capture, op);
    else if (setting("FORGE_GFXSIM_DEFER", 0) != 0) defer(s, op);
    else if (several()) hand_over(s, op);
    else run_op(op);
    return queue_failure();
}

void queue_put_now(struct stream *s, const struct op *op)
{
    run_waiting(s);
    if (!several()) {
        run_op(op);
        return;
    }
    hand_over(s, op);
    await_stream(s);
}

bool queue_done(struct stream *s)
{
    const bool waited = !several() && s->waiting.n > 0;
    run_waiting(s);
    if (!several()) return !waited;              /* a device would still be working */
    pthread_mutex_lock(&lock);
    const bool all = s->left == 0;
    if (all) see(s->device, s->seq);
    pthread_mutex_unlock(&lock);
    return all;
}

void queue_record(struct event *e, struct stream *s)
{
    pthread_mutex_lock(&lock);
    e->pending++;
    e->stream = s;
    e->device = s->device;
    pthread_mutex_unlock(&lock);
}

/* Deferred work is done at the query: the first answer is still no, as with a device. */
bool queue_passed(struct event *e)
{
    pthread_mutex_lock(&lock);
    const bool pending = e->pending > 0;
    if (!pending) see(e->device, e->seq);
    pthread_mutex_unlock(&lock);
    if (pending) run_waiting(e->stream);
    return several() ? !pending : e->pending == 0;
}

void queue_finish(struct stream *s)
{
    run_waiting(s);
    if (several()) await_stream(s);
}

static void finish(uint32_t first, uint32_t end)
{
    run_waiting(default_streams);
    for (struct stream *s = streams; s != NULL && !several(); s = s->next) run_waiting(s);
    if (!several()) return;
    pthread_mutex_lock(&lock);
    for (uint32_t k = first; k < end; k++) {
        while (devices[k].n_done < devices[k].n_put) pthread_cond_wait(&done, &lock);
        see(k, devices[k].n_done);
    }
    pthread_mutex_unlock(&lock);
}

/* With several chips no other chip's launch is in the middle of an instruction then, which might use the freed memory. */
bool queue_free(void *address)
{
    bool found = true;
    if (!several()) return memory_free(address);
    queue_put_now(queue_stream(NULL), &(struct op){ .kind = FREE, .to = address, .found = &found });
    return found;
}

void queue_finish_device(void) { finish(memory_chip, memory_chip + 1); }
void queue_finish_all(void) { finish(0, MAX_CHIPS); }

void queue_remove_stream(struct stream *s)
{
    queue_finish(s);
    pthread_mutex_lock(&deferred);
    for (struct stream **from = &streams; *from != NULL; from = &(*from)->next)
        if (*from == s) {
            *from = s->next;
            break;
        }
    pthread_mutex_unlock(&deferred);
    free(s->waiting.op);
    free(s);
}
