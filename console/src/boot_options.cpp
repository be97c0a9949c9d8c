#include <qm/console/boot_options.hpp>

#include <limits>

#include <qm/call_site.hpp>
#include <qm/console/words.hpp>

namespace qm::console {
namespace {

enum class Verdict : std::uint8_t { kTaken, kUnknown, kMalformed, kNotInThisBuild };

/// Whether @p list is a list of patterns: each item is non-empty and has name characters, `*` and `?` only.
bool is_glob_list(std::string_view list) noexcept {
  bool item_empty = true;
  for (const char c : list) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (c == ',') {
      if (item_empty) return false;
      item_empty = true;
    } else if (letter || c == '_' || c == '.' || c == '-' || c == '*' || c == '?') {
      item_empty = false;
    } else {
      return false;
    }
  }
  return !item_empty;
}

Verdict take(std::string_view key, std::string_view value, BootOptions& options) noexcept {
  std::uint64_t number = 0;
  if (key == "trace") {
    if (!is_glob_list(value)) return Verdict::kMalformed;
    options.trace = value;
    return Verdict::kTaken;
  }
  if (key == "records") {
    if (parse_number(value, std::numeric_limits<std::uint32_t>::max(), number) != Number::kOk || number == 0) {
      return Verdict::kMalformed;
    }
    options.records = static_cast<std::uint32_t>(number);
    return Verdict::kTaken;
  }
  if (key == "panic") {
    if (parse_number(value, std::numeric_limits<std::uint32_t>::max(), number) != Number::kOk)
      return Verdict::kMalformed;
    options.panic_seconds = static_cast<std::uint32_t>(number);
    return Verdict::kTaken;
  }
  if (key == "exhausted") {
    if (value.empty()) return Verdict::kMalformed;
    options.exhausted = value;
    return Verdict::kTaken;
  }
  if (key == "baud") {
    if (parse_number(value, std::numeric_limits<std::uint32_t>::max(), number) != Number::kOk || number == 0)
      return Verdict::kMalformed;
    options.baud = static_cast<std::uint32_t>(number);
    return Verdict::kTaken;
  }
  if (key == "stacks") {
    if (parse_size(value, std::numeric_limits<std::size_t>::max(), number) != Number::kOk || number == 0) {
      return Verdict::kMalformed;
    }
    options.stack_bytes = static_cast<std::size_t>(number);
    return Verdict::kTaken;
  }
  if (key == "kmemtrace") {
    if (value != "on") return Verdict::kMalformed;
    options.stream = true;
    return Verdict::kTaken;
  }
  if (key == "ring") {
    if (parse_size(value, std::numeric_limits<std::uint32_t>::max(), number) != Number::kOk || number == 0) {
      return Verdict::kMalformed;
    }
    options.ring_bytes = static_cast<std::size_t>(number);
    return Verdict::kTaken;
  }
  if (key == "allocinfo") {
    if (value != "on" && value != "off") return Verdict::kMalformed;
    options.allocinfo_off = value == "off";
    return kCallSites ? Verdict::kTaken : Verdict::kNotInThisBuild;
  }
  return Verdict::kUnknown;
}

}  // namespace

BootOptions parse_boot_options(std::string_view bootargs) noexcept {
  BootOptions options;
  std::size_t at = 0;
  while (true) {
    while (at < bootargs.size() && Words::is_blank(bootargs[at])) ++at;
    const std::size_t start = at;
    while (at < bootargs.size() && !Words::is_blank(bootargs[at])) ++at;
    const std::string_view option = part(bootargs, start, at - start);
    if (option.empty() || option == "--") return options;
    const std::size_t equals = find(option, '=');
    const std::string_view value = equals != kNowhere ? part(option, equals + 1) : std::string_view();
    const Verdict verdict = take(part(option, 0, equals), value, options);
    if (verdict == Verdict::kTaken) continue;
    if (options.rejected_count < BootOptions::kMaxRejected) {
      const Rejection reason = verdict == Verdict::kMalformed        ? Rejection::kMalformed
                               : verdict == Verdict::kNotInThisBuild ? Rejection::kNotInThisBuild
                                                                     : Rejection::kUnknown;
      options.rejected[options.rejected_count] = {option, reason};
    }
    ++options.rejected_count;
  }
}

}  // namespace qm::console
