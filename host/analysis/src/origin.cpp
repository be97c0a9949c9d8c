#include <qm/analysis/origin.hpp>

#include <fmt/core.h>

#include <filesystem>

namespace qm::analysis {

Origin origin_of(const host::Definitions& definitions, std::uint32_t stack, std::uint32_t call_site) {
  Origin origin;
  const auto known = definitions.stacks.find(stack);
  const bool defined = stack == 0 || known != definitions.stacks.end();
  origin.stack = defined ? fmt::format("{:#010x}", stack != 0 ? known->second.id : 0) : fmt::format("number {}", stack);
  if (const auto site = definitions.call_sites.find(call_site); site != definitions.call_sites.end()) {
    const std::string file = std::filesystem::path(site->second.file).filename().string();
    origin.call_site = fmt::format("{}:{} {}", file, site->second.line, site->second.function);
  }
  return origin;
}

}  // namespace qm::analysis
