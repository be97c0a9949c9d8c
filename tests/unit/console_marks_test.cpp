/// mark, marks, leaks, expect and growth, byte for byte.

#define QM_MODULE "test"

#include <array>
#include <deque>

#include "console_reports_fixture.hpp"

#include <qm/call_site.hpp>
#include <qm/trace/marks.hpp>

namespace console_marks_test {

using namespace qm;
using namespace qm::test;

/// Replaces ids, numbers and ages, and repeated frames by one: an unoptimised build shows more of them.
std::string stable(const std::string& text) {
  std::string all = replace_all(plain(text), "( rx_deliver\\+[^\r]*\r\n)+", " rx_deliver+0x13/0x60\r\n");
  all = replace_all(all, "(#[0-9]+ \\[<@>\\] in rx_deliver\r\n)+", "#01 [<@>] in rx_deliver\r\n");
  all = replace_all(all, "stack_id: 0x[0-9a-f]{8}\r", "stack_id: #\r");
  all = replace_all(all, "age [0-9]+\\.[0-9]{3} s", "age # s");
  return replace_all(all, "seq [0-9]+", "seq #");
}

class MarkCommands : public ConsoleReports {
 protected:
  void SetUp() override {
    ConsoleReports::SetUp();
    resolve_all();
  }
  void TearDown() override {
    for (const auto& [cache, object] : held) cache->free(object);
    ConsoleReports::TearDown();
  }
  template <int kPath>
  void take(Cache& cache, int count = 1) {
    for (int i = 0; i < count; ++i) held.emplace_back(&cache, allocate_through<kPath>(cache));
  }
  void give_first() {
    held.front().first->free(held.front().second);
    held.erase(held.begin());
  }
  std::string answer(const std::string& line) { return stable(command(line)); }
  static std::string row(const char* objects, const char* bytes) {
    return format(" rx_deliver+0x13/0x60\r\nstack_count: %s\r\nstack_bytes: %s\r\nstack_id: #\r\n\r\n", objects, bytes);
  }
  static std::string tail(unsigned traced, unsigned dropped, const char* word) {
    return format(", age # s\r\ntraced %u of %u caches, dropped %u: %s\r\n", traced, trace::totals().caches, dropped,
                  word);
  }

  std::vector<std::pair<Cache*, void*>> held;
};

TEST_F(MarkCommands, mark_says_what_it_remembers_and_marks_lists_them) {
  command("slab_trace start packet");
  take<1>(*packet, 2);
  const unsigned caches = trace::totals().caches;
  EXPECT_EQ(command("mark one"), format("mark one: objects 2, bytes 1024, traced 1 of %u caches\r\n", caches));
  take<1>(*packet);
  EXPECT_EQ(command("mark two"), format("mark two: objects 3, bytes 1536, traced 1 of %u caches\r\n", caches));
  EXPECT_EQ(answer("marks"), "one                            : objects 2, bytes 1024" + tail(1, 0, "complete") +
                                 "two                            : objects 3, bytes 1536" + tail(1, 0, "complete") +
                                 "marks 2 of 8: complete\r\n");
  EXPECT_EQ(command("marks drop one"), "");
  EXPECT_EQ(command("marks drop one"), "error: No such mark one\r\n");
  EXPECT_EQ(command("marks forget two"), "error: usage: marks [drop NAME]\r\n");
  EXPECT_EQ(command("mark a*"), "error: a* is not a name\r\n");
  EXPECT_NE(command("marks").find("marks 1 of 8: complete\r\n"), std::string::npos);
  for (char c = 'a'; c < 'h'; ++c) command(std::string("mark ") + c);
  EXPECT_EQ(command("mark nine"), "error: no memory for mark nine, or there are 8\r\n");
}

TEST_F(MarkCommands, expect_passes_when_all_is_back) {
  command("slab_trace start packet");
  take<1>(*packet);
  command("mark here");
  take<2>(*packet, 3);
  while (held.size() > 1) {
    held.back().first->free(held.back().second);
    held.pop_back();
  }
  EXPECT_EQ(answer("expect here"), "PASS\r\nexpect here: objects 0, bytes 0" + tail(1, 0, "complete"));
  give_first();
  EXPECT_EQ(answer("expect here"),
            "PASS\r\nnote: 1 object, 512 bytes from before the mark came back\r\nexpect here: objects 0, bytes 0" +
                tail(1, 0, "complete"));
  EXPECT_EQ(bench.request("expect here").status, 0u);
}

TEST_F(MarkCommands, expect_fails_with_the_difference_and_names_the_stacks) {
  command("slab_trace start packet");
  take<1>(*packet);
  command("mark here");
  take<2>(*packet);
  take<3>(*packet, 2);
  const std::string report =
      row("2", "1024") + row("1", "512") + "expect here: objects 3, bytes 1536" + tail(1, 0, "complete");
  EXPECT_EQ(answer("expect here"), report + "error: expect here: 3 objects, 1536 bytes more\r\n");
  EXPECT_EQ(bench.request("expect here").status, 1u);
  EXPECT_EQ(answer("leaks here by stack"),
            row("2", "1024") + row("1", "512") + "leaks here: objects 3, bytes 1536" + tail(1, 0, "complete"));
}

TEST_F(MarkCommands, expect_does_not_pass_where_not_all_was_recorded) {
  command("mark here");
  EXPECT_EQ(answer("expect here"), "note: nothing is traced\r\nexpect here: objects 0, bytes 0" +
                                       tail(0, 0, "incomplete") +
                                       "error: expect here: cannot tell, as not all was recorded\r\n");
  command("slab_trace start packet");
  EXPECT_EQ(answer("expect here"),
            "note: 1 cache was not traced all the time, or reset\r\nexpect here: objects 0, bytes 0" +
                tail(0, 0, "incomplete") + "error: expect here: cannot tell, as not all was recorded\r\n");
}

TEST_F(MarkCommands, leaks_shows_each_object_with_its_cache) {
  command("slab_trace start packet*");
  take<1>(*packet);
  command("mark here");
  take<2>(*packet_small);
  take<3>(*packet);
  const auto object = [](int size) {
    return format("Obj @, from here: size %d, age # s, seq #\r\n----\r\n#01 [<@>] in rx_deliver\r\n\r\n", size);
  };
  EXPECT_EQ(answer("leaks here"),
            "Dumping outstanding allocs from packet since here\r\n-------------------------\r\n" + object(512) +
                "Dumping outstanding allocs from packet_small since here\r\n-------------------------\r\n" +
                object(64) + "leaks here: objects 2, bytes 576" + tail(2, 0, "complete"));
  bench.terminal.yields = 0;
  bench.terminal.on_yield = [](FakeTerminal& terminal) {
    if (terminal.yields == 1) terminal.send("\x03");
  };
  EXPECT_NE(answer("leaks here").find("leaks here: objects 1, bytes 512" + tail(2, 0, "aborted")), std::string::npos);
  bench.terminal.on_yield = nullptr;
}

TEST_F(MarkCommands, leaks_shows_neighbours_that_say_the_same_once) {
  command("slab_trace start packet");
  command("mark here");
  take<1>(*packet, 3);
  take<2>(*packet);
  take<1>(*packet, 2);
  const std::string one = "Obj @, from here: size 512, age # s, seq #\r\n----\r\n#01 [<@>] in rx_deliver\r\n\r\n";
  const std::string last = format("0x%016" PRIxPTR, reinterpret_cast<std::uintptr_t>(held[2].second));
  const std::string text = command("leaks here");
  EXPECT_EQ(stable(text), "Dumping outstanding allocs from packet since here\r\n-------------------------\r\n" + one +
                              "2 more like it, the last @\r\n\r\n" + one + one +
                              "1 more like it, the last @\r\n\r\nleaks here: objects 6, bytes 3072" +
                              tail(1, 0, "complete"));
  EXPECT_NE(text.find("2 more like it, the last " + last), std::string::npos) << text;
}

TEST_F(MarkCommands, leaks_and_expect_are_about_what_patterns_name_and_leave_out) {
  command("slab_trace start packet*");
  command("mark here");
  take<1>(*packet);
  take<2>(*packet_small, 2);
  const auto objects = [&](const std::string& line) { return find(answer(line), "leaks here: objects (\\d+),")[1]; };
  EXPECT_EQ(objects("leaks here packet"), "1");
  EXPECT_EQ(objects("leaks here packet packet_small"), "3");
  EXPECT_EQ(objects("leaks here packet* -packet"), "2");
  EXPECT_EQ(objects("leaks here -packet_* by stack"), "1");
  const std::string left = answer("leaks here -packet_*");
  EXPECT_NE(left.find("note: left out: 2 objects, 128 bytes of kmem_cache,"), std::string::npos) << left;
  EXPECT_NE(left.find(",packet_*\r\n"), std::string::npos) << left;
  EXPECT_EQ(command("leaks here -nothing"), "error: No such slab nothing\r\n");
  EXPECT_EQ(bench.request("expect here packet* -packet").status, 1u);
  held[1].first->free(held[1].second);
  held[2].first->free(held[2].second);
  held.resize(1);
  EXPECT_EQ(bench.request("expect here packet* -packet").status, 0u);
}

TEST_F(MarkCommands, older_leaves_out_what_is_younger) {
  command("slab_trace start packet");
  command("mark here");
  take<1>(*packet, 2);
  for (const char* line : {"leaks here older 1h", "leaks here packet older 60m by stack"})
    EXPECT_NE(answer(line).find("leaks here: objects 0, bytes 0"), std::string::npos) << line;
  EXPECT_EQ(bench.request("expect here older 24h").status, 0u);
  for (const char* line : {"leaks here older 0", "leaks here packet older 0ms by stack"})
    EXPECT_NE(answer(line).find("leaks here: objects 2, bytes 1024"), std::string::npos) << line;
  EXPECT_EQ(bench.request("expect here older 0s").status, 1u);
  EXPECT_EQ(command("leaks here older soon"), "error: soon is no time: 500ms, 5s, 3m, 1h\r\n");
  EXPECT_EQ(command("leaks here older"),
            "error: usage: leaks NAME [SLAB_NAME] [-SLAB_NAME] [older T] [by stack|site]\r\n");
}

constexpr unsigned kParseLine = __LINE__ + 3;
[[gnu::noinline]] void* parse(Cache& cache) {
  const StackEnd end(__builtin_frame_address(0));
  return QM_ALLOC(cache.allocate);
}
constexpr unsigned kQueueLine = __LINE__ + 3;
[[gnu::noinline]] void* queue(Cache& cache) {
  const StackEnd end(__builtin_frame_address(0));
  return QM_ALLOC(cache.allocate);
}

TEST_F(MarkCommands, leaks_by_site_shows_the_line_the_objects_and_the_bytes_of_each_site) {
  if (!kCallSites) GTEST_SKIP() << "built without call sites";
  command("slab_trace start packet*");
  held.emplace_back(packet, parse(*packet));
  command("mark here");
  take<1>(*packet_small);
  for (int i = 0; i < 3; ++i) held.emplace_back(packet, parse(*packet));
  for (int i = 0; i < 5; ++i) held.emplace_back(packet_small, queue(*packet_small));
  const auto row_of = [](int bytes, int objects, unsigned line, const char* function) {
    return format("%12d %8d %s:%u [test] func:%s\r\n", bytes, objects, __FILE__, line, function);
  };
  const std::string head = "#     <size>  <calls> <tag info>\r\n";
  const std::string untagged = "          64        1 <untagged>:0 func:<untagged>\r\n";
  const auto closing = [](int objects, int bytes) {
    return format("\r\nleaks here: objects %d, bytes %d", objects, bytes) + tail(2, 0, "complete");
  };
  EXPECT_EQ(answer("leaks here by site"), head + row_of(1536, 3, kParseLine, "parse") +
                                              row_of(320, 5, kQueueLine, "queue") + untagged + closing(9, 1920));
  give_first();  // an object from before the mark
  packet->free(held[1].second);
  packet->free(held[2].second);
  packet->free(held[3].second);
  held.erase(held.begin() + 1, held.begin() + 4);
  packet_small->free(held.back().second);
  held.pop_back();
  EXPECT_EQ(answer("leaks here by site"), head + row_of(256, 4, kQueueLine, "queue") + untagged + closing(5, 320));
}

TEST_F(MarkCommands, leave_out_what_the_allocator_itself_holds_and_say_so) {
  CacheConfig of_pages;
  of_pages.name = "of_pages";
  of_pages.object_size = 128;
  of_pages.source = &page_arena();
  Cache* pages = Cache::create(of_pages);
  ASSERT_NE(pages, nullptr);
  command("slab_trace start *");
  command("mark here");
  held.emplace_back(pages, pages->allocate());  // including its slab, a page of the arena
  Cache* young = make("young", 100);
  Arena below;
  ASSERT_EQ(below.initialize({.name = "below", .quantum = 64, .source = &page_arena()}), Status::kOk);
  const std::uintptr_t block = below.allocate(64);
  ASSERT_NE(block, 0u);
  const std::string text = answer("expect here");
  EXPECT_NE(text.find("stack_count: 1\r\nstack_bytes: 128\r\n"), std::string::npos) << text;
  EXPECT_NE(text.find("note: left out: 1 object, "), std::string::npos) << text;
  EXPECT_FALSE(test::find(text, "note: left out: 2 slabs and spans of the allocator, [0-9]+ bytes\r\n").empty())
      << text;
  // With the segment of `below`, to which `start *` applies as well.
  EXPECT_NE(text.find("expect here: objects 2, bytes 192, "), std::string::npos) << text;
  EXPECT_NE(answer("leaks here").find("leaks here: objects 2, bytes 192, "), std::string::npos);
  EXPECT_NE(answer("expect here of_pages").find("expect here: objects 1, bytes 128, "), std::string::npos);
  EXPECT_NE(answer("leaks here kmem_cache").find("leaks here: objects 1, "), std::string::npos)
      << "who names it sees it";
  below.free(block, 64);
  pages->free(held.back().second);
  held.pop_back();
  const std::string passed = command("expect here");
  EXPECT_TRUE(passed.starts_with("PASS\r\n")) << passed;
  EXPECT_EQ(command("expect here nothing*"), "error: No such slab nothing*\r\n");
  EXPECT_EQ(Cache::destroy(young), Status::kOk);
  EXPECT_EQ(below.destroy(), Status::kOk);
  EXPECT_EQ(Cache::destroy(pages), Status::kOk);
}

TEST_F(MarkCommands, leave_out_the_background_unless_it_is_named) {
  bench.console.config().background = "packet_sm*,other";
  command("slab_trace start packet*");
  command("mark here");
  take<1>(*packet_small);
  EXPECT_EQ(answer("expect here"),
            "PASS\r\nnote: left out: 1 object, 64 bytes of kmem_cache,packet_sm*,other\r\n"
            "expect here: objects 0, bytes 0" +
                tail(1, 0, "complete"));
  EXPECT_NE(answer("expect here packet_small").find("error: expect here: 1 object, 64 bytes more\r\n"),
            std::string::npos);
  bench.console.config().background = "packet*";
  EXPECT_NE(answer("expect here").find("note: nothing is traced\r\n"), std::string::npos);
  EXPECT_NE(answer("expect here").find("cannot tell, as not all was recorded"), std::string::npos);
}

TEST_F(MarkCommands, refuse_what_they_do_not_understand) {
  EXPECT_EQ(command("leaks here"), "error: No such mark here\r\n");
  EXPECT_EQ(command("expect here"), "error: No such mark here\r\n");
  EXPECT_EQ(command("growth here"), "error: No such mark here\r\n");
  command("mark here");
  EXPECT_EQ(command("leaks here by"),
            "error: usage: leaks NAME [SLAB_NAME] [-SLAB_NAME] [older T] [by stack|site]\r\n");
  if (kCallSites) {
    EXPECT_NE(command("leaks here by site").find("leaks here: objects "), std::string::npos);
  } else {
    EXPECT_EQ(command("leaks here by site"), "error: built without call sites\r\n");
  }
  EXPECT_EQ(command("leaks here by hart"),
            "error: usage: leaks NAME [SLAB_NAME] [-SLAB_NAME] [older T] [by stack|site]\r\n");
  EXPECT_EQ(command("expect"), "error: usage: expect NAME [SLAB_NAME] [-SLAB_NAME] [older T]\r\n");
  trace::StackReport other;
  ASSERT_EQ(other.begin(), Status::kOk);
  for (const char* line : {"mark a", "marks", "leaks here", "expect here", "growth", "growth here"}) {
    EXPECT_EQ(command(line), "error: another report on stacks has not ended\r\n") << line;
  }
}

TEST_F(MarkCommands, status_says_all_that_is_on) {
  const std::string calls = kCallSites ? "allocinfo on\r\n" : "";
  EXPECT_EQ(
      command("status"),
      "traces    none\r\nstream    none\r\nmarks     none\r\nfaults    none\r\nguards    none\r\nlimits    none\r\n" +
          calls + "status: complete\r\n");
  command("slab_trace start packet");
  command("slab_trace start packet_small every 3");
  command("mark one");
  command("mark two");
  packet->set_limit(100);
  EXPECT_EQ(command("status"),
            "traces    packet_small on (one in 3), packet\r\nstream    none\r\nmarks     one, two\r\n"
            "faults    none\r\nguards    none\r\nlimits    packet at 100 objects\r\n" +
                calls + "status: complete\r\n");
  packet->set_limit(0);
}

TEST_F(MarkCommands, status_names_twelve_of_many_that_are_traced) {
  std::vector<Cache*> many;
  std::deque<std::string> names;  // a cache refers to its name
  std::string shown;
  for (int i = 10; i < 24; ++i) {
    names.push_back("many_" + std::to_string(i));
    many.push_back(make(names.back().c_str(), 32));
    if (i < 22) shown += names.back() + ", ";
  }
  command("slab_trace start many_*");
  const std::string text = replace_all(command("status"), "\r\n          ", " ");
  EXPECT_TRUE(text.starts_with("traces    " + shown + "2 more\r\nstream")) << text;
  for (Cache* cache : many) EXPECT_EQ(Cache::destroy(cache), Status::kOk);
}

TEST_F(MarkCommands, kmausers_says_why_it_is_incomplete) {
  command("slab_trace start packet counts");
  command("slab_trace start packet_small every 65535");
  take<1>(*packet, 3);
  std::string text = command("kmausers by stack");
  const char* const sampled = "note: 1 cache is sampled: its figures are estimates\r\n";
  EXPECT_NE(text.find(sampled), std::string::npos) << text;
  EXPECT_NE(text.find("note: 1 cache keeps counts only: bytes are of whole objects\r\n"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with(": incomplete\r\n")) << text;
  text = command("kmausers by task");
  EXPECT_NE(text.find(sampled), std::string::npos) << text;
  EXPECT_NE(text.find("note: 1 cache keeps counts only, without tasks\r\n"), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with(": incomplete\r\n")) << text;
}

TEST_F(MarkCommands, kmausers_says_who_holds_how_much) {
  command("slab_trace start packet*");
  take<1>(*packet, 3);
  take<2>(*packet_small, 2);
  std::string text =
      replace_all(command("kmausers -b by stack"), "rx_deliver[^\r]*(\r\n {25}[^\r]*)*\r\n", "STACK\r\n");
  const std::string rows =
      "        1536        3  STACK\r\n"
      "         128        2  STACK\r\n";
  EXPECT_EQ(text, "       bytes  objects  stack\r\n" + rows + "        1664        5  in all\r\n" +
                      format("stacks 2 of 2, traced 2 of %u caches, dropped 0: complete\r\n", trace::totals().caches));
  text = command("kmausers by stack top 1");
  EXPECT_NE(text.find("         0.2        2  other stacks\r\n         1.7        5  in all\r\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("\r\n         1.5        3  rx_deliver+0x13"), std::string::npos) << text;
  const auto by_task = [](const char* who, int shown) {
    return format(
        "       bytes  objects  task\r\n        1664        5  %s\r\n        1664        5  in all\r\n"
        "tasks %d of 1, traced 2 of %u caches, dropped 0: complete\r\n",
        who, shown, trace::totals().caches);
  };
  EXPECT_EQ(command("kmausers -b by task"), by_task("thread", 1));
  EXPECT_EQ(command("kmausers top 0 -b by task"), by_task("other tasks", 0));
  for (const char* wrong : {"kmausers by", "kmausers by cache", "kmausers top", "kmausers packet"})
    EXPECT_EQ(command(wrong), "error: usage: kmausers [-b] [by stack|site|task] [top N]\r\n") << wrong;
  EXPECT_TRUE(command("slab_trace print packet by task").starts_with("error: usage: ")) << "only kmausers has tasks";
  if (!kCallSites) {
    EXPECT_EQ(command("kmausers by site"), "error: built without call sites\r\n");
    return;
  }
  // By site: the sums of allocinfo.
  const auto sum = find(command("allocinfo"), "# sites \\d+ of \\d+, bytes (\\d+) of (\\d+),");
  EXPECT_FALSE(find(command("kmausers -b"), " +" + sum[2] + " +\\d+  in all\r\n").empty());
  EXPECT_NE(command("kmausers top 0").find("  other sites\r\n"), std::string::npos);
  EXPECT_NE(command("kmausers by site top 0").find("  other sites\r\n"), std::string::npos);
}

std::string growth_row(const char* name, char type, std::size_t now, std::size_t more, long objects) {
  return format("%-30s: %c :%15zu:%15zu:%12ld\r\n", name, type, now, more, objects);
}

TEST_F(MarkCommands, growth_shows_what_holds_more_than_then) {
  command("slab_trace start packet*");
  take<1>(*packet);
  take<2>(*packet_small, 2);
  give_first();
  take<1>(*packet);  // now the slab and the records' memory exist
  command("mark here");
  take<2>(*packet_small, 3);
  const std::string head = "Arena/Slab Name               :Typ:      Alloc Amt:         Growth:     Objects\r\n" +
                           std::string(79, '-') + "\r\n";
  const std::string sites =
      kCallSites ? "#     <size>  <calls> <tag info>\r\n        +192       +3 <untagged>:0 func:<untagged>\r\n\r\n"
                 : "";
  EXPECT_EQ(answer("growth here"), head + growth_row("packet_small", 'S', 320, 192, 3) + "\r\n" + sites +
                                       row("+3", "+192") + "growth here: 1 caches, 0 arenas, 1 stacks" +
                                       tail(2, 0, "complete"));
  const std::string since_boot = answer("growth");
  EXPECT_NE(since_boot.find(growth_row("packet", 'S', 512, 512, 1)), std::string::npos) << since_boot;
  EXPECT_NE(since_boot.find(row("+1", "+512") + row("+5", "+320")), std::string::npos) << since_boot;
  EXPECT_NE(since_boot.find("arenas, 2 stacks\r\ntraced 2 of "), std::string::npos) << since_boot;
  // The allocator's own memory is shown only on request.
  EXPECT_EQ(since_boot.find("\r\nkmem_"), std::string::npos) << since_boot;
  EXPECT_FALSE(find(since_boot, "note: \\d+ of the allocator's own grew by \\d+ together, left out").empty())
      << since_boot;
  const std::string all = answer("growth all");
  EXPECT_NE(all.find("\r\nkmem_"), std::string::npos) << all;
  EXPECT_EQ(all.find("left out"), std::string::npos) << all;
  EXPECT_EQ(answer("growth here all").find("left out"), std::string::npos);
  for (const char* wrong : {"growth here now", "growth all all all"})
    EXPECT_EQ(command(wrong), "error: usage: growth [NAME] [all]\r\n") << wrong;
  Cache* young = make("young", 100);
  ASSERT_EQ(Cache::destroy(young), Status::kOk);
}

TEST_F(MarkCommands, growth_says_what_is_past_the_top_and_what_is_gone) {
  std::vector<Cache*> caches;
  std::array<std::string, 12> names;
  for (unsigned i = 0; i < names.size(); ++i) {
    names[i] = format("c%02u", i);
    caches.push_back(make(names[i].c_str(), 1024 * (i + 1)));
  }
  Cache* doomed = make("doomed", 64);
  for (Cache* cache : caches) take<1>(*cache);
  for (const auto& [cache, object] : held) cache->free(object);
  held.clear();
  command("mark here");
  ASSERT_EQ(Cache::destroy(doomed), Status::kOk);
  for (Cache* cache : caches) take<1>(*cache);
  const std::string text = answer("growth here");
  EXPECT_NE(text.find(growth_row("c11", 'S', 12288, 12288, 1) + growth_row("c10", 'S', 11264, 11264, 1)),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("note: 1 cache or arena of then is gone\r\n"), std::string::npos) << text;
  const auto more = test::find(text, "note: ([0-9]+) more grew by ([0-9]+) together\r\n");
  ASSERT_FALSE(more.empty()) << text;
  const auto grown = test::find(text, "growth here: ([0-9]+) caches, ([0-9]+) arenas, 0 stacks");
  ASSERT_FALSE(grown.empty()) << text;
  EXPECT_EQ(std::stoi(more[1]) + 10, std::stoi(grown[1]) + std::stoi(grown[2]));
  EXPECT_GE(std::stoi(more[2]), 1024 + 2048);
}

}  // namespace console_marks_test
