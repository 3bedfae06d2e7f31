/* iq3_xxs.wgsl -- 4-bit codes of magnitudes with signs; per 256 columns half-float d, per 32 an odd scale: w = d / 2 scale value. */
// include templates/webgpu/unit.wgsl

const UNIT_COLS_iq3_xxs = 64u;
const PART_COLS_iq3_xxs = 16u;
const SCALE_COLS_iq3_xxs = 32u;
const ADDED_iq3_xxs = false;
fn row_pieces_iq3_xxs(units: u32) -> u32 { return 2u * units + plane_pieces(2u * units); }

struct unit_iq3_xxs { q0: vec4u, q1: vec4u, head: vec2u }   /* nibbles of the two blocks; d, upper scale bits (2 x 8), lower (4 x 8) */

fn load_iq3_xxs_WEIGHTS(row: u32, unit: u32, units: u32) -> unit_iq3_xxs {
    return unit_iq3_xxs(WEIGHTS[row + unit], WEIGHTS[row + units + unit], words_WEIGHTS(row + 2u * units, unit / 4u));
}
fn codes_iq3_xxs(u: unit_iq3_xxs, c: u32) -> vec4u { return levels_iq3_xxs(nibbles_ordered(u.q0, u.q1, c)); }
fn dot_iq3_xxs(u: unit_iq3_xxs, x: acts_unit, unit: u32) -> f32 {
    let p0 = dot_block(codes_iq3_xxs(u, 0u), codes_iq3_xxs(u, 1u), x.q0, x.q1);
    let p1 = dot_block(codes_iq3_xxs(u, 2u), codes_iq3_xxs(u, 3u), x.q2, x.q3);
    return 0.5 * half_f32(u.head.x) *
           (p0 * (super_scale(u.head, unit, 0u) * x.scale.x) + p1 * (super_scale(u.head, unit, 1u) * x.scale.y));
}
fn factor_iq3_xxs(u: unit_iq3_xxs, unit: u32, c: u32) -> vec2f {
    return vec2f(0.5 * half_f32(u.head.x) * super_scale(u.head, unit, c / 2u), 0.0);
}
fn values_iq3_xxs(u: unit_iq3_xxs, unit: u32, part: u32) -> array<vec4f, 4> {
    return values_scaled(codes_iq3_xxs(u, part), factor_iq3_xxs(u, unit, part).x);
}
