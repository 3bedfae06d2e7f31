/* fixture.c -- see fixture.h. */
#include "fixture.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *program;
struct child server;

int fixture_start(const char *const *arguments)
{
    server = child_start(program, arguments);
    if (!server.port) fprintf(stderr, "%s", child_said(&server));
    return server.port == 0;
}

int fixture_stop(void **state)
{
    (void)state;
    kill(server.pid, SIGINT);
    const int code = child_wait(&server, 40);
    if (code) fprintf(stderr, "exit code %d: %s\n", code, child_said(&server));
    return code;
}

const cJSON *in(const cJSON *v, const char *path)
{
    char name[64];
    while (v && *path) {
        const size_t n = strcspn(path, ".");
        snprintf(name, sizeof name, "%.*s", (int)n, path);
        v = cJSON_IsArray(v) ? cJSON_GetArrayItem(v, atoi(name)) : cJSON_GetObjectItemCaseSensitive(v, name);
        path += n + (path[n] == '.');
    }
    return v;
}

char *stream_text(const char *body, int index)
{
    char *text = calloc(1, strlen(body) + 1);
    for (const char *line = body; (line = strstr(line, "data: {")); ) {
        cJSON *event = cJSON_Parse(line += 6);
        cJSON *choice;
        cJSON_ArrayForEach(choice, cJSON_GetObjectItem(event, "choices")) {
            const cJSON *i = cJSON_GetObjectItem(choice, "index"), *t = cJSON_GetObjectItem(choice, "text");
            if (!t) t = cJSON_GetObjectItem(cJSON_GetObjectItem(choice, "delta"), "content");
            if (cJSON_IsNumber(i) && i->valueint == index && cJSON_IsString(t)) strcat(text, t->valuestring);
        }
        cJSON_Delete(event);
    }
    return text;
}
