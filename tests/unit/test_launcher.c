/* test_launcher.c -- detects the environment of mpirun and srun, and of shells in their jobs. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/device/launcher.h"

static const char *const all[] = { "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "PMI_SIZE", "PMI_RANK",
                                   "MPI_LOCALRANKID", "PMI_LOCAL_RANK", "SLURM_STEP_ID", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS",
                                   "SLURM_PROCID", "SLURM_LOCALID" };

/* The result for an environment with only "NAME=VALUE NAME=VALUE". */
static struct forge_launcher found(const char *environment, enum forge_status expected)
{
    char text[400];
    struct forge_launcher l;
    struct forge_error error = { "" };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) unsetenv(all[i]);
    snprintf(text, sizeof text, "%s", environment);
    for (char *word = strtok(text, " "); word; word = strtok(NULL, " ")) {
        char *value = strchr(word, '=');
        *value = 0;
        setenv(word, value + 1, 1);
    }
    assert_int_equal(launcher_find(&l, &error), expected);
    assert_int_equal(error.text[0] != 0, expected != FORGE_OK);
    return l;
}

static void launchers(void **state)
{
    (void)state;
    const uint32_t none = (uint32_t)LAUNCHER_NOT_TOLD;
    static const char slurm[] = "SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=3 SLURM_LOCALID=1 SLURM_NTASKS=4 ";
    const struct { const char *environment, *name; uint32_t n, rank, local; } rows[] = {
        { "", NULL, 1, 0, 0 },
        { "OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_LOCAL_RANK=1", "Open MPI", 4, 2, 1 },
        { "OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_RANK=2", "Open MPI", 4, 2, none },
        { "PMI_SIZE=2 PMI_RANK=1 MPI_LOCALRANKID=0", "MPI", 2, 1, 0 },
        { "PMI_SIZE=2 PMI_RANK=1 SLURM_LOCALID=1", "MPI", 2, 1, 1 },
        { "PMI_SIZE=2 PMI_RANK=1", "MPI", 2, 1, none },
        { slurm, "Slurm", 4, 3, 1 },
        /* a batch script, and a shell of salloc as newer versions start it */
        { "SLURM_NTASKS=4 SLURM_PROCID=0 SLURM_LOCALID=0", NULL, 1, 0, 0 },
        { "SLURM_STEP_ID=4294967290 SLURM_STEP_NUM_TASKS=1 SLURM_NTASKS=4 SLURM_PROCID=0 SLURM_LOCALID=0", "Slurm", 1, 0, 0 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct forge_launcher l = found(rows[i].environment, FORGE_OK);
        if (rows[i].name) assert_string_equal(l.name, rows[i].name);
        else assert_null(l.name);
        assert_int_equal(l.n, rows[i].n);
        assert_int_equal(l.rank, rows[i].rank);
        assert_int_equal(l.local, rows[i].local);
    }
    /* mpirun with daemons that srun started */
    char both[400];
    snprintf(both, sizeof both, "%s OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_LOCAL_RANK=0", slurm);
    assert_int_equal(found(both, FORGE_OK).n, 2);
}

static void contradictions(void **state)
{
    (void)state;
    static const char *const wrong[] = { "OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=2", "PMI_SIZE=0 PMI_RANK=0", "PMI_SIZE=2x PMI_RANK=0",
                                         "PMI_SIZE=2 PMI_RANK=-1", "PMI_SIZE= PMI_RANK=0", "PMI_SIZE=99999999999 PMI_RANK=0" };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) assert_int_equal(found(wrong[i], FORGE_USAGE).n, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(launchers), cmocka_unit_test(contradictions) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
