/* check.h -- --check: can this program run here?  Prints a line on stdout for each finding that matters.  It reads the weights and
 * compares them with their hashes, but computes nothing. */
#ifndef FORGE_CHECK_H
#define FORGE_CHECK_H

#include "runtime/run/engine.h"

enum check_level { CHECK_OK, CHECK_WARN, CHECK_FAIL };

/* "WARN  kernel    6.12.1: ..." */
__attribute__((format(printf, 3, 4)))
void check_line(enum check_level level, const char *subject, const char *format, ...);

/* Has the machine enough memory for a CPU program?  text [size]: both sizes, and if there is too little, what to do. */
bool check_memory(const struct forge_program *program, char *text, size_t size);

/* Checks the programs of the executable in their order, or only the program for `target`.  weights_path: -m, or NULL.  devices: the GPUs
 * to check, or NULL.  FORGE_OK if one can run, else the reason why the last one cannot. */
enum forge_status check_run(const char *target, const char *weights_path, const struct forge_devices *devices, struct forge_error *error);

#endif
