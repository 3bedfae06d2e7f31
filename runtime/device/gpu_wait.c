/* gpu_wait.c -- waits for the GPU, and finds the name of the kernel after a fault. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "gpu_state.h"

static const double SPIN_SECONDS = 20e-6, NAP_LEAST = 5e-6, NAP_MOST = 1e-3;
static const double HANG_SECONDS = 120;          /* for one launch */
static const double OTHERS_SECONDS = 1e-3;       /* between two checks of all GPUs that share a model */

/* ---- faults ---- */

const struct forge_gpu_launch *gpu_launch_numbered(const struct forge_gpu *p, uint32_t number)
{
    if (number == 0) return NULL;
    if (number <= p->n_decode) return &p->decode[number - 1];
    if (number == p->n_decode + 1) return &p->sample;
    const uint32_t behind = number - p->n_decode - 2;
    if (behind < p->n_prefill) return &p->prefill[behind];
    if (behind < p->n_prefill + p->n_columns) return &p->columns[behind - p->n_prefill];
    const uint32_t more = behind - p->n_prefill - p->n_columns;      /* the draw with drafts, a pass, and the launch that takes its draft */
    if (more > 0) return more <= p->n_pass ? &p->pass[more - 1] : &p->take;
    return p->most_drafts > 0 ? &p->drafts : NULL;
}

struct gpu *gpu_owner(struct gpu *g, uint32_t number)
{
    const struct forge_gpu *p = g->program->gpu;
    if (!p->pipeline) return g;
    if (number == p->n_decode + 1) return gpu_with_logits(g);
    while (g->next && !gpu_launch_numbered(g->program->gpu, number)->name) g = g->next;
    return g;
}

static void append(char *to, size_t bytes, const char *text)
{
    const size_t used = strlen(to), n = strlen(text);
    memcpy(to + used, text, used + n < bytes ? n + 1 : bytes - used - 1);
    to[bytes - 1] = 0;
}

/* Uses no stdio, because a signal handler calls it. */
void gpu_launch_name(const struct gpu *g, char *out, size_t bytes)
{
    const struct forge_gpu_launch *l = g->mark ? gpu_launch_numbered(g->program->gpu, *g->mark) : NULL;
    *out = 0;
    if (!l) { append(out, bytes, "none"); return; }
    append(out, bytes, l->name);
    if (l->layer == 0xffffffff) return;
    char digits[12] = "";
    size_t at = sizeof digits - 1;
    uint32_t layer = l->layer;
    do digits[--at] = (char)('0' + layer % 10);
    while ((layer /= 10) > 0);
    append(out, bytes, " of layer ");
    append(out, bytes, digits + at);
}

/* Appends to the first `from` characters of a text: "gfx942 (GPU 1): ffn_down of layer 2". */
static size_t append_launch(const struct gpu *r, char *text, size_t from, size_t bytes)
{
    char name[128];
    gpu_launch_name(r, name, sizeof name);
    const int n = snprintf(text + from, bytes - from, "%s%.60s: %s", from > 0 ? "; " : "", r->device.label, name);
    return n > 0 && from + (size_t)n < bytes ? from + (size_t)n : bytes - 1;
}

/* Nothing is retried, because the device's state is unknown.  With GPUs that share a model, a launch that hangs makes the others wait,
 * so the message names the last launch of each GPU. */
enum forge_status gpu_with_launch(const struct gpu *g, enum forge_status status, struct forge_error *error)
{
    char launches[sizeof error->text] = "", text[sizeof error->text];
    const struct gpu *failed = g->failed ? g->failed : g;
    if (status != FORGE_DEVICE_FAULT || !error) return status;
    memcpy(text, error->text, sizeof text);
    if (!g->next) {
        gpu_launch_name(g, launches, sizeof launches);
        return error_set(error, status, "%.300s; the launch that ran last: %s", text, launches);
    }
    if (!g->hangs) {
        gpu_launch_name(failed, launches, sizeof launches);
        return error_set(error, status, "%s: %.200s; the launch that ran last: %s", failed->device.label, text, launches);
    }
    size_t n = 0;
    for (const struct gpu *r = g; r; r = r->next) n = append_launch(r, launches, n, sizeof launches - 120);
    return error_set(error, status, "%.80s; the launches that ran last: %s", text, launches);
}

/* ---- waiting ---- */

/* Checks all ranks: a rank that has failed never sends what the others wait for. */
static enum forge_status ask_all(struct gpu *g, double now, struct forge_error *error)
{
    struct gpu *first = g->first;
    if ((!first->next && !first->machines) || now - first->asked_at < OTHERS_SECONDS) return FORGE_OK;
    first->asked_at = now;
    if (first->machines) TRY(first->machines->ask(first, error));
    for (struct gpu *r = first; r; r = r->next) {
        bool idle;
        TRY(gpu_said(r, gpu_turn_to(r, error)));
        TRY(gpu_said(r, device_idle(&r->device, &idle, error)));
    }
    return gpu_turn_to(g, error);
}

/* Called repeatedly from the time `since` on.  First it spins, then it sleeps for a fraction of the time waited so far, so that waiting
 * neither keeps a core busy nor delays the answer much. */
enum forge_status gpu_wait_more(struct gpu *g, double since, struct forge_error *error)
{
    const double now = seconds_now(), waited = now - since;
    if (waited < SPIN_SECONDS) return FORGE_OK;
    TRY(ask_all(g, now, error));
    if (*g->mark != g->seen_mark || g->seen_mark_at < since) {
        g->seen_mark = *g->mark;
        g->seen_mark_at = now;
    } else if (now - g->seen_mark_at > HANG_SECONDS) {
        g->first->hangs = true;
        return error_set(error, FORGE_DEVICE_FAULT, "the GPU%s not answered for %.0f seconds",
                         g->first->next || g->first->machines ? "s have" : " has",
                         HANG_SECONDS);
    }
    double nap = waited / 32;
    nap = nap < NAP_LEAST ? NAP_LEAST : nap > NAP_MOST ? NAP_MOST : nap;
    const struct timespec t = { 0, (long)(nap * 1e9) };
    nanosleep(&t, NULL);
    return FORGE_OK;
}

enum forge_status gpu_wait_idle(struct gpu *g, struct forge_error *error)
{
    const double since = seconds_now();
    TRY(gpu_said(g, gpu_turn_to(g, error)));
    for (;;) {
        bool idle;
        TRY(gpu_said(g, device_idle(&g->device, &idle, error)));
        if (idle) return FORGE_OK;
        TRY(gpu_wait_more(g, since, error));
    }
}

enum forge_status gpu_wait_all(struct gpu *g, struct forge_error *error)
{
    for (struct gpu *r = g; r; r = r->next) TRY(gpu_wait_idle(r, error));
    return FORGE_OK;
}

enum forge_status gpu_wait_event(struct gpu *g, void *event, struct forge_error *error)
{
    const double since = seconds_now();
    TRY(gpu_said(g, gpu_turn_to(g, error)));
    for (;;) {
        bool passed;
        TRY(gpu_said(g, device_passed(&g->device, event, &passed, error)));
        if (passed) return FORGE_OK;
        TRY(gpu_wait_more(g, since, error));
    }
}
