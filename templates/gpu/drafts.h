/* drafts.h -- speculative decoding.  Drafts follow the next token; a step computes all of them and accepts them as far as they equal the
 * drawn tokens.  Drafts are the tokens that followed an earlier occurrence of the last tokens or, with by_block, come from the model's own
 * draft block.
 *
 * In a step with drafts every token has logits.  Row r is drawn as if the drafts before it were in the text, with its own random number.
 * The text gets the rows up to the first one whose token differs from the following draft.  A draw depends only on the tokens before it,
 * the logits, whose bits are the same (gemv_tmpl.c with COLUMNS), and the number of random numbers used.  So the text is that of plain
 * decoding, whatever the options.  Keys and values of rejected drafts lie after the text, where the next step stores its own.
 *
 * The number of drafts of a step depends on the success of the last ones (trust).  A decode step, which computes one token, leaves its
 * drafts unused but compares its token with the first of them, the guess.
 *
 * With by_block, a draw is followed by as many passes as the host wants drafts; each computes one token through the block, by step[1] and
 * draft_store(). */
#ifndef FORGE_DRAFTS_H
#define FORGE_DRAFTS_H
#include "sample_tmpl.c"

/* Fewest tokens that must match an earlier occurrence, and the most that are compared; least trust for drafts, and the most trust;
 * successive steps without a guess that reduce trust by one. */
enum { DRAFT_LEAST = 3, DRAFT_LONGEST = 12, DRAFT_TRUST = 2, DRAFT_MOST_TRUST = 4, DRAFT_MISSES = 4, DRAFT_MAX_ROWS = 8 };

/* Loads token p - i of the history into x[i], if it exists; all loads are issued at once. */
DEVICE void draft_load(uint32_t *x, const int32_t *history, uint32_t p)
{
    UNROLL
    for (uint32_t i = 1; i < DRAFT_LONGEST; i++) x[i] = (uint32_t)((const GLOBAL int32_t *)history)[p >= i ? p - i : 0];
}

/* Searches the history for an earlier occurrence of the last tokens, up to position `at`, whose token `last` is not in the history yet.
 * Returns, in all threads, the position that ends the longest match, the latest of equal ones; 0: none. */
DEVICE uint32_t draft_find(const int32_t *history, uint32_t at, uint32_t last, const uint32_t threads)
{
    uint32_t tail[DRAFT_LONGEST], x[DRAFT_LONGEST];
    uint64_t best = 0;
    draft_load(tail, history, at);
    for (uint32_t q = thread_x(); 4 * q < at; q += threads) {
        const u32x4 tokens = ((const GLOBAL u32x4 *)(const void *)history)[q];
        uint32_t found = 0;
        UNROLL
        for (uint32_t i = 0; i < 4; i++) found |= (uint32_t)(tokens[i] == last && 4 * q + i < at) << i;
        for (; found > 0; found &= found - 1) {
            const uint32_t p = 4 * q + (uint32_t)__builtin_ctz(found);
            uint32_t same = 1, n = 1;
            draft_load(x, history, p);
            UNROLL
            for (uint32_t i = 1; i < DRAFT_LONGEST; i++) {
                same &= i <= p && x[i] == tail[i];
                n += same;
            }
            const uint64_t key = (uint64_t)n << 32 | p;
            best = key > best ? key : best;
        }
    }
    best = sample_group_max(best, 1, threads);
    return best >> 32 >= DRAFT_LEAST ? (uint32_t)best : 0;
}

/* Number of drafts for this trust. */
DEVICE uint32_t draft_width(uint32_t trust, const uint32_t most)
{
    const uint32_t width = trust < DRAFT_TRUST ? 0 : trust < DRAFT_MOST_TRUST ? 1u << (trust - DRAFT_TRUST + 1) : most;
    return width < most ? width : most;
}

/* Words of the arena: arrivals at each row and at all rows; for each row its token, and whether it used a random number. */
DEVICE void draft_put(uint32_t *words, uint32_t i, uint32_t x) { store_shared_f32((float *)(void *)words + i, f32_of_bits(x)); }
DEVICE uint32_t draft_get(const uint32_t *words, uint32_t i)
{
    return bits_of_f32(load_shared_f32((const float *)(const void *)words + i));
}

/* Of n drawn rows, the first of which follows `end` tokens, adds the accepted rows to the text; makes *step the parameters of the next
 * step.  Called by all threads of one group. */
DEVICE void draft_accept(struct forge_gpu_step *step, const uint32_t *words, uint32_t n, uint32_t end, const uint32_t rows,
                         const uint32_t by_block, const uint32_t n_ctx, const uint32_t threads)
{
    int32_t *history = step->history;
    uint64_t *ring = step->ring;
    const uint32_t i = thread_x(), draws = step->temp > 0, most = step->most_drafts, drawn = step->n_drawn;
    const int32_t guess = step->guess;
    uint32_t tokens[DRAFT_MAX_ROWS], took[DRAFT_MAX_ROWS], drafts[DRAFT_MAX_ROWS], trust = step->trust, misses = step->misses;
    uint64_t random[4] = { step->random[0], step->random[1], step->random[2], step->random[3] };
    UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        const uint32_t row = r < n ? r : 0, at = end + row;
        tokens[r] = draft_get(words, rows + 1 + row);
        took[r] = draft_get(words, 2 * rows + 1 + row);
        drafts[r] = (uint32_t)((const GLOBAL int32_t *)history)[at < n_ctx ? at : n_ctx];
    }
    uint32_t taken = 0, right = 1, token = tokens[0];
    UNROLL
    for (uint32_t r = 0; r + 1 < rows; r++) {
        right &= r + 1 < n && tokens[r] == drafts[r] && (took[r] || !draws);
        taken += right;
        token = right ? tokens[r + 1] : token;
    }
    const uint32_t at = end + taken, finite = token != FORGE_GPU_NOT_FINITE, last = finite ? token : 0;
    misses = guess < 0 ? misses + 1 : 0;
    if (misses == DRAFT_MISSES) {
        trust -= trust > 0;
        misses = 0;
    }
    if (guess >= 0 && tokens[0] != (uint32_t)guess) trust /= 2;
    else if (guess >= 0 && taken + 1 == n && trust < DRAFT_MOST_TRUST) trust++;

    const uint32_t p = !by_block && at < n_ctx && finite ? draft_find(history, at, last, threads) : 0;
    const uint32_t width = draft_width(trust, most), room = p ? n_ctx - 1 - at : 0, n_drafts = width < room ? width : room;
    const uint32_t from = p ? p + 1 + i % (at - p) : at;
    const uint32_t draft = from < at ? (uint32_t)((const GLOBAL int32_t *)history)[from] : last;
    barrier();                                   /* all threads have read *step and the history */
    if (i < n_drafts) ((GLOBAL int32_t *)history)[at + 1 + i] = (int32_t)draft;
    if (i > 0) return;
    if (at <= n_ctx) ((GLOBAL int32_t *)history)[at] = (int32_t)last;
    UNROLL
    for (uint32_t r = 0; r < rows; r++)
        if (r <= taken && took[r]) sample_random(random);
    step->n_past = at;
    step->n_tokens = 1 + n_drafts;
    step->n_logits = 1 + n_drafts;
    step->n_drafts = n_drafts;
    step->slot = taken;
    step->n_drawn = drawn + taken + 1;
    step->trust = trust;
    step->misses = misses;
    step->guess = p ? (int32_t)draft : -1;
    step->random[0] = random[0];
    step->random[1] = random[1];
    step->random[2] = random[2];
    step->random[3] = random[3];
    if (by_block) {
        step[1].n_past = at < n_ctx ? at : n_ctx - 1;          /* at the last position there is a pass, but no draft after it */
        step[1].n_tokens = 1;
        step[1].n_logits = 1;
        step[1].n_drafts = 0;
        step[1].slot = taken;
        step[1].history = history;
    }
    const uint32_t foreseen = by_block || trust >= DRAFT_TRUST;
    const uint32_t ends = FORGE_GPU_ENDS_STEP | FORGE_GPU_WITH_DRAFTS(n - 1) | (foreseen ? FORGE_GPU_FORESEEN : 0);
    UNROLL
    for (uint32_t r = 0; r < rows; r++) {
        const uint32_t number = drawn + 1 + r, told = r < taken ? tokens[r] : token | ends;
        if (r <= taken) ((volatile GLOBAL uint64_t *)ring)[number % FORGE_GPU_RING] = (uint64_t)number << 32 | told;
    }
}

/* sample() for a step with drafts: draws from the logits of its last 1 + n_drafts tokens, accepts the correct drafts and drafts the next
 * step. After a step of several tokens (a.first) the launch has `rows` <= DRAFT_MAX_ROWS rows of groups; rows without a token do nothing.
 * After any other step it has one row, and the step has one token or, after the host wrote it, no drafts.
 * logits: of the step's first token that has logits.  scratch: [rows] of SAMPLE_SCRATCH_BYTES; words: DRAFT_WORDS(rows) u32, 0 before the
 * first launch.  by_block: step[1] becomes the parameters of the first pass. */
DEVICE void sample_drafts(const struct forge_kernel_args a, float *logits, const uint32_t n_vocab, const uint32_t n_ctx, uint8_t *scratch,
                          uint32_t *words, const uint32_t rows, const uint32_t by_block, const uint32_t groups, const uint32_t threads)
{
    const uint32_t drafts = a.step->n_drafts, n = a.first ? drafts + 1 : 1, row = group_y(), end = sample_end(a.step);
    if (row < n) {
        uint8_t *own = scratch + row * SAMPLE_SCRATCH_BYTES(n_vocab, groups);
        float *x = logits + (uint64_t)(a.step->n_logits - 1 - drafts + row) * n_vocab;
        sample_segments(x, a.step, row, n_vocab, n_ctx, own, groups, threads);
        if (!last_to_arrive(&words[row], groups, &sample_words()[SAMPLE_FLAG])) return;
        struct sample_step step = sample_step_of(a.step);
        for (uint32_t r = 0; r < row && step.chances.temp > 0; r++) sample_random(step.random);
        const struct sample_step was = step;
        const uint32_t token = sample_draw(&step, x, own, n_vocab, threads);
        if (thread_x() == 0) {
            draft_put(words, rows + 1 + row, token);
            draft_put(words, 2 * rows + 1 + row, was.random[0] != step.random[0] || was.random[1] != step.random[1] ||
                                                 was.random[2] != step.random[2] || was.random[3] != step.random[3]);
        }
    }
    if (a.first) {                           /* when the last group arrives, no other reads *step any more, not even rows without a token */
        if (!last_to_arrive(&words[rows], n + (rows - n) * groups, &sample_words()[SAMPLE_FLAG])) return;
    } else {
        stores_done();
        barrier();
        acquire();
    }
    draft_accept(a.step, words, n, end, rows, by_block, n_ctx, threads);
}

/* Ends a pass; a.step is step[1].  The most probable token by its logits, with the biases and penalties that its draw would have, becomes
 * the last draft of the next step, if there is a position for it, and the token of the next pass.
 * row: [cols], the block's own row, is stored in slot `own` of the state at a.state_at.  scratch and counters as in sample(). */
DEVICE void draft_store(const struct forge_kernel_args a, float *logits, const uint32_t n_vocab, const uint32_t n_ctx, uint8_t *scratch,
                        uint32_t *counters, const float *row, const uint32_t cols, const uint32_t slot_bytes, const uint32_t own,
                        const uint32_t groups, const uint32_t threads)
{
    struct forge_gpu_step *step = a.step - 1, *pass = a.step;
    float *kept = (float *)(void *)(a.state + a.state_at + (uint64_t)own * slot_bytes);
    for (uint32_t c = group_x() * threads + thread_x(); c < cols; c += groups * threads)
        ((GLOBAL float *)kept)[c] = ((const GLOBAL float *)row)[c];
    sample_segments(logits, step, step->n_drafts, n_vocab, n_ctx, scratch, groups, threads);
    if (!last_to_arrive(counters, groups, &sample_words()[SAMPLE_FLAG])) return;
    const uint32_t token = sample_id_of(sample_best(scratch, n_vocab, threads)), at = pass->n_past + 1;
    if (thread_x() > 0) return;
    pass->slot = own;
    if (at >= n_ctx) return;
    ((GLOBAL int32_t *)pass->history)[at] = (int32_t)token;
    pass->n_past = at;
    step->n_tokens++;
    step->n_logits++;
    step->n_drafts++;
}
#endif
