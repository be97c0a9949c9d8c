#pragma once
/// Standard input, output and error of a program of ours.

namespace qm::host {

/// Opens /dev/null for those that are closed: a file opened later would get its number, and what is meant for a person.
/// To be called first.
void open_standard_streams() noexcept;

/// Writes out what standard output still holds.
/// @throws Error kOpen if that, or anything before, could not be written: a full disk.
void flush_standard_output();

}  // namespace qm::host
