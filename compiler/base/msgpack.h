/* msgpack.h -- AMD's kernel metadata is MessagePack in an ELF note: a checked cursor, items one by one, and where the note lies.
 * Shared with simulator: needs neither arena nor messages.
 * Sources: github.com/msgpack/msgpack/blob/master/spec.md; LLVM "User Guide for AMDGPU Backend", code object v3 and later. */
#ifndef FORGEC_MSGPACK_H
#define FORGEC_MSGPACK_H
#include <stdbool.h>
#include <stdint.h>

struct msgpack { const uint8_t *at, *end; bool failed; };

/* As far as the metadata uses it; INT: not negative. */
enum msgpack_kind { MSGPACK_OTHER, MSGPACK_BOOL, MSGPACK_INT, MSGPACK_STRING, MSGPACK_ARRAY, MSGPACK_MAP };
/* value: number, length, or count of elements or pairs */
struct msgpack_item { enum msgpack_kind kind; uint64_t value; const char *text; };

/* The next n bytes; NULL past the end, and the cursor stays failed. */
const uint8_t *msgpack_bytes(struct msgpack *c, uint64_t n);
/* The head of the next item, with its bytes if it is no array or map. */
struct msgpack_item msgpack_next(struct msgpack *c);
/* Passes over what an item's head promises; depth: how deep the item lies.  Fails where items nest 16 deep. */
void msgpack_skip(struct msgpack *c, struct msgpack_item item, uint32_t depth);
bool msgpack_is(struct msgpack_item item, const char *text);
/* The metadata among the notes of a segment; failed when there is none. */
struct msgpack msgpack_metadata(struct msgpack notes);
#endif
