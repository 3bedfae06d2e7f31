/* scratch.h -- an arena and a folder for each test of a program; scratch_setup and scratch_teardown are for cmocka. */
#ifndef FORGEC_SCRATCH_H
#define FORGEC_SCRATCH_H
#include "compiler/base/base.h"
#include "compiler/build/spawn.h"
#include <stdio.h>
#include <stdlib.h>

struct scratch { struct arena *arena; char directory[64]; };

/* Compiled code is cached in the folder, not in the user's cache. */
static int scratch_setup(void **state)
{
    static struct scratch s;
    s.arena = arena_create();
    snprintf(s.directory, sizeof s.directory, "/tmp/forgec-test-XXXXXX");
    if (!mkdtemp(s.directory)) return -1;
    setenv("XDG_CACHE_HOME", arena_printf(s.arena, "%s/cache", s.directory), 1);
    *state = &s;
    return 0;
}

static int scratch_teardown(void **state)
{
    struct scratch *s = *state;
    const char *const argv[] = { "rm", "-rf", s->directory, NULL };
    struct spawn_job job = { .argv = argv };
    spawn_run(s->arena, &(struct spawn_options){ .jobs = 1 }, &job, 1);
    arena_destroy(s->arena);
    return job.status;
}
#endif
