#pragma once
// The inputs of a fuzz target without a fuzzer: those of the corpus, each changed in a few places, depending on a seed.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>
#include <system_error>
#include <vector>

#include <qm/test/read_file.hpp>
#include <qm/test/seed.hpp>

namespace qm::test {

/// @returns the files of @p folder, sorted by name; none if it cannot be read.
inline std::vector<std::string> read_corpus(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> paths;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failed)) {
    if (entry.is_regular_file(failed)) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> inputs;
  for (const auto& path : paths) inputs.push_back(qm::test::read_file(path));
  return inputs;
}

inline void mutate(std::string& input, const std::vector<std::string>& corpus, Random& random) {
  static constexpr unsigned char kLikely[] = {0, 1, 2, 3, 0x7f, 0x80, 0xff, 0xc7};
  for (std::uint64_t n = random.between(0, 5); n > 0 && !input.empty(); --n) {
    const std::size_t place = random.below(input.size());
    switch (random.below(7)) {
      case 0: input[place] = static_cast<char>(input[place] ^ 1 << random.below(8)); break;
      case 1: input[place] = static_cast<char>(random.below(256)); break;
      case 2: input[place] = static_cast<char>(kLikely[random.below(sizeof kLikely)]); break;
      case 3: input.erase(place, 1 + random.below(8)); break;
      case 4: input.insert(place, 1 + random.below(4), static_cast<char>(kLikely[random.below(sizeof kLikely)])); break;
      case 5: input.resize(place); break;
      default: {
        const std::string& other = corpus[random.below(corpus.size())];
        const std::size_t from = random.below(other.size() + 1);
        input.insert(place, other.substr(from, random.below(64)));
      }
    }
  }
}

/// The main() of a fuzz target: `PROGRAM [RUNS [CORPUS]]`.
inline int fuzz(int count, char** arguments, std::initializer_list<const char*> corpus_folders, std::uint64_t runs,
                int (*one)(const std::uint8_t*, std::size_t)) {
  char* behind = nullptr;
  if (count > 1) runs = std::strtoull(arguments[1], &behind, 0);
  if (count > 3 || (count > 1 && (behind == arguments[1] || *behind != '\0'))) {
    std::fprintf(stderr, "usage: %s [RUNS [CORPUS]]: so many runs over the files of a folder\n", arguments[0]);
    return 2;
  }
  std::vector<std::string> corpus;
  std::vector<const char*> folders(corpus_folders);
  if (count > 2) folders = {arguments[2]};
  for (const char* const folder : folders) {
    const std::vector<std::string> more = read_corpus(folder);
    if (more.empty()) {
      std::fprintf(stderr, "error: %s has no files to begin with\n", folder);
      return 1;
    }
    corpus.insert(corpus.end(), more.begin(), more.end());
  }
  const char* seed = std::getenv("QM_SEED");
  Random random(seed == nullptr ? 1 : std::strtoull(seed, nullptr, 0));
  for (std::uint64_t run = 0; run < runs; ++run) {
    std::string input = corpus[run % corpus.size()];
    if (run >= corpus.size()) mutate(input, corpus, random);
    one(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  }
  std::printf("%llu runs\n", static_cast<unsigned long long>(runs));
  return 0;
}

}  // namespace qm::test
