/// Commands that find defects: whatis, verify and fault, byte for byte, like the reports of console_reports_test.cpp.

#include "console_reports_fixture.hpp"

#include <qm/heap.hpp>

namespace console_diagnosis_test {

using namespace qm;
using namespace qm::test;
using console::Symbol;

class Diagnosis : public ConsoleReports {};

std::string hex(const void* address) { return format("0x%016" PRIxPTR, reinterpret_cast<std::uintptr_t>(address)); }

TEST_F(Diagnosis, whatis_says_who_has_an_object) {
  std::vector<void*> held;
  for (int i = 0; i < 12; ++i) held.push_back(packet->allocate());
  auto* object = static_cast<std::byte*>(held[0]);
  ObjectPlace place;
  ASSERT_TRUE(packet->locate(reinterpret_cast<std::uintptr_t>(object), place));
  const auto expected = [&](const char* whereabouts, std::size_t offset) {
    return format("cache packet: object %s + %zu, %s\r\n  %u of %u in slab 0x%016" PRIxPTR "\r\n", hex(object).c_str(),
                  offset, whereabouts, place.index + 1, place.objects, place.slab);
  };
  const auto of_the_cache = [&](const void* address) {  // a line, and the indented lines below it
    const std::string text = command("whatis " + hex(address));
    std::size_t end = text.find("\r\n") + 2;
    if (text.compare(end, 2, "  ") == 0) end = text.find("\r\n", end) + 2;
    return text.substr(0, end);
  };
  EXPECT_EQ(of_the_cache(object + 100), expected("in use", 100));
  EXPECT_EQ(of_the_cache(object), expected("in use", 0));
  for (int i = 1; i < 12; ++i) packet->free(held[static_cast<std::size_t>(i)]);
  packet->free(object);  // freed last, so it is in the hart's magazine
  EXPECT_EQ(of_the_cache(object + 8), expected("idle in a magazine of hart 0", 8));
  {
    const hal::InterruptGuard masked;
    packet->detach_magazines(0);
  }
  EXPECT_EQ(of_the_cache(object + 8), expected("idle in the depot", 8));
  held[0] = packet->allocate();
  packet->free(held[0]);
  const std::uintptr_t header = (place.slab | 4095) - 7;  // the last word of the slab's page
  EXPECT_EQ(
      of_the_cache(reinterpret_cast<const void*>(header)),
      format("cache packet: slab 0x%016" PRIxPTR " + %zu, header of the slab\r\n", place.slab, header - place.slab));
  // Before the header lies the bitmap of free objects. Bytes that belong to no object are neither object nor bitmap.
  const std::uintptr_t bitmap = (place.slab | 4095) + 1 - sizeof(Slab) - sizeof(long);
  EXPECT_NE(of_the_cache(reinterpret_cast<const void*>(bitmap)).find(", header of the slab\r\n"), std::string::npos);
  const std::uintptr_t behind = place.slab + place.objects * packet->slabs().stride();
  if (behind + sizeof(long) < bitmap && !kChecked) {
    EXPECT_EQ(of_the_cache(reinterpret_cast<const void*>(behind)),
              format("cache packet: slab 0x%016" PRIxPTR " + %zu, unused part of the slab\r\n", place.slab,
                     behind - place.slab));
  }
  const std::uintptr_t page = place.slab & ~std::uintptr_t{4095};
  if (page != place.slab) {
    EXPECT_EQ(of_the_cache(reinterpret_cast<const void*>(page)),
              format("cache packet: slab 0x%016" PRIxPTR " - %zu, unused part of the slab\r\n", place.slab,
                     place.slab - page));
  }
  ASSERT_EQ(packet->reserve(2), Status::kOk);
  packet->reap();
}

TEST_F(Diagnosis, whatis_shows_the_record_and_the_segments) {
  command("slab_trace start packet");
  void* object = allocate_outermost(*packet);
  resolve_all();
  const std::string text = replace_all(plain(command("whatis " + hex(object))), "\r\n    ", " ");
  const std::string object_and_record =
      std::string("^cache packet: object @ \\+ 0, in use\r\n  \\d of 7 in slab @\r\n") +
      (kChecked ? "  allocated by [^\r]*\r\n" : "") + "Obj @, from here: size 512, age \\d+\\.\\d+ s";
  EXPECT_FALSE(qm::test::find(text, object_and_record).empty()) << text;
  EXPECT_NE(text.find(" s, seq 1\r\n----\r\n#01 [<@>] in rx_deliver\r\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\r\narena base: segment @ + "), std::string::npos) << text;
  EXPECT_NE(text.find("code rx_deliver+0x12/0x60\r\nwhatis @: caches 1, arenas 1: complete\r\n"), std::string::npos)
      << text;
  packet->free(object);
  const std::uintptr_t page = page_arena().allocate(4096);
  const std::string of_page = plain(command("whatis " + hex(reinterpret_cast<void*>(page))));
  const char* const page_object = "^cache kpages_4096: object @ \\+ 0, in use\r\n  \\d+ of \\d+ in slab @\r\n";
  EXPECT_FALSE(qm::test::find(of_page, page_object).empty()) << of_page;
  EXPECT_NE(of_page.find("bytes, slab of a quantum cache\r\n"), std::string::npos) << of_page;
  EXPECT_NE(of_page.find("whatis @: caches 1, arenas 2: complete\r\n"), std::string::npos) << of_page;
  EXPECT_EQ(page_arena().free(page, 4096), Status::kOk);
  bench.console.config().resolver = nullptr;
  EXPECT_EQ(command("whatis 0x10"),
            "no memory of this allocator\r\nwhatis 0x0000000000000010: caches 0, arenas 0: complete\r\n");
  EXPECT_EQ(command("whatis 16K"), "error: 16K is not a number\r\n");
  EXPECT_EQ(command("whatis"), "error: usage: whatis ADDR|NAME[+OFFSET]\r\n");
}

/// Frees an object on a stack that ends with the frame of this function.
template <int kPath>
[[gnu::noinline]] void free_by(Cache& cache, void* object) {
  const StackEnd end(__builtin_frame_address(0));
  cache.free(object);
  asm volatile("" ::"i"(kPath));
}

/// Names a place in allocate_at_end() and free_by() after the function that it is in; no name in allocate_through().
bool name_life(std::uintptr_t pc, Symbol& symbol) noexcept {
  constexpr std::uintptr_t kMostBytes = 1024;  // of one of these functions
  const struct {
    const char* name;
    std::uintptr_t begin;
  } functions[] = {{"first_user", reinterpret_cast<std::uintptr_t>(&allocate_at_end<1>)},
                   {"second_user", reinterpret_cast<std::uintptr_t>(&allocate_at_end<2>)},
                   {"", reinterpret_cast<std::uintptr_t>(&allocate_through<1>)},
                   {"", reinterpret_cast<std::uintptr_t>(&allocate_through<2>)},
                   {"first_end", reinterpret_cast<std::uintptr_t>(&free_by<1>)},
                   {"second_end", reinterpret_cast<std::uintptr_t>(&free_by<2>)}};
  symbol = {"", kMostBytes, kMostBytes};
  for (const auto& one : functions) {
    if (pc >= one.begin && pc - one.begin < symbol.offset) symbol = {one.name, pc - one.begin, kMostBytes};
  }
  return !symbol.name.empty();
}

TEST_F(Diagnosis, whatis_of_a_checking_build_shows_who_allocated_and_who_freed_in_the_life_before) {
  if (!kChecked) GTEST_SKIP() << "the stacks of a life are kept by a checking build";
  command("slab_trace start packet");  // from here on stacks are recorded
  bench.console.config().resolver = &name_life;
  void* const object = allocate_through<1>(*packet);
  const auto shows = [&](const char* allocated_by, const char* freed_by) {
    const auto deed = [](const char* what, const char* function) {
      // An unoptimised build first shows some of the allocator's own frames; the place in the test follows.
      return format("  %s (@ < )*%s\\+0x[0-9a-f]+ < @, stack 0x[0-9a-f]{8}\r\n", what, function);
    };
    const std::string expected = "^cache packet: object @ \\+ 0, [^\r]*\r\n[^\r]* in slab @\r\n" +
                                 deed("allocated by", allocated_by) +
                                 (freed_by != nullptr ? deed("freed by", freed_by) : "") + "(Obj @|arena)";
    const std::string text = replace_all(plain(command("whatis " + hex(object))), "\r\n    ", " ");
    EXPECT_FALSE(qm::test::find(text, expected).empty()) << text << "\nexpected " << expected;
  };
  shows("first_user", nullptr);
  free_by<1>(*packet, object);
  shows("first_user", "first_end");
  ASSERT_EQ(allocate_through<2>(*packet), object);
  shows("second_user", "first_end");
  free_by<2>(*packet, object);
  shows("second_user", "second_end");
}

TEST_F(Diagnosis, whatis_takes_the_name_of_a_function_and_an_offset) {
  EXPECT_EQ(command("whatis rx_deliver"), "error: rx_deliver is not a number\r\n") << "nobody knows names";
  bench.console.config().finder = [](std::string_view name, std::uintptr_t& address) noexcept {
    address = 0x4000;
    return name == "rx_deliver" || name == "operator+";
  };
  const auto address = [&](const char* text) {
    return find(command(std::string("whatis ") + text), "whatis (0x[0-9a-f]+):")[1];
  };
  EXPECT_EQ(address("rx_deliver"), "0x0000000000004000");
  EXPECT_EQ(address("rx_deliver+0x10"), "0x0000000000004010");
  EXPECT_EQ(address("rx_deliver+16"), "0x0000000000004010");
  EXPECT_EQ(address("operator+"), "0x0000000000004000");
  EXPECT_EQ(address("operator++1"), "0x0000000000004001");
  EXPECT_EQ(command("whatis rx_deliver+x"), "error: x is not a number\r\n");
  EXPECT_EQ(command("whatis rx_deliver+"), "error:  is not a number\r\n");
  EXPECT_EQ(command("whatis nobody+1"), "error: No such symbol nobody\r\n");
  EXPECT_EQ(command("whatis nobody"), "error: No such symbol nobody\r\n");
  EXPECT_EQ(command("whatis 1x"), "error: 1x is not a number\r\n");
}

TEST_F(Diagnosis, whatis_says_what_is_no_memory_of_the_allocator_and_what_the_firmware_knows) {
  const std::string none = "no memory of this allocator\r\n";
  const std::string end = "whatis 0x0000000000004000: caches 0, arenas 0: complete\r\n";
  EXPECT_EQ(command("whatis 0x4000"), none + end);
  bench.console.config().describe = [](std::uintptr_t address, std::span<char> text) noexcept -> std::size_t {
    return address == 0x4000 ? std::string_view("the stack of nobody").copy(text.data(), text.size()) : 0;
  };
  EXPECT_EQ(command("whatis 0x4000"), none + "in the stack of nobody\r\n" + end);
  EXPECT_EQ(command("whatis " + hex(packet)).find("nobody"), std::string::npos);
  void* block = heap::allocate(20000);
  heap::free(block);
  const std::string freed = command("whatis " + hex(block));
  EXPECT_NE(freed.find(" bytes, free\r\n"), std::string::npos) << freed;
}

/// Initializes @p pool as the arena `pool` over @p memory, in units of 64 bytes.
Status initialize_pool(Arena& pool, std::span<std::byte> memory) {
  ArenaConfig config;
  config.name = "pool";
  config.start = reinterpret_cast<std::uintptr_t>(memory.data());
  config.size = memory.size();
  config.quantum = 64;
  return pool.initialize(config);
}

TEST_F(Diagnosis, frag_names_what_is_in_the_way_and_no_more) {
  alignas(64) static std::byte memory[16 * 1024];
  Arena pool;
  ASSERT_EQ(initialize_pool(pool, memory), Status::kOk);
  std::vector<std::uintptr_t> held;
  const std::size_t sizes[] = {1024, 512, 1024, 64, 1024, 64, 2048, 512, 1024, 2048};
  for (const std::size_t size : sizes) held.push_back(pool.allocate(size));
  const std::uintptr_t rest = pool.allocate(sizeof memory - 9344);
  ASSERT_NE(rest, 0u);
  for (const std::size_t i : {0, 2, 4, 6, 8}) pool.free(held[i], sizes[i]);
  // 1024 free, 512, 1024 free, 64, 1024 free, 64, 2048 free, 512, 1024 free, 2048: without the two of 64, 4096 fit.
  const std::string text = command("frag 4096 pool");
  EXPECT_NE(text.find("pool: free 6144, largest 2048\r\na request of 4096 fails: no free range is as large\r\n"
                      "without 2 pieces of 128 bytes there is a range of 4224 at " +
                      hex(reinterpret_cast<void*>(held[2])) + ":\r\n  2 pieces, 128 bytes: a user\r\n"),
            std::string::npos)
      << text;
  const auto pins = qm::test::find_all(text, "\r\n  (0x[0-9a-f]+) +64  ");
  ASSERT_EQ(pins.size(), 2u) << text;
  EXPECT_EQ(pins[0][1], hex(reinterpret_cast<void*>(held[3])));
  EXPECT_EQ(pins[1][1], hex(reinterpret_cast<void*>(held[5])));
  EXPECT_TRUE(text.ends_with("frag pool: pieces 2, bytes 128: complete\r\n")) << text;
  // Without a size: the obstacles to twice the largest free segment, which is 4096.
  EXPECT_EQ(replace_all(command("frag pool"), "pool: free [^\r]*\r\n", ""),
            replace_all(text, "pool: free [^\r]*\r\na request [^\r]*\r\n", ""));
  // The answer is correct.
  pool.free(held[3], 64);
  EXPECT_EQ(pool.allocate(4096), 0u) << "one of them is not enough";
  pool.free(held[5], 64);
  EXPECT_NE(command("frag 4K pool").find("a request of 4096 has room\r\n"), std::string::npos);
  const std::uintptr_t large = pool.allocate(4096);
  EXPECT_NE(large, 0u);
  EXPECT_NE(command("frag 32K pool").find("fails: less than that is free\r\nnote: no span has as much\r\n"),
            std::string::npos);
  EXPECT_EQ(command("frag nowhere"), "error: No such arena nowhere\r\n");
  for (const char* wrong : {"frag pool 4096", "frag 0"})
    EXPECT_EQ(command(wrong), "error: usage: frag [SIZE] [NAME]\r\n") << wrong;
  EXPECT_NE(command("frag").find(": complete\r\n"), std::string::npos);
  pool.free(large, 4096);
  for (const std::size_t i : {1, 7, 9}) pool.free(held[i], sizes[i]);
  pool.free(rest, sizeof memory - 9344);
  EXPECT_EQ(pool.destroy(), Status::kOk);
}

TEST_F(Diagnosis, frag_shows_twenty_of_many_pieces) {
  alignas(64) static std::byte memory[8 * 1024];
  Arena pool;
  ASSERT_EQ(initialize_pool(pool, memory), Status::kOk);
  std::vector<std::uintptr_t> held;
  for (std::size_t i = 0; i < sizeof memory / 64; ++i) held.push_back(pool.allocate(64));
  for (std::size_t i = 0; i < held.size(); i += 2) pool.free(held[i], 64);
  const std::string text = command("frag 4000 pool");  // 63 segments of 64, every second one of them free
  EXPECT_EQ(qm::test::find_all(text, "\r\n  0x[0-9a-f]+ +64  ").size(), 20U) << text;
  EXPECT_NE(text.find("\r\nnote: 11 more pieces\r\nfrag pool: pieces 31, "), std::string::npos) << text;
  for (std::size_t i = 1; i < held.size(); i += 2) pool.free(held[i], 64);
  EXPECT_EQ(pool.destroy(), Status::kOk);
}

TEST_F(Diagnosis, frag_adds_up_what_each_holder_has) {
  alignas(64) static std::byte memory[4096];
  Arena pool;
  ASSERT_EQ(initialize_pool(pool, memory), Status::kOk);
  std::vector<std::uintptr_t> held;
#define QM_TAKE held.push_back(QM_ALLOC(pool.allocate, 64, Fit::kInstant));  // each expansion is a call site of its own
  const auto of_one_site = [&] { QM_TAKE };
  of_one_site();
  QM_TAKE QM_TAKE QM_TAKE QM_TAKE QM_TAKE QM_TAKE QM_TAKE QM_TAKE QM_TAKE QM_TAKE;
  of_one_site();
  QM_TAKE QM_TAKE QM_TAKE QM_TAKE QM_TAKE QM_TAKE QM_TAKE QM_TAKE QM_TAKE QM_TAKE;
#undef QM_TAKE
  of_one_site();
  held.push_back(pool.allocate(4096 - 23 * 64));
  for (const std::uintptr_t start : held) ASSERT_NE(start, 0U);
  pool.free(held.back(), 4096 - 23 * 64);
  const std::string text = command("frag 4K pool");
  if (kCallSites) {
    EXPECT_TRUE(
        !qm::test::find(text, ":\r\n  3 pieces, 192 bytes: operator\\(\\) [^\r]*\r\n  1 piece, 64 bytes: ").empty())
        << text;
    EXPECT_EQ(qm::test::find_all(text, "\r\n  [0-9]+ pieces?, 64 bytes: ").size(), 15U) << text;
    EXPECT_NE(text.find("\r\nnote: 5 pieces, 320 bytes of other holders\r\n"), std::string::npos) << text;
  } else {
    EXPECT_NE(text.find(":\r\n  23 pieces, 1472 bytes: a user\r\n  0x"), std::string::npos) << text;
  }
  for (std::size_t i = 0; i + 1 < held.size(); ++i) pool.free(held[i], 64);
  EXPECT_EQ(pool.destroy(), Status::kOk);
}

TEST_F(Diagnosis, an_arenas_segment_is_in_every_view) {
  command("slab_trace start kheap");
  void* block = heap::allocate(20000);
  const std::string text = plain(command("whatis " + hex(block)));
  const char* const segment_and_record =
      "arena kheap: segment @ \\+ 0\r\n  2\\d+ bytes, allocated\r\n"
      "Obj @, from here: size 20000, age \\d+\\.\\d+ s, seq \\d+\r\n----\r\n#01 ";
  EXPECT_FALSE(qm::test::find(text, segment_and_record).empty()) << text;
  const std::string stacks = command("slab_stacks kheap");
  EXPECT_FALSE(qm::test::find(stacks, "stack_count: 1\r\nstack_bytes: 20000\r\n").empty()) << stacks;
  EXPECT_FALSE(
      qm::test::find(stacks, "\r\nstacks 1, hidden 0 \\(threshold 1\\), objects 1, bytes 20000, dropped 0, ").empty())
      << stacks;
  heap::free(block);
  EXPECT_EQ(plain(command("whatis " + hex(block))).find("Obj @"), std::string::npos);
}

TEST_F(Diagnosis, verify_counts_what_it_looked_at) {
  std::vector<void*> held;
  for (int i = 0; i < 20; ++i) held.push_back(packet->allocate());
  const CacheStats s = packet->stats();
  EXPECT_EQ(command("verify packet"),
            format("arenas 0, spans 0, segments 0, caches 1, slabs %zu\r\nverify: objects %zu, faults 0: complete\r\n",
                   s.slabs, s.objects));
  const ArenaStats base = base_arena().stats();
  EXPECT_EQ(command("verify base"),
            format("arenas 1, spans %zu, segments %zu, caches 0, slabs 0\r\nverify: objects 0, faults 0: complete\r\n",
                   base.spans, base.segments_allocated + base.segments_free));
  const std::string all = command("verify");
  EXPECT_TRUE(qm::test::matches(all,
                                "arenas 4, spans \\d+, segments \\d+, caches \\d+, slabs \\d+\r\nverify: objects \\d+, "
                                "faults 0: complete\r\n"))
      << all;
  EXPECT_EQ(command("verify nothing"), "error: No such arena or slab nothing\r\n");
  for (void* object : held) packet->free(object);
}

TEST_F(Diagnosis, verify_finds_a_slab_whose_bitmap_was_damaged) {
  void* object = packet->allocate();
  Slab* slab = packet->slabs().find(object);
  ++slab->in_use;
  EXPECT_EQ(command("verify packet"), format("fault: cache packet: slab 0x%016" PRIxPTR " breaks an invariant\r\n"
                                             "arenas 0, spans 0, segments 0, caches 1, slabs 1\r\nverify: objects 7, "
                                             "faults 1: complete\r\nerror: 1 fault\r\n",
                                             slab->start));
  EXPECT_EQ(bench.request("verify packet").status, 1u);
  --slab->in_use;
  packet->free(object);
  EXPECT_EQ(bench.request("verify packet").status, 0u);
}

TEST_F(Diagnosis, verify_finds_a_hart_whose_magazine_was_damaged) {
  packet->free(packet->allocate());
  Magazine* loaded = packet->hart_cache(0).loaded.load();
  loaded->bottom = loaded;
  const std::string text = command("verify packet");
  EXPECT_EQ(text.substr(0, text.find("\r\n")), "fault: cache packet: a hart's magazines break an invariant");
  loaded->bottom = nullptr;
}

TEST_F(Diagnosis, fault_sets_counts_and_ends) {
  EXPECT_EQ(command("fault packet every 4"), "fault packet: one allocation in 4 fails\r\n");
  EXPECT_EQ(command("fault packet_small nth 0x2"), "fault packet_small: allocation 2 from now fails\r\n");
  std::vector<void*> held;
  unsigned failed = 0;
  for (int i = 0; i < 10; ++i) {
    void* object = packet->allocate();
    if (object == nullptr) ++failed;
    else held.push_back(object);
  }
  EXPECT_EQ(failed, 2u);
  packet_small->free(packet_small->allocate());
  EXPECT_EQ(command("fault"),
            "fault packet: one allocation in 4 fails, 2 of 10 so far\r\n"
            "fault packet_small: allocation 2 fails, 1 counted\r\nfaults 2 of 8: complete\r\n");
  EXPECT_NE(
      command("status").find("\r\nfaults    packet every 4, 2 of 10 failed, packet_small nth 2, 0 of 1 failed\r\n"),
      std::string::npos);
  EXPECT_EQ(command("fault off"),
            "fault packet: 2 of 10 allocations failed\r\n"
            "fault packet_small: 0 of 1 allocations failed\r\n"
            "fault: 2 ended\r\n");
  EXPECT_EQ(command("fault off"), "fault: 0 ended\r\n");
  EXPECT_EQ(command("fault packet from 2"), "fault packet: allocation 2 from now and all later ones fail\r\n");
  for (int i = 0; i < 3; ++i) {
    void* object = packet->allocate();
    EXPECT_EQ(object != nullptr, i == 0);
    if (object != nullptr) held.push_back(object);
  }
  EXPECT_EQ(command("fault"),
            "fault packet: allocation 2 and all later ones fail, 2 of 3 so far\r\nfaults 1 of 8: complete\r\n");
  EXPECT_NE(command("status").find("\r\nfaults    packet from 2, 2 of 3 failed\r\n"), std::string::npos);
  EXPECT_EQ(command("fault off"), "fault packet: 2 of 3 allocations failed\r\nfault: 1 ended\r\n");
  for (const char* line : {"fault packet", "fault packet nth", "fault packet often 3", "fault off now", "fault nothing",
                           "fault nothing sometimes 1"}) {
    EXPECT_EQ(command(line), "error: usage: fault [NAME nth N|NAME every N|NAME from N|off]\r\n") << line;
  }
  EXPECT_EQ(command("fault nothing nth 1"), "error: No such slab nothing\r\n");
  EXPECT_EQ(command("fault packet nth 0"), "error: N is at least 1\r\n");
  EXPECT_EQ(command("fault packet nth x"), "error: x is not a number\r\n");
  EXPECT_EQ(command("fault packet nth 4294967296"), "error: 4294967296 is too large\r\n");
  EXPECT_EQ(command("fault kmem_slab nth 1"), "error: Unable to fault slab kmem_slab\r\n");
  EXPECT_EQ(command("fault packet* nth 1000"),
            "fault packet: allocation 1000 from now fails\r\nfault packet_small: allocation 1000 from now fails\r\n"
            "note: skipped 0 no-trace caches\r\n");
  command("fault off");
  test::make_class(64);
  EXPECT_TRUE(command("fault kmalloc nth 1000").ends_with("note: skipped 0 no-trace caches\r\n"))
      << "the heap's caches";
  command("fault off");
  for (void* object : held) packet->free(object);
}

TEST_F(Diagnosis, quarantine_sets_lists_finds_and_ends) {
  EXPECT_EQ(command("quarantine packet 2K"), "quarantine packet: up to 2048 freed bytes wait\r\n");
  EXPECT_EQ(command("quarantine packet_s* 0x100"),
            "quarantine packet_small: up to 256 freed bytes wait\r\nnote: skipped 0 caches that cannot have one\r\n");
  auto* object = static_cast<char*>(packet->allocate());
  packet->free(object);
  EXPECT_EQ(command("quarantine"),
            "quarantine packet: 1 object in 2048 bytes, 0 left it\r\n"
            "quarantine packet_small: 0 objects in 256 bytes, 0 left it\r\nquarantines 2: complete\r\n");
  EXPECT_NE(command("whatis " + hex(object)).find(", idle in quarantine\r\n"), std::string::npos);
  EXPECT_NE(command("slab_stats packet").find("\r\nQuarantine: 2048 bytes, 1 in it, 0 left it\r\n"), std::string::npos);
  EXPECT_NE(command("status").find("packet with 2048 bytes of quarantine"), std::string::npos);
  if (!kChecked) {
    object[9] = 1;
    EXPECT_NE(command("verify packet").find("fault: cache packet: its quarantine has 1 damaged object\r\n"),
              std::string::npos);
    EXPECT_EQ(command("verify packet").find("fault:"), std::string::npos) << "told once";
  }
  EXPECT_EQ(command("quarantine packet off"), "quarantine packet: ended, 1 object left it\r\nquarantine: 1 ended\r\n");
  EXPECT_EQ(command("quarantine off"), "quarantine packet_small: ended, 0 objects left it\r\nquarantine: 1 ended\r\n");
  EXPECT_EQ(command("quarantine off"), "quarantine: 0 ended\r\n");
  for (const char* line : {"quarantine packet", "quarantine packet 0", "quarantine off now"}) {
    EXPECT_NE(command(line).find("error: "), std::string::npos) << line;
  }
  EXPECT_EQ(command("quarantine nothing 4K"), "error: No such slab nothing\r\n");
  EXPECT_EQ(command("quarantine packet* 100"), "error: an object of packet has 512 bytes\r\n");
  EXPECT_EQ(command("quarantine"), "quarantines 0: complete\r\n") << "nothing has changed";
  EXPECT_EQ(command("quarantine packet 511"), "error: an object of packet has 512 bytes\r\n");
  EXPECT_EQ(command("quarantine packet x"), "error: x is not a number\r\n");
  EXPECT_EQ(command("quarantine kmem_slab 4K"), "error: kmem_slab cannot have a quarantine\r\n");
}

TEST_F(Diagnosis, fault_sets_none_where_there_is_no_room_for_all) {
  static char names[fault::kMaxFaults + 1][8];
  std::vector<Cache*> many;
  for (auto& name : names) {
    std::snprintf(name, sizeof name, "many_%zu", many.size());
    CacheConfig config;
    config.name = name;
    config.object_size = 64;
    many.push_back(Cache::create(config));
  }
  command("fault packet every 2");
  EXPECT_EQ(command("fault many_? every 1"), "error: more than 8 faults\r\n");
  for (Cache* cache : many) {
    void* object = cache->allocate();
    EXPECT_NE(object, nullptr);
    cache->free(object);
  }
  EXPECT_EQ(Cache::destroy(many.back()), Status::kOk);
  EXPECT_EQ(Cache::destroy(many[0]), Status::kOk);
  EXPECT_EQ(command("fault many_? every 1"),
            "fault many_1: one allocation in 1 fails\r\nfault many_2: one allocation in 1 fails\r\n"
            "fault many_3: one allocation in 1 fails\r\nfault many_4: one allocation in 1 fails\r\n"
            "fault many_5: one allocation in 1 fails\r\nfault many_6: one allocation in 1 fails\r\n"
            "fault many_7: one allocation in 1 fails\r\nnote: skipped 0 no-trace caches\r\n");
  EXPECT_NE(command("fault many_? every 3").find("one allocation in 3 fails"), std::string::npos) << "are replaced";
  command("fault off");
}

}  // namespace console_diagnosis_test
