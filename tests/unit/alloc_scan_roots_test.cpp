/// Each kind of root of a leak scan keeps an object that nothing else refers to. A scan with the defect that it skips one
/// kind reports exactly that object.

#include <support/system_fixture.hpp>

#include <array>
#include <cstring>

#include <qm/hal/port.hpp>
#include <qm/scan.hpp>

#include "scan/scan_defect.hpp"

namespace alloc_scan_roots_test {

using namespace qm;

/// Where the pointers to the objects are; of the word, its complement.
struct Places {
  void* in_range;
  std::array<void*, 16> stack;
  std::uintptr_t not_word;
  void* declared;
};
Places places;

#if defined(QM_HARDWARE_ROOT)
constexpr bool kHardware = true;
void keep_by_hardware(void* object) { hal::hardware_root = reinterpret_cast<std::uintptr_t>(object); }
std::uintptr_t kept_by_hardware() { return hal::hardware_root; }
#else  // the port of the host names none
constexpr bool kHardware = false;
void keep_by_hardware(void*) {}
std::uintptr_t kept_by_hardware() { return 0; }
#endif

constexpr std::size_t kUsed = 8;  // the stack's words from here on are in use

void visit(scan::Roots& roots, std::uintptr_t) noexcept {
  const auto start = reinterpret_cast<std::uintptr_t>(&places.in_range);
  roots.range(start, start + sizeof places.in_range);
  const auto low = reinterpret_cast<std::uintptr_t>(places.stack.data());
  roots.stack({low, low + sizeof places.stack}, reinterpret_cast<std::uintptr_t>(&places.stack[kUsed]));
  roots.word(~places.not_word);
}
constinit const scan::Platform kPlatform{.visit = visit, .memory = {}};

class ScanRoots : public test::SystemTest {
 protected:
  void SetUp() override {
    SystemTest::SetUp();
    places = {};
    scan::set_platform(&kPlatform);
    cache_ = Cache::create({.name = "node", .object_size = 96});
    ASSERT_NE(cache_, nullptr);
  }
  void TearDown() override {
    keep_by_hardware(nullptr);
    scan::scan_defect = scan::ScanDefect::kNone;
    scan::set_platform(nullptr);
    SystemTest::TearDown();
  }
  [[nodiscard]] void* node() const {
    void* const object = cache_->allocate();
    EXPECT_NE(object, nullptr);
    std::memset(object, 0, 96);
    return object;
  }

  /// Keeps an object by a root of each kind. The addresses stay on no stack that is scanned.
  [[gnu::noinline]] void keep_one_of_each() {
    places.in_range = node();
    places.stack[kUsed] = node();
    places.not_word = ~reinterpret_cast<std::uintptr_t>(node());
    places.declared = node();
    if (kHardware) keep_by_hardware(node());
  }
  /// The object that only the skipped kind of root keeps; 0: no kind is skipped.
  [[nodiscard]] static std::uintptr_t skipped() {
    switch (scan::scan_defect) {
      case scan::ScanDefect::kNoRanges: return reinterpret_cast<std::uintptr_t>(places.in_range);
      case scan::ScanDefect::kNoStacks: return reinterpret_cast<std::uintptr_t>(places.stack[kUsed]);
      case scan::ScanDefect::kNoWords: return ~places.not_word;
      case scan::ScanDefect::kNoDeclared: return reinterpret_cast<std::uintptr_t>(places.declared);
      case scan::ScanDefect::kNoHardware: return kept_by_hardware();
      default: return 0;
    }
  }
  template <class Run>
  static void expect_the_skipped_one(const Run& run) {
    LeakScan scan;
    EXPECT_EQ(run(scan), Status::kOk);
    EXPECT_EQ(scan.summary().live, kHardware ? 5U : 4U);
    EXPECT_EQ(scan.summary().leaked, skipped() != 0 ? 1U : 0U);
    ASSERT_EQ(scan.groups().size(), skipped() != 0 ? 1U : 0U);
    if (skipped() != 0) {
      EXPECT_EQ(scan.groups()[0].examples[0], skipped());
    }
  }

  Cache* cache_ = nullptr;
};

TEST_F(ScanRoots, each_kind_keeps_its_object_and_a_scan_that_skips_one_reports_it) {
  using enum scan::ScanDefect;
  keep_one_of_each();
  qm_scan_root declared{&places.declared, sizeof places.declared, "declared", nullptr};
  ASSERT_EQ(scan::add_root(declared), Status::kOk);
  for (const auto defect : {kNone, kNoRanges, kNoStacks, kNoWords, kNoDeclared, kNoHardware}) {
    scan::scan_defect = defect;
    EXPECT_EQ(skipped() == 0, defect == kNone || (defect == kNoHardware && !kHardware));
    expect_the_skipped_one([](LeakScan& scan) { return scan.run(); });
    expect_the_skipped_one([](LeakScan& scan) { return scan.run_sliced(); });
  }
  EXPECT_EQ(scan::remove_root(declared), Status::kOk);
}

}  // namespace alloc_scan_roots_test
