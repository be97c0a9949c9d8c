#include "placements.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "trial.hpp"

namespace qm::replay {
namespace {

/// Where the new object of each operation lies: 0: with most, else memory of its own.
using Groups = std::vector<std::uint32_t>;

/// @returns @p workload with a cache, or an arena, of its own for each group.
Workload placed(const Workload& workload, const Groups& groups) {
  Workload other = workload;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> supplies;
  for (std::size_t index = 0; index < groups.size(); ++index) {
    Operation& operation = other.operations[index];
    if (groups[index] == 0 || operation.kind == Kind::kFree) continue;
    const auto fresh = static_cast<std::uint32_t>(other.supplies.size());
    const auto [place, is_new] = supplies.try_emplace({groups[index], operation.supply}, fresh);
    if (is_new) {
      Supply supply = workload.supplies[operation.supply];
      supply.arena = groups[index];
      other.supplies.push_back(std::move(supply));
    }
    operation.supply = place->second;
  }
  return other;
}

Groups long_lived(const Workload& workload) {
  const std::size_t all = workload.operations.size();
  Groups groups(all);
  std::vector<std::size_t> born(workload.slots, all);
  const auto end = [&](std::size_t& since, std::size_t now) {
    if (since != all && host::lives_long(now - since, all)) groups[since] = 1;
  };
  for (std::size_t now = 0; now < all; ++now) {
    const Operation& operation = workload.operations[now];
    std::size_t& since = born[operation.slot];
    end(since, now);
    since = operation.kind != Kind::kFree ? now : all;
  }
  for (std::size_t& since : born) end(since, all);
  return groups;
}

Groups by_site(const Workload& workload) {
  std::vector<std::uint64_t> live(workload.sites + 1), peaks(workload.sites + 1);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> objects(workload.slots);  // site and bytes
  for (const Operation& operation : workload.operations) {
    auto& object = objects[operation.slot];
    live[object.first] -= object.second;
    object = {operation.site, operation.size};
    live[operation.site] += operation.size;
    peaks[operation.site] = std::max(peaks[operation.site], live[operation.site]);
  }
  std::vector<std::uint32_t> sites(workload.sites);
  std::iota(sites.begin(), sites.end(), 1u);
  std::stable_sort(sites.begin(), sites.end(), [&](auto a, auto b) { return peaks[a] > peaks[b]; });
  sites.resize(std::min(sites.size(), kSitesApart));
  std::vector<std::uint32_t> group_of(workload.sites + 1);
  for (std::uint32_t place = 0; place < sites.size(); ++place) group_of[sites[place]] = place + 1;
  Groups groups;
  for (const Operation& operation : workload.operations) groups.push_back(group_of[operation.site]);
  return groups;
}

}  // namespace

std::vector<host::Placement> try_placements(const Workload& workload) {
  std::vector<host::Placement> all;
  const auto add = [&](const char* name, const Workload& other) {
    const Cost cost = measure(other);
    const std::uint64_t first = all.empty() ? cost.peak_bytes : all.front().peak_bytes;
    all.push_back({name, cost.peak_bytes, static_cast<std::int64_t>(cost.peak_bytes) - static_cast<std::int64_t>(first),
                   cost.failures});
  };
  add("as it is", workload);
  add("long-lived apart", placed(workload, long_lived(workload)));
  if (workload.sites != 0) add("by site", placed(workload, by_site(workload)));
  return all;
}

}  // namespace qm::replay
