#pragma once
/// The instructions of an operation by function, from the plugin's output.

#include <iosfwd>
#include <string>

namespace qm::bench {

/// Reads path_plugin's output for a bench with paths (<qm/bench/path.hpp>) and prints the longest operation of each
/// path: instructions by function, and within it by inlined function.
/// @param[in] elf        the image, for addr2line.
/// @param[in] transcript output of the bench, which has the names of the paths.
void print_profile(std::istream& log, const std::string& elf, std::istream& transcript);

}  // namespace qm::bench
