/* target_flags.c -- which clang flags, triples and CPU features a target may name. A target file may come from anyone: it may choose
 * instructions and floating-point rules, but it must not name a file, load code or consume the next argument. */
#include "target_parts.h"
#include <string.h>

static const char *const machine_values[] = { "abi", "arch", "branch-protection", "cmodel", "cpu", "float-abi", "fpmath", "fpu",
                                              "prefer-vector-width", "recip", "rvv-vector-bits", "stack-alignment", "sve-vector-bits",
                                              "tune", NULL };
/* Flags that begin like a machine flag but are not: -mllvm and -mmlir pass the next argument on, the others name files or systems. */
static const char *const machine_refused[] = { "link", "llvm", "mlir", "no-link", "odule", "thread-model", NULL };
static const char *const code_words[] = { "associative-math", "asynchronous-unwind-tables", "data-sections", "fast-math",
                                          "finite-math-only", "function-sections", "math-errno", "omit-frame-pointer", "pic", "PIC",
                                          "reciprocal-math", "ropi", "rwpi", "short-enums", "short-wchar", "signed-zeros", "slp-vectorize",
                                          "stack-protector", "strict-aliasing", "trapping-math", "unroll-loops", "unwind-tables",
                                          "vectorize", NULL };
static const char *const contract_values[] = { "fast", "off", "on", NULL };

#define LETTERS_SMALL "abcdefghijklmnopqrstuvwxyz"
#define LETTERS       LETTERS_SMALL "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS        "0123456789"

static bool is_of(const char *s, size_t n, const char *characters) { return n && strspn(s, characters) >= n; }

/* True if the word of n bytes at s is in the list. */
static bool is_in(const char *const *list, const char *s, size_t n)
{
    for (; *list; list++)
        if (strlen(*list) == n && !strncmp(*list, s, n)) return true;
    return false;
}

static bool is_machine_flag(const char *s)                   /* s: the flag after "-m" */
{
    const char *value = strchr(s, '=');
    if (value) return is_in(machine_values, s, (size_t)(value - s)) && is_of(value + 1, strlen(value + 1), LETTERS DIGITS "+-._,:!");
    for (const char *const *p = machine_refused; *p; p++)
        if (!strncmp(s, *p, strlen(*p))) return false;
    return is_of(s, strlen(s), LETTERS_SMALL DIGITS ".-");
}

static bool is_code_flag(const char *s)                      /* s: the flag after "-f" */
{
    const bool off = !strncmp(s, "no-", 3);
    if (!strncmp(s, "fp-contract=", 12)) return is_in(contract_values, s + 12, strlen(s + 12));
    if (!strncmp(s, "fixed-", 6)) return is_of(s + 6, strlen(s + 6), LETTERS_SMALL DIGITS);
    return is_in(code_words, s + (off ? 3 : 0), strlen(s + (off ? 3 : 0)));
}

static bool is_definition(const char *s)                     /* s: the flag after "-D" */
{
    const char  *value = strchr(s, '=');
    const size_t n = value ? (size_t)(value - s) : strlen(s);
    return is_of(s, n, LETTERS DIGITS "_") && !strchr(DIGITS, *s) && (!value || is_of(value + 1, strlen(value + 1), LETTERS DIGITS "_."));
}

static bool is_flag(const char *s)
{
    if (!strncmp(s, "-m", 2))     return is_machine_flag(s + 2);
    if (!strncmp(s, "-f", 2))     return is_code_flag(s + 2);
    if (!strncmp(s, "-D", 2))     return is_definition(s + 2);
    if (!strncmp(s, "-Wno-", 5))  return is_of(s + 5, strlen(s + 5), LETTERS_SMALL DIGITS "-");
    return false;
}

static void list_words(struct text *t, const char *const *words_of)
{
    for (size_t i = 0; words_of[i]; i++) text_printf(t, "%s%s", i ? ", " : "", words_of[i]);
}

void target_check_flags(struct arena *a, const struct yaml *y)
{
    for (uint32_t i = 0; i < y->count; i++) {
        const char *word = y->items[i]->scalar;
        if (is_flag(word)) continue;
        struct text t = { .arena = a };
        text_puts(&t, "-mNAME, -mNAME=VALUE with ");
        list_words(&t, machine_values);
        text_puts(&t, "; -DNAME, -DNAME=WORD; -Wno-NAME; -ffp-contract=VALUE, -ffixed-REGISTER and -fNAME, -fno-NAME with ");
        list_words(&t, code_words);
        die_at(y->items[i]->at, "a target cannot have the flag %s; it can have: %s", printable(a, word, strlen(word)), text_str(&t));
    }
}

/* x86_64-linux-gnu, thumbv7em-none-eabihf: the words also become part of a file name and of an argument. */
const char *target_triple_of(struct arena *a, const struct yaml *y)
{
    const char *s = yaml_string(y);
    const size_t n = strlen(s);
    if (n > TARGET_NAME_MOST || !is_of(s, n, LETTERS DIGITS "._-") || !is_of(s, 1, LETTERS) || !strchr(s, '-'))
        die_at(y->at, "%s is not a triple; a triple is MACHINE-SYSTEM-ABI, such as thumbv7em-none-eabihf", printable(a, s, n));
    return arena_strdup(a, s);
}

void target_check_features(struct arena *a, const struct yaml *y)
{
#define X86(name, gcc) #name,
#define X86_BIT(name, leaf, subleaf, reg, bit, needs) #name,
#define ARM(name, bit) #name,
#define ARM2(name, bit) #name,
    static const char *const known[] = {
#include "runtime/device/cpu_features.def"
        NULL };
#undef X86
#undef X86_BIT
#undef ARM
#undef ARM2
    for (uint32_t i = 0; i < y->count; i++) target_one_of(a, y->items[i], known);
}
