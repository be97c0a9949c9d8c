/// A host program for poison.sh: poison CASE. Without a case it does 10000 random, correct operations; each case makes
/// one bad access.

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string_view>

#include <qm/cache.hpp>
#include <qm/heap.hpp>
#include <qm/system.hpp>

namespace {

constexpr std::size_t kObject = 40;
constexpr std::size_t kLarge = 60000;
constexpr std::size_t kRamBytes = std::size_t{4} << 20;
void* const ram = std::malloc(kRamBytes);

void write_to(void* memory, std::size_t offset) { static_cast<volatile unsigned char*>(memory)[offset] = 1; }
[[nodiscard]] unsigned read_from(void* memory, std::size_t offset) {
  return static_cast<volatile unsigned char*>(memory)[offset];
}

qm::Cache* create(const char* name, bool is_constructed) {
  qm::CacheConfig config;
  config.name = name;
  config.object_size = kObject;
  if (is_constructed) {
    config.constructor = [](void* object, void*) noexcept {
      *static_cast<int*>(object) = 1;  // the rest is not initialized
      return true;
    };
    config.destructor = [](void* object, void*) noexcept { *static_cast<int*>(object) -= 1; };
  }
  return qm::Cache::create(config);
}

/// @returns whether each block and object held what was written to it.
bool run_correctly() {
  struct Held {
    unsigned char* memory;
    std::size_t size;
    qm::Cache* cache;
    unsigned char pattern;
  };
  qm::Cache* const caches[] = {create("plain", false), create("constructed", true)};
  Held held[200] = {};
  std::minstd_rand random(1);
  bool is_right = true;
  const auto fill = [&](Held& one) {
    one.pattern = static_cast<unsigned char>(random());
    const std::size_t first = one.cache == caches[1] ? sizeof(int) : 0;
    std::memset(one.memory + first, one.pattern, one.size - first);
  };
  for (unsigned i = 0; i < 10000; ++i) {
    Held& one = held[random() % 200];
    if (one.memory == nullptr) {
      const unsigned kind = random() % 4;
      one.cache = kind < 2 ? caches[kind] : nullptr;
      one.size = one.cache != nullptr ? kObject : 1 + random() % (kind == 2 ? 300 : 30000);
      one.memory =
          static_cast<unsigned char*>(one.cache != nullptr ? one.cache->allocate() : qm::heap::allocate(one.size));
      if (one.memory != nullptr) fill(one);
    } else if (one.cache == nullptr && random() % 4 == 0) {
      const std::size_t size = 1 + random() % 30000;
      auto* const moved = static_cast<unsigned char*>(qm::heap::reallocate(one.memory, size));
      if (moved == nullptr) continue;
      is_right = is_right && read_from(moved, (size < one.size ? size : one.size) - 1) == one.pattern;
      one.memory = moved;
      one.size = size;
      fill(one);
    } else {
      is_right = is_right && read_from(one.memory, one.size - 1) == one.pattern;
      one.cache != nullptr ? one.cache->free(one.memory) : qm::heap::free(one.memory);
      one.memory = nullptr;
    }
    if (i % 1000 == 0) {
      for (qm::Cache* cache : caches) cache->reap();
    }
  }
  qm::shutdown();
  std::memset(ram, 0, kRamBytes);  // the memory is the program's again
  return is_right;
}

/// @returns whether the case is known.
bool run(std::string_view name) {
  qm::Cache* const cache = create("objects", name == "constructed");
  void* const object = cache->allocate();
  void* const block = qm::heap::allocate(kLarge);
  void* const behind = qm::heap::allocate(kLarge);
  if (object == nullptr || block == nullptr || behind == nullptr) return false;
  if (name == "overflow") {
    write_to(object, kObject);
  } else if (name == "requested") {
    write_to(cache->allocate(21), 21);
  } else if (name == "freed" || name == "constructed") {
    cache->free(object);
    static_cast<void>(read_from(object, 0));
  } else if (name == "block") {
    qm::heap::free(block);
    write_to(block, kLarge / 2);
  } else {
    return false;
  }
  return true;
}

}  // namespace

int main(int count, char** arguments) {
  const qm::MemoryRange range{reinterpret_cast<std::uintptr_t>(ram), kRamBytes};
  if (qm::initialize({&range, 1}, 1, nullptr) != qm::Status::kOk) return 2;
  return (count > 1 ? run(arguments[1]) : run_correctly()) ? 0 : 2;
}
