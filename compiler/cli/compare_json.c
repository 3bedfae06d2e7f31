/* compare_json.c -- the report of `forgec compare` as JSON (docs/compare.md). */
#include "comparison.h"
#include <cjson/cJSON.h>
#include <math.h>

static void add_text(cJSON *row, const char *key, const char *text)
{
    if (text) cJSON_AddStringToObject(row, key, text);
    else cJSON_AddNullToObject(row, key);
}

/* Describes the candidate, with defaults filled in. */
static void add_program(cJSON *row, const struct candidate *c)
{
    const struct build_options *b = &c->program->build;
    cJSON_AddStringToObject(row, "name", c->name);
    cJSON_AddStringToObject(row, "model", b->model_path);
    cJSON_AddStringToObject(row, "target", c->target->name);
    cJSON_AddStringToObject(row, "fuse", b->fuse == FUSE_NONE ? "none" : "layer");
    cJSON_AddStringToObject(row, "kv", kv_type_name[b->plan.kv]);
    cJSON_AddNumberToObject(row, "ctx", plan_context(c->model, &b->plan));
    add_text(row, "plan", b->plan_path);
    add_text(row, "source", b->source);
}

static void add_speed(cJSON *row, const char *name, const struct speed *s, uint32_t n)
{
    cJSON *o = cJSON_AddObjectToObject(row, name);
    cJSON_AddNumberToObject(o, "tok_s", s->median);
    cJSON_AddItemToObject(o, "rounds_tok_s", cJSON_CreateDoubleArray(s->rounds, (int)n));
    cJSON_AddNumberToObject(o, "ratio", s->pairs.ratio);
    if (isinf(s->pairs.most)) {
        cJSON_AddNullToObject(o, "ratio_least");
        cJSON_AddNullToObject(o, "ratio_most");
    } else {
        cJSON_AddNumberToObject(o, "ratio_least", s->pairs.least);
        cJSON_AddNumberToObject(o, "ratio_most", s->pairs.most);
    }
    cJSON_AddStringToObject(o, "verdict", pairs_verdict(&s->pairs));
}

static void add_logits(cJSON *row, const struct comparison *p, const struct candidate *c)
{
    if (!c->has_logits && c != p->candidates) {
        cJSON_AddNullToObject(row, "logits_max_abs");
        cJSON_AddNullToObject(row, "logits_max_abs_relative");
        return;
    }
    cJSON_AddNumberToObject(row, "logits_max_abs", c->max_abs);
    cJSON_AddNumberToObject(row, "logits_max_abs_relative", c->max_abs_relative);
}

static void add_measured(cJSON *row, const struct comparison *p, const struct candidate *c)
{
    const double bytes = comparison_bytes(p, c), least = comparison_floor(c);
    const struct { const char *key; double value; } numbers[] = {
        { "launches_per_token", c->launches }, { "launches_per_prompt_step", c->launches_prefill },
        { "weight_bytes_per_token", (double)c->weight_bytes }, { "kv_bytes_per_token", c->kv_bytes }, { "bytes_per_token", bytes },
        { "floor_bytes_per_token", least }, { "bytes_to_floor", comparison_ratio(bytes, least) },
    }, bandwidths[] = { { "bandwidth_gb_s", c->bandwidth }, { "bandwidth_percent", c->share } };
    for (size_t i = 0; i < COUNT_OF(numbers); i++) cJSON_AddNumberToObject(row, numbers[i].key, numbers[i].value);
    for (size_t i = 0; i < COUNT_OF(bandwidths); i++) {
        if (c->target->web) cJSON_AddNullToObject(row, bandwidths[i].key);
        else cJSON_AddNumberToObject(row, bandwidths[i].key, bandwidths[i].value);
    }
    add_speed(row, "decode", &c->decode, p->n_rounds);
    add_speed(row, "prefill", &c->prefill, p->n_rounds);
    add_logits(row, p, c);
}

static void add_counted(struct arena *a, cJSON *row, const struct comparison *p, const struct candidate *c)
{
    const struct counters *k = &c->counters[1];
    const struct { const char *key; double value; } sums[] = {
        { "launches", k->launches }, { "instructions", k->instructions }, { "instructions_valu", k->valu },
        { "instructions_matrix", k->matrix }, { "loaded_bytes", k->loaded_bytes },
        { "stored_bytes", k->stored_bytes }, { "unique_bytes", k->unique_bytes }, { "line_bytes", k->line_bytes },
        { "lds_accesses", k->lds_accesses }, { "lds_conflicts", k->lds_conflicts },
    };
    for (size_t i = 0; i < COUNT_OF(sums); i++) cJSON_AddNumberToObject(row, sums[i].key, sums[i].value / p->n_tokens[1]);
    cJSON_AddNumberToObject(row, "planned_bytes", comparison_planned_reads(p, c));
    cJSON_AddNumberToObject(row, "idle_lanes", k->idle_lanes);
    cJSON_AddNumberToObject(row, "loads_in_flight_most", k->loads_in_flight);
    cJSON_AddNumberToObject(row, "channel_imbalance", channel_imbalance(k->channel_bytes, k->channel_busiest));
    add_logits(row, p, c);
    if (p->missing) return;
    const struct step_times prompt = comparison_times(a, p, c, 0), token = comparison_times(a, p, c, 1);
    least_times_json(row, "prompt", &prompt);
    least_times_json(row, "decode", &token);
}

static cJSON *report_json(struct arena *a, const struct comparison *p)
{
    cJSON *root = cJSON_CreateObject();
    cJSON_AddBoolToObject(root, "simulated", p->options->simulate);
    cJSON_AddNumberToObject(root, "n_prompt", p->n_prompt);
    cJSON_AddNumberToObject(root, "n_gen", p->n_gen);
    if (p->options->simulate) cJSON_AddNumberToObject(root, "sample", p->options->sample);
    else {
        cJSON_AddNumberToObject(root, "rounds", p->n_rounds);
        cJSON_AddNumberToObject(root, "rounds_least", pairs_least(p->comparisons));
        cJSON_AddNumberToObject(root, "min_time_s", p->min_time);
    }
    cJSON *list = cJSON_AddArrayToObject(root, "programs");
    for (uint32_t i = 0; i < p->n; i++) {
        cJSON *row = cJSON_CreateObject();
        add_program(row, &p->candidates[i]);
        if (p->options->simulate) add_counted(a, row, p, &p->candidates[i]);
        else add_measured(row, p, &p->candidates[i]);
        cJSON_AddItemToArray(list, row);
    }
    return root;
}

const char *comparison_json(struct arena *a, const struct comparison *p)
{
    cJSON *root = report_json(a, p);
    char *text = cJSON_Print(root);
    if (!text) die("out of memory for the report");
    const char *copy = arena_strdup(a, text);
    cJSON_free(text);
    cJSON_Delete(root);
    return copy;
}
