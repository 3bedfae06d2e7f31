/* device.c -- a GPU through its driver's library, opened at run time: HIP and CUDA behind one set of functions. */
#include "device.h"
#include "driver_library.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Constants of HIP's and CUDA's headers, the same in both unless the name contains one of them; HIP's are those of ROCm 5.0 to 7. */
enum {
    LEAST_HIP = 500,                             /* its functions are those of hip.def; code objects of version 5 load from 5.7 on */
    CODE_NO_MEMORY = 2, CODE_NO_DEVICE = 100, CODE_NO_BINARY = 209, CODE_INVALID_PTX = 218, CODE_PTX_TOO_NEW = 222, CODE_NOT_READY = 600,
    CODE_PEER_ALREADY = 704, HIP_UNCACHED = 3,
    STREAM_NON_BLOCKING = 1, HOST_PORTABLE = 1, HOST_MAPPED = 2, HIP_HOST_COHERENT = 0x40000000, CAPTURE_THREAD_LOCAL = 1,
    HIP_INTEGRATED = 16, HIP_PCI_BUS = 67, HIP_PCI_SLOT = 68, HIP_PCI_DOMAIN = 69,
    CUDA_INTEGRATED = 18, CUDA_PCI_BUS = 33, CUDA_PCI_SLOT = 34, CUDA_PCI_DOMAIN = 50, CUDA_MAJOR = 75, CUDA_MINOR = 76,
    CUDA_FUNCTION_LOCAL_BYTES = 3,               /* of a thread */
    CUDA_FUNCTION_SHARED_BYTES = 8, CUDA_SHARED_BYTES_FREE = 48 << 10,        /* a larger size must be requested for each function */
    JIT_ERROR_LOG = 5, JIT_ERROR_LOG_BYTES = 6,
    EXTRA_POINTER = 1, EXTRA_SIZE = 2, HIP_EXTRA_END = 3, CUDA_EXTRA_END = 0,
    LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION = 4, LAUNCH_ATTRIBUTE_PROGRAMMATIC_SERIALIZATION = 6,
};

/* Like CUlaunchAttribute and CUlaunchConfig in cuda.h. */
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
static const struct symbol hip_optional[] = {
#include "hip_optional.def"
};
#undef SYMBOL

struct backend {
    enum driver_library library;
    const struct symbol *symbols;
    size_t n_symbols;
    const struct symbol *peers;                  /* for programs for several GPUs */
    size_t n_peers;
    const struct symbol *optional;               /* may be missing */
    size_t n_optional;
    const char *maker;
};
static const struct backend backends[] = {
    [FORGE_GPU_HIP] = { DRIVER_HIP, hip_symbols, sizeof hip_symbols / sizeof *hip_symbols, hip_peers, sizeof hip_peers / sizeof *hip_peers,
                        hip_optional, sizeof hip_optional / sizeof *hip_optional, "AMD" },
    [FORGE_GPU_CUDA] = { DRIVER_CUDA, cuda_symbols, sizeof cuda_symbols / sizeof *cuda_symbols, cuda_peers,
                         sizeof cuda_peers / sizeof *cuda_peers, NULL, 0, "NVIDIA" },
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
    char broken[300];
    d->library = driver_open(b->library, d->library_name, sizeof d->library_name, broken, sizeof broken);
    if (d->library) return FORGE_OK;
    if (*broken != 0) return error_set(error, FORGE_NO_DEVICE, "the library of the %s driver cannot be loaded: %s", b->maker, broken);
    return error_set(error, FORGE_NO_DEVICE, "%s", driver_missing(b->library));
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
    for (size_t i = 0; i < b->n_optional; i++) {
        void *address = symbol(context, b->optional[i].name);
        memcpy((char *)&d->call + b->optional[i].at, &address, sizeof address);
    }
    return FORGE_OK;
}

static enum forge_status check_version(struct forge_device *d, struct forge_error *error)
{
    int version = 0;
    CALL(d, "the driver's version", version(&version));
    d->version = version;
    if (d->api == FORGE_GPU_HIP) {
        d->version_major = version / 10000000;
        d->version_minor = version / 100000 % 100;
        snprintf(d->version_text, sizeof d->version_text, "HIP %d.%d.%d", d->version_major, d->version_minor, version % 100000);
        if (d->version_major * 100 + d->version_minor < LEAST_HIP)
            return error_set(error, FORGE_NO_DEVICE, "%s is %s, which is too old: the program's code needs ROCm 5.7 or newer",
                             d->library_name, d->version_text);
    } else {
        d->version_major = version / 1000;
        snprintf(d->version_text, sizeof d->version_text, "CUDA %d.%d", d->version_major, version % 1000 / 10);
        if (version < 12050)
            return error_set(error, FORGE_NO_DEVICE, "the NVIDIA driver is for %s, which is too old: 12.5 is needed (driver 555 or newer)",
                             d->version_text);
    }
    return FORGE_OK;
}

/* Finds reasons why there is no device, starting with the kernel driver's file. */
static void why_no_device(const struct forge_device *d, char *why, size_t bytes)
{
    const bool hip = d->api == FORGE_GPU_HIP;
    const char *file = hip ? "/dev/kfd" : "/dev/nvidiactl";
    const char *hidden = getenv(hip ? "HIP_VISIBLE_DEVICES" : "CUDA_VISIBLE_DEVICES");
    *why = 0;
    if (access(file, F_OK) != 0 && access("/dev/dxg", F_OK) == 0)
        snprintf(why, bytes, hip ? "; this is WSL (/dev/dxg): it needs AMD's driver on Windows, librocdxg.so beside ROCm, and before ROCm "
                                   "7.13 HSA_ENABLE_DXG_DETECTION=1 in the environment"
                                 : "; this is WSL (/dev/dxg): it needs NVIDIA's driver on Windows, and none in here");
    else if (access(file, F_OK) != 0)
        snprintf(why, bytes, "; there is no %s: %s", file,
                 hip ? "no amdgpu kernel driver (or a container without --device /dev/kfd --device /dev/dri)"
                     : "no NVIDIA kernel driver (or a container without the NVIDIA runtime)");
    else if (access(file, R_OK | W_OK) != 0)
        snprintf(why, bytes, "; %s cannot be opened: %s%s", file, strerror(errno), hip ? " (the user has to be in the group render)" : "");
    else if (hidden)
        snprintf(why, bytes, "; %s=%.60s hides some", hip ? "HIP_VISIBLE_DEVICES" : "CUDA_VISIBLE_DEVICES", hidden);
}

static enum forge_status no_device(const struct forge_device *d, int code, struct forge_error *error)
{
    char why[200], code_note[100] = "";
    why_no_device(d, why, sizeof why);
    if (code != 0) snprintf(code_note, sizeof code_note, " (%.70s, %d)", code_text(d, code), code);
    return error_set(error, FORGE_NO_DEVICE, "no %s GPU found by %s, %s%s%s", backends[d->api].maker, d->library_name, d->version_text,
                     code_note, why);
}

/* With the functions found: checks that the version is known and that there is at least one device. */
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
#ifndef FORGE_LIBRARY                            /* a library does not change the environment, and captures nothing before all kernels
                                                  * have run (runtime/library/gpu.c) */
    /* Kernels are loaded with their module.  Otherwise they would be loaded while a graph is captured, which is forbidden. */
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

/* Finds "key 123" on a line of its own. */
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
    enum { MOST_NODES = 128 };                   /* CPUs count, too */
    *out = 0;
    for (uint32_t node = 0; node < MOST_NODES; node++) {
        char path[512], text[4096];
        uint64_t version = 0, place = 0, at_domain = 0;
        snprintf(path, sizeof path, "%s/%u/properties", directory, (unsigned)node);
        if (!file_text(path, text, sizeof text) || !read_number(text, "gfx_target_version", &version) || version == 0 ||
            !read_number(text, "location_id", &place)) continue;
        read_number(text, "domain", &at_domain);                 /* older kernels do not report it */
        if (at_domain != domain || place >> 8 != bus || (place >> 3 & 31) != slot) continue;
        /* 90402 is gfx942, 90010 is gfx90a: in the name, minor and stepping are hexadecimal digits. */
        snprintf(out, bytes, "gfx%u%x%x", (unsigned)(version / 10000), (unsigned)(version / 100 % 100), (unsigned)(version % 100));
    }
}

static int attribute(const struct forge_device *d, int hip, int cuda, int otherwise)
{
    int value;
    return d->call.attribute(&value, d->api == FORGE_GPU_HIP ? hip : cuda, d->index) == 0 ? value : otherwise;
}

/* "gfx1151" in the driver's struct of properties.  The struct's layout has changed between versions, so its text is searched. */
static void gfx_of_properties(const struct forge_device *d, char *out, size_t bytes)
{
    enum { NAME_BYTES = 256, MOST_BYTES = 8192 };            /* NAME_BYTES: of the marketing name, which comes first; the struct has 1472
                                                              * bytes in ROCm 7 */
    int (*const ask)(void *, int) = d->call.properties ? d->call.properties : d->call.properties_old;
    char properties[MOST_BYTES] = "";
    if (!ask || ask(properties, d->index) != 0) return;
    for (size_t i = NAME_BYTES; i + 32 < sizeof properties; i++) {
        const size_t n = strncmp(properties + i, "gfx", 3) == 0 ? strspn(properties + i + 3, "0123456789abcdef") : 0;
        if (n < 3 || n + 4 > bytes) continue;
        snprintf(out, bytes, "%.*s", (int)n + 3, properties + i);
        return;
    }
}

/* HSA_OVERRIDE_GFX_VERSION=11.0.0: the driver treats every GPU as gfx1100. */
static void gfx_of_override(char *out, size_t bytes)
{
    const char *text = getenv("HSA_OVERRIDE_GFX_VERSION");
    char *end = NULL;
    const long major = text ? strtol(text, &end, 10) : 0, minor = end && *end == '.' ? strtol(end + 1, &end, 10) : -1,
               stepping = end && *end == '.' ? strtol(end + 1, &end, 10) : -1;
    if (major > 0 && major < 100 && minor >= 0 && minor < 16 && stepping >= 0 && stepping < 16)
        snprintf(out, bytes, "gfx%ld%lx%lx", major, (unsigned long)minor, (unsigned long)stepping);
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
    if (d->api == FORGE_GPU_HIP && d->arch[0] == 0) gfx_of_properties(d, d->arch, sizeof d->arch);
    if (d->api == FORGE_GPU_HIP && d->arch[0] != 0) gfx_of_override(d->arch, sizeof d->arch);
}

/* PTX for sm_90 also runs on later GPUs; PTX for sm_90a does not. */
bool device_runs(const struct forge_device *d, const char *arch)
{
    if (d->arch[0] == 0 || strcmp(d->arch, arch) == 0) return true;
    if (d->api != FORGE_GPU_CUDA) return false;
    const size_t digits = strspn(arch + 3, "0123456789");
    const long built = strtol(arch + 3, NULL, 10), here = strtol(d->arch + 3, NULL, 10);
    return arch[3 + digits] == 0 ? here >= built : here == built;
}

static enum forge_status open_device(struct forge_device *d, struct forge_error *error)
{
    if (d->api == FORGE_GPU_CUDA) CALL(d, "opening the GPU", context_retain(&d->context, d->index));
    TRY(device_current(d, error));
    CALL(d, "creating a stream", stream_create(&d->stream, STREAM_NON_BLOCKING));
    return FORGE_OK;
}

/* For a device of unknown architecture: does the driver find something for it in the code? */
static bool takes_code(struct forge_device *d, const uint8_t *code)
{
    void *module = NULL;
    if (!code || device_current(d, NULL) != FORGE_OK) return true;
    const enum forge_status status = device_module(d, &module, code, NULL);
    device_module_free(d, module);
    return status != FORGE_WRONG_GPU;
}

/* The architectures of forgec's targets from one maker, for which a program could be built instead; NULL at the end. */
static const char *const *targets_of(uint32_t api)
{
#define HIP_TARGET(arch) #arch,
#define CUDA_TARGET(arch)
    static const char *const hip[] = {
#include "gpu_targets.def"
        NULL };
#undef HIP_TARGET
#undef CUDA_TARGET
#define HIP_TARGET(arch)
#define CUDA_TARGET(arch) #arch,
    static const char *const cuda[] = {
#include "gpu_targets.def"
        NULL };
#undef HIP_TARGET
#undef CUDA_TARGET
    return api == FORGE_GPU_HIP ? hip : cuda;
}

/* The message if no GPU can run the program: what to do for the GPU that exists. */
static enum forge_status no_fitting(const struct forge_device *d, const char *arch, const char *seen, const char *last,
                                    struct forge_error *error)
{
    char known[200] = "";
    const char *override = d->api == FORGE_GPU_HIP ? getenv("HSA_OVERRIDE_GFX_VERSION") : NULL, *best = NULL;
    size_t used = 0;
    for (const char *const *t = targets_of(d->api); *t; t++) {
        struct forge_device there = { .api = d->api };
        snprintf(there.arch, sizeof there.arch, "%s", last);
        if (last[0] != 0 && device_runs(&there, *t)) best = *t;
        const int n = used < sizeof known ? snprintf(known + used, sizeof known - used, "%s%s", used > 0 ? ", " : "", *t) : 0;
        if (n > 0) used += (size_t)n;
    }
    if (best)
        return error_set(error, FORGE_WRONG_GPU, "the program was built for %s, this machine has %s%s%.20s: build it again with -t %s",
                         arch, seen, override ? ", by HSA_OVERRIDE_GFX_VERSION=" : "", override ? override : "", best);
    if (last[0] == 0)
        return error_set(error, FORGE_WRONG_GPU, "the program was built for %s, this machine has %s, and none of them can run its code",
            arch,
                         seen);
    return error_set(error, FORGE_WRONG_GPU, "the program was built for %s, this machine has %s, for which forgec has no target (it has "
                     "%s): build it for the processor, with -t native", arch, seen, known);
}

/* If there are several devices of unknown architecture, each is tested with the code: the first GPU of the machine need not be the one
 * that the program was built for. */
static enum forge_status choose(struct forge_device *d, const char *arch, int number, const uint8_t *code, struct forge_error *error)
{
    char seen[240] = "", last[sizeof d->arch] = "";
    size_t used = 0;
    if (number >= d->n_devices)
        return error_set(error, FORGE_NO_DEVICE, "there is no GPU %d; this machine has %d, counted from 0", number, d->n_devices);
    const int end = number < 0 ? d->n_devices : number + 1;
    for (d->index = number < 0 ? 0 : number; d->index < end; d->index++) {
        if (number < 0 && d->index < 64 && d->taken >> d->index & 1) continue;
        describe(d);
        const bool unknown = d->arch[0] == 0;
        if (unknown ? number >= 0 || d->n_devices == 1 || takes_code(d, code) : device_runs(d, arch)) return FORGE_OK;
        snprintf(last, sizeof last, "%s", d->arch);
        const char *comma = used > 0 ? ", " : "";
        const int n = used < sizeof seen ? snprintf(seen + used, sizeof seen - used, "%s%s (%s)", comma, d->name, unknown ? "?" : d->arch)
                                         : 0;
        if (n > 0) used += (size_t)n;
    }
    return no_fitting(d, arch, seen, last, error);
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

enum forge_status device_select(struct forge_device *d, const char *arch, int number, const uint8_t *code, struct forge_error *error)
{
    TRY(choose(d, arch, number, code, error));
    return open_device(d, error);
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
        return error_set(error, FORGE_WRONG_GPU, "%s cannot access the memory of %s", d->label, other->label);
    TRY(device_current(d, error));
    const int code = d->api == FORGE_GPU_HIP ? d->call.access_device(other->index, 0) : d->call.access_context(other->context, 0);
    return code == 0 || code == CODE_PEER_ALREADY ? FORGE_OK : fail(d, code, "access between GPUs", error);
}

void device_close(struct forge_device *d)
{
    if (!d->library) return;
    if (d->captures) d->call.stream_destroy(d->captures);
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

/* Bytes of host memory that are available without displacing memory in use; 0: the system does not report it. */
static uint64_t host_available(void)
{
    char text[4096];
    const char *line = file_text("/proc/meminfo", text, sizeof text) ? strstr(text, "MemAvailable:") : NULL;
    return line ? strtoull(line + sizeof "MemAvailable:" - 1, NULL, 10) * 1024 : 0;
}

/* For a GPU that shares the CPU's memory.  It allocates from the memory that the firmware reserved (VRAM), or from the system memory
 * that the kernel lets it use (GTT) if that is larger.  In the second case the limit is what the system can give; otherwise the kernel
 * would kill a process.  Some releases of ROCm report only VRAM. */
static void limit_shared(struct forge_device *d, uint64_t *free, uint64_t *total)
{
    const uint64_t gtt = device_file_number(d, "mem_info_gtt_total"), gtt_used = device_file_number(d, "mem_info_gtt_used");
    const uint64_t vram = device_file_number(d, "mem_info_vram_total"), available = host_available();
    if (gtt == 0) return;
    const uint64_t shared = gtt > gtt_used ? gtt - gtt_used : 0;
    if (shared > *free) {
        *free = shared;
        *total = gtt;
    }
    if (gtt <= vram || available == 0 || available >= *free) return;
    const uint64_t own = device_file_number(d, "mem_info_vram_used");
    const uint64_t set_aside = vram > own ? vram - own : 0;
    *free = available > set_aside ? available : set_aside;
    d->host_limits = true;
}

enum forge_status device_memory(struct forge_device *d, uint64_t *free, uint64_t *total, struct forge_error *error)
{
    size_t free_bytes = 0, total_bytes = 0;
    CALL(d, "asking for the GPU's memory", memory(&free_bytes, &total_bytes));
    *free = free_bytes;
    *total = total_bytes;
    d->host_limits = false;
    if (d->integrated && d->api == FORGE_GPU_HIP) limit_shared(d, free, total);
    return FORGE_OK;
}

/* If enough memory is free nevertheless, the driver limits the size of one allocation. */
static enum forge_status no_room(struct forge_device *d, int code, uint64_t bytes, const char *what, struct forge_error *error)
{
    uint64_t free = 0, total = 0;
    const double mib = 1.0 / 1048576;
    char capped[120] = "";
    if (code == CODE_NO_MEMORY && device_memory(d, &free, &total, NULL) == FORGE_OK && free >= bytes)
        snprintf(capped, sizeof capped, ", though %.0f MiB are free: the driver refuses one allocation of that size",
                 (double)free * mib);
    return error_set(error, code == CODE_NO_MEMORY ? FORGE_NO_MEMORY : FORGE_DEVICE_FAULT, "%.1f MiB for the %s: %s (%d)%s",
                     (double)bytes * mib, what, code_text(d, code), code, capped);
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
    /* AMD: this GPU sees what others store only if none of its caches holds that memory. */
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
                     "%s does not accept the program's code: %s (%d)%s%s", d->label, code_text(d, result), result, *log != 0 ? ": " : "",
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

/* Captures on a separate stream, so that a failure to make a graph does not affect the normal stream. */
enum forge_status device_capture_begin(struct forge_device *d, struct forge_error *error)
{
    if (!d->captures) CALL(d, "beginning a graph", stream_create(&d->captures, STREAM_NON_BLOCKING));
    CALL(d, "beginning a graph", capture_begin(d->captures, CAPTURE_THREAD_LOCAL));
    d->runs = d->stream;
    d->stream = d->captures;
    return FORGE_OK;
}

/* After a failure the state of the capture stream is unknown, so it is destroyed. */
static void capture_ended(struct forge_device *d, bool well)
{
    d->stream = d->runs;
    d->runs = NULL;
    if (well) return;
    d->call.stream_destroy(d->captures);
    d->captures = NULL;
}

void device_capture_drop(struct forge_device *d)
{
    void *graph = NULL;
    if (d->call.capture_end(d->stream, &graph) == 0 && graph) d->call.graph_destroy(graph);
    capture_ended(d, false);
}

enum forge_status device_capture_end(struct forge_device *d, void **out_exec, struct forge_error *error)
{
    void *graph = NULL;
    int code = d->call.capture_end(d->stream, &graph);
    capture_ended(d, code == 0);
    if (code != 0) return fail(d, code, "ending a graph", error);
    code = d->api == FORGE_GPU_HIP ? d->call.graph_make(out_exec, graph, NULL, NULL, 0) : d->call.graph_make_flags(out_exec, graph, 0);
    d->call.graph_destroy(graph);
    if (code != 0) *out_exec = NULL;
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
