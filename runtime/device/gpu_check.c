/* gpu_check.c -- --check for a GPU: opens it step by step, checks for known problems of this machine's driver, and runs kernels with known
 * results, which find unreported problems (gpu_probe.c).
 * Sources of the lists of bad versions: reports of 2025 on gfx1151 (MES 0x83 faults: ROCm issue 5724; firmware of 2025-11-25 and kernels
 * before 6.18.4: the Strix Halo toolboxes' notes).  Graphs: bad_graphs.def. */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "runtime/model/check.h"
#include "gpu_state.h"
#include "launcher.h"
#include "runtime/model/state.h"

#define BAD_FIRMWARE "20251125"
enum { BAD_MES = 0x83, NEWEST_HIP = 7 };

static void check_kernel(const struct forge_device *d)
{
    struct utsname system;
    int major = 0, minor = 0, patch = 0;
    if (uname(&system) != 0) return;
    const int parts = sscanf(system.release, "%d.%d.%d", &major, &minor, &patch);
    const bool old = parts >= 2 && major * 1000000 + minor * 1000 + patch < 6018004;
    if (strcmp(d->arch, "gfx1151") == 0 && old)
        check_line(CHECK_WARN, "kernel", "%s: before 6.18.4 gfx1151 is known to hang under load", system.release);
    else
        check_line(CHECK_OK, "kernel", "%s", system.release);
}

/* For Fedora and similar systems. */
static bool bad_firmware_by_rpm(void)
{
    char line[128];
    bool bad = false;
    FILE *answer = access("/var/lib/rpm", F_OK) == 0 || access("/usr/lib/sysimage/rpm", F_OK) == 0
                       ? popen("rpm -q --queryformat '%{VERSION}\\n' linux-firmware amd-gpu-firmware 2>/dev/null", "re") : NULL;
    while (answer && fgets(line, sizeof line, answer)) bad |= strncmp(line, BAD_FIRMWARE, sizeof BAD_FIRMWARE - 1) == 0;
    if (answer) pclose(answer);
    return bad;
}

/* The bad release of linux-firmware, by the package names of Debian, Ubuntu and Arch. */
static bool bad_firmware_installed(void)
{
    char line[512];
    bool ours = false, bad = false;
    FILE *file = fopen("/var/lib/dpkg/status", "re");
    while (file && !bad && fgets(line, sizeof line, file)) {
        if (strncmp(line, "Package: ", 9) == 0) ours = strcmp(line + 9, "linux-firmware\n")
            == 0 || strcmp(line + 9, "firmware-amd-graphics\n") == 0;
        else if (ours && strncmp(line, "Version: ", 9) == 0) bad = strstr(line, BAD_FIRMWARE);
    }
    if (file) fclose(file);
    glob_t found = { 0 };
    if (glob("/var/lib/pacman/local/linux-firmware*-" BAD_FIRMWARE "*", 0, NULL, &found) == 0) bad |= found.gl_pathc > 0;
    globfree(&found);
    return bad || bad_firmware_by_rpm();
}

static void check_firmware(const struct forge_device *d)
{
    char version[64] = "";
    const bool known = device_file(d, "fw_version/mes_fw_version", version, sizeof version);
    const unsigned long mes = strtoul(version, NULL, 16);
    if (known && mes == BAD_MES && strcmp(d->arch, "gfx1151") == 0)
        check_line(CHECK_WARN, "firmware", "MES 0x%lx is known to fault: install a newer linux-firmware", mes);
    else if (bad_firmware_installed())
        check_line(CHECK_WARN, "firmware", "linux-firmware " BAD_FIRMWARE " is known to hang: install another release");
    else if (known)
        check_line(CHECK_OK, "firmware", "MES 0x%lx", mes);
}

/* How much of the system's memory the GPU may use is limited by the kernel; the default is small. */
static void check_shared_memory(const struct forge_device *d, const struct forge_program *model, const struct forge_program *p)
{
    const double mib = 1.0 / 1048576, needed = (double)gpu_bytes_needed(model, p) * mib;
    const double vram = (double)device_file_number(d, "mem_info_vram_total") * mib;
    const double gtt = (double)device_file_number(d, "mem_info_gtt_total") * mib;
    if (!d->integrated || vram + gtt <= 0) return;
    if (needed > vram && needed > gtt * 0.95)
        check_line(CHECK_WARN, "GTT", "%.0f MiB of system memory for the GPU, and %.0f of VRAM: "
                   "boot with ttm.pages_limit=%.0f ttm.page_pool_size=%.0f",
                   gtt, vram, needed * 1.1 * 256, needed * 1.1 * 256);
    else
        check_line(CHECK_OK, "GTT", "%.0f MiB of system memory for the GPU, %.0f of VRAM", gtt, vram);
}

static void check_amd(const struct forge_device *d, const struct forge_program *model, const struct forge_program *p)
{
    const char *override = getenv("HSA_OVERRIDE_GFX_VERSION");
    if (override)
        check_line(CHECK_WARN, "override",
                   "HSA_OVERRIDE_GFX_VERSION=%.20s: the code is for one architecture exactly, on another it crashes", override);
    check_kernel(d);
    check_firmware(d);
    check_shared_memory(d, model, p);
}

static enum forge_status failed(const char *subject, enum forge_status status, const struct forge_error *error)
{
    check_line(CHECK_FAIL, subject, "%s", error->text);
    return status;
}

/* "GPU 1: " if GPUs share a model, else "". */
static const char *number_of(const struct forge_device *d, const struct forge_program *model, char *out, size_t bytes)
{
    *out = 0;
    if (program_ranks(model) > 1) snprintf(out, bytes, "GPU %d: ", d->index);
    return out;
}

/* Called before the device is used: a runtime that does not know the chip may crash there. */
static void check_version(const struct forge_device *d, const struct forge_program *p)
{
    const bool unknown = d->api == FORGE_GPU_HIP && d->version_major > NEWEST_HIP;
    const uint32_t here = (uint32_t)(100 * d->version_major + d->version_minor), least = p->gpu->least_driver;
    const char *bad = gpu_bad_graphs(d, p->gpu->arch);
    check_line(unknown ? CHECK_WARN : CHECK_OK, "library", "%s, %s%s", d->library_name, d->version_text,
               unknown ? ": newer than any it was tried with" : "");
    if (d->api == FORGE_GPU_HIP && here < least)
        check_line(CHECK_WARN, "version", "%s needs HIP %u.%u or newer (ROCm of that number): older ones are known to crash, or do not "
                   "know it", p->gpu->arch, least / 100, least % 100);
    if (bad && p->gpu->graph)
        check_line(CHECK_WARN, "graphs", "%s: kernels are launched one by one, unless --graph asks for graphs", bad);
}

static enum forge_status check_device(struct forge_device *d, const struct forge_program *model, uint32_t rank,
                                      const struct forge_devices *devices, uint64_t *taken, struct forge_error *error)
{
    const struct forge_program *p = program_of_rank(model, rank);
    if (rank == 0) check_version(d, p);
    fflush(stdout);
    const enum forge_status status = gpu_select(d, model, rank, devices, taken, error);
    if (status != FORGE_OK) return failed("GPU", status, error);
    const bool other = d->arch[0] != 0 && strcmp(d->arch, p->gpu->arch) != 0;
    check_line(other ? CHECK_WARN : CHECK_OK, "GPU", "%d of %d: %s, %s%s%s%s", d->index + 1, d->n_devices, d->name,
               d->arch[0] != 0 ? d->arch : "architecture not told", other ? "; the program was built for " : "", other ? p->gpu->arch : "",
               other ? " and runs, tuned for that" : "");
    if (d->api == FORGE_GPU_HIP) check_amd(d, model, p);
    return FORGE_OK;
}

/* Can all memory be allocated at once?  The weights may take as many allocations as the driver needs. */
static enum forge_status take_all(struct gpu *g, uint32_t *n_parts, struct forge_error *error)
{
    void *arena = NULL, *state = NULL;
    const struct forge_program *p = g->program;
    *n_parts = 0;
    enum forge_status status = gpu_take_weights(g, error);
    *n_parts = g->n_parts;
    if (status == FORGE_OK && p->arena_bytes > 0) status = device_alloc(&g->device, &arena, p->arena_bytes, "activations", error);
    if (status == FORGE_OK && p->state_bytes > 0) status = device_alloc(&g->device, &state, p->state_bytes, "state", error);
    device_free(&g->device, state);
    device_free(&g->device, arena);
    gpu_give_weights(g);
    return status;
}

static enum forge_status check_memory_of(struct forge_device *d, const struct forge_program *model, const struct forge_program *p,
                                         struct forge_error *error)
{
    uint64_t free_bytes = 0, total = 0;
    const double mib = 1.0 / 1048576;
    char number[24], collective[48] = "", parts[64] = "";
    uint32_t n_parts = 0;
    if (gpu_collective_bytes(p) > 0)
        snprintf(collective, sizeof collective, ", collectives %.0f", (double)gpu_collective_bytes(p) * mib);
    TRY(device_current(d, error));
    TRY(gpu_check_memory(d, model, p, error));
    TRY(device_memory(d, &free_bytes, &total, error));
    struct gpu *g = calloc(1, sizeof *g);
    if (!g) return error_set(error, FORGE_NO_MEMORY, "out of memory for a GPU's state");
    g->device = *d;
    g->program = p;
    const enum forge_status status = take_all(g, &n_parts, error);
    free(g);
    if (status != FORGE_OK) return status;
    if (n_parts > 1) snprintf(parts, sizeof parts, "; weights in %u parts: the driver refuses more at once", n_parts);
    check_line(CHECK_OK, "memory", "%s%.0f MiB needed (weights %.0f, state %.0f, activations %.0f%s), %.0f of %.0f free%s",
               number_of(d, model, number, sizeof number), (double)gpu_bytes_needed(model, p) * mib, (double)p->weights_bytes * mib,
               (double)p->state_bytes * mib, (double)p->arena_bytes * mib, collective, (double)free_bytes * mib, (double)total * mib,
               parts);
    return FORGE_OK;
}

static enum forge_status check_values(struct forge_device *d, const struct forge_program *model, const struct forge_program *p,
                                      void *module, bool plain, struct forge_error *error)
{
    struct forge_error no_graph = { "" };
    bool made = false;
    char number[24];
    const bool graphs = !plain && p->gpu->graph && !gpu_bad_graphs(d, p->gpu->arch);
    if (!p->gpu->probe) return FORGE_OK;
    number_of(d, model, number, sizeof number);
    TRY(gpu_probe(d, module, graphs, &made, &no_graph, error));
    if (graphs && !made)
        check_line(CHECK_WARN, "graphs", "%s%s: kernels are launched one by one, as with --no-graph", number, no_graph.text);
    check_line(CHECK_OK, "values", "%sa kernel computes the right values: launched one by one%s", number,
               made ? ", in a graph, and in a graph right after a copy" : "");
    return FORGE_OK;
}

/* Checks memory, code and results of one GPU.  Continues to print lines after the first failure. */
static enum forge_status check_room(struct forge_device *d, const struct forge_program *model, const struct forge_program *p, bool plain,
                                    struct forge_error *error)
{
    void *module = NULL, **functions = calloc(p->gpu->n_kernels + 1u, sizeof *functions);
    char number[24];
    if (!functions) return error_set(error, FORGE_NO_MEMORY, "out of memory for the list of kernels");
    number_of(d, model, number, sizeof number);
    const enum forge_status room = check_memory_of(d, model, p, error);
    if (room != FORGE_OK) failed("memory", room, error);

    struct forge_error second = { "" }, *at = room == FORGE_OK ? error : &second;
    enum forge_status status = gpu_load_code(d, p->gpu, &module, functions, at);
    if (status != FORGE_OK) failed("code", status, at);
    else check_line(CHECK_OK, "code", "%s%llu bytes, %u kernels, loaded", number, (unsigned long long)p->gpu->code_bytes,
                    p->gpu->n_kernels);
    if (status == FORGE_OK && (status = check_values(d, model, p, module, plain, at)) != FORGE_OK) failed("values", status, at);
    device_module_free(d, module);
    free(functions);
    return room != FORGE_OK ? room : status;
}

/* Checks peer access between GPUs that share a model. */
static bool check_access(struct forge_device *d, uint32_t n)
{
    struct forge_error why = { "" };
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < n; k++)
            if (i != k && !gpu_reaches(&d[i], &d[k], &why)) {
                check_line(CHECK_WARN, "access", "%s: values pass through the host's memory", why.text);
                return false;
            }
    if (n > 1) check_line(CHECK_OK, "access", "each of the %u GPUs reaches the memory of the others", n);
    return true;
}

static enum forge_status try_pairs(struct forge_device *d, void **modules, const struct forge_program *model, bool reach,
                                   struct forge_error *error)
{
    const uint32_t n = program_ranks(model);
    for (uint32_t r = 0; r < n; r++) {
        TRY(device_current(&d[r], error));
        TRY(device_module(&d[r], &modules[r], program_of_rank(model, r)->gpu->code, error));
    }
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < n; k++)
            if (i != k) TRY(gpu_probe_pair(&d[i], modules[i], &d[k], modules[k], !reach, error));
    return FORGE_OK;
}

/* Checks that each GPU reads correctly what the kernels of each other GPU store. */
static enum forge_status check_pairs(struct forge_device *d, const struct forge_program *model, bool reach, struct forge_error *error)
{
    void *modules[FORGE_GPU_MAX_RANKS] = { NULL };
    const uint32_t n = program_ranks(model);
    if (n < 2 || !model->gpu->probe) return FORGE_OK;
    const enum forge_status status = try_pairs(d, modules, model, reach, error);
    for (uint32_t r = 0; r < n; r++)
        if (device_current(&d[r], NULL) == FORGE_OK) device_module_free(&d[r], modules[r]);
    if (status != FORGE_OK) return failed("passing", status, error);
    check_line(CHECK_OK, "passing", "the GPUs' kernels read the values that kernels of other GPUs store%s",
               reach ? "" : ", through the host's memory");
    return FORGE_OK;
}

/* Returns the first failure. */
static enum forge_status check_devices(struct forge_device *d, const struct forge_program *model, const struct forge_devices *devices,
                                       struct forge_error *error)
{
    const uint32_t n = program_ranks(model);
    uint64_t taken = 0;
    for (uint32_t rank = 0; rank < n; rank++) {
        const enum forge_status status = device_library(&d[rank], model->gpu->api, error);
        if (status != FORGE_OK) return failed("library", status, error);
        TRY(check_device(&d[rank], model, rank, devices, &taken, error));
    }
    const bool reach = check_access(d, n), plain = devices && devices->plain;
    enum forge_status first = FORGE_OK;
    for (uint32_t rank = 0; rank < n; rank++) {
        struct forge_error second = { "" };
        const enum forge_status status = check_room(&d[rank], model, program_of_rank(model, rank), plain,
                                                    first == FORGE_OK ? error : &second);
        if (first == FORGE_OK) first = status;
    }
    return first == FORGE_OK ? check_pairs(d, model, reach, error) : first;
}

/* Checks the GPU of this process if every process has one; then all processes meet. */
static enum forge_status check_process(struct forge_device *d, const struct forge_program *model, const struct forge_launcher *l,
                                       const struct forge_devices *devices, struct forge_error *error)
{
    uint64_t taken = 0;
    struct gpu *g = NULL;
    check_line(CHECK_OK, "processes", "%u, started by %s, a GPU each: this is number %u", l->n, l->name, l->rank);
    enum forge_status status = device_library(d, model->gpu->api, error);
    if (status != FORGE_OK) return failed("library", status, error);
    const struct forge_devices own = gpu_device_of_process(d, l, devices);
    TRY(check_device(d, model, l->rank, &own, &taken, error));
    status = check_room(d, model, program_of_rank(model, l->rank), true, error);
    device_close(d);
    /* If something is missing here, the other processes are told. */
    struct forge_error met = { "" };
    const enum forge_status meeting = forge_gpu_runtime.open(&g, model, devices, status == FORGE_OK ? error : &met);
    if (meeting == FORGE_OK) check_line(CHECK_OK, "meeting", "by %s at %s: %s", gpu_machines_library(g), gpu_machines_place(g),
                                        g->names ? g->names : g->device.label);
    else if (status == FORGE_OK) failed("meeting", meeting, error);
    forge_gpu_runtime.close(g);
    return status == FORGE_OK ? meeting : status;
}

static enum forge_status check_processes(const struct forge_program *model, const struct forge_launcher *l,
                                         const struct forge_devices *devices, struct forge_error *error)
{
    struct forge_device d = { .library = NULL };
    enum forge_status status = gpu_check_processes(model, l, devices, error);
    if (status != FORGE_OK) return failed("processes", status, error);
    status = check_process(&d, model, l, devices, error);
    device_close(&d);
    return status;
}

enum forge_status gpu_check(const struct forge_program *model, const struct forge_devices *devices, struct forge_error *error)
{
    const uint32_t n = program_ranks(model);
    struct forge_launcher launcher = { .n = 1 };
    enum forge_status status = gpu_check_ranks(model, error);
    if (status != FORGE_OK) return failed("program", status, error);
    if (n > 1) TRY(launcher_find(&launcher, error));
    if (launcher.n > 1) return check_processes(model, &launcher, devices, error);
    TRY(gpu_check_devices(model, devices, error));
    struct forge_device *d = calloc(n, sizeof *d);
    if (!d) return error_set(error, FORGE_NO_MEMORY, "out of memory for the list of GPUs");
    status = check_devices(d, model, devices, error);
    for (uint32_t rank = n; rank-- > 0;)
        if (!d[rank].stream || n == 1 || device_current(&d[rank], NULL) == FORGE_OK) device_close(&d[rank]);
    free(d);
    return status;
}
