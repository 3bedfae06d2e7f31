/* chat.c -- conversations of a model library: the templates and answer parser of runtime/chat, in memory of the caller. */
#include "instance.h"
#include "runtime/chat/answer.h"
#include "runtime/chat/chat_request.h"
#include "runtime/chat/tokens.h"
#include "runtime/text/tokenize.h"

#define CHAT_OPEN   0x746168632e6d6166u          /* "fam.chat" */
#define ANSWER_OPEN 0x72776e612e6d6166u          /* "fam.answ" */

/* The head of its memory; then come the trees of the request, the text, its marks, and scratch memory for the tokenizer. */
struct model_chat {
    uint64_t magic;
    const struct chat_family *family;
    const struct json *tools;                    /* NULL: none */
    struct chat_text text;
    uint8_t *scratch;
    size_t   scratch_bytes;
};
_Static_assert(sizeof(struct model_chat) <= LIBRARY_CHAT_HEAD_BYTES, "a conversation fits its part of the memory");

enum { TOKEN_BYTES = 1024, PROMPT_TAIL = 512 };  /* PROMPT_TAIL: the end of a prompt, in which reasoning may have been opened */

struct model_answer {
    uint64_t magic;
    struct answer answer;
    model_on_event *tell;
    void    *context;
    bool     ended;
    char     token[TOKEN_BYTES];
};
_Static_assert(sizeof(struct model_answer) <= LIBRARY_ANSWER_HEAD_BYTES, "an answer fits its part of the memory");

static const uint8_t *vocab(void) { return library_program()->vocab; }

/* ---- from a request to text ---- */

static void explain(struct model_refusal *to, uint32_t line, uint32_t column, const char *why)
{
    if (!to) return;
    struct text_out out = { to->text, sizeof to->text - 1, 0, false };
    to->line = line;
    to->column = column;
    text_out_put(&out, why, text_bytes(why));
    to->text[out.n] = 0;
}

/* The text of a token, as templates print it; NULL: there is no such token. */
static const char *token_name(int32_t id, char *text, size_t size)
{
    if (id < 0) return NULL;
    const size_t n = forge_token_text(vocab(), id, true, text, size - 1);
    text[n < size ? n : size - 1] = 0;
    return text;
}

/* Puts text and marks in two parts of `size` bytes each after the used part of the room; the rest is for the template.  MODEL_NO_ROOM:
 * the size or the rest is too small. */
static int render_in(struct model_chat *c, const struct room *room, size_t size, const struct chat_request *request,
                     const struct model_chat_options *o)
{
    char bos[256], eos[256];
    struct room work = *room;
    struct chat_error error;
    c->text = (struct chat_text){ .bytes = room_take(&work, size), .input = room_take(&work, size), .size = size };
    if (work.full) return MODEL_NO_ROOM;
    const struct chat_input input = { .variables = request->variables, .more = request->more, .now = o->now, .steps = o->steps,
                                      .family_variables = true, .bos = token_name(forge_vocab_bos(vocab()), bos, sizeof bos),
                                      .eos = token_name(forge_vocab_eos(vocab()), eos, sizeof eos) };
    if (!chat_render_within(o->depth ? o->depth : CHAT_DEPTH, library_chat, NULL, &input, &work, &c->text, &error)) {
        if (error.fault == CHAT_NO_ROOM || error.fault == CHAT_NO_SPACE) return MODEL_NO_ROOM;
        explain(o->refusal, error.line, 0, error.text);
        return MODEL_REFUSED;
    }
    if (request->n_prefill > size - c->text.n) return MODEL_NO_ROOM;
    if (request->n_prefill == 0) return MODEL_OK;
    memcpy(c->text.bytes + c->text.n, request->prefill, request->n_prefill);
    memset(c->text.input + c->text.n, 1, request->n_prefill);
    c->text.n += request->n_prefill;
    return MODEL_OK;
}

/* The text is small compared with the scratch memory for its tokens, so it first gets a small part. */
static int render(struct model_chat *c, const struct room *room, const struct chat_request *request, const struct model_chat_options *o)
{
    const size_t left = room->size - room->used;
    int status = MODEL_NO_ROOM;
    for (size_t part = 64; part >= 4 && status == MODEL_NO_ROOM; part /= 4) status = render_in(c, room, left / part, request, o);
    if (status != MODEL_OK) return status;
    memmove(c->text.bytes + c->text.n, c->text.input, c->text.n);
    c->text.input = (uint8_t *)c->text.bytes + c->text.n;
    c->text.size = c->text.n;
    struct room rest = *room;
    room_take(&rest, 2 * c->text.n);
    c->scratch = room_take(&rest, 0);
    c->scratch_bytes = rest.size - rest.used;
    return c->scratch ? MODEL_OK : MODEL_NO_ROOM;
}

static bool chat_options_valid(const struct model_chat_options *o)
{
    return o->size == sizeof *o && o->depth <= CHAT_DEPTH && o->steps <= UINT64_MAX / 2;
}

LIBRARY_PUBLIC int model_chat_open(struct model_chat **out, void *memory, size_t bytes, const char *request, size_t n,
                                   const struct model_chat_options *options)
{
    static const struct model_chat_options none = { .size = sizeof none };
    const struct model_chat_options *o = options ? options : &none;
    if (!vocab()) return MODEL_NO_TOKENIZER;
    if (!library_chat) return MODEL_NO_TEMPLATE;
    if (!out || !memory || (uintptr_t)memory % 8 != 0 || !request || !chat_options_valid(o)) return MODEL_BAD_ARGUMENT;
    struct room room = room_of(memory, bytes);
    struct model_chat *c = room_take(&room, LIBRARY_CHAT_HEAD_BYTES);
    struct chat_request read;
    struct chat_request_error error;
    if (!c) return MODEL_NO_ROOM;
    *c = (struct model_chat){ 0 };
    if (!chat_request_read(&room, library_chat, request, n, &read, &error)) {
        if (room.full) return MODEL_NO_ROOM;
        explain(o->refusal, error.line, error.column, error.text);
        return MODEL_REFUSED;
    }
    int status = render(c, &room, &read, o);
    struct model_chat_options later = *o;
    later.refusal = NULL;                        /* the first refusal is about the messages as they came */
    bool again = status == MODEL_REFUSED || (status == MODEL_OK && chat_loses_system(read.messages, c->text.bytes, c->text.n));
    for (; again && chat_messages_relax(&room, read.messages); again = status == MODEL_REFUSED) status = render(c, &room, &read, &later);
    if (status != MODEL_OK) return status == MODEL_REFUSED && room.full ? MODEL_NO_ROOM : status;
    c->tools = read.tools;
    c->family = read.family;
    c->magic = CHAT_OPEN;
    *out = c;
    return MODEL_OK;
}

static bool is_chat(const struct model_chat *c) { return c && c->magic == CHAT_OPEN; }

LIBRARY_PUBLIC const char *model_chat_text(const struct model_chat *c, size_t *n)
{
    if (!is_chat(c) || !n) return NULL;
    *n = c->text.n;
    return c->text.bytes;
}

LIBRARY_PUBLIC int64_t model_chat_tokens(struct model_chat *c, int32_t *out, size_t capacity)
{
    if (!is_chat(c) || (!out && capacity > 0) || c->text.n > FORGE_TOK_MAX_BYTES) return MODEL_BAD_ARGUMENT;
    if (c->scratch_bytes < LIBRARY_ENCODE_SCRATCH_FIXED ||
        (c->scratch_bytes - LIBRARY_ENCODE_SCRATCH_FIXED) / LIBRARY_ENCODE_SCRATCH_PER_BYTE < c->text.n) return MODEL_NO_ROOM;
    const int64_t count = chat_tokenize(vocab(), &c->text, out, capacity, c->scratch, c->scratch_bytes);
    return count >= 0 ? count : MODEL_NO_ROOM;
}

/* ---- from text to an answer ---- */

_Static_assert((int)MODEL_ANSWER_CONTENT == (int)ANSWER_CONTENT && (int)MODEL_ANSWER_CALL_END == (int)ANSWER_CALL_END,
               "kinds pass through");

static void pass_on(void *context, const struct answer_event *e)
{
    const struct model_answer *a = context;
    const struct model_event event = { .kind = (uint32_t)e->kind, .call = e->call, .text = e->text, .n = e->n, .id = e->id,
                                       .n_id = e->n_id };
    a->tell(a->context, &event);
}

LIBRARY_PUBLIC int model_answer_open(struct model_answer **out, void *memory, size_t bytes, const struct model_chat *c,
                                     model_on_event *tell, void *context)
{
    if (!vocab()) return MODEL_NO_TOKENIZER;
    if (!library_chat) return MODEL_NO_TEMPLATE;
    if (!out || !memory || (uintptr_t)memory % 8 != 0 || !is_chat(c) || !tell) return MODEL_BAD_ARGUMENT;
    struct room room = room_of(memory, bytes);
    struct model_answer *a = room_take(&room, LIBRARY_ANSWER_HEAD_BYTES);
    if (!a || bytes - LIBRARY_ANSWER_HEAD_BYTES < ANSWER_ROOM_LEAST) return MODEL_NO_ROOM;
    *a = (struct model_answer){ .tell = tell, .context = context };
    const size_t tail = c->text.n < PROMPT_TAIL ? c->text.n : PROMPT_TAIL;
    const struct answer_options o = { .family = c->family, .tools = c->tools, .prompt = c->text.bytes + c->text.n - tail, .n_prompt = tail,
                                      .tell = pass_on, .context = a, .room = room.bytes + room.used, .room_bytes = room.size - room.used };
    answer_begin(&a->answer, &o);
    a->magic = ANSWER_OPEN;
    *out = a;
    return MODEL_OK;
}

static bool is_answer(const struct model_answer *a) { return a && a->magic == ANSWER_OPEN && !a->ended; }

/* Tokens that end a turn in addition to those of the vocabulary. */
static bool ends_turn(const struct chat_family *f, const char *text, size_t n)
{
    for (size_t i = 0; i < CHAT_ENDS && f->ends[i]; i++)
        if (text_bytes(f->ends[i]) == n && memcmp(f->ends[i], text, n) == 0) return true;
    return false;
}

LIBRARY_PUBLIC int model_answer_text(struct model_answer *a, const char *text, size_t n)
{
    if (!is_answer(a) || (!text && n > 0)) return MODEL_BAD_ARGUMENT;
    answer_feed(&a->answer, text, n);
    return MODEL_OK;
}

LIBRARY_PUBLIC int model_answer_end(struct model_answer *a)
{
    if (!is_answer(a)) return MODEL_BAD_ARGUMENT;
    answer_end(&a->answer);
    a->ended = true;
    return MODEL_OK;
}

LIBRARY_PUBLIC int model_answer_token(struct model_answer *a, int32_t token)
{
    if (!is_answer(a) || (token >= 0 && (uint32_t)token >= library_program()->n_vocab)) return MODEL_BAD_ARGUMENT;
    if (model_is_end(token)) return model_answer_end(a);
    const size_t n = forge_token_text(vocab(), token, true, a->token, sizeof a->token);
    if (n > sizeof a->token) return MODEL_NO_ROOM;
    if (ends_turn(a->answer.family, a->token, n)) return model_answer_end(a);
    answer_feed(&a->answer, a->token, n);
    return MODEL_MORE;
}

LIBRARY_PUBLIC int model_answer_in_reasoning(const struct model_answer *a)
{
    return is_answer(a) && a->answer.reasoning;
}
