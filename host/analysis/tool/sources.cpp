#include "sources.hpp"

#include <fmt/core.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include <qm/host/capture.hpp>
#include <qm/host/error.hpp>
#include <qm/host/stream_reader.hpp>

namespace qm::analysis {
namespace {

/// A temporary file, which the destructor removes.
class TemporaryFile {
 public:
  TemporaryFile() {
    std::string name = (std::filesystem::temp_directory_path() / "qm-image-XXXXXX").string();
    const int descriptor = mkstemp(name.data());
    if (descriptor < 0) throw host::Error(host::Fault::kOpen, "cannot make " + name + ": " + std::strerror(errno));
    close(descriptor);
    path_ = name;
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace

void read_capture(const std::string& file, host::EventHandler& handler) {
  host::ReadOptions options;
  const bool shown = isatty(STDERR_FILENO) != 0;
  if (shown) {
    options.progress = [](std::uint64_t done, std::uint64_t of) {
      if (of == 0) return;
      const auto filled = static_cast<std::size_t>(40 * done / of);
      fmt::print(stderr, "\r[{:<40}] {:3}%", std::string(filled, '#'), 100 * done / of);
    };
  }
  host::read_events(file, handler, options);
  if (shown) fmt::print(stderr, "\r{:48}\r", "");
}

std::optional<Symbols> symbols_of(const std::string& file, const ImageOptions& image, std::string_view build_id) {
  std::optional<Symbols> symbols;
  if (!image.elf.empty()) {
    symbols.emplace(image.elf);
  } else {
    const TemporaryFile own;
    if (!host::extract_image(file, own.path())) return std::nullopt;
    try {
      symbols.emplace(own.path());
    } catch (const host::Error& error) {
      // The message names the temporary file; only the text behind the name is kept.
      const std::string why = std::string(error.what()).substr(own.path().string().size());
      fmt::print(stderr, "qm: addresses instead of names: the image within {}{}\n", file, why);
      return std::nullopt;
    }
  }
  if (!image.force) require_same_image(*symbols, build_id);
  return symbols;
}

void require_cache(const Summary& summary, const std::string& file) {
  const std::string& wanted = summary.options().cache;
  const auto& known = summary.definitions().traceables;
  if (wanted.empty() || summary.stream() == 0) return;
  if (std::none_of(known.begin(), known.end(), [&](const auto& each) { return matches(wanted, each.second.name); }))
    throw host::Error(host::Fault::kInput, file + ": no cache or arena is called " + wanted);
}

std::ifstream open_text(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw host::Error(host::Fault::kInput, "cannot open " + file + ": " + std::strerror(errno));
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored))
    throw host::Error(host::Fault::kInput, file + ": a directory, no file");
  return in;
}

void require_another_file(const std::string& output, const std::string& input) {
  std::error_code ignored;  // a file that does not exist yet is not the input
  if (std::filesystem::equivalent(output, input, ignored))
    throw host::Error(host::Fault::kUsage, output + " is the file that is read: give another one to write to");
}

void write_file(const std::string& path, std::string_view text) {
  std::FILE* const file = path.empty() ? stdout : std::fopen(path.c_str(), "wb");
  if (file == nullptr) throw host::Error(host::Fault::kOpen, "cannot write " + path + ": " + std::strerror(errno));
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size() && std::fflush(file) == 0;
  const int why = errno;
  if (!path.empty() && std::fclose(file) != 0 && written) throw host::Error(host::Fault::kOpen, "cannot write " + path);
  if (!written)
    throw host::Error(host::Fault::kOpen,
                      "cannot write " + (path.empty() ? "the output" : path) + ": " + std::strerror(why));
}

}  // namespace qm::analysis
