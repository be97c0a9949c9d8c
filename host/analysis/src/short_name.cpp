#include <cxxabi.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <utility>

#include <qm/analysis/symbols.hpp>

namespace qm::analysis {
namespace {

std::string demangle(const std::string& name) {
  if (!name.starts_with("_Z")) return name;  // `i` is a name, but would be demangled as a type
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status),
                                                         std::free);
  return status == 0 && text ? std::string(text.get()) : name;
}

void drop_all(std::string& text, std::string_view what) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos;) text.erase(at, what.size());
}

/// Drops every span from `@p open` to the next @p close.
void drop_spans(std::string& text, std::string_view open, char close) {
  for (std::size_t at = 0; (at = text.find(open, at)) != std::string::npos;) {
    const std::size_t end = text.find(close, at);
    if (end == std::string::npos) return;
    text.erase(at, end - at + 1);
  }
}

/// @returns the operator name at the front of @p text that contains an angle bracket or a parenthesis; empty if there
///          is none.
std::string_view operator_name(std::string_view text) {
  static constexpr std::array<std::string_view, 11> names = {"operator<=>", "operator<<=", "operator>>=", "operator<<",
                                                             "operator>>",  "operator<=",  "operator>=",  "operator->*",
                                                             "operator->",  "operator<",   "operator>"};
  for (const std::string_view name : names) {
    if (text.starts_with(name)) return name;
  }
  return text.starts_with("operator()") ? std::string_view("operator()") : std::string_view();
}

/// Keeps only the text outside of all brackets.
std::string without_brackets(std::string_view text) {
  std::string kept;
  int angles = 0, rounds = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const bool outside = angles == 0 && rounds == 0;
    const std::string_view name = outside && text[at] == 'o' ? operator_name(text.substr(at)) : std::string_view();
    if (!name.empty()) {
      kept += name;
      at += name.size() - 1;
      continue;
    }
    const char c = text[at];
    if (c == '(') {
      ++rounds;
    } else if (c == ')') {
      --rounds;
    } else if (c == '<' && rounds == 0) {
      ++angles;
    } else if (c == '>' && rounds == 0) {
      --angles;
    } else if (outside) {
      kept += c;
    }
  }
  return kept;
}

/// Drops the prefix of a name: a template function's return type, or the kind of a thunk.
void drop_return_type(std::string& text) {
  const std::size_t word = text.find("operator ");  // as in `operator new`
  const std::size_t blank = text.rfind(' ', word == std::string::npos ? word : (word == 0 ? 0 : word - 1));
  if (blank != std::string::npos && blank != word + 8) text.erase(0, blank + 1);
}

/// Replaces both spellings of a lambda, `{lambda(int)#1}` in a demangled name and `<lambda(int)>` in DWARF, by
/// `lambda`.
void replace_lambdas(std::string& text) {
  for (const auto& [begin, close] :
       {std::pair<std::string_view, std::string_view>{"{lambda(", "}"}, {"<lambda(", ")>"}}) {
    for (std::size_t at = 0; (at = text.find(begin, at)) != std::string::npos;) {
      const std::size_t end = text.find(close, at);
      if (end == std::string::npos) return;
      text.replace(at, end - at + close.size(), "lambda");
    }
  }
  for (const std::string_view tail : {"lambda::_FUN", "lambda::operator()", "_FUN"}) {
    if (text.ends_with(tail)) text.replace(text.size() - tail.size(), tail.size(), "lambda");
  }
}

}  // namespace

std::string short_name(const std::string& name) {
  std::string text = demangle(name);
  drop_all(text, "(anonymous namespace)::");
  drop_spans(text, " [clone ", ']');
  drop_spans(text, "[abi:", ']');
  replace_lambdas(text);
  text = without_brackets(text);
  for (bool more = true; more;) {
    more = false;
    for (const std::string_view tail : {" const", " volatile", " &", " &&"}) {
      if (!text.ends_with(tail)) continue;
      text.resize(text.size() - tail.size());
      more = true;
    }
  }
  drop_return_type(text);
  replace_lambdas(text);
  for (const std::string_view suffix : {".constprop", ".isra", ".part", ".cold", ".lto_priv"}) {
    if (const std::size_t at = text.find(suffix); at != std::string::npos) text.resize(at);
  }
  return text;
}

}  // namespace qm::analysis
