// The names of functions in reports. The host tool makes a name from the image's symbols (host/analysis). The image's
// build makes it with cmake/symbol_table.awk for the image's own table, which the console and the GDB commands use.
// Both must give the same name.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <qm/analysis/symbols.hpp>
#include <qm/test/command.hpp>
#include <qm/test/folder.hpp>

namespace analysis_short_name_test {

using qm::analysis::short_name;

/// @returns the names in the image's table for symbols as the linker has them.
std::vector<std::string> names_in_table(const std::vector<std::string>& symbols) {
  const qm::test::TemporaryFolder folder;
  const std::string list = folder / "names";
  char line[64];
  {
    std::ofstream file(list);
    file << "0000000080200000 t __text_start\n";
    std::uint64_t address = 0x80200010;
    for (const std::string& symbol : symbols) {
      std::snprintf(line, sizeof line, "%016llx %016llx t ", static_cast<unsigned long long>(address), 8ull);
      file << line << symbol << '\n';
      address += 8;
    }
    std::snprintf(line, sizeof line, "%016llx t __text_end\n", static_cast<unsigned long long>(address));
    file << line;
  }
  std::istringstream table(qm::test::output_of("c++filt <'" + list + "' | LC_ALL=C awk -f '" QM_SYMBOL_TABLE_AWK "'"));
  std::vector<std::string> names, scopes;
  std::vector<std::size_t> scope_of;
  bool in_scopes = false;
  for (std::string text; std::getline(table, text);) {
    in_scopes = in_scopes || text == "qualifiers:";
    if (text.starts_with("  .byte ")) scope_of.push_back(std::stoul(text.substr(8)));
    if (text.starts_with("  .asciz \"")) (in_scopes ? scopes : names).push_back(text.substr(10, text.size() - 11));
  }
  EXPECT_EQ(names.size(), scope_of.size());
  for (std::size_t at = 0; at < names.size(); ++at) names[at] = scopes.at(scope_of.at(at)) + names[at];
  if (!names.empty() && names.front().empty()) names.erase(names.begin());  // the text before the first name
  return names;
}

struct Case {
  const char* symbol;
  const char* name;
};
constexpr Case kCases[] = {
    {"main", "main"},
    {"i", "i"},  // a name, but would be demangled as a type
    {"qm_malloc", "qm_malloc"},
    {"net_task.constprop.0", "net_task"},
    {"_ZN2qm5Cache8allocateEv", "qm::Cache::allocate"},
    {"_ZNK2qm5Cache5statsEv", "qm::Cache::stats"},
    {"_ZN2qm4demo12_GLOBAL__N_19take_pageEm", "qm::demo::take_page"},
    {"_ZN2qm4demo12_GLOBAL__N_19take_pageEm.part.0", "qm::demo::take_page"},
    {"_ZN2qm4demo12_GLOBAL__N_19take_pageEm.isra.0.cold", "qm::demo::take_page"},
    {"_ZN2qm4ListINS_4SlabEXadL_ZNS1_4linkEEEE5emptyEv", "qm::List::empty"},
    {"_Z3maxIiET_S0_S0_", "max"},
    {"_ZN2qmlsERNS_4TextEm", "qm::operator<<"},
    {"_ZN2qm4ListIiElsEi", "qm::List::operator<<"},
    {"_ZNK2qm4ListIiEptEv", "qm::List::operator->"},
    {"_ZNK2qm4ListIiEltERKS1_", "qm::List::operator<"},
    {"_ZNK2qm4ListIiEssERKS1_", "qm::List::operator<=>"},
    {"_ZN2qm6FormatclEi", "qm::Format::operator()"},
    {"_ZN2qm6FormatixEi", "qm::Format::operator[]"},
    {"_Znwm", "operator new"},
    {"_ZdlPvm", "operator delete"},
    {"_ZNK2qm4WordcvmEv", "qm::Word::operator unsigned long"},
    {"_ZZN2qm5startEvENKUlvE_clEv", "qm::start::lambda"},
    {"_ZZN2qm5startEvENUlvE_4_FUNEv", "qm::start::lambda"},
    {"_ZZN2qm5startEiENKUliE0_clEi", "qm::start::lambda"},
    {"_ZN2qm3runIZNS_5startEvEUlvE_EEvT_", "qm::run"},
    {"_ZThn16_N2qm4Line5writeEv", "qm::Line::write"},
    {"_ZTv0_n24_N2qm4Line5writeEv", "qm::Line::write"},
    {"_ZN2qm4LineD1Ev", "qm::Line::~Line"},
    {"_ZNO2qm4Line4takeEv", "qm::Line::take"},
    {"_ZN2qm4nameB5cxx11Ev", "qm::name"},
    {"_ZN2qm4pickEPFviE", "qm::pick"},
    {"_ZN2qm4pickIPFviEEEDTclfp_Li0EEET_", "qm::pick"},
};

TEST(ShortNames, are_the_ones_that_the_table_says) {
  for (const Case& each : kCases) EXPECT_EQ(short_name(each.symbol), each.name) << each.symbol;
}

TEST(ShortNames, of_the_image_s_own_table_are_the_same) {
  std::vector<std::string> symbols;
  for (const Case& each : kCases) symbols.emplace_back(each.symbol);
  const std::vector<std::string> names = names_in_table(symbols);
  ASSERT_EQ(names.size(), symbols.size());
  for (std::size_t at = 0; at < symbols.size(); ++at) EXPECT_EQ(names[at], kCases[at].name) << symbols[at];
}

TEST(ShortNames, are_the_same_for_every_function_of_the_demo) {
  std::istringstream list(qm::test::output_of("riscv64-linux-gnu-nm '" QM_DEMO_IMAGE "'"));
  std::vector<std::string> symbols;
  for (std::string address, type, name; list >> address >> type >> name;) {
    if (std::string("tTwW").find(type) != std::string::npos && !name.starts_with("__") && !name.starts_with("$") &&
        !name.starts_with(".L")) {
      symbols.push_back(name);
    }
  }
  ASSERT_GT(symbols.size(), 500u);
  const std::vector<std::string> names = names_in_table(symbols);
  ASSERT_EQ(names.size(), symbols.size());
  for (std::size_t at = 0; at < symbols.size(); ++at) EXPECT_EQ(names[at], short_name(symbols[at])) << symbols[at];
}

}  // namespace analysis_short_name_test
