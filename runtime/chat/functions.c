/* functions.c -- functions that templates call: Jinja's range, dict, namespace, joiner; transformers' raise_exception and strftime_now. */
#include "value.h"

/* ---- the clock ---- */

struct date { int64_t year; uint32_t month, day, hour, minute, second, weekday, yearday; };     /* month, day from 1; weekday from
                                                                                                 * Sunday; yearday from 1 */

/* Converts days to a date of the Gregorian calendar, in eras of 400 years that begin in March. */
static struct date date_of(int64_t now)
{
    int64_t days = now / 86400, rest = now % 86400;
    if (rest < 0) { rest += 86400; days--; }
    const int64_t weekday = ((days + 4) % 7 + 7) % 7, z = days + 719468, era = (z >= 0 ? z : z - 146096) / 146097;
    const uint32_t day = (uint32_t)(z - era * 146097), year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
    const uint32_t of_year = day - (365 * year + year / 4 - year / 100), m = (5 * of_year + 2) / 153;
    struct date d = { .year = (int64_t)year + era * 400 + (m >= 10), .month = m < 10 ? m + 3 : m - 9,
                      .day = of_year - (153 * m + 2) / 5 + 1, .hour = (uint32_t)(rest / 3600),
                      .minute = (uint32_t)(rest / 60 % 60), .second = (uint32_t)(rest % 60),
                      .weekday = (uint32_t)weekday };
    static const uint16_t before[] = { 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334 };
    const bool leap = d.year % 4 == 0 && (d.year % 100 != 0 || d.year % 400 == 0);
    d.yearday = before[d.month - 1] + d.day + (leap && d.month > 2);
    return d;
}

static void put_number(struct text_out *t, int64_t n, uint32_t width, char fill)
{
    char text[24];
    const size_t digits = integer_text(n, text);
    for (size_t i = digits; i < width; i++) text_out_char(t, fill);
    text_out_put(t, text, digits);
}

static void put_name(struct text_out *t, const char *names, uint32_t index, bool whole)
{
    while (index-- > 0) {
        while (*names) names++;
        names++;
    }
    text_out_put(t, names, whole ? text_bytes(names) : 3);
}

/* False: there is no such letter. */
static bool put_date(struct text_out *t, const struct date *d, char letter, bool bare)
{
    static const char days[] = "Sunday\0Monday\0Tuesday\0Wednesday\0Thursday\0Friday\0Saturday";
    static const char months[] = "January\0February\0March\0April\0May\0June\0July\0August\0September\0October\0November\0December";
    const uint32_t two = bare ? 1 : 2, hour = d->hour % 12 ? d->hour % 12 : 12;
    switch (letter) {
    case 'a': case 'A': put_name(t, days, d->weekday, letter == 'A'); return true;
    case 'b': case 'h': case 'B': put_name(t, months, d->month - 1, letter == 'B'); return true;
    case 'd': put_number(t, d->day, two, '0'); return true;
    case 'e': put_number(t, d->day, two, ' '); return true;
    case 'H': put_number(t, d->hour, two, '0'); return true;
    case 'I': put_number(t, hour, two, '0'); return true;
    case 'j': put_number(t, d->yearday, bare ? 1 : 3, '0'); return true;
    case 'm': put_number(t, d->month, two, '0'); return true;
    case 'M': put_number(t, d->minute, two, '0'); return true;
    case 'S': put_number(t, d->second, two, '0'); return true;
    case 'f': TEXT_OUT_WORDS(t, "000000"); return true;
    case 'p': text_out_put(t, d->hour < 12 ? "AM" : "PM", 2); return true;
    case 'u': put_number(t, d->weekday ? d->weekday : 7, 1, '0'); return true;
    case 'w': put_number(t, d->weekday, 1, '0'); return true;
    case 'y': put_number(t, d->year % 100, two, '0'); return true;
    case 'Y': put_number(t, d->year, 1, '0'); return true;
    case 'z': case 'Z': return true;                           /* the time has no zone */
    case 'n': text_out_char(t, '\n'); return true;
    case 't': text_out_char(t, '\t'); return true;
    case '%': text_out_char(t, '%'); return true;
    default: return false;
    }
}

bool strftime_now(struct render *r, const struct value *format, struct value *out)
{
    char bytes[1024];
    struct text_out t = { bytes, sizeof bytes, 0, false };
    struct builder b;
    const struct date d = date_of(r->in->now);
    if (!charge(r, format->n)) return false;
    for (size_t i = 0; i < format->n && !t.full; i++) {
        if (format->text[i] != '%' || i + 1 == format->n) { text_out_char(&t, format->text[i]); continue; }
        const bool bare = format->text[i + 1] == '-' && i + 2 < format->n;
        i += bare ? 2 : 1;
        const char letter = format->text[i];
        const char *const several = letter == 'F' ? "Y-m-d" : letter == 'T' || letter == 'X' ? "H:M:S"
                                  : letter == 'D' || letter == 'x' ? "m/d/y" : letter == 'R' ? "H:M"
                                  : letter == 'c' ? "a b e H:M:S Y" : letter == 'r' ? "I:M:S p" : NULL;
        for (const char *p = several; p && *p; p++) if (!put_date(&t, &d, *p, false)) text_out_char(&t, *p);
        if (several || put_date(&t, &d, letter, bare)) continue;
        text_out_char(&t, '%');
        text_out_char(&t, letter);
    }
    if (t.full) return fail_text(r, CHAT_REFUSED, "strftime_now: the date has more than 1024 bytes");
    builder_begin(&b, r);
    builder_put(&b, t.bytes, t.n, format->from != FROM_TEMPLATE);
    return builder_end(&b, out);
}

/* ---- range, dict, namespace, joiner ---- */

static bool make_range(struct render *r, const struct arguments *args, struct value *out)
{
    int64_t part[3] = { 0, 0, 1 };
    if (args->n < 1 || args->n > 3) return fail_text(r, CHAT_REFUSED, "range needs one to three integers");
    for (uint32_t i = 0; i < args->n; i++) {
        if (!is_integer(&args->at[i])) return fail_with(r, "range needs integers, not '%s'", kind_name(&args->at[i]), "");
        part[args->n == 1 ? 1 : i] = integer_of(&args->at[i]);
    }
    const int64_t from = part[0], to = part[1], step = part[2];
    if (step == 0) return fail_text(r, CHAT_REFUSED, "range() arg 3 must not be zero");
    uint64_t n = 0;
    if (step > 0 && to > from) n = ((uint64_t)to - (uint64_t)from - 1) / (uint64_t)step + 1;
    if (step < 0 && from > to) n = ((uint64_t)from - (uint64_t)to - 1) / (0 - (uint64_t)step) + 1;
    if (n > CHAT_RANGE) return fail_text(r, CHAT_REFUSED, "range: more than 100000 numbers");
    struct range *g = room_take(r->room, sizeof *g);
    if (!g) return fail_room(r);
    *g = (struct range){ from, to, step, n };
    *out = (struct value){ .kind = RANGE, .range = g };
    return true;
}

bool function_call(struct render *r, uint32_t function, const struct arguments *args, struct value *out)
{
    const struct value *first = args->n ? &args->at[0] : NULL;
    struct value text;
    struct method *m;
    struct dict *d;
    char sentence[sizeof r->error->text];
    switch (function) {
    case CHAT_G_range: return make_range(r, args, out);
    case CHAT_G_dict: case CHAT_G_namespace:
        if (!dict_new(r, args->n_named, &d) || !dict_update(r, d, args)) return false;
        *out = (struct value){ .kind = function == CHAT_G_dict ? DICT : NAMESPACE, .dict = d };
        return true;
    case CHAT_G_joiner:
        m = room_take(r->room, sizeof *m);
        if (!m) return fail_room(r);
        first = argument(r, args, 0, "sep");
        *m = (struct method){ first ? *first : WORDS(", "), 0 };
        *out = (struct value){ .kind = JOINER, .method = m };
        return true;
    case CHAT_G_strftime_now:
        return argument_string(r, argument(r, args, 0, "format"), "strftime_now") && strftime_now(r, argument(r, args, 0, "format"), out);
    default:                                                   /* raise_exception */
        first = argument(r, args, 0, "message");
        if (!first) return fail_text(r, CHAT_REFUSED, "raise_exception needs a message");
        if (!value_text(r, first, &text)) return false;
        if (text.n > sizeof sentence - 1) {
            text.n = sizeof sentence - 1;
            while (text.n && ((uint8_t)text.text[text.n] & 0xc0) == 0x80) text.n--;
        }
        memcpy(sentence, text.text, text.n);
        sentence[text.n] = 0;
        return fail_text(r, CHAT_RAISED, sentence);
    }
}
