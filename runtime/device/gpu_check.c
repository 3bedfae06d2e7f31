/* gpu_check.c -- --check for a GPU: the steps of gpu_probe one by one, then what is known to go wrong with this machine's driver.
 * Lists of bad versions: reports of 2025 on gfx1151 (MES 0x83 faults: ROCm issue 5724; firmware of 2025-11-25 and kernels before 6.18.4:
 * the Strix Halo toolboxes' notes). */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

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

/* The bad release of linux-firmware as Debian, Ubuntu and Arch name their packages. */
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
    return bad;
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

/* What the GPU may take of the system's memory is a limit of the kernel, small by default. */
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

/* Of GPUs that share a model: "GPU 1: ". */
static const char *number_of(const struct forge_device *d, const struct forge_program *model, char *out, size_t bytes)
{
    *out = 0;
    if (program_ranks(model) > 1) snprintf(out, bytes, "GPU %d: ", d->index);
    return out;
}

static enum forge_status check_device(struct forge_device *d, const struct forge_program *model, uint32_t rank,
                                      const struct forge_devices *devices, uint64_t *taken, struct forge_error *error)
{
    const struct forge_program *p = program_of_rank(model, rank);
    const bool unknown = d->api == FORGE_GPU_HIP && d->version_major > NEWEST_HIP;
    if (rank == 0)
        check_line(unknown ? CHECK_WARN : CHECK_OK, "library", "%s, %s%s", d->library_name, d->version_text,
                   unknown ? ": newer than any it was tried with" : "");
    const enum forge_status status = gpu_select(d, model, rank, devices, taken, error);
    if (status != FORGE_OK) return failed("GPU", status, error);
    const bool other = d->arch[0] != 0 && strcmp(d->arch, p->gpu->arch) != 0;
    check_line(other ? CHECK_WARN : CHECK_OK, "GPU", "%d of %d: %s, %s%s%s%s", d->index + 1, d->n_devices, d->name,
               d->arch[0] != 0 ? d->arch : "architecture not told", other ? "; the program was built for " : "", other ? p->gpu->arch : "",
               other ? " and runs, tuned for that" : "");
    if (d->api == FORGE_GPU_HIP) check_amd(d, model, p);
    return FORGE_OK;
}

/* Memory and code of one GPU.  After the first failure lines go on. */
static enum forge_status check_room(struct forge_device *d, const struct forge_program *model, const struct forge_program *p,
                                    struct forge_error *error)
{
    uint64_t free_bytes = 0, total = 0;
    void *module = NULL, **functions = calloc(p->gpu->n_kernels + 1u, sizeof *functions);
    const double mib = 1.0 / 1048576;
    char number[24], exchange[48] = "";
    number_of(d, model, number, sizeof number);
    if (!functions) return error_set(error, FORGE_NO_MEMORY, "out of memory");
    if (gpu_exchange_bytes(p) > 0)
        snprintf(exchange, sizeof exchange, ", exchange %.0f", (double)gpu_exchange_bytes(p) * mib);
    enum forge_status status = device_current(d, error);
    if (status == FORGE_OK) status = gpu_check_memory(d, model, p, error);
    if (status != FORGE_OK) failed("memory", status, error);
    else if (device_memory(d, &free_bytes, &total, NULL) == FORGE_OK)
        check_line(CHECK_OK, "memory", "%s%.0f MiB needed (weights %.0f, state %.0f, activations %.0f%s), %.0f of %.0f free", number,
                   (double)gpu_bytes_needed(model, p) * mib, (double)p->weights_bytes * mib, (double)p->state_bytes * mib,
                   (double)p->arena_bytes * mib, exchange, (double)free_bytes * mib, (double)total * mib);

    struct forge_error second = { "" };
    const enum forge_status loaded = gpu_load_code(d, p->gpu, &module, functions, status == FORGE_OK ? error : &second);
    if (loaded != FORGE_OK) failed("code", loaded, status == FORGE_OK ? error : &second);
    else check_line(CHECK_OK, "code", "%s%llu bytes, %u kernels, loaded", number, (unsigned long long)p->gpu->code_bytes,
                    p->gpu->n_kernels);
    device_module_free(d, module);
    free(functions);
    return status != FORGE_OK ? status : loaded;
}

/* Between GPUs that share a model. */
static void check_access(struct forge_device *d, uint32_t n)
{
    struct forge_error why = { "" };
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < n; k++)
            if (i != k && !gpu_reaches(&d[i], &d[k], &why)) {
                check_line(CHECK_WARN, "access", "%s: values pass through the host's memory", why.text);
                return;
            }
    if (n > 1) check_line(CHECK_OK, "access", "each of the %u GPUs reaches the memory of the others", n);
}

/* Of the failures the first is the one that counts. */
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
    check_access(d, n);
    enum forge_status first = FORGE_OK;
    for (uint32_t rank = 0; rank < n; rank++) {
        struct forge_error second = { "" };
        const enum forge_status status = check_room(&d[rank], model, program_of_rank(model, rank), first == FORGE_OK ? error : &second);
        if (first == FORGE_OK) first = status;
    }
    return first;
}

/* The GPU of this process, where there is one for each; then all of them meet. */
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
    status = check_room(d, model, program_of_rank(model, l->rank), error);
    device_close(d);
    /* Where something is missing, the others hear of it. */
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
    if (!d) return error_set(error, FORGE_NO_MEMORY, "out of memory");
    status = check_devices(d, model, devices, error);
    for (uint32_t rank = n; rank-- > 0;)
        if (!d[rank].stream || n == 1 || device_current(&d[rank], NULL) == FORGE_OK) device_close(&d[rank]);
    free(d);
    return status;
}
