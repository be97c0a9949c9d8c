#pragma once
/// What lies at an address of an image: function, file and line, and the calls that were inlined there.
///
/// The ELF file's DWARF is read once, into two sorted tables; what was looked up is kept:
///
///   rows     address -> file, line                    from .debug_line
///   ranges   address -> innermost scope               from .debug_info, .debug_ranges; scopes point outwards:
///   scopes   inlined call -> inlined call -> function
///
/// Reading the demo's 8 MiB takes a quarter of a second, a look-up less than a microsecond.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace qm::analysis {

/// One function at an address.
struct Frame {
  std::string function;  ///< as `qm::Cache::allocate`: without parameters and template arguments
  std::string file;      ///< as the image names it, relative to the tree it was built from; empty: not known
  unsigned line = 0;     ///< 0: not known
  bool inlined = false;  ///< the next frame's function contains its code
  friend bool operator==(const Frame&, const Frame&) = default;
};

/// What an address stands for.
enum class Address {
  kExact,   ///< of an instruction: a fault's pc, a function's entry
  kReturn,  ///< behind a call: the call is meant
  kAny,     ///< kReturn iff a call ends there and no function begins, else kExact
};

class Symbols {
 public:
  /// Reads @p elf, an image linked for RISC-V with a symbol table and DWARF.
  /// @throws host::Error kInput if it cannot be read, is no ELF file, not linked for RISC-V, or has no symbols or no
  ///         line information; the message says which and what to do.
  explicit Symbols(const std::filesystem::path& elf);
  Symbols(Symbols&&) noexcept;
  Symbols& operator=(Symbols&&) noexcept;
  ~Symbols();

  /// @returns the frames at @p address, innermost first, each but the last inlined into the next; without any if no
  ///          code of the image lies there; a function with an empty file if there is code and no line. Valid as long
  ///          as this.
  /// Complexity: O(log n) the first time, O(1) from then on.
  [[nodiscard]] std::span<const Frame> look_up(std::uint64_t address, Address kind = Address::kReturn) const;

  /// @returns whether @p address lies in the image's code.
  [[nodiscard]] bool is_code(std::uint64_t address) const noexcept;

  /// @returns the address of the function @p name, as the plain console prints it, of @p size bytes; nothing if there
  ///          is none or several.
  [[nodiscard]] std::optional<std::uint64_t> find(std::string_view name, std::uint64_t size) const;

  /// @returns the image's build id in lower-case hex; empty: it has none.
  [[nodiscard]] const std::string& build_id() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Demangles @p name and drops parameters, template arguments, return type and the compiler's suffixes; the symbol
/// table of the plain console is made by the same rules (cmake/symbol_table.awk), but for `(anonymous namespace)::`,
/// dropped in both.
[[nodiscard]] std::string short_name(const std::string& name);

/// Refuses symbols of another image.
/// @param[in] wanted the build id of what is to be explained, or the front of it (at least 8 digits); empty: not known,
///          passes.
/// @throws host::Error kInput if @p symbols are of another image; the message names both.
void require_same_image(const Symbols& symbols, std::string_view wanted);

}  // namespace qm::analysis
