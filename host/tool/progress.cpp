#include "progress.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>
#include <string>

namespace qm::tool {

Progress::Progress() : shown_(isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() {
  if (shown_ && last_ <= 100) fmt::print(stderr, "\r{:50}\r", "");
}

void Progress::show(std::uint64_t done, std::uint64_t of) {
  if (!shown_ || of == 0) return;
  const auto percent = static_cast<unsigned>(done >= of ? 100 : done * 100 / of);
  if (percent == last_) return;
  last_ = percent;
  fmt::print(stderr, "\r[{:<40}] {:3} %", std::string(percent * 2 / 5, '#'), percent);
  std::fflush(stderr);
}

}  // namespace qm::tool
