/* iq2_xs.wgsl -- magnitudes 8, 25, 43 in two bits, a sign in a third; per 256 columns half-float d, per 16 a nibble:
 * w = d / 8 (2 nibble + 1) value. */
// include templates/webgpu/unit.wgsl

const UNIT_COLS_iq2_xs = 64u;
const PART_COLS_iq2_xs = 16u;
const SCALE_COLS_iq2_xs = 16u;
const ADDED_iq2_xs = false;
fn row_pieces_iq2_xs(units: u32) -> u32 {
    return units + plane_pieces(8u * units) + plane_pieces(2u * units) + plane_pieces(units / 2u);
}

/* scales: 4 nibbles each of two units; d: f16 of two superblocks. */
struct unit_iq2_xs { pairs: vec4u, signs: vec2u, scales: u32, d: u32 }

fn load_iq2_xs_WEIGHTS(row: u32, unit: u32, units: u32) -> unit_iq2_xs {
    let signs = row + units;
    let scales = signs + plane_pieces(8u * units);
    return unit_iq2_xs(WEIGHTS[row + unit], words_WEIGHTS(signs, unit), word_WEIGHTS(scales, unit / 2u),
                       word_WEIGHTS(scales + plane_pieces(2u * units), unit / 8u));
}
fn d_iq2_xs(u: unit_iq2_xs, unit: u32) -> f32 { return half_f32(u.d >> (16u * (unit / 4u % 2u))); }
fn scale_iq2_xs(u: unit_iq2_xs, unit: u32, c: u32) -> f32 {
    return f32(2u * ((u.scales >> (16u * (unit % 2u) + 4u * c)) & 15u) + 1u);
}
fn codes_iq2_xs(u: unit_iq2_xs, c: u32) -> vec4u { return levels_iq2(u.pairs, u.signs, c); }
fn dot_iq2_xs(u: unit_iq2_xs, x: acts_unit, unit: u32) -> f32 {
    let sc = vec4f(scale_iq2_xs(u, unit, 0u), scale_iq2_xs(u, unit, 1u), scale_iq2_xs(u, unit, 2u), scale_iq2_xs(u, unit, 3u));
    let p = sc * vec4f(dot_piece(codes_iq2_xs(u, 0u), x.q0), dot_piece(codes_iq2_xs(u, 1u), x.q1),
                       dot_piece(codes_iq2_xs(u, 2u), x.q2), dot_piece(codes_iq2_xs(u, 3u), x.q3));
    return 0.125 * d_iq2_xs(u, unit) * dot_pieces(p, x);
}
fn factor_iq2_xs(u: unit_iq2_xs, unit: u32, c: u32) -> vec2f {
    return vec2f(0.125 * d_iq2_xs(u, unit) * scale_iq2_xs(u, unit, c), 0.0);
}
fn values_iq2_xs(u: unit_iq2_xs, unit: u32, part: u32) -> array<vec4f, 4> {
    return values_scaled(codes_iq2_xs(u, part), factor_iq2_xs(u, unit, part).x);
}
