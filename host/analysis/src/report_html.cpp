#include <qm/analysis/report.hpp>

namespace qm::analysis {

// page.html as a string, made by CMakeLists.txt.
extern const char kPage[];

std::string report_html(const Report& report) {
  std::string page = kPage;
  std::string json = report_json(report);
  // Inside a script element, only this character could end the element or hide its end.
  for (std::size_t at = 0; (at = json.find('<', at)) != std::string::npos; at += 6) json.replace(at, 1, "\\u003c");
  static constexpr std::string_view place = "\"@REPORT@\"";
  return page.replace(page.find(place), place.size(), json);
}

}  // namespace qm::analysis
