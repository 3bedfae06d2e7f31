/* yaml.h -- a YAML file as a tree, read with libyaml's event parser; each node has its place in the file.
 * Maps, lists and scalars only. Anchors, aliases, tags and several documents are errors. Depth is limited. */
#ifndef FORGEC_YAML_H
#define FORGEC_YAML_H
#include "base.h"

enum yaml_kind { YAML_NULL, YAML_SCALAR, YAML_LIST, YAML_MAP };
struct yaml {
    enum yaml_kind kind;
    struct place   at;
    const char    *scalar;          /* NUL-terminated */
    bool           quoted;
    uint32_t       count;           /* list items or map pairs, in file order */
    const char   **keys;            /* maps */
    struct place  *key_places;
    struct yaml  **items;           /* values */
};
/* Maximum size of a YAML file, the limit for file_read_most. */
enum { YAML_MOST_BYTES = 1 << 20 };
/* Parses text (not NUL-terminated); name is used in messages. Dies on syntax errors and duplicate keys. */
struct yaml *yaml_parse(struct arena *a, const char *name, const char *text, size_t size);
/* NULL when absent or y is not a map. */
struct yaml *yaml_get(const struct yaml *y, const char *key);
/* As yaml_get, but dies at the map's place if the key is absent. */
struct yaml *yaml_need(const struct yaml *y, const char *key);
/* Each dies at the node's place if the text does not have the type. */
uint64_t     yaml_u64(const struct yaml *y);
double       yaml_f64(const struct yaml *y);
bool         yaml_bool(const struct yaml *y);
const char  *yaml_string(const struct yaml *y);
/* Dies at the first key of map y that is not in the NULL-terminated list. */
void         yaml_only(const struct yaml *y, const char *const *allowed);
#endif
