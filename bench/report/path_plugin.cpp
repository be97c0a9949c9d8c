/// A plugin for QEMU (TCG): records the instructions of each path's longest operation.
///
///     -plugin path_plugin.so,marks=0xADDRESS,out=FILE
///
/// Instructions of four bytes lie at `marks`. An operation begins when the first of them runs and ends with the second.
/// One of the others runs later and gives the path of the operation: the third means path 0, and so on
/// (<qm/bench/path.hpp>). The output FILE has, for each path, a line "path N" and a line with the hexadecimal address
/// of each instruction of its longest operation. Only one hart runs operations.

#include "qemu_plugin.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

const int qemu_plugin_version = 1;

namespace {

using Trace = std::vector<std::uint64_t>;

std::uint64_t marks;
bool inside;
/// Never destroyed: QEMU calls finished() after the destruction of this library's static objects.
struct State {
  std::string output;
  Trace current;
  Trace longest[kPaths];
};
State& state = *new State;

void executed(unsigned, void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  const std::uint64_t mark = (address - marks) / 4;
  if (mark == 0) {
    state.current.clear();
    inside = true;
  } else if (mark == 1) {
    inside = false;
  } else if (mark < 2 + kPaths) {
    Trace& path = state.longest[mark - 2];
    if (state.current.size() > path.size()) path = state.current;
  } else if (inside) {
    state.current.push_back(address);
  }
}

void translated(qemu_plugin_id_t, qemu_plugin_tb* block) {
  for (std::size_t i = 0; i < qemu_plugin_tb_n_insns(block); ++i) {
    qemu_plugin_insn* instruction = qemu_plugin_tb_get_insn(block, i);
    const auto address = static_cast<std::uintptr_t>(qemu_plugin_insn_vaddr(instruction));
    qemu_plugin_register_vcpu_insn_exec_cb(instruction, executed, 0, reinterpret_cast<void*>(address));
  }
}

void finished(qemu_plugin_id_t, void*) {
  std::FILE* out = std::fopen(state.output.c_str(), "w");
  if (out == nullptr) return;
  for (std::uint64_t path = 0; path < kPaths; ++path) {
    if (state.longest[path].empty()) continue;
    std::fprintf(out, "path %llu\n", static_cast<unsigned long long>(path));
    for (const std::uint64_t address : state.longest[path])
      std::fprintf(out, "%llx\n", static_cast<unsigned long long>(address));
  }
  std::fclose(out);
}

}  // namespace

int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t*, int count, char** arguments) {
  const auto take = [](std::string_view name, const char* value) {
    if (name == "marks") marks = std::strtoull(value, nullptr, 0);
    if (name == "out") state.output = value;
    return true;
  };
  if (!read_arguments(count, arguments, take) || marks == 0 || state.output.empty()) return -1;
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  qemu_plugin_register_atexit_cb(id, finished, nullptr);
  return 0;
}
