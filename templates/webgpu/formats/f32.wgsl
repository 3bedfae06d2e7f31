/* f32.wgsl -- float weights, 16-byte pieces of 4 columns. */
// include templates/webgpu/unit.wgsl

const UNIT_COLS_f32 = 4u;
const PART_COLS_f32 = 4u;
fn row_pieces_f32(units: u32) -> u32 { return 16u * units; }

struct unit_f32 { q: vec4u }

fn load_f32_WEIGHTS(row: u32, unit: u32, units: u32) -> unit_f32 { return unit_f32(WEIGHTS[row + unit]); }
fn dotf_f32(u: unit_f32, x: array<vec4f, 1>) -> f32 { return dot(bitcast<vec4f>(u.q), x[0]); }
fn values_f32(u: unit_f32, unit: u32, part: u32) -> array<vec4f, 1> { return array<vec4f, 1>(bitcast<vec4f>(u.q)); }
