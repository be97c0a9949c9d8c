#pragma once
/// Standard input, output and error of the host's programs.

namespace qm::host {

/// Opens /dev/null for each standard stream that is closed. Otherwise a file opened later would get its number and
/// receive the messages for the user. To be called first.
void open_standard_streams() noexcept;

/// Flushes standard output.
/// @throws Error kOpen if this or any earlier output could not be written, for example because the disk is full.
void flush_standard_output();

}  // namespace qm::host
