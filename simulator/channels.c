/* channels.c -- how evenly the loads that are in flight at the same time are spread over the channels of memory.
 *
 *   FORGE_GFXSIM_CHANNELS=COUNT,INTERLEAVE,WINDOW     the target's `channels` (docs/target.md); if not set, nothing is counted
 *
 * The model.  Memory has COUNT channels that take runs of INTERLEAVE bytes in turn, without a hash: channel (address / INTERLEAVE) %
 * COUNT.  A load is cut into pieces of as many neighbouring lanes as request INTERLEAVE bytes together: 16 lanes of 16 bytes are 256.
 * Waves that begin together advance together, so piece n of every resident wave is requested in step n, in whatever slice of the simulator
 * it ran; groups that wait for room begin at the step at which the groups that made room ended.  In a step only lines of 64 bytes count
 * that the launch had not read before: the rest comes from caches.  Successive steps form a window once they hold WINDOW bytes, the bytes
 * that memory has in flight at a time.  channel_bytes is the sum over all windows, channel_busiest the sum over the busiest channel of
 * each: COUNT * channel_busiest / channel_bytes is the imbalance: 1 if all channels get the same, COUNT if one gets everything.
 *
 * For gfx1151 (16, 256 bytes, 64 KiB) this follows from reports: with one wave per row, products lose speed if rows lie multiples of 512
 * bytes apart, most at 2,048 and 4,096 (ROCm/vllm pull requests 978, 989, 998, 1003, 1076); rows 128 bytes longer lose nothing; and lanes
 * 32 KiB apart reach a tenth of the bandwidth, 13.7 of 138.9 GB/s.  16 channels of 256 bytes repeat every 4,096; pieces of 256 that lie
 * 512 apart use every second channel.  Three assumptions explain these reports: the map has no hash, 256 is the step, and waves advance
 * together; docs/simulator.md says how far they hold.  Addresses are virtual; 4,096 is a page, so their channels are the same. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gfxsim.h"

enum { MOST_STEPS = 1 << 20 };                   /* of a launch; everything later counts as its last step */

static struct channels given;
static pthread_once_t  given_once = PTHREAD_ONCE_INIT;

static void read_setting(void)
{
    const char *text = getenv("FORGE_GFXSIM_CHANNELS");
    struct channels c;
    if (text == NULL || *text == 0) return;
    if (sscanf(text, "%u,%u,%u", &c.count, &c.interleave, &c.window) == 3 && c.count >= 1 && c.count <= MAX_CHANNELS &&
        c.interleave >= 64 && (c.interleave & (c.interleave - 1)) == 0)
        given = c;
    else
        fprintf(stderr, "gfxsim: FORGE_GFXSIM_CHANNELS: \"%s\" is not COUNT,INTERLEAVE,WINDOW with up to %d channels and an interleave "
                        "that is a power of two from 64 on; channels are not counted\n", text, MAX_CHANNELS);
}

struct channels channels_setting(void)
{
    pthread_once(&given_once, read_setting);
    return given;
}

static uint32_t *step_of(struct channel_steps *s, uint32_t step, uint32_t count)
{
    if (step >= MOST_STEPS) step = MOST_STEPS - 1;
    if (step >= s->n) {
        const uint32_t n = step < 64 ? 128 : 2 * step < MOST_STEPS ? 2 * step : MOST_STEPS;
        uint32_t *grown = realloc(s->bytes, (size_t)n * count * sizeof *grown);
        if (grown == NULL) {
            fputs("gfxsim: no memory of the host is left for the counts of channels\n", stderr);
            abort();
        }
        memset(grown + (size_t)s->n * count, 0, (size_t)(n - s->n) * count * sizeof *grown);
        s->bytes = grown;
        s->n = n;
    }
    return s->bytes + (size_t)step * count;
}

void channels_add(struct channel_steps *s, const struct channels *c, uint32_t step, uint64_t offset, uint32_t bytes)
{
    step_of(s, step, c->count)[offset / c->interleave % c->count] += bytes;
}

void channels_merge(struct channel_steps *to, struct channel_steps *from, const struct channels *c)
{
    for (uint32_t i = from->n; i-- > 0; ) {
        const uint32_t *step = from->bytes + (size_t)i * c->count;
        for (uint32_t k = 0; k < c->count; k++)
            if (step[k] > 0) step_of(to, i, c->count)[k] += step[k];
    }
    free(from->bytes);
    *from = (struct channel_steps){ NULL, 0 };
}

static uint64_t sum_of(const uint64_t *window, uint32_t count)
{
    uint64_t sum = 0;
    for (uint32_t k = 0; k < count; k++) sum += window[k];
    return sum;
}

/* Adds a window that is full, or the last one, to the counters. */
static void close_window(struct counters *counted, uint64_t *window, uint32_t count)
{
    uint64_t busiest = 0;
    for (uint32_t k = 0; k < count; k++) busiest = window[k] > busiest ? window[k] : busiest;
    counted->channel_bytes += sum_of(window, count);
    counted->channel_busiest += busiest;
    memset(window, 0, count * sizeof *window);
}

void channels_count(struct counters *counted, struct channel_steps *s, const struct channels *c)
{
    uint64_t window[MAX_CHANNELS] = { 0 };
    for (uint32_t i = 0; i < s->n; i++) {
        for (uint32_t k = 0; k < c->count; k++) window[k] += s->bytes[(size_t)i * c->count + k];
        if (sum_of(window, c->count) >= c->window) close_window(counted, window, c->count);
    }
    close_window(counted, window, c->count);
    free(s->bytes);
    *s = (struct channel_steps){ NULL, 0 };
}
