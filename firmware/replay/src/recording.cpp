#include <qm/replay/recording.hpp>

namespace qm::replay {
namespace {

/// Reads bytes, and never reads past their end.
class Bytes {
 public:
  explicit Bytes(std::span<const std::uint8_t> bytes) noexcept : rest_(bytes) {}
  [[nodiscard]] bool failed() const noexcept { return failed_; }
  [[nodiscard]] bool empty() const noexcept { return rest_.empty(); }

  std::uint8_t byte() noexcept {
    if (rest_.empty()) {
      failed_ = true;
      return 0;
    }
    const std::uint8_t first = rest_.front();
    rest_ = rest_.subspan(1);
    return first;
  }
  std::uint32_t varint() noexcept {
    std::uint32_t value = 0;
    for (unsigned shift = 0; shift < 32; shift += 7) {
      const std::uint8_t next = byte();
      value |= static_cast<std::uint32_t>(next & 127) << shift;
      if (next < 128) return value;
    }
    failed_ = true;
    return 0;
  }
  [[nodiscard]] std::span<const std::uint8_t> rest() const noexcept { return rest_; }

 private:
  std::span<const std::uint8_t> rest_;
  bool failed_ = false;
};

bool read_header(Bytes& in, Header& header) noexcept {
  for (const char letter : {'q', 'm', 'r', '1'}) {
    if (in.byte() != static_cast<std::uint8_t>(letter)) return false;
  }
  for (std::uint32_t* field : {&header.operations, &header.slots, &header.threads, &header.peak_bytes,
                               &header.peak_blocks, &header.crossed, &header.left, &header.unpacked_bytes}) {
    *field = in.varint();
  }
  return !in.failed() && header.slots < (1U << 24) && header.threads <= 16;
}

/// Unpacks the body to @p out.
bool expand(Bytes& in, std::span<std::uint8_t> out) noexcept {
  std::size_t at = 0;
  for (;;) {
    std::uint32_t literals = in.varint();
    if (in.failed() || literals > out.size() - at) return false;
    while (literals-- != 0) out[at++] = in.byte();
    const std::uint32_t copied = in.varint();
    if (copied == 0) return !in.failed() && at == out.size();
    const std::uint32_t distance = in.varint();
    if (distance == 0 || distance > at || copied > out.size() - at) return false;
    for (const std::size_t end = at + copied; at < end; ++at) out[at] = out[at - distance];
  }
}

constexpr std::size_t up_to_8(std::size_t bytes) { return (bytes + 7) & ~std::size_t{7}; }

/// Turns codes into operations. It keeps the free slots, and the number of operations on each slot.
class Decoder {
 public:
  /// @param[in] memory two 32-bit words for each slot.
  Decoder(const Header& header, std::uint32_t* memory) noexcept
      : slots_(header.slots), threads_(header.threads), free_(memory), turns_(memory + header.slots) {
    for (std::uint32_t slot = 0; slot < slots_; ++slot) turns_[slot] = 0;
  }

  bool next(Bytes& in, Operation& operation) noexcept {
    std::uint32_t code = in.varint();
    while ((code & 3) == 3) {
      thread_ = code >> 2;
      code = in.varint();
    }
    if (in.failed() || thread_ >= threads_) return false;
    const auto kind = static_cast<Kind>(code & 3);
    std::uint32_t size = 0;
    if (kind == Kind::kAllocate) {
      last_ = free_count_ != 0 ? free_[--free_count_] : fresh_++;
      size = code >> 2;
    } else {
      const std::uint32_t zigzag = code >> 2;
      last_ += (zigzag & 1) != 0 ? ~(zigzag >> 1) : zigzag >> 1;
      if (kind == Kind::kReallocate) size = in.varint();
    }
    if (in.failed() || last_ >= slots_) return false;
    if (kind == Kind::kFree) {
      if (free_count_ == slots_) return false;
      free_[free_count_++] = last_;
    }
    operation.slot = last_ & 0xffffff;
    operation.kind = static_cast<std::uint32_t>(kind) & 15;
    operation.thread = thread_ & 15;
    operation.size = size;
    operation.turn = turns_[last_]++;
    return true;
  }

 private:
  std::uint32_t slots_;
  std::uint32_t threads_;
  std::uint32_t* free_;  // a stack
  std::uint32_t* turns_;
  std::uint32_t free_count_ = 0;
  std::uint32_t fresh_ = 0;
  std::uint32_t last_ = 0;
  std::uint32_t thread_ = 0;
};

}  // namespace

bool read_header(std::span<const std::uint8_t> file, Header& header) noexcept {
  Bytes in(file);
  return read_header(in, header);
}

std::size_t unpack_bytes(const Header& header) noexcept {
  return up_to_8(header.operations * sizeof(Operation)) + header.slots * 2 * sizeof(std::uint32_t) +
         header.unpacked_bytes;
}

std::span<const Operation> unpack(std::span<const std::uint8_t> file, void* memory) noexcept {
  Header header;
  Bytes in(file);
  if (!read_header(in, header)) return {};
  auto* const operations = static_cast<Operation*>(memory);
  void* const behind = static_cast<std::uint8_t*>(memory) + up_to_8(header.operations * sizeof(Operation));
  auto* const tables = static_cast<std::uint32_t*>(behind);
  auto* const body = reinterpret_cast<std::uint8_t*>(tables + std::size_t{header.slots} * 2);
  if (!expand(in, {body, header.unpacked_bytes})) return {};
  Bytes codes({body, header.unpacked_bytes});
  Decoder decoder(header, tables);
  for (std::uint32_t i = 0; i < header.operations; ++i) {
    if (!decoder.next(codes, operations[i])) return {};
  }
  return {operations, codes.empty() ? header.operations : 0};
}

}  // namespace qm::replay
