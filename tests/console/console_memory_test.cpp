// Commands that inspect memory and reclaim it, on the running demo: whatis, verify, reap, fault; and reports of misuse,
// which are printed unasked.

#include "machine.hpp"

#include <qm/test/command.hpp>
#include <qm/test/pattern.hpp>

#include <algorithm>
#include <string>

namespace console_memory_test {

using qm::test::Machine;
using qm::test::MachineTest;
using qm::wire::CommandStatus;

class Memory : public MachineTest {
 protected:
  /// @returns the address of an instruction: the first one in the output of slab_trace.
  static std::string a_function() {
    run("slab_trace start session");
    run("workload start sites 1");
    const qm::test::Match frame =
        qm::test::find(run("slab_trace print session"), "\\[<(0x[0-9a-f]+)>\\] in sites_hooked");
    run("workload stop");
    run("slab_trace stop session");
    EXPECT_FALSE(frame.empty());
    return frame.empty() ? "0" : frame[1];
  }
  static std::string run(std::string_view line) {
    const Machine::Answer answer = machine().request(line);
    EXPECT_EQ(answer.status, CommandStatus::kOk) << line << "\n" << answer.text;
    return answer.text;
  }
  static unsigned long number_after(const std::string& text, const std::string& label) {
    const std::size_t at = text.find(label);
    EXPECT_NE(at, std::string::npos) << label << " in\n" << text;
    return at == std::string::npos ? 0 : std::stoul(text.substr(at + label.size()));
  }
  static std::string hex(std::uint64_t address) {
    char text[24];
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(address));
    return text;
  }
  /// @returns a page that is a slab of the cache. Those created at boot lie below the image, the first one highest.
  static std::uint64_t a_slab_of(std::string_view cache) {
    for (std::uint64_t page = 0x801ff000; page >= 0x80000000; page -= 4096) {
      if (machine().rows("whatis " + hex(page + 4088)).at(0).text("cache") == cache) return page;
    }
    return 0;
  }
  static bool has(const std::string& text, const std::string& pattern) {
    return !qm::test::find(text, pattern).empty();
  }
};

TEST_F(Memory, whatis_shows_the_object_its_record_and_the_segments_it_lies_in) {
  run("slab_trace reset packet");
  run("slab_trace start packet");
  const auto leaked = qm::test::addresses(machine().rows("workload run leak 60 list seed 3"), "leaked");
  run("slab_trace stop packet");
  ASSERT_FALSE(leaked.empty());
  char address[24];
  std::snprintf(address, sizeof address, "0x%llx", static_cast<unsigned long long>(leaked[0] + 100));
  const std::string text = run(std::string("whatis ") + address);
  EXPECT_TRUE(has(text,
                  "^cache packet: object 0x[0-9a-f]{16} \\+ 100, in use\n  [0-9]+ of [0-9]+ in slab 0x[0-9a-f]{16}\n"
                  "  taken at [^\n]*firmware/demo/workloads/leak.cpp:[0-9]+ \\[demo\\] func:packet_alloc\n"
                  "Obj 0x[0-9a-f]{16}, from hart [0-9] task net-rx: size 512, age [0-9.]+ s, seq [0-9]+\n----\n"
                  "#01 \\[<0x[0-9a-f]{16}>\\] in packet_alloc\n#02 \\[<0x[0-9a-f]{16}>\\] in rx_checksum_error\n"))
      << text;
  EXPECT_TRUE(
      has(text, "\narena base: segment 0x[0-9a-f]{16} \\+ [0-9]+\n  [0-9]+ bytes, (allocated|extent of slabs)\n"))
      << text;
  EXPECT_TRUE(has(text, "\nwhatis 0x[0-9a-f]{16}: caches [12], arenas [12]: complete\n$")) << text;
}

TEST_F(Memory, whatis_needs_no_trace_to_say_who_has_an_object_and_from_where) {
  discard();  // packets that other tests left live are not known
  const auto leaked = qm::test::addresses(machine().rows("workload run leak 100 list seed 5"), "leaked");
  ASSERT_FALSE(leaked.empty());
  for (const std::uint64_t object : leaked) {
    const std::string text = run("whatis " + hex(object));
    ASSERT_TRUE(has(text,
                    "^cache packet: object 0x[0-9a-f]+ \\+ 0, in use\n  [0-9]+ of [0-9]+ in slab 0x[0-9a-f]+\n"
                    "  taken at [^\n]*/leak.cpp:[0-9]+ \\[demo\\] func:packet_alloc\narena "))
        << text;
  }
  // All objects around one: forgotten ones are in use, others are in a magazine, the depot or their slab.
  unsigned forgotten = 0, returned = 0;
  const std::uint64_t page = leaked[0] & ~std::uint64_t{4095};
  for (std::uint64_t at = page; at < page + 4096; at += 64) {
    const std::string text = run("whatis " + hex(at));
    const qm::test::Match found = qm::test::find(text, "^cache packet: object (0x[0-9a-f]+) \\+ [0-9]+, ([^\n]*)\n");
    if (found.empty()) continue;  // outside of the slab's objects
    const std::uint64_t object = std::stoull(found[1], nullptr, 16);
    const bool is_leaked = std::find(leaked.begin(), leaked.end(), object) != leaked.end();
    ++(is_leaked ? forgotten : returned);
    EXPECT_EQ(found[2] == "in use", is_leaked) << text;
    EXPECT_TRUE(is_leaked ||
                qm::test::matches(found[2], "idle in a magazine of hart [0-9]+|idle in the depot|free in its slab"))
        << text;
    EXPECT_EQ(has(text, "^cache [^\n]*\n[^\n]*\n  taken at "), is_leaked) << "only what is held was taken: " << text;
  }
  EXPECT_GE(forgotten, 1u);
  EXPECT_GE(returned, 1u);
}

// The workload runs on the last hart and prints the forgotten objects; that hart's magazine has the slab's others.
TEST_F(Memory, whatis_tells_a_slabs_header_another_harts_magazine_and_free_memory) {
  discard();
  const std::string last = std::to_string(qm::test::demo().harts - 1);
  const auto leaked = qm::test::addresses(machine().rows("workload run leak 60 list seed 3 hart " + last), "leaked");
  ASSERT_FALSE(leaked.empty());
  const auto place = [](std::uint64_t address) {
    char line[40];
    std::snprintf(line, sizeof line, "whatis 0x%llx", static_cast<unsigned long long>(address));
    return machine().rows(line).at(0);
  };
  const qm::host::ReportRow held = place(leaked[0] + 511);
  EXPECT_EQ(held.text("cache"), "packet");
  EXPECT_EQ(held.number("object"), leaked[0]);
  EXPECT_EQ(held.number("offset"), 511U);
  EXPECT_EQ(held.text("state"), "in use");
  const std::uint64_t slab = held.number("slab");
  const qm::host::ReportRow header = place((slab | 4095) - 7);  // the last word of the slab's page
  EXPECT_EQ(header.text("cache"), "packet");
  EXPECT_EQ(header.number("slab"), slab);
  EXPECT_EQ(header.text("state"), "header of the slab");
  if ((slab & 4095) != 0) {
    const qm::host::ReportRow colour = place(slab & ~std::uint64_t{4095});
    EXPECT_EQ(colour.text("cache"), "packet");
    EXPECT_EQ(colour.number("before"), slab & 4095);
    EXPECT_EQ(colour.text("state"), "unused part of the slab");
  }
  // The objects of the slab, one step apart.
  const std::uint64_t step = 576;
  unsigned in_magazine = 0;
  for (std::uint64_t at = slab + (leaked[0] - slab) % step; at + 512 <= slab + 4096; at += step) {
    const qm::host::ReportRow row = place(at);
    const bool is_leaked = std::find(leaked.begin(), leaked.end(), at) != leaked.end();
    EXPECT_EQ(row.text("state") == "in use", is_leaked) << std::hex << at;
    if (row.text("state") != "idle in a magazine") continue;
    ++in_magazine;
    EXPECT_EQ(std::to_string(row.number("hart")), last);
  }
  EXPECT_GE(in_magazine, 1U);
  const qm::host::ReportRow free = place(0x40800000);
  EXPECT_EQ(free.text("arena"), "dma");
  EXPECT_EQ(free.text("state"), "free");
  EXPECT_EQ(place(0x40000000).text("state"), "allocated");
}

// A slab of a no-touch cache has its header elsewhere, in an object of kmem_slab. There are few such slabs.
TEST_F(Memory, whatis_says_whose_slab_an_object_of_kmem_slab_is_the_header_of) {
  unsigned headers = 0;
  std::uint64_t of_dma_buffer = 0;
  const std::uint64_t page = a_slab_of("kmem_slab");
  ASSERT_NE(page, 0U);
  for (std::uint64_t at = page; at < page + 4096; at += 32) {
    const std::string text = run("whatis " + hex(at));
    if (!has(text, "^cache kmem_slab: object 0x[0-9a-f]+ \\+ [0-9]+, in use\n")) continue;
    const qm::test::Match header = qm::test::find(text, "\n  header of slab (0x[0-9a-f]+) of ([a-z_0-9]+)\n");
    ASSERT_FALSE(header.empty()) << text;
    ++headers;
    if (header[2] == "dma_buffer") of_dma_buffer = std::stoull(header[1], nullptr, 16);
  }
  EXPECT_GE(headers, 1U);
  ASSERT_NE(of_dma_buffer, 0U);
  EXPECT_EQ(machine().rows("whatis " + hex(of_dma_buffer)).at(0).text("cache"), "dma_buffer");
}

// The demo's pool is a block of the heap; a command prints the addresses of its pieces.
TEST_F(Memory, whatis_tells_a_held_block_of_the_heap_from_a_free_one) {
  discard();
  const auto piece = qm::test::addresses(machine().rows("pool take 64"), "piece");
  ASSERT_EQ(piece.size(), 1U);
  const auto in = [](const std::vector<qm::host::ReportRow>& rows, std::string_view arena) {
    for (const qm::host::ReportRow& row : rows) {
      if (row.text("arena") == arena) return row;
    }
    return qm::host::ReportRow{};
  };
  const std::vector<qm::host::ReportRow> held = machine().rows("whatis " + hex(piece[0] + 100));
  const qm::host::ReportRow block = in(held, "kheap");
  EXPECT_EQ(block.text("state"), "allocated");
  EXPECT_EQ(block.number("segment") + block.number("offset"), piece[0] + 100);
  EXPECT_LE(block.number("segment"), piece[0]);
  EXPECT_GE(block.number("size_bytes"), 16384U + piece[0] - block.number("segment"));
  EXPECT_EQ(in(held, "pool").text("state"), "free") << "64 bytes are taken, 36 further on lies nothing";
  EXPECT_EQ(in(machine().rows("whatis " + hex(piece[0] + 63)), "pool").text("state"), "allocated");
  const std::string text = run("whatis " + hex(piece[0]));
  EXPECT_TRUE(has(text, "\n  taken at [^\n]*pool.cpp:[0-9]+ \\[demo\\] func:make\n")) << text;
  run("pool free 1");
  const std::vector<qm::host::ReportRow> freed = machine().rows("whatis " + hex(piece[0]));
  EXPECT_EQ(in(freed, "pool").kind, "") << "the arena is gone";
  EXPECT_TRUE(in(freed, "kheap").text("state") == "free" || in(freed, "kheap").kind.empty())
      << run("whatis " + hex(piece[0]));
}

// The pieces are numbered in the order of their allocation: 1024 free, 512, 1024 free, 64, 1024 free, 64, 2048 free,
// 512, 1024 free, 2048, and the rest. 4096 bytes fit after 4 and 6 are freed.
TEST_F(Memory, frag_names_what_pins_a_heap_and_freeing_that_is_what_helps) {
  for (const std::string kept : {"none", "4", "6"}) {
    discard();
    run("pool take 1024 512 1024 64 1024 64 2048 512; pool take 1024 2048 6720; pool free 1 3 5 7 9");
    EXPECT_EQ(machine().request("pool take 4096").text,
              "error: the pool has no room for 4096 bytes (try frag 4096 pool)\n");
    std::vector<std::uint64_t> held;
    for (const qm::host::ReportRow& row : machine().rows("pool list")) {
      const std::uint64_t number = row.kind == "piece" ? row.number("number") : 0;
      if (number == 4 || number == 6) held.push_back(row.number("address"));
    }
    const std::vector<qm::host::ReportRow> rows = machine().rows("frag 4096 pool");
    EXPECT_EQ(qm::test::addresses(rows, "piece"), held);
    for (const qm::host::ReportRow& row : rows) {
      if (row.kind == "request") EXPECT_EQ(row.text("answer"), "fails");
      if (row.kind == "piece") EXPECT_EQ(row.text("function"), "take") << "who took it";
      if (row.kind == "range") EXPECT_EQ(row.number("range_bytes"), 4224U);
      if (row.kind == "holder") EXPECT_EQ(row.number("held_bytes"), 128U);
    }
    if (kept != "4") run("pool free 4");
    if (kept != "6") run("pool free 6");
    const bool has_room = kept == "none";
    EXPECT_EQ(machine().request("pool take 4096").status, has_room ? CommandStatus::kOk : CommandStatus::kFailed)
        << "kept: " << kept;
  }
}

TEST_F(Memory, the_pool_refuses_what_it_has_not) {
  discard();
  EXPECT_EQ(machine().request("pool take 16385").text, "error: 16385 is too large\n");
  for (const char* wrong : {"pool", "pool take", "pool free", "pool give 1", "pool take 0", "pool list 1"})
    EXPECT_EQ(machine().request(wrong).text, "error: usage: pool take SIZE...|free N...|list\n") << wrong;
  EXPECT_EQ(machine().request("pool free 1").text, "error: the pool has no piece 1\n");
  for (int i = 0; i < 8; ++i) run("pool take 64 64 64 64 64 64 64 64");
  EXPECT_EQ(machine().request("pool take 64").text, "error: the pool has 64 pieces at most\n");
  EXPECT_TRUE(has(run("pool list"), "\npool: pieces 64 of 64: complete\n$"));
  EXPECT_TRUE(has(run("arena_stats pool"), "pool"));
  for (int i = 0; i < 8; ++i) {
    std::string line = "pool free";
    for (int j = 1; j <= 8; ++j) line += " " + std::to_string(8 * i + j);
    run(line);
  }
  EXPECT_EQ(machine().request("arena_stats pool").text, "error: No such arena pool\n")
      << "it ended with its last piece";
  EXPECT_EQ(run("pool list"), "pool: pieces 0 of 64: complete\n");
  EXPECT_NE(run("verify").find("faults 0: "), std::string::npos);
}

TEST_F(Memory, blocks_above_the_largest_class_are_recorded_with_their_stack) {
  run("slab_trace start kheap");
  run("workload run exhaust");
  EXPECT_TRUE(
      has(run("slab_trace print kheap"),
          "outstanding 0, recorded [1-9][0-9]*, dropped 0, truncated stacks 0, from before start 0: complete\n$"));
  run("slab_stacks threshold 0");  // all objects are free again
  const std::string stacks = run("slab_stacks kheap");
  run("slab_stacks threshold 1");
  run("slab_trace stop kheap");
  EXPECT_TRUE(has(
      stacks, " qm::demo::take_blocks\\+0x[0-9a-f]+/0x[0-9a-f]+\n qm::demo::exhaust_task[^\n]*\n[^$]*stack_count: 0\n"))
      << stacks;
}

TEST_F(Memory, whatis_knows_what_is_no_memory) {
  EXPECT_TRUE(has(run("whatis 0x40000010"),
                  "^arena dma: segment 0x0000000040000000 \\+ 16\n  4096 bytes, allocated\n(  taken at [^\n]*\n)?"
                  "whatis 0x0000000040000010: caches 0, arenas 1: complete\n$"));
  EXPECT_TRUE(has(run("whatis " + std::string(a_function())),
                  "^no memory of this allocator\nin the image\ncode [A-Za-z_0-9:~() ]+\\+0x[0-9a-f]+/0x[0-9a-f]+\n"
                  "whatis .* caches 0, arenas 0: complete\n"));
  EXPECT_EQ(run("whatis 0xffffffffffffffff"),
            "no memory of this allocator\nwhatis 0xffffffffffffffff: caches 0, arenas 0: complete\n");
  // A function by its name, with and without an offset.
  for (const std::string offset : {"", "+0x4", "+4"}) {
    const std::string text = run("whatis qm::demo::run_worker" + offset);
    EXPECT_TRUE(has(text, "\ncode qm::demo::run_worker\\+0x" + std::string(offset.empty() ? "0" : "4") + "/0x"))
        << text;
  }
  // The same for a static variable; an address inside one is reported with its name.
  const std::string variable = run("whatis qm::demo::ring_root+0x8");
  EXPECT_TRUE(
      has(variable, "^no memory of this allocator\nin the image\nvariable qm::demo::ring_root\\+0x8/0x20\nwhatis "))
      << variable;
  EXPECT_EQ(machine().request("whatis no_function+1").text, "error: No such symbol no_function\n");
  // The stack of hart 0, which boots; the first of the pool's stacks is main's.
  const auto symbol = [](const std::string& name) {
    const std::string all = qm::test::run_command("riscv64-linux-gnu-nm -C " + qm::test::demo().image.string()).text;
    const qm::test::Match found = qm::test::find(all, "([0-9a-f]{16}) [a-zA-Z] [^\n]*" + name + "\n");
    return found.empty() ? std::string("0") : "0x" + found[1];
  };
  EXPECT_TRUE(has(run("whatis " + symbol("__hart_stacks")),
                  "^no memory of this allocator\nin the boot and idle stack of hart 0\nwhatis "));
  EXPECT_TRUE(has(run("whatis " + symbol("::stack_pool")),
                  "^no memory of this allocator\nin the stack of hart 0 task [^\n]+\nvariable "
                  "[^\n]+stack_pool\\+0x0/0x[^\n]+\nwhatis "));
  EXPECT_EQ(machine().request("whatis x").status, CommandStatus::kFailed);
}

TEST_F(Memory, verify_finds_everything_sound_while_the_system_runs) {
  run("workload start churn 20000");
  for (int i = 0; i < 5; ++i) {
    const std::string text = run("verify");
    EXPECT_TRUE(
        has(text,
            "^arenas [0-9]+, spans [0-9]+, segments [0-9]+, caches [0-9]+, slabs [0-9]+\nverify: objects [0-9]+, "
            "faults 0: (in)?complete\n$"))
        << text;
  }
  run("workload stop");
  machine().settle();
  EXPECT_TRUE(run("verify packet").starts_with("arenas 0, spans 0, segments 0, caches 1, "));
  EXPECT_TRUE(run("verify dma").starts_with("arenas 1, spans 1, "));
  EXPECT_EQ(machine().request("verify nothing").text, "error: No such arena or slab nothing\n");
}

TEST_F(Memory, reap_gives_back_what_a_workload_left_idle) {
  run("workload run neutral 500");
  const std::string before = run("free -v");
  EXPECT_GT(number_after(run("reap"), "reap: "), 0U);
  EXPECT_LT(number_after(run("free -v"), "Idle Memory  : "), number_after(before, "Idle Memory  : "));
  EXPECT_TRUE(has(run("reap packet"), "^reap: 0 bytes from 0 caches: complete\n$"));
}

TEST_F(Memory, fault_makes_allocations_fail_and_says_how_many) {
  EXPECT_EQ(run("fault packet every 10"), "fault packet: one allocation in 10 fails\n");
  const std::string text = run("workload run leak 400");
  const unsigned long failed = number_after(text, "leak: ");
  const std::string off = run("fault off");
  EXPECT_EQ(number_after(off, "fault packet: "), failed) << off;
  EXPECT_EQ(number_after(off, " of "), failed * 10 + number_after(off, " of ") % 10) << off;
  EXPECT_TRUE(off.ends_with("fault: 1 ended\n"));
  EXPECT_TRUE(run("workload run leak 100").find("failed") == std::string::npos);
  run("fault packet nth 3");
  EXPECT_NE(run("workload run leak 100").find("leak: 1 allocation failed\n"), std::string::npos);
  EXPECT_TRUE(run("fault off").ends_with("fault: 0 ended\n"));
  EXPECT_EQ(machine().request("fault kmem_slab nth 1").text, "error: Unable to fault slab kmem_slab\n");
  EXPECT_EQ(machine().request("fault packet nth 0").text, "error: N is at least 1\n");
}

TEST_F(Memory, misuse_is_reported_by_itself_with_the_functions_names) {
  run("slab_trace reset *");
  run("slab_trace start packet");
  run("slab_trace start session");
  machine().clear();
  EXPECT_NE(run("workload run misuse").find("misuse: committed "), std::string::npos);
  machine().settle();
  std::string text = machine().text();
  std::erase(text, '\r');
  EXPECT_TRUE(has(text, "\nmisuse: packet: 0x[0-9a-f]{16} is free already\n  allocated by free_twice\\+0x")) << text;
  EXPECT_TRUE(has(text, "\nmisuse: packet: 0x[0-9a-f]{16} \\+ 16 is inside an object\n")) << text;
  EXPECT_TRUE(
      has(text, "\nmisuse: packet: 0x[0-9a-f]{16} is another cache's: session\n  allocated by free_to_another\\+0x"))
      << text;
  EXPECT_TRUE(text.ends_with("qm> ")) << "the prompt is there again";
  run("slab_trace stop *");
  EXPECT_NE(run("verify").find("faults 0: "), std::string::npos) << "nothing was damaged";
  expect_it_still_works();
}

TEST_F(Memory, a_quarantine_finds_a_write_after_the_free_with_both_stacks) {
  run("slab_trace reset *");
  run("slab_trace start packet");
  EXPECT_EQ(run("quarantine packet 64K"), "quarantine packet: up to 65536 freed bytes wait\n");
  machine().clear();
  EXPECT_NE(run("workload run misuse").find("misuse: committed 4 times"), std::string::npos);
  machine().settle();
  std::string text = machine().text();
  std::erase(text, '\r');
  EXPECT_TRUE(has(text,
                  "\nmisuse: packet: 0x[0-9a-f]{16} was written while it was free, at byte 40\n"
                  "  allocated by write_after_free\\+0x[^\n]*(\n    [^\n]*)*\n  freed by write_after_free\\+0x"))
      << text;
  EXPECT_TRUE(has(text,
                  "\nmisuse: packet: 0x[0-9a-f]{16} is free already\n  allocated by free_twice\\+0x[^\n]*"
                  "(\n    [^\n]*)*\n  freed by free_twice\\+0x"))
      << text;
  run("workload run leak 2000");
  EXPECT_TRUE(has(run("quarantine"),
                  "^quarantine packet: [0-9]+ objects in 65536 bytes, [0-9]+ left it\n"
                  "quarantines 1: complete\n$"));
  EXPECT_TRUE(run("quarantine off").ends_with("quarantine: 1 ended\n"));
  EXPECT_TRUE(run("quarantine").ends_with("quarantines 0: complete\n"));
  run("slab_trace stop *");
  EXPECT_NE(run("verify").find("faults 0: "), std::string::npos) << "nothing was damaged";
  expect_it_still_works();
}

TEST_F(Memory, guarded_blocks_report_each_access_outside_and_after_the_free) {
  EXPECT_EQ(run("guard off"), "guards: 0 guarded, ended\n");
  const std::string started = run("guard kmalloc every 500");
  EXPECT_TRUE(has(started,
                  "^guard kmalloc: at most one allocation in 500 is guarded\n"
                  "guards: 0 in use, 0 freed, 255 places, 0 guarded so far, 0 without a place\n"
                  "  outside accesses trap: complete\n$"))
      << started;
  machine().clear();
  EXPECT_NE(run("workload run stray").find("stray: committed 6 times"), std::string::npos);
  machine().settle();
  std::string text = machine().text();
  std::erase(text, '\r');
  // A line for each report: the lines that continue it begin with a space.
  for (std::size_t at = 0; (at = text.find("\n ", at)) != std::string::npos;) text[at] = ' ';
  const std::string block = "misuse: kmalloc_64: 0x[0-9a-f]{16} ";
  const std::string stack = " +allocated by take_guarded\\+0x[^\n]*";
  for (const std::string& report :
       {block + "was accessed outside its bounds: write +of +byte +60, +it +has +60" + stack +
            "(found by|freed by) release\\+0x[^\n]*write_behind_block\\+0x",
        block + "was accessed outside its bounds: read +of +byte +-(1|4096), +it +has +60, +at +read_before_block\\+0x",
        block + "was accessed after its free: write +of +byte +7, +it +has +60, +at +write_freed_block\\+0x[^\n]*" +
            stack + "freed by release\\+0x[^\n]*write_freed_block\\+0x",
        block + "was accessed after its free: read +of +byte +9, +it +has +60, +at +read_freed_block_masked\\+0x",
        block + "is free already" + stack + "freed by release\\+0x[^\n]*free_block_twice\\+0x[^\n]*found by",
        block + "\\+ 16 is inside an object" + stack + "found by release\\+0x[^\n]*free_inside_block\\+0x"}) {
    EXPECT_TRUE(has(text, report)) << report << '\n' << text;
  }
  EXPECT_TRUE(has(run("guard"), "\nguards: 0 in use, 6 freed, 255 places, 6 guarded so far, 0 without a place\n"));
  EXPECT_NE(run("status").find("guards    one in 500, 0 in use, 6 freed of 255\n"), std::string::npos);
  const std::size_t at = text.find("kmalloc_64: 0x");
  ASSERT_NE(at, std::string::npos);
  const std::string address = text.substr(at + 12, 18);
  EXPECT_TRUE(has(run("whatis " + address),
                  "^cache kmalloc_64: guarded object 0x[0-9a-f]{16} \\+ 0, freed\n  60 bytes\n"
                  "  allocated by take_guarded\\+0x"));
  EXPECT_NE(run("verify").find("faults 0: "), std::string::npos) << "nothing was damaged";
  EXPECT_EQ(run("guard kmalloc each 1"),
            "guard kmalloc: at most one allocation in 1 ms is guarded\n"
            "guards: 0 in use, 6 freed, 255 places, 6 guarded so far, 0 without a place\n"
            "  outside accesses trap: complete\n");
  EXPECT_NE(run("workload run stray").find("stray: committed 6 times"), std::string::npos);
  EXPECT_TRUE(run("findleaks").find("complete") != std::string::npos) << "a scan reads guarded objects";
  EXPECT_EQ(run("guard off"), "guards: 12 guarded, ended\n");
  EXPECT_NE(machine().request("guard no_such every 1").text.find("No such slab no_such"), std::string::npos);
  EXPECT_NE(machine().request("guard kmalloc every 0").text.find("the number is at least 1"), std::string::npos);
  EXPECT_NE(machine().request("workload run stray").text.find("there are no guards"), std::string::npos);
  expect_it_still_works();
}

}  // namespace console_memory_test
