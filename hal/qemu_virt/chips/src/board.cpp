#include <qm/hal/chip/board.hpp>

namespace qm::hal {
namespace {

/// The properties of an open node that the walk uses.
struct Node {
  std::string_view name;
  unsigned address_cells = 2, size_cells = 1;  // they apply to its children
  unsigned register_shift = 0;
  std::uint32_t handle = 0, interrupt = 0;
  bool enabled = true, is_memory = false, is_cpu = false;
  Fdt::Bytes reg, compatible, interrupts_extended;
};

class Discovery {
 public:
  Discovery(Board& board, std::uint32_t external) noexcept : board_(board), external_(external) {}

  bool run(const Fdt& tree) noexcept {
    Fdt::Cursor cursor(tree);
    for (;;) {
      const Fdt::Token token = cursor.next();
      switch (token.kind) {
        case Fdt::Kind::kBeginNode:
          if (depth_ < kMaxDepth) {
            open_[depth_] = Node{};
            open_[depth_].name = token.name;
          }
          ++depth_;
          break;
        case Fdt::Kind::kProperty:
          if (depth_ <= kMaxDepth) property(open_[depth_ - 1], token);
          break;
        case Fdt::Kind::kEndNode:
          if (--depth_ < kMaxDepth) close(open_[depth_]);
          break;
        case Fdt::Kind::kEnd:
        case Fdt::Kind::kBroken:
          assign_contexts();
          reserve(tree);
          return token.kind == Fdt::Kind::kEnd;
      }
    }
  }

 private:
  static constexpr std::size_t kMaxDepth = 8;  // deeper nodes are skipped

  void property(Node& node, const Fdt::Token& token) noexcept {
    const std::string_view name = token.name;
    if (name == "#address-cells") node.address_cells = fdt_u32(token.data, 0);
    else if (name == "#size-cells") node.size_cells = fdt_u32(token.data, 0);
    else if (name == "reg") node.reg = token.data;
    else if (name == "compatible") node.compatible = token.data;
    else if (name == "reg-shift") node.register_shift = fdt_u32(token.data, 0) & 7;
    else if (name == "phandle") node.handle = fdt_u32(token.data, 0);
    else if (name == "interrupts") node.interrupt = fdt_u32(token.data, 0);
    else if (name == "interrupts-extended") node.interrupts_extended = token.data;
    else if (name == "status") node.enabled = fdt_string(token.data) == "okay" || fdt_string(token.data) == "ok";
    else if (name == "device_type") {
      node.is_memory = fdt_string(token.data) == "memory";
      node.is_cpu = fdt_string(token.data) == "cpu";
    } else if (name == "timebase-frequency" && (node.name == "cpus" || node.is_cpu)) {
      board_.timebase_hz = fdt_cells(token.data, 0, token.data.size() == 8 ? 2 : 1);
    } else if (name == "bootargs" && node.name == "chosen") {
      board_.bootargs = fdt_string(token.data);
    }
  }

  [[nodiscard]] const Node* parent() const noexcept {
    return depth_ != 0 && depth_ <= kMaxDepth ? &open_[depth_ - 1] : nullptr;
  }

  /// Called at the end of a node, after its properties and its children were read.
  void close(const Node& node) noexcept {
    const Node* const above = parent();
    if (above == nullptr) return;
    if (fdt_has_string(node.compatible, "riscv,cpu-intc")) handle_of_hart_ = node.handle;
    if (node.is_cpu) {
      close_cpu(node, *above);
    } else if (node.is_memory && node.enabled) {
      add_ranges(node, *above, board_.memory);
    } else if (above->name == "reserved-memory") {
      board_.reserved_left_out += add_ranges(node, *above, board_.reserved);
    } else if (node.enabled) {
      close_device(node, *above);
    }
  }

  void close_cpu(const Node& node, const Node& above) noexcept {
    const std::uint32_t handle = handle_of_hart_;
    handle_of_hart_ = 0;
    if (!node.enabled || node.reg.empty()) return;
    if (board_.hart_count == Board::kMaxHarts) {
      ++board_.harts_left_out;
      return;
    }
    board_.harts[board_.hart_count++] = {fdt_cells(node.reg, 0, above.address_cells), handle, Board::kNoContext};
  }

  void close_device(const Node& node, const Node& above) noexcept {
    const auto here = [&](Board::Device& device) {
      if (device.base != 0) return false;
      device = {static_cast<std::uintptr_t>(fdt_cells(node.reg, 0, above.address_cells)), node.interrupt,
                node.register_shift};
      return true;
    };
    const auto uart = [&](std::string_view compatible, Board::UartKind kind) {
      if (fdt_has_string(node.compatible, compatible) && here(board_.uart)) board_.uart_kind = kind;
    };
    uart("ns16550a", Board::UartKind::k16550);
    uart("sifive,uart0", Board::UartKind::kSifive);
    uart("ucb,htif0", Board::UartKind::kHtif);
    if (fdt_has_string(node.compatible, "ucb,htif0")) here(board_.htif);
    if (fdt_has_string(node.compatible, "sifive,test0")) here(board_.finisher);
    if (fdt_has_string(node.compatible, "riscv,plic0") || fdt_has_string(node.compatible, "sifive,plic-1.0.0")) {
      if (here(board_.plic)) plic_lines_ = node.interrupts_extended;
    }
  }

  /// @returns the number of ranges that did not fit.
  static std::size_t add_ranges(const Node& node, const Node& above, MemoryMap& map) noexcept {
    const unsigned address = above.address_cells, size = above.size_cells;
    if (address == 0 || address > 2 || size == 0 || size > 2) return 0;
    std::size_t left_out = 0;
    const std::size_t step = 4 * (address + size);
    for (std::size_t at = 0; at + step <= node.reg.size(); at += step) {
      const std::uint64_t low = fdt_cells(node.reg, at, address), bytes = fdt_cells(node.reg, at + 4 * address, size);
      const std::uint64_t high = low + bytes;
      if (high < low || high > UINTPTR_MAX) continue;
      left_out += map.add({static_cast<std::uintptr_t>(low), static_cast<std::uintptr_t>(high)}) ? 0 : 1;
    }
    return left_out;
  }

  /// The number of a PLIC context is its index in the PLIC's list of (hart's interrupt controller, cause).
  void assign_contexts() noexcept {
    for (std::size_t at = 0; at + 8 <= plic_lines_.size(); at += 8) {
      if (fdt_u32(plic_lines_, at + 4) != external_) continue;
      for (std::size_t i = 0; i < board_.hart_count; ++i) {
        Board::Hart& hart = board_.harts[i];
        if (hart.interrupt_handle == fdt_u32(plic_lines_, at)) hart.plic_context = static_cast<unsigned>(at / 8);
      }
    }
  }

  void reserve(const Fdt& tree) noexcept {
    for (std::size_t i = 0;; ++i) {
      const auto entry = tree.reservation(i);
      if (!entry) return;
      const bool added = board_.reserved.add(
          {static_cast<std::uintptr_t>(entry->address), static_cast<std::uintptr_t>(entry->address + entry->bytes)});
      board_.reserved_left_out += added ? 0 : 1;
    }
  }

  Board& board_;
  std::uint32_t external_;
  std::array<Node, kMaxDepth> open_{};
  std::size_t depth_ = 0;
  std::uint32_t handle_of_hart_ = 0;  // of the cpu node whose children were read last
  Fdt::Bytes plic_lines_;
};

}  // namespace

bool discover(const Fdt& tree, Board& board, std::uint32_t external) noexcept {
  return Discovery(board, external).run(tree);
}

}  // namespace qm::hal
