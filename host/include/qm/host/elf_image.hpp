#pragma once
/// The facts about an ELF file that show whether a target runs it. Symbols need more than this file reads.

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace qm::host {

/// @returns the build id of the RISC-V image @p elf, in lower-case hexadecimal; empty if it was linked without a build
///          id.
/// @throws Error kInput if it cannot be read, is not an ELF file, is damaged, or is not for RISC-V; the message says
///          which.
[[nodiscard]] std::string build_id_of(const std::filesystem::path& elf);

/// @returns 32 or 64, the word size of the RISC-V image @p elf. @throws Error as build_id_of().
[[nodiscard]] unsigned bits_of(const std::filesystem::path& elf);

/// @returns a build id in the printed form: lower-case hexadecimal.
[[nodiscard]] std::string build_id_text(std::span<const std::uint8_t> build_id);

}  // namespace qm::host
