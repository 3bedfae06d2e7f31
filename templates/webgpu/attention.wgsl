/* attention.wgsl -- attention of one token over the cache, with an online softmax, and the common part of all kinds of attention.
 * (Milakov & Gimelshein 2018, arXiv:1805.02867; Dao et al. 2022, arXiv:2205.14135)
 *
 * A workgroup has up to HEADS query heads of one KV head, and one of `splits` parts of the positions.  Its teams of invocations take a few
 * positions at a time and read their keys and values once for all heads.  Teams keep their own maxima and sums, which are merged at the
 * end.  There is no barrier across workgroups: a second kernel, attention_merge, merges the sums of several splits, unless the context is
 * so short that one split has it alone.
 *
 * The module has
 *     var<storage, read_write> arena, state: array<u32>;
 *     var<storage, read> vectors: array<vec4u>;                   if there are norms, rotations or sinks
 *     const THREADS                                64, 128 or 256
 *     const HEAD_DIM, VALUE_DIM                    columns of K, at most ATTENTION_DIM_MOST of sizes.h, and of V, at most those of K;
 *                                                  multiples of 4
 *     const VALUES_IN_KEYS                         1: V is the first VALUE_DIM columns of K, and the plane of V is that of K; else 0
 *     const HEADS                                  at most 8; at most 4 with more than 128 columns of K
 *     const HEADS_EACH                             for attention_whole: a power of two
 *     const ATTENTION_ALONE                        positions that one split has alone
 * Words: KV and STATE (kv.wgsl).  Workgroup memory: attention_bytes() of choose.c; attention_merge needs none.
 * Functions are called by all invocations of a group, in uniform control flow. */
// include templates/webgpu/heads.wgsl

/* scale: of q . k; cap: of scores, 0: none; sinks: the piece of [n_head] scores without a value, or NO_VECTOR; window, ring: kv.wgsl.
 * All are constants except the place of the sinks. */
struct attention { n_head: u32, scale: f32, cap: f32, sinks: u32, window: u32, ring: u32 }

/* In place of minus infinity, which WGSL machines need not support: the maximum of no scores. */
const NO_SCORE = -1e30;
const LOG2E = 1.44269504;

/* cap tanh(s / cap); for small values by a series, where the other form loses all digits. */
fn scores_capped(s: vec4f, cap: f32) -> vec4f {
    if (cap == 0.0) { return s; }
    let x = s / cap;
    let square = x * x;
    let small = x * (1.0 - square * (0.333333333 - square * 0.133333333));
    let large = 1.0 - 2.0 / (1.0 + exp2(min(2.0 * LOG2E * x, vec4f(100.0))));
    return cap * select(large, small, square < vec4f(0.01));
}
fn score_capped(s: f32, cap: f32) -> f32 { return scores_capped(vec4f(s), cap).x; }

/* A team of neighbouring invocations takes one position at a time; each has QUADS runs of four of the columns of K, and VALUE_QUADS of V.
 * A longer team than 32 would exceed most subgroups, and every sum of scores would need barriers. */
const TEAM_COLS = clamp(HEAD_DIM / 8u, 1u, 32u);
const TEAM = 1u << firstLeadingBit(TEAM_COLS);
const TEAMS = THREADS / TEAM;
const QUADS = (HEAD_DIM / 4u + TEAM - 1u) / TEAM;
const VALUE_QUADS = (VALUE_DIM / 4u + TEAM - 1u) / TEAM;
const AHEAD = 2u;                                /* positions of a team that are loaded together; even */
const ATTENTION_BLOCK = TEAMS * AHEAD;           /* positions of the group's teams */
/* Neighbouring teams that can exchange data without memory merge first: a run of this many invocations.  There are TEAM_RUNS runs. */
const TEAM_RUN = max(TEAM, min(SUBGROUP, THREADS));
const TEAM_RUNS = THREADS / TEAM_RUN;
/* Heads are in packs of four, the parts of vectors: arrays with indices that a driver does not know do not stay in registers. */
const PACKS = (HEADS + 3u) / 4u;
const PADDED = 4u * PACKS;

var<workgroup> attention_q: array<vec4f, PADDED * HEAD_DIM / 4u>;
/* If teams are longer than a subgroup: the sums of each subgroup.  At the end: sums of V, [TEAM_RUNS][AT_ONCE][VALUE_DIM]. */
const ITEMS = max(8u * THREADS, TEAMS * VALUE_DIM);
var<workgroup> attention_items: array<f32, ITEMS>;
/* [PADDED][TEAM_RUNS] */
var<workgroup> attention_tops: array<f32, PADDED * TEAM_RUNS>;
var<workgroup> attention_totals: array<f32, PADDED * TEAM_RUNS>;
/* Heads whose sums of V are merged at once. */
const AT_ONCE = clamp(ITEMS / (TEAM_RUNS * VALUE_DIM), 1u, min(HEADS, 4u));

/* Cuts of HEADS query heads per KV head. */
fn attention_cuts(n_head: u32, n_head_kv: u32) -> u32 { return (n_head / n_head_kv + HEADS - 1u) / HEADS; }
/* Whether the first split has all positions that a token at `position` attends.  Then there is nothing to merge. */
fn attention_alone(position: u32, window: u32, splits: u32) -> bool {
    return splits == 1u || position + 1u - kv_window_begin(position, window) <= ATTENTION_ALONE;
}
/* The positions of a split: from x to before y. */
fn attention_range(position: u32, window: u32, split: u32, splits: u32) -> vec2u {
    let first = kv_window_begin(position, window);
    let end = position + 1u;
    if (attention_alone(position, window, splits)) { return select(vec2u(end), vec2u(first, end), split == 0u); }
    let blocks = (end - first + ATTENTION_BLOCK - 1u) / ATTENTION_BLOCK;
    let each = (blocks + splits - 1u) / splits * ATTENTION_BLOCK;
    return min(vec2u(first + split * each, first + (split + 1u) * each), vec2u(end));
}

/* Scores of a pack, summed over the team. */
fn pack_sum(x: vec4f) -> vec4f { return vec4f(run_sum(x.x, TEAM), run_sum(x.y, TEAM), run_sum(x.z, TEAM), run_sum(x.w, TEAM)); }
/* The scores of two positions, where a team is longer than a subgroup. */
fn pack_join(first: vec4f, second: vec4f, thread: u32) -> array<vec4f, 2> {
    let mine = 8u * (thread / SUBGROUP);
    if (thread % SUBGROUP == 0u) {
        for (var i = 0u; i < 4u; i++) {
            attention_items[mine + i] = first[i];
            attention_items[mine + 4u + i] = second[i];
        }
    }
    workgroupBarrier();
    var sums = array<vec4f, 2>(vec4f(0.0), vec4f(0.0));
    for (var part = thread / TEAM * TEAM; part < thread / TEAM * TEAM + TEAM; part += SUBGROUP) {
        let at = 8u * (part / SUBGROUP);
        sums[0] += vec4f(attention_items[at], attention_items[at + 1u], attention_items[at + 2u], attention_items[at + 3u]);
        sums[1] += vec4f(attention_items[at + 4u], attention_items[at + 5u], attention_items[at + 6u], attention_items[at + 7u]);
    }
    workgroupBarrier();
    return sums;
}

/* ---- the query ---- */
/* Loads heads first_head .. of a row that is normed and rotated; heads: how many of HEADS exist. */
fn attention_take(of_all: attention, q: u32, first_head: u32, heads: u32, thread: u32) {
    for (var i = thread; i < PADDED * HEAD_DIM / 4u; i += THREADS) {
        let h = first_head + min(4u * i / HEAD_DIM, heads - 1u);
        let at = q + h * HEAD_DIM + 4u * i % HEAD_DIM;
        attention_q[i] = of_all.scale * vec4f(arena_f32(at), arena_f32(at + 1u), arena_f32(at + 2u), arena_f32(at + 3u));
    }
    workgroupBarrier();
}
/* The rows of q, k and v as projected, and the parameters of the treatment of their heads (heads.wgsl). */
struct raw_heads { q: u32, k: u32, v: u32, q_norm: u32, k_norm: u32, eps: f32 }
/* The same from a raw row; own: also stores the token's own key and value, which only this group does. */
fn attention_turn_KV_STATE(of_all: attention, raw: raw_heads, r: rotation, k: kv_plane, v: kv_plane, position: u32, kv_head: u32,
                           first_head: u32, heads: u32, own: bool, thread: u32) {
    let lane = thread % HEAD_LANES;
    let to = thread / HEAD_LANES * HEAD_DIM;
    let normed = raw.q_norm != NO_VECTOR || raw.k_norm != NO_VECTOR;
    for (var turn = 0u; turn < (PADDED + 2u + HEADS_EACH - 1u) / HEADS_EACH; turn++) {
        let item = turn * HEADS_EACH + thread / HEAD_LANES;
        let is_k = own && item == PADDED;
        let is_v = own && item == PADDED + 1u;
        let at = kv_head * HEAD_DIM;
        let source = select(select(raw.q + (first_head + item) * HEAD_DIM, raw.k + at, is_k), raw.v + at, is_v);
        var turns = r;
        turns.n_rot = select(r.n_rot, 0u, is_v);
        let norm = select(select(raw.q_norm, raw.k_norm, is_k), NO_VECTOR, is_v);
        head_take(source, item < heads || is_k || is_v, norm, raw.eps, turns, position, normed, to, thread);
        for (var j = 0u; j < (HEAD_DIM / 4u + HEAD_LANES - 1u) / HEAD_LANES; j++) {
            let c = 4u * (j * HEAD_LANES + lane);
            if (c >= HEAD_DIM) { break; }
            let x = vec4f(head_values[to + c], head_values[to + c + 1u], head_values[to + c + 2u], head_values[to + c + 3u]);
            if (item < PADDED) { attention_q[(item * HEAD_DIM + c) / 4u] = select(vec4f(0.0), of_all.scale * x, item < heads); }
            if (is_k) { kv_store_KV_STATE(k, kv_head, kv_row(position, of_all.ring), c, to); }
            if (is_v) { kv_store_KV_STATE(v, kv_head, kv_row(position, of_all.ring), c, to); }
        }
        workgroupBarrier();
    }
    storageBarrier();
}

/* ---- the sums ---- */
/* An invocation's state for four heads: the largest score of its team, times log2(e), the sum of the weights, and its columns of V. */
struct head_pack { tops: vec4f, totals: vec4f, v: array<mat4x4f, VALUE_QUADS> }

fn pack_scaled(m: mat4x4f, by: vec4f) -> mat4x4f { return mat4x4f(m[0] * by.x, m[1] * by.y, m[2] * by.z, m[3] * by.w); }
fn pack_outer(x: vec4f, weights: vec4f) -> mat4x4f {
    return mat4x4f(weights.x * x, weights.y * x, weights.z * x, weights.w * x);
}
fn pack_head(m: mat4x4f, i: u32) -> vec4f { return select(select(m[0], m[1], i == 1u), select(m[2], m[3], i == 3u), i > 1u); }
fn pack_dot(pack: u32, quad: u32, x: vec4f) -> vec4f {
    let at = 4u * pack * (HEAD_DIM / 4u) + quad;
    return vec4f(dot(attention_q[at], x), dot(attention_q[at + HEAD_DIM / 4u], x), dot(attention_q[at + 2u * (HEAD_DIM / 4u)], x),
                 dot(attention_q[at + 3u * (HEAD_DIM / 4u)], x));
}

/* Over the teams of a run. */
fn teams_sum(x: vec4f) -> vec4f {
    var sum = x;
    for (var bit = 0u; bit < 5u; bit++) {
        let apart = 1u << bit;
        if (apart >= TEAM && apart < TEAM_RUN) {
            sum += vec4f(across(sum.x, apart), across(sum.y, apart), across(sum.z, apart), across(sum.w, apart));
        }
    }
    return sum;
}
fn teams_max(x: vec4f) -> vec4f {
    var top = x;
    for (var bit = 0u; bit < 5u; bit++) {
        let apart = 1u << bit;
        if (apart >= TEAM && apart < TEAM_RUN) {
            top = max(top, vec4f(across(top.x, apart), across(top.y, apart), across(top.z, apart), across(top.w, apart)));
        }
    }
    return top;
}

/* Scores of a pack for the positions of a block before `end`, else NO_SCORE; keys: of the invocation. */
fn pack_scores(keys: ptr<function, array<vec4f, AHEAD * QUADS>>, pack: u32, cap: f32, mine: u32, end: u32, thread: u32)
        -> array<vec4f, AHEAD> {
    var scores: array<vec4f, AHEAD>;
    for (var a = 0u; a < AHEAD; a++) { scores[a] = vec4f(0.0); }
    for (var j = 0u; j < QUADS; j++) {
        let quad = thread % TEAM + j * TEAM;
        if (quad < HEAD_DIM / 4u) {
            for (var a = 0u; a < AHEAD; a++) { scores[a] += pack_dot(pack, quad, (*keys)[a * QUADS + j]); }
        }
    }
    for (var a = 0u; a < AHEAD; a++) { scores[a] = pack_sum(scores[a]); }
    if (TEAM > SUBGROUP) {
        for (var a = 0u; a < AHEAD; a += 2u) {
            let joined = pack_join(scores[a], scores[a + 1u], thread);
            scores[a] = joined[0];
            scores[a + 1u] = joined[1];
        }
    }
    for (var a = 0u; a < AHEAD; a++) {
        scores[a] = select(vec4f(NO_SCORE), scores_capped(scores[a], cap) * LOG2E, mine + a * TEAMS < end);
    }
    return scores;
}
fn attention_block_KV(packs: ptr<function, array<head_pack, PACKS>>, cap: f32, ring: u32, k: kv_plane, v: kv_plane, kv_head: u32,
                      block: u32, end: u32, thread: u32) {
    let mine = block + thread / TEAM;
    var keys: array<vec4f, AHEAD * QUADS>;
    var values: array<vec4f, AHEAD * VALUE_QUADS>;
    for (var a = 0u; a < AHEAD; a++) {
        let row = kv_row(min(mine + a * TEAMS, end - 1u), ring);
        for (var j = 0u; j < QUADS; j++) {
            keys[a * QUADS + j] = kv_load_KV(k, kv_head, row, 4u * min(thread % TEAM + j * TEAM, HEAD_DIM / 4u - 1u));
        }
        for (var j = 0u; j < VALUE_QUADS; j++) {
            if (VALUES_IN_KEYS == 1u) { values[a * VALUE_QUADS + j] = keys[a * QUADS + j]; }
            else { values[a * VALUE_QUADS + j] = kv_load_KV(v, kv_head, row, 4u * min(thread % TEAM + j * TEAM, VALUE_DIM / 4u - 1u)); }
        }
    }
    for (var p = 0u; p < PACKS; p++) {
        var scores = pack_scores(&keys, p, cap, mine, end, thread);
        var top = (*packs)[p].tops;
        for (var a = 0u; a < AHEAD; a++) { top = max(top, scores[a]); }
        let factor = exp2((*packs)[p].tops - top);
        var total = (*packs)[p].totals * factor;
        for (var a = 0u; a < AHEAD; a++) {
            scores[a] = select(vec4f(0.0), exp2(scores[a] - top), mine + a * TEAMS < end);
            total += scores[a];
        }
        for (var j = 0u; j < VALUE_QUADS; j++) {
            var sum = pack_scaled((*packs)[p].v[j], factor);
            for (var a = 0u; a < AHEAD; a++) { sum += pack_outer(values[a * VALUE_QUADS + j], scores[a]); }
            (*packs)[p].v[j] = sum;
        }
        (*packs)[p].tops = top;
        (*packs)[p].totals = total;
    }
}

/* One token.  attention_q has its query; its positions, from range.x to before range.y, are in the cache.  out: the word of the arena where
 * its row [n_head][VALUE_DIM] begins.  cut: of the query heads of kv_head, of attention_cuts(); split: of the positions.  parts, ml: words
 * of the arena for [n_head_kv][cuts][splits][HEADS] rows of VALUE_DIM sums, and for as many pairs of maximum (of scores times log2(e)) and
 * total; not used if alone, attention_alone(). */
fn attention_sum_KV(of_all: attention, k: kv_plane, v: kv_plane, out: u32, parts: u32, ml: u32, range: vec2u, kv_head: u32, cut: u32,
                    split: u32, splits: u32, alone: bool, thread: u32) {
    var packs: array<head_pack, PACKS>;
    for (var p = 0u; p < PACKS; p++) {
        packs[p].tops = vec4f(NO_SCORE);
        packs[p].totals = vec4f(0.0);
        for (var j = 0u; j < VALUE_QUADS; j++) { packs[p].v[j] = pack_outer(vec4f(0.0), vec4f(0.0)); }
    }
    for (var block = range.x; block < range.y; block += ATTENTION_BLOCK) {
        attention_block_KV(&packs, of_all.cap, of_all.ring, k, v, kv_head, block, range.y, thread);
    }

    let lane = thread % TEAM;
    let part = thread / TEAM_RUN;
    for (var p = 0u; p < PACKS; p++) {
        let top = teams_max(packs[p].tops);
        let factor = exp2(packs[p].tops - top);
        let total = teams_sum(factor * packs[p].totals);
        for (var j = 0u; j < VALUE_QUADS; j++) {
            let m = pack_scaled(packs[p].v[j], factor);
            packs[p].v[j] = mat4x4f(teams_sum(m[0]), teams_sum(m[1]), teams_sum(m[2]), teams_sum(m[3]));
        }
        for (var i = 0u; i < 4u && thread % TEAM_RUN == 0u; i++) {
            attention_tops[(4u * p + i) * TEAM_RUNS + part] = top[i];
            attention_totals[(4u * p + i) * TEAM_RUNS + part] = total[i];
        }
    }
    let group = of_all.n_head / k.heads;
    let heads = min(HEADS, group - cut * HEADS);
    let first_head = kv_head * group + cut * HEADS;
    let out_part = ((kv_head * attention_cuts(of_all.n_head, k.heads) + cut) * splits + split) * HEADS;
    for (var turn = 0u; turn < (HEADS + AT_ONCE - 1u) / AT_ONCE; turn++) {
        for (var i = 0u; i < AT_ONCE; i++) {
            let h = turn * AT_ONCE + i;
            for (var j = 0u; j < VALUE_QUADS; j++) {
                var sum = vec4f(0.0);
                for (var p = 0u; p < PACKS; p++) { sum = select(sum, pack_head(packs[p].v[j], h % 4u), p == h / 4u); }
                let at = (part * AT_ONCE + i) * VALUE_DIM + 4u * (lane + j * TEAM);
                if (thread % TEAM_RUN < TEAM && lane + j * TEAM < VALUE_DIM / 4u) {
                    attention_items[at] = sum.x;
                    attention_items[at + 1u] = sum.y;
                    attention_items[at + 2u] = sum.z;
                    attention_items[at + 3u] = sum.w;
                }
            }
        }
        workgroupBarrier();
        for (var n = 0u; n < (AT_ONCE * VALUE_DIM + THREADS - 1u) / THREADS; n++) {
            let i = n * THREADS + thread;
            let h = turn * AT_ONCE + i / VALUE_DIM;
            if (i < AT_ONCE * VALUE_DIM && h < heads) { attention_leave(of_all, out, parts, ml, out_part, first_head, h, i, split, alone); }
        }
        workgroupBarrier();
    }
}
/* Item i of the heads that are merged at once, a column of head h of the group: adds the parts' sums and stores the result. */
fn attention_leave(of_all: attention, out: u32, parts: u32, ml: u32, part: u32, first_head: u32, h: u32, i: u32, split: u32, alone: bool) {
    let c = i % VALUE_DIM;
    var most = NO_SCORE;
    var sum = 0.0;
    var total = 0.0;
    for (var n = 0u; n < TEAM_RUNS; n++) { most = max(most, attention_tops[h * TEAM_RUNS + n]); }
    for (var n = 0u; n < TEAM_RUNS; n++) {
        let factor = exp2(attention_tops[h * TEAM_RUNS + n] - most);
        sum += factor * attention_items[n * AT_ONCE * VALUE_DIM + i];
        total += factor * attention_totals[h * TEAM_RUNS + n];
    }
    var top = most;
    if (of_all.sinks != NO_VECTOR && split == 0u) {            /* every head's sink once; it adds only its weight */
        let sink = vector_f32(of_all.sinks, first_head + h) * LOG2E;
        top = max(most, sink);
        sum *= exp2(most - top);
        total = total * exp2(most - top) + exp2(sink - top);
    }
    if (alone) {
        arena[out + (first_head + h) * VALUE_DIM + c] = bitcast<u32>(sum / total);
        return;
    }
    arena[parts + (part + h) * VALUE_DIM + c] = bitcast<u32>(sum);
    if (c == 0u) {
        arena[ml + 2u * (part + h)] = bitcast<u32>(top);
        arena[ml + 2u * (part + h) + 1u] = bitcast<u32>(total);
    }
}
/* A split without positions. */
fn attention_nothing(of_all: attention, k: kv_plane, ml: u32, kv_head: u32, cut: u32, split: u32, splits: u32, alone: bool, thread: u32) {
    let part = ((kv_head * attention_cuts(of_all.n_head, k.heads) + cut) * splits + split) * HEADS;
    if (!alone && thread < HEADS) {
        arena[ml + 2u * (part + thread)] = bitcast<u32>(NO_SCORE);
        arena[ml + 2u * (part + thread) + 1u] = 0u;
    }
}

/* ---- one token ---- */
/* q: the word where its row begins, [n_head][HEAD_DIM], normed and rotated; its own key and value must be stored already. */
fn attention_decode_KV(of_all: attention, q: u32, k: kv_plane, v: kv_plane, out: u32, parts: u32, ml: u32, position: u32, kv_head: u32,
                       cut: u32, split: u32, splits: u32, thread: u32) {
    let alone = attention_alone(position, of_all.window, splits);
    let range = attention_range(position, of_all.window, split, splits);
    if (range.x >= range.y) {
        attention_nothing(of_all, k, ml, kv_head, cut, split, splits, alone, thread);
        return;
    }
    let group = of_all.n_head / k.heads;
    attention_take(of_all, q, kv_head * group + cut * HEADS, min(HEADS, group - cut * HEADS), thread);
    attention_sum_KV(of_all, k, v, out, parts, ml, range, kv_head, cut, split, splits, alone, thread);
}
/* The same from raw rows, for one cut: the group with the token's own position stores its key and value. */
fn attention_whole_KV_STATE(of_all: attention, raw: raw_heads, r: rotation, k: kv_plane, v: kv_plane, out: u32, parts: u32, ml: u32,
                            position: u32, kv_head: u32, split: u32, splits: u32, thread: u32) {
    let alone = attention_alone(position, of_all.window, splits);
    let range = attention_range(position, of_all.window, split, splits);
    if (range.x >= range.y) {
        attention_nothing(of_all, k, ml, kv_head, 0u, split, splits, alone, thread);
        return;
    }
    let group = of_all.n_head / k.heads;
    attention_turn_KV_STATE(of_all, raw, r, k, v, position, kv_head, kv_head * group, group, range.y == position + 1u, thread);
    attention_sum_KV(of_all, k, v, out, parts, ml, range, kv_head, 0u, split, splits, alone, thread);
}

/* Merges the parts of the splits for one query head: one workgroup per head, or per part of its columns.  out: the token's row. */
fn attention_merge(out: u32, parts: u32, ml: u32, n_head: u32, n_head_kv: u32, splits: u32, head: u32, thread: u32) {
    let group = n_head / n_head_kv;
    let cut = head / group * attention_cuts(n_head, n_head_kv) + head % group / HEADS;
    let first = cut * splits * HEADS + head % group % HEADS;
    var top = NO_SCORE;
    for (var s = 0u; s < splits; s++) { top = max(top, arena_f32(ml + 2u * (first + s * HEADS))); }
    for (var c = thread; c < VALUE_DIM; c += THREADS) {
        var sum = 0.0;
        var total = 0.0;
        for (var s = 0u; s < splits; s++) {
            let row = first + s * HEADS;
            let some = arena_f32(ml + 2u * row + 1u);
            if (some > 0.0) {
                let factor = exp2(arena_f32(ml + 2u * row) - top);
                total += factor * some;
                sum += factor * arena_f32(parts + row * VALUE_DIM + c);
            }
        }
        arena[out + head * VALUE_DIM + c] = bitcast<u32>(sum / total);
    }
}
