/* guided.h -- answers in a form that the request asks for. */
#ifndef FORGE_SERVE_GUIDED_H
#define FORGE_SERVE_GUIDED_H

#include "chat.h"

/* Guides for the tasks of x: for calls that its chat must make, by `grammar`, `json_schema` or `response_format` of its body, by format
 * (another API's response_format; NULL: none), else by the grammar that the program was built with.  False: refused and closed. */
bool guided_tasks(struct exchange *x, const struct json *format);
#endif
