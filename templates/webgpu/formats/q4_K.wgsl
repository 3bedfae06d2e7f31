/* q4_K.wgsl -- 4-bit codes; per 256 columns half-float d and dmin, per 32 columns a six-bit scale and minimum: w = d sc code - dmin m. */
// include templates/webgpu/unit.wgsl

const UNIT_COLS_q4_K = 64u;
const PART_COLS_q4_K = 16u;
const SCALE_COLS_q4_K = 32u;
const ADDED_q4_K = true;
fn row_pieces_q4_K(units: u32) -> u32 { return 2u * units + units / 4u; }

struct unit_q4_K { q0: vec4u, q1: vec4u, head: vec4u }      /* nibbles of the two blocks; d, dmin, 4 units x 24 bits */

fn load_q4_K_WEIGHTS(row: u32, unit: u32, units: u32) -> unit_q4_K {
    return unit_q4_K(WEIGHTS[row + unit], WEIGHTS[row + units + unit], WEIGHTS[row + 2u * units + unit / 4u]);
}
fn codes_q4_K(u: unit_q4_K, c: u32) -> vec4u { return nibbles(u.q0, u.q1, c); }
fn dot_q4_K(u: unit_q4_K, x: acts_unit, unit: u32) -> f32 {
    let bits = super_bits(u.head, unit);
    let d = unpack2x16float(u.head.x);
    let p0 = dot_block(codes_q4_K(u, 0u), codes_q4_K(u, 1u), x.q0, x.q1);
    let p1 = dot_block(codes_q4_K(u, 2u), codes_q4_K(u, 3u), x.q2, x.q3);
    let product = p0 * (six_bits_f32(bits, 0u) * x.scale.x) + p1 * (six_bits_f32(bits, 12u) * x.scale.y);
    let minimum = six_bits_f32(bits, 6u) * x.scale.z + six_bits_f32(bits, 18u) * x.scale.w;
    return d.x * product - d.y * minimum;
}
fn factor_q4_K(u: unit_q4_K, unit: u32, c: u32) -> vec2f {
    let bits = super_bits(u.head, unit) >> (12u * (c / 2u));
    return unpack2x16float(u.head.x) * vec2f(six_bits_f32(bits, 0u), -six_bits_f32(bits, 6u));
}
fn values_q4_K(u: unit_q4_K, unit: u32, part: u32) -> array<vec4f, 4> {
    let factor = factor_q4_K(u, unit, part);
    return values_added(codes_q4_K(u, part), factor.x, factor.y);
}
