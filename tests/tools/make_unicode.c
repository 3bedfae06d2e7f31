/* make_unicode.c -- reads UnicodeData.txt of Unicode 16.0 (https://www.unicode.org/Public/16.0.0/ucd/) on stdin and writes
 * runtime/text/unicode.inc on stdout: one class per codepoint, for \p{..} and \s of the pre-tokenisers.  With the arguments "fold
 * DerivedAge.txt CompositionExclusions.txt" it writes compiler/product/fold.inc: the mappings of normalisers.
 * The versions are those of the tokenizers library 0.23.2: its regular expressions use Unicode 16, its NFC and NFD Unicode 9, BERT's
 * normaliser Unicode 8 for stripping and splitting, and its lower case Unicode 17.  llama.cpp's tables are Unicode 15.1's. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_CODEPOINTS = 0x110000, ROW = 16, BLOCK = 32, N_ROWS = N_CODEPOINTS / ROW, N_BLOCKS = N_ROWS / BLOCK };
/* As in runtime/text/unicode.h. */
enum { OTHER, NUMBER, LETTER, MARK, PUNCTUATION, SYMBOL, SPACE, UNASSIGNED, UPPER, LOWER, DIGIT };
static uint8_t  class_of[N_CODEPOINTS], combining[N_CODEPOINTS];
static bool     nonspacing[N_CODEPOINTS];                      /* Mn */
static uint32_t age[N_CODEPOINTS];                             /* 100 * major version + minor version; 0: unassigned */
static uint32_t lower[N_CODEPOINTS], pair[N_CODEPOINTS][2];    /* 0: none; pair: canonical decomposition, [1] may be 0 */
static bool     excluded[N_CODEPOINTS];                        /* from composition */

static uint8_t class_from_category(const char *category)
{
    switch (category[0]) {
    case 'N': return category[1] == 'd' ? DIGIT : NUMBER;
    case 'L': return category[1] == 'u' || category[1] == 't' ? UPPER : category[1] == 'l' ? LOWER : LETTER;
    case 'M': return MARK;
    case 'P': return PUNCTUATION;
    case 'S': return SYMBOL;
    case 'Z': return SPACE;
    default:  return OTHER;
    }
}

/* Field i of a line, up to the next semicolon. */
static const char *field(const char *line, int i)
{
    while (i > 0 && (line = strchr(line, ';'))) { line++; i--; }
    if (!line) { fprintf(stderr, "make_unicode: a line lacks field %d\n", i); exit(1); }
    return line;
}

static void read_data(void)
{
    char     line[1024];
    uint32_t first = 0;
    memset(class_of, UNASSIGNED, sizeof class_of);
    while (fgets(line, sizeof line, stdin)) {
        char    *name = strchr(line, ';'), *category = name ? strchr(name + 1, ';') : NULL;
        uint32_t c    = (uint32_t)strtoul(line, NULL, 16);
        if (!category || c >= N_CODEPOINTS) { fprintf(stderr, "make_unicode: bad line: %s", line); exit(1); }
        if (strstr(line, ", First>")) { first = c; continue; }
        if (!strstr(line, ", Last>")) first = c;
        for (uint32_t i = first; i <= c; i++) class_of[i] = class_from_category(category + 1);
        nonspacing[c] = category[1] == 'M' && category[2] == 'n';
        combining[c]  = (uint8_t)strtoul(field(line, 3), NULL, 10);
        const char *decomposition = field(line, 5), *lower_case = field(line, 13);
        if (*decomposition != ';' && *decomposition != '<') {
            char *second;
            pair[c][0] = (uint32_t)strtoul(decomposition, &second, 16);
            if (*second == ' ') pair[c][1] = (uint32_t)strtoul(second, NULL, 16);
        }
        if (*lower_case != ';') lower[c] = (uint32_t)strtoul(lower_case, NULL, 16);
    }
    /* White_Space of PropList.txt = category Z plus these controls. */
    for (uint32_t c = 9; c <= 13; c++) class_of[c] = SPACE;
    class_of[0x85] = SPACE;
}

/* Lines "first..last ; version" or "codepoint", with comments after #. */
static void read_list(const char *path, void (*take)(uint32_t c, const char *value))
{
    char  line[1024];
    FILE *f = fopen(path, "r");
    if (!f) { perror(path); exit(1); }
    while (fgets(line, sizeof line, f)) {
        char          *end;
        const uint32_t first = (uint32_t)strtoul(line, &end, 16);
        if (end == line) continue;
        const uint32_t last  = end[0] == '.' && end[1] == '.' ? (uint32_t)strtoul(end + 2, &end, 16) : first;
        const char    *value = strchr(end, ';');
        for (uint32_t c = first; c <= last && c < N_CODEPOINTS; c++) take(c, value ? value + 1 : "");
    }
    fclose(f);
}
static void take_age(uint32_t c, const char *value)
{
    char *minor;
    age[c] = (uint32_t)strtoul(value, &minor, 10) * 100;
    if (*minor == '.') age[c] += (uint32_t)strtoul(minor + 1, NULL, 10);
}
static void take_exclusion(uint32_t c, const char *value) { (void)value; excluded[c] = true; }
static bool is_since(uint32_t c, uint32_t version) { return age[c] > 0 && age[c] <= version; }

/* ---- fold.inc ---- */

/* A table is an array of int32_t: rows of 32-bit numbers, each number as the difference to that of the row before. */
static uint32_t before[4];
static int      column;

static void begin_table(const char *name)
{
    memset(before, 0, sizeof before);
    column = 0;
    printf("static const int32_t %s[] = {\n", name);
}
static void print_row(const uint32_t *row, uint32_t width)
{
    for (uint32_t i = 0; i < width; i++) {
        column += printf("%d,", (int32_t)(row[i] - before[i]));
        before[i] = row[i];
    }
    if (column > 110) column = printf("\n") - 1;
}
static void end_table(void) { printf("%s};\n", column ? "\n" : ""); }

/* Rows of struct forge_fold (runtime/model/vocab.h): codepoints first, first + step, .. last become to, to + step, .., or all become to. */
static void print_fold(const char *name, const uint32_t *map)
{
    begin_table(name);
    for (uint32_t c = 0; c < N_CODEPOINTS;) {
        if (!map[c]) { c++; continue; }
        const bool     same = c + 1 < N_CODEPOINTS && map[c + 1] == map[c];
        const uint32_t next = same || map[c + 1] == map[c] + 1 || map[c + 1] ? 1 : 2;
        uint32_t       last = c;
        while (last + next < N_CODEPOINTS && map[last + next] == map[c] + (same ? 0 : last + next - c) && (next == 1 || !map[last + 1]))
            last += next;
        print_row((uint32_t[]){ c, last, map[c], last == c || same ? 0 : next }, 4);
        c = last + 1;
    }
    end_table();
}

/* Rows of struct forge_class: runs of codepoints with the same value, except the value `none`. */
static void print_classes(const char *name, const uint8_t *values, uint8_t none)
{
    begin_table(name);
    for (uint32_t c = 0, last; c < N_CODEPOINTS; c = last + 1) {
        for (last = c; last + 1 < N_CODEPOINTS && values[last + 1] == values[c]; last++) { }
        if (values[c] != none) print_row((uint32_t[]){ c, last, values[c] }, 3);
    }
    end_table();
}

static int by_pair(const void *x, const void *y)
{
    const uint32_t c = *(const uint32_t *)x, d = *(const uint32_t *)y;
    for (int i = 0; i < 2; i++) if (pair[c][i] != pair[d][i]) return pair[c][i] < pair[d][i] ? -1 : 1;
    return 0;
}

/* Rows of struct forge_decomposition: canonical decompositions, one step each, without Hangul; then the indices of the decompositions that
 * compose, ordered by their pairs. */
static void print_decompositions(void)
{
    static uint32_t rows[4096], index[N_CODEPOINTS];
    uint32_t        n = 0;
    begin_table("decompositions");
    for (uint32_t c = 0; c < N_CODEPOINTS; c++) {
        if (!pair[c][0] || !is_since(c, 900)) continue;
        print_row((uint32_t[]){ c, pair[c][0], pair[c][1] }, 3);
        index[c] = n++;
        if (n > 4096) { fprintf(stderr, "make_unicode: more than 4096 decompositions\n"); exit(1); }
    }
    uint32_t n_pairs = 0;
    for (uint32_t c = 0; c < N_CODEPOINTS; c++)
        if (pair[c][1] && is_since(c, 900) && !excluded[c] && !combining[c] && !combining[pair[c][0]]) rows[n_pairs++] = c;
    qsort(rows, n_pairs, sizeof rows[0], by_pair);
    end_table();
    begin_table("compositions");
    for (uint32_t i = 0; i < n_pairs; i++) print_row(&index[rows[i]], 1);
    end_table();
}

/* The class of a codepoint for BERT's normaliser if it differs from class_of, else 0xff: only nonspacing marks are marks, and codepoints
 * newer than Unicode 8 count as letters.  The listed codepoints have another category today. */
static uint8_t bert_class(uint32_t c)
{
    switch (c) {
    case 0xb: case 0xc: case 0x85:  return OTHER;
    case 0x1734: case 0x1171e:      return MARK;
    case 0x166d: case 0x111c9:      return PUNCTUATION;
    case 0x1885: case 0x1886: case 0xa9bd: return UNASSIGNED;
    default:
        if (!is_since(c, 800) && (class_of[c] == MARK || class_of[c] == PUNCTUATION || class_of[c] == OTHER)) return UNASSIGNED;
        return class_of[c] == MARK && !nonspacing[c] ? UNASSIGNED : 0xff;
    }
}

static bool is_second[N_CODEPOINTS];                           /* second codepoint of a composition */

/* The combining class; FORGE_COMBINING_NONE for codepoints without a class that change in form C or compose with the previous codepoint. */
static uint8_t combining_value(uint32_t c)
{
    if (!is_since(c, 900)) return 0;
    if (combining[c]) return combining[c];
    const bool stays = !pair[c][0] || (pair[c][1] && !excluded[c] && !combining[pair[c][0]]);
    const bool jamo  = (c >= 0x1161 && c <= 0x1175) || (c >= 0x11a8 && c <= 0x11c2);
    return !stays || jamo || is_second[c] ? 255 : 0;
}

static void print_folds(void)
{
    static uint32_t base[N_CODEPOINTS], lower_old[N_CODEPOINTS];
    static uint8_t  values[N_CODEPOINTS];
    for (uint32_t c = 0; c < N_CODEPOINTS; c++) {
        base[c]      = is_since(c, 1501) ? pair[c][0] : 0;
        lower_old[c] = is_since(c, 1501) ? lower[c] : 0;
    }
    for (uint32_t c = 0; c < 11172; c++) base[0xac00 + c] = 0x1100 + c / 588;        /* Hangul syllables (Unicode, 3.12) */
    for (uint32_t c = 0; c < N_CODEPOINTS; c++)
        while (base[c] && base[base[c]]) base[c] = base[base[c]];
    printf("/* Generated by tests/tools/make_unicode.c from Unicode's data; do not edit.  "
           "Each number is the difference to that of the row before. */\n");
    printf("/* as llama.cpp has it: the first codepoint of a decomposition */\n");
    print_fold("fold_base", base);
    print_fold("fold_lower", lower_old);
    printf("/* Unicode 16 */\n");
    for (uint32_t c = 0; c < N_CODEPOINTS; c++) values[c] = age[c] > 1501 ? UNASSIGNED : 0xff;
    print_classes("classes_llama_cpp", values, 0xff);
    printf("/* as BERT's normaliser has it */\n");
    for (uint32_t c = 0; c < N_CODEPOINTS; c++) values[c] = bert_class(c);
    print_classes("classes_bert", values, 0xff);
    for (uint32_t c = 0xa7ce; c <= 0xa7d4; c += c == 0xa7ce ? 4 : 2) lower[c] = c + 1;              /* Unicode 17 */
    for (uint32_t c = 0x16ea0; c <= 0x16eb8; c++) lower[c] = c + 27;
    lower[0x130] = 0;                                                                           /* i and a dot: in pieces.c */
    print_fold("fold_bert", lower);
    printf("/* Unicode 9 */\n");
    for (uint32_t c = 0; c < N_CODEPOINTS; c++)
        if (pair[c][1] && is_since(c, 900) && !excluded[c] && !combining[c] && !combining[pair[c][0]]) is_second[pair[c][1]] = true;
    for (uint32_t c = 0; c < N_CODEPOINTS; c++) values[c] = combining_value(c);
    print_classes("combining_classes", values, 0);
    print_decompositions();
}

/* ---- unicode.inc ---- */

/* Removes duplicate rows.  at[i]: the number of row i among the different rows; first: the place of each.  Returns their number. */
static uint32_t distinct_rows(const void *data, uint32_t n_rows, size_t row_bytes, uint16_t *at, uint32_t *first, uint32_t most)
{
    const uint8_t *bytes = data;
    uint32_t       n     = 0;
    for (uint32_t r = 0; r < n_rows; r++) {
        uint32_t i = 0;
        while (i < n && memcmp(bytes + r * row_bytes, bytes + first[i] * row_bytes, row_bytes) != 0) i++;
        if (i == most) { fprintf(stderr, "make_unicode: more than %u distinct rows\n", most); exit(1); }
        if (i == n) first[n++] = r;
        at[r] = (uint16_t)i;
    }
    return n;
}

int main(int argc, char **argv)
{
    static uint16_t row_of[N_ROWS], block_of[N_BLOCKS];
    static uint32_t rows[4096], blocks[256];

    read_data();
    if (argc == 4 && strcmp(argv[1], "fold") == 0) {
        read_list(argv[2], take_age);
        read_list(argv[3], take_exclusion);
        print_folds();
        return 0;
    }
    const uint32_t n_rows   = distinct_rows(class_of, N_ROWS, ROW, row_of, rows, 4096);
    const uint32_t n_blocks = distinct_rows(row_of, N_BLOCKS, BLOCK * sizeof row_of[0], block_of, blocks, 256);
    printf("/* Generated by tests/tools/make_unicode.c from UnicodeData.txt; do not edit. */\n");
    printf("const uint8_t unicode_block[%u] = {", (unsigned)N_BLOCKS);
    for (uint32_t b = 0; b < N_BLOCKS; b++) printf("%s%u,", b % 40 ? "" : "\n", block_of[b]);
    printf("\n};\nconst uint16_t unicode_row[%u][%u] = {\n", n_blocks, (unsigned)BLOCK);
    for (uint32_t i = 0; i < n_blocks; i++) {
        printf("{");
        for (uint32_t k = 0; k < BLOCK; k++) printf("%u,", row_of[blocks[i] * BLOCK + k]);
        printf("},\n");
    }
    printf("};\n/* two classes a byte, the lower codepoint in the low half */\n");
    printf("const uint8_t unicode_class_pair[%u][%u] = {\n", n_rows, ROW / 2);
    for (uint32_t i = 0; i < n_rows; i++) {
        printf("{");
        for (uint32_t k = 0; k < ROW; k += 2) printf("%u,", class_of[rows[i] * ROW + k] | class_of[rows[i] * ROW + k + 1] << 4);
        printf(i % 4 == 3 ? "},\n" : "},");
    }
    printf("\n};\n");
    return 0;
}
