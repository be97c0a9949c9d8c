/// A plugin for QEMU (TCG): finds the longest section with interrupts masked.
///
///     -plugin masked_plugin.so,marks=0xADDRESS,except=0xLOW-0xHIGH,except=...,out=FILE
///
/// `marks` is as for path_plugin.cpp: it says when an operation begins and ends on a hart, and then which path it was;
/// several harts may run operations. A section begins with `csrrc REGISTER, sstatus, 2` and ends with `csrs sstatus,
/// REGISTER`, as Port::mask_interrupts() and restore_interrupts(); one inside another is a part of it. Instructions from
/// LOW to below HIGH do not count. The output FILE has a line "PATH INSTRUCTIONS" for each path, the instructions of the
/// longest section of any hart.

#include "qemu_plugin.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

const int qemu_plugin_version = 1;

namespace {

constexpr unsigned kHarts = 32;

struct Hart {
  bool inside = false;  ///< an operation
  unsigned depth = 0;
  unsigned long instructions = 0;  ///< of the section
};

std::uint64_t marks;
unsigned long longest;  // since the last path
std::array<unsigned long, kPaths> of_path;
std::array<Hart, kHarts> harts;
// Never destroyed: QEMU calls finished() late.
std::vector<std::pair<std::uint64_t, std::uint64_t>>& exceptions =
    *new std::vector<std::pair<std::uint64_t, std::uint64_t>>;
std::string& output = *new std::string;

void plain(unsigned hart, void*) {
  if (harts[hart].depth != 0) ++harts[hart].instructions;
}

void masks(unsigned hart, void*) {
  if (harts[hart].depth++ == 0) harts[hart].instructions = 0;
}

void restores(unsigned hart, void*) {
  if (harts[hart].depth == 0 || --harts[hart].depth != 0) return;
  if (harts[hart].inside) longest = std::max(longest, harts[hart].instructions);
}

void marked(unsigned hart, void* data) {
  const auto mark = reinterpret_cast<std::uintptr_t>(data);
  if (mark < 2) {
    harts[hart] = {.inside = mark == 0};  // what began before does not count
  } else {
    of_path[mark - 2] = std::max(of_path[mark - 2], std::exchange(longest, 0));
  }
}

ExecutionCallback callback_for(const qemu_plugin_insn* instruction) {
  constexpr std::uint32_t kMasks = 0x10017073;     // csrrci REGISTER, sstatus, 2
  constexpr std::uint32_t kRestores = 0x10002073;  // csrrs zero, sstatus, REGISTER
  std::uint32_t bits = 0;
  std::memcpy(&bits, qemu_plugin_insn_data(instruction), std::min(sizeof bits, qemu_plugin_insn_size(instruction)));
  const std::uint32_t written = bits >> 7 & 31, read = bits >> 15 & 31;
  if (written != 0 && bits == (kMasks | written << 7)) return masks;
  if (bits == (kRestores | read << 15)) return restores;
  return plain;
}

void translated(qemu_plugin_id_t, qemu_plugin_tb* block) {
  for (std::size_t i = 0; i < qemu_plugin_tb_n_insns(block); ++i) {
    qemu_plugin_insn* const instruction = qemu_plugin_tb_get_insn(block, i);
    const std::uint64_t address = qemu_plugin_insn_vaddr(instruction);
    const std::uint64_t mark = (address - marks) / 4;
    if (mark < 2 + kPaths) {
      qemu_plugin_register_vcpu_insn_exec_cb(instruction, marked, 0, reinterpret_cast<void*>(mark));
    } else if (std::none_of(exceptions.begin(), exceptions.end(),
                            [&](const auto& range) { return address >= range.first && address < range.second; })) {
      qemu_plugin_register_vcpu_insn_exec_cb(instruction, callback_for(instruction), 0, nullptr);
    }
  }
}

void finished(qemu_plugin_id_t, void*) {
  std::FILE* const out = std::fopen(output.c_str(), "w");
  if (out == nullptr) return;
  for (std::uint64_t path = 0; path < kPaths; ++path) {
    if (of_path[path] != 0) std::fprintf(out, "%u %lu\n", static_cast<unsigned>(path), of_path[path]);
  }
  std::fclose(out);
}

}  // namespace

int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t*, int count, char** arguments) {
  const auto take = [](std::string_view name, const char* value) {
    if (name == "marks") marks = std::strtoull(value, nullptr, 0);
    if (name == "out") output = value;
    if (name != "except") return true;
    char* end = nullptr;
    const std::uint64_t low = std::strtoull(value, &end, 0);
    if (*end != '-') return false;
    exceptions.emplace_back(low, std::strtoull(end + 1, nullptr, 0));
    return true;
  };
  if (!read_arguments(count, arguments, take) || marks == 0 || output.empty()) return -1;
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  qemu_plugin_register_atexit_cb(id, finished, nullptr);
  return 0;
}
