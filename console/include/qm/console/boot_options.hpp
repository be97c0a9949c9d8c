#pragma once
/// The boot options: words of the device tree's /chosen/bootargs.
///
///     trace=GLOB[,GLOB]   trace these caches from their first allocation on
///     records=N           most trace records
///     stacks=BYTES        memory for call stacks
///     kmemtrace=on        the event stream from the boot on
///     ring=BYTES          its ring, for each hart
///     allocinfo=on|off    count allocations by call site, or do not; rejected in a build without call sites
///     panic=SECONDS       how long after a panic somebody may begin to type; 0: for ever
///     baud=N              bits per second of the line, for estimates of how long a report takes
///     -- ...              what follows `--` belongs to the firmware

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace qm::console {

/// Why an option has no effect.
enum class Rejection : std::uint8_t { kUnknown, kMalformed, kNotInThisBuild };

struct BootOptions {
  static constexpr std::size_t kMaxRejected = 8;
  static constexpr std::uint32_t kPanicSeconds = 10;
  struct Rejected {
    std::string_view option;
    Rejection reason = Rejection::kUnknown;
  };

  std::string_view trace;       ///< name patterns separated by commas; empty: none
  std::uint32_t records = 0;    ///< 0: not given
  std::size_t stack_bytes = 0;  ///< 0: not given
  bool stream = false;          ///< kmemtrace=on
  std::size_t ring_bytes = 0;   ///< 0: not given
  std::uint32_t panic_seconds = kPanicSeconds;
  bool allocinfo_off = false;
  std::uint32_t baud = 0;  ///< 0: not given
  Rejected rejected[kMaxRejected];
  std::size_t rejected_count = 0;  ///< may exceed kMaxRejected: the rest is not kept
};

/// Reads @p bootargs: options separated by blanks; of one given twice the last counts. The views in the result point
/// into it.
/// Complexity: O(length). Context: any; pure.
[[nodiscard]] BootOptions parse_boot_options(std::string_view bootargs) noexcept;

/// @returns the words that go with @p reason in a warning: `warning: boot option X is unknown`.
[[nodiscard]] constexpr std::string_view describe(Rejection reason) noexcept {
  switch (reason) {
    case Rejection::kUnknown: return "is unknown";
    case Rejection::kMalformed: return "is malformed";
    case Rejection::kNotInThisBuild: return "is of a part that this build has not";
  }
  return "is rejected";
}

}  // namespace qm::console
