/* bf16.wgsl -- bfloat16 weights, 16-byte pieces of 8 columns: upper halves of floats. */
// include templates/webgpu/unit.wgsl

const UNIT_COLS_bf16 = 8u;
const PART_COLS_bf16 = 8u;
fn row_pieces_bf16(units: u32) -> u32 { return 8u * units; }

struct unit_bf16 { q: vec4u }

fn load_bf16_WEIGHTS(row: u32, unit: u32, units: u32) -> unit_bf16 { return unit_bf16(WEIGHTS[row + unit]); }
fn dotf_bf16(u: unit_bf16, x: array<vec4f, 2>) -> f32 {
    let w = values_bf16(u, 0u, 0u);
    return dot(w[0], x[0]) + dot(w[1], x[1]);
}
fn values_bf16(u: unit_bf16, unit: u32, part: u32) -> array<vec4f, 2> {
    let even = bitcast<vec4f>(u.q << vec4u(16u));
    let odd = bitcast<vec4f>(u.q & vec4u(0xffff0000u));
    return array<vec4f, 2>(vec4f(even.x, odd.x, even.y, odd.y), vec4f(even.z, odd.z, even.w, odd.w));
}
