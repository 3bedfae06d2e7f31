/* diff.c -- the greedy algorithm of Myers 1986 (An O(ND) Difference Algorithm and Its Variations). In the table of old lines x new lines it
 * finds the path from corner to corner with the fewest steps right (a line removed) and down (a line added); diagonal steps (common lines)
 * are free. reach[d][k]: how far right a path of d steps gets on diagonal k = x - y. */
#include "diff.h"
#include <string.h>

struct line { const char *text; size_t size; uint64_t hash; };
struct lines { struct line *items; uint32_t n, capacity; };

static struct lines lines_of(struct arena *a, struct bytes text)
{
    struct lines all = { 0 };
    const char *p = (const char *)text.data, *end = p + text.size;
    while (p < end) {
        const char *newline = memchr(p, '\n', (size_t)(end - p)), *stop = newline ? newline : end;
        struct line one = { p, (size_t)(stop - p), 0xcbf29ce484222325u };                     /* FNV-1a */
        for (size_t i = 0; i < one.size; i++) one.hash = (one.hash ^ (unsigned char)p[i]) * 0x100000001b3u;
        arena_room(a, all.items, all.n, all.capacity);
        all.items[all.n++] = one;
        p = stop + 1;
    }
    return all;
}

static bool same(const struct line *x, const struct line *y)
{
    return x->hash == y->hash && x->size == y->size && memcmp(x->text, y->text, x->size) == 0;
}

/* Marks removed and added lines. False: more than `most`. */
static bool mark(struct arena *a, const struct lines *o, const struct lines *n, uint32_t most, bool *gone, bool *come)
{
    const int32_t rows = (int32_t)n->n, columns = (int32_t)o->n;
    int32_t **reach = arena_array(a, int32_t *, most + 1), d = 0;
    for (; ; d++) {
        if ((uint32_t)d > most) return false;
        int32_t *now = arena_array(a, int32_t, 2 * (size_t)d + 1), *before = d ? reach[d - 1] + d - 1 : NULL;
        reach[d] = now;
        now += d;
        for (int32_t k = -d; k <= d; k += 2) {
            int32_t x = !d ? 0 : k == -d || (k < d && before[k - 1] < before[k + 1]) ? before[k + 1] : before[k - 1] + 1;
            while (x < columns && x - k < rows && same(&o->items[x], &n->items[x - k])) x++;
            now[k] = x;
            if (x >= columns && x - k >= rows) goto found;
        }
    }
found:
    for (int32_t k = columns - rows; d > 0; d--) {
        const int32_t *before = reach[d - 1] + d - 1;
        const bool down = k == -d || (k < d && before[k - 1] < before[k + 1]);
        k += down ? 1 : -1;
        if (down) come[before[k] - k] = true;
        else gone[before[k]] = true;
    }
    return true;
}

static void add(struct arena *a, struct diff *d, uint32_t *capacity, struct diff_line line)
{
    arena_room(a, d->lines, d->n_lines, *capacity);
    d->lines[d->n_lines++] = line;
}

struct diff diff_of(struct arena *a, struct bytes old_text, struct bytes new_text, uint32_t most, uint32_t context)
{
    struct arena *own = arena_create();
    const struct lines o = lines_of(own, old_text), n = lines_of(own, new_text);
    bool *gone = arena_array(own, bool, o.n + 1), *come = arena_array(own, bool, n.n + 1);
    struct diff d = { .too_far = !mark(own, &o, &n, most, gone, come) };
    uint32_t capacity = 0;
    bool after_change = false;
    for (uint32_t i = 0, k = 0; !d.too_far && (i < o.n || k < n.n); ) {
        if (gone[i] || come[k]) {
            const struct line *line = gone[i] ? &o.items[i] : &n.items[k];
            add(a, &d, &capacity, (struct diff_line){ gone[i] ? '-' : '+', line->text, line->size, i + 1, k + 1 });
            if (gone[i]) { d.n_removed++; i++; } else { d.n_added++; k++; }
            after_change = true;
            continue;
        }
        uint32_t next = 0;                          /* common lines until the next change */
        while (i + next < o.n && k + next < n.n && !gone[i + next] && !come[k + next]) next++;
        const bool changes = i + next < o.n || k + next < n.n;
        const uint32_t behind = after_change ? (next < context ? next : context) : 0,
            ahead = changes ? (next < context ? next : context) : 0;
        for (uint32_t j = 0; j < next; j++) {
            if (j >= behind && j < next - ahead) {
                if (j == next - ahead - 1 && changes)
                    add(a, &d, &capacity, (struct diff_line){ .kind = '@', .text = "", .old_line = i + j + 2, .new_line = k + j + 2 });
                continue;
            }
            add(a, &d, &capacity, (struct diff_line){ ' ', o.items[i + j].text, o.items[i + j].size, i + j + 1, k + j + 1 });
        }
        i += next;
        k += next;
        after_change = false;
    }
    arena_destroy(own);
    return d;
}
