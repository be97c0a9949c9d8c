/// The costs of typical workloads on one hart, in comparison with other mallocs and the lower bound: a hot pair, pairs
/// in batches of 256, random replacement of 1000 live objects, mixed sizes with 1000 live, up to 1024 and up to
/// 65536 bytes, and the first 1000 objects.

#include <array>

#include <qm/bench/bench.hpp>
#include <qm/bench/peer_subject.hpp>
#include <qm/bench/subjects.hpp>

namespace qm::bench {
namespace {

constexpr std::size_t kSize = 64;
constexpr std::size_t kLive = 1000;
constexpr unsigned kReplacements = 100'000;

std::array<void*, kLive> live;
Distribution mallocs, frees;

template <class Subject>
Row& describe(Row& row) noexcept {
  return row.text("allocator", Subject::kName);
}

/// The result is stored after the counter was read.
template <class Subject>
unsigned long count_allocation(Subject& subject, std::size_t size, void*& result) {
  void* object = nullptr;
  const unsigned long cost = count([&] { object = subject.allocate(size); });
  result = object;
  return cost;
}

/// Including the loop: seven instructions if the allocator needs the cache as an argument.
template <class Subject>
void pair_hot() {
  constexpr unsigned kPairs = 10'000;
  Subject subject(kSize);
  for (int i = 0; i < 2; ++i) subject.free(subject.allocate(kSize));
  const unsigned long cost = count([&] {
    for (unsigned left = kPairs; left != 0; --left) subject.free(subject.allocate(kSize));
  });
  Row row("pair, hot");
  describe<Subject>(row).mean("pair mean", cost, kPairs);
}

template <class Subject>
void pair_batch() {
  constexpr std::size_t kBatch = 256;
  constexpr unsigned kBatches = 100;
  Subject subject(kSize);
  const auto batch = [&] {
    for (std::size_t i = 0; i < kBatch; ++i) live[i] = subject.allocate(kSize);
    for (std::size_t i = 0; i < kBatch; ++i) subject.free(live[i]);
  };
  batch();
  const unsigned long cost = count([&] {
    for (unsigned left = kBatches; left != 0; --left) batch();
  });
  Row row("pair, batch of 256");
  describe<Subject>(row).mean("pair mean", cost, kBatch * kBatches);
}

/// Allocates the first kLive objects, and frees them.
template <class Subject>
void cold_fill() {
  Subject subject(kSize);
  mallocs = {};
  frees = {};
  for (void*& object : live) mallocs.add(count_allocation(subject, kSize, object));
  for (void* object : live) frees.add(count([&] { subject.free(object); }));
  Row row("cold fill of 1000");
  describe<Subject>(row).distribution("malloc", mallocs).distribution("free", frees);
}

/// The most bytes live at once in the script of replace(), and the most memory that the allocator had from its source
/// at the same time. Measured in a separate run, so that no extra code runs between the counted operations.
template <class Subject, class Size>
void show_peaks(Row& row, Size size) {
  static std::array<std::size_t, kLive> sizes;
  Subject subject(kSize);
  Random random;
  const std::size_t before = Subject::taken_bytes();
  std::size_t now_live = 0, most_live = 0, most_taken = 0;
  const auto take = [&](std::size_t i) {
    sizes[i] = size(random);
    live[i] = subject.allocate(sizes[i]);
    now_live += sizes[i];
    if (now_live > most_live) most_live = now_live;
    const std::size_t taken = Subject::taken_bytes() - before;
    if (taken > most_taken) most_taken = taken;
  };
  for (std::size_t i = 0; i < kLive; ++i) take(i);
  for (unsigned left = kReplacements; left != 0; --left) {
    const std::size_t i = random.below(kLive);
    subject.free(live[i]);
    now_live -= sizes[i];
    take(i);
  }
  for (void* object : live) subject.free(object);
  row.number("peak live", most_live).number("peak heap", most_taken).mean("heap / live", most_taken, most_live);
}

template <class Subject, class Size>
void replace(std::string_view name, Size size) {
  Row row(name);
  {
    Subject subject(kSize);
    Random random;
    mallocs = {};
    frees = {};
    for (void*& object : live) object = subject.allocate(size(random));
    for (unsigned left = kReplacements; left != 0; --left) {
      void*& slot = live[random.below(kLive)];
      void* const object = slot;
      frees.add(count([&] { subject.free(object); }));
      mallocs.add(count_allocation(subject, size(random), slot));
    }
    for (void* object : live) subject.free(object);
  }
  describe<Subject>(row).distribution("malloc", mallocs).distribution("free", frees);
  if constexpr (requires { Subject::taken_bytes(); }) show_peaks<Subject>(row, size);
}

template <class Subject>
void fixed_size() {
  cold_fill<Subject>();
  pair_hot<Subject>();
  pair_batch<Subject>();
  replace<Subject>("1000 live, 64 bytes", [](Random&) { return kSize; });
}

template <class Subject, std::size_t kMost>
void sizes_to(std::string_view name) {
  replace<Subject>(name, [](Random& random) {
    std::size_t size = 16 + random.below(kMost - 15);
    settle(size);
    return size;
  });
}

template <class Subject>
void mixed_sizes() {
  sizes_to<Subject, 1024>("1000 live, 16 to 1024 bytes");
}

template <class Subject>
void large_sizes() {
  sizes_to<Subject, 65536>("1000 live, 16 to 65536 bytes");
}

}  // namespace

void run() {
  if (kOfPeers) {
    for_each_peer([]<class Peer> {
      fixed_size<PeerSubject<Peer>>();
      mixed_sizes<PeerSubject<Peer>>();
      large_sizes<PeerSubject<Peer>>();
    });
    return;
  }
  fixed_size<CacheSubject>();
  fixed_size<InlinedSubject>();
  fixed_size<HeapSubject>();
  fixed_size<PicolibcSubject>();
  fixed_size<FreeListSubject>();
  mixed_sizes<HeapSubject>();
  mixed_sizes<PicolibcSubject>();
  pair_hot<CSubject>();
  large_sizes<HeapSubject>();
}

}  // namespace qm::bench
