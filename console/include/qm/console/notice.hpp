#pragma once
/// A notice built in place, where nothing may be printed directly.

#include <array>
#include <string_view>

#include <qm/console/console.hpp>
#include <qm/console/notices.hpp>
#include <qm/console/output.hpp>

namespace qm::console {

/// Told to the console as a whole, at its end; what is longer than a line may be, in parts. Context: as
/// Console::notify().
class Notice {
 public:
  explicit Notice(Console& console) noexcept : out_(buffer_, Output::Target::kFrames, tell, &console) {}
  ~Notice() { out_.flush(); }
  Notice(const Notice&) = delete;
  Notice& operator=(const Notice&) = delete;
  [[nodiscard]] Output& out() noexcept { return out_; }

 private:
  static void tell(void* console, std::string_view text) noexcept { static_cast<Console*>(console)->notify(text); }

  std::array<char, Notices::kMaxLine> buffer_;
  Output out_;
};

}  // namespace qm::console
