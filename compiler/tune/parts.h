/* parts.h -- shared by the files of the search (compiler/tune/): units.c (kernels and their settings as text), measure.c (times of
 * programs), search_kernels.c, search_tiles.c, settle.c (the final comparison), tune.c (the whole search). */
#ifndef FORGEC_TUNE_PARTS_H
#define FORGEC_TUNE_PARTS_H
#include "tune.h"
#include "trial.h"
#include "compiler/gpu/settings.h"

enum { TUNE_CANDIDATES_MOST = 24, TUNE_ROUNDS_MOST = 15, TUNE_TILES = 4 };
/* A setting is better if its time is below this fraction of the planner's, and shorter in every round; else the planner's setting stays. */
#define TUNE_BETTER 0.985

/* A kernel with settings to search for. For prefill's products, a unit is all kernels of the same groups, one for each size of step. */
struct unit {
    const struct kernel *kernel;
    const uint32_t      *groups;
    uint32_t             n_groups;
    struct kernel_choice now;                    /* kernels other than prefill's products */
    struct kernel_choice at[TUNE_SIZES];         /* prefill's products: by size of step */
    bool                 changed, at_changed[TUNE_SIZES];
};

/* A tile setting of the target, searched by comparing whole programs. */
struct tile { const char *name; uint32_t planned, now; };

struct tune {
    struct arena              *arena;
    const struct tune_options *options;
    const struct plan         *plan;             /* with the planner's own settings */
    struct runner              runner;
    struct workplace          *workplace;
    struct trials             *trials;
    struct trial               base;
    struct unit               *units;
    uint32_t                   n_units;
    struct tile                tiles[TUNE_TILES];
    uint32_t                   n_tiles;
    double                     gain;             /* prefill's gain by the tiles found so far */
    uint32_t                   depths[TUNE_SIZES], n_depths, prompts[TUNE_SIZES], n_prompts;
    uint32_t                   rounds, candidates;
    double                     begun, seconds;
    const char                *where;            /* the machine */
    uint32_t                   n_programs;
    bool                       late;
};

/* True if settings of decode (or prefill) differ from the planner's own. */
bool tune_found(const struct tune *t, bool prefill);
/* True if the time for the search is over. */
bool tune_late(struct tune *t);
static inline bool unit_is_gemm(const struct unit *u) { return u->kernel->template == TEMPLATE_gemm; }
static inline bool unit_of_step(const struct unit *u, bool prefill) { return u->kernel->prefill == prefill; }

/* ---- units.c ---- */

void units_find(struct tune *t);
/* The unit of a launch of the planner's program, or of any program with the same launches; NULL: it has no unit. */
struct unit *unit_of(struct tune *t, const struct launch *l, bool prefill);
/* The kernel that the planner chose for the unit's products in steps of this many tokens. */
const struct kernel *unit_planned_gemm(const struct tune *t, const struct unit *u, uint32_t tokens);
bool unit_any_size_changed(const struct tune *t, const struct unit *u);
/* Appends parameters such as " rows=2 lanes=16". */
void put_params(struct text *out, const struct kernel_choice *c);
/* Appends a line of `kernels`; put_range: for prefill's products in steps of least .. most tokens. */
void put_kernel(struct text *out, const struct unit *u, const struct kernel_choice *c);
void put_range(struct text *out, const struct unit *u, const struct kernel_choice *choice, uint32_t least, uint32_t most);
/* put_head: the beginning of every file of settings. put_tiles: the tiles that differ from the target's; tile `name` (or NULL) has the
 * given value. put_found: all settings found. */
void put_head(struct text *out, const struct tune *t);
void put_tiles(struct text *out, const struct tune *t, const char *name, uint32_t value);
void put_found(struct text *out, const struct tune *t, bool decode, bool prefill);

/* ---- measure.c ---- */

struct cJSON;
/* A prefill step of n tokens, or a decode step after n tokens. */
struct step { struct tune *tune; bool prefill; uint32_t n; };
/* "speed decode 512 round 0" */
const char *step_text(struct tune *t, const struct step *s, const char *what, uint32_t round);
/* Runs a program and returns its JSON output, which the caller deletes. NULL if it failed (reported with -v); dies if the planner's own
 * program fails. */
struct cJSON *run_trial(struct tune *t, const struct trial *trial, const char *const *arguments);
/* For trials_measure; context: a step. take_timings: microseconds of each unit's launches, and of the step at the end; a unit with register
 * spills gets a time so long that it is never chosen. take_speed: tokens per second. */
bool take_timings(void *context, const struct trial *trial, double *values, uint32_t n);
bool take_speed(void *context, const struct trial *trial, double *values, uint32_t n);
/* Tokens per second after each depth and for each prompt; context: the tune. */
bool take_speeds(void *context, const struct trial *trial, double *values, uint32_t n);
/* The name of the machine according to the program; dies if the program does not run there. */
const char *find_where(struct tune *t);

/* ---- the search, part by part ---- */

void search_decode(struct tune *t);
void search_prefill(struct tune *t);
void tiles_find(struct tune *t);
void search_tile(struct tune *t, struct tile *tile);
/* Compares everything found with the planner's own settings, drops the part that is not faster, and prints the result; false: nothing is
 * left. numbers: the list `measured` of the file. */
bool settle(struct tune *t, struct trial *found, struct text *numbers);
#endif
