// The main program of every unit test image: runs the cases, prints their results, ends QEMU with 0 or 1.
//
// Boot arguments: `seed=N` and `steps=N` for the random tests, `filter=PATTERN` for "Suite.name", `file=NAME[,NAME...]`
// for the cases of these sources.

#include <gtest/gtest.h>

#include <charconv>

#include <qm/firmware/boot.hpp>
#include <qm/firmware/console_io.hpp>
#include <qm/test/harts.hpp>
#include <qm/test/seed.hpp>

namespace {

/// @returns the value of the last `name=value` among the blank-separated boot arguments; empty if there is none.
std::string_view boot_argument(std::string_view name) noexcept {
  std::string_view rest = qm::firmware::boot_info().bootargs;
  std::string_view value;
  while (!rest.empty()) {
    const std::size_t end = rest.find(' ');
    const std::string_view word = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view{} : rest.substr(end + 1);
    if (word.starts_with(name) && word.size() > name.size() && word[name.size()] == '=') {
      value = word.substr(name.size() + 1);
    }
  }
  return value;
}

std::uint64_t number_argument(std::string_view name, std::uint64_t number) noexcept {
  const std::string_view text = boot_argument(name);
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

void write(std::string_view text) { qm::firmware::console_write(text); }

void write_number(std::uint64_t number) {
  char digits[20];
  const auto [end, error] = std::to_chars(digits, digits + sizeof digits, number);
  if (error == std::errc{}) write({digits, static_cast<std::size_t>(end - digits)});
}

}  // namespace

namespace qm::test {

std::uint64_t seed() noexcept { return number_argument("seed", 1); }

std::uint64_t steps(std::uint64_t wanted) noexcept {
  constexpr std::uint64_t kStepShare = 50;
  return number_argument("steps", (wanted + kStepShare - 1) / kStepShare);
}

}  // namespace qm::test

void qm::firmware::main(const BootInfo&) {
  write("\n");  // the SBI firmware's banner may not end with a line end
  const testing::Totals totals = testing::run_all_tests(&write, {boot_argument("filter"), boot_argument("file")});
  if (totals.failed != 0) {
    write("seed ");
    write_number(qm::test::seed());
    write("; to repeat: QM_SEED=");
    write_number(qm::test::seed());
    write(" ./test NAME\n");
  }
  write_number(totals.passed);
  write(" passed, ");
  write_number(totals.failed);
  write(" failed");
  if (totals.skipped != 0) {
    write(", ");
    write_number(totals.skipped);
    write(" skipped");
  }
  write("\n");
  exit(totals.failed == 0 && totals.passed + totals.skipped != 0 ? 0 : 1);
}
