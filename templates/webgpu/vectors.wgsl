/* vectors.wgsl -- f32 weights of vectors, and tables.  The module has
 *     var<storage, read> vectors: array<vec4u>;
 * at: the piece where a vector begins. */

/* Instead of a piece of vectors: there is no vector. */
const NO_VECTOR = 0xffffffffu;

/* Item i of the vector that begins at piece `at`. */
fn vector_f32(at: u32, i: u32) -> f32 { return bitcast<f32>(vectors[at + i / 4u][i % 4u]); }
/* Items i, i + 1, i even. */
fn vector_pair(at: u32, i: u32) -> vec2f {
    let piece = bitcast<vec4f>(vectors[at + i / 4u]);
    return select(piece.xy, piece.zw, i % 4u == 2u);
}
