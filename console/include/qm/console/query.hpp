#pragma once
/// What a report is asked for: the words that several commands take, read and completed in one place.

#include <cstdint>
#include <string_view>

#include <qm/console/command.hpp>

namespace qm::console {

/// Which of them a command takes.
struct Takes {
  enum : unsigned {
    kPattern = 1,       ///< SLAB_NAME, once
    kPatterns = 2,      ///< SLAB_NAME and -SLAB_NAME, as often as there is room
    kInBytes = 4,       ///< -b
    kVerbose = 8,       ///< -v
    kTop = 16,          ///< top N
    kByStackSite = 32,  ///< by stack, by site
    kByTask = 256,      ///< by task, too
    kSort = 64,         ///< sort KEY; the command knows its keys
    kOlder = 128,       ///< older T
    kAllSites = 256,    ///< no top N with by site
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

/// Reads the words of @p call from @p first on. Each may stand once, in any order.
/// @param[in] takes of Takes.
/// @returns kOk, or what the command answers: what is no number, `by site` in a build without call sites, usage.
CommandStatus read_query(Invocation& call, std::size_t first, unsigned takes, Query& query) noexcept;

/// Offers what may stand for the word that is completed, but for names and the keys of `sort`.
/// @returns whether a name may stand there.
bool complete_query(Completion& completion, std::size_t first, unsigned takes) noexcept;

}  // namespace qm::console
