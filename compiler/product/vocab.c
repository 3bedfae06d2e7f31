/* vocab.c -- converts tokenizer.ggml.* of a GGUF file to the vocabulary image. The roles of tokens follow llama.cpp
 * (llama_vocab::impl::load in src/llama-vocab.cpp): ids, defaults and recognised texts are as there. How text is split follows the models'
 * own tokenizer.json, of which a GGUF file only has the name in 'tokenizer.ggml.pre', or llama.cpp if the user asks for that. */
#include "vocab.h"
#include "charsmap.h"
#include "compiler/front/token_lists.h"
#include "runtime/model/vocab.h"
#include "runtime/run/entropy.h"
#include "fold.inc"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define NONE FORGE_VOCAB_NONE

/* ---- pre-tokenizers by the name in tokenizer.ggml.pre ---- */

enum pre_option {
    IGNORE_MERGES = 1, ADD_BOS = 2,
    NO_BOS        = 4,                                     /* no default BOS id */
    MASK_LSTRIP   = 8,                                     /* "<mask>" consumes the blanks to its left */
    WHOLE         = 16,                                    /* merges of UTF-8 characters with U+2581 for blanks, not of bytes */
    GEMMA4        = 32,                                    /* BOS whatever the file says; newlines that are a token are not split */
    NO_MERGES     = 64,                                    /* a file without merges is accepted: every byte is a token */
    NFC           = 128,                                   /* the model's tokenizer.json normalises to NFC */
};
/* NFC according to the tokenizer.json of Qwen 2 to 3.6, Command R and GPT-NeoX (OLMo, ModernBERT, MPT) and to the Python code of HunYuan
 * and StableLM 2. Models that were not examined have no NFC here. */
static const struct pre_name { const char *name; enum forge_pre pre; uint32_t options; } pre_names[] = {
    { "default",                  FORGE_PRE_DEFAULT,        0 },
    { "llama-bpe",                FORGE_PRE_LLAMA3,         IGNORE_MERGES | ADD_BOS },
    { "llama3",                   FORGE_PRE_LLAMA3,         IGNORE_MERGES | ADD_BOS },
    { "llama-v3",                 FORGE_PRE_LLAMA3,         IGNORE_MERGES | ADD_BOS },
    { "falcon3",                  FORGE_PRE_LLAMA3,         IGNORE_MERGES | ADD_BOS },
    { "falcon-h1",                FORGE_PRE_LLAMA3,         IGNORE_MERGES | ADD_BOS },
    { "pixtral",                  FORGE_PRE_LLAMA3,         IGNORE_MERGES | ADD_BOS },
    { "midm-2.0",                 FORGE_PRE_LLAMA3,         IGNORE_MERGES | ADD_BOS },
    { "lfm2",                     FORGE_PRE_LLAMA3,         IGNORE_MERGES | ADD_BOS },
    { "jina-v5-nano",             FORGE_PRE_LLAMA3,         IGNORE_MERGES | ADD_BOS },
    { "dbrx",                     FORGE_PRE_LLAMA3,         0 },
    { "smaug-bpe",                FORGE_PRE_LLAMA3,         0 },
    { "glm4",                     FORGE_PRE_LLAMA3,         NO_BOS },
    { "chatglm-bpe",              FORGE_PRE_LLAMA3,         NO_BOS },
    { "jais-2",                   FORGE_PRE_JAIS2,          0 },
    { "qwen2",                    FORGE_PRE_QWEN2,          NFC },
    { "deepseek-r1-qwen",         FORGE_PRE_QWEN2,          0 },
    { "kormo",                    FORGE_PRE_QWEN2,          0 },
    { "f2llmv2",                  FORGE_PRE_QWEN2,          NFC },
    { "hunyuan",                  FORGE_PRE_QWEN2,          NFC },
    { "solar-open",               FORGE_PRE_QWEN2,          0 },
    { "grok-2",                   FORGE_PRE_QWEN2,          0 },
    { "megrez",                   FORGE_PRE_QWEN2,          NFC },
    { "stablelm2",                FORGE_PRE_QWEN2,          NFC },
    { "bailingmoe",               FORGE_PRE_QWEN2,          0 },
    { "bailingmoe2",              FORGE_PRE_QWEN2,          0 },
    { "llada-moe",                FORGE_PRE_QWEN2,          0 },
    { "qwen35",                   FORGE_PRE_QWEN35,         NFC },
    { "seed-coder",               FORGE_PRE_SEED_CODER,     0 },
    { "laguna",                   FORGE_PRE_LAGUNA,         0 },
    { "minicpm5",                 FORGE_PRE_MINICPM5,       IGNORE_MERGES },
    { "exaone-moe",               FORGE_PRE_EXAONE_MOE,     0 },
    { "gpt-2",                    FORGE_PRE_GPT2,           0 },
    { "phi-2",                    FORGE_PRE_GPT2,           0 },
    { "gigachat",                 FORGE_PRE_GPT2,           0 },
    { "a.x-4.0",                  FORGE_PRE_GPT2,           0 },
    { "mellum",                   FORGE_PRE_GPT2,           0 },
    { "modern-bert",              FORGE_PRE_GPT2,           NFC },
    { "exaone4",                  FORGE_PRE_GPT2,           0 },
    { "jina-es",                  FORGE_PRE_GPT2,           0 },
    { "jina-de",                  FORGE_PRE_GPT2,           0 },
    { "jina-v1-en",               FORGE_PRE_GPT2,           0 },
    { "jina-v2-code",             FORGE_PRE_GPT2,           0 },
    { "jina-v2-es",               FORGE_PRE_GPT2,           MASK_LSTRIP },
    { "jina-v2-de",               FORGE_PRE_GPT2,           MASK_LSTRIP },
    { "roberta-bpe",              FORGE_PRE_GPT2,           0 },
    { "mpt",                      FORGE_PRE_GPT2,           NFC },
    { "olmo",                     FORGE_PRE_GPT2,           NFC },
    { "jais",                     FORGE_PRE_GPT2,           0 },
    { "trillion",                 FORGE_PRE_GPT2,           0 },
    { "granite-docling",          FORGE_PRE_GPT2,           0 },
    { "starcoder",                FORGE_PRE_STARCODER,      0 },
    { "refact",                   FORGE_PRE_STARCODER,      0 },
    { "command-r",                FORGE_PRE_STARCODER,      NFC },
    { "smollm",                   FORGE_PRE_STARCODER,      0 },
    { "codeshell",                FORGE_PRE_STARCODER,      0 },
    { "exaone",                   FORGE_PRE_STARCODER,      0 },
    { "minerva-7b",               FORGE_PRE_STARCODER,      0 },
    { "mellum2",                  FORGE_PRE_STARCODER,      0 },
    { "falcon",                   FORGE_PRE_FALCON,         0 },
    { "chameleon",                FORGE_PRE_CHAMELEON,      ADD_BOS },
    { "poro-chat",                FORGE_PRE_PORO,           0 },
    { "bloom",                    FORGE_PRE_PORO,           0 },
    { "gpt3-finnish",             FORGE_PRE_PORO,           0 },
    { "viking",                   FORGE_PRE_VIKING,         0 },
    { "superbpe",                 FORGE_PRE_SUPERBPE,       0 },
    { "deepseek-llm",             FORGE_PRE_DEEPSEEK_LLM,   0 },
    { "deepseek-coder",           FORGE_PRE_DEEPSEEK_CODER, 0 },
    { "deepseek-v3",              FORGE_PRE_DEEPSEEK3,      0 },
    { "hunyuan-dense",            FORGE_PRE_DEEPSEEK3,      0 },
    { "joyai-llm",                FORGE_PRE_DEEPSEEK3,      0 },
    { "afmoe",                    FORGE_PRE_AFMOE,          0 },
    { "gpt-4o",                   FORGE_PRE_GPT4O,          0 },
    { "llama4",                   FORGE_PRE_GPT4O,          0 },
    { "kanana2",                  FORGE_PRE_GPT4O,          0 },
    { "minimax-m2",               FORGE_PRE_GPT4O,          0 },
    { "talkie",                   FORGE_PRE_GPT4O,          0 },
    { "granite-embed-multi-97m",  FORGE_PRE_GRANITE_EMBED,  IGNORE_MERGES },
    { "tiny_aya",                 FORGE_PRE_TINY_AYA,       0 },
    { "cohere2moe",               FORGE_PRE_TINY_AYA,       0 },
    { "youtu",                    FORGE_PRE_YOUTU,          IGNORE_MERGES },
    { "kimi-k2",                  FORGE_PRE_KIMI_K2,        NO_MERGES },
    { "tekken",                   FORGE_PRE_TEKKEN,         IGNORE_MERGES | ADD_BOS },
    { "gemma4",                   FORGE_PRE_LINES,          WHOLE | GEMMA4 },
    { "granite-embed-multi-311m", FORGE_PRE_LINES,          WHOLE | GEMMA4 },
    { "sarvam-moe",               FORGE_PRE_LINES,          WHOLE },
};

/* ---- tokens that are recognised by their text ---- */

enum part { EOT, EOM, FIM_PRE, FIM_SUF, FIM_MID, FIM_PAD, FIM_REP, FIM_SEP, N_PARTS };
static const struct { enum part part; const char *text; } part_texts[] = {
    { EOT, "<|eot_id|>" }, { EOT, "<|im_end|>" }, { EOT, "<|end|>" }, { EOT, "<end_of_turn>" }, { EOT, "<|endoftext|>" },
    { EOT, "<|end_of_text|>" }, { EOT, "<EOT>" }, { EOT, "_<EOT>" }, { EOT, "[EOT]" },
    { EOT, "<｜end▁of▁sentence｜>" }, { EOT, "<end_of_utterance>" },
    { EOM, "<|eom_id|>" },
    { FIM_PRE, "<|fim_prefix|>" }, { FIM_PRE, "<fim-prefix>" }, { FIM_PRE, "<fim_prefix>" }, { FIM_PRE, "<｜fim▁begin｜>" },
    { FIM_PRE, "<PRE>" }, { FIM_PRE, "▁<PRE>" }, { FIM_PRE, "<|code_prefix|>" }, { FIM_PRE, "<|prefix|>" },
    { FIM_SUF, "<|fim_suffix|>" }, { FIM_SUF, "<fim-suffix>" }, { FIM_SUF, "<fim_suffix>" }, { FIM_SUF, "<｜fim▁hole｜>" },
    { FIM_SUF, "<SUF>" }, { FIM_SUF, "▁<SUF>" }, { FIM_SUF, "<|code_suffix|>" }, { FIM_SUF, "<|suffix|>" },
    { FIM_MID, "<|fim_middle|>" }, { FIM_MID, "<fim-middle>" }, { FIM_MID, "<fim_middle>" }, { FIM_MID, "<｜fim▁end｜>" },
    { FIM_MID, "<MID>" }, { FIM_MID, "▁<MID>" }, { FIM_MID, "<|code_middle|>" }, { FIM_MID, "<|middle|>" },
    { FIM_PAD, "<|fim_pad|>" }, { FIM_PAD, "<fim-pad>" }, { FIM_PAD, "<fim_pad>" }, { FIM_PAD, "<PAD>" }, { FIM_PAD, "[PAD]" },
    { FIM_REP, "<|fim_repo|>" }, { FIM_REP, "<|repo_name|>" }, { FIM_REP, "<fim-repo>" }, { FIM_REP, "<REPO>" },
    { FIM_REP, "<reponame>" },
    { FIM_SEP, "<|file_sep|>" },
};
static const struct { enum part part; const char *key; } part_keys[] = {
    { EOT, "eot_token_id" }, { EOM, "eom_token_id" }, { FIM_PRE, "fim_pre_token_id" }, { FIM_SUF, "fim_suf_token_id" },
    { FIM_MID, "fim_mid_token_id" }, { FIM_PAD, "fim_pad_token_id" }, { FIM_REP, "fim_rep_token_id" },
    { FIM_SEP, "fim_sep_token_id" }, { FIM_PRE, "prefix_token_id" }, { FIM_SUF, "suffix_token_id" },
    { FIM_MID, "middle_token_id" },
};
static const char *const eog_texts[] = {
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>", "<end_of_turn>",
    "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<|end_of_text|>", "<end_of_utterance>",
    "<eos>", "<turn|>", "<|tool_response>", "<｜end▁of▁sentence｜>", "[e~[",
};
/* gpt-oss: these are always shown and never count as control tokens. */
static const char *const shown_texts[] = { "<|channel|>", "<|message|>", "<|start|>", "<|constrain|>" };

/* ---- symbols: the texts of tokens, then of the other parts of merges ---- */

struct piece { const uint8_t *text; uint32_t n; };
struct build {
    struct arena             *arena;
    const struct gguf        *gguf;
    struct forge_vocab_header h;
    const struct pre_name    *pre;                 /* BPE only */
    bool                      llama_cpp;           /* split text as llama.cpp does */
    struct charsmap           charsmap;            /* Unigram */
    struct piece             *symbols;             /* [n_symbols], capacity max_symbols */
    uint32_t                  max_symbols;
    uint32_t                 *slots, n_slots;      /* symbol by text; the last of equal tokens counts */
    uint64_t                  seed;                /* seed of the hashes for slots: random, because a file may choose texts that collide;
                                                    * the output does not depend on it */
    uint8_t                  *attr;                /* [n_tokens] */
    bool                     *in_text;             /* [n_tokens], Unigram: tokens of types that text can become */
    uint32_t                 *score;               /* [n_tokens], SentencePiece and Unigram */
    struct forge_merge       *merges;
    uint32_t                 *special, *special_sorted, *sorted;
    int32_t                   part[N_PARTS];
    uint32_t                  byte_symbol[256], byte_token[256];
    struct token_list         suppressed;
};

static bool piece_equal(struct piece x, struct piece y) { return x.n == y.n && memcmp(x.text, y.text, x.n) == 0; }

static uint32_t seeded_slot(const struct build *b, const void *key, size_t n, uint32_t slots)
{
    return (uint32_t)(((XXH3_64bits_withSeed(key, n, b->seed) >> 32) * slots) >> 32);
}

/* The slot that has this text, or the free slot for it. */
static uint32_t symbol_slot(const struct build *b, struct piece p)
{
    uint32_t slot = seeded_slot(b, p.text, p.n, b->n_slots);
    while (b->slots[slot] != NONE && !piece_equal(b->symbols[b->slots[slot]], p))
        slot = slot + 1 < b->n_slots ? slot + 1 : 0;
    return slot;
}

static uint32_t symbol_intern(struct build *b, struct piece p)
{
    const uint32_t slot = symbol_slot(b, p);
    if (b->slots[slot] == NONE) {
        b->symbols[b->h.n_symbols] = p;
        b->slots[slot]             = b->h.n_symbols++;
    }
    return b->slots[slot];
}

/* The token with this text; -1 if there is no such token. */
static int32_t token_find(const struct build *b, const char *text)
{
    const uint32_t id = b->slots[symbol_slot(b, (struct piece){ (const uint8_t *)text, (uint32_t)strlen(text) })];
    return id != NONE && id < b->h.n_tokens ? (int32_t)id : -1;
}

/* ---- metadata ---- */

/* NULL if absent. Dies if it is not an array of the wanted kind. */
static const struct gguf_value *find_array(const struct gguf *g, const char *key, bool strings)
{
    const struct gguf_value *v = gguf_find(g, key);
    if (!v) return NULL;
    if (v->type != GGUF_ARRAY)
        die("%s: '%s' is %s, not an array; convert the model again", g->path, key, gguf_type_name(v->type));
    if (strings ? v->item_type != GGUF_STRING : v->item_type == GGUF_STRING || v->item_type == GGUF_ARRAY)
        die("%s: '%s' is an array of %s; convert the model again", g->path, key, gguf_type_name(v->item_type));
    return v;
}

static void get_id(const struct build *b, const char *name, int32_t *id)
{
    const char *key = arena_printf(b->arena, "tokenizer.ggml.%s", name);
    uint64_t    value;
    if (!gguf_find(b->gguf, key) || !gguf_get_u64(b->gguf, key, &value)) return;
    if (value >= b->h.n_tokens) {
        /* 0xffffffff is how converters write "none" */
        if (value != UINT32_MAX)
            warn("%s: '%s' is %" PRIu64 ", but there are %u tokens; ignored", b->gguf->path, key, value, b->h.n_tokens);
        return;
    }
    *id = (int32_t)value;
}

static void get_flag(struct build *b, const char *name, uint16_t flag)
{
    bool value;
    if (!gguf_get_bool(b->gguf, arena_printf(b->arena, "tokenizer.ggml.%s", name), &value)) return;
    b->h.flags = (uint16_t)(value ? b->h.flags | flag : b->h.flags & ~flag);
}

static bool string_is(struct gguf_string s, const char *text) { return s.size == strlen(text) && memcmp(s.data, text, s.size) == 0; }

/* llama.cpp reads strings of arrays up to their first NUL. */
static struct piece piece_of(const struct gguf *g, const char *key, uint64_t item, struct gguf_string s)
{
    const void    *nul = s.size ? memchr(s.data, 0, s.size) : NULL;
    const uint64_t n   = nul ? (uint64_t)((const char *)nul - s.data) : s.size;
    if (n > 1u << 20)
        die("%s: '%s' has a text of %" PRIu64 " bytes, item %" PRIu64 "; forgec supports at most 1 MiB; convert the model again", g->path,
            key, n, item);
    return (struct piece){ (const uint8_t *)s.data, (uint32_t)n };
}

static bool model_is(const struct build *b, const char *name)
{
    struct gguf_string model;
    return gguf_get_string(b->gguf, "tokenizer.ggml.model", &model) && string_is(model, name);
}

/* False: the file has token ids only. */
static bool read_kind(struct build *b)
{
    const struct gguf *g = b->gguf;
    struct gguf_string model;
    if (!gguf_get_string(g, "tokenizer.ggml.model", &model) || string_is(model, "none") || string_is(model, "no_vocab"))
        return false;
    if (string_is(model, "gpt2") || string_is(model, "gemma4")) b->h.kind = FORGE_VOCAB_BPE;
    else if (string_is(model, "llama"))  b->h.kind = FORGE_VOCAB_SPM;
    else if (string_is(model, "t5"))     b->h.kind = FORGE_VOCAB_UNIGRAM;
    else if (string_is(model, "bert"))   b->h.kind = FORGE_VOCAB_WORDPIECE;
    else die("%s: tokenizer '%s' is not supported; forgec has gpt2 (byte-level BPE), gemma4 (BPE over characters), llama (SentencePiece),"
             " t5 (Unigram) and bert (WordPiece)", g->path, printable(b->arena, model.data, model.size));
    return true;
}

static void read_pre(struct build *b)
{
    const struct gguf *g = b->gguf;
    struct gguf_string name;
    if (model_is(b, "gemma4")) {
        name = (struct gguf_string){ "gemma4", 6 };
    } else if (!gguf_get_string(g, "tokenizer.ggml.pre", &name) || name.size == 0) {
        warn("%s: no 'tokenizer.ggml.pre': text is split by the default rule, which may not be the model's", g->path);
        name = (struct gguf_string){ "default", 7 };
    }
    for (size_t i = 0; i < COUNT_OF(pre_names); i++)
        if (string_is(name, pre_names[i].name)) { b->pre = &pre_names[i]; return; }
    struct text known = { .arena = b->arena };
    for (size_t i = 0; i < COUNT_OF(pre_names); i++) text_printf(&known, "%s%s", i ? ", " : "", pre_names[i].name);
    die("%s: pre-tokenizer '%s' is not supported; forgec has %s", g->path, printable(b->arena, name.data, name.size), text_str(&known));
}

static void set_defaults(struct build *b)
{
    struct forge_vocab_header *h = &b->h;
    h->bos = h->eos = h->eot = h->pad = h->unk = h->sep = -1;
    if (h->kind == FORGE_VOCAB_SPM) {
        h->bos = 1, h->eos = 2, h->unk = 0;
        h->flags = FORGE_VOCAB_SPACE_PREFIX | FORGE_VOCAB_ADD_BOS | FORGE_VOCAB_ESCAPED;
    } else if (h->kind == FORGE_VOCAB_UNIGRAM) {
        h->eos = 1, h->unk = 2, h->pad = 0;
        h->flags = FORGE_VOCAB_ADD_EOS | FORGE_VOCAB_ESCAPED;
    } else if (h->kind == FORGE_VOCAB_WORDPIECE) {
        h->bos = 101, h->unk = 100, h->pad = 0, h->sep = 102;
        h->flags = FORGE_VOCAB_ESCAPED | FORGE_VOCAB_LOWERCASE;
        get_flag(b, "normalizer.lowercase", FORGE_VOCAB_LOWERCASE);
        if (h->flags & FORGE_VOCAB_LOWERCASE) h->flags |= FORGE_VOCAB_STRIP_ACCENTS;
        get_flag(b, "normalizer.strip_accents", FORGE_VOCAB_STRIP_ACCENTS);
    } else {
        read_pre(b);
        const uint32_t o = b->pre->options;
        h->pre   = (uint8_t)b->pre->pre;
        h->bos   = o & NO_BOS || model_is(b, "gemma4") ? -1 : 11;
        h->eos   = model_is(b, "gemma4") ? -1 : 11;
        h->flags = (uint16_t)((o & ADD_BOS ? FORGE_VOCAB_ADD_BOS : 0) | (o & IGNORE_MERGES ? FORGE_VOCAB_IGNORE_MERGES : 0)
                              | (o & WHOLE ? FORGE_VOCAB_ESCAPED : 0) | (o & GEMMA4 ? FORGE_VOCAB_NEWLINES : 0)
                              | (o & NFC && !b->llama_cpp ? FORGE_VOCAB_NFC : 0));
    }
    if (b->llama_cpp && (h->kind == FORGE_VOCAB_BPE || h->kind == FORGE_VOCAB_WORDPIECE)) h->flags |= FORGE_VOCAB_LLAMA_CPP;
    get_flag(b, "add_space_prefix", FORGE_VOCAB_SPACE_PREFIX);
    get_flag(b, "add_bos_token", FORGE_VOCAB_ADD_BOS);
    get_flag(b, "add_eos_token", FORGE_VOCAB_ADD_EOS);
    get_flag(b, "remove_extra_whitespaces", FORGE_VOCAB_MERGE_SPACES);
    /* llama.cpp overrides the files of gemma4, and ignores those of WordPiece: text is always between [CLS] and [SEP] */
    if ((b->pre && b->pre->options & GEMMA4) || h->kind == FORGE_VOCAB_WORDPIECE) h->flags |= FORGE_VOCAB_ADD_BOS;
    if (h->kind == FORGE_VOCAB_WORDPIECE) h->flags &= (uint16_t)~FORGE_VOCAB_ADD_EOS;
}

static uint8_t attr_of_type(uint64_t type)
{
    switch (type) {                                /* gguf.md, tokenizer.ggml.token_type */
    case 1:  return FORGE_ATTR_NORMAL;
    case 2:  return FORGE_ATTR_UNKNOWN;
    case 3:  return FORGE_ATTR_CONTROL;
    case 4:  return FORGE_ATTR_USER_DEFINED;
    case 6:  return FORGE_ATTR_BYTE;
    default: return 0;                             /* unused, undefined */
    }
}

/* Higher scores merge first: the bits of the score, mapped so that unsigned numbers ascend while the score descends. */
static uint32_t score_key(double score)
{
    const float f = score != score ? -3.4e38f : score == 0 ? 0.0f : (float)score;
    uint32_t    bits;
    memcpy(&bits, &f, 4);
    return ~(bits >> 31 ? ~bits : bits | 0x80000000u);
}

static uint32_t score_bits(const struct build *b, double score, uint32_t id)
{
    const float f = (float)score;
    uint32_t    bits;
    if (!(f >= -1e30f && f <= 1e30f))
        die("%s: 'tokenizer.ggml.scores' of token %u is %g, not a sum of logarithms; convert the model again", b->gguf->path, id, score);
    memcpy(&bits, &f, 4);
    return bits;
}

static void read_tokens(struct build *b, uint32_t n_vocab, uint64_t n_merges)
{
    const struct gguf       *g      = b->gguf;
    const struct gguf_value *tokens = find_array(g, "tokenizer.ggml.tokens", true);
    const struct gguf_value *scores = find_array(g, "tokenizer.ggml.scores", false);
    const struct gguf_value *types  = find_array(g, "tokenizer.ggml.token_type", false);
    if (!tokens || tokens->count == 0)
        die("%s: 'tokenizer.ggml.tokens' is %s; convert the model again", g->path, tokens ? "empty" : "missing");
    if (tokens->count > (n_vocab ? n_vocab : INT32_MAX / 4))
        die("%s: 'tokenizer.ggml.tokens' has %" PRIu64 " tokens, the model only %u rows; convert the model again", g->path, tokens->count,
            n_vocab);
    if (tokens->count < n_vocab)
        warn("%s: 'tokenizer.ggml.tokens' has %" PRIu64 " tokens for the model's %u rows: the tokens from %" PRIu64 " on have no text,"
             " and nothing is printed when the model chooses such a token; if they should have texts, convert the model again", g->path,
             tokens->count,
             n_vocab, tokens->count);
    if (scores && scores->item_type != GGUF_F32)
        die("%s: 'tokenizer.ggml.scores' is an array of %s, not of f32; convert the model again", g->path,
            gguf_type_name(scores->item_type));
    if (scores && scores->count < tokens->count)
        die("%s: 'tokenizer.ggml.scores' has %" PRIu64 " items for %" PRIu64 " tokens; convert the model again", g->path, scores->count,
            tokens->count);
    if (types && (types->item_type == GGUF_F32 || types->item_type == GGUF_F64 || types->item_type == GGUF_BOOL))
        die("%s: 'tokenizer.ggml.token_type' is an array of %s, not of integers; convert the model again", g->path,
            gguf_type_name(types->item_type));
    if (types && types->count < tokens->count)
        die("%s: 'tokenizer.ggml.token_type' has %" PRIu64 " items for %" PRIu64 " tokens; convert the model again", g->path, types->count,
            tokens->count);
    const uint64_t most_merges = (UINT32_MAX / 4 - tokens->count - 256) / 3;
    if (n_merges > most_merges)
        die("%s: 'tokenizer.ggml.merges' has %" PRIu64 " items; forgec supports at most %" PRIu64, g->path, n_merges, most_merges);

    b->h.n_tokens  = b->h.n_symbols = (uint32_t)tokens->count;
    b->max_symbols = (uint32_t)(tokens->count + 256 + 3 * n_merges);
    b->n_slots     = 2 * b->max_symbols;
    b->symbols     = arena_array(b->arena, struct piece, b->max_symbols);
    b->slots       = arena_array(b->arena, uint32_t, b->n_slots);
    b->attr        = arena_array(b->arena, uint8_t, b->h.n_tokens);
    b->in_text     = arena_array(b->arena, bool, b->h.n_tokens);
    b->score       = arena_array(b->arena, uint32_t, b->h.n_tokens);
    memset(b->slots, 0xff, b->n_slots * sizeof b->slots[0]);
    for (uint32_t i = 0; i < b->h.n_tokens; i++) {
        struct piece p = piece_of(g, "tokenizer.ggml.tokens", i, tokens->strings[i]);
        if (p.n == 0) {
            const char *name = arena_printf(b->arena, "[EMPTY_%u]", i);
            p = (struct piece){ (const uint8_t *)name, (uint32_t)strlen(name) };
        }
        b->symbols[i] = p;
        b->slots[symbol_slot(b, p)] = i;
        const uint64_t type  = types ? gguf_item_u64(types, i) : 1;
        const double   score = scores ? gguf_item_f64(scores, i) : 0;
        b->attr[i]    = attr_of_type(type);
        b->in_text[i] = type == 1 || type == 4 || type == 5;                 /* normal, user-defined, unused */
        b->score[i]   = b->h.kind == FORGE_VOCAB_UNIGRAM ? score_bits(b, score, i) : score_key(score);
        if (p.n > b->h.max_token_bytes) b->h.max_token_bytes = p.n;
    }
}

/* The first of equal pairs counts. A merge without a token for its result still happens; its bytes are spelt out later. */
static void read_merges(struct build *b, const struct gguf_value *merges)
{
    b->merges         = arena_array(b->arena, struct forge_merge, merges->count);
    uint32_t n_slots  = (uint32_t)merges->count * 2 + 1, *slots = arena_array(b->arena, uint32_t, n_slots);
    memset(slots, 0xff, n_slots * sizeof slots[0]);
    for (uint64_t i = 0; i < merges->count; i++) {
        const struct piece p     = piece_of(b->gguf, "tokenizer.ggml.merges", i, merges->strings[i]);
        const uint8_t     *blank = p.n > 1 ? memchr(p.text + 1, ' ', p.n - 1) : NULL;
        if (!blank || blank + 1 == p.text + p.n) continue;
        const struct piece left  = { p.text, (uint32_t)(blank - p.text) };
        const struct piece right = { blank + 1, p.n - left.n - 1 };
        uint8_t           *whole = arena_alloc(b->arena, left.n + right.n);
        memcpy(whole, left.text, left.n);
        memcpy(whole + left.n, right.text, right.n);
        if (memchr(whole, ' ', left.n + right.n)) continue;        /* no text that merges has a blank: blanks are U+0120 or U+2581 */
        struct forge_merge m;
        m.left   = symbol_intern(b, left);
        m.right  = symbol_intern(b, right);
        m.result = symbol_intern(b, (struct piece){ whole, left.n + right.n });
        uint32_t slot = seeded_slot(b, (const uint32_t[]){ m.left, m.right }, 8, n_slots);
        while (slots[slot] != NONE && !(b->merges[slots[slot]].left == m.left && b->merges[slots[slot]].right == m.right))
            slot = slot + 1 < n_slots ? slot + 1 : 0;
        if (slots[slot] != NONE) continue;
        slots[slot] = b->h.n_merges;
        b->merges[b->h.n_merges++] = m;
    }
}

static void find_bytes(struct build *b)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        const uint8_t raw     = (uint8_t)byte;
        const uint32_t single = b->slots[symbol_slot(b, (struct piece){ &raw, 1 })];
        b->byte_token[byte]   = single < b->h.n_tokens ? single : NONE;
        if (b->h.flags & FORGE_VOCAB_ESCAPED) {
            const int32_t id = token_find(b, arena_printf(b->arena, "<0x%02X>", byte));
            b->byte_symbol[byte] = id >= 0 ? (uint32_t)id : b->h.kind == FORGE_VOCAB_BPE ? NONE : b->byte_token[byte];
        } else {
            uint8_t *text = arena_alloc(b->arena, 4);
            b->byte_symbol[byte] = symbol_intern(b, (struct piece){ text, (uint32_t)forge_utf8_put(text, forge_byte_codepoint(raw)) });
        }
    }
}

/* ---- parts and attributes ---- */

static void add_attr(struct build *b, int32_t id, uint8_t attr) { if (id >= 0) b->attr[id] |= attr; }

/* Codestral has Mistral's vocabulary, whose other models were not trained to fill in text.
 * [SUFFIX] text after [PREFIX] text before: mistral-common, InstructTokenizerV2.encode_fim. */
static void read_fim(struct build *b)
{
    static const enum part parts[FORGE_FIM_COUNT] = { FIM_PRE, FIM_SUF, FIM_MID, FIM_REP, FIM_SEP };
    struct gguf_string name;
    for (size_t i = 0; i < FORGE_FIM_COUNT; i++) b->h.fim[i] = b->part[parts[i]];
    const int32_t prefix = token_find(b, "[PREFIX]"), suffix = token_find(b, "[SUFFIX]");
    if (b->part[FIM_PRE] >= 0 || prefix < 0 || suffix < 0 || !gguf_get_string(b->gguf, "general.name", &name)) return;
    if (!strcasestr(arena_printf(b->arena, "%.*s", (int)(name.size < 200 ? name.size : 200), name.data), "codestral")) return;
    b->h.fim[FORGE_FIM_PREFIX] = prefix;
    b->h.fim[FORGE_FIM_SUFFIX] = suffix;
    b->h.flags |= FORGE_VOCAB_SUFFIX_FIRST;
}

static void read_ids(struct build *b)
{
    struct forge_vocab_header *h = &b->h;
    int32_t *const defaults[] = { &h->bos, &h->eos, &h->unk, &h->pad, &h->sep };
    for (size_t i = 0; i < COUNT_OF(defaults); i++)
        if (*defaults[i] >= (int32_t)h->n_tokens) *defaults[i] = -1;
    get_id(b, "bos_token_id", &h->bos);
    get_id(b, "eos_token_id", &h->eos);
    get_id(b, "unknown_token_id", &h->unk);
    get_id(b, "padding_token_id", &h->pad);
    get_id(b, "seperator_token_id", &h->sep);              /* spelt so in GGUF */
    for (size_t i = 0; i < N_PARTS; i++) b->part[i] = -1;
    for (size_t i = 0; i < COUNT_OF(part_keys); i++) get_id(b, part_keys[i].key, &b->part[part_keys[i].part]);

    bool given[N_PARTS];
    for (size_t i = 0; i < N_PARTS; i++) given[i] = b->part[i] >= 0;
    for (size_t i = 0; i < COUNT_OF(part_texts); i++) {
        const enum part part = part_texts[i].part;
        const int32_t   id   = given[part] || b->part[part] >= 0 ? -1 : token_find(b, part_texts[i].text);
        if (id < 0) continue;
        b->part[part] = id;
        add_attr(b, id, FORGE_ATTR_CONTROL);
    }
    h->eot = b->part[EOT];
    read_fim(b);
}

static void find_end_tokens(struct build *b)
{
    add_attr(b, b->part[FIM_PAD], FORGE_ATTR_EOG);
    add_attr(b, b->part[FIM_REP], FORGE_ATTR_EOG);
    add_attr(b, b->part[FIM_SEP], FORGE_ATTR_EOG);
    for (size_t i = 0; i < COUNT_OF(eog_texts); i++) add_attr(b, token_find(b, eog_texts[i]), FORGE_ATTR_EOG | FORGE_ATTR_CONTROL);
    for (size_t i = 0; i < COUNT_OF(shown_texts); i++) {
        const int32_t id = token_find(b, shown_texts[i]);
        if (id >= 0) b->attr[id] = (uint8_t)(FORGE_ATTR_USER_DEFINED | (b->attr[id] & FORGE_ATTR_EOG));
    }
    add_attr(b, b->h.eos, FORGE_ATTR_EOG);
    add_attr(b, b->part[EOT], FORGE_ATTR_EOG);
    add_attr(b, b->part[EOM], FORGE_ATTR_EOG);

    /* gpt-oss and solar-open end with <|return|> or <|call|>: there <|end|> only ends a message. */
    const int32_t end  = token_find(b, "<|end|>");
    const bool    call = token_find(b, "<|call|>") >= 0 || token_find(b, "<|calls|>") >= 0;
    if (end >= 0 && call && (token_find(b, "<|return|>") >= 0 || token_find(b, "<|flush|>") >= 0)) b->attr[end] = FORGE_ATTR_USER_DEFINED;
    const int32_t close = token_find(b, "</s>");
    if (close >= 0 && token_find(b, "<|tool_response>") >= 0) b->attr[close] = FORGE_ATTR_NORMAL;

    const struct token_list listed = ending_tokens(b->arena, b->gguf);
    for (uint32_t i = 0; i < listed.n; i++) add_attr(b, (int32_t)listed.ids[i], FORGE_ATTR_EOG);
}

static bool is_special(uint8_t attr) { return attr & (FORGE_ATTR_CONTROL | FORGE_ATTR_USER_DEFINED | FORGE_ATTR_UNKNOWN); }

static bool contains_folded(struct gguf_string s, const char *needle)
{
    const size_t n = strlen(needle);
    for (uint64_t i = 0; i + n <= s.size; i++) {
        size_t k = 0;
        while (k < n && (s.data[i + k] >= 'A' && s.data[i + k] <= 'Z' ? s.data[i + k] + 32 : s.data[i + k]) == needle[k]) k++;
        if (k == n) return true;
    }
    return false;
}

/* GGUF has no key for these attributes; llama.cpp derives them from the model's name. */
static void set_strips(struct build *b)
{
    struct gguf_string name = { "", 0 };
    gguf_get_string(b->gguf, "general.name", &name);
    if (b->pre && b->pre->options & MASK_LSTRIP) {
        add_attr(b, token_find(b, "<mask>"), FORGE_ATTR_LSTRIP);
    } else if (contains_folded(name, "phi-3") || contains_folded(name, "phi3")) {
        static const char *const keep[] = { "<unk>", "<s>", "<|endoftext|>" };
        for (uint32_t i = 0; i < b->h.n_tokens; i++)
            if (is_special(b->attr[i])) b->attr[i] |= FORGE_ATTR_RSTRIP;
        add_attr(b, token_find(b, "</s>"), FORGE_ATTR_RSTRIP);
        for (size_t i = 0; i < COUNT_OF(keep); i++) {
            const int32_t id = token_find(b, keep[i]);
            if (id >= 0) b->attr[id] = (uint8_t)(b->attr[id] & ~FORGE_ATTR_RSTRIP);
        }
    } else if (contains_folded(name, "modern-bert")) {
        add_attr(b, token_find(b, "[MASK]"), FORGE_ATTR_LSTRIP);
    }
}

/* qsort has no context argument; the compiler is single-threaded here. */
static const struct build *sorting;
static int by_length(const void *x, const void *y)
{
    const uint32_t i = *(const uint32_t *)x, j = *(const uint32_t *)y, n = sorting->symbols[i].n, m = sorting->symbols[j].n;
    return n != m ? (n > m ? -1 : 1) : i < j ? -1 : i > j;
}
static int by_text(const void *x, const void *y)
{
    const uint32_t     i = *(const uint32_t *)x, j = *(const uint32_t *)y;
    const struct piece p = sorting->symbols[sorting->special[i]], q = sorting->symbols[sorting->special[j]];
    const int          c = memcmp(p.text, q.text, p.n < q.n ? p.n : q.n);
    return c ? c : p.n != q.n ? (p.n < q.n ? -1 : 1) : i < j ? -1 : i > j;
}

static void list_specials(struct build *b)
{
    b->special        = arena_array(b->arena, uint32_t, b->h.n_tokens);
    b->special_sorted = arena_array(b->arena, uint32_t, b->h.n_tokens);
    for (uint32_t i = 0; i < b->h.n_tokens; i++)
        if (is_special(b->attr[i])) b->special[b->h.n_special++] = i;
    for (uint32_t i = 0; i < b->h.n_special; i++) b->special_sorted[i] = i;
    sorting = b;
    qsort(b->special, b->h.n_special, sizeof b->special[0], by_length);
    qsort(b->special_sorted, b->h.n_special, sizeof b->special_sorted[0], by_text);
}

/* ---- Unigram and WordPiece ---- */

static int by_bytes(const void *x, const void *y)
{
    const uint32_t     i = *(const uint32_t *)x, j = *(const uint32_t *)y;
    const struct piece p = sorting->symbols[i], q = sorting->symbols[j];
    const int          c = memcmp(p.text, q.text, p.n < q.n ? p.n : q.n);
    return c ? c : p.n != q.n ? (p.n < q.n ? -1 : 1) : i < j ? -1 : i > j;
}

/* Sorts the tokens that text can become; of equal texts the last token counts. */
static void sort_pieces(struct build *b)
{
    struct forge_vocab_header *h = &b->h;
    uint32_t                   n = 0;
    b->sorted = arena_array(b->arena, uint32_t, h->n_tokens);
    for (uint32_t i = 0; i < h->n_tokens; i++)
        if (h->kind == FORGE_VOCAB_WORDPIECE || b->in_text[i]) b->sorted[n++] = i;
    sorting = b;
    qsort(b->sorted, n, sizeof b->sorted[0], by_bytes);
    for (uint32_t i = 0; i < n; i++)
        if (i + 1 == n || !piece_equal(b->symbols[b->sorted[i]], b->symbols[b->sorted[i + 1]])) b->sorted[h->n_sorted++] = b->sorted[i];
}

/* A character without a piece costs 10 more than the worst piece; user-defined pieces cost nothing. */
static void set_scores(struct build *b)
{
    float least = 3.402823466e38f;
    for (uint32_t i = 0; i < b->h.n_tokens; i++) {
        const float score = forge_score(b->score[i]);
        if (b->attr[i] & FORGE_ATTR_NORMAL && score < least) least = score;
        if (b->attr[i] & FORGE_ATTR_USER_DEFINED) b->score[i] = 0;
    }
    b->h.unknown_score = least - 10.0f;
}

/* ---- the image ---- */

/* One entry per bucket on average. */
static uint32_t buckets_for(uint32_t n) { return n + 1; }

struct entry { uint32_t bucket, index; };          /* index: token or rank */

static int by_token_bucket(const void *x, const void *y)
{
    const struct entry *l = x, *r = y;
    if (l->bucket != r->bucket) return l->bucket < r->bucket ? -1 : 1;
    const struct piece p = sorting->symbols[l->index], q = sorting->symbols[r->index];
    return forge_text_order(p.text, p.n, q.text, q.n);
}

static int by_merge_bucket(const void *x, const void *y)
{
    const struct entry *l = x, *r = y;
    if (l->bucket != r->bucket) return l->bucket < r->bucket ? -1 : 1;
    const struct forge_merge *p = &sorting->merges[l->index], *q = &sorting->merges[r->index];
    return p->left != q->left ? (p->left < q->left ? -1 : 1) : p->right < q->right ? -1 : p->right > q->right;
}

/* entries: [n], sorted. */
static void write_buckets(const struct entry *entries, uint32_t n, uint32_t n_buckets, uint32_t *bucket, uint32_t *order)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < n_buckets; i++) {
        bucket[i] = at;
        while (at < n && entries[at].bucket == i) at++;
    }
    bucket[n_buckets] = n;
    for (uint32_t i = 0; i < n; i++) order[i] = entries[i].index;
}

static void write_tokens(const struct build *b, uint32_t *bucket, uint32_t *order)
{
    const struct forge_vocab_header *h = &b->h;
    struct entry *entries = arena_array(b->arena, struct entry, h->n_symbols);
    uint32_t      n = 0;
    for (uint32_t i = 0; i < h->n_symbols; i++) {
        const struct piece p = b->symbols[i];
        if (b->slots[symbol_slot(b, p)] != i) continue;                      /* a later token has the same text */
        entries[n++] = (struct entry){ forge_hash_bucket(forge_hash_text(p.text, p.n), h->token_buckets), i };
    }
    sorting = b;
    qsort(entries, n, sizeof *entries, by_token_bucket);
    memset(order, 0xff, 4ull * h->n_symbols);
    write_buckets(entries, n, h->token_buckets, bucket, order);
}

static void write_merges(const struct build *b, uint32_t *bucket, uint32_t *order)
{
    const struct forge_vocab_header *h = &b->h;
    struct entry *entries = arena_array(b->arena, struct entry, h->n_merges);
    for (uint32_t i = 0; i < h->n_merges; i++)
        entries[i] = (struct entry){ forge_hash_bucket(forge_hash_pair(b->merges[i].left, b->merges[i].right), h->merge_buckets), i };
    sorting = b;
    if (h->n_merges) qsort(entries, h->n_merges, sizeof *entries, by_merge_bucket);
    write_buckets(entries, h->n_merges, h->merge_buckets, bucket, order);
}

/* Writes n rows of 32-bit numbers.  table: fold.inc, where each number is the difference to that of the row before. */
static void write_rows(uint8_t *image, const int32_t *table, uint32_t n, size_t row_bytes)
{
    uint32_t    *out   = (uint32_t *)(void *)image;
    const size_t width = row_bytes / sizeof *out;
    for (size_t i = 0; i < n * width; i++) out[i] = (uint32_t)table[i] + (i < width ? 0 : out[i - width]);
}

static struct bytes write_image(struct build *b)
{
    struct forge_vocab_header *h    = &b->h;
    uint64_t                   text = 0;
    for (uint32_t i = 0; i < h->n_symbols; i++) text += b->symbols[i].n;
    memcpy(h->magic, FORGE_VOCAB_MAGIC, 8);
    h->token_buckets = buckets_for(h->n_symbols);
    h->merge_buckets = buckets_for(h->n_merges);
    const struct forge_vocab_layout l = forge_vocab_layout(h);
    if (l.text + text > INT32_MAX) die("%s: the vocabulary has %" PRIu64 " bytes; the maximum is 2 GiB", b->gguf->path, l.text + text);
    h->bytes = (uint32_t)(l.text + text);

    uint8_t *image = arena_alloc(b->arena, h->bytes);
    memcpy(image, h, sizeof *h);
    memcpy(image + l.byte_symbol, b->byte_symbol, sizeof b->byte_symbol);
    memcpy(image + l.byte_token, b->byte_token, sizeof b->byte_token);
    for (uint32_t i = 0; i < h->n_special; i++) {
        const uint32_t id = b->special[i];
        image[l.special_first + b->symbols[id].text[0]] |= b->attr[id] & (FORGE_ATTR_CONTROL | FORGE_ATTR_UNKNOWN) ? 1 : 3;
    }
    uint32_t *offset = (uint32_t *)(void *)(image + l.text_offset), at = 0;
    for (uint32_t i = 0; i < h->n_symbols; i++) {
        offset[i] = at;
        memcpy(image + l.text + at, b->symbols[i].text, b->symbols[i].n);
        at += b->symbols[i].n;
    }
    offset[h->n_symbols] = at;
    write_tokens(b, (uint32_t *)(void *)(image + l.token_bucket), (uint32_t *)(void *)(image + l.token_order));
    write_merges(b, (uint32_t *)(void *)(image + l.merge_bucket), (uint32_t *)(void *)(image + l.merge_order));
    if (h->n_merges)  memcpy(image + l.merge, b->merges, sizeof b->merges[0] * h->n_merges);
    if (h->n_special) memcpy(image + l.special, b->special, 4ull * h->n_special);
    if (h->n_special) memcpy(image + l.special_sorted, b->special_sorted, 4ull * h->n_special);
    if (h->kind == FORGE_VOCAB_SPM || h->kind == FORGE_VOCAB_UNIGRAM) memcpy(image + l.score, b->score, 4ull * h->n_tokens);
    if (h->n_sorted) {
        uint32_t *first = (uint32_t *)(void *)(image + l.sorted_first), k = 0;
        for (uint32_t byte = 0; byte <= 256; byte++) {
            while (k < h->n_sorted && b->symbols[b->sorted[k]].text[0] < byte) k++;
            first[byte] = k;
        }
        memcpy(image + l.sorted, b->sorted, 4ull * h->n_sorted);
    }
    write_rows(image + l.fold, fold_base, h->n_fold_base, sizeof(struct forge_fold));
    write_rows(image + l.fold + sizeof(struct forge_fold) * h->n_fold_base, b->llama_cpp ? fold_lower : fold_bert, h->n_fold_lower,
               sizeof(struct forge_fold));
    write_rows(image + l.classes, b->llama_cpp ? classes_llama_cpp : classes_bert, h->n_classes, sizeof(struct forge_class));
    write_rows(image + l.combining, combining_classes, h->n_combining, sizeof(struct forge_class));
    write_rows(image + l.decomposition, decompositions, h->n_decompositions, sizeof(struct forge_decomposition));
    write_rows(image + l.composition, compositions, h->n_compositions, sizeof(uint32_t));
    if (h->n_xcda) memcpy(image + l.xcda, b->charsmap.units, 4ull * h->n_xcda);
    if (h->n_xcda) memcpy(image + l.replacement, b->charsmap.replacements, h->replacement_bytes);
    if (h->n_suppressed) memcpy(image + l.suppressed, b->suppressed.ids, 4ull * h->n_suppressed);
    memcpy(image + l.attr, b->attr, h->n_tokens);
    return (struct bytes){ image, h->bytes };
}

/* Chooses the rows of Unicode's data that the tokenizer of this kind reads. */
static void choose_tables(struct build *b)
{
    struct forge_vocab_header *h = &b->h;
    if (h->flags & FORGE_VOCAB_LLAMA_CPP) h->n_classes = sizeof classes_llama_cpp / (sizeof(struct forge_class));
    if (h->kind == FORGE_VOCAB_WORDPIECE && b->llama_cpp) {
        h->n_fold_base  = sizeof fold_base / (sizeof(struct forge_fold));
        h->n_fold_lower = sizeof fold_lower / (sizeof(struct forge_fold));
    } else if (h->kind == FORGE_VOCAB_WORDPIECE) {
        h->n_fold_lower = sizeof fold_bert / (sizeof(struct forge_fold));
        h->n_classes    = sizeof classes_bert / (sizeof(struct forge_class));
    }
    if (h->flags & FORGE_VOCAB_NFC) h->n_compositions = COUNT_OF(compositions);
    if (h->flags & FORGE_VOCAB_NFC || (h->kind == FORGE_VOCAB_WORDPIECE && !b->llama_cpp)) {
        h->n_decompositions = sizeof decompositions / (sizeof(struct forge_decomposition));
        h->n_combining      = sizeof combining_classes / (sizeof(struct forge_class));
    }
}

/* Describes texts that may have other tokens in llama.cpp, however rare they are; NULL: there are no such texts. */
static const char *difference(const struct build *b)
{
    static const enum forge_pre stand_ins[] = { FORGE_PRE_GPT4O, FORGE_PRE_GRANITE_EMBED, FORGE_PRE_TINY_AYA, FORGE_PRE_YOUTU,
                                                FORGE_PRE_KIMI_K2, FORGE_PRE_TEKKEN, FORGE_PRE_AFMOE };
    if (b->h.kind == FORGE_VOCAB_WORDPIECE) return "WordPiece of accents and of Hangul";
    if (b->h.kind != FORGE_VOCAB_BPE) return NULL;
    if (b->pre->options & NFC) return "text is composed (NFC)";
    for (size_t i = 0; i < COUNT_OF(stand_ins); i++)
        if (b->pre->pre == stand_ins[i]) return "words with combining marks or capitals outside ASCII";
    return NULL;
}

struct bytes vocab_build(struct arena *a, const struct gguf *g, uint32_t n_vocab) { return vocab_build_as(a, g, n_vocab, false, NULL); }

struct bytes vocab_build_as(struct arena *a, const struct gguf *g, uint32_t n_vocab, bool llama_cpp, const char **differs)
{
    struct build *b = arena_new(a, struct build);
    b->arena = a;
    b->gguf  = g;
    b->seed  = entropy();
    b->llama_cpp = llama_cpp;
    if (differs) *differs = NULL;
    if (!read_kind(b)) return (struct bytes){ NULL, 0 };
    const struct gguf_value *merges = find_array(g, "tokenizer.ggml.merges", true);
    if (b->h.kind != FORGE_VOCAB_BPE) merges = NULL;
    set_defaults(b);
    if (b->h.kind == FORGE_VOCAB_BPE && !merges && !(b->pre->options & NO_MERGES))
        die("%s: 'tokenizer.ggml.merges' is missing; convert the model again", g->path);
    read_tokens(b, n_vocab, merges ? merges->count : 0);
    if (merges) read_merges(b, merges);
    if (b->h.kind == FORGE_VOCAB_UNIGRAM) {
        b->charsmap = charsmap_read(a, g);
        b->h.n_xcda = b->charsmap.n_units;
        b->h.replacement_bytes = b->charsmap.bytes;
        set_scores(b);
    }
    choose_tables(b);
    const char *what = difference(b);
    if (what)    b->h.flags |= FORGE_VOCAB_DIFFERS;
    if (differs) *differs = what;
    if (b->h.kind == FORGE_VOCAB_UNIGRAM || b->h.kind == FORGE_VOCAB_WORDPIECE) sort_pieces(b);
    find_bytes(b);
    read_ids(b);
    find_end_tokens(b);
    set_strips(b);
    list_specials(b);
    b->suppressed = suppressed_tokens(a, g);
    b->h.n_suppressed = b->suppressed.n;
    return write_image(b);
}
