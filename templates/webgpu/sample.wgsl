/* sample.wgsl -- from logits to the next token, in two dispatches.  sample_scan, in GROUPS workgroups, penalises recent tokens and finds
 * the best token of each span of the vocabulary.  sample_draw, in one workgroup, draws a token, writes it into the text and makes its step.
 * It is runtime/library/sample.c with the same order of operations: it draws the same token for the same logits, history and random
 * numbers.
 *
 * The module has
 *     var<storage, read_write> arena: array<u32>;          a row of N_VOCAB logits, and 2 GROUPS words of scratch between the dispatches
 *     var<storage, read_write> sampling: array<u32>;       as below
 *     var<storage, read_write> text: array<u32>;           [n_ctx], bound with no more words than that
 *     var<uniform> step: forge_step;                       sample_scan
 *     var<storage, read_write> next: array<u32>;           sample_draw: the same buffer, words as in forge_step
 *     const THREADS                                        of a workgroup, a power of two, 16 at least
 *     fn sample_suppressed(id: u32) -> bool                whether the token is never drawn
 *     const N_VOCAB, GROUPS                                at most 524,288 and 1,024; a few hundred tokens per group are fastest
 * and two kernels of one call each, sample_scan_span() and sample_draw_token().  row, scratch: words of the arena.
 * Workgroup memory: 8,364 + 8 THREADS + 4 GROUPS bytes.
 *
 * sampling:
 *     0  temperature, f32; 0: the most probable token      4  repeat_penalty, f32; 0 or 1: none
 *     1  top_k; 0: all                                     5  repeat_last_n, below 2^31
 *     2  top_p, f32; 0 or 1: all                           6  0, or 1 + the first position for which no token could be drawn
 *     3  min_p, f32                                        7  unused
 *     8  .. 15  the random state of runtime/run/random.h, the lower half of each number first
 * Words 0 to 5 are those of struct model_sampling and must be valid as model_sample() requires.
 *
 * If a logit is NaN or plus infinity, or all are minus infinity, no token can be drawn: word 6 then says so, the text gets token 0, and the
 * random state does not change.  Nothing is written beyond the end of the text; the step is advanced all the same, but must not be run.
 *
 * Possible differences to the reference.  Penalties, the temperature's inverse and the most probable token are exact, in integers.  Weights
 * are sums, differences and products of floats, each rounded on its own.  WGSL leaves the rounding direction open; machines round to
 * nearest.  On a machine that rounds otherwise weights are off by some 2^-22, so one of about 2^20 tokens differs.  Differences of logits
 * below 2^-126, which a machine may take as 0, matter only at temperatures below 1e-30.  If penalties turn all logits into minus infinity,
 * the reference draws token 0; here no token can be drawn. */

const SAMPLE_SPAN = (N_VOCAB + GROUPS - 1u) / GROUPS;
const SAMPLE_CANDIDATES = 384u;
const SAMPLE_NONE = 0xffffffffu;                 /* no id; as a key it is above that of any number */
const SAMPLE_LOG2_E = 1.44269504f;

/* ---- keys ---- */
/* Floats as integers in the same order; -0 is 0, NaN is as low as minus infinity. */
fn sample_key(bits: u32) -> u32 {
    let size = bits & 0x7fffffffu;
    if (size == 0u) { return 0x80000000u; }
    if (size > 0x7f800000u || bits == 0xff800000u) { return 0u; }
    return select(bits | 0x80000000u, ~bits, bits >= 0x80000000u);
}
fn sample_float(key: u32) -> f32 { return bitcast<f32>(select(~key, key & 0x7fffffffu, key >= 0x80000000u)); }
/* The more probable of two tokens, as (key, id); the lower id on a tie. */
fn sample_better(a: vec2u, b: vec2u) -> vec2u { return select(a, b, b.x > a.x || (b.x == a.x && b.y < a.y)); }

var<workgroup> sample_tops: array<vec2u, THREADS>;

/* The best of the group; all invocations get it. */
fn sample_best(mine: vec2u, thread: u32) -> vec2u {
    sample_tops[thread] = mine;
    for (var half = THREADS / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if (thread < half) { sample_tops[thread] = sample_better(sample_tops[thread], sample_tops[thread + half]); }
    }
    return workgroupUniformLoad(&sample_tops[0]);
}

/* ---- penalties ---- */
/* A positive number: a significand of 24 bits with the highest bit 1, and its exponent; also for numbers below 2^-126. */
struct sample_parts { significand: u32, exponent: i32 }
fn sample_parts_of(bits: u32) -> sample_parts {
    let significand = (bits & 0x7fffffu) | select(0u, 0x800000u, bits >= 0x800000u);
    let shift = countLeadingZeros(significand) - 8u;
    return sample_parts(significand << shift, i32(max(bits >> 23u, 1u)) - i32(shift));
}
/* Rounds a significand of 25 bits with the highest bit 1, one bit more than fits, to the nearest float, ties to even; more: bits below are
 * not 0. */
fn sample_nearest(bits: u32, more: bool, exponent: i32) -> u32 {
    if (exponent > 254) { return 0x7f800000u; }
    let shift = u32(clamp(2 - exponent, 1, 26));
    let half = 1u << (shift - 1u);
    let behind = bits & (2u * half - 1u);
    let whole = bits >> shift;
    let up = behind > half || (behind == half && (more || (whole & 1u) == 1u));
    return (u32(max(exponent, 1) - 1) << 23u) + whole + select(0u, 1u, up);
}
/* a / b as bits, both positive and finite; WGSL's division may be off by 2.5 units in the last place. */
fn sample_quotient(a_bits: u32, b_bits: u32) -> u32 {
    let a = sample_parts_of(a_bits);
    let b = sample_parts_of(b_bits);
    let less = a.significand < b.significand;
    var rest = a.significand << select(0u, 1u, less);
    var quotient = 0u;
    for (var i = 0u; i < 25u; i++) {
        let one = rest >= b.significand;
        quotient = (quotient << 1u) | select(0u, 1u, one);
        rest = (rest - select(0u, b.significand, one)) << 1u;
    }
    return sample_nearest(quotient, rest > 0u, a.exponent - b.exponent + select(127, 126, less));
}
/* a b of such numbers; WGSL's product may be 0 if it is below 2^-126. */
fn sample_times_float(a_bits: u32, b_bits: u32) -> u32 {
    let a = sample_parts_of(a_bits);
    let b = sample_parts_of(b_bits);
    let product = sample_product(a.significand, b.significand);
    let shift = select(22u, 23u, product.y >= 0x8000u);
    let more = (product.x & ((1u << shift) - 1u)) > 0u;
    return sample_nearest((product.x >> shift) | (product.y << (32u - shift)), more, a.exponent + b.exponent - 149 + i32(shift));
}
/* A negative logit is multiplied: dividing it would make the token more probable. */
fn sample_penalised(bits: u32, penalty: u32) -> u32 {
    if ((bits & 0x7fffffffu) == 0u || bits == 0xff800000u) { return bits; }
    if (bits >= 0x80000000u) { return 0x80000000u | sample_times_float(bits & 0x7fffffffu, penalty); }
    return sample_quotient(bits, penalty);
}

/* ---- the scan ---- */
var<workgroup> sample_marks: array<atomic<u32>, (SAMPLE_SPAN + 31u) / 32u>;      /* a bit for each token of the span; all begin as 0 */

/* Words of the scratch: keys of the best tokens of each span, SAMPLE_NONE if a logit is NaN or plus infinity; then their ids.
 * n_text: tokens of the text, with those of the step. */
fn sample_scan_span(row: u32, scratch: u32, group: u32, n_text: u32, thread: u32) {
    let first = group * SAMPLE_SPAN;
    let penalty = sampling[4];
    if ((penalty << 1u) != 0u && penalty != bitcast<u32>(1.0f)) {
        let n = min(n_text, sampling[5]);
        for (var i = thread; i < n; i += THREADS) {
            let at = text[n_text - n + i] - first;
            if (at < SAMPLE_SPAN) { atomicOr(&sample_marks[at / 32u], 1u << (at % 32u)); }
        }
    }
    workgroupBarrier();
    var best = vec2u(0u, first);
    for (var i = thread; i < SAMPLE_SPAN && first + i < N_VOCAB; i += THREADS) {
        let id = first + i;
        var bits = arena[row + id];
        if ((bits & 0x7fffffffu) >= 0x7f800000u && bits != 0xff800000u) {
            best = vec2u(SAMPLE_NONE, id);
            continue;
        }
        if (sample_suppressed(id)) {
            bits = 0xff800000u;
            arena[row + id] = bits;
        }
        if (((atomicLoad(&sample_marks[i / 32u]) >> (i % 32u)) & 1u) == 1u) {
            bits = sample_penalised(bits, penalty);
            arena[row + id] = bits;
        }
        best = sample_better(best, vec2u(sample_key(bits), id));
    }
    best = sample_best(best, thread);
    if (thread == 0u) {
        arena[scratch + group] = best.x;
        arena[scratch + GROUPS + group] = best.y;
    }
}

/* ---- numbers of 64 bits, the lower half in x ---- */
fn sample_sum(a: vec2u, b: vec2u) -> vec2u {
    let low = a.x + b.x;
    return vec2u(low, a.y + b.y + select(0u, 1u, low < a.x));
}
fn sample_difference(a: vec2u, b: vec2u) -> vec2u { return vec2u(a.x - b.x, a.y - b.y - select(0u, 1u, a.x < b.x)); }
fn sample_less(a: vec2u, b: vec2u) -> bool { return a.y < b.y || (a.y == b.y && a.x < b.x); }
fn sample_left(a: vec2u, by: u32) -> vec2u { return vec2u(a.x << by, (a.y << by) | (a.x >> (32u - by))); }    /* 0 < by < 32 */
fn sample_rotated(a: vec2u, by: u32) -> vec2u { return sample_left(a, by) | vec2u(a.y >> (32u - by), 0u); }
fn sample_product(a: u32, b: u32) -> vec2u {
    let low = (a & 0xffffu) * (b & 0xffffu);
    let middle = (a >> 16u) * (b & 0xffffu) + (low >> 16u);
    let other = (a & 0xffffu) * (b >> 16u) + (middle & 0xffffu);
    return vec2u((other << 16u) | (low & 0xffffu), (a >> 16u) * (b >> 16u) + (middle >> 16u) + (other >> 16u));
}
/* a b, which must fit in 64 bits. */
fn sample_times(a: vec2u, b: u32) -> vec2u { return sample_product(a.x, b) + vec2u(0u, a.y * b); }
/* a fraction / 2^32, rounded down. */
fn sample_scaled(a: vec2u, fraction: u32) -> vec2u {
    return sample_sum(sample_product(a.y, fraction), vec2u(sample_product(a.x, fraction).y, 0u));
}

/* ---- random numbers ---- */
fn sample_state(i: u32) -> vec2u { return vec2u(sampling[8u + 2u * i], sampling[9u + 2u * i]); }
fn sample_state_put(i: u32, value: vec2u) {
    sampling[8u + 2u * i] = value.x;
    sampling[9u + 2u * i] = value.y;
}
/* xoshiro256** 1.0, as in runtime/run/random.h.  One invocation calls it. */
fn sample_random() -> vec2u {
    var s = array<vec2u, 4>(sample_state(0u), sample_state(1u), sample_state(2u), sample_state(3u));
    let r = sample_rotated(sample_sum(sample_left(s[1], 2u), s[1]), 7u);
    let t = sample_left(s[1], 17u);
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = sample_rotated(s[3].yx, 13u);         /* by 45 */
    sample_state_put(0u, s[0]);
    sample_state_put(1u, s[1]);
    sample_state_put(2u, s[2]);
    sample_state_put(3u, s[3]);
    return sample_sum(sample_left(r, 3u), r);
}
/* A number below n, n < 2^63: the upper half of the product with 64 random bits. */
fn sample_random_below(n: vec2u) -> vec2u {
    let r = sample_random();
    let low = sample_scaled(n, r.x);
    let middle = sample_product(n.x, r.y);
    let carry = select(0u, 1u, middle.x + low.x < middle.x);
    return sample_sum(sample_sum(sample_product(n.y, r.y), vec2u(middle.y, 0u)), sample_sum(vec2u(low.y, 0u), vec2u(carry, 0u)));
}

/* ---- weights ---- */
/* The parameters of a logit's weight.  zero: 0, but unknown to compilers. */
struct sample_rule { best: f32, scale: f32, zero: u32 }

/* x, rounded: compilers do not contract or reorder operations across the operation on bits. */
fn sample_rounded(x: f32, zero: u32) -> f32 { return bitcast<f32>(bitcast<u32>(x) | zero); }
fn sample_step(p: f32, f: f32, add: f32, zero: u32) -> f32 { return sample_rounded(sample_rounded(p * f, zero) + add, zero); }
/* 2^-x as a fixed-point number with 40 fractional bits, x >= 0; 0 below 2^-40 and for NaN. */
fn sample_exp2_minus(x: f32, zero: u32) -> vec2u {
    let at = sample_rounded(x, zero);
    if ((bitcast<u32>(at) & 0x7fffffffu) >= bitcast<u32>(40.0f)) { return vec2u(0u); }
    let n = u32(at);
    let f = sample_rounded(at - f32(n), zero);
    var p = sample_step(0x1.ca8f0ap-14f, f, -0x1.4e600cp-10f, zero);
    p = sample_step(p, f, 0x1.39e9b0p-7f, zero);
    p = sample_step(p, f, -0x1.c694ecp-5f, zero);
    p = sample_step(p, f, 0x1.ebfabcp-3f, zero);
    p = sample_step(p, f, -0x1.62e42cp-1f, zero);
    p = sample_step(p, f, 1.0f, zero);
    let v = u32(p * 0x1p30f);
    if (n > 10u) { return vec2u(v >> (n - 10u), 0u); }
    return vec2u(v << (10u - n), v >> min(22u + n, 31u));
}
fn sample_weight(key: u32, rule: sample_rule) -> vec2u {
    if (key == 0u) { return vec2u(0u); }
    return sample_exp2_minus(sample_rounded(rule.best - sample_float(key), rule.zero) * rule.scale, rule.zero);
}

/* ---- lists of tokens ---- */
/* Tokens in the order of ids, item by item: the best of each span; spans of the vocabulary, listed in sample_spans; candidates.  at: the
 * word of the arena where keys, or the row, begin.  The list of the vocabulary ends with items that are no tokens: their id is
 * SAMPLE_NONE. */
struct sample_list { kind: u32, at: u32, n: u32 }
const SAMPLE_BESTS = 0u;
const SAMPLE_VOCABULARY = 1u;
const SAMPLE_FEW = 2u;

var<workgroup> sample_spans: array<u32, GROUPS>;
var<workgroup> sample_few: array<vec2u, SAMPLE_CANDIDATES>;

/* Key and id. */
fn sample_item(list: sample_list, i: u32) -> vec2u {
    if (list.kind == SAMPLE_FEW) { return sample_few[i]; }
    if (list.kind == SAMPLE_BESTS) { return vec2u(arena[list.at + i], i); }
    let id = sample_spans[i / SAMPLE_SPAN] * SAMPLE_SPAN + i % SAMPLE_SPAN;
    if (id >= N_VOCAB) { return vec2u(0u, SAMPLE_NONE); }
    return vec2u(sample_key(arena[list.at + id]), id);
}

/* The spans of the vocabulary with a key of at least `bound`: each invocation counts its spans and stores them after those of the
 * invocations before it. */
fn sample_spans_above(row: u32, scratch: u32, bound: u32, thread: u32) -> sample_list {
    let each = (GROUPS + THREADS - 1u) / THREADS;
    let first = min(thread * each, GROUPS);
    let end = min(first + each, GROUPS);
    var n = 0u;
    for (var g = first; g < end; g++) { n += select(0u, 1u, arena[scratch + g] >= bound); }
    var before = n;                              /* with its own spans, at first */
    for (var distance = 1u; distance < THREADS; distance *= 2u) {
        workgroupBarrier();
        sample_tops[thread] = vec2u(before, 0u);
        workgroupBarrier();
        if (thread >= distance) { before += sample_tops[thread - distance].x; }
    }
    workgroupBarrier();
    sample_tops[thread] = vec2u(before, 0u);
    let all = workgroupUniformLoad(&sample_tops[THREADS - 1u]).x;
    before -= n;
    for (var g = first; g < end; g++) {
        if (arena[scratch + g] >= bound) {
            sample_spans[before] = g;
            before++;
        }
    }
    workgroupBarrier();
    return sample_list(SAMPLE_VOCABULARY, row, all * SAMPLE_SPAN);
}

/* ---- what is kept ---- */
/* The kept tokens: those with a key above `key`, and those with this key and an id below `end`. */
struct sample_kept { key: u32, end: u32 }
fn sample_keeps(kept: sample_kept, item: vec2u) -> bool { return item.x > kept.key || (item.x == kept.key && item.y < kept.end); }

/* Sums for up to 256 bins.  Carries are counted where they occur, so that the order of additions does not matter. */
var<workgroup> sample_low: array<atomic<u32>, 256>;
var<workgroup> sample_high: array<atomic<u32>, 256>;

fn sample_clear(thread: u32) {
    for (var bin = thread; bin < 256u; bin += THREADS) {
        atomicStore(&sample_low[bin], 0u);
        atomicStore(&sample_high[bin], 0u);
    }
    workgroupBarrier();
}
fn sample_add(bin: u32, mass: vec2u) {
    let old = atomicAdd(&sample_low[bin], mass.x);
    let high = mass.y + select(0u, 1u, old + mass.x < old);
    if (high > 0u) { atomicAdd(&sample_high[bin], high); }
}
fn sample_mass(bin: u32) -> vec2u { return vec2u(atomicLoad(&sample_low[bin]), atomicLoad(&sample_high[bin])); }

/* The result of one invocation, for all: a bin, its mass, and the part of it that is still needed. */
struct sample_found { bin: u32, rest: vec2u, mass: vec2u }
var<workgroup> sample_told: sample_found;
var<workgroup> sample_coarse: array<vec2u, 16>;  /* sums of 16 bins */

/* The highest bin that together with the bins above it has the mass `need` or, with share, that fraction (in 2^-32, at least 1) of all
 * mass. */
fn sample_bin(need: vec2u, share: bool, fraction: u32, thread: u32) -> sample_found {
    if (thread < 16u) {
        var sum = vec2u(0u);
        for (var bin = 16u * thread; bin < 16u * thread + 16u; bin++) { sum = sample_sum(sum, sample_mass(bin)); }
        sample_coarse[thread] = sum;
    }
    workgroupBarrier();
    if (thread == 0u) {
        var rest = need;
        if (share) {
            var sum = vec2u(0u);
            for (var i = 0u; i < 16u; i++) { sum = sample_sum(sum, sample_coarse[i]); }
            rest = sample_scaled(sum, fraction);
            if (all(rest == vec2u(0u))) { rest = vec2u(1u, 0u); }
        }
        var part = 15u;
        for (; part > 0u && sample_less(sample_coarse[part], rest); part--) { rest = sample_difference(rest, sample_coarse[part]); }
        var bin = 16u * part + 15u;
        for (; bin > 16u * part && sample_less(sample_mass(bin), rest); bin--) { rest = sample_difference(rest, sample_mass(bin)); }
        sample_told = sample_found(bin, rest, sample_mass(bin));
    }
    return workgroupUniformLoad(&sample_told);
}

/* The key of the last token when the best of the kept tokens are taken until they have a mass: `count` tokens of a list or, if that is 0,
 * the fraction (in 2^-32) of its weight at temperature 1.  By radix selection, a byte of the key at a time.  The result has the key as bin,
 * the mass of the tokens with this key, and the part of it that is needed.  least: no kept key is below; rule: at temperature 1. */
fn sample_radix(whole: sample_list, scratch: u32, kept: sample_kept, least: u32, count: u32, fraction: u32, rule: sample_rule,
                thread: u32) -> sample_found {
    var list = whole;
    var found = sample_found(0u, vec2u(count, 0u), vec2u(0u));
    var key = 0u;
    for (var level = 0u; level < 4u; level++) {
        let shift = 24u - 8u * level;
        let prefix = select(key << ((shift + 8u) % 32u), 0u, level == 0u);
        if (list.kind == SAMPLE_VOCABULARY) { list = sample_spans_above(list.at, scratch, max(least, prefix), thread); }
        sample_clear(thread);
        for (var i = thread; i < list.n; i += THREADS) {
            let item = sample_item(list, i);
            if (!sample_keeps(kept, item) || (level > 0u && ((item.x ^ prefix) >> ((shift + 8u) % 32u)) != 0u)) { continue; }
            var mass = vec2u(1u, 0u);
            if (count == 0u) { mass = sample_weight(item.x, rule); }
            if (any(mass != vec2u(0u))) { sample_add((item.x >> shift) & 255u, mass); }
        }
        workgroupBarrier();
        found = sample_bin(found.rest, count == 0u && level == 0u, fraction, thread);
        key = (key << 8u) | found.bin;
    }
    found.bin = key;
    return found;
}

/* ---- places ---- */
/* The id of the token at which the mass of the kept tokens, summed in the order of ids, exceeds `at`.  ties: the mass is the number of
 * tokens with the key; otherwise it is their weight, and `at` is random.  The list is divided into 32 parts, and the part with the token is
 * divided again. */
fn sample_locate(list: sample_list, kept: sample_kept, ties: bool, key: u32, at: vec2u, rule: sample_rule, thread: u32) -> u32 {
    var first = 0u;
    var n = list.n;
    var rest = at;
    var level = 0u;
    loop {
        let each = (n + 31u) / 32u;
        sample_clear(thread);
        var part = 0u;
        var sum = vec2u(0u);
        for (var i = thread; i < n; i += THREADS) {
            if (i / each != part) {
                if (any(sum != vec2u(0u))) { sample_add(part, sum); }
                sum = vec2u(0u);
                part = i / each;
            }
            let item = sample_item(list, first + i);
            if (!sample_keeps(kept, item)) { continue; }
            if (!ties) { sum = sample_sum(sum, sample_weight(item.x, rule)); }
            else if (item.x == key) { sum.x++; }
        }
        if (any(sum != vec2u(0u))) { sample_add(part, sum); }
        workgroupBarrier();
        if (thread == 0u) {
            if (level == 0u && !ties) {
                var sum = vec2u(0u);
                for (var i = 0u; i < 32u; i++) { sum = sample_sum(sum, sample_mass(i)); }
                rest = sample_random_below(sum);
            }
            var there = 0u;
            for (; there < 31u && !sample_less(rest, sample_mass(there)); there++) { rest = sample_difference(rest, sample_mass(there)); }
            sample_told = sample_found(there, rest, vec2u(0u));
        }
        let found = workgroupUniformLoad(&sample_told);
        rest = found.rest;
        first += found.bin * each;
        n = min(each, n - min(n, found.bin * each));
        level++;
        if (each <= 1u) { break; }
    }
    return sample_item(list, first).y;
}

/* ---- candidates ---- */
var<workgroup> sample_unsorted: array<vec2u, SAMPLE_CANDIDATES>;
var<workgroup> sample_taken: atomic<u32>;

/* Tokens with a key of at least `bound` as a list of their own; the vocabulary if there are too many. */
fn sample_candidates(row: u32, scratch: u32, bound: u32, thread: u32) -> sample_list {
    let spans = sample_spans_above(row, scratch, bound, thread);
    for (var i = thread; i < spans.n; i += THREADS) {
        let item = sample_item(spans, i);
        if (item.x < bound || item.y == SAMPLE_NONE) { continue; }
        let at = atomicAdd(&sample_taken, 1u);
        if (at < SAMPLE_CANDIDATES) { sample_unsorted[at] = item; }
    }
    workgroupBarrier();
    if (thread == 0u) { sample_told.bin = atomicLoad(&sample_taken); }
    let n = workgroupUniformLoad(&sample_told).bin;
    if (n > SAMPLE_CANDIDATES) { return spans; }
    for (var i = thread; i < n; i += THREADS) {
        let item = sample_unsorted[i];
        var rank = 0u;
        for (var other = 0u; other < n; other++) { rank += select(0u, 1u, sample_unsorted[other].y < item.y); }
        sample_few[rank] = item;
    }
    workgroupBarrier();
    return sample_list(SAMPLE_FEW, 0u, n);
}

/* ---- the draw ---- */
/* Largest distance from the best logit at which a token still has min_p of its probability: ln of min_p, by bisection. */
fn sample_min_p_distance(min_p: f32, zero: u32) -> f32 {
    let bits = u32(min_p * 0x1p30f);
    let least = vec2u(bits << 10u, bits >> 22u);
    var low = 0.0f;
    var high = 40.0f;
    for (var i = 0u; i < 32u; i++) {
        let middle = 0.5f * sample_rounded(low + high, zero);
        if (sample_less(sample_exp2_minus(middle * SAMPLE_LOG2_E, zero), least)) { high = middle; } else { low = middle; }
    }
    return low;
}

struct sample_options { temperature: u32, top_k: u32, top_p: f32, min_p: f32, zero: u32 }
var<workgroup> sample_asked: sample_options;

/* Draws one of the tokens that top-k, top-p and min-p leave.  scale: log2(e) / temperature.
 * The k best tokens are among those that reach the k-th largest maximum of the spans, in practice hardly more: these become candidates, and
 * only their spans are read, once.  Stages: that bound, top-k, top-p, the draw; in a loop, because drivers inline functions at every
 * call. */
fn sample_any(row: u32, scratch: u32, o: sample_options, best: f32, scale: f32, thread: u32) -> u32 {
    let k = select(0u, o.top_k, o.top_k < N_VOCAB);
    let bounded = k > 0u && k <= min(GROUPS, SAMPLE_CANDIDATES);
    let top_p = o.top_p > 0.0 && o.top_p < 1.0;
    var rule = sample_rule(best, SAMPLE_LOG2_E, o.zero);
    var list = sample_list(select(SAMPLE_VOCABULARY, SAMPLE_BESTS, bounded), select(row, scratch, bounded), GROUPS);
    var kept = sample_kept(0u, SAMPLE_NONE);
    var bound = 0u;
    var token = 0u;
    for (var stage = 0u; stage < 4u; stage++) {
        if ((stage == 0u && !bounded) || (stage == 1u && k == 0u) || (stage == 2u && !top_p)) { continue; }
        if (stage == 1u && bounded) { list = sample_candidates(row, scratch, bound, thread); }
        var key = 0u;
        var fewer = 0u;
        if (stage < 3u) {
            let count = select(0u, k, stage < 2u);
            let found = sample_radix(list, scratch, kept, max(bound, kept.key), count, u32(o.top_p * 0x1p32f), rule, thread);
            key = found.bin;
            if (stage == 0u) {
                bound = key;
                continue;
            }
            /* All ties have the same weight: take the smallest sufficient number of them. */
            var one = vec2u(1u, 0u);
            if (count == 0u) { one = sample_weight(key, rule); }
            for (var bit = 1u << 19u; bit > 0u; bit /= 2u) {
                if (sample_less(sample_times(one, fewer + bit), found.rest)) { fewer += bit; }
            }
            if (!sample_less(sample_times(one, fewer + 1u), found.mass)) {
                kept = sample_kept(key, select(SAMPLE_NONE, kept.end, key == kept.key));
                continue;
            }
        } else {
            if (o.min_p > 0.0) {
                let least = sample_key(bitcast<u32>(best - sample_min_p_distance(o.min_p, o.zero)));
                if (least > kept.key) { kept = sample_kept(least, SAMPLE_NONE); }
            }
            rule.scale = scale;
        }
        let least = max(max(bound, kept.key), key);
        if (list.kind == SAMPLE_VOCABULARY) { list = sample_spans_above(row, scratch, least, thread); }
        token = sample_locate(list, kept, stage < 3u, key, vec2u(fewer, 0u), rule, thread);
        if (stage < 3u) { kept = sample_kept(key, token + 1u); }
    }
    return token;
}

/* Runs after sample_scan_span of all groups. */
fn sample_draw_token(row: u32, scratch: u32, thread: u32) {
    if (thread == 0u) {
        sample_asked = sample_options(sampling[0], sampling[1], bitcast<f32>(sampling[2]), bitcast<f32>(sampling[3]), sampling[5] >> 31u);
    }
    let o = workgroupUniformLoad(&sample_asked);
    var mine = vec2u(0u, SAMPLE_NONE);
    for (var g = thread; g < GROUPS; g += THREADS) { mine = sample_better(mine, vec2u(arena[scratch + g], arena[scratch + GROUPS + g])); }
    let best = sample_best(mine, thread);
    let drawable = best.x > 0u && best.x < SAMPLE_NONE;
    var token = select(0u, best.y, drawable);
    /* If the logits leave nothing to draw from, or the temperature is (nearly) 0, the result is the most probable token. */
    if (drawable && o.temperature > 0u && best.x >= sample_key(bitcast<u32>(-3e38f)) && best.x <= sample_key(bitcast<u32>(3e38f))) {
        let scale = sample_quotient(bitcast<u32>(SAMPLE_LOG2_E), o.temperature);
        if (scale <= bitcast<u32>(1e38f)) { token = sample_any(row, scratch, o, sample_float(best.x), bitcast<f32>(scale), thread); }
    }
    if (thread == 0u) { sample_put(token, drawable); }
}

/* Writes the token into the text and makes its step. */
fn sample_put(token: u32, drawable: bool) {
    let position = next[1] + next[0];
    if (position < arrayLength(&text)) { text[position] = token; }
    if (!drawable && sampling[6] == 0u) { sampling[6] = 1u + position; }
    next[0] = 1u;
    next[1] = position;
    next[2] = 1u;
}
