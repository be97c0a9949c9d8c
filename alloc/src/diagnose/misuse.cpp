#include <qm/misuse.hpp>

#include <qm/cache.hpp>
#include <qm/detail/observer.hpp>

namespace qm {
constinit std::atomic<const internal::MisuseCalls*> internal::misuse_calls{nullptr};

namespace {

constinit std::atomic<MisuseHandler> misuse_handler{nullptr};

void tell(MisuseReport& report) noexcept {
  // acquire: pairs with the release in set_misuse_handler(). Read once: another hart may remove the handler.
  const MisuseHandler handler = misuse_handler.load(std::memory_order_acquire);
  if (handler == nullptr) return;
  if (Observer* trace = observer(); trace != nullptr) {
    if (report.found_by == 0)
      report.found_by = trace->stack(reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)));
    Cache* holder = report.owner != nullptr ? report.owner : report.cache;
    const bool known =
        report.kind != Misuse::kNull && report.kind != Misuse::kForeign && report.kind != Misuse::kAfterDestroy;
    if (known && holder != nullptr && report.allocated_by == 0) {
      report.allocated_by = trace->allocating_stack(*holder, report.object);
    }
  }
  handler(report);
}

}  // namespace

void set_misuse_handler(MisuseHandler handler) noexcept {
  static constexpr internal::MisuseCalls kCalls{tell, &Cache::tell_refused};
  misuse_handler.store(handler, std::memory_order_release);
  internal::misuse_calls.store(handler != nullptr ? &kCalls : nullptr, std::memory_order_release);
}

const char* describe(Misuse kind) noexcept {
  switch (kind) {
    case Misuse::kNull: return "is null";
    case Misuse::kDoubleFree: return "is free already";
    case Misuse::kInterior: return "is inside an object";
    case Misuse::kWrongCache: return "is another cache's";
    case Misuse::kForeign: return "is none of its objects";
    case Misuse::kAfterDestroy: return "comes after the destroy";
    case Misuse::kWrongSize: return "has another size";
    case Misuse::kOverflow: return "was written behind its end";
    case Misuse::kWriteAfterFree: return "was written while it was free";
    case Misuse::kLeak: return "is out at a destroy";
    case Misuse::kTooLarge: return "is smaller than what was asked for";
    case Misuse::kOutside: return "was accessed outside its bounds";
    case Misuse::kUseAfterFree: return "was accessed after its free";
  }
  return "";
}

}  // namespace qm
