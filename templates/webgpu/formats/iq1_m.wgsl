/* iq1_m.wgsl -- -1, 0, 1 as 2-bit codes; per 256 columns half-float d; per 16 columns a byte: three bits of a scale and, for each 8
 * columns, a bit that adds 1/8: w = d / 8 (2 scale + 1) (8 code + 2 added - 9). */
// include templates/webgpu/unit.wgsl

const UNIT_COLS_iq1_m = 64u;
const PART_COLS_iq1_m = 16u;
const SCALE_COLS_iq1_m = 16u;
const ADDED_iq1_m = true;
fn row_pieces_iq1_m(units: u32) -> u32 { return units + plane_pieces(4u * units) + plane_pieces(units / 2u); }

struct unit_iq1_m { pairs: vec4u, small: u32, d: u32 }      /* codes; 4 bytes; f16 of two superblocks */

fn load_iq1_m_WEIGHTS(row: u32, unit: u32, units: u32) -> unit_iq1_m {
    let small = row + units;
    return unit_iq1_m(WEIGHTS[row + unit], word_WEIGHTS(small, unit), word_WEIGHTS(small + plane_pieces(4u * units), unit / 8u));
}
fn d_iq1_m(u: unit_iq1_m, unit: u32) -> f32 { return half_f32(u.d >> (16u * (unit / 4u % 2u))); }
fn scale_iq1_m(u: unit_iq1_m, c: u32) -> f32 { return f32(2u * ((u.small >> (8u * c)) & 7u) + 1u); }
/* Columns 16c .. in eighths, plus 9. */
fn codes_iq1_m(u: unit_iq1_m, c: u32) -> vec4u {
    let added = (vec2u(u.small) >> (vec2u(3u, 4u) + 8u * c)) & vec2u(1u);
    return bit_pairs(u.pairs, c, 3u) | (added.xxyy * 0x02020202u);
}
fn dot_iq1_m(u: unit_iq1_m, x: acts_unit, unit: u32) -> f32 {
    let sc = vec4f(scale_iq1_m(u, 0u), scale_iq1_m(u, 1u), scale_iq1_m(u, 2u), scale_iq1_m(u, 3u));
    let p = sc * vec4f(dot_piece(codes_iq1_m(u, 0u), x.q0), dot_piece(codes_iq1_m(u, 1u), x.q1),
                       dot_piece(codes_iq1_m(u, 2u), x.q2), dot_piece(codes_iq1_m(u, 3u), x.q3));
    return 0.125 * d_iq1_m(u, unit) * (dot_pieces(p, x) - 9.0 * dot(sc, x.sum16));
}
fn factor_iq1_m(u: unit_iq1_m, unit: u32, c: u32) -> vec2f {
    let scale = 0.125 * d_iq1_m(u, unit) * scale_iq1_m(u, c);
    return vec2f(scale, -9.0 * scale);
}
fn values_iq1_m(u: unit_iq1_m, unit: u32, part: u32) -> array<vec4f, 4> {
    let factor = factor_iq1_m(u, unit, part);
    return values_added(codes_iq1_m(u, part), factor.x, factor.y);
}
