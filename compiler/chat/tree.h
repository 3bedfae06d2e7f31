/* tree.h -- the flat tree of chat templates while it is built. */
#ifndef FORGEC_CHAT_TREE_H
#define FORGEC_CHAT_TREE_H
#include "runtime/chat/image.h"
#include "template.h"

struct chat_tree {
    struct arena         *arena;
    struct chat_node     *nodes;
    uint32_t             *lists;
    struct chat_string   *strings;
    union chat_number    *numbers;
    struct chat_template *templates;
    struct text           text;            /* of the strings */
    size_t                n_nodes, n_lists, n_strings, n_numbers, n_templates, most_nodes, most_lists, most_strings, most_numbers;
    uint32_t             *slots;           /* [n_slots] strings by their text */
    size_t                n_slots;
};

uint32_t tree_node(struct chat_tree *t, struct chat_node node);
/* The same text is the same string. */
uint32_t tree_string(struct chat_tree *t, const char *text, size_t n);
uint32_t tree_number(struct chat_tree *t, union chat_number number);
/* n entries; counted: with their number before them. */
uint32_t tree_list(struct chat_tree *t, const uint32_t *items, size_t n, bool counted);

/* One template, into the tree; its body's node in *root.  False: *problem says why. */
bool chat_parse(struct chat_tree *t, const struct chat_source *source, uint32_t *root, struct chat_warnings *warnings,
                struct chat_problem *problem);
#endif
