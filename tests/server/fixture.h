/* fixture.h -- what tests of a server share: the program that they try, and what it answers as JSON. */
#ifndef TESTS_SERVER_FIXTURE_H
#define TESTS_SERVER_FIXTURE_H
#include <cjson/cJSON.h>
#include "client.h"

extern const char *program;
extern struct child server;
/* program as the server, with these arguments, NULL-terminated; 0: it listens. */
int fixture_start(const char *const *arguments);
/* For cmocka: asks it to end; its exit code. */
int fixture_stop(void **state);

/* The value at a path as "choices.0.text"; NULL: there is none. */
const cJSON *in(const cJSON *v, const char *path);
/* Of a stream all that a choice's events say, from malloc. */
char *stream_text(const char *body, int index);
#endif
