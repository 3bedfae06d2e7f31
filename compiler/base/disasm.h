/* disasm.h -- LLVM's disassembler of AMD's machine code through its C interface (llvm-c/Disassembler.h), opened at run time: no header, no
 * library at build time.  clang brings the library.  For the simulator, too: no other header of forgec. */
#ifndef FORGEC_DISASM_H
#define FORGEC_DISASM_H
#include <stddef.h>
#include <stdint.h>

/* cpu: "gfx1151".  NULL with *why: there is no such libLLVM, or it does not know the chip. */
void  *disasm_open(const char *cpu, const char **why);
/* The text of the instruction at code, one blank between words, "" when there is none; returns its bytes, 0: invalid. */
size_t disasm_inst(void *disasm, const uint8_t *code, size_t bytes, uint64_t pc, char *text, size_t text_bytes);
void   disasm_close(void *disasm);
#endif
