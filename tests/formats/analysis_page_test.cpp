// The page of `qm report --html` in a browser: it must show the contents of the JSON report.

#include <filesystem>
#include <regex>

#include "fixture.hpp"

namespace {

using PageTest = qm::test::FormatsTest;

std::string browser() {
  for (const char* name : {"chromium", "google-chrome", "chromium-browser"}) {
    if (qm::test::is_there(name)) return name;
  }
  return "";
}

/// The value of @p attribute in the first element that begins with @p opening, as `<div class="card" data-key="freed"`.
std::string attribute_of(const std::string& page, const std::string& opening, const std::string& attribute) {
  const std::size_t at = page.find(opening);
  if (at == std::string::npos) return "(no " + opening + ")";
  const std::size_t end = page.find('>', at);
  const std::size_t value = page.find(attribute + "=\"", at);
  if (value > end) return "(no " + attribute + ")";
  const std::size_t begin = value + attribute.size() + 2;
  return page.substr(begin, page.find('"', begin) - begin);
}

TEST_F(PageTest, shows_the_figures_of_the_report_in_a_browser) {
  if (browser().empty()) GTEST_SKIP() << "no chromium: sh cmake/install-packages.sh formats could not install it";
  qm("report --html " + path("run.html"));
  const std::string page =
      qm::test::output_of(browser() + " --headless --no-sandbox --disable-gpu --user-data-dir=" + path("profile") +
                          " --virtual-time-budget=5000 --dump-dom file://" + path("run.html") + " 2>/dev/null");
  ASSERT_NE(page.find("data-ready=\"yes\""), std::string::npos)
      << "the script did not run to its end; " << page.size() << " bytes";
  const auto& totals = json_["totals"];
  for (const char* key : {"requested", "allocated", "freed", "net", "waste", "allocations", "frees", "reallocations",
                          "cross_hart_frees", "live_objects", "live_bytes", "peak_bytes"}) {
    EXPECT_EQ(attribute_of(page, std::string("<div class=\"card\" data-key=\"") + key + "\"", "data-value"),
              totals[key].dump())
        << key;
  }
  // The flame graph's root, the treemap, the end of the timeline: each must have the sum of its parts.
  EXPECT_EQ(attribute_of(page, "<g data-name=\"all\"", "data-value"), totals["live_bytes"].dump());
  const std::size_t map = page.find("id=\"treemap\"");
  ASSERT_NE(map, std::string::npos);
  EXPECT_EQ(attribute_of(page.substr(map), "<svg", "data-sum"), totals["live_bytes"].dump());
  const std::size_t time = page.find("id=\"timeline\"");
  ASSERT_NE(time, std::string::npos);
  EXPECT_EQ(attribute_of(page.substr(time), "<svg", "data-last"), totals["live_bytes"].dump());
  // Every cache has a line in its table.
  const std::string caches =
      page.substr(page.find("id=\"caches\""), page.find("id=\"harts\"") - page.find("id=\"caches\""));
  for (const auto& cache : json_["caches"]) {
    const std::size_t line = caches.find("<tr data-name=\"" + cache["name"].get<std::string>() + "\"");
    ASSERT_NE(line, std::string::npos) << cache["name"];
    EXPECT_EQ(attribute_of(caches.substr(line), "<td class=\"number\" data-key=\"allocated\"", "data-value"),
              cache["allocated"].dump());
    EXPECT_EQ(attribute_of(caches.substr(line), "<td class=\"number\" data-key=\"live_bytes\"", "data-value"),
              cache["live_bytes"].dump());
  }
  // The page refers to no other file.
  EXPECT_FALSE(std::regex_search(page, std::regex("(src|href)=\"")));
}

/// @returns the path of axe-core, fetched once (MPL-2.0, not part of the repository); "-" if it is not available.
std::string axe() {
  static const std::string found = [] {
    const std::string file = QM_AXE_FOLDER "/package/axe.min.js";
    (void)qm::test::output_of("mkdir -p '" QM_AXE_FOLDER "' && cd '" QM_AXE_FOLDER
                              "' && { [ -f package/axe.min.js ] || { npm pack --silent axe-core@4.10.2 && "
                              "tar xzf axe-core-4.10.2.tgz; }; } 2>&1");
    return std::filesystem::exists(file) ? file : std::string("-");
  }();
  return found;
}

TEST_F(PageTest, is_used_by_keyboard_at_every_width_light_and_dark_without_an_error) {
  if (browser().empty()) GTEST_SKIP() << "no chromium: sh cmake/install-packages.sh formats could not install it";
  if (!qm::test::is_there("node")) GTEST_SKIP() << "no node: sh cmake/install-packages.sh formats could not install it";
  qm("report --frag --html " + path("used.html"));
  const std::string said = qm::test::output_of("node '" QM_SCHEMAS "/page.mjs' " + browser() + " '" +
                                               path("used.html") + "' '" + path("used") + "' " + axe() + " 2>&1");
  EXPECT_TRUE(std::regex_match(said, std::regex("checked [0-9]{2,}\n"))) << said;
}

TEST_F(PageTest, was_audited_by_axe_core) {
  if (axe() == "-") GTEST_SKIP() << "no axe-core: npm could not fetch it, so accessibility was not audited";
}

}  // namespace
