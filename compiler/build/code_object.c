/* code_object.c -- AMD's kernel metadata (an ELF note in MessagePack), PTX text, and ptxas -v. */
#include "code_object.h"
#include "compiler/base/msgpack.h"
#include <elf.h>
#include <stdio.h>
#include <string.h>

enum { MACHINE_AMDGPU = 224 };      /* ELF e_machine, LLVM's AMDGPUUsage */

static struct msgpack part(struct bytes whole, uint64_t offset, uint64_t size)
{
    const bool inside = offset <= whole.size && size <= whole.size - offset;
    return inside ? (struct msgpack){ .at = whole.data + offset, .end = whole.data + offset + size } : (struct msgpack){ .failed = true };
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
static void read_kernel(struct arena *a, struct msgpack *c, struct kernel_resources *k)
{
    const struct msgpack_item map = msgpack_next(c);
    if (map.kind != MSGPACK_MAP) c->failed = true;
    for (uint64_t i = 0; i < map.value && !c->failed; i++) {
        const struct msgpack_item key = msgpack_next(c), value = msgpack_next(c);
        msgpack_skip(c, value, 2);
        if (c->failed) return;
        for (size_t j = 0; j < COUNT_OF(numbers); j++) {
            if (!msgpack_is(key, numbers[j].key)) continue;
            if (value.kind != MSGPACK_INT || value.value > UINT32_MAX) c->failed = true;
            *(uint32_t *)(void *)((char *)k + numbers[j].offset) = (uint32_t)value.value;
        }
        if (msgpack_is(key, ".name") && value.kind == MSGPACK_STRING) k->name = arena_strndup(a, value.text, value.value);
        if (msgpack_is(key, ".uses_dynamic_stack")) k->dynamic_stack = value.kind == MSGPACK_BOOL && value.value;
    }
    if (!k->name || !*k->name) c->failed = true;
}

static struct kernel_resources *read_metadata(struct arena *a, struct msgpack c, size_t *n)
{
    const struct msgpack_item root = msgpack_next(&c);
    if (root.kind != MSGPACK_MAP) return NULL;
    for (uint64_t i = 0; i < root.value && !c.failed; i++) {
        const struct msgpack_item key = msgpack_next(&c), value = msgpack_next(&c);
        if (!msgpack_is(key, "amdhsa.kernels") || value.kind != MSGPACK_ARRAY || value.value > (uint64_t)(c.end - c.at)) {
            msgpack_skip(&c, value, 1);
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

static struct kernel_resources *read_elf(struct arena *a, struct bytes object, size_t *n)
{
    Elf64_Ehdr ehdr;
    if (object.size < sizeof ehdr) return NULL;
    memcpy(&ehdr, object.data, sizeof ehdr);
    if (ehdr.e_ident[EI_CLASS] != ELFCLASS64 || ehdr.e_ident[EI_DATA] != ELFDATA2LSB || ehdr.e_machine != MACHINE_AMDGPU) return NULL;
    if (ehdr.e_phentsize != sizeof(Elf64_Phdr)) return NULL;
    struct msgpack headers = part(object, ehdr.e_phoff, (uint64_t)ehdr.e_phnum * sizeof(Elf64_Phdr));
    for (uint32_t i = 0; i < ehdr.e_phnum; i++) {
        Elf64_Phdr     phdr;
        const uint8_t *bytes = msgpack_bytes(&headers, sizeof phdr);
        if (!bytes) return NULL;
        memcpy(&phdr, bytes, sizeof phdr);
        if (phdr.p_type != PT_NOTE) continue;
        const struct msgpack metadata = msgpack_metadata(part(object, phdr.p_offset, phdr.p_filesz));
        if (!metadata.failed) return read_metadata(a, metadata, n);
    }
    return NULL;
}

/* ---- PTX text ---- */

static const char *find(const char *text, const char *end, const char *word)
{
    return memmem(text, (size_t)(end - text), word, strlen(word));
}

/* The decimal number after blanks; 0 if there is no number. The text ends in a NUL. */
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

/* text: after ".entry"; end: where the next kernel begins. PTX does not say how many registers a kernel needs, but a stack shows as an
 * array in local memory. */
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

bool code_object_ptxas(struct arena *a, const struct spawn_options *options, const struct target *p, struct bytes ptx,
                       struct kernel_resources *kernels, size_t n, const char **messages)
{
    const char *ptxas = spawn_find(a, "ptxas");
    if (!ptxas) ptxas = spawn_find(a, "/usr/local/cuda/bin/ptxas");
    *messages = "no ptxas in PATH or /usr/local/cuda/bin";
    if (!ptxas) return false;
    const struct spawn_file file = { "kernels.ptx", ptx };
    const char *const argv[] = { ptxas, "-v", arena_printf(a, "-arch=%s", p->arch), "-o", "/dev/null", file.name, NULL };
    struct spawn_job job = { .argv = argv, .files = &file, .n_files = 1, .is_tool = true };
    spawn_run(a, options, &job, 1);
    if (job.status == -2) return false;
    /* older versions write the output of -v to stdout */
    *messages = arena_printf(a, "%.*s%s", (int)job.output.size, job.output.data ? (const char *)job.output.data : "", job.messages);
    if (job.status) return false;
    read_ptxas(*messages, kernels, n);
    return true;
}

/* ---- checks ---- */

/* Agrees with clang 19's occupancy remarks for gfx1100 (4 to 255 registers) and gfx942 (4 to 512). */
uint32_t code_object_waves(const struct target *p, uint32_t vgprs)
{
    if (!vgprs) return 0;
    const uint32_t given = (vgprs + p->vgpr_granule - 1) / p->vgpr_granule * p->vgpr_granule, waves = p->vgprs / given;
    return waves < p->waves ? waves : p->waves;
}

bool code_object_spills(const struct target *p, const struct kernel_resources *k)
{
    return k->scratch_bytes || k->dynamic_stack || (strcmp(p->api, "cuda") == 0 && k->vgpr_spills);
}

void code_object_check(struct arena *a, const struct target *p, const struct kernel_resources *kernels, size_t n, bool allow_spills)
{
    for (size_t i = 0; i < n; i++) {
        const struct kernel_resources *k = &kernels[i];
        const char *name = printable(a, k->name, strlen(k->name));
        if (k->wave != p->wave) die("kernel %s has waves of %u lanes, but target %s has waves of %u", name, k->wave, p->name, p->wave);
        if (k->vgprs > p->vgprs_most)
            die("kernel %s needs %u registers; a wave of %s has at most %u", name, k->vgprs, p->name, p->vgprs_most);
        if (k->lds_bytes > p->lds_bytes)
            die("kernel %s holds %u bytes of LDS; %s has %u for a group", name, k->lds_bytes, p->name, p->lds_bytes);
        if (!allow_spills && code_object_spills(p, k))
            die("kernel %s does not fit the registers of %s (%u used, %u bytes of scratch, %u spilled); smaller tiles in the target "
                "need fewer registers", name, p->name, k->vgprs, k->scratch_bytes, k->vgpr_spills);
    }
}
