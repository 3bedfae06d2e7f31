/* q5_1.wgsl -- 5-bit codes; per 32 columns a half-float scale and minimum: w = d code + m. */
// include templates/webgpu/unit.wgsl

const UNIT_COLS_q5_1 = 64u;
const PART_COLS_q5_1 = 16u;
const SCALE_COLS_q5_1 = 32u;
const ADDED_q5_1 = true;
fn row_pieces_q5_1(units: u32) -> u32 { return 2u * units + 2u * plane_pieces(8u * units); }

/* Lower four bits of the two blocks; top bits; f16 d0, m0, d1, m1. */
struct unit_q5_1 { q0: vec4u, q1: vec4u, bits: vec2u, scales: vec2u }

fn load_q5_1_WEIGHTS(row: u32, unit: u32, units: u32) -> unit_q5_1 {
    let bits = row + 2u * units;
    return unit_q5_1(WEIGHTS[row + unit], WEIGHTS[row + units + unit], words_WEIGHTS(bits, unit),
                     words_WEIGHTS(bits + plane_pieces(8u * units), unit));
}
fn codes_q5_1(u: unit_q5_1, c: u32) -> vec4u { return nibbles(u.q0, u.q1, c) | single_bits(u.bits, c, 4u); }
fn dot_q5_1(u: unit_q5_1, x: acts_unit, unit: u32) -> f32 {
    let dm0 = unpack2x16float(u.scales.x);
    let dm1 = unpack2x16float(u.scales.y);
    let p0 = dot_block(codes_q5_1(u, 0u), codes_q5_1(u, 1u), x.q0, x.q1);
    let p1 = dot_block(codes_q5_1(u, 2u), codes_q5_1(u, 3u), x.q2, x.q3);
    return p0 * (dm0.x * x.scale.x) + p1 * (dm1.x * x.scale.y) + (dm0.y * x.scale.z + dm1.y * x.scale.w);
}
fn factor_q5_1(u: unit_q5_1, unit: u32, c: u32) -> vec2f { return unpack2x16float(select(u.scales.x, u.scales.y, c >= 2u)); }
fn values_q5_1(u: unit_q5_1, unit: u32, part: u32) -> array<vec4f, 4> {
    let factor = factor_q5_1(u, unit, part);
    return values_added(codes_q5_1(u, part), factor.x, factor.y);
}
