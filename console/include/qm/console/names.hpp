#pragma once
/// Finds the arenas and caches that a user's pattern names.

#include <string_view>

#include <qm/arena.hpp>
#include <qm/cache.hpp>
#include <qm/console/command.hpp>
#include <qm/console/words.hpp>
#include <qm/registry.hpp>

namespace qm::console {

/// Walks over the arenas or caches that a pattern names: one for a plain name, all for an empty pattern. The entry that
/// next() returned last cannot be destroyed.
template <class T>
class Matching {
 public:
  explicit Matching(std::string_view pattern) noexcept : pattern_(pattern) {}
  T* next() noexcept {
    while (T* entry = cursor_.next()) {
      const std::string_view name = from_c(entry->name());
      if (pattern_.empty() || names(pattern_, name)) return entry;
    }
    return nullptr;
  }

 private:
  RegistryCursor<T> cursor_;
  std::string_view pattern_;
};

/// Whether @p pattern names anything.
template <class T>
[[nodiscard]] bool names_any(std::string_view pattern) noexcept {
  Matching<T> matching(pattern);
  return matching.next() != nullptr;
}

/// The last word of a report.
[[nodiscard]] constexpr std::string_view closing_word(bool aborted, bool whole = true) noexcept {
  return aborted ? "aborted" : whole ? "complete" : "incomplete";
}

/// The status of a command that prints closing_word(@p aborted).
[[nodiscard]] constexpr CommandStatus closing_status(bool aborted) noexcept {
  return aborted ? CommandStatus::kAborted : CommandStatus::kOk;
}

}  // namespace qm::console
