/* escape.h -- text within other text: names that come from a file, in a report. */
#ifndef FORGE_ESCAPE_H
#define FORGE_ESCAPE_H

enum escape { ESCAPE_JSON, ESCAPE_CSV, ESCAPE_MD, ESCAPE_HTML };

/* To stdout.  text: without control characters, as names of programs are (runtime/model/abi.h). */
void print_escaped(const char *text, enum escape form);
#endif
