/* q2_0.wgsl -- 2-bit codes, offset 1, a half-float scale per 64 columns. */
// include templates/webgpu/unit.wgsl

const UNIT_COLS_q2_0 = 64u;
const PART_COLS_q2_0 = 16u;
const SCALE_COLS_q2_0 = 32u;
const ADDED_q2_0 = false;
fn row_pieces_q2_0(units: u32) -> u32 { return units + plane_pieces(2u * units); }

struct unit_q2_0 { pairs: vec4u, d: u32 }                  /* codes; f16 of two units */

fn load_q2_0_WEIGHTS(row: u32, unit: u32, units: u32) -> unit_q2_0 {
    return unit_q2_0(WEIGHTS[row + unit], word_WEIGHTS(row + units, unit / 2u));
}
fn d_q2_0(u: unit_q2_0, unit: u32) -> f32 { return half_f32(u.d >> (16u * (unit % 2u))); }
/* Columns 16c .. as 64 (1 - code): with its lowest bit flipped a pair is 1 - code in two's complement. */
fn codes_q2_0(u: unit_q2_0, c: u32) -> vec4u { return bit_pairs(u.pairs, c, 6u); }
fn dot_q2_0(u: unit_q2_0, x: acts_unit, unit: u32) -> f32 {
    let p0 = dot_block(codes_q2_0(u, 0u), codes_q2_0(u, 1u), x.q0, x.q1);
    let p1 = dot_block(codes_q2_0(u, 2u), codes_q2_0(u, 3u), x.q2, x.q3);
    return -0.015625 * d_q2_0(u, unit) * (p0 * x.scale.x + p1 * x.scale.y);
}
fn factor_q2_0(u: unit_q2_0, unit: u32, c: u32) -> vec2f { return vec2f(-0.015625 * d_q2_0(u, unit), 0.0); }
fn values_q2_0(u: unit_q2_0, unit: u32, part: u32) -> array<vec4f, 4> {
    return values_scaled(codes_q2_0(u, part), factor_q2_0(u, unit, part).x);
}
