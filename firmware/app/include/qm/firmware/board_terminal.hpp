#pragma once
/// The board's serial line as a console's terminal.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <qm/console/console.hpp>

namespace qm::firmware {

/// Reads what console_read() has, writes in one piece, yields to the hart's other tasks. One object an image: it takes the
/// bytes of the line.
/// Context: one task of the boot hart.
class BoardTerminal final : public console::Terminal {
 public:
  void write(std::string_view bytes) noexcept override;
  std::size_t read(std::span<char> bytes) noexcept override;
  std::size_t take_lost() noexcept override;
  void yield() noexcept override;

 private:
  std::uint32_t lost_ = 0;  // of console_lost(), those that take_lost() has told
};

}  // namespace qm::firmware
