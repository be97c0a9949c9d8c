#include <qm/bench/path.hpp>

#include <qm/firmware/boot.hpp>
#include <qm/firmware/console_io.hpp>
#include <qm/firmware/text.hpp>

asm(R"(
  .pushsection .text.qm_bench_marks, "ax", @progbits
  .option push
  .option norvc
  .balign 4
  .globl qm_bench_marks
  .globl qm_bench_mark_stop
  .globl qm_bench_mark_paths
qm_bench_marks:
  ret
qm_bench_mark_stop:
  ret
qm_bench_mark_paths:
  .rept 64
  ret
  .endr
  .option pop
  .popsection
)");

namespace qm::bench {
namespace {

constexpr unsigned kPaths = 64;

struct Total {
  std::string_view name, allocator;
  std::uint64_t operations = 0;
  std::uint64_t sum = 0;
  unsigned long max = 0;
  bool has_row = true;
};
std::array<Total, kPaths> totals;
unsigned paths = 0;

}  // namespace

Path::Path(std::string_view name, std::string_view allocator, Rows rows) noexcept : id_(paths++) {
  if (id_ >= kPaths) firmware::panic("bench: too many paths");
  totals[id_] = {.name = name, .allocator = allocator, .has_row = rows == Rows::kOne};
}

void Path::add(unsigned long cost) noexcept {
  using Mark = void (*)();
  reinterpret_cast<Mark>(reinterpret_cast<std::uintptr_t>(&qm_bench_mark_paths) + 4 * id_)();
  Total& total = totals[id_];
  ++total.operations;
  total.sum += cost;
  if (cost > total.max) total.max = cost;
}

void print_paths() noexcept {
  for (unsigned id = 0; id < paths; ++id) {
    const Total& total = totals[id];
    char line[128];
    firmware::Text text(line);
    (text << "@path ").decimal(id) << " " << total.name << ", " << total.allocator << "\r\n";
    firmware::console_write(text.view());
    if (total.operations == 0 || !total.has_row) continue;
    Row row(total.name);
    row.text("allocator", total.allocator).number("operations", total.operations);
    row.mean("mean", total.sum, total.operations).number("max", total.max);
  }
}

}  // namespace qm::bench
