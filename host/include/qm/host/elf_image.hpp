#pragma once
/// What is needed of an ELF file to know whether it is the image that a target runs. Who wants its symbols uses more.

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace qm::host {

/// @returns the build id of the RISC-V image @p elf, in lower-case hexadecimal; empty if it was linked without one.
/// @throws Error kInput if it cannot be read, is no ELF file, is damaged, or is not for RISC-V; the message says which.
[[nodiscard]] std::string build_id_of(const std::filesystem::path& elf);

/// @returns 32 or 64, as the RISC-V image @p elf is made for. @throws Error as build_id_of().
[[nodiscard]] unsigned bits_of(const std::filesystem::path& elf);

/// @returns a build id as it is printed: in lower-case hexadecimal.
[[nodiscard]] std::string build_id_text(std::span<const std::uint8_t> build_id);

}  // namespace qm::host
