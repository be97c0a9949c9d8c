/// The leak scan against planted leaks and a model of them. The test is the platform: `kept` is the only root besides
/// those that a case declares. The test stores all other references to objects as complements of addresses.

#include <support/system_fixture.hpp>

#include <array>
#include <cstring>
#include <utility>

#include <qm/scan.hpp>
#include <qm/test/seed.hpp>

namespace alloc_scan_test {

using namespace qm;

std::array<void*, 64> kept;

/// An object in a graph.
struct Node {
  Node* links[4];
  unsigned char rest[96 - 4 * sizeof(Node*)];
};
static_assert(sizeof(Node) == 96);

/// Stores an object without a pointer to it.
class Hidden {
 public:
  Hidden() = default;
  Hidden(void* object) : complement_(~reinterpret_cast<std::uintptr_t>(object)) {}  // NOLINT: implicit by design
  [[nodiscard]] std::uintptr_t address() const { return ~complement_; }
  [[nodiscard]] Node* node() const { return reinterpret_cast<Node*>(address()); }
  [[nodiscard]] void* object() const { return reinterpret_cast<void*>(address()); }

 private:
  std::uintptr_t complement_ = ~std::uintptr_t{0};
};

void visit_kept(scan::Roots& roots, std::uintptr_t) noexcept {
  const auto start = reinterpret_cast<std::uintptr_t>(kept.data());
  roots.range(start, start + sizeof kept);
}
constinit const scan::Platform kPlatform{.visit = visit_kept, .memory = {}};

class ScanTest : public test::SystemTest {
 protected:
  void SetUp() override {
    SystemTest::SetUp();
    kept.fill(nullptr);
    scan::set_platform(&kPlatform);
    scan::set_memory({});
    cache_ = make("node", sizeof(Node));
  }
  void TearDown() override {
    scan::set_platform(nullptr);
    SystemTest::TearDown();
  }

  static Cache* make(const char* name, std::size_t size, std::uint32_t flags = 0, Arena* source = nullptr) {
    CacheConfig config;
    config.name = name;
    config.object_size = size;
    config.flags = flags;
    config.source = source;
    Cache* const cache = Cache::create(config);
    EXPECT_NE(cache, nullptr) << name;
    return cache;
  }
  [[nodiscard]] Hidden node() const {
    void* const object = cache_->allocate();
    EXPECT_NE(object, nullptr);
    std::memset(object, 0, sizeof(Node));
    return object;
  }
  struct Found {
    Status status = Status::kOk;
    std::size_t groups = 0;
    std::size_t heads = 0;
    std::size_t under = 0;
    std::size_t head_bytes = 0;
    LeakSummary summary;
    LeakGroup first;
  };
  /// Scans with the harts stopped, then in slices: nothing moves here, so both find the same.
  static Found find() {
    const Found stopped = find_with([](LeakScan& scan) { return scan.run(); });
    const Found sliced = find_with([](LeakScan& scan) { return scan.run_sliced(); });
    if (stopped.status == Status::kMismatch) return stopped;
    if (sliced.status == Status::kNoMemory) {  // it needs more
      EXPECT_GT(sliced.summary.wanted_bytes, sliced.summary.work_bytes);
      return stopped;
    }
    EXPECT_EQ(sliced.status, stopped.status);
    EXPECT_EQ(sliced.groups, stopped.groups);
    EXPECT_EQ(sliced.heads, stopped.heads);
    EXPECT_EQ(sliced.under, stopped.under);
    EXPECT_EQ(sliced.head_bytes, stopped.head_bytes);
    EXPECT_EQ(sliced.summary.live, stopped.summary.live);
    EXPECT_EQ(sliced.summary.leaked_bytes, stopped.summary.leaked_bytes);
    EXPECT_EQ(sliced.summary.inner_only, stopped.summary.inner_only);
    EXPECT_EQ(sliced.first.owner, stopped.first.owner);
    EXPECT_EQ(sliced.first.examples[0], stopped.first.examples[0]);
    return stopped;
  }
  template <class Run>
  static Found find_with(const Run& run) {
    LeakScan scan;
    Found found;
    found.status = run(scan);
    found.summary = scan.summary();
    for (const LeakGroup& group : scan.groups()) {
      if (found.groups++ == 0) found.first = group;
      found.heads += group.heads;
      found.under += group.under;
      found.head_bytes += group.head_bytes;
    }
    if (found.status == Status::kOk) {
      EXPECT_EQ(found.heads + found.under, found.summary.leaked);
    }
    return found;
  }

  Cache* cache_ = nullptr;
};

TEST_F(ScanTest, accuses_what_nothing_leads_to_and_nothing_else) {
  const Hidden a = node(), b = node(), c = node();
  kept[3] = a.object();
  const Found found = find();
  EXPECT_EQ(found.status, Status::kOk);
  EXPECT_EQ(found.summary.live, 3u);
  EXPECT_EQ(found.summary.live_bytes, 3 * cache_->object_size());
  EXPECT_EQ(found.groups, 1u);
  EXPECT_EQ(found.first.owner, cache_);
  EXPECT_EQ(found.first.heads, 2u);
  EXPECT_EQ(found.first.under, 0u);
  EXPECT_EQ(found.summary.leaked, 2u);
  const std::uintptr_t low = b.address() < c.address() ? b.address() : c.address();
  EXPECT_EQ(found.first.examples[0], low);
  EXPECT_EQ(found.first.examples[1], low == b.address() ? c.address() : b.address());
  EXPECT_EQ(found.first.examples[2], 0u);
  EXPECT_EQ(found.summary.inner_only, 0u);
  EXPECT_GE(found.summary.words, kept.size());
}

TEST_F(ScanTest, leaves_no_address_of_a_leaked_object_in_the_memory_that_it_frees) {
  const Hidden leaked = node();
  const volatile std::uintptr_t* words = nullptr;
  {
    LeakScan scan;
    ASSERT_EQ(scan.run(), Status::kOk);
    ASSERT_EQ(scan.groups().size(), 1u);
    EXPECT_EQ(scan.groups()[0].examples[0], leaked.address());
    words = reinterpret_cast<const std::uintptr_t*>(scan.groups().data());
  }
  for (std::size_t i = 0; i < sizeof(LeakGroup) / sizeof *words; ++i) EXPECT_FALSE(words[i] == leaked.address()) << i;
}

TEST_F(ScanTest, shows_a_list_by_its_head_whichever_way_it_goes_through_memory) {
  constexpr unsigned kLength = 60;
  static std::array<Hidden, kLength> nodes;
  for (const bool upwards : {true, false}) {
    for (Hidden& one : nodes) one = node();
    for (unsigned i = 0; i + 1 < kLength; ++i) {
      if (upwards) nodes[i].node()->links[0] = nodes[i + 1].node();
      else nodes[i + 1].node()->links[0] = nodes[i].node();
    }
    const Hidden head = upwards ? nodes[0] : nodes[kLength - 1];
    const Found leaked = find();
    EXPECT_EQ(leaked.heads, 1u);
    EXPECT_EQ(leaked.under, kLength - 1);
    EXPECT_EQ(leaked.first.examples[0], head.address());
    kept[0] = head.object();
    EXPECT_EQ(find().summary.leaked, 0u);
    kept[0] = nullptr;
    for (const Hidden& one : nodes) cache_->free(one.object());
  }
}

TEST_F(ScanTest, shows_a_cycle_by_one_head_and_a_tree_by_its_root) {
  const Hidden a = node(), b = node(), c = node();
  a.node()->links[1] = b.node();
  b.node()->links[2] = c.node();
  c.node()->links[3] = a.node();
  Found found = find();
  EXPECT_EQ(found.heads, 1u);
  EXPECT_EQ(found.under, 2u);
  const Hidden self = node();
  self.node()->links[0] = self.node();
  found = find();
  EXPECT_EQ(found.heads, 2u);
  EXPECT_EQ(found.under, 2u);
  // A root of the graph over both: only this one is a head.
  const Hidden top = node();
  top.node()->links[0] = b.node();
  top.node()->links[1] = self.node();
  found = find();
  EXPECT_EQ(found.heads, 1u);
  EXPECT_EQ(found.under, 4u);
  EXPECT_EQ(found.first.examples[0], top.address());
  // An object that two heads share counts once.
  const Hidden other = node();
  other.node()->links[0] = b.node();
  found = find();
  EXPECT_EQ(found.heads, 2u);
  EXPECT_EQ(found.under, 4u);
  kept[0] = other.object();
  found = find();
  EXPECT_EQ(found.heads, 1u);
  EXPECT_EQ(found.under, 1u);
}

TEST_F(ScanTest, takes_a_pointer_into_an_object_for_one_to_it_and_says_so) {
  const Hidden a = node(), b = node();
  kept[0] = &a.node()->links[2];
  kept[1] = b.object();
  Found found = find();
  EXPECT_EQ(found.summary.leaked, 0u);
  EXPECT_EQ(found.summary.inner_only, 1u);
  EXPECT_EQ(found.summary.inner_only_bytes, cache_->object_size());
  EXPECT_EQ(found.summary.inner_examples[0], a.address());
  kept[2] = a.object();
  EXPECT_EQ(find().summary.inner_only, 0u);
  // Into a large block, at pages from its start.
  void* const large = heap::allocate(300'000);
  kept[3] = static_cast<char*>(large) + 123'457;
  EXPECT_EQ(find().summary.inner_only, 1u);
  kept[3] = static_cast<char*>(large) + 299'999;
  EXPECT_EQ(find().summary.leaked, 0u);
  const std::uintptr_t behind = reinterpret_cast<std::uintptr_t>(large) + heap::usable_size(large);
  kept[3] = reinterpret_cast<void*>(behind + 8);
  found = find();
  EXPECT_EQ(found.summary.leaked, 1u);
  EXPECT_GE(found.summary.leaked_bytes, 300'000u);
  heap::free(large);
}

TEST_F(ScanTest, follows_a_list_of_any_length_without_recursion) {
  constexpr unsigned kLength = 15'000;
  Hidden last;
  for (unsigned i = 0; i < kLength; ++i) {
    const Hidden one = node();
    one.node()->links[0] = last.address() != 0 ? last.node() : nullptr;
    last = one;
  }
  kept[0] = last.object();
  EXPECT_EQ(find().summary.leaked, 0u);
  EXPECT_EQ(find().summary.live, kLength);
  kept[0] = nullptr;
  const Found found = find();
  EXPECT_EQ(found.heads, 1u);
  EXPECT_EQ(found.under, kLength - 1);
}

TEST_F(ScanTest, neither_accuses_nor_asks_what_lies_idle) {
  static std::array<Hidden, 500> objects;
  for (Hidden& one : objects) one = node();
  const Hidden lost = node();
  for (const Hidden& one : objects) {
    for (Node*& link : one.node()->links) link = lost.node();
    cache_->free(one.object());
  }
  if (kMagazines) {
    EXPECT_EQ(cache_->reserve(20), Status::kOk);
  }
  const CacheStats stats = cache_->stats();
  ASSERT_TRUE(!kMagazines || stats.in_magazines != 0);
  ASSERT_NE(stats.in_slabs, 0u);
  const Found found = find();
  EXPECT_EQ(found.summary.live, 1u);
  EXPECT_EQ(found.heads, 1u);
  EXPECT_EQ(found.first.examples[0], lost.address());
  // Neither a magazine with pointers to them is a root, nor a free block.
  kept[0] = lost.object();
  EXPECT_EQ(find().summary.leaked, 0u);
}

TEST_F(ScanTest, neither_accuses_nor_asks_what_waits_in_quarantine) {
  const Hidden lost = node();
  Cache* keeping = Cache::create({.name = "keeping",  // with a destructor, freed objects keep their contents
                                  .object_size = sizeof(Node),
                                  .destructor = [](void*, void*) {}});
  ASSERT_NE(keeping, nullptr);
  for (Cache* cache : {cache_, keeping}) {
    ASSERT_EQ(cache->set_quarantine(100 * sizeof(Node)), Status::kOk);
    for (int i = 0; i < 130; ++i) {
      auto* one = static_cast<Node*>(cache->allocate());
      for (Node*& link : one->links) link = lost.node();
      cache->free(one);
    }
    ASSERT_EQ(cache->stats().quarantined, 100u);
  }
  const Found found = find();
  EXPECT_EQ(found.summary.damaged, nullptr);
  EXPECT_EQ(found.summary.live, 1u);
  EXPECT_EQ(found.heads, 1u);
  EXPECT_EQ(found.first.examples[0], lost.address());
  kept[0] = lost.object();
  EXPECT_EQ(find().summary.leaked, 0u);
  cache_->free(lost.object());
  EXPECT_EQ(Cache::destroy(keeping), Status::kOk);
}

TEST_F(ScanTest, does_not_look_into_objects_without_pointers) {
  Cache* const texts = make("text", 128, cache_flags::kNoPointers);
  auto** const text = static_cast<void**>(texts->allocate());
  const Hidden lost = node();
  std::memset(text, 0, 128);
  text[5] = lost.object();
  kept[0] = text;
  Found found = find();
  EXPECT_EQ(found.heads, 1u);
  EXPECT_EQ(found.first.owner, cache_);
  kept[0] = nullptr;
  found = find();
  EXPECT_EQ(found.heads, 2u);
  EXPECT_EQ(found.under, 0u);
}

TEST_F(ScanTest, looks_at_declared_roots_until_they_are_taken_back) {
  static std::array<void*, 4> ring;
  ring.fill(nullptr);
  const Hidden held = node();
  ring[3] = held.object();
  EXPECT_EQ(find().heads, 1u);
  qm_scan_root root{ring.data(), sizeof ring, "ring", nullptr};
  EXPECT_EQ(qm_scan_add_root(&root), 0);
  EXPECT_EQ(scan::add_root(root), Status::kBusy);
  EXPECT_EQ(find().heads, 0u);
  EXPECT_EQ(scan::remove_root(root), Status::kOk);
  EXPECT_EQ(scan::remove_root(root), Status::kNotFound);
  EXPECT_EQ(find().heads, 1u);
  qm_scan_root null_root{nullptr, 16, "null", nullptr};
  qm_scan_root empty{ring.data(), 0, "empty", nullptr};
  qm_scan_root wrapping{ring.data(), SIZE_MAX, "wrapping", nullptr};
  for (qm_scan_root* bad : {&null_root, &empty, &wrapping})
    EXPECT_EQ(scan::add_root(*bad), Status::kInvalid) << bad->name;
  EXPECT_NE(qm_scan_add_root(nullptr), 0);
  EXPECT_NE(qm_scan_remove_root(nullptr), 0);
}

TEST_F(ScanTest, takes_no_word_of_a_cache_for_a_pointer_to_an_object) {
  constexpr std::size_t kNodes = 200;  // of several slabs, the first object of each among them
  for (std::size_t i = 0; i < kNodes; ++i) static_cast<void>(node());
  qm_scan_root root{cache_, Cache::bytes(1), "structure", nullptr};
  ASSERT_EQ(scan::add_root(root), Status::kOk);
  EXPECT_EQ(find().heads, kNodes);
  EXPECT_EQ(scan::remove_root(root), Status::kOk);
}

TEST_F(ScanTest, reads_the_whole_words_of_a_root_and_none_of_those_that_lie_partly_in_it) {
  static std::array<void*, 5> words;
  std::array<Hidden, 5> nodes;
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = (nodes[i] = node()).object();
  constexpr std::size_t kHalf = sizeof(void*) / 2;
  qm_scan_root root{reinterpret_cast<std::byte*>(&words[1]) - kHalf, 2 * sizeof(void*) + 2 * kHalf, "words", nullptr};
  ASSERT_EQ(scan::add_root(root), Status::kOk);
  EXPECT_EQ(find().heads, words.size() - 2);  // of words 1 and 2 all is in the root
  root.bytes = kHalf;
  EXPECT_EQ(find().heads, words.size());
  EXPECT_EQ(scan::remove_root(root), Status::kOk);
  words.fill(nullptr);
}

TEST_F(ScanTest, refuses_a_root_that_is_no_memory_and_says_so_if_it_ceases_to_be_one) {
  static std::array<void*, 4> ring;
  static std::array<MemoryRange, 2> known;
  // All memory, in two ranges that meet behind the ring.
  const auto at = reinterpret_cast<std::uintptr_t>(ring.data());
  known[0] = {4096, at + sizeof ring - 4096};
  known[1] = {at + sizeof ring, SIZE_MAX - at - sizeof ring};
  static scan::Platform platform;
  platform = {.visit = visit_kept, .memory = known};
  scan::set_platform(&platform);
  qm_scan_root beyond{ring.data() + 2, sizeof ring, "beyond", nullptr};
  EXPECT_EQ(scan::add_root(beyond), Status::kInvalid);
  qm_scan_root root{ring.data(), sizeof ring, "ring", nullptr};
  ASSERT_EQ(scan::add_root(root), Status::kOk);
  known[0].size -= 8;
  const Found found = find();
  EXPECT_EQ(found.status, Status::kInvalid);
  EXPECT_STREQ(found.summary.damaged, "ring");
  EXPECT_EQ(found.heads, 0u);
  EXPECT_EQ(scan::remove_root(root), Status::kOk);
}

TEST_F(ScanTest, judges_blocks_pages_and_what_arenas_over_pages_hand_out) {
  Arena& pages = page_arena();
  const std::uintptr_t page = pages.allocate(PageMap::kPageBytes);
  const std::uintptr_t pages_5 = pages.allocate(5 * PageMap::kPageBytes);
  Hidden small(heap::allocate(24)), middle(heap::allocate(700)), large(heap::allocate(50'000));
  // Spans and slabs of other arenas are no objects, but their contents are.
  Arena above;
  ASSERT_EQ(above.initialize({.name = "above", .quantum = 64, .source = &pages, .quantum_cache_max = 256}),
            Status::kOk);
  const std::uintptr_t quantum = above.allocate(64);
  const std::uintptr_t segment = above.allocate(640);
  Cache* const in_pages = make("in_pages", 200, 0, &pages);
  void* const object = in_pages->allocate();
  // The old contents could point anywhere.
  std::memset(reinterpret_cast<void*>(page), 0, PageMap::kPageBytes);
  std::memset(reinterpret_cast<void*>(pages_5), 0, 5 * PageMap::kPageBytes);
  for (const Hidden& block : {small, middle, large}) std::memset(block.object(), 0, heap::usable_size(block.object()));
  std::memset(reinterpret_cast<void*>(quantum), 0, 64);
  std::memset(reinterpret_cast<void*>(segment), 0, 640);
  std::memset(object, 0, 200);
  kept[0] = reinterpret_cast<void*>(page);
  kept[1] = reinterpret_cast<void*>(pages_5);
  kept[2] = small.object();
  kept[3] = middle.object();
  kept[4] = large.object();
  kept[5] = reinterpret_cast<void*>(quantum);
  kept[6] = reinterpret_cast<void*>(segment);
  kept[7] = object;
  ASSERT_TRUE(page != 0 && pages_5 != 0 && quantum != 0 && segment != 0 && object != nullptr);
  Found found = find();
  EXPECT_EQ(found.status, Status::kOk);
  EXPECT_EQ(found.summary.live, 8u);
  EXPECT_EQ(found.summary.leaked, 0u);
  for (unsigned i = 0; i < 8; ++i) {
    void* const taken = std::exchange(kept[i], nullptr);
    const Hidden hidden(taken);
    found = find();
    EXPECT_EQ(found.heads, 1u) << i;
    EXPECT_EQ(found.first.examples[0], hidden.address()) << i;
    kept[i] = hidden.object();
  }
  // The scan reads the contents of each.
  const Hidden inside = node();
  for (unsigned i = 0; i < 8; ++i) {
    static_cast<void**>(kept[i])[1] = inside.object();
    EXPECT_EQ(find().heads, 0u) << i;
    static_cast<void**>(kept[i])[1] = nullptr;
  }
  EXPECT_EQ(find().heads, 1u);
  in_pages->free(object);
  EXPECT_EQ(Cache::destroy(in_pages), Status::kOk);
  EXPECT_EQ(above.free(quantum, 64), Status::kOk);
  EXPECT_EQ(above.free(segment, 640), Status::kOk);
  EXPECT_EQ(above.destroy(), Status::kOk);
  EXPECT_EQ(pages.free(page, PageMap::kPageBytes), Status::kOk);
  EXPECT_EQ(pages.free(pages_5, 5 * PageMap::kPageBytes), Status::kOk);
}

TEST_F(ScanTest, takes_pages_of_base_and_objects_of_small_alignment_for_roots) {
  const std::uintptr_t page = base_arena().allocate(PageMap::kPageBytes);
  CacheConfig config;
  config.name = "packed";
  config.object_size = 12 + sizeof(void*) - 4;
  config.alignment = 4;
  config.object_size = 4 * 5;
  Cache* const packed = Cache::create(config);
  ASSERT_NE(packed, nullptr);
  const Hidden a = node(), b = node();
  std::memset(reinterpret_cast<void*>(page), 0, PageMap::kPageBytes);
  reinterpret_cast<void**>(page)[9] = a.object();
  void* const small = packed->allocate();
  std::memset(small, 0, 20);
  kept[1] = small;
  const auto at = reinterpret_cast<std::uintptr_t>(small);
  const std::uintptr_t word = b.address();
  std::memcpy(reinterpret_cast<void*>((at + sizeof(void*) - 1) & ~(sizeof(void*) - 1)), &word, sizeof word);
  const Found found = find();
  EXPECT_EQ(found.summary.leaked, 0u);
  EXPECT_EQ(found.summary.not_judged, packed->slabs().stride() % scan::kScanAlignment != 0 ? 1u : 0u);
  kept[1] = nullptr;
  packed->free(small);
  EXPECT_EQ(find().heads, 1u);
  EXPECT_EQ(base_arena().free(page, PageMap::kPageBytes), Status::kOk);
  EXPECT_EQ(find().heads, 2u);
}

TEST_F(ScanTest, holds_what_the_allocator_was_given_to_keep) {
  auto* const name = static_cast<char*>(heap::allocate(32));
  std::memcpy(name, "named", 6);
  auto* const context = static_cast<void**>(heap::allocate(64));
  std::memset(context, 0, 64);
  const Hidden inside = node();
  context[2] = inside.object();
  CacheConfig config;
  config.name = name;
  config.object_size = 40;
  config.context = context;
  Cache* const cache = Cache::create(config);
  ASSERT_NE(cache, nullptr);
  auto* const arena_name = static_cast<char*>(heap::allocate(64));
  std::memcpy(arena_name, "ids", 4);
  Arena arena;
  ASSERT_EQ(arena.initialize({.name = arena_name, .start = 1, .size = 100, .quantum = 1}), Status::kOk);
  EXPECT_EQ(find().summary.leaked, 0u);
  EXPECT_EQ(arena.destroy(), Status::kOk);
  EXPECT_EQ(find().summary.leaked, 1u);
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
  EXPECT_EQ(find().summary.leaked, 4u);
}

/// A stack that is itself a block: its contents below sp keep nothing.
struct Stacked {
  hal::StackBounds whole;
  std::uintptr_t sp = 0;
};
Stacked stacked;
void visit_stack(scan::Roots& roots, std::uintptr_t sp) noexcept {
  visit_kept(roots, sp);
  roots.stack(stacked.whole, stacked.sp);
  roots.word(~stacked.sp);
}

TEST_F(ScanTest, looks_at_a_stack_from_its_sp_on) {
  static constinit const scan::Platform platform{.visit = visit_stack, .memory = {}};
  scan::set_platform(&platform);
  auto** const stack = static_cast<void**>(heap::allocate(4096));
  std::memset(stack, 0, 4096);
  const auto low = reinterpret_cast<std::uintptr_t>(stack);
  stacked = {{low + 16, low + 4096}, low + 2048};
  const Hidden below = node(), above = node();
  stack[2048 / sizeof(void*) - 1] = below.object();
  stack[2048 / sizeof(void*)] = above.object();
  for (const bool is_known : {false, true}) {
    kept[0] = is_known ? stack : nullptr;  // as the task's structure refers to it
    const Found found = find();
    EXPECT_EQ(found.heads, 1u);
    EXPECT_EQ(found.first.examples[0], below.address());
  }
  scan::set_platform(&kPlatform);
}

TEST_F(ScanTest, says_how_much_memory_it_wants_and_does_with_that) {
  static std::array<Hidden, 2000> objects;
  for (Hidden& one : objects) one = node();
  alignas(16) static std::byte memory[600'000];
  const auto start = reinterpret_cast<std::uintptr_t>(memory);
  const std::size_t free = base_arena().stats().free;
  std::size_t wanted = 0;
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{5000}, std::size_t{20'000}}) {
    ASSERT_EQ(scan::set_memory({start, bytes}), Status::kOk);
    const Found found = find();
    EXPECT_EQ(found.status, Status::kNoMemory) << bytes;
    EXPECT_EQ(found.heads, 0u);
    EXPECT_GT(found.summary.wanted_bytes, bytes);
    wanted = found.summary.wanted_bytes;
  }
  ASSERT_LE(wanted, sizeof memory);
  ASSERT_EQ(scan::set_memory({start, wanted}), Status::kOk);
  const Found found = find();
  EXPECT_EQ(found.status, Status::kOk);
  EXPECT_EQ(found.heads, objects.size());
  EXPECT_EQ(base_arena().stats().free, free);
  EXPECT_EQ(scan::set_memory({0, 5}), Status::kInvalid);
  EXPECT_EQ(scan::set_memory({}), Status::kOk);
  // It leaves nothing behind in its own memory, and nothing that is reported from there is a root.
  EXPECT_EQ(find().heads, objects.size());
  EXPECT_EQ(base_arena().stats().free, free);
}

TEST_F(ScanTest, works_in_what_is_left_when_memory_has_run_out) {
  Hidden last;
  std::size_t taken = 0;
  while (void* const block = heap::allocate_at(nullptr, 2000, WaitPolicy::kQuiet)) {
    std::memset(block, 0, 2000);
    *static_cast<void**>(block) = taken != 0 ? last.object() : nullptr;
    last = block;
    ++taken;
  }
  ASSERT_GT(taken, 1000u);
  EXPECT_EQ(find().status, Status::kNoMemory);
  alignas(16) static std::byte memory[800'000];
  ASSERT_EQ(scan::set_memory({reinterpret_cast<std::uintptr_t>(memory), sizeof memory}), Status::kOk);
  const Found found = find();
  EXPECT_EQ(found.status, Status::kOk) << found.summary.wanted_bytes;
  EXPECT_EQ(found.heads, 1u);
  EXPECT_EQ(found.summary.leaked, taken);
}

TEST_F(ScanTest, is_one_at_a_time_and_needs_a_platform) {
  EXPECT_NE(node().address(), 0u);
  {
    LeakScan first;
    EXPECT_EQ(first.run(), Status::kOk);
    EXPECT_EQ(first.run(), Status::kBusy);
    LeakScan second;
    EXPECT_EQ(second.run(), Status::kBusy);
    EXPECT_TRUE(second.groups().empty());
    EXPECT_EQ(second.summary().live, 0u);
    EXPECT_EQ(first.groups().size(), 1u);
  }
  EXPECT_EQ(find().heads, 1u);
  scan::set_platform(nullptr);
  EXPECT_EQ(find().status, Status::kRefused);
  scan::set_platform(&kPlatform);
  {
    const hal::InterruptGuard masked;
    ++hal::hart_local().lock_depth;
    EXPECT_EQ(find().status, Status::kUnsafe);
    --hal::hart_local().lock_depth;
  }
  EXPECT_EQ(find().heads, 1u);
}

TEST_F(ScanTest, accuses_nobody_where_the_structures_of_the_allocator_are_damaged) {
  static std::array<MemoryRange, 1> known;
  static Arena arena;
  ASSERT_EQ(arena.initialize({.name = "ids", .start = 1, .size = 100, .quantum = 1}), Status::kOk);
  known[0] = {4096, SIZE_MAX - 4096};
  static scan::Platform platform;
  platform = {.visit = visit_kept, .memory = known};
  const Hidden lost = node();
  EXPECT_NE(node().address(), 0u);
  const auto expect_damage = [&](const char* what) {
    const Found found = find();
    EXPECT_EQ(found.status, Status::kMismatch) << what;
    EXPECT_EQ(found.heads, 0u) << what;
    ASSERT_NE(found.summary.damaged, nullptr);
    EXPECT_STREQ(found.summary.damaged, what);
  };
  Slab* const slab = cache_->slabs().find(lost.object());
  ASSERT_NE(slab, nullptr);
  const SlabLayer* const layer = std::exchange(slab->layer, nullptr);
  expect_damage("node");
  slab->layer = layer;
  ListNode* const next = slab->next;
  for (const std::uintptr_t bad : {std::uintptr_t{3}, reinterpret_cast<std::uintptr_t>(slab) - 64}) {
    slab->next = reinterpret_cast<ListNode*>(bad);
    expect_damage("node");
  }
  slab->next = next;
  slab->in_use = static_cast<std::uint16_t>(slab->in_use - 1);
  expect_damage("node");
  slab->in_use = static_cast<std::uint16_t>(slab->in_use + 1);
  // The header of a block.
  void* const block = heap::allocate(20'000);
  auto* const header = reinterpret_cast<std::uint32_t*>(block) - 1;
  *header ^= 0x10000;
  expect_damage("kheap");
  *header ^= 0x10000;
  kept[0] = block;
  // The list of arenas: its last entry points to an invalid address.
  scan::set_platform(&platform);
  auto** const link = reinterpret_cast<void**>(static_cast<Registered*>(&arena)) + 1;  // behind the name
  ASSERT_EQ(*link, nullptr);
  *link = reinterpret_cast<void*>(std::uintptr_t{0x10});
  expect_damage("the registry");
  *link = nullptr;
  EXPECT_EQ(find().heads, 2u);
  EXPECT_EQ(find().status, Status::kOk);
  EXPECT_EQ(arena.destroy(), Status::kOk);
}

TEST_F(ScanTest, knows_magazines_of_every_capacity) {
  if (!kMagazines) GTEST_SKIP() << "there are none";
  for (const std::uint32_t rounds : kMagazineRounds) {
    CacheConfig config;
    config.name = "magazines";
    config.object_size = 64;
    config.magazine_rounds = rounds;
    Cache* const cache = Cache::create(config);
    ASSERT_NE(cache, nullptr);
    std::array<Hidden, 2 * kMaxRounds> objects;
    for (Hidden& object : objects) object = cache->allocate();
    for (const Hidden& object : objects) cache->free(object.object());
    ASSERT_NE(cache->hart_cache(0).loaded.load(), nullptr);
    EXPECT_EQ(find().status, Status::kOk) << rounds;
    EXPECT_EQ(Cache::destroy(cache), Status::kOk);
  }
}

TEST_F(ScanTest, accuses_nobody_where_a_magazine_is_damaged) {
  if (!kMagazines) GTEST_SKIP() << "there are none";
  std::array<Hidden, 40> objects;
  for (Hidden& object : objects) object = node();
  for (const Hidden& object : objects) cache_->free(object.object());
  HartCache& own = cache_->hart_cache(0);
  Magazine* const loaded = own.loaded.load();
  ASSERT_NE(loaded, nullptr);
  ASSERT_NE(own.prev, nullptr);
  ASSERT_EQ(find().status, Status::kOk);
  const auto expect_damage = [](auto& word, auto bad, const char* what) {
    const auto sound = std::exchange(word, static_cast<std::remove_reference_t<decltype(word)>>(bad));
    const Found found = find();
    EXPECT_EQ(found.status, Status::kMismatch) << what;
    EXPECT_STREQ(found.summary.damaged, "node") << what;
    word = sound;
    EXPECT_EQ(find().status, Status::kOk) << what;
  };
  for (Magazine* one : {loaded, own.prev}) expect_damage(one->capacity, kMaxRounds + 1, "a capacity");
  expect_damage(own.prev->rounds, own.prev->capacity + 1, "more objects than slots");
  expect_damage(own.prev, reinterpret_cast<Magazine*>(reinterpret_cast<std::uintptr_t>(own.prev) + 1), "prev");
  for (void** bad : {loaded->slots() - 1, loaded->slots() + loaded->capacity + 1}) {
    void** const sound = own.top.exchange(bad);
    EXPECT_EQ(find().status, Status::kMismatch);
    own.top.store(sound);
  }
  EXPECT_EQ(find().status, Status::kOk);
}

TEST_F(ScanTest, gathers_origins_beyond_its_list_in_a_last_group) {
  static std::array<std::array<char, 12>, 80> names;
  for (unsigned i = 0; i < names.size(); ++i) {
    names[i] = {'k', 'i', 'n', 'd', static_cast<char>('a' + i / 10), static_cast<char>('0' + i % 10), 0};
    Cache* const cache = make(names[i].data(), 16 + 8 * i);
    void* const object = cache->allocate();
    ASSERT_NE(object, nullptr);
    std::memset(object, 0, 16 + 8 * i);
  }
  const Found found = find();
  EXPECT_EQ(found.groups, LeakScan::kMostGroups);
  EXPECT_EQ(found.heads, names.size());
  LeakScan scan;
  ASSERT_EQ(scan.run(), Status::kOk);
  EXPECT_EQ(scan.groups().back().owner, nullptr);
  EXPECT_EQ(scan.groups().back().heads, names.size() - LeakScan::kMostGroups + 1);
  EXPECT_GE(scan.groups()[0].bytes(), scan.groups()[1].bytes());
}

// ---- a model --------------------------------------------------------------------------------------------------------

constexpr unsigned kNodes = 400;
struct Model {
  std::array<Hidden, kNodes> objects;
  std::array<std::array<unsigned, 4>, kNodes> links;  // kNodes: no link
  std::array<bool, kNodes> rooted;
  std::array<bool, kNodes> reached;
  std::array<unsigned, kNodes> work;

  /// Marks all nodes that can be reached from marked nodes.
  void spread(std::array<bool, kNodes>& marked) {
    unsigned count = 0;
    for (unsigned i = 0; i < kNodes; ++i) {
      if (marked[i]) work[count++] = i;
    }
    while (count != 0) {
      for (const unsigned to : links[work[--count]]) {
        if (to == kNodes || marked[to]) continue;
        marked[to] = true;
        work[count++] = to;
      }
    }
  }
};

TEST_F(ScanTest, agrees_with_a_model_of_random_graphs) {
  static Model model;
  test::Random numbers;
  const auto random = [&numbers](unsigned below) { return static_cast<unsigned>(numbers.below(below)); };
  Cache* const other = make("other", 72);
  const std::uint64_t rounds = 6 + test::steps(60);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    SCOPED_TRACE(round);
    const unsigned density = 1 + random(12);
    for (unsigned i = 0; i < kNodes; ++i) {
      void* object = nullptr;
      const unsigned kind = random(4);
      if (kind == 0) object = other->allocate();
      const std::size_t bytes = kind == 0 ? 72 : kind == 1 ? 40 + random(3000) : sizeof(Node);
      if (kind == 1) object = heap::allocate(bytes);
      if (kind > 1) object = cache_->allocate();
      ASSERT_NE(object, nullptr);
      model.objects[i] = object;
      model.rooted[i] = false;
      std::memset(object, 0, kind != 1 ? bytes : heap::usable_size(object));
    }
    for (unsigned i = 0; i < kNodes; ++i) {
      for (unsigned at = 0; at < 4; ++at) {
        const unsigned to = random(10) < density ? random(kNodes) : kNodes;
        model.links[i][at] = to;
        if (to == kNodes) continue;
        const std::uintptr_t inner = random(3) == 0 ? 8 * random(4) : 0;
        const std::uintptr_t word = model.objects[to].address() + inner;
        std::memcpy(reinterpret_cast<char*>(model.objects[i].address()) + at * sizeof word, &word, sizeof word);
      }
    }
    kept.fill(nullptr);
    for (unsigned i = 0; i < 1 + random(20); ++i) {
      const unsigned to = random(kNodes);
      kept[i] = model.objects[to].object();
      model.rooted[to] = true;
    }
    model.reached = model.rooted;
    model.spread(model.reached);
    std::size_t leaked = 0;
    // A head is in a cycle, or is an object, that no other cycle leads to; each such cycle has one head.
    std::size_t heads = 0;
    static std::array<bool, kNodes> from, counted;
    counted.fill(false);
    for (unsigned i = 0; i < kNodes; ++i) {
      if (model.reached[i]) continue;
      ++leaked;
      if (counted[i]) continue;
      from.fill(false);
      from[i] = true;
      model.spread(from);
      bool is_head = true;
      static std::array<bool, kNodes> back;
      for (unsigned j = 0; j < kNodes && is_head; ++j) {
        if (model.reached[j] || j == i || from[j]) continue;
        back.fill(false);
        back[j] = true;
        model.spread(back);
        if (back[i]) is_head = false;  // j leads here, and i does not lead to j
      }
      if (!is_head) continue;
      ++heads;
      for (unsigned j = 0; j < kNodes; ++j) {
        if (!from[j] || model.reached[j]) continue;
        back.fill(false);
        back[j] = true;
        model.spread(back);
        if (back[i]) counted[j] = true;  // in the same cycle
      }
    }
    const Found found = find();
    EXPECT_EQ(found.status, Status::kOk);
    EXPECT_EQ(found.summary.live, kNodes);
    EXPECT_EQ(found.summary.leaked, leaked);
    EXPECT_EQ(found.heads, heads);
    for (const Hidden& one : model.objects) {
      void* const object = one.object();
      if (cache_->slabs().find(object) != nullptr) cache_->free(object);
      else if (other->slabs().find(object) != nullptr) other->free(object);
      else heap::free(object);
    }
  }
  kept.fill(nullptr);
  EXPECT_EQ(find().summary.live, 0u);
}

}  // namespace alloc_scan_test
