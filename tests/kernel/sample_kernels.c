/* sample_kernels.c -- templates/gpu/sample_tmpl.c for the vocabulary of the case, or with -DMODELS for the vocabularies of real models. */
#include "kernel.h"
#include "templates/gpu/sample_tmpl.c"
#include "cases.h"

#ifndef MODELS
TEST_KERNEL(512, sample_any)
{
    const struct sample_case *c = CASE(struct sample_case);
    pdl_launch();
    pdl_wait();
    mark(a);
    sample(a, c->logits, c->n_vocab, c->n_ctx, c->scratch, c->counter, c->groups, c->threads);
}
#else
#define MODEL(n_vocab, groups, threads) \
    TEST_KERNEL(threads, sample_##n_vocab) \
    { \
        const struct sample_case *c = CASE(struct sample_case); \
        pdl_launch(); \
        pdl_wait(); \
        mark(a); \
        sample(a, c->logits, n_vocab, SAMPLE_MODELS_CTX, c->scratch, c->counter, groups, threads); \
    }
SAMPLE_MODELS(MODEL)
#endif
