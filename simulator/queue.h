/* queue.h -- the work that hip.c puts on streams and queue.c does. */
#ifndef GFXSIM_QUEUE_H
#define GFXSIM_QUEUE_H
#include "gfxsim.h"

/* hip_runtime_api.h, ROCm 5.0 to 7. */
enum { INVALID = 1, NO_MEMORY = 2, NO_DEVICE = 100, BAD_DEVICE = 101, NO_BINARY = 209, NO_PEERS = 217, NOT_FOUND = 500, NOT_READY = 600,
       PEERS_ALREADY = 704, LAUNCH_FAILURE = 719 };

/* kernarg: in device memory; a device runs one launch at a time. */
struct function { const struct kernel *kernel; uint8_t *kernarg; uint32_t device; };
/* pending: records that are not done; seq: number of the last one on its device. */
struct event { struct stream *stream; double time; uint32_t pending, device, seq; };
enum kind { UPLOAD, DOWNLOAD, COPY, CLEAR, LAUNCH, RECORD, FREE };
struct op {
    enum kind kind;
    uint8_t  *to; const uint8_t *from; size_t n; uint8_t value;
    const struct function *function; uint32_t grid[3], threads[3], lds; uint8_t *args;       /* args: [explicit_bytes] of the kernel */
    struct event *event;
    bool    *found;                              /* FREE: whether the memory existed */
    /* with several chips */
    struct stream *stream;
    uint32_t seq, known[MAX_CHIPS];              /* as in struct launch */
};
struct list { struct op *op; size_t n, capacity; };
struct stream {
    struct list waiting, *capture;               /* waiting: FORGE_GFXSIM_DEFER */
    struct stream *next;
    uint32_t device;
    uint32_t left, seq;                          /* with several chips: operations not done yet; number of the last one */
};

/* ---- the chips ---- */
const struct chip *chips_wanted(uint32_t device);          /* NULL: any chip for which there is code */
bool     chips_peers(void);                      /* chips can reach each other's memory */
/* Returns 0, or the error of HIP. */
int      chips_open_peer(uint32_t device, uint32_t peer);

/* ---- work ---- */
int    queue_failure(void);                      /* 0, or the error that every call returns from now on */
struct stream *queue_stream(void *stream);       /* NULL: the default stream of the current device */
void   queue_add_stream(struct stream *s);
void   queue_remove_stream(struct stream *s);    /* after its work is done */
void   queue_record(struct event *e, struct stream *s);    /* its record is put on the stream next */
int    queue_put(struct stream *s, const struct op *op);   /* into the graph that is captured, or onto the stream */
void   queue_put_now(struct stream *s, const struct op *op);           /* waits until it is done */
bool   queue_done(struct stream *s);             /* all its work is done; starts or does deferred work */
bool   queue_passed(struct event *e);
bool   queue_free(void *address);                /* after all work of the current device; false: no allocation begins there */
void   queue_finish(struct stream *s);           /* waits for the stream's work */
void   queue_finish_device(void);                /* waits for all work of the current device */
void   queue_finish_all(void);                   /* the same for all devices */
void   list_push(struct list *l, const struct op *op);     /* copies the arguments */
int    list_free(struct list *l);
#endif
