/* machine_driver.c -- runs test kernels on a GPU or on the simulator of AMD's chips, with the runtime's table of driver functions
 * (runtime/device/device.h).  Every room has a copy on the device between guard bytes: all rooms are copied there before a launch and back
 * after it. */
#include "machine.h"
#include "runtime/device/device.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BESIDE = 256 };                           /* guard bytes on both sides of a room */
static struct forge_device device;
static void *module;
static bool simulated;                           /* the simulator checks the ends of memory itself */

static void need(enum forge_status status, const struct forge_error *error, const char *what)
{
    if (status == FORGE_OK) return;
    fprintf(stderr, "%s: %s\n", what, error->text);
    exit(1);
}

static uint8_t *code_read(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END)) { perror(path); exit(2); }
    const long bytes = ftell(f);
    uint8_t *code = calloc(1, (size_t)bytes + 1);
    rewind(f);
    if (!code || fread(code, 1, (size_t)bytes, f) != (size_t)bytes) { perror(path); exit(2); }
    fclose(f);
    return code;
}

bool machine_open(const char *arch, const char *code_path)
{
    struct forge_error error = { "" };
    if (!arch || !code_path) { fputs("--arch and --code, please: this program runs on a device\n", stderr); exit(2); }
    const bool cuda = !strncmp(arch, "sm_", 3);
    if (device_library(&device, cuda ? FORGE_GPU_CUDA : FORGE_GPU_HIP, &error) != FORGE_OK
        || device_select(&device, arch, DEVICE_ANY, NULL, &error) != FORGE_OK) {
        printf("skipped: %s\n", error.text);
        return false;
    }
    simulated = strstr(device.library_name, "gfxsim") != NULL;
    uint8_t *code = code_read(code_path);
    need(device_module(&device, &module, code, &error), &error, code_path);
    free(code);
    printf("%s, %s\n", device.name, device.version_text);
    return true;
}

static uint64_t beside(void) { return simulated ? 0 : BESIDE; }

void machine_room(struct room *r)
{
    struct forge_error error = { "" };
    need(device_alloc(&device, &r->device, r->size + 2 * beside(), r->name, &error), &error, r->name);
    if (beside()) need(device_clear(&device, r->device, r->size + 2 * beside(), &error), &error, r->name);
    r->at = (uint8_t *)r->device + beside();
}
void machine_room_free(const struct room *r) { device_free(&device, r->device); }

static void wait_for(const char *what)
{
    struct forge_error error = { "" };
    for (bool idle = false; !idle;) need(device_idle(&device, &idle, &error), &error, what);
}

/* device_clear() writes zeros. */
static void check_beside(const struct room *r)
{
    uint8_t bytes[2][BESIDE];
    struct forge_error error = { "" };
    need(device_download(&device, bytes[0], r->device, BESIDE, &error), &error, r->name);
    need(device_download(&device, bytes[1], (uint8_t *)r->at + r->size, BESIDE, &error), &error, r->name);
    wait_for(r->name);
    for (uint32_t i = 0; i < BESIDE; i++)
        if (bytes[0][i] || bytes[1][i]) { bad("bytes beside %s are written on the device", r->name); return; }
}

static void *function(const struct launch *l)
{
    struct forge_error error = { "" };
    void *f;
    need(device_function(&device, &f, module, l->kernel, l->lds_bytes, &error), &error, l->kernel);
    return f;
}

void machine_launch(const struct launch *l, const struct forge_kernel_args *args)
{
    struct forge_error error = { "" };
    uint32_t n;
    struct room *rooms = rooms_all(&n);
    for (uint32_t i = 0; i < n; i++)
        need(device_upload(&device, rooms[i].at, rooms[i].bytes, rooms[i].size, &error), &error, rooms[i].name);
    need(device_launch(&device, function(l), l->grid_x, l->grid_y, l->threads, l->lds_bytes, args, false, l->cluster, &error), &error,
         l->kernel);
    wait_for(l->kernel);
    for (uint32_t i = 0; i < n; i++)
        need(device_download(&device, rooms[i].bytes, rooms[i].at, rooms[i].size, &error), &error, rooms[i].name);
    wait_for(l->kernel);
    for (uint32_t i = 0; i < n && beside(); i++) check_beside(&rooms[i]);
}

double machine_us(const struct launch *l, const struct forge_kernel_args *args, uint32_t launches)
{
    enum { FIRST = 20 };
    struct forge_error error = { "" };
    void *begin, *end, *f = function(l);
    double seconds;
    uint32_t n;
    struct room *rooms = rooms_all(&n);
    for (uint32_t i = 0; i < n; i++)
        need(device_upload(&device, rooms[i].at, rooms[i].bytes, rooms[i].size, &error), &error, rooms[i].name);
    need(device_event(&device, &begin, &error), &error, "event");
    need(device_event(&device, &end, &error), &error, "event");
    for (uint32_t i = 0; i < FIRST + launches; i++) {
        if (i == FIRST) need(device_record(&device, begin, &error), &error, "event");
        need(device_launch(&device, f, l->grid_x, l->grid_y, l->threads, l->lds_bytes, args, false, l->cluster, &error), &error, l->kernel);
    }
    need(device_record(&device, end, &error), &error, "event");
    wait_for(l->kernel);
    need(device_seconds(&device, begin, end, &seconds, &error), &error, "event");
    device_event_free(&device, begin);
    device_event_free(&device, end);
    return seconds * 1e6 / launches;
}

bool machine_is_lanes(void) { return false; }
