#pragma once
/// Input and output of the subcommands.

#include <fstream>
#include <optional>
#include <string>
#include <string_view>

#include <qm/analysis/summary.hpp>
#include <qm/analysis/symbols.hpp>
#include <qm/host/events.hpp>

#include "commands.hpp"

namespace qm::analysis {

/// Delivers the events of the capture @p file, with a progress bar if standard error is a terminal.
/// @throws host::Error kInput if it is not a capture.
void read_capture(const std::string& file, host::EventHandler& handler);

/// @returns the symbols of --elf, else those of the image in the capture @p file; nothing if there is neither, or if
///          the image in the capture has no symbols, which is reported on standard error.
/// @throws host::Error kInput if the image does not have the build id @p build_id, unless forced, or if --elf is not
///          usable.
[[nodiscard]] std::optional<Symbols> symbols_of(const std::string& file, const ImageOptions& image,
                                                std::string_view build_id);

/// Refuses a pattern that matches nothing.
/// @throws host::Error kInput if @p summary asks for caches or arenas that @p file does not have.
void require_cache(const Summary& summary, const std::string& file);

/// Opens a file that is or may be text. @throws host::Error kInput if it cannot be read, or is a directory.
[[nodiscard]] std::ifstream open_text(const std::string& file);

/// Refuses to write to the file that is read. @throws host::Error kUsage if @p output is the same file as @p input,
/// under any name.
void require_another_file(const std::string& output, const std::string& input);

/// Writes @p text to @p path, or to standard output if @p path is empty. @throws host::Error kOpen if that fails.
void write_file(const std::string& path, std::string_view text);

}  // namespace qm::analysis
