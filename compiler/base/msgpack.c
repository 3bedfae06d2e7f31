/* msgpack.c -- a checked reader of MessagePack, and of the ELF notes that contain it. */
#include "msgpack.h"
#include <elf.h>
#include <string.h>

enum { NOTE_METADATA = 32, NEST_MAX = 16 };      /* note type, LLVM's AMDGPUUsage */

const uint8_t *msgpack_bytes(struct msgpack *c, uint64_t n)
{
    if (c->failed || n > (uint64_t)(c->end - c->at)) {
        c->failed = true;
        return NULL;
    }
    const uint8_t *bytes = c->at;
    c->at += n;
    return bytes;
}

static uint64_t take_big_endian(struct msgpack *c, uint32_t n)
{
    const uint8_t *bytes = msgpack_bytes(c, n);
    uint64_t       value = 0;
    for (uint32_t i = 0; bytes && i < n; i++) value = value << 8 | bytes[i];
    return value;
}

static struct msgpack_item take_string(struct msgpack *c, uint64_t size)
{
    return (struct msgpack_item){ MSGPACK_STRING, size, (const char *)msgpack_bytes(c, size) };
}

static struct msgpack_item take_other(struct msgpack *c, uint64_t size)
{
    msgpack_bytes(c, size);
    return (struct msgpack_item){ .kind = MSGPACK_OTHER };
}

struct msgpack_item msgpack_next(struct msgpack *c)
{
    const uint8_t *head = msgpack_bytes(c, 1);
    if (!head) return take_other(c, 0);
    const uint8_t h = *head;
    if (h < 0x80) return (struct msgpack_item){ .kind = MSGPACK_INT, .value = h };
    if (h < 0x90) return (struct msgpack_item){ .kind = MSGPACK_MAP, .value = h & 15 };
    if (h < 0xa0) return (struct msgpack_item){ .kind = MSGPACK_ARRAY, .value = h & 15 };
    if (h < 0xc0) return take_string(c, h & 31);
    if (h >= 0xe0) return take_other(c, 0);                                                                   /* negative */
    switch (h) {
    case 0xc0: return take_other(c, 0);                                                                       /* nil */
    case 0xc2: case 0xc3: return (struct msgpack_item){ .kind = MSGPACK_BOOL, .value = h & 1 };
    case 0xc4: case 0xc5: case 0xc6: return take_other(c, take_big_endian(c, 1u << (h - 0xc4)));              /* bytes */
    case 0xc7: case 0xc8: case 0xc9: return take_other(c, take_big_endian(c, 1u << (h - 0xc7)) + 1);          /* typed bytes */
    case 0xca: case 0xcb: return take_other(c, h == 0xca ? 4 : 8);                                            /* floats */
    case 0xcc: case 0xcd: case 0xce: case 0xcf: return (struct msgpack_item){ .kind = MSGPACK_INT,
        .value = take_big_endian(c, 1u << (h - 0xcc)) };
    case 0xd0: case 0xd1: case 0xd2: case 0xd3: return take_other(c, 1u << (h - 0xd0));                       /* signed */
    case 0xd4: case 0xd5: case 0xd6: case 0xd7: case 0xd8: return take_other(c, (1u << (h - 0xd4)) + 1u);     /* typed bytes */
    case 0xd9: case 0xda: case 0xdb: return take_string(c, take_big_endian(c, 1u << (h - 0xd9)));
    case 0xdc: case 0xdd: return (struct msgpack_item){ .kind = MSGPACK_ARRAY, .value = take_big_endian(c, h == 0xdc ? 2 : 4) };
    case 0xde: case 0xdf: return (struct msgpack_item){ .kind = MSGPACK_MAP, .value = take_big_endian(c, h == 0xde ? 2 : 4) };
    default:
        c->failed = true;
        return take_other(c, 0);
    }
}

/* Every element has at least one byte, so a wrong count fails at the end of the note. */
void msgpack_skip(struct msgpack *c, struct msgpack_item item, uint32_t depth)
{
    if (item.kind != MSGPACK_ARRAY && item.kind != MSGPACK_MAP) return;
    if (depth == NEST_MAX) c->failed = true;
    const uint64_t n = item.kind == MSGPACK_MAP ? 2 * item.value : item.value;
    for (uint64_t i = 0; i < n && !c->failed; i++) msgpack_skip(c, msgpack_next(c), depth + 1);
}

bool msgpack_is(struct msgpack_item item, const char *text)
{
    return item.kind == MSGPACK_STRING && item.text && item.value == strlen(text) && !memcmp(item.text, text, item.value);
}

struct msgpack msgpack_metadata(struct msgpack c)
{
    for (Elf64_Nhdr note; !c.failed; ) {
        const uint8_t *head = msgpack_bytes(&c, sizeof note);
        if (!head) break;
        memcpy(&note, head, sizeof note);
        const uint8_t *name = msgpack_bytes(&c, ((uint64_t)note.n_namesz + 3) & ~3ull);
        const uint8_t *data = msgpack_bytes(&c, note.n_descsz);
        if (data && note.n_type == NOTE_METADATA && note.n_namesz == 7 && !memcmp(name, "AMDGPU", 7))
            return (struct msgpack){ .at = data, .end = data + note.n_descsz };
        msgpack_bytes(&c, -(uint64_t)note.n_descsz & 3);
    }
    return (struct msgpack){ .failed = true };
}
