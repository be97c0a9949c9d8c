#include <qm/hal/chip/fdt.hpp>

namespace qm::hal {
namespace {

constexpr std::uint32_t kMagic = 0xd00dfeed;
constexpr std::size_t kHeaderBytes = 40;
enum Header : std::size_t {
  kTotalSize = 4,
  kStructureOffset = 8,
  kStringsOffset = 12,
  kReservationsOffset = 16,
  kLastCompatible = 24,
  kStringsSize = 32,
  kStructureSize = 36,
};
enum Marker : std::uint32_t { kBegin = 1, kEndOfNode = 2, kProp = 3, kNop = 4, kFinish = 9 };

/// Length of the zero-terminated string at @p offset; nothing if it does not end inside @p data.
std::optional<std::size_t> string_length(Fdt::Bytes data, std::size_t offset) noexcept {
  for (std::size_t i = offset; i < data.size(); ++i) {
    if (data[i] == std::byte{0}) return i - offset;
  }
  return std::nullopt;
}

std::string_view text(Fdt::Bytes data, std::size_t offset, std::size_t length) noexcept {
  return {reinterpret_cast<const char*>(data.data()) + offset, length};
}

constexpr std::size_t align4(std::size_t n) noexcept { return (n + 3) & ~std::size_t{3}; }

/// [offset, offset + bytes) of @p blob; an empty optional if that does not lie inside.
std::optional<Fdt::Bytes> block(Fdt::Bytes blob, std::size_t offset, std::size_t bytes) noexcept {
  if (offset > blob.size() || bytes > blob.size() - offset) return std::nullopt;
  return blob.subspan(offset, bytes);
}

}  // namespace

std::uint32_t fdt_u32(Fdt::Bytes data, std::size_t offset) noexcept {
  if (data.size() < 4 || offset > data.size() - 4) return 0;
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = value << 8 | std::to_integer<std::uint32_t>(data[offset + i]);
  return value;
}

std::uint64_t fdt_cells(Fdt::Bytes data, std::size_t offset, unsigned cells) noexcept {
  if (cells == 1) return fdt_u32(data, offset);
  if (cells != 2 || data.size() < 8 || offset > data.size() - 8) return 0;
  return std::uint64_t{fdt_u32(data, offset)} << 32 | fdt_u32(data, offset + 4);
}

std::string_view fdt_string(Fdt::Bytes data) noexcept {
  const auto length = string_length(data, 0);
  return length ? text(data, 0, *length) : std::string_view{};
}

bool fdt_has_string(Fdt::Bytes data, std::string_view wanted) noexcept {
  for (std::size_t at = 0; at < data.size();) {
    const auto length = string_length(data, at);
    if (!length) return false;
    if (text(data, at, *length) == wanted) return true;
    at += *length + 1;
  }
  return false;
}

std::size_t Fdt::declared_bytes(const void* start) noexcept {
  if (start == nullptr || reinterpret_cast<std::uintptr_t>(start) % 4 != 0) return 0;
  const Bytes head(static_cast<const std::byte*>(start), 8);
  return fdt_u32(head, 0) == kMagic ? fdt_u32(head, kTotalSize) : 0;
}

std::optional<Fdt> Fdt::open(Bytes blob) noexcept {
  if (blob.size() < kHeaderBytes || fdt_u32(blob, 0) != kMagic) return std::nullopt;
  const std::size_t total = fdt_u32(blob, kTotalSize);
  if (total > blob.size() || total < kHeaderBytes || fdt_u32(blob, kLastCompatible) > 17) return std::nullopt;
  blob = blob.first(total);
  const auto structure = block(blob, fdt_u32(blob, kStructureOffset), fdt_u32(blob, kStructureSize));
  const auto strings = block(blob, fdt_u32(blob, kStringsOffset), fdt_u32(blob, kStringsSize));
  const std::size_t reservations = fdt_u32(blob, kReservationsOffset);
  if (!structure || !strings || reservations > total) return std::nullopt;
  Fdt tree;
  tree.structure_ = *structure;
  tree.strings_ = *strings;
  tree.reservations_ = blob.subspan(reservations);
  return tree;
}

std::optional<Fdt::Reservation> Fdt::reservation(std::size_t index) const noexcept {
  if (index >= reservations_.size() / 16) return std::nullopt;
  const Reservation entry{fdt_cells(reservations_, index * 16, 2), fdt_cells(reservations_, index * 16 + 8, 2)};
  if (entry.address == 0 && entry.bytes == 0) return std::nullopt;
  return entry;
}

Fdt::Token Fdt::Cursor::broken() noexcept {
  over_ = Kind::kBroken;
  return {};
}

Fdt::Token Fdt::Cursor::next() noexcept {
  if (over_ == Kind::kEnd || over_ == Kind::kBroken) return {over_, {}, {}};
  while (at_ + 4 <= structure_.size()) {
    const std::uint32_t marker = fdt_u32(structure_, at_);
    at_ += 4;
    switch (marker) {
      case kNop: continue;
      case kBegin: {
        const auto length = string_length(structure_, at_);
        if (!length) return broken();
        const std::string_view name = text(structure_, at_, *length);
        at_ = align4(at_ + *length + 1);
        ++depth_;
        return {Kind::kBeginNode, name, {}};
      }
      case kEndOfNode:
        if (depth_ == 0) return broken();
        --depth_;
        return {Kind::kEndNode, {}, {}};
      case kProp: {
        const auto head = block(structure_, at_, 8);
        if (!head || depth_ == 0) return broken();
        const auto data = block(structure_, at_ + 8, fdt_u32(*head, 0));
        const std::size_t name_at = fdt_u32(*head, 4);
        const auto name_length = string_length(strings_, name_at);
        if (!data || !name_length) return broken();
        at_ = align4(at_ + 8 + data->size());
        return {Kind::kProperty, text(strings_, name_at, *name_length), *data};
      }
      case kFinish:
        if (depth_ != 0) return broken();
        over_ = Kind::kEnd;
        return {Kind::kEnd, {}, {}};
      default: return broken();
    }
  }
  return broken();
}

}  // namespace qm::hal
