/* tree.h -- builds the flat tree of chat templates. */
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
/* Equal texts share one string. */
uint32_t tree_string(struct chat_tree *t, const char *text, size_t n);
uint32_t tree_number(struct chat_tree *t, union chat_number number);
/* A list of n entries; counted: the number n comes before them. */
uint32_t tree_list(struct chat_tree *t, const uint32_t *items, size_t n, bool counted);

/* Parses one template into the tree; *root: the node of its body. False on an error: *problem says why. */
bool chat_parse(struct chat_tree *t, const struct chat_source *source, uint32_t *root, struct chat_warnings *warnings,
                struct chat_problem *problem);
#endif
