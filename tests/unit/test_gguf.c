/* test_gguf.c -- reads files that are written here byte by byte, and every file of tests/data/bad, unpacked. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "compiler/front/gguf.h"
#include "compiler/front/model.h"
#include "compiler/cli/inspect.h"
#include "die_capture.h"
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

static struct arena *a;
static const char *unpacked = FORGEC_UNPACKED;

static int setup(void **state) { (void)state; a = arena_create(); return 0; }
static int teardown(void **state) { (void)state; arena_destroy(a); return 0; }

/* ---- a small writer ---- */

static struct text out;

static void put(const void *bytes, size_t n) { text_append(&out, bytes, n); }
static void put_u32(uint32_t x) { put(&x, sizeof x); }
static void put_u64(uint64_t x) { put(&x, sizeof x); }
static void put_string(const char *s) { put_u64(strlen(s)); put(s, strlen(s)); }

static void start(uint32_t version, uint64_t n_tensors, uint64_t n_pairs)
{
    out = (struct text){ .arena = a };
    put("GGUF", 4);
    put_u32(version);
    put_u64(n_tensors);
    put_u64(n_pairs);
}

static void put_key(const char *key, uint32_t type) { put_string(key); put_u32(type); }

#define PUT_SCALAR(key, type, T, value) do { put_key((key), (type)); const T x_ = (value); put(&x_, sizeof x_); } while (0)

static void put_tensor(const char *name, uint32_t type, uint64_t rows, uint64_t columns, uint64_t offset)
{
    put_string(name);
    put_u32(2);
    put_u64(columns);
    put_u64(rows);
    put_u32(type);
    put_u64(offset);
}

static void put_zeros(size_t n) { while (n--) put("", 1); }
static void pad(size_t alignment) { while (out.size % alignment) put("", 1); }

/* A copy in a heap block of exactly its size, so that ASan finds a read past the end. */
static uint8_t *exact;
static const struct gguf *parse(bool header_only)
{
    free(exact);
    exact = malloc(out.size ? out.size : 1);
    memcpy(exact, text_str(&out), out.size);
    return gguf_parse(a, "t.gguf", exact, out.size, header_only);
}

#define BYTES(text) text, sizeof text - 1

/* Files of other formats that are often given in place of a GGUF: the message names the format and a remedy.  Safetensors begin with the
 * length of their JSON header in eight bytes. */
static void other_formats(void **state)
{
    (void)state;
    static const struct { const char *bytes; size_t n; const char *says; } files[] = {
        { BYTES("\x38\0\0\0\0\0\0\0{\"__metadata__\":{}}"), "this is a Safetensors file; convert the model's folder" },
        { BYTES("\x38\0\0\0\0\0\0{\"__metadata__\":{}}"), "a GGUF file with \"GGUF\"" },             /* seven bytes */
        { BYTES("\x38\0\0\0\0\0\0\1{\"__metadata__\":{}}"), "a GGUF file with \"GGUF\"" },           /* a header of 2^56 bytes */
        { BYTES("version https://git-lfs.github.com/spec/v1\n"), "this is a Git LFS pointer" },
        { BYTES("\n <!DOCTYPE html>"), "this is a web page" },
        { BYTES("<HTML>"), "this is a web page" },
        { BYTES(" {\"architectures\":[]}"), "this is JSON text" },
        { BYTES("[1]"), "this is JSON text" },
        { BYTES("PK\3\4"), "this is a ZIP file" },
    };
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        out = (struct text){ .arena = a };
        put(files[i].bytes, files[i].n);
        assert_dies(parse(true), files[i].says);
    }
}

/* ---- values ---- */

static void every_value_type(void **state)
{
    (void)state;
    start(3, 0, 16);
    PUT_SCALAR("u8", GGUF_U8, uint8_t, 200);
    PUT_SCALAR("i8", GGUF_I8, int8_t, -5);
    PUT_SCALAR("u16", GGUF_U16, uint16_t, 60000);
    PUT_SCALAR("i16", GGUF_I16, int16_t, 300);
    PUT_SCALAR("u32", GGUF_U32, uint32_t, UINT32_MAX);
    PUT_SCALAR("i32", GGUF_I32, int32_t, -7);
    PUT_SCALAR("u64", GGUF_U64, uint64_t, UINT64_MAX);
    PUT_SCALAR("i64", GGUF_I64, int64_t, INT64_MAX);
    PUT_SCALAR("f32", GGUF_F32, float, 0.5f);
    PUT_SCALAR("f64", GGUF_F64, double, 0.1);
    PUT_SCALAR("nan", GGUF_F32, float, NAN);
    PUT_SCALAR("inf", GGUF_F64, double, -INFINITY);
    PUT_SCALAR("yes", GGUF_BOOL, uint8_t, 1);
    put_key("text", GGUF_STRING);
    put_u64(3);
    put("a\0b", 3);
    put_key("ints", GGUF_ARRAY);
    put_u32(GGUF_I32);
    put_u64(2);
    put_u32(9);
    put_u32((uint32_t)-9);
    put_key("words", GGUF_ARRAY);
    put_u32(GGUF_STRING);
    put_u64(2);
    put_string("");
    put_string("word");
    const struct gguf *g = parse(false);

    uint64_t u = 0;
    double f = 0;
    bool b = false;
    struct gguf_string s;
    assert_true(gguf_get_u64(g, "u8", &u) && u == 200);
    assert_true(gguf_get_u64(g, "u16", &u) && u == 60000);
    assert_true(gguf_get_u64(g, "i16", &u) && u == 300);
    assert_true(gguf_get_u64(g, "u32", &u) && u == UINT32_MAX);
    assert_true(gguf_get_u64(g, "u64", &u) && u == UINT64_MAX);
    assert_true(gguf_get_u64(g, "i64", &u) && u == INT64_MAX);
    assert_false(gguf_get_u64(g, "absent", &u));
    assert_dies(gguf_get_u64(g, "i8", &u), "t.gguf: key \"i8\": byte");
    assert_dies(gguf_get_u64(g, "i32", &u), "negative");
    assert_dies(gguf_get_u64(g, "f32", &u), "the type is f32, an integer is needed");
    assert_dies(gguf_get_u64(g, "yes", &u), "the type is bool");
    assert_true(gguf_get_f64(g, "f32", &f) && f == 0.5);
    assert_true(gguf_get_f64(g, "f64", &f) && f == 0.1);
    assert_true(gguf_get_f64(g, "u32", &f) && f == UINT32_MAX);
    assert_true(gguf_get_f64(g, "i32", &f) && f == -7);
    assert_dies(gguf_get_f64(g, "yes", &f), "the type is bool, a number is needed");
    assert_dies(gguf_get_f64(g, "nan", &f), "NaN");
    assert_dies(gguf_get_f64(g, "inf", &f), "infinite");
    assert_true(gguf_get_bool(g, "yes", &b) && b);
    assert_dies(gguf_get_bool(g, "u8", &b), "bool is needed");
    assert_true(gguf_get_string(g, "text", &s) && s.size == 3);
    assert_memory_equal(s.data, "a\0b", 3);
    assert_dies(gguf_get_string(g, "words", &s), "the type is array, a string is needed");

    const struct gguf_value *ints = gguf_find(g, "ints"), *words = gguf_find(g, "words");
    assert_int_equal(gguf_item_u64(ints, 0), 9);
    assert_true(gguf_item_f64(ints, 1) == -9.0);
    assert_dies(gguf_item_u64(ints, 1), "t.gguf: key \"ints\": byte");
    assert_int_equal(words->count, 2);
    assert_int_equal(words->strings[0].size, 0);
    assert_memory_equal(words->strings[1].data, "word", 4);
    assert_dies(gguf_item_f64(words, 0), "of type string");
    assert_null(gguf_find(g, "nothing"));
    assert_null(gguf_tensor_find(g, "nothing"));
}

static void nested_arrays_are_skipped(void **state)
{
    (void)state;
    for (uint32_t depth = 1; depth <= 9; depth++) {
        start(2, 0, 2);
        put_key("deep", GGUF_ARRAY);
        for (uint32_t i = 1; i < depth; i++) { put_u32(GGUF_ARRAY); put_u64(1); }
        put_u32(GGUF_STRING);
        put_u64(1);
        put_string("x");
        PUT_SCALAR("after", GGUF_U32, uint32_t, depth);
        if (depth > 8) { assert_dies(parse(false), "nested more than 8 deep"); break; }
        const struct gguf *g = parse(false);
        uint64_t u = 0;
        assert_true(gguf_get_u64(g, "after", &u) && u == depth);
        assert_int_equal(gguf_find(g, "deep")->count, 1);
        assert_int_equal(gguf_find(g, "deep")->item_type, depth > 1 ? GGUF_ARRAY : GGUF_STRING);
        assert_null(gguf_find(g, "deep")->items);
    }
}

/* ---- tensors ---- */

static void tensors_and_alignment(void **state)
{
    (void)state;
    static const uint32_t alignments[] = { 8, 16, 32, 64, 4096 };
    for (size_t i = 0; i < COUNT_OF(alignments); i++) {
        const uint32_t alignment = alignments[i];
        start(3, 2, 1);
        PUT_SCALAR("general.alignment", GGUF_U32, uint32_t, alignment);
        const uint64_t second = (3 * 34 + alignment - 1) / alignment * alignment;
        put_tensor("q", QUANT_Q8_0, 3, 32, 0);
        put_tensor("f", QUANT_F32, 1, 1, second);
        pad(alignment);
        const size_t data = out.size;
        put_zeros(second);
        put("\x00\x00\x80\x3f", 4);
        put("trailing bytes are fine", 23);
        const struct gguf *g = parse(false);
        assert_int_equal(g->alignment, alignment);
        assert_int_equal(g->n_tensors, 2);
        const struct gguf_tensor *q = gguf_tensor_find(g, "q"), *f = gguf_tensor_find(g, "f");
        assert_string_equal(q->quant->name, "Q8_0");
        assert_int_equal(q->bytes, 3 * 34);
        assert_ptr_equal(q->data, exact + data);
        assert_int_equal(q->ne[0], 32);
        assert_int_equal(q->ne[1], 3);
        assert_int_equal(q->ne[3], 1);
        float one;
        memcpy(&one, f->data, sizeof one);
        assert_true(one == 1.0f);
    }
    /* A tensor without dimensions is a scalar. */
    start(3, 1, 0);
    put_string("s");
    put_u32(0);
    put_u32(QUANT_F32);
    put_u64(0);
    pad(32);
    put("\x00\x00\x80\x3f", 4);
    const struct gguf_tensor *s = gguf_tensor_find(parse(false), "s");
    assert_true(s->n_dims == 1 && s->ne[0] == 1 && s->ne[1] == 1 && s->ne[3] == 1 && s->bytes == 4);
    start(3, 0, 1);
    PUT_SCALAR("general.alignment", GGUF_U64, uint64_t, 32);
    assert_dies(parse(false), "the type is u64, u32 is needed");
    start(3, 0, 1);
    PUT_SCALAR("general.alignment", GGUF_U32, uint32_t, 4);
    assert_dies(parse(false), "4 is not a power of two from 8 on");
}

/* More than 2^32 items and bytes, in a sparse file: every byte of the last row, and after it, is at the right place. */
static void beyond_4_gib(void **state)
{
    (void)state;
    enum { COLS = 4096, ROWS = (1 << 20) + 4096, BLOCKS = COLS / 32 };
    const uint64_t row_bytes = BLOCKS * 34, bytes = row_bytes * ROWS;
    char path[] = "/tmp/forgec-test-gguf-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    start(3, 2, 0);
    put_tensor("large", QUANT_Q8_0, ROWS, COLS, 0);
    put_tensor("behind", QUANT_F32, 1, 1, bytes);
    pad(32);
    const uint64_t data = out.size;
    uint8_t row[BLOCKS * 34] = { 0 };
    for (uint32_t i = 0; i < BLOCKS; i++) {
        row[34 * i + 1] = 0x3c;                                      /* a scale of 1 */
        for (uint32_t k = 0; k < 32; k++) row[34 * i + 2 + k] = (uint8_t)(i + k);
    }
    const float behind = 42;
    const bool written = pwrite(fd, text_str(&out), out.size, 0) == (ssize_t)out.size && ftruncate(fd, (off_t)(data + bytes + 4)) == 0 &&
                         pwrite(fd, row, row_bytes, (off_t)(data + bytes - row_bytes)) == (ssize_t)row_bytes &&
                         pwrite(fd, &behind, 4, (off_t)(data + bytes)) == 4;
    close(fd);
    const struct gguf *volatile g = NULL;
    const bool refused = !written || DIES(g = gguf_open(a, path, false));
    unlink(path);
    if (!written) skip();                                            /* a file system without sparse files */
    assert_false(refused);
    const struct gguf_tensor *large = gguf_tensor_find(g, "large"), *last = gguf_tensor_find(g, "behind");
    assert_true(large->bytes == bytes && bytes > UINT32_MAX && large->ne[0] * large->ne[1] > UINT32_MAX);
    assert_memory_equal(last->data, &behind, 4);
    const struct weight w = { .tensor = large, .rows = ROWS, .cols = COLS, .run = ROWS, .stride = ROWS };
    static float x[2 * COLS];
    weight_to_float(x, &w, ROWS - 2, 2);
    for (uint32_t i = 0; i < COLS; i++) assert_true(x[i] == 0 && x[COLS + i] == (float)(int8_t)(i / 32 + i % 32));
    gguf_release(g, large->data, large->bytes);                      /* the same bytes again */
    weight_to_float(x, &w, ROWS - 1, 1);
    assert_true(x[33] == 2.0f);
}

static void header_only_needs_no_data(void **state)
{
    (void)state;
    start(3, 2, 0);
    put_tensor("x", QUANT_F16, 4, 8, 0);
    put_tensor("y", QUANT_F16, 4, 8, 64);
    const struct gguf *g = parse(true);
    assert_null(gguf_tensor_find(g, "x")->data);
    assert_int_equal(gguf_tensor_find(g, "x")->bytes, 64);
    assert_dies(parse(false), "tensor \"x\"");
    pad(32);
    put_zeros(64);
    g = parse(true);
    assert_non_null(gguf_tensor_find(g, "x")->data);
    assert_null(gguf_tensor_find(g, "y")->data);

    start(3, 2, 0);                                    /* overlaps are wrong with and without data */
    put_tensor("x", QUANT_F16, 4, 8, 0);
    put_tensor("y", QUANT_F16, 4, 8, 32);
    assert_dies(parse(true), "overlaps tensor \"x\"");
    start(3, 1, 0);
    put_tensor("x", QUANT_F16, 4, 8, UINT64_MAX - 31);
    assert_dies(parse(true), "do not fit");
}

static void tensor_refusals(void **state)
{
    (void)state;
    static const struct { uint32_t type; uint64_t rows, columns; const char *part; } rows[] = {
        { 28, 1, 8, "type F64 (id 28) is not read by forgec" }, { 24, 1, 8, "type I8 (id 24)" },
        { 25, 1, 8, "type I16 (id 25)" }, { 26, 1, 8, "type I32 (id 26)" }, { 27, 1, 8, "type I64 (id 27)" },
        { 5, 1, 8, "type Q4_3 (removed) (id 5)" }, { 38, 1, 8, "IQ4_NL_8_8 (removed)" },
        { 42, 1, 96, "rows of 96 weights are not a multiple of the 64" },
        { 43, 1, 8, "type id 43 is unknown" }, { QUANT_Q8_0, 1, 33, "rows of 33 weights are not a multiple of the 32" },
        { QUANT_Q6_K, 1, 128, "not a multiple of the 256" }, { QUANT_F32, 0, 8, "dimension 1 is 0" },
        { QUANT_F32, UINT64_MAX, 8, "more than 2^63 weights" }, { QUANT_F32, INT64_MAX / 2, 2, "more than 2^63 bytes" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        start(3, 1, 0);
        put_tensor("blk.0.x", rows[i].type, rows[i].rows, rows[i].columns, 0);
        pad(32);
        put_zeros(4096);
        assert_dies(parse(false), rows[i].part);
        assert_dies(parse(true), "t.gguf: tensor \"blk.0.x\": byte ");
    }
    char name[66];
    memset(name, 'n', sizeof name);
    name[64] = '\0';
    start(3, 1, 0);
    put_tensor(name, QUANT_F32, 1, 1, 0);
    assert_non_null(gguf_tensor_find(parse(true), name));
    name[64] = 'n';
    name[65] = '\0';
    start(3, 1, 0);
    put_tensor(name, QUANT_F32, 1, 1, 0);
    assert_dies(parse(true), "the name has 65 bytes, at most 64");
    static const char *const bad_names[] = { "", "a\nb", "a\x1b[31m", "caf\xc3\xa9", "a\x7f" };
    for (size_t i = 0; i < COUNT_OF(bad_names); i++) {
        start(3, 1, 0);
        put_tensor(bad_names[i], QUANT_F32, 1, 1, 0);
        assert_dies(parse(true), i ? "only printable ASCII" : "the name is empty");
        assert_null(strchr(die_text, '\x1b'));
    }
}

static void many_tensors_are_found(void **state)
{
    (void)state;
    enum { COUNT = 3000 };
    start(3, COUNT, 0);
    for (uint64_t i = 0; i < COUNT; i++) put_tensor(arena_printf(a, "blk.%" PRIu64 ".w", i), QUANT_F32, 1, 8, (COUNT - 1 - i) * 32);
    pad(32);
    put_zeros(COUNT * 32);
    const struct gguf *g = parse(false);
    for (uint64_t i = 0; i < COUNT; i++) assert_ptr_equal(gguf_tensor_find(g, arena_printf(a, "blk.%" PRIu64 ".w", i)), &g->tensors[i]);
    assert_null(gguf_tensor_find(g, "blk.3000.w"));
}

/* COUNT names of 8 letters; chosen: names that a hash table without a seed would put into 1/32 of its places. */
enum { CHOSEN_COUNT = 40000 };
static const char **names_of_letters(bool chosen)
{
    const char **names = arena_array(a, const char *, CHOSEN_COUNT);
    uint64_t number = 0;
    for (uint32_t n = 0; n < CHOSEN_COUNT; number++) {
        char name[9] = "";
        for (uint64_t i = 0, x = number; i < 8; i++, x /= 26) name[i] = (char)('a' + x % 26);
        if (!chosen || XXH3_64bits(name, 8) % 131072 < 4096) names[n++] = arena_strndup(a, name, 8);
    }
    return names;
}

/* Seconds to open a file with these keys and tensors and to look up each of them. */
static double seconds_with(const char **names)
{
    start(3, CHOSEN_COUNT, CHOSEN_COUNT);
    for (uint32_t i = 0; i < CHOSEN_COUNT; i++) PUT_SCALAR(names[i], GGUF_U8, uint8_t, 1);
    for (uint32_t i = 0; i < CHOSEN_COUNT; i++) put_tensor(names[i], QUANT_F32, 1, 8, 32 * i);
    const clock_t begin = clock();
    const struct gguf *g = parse(true);
    for (uint32_t i = 0; i < CHOSEN_COUNT; i++) {
        assert_ptr_equal(gguf_find(g, names[i]), &g->pairs[i].value);
        assert_ptr_equal(gguf_tensor_find(g, names[i]), &g->tensors[i]);
    }
    return (double)(clock() - begin) / CLOCKS_PER_SEC;
}

static void chosen_names_cost_no_more(void **state)
{
    (void)state;
    const double usual = seconds_with(names_of_letters(false)), chosen = seconds_with(names_of_letters(true));
    if (chosen > 5 * usual + 0.3) fail_msg("%.2f s, with other names %.2f s", chosen, usual);
}

static void quant_tables(void **state)
{
    (void)state;
    assert_string_equal(quant_find(QUANT_MXFP4)->name, "MXFP4");
    assert_null(quant_find(28));
    assert_null(quant_find(UINT32_MAX));
    assert_string_equal(quant_name_any(31), "Q4_0_4_4 (removed)");
    assert_null(quant_name_any(43));
    for (uint32_t i = 0; i < FORMAT_COUNT; i++) {
        assert_string_equal(quant_name_any(format_table[i].id), format_table[i].name);
        assert_ptr_equal(quant_find(format_table[i].id), &format_table[i]);
        if (i > 0) assert_true(format_table[i].id > format_table[i - 1].id);
    }
}

/* Every prefix of a valid file is refused; with header_only it may be accepted, but must not crash. */
static void every_truncation_is_refused(void **state)
{
    (void)state;
    const struct bytes whole = file_read(a, arena_printf(a, "%s/bad/ok-base-spm.gguf", unpacked));
    for (size_t n = 0; n < whole.size; n += n < 1500 || n > 15000 ? 1 : 7) {
        if (n == 15001) n = whole.size - 2000;
        static struct arena *local;
        static uint8_t *copy;
        local = arena_create();
        copy = malloc(n ? n : 1);
        memcpy(copy, whole.data, n);
        if (!DIES(gguf_parse(local, "cut", copy, n, false))) fail_msg("%zu bytes of %zu were accepted", n, whole.size);
        (void)DIES(gguf_parse(local, "cut", copy, n, true));
        free(copy);
        arena_destroy(local);
    }
}

/* ---- the files of tests/data/bad ---- */

/* By the start of the name; files that are not listed must open: only the model stage finds their defect. */
static const struct { const char *prefix, *part; } bad[] = {
    { "trunc-00000", "is empty" }, { "trunc-ti-end", "do not fit" }, { "trunc-data", "do not fit" }, { "trunc-", "damaged or cut off" },
    { "magic-rev", "reverse order" }, { "magic-", "from before GGUF" }, { "version-bigendian", "big-endian GGUF file (version 3)" },
    { "version-", "is unknown, forgec reads 2 and 3" }, { "ntensors-13", "name is empty" }, { "ntensors-1844", "tensors are claimed" },
    { "ntensors-4", "tensors are claimed" }, { "nkv-1844", "keys are claimed" }, { "nkv-23", "keys are claimed" }, { "nkv-", "tensor" },
    { "keylen-", "claims" }, { "strlen-", "\"general.name\"" }, { "arrcount", "the array claims" }, { "kvtype-", "value type" },
    { "arrtype-", "array item type 13 is unknown" }, { "nested-", "nested more than 8" }, { "bool-2", "a bool has the value 2" },
    { "key-empty", "name is empty" }, { "key-70000", "70000 bytes" }, { "key-dup", "already given" },
    { "align-64", "multiple of the alignment 4096" },
    { "align-", "power of two" }, { "tensor-dup", "already given" }, { "tname-empty", "name is empty" }, { "tname-nul", "\\x00" },
    { "tnamelen-", "claims" }, { "ndims-0", "type Q4_0_4_8 (removed)" }, { "ndims-9", "0 to 4 are possible" },
    { "dim-0", "dimension 0 is 0" }, { "dim-4", "do not fit" },
    { "dim", "more than 2^63" }, { "ttype-q4k", "multiple of the 256" }, { "ttype-", "quantize the model" },
    { "offset-zero", "overlaps" }, { "offset-mis", "multiple of the alignment" }, { "offset-", "do not fit" },
    { "shard-missing", "shard 2 of 3 is missing" }, { "shard-cyclic", "says it is shard 1 of 2" },
    { "shard-count", "-00001-of-00003.gguf" },
    { "shard-dup", "split.tensors.count" }, { "shard-65535", "is missing" }, { "shard-noname", "rename" }, { "file-", "GGUF" },
};

static const char *refusal(const char *file)
{
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        if (strncmp(file, bad[i].prefix, strlen(bad[i].prefix)) == 0) return bad[i].part;
    return NULL;
}

static void bad_files(void **state)
{
    (void)state;
    char *list = (char *)file_read(a, arena_printf(a, "%s/bad/expect.txt", unpacked)).data;
    uint32_t n = 0, refused = 0;
    for (char *line = strtok(list, "\n"); line; line = strtok(NULL, "\n"), n++) {
        char *tab = strchr(line, '\t');
        assert_non_null(tab);
        *tab = '\0';
        const char *path = arena_printf(a, "%s/bad/%s", unpacked, line), *part = refusal(line);
        if (!part && strcmp(line, "ntensors-less.gguf") != 0) { gguf_open(a, path, false); continue; }
        if (!part) continue;
        if (strcmp(tab + 1, "accept") == 0) fail_msg("%s must be accepted", line);
        assert_dies(gguf_open(a, path, false), part);
        refused++;
    }
    assert_true(n >= 130 && refused >= 70);
}

static void shards_open_from_the_first(void **state)
{
    (void)state;
    assert_dies(gguf_open(a, arena_printf(a, "%s/bad/shard-dup-00002-of-00002.gguf", unpacked), false),
                "shard 2 of 2; give the first one, ");
    assert_non_null(strstr(die_text, "shard-dup-00001-of-00002.gguf"));

    char directory[] = "/tmp/forgec-test-gguf-XXXXXX";
    assert_non_null(mkdtemp(directory));
    const char *paths[3];
    for (uint16_t i = 0; i < 3; i++) {
        start(3, 1, i ? 2 : 4);
        PUT_SCALAR("split.no", GGUF_U16, uint16_t, i);
        PUT_SCALAR("split.count", GGUF_U16, uint16_t, 3);
        if (!i) PUT_SCALAR("split.tensors.count", GGUF_I32, int32_t, 3);
        if (!i) PUT_SCALAR("general.alignment", GGUF_U32, uint32_t, 64);          /* each shard has its own */
        put_tensor(arena_printf(a, "t%u", i), QUANT_F32, 1, 8, 0);
        pad(i ? 32 : 64);
        put_zeros(31);
        put((const char[]){ (char)('a' + i) }, 1);
        paths[i] = arena_printf(a, "%s/m-%05u-of-00003.gguf", directory, i + 1u);
        struct outfile f = outfile_open(a, paths[i], 0644);
        outfile_write(&f, text_str(&out), out.size);
        outfile_commit(&f);
    }
    const struct gguf *g = gguf_open(a, paths[0], false);
    assert_int_equal(g->n_shards, 3);
    assert_int_equal(g->n_tensors, 3);
    for (uint32_t i = 0; i < 3; i++) {
        const struct gguf_tensor *t = gguf_tensor_find(g, arena_printf(a, "t%u", i));
        assert_int_equal(t->shard, i);
        assert_int_equal(t->data[31], 'a' + (int)i);
    }
    const char *hash = gguf_hash(a, g);
    assert_int_equal(strlen(hash), 32);
    assert_string_equal(hash, gguf_hash(a, gguf_open(a, paths[0], true)));
    assert_dies(parse(false), "they need names on a disk");
    unlink(paths[2]);
    assert_dies(gguf_open(a, paths[0], false), "m-00003-of-00003.gguf: shard 3 of 3 is missing");
    unlink(paths[0]);
    unlink(paths[1]);
    rmdir(directory);
    assert_dies(gguf_open(a, paths[0], false), "cannot open: No such file");
    assert_dies(gguf_open(a, "/tmp", false), "/tmp: is a directory, not a regular file");
    assert_dies(gguf_open(a, "/dev/zero", false), "/dev/zero: is a device, not a regular file");
    char folder[] = "/tmp/forgec-test-XXXXXX";
    assert_non_null(mkdtemp(folder));
    const char *pipe_path = arena_printf(a, "%s/m.gguf", folder);
    assert_int_equal(mkfifo(pipe_path, 0600), 0);                /* no process writes into it */
    const bool refused = DIES(gguf_open(a, pipe_path, false));
    unlink(pipe_path);
    rmdir(folder);
    assert_true(refused);
    assert_non_null(strstr(die_text, "is a pipe, not a regular file"));
}

/* The canonical (big-endian) form, as xxhsum -H2 prints it. */
/* A file with one part says so in every key. */
static void lone_file_is_no_later_shard(void **state)
{
    (void)state;
    static const struct { int32_t number, count, tensors; const char *part; } rows[] = {       /* -1: no such key */
        { 0, 1, 1, NULL }, { 0, 0, 1, NULL }, { 0, -1, -1, NULL }, { -1, 1, -1, NULL },
        { 5, 1, 1, "key \"split.no\": shard number 5 though \"split.count\" is 1" },
        { 1, 0, 1, "key \"split.no\": shard number 1" }, { 2, -1, -1, "key \"split.no\": shard number 2" },
        { 0, 1, 7, "key \"split.tensors.count\": 7 tensors are claimed, this file holds 1" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        start(3, 1, (uint64_t)((rows[i].number >= 0) + (rows[i].count >= 0) + (rows[i].tensors >= 0)));
        if (rows[i].number >= 0)  PUT_SCALAR("split.no", GGUF_U16, uint16_t, (uint16_t)rows[i].number);
        if (rows[i].count >= 0)   PUT_SCALAR("split.count", GGUF_U16, uint16_t, (uint16_t)rows[i].count);
        if (rows[i].tensors >= 0) PUT_SCALAR("split.tensors.count", GGUF_I32, int32_t, rows[i].tensors);
        put_tensor("x", QUANT_F32, 1, 8, 0);
        pad(32);
        put_zeros(32);
        if (rows[i].part) assert_dies(parse(false), rows[i].part);
        else assert_int_equal(parse(false)->n_tensors, 1);
    }
}

static void hash_is_stable(void **state)
{
    (void)state;
    const struct gguf *base = gguf_open(a, arena_printf(a, "%s/bad/ok-base.gguf", unpacked), false);
    assert_string_equal(gguf_hash(a, base), "516120d223cdf9ec021c6beecbbde765");
}

/* The child's output, for metadata that must not reach a terminal or a JSON reader unescaped. */
static char *inspect_output(bool json)
{
    start(3, 1, 4);
    put_key("evil", GGUF_STRING);
    put_u64(12);
    put("a\0\x1b[31m\xff\xc3\xa9\"\\", 12);
    PUT_SCALAR("big", GGUF_U64, uint64_t, UINT64_MAX);
    PUT_SCALAR("nan", GGUF_F32, float, NAN);
    put_key("list", GGUF_ARRAY);
    put_u32(GGUF_I8);
    put_u64(100);
    for (int i = 0; i < 100; i++) put("\xfe", 1);
    put_tensor("w", QUANT_F16, 2, 16, 0);
    pad(32);
    put_zeros(64);
    const struct gguf *g = parse(false);
    FILE *file = tmpfile();
    fflush(stdout);
    const int saved = dup(1);
    dup2(fileno(file), 1);
    inspect_print(a, g, json, NULL);
    fflush(stdout);
    dup2(saved, 1);
    close(saved);
    rewind(file);
    char *text = arena_alloc(a, 65536);
    assert_true(fread(text, 1, 65535, file) > 0);
    fclose(file);
    return text;
}

static void inspect_shows_no_raw_text(void **state)
{
    (void)state;
    const char *table = inspect_output(false);
    assert_non_null(strstr(table, "\"a\\x00\\x1B[31m\\xFF\xc3\xa9\\x22\\x5C\""));
    assert_non_null(strstr(table, "18446744073709551615"));
    assert_non_null(strstr(table, "[-2, -2, -2, -2, -2, -2, -2, -2, ...]"));
    assert_non_null(strstr(table, "parameters: 32"));
    const char *json = inspect_output(true);
    assert_non_null(strstr(json, "\"a\\u0000\\u001b[31m\\ufffd\\u00e9\\\"\\\\\""));
    assert_non_null(strstr(json, "18446744073709551615"));
    assert_non_null(strstr(json, "null"));
    assert_int_equal(strncmp(json, "{\n\t\"file\":\t{\n\t\t\"path\":\t\"t.gguf\",\n", 33), 0);
    assert_non_null(strstr(json,
                           "\t\t\t\"count\":\t100,\n\t\t\t\"first\":\t[-2, -2, -2, -2, -2, -2, -2, "
                           "-2]\n\t\t}],\n\t\"tensors\":\t[{\n\t\t\t\"name\":\t\"w\",\n"
                                 "\t\t\t\"type\":\t\"F16\",\n\t\t\t\"shape\":\t[16, "
                                 "2],\n\t\t\t\"bytes\":\t64,\n\t\t\t\"shard\":\t0,\n\t\t\t\"present\":\ttrue\n\t\t}],\n\t\"types\":\t{\n"));
    cJSON *tree = cJSON_Parse(json);                   /* valid JSON, with the layout of this library's writer */
    assert_non_null(tree);
    assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(tree, "keys")), 4);
    cJSON_Delete(tree);
    for (const char *s = json; *s; s++) assert_true((*s >= 0x20 && *s < 0x7f) || *s == '\n' || *s == '\t');
}

/* The growth of this process's memory, in bytes, while all keys are written as JSON. */
static uint64_t json_growth(const struct gguf *g)
{
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    inspect_print(a, g, true, NULL);
    getrusage(RUSAGE_SELF, &after);
    return (uint64_t)(after.ru_maxrss - before.ru_maxrss) * 1024;
}

static void inspect_json_takes_no_memory(void **state)
{
    (void)state;
    enum { COUNT = 50000 };
    start(3, 0, COUNT);
    for (uint64_t i = 0; i < COUNT; i++) PUT_SCALAR(arena_printf(a, "key.%" PRIu64, i), GGUF_U32, uint32_t, (uint32_t)i);
    const struct gguf *g = parse(false);
    fflush(stdout);
    const int saved = dup(1), nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, 1);
    const uint64_t growth = json_growth(g);
    fflush(stdout);
    dup2(saved, 1);
    close(saved);
    close(nowhere);
    if (growth > 2 * out.size) fail_msg("%" PRIu64 " bytes more for a file of %zu", growth, out.size);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_value_type),          cmocka_unit_test(nested_arrays_are_skipped),
        cmocka_unit_test(tensors_and_alignment),     cmocka_unit_test(beyond_4_gib),
        cmocka_unit_test(header_only_needs_no_data), cmocka_unit_test(tensor_refusals),
        cmocka_unit_test(many_tensors_are_found),    cmocka_unit_test(chosen_names_cost_no_more),
        cmocka_unit_test(quant_tables),              cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(bad_files),                 cmocka_unit_test(other_formats),
        cmocka_unit_test(shards_open_from_the_first), cmocka_unit_test(lone_file_is_no_later_shard),
        cmocka_unit_test(hash_is_stable),            cmocka_unit_test(inspect_shows_no_raw_text),
        cmocka_unit_test(inspect_json_takes_no_memory),
    };
    const int failed = cmocka_run_group_tests(tests, setup, teardown);
    free(exact);
    return failed;
}
