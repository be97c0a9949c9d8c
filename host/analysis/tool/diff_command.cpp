#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include <qm/analysis/diff.hpp>
#include <qm/host/error.hpp>

#include "commands.hpp"
#include "sources.hpp"

namespace qm::analysis {
namespace {

Holdings read(const std::string& file, const DiffOptions& options, std::string& build_id) {
  const std::string name = std::filesystem::path(file).filename().string();
  // Opened once, because it may be a pipe. JSON never begins with the signature of a capture (docs/capture-format.md).
  std::ifstream in = open_text(file);
  if (const int first = in.peek(); first != std::ifstream::traits_type::eof() && (first & 0x80) != 0) {
    Summary summary({0, options.cache, 0});
    read_capture(file, summary);
    require_cache(summary, file);
    build_id = summary.definitions().header.build_id;
    const std::optional<Symbols> symbols = symbols_of(file, options.image, build_id);
    const Report report = make_report(summary, symbols ? &*symbols : nullptr, SortKey::kLive, name);
    if (summary.stream() == 0) throw host::Error(host::Fault::kInput, file + ": " + report.problems.front());
    return holdings_of(report);
  }
  std::optional<Symbols> symbols;
  if (!options.image.elf.empty()) symbols.emplace(options.image.elf);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  return holdings_of(rows_of_json(text), symbols ? &*symbols : nullptr, name);
}

}  // namespace

int diff(const DiffOptions& options) {
  std::string image_before, image_after;
  Holdings before = read(options.before, options, image_before);
  Holdings after = read(options.after, options, image_after);
  if (image_before != image_after && !image_before.empty() && !image_after.empty() && !options.image.force) {
    throw host::Error(host::Fault::kInput, "the captures are of two images, " + image_before + " and " + image_after +
                                               ", whose stacks have other ids; --force compares them nevertheless");
  }
  const Difference made = difference(std::move(before), std::move(after));
  write_file("", options.json ? difference_json(made) : difference_text(made, options.top));
  return 0;
}

}  // namespace qm::analysis
