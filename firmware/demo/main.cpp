/// The demo firmware: the allocator, its books and its console on a small but living system.

#include <algorithm>
#include <string_view>

#include <qm/call_sites.hpp>
#include <qm/console/words.hpp>
#include <qm/firmware/app.hpp>
#include <qm/hal/hart.hpp>
#include <qm/system.hpp>
#include <qm/trace/event_stream.hpp>
#include <qm/trace/live_trace.hpp>

#include "arenas.hpp"
#include "background.hpp"
#include "caches.hpp"
#include "serial_console.hpp"
#include "version.hpp"
#include "workload.hpp"

namespace qm::firmware {
namespace {

/// Names @p list's patterns to the books. @returns what is wrong with it; empty: nothing.
std::string_view trace_from_boot(std::string_view list) noexcept {
  bool all = true;
  while (!list.empty()) all = trace::trace_from_creation(console::next_item(list)).status == Status::kOk && all;
  return all ? "" : "boot option trace has more or longer patterns than there is room for";
}

/// A ring that holds the events of a workload of 20,000 operations a hart while a slow line takes them.
constexpr std::size_t kRingBytes = std::size_t{1} << 20;

/// Starts the event stream, if the boot options say so. @returns whether it could.
bool stream_from_boot(const console::BootOptions& options) noexcept {
  const std::size_t bytes = options.ring_bytes != 0 ? options.ring_bytes : kRingBytes;
  if (trace::set_ring_bytes(bytes) != Status::kOk) return false;
  return !options.stream || trace::start_stream_at_boot({}).status == Status::kOk;
}

/// Opens the books, before there is a cache to trace. With boot options they are as large as those say, and what
/// `trace` names is traced from its first allocation on, into memory that is taken here.
void open_asked_books() noexcept {
  const BootInfo& info = boot_info();
  const console::BootOptions options = console::parse_boot_options(info.bootargs);
  if constexpr (kCallSites) call_sites::set_on(!options.allocinfo_off);
  trace::Config config;
  // From 0 on, where that reaches all memory, so that objects in device windows have records too.
  std::uintptr_t low = UINTPTR_MAX, high = 0;
  for (const hal::MemoryRange& range : info.memory) {
    low = std::min(low, range.low);
    high = std::max(high, range.high);
  }
  config.object_base = high <= trace::kRecordedBytes ? 0 : low;
  trace::Config asked = config;
  // More than a word can say is refused as what is more than the books can number.
  const std::size_t records = std::min<std::size_t>(options.records, SIZE_MAX / trace::kBytesPerRecord);
  if (records != 0) asked.record_bytes = records * trace::kBytesPerRecord;
  if (options.stack_bytes != 0) asked.stack_bytes = options.stack_bytes;
  asked.at_once = !options.trace.empty() || options.stream;
  if (trace::initialize(asked) == Status::kOk) {
    demo::boot_warning = trace_from_boot(options.trace);
    if (!stream_from_boot(options))
      demo::boot_warning = "no memory for the event stream, or rings not as the boot options say";
  } else if (trace::initialize(config) == Status::kOk) {
    demo::boot_warning = "no books as large as the boot options say: nothing is traced";
  } else {
    panic("the books cannot be opened");
  }
}

}  // namespace

void early_main(const BootInfo& info) {
  start_allocator(info, open_asked_books);
  static_cast<void>(page_arena());  // an image that does not call it has no `kpages`
  if (!demo::create_arenas() || !demo::create_caches()) panic("no memory for the demo's caches");
}

void main(const BootInfo& info) {
  demo::start_background();
  demo::run_console(info);  // does not return
}

}  // namespace qm::firmware
