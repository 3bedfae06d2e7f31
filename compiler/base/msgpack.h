/* msgpack.h -- reads MessagePack, the form of AMD's kernel metadata in an ELF note: a checked cursor, items one by one, and finding the
 * note.  Shared with the simulator, so it needs neither arena nor messages.
 * Sources: github.com/msgpack/msgpack/blob/master/spec.md; LLVM "User Guide for AMDGPU Backend", code object v3 and later. */
#ifndef FORGEC_MSGPACK_H
#define FORGEC_MSGPACK_H
#include <stdbool.h>
#include <stdint.h>

struct msgpack { const uint8_t *at, *end; bool failed; };

/* The kinds that the metadata uses; INT: non-negative. */
enum msgpack_kind { MSGPACK_OTHER, MSGPACK_BOOL, MSGPACK_INT, MSGPACK_STRING, MSGPACK_ARRAY, MSGPACK_MAP };
/* value: number, length, or count of elements or pairs */
struct msgpack_item { enum msgpack_kind kind; uint64_t value; const char *text; };

/* The next n bytes; NULL past the end, and the cursor then stays failed. */
const uint8_t *msgpack_bytes(struct msgpack *c, uint64_t n);
/* Reads the head of the next item, and its bytes too unless it is an array or a map. */
struct msgpack_item msgpack_next(struct msgpack *c);
/* Skips the contents of an item after its head; depth: nesting depth of the item. Fails if items nest 16 deep. */
void msgpack_skip(struct msgpack *c, struct msgpack_item item, uint32_t depth);
bool msgpack_is(struct msgpack_item item, const char *text);
/* Finds the metadata among the notes of a segment; the result is failed if there is no metadata. */
struct msgpack msgpack_metadata(struct msgpack notes);
#endif
