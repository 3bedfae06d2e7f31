/* iq2_xxs.wgsl -- magnitudes 8, 25, 43 in two bits, a sign in a third; per 256 columns half-float d, per 32 an odd scale:
 * w = d / 8 scale value. */
// include templates/webgpu/unit.wgsl

const UNIT_COLS_iq2_xxs = 64u;
const PART_COLS_iq2_xxs = 16u;
const SCALE_COLS_iq2_xxs = 32u;
const ADDED_iq2_xxs = false;
fn row_pieces_iq2_xxs(units: u32) -> u32 { return units + plane_pieces(8u * units) + plane_pieces(2u * units); }

struct unit_iq2_xxs { pairs: vec4u, signs: vec2u, head: vec2u }       /* head: d, upper scale bits (2 x 8), lower (4 x 8) */

fn load_iq2_xxs_WEIGHTS(row: u32, unit: u32, units: u32) -> unit_iq2_xxs {
    let signs = row + units;
    return unit_iq2_xxs(WEIGHTS[row + unit], words_WEIGHTS(signs, unit), words_WEIGHTS(signs + plane_pieces(8u * units), unit / 4u));
}
fn codes_iq2_xxs(u: unit_iq2_xxs, c: u32) -> vec4u { return levels_iq2(u.pairs, u.signs, c); }
fn dot_iq2_xxs(u: unit_iq2_xxs, x: acts_unit, unit: u32) -> f32 {
    let p0 = dot_block(codes_iq2_xxs(u, 0u), codes_iq2_xxs(u, 1u), x.q0, x.q1);
    let p1 = dot_block(codes_iq2_xxs(u, 2u), codes_iq2_xxs(u, 3u), x.q2, x.q3);
    return 0.125 * half_f32(u.head.x) *
           (p0 * (super_scale(u.head, unit, 0u) * x.scale.x) + p1 * (super_scale(u.head, unit, 1u) * x.scale.y));
}
fn factor_iq2_xxs(u: unit_iq2_xxs, unit: u32, c: u32) -> vec2f {
    return vec2f(0.125 * half_f32(u.head.x) * super_scale(u.head, unit, c / 2u), 0.0);
}
fn values_iq2_xxs(u: unit_iq2_xxs, unit: u32, part: u32) -> array<vec4f, 4> {
    return values_scaled(codes_iq2_xxs(u, part), factor_iq2_xxs(u, unit, part).x);
}
