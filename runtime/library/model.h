/* model.h -- a language model as a library.  forgec generates a header from this text: it replaces `model` and `MODEL` by the prefix
 * (--prefix) and adds the constants of one model; C99 and C++.
 *
 *     static unsigned char workspace[MODEL_WORKSPACE_BYTES] __attribute__((aligned(MODEL_ALIGN)));
 *     static float logits[MODEL_N_VOCAB];
 *     struct model *m;
 *     if (model_open(&m, workspace, sizeof workspace, NULL) != MODEL_OK) ...
 *     model_prefill(m, prompt, n_prompt, logits);
 *     while (!model_is_end(token = model_sample(m, logits, NULL))) { put(token); model_step(m, token, logits); }
 *
 * All memory of a model is in the caller's workspace.  The library allocates, prints and opens nothing, never aborts, has no variables
 * outside the workspace, and uses no threads except those of the caller's parallel_for.  Several models, and several instances of one, may
 * exist side by side; only one thread at a time may use an instance.  Functions return MODEL_OK, MODEL_MORE or a negative enum
 * model_status.  A function that returns an error has changed nothing, unless its comment says otherwise.
 *
 * A GPU object is for Linux programs and needs their C library (and -ldl before glibc 2.34).  Its host memory is in the workspace, too.
 * Pinned and device memory come from the device's library: MODEL_DEVICE_BYTES for each instance, including the weights.  model_open opens
 * this library with the first GPU that fits.  The library may read its environment, open files and start threads; AMD's may end the process
 * when a kernel faults.  An instance works on any thread.  After MODEL_DEVICE_FAILED only model_close may be called.
 *
 * A CPU object needs memcpy, memmove and memset from the program that it is linked into, and no other symbol.  It does not check whether
 * the processor has the target's instructions.  (For a target with AMX, model_open asks Linux for its tiles.)  It is position-independent;
 * its weights are read-only and can be used in place (flash).  Floating point follows the target's calling convention, with the default
 * rounding mode.  Results do not depend on the number of threads of parallel_for. */
#ifndef MODEL_H
#define MODEL_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

/* @constants: written by forgec; the values here are placeholders */
#define MODEL_ABI_VERSION      2u
#define MODEL_BUILD_HASH       ""                /* changes with the model, the options and forgec */
#define MODEL_INTERFACE        0x00000000u       /* changes with the numbers below: model_open compares it with the library's */
#define MODEL_NAME             ""
#define MODEL_TARGET           ""
#define MODEL_N_VOCAB          1u
#define MODEL_EMBEDDINGS       0                 /* 1: the model makes vectors of texts (model_embed); 0: it generates text */
#define MODEL_N_EMBD           1u                /* length of such a vector */
#define MODEL_N_CTX            1u                /* most tokens of a context */
#define MODEL_CHUNK            1u                /* most tokens that a prefill computes at once */
#define MODEL_ALIGN            64u               /* alignment of the workspace, and of weights that the caller passes */
#define MODEL_WORKSPACE_BYTES  ((size_t)64)      /* all memory of an instance, including its state (GPU: see MODEL_DEVICE_BYTES) */
#define MODEL_SEQUENCE_BYTES   ((size_t)64)      /* workspace of each further sequence */
#define MODEL_WORKSPACE_OF(n)  (MODEL_WORKSPACE_BYTES + ((size_t)(n) - 1) * MODEL_SEQUENCE_BYTES)    /* for n > 0 sequences */
#define MODEL_KV_BYTES         ((size_t)64)      /* part of the state: keys and values of a full context */
#define MODEL_STATE_BYTES      ((size_t)64)      /* most bytes that model_save writes */
#define MODEL_WEIGHTS_BYTES    ((uint64_t)64)
#define MODEL_WEIGHTS_EMBEDDED 1                 /* 0: the caller passes them */
#define MODEL_N_TENSORS        1u                /* tensors of the weights, each with a hash */
#define MODEL_STACK_BYTES      ((size_t)4096)    /* most stack of a call or job, except those of MODEL_CHAT_STACK; GPU: plus its library */
#define MODEL_WORKERS          8u                /* jobs of one parallel_for */
#define MODEL_TILES            1u                /* tiles of one decoded token (model_step_budget) */
#define MODEL_DEVICE_BYTES     ((uint64_t)0)     /* GPU: device memory of an instance, including its state; 0 on a CPU */
#define MODEL_SEQUENCE_DEVICE_BYTES ((uint64_t)0)    /* GPU: device memory of each further sequence; 0 on a CPU */
#define MODEL_TIMINGS             1u             /* most kernels of a step: size of model_profile's array */
#define MODEL_HAS_TOKENIZER    1
#define MODEL_ENCODE_SCRATCH(n) ((size_t)(n) * 120 + 8448)    /* scratch of model_encode for n bytes of text */
#define MODEL_HAS_CHAT         0                 /* 1: the model has a chat template (model_chat_open) */
#define MODEL_CHAT_BYTES(n)    ((size_t)(n) * 256 + 1048576)    /* suffices for most conversations of n bytes of JSON */
#define MODEL_CHAT_STACK(depth) ((size_t)(depth) * 384 + 106496)    /* most stack for a template of depth levels; 0: JSON, grammars */
#define MODEL_ANSWER_BYTES     ((size_t)64)      /* suffices for tool calls of 64 KB */
#define MODEL_ANSWER_LEAST     ((size_t)64)      /* minimum: tool calls of 1 KB */
#define MODEL_HAS_GRAMMAR      0                 /* 1: a grammar was built in (model_grammar_built_in) */
#define MODEL_LEXICON_BYTES    ((size_t)64)      /* memory of a lexicon while it is made */
#define MODEL_GRAMMAR_BYTES(n) ((size_t)(n) * 200 + 2097152)    /* suffices for grammars of n bytes while they are read */
#define MODEL_SCHEMA_BYTES(n)  ((size_t)(n) * 1500 + 8388608)    /* the same for JSON schemas */
#define MODEL_MASK_BYTES       ((size_t)64)      /* suffices for the masks of usual grammars */
#define MODEL_MASK_LEAST       ((size_t)64)      /* minimum: small grammars */
#define MODEL_MASK_WORDS       1u                /* 32-bit words of a mask, one bit for each token */
/* @end */

enum model_status {
    MODEL_OK            = 0,
    MODEL_MORE          = 1,                     /* model_step_budget: tiles are left; model_answer_token: the answer continues */
    MODEL_BAD_ARGUMENT  = -1,                    /* a null pointer, a token outside the vocabulary, n == 0, a wrong options size ...;
                                                  * model_open: the library was built with another header */
    MODEL_BAD_WORKSPACE = -2,                    /* too small or not aligned */
    MODEL_BAD_WEIGHTS   = -3,                    /* missing, of another size, or damaged */
    MODEL_CONTEXT_FULL  = -4,                    /* the tokens do not fit after those in the context */
    MODEL_BUSY          = -5,                    /* a step was begun and is not finished */
    MODEL_NOT_BUSY      = -6,
    MODEL_NO_TOKENIZER  = -7,
    MODEL_NO_ROOM       = -8,                    /* the output, the scratch or the memory is too small */
    MODEL_BAD_STATE     = -9,                    /* model_restore: not a state of this build, or damaged */
    MODEL_NO_DEVICE     = -10,                   /* GPU: no library, no GPU, or another GPU; CPU: Linux refuses the tiles of AMX */
    MODEL_DEVICE_FAILED = -11,
    MODEL_NO_MEMORY     = -12,                   /* GPU */
    MODEL_NOT_FINITE    = -13,                   /* logits with NaN or infinities: damaged weights, or a model that overflows */
    MODEL_CANNOT_REWIND = -14,                   /* model_reset: impossible for that position (0 always works); model_cancel */
    MODEL_NO_SEQUENCE   = -15,                   /* the instance has fewer sequences */
    MODEL_WRONG_KIND    = -16,                   /* the function needs the other value of MODEL_EMBEDDINGS */
    MODEL_NO_TEMPLATE   = -17,                   /* the model has no chat template */
    MODEL_REFUSED       = -18,                   /* a request, template, schema or grammar cannot be accepted; model_mask_token: a
                                                  * forbidden token */
    MODEL_STUCK         = -19                    /* no token is allowed */
};

struct model;                                    /* at the beginning of the workspace */

/* Runs run(job, i) for every i below n, in any order, any number of them at once, and returns when all have returned. */
typedef void model_job(void *job, uint32_t i);
typedef void model_parallel_for(void *context, uint32_t n, model_job *run, void *job);

enum model_verify { MODEL_VERIFY_NONE, MODEL_VERIFY_OPEN /* all weights, in model_open */ };

/* Zero is the default everywhere. */
struct model_options {
    uint32_t size;                               /* sizeof(struct model_options): later versions add members at the end */
    uint32_t verify;                             /* enum model_verify */
    const void *weights;                         /* MODEL_WEIGHTS_BYTES, aligned, unchanged as long as the instance is used; NULL:
                                                  * the embedded weights */
    uint64_t weights_bytes;
    model_parallel_for *parallel_for;            /* NULL: all jobs on the calling thread */
    void *parallel_context;
    void *(*device_symbol)(void *context, const char *name);     /* GPU: functions of the device library; NULL: open it by name */
    void *device_context;
    uint32_t n_sequences;                        /* 0: one; otherwise the workspace has MODEL_WORKSPACE_OF(n_sequences) */
};

/* The numbers above as the library has them, for callers in other languages.  A macro with an argument has two members: its value for 0,
 * and what each unit of the argument adds. */
struct model_facts {
    uint64_t size;                               /* sizeof(struct model_facts): later versions add members at the end */
    uint64_t abi_version, interface, n_vocab, embeddings, n_embd, n_ctx, chunk, align, workspace_bytes, sequence_bytes, kv_bytes;
    uint64_t state_bytes, weights_bytes, weights_embedded, n_tensors, stack_bytes, workers, tiles, device_bytes, sequence_device_bytes;
    uint64_t timings, has_tokenizer, encode_scratch, encode_scratch_per_byte, has_chat, chat_bytes, chat_bytes_per_byte;
    uint64_t chat_stack, chat_stack_per_level, answer_bytes, answer_least, has_grammar, lexicon_bytes;
    uint64_t grammar_bytes, grammar_bytes_per_byte, schema_bytes, schema_bytes_per_byte, mask_bytes, mask_least, mask_words;
};
/* Valid as long as the library is loaded; never NULL. */
const struct model_facts *model_facts(void);

/* Makes an instance in the workspace (MODEL_WORKSPACE_BYTES, MODEL_ALIGN).  options may be NULL.  All its sequences are empty.
 * model_open_checked returns MODEL_BAD_ARGUMENT if `interface` is not the library's, which a shared library of another build would
 * notice; calls of model_open in C and C++ are calls of it.  Other languages call either. */
int model_open(struct model **out, void *workspace, size_t bytes, const struct model_options *options);
int model_open_checked(struct model **out, void *workspace, size_t bytes, const struct model_options *options, uint32_t interface);
/* @callers: only in the headers that forgec writes, because the library itself renames model_open
#if defined(__cplusplus) && __cplusplus < 201103L
#define model_open(out, workspace, bytes, options) model_open_checked(out, workspace, bytes, options, MODEL_INTERFACE)
#else
#define model_open(...) model_open_checked(__VA_ARGS__, MODEL_INTERFACE)
#endif
@end */
/* CPU: does nothing.  GPU: frees the device's memory, except when a launch hangs, because freeing would hang, too.  NULL is allowed. */
void model_close(struct model *m);

/* Appends n tokens.  logits, if not NULL: MODEL_N_VOCAB values after the last token.  If any is not finite: MODEL_NOT_FINITE and an empty
 * context. */
int model_prefill(struct model *m, const int32_t *tokens, uint32_t n, float *logits);
/* Appends one token. */
int model_step(struct model *m, int32_t token, float *logits);

/* An embedding model (MODEL_EMBEDDINGS): writes MODEL_N_EMBD values, the vector of a text of n > 0 tokens.  The vector has length 1 unless
 * flags has MODEL_AS_IT_IS.  The previous context is discarded.  If any value is not finite: MODEL_NOT_FINITE. */
enum { MODEL_AS_IT_IS = 1 };
int model_embed(struct model *m, const int32_t *tokens, uint32_t n, uint32_t flags, float *vector);

/* The same in pieces, so that a watchdog can be fed and other work done between them.  After model_begin only model_step_budget may be
 * called for this instance, until it returns something other than MODEL_MORE, or model_cancel, which discards what was begun.  tokens and
 * logits must stay valid until then.  An embedding model: as model_embed with flags 0, with the vector in place of logits. */
int model_begin(struct model *m, const int32_t *tokens, uint32_t n, float *logits);
/* Computes at most n_tiles > 0 tiles.  A tile is the part of one of the MODEL_WORKERS in one kernel; on a GPU it is a decoded token or up
 * to MODEL_CHUNK tokens of a prefill.  MODEL_OK: the step is done. */
int model_step_budget(struct model *m, uint32_t n_tiles);
/* MODEL_OK: the context is what it was before model_begin, or nothing was begun.  MODEL_CANNOT_REWIND: the context is empty, because tiles
 * have already overwritten its state (see model_reset). */
int model_cancel(struct model *m);

uint32_t model_n_past(const struct model *m);    /* tokens in the context */
/* Removes the tokens from position n_past on.  MODEL_CANNOT_REWIND: this model keeps too little of earlier positions; nothing has changed.
 * 0 is always possible.  Any position is possible if no layer has a window or a state that every token replaces. */
int model_reset(struct model *m, uint32_t n_past);

/* Several texts in one instance.  Each is a sequence with its own context and random numbers; all share weights, activations and threads.
 * Sequences are numbered from 0 and take turns: all other functions act on the sequence in use, at first number 0.  Their results do not
 * depend on other sequences. */
int model_sequence_use(struct model *m, uint32_t sequence);
/* Copies tokens, state and random numbers of `from` to `to`; any sequence may be in use: a fork, or a snapshot to return to. */
int model_sequence_copy(struct model *m, uint32_t to, uint32_t from);

/* The context with its state as bytes, for this build only (MODEL_BUILD_HASH), on any machine of the target.  model_save writes at most
 * MODEL_STATE_BYTES, fewer for a short context, and sets *written.  Any sequence can be restored from these bytes.  model_restore: after
 * MODEL_BAD_STATE the context is empty. */
int model_save(struct model *m, void *out, size_t capacity, size_t *written);
int model_restore(struct model *m, const void *state, size_t bytes);

/* Zero is the default everywhere: the most probable token, no penalties. */
struct model_sampling {
    uint32_t size;
    float    temperature;                        /* 0: the most probable token */
    int32_t  top_k;                              /* 0: all */
    float    top_p;                              /* 0 or 1: all */
    float    min_p;
    float    repeat_penalty;                     /* 0 or 1: off */
    int32_t  repeat_last_n;                      /* last tokens that the penalty applies to, at most 64 */
    uint64_t seed;                               /* 0: continues the sequence's random numbers */
};
/* The next token, from logits [MODEL_N_VOCAB], which it may change.  -INFINITY forbids a token.  A negative result is an enum
 * model_status; MODEL_NOT_FINITE: a NaN, +INFINITY, or all tokens are forbidden. */
int32_t model_sample(struct model *m, float *logits, const struct model_sampling *sampling);

/* Text to tokens, by the model's tokenizer.  flags: MODEL_ADD_BOS adds the tokens that the model wants around a text; MODEL_SPECIAL turns
 * texts of control tokens into these tokens.  Returns the number of tokens, or a negative status.  scratch: MODEL_ENCODE_SCRATCH(n) bytes,
 * aligned to 8, used as far as needed. */
enum { MODEL_SPECIAL = 1, MODEL_ADD_BOS = 2 };
int64_t model_encode(const char *text, size_t n, uint32_t flags, int32_t *out, size_t capacity, void *scratch, size_t scratch_bytes);
/* Writes at most capacity bytes of one token (perhaps a part of a UTF-8 sequence) and returns their full number. */
int64_t model_decode(int32_t token, char *out, size_t capacity);
int32_t model_bos(void);                         /* -1: none */
int32_t model_eos(void);
int     model_is_end(int32_t token);             /* 1: ends the text; negative values count as the end */

/* Compares the hashes of at most n tensors, from *at on, with those of the build; sets *at to the next tensor.  MODEL_MORE: some are left.
 * MODEL_BAD_WEIGHTS: the tensor before *at differs, and *name, if name is not NULL, is its name; or the hashes themselves are damaged, and
 * no tensor is left. */
int model_verify(struct model *m, uint32_t *at, uint32_t n, const char **name);

/* The time of one kernel in a step, all its launches together. */
struct model_timing {
    const char *name;                            /* "ffn_gate_up" */
    uint32_t    launches;
    int64_t     work;                            /* time at work, the mean of the threads; GPU: what the kernel adds to the step */
    int64_t     wait;                            /* CPU: the rest until the next kernel begins: barrier and distribution of jobs */
    uint64_t    bytes;                           /* of weights and state that it has to read */
    uint64_t    operations;                      /* of products, attention, convolutions and recurrences */
};

struct model_profiling {
    uint32_t size;                               /* sizeof(struct model_profiling) */
    uint32_t n_steps;                            /* measured steps, each way; 0: 8.  GPU: 3 to 23 for kernels of a token, 5 for prefill */
    uint32_t n_threads;                          /* threads of parallel_for, including the caller; 0: one for each job */
    uint64_t (*clock)(void *context);            /* CPU: a time in any unit that never decreases; jobs call it, too.  GPU: NULL (ns) */
    void    *clock_context;
    struct model_timing *timings;                /* [MODEL_TIMINGS] */
    uint32_t n_timings;                          /* result: kernels, in the order of their first launch */
    int64_t  step;                               /* result: time of the whole step, without clocks between kernels */
};
/* Measures a step of n tokens after the current context: 1 as in model_step, up to MODEL_CHUNK as in model_prefill, or a text of an
 * embedding model.  logits: as there, not NULL.  Steps with and without a clock at every kernel alternate.  Then the context is what
 * it was.  A model that cannot go back (model_reset) computes its tokens again, and its logits may round differently.  An embedding model's
 * context is empty afterwards. */
int model_profile(struct model *m, const int32_t *tokens, uint32_t n, float *logits, struct model_profiling *profile);

/* Conversations, answers, masks.  They need no instance.  Each object lies at the beginning of the memory that it is given, which must be
 * aligned to 8; the memory stays the caller's, and nothing needs to be closed.  Only one thread at a time may use an object, but any number
 * of threads may use a lexicon or a grammar, which do not change.  MODEL_NO_ROOM: the memory is too small.  model_grammar_open takes up to
 * MODEL_CHAT_STACK(0) of stack, model_chat_open MODEL_CHAT_STACK(depth), the others MODEL_STACK_BYTES like all functions. */

/* Why something is MODEL_REFUSED. */
struct model_refusal {
    uint32_t line, column;                       /* from 1, in the text given or in the chat template; 0: no place */
    char     text[300];                          /* a sentence, zero-terminated */
};

struct model_chat;
/* Zero is the default everywhere. */
struct model_chat_options {
    uint32_t size;                               /* sizeof(struct model_chat_options) */
    uint32_t depth;                              /* levels of nesting of a template, each with stack; 0: 600, the most */
    int64_t  now;                                /* local time in seconds since 1970, for templates that print the date; 0: no clock */
    uint64_t steps;                              /* most steps of a template (bounds its time); 0: 50 million, one or two seconds on a PC */
    struct model_refusal *refusal;               /* may be NULL */
};
/* Makes the prompt of a conversation by the model's chat template.  request: [n] bytes of JSON, an object in the form of OpenAI's chats,
 * with `messages` and optionally `tools`, `tool_choice` (only "none" has an effect), `documents`, `reasoning_effort`,
 * `add_generation_prompt` (default true) and `chat_template_kwargs`; other members are ignored.  If the last message is the assistant's,
 * the answer continues it.  request must not change while the conversation is used.  memory: MODEL_CHAT_BYTES(n) suffices for most; a
 * twentieth of it suffices for short conversations.  options may be NULL.  MODEL_REFUSED: not such JSON, or the template does not accept
 * it; *options->refusal says why. */
int model_chat_open(struct model_chat **out, void *memory, size_t bytes, const char *request, size_t n,
                    const struct model_chat_options *options);
/* The prompt as text of *n bytes, in the conversation's memory; NULL: c is not a conversation. */
const char *model_chat_text(const struct model_chat *c, size_t *n);
/* The prompt as tokens; returns their number or a negative status.  Text of the messages never becomes a control token.  MODEL_NO_ROOM:
 * capacity or the conversation's memory is too small; open a conversation with too little memory again with
 * more. */
int64_t model_chat_tokens(struct model_chat *c, int32_t *out, size_t capacity);

/* A piece of an answer.  Pointers are valid only during the call; texts are not zero-terminated. */
enum model_event_kind {
    MODEL_ANSWER_CONTENT, MODEL_ANSWER_REASONING,      /* a piece of text, never empty */
    MODEL_ANSWER_CALL,                           /* a tool call begins; text is the function's name */
    MODEL_ANSWER_ARGUMENTS,                      /* a piece of its arguments; together they are JSON */
    MODEL_ANSWER_CALL_END
};
struct model_event {
    uint32_t    kind;                            /* enum model_event_kind */
    uint32_t    call;                            /* number of the call, from 0 */
    const char *text;                            /* [n] */
    size_t      n;
    const char *id;                              /* [n_id] id of the call as the model wrote it; n_id 0: make one */
    size_t      n_id;
};
typedef void model_on_event(void *context, const struct model_event *event);

struct model_answer;
/* Parses the model's answer to the prompt of c as it arrives; tell is called with each piece.  c and its request must not change while the
 * answer is read, and tell must not call the answer's functions.  Tool calls are recognised if the request has tools.  memory:
 * MODEL_ANSWER_BYTES, at least MODEL_ANSWER_LEAST; a call longer than about a quarter of it is content. */
int model_answer_open(struct model_answer **out, void *memory, size_t bytes, const struct model_chat *c, model_on_event *tell,
                      void *context);
/* Adds the next token.  MODEL_MORE: the answer continues.  MODEL_OK: this token ended it, and all pieces have been passed to tell.
 * MODEL_NO_ROOM: a token of more than 1024 bytes.  MODEL_BAD_ARGUMENT: the answer has already ended. */
int model_answer_token(struct model_answer *a, int32_t token);
/* The same with text that may be cut anywhere and contains the texts of control tokens; model_answer_end marks its end. */
int model_answer_text(struct model_answer *a, const char *text, size_t n);
int model_answer_end(struct model_answer *a);
/* 1: the next text is reasoning, to which a grammar does not apply. */
int model_answer_in_reasoning(const struct model_answer *a);

struct model_lexicon;
/* The tokens in the order of their texts, which masks need; one lexicon serves any number of masks.  memory: MODEL_LEXICON_BYTES; the part
 * after *used bytes (used may be NULL) is free again. */
int model_lexicon_open(struct model_lexicon **out, void *memory, size_t bytes, size_t *used);

struct model_grammar;
enum model_grammar_kind {
    MODEL_GRAMMAR_GBNF,                          /* a grammar in llama.cpp's form */
    MODEL_GRAMMAR_SCHEMA,                        /* a JSON schema */
    MODEL_GRAMMAR_CHOICES                        /* texts to choose from: "yes\0no" with n = 6 */
};
/* Makes a grammar of text [n], which is not needed afterwards.  memory: MODEL_GRAMMAR_BYTES(n), for a schema MODEL_SCHEMA_BYTES(n); small
 * ones need far less.  *used as above.  MODEL_REFUSED: *refusal (may be NULL) says why. */
int model_grammar_open(const struct model_grammar **out, void *memory, size_t bytes, uint32_t kind, const char *text, size_t n,
                       size_t *used, struct model_refusal *refusal);
/* The grammar of forgec build --grammar or --json-schema; NULL: there is no such grammar. */
const struct model_grammar *model_grammar_built_in(void);

struct model_mask;
/* A position of a text in a grammar, at first at its beginning.  grammar and lexicon must not change while the mask is used.  memory:
 * MODEL_MASK_BYTES, at least MODEL_MASK_LEAST; more memory caches more positions. */
int model_mask_open(struct model_mask **out, void *memory, size_t bytes, const struct model_grammar *grammar,
                    const struct model_lexicon *lexicon);
int model_mask_restart(struct model_mask *k);
/* The tokens that may come next: bits [MODEL_MASK_WORDS], bit t % 32 of word t / 32 for token t.  Tokens that end the text are included
 * where it may end.  MODEL_STUCK: no token is allowed, because the text is complete (model_mask_may_end) or the vocabulary has no such
 * token.  MODEL_NO_ROOM: the text can be read in too many ways, or is nested too deeply. */
int model_mask_bits(struct model_mask *k, uint32_t *bits);
/* The same for model_sample: sets logits [MODEL_N_VOCAB] of forbidden tokens to -INFINITY. */
int model_mask_logits(struct model_mask *k, float *logits);
/* Adds a token.  MODEL_REFUSED: it is not allowed, also because the text has ended; nothing has changed. */
int model_mask_token(struct model_mask *k, int32_t token);
/* Adds text, whatever its tokens.  *n_read, if not NULL, is the number of accepted bytes; the mask then stands after them. */
int model_mask_text(struct model_mask *k, const char *text, size_t n, size_t *n_read);
int model_mask_may_end(const struct model_mask *k);      /* 1: the text satisfies the grammar */

const char *model_strerror(int status);

#ifdef __cplusplus
}
#endif
#endif
