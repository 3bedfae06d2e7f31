/* llama_load.c -- tests whether llama.cpp loads these files: metadata and sizes of tensors, no weights.  tests/tools/llama_load.sh compiles
 * it; no other file here uses llama.cpp. */
#include <stdio.h>
#include <string.h>
#include "ggml-backend.h"
#include "llama.h"

static void print_faults(enum ggml_log_level level, const char *text, void *user)
{
    (void)user;
    if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

int main(int argc, char **argv)
{
    if (argc < 3) { fputs("usage: llama_load FOLDER-OF-BACKENDS FILE.gguf...\n", stderr); return 2; }
    llama_log_set(print_faults, NULL);
    ggml_backend_load_all_from_path(argv[1]);
    int failed = 0;
    for (int i = 2; i < argc; i++) {
        struct llama_model_params p = llama_model_default_params();
        p.no_alloc = true;
        p.load_mode = LLAMA_LOAD_MODE_NONE;
        p.use_extra_bufts = false;
        p.n_gpu_layers = 0;
        struct llama_model *m = llama_model_load_from_file(argv[i], p);
        const char *name = strrchr(argv[i], '/') ? strrchr(argv[i], '/') + 1 : argv[i];
        if (!m) { printf("FAILED %s\n", name); failed++; continue; }
        printf("%-32s %16llu weights\n", name, (unsigned long long)llama_model_n_params(m));
        fflush(stdout);
        llama_model_free(m);
    }
    return failed > 0;
}
