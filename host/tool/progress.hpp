#pragma once
/// A progress bar on standard error while a long file is read; nothing if standard error is not a terminal.

#include <cstdint>
#include <functional>

namespace qm::tool {

class Progress {
 public:
  Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// Removes the bar.
  ~Progress();

  /// @param[in] of the total; 0: not known.
  void show(std::uint64_t done, std::uint64_t of);
  [[nodiscard]] std::function<void(std::uint64_t, std::uint64_t)> listener() {
    return [this](std::uint64_t done, std::uint64_t of) { show(done, of); };
  }

 private:
  bool shown_;
  unsigned last_ = 1000;
};

}  // namespace qm::tool
