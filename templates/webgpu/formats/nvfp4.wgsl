/* nvfp4.wgsl -- 4-bit floats (E2M1) and unsigned scale bytes (E4M3) per 16 columns. */
// include templates/webgpu/unit.wgsl

const UNIT_COLS_nvfp4 = 64u;
const PART_COLS_nvfp4 = 16u;
const SCALE_COLS_nvfp4 = 16u;
const ADDED_nvfp4 = false;
fn row_pieces_nvfp4(units: u32) -> u32 { return 2u * units + plane_pieces(4u * units); }

struct unit_nvfp4 { q0: vec4u, q1: vec4u, scales: u32 }     /* nibbles of the two blocks; E4M3 of each half of them */

fn load_nvfp4_WEIGHTS(row: u32, unit: u32, units: u32) -> unit_nvfp4 {
    return unit_nvfp4(WEIGHTS[row + unit], WEIGHTS[row + units + unit], word_WEIGHTS(row + 2u * units, unit));
}
/* Half the scale of columns 16c .., because levels are doubled: a half float's exponent is 8 more than E4M3's. */
fn scale_nvfp4(u: unit_nvfp4, c: u32) -> f32 { return 128.0 * half_f32(((u.scales >> (8u * c)) & 255u) << 7u); }
fn codes_nvfp4(u: unit_nvfp4, c: u32) -> vec4u { return levels_e2m1(nibbles_ordered(u.q0, u.q1, c)); }
fn dot_nvfp4(u: unit_nvfp4, x: acts_unit, unit: u32) -> f32 {
    let sc = vec4f(scale_nvfp4(u, 0u), scale_nvfp4(u, 1u), scale_nvfp4(u, 2u), scale_nvfp4(u, 3u));
    let p = sc * vec4f(dot_piece(codes_nvfp4(u, 0u), x.q0), dot_piece(codes_nvfp4(u, 1u), x.q1),
                       dot_piece(codes_nvfp4(u, 2u), x.q2), dot_piece(codes_nvfp4(u, 3u), x.q3));
    return dot_pieces(p, x);
}
fn factor_nvfp4(u: unit_nvfp4, unit: u32, c: u32) -> vec2f { return vec2f(scale_nvfp4(u, c), 0.0); }
fn values_nvfp4(u: unit_nvfp4, unit: u32, part: u32) -> array<vec4f, 4> {
    return values_scaled(codes_nvfp4(u, part), factor_nvfp4(u, unit, part).x);
}
