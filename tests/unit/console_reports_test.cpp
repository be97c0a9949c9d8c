/// The reports, byte for byte: constant text is written here as in the contract; numbers come from the allocator and
/// are formatted by printf with the contract's formats.

#include "console_reports_fixture.hpp"

#include <qm/heap.hpp>

namespace console_reports_test {

using namespace qm;
using namespace qm::test;

class Reports : public ConsoleReports {};

// ---- kmemstat and free ----------------------------------------------------------------------------------------------

std::string arena_row(const char* name, int depth, Arena& arena) {
  const ArenaStats s = arena.stats();
  return format("%*s%-*s: A :%8zu:%15zu:%15zu:%12" PRIu64 ":%15zu:%15zu: %" PRIu64, 4 * depth, "", 30 - 4 * depth, name,
                arena.quantum(), s.total, s.allocated, s.allocations_ever, s.idle + s.in_extents, s.high_water,
                s.failures);
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
  const std::vector<std::string> lines = lines_of(command("kmemstat -v"));
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
  std::string names[13];  // arenas refer to them
  Arena chain[13];
  for (std::size_t i = 0; i < 13; ++i) {
    const std::string& name = names[i] = "level_" + std::to_string(i);
    ArenaConfig config;
    config.name = name.c_str();
    config.quantum = 1;
    config.source = i == 0 ? nullptr : &chain[i - 1];
    ASSERT_EQ(chain[i].initialize(config), Status::kOk);
    const std::string text = command("kmemstat -v");
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
  const std::string text = command("kmemstat -v");
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
  const std::vector<std::string> lines = lines_of(command("kmemstat -v"));
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_EQ(lines.back(), "caches 0, arenas 2: aborted");
  EXPECT_EQ(bench.request("kmemstat -v").status, 0u);
}

// ---- a line a cache

/// @returns @p bytes as a column of KiB, rounded up to tenths.
std::string kib(std::uint64_t bytes) {
  const std::uint64_t tenths = (bytes * 10 + 1023) / 1024;
  return format("%" PRIu64 ".%" PRIu64, tenths / 10, tenths % 10);
}

/// @returns the numbers in the line of @p name, without the name.
std::string figures_of(const std::string& text, const std::string& name) {
  for (const std::string& line : lines_of(text)) {
    if (line.starts_with(name + ' ')) return qm::test::replace_all(line.substr(name.size()), " +", " ");
  }
  return "no line " + name;
}

TEST_F(Reports, kmemstat_prints_a_line_a_cache_and_their_sum) {
  std::vector<void*> held;
  for (int i = 0; i < 9; ++i) held.push_back(packet->allocate());
  packet->free(held[8]);
  const std::string text = command("kmemstat");
  const std::string in_bytes = command("kmemstat -b");
  const CacheStats s = packet->stats();
  const std::uint64_t used = s.in_use * s.object_size, total = s.objects * s.object_size;
  const std::string ever = kCounted ? format("%" PRIu64, s.allocations) : "-";
  EXPECT_EQ(figures_of(text, "packet"), " 512 " + kib(used) + ' ' + kib(total - used) + ' ' + kib(total) +
                                            format(" %" PRIu64 "%% ", used * 100 / total) + ever + " 0");
  EXPECT_EQ(figures_of(in_bytes, "packet"), format(" 512 %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "%% ", used,
                                                   total - used, total, used * 100 / total) +
                                                ever + " 0");
  EXPECT_EQ(lines_of(text)[0], "KiB                        size/B   in use     idle    total used   allocs fail");
  // The sum of the lines must equal the line of sums.
  std::uint64_t all = 0;
  const std::vector<std::string> lines = lines_of(in_bytes);
  for (std::size_t i = 1; i + 2 < lines.size(); ++i)
    all += std::stoul(qm::test::find(lines[i], "^\\S+ +\\d+ +(\\d+) ")[1]);
  EXPECT_EQ(std::stoul(qm::test::find(lines[lines.size() - 2], "^total +(\\d+) ")[1]), all);
  EXPECT_EQ(lines.back(), format("shown %zu of %zu: complete", lines.size() - 3, lines.size() - 3));
  for (int i = 0; i < 8; ++i) packet->free(held[i]);
}

TEST_F(Reports, kmemstat_sorts_selects_and_cuts) {
  std::vector<void*> held;
  for (int i = 0; i < 40; ++i) held.push_back(packet->allocate());
  for (int i = 0; i < 5; ++i) held.push_back(packet_small->allocate());
  std::vector<std::string> lines = lines_of(command("kmemstat packet* sort used"));
  ASSERT_EQ(lines.size(), 5u);
  EXPECT_TRUE(lines[1].starts_with("packet ")) << lines[1];
  EXPECT_TRUE(lines[2].starts_with("packet_small ")) << lines[2];
  lines = lines_of(command("kmemstat sort name"));
  EXPECT_TRUE(std::is_sorted(lines.begin() + 1, lines.end() - 2));
  lines = lines_of(command("kmemstat sort size top 2"));
  EXPECT_EQ(lines.size(), 5u);
  EXPECT_TRUE(qm::test::matches(lines.back(), "shown 2 of \\d+: complete")) << lines.back();
  Cache* const long_name = make("a_name_of_thirty_one_characters", 32);
  lines = lines_of(command("kmemstat -b a_name*"));
  EXPECT_TRUE(lines[1].starts_with("a_name_of_thi~e_characters ")) << lines[1];
  EXPECT_EQ(Cache::destroy(long_name), Status::kOk);
  EXPECT_EQ(command("kmemstat nothing"), "error: No such slab nothing\r\n");
  for (const char* wrong :
       {"kmemstat sort", "kmemstat sort weight", "kmemstat top", "kmemstat a b", "kmemstat -v packet"})
    EXPECT_EQ(command(wrong), "error: usage: kmemstat [-b] [PATTERN] [sort KEY] [top N]\r\n") << wrong;
  for (int i = 0; i < 40; ++i) packet->free(held[i]);
  for (int i = 40; i < 45; ++i) packet_small->free(held[i]);
}

/// The idle bytes that `free` must show: those of slabs and spans that nobody holds, and pages of extents without slab.
std::size_t idle_bytes() {
  std::size_t idle = base_arena().stats().in_extents;
  RegistryCursor<Arena> arenas;
  while (Arena* arena = arenas.next()) {
    if (arena != &base_arena()) idle += arena->stats().free;
  }
  RegistryCursor<Cache> caches;
  while (Cache* cache = caches.next()) {
    const CacheStats s = cache->stats();
    if (s.slabs != 0) idle += (s.objects - s.in_use) * s.slab_bytes * s.slabs / s.objects;
  }
  return idle;
}

TEST_F(Reports, free_is_three_lines) {
  const ArenaStats base = base_arena().stats();
  std::vector<std::string> lines = lines_of(command("free"));
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0], "KiB         total        used        free        idle  least free     largest");
  EXPECT_EQ(qm::test::replace_all(lines[1], " +", " "),
            ' ' + kib(base.total) + ' ' + kib(base.allocated) + ' ' + kib(base.free) + ' ' + kib(idle_bytes()) + ' ' +
                kib(base.total - base.high_water) + ' ' + kib(base.largest_free));
  lines = lines_of(command("free -b"));
  EXPECT_EQ(lines[0], "bytes       total        used        free        idle  least free     largest");
  EXPECT_EQ(qm::test::replace_all(lines[1], " +", " "),
            format(" %zu %zu %zu %zu %zu %zu", base.total, base.allocated, base.free, idle_bytes(),
                   base.total - base.high_water, base.largest_free));
  EXPECT_EQ(command("free -k"), "error: usage: free [-v|-b]\r\n");
}

TEST_F(Reports, free_prints_akaros_lines_and_three_more) {
  void* held = packet->allocate();
  const std::vector<std::string> lines = lines_of(command("free -v"));
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
    const std::vector<std::string> lines = lines_of(command("free -v"));
    return std::stoul(lines[3].substr(14));
  };
  std::vector<void*> held;
  for (int i = 0; i < 40; ++i) held.push_back(packet->allocate());
  const std::size_t before = idle();
  for (void* object : held) packet->free(object);
  const std::size_t share = 40 * packet->slab_bytes() / packet->slabs().objects();
  EXPECT_LE(idle() - before, share + 1);
  EXPECT_GE(idle() - before, share - 1024u) << "less what the magazines that hold them were made of";
}

TEST_F(Reports, free_says_as_idle_an_empty_span_too) {
  heap::free(heap::allocate(5000));
  std::size_t spans = 0;
  RegistryCursor<Arena> arenas;
  while (Arena* arena = arenas.next()) spans += arena->stats().idle;
  ASSERT_GT(spans, 0u);
  EXPECT_EQ(lines_of(command("free -v"))[3], format("Idle Memory  : %15zu", idle_bytes()));
}

TEST_F(Reports, free_and_kmemstat_say_as_idle_what_no_slab_has_of_extents) {
  const std::size_t in_extents = base_arena().stats().in_extents;
  std::vector<void*> held;
  while (base_arena().stats().in_extents == in_extents && held.size() < 4000) held.push_back(packet->allocate());
  ASSERT_GT(base_arena().stats().in_extents, in_extents);
  EXPECT_EQ(lines_of(command("free -v"))[3], format("Idle Memory  : %15zu", idle_bytes()));
  const qm::test::Match match =
      qm::test::find(command("kmemstat -v"), "base +: A : +4096: +\\d+: +\\d+: +\\d+: +(\\d+):");
  ASSERT_FALSE(match.empty());
  EXPECT_EQ(std::stoul(match[1]), base_arena().stats().in_extents);
  for (void* object : held) packet->free(object);
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
  EXPECT_EQ(lines_of(command("free -v")).back(),
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

TEST_F(Reports, reap_counts_what_comes_back_of_extents) {
  std::vector<void*> held;
  while (base_arena().stats().in_extents == 0 && held.size() < 4000) held.push_back(packet->allocate());
  ASSERT_GT(base_arena().stats().in_extents, 0u);
  const std::size_t before = base_arena().stats().free;
  const std::string text = command("reap");
  const qm::test::Match match = qm::test::find(text, "reap: (\\d+) bytes");
  ASSERT_FALSE(match.empty()) << text;
  EXPECT_EQ(base_arena().stats().in_extents, 0u);
  EXPECT_EQ(std::stoul(match[1]), base_arena().stats().free - before);
  for (void* object : held) packet->free(object);
}

/// @returns the bytes of all slabs of magazines, and of the slabs of headers outside of slabs.
std::size_t magazine_bytes() {
  std::size_t bytes = 0;
  RegistryCursor<Cache> caches;
  while (Cache* cache = caches.next()) {
    const std::string_view name = cache->name();
    if (name.starts_with("kmem_magazine") || name == "kmem_slab") bytes += cache->stats().slabs * cache->slab_bytes();
  }
  return bytes;
}

TEST_F(Reports, reap_gives_back_by_how_much_the_idle_memory_of_free_falls) {
  const auto line_of_free = [&](std::size_t line) { return std::stoul(lines_of(command("free -v"))[line].substr(14)); };
  const auto reaped = [&] { return std::stoul(qm::test::find(command("reap"), "reap: (\\d+) bytes")[1]); };
  std::vector<void*> held, others, segments;
  for (int i = 0; i < 200; ++i) held.push_back(packet->allocate());
  for (int i = 0; i < 30; ++i) others.push_back(packet_small->allocate());
  for (int i = 0; i < 20; ++i) segments.push_back(heap::allocate(100 + 300 * i));
  std::vector<std::uintptr_t> pages;
  for (int i = 0; i < 12; ++i) pages.push_back(page_arena().allocate(4096));
  for (const std::uintptr_t page : pages) page_arena().free(page, 4096);
  for (std::size_t i = 1; i < held.size(); ++i) packet->free(held[i]);  // all but one
  for (void* object : others) packet_small->free(object);
  for (std::size_t i = 1; i < segments.size(); ++i) heap::free(segments[i]);
  const std::size_t idle = line_of_free(3), used = line_of_free(1), magazines = magazine_bytes();
  const std::size_t bytes = reaped();
  EXPECT_GT(bytes, 100'000u);
  EXPECT_EQ(used - line_of_free(1), bytes);
  // The magazines that held idle objects, and the headers of idle slabs, were themselves in use.
  EXPECT_GE(bytes, idle - line_of_free(3));
  EXPECT_LE(bytes, idle - line_of_free(3) + magazines);
  EXPECT_EQ(reaped(), 0u) << "one reap gives all";
  packet->free(held[0]);
  heap::free(segments[0]);
}

TEST_F(Reports, reap_does_not_count_what_is_no_memory_of_base) {
  static std::byte device[65536];
  Arena arena;
  ArenaConfig config;
  config.name = "device";
  config.start = reinterpret_cast<std::uintptr_t>(device);
  config.size = sizeof device;
  config.quantum = 64;
  ASSERT_EQ(arena.initialize(config), Status::kOk);
  CacheConfig of_device;
  of_device.name = "device_buffer";
  of_device.object_size = 256;
  of_device.flags = cache_flags::kNoTouch;
  of_device.source = &arena;
  Cache* cache = Cache::create(of_device);
  ASSERT_NE(cache, nullptr);
  cache->free(cache->allocate());
  const std::size_t slab = cache->slab_bytes();
  EXPECT_EQ(command("reap device_buffer"), format("note: %zu bytes more to arenas that do not draw from base\r\n"
                                                  "reap: 0 bytes from 1 caches: complete\r\n",
                                                  slab));
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
  EXPECT_EQ(arena.destroy(), Status::kOk);
}

// ---- all ------------------------------------------------------------------------------------------------------------

TEST_F(Reports, come_the_same_in_frames) {
  command("slab_trace start packet");
  void* object = packet->allocate();
  for (const char* line : {"kmemstat", "kmemstat -v", "free", "slab_trace print packet", "slab_stats packet",
                           "arena_stats base", "slab_trace status"}) {
    std::string text = command(line);
    text = qm::test::replace_all(text, "\r\n", "\n");
    const Bench::Answer answer = bench.request(line);
    EXPECT_EQ(answer.output, text) << line;
    EXPECT_EQ(answer.status, 0u);
  }
  packet->free(object);
}

TEST_F(Reports, come_as_rows_with_what_the_text_says) {
  resolve_all();
  command("slab_trace start packet");
  std::vector<void*> held;
  for (int i = 0; i < 3; ++i) held.push_back(allocate_outermost(*packet));
  // A line of the table, in bytes, is a row.
  const std::string line = qm::test::replace_all(figures_of(command("kmemstat -b"), "packet"), "%", "");
  const qm::test::Match f = qm::test::find(line, "^ (\\d+) (\\d+) (\\d+) (\\d+) \\d+ (\\d+|-) (\\d+)$");
  ASSERT_FALSE(f.empty()) << line;
  const std::string ever = f[5] == "-" ? "" : " allocations=" + f[5];
  EXPECT_EQ(bench.rows("kmemstat packet").substr(0, bench.rows("kmemstat packet").find('\n')),
            "cache name=packet size_bytes=" + f[1] + " used_bytes=" + f[2] + " idle_bytes=" + f[3] +
                " total_bytes=" + f[4] + ever + " failures=" + f[6]);
  // The rows of a dump and of the stacks.
  const std::string dump = bench.rows("slab_trace print packet");
  for (void* object : held) {
    EXPECT_NE(dump.find(format("object address=%zu hart=0 context=", reinterpret_cast<std::size_t>(object))),
              std::string::npos)
        << dump;
  }
  EXPECT_EQ(qm::test::find_all(dump, "object address=").size(), 3u);
  EXPECT_EQ(qm::test::find_all(dump, "\nframe address=\\d+ function=rx_deliver offset=19").size(),
            qm::test::find_all(command("slab_trace print packet"), "\n#\\d\\d ").size());
  EXPECT_NE(
      dump.find("end name=packet outstanding=3 recorded=3 dropped=0 truncated=0 from_before_start=0 verdict=complete\n"
                "status 0\n"),
      std::string::npos)
      << dump;
  const std::string id = qm::test::find(command("slab_stacks packet"), "stack_id: 0x([0-9a-f]{8})")[1];
  const std::string stacks = bench.rows("slab_stacks packet");
  EXPECT_EQ(
      stacks.find(format("stack objects=3 bytes=1536 stack=%lu truncated=0\nframe ", std::stoul(id, nullptr, 16))), 0u)
      << stacks;
  EXPECT_NE(stacks.find("objects=3 bytes=1536 dropped=0 "), std::string::npos) << stacks;
  // A failed command returns its error.
  EXPECT_EQ(bench.rows("free x"), "error line=usage: free [-v|-b]\nstatus 2\n");
  EXPECT_NE(bench.rows("nosuch").find("status 3\n"), std::string::npos);
  EXPECT_EQ(bench.rows("free").find("memory total_bytes="), 0u);
  for (void* object : held) packet->free(object);
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

}  // namespace console_reports_test
