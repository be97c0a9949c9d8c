#pragma once
/// The arguments that several reports share: this file reads and completes them.

#include <cstdint>
#include <string_view>

#include <qm/console/command.hpp>

namespace qm::console {

/// Flags: the arguments that a command accepts.
struct Takes {
  enum : unsigned {
    kPattern = 1,       ///< SLAB_NAME, once
    kPatterns = 2,      ///< SLAB_NAME and -SLAB_NAME, up to Query::kMaxPatterns times
    kInBytes = 4,       ///< -b
    kVerbose = 8,       ///< -v
    kTop = 16,          ///< top N
    kByStackSite = 32,  ///< by stack, by site
    kByTask = 256,      ///< by task, with kByStackSite
    kSort = 64,         ///< sort KEY; the command checks the key
    kOlder = 128,       ///< older T
    kAllSites = 512,    ///< refuses top N with by site
  };
};

struct Query {
  static constexpr unsigned kMaxPatterns = 8;

  std::string_view patterns[kMaxPatterns] = {};
  unsigned pattern_count = 0;
  bool in_bytes = false;
  bool verbose = false;
  std::size_t top = SIZE_MAX;
  enum class By : std::uint8_t { kNothing, kStack, kSite, kTask };
  By by = By::kNothing;
  std::string_view sort = {};
  std::string_view older = {};  ///< T as it was typed

  [[nodiscard]] std::string_view pattern() const noexcept { return patterns[0]; }
};

/// Reads the words of @p call from @p first on. Each option may occur once, in any order.
/// @param[in] takes flags of Takes.
/// @returns kOk; kFailed for a malformed number, or for `by site` in a build without call sites; kUsage for any other
///          error. The error has been printed, and the command returns the status.
CommandStatus read_query(Invocation& call, std::size_t first, unsigned takes, Query& query) noexcept;

/// Offers candidates for the word that is completed, except names and the keys of `sort`.
/// @returns whether a name is possible there.
bool complete_query(Completion& completion, std::size_t first, unsigned takes) noexcept;

}  // namespace qm::console
