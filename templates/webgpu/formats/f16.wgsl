/* f16.wgsl -- half-float weights, 16-byte pieces of 8 columns. */
// include templates/webgpu/unit.wgsl

const UNIT_COLS_f16 = 8u;
const PART_COLS_f16 = 8u;
fn row_pieces_f16(units: u32) -> u32 { return 8u * units; }

struct unit_f16 { q: vec4u }

fn load_f16_WEIGHTS(row: u32, unit: u32, units: u32) -> unit_f16 { return unit_f16(WEIGHTS[row + unit]); }
fn dotf_f16(u: unit_f16, x: array<vec4f, 2>) -> f32 {
    let w = values_f16(u, 0u, 0u);
    return dot(w[0], x[0]) + dot(w[1], x[1]);
}
fn values_f16(u: unit_f16, unit: u32, part: u32) -> array<vec4f, 2> {
    return array<vec4f, 2>(vec4f(unpack2x16float(u.q.x), unpack2x16float(u.q.y)),
                           vec4f(unpack2x16float(u.q.z), unpack2x16float(u.q.w)));
}
