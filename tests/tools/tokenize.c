/* tokenize.c -- tokenises texts: tokenize VOCABULARY.gguf [llama.cpp] < TEXTS > TOKENS.  A text ends with a byte 0xff, which UTF-8 does not
 * have; each text gives a line of ids.  "llama.cpp": as forgec build --pre llama.cpp.  For tests/tokenizers/run.sh. */
#include "compiler/product/vocab.h"
#include "runtime/text/tokenize.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    struct arena *a = arena_create();
    if (argc < 2) die("usage: tokenize VOCABULARY.gguf [llama.cpp] < TEXTS > TOKENS");
    const struct bytes vocab = vocab_build_as(a, gguf_open(a, argv[1], true), 0, argc > 2 && !strcmp(argv[2], "llama.cpp"), NULL);
    struct text in = { .arena = a };
    char        part[65536];
    for (size_t n; (n = fread(part, 1, sizeof part, stdin)) > 0;) text_append(&in, part, n);
    void    *scratch = NULL;
    int32_t *ids     = NULL;
    size_t   most    = 0;
    for (size_t at = 0; at < in.size;) {
        const char  *end = memchr(in.data + at, 0xff, in.size - at);
        const size_t n   = end ? (size_t)(end - in.data) - at : in.size - at;
        if (!ids || n > most) {
            most    = n;
            scratch = realloc(scratch, forge_tokenize_scratch(n));
            ids     = realloc(ids, FORGE_TOK_MOST(n) * sizeof *ids);
            if (!scratch || !ids) die("out of memory");
        }
        const int64_t n_ids = forge_tokenize(vocab.data, in.data + at, n, 0, ids, FORGE_TOK_MOST(n), scratch, forge_tokenize_scratch(n));
        for (int64_t i = 0; i < n_ids; i++) printf(i ? " %d" : "%d", ids[i]);
        printf("\n");
        at += n + 1;
    }
    free(scratch);
    free(ids);
    arena_destroy(a);
    return 0;
}
