/* target_here.c -- this machine: whether a program for a target runs here, and which target fits its GPU. */
#include "target.h"
#include "runtime/device/cpu_features.h"
#include "runtime/device/driver_library.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *target_host_machine(void)
{
#if defined(__x86_64__)
    return "x86_64";
#elif defined(__aarch64__)
    return "aarch64";
#else
    return "unknown";
#endif
}

/* Names of the AMD GPUs that the kernel driver lists, "gfx1100, gfx1036"; sets *found if arch is among them. root: "", or a directory used
 * instead of /. gfx_target_version: 10000 major + 100 minor + stepping (Linux, amdkfd); minor and stepping are hexadecimal digits in the
 * name. */
static const char *amd_gpus(struct arena *a, const char *root, const char *arch, bool *found)
{
    const char *folder = arena_printf(a, "%s/sys/class/kfd/kfd/topology/nodes", root);
    struct text names = { .arena = a };
    DIR *nodes = opendir(folder);
    for (struct dirent *entry; nodes && (entry = readdir(nodes)); ) {
        FILE *f = fopen(arena_printf(a, "%s/%s/properties", folder, entry->d_name), "r");
        char  line[256];
        for (unsigned version; f && fgets(line, sizeof line, f); ) {
            if (sscanf(line, "gfx_target_version %u", &version) != 1 || !version) continue;      /* 0: a CPU */
            const char *name = arena_printf(a, "gfx%u%x%x", version / 10000, version / 100 % 100, version % 100);
            *found |= !strcmp(name, arch);
            text_printf(&names, "%s%s", names.size ? ", " : "", name);
        }
        if (f) fclose(f);
    }
    if (nodes) closedir(nodes);
    return text_str(&names);
}

/* A library named in the environment replaces the driver and its device. NULL: it can be opened; "": none is named; else the reason why it
 * cannot be opened. */
static const char *named_library(struct arena *a, enum driver_library which)
{
    char file[PATH_MAX], why[300];
    const char *name = getenv(driver_override(which));
    return !name || !*name ? "" : driver_open(which, file, sizeof file, why, sizeof why) ? NULL
        : arena_printf(a, "%s: %s cannot be opened", driver_override(which), printable(a, name, strlen(name)));
}

/* NULL, or the reason why the driver's library cannot be opened. */
static const char *no_library(struct arena *a, enum driver_library which)
{
    char file[PATH_MAX], why[300];
    if (driver_open(which, file, sizeof file, why, sizeof why)) return NULL;
    return *why ? arena_printf(a, "the driver's library cannot be loaded: %s", printable(a, why, strlen(why))) : driver_missing(which);
}

static const char *amd_unsupported(struct arena *a, const struct target *p)
{
    const char *named = named_library(a, DRIVER_HIP);
    if (!named || *named) return named;
    if (access("/dev/kfd", F_OK)) return "no /dev/kfd: no AMD GPU, or its kernel driver amdgpu is not loaded";
    if (access("/dev/kfd", R_OK | W_OK)) return "/dev/kfd is not accessible: add the user to the group render";
    bool found = false;
    const char *gpus = amd_gpus(a, "", p->arch, &found);
    if (!found) return *gpus ? arena_printf(a, "the GPU is %s, the target %s", gpus, p->arch) : "the kernel driver amdgpu lists no GPU";
    return no_library(a, DRIVER_HIP);
}

static const char *nvidia_unsupported(struct arena *a)
{
    const char *named = named_library(a, DRIVER_CUDA);
    if (!named || *named) return named;
    if (access("/dev/nvidiactl", F_OK)) return "no /dev/nvidiactl: no NVIDIA GPU, or its driver is not loaded";
    return no_library(a, DRIVER_CUDA);
}

const char *target_unsupported_here(struct arena *a, const struct target *p)
{
    if (p->web) return arena_printf(a, "%s: a page or node runs it", p->kind == TARGET_WEBGPU ? "WebGPU" : "WebAssembly");
    if (p->bare) return "bare metal: forgec makes objects for it";
    if (strcmp(p->elf_machine, target_host_machine()) != 0)
        return arena_printf(a, "this machine is %s, the target %s", target_host_machine(), p->elf_machine);
    char missing[512];
    if (!cpu_has_all(p->features, missing, sizeof missing)) return arena_printf(a, "this CPU has no %s", missing);
    if (p->kind == TARGET_CPU) return NULL;
    if (!strcmp(p->api, "hip"))  return amd_unsupported(a, p);
    if (!strcmp(p->api, "cuda")) return nvidia_unsupported(a);
    const char *named = named_library(a, DRIVER_HIP);
    return named && !*named ? "FORGE_HIP_LIBRARY does not name the library that stands for a device" : named;
}

/* Reads a PCI id: 0x2330 from "0x2330\n"; 0: no such file. */
static uint32_t pci_number(struct arena *a, const char *folder, const char *device, const char *file)
{
    FILE *f = fopen(arena_printf(a, "%s/%s/%s", folder, device, file), "r");
    unsigned x = 0;
    if (f && fscanf(f, "%x", &x) != 1) x = 0;
    if (f) fclose(f);
    return x;
}

/* If KFD lists no GPU: the target of a PCI id (pci.ids). */
static const char *pci_target(uint32_t vendor, uint32_t device)
{
    static const struct { uint32_t vendor, device; const char *target; } table[] = {
        { 0x1002, 0x1586, "gfx1151" },                                                                    /* Strix Halo */
        { 0x1002, 0x744c, "gfx1100" }, { 0x1002, 0x7448, "gfx1100" }, { 0x1002, 0x745e, "gfx1100" },       /* Navi 31 */
        { 0x1002, 0x74a1, "gfx942" }, { 0x1002, 0x74a5, "gfx942" }, { 0x1002, 0x74b5, "gfx942" }, { 0x1002, 0x74b9, "gfx942" },
        { 0x10de, 0x2330, "sm_90a" }, { 0x10de, 0x2331, "sm_90a" }, { 0x10de, 0x2321, "sm_90a" }, { 0x10de, 0x2339, "sm_90a" },   /* H100 */
        { 0x10de, 0x2335, "sm_90a" }, { 0x10de, 0x233b, "sm_90a" },                                       /* H200 */
        { 0x10de, 0x2342, "sm_90a" }, { 0x10de, 0x2348, "sm_90a" },                                       /* GH200 */
        { 0x10de, 0x2901, "sm_90" }, { 0x10de, 0x2941, "sm_90" },                                         /* B200, GB200 */
    };
    for (size_t i = 0; i < COUNT_OF(table); i++) if (table[i].vendor == vendor && table[i].device == device) return table[i].target;
    return NULL;
}

const char *target_gpu_here(struct arena *a, const char *root)
{
    const char **names = target_names(a, NULL), *folder = arena_printf(a, "%s/sys/bus/pci/devices", root);
    for (size_t i = 0; names[i]; i++) {                     /* AMD targets have the names of their chips */
        bool found = false;
        amd_gpus(a, root, names[i], &found);
        if (found) return names[i];
    }
    DIR *devices = opendir(folder);
    const char *target = NULL;
    for (struct dirent *entry; devices && !target && (entry = readdir(devices)); )
        if (*entry->d_name != '.')
            target = pci_target(pci_number(a, folder, entry->d_name, "vendor"), pci_number(a, folder, entry->d_name, "device"));
    if (devices) closedir(devices);
    return target;
}

const char *target_no_executable(struct arena *a, const struct target *p)
{
    return p->bare && !p->web
        ? arena_printf(a,
        "target %s has no operating system that could start an executable; build an object for your firmware with --emit obj or lib",
        p->name) : NULL;
}
