/* device.h -- one GPU through its driver.  HIP and CUDA differ in the names of their functions, which are opened by dlopen from the lists
 * hip.def and cuda.def; nothing of a vendor is needed to build.
 * All functions are called by one thread.  Work is put on one stream and runs in order; nothing here waits but alloc and load functions.
 * Memory handed to upload and download is pinned and stays untouched until the stream has passed. */
#ifndef FORGE_DEVICE_H
#define FORGE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/model/abi.h"
#include "runtime/run/status.h"

struct device_launch_config;

/* The driver's functions; 0 is success.  Addresses, streams, modules and so on are pointers or of their size in both APIs. */
struct driver {
    int (*init)(unsigned flags);
    int (*version)(int *version);
    int (*count)(int *n);
    int (*name)(char *name, int bytes, int device);
    int (*attribute)(int *value, int attribute, int device);
    int (*set_device)(int device);                                       /* HIP */
    int (*context_retain)(void **context, int device);                   /* CUDA */
    int (*context_release)(int device);                                  /* CUDA */
    int (*context_set)(void *context);                                   /* CUDA */
    int (*memory)(size_t *free, size_t *total);
    int (*alloc)(void **out, size_t bytes);
    int (*free)(void *address);
    int (*host_alloc)(void **out, size_t bytes, unsigned flags);
    int (*host_free)(void *host);
    int (*host_address)(void **address, void *host, unsigned flags);
    int (*clear)(void *address, unsigned char value, size_t bytes, void *stream);
    int (*upload)(void *to, const void *from, size_t bytes, void *stream);
    int (*download)(void *to, const void *from, size_t bytes, void *stream);
    int (*copy)(void *to, const void *from, size_t bytes, void *stream);
    int (*stream_create)(void **stream, unsigned flags);
    int (*stream_query)(void *stream);
    int (*stream_destroy)(void *stream);
    int (*event_create)(void **event, unsigned flags);
    int (*event_record)(void *event, void *stream);
    int (*event_query)(void *event);
    int (*event_elapsed)(float *milliseconds, void *from, void *to);
    int (*event_destroy)(void *event);
    int (*module_load)(void **module, const void *image);                /* HIP */
    int (*module_load_log)(void **module, const void *image, unsigned n, int *options, void **values);   /* CUDA */
    int (*module_unload)(void *module);
    int (*function)(void **function, void *module, const char *name);
    int (*function_set)(void *function, int attribute, int value);       /* CUDA */
    int (*function_get)(int *value, int attribute, void *function);      /* CUDA */
    int (*launch)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,
                  unsigned shared_bytes, void *stream, void **parameters, void **extra);
    int (*launch_with)(const struct device_launch_config *config, void *function, void **parameters, void **extra);   /* CUDA */
    int (*capture_begin)(void *stream, int mode);
    int (*capture_end)(void *stream, void **graph);
    int (*graph_make)(void **exec, void *graph, void **node, char *log, size_t log_bytes);                 /* HIP */
    int (*graph_make_flags)(void **exec, void *graph, unsigned long long flags);                          /* CUDA */
    int (*graph_launch)(void *exec, void *stream);
    int (*graph_destroy)(void *graph);
    int (*exec_destroy)(void *exec);
    const char *(*error_text)(int code);                                 /* HIP */
    int (*error_name)(int code, const char **name);                      /* CUDA */
    /* NULL where the library lacks them: only programs for several GPUs need them */
    int (*can_access)(int *yes, int device, int peer);
    int (*access_device)(int peer, unsigned flags);                      /* HIP */
    int (*access_context)(void *peer, unsigned flags);                   /* CUDA */
    int (*alloc_with)(void **out, size_t bytes, unsigned flags);         /* HIP */
};

struct forge_device {
    struct driver call;
    uint32_t api;                    /* enum forge_gpu_api */
    void    *library;                /* NULL: not open */
    bool     given;                  /* its functions came from device_functions: nothing is known of it but what they say */
    char     library_name[256], version_text[32];
    int      version_major;
    int      n_devices, index;       /* index: the one chosen, from 0 */
    char     name[128], arch[32];    /* arch "": the system does not say */
    char     label[144];             /* for messages: the name, with the number of the GPU where a program has several */
    uint64_t taken;                  /* bits of the GPUs that DEVICE_ANY passes by */
    char     pci[32];                /* "0000:c3:00.0", or "" */
    bool     integrated;             /* shares the memory of the CPU */
    void    *context, *stream;
};

/* Opens the driver's library and counts devices.  FORGE_NO_DEVICE says what is missing and how to get it. */
enum forge_status device_library(struct forge_device *device, uint32_t api, struct forge_error *error);
/* The same with functions that the caller finds: symbol(context, "hipInit"); NULL: it has none of that name. */
typedef void *device_symbol(void *context, const char *name);
enum forge_status device_functions(struct forge_device *device, uint32_t api, device_symbol *symbol, void *context,
                                   struct forge_error *error);
/* Takes device `number`, or with DEVICE_ANY the first one, of the architecture a program was built for: "gfx1151", "sm_90".
 * FORGE_NO_DEVICE: there is no such number.  FORGE_WRONG_GPU names what is there. */
enum { DEVICE_ANY = -1 };
enum forge_status device_select(struct forge_device *device, const char *arch, int number, struct forge_error *error);
/* Kernels of the device reach the memory of another one from now on; both are selected.  FORGE_WRONG_GPU: they cannot. */
enum forge_status device_reach(struct forge_device *device, const struct forge_device *other, struct forge_error *error);
/* Does the device run code built for arch? */
bool device_runs(const struct forge_device *device, const char *arch);
/* Describes device `number` without taking it: name and arch. */
void device_describe(struct forge_device *device, int number);
/* The calling thread works with this device from now on: drivers keep that per thread.  Only for those who call from more than one, or
 * for more than one device. */
enum forge_status device_current(struct forge_device *device, struct forge_error *error);
/* Gives the stream back; the library stays, drivers do not stand being unloaded. */
void device_close(struct forge_device *device);

/* A line of what the kernel tells about the device under /sys: false when there is no such file; as a number: 0. */
bool device_file(const struct forge_device *device, const char *name, char *out, size_t bytes);
uint64_t device_file_number(const struct forge_device *device, const char *name);

enum forge_status device_memory(struct forge_device *device, uint64_t *free, uint64_t *total, struct forge_error *error);
/* bytes > 0; what: for the message.  Address NULL is allowed in free functions. */
enum forge_status device_alloc(struct forge_device *device, void *out_address, uint64_t bytes, const char *what, struct forge_error *error);
/* Memory that kernels of other devices store into while kernels of this one read it. */
enum forge_status device_alloc_shared(struct forge_device *device, void *out_address, uint64_t bytes, const char *what,
                                      struct forge_error *error);
void device_free(struct forge_device *device, void *address);
/* Pinned memory of the host, seen by the device at *out_address; shared: and by all others, at the same address. */
enum forge_status device_host_alloc(struct forge_device *device, void *out_host, void *out_address, uint64_t bytes, const char *what,
                                    struct forge_error *error);
enum forge_status device_host_alloc_shared(struct forge_device *device, void *out_host, void *out_address, uint64_t bytes, const char *what,
                                           struct forge_error *error);
void device_host_free(struct forge_device *device, void *host);

enum forge_status device_clear(struct forge_device *device, void *address, uint64_t bytes, struct forge_error *error);
enum forge_status device_upload(struct forge_device *device, void *to, const void *from, uint64_t bytes, struct forge_error *error);
enum forge_status device_download(struct forge_device *device, void *to, const void *from, uint64_t bytes, struct forge_error *error);
enum forge_status device_copy(struct forge_device *device, void *to, const void *from, uint64_t bytes, struct forge_error *error);

/* *idle: all work on the stream has ended. */
enum forge_status device_idle(struct forge_device *device, bool *idle, struct forge_error *error);
enum forge_status device_event(struct forge_device *device, void **out, struct forge_error *error);
void device_event_free(struct forge_device *device, void *event);
enum forge_status device_record(struct forge_device *device, void *event, struct forge_error *error);
/* *passed: the stream has come to where the event was recorded last. */
enum forge_status device_passed(struct forge_device *device, void *event, bool *passed, struct forge_error *error);
enum forge_status device_seconds(struct forge_device *device, void *from, void *to, double *seconds, struct forge_error *error);

/* FORGE_WRONG_GPU: the driver finds nothing for this device in the code. */
enum forge_status device_module(struct forge_device *device, void **out, const uint8_t *code, struct forge_error *error);
void device_module_free(struct forge_device *device, void *module);
/* lds_bytes: of dynamic LDS that launches will ask for. */
enum forge_status device_function(struct forge_device *device, void **out, void *module, const char *name, uint32_t lds_bytes,
                                  struct forge_error *error);
/* Memory that the driver's compiler gave a thread of the kernel for registers it had no room for: CUDA; 0 of HIP, whose code forgec has
 * looked at. */
enum forge_status device_spills(struct forge_device *device, void *function, uint32_t *bytes, struct forge_error *error);
/* dependent: the kernel may begin before the one before it has ended, and waits by itself; cluster: groups that run together, 0 or 1: none
 * (CUDA only). */
enum forge_status device_launch(struct forge_device *device, void *function, uint32_t grid_x, uint32_t grid_y, uint32_t threads,
                                uint32_t lds_bytes,
                                const struct forge_kernel_args *args, bool dependent, uint32_t cluster, struct forge_error *error);

/* What is put on the stream between the two is not run but becomes a graph. */
enum forge_status device_capture_begin(struct forge_device *device, struct forge_error *error);
enum forge_status device_capture_end(struct forge_device *device, void **out_exec, struct forge_error *error);
enum forge_status device_graph_launch(struct forge_device *device, void *exec, struct forge_error *error);
void device_graph_free(struct forge_device *device, void *exec);

/* The gfx name of the AMD device at domain:bus:device, from the kernel's topology (directory: /sys/class/kfd/kfd/topology/nodes); "" when
 * there is no such node. */
void device_gfx_at(char *out, size_t bytes, const char *directory, uint32_t domain, uint32_t bus, uint32_t slot);

#endif
