/* vocab.h -- the vocabulary image: written by compiler/product/vocab.c, read in place by runtime/text/tokenize.c.
 * Position-independent, little-endian, no pointers; the sections follow the header in the order of VOCAB_SECTIONS. */
#ifndef FORGE_VOCAB_H
#define FORGE_VOCAB_H
#include <stddef.h>
#include <stdint.h>
#ifdef FORGE_FREESTANDING
#include "runtime/library/freestanding.h"
#else
#include <string.h>
#endif

#define FORGE_VOCAB_MAGIC "FORGEV05"
#define FORGE_VOCAB_NONE  0xffffffffu      /* not a token, not a merge */

enum forge_vocab_kind { FORGE_VOCAB_BPE = 1, FORGE_VOCAB_SPM = 2, FORGE_VOCAB_UNIGRAM = 3, FORGE_VOCAB_WORDPIECE = 4 };

/* How text is split into words before the merges.  compiler/product/vocab.c has the names of the models that use each way. */
enum forge_pre {
    FORGE_PRE_DEFAULT, FORGE_PRE_GPT2, FORGE_PRE_STARCODER, FORGE_PRE_LLAMA3, FORGE_PRE_JAIS2, FORGE_PRE_QWEN2, FORGE_PRE_QWEN35,
    FORGE_PRE_SEED_CODER, FORGE_PRE_LAGUNA, FORGE_PRE_MINICPM5, FORGE_PRE_EXAONE_MOE, FORGE_PRE_FALCON, FORGE_PRE_CHAMELEON,
    FORGE_PRE_PORO, FORGE_PRE_VIKING, FORGE_PRE_SUPERBPE, FORGE_PRE_DEEPSEEK_LLM, FORGE_PRE_DEEPSEEK_CODER, FORGE_PRE_DEEPSEEK3,
    FORGE_PRE_AFMOE, FORGE_PRE_GPT4O, FORGE_PRE_GRANITE_EMBED, FORGE_PRE_TINY_AYA, FORGE_PRE_YOUTU, FORGE_PRE_KIMI_K2, FORGE_PRE_TEKKEN,
    FORGE_PRE_LINES, FORGE_PRE_COUNT
};

enum forge_vocab_flag {
    FORGE_VOCAB_ADD_BOS       = 1,
    FORGE_VOCAB_ADD_EOS       = 2,
    FORGE_VOCAB_SPACE_PREFIX  = 4,         /* SentencePiece: a space before text that follows a special token; Unigram: before any text */
    FORGE_VOCAB_IGNORE_MERGES = 8,         /* a word that is a token stays whole */
    FORGE_VOCAB_ESCAPED       = 16,        /* U+2581 in a token stands for a space of the text; BPE: it merges characters, not bytes */
    FORGE_VOCAB_NEWLINES      = 32,        /* several newlines that are one token stay together */
    FORGE_VOCAB_MERGE_SPACES  = 64,        /* Unigram: one space before each word and no others */
    FORGE_VOCAB_LOWERCASE     = 128,       /* WordPiece */
    FORGE_VOCAB_STRIP_ACCENTS = 256,       /* WordPiece */
    FORGE_VOCAB_NFC           = 512,       /* BPE: text is composed (Unicode normalization form C) before it is split into words */
    FORGE_VOCAB_LLAMA_CPP     = 1024,      /* where llama.cpp splits text differently from the model's own tokenizer, split like
                                            * llama.cpp */
    FORGE_VOCAB_DIFFERS       = 2048,      /* llama.cpp does so with this vocabulary */
    FORGE_VOCAB_SUFFIX_FIRST  = 4096,      /* infill: the suffix comes before the prefix, and no token follows */
};

/* Tokens between which text is filled in: [PREFIX] text before [SUFFIX] text after [MIDDLE]. */
enum forge_fim { FORGE_FIM_PREFIX, FORGE_FIM_SUFFIX, FORGE_FIM_MIDDLE, FORGE_FIM_REPOSITORY, FORGE_FIM_FILE, FORGE_FIM_COUNT };

/* For each token; a token of type "unused" or "undefined" has none of the first five bits. */
enum forge_attr {
    FORGE_ATTR_UNKNOWN = 1, FORGE_ATTR_NORMAL = 2, FORGE_ATTR_CONTROL = 4, FORGE_ATTR_USER_DEFINED = 8, FORGE_ATTR_BYTE = 16,
    FORGE_ATTR_EOG     = 32,               /* ends the generation */
    FORGE_ATTR_LSTRIP  = 64,               /* removes the spaces to its left; RSTRIP: to its right */
    FORGE_ATTR_RSTRIP  = 128,
};

struct forge_vocab_header {
    char     magic[8];
    uint32_t bytes;                        /* whole image */
    uint32_t n_tokens;
    uint32_t n_symbols;                    /* tokens, then texts that occur only in merges */
    uint32_t n_merges;
    uint32_t n_special;
    uint32_t token_buckets, merge_buckets; /* of the two tables below */
    uint32_t max_token_bytes;
    uint8_t  kind, pre;
    uint16_t flags;
    int32_t  bos, eos, eot, unk, pad, sep; /* -1: the vocabulary has no such token */
    uint32_t n_sorted;                     /* Unigram, WordPiece; the members below also belong to these two, where they say nothing else */
    uint32_t n_fold_base, n_fold_lower;
    uint32_t n_xcda, replacement_bytes;
    float    unknown_score;
    uint32_t n_classes;
    uint32_t n_decompositions, n_compositions, n_combining;   /* FORGE_VOCAB_NFC, WordPiece */
    uint32_t n_suppressed;                 /* tokens that are never drawn */
    int32_t  fim[FORGE_FIM_COUNT];         /* -1: the vocabulary has no such token */
};
_Static_assert(sizeof(struct forge_vocab_header) == 132, "vocabulary image: 132-byte header");
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the vocabulary image is read in place: little-endian only"
#endif

struct forge_merge { uint32_t left, right, result; };     /* symbols; the index in the table is the rank */

/* Codepoints first, first + step, .. last become to, to + step, ..; step 0: all of first .. last become `to`. */
struct forge_fold { uint32_t first, last, to, step; };
/* Codepoints first .. last have this value. */
struct forge_class { uint32_t first, last, value; };
#define FORGE_COMBINING_NONE 255           /* combining class 0, but form C changes it or joins it to the codepoint before it */
/* c decomposes into first and second (one step of Unicode's canonical decomposition); second 0: into first alone. */
struct forge_decomposition { uint32_t c, first, second; };

/* Units of the charsmap's double array. */
#define FORGE_XCDA_LABEL 0x800000ffu       /* equals the byte that leads to it */
#define FORGE_XCDA_LEAF  0x100u            /* it has a replacement: base leads to the unit with the replacement's offset */
#define FORGE_XCDA_VALUE 0x7fffffffu
static inline uint32_t forge_xcda_base(uint32_t unit) { return unit >> 10 << ((unit & 0x200) >> 6); }

/*       name            bytes                                  contents */
#define VOCAB_SECTIONS(SECTION, h)                                                                                        \
    SECTION(byte_symbol,    4 * 256)                 /* BPE: symbol of each byte; ESCAPED: its fallback token */          \
    SECTION(byte_token,     4 * 256)                 /* token whose text is this one raw byte */                          \
    SECTION(special_first,  256)                     /* 1: a special token starts with this byte; 2: a user-defined one */\
    SECTION(text_offset,    4 * ((h)->n_symbols + 1ull))                                                                  \
    SECTION(token_bucket,   4 * ((h)->token_buckets + 1ull)) /* where each bucket begins in token_order; then the end */  \
    SECTION(token_order,    4ull * (h)->n_symbols)   /* symbols by bucket of their text, then by forge_text_order */      \
    SECTION(merge,          12ull * (h)->n_merges)   /* struct forge_merge, by rank */                                    \
    SECTION(merge_bucket,   4 * ((h)->merge_buckets + 1ull))                                                              \
    SECTION(merge_order,    4ull * (h)->n_merges)    /* ranks by bucket of (left, right), then by left, then right */     \
    SECTION(special,        4ull * (h)->n_special)   /* tokens, longest text first */                                     \
    SECTION(special_sorted, 4ull * (h)->n_special)   /* indices into special, by text */                                  \
    SECTION(score,          (h)->kind == FORGE_VOCAB_SPM || (h)->kind == FORGE_VOCAB_UNIGRAM ? 4ull * (h)->n_tokens : 0)  \
                                                     /* SPM: ascending = merged earlier; Unigram: the bits of an f32 */   \
    SECTION(sorted_first,   (h)->n_sorted ? 4ull * 257 : 0)  /* start in `sorted` of the texts with each first byte */    \
    SECTION(sorted,         4ull * (h)->n_sorted)    /* tokens that text can become, by bytes */                          \
    SECTION(fold,           sizeof(struct forge_fold) * ((h)->n_fold_base + 1ull * (h)->n_fold_lower))                    \
    SECTION(classes,        sizeof(struct forge_class) * (h)->n_classes)                                                  \
                                                     /* enum unicode_class where it differs from unicode.c, ascending */  \
    SECTION(combining,      sizeof(struct forge_class) * (h)->n_combining)                                                \
                                                     /* combining classes other than 0, ascending */                      \
    SECTION(decomposition,  sizeof(struct forge_decomposition) * (h)->n_decompositions)     /* by c */                    \
    SECTION(composition,    4ull * (h)->n_compositions)  /* decompositions that compose, by first, then second */         \
    SECTION(xcda,           4ull * (h)->n_xcda)                                                                           \
    SECTION(replacement,    (h)->replacement_bytes)  /* zero-terminated texts */                                          \
    SECTION(suppressed,     4ull * (h)->n_suppressed)    /* ascending */                                                    \
    SECTION(attr,           (h)->n_tokens)                                                                                \
    SECTION(text,           0)                       /* last: symbol texts, without separators */

/* Byte offsets of the sections in the image. */
struct forge_vocab_layout {
#define SECTION(name, size) uint64_t name;
    VOCAB_SECTIONS(SECTION, 0)
#undef SECTION
};
static inline struct forge_vocab_layout forge_vocab_layout(const struct forge_vocab_header *h)
{
    struct forge_vocab_layout l;
    uint64_t at = sizeof *h;
#define SECTION(name, size) l.name = at; at += (size);
    VOCAB_SECTIONS(SECTION, h)
#undef SECTION
    return l;
}

/* The tokens of an image that are never drawn, ascending; image NULL: none of them. */
static inline const uint32_t *vocab_image_suppressed(const uint8_t *image, uint32_t *n)
{
    *n = 0;
    if (!image) return NULL;
    const struct forge_vocab_header *h = (const void *)image;
    *n = h->n_suppressed;
    return (const void *)(image + forge_vocab_layout(h).suppressed);
}

/* The hash only chooses a bucket, which mostly has one or two entries.  The search in a bucket is binary, so texts that were chosen to
 * collide cost log n steps.  FNV-1a over 64 bits, then a multiply-xor mix: the bucket comes from the high half. */
static inline uint64_t forge_hash_mix(uint64_t h)
{
    h = (h ^ (h >> 32)) * 0x9e3779b97f4a7c15u;
    return h ^ (h >> 29);
}
#define FORGE_HASH_BEGIN 0xcbf29ce484222325u
static inline uint64_t forge_hash_more(uint64_t h, const uint8_t *text, size_t n)
{
    for (size_t i = 0; i < n; i++) h = (h ^ text[i]) * 0x100000001b3u;
    return h;
}
static inline uint64_t forge_hash_text(const uint8_t *text, size_t n)
{
    return forge_hash_mix(forge_hash_more(FORGE_HASH_BEGIN, text, n));
}
static inline uint64_t forge_hash_pair(uint32_t left, uint32_t right)
{
    return forge_hash_mix(((uint64_t)left << 32 | right) * 0xd6e8feb86659fd93u);
}
/* Result: < buckets. */
static inline uint32_t forge_hash_bucket(uint64_t hash, uint32_t buckets)
{
    return (uint32_t)(((hash >> 32) * buckets) >> 32);
}
static inline float forge_score(uint32_t bits)
{
    float score;
    memcpy(&score, &bits, 4);
    return score;
}
/* Negative, 0 or positive: shorter texts first, then by bytes. */
static inline int forge_text_order(const uint8_t *x, size_t n, const uint8_t *y, size_t m)
{
    return n != m ? (n < m ? -1 : 1) : memcmp(x, y, n);
}

/* GPT-2's byte alphabet: printable Latin-1 bytes stand for themselves, the other 68 for U+0100 .. U+0143 in order
 * (https://github.com/openai/gpt-2/blob/master/src/encoder.py, bytes_to_unicode). */
static inline uint32_t forge_byte_codepoint(uint8_t byte)
{
    if (byte <= 0x20) return 0x100u + byte;
    if (byte < 0x7f)  return byte;
    if (byte <= 0xa0) return 0x100u + 33 + (byte - 0x7fu);
    return byte == 0xad ? 0x143 : byte;
}
/* The byte that a codepoint stands for; -1 if it is outside the alphabet. */
static inline int forge_codepoint_byte(uint32_t c)
{
    if (c < 0x100)  return forge_byte_codepoint((uint8_t)c) == c ? (int)c : -1;
    if (c <= 0x120) return (int)(c - 0x100);
    if (c <= 0x142) return (int)(c - 0x121 + 0x7f);
    return c == 0x143 ? 0xad : -1;
}
/* Writes the UTF-8 of a codepoint; out has room for 4 bytes.  Surrogates are encoded like any other codepoint.  Returns the length. */
static inline size_t forge_utf8_put(uint8_t *out, uint32_t c)
{
    if (c < 0x80)    { out[0] = (uint8_t)c; return 1; }
    if (c < 0x800)   { out[0] = (uint8_t)(0xc0 | c >> 6); out[1] = (uint8_t)(0x80 | (c & 63)); return 2; }
    if (c < 0x10000) {
        out[0] = (uint8_t)(0xe0 | c >> 12); out[1] = (uint8_t)(0x80 | (c >> 6 & 63)); out[2] = (uint8_t)(0x80 | (c & 63));
        return 3;
    }
    out[0] = (uint8_t)(0xf0 | (c >> 18 & 7)); out[1] = (uint8_t)(0x80 | (c >> 12 & 63));
    out[2] = (uint8_t)(0x80 | (c >> 6 & 63)); out[3] = (uint8_t)(0x80 | (c & 63));
    return 4;
}
#endif
