// Marks: their contents, and the changes since a mark.

#include "trace_fixture.hpp"

#include <qm/trace/marks.hpp>

namespace trace_marks_test {

using namespace qm;
using test::allocate_by;
using trace::Mark;
using trace::StackReport;
using trace::StackRow;

class Marks : public qm::test::TraceTest {
 protected:
  static Status set(const char* name) {
    StackReport report;
    EXPECT_EQ(report.begin(), Status::kOk);
    return trace::set_mark(report, name);
  }
  /// @returns the objects since the mark.
  static trace::StackTotals since(const char* name) {
    StackReport report;
    EXPECT_EQ(report.begin(), Status::kOk);
    const Mark* mark = trace::find_mark(report, name);
    if (mark == nullptr) return {};
    report.select_all();
    report.count_since(mark->sequence);
    return report.totals();
  }
  static trace::Coverage coverage(const char* name) {
    StackReport turn;
    EXPECT_EQ(turn.begin(), Status::kOk);
    const Mark* mark = trace::find_mark(turn, name);
    EXPECT_NE(mark, nullptr);
    return trace::coverage_since(mark);
  }
  static unsigned marks() {
    StackReport turn;
    EXPECT_EQ(turn.begin(), Status::kOk);
    unsigned count = 0;
    for (const Mark* mark = next_mark(turn, nullptr); mark != nullptr; mark = next_mark(turn, mark)) ++count;
    return count;
  }
};

TEST_F(Marks, tell_what_was_allocated_since_and_is_still_out) {
  Cache* cache = make("packet");
  trace::start("packet");
  void* before = allocate_by<1>(*cache);
  ASSERT_EQ(set("first"), Status::kOk);
  void* between = allocate_by<2>(*cache);
  ASSERT_EQ(set("second"), Status::kOk);
  void* after = allocate_by<3>(*cache);
  cache->free(allocate_by<3>(*cache));
  EXPECT_EQ(since("first").objects, 2U);
  EXPECT_EQ(since("first").older_objects, 1U);
  EXPECT_EQ(since("second").objects, 1U);
  EXPECT_EQ(since("second").bytes, 64U);
  cache->free(before);
  cache->free(after);
  EXPECT_EQ(since("first").objects, 1U);
  EXPECT_EQ(since("first").older_objects, 0U);
  EXPECT_EQ(since("second").objects, 0U);
  cache->free(between);
}

TEST_F(Marks, remember_what_was_out) {
  Cache* cache = make("packet");
  trace::start("packet");
  void* held[] = {allocate_by<1>(*cache), allocate_by<2>(*cache)};
  ASSERT_EQ(set("here"), Status::kOk);
  for (void* object : held) cache->free(object);
  StackReport turn;
  ASSERT_EQ(turn.begin(), Status::kOk);
  const Mark* mark = trace::find_mark(turn, "here");
  ASSERT_NE(mark, nullptr);
  EXPECT_EQ(mark->objects, 2U);
  EXPECT_EQ(mark->bytes, 128U);
  const trace::SourceThen* then = mark->find("packet");
  ASSERT_NE(then, nullptr);
  EXPECT_EQ(then->holding.objects, 2U);
  EXPECT_EQ(then->holding.amount, 128U);
  EXPECT_EQ(mark->find("nothing"), nullptr);
}

TEST_F(Marks, are_set_anew_by_their_name_and_eight_at_most) {
  ASSERT_EQ(set("a"), Status::kOk);
  ASSERT_EQ(set("a"), Status::kOk);
  EXPECT_EQ(marks(), 1U);
  char name[] = "0";
  for (; marks() < trace::kMaxMarks; ++name[0]) ASSERT_EQ(set(name), Status::kOk);
  EXPECT_EQ(set("more"), Status::kNoMemory);
  EXPECT_EQ(set("a"), Status::kOk) << "one that is there";
  {
    StackReport turn;
    ASSERT_EQ(turn.begin(), Status::kOk);
    EXPECT_EQ(trace::drop_mark(turn, "more"), Status::kNotFound);
    EXPECT_EQ(trace::drop_mark(turn, "a"), Status::kOk);
    EXPECT_EQ(trace::find_mark(turn, "a"), nullptr);
  }
  EXPECT_EQ(set("more"), Status::kOk);
  for (const char* bad : {"", "two words", "star*", "a-name-of-thirty-two-characters.."})
    EXPECT_EQ(set(bad), Status::kInvalid);
}

TEST_F(Marks, give_their_memory_back) {
  RegistryCursor<Arena> arenas;
  Arena* ktrace = arenas.find("ktrace");
  ASSERT_NE(ktrace, nullptr);
  const std::size_t before = ktrace->stats().allocated;
  for (int i = 0; i < 3; ++i) ASSERT_EQ(set("a"), Status::kOk);
  EXPECT_GT(ktrace->stats().allocated, before);
  StackReport turn;
  ASSERT_EQ(turn.begin(), Status::kOk);
  ASSERT_EQ(trace::drop_mark(turn, "a"), Status::kOk);
  EXPECT_EQ(ktrace->stats().allocated, before);
}

TEST_F(Marks, take_memory_for_each_stack_that_they_remember) {
  Arena* const ktrace = RegistryCursor<Arena>().find("ktrace");
  ASSERT_NE(ktrace, nullptr);
  const auto bytes_of_mark = [&] {
    EXPECT_EQ(set("a"), Status::kOk);
    const std::size_t with = ktrace->stats().allocated;
    StackReport turn;
    EXPECT_EQ(turn.begin(), Status::kOk);
    EXPECT_EQ(trace::drop_mark(turn, "a"), Status::kOk);
    return with - ktrace->stats().allocated;
  };
  Cache* cache = make("packet");
  ASSERT_EQ(trace::start("packet").status, Status::kOk);
  void* first = test::allocate_by<1>(*cache);
  const std::size_t with_one = bytes_of_mark();
  void* const others[] = {test::allocate_by<2>(*cache), test::allocate_by<3>(*cache), test::allocate_by<4>(*cache),
                          test::allocate_by<5>(*cache), test::allocate_by<6>(*cache), test::allocate_by<7>(*cache)};
  EXPECT_GT(bytes_of_mark(), with_one);
  for (void* object : others) cache->free(object);
  cache->free(first);
}

TEST_F(Marks, outlast_caches) {
  Cache* cache = make("packet");
  trace::start("packet");
  cache->free(allocate_by<1>(*cache));
  ASSERT_EQ(set("here"), Status::kOk);
  ASSERT_EQ(Cache::destroy(cache), Status::kOk);
  EXPECT_EQ(since("here").objects, 0U);
  // A new cache of that name with a new traced source: it was not recorded from the mark on.
  cache = make("packet");
  trace::start("packet");
  void* object = allocate_by<1>(*cache);
  EXPECT_EQ(since("here").objects, 1U);
  EXPECT_EQ(coverage("here").whole, 0U);
  EXPECT_EQ(coverage("here").partial, 1U);
  cache->free(object);
}

TEST_F(Marks, know_who_was_recorded_all_the_time) {
  Cache* whole = make("whole");
  Cache* late = make("late");
  Cache* stopped = make("stopped");
  Cache* reset = make("reset");
  Cache* again = make("again");
  make("untraced");
  for (const char* name : {"whole", "stopped", "reset", "again"}) trace::start(name);
  ASSERT_EQ(set("here"), Status::kOk);
  EXPECT_EQ(coverage("here").whole, 4U);
  EXPECT_EQ(coverage("here").partial, 0U);
  EXPECT_TRUE(coverage("here").complete());
  trace::start("whole");  // already on: nothing changes
  EXPECT_TRUE(coverage("here").complete());
  trace::start("late");
  EXPECT_EQ(coverage("here").partial, 1U);
  trace::stop("stopped");
  EXPECT_EQ(coverage("here").partial, 2U);
  trace::reset("reset");
  EXPECT_EQ(coverage("here").partial, 3U);
  trace::stop("again");
  trace::start("again");
  EXPECT_EQ(coverage("here").partial, 4U);
  EXPECT_EQ(coverage("here").whole, 1U);
  ASSERT_EQ(set("later"), Status::kOk);
  EXPECT_EQ(coverage("later").whole, 4U) << "all but the one that is stopped";
  EXPECT_EQ(coverage("later").partial, 0U);
  for (Cache* cache : {whole, late, stopped, reset, again}) EXPECT_EQ(Cache::destroy(cache), Status::kOk);
}

TEST_F(Marks, know_that_a_younger_cache_was_recorded_from_its_creation_on) {
  ASSERT_EQ(set("here"), Status::kOk);
  ASSERT_EQ(trace::trace_from_creation("young*").status, Status::kOk);
  make("young");
  EXPECT_EQ(coverage("here").whole, 1U);
  EXPECT_EQ(coverage("here").partial, 0U);
  trace::stop("young");
  trace::start("young");
  EXPECT_EQ(coverage("here").partial, 1U);
}

TEST_F(Marks, count_what_is_dropped_since) {
  begin_again({.record_bytes = 28});
  Cache* cache = make("packet");
  trace::start("packet");
  void* held[] = {allocate_by<1>(*cache), allocate_by<1>(*cache), nullptr};
  ASSERT_EQ(trace::cache_trace(*cache).figures.all_dropped(), 1U);
  ASSERT_EQ(set("here"), Status::kOk);
  EXPECT_EQ(coverage("here").dropped, 0U);
  held[2] = allocate_by<1>(*cache);
  EXPECT_EQ(coverage("here").dropped, 1U);
  EXPECT_FALSE(coverage("here").complete());
  for (void* object : held) cache->free(object);
}

TEST_F(Marks, take_no_cache_for_the_one_whose_name_and_place_in_the_trace_it_has) {
  Cache* cache = make("packet");
  trace::start("packet");
  ASSERT_EQ(set("here"), Status::kOk);
  ASSERT_EQ(Cache::destroy(cache), Status::kOk);
  ASSERT_EQ(trace::trace_from_creation("other*").status, Status::kOk);
  make("other");  // it reuses the traced source
  cache = make("packet");
  void* leaked = allocate_by<1>(*cache);
  trace::start("packet");
  EXPECT_EQ(coverage("here").whole, 1U);  // the cache `other`
  EXPECT_EQ(coverage("here").partial, 1U);
  cache->free(leaked);
}

TEST_F(Marks, count_what_is_dropped_by_a_cache_made_again_from_its_beginning) {
  begin_again({.record_bytes = 28});
  Cache* cache = make("packet");
  trace::start("packet");
  void* held[] = {allocate_by<1>(*cache), allocate_by<1>(*cache), allocate_by<1>(*cache)};
  ASSERT_EQ(dropped(*cache), 2U);
  ASSERT_EQ(set("here"), Status::kOk);
  for (void* object : held) cache->free(object);
  ASSERT_EQ(Cache::destroy(cache), Status::kOk);
  cache = make("packet");
  trace::start("packet");
  EXPECT_EQ(coverage("here").dropped, 0U);
  for (void*& object : held) object = allocate_by<1>(*cache);
  EXPECT_EQ(coverage("here").dropped, 2U);
  for (void* object : held) cache->free(object);
}

TEST_F(Marks, tell_which_stacks_have_grown) {
  void* (*const by[])(Cache&) = {nullptr,        allocate_by<1>, allocate_by<2>,
                                 allocate_by<3>, allocate_by<4>, allocate_by<5>};
  constexpr unsigned kMark = 0;
  const unsigned steps[] = {1, 2, 3, kMark, 2, 3, 4, 5};
  Cache* cache = make("packet");
  trace::start("packet");
  void* held[8] = {};
  static volatile unsigned end = 8;
  for (unsigned i = 0; i < end; ++i) {  // one call, so that a path's stack is always the same
    if (steps[i] == kMark) {
      ASSERT_EQ(set("here"), Status::kOk);
    } else {
      held[i] = by[steps[i]](*cache);
    }
  }
  for (const unsigned back : {0U, 1U, 7U}) cache->free(held[back]);
  // 1 has fewer, 2 has another object, 3 and 4 have one more, 5 has none again.
  StackReport report;
  ASSERT_EQ(report.begin(), Status::kOk);
  report.select_all();
  report.count_growth(trace::find_mark(report, "here"));
  EXPECT_EQ(report.totals().stacks, 2U);
  EXPECT_EQ(report.totals().bytes, 128U);
  StackRow row;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(report.next(row));
    EXPECT_EQ(row.objects, 1U);
    EXPECT_EQ(row.bytes, 64U);
  }
  EXPECT_FALSE(report.next(row));
  report.count_growth(nullptr);  // since boot
  EXPECT_EQ(report.totals().stacks, 3U);
  EXPECT_EQ(report.totals().bytes, 256U);
  for (const unsigned rest : {2U, 4U, 5U, 6U}) cache->free(held[rest]);
}

TEST_F(Marks, are_not_set_without_memory) {
  ASSERT_EQ(set("there"), Status::kOk);
  while (base_arena().allocate(4096, Fit::kInstant, nullptr, WaitPolicy::kQuiet) != 0) {
  }
  Status status = Status::kOk;
  char name[] = "0";
  for (; status == Status::kOk && name[0] < '9'; ++name[0]) status = set(name);
  EXPECT_EQ(status, Status::kNoMemory);
  StackReport turn;
  ASSERT_EQ(turn.begin(), Status::kOk);
  EXPECT_NE(trace::find_mark(turn, "there"), nullptr);
}

}  // namespace trace_marks_test
