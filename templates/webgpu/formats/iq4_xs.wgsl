/* iq4_xs.wgsl -- 4-bit codes of a table of signed bytes; per 256 columns half-float d, per 32 a six-bit scale: w = d (sc - 32) value. */
// include templates/webgpu/unit.wgsl

const UNIT_COLS_iq4_xs = 64u;
const PART_COLS_iq4_xs = 16u;
const SCALE_COLS_iq4_xs = 32u;
const ADDED_iq4_xs = false;
fn row_pieces_iq4_xs(units: u32) -> u32 { return 2u * units + plane_pieces(2u * units); }

struct unit_iq4_xs { q0: vec4u, q1: vec4u, head: vec2u }    /* nibbles of the two blocks; d, upper scale bits (2 x 8), lower (4 x 8) */

fn load_iq4_xs_WEIGHTS(row: u32, unit: u32, units: u32) -> unit_iq4_xs {
    return unit_iq4_xs(WEIGHTS[row + unit], WEIGHTS[row + units + unit], words_WEIGHTS(row + 2u * units, unit / 4u));
}
fn codes_iq4_xs(u: unit_iq4_xs, c: u32) -> vec4u { return levels_iq4(nibbles_ordered(u.q0, u.q1, c)); }
fn dot_iq4_xs(u: unit_iq4_xs, x: acts_unit, unit: u32) -> f32 {
    let p0 = dot_block(codes_iq4_xs(u, 0u), codes_iq4_xs(u, 1u), x.q0, x.q1);
    let p1 = dot_block(codes_iq4_xs(u, 2u), codes_iq4_xs(u, 3u), x.q2, x.q3);
    return half_f32(u.head.x) * (p0 * ((super_scale(u.head, unit, 0u) - 32.0) * x.scale.x) +
                                 p1 * ((super_scale(u.head, unit, 1u) - 32.0) * x.scale.y));
}
fn factor_iq4_xs(u: unit_iq4_xs, unit: u32, c: u32) -> vec2f {
    return vec2f(half_f32(u.head.x) * (super_scale(u.head, unit, c / 2u) - 32.0), 0.0);
}
fn values_iq4_xs(u: unit_iq4_xs, unit: u32, part: u32) -> array<vec4f, 4> {
    return values_scaled(codes_iq4_xs(u, part), factor_iq4_xs(u, unit, part).x);
}
