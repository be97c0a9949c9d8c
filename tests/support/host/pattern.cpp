#include <qm/test/pattern.hpp>

#include <regex>

namespace qm::test {
namespace {

Match groups(const std::smatch& match) {
  Match all;
  for (const auto& group : match) all.push_back(group.str());
  return all;
}

}  // namespace

Match find(const std::string& text, const std::string& pattern) {
  std::smatch match;
  return std::regex_search(text, match, std::regex(pattern)) ? groups(match) : Match{};
}

std::vector<Match> find_all(const std::string& text, const std::string& pattern) {
  const std::regex compiled(pattern);
  std::vector<Match> all;
  for (auto at = std::sregex_iterator(text.begin(), text.end(), compiled); at != std::sregex_iterator(); ++at) {
    all.push_back(groups(*at));
  }
  return all;
}

bool matches(const std::string& text, const std::string& pattern) {
  return std::regex_match(text, std::regex(pattern));
}

std::string replace_all(const std::string& text, const std::string& pattern, const std::string& with) {
  return std::regex_replace(text, std::regex(pattern), with);
}

}  // namespace qm::test
