// The board's part for the program: memory, a serial line, and a console after the program has run.

#include <qm/firmware/app.hpp>
#include <qm/firmware/console_io.hpp>

#include "board.h"

void board_put(const char* text, std::size_t length) { qm::firmware::console_write(std::span(text, length)); }

void qm::firmware::early_main(const BootInfo& info) { start_allocator(info); }

void qm::firmware::main(const BootInfo&) {
  QM_CSR_SET(QM_XSTATUS, 1u << 13);  // only one task uses floating point, so no code has to save its registers
  c_main();
  serve_console({.version = "1.0"});
}
