/* q8_0.wgsl -- int8 codes, a half-float scale per 32 columns. */
// include templates/webgpu/unit.wgsl

const UNIT_COLS_q8_0 = 64u;
const PART_COLS_q8_0 = 16u;
const SCALE_COLS_q8_0 = 32u;
const ADDED_q8_0 = false;
fn row_pieces_q8_0(units: u32) -> u32 { return 4u * units + plane_pieces(4u * units); }

/* Columns 0, 16, 32, 48 ..; f16 d0, d1. */
struct unit_q8_0 { q0: vec4u, q1: vec4u, q2: vec4u, q3: vec4u, scales: u32 }

fn load_q8_0_WEIGHTS(row: u32, unit: u32, units: u32) -> unit_q8_0 {
    let at = row + unit;
    return unit_q8_0(WEIGHTS[at], WEIGHTS[at + units], WEIGHTS[at + 2u * units], WEIGHTS[at + 3u * units],
                     word_WEIGHTS(row + 4u * units, unit));
}
fn codes_q8_0(u: unit_q8_0, c: u32) -> vec4u { return select(select(u.q0, u.q1, c == 1u), select(u.q2, u.q3, c == 3u), c >= 2u); }
fn dot_q8_0(u: unit_q8_0, x: acts_unit, unit: u32) -> f32 {
    let d = unpack2x16float(u.scales);
    return dot_block(u.q0, u.q1, x.q0, x.q1) * (d.x * x.scale.x) + dot_block(u.q2, u.q3, x.q2, x.q3) * (d.y * x.scale.y);
}
fn factor_q8_0(u: unit_q8_0, unit: u32, c: u32) -> vec2f { return vec2f(half_f32(u.scales >> (16u * (c / 2u))), 0.0); }
fn values_q8_0(u: unit_q8_0, unit: u32, part: u32) -> array<vec4f, 4> {
    return values_scaled(codes_q8_0(u, part), factor_q8_0(u, unit, part).x);
}
