/* q3_K.wgsl -- 3-bit signed codes; per 256 columns half-float d, per 16 columns a six-bit scale: w = d (sc - 32) (code - 4). */
// include templates/webgpu/unit.wgsl

const UNIT_COLS_q3_K = 64u;
const PART_COLS_q3_K = 16u;
const SCALE_COLS_q3_K = 16u;
const ADDED_q3_K = false;
fn row_pieces_q3_K(units: u32) -> u32 { return units + plane_pieces(8u * units) + units / 4u; }

struct unit_q3_K { pairs: vec4u, head: vec4u, bits: vec2u } /* upper two bits; d, 0, 4 units x 24 bits; lowest bits */

fn load_q3_K_WEIGHTS(row: u32, unit: u32, units: u32) -> unit_q3_K {
    let bits = row + units;
    return unit_q3_K(WEIGHTS[row + unit], WEIGHTS[bits + plane_pieces(8u * units) + unit / 4u], words_WEIGHTS(bits, unit));
}
/* Columns 16c .. as 32 (code - 4), signed. */
fn codes_q3_K(u: unit_q3_K, c: u32) -> vec4u { return bit_pairs(u.pairs, c, 6u) | single_bits(u.bits, c, 5u); }
fn dot_q3_K(u: unit_q3_K, x: acts_unit, unit: u32) -> f32 {
    let bits = super_bits(u.head, unit);
    let sc = vec4f(six_bits_f32(bits, 0u), six_bits_f32(bits, 6u), six_bits_f32(bits, 12u), six_bits_f32(bits, 18u)) - 32.0;
    let p = sc * vec4f(dot_piece(codes_q3_K(u, 0u), x.q0), dot_piece(codes_q3_K(u, 1u), x.q1),
                       dot_piece(codes_q3_K(u, 2u), x.q2), dot_piece(codes_q3_K(u, 3u), x.q3));
    return 0.03125 * half_f32(u.head.x) * dot_pieces(p, x);
}
fn factor_q3_K(u: unit_q3_K, unit: u32, c: u32) -> vec2f {
    return vec2f(0.03125 * half_f32(u.head.x) * (six_bits_f32(super_bits(u.head, unit), 6u * c) - 32.0), 0.0);
}
fn values_q3_K(u: unit_q3_K, unit: u32, part: u32) -> array<vec4f, 4> {
    return values_scaled(codes_q3_K(u, part), factor_q3_K(u, unit, part).x);
}
