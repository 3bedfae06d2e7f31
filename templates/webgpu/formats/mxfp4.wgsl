/* mxfp4.wgsl -- 4-bit floats (E2M1) and a power-of-two scale byte (E8M0) per 32 columns: OCP Microscaling Formats 1.0. */
// include templates/webgpu/unit.wgsl

const UNIT_COLS_mxfp4 = 64u;
const PART_COLS_mxfp4 = 16u;
const SCALE_COLS_mxfp4 = 32u;
const ADDED_mxfp4 = false;
fn row_pieces_mxfp4(units: u32) -> u32 { return 2u * units + plane_pieces(2u * units); }

struct unit_mxfp4 { q0: vec4u, q1: vec4u, scales: u32 }     /* nibbles of the two blocks; E8M0 of each, with the neighbouring unit's */

fn load_mxfp4_WEIGHTS(row: u32, unit: u32, units: u32) -> unit_mxfp4 {
    return unit_mxfp4(WEIGHTS[row + unit], WEIGHTS[row + units + unit], word_WEIGHTS(row + 2u * units, unit / 2u));
}
/* 2^(e - 128) of block b: half the scale, because levels are doubled.  e = 0, 2^-127, counts as zero: a subnormal float. */
fn scale_mxfp4(u: unit_mxfp4, unit: u32, b: u32) -> f32 {
    return 0.5 * bitcast<f32>(((u.scales >> (16u * (unit % 2u) + 8u * b)) & 255u) << 23u);
}
fn codes_mxfp4(u: unit_mxfp4, c: u32) -> vec4u { return levels_e2m1(nibbles_ordered(u.q0, u.q1, c)); }
fn dot_mxfp4(u: unit_mxfp4, x: acts_unit, unit: u32) -> f32 {
    let p0 = dot_block(codes_mxfp4(u, 0u), codes_mxfp4(u, 1u), x.q0, x.q1);
    let p1 = dot_block(codes_mxfp4(u, 2u), codes_mxfp4(u, 3u), x.q2, x.q3);
    return p0 * (scale_mxfp4(u, unit, 0u) * x.scale.x) + p1 * (scale_mxfp4(u, unit, 1u) * x.scale.y);
}
fn factor_mxfp4(u: unit_mxfp4, unit: u32, c: u32) -> vec2f { return vec2f(scale_mxfp4(u, unit, c / 2u), 0.0); }
fn values_mxfp4(u: unit_mxfp4, unit: u32, part: u32) -> array<vec4f, 4> {
    return values_scaled(codes_mxfp4(u, part), factor_mxfp4(u, unit, part).x);
}
