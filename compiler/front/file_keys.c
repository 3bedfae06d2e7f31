/* file_keys.c -- see file_keys.h. */
#include "file_keys.h"
#include <string.h>

static const struct { const char *pattern; enum file_key kind; const char *why; } known[] = {
#define KEY(pattern, kind, why) { pattern, FILE_KEY_##kind, why },
#include "file_key.def"
#undef KEY
};

/* pattern: has at most one "*". */
static bool matches(const char *pattern, const char *key)
{
    const char *star = strchr(pattern, '*');
    if (!star) return strcmp(pattern, key) == 0;
    const size_t before = (size_t)(star - pattern), behind = strlen(star + 1), n = strlen(key);
    return n >= before + behind && strncmp(key, pattern, before) == 0 && strcmp(key + n - behind, star + 1) == 0;
}

static bool is_text(const struct gguf_value *v, const char *text)
{
    return v->type == GGUF_STRING && v->string.size == strlen(text) && memcmp(v->string.data, text, v->string.size) == 0;
}

static bool is_zero(const struct gguf_value *v)
{
    if (v->type == GGUF_STRING || v->type == GGUF_ARRAY) return false;
    if (v->type == GGUF_F32 || v->type == GGUF_F64) return !(v->f > 0) && !(v->f < 0);
    return gguf_type_is_signed(v->type) ? v->i == 0 : v->type == GGUF_BOOL ? !v->b : v->u == 0;
}

/* Keys of sampling. llama.cpp has samplers that forgec lacks; forgec has penalties, top-k, top-p, min-p and temperature, in that order. A
 * chain that also names other samplers works without them if their own keys, or llama.cpp's defaults, switch them off. */
static enum file_key of_sampling(const struct gguf_pair *pair)
{
    static const char *const usual[] = { "", "penalties;top_k;top_p;min_p;temperature",
                                         "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature" };
    const char *name = pair->key + strlen("general.sampling.");
    if (strcmp(name, "sequence") == 0) {
        for (size_t i = 0; i < COUNT_OF(usual); i++) if (is_text(&pair->value, usual[i])) return FILE_KEY_IDLE;
        return FILE_KEY_UNDONE;
    }
    if (strcmp(name, "mirostat") == 0 || strcmp(name, "xtc_probability") == 0)
        return is_zero(&pair->value) ? FILE_KEY_IDLE : FILE_KEY_UNDONE;
    if (strcmp(name, "mirostat_tau") == 0 || strcmp(name, "mirostat_eta") == 0 || strcmp(name, "xtc_threshold") == 0)
        return FILE_KEY_IDLE;                                  /* without effect unless one of the two keys above is on */
    return FILE_KEY_UNKNOWN;
}

enum file_key file_key_of(const struct gguf_pair *pair)
{
    for (size_t i = 0; i < COUNT_OF(known); i++) if (matches(known[i].pattern, pair->key)) return known[i].kind;
    return strncmp(pair->key, "general.sampling.", 17) == 0 ? of_sampling(pair) : FILE_KEY_UNKNOWN;
}
