/* fuzz_answer.c -- libFuzzer: for any text of a model of any family, answer.h reports the same events in order, for any cut of the text
 * into pieces, and arguments are JSON.  First byte: the family; second: bit 0: tools are offered, 1: a small room, 2-3: the prompt's end,
 * 4: arguments in pieces, 5-7: bytes of a piece; then the text, in which bytes from 0x80 to 0xbf stand for marks of the family. */
#include <stdlib.h>
#include <string.h>
#include "runtime/chat/begun.h"

enum { TEXT = 1 << 16 };
struct told { char text[2][8 * TEXT]; size_t n[2]; bool open; char arguments[8 * TEXT]; size_t n_arguments; uint32_t calls; };

static bool in_pieces;
static uint8_t block[1 << 16], values[1 << 20];

static void append(char *to, size_t *n, const char *text, size_t n_text)
{
    if (*n + n_text > 8 * TEXT) abort();
    if (n_text) memcpy(to + *n, text, n_text);
    *n += n_text;
}

/* Calls appear in the content as events, so that their positions are compared too. */
static void collect(void *context, const struct answer_event *e)
{
    struct told *t = context;
    struct json_error error;
    if (e->kind <= ANSWER_REASONING) {
        if (t->open || !e->n) abort();
        append(t->text[e->kind], &t->n[e->kind], e->text, e->n);
        return;
    }
    if (e->call != t->calls || t->open == (e->kind == ANSWER_CALL)) abort();
    if (e->kind != ANSWER_ARGUMENTS || !t->n_arguments) append(t->text[0], &t->n[0], "\0(", 2);
    append(t->text[0], &t->n[0], e->text, e->n);
    append(t->text[0], &t->n[0], e->id, e->n_id);
    if (e->kind == ANSWER_CALL) { t->open = true; t->n_arguments = 0; if (!e->n) abort(); }
    if (e->kind == ANSWER_ARGUMENTS) append(t->arguments, &t->n_arguments, e->text, e->n);
    if (e->kind != ANSWER_CALL_END) return;
    struct room r = room_of(values, sizeof values);
    if (e->cut && !in_pieces) abort();
    if (!e->cut && !json_read(&r, t->arguments, t->n_arguments, &error) && error.why) abort();
    t->open = false;
    t->calls++;
}

static void read_in_pieces(struct told *t, const struct answer_options *o, const char *text, size_t n, size_t piece)
{
    struct answer a;
    struct answer_options mine = *o;
    mine.context = t;
    mine.tell = collect;
    mine.room = malloc(o->room_bytes);
    t->n[0] = t->n[1] = t->calls = 0;
    t->open = false;
    answer_begin(&a, &mine);
    if (in_pieces) answer_in_pieces(&a);
    for (size_t at = 0; at < n; at += piece) {
        struct begun b;
        answer_feed(&a, text + at, piece < n - at ? piece : n - at);
        if (begun_call(&a, &b) && (b.rest < a.hold || b.rest + b.n_rest != a.hold + a.n || !memchr(b.name, 0, BEGUN_NAME))) abort();
    }
    answer_end(&a);
    if (t->open) abort();
    free(mine.room);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char offered[] = "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {\"properties\": "
        "{\"a\": {\"type\": \"string\"}, \"b\": {\"anyOf\": [{\"type\": \"integer\"}, {\"type\": \"null\"}]}, "
        "\"c\": {\"$ref\": \"#/$defs/c\"}}, "
        "\"$defs\": {\"c\": {\"type\": [\"array\", \"object\"]}}}}}]";
    static struct told whole, cut;
    static char text[TEXT];
    if (size < 2 || size > 4096) return 0;
    const struct chat_family *f = chat_family(data[0] % CHAT_N_FAMILIES);
    const char *const marks[] = { f->open, f->call, f->post, f->close, f->id_mark, f->name_mark, f->args_mark, f->key, f->tag_end, f->value,
        f->value_end, f->raw[0], f->raw[1], f->code, f->start, f->think[0], f->think[1], f->drop[0], f->drop[1], f->drop[2], f->drop[3],
        "{\"name\": \"f\", ", "\"arguments\": {\"a\": 1}", "<|channel|>", "<|message|>", "to=functions.f", "<|\"|>", "```json", "f\n",
        "{}", "[", "]", "f(a=", "string=\"false\"", "<![CDATA[", "]]>", "/", "\"", ".call(",
        "functions.f:0", "<item>", "</item>", "<a>", "</a>", "f{a:", "\\u00" };
    const size_t n_marks = sizeof marks / sizeof *marks;
    size_t n = 0;
    for (size_t i = 2; i < size && n < TEXT - 256; i++) {
        const char *mark = data[i] >= 0x80 && data[i] < 0xc0 ? marks[(data[i] & 63) % n_marks] : NULL;
        if (mark) append(text, &n, mark, strlen(mark));
        else text[n++] = (char)data[i];
    }
    struct room r = room_of(block, sizeof block);
    struct json_error error;
    in_pieces = data[1] & 16;
    const char *const prompts[] = { "", f->start, f->think[0], "<|start|>assistant<|channel|>analysis" };
    const char *prompt = prompts[data[1] >> 2 & 3] ? prompts[data[1] >> 2 & 3] : "";
    const struct answer_options o = { .family = f, .tools = data[1] & 1 ? json_read(&r, offered, sizeof offered - 1, &error) : NULL,
                                      .prompt = prompt, .n_prompt = strlen(prompt),
                                      .room_bytes = data[1] & 2 ? ANSWER_ROOM_LEAST : ANSWER_ROOM };
    const size_t piece = data[1] >> 5 ? data[1] >> 5 : 11;
    read_in_pieces(&whole, &o, text, n, n ? n : 1);
    read_in_pieces(&cut, &o, text, n, piece);
    for (int i = 0; i < 2; i++)
        if (whole.n[i] != cut.n[i] || memcmp(whole.text[i], cut.text[i], cut.n[i]) != 0) abort();
    return 0;
}
