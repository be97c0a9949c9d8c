#include <qm/host/elf_image.hpp>

#include <elf.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <vector>

#include <qm/host/error.hpp>

namespace qm::host {
namespace {

constexpr std::uint64_t kMostNoteBytes = 1 << 16;

/// An ELF file, of which only the requested parts are read.
class File {
 public:
  explicit File(const std::filesystem::path& path) : path_(path), file_(path, std::ios::binary) {
    std::error_code ignored;
    if (std::filesystem::is_directory(path, ignored)) refuse("a directory, no ELF file");
    if (!file_) refuse(std::strerror(errno));
  }
  [[noreturn]] void refuse(const std::string& why) const { throw Error(Fault::kInput, path_.string() + ": " + why); }

  template <class Type>
  [[nodiscard]] Type at(std::uint64_t offset) {
    Type value{};
    file_.clear();
    file_.seekg(static_cast<std::streamoff>(offset));
    file_.read(reinterpret_cast<char*>(&value), sizeof value);
    if (!file_) refuse("a damaged ELF file: it ends within its tables");
    return value;
  }
  [[nodiscard]] std::vector<unsigned char> bytes(std::uint64_t offset, std::uint64_t count) {
    std::vector<unsigned char> value(count);
    file_.clear();
    file_.seekg(static_cast<std::streamoff>(offset));
    file_.read(reinterpret_cast<char*>(value.data()), static_cast<std::streamsize>(count));
    if (!file_) refuse("a damaged ELF file: it ends within its notes");
    return value;
  }
  /// @returns the first @p count bytes, or fewer if the file is shorter.
  [[nodiscard]] std::string beginning(std::size_t count) {
    std::string text(count, 0);
    file_.read(text.data(), static_cast<std::streamsize>(count));
    text.resize(static_cast<std::size_t>(file_.gcount()));
    return text;
  }

 private:
  std::filesystem::path path_;
  std::ifstream file_;
};

/// @returns the build id among @p notes; empty if it is not there.
std::string build_id_among(const std::vector<unsigned char>& notes) {
  std::size_t at = 0;
  while (at + 12 <= notes.size()) {
    std::uint32_t words[3];  // length of the name, length of the description, type
    std::memcpy(words, notes.data() + at, sizeof words);
    const std::uint64_t name = at + 12, description = name + (std::uint64_t{words[0]} + 3) / 4 * 4;
    const std::uint64_t end = description + (std::uint64_t{words[1]} + 3) / 4 * 4;
    if (description + words[1] > notes.size()) return "";
    if (words[2] == NT_GNU_BUILD_ID && words[0] == 4 && std::memcmp(notes.data() + name, "GNU", 4) == 0) {
      return build_id_text({notes.data() + description, words[1]});
    }
    at = static_cast<std::size_t>(end);
  }
  return "";
}

template <class Header, class Section>
std::string build_id_in_sections(File& file) {
  const auto header = file.at<Header>(0);
  for (unsigned index = 0; index < header.e_shnum; ++index) {
    const auto section = file.at<Section>(header.e_shoff + std::uint64_t{index} * header.e_shentsize);
    if (section.sh_type != SHT_NOTE || section.sh_size > kMostNoteBytes) continue;
    if (const std::string id = build_id_among(file.bytes(section.sh_offset, section.sh_size)); !id.empty()) return id;
  }
  return "";
}

/// @returns 32 or 64. @throws Error kInput if @p file is not a RISC-V image.
unsigned require_riscv(File& file) {
  const std::string identity = file.beginning(EI_NIDENT);
  if (identity.empty()) file.refuse("empty, no ELF file");
  if (!identity.starts_with(ELFMAG)) file.refuse("no ELF file");
  if (identity.size() < EI_NIDENT) file.refuse("a damaged ELF file: it ends within its header");
  if (identity[EI_DATA] != ELFDATA2LSB) file.refuse("an ELF file, but not for RISC-V: big endian");
  const bool wide = identity[EI_CLASS] == ELFCLASS64;
  if (!wide && identity[EI_CLASS] != ELFCLASS32) file.refuse("a damaged ELF file: neither of 32 nor of 64 bits");
  // Both ELF classes have the field at the same offset.
  static_assert(offsetof(Elf32_Ehdr, e_machine) == offsetof(Elf64_Ehdr, e_machine));
  if (file.at<Elf32_Half>(offsetof(Elf64_Ehdr, e_machine)) != EM_RISCV) file.refuse("an ELF file, but not for RISC-V");
  return wide ? 64 : 32;
}

}  // namespace

std::string build_id_text(std::span<const std::uint8_t> build_id) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : build_id) text += {kHex[byte >> 4], kHex[byte & 15]};
  return text;
}

std::string build_id_of(const std::filesystem::path& elf) {
  File file(elf);
  return require_riscv(file) == 64 ? build_id_in_sections<Elf64_Ehdr, Elf64_Shdr>(file)
                                   : build_id_in_sections<Elf32_Ehdr, Elf32_Shdr>(file);
}

unsigned bits_of(const std::filesystem::path& elf) {
  File file(elf);
  return require_riscv(file);
}

}  // namespace qm::host
