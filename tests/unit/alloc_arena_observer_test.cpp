// The calls from an arena to the trace: segments are recorded after their allocation and forgotten before release.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include <qm/arena.hpp>
#include <qm/detail/observer.hpp>

#include "support/arena_fixture.hpp"

namespace qm {
namespace alloc_arena_observer_test {

/// A trace of one page: the handle is the number of the record, and record() requires prepare() the first time.
class Page final : public Observer {
 public:
  void prepare(const Allocation&, void*, Prepared& prepared) noexcept override {
    prepared.ready = true;
    ++prepared_;
  }
  bool record(const Allocation& allocation, void* object, Prepared&) noexcept override {
    const auto start = reinterpret_cast<std::uintptr_t>(object);
    last = allocation;
    std::uint32_t* handle = allocation.arena->handle(start);
    if (handle == nullptr) return true;
    *handle = ++recorded;
    return true;
  }
  void release(Prepared&) noexcept override { ++released_; }
  void forget(Cache&, void*) noexcept override {}
  void forget(Arena& arena, std::uintptr_t start) noexcept override {
    const std::uint32_t* handle = arena.handle(start);
    forgotten += handle != nullptr;
    last_forgotten = handle != nullptr ? *handle : 0;
  }
  void resized(Arena& arena, std::uintptr_t start, std::size_t requested, std::size_t) noexcept override {
    const std::uint32_t* handle = arena.handle(start);
    ++resizes;
    last_resized = handle != nullptr ? *handle : 0;
    last_size = requested;
  }
  void release_handles(std::uint32_t*, std::size_t) noexcept override {}
  void created(Cache&) noexcept override {}
  void destroyed(Cache&) noexcept override {}
  void destroyed(Arena&) noexcept override { ++arenas_destroyed; }

  [[nodiscard]] bool balanced() const { return prepared_ == released_; }

  Allocation last;
  std::uint32_t recorded = 0;
  std::uint32_t forgotten = 0;
  std::uint32_t last_forgotten = 0;
  std::uint32_t resizes = 0;
  std::uint32_t last_resized = 0;
  std::size_t last_size = 0;
  std::uint32_t arenas_destroyed = 0;

 private:
  std::uint32_t prepared_ = 0;
  std::uint32_t released_ = 0;
};

class ArenaObserver : public test::ArenaTest {
 protected:
  void SetUp() override {
    ArenaTest::SetUp();
    set_observer(&page_);
  }
  void TearDown() override {
    EXPECT_TRUE(page_.balanced());
    ArenaTest::TearDown();
    EXPECT_EQ(page_.arenas_destroyed, 1U);
    set_observer(nullptr);
  }
  void set_state(std::uint32_t state) { arena_.state().store(state, std::memory_order_release); }
  Page page_;
};

TEST_F(ArenaObserver, sees_nothing_while_off) {
  make(16, 16, 1024);
  EXPECT_EQ(arena_.free(arena_.allocate(16), 16), Status::kOk);
  EXPECT_EQ(page_.recorded, 0U);
  EXPECT_EQ(page_.forgotten, 0U);
}

TEST_F(ArenaObserver, sees_the_free_of_a_segment_of_one_number) {
  make(1, 1, 10);
  set_state(trace_state::kRecord | trace_state::kWatch);
  EXPECT_EQ(arena_.free(arena_.allocate(1), 1), Status::kOk);
  EXPECT_EQ(page_.recorded, 1U);
  EXPECT_EQ(page_.last_forgotten, 1U);
}

TEST_F(ArenaObserver, sees_each_segment_once_with_the_size_asked_for) {
  make(16, 16, 1024);
  set_state(trace_state::kRecord | trace_state::kWatch);
  static const CallSite kSite = QM_SITE_VALUE("here.cpp", "here", nullptr, 1);
  const CallSite* const site = &kSite;
  const std::uintptr_t plain = arena_.allocate(20, Fit::kInstant, site);
  EXPECT_EQ(page_.recorded, 1U);
  EXPECT_EQ(page_.last.arena, &arena_);
  EXPECT_EQ(page_.last.cache, nullptr);
  EXPECT_EQ(page_.last.requested, 20U);
  EXPECT_EQ(page_.last.site, site);
  EXPECT_NE(page_.last.frame, 0U);
  const std::uintptr_t aligned = arena_.allocate_constrained(50, {.align = 128});
  EXPECT_EQ(page_.recorded, 2U);
  EXPECT_EQ(page_.last.requested, 50U);
  EXPECT_EQ(arena_.allocate(5000), 0U);
  EXPECT_EQ(arena_.allocate_constrained(16, {.min = 4096}), 0U);
  EXPECT_EQ(page_.recorded, 2U);
  EXPECT_EQ(arena_.free(plain, 20), Status::kOk);
  EXPECT_EQ(page_.last_forgotten, 1U);
  EXPECT_EQ(arena_.free_constrained(aligned, 50), Status::kOk);
  EXPECT_EQ(page_.last_forgotten, 2U);
  EXPECT_EQ(page_.forgotten, 2U);
}

TEST_F(ArenaObserver, a_refused_free_forgets_nothing) {
  make(16, 16, 1024);
  set_state(trace_state::kRecord | trace_state::kWatch);
  const std::uintptr_t start = arena_.allocate(64);
  EXPECT_EQ(arena_.free(start, 16), Status::kMismatch);
  EXPECT_EQ(arena_.free(start + 16, 48), Status::kNotFound);
  EXPECT_EQ(page_.forgotten, 0U);
  EXPECT_EQ(arena_.free(start), Status::kOk);
  EXPECT_EQ(page_.forgotten, 1U);
}

TEST_F(ArenaObserver, watching_forgets_and_records_no_more) {
  make(16, 16, 1024);
  set_state(trace_state::kRecord | trace_state::kWatch);
  const std::uintptr_t old = arena_.allocate(16);
  set_state(trace_state::kWatch | trace_state::kSettled);
  const std::uintptr_t young = arena_.allocate(16);
  EXPECT_EQ(page_.recorded, 1U);
  EXPECT_EQ(*arena_.handle(young), 0U);
  EXPECT_EQ(arena_.free(young, 16), Status::kOk);
  EXPECT_EQ(arena_.free(old, 16), Status::kOk);
  EXPECT_EQ(page_.last_forgotten, 1U);
}

TEST_F(ArenaObserver, a_resize_in_place_keeps_the_record_and_tells_the_new_size) {
  make(16, 16, 1024);
  const std::uintptr_t before = arena_.allocate(16);
  EXPECT_EQ(arena_.resize_in_place(before, 16, 40), Status::kOk);
  EXPECT_EQ(page_.resizes, 0U);  // off
  set_state(trace_state::kRecord | trace_state::kWatch);
  const std::uintptr_t start = arena_.allocate(32);
  const std::uintptr_t wall = arena_.allocate_constrained(16, {.min = start + 96});
  const std::uint32_t number = *arena_.handle(start);
  EXPECT_EQ(arena_.resize_in_place(start, 32, 90), Status::kOk);
  EXPECT_EQ(page_.last_resized, number);
  EXPECT_EQ(page_.last_size, 90U);
  EXPECT_EQ(arena_.resize_in_place(start, 90, 20), Status::kOk);
  EXPECT_EQ(page_.last_size, 20U);
  EXPECT_EQ(page_.resizes, 2U);
  // A refused operation is not reported.
  EXPECT_EQ(arena_.resize_in_place(start, 20, 112), Status::kNoMemory);
  EXPECT_EQ(arena_.resize_in_place(start, 90, 20), Status::kMismatch);
  EXPECT_EQ(arena_.resize_in_place(start + 16, 16, 32), Status::kNotFound);
  EXPECT_EQ(arena_.resize_in_place(start, 20, 0), Status::kInvalid);
  EXPECT_EQ(page_.resizes, 2U);
  // The handle is in the boundary tag of the remaining segment.
  EXPECT_EQ(*arena_.handle(start), number);
  EXPECT_EQ(arena_.free(start, 20), Status::kOk);
  EXPECT_EQ(page_.last_forgotten, number);
  EXPECT_EQ(arena_.free(wall), Status::kOk);
  EXPECT_EQ(arena_.free(before), Status::kOk);
}

TEST_F(ArenaObserver, a_new_segment_does_not_inherit_the_handle_of_an_old_one) {
  make(16, 16, 32);
  set_state(trace_state::kRecord | trace_state::kWatch);
  const std::uintptr_t first = arena_.allocate(16);
  const std::uintptr_t second = arena_.allocate(16);
  EXPECT_EQ(arena_.free(first, 16), Status::kOk);
  EXPECT_EQ(arena_.free(second, 16), Status::kOk);
  set_state(0);
  const std::uintptr_t whole = arena_.allocate(32);
  EXPECT_EQ(*arena_.handle(whole), 0U);
  EXPECT_EQ(arena_.free(whole, 32), Status::kOk);
}

TEST_F(ArenaObserver, sees_the_spans_that_an_importer_takes_and_gives_back) {
  make(64, 64, 1024);
  set_state(trace_state::kRecord | trace_state::kWatch);
  Arena importer;
  ASSERT_EQ(importer.initialize({.name = "importer", .quantum = 16, .source = &arena_}), Status::kOk);
  const std::uintptr_t plain = importer.allocate(16);
  EXPECT_EQ(page_.recorded, 1U);
  EXPECT_EQ(page_.last.requested, 64U);
  const std::uintptr_t constrained = importer.allocate_constrained(64, {.align = 64, .min = 256});
  EXPECT_EQ(page_.recorded, 2U);
  EXPECT_EQ(importer.free(plain, 16), Status::kOk);
  EXPECT_EQ(importer.free_constrained(constrained, 64), Status::kOk);
  importer.reap();
  EXPECT_EQ(page_.forgotten, 2U);
  EXPECT_EQ(importer.destroy(), Status::kOk);
  page_.arenas_destroyed = 0;  // the importer's
}

}  // namespace alloc_arena_observer_test
}  // namespace qm
