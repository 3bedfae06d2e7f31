/* html.h -- parts of an HTML page: escaped text, readable numbers and styles. */
#ifndef FORGEC_HTML_H
#define FORGEC_HTML_H
#include "compiler/base/base.h"

enum { HTML_COLORS = 8 };            /* classes c0 to c7 of programs; letters and marks distinguish the programs too */

/* Appends s as text or within an attribute's quotes: < > & " ' become entities; invisible characters (except line ends and tabs) and
 * invalid UTF-8 become U+FFFD. */
void html_puts(struct text *t, const char *s, size_t n);
void html_text(struct text *t, const char *s);
/* Appends the page from <!DOCTYPE> to the beginning of the body, with the styles for everything that compare_html.c writes. A security
 * policy in the page forbids browsers to run scripts and to fetch anything. */
void html_head(struct text *t, const char *title);
/* "21,602", "431.2", "0.0312", "14": about four digits, or all of them before the point. */
const char *html_number(struct arena *a, double x);
#endif
