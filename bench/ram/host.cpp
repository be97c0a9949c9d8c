/// The least RAM in which recorded programs run to their end: the smallest pool of each allocator, as a multiple of the
/// bytes that the program has live at its peak. One hart; each pool in a process of its own, always at the same
/// address.
///
///     qm_bench_ram                    all programs, complete and scaled, on all allocators
///     qm_bench_ram WORD...            only these; a word is
///                                       an allocator    ours TLSF heap_4 o1heap
///                                       a program       its name, or the path of a recording (a file .qmr)
///                                       programs        tuning, "kept apart"
///                                       a size          32 64 128 (KB at the peak) whole
///
/// It prints a row for each program and size. Status: 0; 1 if an allocator damaged a block or crashed; 2 wrong usage.

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include <qm/bench/peers.hpp>
#include <qm/bench/run_in_pool.hpp>
#include <qm/bench/smallest_pool.hpp>
#include <qm/qm.h>

namespace qm::bench {
namespace {

/// The allocator that is linked into this program.
struct Ours {
  static constexpr std::string_view kName = "ours";
  static bool start(void* memory, std::size_t bytes) noexcept { return qm_init(memory, bytes) == QM_OK; }
  static void* allocate(std::size_t size) noexcept { return qm_malloc(size); }
  static void* reallocate(void* block, std::size_t size) noexcept { return qm_realloc(block, size); }
  static void free(void* block) noexcept { qm_free(block); }
};

/// The selected measurements: if nothing is named, all.
struct Choice {
  std::vector<std::string> allocators, programs, sizes;
  [[nodiscard]] static bool has(const std::vector<std::string>& names, std::string_view name) {
    return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
  }
};

constexpr std::string_view kWhole = "whole";

/// @returns "32" for "32 KB".
std::string_view word_of(const Size& size) { return size.name.substr(0, size.name.find(' ')); }

void* map_pool() {
  constexpr std::uintptr_t kPlace = 0x200000000;
  void* const wanted = reinterpret_cast<void*>(kPlace);
  void* const pool = mmap(wanted, kPoolMost, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (pool != wanted) throw std::runtime_error("the pool's address is taken");
  return pool;
}

template <class Allocator>
Ending run_in_process(const Script& script, std::vector<replay::Slot>& slots, void* pool, std::size_t bytes) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) _exit(static_cast<int>(run_in_pool<Allocator>(script, slots.data(), pool, bytes)));
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) throw std::runtime_error("no process");
  const bool crashed = !WIFEXITED(status);
  const Ending ending = crashed ? Ending::kDamaged : static_cast<Ending>(WEXITSTATUS(status));
  if (ending == Ending::kDamaged) {
    throw std::runtime_error(std::string(Allocator::kName) + (crashed ? " crashed" : " damaged a block") +
                             " in a pool of " + std::to_string(bytes) + " bytes");
  }
  return ending;
}

/// @returns the smallest pool in bytes.
template <class Allocator>
std::size_t measure(const Script& script, void* pool) {
  std::vector<replay::Slot> slots(script.slots);
  return smallest_pool(script.peak_bytes, [&](std::size_t bytes) {
    return run_in_process<Allocator>(script, slots, pool, bytes) == Ending::kThrough;
  });
}

void print_row(const std::string& name, Use use, const Script& script, const Choice& choice) {
  static void* const pool = map_pool();
  std::printf("@bench {\"case\":\"%s\",\"use\":\"%s\",\"build\":\"host\",\"peak live\":%u", name.c_str(),
              use_name(use).data(), script.peak_bytes);
  std::size_t ours = 0, tlsf = 0;
  const auto column = [&]<class Allocator>() {
    if (!Choice::has(choice.allocators, Allocator::kName)) return;
    const std::size_t bytes = measure<Allocator>(script, pool);
    if (Allocator::kName == Ours::kName) ours = bytes;
    if (Allocator::kName == Tlsf::kName) tlsf = bytes;
    std::printf(",\"%s\":%.3f", Allocator::kName.data(), static_cast<double>(bytes) / script.peak_bytes);
  };
  column.template operator()<Ours>();
  for_each_peer(column);
  if (ours != 0 && tlsf != 0)
    std::printf(",\"ours / TLSF\":%.3f", static_cast<double>(ours) / static_cast<double>(tlsf));
  std::printf("}\n");
  std::fflush(stdout);
}

void measure_program(const Program& program, const Choice& choice) {
  replay::Header header;
  if (!replay::read_header(program.recording.file, header)) throw std::runtime_error("not a recording");
  std::vector<std::uint64_t> unpacked(replay::unpack_bytes(header) / sizeof(std::uint64_t) + 1);
  const Script whole{replay::unpack(program.recording.file, unpacked.data()), header.slots, header.peak_bytes};
  if (whole.operations.empty()) throw std::runtime_error("damaged recording");
  std::vector<std::uint64_t> memory(scale_bytes(whole) / sizeof(std::uint64_t) + 1);
  const std::string name(program.recording.name);
  for (const Size& size : kSizes) {
    if (!Choice::has(choice.sizes, word_of(size)) || whole.peak_bytes <= size.bytes) continue;
    const Script small = scale(whole, size.bytes, memory.data());
    print_row(name + ", " + std::string(size.name), program.use, small, choice);
  }
  if (Choice::has(choice.sizes, kWhole)) print_row(name + ", whole", program.use, whole, choice);
}

/// Measures a recording that is not one of the bench's.
void measure_file(const std::string& path, const Choice& choice) {
  std::ifstream in(path, std::ios::binary);
  const std::vector<char> read(std::istreambuf_iterator<char>(in), {});
  const std::vector<std::uint8_t> file(read.begin(), read.end());
  if (!in || file.empty()) throw std::runtime_error("cannot read " + path);
  measure_program({{path, file}, Use::kKeptApart}, choice);
}

void run(const std::vector<std::string>& words) {
  Choice choice;
  std::vector<std::string> files;
  for (const std::string& word : words) {
    const auto is = [&](const Size& size) { return word == word_of(size); };
    if (word == kWhole || std::any_of(std::begin(kSizes), std::end(kSizes), is)) {
      choice.sizes.push_back(word);
    } else if (word == Ours::kName || word == Tlsf::kName || word == Heap4::kName || word == O1heap::kName) {
      choice.allocators.push_back(word);
    } else if (word.ends_with(".qmr")) {
      files.push_back(word);
    } else {
      choice.programs.push_back(word);
    }
  }
  for (const std::string& path : files) measure_file(path, choice);
  if (!files.empty() && choice.programs.empty()) return;
  for (const Program& program : programs()) {
    if (Choice::has(choice.programs, program.recording.name) || Choice::has(choice.programs, use_name(program.use))) {
      measure_program(program, choice);
    }
  }
}

}  // namespace
}  // namespace qm::bench

int main(int count, char** arguments) try {
  qm::bench::run({arguments + 1, arguments + count});
  return 0;
} catch (const std::exception& error) {
  std::printf("\n");
  std::fprintf(stderr, "qm_bench_ram: %s\n", error.what());
  return 1;
}
