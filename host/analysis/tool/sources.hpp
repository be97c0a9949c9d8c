#pragma once
/// Where the subcommands read from and write to.

#include <fstream>
#include <optional>
#include <string>
#include <string_view>

#include <qm/analysis/summary.hpp>
#include <qm/analysis/symbols.hpp>
#include <qm/host/events.hpp>

#include "commands.hpp"

namespace qm::analysis {

/// Delivers the events of the capture @p file, with a progress bar on a terminal.
/// @throws host::Error kInput if it is none.
void read_capture(const std::string& file, host::EventHandler& handler);

/// @returns the symbols of --elf, else those of the image within the capture @p file; nothing if there is neither, or
///          the capture's has none, which is said on standard error.
/// @throws host::Error kInput if the image is not the one of @p build_id, unless forced, or --elf is not usable.
[[nodiscard]] std::optional<Symbols> symbols_of(const std::string& file, const ImageOptions& image,
                                                std::string_view build_id);

/// Refuses a pattern for nothing. @throws host::Error kInput if @p summary asks for caches or arenas of which @p file
/// has none.
void require_cache(const Summary& summary, const std::string& file);

/// Opens a text, or what may be one. @throws host::Error kInput if it cannot be read, or is a directory.
[[nodiscard]] std::ifstream open_text(const std::string& file);

/// Refuses to write to the file that is read. @throws host::Error kUsage if @p output is @p input, by whatever name.
void require_another_file(const std::string& output, const std::string& input);

/// Writes @p text to @p path, or to standard output if that is empty. @throws host::Error kOpen if that fails.
void write_file(const std::string& path, std::string_view text);

}  // namespace qm::analysis
