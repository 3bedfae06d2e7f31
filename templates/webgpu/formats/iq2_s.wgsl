/* iq2_s.wgsl -- packed and read as IQ2_XS. The grid of IQ2_XS is smaller in the file and has fewer signs. */
// include templates/webgpu/formats/iq2_xs.wgsl

const UNIT_COLS_iq2_s = UNIT_COLS_iq2_xs;
const PART_COLS_iq2_s = PART_COLS_iq2_xs;
const SCALE_COLS_iq2_s = SCALE_COLS_iq2_xs;
const ADDED_iq2_s = ADDED_iq2_xs;
fn row_pieces_iq2_s(units: u32) -> u32 { return row_pieces_iq2_xs(units); }

alias unit_iq2_s = unit_iq2_xs;

fn load_iq2_s_WEIGHTS(row: u32, unit: u32, units: u32) -> unit_iq2_s { return load_iq2_xs_WEIGHTS(row, unit, units); }
fn dot_iq2_s(u: unit_iq2_s, x: acts_unit, unit: u32) -> f32 { return dot_iq2_xs(u, x, unit); }
fn codes_iq2_s(u: unit_iq2_s, c: u32) -> vec4u { return codes_iq2_xs(u, c); }
fn factor_iq2_s(u: unit_iq2_s, unit: u32, c: u32) -> vec2f { return factor_iq2_xs(u, unit, c); }
fn values_iq2_s(u: unit_iq2_s, unit: u32, part: u32) -> array<vec4f, 4> { return values_iq2_xs(u, unit, part); }
