/* formats.wgsl -- the kernels that run.mjs runs for a format: an invocation for each unit of each row.  Its results: formats.c. */

@group(0) @binding(0) var<storage, read> WEIGHTS: array<vec4u>;
/* The piece where a matrix begins, the row, the unit, units of 64 columns of a row. */
@group(0) @binding(1) var<storage, read> places: array<vec4u>;
@group(0) @binding(2) var<storage, read> acts: array<acts_unit>;
@group(0) @binding(3) var<storage, read> floats: array<array<vec4f, UNIT_COLS_FORMAT / 4u>>;
@group(0) @binding(4) var<storage, read_write> product: array<f32>;
@group(0) @binding(5) var<storage, read_write> value: array<vec4f>;

fn unit_at_FORMAT(place: vec4u) -> unit_FORMAT {
    return load_FORMAT_WEIGHTS(place.x + place.y * row_pieces_FORMAT(place.w), place.z, place.w);
}

@compute @workgroup_size(64)
fn products_of_acts(@builtin(global_invocation_id) at: vec3u) {
    if (at.x >= arrayLength(&places)) { return; }
    let place = places[at.x];
    product[at.x] = dot_FORMAT(unit_at_FORMAT(place), acts[at.x], place.z);
}

@compute @workgroup_size(64)
fn products_of_floats(@builtin(global_invocation_id) at: vec3u) {
    if (at.x >= arrayLength(&places)) { return; }
    product[at.x] = dotf_FORMAT(unit_at_FORMAT(places[at.x]), floats[at.x]);
}

@compute @workgroup_size(64)
fn values(@builtin(global_invocation_id) at: vec3u) {
    if (at.x >= arrayLength(&places)) { return; }
    let place = places[at.x];
    let u = unit_at_FORMAT(place);
    for (var part = 0u; part < UNIT_COLS_FORMAT / PART_COLS_FORMAT; part++) {
        var v = values_FORMAT(u, place.z, part);
        for (var i = 0u; i < PART_COLS_FORMAT / 4u; i++) {
            value[(at.x * UNIT_COLS_FORMAT + part * PART_COLS_FORMAT) / 4u + i] = v[i];
        }
    }
}
