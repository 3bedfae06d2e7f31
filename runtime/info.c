#include <stdio.h>

#include "session.h"

enum forge_status version_print(const struct forge_program *p, struct forge_error *error)
{
    printf("%s (%s), %s\n", p->model_name, p->target, p->compiler);
    return flush_stdout(error);
}

enum forge_status info_print(const struct forge_program *p, struct forge_error *error)
{
    printf("model          %s\n", p->model_name);
    printf("architecture   %s, %.1f M parameters, %u layers, hidden %u, vocabulary %u\n", p->architecture,
           (double)p->n_parameters * 1e-6, p->n_layer, p->n_embd, p->n_vocab);
    printf("formats        %s\n", p->formats);
    printf("model hash     %s\n", p->model_hash);
    printf("weights hash   %s\n", p->weights_hash);
    printf("weights        %llu bytes, %s\n", (unsigned long long)p->weights_bytes, forge_weights != NULL ? "inside" : "outside (-m)");
    printf("read per token %llu bytes of weights, %llu of KV cache for every token before it\n", (unsigned long long)p->read_bytes,
           (unsigned long long)p->kv_bytes_per_token);
    printf("activations    %llu bytes\n", (unsigned long long)p->arena_bytes);
    printf("KV cache       %llu bytes for %u tokens\n", (unsigned long long)p->kv_bytes, p->n_ctx);
    printf("launches       %u per token, %u per prompt step of up to %u tokens\n", p->n_decode, p->n_prefill, p->chunk);
    printf("threads        1 to %u\n", p->max_threads);
    printf("options        %s\n", p->options);
    printf("compiler       %s\n", p->compiler);
    for (uint32_t i = 0; i < forge_n_programs; i++) {
        printf("target         %s%s, needs", forge_programs[i]->target, forge_programs[i] == p ? " (runs here)" : "");
        const char *const *feature = forge_programs[i]->features;
        if (feature == NULL || *feature == NULL) printf(" nothing");
        for (; feature != NULL && *feature != NULL; feature++) printf(" %s", *feature);
        printf("\n");
    }
    printf("kernels       ");
    for (uint32_t i = 0; i < p->n_decode; i++) {
        bool seen = false;
        for (uint32_t j = 0; j < i && !seen; j++) seen = p->decode[j].kernel == p->decode[i].kernel;
        if (!seen) printf(" %s", p->decode[i].name);
    }
    printf("\n");
    return flush_stdout(error);
}
