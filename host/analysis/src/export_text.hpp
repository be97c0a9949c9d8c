#pragma once
/// What several exports write alike.

#include <string>
#include <string_view>

#include <qm/analysis/report.hpp>

namespace qm::analysis {

/// @returns @p text as a JSON string, quotes included.
[[nodiscard]] std::string json_string(std::string_view text);

/// @returns a frame's name in one word: the function, else the address.
[[nodiscard]] std::string frame_name(const StackFrame& frame);

/// @returns "alloc", "free" or "realloc".
[[nodiscard]] const char* operation_name(host::Operation operation) noexcept;

}  // namespace qm::analysis
