/* iq4_nl.wgsl -- 4-bit codes of a table of signed bytes, a half-float scale per 32 columns. */
// include templates/webgpu/unit.wgsl

const UNIT_COLS_iq4_nl = 64u;
const PART_COLS_iq4_nl = 16u;
const SCALE_COLS_iq4_nl = 32u;
const ADDED_iq4_nl = false;
fn row_pieces_iq4_nl(units: u32) -> u32 { return 2u * units + plane_pieces(4u * units); }

struct unit_iq4_nl { q0: vec4u, q1: vec4u, scales: u32 }    /* nibbles of the two blocks; f16 d0, d1 */

fn load_iq4_nl_WEIGHTS(row: u32, unit: u32, units: u32) -> unit_iq4_nl {
    return unit_iq4_nl(WEIGHTS[row + unit], WEIGHTS[row + units + unit], word_WEIGHTS(row + 2u * units, unit));
}
fn codes_iq4_nl(u: unit_iq4_nl, c: u32) -> vec4u { return levels_iq4(nibbles_ordered(u.q0, u.q1, c)); }
fn dot_iq4_nl(u: unit_iq4_nl, x: acts_unit, unit: u32) -> f32 {
    let d = unpack2x16float(u.scales);
    let p0 = dot_block(codes_iq4_nl(u, 0u), codes_iq4_nl(u, 1u), x.q0, x.q1);
    let p1 = dot_block(codes_iq4_nl(u, 2u), codes_iq4_nl(u, 3u), x.q2, x.q3);
    return p0 * (d.x * x.scale.x) + p1 * (d.y * x.scale.y);
}
fn factor_iq4_nl(u: unit_iq4_nl, unit: u32, c: u32) -> vec2f { return vec2f(half_f32(u.scales >> (16u * (c / 2u))), 0.0); }
fn values_iq4_nl(u: unit_iq4_nl, unit: u32, part: u32) -> array<vec4f, 4> {
    return values_scaled(codes_iq4_nl(u, part), factor_iq4_nl(u, unit, part).x);
}
