#pragma once
/// What our plugins share: what they use of QEMU's plugin interface, version 1, for which no Debian package has a header,
/// and their arguments.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

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

/// Paths that a bench can have (<qm/bench/path.hpp>).
inline constexpr std::uint64_t kPaths = 64;

/// Calls @p take(name, value) for each argument `name=value`. @returns false if one has another form, or is refused.
template <class Take>
bool read_arguments(int count, char** arguments, const Take& take) {
  for (int i = 0; i < count; ++i) {
    const char* const equals = std::strchr(arguments[i], '=');
    if (equals == nullptr) return false;
    const std::string_view name(arguments[i], static_cast<std::size_t>(equals - arguments[i]));
    if (!take(name, equals + 1)) return false;
  }
  return true;
}
