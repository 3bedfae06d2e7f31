/* parts.h -- what the files of the search share (compiler/tune/): units.c (kernels and their settings as text), measure.c (what programs
 * take), search_kernels.c, search_tiles.c, settle.c (the last comparison), tune.c (all of it). */
#ifndef FORGEC_TUNE_PARTS_H
#define FORGEC_TUNE_PARTS_H
#include "tune.h"
#include "trial.h"
#include "compiler/gpu/settings.h"

enum { TUNE_CANDIDATES_MOST = 24, TUNE_ROUNDS_MOST = 15, TUNE_TILES = 4 };
/* Of the time, and shorter in every round: else the planner's own stays. */
#define TUNE_BETTER 0.985

/* A kernel whose settings are searched for; of prefill's products all that serve the same groups, by sizes of steps. */
struct unit {
    const struct kernel *kernel;
    const uint32_t      *groups;
    uint32_t             n_groups;
    struct kernel_choice now;                    /* not of prefill's products */
    struct kernel_choice at[TUNE_SIZES];         /* of those: by size of step */
    bool                 changed, at_changed[TUNE_SIZES];
};

/* A tile of the target that whole programs are compared for. */
struct tile { const char *name; uint32_t planned, now; };

struct tune {
    struct arena              *arena;
    const struct tune_options *options;
    const struct plan         *plan;             /* the planner's own */
    struct runner              runner;
    struct workplace          *workplace;
    struct trials             *trials;
    struct trial               base;
    struct unit               *units;
    uint32_t                   n_units;
    struct tile                tiles[TUNE_TILES];
    uint32_t                   n_tiles;
    double                     gain;             /* of the tiles so far, in prefill */
    uint32_t                   depths[TUNE_SIZES], n_depths, prompts[TUNE_SIZES], n_prompts;
    uint32_t                   rounds, candidates;
    double                     begun, seconds;
    const char                *where;            /* the machine */
    uint32_t                   n_programs;
    bool                       late;
};

/* Has decode, or prefill, other settings than the planner's own? */
bool tune_found(const struct tune *t, bool prefill);
/* Is the search's part of the time over? */
bool tune_late(struct tune *t);
static inline bool unit_is_gemm(const struct unit *u) { return u->kernel->template == TEMPLATE_gemm; }
static inline bool unit_of_step(const struct unit *u, bool prefill) { return u->kernel->prefill == prefill; }

/* ---- units.c ---- */

void units_find(struct tune *t);
/* The unit of a launch of the planner's program, and of any other with the same launches; NULL: it has none. */
struct unit *unit_of(struct tune *t, const struct launch *l, bool prefill);
/* What the planner made the unit's products with for steps of so many tokens. */
const struct kernel *unit_planned_gemm(const struct tune *t, const struct unit *u, uint32_t tokens);
bool unit_any_size_changed(const struct tune *t, const struct unit *u);
/* " rows=2 lanes=16" */
void put_params(struct text *out, const struct kernel_choice *c);
/* A line of `kernels`; of prefill's products for steps of least .. most tokens. */
void put_kernel(struct text *out, const struct unit *u, const struct kernel_choice *c);
void put_range(struct text *out, const struct unit *u, const struct kernel_choice *choice, uint32_t least, uint32_t most);
/* The beginning of every file of settings; tiles that differ from the target's, `name` (or NULL) as value; all that was found. */
void put_head(struct text *out, const struct tune *t);
void put_tiles(struct text *out, const struct tune *t, const char *name, uint32_t value);
void put_found(struct text *out, const struct tune *t, bool decode, bool prefill);

/* ---- measure.c ---- */

struct cJSON;
/* A step of prefill of n tokens, or of decode behind n. */
struct step { struct tune *tune; bool prefill; uint32_t n; };
/* "speed decode 512 round 0" */
const char *step_text(struct tune *t, const struct step *s, const char *what, uint32_t round);
/* What a program writes as JSON, to be deleted; NULL: it failed, which is said with -v; dies when it is the planner's own. */
struct cJSON *run_trial(struct tune *t, const struct trial *trial, const char *const *arguments);
/* For trials_measure; context: a step.  Microseconds of each unit's launches, and last of the step; of a unit that keeps registers in
 * memory so many that nobody takes it.  Tokens a second. */
bool take_laps(void *context, const struct trial *trial, double *values, uint32_t n);
bool take_speed(void *context, const struct trial *trial, double *values, uint32_t n);
/* The same of all: behind each depth, and of each prompt; context: the tune. */
bool take_speeds(void *context, const struct trial *trial, double *values, uint32_t n);
/* The machine as the program names it; dies when the program does not run there. */
const char *find_where(struct tune *t);

/* ---- the search, part by part ---- */

void search_decode(struct tune *t);
void search_prefill(struct tune *t);
void tiles_find(struct tune *t);
void search_tile(struct tune *t, struct tile *tile);
/* Compares all that was found with the planner's own, drops the part that is no faster, and prints it; false: nothing is left.  numbers:
 * the list `measured` of the file. */
bool settle(struct tune *t, struct trial *found, struct text *numbers);
#endif
