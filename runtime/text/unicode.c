/* unicode.c -- see unicode.h. */
#include "unicode.h"
#include "unicode.inc"
