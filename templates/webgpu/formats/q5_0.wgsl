/* q5_0.wgsl -- 5-bit signed codes, a half-float scale per 32 columns. */
// include templates/webgpu/unit.wgsl

const UNIT_COLS_q5_0 = 64u;
const PART_COLS_q5_0 = 16u;
const SCALE_COLS_q5_0 = 32u;
const ADDED_q5_0 = false;
fn row_pieces_q5_0(units: u32) -> u32 { return 2u * units + plane_pieces(8u * units) + plane_pieces(4u * units); }

/* Upper four bits of the two blocks; lowest bits; f16 d0, d1. */
struct unit_q5_0 { q0: vec4u, q1: vec4u, bits: vec2u, scales: u32 }

fn load_q5_0_WEIGHTS(row: u32, unit: u32, units: u32) -> unit_q5_0 {
    let bits = row + 2u * units;
    return unit_q5_0(WEIGHTS[row + unit], WEIGHTS[row + units + unit], words_WEIGHTS(bits, unit),
                     word_WEIGHTS(bits + plane_pieces(8u * units), unit));
}
/* Columns 16c .. as 8 (code - 16), signed. */
fn codes_q5_0(u: unit_q5_0, c: u32) -> vec4u { return nibbles_up(u.q0, u.q1, c) | single_bits(u.bits, c, 3u); }
fn dot_q5_0(u: unit_q5_0, x: acts_unit, unit: u32) -> f32 {
    let d = unpack2x16float(u.scales);
    let p0 = dot_block(codes_q5_0(u, 0u), codes_q5_0(u, 1u), x.q0, x.q1);
    let p1 = dot_block(codes_q5_0(u, 2u), codes_q5_0(u, 3u), x.q2, x.q3);
    return 0.125 * (p0 * (d.x * x.scale.x) + p1 * (d.y * x.scale.y));
}
fn factor_q5_0(u: unit_q5_0, unit: u32, c: u32) -> vec2f {
    return vec2f(0.125 * half_f32(u.scales >> (16u * (c / 2u))), 0.0);
}
fn values_q5_0(u: unit_q5_0, unit: u32, part: u32) -> array<vec4f, 4> {
    return values_scaled(codes_q5_0(u, part), factor_q5_0(u, unit, part).x);
}
