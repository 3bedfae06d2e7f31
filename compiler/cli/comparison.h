/* comparison.h -- the results of compare.c, for the reports that show them. */
#ifndef FORGEC_COMPARISON_H
#define FORGEC_COMPARISON_H
#include "compare.h"
#include "counters.h"
#include "kernel_profile.h"
#include "least_times.h"
#include "pairs.h"
#include "compiler/build/program.h"
#include "compiler/plan/kernel.h"

/* tokens/s */
struct speed {
    double *rounds;               /* [n_rounds of the comparison] */
    double  median;
    struct pairs pairs;           /* compared with the first candidate */
};

struct candidate {
    const struct compare_program *program;
    const char *name;                             /* program->is.name */
    const struct model *model;
    const struct target *target;
    struct runner runner;
    const char *path;                             /* of the executable */
    uint32_t    launches, launches_prefill;       /* GPU: including the launch of the sampler */
    uint64_t    weight_bytes, weight_floor;       /* read per decoded token: as packed; as in the file */
    uint64_t    value_bytes;                      /* written by kernels for other kernels, per decoded token */
    uint64_t    kv_per_token;                     /* bytes of a position in the KV cache */
    uint64_t    score_bytes;                      /* if attention stores its scores: more value_bytes for every earlier token */
    double      kv_bytes;                         /* KV cache read per decoded token, mean over the tokens of a round */
    struct speed decode, prefill;
    double     *shares, *bandwidths;              /* [2 * n_rounds] percent of the bandwidth that decode reached; that bandwidth, GB/s */
    double      share, bandwidth;                 /* medians */
    struct counters counters[2];                  /* simulated: of the prompt, of all decoded tokens */
    const struct kernel_list *kernels;
    struct kernel_profile profiled;               /* COMPARE_HTML, not simulated */
    struct bytes source;                          /* COMPARE_HTML: the source, as emitted or edited */
    bool        has_logits;                       /* to compare with the first candidate's */
    double      max_abs, max_abs_relative;        /* logits against the first candidate's, prompt and one-token kernels */
};

struct comparison {
    const struct compare_options *options;
    struct candidate *candidates;                 /* [n] */
    uint32_t n;
    uint32_t n_prompt, n_gen, n_rounds;
    uint32_t comparisons;                         /* intervals of the report: two speeds of all candidates but the first */
    double   min_time;
    uint32_t n_tokens[2];                         /* tokens with logits: from prompt kernels, from one-token kernels */
    const char *missing;                          /* simulated: a rate that some target lacks, so there are no least times; or NULL */
};

/* Bytes per decoded token, mean over the tokens of a round. */
double comparison_bytes(const struct comparison *p, const struct candidate *c);
/* The minimum of these bytes: weights as in the file, and the KV cache of the tokens before. */
double comparison_floor(const struct candidate *c);
/* Simulated: bytes that kernels read for a token according to the plan. */
double comparison_planned_reads(const struct comparison *p, const struct candidate *c);
/* Simulated: least times. run: 0 for the prompt, 1 for a decoded token. */
struct step_times comparison_times(struct arena *a, const struct comparison *p, const struct candidate *c, uint32_t run);
/* What all candidates have in common: "tiny.gguf on x86-64-v4"; with several models "2 programs on x86-64-v4". */
const char *comparison_title(struct arena *a, const struct comparison *p);
/* x / y, or 0 if y is not positive */
double comparison_ratio(double x, double y);

/* Prints Markdown to stdout; it is readable in a terminal too. */
void comparison_md(struct arena *a, const struct comparison *p);
/* The report as JSON: keys in docs/compare.md. */
const char *comparison_json(struct arena *a, const struct comparison *p);
/* Prints one HTML page to stdout, without scripts and without external resources. */
void comparison_html(struct arena *a, const struct comparison *p);
#endif
