/* counters.c -- see counters.h; simulator/stats.c writes the file. */
#include "counters.h"
#include <cjson/cJSON.h>

#define OTHER_VERSION "forgec and libgfxsim.so may have different versions; install both from one build"

static double number(const char *path, const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!cJSON_IsNumber(item)) die("%s: the number \"%s\" is missing: " OTHER_VERSION, path, key);
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

static uint32_t small(const char *path, const cJSON *object, const char *key)
{
    const double value = number(path, object, key);
    if (!(value >= 0 && value <= 1 << 30)) die("%s: \"%s\" is out of range: " OTHER_VERSION, path, key);
    return (uint32_t)value;
}

static const cJSON *list(const char *path, const cJSON *object, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    if (!cJSON_IsArray(item)) die("%s: the list \"%s\" is missing: " OTHER_VERSION, path, key);
    return item;
}

/* [[groups, launches], ...] */
static void read_grids(struct arena *a, const char *path, const cJSON *k, struct kernel_counters *out)
{
    const cJSON *grids = list(path, k, "launches_of"), *pair;
    out->grids = arena_array(a, struct grids, (size_t)cJSON_GetArraySize(grids));
    cJSON_ArrayForEach(pair, grids) {
        const cJSON *groups = cJSON_GetArrayItem(pair, 0), *launches = cJSON_GetArrayItem(pair, 1);
        if (!cJSON_IsNumber(groups) || !cJSON_IsNumber(launches))
            die("%s: \"launches_of\" must be an array of pairs of numbers: " OTHER_VERSION, path);
        out->grids[out->n_grids++] = (struct grids){ groups->valuedouble, launches->valuedouble };
    }
}

static void read_shape(struct arena *a, const char *path, const cJSON *k, struct kernel_counters *out)
{
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(k, "name"), *threads = list(path, k, "threads"), *n;
    if (!cJSON_IsString(name)) die("%s: a kernel has no name: " OTHER_VERSION, path);
    out->name = arena_strdup(a, name->valuestring);
    out->wave = small(path, k, "wave");
    if (out->wave != 32 && out->wave != 64) die("%s: a wave has %u lanes instead of 32 or 64: " OTHER_VERSION, path, out->wave);
    double all = 1;
    cJSON_ArrayForEach(n, threads) all *= n->valuedouble;
    if (!(all >= 1 && all <= 1024)) die("%s: a group has %g threads instead of 1 to 1024: " OTHER_VERSION, path, all);
    out->group_waves = ((uint32_t)all + out->wave - 1) / out->wave;
    out->registers = small(path, k, "registers");
    out->lds_bytes = small(path, k, "static_lds") + small(path, k, "dynamic_lds");
    out->scratch_bytes = small(path, k, "scratch_bytes");
    out->pair = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(k, "pair"));
    read_grids(a, path, k, out);
}

static struct kernel_counters read_kernel(struct arena *a, const char *path, const cJSON *k)
{
    const cJSON *instructions = cJSON_GetObjectItemCaseSensitive(k, "instructions"), *kinds = cJSON_GetObjectItemCaseSensitive(k, "kinds");
    const cJSON *flop = cJSON_GetObjectItemCaseSensitive(k, "matrix_flop"), *loops = cJSON_GetObjectItemCaseSensitive(k, "loops");
    struct kernel_counters out = {
        .launches = number(path, k, "launches"), .groups = number(path, k, "groups"), .waves = number(path, k, "waves"),
        .instructions = all_of(instructions),
        .valu = number(path, instructions, "valu"), .transcendental = number(path, instructions, "trans"),
        .dot = number(path, instructions, "dot"),
        .matrix = number(path, instructions, "matrix"), .multiply = number(path, kinds, "mul32"), .f64 = number(path, kinds, "f64"),
        .acc_moves = number(path, kinds, "acc_move"), .nops = number(path, kinds, "nop"), .waits = number(path, instructions, "wait"),
        .barriers = number(path, instructions, "barrier"), .scratch = number(path, instructions, "scratch"),
        .lds_accesses = number(path, k, "lds_loads") + number(path, k, "lds_stores"), .lds_moves = number(path, k, "lds_moves"),
        .lds_cycles = number(path, k, "lds_cycles"), .lds_conflicts = number(path, k, "lds_conflicts"),
        .loaded_bytes = number(path, k, "loaded_bytes"),
        .stored_bytes = number(path, k, "stored_bytes"), .unique_bytes = number(path, k, "unique_bytes"),
        .loads_in_flight = number(path, k, "loads_in_flight_most"), .loop_loads_in_flight = number(path, k, "loop_loads_in_flight_most"),
        .channel_bytes = number(path, k, "channel_bytes"),
        .channel_busiest = number(path, k, "channel_busiest") * number(path, k, "channels"),
        .loop = { number(path, loops, "instructions"), number(path, loops, "matrix"), number(path, loops, "nops"),
                  number(path, loops, "acc_moves"), number(path, loops, "scratch") },
    };
    for (size_t i = 0; i < N_MATRIX_FORMATS; i++) out.matrix_flop[i] = number(path, flop, matrix_format_name[i]);
    /* unique_bytes was scaled like the other counters. That is wrong, because workgroups share lines; so this undoes the scaling. */
    const double run = number(path, k, "groups_run");
    out.sampled = run < out.groups;
    if (out.sampled) out.unique_bytes *= run / out.groups;
    read_shape(a, path, k, &out);
    return out;
}

struct counters counters_read(struct arena *a, const char *path)
{
    static const char *const vector_classes[] = { "valu", "trans", "dot", "matrix", "lds", "global_load", "global_store" };
    const struct bytes text = file_read(a, path);
    cJSON *root = cJSON_ParseWithLength((const char *)text.data, text.size);
    const cJSON *kernels = list(path, root, "kernels"), *k;
    struct counters sum = { .kernels = arena_array(a, struct kernel_counters, (size_t)cJSON_GetArraySize(kernels)) };
    double idle = 0, lanes = 0;
    cJSON_ArrayForEach(k, kernels) {
        const struct kernel_counters one = sum.kernels[sum.n_kernels++] = read_kernel(a, path, k);
        const cJSON *instructions = cJSON_GetObjectItemCaseSensitive(k, "instructions"),
            *off = cJSON_GetObjectItemCaseSensitive(k, "lanes_idle");
        sum.launches += one.launches;
        sum.instructions += one.instructions;
        sum.valu += one.valu + one.transcendental + one.dot;
        sum.matrix += one.matrix;
        for (size_t i = 0; i < COUNT_OF(vector_classes); i++) {
            idle += number(path, off, vector_classes[i]);
            lanes += number(path, instructions, vector_classes[i]) * one.wave;
        }
        sum.loaded_bytes += one.loaded_bytes;
        sum.stored_bytes += one.stored_bytes;
        sum.unique_bytes += one.unique_bytes;
        sum.line_bytes += 128 * number(path, k, "load_lines");
        sum.channel_bytes += one.channel_bytes;
        sum.channel_busiest += one.channel_busiest;
        sum.lds_accesses += one.lds_accesses;
        sum.lds_conflicts += one.lds_conflicts;
        if (one.loads_in_flight > sum.loads_in_flight) sum.loads_in_flight = one.loads_in_flight;
    }
    sum.idle_lanes = lanes > 0 ? idle / lanes : 0;
    cJSON_Delete(root);
    return sum;
}
