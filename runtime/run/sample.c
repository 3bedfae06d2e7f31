/* sample.c -- draws a token from logits on the host. */
#include "sample.h"
#include "random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The candidates left by top-k, top-p and min-p are always a prefix of the vocabulary sorted by logit.  So a sampler needs only that
 * prefix: a heap of k candidates, or the part above the min-p bound, or a heap from which candidates are popped until top-p is reached. */
struct candidate { float logit; int32_t id; };

struct forge_sampler {
    struct forge_sample_options options;
    struct forge_random random;
    uint32_t n_vocab;
    struct candidate *candidates;    /* [n_vocab] */
    double   *weights;               /* [n_vocab] */
    int32_t  *recent;                /* [n_recent] ring of the last tokens */
    uint32_t *counts;                /* [n_vocab] occurrences in the ring */
    uint32_t *stamps;                /* [n_vocab] last draw in which a token was penalised */
    uint32_t  n_recent, n_held, at, draws;
    struct forge_bias *biases;
};

void random_seed(struct forge_random *random, uint64_t seed) { xoshiro_seed(random->s, seed); }
uint64_t random_next(struct forge_random *random) { return xoshiro_next(random->s); }
double random_unit(struct forge_random *random) { return (double)(random_next(random) >> 11) * 0x1p-53; }

int32_t argmax(const float *x, size_t n)
{
    /* Eight maxima at once vectorise; the index is found afterwards. */
    float best[8];
    for (int j = 0; j < 8; j++) best[j] = -INFINITY;
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (size_t j = 0; j < 8; j++) best[j] = x[i + j] > best[j] ? x[i + j] : best[j];
    for (; i < n; i++) best[0] = x[i] > best[0] ? x[i] : best[0];
    for (int j = 1; j < 8; j++) best[0] = best[j] > best[0] ? best[j] : best[0];
    for (i = 0; i < n; i++)
        if (x[i] == best[0]) return (int32_t)i;
    return 0;
}

enum forge_status sampler_open(struct forge_sampler **out, const struct forge_sample_options *options,
                               uint32_t n_vocab, uint32_t n_ctx, struct forge_error *error)
{
    *out = NULL;
    struct forge_sampler *s = calloc(1, sizeof *s);
    if (!s) return error_set(error, FORGE_NO_MEMORY, "out of memory for the sampler");
    s->options = *options;
    s->n_vocab = n_vocab;
    s->n_recent = options->repeat_last_n < 0 ? n_ctx : (uint32_t)options->repeat_last_n;
    if (s->n_recent > n_ctx) s->n_recent = n_ctx;
    s->candidates = malloc(n_vocab * sizeof *s->candidates);
    s->weights = malloc(n_vocab * sizeof *s->weights);
    s->counts = calloc(n_vocab, sizeof *s->counts);
    s->stamps = calloc(n_vocab, sizeof *s->stamps);
    s->recent = malloc((s->n_recent + 1u) * sizeof *s->recent);
    s->biases = malloc((options->n_biases + 1) * sizeof *s->biases);
    if (!s->candidates || !s->weights || !s->counts || !s->stamps || !s->recent || !s->biases) {
        sampler_close(s);
        return error_set(error, FORGE_NO_MEMORY, "out of memory for the sampler of %u tokens", n_vocab);
    }
    if (options->n_biases > 0) memcpy(s->biases, options->biases, options->n_biases * sizeof *s->biases);
    random_seed(&s->random, options->seed);
    *out = s;
    return FORGE_OK;
}

void sampler_close(struct forge_sampler *s)
{
    if (!s) return;
    free(s->candidates);
    free(s->weights);
    free(s->counts);
    free(s->stamps);
    free(s->recent);
    free(s->biases);
    free(s);
}

struct forge_random *sampler_random(struct forge_sampler *s) { return &s->random; }

void sampler_accept(struct forge_sampler *s, int32_t token)
{
    if (s->n_recent == 0 || token < 0 || (uint32_t)token >= s->n_vocab) return;
    if (s->n_held == s->n_recent) s->counts[s->recent[s->at]]--;
    else s->n_held++;
    s->recent[s->at] = token;
    s->counts[token]++;
    if (++s->at == s->n_recent) s->at = 0;
}

static void penalise(struct forge_sampler *s, float *logits)
{
    const struct forge_sample_options *o = &s->options;
    if (o->repeat_penalty == 1.0f && o->presence_penalty == 0.0f && o->frequency_penalty == 0.0f) return;
    s->draws++;
    for (uint32_t i = 0; i < s->n_held; i++) {
        const int32_t id = s->recent[i];
        if (s->stamps[id] == s->draws) continue;
        s->stamps[id] = s->draws;
        /* Dividing a negative logit would raise the token's probability. */
        if (logits[id] <= 0) logits[id] *= o->repeat_penalty;
        else logits[id] /= o->repeat_penalty;
        logits[id] -= (float)s->counts[id] * o->frequency_penalty + o->presence_penalty;
    }
}

/* Sort order: higher logit first, then lower id. */
static bool before(struct candidate a, struct candidate b)
{
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

/* Restores the heap below i; worst: the root is the worst candidate instead of the best. */
static void sift(struct candidate *heap, size_t n, size_t i, bool worst)
{
    const struct candidate moved = heap[i];
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && before(heap[child + 1], heap[child]) != worst) child++;
        if (before(heap[child], moved) == worst) break;
        heap[i] = heap[child];
    }
    heap[i] = moved;
}

static void heapify(struct candidate *heap, size_t n, bool worst)
{
    for (size_t i = n / 2; i-- > 0;) sift(heap, n, i, worst);
}

/* Sorts the best first. */
static void sort_candidates(struct candidate *c, size_t n)
{
    heapify(c, n, true);
    for (size_t last = n; last-- > 1;) {
        const struct candidate t = c[0];
        c[0] = c[last];
        c[last] = t;
        sift(c, last, 0, true);
    }
}

/* The k best, sorted. */
static size_t select_top_k(struct candidate *c, const float *logits, size_t n, size_t k)
{
    for (size_t i = 0; i < k; i++) c[i] = (struct candidate){ logits[i], (int32_t)i };
    heapify(c, k, true);
    float bound = c[0].logit;
    for (size_t i = k; i < n; i++) {
        if (!(logits[i] > bound)) continue;                  /* on a tie the later id loses */
        c[0] = (struct candidate){ logits[i], (int32_t)i };
        sift(c, k, 0, true);
        bound = c[0].logit;
    }
    sort_candidates(c, k);
    return k;
}

/* Length of the sorted prefix whose weight is at least top_p of the total. */
static size_t cut_top_p(const struct candidate *c, size_t n, double total, float best, float top_p)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum += exp((double)(c[i].logit - best));
        if (sum >= (double)top_p * total) return i + 1;
    }
    return n;
}

/* Selects all tokens with logit >= bound; total: the sum of exp(logit - best) over the whole vocabulary. */
static size_t select_above(struct candidate *c, const float *logits, size_t n, float bound, float best, double *total)
{
    size_t kept = 0;
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        if (total) sum += (double)expf(logits[i] - best);
        if (logits[i] >= bound) c[kept++] = (struct candidate){ logits[i], (int32_t)i };
    }
    if (total) *total = sum;
    return kept;
}

/* Pops the best candidates until their weight reaches top_p.  Popped candidates move to the end of the array, as in heapsort. */
static size_t pop_top_p(struct candidate *c, size_t n, double total, float best, float top_p)
{
    heapify(c, n, false);
    double sum = 0;
    size_t left = n;
    while (left > 0) {
        const struct candidate top = c[0];
        c[0] = c[--left];
        sift(c, left, 0, false);
        c[left] = top;
        sum += exp((double)(top.logit - best));
        if (sum >= (double)top_p * total) break;
    }
    const size_t kept = n - left;
    for (size_t i = 0; i < kept && i < n - 1 - i; i++) {     /* move them to the front, best first */
        const struct candidate t = c[i];
        c[i] = c[n - 1 - i];
        c[n - 1 - i] = t;
    }
    return kept;
}

static int32_t draw(struct forge_sampler *s, const struct candidate *c, size_t n, float best)
{
    const double inverse = 1.0 / (double)s->options.temp;
    double total = 0;
    for (size_t i = 0; i < n; i++) total += s->weights[i] = exp(((double)c[i].logit - (double)best) * inverse);
    double at = random_unit(&s->random) * total;
    size_t last = 0;                                         /* rounding may leave a remainder: then the last token that can be drawn */
    for (size_t i = 0; i < n; i++) {
        if ((at -= s->weights[i]) < 0) return c[i].id;
        if (s->weights[i] > 0) last = i;
    }
    return c[last].id;
}

int32_t sampler_draw(struct forge_sampler *s, float *logits)
{
    const struct forge_sample_options *o = &s->options;
    const size_t n = s->n_vocab;
    for (size_t i = 0; i < o->n_biases; i++) logits[s->biases[i].id] += s->biases[i].bias;
    for (uint32_t i = 0; i < o->n_suppressed; i++) logits[o->suppressed[i]] = -INFINITY;
    penalise(s, logits);
    const int32_t first = argmax(logits, n);
    const float best = logits[first];
    /* If the logits are infinite there is nothing to draw from. */
    if (o->temp <= 0 || !isfinite(best)) return first;
    for (size_t i = 0; i < n; i++) logits[i] = logits[i] >= -INFINITY ? logits[i] : -INFINITY;

    const float bound = o->min_p > 0 ? best + logf(o->min_p < 1 ? o->min_p : 1) : -INFINITY;
    struct candidate *c = s->candidates;
    size_t kept;
    if (o->top_k > 0 && (size_t)o->top_k < n) {
        kept = select_top_k(c, logits, n, (size_t)o->top_k);
        if (o->top_p < 1) {
            double total = 0;
            for (size_t i = 0; i < kept; i++) total += exp((double)(c[i].logit - best));
            kept = cut_top_p(c, kept, total, best, o->top_p);
        }
        while (kept > 1 && c[kept - 1].logit < bound) kept--;
    } else if (o->top_p < 1) {
        double total;
        kept = select_above(c, logits, n, bound, best, &total);
        kept = pop_top_p(c, kept, total, best, o->top_p);
    } else {
        kept = select_above(c, logits, n, bound, best, NULL);
    }
    return draw(s, c, kept, best);
}
