#pragma once
/// Text functions that several exports share.

#include <string>
#include <string_view>

#include <qm/analysis/report.hpp>

namespace qm::analysis {

/// @returns @p text as a JSON string, including the quotes.
[[nodiscard]] std::string json_string(std::string_view text);

/// @returns the name of a frame: its function, else its address.
[[nodiscard]] std::string frame_name(const StackFrame& frame);

/// @returns "alloc", "free" or "realloc".
[[nodiscard]] const char* operation_name(host::Operation operation) noexcept;

}  // namespace qm::analysis
