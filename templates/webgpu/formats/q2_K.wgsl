/* q2_K.wgsl -- 2-bit codes; per 256 columns half-float d and dmin, per 16 columns a four-bit scale and minimum: w = d sc code - dmin m. */
// include templates/webgpu/unit.wgsl

const UNIT_COLS_q2_K = 64u;
const PART_COLS_q2_K = 16u;
const SCALE_COLS_q2_K = 16u;
const ADDED_q2_K = true;
fn row_pieces_q2_K(units: u32) -> u32 { return units + plane_pieces(4u * units) + plane_pieces(units); }

struct unit_q2_K { pairs: vec4u, scales: u32, d: u32 }      /* codes; 4 bytes: scale low, minimum high; f16 d, dmin */

fn load_q2_K_WEIGHTS(row: u32, unit: u32, units: u32) -> unit_q2_K {
    let scales = row + units;
    return unit_q2_K(WEIGHTS[row + unit], word_WEIGHTS(scales, unit), word_WEIGHTS(scales + plane_pieces(4u * units), unit / 4u));
}
fn codes_q2_K(u: unit_q2_K, c: u32) -> vec4u { return bit_pairs(u.pairs, c, 0u); }
fn dot_q2_K(u: unit_q2_K, x: acts_unit, unit: u32) -> f32 {
    let sc = vec4f(unpack4xU8(u.scales & 0x0f0f0f0fu));
    let m = vec4f(unpack4xU8((u.scales >> 4u) & 0x0f0f0f0fu));
    let p = sc * vec4f(dot_piece(codes_q2_K(u, 0u), x.q0), dot_piece(codes_q2_K(u, 1u), x.q1),
                       dot_piece(codes_q2_K(u, 2u), x.q2), dot_piece(codes_q2_K(u, 3u), x.q3));
    let d = unpack2x16float(u.d);
    return d.x * dot_pieces(p, x) - d.y * dot(m, x.sum16);
}
fn factor_q2_K(u: unit_q2_K, unit: u32, c: u32) -> vec2f {
    return unpack2x16float(u.d) * vec2f(byte_f32(u.scales & 0x0f0f0f0fu, c), -byte_f32((u.scales >> 4u) & 0x0f0f0f0fu, c));
}
fn values_q2_K(u: unit_q2_K, unit: u32, part: u32) -> array<vec4f, 4> {
    let factor = factor_q2_K(u, unit, part);
    return values_added(codes_q2_K(u, part), factor.x, factor.y);
}
