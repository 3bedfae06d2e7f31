/* guided.h -- answers with a form that the request demands. */
#ifndef FORGE_SERVE_GUIDED_H
#define FORGE_SERVE_GUIDED_H

#include "chat.h"

/* Makes guides for the tasks of x.  They come from the calls that its chat must make; or from `grammar`, `json_schema` or
 * `response_format` of its body, or `format` (the response_format of another API, or NULL); else from the grammar that the program was
 * built with.  False: refused. */
bool guided_tasks(struct request *x, const struct json *format);
#endif
