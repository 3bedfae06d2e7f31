/* machines.h -- processes that share a model, a GPU each, on one machine or several.  A launcher starts them (launcher.h); all that passes
 * between them goes through NCCL or RCCL, opened by dlopen, on the stream of the device.
 *
 * The process of rank 0 leads.  There is one communicator, and it is used on one stream: of what the leading one sends and of what all of
 * them exchange, every process puts the same calls on its stream in the same order.  So no call waits for one that lies behind it
 * elsewhere.  A process that follows has nothing on its stream but a message that it waits for, until it has come: a driver that waits for
 * the whole device, to load or to free something, cannot be held up by it. */
#ifndef FORGE_MACHINES_H
#define FORGE_MACHINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device.h"
#include "launcher.h"

struct machines;

/* Finds the library and the place to meet at.  FORGE_NO_DEVICE: no library; FORGE_USAGE: nobody has said where the processes meet. */
enum forge_status machines_open(struct machines **out, uint32_t api, const struct forge_launcher *launcher, struct forge_error *error);
/* "NCCL 2.27.5", and HOST:PORT. */
const char *machines_library(const struct machines *m);
const char *machines_place(const struct machines *m);
uint32_t machines_rank(const struct machines *m);
uint32_t machines_count(const struct machines *m);

/* All processes meet, each with a device that is selected and is used by m until machines_close.  message_bytes: of the longest message.
 * FORGE_DEVICE_FAULT: not all of them came within MEET_SECONDS, or the library says no. */
enum forge_status machines_meet(struct machines *m, struct forge_device *device, uint64_t message_bytes, struct forge_error *error);
/* lost: what is on the stream may never end: all is left to the end of the process, which the others see. */
void machines_close(struct machines *m, bool lost);                      /* NULL is allowed */

uint64_t machines_bytes(const struct machines *m);                       /* of the longest message */
/* The memory that messages are written to and read from, pinned: [message_bytes], free for the next message. */
enum forge_status machines_message(struct machines *m, uint8_t **out, struct forge_error *error);
/* The leading one's message to all others; what comes is in the memory of messages.  Waits as long as it takes. */
enum forge_status machines_send(struct machines *m, uint64_t bytes, struct forge_error *error);
enum forge_status machines_receive(struct machines *m, struct forge_error *error);
/* Each of the others sends as many bytes from the beginning of the memory of messages; the leading one has them at rank * bytes.  There it
 * waits, at most so many seconds, 0: as long as it takes. */
enum forge_status machines_gather(struct machines *m, uint64_t bytes, double seconds, struct forge_error *error);
/* One of the others sends bytes of its device, to the memory of messages of the leading one. */
enum forge_status machines_fetch(struct machines *m, uint32_t from, const uint8_t *device, uint64_t bytes, struct forge_error *error);

/* Bytes at `from`, on the device, go to another process, and as many come from it to `to`; NULL: none go, or come.  Does not wait. */
struct machines_part { uint32_t with; const uint8_t *from; uint8_t *to; uint64_t bytes; };
enum forge_status machines_exchange(struct machines *m, const struct machines_part *parts, uint32_t n, struct forge_error *error);
/* Has the library seen that others are gone?  FORGE_DEVICE_FAULT. */
enum forge_status machines_ask(struct machines *m, struct forge_error *error);

#endif
