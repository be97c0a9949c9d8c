#include "dwarf_index.hpp"

#include <dwarf.h>

#include <algorithm>
#include <filesystem>

namespace qm::analysis {
namespace {

bool contains(const std::vector<Range>& ranges, std::uint64_t address) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const Range& range) { return range.begin <= address && address < range.end; });
}

const char* text_of(Dwarf_Die* die, unsigned attribute) {
  Dwarf_Attribute found;
  return dwarf_attr_integrate(die, attribute, &found) != nullptr ? dwarf_formstring(&found) : nullptr;
}

std::uint32_t number_of(Dwarf_Die* die, unsigned attribute) {
  Dwarf_Attribute found;
  Dwarf_Word value = 0;
  if (dwarf_attr(die, attribute, &found) == nullptr || dwarf_formudata(&found, &value) != 0) return 0;
  return static_cast<std::uint32_t>(value);
}

const char* linkage_name(Dwarf_Die* die) {
  const char* const name = text_of(die, DW_AT_linkage_name);
  return name != nullptr ? name : text_of(die, DW_AT_MIPS_linkage_name);
}

}  // namespace

/// @returns the prefix of the names inside a namespace, a class or a function.
std::string DwarfIndex::prefix_inside(const std::string& prefix, Dwarf_Die* die) const {
  if (dwarf_tag(die) == DW_TAG_subprogram) return name_of(dwarf_dieoffset(die)) + "::";
  const char* const name = text_of(die, DW_AT_name);
  if (name != nullptr) return prefix + name + "::";
  // GCC names the types of most lambdas, but not of all.
  return dwarf_tag(die) == DW_TAG_structure_type ? prefix + "lambda::" : prefix;
}

DwarfIndex::DwarfIndex(Dwarf* dwarf, const std::vector<Range>& code) : dwarf_(dwarf), files_(1) {
  Dwarf_CU* unit = nullptr;
  Dwarf_Die die;
  while (dwarf_get_units(dwarf, unit, &unit, nullptr, nullptr, &die, nullptr) == 0) {
    if (dwarf_tag(&die) != DW_TAG_compile_unit) continue;
    Unit context;
    if (dwarf_getsrcfiles(&die, &context.files, &context.file_count) != 0) context.file_count = 0;
    if (const char* const folder = text_of(&die, DW_AT_comp_dir); folder != nullptr) context.folder = folder;
    read_rows(&die, context, code);
    read_children(&die, kNone, 0, "", context, code);
  }
  // At an address where one sequence ends and another begins, the beginning is wanted.
  std::stable_sort(rows_.begin(), rows_.end(), [](const Row& a, const Row& b) {
    return a.address != b.address ? a.address < b.address : a.line == kNone && b.line != kNone;
  });
  flatten();
}

/// Adds the rows of code that is in the image. libdw has sorted them, so the sequences are mixed.
void DwarfIndex::read_rows(Dwarf_Die* unit, const Unit& context, const std::vector<Range>& code) {
  Dwarf_Lines* lines = nullptr;
  std::size_t count = 0;
  if (dwarf_getsrclines(unit, &lines, &count) != 0) return;
  for (std::size_t index = 0; index < count; ++index) {
    Dwarf_Line* const line = dwarf_onesrcline(lines, index);
    Dwarf_Addr address = 0;
    int number = 0;
    bool end = false;
    dwarf_lineaddr(line, &address);
    dwarf_lineno(line, &number);
    dwarf_lineendsequence(line, &end);
    if (!contains(code, end ? address - 1 : address)) continue;
    if (end) {
      rows_.push_back({address, 0, kNone});
    } else {
      rows_.push_back({address, file_number(dwarf_linesrc(line, nullptr, nullptr), context.folder),
                       static_cast<std::uint32_t>(number)});
    }
  }
}

void DwarfIndex::read_children(Dwarf_Die* parent, std::uint32_t outer, std::uint32_t depth, const std::string& prefix,
                               const Unit& context, const std::vector<Range>& code) {
  Dwarf_Die die;
  if (dwarf_child(parent, &die) != 0) return;
  do {
    switch (dwarf_tag(&die)) {
      case DW_TAG_subprogram: {
        if (!prefix.empty()) prefixes_.emplace(dwarf_dieoffset(&die), prefix);
        const std::uint32_t scope = read_scope(&die, kNone, 0, context, code);
        read_children(&die, scope, 1, prefix_inside(prefix, &die), context, code);
        break;
      }
      case DW_TAG_inlined_subroutine: {
        const std::uint32_t scope = read_scope(&die, outer, depth, context, code);
        read_children(&die, scope, depth + 1, prefix, context, code);
        break;
      }
      case DW_TAG_lexical_block: read_children(&die, outer, depth, prefix, context, code); break;
      case DW_TAG_namespace:
      case DW_TAG_class_type:
      case DW_TAG_structure_type:
      case DW_TAG_union_type: read_children(&die, outer, depth, prefix_inside(prefix, &die), context, code); break;
      default: break;
    }
  } while (dwarf_siblingof(&die, &die) == 0);
}

std::uint32_t DwarfIndex::read_scope(Dwarf_Die* die, std::uint32_t outer, std::uint32_t depth, const Unit& context,
                                     const std::vector<Range>& code) {
  std::uint32_t scope = kNone;
  Dwarf_Addr base = 0, begin = 0, end = 0;
  for (std::ptrdiff_t next = 0; (next = dwarf_ranges(die, next, &base, &begin, &end)) > 0;) {
    if (begin >= end || !contains(code, begin)) continue;
    if (scope == kNone) {
      scope = static_cast<std::uint32_t>(scopes_.size());
      const std::uint32_t file = number_of(die, DW_AT_call_file);
      const char* const path =
          file < context.file_count ? dwarf_filesrc(context.files, file, nullptr, nullptr) : nullptr;
      scopes_.push_back(
          {dwarf_dieoffset(die), outer, file_number(path, context.folder), number_of(die, DW_AT_call_line)});
    }
    pieces_.push_back({{begin, end}, scope, depth});
  }
  return scope != kNone ? scope : outer;
}

/// Makes starts_ from pieces_, which are nested: each address belongs to the deepest piece that covers it.
void DwarfIndex::flatten() {
  std::sort(pieces_.begin(), pieces_.end(), [](const Piece& a, const Piece& b) {
    return a.range.begin != b.range.begin ? a.range.begin < b.range.begin : a.depth < b.depth;
  });
  std::vector<const Piece*> open;
  const auto close_before = [&](std::uint64_t address) {
    while (!open.empty() && open.back()->range.end <= address) {
      const std::uint64_t end = open.back()->range.end;
      open.pop_back();
      while (!open.empty() && open.back()->range.end <= end) open.pop_back();
      starts_.push_back({end, open.empty() ? kNone : open.back()->scope});
    }
  };
  for (const Piece& piece : pieces_) {
    close_before(piece.range.begin);
    starts_.push_back({piece.range.begin, piece.scope});
    open.push_back(&piece);
  }
  close_before(~std::uint64_t{0});
  pieces_ = {};
}

std::uint32_t DwarfIndex::file_number(const char* path, const std::string& folder) {
  if (path == nullptr) return 0;
  const auto [entry, is_new] = file_numbers_.try_emplace(path, static_cast<std::uint32_t>(files_.size()));
  if (is_new) {
    std::string_view name = path;
    if (!folder.empty() && name.starts_with(folder + "/"))
      name.remove_prefix(folder.size() + 1);  // libdw has prepended it
    // -ffile-prefix-map maps a relative folder to the root of the tree, and also a name, unless the compiler was given
    // the name relative to that folder: ../../alloc/src/cache/cache.cpp.
    const bool stands_alone = name.starts_with('/') || (!folder.starts_with('/') && !name.starts_with(".."));
    const std::filesystem::path whole =
        stands_alone ? std::filesystem::path(name) : std::filesystem::path(folder) / name;
    files_.push_back(whole.lexically_normal().string());
  }
  return entry->second;
}

std::string DwarfIndex::name_of(Dwarf_Off offset) const {
  Dwarf_Die die;
  if (dwarf_offdie(dwarf_, offset, &die) == nullptr) return "";
  if (const char* const name = linkage_name(&die); name != nullptr) return short_name(name);
  const char* const name = text_of(&die, DW_AT_name);
  if (name == nullptr) return "";
  // The declaration says which scope encloses it.
  for (int step = 0; step < 8; ++step) {
    if (const auto prefix = prefixes_.find(dwarf_dieoffset(&die));
        prefix != prefixes_.end() && !prefix->second.empty()) {
      return short_name(prefix->second + name);
    }
    Dwarf_Attribute link;
    if (dwarf_attr(&die, DW_AT_abstract_origin, &link) == nullptr &&
        dwarf_attr(&die, DW_AT_specification, &link) == nullptr)
      break;
    if (dwarf_formref_die(&link, &die) == nullptr) break;
  }
  return short_name(name);
}

std::vector<Frame> DwarfIndex::look_up(std::uint64_t address) const {
  std::vector<Frame> frames;
  const auto row = std::upper_bound(rows_.begin(), rows_.end(), address,
                                    [](std::uint64_t value, const Row& next) { return value < next.address; });
  std::uint32_t file = 0, line = 0;
  if (row != rows_.begin()) {
    const Row& at = *std::prev(row);
    if (at.line != kNone) file = at.file, line = at.line;
  }
  const auto start = std::upper_bound(starts_.begin(), starts_.end(), address,
                                      [](std::uint64_t value, const Start& next) { return value < next.address; });
  std::uint32_t scope = start != starts_.begin() ? std::prev(start)->scope : kNone;
  for (; scope != kNone; scope = scopes_[scope].outer) {
    const Scope& at = scopes_[scope];
    frames.push_back({name_of(at.die), files_[file], line, at.outer != kNone});
    file = at.call_file;
    line = at.call_line;
  }
  if (frames.empty() && line != 0) frames.push_back({"", files_[file], line, false});
  return frames;
}

}  // namespace qm::analysis
