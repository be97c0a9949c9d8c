/// The reports, byte for byte: what is fixed stands here as in the contract, numbers come from the allocator itself and
/// are set by printf with the contract's formats.

#include "console_reports_fixture.hpp"

#include <qm/heap.hpp>

namespace {

using namespace qm;
using namespace qm::test;
using console::Symbol;

class Reports : public ConsoleReports {};

// ---- kmemstat and free ----------------------------------------------------------------------------------------------

std::string arena_row(const char* name, int depth, Arena& arena) {
  const ArenaStats s = arena.stats();
  return format("%*s%-*s: A :%8zu:%15zu:%15zu:%12" PRIu64 ":%15zu:%15zu: %" PRIu64, 4 * depth, "", 30 - 4 * depth, name,
                arena.quantum(), s.total, s.allocated, s.allocations_ever, s.idle, s.high_water, s.failures);
}

std::string cache_row(int depth, Cache& cache) {
  const CacheStats s = cache.stats();
  const std::string ever = kCounted ? format("%" PRIu64, s.allocations) : "-";
  return format("%*s%-*s: S :%8zu:%15zu:%15zu:%12s:%15zu:%15zu: %zu", 4 * depth, "", 30 - 4 * depth, cache.name(),
                s.object_size, s.objects * s.object_size, s.in_use * s.object_size, ever.c_str(),
                (s.in_magazines + s.in_depot + s.in_slabs) * s.object_size, s.high_water * s.object_size, s.failures);
}

TEST_F(Reports, kmemstat_prints_akaros_columns_and_three_more) {
  Arena ids;
  ArenaConfig config;
  config.name = "inode_ids";
  config.start = 1;
  config.size = 1000;
  config.quantum = 1;
  ASSERT_EQ(ids.initialize(config), Status::kOk);
  void* held = packet->allocate();
  void* idle = packet->allocate();
  packet->free(idle);
  const std::vector<std::string> lines = lines_of(command("kmemstat"));
  ASSERT_GT(lines.size(), 8u);
  EXPECT_EQ(lines[0],
            "Arena/Slab Name               :Typ: Objsize:      Total Amt:      Alloc Amt: Allocs Ever:       Idle Amt:"
            "     High Water: Failed");
  EXPECT_EQ(lines[1], "----------------------------------------------------------------------------------------");
  EXPECT_EQ(lines[2], arena_row("base", 0, base_arena()));
  EXPECT_EQ(lines[3], arena_row("kpages", 1, page_arena()));
  unsigned caches = 0;
  RegistryCursor<Cache> all;
  while (Cache* cache = all.next()) {
    ++caches;
    const int depth = &cache->source() == &base_arena() ? 1 : &cache->source() == &page_arena() ? 2 : -1;
    if (depth < 0) continue;
    EXPECT_EQ(std::count(lines.begin(), lines.end(), cache_row(depth, *cache)), 1) << cache_row(depth, *cache);
  }
  EXPECT_EQ(lines[lines.size() - 2], arena_row("inode_ids", 0, ids));
  unsigned arenas = 0;
  RegistryCursor<Arena> all_arenas;
  while (all_arenas.next() != nullptr) ++arenas;
  EXPECT_EQ(lines.back(), format("caches %u, arenas %u: complete", caches, arenas));
  EXPECT_EQ(lines.size(), 3u + caches + arenas);
  packet->free(held);
  EXPECT_EQ(ids.destroy(), Status::kOk);
}

TEST_F(Reports, kmemstat_shows_twelve_levels_and_says_when_there_are_more) {
  std::string names[13];  // arenas keep them
  Arena chain[13];
  for (std::size_t i = 0; i < 13; ++i) {
    const std::string& name = names[i] = "level_" + std::to_string(i);
    ArenaConfig config;
    config.name = name.c_str();
    config.quantum = 1;
    config.source = i == 0 ? nullptr : &chain[i - 1];
    ASSERT_EQ(chain[i].initialize(config), Status::kOk);
    const std::string text = command("kmemstat");
    const bool shown = i < 12;
    EXPECT_EQ(text.find("\r\n" + std::string(4 * i, ' ') + name + (i < 6 ? " " : ":")) != std::string::npos, shown)
        << text;
    EXPECT_EQ(text.find(": complete\r\n") != std::string::npos, shown);
    EXPECT_EQ(text.find(": incomplete\r\n") != std::string::npos, !shown);
  }
  for (std::size_t i = 13; i-- > 0;) EXPECT_EQ(chain[i].destroy(), Status::kOk);
}

TEST_F(Reports, kmemstat_counts_only_what_users_hold_as_allocated) {
  std::vector<void*> held;
  for (int i = 0; i < 37; ++i) held.push_back(packet->allocate());
  for (int i = 0; i < 30; ++i) {
    packet->free(held.back());
    held.pop_back();
  }
  const std::string text = command("kmemstat");
  const qm::test::Match match =
      qm::test::find(text, " packet +: S : +512: +(\\d+): +(\\d+): +([-\\d]+): +(\\d+): +(\\d+): 0\r\n");
  ASSERT_FALSE(match.empty()) << text;
  EXPECT_EQ(match[2], "3584");
  EXPECT_EQ(std::stoul(match[1]), std::stoul(match[2]) + std::stoul(match[4]));
  EXPECT_EQ(match[3], kCounted ? "37" : "-");
  EXPECT_GE(std::stoul(match[5]), 37u * 512u);
  for (void* object : held) packet->free(object);
}

TEST_F(Reports, kmemstat_ends_with_aborted_at_ctrl_c) {
  bench.terminal.on_yield = [](FakeTerminal& terminal) {
    if (terminal.yields == 2) terminal.send("\x03");
  };
  const std::vector<std::string> lines = lines_of(command("kmemstat"));
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines.back(), "caches 0, arenas 2: aborted");
  EXPECT_EQ(bench.request("kmemstat").status, 0u);
}

TEST_F(Reports, free_prints_akaros_lines_and_three_more) {
  void* held = packet->allocate();
  const std::vector<std::string> lines = lines_of(command("free"));
  const ArenaStats base = base_arena().stats();
  ASSERT_EQ(lines.size(), 7u);
  EXPECT_EQ(lines[0], format("Total Memory : %15zu", base.total));
  EXPECT_EQ(lines[1], format("Used Memory  : %15zu", base.allocated));
  EXPECT_EQ(lines[2], format("Free Memory  : %15zu", base.total - base.allocated));
  EXPECT_EQ(lines[3].substr(0, 14), "Idle Memory  :");
  EXPECT_EQ(lines[4], format("Least Free   : %15zu", base.total - base.high_water));
  EXPECT_EQ(lines[5], format("Largest Free : %15zu", base.largest_free));
  EXPECT_TRUE(qm::test::matches(lines[6], "caches \\d+, arenas \\d+: complete")) << lines[6];
  packet->free(held);
}

TEST_F(Reports, free_says_as_idle_what_the_caches_do_not_use) {
  const auto idle = [&] {
    const std::vector<std::string> lines = lines_of(command("free"));
    return std::stoul(lines[3].substr(14));
  };
  std::vector<void*> held;
  for (int i = 0; i < 40; ++i) held.push_back(packet->allocate());
  const std::size_t before = idle();
  for (void* object : held) packet->free(object);
  EXPECT_LE(idle() - before, 40u * 512u);
  EXPECT_GE(idle() - before, 40u * 512u - 1024u) << "less what the magazines that hold them were made of";
}

TEST_F(Reports, free_says_as_idle_an_empty_span_too) {
  heap::free(heap::allocate(5000));
  std::size_t spans = 0;
  RegistryCursor<Arena> arenas;
  while (Arena* arena = arenas.next()) spans += arena->stats().idle;
  ASSERT_GT(spans, 0u);
  std::size_t idle = 0;
  RegistryCursor<Cache> caches;
  while (Cache* cache = caches.next()) {
    const CacheStats s = cache->stats();
    idle += (s.objects - s.in_use) * s.object_size;
  }
  EXPECT_EQ(lines_of(command("free"))[3], format("Idle Memory  : %15zu", idle + spans));
}

TEST_F(Reports, free_leaves_out_what_is_no_memory) {
  Arena ids;
  ArenaConfig config;
  config.name = "ids";
  config.start = 64;
  config.size = 4096;
  config.quantum = 1;
  ASSERT_EQ(ids.initialize(config), Status::kOk);
  CacheConfig of_ids;
  of_ids.name = "id_cache";
  of_ids.object_size = 1;
  of_ids.flags = cache_flags::kNoTouch;
  of_ids.source = &ids;
  Cache* cache = Cache::create(of_ids);
  ASSERT_NE(cache, nullptr);
  cache->free(cache->allocate());
  RegistryCursor<Arena> arenas;
  unsigned with_memory = 0;
  while (arenas.next() != nullptr) ++with_memory;
  RegistryCursor<Cache> caches;
  unsigned all_caches = 0;
  while (caches.next() != nullptr) ++all_caches;
  EXPECT_EQ(lines_of(command("free")).back(),
            format("caches %u, arenas %u: complete", all_caches - 1, with_memory - 1));
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
  EXPECT_EQ(ids.destroy(), Status::kOk);
}

// ---- arena_stats and slab_stats -------------------------------------------------------------------------------------

TEST_F(Reports, arena_stats_prints_akaros_lines_in_their_order) {
  Arena ids;
  ArenaConfig config;
  config.name = "inode_ids";
  config.start = 64;
  config.size = 1000;
  config.quantum = 1;
  ASSERT_EQ(ids.initialize(config), Status::kOk);
  Arena blocks;
  ArenaConfig importing;
  importing.name = "id_blocks";
  importing.quantum = 16;
  importing.source = &ids;
  ASSERT_EQ(blocks.initialize(importing), Status::kOk);
  const std::uintptr_t first = ids.allocate(100);
  const std::uintptr_t second = ids.allocate(30);
  ASSERT_NE(second, 0u);
  EXPECT_EQ(ids.free(first, 100), Status::kOk);
  const std::string expected =
      "Arena: inode_ids (@)\r\n"
      "--------------\r\n"
      "\tquantum: 1, qcache_max: 0\r\n"
      "\tsource: none\r\n"
      "\tList of [2^6 - 2^7):\r\n"
      "\t\tNr free segs: 1\r\n"
      "\tList of [2^9 - 2^10):\r\n"
      "\t\tNr free segs: 1\r\n"
      "\tSegments:\r\n"
      "\t--------------\r\n"
      "\tStats:\r\n"
      "\t-----------------\r\n"
      "\t\tAmt free: 970 (@)\r\n"
      "\t\tAmt alloc: 30 (@), nr allocs 2\r\n"
      "\t\tAmt total segs: 1000, amt alloc segs 30\r\n"
      "\t\tAmt imported: 0 (@), nr imports 0\r\n"
      "\tImporting Arenas:\r\n"
      "\t-----------------\r\n"
      "\t\tid_blocks\r\n"
      "\tImporting Slabs:\r\n"
      "\t-----------------\r\n"
      "\tHigh water: 130\r\n"
      "\tLargest free: 870\r\n"
      "\tFailures: 0, refused frees 0\r\n"
      "\tImports: 0, releases 0, spans 1, idle 0\r\n"
      "\tNr segs: 2 free, 1 alloc\r\n"
      "arenas 1: complete\r\n";
  EXPECT_EQ(plain(command("arena_stats inode_ids")), expected);
  EXPECT_NE(command("arena_stats inode_ids").find("Amt free: 970 (0x00000000000003ca)\r\n"), std::string::npos);
  EXPECT_NE(command("arena_stats id_blocks").find("\tsource: inode_ids\r\n"), std::string::npos);
  const std::string all = command("arena_stats");
  EXPECT_NE(all.find("arenas 6: complete\r\n"), std::string::npos) << all;
  EXPECT_EQ(ids.free(second, 30), Status::kOk);
  EXPECT_EQ(blocks.destroy(), Status::kOk);
  EXPECT_EQ(ids.destroy(), Status::kOk);
}

TEST_F(Reports, arena_stats_shows_every_importer_however_many) {
  std::vector<Cache*> caches;
  std::string names[150];
  for (int i = 0; i < 150; ++i) {
    names[i] = "importing_cache_with_a_name_" + std::to_string(i);
    caches.push_back(make(names[i].c_str(), 64));
  }
  const std::string text = command("arena_stats base");
  for (Cache* cache : caches) {
    EXPECT_NE(text.find(std::string("\t\t") + cache->name() + "\r\n"), std::string::npos) << cache->name();
    EXPECT_EQ(Cache::destroy(cache), Status::kOk);
  }
  EXPECT_EQ(text.substr(text.size() - 20), "arenas 1: complete\r\n");
}

TEST_F(Reports, arena_stats_refuses_names_and_words) {
  EXPECT_EQ(command("arena_stats nowhere"), "error: No such arena nowhere\r\n");
  EXPECT_EQ(command("arena_stats x*"), "error: No such arena x*\r\n");
  EXPECT_EQ(command("arena_stats base kpages"), "error: usage: arena_stats [NAME]\r\n");
  EXPECT_EQ(command("arena_stats b*").substr(0, 12), "Arena: base ");
}

TEST_F(Reports, slab_stats_shows_limit_and_reserve) {
  packet->set_limit(500);
  ASSERT_EQ(packet->reserve(20), Status::kOk);
  const std::string text = command("slab_stats packet");
  EXPECT_NE(text.find("\r\nLimit: 500\r\nReserve: 20\r\n"), std::string::npos) << text;
  ASSERT_EQ(packet->reserve(0), Status::kOk);
  packet->set_limit(0);
  EXPECT_NE(command("slab_stats packet").find("\r\nLimit: none\r\nReserve: 0\r\n"), std::string::npos);
}

TEST_F(Reports, slab_stats_prints_akaros_lines_in_their_order) {
  std::vector<void*> held;
  for (int i = 0; i < 5; ++i) held.push_back(packet->allocate());
  packet->free(held.back());
  held.pop_back();
  const CacheStats s = packet->stats();
  const std::string expected = format(
      "\r\nKmem_cache: packet\r\n"
      "---------------------\r\n"
      "Source: base\r\n"
      "Objsize (incl align): 512\r\n"
      "Align: 16\r\n"
      "Nr unallocated in slab layer: %zu\r\n"
      "Nr allocated from slab layer: %zu\r\n"
      "Depot magsize: %u\r\n"
      "Nr empty mags: %zu\r\n"
      "Nr non-empty mags: %zu\r\n"
      "High water: %zu\r\n"
      "Failures: 0, refused frees 0\r\n"
      "Nr slabs: %zu, %zu bytes each\r\n"
      "Nr in use: 4\r\n"
      "Nr idle in magazines: %zu\r\n"
      "Nr idle in depot: %zu\r\n"
      "Nr idle in slabs: %zu\r\n"
      "Magazine misses: %zu\r\n"
      "Magsize changes: 0\r\n"
      "Limit: none\r\n"
      "Reserve: 0\r\n"
      "caches 1: complete\r\n",
      s.in_slabs, s.objects - s.in_slabs, s.magazine_rounds, s.depot_empty, s.depot_full, s.high_water, s.slabs,
      s.slab_bytes, s.in_magazines, s.in_depot, s.in_slabs, s.misses);
  EXPECT_EQ(command("slab_stats packet"), expected);
  EXPECT_EQ(command("slab_stats nothing"), "error: No such slab nothing\r\n");
  EXPECT_EQ(command("slab_stats a b"), "error: usage: slab_stats [SLAB_NAME]\r\n");
  const std::string both = command("slab_stats packet*");
  EXPECT_NE(both.find("\r\nKmem_cache: packet_small\r\n"), std::string::npos);
  EXPECT_EQ(both.substr(both.size() - 20), "caches 2: complete\r\n");
  for (void* object : held) packet->free(object);
}

// ---- whatis, verify, fault ------------------------------------------------------------------------------------------

std::string hex(const void* address) { return format("0x%016" PRIxPTR, reinterpret_cast<std::uintptr_t>(address)); }

TEST_F(Reports, whatis_says_who_has_an_object) {
  std::vector<void*> held;
  for (int i = 0; i < 12; ++i) held.push_back(packet->allocate());
  auto* object = static_cast<std::byte*>(held[0]);
  ObjectPlace place;
  ASSERT_TRUE(packet->locate(reinterpret_cast<std::uintptr_t>(object), place));
  const auto expected = [&](const char* whereabouts, std::size_t offset) {
    return format("cache packet: object %s + %zu, %s, %u of %u in slab 0x%016" PRIxPTR "\r\n", hex(object).c_str(),
                  offset, whereabouts, place.index + 1, place.objects, place.slab);
  };
  const auto first_line = [&](const void* address) {
    const std::string text = command("whatis " + hex(address));
    return text.substr(0, text.find("\r\n") + 2);
  };
  EXPECT_EQ(first_line(object + 100), expected("in use", 100));
  EXPECT_EQ(first_line(object), expected("in use", 0));
  for (int i = 1; i < 12; ++i) packet->free(held[static_cast<std::size_t>(i)]);
  packet->free(object);  // the last: in the hart's magazine
  EXPECT_EQ(first_line(object + 8), expected("idle in a magazine of hart 0", 8));
  {
    const hal::InterruptGuard masked;
    packet->detach_magazines(0);
  }
  EXPECT_EQ(first_line(object + 8), expected("idle in the depot", 8));
  held[0] = packet->allocate();
  packet->free(held[0]);
  const std::uintptr_t header = (place.slab | 4095) - 7;  // the last word of the slab's page
  EXPECT_EQ(first_line(reinterpret_cast<const void*>(header)),
            format("cache packet: slab 0x%016" PRIxPTR " + %zu, no object\r\n", place.slab, header - place.slab));
  ASSERT_EQ(packet->reserve(2), Status::kOk);
  packet->reap();
}

TEST_F(Reports, whatis_shows_the_record_and_the_segments) {
  command("slab_trace start packet");
  void* object = allocate_outermost(*packet);
  resolve_all();
  const std::string text = plain(command("whatis " + hex(object)));
  const std::string object_and_record = std::string("^cache packet: object @ \\+ 0, in use, \\d of 7 in slab @\r\n") +
                                        (kChecked ? "  allocated by [^\r]*\r\n" : "") +
                                        "Obj @, from here: size 512, age \\d+\\.\\d+ s";
  EXPECT_FALSE(qm::test::find(text, object_and_record).empty()) << text;
  EXPECT_NE(text.find(" s, seq 1\r\n----\r\n#01 [<@>] in rx_deliver\r\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\r\narena base: segment @ + "), std::string::npos) << text;
  EXPECT_NE(text.find("code rx_deliver+0x12/0x60\r\nwhatis @: caches 1, arenas 1: complete\r\n"), std::string::npos)
      << text;
  packet->free(object);
  const std::uintptr_t page = page_arena().allocate(4096);
  const std::string of_page = plain(command("whatis " + hex(reinterpret_cast<void*>(page))));
  const char* const page_object = "^cache kpages_4096: object @ \\+ 0, in use, \\d+ of \\d+ in slab @\r\n";
  EXPECT_FALSE(qm::test::find(of_page, page_object).empty()) << of_page;
  EXPECT_NE(of_page.find("bytes, slab of a quantum cache\r\n"), std::string::npos) << of_page;
  EXPECT_NE(of_page.find("whatis @: caches 1, arenas 2: complete\r\n"), std::string::npos) << of_page;
  EXPECT_EQ(page_arena().free(page, 4096), Status::kOk);
  bench.console.config().resolver = nullptr;
  EXPECT_EQ(command("whatis 0x10"), "whatis 0x0000000000000010: caches 0, arenas 0: complete\r\n");
  EXPECT_EQ(command("whatis 16K"), "error: 16K is not a number\r\n");
  EXPECT_EQ(command("whatis"), "error: usage: whatis ADDR\r\n");
}

/// Frees on a stack that ends with this function's frame.
template <int kPath>
[[gnu::noinline]] void free_by(Cache& cache, void* object) {
  const StackEnd end(__builtin_frame_address(0));
  cache.free(object);
  asm volatile("" ::"i"(kPath));
}

/// Names a place in allocate_at_end() and free_by() after the last of them that begins before it; none in allocate_by().
bool name_life(std::uintptr_t pc, Symbol& symbol) noexcept {
  constexpr std::uintptr_t kMostBytes = 1024;  // of one of them
  const struct {
    const char* name;
    std::uintptr_t begin;
  } functions[] = {{"first_user", reinterpret_cast<std::uintptr_t>(&allocate_at_end<1>)},
                   {"second_user", reinterpret_cast<std::uintptr_t>(&allocate_at_end<2>)},
                   {"", reinterpret_cast<std::uintptr_t>(&allocate_by<1>)},
                   {"", reinterpret_cast<std::uintptr_t>(&allocate_by<2>)},
                   {"first_end", reinterpret_cast<std::uintptr_t>(&free_by<1>)},
                   {"second_end", reinterpret_cast<std::uintptr_t>(&free_by<2>)}};
  symbol = {"", kMostBytes, kMostBytes};
  for (const auto& one : functions) {
    if (pc >= one.begin && pc - one.begin < symbol.offset) symbol = {one.name, pc - one.begin, kMostBytes};
  }
  return !symbol.name.empty();
}

TEST_F(Reports, whatis_of_a_checking_build_shows_who_allocated_and_who_freed_in_the_life_before) {
  if (!kChecked) GTEST_SKIP() << "the stacks of a life are kept by a checking build";
  command("slab_trace start packet");  // there are stacks from here on
  bench.console.config().resolver = &name_life;
  void* const object = allocate_by<1>(*packet);
  const auto shows = [&](const char* allocated_by, const char* freed_by) {
    const auto deed = [](const char* what, const char* function) {
      // An unoptimised build shows some of the allocator's own frames before; behind it is the place in the test.
      return format("  %s (@ < )*%s\\+0x[0-9a-f]+ < @, stack 0x[0-9a-f]{8}\r\n", what, function);
    };
    const std::string expected = "^cache packet: object @ \\+ 0, [^\r]* in slab @\r\n" +
                                 deed("allocated by", allocated_by) +
                                 (freed_by != nullptr ? deed("freed by", freed_by) : "") + "(Obj @|arena)";
    const std::string text = plain(command("whatis " + hex(object)));
    EXPECT_FALSE(qm::test::find(text, expected).empty()) << text << "\nexpected " << expected;
  };
  shows("first_user", nullptr);
  free_by<1>(*packet, object);
  shows("first_user", "first_end");
  ASSERT_EQ(allocate_by<2>(*packet), object);
  shows("second_user", "first_end");
  free_by<2>(*packet, object);
  shows("second_user", "second_end");
}

TEST_F(Reports, an_arenas_segment_is_in_every_view) {
  command("slab_trace start kheap");
  void* block = heap::allocate(20000);
  const std::string text = plain(command("whatis " + hex(block)));
  const char* const segment_and_record =
      "arena kheap: segment @ \\+ 0, 2\\d+ bytes, allocated\r\n"
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

TEST_F(Reports, verify_counts_what_it_looked_at) {
  std::vector<void*> held;
  for (int i = 0; i < 20; ++i) held.push_back(packet->allocate());
  const CacheStats s = packet->stats();
  EXPECT_EQ(command("verify packet"),
            format("verify: arenas 0, spans 0, segments 0, caches 1, slabs %zu, objects %zu, faults 0: complete\r\n",
                   s.slabs, s.objects));
  const ArenaStats base = base_arena().stats();
  EXPECT_EQ(command("verify base"),
            format("verify: arenas 1, spans %zu, segments %zu, caches 0, slabs 0, objects 0, faults 0: complete\r\n",
                   base.spans, base.segments_allocated + base.segments_free));
  const std::string all = command("verify");
  EXPECT_TRUE(qm::test::matches(all,
                                "verify: arenas 4, spans \\d+, segments \\d+, caches \\d+, slabs \\d+, objects \\d+, "
                                "faults 0: complete\r\n"))
      << all;
  EXPECT_EQ(command("verify nothing"), "error: No such arena or slab nothing\r\n");
  for (void* object : held) packet->free(object);
}

TEST_F(Reports, verify_finds_a_slab_whose_bitmap_was_damaged) {
  void* object = packet->allocate();
  Slab* slab = packet->slabs().find(object);
  ++slab->in_use;
  EXPECT_EQ(command("verify packet"), format("fault: cache packet: slab 0x%016" PRIxPTR " breaks an invariant\r\n"
                                             "verify: arenas 0, spans 0, segments 0, caches 1, slabs 1, objects 7, "
                                             "faults 1: complete\r\nerror: 1 faults\r\n",
                                             slab->start));
  EXPECT_EQ(bench.request("verify packet").status, 1u);
  --slab->in_use;
  packet->free(object);
  EXPECT_EQ(bench.request("verify packet").status, 0u);
}

TEST_F(Reports, verify_finds_a_hart_whose_magazine_was_damaged) {
  packet->free(packet->allocate());
  Magazine* loaded = packet->cell(0).loaded.load();
  loaded->bottom = loaded;
  const std::string text = command("verify packet");
  EXPECT_EQ(text.substr(0, text.find("\r\n")), "fault: cache packet: a hart's magazines break an invariant");
  loaded->bottom = nullptr;
}

TEST_F(Reports, fault_sets_counts_and_ends) {
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
  EXPECT_EQ(command("fault off"),
            "fault packet: 2 of 10 allocations failed\r\n"
            "fault packet_small: 0 of 1 allocations failed\r\n"
            "fault: 2 ended\r\n");
  EXPECT_EQ(command("fault off"), "fault: 0 ended\r\n");
  for (const char* line : {"fault", "fault packet", "fault packet nth", "fault packet often 3", "fault off now",
                           "fault nothing", "fault nothing sometimes 1"}) {
    EXPECT_EQ(command(line), "error: usage: fault SLAB_NAME nth N|SLAB_NAME every N|off\r\n") << line;
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
  for (void* object : held) packet->free(object);
}

TEST_F(Reports, fault_sets_none_where_there_is_no_room_for_all) {
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

// ---- reap -----------------------------------------------------------------------------------------------------------

TEST_F(Reports, reap_says_how_much_came_back_from_how_many_caches) {
  std::vector<void*> held;
  for (int i = 0; i < 40; ++i) held.push_back(packet->allocate());
  void* one = packet_small->allocate();
  for (void* object : held) packet->free(object);
  const std::size_t slabs = packet->stats().slabs * packet->stats().slab_bytes;
  EXPECT_EQ(command("reap packet"), format("reap: %zu bytes from 1 caches: complete\r\n", slabs));
  EXPECT_EQ(packet->stats().slabs, 0u);
  EXPECT_EQ(command("reap packet"), "reap: 0 bytes from 0 caches: complete\r\n");
  packet_small->free(one);
  const std::string all = command("reap");
  EXPECT_TRUE(qm::test::matches(all, "reap: [1-9]\\d* bytes from [1-9]\\d* caches: complete\r\n")) << all;
  EXPECT_EQ(packet_small->stats().slabs, 0u);
  EXPECT_EQ(command("reap nothing"), "error: No such slab nothing\r\n");
  EXPECT_EQ(command("reap packet now"), "error: usage: reap [SLAB_NAME]\r\n");
}

// ---- all ------------------------------------------------------------------------------------------------------------

TEST_F(Reports, come_the_same_in_frames) {
  command("slab_trace start packet");
  void* object = packet->allocate();
  for (const char* line :
       {"kmemstat", "slab_trace print packet", "slab_stats packet", "arena_stats base", "slab_trace status"}) {
    std::string text = command(line);
    text = qm::test::replace_all(text, "\r\n", "\n");
    const Bench::Answer answer = bench.request(line);
    EXPECT_EQ(answer.output, text) << line;
    EXPECT_EQ(answer.status, 0u);
  }
  packet->free(object);
}

TEST_F(Reports, complete_the_names_of_caches_and_arenas) {
  EXPECT_EQ(bench.type("slab_trace pr\tpacket_\t"), "slab_trace print packet_small ");
  EXPECT_EQ(bench.type("\x15slab_trace start kmem_s\t\t"),
            "\x1b[30D\x1b[Kslab_trace start kmem_s\r\nqm> slab_trace start kmem_s")
      << "a no-trace cache is not offered";
  EXPECT_EQ(bench.type("\x15"), "\x1b[23D\x1b[K");
  EXPECT_EQ(bench.type("slab_stats kmem_s\t\x15"), "slab_stats kmem_slab \x1b[21D\x1b[K");
  EXPECT_EQ(bench.type("arena_stats kp\t\x15"), "arena_stats kpages \x1b[19D\x1b[K");
}

}  // namespace
