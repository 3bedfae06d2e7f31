/* image.c -- see template.h and runtime/chat/image.h. */
#include "family.h"
#include "tree.h"
#include <string.h>
#include <xxhash.h>

uint32_t tree_node(struct chat_tree *t, struct chat_node node)
{
    arena_room(t->arena, t->nodes, t->n_nodes, t->most_nodes);
    t->nodes[t->n_nodes] = node;
    return (uint32_t)t->n_nodes++;
}

uint32_t tree_number(struct chat_tree *t, union chat_number number)
{
    arena_room(t->arena, t->numbers, t->n_numbers, t->most_numbers);
    t->numbers[t->n_numbers] = number;
    return (uint32_t)t->n_numbers++;
}

static void tree_entry(struct chat_tree *t, uint32_t entry)
{
    arena_room(t->arena, t->lists, t->n_lists, t->most_lists);
    t->lists[t->n_lists++] = entry;
}

uint32_t tree_list(struct chat_tree *t, const uint32_t *items, size_t n, bool counted)
{
    const uint32_t at = (uint32_t)t->n_lists;
    if (counted) tree_entry(t, (uint32_t)n);
    for (size_t i = 0; i < n; i++) tree_entry(t, items[i]);
    return at;
}

static size_t slot_of(const struct chat_tree *t, const char *text, size_t n)
{
    size_t slot = (size_t)XXH3_64bits(text, n) & (t->n_slots - 1);
    while (t->slots[slot] != CHAT_NONE) {
        const struct chat_string s = t->strings[t->slots[slot]];
        if (s.n == n && (n == 0 || memcmp(t->text.data + s.offset, text, n) == 0)) break;
        slot = (slot + 1) & (t->n_slots - 1);
    }
    return slot;
}

uint32_t tree_string(struct chat_tree *t, const char *text, size_t n)
{
    if (2 * (t->n_strings + 1) > t->n_slots) {
        t->n_slots = t->n_slots ? 2 * t->n_slots : 256;
        t->slots = arena_array(t->arena, uint32_t, t->n_slots);
        memset(t->slots, 0xff, t->n_slots * sizeof *t->slots);
        for (size_t i = 0; i < t->n_strings; i++)
            t->slots[slot_of(t, text_str(&t->text) + t->strings[i].offset, t->strings[i].n)] = (uint32_t)i;
    }
    const size_t slot = slot_of(t, text, n);
    if (t->slots[slot] != CHAT_NONE) return t->slots[slot];
    arena_room(t->arena, t->strings, t->n_strings, t->most_strings);
    t->strings[t->n_strings] = (struct chat_string){ (uint32_t)t->text.size, (uint32_t)n };
    text_append(&t->text, text, n);
    return t->slots[slot] = (uint32_t)t->n_strings++;
}

static struct bytes image_of(const struct chat_tree *t)
{
    struct chat_header h = { .n_templates = (uint32_t)t->n_templates, .n_nodes = (uint32_t)t->n_nodes, .n_lists = (uint32_t)t->n_lists,
                             .n_strings = (uint32_t)t->n_strings, .n_numbers = (uint32_t)t->n_numbers };
    memcpy(h.magic, CHAT_IMAGE_MAGIC, sizeof h.magic);
    struct text out = { .arena = t->arena };
    text_append(&out, (const char *)&h, sizeof h);
#define SECTION(name, type, count) if (count) text_append(&out, (const char *)t->name, sizeof(type) * (size_t)(count));
    CHAT_SECTIONS(SECTION, &h)
#undef SECTION
    text_append(&out, text_str(&t->text), t->text.size);
    h.bytes = (uint32_t)out.size;
    memcpy(out.data, &h, sizeof h);
    return (struct bytes){ (const uint8_t *)out.data, out.size };
}

struct bytes chat_compile(struct arena *a, const struct chat_source *sources, uint32_t n, struct chat_warnings *warnings,
                          struct chat_problem *problem, uint32_t *at)
{
    struct chat_tree t = { .arena = a, .text = { .arena = a }, .templates = arena_array(a, struct chat_template, n + 1), .n_templates = n };
    for (*at = 0; *at < n; ++*at) {
        const struct chat_source *s = &sources[*at];
        struct chat_template *template = &t.templates[*at];
        if (s->text.size > CHAT_MOST_BYTES) {
            *problem = (struct chat_problem){ 0, "it has more than 1 MiB" };
            return (struct bytes){ 0 };
        }
        *template = (struct chat_template){ .name = s->name ? tree_string(&t, s->name, strlen(s->name)) : CHAT_NONE,
                                            .source_bytes = (uint32_t)s->text.size,
                                            .family = chat_family_of((const char *)s->text.data, s->text.size),
                                            .hash = XXH3_64bits(s->text.data, s->text.size) };
        if (!chat_parse(&t, s, &template->root, warnings, problem)) return (struct bytes){ 0 };
    }
    return image_of(&t);
}
