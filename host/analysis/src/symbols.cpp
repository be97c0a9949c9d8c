#include <qm/analysis/symbols.hpp>

#include <elf.h>
#include <elfutils/libdw.h>
#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <gelf.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <unordered_map>
#include <vector>

#include <qm/host/elf_image.hpp>
#include <qm/host/error.hpp>

#include "dwarf_index.hpp"

namespace qm::analysis {
namespace {

using host::Error;
using host::Fault;

struct ElfEnd {
  void operator()(Elf* elf) const noexcept { elf_end(elf); }
};
struct DwarfEnd {
  void operator()(Dwarf* dwarf) const noexcept { dwarf_end(dwarf); }
};

/// The file descriptor, closed by the destructor.
class File {
 public:
  explicit File(const std::filesystem::path& path) : descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    if (descriptor_ < 0) throw Error(Fault::kInput, "cannot open " + path.string() + ": " + std::strerror(errno));
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { close(descriptor_); }
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }

 private:
  int descriptor_;
};

struct Function {
  std::uint64_t address = 0, size = 0;
  std::string name;
};

/// Code in the file, in which call instructions are recognized.
struct Text {
  Range range;
  const std::uint8_t* bytes = nullptr;
};

}  // namespace

struct Symbols::State {
  explicit State(const std::filesystem::path& path);

  void read_sections(const std::filesystem::path& path);
  void read_functions(Elf_Scn* section, const GElf_Shdr& header);
  [[nodiscard]] bool is_code(std::uint64_t address) const noexcept;
  [[nodiscard]] const Function* function_at(std::uint64_t address) const;
  [[nodiscard]] bool call_ends_at(std::uint64_t address) const;
  [[nodiscard]] std::vector<Frame> frames_at(std::uint64_t address) const;

  File file;
  std::unique_ptr<Elf, ElfEnd> elf;
  std::unique_ptr<Dwarf, DwarfEnd> dwarf;
  std::string build_id;
  std::vector<Range> code;
  std::vector<Text> text;
  std::vector<Function> functions;  // sorted by address
  std::unique_ptr<DwarfIndex> index;
  mutable std::unordered_map<std::uint64_t, std::vector<Frame>> known;
};

Symbols::State::State(const std::filesystem::path& path) : file(path) {
  elf_version(EV_CURRENT);
  elf.reset(elf_begin(file.descriptor(), ELF_C_READ_MMAP, nullptr));
  const std::string name = path.string();
  if (!elf || elf_kind(elf.get()) != ELF_K_ELF) throw Error(Fault::kInput, name + " is not an ELF file");
  GElf_Ehdr header;
  if (gelf_getehdr(elf.get(), &header) == nullptr) throw Error(Fault::kInput, name + " is a damaged ELF file");
  if (header.e_machine != EM_RISCV) throw Error(Fault::kInput, name + " is not an image for RISC-V");
  if (header.e_type != ET_EXEC) throw Error(Fault::kInput, name + " is not a linked image");
  const void* id = nullptr;
  if (const ssize_t size = dwelf_elf_gnu_build_id(elf.get(), &id); size > 0) {
    build_id = host::build_id_text({static_cast<const std::uint8_t*>(id), static_cast<std::size_t>(size)});
  }
  read_sections(path);
  if (functions.empty())
    throw Error(Fault::kInput, name + " has no symbols: it was stripped; use the file the linker wrote");
  dwarf.reset(dwarf_begin_elf(elf.get(), DWARF_C_READ, nullptr));
  if (dwarf) index = std::make_unique<DwarfIndex>(dwarf.get(), code);
  if (!index || !index->has_lines()) {
    throw Error(Fault::kInput,
                name + " has no DWARF line information: build it with -g, and use the file the linker wrote");
  }
}

void Symbols::State::read_sections(const std::filesystem::path& path) {
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf.get(), section)) != nullptr;) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr) throw Error(Fault::kInput, path.string() + " is a damaged ELF file");
    if ((header.sh_flags & SHF_EXECINSTR) != 0 && header.sh_size != 0) {
      const Range range{header.sh_addr, header.sh_addr + header.sh_size};
      code.push_back(range);
      const Elf_Data* const data = elf_rawdata(section, nullptr);
      if (data != nullptr && data->d_size >= header.sh_size && header.sh_type == SHT_PROGBITS) {
        text.push_back({range, static_cast<const std::uint8_t*>(data->d_buf)});
      }
    }
  }
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf.get(), section)) != nullptr;) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) != nullptr && header.sh_type == SHT_SYMTAB) read_functions(section, header);
  }
  // Of several symbols at an address, the look-up must find the one with a size: a real function.
  std::sort(functions.begin(), functions.end(), [](const Function& a, const Function& b) {
    return a.address != b.address ? a.address < b.address : a.size < b.size;
  });
}

void Symbols::State::read_functions(Elf_Scn* section, const GElf_Shdr& header) {
  Elf_Data* const data = elf_getdata(section, nullptr);
  if (data == nullptr || header.sh_entsize == 0) return;
  for (std::size_t index_of = 0; index_of < header.sh_size / header.sh_entsize; ++index_of) {
    GElf_Sym symbol;
    if (gelf_getsym(data, static_cast<int>(index_of), &symbol) == nullptr) continue;
    const char* const name = elf_strptr(elf.get(), header.sh_link, symbol.st_name);
    // An assembler label has no type; a label that only marks a position begins with $ or a period.
    const int type = GELF_ST_TYPE(symbol.st_info);
    if (name == nullptr || *name == '$' || *name == '.' || (type != STT_FUNC && type != STT_NOTYPE)) continue;
    if (is_code(symbol.st_value)) functions.push_back({symbol.st_value, symbol.st_size, short_name(name)});
  }
}

bool Symbols::State::is_code(std::uint64_t address) const noexcept {
  return std::any_of(code.begin(), code.end(),
                     [&](const Range& range) { return range.begin <= address && address < range.end; });
}

const Function* Symbols::State::function_at(std::uint64_t address) const {
  const auto next =
      std::upper_bound(functions.begin(), functions.end(), address,
                       [](std::uint64_t value, const Function& function) { return value < function.address; });
  if (next == functions.begin()) return nullptr;
  const Function& function = *std::prev(next);
  // A label extends to the next one.
  return function.size == 0 || address < function.address + function.size ? &function : nullptr;
}

/// Whether the instruction before @p address is one of the three call instructions: `jal ra`, `jalr ra`, `c.jalr`.
bool Symbols::State::call_ends_at(std::uint64_t address) const {
  for (const Text& part : text) {
    if (address < part.range.begin + 2 || address > part.range.end) continue;
    const std::uint8_t* const end = part.bytes + (address - part.range.begin);
    const unsigned half = end[-2] | unsigned{end[-1]} << 8;
    if ((half & 0xf07fu) == 0x9002u && (half & 0x0f80u) != 0) return true;  // c.jalr
    if (address < part.range.begin + 4) return false;
    const unsigned low = end[-4] | unsigned{end[-3]} << 8;
    return (low & 0xfffu) == 0x0efu || (low & 0xfffu) == 0x0e7u;  // jal ra, jalr ra
  }
  return false;
}

std::vector<Frame> Symbols::State::frames_at(std::uint64_t address) const {
  std::vector<Frame> frames = index->look_up(address);
  const Function* const function = function_at(address);
  if (frames.empty() && function != nullptr) frames.push_back({function->name, "", 0, false});
  if (!frames.empty() && frames.back().function.empty() && function != nullptr) frames.back().function = function->name;
  return frames;
}

Symbols::Symbols(const std::filesystem::path& elf) : state_(std::make_unique<State>(elf)) {}
Symbols::Symbols(Symbols&&) noexcept = default;
Symbols& Symbols::operator=(Symbols&&) noexcept = default;
Symbols::~Symbols() = default;

bool Symbols::is_code(std::uint64_t address) const noexcept { return state_->is_code(address); }

std::span<const Frame> Symbols::look_up(std::uint64_t address, Address kind) const {
  if (kind == Address::kAny) {
    const Function* const function = state_->function_at(address);
    const bool begins = function != nullptr && function->address == address;
    kind = !begins && state_->call_ends_at(address) ? Address::kReturn : Address::kExact;
  }
  const std::uint64_t within = address - (kind == Address::kReturn ? 1 : 0);
  const auto [entry, is_new] = state_->known.try_emplace(within);
  if (is_new && is_code(within)) entry->second = state_->frames_at(within);
  return entry->second;
}

std::optional<std::uint64_t> Symbols::find(std::string_view name, std::uint64_t size) const {
  std::optional<std::uint64_t> found;
  for (const Function& function : state_->functions) {
    if (function.name != name || function.size != size || found == function.address) continue;
    if (found) return std::nullopt;
    found = function.address;
  }
  return found;
}

const std::string& Symbols::build_id() const noexcept { return state_->build_id; }

void require_same_image(const Symbols& symbols, std::string_view wanted) {
  if (wanted.size() < 8) return;
  const std::string_view own = symbols.build_id();
  if (own.starts_with(wanted) || (own.size() >= 8 && wanted.starts_with(own))) return;
  throw Error(Fault::kInput, "the image's build id is " + std::string(own.empty() ? "not known" : own) +
                                 ", but this is of " + std::string(wanted) + ": give the image that ran, or --force");
}

}  // namespace qm::analysis
