// qm replay: the cost of the recorded program with other settings of the allocator.

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

#include <qm/host/counted.hpp>
#include <qm/host/error.hpp>
#include <qm/host/standard_streams.hpp>

#include "placements.hpp"
#include "trial.hpp"
#include "workload.hpp"

namespace {

using namespace qm;

struct Trial {
  std::string name;
  replay::Settings settings;
};

std::vector<Trial> trials() {
  std::vector<Trial> all{{"as they are", {}}};
  for (const std::uint32_t rounds : {1u, 3u, 7u, 13u, 29u, 61u}) {
    all.push_back({fmt::format("magazines of {} at first", rounds), {.magazine_rounds = rounds}});
  }
  for (const std::size_t kib : {8, 16, 32}) {
    all.push_back({fmt::format("slabs of {} KiB", kib), {.slab_bytes = kib << 10, .quantum_caches = kib << 11}});
  }
  for (const std::size_t pages : {0, 1, 4, 16}) {
    const std::string name = pages == 0 ? "no quantum caches" : fmt::format("quantum caches to {} KiB", pages * 4);
    all.push_back({name, {.quantum_caches = pages << 12}});
  }
  return all;
}

std::string percent_more(std::size_t bytes, std::uint64_t peak) {
  if (peak == 0) return "-";
  return fmt::format("{:+.1f} %", 100.0 * (static_cast<double>(bytes) / static_cast<double>(peak) - 1));
}

void print_placements(const replay::Workload& workload) {
  fmt::print("\n{:<27} {:>13} {:>11}\n", "placement", "peak, bytes", "more");
  for (const host::Placement& placement : replay::try_placements(workload)) {
    fmt::print(
        "{:<27} {:>13} {:>+11}{}\n", placement.name, placement.peak_bytes, placement.more,
        placement.failures != 0 ? fmt::format("  {} failed", host::counted(placement.failures, "allocation")) : "");
  }
  if (workload.sites == 0) fmt::print("by site: no sites are recorded\n");
}

int run(const std::string& file, bool placements) {
  const replay::Workload workload = replay::read_workload(file);
  const auto operations = static_cast<double>(workload.operations.size());
  fmt::print("{}: {} on {}, at most {} asked for at once\n", workload.name,
             host::counted(workload.operations.size(), "operation"), host::counted(workload.harts, "hart"),
             host::counted(workload.peak_bytes, "byte"));
  if (workload.left_out != 0) {
    fmt::print("left out: {} of arenas, of what caches are made of, and of objects from before\n",
               host::counted(workload.left_out, "event"));
  }
  if (!workload.complete) fmt::print("INCOMPLETE: events are missing, and what they did is not replayed\n");
  if (placements) {
    print_placements(workload);
    return 0;
  }
  fmt::print("\n{:<27} {:>13} {:>11} {:>15} {:>17} {:>7}\n", "settings", "peak, bytes", "over asked", "misses per 1000",
             "arenas per 1000", "ns each");
  for (const Trial& trial : trials()) {
    const replay::Cost cost = replay::try_out(workload, trial.settings);
    fmt::print("{:<27} {:>13} {:>11} {:>15.2f} {:>17.2f} {:>7.1f}", trial.name, cost.peak_bytes,
               percent_more(cost.peak_bytes, workload.peak_bytes), 1000 * static_cast<double>(cost.misses) / operations,
               1000 * static_cast<double>(cost.arena_trips) / operations, cost.nanoseconds);
    fmt::print("{}\n",
               cost.failures != 0 ? fmt::format("  {} failed", host::counted(cost.failures, "allocation")) : "");
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  host::open_standard_streams();
  CLI::App app("Quartermaster's host tool", "qm");
  std::string file;
  CLI::App* replay = app.add_subcommand("replay", "what other magazines, slabs and quantum caches would have cost");
  replay
      ->add_option("file", file,
                   "a capture, or a trace in text: lines `t THREAD`, `a SLOT SIZE`, `r SLOT SIZE`, `f SLOT`")
      ->required();
  bool placements = false;
  replay->add_flag("--placements", placements,
                   "the peak if long-lived objects, or those of the 8 largest sites, had memory of their own");
  replay->footer(
      "The allocator, built for this machine, does what was recorded, on one thread that stands for one hart after the "
      "other: all\n"
      "but the time is the same each time. `As they are`: magazines as suits the objects, slabs from 4 KiB, quantum "
      "caches to 8 KiB.\n"
      "Misses: operations that found no object or no room in their hart's magazines. Arenas: segments that no quantum "
      "cache had.\n"
      "Long-lived: live for more than a tenth of the operations.\n"
      "Status: 0 done, 1 no such input, 2 wrong usage.");
  app.require_subcommand(1);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    const int status = run(file, placements);
    host::flush_standard_output();
    return status;
  } catch (const std::exception& error) {
    fmt::print(stderr, "qm: {}\n", error.what());
    return 1;
  }
}
