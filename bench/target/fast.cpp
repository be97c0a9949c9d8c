/// The fast paths of this build, with whatever its options add: hot pairs of 64-byte objects, loop and calls included. A test
/// holds these against the recorded figures.

#include <qm/bench/bench.hpp>
#include <qm/bench/harts.hpp>
#include <qm/bench/subjects.hpp>
#include <qm/firmware/boot.hpp>
#include <qm/inline_cache.hpp>

namespace qm::bench {
namespace {

QM_INLINE_CACHE(Inlined);
QM_DEFINE_INLINE_CACHE(Inlined);

struct InlinedSubject {
  static constexpr std::string_view kName = "cache, inlined";
  explicit InlinedSubject(std::size_t size) noexcept {
    if (Inlined::create({.name = "inlined", .object_size = size}) != Status::kOk) firmware::panic("bench: no cache");
  }
  ~InlinedSubject() {
    if (Inlined::destroy() != Status::kOk) firmware::panic("bench: the cache is in use");
  }
  InlinedSubject(const InlinedSubject&) = delete;
  InlinedSubject& operator=(const InlinedSubject&) = delete;
  [[gnu::always_inline]] void* allocate(std::size_t) noexcept { return Inlined::allocate(); }
  [[gnu::always_inline]] void free(void* object) noexcept { Inlined::free(object); }
};

#if defined(QM_FAST_PATH_SECTIONS)
constexpr std::string_view kBuild = kCounted ? "sections, counted" : "sections";
#else
constexpr std::string_view kBuild = kCounted ? "masked, counted" : "masked";
#endif

template <class Subject>
void pair() {
  constexpr std::size_t kSize = 64;
  constexpr unsigned kPairs = 1000;
  Subject subject(kSize);
  for (int i = 0; i < 2; ++i) subject.free(subject.allocate(kSize));
  const unsigned long cost = count([&] {
    for (unsigned left = kPairs; left != 0; --left) subject.free(subject.allocate(kSize));
  });
  Row("pair, hot").text("allocator", Subject::kName).text("build", kBuild).number("harts", harts()).mean("mean", cost, kPairs);
}

}  // namespace

void run() {
  pair<CacheSubject>();
  pair<InlinedSubject>();
  pair<HeapSubject>();
}

}  // namespace qm::bench
