/* q1_0.wgsl -- bits for 1 and -1, a half-float scale per 128 columns. */
// include templates/webgpu/unit.wgsl

const UNIT_COLS_q1_0 = 64u;
const PART_COLS_q1_0 = 16u;
const SCALE_COLS_q1_0 = 32u;
const ADDED_q1_0 = true;
fn row_pieces_q1_0(units: u32) -> u32 { return plane_pieces(8u * units) + plane_pieces(units); }

struct unit_q1_0 { bits: vec2u, d: u32 }                    /* of the two blocks; f16 of four units */

fn load_q1_0_WEIGHTS(row: u32, unit: u32, units: u32) -> unit_q1_0 {
    return unit_q1_0(words_WEIGHTS(row, unit), word_WEIGHTS(row + plane_pieces(8u * units), unit / 4u));
}
fn d_q1_0(u: unit_q1_0, unit: u32) -> f32 { return half_f32(u.d >> (16u * (unit / 2u % 2u))); }
fn codes_q1_0(u: unit_q1_0, c: u32) -> vec4u { return single_bits(u.bits, c, 1u); }
/* The product of 2 bit - 1 with x; the sums of x are subtracted at the end. */
fn dot_q1_0(u: unit_q1_0, x: acts_unit, unit: u32) -> f32 {
    let p0 = dot_block(codes_q1_0(u, 0u), codes_q1_0(u, 1u), x.q0, x.q1);
    let p1 = dot_block(codes_q1_0(u, 2u), codes_q1_0(u, 3u), x.q2, x.q3);
    return d_q1_0(u, unit) * ((p0 * x.scale.x - x.scale.z) + (p1 * x.scale.y - x.scale.w));
}
fn factor_q1_0(u: unit_q1_0, unit: u32, c: u32) -> vec2f {
    let d = d_q1_0(u, unit);
    return vec2f(d, -d);
}
fn values_q1_0(u: unit_q1_0, unit: u32, part: u32) -> array<vec4f, 4> {
    let factor = factor_q1_0(u, unit, part);
    return values_added(codes_q1_0(u, part), factor.x, factor.y);
}
