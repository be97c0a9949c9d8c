// The page of `qm report --html` in a browser: what it shows is what the JSON report says.

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

/// The value of @p attribute of the first element that @p opening begins, as `<div class="card" data-key="freed"`.
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
  // The flame graph's root, the treemap, the end of the timeline: each the sum of what it shows.
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
  // It needs nothing from elsewhere.
  EXPECT_FALSE(std::regex_search(page, std::regex("(src|href)=\"")));
}

}  // namespace
