/* q5_K.wgsl -- 5-bit codes; per 256 columns half-float d and dmin, per 32 columns a six-bit scale and minimum: w = d sc code - dmin m. */
// include templates/webgpu/unit.wgsl

const UNIT_COLS_q5_K = 64u;
const PART_COLS_q5_K = 16u;
const SCALE_COLS_q5_K = 32u;
const ADDED_q5_K = true;
fn row_pieces_q5_K(units: u32) -> u32 { return 2u * units + plane_pieces(8u * units) + units / 4u; }

/* Lower four bits of the two blocks; d, dmin, 4 units x 24 bits; top bits. */
struct unit_q5_K { q0: vec4u, q1: vec4u, head: vec4u, bits: vec2u }

fn load_q5_K_WEIGHTS(row: u32, unit: u32, units: u32) -> unit_q5_K {
    let bits = row + 2u * units;
    return unit_q5_K(WEIGHTS[row + unit], WEIGHTS[row + units + unit], WEIGHTS[bits + plane_pieces(8u * units) + unit / 4u],
                     words_WEIGHTS(bits, unit));
}
fn codes_q5_K(u: unit_q5_K, c: u32) -> vec4u { return nibbles(u.q0, u.q1, c) | single_bits(u.bits, c, 4u); }
fn dot_q5_K(u: unit_q5_K, x: acts_unit, unit: u32) -> f32 {
    let bits = super_bits(u.head, unit);
    let d = unpack2x16float(u.head.x);
    let p0 = dot_block(codes_q5_K(u, 0u), codes_q5_K(u, 1u), x.q0, x.q1);
    let p1 = dot_block(codes_q5_K(u, 2u), codes_q5_K(u, 3u), x.q2, x.q3);
    let product = p0 * (six_bits_f32(bits, 0u) * x.scale.x) + p1 * (six_bits_f32(bits, 12u) * x.scale.y);
    let minimum = six_bits_f32(bits, 6u) * x.scale.z + six_bits_f32(bits, 18u) * x.scale.w;
    return d.x * product - d.y * minimum;
}
fn factor_q5_K(u: unit_q5_K, unit: u32, c: u32) -> vec2f {
    let bits = super_bits(u.head, unit) >> (12u * (c / 2u));
    return unpack2x16float(u.head.x) * vec2f(six_bits_f32(bits, 0u), -six_bits_f32(bits, 6u));
}
fn values_q5_K(u: unit_q5_K, unit: u32, part: u32) -> array<vec4f, 4> {
    let factor = factor_q5_K(u, unit, part);
    return values_added(codes_q5_K(u, part), factor.x, factor.y);
}
