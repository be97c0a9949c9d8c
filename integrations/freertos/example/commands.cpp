// The firmware's own command.

#include <qm/console/command.hpp>
#include <qm/console/console.hpp>

#include "board.h"
#include "radio.h"

namespace {

using namespace qm::console;

CommandStatus run_radio(Invocation& call) noexcept {
  radio_send(20, 1);
  call.print("20 messages sent\n");
  return call.ok();
}
QM_CONSOLE_COMMAND(radio, {.name = "radio", .usage = "radio", .summary = "send twenty messages", .run = run_radio});

CommandStatus run_quit(Invocation& call) noexcept {
  call.answer(CommandStatus::kOk);
  board_finish();
}
QM_CONSOLE_COMMAND(quit, {.name = "quit", .usage = "quit", .summary = "switch the board off", .run = run_quit});

}  // namespace
