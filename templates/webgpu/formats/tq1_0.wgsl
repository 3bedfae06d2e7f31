/* tq1_0.wgsl -- -1, 0, 1 as 2-bit codes, a half-float scale per 256 columns; packed wider than in the file. */
// include templates/webgpu/unit.wgsl

const UNIT_COLS_tq1_0 = 64u;
const PART_COLS_tq1_0 = 16u;
const SCALE_COLS_tq1_0 = 32u;
const ADDED_tq1_0 = false;
fn row_pieces_tq1_0(units: u32) -> u32 { return units + plane_pieces(units / 2u); }

struct unit_tq1_0 { pairs: vec4u, d: u32 }                 /* codes; f16 of two superblocks */

fn load_tq1_0_WEIGHTS(row: u32, unit: u32, units: u32) -> unit_tq1_0 {
    return unit_tq1_0(WEIGHTS[row + unit], word_WEIGHTS(row + units, unit / 8u));
}
fn d_tq1_0(u: unit_tq1_0, unit: u32) -> f32 { return half_f32(u.d >> (16u * (unit / 4u % 2u))); }
/* Columns 16c .. as 64 (1 - code): with its lowest bit flipped a pair is 1 - code in two's complement. */
fn codes_tq1_0(u: unit_tq1_0, c: u32) -> vec4u { return bit_pairs(u.pairs, c, 6u); }
fn dot_tq1_0(u: unit_tq1_0, x: acts_unit, unit: u32) -> f32 {
    let p0 = dot_block(codes_tq1_0(u, 0u), codes_tq1_0(u, 1u), x.q0, x.q1);
    let p1 = dot_block(codes_tq1_0(u, 2u), codes_tq1_0(u, 3u), x.q2, x.q3);
    return -0.015625 * d_tq1_0(u, unit) * (p0 * x.scale.x + p1 * x.scale.y);
}
fn factor_tq1_0(u: unit_tq1_0, unit: u32, c: u32) -> vec2f { return vec2f(-0.015625 * d_tq1_0(u, unit), 0.0); }
fn values_tq1_0(u: unit_tq1_0, unit: u32, part: u32) -> array<vec4f, 4> {
    return values_scaled(codes_tq1_0(u, part), factor_tq1_0(u, unit, part).x);
}
