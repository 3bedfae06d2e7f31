/* kernel.h -- the kernels of a program and their launches. This is the last decision: the emitters print the list and decide nothing. */
#ifndef FORGEC_KERNEL_H
#define FORGEC_KERNEL_H
#include "compiler/plan/fuse.h"
#include "runtime/model/abi.h"

enum kernel_template {
#define TEMPLATE(name, machine, free, follows) TEMPLATE_##name,
#include "template.def"
#undef TEMPLATE
    TEMPLATE_COUNT
};

/* Parameters of templates. */
enum kernel_param {
    PARAM_ROWS,         /* gemv: rows that a group of lanes works on at once; gemm: rows of a tile; attention: rows of K that a lane loads
                         * at once */
    PARAM_LANES,        /* gemv: lanes that share a row */
    PARAM_TOKENS,       /* tokens of a tile */
    PARAM_THREADS,      /* threads of a workgroup */
    PARAM_RESIDENT,     /* workgroups that a compute unit must have registers for; it bounds the registers of a thread */
    PARAM_LEAST,        /* the kernel serves steps of LEAST .. MOST tokens; MOST 0: all steps */
    PARAM_MOST,
    PARAM_SPLITS,       /* workgroups that share the positions of a KV head, or those of a span */
    PARAM_SPANS,        /* maximum number of parts of a long context; each part has SPLITS workgroups */
    PARAM_SPAN,         /* minimum number of positions in a span */
    PARAM_CLUSTER,      /* workgroups that reach each other's LDS; 0: no cluster */
    PARAM_DIGITS,       /* products: 8-bit digits of an activation; attention: 16-bit digits of an activation, 0: f32 */
    PARAM_UNIT,         /* rows that one thread computes and finishes at once */
    PARAM_DEPTH,        /* gemv: units of a row that a lane loads in a step; 0: the format's choice; gemv_matrix:
                         * stages of a wave's ring of weights */
    PARAM_COLUMNS,      /* gemv_columns, gemv_matrix: tokens that a workgroup works on at once */
    PARAM_COUNT
};
extern const char *const kernel_param_name[PARAM_COUNT];

enum template_machine { TEMPLATE_CPU = 1, TEMPLATE_GPU = 2, TEMPLATE_ANY = 3 };
struct template_info { const char *name; enum template_machine machine; uint32_t free, follows; };      /* sets of 1 << enum kernel_param */
extern const struct template_info template_info[TEMPLATE_COUNT];

/* A function of the emitted source. Kernels with equal parameters, sizes and `does` are one kernel: `does` contains everything that the
 * function's text depends on, including the names of places and weights. */
struct kernel {
    const char          *name;            /* of the function, unique in the program: "attn_qkv" */
    enum kernel_template template;
    bool                 prefill;         /* the kernel is for prefill; CPU: also for steps of several sequences */
    uint32_t             form;            /* CPU: form of packed rows, 0 as in decode, 1 as in prefill; `does` has it where it matters */
    const struct group  *group;           /* group of its first launch; NULL: sample */
    uint32_t             param[PARAM_COUNT];
    const char          *does;            /* lines: operations with attributes and sizes, formats of weights by slot, places and forms
                                           * of values */
    /* GPU: see struct forge_gpu_launch */
    uint32_t             lds_bytes, grid_x, grid_tokens, tokens_first;
    /* CPU: see struct forge_launch */
    uint32_t             unless_divides, from_positions, joins_divides;
    uint64_t             weight_bytes;    /* read by a launch, padding included */
    uint64_t             state_bytes;     /* read by a launch with a full context */
    uint64_t             operations;      /* of its products, convolutions and recurrences, per token */
    uint64_t             attention;       /* operations per token and position that it attends; see struct forge_cost */
    uint32_t             window;          /* attention: size of the sliding window; 0: no window, or it covers the context */
    double               fill;            /* gemm: fraction of the compute units that have work, at MOST tokens */
    uint32_t             n_launches;
};

#define NO_KERNEL UINT32_MAX

/* A part of the weight image that a launch reads: a tensor, some of its rows, or a table of rotations. */
struct binding {
    uint64_t    offset, bytes;            /* in the image */
    bool        is_matrix;                /* weights of a product, packed in units */
    const char *symbol;                   /* its name in the emitted source: "W_ATTN_Q" */
};

struct launch {
    uint32_t    kernel;                   /* in kernels; NO_KERNEL: there is no such launch */
    const char *name;                     /* "ffn_gate_up", "ffn_down_in" */
    uint32_t    group;                    /* in fused->groups; NO_GROUP: sample */
    uint32_t    layer;                    /* NO_LAYER outside the layers */
    bool        tail;                     /* only tokens with logits matter from here on */
    bool        logits;                   /* GPU: it writes their logits, at most as many rows at a time as the arena has */
    uint32_t    most;                     /* WebGPU: it runs only in steps of at most this many rows; 0: in all steps */
    uint32_t    past;                     /* WebGPU: it runs only after at least this many tokens */
    uint32_t    collectives;              /* GPU: collectives that earlier launches of the step make with other ranks */
    bool        in_collective;            /* GPU: it sends or receives the values of one more collective */
    struct forge_gpu_pass pass;           /* GPU: the values that it sends to other ranks */
    uint64_t    state;                    /* byte offset in the state memory */
    struct binding bindings[FORGE_MAX_WEIGHTS];
    uint32_t    n_bindings;
};

/* Kinds of steps: decode of one token; prefill of a chunk of a prompt; columns: a few tokens, each with bit-identical results to a decode
 * step; pass: one token through the block that drafts tokens. */
enum kernel_steps { STEPS_DECODE, STEPS_PREFILL, STEPS_COLUMNS, STEPS_PASS, STEPS_COUNT };
static inline bool kernel_is_single(enum kernel_steps steps) { return steps == STEPS_DECODE || steps == STEPS_PASS; }
extern const char *const kernel_steps_name[STEPS_COUNT];

/* Launches in order. */
struct launches { struct launch *list; uint32_t n, capacity; };

struct kernel_list {
    struct arena   *arena;
    struct kernel  *kernels;
    uint32_t        n_kernels, kernel_capacity;
    struct launches of[STEPS_COUNT];
    struct launch   sample, drafts, take;  /* drafts: sampling in programs that speculate; take: stores the draft after a pass */
};

/* A kernel while it is built, with its first launch. If it serves prefill and other steps alike, set kernel.prefill to false. */
struct kernel_draft { struct kernel kernel; struct launch launch; struct text does; enum kernel_steps steps; };

struct kernel_list *kernel_list_new(struct arena *a);
/* Begins a kernel. name: of the function; kernel_end makes it unique if the kernel is new. The launch gets the name of the group. */
struct kernel_draft kernel_begin(struct kernel_list *list, enum kernel_template template, const char *name, const struct fused *f,
                                 const struct group *group, enum kernel_steps steps, bool tail);
/* Adds a line to what the kernel does. */
void kernel_does(struct kernel_draft *d, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Binds a part of the image, if the launch does not bind it yet, and returns its symbol. bytes: what the launch reads of it, counted with
 * the kernel's weight bytes when it is new to the launch. role: "attn_q". Dies if the launch has no place left, or if the part has no
 * offset (UINT64_MAX). */
const char *kernel_bind(struct kernel_draft *d, struct binding part, const char *role, uint64_t bytes);
/* The binding of the part that begins at this offset. Dies if the launch does not have it. */
uint32_t kernel_bound(const struct launch *l, uint64_t offset);
/* prefix and name as an upper-case identifier: "AT_", "glu in f16" -> "AT_GLU_IN_F16". */
const char *kernel_symbol(struct arena *a, const char *prefix, const char *name);
/* Appends the launch to the launches of its kind of step. It uses an equal kernel of the list, or a new one. Returns the kernel's index. */
uint32_t kernel_end(struct kernel_list *list, struct kernel_draft *d);
/* Removes the last launch of its kind of step from the list and returns it. */
struct launch kernel_take(struct kernel_list *list, enum kernel_steps steps);
/* The first launch of a kernel. Dies if it has none. */
const struct launch *kernel_first_launch(const struct kernel_list *list, uint32_t kernel);
/* Does a launch of the kernel run in a step of this many tokens? */
bool kernel_runs(const struct kernel *k, uint32_t tokens);
/* The number of launches that run in a step of `tokens` tokens, all of them with logits. */
uint32_t kernel_launches(const struct kernel_list *list, enum kernel_steps steps, uint32_t tokens);

/* ---- a plan that was read back ---- */

/* The settings of one kernel in a plan's text, and the launches that they are for. */
struct kernel_choice {
    struct place         at;              /* for messages */
    enum kernel_template template;
    enum kernel_steps    steps;
    const uint32_t      *groups;          /* [n_groups] groups of its launches */
    uint32_t             n_groups;
    uint32_t             given;           /* the parameters that it sets: bits 1 << enum kernel_param */
    uint32_t             param[PARAM_COUNT];
};
/* behind: further choices, used where this list has none; or NULL. */
struct kernel_choices { struct kernel_choice *list; uint32_t n; const struct kernel_choices *behind; };
/* The nth choice (from 0) for that template and group; NULL if it does not exist or choices is NULL. */
const struct kernel_choice *kernel_choice(const struct kernel_choices *choices, enum kernel_template template,
                                          enum kernel_steps steps, uint32_t group, uint32_t nth);
/* The parameters of all launches of a template in list, as choices for another program with the same groups. path: for messages. */
struct kernel_choices kernel_choices_of(struct arena *a, const struct kernel_list *list, enum kernel_template template, const char *path);
/* The value that c sets for the parameter, or `planned` if it sets none; c may be NULL. */
uint32_t kernel_chosen(const struct kernel_choice *c, enum kernel_param param, uint32_t planned);
#endif
