/* fixture.h -- for tests of a server: the program under test, and its answers as JSON. */
#ifndef TESTS_SERVER_FIXTURE_H
#define TESTS_SERVER_FIXTURE_H
#include <cjson/cJSON.h>
#include "client.h"

extern const char *program;
extern struct child server;
/* Starts `program` as the server with these NULL-terminated arguments; 0: it listens. */
int fixture_start(const char *const *arguments);
/* For cmocka: asks the server to end and returns its exit code. */
int fixture_stop(void **state);

/* The value at a path such as "choices.0.text"; NULL: there is no such value. */
const cJSON *in(const cJSON *v, const char *path);
/* The whole text of a choice in a stream of events, from malloc. */
char *stream_text(const char *body, int index);
#endif
