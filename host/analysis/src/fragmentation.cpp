#include <qm/analysis/fragmentation.hpp>

#include <algorithm>
#include <map>

#include <qm/analysis/report.hpp>
#include <qm/host/error.hpp>
#include <qm/host/objects.hpp>

namespace qm::analysis {
namespace {

constexpr std::uint64_t kPageBytes = Fragmentation::kPageBytes;
/// 16 GiB: more is no memory of a device, but damage.
constexpr std::uint64_t kMostPages = std::uint64_t{1} << 22;

/// Pages that follow each other, all used at some time.
struct Run {
  std::uint64_t first = 0, end = 0;  // pages
  std::size_t place = 0;             // of the first in the numbering of all used pages
};

}  // namespace

void Occupancy::on_header(const host::Definitions& definitions) {
  definitions_ = &definitions;
  objects_.clear();
  steps_.clear();
  live_.clear();
}

void Occupancy::end(std::uint64_t address, Step& step) {
  const auto found = live_.find(address);
  if (found == live_.end()) return;
  step.freed = found->second;
  objects_[step.freed].died = static_cast<std::uint32_t>(steps_.size());
  live_.erase(found);
}

void Occupancy::on_event(const host::Event& event) {
  const auto of = definitions_->traceables.find(event.traceable);
  if (of == definitions_->traceables.end() || !host::holds_objects(*definitions_, of->second)) return;
  Step step;
  step.ticks = event.ticks;
  const bool frees = event.operation != host::Operation::kAllocate;
  if (frees) end(event.operation == host::Operation::kFree ? event.address : event.old_address, step);
  if (event.operation == host::Operation::kFree) {
    if (step.freed == kNone) return;  // it is older than the stream
  } else if (event.address >= kPageBytes) {
    if (!frees) end(event.address, step);
    Object object;
    object.address = event.address;
    object.bytes = std::max<std::uint64_t>(event.allocated, 1);
    object.ticks = event.ticks;
    object.born = static_cast<std::uint32_t>(steps_.size());
    object.stack = event.stack;
    object.call_site = event.call_site;
    step.taken = static_cast<std::uint32_t>(objects_.size());
    live_[object.address] = step.taken;
    objects_.push_back(object);
  }
  if (step.freed != kNone || step.taken != kNone) steps_.push_back(step);
}

/// Replays the operations page by page.
class FragmentationMaker {
 public:
  using Object = Occupancy::Object;
  using Step = Occupancy::Step;

  FragmentationMaker(const Occupancy& of, const Report& report) : of_(of), report_(report) { find_runs(); }

  Fragmentation make() {
    made_.operations = of_.steps_.size();
    lay_out_strips();
    replay();
    find_pins();
    return std::move(made_);
  }

 private:
  [[nodiscard]] std::uint64_t lived(const Object& object) const {
    return (object.died != Occupancy::kNone ? object.died : of_.steps_.size()) - object.born;
  }
  [[nodiscard]] bool is_long(const Object& object) const { return host::lives_long(lived(object), of_.steps_.size()); }

  void find_runs() {
    const std::string& file = report_.file;
    if (of_.objects_.empty())
      throw host::Error(host::Fault::kInput, file + ": no event in it is about an object in memory");
    std::vector<Run> used;
    for (const Object& object : of_.objects_) {
      const std::uint64_t last = object.address + (object.bytes - 1);
      if (object.bytes / kPageBytes > kMostPages || last < object.address)
        throw host::Error(host::Fault::kInput, file + ": an object in it is larger than memory");
      used.push_back({object.address / kPageBytes, last / kPageBytes + 1, 0});
    }
    std::sort(used.begin(), used.end(), [](const Run& a, const Run& b) { return a.first < b.first; });
    for (const Run& run : used) {
      if (runs_.empty() || runs_.back().end < run.first) runs_.push_back(run);
      else runs_.back().end = std::max(runs_.back().end, run.end);
    }
    std::uint64_t pages = 0;
    for (Run& run : runs_) {
      run.place = static_cast<std::size_t>(pages);
      pages += run.end - run.first;
      if (pages > kMostPages) throw host::Error(host::Fault::kInput, file + ": its objects are more than memory");
    }
    bytes_.resize(static_cast<std::size_t>(pages));
    long_bytes_.resize(bytes_.size());
  }

  /// Calls @p visit with each page of @p object, by its place among the used pages, and the bytes of the object in it.
  template <class Visit>
  void for_each_page(const Object& object, Visit visit) const {
    const std::uint64_t first = object.address / kPageBytes;
    const auto behind = std::upper_bound(runs_.begin(), runs_.end(), first,
                                         [](std::uint64_t page, const Run& run) { return page < run.first; });
    std::size_t place = (behind - 1)->place + static_cast<std::size_t>(first - (behind - 1)->first);
    std::uint64_t left = object.bytes, within = kPageBytes - object.address % kPageBytes;
    for (; left != 0; ++place, within = kPageBytes) {
      const std::uint64_t here = std::min(left, within);
      visit(place, here);
      left -= here;
    }
  }

  /// Divides the used pages, and gaps of a few pages between them, into strips of equally many pages.
  void lay_out_strips() {
    std::uint64_t pages = 1;
    std::vector<Run> areas;
    const auto strips = [&] {
      areas.clear();
      std::uint64_t sum = 0;
      for (const Run& run : runs_) {
        if (!areas.empty() && run.first - areas.back().end <= 4 * pages) areas.back().end = run.end;
        else areas.push_back(run);
      }
      for (const Run& area : areas) sum += (area.end - area.first + pages - 1) / pages;
      return sum;
    };
    while (strips() > Fragmentation::kStrips) pages *= 2;
    std::uint64_t before = areas.front().first;
    strip_of_.resize(bytes_.size());
    auto run = runs_.begin();
    for (const Run& area : areas) {
      const std::size_t first = made_.strips.size();
      for (std::uint64_t page = area.first; page < area.end; page += pages) {
        made_.strips.push_back({page * kPageBytes, std::min(pages, area.end - page), page - before, {}});
        before = page + made_.strips.back().pages;
      }
      for (; run != runs_.end() && run->first < area.end; ++run) {
        for (std::uint64_t page = run->first; page < run->end; ++page)
          strip_of_[run->place + static_cast<std::size_t>(page - run->first)] =
              first + static_cast<std::size_t>((page - area.first) / pages);
      }
    }
    strip_bytes_.resize(made_.strips.size());
    strip_long_bytes_.resize(made_.strips.size());
  }

  template <bool taken>
  void change(std::uint32_t number) {
    const Object& object = of_.objects_[number];
    const bool is_long = this->is_long(object);
    const auto add = [](std::uint64_t& to, std::uint64_t bytes) { to += taken ? bytes : 0 - bytes; };
    add(in_use_, object.bytes);
    for_each_page(object, [&](std::size_t page, std::uint64_t bytes) {
      const bool was_used = bytes_[page] != 0;
      add(bytes_[page], bytes);
      add(strip_bytes_[strip_of_[page]], bytes);
      if (is_long) {
        add(long_bytes_[page], bytes);
        add(strip_long_bytes_[strip_of_[page]], bytes);
      }
      if (was_used != (bytes_[page] != 0)) add(spanned_, kPageBytes);
    });
  }
  void apply(const Step& step) {
    if (step.freed != Occupancy::kNone) change<false>(step.freed);
    if (step.taken != Occupancy::kNone) change<true>(step.taken);
  }

  void replay() {
    const std::size_t count = of_.steps_.size(), columns = std::min(count, Fragmentation::kColumns);
    std::uint64_t most_unused = 0;
    for (std::size_t now = 0; now < count; ++now) {
      const Step& step = of_.steps_[now];
      apply(step);
      made_.peak_in_use = std::max(made_.peak_in_use, in_use_);
      made_.peak_spanned = std::max(made_.peak_spanned, spanned_);
      const std::uint64_t unused = spanned_ > in_use_ ? spanned_ - in_use_ : 0;
      if (unused > most_unused) {
        most_unused = unused;
        made_.worst_operation = now;
        made_.worst_ticks = step.ticks;
        made_.worst_in_use = in_use_;
        made_.worst_spanned = spanned_;
      }
      if (now + 1 == (made_.column_ticks.size() + 1) * count / columns) close_column(step.ticks);
    }
  }
  void close_column(std::uint64_t ticks) {
    made_.column_ticks.push_back(ticks);
    for (std::size_t strip = 0; strip < made_.strips.size(); ++strip) {
      const std::uint64_t all = made_.strips[strip].pages * kPageBytes, used = strip_bytes_[strip];
      const int percent = static_cast<int>(std::min<std::uint64_t>(100, (100 * used + all - 1) / all));
      made_.strips[strip].cells.push_back(strip_long_bytes_[strip] == used ? -percent : percent);
    }
  }

  /// @returns the name of the site of @p object.
  std::string site_of(const Object& object) const {
    const Origin origin = origin_of(report_.summary->definitions(), object.stack, object.call_site);
    const auto found = std::find_if(report_.stacks.begin(), report_.stacks.end(),
                                    [&](const StackEntry& stack) { return stack.origin == origin; });
    return found != report_.stacks.end() ? found->name : "(no stack)";
  }

  void find_pins() {
    std::fill(bytes_.begin(), bytes_.end(), 0);
    std::fill(long_bytes_.begin(), long_bytes_.end(), 0);
    for (std::size_t now = 0; now <= made_.worst_operation; ++now) apply(of_.steps_[now]);
    // By page and site: the bytes there. The sites have numbers, as each pair of stack and call site is named once.
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::size_t> sites;
    std::map<std::string, std::size_t> numbers;
    std::vector<Pin> pins;
    std::vector<std::vector<std::uint64_t>> ages;
    std::map<std::size_t, std::map<std::size_t, std::uint64_t>> pages;
    const auto site = [&](const Object& object) {
      const auto [known, is_new] = sites.try_emplace({object.stack, object.call_site}, 0);
      if (!is_new) return known->second;
      const std::string name = site_of(object);
      known->second = numbers.try_emplace(name, pins.size()).first->second;
      if (known->second == pins.size()) {
        pins.emplace_back().site = name;
        ages.emplace_back();
      }
      return known->second;
    };
    const auto live = [&](const Object& object) {
      return object.born <= made_.worst_operation &&
             (object.died == Occupancy::kNone || object.died > made_.worst_operation);
    };
    for (const Object& object : of_.objects_) {
      if (!live(object) || !is_long(object)) continue;
      for_each_page(object, [&](std::size_t page, std::uint64_t bytes) {
        if (bytes_[page] == long_bytes_[page] && bytes_[page] < kPageBytes) pages[page][site(object)] += bytes;
      });
    }
    std::map<std::size_t, std::size_t> owners;  // page -> site
    for (const auto& [page, bytes_of] : pages) {
      const auto most = std::max_element(bytes_of.begin(), bytes_of.end(),
                                         [](const auto& a, const auto& b) { return a.second < b.second; });
      owners[page] = most->first;
      ++pins[most->first].pages;
      pins[most->first].bytes += kPageBytes - bytes_[page];
    }
    for (const Object& object : of_.objects_) {
      bool begins = true;
      bool pins_any = false;
      for_each_page(object, [&](std::size_t page, std::uint64_t) {
        const auto owner = owners.find(page);
        if (owner != owners.end()) {
          const std::size_t kind = is_long(object) ? 2 : lived(object) > of_.steps_.size() / 100 ? 1 : 0;
          if (begins) ++pins[owner->second].lifetimes[kind];
          pins_any = pins_any || (live(object) && owner->second == site(object));
        }
        begins = false;
      });
      if (!pins_any) continue;
      ++pins[site(object)].objects;
      ages[site(object)].push_back(made_.worst_ticks - std::min(made_.worst_ticks, object.ticks));
    }
    for (std::size_t number = 0; number < pins.size(); ++number) {
      if (ages[number].empty()) continue;
      const auto middle = ages[number].begin() + static_cast<std::ptrdiff_t>(ages[number].size() / 2);
      std::nth_element(ages[number].begin(), middle, ages[number].end());
      pins[number].median_ticks = *middle;
    }
    std::erase_if(pins, [](const Pin& pin) { return pin.pages == 0; });
    std::stable_sort(pins.begin(), pins.end(), [](const Pin& a, const Pin& b) { return a.bytes > b.bytes; });
    pins.resize(std::min(pins.size(), Fragmentation::kPins));
    made_.pins = std::move(pins);
  }

  const Occupancy& of_;
  const Report& report_;
  Fragmentation made_;
  std::vector<Run> runs_;
  // bytes in use, of all objects and of long-lived ones, by used page and by strip
  std::vector<std::uint64_t> bytes_, long_bytes_, strip_bytes_, strip_long_bytes_;
  std::vector<std::size_t> strip_of_;  // by used page
  std::uint64_t in_use_ = 0, spanned_ = 0;
};

Fragmentation Occupancy::fragmentation(const Report& report) const { return FragmentationMaker(*this, report).make(); }

}  // namespace qm::analysis
