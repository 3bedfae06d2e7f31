/* check.h -- --check: can this program run here?  A line on stdout for everything that matters.  Weights are read and compared with their
 * hashes, nothing is computed. */
#ifndef FORGE_CHECK_H
#define FORGE_CHECK_H

#include "runtime/run/engine.h"

enum check_level { CHECK_OK, CHECK_WARN, CHECK_FAIL };

/* "WARN  kernel    6.12.1: ..." */
__attribute__((format(printf, 3, 4)))
void check_line(enum check_level level, const char *subject, const char *format, ...);

/* Has the machine the memory that a program for a CPU needs?  text [size]: both, and where not what to do. */
bool check_memory(const struct forge_program *program, char *text, size_t size);

/* Checks the programs of the executable, or the one called target, in their order.  weights_path: -m or NULL.  devices: NULL, or the GPUs
 * to look at.  FORGE_OK when one can run, else why the last one cannot. */
enum forge_status check_run(const char *target, const char *weights_path, const struct forge_devices *devices, struct forge_error *error);

#endif
