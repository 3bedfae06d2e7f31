/* main.c -- a device that tells a fairy tale: text in, text out; it feeds a watchdog while the model computes.
 * With -DTOKENS=1,2,3 it continues these tokens and prints the ids that follow; tests/library/run_appliance.sh compares them.
 * With -DPROFILE it prints the time of each kernel at the end. */
#include "board.h"
#include "model.h"              /* forgec build ... --emit obj --prefix model */

#ifndef LENGTH
#define LENGTH 120              /* tokens told */
#endif
enum { TILES = 16 };            /* computed between two feedings of the watchdog */

static unsigned char workspace[MODEL_WORKSPACE_BYTES] __attribute__((aligned(MODEL_ALIGN)));
static float logits[MODEL_N_VOCAB];

/* start.S sets the stack to the end of this section.  MODEL_STACK_BYTES is for the model, the rest for the functions of this file. */
extern unsigned char stack[];
unsigned char stack[(MODEL_STACK_BYTES + 4096 + 15) / 16 * 16] __attribute__((aligned(16), section(".stack")));

static void check(int status, const char *what)
{
    if (status >= 0) return;
    print(what);
    print(": ");
    print(model_strerror(status));
    print("\n");
    board_exit(1);
}

/* A simulated watchdog; a device would write to its register here. */
static struct { unsigned long fed, last_us, longest_us; } watchdog;

static void watchdog_feed(void)
{
    const unsigned long now = board_time_us(), waited = now - watchdog.last_us;
    if (watchdog.fed++ && waited > watchdog.longest_us) watchdog.longest_us = waited;
    watchdog.last_us = now;
}

/* One step, a few tiles at a time: the watchdog never waits longer than these tiles take. */
static void step(struct model *m, const int32_t *tokens, uint32_t n)
{
    int status = model_begin(m, tokens, n, logits);
    check(status, "begin");
    do {
        watchdog_feed();
        status = model_step_budget(m, TILES);
    } while (status == MODEL_MORE);
    check(status, "step");
}

#ifdef TOKENS
static const int32_t prompt[] = { TOKENS };
enum { N_PROMPT = sizeof prompt / sizeof prompt[0] };
static const int32_t *prompt_tokens(uint32_t *n) { *n = N_PROMPT; return prompt; }

/* A test needs the most probable tokens, and all of them. */
static const struct model_sampling sampling = { .size = sizeof sampling };
static int ended(int32_t token) { return token < 0; }

static void put_token(int32_t token)
{
    print_number((unsigned long)token);
    print(" ");
}
#else
static const char prompt[] = "Once upon a time there was a king who";

static const int32_t *prompt_tokens(uint32_t *n)
{
    static int32_t  tokens[sizeof prompt + 1];                /* a token has at least one byte; the first may be BOS */
    static uint64_t scratch[MODEL_ENCODE_SCRATCH(sizeof prompt) / 8 + 1];
    const int64_t count = model_encode(prompt, sizeof prompt - 1, MODEL_ADD_BOS, tokens, sizeof tokens / sizeof tokens[0], scratch,
                                       sizeof scratch);
    check((int)count, "encode");
    *n = (uint32_t)count;
    print(prompt);
    return tokens;
}

/* The most probable token, with a penalty on recent tokens, because small models repeat themselves. */
static const struct model_sampling sampling = { .size = sizeof sampling, .repeat_penalty = 1.15f, .repeat_last_n = 64 };
static int ended(int32_t token) { return model_is_end(token); }

static void put_token(int32_t token)
{
    char text[256];
    const int64_t n = model_decode(token, text, sizeof text);
    for (int64_t i = 0; i < n && i < (int64_t)sizeof text; i++) board_put(text[i]);
}
#endif

#ifdef PROFILE
static struct model_timing timings[MODEL_TIMINGS];
static uint64_t clock_us(void *context) { (void)context; return board_time_us(); }

static void put_time(const char *name, unsigned long launches, int64_t us)
{
    print("profile: ");
    print(name);
    print(" ");
    print_number(launches);
    print(" ");
    print_number((unsigned long)us);
    print(" us\n");
}

static void profile(struct model *m)
{
    struct model_profiling p = { .size = sizeof p, .clock = clock_us, .timings = timings };
    const int32_t token = 0;
    check(model_profile(m, &token, 1, logits, &p), "profile");
    for (uint32_t i = 0; i < p.n_timings; i++) put_time(timings[i].name, timings[i].launches, timings[i].work);
    put_time("(step)", 1, p.step);
}
#endif

int main(void)
{
    const unsigned long start = board_time_us();
    struct model *m;
    check(model_open(&m, workspace, sizeof workspace, NULL), "open");
    uint32_t n;
    const int32_t *tokens = prompt_tokens(&n);
    step(m, tokens, n);
    unsigned long told = 0;
    for (int32_t token; told < LENGTH && !ended(token = model_sample(m, logits, &sampling)); told++) {
        put_token(token);
        if (told + 1 < LENGTH) step(m, &token, 1);
    }
    const unsigned long us = board_time_us() - start;
    print("\n[");
    print_number(told);
    print(" tokens in ");
    print_number(us / 1000);
    print(" ms; watchdog fed ");
    print_number(watchdog.fed);
    print(" times, at most ");
    print_number(watchdog.longest_us);
    print(" us apart]\n");
#ifdef PROFILE
    profile(m);
#endif
    model_close(m);
    return 0;
}
