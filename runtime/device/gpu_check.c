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
static void check_shared_memory(const struct forge_device *d, const struct forge_program *p)
{
    const double mib = 1.0 / 1048576, needed = (double)gpu_bytes_needed(p) * mib;
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

static void check_amd(const struct forge_device *d, const struct forge_program *p)
{
    const char *override = getenv("HSA_OVERRIDE_GFX_VERSION");
    if (override)
        check_line(CHECK_WARN, "override",
                   "HSA_OVERRIDE_GFX_VERSION=%.20s: the code is for one architecture exactly, on another it crashes", override);
    check_kernel(d);
    check_firmware(d);
    check_shared_memory(d, p);
}

static enum forge_status failed(const char *subject, enum forge_status status, const struct forge_error *error)
{
    check_line(CHECK_FAIL, subject, "%s", error->text);
    return status;
}

static enum forge_status check_open(struct forge_device *d, const struct forge_program *p, void **functions, struct forge_error *error)
{
    uint64_t free = 0, total = 0;
    void *module = NULL;
    const double mib = 1.0 / 1048576;
    const bool unknown = d->api == FORGE_GPU_HIP && d->version_major > NEWEST_HIP;
    check_line(unknown ? CHECK_WARN : CHECK_OK, "library", "%s, %s%s", d->library_name, d->version_text,
               unknown ? ": newer than any it was tried with" : "");

    enum forge_status status = device_select(d, p->gpu->arch, DEVICE_ANY, error);
    if (status != FORGE_OK) return failed("GPU", status, error);
    const bool other = d->arch[0] != 0 && strcmp(d->arch, p->gpu->arch) != 0;
    check_line(other ? CHECK_WARN : CHECK_OK, "GPU", "%d of %d: %s, %s%s%s%s", d->index + 1, d->n_devices, d->name,
               d->arch[0] != 0 ? d->arch : "architecture not told", other ? "; the program was built for " : "", other ? p->gpu->arch : "",
               other ? " and runs, tuned for that" : "");
    if (d->api == FORGE_GPU_HIP) check_amd(d, p);

    status = gpu_check_memory(d, p, error);
    if (status != FORGE_OK) failed("memory", status, error);
    else if (device_memory(d, &free, &total, NULL) == FORGE_OK)
        check_line(CHECK_OK, "memory", "%.0f MiB needed (weights %.0f, state %.0f, activations %.0f), %.0f of %.0f free",
                   (double)gpu_bytes_needed(p) * mib, (double)p->weights_bytes * mib, (double)p->state_bytes * mib,
                   (double)p->arena_bytes * mib, (double)free * mib, (double)total * mib);

    struct forge_error second = { "" };
    const enum forge_status loaded = gpu_load_code(d, p->gpu, &module, functions, status == FORGE_OK ? error : &second);
    if (loaded != FORGE_OK) failed("code", loaded, status == FORGE_OK ? error : &second);
    else check_line(CHECK_OK, "code", "%llu bytes, %u kernels, loaded", (unsigned long long)p->gpu->code_bytes, p->gpu->n_kernels);
    device_module_free(d, module);
    return status != FORGE_OK ? status : loaded;
}

enum forge_status gpu_check(const struct forge_program *p, struct forge_error *error)
{
    struct forge_device device;
    void **functions = calloc(p->gpu->n_kernels + 1u, sizeof *functions);
    if (!functions) return error_set(error, FORGE_NO_MEMORY, "out of memory");
    enum forge_status status = device_library(&device, p->gpu->api, error);
    if (status != FORGE_OK) failed("library", status, error);
    else status = check_open(&device, p, functions, error);
    device_close(&device);
    free(functions);
    return status;
}
