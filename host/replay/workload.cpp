#include "workload.hpp"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <unordered_map>

#include <qm/hal/port.hpp>
#include <qm/heap.hpp>
#include <qm/host/capture.hpp>
#include <qm/host/error.hpp>
#include <qm/host/objects.hpp>
#include <qm/host/stream_reader.hpp>

namespace qm::replay {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& why) {
  throw host::Error(host::Fault::kInput, file.string() + ": " + why);
}

/// Adds operations, and counts the live objects and their bytes.
class Builder {
 public:
  explicit Builder(Workload& workload) : workload_(workload) {}

  void add(const Operation& operation) {
    workload_.operations.push_back(operation);
    if (operation.slot >= sizes_.size()) sizes_.resize(operation.slot + 1);
    live_ += operation.size;
    live_ -= sizes_[operation.slot];
    sizes_[operation.slot] = operation.size;
    workload_.peak_bytes = std::max(workload_.peak_bytes, live_);
    workload_.slots = static_cast<std::uint32_t>(sizes_.size());
    workload_.harts = std::max(workload_.harts, operation.hart + 1u);
  }

 private:
  Workload& workload_;
  std::vector<std::uint32_t> sizes_;
  std::uint64_t live_ = 0;
};

// ---- a trace in text ------------------------------------------------------------------------------------------------

/// @returns the heap's size classes and the arena behind them.
std::vector<Supply> heap_supplies() {
  std::vector<Supply> all;
  for (unsigned number = 1; heap::class_bytes(number) != 0; ++number) {
    const auto bytes = static_cast<std::uint32_t>(heap::class_bytes(number));
    all.push_back({"kmalloc_" + std::to_string(bytes), bytes, 0});
  }
  all.push_back({"kheap", 0, 0});
  return all;
}

std::uint32_t supply_for(const std::vector<Supply>& supplies, std::uint32_t size) {
  const auto fits = [=](const Supply& each) { return each.object_bytes == 0 || each.object_bytes >= size; };
  return static_cast<std::uint32_t>(std::find_if(supplies.begin(), supplies.end(), fits) - supplies.begin());
}

/// One line of a trace.
struct Line {
  char verb = 0;
  std::uint32_t first = 0, second = 0;
};

bool read_number(std::istringstream& words, std::uint32_t& number) {
  std::string word;
  if (!(words >> word)) return false;
  const auto [end, wrong] = std::from_chars(word.data(), word.data() + word.size(), number);
  return wrong == std::errc{} && end == word.data() + word.size();
}

bool read_line(const std::string& text, Line& line) {
  std::istringstream words(text);
  std::string verb, rest;
  if (!(words >> verb) || verb.size() != 1 || !read_number(words, line.first)) return false;
  line.verb = verb[0];
  const bool sized = line.verb == 'a' || line.verb == 'r';
  if (sized ? !read_number(words, line.second) : line.verb != 'f' && line.verb != 't') return false;
  return !(words >> rest);
}

Workload read_trace(const std::filesystem::path& path) {
  constexpr std::uint32_t kMaxSlot = 1 << 24;
  Workload workload;
  workload.supplies = heap_supplies();
  Builder builder(workload);
  std::ifstream file(path);
  std::vector<bool> out;
  std::uint8_t hart = 0;
  std::string text;
  for (std::uint64_t number = 1; std::getline(file, text); ++number) {
    if (text.empty() || text.front() == '#') continue;
    const std::string where = "line " + std::to_string(number) + " ";
    Line line;
    if (!read_line(text, line)) refuse(path, where + "is no operation: neither a capture nor a trace");
    if (line.verb == 't') {
      hart = static_cast<std::uint8_t>(line.first % hal::Port::kMaxHarts);
      continue;
    }
    if (line.first >= kMaxSlot) refuse(path, where + "has a slot above " + std::to_string(kMaxSlot));
    if (line.first >= out.size()) out.resize(line.first + 1);
    if (out[line.first] == (line.verb == 'a')) {
      refuse(path, where + (line.verb == 'a' ? "allocates a slot that is taken" : "is about a slot that is free"));
    }
    out[line.first] = line.verb != 'f';
    const Kind kind = line.verb == 'a' ? Kind::kAllocate : line.verb == 'f' ? Kind::kFree : Kind::kReallocate;
    builder.add({kind, hart, supply_for(workload.supplies, line.second), line.first, line.second, 0});
  }
  return workload;
}

// ---- a capture ------------------------------------------------------------------------------------------------------

/// Turns the events of the last stream into operations.
class FromEvents : public host::EventHandler {
 public:
  explicit FromEvents(Workload& workload) : workload_(workload) {}

  void on_header(const host::Definitions& definitions) override {
    ++streams_;
    definitions_ = &definitions;
    workload_ = {};
    builder_.emplace(workload_);
    supplies_.clear();
    slots_.clear();
    free_slots_.clear();
    origins_.clear();
  }
  void on_gap(const host::Gap&) override { workload_.complete = false; }
  void on_mode(const host::ModeChange& change) override {
    if (change.mode != host::StreamMode::kFull) workload_.complete = false;
  }
  void on_end(const host::CaptureEnd& end) override {
    if (definitions_ != nullptr && definitions_->header.mode != host::StreamMode::kFull) workload_.complete = false;
    workload_.complete = workload_.complete && end.whole(streams_);
    number_sites();
  }
  void on_event(const host::Event& event) override {
    const std::uint32_t supply = supply_of(event.traceable);
    if (supply == kNone) {
      ++workload_.left_out;
      return;
    }
    Operation operation;
    operation.hart = static_cast<std::uint8_t>(event.hart % hal::Port::kMaxHarts);
    operation.supply = supply;
    operation.size = static_cast<std::uint32_t>(std::min<std::uint64_t>(event.requested, kMostBytes));
    switch (event.operation) {
      case host::Operation::kAllocate:
        operation.kind = Kind::kAllocate;
        operation.slot = take_slot(event.address, supply);
        break;
      case host::Operation::kFree:
        operation.kind = Kind::kFree;
        if (!give_slot(event.address, supply, operation.slot)) return;
        break;
      case host::Operation::kReallocate: {
        const bool known = give_slot(event.old_address, supply_of(event.old_traceable), operation.slot);
        operation.kind = known ? Kind::kReallocate : Kind::kAllocate;
        operation.slot = take_slot(event.address, supply);
        break;
      }
    }
    if (operation.kind != Kind::kFree) {
      const auto fresh = static_cast<std::uint32_t>(origins_.size() + 1);
      operation.site = origins_.try_emplace({event.call_site, event.stack}, fresh).first->second;
    }
    builder_->add(operation);
  }

 private:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  static constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 31;

  /// @returns kNone for everything that does not supply memory for objects, and for objects smaller than a pointer.
  std::uint32_t supply_of(std::uint32_t number) {
    const auto [place, fresh] = supplies_.try_emplace(number, kNone);
    const auto found = definitions_->traceables.find(number);
    if (found == definitions_->traceables.end()) {
      supplies_.erase(place);  // it may be defined later
      return kNone;
    }
    const host::Traceable& of = found->second;
    if (!fresh) return place->second;
    if (!host::holds_objects(*definitions_, of) || (!of.arena && of.object_bytes < sizeof(void*))) return kNone;
    workload_.supplies.push_back({of.name, of.arena ? 0 : static_cast<std::uint32_t>(of.object_bytes), 0});
    return place->second = static_cast<std::uint32_t>(workload_.supplies.size() - 1);
  }

  /// Replaces the pairs of call site and stack by sites: stacks that differ further out are of one site. Definitions
  /// may come late, so this is done at the end.
  void number_sites() {
    if (definitions_ == nullptr) return;
    std::map<std::string, std::uint32_t> sites{{"", 0}};
    std::vector<std::uint32_t> site_of(origins_.size() + 1);
    for (const auto& [origin, number] : origins_) {
      const auto fresh = static_cast<std::uint32_t>(sites.size());
      site_of[number] = sites.try_emplace(site_text(origin.first, origin.second), fresh).first->second;
    }
    for (Operation& operation : workload_.operations) operation.site = site_of[operation.site];
    workload_.sites = static_cast<std::uint32_t>(sites.size() - 1);
  }
  [[nodiscard]] std::string site_text(std::uint32_t call_site, std::uint32_t stack) const {
    if (const auto found = definitions_->call_sites.find(call_site); found != definitions_->call_sites.end())
      return found->second.file + ":" + std::to_string(found->second.line);
    const auto found = definitions_->stacks.find(stack);
    return found == definitions_->stacks.end() || found->second.frames.empty()
               ? std::string()
               : std::to_string(found->second.frames.front());
  }

  std::uint32_t take_slot(std::uint64_t address, std::uint32_t supply) {
    std::uint32_t& slot = slots_.try_emplace(address ^ std::uint64_t{supply} << 56, kNone).first->second;
    if (slot != kNone) return slot;
    slot = free_slots_.empty() ? workload_.slots : free_slots_.back();
    if (!free_slots_.empty()) free_slots_.pop_back();
    return slot;
  }
  bool give_slot(std::uint64_t address, std::uint32_t supply, std::uint32_t& slot) {
    const auto found = slots_.find(address ^ std::uint64_t{supply} << 56);
    if (found == slots_.end()) {
      ++workload_.left_out;
      return false;
    }
    slot = found->second;
    free_slots_.push_back(slot);
    slots_.erase(found);
    return true;
  }

  Workload& workload_;
  std::optional<Builder> builder_;
  std::uint32_t streams_ = 0;
  const host::Definitions* definitions_ = nullptr;
  std::unordered_map<std::uint32_t, std::uint32_t> supplies_;
  std::unordered_map<std::uint64_t, std::uint32_t> slots_;  // slots of live objects
  std::vector<std::uint32_t> free_slots_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> origins_;  // call site and stack, from 1 on
};

bool is_capture(const std::filesystem::path& path) {
  host::require_regular_file(path);
  std::ifstream file(path, std::ios::binary);
  if (!file) refuse(path, "cannot be read");
  return file.get() == 0x89;
}

}  // namespace

Workload read_workload(const std::filesystem::path& file) {
  Workload workload;
  if (is_capture(file)) {
    FromEvents events(workload);
    host::read_events(file, events);
  } else {
    workload = read_trace(file);
  }
  workload.name = file.filename().string();
  if (workload.operations.empty()) refuse(file, "nothing in it can be replayed");
  return workload;
}

}  // namespace qm::replay
