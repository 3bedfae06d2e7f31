/* counters.c -- see counters.h; the file is written by tests/gfxsim/stats.c. */
#include "counters.h"
#include <cjson/cJSON.h>

static double number(const char *path, const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!cJSON_IsNumber(item)) die("%s: no number \"%s\": forgec and libgfxsim.so are not of one version", path, key);
    return item->valuedouble;
}

/* The sum over the members of an object. */
static double all_of(const cJSON *object)
{
    double sum = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, object) sum += item->valuedouble;
    return sum;
}

struct counters counters_read(struct arena *a, const char *path)
{
    static const char *const vector_classes[] = { "valu", "trans", "dot", "matrix", "lds", "global_load", "global_store" };
    const struct bytes text = file_read(a, path);
    cJSON *root = cJSON_ParseWithLength((const char *)text.data, text.size);
    const cJSON *kernels = cJSON_GetObjectItemCaseSensitive(root, "kernels"), *k;
    if (!cJSON_IsArray(kernels)) die("%s: no list of kernels: forgec and libgfxsim.so are not of one version", path);
    struct counters sum = { 0 };
    double idle = 0, lanes = 0;
    cJSON_ArrayForEach(k, kernels) {
        const cJSON *instructions = cJSON_GetObjectItemCaseSensitive(k, "instructions"), *off = cJSON_GetObjectItemCaseSensitive(k, "lanes_idle");
        sum.launches += number(path, k, "launches");
        sum.instructions += all_of(instructions);
        sum.valu += number(path, instructions, "valu") + number(path, instructions, "trans") + number(path, instructions, "dot");
        sum.matrix += number(path, instructions, "matrix");
        for (size_t i = 0; i < COUNT_OF(vector_classes); i++) {
            idle += number(path, off, vector_classes[i]);
            lanes += number(path, instructions, vector_classes[i]) * number(path, k, "wave");
        }
        sum.loaded_bytes += number(path, k, "loaded_bytes");
        sum.stored_bytes += number(path, k, "stored_bytes");
        sum.unique_bytes += number(path, k, "unique_bytes");
        sum.line_bytes += 128 * number(path, k, "load_lines");
        sum.lds_accesses += number(path, k, "lds_loads") + number(path, k, "lds_stores");
        sum.lds_conflicts += number(path, k, "lds_conflicts");
        const double flight = number(path, k, "loads_in_flight_most");
        if (flight > sum.loads_in_flight) sum.loads_in_flight = flight;
    }
    sum.idle_lanes = lanes > 0 ? idle / lanes : 0;
    cJSON_Delete(root);
    return sum;
}
