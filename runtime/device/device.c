/* device.c -- a GPU through the library of its driver, opened at run time: HIP and CUDA behind one set of functions. */
#include "device.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Numbers of HIP's and CUDA's headers, the same in both unless named after one; HIP's are those of ROCm 5.0 to 7. */
enum {
    CODE_NO_MEMORY = 2, CODE_NO_DEVICE = 100, CODE_NO_BINARY = 209, CODE_INVALID_PTX = 218, CODE_PTX_TOO_NEW = 222, CODE_NOT_READY = 600,
    CODE_PEER_ALREADY = 704, HIP_UNCACHED = 3,
    STREAM_NON_BLOCKING = 1, HOST_PORTABLE = 1, HOST_MAPPED = 2, HIP_HOST_COHERENT = 0x40000000, CAPTURE_THREAD_LOCAL = 1,
    HIP_INTEGRATED = 16, HIP_PCI_BUS = 67, HIP_PCI_SLOT = 68, HIP_PCI_DOMAIN = 69,
    CUDA_INTEGRATED = 18, CUDA_PCI_BUS = 33, CUDA_PCI_SLOT = 34, CUDA_PCI_DOMAIN = 50, CUDA_MAJOR = 75, CUDA_MINOR = 76,
    CUDA_FUNCTION_LOCAL_BYTES = 3,               /* of a thread */
    CUDA_FUNCTION_SHARED_BYTES = 8, CUDA_SHARED_BYTES_FREE = 48 << 10,        /* more has to be asked for, function by function */
    JIT_ERROR_LOG = 5, JIT_ERROR_LOG_BYTES = 6,
    EXTRA_POINTER = 1, EXTRA_SIZE = 2, HIP_EXTRA_END = 3, CUDA_EXTRA_END = 0,
    LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4, LAUNCH_ATTRIBUTE_PROGRAMMATIC_SERIALIZATION = 6,
};

/* CUlaunchAttribute and CUlaunchConfig of cuda.h. */
struct device_launch_attribute { uint32_t id, pad; union { int32_t allowed; uint32_t cluster[3]; uint8_t bytes[64]; } value; };
struct device_launch_config {
    uint32_t grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
    void    *stream;
    struct device_launch_attribute *attributes;
    uint32_t n_attributes;
};
_Static_assert(sizeof(struct device_launch_attribute) == 72 && offsetof(struct device_launch_config, attributes) == 40, "layout of cuda.h");

struct symbol { size_t at; const char *name; };
#define SYMBOL(member, symbol) { offsetof(struct driver, member), #symbol },
static const struct symbol hip_symbols[] = {
#include "hip.def"
};
static const struct symbol cuda_symbols[] = {
#include "cuda.def"
};
static const struct symbol hip_peers[] = {
#include "hip_peers.def"
};
static const struct symbol cuda_peers[] = {
#include "cuda_peers.def"
};
#undef SYMBOL

struct backend {
    const char *override;                        /* environment: the library to open and no other */
    const char *const *libraries;
    const struct symbol *symbols;
    size_t n_symbols;
    const struct symbol *peers;                  /* of programs for several GPUs */
    size_t n_peers;
    const char *maker, *missing;                 /* what to do when no library is there */
};
static const struct backend backends[] = {
    [FORGE_GPU_HIP] = { "FORGE_HIP_LIBRARY",
        (const char *const[]){ "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so",
                               "/opt/rocm/lib/libamdhip64.so.7",
                               "/opt/rocm/lib/libamdhip64.so.6", "/opt/rocm/lib/libamdhip64.so.5", "/opt/rocm/lib/libamdhip64.so", NULL },
        hip_symbols, sizeof hip_symbols / sizeof *hip_symbols, hip_peers, sizeof hip_peers / sizeof *hip_peers, "AMD",
        "libamdhip64.so is not installed: it is in AMD's package hip-runtime-amd (ROCm 5 or newer); "
        "one in another place is named by FORGE_HIP_LIBRARY" },
    [FORGE_GPU_CUDA] = { "FORGE_CUDA_LIBRARY", (const char *const[]){ "libcuda.so.1", NULL },
        cuda_symbols, sizeof cuda_symbols / sizeof *cuda_symbols, cuda_peers, sizeof cuda_peers / sizeof *cuda_peers, "NVIDIA",
        "libcuda.so.1 is not installed: it comes with the NVIDIA driver; one in another place is named by FORGE_CUDA_LIBRARY" },
};

/* ---- messages ---- */

static const char *code_text(const struct forge_device *d, int code)
{
    const char *text = NULL;
    if (d->call.error_text) text = d->call.error_text(code);
    else if (d->call.error_name && d->call.error_name(code, &text) != 0) text = NULL;
    return text ? text : "unknown error";
}

static enum forge_status fail(const struct forge_device *d, int code, const char *what, struct forge_error *error)
{
    return error_set(error, code == CODE_NO_MEMORY ? FORGE_NO_MEMORY : FORGE_DEVICE_FAULT, "%s: %s (%d)", what, code_text(d, code), code);
}

#define CALL(d, what, expression) \
    do { const int code_ = (d)->call.expression; if (code_ != 0) return fail(d, code_, what, error); } while (0)

/* ---- opening ---- */

static enum forge_status open_library(struct forge_device *d, const struct backend *b, struct forge_error *error)
{
    const char *wanted = getenv(b->override);
    const char *const only[] = { wanted, NULL };
    char broken[300] = "";
    for (const char *const *name = wanted && *wanted != 0 ? only : b->libraries; *name; name++) {
        d->library = dlopen(*name, RTLD_NOW | RTLD_LOCAL);
        if (d->library) {
            snprintf(d->library_name, sizeof d->library_name, "%s", *name);
            return FORGE_OK;
        }
        /* A library that is there but cannot be loaded tells another story than one that is not. */
        const char *reason = dlerror();
        if (reason && *broken == 0 && (*name == wanted || strncmp(reason, *name, strlen(*name)) != 0 || !strstr(reason, "No such file")))
            snprintf(broken, sizeof broken, "%s", reason);
    }
    if (*broken != 0) return error_set(error, FORGE_NO_DEVICE, "the library of the %s driver cannot be loaded: %s", b->maker, broken);
    return error_set(error, FORGE_NO_DEVICE, "%s", b->missing);
}

static void *symbol_of_library(void *library, const char *name) { return dlsym(library, name); }

static enum forge_status find_symbols(struct forge_device *d, const struct backend *b, device_symbol *symbol, void *context,
                                      struct forge_error *error)
{
    for (size_t i = 0; i < b->n_symbols; i++) {
        void *address = symbol(context, b->symbols[i].name);
        if (!address)
            return error_set(error, FORGE_NO_DEVICE, "%s has no %s: it is too old or another library", d->library_name, b->symbols[i].name);
        memcpy((char *)&d->call + b->symbols[i].at, &address, sizeof address);
    }
    for (size_t i = 0; i < b->n_peers; i++) {
        void *address = symbol(context, b->peers[i].name);
        memcpy((char *)&d->call + b->peers[i].at, &address, sizeof address);
    }
    return FORGE_OK;
}

static enum forge_status check_version(struct forge_device *d, struct forge_error *error)
{
    int version = 0;
    CALL(d, "the driver's version", version(&version));
    if (d->api == FORGE_GPU_HIP) {
        d->version_major = version / 10000000;
        snprintf(d->version_text, sizeof d->version_text, "HIP %d.%d.%d", d->version_major, version / 100000 % 100, version % 100000);
        if (d->version_major < 5)
            return error_set(error, FORGE_NO_DEVICE, "%s is %s: too old, ROCm 5 to 7 are known to work", d->library_name, d->version_text);
    } else {
        d->version_major = version / 1000;
        snprintf(d->version_text, sizeof d->version_text, "CUDA %d.%d", d->version_major, version % 1000 / 10);
        if (version < 12050)
            return error_set(error, FORGE_NO_DEVICE, "the NVIDIA driver is for %s: too old, 12.5 is needed (driver 555 or newer)",
                             d->version_text);
    }
    return FORGE_OK;
}

/* Why the driver sees nothing: the device files tell. */
static enum forge_status no_device(const struct forge_device *d, int code, struct forge_error *error)
{
    const bool hip = d->api == FORGE_GPU_HIP;
    const char *file = hip ? "/dev/kfd" : "/dev/nvidiactl";
    const char *hidden = getenv(hip ? "HIP_VISIBLE_DEVICES" : "CUDA_VISIBLE_DEVICES");
    char why[160] = "", code_note[100] = "";
    if (access(file, F_OK) != 0)
        snprintf(why, sizeof why, "; there is no %s: %s", file,
                 hip ? "no amdgpu kernel driver (or a container without --device /dev/kfd --device /dev/dri)"
                     : "no NVIDIA kernel driver (or a container without the NVIDIA runtime)");
    else if (access(file, R_OK | W_OK) != 0)
        snprintf(why, sizeof why, "; %s cannot be opened: %s%s", file, strerror(errno), hip ? " (the user has to be in the group render)"
                 : "");
    else if (hidden)
        snprintf(why, sizeof why, "; %s=%.60s hides some", hip ? "HIP_VISIBLE_DEVICES" : "CUDA_VISIBLE_DEVICES", hidden);
    if (code != 0) snprintf(code_note, sizeof code_note, " (%.70s, %d)", code_text(d, code), code);
    return error_set(error, FORGE_NO_DEVICE, "no %s GPU found by %s, %s%s%s", backends[d->api].maker, d->library_name, d->version_text,
                     code_note, why);
}

/* With its functions: a version that is known and at least one device. */
static enum forge_status begin(struct forge_device *d, device_symbol *symbol, void *context, struct forge_error *error)
{
    enum forge_status status = find_symbols(d, &backends[d->api], symbol, context, error);
    if (status == FORGE_OK) {
        int code = d->call.init(0);
        if (check_version(d, error) == FORGE_NO_DEVICE) status = FORGE_NO_DEVICE;
        if (code == 0) code = d->call.count(&d->n_devices);
        if (status == FORGE_OK && (code != 0 || d->n_devices <= 0)) status = no_device(d, code, error);
    }
    if (status != FORGE_OK) d->library = NULL;
    return status;
}

enum forge_status device_library(struct forge_device *d, uint32_t api, struct forge_error *error)
{
    memset(d, 0, sizeof *d);
    d->api = api;
    if (api >= sizeof backends / sizeof *backends) return error_set(error, FORGE_FAILED, "unknown GPU interface %u", api);
#ifndef FORGE_LIBRARY                            /* a library leaves the environment alone and captures nothing before all kernels have run
                                                  * (runtime/library/gpu.c) */
    /* Kernels are loaded with their module: not while a graph is captured, where loading is forbidden. */
    if (api == FORGE_GPU_CUDA) setenv("CUDA_MODULE_LOADING", "EAGER", 0);
#endif
    TRY(open_library(d, &backends[api], error));
    return begin(d, symbol_of_library, d->library, error);
}

enum forge_status device_functions(struct forge_device *d, uint32_t api, device_symbol *symbol, void *context, struct forge_error *error)
{
    memset(d, 0, sizeof *d);
    d->api = api;
    if (api >= sizeof backends / sizeof *backends) return error_set(error, FORGE_FAILED, "unknown GPU interface %u", api);
    d->library = d;                              /* not NULL: open */
    d->given = true;
    snprintf(d->library_name, sizeof d->library_name, "the %s library given", backends[api].maker);
    return begin(d, symbol, context, error);
}

/* ---- which device ---- */

/* The beginning of a small file of the kernel, as text. */
static bool file_text(const char *path, char *out, size_t bytes)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t n = 0;
    if (fd < 0) return false;
    for (ssize_t part; n + 1 < bytes && (part = read(fd, out + n, bytes - 1 - n)) > 0;) n += (size_t)part;
    close(fd);
    out[n] = 0;
    return n > 0;
}

/* "key 123" in a line of its own. */
static bool read_number(const char *text, const char *key, uint64_t *out)
{
    const size_t n = strlen(key);
    for (const char *line = text; line && *line != 0; line = strchr(line, '\n'), line += line ? 1 : 0)
        if (strncmp(line, key, n) == 0 && line[n] == ' ') {
            *out = strtoull(line + n, NULL, 10);
            return true;
        }
    return false;
}

void device_gfx_at(char *out, size_t bytes, const char *directory, uint32_t domain, uint32_t bus, uint32_t slot)
{
    enum { MOST_NODES = 128 };                   /* CPUs count as well */
    *out = 0;
    for (uint32_t node = 0; node < MOST_NODES; node++) {
        char path[512], text[4096];
        uint64_t version = 0, place = 0, at_domain = 0;
        snprintf(path, sizeof path, "%s/%u/properties", directory, (unsigned)node);
        if (!file_text(path, text, sizeof text) || !read_number(text, "gfx_target_version", &version) || version == 0 ||
            !read_number(text, "location_id", &place)) continue;
        read_number(text, "domain", &at_domain);                 /* older kernels have none */
        if (at_domain != domain || place >> 8 != bus || (place >> 3 & 31) != slot) continue;
        /* 90402 is gfx942, 90010 gfx90a: minor and stepping are hexadecimal digits in the name. */
        snprintf(out, bytes, "gfx%u%x%x", (unsigned)(version / 10000), (unsigned)(version / 100 % 100), (unsigned)(version % 100));
    }
}

static int attribute(const struct forge_device *d, int hip, int cuda, int otherwise)
{
    int value;
    return d->call.attribute(&value, d->api == FORGE_GPU_HIP ? hip : cuda, d->index) == 0 ? value : otherwise;
}

static void describe(struct forge_device *d)
{
    if (d->call.name(d->name, sizeof d->name - 1, d->index) != 0 || d->name[0] == 0)
        snprintf(d->name, sizeof d->name, "device %d", d->index);
    snprintf(d->label, sizeof d->label, "%s", d->name);
    d->integrated = attribute(d, HIP_INTEGRATED, CUDA_INTEGRATED, 0) > 0;
    const int domain = attribute(d, HIP_PCI_DOMAIN, CUDA_PCI_DOMAIN, 0), bus = attribute(d, HIP_PCI_BUS, CUDA_PCI_BUS, -1),
              slot = attribute(d, HIP_PCI_SLOT, CUDA_PCI_SLOT, -1);
    d->arch[0] = d->pci[0] = 0;
    if (bus >= 0 && slot >= 0 && !d->given) snprintf(d->pci, sizeof d->pci, "%04x:%02x:%02x.0", (unsigned)domain, (unsigned)bus,
                                                     (unsigned)slot);
    if (d->api == FORGE_GPU_CUDA)
        snprintf(d->arch, sizeof d->arch, "sm_%d%d", attribute(d, 0, CUDA_MAJOR, 0), attribute(d, 0, CUDA_MINOR, 0));
    else if (d->pci[0] != 0)
        device_gfx_at(d->arch, sizeof d->arch, "/sys/class/kfd/kfd/topology/nodes", (uint32_t)domain, (uint32_t)bus, (uint32_t)slot);
}

/* PTX of sm_90 runs on what came later, too; that of sm_90a does not. */
bool device_runs(const struct forge_device *d, const char *arch)
{
    if (d->arch[0] == 0 || strcmp(d->arch, arch) == 0) return true;
    if (d->api != FORGE_GPU_CUDA) return false;
    const size_t digits = strspn(arch + 3, "0123456789");
    const long built = strtol(arch + 3, NULL, 10), here = strtol(d->arch + 3, NULL, 10);
    return arch[3 + digits] == 0 ? here >= built : here == built;
}

static enum forge_status choose(struct forge_device *d, const char *arch, int number, struct forge_error *error)
{
    char seen[240] = "";
    size_t used = 0;
    if (number >= d->n_devices) return error_set(error, FORGE_NO_DEVICE, "there is no GPU %d: there are %d", number, d->n_devices);
    const int end = number < 0 ? d->n_devices : number + 1;
    for (d->index = number < 0 ? 0 : number; d->index < end; d->index++) {
        if (number < 0 && d->index < 64 && d->taken >> d->index & 1) continue;
        describe(d);
        if (device_runs(d, arch)) return FORGE_OK;
        const char *comma = used > 0 ? ", " : "";
        const int n = used < sizeof seen ? snprintf(seen + used, sizeof seen - used, "%s%s (%s)", comma, d->name, d->arch) : 0;
        if (n > 0) used += (size_t)n;
    }
    return error_set(error, FORGE_WRONG_GPU, "the program was built for %s, this machine has %s: build it again with -t %s", arch, seen,
                     d->arch);
}

void device_describe(struct forge_device *d, int number)
{
    d->index = number;
    describe(d);
}

enum forge_status device_current(struct forge_device *d, struct forge_error *error)
{
    if (d->api == FORGE_GPU_HIP) CALL(d, "choosing the GPU", set_device(d->index));
    else CALL(d, "opening the GPU", context_set(d->context));
    return FORGE_OK;
}

enum forge_status device_select(struct forge_device *d, const char *arch, int number, struct forge_error *error)
{
    TRY(choose(d, arch, number, error));
    if (d->api == FORGE_GPU_CUDA) CALL(d, "opening the GPU", context_retain(&d->context, d->index));
    TRY(device_current(d, error));
    CALL(d, "creating a stream", stream_create(&d->stream, STREAM_NON_BLOCKING));
    return FORGE_OK;
}

enum forge_status device_reach(struct forge_device *d, const struct forge_device *other, struct forge_error *error)
{
    const struct backend *b = &backends[d->api];
    int yes = 0;
    for (size_t i = 0; i < b->n_peers; i++) {
        void *address;
        memcpy(&address, (const char *)&d->call + b->peers[i].at, sizeof address);
        if (!address) return error_set(error, FORGE_NO_DEVICE, "%s has no %s, which a program for several GPUs needs", d->library_name,
                                       b->peers[i].name);
    }
    CALL(d, "asking for access between GPUs", can_access(&yes, d->index, other->index));
    if (!yes)
        return error_set(error, FORGE_WRONG_GPU, "%s does not reach the memory of %s", d->label, other->label);
    TRY(device_current(d, error));
    const int code = d->api == FORGE_GPU_HIP ? d->call.access_device(other->index, 0) : d->call.access_context(other->context, 0);
    return code == 0 || code == CODE_PEER_ALREADY ? FORGE_OK : fail(d, code, "access between GPUs", error);
}

void device_close(struct forge_device *d)
{
    if (!d->library) return;
    if (d->stream) d->call.stream_destroy(d->stream);
    if (d->context) d->call.context_release(d->index);
    memset(d, 0, sizeof *d);
}

/* ---- memory ---- */

bool device_file(const struct forge_device *d, const char *name, char *out, size_t bytes)
{
    char path[128];
    snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/%s", d->pci, name);
    if (d->pci[0] == 0 || !file_text(path, out, bytes)) return false;
    out[strcspn(out, "\n")] = 0;
    return true;
}

uint64_t device_file_number(const struct forge_device *d, const char *name)
{
    char text[64];
    return device_file(d, name, text, sizeof text) ? strtoull(text, NULL, 10) : 0;
}

enum forge_status device_memory(struct forge_device *d, uint64_t *free, uint64_t *total, struct forge_error *error)
{
    size_t free_bytes = 0, total_bytes = 0;
    CALL(d, "asking for the GPU's memory", memory(&free_bytes, &total_bytes));
    *free = free_bytes;
    *total = total_bytes;
    if (d->integrated && d->api == FORGE_GPU_HIP) {
        /* Some releases of ROCm count only what the firmware set aside; allocations come from all that the kernel lets the GPU have. */
        const uint64_t shared = device_file_number(d, "mem_info_gtt_total"), used = device_file_number(d, "mem_info_gtt_used");
        if (shared > used && shared - used > *free) {
            *free = shared - used;
            *total = shared;
        }
    }
    return FORGE_OK;
}

static enum forge_status no_room(const struct forge_device *d, int code, uint64_t bytes, const char *what, struct forge_error *error)
{
    return error_set(error, code == CODE_NO_MEMORY ? FORGE_NO_MEMORY : FORGE_DEVICE_FAULT, "%.1f MiB for the %s: %s (%d)",
                     (double)bytes / 1048576, what,
                     code_text(d, code), code);
}

enum forge_status device_alloc(struct forge_device *d, void *out_address, uint64_t bytes, const char *what, struct forge_error *error)
{
    void *address = NULL;
    const int code = d->call.alloc(&address, (size_t)bytes);
    if (code != 0) return no_room(d, code, bytes, what, error);
    memcpy(out_address, &address, sizeof address);
    return FORGE_OK;
}

enum forge_status device_alloc_shared(struct forge_device *d, void *out_address, uint64_t bytes, const char *what,
                                      struct forge_error *error)
{
    /* AMD: what others store is seen only where no cache of this one holds it. */
    if (d->api != FORGE_GPU_HIP) return device_alloc(d, out_address, bytes, what, error);
    if (!d->call.alloc_with)
        return error_set(error, FORGE_NO_DEVICE, "%s has no hipExtMallocWithFlags, which a program for several GPUs needs",
                         d->library_name);
    void *address = NULL;
    const int code = d->call.alloc_with(&address, (size_t)bytes, HIP_UNCACHED);
    if (code != 0) return no_room(d, code, bytes, what, error);
    memcpy(out_address, &address, sizeof address);
    return FORGE_OK;
}

void device_free(struct forge_device *d, void *address)
{
    if (address) d->call.free(address);
}

static enum forge_status host_alloc(struct forge_device *d, void *out_host, void *out_address, uint64_t bytes, unsigned more,
                                    const char *what, struct forge_error *error)
{
    void *host = NULL, *address = NULL;
    const unsigned flags = more | (d->api == FORGE_GPU_HIP ? HOST_MAPPED | HIP_HOST_COHERENT : HOST_MAPPED);
    int code = d->call.host_alloc(&host, (size_t)bytes, flags);
    if (code != 0) return no_room(d, code, bytes, what, error);
    memcpy(out_host, &host, sizeof host);
    code = d->call.host_address(&address, host, 0);
    if (code != 0) return no_room(d, code, bytes, what, error);
    memcpy(out_address, &address, sizeof address);
    return FORGE_OK;
}

enum forge_status device_host_alloc(struct forge_device *d, void *out_host, void *out_address, uint64_t bytes, const char *what,
                                    struct forge_error *error)
{
    return host_alloc(d, out_host, out_address, bytes, 0, what, error);
}

enum forge_status device_host_alloc_shared(struct forge_device *d, void *out_host, void *out_address, uint64_t bytes, const char *what,
                                           struct forge_error *error)
{
    return host_alloc(d, out_host, out_address, bytes, HOST_PORTABLE, what, error);
}

void device_host_free(struct forge_device *d, void *host)
{
    if (host) d->call.host_free(host);
}

enum forge_status device_clear(struct forge_device *d, void *address, uint64_t bytes, struct forge_error *error)
{
    CALL(d, "clearing memory of the GPU", clear(address, 0, (size_t)bytes, d->stream));
    return FORGE_OK;
}

enum forge_status device_upload(struct forge_device *d, void *to, const void *from, uint64_t bytes, struct forge_error *error)
{
    CALL(d, "copying to the GPU", upload(to, from, (size_t)bytes, d->stream));
    return FORGE_OK;
}

enum forge_status device_download(struct forge_device *d, void *to, const void *from, uint64_t bytes, struct forge_error *error)
{
    CALL(d, "copying from the GPU", download(to, from, (size_t)bytes, d->stream));
    return FORGE_OK;
}

enum forge_status device_copy(struct forge_device *d, void *to, const void *from, uint64_t bytes, struct forge_error *error)
{
    CALL(d, "copying on the GPU", copy(to, from, (size_t)bytes, d->stream));
    return FORGE_OK;
}

/* ---- order ---- */

enum forge_status device_idle(struct forge_device *d, bool *idle, struct forge_error *error)
{
    const int code = d->call.stream_query(d->stream);
    *idle = code == 0;
    return code == 0 || code == CODE_NOT_READY ? FORGE_OK : fail(d, code, "the GPU failed", error);
}

enum forge_status device_event(struct forge_device *d, void **out, struct forge_error *error)
{
    CALL(d, "creating an event", event_create(out, 0));
    return FORGE_OK;
}

void device_event_free(struct forge_device *d, void *event)
{
    if (event) d->call.event_destroy(event);
}

enum forge_status device_record(struct forge_device *d, void *event, struct forge_error *error)
{
    CALL(d, "recording an event", event_record(event, d->stream));
    return FORGE_OK;
}

enum forge_status device_passed(struct forge_device *d, void *event, bool *passed, struct forge_error *error)
{
    const int code = d->call.event_query(event);
    *passed = code == 0;
    return code == 0 || code == CODE_NOT_READY ? FORGE_OK : fail(d, code, "the GPU failed", error);
}

enum forge_status device_seconds(struct forge_device *d, void *from, void *to, double *seconds, struct forge_error *error)
{
    float milliseconds = 0;
    CALL(d, "the time between two events", event_elapsed(&milliseconds, from, to));
    *seconds = (double)milliseconds * 1e-3;
    return FORGE_OK;
}

/* ---- code ---- */

enum forge_status device_module(struct forge_device *d, void **out, const uint8_t *code, struct forge_error *error)
{
    char log[300] = "";
    int options[] = { JIT_ERROR_LOG, JIT_ERROR_LOG_BYTES };
    void *values[] = { log, (void *)(uintptr_t)(sizeof log - 1) };
    const int result = d->api == FORGE_GPU_HIP ? d->call.module_load(out, code) : d->call.module_load_log(out, code, 2, options, values);
    if (result == 0) return FORGE_OK;
    for (char *c = log; *c != 0; c++)
        if (*c == '\n') *c = ' ';
    if (result == CODE_PTX_TOO_NEW)
        return error_set(error, FORGE_NO_DEVICE, "the NVIDIA driver (%s) is too old for the program's PTX: update it", d->version_text);
    const bool wrong = result == CODE_NO_BINARY || result == CODE_INVALID_PTX;
    return error_set(error, wrong ? FORGE_WRONG_GPU : result == CODE_NO_MEMORY ? FORGE_NO_MEMORY : FORGE_DEVICE_FAULT,
                     "%s does not take the program's code: %s (%d)%s%s", d->label, code_text(d, result), result, *log != 0 ? ": " : "",
                     log);
}

void device_module_free(struct forge_device *d, void *module)
{
    if (module) d->call.module_unload(module);
}

enum forge_status device_function(struct forge_device *d, void **out, void *module, const char *name, uint32_t lds_bytes,
                                  struct forge_error *error)
{
    char what[128];
    snprintf(what, sizeof what, "kernel %.100s", name);
    CALL(d, what, function(out, module, name));
    if (d->api == FORGE_GPU_CUDA && lds_bytes > CUDA_SHARED_BYTES_FREE)
        CALL(d, what, function_set(*out, CUDA_FUNCTION_SHARED_BYTES, (int)lds_bytes));
    return FORGE_OK;
}

enum forge_status device_spills(struct forge_device *d, void *function, uint32_t *bytes, struct forge_error *error)
{
    int value = 0;
    if (d->api == FORGE_GPU_CUDA) CALL(d, "kernel", function_get(&value, CUDA_FUNCTION_LOCAL_BYTES, function));
    *bytes = (uint32_t)value;
    return FORGE_OK;
}

enum forge_status device_launch(struct forge_device *d, void *function, uint32_t grid_x, uint32_t grid_y, uint32_t threads,
                                uint32_t lds_bytes,
                                const struct forge_kernel_args *args, bool dependent, uint32_t cluster, struct forge_error *error)
{
    size_t bytes = sizeof *args;
    void *extra[] = { (void *)EXTRA_POINTER, (void *)(uintptr_t)args, (void *)EXTRA_SIZE, &bytes,
                      d->api == FORGE_GPU_HIP ? (void *)HIP_EXTRA_END : (void *)CUDA_EXTRA_END };
    struct device_launch_attribute attributes[2];
    uint32_t n = 0;
    if (dependent) attributes[n++] = (struct device_launch_attribute){ .id = LAUNCH_ATTRIBUTE_PROGRAMMATIC_SERIALIZATION,
                                                                       .value.allowed = 1 };
    if (cluster > 1) attributes[n++] = (struct device_launch_attribute){ .id = LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                                                         .value.cluster = { cluster, 1, 1 } };
    if (n > 0 && d->api == FORGE_GPU_CUDA) {
        const struct device_launch_config config = { grid_x, grid_y, 1, threads, 1, 1, lds_bytes, d->stream, attributes, n };
        CALL(d, "launching a kernel", launch_with(&config, function, NULL, extra));
    } else {
        CALL(d, "launching a kernel", launch(function, grid_x, grid_y, 1, threads, 1, 1, lds_bytes, d->stream, NULL, extra));
    }
    return FORGE_OK;
}

enum forge_status device_capture_begin(struct forge_device *d, struct forge_error *error)
{
    CALL(d, "beginning a graph", capture_begin(d->stream, CAPTURE_THREAD_LOCAL));
    return FORGE_OK;
}

enum forge_status device_capture_end(struct forge_device *d, void **out_exec, struct forge_error *error)
{
    void *graph = NULL;
    CALL(d, "ending a graph", capture_end(d->stream, &graph));
    const int code = d->api == FORGE_GPU_HIP ? d->call.graph_make(out_exec, graph, NULL, NULL, 0)
                                             : d->call.graph_make_flags(out_exec, graph, 0);
    d->call.graph_destroy(graph);
    return code == 0 ? FORGE_OK : fail(d, code, "making a graph", error);
}

enum forge_status device_graph_launch(struct forge_device *d, void *exec, struct forge_error *error)
{
    CALL(d, "launching a graph", graph_launch(exec, d->stream));
    return FORGE_OK;
}

void device_graph_free(struct forge_device *d, void *exec)
{
    if (exec) d->call.exec_destroy(exec);
}
