#include <qm/firmware/board_terminal.hpp>

#include <qm/firmware/console_io.hpp>
#include <qm/firmware/task.hpp>

namespace qm::firmware {

void BoardTerminal::write(std::string_view bytes) noexcept { console_write_frame(bytes); }

std::size_t BoardTerminal::read(std::span<char> bytes) noexcept { return console_read(bytes); }

std::size_t BoardTerminal::take_lost() noexcept {
  const std::uint32_t lost = console_lost();
  const std::uint32_t fresh = lost - lost_;
  lost_ = lost;
  return fresh;
}

void BoardTerminal::yield() noexcept { firmware::yield(); }

}  // namespace qm::firmware
