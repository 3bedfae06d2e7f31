/* device.h -- one GPU through its driver.  HIP and CUDA differ in the names of their functions, which are listed in hip.def and cuda.def
 * and loaded by dlopen.  Nothing from a vendor is needed to build this.
 * One thread calls all functions.  Work is put on one stream and runs in order.  Only alloc and load functions wait.  Memory that is
 * passed to upload and download is pinned, and must stay untouched until the stream has passed the copy. */
#ifndef FORGE_DEVICE_H
#define FORGE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/model/abi.h"
#include "runtime/run/status.h"

struct device_launch_config;

/* The driver's functions; 0 is success.  Addresses, streams, modules etc. are pointers, or have the size of pointers, in both APIs. */
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
    /* NULL if the library lacks them; only programs for several GPUs need them */
    int (*can_access)(int *yes, int device, int peer);
    int (*access_device)(int peer, unsigned flags);                      /* HIP */
    int (*access_context)(void *peer, unsigned flags);                   /* CUDA */
    int (*alloc_with)(void **out, size_t bytes, unsigned flags);         /* HIP */
    /* HIP; NULL if the library lacks them: struct of properties as in ROCm 6, and as before */
    int (*properties)(void *out, int device);
    int (*properties_old)(void *out, int device);
};

struct forge_device {
    struct driver call;
    uint32_t api;                    /* enum forge_gpu_api */
    void    *library;                /* NULL: not open */
    bool     given;                  /* its functions came from device_functions, so only these functions can tell anything about it */
    char     library_name[256], version_text[32];
    int      version, version_major, version_minor;      /* version: as the driver reports it */
    int      n_devices, index;       /* index: the selected device, from 0 */
    char     name[128], arch[32];    /* arch "": the system does not report it */
    char     label[144];             /* for messages: the name; if the program has several GPUs, with the GPU's number */
    uint64_t taken;                  /* bit i: DEVICE_ANY skips GPU i */
    char     pci[32];                /* "0000:c3:00.0", or "" */
    bool     integrated;             /* shares the CPU's memory */
    bool     host_limits;            /* device_memory: the device could have more memory, but the system has no more to give */
    void    *context, *stream;
    void    *captures, *runs;        /* captures: the stream on which graphs are captured; during a capture it is `stream`, and runs is
                                      * the normal stream; else NULL */
};

/* Opens the driver's library and counts devices.  FORGE_NO_DEVICE says what is missing and how to get it. */
enum forge_status device_library(struct forge_device *device, uint32_t api, struct forge_error *error);
/* The same with functions that the caller looks up: symbol(context, "hipInit"); NULL: there is no function with this name. */
typedef void *device_symbol(void *context, const char *name);
enum forge_status device_functions(struct forge_device *device, uint32_t api, device_symbol *symbol, void *context,
                                   struct forge_error *error);
/* Selects device `number`, or with DEVICE_ANY the first device of the architecture that the program was built for: "gfx1151", "sm_90".
 * code: the program's code, or NULL.  If the system does not report the architectures of several devices, the first one that loads the code
 * is selected.
 * FORGE_NO_DEVICE: there is no device with this number.  FORGE_WRONG_GPU names the devices that exist. */
enum { DEVICE_ANY = -1 };
enum forge_status device_select(struct forge_device *device, const char *arch, int number, const uint8_t *code, struct forge_error *error);
/* From now on kernels of `device` can access the memory of `other`; both are selected.  FORGE_WRONG_GPU: they cannot. */
enum forge_status device_reach(struct forge_device *device, const struct forge_device *other, struct forge_error *error);
/* Can the device run code built for arch? */
bool device_runs(const struct forge_device *device, const char *arch);
/* Sets name and arch of device `number` without selecting it. */
void device_describe(struct forge_device *device, int number);
/* From now on the calling thread works with this device; drivers keep this per thread.  Needed only by callers that use several threads
 * or several devices. */
enum forge_status device_current(struct forge_device *device, struct forge_error *error);
/* Releases the stream.  The library stays loaded, because drivers cannot be unloaded safely. */
void device_close(struct forge_device *device);

/* Reads a line of the kernel's file about the device under /sys.  False: there is no such file.  As a number: 0 then. */
bool device_file(const struct forge_device *device, const char *name, char *out, size_t bytes);
uint64_t device_file_number(const struct forge_device *device, const char *name);

enum forge_status device_memory(struct forge_device *device, uint64_t *free, uint64_t *total, struct forge_error *error);
/* bytes > 0; what: for the message.  The free functions allow NULL as address. */
enum forge_status device_alloc(struct forge_device *device, void *out_address, uint64_t bytes, const char *what, struct forge_error *error);
/* Memory into which kernels of other devices store while kernels of this one read it. */
enum forge_status device_alloc_shared(struct forge_device *device, void *out_address, uint64_t bytes, const char *what,
                                      struct forge_error *error);
void device_free(struct forge_device *device, void *address);
/* Pinned host memory, which the device sees at *out_address.  shared: all other devices see it at the same address. */
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
/* *passed: the stream has reached the place where the event was last recorded. */
enum forge_status device_passed(struct forge_device *device, void *event, bool *passed, struct forge_error *error);
enum forge_status device_seconds(struct forge_device *device, void *from, void *to, double *seconds, struct forge_error *error);

/* FORGE_WRONG_GPU: the driver finds nothing in the code for this device. */
enum forge_status device_module(struct forge_device *device, void **out, const uint8_t *code, struct forge_error *error);
void device_module_free(struct forge_device *device, void *module);
/* lds_bytes: dynamic LDS that launches will request. */
enum forge_status device_function(struct forge_device *device, void **out, void *module, const char *name, uint32_t lds_bytes,
                                  struct forge_error *error);
/* Sets *bytes to the spill memory of a thread: registers that the driver's compiler had to keep in memory.  CUDA only; for HIP it is 0,
 * because forgec has checked that code. */
enum forge_status device_spills(struct forge_device *device, void *function, uint32_t *bytes, struct forge_error *error);
/* dependent: the kernel may begin before the previous one has ended, and waits by itself.  cluster: workgroups that run together; 0 or
 * 1: none (CUDA only). */
enum forge_status device_launch(struct forge_device *device, void *function, uint32_t grid_x, uint32_t grid_y, uint32_t threads,
                                uint32_t lds_bytes,
                                const struct forge_kernel_args *args, bool dependent, uint32_t cluster, struct forge_error *error);

/* Launches between begin and end are not run but recorded into a graph; drop discards them.  After a failure *out_exec is NULL and the
 * stream is as it was before. */
enum forge_status device_capture_begin(struct forge_device *device, struct forge_error *error);
enum forge_status device_capture_end(struct forge_device *device, void **out_exec, struct forge_error *error);
void device_capture_drop(struct forge_device *device);
enum forge_status device_graph_launch(struct forge_device *device, void *exec, struct forge_error *error);
void device_graph_free(struct forge_device *device, void *exec);

/* Writes the gfx name of the AMD device at domain:bus:device from the kernel's topology (directory: /sys/class/kfd/kfd/topology/nodes);
 * "" if there is no such node. */
void device_gfx_at(char *out, size_t bytes, const char *directory, uint32_t domain, uint32_t bus, uint32_t slot);

#endif
