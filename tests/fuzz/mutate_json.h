/* mutate_json.h -- edits of the tree of a JSON text.  Before including it, a file defines `names`, names of members, and `values`, JSON
 * values to insert. */
#ifndef FORGEC_MUTATE_JSON_H
#define FORGEC_MUTATE_JSON_H
#include <string.h>
#include "pick.h"
#include "runtime/chat/json.h"

enum { MUTATE_NODES = 512, MUTATE_ROOM = 1 << 20 };

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

static uint8_t mutate_block[MUTATE_ROOM];
struct mutate_tree { struct room room; struct json *nodes[MUTATE_NODES]; uint32_t n; };

static void mutate_list(struct mutate_tree *t, const struct json *v)
{
    if (t->n < MUTATE_NODES) t->nodes[t->n++] = (struct json *)(uintptr_t)v;
    for (const struct json *m = v->first; m; m = m->next) mutate_list(t, m);
}

static struct json *mutate_read(struct mutate_tree *t, const char *text, size_t n)
{
    struct json_error ignored;
    return (struct json *)(uintptr_t)json_read(&t->room, text, n, &ignored);
}

/* A copy of a value of the table or of the tree; NULL: no room. */
static struct json *mutate_value(struct mutate_tree *t)
{
    if (pick(3)) {
        const char *text = values[pick(sizeof values / sizeof *values)];
        return mutate_read(t, text, strlen(text));
    }
    char *text = room_take(&t->room, 4096);
    if (!text) return NULL;
    struct text_out out = { text, 4096, 0, false };
    json_put(&out, t->nodes[pick(t->n)], false);
    return out.full ? NULL : mutate_read(t, text, out.n);
}

static void mutate_put(struct json *at, const struct json *value)
{
    const struct json place = *at;
    *at = *value;
    at->next = place.next;
    at->name = place.name;
    at->n_name = place.n_name;
}

/* Inserts a value before a member, or at the end. */
static void mutate_insert(struct json *into, struct json *value)
{
    struct json **p = &into->first;
    for (uint32_t skip = into->n ? pick((uint32_t)into->n + 1) : 0; skip > 0 && *p; skip--) p = &(*p)->next;
    if (into->kind == JSON_OBJECT) {
        value->name = names[pick(sizeof names / sizeof *names)];
        value->n_name = strlen(value->name);
    }
    value->next = *p;
    *p = value;
    into->n++;
}

static void mutate_string(struct mutate_tree *t, struct json *v)
{
    enum { MORE = 32 };
    uint8_t *bytes = room_take(&t->room, v->n + MORE);
    if (!bytes) return;
    memcpy(bytes, v->text, v->n);
    v->n = LLVMFuzzerMutate(bytes, v->n, v->n + MORE);
    v->text = (const char *)bytes;
}

static void mutate_node(struct mutate_tree *t, struct json *v)
{
    struct json *value = mutate_value(t);
    if (!value) return;
    const bool holds = v->kind == JSON_ARRAY || v->kind == JSON_OBJECT;
    switch (pick(6)) {
    case 0: mutate_put(v, value); break;
    case 1:                                                    /* removes a member */
        if (!v->first) break;
        struct json **p = &v->first;
        for (uint32_t skip = pick((uint32_t)v->n); skip > 0 && (*p)->next; skip--) p = &(*p)->next;
        *p = (*p)->next;
        v->n--;
        break;
    case 2: {                                                  /* it becomes a member of another value */
        struct json inner = *v, *copy = room_take(&t->room, sizeof *copy);
        if (!copy) break;
        *copy = inner;
        copy->next = NULL;
        copy->name = names[pick(sizeof names / sizeof *names)];
        copy->n_name = strlen(copy->name);
        mutate_put(v, &(struct json){ .kind = pick(2) ? JSON_ARRAY : JSON_OBJECT, .first = copy, .n = 1 });
        break;
    }
    default:
        if (v->kind == JSON_STRING && pick(2)) mutate_string(t, v);
        else if (holds) mutate_insert(v, value);
        else mutate_put(v, value);
    }
}

/* Edits the text in data, in place.  Text that is not JSON gets libFuzzer's own mutations; without room it is unchanged. */
static size_t mutate_json(uint8_t *data, size_t size, size_t max_size)
{
    struct mutate_tree t = { .room = room_of(mutate_block, sizeof mutate_block) };
    char *text = room_take(&t.room, size + 1);
    if (!text) return size;
    memcpy(text, data, size);
    struct json *root = mutate_read(&t, text, size);
    if (!root) return LLVMFuzzerMutate(data, size, max_size);
    for (uint32_t edits = pick(2) ? 1 : 2 + pick(4); edits > 0; edits--) {
        t.n = 0;
        mutate_list(&t, root);
        mutate_node(&t, t.nodes[pick(t.n)]);
    }
    struct text_out out = { (char *)data, max_size, 0, false };
    json_put(&out, root, false);
    return out.n;
}
#endif
