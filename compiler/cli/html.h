/* html.h -- pieces of a page: text made harmless, numbers for people, and the look of it. */
#ifndef FORGEC_HTML_H
#define FORGEC_HTML_H
#include "compiler/base/base.h"

enum { HTML_COLORS = 8 };            /* classes c0 to c7 of programs, which their letters and marks tell apart, too */

/* s as text or within an attribute's quotes: < > & " ' become entities; what is not visible or wrong UTF-8 becomes U+FFFD, but not line
 * ends and tabs. */
void html_puts(struct text *t, const char *s, size_t n);
void html_text(struct text *t, const char *s);
/* From <!DOCTYPE> to the beginning of the body, with the styles of all that compare_html.c writes.  Browsers are told to run no script and
 * to fetch nothing, whatever the page says. */
void html_head(struct text *t, const char *title);
/* "21,602", "431.2", "0.0312", "14": about four digits, or all of them before the point. */
const char *html_number(struct arena *a, double x);
#endif
