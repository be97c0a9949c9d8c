#pragma once
/// Finds the function, file and line at an address of an image, and the calls that were inlined there.
///
/// The DWARF of the ELF file is read once, into two sorted tables; results of look-ups are cached:
///
///   rows     address -> file, line                    from .debug_line
///   ranges   address -> innermost scope               from .debug_info, .debug_ranges; scopes point outwards:
///   scopes   inlined call -> inlined call -> function
///
/// Reading the demo's 8 MiB takes a quarter of a second; a look-up takes less than a microsecond.

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
  std::string file;      ///< relative to the tree it was built from, as the image names it; empty: not known
  unsigned line = 0;     ///< 0: not known
  bool inlined = false;  ///< the next frame's function contains its code
  friend bool operator==(const Frame&, const Frame&) = default;
};

/// The kind of an address.
enum class Address {
  kExact,   ///< of an instruction: the pc of a fault, a function's entry
  kReturn,  ///< a return address: the call before it is looked up
  kAny,     ///< kReturn if a call ends there and no function begins, else kExact
};

class Symbols {
 public:
  /// Reads @p elf, an image linked for RISC-V with a symbol table and DWARF.
  /// @throws host::Error kInput if it cannot be read, is not an ELF file, is not linked for RISC-V, or has no symbols
  ///          or no line information; the message says which of these and what to do.
  explicit Symbols(const std::filesystem::path& elf);
  Symbols(Symbols&&) noexcept;
  Symbols& operator=(Symbols&&) noexcept;
  ~Symbols();

  /// @returns the frames at @p address, innermost first; each frame but the last is inlined into the next. Empty if the
  ///          image has no code there; one function with an empty file if there is code without line information. Valid
  ///          during the lifetime of this object.
  /// Complexity: O(log n) the first time, O(1) from then on.
  [[nodiscard]] std::span<const Frame> look_up(std::uint64_t address, Address kind = Address::kReturn) const;

  /// @returns whether @p address lies in the image's code.
  [[nodiscard]] bool is_code(std::uint64_t address) const noexcept;

  /// @returns the address of the function @p name of @p size bytes, with the name as the plain console prints it;
  ///          nothing if there is none or several.
  [[nodiscard]] std::optional<std::uint64_t> find(std::string_view name, std::uint64_t size) const;

  /// @returns the image's build id in lower-case hex; empty if it has none.
  [[nodiscard]] const std::string& build_id() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Demangles @p name and drops parameters, template arguments, return type and the compiler's suffixes.
/// cmake/symbol_table.awk makes the symbol table of the plain console by the same rules, except for `(anonymous
/// namespace)::`, which both drop.
[[nodiscard]] std::string short_name(const std::string& name);

/// Refuses symbols that are of another image.
/// @param[in] wanted the build id of the data to explain, or the beginning of that id (at least 8 digits); empty: not
///          known, and accepted.
/// @throws host::Error kInput if @p symbols are of another image; the message names both.
void require_same_image(const Symbols& symbols, std::string_view wanted);

}  // namespace qm::analysis
