/* kernel.h -- the kernels of a program and their launches: the last that is decided.  emit prints them and decides nothing. */
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

/* What a template is made with. */
enum kernel_param {
    PARAM_ROWS,         /* gemv: rows a run of lanes works on at once; gemm: rows of a tile; attention: rows of K that a lane asks for at
                         * once */
    PARAM_LANES,        /* gemv: lanes that share a row */
    PARAM_TOKENS,       /* tokens of a tile */
    PARAM_THREADS,      /* of a workgroup */
    PARAM_RESIDENT,     /* workgroups of a compute unit that registers are bounded by */
    PARAM_LEAST,        /* it serves steps of LEAST .. MOST tokens; MOST 0: all */
    PARAM_MOST,
    PARAM_SPLITS,       /* workgroups that share a KV head's positions, or those of a span */
    PARAM_SPANS,        /* parts of a long context, each with such workgroups, at most */
    PARAM_SPAN,         /* positions of a span at least */
    PARAM_CLUSTER,      /* workgroups that reach each other's LDS; 0: none */
    PARAM_DIGITS,       /* of activations in integer products, 8 bits each; of 16-bit ones in attention, 0: floats */
    PARAM_UNIT,         /* rows that one thread computes and finishes in one go */
    PARAM_DEPTH,        /* gemv: units of a row that a lane loads in a step; 0: the format's choice; gemv_matrix:
                         * stages of a wave's ring of weights */
    PARAM_COLUMNS,      /* gemv_columns, gemv_matrix: tokens that a workgroup works on at once */
    PARAM_COUNT
};
extern const char *const kernel_param_name[PARAM_COUNT];

enum template_machine { TEMPLATE_CPU = 1, TEMPLATE_GPU = 2, TEMPLATE_ANY = 3 };
struct template_info { const char *name; enum template_machine machine; uint32_t free, follows; };      /* sets of 1 << enum kernel_param */
extern const struct template_info template_info[TEMPLATE_COUNT];

/* A function of the emitted source.  Kernels with equal parameters, sizes and `does` are one kernel: `does` tells all that the function's
 * text depends on, names of places and weights included. */
struct kernel {
    const char          *name;            /* of the function, unique in the program: "attn_qkv" */
    enum kernel_template template;
    bool                 prefill;         /* CPU: also of several texts */
    uint32_t             form;            /* CPU: of packed rows, 0 decode's, 1 prefill's; `does` tells where it matters */
    const struct group  *group;           /* of its first launch; NULL: sample */
    uint32_t             param[PARAM_COUNT];
    const char          *does;            /* lines: operations with attributes and sizes, formats of weights by slot, places and forms
                                           * of values */
    /* GPU: see struct forge_gpu_launch */
    uint32_t             lds_bytes, grid_x, grid_tokens, tokens_first;
    /* CPU: see struct forge_launch */
    uint32_t             unless_divides, from_positions, joins_divides;
    uint64_t             weight_bytes;    /* read by a launch, padding included */
    uint64_t             state_bytes;     /* read by a launch with a full context */
    uint64_t             operations;      /* of its products, convolutions and recurrences, for a token */
    uint64_t             attention;       /* operations for a token and a position that it attends; see struct forge_cost */
    uint32_t             window;          /* of attention; 0: none that hides a position */
    double               fill;            /* gemm: of the compute units, at MOST tokens */
    uint32_t             n_launches;
};

#define NO_KERNEL UINT32_MAX

struct launch {
    uint32_t    kernel;                   /* in kernels; NO_KERNEL: there is no such launch */
    const char *name;                     /* "ffn_gate_up", "ffn_down_in" */
    uint32_t    group;                    /* in fused->groups; NO_GROUP: sample */
    uint32_t    layer;                    /* NO_LAYER outside the layers */
    bool        tail;                     /* only tokens with logits matter from here on */
    bool        logits;                   /* GPU: and their logits are written, as many rows at a time as the arena has */
    uint32_t    most;                     /* WebGPU: only in steps of so many rows at most; 0: in all */
    uint32_t    past;                     /* WebGPU: only behind so many tokens at least */
    uint32_t    exchanges;                /* GPU: between those that share the model, by the step's launches before it */
    bool        exchanging;               /* GPU: it gives or takes one */
    struct forge_gpu_pass pass;           /* GPU: what it gives the others */
    uint64_t    state;                    /* offset in the state memory */
    uint64_t    weights[FORGE_MAX_WEIGHTS];
    const char *symbols[FORGE_MAX_WEIGHTS];      /* what the emitted source calls them: "W_ATTN_Q" */
    uint32_t    n_weights;
};

/* Which steps launches are for: of one token, of a chunk of a prompt, of a few tokens that each get the bits of a step of their own; and
 * of a token through the block that drafts. */
enum kernel_steps { STEPS_DECODE, STEPS_PREFILL, STEPS_COLUMNS, STEPS_PASS, STEPS_COUNT };
static inline bool kernel_is_single(enum kernel_steps steps) { return steps == STEPS_DECODE || steps == STEPS_PASS; }
extern const char *const kernel_steps_name[STEPS_COUNT];

struct kernel_list {
    struct arena  *arena;
    struct kernel *kernels;
    struct launch *decode, *prefill, *columns, *pass;
    struct launch  sample, drafts, take;  /* drafts: sample's in programs that speculate; take: behind a pass, of its draft */
    uint32_t       n_kernels, n_decode, n_prefill, n_columns, n_pass;
    uint32_t       kernel_capacity, decode_capacity, prefill_capacity, columns_capacity, pass_capacity;
};

/* A kernel in the making, with its first launch; one that serves prefill and other steps alike has kernel.prefill false. */
struct kernel_draft { struct kernel kernel; struct launch launch; struct text does; enum kernel_steps steps; };

struct kernel_list *kernel_list_new(struct arena *a);
/* name: of the function, made unique when the kernel is new; launch name: that of the group. */
struct kernel_draft kernel_begin(struct kernel_list *list, enum kernel_template template, const char *name, const struct fused *f,
                                 const struct group *group, enum kernel_steps steps, bool tail);
/* Adds a line to what the kernel does. */
void kernel_does(struct kernel_draft *d, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* The slot of the tensor at this offset of the image among the launch's; dies when there are more than a launch has.  role: "attn_q". */
uint32_t kernel_weight(struct kernel_draft *d, uint64_t offset, const char *role);
/* prefix and name as an identifier in capitals: "AT_", "glu in f16" -> "AT_GLU_IN_F16". */
const char *kernel_symbol(struct arena *a, const char *prefix, const char *name);
/* Appends the launch to those of its steps, with a kernel of the list that is the same or with a new one; returns the kernel's index. */
uint32_t kernel_end(struct kernel_list *list, struct kernel_draft *d);
/* The launches of such steps, in order. */
struct launches { const struct launch *list; uint32_t n; };
struct launches kernel_launches_of(const struct kernel_list *list, enum kernel_steps steps);
/* Does a launch of the kernel run in a step of so many tokens? */
bool kernel_runs(const struct kernel *k, uint32_t tokens);
/* Launches of a step of so many tokens, as many of them with logits. */
uint32_t kernel_launches(const struct kernel_list *list, const struct launch *launches, uint32_t n, uint32_t tokens);

/* ---- a plan that was read back ---- */

/* One kernel of the text: which launches it is for and what it sets. */
struct kernel_choice {
    struct place         at;              /* for messages */
    enum kernel_template template;
    enum kernel_steps    steps;
    const uint32_t      *groups;          /* [n_groups], of its launches */
    uint32_t             n_groups;
    uint32_t             given;           /* set of parameters */
    uint32_t             param[PARAM_COUNT];
};
/* behind: more of them, or NULL. */
struct kernel_choices { struct kernel_choice *list; uint32_t n; const struct kernel_choices *behind; };
/* The nth choice for a template of that group; NULL: none, or choices are NULL. */
const struct kernel_choice *kernel_choice(const struct kernel_choices *choices, enum kernel_template template,
                                          enum kernel_steps steps, uint32_t group, uint32_t nth);
/* What a list's launches of a template are made with, as choices for another program with the same groups; path: for messages. */
struct kernel_choices kernel_choices_of(struct arena *a, const struct kernel_list *list, enum kernel_template template, const char *path);
/* What it sets, else the value that was planned; c may be NULL. */
uint32_t kernel_chosen(const struct kernel_choice *c, enum kernel_param param, uint32_t planned);
#endif
