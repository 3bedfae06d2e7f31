/* q6_K.wgsl -- 6-bit signed codes; per 256 columns half-float d, per 16 columns a signed byte scale: w = d sc (code - 32). */
// include templates/webgpu/unit.wgsl

const UNIT_COLS_q6_K = 64u;
const PART_COLS_q6_K = 16u;
const SCALE_COLS_q6_K = 16u;
const ADDED_q6_K = false;
fn row_pieces_q6_K(units: u32) -> u32 { return 3u * units + plane_pieces(4u * units) + plane_pieces(units / 2u); }

/* Upper four bits of the two blocks; lower two bits; 4 x int8; f16 of two superblocks. */
struct unit_q6_K { q0: vec4u, q1: vec4u, pairs: vec4u, scales: u32, d: u32 }

fn load_q6_K_WEIGHTS(row: u32, unit: u32, units: u32) -> unit_q6_K {
    let at = row + unit;
    let scales = row + 3u * units;
    return unit_q6_K(WEIGHTS[at], WEIGHTS[at + units], WEIGHTS[at + 2u * units], word_WEIGHTS(scales, unit),
                     word_WEIGHTS(scales + plane_pieces(4u * units), unit / 8u));
}
fn d_q6_K(u: unit_q6_K, unit: u32) -> f32 { return half_f32(u.d >> (16u * (unit / 4u % 2u))); }
/* Columns 16c .. as 4 (code - 32), signed. */
fn codes_q6_K(u: unit_q6_K, c: u32) -> vec4u { return nibbles_up(u.q0, u.q1, c) | bit_pairs(u.pairs, c, 2u); }
fn dot_q6_K(u: unit_q6_K, x: acts_unit, unit: u32) -> f32 {
    let p = vec4f(unpack4xI8(u.scales)) * vec4f(dot_piece(codes_q6_K(u, 0u), x.q0), dot_piece(codes_q6_K(u, 1u), x.q1),
                                                dot_piece(codes_q6_K(u, 2u), x.q2), dot_piece(codes_q6_K(u, 3u), x.q3));
    return 0.25 * d_q6_K(u, unit) * dot_pieces(p, x);
}
fn factor_q6_K(u: unit_q6_K, unit: u32, c: u32) -> vec2f {
    return vec2f(0.25 * d_q6_K(u, unit) * int8_f32(u.scales, c), 0.0);
}
fn values_q6_K(u: unit_q6_K, unit: u32, part: u32) -> array<vec4f, 4> {
    return values_scaled(codes_q6_K(u, part), factor_q6_K(u, unit, part).x);
}
