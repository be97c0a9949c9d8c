#include <qm/console/query.hpp>

#include <qm/detail/call_sites.hpp>

namespace qm::console {
namespace {

/// Stores the value of an option that may occur once. @returns false if the value is missing or the option is repeated.
bool take(std::string_view& into, std::string_view value) noexcept {
  if (value.empty() || !into.empty()) return false;
  into = value;
  return true;
}

bool take_flag(bool& flag) noexcept {
  if (flag) return false;
  return flag = true;
}

/// A name, or in a command with Takes::kPatterns `-` and a name.
bool take_pattern(Query& query, unsigned takes, std::string_view word) noexcept {
  const unsigned room = (takes & Takes::kPatterns) != 0 ? Query::kMaxPatterns : (takes & Takes::kPattern) != 0 ? 1 : 0;
  const bool leaves_out = word[0] == '-';
  if (leaves_out && ((takes & Takes::kPatterns) == 0 || word.size() == 1)) return false;
  for (const std::string_view reserved : {"by", "older", "sort", "top"}) {
    if (word == reserved) return false;
  }
  if (query.pattern_count == room) return false;
  query.patterns[query.pattern_count++] = word;
  return true;
}

}  // namespace

CommandStatus read_query(Invocation& call, std::size_t first, unsigned takes, Query& query) noexcept {
  const Words& words = call.words();
  std::string_view top;
  std::string_view by;
  for (std::size_t at = first; at < words.size(); ++at) {
    const std::string_view word = words[at];
    const std::string_view value = words[at + 1];  // empty at the end
    bool taken = false;
    if ((takes & Takes::kInBytes) != 0 && word == "-b") {
      taken = take_flag(query.in_bytes);
    } else if ((takes & Takes::kVerbose) != 0 && word == "-v") {
      taken = take_flag(query.verbose);
    } else if ((takes & Takes::kTop) != 0 && word == "top") {
      taken = take(top, value);
      ++at;
    } else if ((takes & Takes::kByStackSite) != 0 && word == "by") {
      taken = take(by, value) && (by == "stack" || by == "site" || ((takes & Takes::kByTask) != 0 && by == "task"));
      ++at;
    } else if ((takes & Takes::kSort) != 0 && word == "sort") {
      taken = take(query.sort, value);
      ++at;
    } else if ((takes & Takes::kOlder) != 0 && word == "older") {
      taken = take(query.older, value);
      ++at;
    } else {
      taken = take_pattern(query, takes, word);
    }
    if (!taken) return call.usage();
  }
  if ((takes & Takes::kAllSites) != 0 && by == "site" && !top.empty()) return call.usage();
  if (!top.empty()) {
    std::uint64_t number = 0;
    const Number read = parse_number(top, SIZE_MAX, number);
    if (read != Number::kOk) return call.fail_number(top, read);
    query.top = static_cast<std::size_t>(number);
  }
  if (by == "site" && !kCallSites) return call.fail("built without call sites");
  if (!by.empty()) query.by = by == "stack" ? Query::By::kStack : by == "task" ? Query::By::kTask : Query::By::kSite;
  return call.ok();
}

bool complete_query(Completion& completion, std::size_t first, unsigned takes) noexcept {
  if (completion.index() < first) return false;
  const std::string_view before = completion.words()[completion.index() - 1];
  if (completion.index() > first) {
    if (before == "top" || before == "older" || before == "sort") return false;
    if (before == "by") {
      completion.offer("stack");
      if (kCallSites) completion.offer("site");
      if ((takes & Takes::kByTask) != 0) completion.offer("task");
      return false;
    }
  }
  constexpr struct {
    unsigned which;
    std::string_view word;
  } kWords[] = {{Takes::kInBytes, "-b"}, {Takes::kVerbose, "-v"},  {Takes::kTop, "top"},
                {Takes::kSort, "sort"},  {Takes::kOlder, "older"}, {Takes::kByStackSite, "by"}};
  for (const auto& [which, word] : kWords) {
    if ((takes & which) != 0) completion.offer(word);
  }
  return (takes & (Takes::kPattern | Takes::kPatterns)) != 0;
}

}  // namespace qm::console
