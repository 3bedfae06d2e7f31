/* mask.c -- see mask.h. */
#include "mask.h"
#include "runtime/text/tokenize.h"

#define NO_STACK UINT32_MAX
enum { NOWHERE = 0, NO_PLACE = 0xffff, MIXED = 0xfffe, MOST_PLACES = 0xfff0, KEPT = 8, MOST_STACKS = 1 << 24 };

/* ---- stacks ---- */

static uint32_t mix(uint32_t h, uint32_t x)
{
    h = (h ^ x) * 0x9e3779b1u;
    return h ^ h >> 15;
}

static uint32_t stack_bucket(const struct mask *m, uint32_t state, uint32_t parent, uint32_t count)
{
    return mix(mix(mix(1, state), parent), count) & (m->stack_buckets - 1);
}

/* The stack with state on top and parent below it.  Equal stacks are shared. */
static uint32_t stack_of(struct mask *m, uint32_t state, uint32_t parent, uint32_t count)
{
    uint32_t *bucket = &m->stack_hash[stack_bucket(m, state, parent, count)];
    for (uint32_t i = *bucket; i != NO_STACK; i = m->stacks[i].link) {
        const struct mask_stack *s = &m->stacks[i];
        if (s->state == state && s->parent == parent && s->count == count) return i;
    }
    if (m->n_stacks == m->most_stacks) { m->full = true; return NO_STACK; }
    m->stacks[m->n_stacks] = (struct mask_stack){ state, parent, count, 0, *bucket };
    return *bucket = m->n_stacks++;
}

/* ---- from stacks to places ---- */

static void set_begin(struct mask *m)
{
    m->n_found = 0;
    m->ends = false;
    m->stamp++;
}

/* Adds the stack to the work list, unless it was added before. */
static void set_add(struct mask *m, uint32_t stack, uint32_t *n_work)
{
    if (stack == NO_STACK || m->stacks[stack].stamp == m->stamp) return;
    m->stacks[stack].stamp = m->stamp;
    m->work[(*n_work)++] = stack;
}

/* Adds the stack, and follows everything it can do without a byte: finds all stacks with a byte or token next. */
static void set_close(struct mask *m, uint32_t first)
{
    const struct grammar_item *const items = grammar_items(m->grammar);
    const struct grammar_repeat *const repeats = grammar_repeats(m->grammar);
    uint32_t n_work = 0;
    set_add(m, first, &n_work);
    while (n_work > 0 && !m->full) {
        const uint32_t at = m->work[--n_work];
        const struct mask_stack s = m->stacks[at];
        bool reads = false;
        for (const struct grammar_item *x = &items[s.state]; ; x++) {
            if (m->left == 0) { m->full = true; return; }
            m->left--;
            switch ((enum grammar_kind)x->kind) {
            case GRAMMAR_BYTES:
            case GRAMMAR_TOKEN: reads = true; break;
            case GRAMMAR_EMPTY: set_add(m, stack_of(m, x->next, s.parent, 0), &n_work); break;
            case GRAMMAR_GO: set_add(m, stack_of(m, x->arg, s.parent, 0), &n_work); break;
            case GRAMMAR_CALL: {
                const uint32_t back = stack_of(m, x->next, s.parent, 0);
                if (back != NO_STACK) set_add(m, stack_of(m, x->arg, back, 0), &n_work);
                break;
            }
            case GRAMMAR_REPEAT: {
                const struct grammar_repeat *r = &repeats[x->arg];
                if (s.count < r->most) {
                    const uint32_t back = stack_of(m, s.state, s.parent, s.count + 1);
                    if (back != NO_STACK) set_add(m, stack_of(m, r->entry, back, 0), &n_work);
                }
                if (s.count >= r->least) set_add(m, stack_of(m, x->next, s.parent, 0), &n_work);
                break;
            }
            case GRAMMAR_END:
                if (s.parent == NO_STACK) m->ends = true;
                else set_add(m, s.parent, &n_work);
                break;
            case GRAMMAR_NOTHING: break;
            }
            if (x->last) break;
        }
        if (reads) m->found[m->n_found++] = at;
    }
}

/* Shell sort with Ciura's gaps; mostly one or two stacks. */
static void sort_stacks(uint32_t *a, uint32_t n)
{
    static const uint32_t gaps[] = { 1750, 701, 301, 132, 57, 23, 10, 4, 1 };
    for (uint32_t g = 0; g < sizeof gaps / sizeof *gaps; g++)
        for (uint32_t i = gaps[g]; i < n; i++) {
            const uint32_t x = a[i];
            uint32_t k = i;
            for (; k >= gaps[g] && a[k - gaps[g]] > x; k -= gaps[g]) a[k] = a[k - gaps[g]];
            a[k] = x;
        }
}

static bool has_tokens(const struct mask *m, uint32_t stack)
{
    const struct grammar_item *x = &grammar_items(m->grammar)[m->stacks[stack].state];
    for (; x->kind != GRAMMAR_TOKEN; x++) if (x->last) return false;
    return true;
}

/* The place of the stacks that were found. */
static uint16_t set_end(struct mask *m)
{
    if (m->full) return NO_PLACE;
    if (m->n_found == 0 && !m->ends) return NOWHERE;
    sort_stacks(m->found, m->n_found);
    uint32_t hash = m->ends;
    for (uint32_t i = 0; i < m->n_found; i++) hash = mix(hash, m->found[i]);
    uint16_t *bucket = &m->place_hash[hash & (m->place_buckets - 1)];
    for (uint16_t i = *bucket; i != NO_PLACE; i = m->places[i].link) {
        const struct mask_place *p = &m->places[i];
        if (p->hash == hash && p->n == m->n_found && p->ends == m->ends &&
            memcmp(m->pool + p->first, m->found, p->n * sizeof *m->found) == 0) return i;
    }
    if (m->n_places == m->most_places || m->n_found > m->most_pool - m->n_pool) { m->full = true; return NO_PLACE; }
    struct mask_place *p = &m->places[m->n_places];
    *p = (struct mask_place){ .first = m->n_pool, .n = m->n_found, .hash = hash, .link = *bucket, .uniform = NO_PLACE, .ends = m->ends };
    memcpy(m->pool + m->n_pool, m->found, m->n_found * sizeof *m->found);
    m->n_pool += m->n_found;
    for (uint32_t i = 0; i < p->n && !p->tokens; i++) p->tokens = has_tokens(m, m->found[i]);
    return *bucket = (uint16_t)m->n_places++;
}

static uint16_t *row_of(const struct mask *m, uint16_t place) { return m->rows + 256 * (size_t)place; }

/* Computes the place to which each byte leads.  Bytes between two bounds lead to the same place.  False: memory is full. */
static bool row_make(struct mask *m, uint16_t place)
{
    const struct grammar_item *const items = grammar_items(m->grammar);
    struct mask_place *const p = &m->places[place];
    uint16_t *const row = row_of(m, place);
    uint8_t bound[257] = { 0 };
    for (uint32_t i = 0; i < p->n; i++)
        for (const struct grammar_item *x = &items[m->stacks[m->pool[p->first + i]].state]; ; x++) {
            if (x->kind == GRAMMAR_BYTES) bound[x->low] = bound[x->high + 1] = 1;
            if (x->last) break;
        }
    for (uint32_t from = 0, to; from < 256; from = to) {
        for (to = from + 1; to < 256 && !bound[to]; ) to++;
        set_begin(m);
        if (m->left < p->n) { m->left = 0; m->full = true; return false; }
        m->left -= p->n;
        for (uint32_t i = 0; i < p->n && !m->full; i++) {
            const struct mask_stack stack = m->stacks[m->pool[p->first + i]];
            for (const struct grammar_item *x = &items[stack.state]; ; x++) {
                if (x->kind == GRAMMAR_BYTES && x->low <= from && from <= x->high) set_close(m, stack_of(m, x->next, stack.parent, 0));
                if (x->last) break;
            }
        }
        const uint16_t next = set_end(m);
        if (m->full) return false;
        for (uint32_t b = from; b < to; b++) row[b] = next;
    }
    p->ready = 1;
    return true;
}

static const uint16_t *row_ready(struct mask *m, uint16_t place)
{
    return m->places[place].ready || row_make(m, place) ? row_of(m, place) : NULL;
}

/* ---- memory ---- */

static void places_clear(struct mask *m)
{
    for (uint32_t i = 0; i < m->place_buckets; i++) m->place_hash[i] = NO_PLACE;
    for (uint32_t i = 0; i < KEPT; i++) m->kept_place[i] = NOWHERE;
    m->places[NOWHERE] = (struct mask_place){ .ready = 1, .uniform = NOWHERE };
    memset(m->rows, 0, 256 * sizeof *m->rows);
    m->n_places = 1;
    m->n_pool = 0;
}

/* Forgets everything that the current text does not need.  Stacks that are kept move to the front, still with parents before their
 * children. */
static void forget(struct mask *m)
{
    const struct mask_place now = m->places[m->now];
    uint32_t kept = 0;
    set_begin(m);
    for (uint32_t i = 0; i < now.n; i++) {
        m->found[i] = m->pool[now.first + i];
        for (uint32_t s = m->found[i]; s != NO_STACK && m->stacks[s].stamp != m->stamp; s = m->stacks[s].parent)
            m->stacks[s].stamp = m->stamp;
    }
    for (uint32_t i = 0; i < m->n_stacks; i++) {
        const struct mask_stack s = m->stacks[i];
        if (s.stamp != m->stamp) continue;
        struct mask_stack *to = &m->stacks[kept];
        to->state = s.state;
        to->parent = s.parent == NO_STACK ? NO_STACK : m->stacks[s.parent].link;
        to->count = s.count;
        m->stacks[i].link = kept++;                          /* the new index; later slots are still unchanged until they are reached */
    }
    for (uint32_t i = 0; i < now.n; i++) m->found[i] = m->stacks[m->found[i]].link;
    m->n_stacks = kept;
    for (uint32_t i = 0; i < m->stack_buckets; i++) m->stack_hash[i] = NO_STACK;
    for (uint32_t i = 0; i < kept; i++) {
        struct mask_stack *s = &m->stacks[i];
        uint32_t *bucket = &m->stack_hash[stack_bucket(m, s->state, s->parent, s->count)];
        s->stamp = 0;
        s->link = *bucket;
        *bucket = i;
    }
    places_clear(m);
    m->full = false;
    m->n_found = now.n;
    m->ends = now.ends;
    m->now = set_end(m);                                     /* fits, because it was there before */
}

/* Allows a second attempt after forgetting everything that was cached. */
static bool again(struct mask *m, uint32_t attempt)
{
    if (attempt > 0 || m->left == 0) { forget(m); return false; }
    forget(m);
    return true;
}

struct sizes { uint32_t stacks, stack_buckets, places, place_buckets, pool; size_t fixed; };

static uint32_t power_below(uint32_t n)
{
    uint32_t p = 1;
    while (p <= n / 2) p *= 2;
    return p;
}

static size_t fixed_bytes(const struct lexicon *x) { return (size_t)KEPT * x->n_words * 4 + LEXICON_DEPTH + 1 + 128; }

size_t mask_least(const struct lexicon *x) { return fixed_bytes(x) + ((size_t)1 << 16); }
size_t mask_usual(const struct lexicon *x) { return fixed_bytes(x) + ((size_t)4 << 20); }

/* Divides the rest: half for places, three eighths for stacks, an eighth for the places' lists of stacks. */
static bool memory_divide(struct mask *m, void *memory, size_t bytes)
{
    const struct lexicon *x = m->lexicon;
    struct room r = room_of(memory, bytes);
    if (bytes < mask_least(x)) return false;
    m->kept = room_array(&r, (size_t)KEPT * x->n_words, sizeof *m->kept);
    m->text = room_take(&r, LEXICON_DEPTH + 1);
    const size_t left = bytes - fixed_bytes(x);
    const size_t places = left / 2 / (sizeof *m->places + 256 * sizeof *m->rows + sizeof *m->place_hash);
    const size_t stacks = left * 3 / 8 / (sizeof *m->stacks + 3 * 4), pool = left / 8 / 4;
    m->most_places = places < MOST_PLACES ? (uint32_t)places : MOST_PLACES;
    m->place_buckets = power_below(m->most_places);
    m->most_stacks = stacks < MOST_STACKS ? (uint32_t)stacks : MOST_STACKS;
    m->stack_buckets = power_below(m->most_stacks);
    m->most_pool = pool < UINT32_MAX / 2 ? (uint32_t)pool : UINT32_MAX / 2;
    m->places = room_array(&r, m->most_places, sizeof *m->places);
    m->rows = room_array(&r, m->most_places, 256 * sizeof *m->rows);
    m->place_hash = room_array(&r, m->place_buckets, sizeof *m->place_hash);
    m->stacks = room_array(&r, m->most_stacks, sizeof *m->stacks);
    m->stack_hash = room_array(&r, m->stack_buckets, sizeof *m->stack_hash);
    m->work = room_array(&r, m->most_stacks, sizeof *m->work);
    m->found = room_array(&r, m->most_stacks, sizeof *m->found);
    m->pool = room_array(&r, m->most_pool, sizeof *m->pool);
    return !r.full;
}

enum mask_status mask_open(struct mask *m, const struct grammar *grammar, const struct lexicon *lexicon, void *memory, size_t bytes)
{
    *m = (struct mask){ .grammar = grammar, .lexicon = lexicon };
    return memory_divide(m, memory, bytes) ? mask_restart(m) : MASK_TOO_MUCH;
}

enum mask_status mask_restart(struct mask *m)
{
    m->ended = m->full = false;
    m->n_stacks = m->stamp = 0;
    m->left = MASK_WORK;
    for (uint32_t i = 0; i < m->stack_buckets; i++) m->stack_hash[i] = NO_STACK;
    places_clear(m);
    set_begin(m);
    set_close(m, stack_of(m, m->grammar->root, NO_STACK, 0));
    m->now = set_end(m);
    if (!m->full) return MASK_OK;
    m->now = NOWHERE;
    return MASK_TOO_MUCH;
}

/* ---- the mask ---- */

static void set_bit(uint32_t *bits, uint32_t i) { bits[i / 32] |= 1u << i % 32; }

/* Tests all tokens of a tree by means of the rows. */
static bool walk(struct mask *m, const struct lexicon_node *nodes, uint32_t n, uint32_t *bits)
{
    const uint16_t *rows[LEXICON_DEPTH + 1];
    if (!(rows[0] = row_ready(m, m->now))) return false;
    for (uint32_t i = 0; i < n; ) {
        const uint32_t span = nodes[i].span & (LEXICON_MOST_NODES - 1), depth = nodes[i].span >> 22;
        const uint32_t token = nodes[i].token & LEXICON_NO_TOKEN;
        const uint16_t place = rows[depth][nodes[i].token >> 24];
        if (place == NOWHERE) { i += span; continue; }
        if (token != LEXICON_NO_TOKEN) set_bit(bits, token);
        if (span > 1 && !(rows[depth + 1] = row_ready(m, place))) return false;
        i++;
    }
    return true;
}

/* Do all sequences that begin with a byte low .. high, followed by `more` bytes 80 .. BF, lead to the same place? */
static bool all_lead_to(struct mask *m, uint16_t place, uint32_t low, uint32_t high, uint32_t more, uint16_t to)
{
    const uint16_t *row = row_ready(m, place);
    uint16_t before = NO_PLACE;
    for (uint32_t b = low; row && b <= high; b++) {
        if (row[b] == before) continue;
        before = row[b];
        if (more == 0 || before == NOWHERE ? before != to : !all_lead_to(m, before, 0x80, 0xbf, more - 1, to)) return false;
    }
    return row != NULL;
}

/* The same for a first byte that allows only some second bytes. */
static bool lead_leads_to(struct mask *m, uint16_t place, uint8_t lead, uint32_t low, uint32_t high, uint32_t more, uint16_t to)
{
    const uint16_t *row = row_ready(m, place);
    if (!row) return false;
    return row[lead] == NOWHERE ? to == NOWHERE : all_lead_to(m, row[lead], low, high, more, to);
}

/* The place to which every plain character leads, or MIXED. */
static uint16_t uniform_of(struct mask *m, uint16_t place)
{
    if (m->places[place].uniform != NO_PLACE) return m->places[place].uniform;
    const uint16_t *row = row_ready(m, place);
    if (!row) return NO_PLACE;
    const uint16_t to = row[' '];
    const bool same = all_lead_to(m, place, ' ', '!', 0, to) && all_lead_to(m, place, '#', '[', 0, to) &&
                      all_lead_to(m, place, ']', '~', 0, to) && all_lead_to(m, place, 0xc2, 0xdf, 1, to) &&
                      lead_leads_to(m, place, 0xe0, 0xa0, 0xbf, 1, to) && all_lead_to(m, place, 0xe1, 0xec, 2, to) &&
                      lead_leads_to(m, place, 0xed, 0x80, 0x9f, 1, to) && all_lead_to(m, place, 0xee, 0xef, 2, to) &&
                      lead_leads_to(m, place, 0xf0, 0x90, 0xbf, 2, to) && all_lead_to(m, place, 0xf1, 0xf3, 3, to) &&
                      lead_leads_to(m, place, 0xf4, 0x80, 0x8f, 2, to);
    if (m->full) return NO_PLACE;
    return m->places[place].uniform = same ? to : MIXED;
}

/* Plain tokens: while every plain character leads to a single place, the length of a token decides. */
static bool fill_plain(struct mask *m, uint32_t *bits)
{
    const struct lexicon *x = m->lexicon;
    uint16_t at = m->now;
    for (uint32_t n = 0; n < LEXICON_PLAIN; n++) {
        const uint16_t to = uniform_of(m, at);
        if (to == NO_PLACE) return false;
        if (to == MIXED) return walk(m, x->plain, x->n_plain_nodes, bits);
        if (to == NOWHERE) {
            for (uint32_t i = 0; i < x->length_end[n]; i++) set_bit(bits, x->by_length[i]);
            return true;
        }
        if (to == at) break;
        at = to;
    }
    for (uint32_t i = 0; i < x->n_words; i++) bits[i] |= x->plain_bits[i];
    return true;
}

static void fill_tokens(const struct mask *m, uint32_t *bits)
{
    const struct mask_place *p = &m->places[m->now];
    const struct lexicon *x = m->lexicon;
    for (uint32_t i = 0; p->tokens && i < p->n; i++)
        for (const struct grammar_item *t = &grammar_items(m->grammar)[m->stacks[m->pool[p->first + i]].state]; ; t++) {
            if (t->kind == GRAMMAR_TOKEN && !t->low && t->arg < x->n_vocab) set_bit(bits, t->arg);
            for (uint32_t w = 0; t->kind == GRAMMAR_TOKEN && t->low && w < x->n_words; w++)
                bits[w] |= w == t->arg / 32 ? x->text_bits[w] & ~(1u << t->arg % 32) : x->text_bits[w];
            if (t->last) break;
        }
    for (uint32_t i = 0; p->ends && i < x->n_ends; i++) set_bit(bits, x->ends[i]);
}

enum mask_status mask_fill(struct mask *m, uint32_t *bits)
{
    const struct lexicon *x = m->lexicon;
    const size_t bytes = x->n_words * sizeof *bits;
    for (uint32_t i = 0; i < KEPT; i++)
        if (m->now != NOWHERE && m->kept_place[i] == m->now) { memcpy(bits, m->kept + i * (size_t)x->n_words, bytes); return MASK_OK; }
    m->left = MASK_WORK;
    for (uint32_t attempt = 0; ; attempt++) {
        memset(bits, 0, bytes);
        if (walk(m, x->rest, x->n_rest_nodes, bits) && fill_plain(m, bits)) break;
        if (!again(m, attempt)) return MASK_TOO_MUCH;
    }
    fill_tokens(m, bits);
    uint32_t any = 0;
    for (uint32_t i = 0; i < x->n_words; i++) any |= bits[i];
    if (!any) return MASK_STUCK;
    m->kept_place[m->kept_next] = m->now;
    memcpy(m->kept + m->kept_next * (size_t)x->n_words, bits, bytes);
    m->kept_next = (uint8_t)((m->kept_next + 1) % KEPT);
    return MASK_OK;
}

/* ---- adding text ---- */

/* NO_PLACE: memory is full. */
static uint16_t read_bytes(struct mask *m, const uint8_t *text, size_t n, size_t *n_read)
{
    uint16_t at = m->now;
    for (*n_read = 0; *n_read < n; ++*n_read) {
        const uint16_t *row = row_ready(m, at);
        if (!row) return NO_PLACE;
        if (row[text[*n_read]] == NOWHERE) return NOWHERE;
        at = row[text[*n_read]];
    }
    return at;
}

/* Reads a token both as its text and as a token that the grammar names. */
static uint16_t read_token(struct mask *m, int32_t token, size_t n)
{
    size_t n_read;
    const struct mask_place p = m->places[m->now];
    const uint16_t by_text = n > 0 ? read_bytes(m, m->text, n, &n_read) : NOWHERE;
    if (!p.tokens || by_text == NO_PLACE) return by_text;
    const bool is_text = m->lexicon->text_bits[token / 32] >> token % 32 & 1, ends = m->places[by_text].ends != 0;
    set_begin(m);
    for (uint32_t i = 0; i < m->places[by_text].n; i++) set_close(m, m->pool[m->places[by_text].first + i]);
    for (uint32_t i = 0; i < p.n; i++)
        for (const struct grammar_item *t = &grammar_items(m->grammar)[m->stacks[m->pool[p.first + i]].state]; ; t++) {
            const bool same = t->arg == (uint32_t)token;
            if (t->kind == GRAMMAR_TOKEN && (t->low ? !same && is_text : same))
                set_close(m, stack_of(m, t->next, m->stacks[m->pool[p.first + i]].parent, 0));
            if (t->last) break;
        }
    m->ends |= ends;
    return set_end(m);
}

enum mask_status mask_token(struct mask *m, int32_t token)
{
    const struct lexicon *x = m->lexicon;
    if (token < 0 || (uint32_t)token >= x->n_vocab || m->ended) return MASK_REFUSED;
    for (uint32_t i = 0; i < x->n_ends; i++)
        if (x->ends[i] == (uint32_t)token && m->places[m->now].ends) { m->ended = true; return MASK_OK; }
    const bool text = x->text_bits[token / 32] >> token % 32 & 1;
    const size_t n = text ? forge_token_text(x->vocab, token, false, (char *)m->text, LEXICON_DEPTH + 1) : 0;
    m->left = MASK_WORK;
    for (uint32_t attempt = 0; ; attempt++) {
        const uint16_t to = read_token(m, token, n);
        if (to == NOWHERE) return MASK_REFUSED;
        if (to != NO_PLACE) { m->now = to; return MASK_OK; }
        if (!again(m, attempt)) return MASK_TOO_MUCH;
    }
}

enum mask_status mask_text(struct mask *m, const char *text, size_t n, size_t *n_read)
{
    size_t all = 0, one;
    for (uint32_t attempt = 0; all < n; attempt = 0) {
        uint16_t to;
        m->left = MASK_WORK;
        while ((to = read_bytes(m, (const uint8_t *)text + all, 1, &one)) == NO_PLACE) if (!again(m, attempt++)) return MASK_TOO_MUCH;
        if (n_read) *n_read = all;
        if (to == NOWHERE) return MASK_REFUSED;
        m->now = to;
        all++;
    }
    if (n_read) *n_read = n;
    return MASK_OK;
}
