/* escape.h -- escapes text for a report, such as names from a file. */
#ifndef FORGE_ESCAPE_H
#define FORGE_ESCAPE_H

enum escape { ESCAPE_JSON, ESCAPE_CSV, ESCAPE_MD, ESCAPE_HTML };

/* Prints to stdout.  text: without control characters, like the names of programs (runtime/model/abi.h). */
void print_escaped(const char *text, enum escape form);
#endif
