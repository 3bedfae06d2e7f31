/* count_instructions.c -- a plugin of qemu's user mode that counts the instructions a program executes, and says so on stderr at its end.
 *
 *   cc -shared -fPIC -o count.so tests/bench/count_instructions.c
 *   qemu-aarch64 -cpu max -plugin ./count.so PROGRAM ARGUMENTS...
 *
 * Of one thread.  Debian has no qemu-plugin.h, so what is used of it is declared here (qemu, docs/devel/tcg-plugins). */
#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifndef PLUGIN_VERSION
#define PLUGIN_VERSION 1             /* of qemu 4.2 to 8.2; later versions require 2 or more */
#endif

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
void   qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, void (*seen)(qemu_plugin_id_t id, struct qemu_plugin_tb *block));
void   qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *block, void (*runs)(unsigned cpu, void *context), int flags,
                                            void *context);
void   qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, void (*ends)(qemu_plugin_id_t id, void *context), void *context);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);

int qemu_plugin_version = PLUGIN_VERSION;
int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv);

static uint64_t count;

static void runs(unsigned cpu, void *context)
{
    (void)cpu;
    count += (uintptr_t)context;
}

static void seen(qemu_plugin_id_t id, struct qemu_plugin_tb *block)
{
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_cb(block, runs, 0, (void *)(uintptr_t)qemu_plugin_tb_n_insns(block));
}

static void ends(qemu_plugin_id_t id, void *context)
{
    (void)id; (void)context;
    fprintf(stderr, "instructions %" PRIu64 "\n", count);
}

int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv)
{
    (void)info; (void)argc; (void)argv;
    qemu_plugin_register_vcpu_tb_trans_cb(id, seen);
    qemu_plugin_register_atexit_cb(id, ends, NULL);
    return 0;
}
