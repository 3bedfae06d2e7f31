/* code_object.c -- AMD's kernel metadata (an ELF note in MessagePack), PTX text, and ptxas -v. */
#include "code_object.h"
#include <elf.h>
#include <stdio.h>
#include <string.h>

enum { MACHINE_AMDGPU = 224, NOTE_METADATA = 32, NEST_MAX = 16 };      /* ELF e_machine and note type, LLVM's AMDGPUUsage */

/* ---- a checked cursor ---- */

struct cursor { const uint8_t *at, *end; bool failed; };

/* The next n bytes; NULL past the end, and the cursor stays failed. */
static const uint8_t *take(struct cursor *c, uint64_t n)
{
    if (c->failed || n > (uint64_t)(c->end - c->at)) {
        c->failed = true;
        return NULL;
    }
    const uint8_t *bytes = c->at;
    c->at += n;
    return bytes;
}

static uint64_t take_big_endian(struct cursor *c, uint32_t n)
{
    const uint8_t *bytes = take(c, n);
    uint64_t       value = 0;
    for (uint32_t i = 0; bytes && i < n; i++) value = value << 8 | bytes[i];
    return value;
}

static struct cursor part(struct bytes whole, uint64_t offset, uint64_t size)
{
    const bool inside = offset <= whole.size && size <= whole.size - offset;
    return inside ? (struct cursor){ .at = whole.data + offset, .end = whole.data + offset + size } : (struct cursor){ .failed = true };
}

/* ---- MessagePack (github.com/msgpack/msgpack/blob/master/spec.md), as far as the metadata uses it ---- */

enum item_kind { ITEM_OTHER, ITEM_BOOL, ITEM_INT, ITEM_STRING, ITEM_ARRAY, ITEM_MAP };            /* INT: not negative */
struct item { enum item_kind kind; uint64_t value; const char *text; };      /* value: number, length, or count of elements or pairs */

static struct item take_string(struct cursor *c, uint64_t size)
{
    return (struct item){ ITEM_STRING, size, (const char *)take(c, size) };
}

static struct item take_other(struct cursor *c, uint64_t size)
{
    take(c, size);
    return (struct item){ .kind = ITEM_OTHER };
}

/* The head of the next item, with its bytes if it is no array or map. */
static struct item take_item(struct cursor *c)
{
    const uint8_t *head = take(c, 1);
    if (!head) return take_other(c, 0);
    const uint8_t h = *head;
    if (h < 0x80) return (struct item){ .kind = ITEM_INT, .value = h };
    if (h < 0x90) return (struct item){ .kind = ITEM_MAP, .value = h & 15 };
    if (h < 0xa0) return (struct item){ .kind = ITEM_ARRAY, .value = h & 15 };
    if (h < 0xc0) return take_string(c, h & 31);
    if (h >= 0xe0) return take_other(c, 0);                                                                   /* negative */
    switch (h) {
    case 0xc0: return take_other(c, 0);                                                                       /* nil */
    case 0xc2: case 0xc3: return (struct item){ .kind = ITEM_BOOL, .value = h & 1 };
    case 0xc4: case 0xc5: case 0xc6: return take_other(c, take_big_endian(c, 1u << (h - 0xc4)));              /* bytes */
    case 0xc7: case 0xc8: case 0xc9: return take_other(c, take_big_endian(c, 1u << (h - 0xc7)) + 1);          /* typed bytes */
    case 0xca: case 0xcb: return take_other(c, h == 0xca ? 4 : 8);                                            /* floats */
    case 0xcc: case 0xcd: case 0xce: case 0xcf: return (struct item){ .kind = ITEM_INT, .value = take_big_endian(c, 1u << (h - 0xcc)) };
    case 0xd0: case 0xd1: case 0xd2: case 0xd3: return take_other(c, 1u << (h - 0xd0));                       /* signed */
    case 0xd4: case 0xd5: case 0xd6: case 0xd7: case 0xd8: return take_other(c, (1u << (h - 0xd4)) + 1u);     /* typed bytes */
    case 0xd9: case 0xda: case 0xdb: return take_string(c, take_big_endian(c, 1u << (h - 0xd9)));
    case 0xdc: case 0xdd: return (struct item){ .kind = ITEM_ARRAY, .value = take_big_endian(c, h == 0xdc ? 2 : 4) };
    case 0xde: case 0xdf: return (struct item){ .kind = ITEM_MAP, .value = take_big_endian(c, h == 0xde ? 2 : 4) };
    default:
        c->failed = true;
        return take_other(c, 0);
    }
}

/* Passes over what an item's head promises.  Every element is a byte at least, so a wrong count ends at the end of the note. */
static void skip_elements(struct cursor *c, struct item item, uint32_t depth)
{
    if (item.kind != ITEM_ARRAY && item.kind != ITEM_MAP) return;
    if (depth == NEST_MAX) c->failed = true;
    const uint64_t n = item.kind == ITEM_MAP ? 2 * item.value : item.value;
    for (uint64_t i = 0; i < n && !c->failed; i++) skip_elements(c, take_item(c), depth + 1);
}

static bool is_text(struct item item, const char *text)
{
    return item.kind == ITEM_STRING && item.text && item.value == strlen(text) && !memcmp(item.text, text, item.value);
}

/* ---- AMD ---- */

static const struct { const char *key; size_t offset; } numbers[] = {
#define NUMBER(key, member) { key, offsetof(struct kernel_resources, member) }
    NUMBER(".vgpr_count", vgprs),                          NUMBER(".agpr_count", agprs),
    NUMBER(".sgpr_count", sgprs),                          NUMBER(".vgpr_spill_count", vgpr_spills),
    NUMBER(".sgpr_spill_count", sgpr_spills),              NUMBER(".private_segment_fixed_size", scratch_bytes),
    NUMBER(".group_segment_fixed_size", lds_bytes),        NUMBER(".kernarg_segment_size", kernarg_bytes),
    NUMBER(".max_flat_workgroup_size", threads),           NUMBER(".wavefront_size", wave),
#undef NUMBER
};

/* One map of amdhsa.kernels. */
static void read_kernel(struct arena *a, struct cursor *c, struct kernel_resources *k)
{
    const struct item map = take_item(c);
    if (map.kind != ITEM_MAP) c->failed = true;
    for (uint64_t i = 0; i < map.value && !c->failed; i++) {
        const struct item key = take_item(c), value = take_item(c);
        skip_elements(c, value, 2);
        if (c->failed) return;
        for (size_t j = 0; j < COUNT_OF(numbers); j++) {
            if (!is_text(key, numbers[j].key)) continue;
            if (value.kind != ITEM_INT || value.value > UINT32_MAX) c->failed = true;
            *(uint32_t *)(void *)((char *)k + numbers[j].offset) = (uint32_t)value.value;
        }
        if (is_text(key, ".name") && value.kind == ITEM_STRING) k->name = arena_strndup(a, value.text, value.value);
        if (is_text(key, ".uses_dynamic_stack")) k->dynamic_stack = value.kind == ITEM_BOOL && value.value;
    }
    if (!k->name || !*k->name) c->failed = true;
}

static struct kernel_resources *read_metadata(struct arena *a, struct cursor c, size_t *n)
{
    const struct item root = take_item(&c);
    if (root.kind != ITEM_MAP) return NULL;
    for (uint64_t i = 0; i < root.value && !c.failed; i++) {
        const struct item key = take_item(&c), value = take_item(&c);
        if (!is_text(key, "amdhsa.kernels") || value.kind != ITEM_ARRAY || value.value > (uint64_t)(c.end - c.at)) {
            skip_elements(&c, value, 1);
            continue;
        }
        struct kernel_resources *kernels = arena_array(a, struct kernel_resources, value.value + 1);
        for (uint64_t k = 0; k < value.value && !c.failed; k++) read_kernel(a, &c, &kernels[k]);
        if (c.failed) return NULL;
        *n = value.value;
        return kernels;
    }
    return NULL;
}

/* The metadata among the notes of a segment; failed when there is none. */
static struct cursor find_metadata(struct cursor c)
{
    for (Elf64_Nhdr note; !c.failed; ) {
        const uint8_t *head = take(&c, sizeof note);
        if (!head) break;
        memcpy(&note, head, sizeof note);
        const uint8_t *name = take(&c, ((uint64_t)note.n_namesz + 3) & ~3ull);
        const uint8_t *data = take(&c, note.n_descsz);
        if (data && note.n_type == NOTE_METADATA && note.n_namesz == 7 && !memcmp(name, "AMDGPU", 7))
            return (struct cursor){ .at = data, .end = data + note.n_descsz };
        take(&c, -(uint64_t)note.n_descsz & 3);
    }
    return (struct cursor){ .failed = true };
}

static struct kernel_resources *read_elf(struct arena *a, struct bytes object, size_t *n)
{
    Elf64_Ehdr ehdr;
    if (object.size < sizeof ehdr) return NULL;
    memcpy(&ehdr, object.data, sizeof ehdr);
    if (ehdr.e_ident[EI_CLASS] != ELFCLASS64 || ehdr.e_ident[EI_DATA] != ELFDATA2LSB || ehdr.e_machine != MACHINE_AMDGPU) return NULL;
    if (ehdr.e_phentsize != sizeof(Elf64_Phdr)) return NULL;
    struct cursor headers = part(object, ehdr.e_phoff, (uint64_t)ehdr.e_phnum * sizeof(Elf64_Phdr));
    for (uint32_t i = 0; i < ehdr.e_phnum; i++) {
        Elf64_Phdr     phdr;
        const uint8_t *bytes = take(&headers, sizeof phdr);
        if (!bytes) return NULL;
        memcpy(&phdr, bytes, sizeof phdr);
        if (phdr.p_type != PT_NOTE) continue;
        const struct cursor metadata = find_metadata(part(object, phdr.p_offset, phdr.p_filesz));
        if (!metadata.failed) return read_metadata(a, metadata, n);
    }
    return NULL;
}

/* ---- PTX text ---- */

static const char *find(const char *text, const char *end, const char *word)
{
    return memmem(text, (size_t)(end - text), word, strlen(word));
}

/* The decimal number behind blanks; 0 when there is none.  The text ends in a NUL. */
static uint32_t number_at(const char *text)
{
    uint64_t value = 0;
    text += strspn(text, " \t");
    for (; *text >= '0' && *text <= '9' && value <= UINT32_MAX; text++) value = 10 * value + (uint64_t)(*text - '0');
    return value <= UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

/* The size in "[...]" of an array declaration that begins at text. */
static uint32_t array_bytes(const char *text, const char *end)
{
    const char *line_end = find(text, end, "\n"), *open = line_end ? find(text, line_end, "[") : NULL;
    return open ? number_at(open + 1) : 0;
}

/* text: behind ".entry"; end: where the next kernel begins.
 * PTX tells of no registers, but a stack shows as an array in local memory. */
static struct kernel_resources read_entry(struct arena *a, const char *text, const char *end)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_$%";
    struct kernel_resources k = { .wave = 32 };
    text += strspn(text, " \t");
    k.name = arena_strndup(a, text, strspn(text, letters));
    const char *body = find(text, end, "{"), *at;
    if (!body) body = end;
    for (at = text; (at = find(at, body, ".param")); at++) {
        const uint32_t bytes = array_bytes(at, body);
        k.kernarg_bytes += bytes ? bytes : 8;                 /* a scalar; forgec's kernels have one struct */
    }
    if ((at = find(text, body, ".maxntid"))) k.threads = number_at(at + strlen(".maxntid"));
    if ((at = find(body, end, ".local ")) && (at = find(at, end, "__local_depot"))) k.scratch_bytes = array_bytes(at, end);
    return k;
}

static struct kernel_resources *read_ptx(struct arena *a, struct bytes object, size_t *n)
{
    const char *text = arena_strndup(a, (const char *)object.data, object.size), *end = text + strlen(text);
    static const char entry[] = ".visible .entry ";
    if (!find(text, end, ".target sm_")) return NULL;
    size_t count = 0;
    for (const char *at = text; (at = find(at, end, entry)); at++) count++;
    struct kernel_resources *kernels = arena_array(a, struct kernel_resources, count + 1);
    const char *at = find(text, end, entry);
    for (size_t i = 0; i < count; i++) {
        const char *next = find(at + 1, end, entry);
        kernels[i] = read_entry(a, at + strlen(entry), next ? next : end);
        if (!*kernels[i].name) return NULL;
        at = next;
    }
    *n = count;
    return kernels;
}

struct kernel_resources *code_object_read(struct arena *a, struct bytes object, size_t *n)
{
    *n = 0;
    if (object.size >= SELFMAG && !memcmp(object.data, ELFMAG, SELFMAG)) return read_elf(a, object, n);
    return object.size && !memchr(object.data, 0, object.size) ? read_ptx(a, object, n) : NULL;
}

/* ---- ptxas ---- */

/* ptxas -v says of each kernel, in this order:
 *   Compiling entry function 'NAME' for 'sm_90'
 *   N bytes stack frame, N bytes spill stores, N bytes spill loads
 *   Used N registers, ... */
static void read_ptxas(const char *said, struct kernel_resources *kernels, size_t n)
{
    static const char compiling[] = "Compiling entry function '";
    for (const char *at = said; (at = strstr(at, compiling)); ) {
        at += strlen(compiling);
        const size_t length = strcspn(at, "'");
        const char  *next = strstr(at, compiling), *end = next ? next : at + strlen(at);
        for (size_t i = 0; i < n; i++) {
            struct kernel_resources *k = &kernels[i];
            if (strlen(k->name) != length || memcmp(k->name, at, length) != 0) continue;
            const char *used = find(at, end, "Used "), *frame = find(at, end, "    ");
            unsigned    stack, stores, loads;
            if (used) k->vgprs = number_at(used + strlen("Used "));
            if (frame && sscanf(frame, "%u bytes stack frame, %u bytes spill stores, %u bytes spill loads", &stack, &stores, &loads) == 3) {
                k->scratch_bytes = stack;
                k->vgpr_spills = stores + loads;
            }
        }
        at = end;
    }
}

bool code_object_ptxas(struct arena *a, const struct spawn_options *options, const struct profile *p, struct bytes ptx, struct kernel_resources *kernels,
                       size_t n, const char **messages)
{
    const char *ptxas = spawn_find(a, "ptxas");
    if (!ptxas) ptxas = spawn_find(a, "/usr/local/cuda/bin/ptxas");
    *messages = "no ptxas in PATH or /usr/local/cuda/bin";
    if (!ptxas) return false;
    const struct spawn_file file = { "kernels.ptx", ptx };
    const char *const argv[] = { ptxas, "-v", arena_printf(a, "-arch=%s", p->arch), "-o", "/dev/null", file.name, NULL };
    struct spawn_job job = { .argv = argv, .files = &file, .n_files = 1 };
    spawn_run(a, options, &job, 1);
    if (job.status == -2) return false;
    /* what -v says goes to standard output in older versions */
    *messages = arena_printf(a, "%.*s%s", (int)job.output.size, job.output.data ? (const char *)job.output.data : "", job.messages);
    if (job.status) return false;
    read_ptxas(*messages, kernels, n);
    return true;
}

/* ---- judging ---- */

/* Agrees with clang 19's occupancy remarks for gfx1100 (4 to 255 registers) and gfx942 (4 to 512). */
uint32_t code_object_waves(const struct profile *p, uint32_t vgprs)
{
    if (!vgprs) return 0;
    const uint32_t given = (vgprs + p->vgpr_granule - 1) / p->vgpr_granule * p->vgpr_granule, waves = p->vgprs / given;
    return waves < p->waves ? waves : p->waves;
}

void code_object_check(struct arena *a, const struct profile *p, const struct kernel_resources *kernels, size_t n, bool allow_spills)
{
    for (size_t i = 0; i < n; i++) {
        const struct kernel_resources *k = &kernels[i];
        const char *name = printable(a, k->name, strlen(k->name));
        if (k->wave != p->wave) die("kernel %s has waves of %u lanes, target %s of %u", name, k->wave, p->name, p->wave);
        if (k->vgprs > p->vgprs_most) die("kernel %s needs %u registers; a wave of %s has at most %u", name, k->vgprs, p->name, p->vgprs_most);
        if (k->lds_bytes > p->lds_bytes) die("kernel %s holds %u bytes of LDS; %s has %u for a group", name, k->lds_bytes, p->name, p->lds_bytes);
        if (!allow_spills && (k->vgpr_spills || k->scratch_bytes || k->dynamic_stack))
            die("kernel %s does not fit the registers of %s (%u used, %u bytes of scratch, %u spilled); tiles of the target that are smaller need fewer",
                name, p->name, k->vgprs, k->scratch_bytes, k->vgpr_spills);
    }
}

void code_object_print(struct text *out, const struct profile *p, const struct kernel_resources *kernels, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct kernel_resources *k = &kernels[i];
        text_printf(out, "%-8s %-40s ", p->arch, printable(out->arena, k->name, strlen(k->name)));
        if (k->vgprs) text_printf(out, "VGPR %3u SGPR %3u waves %2u ", k->vgprs, k->sgprs, code_object_waves(p, k->vgprs));
        text_printf(out, "threads %4u scratch %u spills %u\n", k->threads, k->scratch_bytes, k->vgpr_spills);
    }
}
