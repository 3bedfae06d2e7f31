/* kv.wgsl -- the KV cache: where a value lies, how it is stored and how it is read.  The bytes are those of templates/gpu/kv.h.  An
 * instance replaces two parts of names: KV, the type, by f16, f32 (head_dim a multiple of 4) or q8_0 (of 32); STATE, how kernels that store
 * write, by `words` or `atomics`.  The module has
 *     var<storage, read_write> state: array<u32>;                 for loads, and for stores by words
 *     var<storage, read_write> state: array<atomic<u32>>;         for stores by atomics
 *     fn stored(i: u32) -> f32                                    for stores: value i of the data that the group has ready
 * Two scales of q8_0 share a word.  If head_dim is not a multiple of 64, they may belong to two invocations, also of neighbouring rows:
 * such heads are stored by atomics.  All others are stored by words.
 *
 * window, ring: constants of attention with a sliding window.  window: the number of positions that a token attends, its own included; 0:
 * all of them.  ring: rows of the cache, where position p lies in row p % ring; 0: a row for each of n_ctx positions.  A step stores all of
 * its tokens before the first one attends, so ring is at least window + tokens of a step - 1. */

/* K or V of a layer, [heads][rows][head_dim]; at: the word of state where it begins; rows: kv_rows(). */
struct kv_plane { at: u32, heads: u32, rows: u32, head_dim: u32 }

fn kv_rows(n_ctx: u32, ring: u32) -> u32 { return select(ring, n_ctx, ring == 0u); }
fn kv_row(position: u32, ring: u32) -> u32 {
    if (ring == 0u) { return position; }
    return position % ring;
}
/* The first position that a token at `position` attends. */
fn kv_window_begin(position: u32, window: u32) -> u32 {
    return select(0u, position + 1u - window, window != 0u && position >= window);
}
/* The value's number in a plane. */
fn kv_value(p: kv_plane, head: u32, row: u32, column: u32) -> u32 { return (head * p.rows + row) * p.head_dim + column; }

/* Words of a plane: if V follows K, it begins after this many words. */
fn kv_words_f16(heads: u32, rows: u32, head_dim: u32) -> u32 { return (heads * rows * head_dim + 7u) / 8u * 4u; }
fn kv_words_f32(heads: u32, rows: u32, head_dim: u32) -> u32 { return (heads * rows * head_dim + 3u) / 4u * 4u; }
fn kv_words_q8_0(heads: u32, rows: u32, head_dim: u32) -> u32 { return (heads * rows * (head_dim / 32u) * 34u + 15u) / 16u * 4u; }

/* ---- loading: columns column .. + 3, a multiple of 4 ---- */
fn kv_load_f16(p: kv_plane, head: u32, row: u32, column: u32) -> vec4f {
    let at = p.at + kv_value(p, head, row, column) / 2u;
    return vec4f(unpack2x16float(state[at]), unpack2x16float(state[at + 1u]));
}
fn kv_load_f32(p: kv_plane, head: u32, row: u32, column: u32) -> vec4f {
    let at = p.at + kv_value(p, head, row, column);
    return bitcast<vec4f>(vec4u(state[at], state[at + 1u], state[at + 2u], state[at + 3u]));
}
fn kv_load_q8_0(p: kv_plane, head: u32, row: u32, column: u32) -> vec4f {
    let value = kv_value(p, head, row, column);
    let scales = state[p.at + p.heads * p.rows * p.head_dim / 4u + value / 64u];
    let codes = vec4f(unpack4xI8(state[p.at + value / 4u]));
    return codes * unpack2x16float(scales >> (value / 32u % 2u * 16u)).x;
}

/* ---- storing ---- */
fn kv_put_words(at: u32, word: u32) { state[at] = word; }
fn kv_put_atomics(at: u32, word: u32) { atomicStore(&state[at], word); }
/* Stores one half of a word; the other half stays.  By words only if no other invocation stores the other half. */
fn kv_put_half_words(at: u32, second: u32, half_bits: u32) {
    state[at] = (state[at] & (0xffff0000u >> (16u * second))) | (half_bits << (16u * second));
}
fn kv_put_half_atomics(at: u32, second: u32, half_bits: u32) {
    atomicAnd(&state[at], 0xffff0000u >> (16u * second));
    atomicOr(&state[at], half_bits << (16u * second));
}

/* One invocation stores columns column .. + 3 of a row; the value of the first one is stored(source). */
fn kv_store_f16_STATE(p: kv_plane, head: u32, row: u32, column: u32, source: u32) {
    let at = p.at + kv_value(p, head, row, column) / 2u;
    let i = source + column;
    kv_put_STATE(at, pack2x16float(vec2f(stored(i), stored(i + 1u))));
    kv_put_STATE(at + 1u, pack2x16float(vec2f(stored(i + 2u), stored(i + 3u))));
}
fn kv_store_f32_STATE(p: kv_plane, head: u32, row: u32, column: u32, source: u32) {
    let at = p.at + kv_value(p, head, row, column);
    for (var i = 0u; i < 4u; i++) { kv_put_STATE(at + i, bitcast<u32>(stored(source + column + i))); }
}
/* The scale of the 32 columns from stored(i) on, as bits of f16: max|x| / 127. */
fn kv_scale_bits(i: u32) -> u32 {
    var top = 0.0;
    for (var c = 0u; c < 32u; c++) { top = max(top, abs(stored(i + c))); }
    return pack2x16float(vec2f(top * (1.0 / 127.0), 0.0));
}
/* Every fourth column computes its block's scale for itself; codes use the rounded scale.  The first column of a word of scales, or of one
 * half of it, stores that word or half. */
fn kv_store_q8_0_STATE(p: kv_plane, head: u32, row: u32, column: u32, source: u32) {
    let value = kv_value(p, head, row, column);
    let i = source + column;
    let bits = kv_scale_bits(i - column % 32u);
    let scale = unpack2x16float(bits).x;
    let inverse = select(0.0, 1.0 / scale, scale > 0.0);
    let x = clamp(vec4f(stored(i), stored(i + 1u), stored(i + 2u), stored(i + 3u)) * inverse, vec4f(-127.0), vec4f(127.0));
    kv_put_STATE(p.at + value / 4u, pack4xI8(vec4i(round(x))));
    let scales = p.at + p.heads * p.rows * p.head_dim / 4u + value / 64u;
    if (p.head_dim % 64u == 0u) {
        if (column % 64u == 0u) { kv_put_STATE(scales, bits | (kv_scale_bits(i + 32u) << 16u)); }
    } else if (column % 32u == 0u) { kv_put_half_STATE(scales, value / 32u % 2u, bits); }
}
