// Symbols read from a real image, compared with binutils' addr2line on the same image.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <qm/analysis/symbolize.hpp>
#include <qm/host/error.hpp>
#include <qm/test/command.hpp>
#include <qm/test/folder.hpp>
#include <qm/test/seed.hpp>

namespace analysis_symbols_test {

using qm::analysis::Address;
using qm::analysis::Frame;
using qm::analysis::Symbols;
using qm::test::output_of;

std::filesystem::path image() {
  const char* const other = std::getenv("QM_IMAGE");
  return other != nullptr ? other : QM_DEMO_IMAGE;
}

const Symbols& symbols() {
  static const Symbols read(image());
  return read;
}

std::string place(const std::string& file, const std::string& line) {
  return std::filesystem::path(file).lexically_normal().string() + ":" + line;
}

/// The output of addr2line for one address: `function`, `file:line`, innermost first.
struct Expected {
  std::uint64_t address = 0;
  std::vector<std::string> functions, places;
};

std::vector<Expected> ask_addr2line(const std::vector<std::uint64_t>& addresses) {
  const qm::test::TemporaryFolder folder;
  const std::string list = folder / "addresses";
  {
    std::ofstream file(list);
    for (const std::uint64_t address : addresses) file << std::hex << address << '\n';
  }
  std::istringstream text(
      output_of(std::string(QM_ADDR2LINE) + " -a -i -f -C -e '" + image().string() + "' <'" + list + "'"));
  std::vector<Expected> all;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("0x")) {
      all.push_back({std::stoull(line, nullptr, 16), {}, {}});
      continue;
    }
    all.back().functions.push_back(line);
    std::getline(text, line);
    line = line.substr(0, line.find(" (discriminator"));
    const std::size_t colon = line.rfind(':');
    all.back().places.push_back(place(line.substr(0, colon), line.substr(colon + 1)));
  }
  return all;
}

/// Whether our name is the name that addr2line means: without a linkage name it prints only the last part, or the
/// enclosing function's name, and it has no name for a lambda's conversion.
bool same_name(const std::string& ours, const Expected& wanted, std::size_t at) {
  const std::string theirs = qm::analysis::short_name(wanted.functions[at]);
  return ours.ends_with(theirs) || ours.ends_with("lambda") ||
         theirs.ends_with(qm::analysis::short_name(wanted.functions.back()));
}

TEST(Symbols, agree_with_addr2line_on_every_frame_of_the_demo) {
  // One address of 31, different ones for each seed.
  std::vector<std::uint64_t> addresses;
  const std::uint64_t first = 0x80200000 + qm::test::seed() % 31 * 2;
  for (std::uint64_t address = first; symbols().is_code(address); address += 62) addresses.push_back(address);
  ASSERT_GT(addresses.size(), 2000u);
  const auto expected = ask_addr2line(addresses);
  ASSERT_EQ(expected.size(), addresses.size());
  std::size_t inlined = 0, misplaced = 0, failures = 0;
  for (const Expected& wanted : expected) {
    const auto frames = symbols().look_up(wanted.address, Address::kExact);
    inlined += wanted.places.size() > 1;
    if (frames.empty() && wanted.places.front().ends_with("?:?")) continue;  // the linker's padding between sections
    bool same = frames.size() == wanted.places.size();
    for (std::size_t at = 0; same && at < frames.size(); ++at) {
      const Frame& frame = frames[at];
      const std::string line = ":" + std::to_string(frame.line);
      same = wanted.places[at].ends_with(":?") || wanted.places[at].ends_with(line);
      same = same && frame.inlined == (at + 1 < frames.size());
      // Several assembler labels may have the same address.
      same = same && (same_name(frame.function, wanted, at) || frame.file.ends_with(".S"));
      // addr2line does not remove the build's folder from a name that was mapped to the root of the tree.
      const bool there = ("/" + wanted.places[at]).ends_with("/" + frame.file + line);
      misplaced += !wanted.places[at].ends_with(":?") && !there;
    }
    if (same || ++failures > 10) continue;
    std::string ours, theirs;
    for (const Frame& frame : frames) ours += "\n    " + describe(frame);
    for (std::size_t at = 0; at < wanted.places.size(); ++at)
      theirs += "\n    " + wanted.functions[at] + " " + wanted.places[at];
    ADD_FAILURE() << reinterpret_cast<const void*>(wanted.address) << "\n  ours" << ours << "\n  addr2line" << theirs;
  }
  EXPECT_EQ(failures, 0u) << "of " << expected.size();
  // addr2line 2.40 names the unit's own file for some functions of headers.
  EXPECT_LT(misplaced, expected.size() / 100);
  EXPECT_GT(inlined, addresses.size() / 10) << "few of the addresses have inlined calls to compare";
}

TEST(Symbols, take_a_return_address_for_the_call_before_it) {
  // The last instruction of a function that ends with a call: the address after it belongs to another function.
  std::size_t found = 0;
  for (std::uint64_t address = 0x80200002; symbols().is_code(address) && found < 100; address += 2) {
    const auto exact = symbols().look_up(address, Address::kExact);
    const auto any = symbols().look_up(address, Address::kAny);
    const auto call = symbols().look_up(address, Address::kReturn);
    if (exact.empty()) continue;  // the linker's padding between sections
    EXPECT_TRUE(std::ranges::equal(any, exact) || std::ranges::equal(any, call))
        << reinterpret_cast<const void*>(address);
    found += !std::ranges::equal(any, exact);
  }
  EXPECT_EQ(found, 100u);
}

TEST(Symbols, have_nothing_outside_of_the_code) {
  for (const std::uint64_t address : {0ull, 0x1000ull, 0x801fffffull, 0x90000000ull, ~0ull}) {
    EXPECT_TRUE(symbols().look_up(address, Address::kExact).empty()) << reinterpret_cast<const void*>(address);
    EXPECT_TRUE(symbols().look_up(address, Address::kAny).empty()) << reinterpret_cast<const void*>(address);
  }
}

/// @returns the constructor's error for @p path; empty if it succeeds.
std::string refusal(const std::filesystem::path& path) {
  try {
    const Symbols read(path);
    return "";
  } catch (const qm::host::Error& error) {
    EXPECT_EQ(error.fault(), qm::host::Fault::kInput);
    return error.what();
  }
}

TEST(Symbols, refuse_what_they_cannot_explain_and_say_why) {
  const qm::test::TemporaryFolder folder;
  const std::string from = " '" + image().string() + "' ";
  ASSERT_EQ(std::system(("riscv64-linux-gnu-strip -o " + (folder / "bare").string() + from).c_str()), 0);
  ASSERT_EQ(std::system(("riscv64-linux-gnu-strip -g -o " + (folder / "names").string() + from).c_str()), 0);
  std::ofstream(folder / "empty");
  std::ofstream(folder / "text") << "not an ELF file at all, but longer than the header of one would be\n";
  std::filesystem::copy(image(), folder / "short");
  std::filesystem::resize_file(folder / "short", 100);
  EXPECT_NE(refusal(folder / "bare").find("has no symbols"), std::string::npos);
  EXPECT_NE(refusal(folder / "names").find("has no DWARF"), std::string::npos);
  EXPECT_NE(refusal(folder / "empty").find("is not an ELF file"), std::string::npos);
  EXPECT_NE(refusal(folder / "text").find("is not an ELF file"), std::string::npos);
  EXPECT_NE(refusal(folder / "none").find("cannot open"), std::string::npos);
  EXPECT_NE(refusal("/proc/self/exe").find("is not an image for RISC-V"), std::string::npos);
  EXPECT_NE(refusal(folder / "short"), "");
  EXPECT_NE(refusal(folder.path()), "");
}

TEST(Symbols, of_another_build_id_are_refused) {
  ASSERT_EQ(symbols().build_id().size(), 40u);
  EXPECT_NO_THROW(require_same_image(symbols(), symbols().build_id()));
  EXPECT_NO_THROW(require_same_image(symbols(), symbols().build_id().substr(0, 12)));
  EXPECT_NO_THROW(require_same_image(symbols(), ""));
  EXPECT_THROW(require_same_image(symbols(), "00112233445566778899aabbccddeeff00112233"), qm::host::Error);
}

std::string filtered(const std::string& text, qm::analysis::Match match = qm::analysis::Match::kRequired) {
  std::istringstream in(text);
  std::ostringstream out;
  qm::analysis::TextSymbolizer(symbols(), match).filter(in, out);
  return out.str();
}

std::string hex(std::uint64_t value) {
  std::ostringstream text;
  text << "0x" << std::hex << value;
  return text.str();
}

TEST(TextSymbolizer, copies_text_without_addresses_unchanged) {
  const std::string text = "qm> help\r\n\r\n0x12 0xzz 0xffffffffffffffff 0x11112222333344445555\nno end";
  EXPECT_EQ(filtered(text), text);
}

TEST(TextSymbolizer, explains_addresses_and_names_with_an_offset) {
  const auto nm = output_of("riscv64-linux-gnu-nm -S '" + image().string() + "' | grep -w qm_boot");
  std::istringstream fields(nm);
  std::uint64_t address = 0, size = 0;
  fields >> std::hex >> address >> size;
  ASSERT_GT(size, 8u) << nm;
  const std::string bare = filtered("#01 [<" + hex(address) + ">] in x\n");
  EXPECT_NE(bare.find("    " + hex(address) + " qm::firmware::qm_boot (firmware/boot/src/boot.cpp:"), std::string::npos)
      << bare;
  const std::string named = filtered(" qm_boot+" + hex(4) + "/" + hex(size) + "\n");
  EXPECT_NE(named.find("qm_boot (firmware/boot/src/boot.cpp:"), std::string::npos) << named;
  EXPECT_EQ(filtered(" nobody+0x4/0x10\n"), " nobody+0x4/0x10\n");
}

TEST(TextSymbolizer, refuses_text_of_another_image_unless_forced) {
  const std::string banner =
      "Quartermaster 0.1.0 build 00112233445566778899aabbccddeeff00112233, 4 harts, 128 MiB, formats 2\n";
  EXPECT_THROW(filtered(banner), qm::host::Error);
  EXPECT_EQ(filtered(banner, qm::analysis::Match::kForced), banner);
  EXPECT_THROW(filtered("00112233445566778899aabbccddeeff00112233"), qm::host::Error);
  const std::string own = "Quartermaster 0.1.0 build " + symbols().build_id() + ", 4 harts\n";
  EXPECT_EQ(filtered(own), own);
  // One digit too few, one too many, a part of a name: not build ids.
  const std::string others =
      "0112233445566778899aabbccddeeff00112233 000112233445566778899aabbccddeeff00112233 "
      "_00112233445566778899aabbccddeeff00112233 00112233445566778899aabbccddeeff00112233z\n";
  EXPECT_EQ(filtered(others), others);
}

}  // namespace analysis_symbols_test
