/* machines.h -- processes that share a model, with one GPU each, on one machine or several.  A launcher starts them (launcher.h).  All data
 * between them goes through NCCL or RCCL, opened by dlopen, on the stream of the device.
 *
 * The process of rank 0 leads.  There is one communicator, which is used on one stream: every process puts the same calls on its stream
 * in the same order, both for messages of the leader and for data that all processes pass on.  So no call waits for a call that comes
 * later in another process.  While a following process waits for a message, its stream has nothing else to do: a driver call that waits
 * for the whole device, to load or to free something, cannot be blocked by it. */
#ifndef FORGE_MACHINES_H
#define FORGE_MACHINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device.h"
#include "launcher.h"

struct machines;

/* Finds the library and the meeting place.  FORGE_NO_DEVICE: no library; FORGE_USAGE: the processes were not told where to meet. */
enum forge_status machines_open(struct machines **out, uint32_t api, const struct forge_launcher *launcher, struct forge_error *error);
/* "NCCL 2.27.5", and HOST:PORT. */
const char *machines_library(const struct machines *m);
const char *machines_place(const struct machines *m);
uint32_t machines_rank(const struct machines *m);
uint32_t machines_count(const struct machines *m);

/* All processes meet.  Each has selected its device, which m uses until machines_close.  message_bytes: the longest message.
 * FORGE_DEVICE_FAULT: not all processes came within MEET_SECONDS, or the library refused. */
enum forge_status machines_meet(struct machines *m, struct forge_device *device, uint64_t message_bytes, struct forge_error *error);
/* lost: the work on the stream may never end, so nothing is released; the others notice when the process ends. */
void machines_close(struct machines *m, bool lost);                      /* NULL is allowed */

uint64_t machines_bytes(const struct machines *m);                       /* of the longest message */
/* Gets the pinned memory that messages are written to and read from, [message_bytes], once it is free for the next message. */
enum forge_status machines_message(struct machines *m, uint8_t **out, struct forge_error *error);
/* Sends the leader's message to all others, which receive it in their message memory.  Waits without limit. */
enum forge_status machines_send(struct machines *m, uint64_t bytes, struct forge_error *error);
enum forge_status machines_receive(struct machines *m, struct forge_error *error);
/* Each follower sends `bytes` bytes from the beginning of its message memory; the leader gets them at rank * bytes and waits for them.
 * seconds: the longest wait; 0: no limit. */
enum forge_status machines_gather(struct machines *m, uint64_t bytes, double seconds, struct forge_error *error);
/* Process `from` sends bytes of its device to the message memory of the leader. */
enum forge_status machines_fetch(struct machines *m, uint32_t from, const uint8_t *device, uint64_t bytes, struct forge_error *error);

/* Sends `bytes` bytes at `from`, on the device, to process `with`, and receives as many at `to`.  NULL: sends, or receives, nothing.
 * Does not wait. */
struct machines_part { uint32_t with; const uint8_t *from; uint8_t *to; uint64_t bytes; };
enum forge_status machines_transfer(struct machines *m, const struct machines_part *parts, uint32_t n, struct forge_error *error);
/* Has the library noticed that other processes are gone?  Then FORGE_DEVICE_FAULT. */
enum forge_status machines_ask(struct machines *m, struct forge_error *error);

#endif
