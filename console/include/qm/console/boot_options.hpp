#pragma once
/// The boot options: words of the device tree's /chosen/bootargs.
///
///     trace=GLOB[,GLOB]   trace these caches from their first allocation on
///     records=N           largest number of trace records
///     stacks=BYTES        memory for call stacks
///     kmemtrace=on        start the event stream at boot
///     ring=BYTES          size of each hart's ring for the event stream
///     allocinfo=on|off    whether to count allocations by call site; rejected in a build without call sites
///     panic=SECONDS       how long the panic shell waits for a user to begin typing; 0: for ever
///     exhausted=COMMAND   the command that runs after each report of exhaustion, such as findleaks
///     baud=N              bits per second of the serial line, to estimate how long a report takes
///     -- ...              the words after `--` belong to the firmware

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
  std::string_view exhausted;  ///< empty: none
  bool allocinfo_off = false;
  std::uint32_t baud = 0;  ///< 0: not given
  Rejected rejected[kMaxRejected];
  std::size_t rejected_count = 0;  ///< may exceed kMaxRejected; `rejected` has the first kMaxRejected only
};

/// Reads @p bootargs: options separated by blanks. If an option occurs twice, the last one counts. The views in the
/// result point into @p bootargs.
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
