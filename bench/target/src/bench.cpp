#include <qm/bench/bench.hpp>

#include <qm/firmware/boot.hpp>
#include <qm/firmware/console_io.hpp>

namespace qm::bench {

void Distribution::add(unsigned long count) noexcept {
  ++histogram_[count < kExact ? count : kExact];
  ++operations_;
  sum_ += count;
  if (count > max_) max_ = count;
}

unsigned long Distribution::percentile(unsigned percent) const noexcept {
  std::uint64_t left = (operations_ * percent + 99) / 100;
  for (std::size_t count = 0; count < kExact; ++count) {
    if (histogram_[count] >= left) return count;
    left -= histogram_[count];
  }
  return max_;
}

// ---- rows: a JSON object on each line, after a word that begins no other output -------------------------------------

Row::Row(std::string_view name) noexcept {
  put("@bench {");
  text("case", name);
}

Row::~Row() {
  put("}\r\n");
  firmware::console_write(std::string_view(line_.data(), length_));
}

void Row::put(std::string_view text) noexcept {
  if (text.size() > line_.size() - length_) firmware::panic("bench: a row is too long");
  for (const char c : text) line_[length_++] = c;
}

void Row::key(std::string_view name, std::string_view suffix) noexcept {
  put(line_[length_ - 1] == '{' ? "\"" : ",\"");
  put(name);
  put(suffix);
  put("\":");
}

void Row::digits(std::uint64_t value) noexcept {
  char text[20];
  std::size_t at = sizeof text;
  do {
    text[--at] = static_cast<char>('0' + value % 10);
    value /= 10;
  } while (value != 0);
  put({text + at, sizeof text - at});
}

Row& Row::text(std::string_view name, std::string_view value) noexcept {
  key(name);
  put("\"");
  put(value);
  put("\"");
  return *this;
}

Row& Row::number(std::string_view name, std::uint64_t value) noexcept {
  key(name);
  digits(value);
  return *this;
}

Row& Row::mean(std::string_view name, std::uint64_t sum, std::uint64_t operations) noexcept {
  key(name);
  const std::uint64_t hundredths = operations == 0 ? 0 : (sum * 100 + operations / 2) / operations;
  digits(hundredths / 100);
  const char fraction[] = {'.', static_cast<char>('0' + hundredths / 10 % 10),
                           static_cast<char>('0' + hundredths % 10)};
  put({fraction, sizeof fraction});
  return *this;
}

Row& Row::distribution(std::string_view name, const Distribution& counts) noexcept {
  char heading[64];
  const auto with = [&](std::string_view suffix) {
    std::size_t length = 0;
    for (const char c : name) heading[length++] = c;
    for (const char c : suffix) heading[length++] = c;
    return std::string_view(heading, length);
  };
  mean(with(" mean"), counts.sum(), counts.operations());
  number(with(" p99"), counts.percentile(99));
  return number(with(" max"), counts.max());
}

}  // namespace qm::bench
