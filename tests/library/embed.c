/* embed.c -- a library of an embedding model (prefix model): prints the vector of the tokens in its arguments.  Checks that steps in parts
 * give the same bits, that texts are independent, and that calls which such a model does not support are refused.
 * embed TOKEN...; FORGE_HIP_LIBRARY: for a GPU. */
#define LIBRARY_NO_MODELS
#include "library_help.h"
#include "model.h"
#include <dlfcn.h>
#include <math.h>

static int32_t tokens[MODEL_N_CTX + 1];
static float vector[MODEL_N_EMBD], other[MODEL_N_EMBD];

static void *symbol_of(void *context, const char *name) { return dlsym(context, name); }

static uint64_t one_more(void *context) { return ++*(uint64_t *)context; }

static void same(const float *x, const float *y, const char *what) { CHECK(memcmp(x, y, sizeof vector) == 0, "%s", what); }

int main(int argc, char **argv)
{
    const uint32_t n = (uint32_t)argc - 1;
    struct model *m;
    int status;
    if (n < 2 || n > MODEL_N_CTX) return 2;
    for (uint32_t i = 0; i < n; i++) tokens[i] = atoi(argv[i + 1]);
    CHECK(MODEL_EMBEDDINGS == 1, "the header says %d", MODEL_EMBEDDINGS);
    const char *device = getenv("FORGE_HIP_LIBRARY");
    struct model_options options = { .size = sizeof options };
    if (device) {
        options.device_symbol = symbol_of;
        options.device_context = dlopen(device, RTLD_NOW);
    }
    CHECK(model_open(&m, aligned_memory(MODEL_WORKSPACE_BYTES), MODEL_WORKSPACE_BYTES, &options) == MODEL_OK, "open");
    if (failures) return 1;

    CHECK(model_prefill(m, tokens, n, vector) == MODEL_WRONG_KIND, "prefill");
    CHECK(model_step(m, tokens[0], vector) == MODEL_WRONG_KIND, "step");
    CHECK(model_sample(m, vector, NULL) == MODEL_WRONG_KIND, "sample");
    CHECK(model_embed(m, tokens, 0, 0, vector) == MODEL_BAD_ARGUMENT, "no tokens");
    CHECK(model_embed(m, tokens, n, 2, vector) == MODEL_BAD_ARGUMENT, "flags");
    CHECK(model_embed(m, tokens, n, 0, NULL) == MODEL_BAD_ARGUMENT, "no vector");
    CHECK(model_embed(m, tokens, MODEL_N_CTX + 1, 0, vector) == MODEL_CONTEXT_FULL, "more tokens than the context");

    CHECK(model_embed(m, tokens, n, 0, vector) == MODEL_OK, "embed");
    CHECK(model_embed(m, tokens + 1, n - 1, 0, other) == MODEL_OK, "another text");
    CHECK(memcmp(vector, other, sizeof vector) != 0, "two texts have one vector");
    CHECK(model_begin(m, tokens, n, other) == MODEL_OK, "begin");
    while ((status = model_step_budget(m, 3)) == MODEL_MORE) { }
    CHECK(status == MODEL_OK, "budget: %s", model_strerror(status));
    same(vector, other, "a step in pieces gives other bits");

    static struct model_timing timings[MODEL_TIMINGS];
    uint64_t clock = 0;
    struct model_profiling profile = { .size = sizeof profile, .n_steps = 2, .clock = one_more, .clock_context = &clock,
                                       .timings = timings };
    CHECK((status = model_profile(m, tokens, n, other, &profile)) == MODEL_OK, "profile: %s", model_strerror(status));
    CHECK(model_n_past(m) == 0 && profile.n_timings > 3 && profile.n_timings <= MODEL_TIMINGS && profile.step > 0, "%u rows",
          profile.n_timings);
    for (uint32_t i = 0; i < profile.n_timings; i++) CHECK(timings[i].launches > 0 && (device || timings[i].work > 0), "%s",
                                                           timings[i].name);
    same(vector, other, "a step that is measured gives other bits");
    CHECK(model_embed(m, tokens, n, 0, other) == MODEL_OK, "embed");
    same(vector, other, "a text after a measured text has other bits");

    double length = 0, cosine = 0;
    CHECK(model_embed(m, tokens, n, MODEL_AS_IT_IS, other) == MODEL_OK, "embed as it is");
    for (uint32_t i = 0; i < MODEL_N_EMBD; i++) {
        length += (double)other[i] * (double)other[i];
        cosine += (double)other[i] * (double)vector[i];
    }
    CHECK(fabs(cosine / sqrt(length) - 1) < 1e-6, "direction: %.9f", cosine / sqrt(length));
    model_close(m);
    for (uint32_t i = 0; i < MODEL_N_EMBD; i++) printf("%s%.9g", i ? "," : "[", (double)vector[i]);
    puts("]");
    return failures != 0;
}
