#pragma once
/// The workloads, one file each.

#include "../workload.hpp"

namespace qm::demo {

extern const Workload kNeutral;
extern const Workload kLeak;
extern const Workload kPingpong;
extern const Workload kChurn;
extern const Workload kStacks;
extern const Workload kSites;
extern const Workload kExhaust;
extern const Workload kReplay;
extern const Workload kMisuse;
extern const Workload kStray;
extern const Workload kPlant;
extern const Workload kHold;
extern const Workload kCareless;

}  // namespace qm::demo
