/* die_capture.h -- lets a test read the message of die() and continue.  A test program includes it once. */
#ifndef FORGEC_DIE_CAPTURE_H
#define FORGEC_DIE_CAPTURE_H
#include "compiler/base/base.h"
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)          /* GCC warns about locals that no path changes after setjmp */
#  pragma GCC diagnostic ignored "-Wclobbered"
#endif

static jmp_buf die_jump;
static char    die_text[8192];

static void die_captured(const char *message)
{
    snprintf(die_text, sizeof die_text, "%s", message);
    longjmp(die_jump, 1);
}

/* True if the statement died; then the message is in die_text.  Variables that it changes must be volatile or static. */
#define DIES(statement)                                              \
    (die_text[0] = '\0', die_handler = die_captured,                 \
     setjmp(die_jump) == 0 ? ((void)(statement), die_handler = NULL, false) : (die_handler = NULL, true))

#define assert_dies(statement, part)                                                                            \
    do {                                                                                                        \
        if (!DIES(statement)) fail_msg("%s did not die", #statement);                                           \
        if (!strstr(die_text, (part))) fail_msg("message \"%s\" lacks \"%s\"", die_text, (part));               \
        if (strchr(die_text, '\n')) fail_msg("message has more than one line: %s", die_text);                   \
    } while (0)
#endif
