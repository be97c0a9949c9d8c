/// The fast paths of this build, with the additions of its options: hot pairs of 64-byte objects, loop and calls
/// included. A test compares them with the recorded figures.

#include <qm/config.h>
#include <qm/bench/bench.hpp>
#include <qm/bench/harts.hpp>
#include <qm/bench/subjects.hpp>

namespace qm::bench {
namespace {

#if defined(QM_FAST_PATH_SECTIONS)
#define QM_BENCH_PATH "sections"
#else
#define QM_BENCH_PATH "masked"
#endif
#if defined(QM_CALL_SITES)
#define QM_BENCH_SITES ", call sites"
#else
#define QM_BENCH_SITES ""
#endif
constexpr std::string_view kBuild = kCounted ? QM_BENCH_PATH ", counted" QM_BENCH_SITES : QM_BENCH_PATH QM_BENCH_SITES;
constexpr std::size_t kSize = 64;
constexpr unsigned kPairs = 1000;
constexpr unsigned kWarmUp = 64;  // pairs: a class of the heap is hot when its cache exists

template <class Subject>
void pair() {
  Subject subject(kSize);
  for (unsigned i = 0; i < kWarmUp; ++i) subject.free(subject.allocate(kSize));
  const unsigned long cost = count([&] {
    for (unsigned left = kPairs; left != 0; --left) subject.free(subject.allocate(kSize));
  });
  Row("pair, hot")
      .text("allocator", Subject::kName)
      .text("build", kBuild)
      .number("harts", harts())
      .mean("mean", cost, kPairs);
}

/// Calls through a hook, which shows the cost of call sites; in a build without them the figures are those of the pairs
/// above.
void show_hooked(std::string_view allocator, std::string_view state, unsigned long cost) {
  Row("pair, hooked")
      .text("allocator", allocator)
      .text("build", kBuild)
      .text("accounting", state)
      .number("harts", harts())
      .mean("mean", cost, kPairs);
}

void hooked(std::string_view state) {
  {
    CacheSubject subject(kSize);
    for (unsigned i = 0; i < kWarmUp; ++i) subject.free(subject.allocate(kSize));
    show_hooked(subject.kName, state, count([&] {
                  for (unsigned left = kPairs; left != 0; --left) subject.free(QM_ALLOC(subject.cache->allocate));
                }));
  }
  {
    InlinedSubject subject(kSize);
    for (unsigned i = 0; i < kWarmUp; ++i) subject.free(subject.allocate(kSize));
    show_hooked(subject.kName, state, count([&] {
                  for (unsigned left = kPairs; left != 0; --left) subject.free(QM_ALLOC(Inlined::allocate));
                }));
  }
  HeapSubject subject;
  for (unsigned i = 0; i < kWarmUp; ++i) subject.free(subject.allocate(kSize));
  show_hooked(subject.kName, state, count([&] {
                for (unsigned left = kPairs; left != 0; --left) subject.free(QM_ALLOC(heap::allocate, kSize));
              }));
}

}  // namespace

void run() {
  pair<CacheSubject>();
  pair<InlinedSubject>();
  pair<HeapSubject>();
  if constexpr (!kCallSites) return hooked("none");
  hooked("on");
  if constexpr (kCallSites) call_sites::set_on(false);
  hooked("off");
  if constexpr (kCallSites) call_sites::set_on(true);
}

}  // namespace qm::bench
