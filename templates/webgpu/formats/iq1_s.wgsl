/* iq1_s.wgsl -- -1, 0, 1 as 2-bit codes; per 256 columns half-float d; per 32 columns a scale of three bits, and a bit that adds 1/8:
 * w = d (2 scale + 1) (code - 1 +- 1/8). */
// include templates/webgpu/unit.wgsl

const UNIT_COLS_iq1_s = 64u;
const PART_COLS_iq1_s = 16u;
const SCALE_COLS_iq1_s = 32u;
const ADDED_iq1_s = true;
fn row_pieces_iq1_s(units: u32) -> u32 { return units + plane_pieces(2u * units); }

struct unit_iq1_s { pairs: vec4u, head: vec2u }             /* codes; x: f16 d, y: 8 nibbles */

fn load_iq1_s_WEIGHTS(row: u32, unit: u32, units: u32) -> unit_iq1_s {
    return unit_iq1_s(WEIGHTS[row + unit], words_WEIGHTS(row + units, unit / 4u));
}
/* The nibble of block b of the unit: three bits of scale and the bit for 1/8. */
fn small_iq1_s(u: unit_iq1_s, unit: u32, b: u32) -> u32 { return (u.head.y >> (8u * (unit % 4u) + 4u * b)) & 15u; }
fn scale_iq1_s(small: u32) -> f32 { return f32(2u * (small & 7u) + 1u); }
/* The number to subtract from a code, in eighths. */
fn less_iq1_s(small: u32) -> f32 { return select(9.0, 7.0, small >= 8u); }
fn codes_iq1_s(u: unit_iq1_s, c: u32) -> vec4u { return bit_pairs(u.pairs, c, 3u); }
fn dot_iq1_s(u: unit_iq1_s, x: acts_unit, unit: u32) -> f32 {
    let s0 = small_iq1_s(u, unit, 0u);
    let s1 = small_iq1_s(u, unit, 1u);
    let p0 = dot_block(codes_iq1_s(u, 0u), codes_iq1_s(u, 1u), x.q0, x.q1);
    let p1 = dot_block(codes_iq1_s(u, 2u), codes_iq1_s(u, 3u), x.q2, x.q3);
    return 0.125 * half_f32(u.head.x) * (scale_iq1_s(s0) * (p0 * x.scale.x - less_iq1_s(s0) * x.scale.z) +
                                         scale_iq1_s(s1) * (p1 * x.scale.y - less_iq1_s(s1) * x.scale.w));
}
fn factor_iq1_s(u: unit_iq1_s, unit: u32, c: u32) -> vec2f {
    let small = small_iq1_s(u, unit, c / 2u);
    let scale = 0.125 * half_f32(u.head.x) * scale_iq1_s(small);
    return vec2f(scale, -less_iq1_s(small) * scale);
}
fn values_iq1_s(u: unit_iq1_s, unit: u32, part: u32) -> array<vec4f, 4> {
    let factor = factor_iq1_s(u, unit, part);
    return values_added(codes_iq1_s(u, part), factor.x, factor.y);
}
