/// The fast paths of this build, with whatever its options add: hot pairs of 64-byte objects, loop and calls included. A test
/// holds these against the recorded figures.

#include <qm/bench/bench.hpp>
#include <qm/bench/harts.hpp>
#include <qm/bench/subjects.hpp>

namespace qm::bench {
namespace {

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
