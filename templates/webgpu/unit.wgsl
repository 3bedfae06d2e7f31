/* unit.wgsl -- a unit of 64 columns in an invocation's registers: its activations, and shared functions by which the weight formats read,
 * unpack and multiply their weights.  Packed rows are those of the other GPUs (docs/gpu_internals.md); templates/gpu/acts_unit.h and
 * formats/NAME.h are the same in C.
 *
 * Files of templates/webgpu are WGSL; compiler/web/wgsl.h selects their items by name.  In names WEIGHTS stands for a binding,
 *     var<storage, read> WEIGHTS: array<vec4u>;
 * FORMAT for a format.  Nothing here needs a feature: no f16, no subgroups, no pointers; and in the code of formats only storage is indexed
 * at run time.
 *
 * Contents of formats/NAME.wgsl.  row: the piece of 16 bytes of WEIGHTS where a packed row begins; unit, units: number of the unit, and
 * number of units of 64 columns (for floats: number of the piece, and still units of 64):
 *     UNIT_COLS_NAME, PART_COLS_NAME               columns of a unit, and of a part of it
 *     row_pieces_NAME(units)                       pieces of a row
 *     unit_NAME, load_NAME_WEIGHTS(row, unit, units)
 *     dot_NAME(u, x, unit)                         the unit times int8 activations; floats: dotf_NAME(u, x), times floats
 *     values_NAME(u, unit, part)                   columns PART_COLS part .. of the unit as floats, as exact as f32
 * All formats except floats also have, with c for columns 16c .. 16c+15 of the unit:
 *     codes_NAME(u, c)                             int8, one per byte
 *     factor_NAME(u, unit, c)                      (f, g): weights are f code + g
 *     SCALE_COLS_NAME, ADDED_NAME                  how many columns, 16 or 32, share a factor; whether g may differ from 0
 *
 * Files of the IQ formats take codes from grids of up to 2,048 entries.  The packer resolves them, so that packed rows only have the levels
 * of single columns, 3 to 16 of them.  These are computed, four at a time in the bytes of a word: a lookup would need workgroup memory that
 * every group fills first, or an array indexed at run time, which drivers put into memory. */

/* 64 activations, x = d q: 16 int8 each, of columns 0, 16, 32, 48 ..; one scale per block of 32.
 * scale: d0, d1, s0, s1 with s_b = d_b * (sum of block b's q).  sum16: [i] = d * (sum of columns 16i .. 16i+15). */
struct acts_unit { q0: vec4u, q1: vec4u, q2: vec4u, q3: vec4u, scale: vec4f, sum16: vec4f }

/* ---- places ---- */
/* Pieces of 16 bytes of a plane. */
fn plane_pieces(bytes: u32) -> u32 { return (bytes + 15u) / 16u; }
/* Item n of a plane of items of 4 or 8 bytes that begins at piece `at`. */
fn word_WEIGHTS(at: u32, n: u32) -> u32 { return WEIGHTS[at + n / 4u][n % 4u]; }
fn words_WEIGHTS(at: u32, n: u32) -> vec2u {
    let piece = WEIGHTS[at + n / 2u];
    return select(piece.xy, piece.zw, n % 2u == 1u);
}

/* ---- numbers ---- */
/* The half float in the lower half of a word.  Scales below 2^-14 are common.  WGSL lets a machine take them as 0; GPUs of desktops and of
 * Apple do not, and the test detects machines that do. */
fn half_f32(bits: u32) -> f32 { return unpack2x16float(bits).x; }
/* As floats: the six bits from bit `at`; byte i, unsigned; byte i, signed. */
fn six_bits_f32(bits: u32, at: u32) -> f32 { return f32((bits >> at) & 63u); }
fn byte_f32(bytes: u32, i: u32) -> f32 { return f32((bytes >> (8u * i)) & 255u); }
fn int8_f32(bytes: u32, i: u32) -> f32 { return f32(bitcast<i32>(bytes << (24u - 8u * i)) >> 24u); }
/* The 24 bits of a unit in its superblock's 16 bytes (they begin at byte 4, units of 3 bytes); the top byte of the result is undefined. */
fn super_bits(head: vec4u, unit: u32) -> u32 {
    let odd = select((head.y >> 24u) | (head.z << 8u), head.w >> 8u, unit % 4u == 3u);
    let even = select(head.y, (head.z >> 16u) | (head.w << 16u), unit % 4u == 2u);
    return select(even, odd, unit % 2u == 1u);
}
/* The scale of block b of the unit, for superblocks with 8 scales of six bits: d, upper bits (2 x 8), lower (4 x 8). */
fn super_scale(head: vec2u, unit: u32, b: u32) -> f32 {
    let block = 2u * (unit % 4u) + b;
    return f32(((head.y >> (4u * block)) & 15u) | (((head.x >> (16u + 2u * block)) & 3u) << 4u));
}

/* ---- codes: of columns 16c .. 16c+15, one per byte ---- */
/* Moves the bits at bit `at` of each byte to bit `to`; other bits of the result are undefined. */
fn bits_moved(v: vec4u, at: vec4u, to: u32) -> vec4u {
    return select(v >> (at - vec4u(to)), v << (vec4u(to) - at), at < vec4u(to));
}
/* Planes of nibbles, q0 and q1 for the unit's blocks: byte j of a block's 16 has column j low, column 16 + j high.
 * _up: in the top four bits, which makes codes signed. */
fn nibbles(q0: vec4u, q1: vec4u, c: u32) -> vec4u {
    return (select(q0, q1, c >= 2u) >> vec4u(4u * (c % 2u))) & vec4u(0x0f0f0f0fu);
}
fn nibbles_up(q0: vec4u, q1: vec4u, c: u32) -> vec4u {
    return (select(q0, q1, c >= 2u) << vec4u(4u - 4u * (c % 2u))) & vec4u(0xf0f0f0f0u);
}
/* The same for nibbles that index a table: word i has columns 4i .. 4i+3 of a block in its lower half, 16 + 4i .. in its upper half. */
fn nibbles_ordered(q0: vec4u, q1: vec4u, c: u32) -> vec4u {
    let four = (select(q0, q1, c >= 2u) >> vec4u(16u * (c % 2u))) & vec4u(0x0000ffffu);
    let two = (four | (four << vec4u(8u))) & vec4u(0x00ff00ffu);
    return (two | (two << vec4u(4u))) & vec4u(0x0f0f0f0fu);
}
/* A plane of bit pairs: bits 2c, 2c+1 of byte j have column 16c + j.  The result has them at bit `to`. */
fn bit_pairs(pairs: vec4u, c: u32, to: u32) -> vec4u { return bits_moved(pairs, vec4u(2u * c), to) & vec4u(0x03030303u << to); }
/* A word of single bits for a block: bit s of byte j has column 4s + j. */
fn single_bits(bits: vec2u, c: u32, to: u32) -> vec4u {
    return bits_moved(vec4u(select(bits.x, bits.y, c >= 2u)), vec4u(0u, 1u, 2u, 3u) + 4u * (c % 2u), to) & vec4u(0x01010101u << to);
}

/* ---- levels: signed bytes of small codes ---- */
/* Bit `at` of each byte as a mask of the byte, 0xff or 0. */
fn byte_masks(codes: vec4u, at: u32) -> vec4u {
    let one = (codes >> vec4u(at)) & vec4u(0x01010101u);
    return (one << vec4u(8u)) - one;
}
/* Changes the sign of bytes under the mask; bytes must not be 0. */
fn bytes_negated(bytes: vec4u, mask: vec4u) -> vec4u { return (bytes ^ mask) + (mask & vec4u(0x01010101u)); }
/* Bytes of b under the mask, else of a. */
fn bytes_chosen(a: vec4u, b: vec4u, mask: vec4u) -> vec4u { return a ^ ((a ^ b) & mask); }
/* The same for two constants, in all bytes. */
fn constants_chosen(a: u32, b: u32, mask: vec4u) -> vec4u { return vec4u(a * 0x01010101u) ^ (vec4u((a ^ b) * 0x01010101u) & mask); }
/* IQ2: 8, 25, 43, in two bits, the sign in a third: 17 code + 8, and one more for 43. */
fn levels_iq2(pairs: vec4u, signs: vec2u, c: u32) -> vec4u {
    let code = bit_pairs(pairs, c, 0u);
    let size = (code | (code << vec4u(4u))) + (vec4u(0x08080808u) | ((code >> vec4u(1u)) & vec4u(0x01010101u)));
    return bytes_negated(size, byte_masks(single_bits(signs, c, 0u), 0u));
}
/* IQ3_XXS: half of the levels of iq3xxs_grid in ggml-common.h, 2 6 10 14 18 22 26 31 in three bits, the sign in a fourth: 4 code + 2, and
 * one more for 31. */
fn levels_iq3_xxs(code: vec4u) -> vec4u {
    let last = code & (code >> vec4u(1u)) & (code >> vec4u(2u)) & vec4u(0x01010101u);
    let size = ((code & vec4u(0x07070707u)) << vec4u(2u)) | vec4u(0x02020202u) | last;
    return bytes_negated(size, byte_masks(code, 3u));
}
/* IQ4: kvalues_iq4nl in ggml-common.h, -127 -104 -83 -65 -49 -35 -22 -10 1 13 25 38 53 69 89 113, by a tree of selections. */
fn levels_iq4(code: vec4u) -> vec4u {
    let m0 = byte_masks(code, 0u);
    let m1 = byte_masks(code, 1u);
    let m2 = byte_masks(code, 2u);
    let a = bytes_chosen(constants_chosen(0x81u, 0x98u, m0), constants_chosen(0xadu, 0xbfu, m0), m1);
    let b = bytes_chosen(constants_chosen(0xcfu, 0xddu, m0), constants_chosen(0xeau, 0xf6u, m0), m1);
    let c = bytes_chosen(constants_chosen(0x01u, 0x0du, m0), constants_chosen(0x19u, 0x26u, m0), m1);
    let d = bytes_chosen(constants_chosen(0x35u, 0x45u, m0), constants_chosen(0x59u, 0x71u, m0), m1);
    return bytes_chosen(bytes_chosen(a, b, m2), bytes_chosen(c, d, m2), byte_masks(code, 3u));
}
/* E2M1: twice 0 0.5 1 1.5 2 3 4 6 in three bits, the sign in a fourth.  Below 4 the level is the code.  The others are 4 6 8 12: without
 * the bit for 4 their codes are 0 1 2 3, which give 4 + 2 code, and 2 more for 12.  0 has no sign: 1 is not added to its complement. */
fn levels_e2m1(code: vec4u) -> vec4u {
    let low = code & vec4u(0x03030303u);
    let twelve = low & (low >> vec4u(1u)) & vec4u(0x01010101u);
    let size = bytes_chosen(low, vec4u(0x04040404u) + ((low + twelve) << vec4u(1u)), byte_masks(code, 2u));
    let some = (size | (size >> vec4u(1u)) | (size >> vec4u(2u)) | (size >> vec4u(3u))) & vec4u(0x01010101u);
    return bytes_negated(size, byte_masks(code, 3u) & ((some << vec4u(8u)) - some));
}

/* ---- products ---- */
/* Sum over 16 columns, or 32, of int8 codes times quantised x: below 32 * 128 * 128 = 2^19. */
fn dot_piece(w: vec4u, q: vec4u) -> f32 {
    return f32(dot4I8Packed(w.x, q.x) + dot4I8Packed(w.y, q.y) + dot4I8Packed(w.z, q.z) + dot4I8Packed(w.w, q.w));
}
fn dot_block(w0: vec4u, w1: vec4u, q0: vec4u, q1: vec4u) -> f32 {
    return f32(dot4I8Packed(w0.x, q0.x) + dot4I8Packed(w0.y, q0.y) + dot4I8Packed(w0.z, q0.z) + dot4I8Packed(w0.w, q0.w) +
               dot4I8Packed(w1.x, q1.x) + dot4I8Packed(w1.y, q1.y) + dot4I8Packed(w1.z, q1.z) + dot4I8Packed(w1.w, q1.w));
}
/* If 16 columns share a scale: p has the four pieces' sums, times their weights' scales. */
fn dot_pieces(p: vec4f, x: acts_unit) -> f32 { return x.scale.x * (p.x + p.y) + x.scale.y * (p.z + p.w); }

/* ---- values ---- */
/* 16 signed bytes times a scale; and plus a constant. */
fn values_scaled(codes: vec4u, scale: f32) -> array<vec4f, 4> {
    return array<vec4f, 4>(vec4f(unpack4xI8(codes.x)) * scale, vec4f(unpack4xI8(codes.y)) * scale,
                           vec4f(unpack4xI8(codes.z)) * scale, vec4f(unpack4xI8(codes.w)) * scale);
}
fn values_added(codes: vec4u, scale: f32, add: f32) -> array<vec4f, 4> {
    return array<vec4f, 4>(vec4f(unpack4xI8(codes.x)) * scale + add, vec4f(unpack4xI8(codes.y)) * scale + add,
                           vec4f(unpack4xI8(codes.z)) * scale + add, vec4f(unpack4xI8(codes.w)) * scale + add);
}
