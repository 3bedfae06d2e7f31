/* disasm.h -- LLVM's disassembler for AMD machine code, through its C interface (llvm-c/Disassembler.h). It is opened at run time, so no
 * LLVM header or library is needed at build time; the library comes with clang. The simulator uses this file too, so it includes no other
 * header of forgec. */
#ifndef FORGEC_DISASM_H
#define FORGEC_DISASM_H
#include <stddef.h>
#include <stdint.h>

/* cpu: for example "gfx1151". NULL, with the reason in *why, if there is no suitable libLLVM or it does not know the chip. */
void  *disasm_open(const char *cpu, const char **why);
/* Writes the text of the instruction at code, words separated by one blank, "" if invalid. Returns the instruction's size in bytes, 0 if
 * invalid. */
size_t disasm_inst(void *disasm, const uint8_t *code, size_t bytes, uint64_t pc, char *text, size_t text_bytes);
void   disasm_close(void *disasm);
#endif
