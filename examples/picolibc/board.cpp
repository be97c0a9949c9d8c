// What the board owes the program: memory, a line, and a console after it has run.

#include <qm/firmware/app.hpp>
#include <qm/firmware/console_io.hpp>

#include "board.h"

void board_put(const char* text, std::size_t length) { qm::firmware::console_write(std::span(text, length)); }

void qm::firmware::early_main(const BootInfo& info) { start_allocator(info); }

void qm::firmware::main(const BootInfo&) {
  QM_CSR_SET(QM_XSTATUS, 1u << 13);  // one task computes with floating point: nobody has to keep its registers for it
  c_main();
  serve_console({.version = "1.0"});
}
