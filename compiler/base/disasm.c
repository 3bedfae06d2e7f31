/* disasm.c -- see disasm.h. Any LLVM from 19 on works if its AMDGPU target knows the chip. The texts in simulator/decode.c are those of
 * LLVM 19. */
#include "disasm.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { OLDEST = 19, NEWEST = 29 };

static void *library;
static const char missing[] = "no libLLVM with AMDGPU of version 19 to 29 (Debian: libllvm19)";
static void *(*create_disasm)(const char *triple, const char *cpu, void *info, int tag_type, void *op_info, void *symbol_lookup);
static size_t (*disasm_instruction)(void *disasm, uint8_t *bytes, uint64_t size, uint64_t pc, char *text, size_t text_bytes);
static void (*disasm_dispose)(void *disasm);

/* RTLD_DEEPBIND is not used: sanitizers refuse it, and symbol versions keep two LLVMs in one process apart. */
static void *open_one(const char *name)
{
    void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!handle) return NULL;
    if (dlsym(handle, "LLVMInitializeAMDGPUDisassembler") && dlsym(handle, "LLVMCreateDisasmCPU")) return handle;
    dlclose(handle);
    return NULL;
}

static void *open_library(void)
{
    static const char *const names[] = { "libLLVM.so.%u.1", "libLLVM-%u.so.1", "libLLVM-%u.so", "/usr/lib/llvm-%u/lib/libLLVM.so.%u.1",
                                         "/usr/lib/llvm-%u/lib/libLLVM-%u.so", "/usr/lib/llvm-%u/lib/libLLVM.so" };
    for (uint32_t version = OLDEST; version <= NEWEST; version++)
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            char name[64], *at;
            snprintf(name, sizeof name, "%s", names[i]);
            while ((at = strstr(name, "%u"))) at[0] = (char)('0' + version / 10), at[1] = (char)('0' + version % 10);
            void *handle = open_one(name);
            if (handle) return handle;
        }
    return open_one("libLLVM.so");
}

static void initialise(void)
{
    static const char *const parts[] = { "LLVMInitializeAMDGPUTargetInfo", "LLVMInitializeAMDGPUTargetMC",
                                         "LLVMInitializeAMDGPUDisassembler" };
    void *handle = open_library();
    if (!handle) return;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        void (*start)(void);
        *(void **)&start = dlsym(handle, parts[i]);
        if (!start) return;
        start();
    }
    *(void **)&create_disasm = dlsym(handle, "LLVMCreateDisasmCPU");
    *(void **)&disasm_instruction = dlsym(handle, "LLVMDisasmInstruction");
    *(void **)&disasm_dispose = dlsym(handle, "LLVMDisasmDispose");
    if (create_disasm && disasm_instruction && disasm_dispose) library = handle;
}

void *disasm_open(const char *cpu, const char **why)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, initialise);
    *why = missing;
    if (!library) return NULL;
    *why = "libLLVM does not know the chip";
    return create_disasm("amdgcn-amd-amdhsa", cpu, NULL, 0, NULL, NULL);
}

/* Leaves one blank between words and none at the ends: LLVM prints a tab before the name, and sometimes two blanks. */
static void tidy(char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++) {
        const bool blank = *from == ' ' || *from == '\t' || *from == '\n';
        if (!blank) *to++ = *from;
        else if (to > text && to[-1] != ' ') *to++ = ' ';
    }
    while (to > text && to[-1] == ' ') to--;
    *to = 0;
}

size_t disasm_inst(void *disasm, const uint8_t *code, size_t bytes, uint64_t pc, char *text, size_t text_bytes)
{
    /* An instruction has at most 20 bytes. LLVM's interface takes a writable pointer but does not write. */
    uint8_t copy[32];
    const size_t n = bytes < sizeof copy ? bytes : sizeof copy;
    if (!text_bytes) return 0;
    *text = 0;
    memcpy(copy, code, n);
    const size_t length = disasm_instruction(disasm, copy, n, pc, text, text_bytes);
    tidy(text);
    return length <= n ? length : 0;
}

void disasm_close(void *disasm)
{
    if (disasm) disasm_dispose(disasm);
}
