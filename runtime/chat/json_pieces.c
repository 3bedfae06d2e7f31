/* json_pieces.c -- see json_pieces.h. */
#include "json_pieces.h"
#include "text.h"

enum {
    VALUE, VALUE_OR_END, NAME, NAME_OR_END, COLON, BEHIND,   /* between texts; BEHIND: after a value */
    STRING, ESCAPE, DIGITS, SECOND, SECOND_ESCAPE,           /* SECOND: the other half of a surrogate pair may follow */
    WORD, MINUS, ZERO, WHOLE, POINT, FRACTION, EXPONENT, SIGNED, POWER,
    OF_NAME = 32,                                            /* with STRING to SECOND_ESCAPE: the string is a name */
};

static bool is_digit(char c) { return c >= '0' && c <= '9'; }
static bool is_array(const struct json_pieces *p) { return p->arrays[(p->depth - 1) / 64] >> (p->depth - 1) % 64 & 1; }

static enum json_progress go(struct json_pieces *p, uint8_t state)
{
    p->state = state;
    return JSON_GOES_ON;
}

static enum json_progress put_and_go(struct json_pieces *p, struct text_out *out, char c, uint8_t state)
{
    text_out_char(out, c);
    return go(p, state);
}

void json_pieces_begin(struct json_pieces *p) { *p = (struct json_pieces){ .state = VALUE }; }

/* ---- strings ---- */

static void put_code(struct text_out *out, uint32_t code)
{
    char utf8[4];
    json_put_escaped(out, utf8, text_put_codepoint(utf8, code));
}

/* The second half did not come. */
static void put_high(struct json_pieces *p, struct text_out *out)
{
    if (p->high) put_code(out, 0xfffd);
    p->high = 0;
}

static enum json_progress code_ends(struct json_pieces *p, struct text_out *out, uint8_t of)
{
    const bool high = p->code >= 0xd800 && p->code < 0xdc00, low = p->code >= 0xdc00 && p->code < 0xe000;
    if (low && p->high) {
        put_code(out, 0x10000 + ((p->high - 0xd800) << 10) + (p->code - 0xdc00));
        p->high = 0;
        return go(p, STRING | of);
    }
    put_high(p, out);
    if (high) { p->high = p->code; return go(p, SECOND | of); }
    put_code(out, low ? 0xfffd : p->code);
    return go(p, STRING | of);
}

static enum json_progress in_escape(struct json_pieces *p, char c, struct text_out *out, uint8_t of)
{
    static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
    const char *known = memchr(from, c, sizeof from - 1);
    if (c == 'u') { p->n = 0; p->code = 0; return go(p, DIGITS | of); }
    put_high(p, out);
    if (!known) return JSON_WRONG;
    json_put_escaped(out, &into[known - from], 1);
    return go(p, STRING | of);
}

static enum json_progress in_digits(struct json_pieces *p, char c, struct text_out *out, uint8_t of)
{
    const int d = is_digit(c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    if (d < 0) return JSON_WRONG;
    p->code = p->code << 4 | (uint32_t)d;
    return ++p->n < 4 ? JSON_GOES_ON : (p->n = 0, code_ends(p, out, of));
}

static enum json_progress in_string(struct json_pieces *p, char c, struct text_out *out, uint8_t of)
{
    if (p->n > 0 || (uint8_t)c >= 0x80) {
        const uint8_t lead = (uint8_t)(p->n > 0 ? p->held[0] : c);
        const uint8_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
        p->held[p->n++] = c;
        if (lead < 0xc2 || (p->n > 1 && ((uint8_t)c & 0xc0) != 0x80)) return JSON_WRONG;
        if (p->n < length) return JSON_GOES_ON;
        if (!json_utf8(p->held, p->n)) return JSON_WRONG;
        text_out_put(out, p->held, p->n);
        p->n = 0;
        return JSON_GOES_ON;
    }
    if (c == '"') return put_and_go(p, out, c, of ? COLON : BEHIND);
    if (c == '\\') return go(p, ESCAPE | of);
    if ((uint8_t)c < 0x20) return JSON_WRONG;
    text_out_char(out, c);
    return JSON_GOES_ON;
}

static enum json_progress in_text(struct json_pieces *p, char c, struct text_out *out)
{
    const uint8_t of = p->state & OF_NAME, state = p->state & (OF_NAME - 1);
    if (state == SECOND && c == '\\') return go(p, SECOND_ESCAPE | of);
    if (state == ESCAPE || state == SECOND_ESCAPE) return in_escape(p, c, out, of);
    if (state == DIGITS) return in_digits(p, c, out, of);
    put_high(p, out);
    p->state = STRING | of;
    return in_string(p, c, out, of);
}

/* ---- values ---- */

static enum json_progress open_value(struct json_pieces *p, char c, struct text_out *out)
{
    const bool array = c == '[';
    if (p->depth == JSON_DEPTH) return JSON_WRONG;
    const uint64_t bit = (uint64_t)1 << p->depth % 64;
    if (array) p->arrays[p->depth / 64] |= bit;
    else p->arrays[p->depth / 64] &= ~bit;
    p->depth++;
    return put_and_go(p, out, c, array ? VALUE_OR_END : NAME_OR_END);
}

static enum json_progress close_value(struct json_pieces *p, char c, struct text_out *out)
{
    if (is_array(p) != (c == ']')) return JSON_WRONG;
    put_and_go(p, out, c, BEHIND);
    return --p->depth ? JSON_GOES_ON : JSON_ENDS;
}

static enum json_progress begin_value(struct json_pieces *p, char c, struct text_out *out)
{
    if (c == '{' || (c == '[' && p->depth > 0)) return open_value(p, c, out);
    if (p->depth == 0) return JSON_WRONG;
    if (c == '"') return put_and_go(p, out, c, STRING);
    if (c == '-') return put_and_go(p, out, c, MINUS);
    if (is_digit(c)) return put_and_go(p, out, c, c == '0' ? ZERO : WHOLE);
    p->word = c == 't' ? "rue" : c == 'f' ? "alse" : c == 'n' ? "ull" : NULL;
    return p->word ? put_and_go(p, out, c, WORD) : JSON_WRONG;
}

/* Between names and values, where white space may stand. */
static enum json_progress in_between(struct json_pieces *p, char c, struct text_out *out)
{
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') return JSON_GOES_ON;
    switch (p->state) {
    case COLON: return c == ':' ? put_and_go(p, out, c, VALUE) : JSON_WRONG;
    case BEHIND:
        if (c == ',') return put_and_go(p, out, c, is_array(p) ? VALUE : NAME);
        return c == '}' || c == ']' ? close_value(p, c, out) : JSON_WRONG;
    case NAME_OR_END:
        if (c == '}') return close_value(p, c, out);
        return c == '"' ? put_and_go(p, out, c, STRING | OF_NAME) : JSON_WRONG;
    case NAME: return c == '"' ? put_and_go(p, out, c, STRING | OF_NAME) : JSON_WRONG;
    case VALUE_OR_END:
        if (c == ']') return close_value(p, c, out);
        return begin_value(p, c, out);
    default: return begin_value(p, c, out);
    }
}

static enum json_progress in_number(struct json_pieces *p, char c, struct text_out *out)
{
    const bool digit = is_digit(c), power = c == 'e' || c == 'E';
    switch (p->state) {
    case MINUS: return digit ? put_and_go(p, out, c, c == '0' ? ZERO : WHOLE) : JSON_WRONG;
    case ZERO: case WHOLE:
        if (digit) return p->state == WHOLE ? put_and_go(p, out, c, WHOLE) : JSON_WRONG;
        if (c == '.') return put_and_go(p, out, c, POINT);
        if (power) return put_and_go(p, out, c, EXPONENT);
        break;
    case POINT: return digit ? put_and_go(p, out, c, FRACTION) : JSON_WRONG;
    case FRACTION:
        if (digit) return put_and_go(p, out, c, FRACTION);
        if (power) return put_and_go(p, out, c, EXPONENT);
        break;
    case EXPONENT:
        if (c == '+' || c == '-') return put_and_go(p, out, c, SIGNED);
        return digit ? put_and_go(p, out, c, POWER) : JSON_WRONG;
    case SIGNED: return digit ? put_and_go(p, out, c, POWER) : JSON_WRONG;
    default:
        if (digit) return put_and_go(p, out, c, POWER);
        break;
    }
    p->state = BEHIND;
    return in_between(p, c, out);
}

enum json_progress json_piece(struct json_pieces *p, char c, struct text_out *out)
{
    const uint8_t state = p->state & (OF_NAME - 1);
    if (state <= BEHIND) return in_between(p, c, out);
    if (state < WORD) return in_text(p, c, out);
    if (state > WORD) return in_number(p, c, out);
    if (c != *p->word) return JSON_WRONG;
    p->word++;
    return put_and_go(p, out, c, *p->word ? WORD : BEHIND);
}
