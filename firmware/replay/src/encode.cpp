/// Encodes a recorded trace: `encode_recording IN.trace OUT.qmr`. With one argument, an encoded trace, it prints the
/// decoded trace, so that `encode_recording OUT.qmr | cmp - IN.trace` shows that nothing was lost.
///
/// A trace is text, one operation a line: `t N` (the next operations belong to thread N), `a SLOT SIZE`, `r SLOT SIZE`,
/// `f SLOT`. An allocation must use the slot that was freed last, or a new one, so the encoded form does not name it.

#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include <qm/replay/recording.hpp>

namespace {

using Bytes = std::vector<std::uint8_t>;

void put(Bytes& out, std::uint32_t value) {
  for (; value >= 128; value >>= 7) out.push_back(static_cast<std::uint8_t>(value | 128));
  out.push_back(static_cast<std::uint8_t>(value));
}

[[noreturn]] void fail(const std::string& why) {
  std::cerr << "error: " << why << '\n';
  std::exit(1);
}

/// Builds the codes of a trace, and its header.
class Encoder {
 public:
  void line(char verb, std::uint32_t slot, std::uint32_t size) {
    if (verb == 't') {
      thread_ = slot;
      threads_.insert(slot);
      return put(codes, slot << 2 | 3);
    }
    threads_.insert(thread_);
    ++header.operations;
    if (verb == 'a') {
      allocate(slot, size);
    } else {
      const std::int64_t distance = std::int64_t{slot} - last_;
      const auto zigzag = static_cast<std::uint32_t>(distance >= 0 ? distance * 2 : -distance * 2 - 1);
      put(codes, zigzag << 2 | (verb == 'f' ? 1 : 2));
      if (verb == 'f') {
        free(slot);
      } else {
        put(codes, size);
        resize(slot, size);
      }
    }
    last_ = slot;
  }
  void finish() {
    header.slots = static_cast<std::uint32_t>(sizes_.size());
    header.threads = *threads_.rbegin() + 1;
    header.left = header.slots - static_cast<std::uint32_t>(free_.size());
    header.unpacked_bytes = static_cast<std::uint32_t>(codes.size());
  }

  qm::replay::Header header;
  Bytes codes;

 private:
  void allocate(std::uint32_t slot, std::uint32_t size) {
    if (free_.empty() ? slot != sizes_.size() : slot != free_.back())
      fail("a slot that is neither the last freed nor new");
    if (free_.empty()) {
      sizes_.push_back(0);
      owners_.push_back(0);
    } else {
      free_.pop_back();
    }
    owners_[slot] = thread_;
    put(codes, size << 2);
    ++blocks_;
    resize(slot, size);
  }
  void free(std::uint32_t slot) {
    header.crossed += owners_.at(slot) != thread_;
    --blocks_;
    resize(slot, 0);
    free_.push_back(slot);
  }
  void resize(std::uint32_t slot, std::uint32_t size) {
    live_ += size - sizes_.at(slot);
    sizes_[slot] = size;
    if (live_ <= header.peak_bytes) return;
    header.peak_bytes = live_;
    header.peak_blocks = blocks_;
  }
  std::vector<std::uint32_t> sizes_, owners_, free_;
  std::set<std::uint32_t> threads_;
  std::uint32_t thread_ = 0, last_ = 0, live_ = 0, blocks_ = 0;
};

/// LZ77: uses the longest of the last 64 matches of four bytes.
Bytes pack(const Bytes& in) {
  constexpr std::size_t kKey = 4, kLeast = 5, kTried = 64;
  Bytes out;
  std::unordered_map<std::uint32_t, std::vector<std::size_t>> places;
  const auto key = [&](std::size_t at) {
    return std::uint32_t{in[at]} | std::uint32_t{in[at + 1]} << 8 | std::uint32_t{in[at + 2]} << 16 |
           std::uint32_t{in[at + 3]} << 24;
  };
  std::size_t at = 0, literals = 0;
  const auto flush = [&](std::size_t copied, std::size_t distance) {
    put(out, static_cast<std::uint32_t>(at - literals));
    out.insert(out.end(), in.begin() + static_cast<std::ptrdiff_t>(literals),
               in.begin() + static_cast<std::ptrdiff_t>(at));
    put(out, static_cast<std::uint32_t>(copied));
    if (copied != 0) put(out, static_cast<std::uint32_t>(distance));
  };
  while (at < in.size()) {
    std::size_t best = 0, from = 0;
    if (at + kKey <= in.size()) {
      const std::vector<std::size_t>& known = places[key(at)];
      for (std::size_t i = known.size(); i != 0 && known.size() - i < kTried; --i) {
        std::size_t length = kKey;
        while (at + length < in.size() && in[known[i - 1] + length] == in[at + length]) ++length;
        if (length > best) {
          best = length;
          from = known[i - 1];
        }
      }
    }
    const std::size_t step = best >= kLeast ? best : 1;
    if (best >= kLeast) flush(best, at - from);
    for (std::size_t i = at; i < at + step && i + kKey <= in.size(); ++i) places[key(i)].push_back(i);
    at += step;
    if (best >= kLeast) literals = at;
  }
  flush(0, 0);
  return out;
}

Bytes encode(std::istream& text) {
  Encoder encoder;
  char verb = 0;
  std::uint32_t slot = 0, size = 0;
  while (text >> verb >> slot) {
    if ((verb == 'a' || verb == 'r') && !(text >> size)) fail("a size is missing");
    encoder.line(verb, slot, size);
  }
  encoder.finish();
  Bytes out{'q', 'm', 'r', '1'};
  const qm::replay::Header& header = encoder.header;
  for (const std::uint32_t field : {header.operations, header.slots, header.threads, header.peak_bytes,
                                    header.peak_blocks, header.crossed, header.left, header.unpacked_bytes}) {
    put(out, field);
  }
  const Bytes packed = pack(encoder.codes);
  out.insert(out.end(), packed.begin(), packed.end());
  return out;
}

void print(const Bytes& file) {
  qm::replay::Header header;
  if (!qm::replay::read_header(file, header)) fail("not an encoded trace");
  std::vector<std::uint64_t> memory((qm::replay::unpack_bytes(header) + 7) / 8);
  const auto operations = qm::replay::unpack(file, memory.data());
  if (operations.empty()) fail("damaged");
  std::uint32_t thread = ~0U;
  for (const qm::replay::Operation& operation : operations) {
    if (operation.thread != thread) std::printf("t %u\n", thread = operation.thread);
    const char verb = "afr"[operation.kind];
    if (verb == 'f') {
      std::printf("f %u\n", unsigned{operation.slot});
    } else {
      std::printf("%c %u %u\n", verb, unsigned{operation.slot}, operation.size);
    }
  }
}

}  // namespace

int main(int count, char** words) {
  if (count != 2 && count != 3) fail("usage: encode_recording IN.trace OUT.qmr | encode_recording IN.qmr");
  std::ifstream in(words[1], std::ios::binary);
  if (!in) fail(std::string("cannot read ") + words[1]);
  if (count == 2) {
    print(Bytes(std::istreambuf_iterator<char>(in), {}));
    return 0;
  }
  const Bytes out = encode(in);
  std::ofstream file(words[2], std::ios::binary);
  file.write(reinterpret_cast<const char*>(out.data()), static_cast<std::streamsize>(out.size()));
  return file ? 0 : 1;
}
