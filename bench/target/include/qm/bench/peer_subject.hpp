#pragma once
/// A peer as a subject of a bench (subjects.hpp), over its own pool, which begins empty.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <qm/arena.hpp>
#include <qm/bench/peers.hpp>
#include <qm/firmware/boot.hpp>
#include <qm/system.hpp>

#ifndef QM_BENCH_OF_PEERS
#define QM_BENCH_OF_PEERS 0
#endif

namespace qm::bench {

/// Whether this is the bench's image for peers only.
inline constexpr bool kOfPeers = QM_BENCH_OF_PEERS != 0;

template <class Peer>
class PeerSubject {
 public:
  static constexpr std::string_view kName = Peer::kName;
  explicit PeerSubject(std::size_t = 0) noexcept : pool_(base_arena().allocate(kPoolBytes)) {
    if (pool_ == 0 || !Peer::start(reinterpret_cast<void*>(pool_), kPoolBytes)) firmware::panic("bench: no pool");
  }
  ~PeerSubject() { base_arena().free(pool_, kPoolBytes); }
  PeerSubject(const PeerSubject&) = delete;
  PeerSubject& operator=(const PeerSubject&) = delete;
  [[gnu::always_inline]] void* allocate(std::size_t size) noexcept { return Peer::allocate(size); }
  [[gnu::always_inline]] void free(void* block) noexcept { Peer::free(block); }
  [[gnu::always_inline]] void* reallocate(void* block, std::size_t size) noexcept {
    return Peer::reallocate(block, size);
  }

 private:
  static constexpr std::size_t kPoolBytes = std::size_t{64} << 20;
  std::uintptr_t pool_;
};

}  // namespace qm::bench
