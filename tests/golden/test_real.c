/* test_real.c -- plans every key set of real.txt of tests/data/real/keys.tar.xz for a CPU and for a GPU, and builds it:
 *
 *   test_real MAKE_GGUF REAL.TXT                 writes the files, reads each file and plans it for x86-64-v3 and gfx1151
 *   test_real MAKE_GGUF REAL.TXT FORGEC I/N      only part I of N: builds each file for this machine and verifies the program
 *
 * A set with "refused TEXT" must be refused with one line that has TEXT.  $REAL_ONLY: runs only sets with this text in their name. */
#include "compiler/base/base.h"
#include "compiler/base/target.h"
#include "compiler/build/build.h"
#include "compiler/build/spawn.h"
#include "compiler/front/graph.h"
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LEAST = 60 };           /* sets */

static jmp_buf died;
static char    message[4096];

static void remember(const char *text)
{
    snprintf(message, sizeof message, "%s", text);
    longjmp(died, 1);
}

static bool is_planned(const char *path, const struct target *target)
{
    struct arena *volatile a = arena_create();
    const struct build_options o = { .model_path = path, .fuse = FUSE_LAYER };
    message[0] = 0;
    die_handler = remember;
    if (setjmp(died) == 0) build_plan(a, &o, graph_build(a, build_model(a, &o, gguf_open(a, path, false))), target);
    die_handler = NULL;
    arena_destroy(a);
    return !message[0];
}

/* Runs forgec verify: builds the program and compares its logits with the reference. */
static bool is_verified(struct arena *a, const char *forgec, const char *path)
{
    const char *argv[] = { forgec, "verify", path, "--tokens", "24", NULL };
    struct spawn_job job = { .argv = argv };
    spawn_run(a, &(struct spawn_options){ .jobs = 1 }, &job, 1);
    snprintf(message, sizeof message, "exit code %d: %s", job.status, job.messages ? job.messages : "");
    message[strcspn(message, "\n")] = 0;
    return job.status == 0;
}

/* The text after "refused " in the lines of the model, or NULL. */
static const char *refusal(struct arena *a, const char *lines)
{
    const char *next = strstr(lines, "\nmodel "), *text = strstr(lines, "\nrefused ");
    if (!text || (next && text > next)) return NULL;
    text += strlen("\nrefused ");
    return arena_strndup(a, text, strcspn(text, "\n"));
}

int main(int argc, char **argv)
{
    uint32_t part = 0, parts = 1;
    const bool builds = argc == 5 && sscanf(argv[4], "%u/%u", &part, &parts) == 2 && part < parts;
    if (argc != 3 && !builds) { fputs("usage: test_real MAKE_GGUF REAL.TXT [FORGEC I/N]\n", stderr); return 2; }
    struct arena *a = arena_create();
    cleanup_install_signals();
    setvbuf(stdout, NULL, _IOLBF, 0);                          /* so that a failure is seen at once */
    char *work = arena_printf(a, "%s/forgec-real.XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(work)) die("%s: cannot make a directory", work);
    cleanup_unlink_at_exit(work);
    const char *make[] = { argv[1], "--real", argv[2], "--type", "F16", "-o", work, NULL };
    struct spawn_job job = { .argv = make };
    spawn_run(a, &(struct spawn_options){ .jobs = 1 }, &job, 1);
    if (job.status != 0) die("make_gguf: exit code %d: %s", job.status, job.messages ? job.messages : "");

    const struct target *targets[] = { target_load(a, "x86-64-v3", NULL), target_load(a, "gfx1151", NULL) };
    const struct bytes file = file_read(a, argv[2]);
    const char *text = arena_strndup(a, (const char *)file.data, file.size), *only = getenv("REAL_ONLY");
    uint32_t n = 0, n_refused = 0, n_failed = 0;
    for (const char *p = text; (p = strstr(p, "\nmodel ")); ) {
        p += strlen("\nmodel ");
        const char *name = arena_strndup(a, p, strcspn(p, " ")), *path = arena_printf(a, "%s/%s.gguf", work, name), *why = refusal(a, p);
        const bool asked = (!only || strstr(name, only)) && n % parts == part;
        for (size_t i = 0; i < (builds ? 1 : COUNT_OF(targets)) && asked; i++) {
            const bool ok = builds ? is_verified(a, argv[3], path) : is_planned(path, targets[i]);
            if (!why && ok) continue;
            if (why && !ok && strstr(message, why) && !strchr(message, '\n')) continue;
            printf("FAILED %s for %s: %s\n", name, builds ? "this machine" : targets[i]->name,
                   ok ? "taken, where real.txt says refused" : message);
            n_failed++;
        }
        n++;
        n_refused += why != NULL;
        unlink(path);
    }
    rmdir(work);
    printf("%u key sets, %u to be refused, %s: %u failed\n", n, n_refused,
           builds ? "a part of them built" : "for two targets", n_failed);
    arena_destroy(a);
    return n_failed == 0 && n >= LEAST ? 0 : 1;
}
