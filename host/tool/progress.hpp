#pragma once
/// A bar on standard error while something long is read; nothing where that is no terminal.

#include <cstdint>
#include <functional>

namespace qm::tool {

class Progress {
 public:
  Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// Takes the bar away.
  ~Progress();

  /// @param[in] of 0: not known.
  void show(std::uint64_t done, std::uint64_t of);
  [[nodiscard]] std::function<void(std::uint64_t, std::uint64_t)> listener() {
    return [this](std::uint64_t done, std::uint64_t of) { show(done, of); };
  }

 private:
  bool shown_;
  unsigned last_ = 1000;
};

}  // namespace qm::tool
