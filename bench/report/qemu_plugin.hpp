#pragma once
/// What our plugins use of QEMU's plugin interface, version 1. No Debian package has its header.

#include <cstddef>
#include <cstdint>

extern "C" {
using qemu_plugin_id_t = std::uint64_t;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_info_t;
using TranslationCallback = void (*)(qemu_plugin_id_t, qemu_plugin_tb*);
using ExecutionCallback = void (*)(unsigned vcpu, void* data);
using ExitCallback = void (*)(qemu_plugin_id_t, void* data);
void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, TranslationCallback callback);
void qemu_plugin_register_vcpu_insn_exec_cb(qemu_plugin_insn* instruction, ExecutionCallback callback, int flags,
                                            void* data);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, ExitCallback callback, void* data);
std::size_t qemu_plugin_tb_n_insns(const qemu_plugin_tb* block);
qemu_plugin_insn* qemu_plugin_tb_get_insn(const qemu_plugin_tb* block, std::size_t index);
std::uint64_t qemu_plugin_insn_vaddr(const qemu_plugin_insn* instruction);
/// The instruction's bytes, and their number.
const void* qemu_plugin_insn_data(const qemu_plugin_insn* instruction);
std::size_t qemu_plugin_insn_size(const qemu_plugin_insn* instruction);
[[gnu::visibility("default")]] extern const int qemu_plugin_version;
[[gnu::visibility("default")]] int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t*, int count,
                                                       char** arguments);
}
