/* stage.wgsl -- converts rows to the form that the products of prefill, gemm.wgsl, read: as int8, the numbers of acts.wgsl.  For products
 * with floats a row stays as it is, or is normed.  One token per workgroup.
 *
 * The module has what acts.wgsl needs, without ACTS_UNITS; THREADS is a multiple of 8.  Workgroup memory: 12 THREADS bytes; 4 with floats.
 * Called by all invocations of the group, in uniform control flow; thread: local_invocation_index.  at: the word of the arena where the row
 * begins; weight: the piece of WEIGHTS where the norm's weights begin, [cols] f32.
 *
 * The staged rows of a step begin at word `acts` of the arena, with room for `stride` tokens.  A block of 32 columns has ten words: q, with
 * columns 4i .. 4i+3 in word i; its d, f32; the sums of q over columns 0 .. 15 and 16 .. 31, two signed ones in a word.  They lie as
 * [unit of 64 columns][word][token][block], so that words that a tile reads at once are neighbours.  Columns from cols on are zero. */
// include templates/webgpu/acts.wgsl

/* Words of the arena for staged rows. */
fn staged_words(cols: u32, stride: u32) -> u32 { return 20u * stride * ((cols + 63u) / 64u); }
/* Where word 0 of a block is, and the distance between its words. */
fn staged_at(acts: u32, unit: u32, token: u32, block: u32, stride: u32) -> u32 { return acts + 20u * stride * unit + 2u * token + block; }
fn staged_word(stride: u32) -> u32 { return 2u * stride; }

/* Stores columns 4 quad .. of the row; neighbouring invocations have neighbouring quads.  Quads after the last unit are zero and not
 * stored. */
fn stage_quad(v: vec4f, quad: u32, quads: u32, acts: u32, token: u32, stride: u32, thread: u32) {
    let b = block_part_of(v, thread);
    if (quad >= quads) { return; }
    let out = staged_at(acts, quad / 16u, token, quad / 8u % 2u, stride);
    arena[out + quad % 8u * staged_word(stride)] = b.q;
    if (thread % 8u > 0u) { return; }
    arena[out + 8u * staged_word(stride)] = bitcast<u32>(b.d);
    arena[out + 9u * staged_word(stride)] = b.sums;
}
fn stage_row(at: u32, cols: u32, acts: u32, token: u32, stride: u32, thread: u32) {
    let quads = 16u * ((cols + 63u) / 64u);
    for (var first = 0u; first < quads; first += THREADS) {
        let quad = first + thread;
        stage_quad(row_quad(at, quad, cols), quad, quads, acts, token, stride, thread);
    }
}
fn stage_norm_WEIGHTS(at: u32, weight: u32, cols: u32, eps: f32, acts: u32, token: u32, stride: u32, thread: u32) {
    let quads = 16u * ((cols + 63u) / 64u);
    let factor = row_norm_factor(at, cols, eps, thread);
    for (var first = 0u; first < quads; first += THREADS) {
        let quad = first + thread;
        stage_quad(norm_quad_WEIGHTS(at, weight, quad, cols, factor), quad, quads, acts, token, stride, thread);
    }
}
/* The normed row itself: [cols] f32, to word `out` of the arena, which may be `at`. */
fn stagef_norm_WEIGHTS(at: u32, weight: u32, cols: u32, eps: f32, out: u32, thread: u32) {
    let factor = row_norm_factor(at, cols, eps, thread);
    for (var quad = thread; 4u * quad < cols; quad += THREADS) {
        let v = bitcast<vec4u>(norm_quad_WEIGHTS(at, weight, quad, cols, factor));
        let col = out + 4u * quad;
        let there = cols - 4u * quad;
        arena[col] = v.x;
        if (there > 1u) { arena[col + 1u] = v.y; }
        if (there > 2u) { arena[col + 2u] = v.z; }
        if (there > 3u) { arena[col + 3u] = v.w; }
    }
}
