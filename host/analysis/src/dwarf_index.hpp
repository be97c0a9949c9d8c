#pragma once
/// The tables of Symbols, made in one pass over the DWARF of an image.

#include <elfutils/libdw.h>

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include <qm/analysis/symbols.hpp>

namespace qm::analysis {

/// A part of the address space, end excluded.
struct Range {
  std::uint64_t begin = 0, end = 0;
};

class DwarfIndex {
 public:
  /// Reads all of @p dwarf, which must outlive this object. Entries outside of @p code (functions that the linker
  /// dropped) are left out.
  DwarfIndex(Dwarf* dwarf, const std::vector<Range>& code);

  /// @returns whether there is any row.
  [[nodiscard]] bool has_lines() const noexcept { return !rows_.empty(); }

  /// @returns the frames at @p address, innermost first; the last has no name if no function's scope covers the
  ///          address.
  [[nodiscard]] std::vector<Frame> look_up(std::uint64_t address) const;

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  struct Row {
    std::uint64_t address = 0;
    std::uint32_t file = 0, line = 0;  // line kNone: the sequence ends here
  };
  struct Scope {
    Dwarf_Off die = 0;
    std::uint32_t outer = kNone;  // kNone: a function
    std::uint32_t call_file = 0, call_line = 0;
  };
  struct Piece {  // a part of one scope's code
    Range range;
    std::uint32_t scope = 0, depth = 0;
  };
  struct Start {  // addresses from this one up to the next start belong to this scope
    std::uint64_t address = 0;
    std::uint32_t scope = kNone;
  };
  struct Unit {  // the unit that is being read
    Dwarf_Files* files = nullptr;
    std::size_t file_count = 0;
    std::string folder;  // where it was compiled
  };

  void read_rows(Dwarf_Die* unit, const Unit& context, const std::vector<Range>& code);
  void read_children(Dwarf_Die* parent, std::uint32_t outer, std::uint32_t depth, const std::string& prefix,
                     const Unit& context, const std::vector<Range>& code);
  std::uint32_t read_scope(Dwarf_Die* die, std::uint32_t outer, std::uint32_t depth, const Unit& context,
                           const std::vector<Range>& code);
  void flatten();
  std::uint32_t file_number(const char* path, const std::string& folder);
  [[nodiscard]] std::string prefix_inside(const std::string& prefix, Dwarf_Die* die) const;
  [[nodiscard]] std::string name_of(Dwarf_Off offset) const;

  Dwarf* dwarf_;
  std::vector<Row> rows_;
  std::vector<Scope> scopes_;
  std::vector<Piece> pieces_;  // used until flatten()
  std::vector<Start> starts_;
  std::vector<std::string> files_;
  std::unordered_map<std::string, std::uint32_t> file_numbers_;
  // the enclosing scopes' prefix, for functions that have no linkage name
  std::unordered_map<Dwarf_Off, std::string> prefixes_;
};

}  // namespace qm::analysis
