/* weights.c -- the weights: inside the executable, in a file beside it or named by -m, or noise.  Maps them and compares them with their
 * hashes. */
#include "weights.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/app/ending.h"
#include "hashes.h"
#include "runtime/run/sample.h"
#include "state.h"

enum { IMAGE_OFFSET = 4096, PATH_BYTES = 4096 + 16 };

/* Bytes of the image that all programs of the executable share. */
static uint64_t whole_image_bytes(void)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < forge_n_programs; i++)
        for (uint32_t rank = 0; rank < program_ranks(forge_programs[i]); rank++) {
            const struct forge_program *part = program_of_rank(forge_programs[i], rank);
            const uint64_t end = part->weights_offset + part->weights_bytes;
            if (end > bytes) bytes = end;
        }
    return bytes;
}

static enum forge_status check_header(const struct forge_weights_header *h, uint64_t file_bytes, const struct forge_program *p,
                                      const char *path, struct forge_error *error)
{
    const uint64_t needed = whole_image_bytes();
    if (memcmp(h->magic, FORGE_WEIGHTS_MAGIC, sizeof h->magic) != 0)
        return error_set(error, FORGE_BAD_WEIGHTS, "%s is not a forgec weight file (a GGUF file has to be compiled first: forgec build)",
                         path);
    /* If it is not a hash, do not print it to the terminal. */
    if (h->weights_hash[32] != 0 || strspn(h->weights_hash, "0123456789abcdef") != 32)
        return error_set(error, FORGE_BAD_WEIGHTS, "%s has a damaged header", path);
    if (strcmp(h->weights_hash, p->weights_hash) != 0)
        return error_set(error, FORGE_BAD_WEIGHTS, "%s holds weights %s, the program was built for %s: another model, format or target",
                    path, h->weights_hash, p->weights_hash);
    if (h->image_bytes != needed)
        return error_set(error, FORGE_BAD_WEIGHTS, "%s holds %llu bytes of weights, the program needs %llu", path,
                    (unsigned long long)h->image_bytes, (unsigned long long)needed);
    if (file_bytes < IMAGE_OFFSET || file_bytes - IMAGE_OFFSET < h->image_bytes)
        return error_set(error, FORGE_BAD_WEIGHTS, "%s is cut short: %llu bytes, %llu expected", path, (unsigned long long)file_bytes,
                    (unsigned long long)h->image_bytes + IMAGE_OFFSET);
    return FORGE_OK;
}

/* Opens a weight file and checks its header. */
static enum forge_status open_file(int *out, uint64_t *out_bytes, const char *path, const struct forge_program *p,
                                   struct forge_error *error)
{
    enum forge_status status;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);     /* a FIFO without a writer is refused below instead of waited for */
    if (fd < 0) return error_set(error, FORGE_BAD_WEIGHTS, "cannot open weights %s: %s", path, strerror(errno));
    struct stat st;
    if (fstat(fd, &st) != 0) { status = error_set(error, FORGE_BAD_WEIGHTS, "cannot read %s: %s", path, strerror(errno)); goto close_fd; }
    if (!S_ISREG(st.st_mode)) { status = error_set(error, FORGE_BAD_WEIGHTS, "%s is not a regular file", path); goto close_fd; }
    const uint64_t bytes = (uint64_t)st.st_size;
    struct forge_weights_header header;
    if (bytes < sizeof header || pread(fd, &header, sizeof header, 0) != (ssize_t)sizeof header) {
        status = error_set(error, FORGE_BAD_WEIGHTS, "%s is not a forgec weight file: %llu bytes", path, (unsigned long long)bytes);
        goto close_fd;
    }
    status = check_header(&header, bytes, p, path, error);
    if (status != FORGE_OK) goto close_fd;
    *out = fd;
    *out_bytes = bytes;
    return FORGE_OK;
close_fd:
    close(fd);
    return status;
}

static enum forge_status map_file(struct forge_engine *e, const char *path, struct forge_error *error)
{
    int fd;
    uint64_t bytes;
    TRY(open_file(&fd, &bytes, path, e->program, error));
    void *base = mmap(NULL, (size_t)bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    const int reason = errno;
    close(fd);
    if (base == MAP_FAILED) return error_set(error, FORGE_NO_MEMORY, "cannot map %s: %s", path, strerror(reason));
    e->mapped = base;
    e->mapped_bytes = (size_t)bytes;
    ending_watch(base, e->mapped_bytes, path);
    e->weights = (const uint8_t *)base + IMAGE_OFFSET + e->program->weights_offset;
    return FORGE_OK;
}

/* The path of the file that this program runs from. */
static bool own_path(char *path, size_t bytes)
{
    ssize_t n = readlink("/proc/self/exe", path, bytes - 1);
    if (n < 0) {                                                 /* no /proc: use the name that started it */
        const char *started = (const char *)getauxval(AT_EXECFN);
        n = started ? (ssize_t)strnlen(started, bytes) : 0;
        if (n > 0 && (size_t)n < bytes) memcpy(path, started, (size_t)n);
    }
    if (n <= 0 || (size_t)n >= bytes) return false;
    path[n] = 0;
    return true;
}

/* forgec build --weights external writes PROGRAM.weights beside PROGRAM. */
static bool beside_path(char *path, size_t bytes)
{
    if (!own_path(path, bytes - sizeof ".weights")) return false;
    memcpy(path + strlen(path), ".weights", sizeof ".weights");
    return access(path, F_OK) == 0;
}

bool weights_are_somewhere(const struct forge_weights_source *source)
{
    char path[PATH_BYTES];
    return source->path || forge_weights || beside_path(path, sizeof path);
}

static enum forge_status external_path(char *path, size_t bytes, const struct forge_weights_source *source, struct forge_error *error)
{
    if (source->path) {
        if (snprintf(path, bytes, "%s", source->path) < (int)bytes) return FORGE_OK;
        return error_set(error, FORGE_BAD_WEIGHTS, "cannot open weights: %s", strerror(ENAMETOOLONG));
    }
    if (beside_path(path, bytes)) return FORGE_OK;
    return error_set(error, FORGE_BAD_WEIGHTS, "there are no weights in this executable or beside it: give them with -m FILE");
}

/* The offset of an address of this executable in its file, from the program headers. */
static bool own_file_offset(const void *address, uint64_t *out)
{
    const ElfW(Phdr) *headers = (const ElfW(Phdr) *)getauxval(AT_PHDR);
    const size_t n = (size_t)getauxval(AT_PHNUM);
    uintptr_t base = 0;
    for (size_t i = 0; headers && i < n; i++)
        if (headers[i].p_type == PT_PHDR) base = (uintptr_t)headers - (uintptr_t)headers[i].p_vaddr;
    for (size_t i = 0; headers && i < n; i++) {
        const uintptr_t from = base + (uintptr_t)headers[i].p_vaddr;
        if (headers[i].p_type != PT_LOAD || (uintptr_t)address < from || (uintptr_t)address - from >= headers[i].p_filesz) continue;
        *out = headers[i].p_offset + ((uintptr_t)address - from);
        return true;
    }
    return false;
}

static enum forge_status locate_inside(struct forge_weights_file *out, const struct forge_program *p, struct forge_error *error)
{
    char path[PATH_BYTES];
    if (!own_path(path, sizeof path) || !own_file_offset(forge_weights, &out->at))
        return error_set(error, FORGE_BAD_WEIGHTS,
            "this executable cannot find its own file, which holds the weights; give them with -m FILE");
    out->at += p->weights_offset;
    out->fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);      /* correct even if the file has been replaced since */
    if (out->fd < 0) out->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (out->fd < 0) return error_set(error, FORGE_BAD_WEIGHTS, "cannot open weights %s: %s", path, strerror(errno));
    return FORGE_OK;
}

enum forge_status weights_locate(struct forge_weights_file *out, const struct forge_weights_source *source, const struct forge_program *p,
                                 struct forge_error *error)
{
    char path[PATH_BYTES];
    uint64_t bytes;
    if (!source->path && forge_weights) return locate_inside(out, p, error);
    TRY(external_path(path, sizeof path, source, error));
    TRY(open_file(&out->fd, &bytes, path, p, error));
    out->at = IMAGE_OFFSET + p->weights_offset;
    return FORGE_OK;
}

/* Bytes 0x28 .. 0x37.  In f16 they are 0.03 to 0.5; in bf16, in f32 and as an exponent byte they are small but far from denormal.  So
 * every format is finite, and no multiplication is slowed by a subnormal operand. */
void weights_noise(uint8_t *out)
{
    struct forge_random random;
    random_seed(&random, 1);
    for (size_t i = 0; i < WEIGHTS_NOISE_BYTES; i += 8) {
        const uint64_t word = (random_next(&random) & 0x0f0f0f0f0f0f0f0fu) + 0x2828282828282828u;
        memcpy(out + i, &word, 8);
    }
}

struct fill { uint8_t *to; size_t bytes; const uint8_t *noise; };

static void fill_noise(void *context, uint32_t thread, uint32_t n_threads)
{
    const struct fill *f = context;
    const size_t blocks = (f->bytes + WEIGHTS_NOISE_BYTES - 1) / WEIGHTS_NOISE_BYTES;
    const size_t end = blocks * (thread + 1) / n_threads;
    for (size_t i = blocks * thread / n_threads; i < end; i++) {
        const size_t at = i * WEIGHTS_NOISE_BYTES, left = f->bytes - at;
        memcpy(f->to + at, f->noise, left < WEIGHTS_NOISE_BYTES ? left : WEIGHTS_NOISE_BYTES);
    }
}

static enum forge_status map_noise(struct forge_engine *e, struct forge_error *error)
{
    const size_t bytes = (size_t)e->program->weights_bytes;
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return error_set(error, FORGE_NO_MEMORY, "out of memory: %.1f MiB for random weights", (double)bytes / 1048576);
    madvise(base, bytes, MADV_HUGEPAGE);
    uint8_t noise[WEIGHTS_NOISE_BYTES];
    weights_noise(noise);
    struct fill fill = { base, bytes, noise };
    pool_run(e->pool, fill_noise, &fill);
    e->mapped = base;
    e->mapped_bytes = bytes;
    e->weights = base;
    return FORGE_OK;
}

/* ---- are the weights as forgec wrote them? ---- */

struct verification {
    const struct forge_program *program;
    const uint8_t  *image;
    const uint64_t *hashes;                      /* [program->n_tensors] */
    _Atomic uint32_t next;                       /* next tensor that no thread has taken */
    _Atomic uint32_t damaged;                    /* the first tensor known to differ; n_tensors: none */
};

static void verify_part(void *context, uint32_t thread, uint32_t n_threads)
{
    struct verification *v = context;
    (void)thread, (void)n_threads;
    /* Tensors are taken in order, so all tensors before the first damaged one are checked whatever the number of threads. */
    for (uint32_t i; (i = v->next++) < v->damaged;) {
        if (tensor_is_intact(&v->program->tensors[i], v->image, v->hashes[i])) continue;
        uint32_t first = v->damaged;
        while (i < first && !atomic_compare_exchange_weak(&v->damaged, &first, i)) { }
    }
}

/* path and at: the file, and the offset of the image in it. */
static enum forge_status verify_image(const struct forge_program *p, const uint8_t *image, struct forge_pool *pool, const char *path,
                                      uint64_t at, struct forge_error *error)
{
    typedef unsigned long long ull;
    if (p->n_tensors == 0) return error_set(error, FORGE_BAD_WEIGHTS, "this program has no hashes, so its weights cannot be verified");
    struct verification v = { .program = p, .image = image, .hashes = hashes_of(p, image), .damaged = p->n_tensors };
    if (!v.hashes)
        return error_set(error, FORGE_BAD_WEIGHTS,
                         "the hashes of the weights are damaged (%llu bytes at offset %llu): copy or build the file again: %s",
                         (ull)FORGE_HASHES_BYTES(p->n_tensors), (ull)(at + p->hashes_offset), path);
    pool_run(pool, verify_part, &v);
    if (v.damaged == p->n_tensors) return FORGE_OK;
    const struct forge_tensor *t = &p->tensors[v.damaged];
    return error_set(error, FORGE_BAD_WEIGHTS, "tensor %s is damaged (%llu bytes at offset %llu): copy or build the file again: %s",
                     t->name, (ull)t->bytes,
                     (ull)(at + t->offset), path);
}

static enum forge_status open_inside(struct forge_engine *e, bool verify, struct forge_error *error)
{
    char path[PATH_BYTES];
    uint64_t at = 0;
    e->weights = forge_weights + e->program->weights_offset;
    if (!own_path(path, sizeof path)) memcpy(path, "this program", sizeof "this program");
    ending_watch(e->weights, e->program->weights_bytes, path);
    if (!verify) return FORGE_OK;
    own_file_offset(e->weights, &at);
    return verify_image(e->program, e->weights, e->pool, path, at, error);
}

enum forge_status weights_open(struct forge_engine *e, const struct forge_weights_source *source, struct forge_error *error)
{
    char path[PATH_BYTES];
    if (source->random) return map_noise(e, error);
    if (!source->path && forge_weights) return open_inside(e, source->verify, error);
    TRY(external_path(path, sizeof path, source, error));
    TRY(map_file(e, path, error));
    return source->verify ? verify_image(e->program, e->weights, e->pool, path, IMAGE_OFFSET + e->program->weights_offset, error)
        : FORGE_OK;
}

void weights_unmap(struct forge_engine *e)
{
    ending_watch(NULL, 0, NULL);
    if (e->mapped) munmap(e->mapped, e->mapped_bytes);
    e->mapped = NULL;
    e->mapped_bytes = 0;
}

enum forge_status weights_verify(const struct forge_program *p, const struct forge_weights_source *source, struct forge_pool *pool,
                                 struct forge_error *error)
{
    const struct forge_weights_source files = { .path = source->path, .verify = true };
    enum forge_status status = FORGE_OK;
    for (uint32_t rank = 0; rank < program_ranks(p) && status == FORGE_OK; rank++) {
        struct forge_program part = *program_of_rank(p, rank);
        part.weights_hash = p->weights_hash;     /* of all images in the file */
        struct forge_engine e = { .program = &part, .pool = pool };
        status = weights_open(&e, &files, error);
        weights_unmap(&e);
    }
    return status;
}
