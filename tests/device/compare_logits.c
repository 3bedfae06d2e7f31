/* compare_logits.c -- compares logits of a program with stored logits; plain C11, for a machine with little more than a compiler.
 *
 *   compare_logits GOT GOLDEN N_VOCAB N_POSITIONS FIRST STEP EVERY MAX_ABS MEAN_KL
 *
 * GOT: [N_POSITIONS][N_VOCAB] f32 as --logits writes them.  GOLDEN: rows of positions FIRST, FIRST + STEP, ...; row r has the
 * logits of ids r % EVERY, r % EVERY + EVERY, ..., the last modulo N_VOCAB.  MAX_ABS, MEAN_KL: bounds, 0: no bound.  Prints the largest
 * difference, the mean of KL(golden || got) in nats over the rows, and the number of rows with the same most probable of these tokens.
 * Exit code 1 beyond a bound, 2 for wrong usage. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static float *read_floats(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    if (!f) { perror(path); exit(2); }
    float *x = NULL;
    size_t room = 0;
    *n = 0;
    for (size_t got = 1; got > 0; *n += got) {
        if (*n == room) x = realloc(x, (room = 2 * room + 65536) * sizeof *x);
        if (!x) { fprintf(stderr, "%s: out of memory\n", path); exit(2); }
        got = fread(x + *n, sizeof *x, room - *n, f);
    }
    fclose(f);
    return x;
}

static size_t largest(const float *x, size_t n)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

/* ln of the sum of e^x. */
static double log_sum(const float *x, size_t n)
{
    const double best = (double)x[largest(x, n)];
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += exp((double)x[i] - best);
    return best + log(sum);
}

int main(int argc, char **argv)
{
    if (argc != 10) {
        fputs("usage: compare_logits GOT GOLDEN N_VOCAB N_POSITIONS FIRST STEP EVERY MAX_ABS MEAN_KL\n", stderr);
        return 2;
    }
    const size_t n_vocab = strtoul(argv[3], NULL, 10), n_positions = strtoul(argv[4], NULL, 10);
    const size_t first = strtoul(argv[5], NULL, 10), step = strtoul(argv[6], NULL, 10), every = strtoul(argv[7], NULL, 10);
    const double bound_abs = strtod(argv[8], NULL), bound_kl = strtod(argv[9], NULL);
    size_t n_got, n_golden;
    const float *got = read_floats(argv[1], &n_got), *golden = read_floats(argv[2], &n_golden);
    const size_t width = every ? (n_vocab + every - 1) / every : 0;         /* of a stored row */
    if (width == 0 || n_golden == 0 || n_golden % width || first + (n_golden / width - 1) * step >= n_positions) {
        fprintf(stderr, "%s: %zu floats are not rows of %zu from position %zu by %zu below %zu\n", argv[2], n_golden, width, first, step,
                n_positions);
        return 2;
    }
    if (n_got != n_positions * n_vocab) { printf("%zu logits, not %zu\n", n_got, n_positions * n_vocab); return 1; }
    const size_t rows = n_golden / width;
    float *y = malloc(width * sizeof *y);
    if (!y) { fputs("out of memory\n", stderr); return 2; }
    size_t agree = 0, n_bad = 0;
    double max_abs = 0, mean_kl = 0;
    for (size_t r = 0; r < rows; r++) {
        const float *x = golden + r * width, *all = got + (first + r * step) * n_vocab;
        for (size_t k = 0; k < width; k++) y[k] = all[(r % every + every * k) % n_vocab];
        const double log_x = log_sum(x, width), log_y = log_sum(y, width);
        double kl = 0;
        for (size_t v = 0; v < width; v++) {
            const double p = (double)x[v], q = (double)y[v];
            n_bad += !isfinite(q);
            max_abs = fmax(max_abs, fabs(p - q));
            kl += exp(p - log_x) * (p - log_x - (q - log_y));
        }
        mean_kl += fmax(kl, 0) / (double)rows;             /* rounding may leave -1e-17 */
        agree += largest(x, width) == largest(y, width);
    }
    if (n_bad) { printf("%zu logits are not finite\n", n_bad); return 1; }
    printf("max abs %.2e  mean KL %.2e  argmax %zu/%zu\n", max_abs, mean_kl, agree, rows);
    return (bound_abs > 0 && !(max_abs <= bound_abs)) || (bound_kl > 0 && !(mean_kl <= bound_kl));
}
