#pragma once
/// Where the instructions of an operation go, from what the plugin saw.

#include <iosfwd>
#include <string>

namespace qm::bench {

/// Reads what path_plugin wrote about a bench with paths (<qm/bench/path.hpp>) and prints for each path its longest
/// operation: instructions by function, and within it by the function that was inlined there.
/// @param[in] elf        the image, for addr2line.
/// @param[in] transcript what the bench printed: the paths' names.
void print_profile(std::istream& log, const std::string& elf, std::istream& transcript);

}  // namespace qm::bench
