/* iq3_s.wgsl -- odd values -15 .. 15 as 4-bit signed codes; per 256 columns half-float d, per 32 an odd scale: w = d scale (2 code + 1). */
// include templates/webgpu/unit.wgsl

const UNIT_COLS_iq3_s = 64u;
const PART_COLS_iq3_s = 16u;
const SCALE_COLS_iq3_s = 32u;
const ADDED_iq3_s = false;
fn row_pieces_iq3_s(units: u32) -> u32 { return 2u * units + plane_pieces(2u * units); }

struct unit_iq3_s { q0: vec4u, q1: vec4u, head: vec2u }     /* nibbles of the two blocks; d, upper scale bits (2 x 8), lower (4 x 8) */

fn load_iq3_s_WEIGHTS(row: u32, unit: u32, units: u32) -> unit_iq3_s {
    return unit_iq3_s(WEIGHTS[row + unit], WEIGHTS[row + units + unit], words_WEIGHTS(row + 2u * units, unit / 4u));
}
/* Columns 16c .. as 8 (2 code + 1), signed: half a step is the bit below the nibble. */
fn codes_iq3_s(u: unit_iq3_s, c: u32) -> vec4u { return nibbles_up(u.q0, u.q1, c) | vec4u(0x08080808u); }
fn dot_iq3_s(u: unit_iq3_s, x: acts_unit, unit: u32) -> f32 {
    let p0 = dot_block(codes_iq3_s(u, 0u), codes_iq3_s(u, 1u), x.q0, x.q1);
    let p1 = dot_block(codes_iq3_s(u, 2u), codes_iq3_s(u, 3u), x.q2, x.q3);
    return 0.125 * half_f32(u.head.x) *
           (p0 * (super_scale(u.head, unit, 0u) * x.scale.x) + p1 * (super_scale(u.head, unit, 1u) * x.scale.y));
}
fn factor_iq3_s(u: unit_iq3_s, unit: u32, c: u32) -> vec2f {
    return vec2f(0.125 * half_f32(u.head.x) * super_scale(u.head, unit, c / 2u), 0.0);
}
fn values_iq3_s(u: unit_iq3_s, unit: u32, part: u32) -> array<vec4f, 4> {
    return values_scaled(codes_iq3_s(u, part), factor_iq3_s(u, unit, part).x);
}
