// Runs the console as a task of the kernel.

#include <qm_freertos.h>

#include <FreeRTOS.h>
#include <task.h>

#include <qm/console/console.hpp>
#include <qm/console/trace.hpp>
#include <qm/misuse.hpp>
#include <qm/trace/trace.h>

#include "bridge.h"

namespace {

using qm::console::Console;

constexpr TickType_t kIdleTicks = configTICK_RATE_HZ / 50 != 0 ? configTICK_RATE_HZ / 50 : 1;
constexpr std::size_t kStackBytes = 1024 * sizeof(StackType_t) + 2048;
constexpr std::size_t kLeastTraceStackBytes = 4096;

constinit const qm_freertos_console* line = nullptr;
constinit TaskHandle_t task = nullptr;
constinit Console* the_console = nullptr;

class Line final : public qm::console::Terminal {
 public:
  void write(std::string_view bytes) noexcept override { line->write(bytes.data(), bytes.size()); }
  std::size_t read(std::span<char> bytes) noexcept override { return line->read(bytes.data(), bytes.size()); }
  void yield() noexcept override { taskYIELD(); }
};

bool name_of(std::uintptr_t address, qm::console::Symbol& symbol) noexcept {
  const char* const name = line->name_of(address, &symbol.offset);
  if (name == nullptr) return false;
  symbol.name = name;
  return true;
}

void report_misuse(const qm::MisuseReport& report) noexcept { the_console->notify(report); }

void tell_refused(std::size_t& told) noexcept {
  if (qm_freertos_refused() == told) return;
  told = qm_freertos_refused();
  the_console->notify("heap: refused a call from an interrupt above the kernel's mask level\n");
}

void run(void*) {
  static Line terminal;
  static Console console(terminal, {.version = "FreeRTOS " tskKERNEL_VERSION_NUMBER,
                                    .resolver = line->name_of != nullptr ? name_of : nullptr,
                                    .wake = qm_freertos_console_input});
  static qm::console::Trace trace(console);
  the_console = &console;
  qm::set_misuse_handler(report_misuse);
  console.start();
  if (!qm_freertos_has_frames())
    console.notify("trace: the kernel has no frame pointers: stacks end at its functions\n");
  for (std::size_t told = 0;;) {
    tell_refused(told);
    if (!console.poll()) ulTaskNotifyTake(pdTRUE, kIdleTicks);
  }
}

constexpr std::size_t either(std::size_t chosen, std::size_t otherwise) noexcept {
  return chosen != 0 ? chosen : otherwise;
}

}  // namespace

extern "C" {

qm_status qm_freertos_start_console(const qm_freertos_console* console) noexcept {
  if (line != nullptr) return QM_BUSY;
  vPortInitialiseBlocks();
  if (qm_freertos_status() != QM_OK) return qm_freertos_status();
  const std::size_t heap = xPortGetFreeHeapSize();
  const std::size_t stacks = heap / 32 > kLeastTraceStackBytes ? heap / 32 : kLeastTraceStackBytes;
  const qm_trace_config config = {either(console->trace_stack_bytes, stacks),
                                  either(console->trace_record_bytes, heap / 4), 0};
  const qm_status status = qm_trace_init(&config);
  if (status != QM_OK) return status;
  line = console;
  const std::size_t words = either(console->stack_bytes, kStackBytes) / sizeof(StackType_t);
  return xTaskCreate(run, "console", words, nullptr, console->priority, &task) == pdPASS ? QM_OK : QM_NO_MEMORY;
}

void qm_freertos_console_input() noexcept {
  if (task == nullptr) return;
  const std::uintptr_t before = qm_freertos_mask();
  BaseType_t woken = pdFALSE;
  vTaskNotifyGiveFromISR(task, &woken);  // the next tick switches to the task
  qm_freertos_unmask(before);
}

}  // extern "C"
