#include "board.hpp"

namespace qm::conformance {

constinit Board board;

const Line& Line::operator<<(std::uint64_t number) const noexcept {
  char digits[20];
  std::size_t at = sizeof digits;
  do {
    digits[--at] = static_cast<char>('0' + number % 10);
    number /= 10;
  } while (number != 0);
  return *this << std::string_view(digits + at, sizeof digits - at);
}

namespace {
constexpr std::uint32_t kLooksWithoutTicks = 5'000'000;  // a bound for a port whose ticks are broken
}  // namespace

bool wait_until(std::uint32_t ms, bool (*done)(unsigned hart), unsigned hart) noexcept {
  const std::uint64_t start = hal::Port::ticks(), limit = hal::ticks_of(ms);
  for (std::uint32_t looks = 0; !done(hart); ++looks) {
    const std::uint64_t now = hal::Port::ticks();
    if (now > start ? now - start > limit : looks > kLooksWithoutTicks) return done(hart);
    hal::Port::relax();
  }
  return true;
}

void begin_order(unsigned hart, Order order) noexcept {
  // release: pairs with the acquire in attend_port_check().
  board.desks[hart].order.store(static_cast<std::uint32_t>(order), std::memory_order_release);
}

bool order_done(unsigned hart) noexcept {
  // acquire: pairs with the release in attend_port_check(): the results of the order are visible.
  return board.desks[hart].order.load(std::memory_order_acquire) == 0;
}

bool carry_out(unsigned hart, Order order, std::uint32_t ms) noexcept {
  begin_order(hart, order);
  return wait_until(ms, &order_done, hart);
}

Cache* create_cache(const char* name) noexcept {
  const auto unheld = [](void* object, void*) noexcept {
    *static_cast<std::uint32_t*>(object) = 0;
    return true;
  };
  return Cache::create({.name = name, .object_size = 32, .constructor = unheld});
}

std::uint32_t churn(unsigned rounds) noexcept {
  std::uint32_t twice = 0;
  for (unsigned i = 0; i < rounds; ++i) {
    auto* const object = static_cast<std::atomic<std::uint32_t>*>(board.cache->allocate());
    if (object == nullptr) continue;
    if (object->fetch_add(1, std::memory_order_relaxed) != 0) ++twice;
    object->fetch_sub(1, std::memory_order_relaxed);
    board.cache->free(object);
  }
  return twice;
}

}  // namespace qm::conformance
