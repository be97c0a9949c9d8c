/// slab_trace, byte for byte, like the reports of console_reports_test.cpp.

#include "console_reports_fixture.hpp"

#include <qm/heap.hpp>
#include <qm/detail/slab_pass.hpp>

namespace console_slab_trace_test {

using namespace qm;
using namespace qm::test;
using console::Symbol;

class SlabTrace : public ConsoleReports {};

constexpr const char* kUsage = "error: usage: slab_trace start|stop|print|reset SLAB_NAME\r\n";

TEST_F(SlabTrace, has_akaros_usage_line_whatever_is_wrong) {
  for (const char* line : {"slab_trace", "slab_trace start", "slab_trace packet", "slab_trace frob packet",
                           "slab_trace frob nothing", "slab_trace start packet more", "slab_trace print -v",
                           "slab_trace print packet packet", "slab_trace -v print", "slab_trace status a b",
                           "slab_trace start packet often", "slab_trace print -v -v", "slab_trace stop a b c d"}) {
    EXPECT_EQ(command(line), kUsage) << line;
    EXPECT_EQ(bench.request(line).status, 2u) << line;
  }
}

TEST_F(SlabTrace, says_what_is_kept_where_that_is_not_a_record_of_each_object) {
  EXPECT_TRUE(qm::test::matches(command("slab_trace start packet counts"),
                                "^packet: on, live \\d+, from before start \\d+\r\n$"));
  void* object = allocate_outermost(*packet);
  EXPECT_NE(command("slab_trace status packet")
                .find(": on       recorded 1, dropped 0, live 1, 4 bytes each, counts only\r\n"),
            std::string::npos);
  EXPECT_EQ(command("slab_trace print packet"),
            "Dumping outstanding allocs from packet\r\n-------------------------\r\n"
            "note: only counts are kept: 1 object is out, by slab_stacks\r\n"
            "outstanding 1, recorded 1, dropped 0, truncated stacks 0, from before start 0: incomplete\r\n");
  EXPECT_NE(command("slab_stacks packet").find("note: 1 cache keeps counts only: bytes are of whole objects\r\n"),
            std::string::npos);
  EXPECT_EQ(command("slab_trace start packet"),
            "error: packet has objects traced in another way: stop and reset it first\r\n");
  EXPECT_EQ(command("slab_trace start packet every 5"),
            "error: packet has objects traced in another way: stop and reset it first\r\n");
  packet->free(object);
  command("slab_trace stop packet");
  command("slab_trace reset packet");
  EXPECT_EQ(command("slab_trace start packet every 0"), kUsage);
  EXPECT_TRUE(qm::test::matches(command("slab_trace start packet every 65535"),
                                "^packet: on, live \\d+, from before start \\d+\r\n$"));
  EXPECT_NE(command("slab_trace status packet").find(", 28 bytes each, sampled 1 in 65535, left out 0\r\n"),
            std::string::npos);
  EXPECT_EQ(command("slab_trace start kheap counts"), "error: Unable to trace slab kheap\r\n");
  EXPECT_NE(command("slab_trace start * counts").find("error: * has objects traced in another way"), std::string::npos);
  command("slab_trace stop packet");
  EXPECT_NE(command("slab_trace start * counts").find(" no-trace caches and arenas skipped\r\n"), std::string::npos);
}

TEST_F(SlabTrace, reset_that_ends_before_all_counts_are_dropped_says_what_is_gone) {
  command("slab_trace start packet counts");
  void* object = allocate_outermost(*packet);
  {
    SlabPass under_way(packet_small->slabs());  // so another pass shows nothing
    bench.terminal.trickle = true;              // Ctrl-C arrives after the command has begun
    EXPECT_NE(bench.type("slab_trace reset packet\r\x03")
                  .find("error: aborted, records and figures are gone, but not all "
                        "counts: reset again\r\n"),
              std::string::npos);
    bench.terminal.trickle = false;
  }
  EXPECT_NE(command("slab_trace status packet").find("recorded 0, dropped 0, live 1,"), std::string::npos);
  EXPECT_TRUE(qm::test::matches(command("slab_trace reset packet"),
                                "^packet: (on|off|draining), live \\d+, from before start \\d+\r\n$"));
  EXPECT_NE(command("slab_trace status packet").find("recorded 0, dropped 0, live 0,"), std::string::npos);
  packet->free(object);
}

TEST_F(SlabTrace, names_what_it_cannot_trace) {
  for (const char* verb : {"start", "stop", "print", "reset", "status"}) {
    const std::string start = std::string("slab_trace ") + verb + " ";
    EXPECT_EQ(command(start + "nothing"), "error: No such slab nothing\r\n");
    EXPECT_EQ(command(start + "no*thing"), "error: No such slab no*thing\r\n");
    EXPECT_EQ(command(start + "kmem_slab"), "error: Unable to trace slab kmem_slab\r\n");
    EXPECT_EQ(bench.request(start + "nothing").status, 1u);
  }
  EXPECT_EQ(command("slab_trace start this_name_is_longer_than_any_name_of_a_cache_can_be"),
            "error: No such slab this_name_is_longer_than_any_name_of_a_cache_can_be\r\n");
}

/// The report on one live object, of two that were recorded, and one from before the start.
std::string report_of(const char* source, const void* object) {
  return std::string("^Dumping outstanding allocs from ") + source +
         "\r\n"
         "-------------------------\r\n"
         "Obj " +
         format("0x%016" PRIxPTR, reinterpret_cast<std::uintptr_t>(object)) +
         ", from hart 0 [^:\r]+:\r\n"
         "----\r\n"
         "#01 \\[<0x[0-9a-f]{16}>\\] in rx_deliver\r\n"
         "(#\\d\\d \\[<0x[0-9a-f]{16}>\\] in rx_deliver\r\n)*"
         "\r\n"
         "outstanding 1, recorded 2, dropped 0, truncated stacks 0, from before start 1: complete\r\n$";
}

TEST_F(SlabTrace, print_is_akaros_report_and_a_closing_line) {
  resolve_all();
  void* older = packet->allocate();
  EXPECT_EQ(command("slab_trace start packet"), "packet: on, live 0, from before start 1\r\n");
  void* object = allocate_outermost(*packet);
  void* gone = allocate_outermost(*packet);
  packet->free(gone);
  const std::string text = command("slab_trace print packet");
  EXPECT_TRUE(qm::test::matches(text, report_of("packet", object))) << text;
  bench.console.config().resolver = nullptr;
  EXPECT_NE(command("slab_trace print packet").find(">] in (null)\r\n"), std::string::npos);
  packet->free(object);
  packet->free(older);
}

TEST_F(SlabTrace, print_shows_the_oldest_or_each_stack_once) {
  resolve_all();
  command("slab_trace start packet");
  std::vector<void*> held;
  for (int i = 0; i < 5; ++i) held.push_back(allocate_outermost(*packet));
  const std::string oldest = command("slab_trace print packet top 2");
  EXPECT_EQ(qm::test::find_all(oldest, "\nObj 0x").size(), 2u) << oldest;
  EXPECT_NE(oldest.find(format("\nObj 0x%016" PRIxPTR, reinterpret_cast<std::uintptr_t>(held[0]))), std::string::npos);
  EXPECT_NE(oldest.find("note: shown 2 of 5 that are out, the oldest\r\noutstanding 5, recorded 5, "),
            std::string::npos);
  EXPECT_TRUE(oldest.ends_with(": complete\r\n")) << oldest;
  EXPECT_NE(command("slab_trace print top 1").find("shown 1 of 5"), std::string::npos) << "of all that were traced";
  const std::string stacks = command("slab_trace print packet by stack");
  EXPECT_TRUE(stacks.starts_with("Dumping outstanding allocs from packet\r\n-------------------------\r\n rx_deliver"));
  EXPECT_NE(stacks.find("\r\nstack_count: 5\r\nstack_bytes: 2560\r\n"), std::string::npos) << stacks;
  EXPECT_EQ(stacks.substr(stacks.find(" rx_deliver")), command("slab_stacks packet"));
  const std::string sites = command("slab_trace print packet by site");
  if (kCallSites) {
    EXPECT_NE(sites.find("        2560        5 "), std::string::npos) << sites;
  } else {
    EXPECT_EQ(sites, "error: built without call sites\r\n");
  }
  EXPECT_NE(command("slab_trace print packet older 1h").find("note: shown 0 of 5"), std::string::npos);
  for (const char* wrong : {"slab_trace print", "slab_trace print -v", "slab_trace print a b",
                            "slab_trace print packet by", "slab_trace print packet top"})
    EXPECT_EQ(bench.request(wrong).status, 2u) << wrong;
  for (const char* wrong : {"slab_trace print by site top 3", "slab_trace print top many by site"})
    EXPECT_EQ(bench.request(wrong).status, 2u) << "with call sites and without: " << wrong;
  for (void* object : held) packet->free(object);
}

TEST_F(SlabTrace, print_says_beforehand_how_long_it_takes_on_a_slow_line) {
  resolve_all();
  command("slab_trace start packet");
  std::vector<void*> held;
  for (int i = 0; i < 100; ++i) held.push_back(allocate_outermost(*packet));
  const auto estimate = [&](const std::string& text) {
    const auto found = qm::test::find(
        text, "^[^\r]*\r\n-+\r\nnote: 100 objects, about (\\d+) s at \\d+ baud; by stack is shorter\r\n");
    return found.empty() ? 0 : std::stoul(found[1]);
  };
  const std::string text = command("slab_trace print packet");
  EXPECT_EQ(estimate(text), 0u) << "the rate is not known";
  bench.console.config().baud = 9600;
  const std::string told = command("slab_trace print packet");
  const std::size_t seconds = text.size() * 10 / 9600;
  EXPECT_GE(estimate(told), seconds - 1) << told.substr(0, 200);
  EXPECT_LE(estimate(told), seconds + 2) << told.substr(0, 200);
  bench.console.config().baud = 115200;
  EXPECT_EQ(command("slab_trace print packet"), text) << "less than 5 s are not worth a word";
  bench.console.config().baud = 0;
  for (void* object : held) packet->free(object);
}

/// A large block of the heap, in the way of allocate_outermost().
[[gnu::noinline]] void* allocate_block_outermost(std::size_t size) {
  auto* frame = static_cast<void* volatile*>(__builtin_frame_address(0));
  void* const saved = frame[0];
  frame[0] = nullptr;
  void* block = heap::allocate(size);
  frame[0] = saved;
  return block;
}

TEST_F(SlabTrace, print_of_an_arena_shows_its_segments_as_a_caches_objects) {
  resolve_all();
  void* older = heap::allocate(5000);
  EXPECT_TRUE(
      qm::test::matches(command("slab_trace start kheap"), "^kheap: on, live \\d+, from before start \\d+\r\n$"));
  void* block = allocate_block_outermost(5000);
  heap::free(allocate_block_outermost(1500));
  const std::string text = command("slab_trace print kheap");
  EXPECT_TRUE(qm::test::matches(text, report_of("kheap", block))) << text;
  EXPECT_EQ(command("slab_trace status kheap")
                .find("kheap                          : on       recorded 2, dropped 0, live 1, "),
            0u);
  EXPECT_TRUE(qm::test::matches(command("slab_trace stop kheap"),
                                "^kheap: (off|draining), live \\d+, from before start \\d+\r\n$"));
  heap::free(block);
  heap::free(older);
  EXPECT_EQ(command("slab_trace start base"), "error: Unable to trace slab base\r\n");
}

TEST_F(SlabTrace, print_looks_up_the_call_and_not_what_follows_it) {
  static std::vector<std::uintptr_t> asked;
  asked.clear();
  bench.console.config().resolver = [](std::uintptr_t address, Symbol&) noexcept {
    asked.push_back(address);
    return false;
  };
  command("slab_trace start packet");
  void* object = allocate_outermost(*packet);
  const std::string text = command("slab_trace print packet");
  ASSERT_FALSE(asked.empty());
  for (std::size_t i = 0; i < asked.size(); ++i) {
    EXPECT_NE(text.find(format("#%02zu [<0x%016" PRIxPTR ">] in (null)\r\n", i + 1, asked[i] + 1)), std::string::npos)
        << text;
  }
  packet->free(object);
}

TEST_F(SlabTrace, print_verbose_adds_size_age_and_number) {
  command("slab_trace start packet");
  void* object = allocate_outermost(*packet);
  const char* const verbose =
      "Obj 0x[0-9a-f]{16}, from hart 0 [^:\r]+: size 512, age \\d+\\.\\d{3} s, seq \\d+\r\n----\r\n";
  EXPECT_FALSE(qm::test::find(command("slab_trace print -v packet"), verbose).empty());
  EXPECT_FALSE(qm::test::find(command("slab_trace print packet -v"), verbose).empty());
  EXPECT_TRUE(qm::test::find(command("slab_trace print packet"), verbose).empty());
  packet->free(object);
}

TEST_F(SlabTrace, print_is_oldest_first_and_follows_the_state) {
  command("slab_trace start packet");
  void* objects[3];
  for (void*& object : objects) object = allocate_outermost(*packet);
  EXPECT_TRUE(qm::test::matches(command("slab_trace stop packet"),
                                "^packet: (off|draining), live \\d+, from before start \\d+\r\n$"));
  std::string text = command("slab_trace print packet");
  std::size_t at = 0;
  for (void* object : objects) {
    const std::size_t found = text.find(format("Obj 0x%016" PRIxPTR, reinterpret_cast<std::uintptr_t>(object)));
    EXPECT_NE(found, std::string::npos);
    EXPECT_GE(found, at) << text;
    at = found;
  }
  EXPECT_NE(text.find("\r\nnote: draining, so later allocations are not recorded\r\n"
                      "outstanding 3, recorded 3, dropped 0, truncated stacks 0, from before start 0: complete\r\n"),
            std::string::npos)
      << text;
  for (void* object : objects) packet->free(object);
  EXPECT_EQ(command("slab_trace print packet"),
            "Dumping outstanding allocs from packet\r\n-------------------------\r\n"
            "note: off, so later allocations are not recorded\r\n"
            "outstanding 0, recorded 3, dropped 0, truncated stacks 0, from before start 0: complete\r\n");
  EXPECT_TRUE(qm::test::matches(command("slab_trace reset packet"),
                                "^packet: (on|off|draining), live \\d+, from before start \\d+\r\n$"));
  EXPECT_NE(command("slab_trace print packet").find("outstanding 0, recorded 0, "), std::string::npos);
}

TEST_F(SlabTrace, print_of_a_cache_never_traced_says_so) {
  EXPECT_EQ(command("slab_trace print packet"),
            "Dumping outstanding allocs from packet\r\n-------------------------\r\nnote: never traced\r\n"
            "outstanding 0, recorded 0, dropped 0, truncated stacks 0, from before start 0: incomplete\r\n");
}

TEST_F(SlabTrace, with_a_glob_skips_no_trace_caches_and_says_how_many) {
  RegistryCursor<Traceable> all;
  unsigned no_trace = 0;
  unsigned caches = 0;
  while (const Traceable* source = all.next()) {
    ++caches;
    no_trace += source->traceable() ? 0 : 1;
  }
  EXPECT_EQ(command("slab_trace start packet*"), "2 caches, 0 no-trace caches skipped\r\n");
  EXPECT_EQ(command("slab_trace stop *"),
            format("%u caches, %u no-trace caches skipped\r\n", caches - no_trace, no_trace));
  const std::string text = command("slab_trace print packet*");
  EXPECT_EQ(text,
            "note: skipped 0 no-trace caches, 0 that were never traced\r\n"
            "Dumping outstanding allocs from packet\r\n-------------------------\r\n"
            "note: off, so later allocations are not recorded\r\n"
            "outstanding 0, recorded 0, dropped 0, truncated stacks 0, from before start 0: complete\r\n"
            "Dumping outstanding allocs from packet_small\r\n-------------------------\r\n"
            "note: off, so later allocations are not recorded\r\n"
            "outstanding 0, recorded 0, dropped 0, truncated stacks 0, from before start 0: complete\r\n");
}

TEST_F(SlabTrace, start_of_a_pattern_is_for_caches_made_later_until_its_stop) {
  const auto make = [](const char* name) { return Cache::create({.name = name, .object_size = 64}); };
  EXPECT_EQ(command("slab_trace start packet*"), "2 caches, 0 no-trace caches skipped\r\n");
  Cache* const later = make("packet_later");
  void* const object = allocate_outermost(*later);
  EXPECT_NE(command("slab_trace status packet_later").find(": on       recorded 1,"), std::string::npos);
  EXPECT_NE(command("slab_trace print packet_later").find("from before start 0: complete\r\n"), std::string::npos);
  later->free(object);
  EXPECT_EQ(command("slab_trace stop packet*"), "3 caches, 0 no-trace caches skipped\r\n");
  Cache* const untraced = make("packet_untraced");
  EXPECT_NE(command("slab_trace print packet_untraced").find("note: never traced\r\n"), std::string::npos);
  // Counts and samples apply to the existing caches.
  command("slab_trace reset packet*");
  EXPECT_EQ(command("slab_trace start packet* counts"), "4 caches, 0 no-trace caches and arenas skipped\r\n");
  Cache* const uncounted = make("packet_uncounted");
  EXPECT_NE(command("slab_trace print packet_uncounted").find("note: never traced\r\n"), std::string::npos);
  command("slab_trace stop *");
  for (Cache* cache : {later, untraced, uncounted}) EXPECT_EQ(Cache::destroy(cache), Status::kOk);
}

TEST_F(SlabTrace, kmalloc_is_all_that_serves_the_heap) {
  qm::test::make_class(40);
  EXPECT_NE(command("slab_trace start kmalloc").find(" caches, 0 no-trace caches skipped\r\n"), std::string::npos);
  void* const small = heap::allocate(40);
  void* const large = heap::allocate(300000);
  EXPECT_NE(command("slab_trace status kheap").find(": on       recorded 1,"), std::string::npos);
  const std::string text = command("slab_trace print kmalloc");
  EXPECT_NE(text.find("Dumping outstanding allocs from kheap\r\n"), std::string::npos) << text;
  EXPECT_NE(text.find("Dumping outstanding allocs from kmalloc_"), std::string::npos) << text;
  EXPECT_EQ(text.find("from packet"), std::string::npos) << text;
  heap::free(small);
  heap::free(large);
  command("slab_trace stop kmalloc");
  EXPECT_NE(command("slab_trace status kheap").find("kheap                          : off "), std::string::npos);
}

TEST_F(SlabTrace, start_of_a_ninth_pattern_is_for_the_caches_that_there_are) {
  for (char pattern[] = "packet*0"; ++pattern[7] != '9';) {
    EXPECT_EQ(trace::trace_from_creation(pattern).status, Status::kOk);
  }
  EXPECT_EQ(command("slab_trace start packet*"),
            "2 caches, 0 no-trace caches skipped\r\n"
            "note: caches made later are not traced: no room for another pattern\r\n");
  command("slab_trace stop *");
  EXPECT_EQ(command("slab_trace start packet*"), "2 caches, 0 no-trace caches skipped\r\n");
  command("slab_trace stop *");
}

TEST_F(SlabTrace, print_of_a_glob_without_traced_caches_is_incomplete) {
  EXPECT_EQ(command("slab_trace print packet*"),
            "note: skipped 0 no-trace caches, 2 that were never traced\r\ntraced 0 of 2 caches: incomplete\r\n");
}

TEST_F(SlabTrace, print_ends_within_a_record_at_ctrl_c) {
  command("slab_trace start packet");
  std::vector<void*> held;
  for (int i = 0; i < 50; ++i) held.push_back(allocate_outermost(*packet));
  bench.terminal.yields = 0;
  bench.terminal.on_yield = [](FakeTerminal& terminal) {
    if (terminal.yields == 4) terminal.send("\x03");
  };
  const std::string text = command("slab_trace print packet");
  const std::string closing =
      "note: shown 3 of 50 that are out\r\n"
      "outstanding 50, recorded 50, dropped 0, truncated stacks 0, from before start 0: aborted\r\n";
  ASSERT_GE(text.size(), closing.size());
  EXPECT_EQ(text.substr(text.size() - closing.size()), closing);
  for (void* object : held) packet->free(object);
}

[[gnu::noinline]] void* allocate_below(Cache& cache, unsigned levels) {
  static void* (*volatile again)(Cache&, unsigned) = &allocate_below;
  void* object = levels == 0 ? cache.allocate() : again(cache, levels - 1);
  asm volatile("" : "+r"(object));
  return object;
}

TEST_F(SlabTrace, print_marks_a_truncated_stack) {
  command("slab_trace start packet");
  void* object = allocate_below(*packet, 40);
  const std::string text = command("slab_trace print packet");
  EXPECT_FALSE(qm::test::find(text,
                              "\r\n#24 \\[<0x[0-9a-f]{16}>\\] in \\(null\\)\r\n"
                              "#25 \\[<\\.\\.\\.>\\] in \\.\\.\\. \\(truncated\\)\r\n\r\n")
                   .empty())
      << text;
  EXPECT_NE(text.find("outstanding 1, recorded 1, dropped 0, truncated stacks 1, from before start 0: incomplete\r\n"),
            std::string::npos)
      << text;
  packet->free(object);
}

TEST_F(SlabTrace, print_says_what_was_dropped_and_why) {
  open_again({.record_bytes = 28});  // one chunk of records
  command("slab_trace start packet_small");
  std::vector<void*> held;
  for (int i = 0; i < 1000; ++i) held.push_back(packet_small->allocate());
  const trace::CacheTrace trace = trace::cache_trace(*packet_small);
  ASSERT_GT(trace.figures.all_dropped(), 0u);
  const std::string text = command("slab_trace print packet_small");
  EXPECT_NE(text.find(format("note: dropped %" PRIu64 ": ", trace.figures.all_dropped())), std::string::npos)
      << text.substr(text.size() - 300);
  EXPECT_NE(text.find(format("outstanding %u, recorded %" PRIu64 ", dropped %" PRIu64 ", truncated stacks ", trace.live,
                             trace.figures.recorded, trace.figures.all_dropped())),
            std::string::npos);
  EXPECT_EQ(text.substr(text.size() - 14), ": incomplete\r\n");
  EXPECT_EQ(trace.figures.recorded + trace.figures.all_dropped(), 1000u);
  const std::string status = command("slab_trace status");
  EXPECT_NE(status.find(format("dropped %" PRIu64 ": incomplete\r\n", trace.figures.all_dropped())), std::string::npos)
      << status;
  for (void* object : held) packet_small->free(object);
}

TEST_F(SlabTrace, status_has_a_row_a_cache_and_the_totals) {
  const trace::Totals none = trace::totals();
  EXPECT_EQ(command("slab_trace status"),
            format("traced 0 of %u caches, records 0 of %zu bytes, stacks %zu of %zu bytes, dropped 0: complete\r\n",
                   none.caches, none.record_capacity, none.stack_bytes, none.stack_capacity));
  EXPECT_EQ(command("slab_trace status packet").substr(0, 88),
            "packet                         : off      recorded 0, dropped 0, live 0, 28 bytes each\r\n");
  command("slab_trace start packet");
  void* object = packet->allocate();
  const trace::Totals totals = trace::totals();
  EXPECT_EQ(command("slab_trace status"),
            format("packet                         : on       recorded 1, dropped 0, live 1, 28 bytes each\r\n"
                   "traced 1 of %u caches, records 28 of %zu bytes, stacks %zu of %zu bytes, dropped 0: complete\r\n",
                   totals.caches, totals.record_capacity, totals.stack_bytes, totals.stack_capacity));
  command("slab_trace stop packet");
  EXPECT_NE(command("slab_trace status packet").find(": draining recorded 1, dropped 0, live 1, "), std::string::npos);
  EXPECT_NE(command("slab_trace status p*").find("note: skipped 0 no-trace caches\r\n"), std::string::npos);
  packet->free(object);
  EXPECT_NE(command("slab_trace status packet").find(": off      recorded 1, dropped 0, live 0, "), std::string::npos);
}

}  // namespace console_slab_trace_test
