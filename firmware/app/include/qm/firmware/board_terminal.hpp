#pragma once
/// The board's serial line as a console's terminal.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <qm/console/console.hpp>

namespace qm::firmware {

/// Reads with console_read(), writes each call's bytes in one piece, and yields to the hart's other tasks. An image has
/// one object of this class, because it consumes the bytes of the serial line.
/// Context: one task of the boot hart.
class BoardTerminal final : public console::Terminal {
 public:
  void write(std::string_view bytes) noexcept override;
  std::size_t read(std::span<char> bytes) noexcept override;
  std::size_t take_lost() noexcept override;
  void yield() noexcept override;

 private:
  std::uint32_t lost_ = 0;  // the part of console_lost() that take_lost() has returned
};

}  // namespace qm::firmware
