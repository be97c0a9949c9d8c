#pragma once
// Runs the project's sources under Relacy. The first include of a test.
//
// std::atomic and Plain, in which ./run wraps the plain fields that a test names, keep their initial value and, while a
// run is under way, a Relacy variable. That is found by the address, so sizes and layouts are those of the product, and
// each run begins with the initial values of static objects.
//
// In before(), a test calls begin() and touches the static objects: a variable that a thread makes is not initialised
// for the others. In after() it calls end().

// All standard headers that the project's sources include: below, std::atomic gets another name.
#include <atomic>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <source_location>
#include <span>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include <relacy/relacy.hpp>
// Relacy's macros would change the project's code.
#undef new
#undef delete
#undef malloc
#undef calloc
#undef realloc
#undef free
#undef assert
#undef errno
#undef VAR
#undef memory_order_relaxed
#undef memory_order_consume
#undef memory_order_acquire
#undef memory_order_release
#undef memory_order_acq_rel
#undef memory_order_seq_cst

namespace qm_relacy {

/// Relacy replaces the global operator new, and takes what outlives a run for a leak.
template <class T>
struct PlainAllocator {
  using value_type = T;
  PlainAllocator() = default;
  template <class U>
  PlainAllocator(const PlainAllocator<U>&) {}
  T* allocate(std::size_t count) { return static_cast<T*>(std::malloc(count * sizeof(T))); }
  void deallocate(T* place, std::size_t) { std::free(place); }
  bool operator==(const PlainAllocator&) const { return true; }
};

struct Variable {
  Variable() = default;
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  virtual ~Variable() = default;
  static void* operator new(std::size_t bytes) { return std::malloc(bytes); }
  static void operator delete(void* place) { std::free(place); }
};
template <class T>
struct AtomicVariable : Variable {
  explicit AtomicVariable(T initial) : value(initial) {}
  rl::atomic<T> value;
};
template <class T>
struct PlainVariable : Variable {
  explicit PlainVariable(T initial) : value(initial) {}
  rl::var<T> value;
};

using Slot = std::pair<const void* const, std::unique_ptr<Variable>>;
inline std::unordered_map<const void*, std::unique_ptr<Variable>, std::hash<const void*>, std::equal_to<>,
                          PlainAllocator<Slot>>
    variables;
inline bool is_running = false;

inline void begin() {
  for (auto& [place, variable] : variables) static_cast<void>(variable.release());  // of a run that ended with an error
  variables.clear();
  is_running = true;
}
inline void end() {
  variables.clear();
  is_running = false;
}

template <class Made, class T>
Made& make(const void* place, T initial) {
  std::unique_ptr<Variable>& slot = variables[place];
  slot = nullptr;
  slot.reset(new Made(initial));
  return static_cast<Made&>(*slot);
}
template <class Made, class T>
Made& find(const void* place, T initial) {
  const auto found = variables.find(place);
  return found != variables.end() ? static_cast<Made&>(*found->second) : make<Made>(place, initial);
}

inline rl::memory_order order_of(std::memory_order order) {
  switch (order) {
    case std::memory_order::relaxed: return rl::mo_relaxed;
    case std::memory_order::consume: return rl::mo_consume;
    case std::memory_order::acquire: return rl::mo_acquire;
    case std::memory_order::release: return rl::mo_release;
    case std::memory_order::acq_rel: return rl::mo_acq_rel;
    default: return rl::mo_seq_cst;
  }
}
using Place = std::source_location;
inline rl::debug_info info_of(const Place& place) {
  return {place.function_name(), place.file_name(), static_cast<unsigned>(place.line())};
}

/// A plain variable: two accesses by different threads, one of them a write, that no order separates are an error.
template <class T>
class Plain {
 public:
  constexpr Plain() noexcept : Plain(T{}) {}
  constexpr Plain(T initial) noexcept : initial_(initial) {
    if (!std::is_constant_evaluated() && is_running) make<PlainVariable<T>>(this, initial);
  }
  Plain(const Plain& other) noexcept : Plain(other.get()) {}
  Plain& operator=(const Plain& other) noexcept { return *this = other.get(); }
  Plain& operator=(T value) noexcept {
    if (is_running) variable()($) = value;
    else initial_ = value;
    return *this;
  }
  operator T() const noexcept { return get(); }
  T operator->() const noexcept { return get(); }
  Plain& operator++() noexcept { return *this = static_cast<T>(get() + 1); }
  Plain& operator--() noexcept { return *this = static_cast<T>(get() - 1); }
  void touch() const noexcept { static_cast<void>(get()); }

 private:
  rl::var<T>& variable() const noexcept { return find<PlainVariable<T>>(this, initial_).value; }
  T get() const noexcept { return is_running ? static_cast<T>(variable()($)) : initial_; }
  T initial_;
};

}  // namespace qm_relacy

namespace std {

/// What the project's sources find as std::atomic. Outside a run it is not atomic.
template <class T>
class qm_relacy_atomic {
  using Place = qm_relacy::Place;

 public:
  constexpr qm_relacy_atomic() noexcept : qm_relacy_atomic(T{}) {}
  constexpr qm_relacy_atomic(T initial) noexcept : initial_(initial) {
    if (!std::is_constant_evaluated() && qm_relacy::is_running)
      qm_relacy::make<qm_relacy::AtomicVariable<T>>(this, initial);
  }
  qm_relacy_atomic(const qm_relacy_atomic&) = delete;
  qm_relacy_atomic& operator=(const qm_relacy_atomic&) = delete;

  T load(memory_order order = memory_order::seq_cst, Place place = Place::current()) const noexcept {
    return value().load(qm_relacy::order_of(order), qm_relacy::info_of(place));
  }
  void store(T desired, memory_order order = memory_order::seq_cst, Place place = Place::current()) noexcept {
    value().store(desired, qm_relacy::order_of(order), qm_relacy::info_of(place));
  }
  T exchange(T desired, memory_order order = memory_order::seq_cst, Place place = Place::current()) noexcept {
    return value().exchange(desired, qm_relacy::order_of(order), qm_relacy::info_of(place));
  }
  T fetch_or(T bits, memory_order order = memory_order::seq_cst, Place place = Place::current()) noexcept {
    return value().fetch_or(bits, qm_relacy::order_of(order), qm_relacy::info_of(place));
  }
  T fetch_and(T bits, memory_order order = memory_order::seq_cst, Place place = Place::current()) noexcept {
    return value().fetch_and(bits, qm_relacy::order_of(order), qm_relacy::info_of(place));
  }
  bool compare_exchange_strong(T& expected, T desired, memory_order order, memory_order failure,
                               Place place = Place::current()) noexcept {
    return value().compare_exchange(rl::bool_t<false>(), expected, desired, qm_relacy::order_of(order),
                                    qm_relacy::order_of(failure), qm_relacy::info_of(place));
  }
  void touch() const noexcept { static_cast<void>(value()); }

 private:
  rl::atomic<T>& value() const noexcept { return qm_relacy::find<qm_relacy::AtomicVariable<T>>(this, initial_).value; }
  T initial_;
};

}  // namespace std

#define atomic qm_relacy_atomic
