/* model.h -- a language model as a library.  What forgec generates is this text with `model` and `MODEL` replaced by the prefix (--prefix)
 * and with the constants of one model; C99 and C++.
 *
 *     static unsigned char workspace[MODEL_WORKSPACE_BYTES] __attribute__((aligned(MODEL_ALIGN)));
 *     static float logits[MODEL_N_VOCAB];
 *     struct model *m;
 *     if (model_open(&m, workspace, sizeof workspace, NULL) != MODEL_OK) ...
 *     model_prefill(m, prompt, n_prompt, logits);
 *     while (!model_is_end(token = model_sample(m, logits, NULL))) { put(token); model_step(m, token, logits); }
 *
 * Everything a model needs lies in the workspace the caller gives; nothing is allocated, printed, opened or aborted, there are no variables
 * outside the workspace, and no threads but those of the caller's parallel_for.  Several models, and several instances of one, live side by
 * side; one instance is used by one thread at a time.  Functions return MODEL_OK, MODEL_MORE or a negative enum model_status, and then
 * change nothing, unless their comment says otherwise.
 *
 * A GPU object is for programs on Linux and needs their C library (and -ldl before glibc 2.34).  Its host memory lies in the workspace,
 * too; pinned and device memory (MODEL_DEVICE_BYTES, the weights in it, for each instance) come from the device's library, which model_open
 * opens with the first GPU that fits; that library may read its environment, open files, start threads and, AMD's, end the process when a
 * kernel faults.  An instance works on any thread, one at a time.  After MODEL_DEVICE_FAILED only model_close may be called.
 *
 * A CPU object needs memcpy, memmove and memset from the program it is linked into, and no other symbol; whether the processor has the
 * target's instructions is for the caller to know.  (Of a target with AMX, model_open asks Linux for its tiles.)  It is
 * position-independent, its weights are read-only and can be used where they lie (flash).  Floating point is used as the target's calling
 * convention has it; the rounding mode is the default one, and results do not depend on how many threads parallel_for has. */
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
#define MODEL_NAME             ""
#define MODEL_TARGET           ""
#define MODEL_N_VOCAB          1u
#define MODEL_EMBEDDINGS       0                 /* 1: the model gives vectors of texts (model_embed), 0: it generates text */
#define MODEL_N_EMBD           1u                /* numbers of such a vector */
#define MODEL_N_CTX            1u                /* most tokens of a context */
#define MODEL_CHUNK            1u                /* most tokens computed at once by a prefill */
#define MODEL_ALIGN            64u               /* of the workspace, and of weights the caller passes */
#define MODEL_WORKSPACE_BYTES  ((size_t)64)      /* all memory of an instance, the state of its context in it (GPU: MODEL_DEVICE_BYTES) */
#define MODEL_SEQUENCE_BYTES   ((size_t)64)      /* of the workspace, for every sequence beside the first */
#define MODEL_WORKSPACE_OF(n)  (MODEL_WORKSPACE_BYTES + ((size_t)(n) - 1) * MODEL_SEQUENCE_BYTES)    /* with n > 0 sequences */
#define MODEL_KV_BYTES         ((size_t)64)      /* of that state: keys and values of a full context */
#define MODEL_STATE_BYTES      ((size_t)64)      /* most that model_save writes */
#define MODEL_WEIGHTS_BYTES    ((uint64_t)64)
#define MODEL_WEIGHTS_EMBEDDED 1                 /* 0: the caller passes them */
#define MODEL_N_TENSORS        1u                /* of the weights, each with a hash */
#define MODEL_STACK_BYTES      ((size_t)4096)    /* most stack of any call but MODEL_CHAT_STACK's; jobs too; GPU: beside its library */
#define MODEL_WORKERS          8u                /* jobs a parallel_for gets at once */
#define MODEL_TILES            1u                /* tiles of one decoded token (model_step_budget) */
#define MODEL_DEVICE_BYTES     ((uint64_t)0)     /* GPU: of its memory an instance takes, that state in it; 0 on a CPU */
#define MODEL_SEQUENCE_DEVICE_BYTES ((uint64_t)0)    /* GPU: of its memory every sequence beside the first takes; 0 on a CPU */
#define MODEL_LAPS             1u                /* launches of a step at most: room for model_profile */
#define MODEL_HAS_TOKENIZER    1
#define MODEL_ENCODE_SCRATCH(n) ((size_t)(n) * 116 + 8448)    /* bytes of scratch model_encode needs for n bytes of text */
#define MODEL_HAS_CHAT         0                 /* 1: the model has a chat template (model_chat_open) */
#define MODEL_CHAT_BYTES(n)    ((size_t)(n) * 256 + 1048576)    /* memory that suffices for most conversations of n bytes as JSON */
#define MODEL_CHAT_STACK(depth) ((size_t)(depth) * 384 + 98304)    /* most stack for a template of so many levels; JSON, grammars: 0 */
#define MODEL_ANSWER_BYTES     ((size_t)64)      /* memory that suffices for calls of 64 KB */
#define MODEL_ANSWER_LEAST     ((size_t)64)      /* least: for calls of 1 KB */
#define MODEL_HAS_GRAMMAR      0                 /* 1: one was built in (model_grammar_built_in) */
#define MODEL_LEXICON_BYTES    ((size_t)64)      /* memory of a lexicon while it is made */
#define MODEL_GRAMMAR_BYTES(n) ((size_t)(n) * 200 + 2097152)    /* memory that suffices for grammars of n bytes while they are read */
#define MODEL_SCHEMA_BYTES(n)  ((size_t)(n) * 1500 + 2097152)    /* so for JSON schemas */
#define MODEL_MASK_BYTES       ((size_t)64)      /* memory that suffices for the masks of usual grammars */
#define MODEL_MASK_LEAST       ((size_t)64)      /* least: for small grammars */
#define MODEL_MASK_WORDS       1u                /* 32-bit words of a mask, a bit for each token */
/* @end */

enum model_status {
    MODEL_OK            = 0,
    MODEL_MORE          = 1,                     /* model_step_budget: tiles are left; model_answer_token: the answer goes on */
    MODEL_BAD_ARGUMENT  = -1,                    /* a null pointer, a token outside the vocabulary, n == 0, a wrong options size ... */
    MODEL_BAD_WORKSPACE = -2,                    /* too small or not aligned */
    MODEL_BAD_WEIGHTS   = -3,                    /* missing, of another size, or damaged */
    MODEL_CONTEXT_FULL  = -4,                    /* the tokens do not fit behind those that are there */
    MODEL_BUSY          = -5,                    /* a step was begun and is not finished */
    MODEL_NOT_BUSY      = -6,
    MODEL_NO_TOKENIZER  = -7,
    MODEL_NO_ROOM       = -8,                    /* the output, the scratch or the memory is too small */
    MODEL_BAD_STATE     = -9,                    /* model_restore: not a state of this model, or damaged */
    MODEL_NO_DEVICE     = -10,                   /* GPU: no library, no GPU, or another one; CPU: the kernel refuses the tiles of AMX */
    MODEL_DEVICE_FAILED = -11,
    MODEL_NO_MEMORY     = -12,                   /* GPU */
    MODEL_NOT_FINITE    = -13,                   /* logits with NaN or infinities: damaged weights, or a model that overflows */
    MODEL_CANNOT_REWIND = -14,                   /* model_reset: not to that position, but to 0 always; model_cancel */
    MODEL_NO_SEQUENCE   = -15,                   /* the instance has fewer sequences */
    MODEL_WRONG_KIND    = -16,                   /* of MODEL_EMBEDDINGS the other value is needed */
    MODEL_NO_TEMPLATE   = -17,                   /* the model has no chat template */
    MODEL_REFUSED       = -18,                   /* what a request, a template, a schema or a grammar says cannot be; model_mask_token: a
                                                  * token that may not come */
    MODEL_STUCK         = -19                    /* no token may come */
};

struct model;                                    /* lies at the beginning of the workspace */

/* Runs run(job, i) for every i below n, in any order and as many at once as it likes, and returns when all have returned. */
typedef void model_job(void *job, uint32_t i);
typedef void model_parallel_for(void *context, uint32_t n, model_job *run, void *job);

enum model_verify { MODEL_VERIFY_NONE, MODEL_VERIFY_OPEN /* all weights, in model_open */ };

/* Zero is the default everywhere. */
struct model_options {
    uint32_t size;                               /* sizeof(struct model_options): later versions add members at the end */
    uint32_t verify;                             /* enum model_verify */
    const void *weights;                         /* MODEL_WEIGHTS_BYTES, aligned, untouched as long as the instance lives; NULL: the
                                                  * embedded ones */
    uint64_t weights_bytes;
    model_parallel_for *parallel_for;            /* NULL: all jobs on the calling thread */
    void *parallel_context;
    void *(*device_symbol)(void *context, const char *name);     /* GPU: functions of the device library; NULL: it is opened by name */
    void *device_context;
    uint32_t n_sequences;                        /* 0: one; more: MODEL_WORKSPACE_OF(n_sequences) */
};

/* Makes an instance in the workspace (MODEL_WORKSPACE_BYTES, MODEL_ALIGN).  options may be NULL.  All its sequences are empty. */
int model_open(struct model **out, void *workspace, size_t bytes, const struct model_options *options);
/* CPU: nothing to do.  GPU: gives the device's memory back (but when a launch hangs, which would hang this too).  NULL is allowed. */
void model_close(struct model *m);

/* Appends n tokens; logits, if not NULL: MODEL_N_VOCAB values after the last of them, all of them finite, or else MODEL_NOT_FINITE and an
 * empty context. */
int model_prefill(struct model *m, const int32_t *tokens, uint32_t n, float *logits);
/* Appends one token. */
int model_step(struct model *m, int32_t token, float *logits);

/* A model of embeddings (MODEL_EMBEDDINGS): MODEL_N_EMBD values, the vector of a text of n > 0 tokens, of length 1 unless flags has
 * MODEL_AS_IT_IS.  What the context held is forgotten.  All values are finite, or else MODEL_NOT_FINITE. */
enum { MODEL_AS_IT_IS = 1 };
int model_embed(struct model *m, const int32_t *tokens, uint32_t n, uint32_t flags, float *vector);

/* The same in pieces, so that a watchdog can be fed and other work done between them.  After model_begin nothing else may be called for
 * this instance but model_step_budget, until that returns something else than MODEL_MORE, or model_cancel, which forgets what was begun.
 * tokens and logits stay valid until then.  A model of embeddings: as model_embed with flags 0, the vector in the place of logits. */
int model_begin(struct model *m, const int32_t *tokens, uint32_t n, float *logits);
/* Computes at most n_tiles > 0 tiles: the part of one of the MODEL_WORKERS in one kernel; on a GPU a decoded token or up to MODEL_CHUNK
 * tokens of a prefill. MODEL_OK: the step is done. */
int model_step_budget(struct model *m, uint32_t n_tiles);
/* MODEL_OK: the context is what it was before model_begin, as well when nothing was begun.  MODEL_CANNOT_REWIND: it is empty, since tiles
 * have run that replace what this model keeps of it (model_reset). */
int model_cancel(struct model *m);

uint32_t model_n_past(const struct model *m);    /* tokens in the context */
/* Forgets the tokens from position n_past on.  MODEL_CANNOT_REWIND: this model keeps too little of earlier positions, and nothing has
 * changed; 0 is always possible, and any position is where no layer has a window or a state that every token replaces. */
int model_reset(struct model *m, uint32_t n_past);

/* Several texts in one instance, each a sequence with a context and random numbers of its own; weights, activations and threads serve all
 * of them.  They are numbered from 0 and take turns: all other functions are about the one in use, at first number 0, and what they compute
 * does not depend on the others. */
int model_sequence_use(struct model *m, uint32_t sequence);
/* Makes `to` what `from` is, whichever is in use: its tokens, its state, its random numbers.  A fork, or a snapshot to come back to. */
int model_sequence_copy(struct model *m, uint32_t to, uint32_t from);

/* The context with its state as bytes, of use to this very build (MODEL_BUILD_HASH) on any machine of the target.
 * model_save writes at most MODEL_STATE_BYTES, fewer for a short context, and sets *written.  Any sequence can be
 * restored from them.  model_restore: MODEL_BAD_STATE leaves an empty context. */
int model_save(struct model *m, void *out, size_t capacity, size_t *written);
int model_restore(struct model *m, const void *state, size_t bytes);

/* Zero is the default everywhere: the likeliest token, no penalties. */
struct model_sampling {
    uint32_t size;
    float    temperature;                        /* 0: the likeliest token */
    int32_t  top_k;                              /* 0: all */
    float    top_p;                              /* 0 or 1: all */
    float    min_p;
    float    repeat_penalty;                     /* 0 or 1: none */
    int32_t  repeat_last_n;                      /* tokens of the context the penalty looks at, at most 64 */
    uint64_t seed;                               /* 0: goes on with the sequence's random numbers */
};
/* The next token, from logits [MODEL_N_VOCAB], which it may change.  -INFINITY forbids a token.  Negative: enum model_status;
 * MODEL_NOT_FINITE for a NaN, an infinity, or when all are forbidden. */
int32_t model_sample(struct model *m, float *logits, const struct model_sampling *sampling);

/* Text to tokens as the model's tokenizer has it.  flags: MODEL_ADD_BOS as the model asks for it, MODEL_SPECIAL: texts of control tokens
 * become those. Returns how many there are, or a negative status.  scratch: MODEL_ENCODE_SCRATCH(n) bytes, aligned to 8; touched as far as
 * needed. */
enum { MODEL_SPECIAL = 1, MODEL_ADD_BOS = 2 };
int64_t model_encode(const char *text, size_t n, uint32_t flags, int32_t *out, size_t capacity, void *scratch, size_t scratch_bytes);
/* The bytes of one token (perhaps a part of a UTF-8 sequence); how many there are, of which at most capacity are written. */
int64_t model_decode(int32_t token, char *out, size_t capacity);
int32_t model_bos(void);                         /* -1: none */
int32_t model_eos(void);
int     model_is_end(int32_t token);             /* ends the text; negative values count as the end */

/* Compares the hash of tensors *at, *at + 1, ... with those of the build, n at most; sets *at to the next one.  MODEL_MORE: some are left;
 * MODEL_BAD_WEIGHTS:
 * *name, if name is not NULL, is the tensor that differs, the one before *at; or the hashes themselves are damaged, and none is left. */
int model_verify(struct model *m, uint32_t *at, uint32_t n, const char **name);

/* Where the time of a step goes: a kernel's part, all its launches together. */
struct model_lap {
    const char *name;                            /* "ffn_gate_up" */
    uint32_t    launches;
    int64_t     work;                            /* time at work, the mean of the threads; GPU: what it adds to the step */
    int64_t     wait;                            /* CPU: from then on until the next kernel begins: at the barrier, and handing out jobs */
    uint64_t    bytes;                           /* that it has to read of weights and state */
    uint64_t    operations;                      /* of products, attention, convolutions and recurrences */
};

struct model_profiling {
    uint32_t size;                               /* sizeof(struct model_profiling) */
    uint32_t n_steps;                            /* to measure, each way; 0: 8.  GPU: kernels of a token in 3 to 23, of a prefill in 5 */
    uint32_t n_threads;                          /* that parallel_for has, the calling one among them; 0: one for each job */
    uint64_t (*clock)(void *context);            /* CPU: a time of any unit that only grows; jobs call it, too.  GPU: NULL, nanoseconds */
    void    *clock_context;
    struct model_lap *laps;                      /* [MODEL_LAPS] */
    uint32_t n_laps;                             /* set: kernels, in the order in which they run first */
    int64_t  step;                               /* set: the whole step as model_step or model_prefill takes it, without those clocks */
};
/* Measures the step that n tokens would be behind those of the context: 1 a model_step, up to MODEL_CHUNK a model_prefill, of a model of
 * embeddings a text.  logits: as there, not NULL.  Steps with a clock at every kernel and steps without take turns.  Then the context is
 * what it was; a model that cannot go back to it (model_reset) computes its tokens again, and its logits may round differently.  That of a
 * model of embeddings is empty. */
int model_profile(struct model *m, const int32_t *tokens, uint32_t n, float *logits, struct model_profiling *profile);

/* Conversations, answers, masks.  No instance is needed; what is opened lies at the beginning of the memory it is given, which is aligned
 * to 8, stays the caller's, and has not to be closed.  One of them is used by one thread at a time, but lexicons and grammars, which do not
 * change, by any number.  What does not fit is MODEL_NO_ROOM: give it more memory.  model_grammar_open takes up to MODEL_CHAT_STACK(0) of
 * stack, model_chat_open MODEL_CHAT_STACK(depth), the others MODEL_STACK_BYTES as all functions do. */

/* Why something is MODEL_REFUSED. */
struct model_refusal {
    uint32_t line, column;                       /* from 1, of what was given, or of the chat template; 0: of no place */
    char     text[300];                          /* a sentence, with its zero */
};

struct model_chat;
/* Zero is the default everywhere. */
struct model_chat_options {
    uint32_t size;                               /* sizeof(struct model_chat_options) */
    uint32_t depth;                              /* levels of nesting a template may take, each with stack; 0: 600, the most */
    int64_t  now;                                /* seconds since 1970 began, of the local clock: for templates that print the date */
    uint64_t steps;                              /* a template may take, which bounds its time; 0: 50 million, a second or two of a PC */
    struct model_refusal *refusal;               /* NULL: nobody wants to know */
};
/* The prompt that the model's chat template makes of a conversation.  request: [n] bytes of JSON, an object as OpenAI's chats have it, with
 * `messages` and, if they are there, `tools`, `tool_choice` ("none" only means something), `documents`, `reasoning_effort`,
 * `add_generation_prompt` (true if it is not there), `chat_template_kwargs`; other members mean nothing.  A last message of the assistant
 * is how the answer begins.  request stays as it is while the conversation is used.  memory: MODEL_CHAT_BYTES(n) suffices
 * for most, and short conversations do with a twentieth of it.  options may be NULL.  MODEL_REFUSED: no such JSON, or the template does
 * not take it; *options->refusal says why. */
int model_chat_open(struct model_chat **out, void *memory, size_t bytes, const char *request, size_t n,
                    const struct model_chat_options *options);
/* The prompt as text of *n bytes, which lies in the conversation's memory; NULL: c is none. */
const char *model_chat_text(const struct model_chat *c, size_t *n);
/* The prompt as tokens: how many there are, or a negative status.  What the messages say never becomes a control token.  MODEL_NO_ROOM:
 * capacity or the conversation's memory are too small; for the latter it has to be opened in more. */
int64_t model_chat_tokens(struct model_chat *c, int32_t *out, size_t capacity);

/* A piece of an answer.  Pointers hold during the call only; no text ends with a zero. */
enum model_event_kind {
    MODEL_ANSWER_CONTENT, MODEL_ANSWER_REASONING,      /* more text of it, never empty */
    MODEL_ANSWER_CALL,                           /* a call of a tool begins: text is the function's name */
    MODEL_ANSWER_ARGUMENTS,                      /* more of its arguments, JSON together */
    MODEL_ANSWER_CALL_END
};
struct model_event {
    uint32_t    kind;                            /* enum model_event_kind */
    uint32_t    call;                            /* which one, from 0 */
    const char *text;                            /* [n] */
    size_t      n;
    const char *id;                              /* [n_id] of the call as the model wrote it; n_id 0: make one */
    size_t      n_id;
};
typedef void model_on_event(void *context, const struct model_event *event);

struct model_answer;
/* What the model writes behind the prompt of c, taken apart as it comes: tell is called with each piece.  c and its request stay as they
 * are while the answer is read, and tell does not call the answer's functions.  Calls are looked for where the request has tools.  memory:
 * MODEL_ANSWER_BYTES, MODEL_ANSWER_LEAST at least; a call longer than about a quarter of it is content. */
int model_answer_open(struct model_answer **out, void *memory, size_t bytes, const struct model_chat *c, model_on_event *tell,
                      void *context);
/* The next token.  MODEL_MORE: the answer goes on; MODEL_OK: this token ended it, and all has been told.  MODEL_NO_ROOM: a token of more
 * than 1024 bytes.  Nothing more can be said to an answer that has ended (MODEL_BAD_ARGUMENT). */
int model_answer_token(struct model_answer *a, int32_t token);
/* The same with text, the texts of control tokens in it, cut anywhere; and its end, which text does not tell. */
int model_answer_text(struct model_answer *a, const char *text, size_t n);
int model_answer_end(struct model_answer *a);
/* 1: what comes next is reasoning: not yet what a grammar is about. */
int model_answer_in_reasoning(const struct model_answer *a);

struct model_lexicon;
/* The tokens in the order of their texts, which masks need: made once for any number of them.  memory: MODEL_LEXICON_BYTES; what lies
 * behind *used (NULL: nobody asks) is free again. */
int model_lexicon_open(struct model_lexicon **out, void *memory, size_t bytes, size_t *used);

struct model_grammar;
enum model_grammar_kind {
    MODEL_GRAMMAR_GBNF,                          /* llama.cpp's form of grammars */
    MODEL_GRAMMAR_SCHEMA,                        /* a JSON schema */
    MODEL_GRAMMAR_CHOICES                        /* texts, one of which is written: "yes\0no" with n = 6 */
};
/* A grammar of text [n], which may go afterwards.  memory: MODEL_GRAMMAR_BYTES(n), for a schema MODEL_SCHEMA_BYTES(n), which small ones do
 * with far less than; *used as above.  MODEL_REFUSED: *refusal (NULL: nobody asks) says why. */
int model_grammar_open(const struct model_grammar **out, void *memory, size_t bytes, uint32_t kind, const char *text, size_t n,
                       size_t *used, struct model_refusal *refusal);
/* The one of forgec build --grammar or --json-schema; NULL: none. */
const struct model_grammar *model_grammar_built_in(void);

struct model_mask;
/* Where a text stands in a grammar, at first at its beginning.  grammar and lexicon stay as they are while the mask is used.  memory:
 * MODEL_MASK_BYTES, MODEL_MASK_LEAST at least: the more there is, the more is found again instead of computed. */
int model_mask_open(struct model_mask **out, void *memory, size_t bytes, const struct model_grammar *grammar,
                    const struct model_lexicon *lexicon);
int model_mask_restart(struct model_mask *k);
/* Which tokens may come next: bits [MODEL_MASK_WORDS], bit t % 32 of word t / 32 for token t, those among them that end the text where it
 * may end. MODEL_STUCK: none, since the text is whole (model_mask_may_end) or the vocabulary has no such token.  MODEL_NO_ROOM: it can be
 * read in too many ways, or is nested too deep. */
int model_mask_bits(struct model_mask *k, uint32_t *bits);
/* The same for model_sample: logits [MODEL_N_VOCAB] of the others become -INFINITY. */
int model_mask_logits(struct model_mask *k, float *logits);
/* The token that comes.  MODEL_REFUSED: it may not, and nothing has changed; so for any behind one that ended the text. */
int model_mask_token(struct model_mask *k, int32_t token);
/* Text that comes, whatever its tokens.  *n_read, if not NULL, is how much of it the grammar has, behind which the mask stands then. */
int model_mask_text(struct model_mask *k, const char *text, size_t n, size_t *n_read);
int model_mask_may_end(const struct model_mask *k);      /* 1: the text is one that the grammar has */

const char *model_strerror(int status);

#ifdef __cplusplus
}
#endif
#endif
