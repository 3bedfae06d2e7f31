/* watch.c -- see watch.h. */
#include <stdlib.h>
#include <string.h>

#include "watch.h"
#include "runtime/chat/begun.h"

struct call_watch {
    struct answer answer;
    uint32_t n_tried;                        /* its n_begun when the guide was last tried */
    bool     single;
    uint64_t room[ANSWER_ROOM_LEAST / 8];    /* a beginning is short */
};

static void ignore(void *context, const struct answer_event *event) { (void)context, (void)event; }

struct call_watch *watch_open(const struct answer_options *o, const char *prefill, size_t n_prefill, bool single)
{
    struct call_watch *w = calloc(1, sizeof *w);
    if (!w) return NULL;
    struct answer_options mine = *o;
    mine.tell = ignore;
    mine.room = w->room;
    mine.room_bytes = sizeof w->room;
    w->single = single;
    answer_begin(&w->answer, &mine);
    answer_prefill(&w->answer, prefill, n_prefill);
    return w;
}

bool watch_goes_on(struct call_watch *w, const struct forge_guide *guide)
{
    if (w->single || !guide_is_complete(guide)) return true;
    begun_call_ends(&w->answer);
    return false;
}

bool watch_begins(struct call_watch *w, struct forge_guide *guide)
{
    struct forge_error ignored;
    struct begun begun;
    if (!w->answer.in_call || w->answer.n_begun == w->n_tried || !begun_call(&w->answer, &begun)) return false;
    w->n_tried = w->answer.n_begun;
    return guide_restart(guide, &ignored) == FORGE_OK && guide_text(guide, begun.name, strlen(begun.name), &ignored) == FORGE_OK &&
           guide_text(guide, begun.rest, begun.n_rest, &ignored) == FORGE_OK && watch_goes_on(w, guide);
}

bool watch_text(struct call_watch *w, struct forge_guide *guide, const char *text, size_t n)
{
    answer_feed(&w->answer, text, n);
    return watch_begins(w, guide);
}
