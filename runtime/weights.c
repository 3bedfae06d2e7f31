#include "weights.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sample.h"

enum { IMAGE_OFFSET = 4096, NOISE_BYTES = 8192 };

static enum forge_status check_header(const struct forge_weights_header *h, uint64_t file_bytes, const struct forge_program *p,
                                      const char *path, struct forge_error *error)
{
    if (memcmp(h->magic, FORGE_WEIGHTS_MAGIC, sizeof h->magic) != 0)
        return error_set(error, FORGE_BAD_WEIGHTS, "%s is not a forgec weight file (a GGUF file has to be compiled first: forgec build)", path);
    /* Not a hash: nothing that belongs on a terminal. */
    if (h->weights_hash[32] != 0 || strspn(h->weights_hash, "0123456789abcdef") != 32)
        return error_set(error, FORGE_BAD_WEIGHTS, "%s has a damaged header", path);
    if (strcmp(h->weights_hash, p->weights_hash) != 0)
        return error_set(error, FORGE_BAD_WEIGHTS, "%s holds weights %s, the program was built for %s: another model, format or target",
                    path, h->weights_hash, p->weights_hash);
    if (h->image_bytes != p->weights_bytes)
        return error_set(error, FORGE_BAD_WEIGHTS, "%s holds %llu bytes of weights, the program needs %llu", path,
                    (unsigned long long)h->image_bytes, (unsigned long long)p->weights_bytes);
    if (file_bytes < IMAGE_OFFSET || file_bytes - IMAGE_OFFSET < h->image_bytes)
        return error_set(error, FORGE_BAD_WEIGHTS, "%s is cut short: %llu bytes, %llu expected", path, (unsigned long long)file_bytes,
                    (unsigned long long)h->image_bytes + IMAGE_OFFSET);
    return FORGE_OK;
}

static enum forge_status map_file(struct forge_engine *e, const char *path, struct forge_error *error)
{
    enum forge_status status;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);     /* a FIFO without a writer is refused below, not waited for */
    if (fd < 0) return error_set(error, FORGE_BAD_WEIGHTS, "cannot open weights %s: %s", path, strerror(errno));
    struct stat st;
    if (fstat(fd, &st) != 0) { status = error_set(error, FORGE_BAD_WEIGHTS, "cannot read %s: %s", path, strerror(errno)); goto close_fd; }
    if (!S_ISREG(st.st_mode)) { status = error_set(error, FORGE_BAD_WEIGHTS, "%s is not a regular file", path); goto close_fd; }
    const uint64_t bytes = (uint64_t)st.st_size;
    if (bytes < sizeof(struct forge_weights_header)) {
        status = error_set(error, FORGE_BAD_WEIGHTS, "%s is not a forgec weight file: %llu bytes", path, (unsigned long long)bytes);
        goto close_fd;
    }
    void *base = mmap(NULL, (size_t)bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (base == MAP_FAILED) { status = error_set(error, FORGE_NO_MEMORY, "cannot map %s: %s", path, strerror(errno)); goto close_fd; }
    struct forge_weights_header header;
    memcpy(&header, base, sizeof header);
    status = check_header(&header, bytes, e->program, path, error);
    if (status != FORGE_OK) {
        munmap(base, (size_t)bytes);
        goto close_fd;
    }
    e->mapped = base;
    e->mapped_bytes = (size_t)bytes;
    e->weights = (const uint8_t *)base + IMAGE_OFFSET;
close_fd:
    close(fd);
    return status;
}

struct fill { uint8_t *to; size_t bytes; const uint8_t *noise; };

static void fill_noise(void *context, uint32_t thread, uint32_t n_threads)
{
    const struct fill *f = context;
    const size_t blocks = (f->bytes + NOISE_BYTES - 1) / NOISE_BYTES;
    const size_t end = blocks * (thread + 1) / n_threads;
    for (size_t i = blocks * thread / n_threads; i < end; i++) {
        const size_t at = i * NOISE_BYTES, left = f->bytes - at;
        memcpy(f->to + at, f->noise, left < NOISE_BYTES ? left : NOISE_BYTES);
    }
}

/* Bytes 0x28 .. 0x37: in f16 0.03 to 0.5, in bf16, f32 and as an exponent byte small but far from denormal, so that every
 * format is finite and no multiplication is slowed by a subnormal operand. */
static enum forge_status map_noise(struct forge_engine *e, struct forge_error *error)
{
    const size_t bytes = (size_t)e->program->weights_bytes;
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return error_set(error, FORGE_NO_MEMORY, "out of memory: %.1f MiB for random weights", (double)bytes / 1048576);
    madvise(base, bytes, MADV_HUGEPAGE);
    uint8_t noise[NOISE_BYTES];
    struct forge_random random;
    random_seed(&random, 1);
    for (size_t i = 0; i < NOISE_BYTES; i += 8) {
        const uint64_t word = (random_next(&random) & 0x0f0f0f0f0f0f0f0fu) + 0x2828282828282828u;
        memcpy(noise + i, &word, 8);
    }
    struct fill fill = { base, bytes, noise };
    pool_run(e->pool, fill_noise, &fill);
    e->mapped = base;
    e->mapped_bytes = bytes;
    e->weights = base;
    return FORGE_OK;
}

enum forge_status weights_open(struct forge_engine *e, const struct forge_weights_source *source, struct forge_error *error)
{
    if (source->random) return map_noise(e, error);
    if (source->path != NULL) {
        TRY(map_file(e, source->path, error));
    } else if (forge_weights != NULL) {
        e->weights = forge_weights;
    } else {
        /* forgec build --weights external writes PROGRAM.weights beside PROGRAM. */
        char path[4096 + 16];
        ssize_t n = readlink("/proc/self/exe", path, 4096);
        if (n < 0) {                                             /* no /proc: the name it was started by */
            const char *started = (const char *)getauxval(AT_EXECFN);
            n = started != NULL ? (ssize_t)strnlen(started, 4096) : 0;
            if (n > 0) memcpy(path, started, (size_t)n);
        }
        if (n > 0 && n < 4096) {
            memcpy(path + n, ".weights", sizeof ".weights");
            if (access(path, F_OK) == 0) return map_file(e, path, error);
        }
        return error_set(error, FORGE_BAD_WEIGHTS, "no weights in this executable and none beside it: give them with -m FILE");
    }
    return FORGE_OK;
}
