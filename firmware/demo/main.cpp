/// The demo firmware: the allocator, its trace and its console on a small system with background activity.

#include <algorithm>
#include <string_view>

#include <qm/detail/call_sites.hpp>
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

/// Traces caches and arenas that @p list's patterns name from their creation. @returns an error text; empty: no error.
std::string_view trace_from_boot(std::string_view list) noexcept {
  bool all = true;
  while (!list.empty()) all = trace::trace_from_creation(console::next_item(list)).status == Status::kOk && all;
  return all ? "" : "boot option trace has more or longer patterns than there is room for";
}

/// A ring of this size holds the events of a workload of 20,000 operations a hart while a slow serial line sends them.
constexpr std::size_t kRingBytes = std::size_t{1} << 20;

/// Sets the ring size, and starts the event stream if the boot options say so. @returns false if either failed.
bool stream_from_boot(const console::BootOptions& options) noexcept {
  const std::size_t bytes = options.ring_bytes != 0 ? options.ring_bytes : kRingBytes;
  if (trace::set_ring_bytes(bytes) != Status::kOk) return false;
  return !options.stream || trace::start_stream_at_boot({}).status == Status::kOk;
}

/// Initializes the trace before there is a cache to trace, with the sizes in the boot options. Caches and arenas that
/// `trace` names are traced from their first allocation on; the memory for that is allocated here.
void open_asked_traces() noexcept {
  const BootInfo& info = boot_info();
  const console::BootOptions options = console::parse_boot_options(info.bootargs);
  if constexpr (kCallSites) call_sites::set_on(!options.allocinfo_off);
  trace::Config config;
  // Start at 0 if the records then still reach all memory, so that objects in device windows can have records too.
  std::uintptr_t low = UINTPTR_MAX, high = 0;
  for (const hal::MemoryRange& range : info.memory) {
    low = std::min(low, range.low);
    high = std::max(high, range.high);
  }
  config.object_base = std::uint64_t{high} <= trace::kRecordedBytes ? 0 : low;
  trace::Config asked = config;
  // A number that overflows a word is refused like any number above the largest that the trace supports.
  const std::size_t records = std::min<std::size_t>(options.records, SIZE_MAX / trace::kBytesPerRecord);
  if (records != 0) asked.record_bytes = records * trace::kBytesPerRecord;
  if (options.stack_bytes != 0) asked.stack_bytes = options.stack_bytes;
  asked.at_once = !options.trace.empty() || options.stream;
  if (trace::initialize(asked) == Status::kOk) {
    demo::boot_warning = trace_from_boot(options.trace);
    if (!stream_from_boot(options))
      demo::boot_warning = "no memory for the event stream, or rings not as the boot options say";
  } else if (trace::initialize(config) == Status::kOk) {
    demo::boot_warning = "no trace as large as the boot options say: nothing is traced";
  } else {
    panic("the trace cannot be opened");
  }
}

}  // namespace

void early_main(const BootInfo& info) {
  start_allocator(info, open_asked_traces);
  static_cast<void>(page_arena());  // an image that does not call it has no `kpages`
  if (!demo::create_arenas() || !demo::create_caches()) panic("no memory for the demo's caches");
}

void main(const BootInfo& info) {
  demo::start_background();
  demo::run_console(info);  // does not return
}

}  // namespace qm::firmware
