/// Looks up symbols in the table that the build generates from the linked image (cmake/symbol_table.awk).
///
///     image end (8 bytes, from the linker script) | header | blocks | records | qualifiers
///     block:  offset of its first symbol from __text_start, offset of its records in the table; 16 symbols a block
///     record: uleb128 distance from the previous symbol in the block; uleb128 bytes between this symbol's end and the
///             next symbol; qualifier number; name, terminating zero
///     Symbols are functions, then variables, by address. A nameless record covers code without a symbol.

#include <qm/firmware/symbols.hpp>

#include "hart_state.hpp"
#include <qm/firmware/text.hpp>

namespace qm::firmware {
namespace {

struct Block {
  std::uint32_t text_offset, records;
};
struct Header {
  std::uint32_t blocks, records, bytes, qualifiers, reach,
      names;  ///< reach: from __text_start to the last symbol's end
};

constexpr std::uint32_t kBlock = 16;

const Header& header() noexcept {
  return *static_cast<const Header*>(static_cast<const void*>(__qm_symbols_start + 8 / sizeof(std::uintptr_t)));
}
const Block* blocks() noexcept { return static_cast<const Block*>(static_cast<const void*>(&header() + 1)); }
const char* table() noexcept { return reinterpret_cast<const char*>(&header()); }

std::uint32_t take_uleb128(const char*& at) noexcept {
  std::uint32_t value = 0;
  for (unsigned shift = 0;; shift += 7) {
    const auto byte = static_cast<std::uint8_t>(*at++);
    value |= static_cast<std::uint32_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
}

const char* skip_string(const char* at) noexcept {
  while (*at++ != 0) {
  }
  return at;
}

/// @returns the block that contains @p offset: the last block that does not start after it.
std::uint32_t find_block(std::uint32_t offset) noexcept {
  std::uint32_t low = 0, high = header().blocks;
  while (high - low > 1) {
    const std::uint32_t middle = (low + high) / 2;
    (blocks()[middle].text_offset <= offset ? low : high) = middle;
  }
  return low;
}

struct Record {
  std::uint32_t start = 0, padding = 0;
  std::uint8_t qualifier = 0;
  const char* name = nullptr;
};

Record take_record(const char*& at, std::uint32_t previous_start) noexcept {
  Record record;
  record.start = previous_start + take_uleb128(at);
  record.padding = take_uleb128(at);
  record.qualifier = static_cast<std::uint8_t>(*at++);
  record.name = at;
  at = skip_string(at);
  return record;
}

}  // namespace

std::size_t symbol_table_bytes() noexcept { return header().bytes; }

std::size_t symbol_count() noexcept { return header().names; }

void visit_symbols(SymbolVisitor visit, void* context) noexcept {
  const Header& head = header();
  for (std::uint32_t block = 0; block < head.blocks; ++block) {
    const char* at = table() + blocks()[block].records;
    const std::uint32_t count = block + 1 < head.blocks ? kBlock : head.records - block * kBlock;
    Record record{.start = blocks()[block].text_offset};
    for (std::uint32_t i = 0; i < count; ++i) {
      record = take_record(at, record.start);
      if (*record.name == 0) continue;
      const char* qualifier = table() + head.qualifiers;
      for (unsigned q = 0; q < record.qualifier; ++q) qualifier = skip_string(qualifier);
      if (!visit(context, qualifier, record.name, reinterpret_cast<std::uintptr_t>(__text_start) + record.start))
        return;
    }
  }
}

bool find_symbol(std::string_view name, std::uintptr_t& start) noexcept {
  struct Search {
    std::string_view name;
    std::uintptr_t start = 0;
  } search{name};
  visit_symbols(
      [](void* context, std::string_view first, std::string_view last, std::uintptr_t at) noexcept {
        auto& sought = *static_cast<Search*>(context);
        const std::string_view all = sought.name;
        if (all.size() != first.size() + last.size() || !all.starts_with(first) || !all.ends_with(last)) return true;
        sought.start = at;
        return false;
      },
      &search);
  if (search.start != 0) start = search.start;
  return search.start != 0;
}

bool symbol(std::uintptr_t address, SymbolName& out) noexcept {
  const auto text = reinterpret_cast<std::uintptr_t>(__text_start);
  const Header& head = header();
  if (head.blocks == 0 || address < text || address - text >= head.reach) return false;
  const auto offset = static_cast<std::uint32_t>(address - text);
  const std::uint32_t block = find_block(offset);
  if (offset < blocks()[block].text_offset) return false;

  const char* at = table() + blocks()[block].records;
  const std::uint32_t count = block + 1 < head.blocks ? kBlock : head.records - block * kBlock;
  std::uint32_t end = block + 1 < head.blocks ? blocks()[block + 1].text_offset : head.reach;
  Record found = take_record(at, blocks()[block].text_offset);
  for (std::uint32_t i = 1; i < count; ++i) {
    const Record record = take_record(at, found.start);
    if (record.start > offset) {
      end = record.start;
      break;
    }
    found = record;
  }
  end -= found.padding;
  if (*found.name == 0 || offset >= end) return false;

  const char* qualifier = table() + head.qualifiers;
  for (unsigned i = 0; i < found.qualifier; ++i) qualifier = skip_string(qualifier);
  Text name(out.text);
  name << std::string_view(qualifier) << std::string_view(found.name);
  out.length = name.length();
  out.offset = offset - found.start;
  out.size = end - found.start;
  out.is_function = address < reinterpret_cast<std::uintptr_t>(__text_end);
  return true;
}

}  // namespace qm::firmware
